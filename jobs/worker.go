package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"wending/db"
	"wending/jobs/agent"
)

// Worker runs launches: it starts them, asks agents, stores what they answer, and helps where another
// worker died.
type Worker struct {
	id      uuid.UUID
	lanes   int
	store   *db.Store
	queue   *Queue
	agents  *agent.Client
	sealer  *agent.Sealer
	metrics *Metrics
	log     *slog.Logger

	// leaving is closed when no further unit may be claimed.
	leaving chan struct{}
	// calls ends when calls in flight must be given up.
	calls    context.Context
	cutCalls context.CancelFunc

	// held and heldLanes have what this worker runs; claiming keeps claims out while they are compared with
	// the database.
	held          sync.Map // unit id → nothing
	heldLanes     sync.Map // lane id → nothing
	claiming      sync.RWMutex
	mayHaveStrays atomic.Bool
}

// WorkerConfig is what a Worker is made from.
type WorkerConfig struct {
	// Lanes is how many lanes run at once.
	Lanes   int
	Store   *db.Store
	Queue   *Queue
	Agents  *agent.Client
	Sealer  *agent.Sealer
	Metrics *Metrics
	Log     *slog.Logger
}

// drainTime is how long a leaving worker lets calls in flight finish.
const drainTime = 30 * time.Second

// NewWorker returns a worker with a new identity.
func NewWorker(config WorkerConfig) *Worker {
	w := &Worker{id: uuid.New(), lanes: config.Lanes, store: config.Store, queue: config.Queue, agents: config.Agents,
		sealer: config.Sealer, metrics: config.Metrics, leaving: make(chan struct{})}
	w.log = config.Log.With("worker_id", w.id)
	w.calls, w.cutCalls = context.WithCancel(context.Background())
	return w
}

// Run works until ctx ends, then leaves in order: it claims no more, lets the calls in flight finish for
// up to 30 s, and gives the rest back.
func (w *Worker) Run(ctx context.Context) error {
	defer w.cutCalls()
	if _, err := w.beat(ctx); err != nil {
		return err
	}
	evaluation, control := w.server(QueueEvaluation, w.lanes), w.server(QueueControl, 4)
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
	w.log.InfoContext(ctx, "worker started", "lanes", w.lanes)

	// The heart beats until the last call has ended, or its units would be taken away meanwhile.
	alive, die := context.WithCancel(context.Background())
	defer die()
	var heart sync.WaitGroup
	heart.Go(func() { w.live(alive) })

	<-ctx.Done()
	close(w.leaving)
	cut := time.AfterFunc(drainTime, w.cutCalls)
	defer cut.Stop()
	var servers sync.WaitGroup
	servers.Go(evaluation.Shutdown)
	servers.Go(control.Shutdown)
	servers.Wait()
	die()
	heart.Wait()
	return w.leave()
}

// leave gives back what the worker still holds and takes its name from the list.
func (w *Worker) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	released, err := w.store.ReleaseUnits(ctx, w.id)
	if err == nil {
		err = w.store.RemoveWorker(ctx, w.id)
	}
	w.log.InfoContext(ctx, "worker left", "units_given_back", released, "error", err)
	return err
}

func (w *Worker) server(queue string, concurrency int) *asynq.Server {
	return asynq.NewServer(w.queue.redis, asynq.Config{
		Concurrency:       concurrency,
		Queues:            map[string]int{queue: 1},
		TaskCheckInterval: 100 * time.Millisecond,
		ShutdownTimeout:   drainTime + 5*time.Second,
		Logger:            asynqLogger{w.log.With("queue", queue)},
		LogLevel:          asynq.WarnLevel,
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, job *asynq.Task, err error) {
			w.log.WarnContext(ctx, "job failed; reconcile takes it up", "kind", job.Type(), "payload", string(job.Payload()), "error", err)
		}),
	})
}

func (w *Worker) isLeaving() bool {
	select {
	case <-w.leaving:
		return true
	default:
		return false
	}
}

// pause waits, and returns false when the worker leaves meanwhile.
func (w *Worker) pause(wait time.Duration) bool {
	if wait <= 0 {
		return !w.isLeaving()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.leaving:
		return false
	case <-timer.C:
		return true
	}
}

// live beats every second and, while the worker does not leave, looks after what was lost.
func (w *Worker) live(ctx context.Context) {
	tick := time.NewTicker(db.BeatEvery)
	defer tick.Stop()
	var steadyFrom, tidied time.Time
	for {
		since, err := w.beat(ctx)
		if since > 5*db.BeatEvery {
			// The database or this machine was away. The others' beats are as old as this one was: give them
			// time to come back before their units are taken.
			steadyFrom = time.Now().Add(5 * db.BeatEvery)
		}
		if err == nil {
			err = w.releaseStrays(ctx)
		}
		if err == nil && !w.isLeaving() && time.Now().After(steadyFrom) {
			err = w.lead(ctx, &tidied)
		}
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "round of the worker failed; it comes again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Worker) beat(ctx context.Context) (since time.Duration, err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return w.store.Beat(ctx, db.Worker{ID: w.id, Host: host, ProcessID: os.Getpid(), Lanes: w.lanes})
}

// releaseStrays gives back what was got in a transaction whose reply was lost.
func (w *Worker) releaseStrays(ctx context.Context) error {
	if !w.mayHaveStrays.Swap(false) {
		return nil
	}
	w.claiming.Lock()
	defer w.claiming.Unlock()
	var units []int64
	w.held.Range(func(id, _ any) bool {
		units = append(units, id.(int64))
		return true
	})
	var lanes []uuid.UUID
	w.heldLanes.Range(func(id, _ any) bool {
		lanes = append(lanes, id.(uuid.UUID))
		return true
	})
	released, err := w.store.ReleaseStrays(ctx, w.id, units, lanes)
	if err != nil {
		w.mayHaveStrays.Store(true)
		return err
	}
	if released > 0 {
		w.log.WarnContext(ctx, "units claimed without an answer given back", "units", released)
	}
	return nil
}

// asynqLogger hands asynq's messages to slog.
type asynqLogger struct{ log *slog.Logger }

func (l asynqLogger) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...)) }
func (l asynqLogger) Info(args ...any)  { l.log.Info(fmt.Sprint(args...)) }
func (l asynqLogger) Warn(args ...any)  { l.log.Warn(fmt.Sprint(args...)) }
func (l asynqLogger) Error(args ...any) { l.log.Error(fmt.Sprint(args...)) }
func (l asynqLogger) Fatal(args ...any) { l.log.Error(fmt.Sprint(args...)) }
