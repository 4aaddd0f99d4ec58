package jobs_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

func TestALeavingWorkerFinishesItsCallAndGivesBackTheRest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		<-release
		answer(w, call)
	})
	stop := b.startWorker(t, 3)
	taskID, launchID := b.task(t, fake.URL, 4, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	dbtest.Await(t, time.Minute, "two calls in flight", func() bool { return len(fake.Calls()) == 2 })
	left := make(chan struct{})
	go func() { stop(); close(left) }()
	time.AfterFunc(300*time.Millisecond, func() { close(release) })
	<-left
	var done, running int
	require.NoError(t, b.tables.Get(&done, `SELECT count(*) FROM evaluation_runs`))
	require.NoError(t, b.tables.Get(&running, `SELECT count(*) FROM units WHERE state = 'RUNNING'`))
	require.Equal(t, 2, done, "the calls in flight were not wasted")
	require.Zero(t, running)
	b.startWorker(t, 4)
	b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
	require.Len(t, fake.Calls(), 20, "nothing was asked again")
}

// After a stop no call begins, whether its unit is queued, claimed ahead, or waits for the agent's rate limit or
// for its next attempt.
func TestAfterAStopNoCallBegins(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*db.NewTask){
		"quick calls":  func(n *db.NewTask) { n.Task.Concurrency = 16 },
		"limited rate": func(n *db.NewTask) { n.Launch.Targets[0].CallInterval = 30 * time.Millisecond },
		"attempts":     func(n *db.NewTask) { n.Task.MaxRetries, n.Task.TimeoutSeconds = 5, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var mu sync.Mutex
			var last time.Time
			fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
				mu.Lock()
				last = time.Now()
				mu.Unlock()
				if name == "attempts" {
					panic(http.ErrAbortHandler) // a network error, which is retried
				}
				answer(w, call)
			})
			b.startWorker(t, 8)
			b.startWorker(t, 8)
			taskID, launchID := b.task(t, fake.URL, 1000, func(n *db.NewTask) { n.Task.RunsPerItem = 20; change(n) })
			require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
			dbtest.Await(t, time.Minute, "ten calls", func() bool { return len(fake.Calls()) >= 10 })
			_, err := b.store.StopTask(t.Context(), db.AllProjects(), taskID, db.Actor{})
			require.NoError(t, err)
			stopped := time.Now()
			task := b.awaitEnd(t, taskID, 10*time.Second)
			require.Equal(t, db.TaskStopped, task.Status)
			mu.Lock()
			defer mu.Unlock()
			require.Less(t, last.Sub(stopped), time.Second, "no call begins a second after the stop")
			var units struct{ Done, Stopped, Other, Runs int }
			require.NoError(t, b.tables.Get(&units,
				`SELECT count(*) FILTER (WHERE state = 'DONE') AS done, count(*) FILTER (WHERE state = 'STOPPED') AS stopped,
				count(*) FILTER (WHERE state NOT IN ('DONE', 'STOPPED')) AS other, (SELECT count(*) FROM evaluation_runs) AS runs
				FROM units`))
			require.Zero(t, units.Other)
			require.Equal(t, units.Done, units.Runs)
			statistics := b.statistics(t, taskID)
			require.Equal(t, units.Done, statistics.Runs)
			require.Equal(t, units.Stopped, statistics.Stopped)
			require.Positive(t, units.Stopped)
		})
	}
}

// Calls that continue long after a stop are cut off, and the task ends.
func TestCallsInFlightAreCutLongAfterAStop(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cut := make(chan struct{}, 2)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		_ = http.NewResponseController(w).Flush()
		for { // until the client has gone
			if _, err := w.Write([]byte(": wait\n")); err != nil {
				cut <- struct{}{}
				return
			}
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Millisecond) // the agent's latency
		}
	})
	b.startWorker(t, 3)
	taskID, launchID := b.task(t, fake.URL, 2, func(n *db.NewTask) { n.Task.TimeoutSeconds = 600 })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	dbtest.Await(t, time.Minute, "two calls", func() bool { return len(fake.Calls()) == 2 })
	_, err := b.store.StopTask(t.Context(), db.AllProjects(), taskID, db.Actor{})
	require.NoError(t, err)
	_, err = b.tables.Exec(`UPDATE launches SET stop_requested_at = now() - interval '30 seconds'`)
	require.NoError(t, err)
	task := b.awaitEnd(t, taskID, 10*time.Second)
	require.Equal(t, db.TaskStopped, task.Status)
	<-cut
	<-cut
	var runs int
	require.NoError(t, b.tables.Get(&runs, `SELECT count(*) FROM evaluation_runs`))
	require.Zero(t, runs)
}

// A further attempt requires a unit that still belongs to the worker, and a launch that is running.
func TestNoFurtherAttemptOfAStoppedOrLostUnit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskID, launchID := b.task(t, "http://127.0.0.1:9", 1, nil)
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	call, err := b.store.LaunchCall(t.Context(), launchID)
	require.NoError(t, err)
	units := b.claim(t, launchID, b.beat(t, uuid.New()), 2)
	_, reserved, err := b.store.ReserveCall(t.Context(), call, units[0])
	require.NoError(t, err)
	require.True(t, reserved)
	require.NoError(t, b.store.ReturnUnits(t.Context(), units[:1]))
	_, _, err = b.store.ReserveCall(t.Context(), call, units[0])
	require.ErrorIs(t, err, db.ErrConflict, "given back")
	_, err = b.store.StopTask(t.Context(), db.AllProjects(), taskID, db.Actor{})
	require.NoError(t, err)
	_, _, err = b.store.ReserveCall(t.Context(), call, units[1])
	require.ErrorIs(t, err, db.ErrConflict, "stopped")
}
