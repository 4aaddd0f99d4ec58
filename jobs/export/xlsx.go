package export

import (
	"archive/zip"
	"bufio"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"
)

// maxCellUnits is Excel's limit for a cell, in UTF-16 code units.
const maxCellUnits = 32767

// MaxCellText is the number of characters of a text that need to be read for a cell: one more than fits, so that longer
// texts are recognised and marked as cut.
const MaxCellText = maxCellUnits + 1

// Texts are the texts in a workbook that depend on its language.
type Texts struct {
	// Info are the labels and contents of the information page, in order.
	Info                    [][2]string
	InfoSheet, ResultsSheet string
	// Sheets are additional sheets: the figures of the variants, the figures by column of the dataset, and the use of
	// tools.
	Sheets []*Sheet
	// ReviewSheet is the name of the sheet of reviews, used if there are any.
	StabilitySheet, ReviewSheet string
	// FactsColumn is the header of the column of facts that answers state differently, and ExpectedColumn is the header of
	// the column of facts of the standard answer that answers contradict.
	FactsColumn, ExpectedColumn string
	// CutMark ends a text that is too long for a cell, and says where the whole text can be found.
	CutMark string
}

// Sheet is an additional table in a workbook.
type Sheet struct {
	Name    string
	Columns []Column
	// Rows have a cell for each column; empty cells are left out.
	Rows [][]string
	// Read calls write for each row that comes from a cursor; these rows follow Rows. nil means that there are none.
	Read func(write func(row []string) error) error
}

// Column is a column of a sheet.
type Column struct {
	Title string
	Holds Cells
}

// Cells is the type of a column's cells.
type Cells int

// The types of cells: texts, numbers in decimal notation, and fractions from 0 to 1 that are shown in percent. A value
// that is not a number is written as a text.
const (
	HoldsText Cells = iota
	HoldsNumber
	HoldsShare
)

// XLSX writes a report as a workbook: the information page, the rows as text cells, the likeness of the answers to each
// question and, if there are any, the additional sheets and the reviews. Texts are written directly into their cells,
// so that no answers need to be kept until the end.
type XLSX struct {
	report      Report
	zip         *zip.Writer
	w           *bufio.Writer
	row         int
	columns     []string // the names of columns: A, B … AA
	cutMark     string
	factColumns []string
	scratch     []byte
	sheets      []*Sheet
	// stability and reviews are the rows of the sheets after the results.
	stability, reviews [][]string
	ratings            []map[string]any // of each row of reviews
}

// Fixed parts of the workbook (ECMA-376 part 1, 18.2 and 18.3; part 2, 9 and 10).
const (
	xmlHeader    = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"
	contentTypes = xmlHeader +
		`<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/><Override PartName="/xl/worksheets/sheet2.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/><Override PartName="/xl/worksheets/sheet3.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>%s</Types>`
	reviewType  = `<Override PartName="/xl/worksheets/sheet4.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>`
	packageRels = xmlHeader +
		`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`
	workbookRels = xmlHeader +
		`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet2.xml"/><Relationship Id="rId4" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet3.xml"/>%s<Relationship Id="rId3" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>`
	reviewRel = `<Relationship Id="rId5" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet4.xml"/>`
	workbook  = xmlHeader +
		`<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="%s" sheetId="1" r:id="rId1"/><sheet name="%s" sheetId="2" r:id="rId2"/>%s<sheet name="%s" sheetId="3" r:id="rId4"/>%s</sheets></workbook>`
	reviewSheet = `<sheet name="%s" sheetId="4" r:id="rId5"/>`

	furtherType  = `<Override PartName="/xl/worksheets/sheet%d.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>`
	furtherRel   = `<Relationship Id="rId%d" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet%d.xml"/>`
	furtherSheet = `<sheet name="%s" sheetId="%d" r:id="rId%d"/>`
	firstFurther = 5 // the number of the first additional sheet
	// Style 1 is a bold header, style 2 wrapped text at the top of its cell; both have number format 49, text.
	// Styles 3 and 4 are for numbers, in general format and in percent (format 10).
	styles     = xmlHeader + `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><fonts count="2"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts><fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="5"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/><xf numFmtId="49" fontId="1" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" applyFont="1"/><xf numFmtId="49" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" applyAlignment="1"><alignment vertical="top" wrapText="1"/></xf><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0" applyAlignment="1"><alignment vertical="top"/></xf><xf numFmtId="10" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" applyAlignment="1"><alignment vertical="top"/></xf></cellXfs></styleSheet>`
	sheetBegin = xmlHeader + `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">`
	frozenHead = `<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>`
)

const (
	styleHead   = 1
	styleText   = 2
	styleNumber = 3
	styleShare  = 4
)

// compressionLevel is the fastest level that keeps workbooks small.
const compressionLevel = 1

func compressor(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, compressionLevel) }

// NewXLSX writes the information page and the header row.
func NewXLSX(w io.Writer, report Report, texts Texts) (*XLSX, error) {
	x := &XLSX{report: report, zip: newZip(w), cutMark: texts.CutMark,
		factColumns: []string{texts.FactsColumn, texts.ExpectedColumn}, sheets: texts.Sheets}
	var moreTypes, moreRels, ofReviews, ofSheets string
	if report.HasReviews {
		moreTypes, moreRels, ofReviews = reviewType, reviewRel, fmt.Sprintf(reviewSheet, xmlText(texts.ReviewSheet))
	}
	for n, one := range x.sheets {
		moreTypes, moreRels = moreTypes+fmt.Sprintf(furtherType, firstFurther+n),
			moreRels+fmt.Sprintf(furtherRel, firstFurther+n+1, firstFurther+n)
		ofSheets += fmt.Sprintf(furtherSheet, xmlText(one.Name), firstFurther+n, firstFurther+n+1)
	}
	err := x.parts([][2]string{
		{"[Content_Types].xml", fmt.Sprintf(contentTypes, moreTypes)}, {"_rels/.rels", packageRels},
		{"xl/_rels/workbook.xml.rels", fmt.Sprintf(workbookRels, moreRels)},
		{"xl/workbook.xml", fmt.Sprintf(workbook, xmlText(texts.InfoSheet), xmlText(texts.ResultsSheet), ofSheets,
			xmlText(texts.StabilitySheet), ofReviews)}, {"xl/styles.xml", styles},
	})
	if err != nil {
		return nil, err
	}
	if err := x.begin("xl/worksheets/sheet1.xml"); err != nil {
		return nil, err
	}
	_, _ = x.w.WriteString(sheetBegin +
		`<cols><col min="1" max="1" width="24" customWidth="1"/><col min="2" max="2" width="80" customWidth="1"/></cols><sheetData>`)
	for _, line := range texts.Info {
		if err := x.cells([]string{line[0], line[1]}, styleText); err != nil {
			return nil, err
		}
	}
	_, _ = x.w.WriteString(`</sheetData></worksheet>`)
	if err := x.beginTable("xl/worksheets/sheet2.xml", report.columns()); err != nil {
		return nil, err
	}
	if err := x.w.Flush(); err != nil {
		return nil, err
	}
	return x, x.zip.Flush() // so that the download begins immediately
}

// The columns of the sheets after the results.
var (
	stabilityColumns = []string{"question_id", "number", "question", "level", "agreement", "similarity",
		"distinct", "letters"}
	// meaningColumns follow the columns of facts and of novelty if a model groups the answers.
	meaningColumns = []string{"meaning_letters", "meaning_agreement", "meaning_by", "meaning_unsure",
		"meaning_reviewer"}
	reviewColumns = []string{"number", "question_id", "run_index", "reviewer", "verdict", "reasons", "note",
		"is_outdated", "created_at", "carried_by", "carried_from", "carried_from_id"}
)

// numeric maps the columns that contain numbers, in the sheets after the results, to the types of their cells.
var numeric = map[string]Cells{
	"number": HoldsNumber, "agreement": HoldsShare, "meaning_agreement": HoldsShare, "similarity": HoldsShare,
	"novelty": HoldsShare, "distinct": HoldsNumber,
	"variant": HoldsNumber, "run_index": HoldsNumber,
}

// columnsOf returns the columns of a sheet after the results, given their names.
func columnsOf(names []string) (columns []Column) {
	for _, name := range names {
		columns = append(columns, Column{Title: name, Holds: numeric[name]})
	}
	return columns
}

// beginTable begins a sheet with its header.
func (x *XLSX) beginTable(part string, columns []string) error {
	if err := x.begin(part); err != nil {
		return err
	}
	x.row = 0
	_, _ = x.w.WriteString(sheetBegin + frozenHead +
		`<sheetFormatPr defaultRowHeight="15"/><cols><col min="1" max="1" width="14" customWidth="1"/><col min="2" max="` +
		strconv.Itoa(len(columns)) + `" width="30" customWidth="1"/></cols><sheetData>`)
	return x.cells(columns, styleHead)
}

// begin ends the previous part and opens the next one.
func (x *XLSX) begin(name string) error {
	if x.w != nil {
		if err := x.w.Flush(); err != nil {
			return err
		}
	}
	part, err := x.zip.Create(name)
	if err != nil {
		return err
	}
	x.w = bufio.NewWriterSize(part, 32<<10)
	return nil
}

// Write adds an item.
func (x *XLSX) Write(item Item) error {
	alike := []string{
		item.QuestionID, strconv.Itoa(item.Number), item.Question, item.Level, decimal(item.Agreement),
		decimal(item.Similarity), count(item.Distinct), item.Letters,
		item.changes(),
		item.contradictions(), decimal(item.Novelty),
	}
	if x.report.HasMeanings {
		alike = append(alike, item.meaningCells()...)
	}
	if len(x.report.Variants) > 0 {
		variant := x.report.variant(item)
		alike = append(alike, strconv.Itoa(variant.Number), variant.Name)
	}
	x.stability = append(x.stability, alike)
	for _, r := range item.Reviews {
		x.reviews = append(x.reviews, []string{
			strconv.Itoa(item.Number), item.QuestionID, count(r.RunIndex), r.Reviewer, r.Verdict, r.ReasonsText, r.Note,
			strconv.FormatBool(r.IsOutdated), BeijingTime(r.CreatedAt),
			r.CarriedBy, r.CarriedFromName, r.CarriedFrom,
		})
		x.ratings = append(x.ratings, r.Ratings)
	}
	return x.cells(x.report.cells(item), styleText)
}

// reviewSheet returns the sheet of reviews. After the columns that every report has, it has one for each dimension that
// people have rated; it holds numbers if all ratings are numbers.
func (x *XLSX) reviewSheet() Sheet {
	sheet := Sheet{Columns: columnsOf(reviewColumns), Rows: x.reviews}
	holdsText := map[string]bool{}
	for _, ratings := range x.ratings {
		for dimension, value := range ratings {
			_, isNumber := value.(float64)
			holdsText[dimension] = holdsText[dimension] || !isNumber
		}
	}
	for _, dimension := range slices.Sorted(maps.Keys(holdsText)) {
		column := Column{Title: "rating_" + dimension, Holds: HoldsNumber}
		if holdsText[dimension] {
			column.Holds = HoldsText
		}
		sheet.Columns = append(sheet.Columns, column)
		for n := range sheet.Rows {
			cell := ""
			if value, isThere := x.ratings[n][dimension]; isThere {
				cell = fmt.Sprint(value)
			}
			sheet.Rows[n] = append(sheet.Rows[n], cell)
		}
	}
	return sheet
}

// decimal formats a number with four decimal places; empty if it is unknown.
func decimal(number *float64) string {
	if number == nil {
		return ""
	}
	return strconv.FormatFloat(*number, 'f', 4, 64)
}

func count(number *int) string {
	if number == nil {
		return ""
	}
	return strconv.Itoa(*number)
}

// Close ends the workbook. Without it the file is recognisably damaged.
func (x *XLSX) Close() error {
	_, _ = x.w.WriteString(`</sheetData></worksheet>`)
	columns := append(slices.Concat(stabilityColumns, x.factColumns), "novelty")
	if x.report.HasMeanings {
		columns = append(columns, meaningColumns...)
	}
	if len(x.report.Variants) > 0 {
		columns = append(columns, "variant", "variant_name")
	}
	if err := x.sheet("xl/worksheets/sheet3.xml", Sheet{Columns: columnsOf(columns), Rows: x.stability}); err != nil {
		return err
	}
	if x.report.HasReviews {
		if err := x.sheet("xl/worksheets/sheet4.xml", x.reviewSheet()); err != nil {
			return err
		}
	}
	for n, one := range x.sheets {
		if err := x.sheet(fmt.Sprintf("xl/worksheets/sheet%d.xml", firstFurther+n), *one); err != nil {
			return err
		}
	}
	if err := x.w.Flush(); err != nil {
		return err
	}
	return x.zip.Close()
}

// cells writes a row of text cells; empty ones are left out.
func (x *XLSX) cells(cells []string, style int) error {
	row := x.beginRow(cells)
	for n, cell := range cells {
		x.text(n, row, cell, style)
	}
	_, err := x.w.WriteString(`</row>`)
	return err
}

// typed writes a row of cells, each with the type of its column.
func (x *XLSX) typed(cells []string, columns []Column) error {
	row := x.beginRow(cells)
	for n, cell := range cells {
		holds := columns[n].Holds
		if _, err := strconv.ParseFloat(cell, 64); err != nil || holds == HoldsText {
			x.text(n, row, cell, styleText)
			continue
		}
		style := map[Cells]int{HoldsNumber: styleNumber, HoldsShare: styleShare}[holds]
		x.scratch = append(append(append(x.scratch[:0], `<c r="`...), x.columns[n]...), row...)
		x.scratch = append(append(append(x.scratch, `" s="`...), byte('0'+style)), `"><v>`...)
		x.scratch = append(append(x.scratch, cell...), `</v></c>`...)
		_, _ = x.w.Write(x.scratch)
	}
	_, err := x.w.WriteString(`</row>`)
	return err
}

// beginRow begins the next row and returns its number.
func (x *XLSX) beginRow(cells []string) string {
	x.row++
	row := strconv.Itoa(x.row)
	for n := len(x.columns); n < len(cells); n++ {
		x.columns = append(x.columns, columnName(n))
	}
	x.scratch = append(append(append(x.scratch[:0], `<row r="`...), row...), `">`...)
	_, _ = x.w.Write(x.scratch)
	return row
}

// text writes the nth cell of a row unless it is empty.
func (x *XLSX) text(n int, row, cell string, style int) {
	if cell == "" {
		return
	}
	x.scratch = append(append(append(x.scratch[:0], `<c r="`...), x.columns[n]...), row...)
	x.scratch = append(append(append(x.scratch, `" t="inlineStr" s="`...), byte('0'+style)),
		`"><is><t xml:space="preserve">`...)
	_, _ = x.w.Write(x.scratch)
	_, _ = x.w.WriteString(xmlText(cutCell(cell, x.cutMark)))
	_, _ = x.w.WriteString(`</t></is></c>`)
}

// columnName returns a spreadsheet's name for the nth column, counted from 0: A to Z, then AA, AB …
func columnName(n int) string {
	name := string(rune('A' + n%26))
	if n >= 26 {
		return columnName(n/26-1) + name
	}
	return name
}

// cutCell cuts a text that is too long for Excel; the result ends with mark.
func cutCell(text, mark string) string {
	if len(text) <= maxCellUnits || utf16Units(text) <= maxCellUnits {
		return text
	}
	room := maxCellUnits - utf16Units(mark)
	for at, r := range text {
		if room -= utf16Width(r); room < 0 {
			return text[:at] + mark
		}
	}
	return text
}

func utf16Units(text string) (units int) {
	for _, r := range text {
		units += utf16Width(r)
	}
	return units
}

func utf16Width(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}

// escapeLike matches text that a reader of workbooks would take for an escaped character (ECMA-376 22.4.2.4). It does
// not look at the next underscore, which may belong to the escape that follows.
var escapeLike = regexp.MustCompile(`_(x[0-9A-Fa-f]{4})`)

// xmlText writes text for XML. Characters that XML cannot contain, and CR, which parsers turn into LF, are written as
// _xHHHH_; in text that already looks like that, the underscore is escaped.
func xmlText(text string) string {
	if strings.Contains(text, "_x") {
		text = escapeLike.ReplaceAllString(text, "_x005F_$1")
	}
	if !mayNeedEscape(text) {
		return text
	}
	var escaped strings.Builder
	escaped.Grow(len(text) + 64)
	for _, r := range text {
		switch {
		case r == '&':
			escaped.WriteString("&amp;")
		case r == '<':
			escaped.WriteString("&lt;")
		case r == '>':
			escaped.WriteString("&gt;")
		case r == '"':
			escaped.WriteString("&quot;")
		case (r < 0x20 && r != '\t' && r != '\n') || r == 0xFFFE || r == 0xFFFF:
			fmt.Fprintf(&escaped, "_x%04X_", r)
		default:
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

// mayNeedEscape reports whether a text has characters that XML cannot contain as they are.
func mayNeedEscape(text string) bool {
	for n := range len(text) {
		if isEscaped[text[n]] {
			return true
		}
	}
	return strings.Contains(text, "\uFFFE") || strings.Contains(text, "\uFFFF") || !utf8.ValidString(text)
}

// isEscaped marks the bytes that must be escaped in XML.
var isEscaped = func() (is [256]bool) {
	for c := range 0x20 {
		is[c] = c != '\t' && c != '\n'
	}
	for _, c := range `&<>"` {
		is[c] = true
	}
	return is
}()
