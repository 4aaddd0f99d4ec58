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

// codePanic marks a run whose answer brought the reader of answers down.
const codePanic = "INTERNAL_ERROR"

// workLane runs on the worker's own context: asynq cancels a job's when Redis is away for long, and a
// call to an agent must not be wasted for that.
func (w *Worker) workLane(_ context.Context, job *asynq.Task) error {
	id, err := readLaunchArgs(job)
	if err != nil {
		return err
	}
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
	lane, err := w.enterLane(w.calls, id)
	if err != nil || lane == uuid.Nil {
		return err
	}
	again, err := w.runLane(w.calls, lane, call, headers)
	w.leaveLane(w.calls, lane)
	if again {
		err = errors.Join(err, w.queue.EnqueueLanes(w.calls, id, 1))
	}
	return err
}

// enterLane takes one of the launch's lanes and returns its id; Nil when a wake-up came twice and there is
// none to take.
func (w *Worker) enterLane(ctx context.Context, launchID uuid.UUID) (uuid.UUID, error) {
	lane := uuid.New()
	w.claiming.RLock()
	defer w.claiming.RUnlock()
	w.heldLanes.Store(lane, struct{}{})
	admitted, err := w.store.EnterLane(ctx, lane, launchID, w.id)
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
// (again: it should queue once more), or the worker leaves.
func (w *Worker) runLane(ctx context.Context, lane uuid.UUID, call db.Call, headers map[string]string) (again bool, err error) {
	slice := laneSlice
	if call.IntervalMicros > 0 {
		slice = limitedLaneSlice
	}
	for end := time.Now().Add(slice); !w.isLeaving(); {
		if time.Now().After(end) {
			return true, nil
		}
		claim, err := w.claim(ctx, call.LaunchID)
		if err != nil {
			return false, err // reconcile sends another lane
		}
		if claim.RetryAfter > 0 {
			left, err := w.store.YieldLane(ctx, lane, call.LaunchID)
			if err != nil || left || claim.RetryAfter > slice {
				return false, err // reconcile sends a lane when the agent's moment is near
			}
			if claim.RetryAfter > time.Until(end) {
				return true, nil
			}
			w.pause(claim.RetryAfter)
			continue
		}
		if claim.Unit == nil {
			return false, w.finish(ctx, call.LaunchID)
		}
		if err := w.run(ctx, call, headers, *claim.Unit); err != nil {
			return false, err
		}
	}
	return true, nil // for the workers that stay
}

// run asks the agent about one unit and stores the outcome. It returns early, with the unit still
// claimed, only when the worker leaves: its units are given back then.
func (w *Worker) run(ctx context.Context, call db.Call, headers map[string]string, unit db.Unit) error {
	isSettled := false
	defer func() {
		w.held.Delete(unit.ID)
		if !isSettled { // only now: a look at what is held must not find it again
			w.mayHaveStrays.Store(true)
		}
	}()
	result, finished := w.askWithRetries(ctx, call, headers, unit)
	if !finished {
		return nil
	}
	accepted, err := w.record(ctx, call, result)
	if err != nil {
		return err
	}
	isSettled = true
	if !accepted {
		w.metrics.lateResults.Inc()
		w.log.WarnContext(ctx, "late result refused: another worker has the unit", "task_id", call.Task.ID, "unit_id", unit.ID, "epoch", unit.Epoch)
		return nil
	}
	if err := w.store.CountProcessed(ctx, call.LaunchID, call.Task.ID, unit.Item.ID); err != nil {
		w.log.WarnContext(ctx, "progress not counted yet", "task_id", call.Task.ID, "error", err)
	}
	return nil
}

// askWithRetries calls the agent until it answers or the task's retries are used up. finished is false
// when the worker left meanwhile and there is no outcome.
func (w *Worker) askWithRetries(ctx context.Context, call db.Call, headers map[string]string, unit db.Unit) (result db.Result, finished bool) {
	if !w.pause(unit.Wait) {
		return result, false
	}
	for attempt := 1; ; attempt++ {
		answer := w.ask(ctx, call, headers, unit)
		if ctx.Err() != nil {
			return result, false
		}
		w.metrics.observeCall(answer)
		if answer.RetryAfter > 0 {
			if err := w.store.PostponeAgent(ctx, call.AgentOrigin, min(answer.RetryAfter, maxPostpone)); err != nil {
				w.log.WarnContext(ctx, "agent not postponed", "task_id", call.Task.ID, "error", err)
			}
		}
		if !answer.MayRetry() || attempt > call.MaxRetries {
			return resultOf(unit, answer, attempt), true
		}
		if !w.pause(time.Second<<(attempt-1)) || !w.awaitRate(ctx, call) {
			return result, false
		}
	}
}

// awaitRate takes a moment at the agent for another attempt.
func (w *Worker) awaitRate(ctx context.Context, call db.Call) bool {
	for {
		wait, reserved, err := w.store.ReserveCall(ctx, call)
		if err != nil {
			w.log.WarnContext(ctx, "no moment reserved at the agent", "task_id", call.Task.ID, "error", err)
			wait = time.Second
		}
		if !w.pause(wait) {
			return false
		}
		if reserved {
			return true
		}
	}
}

// ask makes one call. An answer that breaks the reader becomes a failed run instead of a unit that
// would break one worker after another.
func (w *Worker) ask(ctx context.Context, call db.Call, headers map[string]string, unit db.Unit) (answer agent.Answer) {
	start := time.Now()
	defer func() {
		if cause := recover(); cause != nil {
			w.log.ErrorContext(ctx, "panic while reading an answer", "task_id", call.Task.ID, "unit_id", unit.ID, "panic", cause, "stack", string(debug.Stack()))
			answer = agent.Answer{Status: agent.Failed, ErrorCode: codePanic, ErrorMessage: "The answer could not be read because of an internal error", Latency: time.Since(start)}
		}
	}()
	request := agent.Request{
		URL: call.AgentURL, Headers: headers, Question: unit.Question, StandardAnswer: unit.StandardAnswer,
		SystemPrompt: unit.SystemPrompt, UserContext: unit.UserContext, Stream: call.UseStream,
		IdempotencyKey: idempotencyKey(call, unit), Timeout: time.Duration(call.TimeoutSeconds) * time.Second,
	}
	if call.ExtraPayload != nil {
		request.ExtraPayload = *call.ExtraPayload
	}
	return w.agents.Ask(ctx, request)
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

// record stores a result, as often as it takes: an answer in hand must not be lost to a database that is
// away for a while. It gives up when the worker's time to leave is over.
func (w *Worker) record(ctx context.Context, call db.Call, result db.Result) (accepted bool, err error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		accepted, err = w.store.RecordResult(ctx, call.Task.ID, result)
		if err == nil || !errors.Is(err, db.ErrUnavailable) {
			return accepted, err
		}
		w.log.WarnContext(ctx, "result not stored yet", "task_id", call.Task.ID, "unit_id", result.Unit.ID, "error", err)
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("gave up storing a result: %w", err)
		case <-time.After(wait):
		}
	}
}

// claim takes a unit and notes that this worker holds it.
func (w *Worker) claim(ctx context.Context, launchID uuid.UUID) (db.Claim, error) {
	w.claiming.RLock()
	defer w.claiming.RUnlock()
	claim, err := w.store.ClaimUnit(ctx, launchID, w.id)
	if err != nil {
		// The claim may have been committed although its reply was lost.
		w.mayHaveStrays.Store(true)
		return claim, err
	}
	if claim.Unit != nil {
		w.held.Store(claim.Unit.ID, struct{}{})
	}
	return claim, nil
}
