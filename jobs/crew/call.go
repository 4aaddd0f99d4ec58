package crew

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"wending/db"
	"wending/jobs/agent"
	"wending/jobs/stability"
)

// maxPostpone caps how long an agent's Retry-After may hold back calls to its origin.
const maxPostpone = time.Minute

// codeInternal marks a run whose answer made the decoder panic or whose result the database refused.
const codeInternal = "INTERNAL_ERROR"

// newRetry returns the waits between attempts: about 1, 2, 4 … s, each up to a quarter longer, so that calls that
// failed together are not repeated together.
func newRetry() *backoff.ExponentialBackOff {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.Multiplier, retry.MaxInterval = 1125*time.Millisecond, 2, time.Minute
	retry.RandomizationFactor = 1.0 / 9 // 1.125 s ± 1/9 is 1 to 1.25 s
	return retry
}

// askWithRetries calls the agent until it answers or the task's retries are used up. hasOutcome is false if the
// call was cut or must not be repeated.
func (c *crew) askWithRetries(unit db.Unit) (result db.Result, hasOutcome bool) {
	ctx, retry := c.calls, newRetry()
	for attempt := 1; ; attempt++ {
		answer := c.ask(ctx, unit)
		if ctx.Err() != nil && answer.Status != agent.Succeeded {
			return result, false
		}
		c.Observer.CallEnded(answer)
		if answer.RetryAfter > 0 {
			if err := c.Store.PostponeOrigin(ctx, c.call.AgentOrigin, min(answer.RetryAfter, maxPostpone)); err != nil {
				c.Log.WarnContext(ctx, "could not store the agent's Retry-After, ignoring it", "error", err)
			}
		}
		result = newResult(unit, answer, attempt)
		if !answer.MayRetry() || attempt > c.call.Task.MaxRetries {
			return result, true
		}
		select {
		case <-time.After(retry.NextBackOff()):
		case <-c.gate.closed:
			return result, false // it had attempts left: a resume repeats it
		case <-c.Leaving:
			return result, false // another worker repeats it
		}
		if !c.awaitSlot(ctx, unit) {
			return result, false
		}
	}
}

// awaitSlot takes a rate-limit slot for another attempt. It returns false if no further attempt may be made:
// the launch was stopped, the worker is leaving, or the unit may already belong to another worker.
func (c *crew) awaitSlot(ctx context.Context, unit db.Unit) (mayCall bool) {
	for {
		asked := time.Now()
		wait, reserved, err := c.Store.ReserveCall(ctx, c.call, unit)
		if errors.Is(err, db.ErrConflict) {
			return false
		}
		if err != nil {
			c.Log.WarnContext(ctx, "rate-limit reservation failed, will retry", "error", err)
			wait = time.Second
		}
		if !c.pause(wait) || ctx.Err() != nil {
			return false
		}
		if reserved {
			unit.Wait = wait
			attempt := claimed{unit, asked, c.supply.isRateLimited()}
			return c.gate.await(attempt.mustBeginBy(), c.Leaving)
		}
	}
}

// ask makes one call. If decoding the answer panics, the run is recorded as failed; otherwise the unit would
// fail on one worker after another.
func (c *crew) ask(ctx context.Context, unit db.Unit) (answer agent.Answer) {
	task, start := c.call.Task, time.Now()
	request := agent.Request{
		URL: c.target.URL, Headers: c.target.Headers, ExtraPayload: c.target.Payload, Question: unit.Question, StandardAnswer: unit.StandardAnswer,
		SystemPrompt: unit.SystemPrompt, UserContext: unit.UserContext, Stream: task.UseStream,
		IdempotencyKey: idempotencyKey(c.call, unit), Timeout: time.Duration(task.TimeoutSeconds) * time.Second,
	}
	if c.contain("read an answer", func() { answer = c.Agents.Ask(ctx, request) }) {
		answer = agent.Answer{
			Status: agent.Failed, ErrorCode: codeInternal, Latency: time.Since(start),
			ErrorMessage: "The answer could not be read because of an internal error",
		}
	}
	return answer
}

// idempotencyKey is the same for every attempt of a unit on any worker and unique across installations: an agent
// that has seen it before may return the same answer.
func idempotencyKey(call db.Call, unit db.Unit) string {
	return fmt.Sprintf("wending-%s-%d", call.LaunchID, unit.ID)
}

func newResult(unit db.Unit, answer agent.Answer, attempts int) db.Result {
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
