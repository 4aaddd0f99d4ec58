package tasks

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/report"
	"wending/jobs/evaluate"
	"wending/jobs/export"
)

// Rules are the rules that judge a task's answers, in the order of their numbers.
type Rules struct {
	rules []rule
	// isAll reports that the task has no other evaluators.
	isAll bool
}

type rule struct {
	number int
	*evaluate.Rule
	// err is why the rule cannot be used.
	err error
}

// RulesOf compiles the rules of a task's evaluators. Judges are not rules. The only error is the context's.
func RulesOf(ctx context.Context, task db.Task) (Rules, error) {
	rules := Rules{isAll: true}
	for _, evaluator := range task.Evaluators {
		if evaluator.IsJudge() {
			rules.isAll = false
			continue
		}
		one := rule{number: evaluator.Number}
		one.Rule, one.err = evaluate.Compile(ctx, evaluate.Kind(evaluator.Kind), evaluator.Config)
		if ctx.Err() != nil {
			return Rules{}, ctx.Err()
		}
		rules.rules = append(rules.rules, one)
	}
	return rules, nil
}

// only selects rules by their numbers.
func (r Rules) only(numbers []int64) (some Rules) {
	for _, rule := range r.rules {
		if slices.Contains(numbers, int64(rule.number)) {
			some.rules = append(some.rules, rule)
		}
	}
	return some
}

// Any reports whether there is a rule.
func (r Rules) Any() bool { return len(r.rules) > 0 }

// Judge judges an answer. passed is nil unless every evaluator of the task has a verdict; score is the mean of the
// scores, nil if there is none. The only error is the context's.
func (r Rules) Judge(ctx context.Context,
	subject evaluate.Subject) (evaluations []db.Evaluation, passed *bool, score *float64, err error) {
	haveAll, areAllPassed, sum, scores := r.isAll && r.Any(), true, 0.0, 0
	var usable []*evaluate.Rule
	for _, rule := range r.rules {
		if rule.err == nil {
			usable = append(usable, rule.Rule)
		}
	}
	verdicts, err := evaluate.EvaluateAll(ctx, usable, subject)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, rule := range r.rules {
		verdict := evaluate.Verdict{Status: evaluate.Failed, ErrorCode: evaluate.CodeRule}
		if rule.err == nil {
			verdict, verdicts = verdicts[0], verdicts[1:]
		} else {
			verdict.ErrorMessage = evaluate.Explain(rule.err)
		}
		evaluations = append(evaluations, db.Evaluation{
			Number: rule.number, Status: string(verdict.Status), Score: verdict.Score, Passed: verdict.Passed,
			Reason:    verdict.Reason,
			ErrorCode: verdict.ErrorCode, ErrorMessage: verdict.ErrorMessage,
		})
		if verdict.Passed == nil {
			haveAll = false
		} else {
			areAllPassed = areAllPassed && *verdict.Passed
		}
		if verdict.Score != nil {
			sum, scores = sum+*verdict.Score, scores+1
		}
	}
	if haveAll {
		passed = &areAllPassed
	}
	if scores > 0 {
		mean := sum / float64(scores)
		score = &mean
	}
	return evaluations, passed, score, nil
}

// judgeItems has the rules judge the current answers to items, and stores their verdicts.
func (r Rules) judgeItems(ctx context.Context, store *db.Store, task db.Task, launchID uuid.UUID, ids []int64) error {
	results := report.New(store)
	items, err := results.ItemsByID(ctx, ids)
	if err != nil {
		return err
	}
	byID := map[int64]db.Item{}
	for _, item := range items {
		byID[item.ID] = item
	}
	var ruled []engine.Ruled
	err = results.EachAnswer(ctx, ids, ruledText, func(run db.Run) error {
		subject := evaluate.Subject{Answer: TextOf(run.Response), Values: Values(byID[run.ItemID], task.VariableNames),
			Tokens: run.TotalTokens}
		if run.LatencyMS != nil {
			subject.LatencyMS = *run.LatencyMS
		}
		evaluations, _, _, err := r.Judge(ctx, subject)
		if err != nil {
			return err
		}
		ruled = append(ruled, engine.Ruled{RunID: run.ID, Evaluations: evaluations})
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return engine.NewRecorder(store).Rules(ctx, launchID, task.ID, slices.Max(ids), ruled)
}

// Verdicts returns the verdicts of a task's evaluators on a run, with the reasons formatted by say.
func Verdicts(evaluations db.Evaluations, evaluators []db.Evaluator,
	say func(reason string) string) []export.Evaluation {
	list := make([]export.Evaluation, 0, len(evaluations))
	for _, one := range evaluations {
		if one.Number < 1 || one.Number > len(evaluators) {
			continue
		}
		evaluator := evaluators[one.Number-1]
		e := export.Evaluation{
			Number: one.Number, EvaluatorID: &evaluator.EvaluatorID, Version: &evaluator.Version, Name: evaluator.Name,
			Kind:   evaluator.Kind,
			Status: one.Status, Score: one.Score, Passed: one.Passed, Reason: say(one.Reason),
		}
		if one.Version != nil {
			e.Version = one.Version
		}
		e.Ratings, e.IsDefault, e.LatencyMS, e.Cost = one.Ratings, one.IsDefault, one.LatencyMS, one.Cost
		e.Input, e.Output, e.Total = one.InputTokens, one.OutputTokens, one.TotalTokens
		if one.ErrorCode != "" {
			message := say(one.ErrorMessage)
			e.ErrorCode, e.Error = &one.ErrorCode, &message
		}
		list = append(list, e)
	}
	return list
}

// FailedAttempts returns the failed attempts of a run as reports and the API show them.
func FailedAttempts(of db.FailedAttempts) []export.FailedAttempt {
	attempts := make([]export.FailedAttempt, len(of))
	for n, one := range of {
		attempts[n] = export.FailedAttempt{
			Attempt: one.Attempt, StartedAt: export.BeijingTime(one.StartedAt), LatencyMS: one.LatencyMS,
			ErrorCode: one.ErrorCode, ErrorMessage: one.ErrorMessage, HTTPStatus: one.HTTPStatus, Body: one.Body,
		}
	}
	return attempts
}
