package crew

import (
	"context"
	"errors"
	"strings"
	"time"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/agent/protocol"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// plain is embedded in errands whose calls are not recorded as events and do not stream.
type plain struct{}

func (plain) cut(*crew, *claimed)                                               {}
func (plain) fallsBack(*crew, *claimed, protocol.Answer, time.Time) bool        { return false }
func (plain) failed(*crew, *claimed, protocol.Answer, time.Time, time.Duration) {}
func (plain) close()                                                            {}
func (plain) retries(unit *claimed) int                                         { return unit.attempt - 1 }

// judging has a judge rate an answer, with one call per vote.
type judging struct {
	plain
	judge evaluate.LLMJudge
	// values are the values for the judge's template, including the answer; nil until they are read.
	values map[string]string
	// refusal is the outcome of all calls if the values must not be sent; nil if they may be.
	refusal *protocol.Answer
	// votes are the readable votes, and asked is how many votes were requested.
	votes []evaluate.Vote
	asked int
	// result accumulates the outcome of the calls.
	result engine.Judgement
	said   said
}

// prepare reads the answer to rate, once. A unit whose run no longer exists must be returned.
func (j *judging) prepare(c *crew, unit *claimed) (may, isParked bool) {
	if j.values != nil {
		return true, false
	}
	values, err := tasks.Subject(c.calls, c.Store, c.Task, unit.Unit)
	switch {
	case errors.Is(err, db.ErrNotFound):
		return false, false
	case err != nil:
		c.Log.WarnContext(c.calls, "answer to judge not read, will retry", "unit_id", unit.ID, "error", err)
		c.supply.park(*unit, time.Second)
		return false, true
	}
	j.judge, j.values = c.Judges[unit.Evaluator], values
	j.refusal = c.Screen.RefuseAnswer(c.calls, values)
	return true, false
}

// call asks the judge for a vote.
func (j *judging) call(ctx context.Context, c *crew, unit *claimed) protocol.Answer {
	if j.refusal != nil {
		return *j.refusal
	}
	request := tasks.AskJudge(c.Task, c.Task.Target(unit.Target), c.Targets[unit.Target], j.judge, j.values, c.LaunchID,
		unit.ID, j.asked+1)
	return c.send(ctx, c.Models, callsJudge, unit, request)
}

// maxSaid is the maximum stored length, in bytes, of a model's output in one call.
const maxSaid = 20_000

// said collects a model's output, call by call.
type said struct{ all strings.Builder }

func (s *said) add(answer protocol.Answer) {
	if answer.Text == nil {
		return
	}
	if s.all.Len() > 0 {
		s.all.WriteString(evaluate.BetweenReplies)
	}
	s.all.Write(answer.Text[:min(len(answer.Text), maxSaid)])
}

func (s *said) text() string { return strings.ToValidUTF8(s.all.String(), "\uFFFD") }

// end evaluates a judge's reply. It returns the verdict once all votes are in; until then it parks the unit.
func (j *judging) end(c *crew, unit *claimed, answer protocol.Answer) (result *engine.Result, isParked bool) {
	j.asked++
	j.result.Attempts += unit.attempt
	j.result.LatencyMS += int(answer.Latency.Milliseconds())
	addTokens(&j.result.InputTokens, answer.Usage.Input)
	addTokens(&j.result.OutputTokens, answer.Usage.Output)
	addTokens(&j.result.TotalTokens, answer.Usage.Total)
	j.said.add(answer)
	switch {
	case answer.Status != protocol.Succeeded:
		j.result.ErrorCode, j.result.ErrorMessage = answer.ErrorCode,
			evaluate.JudgeUnanswered(answer.ErrorCode, answer.ErrorMessage)
	default:
		if vote, isRead := j.judge.Read(string(answer.Text)); isRead {
			j.votes = append(j.votes, vote)
		} else if j.result.ErrorCode == "" {
			j.result.ErrorCode, j.result.ErrorMessage = evaluate.CodeJudgeUnreadable, evaluate.JudgeUnreadable(answer.Text)
		}
	}
	if j.asked < j.judge.Votes {
		unit.begin()
		c.supply.park(*unit, 0)
		return nil, true
	}
	verdict := j.judge.Decide(j.votes)
	j.result.Score, j.result.Passed, j.result.Ratings, j.result.IsDefault = verdict.Score, verdict.Passed, verdict.Ratings,
		verdict.IsDefault
	j.result.Reason, j.result.Raw = verdict.Reason, j.said.text()
	if j.judge.Votes > 1 {
		for _, vote := range j.votes {
			j.result.Votes = append(j.result.Votes, vote.Score())
		}
	}
	if !verdict.IsDefault {
		j.result.ErrorCode, j.result.ErrorMessage = "", ""
	}
	return &engine.Result{Unit: unit.Unit, Judgement: &j.result}, false
}

// addTokens adds a number of tokens to a sum. nil means unknown; an unknown number leaves the sum unchanged.
func addTokens(sum **int, tokens *int) {
	if tokens == nil {
		return
	}
	total := *tokens
	if *sum != nil {
		total += **sum
	}
	*sum = &total
}
