package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// JudgingTexts are the words of a review workbook.
type JudgingTexts struct {
	Sheet string
	// The column headers; Answer returns the header of a run's answers.
	Number, Question, Standard, Variant, Level, Facts, Verdict, Reasons, Note string
	Answer                                                                    func(run int) string
	// Verdicts are the verdicts to choose from, VerdictOf and LevelOf return the word for a verdict or a level, and
	// FailureOf the text shown instead of the answer of a failed run.
	Verdicts           []string
	VerdictOf, LevelOf func(string) string
	FailureOf          func(Run) string
	// ReasonList are the reasons to choose from.
	ReasonList []string
	// CutMark ends a text that is too long for a cell.
	CutMark string
	// Reviewer is the person whose verdicts are filled in; empty means the newest verdict on each question.
	Reviewer string
}

// The hidden columns: they identify the question and variant of a row, and the verdict that the row showed at first.
const (
	JudgedQuestion = "question_id"
	JudgedVariant  = "_variant"
	JudgedVersion  = "_version"
	JudgedReviewer = "_reviewer"
	JudgedSeen     = "_seen"
)

var hiddenColumns = []string{JudgedQuestion, JudgedVariant, JudgedVersion, JudgedReviewer, JudgedSeen}

// Seen returns a short hash of a row's verdict, reasons and note. The hidden column JudgedSeen holds the hash of what
// the row showed at first, so that changed rows are recognised.
func Seen(verdict, reasons, note string) string {
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	sum := sha256.New()
	for _, text := range []string{verdict, reasons, note} {
		_, _ = io.WriteString(sum, strings.TrimSpace(lines.Replace(text))+"\x00")
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// judgingStyles are the styles of reports, plus style 3 for the cells in which people write, which are not locked.
const judgingStyles = xmlHeader + `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><fonts count="2"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts><fills count="3"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill><fill><patternFill patternType="solid"><fgColor rgb="FFFFF8E1"/><bgColor indexed="64"/></patternFill></fill></fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="4"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/><xf numFmtId="49" fontId="1" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" applyFont="1"/><xf numFmtId="49" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" applyAlignment="1"><alignment vertical="top" wrapText="1"/></xf><xf numFmtId="49" fontId="0" fillId="2" borderId="0" xfId="0" applyNumberFormat="1" applyFill="1" applyAlignment="1" applyProtection="1"><alignment vertical="top" wrapText="1"/><protection locked="0"/></xf></cellXfs></styleSheet>`

const (
	styleOpen = 3

	judgingTypes = xmlHeader + `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>`
	judgingRels  = xmlHeader + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>`
	judgingBook  = xmlHeader + `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="%s" sheetId="1" r:id="rId1"/></sheets></workbook>`
)

// maxListLength is the maximum length of a validation's inline list, in UTF-16 code units.
const maxListLength = 255

// Judging writes a review workbook, in which people judge the answers of a task: a row for each question and variant,
// with cells for a verdict, reasons and a note. Everything else is protected.
type Judging struct {
	book    *XLSX
	report  Report
	texts   JudgingTexts
	columns []string
	// verdict is the index of the column of verdicts; reasons and notes follow it.
	verdict int
}

// NewJudging begins a workbook.
func NewJudging(w io.Writer, report Report, texts JudgingTexts) (*Judging, error) {
	j := &Judging{book: &XLSX{report: report, zip: newZip(w), cutMark: texts.CutMark}, report: report, texts: texts}
	err := j.book.parts([][2]string{
		{"[Content_Types].xml", judgingTypes}, {"_rels/.rels", packageRels}, {"xl/_rels/workbook.xml.rels", judgingRels},
		{"xl/workbook.xml", fmt.Sprintf(judgingBook, xmlText(texts.Sheet))}, {"xl/styles.xml", judgingStyles},
	})
	if err != nil {
		return nil, err
	}
	j.columns = []string{texts.Number, texts.Question, texts.Standard}
	if len(report.Variants) > 1 {
		j.columns = append(j.columns, texts.Variant)
	}
	for n := range report.mostRuns() {
		j.columns = append(j.columns, texts.Answer(n+1))
	}
	j.columns = append(j.columns, texts.Level, texts.Facts)
	j.verdict = len(j.columns)
	j.columns = slices.Concat(j.columns, []string{texts.Verdict, texts.Reasons, texts.Note}, hiddenColumns)
	if err := j.book.begin("xl/worksheets/sheet1.xml"); err != nil {
		return nil, err
	}
	_, _ = j.book.w.WriteString(sheetBegin + frozenHead + `<sheetFormatPr defaultRowHeight="15"/>` + j.widths() +
		`<sheetData>`)
	return j, j.book.cells(j.columns, styleHead)
}

// widths returns the widths of the columns, the last of which are hidden.
func (j *Judging) widths() string {
	var cols strings.Builder
	cols.WriteString(`<cols>`)
	for n := range j.columns {
		width, hidden := 40, ""
		switch {
		case n == 0 || n == j.verdict || n == j.verdict-2:
			width = 12
		case n == j.verdict+1:
			width = 18
		case n > j.verdict+2:
			hidden = ` hidden="1"`
		}
		fmt.Fprintf(&cols, `<col min="%d" max="%d" width="%d" customWidth="1"%s/>`, n+1, n+1, width, hidden)
	}
	return cols.String() + `</cols>`
}

// Write adds an item.
func (j *Judging) Write(item Item) error {
	cells := []string{strconv.Itoa(item.Number), item.Question, item.StandardAnswer}
	if len(j.report.Variants) > 1 {
		cells = append(cells, j.report.variant(item).Name)
	}
	for _, run := range j.report.runs(item) {
		if run.Response != nil && run.ErrorCode == nil {
			cells = append(cells, *run.Response)
		} else {
			cells = append(cells, j.texts.FailureOf(run))
		}
	}
	cells = append(cells, j.texts.LevelOf(item.Level), item.changes())
	said := j.said(item)
	verdict := ""
	if said.Verdict != "" {
		verdict = j.texts.VerdictOf(said.Verdict)
	}
	cells = append(cells, verdict, said.ReasonsText, said.Note, item.QuestionID, strconv.Itoa(max(1, item.Variant)),
		strconv.Itoa(said.Version), said.Reviewer, Seen(verdict, said.ReasonsText, said.Note))
	row := j.book.beginRow(cells)
	for n, cell := range cells {
		if n >= j.verdict && n <= j.verdict+2 {
			j.open(n, row, cell)
			continue
		}
		j.book.text(n, row, cell, styleText)
	}
	_, err := j.book.w.WriteString(`</row>`)
	return err
}

// open writes a cell that is not locked, even if it is empty.
func (j *Judging) open(n int, row, cell string) {
	if cell != "" {
		j.book.text(n, row, cell, styleOpen)
		return
	}
	_, _ = fmt.Fprintf(j.book.w, `<c r="%s%s" s="%d"/>`, j.book.columns[n], row, styleOpen)
}

// said returns the verdict that a row shows: the verdict on the question as a whole by the wanted reviewer or, if none
// is named, the newest one. It is empty if there is none.
func (j *Judging) said(item Item) (shown Review) {
	for _, one := range item.Reviews {
		isWanted := j.texts.Reviewer == "" && !one.CreatedAt.Before(shown.CreatedAt) || one.Reviewer == j.texts.Reviewer
		if one.RunIndex == nil && isWanted {
			shown = one
		}
	}
	return shown
}

// Close ends the workbook.
func (j *Judging) Close() error {
	last := max(2, j.book.row)
	at := func(n int) string { return fmt.Sprintf("%s2:%[1]s%[2]d", columnName(n), last) }
	_, _ = fmt.Fprintf(j.book.w, `</sheetData><sheetProtection sheet="1" objects="1" scenarios="1" formatColumns="0" `+
		`formatRows="0" sort="0" autoFilter="0"/><autoFilter ref="A1:%s%d"/>`, columnName(j.verdict+2), j.book.row)
	lists := []string{list(at(j.verdict), j.texts.Verdicts, "stop")}
	if one := list(at(j.verdict+1), j.texts.ReasonList, "warning"); one != "" {
		lists = append(lists, one)
	}
	_, _ = fmt.Fprintf(j.book.w, `<dataValidations count="%d">%s</dataValidations></worksheet>`, len(lists),
		strings.Join(lists, ""))
	if err := j.book.w.Flush(); err != nil {
		return err
	}
	return j.book.zip.Close()
}

// list returns a validation that offers choices as an inline list; empty if they cannot be written inline. With the
// style warning, people may also enter other values.
func list(cells string, choices []string, style string) string {
	inline := strings.Join(choices, ",")
	hasComma := slices.ContainsFunc(choices, func(choice string) bool { return strings.ContainsAny(choice, ",\"") })
	if hasComma || utf16Units(inline) > maxListLength {
		return ""
	}
	return fmt.Sprintf(`<dataValidation type="list" errorStyle="%s" allowBlank="1" showInputMessage="1" `+
		`showErrorMessage="1" sqref="%s"><formula1>"%s"</formula1></dataValidation>`, style, cells, xmlText(inline))
}
