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
	held          sync.Map // unit id → epoch
	heldLanes     sync.Map // lane id → nothing
	claiming      sync.RWMutex
	mayHaveStrays atomic.Bool
	pulse         atomic.Pointer[pulse]
	// slots has an entry for each lane at work, at most as many as lanes; own are those that no job began.
	slots chan struct{}
	ownMu sync.Mutex // keeps them from beginning while the worker begins to leave
	own   sync.WaitGroup
	// crews are the launches that this worker's lanes work on.
	crewsMu sync.Mutex
	crews   map[uuid.UUID]*crew
	// othersWait says that jobs wait for a lane to become free.
	othersWait atomic.Bool
	isWaking   atomic.Bool
	// keepHistory is how long the history of finished tasks is kept; zero: for good.
	keepHistory time.Duration
}

// pulse is what the last beat that the database took told.
type pulse struct {
	lease db.Lease
	at    time.Time
	// steadyFrom is when the others have had the time to beat as well, after the database was away.
	steadyFrom time.Time
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
	// KeepHistory is how long replaced runs and units of finished tasks are kept; zero: for good.
	KeepHistory time.Duration
	Log         *slog.Logger
}

// drainTime is how long a leaving worker lets calls in flight finish.
const drainTime = 30 * time.Second

// NewWorker returns a worker with a new identity.
func NewWorker(config WorkerConfig) *Worker {
	w := &Worker{id: uuid.New(), lanes: config.Lanes, store: config.Store, queue: config.Queue, agents: config.Agents,
		sealer: config.Sealer, metrics: config.Metrics, keepHistory: config.KeepHistory, leaving: make(chan struct{}),
		crews: map[uuid.UUID]*crew{}, slots: make(chan struct{}, config.Lanes)}
	w.log = config.Log.With("worker_id", w.id)
	w.calls, w.cutCalls = context.WithCancel(context.Background())
	return w
}

// Run works until ctx ends, then leaves in order: it claims no more, lets the calls in flight finish for
// up to 30 s, and gives the rest back.
func (w *Worker) Run(ctx context.Context) error {
	defer w.cutCalls()
	if err := w.beat(ctx); err != nil {
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
	heart.Go(func() { w.lookAfter(alive) })

	<-ctx.Done()
	w.ownMu.Lock()
	close(w.leaving)
	w.ownMu.Unlock()
	cut := time.AfterFunc(drainTime, w.cutCalls)
	defer cut.Stop()
	var servers sync.WaitGroup
	servers.Go(evaluation.Shutdown)
	servers.Go(control.Shutdown)
	servers.Go(w.own.Wait)
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
		TaskCheckInterval: 25 * time.Millisecond,
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

// live beats every second, and does nothing else: nothing may hold it up.
func (w *Worker) live(ctx context.Context) {
	tick := time.NewTicker(db.BeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.beat(ctx); err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "no sign of life given; it comes again", "error", err)
		}
	}
}

// lookAfter looks every second, while the worker does not leave, after what was lost.
func (w *Worker) lookAfter(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var tidied time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := w.releaseStrays(ctx)
		if err == nil && !w.isLeaving() && w.isSteady() {
			err = w.lead(ctx, &tidied)
		}
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "round of the worker failed; it comes again", "error", err)
		}
	}
}

func (w *Worker) beat(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	asked := time.Now()
	lease, since, err := w.store.Beat(ctx, db.Worker{ID: w.id, Host: host, ProcessID: os.Getpid(), Lanes: w.lanes})
	if err != nil {
		return err
	}
	next := &pulse{lease: lease, at: asked}
	if last := w.pulse.Load(); last != nil {
		next.steadyFrom = last.steadyFrom
	}
	if since > 5*db.BeatEvery {
		next.steadyFrom = time.Now().Add(5 * db.BeatEvery)
		w.log.WarnContext(ctx, "the worker was silent", "seconds", since.Seconds())
	}
	w.pulse.Store(next)
	return nil
}

// isSteady says whether the worker may judge that others are dead: it has just beaten itself, and the
// database was not away a moment ago. After an outage the others' beats are as old as its own were, and they
// get time to come back before their units are taken.
func (w *Worker) isSteady() bool {
	last := w.pulse.Load()
	return time.Since(last.at) < 2*db.BeatEvery && time.Now().After(last.steadyFrom)
}

func (w *Worker) currentLease() db.Lease { return w.pulse.Load().lease }

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
