package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"wending/db/engine"
	"wending/db/upkeep"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// tidyEvery is the interval at which work that is not urgent is done.
const tidyEvery = 5 * time.Second

// pruneFor is the maximum time that one round spends on pruning old history.
const pruneFor = 2 * time.Second

// lead recovers from lost wake-ups and lost workers, unless another worker is doing so.
func (w *Worker) lead(ctx context.Context) error {
	var launches []engine.ActiveLaunch
	led, err := engine.NewPresence(w.Store).AsLeader(ctx, func() (err error) {
		isTidying := time.Since(w.tidied) >= tidyEvery
		if isTidying {
			w.tidied = time.Now()
		}
		launches, err = w.reconcile(ctx, isTidying)
		return err
	})
	if err != nil || !led {
		launches = nil
	}
	// Pruning takes time, and Redis may be slow or unavailable: steps that only need the database do not wait for
	// either.
	if w.isAside.CompareAndSwap(false, true) {
		w.aside.Go(func() {
			defer w.isAside.Store(false)
			if err := w.contain("wake lanes", func() error {
				return w.pruneAndWake(ctx, launches)
			}); err != nil && ctx.Err() == nil {
				w.Log.WarnContext(ctx, "lanes not started, will retry", "error", err)
			}
		})
	}
	if w.isAssessing.CompareAndSwap(false, true) {
		w.aside.Go(func() {
			defer w.isAssessing.Store(false)
			if err := w.contain("assess tasks", func() error { return w.assessEnded(ctx) }); err != nil && ctx.Err() == nil {
				w.Log.WarnContext(ctx, "finished tasks not assessed, will retry", "error", err)
			}
		})
	}
	if led {
		w.doChores(ctx)
	}
	return err
}

// doChores starts the chores that are due and not running. Each runs in the background, because it may take long.
func (w *Worker) doChores(ctx context.Context) {
	for n, chore := range w.Chores {
		if time.Since(w.doneAt[n]) < chore.Every || !w.atWork[n].CompareAndSwap(false, true) {
			continue
		}
		w.doneAt[n] = time.Now()
		w.aside.Go(func() {
			defer w.atWork[n].Store(false)
			if err := w.contain(chore.Name, func() error { return chore.Do(ctx) }); err != nil && ctx.Err() == nil {
				w.Log.WarnContext(ctx, "could not "+chore.Name+", will retry", "error", err)
			}
		})
	}
}

// assessEnded assesses tasks that ended before all their questions were assessed, under an earlier version or
// because of an internal fault.
func (w *Worker) assessEnded(ctx context.Context) error {
	for found := true; found && !w.isLeaving(); {
		var err error
		if found, err = tasks.AssessEnded(ctx, w.Store); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) pruneAndWake(ctx context.Context, launches []engine.ActiveLaunch) error {
	if err := w.prune(ctx); err != nil && ctx.Err() == nil {
		w.Log.WarnContext(ctx, "history not pruned, will retry", "error", err)
	}
	err := w.wake(ctx, launches)
	if err != nil && ctx.Err() == nil {
		w.Log.WarnContext(ctx, "lanes not enqueued (Redis unavailable), starting them locally", "error", err)
		err = w.startLocally(ctx)
	}
	return err
}

// reconcile does one round in the database and returns the active launches. Every step brings the state closer to
// what it should be, so an interrupted round, or two rounds at once, do no harm.
func (w *Worker) reconcile(ctx context.Context, isTidying bool) ([]engine.ActiveLaunch, error) {
	lost, err := w.Store.RequeueLostUnits(ctx, evaluate.JudgeUnrated)
	if err != nil {
		return nil, err
	}
	if lost > 0 {
		w.Metrics.lostUnits.Add(float64(lost))
		w.Log.WarnContext(ctx, "units of dead workers returned to the queue", "units", lost)
	}
	if err := w.Store.CutStopped(ctx); err != nil {
		return nil, err
	}
	if isTidying {
		if err := engine.NewPresence(w.Store).RemoveDead(ctx); err != nil {
			return nil, err
		}
	}
	launches, err := engine.NewLanes(w.Store).ActiveLaunches(ctx)
	if err != nil {
		return nil, err
	}
	for _, launch := range launches {
		if launch.IsDone {
			if err := w.finish(ctx, launch.TaskID, launch.ID); err != nil {
				return nil, err
			}
		}
	}
	return launches, nil
}

// prune removes old history until none is left or pruneFor has passed.
func (w *Worker) prune(ctx context.Context) error {
	if w.KeepHistory == 0 {
		return nil
	}
	for end := time.Now().Add(pruneFor); time.Now().Before(end); {
		removed, found, err := upkeep.New(w.Store).Prune(ctx, w.KeepHistory)
		if err != nil || !found {
			return err
		}
		w.Log.InfoContext(ctx, "history of a finished task pruned", "rows", removed)
	}
	return nil
}

// wake enqueues launches whose wake-up was lost, and lanes for launches that have too few.
func (w *Worker) wake(ctx context.Context, launches []engine.ActiveLaunch) error {
	running, err := w.Queue.waiting(QueueEvaluation)
	if err != nil {
		return err
	}
	var starting map[uuid.UUID]int // read only when needed
	for _, launch := range launches {
		switch {
		case launch.IsDone:
		case !launch.Started:
			if starting == nil {
				if starting, err = w.Queue.waiting(QueueControl); err != nil {
					return err
				}
			}
			if starting[launch.ID] == 0 {
				if err := w.Queue.EnqueueLaunch(ctx, launch.ID); err != nil {
					return err
				}
			}
		case launch.WantedLanes > 0:
			if err := w.Queue.EnqueueLanes(ctx, launch.ID, launch.WantedLanes-running[launch.ID]); err != nil {
				return err
			}
		}
	}
	return nil
}

// startLocally replaces Redis wake-ups while Redis is unavailable: it starts launches and lanes in this process, as
// long as slots are free. The database limits the lanes of a launch, regardless of the process that starts them.
func (w *Worker) startLocally(ctx context.Context) error {
	launches, err := engine.NewLanes(w.Store).ActiveLaunches(ctx)
	if err != nil {
		return err
	}
	for _, launch := range launches {
		if !launch.Started {
			if err := w.startLaunch(ctx, launch.ID); err != nil {
				w.Log.WarnContext(ctx, "launch not started, will retry", "task_id", launch.TaskID,
					"launch_id", launch.ID, "error", err)
			}
		}
		l, err := w.readLaunch(ctx, launch.ID)
		if errors.Is(err, tasks.ErrForeignKey) {
			w.Log.ErrorContext(ctx, "launch not started, leaving it to other workers", "task_id", launch.TaskID,
				"launch_id", launch.ID, "error", err)
			continue
		}
		if err != nil {
			return err
		}
		if l == nil {
			continue
		}
		if started, err := w.startOwnLanes(l, launch.WantedLanes); err != nil || started < launch.WantedLanes {
			return err // all slots are taken
		}
	}
	return nil
}
