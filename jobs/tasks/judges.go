package tasks

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/agent/protocol"
	"wending/jobs/evaluate"
)

// NewEvaluator is an evaluator of a new task. Model is the model that a judge calls; nil for a rule.
type NewEvaluator struct {
	db.Evaluator
	Model *NewTarget
}

// BareEvaluators returns the evaluators of a new task, without the judges' models.
func (n New) BareEvaluators() []db.Evaluator {
	bare := make([]db.Evaluator, len(n.Evaluators))
	for place, evaluator := range n.Evaluators {
		bare[place] = evaluator.Evaluator
	}
	return bare
}

// JudgeCalls returns how many calls to judges the task makes at its start if every call to its targets succeeds,
// without retries.
func (n New) JudgeCalls() (calls int) {
	for _, evaluator := range n.Evaluators {
		if evaluator.Model == nil {
			continue
		}
		calls += n.Calls() * votesOf(evaluator)
	}
	return calls
}

// votesOf returns the number of times that a judge rates an answer; 0 if its configuration is not valid.
func votesOf(evaluator NewEvaluator) int {
	read, err := evaluate.ParseJudge(evaluator.Config)
	if err != nil {
		return 0
	}
	return read.Votes
}

// Judges are a task's judges, keyed by evaluator number.
type Judges map[int]evaluate.LLMJudge

// JudgesOf parses the judges of a task's evaluators. A judge that this version of the program cannot parse has no
// dimensions, so that nothing in its replies counts as a rating.
func JudgesOf(task db.Task) Judges {
	judges := Judges{}
	for _, evaluator := range task.Evaluators {
		if !evaluator.IsJudge() {
			continue
		}
		read, err := evaluate.ParseJudge(evaluator.Config)
		if err != nil {
			read = evaluate.LLMJudge{Votes: 1}
		}
		judges[evaluator.Number] = read
	}
	return judges
}

// withTemperature returns a payload with a judge's temperature, in the member that the protocol uses for it.
func withTemperature(payload json.RawMessage, spoken string, temperature *float64) (json.RawMessage, error) {
	if temperature == nil {
		return payload, nil
	}
	members := map[string]any{}
	if len(payload) > 0 {
		if err := json.Unmarshal(payload, &members); err != nil {
			return nil, err
		}
	}
	if spoken == "ollama" {
		options, _ := members["options"].(map[string]any)
		if options == nil {
			options = map[string]any{}
		}
		options["temperature"] = *temperature
		members["options"] = options
	} else {
		members["temperature"] = *temperature
	}
	return json.Marshal(members)
}

// JudgeTarget returns the target of a judge, which calls a saved model.
func JudgeTarget(model NewTarget, config json.RawMessage) (NewTarget, error) {
	read, err := evaluate.ParseJudge(config)
	if err != nil {
		return model, err
	}
	model.Kind = db.TargetJudge
	model.Secrets.Payload, err = withTemperature(model.Secrets.Payload, model.Protocol, read.Temperature)
	return model, err
}

// The values for a judge's template that come from answers and not from the dataset: the answer to judge, and the
// earlier turns of its conversation.
const (
	valueOfAnswer  = "answer"
	valueOfHistory = "history"
)

// Subject returns the values for the template of a unit's judge, including the answer that it rates and the
// conversation before it.
func Subject(ctx context.Context, store *db.Store, task db.Task, unit db.Unit) (values map[string]string, err error) {
	run, err := engine.NewEvaluations(store).Subject(ctx, *unit.SubjectRunID, evaluate.MaxText)
	if err != nil {
		return nil, err
	}
	values = Values(unit.Item, task.VariableNames)
	values[valueOfAnswer], values["expected"], values[valueOfHistory] = TextOf(run.Response), unit.StandardAnswer, ""
	if unit.Series == nil {
		return values, nil
	}
	turn, _, err := engine.NewConversations(store).HistoryOf(ctx, run, task.ID, protocol.MaxRendered)
	for _, exchange := range turn.History {
		values[valueOfHistory] += fmt.Sprintf("user: %s\n\nassistant: %s\n\n", exchange.Question, exchange.Answer)
	}
	return values, err
}

// AskJudge returns the request for one of a judge's votes, which are numbered from 1.
func AskJudge(task db.Task, target db.Target, secrets Target, asked evaluate.LLMJudge, values map[string]string,
	launchID uuid.UUID, unitID int64, vote int) protocol.Request {
	texts := asked.Ask(values, markOf(launchID, unitID))
	return askModel(task, target, secrets, texts, unitID, fmt.Sprintf("wending-%s-%d-%d", launchID, unitID, vote))
}

// rulesAtOnce is the number of questions whose answers the rules judge in one batch; ruledText is the maximum number of
// characters of an answer that they see.
const (
	rulesAtOnce = 20
	ruledText   = 1 << 20
)

// EvaluateRules has the rules of an EVALUATE launch that is PENDING judge the answers of its task, and reports
// whether they judged all of them before isLeaving returned true. It may be called by several processes at once, and
// continues where an earlier call ended.
func EvaluateRules(ctx context.Context, store *db.Store, launchID uuid.UUID,
	isLeaving func() bool) (judged bool, err error) {
	evaluations := engine.NewEvaluations(store)
	asked, err := evaluations.Asked(ctx, launchID)
	if err != nil || len(asked.Evaluators) == 0 {
		return err == nil, err
	}
	task, err := store.Task(ctx, db.AllProjects(), asked.TaskID)
	if err != nil {
		return false, err
	}
	all, err := RulesOf(ctx, task)
	if err != nil {
		return false, err
	}
	rules := all.only(asked.Evaluators)
	if len(rules.rules) == 0 {
		return true, nil
	}
	for !isLeaving() {
		items, err := evaluations.NextToRule(ctx, launchID, rulesAtOnce)
		if err != nil || len(items) == 0 {
			return err == nil, err
		}
		if err := rules.judgeItems(ctx, store, task, launchID, items); err != nil {
			return false, err
		}
	}
	return false, nil
}
