package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"wending/db"
	"wending/jobs/agent"
	"wending/jobs/stability"
)

// kindLane is the job that claims and runs a launch's units one after another.
const kindLane = "lane"

const (
	// laneSlice is how long a lane works before it queues again, so that tasks share the workers fairly; a
	// lane whose agent's rate is limited waits more than it works, and makes room sooner.
	laneSlice        = 10 * time.Second
	limitedLaneSlice = 2 * time.Second
	// maxPostpone caps how long an agent's Retry-After may silence it.
	maxPostpone = time.Minute
)

// codeInternal marks a run whose answer brought the reader of answers down, or that the database refused.
const codeInternal = "INTERNAL_ERROR"

// workLane runs on the worker's own context: asynq cancels a job's when Redis is away for long, and a
// call to an agent must not be wasted for that.
func (w *Worker) workLane(_ context.Context, job *asynq.Task) error {
	id, err := readLaunchArgs(job)
	if err != nil {
		return err
	}
	select {
	case w.slots <- struct{}{}: // lanes that this worker began by itself while Redis was away may still be at work
	case <-w.leaving:
		return nil // reconcile sends another lane
	}
	defer func() { <-w.slots }()
	return w.work(id)
}

// work works in one of the launch's lanes for as long as there is something to do. The caller holds a slot.
func (w *Worker) work(id uuid.UUID) error {
	w.metrics.lanesBusy.Inc()
	defer w.metrics.lanesBusy.Dec()
	call, err := w.store.LaunchCall(w.calls, id)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	headers, err := w.sealer.Open(call.SealedHeaders, call.Task.ID.String())
	if err != nil {
		return errors.Join(err, w.fail(w.calls, id, FailureSecretKey))
	}
	for {
		again, err := w.enterAndRun(call, headers)
		if !again {
			return err
		}
		// While Redis is away the lane goes on by itself.
		if enqueued := w.queue.EnqueueLanes(w.calls, id, 1); enqueued == nil || w.isLeaving() {
			return errors.Join(err, enqueued)
		}
	}
}

// enterAndRun takes one of the launch's lanes, works in it, and leaves it. again says that the launch's work
// should go on in another job.
func (w *Worker) enterAndRun(call db.Call, headers map[string]string) (again bool, err error) {
	lease := w.currentLease()
	lane, err := w.enterLane(w.calls, call.LaunchID, lease)
	if err != nil || lane == uuid.Nil {
		return false, err
	}
	c := w.joinCrew(call, headers, lease)
	again, err = c.runLane(lane)
	w.leaveLane(w.calls, lane)
	return again, errors.Join(err, c.leave())
}

// enterLane takes one of the launch's lanes and returns its id; Nil when a wake-up came twice and there is
// none to take.
func (w *Worker) enterLane(ctx context.Context, launchID uuid.UUID, lease db.Lease) (uuid.UUID, error) {
	lane := uuid.New()
	w.claiming.RLock()
	defer w.claiming.RUnlock()
	w.heldLanes.Store(lane, struct{}{})
	admitted, err := w.store.EnterLane(ctx, lane, launchID, lease)
	if err == nil && admitted {
		return lane, nil
	}
	w.heldLanes.Delete(lane)
	if err != nil {
		w.mayHaveStrays.Store(true)
	}
	return uuid.Nil, err
}

func (w *Worker) leaveLane(ctx context.Context, lane uuid.UUID) {
	w.heldLanes.Delete(lane)
	if err := w.store.LeaveLane(ctx, lane); err != nil {
		w.mayHaveStrays.Store(true)
	}
}

// runLane works until nothing is left for it, other lanes suffice for the agent's rate, its slice is over
// and other work waits (again: it should queue once more), or the worker leaves.
func (c *crew) runLane(lane uuid.UUID) (again bool, err error) {
	var unstored []<-chan struct{} // each is closed when one of the lane's results is stored
	slice := laneSlice
	if c.call.IntervalMicros > 0 {
		slice = limitedLaneSlice
	}
	for end := time.Now().Add(slice); !c.w.isLeaving(); {
		if time.Now().After(end) && c.w.othersWait.Load() {
			return true, nil
		}
		got := c.next()
		switch {
		case got.err != nil:
			return false, got.err // reconcile sends another lane
		case got.retryAfter > 0:
			left, err := c.w.store.YieldLane(c.calls, lane, c.call.LaunchID)
			if err != nil || left || got.retryAfter > slice {
				return false, err // reconcile sends a lane when the agent's moment is near
			}
			c.w.pause(min(got.retryAfter, max(watchEvery, time.Until(end))))
		case got.unit == nil:
			return c.w.isLeaving(), nil
		default:
			start := time.Now()
			if stored := c.run(*got.unit); stored != nil {
				unstored = append(unstored, stored)
			}
			for len(unstored) > c.mayBeUnstored() {
				<-unstored[0]
				unstored = unstored[1:]
			}
			c.mu.Lock()
			c.callTime = mean(c.callTime, time.Since(start))
			c.mu.Unlock()
		}
	}
	return true, nil // for the workers that stay
}

// run asks the agent about one unit and hands the outcome over to be stored; the channel tells when it is. A
// unit without an outcome is given back, and there is no channel: the worker leaves, the launch was stopped, or
// the unit may have gone elsewhere.
func (c *crew) run(unit claimed) (stored <-chan struct{}) {
	if !c.w.pause(time.Until(unit.at.Add(unit.Wait))) || !c.mayBegin(unit) {
		c.giveBack([]db.Unit{unit.Unit})
		return nil
	}
	result, finished := c.askWithRetries(unit.Unit)
	if !finished {
		c.giveBack([]db.Unit{unit.Unit})
		return nil
	}
	return c.record(result)
}

// askWithRetries calls the agent until it answers or the task's retries are used up. finished is false
// when the call was cut and there is no outcome.
func (c *crew) askWithRetries(unit db.Unit) (result db.Result, finished bool) {
	ctx := c.calls
	for attempt := 1; ; attempt++ {
		answer := c.ask(ctx, unit)
		if ctx.Err() != nil && answer.Status != agent.Succeeded {
			return result, false
		}
		c.w.metrics.observeCall(answer)
		if answer.RetryAfter > 0 {
			if err := c.w.store.PostponeAgent(ctx, c.call.AgentOrigin, min(answer.RetryAfter, maxPostpone)); err != nil {
				c.w.log.WarnContext(ctx, "agent not postponed", "task_id", c.call.Task.ID, "error", err)
			}
		}
		result = resultOf(unit, answer, attempt)
		if !answer.MayRetry() || attempt > c.call.MaxRetries {
			return result, true
		}
		select {
		case <-time.After(time.Second << (attempt - 1)):
		case <-c.over:
			return result, false // it had attempts left: whoever resumes the task asks again
		case <-c.w.leaving:
			return result, false // another worker asks again
		}
		if !c.awaitRate(ctx, unit) {
			return result, false
		}
	}
}

// awaitRate takes a moment at the agent for another attempt. It returns false when there must be none: the
// launch was stopped, the worker leaves, or the unit may have gone elsewhere.
func (c *crew) awaitRate(ctx context.Context, unit db.Unit) (mayAsk bool) {
	for {
		asked := time.Now()
		wait, reserved, err := c.w.store.ReserveCall(ctx, c.call, unit)
		if errors.Is(err, db.ErrConflict) {
			return false
		}
		if err != nil {
			c.w.log.WarnContext(ctx, "no moment reserved at the agent", "task_id", c.call.Task.ID, "error", err)
			wait = time.Second
		}
		if !c.w.pause(wait) || ctx.Err() != nil {
			return false
		}
		if reserved {
			unit.Wait = wait
			return c.mayBegin(claimed{unit, asked})
		}
	}
}

// ask makes one call. An answer that breaks the reader becomes a failed run instead of a unit that
// would break one worker after another.
func (c *crew) ask(ctx context.Context, unit db.Unit) (answer agent.Answer) {
	call, start := c.call, time.Now()
	defer func() {
		if cause := recover(); cause != nil {
			c.w.log.ErrorContext(ctx, "panic while reading an answer", "task_id", call.Task.ID, "unit_id", unit.ID, "panic", cause, "stack", string(debug.Stack()))
			answer = agent.Answer{Status: agent.Failed, ErrorCode: codeInternal, ErrorMessage: "The answer could not be read because of an internal error", Latency: time.Since(start)}
		}
	}()
	request := agent.Request{
		URL: call.AgentURL, Headers: c.headers, Question: unit.Question, StandardAnswer: unit.StandardAnswer,
		SystemPrompt: unit.SystemPrompt, UserContext: unit.UserContext, Stream: call.UseStream,
		IdempotencyKey: idempotencyKey(call, unit), Timeout: time.Duration(call.TimeoutSeconds) * time.Second,
	}
	if call.ExtraPayload != nil {
		request.ExtraPayload = *call.ExtraPayload
	}
	return c.w.agents.Ask(ctx, request)
}

// idempotencyKey is the same for every attempt to run the unit, on whatever worker, and no other
// installation uses it: an agent that knows it may answer as it did before.
func idempotencyKey(call db.Call, unit db.Unit) string {
	return fmt.Sprintf("wending-%s-%d", call.LaunchID, unit.ID)
}

func resultOf(unit db.Unit, answer agent.Answer, attempts int) db.Result {
	result := db.Result{
		Unit: unit, Status: db.RunStatus(answer.Status), Response: answer.Text, Reasoning: answer.Reasoning,
		LatencyMS: int(answer.Latency.Milliseconds()), Attempts: attempts,
		ErrorCode: answer.ErrorCode, ErrorMessage: answer.ErrorMessage,
	}
	if result.Status == db.RunSucceeded {
		result.AnswerKey = stability.Key(answer.Text)
	}
	return result
}
