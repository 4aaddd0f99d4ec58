package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// tidyEvery is the time between two rounds of what is not urgent.
const tidyEvery = 5 * time.Second

// lead makes up for whatever was lost – wake-ups, workers, counts – when no other worker does it now.
func (w *Worker) lead(ctx context.Context, tidied *time.Time) error {
	_, err := w.store.AsLeader(ctx, func() error {
		isTidying := time.Since(*tidied) >= tidyEvery
		if isTidying {
			*tidied = time.Now()
		}
		return w.reconcile(ctx, isTidying)
	})
	return err
}

// reconcile does one round. Every step only brings the state nearer to what it should be, so that a
// round cut short, or two at once, do no harm.
func (w *Worker) reconcile(ctx context.Context, isTidying bool) error {
	lost, err := w.store.RequeueLostUnits(ctx)
	if err != nil {
		return err
	}
	if lost > 0 {
		w.metrics.lostUnits.Add(float64(lost))
		w.log.WarnContext(ctx, "units of dead workers returned to the queue", "units", lost)
	}
	if isTidying {
		if err := errors.Join(w.store.RecountProcessed(ctx), w.store.RemoveDeadWorkers(ctx)); err != nil {
			return err
		}
	}
	return w.helpLaunches(ctx)
}

// helpLaunches closes launches that are done, starts those whose wake-up was lost, and gives lanes to
// those that have too few.
func (w *Worker) helpLaunches(ctx context.Context) error {
	launches, err := w.store.ActiveLaunches(ctx)
	if err != nil {
		return err
	}
	var starting, running map[uuid.UUID]int // what waits in Redis, asked only when it matters
	for _, launch := range launches {
		switch {
		case launch.IsDone:
			if err := w.finish(ctx, launch.ID); err != nil {
				return err
			}
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
			if running == nil {
				if running, err = w.queue.waiting(QueueEvaluation); err != nil {
					return err
				}
			}
			if err := w.queue.EnqueueLanes(ctx, launch.ID, launch.WantedLanes-running[launch.ID]); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish closes a launch that has nothing left to run; one of all who try does it.
func (w *Worker) finish(ctx context.Context, launchID uuid.UUID) error {
	finished, err := w.store.FinishLaunch(ctx, launchID)
	if finished {
		w.log.InfoContext(ctx, "launch finished", "launch_id", launchID)
	}
	return err
}
