package rest

import (
	"wending/jobs/evaluate"
	"wending/jobs/export"
	"wending/jobs/library"
	"wending/views/text"
)

// NewEvaluation returns the verdict of a rule that is tried out.
func NewEvaluation(locale text.Locale, kind evaluate.Kind, v evaluate.Verdict) export.Evaluation {
	e := export.Evaluation{Kind: string(kind), Status: string(v.Status), Score: v.Score, Passed: v.Passed,
		Reason: locale.Reason(v.Reason)}
	if v.ErrorCode != "" {
		message := locale.Reason(v.ErrorMessage)
		e.ErrorCode, e.Error = &v.ErrorCode, &message
	}
	return e
}

// NewJudgement returns the result of trying out a judge.
func NewJudgement(locale text.Locale, tried library.TriedJudge) export.Evaluation {
	latency := int(tried.Latency.Milliseconds())
	e := export.Evaluation{
		Kind: string(evaluate.Judge), Status: string(evaluate.Succeeded), Score: &tried.Score, Passed: tried.Passed,
		Ratings:   tried.Ratings,
		IsDefault: tried.IsDefault, Reason: tried.Reason, LatencyMS: &latency, Input: tried.Usage.Input,
		Output: tried.Usage.Output, Total: tried.Usage.Total,
	}
	if tried.ErrorCode != "" {
		message := locale.Reason(tried.ErrorMessage)
		e.ErrorCode, e.Error = &tried.ErrorCode, &message
	}
	return e
}
