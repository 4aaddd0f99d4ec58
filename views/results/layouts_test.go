package results

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/measure"
	"wending/views/marks"
	"wending/views/text"
)

// cardOf returns a question's card with the given answers.
func cardOf(answers ...string) Card {
	card := Card{Layouts: marks.NewLayouts(1 << 20), Allowance: &marks.Allowance{}}
	keys := make([][]byte, len(answers))
	for n, answer := range answers {
		card.Runs = append(card.Runs, db.Run{ID: int64(n + 1), Variant: 1, RunIndex: n + 1, Status: db.RunSucceeded,
			Response: &answer, ResponseLength: len([]rune(answer))})
		keys[n] = measure.Key([]byte(answer))
	}
	card.Letters, card.Groups = measure.Letters(keys)
	return card
}

func TestAnswersAreLaidOutOnce(t *testing.T) {
	t.Parallel()
	report, card := Report{View: Merged}, cardOf("在 30 日内答复。", "在 30 日内答复。", "在 35 日内答复。")
	first := report.Aligned(card)
	require.Same(t, first.Reading, report.Aligned(card).Reading)
	card.Runs[2].ID = 9 // it was asked again
	require.NotSame(t, first.Reading, report.Aligned(card).Reading)
}

// Once a page's allowance is used up, a question shows the beginning of each answer and a control that lays them out;
// a question with a cached layout is shown in full.
func TestAPageLaysOutNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	report, card := Report{View: Merged}, cardOf("开头一样。"+strings.Repeat("甲", 500), "开头一样。"+strings.Repeat("乙", 500),
		"<b>不是标记</b>")
	card.Allowance.Take(1 << 30)
	catalogue, err := text.NewCatalogue()
	require.NoError(t, err)
	var page strings.Builder
	require.NoError(t, CardPart(report, card).Render(text.WithLocale(t.Context(), catalogue.Locale("zh-CN", "")), &page))
	require.Contains(t, page.String(), "内容较长，点开对齐")
	require.Contains(t, page.String(), `class="postponed"`)
	require.Contains(t, page.String(), "hx-get")
	require.Contains(t, page.String(), "开头一样。甲")
	require.NotContains(t, page.String(), strings.Repeat("甲", 300))
	require.NotContains(t, page.String(), "<b>不是")

	card.Allowance = &marks.Allowance{}
	require.False(t, report.Aligned(card).IsPostponed)
	card.Allowance.Take(1 << 30)
	require.False(t, report.Aligned(card).IsPostponed, "it is known by now")
	card.Layouts = nil
	require.True(t, report.Aligned(card).IsPostponed)
	report.IsDocument = true
	require.False(t, report.Aligned(card).IsPostponed, "nothing can be opened on paper")
}

// A standard answer shows about six lines, in whole blocks.
func TestALongStandardAnswerIsFolded(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		content    string
		head, rest int
	}{
		"short":             {"三十日内答复。", 1, 0},
		"many lines":        {strings.Repeat("- 一条。\n", 40), 6, 34},
		"long paragraphs":   {strings.Repeat("字", 150) + "\n" + strings.Repeat("字", 150), 1, 1},
		"one long sentence": {strings.Repeat("字", 1500), 0, 1},
	} {
		head, rest := standardBlocks(one.content)
		require.Len(t, head, one.head, name)
		require.Len(t, rest, one.rest, name)
	}
}
