package handlers_test

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
	"wending/jobs/blob"
	"wending/jobs/tasks"
)

// act posts an action to the API, and returns the response's status and the task's status.
func (s *site) act(t *testing.T, id, action string) (status int, task string) {
	t.Helper()
	answer := s.post(t, api+"/"+id+"/"+action, nil)
	var told struct {
		TaskID string `json:"task_id"`
		Status string
	}
	answer.into(t, &told)
	if answer.StatusCode == http.StatusAccepted {
		require.Equal(t, id, told.TaskID)
	}
	return answer.StatusCode, told.Status
}

type taskState struct {
	Status     string
	Progress   struct{ Processed, Total int }
	Statistics struct{ Runs, Succeeded, Failed, Stopped, Attempts int }
}

func (s *site) state(t *testing.T, id string) (state taskState) {
	t.Helper()
	s.get(t, api+"/"+id).into(t, &state)
	return state
}

type runState struct {
	RunID        *int64 `json:"run_id"`
	RunIndex     int    `json:"run_index"`
	Status       string
	ResponseBody *string `json:"response_body"`
}

func (r runState) id() string { return strconv.FormatInt(*r.RunID, 10) }

// runs returns the current runs by question.
func (s *site) runs(t *testing.T, id string) map[string][]runState {
	t.Helper()
	var results struct {
		Items []struct {
			QuestionID string `json:"question_id"`
			Runs       []runState
		}
	}
	s.get(t, api+"/"+id+"/results?page_size=100").into(t, &results)
	runs := map[string][]runState{}
	for _, item := range results.Items {
		runs[item.QuestionID] = item.Runs
	}
	return runs
}

func TestADraftIsStartedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, unsteady())
	id := s.create(t, fake.URL, map[string]string{"start": "false"})
	page := s.get(t, "/tasks/"+id).page(t)
	require.Equal(t, 1, page.Find("#do-run").Length())
	require.Contains(t, page.Find("#live .tag").Text(), "草稿")
	status, _ := s.act(t, id, "stop")
	require.Equal(t, http.StatusConflict, status, "there is nothing to stop")
	require.Equal(t, "PENDING", s.state(t, id).Status)
	require.Empty(t, fake.Calls())
	status, task := s.act(t, id, "run")
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, "RUNNING", task)
	status, _ = s.act(t, id, "run")
	require.Equal(t, http.StatusConflict, status, "started twice")
	s.awaitDone(t, id)
	require.Equal(t, 10, s.state(t, id).Statistics.Runs)
	status, _ = s.act(t, id, "run")
	require.Equal(t, http.StatusConflict, status, "a task that ended is no draft")
	require.Equal(t, http.StatusUnprocessableEntity,
		s.post(t, api, map[string]string{"task_name": "t", "agent_api_url": fake.URL, "file@q.csv": questions,
			"start": "maybe"}).StatusCode)
	saved := s.post(t, "/tasks", map[string]string{
		"task_name": "t", "agent_api_url": fake.URL, "file@q.csv": questions, "start": "false",
	})
	require.Equal(t, http.StatusSeeOther, saved.StatusCode)
	require.Contains(t, string(s.get(t, saved.Header.Get("Location")).body), "已保存")
	require.Contains(t, string(s.get(t, "/tasks").body), "草稿")
}

// A retry runs exactly what did not succeed; successful runs keep their text, and earlier outcomes stay readable.
func TestARetryAsksExactlyWhatDidNotSucceed(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if !isWell.Load() && (strings.HasPrefix(call.Question, "中国") ||
			call.IdempotencyKey[len(call.IdempotencyKey)-1]%2 == 0) {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		agenttest.Stream(w, "answer "+call.IdempotencyKey)
	})
	id := s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	before, first := s.state(t, id).Statistics, s.runs(t, id)
	require.GreaterOrEqual(t, before.Failed, 5)
	require.Equal(t, 10, before.Failed+before.Succeeded)

	isWell.Store(true)
	for _, damaged := range []string{"/retry?question_id=", "/retry?question_id=q1&question_id=q2",
		"/retry?question_id=%zz"} {
		require.Equal(t, http.StatusUnprocessableEntity, s.post(t, api+"/"+id+damaged, nil).StatusCode, damaged)
	}
	for _, body := range []string{`{"questionId":"q1"}`, `{`, `{"question_id":""}`} {
		refused, err := http.Post(s.URL+api+"/"+id+"/retry", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, refused.Body.Close())
		require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, body)
	}
	answer := s.post(t, api+"/"+id+"/retry?question_id=none", nil)
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.Contains(t, string(answer.body), "QUESTION_NOT_FOUND")
	asked := len(fake.Calls())
	require.Equal(t, http.StatusAccepted, s.post(t, api+"/"+id+"/retry",
		map[string]string{"question_id": "q1"}).StatusCode)
	s.awaitDone(t, id)
	require.Len(t, fake.Calls(), asked+5, "one question alone")
	state := s.state(t, id)
	require.Equal(t, "SUCCEEDED", state.Status)
	require.Equal(t, before.Succeeded+5, state.Statistics.Succeeded)
	require.Equal(t, 2, state.Progress.Processed)

	// The page of a run leads to all runs of its question, including those that the retry replaced.
	run := s.runs(t, id)["q1"][0]
	repeats := s.get(t, "/tasks/"+id+"/runs/"+run.id()).page(t).Find("#repeats tbody tr")
	require.Equal(t, 10, repeats.Length(), "five of each launch")
	require.Equal(t, 5, repeats.FilterFunction(func(_ int, row *goquery.Selection) bool {
		return strings.Contains(row.Text(), "HTTP_502")
	}).Length())
	require.Equal(t, 1, repeats.Filter("[aria-current]").Length())
	status, _ := s.act(t, id, "retry")
	require.Equal(t, http.StatusAccepted, status)
	s.awaitDone(t, id)
	require.Len(t, fake.Calls(), asked+before.Failed, "every failure once")
	require.Equal(t, 10, s.state(t, id).Statistics.Succeeded)
	for question, runs := range s.runs(t, id) {
		require.Len(t, runs, 5)
		for n, run := range runs {
			require.Equal(t, n+1, run.RunIndex)
			if first[question][n].Status == "SUCCEEDED" {
				require.Equal(t, *first[question][n].ResponseBody, *run.ResponseBody, "a success keeps its text")
			}
		}
	}
	answer = s.post(t, api+"/"+id+"/retry", nil)
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	require.Contains(t, string(answer.body), "全部运行都已成功")

	var launches struct {
		Items []struct {
			LaunchID     string `json:"launch_id"`
			Number       int
			Kind, Status string
			QuestionID   *string `json:"question_id"`
			RequestedVia string  `json:"requested_via"`
			RequestedBy  string  `json:"requested_by"`
			Units        int
			Statistics   struct{ Runs, Succeeded, Failed int }
		}
		Pagination struct{ Total int }
	}
	s.get(t, api+"/"+id+"/launches").into(t, &launches)
	require.Equal(t, 3, launches.Pagination.Total)
	require.Equal(t, []int{3, 2, 1}, []int{launches.Items[0].Number, launches.Items[1].Number, launches.Items[2].Number})
	require.Equal(t, "q1", *launches.Items[1].QuestionID)
	require.Equal(t, "SUBMIT", launches.Items[2].Kind)
	require.Equal(t, "api", launches.Items[0].RequestedVia)
	require.Equal(t, "127.0.0.1", launches.Items[0].RequestedBy)
	require.Equal(t, before.Failed, launches.Items[2].Statistics.Failed, "the first launch's own outcome stays")
	require.Equal(t, before.Failed-5, launches.Items[0].Statistics.Succeeded)

	var history struct {
		Items []struct {
			Status    string
			IsCurrent bool `json:"is_current"`
		}
	}
	s.get(t, api+"/"+id+"/launches/"+launches.Items[2].LaunchID+"/runs?page_size=100").into(t, &history)
	replaced := 0
	for _, run := range history.Items {
		if !run.IsCurrent {
			require.Equal(t, "FAILED", run.Status)
			replaced++
		}
	}
	require.Equal(t, before.Failed, replaced)
	page := s.get(t, "/tasks/"+id+"/gallery").page(t)
	require.Contains(t, page.Find("#launches table").Text(), "重试第 1 题：中国")
	page = s.get(t, "/tasks/"+id+"/launches/"+launches.Items[2].LaunchID).page(t)
	require.Contains(t, page.Find(".history").Text(), "已被后续批次替换")
	require.Equal(t, http.StatusNotFound, s.get(t, "/tasks/"+id+"/launches/"+uuid.NewString()).StatusCode)
}

// gate returns an agent that answers only once it is opened.
func gate(t *testing.T) (fake *agenttest.Agent, open func()) {
	release := make(chan struct{})
	fake = agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		select {
		case <-release:
		case <-time.After(20 * time.Second):
		}
		agenttest.Stream(w, "answer to "+call.Question)
	})
	return fake, func() { close(release) }
}

func TestAStoppedTaskKeepsWhatItHasAndCanBeResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake, open := gate(t)
	id := s.create(t, fake.URL, map[string]string{"concurrency": "3"})
	dbtest.Await(t, time.Minute, "three calls in flight", func() bool { return len(fake.Calls()) == 3 })
	status, task := s.act(t, id, "stop")
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, "RUNNING", task, "calls in flight may finish")
	require.Contains(t, s.get(t, "/tasks/"+id).page(t).Find("#live").Text(), "正在停止")
	status, _ = s.act(t, id, "retry")
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, http.StatusConflict, s.delete(t, id).StatusCode)
	settings := s.get(t, "/tasks/"+id+"/settings").page(t)
	require.Equal(t, 1, settings.Find("#deletion button:disabled").Length(),
		"a running task cannot be deleted, and the page says why")
	waiting := s.get(t, "/tasks/"+id+"/results")
	require.Equal(t, http.StatusConflict, waiting.StatusCode)
	require.Equal(t, 1, waiting.page(t).Find(`.blank a[href="/tasks/`+id+`"]`).Length(), "who waits can watch")
	open()
	s.awaitDone(t, id)
	state := s.state(t, id)
	require.Equal(t, "STOPPED", state.Status)
	require.Equal(t, 3, state.Statistics.Succeeded, "what was in flight counts")
	require.Equal(t, 7, state.Statistics.Stopped)
	require.Len(t, fake.Calls(), 3, "nothing began after the stop")
	status, _ = s.act(t, id, "stop")
	require.Equal(t, http.StatusConflict, status)

	page := s.get(t, "/tasks/"+id+"/results").page(t)
	require.Contains(t, page.Find(".partial").Text(), "3 / 10")
	require.Equal(t, 10, page.Find(".run").Length(), "what was not run stands there as such")
	require.Equal(t, 7, page.Find(".run .tag-STOPPED").Length())
	rows, err := csv.NewReader(strings.NewReader(string(s.get(t, api+"/"+id+"/export").body))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, 7, strings.Count(strings.Join(append(rows[1], rows[2]...), ","), "STOPPED"))
	require.Contains(t, string(s.get(t, "/tasks?status=STOPPED").body), "已停止")

	require.Contains(t, string(s.get(t, api+"/"+id+"/results").body), `"status":"STOPPED","response_body":null`)
	var unknown struct {
		Items []struct{ Level, Letters string }
	}
	s.get(t, api+"/"+id+"/results?level=unknown").into(t, &unknown)
	require.Equal(t, []struct{ Level, Letters string }{{"unknown", "-----"}}, unknown.Items, "the question never asked")
	require.Equal(t, 7, strings.Count(string(s.get(t, api+"/"+id+"/export?format=jsonl").body),
		`"output":null,"status":"STOPPED","latency_ms":null`))
	require.Contains(t, strings.Join(strings.Fields(s.get(t, "/tasks/"+id).page(t).Find("#do-resume").Text()), ""),
		"继续（7）")

	kept := s.runs(t, id)
	resumed := s.post(t, "/tasks/"+id+"/resume", nil)
	require.Equal(t, http.StatusSeeOther, resumed.StatusCode)
	s.awaitDone(t, id)
	state = s.state(t, id)
	require.Equal(t, "SUCCEEDED", state.Status)
	require.Equal(t, 10, state.Statistics.Succeeded)
	require.Zero(t, state.Statistics.Stopped)
	require.Equal(t, 2, state.Progress.Processed)
	require.Len(t, fake.Calls(), 10, "what had an answer was not asked again")
	for question, runs := range s.runs(t, id) {
		require.Len(t, runs, 5)
		for _, run := range kept[question] {
			if run.Status == "STOPPED" { // the run had not taken place
				require.Nil(t, run.ResponseBody)
				continue
			}
			require.Equal(t, *run.ResponseBody, *runs[run.RunIndex-1].ResponseBody)
		}
	}
}

// A retry that is stopped leaves the progress unchanged: every question still has all its runs.
func TestAStoppedRetryKeepsTheProgress(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var isWell, isGone atomic.Bool
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if isGone.Load() {
			<-release
		}
		if !isWell.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		agenttest.Stream(w, "answer")
	})
	id := s.create(t, fake.URL, map[string]string{"concurrency": "1"})
	s.awaitDone(t, id)
	isGone.Store(true)
	isWell.Store(true)
	s.act(t, id, "retry")
	dbtest.Await(t, time.Minute, "a call of the retry", func() bool { return len(fake.Calls()) == 11 })
	during := s.get(t, api+"/"+id+"/results")
	require.Equal(t, http.StatusOK, during.StatusCode, "results stay readable")
	require.Contains(t, string(during.body), `"is_final":false`)
	require.Equal(t, http.StatusOK, s.get(t, "/tasks/"+id+"/results").StatusCode)
	s.act(t, id, "stop")
	close(release)
	s.awaitDone(t, id)
	state := s.state(t, id)
	require.Equal(t, "STOPPED", state.Status)
	require.Equal(t, 2, state.Progress.Processed)
	require.Equal(t, 10, state.Statistics.Runs, "what was not asked again keeps its outcome")
	require.Equal(t, 1, state.Statistics.Succeeded)
	require.Zero(t, state.Statistics.Stopped)
	require.Equal(t, http.StatusAccepted, s.post(t, api+"/"+id+"/retry?question_id=q2", nil).StatusCode)
	s.awaitDone(t, id)
	state = s.state(t, id)
	require.Equal(t, "SUCCEEDED", state.Status)
	require.Equal(t, 2, state.Progress.Processed)
	require.GreaterOrEqual(t, state.Statistics.Succeeded, 5)
}

func TestATaskThatWaitsForAWorkerIsStoppedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := s.create(t, "http://127.0.0.1:1/", nil)
	status, task := s.act(t, id, "stop")
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, "STOPPED", task)
	require.Equal(t, 10, s.state(t, id).Statistics.Stopped)
}

func (s *site) delete(t *testing.T, id string) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodDelete, s.URL+api+"/"+id, nil)
	require.NoError(t, err)
	return s.do(t, request)
}

// Whenever a crash happens, a file stays consistent with its task's rows: it exists as long as they do, and is
// removed with them.
func TestFilesThatACrashLeftFollowTheirRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	files, err := blob.NewDisk(s.uploads)
	require.NoError(t, err)
	service := &tasks.Service{Store: s.store, Files: files, Log: slog.New(slog.DiscardHandler)}
	at := func(parts ...string) string { return filepath.Join(append([]string{s.uploads}, parts...)...) }
	write := func(content string, parts ...string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(parts...)), 0o700))
		require.NoError(t, os.WriteFile(at(parts...), []byte(content), 0o600))
	}
	age := func(parts ...string) {
		old := time.Now().Add(-2 * time.Hour)
		require.NoError(t, os.Chtimes(at(parts...), old, old))
	}
	draft := func() string { return s.create(t, "http://127.0.0.1:1/", map[string]string{"start": "false"}) }
	moved, replaced, untouched := draft(), draft(), draft()
	require.Len(t, dbtest.Files(t, s.uploads), 3, "each at its place")
	whole, err := os.ReadFile(at(moved, "dataset.csv"))
	require.NoError(t, err)

	// This simulates crashes between storing the rows and moving the file into place, and between moving the file away and
	// removing the rows.
	require.NoError(t, os.Rename(at(moved), at("pending", moved)))
	require.Equal(t, string(whole), string(s.get(t, "/tasks/"+moved+"/dataset").body),
		"it can be downloaded in the meantime")
	age("pending", moved)
	write("old", "pending", replaced, "dataset.csv") // a draft that has since been replaced
	age("pending", replaced)
	unknown, young := uuid.NewString(), uuid.NewString()
	write("x", "pending", unknown, "dataset.csv") // its rows were never stored
	age("pending", unknown)
	write("x", "pending", young, "dataset.csv") // its rows may be about to be stored
	write("x", ".writing", "half")
	age(".writing", "half")
	write("x", ".writing", "underway")

	require.NoError(t, service.Sweep(t.Context(), time.Hour))
	require.ElementsMatch(t, []string{
		moved + "/dataset.csv", replaced + "/dataset.csv", untouched + "/dataset.csv", "pending/" + young + "/dataset.csv",
		".writing/underway",
	}, dbtest.Files(t, s.uploads))
	for _, id := range []string{moved, replaced, untouched} {
		require.Equal(t, string(whole), string(s.get(t, "/tasks/"+id+"/dataset").body))
	}

	require.Equal(t, http.StatusNoContent, s.delete(t, untouched).StatusCode)
	require.Len(t, dbtest.Files(t, s.uploads), 4)
	active := s.create(t, "http://127.0.0.1:1/", nil)
	require.Equal(t, http.StatusConflict, s.delete(t, active).StatusCode)
	require.FileExists(t, at(active, "dataset.csv"), "back at its place")
}

func TestADeletedTaskLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, unsteady())
	id, other := s.create(t, fake.URL, nil), s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	s.awaitDone(t, other)
	require.DirExists(t, filepath.Join(s.uploads, id))
	require.Contains(t, s.get(t, "/tasks/"+id+"/settings").page(t).Find(".confirm").Text(), "无法恢复", "deleting asks first")
	require.Equal(t, http.StatusNoContent, s.delete(t, id).StatusCode)
	require.Equal(t, http.StatusNotFound, s.delete(t, id).StatusCode)
	require.Equal(t, http.StatusNotFound, s.get(t, "/tasks/"+id).StatusCode)
	require.NoDirExists(t, filepath.Join(s.uploads, id))
	for table, want := range map[string]int{"evaluation_tasks": 1, "evaluation_items": 2, "launches": 1, "units": 10,
		"evaluation_runs": 10} {
		var rows int
		require.NoError(t, s.tables.Get(&rows, `SELECT count(*) FROM `+table))
		require.Equal(t, want, rows, table)
	}
	require.Equal(t, 10, s.state(t, other).Statistics.Runs)
	gone := s.post(t, "/tasks/"+other+"/delete", nil)
	require.Equal(t, http.StatusSeeOther, gone.StatusCode)
	require.Contains(t, string(s.get(t, gone.Header.Get("Location")).body), "任务已删除")
}

func TestACopyHasTheSettingsAndTheQuestions(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, call.Header.Get("X-Key"))
	})
	id := s.create(t, fake.URL, map[string]string{
		"agent_api_headers": `{"X-Key":"k1"}`, "runs_per_item": "2", "agent_model": "m1", "extra_payload": `{"a":1}`,
	})
	s.awaitDone(t, id)

	form := s.get(t, "/?from="+id).page(t)
	require.Equal(t, "稳定性测试 副本", form.Find("[name=task_name]").AttrOr("value", ""))
	require.Equal(t, fake.URL, form.Find("[name=agent_api_url]").AttrOr("value", ""))
	require.Equal(t, "2", form.Find("[name=runs_per_item]").AttrOr("value", ""))
	require.NotEmpty(t, form.Find("[name=dataset_token]").AttrOr("value", ""))
	require.Equal(t, id, form.Find("[name=from]").AttrOr("value", ""))
	require.Zero(t, form.Find("[name=agent_api_headers_sealed]").Length(), "what may be secret stays in the source")
	require.Empty(t, form.Find("[name=extra_payload]").Text())
	copied := map[string]string{"task_name": "copy", "from": id,
		"agent_api_url": form.Find("[name=agent_api_url]").AttrOr("value", ""),
		"dataset_token": form.Find("[name=dataset_token]").AttrOr("value", ""), "agent_api_headers": " "}
	sent := s.post(t, "/tasks", copied)
	require.Equal(t, http.StatusSeeOther, sent.StatusCode, "%s", sent.body)
	dbtest.Await(t, 20*time.Second, "the copy's calls", func() bool { return len(fake.Calls()) == 4+4 })
	last := fake.Calls()[7]
	require.Equal(t, "k1", last.Header.Get("X-Key"))
	require.Equal(t, 1.0, last.Body["a"])

	// Neither headers nor payload are sent to another address.
	other := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, "x") })
	require.Equal(t, http.StatusCreated, s.post(t, api+"/"+id+"/clone",
		map[string]string{"agent_api_url": other.URL}).StatusCode)
	dbtest.Await(t, 20*time.Second, "the other agent's calls", func() bool { return len(other.Calls()) == 4 })
	require.Empty(t, other.Calls()[0].Header.Get("X-Key"))
	require.NotContains(t, other.Calls()[0].Body, "a")
	probe := s.post(t, "/tasks/probe", map[string]string{"from": id, "agent_api_url": other.URL})
	require.Equal(t, http.StatusOK, probe.StatusCode)
	require.Len(t, other.Calls(), 5)
	require.Empty(t, other.Calls()[4].Header.Get("X-Key"))

	answer := s.post(t, api+"/"+id+"/clone", map[string]string{"task_name": "clone"})
	require.Equal(t, http.StatusCreated, answer.StatusCode, "%s", answer.body)
	var created struct {
		TaskID string `json:"task_id"`
	}
	answer.into(t, &created)
	s.awaitDone(t, created.TaskID)
	var detail map[string]any
	s.get(t, api+"/"+created.TaskID).into(t, &detail)
	require.Equal(t, "clone", detail["task_name"])
	require.Equal(t, 2.0, detail["runs_per_item"])
	require.Equal(t, "m1", detail["agent_model"])
	for _, runs := range s.runs(t, created.TaskID) {
		require.Equal(t, "k1", *runs[0].ResponseBody, "the agent gets the headers")
	}
	// Without the file the questions are still available.
	require.NoError(t, os.RemoveAll(filepath.Join(s.uploads, id)))
	answer = s.post(t, api+"/"+id+"/clone", map[string]string{"task_name": "rows"})
	require.Equal(t, http.StatusCreated, answer.StatusCode, "%s", answer.body)
	answer.into(t, &created)
	s.awaitDone(t, created.TaskID)
	require.ElementsMatch(t, slices.Collect(maps.Keys(s.runs(t, id))),
		slices.Collect(maps.Keys(s.runs(t, created.TaskID))))
}

// event is one server-sent event.
type event struct {
	name, id string
	data     map[string]any
}

// follow reads a task's events until the stream ends or stop returns true.
func (s *site) follow(t *testing.T, id, lastID string, stop func(event) bool) (status int, events []event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+api+"/"+id+"/progress", nil)
	require.NoError(t, err)
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	answer, err := s.client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return answer.StatusCode, nil
	}
	require.Equal(t, "text/event-stream; charset=utf-8", answer.Header.Get("Content-Type"))
	var current event
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			current.name = text
		case "id":
			current.id = text
		case "data":
			require.NoError(t, json.Unmarshal([]byte(text), &current.data))
		case "":
			if current.name != "" {
				events = append(events, current)
				if stop != nil && stop(current) {
					return answer.StatusCode, events
				}
			}
			current = event{}
		}
	}
	require.NoError(t, lines.Err())
	return answer.StatusCode, events
}

func TestProgressIsStreamedFromASnapshotToTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake, open := gate(t)
	id := s.create(t, fake.URL, map[string]string{"concurrency": "4"})
	dbtest.Await(t, time.Minute, "calls in flight", func() bool { return len(fake.Calls()) == 4 })
	_, events := s.follow(t, id, "", func(event) bool { return true })
	require.Equal(t, "progress", events[0].name, "a snapshot comes first")
	require.Equal(t, 10.0, events[0].data["total"])
	require.Equal(t, 0.0, events[0].data["completed"])
	open()
	_, events = s.follow(t, id, events[0].id, nil)
	require.Equal(t, "progress", events[0].name)
	last := events[len(events)-1]
	require.Equal(t, "completed", last.name)
	require.Equal(t, "SUCCEEDED", last.data["status"])
	require.Equal(t, 10.0, last.data["stats"].(map[string]any)["succeeded"])
	require.Equal(t, 10.0, last.data["total"], "the last event has the whole state, too")
	for n := 1; n < len(events)-1; n++ {
		require.GreaterOrEqual(t, events[n].data["completed"], events[n-1].data["completed"])
		require.NotEqual(t, events[n-1].id, events[n].id)
	}
	status, _ := s.follow(t, id, last.id, nil)
	require.Equal(t, http.StatusNoContent, status, "who has seen the end need not come again")
	_, events = s.follow(t, id, "", nil)
	require.Equal(t, []string{"progress", "completed"}, []string{events[0].name, events[1].name}, "a task that ended")
	require.Equal(t, 10.0, events[0].data["completed"])
	status, _ = s.follow(t, uuid.NewString(), "", nil)
	require.Equal(t, http.StatusNotFound, status)
}

func TestTheEndOfAStoppedAndOfAFailedTaskIsTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := s.create(t, "http://127.0.0.1:1/", nil)
	s.act(t, id, "stop")
	_, events := s.follow(t, id, "", nil)
	require.Equal(t, "stopped", events[len(events)-1].name)
	require.Equal(t, "STOPPED", events[len(events)-1].data["status"])
	id = s.create(t, "http://127.0.0.1:1/", nil)
	var launch uuid.UUID
	require.NoError(t, s.tables.Get(&launch, `SELECT id FROM launches WHERE task_id = $1`, id))
	_, err := s.store.FailLaunch(t.Context(), launch, "SECRET_KEY_CHANGED")
	require.NoError(t, err)
	_, events = s.follow(t, id, "", nil)
	end := events[len(events)-1]
	require.Equal(t, "failed", end.name)
	require.Equal(t, "SECRET_KEY_CHANGED", end.data["error"])
	require.Contains(t, end.data["message"], "SECRET_KEY")
}

func TestTheTaskPageShowsCountsPlotsErrorsAndLaunches(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, unsteady())
	id := s.create(t, fake.URL+"/agent?key=s3cret", nil)
	s.awaitDone(t, id)
	answer := s.get(t, "/tasks/"+id)
	require.NotContains(t, string(answer.body), "s3cret")
	page := answer.page(t)
	require.Equal(t, 2, page.Find("svg.plot").Length())
	require.Contains(t, page.Find(".causes").Text(), "HTTP_500")
	require.Contains(t, page.Find(".gauge").Text(), "10 / 10")
	require.Equal(t, 8, s.get(t, "/tasks/"+id+"/gallery").page(t).Find(".newest li").Length())
	require.Equal(t, 1, page.Find("#do-retry").Length())
	_, follows := page.Find("#live").Attr("hx-get")
	require.False(t, follows, "a task that ended does not ask for more")
	require.Zero(t, page.Find("#live script, #live [onerror]").Length(), "an agent's answer is text")
	require.Equal(t, 1, s.get(t, "/workers").page(t).Find("#workers tbody tr").Length())
	values := url.Values{"question_id": {"q2"}}
	request, err := http.NewRequest(http.MethodPost, s.URL+"/tasks/"+id+"/retry", strings.NewReader(values.Encode()))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	require.Equal(t, http.StatusSeeOther, s.do(t, request).StatusCode)
	s.awaitDone(t, id)
	require.Equal(t, 10, s.state(t, id).Statistics.Succeeded)
}
