package taskpages_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/static"
	"wending/views/taskpages"
	"wending/views/text"
	"wending/views/ui"
)

// states are the states of questions for a board.
type states []report.ItemState

func (s states) Len() int                          { return len(s) }
func (s states) State(number int) report.ItemState { return s[number-1] }

// A question's letter shows its state and, once it is done, how alike its answers are; a capital means that a run
// failed.
func TestABoardHasALetterForEachQuestion(t *testing.T) {
	t.Parallel()
	board := taskpages.NewBoard(states{report.ItemWaiting, report.ItemRunning, report.ItemDone, report.ItemDone,
		report.ItemFailed, report.ItemFailed},
		[]measure.Level{"", measure.Identical, "", measure.Facts, measure.Different, ""})
	require.Equal(t, "wrdcXD", board.States)
	require.Equal(t, "dD", taskpages.NewBoard(states{report.ItemDone, report.ItemFailed}, nil).States,
		"several variants have no level in common")
}

// maxFirstVisit is the maximum number of bytes that a first visit may transfer, scripts and styles included.
const maxFirstVisit = 110_000

// The overview of a task with 1,000 questions opens quickly on a slow line.
func TestTheOverviewOfAThousandQuestionsIsSmall(t *testing.T) {
	t.Parallel()
	catalogue, err := text.NewCatalogue()
	require.NoError(t, err)
	live := taskpages.Live{Task: db.Task{ID: uuid.New(), Name: "一千题", Status: db.TaskRunning, TotalItems: 1000,
		TotalVariants: 1, RunsPerItem: 5}}
	live.Board = taskpages.Board{States: strings.Repeat("icmXorwwmi", 100)}
	frame := ui.Frame{Title: "一千题", Styles: []string{"list.css", "task.css", "replay.css"}, Scripts: []string{"task.js"}}
	var page bytes.Buffer
	require.NoError(t, taskpages.OverviewPage(frame,
		taskpages.Overview{Live: live}).Render(text.WithLocale(t.Context(), catalogue.Locale("zh-CN", "")), &page))
	require.Equal(t, 1000, strings.Count(page.String(), "/results/"))
	total := zipped(t, page.Bytes())
	var files []string
	for _, found := range regexp.MustCompile(`(?:href|src)="(/static/[^"]+)"`).FindAllStringSubmatch(page.String(), -1) {
		files = append(files, found[1])
	}
	slices.Sort(files)
	for _, path := range slices.Compact(files) {
		answer := httptest.NewRecorder()
		static.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, answer.Code, path)
		total += zipped(t, answer.Body.Bytes())
	}
	require.Greater(t, total, 50_000, "everything was counted")
	require.Less(t, total, maxFirstVisit)
}

func zipped(t *testing.T, content []byte) int {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return packed.Len()
}
