package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/tasks"
)

// kindLaunch is the job that creates a launch's units and starts its lanes.
const kindLaunch = "launch"

// EnqueueLaunch asks a worker to start a launch: the one in this process if it is free, otherwise any other.
func (q *Queue) EnqueueLaunch(ctx context.Context, launchID uuid.UUID) error {
	select {
	case q.here <- launchID:
		return nil
	default: // there is no worker in this process, or it is busy
		return q.enqueue(ctx, kindLaunch, QueueControl, time.Minute, launchArgs{launchID})
	}
}

// takeLaunches starts the launches that this process requests, until ctx ends: this saves the round trip through
// Redis and half of asynq's polling interval.
func (w *Worker) takeLaunches(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-w.Queue.here:
			err := w.contain("start a launch", func() error { return w.startLaunch(w.calls, id) })
			if err != nil && ctx.Err() == nil {
				w.Log.WarnContext(ctx, "launch not started, reconcile will retry it", "launch_id", id, "error", err)
			}
		}
	}
}

func (w *Worker) workLaunch(_ context.Context, job *asynq.Task) error {
	id, err := readLaunchArgs(job)
	if err != nil {
		return err
	}
	//nolint:contextcheck // a launch continues while the queue's server is shutting down
	return w.startLaunch(w.calls, id)
}

// startLaunch starts a PENDING launch. It is not an error if another worker already started it.
func (w *Worker) startLaunch(ctx context.Context, id uuid.UUID) error {
	// Evaluating rules can take so long that reconcile requests the launch again; one job per launch is enough in this
	// process.
	if _, isStarting := w.starting.LoadOrStore(id, true); isStarting {
		return nil
	}
	defer w.starting.Delete(id)
	if w.MaxActiveTasks > 0 {
		before, err := engine.NewLanes(w.Store).Before(ctx, id)
		if err != nil || before >= w.MaxActiveTasks {
			return err // reconcile will ask again
		}
	}
	if w.Admits != nil {
		if isAdmitted, err := w.Admits(ctx, id); err != nil || !isAdmitted {
			return err // reconcile will request the launch again, or the launch was stopped
		}
	}
	var units int
	isRuled, err := tasks.EvaluateRules(ctx, w.Store, id, w.isLeaving)
	if err == nil && !isRuled {
		return nil // this worker is shutting down; another one continues
	}
	if err == nil {
		err = tasks.AssessForGroupings(ctx, w.Store, id)
	}
	if err == nil {
		units, err = w.Store.StartLaunch(ctx, id)
	}
	if errors.Is(err, db.ErrConflict) || errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		if !errors.Is(err, db.ErrUnavailable) && ctx.Err() == nil {
			return errors.Join(err, w.fail(ctx, id, FailureStart))
		}
		return err // reconcile will retry
	}
	l, err := w.readLaunch(ctx, id)
	if err != nil || l == nil {
		return err
	}
	w.Log.InfoContext(ctx, "launch started", "task_id", l.TaskID, "launch_id", id, "units", units)
	wanted := min(l.Task.Concurrency, units)
	started, err := w.startOwnLanes(l, wanted)
	return errors.Join(err, w.Queue.EnqueueLanes(ctx, id, wanted-started))
}

// Codes of the internal faults that end a launch; the catalogues explain them.
const (
	// FailureStart means that the units of the launch could not be created.
	FailureStart = "LAUNCH_START_FAILED"
	// FailureSecretKey means that the agent's headers cannot be decrypted.
	FailureSecretKey = "SECRET_KEY_CHANGED"
)

// FailureCodes lists all failure codes.
var FailureCodes = []string{FailureStart, FailureSecretKey}

// fail ends a launch because of an internal fault. It is not an error if the launch had already ended.
func (w *Worker) fail(ctx context.Context, id uuid.UUID, code string) error {
	w.report(errors.New("launch failed: "+code), "launch_id", id.String(), "code", code)
	taskID, err := w.Store.FailLaunch(ctx, id, code)
	if errors.Is(err, db.ErrConflict) {
		return nil
	}
	w.Log.ErrorContext(ctx, "launch failed", "task_id", taskID, "launch_id", id, "code", code)
	return err
}

// finish ends a launch that has nothing left to run. Exactly one caller succeeds.
func (w *Worker) finish(ctx context.Context, taskID, id uuid.UUID) error {
	finished, err := tasks.FinishLaunch(ctx, w.Store, id)
	if finished {
		w.Log.InfoContext(ctx, "launch finished", "task_id", taskID, "launch_id", id)
		w.aside.Go(func() { w.compare(taskID, id) }) //nolint:contextcheck // it outlives the lane
	}
	return err
}

// compare compares a finished task with the previous one on the same dataset. Questions that it leaves out are
// compared on request.
func (w *Worker) compare(taskID, launchID uuid.UUID) {
	ctx := w.calls
	err := w.contain("compare tasks", func() error {
		return tasks.CompareWithEarlier(ctx, w.Store, launchID, w.isLeaving)
	})
	if err != nil && ctx.Err() == nil {
		w.Log.WarnContext(ctx, "task not compared with the previous one, will be compared on request",
			"task_id", taskID, "launch_id", launchID, "error", err)
	}
}
