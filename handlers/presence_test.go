package handlers_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// The tabs of a task have counts, and the pages of one reviewer learn what others said, but not what she said herself.
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

	tabs := s.get(t, "/tasks/"+id+"/results").page(t).Find(".task-tabs")
	require.Equal(t, "/tasks/"+id+"/presence", tabs.Find("#reviewed").AttrOr("data-presence", ""))
	require.Equal(t, judgedOf(total, 0)[:1], tabs.Find(".tab-count").First().Text(), "how many can be read")
}

func judgedOf(judged, total int) string { return fmt.Sprintf("%d/%d", judged, total) }
