package crew

import (
	"context"
	"time"

	"wending/db/engine"
	"wending/jobs/agent/protocol"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// grouping groups a question's answers by meaning, with one call to a model and, if the reply is not certain, a
// second one.
type grouping struct {
	plain
	// grouper groups the answers; nil until they are read.
	grouper *evaluate.Grouper
	// refusal is the outcome of all calls if the answers must not be sent; nil if they may be.
	refusal *protocol.Answer
	replies []evaluate.Reply
	// result accumulates the outcome of the calls; its keys are the keys of the answers.
	result engine.Grouping
	said   said
}

// prepare reads the answers to group, once. A unit whose question no longer has answers must be returned.
func (g *grouping) prepare(c *crew, unit *claimed) (may, isParked bool) {
	if g.grouper != nil {
		return true, false
	}
	answers, err := engine.NewEvaluations(c.Store).Answers(c.calls, unit.Item.ID, evaluate.MaxText)
	switch {
	case err != nil:
		c.Log.WarnContext(c.calls, "answers to group not read, will retry", "unit_id", unit.ID, "error", err)
		c.supply.park(*unit, time.Second)
		return false, true
	case len(answers) == 0:
		return false, false
	}
	texts := make([]string, len(answers))
	for n, answer := range answers {
		texts[n] = answer.Text
		g.result.Keys = append(g.result.Keys, answer.Key)
	}
	g.grouper = tasks.Grouper(unit.Item, texts, c.LaunchID)
	g.refusal = c.Screen.RefuseAnswers(c.calls, unit.Item.Question, texts)
	return true, false
}

// call asks the model for groups; the second call lists the answers in reverse order.
func (g *grouping) call(ctx context.Context, c *crew, unit *claimed) protocol.Answer {
	if g.refusal != nil {
		return *g.refusal
	}
	request := tasks.AskGrouper(c.Task, c.Targets[unit.Target], g.grouper, c.LaunchID, unit.Unit, g.result.Calls > 0)
	return c.send(ctx, c.Models, callsGrouper, unit, request)
}

// end evaluates a model's reply. It returns the final groups, or parks the unit if a second call is needed.
func (g *grouping) end(c *crew, unit *claimed, answer protocol.Answer) (result *engine.Result, isParked bool) {
	isAgain := g.result.Calls > 0
	g.result.Calls++
	g.result.Attempts += unit.attempt
	g.result.LatencyMS += int(answer.Latency.Milliseconds())
	addTokens(&g.result.InputTokens, answer.Usage.Input)
	addTokens(&g.result.OutputTokens, answer.Usage.Output)
	addTokens(&g.result.TotalTokens, answer.Usage.Total)
	g.said.add(answer)
	needsAgain := false
	if answer.Status != protocol.Succeeded {
		g.result.ErrorCode, g.result.ErrorMessage = answer.ErrorCode,
			evaluate.JudgeUnanswered(answer.ErrorCode, answer.ErrorMessage)
	} else if reply, isRead := g.grouper.Read(string(answer.Text), isAgain); isRead {
		g.replies = append(g.replies, reply)
		needsAgain = !isAgain && !g.grouper.IsCertain(reply)
	} else {
		g.result.ErrorCode, g.result.ErrorMessage = evaluate.CodeMeaningUnreadable, evaluate.JudgeUnreadable(answer.Text)
		needsAgain = !isAgain
	}
	if needsAgain {
		unit.begin()
		c.supply.park(*unit, 0)
		return nil, true
	}
	decided := g.grouper.Decide(g.replies)
	for n, group := range decided.Groups {
		g.result.Groups, g.result.Unsure = append(g.result.Groups, int64(group)), append(g.result.Unsure, decided.Unsure[n])
	}
	g.result.Notes, g.result.IsDefault, g.result.Raw = decided.Notes, decided.IsDefault, g.said.text()
	if !decided.IsDefault {
		g.result.ErrorCode, g.result.ErrorMessage = "", ""
	}
	return &engine.Result{Unit: unit.Unit, Grouping: &g.result}, false
}
