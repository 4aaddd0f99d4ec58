package ui

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/views/text"
)

// Two tasks with the same results do not suggest that every difference can be detected.
func TestADesignWithoutVarianceIsNotKnown(t *testing.T) {
	t.Parallel()
	catalogue, err := text.NewCatalogue()
	require.NoError(t, err)
	page := func(agreement float64) string {
		var html strings.Builder
		one := Design{DesignSize: DesignSize{Questions: 120, Runs: 5, Calls: 600, PassRate: &agreement,
			Agreement: &agreement}, Basis: "comparison", Of: []string{"甲", "乙"}}
		require.NoError(t, DesignPart(one).Render(text.WithLocale(t.Context(), catalogue.Locale("zh-CN", "")), &html))
		return html.String()
	}
	require.Contains(t, page(0), "每题结果都相同")
	require.NotContains(t, page(0), "0.0 个百分点")
	require.NotContains(t, page(0), "data-design")
	require.Contains(t, page(0.02), "120 题 × 5 次 = 600 次调用：能看出一致率相差 2.0 个百分点", "before the script")
}
