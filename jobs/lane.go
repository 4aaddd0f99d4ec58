package jobs

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/crew"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

// kindLane is the job that claims and runs a launch's units one after another.
const kindLane = "lane"

// EnqueueLanes asks workers for n lanes of a launch.
func (q *Queue) EnqueueLanes(ctx context.Context, launchID uuid.UUID, n int) error {
	for range n {
		// The timeout only limits asynq's bookkeeping: a lane ends after its last call.
		if err := q.enqueue(ctx, kindLane, QueueEvaluation, 24*time.Hour, launchArgs{launchID}); err != nil {
			return err
		}
	}
	return nil
}

// workLane uses the worker's own context: asynq cancels a job's context if Redis is unavailable for long, and that
// must not interrupt a call to an agent.
func (w *Worker) workLane(_ context.Context, job *asynq.Task) error {
	id, err := readLaunchArgs(job)
	if err != nil {
		return err
	}
	if !w.awaitSlot() {
		return nil // reconcile adds another lane, perhaps in another worker
	}
	defer func() { <-w.slots }()
	return w.work(id)
}

// slotPatience is how long a job waits for a slot before it leaves the lane to workers that may have one free.
const slotPatience = time.Second

// awaitSlot takes one of the worker's slots, and reports whether it got one. It waits for up to slotPatience, because
// lanes that the worker started itself may occupy all slots.
func (w *Worker) awaitSlot() bool {
	if w.takeSlot() {
		return true
	}
	timer := time.NewTimer(slotPatience)
	defer timer.Stop()
	select {
	case w.slots <- struct{}{}:
		return true
	case <-w.leaving:
	case <-timer.C:
	}
	return false
}

// readLaunch reads a launch. It returns nil if there is nothing to do: the launch no longer exists, or ends now because
// its secrets cannot be decrypted. It returns tasks.ErrForeignKey if only this process lacks the key to decrypt them.
func (w *Worker) readLaunch(ctx context.Context, id uuid.UUID) (*crew.Launch, error) {
	call, err := w.Store.LaunchCall(ctx, id)
	if errors.Is(err, db.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rules, err := tasks.RulesOf(ctx, call.Task)
	if err != nil {
		return nil, err
	}
	l := &crew.Launch{Call: call, Targets: map[int]tasks.Target{}, Rules: rules, Judges: tasks.JudgesOf(call.Task)}
	if l.Screen, err = tasks.NewLaunchScreen(ctx, w.Store, id, w.SensitivePatterns); err != nil {
		return nil, err
	}
	for _, target := range slices.Concat(call.Task.Targets, call.Task.Judges) {
		l.Targets[target.Number], err = tasks.Open(w.Sealer, target)
		if errors.Is(err, secret.ErrKey) {
			isForeign, err := tasks.IsForeign(ctx, w.Store, w.Sealer)
			if err == nil && isForeign {
				err = tasks.ErrForeignKey
			}
			if err != nil {
				return nil, err
			}
			return nil, w.fail(ctx, id, FailureSecretKey)
		}
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}

// startOwnLanes starts up to n lanes of a launch in this process, as long as slots are free, and returns how many it
// started. These lanes save the round trip through Redis and another read of the launch.
func (w *Worker) startOwnLanes(l *crew.Launch, n int) (started int, err error) {
	slots := w.reserve(n)
	var lanes []*crew.Lane
	defer func() {
		for range slots - len(lanes) {
			w.releaseOwn()
		}
	}()
	if slots == 0 {
		return 0, nil
	}
	if lanes, err = w.crews.Enter(w.calls, *l, w.currentLease(), slots); err != nil {
		return 0, err
	}
	for _, lane := range lanes {
		go func() {
			defer w.releaseOwn()
			err := w.contain("work in a lane", func() error {
				next, err := w.workIn(lane, l)
				return errors.Join(err, w.work(next))
			})
			if err != nil {
				w.Log.WarnContext(w.calls, "lane failed, reconcile will replace it", "task_id", l.TaskID,
					"launch_id", l.LaunchID, "error", err)
			}
		}()
	}
	return len(lanes), nil
}

// reserve takes up to n slots for lanes that the worker starts itself, and returns how many it took. It takes none
// once the worker is shutting down, because nothing would wait for the lanes.
func (w *Worker) reserve(n int) (slots int) {
	w.ownMu.Lock()
	defer w.ownMu.Unlock()
	for ; slots < n && !w.isLeaving() && w.takeSlot(); slots++ {
		w.own.Add(1)
	}
	return slots
}

// releaseOwn returns a slot that was reserved.
func (w *Worker) releaseOwn() {
	<-w.slots
	w.own.Done()
}

// takeSlot takes one of the worker's slots if one is free.
func (w *Worker) takeSlot() bool {
	select {
	case w.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// work works for a launch and, whenever its lane makes room for others, for the launch that has waited longest. The
// caller holds a slot. If id is uuid.Nil, there is no work.
func (w *Worker) work(id uuid.UUID) error {
	for id != uuid.Nil {
		l, err := w.readLaunch(w.calls, id)
		if err != nil || l == nil {
			return err
		}
		lanes, err := w.crews.Enter(w.calls, *l, w.currentLease(), 1)
		if err != nil || len(lanes) == 0 {
			return err
		}
		if id, err = w.workIn(lanes[0], l); err != nil {
			return err
		}
	}
	return nil
}

// workIn works in a lane of a launch. next is the launch to continue with in the same slot, if there is one.
func (w *Worker) workIn(lane *crew.Lane, l *crew.Launch) (next uuid.UUID, err error) {
	w.Metrics.lanesBusy.Inc()
	defer w.Metrics.lanesBusy.Dec()
	end, isLast, err := lane.Work(w.calls)
	if isLast {
		err = errors.Join(err, w.finish(w.calls, l.TaskID, l.LaunchID))
	}
	switch end {
	case crew.Leaving: // left to the workers that remain
		err = errors.Join(err, w.Queue.EnqueueLanes(w.calls, l.LaunchID, 1))
	case crew.MadeRoom:
		var failure error
		if next, failure = engine.NewLanes(w.Store).NextWaiting(w.calls); next == uuid.Nil && failure == nil {
			next = l.LaunchID // no other launch is waiting
		}
		err = errors.Join(err, failure)
	}
	return next, err
}
