// Package answers reads files of answers that were collected elsewhere: tables with a row for each run or for each
// question, reports of this product, and the results of other evaluation tools.
package answers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"wending/jobs/dataset"
)

// MaxBytes is the maximum size of a file. It is more than for a dataset, because each question has several answers.
const MaxBytes = 32 << 20

// The formats of files; Auto recognises them by their content.
const (
	Auto        = "auto"
	CSV         = "csv"
	XLSX        = "xlsx"
	JSONL       = "jsonl"
	Promptfoo   = "promptfoo"
	Inspect     = "inspect"
	OpenAIEvals = "openai-evals"
)

// Formats lists all formats.
var Formats = []string{Auto, CSV, XLSX, JSONL, Promptfoo, Inspect, OpenAIEvals}

// Limits on texts, in characters, and on the columns of a table that are kept as variables.
const (
	maxName      = 200
	maxCode      = 64
	maxMessage   = 100_000
	maxVariables = dataset.MaxColumns
	// maxRowErrors is the maximum number of row errors that are listed.
	maxRowErrors = 20
)

// Layout describes how to read a file.
type Layout struct {
	// Format is one of Formats; empty means Auto.
	Format string
	// Columns maps known column names to the names that the table uses instead; see Mappable.
	Columns map[string]string
	// Encoding is the encoding of a CSV file: dataset.GB18030, or empty for UTF-8.
	Encoding string
	// MaxRuns is the maximum number of runs of a question in a variant, and MaxVariants the maximum number of variants.
	MaxRuns, MaxVariants int
}

// File is the content of a file of answers.
type File struct {
	// Format is the file's format, never Auto.
	Format string
	// VariableNames are the names of the questions' variables: the columns that have no other meaning.
	VariableNames []string
	Variants      []Variant
	Items         []Item
	// Columns are the columns of a table, or the members of the first line of a JSONL file.
	Columns []Column
}

// Column is a column of a table, or a member of the objects in a JSONL file.
type Column struct {
	Name string
	// Role is what the column is read as: the name of a known column, Variable, or empty if the column is not read.
	Role string
}

// Variable is the role of a column that has no other meaning.
const Variable = "variable"

// Variant is the source of answers: a prompt, a model or both.
type Variant struct {
	// Name is empty if the file does not distinguish variants.
	Name string
	// Model is the model's name, and Currency the currency of the runs' costs; empty if unknown.
	Model, Currency string
}

// Item is a question with its answers.
type Item struct {
	QuestionID, Question, StandardAnswer string
	SystemPrompt, UserContext            *string
	// Variables are the values of File.VariableNames, in order.
	Variables []string
	Runs      []Run
	values    map[string]string
}

// Status is how a run ended.
type Status string

// The states of a run.
const (
	Succeeded Status = "SUCCEEDED"
	Failed    Status = "FAILED"
	TimedOut  Status = "TIMEOUT"
)

// The error codes of failed runs for which the file has no code.
const (
	CodeAgentError = "AGENT_ERROR"
	CodeTimeout    = "TIMEOUT"
)

// Run is one answer. A field that is nil or empty is unknown.
type Run struct {
	// Variant and Index count from 1.
	Variant, Index int
	Status         Status
	// Answer is nil if a failed run has none.
	Answer    *string
	Reasoning *string
	ErrorCode, ErrorMessage,
	FinishReason string
	LatencyMS, InputTokens, OutputTokens, ReasoningTokens, TotalTokens *int
	// Cost is a decimal number.
	Cost        *string
	CompletedAt *time.Time
}

// Runs returns how many runs the file has.
func (f *File) Runs() (count int) {
	for _, item := range f.Items {
		count += len(item.Runs)
	}
	return count
}

// ColumnsOf returns the names of the columns with a role.
func (f *File) ColumnsOf(role string) (names []string) {
	for _, column := range f.Columns {
		if column.Role == role {
			names = append(names, column.Name)
		}
	}
	return names
}

// Failed returns how many runs of the file have no answer.
func (f *File) Failed() (count int) {
	for _, item := range f.Items {
		for _, run := range item.Runs {
			if run.Status != Succeeded {
				count++
			}
		}
	}
	return count
}

// Times returns when the first and the last run ended; nil if no run has a time.
func (f *File) Times() (first, last *time.Time) {
	for _, item := range f.Items {
		for _, run := range item.Runs {
			at := run.CompletedAt
			if at != nil && (first == nil || at.Before(*first)) {
				first = at
			}
			if at != nil && (last == nil || at.After(*last)) {
				last = at
			}
		}
	}
	return first, last
}

// Read reads a file of at most MaxBytes. Every failure is a *dataset.Error, unless ctx has ended.
func Read(ctx context.Context, content []byte, layout Layout) (*File, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, problem(dataset.CodeEmpty, "empty")
	}
	found, err := recognise(content)
	if err != nil {
		return nil, err
	}
	format := layout.Format
	switch {
	case format == "" || format == Auto:
		format = found
	case format != found && (!isText(format) || !isText(found)):
		return nil, problem(dataset.CodeFormatUnsupported, "answers_mismatch", "Format", format, "Found", found)
	}
	if isText(format) {
		if err := checkText(content, format, layout.Encoding); err != nil {
			return nil, err
		}
	}
	b := newBuilder(content, layout)
	b.file.Format = format
	switch format {
	case CSV, XLSX:
		err = b.readTable(ctx, content)
	case JSONL:
		err = b.readLines(ctx, content)
	case Promptfoo:
		err = b.readPromptfoo(ctx, content)
	case Inspect:
		err = b.readInspect(ctx, content)
	default:
		err = b.readOpenAI(ctx, content)
	}
	if err == nil {
		err = b.finish()
	}
	if err != nil {
		return nil, err
	}
	return b.file, ctx.Err()
}

// isText reports whether files of a format can be text. Inspect writes ZIP files or JSON.
func isText(format string) bool { return format != XLSX }

// checkText refuses text that is not UTF-8; the reader of tables does so itself, because it accepts other encodings.
func checkText(content []byte, format, encoding string) error {
	if format == CSV || isZIP(content) {
		return nil
	}
	if encoding != "" {
		return problem(dataset.CodeEncodingInvalid, "no_gb18030")
	}
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		return dataset.CheckEncoding(content)
	}
	return nil
}

func problem(code, name string, args ...any) *dataset.Error {
	e := &dataset.Error{Code: code, Problem: name, Args: map[string]any{}}
	for n := 0; n+1 < len(args); n += 2 {
		e.Args[args[n].(string)] = args[n+1]
	}
	return e
}

// shorten returns the beginning of a text for a message.
func shorten(text string, limit int) string {
	runes := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	if len(runes) <= limit {
		return string(runes)
	}
	return string(runes[:limit]) + "…"
}

// builder collects the questions and runs of a file, and its faults.
type builder struct {
	layout Layout
	file   *File
	sum    [sha256.Size]byte
	// places maps the ids of questions, or their texts if they have no ids, to their indexes in File.Items; variants maps
	// names to numbers, and variables maps names to indexes.
	places, variants, variables map[string]int
	// takenBy maps each run to the row that it came from; next maps each question in a variant to its highest run index.
	takenBy map[place]int
	next    map[place]int
	runs    int
	// wrong lists the first maxRowErrors row errors; faults is the number of all row errors.
	wrong  []dataset.RowError
	faults int
	text   int
}

// place identifies a run by the index of its question, the number of its variant, and its own index. If index is 0,
// place identifies the question in the variant.
type place struct{ item, variant, index int }

func newBuilder(content []byte, layout Layout) *builder {
	return &builder{
		layout: layout, file: &File{}, sum: sha256.Sum256(content), places: map[string]int{},
		variants: map[string]int{}, variables: map[string]int{}, takenBy: map[place]int{}, next: map[place]int{},
	}
}

// fail records an error in a row; column is empty if the error concerns the row as a whole.
func (b *builder) fail(row int, column, name string, args ...any) {
	if b.faults++; len(b.wrong) < maxRowErrors {
		b.wrong = append(b.wrong, dataset.RowError{Row: row, Column: column, Problem: name,
			Args: problem("", name, args...).Args})
	}
}

// spend adds the bytes of these texts to the file's total, and fails if the total is too large.
func (b *builder) spend(texts ...string) error {
	for _, text := range texts {
		b.text += len(text)
	}
	if b.text > 2*MaxBytes {
		return problem(dataset.CodeTooComplex, "complex_text_mib", "Max", 2*MaxBytes>>20)
	}
	return nil
}

// question holds the cells of a row that describe its question. values maps the names of the row's variables to their
// values; names lists these names in order.
type question struct {
	id, text, standard string
	system, context    *string
	names              []string
	values             map[string]string
}

// item returns the index of a row's question, and adds the question if the row is the first to mention it. ok is false
// if the row is faulty; an error means that reading must stop.
func (b *builder) item(row int, q question) (index int, ok bool, err error) {
	key := "id " + q.id
	if q.id == "" {
		key = "text " + q.text
	}
	index, isKnown := b.places[key]
	if hasNUL(q) {
		b.fail(row, "", "nul_cell")
		return 0, false, nil
	}
	switch {
	case isKnown:
		known := b.file.Items[index]
		if q.text != "" && q.text != known.Question {
			b.fail(row, dataset.ColumnQuestion, "answers_other_question", "ID", shorten(q.id, 80))
			return 0, false, nil
		}
		return index, true, nil
	case strings.TrimSpace(q.text) == "":
		b.fail(row, dataset.ColumnQuestion, "blank_question")
		return 0, false, nil
	case utf8.RuneCountInString(q.id) > dataset.MaxID:
		b.fail(row, dataset.ColumnID, "long_id", "Max", dataset.MaxID)
		return 0, false, nil
	case len(b.file.Items) == dataset.MaxRows:
		return 0, false, problem(dataset.CodeTooManyRows, "answers_questions", "Max", dataset.MaxRows)
	}
	for _, name := range q.names {
		if err := b.variable(name); err != nil {
			return 0, false, err
		}
		if err := b.spend(q.values[name]); err != nil {
			return 0, false, err
		}
	}
	index = len(b.file.Items)
	b.places[key] = index
	b.file.Items = append(b.file.Items, Item{QuestionID: q.id, Question: q.text, StandardAnswer: q.standard,
		SystemPrompt: q.system, UserContext: q.context, values: q.values})
	return index, true, b.spend(q.id, q.text, q.standard, deref(q.system), deref(q.context))
}

// hasNUL reports whether one of a question's texts contains a NUL character, which cannot be stored.
func hasNUL(q question) bool {
	texts := append([]string{q.id, q.text, q.standard, deref(q.system), deref(q.context)}, q.names...)
	texts = slices.AppendSeq(texts, maps.Values(q.values))
	return slices.ContainsFunc(texts, func(text string) bool { return strings.ContainsRune(text, 0) })
}

// variable adds a variable to the file, unless it is known already.
func (b *builder) variable(name string) error {
	if _, isKnown := b.variables[name]; isKnown {
		return nil
	}
	if len(b.variables) == maxVariables {
		return problem(dataset.CodeSchemaInvalid, "columns", "Max", maxVariables, "Count", maxVariables+1)
	}
	if utf8.RuneCountInString(name) > dataset.MaxColumnName {
		return problem(dataset.CodeSchemaInvalid, "long_column", "Max", dataset.MaxColumnName, "Column",
			shorten(name, 40))
	}
	b.variables[name] = len(b.file.VariableNames)
	b.file.VariableNames = append(b.file.VariableNames, name)
	return nil
}

// variant returns the number of the variant that key identifies, and adds the variant if the row is the first to
// mention it. If another variant has its name, it gets a number after it. ok is false if the row is faulty.
func (b *builder) variant(row int, column, key string, v Variant) (number int, ok bool) {
	key, v.Name = strings.TrimSpace(key), strings.TrimSpace(v.Name)
	if number, isKnown := b.variants[key]; isKnown {
		return number, true
	}
	isTaken := func(name string) bool {
		return slices.ContainsFunc(b.file.Variants, func(other Variant) bool { return other.Name == name })
	}
	for n, name := 2, v.Name; isTaken(v.Name); n++ {
		v.Name = fmt.Sprintf("%s (%d)", shorten(name, maxName-8), n)
	}
	switch {
	case utf8.RuneCountInString(v.Name) > maxName || hasControl(v.Name):
		b.fail(row, column, "answers_variant_name", "Max", maxName)
		return 0, false
	case len(b.file.Variants) == b.layout.MaxVariants:
		b.fail(row, column, "answers_variants", "Max", b.layout.MaxVariants)
		return 0, false
	}
	b.file.Variants = append(b.file.Variants, v)
	b.variants[key] = len(b.file.Variants)
	return len(b.file.Variants), true
}

// add adds a run to a question. If the run's index is 0, it gets the next one. An error means that reading must stop.
func (b *builder) add(row int, column string, item int, run Run) error {
	of := place{item, run.Variant, 0}
	if run.Index == 0 {
		run.Index = b.next[of] + 1
	}
	if run.Index > b.layout.MaxRuns {
		b.fail(row, column, "answers_runs", "Max", b.layout.MaxRuns)
		return nil
	}
	at := place{item, run.Variant, run.Index}
	if first, isTaken := b.takenBy[at]; isTaken {
		b.fail(row, column, "answers_repeated", "Run", run.Index, "First", first)
		return nil
	}
	b.takenBy[at], b.next[of] = row, max(b.next[of], run.Index)
	b.file.Items[item].Runs = append(b.file.Items[item].Runs, run)
	b.runs++
	return b.spend(deref(run.Answer), deref(run.Reasoning), run.ErrorMessage)
}

// finish completes the questions. If rows are faulty, it returns an error that lists at most maxRowErrors of the
// faults.
func (b *builder) finish() error {
	if b.faults > 0 {
		e := problem(dataset.CodeRowInvalid, "rows_invalid", "Count", b.faults)
		e.Details = b.wrong
		return e
	}
	if b.runs == 0 {
		return problem(dataset.CodeEmpty, "answers_none")
	}
	if len(b.file.Variants) > 1 {
		for n := range b.file.Variants {
			if b.file.Variants[n].Name == "" {
				b.file.Variants[n].Name = fmt.Sprint(n + 1)
			}
		}
	}
	// Questions without an answer have nothing to show.
	b.file.Items = slices.DeleteFunc(b.file.Items, func(item Item) bool { return len(item.Runs) == 0 })
	seen := map[string]bool{}
	for n := range b.file.Items {
		item := &b.file.Items[n]
		if item.QuestionID == "" {
			item.QuestionID = dataset.StableID(b.sum, n)
		}
		for seen[item.QuestionID] { // only if an id in the file equals a generated one
			item.QuestionID += "-2"
		}
		seen[item.QuestionID] = true
		item.Variables = make([]string, len(b.file.VariableNames))
		for place, name := range b.file.VariableNames {
			item.Variables[place] = item.values[name]
		}
		item.values = nil
		slices.SortFunc(item.Runs, func(x, y Run) int {
			return (x.Variant-y.Variant)*(b.layout.MaxRuns+1) + x.Index - y.Index
		})
	}
	return nil
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
