// Package evaluate evaluates answers: by rules, and with judges, which are models that rate an answer; it writes their
// prompts and parses their replies. No rule or answer can make it use more than a fixed amount of time and memory: the
// cost of simple rules is known before they run, and the others run in child processes that are stopped at a limit.
package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"wending/jobs/agent/protocol"
	"wending/jobs/reason"
)

// Kind says how an evaluator judges answers: by which kind of rule, or with a judge.
type Kind string

// The kinds of evaluators.
const (
	Exact      Kind = "exact"
	Contains   Kind = "contains"
	Regex      Kind = "regex"
	Number     Kind = "number"
	JSONSchema Kind = "json_schema"
	JSONPath   Kind = "json_path"
	Similarity Kind = "similarity"
	Expression Kind = "expression"
	Latency    Kind = "latency"
	// Judge is a model that is called separately; it is not a rule.
	Judge Kind = "judge"
)

// Kinds lists all kinds in the order in which they are offered.
var Kinds = []Kind{Exact, Contains, Regex, Number, JSONSchema, JSONPath, Similarity, Expression, Latency, Judge}

// Status says how an evaluation ended.
type Status string

// The possible statuses.
const (
	Succeeded Status = "SUCCEEDED" // there is a verdict
	Failed    Status = "FAILED"    // there is none, because of a fault
	Skipped   Status = "SKIPPED"   // there is none, because the expected value is blank
)

// Statuses lists all statuses.
var Statuses = []Status{Succeeded, Failed, Skipped}

// Codes of evaluations without a verdict.
const (
	// CodeLimit means that judging the answer would take too much time or memory.
	CodeLimit = "EVALUATOR_LIMIT"
	// CodeRule means that this version of the program cannot use the rule.
	CodeRule = "EVALUATOR_INVALID"
	// CodeExpectation means that the expected value does not have the type that the rule needs.
	CodeExpectation = "EXPECTATION_INVALID"
	// CodeExpression means that an expression failed.
	CodeExpression = "EXPRESSION_FAILED"
)

// Subject is an answer to be judged.
type Subject struct {
	Answer string
	// Values holds the values that templates and expressions can refer to, keyed by name: question, standard_answer,
	// and the question's other columns.
	Values    map[string]string
	LatencyMS int
	// Tokens is nil if the target does not report them.
	Tokens *int
}

// Verdict is an evaluator's verdict on an answer.
type Verdict struct {
	Status Status
	// Score is from 0 to 1. Score and Passed are nil if there is no verdict.
	Score  *float64
	Passed *bool
	// Reason explains why an answer did not pass, ErrorMessage why there is no verdict. Both are in the form of
	// reason.Because, unless they are a judge's own words.
	Reason                  string
	ErrorCode, ErrorMessage string
}

// decided returns the verdict of a rule that only passes or fails an answer: the score is 1 or 0.
func decided(passed bool, reason string) Verdict {
	score := 0.0
	if passed {
		score, reason = 1, ""
	}
	return Verdict{Status: Succeeded, Score: &score, Passed: &passed, Reason: reason}
}

// scored returns the verdict of a rule that also gives an answer a score.
func scored(score float64, passed bool, reason string) Verdict {
	if passed {
		reason = ""
	}
	return Verdict{Status: Succeeded, Score: &score, Passed: &passed, Reason: reason}
}

func failed(code, message string) Verdict {
	return Verdict{Status: Failed, ErrorCode: code, ErrorMessage: message}
}

// errLimit means that judging would take too much time or memory.
var errLimit = errors.New("judging this answer would take too long")

func limited() Verdict { return failed(CodeLimit, reason.Because("limit")) }

// ConfigError describes a fault in an evaluator's configuration.
type ConfigError struct {
	// Field is the faulty member; empty means the configuration as a whole.
	Field string
	// Detail describes the fault in English, for logs; empty means that the member is missing.
	Detail string
	// Why describes the fault in the form of reason.Because; empty if Limit or Known describes the fault.
	Why string
	// Limit is the allowed range; empty if Detail is more specific.
	Limit Type
	// Known lists the valid choices: the members that the kind has, or the possible values of a member.
	Known []string
}

// Error implements error.
func (e *ConfigError) Error() string {
	if e.Detail == "" {
		return e.Field + " is missing"
	}
	return strings.TrimPrefix(e.Field+": "+e.Detail, ": ")
}

// Explain returns why a configuration cannot be used, in the form of reason.Because; if err is not a ConfigError, it
// returns err's own text.
func Explain(err error) string {
	wrong := (*ConfigError)(nil)
	switch {
	case !errors.As(err, &wrong):
		return err.Error()
	case wrong.Why != "":
		return wrong.Why
	}
	return reason.Because("config.field", wrong.Field)
}

// wrong returns the error for a field. key and values name a sentence of package reason that explains it to users;
// cause is for logs and may be nil.
func wrong(field string, cause error, key string, values ...string) *ConfigError {
	because := reason.Because(key, values...)
	if cause == nil {
		return &ConfigError{Field: field, Detail: because, Why: because}
	}
	return &ConfigError{Field: field, Detail: reason.Cut(cause.Error(), 2*reason.MaxShown), Why: because}
}

// limitedTo returns the error for a field whose value is outside its range.
func limitedTo(field string, limit Type, detail string) *ConfigError {
	return &ConfigError{Field: field, Detail: detail, Limit: limit}
}

// Limits on configurations.
const (
	// MaxConfig is the maximum size of a configuration in bytes.
	MaxConfig = 64 << 10
	// maxPattern and maxExpression are the maximum lengths, in characters, of a pattern or path and of an
	// expression.
	maxPattern    = 2000
	maxExpression = 2000
)

// Rule is an evaluator that is ready to judge. Several goroutines may use it at once.
type Rule struct {
	// expected is the template of the expected value; empty means the standard answer.
	expected string
	// variables are the names of the variables that an expression looks up.
	variables []string
	// needsExpected reports that an answer cannot be judged without an expected value.
	needsExpected bool
	judge         func(subject Subject, expected string) Verdict
	// own is what a child process needs to evaluate the rule; nil for a rule that is evaluated in this process.
	own *ordered
	// limited counts the answers whose judging exceeded a limit (see limitedMost).
	limited atomic.Int32
}

// builders create the rules whose cost is known in advance. confined create the rules that are written in small
// languages and evaluated by child processes.
var (
	builders = map[Kind]func(config json.RawMessage) (*Rule, error){
		Exact: newExact, Contains: newContains, Regex: newRegex, Number: newNumber, Similarity: newSimilarity,
		Latency: newLatency,
	}
	confined = map[Kind]func(config json.RawMessage) (*Rule, error){
		JSONSchema: newJSONSchema, JSONPath: newJSONPath, Expression: newExpression,
	}
)

// Compile returns a rule of the given kind. Its error is a ConfigError, or the error of ctx.
func Compile(ctx context.Context, kind Kind, config json.RawMessage) (*Rule, error) {
	if _, isKnown := Fields[kind]; !isKnown || kind == Judge {
		return nil, wrong("kind", fmt.Errorf("not a rule: %s", kind), "config.kind", string(kind))
	}
	if len(bytes.TrimSpace(config)) == 0 {
		config = json.RawMessage("{}")
	}
	if err := CheckConfig(kind, config); err != nil {
		return nil, err
	}
	if build, isSimple := builders[kind]; isSimple {
		return build(config)
	}
	return confine(ctx, kind, config)
}

var errNotObject = errors.New("not a JSON object")

// CheckConfig refuses configurations that are too long, and members that the kind does not have, because a misspelt
// member would have no effect. Its error is a ConfigError.
func CheckConfig(kind Kind, config json.RawMessage) error {
	if len(config) > MaxConfig {
		return wrong("", fmt.Errorf("more than %d KB", MaxConfig>>10), "config.size", strconv.Itoa(MaxConfig>>10))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(config, &members); err != nil || members == nil {
		return wrong("", errNotObject, "config.object")
	}
	known := make([]string, len(Fields[kind]))
	for n, field := range Fields[kind] {
		known[n] = field.Name
	}
	for name := range members {
		if !slices.Contains(known, name) {
			return &ConfigError{Field: reason.Cut(name, 50), Detail: "unknown", Known: known}
		}
	}
	return nil
}

// typeOf returns the field type that corresponds to the Go type of a configuration's member.
func typeOf(member reflect.Type) Type {
	switch member.Kind() {
	case reflect.Bool:
		return Truth
	case reflect.Slice:
		return Lines
	case reflect.String:
		if member != reflect.TypeFor[json.Number]() {
			return Line
		}
	}
	return Amount
}

// ReadConfig parses a configuration into a struct. Its error is a ConfigError.
func ReadConfig(config json.RawMessage, into any) error {
	err := json.Unmarshal(config, into)
	if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) && mismatch.Field != "" {
		return limitedTo(mismatch.Field, typeOf(mismatch.Type), fmt.Sprintf("a %s cannot be used here", mismatch.Value))
	}
	if err != nil {
		return wrong("", err, "config.json")
	}
	return nil
}

// limitedMost is how many times judging may exceed a limit before a rule stops judging in this launch.
const limitedMost = 3

// Evaluate judges an answer. The only error is the context's.
func (r *Rule) Evaluate(ctx context.Context, subject Subject) (Verdict, error) {
	expected := r.expectedOf(subject)
	switch {
	case r.isSkipped(expected):
		return Verdict{Status: Skipped}, nil
	case r.isLimited():
		return limited(), nil
	case r.own == nil:
		return r.note(r.judge(subject, expected)), nil
	}
	verdict, err := r.ask(ctx, subject, expected)
	return r.note(verdict), err
}

func (r *Rule) isSkipped(expected string) bool {
	return r.needsExpected && strings.TrimSpace(expected) == ""
}

func (r *Rule) isLimited() bool { return r.limited.Load() >= limitedMost }

// note counts a verdict that says that a limit was exceeded, and returns the verdict.
func (r *Rule) note(verdict Verdict) Verdict {
	if verdict.ErrorCode == CodeLimit {
		r.limited.Add(1)
	}
	return verdict
}

func (r *Rule) expectedOf(subject Subject) string {
	if r.expected == "" {
		return subject.Values["standard_answer"]
	}
	return protocol.Render(r.expected, subject.Values)
}

// most is the maximum number of texts that a reason lists.
const most = 5

func firstFew(texts []string) []string { return texts[:min(len(texts), most)] }

// figure formats a number for a reason with all the digits that are needed to represent it exactly.
func figure(number float64) string { return strconv.FormatFloat(number, 'g', -1, 64) }

// ThresholdOf returns the lowest passing score that a configuration sets, or the default, on the evaluator's own scale:
// up to 100 for a judge, up to 1 for others. isThere is false for kinds without a threshold.
func ThresholdOf(kind Kind, config json.RawMessage) (threshold float64, isThere bool) {
	for _, field := range Fields[kind] {
		if field.Name != "threshold" {
			continue
		}
		var c struct {
			Threshold *float64 `json:"threshold"`
		}
		if json.Unmarshal(config, &c) == nil && c.Threshold != nil {
			return *c.Threshold, true
		}
		usual, err := strconv.ParseFloat(field.Default, 64)
		return usual, err == nil
	}
	return 0, false
}

func quoted(text string) string {
	return "“" + reason.Cut(strings.TrimSpace(text), reason.MaxShown) + "”"
}

// newLatency returns a rule that judges how long the answer took.
func newLatency(config json.RawMessage) (*Rule, error) {
	var c struct {
		MaxMS *int `json:"max_ms"`
	}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	if c.MaxMS == nil {
		return nil, &ConfigError{Field: "max_ms"}
	}
	if *c.MaxMS < 0 {
		return nil, limitedTo("max_ms", Amount, "less than 0")
	}
	return &Rule{judge: func(s Subject, _ string) Verdict {
		return decided(s.LatencyMS <= *c.MaxMS, reason.Because("latency", strconv.Itoa(s.LatencyMS), strconv.Itoa(*c.MaxMS)))
	}}, nil
}
