package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDemoGroupsAnswersByWhatTheyConclude(t *testing.T) {
	t.Parallel()
	var user strings.Builder
	for n, answer := range []string{"分析：先确认。\n结论：北京。", "根据公开资料，答案是北京。以上分析仅供参考。", "暂时无法确定", "应当在 30 日内答复。", "应当在 35 日内答复。",
		"应在 30 日内答复。"} {
		fmt.Fprintf(&user, "Answer %d:\n<data-m>\n%s\n</data-m>\n", n+1, answer)
	}
	require.JSONEq(t,
		`{"groups": [[1,2],[3],[4,6],[5]], "notes": ["说的是：北京","说的是：暂时无法确定","说的是：应当在 30 日内答复。","说的是：应当在 35 日内答复。"]}`,
		groupDemo(user.String()))
}
