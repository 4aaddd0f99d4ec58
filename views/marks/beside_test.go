package marks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure/blocks"
)

// An answer without a comparison is shown as far as there is room: at least one block, and no heading without its
// text.
func TestTheBeginningOfAnUncomparedAnswerHasRoom(t *testing.T) {
	t.Parallel()
	for answer, shown := range map[string]int{
		"":                     0,
		"短。":                   1,
		"一。\n\n二。\n\n三。\n\n四。": 3,
		strings.Repeat("长", 300) + "\n\n二。":          1,
		"短。\n\n" + strings.Repeat("长", 300):          1,
		"短。\n\n## 标题\n\n" + strings.Repeat("长", 300): 1,
		"## 标题\n\n短。\n\n三。":                          3,
	} {
		require.Equal(t, shown, shownBeside(blocks.Cut(answer)), answer)
	}
}

// A preview is plain text: marks of Markdown mean nothing on one line.
func TestAPreviewHasNoMarks(t *testing.T) {
	t.Parallel()
	require.Equal(t, "出发前看这几条 时间和钱：下午一点进营 2 * 3 = 6 C#", Preview("## 出发前看这几条\n\n- **时间和钱**：下午一点进营\n> 2 * 3 = 6\n\nC#", 100))
	require.Equal(t, "长长…", Preview("# 长长长", 2))
}
