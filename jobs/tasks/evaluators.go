package tasks

import (
	"wending/db"
	"wending/jobs/evaluate"
)

// MaxEvaluators is how many evaluators may judge a task's answers.
const MaxEvaluators = 10

// CodeRule marks an evaluation by a rule that this version of the program cannot use.
const CodeRule = "EVALUATOR_INVALID"

// Rules are the rules that judge a task's answers, in the order of their numbers.
type Rules []rule

type rule struct {
	number int
	*evaluate.Rule
	// err is why the rule cannot be used.
	err error
}

// RulesOf makes the rules of a task's evaluators.
func RulesOf(task db.Task) Rules {
	rules := make(Rules, len(task.Evaluators))
	for n, evaluator := range task.Evaluators {
		rules[n].number = evaluator.Number
		rules[n].Rule, rules[n].err = evaluate.Compile(evaluate.Kind(evaluator.Kind), evaluator.Config)
	}
	return rules
}

// Judge judges an answer. passed is nil unless every rule has a verdict; score is the mean of the scores, nil if there is
// none.
func (r Rules) Judge(subject evaluate.Subject) (evaluations []db.Evaluation, passed *bool, score *float64) {
	haveAll, areAllPassed, sum, scores := len(r) > 0, true, 0.0, 0
	var usable []*evaluate.Rule
	for _, rule := range r {
		if rule.err == nil {
			usable = append(usable, rule.Rule)
		}
	}
	verdicts := evaluate.EvaluateAll(usable, subject)
	for _, rule := range r {
		verdict := evaluate.Verdict{Status: evaluate.Failed, ErrorCode: CodeRule}
		if rule.err == nil {
			verdict, verdicts = verdicts[0], verdicts[1:]
		} else {
			verdict.ErrorMessage = rule.err.Error()
		}
		evaluations = append(evaluations, db.Evaluation{
			Number: rule.number, Status: string(verdict.Status), Score: verdict.Score, Passed: verdict.Passed, Reason: verdict.Reason,
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
	return evaluations, passed, score
}
