package export

import (
	"bufio"
	"encoding/json"
	"io"
	"unicode/utf8"

	"wending/db/measure"
)

// JSONL writes a report as one JSON object per line, one for each item, with exact texts.
type JSONL struct {
	report  Report
	w       *bufio.Writer
	encoder *json.Encoder
	// line is the item being collected, whose variants come one after another.
	line *jsonItem
}

// NewJSONL begins a report.
func NewJSONL(w io.Writer, report Report) *JSONL {
	j := &JSONL{report: report, w: bufio.NewWriterSize(w, 32<<10)}
	j.encoder = json.NewEncoder(j.w)
	j.encoder.SetEscapeHTML(false)
	return j
}

type jsonItem struct {
	QuestionID     string            `json:"question_id"`
	Question       string            `json:"question"`
	StandardAnswer string            `json:"standard_answer"`
	SystemPrompt   *string           `json:"system_prompt"`
	UserContext    *string           `json:"user_context"`
	Variables      map[string]string `json:"variables,omitempty"`
	Series         *string           `json:"series,omitempty"`
	Turn           *int              `json:"turn,omitempty"`
	Number         int               `json:"number"`
	Level          *string           `json:"level"`
	Agreement      *float64          `json:"agreement"`
	Similarity     *float64          `json:"similarity"`
	Distinct       *int              `json:"distinct"`
	Letters        *string           `json:"letters"`
	Novelty        *float64          `json:"novelty"`
	jsonFacts
	Variants    []jsonVariant `json:"variants"`
	Runs        []jsonRun     `json:"runs"`
	Reviews     []jsonReview  `json:"reviews,omitempty"`
	Pairs       []Pair        `json:"pairs,omitempty"`
	CreatedAt   string        `json:"created_at"`
	CompletedAt *string       `json:"completed_at"`
}

type jsonVariant struct {
	Number     int      `json:"number"`
	Name       string   `json:"name"`
	Level      *string  `json:"level"`
	Agreement  *float64 `json:"agreement"`
	Similarity *float64 `json:"similarity"`
	Distinct   *int     `json:"distinct"`
	Letters    *string  `json:"letters"`
	Novelty    *float64 `json:"novelty"`
	// Meaning holds the groups of the answers by meaning; absent while they are unknown.
	Meaning *Meaning `json:"meaning,omitempty"`
	jsonFacts
}

// jsonFacts are the facts on which answers differ, and the facts of the standard answer that answers contradict.
type jsonFacts struct {
	FactsDiffer *string                `json:"facts_differ"`
	Facts       []measure.Fact         `json:"facts"`
	Expected    []measure.ExpectedFact `json:"expected_facts"`
}

type jsonReview struct {
	Variant  int    `json:"variant"`
	RunIndex *int   `json:"run_index"`
	Reviewer string `json:"reviewer"`
	Verdict  string `json:"verdict"`
	// Reasons are codes, or the texts of a project's own reasons.
	Reasons []string `json:"reasons"`
	Note    string   `json:"note"`
	// Ratings are keyed by dimension; absent without any.
	Ratings    map[string]any `json:"ratings,omitempty"`
	Version    int            `json:"version"`
	IsOutdated bool           `json:"is_outdated"`
	CreatedAt  string         `json:"created_at"`
	// CarriedBy is the name of the person who took the verdict over from an earlier task, whose id is CarriedFrom.
	CarriedBy       string `json:"carried_by,omitempty"`
	CarriedFrom     string `json:"carried_from,omitempty"`
	CarriedFromName string `json:"carried_from_name,omitempty"`
}

type jsonRun struct {
	Variant  int `json:"variant"`
	RunIndex int `json:"run_index"`
	// SessionID is the conversation's id.
	SessionID string  `json:"session_id,omitempty"`
	Output    *string `json:"output"`
	// OutputBase64 has the exact bytes if the output is not valid UTF-8.
	OutputBase64    []byte  `json:"output_base64,omitempty"`
	Status          string  `json:"status"`
	LatencyMS       *int    `json:"latency_ms"`
	*jsonError              // nil omits these members
	FinishReason    *string `json:"finish_reason"`
	TraceID         *string `json:"trace_id"`
	AgentTraceID    *string `json:"agent_trace_id"`
	InputTokens     *int    `json:"input_tokens"`
	OutputTokens    *int    `json:"output_tokens"`
	ReasoningTokens *int    `json:"reasoning_tokens"`
	TotalTokens     *int    `json:"total_tokens"`
	Cost            *string `json:"cost"`
	Currency        *string `json:"currency"`
	FirstTokenMS    *int    `json:"first_token_ms"`
	// Evaluations are the verdicts of evaluators.
	Evaluations []Evaluation `json:"evaluations"`
	// Assets are the files that the agent produced.
	Assets []Asset `json:"assets,omitempty"`
}

type jsonError struct {
	ErrorCode    *string `json:"error_code"`
	ErrorMessage *string `json:"error_message"`
	// FailedAttempts are the attempts before the last.
	FailedAttempts []FailedAttempt `json:"failed_attempts"`
}

// variables returns an item's values keyed by name; nil if there are none.
func (r Report) variables(item Item) map[string]string {
	if len(item.Variables) == 0 {
		return nil
	}
	variables := make(map[string]string, len(item.Variables))
	for n, value := range item.Variables {
		variables[r.VariableNames[n]] = value
	}
	return variables
}

// runOf returns a run in the form of the report's lines.
func (j *JSONL) runOf(variant Variant, run Run) jsonRun {
	out := jsonRun{
		SessionID: run.SessionID, Variant: variant.Number, RunIndex: run.Index, Output: run.Response, Status: run.Status,
		LatencyMS: run.LatencyMS, FinishReason: run.FinishReason, TraceID: run.TraceID,
		AgentTraceID: run.AgentTraceID, InputTokens: run.InputTokens,
		OutputTokens: run.OutputTokens, ReasoningTokens: run.ReasoningTokens, TotalTokens: run.TotalTokens,
		Cost: run.Cost, FirstTokenMS: run.FirstTokenMS, Evaluations: append([]Evaluation{}, run.Evaluations...),
		Assets: run.Assets,
	}
	if run.Cost != nil && variant.Currency != "" {
		out.Currency = &variant.Currency
	}
	if run.Exact != nil {
		if utf8.Valid(run.Exact) { // the only fault was a NUL, which JSON can represent
			exact := string(run.Exact)
			out.Output = &exact
		} else {
			out.OutputBase64 = run.Exact
		}
	}
	if j.report.IncludeErrors {
		out.jsonError = &jsonError{run.ErrorCode, run.ErrorMessage, append([]FailedAttempt{}, run.FailedAttempts...)}
	}
	return out
}

// Write adds an item, or one more variant of the last item.
func (j *JSONL) Write(item Item) error {
	if j.line != nil && j.line.QuestionID != item.QuestionID {
		if err := j.flush(); err != nil {
			return err
		}
	}
	if j.line == nil {
		j.line = j.begin(item)
	}
	line := j.line
	var level, letters, differ *string
	if item.Level != "" {
		level, letters = &item.Level, &item.Letters
	}
	if item.FactsDiffer != "" {
		differ = &item.FactsDiffer
	}
	facts := jsonFacts{differ, append([]measure.Fact{}, item.Facts...), append([]measure.ExpectedFact{}, item.Expected...)}
	if len(j.report.Variants) <= 1 {
		line.Level, line.Agreement, line.Similarity, line.Distinct, line.Letters = level, item.Agreement, item.Similarity,
			item.Distinct, letters
		line.Novelty, line.jsonFacts = item.Novelty, facts
	}
	variant := j.report.variant(item)
	line.Variants = append(line.Variants, jsonVariant{
		variant.Number, variant.Name, level, item.Agreement, item.Similarity, item.Distinct, letters, item.Novelty,
		item.Meaning, facts,
	})
	for _, run := range j.report.runs(item) {
		if run.Status == "" { // not planned
			break
		}
		line.Runs = append(line.Runs, j.runOf(variant, run))
	}
	for _, r := range item.Reviews {
		line.Reviews = append(line.Reviews, jsonReview{
			r.Variant, r.RunIndex, r.Reviewer, r.Verdict, append([]string{}, r.Reasons...), r.Note, r.Ratings,
			r.Version, r.IsOutdated, BeijingTime(r.CreatedAt), r.CarriedBy, r.CarriedFrom, r.CarriedFromName,
		})
	}
	line.Pairs = append(line.Pairs, item.Pairs...)
	if len(line.Variants) >= len(j.report.Variants) { // after its last variant, the item can be written
		return j.flush()
	}
	return nil
}

// begin returns an item in the form of the report's lines, without its runs.
func (j *JSONL) begin(item Item) *jsonItem {
	line := &jsonItem{
		QuestionID: item.QuestionID, Question: item.Question, StandardAnswer: item.StandardAnswer,
		SystemPrompt: item.SystemPrompt, UserContext: item.UserContext, Variables: j.report.variables(item),
		Series: item.Series, Turn: item.Turn, Number: item.Number, CreatedAt: BeijingTime(j.report.CreatedAt),
		Runs: []jsonRun{},
	}
	if j.report.CompletedAt != nil {
		completed := BeijingTime(*j.report.CompletedAt)
		line.CompletedAt = &completed
	}
	return line
}

func (j *JSONL) flush() error {
	line := j.line
	j.line = nil
	if line == nil {
		return nil
	}
	return j.encoder.Encode(line)
}

// Close ends the report.
func (j *JSONL) Close() error {
	if err := j.flush(); err != nil {
		return err
	}
	return j.w.Flush()
}
