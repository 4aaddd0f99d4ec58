package handlers_test

import (
	"archive/zip"
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// importArchive posts an archive and returns the answer.
func (s *site) importArchive(t *testing.T, content []byte) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, s.URL+api+"/import", bytes.NewReader(content))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/zip")
	return s.do(t, request)
}

// A task goes to another installation with its questions, answers and verdicts, and without its secrets.
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
	for _, format := range []string{"csv", "jsonl"} {
		export := func(s *site, id string) []string {
			return strings.Split(string(s.get(t, api+"/"+id+"/export?format="+format).body), "\n")
		}
		dbtest.Await(t, 20*time.Second, "the answers are assessed", func() bool {
			lines := export(to, created.TaskID)
			return strings.Join(lines, "\n") == strings.Join(export(from, id), "\n")
		})
	}
	read := func(s *site, id string) (task object) {
		dbtest.Await(t, 20*time.Second, "the questions are assessed", func() bool {
			task = s.entry(t, "GET", "evaluation-tasks/"+id, nil, 200)
			return task["statistics"].(object)["agreement"] != nil
		})
		return task
	}
	before, after := read(from, id), read(to, created.TaskID)
	for _, field := range []string{"succeeded", "failed", "runs", "agreement", "error_codes", "latency_p50_ms"} {
		require.Equal(t, before["statistics"].(object)[field], after["statistics"].(object)[field], field)
	}
	require.Equal(t, false, after["has_agent_api_headers"])
	require.Equal(t, []any{}, after["channels"])
	require.Contains(t, string(to.get(t, "/tasks/"+created.TaskID+"/results").body), "答 ")
	require.Contains(t, string(to.get(t, "/tasks/"+created.TaskID+"/dataset").body), "q1,好,a")
	require.Contains(t, string(to.get(t, "/tasks/"+created.TaskID+"/launches").body), "启动")

	// From the page, and again: another task.
	var form bytes.Buffer
	fields := multipart.NewWriter(&form)
	part, err := fields.CreateFormFile("archive", "task.zip")
	require.NoError(t, err)
	_, err = part.Write(archive.body)
	require.NoError(t, err)
	require.NoError(t, fields.Close())
	request, err := http.NewRequest(http.MethodPost, to.URL+"/tasks/import", &form)
	require.NoError(t, err)
	request.Header.Set("Content-Type", fields.FormDataContentType())
	page := to.do(t, request)
	require.Equal(t, http.StatusSeeOther, page.StatusCode, string(page.body))
	require.Contains(t, page.Header.Get("Location"), "done=imported")
}

// What is no archive, or one that no export makes, changes nothing.
func TestArchivesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "a") })
	id := s.create(t, fake.URL, map[string]string{"file@q.csv": "question_id,question,standard_answer\nq1,x,a\nq2,y,a\n", "runs_per_item": "2"})
	s.awaitDone(t, id)
	whole := s.get(t, api+"/"+id+"/archive").body
	changed := func(name string, change func(string) string) []byte {
		var out bytes.Buffer
		writer := zip.NewWriter(&out)
		files, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
		require.NoError(t, err)
		for _, one := range files.File {
			content, err := one.Open()
			require.NoError(t, err)
			text, err := io.ReadAll(content)
			require.NoError(t, err)
			if one.Name == name {
				if text = []byte(change(string(text))); len(text) == 0 {
					continue
				}
			}
			file, err := writer.Create(one.Name)
			require.NoError(t, err)
			_, err = file.Write(text)
			require.NoError(t, err)
		}
		require.NoError(t, writer.Close())
		return out.Bytes()
	}
	replace := func(old, fresh string) func(string) string {
		return func(text string) string {
			require.Contains(t, text, old)
			return strings.Replace(text, old, fresh, 1)
		}
	}
	gone := func(string) string { return "" }
	for name, content := range map[string][]byte{
		"text":              []byte("no archive"),
		"empty":             {},
		"half":              whole[:len(whole)/2],
		"no manifest":       changed("manifest.json", gone),
		"another format":    changed("manifest.json", replace(`"format": 1`, `"format": 99`)),
		"no task":           changed("task.json", gone),
		"running":           changed("task.json", replace(`"SUCCEEDED"`, `"RUNNING"`)),
		"too many runs":     changed("task.json", replace(`"runs_per_item": 2`, `"runs_per_item": 2000`)),
		"no address":        changed("task.json", replace(`http://`, `gopher://`)),
		"no such target":    changed("task.json", replace(`"target": 1`, `"target": 7`)),
		"no questions":      changed("items.jsonl", func(string) string { return "\n" }),
		"a question twice":  changed("items.jsonl", func(text string) string { return text + text }),
		"no such question":  changed("runs.jsonl", replace(`"q1"`, `"q9"`)),
		"no such repeat":    changed("runs.jsonl", replace(`"run_index":1`, `"run_index":5`)),
		"a run twice":       changed("runs.jsonl", func(text string) string { return text + text }),
		"no such state":     changed("runs.jsonl", replace(`"SUCCEEDED"`, `"GREAT"`)),
		"a number too long": changed("runs.jsonl", replace(`"attempts":1`, `"attempts":99999999999`)),
		"no JSON":           changed("runs.jsonl", replace(`{`, `[`)),
	} {
		answer := s.importArchive(t, content)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%s: %s", name, answer.body)
		require.Contains(t, string(answer.body), "ARCHIVE_INVALID", name)
	}
	var tasks int
	require.NoError(t, s.tables.Get(&tasks, `SELECT count(*) FROM evaluation_tasks`))
	require.Equal(t, 1, tasks)
	require.Equal(t, http.StatusCreated, s.importArchive(t, whole).StatusCode)
	require.Zero(t, s.reports.Load(), s.told.String())
}
