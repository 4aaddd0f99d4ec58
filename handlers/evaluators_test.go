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

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
	"wending/jobs/evaluate"
)

// evaluator saves an evaluator and returns its id.
func (s *site) evaluator(t *testing.T, name, kind string, config object) string {
	t.Helper()
	return s.entry(t, "POST", "evaluators", object{"name": name, "kind": kind, "config": config}, 201)["id"].(string)
}

func TestEvaluatorsAreSavedWithVersions(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	saved := s.entry(t, "POST", "evaluators", object{"name": "数值", "kind": "number", "config": object{"tolerance": 0.5}},
		201)
	require.Equal(t, "number", saved["kind"])
	require.EqualValues(t, 1, saved["version"])
	require.Equal(t, object{"tolerance": 0.5}, saved["config"])
	path := "evaluators/" + saved["id"].(string)
	require.EqualValues(t, 1, s.entry(t, "PATCH", path, object{"name": "数值相等"}, 200)["version"], "a name makes no version")
	require.EqualValues(t, 1, s.entry(t, "PATCH", path, object{"config": object{"tolerance": 0.5}}, 200)["version"],
		"nor does what is the same")
	require.EqualValues(t, 2, s.entry(t, "PATCH", path, object{"config": object{"tolerance": 1}}, 200)["version"])
	require.EqualValues(t, 3, s.entry(t, "PATCH", path, object{"kind": "exact"}, 200)["version"])
	require.Equal(t, object{}, s.entry(t, "GET", path, nil, 200)["config"],
		"a new kind starts with an empty configuration")
	require.Equal(t, object{"tolerance": 0.5}, s.entry(t, "GET", path+"/versions/1", nil, 200)["config"])
	require.Len(t, s.entry(t, "GET", path+"/versions", nil, 200)["items"], 3)
	s.entry(t, "GET", path+"/versions/4", nil, 404)
	wrong := s.entry(t, "POST", "evaluators", object{"name": "r", "kind": "regex", "config": object{"pattern": "("}}, 422)
	require.Equal(t, "PARAMETER_INVALID", wrong["code"])
	require.Equal(t, "config.pattern", wrong["details"].([]any)[0].(object)["column"])
	misspelt := s.entry(t, "POST", "evaluators",
		object{"name": "misspelt", "kind": "contains", "config": object{"text": "x"}}, 422)
	require.Equal(t, "参数无效：config.text（values, mode, ignore_case, expected 之一）", misspelt["message"], "what there is")
	require.Contains(t, wrong["message"], "正则表达式的括号不成对")
	s.entry(t, "POST", "evaluators", object{"name": "x", "kind": "nothing"}, 422)
	s.entry(t, "POST", "evaluators", object{"name": "数值相等", "kind": "exact"}, 422)
	require.Len(t, s.entry(t, "GET", "evaluators", nil, 200)["items"], 1)
	s.entry(t, "DELETE", path, nil, 204)
	s.entry(t, "GET", path, nil, 404)

	verdict := s.entry(t, "POST", "evaluators/test",
		object{"kind": "exact", "config": object{"ignore_case": true}, "question": "q", "standard_answer": "Paris",
			"answer": "paris"}, 200)
	require.Equal(t, "SUCCEEDED", verdict["status"])
	require.Equal(t, true, verdict["passed"])
	require.EqualValues(t, 1, verdict["score"])
	require.Nil(t, verdict["evaluator_id"])
	verdict = s.entry(t, "POST", "evaluators/test",
		object{"kind": "expression", "config": object{"expression": `variables.level == "高" and tokens == 7`}, "answer": "x",
			"variables": object{"level": "高"}, "tokens": 7}, 200)
	require.Equal(t, true, verdict["passed"])
	require.Equal(t, "SKIPPED", s.entry(t, "POST", "evaluators/test", object{"kind": "exact", "answer": "x"},
		200)["status"])
	require.Equal(t, "PARAMETER_INVALID", s.entry(t, "POST", "evaluators/test", object{"kind": "latency"}, 422)["code"])
}

// The worked example of metrics.md, through the API: variants A and B on three questions.
func TestVerdictsHaveTheNumbersOfTheWorkedExample(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	// A run passes if its score is 1. The expression scores "paris" 0.5 and "Lyon" 0.
	rule := s.evaluator(t, "答案", "expression",
		object{"expression": `answer == expected ? 1 : lower(answer) == lower(expected) ? 0.5 : 0`, "threshold": 1})
	answers := map[string]map[string][]string{
		"A": {"一": {"Paris", "Paris ", "Paris", "Lyon", "paris"}, "二": {"42", "42", "42", "42", "42"},
			"三": {"yes", "no", "", "yes", ""}},
		"B": {"一": {"Paris", "Paris", "Paris", "Paris", "Paris"}, "二": {"42", "42", "42", "42", "41"},
			"三": {"yes", "yes", "yes", "yes", ""}},
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
	differences := s.entry(t, "GET", "comparison?a="+task.TaskID+":1&b="+task.TaskID+":2", nil,
		200)["differences"].(object)
	near(0.1778, differences["pass_share"].(object)["difference"])
	near(0.1899, differences["pass_share"].(object)["se"])
	near(0.1444, differences["score"].(object)["difference"])
	near(0.4905, differences["score"].(object)["p"])

	// Results contain the verdicts, and can be filtered by them.
	items := s.entry(t, "GET", path+"/results", nil, 200)["items"].([]any)
	of := items[0].(object)["variants"].([]any)
	near(0.6, of[0].(object)["pass_share"])
	near(0.2307, of[0].(object)["pass_interval"].([]any)[0])
	near(0.8824, of[0].(object)["pass_interval"].([]any)[1])
	near(0.5655, of[1].(object)["consensus_interval"].([]any)[0]) // five equal answers of five
	near(1, of[1].(object)["consensus_interval"].([]any)[1])
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

	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(s.get(t, api+"/"+task.TaskID+"/export?format=csv").body,
		[]byte("\uFEFF")))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{
		"run_5_total_tokens", "run_5_cost", "run_5_答案_score", "run_5_答案_passed", "run_5_答案_reason",
		"run_1_finish_reason", "run_2_finish_reason", "run_3_finish_reason", "run_4_finish_reason", "run_5_finish_reason",
	}, rows[0][len(rows[0])-10:])
	require.Len(t, rows, 7)
	var line struct {
		Runs []struct{ Evaluations []object }
	}
	first, _, _ := strings.Cut(string(s.get(t, api+"/"+task.TaskID+"/export?format=jsonl").body), "\n")
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	require.Equal(t, "答案", line.Runs[0].Evaluations[0]["name"])

	// Changes in the library do not affect the task; a copy keeps the task's evaluators.
	s.entry(t, "PATCH", "evaluators/"+rule, object{"config": object{"expression": "false"}}, 200)
	require.EqualValues(t, 1, s.entry(t, "GET", path, nil, 200)["evaluators"].([]any)[0].(object)["version"])
	clone := s.entry(t, "POST", path+"/clone", object{"start": false}, 201)
	require.EqualValues(t, 1, s.entry(t, "GET", "evaluation-tasks/"+clone["task_id"].(string), nil,
		200)["evaluators"].([]any)[0].(object)["version"])
	s.entry(t, "DELETE", "evaluators/"+rule, nil, 204)
	require.NotNil(t, s.entry(t, "GET", "evaluators/"+rule, nil, 200)["archived_at"], "it was used")
	require.Equal(t, http.StatusNoContent, s.send(t, "DELETE", api+"/"+task.TaskID, nil).StatusCode)
	var left int
	require.NoError(t, s.tables.Get(&left, `SELECT count(*) FROM evaluations`))
	require.Zero(t, left, "verdicts go with their runs")
}

// Without evaluators there are no verdicts anywhere (spec/004).
func TestWithoutEvaluatorsThereIsNoVerdict(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, call.Question) })
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "2"})
	s.awaitDone(t, id)
	variant := s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["variants"].([]any)[0].(object)
	for _, name := range []string{"pass_rate", "pass_rate_all", "pass_rate_interval", "majority_rate", "pass_at",
		"pass_hat", "score_mean", "score_se"} {
		require.Contains(t, variant, name)
		require.Nil(t, variant[name], name)
	}
	header, _, _ := strings.Cut(string(s.get(t, api+"/"+id+"/export?format=csv").body), "\r\n")
	require.NotContains(t, header, "_passed")
	require.NotContains(t, header, "_variant")
	page := string(s.get(t, "/tasks/"+id+"/results").body)
	require.NotContains(t, page, "通过率")
	unknown := "6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"
	answer := s.post(t, api, map[string]string{
		"task_name": "x", "agent_api_url": fake.URL, "evaluators": unknown,
		"file@q.csv": "question,standard_answer\na,b\n",
	})
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, string(answer.body), "evaluators")
	list := strings.TrimSuffix(strings.Repeat(unknown+",", 11), ",")
	answer = s.post(t, api, map[string]string{
		"task_name": "x", "agent_api_url": fake.URL, "evaluators": list,
		"file@q.csv": "question,standard_answer\na,b\n",
	})
	require.Contains(t, string(answer.body), "TASK_TOO_LARGE")
}

// The pages of evaluators: a form for each kind, with which an evaluator can be tried on a typed answer and on the
// answers of a task.
func TestAnEvaluatorIsMadeAndTriedOnItsPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "It is "+call.Question)
	})
	done := s.create(t, fake.URL, map[string]string{"runs_per_item": "2"})
	s.awaitDone(t, done)
	kinds := s.get(t, "/library/evaluators/new").page(t)
	require.Equal(t, len(evaluate.Kinds), kinds.Find(".kinds-list a").Length())
	require.Zero(t, kinds.Find("#entry").Length(), "first a kind is chosen")
	for _, kind := range evaluate.Kinds {
		page := s.get(t, "/library/evaluators/new?kind="+string(kind)).page(t)
		for _, field := range evaluate.Fields[kind] {
			require.Equal(t, 1, page.Find("#entry [name=config_"+field.Name+"]").Length(), "%s %s", kind, field.Name)
		}
	}
	form := formOf(s.get(t, "/library/evaluators/new?kind=contains").page(t))
	form["name"], form["config_values"], form["config_mode"] = "含", "It is\n\nnothing", "some"
	page := s.post(t, "/library/evaluators", form)
	require.Equal(t, 422, page.StatusCode)
	require.NotEmpty(t, page.page(t).Find("#config_mode-error").Text())
	form = formOf(page.page(t))
	require.Equal(t, "It is\n\nnothing", form["config_values"], "what was typed stays")
	form["config_mode"], form["config_ignore_case"] = "any", "true"
	path := saved(t, s.post(t, "/library/evaluators", form))
	entry := s.entry(t, "GET", strings.TrimPrefix(path, "/library/"), nil, 200)
	require.Equal(t, object{"values": []any{"It is", "nothing"}, "mode": "any", "ignore_case": true}, entry["config"])
	own := s.get(t, path).page(t)
	form = formOf(own)
	require.Equal(t, "true", form["config_ignore_case"])
	require.Equal(t, 1, own.Find("select[name=try_task] option[value='"+done+"']").Length())

	try := func(fields map[string]string) *goquery.Selection {
		for name, value := range form {
			if _, isSet := fields[name]; !isSet {
				fields[name] = value
			}
		}
		answer := s.post(t, "/library/evaluators/test", fields)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		return answer.page(t).Find("#tried")
	}
	require.Contains(t, try(map[string]string{"answer": "IT IS <b>x</b>"}).Text(), "通过")
	failed := try(map[string]string{"answer": "<b>no</b>"})
	require.Contains(t, failed.Text(), "未通过")
	require.Contains(t, failed.Text(), "回答中没有“It is”、“nothing”")
	require.Zero(t, failed.Find(".said b").Length(), "an answer is text")
	onTask := try(map[string]string{"try_task": done})
	require.Equal(t, 2, onTask.Find("li").Length(), "each different answer once")
	require.Contains(t, onTask.Text(), "前 2 题的 2 个不同回答中，2 个通过")
	require.NotEmpty(t, try(map[string]string{"config_mode": "some", "answer": "x"}).Find(".error").Text())

	// Clearing a checkbox is a change that creates a version.
	delete(form, "config_ignore_case")
	saved(t, s.post(t, path, form))
	require.EqualValues(t, 2, s.entry(t, "GET", strings.TrimPrefix(path, "/library/"), nil, 200)["version"])
	require.Equal(t, 2, s.get(t, path).page(t).Find(".panel ol.uses li").Length())
}

// Both forms for tasks offer evaluators, a copy keeps those of its task, and pages show their verdicts.
func TestEvaluatorsAreChosenAndShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	require.Zero(t, s.get(t, "/").page(t).Find("input[type=checkbox][name=evaluators]").Length(), "none is saved")
	id := s.evaluator(t, "长度", "expression", object{"expression": `answer contains "good" ? 1 : 0.4`})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, map[bool]string{true: "good", false: "bad"}[strings.Contains(call.Question, "一")])
	})
	form := createForm(s.get(t, "/").page(t))
	form["task_name"], form["agent_api_url"], form["evaluators"], form["runs_per_item"], form["rate_limit"] = "判",
		fake.URL, id, "2", "unlimited"
	form["file@q.csv"] = "question,standard_answer\n一,x\n二,x\n"
	require.Equal(t, "/tasks", saved(t, s.post(t, "/tasks", form)))
	row, _ := s.get(t, "/tasks").page(t).Find("tr[id^=task-]").Attr("id")
	task := strings.TrimPrefix(row, "task-")
	s.awaitDone(t, task)
	require.Contains(t, s.get(t, "/tasks/"+task+"/settings").page(t).Find(".facts").Text(), "长度 v1")
	report := s.get(t, "/tasks/"+task+"/results?view=columns").page(t)
	require.Contains(t, report.Find(".counts").Text(), "通过率?50.0%")
	require.Equal(t, 4, report.Find(".run .verdicts").Length())
	require.Contains(t, report.Find(".verdicts").Text(), "长度 未通过 0.40 / 0.50")
	require.Equal(t, 1, s.get(t, "/tasks/"+task+"/results?filter=unpassed").page(t).Find("article").Length())
	merged := s.get(t, "/tasks/"+task+"/results?view=merged").page(t)
	require.Contains(t, merged.Find(".merged").Text(), "表达式的结果为 0.40，低于 0.50")
	require.Contains(t, string(s.get(t, api+"/"+task+"/export?format=html").body), "长度 v1")
	run := report.Find(".run a[href*='/runs/']").First().AttrOr("href", "")
	if run == "" {
		items := s.entry(t, "GET", "evaluation-tasks/"+task+"/results", nil, 200)["items"].([]any)
		run = fmt.Sprintf("/tasks/%s/runs/%v", task, items[0].(object)["runs"].([]any)[0].(object)["run_id"])
	}
	require.Contains(t, s.get(t, run).page(t).Find(".verdicts").Text(), "长度")

	// A copy keeps its evaluators' versions; evaluators that the library no longer offers are named.
	s.entry(t, "PATCH", "evaluators/"+id, object{"config": object{"expression": "true"}}, 200)
	copied := s.get(t, "/?from="+task).page(t)
	require.Equal(t, id+"@1", copied.Find("input[name=evaluators][checked]").AttrOr("value", ""))
	s.entry(t, "DELETE", "evaluators/"+id, nil, 204)
	require.Contains(t, s.get(t, "/?from="+task).page(t).Find(".note").Text(), "长度")
	compare := s.get(t, "/compare").page(t)
	require.Equal(t, 1, compare.Find("fieldset a[href='/library/evaluators/new']").Length())
}

// The report in numbers: sentences that state what the data show and what they do not, for one variant and for
// several, on its page, in the document and on the first sheet of the workbook.
func TestTheReportSaysWhatTheDataShow(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	rule := s.evaluator(t, "对", "exact", nil)
	plain := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if strings.Contains(call.Question, "三") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		agenttest.Stream(w, "<b>42</b>")
	})
	id := s.create(t, plain.URL, map[string]string{
		"runs_per_item": "5", "max_retries": "0", "evaluators": rule,
		"file@q.csv": "question,standard_answer\n一,<b>42</b>\n二,41\n三,42\n",
	})
	s.awaitDone(t, id)
	page := s.get(t, "/tasks/"+id+"/report").page(t)
	text := page.Find(".synopsis").Text()
	require.Contains(t, text, "3 题，每题问 5 次，共 15 次调用")
	require.Contains(t, text, "评估通过率 50.0%")
	require.Contains(t, text, "5 次运行没有得到回答")
	require.Contains(t, text, "至少 56.6% 的回答会相同")
	require.Equal(t, "/tasks/"+id+"/results?filter=unpassed", page.Find(".numbers td.figure a").First().AttrOr("href", ""))
	require.Equal(t, 2, page.Find("svg.interval").Length())
	require.Contains(t, page.Find(".worst li").First().Text(), "二", "none of its answers passes")
	require.Contains(t, text, "HTTP_400")
	document := string(s.get(t, api+"/"+id+"/export?format=html").body)
	require.Contains(t, document, "主要发现")
	cover, _, _ := strings.Cut(document, "<main>")
	require.NotContains(t, cover, "href=", "a document leads nowhere")
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx").body))
	require.NoError(t, err)
	rows, err := book.GetRows(book.GetSheetName(0))
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(rows), "3 题，每题问 5 次")

	c := newCompared(t, s)
	created := s.entry(t, "POST", "evaluation-tasks", c.task(), 201)
	several := created["task_id"].(string)
	s.awaitDone(t, several)
	page = s.get(t, "/tasks/"+several+"/report").page(t)
	page.Find("#slices").Remove() // its hint explains the order for all tasks
	text = page.Find(".synopsis").Text()
	require.Contains(t, text, "4 个方案，3 题，每题各问 5 次，共 60 次调用")
	require.Contains(t, text, "以下指标看不出各方案的差距：成功率")
	require.Contains(t, text, "一致率：方案 1 简短 v1 × steady 在每一题上都优于方案 2、4，且差距相同")
	require.NotContains(t, text, "通过率", "nothing judges")
	require.Equal(t, 4, page.Find(".plot").Length())
	require.Equal(t, http.StatusConflict, s.get(t, "/tasks/"+s.create(t, plain.URL, map[string]string{"start": "false"})+
		"/report").StatusCode)
}

// An expression with a variable that no question has would fail on every answer, so the task is refused, and so is
// a later evaluation.
func TestAnUnknownVariableOfAnExpressionIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	typo := s.evaluator(t, "城市", "expression", object{"expression": `answer contains variables.cty`})
	known := s.evaluator(t, "已知", "expression", object{"expression": `variables.city != "" or variables.question != ""`})
	s.entry(t, "POST", "evaluators", object{"name": "坏", "kind": "expression",
		"config": object{"expression": `anwser == "x"`}}, 422)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, call.Question) })
	fields := map[string]string{
		"task_name": "变量", "agent_api_url": fake.URL, "runs_per_item": "1", "rate_limit": "unlimited", "evaluators": typo,
		"file@q.csv": "question,standard_answer,city\n一,x,巴黎\n",
	}
	refused := s.post(t, api, fields)
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	var body struct{ Code, Message string }
	refused.into(t, &body)
	require.Equal(t, "PARAMETER_INVALID", body.Code)
	require.Contains(t, body.Message, "variables.cty")
	require.Contains(t, body.Message, "最接近的是 city")
	form := createForm(s.get(t, "/").page(t))
	form["task_name"], form["agent_api_url"], form["evaluators"], form["file@q.csv"] = "变量", fake.URL, typo,
		fields["file@q.csv"]
	page := s.post(t, "/tasks", form)
	require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode)
	require.Contains(t, page.page(t).Text(), "最接近的是 city")

	fields["evaluators"] = known
	created := s.post(t, api, fields)
	require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
	var task struct {
		TaskID string `json:"task_id"`
	}
	created.into(t, &task)
	s.awaitDone(t, task.TaskID)
	later := s.entry(t, "POST", "evaluation-tasks/"+task.TaskID+"/evaluate", object{"evaluators": []string{typo}}, 422)
	require.Contains(t, later["message"], "variables.cty")
}

// The copies that a schedule makes do not crowd other tasks out of the list on which an evaluator can be tried.
func TestCopiesOfASchedulesTaskAreOfferedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, call.Question) })
	var ids []string
	for range 3 {
		ids = append(ids, s.create(t, fake.URL, map[string]string{"runs_per_item": "1"}))
		s.awaitDone(t, ids[len(ids)-1])
	}
	schedule := s.entry(t, "POST", "schedules", object{"name": "每晚", "task_id": ids[0], "cron": "0 2 * * *"}, 201)["id"]
	_, err := s.tables.Exec(`UPDATE evaluation_tasks SET schedule_id = $1 WHERE id::text IN ($2, $3)`, schedule,
		ids[1], ids[2])
	require.NoError(t, err)
	choices := s.get(t, "/library/evaluators/new?kind=exact").page(t).Find("select[name=try_task]")
	require.Equal(t, 1, choices.Find("option[value='"+ids[0]+"']").Length())
	require.Zero(t, choices.Find("option[value='"+ids[1]+"']").Length(), "an earlier copy")
	require.Equal(t, 1, choices.Find("option[value='"+ids[2]+"']").Length(), "the newest copy")
}

// An evaluator can be tried on any task of the project: tasks beyond the listed ones are found by name, with and
// without scripts.
func TestAnEvaluatorIsTriedOnATaskThatIsFoundByName(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	dbtest.Seed(t, s.tables, 120, 1, 1)
	var needle, foreign string
	require.NoError(t, s.tables.Get(&needle,
		`UPDATE evaluation_tasks SET task_name = '一根针' WHERE id = (SELECT id FROM evaluation_tasks ORDER BY created_at, id LIMIT 1) RETURNING id`))
	other := s.entry(t, "POST", "projects", object{"name": "别处"}, 201)["id"].(string)
	require.NoError(t, s.tables.Get(&foreign, `UPDATE evaluation_tasks SET task_name = '另一根针', project_id = $1
		WHERE id = (SELECT id FROM evaluation_tasks ORDER BY created_at, id OFFSET 1 LIMIT 1) RETURNING id`, other))
	here := "?project=" + db.DefaultProject.String()
	form := s.get(t, "/library/evaluators/new"+here+"&kind=exact").page(t)
	require.Zero(t, form.Find("select[name=try_task] option[value='"+needle+"']").Length())
	require.Contains(t, form.Find("select[name=try_task] option[disabled]").Text(), "还有 19 个任务")
	require.Equal(t, "按名称查找任务", strings.TrimSpace(form.Find("label:has(input[name=try_query])").Text()))
	require.Contains(t, form.Find("noscript").Text(), "try_search", "without a script there is a button")

	fields := map[string]string{"kind": "exact", "name": "写了一半", "try_query": "针", "try_search": "1"}
	page := s.post(t, "/library/evaluators/test"+here, fields).page(t)
	values := func(page *goquery.Selection) []string {
		return page.Find("option:not([disabled])").Map(func(_ int, option *goquery.Selection) string {
			return option.AttrOr("value", "-")
		})
	}
	require.Equal(t, []string{"", needle}, values(page.Find("select[name=try_task]")), "of this project alone")
	require.Equal(t, "写了一半", page.Find("input[name=name]").AttrOr("value", ""), "nothing that was typed is lost")
	require.Equal(t, "针", page.Find("input[name=try_query]").AttrOr("value", ""))
	require.Zero(t, page.Find("#tried .error").Length(), "nothing is tried")

	request := s.form(t, "/library/evaluators/test?project="+other, fields)
	request.Header.Set("HX-Request", "true")
	part := s.do(t, request).page(t)
	require.Equal(t, []string{"", foreign}, values(part.Selection))
	require.Zero(t, part.Find("form").Length(), "only the choices")
	fields["try_query"], fields["try_task"] = "没有", needle
	page = s.post(t, "/library/evaluators/test"+here, fields).page(t)
	require.Equal(t, []string{"", needle}, values(page.Find("select[name=try_task]")), "what is chosen stays")
	require.Equal(t, 1, page.Find("select[name=try_task] option[selected]").Length())
	inEnglish, err := http.NewRequest(http.MethodGet, s.URL+"/library/evaluators/new"+here+"&kind=exact", nil)
	require.NoError(t, err)
	inEnglish.AddCookie(&http.Cookie{Name: "lang", Value: "en"})
	require.Contains(t, s.do(t, inEnglish).page(t).Find("select[name=try_task] option[disabled]").Text(), "19 more tasks")
}
