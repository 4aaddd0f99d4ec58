package handlers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/jobs/agent/agenttest"
	"wending/jobs/dataset"
)

// importAnswers creates a task from a file of answers.
func (s *site) importAnswers(t *testing.T, file, content string, more ...string) (task object, id string) {
	t.Helper()
	fields := map[string]string{"task_name": "线上日志", "answers@" + file: content}
	for n := 0; n+1 < len(more); n += 2 {
		fields[more[n]] = more[n+1]
	}
	answer := s.post(t, api+"/answers", fields)
	require.Equal(t, http.StatusCreated, answer.StatusCode, "%s", answer.body)
	answer.into(t, &task)
	require.Equal(t, "SUCCEEDED", task["status"])
	return task, task["task_id"].(string)
}

// refuseAnswers requires that a file of answers is refused, and returns the error.
func (s *site) refuseAnswers(t *testing.T, status int, code, file, content string, more ...string) object {
	t.Helper()
	fields := map[string]string{"task_name": "线上日志", "answers@" + file: content}
	for n := 0; n+1 < len(more); n += 2 {
		fields[more[n]] = more[n+1]
	}
	answer, wrong := s.post(t, api+"/answers", fields), object{}
	require.Equal(t, status, answer.StatusCode, "%s", answer.body)
	answer.into(t, &wrong)
	require.Equal(t, code, wrong["code"], "%s", answer.body)
	return wrong
}

const longAnswers = "question_id,question,run,answer,standard_answer,city,status,error_message,latency_ms,tokens,cost," +
	"completed_at\n" +
	"q1,退货期限是多久？,1,收到商品后 14 日内可以退货。,14 日,上海,,,812,20,0.0001,2026-11-25T10:00:00+08:00\n" +
	"q1,退货期限是多久？,2,收到商品后 30 日内可以退货。,14 日,上海,,,900,21,0.0002,2026-11-25T10:01:00+08:00\n" +
	"q1,退货期限是多久？,3,\"=收到商品后 14 日内\n可以退货。\",14 日,上海,,,,,,\n" +
	"q2,运费多少？,1,8 元,8 元,北京,SUCCEEDED,,100,,,\n" +
	"q2,运费多少？,2,,8 元,北京,,connection reset,,,,\n" +
	"q3,谢谢,1,不客气,,,,,,,,\n"

// Answers from a file become a task that reads like any other, although nothing was called.
func TestAnswersFromElsewhereAreATask(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	made, id := s.importAnswers(t, "logs.csv", longAnswers)
	require.Equal(t, 0.0, made["calls"])
	require.Len(t, made["variants"], 1)
	task, results := object{}, object{}
	s.get(t, api+"/"+id).into(t, &task)
	require.Equal(t, 3.0, task["runs_per_item"])
	require.Equal(t, 6.0, task["total_runs"])
	require.Equal(t, true, task["is_final"])
	statistics := task["statistics"].(object)
	require.Equal(t, 5.0, statistics["succeeded"])
	require.Equal(t, 1.0, statistics["failed"])
	require.Equal(t, 0.0, statistics["missing"])
	require.Equal(t, 6.0, statistics["runs_expected"])
	require.InDelta(t, 5.0/6, statistics["success_rate"], 1e-9)
	s.get(t, api+"/"+id+"/results").into(t, &results)
	items := results["items"].([]any)
	require.Len(t, items, 3)
	first := items[0].(object)
	require.Equal(t, "facts", first["level"])
	require.Equal(t, "conflict", first["facts_differ"])
	require.Equal(t, "ABC", first["letters"])
	runs := first["runs"].([]any)
	require.Equal(t, "=收到商品后 14 日内\n可以退货。", runs[2].(object)["response_body"], "an answer is stored exactly")
	require.Equal(t, 812.0, runs[0].(object)["latency_ms"])
	require.Equal(t, "2026-11-25T10:00:00+08:00", runs[0].(object)["created_at"])
	second := items[1].(object)["runs"].([]any)
	require.Len(t, second, 2)
	require.Equal(t, "FAILED", second[1].(object)["status"])
	require.Equal(t, "AGENT_ERROR", second[1].(object)["error_code"])
	require.Equal(t, "connection reset", second[1].(object)["error_message"])
	require.Len(t, items[2].(object)["runs"], 1, "a run that the file does not have is absent")

	for _, action := range []struct {
		path string
		body any
	}{
		{"/retry", object{}}, {"/extend", object{"runs_per_item": 10}}, {"/extend", object{"runs_per_item": 1}},
		{"/resume", nil}, {"/run", nil},
	} {
		answer, wrong := s.send(t, http.MethodPost, api+"/"+id+action.path, action.body), object{}
		require.Equal(t, http.StatusConflict, answer.StatusCode, "%s: %s", action.path, answer.body)
		answer.into(t, &wrong)
		require.Equal(t, "TASK_STATE_CONFLICT", wrong["code"])
		require.Contains(t, wrong["message"], "导入")
	}
	require.Equal(t, http.StatusConflict, s.post(t, api+"/"+id+"/items", map[string]string{
		"file@q.csv": "question_id,question,standard_answer,city\nnew,新,1,2\n"}).StatusCode)
}

// A report that was exported in any format can be imported, and has the same answers.
func TestAReportIsImportedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	_, id := s.importAnswers(t, "logs.csv", longAnswers)
	want := s.answersOf(t, id)
	for _, format := range []string{"csv", "xlsx", "jsonl"} {
		exported := s.get(t, api+"/"+id+"/export?format="+format)
		require.Equal(t, http.StatusOK, exported.StatusCode)
		_, again := s.importAnswers(t, "report."+format, string(exported.body))
		require.Equal(t, want, s.answersOf(t, again), format)
		_, again = s.importAnswers(t, "report."+format, string(exported.body), "format", format)
		require.Equal(t, want, s.answersOf(t, again), format)
	}
}

// answersOf returns the questions of a task with the status and the answer of each run.
func (s *site) answersOf(t *testing.T, id string) (all []string) {
	t.Helper()
	var results struct {
		Items []struct {
			QuestionID string `json:"question_id"`
			Question   string `json:"question"`
			Standard   string `json:"standard_answer"`
			Letters    string `json:"letters"`
			Runs       []struct {
				Variant int     `json:"variant"`
				Index   int     `json:"run_index"`
				Status  string  `json:"status"`
				Body    *string `json:"response_body"`
				Latency *int    `json:"latency_ms"`
			} `json:"runs"`
		} `json:"items"`
	}
	s.get(t, api+"/"+id+"/results?page_size=100").into(t, &results)
	for _, item := range results.Items {
		text, err := json.Marshal(item)
		require.NoError(t, err)
		all = append(all, string(text))
	}
	return all
}

// Errors in an answer file name their rows, and the file is subject to the limits of uploads.
func TestAFileOfAnswersIsRefusedWithItsRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	wrong := s.refuseAnswers(t, 422, "DATASET_ROW_INVALID", "a.csv", "question_id,question,run,answer,latency_ms,status\n"+
		"q1,a,1,x,1,\nq1,a,1,y,2,\nq1,b,2,z,3,\nq2,,1,x,1,\nq3,c,0,x,1,\nq4,d,21,x,1,\nq5,e,1,x,fast,\nq6,f,1,x,1,maybe\n")
	rows := map[float64]string{}
	for _, one := range wrong["details"].([]any) {
		rows[one.(object)["row"].(float64)] = one.(object)["column"].(string)
	}
	require.Equal(t, map[float64]string{3: "run", 4: "question", 5: "question", 6: "run", 7: "run", 8: "latency_ms",
		9: "status"}, rows)
	s.refuseAnswers(t, 422, "DATASET_SCHEMA_INVALID", "a.csv", "question,reply\na,b\n")
	s.refuseAnswers(t, 422, "DATASET_SCHEMA_INVALID", "a.csv", "answer\na\n")
	s.refuseAnswers(t, 422, "DATASET_EMPTY", "a.csv", "question,answer\n")
	s.refuseAnswers(t, 422, "DATASET_EMPTY", "a.csv", "")
	s.refuseAnswers(t, 422, "PARAMETER_INVALID", "a.csv", "question,answer\na,b\n", "format", "csvv")
	s.refuseAnswers(t, 422, "DATASET_FORMAT_UNSUPPORTED", "a.csv", "question,answer\na,b\n", "format", "xlsx")
	s.refuseAnswers(t, 422, "DATASET_FORMAT_UNSUPPORTED", "a.png", "\x89PNG\r\n")
	s.refuseAnswers(t, 422, "DATASET_ENCODING_INVALID", "a.csv", "question,answer\n\xB2\xE2\xCA\xD4,b\n")
	s.refuseAnswers(t, 422, "DATASET_ENCODING_INVALID", "a.jsonl", "{\"question\":\"\xff\",\"answer\":\"b\"}\n")
	s.refuseAnswers(t, 422, "DATASET_UNREADABLE", "a.jsonl", "{\"question\":\"a\",\"answer\":\"b\"}\n{\"question\":\n")
	s.refuseAnswers(t, 422, "DATASET_TOO_MANY_ROWS", "a.csv", "question,answer\n"+strings.Repeat("?", 1)+",x\n"+
		manyQuestions(1001))
	s.refuseAnswers(t, 422, "TASK_NAME_REQUIRED", "a.csv", "question,answer\na,b\n", "task_name", " ")
	s.refuseAnswers(t, 413, "DATASET_TOO_LARGE", "a.csv", "question,answer\na,"+strings.Repeat("x", 33<<20)+"\n")
	missing, wrong := s.post(t, api+"/answers", map[string]string{"task_name": "x"}), object{}
	missing.into(t, &wrong)
	require.Equal(t, 422, missing.StatusCode)
	require.Equal(t, "DATASET_REQUIRED", wrong["code"])
}

func manyQuestions(count int) string {
	var rows strings.Builder
	for n := range count {
		rows.WriteString("q" + strings.Repeat("x", n) + ",a\n")
	}
	return rows.String()
}

// Every page, export and action that reads a task works for answers from a file: evaluators, a comparison with a task
// that asked an agent, the archive, and a copy, which asks an agent the same questions.
func TestAnswersFromElsewhereAreReadEverywhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	_, id := s.importAnswers(t, "logs.csv", longAnswers)
	evaluator := s.evaluator(t, "期限", "contains", object{"values": []string{"14 日"}})
	s.send(t, http.MethodPost, api+"/"+id+"/evaluate", object{"evaluators": []string{evaluator}}).mustBe(t, 202)
	s.awaitDone(t, id)
	task, statistics := object{}, object{}
	s.get(t, api+"/"+id).into(t, &task)
	require.Equal(t, "SUCCEEDED", task["status"])
	require.Equal(t, 0.0, task["statistics"].(object)["missing"])
	s.get(t, api+"/"+id+"/statistics").into(t, &statistics)
	variant := statistics["variants"].([]any)[0].(object)
	require.Equal(t, 6.0, variant["runs_expected"])
	require.Equal(t, 2.0, variant["pass_count"])
	require.InDelta(t, 5.0/6, variant["success_rate"], 1e-9)

	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "14 日") })
	copied := s.post(t, api+"/"+id+"/clone", map[string]string{})
	require.Equal(t, 422, copied.StatusCode, "a copy asks an agent, which has to be named")
	copied = s.post(t, api+"/"+id+"/clone", map[string]string{"agent_api_url": fake.URL, "runs_per_item": "2"})
	live := copied.mustBe(t, 201)["task_id"].(string)
	s.awaitDone(t, live)
	comparison := object{}
	s.get(t, "/api/v1/comparison?a="+id+"&b="+live).into(t, &comparison)
	require.Len(t, comparison["items"], 3)

	for _, page := range []string{"", "/results", "/results?view=columns", "/results?view=merged", "/review", "/report",
		"/gallery", "/settings", "/results/print"} {
		answer := s.get(t, "/tasks/"+id+page)
		require.Equal(t, http.StatusOK, answer.StatusCode, page)
	}
	settings := s.get(t, "/tasks/"+id+"/settings").page(t)
	require.Equal(t, "CSV 文件", settings.Find("dt:contains('回答来源（导入）') + dd").Text())
	for _, page := range []string{"/tasks", "/comparison?a=" + id + "&b=" + live, "/?from=" + id} {
		require.Equal(t, http.StatusOK, s.get(t, page).StatusCode, page)
	}
	for _, format := range []string{"csv", "xlsx", "jsonl", "html"} {
		require.Equal(t, http.StatusOK, s.get(t, api+"/"+id+"/export?format="+format).StatusCode, format)
	}
	refused := s.send(t, http.MethodPost, "/api/v1/schedules", object{"name": "s", "task_id": id, "cron": "0 9 * * *"})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, "%s", refused.body)

	archive := s.get(t, api+"/"+id+"/archive")
	require.Equal(t, http.StatusOK, archive.StatusCode)
	again := s.importArchive(t, archive.body).mustBe(t, 201)["task_id"].(string)
	require.Equal(t, s.answersOf(t, id), s.answersOf(t, again))
	s.send(t, http.MethodPost, api+"/"+again+"/retry", object{}).mustBe(t, 409)
}

// The form creates a task from a file, and shows the errors in its rows.
func TestAnswersAreImportedByAForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	form := s.get(t, "/answers").page(t)
	require.Equal(t, 1, form.Find("form[action='/answers'] input[name=file]").Length())
	require.Equal(t, 1, s.get(t, "/tasks").page(t).Find("nav a[href='/answers']").Length())
	wrong := s.post(t, "/answers", map[string]string{"task_name": "表单", "format": "csv",
		"answers@a.csv": "question,answer,status\n甲,1,\n乙,2,maybe\n"})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	page := wrong.page(t)
	require.Equal(t, "表单", page.Find("input[name=task_name]").AttrOr("value", ""))
	require.Contains(t, page.Text(), "maybe")
	wrong = s.post(t, "/answers", map[string]string{"task_name": "", "column_answer": "回复",
		"answers@a.csv": "question,回复\n甲,1\n"})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	require.Equal(t, "回复", wrong.page(t).Find("select[name=column_answer] option[selected]").AttrOr("value", ""))
	made := s.post(t, "/answers", map[string]string{"task_name": "表单", "column_answer": "回复",
		"answers@a.csv": "question,回复\n甲,1\n"})
	require.Equal(t, http.StatusSeeOther, made.StatusCode)
	require.Regexp(t, `^/tasks/[0-9a-f-]{36}/results`, made.Header.Get("Location"))
}

// Before a task is created from a file, the form shows how the file is read. The server keeps the file, for the same
// browser only, so that it need not be sent again.
func TestTheFormShowsHowAFileOfAnswersIsRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	page := s.post(t, "/answers/preview", map[string]string{"task_name": "表单", "answers@日志.csv": "编号,question,方案名," +
		"reply,latency_ms,_verdict\n1,甲,v1,A1,5,\n1,甲,v2,A2,,\n2,乙,v1,,,\n"}).page(t)
	found := page.Find("#answers-found")
	require.Contains(t, found.Text(), "answer", "the missing column is named")
	require.Equal(t, "日志.csv", found.Find(".file-name").First().Text())
	require.Equal(t, 0, found.Find("strong").Length(), "nothing was recognised")
	token := found.Find("input[name=dataset_token]").AttrOr("value", "")
	require.NotEmpty(t, token, "once the columns are chosen, the file need not be sent again")
	fields := map[string]string{"task_name": "表单", "dataset_token": token, "column_answer": "reply",
		"column_variant": "方案名", "column_question_id": "编号"}
	request := s.form(t, "/answers/preview", fields)
	request.Header.Set("HX-Request", "true")
	found = s.do(t, request).page(t).Find("#answers-found")
	require.Equal(t, "识别为 CSV 文件：2 题", found.Find("strong").Text())
	require.Contains(t, found.Find(".summary").Text(), "2 个方案（v1, v2）")
	require.Contains(t, found.Find(".summary").Text(), "3 次运行")
	roles := map[string]string{}
	found.Find("table").First().Find("tbody tr").Each(func(_ int, row *goquery.Selection) {
		roles[strings.TrimSpace(row.Find("td").First().Text())] = row.Find("td").Last().Text()
	})
	require.Equal(t, map[string]string{"问题": "question", "问题编号": "编号", "回答": "reply", "方案": "方案名", "耗时（毫秒）": "latency_ms",
		"不读取": "_verdict"}, roles)
	require.Equal(t, "甲", found.Find("table").Last().Find("tbody td").First().Text())
	require.Equal(t, "A1", found.Find("table").Last().Find("tbody tr").First().Find("td").Last().Text())
	made := s.post(t, "/answers", fields)
	require.Equal(t, http.StatusSeeOther, made.StatusCode, "%s", made.body)
	again := s.post(t, "/answers", fields)
	require.Equal(t, http.StatusUnprocessableEntity, again.StatusCode, "the file is gone with its task")

	wrong := s.post(t, "/answers/preview", map[string]string{"answers@a.png": "\x89PNG\r\n"}).page(t)
	require.Equal(t, 0, wrong.Find("input[name=dataset_token]").Length())
	require.Equal(t, 1, wrong.Find("#answers-found .error").Length())
	chinese := s.post(t, "/answers/preview",
		map[string]string{"answers@a.csv": "question,answer\n\xB2\xE2\xCA\xD4,b\n"}).page(t)
	require.Equal(t, "gb18030", chinese.Find("input[name=dataset_encoding]").AttrOr("value", ""))
	require.Contains(t, chinese.Find("#answers-found").Text(), "测试")
	tools := s.post(t, "/answers/preview", map[string]string{"answers@r.jsonl": `{"question":"q","answer":"a","city":"x"}`}).page(t)
	require.Contains(t, tools.Find("#answers-found").Text(), "city")
}

// A file of answers may be larger than a file of questions, so its token is not accepted by a form for questions.
func TestATokenOfALargeFileIsNoDataset(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	large := "question,answer,standard_answer\n甲," + strings.Repeat("x", 6<<20) + ",c\n"
	page := s.post(t, "/answers/preview", map[string]string{"answers@a.csv": large}).page(t)
	token := page.Find("input[name=dataset_token]").AttrOr("value", "")
	require.NotEmpty(t, token)
	refused := s.post(t, "/tasks", map[string]string{"task_name": "t", "agent_api_url": "http://127.0.0.1:1/",
		"dataset_token": token})
	require.Equal(t, http.StatusRequestEntityTooLarge, refused.StatusCode)
}

// The template has the columns that are understood, and is a valid file of questions in both formats.
func TestADatasetTemplateIsAValidDataset(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	for _, page := range []string{"/", "/compare", "/library/datasets/new"} {
		links := s.get(t, page).page(t).Find(`a[href^="/dataset-template?format="]`)
		require.Equal(t, 2, links.Length(), page)
	}
	var sets []*dataset.Dataset
	for _, format := range []string{"csv", "xlsx"} {
		answer := s.get(t, "/dataset-template?format="+format)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Contains(t, answer.Header.Get("Content-Disposition"), "."+format)
		set, err := dataset.Read(t.Context(), "template."+format, answer.body, dataset.Layout{})
		require.NoError(t, err)
		require.Len(t, set.Rows, 4)
		require.Equal(t, 1, set.Conversations())
		require.True(t, set.HasIDs)
		require.Equal(t, append(slices.Clone(dataset.KnownColumns), "类别"), set.Columns)
		set.Extension = ""
		sets = append(sets, set)
		if format == "xlsx" {
			book, err := excelize.OpenReader(bytes.NewReader(answer.body))
			require.NoError(t, err)
			comments, err := book.GetComments("问题")
			require.NoError(t, err)
			require.Len(t, comments, len(set.Columns))
		}
	}
	require.Equal(t, sets[0], sets[1])
	require.Equal(t, http.StatusSeeOther, s.get(t, "/dataset-template?format=xls").StatusCode)
	require.Equal(t, http.StatusOK, s.get(t, "/dataset-template").StatusCode)
}
