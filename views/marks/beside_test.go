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
