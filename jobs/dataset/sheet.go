package dataset

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/xuri/excelize/v2"
)

const (
	// maxHeldRows is the maximum number of rows with cells that are held until the shared texts are known: only then is
	// it clear which rows are blank.
	maxHeldRows = 4 * MaxRows
	// maxHeldCells is the maximum number of cells in the held rows: twice as many as the widest dataset has.
	maxHeldCells = 2 * MaxColumns * MaxRows
	// sheetRows and sheetColumns are the largest size that a sheet can have (ECMA-376 18.3.1.73, 18.3.1.13).
	sheetRows, sheetColumns = 1 << 20, 16_384
)

// sheetCell is a cell with its own text or a reference to the shared strings.
type sheetCell struct {
	column int
	text   string
	// shared is the index of the text among the shared strings; -1 means that the cell has its own text.
	shared int
}

type sheetRow struct {
	number int
	cells  []sheetCell
}

// errEnough stops eachRow when the remaining rows are not needed.
var errEnough = errors.New("enough rows")

// read passes the rows of a sheet to the collector. It reads the sheet first and the shared strings second, so that
// it keeps only the strings to which cells refer.
func (b *xlsxBook) read(sheet xlsxSheet, c *collector) error {
	var rows []sheetRow
	var held int
	var isCut bool
	mostRows, mostCells := maxHeldRows, maxHeldCells
	if c.table != nil {
		mostRows, mostCells = maxTableRows, maxTableCells
	}
	err := b.eachRow(sheet, func(row sheetRow) error {
		if len(rows) == mostRows {
			isCut = true
			return errEnough
		}
		if held += len(row.cells); held > mostCells {
			return tooComplex("complex_cells", mostCells)
		}
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.resolve(rows); err != nil {
		return err
	}
	// A few programs write rows out of order.
	slices.SortStableFunc(rows, func(a, b sheetRow) int { return a.number - b.number })
	var cells []string
	for _, row := range rows {
		cells = cells[:0]
		for _, cell := range row.cells {
			for len(cells) <= cell.column {
				cells = append(cells, "")
			}
			cells[cell.column] = cell.text
		}
		if err := c.add(row.number, cells); err != nil {
			return err
		}
	}
	switch {
	case isCut && c.table != nil:
		return problem(CodeTooManyRows, "rows", "Max", maxTableRows)
	case isCut:
		return problem(CodeTooManyRows, "rows", "Max", MaxRows)
	}
	return nil
}

// hasData reports whether any of a sheet's first 20 rows holds data.
func (b *xlsxBook) hasData(sheet xlsxSheet) (hasData bool, err error) {
	const looked = 20
	var rows []sheetRow
	err = b.eachRow(sheet, func(row sheetRow) error {
		if rows = append(rows, row); row.number >= looked {
			return errEnough
		}
		return nil
	})
	if err == nil {
		err = b.resolve(rows)
	}
	for _, row := range rows {
		hasData = hasData || row.number <= looked && slices.ContainsFunc(row.cells, func(cell sheetCell) bool {
			return clean(cell.text) != ""
		})
	}
	return hasData, err
}

// eachRow calls yield with the rows of a sheet that have non-empty cells, until yield returns errEnough.
func (b *xlsxBook) eachRow(sheet xlsxSheet, yield func(sheetRow) error) error {
	return b.parts.scan(sheet.part, func(part *xmlPart) error {
		if err := b.rowsOf(part, yield); !errors.Is(err, errEnough) {
			return err
		}
		return nil
	})
}

func (b *xlsxBook) rowsOf(part *xmlPart, yield func(sheetRow) error) error {
	row, filled := sheetRow{}, 0 // filled is the last row with cells
	column, isData := -1, false
	err := part.elements(func(start xml.StartElement) error {
		switch name := start.Name.Local; { // nested as worksheet, sheetData, row, c
		case part.depth == 2:
			isData = name == "sheetData"
		case isData && part.depth == 3 && name == "row":
			if len(row.cells) > 0 {
				if err := yield(row); err != nil {
					return err
				}
				filled = row.number
			}
			if row.number-filled > maxBlankRows {
				return problem(CodeTooManyRows, "blank_rows", "Row", filled+1)
			}
			number, err := rowOf(start, row.number+1)
			if err != nil {
				return err
			}
			row, column = sheetRow{number: number}, -1
		case isData && part.depth == 4 && name == "c":
			var err error
			if column, err = cellColumn(start, column+1); err != nil {
				return err
			}
			cell, err := b.cell(part, start)
			if err != nil {
				return err
			}
			cell.column = column
			if cell.shared >= 0 || cell.text != "" {
				row.cells = append(row.cells, cell)
			}
		}
		return nil
	})
	if err == nil && len(row.cells) > 0 {
		err = yield(row)
	}
	return err
}

// rowOf returns the number of a row: its attribute r or, without one, next.
func rowOf(start xml.StartElement, next int) (number int, err error) {
	given := attribute(start, "r")
	if given == "" {
		return next, nil
	}
	if number, err = strconv.Atoi(given); err != nil || number < 1 || number > sheetRows {
		return 0, errors.New("a row outside the sheet")
	}
	return number, nil
}

// cellColumn returns the column (from 0) of a cell: the column in its attribute r or, without one, next.
func cellColumn(start xml.StartElement, next int) (column int, err error) {
	if column = next; attribute(start, "r") != "" {
		if column, err = columnOf(attribute(start, "r")); err != nil {
			return 0, err
		}
	}
	if column >= sheetColumns {
		return 0, errors.New("a cell outside the sheet")
	}
	return column, nil
}

// columnOf returns the column (from 0) of a reference such as AB12.
func columnOf(reference string) (column int, err error) {
	for n := range len(reference) {
		letter := reference[n] &^ 0x20
		if letter < 'A' || letter > 'Z' {
			break
		}
		if column = 26*column + int(letter-'A') + 1; column > sheetColumns {
			break
		}
	}
	if column == 0 {
		return 0, errors.New("a cell without a column")
	}
	return column - 1, nil
}

// cell reads to the end of a cell and returns its text or its reference to the shared strings.
func (b *xlsxBook) cell(part *xmlPart, start xml.StartElement) (sheetCell, error) {
	cell := sheetCell{shared: -1}
	value, inline, err := part.cellTexts()
	if err != nil {
		return cell, err
	}
	switch kind := attribute(start, "t"); kind {
	case "s":
		if value = strings.TrimSpace(value); value == "" {
			return cell, nil
		}
		if cell.shared, err = strconv.Atoi(value); err != nil || cell.shared < 0 {
			return cell, errors.New("a cell refers to a missing text")
		}
	case "inlineStr":
		if cell.text = unescape(inline); inline == "" {
			cell.text = value
		}
	case "b":
		switch value {
		case "1":
			value = "TRUE"
		case "0":
			value = "FALSE"
		}
		cell.text = value
	case "str", "e":
		cell.text = value
	default:
		style, _ := strconv.Atoi(attribute(start, "s")) // without a style, the first one applies
		if kind == "d" && b.numbers.hasFormat(style) {
			value = serialOf(value)
		}
		if cell.text, err = b.numbers.text(value, style); err != nil {
			return cell, err
		}
	}
	return cell, nil
}

// within calls yield with every token up to the end of the element that has just begun; if the part ends before
// that, it is damaged.
func (p *xmlPart) within(yield func(xml.Token) error) error {
	for depth := p.depth; p.depth >= depth; {
		token, err := p.next()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err == nil {
			err = yield(token)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cellTexts reads to the end of a cell and returns its value and its inline text.
func (p *xmlPart) cellTexts() (value, inline string, err error) {
	err = p.within(func(token xml.Token) (err error) {
		start, isStart := token.(xml.StartElement)
		switch {
		case !isStart:
		case start.Name.Local == "v":
			value, err = p.text()
		case start.Name.Local == "is":
			inline, err = p.richText()
		default:
			err = p.skip()
		}
		return err
	})
	return value, inline, err
}

// richText reads to the end of an element that holds a text, either whole (t) or in runs (r), and returns the text
// without its formatting or phonetic hints (rPh).
func (p *xmlPart) richText() (string, error) {
	var whole strings.Builder
	err := p.within(func(token xml.Token) error {
		start, isStart := token.(xml.StartElement)
		switch {
		case !isStart, start.Name.Local == "r": // a run's text has its own element
			return nil
		case start.Name.Local == "t":
			text, err := p.text()
			whole.WriteString(text)
			return err
		}
		return p.skip()
	})
	return whole.String(), err
}

// text reads to the end of an element and returns the characters directly in it.
func (p *xmlPart) text() (string, error) {
	var text []byte
	depth := p.depth
	err := p.within(func(token xml.Token) error {
		if chars, isText := token.(xml.CharData); isText && p.depth == depth {
			text = append(text, chars...)
		}
		return nil
	})
	return string(text), err
}

// skip reads to the end of an element.
func (p *xmlPart) skip() error { return p.within(func(xml.Token) error { return nil }) }

// resolve replaces references to shared strings with their texts.
func (b *xlsxBook) resolve(rows []sheetRow) error {
	var wanted []int
	for _, row := range rows {
		for _, cell := range row.cells {
			if cell.shared >= 0 {
				wanted = append(wanted, cell.shared)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	texts, err := b.readSharedStrings(wanted)
	if err != nil {
		return err
	}
	for _, row := range rows {
		for n := range row.cells {
			if cell := &row.cells[n]; cell.shared >= 0 {
				place, _ := slices.BinarySearch(wanted, cell.shared)
				cell.text = texts[place]
			}
		}
	}
	return nil
}

// readSharedStrings returns the texts at the wanted indexes, which must be in ascending order.
func (b *xlsxBook) readSharedStrings(wanted []int) ([]string, error) {
	texts, bytes, index := make([]string, 0, len(wanted)), 0, -1
	err := b.parts.scan(b.sharedStrings, func(part *xmlPart) error {
		return part.elements(func(start xml.StartElement) error {
			if start.Name.Local != "si" {
				return nil
			}
			if index++; len(texts) == len(wanted) || index != wanted[len(texts)] {
				return part.skip()
			}
			text, err := part.richText()
			if err != nil {
				return err
			}
			if bytes += len(text); bytes > MaxText*b.parts.budget.factor {
				return tooComplex("complex_text_mib", MaxText*b.parts.budget.factor>>20)
			}
			texts = append(texts, unescape(text))
			return nil
		})
	})
	if err == nil && len(texts) < len(wanted) {
		err = &damageError{b.sharedStrings, errors.New("a cell refers to a missing text")}
	}
	return texts, err
}

// unescape replaces _xHHHH_, which represents a character that XML cannot contain (ECMA-376 22.9.2.19,
// ST_Xstring).
func unescape(text string) string {
	if !strings.Contains(text, "_x") {
		return text
	}
	var plain strings.Builder
	var units []uint16
	flush := func() {
		plain.WriteString(string(utf16.Decode(units)))
		units = units[:0]
	}
	for text != "" {
		if len(text) >= 7 && text[0] == '_' && text[1] == 'x' && text[6] == '_' {
			if unit, err := strconv.ParseUint(text[2:6], 16, 16); err == nil {
				units = append(units, uint16(unit))
				text = text[7:]
				continue
			}
		}
		flush()
		plain.WriteByte(text[0])
		text = text[1:]
	}
	flush()
	return plain.String()
}

// numberFormats formats numbers as a workbook shows them.
type numberFormats struct {
	is1904 bool
	// codes maps the ids of the workbook's own formats to their codes; formatOf has the format id of each cell style.
	codes    map[int]string
	formatOf []int
	// scratch is a workbook in which the library formats numbers; cells maps each format to the scratch cell that has
	// it.
	scratch *excelize.File
	cells   map[int]string
	// written caches formatted numbers, because sheets repeat dates and amounts.
	written map[formatted]string
}

// formatted is the key of written: a number in a format.
type formatted struct {
	value  string
	format int
}

// maxWritten is the maximum number of texts that are cached.
const maxWritten = 65_536

// readStyles reads the number formats of cell styles.
func (f *numberFormats) readStyles(part *xmlPart) error {
	isCell := false
	return part.elements(func(start xml.StartElement) error {
		switch name := start.Name.Local; { // nested as styleSheet, numFmts or cellXfs, numFmt or xf
		case part.depth == 2:
			isCell = name == "cellXfs"
		case part.depth == 3 && name == "numFmt":
			if id, err := strconv.Atoi(attribute(start, "numFmtId")); err == nil {
				f.codes[id] = attribute(start, "formatCode")
			}
		case isCell && part.depth == 3 && name == "xf":
			format, _ := strconv.Atoi(attribute(start, "numFmtId")) // without a format, the general one applies
			f.formatOf = append(f.formatOf, format)
		}
		return nil
	})
}

// hasFormat reports whether a style has a number format other than the general one.
func (f *numberFormats) hasFormat(style int) bool {
	return style > 0 && style < len(f.formatOf) && f.formatOf[style] != 0
}

// text returns a cell's number in the format of its style.
func (f *numberFormats) text(value string, style int) (string, error) {
	value = plainNumber(value)
	if value == "" || !f.hasFormat(style) {
		return value, nil
	}
	wanted := formatted{value, f.formatOf[style]}
	if text, isKnown := f.written[wanted]; isKnown {
		return text, nil
	}
	cell, err := f.cell(wanted.format)
	if err != nil {
		return "", err
	}
	if err := f.scratch.SetCellDefault(scratchSheet, cell, value); err != nil {
		return "", err
	}
	text, err := f.scratch.GetCellValue(scratchSheet, cell)
	if err == nil && len(f.written) < maxWritten {
		f.written[wanted] = text
	}
	return text, err
}

const scratchSheet = "Sheet1"

// cell returns the scratch workbook's cell that has a format, and creates it on first use.
func (f *numberFormats) cell(format int) (cell string, err error) {
	if cell, isKnown := f.cells[format]; isKnown {
		return cell, nil
	}
	if f.scratch == nil {
		f.scratch = excelize.NewFile(excelize.Options{ShortDatePattern: "yyyy-mm-dd"})
		f.cells, f.written = map[int]string{}, map[formatted]string{}
		if err := f.scratch.SetWorkbookProps(&excelize.WorkbookPropsOptions{Date1904: &f.is1904}); err != nil {
			return "", err
		}
	}
	made := excelize.Style{NumFmt: format}
	code, isCustom := f.codes[format]
	if !isCustom && isLocalDate(format) {
		code, isCustom = "yyyy-mm-dd", true
	}
	if isCustom {
		made = excelize.Style{CustomNumFmt: &code}
	}
	style, err := f.scratch.NewStyle(&made)
	if err != nil {
		style = 0 // the library does not know the format, so the number stays plain
	}
	if cell, err = excelize.CoordinatesToCellName(1, len(f.cells)+1); err != nil {
		return "", err
	}
	f.cells[format] = cell
	return cell, f.scratch.SetCellStyle(scratchSheet, cell, cell, style)
}

// isLocalDate reports whether a built-in format shows a date in a language-dependent way: in Chinese, Japanese and
// Korean spreadsheets (ECMA-376 18.8.30).
func isLocalDate(format int) bool {
	return format >= 27 && format <= 36 || format >= 50 && format <= 58
}

// plainNumber formats a number with at most 15 digits, as spreadsheets show it; any other text is returned
// unchanged.
func plainNumber(value string) string {
	if strings.Contains(value, "_") {
		return value
	}
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return value
	}
	plain := strconv.FormatFloat(number, 'f', -1, 64)
	if len(plain)-strings.Count(plain, ".") > 15 {
		return strconv.FormatFloat(number, 'G', 15, 64)
	}
	return plain
}

// serialOf converts an ISO 8601 date to a serial number, which its cell's format then shows; any other text is
// returned unchanged.
func serialOf(value string) string {
	for _, layout := range []string{"2006-01-02T15:04:05.999Z07:00", "2006-01-02T15:04:05.999", "2006-01-02 15:04:05.999",
		"2006-01-02"} {
		if moment, err := time.Parse(layout, value); err == nil {
			days := moment.Sub(time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)).Hours() / 24
			return strconv.FormatFloat(math.Round(days*86_400_000)/86_400_000, 'f', -1, 64)
		}
	}
	return value
}
