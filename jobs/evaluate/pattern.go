package evaluate

import (
	"encoding/json"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// maxInstructions is how many instructions a pattern may compile to, maxSteps how many times they are followed at most:
// matching takes a step for each instruction and byte of the text in the worst case.
const (
	maxInstructions = 5000
	maxSteps        = 50_000_000
)

// pattern is a regular expression whose cost is known before it is matched.
type pattern struct {
	*regexp.Regexp
	instructions int
}

func compilePattern(text string) (*pattern, error) {
	if utf8.RuneCountInString(text) > maxPattern {
		return nil, wrong("", "more than %d characters", maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, wrong("", "%v", err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, wrong("", "%v", err)
	}
	if len(program.Inst) > maxInstructions {
		return nil, wrong("", "too large when its repetitions are written out")
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, wrong("", "%v", err)
	}
	return &pattern{compiled, len(program.Inst)}, nil
}

// matches reports whether a text has a match, or errLimit.
func (p *pattern) matches(text string) (bool, error) {
	if len(text) > maxSteps/p.instructions {
		return false, errLimit
	}
	return p.MatchString(text), nil
}

func newRegex(config json.RawMessage) (*Rule, error) {
	var c struct {
		Pattern string `json:"pattern"`
	}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	if c.Pattern == "" {
		return nil, &ConfigError{Field: "pattern"}
	}
	compiled, err := compilePattern(c.Pattern)
	if err != nil {
		return nil, wrong("pattern", "%v", err)
	}
	return &Rule{judge: func(s Subject, _ string) Verdict {
		matches, err := compiled.matches(s.Answer)
		if err != nil {
			return limited()
		}
		return decided(matches, Because("regex", c.Pattern))
	}}, nil
}
