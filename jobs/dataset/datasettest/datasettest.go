// Package datasettest makes files for tests: workbooks part by part, and files that cost far more to read than their
// size suggests.
package datasettest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/jobs/dataset"
)

// Parts of sheets as XML.
const (
	XMLHead   = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"
	SheetHead = XMLHead + `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`
	SheetTail = `</sheetData></worksheet>`
	HeaderRow = `<row r="1"><c r="A1" t="inlineStr"><is><t>question</t></is></c><c r="B1" t="inlineStr"><is><t>standard_answer</t></is></c></row>`
	OneRow    = `<row r="2"><c r="A2" t="inlineStr"><is><t>q1</t></is></c><c r="B2" t="inlineStr"><is><t>a1</t></is></c></row>`
)

// Workbook makes an XLSX file. sheets are the XML parts of its sheets; parts are additional parts, by path.
func Workbook(t testing.TB, sheets []string, parts map[string]string) []byte {
	t.Helper()
	var list, relations strings.Builder
	for n, part := range sheets {
		fmt.Fprintf(&list, `<sheet name="S%d" sheetId="%d" r:id="rId%d"/>`, n+1, n+1, n+1)
		fmt.Fprintf(&relations,
			`<Relationship Id="rId%d" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/%s"/>`, n+1, part)
	}
	relations.WriteString(
		`<Relationship Id="st" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings" Target="sharedStrings.xml"/>`)
	all := map[string]string{
		"[Content_Types].xml": XMLHead + `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`,
		"_rels/.rels": XMLHead + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
			`<Relationship Id="r" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
		"xl/workbook.xml": XMLHead +
			`<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>` +
			list.String() + `</sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": XMLHead +
			`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` + relations.String() +
			`</Relationships>`,
	}
	for name, part := range parts {
		all[name] = part
	}
	var file bytes.Buffer
	archive := zip.NewWriter(&file)
	for name, part := range all {
		w, err := archive.Create(name)
		require.NoError(t, err)
		_, err = io.WriteString(w, part)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	return file.Bytes()
}

// Sheet makes a workbook with one sheet.
func Sheet(t testing.TB, rows string) []byte {
	return Workbook(t, []string{"sheet1.xml"}, map[string]string{"xl/worksheets/sheet1.xml": SheetHead + rows + SheetTail})
}

// BIFF makes a BIFF8 workbook in a compound file, from the records of the part that all sheets share and the
// records of one sheet.
func BIFF(t testing.TB, sheets int, globals, sheet []byte) []byte {
	t.Helper()
	record := func(kind uint16, data ...byte) []byte {
		return append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, kind), uint16(len(data))),
			data...)
	}
	bof := record(0x0809, 0, 6, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	boundSize := 4 + 8 + 2
	offset := len(bof) + sheets*boundSize + len(globals) + 4
	stream := slices.Clone(bof)
	for range sheets {
		stream = append(stream, record(0x0085,
			append(binary.LittleEndian.AppendUint32(nil, uint32(offset)), 0, 0, 2, 0, 'S', '1')...)...)
	}
	stream = append(append(stream, globals...), record(0x000A)...)
	require.Len(t, stream, offset)
	stream = append(append(append(stream, bof...), sheet...), record(0x000A)...)
	return compound(stream)
}

// compound wraps a stream named Workbook in a compound file ([MS-CFB]) with sectors of 512 bytes.
func compound(stream []byte) []byte {
	const sector, free, end, fat = 512, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
	for len(stream)%sector != 0 || len(stream) < 4096 {
		stream = append(stream, 0)
	}
	streamSectors := len(stream) / sector
	fats := 1
	for fats*sector/4 < fats+1+streamSectors {
		fats++
	}
	table := make([]uint32, 0, fats*sector/4)
	for range fats {
		table = append(table, fat)
	}
	table = append(table, end) // the directory
	for n := range streamSectors {
		next := uint32(fats + 1 + n + 1)
		if n == streamSectors-1 {
			next = end
		}
		table = append(table, next)
	}
	for len(table) < cap(table) {
		table = append(table, free)
	}
	head := make([]byte, sector)
	copy(head, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1")
	put16 := func(at int, v uint16) { binary.LittleEndian.PutUint16(head[at:], v) }
	put32 := func(at int, v uint32) { binary.LittleEndian.PutUint32(head[at:], v) }
	put16(24, 0x3E)
	put16(26, 3)
	put16(28, 0xFFFE)
	put16(30, 9)
	put16(32, 6)
	put32(44, uint32(fats))
	put32(48, uint32(fats)) // the first sector of the directory
	put32(56, 4096)
	put32(60, end)
	put32(68, end)
	for n := range 109 {
		v := uint32(free)
		if n < fats {
			v = uint32(n)
		}
		put32(76+4*n, v)
	}
	entry := func(name string, kind byte, start uint32, size int, child uint32) []byte {
		e := make([]byte, 128)
		for n, c := range name {
			binary.LittleEndian.PutUint16(e[2*n:], uint16(c))
		}
		binary.LittleEndian.PutUint16(e[64:], uint16(2*len(name)+2))
		e[66], e[67] = kind, 1
		binary.LittleEndian.PutUint32(e[68:], free)
		binary.LittleEndian.PutUint32(e[72:], free)
		binary.LittleEndian.PutUint32(e[76:], child)
		binary.LittleEndian.PutUint32(e[116:], start)
		binary.LittleEndian.PutUint64(e[120:], uint64(size))
		return e
	}
	file := head
	for _, v := range table {
		file = binary.LittleEndian.AppendUint32(file, v)
	}
	file = append(file, entry("Root Entry", 5, end, 0, 1)...)
	file = append(file, entry("Workbook", 2, uint32(fats+1), len(stream), free)...)
	file = append(file, make([]byte, 256)...)
	return append(file, stream...)
}

func biffRecord(kind uint16, data []byte) []byte {
	return append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, kind), uint16(len(data))),
		data...)
}

// label returns the LABEL record of a cell, which holds the cell's own text.
func label(row, column uint16, text string) []byte {
	data := binary.LittleEndian.AppendUint16(nil, row)
	data = binary.LittleEndian.AppendUint16(data, column)
	data = append(data, 0, 0)
	data = binary.LittleEndian.AppendUint16(data, uint16(len(text)))
	return biffRecord(0x0204, append(append(data, 0), text...))
}

// Hostile returns files that cost far more to read than their size suggests.
func Hostile(t testing.TB) []File {
	junk := strings.Repeat("<x/>", 15<<20)
	refs := func(n int) []string { return slices.Repeat([]string{"sheet1.xml"}, n) }
	distinct := func(n int) (sheets []string, parts map[string]string) {
		parts = map[string]string{}
		for i := range n {
			name := fmt.Sprintf("s%d.xml", i)
			sheets, parts["xl/worksheets/"+name] = append(sheets, name), SheetHead+SheetTail
		}
		return sheets, parts
	}
	manySheets, manyParts := distinct(20_000)
	styled := func(rows int) string {
		var row, all strings.Builder
		for range 16_384 {
			row.WriteString(`<c s="1"/>`)
		}
		for range rows {
			all.WriteString("<row>" + row.String() + "</row>")
		}
		return HeaderRow + OneRow + all.String()
	}
	refRow := `<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>`
	shared := func(items string) []byte {
		return Workbook(t, []string{"sheet1.xml"}, map[string]string{
			"xl/worksheets/sheet1.xml": SheetHead + refRow + SheetTail,
			"xl/sharedStrings.xml": XMLHead + `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">` +
				items + `</sst>`,
		})
	}
	var pieces, wide []byte
	pieces = append(pieces, biffRecord(0x00FC, []byte{1, 0, 0, 0, 1, 0, 0, 0, 0xFF, 0xFF, 8 + 0, 0xFF, 0xFF})...)
	for range 800_000 {
		pieces = append(pieces, biffRecord(0x003C, []byte{0})...)
	}
	for row := range 65_536 {
		wide = append(wide, label(uint16(row), 255, "x")...)
	}
	deep := strings.Repeat("<a>", 1<<20)
	return []File{
		{"long_name.csv", []byte("question,standard_answer," + strings.Repeat("n", 4_800_000) + "\n" +
			strings.Repeat("q,a,v\n", 1000)), dataset.CodeSchemaInvalid},
		{"commas_header_then_5MB.csv", []byte("question,standard_answer\n" + strings.Repeat(",", 5_200_000)),
			dataset.CodeTooComplex},
		{"commas_in_header_5MB.csv", []byte("question,standard_answer" + strings.Repeat(",", 5_200_000)),
			dataset.CodeTooComplex},
		{"junk_part_in_3000_sheets.xlsx", Workbook(t, refs(3000),
			map[string]string{"xl/worksheets/sheet1.xml": SheetHead + SheetTail + junk}), dataset.CodeUnreadable},
		{"junk_part_in_2_sheets.xlsx", Workbook(t, refs(2),
			map[string]string{"xl/worksheets/sheet1.xml": SheetHead + junk + SheetTail}), dataset.CodeUnreadable},
		{"junk_part.xlsx", Sheet(t, junk), dataset.CodeTooComplex},
		{"sheets_20000.xlsx", Workbook(t, manySheets, manyParts), dataset.CodeTooComplex},
		{"blank_cells_to_XFD.xlsx", Sheet(t, styled(380)), dataset.CodeTooComplex},
		{"shared_strings_60MB.xlsx", shared(strings.Repeat("<si/>", 12<<20)), dataset.CodeTooComplex},
		{"shared_rich_60MB.xlsx", shared("<si>" + strings.Repeat("<r><t>x</t></r>", 4<<20) + "</si>"),
			dataset.CodeTooComplex},
		{"shared_one_60MB.xlsx", shared("<si><t>" + strings.Repeat("x", 60<<20) + "</t></si>"), dataset.CodeTooComplex},
		{"attributes_60MB.xlsx", Sheet(t, "<row "+strings.Repeat(`a="" `, 12<<20)+"/>"), dataset.CodeTooComplex},
		{"deep_xml.xlsx", Sheet(t, deep), dataset.CodeTooComplex},
		{"deep_xml_closed.xlsx", Sheet(t, deep+strings.Repeat("</a>", 1<<20)), dataset.CodeTooComplex},
		{"text_in_every_cell.xlsx", Amplified(t, 256, 1000, 1<<10), dataset.CodeTooComplex},
		{"sst_in_800000_pieces.xls", BIFF(t, 1, pieces, nil), dataset.CodeUnreadable},
		{"one_sheet_named_60000_times.xls", BIFF(t, 60_000, nil, label(0, 0, "question")), dataset.CodeUnreadable},
		{"rows_65536_wide.xls", BIFF(t, 1, nil, wide), dataset.CodeSchemaInvalid},
	}
}

// File is a file and the code with which it is refused.
type File struct {
	Name    string
	Content []byte
	Code    string
}

// Amplified makes a workbook whose cells all refer to the same text, which is size bytes long.
func Amplified(t testing.TB, columns, rows, size int) []byte {
	var sheet strings.Builder
	sheet.WriteString(`<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c>`)
	for n := 2; n < columns; n++ {
		fmt.Fprintf(&sheet, `<c t="inlineStr"><is><t>v%d</t></is></c>`, n)
	}
	sheet.WriteString("</row>")
	for range rows {
		sheet.WriteString("<row>" + strings.Repeat(`<c t="s"><v>2</v></c>`, columns) + "</row>")
	}
	return Workbook(t, []string{"sheet1.xml"}, map[string]string{
		"xl/worksheets/sheet1.xml": SheetHead + sheet.String() + SheetTail,
		"xl/sharedStrings.xml": XMLHead +
			`<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>question</t></si><si><t>standard_answer</t></si><si><t>` +
			strings.Repeat("x", size) + `</t></si></sst>`,
	})
}

// Dates makes a workbook of 1,000 rows whose additional columns hold days from three years.
func Dates(t testing.TB, columns int) []byte {
	t.Helper()
	book := excelize.NewFile()
	style, err := book.NewStyle(&excelize.Style{NumFmt: 14})
	require.NoError(t, err)
	sheet, err := book.NewStreamWriter("Sheet1")
	require.NoError(t, err)
	head := []any{"question", "standard_answer"}
	for column := range columns {
		head = append(head, fmt.Sprintf("day %d", column))
	}
	require.NoError(t, sheet.SetRow("A1", head))
	for row := range 1000 {
		cells := []any{fmt.Sprintf("q%d", row), "a"}
		for column := range columns {
			cells = append(cells, excelize.Cell{StyleID: style, Value: 45_291 + (row+column)%1000})
		}
		require.NoError(t, sheet.SetRow(fmt.Sprintf("A%d", row+2), cells))
	}
	require.NoError(t, sheet.Flush())
	content, err := book.WriteToBuffer()
	require.NoError(t, err)
	return content.Bytes()
}
