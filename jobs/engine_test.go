package jobs_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/measure"
	"wending/db/pg/embedded"
	"wending/db/project"
	"wending/db/report"
	"wending/db/upkeep"
	"wending/jobs"
	"wending/jobs/agent"
	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/guard"
	"wending/jobs/evaluate/judge"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// bench is a database, a Redis and any number of workers.
type bench struct {
	store     *db.Store
	tables    *sqlx.DB
	queue     *jobs.Queue
	redis     string
	sealer    *secret.Sealer
	maxActive int // tasks that its workers run at once; 0 means any number
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return newBenchOn(t, dbtest.Redis(t))
}

func newBenchOn(t testing.TB, redis string) *bench {
	t.Helper()
	return newBenchAt(t, dbtest.URL(t), redis)
}

func newBenchAt(t testing.TB, database, redis string) *bench {
	t.Helper()
	b := &bench{redis: redis}
	b.store, b.tables = dbtest.OpenAt(t, database)
	b.queue = b.newQueue(t)
	var err error
	b.sealer, err = secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	return b
}

func (b *bench) newQueue(t testing.TB) *jobs.Queue {
	t.Helper()
	queue, err := jobs.NewQueue(b.redis)
	require.NoError(t, err)
	t.Cleanup(func() { _ = queue.Close() })
	return queue
}

// startWorker runs a worker until the test ends or stop is called; stop returns when it has left.
func (b *bench) startWorker(t testing.TB, lanes int) (stop func()) {
	t.Helper()
	guard, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	queue := b.newQueue(t)
	worker := jobs.NewWorker(jobs.WorkerConfig{Lanes: lanes, MaxActiveTasks: b.maxActive, Store: b.store, Queue: queue, Agents: agent.NewClient(guard, ""), Models: agent.NewClient(guard, ""),
		Sealer: b.sealer, Metrics: jobs.NewMetrics(prometheus.NewRegistry(), queue), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- worker.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-left)
		})
	}
	t.Cleanup(stop)
	return stop
}

// task stores a task over the questions; change may adapt it.
func (b *bench) task(t testing.TB, url string, questions int, change func(*db.NewTask)) (taskID, launchID uuid.UUID) {
	t.Helper()
	n := db.NewTask{
		Task: db.Task{ID: uuid.New(), ProjectID: project.Default, Name: "任务", Targets: dbtest.Targets(url), Variants: dbtest.Variants(), RunsPerItem: 5, TimeoutSeconds: 10, UseStream: true, Concurrency: 8,
			DatasetName: "q.csv", DatasetExtension: "csv"},
		Launch: &db.NewLaunch{Targets: dbtest.Limits(url)},
	}
	n.Task.Targets[0].TaskID = n.Task.ID
	for i := range questions {
		n.Items = append(n.Items, db.NewItem{QuestionID: fmt.Sprintf("q%04d", i+1), Question: fmt.Sprintf("question %d", i+1), StandardAnswer: "a"})
	}
	if change != nil {
		change(&n)
	}
	launchID, err := b.store.CreateTask(t.Context(), n)
	require.NoError(t, err)
	return n.Task.ID, launchID
}

// beat gives a sign of life of a worker that no process plays.
func (b *bench) beat(t testing.TB, worker uuid.UUID) db.Lease {
	t.Helper()
	lease, _, err := engine.NewPresence(b.store).Beat(t.Context(), engine.Worker{ID: worker, Lanes: 64})
	require.NoError(t, err)
	return lease
}

// enterLane admits one lane.
func (b *bench) enterLane(t testing.TB, lane, launchID uuid.UUID, lease db.Lease) (bool, error) {
	admitted, err := engine.NewLanes(b.store).Enter(t.Context(), []uuid.UUID{lane}, launchID, lease)
	return len(admitted) == 1, err
}

// claim takes units for a worker that no process plays.
func (b *bench) claim(t testing.TB, launchID uuid.UUID, lease db.Lease, want int) []db.Unit {
	t.Helper()
	call, err := b.store.LaunchCall(t.Context(), launchID)
	require.NoError(t, err)
	claim, err := b.store.ClaimUnits(t.Context(), call, lease, wants(want))
	require.NoError(t, err)
	return claim.Units
}

// wants is what a plain task's claim wants.
func wants(units int) []db.Want {
	return []db.Want{{Target: 1, Units: units, Horizon: db.RateHorizon}}
}

// record hands in one result of such a worker.
func (b *bench) record(t testing.TB, taskID uuid.UUID, result engine.Result) (accepted bool) {
	t.Helper()
	refused, err := engine.NewRecorder(b.store).Record(t.Context(), taskID, []engine.Result{result})
	require.NoError(t, err)
	return len(refused) == 0
}

func (b *bench) statistics(t testing.TB, taskID uuid.UUID) db.TaskStatistics {
	t.Helper()
	task, err := b.store.Task(t.Context(), project.AllProjects(), taskID)
	require.NoError(t, err)
	statistics, err := b.store.TaskStatistics(t.Context(), task)
	require.NoError(t, err)
	return statistics
}

func (b *bench) awaitEnd(t testing.TB, taskID uuid.UUID, within time.Duration) db.Task {
	t.Helper()
	dbtest.Await(t, within, "the task's end", func() bool {
		var status db.TaskStatus // alone: benchmarks must not measure how progress is counted
		require.NoError(t, b.tables.Get(&status, `SELECT status FROM evaluation_tasks WHERE id = $1`, taskID))
		return !status.IsActive()
	})
	task, err := b.store.Task(t.Context(), project.AllProjects(), taskID)
	require.NoError(t, err)
	return task
}

// requireComplete checks that every question has exactly its runs, each once and of the unit's epoch.
func (b *bench) requireComplete(t testing.TB, task db.Task) {
	t.Helper()
	var counts struct {
		Runs, Distinct, Stale, Open int
	}
	require.NoError(t, b.tables.Get(&counts, `SELECT count(*) AS runs, count(DISTINCT (r.item_id, r.variant, r.run_index)) AS distinct,
		count(*) FILTER (WHERE r.epoch <> u.epoch) AS stale, count(*) FILTER (WHERE u.state <> 'DONE') AS open
		FROM evaluation_runs r JOIN units u ON u.id = r.unit_id WHERE r.task_id = $1 AND r.is_current`, task.ID))
	want := task.TotalRuns()
	require.Equal(t, want, counts.Runs, "runs")
	require.Equal(t, want, counts.Distinct, "runs of different (question, index)")
	require.Zero(t, counts.Stale, "runs of an epoch that is not the unit's")
	require.Zero(t, counts.Open, "units not done")
	require.Equal(t, task.TotalItems, task.Processed, "progress")
	statistics := b.statistics(t, task.ID)
	require.Equal(t, want, statistics.Runs, "statistics")
}

func answer(w http.ResponseWriter, call agenttest.Call) {
	agenttest.Stream(w, "answer to "+call.Question)
}

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
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { http.Error(w, "boom", http.StatusInternalServerError) })
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
		// A drip does not extend the deadline.
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
	require.NoError(t, b.tables.Get(&run, `SELECT status, error_code AS code, error_message AS message, attempts, latency_ms AS latency FROM evaluation_runs`))
	require.Equal(t, "TIMEOUT", run.Status)
	require.Equal(t, "TIMEOUT", run.Code)
	require.Equal(t, "Agent request timed out after 1s", run.Message)
	require.Equal(t, 2, run.Attempts)
	require.GreaterOrEqual(t, run.Latency, 1000)
	require.Less(t, run.Latency, 2000, "the last attempt's latency alone")
}

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
		time.Sleep(20 * time.Millisecond) // an agent that takes its time
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

// The strictest limit of an origin's running tasks holds for all of them, also for one without a limit.
func TestTheStrictestRateOfAnOriginHoldsForItsTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const interval = 50 * time.Millisecond
	var mu sync.Mutex
	var moments []time.Time
	last := map[string]int{} // by the question's first letter: the place of its last call
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
	strictTask, strict := b.task(t, fake.URL, 5, func(n *db.NewTask) { asking("s")(n); n.Launch.Targets[0].CallInterval = interval })
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
	require.Less(t, moments[len(moments)-1].Sub(moments[during-1]), time.Duration(len(moments)-during)*interval, "afterwards there is no limit")
}

// A task that waits for a lane knows how many tasks are ahead of it.
func TestATaskThatWaitsForALaneKnowsHowManyAreAhead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { <-release; answer(w, call) })
	b.startWorker(t, 1)
	t.Cleanup(func() { close(release) }) // before the worker leaves
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

// A panic in a job – here: no sealer – is reported and ends neither the process nor the work of others.
func TestAPanicInAJobIsContainedAndReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sealed, err := b.sealer.Seal(map[string]string{"X": "y"}, "owner")
	require.NoError(t, err)
	fake := agenttest.New(t, answer)
	guard, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	queue := b.newQueue(t)
	reports := make(chan error, 100)
	worker := jobs.NewWorker(jobs.WorkerConfig{Lanes: 2, Store: b.store, Queue: queue, Agents: agent.NewClient(guard, ""), Sealer: nil,
		Metrics: jobs.NewMetrics(prometheus.NewRegistry(), queue), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Report: func(err error, _ map[string]string) {
			select {
			case reports <- err:
			default:
			}
		}})
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- worker.Run(ctx) }()
	_, odd := b.task(t, fake.URL, 1, func(n *db.NewTask) { n.Task.Targets[0].SealedHeaders = sealed })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), odd))
	require.ErrorContains(t, <-reports, "panic")
	soundTask, sound := b.task(t, fake.URL, 3, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), sound))
	b.requireComplete(t, b.awaitEnd(t, soundTask, 30*time.Second))
	cancel()
	require.NoError(t, <-left)
}

// Plots have at most thirty bars of whole seconds, from the first call on, however long a launch took.
func TestOutcomesOverTimeFitThirtyBars(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	b.startWorker(t, 8)
	task, launch := b.task(t, fake.URL, 10, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launch))
	b.awaitEnd(t, task, 30*time.Second)
	for _, seconds := range []int{1, 29, 31, 3600, 100_000} {
		b.tables.MustExec(`UPDATE launches SET started_at = now() - interval '2 days', finished_at = now() - interval '2 days' + $1 * interval '1 second' WHERE id = $2`, seconds, launch)
		b.tables.MustExec(`UPDATE evaluation_runs SET latency_ms = 0, created_at = now() - interval '2 days' + $1 * interval '1 second' * (id - (SELECT min(id) FROM evaluation_runs WHERE launch_id = $2)) / 49
			WHERE launch_id = $2`, seconds, launch)
		bars, err := report.NewMonitor(b.store).OutcomeBars(t.Context(), task)
		require.NoError(t, err)
		require.LessOrEqual(t, len(bars), 30, "%d s", seconds)
		require.Zero(t, bars[0].From)
		counted := 0
		for _, bar := range bars {
			width := bar.To - bar.From
			require.GreaterOrEqual(t, width, 1.0)
			require.Equal(t, math.Trunc(width), width)
			counted += bar.Succeeded
		}
		require.Equal(t, 50, counted)
		require.GreaterOrEqual(t, bars[len(bars)-1].To, float64(seconds))
	}
}

// A database that an earlier version left in the middle of a task, after kill -9, migrates, and the task completes:
// only what had no result is asked.
func TestADatabaseOfAnEarlierVersionMigratesAndItsTaskCompletes(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, answer)
	database := dbtest.Start(t)
	earlier, err := os.ReadFile("testdata/half_done_at_version_2.sql")
	require.NoError(t, err)
	connection := sqlx.MustConnect("postgres", database)
	connection.MustExec(string(earlier))
	connection.MustExec(`UPDATE public.evaluation_tasks SET agent_api_url = $1, extra_payload = '{"token": "canary2"}'`, fake.URL+"?key=canary1")
	connection.MustExec(`UPDATE public.evaluation_tasks SET variable_names = '{level,topic}' WHERE task_name = 'half'`)
	connection.MustExec(`UPDATE public.evaluation_items SET variables = '{"topic": "geography", "level": "1"}' WHERE id = 1`)
	connection.MustExec(`UPDATE public.evaluation_items SET variables = '{"topic": "capitals"}' WHERE id = 2`)
	var done int
	require.NoError(t, connection.Get(&done, `SELECT count(*) FROM public.evaluation_runs`))
	require.NoError(t, connection.Close())

	b := newBenchAt(t, database, dbtest.Redis(t))
	var half, draft uuid.UUID
	require.NoError(t, b.tables.Get(&half, `SELECT id FROM evaluation_tasks WHERE task_name = 'half'`))
	require.NoError(t, b.tables.Get(&draft, `SELECT id FROM evaluation_tasks WHERE task_name = 'draft'`))
	sealed, err := tasks.SealPlain(t.Context(), b.store, b.sealer)
	require.NoError(t, err)
	require.Equal(t, 2, sealed)
	b.requireNowhere(t, "canary1", "canary2")
	sealed, err = tasks.SealPlain(t.Context(), b.store, b.sealer)
	require.NoError(t, err)
	require.Zero(t, sealed, "once")
	before, err := b.store.Task(t.Context(), project.AllProjects(), half)
	require.NoError(t, err)
	require.Equal(t, 2, before.Processed, "what was processed is counted from its units")
	items, _, err := report.New(b.store).Items(t.Context(), half, report.Filter{}, db.Page{Number: 1, Size: 10})
	require.NoError(t, err)
	require.Equal(t, pq.StringArray{"1", "geography"}, items[0].Variables, "by position, in the order of the columns")
	require.Equal(t, pq.StringArray{"", "capitals"}, items[1].Variables)
	require.Equal(t, pq.StringArray{"", ""}, items[2].Variables)
	b.startWorker(t, 2)
	after := b.awaitEnd(t, half, 30*time.Second)
	require.Equal(t, db.TaskSucceeded, after.Status)
	b.requireComplete(t, after)
	require.Len(t, fake.Calls(), after.TotalRuns()-done)
	require.Equal(t, "key=canary1", fake.Calls()[0].Query)
	require.Equal(t, "canary2", fake.Calls()[0].Body["token"])
	untouched, err := b.store.Task(t.Context(), project.AllProjects(), draft)
	require.NoError(t, err)
	require.True(t, untouched.IsDraft())
}

func TestALostWakeUpIsMadeUpFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	taskID, _ := b.task(t, fake.URL, 5, nil) // nobody is notified
	b.startWorker(t, 2)
	b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
}

func TestUnitsOfADeadWorkerAreRunAgainUnderANewEpoch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	taskID, launchID := b.task(t, fake.URL, 4, nil)
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	dead := uuid.New()
	units := b.claim(t, launchID, b.beat(t, dead), 1)
	require.Len(t, units, 1)
	_, err = b.tables.Exec(`UPDATE workers SET beat_at = now() - interval '21 seconds' WHERE id = $1`, dead)
	require.NoError(t, err)
	b.startWorker(t, 2)
	b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
	// The dead worker comes back with its answer.
	require.False(t, b.record(t, taskID, engine.Result{Unit: units[0], Status: db.RunSucceeded, Response: []byte("late"), Attempts: 1}), "a late result is thrown away")
	var late int
	require.NoError(t, b.tables.Get(&late, `SELECT count(*) FROM evaluation_runs WHERE response_body = 'late'`))
	require.Zero(t, late)
}

func TestAUnitThatLostThreeWorkersEndsFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskID, launchID := b.task(t, "http://127.0.0.1:9", 1, func(n *db.NewTask) { n.Task.RunsPerItem = 1 })
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	for range 3 {
		worker := uuid.New()
		require.Len(t, b.claim(t, launchID, b.beat(t, worker), 1), 1)
		require.NoError(t, engine.NewPresence(b.store).Remove(t.Context(), worker))
		lost, err := b.store.RequeueLostUnits(t.Context(), judge.Unrated)
		require.NoError(t, err)
		require.Equal(t, 1, lost)
	}
	finished, err := tasks.FinishLaunch(t.Context(), b.store, launchID)
	require.NoError(t, err)
	require.True(t, finished)
	finished, err = tasks.FinishLaunch(t.Context(), b.store, launchID)
	require.NoError(t, err)
	require.False(t, finished, "a launch is finished once")
	task, err := b.store.Task(t.Context(), project.AllProjects(), taskID)
	require.NoError(t, err)
	b.requireComplete(t, task)
	var code string
	require.NoError(t, b.tables.Get(&code, `SELECT error_code FROM evaluation_runs`))
	require.Equal(t, db.WorkerLostCode, code)
}

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

func TestHeadersThatCannotBeDecryptedFailTheTaskWithItsReason(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	other, err := secret.NewSealer(secret.Keys{Current: "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk="})
	require.NoError(t, err)
	taskID, launchID := b.task(t, fake.URL, 2, func(n *db.NewTask) {
		n.Task.Targets[0].SealedHeaders, err = other.Seal(map[string]string{"Authorization": "Bearer x"}, n.Task.ID.String())
		require.NoError(t, err)
	})
	b.startWorker(t, 1)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 20*time.Second)
	require.Equal(t, db.TaskFailed, task.Status)
	require.Equal(t, jobs.FailureSecretKey, *task.FailureCode)
	require.Empty(t, fake.Calls())
}

// A worker that was started before the installation's key was replaced leaves to others what it cannot open.
func TestAWorkerWithTheFormerKeyFailsNobodysTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	current, err := tasks.NewSealer(t.Context(), b.store, secret.Keys{Current: "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk="})
	require.NoError(t, err)
	taskID, launchID := b.task(t, fake.URL, 2, func(n *db.NewTask) {
		require.NoError(t, tasks.Seal(current, tasks.Target{URL: fake.URL, Headers: map[string]string{"X-Key": "k"}}, &n.Task.Targets[0]))
	})
	stop := b.startWorker(t, 1)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	dbtest.Await(t, 20*time.Second, "the worker has tried", func() bool {
		task, err := b.store.Task(t.Context(), project.AllProjects(), taskID)
		require.NoError(t, err)
		return task.Status == db.TaskRunning
	})
	stop()
	task, err := b.store.Task(t.Context(), project.AllProjects(), taskID)
	require.NoError(t, err)
	require.Equal(t, db.TaskRunning, task.Status)
	require.Empty(t, fake.Calls())
	b.sealer = current
	b.startWorker(t, 1)
	b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
}

// The first process decides which key is the installation's; only one that knows that key may replace it.
func TestAnotherSecretKeyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := func(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }
	open := func(keys secret.Keys) error {
		_, err := tasks.NewSealer(t.Context(), b.store, keys)
		return err
	}
	b.task(t, "http://127.0.0.1:1/", 1, func(n *db.NewTask) { // of a version that stored no check value
		require.NoError(t, tasks.Seal(b.sealer, tasks.Target{URL: "http://127.0.0.1:1/", Headers: map[string]string{"X-Key": "k"}}, &n.Task.Targets[0]))
	})
	require.ErrorIs(t, open(secret.Keys{Current: key(5)}), tasks.ErrForeignKey, "what is stored was sealed with another")
	require.NoError(t, open(secret.Keys{Current: dbtest.SecretKey}))
	require.NoError(t, open(secret.Keys{Current: dbtest.SecretKey}))
	require.ErrorIs(t, open(secret.Keys{Current: key(5)}), tasks.ErrForeignKey)
	require.NoError(t, open(secret.Keys{Current: key(5), Previous: []string{dbtest.SecretKey}}), "the key is replaced")
	require.NoError(t, open(secret.Keys{Current: key(5)}))
	require.ErrorIs(t, open(secret.Keys{Current: dbtest.SecretKey}), tasks.ErrForeignKey)
}

func TestTheAgentGetsItsHeadersAndTheExtraPayload(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	taskID, launchID := b.task(t, fake.URL, 1, func(n *db.NewTask) {
		n.Task.RunsPerItem = 1
		require.NoError(t, tasks.Seal(b.sealer, tasks.Target{
			URL: fake.URL + "/ask?key=canary1", Headers: map[string]string{"X-Api-Key": "k<&>"},
			Payload: json.RawMessage(`{"model":"canary2","stream":false}`),
		}, &n.Task.Targets[0]))
	})
	b.startWorker(t, 1)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.requireComplete(t, b.awaitEnd(t, taskID, 20*time.Second))
	call := fake.Calls()[0]
	require.Equal(t, "k<&>", call.Header.Get("X-Api-Key"))
	require.Equal(t, "canary2", call.Body["model"])
	require.Equal(t, "key=canary1", call.Query)
	require.Equal(t, false, call.Body["stream"])
	b.requireNowhere(t, "k<&>", "canary1", "canary2")
}

// What another key sealed is sealed again batch by batch; an interruption costs nothing, and what no key opens stays.
func TestSecretsAreSealedAgainWithANewKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	newSealer := func(n byte, previous ...string) *secret.Sealer {
		key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32))
		sealer, err := secret.NewSealer(secret.Keys{Current: key, Previous: previous})
		require.NoError(t, err)
		return sealer
	}
	unknown, next := newSealer(3), newSealer(2, dbtest.SecretKey)
	target := tasks.Target{URL: "http://127.0.0.1:1/?k=v", Headers: map[string]string{"X-Key": "k"}, Payload: json.RawMessage(`{"p":1}`)}
	var ids []uuid.UUID
	for n := range 151 {
		sealer := b.sealer
		if n == 20 {
			sealer = unknown
		}
		id, _ := b.task(t, "http://127.0.0.1:1/", 1, func(task *db.NewTask) {
			if n == 30 { // it has none
				return
			}
			require.NoError(t, tasks.Seal(sealer, target, &task.Task.Targets[0]))
		})
		ids = append(ids, id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var steps [][2]int
	progress := func(changed, left int) {
		steps = append(steps, [2]int{changed, left})
		cancel()
	}
	require.ErrorIs(t, tasks.Reseal(ctx, b.store, next, progress), context.Canceled)
	require.Len(t, steps, 1, "interrupted after the first batch")
	first := steps[0]
	require.Equal(t, 100, first[0]+first[1])
	require.NoError(t, tasks.Reseal(t.Context(), b.store, next, progress))
	require.Equal(t, [2]int{149 - first[0], 1}, steps[len(steps)-1])
	alone := newSealer(2)
	for n, id := range ids {
		task, err := b.store.Task(t.Context(), project.AllProjects(), id)
		require.NoError(t, err)
		opened, err := tasks.Open(alone, task.Targets[0])
		switch n {
		case 20:
			require.ErrorIs(t, err, secret.ErrKey)
			opened, err = tasks.Open(unknown, task.Targets[0])
			require.NoError(t, err)
			require.Equal(t, target, opened)
		case 30:
			require.NoError(t, err)
			require.Equal(t, tasks.Target{URL: "http://127.0.0.1:1/"}, opened)
		default:
			require.NoError(t, err)
			require.Equal(t, target, opened)
		}
	}
}

// requireNowhere checks that no task holds any of the secrets in clear.
func (b *bench) requireNowhere(t testing.TB, secrets ...string) {
	t.Helper()
	var rows []string
	require.NoError(t, b.tables.Select(&rows, `
		SELECT t::text || g::text || encode(coalesce(sealed_headers, ''), 'escape') || encode(coalesce(sealed_payload, ''), 'escape') ||
			encode(coalesce(sealed_query, ''), 'escape') || encode(coalesce(sealed_template, ''), 'escape')
		FROM evaluation_tasks t
		JOIN task_targets g ON g.task_id = t.id`))
	require.NotEmpty(t, rows)
	for _, secret := range secrets {
		require.NotContains(t, strings.Join(rows, "\n"), secret)
	}
}

func TestTextThatPostgreSQLRefusesKeepsItsExactBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const hostile = "a\x00b\xff\xfec\u2028d"
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		_, _ = io.WriteString(w, `data: {"event":"node_finished","data":{"output":"`+strings.ReplaceAll(hostile, "\x00", `\u0000`)+"\"}}\n\n")
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
	for range 2 { // the reply to the first commit was lost
		require.True(t, b.record(t, taskID, engine.Result{Unit: units[0], Status: db.RunSucceeded, Response: []byte("x"), Attempts: 1}))
	}
	var runs int
	require.NoError(t, b.tables.Get(&runs, `SELECT count(*) FROM evaluation_runs`))
	require.Equal(t, 1, runs)
	_, err = b.store.StartLaunch(t.Context(), launchID)
	require.ErrorIs(t, err, db.ErrConflict, "a launch starts once")
}

func TestUnitsClaimedWithoutAnAnswerAreGivenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, launchID := b.task(t, "http://127.0.0.1:9", 2, nil)
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	worker := uuid.New()
	units := b.claim(t, launchID, b.beat(t, worker), 2)
	require.Len(t, units, 2)
	released, err := b.store.ReleaseStrays(t.Context(), worker, []int64{units[0].ID})
	require.NoError(t, err)
	require.Equal(t, 1, released)
	released, err = b.store.ReleaseStrays(t.Context(), worker, nil)
	require.NoError(t, err)
	require.Equal(t, 1, released, "a worker that holds nothing returns everything")
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

// Of launches that wait, those of the agent that was served longest ago are next, also when agents hold as many lanes.
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
		id, err := engine.NewLanes(b.store).NextInTurn(t.Context())
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

// A worker's last lane is for a task that has none, and while tasks wait none gets more than its share.
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
		_, err := b.tables.Exec(`UPDATE launches SET created_at = now() - interval '2 seconds'`) // younger ones are left alone
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

// An agent that hangs does not hold up the tasks of others.
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
		dbtest.Await(t, 20*time.Second, "the first call, long before a hanging one ends", func() bool { return len(quick.Calls()) > 0 })
		b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
		require.Len(t, hanging.Calls(), 7)
	}
}

// However many tasks hang, a new one has its first call when the first of their calls end; a busy machine may take some
// seconds more.
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
			// The hanging tasks' units are made first, which on a busy machine takes longer than a call hangs.
			asked := time.Now()
			dbtest.Await(t, 20*time.Second, "the start", func() bool {
				task, err := b.store.Task(t.Context(), project.AllProjects(), taskID)
				return err == nil && task.Status != db.TaskPending
			})
			start := time.Now()
			t.Logf("started after %v", start.Sub(asked).Round(time.Millisecond))
			dbtest.Await(t, timeout+10*time.Second, "the first call", func() bool { return len(quick.Calls()) > 0 })
			t.Logf("the first call after %v", time.Since(start).Round(time.Millisecond))
			b.requireComplete(t, b.awaitEnd(t, taskID, 2*time.Minute))
		})
	}
}

// When a task reads as ended, every question says how alike its answers are, also after a retry, and statistics count them.
func TestQuestionsAreAssessedWhenTheTaskEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		switch {
		case call.Question == "question 1":
			agenttest.Stream(w, "same")
		case call.Question == "question 2" && !isWell.Load():
			http.Error(w, "down", http.StatusInternalServerError)
		case call.Question == "question 2":
			agenttest.Stream(w, "")
		default:
			agenttest.Stream(w, "answer to "+call.IdempotencyKey)
		}
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 3, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 20*time.Second)
	read := func() map[int]report.Question {
		var ids []int64
		require.NoError(t, b.tables.Select(&ids, `SELECT id FROM evaluation_items WHERE task_id = $1`, taskID))
		questions, err := report.New(b.store).Questions(t.Context(), taskID, ids)
		require.NoError(t, err)
		byNumber := map[int]report.Question{}
		for _, question := range questions {
			byNumber[question.Number] = question
		}
		return byNumber
	}
	questions := read()
	require.Equal(t, measure.Identical, *questions[1].Likeness(1).Level)
	require.Equal(t, "AAAAA", *questions[1].Likeness(1).Letters)
	require.Empty(t, *questions[1].Differences)
	require.Equal(t, measure.Unknown, *questions[2].Likeness(1).Level)
	require.Equal(t, "-----", *questions[2].Likeness(1).Letters)
	require.Zero(t, *questions[2].Likeness(1).Agreement)
	require.Nil(t, questions[2].Likeness(1).Similarity)
	require.Equal(t, "ABCDE", *questions[3].Likeness(1).Letters)
	require.Len(t, strings.Fields(*questions[3].Differences), 4)
	statistics, err := b.store.TaskStatistics(t.Context(), task)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"identical": 1, "format_only": 0, "facts": 1, "wording": 0, "different": 0, "empty": 0, "unknown": 1}, statistics.Levels)
	require.InDelta(t, 1.0/3, *statistics.Agreement, 1e-9)
	require.InDelta(t, 1.0/3, *statistics.IdenticalRate, 1e-9)
	require.InDelta(t, (1+0+0.2)/3, *statistics.Consensus, 1e-9)
	require.InDelta(t, 3, *statistics.DistinctMean, 1e-9)
	require.InDelta(t, 10.0/15, *statistics.SuccessRate, 1e-9)
	require.Equal(t, []int{3, 15, 0}, []int{statistics.Items, statistics.RunsExpected, statistics.Missing})

	isWell.Store(true)
	retry, err := b.store.RequestLaunch(t.Context(), project.AllProjects(), taskID, db.LaunchRetry, db.Scope{}, db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), retry))
	dbtest.Await(t, 20*time.Second, "the retry's end", func() bool {
		task, err = b.store.Task(t.Context(), project.AllProjects(), taskID)
		return err == nil && !task.Status.IsActive()
	})
	questions = read()
	require.Equal(t, measure.Empty, *questions[2].Likeness(1).Level)
	require.Equal(t, "AAAAA", *questions[2].Likeness(1).Letters)
	statistics, err = b.store.TaskStatistics(t.Context(), task)
	require.NoError(t, err)
	require.Equal(t, 1, statistics.Levels["empty"])
	require.InDelta(t, 2.0/3, *statistics.Agreement, 1e-9)

	// A task that an earlier version ended is assessed by a worker, and gets its numbers.
	b.tables.MustExec(`DELETE FROM question_statistics`)
	b.tables.MustExec(`UPDATE evaluation_tasks SET is_assessed = false, statistics = CAST(CAST(statistics AS jsonb) - 'agreement' AS json)`)
	dbtest.Await(t, 20*time.Second, "its questions", func() bool {
		task, err = b.store.Task(t.Context(), project.AllProjects(), taskID)
		return err == nil && task.Final.Agreement != nil
	})
	require.Equal(t, questions, read())
}

// More tasks than lanes take turns: each gets on, and together they are about as quick as one after another.
func TestMoreTasksThanLanesTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const tasks = 6
	agents := make([]*agenttest.Agent, tasks)
	ids := make([]uuid.UUID, tasks)
	b.startWorker(t, 2)
	for n := range agents {
		agents[n] = agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
			time.Sleep(100 * time.Millisecond) // the call itself
			agenttest.Stream(w, "x")
		})
		var launchID uuid.UUID
		ids[n], launchID = b.task(t, agents[n].URL, 12, func(n *db.NewTask) { n.Task.Concurrency = 4 }) // 60 calls: six seconds in one lane
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
	t.Logf("%d calls in two lanes took %v, %v at best", tasks*60, time.Since(start).Round(time.Millisecond), tasks*60*50*time.Millisecond)
}

// A task whose agent may seldom be called does not keep the workers from the tasks of others.
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

// What an agent asks for with Retry-After holds even where no rate limit is set.
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

// After a stop nothing begins any more, wherever its unit stands: queued, claimed ahead, or waiting for the
// agent's rate or for its next attempt.
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
			_, err := b.store.StopTask(t.Context(), project.AllProjects(), taskID, db.Actor{})
			require.NoError(t, err)
			stopped := time.Now()
			task := b.awaitEnd(t, taskID, 10*time.Second)
			require.Equal(t, db.TaskStopped, task.Status)
			mu.Lock()
			defer mu.Unlock()
			require.Less(t, last.Sub(stopped), time.Second, "no call begins a second after the stop")
			var units struct{ Done, Stopped, Other, Runs int }
			require.NoError(t, b.tables.Get(&units, `SELECT count(*) FILTER (WHERE state = 'DONE') AS done, count(*) FILTER (WHERE state = 'STOPPED') AS stopped,
				count(*) FILTER (WHERE state NOT IN ('DONE', 'STOPPED')) AS other, (SELECT count(*) FROM evaluation_runs) AS runs FROM units`))
			require.Zero(t, units.Other)
			require.Equal(t, units.Done, units.Runs)
			statistics := b.statistics(t, taskID)
			require.Equal(t, units.Done, statistics.Runs)
			require.Equal(t, units.Stopped, statistics.Stopped)
			require.Positive(t, units.Stopped)
		})
	}
}

// Calls that go on for long after a stop are cut, and the task ends.
func TestCallsInFlightAreCutLongAfterAStop(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cut := make(chan struct{}, 2)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		_ = http.NewResponseController(w).Flush()
		for { // until the caller has gone
			if _, err := w.Write([]byte(": wait\n")); err != nil {
				cut <- struct{}{}
				return
			}
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Millisecond) // an agent that takes its time
		}
	})
	b.startWorker(t, 3)
	taskID, launchID := b.task(t, fake.URL, 2, func(n *db.NewTask) { n.Task.TimeoutSeconds = 600 })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	dbtest.Await(t, time.Minute, "two calls", func() bool { return len(fake.Calls()) == 2 })
	_, err := b.store.StopTask(t.Context(), project.AllProjects(), taskID, db.Actor{})
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

// A worker that was silent for too long may not claim, nor enter a lane, under its old lease.
func TestALeaseThatHasPassedGivesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, launchID := b.task(t, "http://127.0.0.1:9", 2, nil)
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	worker := uuid.New()
	old := b.beat(t, worker)
	admitted, err := b.enterLane(t, uuid.New(), launchID, old)
	require.NoError(t, err)
	require.True(t, admitted)
	require.Equal(t, old, b.beat(t, worker), "a lease lasts while the worker beats")
	_, err = b.tables.Exec(`UPDATE workers SET beat_at = now() - interval '16 seconds'`)
	require.NoError(t, err)
	state, err := engine.NewLanes(b.store).State(t.Context(), launchID, old)
	require.NoError(t, err)
	require.False(t, state.HoldsLease)
	fresh := b.beat(t, worker)
	require.NotEqual(t, old, fresh)
	require.Empty(t, b.claim(t, launchID, old, 1))
	admitted, err = b.enterLane(t, uuid.New(), launchID, old)
	require.NoError(t, err)
	require.False(t, admitted)
	require.Len(t, b.claim(t, launchID, fresh, 1), 1)
}

// The history of finished tasks goes; results stay.
func TestOldHistoryIsPrunedAndResultsStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if !isWell.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		answer(w, call)
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 2, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.awaitEnd(t, taskID, 20*time.Second)
	isWell.Store(true)
	_, err := b.store.RequestLaunch(t.Context(), project.AllProjects(), taskID, db.LaunchRetry, db.Scope{}, db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	b.awaitEnd(t, taskID, 20*time.Second)
	_, found, err := upkeep.New(b.store).Prune(t.Context(), time.Hour)
	require.NoError(t, err)
	require.False(t, found, "it has just ended")
	_, err = b.tables.Exec(`UPDATE evaluation_tasks SET completed_at = now() - interval '2 hours'`)
	require.NoError(t, err)
	removed, found, err := upkeep.New(b.store).Prune(t.Context(), time.Hour)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, 10+20, removed, "ten replaced runs and the units of both launches")
	statistics := b.statistics(t, taskID)
	require.Equal(t, 10, statistics.Succeeded)
	var current int
	require.NoError(t, b.tables.Get(&current, `SELECT count(*) FROM evaluation_runs WHERE is_current`))
	require.Equal(t, 10, current)
	_, err = b.store.RequestLaunch(t.Context(), project.AllProjects(), taskID, db.LaunchRetry, db.Scope{}, db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.ErrorIs(t, err, db.ErrNothingToRun)
}

// A worker that was taken for dead hands in its answer while another one runs the unit.
func TestALateResultIsRefusedWhileAnotherWorkerRunsTheUnit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskID, launchID := b.task(t, "http://127.0.0.1:9", 1, func(n *db.NewTask) { n.Task.RunsPerItem = 1 })
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	frozen := uuid.New()
	old := b.claim(t, launchID, b.beat(t, frozen), 1)
	require.Len(t, old, 1)
	_, err = b.tables.Exec(`UPDATE workers SET beat_at = now() - interval '21 seconds'`)
	require.NoError(t, err)
	lost, err := b.store.RequeueLostUnits(t.Context(), judge.Unrated)
	require.NoError(t, err)
	require.Equal(t, 1, lost)
	current := b.claim(t, launchID, b.beat(t, uuid.New()), 1)
	require.Len(t, current, 1)
	require.False(t, b.record(t, taskID, engine.Result{Unit: old[0], Status: db.RunSucceeded, Response: []byte("late"), Attempts: 1}))
	require.True(t, b.record(t, taskID, engine.Result{Unit: current[0], Status: db.RunSucceeded, Response: []byte("current"), Attempts: 1}))
	var text string
	require.NoError(t, b.tables.Get(&text, `SELECT response_body FROM evaluation_runs`))
	require.Equal(t, "current", text)
}

// The database is away for longer than it takes to be presumed dead: answers that arrived in the meantime are kept and
// stored, and nobody's units are taken away.
func TestAnOutageOfTheDatabaseCostsNoCall(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t) + "/postgres"
	server, err := embedded.StartPostgres(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop() })
	b := newBenchAt(t, server.URL(), dbtest.Redis(t))
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		<-release
		answer(w, call)
	})
	b.startWorker(t, 3)
	b.startWorker(t, 3)
	taskID, launchID := b.task(t, fake.URL, 4, func(n *db.NewTask) { n.Task.TimeoutSeconds = 120 })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	dbtest.Await(t, time.Minute, "four calls in flight", func() bool { return len(fake.Calls()) == 4 })
	server.Stop()
	close(release)
	time.Sleep(db.WorkerDeadAfter + 2*time.Second) // the outage is how long it lasts
	server, err = embedded.StartPostgres(t.Context(), dir)
	require.NoError(t, err)
	b.requireComplete(t, b.awaitEnd(t, taskID, 60*time.Second))
	require.Len(t, fake.Calls(), 20, "no call was made twice")
}

// Redis only wakes: without it tasks begin, go on and end, within their concurrency.
func TestTasksRunWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server, err := embedded.StartRedis(t.Context(), t.TempDir())
	require.NoError(t, err)
	b := newBenchOn(t, server.URL())
	var busy, most atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		now := busy.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		time.Sleep(20 * time.Millisecond) // an agent that takes its time
		busy.Add(-1)
		answer(w, call)
	})
	b.startWorker(t, 4)
	b.startWorker(t, 4)
	server.Stop()
	taskID, _ := b.task(t, fake.URL, 20, func(n *db.NewTask) { n.Task.Concurrency = 6 })
	b.requireComplete(t, b.awaitEnd(t, taskID, 25*time.Second))
	require.Len(t, fake.Calls(), 100)
	require.LessOrEqual(t, most.Load(), int64(6))
}

// A lane whose worker was silent stays until it is left: its call may still be on its way.
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

// A database that takes nothing for a while – read-only after a failover – costs no answer.
func TestAnswersWaitWhileTheDatabaseIsReadOnly(t *testing.T) {
	t.Parallel()
	server, err := embedded.StartPostgres(t.Context(), dbtest.Folder(t)+"/postgres")
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	b := newBenchAt(t, server.URL(), dbtest.Redis(t))
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		<-release
		answer(w, call)
	})
	b.startWorker(t, 5)
	taskID, launchID := b.task(t, fake.URL, 2, func(n *db.NewTask) { n.Task.TimeoutSeconds = 60 })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	dbtest.Await(t, time.Minute, "four calls in flight", func() bool { return len(fake.Calls()) == 4 })
	const reconnect = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`
	_, err = b.tables.Exec(`ALTER DATABASE postgres SET default_transaction_read_only = on`)
	require.NoError(t, err)
	_, err = b.tables.Exec(reconnect)
	require.NoError(t, err)
	close(release)
	var refused atomic.Int64
	dbtest.Await(t, 20*time.Second, "the database to refuse results", func() bool {
		_, err := engine.NewRecorder(b.store).Record(t.Context(), taskID, []engine.Result{{Unit: db.Unit{ID: 1}, Status: db.RunFailed}})
		if errors.Is(err, db.ErrUnavailable) {
			refused.Add(1)
		}
		return refused.Load() > 20
	})
	_, err = b.tables.Exec(`SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only`)
	require.NoError(t, err)
	_, err = b.tables.Exec(reconnect)
	require.NoError(t, err)
	task := b.awaitEnd(t, taskID, 60*time.Second)
	b.requireComplete(t, task)
	statistics := b.statistics(t, taskID)
	require.Equal(t, 10, statistics.Succeeded)
	require.Len(t, fake.Calls(), 10, "no call was made twice")
}

// Of workers that claim at once each gets a moment of its own at the agent.
func TestNoMomentOfAnAgentIsGivenTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const interval = 25 * time.Millisecond
	var calls []db.Call
	for range 2 {
		_, launchID := b.task(t, "http://127.0.0.1:9", 10, func(n *db.NewTask) { n.Launch.Targets[0].CallInterval = interval })
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

// requireNoneEarly checks that calls kept a rate limit. A call may arrive late on a busy machine, so that the next one
// follows it closely; none may arrive before its slot. The tenth of an interval is the clocks' rounding.
func requireNoneEarly(t *testing.T, started time.Time, moments []time.Time, interval time.Duration) {
	t.Helper()
	for n, moment := range moments {
		require.Greater(t, moment.Sub(started), time.Duration(n)*interval-interval/10, "call %d", n)
	}
}

// A further attempt needs a unit that is still the worker's and a launch that runs.
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
	_, err = b.store.StopTask(t.Context(), project.AllProjects(), taskID, db.Actor{})
	require.NoError(t, err)
	_, _, err = b.store.ReserveCall(t.Context(), call, units[1])
	require.ErrorIs(t, err, db.ErrConflict, "stopped")
}

// A claim is committed, but its reply is lost: the worker does not know that it holds the units, and gives them
// back.
func TestUnitsOfAClaimWhoseReplyWasLostAreRunAllTheSame(t *testing.T) {
	t.Parallel()
	server, err := embedded.StartPostgres(t.Context(), dbtest.Folder(t)+"/postgres")
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	proxy := dbtest.NewProxy(t, server.URL())
	b := newBenchAt(t, server.URL(), dbtest.Redis(t))
	direct := b.store
	b.store, err = db.Open(t.Context(), proxy.URL(), 5)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.store.Close() })
	fake := agenttest.New(t, answer)
	b.startWorker(t, 2)
	b.store = direct
	taskID, launchID := b.task(t, fake.URL, 4, nil)
	cut := make(chan bool, 1)
	go func() {
		cut <- proxy.Spring(dbtest.Trap{Words: "FOR UPDATE SKIP LOCKED", Next: &dbtest.Trap{Words: "COMMIT", Pass: true}})
	}()
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	require.True(t, <-cut)
	b.requireComplete(t, b.awaitEnd(t, taskID, 15*time.Second))
	require.Len(t, fake.Calls(), 20)
}

// After an outage every beat is old: a worker that is back first does not take the others' units before they
// had the time to beat.
func TestAfterAnOutageOthersGetTimeToComeBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, launchID := b.task(t, "http://127.0.0.1:9", 1, nil)
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	other := uuid.New()
	held := b.claim(t, launchID, b.beat(t, other), 5)
	require.Len(t, held, 5)
	lead, err := b.tables.Connx(t.Context()) // nobody else leads in the meantime
	require.NoError(t, err)
	defer lead.Close()
	_, err = lead.ExecContext(t.Context(), `SELECT pg_advisory_lock($1)`, int64(0x77656e64696e67))
	require.NoError(t, err)
	b.startWorker(t, 1)
	isBack := func() (is bool) {
		require.NoError(t, b.tables.Get(&is, `SELECT count(*) = 1 FROM workers WHERE id <> $1 AND beat_at > now() - interval '2 seconds'`, other))
		return is
	}
	dbtest.Await(t, 5*time.Second, "the worker's first beat", isBack)
	_, err = b.tables.Exec(`UPDATE workers SET beat_at = now() - interval '22 seconds'`)
	require.NoError(t, err)
	dbtest.Await(t, 5*time.Second, "the worker's beat after the outage", isBack)
	var first, next time.Time
	const beatAt = `SELECT beat_at FROM workers WHERE id <> $1`
	require.NoError(t, b.tables.Get(&first, beatAt, other))
	dbtest.Await(t, 5*time.Second, "its next beat, by when it has taken note of the outage", func() bool {
		require.NoError(t, b.tables.Get(&next, beatAt, other))
		return next.After(first)
	})
	_, err = lead.ExecContext(t.Context(), `SELECT pg_advisory_unlock($1)`, int64(0x77656e64696e67))
	require.NoError(t, err)
	keepsAll := func() bool {
		var units int
		require.NoError(t, b.tables.Get(&units, `SELECT count(*) FROM units WHERE worker_id = $1 AND state = 'RUNNING'`, other))
		return units == 5
	}
	dbtest.Hold(t, 2*time.Second, "the units stay with who holds them", keepsAll)
	dbtest.Hold(t, 4*time.Second, "the units stay with who is back", func() bool { b.beat(t, other); return keepsAll() })
}
