package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ohler55/ojg/jp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// maxJSON is how many bytes an answer may have that is read as JSON.
const maxJSON = 1 << 20

// errNoJSON means that an answer is not JSON.
var errNoJSON = errors.New("not JSON")

// answerJSON reads an answer that is one JSON value, perhaps in a fenced block of code.
func answerJSON(answer string) (value any, err error) {
	text := strings.TrimSpace(strings.TrimPrefix(answer, "\uFEFF"))
	if len(text) > maxJSON {
		return nil, errLimit
	}
	if rest, isFenced := strings.CutPrefix(text, "```"); isFenced {
		if _, body, hasLines := strings.Cut(rest, "\n"); hasLines {
			text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(body), "```"))
		}
	}
	value, err = jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, errNoJSON
	}
	return value, nil
}

// unread is the verdict on an answer that answerJSON does not read.
func unread(answer string, err error) Verdict {
	if errors.Is(err, errLimit) {
		return limited()
	}
	return decided(false, "¬JSON: "+quoted(answer))
}

// english says what is wrong with an answer by a schema.
var english = message.NewPrinter(language.English)

// noFiles refuses to load what a schema refers to: neither files nor addresses.
type noFiles struct{}

// Load implements jsonschema.URLLoader.
func (noFiles) Load(address string) (any, error) {
	return nil, fmt.Errorf("%s: a schema cannot refer to other documents", address)
}

func newJSONSchema(config json.RawMessage) (*Rule, error) {
	var c struct {
		Schema json.RawMessage `json:"schema"`
	}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	if len(c.Schema) == 0 || string(c.Schema) == "null" {
		return nil, &ConfigError{Field: "schema"}
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	if err != nil {
		return nil, wrong("schema", "%v", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noFiles{})
	const address = "wending:///schema"
	if err := compiler.AddResource(address, document); err != nil {
		return nil, wrong("schema", "%v", err)
	}
	schema, err := compiler.Compile(address)
	if err != nil {
		return nil, wrong("schema", "%s", cut(err.Error(), maxShown))
	}
	return &Rule{judge: func(s Subject, _ string) Verdict {
		value, err := answerJSON(s.Answer)
		if err != nil {
			return unread(s.Answer, err)
		}
		err = schema.Validate(value)
		if invalid := (*jsonschema.ValidationError)(nil); errors.As(err, &invalid) {
			for len(invalid.Causes) > 0 {
				invalid = invalid.Causes[0]
			}
			return decided(false, cut("/"+strings.Join(invalid.InstanceLocation, "/")+": "+invalid.ErrorKind.LocalizedString(english), maxShown))
		}
		return decided(err == nil, "")
	}}, nil
}

func newJSONPath(config json.RawMessage) (*Rule, error) {
	var c struct {
		Expected string          `json:"expected"`
		Path     string          `json:"path"`
		Equals   json.RawMessage `json:"equals"`
	}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	switch {
	case c.Path == "":
		return nil, &ConfigError{Field: "path"}
	case len(c.Path) > maxPattern:
		return nil, wrong("path", "more than %d characters", maxPattern)
	}
	path, err := jp.ParseString(c.Path)
	if err != nil {
		return nil, wrong("path", "%v", err)
	}
	var should any
	if c.Equals != nil {
		if should, err = jsonschema.UnmarshalJSON(bytes.NewReader(c.Equals)); err != nil {
			return nil, wrong("equals", "%v", err)
		}
	}
	return &Rule{expected: c.Expected, needsExpected: c.Equals == nil, judge: func(s Subject, expected string) Verdict {
		value, err := answerJSON(s.Answer)
		if err != nil {
			return unread(s.Answer, err)
		}
		found := path.Get(withNumbers(value))
		if len(found) == 0 {
			return decided(false, c.Path+" ∉")
		}
		for _, one := range found {
			if c.Equals != nil && sameJSON(one, should) || c.Equals == nil && isText(one, expected) {
				return decided(true, "")
			}
		}
		if c.Equals != nil {
			expected = string(c.Equals)
		}
		return decided(false, quoted(textOf(found[0]))+" ≠ "+quoted(expected))
	}}, nil
}

// withNumbers makes the numbers of a value such as filters compare: whole ones and others. One that neither holds stays as
// it is written.
func withNumbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		if number, err := value.Float64(); err == nil && sameNumber(value, json.Number(strconv.FormatFloat(number, 'g', -1, 64))) {
			return number
		}
	case []any:
		for n := range value {
			value[n] = withNumbers(value[n])
		}
	case map[string]any:
		for name := range value {
			value[name] = withNumbers(value[name])
		}
	}
	return value
}

// isText reports whether a value is what a text says: as a text, or as the JSON that the text is.
func isText(value any, expected string) bool {
	expected = strings.TrimSpace(expected)
	if textOf(value) == expected {
		return true
	}
	written, err := jsonschema.UnmarshalJSON(strings.NewReader(expected))
	if _, isText := value.(string); isText || err != nil {
		return false
	}
	return sameJSON(value, written)
}

// textOf is a JSON value as it is compared with a text: a text as it is, anything else as JSON.
func textOf(value any) string {
	if text, isText := value.(string); isText {
		return strings.TrimSpace(text)
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return ""
	}
	return strings.TrimSpace(text.String())
}

// sameJSON reports whether two JSON values are equal: numbers by their value, objects in any order.
func sameJSON(a, b any) bool {
	if one, isNumber := written(a); isNumber {
		other, areNumbers := written(b)
		return areNumbers && sameNumber(one, other)
	}
	switch a := a.(type) {
	case []any:
		b, isList := b.([]any)
		if !isList || len(a) != len(b) {
			return false
		}
		for n := range a {
			if !sameJSON(a[n], b[n]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, isObject := b.(map[string]any)
		if !isObject || len(a) != len(b) {
			return false
		}
		for name := range a {
			other, isThere := b[name]
			if !isThere || !sameJSON(a[name], other) {
				return false
			}
		}
		return true
	}
	return a == b
}

// written is a number as it is written.
func written(value any) (json.Number, bool) {
	switch value := value.(type) {
	case json.Number:
		return value, true
	case int64:
		return json.Number(strconv.FormatInt(value, 10)), true
	case float64:
		return json.Number(strconv.FormatFloat(value, 'g', -1, 64)), true
	}
	return "", false
}

// sameNumber compares numbers exactly, but those whose exponents are too large to be written out.
func sameNumber(a, b json.Number) bool {
	one, isA := exactly(a)
	other, isB := exactly(b)
	if isA && isB {
		return one.Cmp(other) == 0
	}
	return a == b
}
