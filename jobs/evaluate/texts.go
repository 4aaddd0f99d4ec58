package evaluate

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"

	"wending/db/measure"
	"wending/jobs/reason"
)

// plainForm normalises letters, digits and punctuation of every width and shape (NFKC), and composes characters. It
// does not change other characters that NFKC would change: ² does not become 2.
func plainForm(text string) string {
	var plain strings.Builder
	for _, r := range width.Fold.String(text) {
		if r > unicode.MaxASCII && (unicode.IsLetter(r) || unicode.Is(unicode.Nd, r) || unicode.IsPunct(r)) {
			plain.WriteString(norm.NFKC.String(string(r)))
		} else {
			plain.WriteRune(r)
		}
	}
	return norm.NFC.String(plain.String())
}

func newExact(config json.RawMessage) (*Rule, error) {
	var c struct {
		Expected          string `json:"expected"`
		IgnoreCase        bool   `json:"ignore_case"`
		IgnoreWhitespace  bool   `json:"ignore_whitespace"`
		IgnorePunctuation bool   `json:"ignore_punctuation"`
	}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	reduce := func(text string) string {
		text = strings.TrimSpace(plainForm(text))
		if c.IgnoreCase {
			text = cases.Fold().String(text)
		}
		return strings.Map(func(r rune) rune {
			if c.IgnoreWhitespace && unicode.IsSpace(r) || c.IgnorePunctuation && unicode.IsPunct(r) {
				return -1
			}
			return r
		}, text)
	}
	return &Rule{expected: c.Expected, needsExpected: true, judge: func(s Subject, expected string) Verdict {
		if !utf8.ValidString(s.Answer) {
			return decided(s.Answer == expected, reason.Because("differs", s.Answer, expected))
		}
		// Trimmed once more, because white space may have preceded punctuation.
		is, should := strings.TrimSpace(reduce(s.Answer)), strings.TrimSpace(reduce(expected))
		if should == "" {
			return failed(CodeExpectation, reason.Because("expected.blank", expected))
		}
		return decided(is == should, reason.Because("differs", s.Answer, expected))
	}}, nil
}

// maxSearched is the maximum number of bytes that are searched in total: the answer's length times the number of texts
// that it is searched for.
const maxSearched = 64 << 20

// The modes of contains.
const (
	anyOf  = "any"
	allOf  = "all"
	noneOf = "none"
)

func newContains(config json.RawMessage) (*Rule, error) {
	c := struct {
		Expected   string   `json:"expected"`
		Values     []string `json:"values"`
		Mode       string   `json:"mode"`
		IgnoreCase bool     `json:"ignore_case"`
	}{Mode: anyOf}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{anyOf, allOf, noneOf}, c.Mode) {
		return nil, &ConfigError{Field: "mode", Detail: "any, all or none", Known: []string{anyOf, allOf, noneOf}}
	}
	if slices.ContainsFunc(c.Values, func(value string) bool { return strings.TrimSpace(value) == "" }) {
		return nil, limitedTo("values", Lines, "one is blank")
	}
	reduce := func(text string) string {
		if text = plainForm(text); c.IgnoreCase {
			text = cases.Fold().String(text)
		}
		return text
	}
	return &Rule{expected: c.Expected, needsExpected: len(c.Values) == 0, judge: func(s Subject, expected string) Verdict {
		values := c.Values
		if len(values) == 0 {
			values = []string{strings.TrimSpace(expected)}
		}
		if len(s.Answer)*len(values) > maxSearched {
			return limited()
		}
		answer := reduce(s.Answer)
		var there, missing []string
		for _, value := range values {
			if strings.Contains(answer, reduce(value)) {
				there = append(there, value)
			} else {
				missing = append(missing, value)
			}
		}
		switch c.Mode {
		case noneOf:
			return decided(len(there) == 0, reason.Because("contains.found", firstFew(there)...))
		case allOf:
			return decided(len(missing) == 0, reason.Because("contains.missing", firstFew(missing)...))
		}
		return decided(len(there) > 0, reason.Because("contains.none", firstFew(missing)...))
	}}, nil
}

// defaultSimilarity is the lowest similarity with which an answer passes, unless the rule sets another.
const defaultSimilarity = 0.8

func newSimilarity(config json.RawMessage) (*Rule, error) {
	c := struct {
		Expected  string  `json:"expected"`
		Threshold float64 `json:"threshold"`
	}{Threshold: defaultSimilarity}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	if !(c.Threshold >= 0 && c.Threshold <= 1) {
		return nil, limitedTo("threshold", Share, "a number from 0 to 1")
	}
	return &Rule{expected: c.Expected, needsExpected: true, judge: func(s Subject, expected string) Verdict {
		similarity := measure.Similarity([]byte(s.Answer), []byte(expected))
		return scored(similarity, similarity >= c.Threshold,
			reason.Because("similarity", figure(similarity), figure(c.Threshold)))
	}}, nil
}
