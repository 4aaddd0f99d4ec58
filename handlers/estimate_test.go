package handlers_test

import (
	"math"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// An estimate includes judges: their calls, tokens, time and cost, as far as earlier calls are known.
func TestAnEstimateCountsJudges(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	asked, _ := s.chatTarget(t, "asked", agenttest.New(t, chatting(func(string) string { return "right" })).URL)
	judging, _ := s.chatTarget(t, "judge", agenttest.New(t, chatting(func(string) string {
		return `{"overall": 90, "reason": "right"}`
	})).URL)
	for model, price := range map[string]string{asked: "100", judging: "200"} {
		s.entry(t, "PATCH", "models/"+model, object{"input_price": price, "output_price": price, "currency": "CNY"}, 200)
	}
	judge := s.evaluator(t, "打分", "judge", object{"model_id": judging, "dimensions": []string{"overall"}, "votes": 3})
	fields := map[string]string{
		"task_name": "估计", "models": asked, "evaluators": judge, "runs_per_item": "2",
		"file@q.csv": "question,standard_answer\nq1,a\nq2,a\n",
	}
	estimate := func() (estimated object) {
		answer := s.post(t, api+"/estimate", fields)
		require.Equal(t, http.StatusOK, answer.StatusCode, string(answer.body))
		answer.into(t, &estimated)
		return estimated
	}
	before := estimate()
	require.EqualValues(t, 4, before["calls"])
	require.EqualValues(t, 12, before["judge_calls"])
	for _, unknown := range []string{"cost", "total_tokens", "duration_seconds"} {
		require.Nil(t, before[unknown], unknown)
	}
	var task struct {
		TaskID string `json:"task_id"`
	}
	s.post(t, api, fields).into(t, &task)
	s.awaitDone(t, task.TaskID)
	after := estimate()
	require.Equal(t, "0.154", after["cost"]) // 4 calls and 12 votes of 55 tokens, at 100 and 200 per million
	require.EqualValues(t, 16*55, after["total_tokens"])
	require.NotNil(t, after["duration_seconds"])
	statistics := s.entry(t, "GET", "evaluation-tasks/"+task.TaskID, nil, 200)["statistics"].(object)
	require.Equal(t, "0.022", statistics["cost"])
	require.Equal(t, "0.132", statistics["judge_cost"], "the task spent what is estimated for the next")

	// For an adaptive task, the estimate also includes the maximum.
	require.Nil(t, after["calls_at_most"])
	fields["adaptive"] = `{"max_runs": 10, "confidence": 0.95}`
	adaptive := estimate()
	require.Equal(t, "0.154", adaptive["cost"])
	require.EqualValues(t, 20, adaptive["calls_at_most"])
	require.EqualValues(t, 60, adaptive["judge_calls_at_most"])
	require.Equal(t, "0.77", adaptive["cost_at_most"])
	shown := s.post(t, "/compare/estimate", fields)
	require.Contains(t, string(shown.body), "加问后最多调用 80 次（含打分），约 0.77 CNY")
}

// Before the start, the estimate and the form show which difference a task of this size can detect, and what that is
// based on.
func TestAnEstimateSaysWhatCanBeShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var asked atomic.Int64
	model, _ := s.chatTarget(t, "asked", agenttest.New(t, chatting(func(string) string {
		if asked.Add(1)%3 == 0 {
			return "wrong"
		}
		return "right"
	})).URL)
	rule := s.evaluator(t, "规则", "contains", object{"values": []string{"right"}})
	fields := map[string]string{
		"task_name": "设计", "models": model, "evaluators": rule, "runs_per_item": "4", "concurrency": "4",
		"rate_limit": "unlimited",
		"file@q.csv": "question,standard_answer,document\nq1,a,x\nq2,a,x\nq3,a,y\nq4,a,z\n",
	}
	estimate := func() (estimated object) {
		answer := s.post(t, api+"/estimate", fields)
		require.Equal(t, http.StatusOK, answer.StatusCode, string(answer.body))
		answer.into(t, &estimated)
		return estimated
	}
	before := estimate()
	require.Equal(t, "assumed", before["basis"])
	require.EqualValues(t, 0, before["judge_calls"])
	require.InDelta(t, 2.802*math.Sqrt((1.0/9+2.0/6/4)/4), before["detectable"].(object)["pass_rate"], 1e-9)
	require.InDelta(t, 2.802*math.Sqrt(1.0/9/4), before["detectable"].(object)["agreement"], 1e-9)
	form := s.post(t, "/compare/estimate", fields).page(t).Find("#estimate").Text()
	require.Contains(t, form, "波动按通常情况假设")
	require.Contains(t, form, "题数要增加到 4 倍：16 题，64 次调用")
	fields["cluster_by"] = "document"
	require.InDelta(t, 2.802*math.Sqrt(1.0/9/3), estimate()["detectable"].(object)["agreement"], 1e-9, "three documents")
	fields["cluster_by"] = ""
	for _, want := range []string{"task", "comparison"} {
		var task object
		s.post(t, api, fields).into(t, &task)
		s.awaitDone(t, task["task_id"].(string))
		require.Equal(t, want, estimate()["basis"])
	}
	require.Contains(t, s.post(t, "/compare/estimate", fields).page(t).Find("#estimate").Text(), "这些题最近的比较（设计、设计）")
	delete(fields, "evaluators")
	fields["runs_per_item"] = "1"
	require.Nil(t, estimate()["detectable"].(object)["agreement"], "one run has no agreement")
}

// The response to creating a task names a misspelt variable.
func TestAnUnknownVariableIsNamedWhenATaskIsMade(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	model, _ := s.chatTarget(t, "asked", agenttest.New(t, chatting(func(string) string { return "right" })).URL)
	prompt := s.entry(t, "POST", "prompts", object{"name": "错", "user": "{{contxt}} {{question}}"}, 201)["id"].(string)
	fields := map[string]string{
		"task_name": "错", "models": model, "prompts": prompt, "start": "false",
		"file@q.csv": "question,standard_answer,context\nq1,a,c\n",
	}
	var created object
	answer := s.post(t, api, fields)
	require.Equal(t, http.StatusCreated, answer.StatusCode, string(answer.body))
	answer.into(t, &created)
	warning := created["warnings"].([]any)[0].(object)
	require.Equal(t, "UNKNOWN_VARIABLES", warning["code"])
	require.Equal(t, []any{"contxt"}, warning["names"])
	require.Contains(t, warning["message"], "contxt")
	delete(fields, "prompts")
	s.post(t, api, fields).into(t, &created)
	require.Empty(t, created["warnings"])
}

// While there are no runs, an estimate is based on the last successful test of each target, and states that. Tests of
// other entries do not count.
func TestAnEstimateBeforeTheFirstRunRestsOnATest(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	var fails atomic.Bool
	talk := chatting(func(string) string { return "right" })
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if fails.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		time.Sleep(20 * time.Millisecond) // the agent's latency
		talk(w, call)
	})
	model, _ := s.chatTarget(t, "tested", fake.URL)
	agent := s.entry(t, "POST", "agents", object{"name": "探", "protocol": "openai", "url": fake.URL,
		"rate_limit": "unlimited"}, 201)["id"].(string)
	fields := map[string]string{
		"task_name": "估计", "models": model, "agents": agent, "runs_per_item": "2",
		"file@q.csv": "question,standard_answer\nq1,a\nq2,a\n",
	}
	estimate := func() (estimated object) {
		answer := s.post(t, api+"/estimate", fields)
		require.Equal(t, http.StatusOK, answer.StatusCode, string(answer.body))
		answer.into(t, &estimated)
		return estimated
	}
	require.Nil(t, estimate()["total_tokens"])
	for _, path := range []string{"models/" + model, "agents/" + agent} {
		require.Equal(t, "SUCCEEDED", s.entry(t, "POST", path+"/test", object{}, 200)["status"])
	}
	// a change of prices does not invalidate the tests, because the address that is called stays the same
	for _, path := range []string{"models/" + model, "agents/" + agent} {
		s.entry(t, "PATCH", path, object{"input_price": "100", "output_price": "100", "currency": "CNY"}, 200)
	}
	fails.Store(true)
	require.Equal(t, "FAILED", s.entry(t, "POST", "models/"+model+"/test", object{}, 200)["status"],
		"which takes nothing away")
	got := estimate()
	require.EqualValues(t, 8*55, got["total_tokens"])
	require.Equal(t, "0.044", got["cost"])
	require.Greater(t, got["duration_seconds"].(float64), 0.0)
	warning := got["warnings"].([]any)[0].(object)
	require.Equal(t, "ESTIMATED_FROM_ONE_TEST", warning["code"])
	require.Equal(t, []any{"tested", "探"}, warning["names"])
	page := s.post(t, "/compare/estimate", fields).page(t)
	require.Contains(t, page.Find("#estimate").Text(), "仅按最近一次测试调用估算")
	require.Contains(t, page.Find("#estimate").Text(), "0.044 CNY")

	s.entry(t, "PATCH", "models/"+model, object{"model_id": "another"}, 200)
	got = estimate()
	require.Nil(t, got["total_tokens"])
	require.Equal(t, []any{"探"}, got["warnings"].([]any)[0].(object)["names"])
}
