package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

func TestAnswersThatDifferInFormHaveOneContent(t *testing.T) {
	t.Parallel()
	contents, count := measure.Contents([]string{
		"答复期限为 30 日。", "**答复期限为30日**", "答复期限为 35 日。", "", "  ", `{"a": 1, "b": 2}`, "```json\n{\"b\":2,\"a\":1.0}\n```",
		"3~5 天", "35 天",
	})
	require.Equal(t, []int{0, 0, 1, 2, 2, 3, 3, 4, 5}, contents)
	require.Equal(t, 6, count)
}
