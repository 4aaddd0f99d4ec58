package handlers_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// The use of tools is counted over a task, and a run that called different tools than most runs of its question is
// shown with the first difference: on the page, in the API, in the workbook and on its replay.
func TestToolsAreCountedAndOtherPathsAreFound(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var firsts atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		say(w, `{"event":"tool_started","data":{"tool":"<检索>","id":"a"}}`,
			`{"event":"tool_finished","data":{"tool":"<检索>","id":"a"}}`)
		switch {
		case call.Question == "一?" && firsts.Add(1) == 3:
			say(w, `{"event":"tool_started","data":{"tool":"计算","id":"b"}}`,
				`{"event":"tool_failed","data":{"tool":"计算","id":"b","error":"no"}}`)
		case call.Question == "二?":
			say(w, `{"event":"tool_started","data":{"tool":"<检索>","id":"c"}}`,
				`{"event":"tool_finished","data":{"tool":"<检索>","id":"c"}}`)
		}
		say(w, `{"event":"node_finished","data":{"output":"x"}}`)
	})
	id := s.create(t, fake.URL, map[string]string{"concurrency": "1",
		"file@q.csv": "question_id,question,standard_answer\nq1,一?,a\nq2,二?,a\n"})
	s.awaitDone(t, id)
	var found struct {
		Tools []struct {
			Tool                string
			Calls, Failed, Runs int
			P50                 *float64 `json:"duration_p50_ms"`
		}
		Items []struct {
			Number, Step int
			UnitID       int64 `json:"unit_id"`
			Tool, Usual  string
		}
		Pagination struct{ Total int }
	}
	dbtest.Await(t, time.Minute, "the events", func() bool {
		s.get(t, api+"/"+id+"/tools").into(t, &found)
		return len(found.Tools) == 2 && found.Tools[0].Calls == 15
	})
	require.Len(t, found.Tools, 2)
	require.Equal(t, "<检索>", found.Tools[0].Tool)
	require.Equal(t, []int{15, 0, 10}, []int{found.Tools[0].Calls, found.Tools[0].Failed, found.Tools[0].Runs})
	require.NotNil(t, found.Tools[0].P50)
	require.Equal(t, []int{1, 1, 1}, []int{found.Tools[1].Calls, found.Tools[1].Failed, found.Tools[1].Runs})
	require.Len(t, found.Items, 1)
	require.Equal(t, 1, found.Pagination.Total)
	one := found.Items[0]
	require.Equal(t, []int{1, 2}, []int{one.Number, one.Step})
	require.Equal(t, []string{"计算", ""}, []string{one.Tool, one.Usual})

	page := s.get(t, "/tasks/"+id+"/gallery").page(t)
	require.Equal(t, 2, page.Find("#tools tbody tr").Length())
	require.Equal(t, 1, page.Find("#tools h2 a.why").Length())
	for _, row := range []string{"#tools tbody tr:first-child td:nth-child(2) a", "#tools tbody tr:last-child a[href*='outcome=failed']",
		"#tools tbody tr:first-child a[href*='outcome=first']"} {
		number := page.Find(row)
		require.Equal(t, 1, number.Length(), row)
		address, _, _ := strings.Cut(number.AttrOr("href", ""), "#")
		listed := s.get(t, address).page(t)
		require.Contains(t, listed.Find("#calls").Text(), number.Text(), "as many calls")
		require.Equal(t, http.StatusOK, s.get(t, listed.Find("#calls + ul a").First().AttrOr("href", "")).StatusCode)
	}
	require.Equal(t, http.StatusSeeOther, s.get(t, "/tasks/"+id+"/gallery?tool=none").StatusCode)
	link := page.Find("#tools .causes a")
	require.Contains(t, link.AttrOr("href", ""), "#at=")
	unit, _, _ := strings.Cut(link.AttrOr("href", ""), "#")
	require.Contains(t, s.get(t, unit).page(t).Find(".note").Text(), "计算")
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx").body))
	require.NoError(t, err)
	require.Subset(t, book.GetSheetList(), []string{"工具", "工具调用与多数不同的运行", "稳定性"})
	rows, err := book.GetRows("工具")
	require.NoError(t, err)
	require.Equal(t, []string{"<检索>", "15", "0", "10"}, rows[1][:4])
}
