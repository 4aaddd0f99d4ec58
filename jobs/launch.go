package jobs

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"wending/db"
)

// kindLaunch is the job that makes a launch's units and wakes its lanes.
const kindLaunch = "launch"

func (w *Worker) workLaunch(_ context.Context, job *asynq.Task) error {
	id, err := readLaunchArgs(job)
	if err != nil {
		return err
	}
	return w.startLaunch(w.calls, id)
}

// startLaunch starts a PENDING launch. That somebody else has started it is no error.
func (w *Worker) startLaunch(ctx context.Context, id uuid.UUID) error {
	units, err := w.store.StartLaunch(ctx, id)
	if errors.Is(err, db.ErrConflict) {
		return nil
	}
	if err != nil {
		if !errors.Is(err, db.ErrUnavailable) && ctx.Err() == nil {
			return errors.Join(err, w.fail(ctx, id, FailureStart))
		}
		return err // reconcile asks again
	}
	call, err := w.store.LaunchCall(ctx, id)
	if err != nil {
		return err
	}
	w.log.InfoContext(ctx, "launch started", "task_id", call.Task.ID, "launch_id", id, "units", units)
	return w.queue.EnqueueLanes(ctx, id, min(call.Concurrency, units))
}

// Reasons why the system gave a task up; the catalogues explain them.
const (
	// FailureStart: the units of the launch could not be made.
	FailureStart = "LAUNCH_START_FAILED"
	// FailureSecretKey: the agent's headers cannot be decrypted.
	FailureSecretKey = "SECRET_KEY_CHANGED"
)

// fail gives a launch up. That it had ended before is no error.
func (w *Worker) fail(ctx context.Context, id uuid.UUID, code string) error {
	w.log.ErrorContext(ctx, "launch failed", "launch_id", id, "code", code)
	if err := w.store.FailLaunch(ctx, id, code); err != nil && !errors.Is(err, db.ErrConflict) {
		return err
	}
	return nil
}
