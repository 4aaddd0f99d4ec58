package handlers_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// An adaptive task from its form to its report, export and archive.
func TestQuestionsAreAskedUntilTheyAreSettled(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var mu sync.Mutex
	asked := map[string]int{}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		asked[call.Question]++
		n := asked[call.Question]
		mu.Unlock()
		answer := "always"
		if call.Question == "wild" {
			answer = fmt.Sprint("answer ", n)
		}
		agenttest.Stream(w, answer)
	})
	fields := map[string]string{
		"task_name": "t", "agent_api_url": fake.URL, "runs_per_item": "2", "rate_limit": "unlimited",
		"file@q.csv": "question_id,question,standard_answer\n\"a,b\",calm,a\nw,wild,a\n",
	}
	for adaptive, field := range map[string]string{
		`{"max_runs": 21, "confidence": 0.9}`: "adaptive", `{"max_runs": 2, "confidence": 0.9}`: "adaptive",
		`{"max_runs": 5, "confidence": 1}`: "adaptive",
		`{"runs": 5}`:                      "adaptive.max_runs", `[]`: "adaptive", `5`: "adaptive",
	} {
		fields["adaptive"] = adaptive
		answer := s.post(t, api, fields)
		require.Equal(t, 422, answer.StatusCode, adaptive)
		require.Contains(t, string(answer.body), field, adaptive)
	}
	fields["adaptive"], fields["runs_per_item"] = `{"max_runs": 5, "confidence": 0.95}`, "6"
	answer := s.post(t, api, fields)
	require.Equal(t, 422, answer.StatusCode)
	require.Contains(t, string(answer.body), "runs_per_item")
	fields["runs_per_item"] = "2"
	id := s.create(t, fake.URL, fields)
	s.awaitDone(t, id)

	path := "evaluation-tasks/" + id
	task := s.entry(t, "GET", path, nil, 200)
	require.Equal(t, object{"max_runs": 5.0, "confidence": 0.95}, task["adaptive"])
	require.EqualValues(t, 9, task["total_runs"])
	require.EqualValues(t, 9, task["statistics"].(object)["runs_expected"])
	variant := s.entry(t, "GET", path+"/statistics", nil, 200)["variants"].([]any)[0].(object)
	require.EqualValues(t, 9, variant["runs_expected"])
	require.EqualValues(t, 0.5, variant["agreement"], "of the first two runs of each question")
	require.EqualValues(t, 1, variant["settled"])
	require.Equal(t, object{"4": 1.0}, variant["settled_after"])
	runs := func() (counts []int) {
		for _, item := range s.entry(t, "GET", path+"/results", nil, 200)["items"].([]any) {
			counts = append(counts, len(item.(object)["runs"].([]any)))
		}
		return counts
	}
	require.Equal(t, []int{4, 5}, runs())
	for _, item := range s.entry(t, "GET", path+"/items", nil, 200)["items"].([]any) {
		require.Equal(t, item.(object)["runs_done"], item.(object)["runs_expected"])
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(s.get(t, api+"/"+id+"/export?format=csv").body),
		"\ufeff"))).ReadAll()
	require.NoError(t, err)
	columns := map[string]int{}
	for n, name := range rows[0] {
		columns[name] = n
	}
	require.Equal(t, "SUCCEEDED", rows[1][columns["run_4_status"]])
	require.Empty(t, rows[1][columns["run_5_status"]], "never planned")
	require.Equal(t, "SUCCEEDED", rows[2][columns["run_5_status"]])
	require.NotContains(t, rows[0], "run_6_status")
	for _, page := range []string{"/results", "/results?view=columns", "/results?view=merged", "/report",
		"/settings", ""} {
		shown := s.get(t, "/tasks/"+id+page)
		require.Equal(t, 200, shown.StatusCode, page)
	}
	require.Contains(t, string(s.get(t, "/tasks/"+id+"/report").body), "问 4 次后 1 题")
	require.Contains(t, s.get(t, "/tasks/"+id+"/report").page(t).Find(".decision .hint").Text(),
		"只看每题最初的", "levels do not count the later runs, the list does")
	require.Contains(t, s.get(t, "/tasks/"+id).page(t).Text(), "2 题 × 2–5 次")

	imported := s.importArchive(t, s.get(t, api+"/"+id+"/archive").body)
	require.Equal(t, 201, imported.StatusCode, string(imported.body))
	var made struct {
		TaskID string `json:"task_id"`
	}
	imported.into(t, &made)
	again := s.entry(t, "GET", "evaluation-tasks/"+made.TaskID, nil, 200)
	require.Equal(t, task["adaptive"], again["adaptive"])
	require.EqualValues(t, 9, again["total_runs"])
	require.EqualValues(t, 9, again["statistics"].(object)["runs"])

	s.entry(t, "POST", path+"/extend", object{"question_ids": []string{"no such question"}, "runs_per_item": 6}, 404)
	s.entry(t, "POST", path+"/extend", object{"question_ids": []string{}, "runs_per_item": 6}, 422)
	s.entry(t, "POST", path+"/extend", object{"question_ids": []string{"a,b"}, "runs_per_item": 21}, 422)
	s.entry(t, "POST", path+"/extend", object{"question_ids": []string{"a,b"}, "runs_per_item": 7}, 202)
	s.awaitDone(t, id)
	require.Equal(t, []int{7, 5}, runs())
	form := s.get(t, "/tasks/"+id+"/results").page(t).Find("form.extend:has([name=question_ids])")
	value, _ := form.Find("[name=question_ids]").Attr("value")
	require.Equal(t, "w", value, "the question that is not settled")
	require.Equal(t, http.StatusSeeOther, s.post(t, "/tasks/"+id+"/extend",
		map[string]string{"question_ids": "w", "runs_per_item": "8"}).StatusCode)
	s.awaitDone(t, id)
	require.Equal(t, []int{7, 8}, runs())
}
