package jobs_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// variants makes a plain task one of so many targets, each at its URL, with a variant each.
func variants(n *db.NewTask, urls ...string) {
	n.Task.Targets, n.Task.Variants = nil, nil
	if n.Launch != nil {
		n.Launch.Targets = nil
	}
	for place, url := range urls {
		target := dbtest.Targets(url)[0]
		target.TaskID, target.Number = n.Task.ID, place+1
		n.Task.Targets = append(n.Task.Targets, target)
		n.Task.Variants = append(n.Task.Variants, db.Variant{Number: place + 1, Target: place + 1, Name: fmt.Sprint("variant ", place+1)})
		if n.Launch != nil {
			n.Launch.Targets = append(n.Launch.Targets, db.LaunchTarget{Number: place + 1, Origin: url})
		}
	}
}

// run runs a task to its end and returns it.
func (b *bench) run(t testing.TB, questions int, change func(*db.NewTask)) db.Task {
	t.Helper()
	taskID, launchID := b.task(t, "http://127.0.0.1:9", questions, change)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, time.Minute)
	require.Equal(t, db.TaskSucceeded, task.Status)
	b.requireComplete(t, task)
	return task
}

func TestEveryVariantAsksEveryQuestionItsRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := agenttest.New(t, answer), agenttest.New(t, answer)
	b.startWorker(t, 4)
	b.startWorker(t, 4)
	// Two variants share the second target.
	task := b.run(t, 20, func(n *db.NewTask) {
		variants(n, first.URL, second.URL)
		n.Task.RunsPerItem = 3
		n.Task.Variants = append(n.Task.Variants, db.Variant{Number: 3, Target: 2, Name: "third"})
	})
	require.Equal(t, 3, task.TotalVariants)
	require.Equal(t, 180, task.TotalRuns())
	require.Len(t, first.Calls(), 60)
	require.Len(t, second.Calls(), 120)
	var counts []int
	require.NoError(t, b.tables.Select(&counts, `SELECT count(*) FROM evaluation_runs WHERE task_id = $1 GROUP BY variant, item_id`, task.ID))
	require.Len(t, counts, 60)
	for _, count := range counts {
		require.Equal(t, 3, count)
	}
}

// A variant comes to its end while the other is held up, which is called too. How long it takes beside the time that it
// takes alone, BenchmarkVariantBesideASlowOne tells.
func TestASlowTargetHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	hang := func(http.ResponseWriter, agenttest.Call) { <-over }
	for name, test := range map[string]struct {
		concurrency int
		other       func(http.ResponseWriter, agenttest.Call)
		change      func(*db.NewTask)
	}{
		"one call a second":                  {4, answer, func(n *db.NewTask) { n.Launch.Targets[1].CallInterval = time.Second }},
		"one call a second, one lane":        {1, answer, func(n *db.NewTask) { n.Launch.Targets[1].CallInterval = time.Second }},
		"429 with Retry-After, and one lane": {1, busy, func(n *db.NewTask) { n.Task.Targets[1].RetryOn, n.Task.MaxRetries = []string{"429"}, 5 }},
		"refuses, and one lane":              {1, failing, func(n *db.NewTask) { n.Task.Targets[1].RetryOn, n.Task.MaxRetries = []string{"5xx"}, 5 }},
		"hangs":                              {16, hang, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			fast, slow := agenttest.New(t, answer), agenttest.New(t, test.other)
			if name == "hangs" {
				t.Cleanup(func() { close(over) }) // before the agent waits for its calls
			}
			b.startWorker(t, test.concurrency)
			taskID, launchID := b.task(t, "", 20, func(n *db.NewTask) {
				variants(n, fast.URL, slow.URL)
				n.Task.Concurrency = test.concurrency
				if test.change != nil {
					test.change(n)
				}
			})
			require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
			dbtest.Await(t, 30*time.Second, "the end of the fast variant", func() bool {
				var runs int
				require.NoError(t, b.tables.Get(&runs, `
					SELECT count(*) FROM evaluation_runs WHERE task_id = $1 AND variant = 1 AND status = 'SUCCEEDED'`, taskID))
				return runs == 100
			})
			require.NotEmpty(t, slow.Calls())
			var left int
			require.NoError(t, b.tables.Get(&left, `SELECT count(*) FROM units WHERE launch_id = $1 AND target = 2 AND state <> 'DONE'`, launchID))
			require.Greater(t, left, 50)
			_, err := b.store.StopTask(context.WithoutCancel(t.Context()), taskID, db.Actor{})
			require.NoError(t, err)
		})
	}
}

func busy(w http.ResponseWriter, _ agenttest.Call) {
	w.Header().Set("Retry-After", "30")
	w.WriteHeader(http.StatusTooManyRequests)
}

func failing(w http.ResponseWriter, _ agenttest.Call) {
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "down")
}

// Concurrency holds over all targets and workers.
func TestConcurrencyHoldsOverAllVariants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var now, most atomic.Int64
	script := func(w http.ResponseWriter, call agenttest.Call) {
		running := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); running > seen && !most.CompareAndSwap(seen, running); seen = most.Load() {
		}
		time.Sleep(20 * time.Millisecond) // the agent's latency
		answer(w, call)
	}
	var urls []string
	for range 4 {
		urls = append(urls, agenttest.New(t, script).URL)
	}
	b.startWorker(t, 4)
	b.startWorker(t, 4)
	b.run(t, 10, func(n *db.NewTask) {
		variants(n, urls...)
		n.Task.Concurrency = 5
	})
	require.LessOrEqual(t, most.Load(), int64(5))
	require.Greater(t, most.Load(), int64(2))
}

// A retry may be narrowed to one variant, and a finished variant is not asked again.
func TestOneVariantIsRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var isDown atomic.Bool
	isDown.Store(true)
	script := func(w http.ResponseWriter, call agenttest.Call) {
		if isDown.Load() {
			failing(w, call)
			return
		}
		answer(w, call)
	}
	fakes := []*agenttest.Agent{agenttest.New(t, answer), agenttest.New(t, script), agenttest.New(t, script)}
	b.startWorker(t, 8)
	task := b.run(t, 4, func(n *db.NewTask) { variants(n, fakes[0].URL, fakes[1].URL, fakes[2].URL) })
	require.Equal(t, 40, task.Unsuccessful)
	isDown.Store(false)
	limits := []db.LaunchTarget{{Number: 1, Origin: fakes[0].URL}, {Number: 2, Origin: fakes[1].URL}, {Number: 3, Origin: fakes[2].URL}}
	_, err := b.store.RequestLaunch(t.Context(), task.ID, db.LaunchRetry, db.Scope{Variant: 1}, db.NewLaunch{Targets: limits})
	require.ErrorIs(t, err, db.ErrNothingToRun)
	_, err = b.store.RequestLaunch(t.Context(), task.ID, db.LaunchRetry, db.Scope{Variant: 4}, db.NewLaunch{Targets: limits})
	require.ErrorIs(t, err, db.ErrNotFound)
	retry := func(scope db.Scope) db.Task {
		launch, err := b.store.RequestLaunch(t.Context(), task.ID, db.LaunchRetry, scope, db.NewLaunch{Targets: limits})
		require.NoError(t, err)
		require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launch))
		return b.awaitEnd(t, task.ID, 30*time.Second)
	}
	require.Equal(t, 20, retry(db.Scope{Variant: 3}).Unsuccessful)
	require.Equal(t, 15, retry(db.Scope{QuestionID: "q0002"}).Unsuccessful)
	require.Equal(t, 10, retry(db.Scope{QuestionID: "q0001", Variant: 2}).Unsuccessful)
	require.Zero(t, retry(db.Scope{}).Unsuccessful)
	require.Len(t, fakes[0].Calls(), 20, "what succeeded is not asked again")
}

// A launch of many units is made in steps, by whichever process is there; a stop in between stops it.
func TestALargeLaunchIsMadeInSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	large := func() (taskID, launchID uuid.UUID) {
		return b.task(t, "", 600, func(n *db.NewTask) {
			variants(n, "http://127.0.0.1:9", "http://127.0.0.1:10")
			n.Task.RunsPerItem = 20
		})
	}
	taskID, launchID := large()
	var starters sync.WaitGroup
	var started atomic.Int64
	for range 4 {
		starters.Go(func() {
			units, err := b.store.StartLaunch(context.Background(), launchID)
			if err == nil {
				started.Add(int64(units))
				return
			}
			require.ErrorIs(t, err, db.ErrConflict)
		})
	}
	starters.Wait()
	require.Equal(t, int64(24_000), started.Load(), "one of them starts it")
	var units int
	require.NoError(t, b.tables.Get(&units, `SELECT count(DISTINCT (item_id, variant, run_index)) FROM units WHERE launch_id = $1 AND target = variant`, launchID))
	require.Equal(t, 24_000, units)
	_, err := b.store.StopTask(t.Context(), taskID, db.Actor{})
	require.NoError(t, err)

	taskID, launchID = large()
	b.tables.MustExec(`UPDATE evaluation_items SET question = question WHERE task_id = $1`, taskID)
	stopped := make(chan error, 1)
	go func() {
		_, err := b.store.StartLaunch(context.Background(), launchID)
		stopped <- err
	}()
	dbtest.Await(t, 10*time.Second, "the first step", func() bool {
		require.NoError(t, b.tables.Get(&units, `SELECT total_units FROM launches WHERE id = $1`, launchID))
		return units > 0
	})
	_, err = b.store.StopTask(t.Context(), taskID, db.Actor{})
	require.NoError(t, err)
	if err := <-stopped; err != nil { // otherwise it was just done
		require.ErrorIs(t, err, db.ErrConflict)
	}
	dbtest.Await(t, 10*time.Second, "the end", func() bool {
		finished, err := b.store.FinishLaunch(t.Context(), launchID)
		require.NoError(t, err)
		return finished
	})
	var open int
	require.NoError(t, b.tables.Get(&open, `SELECT count(*) FROM units WHERE launch_id = $1 AND state <> 'STOPPED'`, launchID))
	require.Zero(t, open)
}
