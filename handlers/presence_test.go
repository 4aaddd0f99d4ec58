package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// The tabs of a task show counts, and a reviewer's pages are notified of others' verdicts, but not of the reviewer's
// own.
func TestPagesLearnOfTheVerdictsOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.create(t, agenttest.New(t, unsteady()).URL, nil)
	s.awaitDone(t, id)
	seen := func() *goquery.Selection {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/tasks/"+id+"/presence", http.NoBody)
		require.NoError(t, err)
		request.Header.Set("HX-Request", "true")
		request.AddCookie(&http.Cookie{Name: "reviewer", Value: "%E6%9D%8E%E9%9B%B7"})
		return s.do(t, request).page(t).Find("[data-latest]")
	}
	say := func(question, reviewer string) {
		body := map[string]any{"reviewer": reviewer, "verdict": "PASS", "version": 0}
		require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, api+"/"+id+"/items/"+question+"/review", body).StatusCode)
	}
	var list struct {
		Items []struct {
			QuestionID string `json:"question_id"`
		}
	}
	s.get(t, api+"/"+id+"/items").into(t, &list)
	total := len(list.Items)
	require.Equal(t, judgedOf(0, total), seen().Text())
	require.Equal(t, "0", seen().AttrOr("data-latest", ""))
	say(list.Items[0].QuestionID, "李雷")
	require.Equal(t, judgedOf(1, total), seen().Text())
	require.Equal(t, "0", seen().AttrOr("data-latest", ""), "her own")
	say(list.Items[0].QuestionID, "韩梅梅")
	require.Equal(t, judgedOf(1, total), seen().Text())
	require.NotEqual(t, "0", seen().AttrOr("data-latest", ""))
	require.Contains(t, seen().AttrOr("data-news", ""), "韩梅梅")

	results := s.get(t, "/tasks/"+id+"/results").page(t)
	require.Equal(t, "/tasks/"+id+"/presence", results.Find(".task-news").AttrOr("data-presence", ""))
	require.Equal(t, seen().AttrOr("data-state", ""), results.Find(".task-news").AttrOr("data-state", ""),
		"nothing else has changed")
	require.Equal(t, judgedOf(total, 0)[:1], results.Find(".task-tabs .tab-count").First().Text(), "how many can be read")
}

// A page updates itself with the verdicts given since its last request, each in its own place; if there are too many,
// it receives none. Changes of the task are distinguished from verdicts.
func TestPagesTakeOverTheVerdictsOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.create(t, agenttest.New(t, unsteady()).URL, nil)
	s.awaitDone(t, id)
	ask := func(after string) *goquery.Document {
		return s.fragment(t, "/tasks/"+id+"/presence?after="+after).page(t)
	}
	say := func(question string, run any, version int, verdict string) {
		body := map[string]any{"reviewer": "韩梅梅", "verdict": verdict, "version": version, "note": "<b>看第三段</b>",
			"run_index": run}
		require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, api+"/"+id+"/items/"+question+"/review", body).StatusCode)
	}
	page := s.get(t, "/tasks/"+id+"/results?view=columns").page(t)
	merged := s.get(t, "/tasks/"+id+"/results?view=merged").page(t)
	question := page.Find(".result").First().AttrOr("data-question-id", "")
	card := page.Find(".result").First().AttrOr("id", "")
	require.Empty(t, ask("0").Find("[data-places]").Nodes)

	say(question, nil, 0, "FAIL")
	say(question, 2, 0, "PASS")
	changes := ask("0").Find("[data-places]")
	require.Equal(t, 2, changes.Length())
	require.Equal(t, card+"-said", changes.First().AttrOr("data-places", ""))
	require.Equal(t, 1, page.Find("#"+card+"-said").Length())
	require.Contains(t, changes.First().Text(), "<b>看第三段</b>", "what people write is text")
	require.Equal(t, card+"-1-2 "+card+"-answers", changes.Last().AttrOr("data-places", ""))
	require.Equal(t, 1, page.Find("#"+card+"-1-2").Length())
	require.Equal(t, 1, merged.Find("#"+card+"-answers").Length())

	latest := ask("0").Find("[data-latest]").AttrOr("data-latest", "")
	require.Empty(t, ask(latest).Find("[data-places]").Nodes)
	address := fmt.Sprintf("%s/%s/items/%s/review?reviewer=%s&version=1", api, id, question, url.QueryEscape("韩梅梅"))
	require.Equal(t, http.StatusNoContent, s.send(t, http.MethodDelete, address, nil).StatusCode)
	withdrawn := ask(latest).Find("[data-places] li[hidden]")
	require.Equal(t, 1, withdrawn.Length())
	require.Contains(t, ask(latest).Find("[data-places]").AttrOr("data-said", ""), "已撤回")

	for n := range 51 {
		_, err := s.tables.Exec(`INSERT INTO reviews (item_id, variant, reviewer, verdict, note, version, is_withdrawn)
			SELECT id, 1, $2, 'PASS', '', 1, false FROM evaluation_items WHERE task_id = $1
			AND question_id = $3`, id, fmt.Sprint("评审", n), question)
		require.NoError(t, err)
	}
	require.Empty(t, ask(latest).Find("[data-places]").Nodes, "the page says that there are some")
	require.Equal(t, http.StatusUnprocessableEntity, s.fragment(t, "/tasks/"+id+"/presence?after=x").StatusCode)

	before := ask("0").Find("[data-latest]").AttrOr("data-state", "")
	require.Equal(t, http.StatusAccepted, s.send(t, http.MethodPost, api+"/"+id+"/extend",
		object{"runs_per_item": 6}).StatusCode)
	require.NotEqual(t, before, ask("0").Find("[data-latest]").AttrOr("data-state", ""))
	s.awaitDone(t, id)
	require.NotEqual(t, before, ask("0").Find("[data-latest]").AttrOr("data-state", ""))
}

func judgedOf(judged, total int) string { return fmt.Sprintf("%d/%d", judged, total) }
