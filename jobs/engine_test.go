package jobs_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/engine"
	"wending/db/report"
	"wending/jobs/agent/agenttest"
)

func TestEveryQuestionIsAskedExactlyItsRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	b.startWorker(t, 8)
	taskID, launchID := b.task(t, fake.URL, 40, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	require.Equal(t, db.TaskSucceeded, task.Status)
	b.requireComplete(t, task)
	calls := fake.Calls()
	require.Len(t, calls, 200)
	keys := map[string]bool{}
	for _, call := range calls {
		keys[call.IdempotencyKey] = true
		require.Equal(t, "application/json", call.Header.Get("Content-Type"))
		require.Equal(t, true, call.Body["stream"])
		require.Contains(t, call.Body, "system_prompt")
		require.Nil(t, call.Body["system_prompt"], "absent values are null")
	}
	require.Len(t, keys, 200, "every unit has a key of its own")
}

func TestATaskWhoseEveryCallFailedSucceeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		http.Error(w, "boom", http.StatusInternalServerError)
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 3, func(n *db.NewTask) { n.Task.MaxRetries = 3 })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	require.Equal(t, db.TaskSucceeded, task.Status)
	b.requireComplete(t, task)
	require.Len(t, fake.Calls(), 15, "an HTTP error is not retried")
	statistics := b.statistics(t, taskID)
	require.Equal(t, map[string]int{"HTTP_500": 15}, statistics.ErrorCodes)
	require.Equal(t, 15, statistics.Failed)
}

func TestATimeoutIsRetriedOnceAndRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		w.WriteHeader(http.StatusOK)
		// A slow trickle of data does not extend the deadline.
		for range 100 {
			_, _ = w.Write([]byte(": ping\n"))
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	})
	b.startWorker(t, 1)
	taskID, launchID := b.task(t, fake.URL, 1, func(n *db.NewTask) {
		n.Task.RunsPerItem, n.Task.TimeoutSeconds, n.Task.MaxRetries = 1, 1, 1
	})
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	b.requireComplete(t, task)
	var run struct {
		Status, Code, Message string
		Attempts, Latency     int
	}
	require.NoError(t,
		b.tables.Get(&run,
			`SELECT status, error_code AS code, error_message AS message, attempts, latency_ms AS latency FROM evaluation_runs`))
	require.Equal(t, "TIMEOUT", run.Status)
	require.Equal(t, "TIMEOUT", run.Code)
	require.Equal(t, "Agent request timed out after 1s", run.Message)
	require.Equal(t, 2, run.Attempts)
	require.GreaterOrEqual(t, run.Latency, 1000)
	require.Less(t, run.Latency, 2000, "the last attempt's latency alone")
}

func TestTextThatPostgreSQLRefusesKeepsItsExactBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const hostile = "a\x00b\xff\xfec\u2028d"
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		_, _ = io.WriteString(w, `data: {"event":"node_finished","data":{"output":"`+strings.ReplaceAll(hostile, "\x00",
			`\u0000`)+"\"}}\n\n")
	})
	taskID, launchID := b.task(t, fake.URL, 1, func(n *db.NewTask) { n.Task.RunsPerItem = 1 })
	b.startWorker(t, 1)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.requireComplete(t, b.awaitEnd(t, taskID, 20*time.Second))
	var runID int64
	require.NoError(t, b.tables.Get(&runID, `SELECT id FROM evaluation_runs`))
	exact, err := report.New(b.store).RunResponse(t.Context(), taskID, runID)
	require.NoError(t, err)
	require.Equal(t, hostile, string(exact))
	var shown string
	require.NoError(t, b.tables.Get(&shown, `SELECT response_body FROM evaluation_runs`))
	require.Equal(t, "a\u2400b\uFFFDc\u2028d", shown)
}

func TestAResultRecordedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskID, launchID := b.task(t, "http://127.0.0.1:9", 1, nil)
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	units := b.claim(t, launchID, b.beat(t, uuid.New()), 1)
	require.Len(t, units, 1)
	for range 2 { // as if the reply to the first commit was lost
		require.True(t, b.record(t, taskID, engine.Result{Unit: units[0], Status: db.RunSucceeded, Response: []byte("x"),
			Attempts: 1}))
	}
	var runs int
	require.NoError(t, b.tables.Get(&runs, `SELECT count(*) FROM evaluation_runs`))
	require.Equal(t, 1, runs)
	_, err = b.store.StartLaunch(t.Context(), launchID)
	require.ErrorIs(t, err, db.ErrConflict, "a launch starts once")
}
