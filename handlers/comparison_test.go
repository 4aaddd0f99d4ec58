package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

type toldComparison struct {
	Items []struct {
		QuestionID string `json:"question_id"`
		Transition string
		A, B       struct {
			Number     int
			QuestionID string `json:"question_id"`
			Level      string
			Agreement  *float64
			Letters    string
		}
	}
	Transitions map[string]int
	Unknown     int
	OnlyA       []string `json:"only_a"`
	OnlyB       []string `json:"only_b"`
	Differences map[string]struct {
		N          int
		LeftOut    int `json:"left_out"`
		Difference *float64
		SE         *float64
		Interval   []float64
		P          *float64
	}
}

// answering makes an agent that gives each question its answers one after another, for ever; "" fails.
func answering(answers map[string][]string) func(http.ResponseWriter, agenttest.Call) {
	var mu sync.Mutex
	given := map[string]int{}
	return func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		defer mu.Unlock()
		list := answers[call.Question]
		text := list[given[call.Question]%len(list)]
		if given[call.Question]++; text == "" {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		agenttest.Stream(w, text)
	}
}

// Two versions of an agent: what became stable and what did not, with the most common answers side by side.
func TestTwoTasksAreCompared(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	first := agenttest.New(t, answering(map[string][]string{"一": {"北京"}, "二": {"甲", "乙"}, "三": {"约定的违约金为三十"}, "四": {""}, "旧": {"x"}}))
	second := agenttest.New(t, answering(map[string][]string{"一": {"北京", "上海"}, "二": {"甲"}, "三": {"约定的违约金为五十<b>"}, "四": {"有了"}, "新": {"y"}}))
	one := map[string]string{"concurrency": "1", "task_name": "V1"}
	a := s.create(t, first.URL, with(one, "file@q.csv", "question_id,question,standard_answer\nq1,一,a\nq2,二,a\nq3,三,a\nq4,四,a\nold,旧,a\n"))
	s.awaitDone(t, a)
	b := s.create(t, second.URL, with(with(one, "task_name", "V2"), "file@q.csv", "question_id,question,standard_answer\nq1,一,a\nq2,二,a\nother,三,a\nq4,四,a\nnew,新,a\n"))
	s.awaitDone(t, b)

	var told toldComparison
	require.NoError(t, json.Unmarshal(s.get(t, "/api/v1/comparison?a="+a+"&b="+b+":1").body, &told))
	require.Equal(t, map[string]int{"stable_stable": 1, "stable_unstable": 1, "unstable_stable": 1, "unstable_unstable": 0}, told.Transitions)
	require.Equal(t, 1, told.Unknown, "the first task has no answer to q4")
	require.Equal(t, []string{"old"}, told.OnlyA)
	require.Equal(t, []string{"new"}, told.OnlyB)
	require.Len(t, told.Items, 4)
	require.Equal(t, []string{"stable_unstable", "unstable_stable", "stable_stable", "unknown"},
		[]string{told.Items[0].Transition, told.Items[1].Transition, told.Items[2].Transition, told.Items[3].Transition})
	require.Equal(t, "other", told.Items[2].B.QuestionID, "found by its text")
	require.Equal(t, "ABABA", told.Items[0].B.Letters)
	require.Equal(t, "different", told.Items[0].B.Level)
	agreement := told.Differences["agreement"]
	require.Equal(t, 4, agreement.N)
	require.InDelta(t, (-0.6+0.6+0+1)/4, *agreement.Difference, 1e-9, "0.4 for three and two of five; all failed is 0")
	require.Len(t, agreement.Interval, 2)
	require.Equal(t, 3, told.Differences["latency_ms"].N)
	require.Equal(t, 1, told.Differences["latency_ms"].LeftOut)
	require.Equal(t, 4, told.Differences["score"].LeftOut)
	require.Nil(t, told.Differences["pass_share"].Difference)

	path := "/comparison?a=" + a + "&b=" + b
	page := s.get(t, path).page(t)
	require.Equal(t, 4, page.Find("article").Length())
	require.Contains(t, page.Find(".changes").Text(), "一致率的差距可能只是偶然波动")
	changed := page.Find("article").Eq(2)
	require.Equal(t, "三", changed.Find("del").Text())
	require.Equal(t, "五", changed.Find("ins").First().Text())
	require.Zero(t, changed.Find(".answers b").Length(), "an answer's markup stays text")
	require.Contains(t, page.Find("article").Eq(3).Text(), "甲没有回答")

	page = s.get(t, path+"&show=unstable_stable").page(t)
	require.Equal(t, 1, page.Find("article").Length())
	require.Contains(t, page.Find("article").Text(), "二")
	page = s.get(t, path+"&show=only_b").page(t)
	require.Equal(t, 1, page.Find("article").Length())
	require.Contains(t, page.Find("article").Text(), "新")
	require.Equal(t, http.StatusUnprocessableEntity, s.get(t, path+"&show=nothing").StatusCode)

	// Ticked in the list, the older one comes first.
	answer := s.get(t, "/comparison?task="+b+"&task="+a)
	require.Equal(t, path, answer.Header.Get("Location"))
	require.Equal(t, http.StatusUnprocessableEntity, s.get(t, "/comparison?task="+b+"&task="+a+"&task="+a).StatusCode)
	require.Equal(t, "/tasks", s.get(t, "/comparison").Header.Get("Location"))
	require.Equal(t, "/comparison?a="+a, s.get(t, "/comparison?task="+a).Header.Get("Location"))

	// A task offers the others.
	page = s.get(t, "/comparison?a="+a).page(t)
	require.Equal(t, 1, page.Find(".choices a").Length())
	require.Equal(t, path, page.Find(".choices a").AttrOr("href", ""))
	require.Contains(t, s.get(t, "/comparison?a="+a+"&query=nobody").page(t).Text(), "没有可对比的任务")

	for _, test := range []struct {
		path, code string
		status     int
	}{
		{"?a=" + a, "PARAMETER_INVALID", http.StatusUnprocessableEntity},
		{"?a=" + a + "&b=" + strings.Repeat("0", 8), "TASK_NOT_FOUND", http.StatusNotFound},
		{"?a=" + a + "&b=" + b + ":2", "NOT_FOUND", http.StatusNotFound},
		{"?a=" + a + "&b=" + s.create(t, first.URL, map[string]string{"start": "false"}), "TASK_NOT_FINISHED", http.StatusConflict},
	} {
		answer := s.get(t, "/api/v1/comparison"+test.path)
		require.Equal(t, test.status, answer.StatusCode, test.path)
		var failure struct{ Code string }
		require.NoError(t, json.Unmarshal(answer.body, &failure))
		require.Equal(t, test.code, failure.Code, test.path)
	}
}

func with(fields map[string]string, name, value string) map[string]string {
	added := map[string]string{name: value}
	for name, value := range fields {
		if _, isSet := added[name]; !isSet {
			added[name] = value
		}
	}
	return added
}

// Answers are equal as a whole or not at all, also where the page shows their beginnings only.
func TestLongAnswersAreComparedAsAWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	long := strings.Repeat("长", 20_001)
	var ids []string
	for _, end := range []string{"甲", "乙"} {
		fake := agenttest.New(t, answering(map[string][]string{"一": {long + end}}))
		id := s.create(t, fake.URL, map[string]string{"runs_per_item": "2", "file@q.csv": "question_id,question,standard_answer\nq1,一,a\n"})
		s.awaitDone(t, id)
		ids = append(ids, id)
	}
	page := s.get(t, "/comparison?a="+ids[0]+"&b="+ids[1]).page(t)
	require.NotContains(t, page.Find("article").Text(), "两边最常见的回答相同")
	require.Contains(t, page.Find("article").Text(), "差异在后面")
	require.Equal(t, 2, page.Find("article .answers a[href*=runs]").Length(), "the whole of both can be read")
	page = s.get(t, "/comparison?a="+ids[0]+"&b="+ids[0]).page(t)
	require.Contains(t, page.Find("article").Text(), "两边最常见的回答相同")
}
