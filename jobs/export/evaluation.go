package export

import (
	"strconv"

	"github.com/google/uuid"
)

// Evaluation is an evaluator's verdict on an answer.
type Evaluation struct {
	// Number is the evaluator's number within the task, from 1.
	Number      int                `json:"-"`
	EvaluatorID *uuid.UUID         `json:"evaluator_id" doc:"Id of the evaluator; null for a test of an unsaved evaluator"`
	Version     *int               `json:"version" example:"1"`
	Name        string             `json:"name" example:"答案一致"`
	Kind        string             `json:"kind" values:"evaluators" example:"exact"`
	Status      string             `json:"status" values:"verdicts" doc:"SKIPPED: the expected value is blank"`
	Score       *float64           `json:"score" doc:"Score, 0–1; null without a verdict" example:"1"`
	Passed      *bool              `json:"passed" doc:"null without a verdict"`
	Ratings     map[string]float64 `json:"ratings" doc:"A judge's ratings by dimension, 0–100; null for rules"`
	IsDefault   bool               `json:"is_default" doc:"True if the ratings are the defaults, because the judge gave none"`
	Reason      string             `json:"reason" doc:"Why the answer did not pass; for a judge, its reason" example:"“41” ≠ “42”"`
	LatencyMS   *int               `json:"latency_ms" doc:"Milliseconds; null for rules, as are tokens and cost"`
	Input       *int               `json:"input_tokens"`
	Output      *int               `json:"output_tokens"`
	Total       *int               `json:"total_tokens"`
	Cost        *string            `json:"cost"`
	ErrorCode   *string            `json:"error_code"`
	Error       *string            `json:"error_message"`
}

// FailedAttempt is an attempt of a call that failed and was followed by another.
type FailedAttempt struct {
	Attempt      int    `json:"attempt" doc:"Number of the attempt, from 1" example:"1"`
	StartedAt    string `json:"started_at" format:"date-time" doc:"RFC 3339, +08:00" example:"2026-11-21T22:55:08+08:00"`
	LatencyMS    int    `json:"latency_ms" doc:"Milliseconds" example:"812"`
	ErrorCode    string `json:"error_code" example:"HTTP_502"`
	ErrorMessage string `json:"error_message"`
	HTTPStatus   *int   `json:"http_status" doc:"HTTP status; null if there was no response" example:"502"`
	Body         string `json:"body" doc:"The beginning of the response; together with error_message at most 1,800 bytes"`
}

// Evaluator is one of the evaluators of a task.
type Evaluator struct {
	Number int
	// Column is the name of the evaluator's columns, unique within the task.
	Column string
}

// evaluationCells returns the cells for an evaluator's score, verdict and reason; they are empty if it did not evaluate
// the answer.
func evaluationCells(evaluations []Evaluation, number int) []string {
	for _, one := range evaluations {
		if one.Number != number {
			continue
		}
		cells := []string{"", "", one.Reason}
		if one.Score != nil {
			cells[0] = strconv.FormatFloat(*one.Score, 'g', -1, 64)
		}
		if one.Passed != nil {
			cells[1] = strconv.FormatBool(*one.Passed)
		}
		return cells
	}
	return []string{"", "", ""}
}
