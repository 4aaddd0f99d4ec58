package dataset_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/jobs/dataset"
)

// TestMain gives readers the time that the race detector takes.
func TestMain(m *testing.M) {
	dataset.LimitTime(time.Minute)
	os.Exit(m.Run())
}

const (
	xmlHead   = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"
	sheetHead = xmlHead + `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`
	sheetTail = `</sheetData></worksheet>`
	headerRow = `<row r="1"><c r="A1" t="inlineStr"><is><t>question</t></is></c><c r="B1" t="inlineStr"><is><t>standard_answer</t></is></c></row>`
	oneRow    = `<row r="2"><c r="A2" t="inlineStr"><is><t>q1</t></is></c><c r="B2" t="inlineStr"><is><t>a1</t></is></c></row>`
)

// workbook makes an XLSX file. sheets are the parts that its sheets refer to; parts are further ones by their paths.
func workbook(t testing.TB, sheets []string, parts map[string]string) []byte {
	t.Helper()
	var list, relations strings.Builder
	for n, part := range sheets {
		fmt.Fprintf(&list, `<sheet name="S%d" sheetId="%d" r:id="rId%d"/>`, n+1, n+1, n+1)
		fmt.Fprintf(&relations, `<Relationship Id="rId%d" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/%s"/>`, n+1, part)
	}
	relations.WriteString(`<Relationship Id="st" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings" Target="sharedStrings.xml"/>`)
	all := map[string]string{
		"[Content_Types].xml": xmlHead + `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`,
		"_rels/.rels": xmlHead + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
			`<Relationship Id="r" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
		"xl/workbook.xml": xmlHead + `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>` +
			list.String() + `</sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": xmlHead + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` + relations.String() + `</Relationships>`,
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

// sheet1 makes a workbook of one sheet.
func sheet1(t testing.TB, rows string) []byte {
	return workbook(t, []string{"sheet1.xml"}, map[string]string{"xl/worksheets/sheet1.xml": sheetHead + rows + sheetTail})
}

// biff makes a workbook of BIFF8 in a compound file from records of the part that all sheets share, and of a sheet.
func biff(t testing.TB, sheets int, globals, sheet []byte) []byte {
	t.Helper()
	record := func(kind uint16, data ...byte) []byte {
		return append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, kind), uint16(len(data))), data...)
	}
	bof := record(0x0809, 0, 6, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	boundSize := 4 + 8 + 2
	offset := len(bof) + sheets*boundSize + len(globals) + 4
	stream := slices.Clone(bof)
	for range sheets {
		stream = append(stream, record(0x0085, append(binary.LittleEndian.AppendUint32(nil, uint32(offset)), 0, 0, 2, 0, 'S', '1')...)...)
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
	put32(48, uint32(fats)) // first sector of the directory
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
	return append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, kind), uint16(len(data))), data...)
}

// label is a cell with a text of its own.
func label(row, column uint16, text string) []byte {
	data := binary.LittleEndian.AppendUint16(nil, row)
	data = binary.LittleEndian.AppendUint16(data, column)
	data = append(data, 0, 0)
	data = binary.LittleEndian.AppendUint16(data, uint16(len(text)))
	return biffRecord(0x0204, append(append(data, 0), text...))
}

// hostile are files that are made to cost much more than they are large.
func hostile(t testing.TB) []hostileFile {
	junk := strings.Repeat("<x/>", 15<<20)
	refs := func(n int) []string { return slices.Repeat([]string{"sheet1.xml"}, n) }
	distinct := func(n int) (sheets []string, parts map[string]string) {
		parts = map[string]string{}
		for i := range n {
			name := fmt.Sprintf("s%d.xml", i)
			sheets, parts["xl/worksheets/"+name] = append(sheets, name), sheetHead+sheetTail
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
		return headerRow + oneRow + all.String()
	}
	refRow := `<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>`
	shared := func(items string) []byte {
		return workbook(t, []string{"sheet1.xml"}, map[string]string{
			"xl/worksheets/sheet1.xml": sheetHead + refRow + sheetTail,
			"xl/sharedStrings.xml":     xmlHead + `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">` + items + `</sst>`,
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
	return []hostileFile{
		{"long_name.csv", []byte("question,standard_answer," + strings.Repeat("n", 4_800_000) + "\n" + strings.Repeat("q,a,v\n", 1000)), dataset.CodeSchemaInvalid},
		{"commas_header_then_5MB.csv", []byte("question,standard_answer\n" + strings.Repeat(",", 5_200_000)), dataset.CodeTooComplex},
		{"commas_in_header_5MB.csv", []byte("question,standard_answer" + strings.Repeat(",", 5_200_000)), dataset.CodeTooComplex},
		{"junk_part_in_3000_sheets.xlsx", workbook(t, refs(3000), map[string]string{"xl/worksheets/sheet1.xml": sheetHead + sheetTail + junk}), dataset.CodeUnreadable},
		{"junk_part_in_2_sheets.xlsx", workbook(t, refs(2), map[string]string{"xl/worksheets/sheet1.xml": sheetHead + junk + sheetTail}), dataset.CodeUnreadable},
		{"junk_part.xlsx", sheet1(t, junk), dataset.CodeTooComplex},
		{"sheets_20000.xlsx", workbook(t, manySheets, manyParts), dataset.CodeTooComplex},
		{"blank_cells_to_XFD.xlsx", sheet1(t, styled(380)), dataset.CodeTooComplex},
		{"shared_strings_60MB.xlsx", shared(strings.Repeat("<si/>", 12<<20)), dataset.CodeTooComplex},
		{"shared_rich_60MB.xlsx", shared("<si>" + strings.Repeat("<r><t>x</t></r>", 4<<20) + "</si>"), dataset.CodeTooComplex},
		{"shared_one_60MB.xlsx", shared("<si><t>" + strings.Repeat("x", 60<<20) + "</t></si>"), dataset.CodeTooComplex},
		{"attributes_60MB.xlsx", sheet1(t, "<row "+strings.Repeat(`a="" `, 12<<20)+"/>"), dataset.CodeTooComplex},
		{"deep_xml.xlsx", sheet1(t, deep), dataset.CodeTooComplex},
		{"deep_xml_closed.xlsx", sheet1(t, deep+strings.Repeat("</a>", 1<<20)), dataset.CodeTooComplex},
		{"text_in_every_cell.xlsx", amplified(t, 256, 1000, 1<<10), dataset.CodeTooComplex},
		{"sst_in_800000_pieces.xls", biff(t, 1, pieces, nil), dataset.CodeUnreadable},
		{"one_sheet_named_60000_times.xls", biff(t, 60_000, nil, label(0, 0, "question")), dataset.CodeUnreadable},
		{"rows_65536_wide.xls", biff(t, 1, nil, wide), dataset.CodeSchemaInvalid},
	}
}

type hostileFile struct {
	name    string
	content []byte
	code    string
}

// amplified is a workbook whose cells all refer to one text.
func amplified(t testing.TB, columns, rows, size int) []byte {
	var sheet strings.Builder
	sheet.WriteString(`<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c>`)
	for n := 2; n < columns; n++ {
		fmt.Fprintf(&sheet, `<c t="inlineStr"><is><t>v%d</t></is></c>`, n)
	}
	sheet.WriteString("</row>")
	for range rows {
		sheet.WriteString("<row>" + strings.Repeat(`<c t="s"><v>2</v></c>`, columns) + "</row>")
	}
	return workbook(t, []string{"sheet1.xml"}, map[string]string{
		"xl/worksheets/sheet1.xml": sheetHead + sheet.String() + sheetTail,
		"xl/sharedStrings.xml": xmlHead + `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>question</t></si><si><t>standard_answer</t></si><si><t>` +
			strings.Repeat("x", size) + `</t></si></sst>`,
	})
}

// Every hostile file is refused by a limit, in bounded time and memory.
func TestHostileFilesAreRefusedWithinTheirBudget(t *testing.T) {
	for _, file := range hostile(t) {
		t.Run(file.name, func(t *testing.T) {
			var err error
			start := time.Now()
			grown := peak(func() { _, err = dataset.Read(t.Context(), file.name, file.content) }) >> 20
			var refused *dataset.Error
			require.True(t, errors.As(err, &refused), "%v", err)
			t.Logf("%7d bytes: %v, heap %+d MiB: %v", len(file.content), time.Since(start).Round(time.Millisecond), grown, refused)
			require.Equal(t, file.code, refused.Code, "%v", refused)
			require.Less(t, grown, int64(64), "MiB")
		})
	}
}

// peak returns by how many bytes the heap grew at most while work ran.
func peak(work func()) (grown int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that little garbage counts
	runtime.GC()
	heap := func() int64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	before, done, stopped := heap(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(time.Millisecond); ; {
			grown = max(grown, heap()-before)
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	work()
	close(done)
	<-stopped
	return grown
}

// A file that takes too long is left, with the reason. Not parallel: it changes the limit.
func TestReadingEndsAfterItsTime(t *testing.T) {
	defer dataset.LimitTime(dataset.LimitTime(time.Millisecond))
	_, err := dataset.Read(t.Context(), "junk.xlsx", sheet1(t, strings.Repeat("<x/>", 1<<20)))
	var refused *dataset.Error
	require.True(t, errors.As(err, &refused), "%v", err)
	require.Equal(t, "complex_seconds", refused.Problem)
}

// Just below a limit everything is accepted and nothing is lost.
func TestFilesJustBelowTheLimitsAreRead(t *testing.T) {
	t.Parallel()
	header := "question,standard_answer"
	for n := 2; n < 256; n++ {
		header += fmt.Sprintf(",v%d", n)
	}
	sheets, parts := []string{}, map[string]string{}
	for n := range 256 {
		name := fmt.Sprintf("s%d.xml", n)
		sheets, parts["xl/worksheets/"+name] = append(sheets, name), sheetHead+sheetTail
	}
	parts["xl/worksheets/s255.xml"] = sheetHead + headerRow + oneRow + sheetTail
	long := strings.Repeat("长", 255)
	for _, test := range []struct {
		name    string
		content []byte
		rows    int
		check   func(*dataset.Dataset)
	}{
		{"columns_256.csv", []byte(header + "\n" + strings.Repeat("q,a"+strings.Repeat(",v", 254)+"\n", 1000)), 1000, func(set *dataset.Dataset) {
			require.Len(t, set.Rows[999].Variables, 254)
		}},
		{"name_255.csv", []byte("question,standard_answer," + long + "\nq,a,v\n"), 1, func(set *dataset.Dataset) {
			require.Equal(t, []string{long}, set.VariableNames)
			require.Equal(t, []string{"v"}, set.Rows[0].Variables)
		}},
		{"sheets_256.xlsx", workbook(t, sheets, parts), 1, func(set *dataset.Dataset) { require.Equal(t, "q1", set.Rows[0].Question) }},
		{"text_in_every_cell.xlsx", amplified(t, 256, 1000, 120), 1000, func(set *dataset.Dataset) {
			require.Equal(t, strings.Repeat("x", 120), set.Rows[999].Variables[253])
		}},
		{"blank_rows.xlsx", sheet1(t, headerRow+strings.Repeat("<row/>", 99_990)+`<row r="100000"><c t="inlineStr"><is><t>q</t></is></c></row>`), 1, func(set *dataset.Dataset) {
			require.Equal(t, 100_000, set.Rows[0].Number)
		}},
		{"dates_in_every_column.xlsx", dates(t, 254), 1000, func(set *dataset.Dataset) {
			require.Equal(t, "2024-10-26", set.Rows[300].Variables[0])
			require.Len(t, set.Rows[999].Variables, 254)
		}},
		{"cell_1MB.xlsx", sheet1(t, headerRow+`<row r="2"><c r="A2" t="inlineStr"><is><t>`+strings.Repeat("x", 1_000_000)+`</t></is></c></row>`), 1, func(set *dataset.Dataset) {
			require.Len(t, set.Rows[0].Question, 1_000_000)
		}},
	} {
		set, err := dataset.Read(t.Context(), test.name, test.content)
		require.NoError(t, err, test.name)
		require.Len(t, set.Rows, test.rows, test.name)
		test.check(set)
	}
}

// dates is a workbook of 1,000 rows with days of three years in all further columns.
func dates(t *testing.T, columns int) []byte {
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

// Reading ends with the request.
func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dataset.Read(ctx, "junk.xlsx", sheet1(t, strings.Repeat("<x/>", 1<<20)))
	require.ErrorIs(t, err, context.Canceled)
}

// The reader gives the same rows as the library for all good workbooks.
func TestWorkbooksReadAsTheLibraryReadsThem(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.xlsx"))
	require.NoError(t, err)
	compared := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		set, err := dataset.Read(t.Context(), "q.xlsx", content)
		if err != nil {
			continue // whether it should be refused is another test's question
		}
		book, err := excelize.OpenReader(bytes.NewReader(content), excelize.Options{ShortDatePattern: "yyyy-mm-dd"})
		require.NoError(t, err, file)
		var rows [][]string
		for _, sheet := range book.GetSheetList() {
			if rows, err = book.GetRows(sheet); err == nil && slices.ContainsFunc(rows, func(cells []string) bool { return strings.TrimSpace(strings.Join(cells, "")) != "" }) {
				break
			}
		}
		header := slices.IndexFunc(rows, func(cells []string) bool { return strings.TrimSpace(strings.Join(cells, "")) != "" })
		question := slices.IndexFunc(rows[header], func(cell string) bool { return strings.EqualFold(strings.TrimSpace(cell), "question") })
		answer := slices.IndexFunc(rows[header], func(cell string) bool { return strings.EqualFold(strings.TrimSpace(cell), "standard_answer") })
		for _, row := range set.Rows {
			cells := slices.Concat(rows[row.Number-1], make([]string, 256))
			require.Equal(t, cells[question], row.Question, "%s, row %d", file, row.Number)
			require.Equal(t, cells[answer], row.StandardAnswer, "%s, row %d", file, row.Number)
			compared++
		}
		require.NoError(t, book.Close())
	}
	require.Greater(t, compared, 1000)
}

// Numbers are written as the library writes them in each of a workbook's formats.
func TestNumbersAreShownInTheirFormats(t *testing.T) {
	t.Parallel()
	book := excelize.NewFile()
	require.NoError(t, book.SetSheetRow("Sheet1", "A1", &[]string{"question", "standard_answer", "general", "percent", "two", "date", "custom", "bool", "chinese"}))
	values := []any{"q", "a", 0.1 + 0.2, 0.125, 3.14159, 45000.5, 1234.5, true, 45000}
	codes := []string{"", "", "", "0.00%", "0.00", "yyyy\\-mm\\-dd hh:mm", `#,##0.00 "元"`, "", ""}
	for n, value := range values {
		cell, err := excelize.CoordinatesToCellName(n+1, 2)
		require.NoError(t, err)
		require.NoError(t, book.SetCellValue("Sheet1", cell, value))
		if codes[n] != "" {
			style, err := book.NewStyle(&excelize.Style{CustomNumFmt: &codes[n]})
			require.NoError(t, err)
			require.NoError(t, book.SetCellStyle("Sheet1", cell, cell, style))
		}
	}
	var file bytes.Buffer
	require.NoError(t, book.Write(&file))
	set, err := dataset.Read(t.Context(), "q.xlsx", file.Bytes())
	require.NoError(t, err)
	require.Equal(t, []string{"0.3", "12.50%", "3.14", "2023-03-15 12:00", "1,234.50 元", "TRUE", "45000"}, set.Rows[0].Variables)
}

// A byte of a sheet or of the shared texts that changed on its way is found out, or changes nothing.
func TestAFlippedByteIsFoundOut(t *testing.T) {
	t.Parallel()
	flips := 150
	if os.Getenv("WENDING_FLIPS") == "all" {
		flips = 5000
	}
	for _, name := range []string{"formats/chinese_simpleqa_20.gnumeric.xlsx", "bad/two_sheets_both_with_data.xlsx"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		whole, err := dataset.Read(t.Context(), "q.xlsx", content)
		require.NoError(t, err)
		places := placesOf(t, content)
		refused := 0
		random := rand.New(rand.NewPCG(1, crc32Of(name)))
		for range flips {
			place := places[random.IntN(len(places))]
			damaged := slices.Clone(content)
			damaged[place] ^= byte(1 + random.IntN(255))
			set, err := dataset.Read(t.Context(), "q.xlsx", damaged)
			if err != nil {
				refused++
				continue
			}
			for n := range set.Rows { // generated ids depend on every byte
				set.Rows[n].QuestionID = whole.Rows[n].QuestionID
			}
			require.Equal(t, whole.Rows, set.Rows, "%s, byte %d", name, place)
		}
		require.Positive(t, refused)
		t.Logf("%s: %d of %d refused", name, refused, flips)
	}
}

func crc32Of(text string) uint64 { return uint64(crc32.ChecksumIEEE([]byte(text))) }

// placesOf are the offsets of the bytes of a workbook's sheets and shared texts.
func placesOf(t *testing.T, content []byte) (places []int) {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	require.NoError(t, err)
	for _, file := range archive.File {
		if strings.HasPrefix(file.Name, "xl/worksheets/sheet") || strings.HasSuffix(strings.ToLower(file.Name), "sharedstrings.xml") {
			start, err := file.DataOffset()
			require.NoError(t, err)
			for n := range int(file.CompressedSize64) {
				places = append(places, int(start)+n)
			}
		}
	}
	require.NotEmpty(t, places)
	return places
}

// FuzzSheet reads sheets and shared texts of any XML. What the reader accepts it reads as the library does.
func FuzzSheet(f *testing.F) {
	f.Add(headerRow+oneRow, `<si><t>a</t></si>`)
	f.Add(`<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row><row r="4"><c r="A4"><v>1.50</v></c><c r="B4" t="b"><v>1</v></c></row>`, `<si><t>question</t></si><si><r><t>standard</t></r><r><t>_answer</t></r><rPh sb="0" eb="1"><t>x</t></rPh></si>`)
	f.Add(headerRow+`<row r="3"><c r="B3" t="str"><f>1</f><v>_x0041_</v></c><c r="A3" t="inlineStr"><is><t xml:space="preserve"> a&#10;_x0041_ </t></is></c></row>`, ``)
	f.Fuzz(func(t *testing.T, sheet, shared string) {
		content := workbook(t, []string{"sheet1.xml"}, map[string]string{
			"xl/worksheets/sheet1.xml": sheetHead + sheet + sheetTail,
			"xl/sharedStrings.xml":     xmlHead + `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">` + shared + `</sst>`,
		})
		set, err := dataset.Read(t.Context(), "q.xlsx", content)
		if err != nil {
			return
		}
		book, err := excelize.OpenReader(bytes.NewReader(content))
		if err != nil {
			return
		}
		defer book.Close()
		rows, err := book.GetRows("S1")
		if err != nil || len(rows) == 0 {
			return // the library is not strict, and leaves out what it cannot read
		}
		for _, row := range set.Rows {
			if row.Number > len(rows) || !slices.Contains(rows[row.Number-1], row.Question) {
				t.Fatalf("row %d: %q is not among %q", row.Number, row.Question, rows)
			}
		}
	})
}

// Elements of extensions have names of elements proper; what programs write that is not quite right is read.
func TestOddButHonestWorkbooksAreRead(t *testing.T) {
	t.Parallel()
	const ns = ` xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"`
	rels := func(more string) string {
		return xmlHead + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="x/worksheet" Target="worksheets/sheet1.xml"/>` + more + `</Relationships>`
	}
	dated := headerRow + `<row r="2"><c r="A2" s="1"><v>42000</v></c><c r="B2" t="inlineStr"><v>plain</v></c></row>`
	for name, test := range map[string]struct {
		parts            map[string]string
		question, answer string
	}{
		"1904 with an extension, formats of conditions": {map[string]string{
			"xl/workbook.xml":            xmlHead + `<workbook` + ns + `><workbookPr date1904="1"/><sheets><sheet name="a" sheetId="1" r:id="rId1"/><sheet name="m" sheetId="2" state="veryHidden" r:id=""/></sheets><extLst><ext><x15:workbookPr xmlns:x15="x" chartTrackingRefBase="1"/></ext></extLst></workbook>`,
			"xl/_rels/workbook.xml.rels": rels(`<Relationship Id="st" Type="x/styles" Target="styles.xml"/>`),
			"xl/styles.xml":              xmlHead + `<styleSheet` + ns + `><numFmts><numFmt numFmtId="164" formatCode="yyyy\-mm\-dd"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs><dxfs><dxf><numFmt numFmtId="164" formatCode="0.00"/></dxf></dxfs></styleSheet>`,
			"xl/worksheets/sheet1.xml":   sheetHead + dated + sheetTail,
		}, "2018-12-28", "plain"},
		"styles that are missing": {map[string]string{
			"xl/_rels/workbook.xml.rels": rels(`<Relationship Id="st" Type="x/styles" Target="styles.xml"/>`),
			"xl/worksheets/sheet1.xml":   sheetHead + dated + sheetTail,
		}, "42000", "plain"},
		"rows out of order": {map[string]string{
			"xl/_rels/workbook.xml.rels": rels(""),
			"xl/worksheets/sheet1.xml":   sheetHead + oneRow + headerRow + sheetTail,
		}, "q1", "a1"},
	} {
		set, err := dataset.Read(t.Context(), "q.xlsx", workbook(t, []string{"sheet1.xml"}, test.parts))
		require.NoError(t, err, name)
		require.Len(t, set.Rows, 1, name)
		require.Equal(t, test.question, set.Rows[0].Question, name)
		require.Equal(t, test.answer, set.Rows[0].StandardAnswer, name)
	}
}
