package summary

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/review"
	"wending/views/text"
)

// A report states what a judge is fit for only once people have judged enough of the answers that it rated.
func TestAJudgeIsShownBesidePeople(t *testing.T) {
	t.Parallel()
	catalogue, err := text.NewCatalogue()
	require.NoError(t, err)
	ctx := text.WithLocale(t.Context(), catalogue.Locale(text.Languages[0], ""))
	shown := func(runs int) string {
		var list []review.Labelled
		for n := range runs {
			list = append(list, review.Labelled{Judge: n%2 == 0, Person: n%2 == 0 || n%9 == 0, IsSampled: true})
		}
		fit := review.FitOf(list, review.Judgements{Runs: 600, Passes: 300, Questions: 600})
		var page strings.Builder
		require.NoError(t, besidePeople(Summary{}, Judge{Name: "<j>", Fit: fit}).Render(ctx, &page))
		return page.String()
	}
	require.Empty(t, shown(0))
	require.Contains(t, shown(10), "20")
	page := shown(60)
	require.Contains(t, page, "&lt;j&gt;")
	require.Contains(t, page, "0.7")
	require.Contains(t, page, "±")
}
