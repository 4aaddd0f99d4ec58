package taskpages_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/views/taskpages"
	"wending/views/text"
	"wending/views/ui"
)

// Questions that still wait for answers are not called undecidable while their task is running.
func TestUnansweredQuestionsAreUnfinishedWhileTheTaskRuns(t *testing.T) {
	t.Parallel()
	catalogue, err := text.NewCatalogue()
	require.NoError(t, err)
	for _, test := range []struct {
		lang           string
		status         db.TaskStatus
		want, unwanted string
	}{
		{"zh-CN", db.TaskRunning, "未完成", "无法判断"},
		{"zh-CN", db.TaskSucceeded, "无法判断", "未完成"},
		{"en", db.TaskRunning, "Not finished", "Cannot tell"},
		{"en", db.TaskSucceeded, "Cannot tell", "Not finished"},
	} {
		agreement := 1.0
		live := taskpages.Live{Task: db.Task{Status: test.status, TotalItems: 120, TotalVariants: 1, RunsPerItem: 5}}
		live.Statistics.Agreement, live.Statistics.Levels = &agreement, map[string]int{"identical": 1, "unknown": 119}
		var page strings.Builder
		require.NoError(t, taskpages.LivePart(ui.Frame{},
			live).Render(text.WithLocale(t.Context(), catalogue.Locale(test.lang, "")), &page))
		require.Contains(t, page.String(), test.want+" 119", test.status)
		require.NotContains(t, page.String(), test.unwanted+" 119", test.status)
	}
}
