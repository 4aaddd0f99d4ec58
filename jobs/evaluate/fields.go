package evaluate

import (
	"encoding/json"
	"slices"
	"strings"
)

// Type is the type of a configuration field.
type Type string

// The types of fields.
const (
	Line   Type = "line"   // a text on one line
	Text   Type = "text"   // a text on several lines
	Amount Type = "amount" // a number
	Truth  Type = "truth"  // true or false
	Choice Type = "choice" // one of several words
	Lines  Type = "lines"  // a list of texts, one per line
	JSON   Type = "json"   // any JSON
	// Model is the id of a saved model.
	Model Type = "model"
)

// Ranges for ConfigError.Limit that are narrower than the types: Share is a number from 0 to 1; the others are the
// ranges of a judge's members.
const (
	Share       Type = "share"
	Hundred     Type = "hundred"
	Votes       Type = "votes"
	Temperature Type = "temperature"
	Dimensions  Type = "dimensions"
	Template    Type = "template"
)

// Field is one member of a configuration.
type Field struct {
	Name       string
	Type       Type
	Choices    []string
	IsRequired bool
	// Default is the value if the member is absent.
	Default string
}

var expectedField = Field{Name: "expected", Type: Line}

// Fields lists the members that the configurations of each kind have, in the order in which forms show them.
var Fields = map[Kind][]Field{
	Exact: {{Name: "ignore_case", Type: Truth}, {Name: "ignore_whitespace", Type: Truth},
		{Name: "ignore_punctuation", Type: Truth}, expectedField},
	Contains: {{Name: "values", Type: Lines},
		{Name: "mode", Type: Choice, Choices: []string{anyOf, allOf, noneOf}, Default: anyOf},
		{Name: "ignore_case", Type: Truth}, expectedField},
	Regex: {{Name: "pattern", Type: Line, IsRequired: true}},
	Number: {{Name: "which", Type: Choice, Choices: []string{lastOne, firstOf, anyOf}, Default: lastOne},
		{Name: "tolerance", Type: Amount, Default: "0"}, {Name: "relative", Type: Truth}, expectedField},
	JSONSchema: {{Name: "schema", Type: JSON, IsRequired: true}},
	JSONPath:   {{Name: "path", Type: Line, IsRequired: true}, {Name: "equals", Type: JSON}, expectedField},
	Similarity: {{Name: "threshold", Type: Amount, Default: "0.8"}, expectedField},
	Expression: {{Name: "expression", Type: Text, IsRequired: true}, {Name: "threshold", Type: Amount, Default: "0.5"},
		expectedField},
	Latency: {{Name: "max_ms", Type: Amount, IsRequired: true}},
	Judge: {
		{Name: "model_id", Type: Model, IsRequired: true}, {Name: "prompt", Type: Text}, {Name: "dimensions", Type: Lines},
		{Name: "threshold", Type: Amount, Default: "60"}, {Name: "votes", Type: Amount, Default: "1"},
		{Name: "temperature", Type: Amount},
	},
}

// FormField returns the name of the form field for a member of an evaluator's configuration.
func FormField(name string) string { return "config_" + name }

// ReadFields creates the configuration of a kind from form fields; empty fields count as absent. Its error is a
// ConfigError.
func ReadFields(kind Kind, typed func(name string) string) (json.RawMessage, error) {
	config := map[string]any{}
	for _, field := range Fields[kind] {
		value := strings.TrimSpace(typed(field.Name))
		if value == "" {
			continue
		}
		switch field.Type {
		case Truth:
			config[field.Name] = value == "true"
		case Amount, JSON:
			if !json.Valid([]byte(value)) {
				return nil, limitedTo(field.Name, field.Type, "not valid: "+quoted(value))
			}
			config[field.Name] = json.RawMessage(value)
		case Lines:
			var lines []string
			for line := range strings.Lines(value) {
				if line = strings.TrimSpace(line); line != "" {
					lines = append(lines, line)
				}
			}
			config[field.Name] = lines
		default:
			config[field.Name] = value
		}
	}
	return json.Marshal(config)
}

// WriteFields returns the members of a configuration as the values of form fields, keyed by name.
func WriteFields(kind Kind, config json.RawMessage) map[string]string {
	shown := map[string]string{}
	var members map[string]json.RawMessage
	if json.Unmarshal(config, &members) != nil {
		return shown
	}
	for _, field := range Fields[kind] {
		member, isThere := members[field.Name]
		if !isThere {
			continue
		}
		var text string
		var lines []string
		switch {
		case slices.Contains([]Type{Line, Text, Choice, Model}, field.Type) && json.Unmarshal(member, &text) == nil:
			shown[field.Name] = text
		case field.Type == Lines && json.Unmarshal(member, &lines) == nil:
			shown[field.Name] = strings.Join(lines, "\n")
		default:
			shown[field.Name] = string(member)
		}
	}
	return shown
}
