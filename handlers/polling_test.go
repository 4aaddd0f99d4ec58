package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs"
)

// studio is an agent that accepts jobs and provides their answers later.
type studio struct {
	url                      string
	asked, polled, cancelled atomic.Int64
	// isDone reports whether jobs are done.
	isDone atomic.Bool
}

func newStudio(t *testing.T) *studio {
	t.Helper()
	s := &studio{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs", func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Question string }
		_ = json.NewDecoder(r.Body).Decode(&call)
		n := s.asked.Add(1)
		if call.Question == "立即" { // the agent may also answer directly
			_, _ = w.Write([]byte(`{"code":0,"data":{"output":"马上"}}`))
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, `{"data":{"links":[{"href":"/jobs/%d?q=%s"}],"cancel":"/jobs/%d/cancel"}}`, n, call.Question, n)
	})
	mux.HandleFunc("GET /jobs/{n}", func(w http.ResponseWriter, r *http.Request) {
		polled := s.polled.Add(1)
		switch {
		case r.Header.Get("X-Key") != "jobsecret":
			w.WriteHeader(http.StatusUnauthorized)
		case polled%5 == 2:
			w.WriteHeader(http.StatusBadGateway) // a failed poll does not mean that the job failed
		case r.URL.Query().Get("q") == "坏":
			_, _ = w.Write([]byte(`{"data":{"status":"failed","error":"out of paint"}}`))
		case !s.isDone.Load():
			_, _ = fmt.Fprintf(w, `{"data":{"status":"running","progress":%d,"message":"绘制中"}}`, min(99, polled))
		default:
			_, _ = fmt.Fprintf(w, `{"data":{"status":"done","progress":100,"result":{"text":"第 %s 份"}}}`, r.PathValue("n"))
		}
	})
	mux.HandleFunc("POST /jobs/{n}/cancel", func(http.ResponseWriter, *http.Request) { s.cancelled.Add(1) })
	s.url = serve(t, mux)
	return s
}

// agentOf saves the studio as an agent and returns its id.
func (s *site) agentOf(t *testing.T, of *studio) string {
	t.Helper()
	return s.entry(t, http.MethodPost, "agents", object{
		"name": "画室 " + fmt.Sprint(time.Now().UnixNano()), "protocol": "default", "url": of.url + "/jobs",
		"headers": object{"X-Key": "jobsecret"}, "rate_limit": "unlimited",
		"poll": object{
			"url_path": "data.links[0].href", "interval_seconds": 1, "done_path": "data.status", "done_values": []string{"done"},
			"failed_values": []string{"failed"},
			"result_path":   "data.result.text", "cancel_url_path": "data.cancel",
		},
	}, http.StatusCreated)["id"].(string)
}

// An accepted job is polled until it is done; its progress is reported, and its failure becomes the run's.
func TestAnAcceptedJobIsPolled(t *testing.T) {
	t.Parallel()
	s, of := newSite(t, true), newStudio(t)
	agent := s.agentOf(t, of)
	id := s.create(t, "", map[string]string{
		"agents": agent, "runs_per_item": "1", "timeout_seconds": "3600", "max_retries": "0",
		"file@q.csv": "question_id,question,standard_answer\na,画,\nb,坏,\nc,立即,\n",
	})
	dbtest.Await(t, 20*time.Second, "the first status", func() bool { return of.polled.Load() > 6 })
	of.isDone.Store(true)
	s.awaitDone(t, id)
	var results struct {
		Items []struct {
			QuestionID string `json:"question_id"`
			Runs       []struct {
				RunID        int64 `json:"run_id"`
				Status       string
				Output       string `json:"response_body"`
				ErrorCode    string `json:"error_code"`
				ErrorMessage string `json:"error_message"`
			}
		}
	}
	s.get(t, api+"/"+id+"/results").into(t, &results)
	runs := results.Items
	require.Equal(t, "SUCCEEDED", runs[0].Runs[0].Status, "%+v", runs)
	require.True(t, strings.HasPrefix(runs[0].Runs[0].Output, "第 "), "%+v", runs)
	require.Equal(t, []string{"FAILED", "AGENT_ERROR", "out of paint"}, []string{
		runs[1].Runs[0].Status, runs[1].Runs[0].ErrorCode, runs[1].Runs[0].ErrorMessage,
	})
	require.Equal(t, "马上", runs[2].Runs[0].Output)
	require.EqualValues(t, 3, of.asked.Load())
	dbtest.Await(t, time.Minute, "the events", func() bool {
		items, _ := s.events(t, id, runs[0].Runs[0].RunID)
		return len(items) > 0 && items[len(items)-1].Type == "task_completed"
	})
	items, _ := s.events(t, id, runs[0].Runs[0].RunID)
	require.Contains(t, types(items), "progress_update")
	require.Contains(t, types(items), "text")
	var kept int
	require.NoError(t, s.tables.Get(&kept, `SELECT count(*) FROM units WHERE resume IS NOT NULL`))
	require.Zero(t, kept)
}

// A worker that shuts down or dies leaves the job to another worker, which does not call the agent again. A stop is
// reported to the agent.
func TestAnotherWorkerWaitsForAnAcceptedJob(t *testing.T) {
	t.Parallel()
	s, of := newSite(t, false), newStudio(t)
	agent := s.agentOf(t, of)
	id := s.create(t, "", map[string]string{
		"agents": agent, "runs_per_item": "2", "timeout_seconds": "3600",
		"file@q.csv": "question_id,question,standard_answer\na,画,\n",
	})
	leave := s.startWorker(t, jobs.WorkerConfig{Lanes: 4})
	dbtest.Await(t, 20*time.Second, "the first status", func() bool { return of.polled.Load() >= 4 })
	start := time.Now()
	leave()
	require.Less(t, time.Since(start), 10*time.Second, "nobody waits for what another can wait for")
	require.EqualValues(t, 2, of.asked.Load())
	of.isDone.Store(true)
	s.startWorker(t, jobs.WorkerConfig{Lanes: 4})
	s.awaitDone(t, id)
	require.EqualValues(t, 2, of.asked.Load(), "nothing is asked again")
	var succeeded int
	require.NoError(t, s.tables.Get(&succeeded,
		`SELECT count(*) FROM evaluation_runs WHERE task_id = $1 AND status = 'SUCCEEDED'`, id))
	require.Equal(t, 2, succeeded)

	of.isDone.Store(false)
	again := s.create(t, "", map[string]string{
		"agents": agent, "runs_per_item": "1", "timeout_seconds": "3600",
		"file@q.csv": "question_id,question,standard_answer\na,画,\n",
	})
	before := of.polled.Load()
	dbtest.Await(t, 20*time.Second, "a status", func() bool { return of.polled.Load() > before })
	require.Equal(t, http.StatusAccepted, s.post(t, api+"/"+again+"/stop", nil).StatusCode)
	_, err := s.tables.Exec(`UPDATE launches SET stop_requested_at = now() - interval '31 seconds' WHERE task_id = $1`,
		again)
	require.NoError(t, err)
	dbtest.Await(t, 45*time.Second, "the agent to be told", func() bool { return of.cancelled.Load() == 1 })
}

// Incomplete polling settings are refused; the error names the missing part.
func TestAPollMustBeWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	for _, poll := range []object{{"url_path": "x"},
		{"url_path": "u", "done_path": "d", "done_values": []string{"x"}, "result_path": "r", "interval_seconds": 0},
		{"unknown": 1}} {
		answer := s.entry(t, http.MethodPost, "agents",
			object{"name": "x", "protocol": "default", "url": "http://127.0.0.1:9/x", "poll": poll},
			http.StatusUnprocessableEntity)
		require.Equal(t, "PARAMETER_INVALID", answer["code"])
		require.Contains(t, fmt.Sprint(answer["details"]), "poll")
	}
}
