package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// compareAs gives a verdict on a pair as the named reviewer.
func (s *site) compareAs(t testing.TB, name, at, verdict, version string) response {
	t.Helper()
	return s.post(t, at, map[string]string{"reviewer": name, "verdict": verdict, "version": version})
}

// Two variants' answers are shown without names, in a stable order; verdicts lead to the next pair, and the result
// appears when all pairs are compared.
func TestPairsAreComparedOnPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var agents []string
	for _, answer := range []string{"应当在 14 日内付款。", "一个月之内付清即可。"} {
		fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, answer) })
		agents = append(agents, s.entry(t, "POST", "agents",
			object{"name": answer, "protocol": "default", "url": fake.URL, "rate_limit": "unlimited"}, 201)["id"].(string))
	}
	id := s.create(t, "", map[string]string{"agents": strings.Join(agents, ","), "runs_per_item": "2",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,a\nq2,二,b\nq3,三,c\n"})
	s.awaitDone(t, id)
	hub := "/tasks/" + id + "/pairs"
	require.Equal(t, 1, s.get(t, "/tasks/"+id+"/variants").page(t).Find(`a[href="`+hub+`"]`).Length())
	require.Equal(t, 1, s.get(t, "/tasks/"+id+"/review").page(t).Find(`a[href="`+hub+`"]`).Length())
	require.Contains(t, s.get(t, hub+"?a=1&b=1").Header.Get("Location"), "left_out=b")
	require.Contains(t, s.get(t, hub+"?a=1&b=9").Header.Get("Location"), "left_out=b")

	drawn := s.post(t, hub, map[string]string{"a": "2", "b": "1"})
	require.Equal(t, http.StatusSeeOther, drawn.StatusCode)
	next := drawn.Header.Get("Location")
	all := 0
	for ; ; all++ {
		at := s.as(t, "李雷", next).Header.Get("Location")
		if !strings.Contains(at, "/pairs/") {
			break
		}
		answer := s.as(t, "李雷", at)
		page := answer.page(t)
		require.Equal(t, 2, page.Find(".blind-side").Length())
		require.Zero(t, page.Find(".blind-side .quiet").Length(), "no names")
		require.Equal(t, page.Find(".blind-sides").Text(), s.as(t, "李雷", at).page(t).Find(".blind-sides").Text())
		require.NotEmpty(t, page.Find(".blind-text").First().Text())
		if all == 0 {
			refused := s.compareAs(t, "李雷", at, "C", "0")
			require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
			require.NotEmpty(t, refused.page(t).Find(".judging-bar .error").Text())
			require.Equal(t, http.StatusConflict, s.compareAs(t, "李雷", at, "A", "3").StatusCode)
			require.Zero(t, s.as(t, "李雷", hub).page(t).Find(".pairs-result").Length())
		}
		given := s.compareAs(t, "李雷", at, "A", "0")
		require.Equal(t, http.StatusSeeOther, given.StatusCode)
		next = given.Header.Get("Location")
		again := s.as(t, "李雷", at).page(t)
		require.Equal(t, "A", again.Find(`.verdict-button[aria-pressed="true"]`).AttrOr("value", ""))
		require.Equal(t, "1", again.Find("[name=version]").AttrOr("value", ""))
	}
	require.Equal(t, 3, all)
	result := s.as(t, "李雷", hub+"?a=1&b=2").page(t)
	require.Equal(t, 3, result.Find(".pairs-result tbody tr").Length())
	require.Contains(t, result.Find(".pairs-result").Parent().Parent().Text(), "偏好")
	at, has := result.Find(".pairs-result .links a").First().Attr("href")
	require.True(t, has)
	require.Equal(t, 2, s.as(t, "李雷", at).page(t).Find(".blind-side h2 .quiet").Length(), "named in the end")
	parsed, err := url.Parse(at)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, s.get(t, parsed.Path+"0?a=1&b=2").StatusCode)
}
