package crew

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
	"wending/db/measure"
	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// maxPostpone caps how long an agent's Retry-After may hold back calls to its origin.
const maxPostpone = time.Minute

// codeCut marks, among the events, a call that was cut: it has no outcome.
const codeCut = "CALL_CUT"

// codeInternal marks a run whose answer made the decoder panic or whose result the database refused.
const codeInternal = "INTERNAL_ERROR"

// retryClock is the time between two attempts; nil until the first has failed.
type retryClock = *backoff.ExponentialBackOff

// newRetry returns the waits between attempts: about 1, 2, 4 … s, each up to a quarter longer, so that calls that
// failed together are not repeated together.
func newRetry() retryClock {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.Multiplier, retry.MaxInterval = 1125*time.Millisecond, 2, time.Minute
	retry.RandomizationFactor = 1.0 / 9 // 1.125 s ± 1/9 is 1 to 1.25 s
	return retry
}

// attempt makes one call for a unit. It returns its outcome, or parks the unit for its next attempt; otherwise the unit
// is to be returned, because the call was cut.
func (c *crew) attempt(unit *claimed) (result *engine.Result, isParked bool) {
	ctx, started := c.calls, time.Now()
	var answer protocol.Answer
	var conversationID string
	if unit.judging != nil {
		answer = c.askJudge(ctx, *unit)
	} else {
		c.open(unit)
		answer, conversationID = c.ask(ctx, unit)
	}
	if ctx.Err() != nil && answer.Status != protocol.Succeeded {
		c.cancelJob(unit)
		if unit.call != nil {
			unit.call.Emit(event.ErrorOccurred, event.Data{
				Code: codeCut, Message: "The call was cut, because its task was stopped or its worker left",
				Attempt: unit.attempt,
			})
		}
		return nil, false
	}
	if answer.ErrorCode == protocol.CodeInterrupted {
		return nil, false // the accepted job is stored: another worker waits for it
	}
	if answer.Status == protocol.TimedOut {
		c.cancelJob(unit)
	}
	target := c.Task.Target(unit.Target)
	c.Observer.CallEnded(target, answer)
	if answer.RetryAfter > 0 {
		if err := engine.NewLanes(c.Store).PostponeOrigin(ctx, c.Origins[unit.Target], min(answer.RetryAfter, maxPostpone)); err != nil {
			c.Log.WarnContext(ctx, "could not store the agent's Retry-After, ignoring it", "error", err)
		}
	}
	if c.fallsBack(unit, answer, started) {
		return nil, true
	}
	if !agent.MayRetry(answer, target.RetryOn) || unit.retries() >= c.Task.MaxRetries {
		if unit.judging != nil {
			return c.vote(*unit, answer)
		}
		outcome := newResult(unit.Unit, answer, unit.attempt)
		outcome.FailedAttempts = unit.failed
		tellEnd(*unit, answer)
		silence := unit.call.LongestSilence()
		outcome.LongestSilenceMS, outcome.Assets = &silence, unit.call.Assets()
		if unit.turn != nil {
			outcome.Turn = c.endTurn(unit.turn, answer, conversationID)
		}
		if outcome.Status == db.RunSucceeded {
			outcome.HasJudges = len(c.Judges) > 0
			if c.Rules.Any() {
				c.judge(&outcome, answer)
			}
		}
		return &outcome, false
	}
	if unit.retry == nil {
		unit.retry = newRetry()
	}
	unit.failedWith(answer, started)
	wait := unit.retry.NextBackOff()
	c.forgetJob(unit)
	if unit.call != nil {
		tellEnd(*unit, answer)
		unit.call.Emit(event.Retry, event.Data{Attempt: unit.attempt, WaitMS: int(wait.Milliseconds())})
	}
	c.supply.park(*unit, wait)
	return nil, true
}

// failedWith notes an attempt that is made again.
func (c *claimed) failedWith(answer protocol.Answer, started time.Time) {
	one := db.FailedAttempt{
		Attempt: c.attempt, StartedAt: started.UTC(), LatencyMS: int(answer.Latency.Milliseconds()),
		ErrorCode: answer.ErrorCode, ErrorMessage: answer.ErrorMessage, Body: string(answer.Raw),
	}
	if answer.HTTPStatus != 0 {
		one.HTTPStatus = &answer.HTTPStatus
	}
	c.failed = c.failed.With(one)
	c.attempt++
}

// tellEnd notes how an attempt of a unit's call has ended.
func tellEnd(unit claimed, answer protocol.Answer) {
	if answer.Status == protocol.Succeeded {
		unit.call.Emit(event.TaskCompleted, event.Data{Code: string(answer.Status), Attempt: unit.attempt})
		return
	}
	unit.call.Emit(event.ErrorOccurred, event.Data{Code: answer.ErrorCode, Message: answer.ErrorMessage, Attempt: unit.attempt})
}

// mayAttempt waits until a unit's call may begin, for a later attempt with a rate-limit slot of its own. If none is near,
// the unit is parked again; otherwise a unit that may not be called is to be returned: the launch was stopped, the worker
// is leaving, or the unit may already belong to another worker.
func (c *crew) mayAttempt(unit *claimed) (may, isParked bool) {
	if unit.Series != nil && unit.Evaluator == 0 && unit.turn == nil {
		if may, isParked := c.readTurn(unit); !may {
			return false, isParked
		}
	}
	if unit.Evaluator != 0 && unit.judging == nil {
		if may, isParked := c.readSubject(unit); !may {
			return false, isParked
		}
	}
	if unit.isParked {
		asked := time.Now()
		wait, reserved, err := c.Store.ReserveCall(c.calls, c.Call, unit.Unit)
		switch {
		case errors.Is(err, db.ErrConflict):
			return false, false
		case err != nil:
			c.Log.WarnContext(c.calls, "rate-limit reservation failed, will retry", "error", err)
			wait, reserved = time.Second, false
		}
		if !reserved {
			c.supply.park(*unit, wait)
			return false, true
		}
		unit.at, unit.Wait = asked, wait
	}
	return c.pause(time.Until(unit.at.Add(unit.Wait))) && c.gate.await(unit.mustBeginBy(), c.Leaving), false
}

// open begins to note what happens while a unit's question is asked, or continues with its next attempt.
func (c *crew) open(unit *claimed) {
	if unit.call != nil && unit.call.ItemID() == unit.Item.ID {
		unit.call.Again()
		return
	}
	unit.call = c.Scribe.Open(c.TaskID, unit.Unit, unit.call)
}

// ask puts a unit's question, or the next turn of its conversation, to its target.
func (c *crew) ask(ctx context.Context, unit *claimed) (answer protocol.Answer, conversationID string) {
	variant := c.Task.Variants[unit.Variant-1]
	request := tasks.Request(c.Task, variant, c.Targets[unit.Target], unit.Item)
	request.IdempotencyKey = tasks.IdempotencyKey(c.LaunchID, unit.ID, unit.Item)
	if unit.turn != nil {
		tasks.Continue(&request, c.Task, variant, unit.turn.NextTurn, tasks.SessionID(c.LaunchID, unit.ID))
		request.IsTooLong = request.IsTooLong || unit.turn.isTooLong
		c.refer(ctx, unit, &request)
	}
	request.Events, request.RawLimit = unit.call, db.MaxFailedAttemptRaw
	if c.Task.UseStream && (unit.isUnstreamed || c.unstreamed.has(unit.Target)) {
		request.Stream = false
		unit.call.Emit(event.Other, event.Data{Name: event.NotStreamed, Attempt: unit.attempt})
	}
	if request.Poll != nil {
		c.followJob(unit, &request)
	}
	client := c.Agents
	if c.Task.Targets[unit.Target-1].Kind == db.TargetModel {
		client = c.Models
	}
	answer = c.send(ctx, client, request)
	if conversationID = answer.ConversationID; conversationID == "" {
		conversationID = request.ConversationID
	}
	return answer, conversationID
}

// send makes one call. If decoding the answer panics, it failed; otherwise the unit would fail on one worker after another.
func (c *crew) send(ctx context.Context, client *agent.Client, request protocol.Request) (answer protocol.Answer) {
	start := time.Now()
	if c.contain("read an answer", func() { answer = client.Ask(ctx, request) }) {
		answer = protocol.Answer{
			Status: protocol.Failed, ErrorCode: codeInternal, Latency: time.Since(start),
			ErrorMessage: "The answer could not be read because of an internal error",
		}
	}
	return answer
}

// judge has the task's evaluators judge an answer. If that panics, the answer is recorded without verdicts.
func (c *crew) judge(result *engine.Result, answer protocol.Answer) {
	subject := evaluate.Subject{
		Answer: string(answer.Text), Values: tasks.Values(result.Unit.Item, c.Task.VariableNames), LatencyMS: result.LatencyMS, Tokens: result.TotalTokens,
	}
	c.contain("judge an answer", func() { result.Evaluations, result.Passed, result.Score = c.Rules.Judge(subject) })
}

func newResult(unit db.Unit, answer protocol.Answer, attempts int) engine.Result {
	result := engine.Result{
		Unit: unit, Status: db.RunStatus(answer.Status), Response: answer.Text, Reasoning: answer.Reasoning,
		LatencyMS: int(answer.Latency.Milliseconds()), Attempts: attempts,
		ErrorCode: answer.ErrorCode, ErrorMessage: answer.ErrorMessage, FinishReason: string(answer.Finish),
		InputTokens: answer.Usage.Input, OutputTokens: answer.Usage.Output, ReasoningTokens: answer.Usage.Reasoning, TotalTokens: answer.Usage.Total,
	}
	if answer.FirstToken > 0 {
		first := int(answer.FirstToken.Milliseconds())
		result.FirstTokenMS = &first
	}
	if result.Status == db.RunSucceeded {
		result.AnswerKey = measure.Key(answer.Text)
	}
	return result
}
