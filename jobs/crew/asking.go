package crew

import (
	"context"
	"time"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
	"wending/db/measure"
	"wending/jobs/agent/protocol"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// codeCut is the code, in an event, of a call that was cut off and therefore has no outcome.
const codeCut = "CALL_CUT"

// asking sends a unit's question, or the turns of its conversation one after another, to its target.
type asking struct {
	// notes record the events of the question's call; nil until its first attempt. In a conversation, they belong to
	// the most recent turn.
	notes *Call
	// turn is the next turn of the conversation; nil for a single question, and until it is read.
	turn *openTurn
	// conversationID is the agent's own id for the conversation, from the last answer.
	conversationID string
	// traceID is the id of the trace to which all calls for the question belong.
	traceID string
	// attempts are the failed attempts at the current question.
	attempts db.FailedAttempts
	// isUnstreamed reports that the target refused to stream, so that the following call does not count as a retry.
	isUnstreamed bool
	// job is the job that the agent has accepted; nil if there is none.
	job *acceptedJob
}

func (a *asking) prepare(c *crew, unit *claimed) (may, isParked bool) {
	if unit.Series != nil && a.turn == nil {
		return a.readTurn(c, unit)
	}
	return true, false
}

func (a *asking) call(ctx context.Context, c *crew, unit *claimed) protocol.Answer {
	a.open(c, unit)
	request := a.request(ctx, c, unit)
	client := c.Agents
	if c.Task.Targets[unit.Target-1].Kind == db.TargetModel {
		client = c.Models
	}
	a.traceID = request.TraceID
	answer := c.send(ctx, client, callsAgent, unit, request)
	if a.conversationID = answer.ConversationID; a.conversationID == "" {
		a.conversationID = request.ConversationID
	}
	if answer.Status == protocol.TimedOut && ctx.Err() == nil {
		a.cancelJob(c, unit) //nolint:contextcheck // the job is cancelled after the call's own time is up
	}
	return answer
}

// open starts recording the events of a unit's question, or continues with its next attempt.
func (a *asking) open(c *crew, unit *claimed) {
	if a.notes != nil && a.notes.ItemID() == unit.Item.ID {
		a.notes.Again()
		return
	}
	a.notes = c.Scribe.Open(c.TaskID, unit.Unit, a.notes)
}

// request returns the request for a unit's question or the next turn of its conversation.
func (a *asking) request(ctx context.Context, c *crew, unit *claimed) protocol.Request {
	variant := c.Task.Variants[unit.Variant-1]
	request := tasks.Request(c.Task, variant, c.Targets[unit.Target], unit.Item)
	tasks.Identify(&request, unit.ID, tasks.IdempotencyKey(c.LaunchID, unit.ID, unit.Item))
	if a.turn != nil {
		tasks.Continue(&request, c.Task, variant, a.turn.NextTurn, tasks.SessionID(c.LaunchID, unit.ID))
		request.IsTooLong = request.IsTooLong || a.turn.isTooLong
		c.refer(ctx, unit, &request)
	}
	request.Events, request.RawLimit = a.notes, db.MaxFailedAttemptRaw
	if c.Task.UseStream && (a.isUnstreamed || c.unstreamed.has(unit.Target)) {
		request.Stream = false
		a.notes.Emit(event.Other, event.Data{Name: event.NotStreamed, Attempt: unit.attempt})
	}
	if request.Poll != nil {
		a.followJob(c, unit, &request)
	}
	return request
}

func (a *asking) cut(c *crew, unit *claimed) {
	a.cancelJob(c, unit)
	a.notes.Emit(event.ErrorOccurred, event.Data{
		Code: codeCut, Message: "The call was cut, because its task was stopped or its worker left",
		Attempt: unit.attempt,
	})
}

func (a *asking) failed(c *crew, unit *claimed, answer protocol.Answer, started time.Time, wait time.Duration) {
	a.attempts = a.attempts.With(failedAttempt(unit, answer, started))
	a.forgetJob(c, unit)
	a.tellEnd(unit, answer)
	a.notes.Emit(event.Retry, event.Data{Attempt: unit.attempt + 1, WaitMS: int(wait.Milliseconds())})
}

// failedAttempt describes a failed attempt that will be retried.
func failedAttempt(unit *claimed, answer protocol.Answer, started time.Time) db.FailedAttempt {
	one := db.FailedAttempt{
		Attempt: unit.attempt, StartedAt: started.UTC(), LatencyMS: int(answer.Latency.Milliseconds()),
		ErrorCode: answer.ErrorCode, ErrorMessage: answer.ErrorMessage, Body: string(answer.Raw),
	}
	if answer.HTTPStatus != 0 {
		one.HTTPStatus = &answer.HTTPStatus
	}
	return one
}

// tellEnd records in an event how an attempt ended.
func (a *asking) tellEnd(unit *claimed, answer protocol.Answer) {
	if answer.Status == protocol.Succeeded {
		a.notes.Emit(event.TaskCompleted, event.Data{Code: string(answer.Status), Attempt: unit.attempt})
		return
	}
	a.notes.Emit(event.ErrorOccurred, event.Data{Code: answer.ErrorCode, Message: answer.ErrorMessage,
		Attempt: unit.attempt})
}

// end turns the answer into a result, and prepares for the next turn of a conversation.
func (a *asking) end(c *crew, unit *claimed, answer protocol.Answer) (result *engine.Result, isParked bool) {
	outcome := newResult(unit.Unit, answer, unit.attempt)
	outcome.FailedAttempts, outcome.TraceID, outcome.AgentTraceID = a.attempts, a.traceID, answer.AgentTraceID
	a.tellEnd(unit, answer)
	silence := a.notes.LongestSilence()
	outcome.LongestSilenceMS, outcome.Assets = &silence, a.notes.Assets()
	if a.turn != nil {
		outcome.Turn = c.endTurn(a.turn, answer, a.conversationID)
	}
	if outcome.Status == db.RunSucceeded {
		outcome.HasJudges = len(c.Judges) > 0
		if c.Rules.Any() {
			c.judge(&outcome, answer)
		}
	}
	a.turn, a.attempts, a.isUnstreamed = nil, nil, false
	return &outcome, false
}

func (a *asking) close() {
	if a.notes != nil {
		a.notes.Close()
	}
}

// judge has the task's evaluators judge an answer. If that panics, the answer is recorded without verdicts.
func (c *crew) judge(result *engine.Result, answer protocol.Answer) {
	subject := evaluate.Subject{
		Answer: string(answer.Text), Values: tasks.Values(result.Unit.Item, c.Task.VariableNames),
		LatencyMS: result.LatencyMS, Tokens: result.TotalTokens,
	}
	// An answer that arrived is judged even while the worker shuts down. Judge returns no error other than the
	// context's.
	ctx := context.WithoutCancel(c.calls)
	c.contain("judge an answer", func() {
		result.Evaluations, result.Passed, result.Score, _ = c.Rules.Judge(ctx, subject)
	})
}

func newResult(unit db.Unit, answer protocol.Answer, attempts int) engine.Result {
	result := engine.Result{
		Unit: unit, Status: db.RunStatus(answer.Status), Response: answer.Text, Reasoning: answer.Reasoning,
		LatencyMS: int(answer.Latency.Milliseconds()), Attempts: attempts,
		ErrorCode: answer.ErrorCode, ErrorMessage: answer.ErrorMessage, FinishReason: string(answer.Finish),
		InputTokens: answer.Usage.Input, OutputTokens: answer.Usage.Output, ReasoningTokens: answer.Usage.Reasoning,
		TotalTokens: answer.Usage.Total,
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
