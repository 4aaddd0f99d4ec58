package handlers_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// chatting returns a handler that simulates a model: its reply to the last message is what script returns for it.
func chatting(script func(prompt string) string) func(http.ResponseWriter, agenttest.Call) {
	return func(w http.ResponseWriter, call agenttest.Call) {
		messages := call.Body["messages"].([]any)
		said := script(messages[len(messages)-1].(object)["content"].(string))
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w,
			`{"choices":[{"index":0,"message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":50,"completion_tokens":5,"total_tokens":55}}`, said)
	}
}

func TestAJudgeFromTheLibraryToTheReport(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var isMute atomic.Bool
	judging := agenttest.New(t, chatting(func(prompt string) string {
		switch {
		case isMute.Load():
			return "no comment"
		case strings.Contains(prompt, "answer to 一"):
			return `{"overall": 90, "accuracy": 80, "reason": "right"}`
		case strings.Contains(prompt, "answer to 三"):
			return "I cannot rate this."
		}
		return `{"overall": 40, "accuracy": 30, "reason": "wrong"}`
	}))
	model, _ := s.chatTarget(t, "judge", judging.URL)
	s.entry(t, "PATCH", "models/"+model, object{"input_price": "2", "output_price": "10", "currency": "CNY"}, 200)

	// The fault is shown next to the field.
	wrong := s.entry(t, "POST", "evaluators",
		object{"name": "j", "kind": "judge", "config": object{"model_id": model, "votes": 2}}, 422)
	require.Equal(t, "config.votes", wrong["details"].([]any)[0].(object)["column"])
	require.Equal(t, "参数无效：config.votes（1 到 9 的奇数）", wrong["message"])
	wrong = s.entry(t, "POST", "evaluators", object{"name": "n", "kind": "number", "config": object{"relative": 1}}, 422)
	require.NotContains(t, wrong["message"], "cannot be used here")
	wrong = s.entry(t, "POST", "evaluators",
		object{"name": "j", "kind": "judge", "config": object{"model_id": "6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"}}, 422)
	require.Equal(t, "config.model_id", wrong["details"].([]any)[0].(object)["column"])
	judge := s.evaluator(t, "打分", "judge", object{"model_id": model, "dimensions": []string{"overall", "accuracy"}})

	spare, _ := s.chatTarget(t, "spare", judging.URL)
	s.evaluator(t, "备用裁判", "judge", object{"model_id": spare})
	require.Equal(t, http.StatusNoContent, s.send(t, "DELETE", "/api/v1/models/"+spare, nil).StatusCode)
	require.NotNil(t, s.entry(t, "GET", "models/"+spare, nil, 200)["archived_at"], "an evaluator needs it")

	tried := s.entry(t, "POST", "evaluators/test",
		object{"kind": "judge", "config": object{"model_id": model}, "question": "一", "standard_answer": "x",
			"answer": "answer to 一"}, 200)
	require.Equal(t, true, tried["passed"])
	require.Equal(t, object{"overall": 90.0, "accuracy": 80.0}, tried["ratings"])
	require.EqualValues(t, 55, tried["total_tokens"])
	tried = s.entry(t, "POST", "evaluators/test",
		object{"kind": "judge", "config": object{"model_id": model}, "answer": "answer to 三"}, 200)
	require.Equal(t, true, tried["is_default"])
	require.Equal(t, "JUDGE_UNREADABLE", tried["error_code"])
	require.Nil(t, tried["passed"])

	rule := s.evaluator(t, "规则", "contains", object{"values": []string{"answer"}})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "answer to "+call.Question)
	})
	created := s.post(t, api, map[string]string{
		"task_name": "打分", "agent_api_url": fake.URL, "evaluators": rule + "," + judge, "runs_per_item": "2",
		"rate_limit": "unlimited", "concurrency": "4",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,a\nq2,二,b\nq3,三,c\n",
	})
	require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
	var task struct {
		TaskID string `json:"task_id"`
	}
	created.into(t, &task)
	s.awaitDone(t, task.TaskID)
	require.Equal(t, "回答打分进度", s.get(t, "/tasks/"+task.TaskID).page(t).Find(".gauge .of").Text())
	path := "evaluation-tasks/" + task.TaskID
	statistics := s.entry(t, "GET", path+"/statistics", nil, 200)
	all := statistics["variants"].([]any)[0].(object)
	require.EqualValues(t, 4, all["judged"], "what was not rated is not judged")
	require.EqualValues(t, 2, all["pass_count"])
	require.EqualValues(t, 2, all["evaluation_errors"])
	require.EqualValues(t, 2, all["defaults"])
	require.InDelta(t, (0.95+0.7+1)/3, all["score_mean"], 1e-9, "of the third question the rule alone has a score")
	own := statistics["evaluators"].([]any)[1].(object)["variants"].([]any)[0].(object)
	require.InDelta(t, 0.65, own["score_mean"], 1e-9)
	overall := own["ratings"].(object)["overall"].(object)
	require.InDelta(t, 65, overall["mean"], 1e-9)
	require.InDelta(t, 25, overall["se"], 1e-9)
	require.EqualValues(t, 2, overall["n"])
	with := s.entry(t, "GET", path+"/statistics?include_defaults=true", nil,
		200)["evaluators"].([]any)[1].(object)["variants"].([]any)[0].(object)
	require.InDelta(t, 0.6, with["score_mean"], 1e-9, "defaults of 50 included")
	require.InDelta(t, 60, with["ratings"].(object)["overall"].(object)["mean"], 1e-9)

	require.Equal(t, []any{300.0, 30.0, 330.0, "0.0009", "CNY"}, []any{
		own["input_tokens"], own["output_tokens"], own["total_tokens"], own["cost"], own["currency"],
	})
	for n, want := range []object{
		{"question": "no_variation", "run": "no_variation", "vote": "no_judge"},
		{"question": "", "run": "", "vote": "one_vote"},
	} {
		reasons := object{}
		for _, part := range statistics["evaluators"].([]any)[n].(object)["noise"].(object)["parts"].([]any) {
			if reason := part.(object)["reason"]; reason != nil {
				reasons[part.(object)["source"].(string)] = reason
			}
		}
		for source, reason := range want {
			if reason == "" {
				require.Nil(t, reasons[source], source)
				continue
			}
			require.Equal(t, reason, reasons[source], source)
		}
	}
	noise := statistics["evaluators"].([]any)[1].(object)["noise"].(object)
	require.InDelta(t, 0.125, noise["parts"].([]any)[0].(object)["variance"], 1e-9, "of 0.9 and 0.4")
	require.EqualValues(t, 1, noise["icc"])
	require.Equal(t, "question", noise["advice"])
	shown := s.get(t, "/tasks/"+task.TaskID+"/report").page(t).Find("#noise")
	require.Equal(t, 1, shown.Find("table").Length(), "the rule's scores never differ")
	require.Contains(t, shown.Text(), "得分都没有变化")
	require.Contains(t, shown.Text(), "平均分的误差约 100% 来自题")
	require.Contains(t, shown.Find("table").Text(), "每个回答只打一次分")
	require.NotContains(t, shown.Find("table").Text(), "方案", "there is one")
	answers := s.get(t, "/tasks/"+task.TaskID+"/results").page(t)
	require.Regexp(t, `平均分\s*\?\s*0\.\d+`, answers.Find(".counts").Text(), "the mean score, above the answers")
	rules := statistics["evaluators"].([]any)[0].(object)
	require.Nil(t, rules["scale_suspect"])
	require.Nil(t, rules["variants"].([]any)[0].(object)["cost"])

	// The report's switch decides whether answers without a rating count.
	counting := s.get(t, "/tasks/"+task.TaskID+"/report").page(t).Find("a:contains('默认 50 分计入平均')").AttrOr("href", "")
	require.NotEmpty(t, counting)
	withDefaults := s.get(t, counting).page(t)
	require.Contains(t, withDefaults.Find(".rated").Text(), "60.0")
	require.Equal(t, 1, withDefaults.Find("a[href='/tasks/"+task.TaskID+"/report']:contains('不计入')").Length())

	spent := s.entry(t, "GET", path, nil, 200)["statistics"].(object)
	require.EqualValues(t, 6*55, spent["judge_tokens"])
	require.Equal(t, "0.0009", spent["judge_cost"])
	require.Equal(t, "CNY", spent["judge_currency"])
	require.Nil(t, spent["currency"], "the agent has no prices")

	items := s.entry(t, "GET", path+"/results", nil, 200)["items"].([]any)
	run := items[0].(object)["runs"].([]any)[0].(object)
	evaluation := run["evaluations"].([]any)[1].(object)
	require.Equal(t, "judge", evaluation["kind"])
	require.InDelta(t, 0.9, evaluation["score"], 1e-9)
	require.Equal(t, "0.00015", evaluation["cost"])
	require.Equal(t, false, evaluation["is_default"])
	require.Equal(t, true, items[2].(object)["runs"].([]any)[0].(object)["evaluations"].([]any)[1].(object)["is_default"])

	page := s.get(t, fmt.Sprintf("/tasks/%s/runs/%.0f", task.TaskID, run["run_id"])).page(t)
	require.Contains(t, page.Find(".judged").Text(), `{"overall": 90, "accuracy": 80, "reason": "right"}`, "word for word")
	report := s.get(t, "/tasks/"+task.TaskID+"/report").page(t)
	require.Contains(t, report.Find(".rated").Text(), "65.0")
	require.Contains(t, s.get(t, "/tasks/"+task.TaskID+"/results").page(t).Text(), "无法打分（默认 50 分")
	require.Equal(t, 1, s.get(t, "/tasks/"+task.TaskID+"/results?filter=unpassed-2").page(t).Find(
		"article.result").Length(), "by one evaluator alone")

	// Later, the judge gets a different threshold, and all its earlier verdicts are kept.
	s.entry(t, "PATCH", "evaluators/"+judge, object{"config": object{"model_id": model, "threshold": 30}}, 200)
	s.entry(t, "POST", path+"/evaluate", object{"evaluators": []string{"nothing"}}, 422)
	s.entry(t, "POST", path+"/evaluate", object{"evaluators": []string{judge}}, 202)
	s.awaitDone(t, task.TaskID)
	all = s.entry(t, "GET", path+"/statistics", nil, 200)["variants"].([]any)[0].(object)
	require.EqualValues(t, 4, all["pass_count"])
	require.EqualValues(t, 2, s.entry(t, "GET", path, nil, 200)["evaluators"].([]any)[1].(object)["version"])
	var past []int
	require.NoError(t, s.tables.Select(&past, `SELECT version FROM past_evaluations`))
	require.Equal(t, []int{1, 1, 1, 1, 1, 1}, past)
	require.Len(t, fake.Calls(), 6, "no agent was asked")
	launches := s.entry(t, "GET", path+"/launches", nil, 200)["items"].([]any)
	require.Equal(t, "EVALUATE", launches[0].(object)["kind"])
	did := launches[0].(object)["statistics"].(object)
	require.Equal(t, []any{6.0, 2.0, 330.0, "0.0009", "CNY"}, []any{
		did["judge_calls"], did["judge_errors"], did["judge_tokens"], did["judge_cost"], did["judge_currency"],
	})
	require.EqualValues(t, 6, launches[1].(object)["statistics"].(object)["judge_calls"],
		"what it asked is replaced and still counted")
	require.Equal(t, "0.0009", launches[1].(object)["statistics"].(object)["judge_cost"])
	row := s.get(t, "/tasks/"+task.TaskID+"/gallery").page(t).Find("#launches table.table tbody tr").First()
	require.Equal(t, "4", row.Find("td[data-label='成功']").Text())
	require.Equal(t, "2", row.Find("td[data-label='失败']").Text())
	require.Equal(t, "打分 0.0009 CNY", strings.TrimSpace(row.Find("td[data-label='费用']").Text()))
	require.NotEmpty(t, s.get(t, "/tasks/"+task.TaskID).page(t).Find(".plots .panel").First().Find("rect.good").Nodes,
		"outcomes over time")

	// A retry repeats the calls to a judge that had stopped answering. An evaluation that names no evaluators uses all of
	// the task's own.
	isMute.Store(true)
	s.entry(t, "POST", path+"/evaluate", object{}, 202)
	s.awaitDone(t, task.TaskID)
	require.EqualValues(t, 6, s.entry(t, "GET", path, nil, 200)["statistics"].(object)["judge_errors"])
	isMute.Store(false)
	s.entry(t, "POST", path+"/retry", nil, 202)
	s.awaitDone(t, task.TaskID)
	require.EqualValues(t, 2, s.entry(t, "GET", path, nil, 200)["statistics"].(object)["judge_errors"])

	require.Equal(t, http.StatusNoContent, s.send(t, "DELETE", api+"/"+task.TaskID, nil).StatusCode)
	var left int
	require.NoError(t,
		s.tables.Get(&left, `SELECT (SELECT count(*) FROM evaluations) + (SELECT count(*) FROM past_evaluations)`))
	require.Zero(t, left)
}

// Each judge shows its own spending. A judge whose ratings never exceed 1 or 10 probably uses its own scale, which
// the report, the task's page and the API point out.
func TestAJudgeOnAScaleOfItsOwnIsNoticed(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	evaluators := []string{}
	for _, one := range []struct{ name, reply, price string }{
		{"零到一", `{"overall": 0.85, "accuracy": 1}`, "10"}, {"零到十", `{"overall": 8, "accuracy": 10}`, "20"},
		{"零到百", `{"overall": 8, "accuracy": 11}`, "30"},
	} {
		fake := agenttest.New(t, chatting(func(string) string { return one.reply }))
		model, _ := s.chatTarget(t, one.name, fake.URL)
		s.entry(t, "PATCH", "models/"+model, object{"input_price": one.price, "output_price": "0", "currency": "CNY"}, 200)
		evaluators = append(evaluators, s.evaluator(t, one.name, "judge",
			object{"model_id": model, "dimensions": []string{"overall", "accuracy"}}))
	}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, call.Question) })
	id := s.create(t, fake.URL, map[string]string{"evaluators": strings.Join(evaluators, ","), "runs_per_item": "5"})
	s.awaitDone(t, id)
	list := s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["evaluators"].([]any)
	report, show := s.get(t, "/tasks/"+id+"/report").page(t), s.get(t, "/tasks/"+id).page(t)
	runs := s.entry(t, "GET", "evaluation-tasks/"+id, nil, 200)["statistics"].(object)["runs"].(float64)
	for n, scale := range []any{1.0, 10.0, nil} {
		evaluator := list[n].(object)
		require.Equal(t, scale, evaluator["scale_suspect"])
		cost := strconv.FormatFloat(runs*50*float64(10*(n+1))/1e6, 'f', -1, 64)
		require.Equal(t, cost, evaluator["variants"].([]any)[0].(object)["cost"])
		name := evaluator["name"].(string)
		require.Contains(t, report.Find("section:contains('"+name+"')").Text(), "费用 "+cost+" CNY")
		warning := fmt.Sprintf("“%s”的打分都不超过 %v 分", name, scale)
		require.Equal(t, scale != nil, strings.Contains(report.Text(), warning), warning)
		require.Equal(t, scale != nil, strings.Contains(show.Text(), warning), warning)
	}
}

// Rules can also judge a finished task; a running task is refused, and a task has at most ten evaluators.
func TestAFinishedTaskIsEvaluatedFromItsPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, call.Question) })
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "2"})
	s.awaitDone(t, id)
	require.Equal(t, http.StatusConflict, s.send(t, "POST", api+"/"+id+"/evaluate", object{}).StatusCode,
		"it has no evaluators")
	var rules []string
	for n := range 11 {
		rules = append(rules, s.evaluator(t, fmt.Sprintf("规则 %d", n), "contains",
			object{"values": []string{"x"}, "mode": "none"}))
	}
	require.Equal(t, 422, s.send(t, "POST", api+"/"+id+"/evaluate", object{"evaluators": rules}).StatusCode)
	page := s.get(t, "/tasks/"+id+"/settings").page(t)
	require.Equal(t, 11, page.Find("details.evaluate input[type=checkbox]").Length())
	require.Equal(t, http.StatusSeeOther, s.post(t, "/tasks/"+id+"/evaluate",
		map[string]string{"evaluators": strings.Join(rules[:10], ",")}).StatusCode)
	s.awaitDone(t, id)
	require.EqualValues(t, 1, s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil,
		200)["variants"].([]any)[0].(object)["pass_rate"])
	require.Equal(t, 422, s.send(t, "POST", api+"/"+id+"/evaluate", object{"evaluators": rules[10:]}).StatusCode,
		"it has ten")
	require.Equal(t, 10, s.get(t, "/tasks/"+id+"/settings").page(t).Find("details.evaluate input[checked]").Length())
	draft := s.create(t, fake.URL, map[string]string{"start": "false"})
	require.Equal(t, http.StatusConflict, s.send(t, "POST", api+"/"+draft+"/evaluate",
		object{"evaluators": rules[:1]}).StatusCode)
}

// The votes of a judge are stored with its evaluation. For evaluations by earlier versions, which stored no votes, the
// same noise is computed from the stored replies.
func TestVotesAreStoredForTheNoise(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	asked, _ := s.chatTarget(t, "asked", agenttest.New(t, chatting(func(string) string { return "right" })).URL)
	var votes atomic.Int64
	judging, _ := s.chatTarget(t, "judge", agenttest.New(t, chatting(func(string) string {
		return fmt.Sprintf(`{"overall": %d, "reason": "right"}`, 50+votes.Add(1)*7%40)
	})).URL)
	judge := s.evaluator(t, "打分", "judge", object{"model_id": judging, "dimensions": []string{"overall"}, "votes": 3})
	var task struct {
		TaskID string `json:"task_id"`
	}
	s.post(t, api, map[string]string{
		"task_name": "votes", "models": asked, "evaluators": judge, "runs_per_item": "2",
		"file@q.csv": "question,standard_answer\nq1,a\nq2,a\nq3,a\n",
	}).into(t, &task)
	s.awaitDone(t, task.TaskID)
	noise := func() any {
		statistics := s.entry(t, "GET", "evaluation-tasks/"+task.TaskID+"/statistics", nil, 200)
		return statistics["evaluators"].([]any)[0].(object)["noise"]
	}
	stored := noise()
	require.Contains(t, fmt.Sprint(stored), "vote")
	var count int
	require.NoError(t, s.tables.Get(&count, `SELECT count(*) FROM evaluations WHERE cardinality(votes) = 3`))
	require.Equal(t, 6, count)
	s.tables.MustExec(`UPDATE evaluations SET votes = NULL`)
	require.Equal(t, stored, noise())
	s.tables.MustExec(`UPDATE evaluations SET votes = NULL, raw = NULL`)
	require.NotEqual(t, stored, noise(), "there is nothing else to read")
}
