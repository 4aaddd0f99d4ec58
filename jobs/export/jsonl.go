package export

import (
	"bufio"
	"encoding/json"
	"io"
	"unicode/utf8"

	"wending/jobs/beijing"
)

// JSONL writes a report as one JSON object a line, one line an item, with every text exact.
type JSONL struct {
	report  Report
	w       *bufio.Writer
	encoder *json.Encoder
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
	Number         int               `json:"number"`
	Level          *string           `json:"level"`
	Agreement      *float64          `json:"agreement"`
	Similarity     *float64          `json:"similarity"`
	Distinct       *int              `json:"distinct"`
	Letters        *string           `json:"letters"`
	Runs           []jsonRun         `json:"runs"`
	Reviews        []jsonReview      `json:"reviews,omitempty"`
	CreatedAt      string            `json:"created_at"`
	CompletedAt    *string           `json:"completed_at"`
}

type jsonReview struct {
	RunIndex   *int   `json:"run_index"`
	Reviewer   string `json:"reviewer"`
	Verdict    string `json:"verdict"`
	Note       string `json:"note"`
	Version    int    `json:"version"`
	IsOutdated bool   `json:"is_outdated"`
	CreatedAt  string `json:"created_at"`
}

type jsonRun struct {
	RunIndex int     `json:"run_index"`
	Output   *string `json:"output"`
	// OutputBase64 has the exact bytes where the output is not valid UTF-8.
	OutputBase64 []byte `json:"output_base64,omitempty"`
	Status       string `json:"status"`
	LatencyMS    *int   `json:"latency_ms"`
	*jsonError          // nil leaves the columns out
}

type jsonError struct {
	ErrorCode    *string `json:"error_code"`
	ErrorMessage *string `json:"error_message"`
}

// variables are an item's values by their names; nil if there are none.
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

// Write adds an item.
func (j *JSONL) Write(item Item) error {
	line := jsonItem{QuestionID: item.QuestionID, Question: item.Question, StandardAnswer: item.StandardAnswer,
		SystemPrompt: item.SystemPrompt, UserContext: item.UserContext, Variables: j.report.variables(item),
		Number: item.Number, Agreement: item.Agreement, Similarity: item.Similarity, Distinct: item.Distinct,
		CreatedAt: beijing.RFC3339(j.report.CreatedAt), Runs: []jsonRun{}}
	if item.Level != "" {
		line.Level, line.Letters = &item.Level, &item.Letters
	}
	if j.report.CompletedAt != nil {
		completed := beijing.RFC3339(*j.report.CompletedAt)
		line.CompletedAt = &completed
	}
	for _, run := range j.report.runs(item) {
		out := jsonRun{RunIndex: run.Index, Output: run.Response, Status: run.Status, LatencyMS: run.LatencyMS}
		if run.Exact != nil {
			if utf8.Valid(run.Exact) { // only a NUL, which JSON can hold
				exact := string(run.Exact)
				out.Output = &exact
			} else {
				out.OutputBase64 = run.Exact
			}
		}
		if j.report.IncludeErrors {
			out.jsonError = &jsonError{run.ErrorCode, run.ErrorMessage}
		}
		line.Runs = append(line.Runs, out)
	}
	for _, r := range item.Reviews {
		line.Reviews = append(line.Reviews, jsonReview{r.RunIndex, r.Reviewer, r.Verdict, r.Note, r.Version, r.IsOutdated, beijing.RFC3339(r.CreatedAt)})
	}
	return j.encoder.Encode(line)
}

// Close ends the report.
func (j *JSONL) Close() error { return j.w.Flush() }
