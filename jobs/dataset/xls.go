package dataset

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/richardlehane/mscfb"
)

// The BIFF8 records that the reader uses ([MS-XLS] 2.3).
const (
	recordFormula    = 0x0006
	recordEOF        = 0x000A
	recordDateMode   = 0x0022
	recordFilePass   = 0x002F
	recordContinue   = 0x003C
	recordBoundSheet = 0x0085
	recordMulRK      = 0x00BD
	recordRString    = 0x00D6
	recordXF         = 0x00E0
	recordSST        = 0x00FC
	recordLabelSST   = 0x00FD
	recordNumber     = 0x0203
	recordLabel      = 0x0204
	recordBoolErr    = 0x0205
	recordString     = 0x0207
	recordRK         = 0x027E
	recordFormat     = 0x041E
	recordBOF        = 0x0809
)

// biffColumns is the number of columns that a BIFF8 sheet has.
const biffColumns = 256

var errBIFF = errors.New("damaged BIFF")

// readXLS reads the first sheet with data of an Excel 97–2003 workbook.
func readXLS(content []byte, c *collector) error {
	stream, err := workbookStream(content)
	if err != nil {
		return err
	}
	book := biffBook{stream: stream, budget: c.budget}
	if err := book.globals(); err != nil {
		return book.explain(err)
	}
	for _, sheet := range book.sheets {
		cells, err := book.sheet(sheet.offset)
		if err != nil {
			return book.explain(err)
		}
		if c.names != nil {
			if len(cells) > 0 {
				c.set.IgnoredSheets = append(c.set.IgnoredSheets, sheet.name)
			}
			continue
		}
		if err := addRows(cells, c); err != nil {
			return err
		}
	}
	return nil
}

// explain converts err for users: any error that is neither a known problem nor the end of the context counts as
// damage.
func (b *biffBook) explain(err error) error {
	if _, isKnown := asError(err); isKnown || b.budget.ctx.Err() != nil {
		return err
	}
	return problem(CodeUnreadable, "damaged", "Extension", "xls")
}

// addRows passes the rows of a sheet to the collector.
func addRows(cells []biffCell, c *collector) error {
	// The records of a sheet need not be in order; if two records describe one cell, the later one wins.
	slices.SortStableFunc(cells, func(a, b biffCell) int { return cmp.Or(a.row-b.row, a.column-b.column) })
	var row []string
	for n, cell := range cells {
		for len(row) <= cell.column {
			row = append(row, "")
		}
		row[cell.column] = cell.text
		if n+1 == len(cells) || cells[n+1].row != cell.row {
			if err := c.add(cell.row+1, row); err != nil {
				return err
			}
			row = row[:0]
		}
	}
	return nil
}

// workbookStream extracts the workbook from the compound file.
func workbookStream(content []byte) ([]byte, error) {
	damaged := problem(CodeUnreadable, "damaged", "Extension", "xls")
	file, err := mscfb.New(bytes.NewReader(content))
	if err != nil {
		return nil, damaged
	}
	for entry, err := file.Next(); err == nil; entry, err = file.Next() {
		if entry.Name == "Book" {
			return nil, problem(CodeUnreadable, "old_xls")
		}
		if entry.Name != "Workbook" || entry.Size > int64(len(content)) {
			continue
		}
		stream := make([]byte, entry.Size)
		if _, err := io.ReadFull(entry, stream); err != nil {
			return nil, damaged
		}
		return stream, nil
	}
	return nil, damaged
}

type biffBook struct {
	budget  *budget
	stream  []byte
	sheets  []biffSheet
	strings []string
	// formatOf has the number format of each cell format (XF), by the cell format's index.
	formatOf []uint16
	// dates maps each number format that the file defines to whether it shows a date or time.
	dates  map[uint16]bool
	is1904 bool
}

type biffSheet struct {
	name   string
	offset int
}

// biffCell is a cell; row and column count from 0.
type biffCell struct {
	row, column int
	text        string
}

// record returns the record at offset and the offset of the next one.
func (b *biffBook) record(offset int) (kind uint16, data []byte, next int, err error) {
	if err := b.budget.spend(); err != nil {
		return 0, nil, 0, err
	}
	if offset < 0 || offset+4 > len(b.stream) {
		return 0, nil, 0, errBIFF
	}
	kind = binary.LittleEndian.Uint16(b.stream[offset:])
	length := int(binary.LittleEndian.Uint16(b.stream[offset+2:]))
	if offset+4+length > len(b.stream) {
		return 0, nil, 0, errBIFF
	}
	return kind, b.stream[offset+4 : offset+4+length], offset + 4 + length, nil
}

// globals reads the part of the workbook that all sheets share.
func (b *biffBook) globals() error {
	b.dates = map[uint16]bool{}
	kind, data, next, err := b.record(0)
	if err != nil || kind != recordBOF || len(data) < 4 {
		return errBIFF
	}
	if binary.LittleEndian.Uint16(data) != 0x0600 {
		return problem(CodeUnreadable, "old_xls")
	}
	for {
		kind, data, next, err = b.record(next)
		if err != nil {
			return err
		}
		switch kind {
		case recordEOF:
			return nil
		case recordFilePass:
			return problem(CodeUnreadable, "encrypted")
		case recordDateMode:
			b.is1904 = len(data) >= 2 && data[0] == 1
		case recordBoundSheet:
			err = b.addSheet(data)
		case recordFormat:
			err = b.addFormat(data)
		case recordXF:
			if len(data) < 4 {
				return errBIFF
			}
			b.formatOf = append(b.formatOf, binary.LittleEndian.Uint16(data[2:]))
		case recordSST:
			var parts [][]byte
			if parts, next, err = b.continued(data, next); err == nil {
				err = b.sharedStrings(parts)
			}
		}
		if err != nil {
			return err
		}
	}
}

// addSheet records a visible sheet with cells.
func (b *biffBook) addSheet(data []byte) error {
	if len(data) < 8 {
		return errBIFF
	}
	if data[4]&3 != 0 || data[5] != 0 { // hidden, or a chart or macro sheet
		return nil
	}
	name, err := shortString(data[6:])
	if err != nil {
		return err
	}
	sheet := biffSheet{name, int(binary.LittleEndian.Uint32(data))}
	if slices.ContainsFunc(b.sheets, func(other biffSheet) bool { return other.offset == sheet.offset }) {
		return errBIFF
	}
	if b.sheets = append(b.sheets, sheet); len(b.sheets) > maxSheets {
		return tooComplex("complex_sheets", maxSheets)
	}
	return nil
}

// addFormat records whether a number format shows dates.
func (b *biffBook) addFormat(data []byte) error {
	if len(data) < 5 {
		return errBIFF
	}
	reader := biffReader{parts: [][]byte{data[2:]}}
	code, err := reader.unicode()
	if err != nil {
		return err
	}
	b.dates[binary.LittleEndian.Uint16(data)] = isDateFormat(code)
	return nil
}

// continued returns a record's data, including the CONTINUE records after it, and the offset after them.
func (b *biffBook) continued(data []byte, next int) (parts [][]byte, after int, err error) {
	parts = [][]byte{data}
	for {
		kind, more, after, err := b.record(next)
		if err != nil || kind != recordContinue {
			return parts, next, err
		}
		parts, next = append(parts, more), after
	}
}

func (b *biffBook) sharedStrings(parts [][]byte) error {
	reader := biffReader{parts: parts}
	if _, err := reader.take(4); err != nil {
		return err
	}
	head, err := reader.take(4)
	if err != nil {
		return err
	}
	count := binary.LittleEndian.Uint32(head)
	if int64(count) > int64(len(b.stream)) {
		return errBIFF
	}
	bytes := 0
	for range count {
		if err := b.budget.spend(); err != nil {
			return err
		}
		text, err := reader.unicode()
		if err != nil {
			return err
		}
		if bytes += len(text); bytes > MaxText {
			return tooComplex("complex_text_mib", MaxText>>20)
		}
		b.strings = append(b.strings, text)
	}
	return nil
}

// sheet reads the cells of the sheet whose BOF is at offset, in the order of their records.
func (b *biffBook) sheet(offset int) (cells []biffCell, err error) {
	kind, _, next, err := b.record(offset)
	if err != nil || kind != recordBOF {
		return nil, errBIFF
	}
	reader := cellReader{book: b, pendingRow: -1}
	for {
		kind, data, after, err := b.record(next)
		if err != nil {
			return nil, err
		}
		next = after
		switch {
		case kind == recordEOF:
			return reader.cells, nil
		case kind == recordString && reader.pendingRow >= 0:
			err = reader.formulaText(data)
		case isCellRecord(kind):
			err = reader.read(kind, data)
		}
		if err != nil {
			return nil, err
		}
	}
}

// cellReader collects the cells of a sheet.
type cellReader struct {
	book  *biffBook
	cells []biffCell
	// pendingRow and pendingColumn are the position of a formula whose text follows in a STRING record; pendingRow
	// is -1 if there is none.
	pendingRow, pendingColumn int
}

func (r *cellReader) put(row, column int, text string) error {
	if column >= biffColumns {
		return errBIFF
	}
	if len(r.cells) == maxHeldCells {
		return tooComplex("complex_cells", maxHeldCells)
	}
	if text != "" {
		r.cells = append(r.cells, biffCell{row, column, text})
	}
	return r.book.budget.spend()
}

func (r *cellReader) formulaText(data []byte) error {
	reader := biffReader{parts: [][]byte{data}}
	text, err := reader.unicode()
	if err == nil {
		err = r.put(r.pendingRow, r.pendingColumn, text)
	}
	r.pendingRow = -1
	return err
}

func (r *cellReader) read(kind uint16, data []byte) error {
	if len(data) < 6 {
		return errBIFF
	}
	row, column := int(binary.LittleEndian.Uint16(data)), int(binary.LittleEndian.Uint16(data[2:]))
	format, body := int(binary.LittleEndian.Uint16(data[4:])), data[6:]
	if kind == recordMulRK {
		// The record has the row, the first column, then (format, RK) for each column, then the last column.
		for entry := data[4:]; len(entry) >= 8; entry, column = entry[6:], column+1 {
			number := rkNumber(binary.LittleEndian.Uint32(entry[2:]))
			if err := r.put(row, column, r.book.number(number, int(binary.LittleEndian.Uint16(entry)))); err != nil {
				return err
			}
		}
		return nil
	}
	if kind == recordFormula && len(body) >= 8 && body[6] == 0xFF && body[7] == 0xFF && body[0] == 0 {
		r.pendingRow, r.pendingColumn = row, column
		return nil
	}
	text, err := r.book.cell(kind, format, body)
	if err != nil {
		return err
	}
	return r.put(row, column, text)
}

func isCellRecord(kind uint16) bool {
	switch kind {
	case recordLabelSST, recordLabel, recordRString, recordNumber, recordRK, recordMulRK, recordBoolErr, recordFormula:
		return true
	}
	return false
}

func (b *biffBook) cell(kind uint16, format int, body []byte) (string, error) {
	need := map[uint16]int{recordLabelSST: 4, recordNumber: 8, recordRK: 4, recordBoolErr: 2, recordFormula: 8}[kind]
	if len(body) < need {
		return "", errBIFF
	}
	switch kind {
	case recordLabelSST:
		index := binary.LittleEndian.Uint32(body)
		if int64(index) >= int64(len(b.strings)) {
			return "", errBIFF
		}
		return b.strings[index], nil
	case recordNumber:
		return b.number(math.Float64frombits(binary.LittleEndian.Uint64(body)), format), nil
	case recordRK:
		return b.number(rkNumber(binary.LittleEndian.Uint32(body)), format), nil
	case recordBoolErr:
		return boolOrError(body[0], body[1] != 0), nil
	case recordFormula:
		if body[6] != 0xFF || body[7] != 0xFF {
			return b.number(math.Float64frombits(binary.LittleEndian.Uint64(body)), format), nil
		}
		switch body[0] {
		case 1:
			return boolOrError(body[2], false), nil
		case 2:
			return boolOrError(body[2], true), nil
		}
		return "", nil
	default: // LABEL, RSTRING
		reader := biffReader{parts: [][]byte{body}}
		return reader.unicode()
	}
}

// rkNumber decodes an RK number of 30 bits ([MS-XLS] 2.5.122).
func rkNumber(rk uint32) float64 {
	var number float64
	if rk&2 != 0 {
		number = float64(int32(rk) >> 2)
	} else {
		number = math.Float64frombits(uint64(rk&^3) << 32)
	}
	if rk&1 != 0 {
		number /= 100
	}
	return number
}

func boolOrError(code byte, isError bool) string {
	if !isError {
		if code != 0 {
			return "TRUE"
		}
		return "FALSE"
	}
	for text, known := range map[string]byte{"#NULL!": 0x00, "#DIV/0!": 0x07, "#VALUE!": 0x0F, "#REF!": 0x17,
		"#NAME?": 0x1D, "#NUM!": 0x24, "#N/A": 0x2A} {
		if known == code {
			return text
		}
	}
	return "#N/A"
}

// number formats a number as a sheet shows it: as a date if its format is one, otherwise with plain digits.
func (b *biffBook) number(number float64, format int) string {
	if format < len(b.formatOf) && b.isDate(b.formatOf[format]) && number >= 0 && number < 2958466 {
		return dateText(number, b.is1904)
	}
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return "#NUM!"
	}
	// Excel keeps 15 digits; any further digits are noise from the binary representation.
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(number, 'g', 15, 64), 64)
	if err != nil || math.Abs(rounded) >= 1e21 {
		return strconv.FormatFloat(number, 'G', 15, 64)
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

func (b *biffBook) isDate(format uint16) bool {
	if isDate, isCustom := b.dates[format]; isCustom {
		return isDate
	}
	return (format >= 14 && format <= 22) || (format >= 27 && format <= 36) || (format >= 45 && format <= 47) ||
		(format >= 50 && format <= 58)
}

// isDateFormat reports whether a format code contains a part of a date outside quotes and brackets.
func isDateFormat(code string) bool {
	var quoted, bracketed, escaped bool
	for _, r := range strings.ToLower(code) {
		switch {
		case escaped:
			escaped = false
		case r == '\\' || r == '_' || r == '*':
			escaped = true
		case r == '"':
			quoted = !quoted
		case quoted:
		case r == '[':
			bracketed = true
		case r == ']':
			bracketed = false
		case bracketed:
		case strings.ContainsRune("ymdhs年月日", r):
			return true
		}
	}
	return false
}

func dateText(days float64, is1904 bool) string {
	epoch := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	if is1904 {
		epoch = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	seconds := int64(math.Round(days * 86400)) // up to the year 9999, which is more than a time.Duration can hold
	moment := time.Unix(epoch.Unix()+seconds, 0).UTC()
	switch {
	case days < 1:
		return moment.Format("15:04:05")
	case days == math.Trunc(days):
		return moment.Format("2006-01-02")
	}
	return moment.Format("2006-01-02 15:04:05")
}

// shortString reads a string whose length is stored in one byte ([MS-XLS] 2.5.240).
func shortString(data []byte) (string, error) {
	if len(data) < 2 {
		return "", errBIFF
	}
	length, wide := int(data[0]), data[1]&1 != 0
	data = data[2:]
	if wide {
		length *= 2
	}
	if len(data) < length {
		return "", errBIFF
	}
	return decodeChars(data[:length], wide), nil
}

func decodeChars(data []byte, wide bool) string {
	units := make([]uint16, 0, len(data))
	if wide {
		for ; len(data) >= 2; data = data[2:] {
			units = append(units, binary.LittleEndian.Uint16(data))
		}
	} else {
		for _, c := range data {
			units = append(units, uint16(c))
		}
	}
	return strings.ReplaceAll(string(utf16.Decode(units)), "\x00", "")
}

// biffReader reads through a record and the CONTINUE records after it.
type biffReader struct {
	parts [][]byte
}

// take returns the next n bytes, even across parts.
func (r *biffReader) take(n int) (taken []byte, err error) {
	for {
		for len(r.parts) > 0 && len(r.parts[0]) == 0 {
			r.parts = r.parts[1:]
		}
		left := n - len(taken)
		if left == 0 {
			return taken, nil
		}
		if len(r.parts) == 0 {
			return nil, errBIFF
		}
		here := r.parts[0][:min(left, len(r.parts[0]))]
		r.parts[0] = r.parts[0][len(here):]
		if len(here) == n {
			return here, nil
		}
		taken = append(taken, here...)
	}
}

// unicode reads a string whose length is stored in two bytes, and skips its formatting ([MS-XLS] 2.5.293). If the
// characters continue in the next part, that part begins with a flag for their width.
func (r *biffReader) unicode() (string, error) {
	head, err := r.take(3)
	if err != nil {
		return "", err
	}
	left, flags := int(binary.LittleEndian.Uint16(head)), head[2]
	var formatting int
	if flags&8 != 0 {
		runs, err := r.take(2)
		if err != nil {
			return "", err
		}
		formatting += 4 * int(binary.LittleEndian.Uint16(runs))
	}
	if flags&4 != 0 {
		size, err := r.take(4)
		if err != nil {
			return "", err
		}
		formatting += int(binary.LittleEndian.Uint32(size))
	}
	var text strings.Builder
	wide := flags&1 != 0
	for left > 0 {
		if len(r.parts) == 0 {
			return "", errBIFF
		}
		if len(r.parts[0]) == 0 {
			if r.parts = r.parts[1:]; len(r.parts) == 0 || len(r.parts[0]) == 0 {
				return "", errBIFF
			}
			wide = r.parts[0][0]&1 != 0
			r.parts[0] = r.parts[0][1:]
			continue
		}
		size := 1
		if wide {
			size = 2
		}
		here := min(left, len(r.parts[0])/size)
		if here == 0 {
			return "", errBIFF
		}
		chars, err := r.take(here * size)
		if err != nil {
			return "", err
		}
		text.WriteString(decodeChars(chars, wide))
		left -= here
	}
	if formatting < 0 || formatting > 1<<24 {
		return "", errBIFF
	}
	_, err = r.take(formatting)
	return text.String(), err
}
