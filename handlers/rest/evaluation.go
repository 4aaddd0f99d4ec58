package rest

import (
	"wending/db"
	"wending/jobs/evaluate"
	"wending/jobs/export"
	"wending/jobs/library"
)

// NewEvaluation is the verdict of a rule that is tried out.
func NewEvaluation(kind evaluate.Kind, v evaluate.Verdict) export.Evaluation {
	e := export.Evaluation{Kind: string(kind), Status: string(v.Status), Score: v.Score, Passed: v.Passed, Reason: v.Reason}
	if v.ErrorCode != "" {
		e.ErrorCode, e.Error = &v.ErrorCode, &v.ErrorMessage
	}
	return e
}

// NewJudgement is what a judge says that is tried out.
func NewJudgement(tried library.TriedJudge) export.Evaluation {
	latency := int(tried.Latency.Milliseconds())
	e := export.Evaluation{
		Kind: string(evaluate.Judge), Status: string(evaluate.Succeeded), Score: &tried.Score, Passed: tried.Passed, Ratings: tried.Ratings,
		IsDefault: tried.IsDefault, Reason: tried.Reason, LatencyMS: &latency, Input: tried.Usage.Input, Output: tried.Usage.Output, Total: tried.Usage.Total,
	}
	if tried.ErrorCode != "" {
		e.ErrorCode, e.Error = &tried.ErrorCode, &tried.ErrorMessage
	}
	return e
}

// NewEvaluations are what a task's evaluators say of a run.
func NewEvaluations(evaluations db.Evaluations, evaluators []db.Evaluator) []export.Evaluation {
	list := make([]export.Evaluation, 0, len(evaluations))
	for _, one := range evaluations {
		if one.Number < 1 || one.Number > len(evaluators) {
			continue
		}
		evaluator := evaluators[one.Number-1]
		e := export.Evaluation{
			Number: one.Number, EvaluatorID: &evaluator.EvaluatorID, Version: &evaluator.Version, Name: evaluator.Name, Kind: evaluator.Kind,
			Status: one.Status, Score: one.Score, Passed: one.Passed, Reason: one.Reason,
		}
		if one.Version != nil {
			e.Version = one.Version
		}
		e.Ratings, e.IsDefault, e.LatencyMS, e.Cost = one.Ratings, one.IsDefault, one.LatencyMS, one.Cost
		e.Input, e.Output, e.Total = one.InputTokens, one.OutputTokens, one.TotalTokens
		if one.ErrorCode != "" {
			e.ErrorCode, e.Error = &one.ErrorCode, &one.ErrorMessage
		}
		list = append(list, e)
	}
	return list
}
