// Package jobs runs launches: asynq jobs wake workers, and the database decides what the workers do.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/trace"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/agent"
	"wending/jobs/crew"
	"wending/jobs/secret"
)

// Worker runs launches: it starts them, calls agents, records their answers, and takes over when another worker
// dies.
type Worker struct {
	WorkerConfig
	id uuid.UUID
	// leaving is closed when no further unit may be claimed.
	leaving chan struct{}
	// calls is the context of calls: it ends when calls in flight must be cut off.
	calls    context.Context
	cutCalls context.CancelFunc

	holdings  *crew.Holdings
	crews     *crew.Crews
	scribe    *crew.Scribe
	heartbeat atomic.Pointer[heartbeat]
	// starting are the launches that this worker is about to start.
	starting sync.Map // uuid.UUID → true
	// slots limits concurrent lanes. own tracks the lanes that this worker started itself, without a job.
	slots chan struct{}
	ownMu sync.Mutex // prevents lanes from starting once the worker is shutting down
	own   sync.WaitGroup
	// tidied is when this worker, as leader, last did non-urgent work; only reconcile uses it.
	tidied time.Time
	// aside runs potentially slow work alongside reconcile; isAside keeps it from running twice at once.
	aside   sync.WaitGroup
	isAside atomic.Bool
	// isAssessing keeps ended tasks from being assessed twice at once; atWork does the same for each of the Chores.
	isAssessing atomic.Bool
	atWork      []atomic.Bool
	// doneAt is when each of the Chores last began; only reconcile uses it.
	doneAt []time.Time
}

// heartbeat is the result of the last successful heartbeat.
type heartbeat struct {
	lease db.Lease
	at    time.Time
	// othersCaughtUpAt is the time by which, after a database outage, the other workers have had time to send a heartbeat,
	// too.
	othersCaughtUpAt time.Time
}

// Chore is recurring work. It may briefly run in two processes at once, when another process becomes the leader.
type Chore struct {
	// Name names the work in the log.
	Name string
	Do   func(ctx context.Context) error
	// Every is the interval between rounds of the work; 0 means one second.
	Every time.Duration
}

// WorkerConfig holds the configuration and dependencies of a Worker.
type WorkerConfig struct {
	// Lanes is the maximum number of lanes that run at once.
	Lanes int
	Store *db.Store
	Queue *Queue
	// Agents calls agents and Models calls models: the rules for allowed addresses differ.
	Agents  *agent.Client
	Models  *agent.Client
	Sealer  *secret.Sealer
	Metrics *Metrics
	// Tracer exports spans of calls; nil means that calls are not traced.
	Tracer trace.Tracer
	// Chores are the recurring work that one worker does for all.
	Chores []Chore
	// Admits reports whether a launch may begin; nil means that all launches may.
	Admits func(ctx context.Context, launchID uuid.UUID) (bool, error)
	// MaxActiveTasks is the maximum number of tasks that run at once; zero means no limit.
	MaxActiveTasks int
	// SensitivePatterns match texts that must not be sent, in projects without patterns of their own
	// (people.ParsePattern).
	SensitivePatterns []string
	// KeepHistory is how long replaced runs and units of finished tasks are kept; zero means permanently.
	KeepHistory time.Duration
	// AssetURL returns an address on this site from which an agent can fetch a task's file until the given time; nil if
	// the site's own address is unknown.
	AssetURL func(taskID, assetID uuid.UUID, until time.Time) string
	// DrainTime is how long a worker that is shutting down lets calls in flight finish.
	DrainTime time.Duration
	// Report reports an internal error, with tags for its context, to the operators; nil means errors are only logged.
	Report func(err error, tags map[string]string)
	Log    *slog.Logger
}

// NewWorker returns a worker with a new identity.
func NewWorker(config WorkerConfig) *Worker {
	w := &Worker{
		WorkerConfig: config, id: uuid.New(), leaving: make(chan struct{}), holdings: crew.NewHoldings(),
		slots: make(chan struct{}, config.Lanes), atWork: make([]atomic.Bool, len(config.Chores)),
		doneAt: make([]time.Time, len(config.Chores)),
	}
	if w.Report == nil {
		w.Report = func(error, map[string]string) {}
	}
	w.Log = config.Log.With("worker_id", w.id)
	w.calls, w.cutCalls = context.WithCancel(context.Background())
	w.scribe = crew.NewScribe(engine.NewJournal(w.Store), w.Log)
	w.crews = crew.New(crew.Config{
		Scribe: w.scribe, AssetURL: w.AssetURL, Store: w.Store, Agents: w.Agents, Models: w.Models, Holdings: w.holdings,
		Observer: w.Metrics, Tracer: w.Tracer, Leaving: w.leaving, Calls: w.calls,
		Report: func(err error) { w.report(err) }, Log: w.Log,
	})
	return w
}

// Run works until ctx ends, then shuts down in order: it claims no more units, lets calls in flight finish for up to
// DrainTime, and returns the remaining units to the queue.
func (w *Worker) Run(ctx context.Context) error { //nolint:contextcheck // the work that it ends outlives ctx
	defer w.cutCalls()
	if err := w.beat(ctx); err != nil && ctx.Err() == nil {
		return err
	} else if err != nil { // stopped before it began, so there is nothing to return
		return nil
	}
	evaluation, control := w.server(QueueEvaluation, w.Lanes), w.server(QueueControl, 4)
	evaluationJobs, controlJobs := asynq.NewServeMux(), asynq.NewServeMux()
	evaluationJobs.HandleFunc(kindLane, w.workLane)
	controlJobs.HandleFunc(kindLaunch, w.workLaunch)
	if err := evaluation.Start(evaluationJobs); err != nil {
		return fmt.Errorf("start the lanes: %w", err)
	}
	if err := control.Start(controlJobs); err != nil {
		evaluation.Shutdown()
		return fmt.Errorf("start the control jobs: %w", err)
	}
	w.Log.InfoContext(ctx, "worker started", "lanes", w.Lanes)

	// Heartbeats continue until the last call has ended; otherwise its unit would be requeued in the meantime.
	alive, die := context.WithCancel(context.Background())
	defer die()
	var background sync.WaitGroup
	background.Go(func() { w.every(alive, db.BeatEvery, "heartbeat failed, will retry", w.beat) })
	background.Go(func() { w.every(alive, time.Second, "maintenance failed, will retry", w.maintain) })
	background.Go(func() { w.takeLaunches(ctx) })
	background.Go(func() { w.scribe.Run(alive) })

	<-ctx.Done()
	w.ownMu.Lock()
	close(w.leaving)
	w.ownMu.Unlock()
	cut := time.AfterFunc(w.DrainTime, w.cutCalls)
	defer cut.Stop()
	var servers sync.WaitGroup
	servers.Go(evaluation.Shutdown)
	servers.Go(control.Shutdown)
	servers.Go(w.own.Wait)
	servers.Wait()
	die()
	background.Wait()
	w.aside.Wait()
	return w.leave() //nolint:contextcheck // after ctx has ended
}

// leave returns the units that the worker still holds and removes it from the list of workers.
func (w *Worker) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	released, err := w.Store.ReleaseUnits(ctx, w.id)
	if err == nil {
		err = engine.NewPresence(w.Store).Remove(ctx, w.id)
	}
	if err != nil {
		w.Log.ErrorContext(ctx, "worker not signed off, other workers will requeue its units", "error", err)
		return err
	}
	w.Log.InfoContext(ctx, "worker stopped", "units_returned", released)
	return nil
}

func (w *Worker) server(queue string, concurrency int) *asynq.Server {
	return asynq.NewServer(w.Queue.redis, asynq.Config{
		Concurrency:       concurrency,
		Queues:            map[string]int{queue: 1},
		TaskCheckInterval: 100 * time.Millisecond, // at 25 ms, an idle program took 8 % of a processor
		ShutdownTimeout:   w.DrainTime + 5*time.Second,
		Logger:            asynqLogger{w.Log.With("queue", queue)},
		LogLevel:          asynq.WarnLevel,
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, job *asynq.Task, err error) {
			w.Log.WarnContext(ctx, "job failed, reconcile will retry it", "kind", job.Type(), "payload", string(job.Payload()),
				"error", err)
			if !errors.Is(err, db.ErrUnavailable) && !errors.Is(err, context.Canceled) {
				w.report(err, "kind", job.Type())
			}
		}),
	})
}

// report reports an internal error to the operators; tags are alternating names and values.
func (w *Worker) report(err error, tags ...string) {
	named := map[string]string{"worker_id": w.id.String()}
	for n := 0; n+1 < len(tags); n += 2 {
		named[tags[n]] = tags[n+1]
	}
	w.Report(err, named)
}

// contain runs work and turns a panic into an error, which it logs and reports.
func (w *Worker) contain(doing string, work func() error) error {
	return crew.Contain(w.Log, func(err error) { w.report(err) }, doing, work)
}

func (w *Worker) isLeaving() bool {
	select {
	case <-w.leaving:
		return true
	default:
		return false
	}
}

// every runs work at an interval until ctx ends. A failure is logged with the message complaint and retried at the
// next tick.
func (w *Worker) every(ctx context.Context, interval time.Duration, complaint string,
	work func(context.Context) error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := w.contain("periodic work", func() error { return work(ctx) })
		if err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, complaint, "error", err)
		}
	}
}

// beat sends a heartbeat. It has its own goroutine, so that nothing can delay it.
func (w *Worker) beat(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	asked := time.Now()
	lease, gap, err := engine.NewPresence(w.Store).Beat(ctx,
		engine.Worker{ID: w.id, Host: host, ProcessID: os.Getpid(), Lanes: w.Lanes})
	if err != nil {
		return err
	}
	next := &heartbeat{lease: lease, at: asked}
	if last := w.heartbeat.Load(); last != nil {
		next.othersCaughtUpAt = last.othersCaughtUpAt
	}
	if gap > 5*db.BeatEvery {
		next.othersCaughtUpAt = time.Now().Add(5 * db.BeatEvery)
		w.Log.WarnContext(ctx, "heartbeat late, giving other workers time to catch up", "gap_seconds", gap.Seconds())
	}
	w.heartbeat.Store(next)
	return nil
}

// canJudgeOthers reports whether this worker may declare others dead. After a database outage every heartbeat is
// stale, so this worker must first send one itself and give the others time to catch up.
func (w *Worker) canJudgeOthers() bool {
	last := w.heartbeat.Load()
	return time.Since(last.at) < 2*db.BeatEvery && time.Now().After(last.othersCaughtUpAt)
}

func (w *Worker) currentLease() db.Lease { return w.heartbeat.Load().lease }

// maintain returns units claimed in lost transactions and, if no other worker does, reconciles. It runs once a
// second until shutdown.
func (w *Worker) maintain(ctx context.Context) error {
	released, err := w.holdings.ReleaseStrays(ctx, w.Store, w.id)
	if err != nil {
		return err
	}
	if released > 0 {
		w.Log.WarnContext(ctx, "units from a lost claim returned to the queue", "units", released)
	}
	if w.isLeaving() || !w.canJudgeOthers() {
		return nil
	}
	return w.lead(ctx)
}

// asynqLogger passes asynq's messages to slog.
type asynqLogger struct{ log *slog.Logger }

func (l asynqLogger) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...)) }
func (l asynqLogger) Info(args ...any)  { l.log.Info(fmt.Sprint(args...)) }
func (l asynqLogger) Warn(args ...any)  { l.log.Warn(fmt.Sprint(args...)) }
func (l asynqLogger) Error(args ...any) {
	l.log.Warn("the queue reports a failure, launches continue without it", "error", fmt.Sprint(args...))
}
func (l asynqLogger) Fatal(args ...any) { l.log.Error(fmt.Sprint(args...)) }
