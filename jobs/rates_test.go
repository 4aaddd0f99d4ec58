package jobs_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/report"
	"wending/jobs/agent/agenttest"
)

func TestTheRateOfAnAgentHoldsOverAllTasksAndWorkers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	var moments []time.Time
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		moments = append(moments, time.Now())
		mu.Unlock()
		answer(w, call)
	})
	b.startWorker(t, 4)
	b.startWorker(t, 4)
	limit := func(n *db.NewTask) { n.Launch.Targets[0].CallInterval = 50 * time.Millisecond }
	firstTask, first := b.task(t, fake.URL, 3, limit)
	secondTask, second := b.task(t, fake.URL, 3, limit)
	started := time.Now()
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), first))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), second))
	b.requireComplete(t, b.awaitEnd(t, firstTask, 30*time.Second))
	b.requireComplete(t, b.awaitEnd(t, secondTask, 30*time.Second))
	require.Len(t, moments, 30)
	requireNoneEarly(t, started, moments, 50*time.Millisecond)
}

// The strictest limit among an origin's running tasks applies to all of them, even to one without a limit.
func TestTheStrictestRateOfAnOriginHoldsForItsTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const interval = 50 * time.Millisecond
	var mu sync.Mutex
	var moments []time.Time
	last := map[string]int{} // the index of a question's last call, by the question's first letter
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		moments = append(moments, time.Now())
		last[call.Question[:1]] = len(moments)
		mu.Unlock()
		answer(w, call)
	})
	b.startWorker(t, 16)
	asking := func(letter string) func(n *db.NewTask) {
		return func(n *db.NewTask) {
			for i := range n.Items {
				n.Items[i].Question = letter
			}
		}
	}
	strictTask, strict := b.task(t, fake.URL, 5, func(n *db.NewTask) {
		asking("s")(n)
		n.Launch.Targets[0].CallInterval = interval
	})
	started := time.Now()
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), strict))
	dbtest.Await(t, time.Minute, "a call under the limit", func() bool { return len(fake.Calls()) > 0 })
	freeTask, free := b.task(t, fake.URL, 20, asking("f"))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), free))
	dbtest.Await(t, time.Minute, "the page's note", func() bool {
		hindrance, err := report.NewMonitor(b.store).TaskHindrance(t.Context(), freeTask)
		require.NoError(t, err)
		return hindrance.LimitingTaskID != nil && *hindrance.LimitingTaskID == strictTask
	})
	b.requireComplete(t, b.awaitEnd(t, strictTask, 30*time.Second))
	b.requireComplete(t, b.awaitEnd(t, freeTask, 30*time.Second))
	during := last["s"]
	require.Greater(t, during, 25, "calls of both")
	requireNoneEarly(t, started, moments[:during], interval)
	require.Less(t, moments[len(moments)-1].Sub(moments[during-1]), time.Duration(len(moments)-during)*interval,
		"afterwards there is no limit")
}

// A task with a very low rate limit does not keep workers from other tasks.
func TestASlowRateDoesNotHoldUpOtherTasks(t *testing.T) {
	t.Parallel()
	for name, interval := range map[string]time.Duration{"1/m": time.Minute, "1/s": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			slow, quick := agenttest.New(t, answer), agenttest.New(t, answer)
			b.startWorker(t, 2)
			_, first := b.task(t, slow.URL, 40, func(n *db.NewTask) { n.Launch.Targets[0].CallInterval = interval })
			require.NoError(t, b.queue.EnqueueLaunch(t.Context(), first))
			dbtest.Await(t, time.Minute, "the slow task's first call", func() bool { return len(slow.Calls()) == 1 })
			taskID, second := b.task(t, quick.URL, 4, nil)
			require.NoError(t, b.queue.EnqueueLaunch(t.Context(), second))
			b.requireComplete(t, b.awaitEnd(t, taskID, 8*time.Second))
			require.Less(t, len(slow.Calls()), 12, "the rate holds in the meantime")
		})
	}
}

// A wait that an agent requests with Retry-After applies even if there is no rate limit.
func TestRetryAfterSilencesAnAgentWithoutARateLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	var moments []time.Time
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		moments = append(moments, time.Now())
		isFirst := len(moments) == 1
		mu.Unlock()
		if isFirst {
			w.Header().Set("Retry-After", "3")
			http.Error(w, "busy", http.StatusTooManyRequests)
			return
		}
		answer(w, call)
	})
	b.startWorker(t, 1)
	taskID, launchID := b.task(t, fake.URL, 1, func(n *db.NewTask) { n.Task.Concurrency = 1 })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
	require.Len(t, moments, 5)
	require.GreaterOrEqual(t, moments[1].Sub(moments[0]), 2900*time.Millisecond)
}

// Workers that claim at the same time get separate rate-limit slots.
func TestNoMomentOfAnAgentIsGivenTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const interval = 25 * time.Millisecond
	var calls []db.Call
	for range 2 {
		_, launchID := b.task(t, "http://127.0.0.1:9", 10, func(n *db.NewTask) {
			n.Launch.Targets[0].CallInterval = interval
		})
		_, err := b.store.StartLaunch(t.Context(), launchID)
		require.NoError(t, err)
		call, err := b.store.LaunchCall(t.Context(), launchID)
		require.NoError(t, err)
		calls = append(calls, call)
	}
	lease := b.beat(t, uuid.New())
	started := time.Now()
	var mu sync.Mutex
	var moments []time.Time
	var claims sync.WaitGroup
	for n := range 16 {
		claims.Go(func() {
			claim, err := b.store.ClaimUnits(t.Context(), calls[n%2], lease, wants(1))
			mu.Lock()
			defer mu.Unlock()
			if err == nil && len(claim.Units) == 1 {
				moments = append(moments, time.Now().Add(claim.Units[0].Wait))
			}
		})
	}
	claims.Wait()
	require.Len(t, moments, 16)
	slices.SortFunc(moments, time.Time.Compare)
	requireNoneEarly(t, started, moments, interval)
}

// requireNoneEarly checks that calls respected a rate limit. A call may be late on a busy machine, so that the next
// one follows it closely, but none may be made before its slot. A tenth of an interval allows for the clocks'
// rounding.
func requireNoneEarly(t *testing.T, started time.Time, moments []time.Time, interval time.Duration) {
	t.Helper()
	for n, moment := range moments {
		require.Greater(t, moment.Sub(started), time.Duration(n)*interval-interval/10, "call %d", n)
	}
}
