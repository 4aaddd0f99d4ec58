package jobs_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/jobs/agent/agenttest"
)

// parsed returns the trace id and the span id that a call carried.
func parsed(t testing.TB, call agenttest.Call) (trace, span string) {
	t.Helper()
	parts := strings.Split(call.Header.Get("traceparent"), "-")
	require.Len(t, parts, 4)
	require.Equal(t, []string{"00", "01"}, []string{parts[0], parts[3]})
	return parts[1], parts[2]
}

// Every run has its own trace, to which all its attempts belong, and keeps the agent's own id for the last attempt. A
// judge's calls have traces, too.
func TestEveryRunHasATrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var calls sync.Map
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		count, _ := calls.LoadOrStore(call.IdempotencyKey, new(int))
		*count.(*int)++ // the attempts of a key follow one another
		w.Header().Set("X-Request-Id", "attempt "+strconv.Itoa(*count.(*int)))
		if *count.(*int) == 1 {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		agenttest.Stream(w, "answer")
	})
	judging := playJudge(t, func(http.ResponseWriter, string) string { return `{"overall": 90}` })
	change := judged(judging.URL, `{"model_id":"x","dimensions":["overall"]}`)
	taskID, launchID := b.task(t, fake.URL, 2, func(n *db.NewTask) {
		change(n)
		n.Task.MaxRetries = 1
	})
	b.startWorker(t, 2)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.awaitEnd(t, taskID, 30*time.Second)
	var runs []struct {
		Trace string `db:"trace_id"`
		Agent string `db:"agent_trace_id"`
	}
	require.NoError(t, b.tables.Select(&runs, `SELECT trace_id, agent_trace_id FROM evaluation_runs`))
	require.Len(t, runs, 4)
	attempts, spans := map[string]int{}, map[string]bool{}
	for _, call := range fake.Calls() {
		trace, span := parsed(t, call)
		attempts[trace]++
		spans[span] = true
	}
	require.Len(t, attempts, 4)
	require.Len(t, spans, 8)
	for _, run := range runs {
		require.Equal(t, 2, attempts[run.Trace], run.Trace)
		require.Equal(t, "attempt 2", run.Agent)
	}
	require.Len(t, judging.Calls(), 4)
	for _, call := range judging.Calls() {
		trace, _ := parsed(t, call)
		require.Zero(t, attempts[trace])
		attempts[trace]++
	}
}
