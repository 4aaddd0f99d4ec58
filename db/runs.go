package db

import (
	"time"

	"github.com/google/uuid"
)

// RunStatus is the outcome of a run.
type RunStatus string

// The outcomes of runs. STOPPED means that a run never took place: no row is stored for it.
const (
	RunSucceeded RunStatus = "SUCCEEDED"
	RunFailed    RunStatus = "FAILED"
	RunTimeout   RunStatus = "TIMEOUT"
	RunStopped   RunStatus = "STOPPED"
)

// RunStatuses lists all outcomes.
var RunStatuses = []RunStatus{RunSucceeded, RunFailed, RunTimeout, RunStopped}

// Run is a row of evaluation_runs: the outcome of one call.
type Run struct {
	ID       int64     `db:"id"`
	UnitID   int64     `db:"unit_id"`
	LaunchID uuid.UUID `db:"launch_id"`
	ItemID   int64     `db:"item_id"`
	Variant  int       `db:"variant"`
	RunIndex int       `db:"run_index"`
	Status   RunStatus `db:"status"`
	// Response is the answer as text. Bytes that PostgreSQL cannot store (NUL, invalid UTF-8) are visibly replaced;
	// IsReplaced reports that, and RunResponse of package report returns the exact bytes.
	Response   *string `db:"response_body"`
	IsReplaced bool    `db:"is_replaced"`
	// ResponseLength is the length of the whole response in characters, even if Response was cut.
	ResponseLength int     `db:"response_length"`
	Reasoning      *string `db:"reasoning"`
	// ReasoningIsCut reports that Reasoning is only the beginning.
	ReasoningIsCut bool   `db:"reasoning_is_cut"`
	AnswerKey      []byte `db:"answer_key"`
	LatencyMS      *int   `db:"latency_ms"`
	Attempts       int    `db:"attempts"`
	// FailedAttempts are the attempts before the last.
	FailedAttempts FailedAttempts `db:"failed_attempts"`
	ErrorCode      *string        `db:"error_code"`
	ErrorMessage   *string        `db:"error_message"`
	// FinishReason is why the answer ended: stop, length, content_filter, refusal or tool_calls; nil means that
	// the agent did not report it.
	FinishReason *string `db:"finish_reason"`
	// TraceID is the W3C trace id of the run's calls, in hexadecimal; nil if no call was made. AgentTraceID is the agent's
	// own id for the last call; nil if it named none.
	TraceID      *string `db:"trace_id"`
	AgentTraceID *string `db:"agent_trace_id"`
	Usage
	// Passed and Score are the combined verdict: Passed is nil until every evaluator of the task has given a verdict,
	// and Score while none has given a score.
	Passed *bool    `db:"passed"`
	Score  *float64 `db:"score"`
	// Evaluations are the evaluators' verdicts, in the order of the evaluators.
	Evaluations Evaluations `db:"evaluations"`
	CreatedAt   time.Time   `db:"created_at"`
}

// WholeRun is one run of a task, with its question.
type WholeRun struct {
	Run
	QuestionID string `db:"question_id"`
	Question   string `db:"question"`
	// Number is the question's number, from 1, in the order in which pages list the questions.
	Number int `db:"number"`
	// Series and Turn belong to the question; nil for a single question.
	Series *string `db:"series"`
	Turn   *int    `db:"turn"`
}

// Usage is the token usage of a call as the agent reports it; nil means that it reports none.
type Usage struct {
	InputTokens     *int `db:"input_tokens"`
	OutputTokens    *int `db:"output_tokens"`
	ReasoningTokens *int `db:"reasoning_tokens"`
	TotalTokens     *int `db:"total_tokens"`
	// Cost is a decimal number in the target's currency, computed from its prices; nil if prices or tokens are unknown.
	Cost *string `db:"cost"`
	// FirstTokenMS is the time from the start of the call to the first piece of a streamed answer, not counting reasoning.
	FirstTokenMS *int `db:"first_token_ms"`
}

// WithMissing returns the planned runs of a question of a task in order of variant and run_index. For runs that never
// took place it adds a Run in which only Variant, RunIndex and the status STOPPED are set.
func (t Task) WithMissing(itemID int64, taken []Run, planned Planned) []Run {
	var runs []Run
	starts := make([]int, t.TotalVariants+1) // where the runs of each variant begin, and where the last ones end
	for v := range t.TotalVariants {
		for n := range t.RunsOf(planned, itemID, v+1) {
			runs = append(runs, Run{Variant: v + 1, RunIndex: n + 1, Status: RunStopped})
		}
		starts[v+1] = len(runs)
	}
	for _, run := range taken {
		if run.Variant <= t.TotalVariants && run.RunIndex <= starts[run.Variant]-starts[run.Variant-1] {
			runs[starts[run.Variant-1]+run.RunIndex-1] = run
		}
	}
	return runs
}
