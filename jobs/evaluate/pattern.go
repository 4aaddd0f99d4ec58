package evaluate

import (
	"encoding/json"
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"unicode/utf8"

	"wending/jobs/reason"
)

// maxInstructions is the maximum number of instructions that a pattern may compile to. maxSteps limits the steps of
// matching: in the worst case, one for each instruction and byte of the text.
const (
	maxInstructions = 5000
	maxSteps        = 50_000_000
)

// pattern is a regular expression whose cost is known before matching.
type pattern struct {
	*regexp.Regexp
	instructions int
}

func compilePattern(text string) (*pattern, error) {
	if utf8.RuneCountInString(text) > maxPattern {
		return nil, wrong("", nil, "config.long", strconv.Itoa(maxPattern))
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, wrongPattern(text, err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, wrongPattern(text, err)
	}
	if len(program.Inst) > maxInstructions {
		return nil, wrong("", errLargePattern, "regex.large")
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, wrongPattern(text, err)
	}
	return &pattern{compiled, len(program.Inst)}, nil
}

// maxPart is the maximum number of characters of a pattern or an expression that an explanation shows.
const maxPart = 40

var errLargePattern = errors.New("the pattern is too large once its repetitions are expanded")

// wrongPattern returns the error for a pattern that cannot be compiled.
func wrongPattern(text string, err error) error {
	part, key := text, "regex.other"
	if found := (*syntax.Error)(nil); errors.As(err, &found) {
		part = found.Expr
		switch found.Code {
		case syntax.ErrMissingBracket, syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
			key = "regex.closing"
		case syntax.ErrMissingRepeatArgument, syntax.ErrInvalidRepeatOp, syntax.ErrInvalidRepeatSize:
			key = "regex.repeat"
		case syntax.ErrInvalidEscape, syntax.ErrTrailingBackslash:
			key = "regex.escape"
		case syntax.ErrInvalidPerlOp:
			key = "regex.perl"
		case syntax.ErrInvalidCharClass, syntax.ErrInvalidCharRange:
			key = "regex.class"
		case syntax.ErrLarge, syntax.ErrNestingDepth:
			return wrong("", err, "regex.large")
		}
	}
	return wrong("", err, key, reason.Cut(part, maxPart))
}

// matches reports whether a text has a match; it returns errLimit if finding out would take too long.
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
		if named := (*ConfigError)(nil); errors.As(err, &named) {
			named.Field = "pattern"
		}
		return nil, err
	}
	return &Rule{judge: func(s Subject, _ string) Verdict {
		matches, err := compiled.matches(s.Answer)
		if err != nil {
			return limited()
		}
		return decided(matches, reason.Because("regex", c.Pattern))
	}}, nil
}
