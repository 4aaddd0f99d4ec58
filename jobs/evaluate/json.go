package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"

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
	text := strings.TrimSpace(answer)
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

// maxSchemas is how many schemas may be applied, in all, while one answer is checked: a schema can refer to itself in ways
// that take forever.
const maxSchemas = 50_000

// fuel ends the check of an answer when too many schemas were applied. It is seen by the library as a vocabulary that
// every schema has.
type fuel struct{ left int }

// Validate implements jsonschema.SchemaExt.
func (f *fuel) Validate(*jsonschema.ValidatorContext, any) {
	if f.left--; f.left < 0 {
		panic(errLimit)
	}
}

// schemaPattern is a pattern within a schema.
type schemaPattern struct{ *pattern }

// MatchString implements jsonschema.Regexp.
func (p schemaPattern) MatchString(text string) bool {
	matches, err := p.matches(text)
	if err != nil {
		panic(err)
	}
	return matches
}

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
	if err := read(config, &c); err != nil {
		return nil, err
	}
	if len(c.Schema) == 0 || string(c.Schema) == "null" {
		return nil, &ConfigError{Field: "schema"}
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	if err != nil {
		return nil, wrong("schema", "%v", err)
	}
	tank := &fuel{}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noFiles{})
	compiler.AssertVocabs()
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL:     "wending:fuel",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return tank, nil },
	})
	compiler.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		compiled, err := compilePattern(text)
		return schemaPattern{compiled}, err
	})
	const address = "schema.json"
	if err := compiler.AddResource(address, document); err != nil {
		return nil, wrong("schema", "%v", err)
	}
	schema, err := compiler.Compile(address)
	if err != nil {
		return nil, wrong("schema", "%s", cut(err.Error(), maxShown))
	}
	var mu sync.Mutex // for the fuel
	check := func(value any) (err error) {
		mu.Lock()
		defer mu.Unlock()
		defer func() {
			if cause := recover(); cause != nil {
				err = errLimit
			}
		}()
		tank.left = maxSchemas
		return schema.Validate(value)
	}
	return &Rule{judge: func(s Subject, _ string) Verdict {
		value, err := answerJSON(s.Answer)
		if err != nil {
			return unread(s.Answer, err)
		}
		if err = check(value); errors.Is(err, errLimit) {
			return limited()
		}
		if invalid := (*jsonschema.ValidationError)(nil); errors.As(err, &invalid) {
			for len(invalid.Causes) > 0 {
				invalid = invalid.Causes[0]
			}
			return decided(false, cut("/"+strings.Join(invalid.InstanceLocation, "/")+": "+invalid.ErrorKind.LocalizedString(english), maxShown))
		}
		return decided(err == nil, "")
	}}, nil
}

// A path may search the whole value once, and filter twice: more of them multiply what they take.
const (
	maxDescents = 1
	maxFilters  = 2
)

func newJSONPath(config json.RawMessage) (*Rule, error) {
	var c struct {
		Expected string          `json:"expected"`
		Path     string          `json:"path"`
		Equals   json.RawMessage `json:"equals"`
	}
	if err := read(config, &c); err != nil {
		return nil, err
	}
	switch {
	case c.Path == "":
		return nil, &ConfigError{Field: "path"}
	case len(c.Path) > maxPattern:
		return nil, wrong("path", "more than %d characters", maxPattern)
	case strings.Count(c.Path, "..") > maxDescents || strings.Count(c.Path, "?") > maxFilters || strings.Contains(c.Path, "~"):
		return nil, wrong("path", "at most %d “..” and %d filters, which do not match patterns", maxDescents, maxFilters)
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
		found, err := get(path, value)
		if err != nil {
			return limited()
		}
		if len(found) == 0 {
			return decided(false, c.Path+" ∉")
		}
		for _, one := range found {
			if c.Equals != nil && sameJSON(one, should) || c.Equals == nil && textOf(one) == strings.TrimSpace(expected) {
				return decided(true, "")
			}
		}
		if c.Equals != nil {
			expected = string(c.Equals)
		}
		return decided(false, quoted(textOf(found[0]))+" ≠ "+quoted(expected))
	}}, nil
}

// get follows a path. A path that the library cannot follow in a value leads nowhere.
func get(path jp.Expr, value any) (found []any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			found, err = nil, errLimit
		}
	}()
	return path.Get(value), nil
}

// textOf is a JSON value as it is compared with a text: a text as it is, anything else as JSON.
func textOf(value any) string {
	if text, isText := value.(string); isText {
		return strings.TrimSpace(text)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// sameJSON reports whether two JSON values are equal: numbers by their value, objects in any order.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, isNumber := b.(json.Number)
		return isNumber && sameNumber(a, b)
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

// sameNumber compares numbers exactly, but those whose exponents are too large to be written out.
func sameNumber(a, b json.Number) bool {
	if strings.ContainsAny(string(a+b), "eE") || len(a)+len(b) > 2*maxDigits {
		one, errA := a.Float64()
		other, errB := b.Float64()
		return errA == nil && errB == nil && one == other
	}
	one, isA := new(big.Rat).SetString(string(a))
	other, isB := new(big.Rat).SetString(string(b))
	return isA && isB && one.Cmp(other) == 0
}
