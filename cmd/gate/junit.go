package gate

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The elements of JUnit XML that GitLab, Jenkins and GitHub Actions read.
type suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Time     string   `xml:"time,attr"`
	Suites   []suite  `xml:"testsuite"`
}

type suite struct {
	Name     string `xml:"name,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Time     string `xml:"time,attr"`
	// Properties are nil if there are none: an empty element is not valid.
	Properties *properties `xml:"properties"`
	Cases      []testCase  `xml:"testcase"`
	seconds    float64
}

type properties struct {
	List []property `xml:"property"`
}

type property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// newProperties returns the properties whose value is known; nil if there are none.
func newProperties(list ...property) *properties {
	list = slices.DeleteFunc(slices.Clone(list), func(p property) bool { return p.Value == "" })
	if len(list) == 0 {
		return nil
	}
	for n := range list {
		list[n].Value = clean(list[n].Value)
	}
	return &properties{list}
}

type testCase struct {
	Class string `xml:"classname,attr"`
	Name  string `xml:"name,attr"`
	Time  string `xml:"time,attr"`
	// Properties are nil if there are none.
	Properties *properties `xml:"properties"`
	Failure    *problem    `xml:"failure"`
	Error      *problem    `xml:"error"`
	Out        string      `xml:"system-out,omitempty"`
}

type problem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// nameLength is how many characters of a question are used as the name of its case.
const nameLength = 80

// writeJUnit writes a suite for each variant, with a case for each question, and another suite for the limits. A
// question fails if no more than half of its judged runs pass; a question with a failed or missing run is an error.
func writeJUnit(w io.Writer, r report, checks []check) error {
	name := clean(r.Name)
	all := suites{Name: name}
	var seconds float64
	for _, one := range r.Variants {
		s := suite{Name: name, Properties: newProperties(r.properties(one)...)}
		if one.Name != "" {
			s.Name += " · " + clean(one.Name)
		}
		for _, q := range r.Questions {
			s.add(q.testCase(s.Name, one.Number))
		}
		seconds += s.seconds
		all.add(s)
	}
	if len(checks) > 0 {
		limits := suite{Name: name + " · limits", Properties: newProperties(r.properties(variant{})...)}
		for _, check := range checks {
			one := testCase{Class: limits.Name, Name: check.name, Time: "0", Properties: newProperties(check.properties...)}
			if len(r.Variants) > 1 {
				one.Name = fmt.Sprintf("variant %d: %s", check.variant, check.name)
			}
			if one.Out = check.text; check.outcome == isFailed {
				one.Failure = &problem{Message: check.text, Type: "limit", Text: check.text}
			}
			limits.add(one, 0)
		}
		all.add(limits)
	}
	all.Time = fmt.Sprintf("%.3f", seconds)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	return encoder.Encode(all)
}

// properties returns the description of the task and the statistics of a variant as JUnit properties.
func (r report) properties(of variant) []property {
	list := []property{{"task", r.ID}, {"url", r.URL}, {"baseline", r.Baseline}}
	for _, metric := range Metrics {
		list = append(list, property{metric, figure(of.metric(metric))})
	}
	return list
}

func (s *suite) add(one testCase, seconds float64) {
	s.Cases, s.Tests, s.seconds = append(s.Cases, one), s.Tests+1, s.seconds+seconds
	if one.Failure != nil {
		s.Failures++
	}
	if one.Error != nil {
		s.Errors++
	}
}

func (s *suites) add(one suite) {
	one.Time = fmt.Sprintf("%.3f", one.seconds)
	s.Suites = append(s.Suites, one)
	s.Tests, s.Failures, s.Errors = s.Tests+one.Tests, s.Failures+one.Failures, s.Errors+one.Errors
}

// testCase returns a question's test case for one variant, and the total duration of the variant's runs in seconds.
func (q question) testCase(class string, number int) (one testCase, seconds float64) {
	text := []rune(strings.Join(strings.Fields(q.Text), " "))
	if len(text) > nameLength {
		text = append(text[:nameLength], '…')
	}
	one = testCase{Class: class, Name: clean(q.ID + ": " + string(text))}
	var broken, failed []string
	for _, run := range q.Runs {
		if run.Variant != number {
			continue
		}
		if run.LatencyMS != nil {
			seconds += float64(*run.LatencyMS) / 1000
		}
		if run.Status != "SUCCEEDED" {
			line := fmt.Sprintf("run %d: %s", run.Index, run.Status)
			if run.ErrorCode != nil {
				line += " " + *run.ErrorCode
			}
			if run.ErrorMessage != nil {
				line += ": " + *run.ErrorMessage
			}
			broken = append(broken, line)
		}
		for _, evaluation := range run.Evaluations {
			if evaluation.Passed != nil && !*evaluation.Passed {
				failed = append(failed, fmt.Sprintf("run %d, %s: %s", run.Index, evaluation.Name, evaluation.Reason))
			}
		}
	}
	for _, of := range q.Variants {
		if of.Number != number {
			continue
		}
		if of.Letters != nil {
			one.Out = fmt.Sprintf("answers %s, agreement %s", *of.Letters, percent(of.Agreement))
		}
		if of.PassShare != nil && *of.PassShare <= 0.5 {
			one.Failure = &problem{Message: fmt.Sprintf("%s of the runs pass", percent(of.PassShare)), Type: "verdict",
				Text: clean(strings.Join(failed, "\n"))}
		}
	}
	if len(broken) > 0 {
		one.Failure = nil
		one.Error = &problem{Message: clean(broken[0]), Type: "call",
			Text: clean(strings.Join(append(broken, failed...), "\n"))}
	}
	one.Time = fmt.Sprintf("%.3f", seconds)
	return one, seconds
}

// clean replaces characters that XML does not allow with U+FFFD.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
