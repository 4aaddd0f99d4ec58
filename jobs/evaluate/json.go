package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ohler55/ojg/jp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"wending/jobs/agent/wire"
	"wending/jobs/reason"
)

// maxJSON is the maximum size in bytes of an answer that is read as JSON.
const maxJSON = 1 << 20

// errNoJSON means that an answer does not contain JSON.
var errNoJSON = errors.New("not JSON")

// answerJSON parses the JSON in an answer: the whole answer, or a value after thoughts, in prose or in a code fence. Of
// several values, it returns the last object; if there are no objects, the last list.
func answerJSON(answer string) (value any, err error) {
	text := strings.TrimSpace(wire.AfterThoughts(strings.TrimPrefix(answer, "\uFEFF")))
	if len(text) > maxJSON {
		return nil, errLimit
	}
	if value, err = jsonschema.UnmarshalJSON(strings.NewReader(wire.Unfenced(text))); err == nil {
		return value, nil
	}
	err = errNoJSON
	for _, passage := range wire.Passages(text) {
		found, notJSON := jsonschema.UnmarshalJSON(strings.NewReader(text[passage.From:passage.To]))
		if _, isObject := value.(map[string]any); notJSON == nil && (!isObject || passage.Value.Kind == wire.Object) {
			value, err = found, nil
		}
	}
	return value, err
}

// unread returns the verdict on an answer in which answerJSON found no JSON.
func unread(answer string, err error) Verdict {
	if errors.Is(err, errLimit) {
		return limited()
	}
	return decided(false, reason.Because("json.none", answer))
}

// schemaReason returns the reason why an answer does not match a schema.
func schemaReason(invalid *jsonschema.ValidationError) string {
	path := "/" + strings.Join(invalid.InstanceLocation, "/")
	counted := func(key string, got, want int) string {
		return reason.Because(key, path, strconv.Itoa(got), strconv.Itoa(want))
	}
	measured := func(key string, got, want *big.Rat) string {
		return reason.Because(key, path, ratio(got), ratio(want))
	}
	listed := func(key string, names []string) string {
		return reason.Because(key, append([]string{path}, firstFew(names)...)...)
	}
	switch k := invalid.ErrorKind.(type) {
	case *kind.Type:
		return reason.Because("schema.type", path, k.Got, strings.Join(k.Want, ", "))
	case *kind.Required:
		return listed("schema.required", k.Missing)
	case *kind.AdditionalProperties:
		return listed("schema.extra", k.Properties)
	case *kind.Enum:
		choices := make([]string, len(k.Want))
		for n, choice := range k.Want {
			choices[n] = textOf(choice)
		}
		return listed("schema.choice", choices)
	case *kind.Const:
		return listed("schema.choice", []string{textOf(k.Want)})
	case *kind.Format:
		return reason.Because("schema.format", path, textOf(k.Got), k.Want)
	case *kind.Pattern:
		return reason.Because("schema.pattern", path, k.Got, k.Want)
	case *kind.MinLength:
		return counted("schema.short", k.Got, k.Want)
	case *kind.MaxLength:
		return counted("schema.long", k.Got, k.Want)
	case *kind.MinItems:
		return counted("schema.few", k.Got, k.Want)
	case *kind.MaxItems:
		return counted("schema.many", k.Got, k.Want)
	case *kind.Minimum:
		return measured("schema.small", k.Got, k.Want)
	case *kind.Maximum:
		return measured("schema.large", k.Got, k.Want)
	case *kind.FalseSchema:
		return reason.Because("schema.false", path)
	}
	return rareSchemaReason(path, invalid)
}

// rareSchemaReason returns the reason why an answer violates one of the less common keywords.
func rareSchemaReason(path string, invalid *jsonschema.ValidationError) string {
	switch k := invalid.ErrorKind.(type) {
	case *kind.Not:
		return reason.Because("schema.not", path)
	case *kind.OneOf:
		return reason.Because("schema.oneof", path)
	case *kind.Dependency:
		return reason.Because("schema.depends", append([]string{path, k.Prop}, firstFew(k.Missing)...)...)
	case *kind.DependentRequired:
		return reason.Because("schema.depends", append([]string{path, k.Prop}, firstFew(k.Missing)...)...)
	case *kind.PropertyNames:
		return reason.Because("schema.name", path, k.Property)
	case *kind.UniqueItems:
		return reason.Because("schema.unique", path, strconv.Itoa(k.Duplicates[0]+1), strconv.Itoa(k.Duplicates[1]+1))
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		return reason.Because("schema.contains", path)
	case *kind.MinProperties:
		return reason.Because("schema.fewfields", path, strconv.Itoa(k.Got), strconv.Itoa(k.Want))
	case *kind.MaxProperties:
		return reason.Because("schema.manyfields", path, strconv.Itoa(k.Got), strconv.Itoa(k.Want))
	case *kind.ExclusiveMinimum:
		return reason.Because("schema.atmost", path, ratio(k.Got), ratio(k.Want))
	case *kind.ExclusiveMaximum:
		return reason.Because("schema.atleast", path, ratio(k.Got), ratio(k.Want))
	case *kind.MultipleOf:
		return reason.Because("schema.multiple", path, ratio(k.Got), ratio(k.Want))
	}
	return reason.Because("schema.fails", path)
}

// ratio formats a number from a schema for a reason.
func ratio(number *big.Rat) string {
	near, _ := number.Float64()
	return figure(near)
}

// noFiles refuses to load files or addresses that a schema refers to.
type noFiles struct{}

// Load implements jsonschema.URLLoader.
func (noFiles) Load(address string) (any, error) {
	return nil, fmt.Errorf("%s: a schema cannot refer to other documents", address)
}

// innermost returns the innermost cause of a value's mismatch with its schema.
func innermost(invalid *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	return invalid
}

// wrongSchema returns the error for a schema that cannot be compiled.
func wrongSchema(err error) error {
	var (
		invalid   *jsonschema.SchemaValidationError
		misfit    *jsonschema.ValidationError
		unloaded  *jsonschema.LoadURLError
		pattern   *jsonschema.InvalidRegexError
		anchor    *jsonschema.AnchorNotFoundError
		pointer   *jsonschema.JSONPointerNotFoundError
		draft     *jsonschema.UnsupportedDraftError
		metaError *jsonschema.InvalidMetaSchemaURLError
	)
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, &misfit):
		because := schemaReason(innermost(misfit))
		return &ConfigError{Field: "schema", Detail: reason.Cut(err.Error(), reason.MaxShown), Why: because}
	case errors.As(err, &unloaded):
		return wrong("schema", err, "schema.refers", unloaded.URL)
	case errors.As(err, &pattern):
		return wrong("schema", err, "schema.regex", pattern.Regex)
	case errors.As(err, &anchor):
		return wrong("schema", err, "schema.reference", anchor.Reference)
	case errors.As(err, &pointer):
		return wrong("schema", err, "schema.reference", fragmentOf(pointer.URL))
	case errors.As(err, &draft):
		return wrong("schema", err, "schema.draft", draft.URL)
	case errors.As(err, &metaError):
		return wrong("schema", err, "schema.draft", metaError.URL)
	}
	return wrong("schema", err, "schema.unusable")
}

// fragmentOf returns the fragment of an address, which names a part of a schema, with its #.
func fragmentOf(address string) string {
	_, fragment, _ := strings.Cut(address, "#")
	return "#" + fragment
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
		return nil, wrong("schema", err, "config.json")
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noFiles{})
	compiler.AssertFormat()
	const address = "wending:///schema"
	if err := compiler.AddResource(address, document); err != nil {
		return nil, wrongSchema(err)
	}
	schema, err := compiler.Compile(address)
	if err != nil {
		return nil, wrongSchema(err)
	}
	return &Rule{judge: func(s Subject, _ string) Verdict {
		value, err := answerJSON(s.Answer)
		if err != nil {
			return unread(s.Answer, err)
		}
		err = schema.Validate(value)
		if invalid := (*jsonschema.ValidationError)(nil); errors.As(err, &invalid) {
			return decided(false, schemaReason(innermost(invalid)))
		}
		return decided(err == nil, "")
	}}, nil
}

// pathPlace matches the position of a path error in the library's message.
var pathPlace = regexp.MustCompile(` at (\d+) in `)

// wrongPath returns the error for a path that cannot be parsed.
func wrongPath(path string, err error) error {
	place := 1
	if found := pathPlace.FindStringSubmatch(err.Error()); found != nil {
		place, _ = strconv.Atoi(found[1])
	}
	read := strings.ToValidUTF8(path[:min(max(place-1, 0), len(path))], "\uFFFD")
	return wrong("path", err, "path.invalid", strconv.Itoa(utf8.RuneCountInString(read)+1), path)
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
		return nil, wrong("path", nil, "config.long", strconv.Itoa(maxPattern))
	}
	path, err := jp.ParseString(c.Path)
	if err != nil {
		return nil, wrongPath(c.Path, err)
	}
	var should any
	if c.Equals != nil {
		if should, err = jsonschema.UnmarshalJSON(bytes.NewReader(c.Equals)); err != nil {
			return nil, wrong("equals", err, "config.json")
		}
	}
	return &Rule{expected: c.Expected, needsExpected: c.Equals == nil, judge: func(s Subject, expected string) Verdict {
		value, err := answerJSON(s.Answer)
		if err != nil {
			return unread(s.Answer, err)
		}
		found := path.Get(withNumbers(value))
		if len(found) == 0 {
			return decided(false, reason.Because("path.none", c.Path))
		}
		for _, one := range found {
			if c.Equals != nil && sameJSON(one, should) || c.Equals == nil && isText(one, expected) {
				return decided(true, "")
			}
		}
		if c.Equals != nil {
			expected = string(c.Equals)
		}
		return decided(false, reason.Because("path.differs", c.Path, textOf(found[0]), expected))
	}}, nil
}

// withNumbers converts the numbers of a value to types that filters can compare: integers and floats. Numbers that
// fit neither are left unchanged.
func withNumbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		if number, err := value.Float64(); err == nil &&
			sameNumber(value, json.Number(strconv.FormatFloat(number, 'g', -1, 64))) {
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

// isText reports whether a value equals a text: either as that text, or as the JSON in it.
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

// textOf returns the form of a JSON value that is compared with a text: a string verbatim, anything else as
// JSON.
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

// sameJSON reports whether two JSON values are equal: numbers by value, members of objects in any order.
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

// written returns a number as a json.Number, in its original notation if that is known. The result is false for any
// other value.
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

// sameNumber reports whether two numbers are equal. If they are too long to be compared exactly, it compares their
// text.
func sameNumber(a, b json.Number) bool {
	one, isA := exactly(a)
	other, isB := exactly(b)
	if isA && isB {
		return one.Cmp(other) == 0
	}
	return a == b
}
