package handlers_test

import (
	"archive/zip"
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// importArchive posts an archive and returns the response.
func (s *site) importArchive(t *testing.T, content []byte) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, s.URL+api+"/import", bytes.NewReader(content))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/zip")
	return s.do(t, request)
}

// importForm posts an archive as a form's field.
func (s *site) importForm(t *testing.T, path string, content []byte, cookies ...*http.Cookie) response {
	t.Helper()
	var form bytes.Buffer
	fields := multipart.NewWriter(&form)
	part, err := fields.CreateFormFile("archive", "task.zip")
	require.NoError(t, err)
	_, err = part.Write(content)
	require.NoError(t, err)
	require.NoError(t, fields.Close())
	request, err := http.NewRequest(http.MethodPost, s.URL+path, &form)
	require.NoError(t, err)
	request.Header.Set("Content-Type", fields.FormDataContentType())
	for _, cookie := range cookies {
		request.AddCookie(cookie)
	}
	return s.do(t, request)
}

// A task is exported with its questions, answers and verdicts but without its secrets, and can be imported into
// another installation.
func TestATaskGoesToAnotherInstallation(t *testing.T) {
	t.Parallel()
	from, to := newSite(t, true), newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		switch call.Question {
		case "坏":
			w.WriteHeader(http.StatusBadGateway)
		case "字节":
			agenttest.Stream(w, "a\x00b")
		default:
			agenttest.Stream(w, "答 "+call.IdempotencyKey[len(call.IdempotencyKey)-1:])
		}
	})
	evaluator := from.evaluator(t, "有答", "contains", object{"values": []string{"答"}})
	id := from.create(t, fake.URL+"/run?key=secretquery", map[string]string{
		"task_name": "搬家", "runs_per_item": "3", "evaluators": evaluator, "agent_api_headers": `{"X-Key": "secretheader"}`,
		"file@q.csv": "question_id,question,standard_answer,city\nq1,好,a,北京\nq2,坏,b,上海\nq3,字节,c,广州\n",
	})
	from.awaitDone(t, id)
	require.Equal(t, http.StatusConflict, func() int {
		draft := from.create(t, fake.URL, map[string]string{"start": "false"})
		return from.get(t, api+"/"+draft+"/archive").StatusCode
	}())
	archive := from.get(t, api+"/"+id+"/archive")
	require.Equal(t, http.StatusOK, archive.StatusCode)
	require.Contains(t, archive.Header.Get("Content-Disposition"), ".zip")
	files, err := zip.NewReader(bytes.NewReader(archive.body), int64(len(archive.body)))
	require.NoError(t, err)
	for _, one := range files.File {
		content, err := one.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret", one.Name)
	}

	answer := to.importArchive(t, archive.body)
	require.Equal(t, http.StatusCreated, answer.StatusCode, string(answer.body))
	var created struct {
		TaskID string `json:"task_id"`
		Status string `json:"status"`
	}
	answer.into(t, &created)
	require.Equal(t, "SUCCEEDED", created.Status)
	require.NotEqual(t, id, created.TaskID)
	before, after := from.entry(t, "GET", "evaluation-tasks/"+id, nil, 200),
		to.entry(t, "GET", "evaluation-tasks/"+created.TaskID, nil, 200)
	for _, format := range []string{"csv", "jsonl"} {
		export := func(s *site, id string) string { return string(s.get(t, api+"/"+id+"/export?format="+format).body) }
		require.Equal(t, export(from, id), export(to, created.TaskID), format)
	}
	require.NotNil(t, after["statistics"].(object)["agreement"], "a task that reads SUCCEEDED has all its statistics")
	for _, field := range []string{"succeeded", "failed", "runs", "agreement", "error_codes", "latency_p50_ms"} {
		require.Equal(t, before["statistics"].(object)[field], after["statistics"].(object)[field], field)
	}
	require.Equal(t, false, after["has_agent_api_headers"])
	require.Equal(t, []any{}, after["channels"])
	require.Contains(t, string(to.get(t, "/tasks/"+created.TaskID+"/results").body), "答 ")
	require.Contains(t, string(to.get(t, "/tasks/"+created.TaskID+"/dataset").body), "q1,好,a")
	require.Contains(t, string(to.get(t, "/tasks/"+created.TaskID+"/gallery").body), "启动")

	// Importing the archive again, through the page, creates another task. The API accepts the same form.
	page := to.importForm(t, "/tasks/import", archive.body)
	require.Equal(t, http.StatusSeeOther, page.StatusCode, string(page.body))
	require.Contains(t, page.Header.Get("Location"), "done=imported")
	require.Equal(t, http.StatusCreated, to.importForm(t, api+"/import", archive.body).StatusCode)
}

// The cost of an imported task was paid elsewhere: its statistics show it, but no budget of this installation
// includes it.
func TestImportedCostsAreNoSpendingOfThisInstallation(t *testing.T) {
	t.Parallel()
	from, to := newSite(t, true), newSite(t, true)
	fake := agenttest.New(t, openAIChat("Paris"))
	price := func(s *site, price string) (model string) {
		model, _ = s.chatTarget(t, "priced", fake.URL)
		s.entry(t, "PATCH", "models/"+model, object{"input_price": price, "output_price": price, "currency": "CNY"}, 200)
		return model
	}
	fields := func(model string) map[string]string {
		return map[string]string{
			"task_name": "贵", "models": model, "max_cost": "100",
			"file@q.csv": "question,standard_answer\na,b\nc,d\n",
		}
	}
	dear := from.create(t, "", fields(price(from, "100000")))
	from.awaitDone(t, dear)
	paid := from.entry(t, "GET", "evaluation-tasks/"+dear, nil, 200)["statistics"].(object)["cost"]
	answer := to.importArchive(t, from.get(t, api+"/"+dear+"/archive").body)
	require.Equal(t, http.StatusCreated, answer.StatusCode, string(answer.body))
	var imported struct {
		TaskID string `json:"task_id"`
	}
	answer.into(t, &imported)
	require.Equal(t, paid, to.entry(t, "GET", "evaluation-tasks/"+imported.TaskID, nil,
		200)["statistics"].(object)["cost"])

	place := "projects/" + db.DefaultProject.String()
	to.entry(t, "PATCH", place, object{"cost_per_month": "1"}, 200)
	require.EqualValues(t, 0, to.entry(t, "GET", place, nil, 200)["used"].(object)["calls_today"],
		"nobody was called from here")
	to.budget.Month = "1"
	own := to.create(t, "", fields(price(to, "100")))
	to.awaitDone(t, own)
	ran := to.entry(t, "GET", "evaluation-tasks/"+own, nil, 200)
	require.Equal(t, "SUCCEEDED", ran["status"], "the month has its whole budget")
	var spent []any
	dbtest.Await(t, 20*time.Second, "the own task is added up", func() bool {
		spent = to.entry(t, "GET", place, nil, 200)["used"].(object)["cost_this_month"].([]any)
		return len(spent) == 1
	})
	require.Equal(t, ran["statistics"].(object)["cost"], spent[0].(object)["cost"])

	// The task's own ceiling covers only costs paid here, so evaluating the answers again is not refused.
	to.entry(t, "PATCH", place, object{"cost_per_month": nil}, 200)
	to.budget.Month = ""
	_, err := to.tables.Exec(`UPDATE evaluation_tasks SET max_cost = CAST($2 AS numeric) - 0.001 WHERE id = $1`,
		imported.TaskID, paid)
	require.NoError(t, err)
	evaluator := to.evaluator(t, "有答", "contains", object{"values": []string{"Paris"}})
	to.entry(t, "POST", "evaluation-tasks/"+imported.TaskID+"/evaluate", object{"evaluators": []string{evaluator}}, 202)
	to.awaitDone(t, imported.TaskID)
	judged := to.entry(t, "GET", "evaluation-tasks/"+imported.TaskID, nil, 200)
	require.Equal(t, "SUCCEEDED", judged["status"])
	require.Equal(t, paid, judged["statistics"].(object)["cost"])
}
