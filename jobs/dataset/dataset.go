// Package dataset reads uploaded question files – CSV, XLSX and XLS – into rows, or reports exactly what is
// wrong with them. The content determines the format; a name with a different extension is an error.
package dataset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Limits on a dataset.
const (
	MaxBytes = 5 << 20
	MaxRows  = 1000
	// MaxColumns is far above any real file; a file with more columns is damaged or hostile.
	MaxColumns = 256
	// MaxColumnName and MaxID are maximum lengths in characters: MaxColumnName for the name of a column, MaxID for a
	// question_id or the name of a conversation.
	MaxColumnName = 255
	MaxID         = 255
	// maxBlankRows is the maximum number of consecutive blank rows that are read: a sheet that is formatted down to its
	// last row has a million of them, and reading them all takes seconds.
	maxBlankRows = 100_000
	// maxRowErrors is the maximum number of row errors that are listed.
	maxRowErrors = 20
)

// The codes of an Error.
const (
	CodeFormatUnsupported = "DATASET_FORMAT_UNSUPPORTED"
	CodeUnreadable        = "DATASET_UNREADABLE"
	CodeTooComplex        = "DATASET_TOO_COMPLEX"
	CodeSchemaInvalid     = "DATASET_SCHEMA_INVALID"
	CodeEmpty             = "DATASET_EMPTY"
	CodeTooManyRows       = "DATASET_TOO_MANY_ROWS"
	CodeEncodingInvalid   = "DATASET_ENCODING_INVALID"
	CodeDuplicateID       = "DATASET_DUPLICATE_QUESTION_ID"
	CodeRowInvalid        = "DATASET_ROW_INVALID"
)

// Codes lists all codes that an Error can have.
var Codes = []string{
	CodeFormatUnsupported, CodeUnreadable, CodeTooComplex, CodeSchemaInvalid, CodeEmpty, CodeTooManyRows,
	CodeEncodingInvalid, CodeDuplicateID,
	CodeRowInvalid,
}

// The columns that the product recognises; all others are variables.
const (
	ColumnID       = "question_id"
	ColumnQuestion = "question"
	ColumnAnswer   = "standard_answer"
	ColumnSystem   = "system_prompt"
	ColumnContext  = "user_context"
)

// The accepted names of the two columns that group rows into conversations: the name of the conversation, and the
// number of the turn in it. For each of the two, the first name in the list that occurs in the file is used. Both
// columns are also variables; if one of them is missing, the other is an ordinary variable.
var (
	columnsSeries = []string{"series", "session_group", "series_index"}
	columnsTurn   = []string{"turn", "order_in_series"}
)

// Layout describes how to read a file.
type Layout struct {
	// ID, Question and Answer are the columns used as question_id, question and standard_answer; empty means
	// the columns with those names.
	ID, Question, Answer string
	// Encoding is the encoding of a CSV file: GB18030, or empty for UTF-8. Workbooks define their own encoding.
	Encoding string
}

// GB18030 is the encoding in which Chinese versions of Excel save CSV files; it includes GBK.
const GB18030 = "gb18030"

// Encodings lists the encodings of CSV files that can be requested.
var Encodings = []string{"", GB18030}

// Guess returns the columns that probably hold ids, questions and standard answers, judging by their names; empty
// if no column does.
func Guess(columns []string) (guess Layout) {
	likely := func(names []string) string {
		for _, name := range names {
			for _, column := range columns {
				if strings.EqualFold(column, name) {
					return column
				}
			}
		}
		return ""
	}
	guess.Question = likely([]string{ColumnQuestion, "问题", "题目", "提问", "用户问题", "问", "prompt", "query", "questions",
		"input", "instruction", "question_text", "user_input", "q"})
	guess.Answer = likely([]string{ColumnAnswer, "标准答案", "参考答案", "答案", "正确答案", "标准回答", "参考回答", "回答", "答", "answer",
		"reference_answer", "expected_answer", "expected",
		"expected_output", "reference", "ground_truth", "gold", "target", "answers", "output", "response", "label", "a"})
	guess.ID = likely([]string{ColumnID, "编号", "题号", "题目编号", "问题编号", "题目ID", "问题ID", "序号", "id", "qid", "question id",
		"questionid", "no", "no.", "number"})
	return guess
}

// Dataset is the content of a question file.
type Dataset struct {
	// Extension is csv, xlsx or xls.
	Extension string
	// Columns are the names of the file's columns in normalised form: trimmed, and the known ones in lower case.
	Columns []string
	// VariableNames are the columns that the product does not recognise, in the file's order.
	VariableNames []string
	Rows          []Row
	// HasIDs reports that a column holds the ids of the questions; otherwise ids are derived from the file.
	HasIDs bool
	// IgnoredSheets are the other sheets of a workbook that hold data.
	IgnoredSheets []string
}

// Row is one question.
type Row struct {
	// Number is the row's number as a spreadsheet shows it; the header is usually row 1.
	Number                               int
	QuestionID, Question, StandardAnswer string
	SystemPrompt, UserContext            *string
	// Series names the conversation to which the row belongs, and Turn is the turn's number: 1, 2, 3 …; empty and 0 for a
	// single question.
	Series string
	Turn   int
	// Variables are the row's values for Dataset.VariableNames, in the same order.
	Variables []string
}

// Conversations returns the number of conversations, including conversations of one turn.
func (d *Dataset) Conversations() (count int) {
	for _, row := range d.Rows {
		if row.Turn == 1 {
			count++
		}
	}
	return count
}

// Error describes a fault in a file. Problem is the key of the message in the catalogues, and Args are its arguments.
type Error struct {
	Code    string
	Problem string
	Args    map[string]any
	Details []RowError
	// Columns lists the file's columns if one that the layout requires is missing; otherwise it is nil.
	Columns []string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s) %v", e.Code, e.Problem, e.Args) }

// RowError describes an error in one row. Column is empty if the error concerns the row as a whole.
type RowError struct {
	Row     int
	Column  string
	Problem string
	Args    map[string]any
}

func problem(code, name string, args ...any) *Error {
	e := &Error{Code: code, Problem: name, Args: map[string]any{}}
	for n := 0; n+1 < len(args); n += 2 {
		e.Args[args[n].(string)] = args[n+1]
	}
	return e
}

// Extensions lists the file name extensions that are accepted.
var Extensions = []string{"csv", "xlsx", "xls"}

// Read reads a file of at most MaxBytes. Every failure is an *Error, unless ctx has ended.
func Read(ctx context.Context, name string, content []byte, layout Layout) (set *Dataset, err error) {
	extension := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	if !slices.Contains(Extensions, extension) {
		return nil, problem(CodeFormatUnsupported, "extension")
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, problem(CodeEmpty, "empty")
	}
	found := Sniff(content)
	if found != extension {
		if found == "encrypted" {
			return nil, problem(CodeUnreadable, "encrypted")
		}
		return nil, problem(CodeFormatUnsupported, "mismatch", "Extension", extension, "Found", found)
	}
	// Parsers of other formats must not crash the program, no matter what the file contains.
	defer func() {
		if r := recover(); r != nil {
			set, err = nil, problem(CodeUnreadable, "damaged", "Extension", extension)
		}
	}()
	runtime.LockOSThread() // CPU time is counted for this thread
	defer runtime.UnlockOSThread()
	c := &collector{set: &Dataset{Extension: extension}, budget: newBudget(ctx), layout: layout}
	switch extension {
	case "csv":
		err = readCSV(content, c)
	case "xlsx":
		err = readXLSX(content, c)
	default:
		err = readXLS(content, c)
	}
	if err == nil {
		err = c.finish(content)
	}
	if err != nil {
		return nil, err
	}
	return c.set, nil
}

// Sniff returns the format of a file's content: xlsx, xls, encrypted, csv for any text, or the name of an unsupported
// format such as PDF.
func Sniff(content []byte) string {
	for _, magic := range []struct{ begin, format string }{
		{"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "ole"}, {"PK\x03\x04", "zip"}, {"PK\x05\x06", "zip"},
		{"\x89PNG", "PNG"}, {"\xFF\xD8\xFF", "JPEG"}, {"GIF8", "GIF"}, {"%PDF-", "PDF"}, {"\x7FELF", "ELF"},
		{"\x1F\x8B", "gzip"}, {"7z\xBC\xAF", "7z"}, {"Rar!", "RAR"}, {"MZ", "EXE"}, {"{\\rtf", "RTF"},
	} {
		if !bytes.HasPrefix(content, []byte(magic.begin)) {
			continue
		}
		switch {
		case magic.format == "ole" && hasOLEName(content, "EncryptedPackage"):
			return "encrypted"
		case magic.format == "ole" && (hasOLEName(content, "Workbook") || hasOLEName(content, "Book")):
			return "xls"
		case magic.format == "ole":
			return "OLE2"
		case magic.format == "zip" && bytes.Contains(content, []byte("xl/")):
			return "xlsx"
		case magic.format == "EXE" && bytes.IndexByte(content, 0) < 0:
			return "csv" // a header that begins with MZ
		}
		return magic.format
	}
	begin := strings.ToLower(string(bytes.TrimLeftFunc(content[:min(len(content), 512)], func(r rune) bool {
		return unicode.IsSpace(r) || r == '\uFEFF'
	})))
	if strings.HasPrefix(begin, "<!doctype html") || strings.HasPrefix(begin, "<html") ||
		strings.HasPrefix(begin, "<table") {
		return "HTML"
	}
	if strings.HasPrefix(begin, "<?xml") {
		return "XML"
	}
	return "csv"
}

// hasOLEName reports whether a compound file seems to contain a stream with a name, which its directory stores as
// UTF-16.
func hasOLEName(content []byte, name string) bool {
	var wide []byte
	for _, c := range name {
		wide = append(wide, byte(c), 0)
	}
	return bytes.Contains(content, append(wide, 0, 0))
}

// collector turns rows of cells into a Dataset. Readers pass every row to it, including blank ones.
type collector struct {
	set    *Dataset
	budget *budget
	layout Layout
	// columnOf maps the known columns to their positions.
	columnOf map[string]int
	// names are the columns' names by position; a column without a name has an empty one.
	names []string
	// series and turn are the positions of the two columns of conversations; -1 unless the file has both.
	series, turn int
	// variables are the positions of the columns that are kept as variables.
	variables []int
	invalid   []RowError
	// isStrict means that short rows are errors, as in CSV; sheets simply omit blank cells.
	isStrict bool
	// filled is the number of the last row that was not blank.
	filled int
	// table receives the rows that are not blank; nil means that the file is read as a dataset.
	table func(number int, cells []string) error
}

// add processes the next row and does not retain the slice. Skipped row numbers count as blank rows. If it returns an
// error, reading must stop.
func (c *collector) add(number int, cells []string) error {
	if err := c.budget.spendText(cells); err != nil {
		return err
	}
	if number-c.filled-1 > maxBlankRows {
		return problem(CodeTooManyRows, "blank_rows", "Row", c.filled+1)
	}
	if isBlank(cells) {
		return nil
	}
	c.filled = number
	if c.table != nil {
		return c.table(number, cells)
	}
	if c.names == nil {
		return c.header(cells)
	}
	if len(c.set.Rows)+len(c.invalid) >= MaxRows {
		return problem(CodeTooManyRows, "rows", "Max", MaxRows)
	}
	c.row(number, cells)
	return nil
}

func isBlank(cells []string) bool {
	return !slices.ContainsFunc(cells, func(cell string) bool { return clean(cell) != "" })
}

// clean trims white space of any script, the byte order mark and zero-width characters.
func clean(text string) string {
	return strings.TrimFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || r == '\uFEFF' || (r >= '\u200B' && r <= '\u200F') || r == '\u2060'
	})
}

func (c *collector) header(cells []string) error {
	for len(cells) > 0 && clean(cells[len(cells)-1]) == "" {
		cells = cells[:len(cells)-1]
	}
	if len(cells) > MaxColumns {
		return problem(CodeSchemaInvalid, "columns", "Max", MaxColumns, "Count", len(cells))
	}
	c.columnOf = map[string]int{}
	c.names = make([]string, 0, len(cells))
	seen := map[string]bool{}
	var columns []string
	for n, cell := range cells {
		name := clean(strings.ReplaceAll(cell, "\x00", ""))
		folded := strings.ToLower(name)
		role := c.role(folded)
		if role != "" {
			c.columnOf[role] = n
		}
		if role == folded {
			name = folded
		}
		if name != "" {
			if utf8.RuneCountInString(name) > MaxColumnName {
				return problem(CodeSchemaInvalid, "long_column", "Max", MaxColumnName, "Column", shorten(name, 40))
			}
			if seen[folded] {
				return problem(CodeSchemaInvalid, "duplicate_column", "Column", shorten(name, 80))
			}
			seen[folded] = true
			columns = append(columns, name)
			if role == "" {
				c.set.VariableNames, c.variables = append(c.set.VariableNames, name), append(c.variables, n)
			}
		}
		c.names = append(c.names, name)
	}
	c.set.Columns = columns
	_, c.set.HasIDs = c.columnOf[ColumnID]
	if c.series, c.turn = c.positionOf(columnsSeries), c.positionOf(columnsTurn); c.series < 0 || c.turn < 0 {
		c.series, c.turn = -1, -1
	}
	var missing []string
	for _, name := range []string{ColumnQuestion, ColumnAnswer} {
		if _, ok := c.columnOf[name]; !ok {
			missing = append(missing, name)
		}
	}
	if _, ok := c.columnOf[ColumnID]; !ok && c.layout.ID != "" {
		missing = append(missing, c.layout.ID)
	}
	if len(missing) == 0 {
		return nil
	}
	if len(columns) == 1 && strings.ContainsAny(columns[0], ";\t|") {
		return problem(CodeSchemaInvalid, "separator", "Separator", separatorOf(columns[0]))
	}
	refused := problem(CodeSchemaInvalid, "missing", "Missing", strings.Join(missing, ", "), "Found",
		shorten(strings.Join(columns, ", "), 200))
	refused.Columns = columns
	return refused
}

// positionOf returns the position of the first of these names that is a variable of the file; -1 if none is.
func (c *collector) positionOf(names []string) int {
	for _, name := range names {
		for _, n := range c.variables {
			if strings.EqualFold(c.names[n], name) {
				return n
			}
		}
	}
	return -1
}

// role returns the role of a column, given its name in lower case; empty for a variable.
func (c *collector) role(folded string) string {
	id, question, answer := strings.ToLower(clean(c.layout.ID)), strings.ToLower(clean(c.layout.Question)),
		strings.ToLower(clean(c.layout.Answer))
	switch {
	case folded == "":
		return ""
	case folded == id:
		return ColumnID
	case folded == question:
		return ColumnQuestion
	case folded == answer:
		return ColumnAnswer
	case folded == ColumnID && id != "", folded == ColumnQuestion && question != "", folded == ColumnAnswer &&
		answer != "":
		return "" // another column has that role
	case slices.Contains([]string{ColumnID, ColumnQuestion, ColumnAnswer, ColumnSystem, ColumnContext}, folded):
		return folded
	}
	return ""
}

func separatorOf(header string) string {
	for _, separator := range []string{"\t", ";", "|"} {
		if strings.Contains(header, separator) {
			if separator == "\t" {
				return "Tab"
			}
			return separator
		}
	}
	return ""
}

func shorten(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit]) + "…"
}

// excelErrors are the values of cells whose formula failed.
var excelErrors = []string{"#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!"}

// row processes a row of the file, or records its error.
func (c *collector) row(number int, cells []string) {
	fail := func(column, name string, args ...any) {
		e := problem("", name, args...)
		c.invalid = append(c.invalid, RowError{Row: number, Column: column, Problem: name, Args: e.Args})
	}
	if !c.fits(cells, fail) {
		return
	}
	row := Row{
		Number: number, QuestionID: clean(c.cell(cells, ColumnID)), Question: c.cell(cells, ColumnQuestion),
		StandardAnswer: c.cell(cells, ColumnAnswer),
		SystemPrompt:   c.optional(cells, ColumnSystem), UserContext: c.optional(cells, ColumnContext),
	}
	if len([]rune(row.QuestionID)) > MaxID {
		fail(ColumnID, "long_id", "Max", MaxID)
		return
	}
	if c.series >= 0 && !c.readTurn(&row, cells, fail) {
		return
	}
	if len(c.set.VariableNames) > 0 {
		row.Variables = make([]string, 0, len(c.set.VariableNames))
	}
	for _, n := range c.variables {
		row.Variables = append(row.Variables, at(cells, n))
	}
	c.set.Rows = append(c.set.Rows, row)
}

// failure records an error in a row. column is empty if the error concerns the row as a whole; name is the key of the
// message, args are its arguments.
type failure func(column, name string, args ...any)

// fits reports whether the cells of a row match the header's columns and include a question.
func (c *collector) fits(cells []string, fail failure) bool {
	switch {
	case c.isStrict && len(cells) < len(c.names):
		fail("", "short_row", "Count", len(cells), "Want", len(c.names))
		return false
	case len(cells) > len(c.names) && !isBlank(cells[len(c.names):]):
		fail("", "long_row", "Count", len(cells), "Want", len(c.names))
		return false
	case slices.ContainsFunc(cells, func(cell string) bool { return strings.ContainsRune(cell, 0) }):
		fail("", "nul_cell")
		return false
	}
	for _, name := range []string{ColumnQuestion, ColumnAnswer} {
		if value := c.cell(cells, name); slices.Contains(excelErrors, value) && !c.isStrict {
			fail(name, "error_cell", "Value", value)
			return false
		}
	}
	if clean(c.cell(cells, ColumnQuestion)) == "" {
		fail(ColumnQuestion, "blank_question")
		return false
	}
	return true
}

// readTurn sets the row's conversation and turn. It returns false if they are invalid, after recording the error; a row
// without either is valid.
func (c *collector) readTurn(row *Row, cells []string, fail failure) bool {
	series, turn := clean(at(cells, c.series)), clean(at(cells, c.turn))
	switch number, isTurn := turnOf(turn); {
	case series == "" && turn == "":
		return true
	case series == "":
		fail(c.names[c.series], "turn_without_series", "Turn", shorten(turn, 20))
	case turn == "":
		fail(c.names[c.turn], "series_without_turn", "Series", shorten(series, 80))
	case !isTurn:
		fail(c.names[c.turn], "turn_invalid", "Turn", shorten(turn, 20))
	case len([]rune(series)) > MaxID:
		fail(c.names[c.series], "long_series", "Max", MaxID)
	default:
		row.Series, row.Turn = series, number
		return true
	}
	return false
}

// at returns a cell of a row, which may lack cells at its end.
func at(cells []string, n int) string {
	if n < len(cells) {
		return cells[n]
	}
	return ""
}

// cell returns the cell of a column; empty if the file does not have the column.
func (c *collector) cell(cells []string, name string) string {
	if n, ok := c.columnOf[name]; ok {
		return at(cells, n)
	}
	return ""
}

// optional is like cell, but returns nil if the cell is blank.
func (c *collector) optional(cells []string, name string) *string {
	if text := c.cell(cells, name); clean(text) != "" {
		return &text
	}
	return nil
}

// turnOf parses the number of a turn. Sheets may write whole numbers with zeros after the point, as in 2.0.
func turnOf(text string) (turn int, isTurn bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	turn, err := strconv.Atoi(whole)
	return turn, err == nil && turn > 0 && strings.Trim(fraction, "0") == ""
}

// WrongTurns returns an error for each row that repeats a turn or whose previous turn is missing. column is the name of
// the column that holds the turns.
func WrongTurns(rows []Row, column string) (wrong []RowError) {
	turns := map[string]map[int]int{} // series → turn → row
	for _, row := range rows {
		if row.Series == "" {
			continue
		}
		if turns[row.Series] == nil {
			turns[row.Series] = map[int]int{}
		}
		if first, isThere := turns[row.Series][row.Turn]; isThere {
			wrong = append(wrong, RowError{Row: row.Number, Column: column, Problem: "turn_repeated",
				Args: map[string]any{"Series": shorten(row.Series, 80), "Turn": row.Turn, "First": first}})
			continue
		}
		turns[row.Series][row.Turn] = row.Number
	}
	for _, row := range rows {
		if row.Turn < 2 {
			continue
		}
		if _, follows := turns[row.Series][row.Turn-1]; !follows {
			wrong = append(wrong, RowError{Row: row.Number, Column: column, Problem: "turn_gap",
				Args: map[string]any{"Series": shorten(row.Series, 80), "Turn": row.Turn, "Missing": row.Turn - 1}})
		}
	}
	return wrong
}

// finish assigns ids to rows without one. If rows are faulty, it returns an error that lists at most maxRowErrors of
// the faults.
func (c *collector) finish(content []byte) error {
	if c.names == nil {
		return problem(CodeEmpty, "empty")
	}
	fileSum := sha256.Sum256(content)
	rowOf := map[string]int{}
	var repeated []RowError
	for n := range c.set.Rows {
		row := &c.set.Rows[n]
		if row.QuestionID == "" {
			row.QuestionID = StableID(fileSum, n)
		}
		if first, ok := rowOf[row.QuestionID]; ok {
			repeated = append(repeated, RowError{Row: row.Number, Column: ColumnID, Problem: "duplicate_id",
				Args: map[string]any{"ID": shorten(row.QuestionID, 80), "First": first}})
			continue
		}
		rowOf[row.QuestionID] = row.Number
	}
	if len(c.invalid) == 0 && c.turn >= 0 { // otherwise, turns may be missing only because their rows are invalid
		c.invalid = WrongTurns(c.set.Rows, c.names[c.turn])
	}
	var e *Error
	switch {
	case len(c.invalid) > 0:
		e = problem(CodeRowInvalid, "rows_invalid", "Count", len(c.invalid)+len(repeated))
	case len(repeated) > 0:
		e = problem(CodeDuplicateID, "duplicate", "Count", len(repeated), "ID", repeated[0].Args["ID"])
	case len(c.set.Rows) == 0:
		return problem(CodeEmpty, "no_rows")
	default:
		return nil
	}
	details := slices.Concat(c.invalid, repeated)
	slices.SortStableFunc(details, func(a, b RowError) int { return a.Row - b.Row })
	e.Details = details[:min(len(details), maxRowErrors)]
	return e
}

// StableID derives the id of the nth row of a file without ids from the file's checksum, so that the same file gives
// the same ids. n counts rows from 0. The id is a UUID of version 8 (RFC 9562) that begins with n + 1, so that ids sort
// in the file's order.
func StableID(fileSum [sha256.Size]byte, n int) string {
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], uint64(n))
	sum := sha256.Sum256(append(fileSum[:], seed[:]...))
	var id uuid.UUID
	copy(id[:], sum[:16])
	binary.BigEndian.PutUint32(id[:4], uint32(n+1))
	id[6] = id[6]&0x0F | 0x80
	id[8] = id[8]&0x3F | 0x80
	return id.String()
}

// asError returns the *Error that err is or wraps, if there is one.
func asError(err error) (*Error, bool) {
	var e *Error
	return e, errors.As(err, &e)
}
