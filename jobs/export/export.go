// Package export writes reports: it has one definition of the columns, and three streaming writers.
package export

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"wending/db/measure"
	"wending/jobs/cron"
)

// Report describes the task of a report.
type Report struct {
	TaskName, AgentURL, AgentModel string
	RunsPerItem                    int
	// MostRuns is the maximum number of runs that a question may have; the report has columns for each of them. 0 means
	// RunsPerItem.
	MostRuns    int
	CreatedAt   time.Time
	CompletedAt *time.Time
	// VariableNames are the dataset's other columns, in order.
	VariableNames []string
	// IncludeErrors includes the columns of error codes.
	IncludeErrors bool
	// HasReviews reports that there are people's verdicts, which the report then includes.
	HasReviews bool
	// HasAssets reports that agents produced files, which the report then includes.
	HasAssets bool
	// HasMeanings reports that a model groups the answers by meaning; the report then includes the groups.
	HasMeanings bool
	// Variants are the variants that the task compares; empty for a plain task.
	Variants []Variant
	// Evaluators are the evaluators of the task's answers.
	Evaluators []Evaluator
	// The numbers of items, and of runs that succeeded, failed and never took place, are for the information page.
	Items, Succeeded, Failed, Stopped int
}

// Variant is one of the variants that a task compares.
type Variant struct {
	Number               int
	Name, Prompt, Target string
	// Currency is the currency of the costs of the variant's runs; empty if they have none.
	Currency string
}

// Item is one question with its runs of one variant.
type Item struct {
	// Variant is the variant's number; 1 for a plain task.
	Variant                              int
	QuestionID, Question, StandardAnswer string
	SystemPrompt, UserContext            *string
	// Variables are the values of Report.VariableNames, in order.
	Variables []string
	// Series names the conversation, and Turn is the question's turn in it; nil for a single question.
	Series *string
	Turn   *int
	// Number is the question's number, from 1, in the order in which pages list the questions.
	Number int
	Likeness
	// Planned is the number of planned runs of the item; the columns of later runs stay blank. 0 means
	// Report.RunsPerItem.
	Planned int
	Runs    []Run
	// Reviews are people's verdicts on the question and on its answers.
	Reviews []Review
	// Pairs are people's comparisons of the item's answers with the answers of another variant, which has a higher
	// number.
	Pairs []Pair
}

// Pair is two variants' answers to a question, and people's verdicts on which is better.
type Pair struct {
	VariantA int `json:"variant_a"`
	VariantB int `json:"variant_b"`
	RunA     int `json:"run_a"`
	RunB     int `json:"run_b"`
	// IsSwapped reports that the answer of the second variant was shown first.
	IsSwapped bool          `json:"is_swapped"`
	Verdicts  []PairVerdict `json:"verdicts"`
}

// PairVerdict is a person's verdict on a pair: A, B or SAME.
type PairVerdict struct {
	Reviewer   string `json:"reviewer"`
	Verdict    string `json:"verdict"`
	Version    int    `json:"version"`
	IsOutdated bool   `json:"is_outdated"`
	CreatedAt  string `json:"created_at"`
}

// Review is a person's verdict.
type Review struct {
	// Variant is the number of the variant that the review is about.
	Variant int
	// RunIndex identifies the answer; nil means the question as a whole.
	RunIndex                *int
	Reviewer, Verdict, Note string
	// Reasons are codes, or the texts of a project's own reasons; ReasonsText holds them in the report's language.
	Reasons     []string
	ReasonsText string
	// Ratings are keyed by dimension: each is a string or a float64.
	Ratings    map[string]any
	Version    int
	IsOutdated bool
	CreatedAt  time.Time
	// CarriedBy is the name of the person who took the verdict over from an earlier task, whose id is CarriedFrom;
	// both are empty for a verdict that was given here. CarriedFromName is the task's name, empty if it was deleted.
	CarriedBy, CarriedFrom, CarriedFromName string
}

// verdicts returns the cells for an item's verdicts: verdicts, notes and reviewers, each joined by "; ".
func (i Item) verdicts() []string {
	var verdicts, notes, reviewers []string
	for _, review := range i.Reviews {
		if review.RunIndex == nil {
			verdicts, notes, reviewers = append(verdicts, review.Verdict), append(notes, review.Note),
				append(reviewers, review.Reviewer)
		}
	}
	const between = "; "
	note := strings.Join(notes, between)
	if strings.Join(notes, "") == "" {
		note = "" // avoids separators between empty notes
	}
	return []string{strings.Join(verdicts, between), note, strings.Join(reviewers, between)}
}

// Likeness describes how alike the answers to a question are; its zero value means that this is not known yet.
type Likeness struct {
	Level                 string
	Agreement, Similarity *float64
	Distinct              *int
	Letters               string
	// Novelty is the estimated chance that one more run says something new.
	Novelty *float64
	// FactsDiffer is empty if there are fewer than two answers; Facts are the facts on which the answers differ,
	// conflicts first.
	FactsDiffer string
	Facts       []measure.Fact
	// Expected are the facts of the standard answer that answers contradict.
	Expected []measure.ExpectedFact
	// Meaning holds the groups of the answers by meaning; nil while they are unknown.
	Meaning *Meaning
}

// Meaning describes which of a variant's answers to a question say the same thing.
type Meaning struct {
	// By says how the groups were determined: equal, model or person. IsDefault reports that a model gave no usable
	// grouping.
	By        string `json:"by"`
	IsDefault bool   `json:"is_default"`
	// Groups lists the run indexes in each group, and Notes has a line for each group. Unsure are the runs whose group is
	// uncertain.
	Groups    [][]int  `json:"groups"`
	Notes     []string `json:"notes"`
	Unsure    []int    `json:"unsure"`
	Letters   string   `json:"letters"`
	Agreement *float64 `json:"agreement"`
	// Version is the number of groupings that people have stored so far; Reviewer is the author of the current one, nil
	// unless By is person.
	Version  int     `json:"version"`
	Reviewer *string `json:"reviewer"`
}

// meaningCells returns the cells for the groups of answers by meaning; they are empty while the groups are unknown.
func (l Likeness) meaningCells() []string {
	if l.Meaning == nil {
		return make([]string, len(meaningColumns))
	}
	var unsure []string
	for _, run := range l.Meaning.Unsure {
		unsure = append(unsure, strconv.Itoa(run))
	}
	by, reviewer := l.Meaning.By, ""
	if l.Meaning.Reviewer != nil {
		reviewer = *l.Meaning.Reviewer
	}
	if l.Meaning.IsDefault {
		by = "failed"
	}
	return []string{l.Meaning.Letters, decimal(l.Meaning.Agreement), by, strings.Join(unsure, ", "),
		reviewer}
}

// changes formats the facts on which answers contradict each other, with the most common value first: 14 日 → 19 日.
func (l Likeness) changes() string {
	var all []string
	for _, fact := range l.Facts {
		if len(fact.Values) < 2 {
			continue
		}
		values := make([]string, len(fact.Values))
		for n, value := range fact.Values {
			values[n] = value.Text
		}
		all = append(all, strings.Join(values, " → "))
	}
	return strings.Join(all, "; ")
}

// contradictions formats the facts of the standard answer that answers contradict, each with the answers' values:
// 30 日 → 35 日.
func (l Likeness) contradictions() string {
	all := make([]string, len(l.Expected))
	for n, fact := range l.Expected {
		all[n] = fact.String()
	}
	return strings.Join(all, "; ")
}

// Run is one answer.
type Run struct {
	Index int
	// ID is the run's id; 0 for a run that never took place.
	ID int64
	// SessionID is the conversation's id; empty for a single question.
	SessionID string
	Status    string
	Response  *string
	// Exact is the answer byte for byte if it is not valid text; otherwise nil.
	Exact        []byte
	LatencyMS    *int
	ErrorCode    *string
	ErrorMessage *string
	// FinishReason is why the answer ended; nil means that the agent did not report it.
	FinishReason *string
	// TraceID is the id of the last call in our traces, and AgentTraceID is its id in the agent's traces; nil means none.
	TraceID, AgentTraceID *string
	Usage
	Evaluations []Evaluation
	// FailedAttempts are the attempts before the last.
	FailedAttempts []FailedAttempt
	// Assets are the files that the agent produced.
	Assets []Asset
}

// Asset is a file that an agent produced.
type Asset struct {
	// Path is the file's name within its run, Type is its kind, and State is the state of its copy.
	Path  string `json:"path"`
	Type  string `json:"type"`
	State string `json:"state"`
	// MediaType, Size and SHA256 describe the copy; they are nil until there is one.
	MediaType *string `json:"media_type"`
	Size      *int64  `json:"size"`
	SHA256    *string `json:"sha256"`
	// URL is the copy's path on this site.
	URL string `json:"url"`
}

// assetCell lists the files of a run.
func assetCell(run Run) string {
	names := make([]string, len(run.Assets))
	for n, one := range run.Assets {
		names[n] = one.Path
	}
	return strings.Join(names, "; ")
}

// Usage is the usage of a run; nil means unknown.
type Usage struct {
	InputTokens, OutputTokens, ReasoningTokens, TotalTokens *int
	// Cost is a decimal number in the variant's currency.
	Cost         *string
	FirstTokenMS *int
}

// columns returns the report's columns (spec/004 US-04): the item's, four for each run, the task's times, and the
// variables.
func (r Report) columns() []string {
	columns := []string{"question_id", "question", "standard_answer", "_system_prompt", "_user_context"}
	for n := 1; n <= r.mostRuns(); n++ {
		for _, name := range r.runColumns() {
			columns = append(columns, fmt.Sprintf("run_%d_%s", n, name))
		}
	}
	columns = append(columns, "_created_at", "_completed_at")
	for _, name := range r.VariableNames {
		columns = append(columns, "var_"+name)
	}
	if len(r.Variants) > 0 {
		columns = append(columns, "_variant", "_prompt", "_target")
		for n := 1; n <= r.mostRuns(); n++ {
			columns = append(columns, fmt.Sprintf("run_%d_total_tokens", n), fmt.Sprintf("run_%d_cost", n))
			for _, evaluator := range r.Evaluators {
				for _, name := range []string{"score", "passed", "reason"} {
					columns = append(columns, fmt.Sprintf("run_%d_%s_%s", n, evaluator.Column, name))
				}
			}
		}
	}
	if r.HasAssets {
		for n := 1; n <= r.mostRuns(); n++ {
			columns = append(columns, fmt.Sprintf("run_%d_assets", n))
		}
	}
	if r.hasFinish() {
		for n := 1; n <= r.mostRuns(); n++ {
			columns = append(columns, fmt.Sprintf("run_%d_finish_reason", n))
		}
	}
	if r.HasReviews {
		columns = append(columns, "_verdict", "_verdict_note", "_verdict_by")
	}
	return columns
}

func (r Report) runColumns() []string {
	names := []string{"output", "status", "latency_ms"}
	if r.IncludeErrors {
		names = append(names, "error_code")
	}
	return names
}

// hasFinish reports whether the report has columns for finish reasons. A plain task's report has none, as spec/004
// requires.
func (r Report) hasFinish() bool { return len(r.Variants) > 0 }

// stopped is the status of a run that never took place.
const stopped = "STOPPED"

// variant returns an item's variant.
func (r Report) variant(item Item) Variant {
	for _, variant := range r.Variants {
		if variant.Number == item.Variant {
			return variant
		}
	}
	return Variant{Number: item.Variant}
}

// mostRuns returns the number of runs for which the report has columns.
func (r Report) mostRuns() int { return cmp.Or(r.MostRuns, r.RunsPerItem) }

// runs returns an item's runs in order of their index, one for each run that has columns; a planned run that never took
// place has only its status, and a run that was not planned has no cells.
func (r Report) runs(item Item) []Run {
	runs := make([]Run, r.mostRuns())
	for n := range runs {
		if runs[n].Index = n + 1; n < cmp.Or(item.Planned, r.RunsPerItem) {
			runs[n].Status = stopped
		}
	}
	for _, run := range item.Runs {
		if run.Index <= len(runs) {
			runs[run.Index-1] = run
		}
	}
	return runs
}

// cells returns an item's row: a text for each column.
func (r Report) cells(item Item) []string {
	cells := []string{item.QuestionID, item.Question, item.StandardAnswer, deref(item.SystemPrompt),
		deref(item.UserContext)}
	for _, run := range r.runs(item) {
		latency := ""
		if run.LatencyMS != nil {
			latency = strconv.Itoa(*run.LatencyMS)
		}
		cells = append(cells, deref(run.Response), run.Status, latency)
		if r.IncludeErrors {
			cells = append(cells, deref(run.ErrorCode))
		}
	}
	completed := ""
	if r.CompletedAt != nil {
		completed = BeijingTime(*r.CompletedAt)
	}
	cells = append(cells, BeijingTime(r.CreatedAt), completed)
	cells = append(cells, item.Variables...)
	if len(r.Variants) > 0 {
		variant := r.variant(item)
		cells = append(cells, strconv.Itoa(variant.Number), variant.Prompt, variant.Target)
		for _, run := range r.runs(item) {
			cells = append(cells, count(run.TotalTokens), deref(run.Cost))
			for _, evaluator := range r.Evaluators {
				cells = append(cells, evaluationCells(run.Evaluations, evaluator.Number)...)
			}
		}
	}
	if r.HasAssets {
		for _, run := range r.runs(item) {
			cells = append(cells, assetCell(run))
		}
	}
	if r.hasFinish() {
		for _, run := range r.runs(item) {
			cells = append(cells, deref(run.FinishReason))
		}
	}
	if r.HasReviews {
		cells = append(cells, item.verdicts()...)
	}
	return cells
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// BeijingTime formats a time to the second in Beijing's time zone, for reports, messages and the API.
func BeijingTime(t time.Time) string { return t.In(cron.Beijing).Format(time.RFC3339) }
