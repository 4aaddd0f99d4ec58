package handlers_test

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// forbid sets what a site's only project may not send.
func (s *site) forbid(t *testing.T, patterns ...string) {
	t.Helper()
	s.entry(t, "PUT", "projects/"+db.DefaultProject.String()+"/settings",
		object{"review_reasons": []string{}, "sensitive_patterns": append([]string{}, patterns...)}, 200)
}

// askToConfirm has a site's only project ask for confirmation instead of refusing a launch.
func (s *site) askToConfirm(t *testing.T) {
	t.Helper()
	path := "projects/" + db.DefaultProject.String() + "/settings"
	set := s.entry(t, "PUT", path, object{"review_reasons": []string{}, "sensitive_action": "confirm"}, 200)
	require.Equal(t, "confirm", set["sensitive_action"])
	wrong := s.entry(t, "PUT", path, object{"review_reasons": []string{}, "sensitive_action": "ask"}, 422)
	require.Equal(t, "PARAMETER_INVALID", wrong["code"])
}

// sent sends a form as browsers send one without a file.
func (s *site) sent(t *testing.T, path string, fields url.Values) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, s.URL+path, strings.NewReader(fields.Encode()))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.do(t, request)
}

// hidden returns the hidden fields of a form.
func hidden(form *goquery.Selection) url.Values {
	fields := url.Values{}
	form.Find("input[type=hidden]").Each(func(_ int, field *goquery.Selection) {
		fields.Add(field.AttrOr("name", ""), field.AttrOr("value", ""))
	})
	return fields
}

// words returns the text of a part of a page, with single blanks.
func words(part *goquery.Selection) string { return strings.Join(strings.Fields(part.Text()), " ") }

// confirmed is the audit entry of a confirmation.
type confirmed struct {
	Object string `db:"object_id"`
	Status int    `db:"status"`
	Actor  string `db:"actor"`
	After  string `db:"after"`
}

// confirmations returns the audit's entries about confirmed content, oldest first.
func (s *site) confirmations(t *testing.T) (entries []confirmed) {
	t.Helper()
	require.NoError(t, s.tables.Select(&entries, `SELECT object_id, status, actor, after FROM audit_entries
		WHERE action = 'task.confirm_sensitive' ORDER BY seq`))
	return entries
}

// No page or endpoint starts a launch that would send what its project forbids; the error names the places.
func TestWhatMustNotBeSentIsNotSent(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "ok") })
	const harmless = "question_id,question,standard_answer,部门\na,问,答,甲\n"
	done := s.create(t, fake.URL, map[string]string{"runs_per_item": "2", "file@q.csv": harmless})
	s.awaitDone(t, done)
	draft := s.post(t, api, map[string]string{"task_name": "t", "agent_api_url": fake.URL, "start": "false",
		"file@q.csv": "question,standard_answer\n问,绝密的答案\n"})
	require.Equal(t, http.StatusCreated, draft.StatusCode)
	var made struct {
		TaskID string `json:"task_id"`
	}
	draft.into(t, &made)
	before := len(fake.Calls())

	s.forbid(t, "绝密", "ABC公司", `/\d{17}[0-9X]/`)
	place := func(answer response) (row float64, column string) {
		t.Helper()
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%.300s", answer.body)
		var refused object
		answer.into(t, &refused)
		require.Equal(t, "SENSITIVE_CONTENT", refused["code"])
		first := refused["details"].([]any)[0].(object)
		return first["row"].(float64), first["column"].(string)
	}
	for name, one := range map[string]struct {
		file   string
		row    float64
		column string
	}{
		"a word":         {"question,standard_answer\nx,y\n这是绝密文件,y\n", 2, "question"},
		"another width":  {"question,standard_answer\nａｂｃ公司,y\n", 1, "question"},
		"an expression":  {"question,standard_answer\n身份证 11010519491231002X 的,y\n", 1, "question"},
		"an answer":      {"question,standard_answer\nx,绝密\n", 1, "standard_answer"},
		"a variable":     {"question,standard_answer,备注\nx,y,绝密\n", 1, "备注"},
		"a context":      {"question,standard_answer,user_context\nx,y,绝密\n", 1, "user_context"},
		"system prompts": {"question,standard_answer,system_prompt\nx,y,绝密\n", 1, "system_prompt"},
	} {
		fields := map[string]string{"task_name": "t", "agent_api_url": fake.URL, "file@q.csv": one.file}
		row, column := place(s.post(t, api, fields))
		require.Equal(t, one.row, row, name)
		require.Equal(t, one.column, column, name)
	}
	prompt := s.entry(t, "POST", "prompts", object{"name": "p", "user": "绝密 {{question}}"}, 201)["id"].(string)
	row, column := place(s.post(t, api, map[string]string{"task_name": "t", "agent_api_url": fake.URL, "prompts": prompt,
		"file@q.csv": harmless}))
	require.Zero(t, row)
	require.Equal(t, "variants[1].user", column)
	many := s.post(t, api, map[string]string{"task_name": "t", "agent_api_url": fake.URL,
		"file@q.csv": "question,standard_answer\n" + strings.Repeat("绝密,y\n", 50)})
	require.Equal(t, 20, strings.Count(string(many.body), `"column":"question"`), "at most 20 places")

	row, column = place(s.post(t, api+"/"+made.TaskID+"/run", nil))
	require.Equal(t, []any{1.0, "standard_answer"}, []any{row, column})
	row, column = place(s.post(t, api+"/"+done+"/items", map[string]string{
		"file@q.csv": "question_id,question,standard_answer,部门\nb,问,答,绝密\n"}))
	require.Equal(t, []any{2.0, "部门"}, []any{row, column}, "the row of the file")
	s.forbid(t, "甲")
	for _, path := range []string{"/extend", "/retry", "/resume"} {
		fields := map[string]string{}
		if path == "/extend" {
			fields["runs_per_item"] = "3"
		}
		row, column = place(s.post(t, api+"/"+done+path, fields))
		require.Equal(t, []any{1.0, "部门"}, []any{row, column}, path)
	}

	// The patterns also apply to evaluators that a launch adds, and to a question with which an agent is tried out.
	s.forbid(t, "绝密")
	model, _ := s.chatTarget(t, "judge", fake.URL)
	judge := s.evaluator(t, "裁判", "judge", object{"model_id": model, "prompt": "绝密 {{answer}}"})
	row, column = place(s.send(t, http.MethodPost, api+"/"+done+"/evaluate", object{"evaluators": []string{judge}}))
	require.Equal(t, []any{0.0, "evaluators[1].prompt"}, []any{row, column})
	tried := s.do(t, s.form(t, "/tasks/probe", map[string]string{"task_name": "t", "agent_api_url": fake.URL,
		"file@q.csv": "question,standard_answer\n这是绝密文件,y\n"}))
	require.Equal(t, http.StatusUnprocessableEntity, tried.StatusCode)
	require.Contains(t, string(tried.body), "命中“绝密”")
	s.forbid(t, "甲")

	// Pages name the place, too, and the form keeps what was typed.
	page := s.do(t, s.form(t, "/tasks", map[string]string{"task_name": "某任务", "agent_api_url": fake.URL,
		"file@q.csv": harmless}))
	require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode)
	require.Contains(t, string(page.body), "第 1 题的“部门”含本空间不允许发送的内容（命中“甲”")
	require.Contains(t, string(page.body), "某任务")
	refused := s.do(t, s.form(t, "/tasks/"+done+"/retry", nil))
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Contains(t, string(refused.body), "第 1 题的“部门”含本空间不允许发送的内容（命中“甲”")
	require.Len(t, fake.Calls(), before, "nothing was sent")

	// A schedule skips its firing and shows the reason.
	schedule := s.schedule(t, "夜间", done, nil)
	s.due(t, schedule, 1)
	dbtest.Await(t, 20*time.Second, "the firing",
		func() bool { return len(s.listed(t, "schedules/"+schedule+"/firings")) == 1 })
	require.Equal(t, "SENSITIVE_CONTENT", s.listed(t, "schedules/"+schedule+"/firings")[0]["reason"])
	require.Contains(t, s.get(t, "/library/schedules/"+schedule).page(t).Text(), "任务含有本空间的敏感内容，定时任务不能确认")
	require.Len(t, fake.Calls(), before)

	s.forbid(t)
	started := s.post(t, api+"/"+made.TaskID+"/run", nil)
	require.Equal(t, http.StatusAccepted, started.StatusCode, "an empty list allows all")
	require.Zero(t, s.reports.Load(), s.told.String())
}

// Answers are not sent to judges, nor to models that group answers, if they contain what the project forbids: neither
// those that a task has already, nor those that a launch produces. The audit has an entry for each refusal, without the
// text.
func TestAnswersThatMustNotBeSentAreNotJudged(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "答复 "+call.Question)
	})
	judging := agenttest.New(t, chatting(func(string) string { return `{"overall": 80}` }))
	model, _ := s.chatTarget(t, "judge", judging.URL)
	judge := s.evaluator(t, "裁判", "judge",
		object{"model_id": model, "prompt": "{{answer}}", "dimensions": []string{"overall"}})
	s.forbid(t, "绝密", "答复 q1")
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "2", "evaluators": judge,
		"file@q.csv": "question_id,question,standard_answer\na,q1,x\nb,q2,x\n"})
	s.awaitDone(t, id)
	var results object
	s.get(t, api+"/"+id+"/results").into(t, &results)
	for n, item := range results["items"].([]any) {
		for _, run := range item.(object)["runs"].([]any) {
			verdict := run.(object)["evaluations"].([]any)[0].(object)
			if n == 1 {
				require.Nil(t, verdict["error_code"])
				require.EqualValues(t, 0.8, verdict["score"])
				continue
			}
			require.Equal(t, "SENSITIVE_CONTENT", verdict["error_code"])
			require.Nil(t, verdict["passed"])
			require.Contains(t, verdict["error_message"], "答复 q1", "the pattern")
		}
	}
	require.Len(t, judging.Calls(), 2)

	for path, body := range map[string]object{"/evaluate": {"evaluators": []string{judge}},
		"/meanings": {"model_id": model}} {
		refused := s.send(t, http.MethodPost, api+"/"+id+path, body).mustBe(t, http.StatusUnprocessableEntity)
		require.Equal(t, "SENSITIVE_CONTENT", refused["code"], path)
		place := refused["details"].([]any)[0].(object)
		require.Equal(t, []any{1.0, "answer"}, []any{place["row"], place["column"]}, path)
	}
	require.Len(t, judging.Calls(), 2)
	tried := s.entry(t, "POST", "evaluators/test", object{"kind": "judge", "config": object{"model_id": model,
		"prompt": "{{answer}}"}, "question": "q1", "answer": "绝密"}, 200)
	require.Equal(t, "SENSITIVE_CONTENT", tried["error_code"], "a trial does not send it, either")
	require.Len(t, judging.Calls(), 2)
	var entries []struct {
		Object string `db:"object_id"`
		Status int    `db:"status"`
		After  string `db:"after"`
	}
	require.NoError(t, s.tables.Select(&entries, `SELECT object_id, status, after FROM audit_entries WHERE action = $1`,
		"task.withhold"))
	require.Len(t, entries, 2)
	for _, entry := range entries {
		require.Equal(t, id, entry.Object)
		require.Equal(t, http.StatusUnprocessableEntity, entry.Status)
		require.JSONEq(t, `{"places": [{"row": 1, "column": "answer", "pattern": "答复 q1"}]}`, entry.After)
	}
	require.Contains(t, s.get(t, "/tasks/"+id+"/results").page(t).Text(), "不允许发送的内容")
	s.forbid(t)
	s.send(t, http.MethodPost, api+"/"+id+"/evaluate", object{"evaluators": []string{judge}}).mustBe(t, http.StatusAccepted)
	s.awaitDone(t, id)
	require.Len(t, judging.Calls(), 6)
	require.Zero(t, s.reports.Load(), s.told.String())
}

// In a project that asks for confirmation, every start lists what would be sent, and starts once exactly that is
// confirmed. The audit has an entry for each confirmation, without the text.
func TestSensitiveContentIsSentOnceItIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, "答 "+call.Question) })
	judging := agenttest.New(t, chatting(func(string) string { return `{"overall": 80}` }))
	model, _ := s.chatTarget(t, "judge", judging.URL)
	judge := s.evaluator(t, "裁判", "judge",
		object{"model_id": model, "prompt": "{{question}} {{answer}}", "dimensions": []string{"overall"}})
	s.forbid(t, "绝密", "机要")
	s.askToConfirm(t)
	// unconfirmed returns what a response names, and the confirmation that it asks for.
	unconfirmed := func(answer response, places int) string {
		t.Helper()
		refused := answer.mustBe(t, http.StatusUnprocessableEntity)
		require.Equal(t, "SENSITIVE_UNCONFIRMED", refused["code"])
		require.Len(t, refused["details"], min(20, places))
		require.Contains(t, refused["message"], strconv.Itoa(places)+" 处")
		return refused["confirmation"].(string)
	}
	create := func(query string) response {
		return s.post(t, api+query, map[string]string{"task_name": "t", "agent_api_url": fake.URL, "runs_per_item": "2",
			"evaluators": judge, "file@q.csv": "question_id,question,standard_answer\na,绝密 1,x\nb,问 2,x\nc,问 3,机要\n"})
	}
	confirmation := unconfirmed(create(""), 2)
	for _, wrong := range []string{"true", strings.Repeat("0", 16), confirmation + "," + confirmation + "x", ","} {
		unconfirmed(create("?confirm_sensitive="+wrong), 2)
	}
	require.Empty(t, fake.Calls())
	created := create("?confirm_sensitive="+confirmation).mustBe(t, http.StatusCreated)
	id := created["task_id"].(string)
	s.awaitDone(t, id)
	require.Len(t, fake.Calls(), 6)
	// The question was confirmed, but nobody has seen the answer that repeats it.
	require.Len(t, judging.Calls(), 4, "both answers to the questions b and c")
	entry := s.confirmations(t)[0]
	require.Equal(t, []any{id, 201, "127.0.0.1"}, []any{entry.Object, entry.Status, entry.Actor})
	require.JSONEq(t, `{"action": "task.create", "count": 2, "places": [
		{"row": 1, "column": "question", "pattern": "绝密"}, {"row": 3, "column": "standard_answer", "pattern": "机要"}]}`,
		entry.After)

	// The existing answers and the questions are confirmed one after the other, because they are checked in two steps.
	evaluate := func(query string) response {
		return s.send(t, http.MethodPost, api+"/"+id+"/evaluate"+query, object{"evaluators": []string{judge}})
	}
	answers := unconfirmed(evaluate(""), 1)
	both := unconfirmed(evaluate("?confirm_sensitive="+answers), 2)
	require.Equal(t, answers+","+confirmation, both)
	evaluate("?confirm_sensitive="+both).mustBe(t, http.StatusAccepted)
	s.awaitDone(t, id)
	require.Len(t, judging.Calls(), 10)
	require.Contains(t, s.confirmations(t)[1].After, `"count":3`)
	for _, path := range []string{"/retry", "/resume", "/extend"} {
		fields := map[string]string{}
		if path == "/extend" {
			fields["runs_per_item"] = "3"
		}
		require.Equal(t, confirmation, unconfirmed(s.post(t, api+"/"+id+path, fields), 2), path)
	}
	many := s.post(t, api, map[string]string{"task_name": "t", "agent_api_url": fake.URL,
		"file@q.csv": "question,standard_answer\n" + strings.Repeat("绝密,y\n", 50)})
	unconfirmed(many, 50)

	// Trials are refused, and so is a schedule: nobody is there to confirm.
	tried := s.do(t, s.form(t, "/tasks/probe", map[string]string{"task_name": "t", "agent_api_url": fake.URL,
		"file@q.csv": "question,standard_answer\n绝密,y\n"}))
	require.Contains(t, string(tried.body), "不允许发送")
	schedule := s.schedule(t, "夜间", id, nil)
	s.due(t, schedule, 1)
	dbtest.Await(t, 20*time.Second, "the firing",
		func() bool { return len(s.listed(t, "schedules/"+schedule+"/firings")) == 1 })
	require.Equal(t, "SENSITIVE_CONTENT", s.listed(t, "schedules/"+schedule+"/firings")[0]["reason"])

	s.forbid(t, "绝密", "机要", "问")
	require.NotEqual(t, confirmation, unconfirmed(s.post(t, api+"/"+id+"/extend?confirm_sensitive="+confirmation,
		map[string]string{"runs_per_item": "3"}), 4), "other places than were confirmed")
	s.entry(t, "PUT", "projects/"+db.DefaultProject.String()+"/settings",
		object{"review_reasons": []string{}, "sensitive_action": "refuse"}, 200)
	refused := create("?confirm_sensitive="+confirmation).mustBe(t, http.StatusUnprocessableEntity)
	require.Equal(t, "SENSITIVE_CONTENT", refused["code"])
	require.Nil(t, refused["confirmation"])
	require.Zero(t, s.reports.Load(), s.told.String())
}

// Pages list the places and keep what was typed; one button confirms, without a script.
func TestPagesAskToConfirmSensitiveContent(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "ok") })
	s.forbid(t, "绝密")
	s.askToConfirm(t)
	asked := s.do(t, s.form(t, "/tasks", map[string]string{"task_name": "某任务", "agent_api_url": fake.URL,
		"agent_model": "<b>", "file@q.csv": "question,standard_answer\n绝密 1,x\n问 2,x\n"}))
	require.Equal(t, http.StatusUnprocessableEntity, asked.StatusCode)
	page := asked.page(t)
	require.Equal(t, "尚未启动：找到 1 处敏感内容", words(page.Find(".disclosure h2")))
	require.Equal(t, "第 1 题question绝密", words(page.Find(".disclosure tbody tr")))
	button := page.Find(".disclosure button")
	require.Equal(t, "create", button.AttrOr("form", ""))
	fields := createForm(page)
	require.Equal(t, "某任务", fields["task_name"])
	require.NotEmpty(t, fields["dataset_token"], "the file is kept")
	// If the questions change before the button is pressed, it asks again.
	changed := maps.Clone(fields)
	changed["file@q.csv"] = "question,standard_answer\n绝密 1,x\n绝密 2,x\n"
	delete(changed, "dataset_token")
	again := s.do(t, s.form(t, button.AttrOr("formaction", ""), changed))
	require.Equal(t, http.StatusUnprocessableEntity, again.StatusCode)
	require.Contains(t, words(again.page(t).Find(".disclosure h2")), "2 处")
	started := s.do(t, s.form(t, button.AttrOr("formaction", ""), fields))
	require.Equal(t, http.StatusSeeOther, started.StatusCode, "%.2000s", started.body)
	var id string
	require.NoError(t, s.tables.Get(&id, `SELECT id FROM evaluation_tasks ORDER BY created_at DESC LIMIT 1`))
	s.awaitDone(t, id)

	// An action without a form to return to becomes a page whose button repeats the action.
	for path, sent := range map[string]url.Values{"/extend": {"runs_per_item": {"7"}}, "/retry": {"variant": {"1"}}} {
		asked := s.sent(t, "/tasks/"+id+path, sent)
		require.Equal(t, http.StatusUnprocessableEntity, asked.StatusCode, path)
		again := asked.page(t).Find(".disclosure form")
		require.Equal(t, sent, hidden(again))
		done := s.sent(t, again.AttrOr("action", ""), hidden(again))
		if path == "/retry" {
			require.Equal(t, http.StatusConflict, done.StatusCode, "confirmed, but there is nothing to retry")
			continue
		}
		require.Equal(t, http.StatusSeeOther, done.StatusCode, "%.2000s", done.body)
		s.awaitDone(t, id)
	}
	// A file waits on the server until it is confirmed: first its rows, then the questions that the task has already.
	asked = s.do(t, s.form(t, "/tasks/"+id+"/items", map[string]string{
		"file@more.csv": "question,standard_answer\n问 3,x\n绝密 4,x\n"}))
	for _, place := range []string{"文件第 3 行question绝密", "第 1 题question绝密"} {
		require.Equal(t, http.StatusUnprocessableEntity, asked.StatusCode)
		require.Equal(t, place, words(asked.page(t).Find(".disclosure tbody tr")))
		require.NotContains(t, string(asked.body), "绝密 4", "the pattern, but not the text")
		again := asked.page(t).Find(".disclosure form")
		asked = s.sent(t, again.AttrOr("action", ""), hidden(again))
	}
	require.Equal(t, http.StatusSeeOther, asked.StatusCode, "%.2000s", asked.body)
	s.awaitDone(t, id)
	require.Len(t, s.confirmations(t), 4)
	fragment := s.form(t, "/tasks/"+id+"/extend", map[string]string{"runs_per_item": "8"})
	fragment.Header.Set("HX-Request", "true")
	require.Equal(t, "#main", s.do(t, fragment).Header.Get("HX-Retarget"))
	require.Zero(t, s.reports.Load(), s.told.String())
}

// Patterns are words, or RE2 expressions between slashes. Their number and length are limited, and none may match
// everything.
func TestSensitivePatternsAreChecked(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	path := "projects/" + db.DefaultProject.String() + "/settings"
	for _, wrong := range [][]string{{"/(/"}, {"/a*/"}, {"/(?=a)/"}, {""}, {strings.Repeat("长", 201)}, {"a\nb"},
		make([]string, 101)} {
		refused := s.entry(t, "PUT", path, object{"review_reasons": []string{}, "sensitive_patterns": wrong}, 422)
		require.Equal(t, "PARAMETER_INVALID", refused["code"], wrong)
	}
	s.forbid(t, "绝密", "/a+/", "/")
	require.Equal(t, []any{"绝密", "/a+/", "/"}, s.entry(t, "GET", path, nil, 200)["sensitive_patterns"])
	s.entry(t, "PUT", path, object{"review_reasons": []string{}}, 200)
	require.Len(t, s.entry(t, "GET", path, nil, 200)["sensitive_patterns"], 3, "unchanged if absent")
	page := s.get(t, "/projects/"+db.DefaultProject.String())
	require.Equal(t, "绝密\n/a+/\n/", page.page(t).Find("[name=sensitive_patterns]").Text())
	wrong := s.do(t, s.form(t, "/projects/"+db.DefaultProject.String()+"/settings",
		map[string]string{"sensitive_patterns": "甲\n/(/", "smallest_points": "1", "smallest_percent": "5"}))
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	require.Equal(t, "甲\n/(/", wrong.page(t).Find("[name=sensitive_patterns]").Text())
	require.Zero(t, s.reports.Load(), s.told.String())
}
