package tasks

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"wending/db"
	"wending/jobs/agent/guard"
)

// Limits on a task.
const (
	MaxNameLength  = 64         // characters of its name
	MaxRuns        = db.MaxRuns // runs of each question
	MaxVariants    = 20
	MaxCalls       = 200_000 // calls of one launch
	MaxConcurrency = 64      // calls at once
	MaxTimeout     = 3600    // seconds for a call
	MaxRetries     = 5       // attempts of a call after the first
	MaxEvaluators  = 10
	MaxPayload     = 64 << 10 // bytes of the JSON that is merged into every request
)

// The ranges of a task's adaptive runs.
const (
	LeastAdaptiveRuns = 3
	LeastConfidence   = 0.5
	MostConfidence    = 0.999
)

// Limits on the entries that tasks copy from the library; lengths are in characters.
const (
	MaxEntryName    = 64      // of a name
	MaxTemplate     = 100_000 // of a template
	MaxModelLength  = 200     // of a model's id
	MaxAddress      = 2048    // of an address
	MaxPollInterval = 600     // seconds between two polls of a job's status
)

// Problem is the reason for refusing a field of a task.
type Problem int

// The reasons for refusing a field.
const (
	Missing      Problem = iota + 1 // a required field is empty
	TooLong                         // a text is longer than Max, or contains control characters
	OutOfRange                      // a number is not between Min and Max
	NotAChoice                      // the value is not one of Choices
	NotARate                        // not a rate limit (see ParseRate)
	NotACost                        // not an amount of money
	NotAnAddress                    // not the address of an agent
	NotAnObject                     // not a JSON object, or longer than MaxPayload
	NotAdaptive                     // the settings of adaptive runs are outside their ranges
	TooLarge                        // the task has too many evaluators, variants or calls
)

// InvalidError means that a field of a task, named as in the API, violates a rule. Field is empty if the task as a
// whole is too large.
type InvalidError struct {
	Field   string
	Problem Problem
	// Min and Max are the range of a number; for a text, Max is its maximum length in characters.
	Min, Max int
	Choices  []string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("field %q of the task is refused (problem %d, %d to %d)", e.Field, e.Problem, e.Min, e.Max)
}

// Number is a setting that is an integer, with its range.
type Number struct {
	// Name is its name in the API.
	Name     string
	Min, Max int
	Value    *int
}

func (n Number) check() *InvalidError {
	if *n.Value < n.Min || *n.Value > n.Max {
		return &InvalidError{Field: n.Name, Problem: OutOfRange, Min: n.Min, Max: n.Max}
	}
	return nil
}

// Numbers returns the settings that are integers, in the order of the form.
func (s *Settings) Numbers() []Number {
	return []Number{
		{"runs_per_item", 1, MaxRuns, &s.RunsPerItem},
		{"timeout_seconds", 1, MaxTimeout, &s.TimeoutSeconds},
		{"max_retries", 0, MaxRetries, &s.MaxRetries},
		{"concurrency", 1, MaxConcurrency, &s.Concurrency},
	}
}

// RangeOf returns the range of an integer setting.
func RangeOf(name string) (least, most int) {
	for _, number := range new(Settings).Numbers() {
		if number.Name == name {
			least, most = number.Min, number.Max
		}
	}
	return least, most
}

// Validate returns the faults in all settings. Forms, archives and the use cases all call it.
func (s Settings) Validate() []*InvalidError {
	var all refusals
	for _, number := range s.Numbers() {
		all.add(number.check())
	}
	if s.OnTurnFailure != "" && !slices.Contains(db.OnTurnFailures, s.OnTurnFailure) {
		all.add(&InvalidError{Field: "on_turn_failure", Problem: NotAChoice, Choices: turnFailures()})
	}
	if s.MaxCost != "" && !db.IsCost(s.MaxCost) {
		all.add(&InvalidError{Field: "max_cost", Problem: NotACost})
	}
	all.add(s.checkAdaptive())
	return all
}

// checkAdaptive returns the fault of the settings of adaptive runs; nil means that there is none.
func (s Settings) checkAdaptive() *InvalidError {
	switch a := s.Adaptive; {
	case a == nil:
	case a.MaxRuns < LeastAdaptiveRuns || a.MaxRuns > MaxRuns ||
		!(a.Confidence >= LeastConfidence && a.Confidence <= MostConfidence):
		return &InvalidError{Field: "adaptive", Problem: NotAdaptive}
	case s.RunsPerItem > a.MaxRuns && s.RunsPerItem <= MaxRuns:
		return &InvalidError{Field: "runs_per_item", Problem: OutOfRange, Min: 1, Max: a.MaxRuns}
	}
	return nil
}

// mostRuns returns the maximum number of runs of a question.
func (s Settings) mostRuns() int {
	if s.Adaptive == nil {
		return s.RunsPerItem
	}
	return max(s.RunsPerItem, s.Adaptive.MaxRuns)
}

// Validate returns all faults of a new task, in the order of the form. It checks the task's size only if there are
// no other faults.
func (n New) Validate() []*InvalidError {
	all := refusals{}
	all.add(CheckName(n.Name))
	switch {
	case n.AgentURL == "" && len(n.Targets) == 0:
		all.add(&InvalidError{Field: "agent_api_url", Problem: Missing})
	case n.AgentURL != "" && ParseAddress(n.AgentURL) == nil:
		all.add(&InvalidError{Field: "agent_api_url", Problem: NotAnAddress})
	}
	if !isLine(n.AgentModel, MaxModelLength) {
		all.add(&InvalidError{Field: "agent_model", Problem: TooLong, Max: MaxModelLength})
	}
	if n.Payload != nil && len(*n.Payload) > MaxPayload {
		all.add(&InvalidError{Field: "extra_payload", Problem: NotAnObject})
	}
	if _, err := ParseRate(n.RateLimit); err != nil {
		all.add(&InvalidError{Field: "rate_limit", Problem: NotARate})
	}
	all = append(all, n.Settings.Validate()...)
	if n.Dataset != nil {
		all.add(CheckClusterBy(n.ClusterBy, n.Dataset.VariableNames))
	}
	if len(n.Evaluators) > MaxEvaluators {
		all.add(&InvalidError{Field: "evaluators", Problem: TooLarge})
	}
	if len(all) == 0 && n.IsTooLarge() {
		all.add(&InvalidError{Problem: TooLarge})
	}
	return all
}

// IsTooLarge reports whether the task would compare too many variants, or might make too many calls.
func (n New) IsTooLarge() bool {
	n.RunsPerItem = n.mostRuns()
	return n.VariantCount() > MaxVariants || n.Calls()+n.JudgeCalls()+n.MeaningCalls() > MaxCalls
}

// CheckName returns the fault of a task's name; nil means that it has none.
func CheckName(name string) *InvalidError {
	switch {
	case strings.TrimSpace(name) == "":
		return &InvalidError{Field: "task_name", Problem: Missing}
	case !isLine(name, MaxNameLength):
		return &InvalidError{Field: "task_name", Problem: TooLong, Max: MaxNameLength}
	}
	return nil
}

// CheckRuns returns why a task cannot be extended to this number of runs per question; nil means that it can.
func CheckRuns(task db.Task, runs int) *InvalidError {
	switch {
	case runs <= task.RunsPerItem || runs > MaxRuns:
		return &InvalidError{Field: "runs_per_item", Problem: OutOfRange, Min: min(task.RunsPerItem+1, MaxRuns), Max: MaxRuns}
	case (runs-task.RunsPerItem)*task.TotalItems*task.TotalVariants > MaxCalls:
		return &InvalidError{Problem: TooLarge}
	}
	return nil
}

// CheckClusterBy returns a fault if column, by which questions are to be grouped, is neither empty nor one of columns.
func CheckClusterBy(column string, columns []string) *InvalidError {
	if column == "" || slices.Contains(columns, column) {
		return nil
	}
	return &InvalidError{Field: "cluster_by", Problem: NotAChoice, Choices: columns}
}

// ParseAddress parses the address of an agent; nil means that the text is not an address that may be called.
func ParseAddress(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || !IsAgentURL(u) || len(text) > MaxAddress || HasControl(text) ||
		strings.ContainsFunc(guard.Host(u.Hostname()), isOtherScript) {
		return nil
	}
	return u
}

// isOtherScript reports whether a character is not ASCII: a host with such a character must be encoded before
// connecting.
func isOtherScript(r rune) bool { return r > unicode.MaxASCII }

// HasControl reports whether a text contains control characters or is not UTF-8.
func HasControl(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)
}

// isLine reports whether a text is a single line with at most the given number of characters.
func isLine(text string, most int) bool {
	return utf8.RuneCountInString(text) <= most && !HasControl(text)
}

func turnFailures() []string {
	all := make([]string, len(db.OnTurnFailures))
	for n, one := range db.OnTurnFailures {
		all[n] = string(one)
	}
	return all
}

// refusals collects the faults of a task.
type refusals []*InvalidError

func (r *refusals) add(e *InvalidError) {
	if e != nil {
		*r = append(*r, e)
	}
}

// invalid returns the first of a task's faults; nil means that there are none.
func invalid(all []*InvalidError) error {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}
