package dataset_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/simplifiedchinese"

	"wending/jobs/dataset"
	"wending/jobs/dataset/datasettest"
)

// Files at the limits and just beyond them, with the error that refuses the latter.
func TestTheEdgesOfCSV(t *testing.T) {
	t.Parallel()
	const head = "question,standard_answer\n"
	wide := func(text string, isLittle bool) string {
		var b strings.Builder
		for n := range len(text) {
			if isLittle {
				b.WriteString(text[n:n+1] + "\x00")
			} else {
				b.WriteString("\x00" + text[n:n+1])
			}
		}
		return b.String()
	}
	gbk := func(text string) string {
		encoded, err := simplifiedchinese.GBK.NewEncoder().String(text)
		require.NoError(t, err)
		return encoded
	}
	rows := func(count int) string { return strings.Repeat("q,a\n", count) }
	for name, test := range map[string]struct {
		content string
		refusal string // code, problem and arguments; empty means that the file is read
		rows    int
		last    string // the last question
	}{
		"a thousand rows": {head + rows(1000), "", 1000, "q"},
		"one more":        {head + rows(1001), "DATASET_TOO_MANY_ROWS rows map[Max:1000]", 0, ""},
		"as many blank rows as are allowed": {head + rows(1) + strings.Repeat(",\n", 100_000) + "end,a\n",
			"", 2, "end"},
		"one blank row more": {head + rows(1) + strings.Repeat(",\n", 100_001) + "end,a\n",
			"DATASET_TOO_MANY_ROWS blank_rows map[Row:3]", 0, ""},
		"blank columns at the end":      {"question,standard_answer, ,\nq,a,,\n", "", 1, "q"},
		"a column more in a row, blank": {head + "q,a, \n", "", 1, "q"},
		"signs without width around names": {"\uFEFF\u200Bquestion\u200F,\u2060standard_answer\u00A0\nq,a\n",
			"", 1, "q"},
		"a hyphen belongs to a name": {"\u2010question,standard_answer\nq,a\n",
			"DATASET_SCHEMA_INVALID missing map[Found:‐question, standard_answer Missing:question]", 0, ""},
		"an id of 255 characters": {"question_id,question,standard_answer\n" + strings.Repeat("长", 255) +
			",q,a\n", "", 1, "q"},
		"a name of 255 characters": {strings.Repeat("长", 255) + ",question,standard_answer\nx,q,a\n",
			"", 1, "q"},
		"a name of 256 characters": {strings.Repeat("长", 256) + ",question,standard_answer\nx,q,a\n",
			"DATASET_SCHEMA_INVALID long_column map[Column:" + strings.Repeat("长", 40) + "… Max:255]", 0, ""},
		"256 columns": {"question,standard_answer" + columns(254) + "\nq,a" +
			strings.Repeat(",", 254) + "\n", "", 1, "q"},
		"257 columns": {"question,standard_answer" + columns(255) + "\nq,a" +
			strings.Repeat(",", 255) + "\n", "DATASET_SCHEMA_INVALID columns map[Count:257 Max:256]", 0, ""},
		"lines that end with CR":         {"question,standard_answer\rq,\"a\rb\"\rr,c\r", "", 2, "r"},
		"a CR within a cell":             {head + "q\rr,a\n", "", 1, "q\rr"},
		"a quote at the end of the file": {head + "q,\"a\"", "", 1, "q"},
		"text after a quote": {head + "q,\"a\nb\"c\n",
			"DATASET_UNREADABLE text_after_quote map[Line:3 Row:2]", 0, ""},
		"text after a quote, CR": {"question,standard_answer\rq,\"a\rb\"c\r",
			"DATASET_UNREADABLE text_after_quote map[Line:3 Row:2]", 0, ""},
		"a quote that stays open": {head + "q,a\nq,\"b\n",
			"DATASET_UNREADABLE open_quote map[Line:3 Row:3]", 0, ""},
		"UTF-16, the low byte first": {wide(head+rows(2), true),
			"DATASET_ENCODING_INVALID encoding map[Found:UTF-16]", 0, ""},
		"UTF-16, the high byte first": {wide(head+rows(2), false),
			"DATASET_ENCODING_INVALID encoding map[Found:UTF-16]", 0, ""},
		"a few NULs": {head + "q,a\nq\x00,a\n" + rows(200) + "\x00\n",
			"DATASET_ENCODING_INVALID nul map[Line:3]", 0, ""},
		"one NUL": {head + "q,a\nq\x00,a\n" + rows(200),
			"DATASET_ENCODING_INVALID nul map[Line:3]", 0, ""},
		"GB18030": {gbk("question,standard_answer\n中国的首都是哪里？,北京\n法国的首都是哪里？,巴黎\n"),
			"DATASET_ENCODING_INVALID encoding map[Found:GB18030 (GBK)]", 0, ""},
		"Latin-1": {head + "q,a\nCombien co\xFBte le caf\xE9?,2 \x80 \n",
			"DATASET_ENCODING_INVALID invalid_utf8 map[Line:3]", 0, ""},
		"UTF-8 with a line of GB18030": {head + "中国的首都是哪里？,北京\n" + gbk("法国的首都是哪里？,巴黎\n"),
			"DATASET_ENCODING_INVALID invalid_utf8 map[Line:3]", 0, ""},
		"GB18030 with a line that by chance is UTF-8": {head + gbk(strings.Repeat("法国的首都是哪里？,巴黎\n", 12)) + "你好,你好\n",
			"DATASET_ENCODING_INVALID encoding map[Found:GB18030 (GBK)]", 0, ""},
		"as much UTF-8 as a tenth": {head + gbk(strings.Repeat("法国的首都是哪里？,巴黎\n", 10)) + "你好,你好\n",
			"DATASET_ENCODING_INVALID invalid_utf8 map[Line:2]", 0, ""},
		"a web page with a mark in front": {"\uFEFF \n<!DOCTYPE HTML><p>",
			"DATASET_FORMAT_UNSUPPORTED mismatch map[Extension:csv Found:HTML]", 0, ""},
		"a semicolon between columns": {"question;standard_answer\nq;a\n",
			"DATASET_SCHEMA_INVALID separator map[Separator:;]", 0, ""},
		"a tab between columns": {"question\tstandard_answer\nq\ta\n",
			"DATASET_SCHEMA_INVALID separator map[Separator:Tab]", 0, ""},
		"text that begins like a program": {"MZ,question,standard_answer\nx,q,a\n", "", 1, "q"},
	} {
		set, err := dataset.Read(t.Context(), "q.csv", []byte(test.content), dataset.Layout{})
		if test.refusal != "" {
			require.Equal(t, test.refusal, refusal(t, err), name)
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, set.Rows, test.rows, name)
		require.Equal(t, test.last, set.Rows[len(set.Rows)-1].Question, name)
	}
	_, err := dataset.Read(t.Context(), "q.csv",
		[]byte("question_id,question,standard_answer\n"+strings.Repeat("长", 256)+",q,a\nx,q\nx,q,a,b\n"), dataset.Layout{})
	refused := (*dataset.Error)(nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []dataset.RowError{
		{Row: 2, Column: "question_id", Problem: "long_id", Args: map[string]any{"Max": 255}},
		{Row: 3, Problem: "short_row", Args: map[string]any{"Count": 2, "Want": 3}},
		{Row: 4, Problem: "long_row", Args: map[string]any{"Count": 4, "Want": 3}},
	}, refused.Details)
}

func columns(count int) string {
	var names strings.Builder
	for n := range count {
		fmt.Fprintf(&names, ",v%d", n)
	}
	return names.String()
}

func refusal(t *testing.T, err error) string {
	t.Helper()
	refused := (*dataset.Error)(nil)
	require.ErrorAs(t, err, &refused, "%v", err)
	return fmt.Sprintf("%s %s %v", refused.Code, refused.Problem, refused.Args)
}

// Numbers are read as a spreadsheet shows them: with at most 15 digits, dates in their formats, and texts with
// their escapes.
func TestTheEdgesOfNumbersInSheets(t *testing.T) {
	t.Parallel()
	const ns = ` xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"`
	formats := []int{0, 26, 27, 36, 37, 49, 50, 58, 59, 14, 10}
	var xfs strings.Builder
	for _, format := range formats {
		fmt.Fprintf(&xfs, `<xf numFmtId="%d"/>`, format)
	}
	read := func(cell string) string {
		t.Helper()
		content := datasettest.Workbook(t, []string{"sheet1.xml"}, map[string]string{
			"xl/_rels/workbook.xml.rels": datasettest.XMLHead +
				`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="x/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="st" Type="x/styles" Target="styles.xml"/></Relationships>`,
			"xl/styles.xml": datasettest.XMLHead + `<styleSheet` + ns + `><cellXfs>` + xfs.String() +
				`</cellXfs></styleSheet>`,
			"xl/worksheets/sheet1.xml": datasettest.SheetHead + datasettest.HeaderRow +
				`<row r="2"><c r="A2" t="inlineStr"><is><t>q</t></is></c>` + cell + `</row>` + datasettest.SheetTail,
		})
		set, err := dataset.Read(t.Context(), "q.xlsx", content, dataset.Layout{})
		require.NoError(t, err, cell)
		return set.Rows[0].StandardAnswer
	}
	number := func(style int, value string) string {
		return fmt.Sprintf(`<c r="B2" s="%d"><v>%s</v></c>`, style, value)
	}
	for style, format := range formats {
		want := "45000"
		switch format {
		case 27, 36, 50, 58, 14:
			want = "2023-03-15"
		case 10:
			want = "4500000.00%"
		case 37:
			want = "45,000 "
		}
		require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(read(number(style, "45000"))), "format %d", format)
	}
	for value, want := range map[string]string{
		"123456789012345":   "123456789012345",
		"1234567890123456":  "1.23456789012346E+15",
		"1234567890.12345":  "1234567890.12345",
		"1234567890.123456": "1234567890.12346",
		"0.1":               "0.1",
		"1e2":               "100",
		"1_0":               "1_0",
		"no number":         "no number",
	} {
		require.Equal(t, want, read(number(0, value)), value)
		require.Equal(t, want, read(number(99, value)), "%s, a style that is missing", value)
	}
	for escaped, want := range map[string]string{
		"_x0041_": "A", "_x0041_b": "Ab", "_x00e9_": "é", "_x004_": "_x004_", "_x0041": "_x0041", "x_x0041_": "xA",
		"_y0041_": "_y0041_", "_x00g1_": "_x00g1_", "__x0041_": "_A",
	} {
		require.Equal(t, want, read(`<c r="B2" t="inlineStr"><is><t>`+escaped+`</t></is></c>`), escaped)
	}
	for cell, want := range map[string]string{
		`<c r="B2" t="b"><v>1</v></c>`: "TRUE", `<c r="B2" t="b"><v>0</v></c>`: "FALSE",
		`<c r="B2" t="d" s="9"><v>2023-03-15</v></c>`: "2023-03-15", `<c r="B2" t="d"><v>2023-03-15</v></c>`: "2023-03-15",
		`<c t="str"><v>beside</v></c>`: "beside",
	} {
		require.Equal(t, want, read(cell), cell)
	}
}

// Numbers in the older format, which stores them in binary, are also read as a spreadsheet shows them.
func TestTheEdgesOfNumbersInXLS(t *testing.T) {
	t.Parallel()
	record := func(kind uint16, data ...byte) []byte {
		return append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, kind), uint16(len(data))),
			data...)
	}
	label := func(row, column uint16, text string) []byte {
		data := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, row), column)
		return record(0x0204, append(append(binary.LittleEndian.AppendUint16(append(data, 0, 0), uint16(len(text))), 0),
			text...)...)
	}
	number := func(style uint16, value float64) []byte {
		data := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, 1),
			1), style)
		return record(0x0203, binary.LittleEndian.AppendUint64(data, math.Float64bits(value))...)
	}
	formats := []uint16{0, 13, 14, 22, 23, 26, 27, 36, 37, 44, 45, 47, 48, 49, 50, 58, 59, 164, 165, 166}
	code := func(id uint16, text string) []byte {
		return record(0x041E,
			append(append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, id), uint16(len(text))), 0),
				text...)...)
	}
	globals := append(append(code(164, `yyyy"x"`), code(165, `"day" 0`)...), code(166, `[Red]\d0`)...)
	for _, format := range formats {
		globals = append(globals, record(0x00E0,
			append([]byte{0, 0}, append(binary.LittleEndian.AppendUint16(nil, format), make([]byte, 16)...)...)...)...)
	}
	read := func(globals []byte, cell []byte) string {
		t.Helper()
		sheet := append(append(append(label(0, 0, "question"), label(0, 1, "standard_answer")...), label(1, 0, "q")...),
			cell...)
		set, err := dataset.Read(t.Context(), "q.xls", datasettest.BIFF(t, 1, globals, sheet), dataset.Layout{})
		require.NoError(t, err)
		return set.Rows[0].StandardAnswer
	}
	isDate := map[uint16]bool{14: true, 22: true, 27: true, 36: true, 45: true, 47: true, 50: true, 58: true, 164: true}
	for style, format := range formats {
		want := "45000"
		if isDate[format] {
			want = "2023-03-15"
		}
		require.Equal(t, want, read(globals, number(uint16(style), 45000)), "format %d", format)
	}
	const date = 2 // the style of format 14
	for value, want := range map[float64]string{
		0: "00:00:00", 0.5: "12:00:00", 0.999: "23:58:34", 1: "1899-12-31", 1.25: "1899-12-31 06:00:00", -1: "-1",
		2958465: "9999-12-31", 2958466: "2958466",
	} {
		require.Equal(t, want, read(globals, number(date, value)), "%g as a date", value)
	}
	require.Equal(t, "2027-03-16", read(append(record(0x0022, 1, 0), globals...), number(date, 45000)), "days since 1904")
	require.Equal(t, "2023-03-15", read(append(record(0x0022, 0, 0), globals...), number(date, 45000)))
	for value, want := range map[float64]string{
		0.1: "0.1", 1.0 / 3: "0.333333333333333", 123456789012345678: "123456789012346000", 1e20: "100000000000000000000",
		1e21: "1E+21", -1e21: "-1E+21",
	} {
		require.Equal(t, want, read(globals, number(0, value)), "%g", value)
		require.Equal(t, want, read(globals, number(999, value)), "%g with a style that is missing", value)
	}
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		sheet := append(append(append(label(0, 0, "question"), label(0, 1, "standard_answer")...), label(1, 0, "q")...),
			number(0, value)...)
		_, err := dataset.Read(t.Context(), "q.xls", datasettest.BIFF(t, 1, globals, sheet), dataset.Layout{})
		require.Contains(t, refusal(t, err), "DATASET_ROW_INVALID", "what no number is, is an error of the sheet")
	}
}

// Rows and columns of a sheet at the limits, and the other sheets, which are reported as ignored.
func TestTheEdgesOfSheets(t *testing.T) {
	t.Parallel()
	text := func(reference, content string) string {
		return `<c r="` + reference + `" t="inlineStr"><is><t>` + content + `</t></is></c>`
	}
	row := func(number int, cells ...string) string {
		return fmt.Sprintf(`<row r="%d">%s</row>`, number, strings.Join(cells, ""))
	}
	question := func(number int) string {
		return row(number, text(fmt.Sprintf("A%d", number), fmt.Sprintf("q%d", number)),
			text(fmt.Sprintf("B%d", number), "a"))
	}
	for name, test := range map[string]struct{ rows, refusal string }{
		"as many blank rows as are allowed": {question(2) + question(100_003), ""},
		"one blank row more":                {question(2) + question(100_004), "DATASET_TOO_MANY_ROWS blank_rows map[Row:3]"},
		"blank rows that are written":       {question(2) + row(100_002, `<c r="A100002"/>`) + question(100_003), ""},
		"one more that is written": {question(2) + row(100_003) + row(100_004),
			"DATASET_TOO_MANY_ROWS blank_rows map[Row:3]"},
		"a thousand rows": {rowsOf(question, 2, 1001), ""},
		"one more":        {rowsOf(question, 2, 1002), "DATASET_TOO_MANY_ROWS rows map[Max:1000]"},
		"the last column": {row(2, text("A2", "q2"), text("B2", "a"), `<c r="XFD2"/>`), ""},
		"a cell beyond it": {row(2, text("A2", "q2"), text("B2", "a"), `<c r="XFE2"/>`),
			"DATASET_UNREADABLE"},
		"a row beyond the last": {question(2) + row(1_048_577), "DATASET_UNREADABLE"},
		"row 0":                 {question(2) + row(0), "DATASET_UNREADABLE"},
		"a text that is not there": {question(2) + `<row r="3"><c r="A3" t="s"><v>0</v></c></row>`,
			"DATASET_UNREADABLE"},
	} {
		set, err := dataset.Read(t.Context(), "q.xlsx", datasettest.Sheet(t, datasettest.HeaderRow+test.rows),
			dataset.Layout{})
		if test.refusal != "" {
			require.True(t, strings.HasPrefix(refusal(t, err), test.refusal), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, "q2", set.Rows[0].Question, name)
		require.Equal(t, fmt.Sprintf("q%d", set.Rows[len(set.Rows)-1].Number), set.Rows[len(set.Rows)-1].Question, name)
	}
	// Without references, cells follow one another, and so do rows.
	set, err := dataset.Read(t.Context(), "q.xlsx",
		datasettest.Sheet(t, datasettest.HeaderRow+
			`<row><c t="inlineStr"><is><t>first</t></is></c><c t="str"><v>x</v></c></row><row r="5"/><row><c t="str"><v>second</v></c></row>`), dataset.Layout{})
	require.NoError(t, err)
	require.Equal(t, []int{2, 6}, []int{set.Rows[0].Number, set.Rows[1].Number})
	require.Equal(t, "second", set.Rows[1].Question)

	sheets, parts := []string{"a.xml", "b.xml", "c.xml", "d.xml"}, map[string]string{}
	for n, rows := range []string{datasettest.HeaderRow + question(2), row(1, text("A1", " ")) + row(20, text("C20", "x")),
		row(21, text("A21", "x")), ""} {
		parts["xl/worksheets/"+sheets[n]] = datasettest.SheetHead + rows + datasettest.SheetTail
	}
	set, err = dataset.Read(t.Context(), "q.xlsx", datasettest.Workbook(t, sheets, parts), dataset.Layout{})
	require.NoError(t, err)
	require.Equal(t, []string{"S2"}, set.IgnoredSheets, "with something in its first twenty rows")
}

func rowsOf(row func(int) string, from, to int) string {
	var rows strings.Builder
	for n := from; n <= to; n++ {
		rows.WriteString(row(n))
	}
	return rows.String()
}

// Every kind of cell of an XLS, in any order.
func TestTheCellsOfXLS(t *testing.T) {
	t.Parallel()
	little := func(numbers ...uint16) (data []byte) {
		for _, number := range numbers {
			data = binary.LittleEndian.AppendUint16(data, number)
		}
		return data
	}
	record := func(kind uint16, data ...byte) []byte { return append(little(kind, uint16(len(data))), data...) }
	label := func(row, column uint16, text string) []byte {
		return record(0x0204, append(append(little(row, column, 0, uint16(len(text))), 0), text...)...)
	}
	text := func(content string) []byte {
		return record(0x0207, append(append(little(uint16(len(content))), 0), content...)...)
	}
	formula := func(row, column uint16, result ...byte) []byte {
		return record(0x0006, append(append(little(row, column, 0), result...), make([]byte, 8)...)...)
	}
	whole := func(number uint32) []byte { return binary.LittleEndian.AppendUint32(nil, number<<2|2) }
	names := []string{"question", "standard_answer", "a", "b", "c", "d", "e", "f"}
	var sheet []byte
	for column := len(names) - 1; column >= 0; column-- { // from the last column to the first
		sheet = append(sheet, label(0, uint16(column), names[column])...)
	}
	join := func(parts ...[]byte) (all []byte) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	second := join(label(2, 1, "later"), label(2, 0, "q3"))
	first := join(
		formula(1, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF), text("q2"), text("of nothing"),
		record(0x00BD, join(little(1, 1), little(0), whole(7), little(0), whole(8), little(0),
			binary.LittleEndian.AppendUint32(nil, 12345<<2|3), little(3))...),
		record(0x0205, append(little(1, 4, 0), 1, 0)...), formula(1, 5, 1, 0, 0, 0, 0, 0, 0xFF, 0xFF),
		formula(1, 6, binary.LittleEndian.AppendUint64(nil, math.Float64bits(2.5))...),
		record(0x027E,
			join(little(1, 7, 0), binary.LittleEndian.AppendUint32(nil, uint32(math.Float64bits(-0.5)>>32)&^3))...),
	)
	set, err := dataset.Read(t.Context(), "q.xls", datasettest.BIFF(t, 1, nil, join(second, first, sheet)),
		dataset.Layout{})
	require.NoError(t, err)
	require.Len(t, set.Rows, 2)
	require.Equal(t, names[2:], set.VariableNames)
	require.Equal(t, "q2", set.Rows[0].Question)
	require.Equal(t, "7", set.Rows[0].StandardAnswer)
	require.Equal(t, []string{"8", "123.45", "TRUE", "FALSE", "2.5", "-0.5"}, set.Rows[0].Variables)
	require.Equal(t, "q3", set.Rows[1].Question)
	require.Equal(t, "later", set.Rows[1].StandardAnswer)

	for code, name := range map[byte]string{0x00: "#NULL!", 0x07: "#DIV/0!", 0x0F: "#VALUE!", 0x17: "#REF!",
		0x1D: "#NAME?", 0x24: "#NUM!", 0x2A: "#N/A"} {
		for _, cell := range [][]byte{record(0x0205, append(little(1, 0, 0), code, 1)...),
			formula(1, 0, 2, 0, code, 0, 0, 0, 0xFF, 0xFF)} {
			_, err := dataset.Read(t.Context(), "q.xls", datasettest.BIFF(t, 1, nil, join(sheet, cell, label(1, 1, "a"))),
				dataset.Layout{})
			refused := (*dataset.Error)(nil)
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "error_cell", refused.Details[0].Problem)
			require.Equal(t, name, refused.Details[0].Args["Value"])
		}
	}
	for what, cell := range map[string][]byte{
		"a cell without a place":     record(0x0204, little(1, 0)...),
		"a number without its bytes": record(0x0203, little(1, 0, 0, 0)...),
		"a text that is not there":   record(0x00FD, append(little(1, 0, 0), 0, 0, 0, 0)...),
		"a text that is cut":         record(0x0204, append(little(1, 0, 0, 9), 0, 'x')...),
		"a column beyond the last":   label(1, 256, "x"),
	} {
		_, err := dataset.Read(t.Context(), "q.xls", datasettest.BIFF(t, 1, nil, join(sheet, cell)), dataset.Layout{})
		require.Contains(t, refusal(t, err), "DATASET_UNREADABLE", what)
	}
}
