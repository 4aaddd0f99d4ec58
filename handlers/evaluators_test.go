package handlers_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// evaluator saves an evaluator and returns its id.
func (s *site) evaluator(t *testing.T, name, kind string, config object) string {
	t.Helper()
	return s.entry(t, "POST", "evaluators", object{"name": name, "kind": kind, "config": config}, 201)["id"].(string)
}

func TestEvaluatorsAreSavedWithVersions(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	saved := s.entry(t, "POST", "evaluators", object{"name": "数值", "kind": "number", "config": object{"tolerance": 0.5}}, 201)
	require.Equal(t, "number", saved["kind"])
	require.EqualValues(t, 1, saved["version"])
	require.Equal(t, object{"tolerance": 0.5}, saved["config"])
	path := "evaluators/" + saved["id"].(string)
	require.EqualValues(t, 1, s.entry(t, "PATCH", path, object{"name": "数值相等"}, 200)["version"], "a name makes no version")
	require.EqualValues(t, 1, s.entry(t, "PATCH", path, object{"config": object{"tolerance": 0.5}}, 200)["version"], "nor does what is the same")
	require.EqualValues(t, 2, s.entry(t, "PATCH", path, object{"config": object{"tolerance": 1}}, 200)["version"])
	require.EqualValues(t, 3, s.entry(t, "PATCH", path, object{"kind": "exact"}, 200)["version"])
	require.Equal(t, object{}, s.entry(t, "GET", path, nil, 200)["config"], "another kind begins anew")
	require.Equal(t, object{"tolerance": 0.5}, s.entry(t, "GET", path+"/versions/1", nil, 200)["config"])
	require.Len(t, s.entry(t, "GET", path+"/versions", nil, 200)["items"], 3)
	s.entry(t, "GET", path+"/versions/4", nil, 404)
	wrong := s.entry(t, "POST", "evaluators", object{"name": "r", "kind": "regex", "config": object{"pattern": "("}}, 422)
	require.Equal(t, "PARAMETER_INVALID", wrong["code"])
	require.Equal(t, "config.pattern", wrong["details"].([]any)[0].(object)["column"])
	require.Contains(t, wrong["message"], "missing closing )")
	s.entry(t, "POST", "evaluators", object{"name": "x", "kind": "nothing"}, 422)
	s.entry(t, "POST", "evaluators", object{"name": "数值相等", "kind": "exact"}, 422)
	require.Len(t, s.entry(t, "GET", "evaluators", nil, 200)["items"], 1)
	s.entry(t, "DELETE", path, nil, 204)
	s.entry(t, "GET", path, nil, 404)

	verdict := s.entry(t, "POST", "evaluators/test", object{"kind": "exact", "config": object{"ignore_case": true}, "question": "q", "standard_answer": "Paris", "answer": "paris"}, 200)
	require.Equal(t, "SUCCEEDED", verdict["status"])
	require.Equal(t, true, verdict["passed"])
	require.EqualValues(t, 1, verdict["score"])
	require.Nil(t, verdict["evaluator_id"])
	verdict = s.entry(t, "POST", "evaluators/test", object{"kind": "expression", "config": object{"expression": `variables.level == "高" and tokens == 7`}, "answer": "x", "variables": object{"level": "高"}, "tokens": 7}, 200)
	require.Equal(t, true, verdict["passed"])
	require.Equal(t, "SKIPPED", s.entry(t, "POST", "evaluators/test", object{"kind": "exact", "answer": "x"}, 200)["status"])
	require.Equal(t, "PARAMETER_INVALID", s.entry(t, "POST", "evaluators/test", object{"kind": "latency"}, 422)["code"])
}

// The worked example of metrics.md, over the API: variant A and B of three questions.
func TestVerdictsHaveTheNumbersOfTheWorkedExample(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	// A run passes when its score is 1. The expression gives "paris" a half, and "Lyon" nothing.
	rule := s.evaluator(t, "答案", "expression", object{"expression": `answer == expected ? 1 : lower(answer) == lower(expected) ? 0.5 : 0`, "threshold": 1})
	answers := map[string]map[string][]string{
		"A": {"一": {"Paris", "Paris ", "Paris", "Lyon", "paris"}, "二": {"42", "42", "42", "42", "42"}, "三": {"yes", "no", "", "yes", ""}},
		"B": {"一": {"Paris", "Paris", "Paris", "Paris", "Paris"}, "二": {"42", "42", "42", "42", "41"}, "三": {"yes", "yes", "yes", "yes", ""}},
	}
	var mu sync.Mutex
	asked := map[string]int{}
	var models []string
	for _, name := range []string{"A", "B"} {
		fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
			messages := call.Body["messages"].([]any)
			question := messages[len(messages)-1].(object)["content"].(string)
			mu.Lock()
			n := asked[name+question]
			asked[name+question]++
			mu.Unlock()
			text := answers[name][question][n]
			if text == "" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			openAIChat(strings.TrimSpace(text))(w, call)
		})
		model, _ := s.chatTarget(t, name, fake.URL)
		models = append(models, model)
	}
	created := s.post(t, api, map[string]string{
		"task_name": "例", "models": strings.Join(models, ","), "evaluators": rule, "runs_per_item": "5", "max_retries": "0",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,Paris\nq2,二,42\nq3,三,yes\n",
	})
	require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
	var task struct {
		TaskID     string `json:"task_id"`
		Evaluators []object
	}
	created.into(t, &task)
	require.Equal(t, rule, task.Evaluators[0]["id"])
	s.awaitDone(t, task.TaskID)
	path := "evaluation-tasks/" + task.TaskID
	near := func(want float64, got any) {
		t.Helper()
		require.InDelta(t, want, got, 5e-5)
	}
	statistics := s.entry(t, "GET", path+"/statistics", nil, 200)
	a, b := statistics["variants"].([]any)[0].(object), statistics["variants"].([]any)[1].(object)
	require.EqualValues(t, 13, a["judged"])
	require.EqualValues(t, 10, a["pass_count"])
	require.EqualValues(t, 3, a["fail_count"])
	require.EqualValues(t, 0, a["evaluation_errors"])
	near(0.7692, a["pass_rate"])
	near(0.6667, a["pass_rate_all"])
	near(0.2232, a["pass_rate_interval"].([]any)[0])
	near(0.6667, a["majority_rate"])
	near(0.8667, a["pass_at"].([]any)[1])
	near(0.4667, a["pass_hat"].([]any)[1])
	near(0.7889, a["score_mean"])
	near(0.1060, a["score_se"])
	near(0.9286, b["pass_rate"])
	near(0.6465, b["pass_rate_interval"].([]any)[0])
	near(0.9333, b["score_mean"])
	own := statistics["evaluators"].([]any)[0].(object)
	require.Equal(t, "答案", own["name"])
	near(0.7692, own["variants"].([]any)[0].(object)["pass_rate"])
	differences := s.entry(t, "GET", "comparison?a="+task.TaskID+":1&b="+task.TaskID+":2", nil, 200)["differences"].(object)
	near(0.1778, differences["pass_share"].(object)["difference"])
	near(0.1899, differences["pass_share"].(object)["se"])
	near(0.1444, differences["score"].(object)["difference"])
	near(0.4905, differences["score"].(object)["p"])

	// Results carry the verdicts, and can be asked for by them.
	items := s.entry(t, "GET", path+"/results", nil, 200)["items"].([]any)
	near(0.6, items[0].(object)["variants"].([]any)[0].(object)["pass_share"])
	passes := 0
	for _, one := range items[0].(object)["runs"].([]any)[:5] {
		evaluation := one.(object)["evaluations"].([]any)[0].(object)
		require.Equal(t, rule, evaluation["evaluator_id"])
		require.Equal(t, "expression", evaluation["kind"])
		if evaluation["passed"].(bool) {
			passes++
		} else {
			require.NotEmpty(t, evaluation["reason"])
		}
	}
	require.Equal(t, 3, passes)
	failedRun := items[2].(object)["runs"].([]any)
	require.Contains(t, fmt.Sprint(failedRun), "FAILED")
	count := func(query string) (ids []string) {
		for _, one := range s.entry(t, "GET", path+"/results?"+query, nil, 200)["items"].([]any) {
			ids = append(ids, one.(object)["question_id"].(string))
		}
		return ids
	}
	require.Equal(t, []string{"q1", "q2", "q3"}, count("passed=true"))
	require.Equal(t, []string{"q1", "q3"}, count("passed=false&variant=1"))
	require.Equal(t, []string{"q2"}, count("passed=false&variant=2"))
	require.Equal(t, []string{"q1"}, count("min_score=0.4&max_score=0.6"))
	require.Equal(t, []string{"q1"}, count("min_score=0.4&max_score=0.6&evaluator="+rule))
	require.Empty(t, count("status=FAILED&passed=false"), "a run that failed is not judged")
	require.Equal(t, []string{"q1", "q3", "q2"}, count("sort=pass_rate&variant=1"))
	s.entry(t, "GET", path+"/results?min_score=2", nil, 422)
	s.entry(t, "GET", path+"/results?evaluator=x", nil, 422)

	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(s.get(t, api+"/"+task.TaskID+"/export?format=csv").body, []byte("\uFEFF")))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"run_5_total_tokens", "run_5_cost", "run_5_答案_score", "run_5_答案_passed", "run_5_答案_reason"}, rows[0][len(rows[0])-5:])
	require.Len(t, rows, 7)
	var line struct {
		Runs []struct{ Evaluations []object }
	}
	first, _, _ := strings.Cut(string(s.get(t, api+"/"+task.TaskID+"/export?format=jsonl").body), "\n")
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	require.Equal(t, "答案", line.Runs[0].Evaluations[0]["name"])

	// What changes in the library does not reach the task; a copy keeps its evaluators.
	s.entry(t, "PATCH", "evaluators/"+rule, object{"config": object{"expression": "false"}}, 200)
	require.EqualValues(t, 1, s.entry(t, "GET", path, nil, 200)["evaluators"].([]any)[0].(object)["version"])
	clone := s.entry(t, "POST", path+"/clone", object{"start": false}, 201)
	require.EqualValues(t, 1, s.entry(t, "GET", "evaluation-tasks/"+clone["task_id"].(string), nil, 200)["evaluators"].([]any)[0].(object)["version"])
	s.entry(t, "DELETE", "evaluators/"+rule, nil, 204)
	require.NotNil(t, s.entry(t, "GET", "evaluators/"+rule, nil, 200)["archived_at"], "it was used")
	require.Equal(t, http.StatusNoContent, s.send(t, "DELETE", api+"/"+task.TaskID, nil).StatusCode)
	var left int
	require.NoError(t, s.tables.Get(&left, `SELECT count(*) FROM evaluations`))
	require.Zero(t, left, "verdicts go with their runs")
}

// Without evaluators there is no verdict anywhere (spec/004).
func TestWithoutEvaluatorsThereIsNoVerdict(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, call.Question) })
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "2"})
	s.awaitDone(t, id)
	variant := s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["variants"].([]any)[0].(object)
	for _, name := range []string{"pass_rate", "pass_rate_all", "pass_rate_interval", "majority_rate", "pass_at", "pass_hat", "score_mean", "score_se"} {
		require.Contains(t, variant, name)
		require.Nil(t, variant[name], name)
	}
	header, _, _ := strings.Cut(string(s.get(t, api+"/"+id+"/export?format=csv").body), "\r\n")
	require.NotContains(t, header, "_passed")
	require.NotContains(t, header, "_variant")
	page := string(s.get(t, "/tasks/"+id+"/results").body)
	require.NotContains(t, page, "通过率")
	unknown := "6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"
	answer := s.post(t, api, map[string]string{"task_name": "x", "agent_api_url": fake.URL, "evaluators": unknown, "file@q.csv": "question,standard_answer\na,b\n"})
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, string(answer.body), "evaluators")
	list := strings.TrimSuffix(strings.Repeat(unknown+",", 11), ",")
	answer = s.post(t, api, map[string]string{"task_name": "x", "agent_api_url": fake.URL, "evaluators": list, "file@q.csv": "question,standard_answer\na,b\n"})
	require.Contains(t, string(answer.body), "TASK_TOO_LARGE")
}
