package answers

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"wending/jobs/dataset"
)

// The columns that a table may have in addition to those of a dataset.
const (
	columnRun       = "run"
	columnAnswer    = "answer"
	columnVariant   = "variant"
	columnStatus    = "status"
	columnCode      = "error_code"
	columnMessage   = "error_message"
	columnLatency   = "latency_ms"
	columnTokens    = "tokens"
	columnInput     = "input_tokens"
	columnOutput    = "output_tokens"
	columnReasoning = "reasoning_tokens"
	columnCost      = "cost"
	columnCurrency  = "currency"
	columnFinish    = "finish_reason"
	columnCompleted = "completed_at"
	columnModel     = "model"
	columnThought   = "reasoning"
)

// Mappable are the columns for which a Layout may specify other names.
var Mappable = []string{dataset.ColumnQuestion, columnAnswer, dataset.ColumnID, columnRun, dataset.ColumnAnswer,
	columnVariant}

// Roles lists the roles that a Column may have, other than the empty one.
var Roles = slices.Concat(ofItem, ofRun, []string{Variable})

// ofItem are the columns that describe the question, and ofRun those that describe a run. Any other column is a
// variable.
var (
	ofItem = []string{dataset.ColumnID, dataset.ColumnQuestion, dataset.ColumnAnswer, dataset.ColumnSystem,
		dataset.ColumnContext}
	ofRun = []string{columnRun, columnAnswer, columnVariant, columnStatus, columnCode, columnMessage, columnLatency,
		columnTokens, columnInput, columnOutput, columnReasoning, columnCost, columnCurrency, columnFinish,
		columnCompleted}
)

// ofOthers maps alternative column names, some of them from reports of this product, to the names above. Report columns
// that say nothing about a question or an answer are mapped to an empty name.
var ofOthers = map[string]string{
	"response_body": columnAnswer, "output": columnAnswer, "run_index": columnRun, "total_tokens": columnTokens,
	"_system_prompt": dataset.ColumnSystem, "_user_context": dataset.ColumnContext, "_variant": columnVariant,
	"_prompt": columnReportPrompt, "_target": columnReportTarget,
	"_created_at": "", "_completed_at": "", "_verdict": "", "_verdict_note": "", "_verdict_by": "",
}

// The columns of reports that name a variant.
const (
	columnReportPrompt = "_prompt"
	columnReportTarget = "_target"
)

// ofOneRun matches the columns of a table with a row for each question, such as run_2_response_body.
var ofOneRun = regexp.MustCompile(`^run_([0-9]{1,3})_(.+)$`)

// variablePrefix is the prefix of the columns of variables in reports of this product.
const variablePrefix = "var_"

// column is a column of a table and how its cells are read.
type column struct {
	// name is its name as written, role one of the names above; a variable has no role.
	name, role string
	// run is the index of the run that the column describes; 0 means the row's run.
	run        int
	isVariable bool
}

// header is a table's header row, interpreted.
type header struct {
	columns []column
	// isWide means that a row has all runs of a question; runs are their indexes.
	isWide bool
	runs   []int
	// isReport means that the table is a report of this product, which puts a quote before cells that look like formulas.
	isReport bool
	// described are the columns that have a name.
	described []Column
}

// newHeader reads the header of a table; its error is a *dataset.Error.
func (b *builder) newHeader(cells []string) (h header, err error) {
	mapped, seen, names := b.mapped(), map[string]bool{}, []string{}
	for _, cell := range cells {
		name := clean(strings.ReplaceAll(cell, "\x00", ""))
		folded := strings.ToLower(name)
		h.columns = append(h.columns, h.column(name, folded, mapped))
		if name == "" {
			continue
		}
		if seen[folded] {
			return h, problem(dataset.CodeSchemaInvalid, "duplicate_column", "Column", shorten(name, 80))
		}
		seen[folded] = true
		names = append(names, name)
		h.described = append(h.described, Column{name, h.columns[len(h.columns)-1].described()})
	}
	slices.Sort(h.runs)
	h.runs = slices.Compact(h.runs)
	h.isReport = h.isWide && seen["_created_at"] && seen["_completed_at"]
	if len(names) > 4*dataset.MaxColumns {
		return h, problem(dataset.CodeSchemaInvalid, "columns", "Max", 4*dataset.MaxColumns, "Count", len(names))
	}
	var missing []string
	if !h.has(dataset.ColumnQuestion) {
		missing = append(missing, dataset.ColumnQuestion)
	}
	if !h.isWide && !h.has(columnAnswer) {
		missing = append(missing, columnAnswer)
	}
	for _, name := range slices.Sorted(maps.Values(b.layout.Columns)) {
		if name != "" && !seen[strings.ToLower(clean(name))] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return h, nil
	}
	refused := problem(dataset.CodeSchemaInvalid, "answers_missing", "Missing", strings.Join(missing, ", "), "Found",
		shorten(strings.Join(names, ", "), 200))
	refused.Columns = names
	return h, refused
}

// mapped maps the column names in the layout, in lower case, to their roles.
func (b *builder) mapped() map[string]string {
	roles := map[string]string{}
	for role, name := range b.layout.Columns {
		if name != "" {
			roles[strings.ToLower(clean(name))] = role
		}
	}
	return roles
}

// column determines how a column is read. name is its name as written, folded the name in lower case.
func (h *header) column(name, folded string, mapped map[string]string) column {
	role := mapped[folded]
	isReplaced := slices.Contains(slices.Collect(maps.Values(mapped)), folded)
	other, isOther := ofOthers[folded]
	switch parts := ofOneRun.FindStringSubmatch(folded); {
	case folded == "" || role != "":
		return column{name: name, role: role}
	case isReplaced:
		return column{name: name, isVariable: true}
	case parts != nil:
		run, _ := strconv.Atoi(parts[1])
		role := parts[2]
		if other, isOther := ofOthers[role]; isOther {
			role = other
		}
		if !slices.Contains(ofRun, role) {
			return column{name: name} // verdicts of evaluators and names of files are ignored
		}
		if role == columnAnswer {
			h.isWide, h.runs = true, append(h.runs, run)
		}
		return column{name: name, role: role, run: run}
	case slices.Contains(ofItem, folded), slices.Contains(ofRun, folded):
		return column{name: name, role: folded}
	case isOther:
		return column{name: name, role: other}
	}
	return column{name: strings.TrimPrefix(name, variablePrefix), isVariable: true}
}

// described returns the column's role for Column.Role: in reports, the prompt and the target together are the variant.
func (c column) described() string {
	switch {
	case c.isVariable:
		return Variable
	case c.role == columnReportPrompt, c.role == columnReportTarget:
		return columnVariant
	}
	return c.role
}

func (h header) has(role string) bool {
	return slices.ContainsFunc(h.columns, func(c column) bool { return c.role == role && c.run == 0 })
}

// clean trims white space of any script, the byte order mark and zero-width characters.
func clean(text string) string {
	return strings.TrimFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)
	})
}

// readTable reads a CSV file or a workbook.
func (b *builder) readTable(ctx context.Context, content []byte) error {
	var h *header
	return b.orNoTable(dataset.Table(ctx, content, b.layout.Encoding, b.isHeader, func(number int, cells []string) error {
		if h == nil {
			found, err := b.newHeader(cells)
			h, b.file.Columns = &found, found.described
			return err
		}
		return b.row(*h, number, cells)
	}), func() bool { return h != nil })
}

// orNoTable returns err or, if err is nil but no table was found, an error that names the missing columns.
func (b *builder) orNoTable(err error, isThere func() bool) error {
	if err == nil && !isThere() {
		return problem(dataset.CodeSchemaInvalid, "answers_missing", "Missing",
			dataset.ColumnQuestion+", "+columnAnswer, "Found", "")
	}
	return err
}

// isHeader reports whether a row is the header of a table of answers.
func (b *builder) isHeader(cells []string) bool {
	_, err := b.newHeader(cells)
	return err == nil
}

// row adds a row of a table.
func (b *builder) row(h header, number int, cells []string) error {
	isFilled := func(cell string) bool { return clean(cell) != "" }
	hasNUL := func(cell string) bool { return strings.ContainsRune(cell, 0) }
	switch {
	case len(cells) > len(h.columns) && slices.ContainsFunc(cells[len(h.columns):], isFilled):
		b.fail(number, "", "long_row", "Count", len(cells), "Want", len(h.columns))
		return nil
	case b.file.Format != JSONL && slices.ContainsFunc(cells, hasNUL):
		b.fail(number, "", "nul_cell")
		return nil
	}
	q, whole, runs := b.split(h, cells)
	q.read(whole)
	index, ok, err := b.item(number, q)
	if err != nil || !ok {
		return err
	}
	if !h.isWide {
		return b.long(number, index, whole)
	}
	return b.wide(h, number, index, whole, runs)
}

// split divides a row's cells into the question's variables, the fields of the whole row, and the fields of each run.
func (b *builder) split(h header, cells []string) (q question, whole fields, runs map[int]fields) {
	q, whole, runs = question{values: map[string]string{}}, fields{}, map[int]fields{}
	for n, c := range h.columns {
		cell := ""
		if n < len(cells) {
			cell = cells[n]
		}
		if h.isReport && b.file.Format == CSV {
			cell = unquoted(cell)
		}
		switch {
		case c.isVariable:
			q.names = append(q.names, c.name)
			q.values[c.name] = cell
		case c.role == "":
		case c.run > 0:
			if runs[c.run] == nil {
				runs[c.run] = fields{}
			}
			runs[c.run][c.role] = cell
		default:
			whole[c.role] = cell
		}
	}
	return q, whole, runs
}

// wide adds a row with all runs of a question.
func (b *builder) wide(h header, number, index int, whole fields, runs map[int]fields) error {
	of := variantOf(whole)
	variant, ok := b.variant(number, columnVariant, of.Name, of)
	if !ok {
		return nil
	}
	for _, run := range h.runs {
		own := runs[run]
		if clean(own[columnAnswer]+own[columnStatus]+own[columnMessage]) == "" {
			continue // the question has no such run
		}
		read, isThere, ok := b.run(number, "run_"+strconv.Itoa(run)+"_", own)
		if !ok {
			return nil
		}
		if read.Variant, read.Index = variant, run; isThere {
			if err := b.add(number, "", index, read); err != nil {
				return err
			}
		}
	}
	return nil
}

// unquoted removes the quote that reports put before a cell that a spreadsheet would read as a formula.
func unquoted(cell string) string {
	if len(cell) > 1 && cell[0] == '\'' && strings.ContainsRune("=+-@\t\r\n'", rune(cell[1])) {
		return cell[1:]
	}
	return cell
}

// fields maps roles to the values of a row or a run.
type fields map[string]string

// read reads the fields that describe the question.
func (q *question) read(f fields) {
	q.id, q.text, q.standard = clean(f[dataset.ColumnID]), f[dataset.ColumnQuestion], f[dataset.ColumnAnswer]
	q.system, q.context = given(f[dataset.ColumnSystem]), given(f[dataset.ColumnContext])
}

// given returns a pointer to a text; nil if the text is blank.
func given(text string) *string {
	if clean(text) == "" {
		return nil
	}
	return &text
}

// variantOf returns the variant that a row names.
func variantOf(f fields) Variant {
	v := Variant{Name: clean(f[columnVariant]), Currency: clean(f[columnCurrency])}
	prompt, target := clean(f[columnReportPrompt]), clean(f[columnReportTarget])
	switch { // reports split the variant's name into these columns
	case prompt != "" && target != "":
		v.Name = prompt + " × " + target
	case prompt+target != "":
		v.Name = prompt + target
	}
	return v
}

// long adds a row with one run.
func (b *builder) long(number, index int, f fields) error {
	of := variantOf(f)
	variant, ok := b.variant(number, columnVariant, of.Name, of)
	if !ok {
		return nil
	}
	run, isThere, ok := b.run(number, "", f)
	if !ok || !isThere {
		return nil
	}
	run.Variant = variant
	if text := clean(f[columnRun]); text != "" {
		whole, fraction, _ := strings.Cut(text, ".")
		n, _ := strconv.Atoi(whole) // 0 if it is not a number
		if n < 1 || n > b.layout.MaxRuns || strings.Trim(fraction, "0") != "" {
			b.fail(number, columnRun, "answers_run", "Value", shorten(text, 20), "Max", b.layout.MaxRuns)
			return nil
		}
		run.Index = n
	}
	return b.add(number, columnRun, index, run)
}

// hasControl reports whether a text contains control characters or is not UTF-8.
func hasControl(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)
}
