package answers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"wending/jobs/dataset"
)

// maxMembers is the maximum number of members of one JSON object, and of elements of one list.
const maxMembers = 1000

// eachObject calls yield with the JSON objects of a file, which has one on each line.
func eachObject(ctx context.Context, content []byte, yield func(line int, text json.RawMessage) error) error {
	number := 0
	for line := range bytes.SplitSeq(bytes.TrimPrefix(content, []byte("\uFEFF")), []byte("\n")) {
		if number++; number%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line = bytes.TrimFunc(line, unicode.IsSpace)
		if len(line) == 0 {
			continue
		}
		if line[0] != '{' || !json.Valid(line) {
			return problem(dataset.CodeUnreadable, "answers_line", "Line", number)
		}
		if err := yield(number, line); err != nil {
			return err
		}
	}
	return nil
}

// member is a name in a JSON object, with its value.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of a JSON object in order; nil if the value is not an object, or has too many.
func membersOf(text json.RawMessage) (members []member) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return nil
	}
	members = []member{}
	for decoder.More() {
		name, err := decoder.Token()
		var one member
		if err != nil || decoder.Decode(&one.value) != nil || len(members) == maxMembers {
			return nil
		}
		one.name, _ = name.(string)
		members = append(members, one)
	}
	return members
}

// textOf returns a JSON value as text: a string's characters, nothing for null, and otherwise its compact JSON.
func textOf(value json.RawMessage) string {
	var text string
	switch value = bytes.TrimSpace(value); {
	case len(value) == 0 || string(value) == "null":
		return ""
	case value[0] == '"' && json.Unmarshal(value, &text) == nil:
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return string(value)
	}
	return compact.String()
}

// readLines reads a file with a JSON object on each line: a run or, as in reports of this product, a question with a
// list of its runs.
func (b *builder) readLines(ctx context.Context, content []byte) error {
	return eachObject(ctx, content, func(line int, text json.RawMessage) error {
		members := membersOf(text)
		if members == nil {
			return problem(dataset.CodeTooComplex, "answers_members", "Line", line, "Max", maxMembers)
		}
		return b.line(line, members)
	})
}

// ofReport lists the members of a report's lines that are skipped: they say nothing about the question or its answers.
var ofReport = []string{"number", "level", "agreement", "similarity", "distinct", "letters", "novelty", "facts_differ",
	"facts", "expected_facts", "variants", "reviews", "created_at", "series", "turn"}

func (b *builder) line(line int, members []member) error {
	var cells, names []string
	var runs, variants json.RawMessage
	isReport := slices.ContainsFunc(members, func(m member) bool { return strings.EqualFold(m.name, "runs") })
	for _, one := range members {
		folded := strings.ToLower(one.name)
		switch {
		case folded == "runs":
			runs = one.value
		case isReport && folded == "variants":
			variants = one.value
		case isReport && (slices.Contains(ofReport, folded) || folded == columnCompleted):
		case folded == "variables":
			for _, variable := range membersOf(one.value) {
				names, cells = append(names, variablePrefix+variable.name), append(cells, textOf(variable.value))
			}
		default:
			names, cells = append(names, one.name), append(cells, textOf(one.value))
		}
	}
	if isReport {
		return b.reportLine(line, names, cells, runs, variants)
	}
	h, err := b.newHeader(names)
	isFirst := b.file.Columns == nil
	if refused := (*dataset.Error)(nil); errors.As(err, &refused) {
		if isFirst { // the first line decides whether the file has this format
			return err
		}
		b.fail(line, "", "answers_members", "Missing", refused.Args["Missing"])
		return nil
	}
	if isFirst {
		b.file.Columns = h.described
	}
	return b.row(h, line, cells)
}

// reportLine adds a question with a list of its runs.
func (b *builder) reportLine(line int, names, cells []string, runs, variants json.RawMessage) error {
	q, f := question{values: map[string]string{}}, fields{}
	for n, name := range names {
		if folded := strings.ToLower(name); slices.Contains(ofItem, folded) {
			f[folded] = cells[n]
			continue
		}
		name = strings.TrimPrefix(name, variablePrefix)
		q.names, q.values[name] = append(q.names, name), cells[n]
	}
	q.read(f)
	index, ok, err := b.item(line, q)
	if err != nil || !ok {
		return err
	}
	var list []json.RawMessage
	if decode(runs, &list); len(list) == 0 || len(list) > maxMembers {
		b.fail(line, "runs", "answers_result")
		return nil
	}
	titles := titlesOf(variants)
	for _, text := range list {
		if err := b.reportRun(line, index, text, titles); err != nil {
			return err
		}
	}
	return nil
}

// titlesOf maps the numbers of a line's variants to their names.
func titlesOf(variants json.RawMessage) map[string]string {
	var list []struct {
		Number json.Number `json:"number"`
		Name   string      `json:"name"`
	}
	titles := map[string]string{}
	if json.Unmarshal(variants, &list) == nil {
		for _, one := range list {
			titles[one.Number.String()] = one.Name
		}
	}
	return titles
}

func (b *builder) reportRun(line, index int, text json.RawMessage, titles map[string]string) error {
	f := fields{}
	var one struct {
		OutputBase64 *string `json:"output_base64"`
	}
	for _, own := range membersOf(text) {
		name := strings.ToLower(own.name)
		if other, isOther := ofOthers[name]; isOther {
			name = other
		}
		f[name] = textOf(own.value)
	}
	if json.Unmarshal(text, &one) == nil && one.OutputBase64 != nil {
		exact, err := base64.StdEncoding.DecodeString(*one.OutputBase64)
		if err == nil {
			f[columnAnswer] = string(exact)
		}
	}
	run, isThere, ok := b.run(line, "", f)
	if !ok || !isThere {
		return nil
	}
	v := Variant{Name: clean(f[columnVariant]), Currency: clean(f[columnCurrency])}
	if title, isKnown := titles[v.Name]; isKnown {
		v.Name = title
	}
	if run.Variant, ok = b.variant(line, columnVariant, v.Name, v); !ok {
		return nil
	}
	if n, err := strconv.Atoi(f[columnRun]); err == nil && n > 0 {
		run.Index = n
	}
	return b.add(line, columnRun, index, run)
}

// decode reads a JSON value from an evaluation tool's file into a struct. Members of an unexpected type stay empty.
func decode(text json.RawMessage, into any) { _ = json.Unmarshal(text, into) }

// isMistyped reports whether decoding JSON failed only because some members have an unexpected type. The other members
// have been read.
func isMistyped(err error) bool {
	mistyped := (*json.UnmarshalTypeError)(nil)
	return errors.As(err, &mistyped)
}

// decode is like the function decode, but it records an error and returns false if the row is not a JSON object.
func (b *builder) decode(row int, text json.RawMessage, into any) bool {
	if err := json.Unmarshal(text, into); err != nil && !isMistyped(err) || len(text) == 0 || text[0] != '{' {
		b.fail(row, "", "answers_result")
		return false
	}
	return true
}
