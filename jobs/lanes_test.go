package jobs_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/report"
	"wending/jobs/agent/agenttest"
)

func TestTheConcurrencyOfATaskHoldsOverAllWorkers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var busy, most atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		now := busy.Add(1)
		for {
			seen := most.Load()
			if now <= seen || most.CompareAndSwap(seen, now) {
				break
			}
		}
		time.Sleep(20 * time.Millisecond) // the agent's latency
		busy.Add(-1)
		answer(w, call)
	})
	for range 3 {
		b.startWorker(t, 8)
	}
	taskID, launchID := b.task(t, fake.URL, 30, func(n *db.NewTask) { n.Task.Concurrency = 4 })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	require.NoError(t, b.queue.EnqueueLanes(t.Context(), launchID, 20), "lanes too many do no harm")
	b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
	require.LessOrEqual(t, most.Load(), int64(4))
	require.Greater(t, most.Load(), int64(1))
}

// A task that waits for a lane reports how many tasks are ahead of it.
func TestATaskThatWaitsForALaneKnowsHowManyAreAhead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { <-release; answer(w, call) })
	b.startWorker(t, 1)
	t.Cleanup(func() { close(release) }) // so that the worker can leave
	_, first := b.task(t, fake.URL, 1, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), first))
	dbtest.Await(t, time.Minute, "the only lane", func() bool { return len(fake.Calls()) == 1 })
	secondTask, second := b.task(t, fake.URL, 1, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), second))
	dbtest.Await(t, time.Minute, "the second task's start", func() bool {
		hindrance, err := report.NewMonitor(b.store).TaskHindrance(t.Context(), secondTask)
		require.NoError(t, err)
		return hindrance.TasksAhead == 1 && hindrance.LimitingTaskID == nil
	})
}

func TestALaunchAdmitsNoMoreLanesThanItsConcurrency(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, launchID := b.task(t, "http://127.0.0.1:9", 2, func(n *db.NewTask) { n.Task.Concurrency = 2 })
	worker := uuid.New()
	lease := b.beat(t, worker)
	admitted, err := b.enterLane(t, uuid.New(), launchID, lease)
	require.NoError(t, err)
	require.False(t, admitted, "a launch that has not started has no lanes")
	_, err = b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	var entered atomic.Int64
	var lanes sync.WaitGroup
	for range 60 {
		lanes.Go(func() {
			if admitted, err := b.enterLane(t, uuid.New(), launchID, lease); err == nil && admitted {
				entered.Add(1)
			}
		})
	}
	lanes.Wait()
	require.Equal(t, int64(2), entered.Load())
	require.NoError(t, engine.NewPresence(b.store).Remove(t.Context(), worker))
	admitted, err = b.enterLane(t, uuid.New(), launchID, b.beat(t, uuid.New()))
	require.NoError(t, err)
	require.True(t, admitted, "lanes end with their worker")
}

// Among waiting launches, those whose agent was served longest ago come first, if the agents have equally many lanes.
func TestAgentsTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease, _, err := engine.NewPresence(b.store).Beat(t.Context(), engine.Worker{ID: uuid.New(), Lanes: 8})
	require.NoError(t, err)
	start := func(url string) uuid.UUID {
		_, launchID := b.task(t, url, 5, nil)
		_, err := b.store.StartLaunch(t.Context(), launchID)
		require.NoError(t, err)
		return launchID
	}
	served, older, younger := start("http://127.0.0.1:9"), start("http://127.0.0.1:9"), start("http://127.0.0.1:10")
	next := func() uuid.UUID {
		id, err := engine.NewLanes(b.store).NextWaiting(t.Context())
		require.NoError(t, err)
		return id
	}
	lane := uuid.New()
	enter := func(launchID uuid.UUID) {
		lanes, err := engine.NewLanes(b.store).Enter(t.Context(), []uuid.UUID{lane}, launchID, lease)
		require.NoError(t, err)
		require.Len(t, lanes, 1)
	}
	require.Equal(t, served, next(), "the one that waits longest")
	enter(served)
	require.Equal(t, younger, next(), "the agent without a lane")
	require.NoError(t, engine.NewLanes(b.store).Leave(t.Context(), lane))
	require.Equal(t, younger, next(), "the agent that had none yet")
	enter(younger)
	require.NoError(t, engine.NewLanes(b.store).Leave(t.Context(), lane))
	require.Equal(t, older, next(), "the agent that was served before the other")
}

// A worker's last lane is reserved for a task that has none, and while tasks wait, no task gets more than its share.
func TestLanesAreSharedFairly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	worker := uuid.New()
	lease, _, err := engine.NewPresence(b.store).Beat(t.Context(), engine.Worker{ID: worker, Lanes: 8})
	require.NoError(t, err)
	newLaunch := func() uuid.UUID {
		_, launchID := b.task(t, "http://127.0.0.1:9", 100, func(n *db.NewTask) { n.Task.Concurrency = 64 })
		_, err := b.store.StartLaunch(t.Context(), launchID)
		require.NoError(t, err)
		return launchID
	}
	enter := func(launchID uuid.UUID, n int) []uuid.UUID {
		wanted := make([]uuid.UUID, n)
		for i := range wanted {
			wanted[i] = uuid.New()
		}
		lanes, err := engine.NewLanes(b.store).Enter(t.Context(), wanted, launchID, lease)
		require.NoError(t, err)
		return lanes
	}
	wanted := func(launchID uuid.UUID) (lanes int) {
		// ActiveLaunches leaves out launches that are less than a second old.
		_, err := b.tables.Exec(`UPDATE launches SET created_at = now() - interval '2 seconds'`)
		require.NoError(t, err)
		launches, err := engine.NewLanes(b.store).ActiveLaunches(t.Context())
		require.NoError(t, err)
		for _, launch := range launches {
			if launch.ID == launchID {
				lanes = launch.WantedLanes
			}
		}
		return lanes
	}
	first := newLaunch()
	held := enter(first, 64)
	require.Len(t, held, 7, "one of eight is kept")
	require.Empty(t, enter(first, 1))
	require.Zero(t, wanted(first))

	second := newLaunch()
	require.Positive(t, wanted(second))
	require.Len(t, enter(second, 64), 1, "the one that was kept")
	third := newLaunch()
	require.Empty(t, enter(third, 64), "all are taken")
	require.Positive(t, wanted(third), "it waits")

	for _, lane := range held[:3] {
		require.NoError(t, engine.NewLanes(b.store).Leave(t.Context(), lane))
	}
	require.Empty(t, enter(first, 3), "it holds four, its share while another waits is two")
	require.Len(t, enter(third, 64), 2, "its share")
	require.Empty(t, enter(first, 3), "the last one is kept")
	require.NoError(t, engine.NewLanes(b.store).Leave(t.Context(), held[3]))
	require.Len(t, enter(first, 3), 1, "none waits: what is free, but the last one")

	alone, _, err := engine.NewPresence(b.store).Beat(t.Context(), engine.Worker{ID: uuid.New(), Lanes: 1})
	require.NoError(t, err)
	lease = alone
	require.Len(t, enter(first, 1), 1, "a worker with one lane keeps none")
}

// An agent that hangs does not delay other agents' tasks.
func TestATaskBesideAHangingOneBeginsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	defer close(release)
	hanging := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { <-release })
	quick := agenttest.New(t, answer)
	b.startWorker(t, 8)
	for _, hangs := range []bool{true, false} {
		url := map[bool]string{true: hanging.URL, false: quick.URL}[hangs]
		taskID, launchID := b.task(t, url, 20, func(n *db.NewTask) {
			n.Task.Concurrency = 64
			n.Task.TimeoutSeconds = 600
		})
		require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
		if hangs {
			dbtest.Await(t, time.Minute, "all lanes but one", func() bool { return len(hanging.Calls()) == 7 })
			continue
		}
		dbtest.Await(t, 20*time.Second, "the first call, long before a hanging one ends", func() bool {
			return len(quick.Calls()) > 0
		})
		b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
		require.Len(t, hanging.Calls(), 7)
	}
}

// Regardless of how many tasks hang, a new task makes its first call once the first of their calls ends; a busy
// machine may take a few seconds longer.
func TestATaskBesideHangingOnesBeginsWithinOneTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	for _, test := range []struct{ hanging, lanes int }{{1, 2}, {5, 2}, {5, 8}, {20, 8}, {20, 64}} {
		t.Run(fmt.Sprintf("%d in %d lanes", test.hanging, test.lanes), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			release := make(chan struct{})
			defer close(release)
			hanging := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { <-release })
			quick := agenttest.New(t, answer)
			b.startWorker(t, test.lanes)
			for range test.hanging {
				_, launchID := b.task(t, hanging.URL, 20, func(n *db.NewTask) {
					n.Task.Concurrency, n.Task.TimeoutSeconds = 64, int(timeout.Seconds())
				})
				require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
			}
			dbtest.Await(t, time.Minute, "all lanes but one", func() bool { return len(hanging.Calls()) >= test.lanes-1 })
			taskID, launchID := b.task(t, quick.URL, 20, func(n *db.NewTask) { n.Task.Concurrency = 64 })
			require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
			// The units of the hanging tasks are created first, which on a busy machine takes longer than a call
			// hangs.
			asked := time.Now()
			dbtest.Await(t, 20*time.Second, "the start", func() bool {
				task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
				return err == nil && task.Status != db.TaskPending
			})
			start := time.Now()
			t.Logf("started after %v", start.Sub(asked).Round(time.Millisecond))
			// If the new task had to wait for all the others, this would take a minute and a half.
			dbtest.Await(t, timeout+30*time.Second, "the first call", func() bool { return len(quick.Calls()) > 0 })
			t.Logf("the first call after %v", time.Since(start).Round(time.Millisecond))
			b.requireComplete(t, b.awaitEnd(t, taskID, 2*time.Minute))
		})
	}
}

// More tasks than lanes take turns: each makes progress, and together they are about as fast as if run one after
// another.
func TestMoreTasksThanLanesTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const tasks = 6
	agents := make([]*agenttest.Agent, tasks)
	ids := make([]uuid.UUID, tasks)
	b.startWorker(t, 2)
	for n := range agents {
		agents[n] = agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
			time.Sleep(100 * time.Millisecond) // the duration of the call
			agenttest.Stream(w, "x")
		})
		var launchID uuid.UUID
		// 60 calls: six seconds in one lane
		ids[n], launchID = b.task(t, agents[n].URL, 12, func(n *db.NewTask) { n.Task.Concurrency = 4 })
		require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	}
	start := time.Now()
	dbtest.Await(t, 20*time.Second, "a call of every task", func() bool {
		for _, one := range agents {
			if len(one.Calls()) == 0 {
				return false
			}
		}
		return true
	})
	for _, one := range agents {
		require.Less(t, len(one.Calls()), 60, "none has ended before all have begun")
	}
	for _, id := range ids {
		b.requireComplete(t, b.awaitEnd(t, id, 60*time.Second))
	}
	t.Logf("%d calls in two lanes took %v, %v at best", tasks*60, time.Since(start).Round(time.Millisecond),
		tasks*60*50*time.Millisecond)
}

// The lane of a worker that was silent stays until the worker leaves it, because its call may still be in flight.
func TestALaneOutlivesItsLease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, launchID := b.task(t, "http://127.0.0.1:9", 2, func(n *db.NewTask) { n.Task.Concurrency = 1 })
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	worker, lane := uuid.New(), uuid.New()
	admitted, err := b.enterLane(t, lane, launchID, b.beat(t, worker))
	require.NoError(t, err)
	require.True(t, admitted)
	_, err = b.tables.Exec(`UPDATE workers SET beat_at = now() - interval '16 seconds'`)
	require.NoError(t, err)
	b.beat(t, worker)
	other := b.beat(t, uuid.New())
	admitted, err = b.enterLane(t, uuid.New(), launchID, other)
	require.NoError(t, err)
	require.False(t, admitted)
	require.NoError(t, engine.NewLanes(b.store).Leave(t.Context(), lane))
	admitted, err = b.enterLane(t, uuid.New(), launchID, other)
	require.NoError(t, err)
	require.True(t, admitted)
}
