// Package gate runs an evaluation on a server unattended: from a file, with limits, a report and an exit code.
package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SpecError is an error in an evaluation file, with its position.
type SpecError struct {
	File string
	Line int
	Text string
}

func (e *SpecError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text) }

// Spec is the content of an evaluation file: the members of a task's JSON, and the library entries to save before the
// task is created.
type Spec struct {
	// File is the path of the file. Lines maps the names of its members to their line numbers.
	File  string
	Lines map[string]int
	// Task holds the members of the task, except those in Inline.
	Task map[string]any
	// Dataset is the path of the file with the questions; empty if the task names a saved dataset.
	Dataset string
	// Inline holds entries that the file defines itself instead of naming saved ones, keyed by kind.
	Inline map[string][]map[string]any
	// FailUnder holds limits, Baseline names the task to compare with, and Margins limit how much worse than the
	// baseline a metric may be; the command line can add more.
	FailUnder, Margins map[string]float64
	Baseline           string
}

// kindOfValue is the type of a member's value.
type kindOfValue int

const (
	aText kindOfValue = iota
	aNumber
	aBoolean
	anObject
	aListOfEntries
	aListOfIDs
)

var kindNames = map[kindOfValue]string{
	aText: "text", aNumber: "a number", aBoolean: "true or false", anObject: "a mapping",
	aListOfEntries: "a list of ids, or of entries", aListOfIDs: "a list of ids",
}

// members are the members of a task's JSON, as in the API, plus those that only a file can have.
var members = map[string]kindOfValue{
	"task_name": aText, "agent_api_url": aText, "agent_model": aText, "rate_limit": aText, "on_turn_failure": aText,
	"cluster_by": aText, "meaning_model": aText, "dataset": aText, "dataset_file": aText,
	"column_question_id": aText, "column_question": aText, "dataset_encoding": aText, "column_standard_answer": aText,
	"max_cost": aText, "baseline": aText,
	"runs_per_item": aNumber, "timeout_seconds": aNumber, "max_retries": aNumber, "concurrency": aNumber,
	"use_stream": aBoolean, "adaptive": anObject, "agent_api_headers": anObject, "extra_payload": anObject,
	"fail_under": anObject, "margin": anObject,
	"prompts": aListOfEntries, "models": aListOfEntries, "agents": aListOfEntries, "evaluators": aListOfEntries,
	"channels": aListOfIDs,
}

// ReadSpec reads an evaluation file. ${NAME} in a text is an environment variable, whose value lookup returns.
func ReadSpec(path string, lookup func(string) (string, bool)) (Spec, error) {
	spec := Spec{
		File: path, Lines: map[string]int{}, Task: map[string]any{}, Inline: map[string][]map[string]any{},
		FailUnder: map[string]float64{}, Margins: map[string]float64{},
	}
	content, err := readFile(path, maxSpec)
	if err != nil {
		return spec, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return spec, spec.syntax(err)
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return spec, &SpecError{path, 1, "the file must be a mapping, beginning with a line such as task_name: …"}
	}
	root := document.Content[0]
	for n := 0; n+1 < len(root.Content); n += 2 {
		name, node := root.Content[n].Value, root.Content[n+1]
		line := root.Content[n].Line
		kind, isKnown := members[name]
		if !isKnown {
			return spec, &SpecError{path, line, fmt.Sprintf("unknown field %s; the known fields are %s", name,
				strings.Join(names(), ", "))}
		}
		if _, isRepeated := spec.Lines[name]; isRepeated {
			return spec, &SpecError{path, line, name + " appears twice"}
		}
		spec.Lines[name] = line
		if err := spec.expand(node, lookup); err != nil {
			return spec, err
		}
		if err := spec.take(name, kind, node); err != nil {
			return spec, err
		}
	}
	if _, hasName := spec.Task["task_name"]; !hasName {
		return spec, &SpecError{path, root.Line, "task_name is missing"}
	}
	return spec, nil
}

func names() []string {
	all := make([]string, 0, len(members))
	for name := range members {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

var syntaxLine = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)

// syntax converts an error of the YAML parser into a SpecError with its line.
func (s Spec) syntax(err error) error {
	if found := syntaxLine.FindStringSubmatch(err.Error()); found != nil {
		line, _ := strconv.Atoi(found[1])
		return &SpecError{s.File, line, found[2]}
	}
	return &SpecError{s.File, 1, strings.TrimPrefix(err.Error(), "yaml: ")}
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand inserts environment variables into a member's texts.
func (s Spec) expand(node *yaml.Node, lookup func(string) (string, bool)) error {
	var missing string
	if node.Kind == yaml.ScalarNode {
		node.Value = variable.ReplaceAllStringFunc(node.Value, func(reference string) string {
			value, isSet := lookup(reference[2 : len(reference)-1])
			if !isSet {
				missing = reference
			}
			return value
		})
	}
	if missing != "" {
		return &SpecError{s.File, node.Line, missing + " is not set in the environment"}
	}
	for _, child := range node.Content {
		if err := s.expand(child, lookup); err != nil {
			return err
		}
	}
	return nil
}

// take checks one member's value and stores it in the spec.
func (s *Spec) take(name string, kind kindOfValue, node *yaml.Node) error {
	wrong := func(line int) error {
		return &SpecError{s.File, line, name + " must be " + kindNames[kind]}
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return s.syntax(err)
	}
	switch kind {
	case aText:
		if node.Kind != yaml.ScalarNode || value == nil {
			return wrong(node.Line)
		}
		value = node.Value
	case aNumber:
		if _, isWhole := value.(int); !isWhole {
			return wrong(node.Line)
		}
	case aBoolean:
		if _, is := value.(bool); !is {
			return wrong(node.Line)
		}
	case anObject:
		if node.Kind != yaml.MappingNode {
			return wrong(node.Line)
		}
	case aListOfEntries, aListOfIDs:
		return s.takeList(name, kind, node, wrong)
	}
	switch name {
	case "dataset_file":
		if s.Dataset = value.(string); !filepath.IsAbs(s.Dataset) {
			s.Dataset = filepath.Join(filepath.Dir(s.File), s.Dataset)
		}
		if _, err := os.Stat(s.Dataset); err != nil {
			return &SpecError{s.File, node.Line, fmt.Sprintf("dataset_file: %s does not exist", s.Dataset)}
		}
	case "baseline":
		s.Baseline = value.(string)
	case "fail_under":
		return s.takeLimits(name, node, ParseLimit, s.FailUnder)
	case "margin":
		return s.takeLimits(name, node, ParseMargin, s.Margins)
	default:
		s.Task[name] = value
	}
	return nil
}

// takeLimits reads a mapping of metrics to numbers.
func (s *Spec) takeLimits(name string, node *yaml.Node, parse func(string) (string, float64, error),
	to map[string]float64) error {
	for n := 0; n+1 < len(node.Content); n += 2 {
		metric, value, err := parse(node.Content[n].Value + "=" + node.Content[n+1].Value)
		if err != nil {
			return &SpecError{s.File, node.Content[n].Line, name + ": " + err.Error()}
		}
		to[metric] = value
	}
	return nil
}

func (s *Spec) takeList(name string, kind kindOfValue, node *yaml.Node, wrong func(int) error) error {
	if node.Kind != yaml.SequenceNode {
		return wrong(node.Line)
	}
	ids := []string{}
	for _, child := range node.Content {
		switch {
		case child.Kind == yaml.ScalarNode:
			ids = append(ids, child.Value)
		case child.Kind == yaml.MappingNode && kind == aListOfEntries:
			entry := map[string]any{}
			if err := child.Decode(&entry); err != nil {
				return s.syntax(err)
			}
			if text, isText := entry["name"].(string); !isText || text == "" {
				return &SpecError{s.File, child.Line, "an entry of " + name + " needs a name"}
			}
			entry[lineOf] = child.Line
			s.Inline[name] = append(s.Inline[name], entry)
		default:
			return wrong(child.Line)
		}
	}
	s.Task[name] = ids
	return nil
}

// lineOf is the key under which an entry stores its line number.
const lineOf = "\x00line"

// itemPass is the metric of a limit on every question: the minimum share of its runs that must pass.
const itemPass = "item_pass"

// meaningAgreement is a metric of tasks whose answers a model groups by meaning; other tasks do not have it.
const meaningAgreement = "meaning_agreement"

// Metrics are the metrics that can have limits. The limits of the last two are maximums; all others are minimums.
var Metrics = []string{
	"success_rate", "identical_rate", "agreement", meaningAgreement, "consensus", "similarity", "pass_rate",
	"pass_rate_all",
	"majority_rate", "score_mean",
	itemPass, "latency_p90_ms", "cost",
}

// isMost reports whether a limit of the metric is a maximum.
func isMost(metric string) bool { return metric == "latency_p90_ms" || metric == "cost" }

// ParseLimit parses metric=value, where the value is a number or, for a share, a percentage. The value of item_pass
// can also be a fraction, such as 4/5.
func ParseLimit(text string) (metric string, value float64, err error) {
	metric, number, hasValue := strings.Cut(text, "=")
	if metric = strings.TrimSpace(metric); !hasValue || !slices.Contains(Metrics, metric) {
		return "", 0, fmt.Errorf("%q is not a limit; write metric=value, with one of %s", text, strings.Join(Metrics, ", "))
	}
	switch {
	case isMost(metric):
		value, err = parseAmount(number)
	case metric == itemPass && strings.Contains(number, "/"):
		if value, err = parseFraction(number); err != nil {
			return "", 0, fmt.Errorf("%q: the limit of %s must be passes/runs, such as 4/5", text, metric)
		}
	default:
		value, err = parseShare(number)
	}
	if err != nil {
		return "", 0, fmt.Errorf("%q: the limit of %s %w", text, metric, err)
	}
	return metric, value, nil
}

// ParseMargin parses metric=value: by how much the metric may be worse than the baseline's.
func ParseMargin(text string) (metric string, value float64, err error) {
	metric, number, hasValue := strings.Cut(text, "=")
	metric = strings.TrimSpace(metric)
	place := slices.IndexFunc(watches, func(w watch) bool { return w.name == metric || w.api == metric })
	if !hasValue || place < 0 {
		all := make([]string, len(watches))
		for n, w := range watches {
			all[n] = w.name
		}
		return "", 0, fmt.Errorf("%q is not a margin; write metric=value, with one of %s", text, strings.Join(all, ", "))
	}
	parse := parseShare
	if watches[place].isLatency {
		parse = parseAmount
	}
	if value, err = parse(number); err != nil {
		return "", 0, fmt.Errorf("%q: the margin of %s %w", text, metric, err)
	}
	return watches[place].name, value, nil
}

// parseAmount parses a number that is not a share.
func parseAmount(text string) (float64, error) {
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(value >= 0) || math.IsInf(value, 0) {
		return 0, errors.New("must be a number, 0 or more")
	}
	return value, nil
}

// parseShare parses a share: a number or a percentage.
func parseShare(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		value /= 100
	}
	if err != nil || !(value >= 0 && value <= 1) {
		return 0, errors.New("must be between 0 and 1")
	}
	return value, nil
}

// parseFraction parses passes/runs.
func parseFraction(text string) (float64, error) {
	part, whole, _ := strings.Cut(text, "/")
	passes, err := strconv.Atoi(strings.TrimSpace(part))
	if err != nil {
		return 0, err
	}
	runs, err := strconv.Atoi(strings.TrimSpace(whole))
	if err != nil {
		return 0, err
	}
	if runs < 1 || passes < 0 || passes > runs {
		return 0, errors.New("more passes than runs")
	}
	return float64(passes) / float64(runs), nil
}

// variants returns how many variants the file requests.
func (s Spec) variants() int {
	count := func(kind string) int {
		ids, _ := s.Task[kind].([]string)
		return len(ids) + len(s.Inline[kind])
	}
	targets := count("models") + count("agents")
	if _, isTyped := s.Task["agent_api_url"]; isTyped {
		targets++
	}
	return max(1, count("prompts")) * targets
}

// hasEvaluators reports whether the answers are judged.
func (s Spec) hasEvaluators() bool {
	ids, _ := s.Task["evaluators"].([]string)
	return len(ids)+len(s.Inline["evaluators"]) > 0
}

// located adds the line of the file to an error reported by the server.
func (s Spec) located(refusal *RefusalError) error {
	for _, detail := range refusal.Details {
		name, _, _ := strings.Cut(detail.Column, ".")
		if line, isThere := s.Lines[name]; isThere {
			return &SpecError{s.File, line, detail.Message}
		}
	}
	for field, code := range map[string]string{
		"task_name": "TASK_NAME", "agent_api_url": "AGENT_URL", "agent_api_headers": "AGENT_HEADERS",
		"dataset_file": "DATASET",
	} {
		if line, isThere := s.Lines[field]; isThere && strings.HasPrefix(refusal.Code, code) {
			return &SpecError{s.File, line, refusal.Message}
		}
	}
	return refusal
}

// jsonOf returns a value as JSON.
func jsonOf(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return text, errors.Join(err)
}
