package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"wending/db"
	"wending/jobs/secret"
)

// kindLane is the job that claims and runs a launch's units one after another.
const kindLane = "lane"

// EnqueueLanes asks workers for n lanes of a launch.
func (q *Queue) EnqueueLanes(ctx context.Context, launchID uuid.UUID, n int) error {
	for range n {
		// The timeout only frees asynq's bookkeeping: a lane ends after its last call.
		if err := q.enqueue(ctx, kindLane, QueueEvaluation, 24*time.Hour, launchArgs{launchID}); err != nil {
			return err
		}
	}
	return nil
}

// workLane runs on the worker's own context: asynq cancels a job's when Redis is away for long, and a call to an
// agent must not be wasted for that.
func (w *Worker) workLane(_ context.Context, job *asynq.Task) error {
	id, err := readLaunchArgs(job)
	if err != nil {
		return err
	}
	select {
	case w.slots <- struct{}{}: // lanes that this worker started itself may hold slots
	case <-w.leaving:
		return nil // reconcile sends another lane
	}
	defer func() { <-w.slots }()
	return w.work(id)
}

// startOwnLanes starts up to n lanes of a launch in this process, as far as there are free slots, and returns how
// many.
func (w *Worker) startOwnLanes(id uuid.UUID, n int) (started int) {
	w.ownMu.Lock()
	defer w.ownMu.Unlock()
	for ; started < n && !w.isLeaving(); started++ { // nobody would wait for it
		select {
		case w.slots <- struct{}{}:
		default:
			return started
		}
		w.own.Go(func() {
			defer func() { <-w.slots }()
			if err := w.contain("work in a lane", func() error { return w.work(id) }); err != nil {
				w.Log.WarnContext(w.calls, "lane ended, reconcile will replace it", "launch_id", id, "error", err)
			}
		})
	}
	return started
}

// work works in one of the launch's lanes for as long as there is something to do. The caller holds a slot.
func (w *Worker) work(id uuid.UUID) error {
	w.Metrics.lanesBusy.Inc()
	defer w.Metrics.lanesBusy.Dec()
	call, err := w.Store.LaunchCall(w.calls, id)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var headers map[string]string
	if err := w.Sealer.Open(call.Task.SealedHeaders, call.TaskID.String(), &headers); err != nil {
		if errors.Is(err, secret.ErrKey) {
			return w.fail(w.calls, id, FailureSecretKey)
		}
		return err
	}
	for {
		continues, isLast, err := w.crews.Lane(w.calls, call, headers, w.currentLease())
		if isLast {
			err = errors.Join(err, w.finish(w.calls, id))
		}
		if !continues {
			return err
		}
		// While Redis is away the lane continues without a job.
		if enqueued := w.Queue.EnqueueLanes(w.calls, id, 1); enqueued == nil || w.isLeaving() {
			return errors.Join(err, enqueued)
		}
	}
}
