package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"wending/db"
)

// tidyEvery is the time between two rounds of what is not urgent.
const tidyEvery = 5 * time.Second

// pruneFor bounds the time of one round that goes into pruning old history.
const pruneFor = 2 * time.Second

// lead makes up for whatever was lost – wake-ups, workers, counts – when no other worker does it now.
func (w *Worker) lead(ctx context.Context, tidied *time.Time) error {
	var launches []db.ActiveLaunch
	led, err := w.store.AsLeader(ctx, func() (err error) {
		isTidying := time.Since(*tidied) >= tidyEvery
		if isTidying {
			*tidied = time.Now()
		}
		launches, err = w.reconcile(ctx, isTidying)
		return err
	})
	if err != nil || !led {
		launches = nil
	}
	// Pruning takes its time, and Redis may be slow to answer, or away: nothing that the database decides
	// waits for them.
	if w.isWaking.CompareAndSwap(false, true) {
		go func() {
			defer w.isWaking.Store(false)
			if err := w.prune(ctx); err != nil && ctx.Err() == nil {
				w.log.WarnContext(ctx, "history not pruned; it comes again", "error", err)
			}
			err := w.wake(ctx, launches)
			if err != nil && ctx.Err() == nil {
				w.log.WarnContext(ctx, "lanes not woken through Redis; this worker goes on by itself", "error", err)
				err = w.goOnAlone(ctx)
			}
			if err != nil && ctx.Err() == nil {
				w.log.WarnContext(ctx, "no lanes begun; it comes again", "error", err)
			}
		}()
	}
	return err
}

// reconcile does one round in the database and returns the launches at work. Every step only brings the
// state nearer to what it should be, so that a round cut short, or two at once, do no harm.
func (w *Worker) reconcile(ctx context.Context, isTidying bool) ([]db.ActiveLaunch, error) {
	lost, err := w.store.RequeueLostUnits(ctx)
	if err != nil {
		return nil, err
	}
	if lost > 0 {
		w.metrics.lostUnits.Add(float64(lost))
		w.log.WarnContext(ctx, "units of dead workers returned to the queue", "units", lost)
	}
	if err := w.store.CutStopped(ctx); err != nil {
		return nil, err
	}
	if isTidying {
		if err := errors.Join(w.store.RecountProcessed(ctx), w.store.RemoveDeadWorkers(ctx)); err != nil {
			return nil, err
		}
	}
	launches, err := w.store.ActiveLaunches(ctx)
	if err != nil {
		return nil, err
	}
	for _, launch := range launches {
		if launch.IsDone {
			if err := w.finish(ctx, launch.ID); err != nil {
				return nil, err
			}
		}
	}
	return launches, nil
}

// prune removes old history, for a while.
func (w *Worker) prune(ctx context.Context) error {
	if w.keepHistory == 0 {
		return nil
	}
	for end := time.Now().Add(pruneFor); time.Now().Before(end); {
		removed, found, err := w.store.PruneHistory(ctx, w.keepHistory)
		if err != nil || !found {
			return err
		}
		w.log.InfoContext(ctx, "history of a finished task pruned", "rows", removed)
	}
	return nil
}

// wake starts launches whose wake-up was lost, and gives lanes to those that have too few.
func (w *Worker) wake(ctx context.Context, launches []db.ActiveLaunch) error {
	running, err := w.queue.waiting(QueueEvaluation)
	if err != nil {
		return err
	}
	w.othersWait.Store(len(running) > 0)
	var starting map[uuid.UUID]int // asked only when it matters
	for _, launch := range launches {
		switch {
		case launch.IsDone:
		case !launch.Started:
			if starting == nil {
				if starting, err = w.queue.waiting(QueueControl); err != nil {
					return err
				}
			}
			if starting[launch.ID] == 0 {
				if err := w.queue.EnqueueLaunch(ctx, launch.ID); err != nil {
					return err
				}
			}
		case launch.WantedLanes > 0:
			if err := w.queue.EnqueueLanes(ctx, launch.ID, launch.WantedLanes-running[launch.ID]); err != nil {
				return err
			}
		}
	}
	return nil
}

// goOnAlone does without Redis what wake-ups would do: it starts launches and begins lanes in this process, as
// far as there is room. The database admits no more lanes than a launch may have, whoever begins them.
func (w *Worker) goOnAlone(ctx context.Context) error {
	launches, err := w.store.ActiveLaunches(ctx)
	if err != nil {
		return err
	}
	for _, launch := range launches {
		if !launch.Started {
			if err := w.startLaunch(ctx, launch.ID); err != nil {
				w.log.WarnContext(ctx, "lanes not woken", "launch_id", launch.ID, "error", err)
			}
		}
		for range launch.WantedLanes {
			select {
			case w.slots <- struct{}{}:
			default:
				return nil // all lanes are busy
			}
			w.beginOwn(func() {
				if err := w.work(launch.ID); err != nil {
					w.log.WarnContext(ctx, "lane ended; reconcile takes it up", "launch_id", launch.ID, "error", err)
				}
			})
		}
	}
	return nil
}

// beginOwn works in the slot that the caller took, unless the worker leaves.
func (w *Worker) beginOwn(work func()) {
	w.ownMu.Lock()
	defer w.ownMu.Unlock()
	if w.isLeaving() { // nobody would wait for it
		<-w.slots
		return
	}
	w.own.Go(func() {
		defer func() { <-w.slots }()
		work()
	})
}

// finish closes a launch that has nothing left to run; one of all who try does it.
func (w *Worker) finish(ctx context.Context, launchID uuid.UUID) error {
	finished, err := w.store.FinishLaunch(ctx, launchID)
	if finished {
		w.log.InfoContext(ctx, "launch finished", "launch_id", launchID)
	}
	return err
}
