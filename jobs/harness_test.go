package jobs_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/jobs"
	"wending/jobs/agent"
	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/guard"
	"wending/jobs/secret"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// bench is a database, a Redis and any number of workers.
type bench struct {
	store     *db.Store
	tables    *sqlx.DB
	queue     *jobs.Queue
	redis     string
	sealer    *secret.Sealer
	maxActive int // how many tasks its workers run at once; 0 means no limit
	tracer    trace.Tracer
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

// startWorker runs a worker until the test ends or stop is called; stop returns once the worker has left.
func (b *bench) startWorker(t testing.TB, lanes int) (stop func()) {
	t.Helper()
	guard, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	queue := b.newQueue(t)
	worker := jobs.NewWorker(jobs.WorkerConfig{DrainTime: 30 * time.Second, Lanes: lanes,
		MaxActiveTasks: b.maxActive, Tracer: b.tracer, Store: b.store, Queue: queue,
		Agents: agent.NewClient(guard, ""), Models: agent.NewClient(guard, ""),
		Sealer: b.sealer, Metrics: jobs.NewMetrics(prometheus.NewRegistry(), queue),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
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

// task stores a task with the given number of questions; change may modify it.
func (b *bench) task(t testing.TB, url string, questions int, change func(*db.NewTask)) (taskID, launchID uuid.UUID) {
	t.Helper()
	n := db.NewTask{
		Task: db.Task{ID: uuid.New(), ProjectID: db.DefaultProject, Name: "任务", Targets: dbtest.Targets(url),
			Variants: dbtest.Variants(), RunsPerItem: 5, TimeoutSeconds: 10, UseStream: true, Concurrency: 8,
			DatasetName: "q.csv", DatasetExtension: "csv"},
		Launch: &db.NewLaunch{Targets: dbtest.Limits(url)},
	}
	n.Task.Targets[0].TaskID = n.Task.ID
	for i := range questions {
		n.Items = append(n.Items, db.NewItem{QuestionID: fmt.Sprintf("q%04d", i+1), Question: fmt.Sprintf("question %d", i+1),
			StandardAnswer: "a"})
	}
	if change != nil {
		change(&n)
	}
	launchID, err := b.store.CreateTask(t.Context(), n)
	require.NoError(t, err)
	return n.Task.ID, launchID
}

// beat sends a heartbeat for a worker without a process.
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

// claim claims units for a worker without a process.
func (b *bench) claim(t testing.TB, launchID uuid.UUID, lease db.Lease, want int) []db.Unit {
	t.Helper()
	call, err := b.store.LaunchCall(t.Context(), launchID)
	require.NoError(t, err)
	claim, err := b.store.ClaimUnits(t.Context(), call, lease, wants(want))
	require.NoError(t, err)
	return claim.Units
}

// wants returns the claim of a plain task for a number of units.
func wants(units int) []db.Want {
	return []db.Want{{Target: 1, Units: units, Horizon: db.RateHorizon}}
}

// record records a result for a worker without a process.
func (b *bench) record(t testing.TB, taskID uuid.UUID, result engine.Result) (accepted bool) {
	t.Helper()
	refused, err := engine.NewRecorder(b.store).Record(t.Context(), taskID, []engine.Result{result})
	require.NoError(t, err)
	return len(refused) == 0
}

func (b *bench) statistics(t testing.TB, taskID uuid.UUID) db.TaskStatistics {
	t.Helper()
	task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
	require.NoError(t, err)
	statistics, err := b.store.TaskStatistics(t.Context(), task)
	require.NoError(t, err)
	return statistics
}

func (b *bench) awaitEnd(t testing.TB, taskID uuid.UUID, within time.Duration) db.Task {
	t.Helper()
	dbtest.Await(t, within, "the task's end", func() bool {
		var status db.TaskStatus // only the status, because benchmarks must not measure the counting of progress
		require.NoError(t, b.tables.Get(&status, `SELECT status FROM evaluation_tasks WHERE id = $1`, taskID))
		return !status.IsActive()
	})
	task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
	require.NoError(t, err)
	return task
}

// requireComplete checks that every question has all its runs, each exactly once and under the unit's epoch.
func (b *bench) requireComplete(t testing.TB, task db.Task) {
	t.Helper()
	var counts struct {
		Runs, Distinct, Stale, Open int
	}
	require.NoError(t, b.tables.Get(&counts,
		`SELECT count(*) AS runs, count(DISTINCT (r.item_id, r.variant, r.run_index)) AS distinct,
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
