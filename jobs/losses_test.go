package jobs_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/pg/embedded"
	"wending/jobs"
	"wending/jobs/agent"
	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/guard"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// A panic in a job, here because there is no sealer, is reported and affects neither the process nor other jobs.
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
	worker := jobs.NewWorker(jobs.WorkerConfig{DrainTime: 30 * time.Second, Lanes: 2,
		Store: b.store, Queue: queue, Agents: agent.NewClient(guard, ""),
		Sealer:  nil,
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

// A worker that is stopped before its first heartbeat reports no error.
func TestAWorkerMayBeToldToEndAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 5 {
		stop := b.startWorker(t, 1)
		stop()
	}
}

func TestALostWakeUpIsMadeUpFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	taskID, _ := b.task(t, fake.URL, 5, nil) // no worker is woken for it
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
	// The dead worker returns with its answer.
	require.False(t, b.record(t, taskID, engine.Result{Unit: units[0], Status: db.RunSucceeded, Response: []byte("late"),
		Attempts: 1}), "a late result is thrown away")
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
		lost, err := b.store.RequeueLostUnits(t.Context(), evaluate.JudgeUnrated)
		require.NoError(t, err)
		require.Equal(t, 1, lost)
	}
	finished, err := tasks.FinishLaunch(t.Context(), b.store, launchID)
	require.NoError(t, err)
	require.True(t, finished)
	finished, err = tasks.FinishLaunch(t.Context(), b.store, launchID)
	require.NoError(t, err)
	require.False(t, finished, "a launch is finished once")
	task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
	require.NoError(t, err)
	b.requireComplete(t, task)
	var run struct {
		Code   string `db:"error_code"`
		UnitID int64  `db:"unit_id"`
		Trace  string `db:"trace_id"`
	}
	require.NoError(t, b.tables.Get(&run, `SELECT error_code, unit_id, trace_id FROM evaluation_runs`))
	require.Equal(t, db.WorkerLostCode, run.Code)
	require.Equal(t, tasks.TraceID(run.UnitID, tasks.IdempotencyKey(launchID, run.UnitID, db.Item{})), run.Trace)
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

// A worker that was silent for too long may neither claim nor enter a lane under its old lease.
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

// The answer of a worker that was presumed dead is refused while another worker runs the unit.
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
	lost, err := b.store.RequeueLostUnits(t.Context(), evaluate.JudgeUnrated)
	require.NoError(t, err)
	require.Equal(t, 1, lost)
	current := b.claim(t, launchID, b.beat(t, uuid.New()), 1)
	require.Len(t, current, 1)
	require.False(t, b.record(t, taskID, engine.Result{Unit: old[0], Status: db.RunSucceeded, Response: []byte("late"),
		Attempts: 1}))
	require.True(t,
		b.record(t, taskID, engine.Result{Unit: current[0], Status: db.RunSucceeded, Response: []byte("current"),
			Attempts: 1}))
	var text string
	require.NoError(t, b.tables.Get(&text, `SELECT response_body FROM evaluation_runs`))
	require.Equal(t, "current", text)
}

// The database is unavailable for longer than it takes to presume a worker dead: answers that arrive in the
// meantime are kept and stored, and no worker loses its units.
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
	time.Sleep(db.WorkerDeadAfter + 2*time.Second) // the sleep is the length of the outage
	server, err = embedded.StartPostgres(t.Context(), dir)
	require.NoError(t, err)
	b.requireComplete(t, b.awaitEnd(t, taskID, 60*time.Second))
	require.Len(t, fake.Calls(), 20, "no call was made twice")
}

// Redis only wakes workers: without it, tasks start, run and end, within their concurrency.
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
		time.Sleep(20 * time.Millisecond) // the agent's latency
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

// No answer is lost while the database refuses writes (read-only after a failover).
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
		_, err := engine.NewRecorder(b.store).Record(t.Context(), taskID,
			[]engine.Result{{Unit: db.Unit{ID: 1}, Status: db.RunFailed}})
		if errors.Is(err, db.ErrUnavailable) {
			refused.Add(1)
		}
		return refused.Load() > 20
	})
	_, err = b.tables.Exec(
		`SET default_transaction_read_only = off; ALTER DATABASE postgres RESET default_transaction_read_only`)
	require.NoError(t, err)
	_, err = b.tables.Exec(reconnect)
	require.NoError(t, err)
	task := b.awaitEnd(t, taskID, 60*time.Second)
	b.requireComplete(t, task)
	statistics := b.statistics(t, taskID)
	require.Equal(t, 10, statistics.Succeeded)
	require.Len(t, fake.Calls(), 10, "no call was made twice")
}

// If a claim is committed but its reply is lost, the worker does not know its units: it finds them in the database, and
// returns them.
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
		commit := dbtest.Trap{Words: "COMMIT", Pass: true}
		cut <- proxy.Spring(dbtest.Trap{Words: "FOR UPDATE SKIP LOCKED", Next: &commit}, time.Minute)
	}()
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	require.True(t, <-cut)
	b.requireComplete(t, b.awaitEnd(t, taskID, 15*time.Second))
	require.Len(t, fake.Calls(), 20)
}

// After an outage every heartbeat is stale: the first worker to return must not take the others' units before they
// have had time to send one.
func TestAfterAnOutageOthersGetTimeToComeBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, launchID := b.task(t, "http://127.0.0.1:9", 1, nil)
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	other := uuid.New()
	held := b.claim(t, launchID, b.beat(t, other), 5)
	require.Len(t, held, 5)
	lead, err := b.tables.Connx(t.Context()) // no other process leads in the meantime
	require.NoError(t, err)
	defer lead.Close()
	_, err = lead.ExecContext(t.Context(), `SELECT pg_advisory_lock($1)`, int64(0x77656e64696e67))
	require.NoError(t, err)
	b.startWorker(t, 1)
	isBack := func() (is bool) {
		require.NoError(t,
			b.tables.Get(&is, `SELECT count(*) = 1 FROM workers WHERE id <> $1 AND beat_at > now() - interval '2 seconds'`,
				other))
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
		require.NoError(t, b.tables.Get(&units, `SELECT count(*) FROM units WHERE worker_id = $1 AND state = 'RUNNING'`,
			other))
		return units == 5
	}
	dbtest.Hold(t, 2*time.Second, "the units stay with who holds them", keepsAll)
	dbtest.Hold(t, 4*time.Second, "the units stay with who is back", func() bool { b.beat(t, other); return keepsAll() })
}
