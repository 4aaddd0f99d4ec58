package dataset_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
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
	"wending/jobs/dataset/datasettest"
)

// TestMain gives readers the extra time that the race detector needs.
func TestMain(m *testing.M) {
	dataset.LimitTime(time.Minute)
	os.Exit(m.Run())
}

// Every hostile file is refused by a limit, in bounded time and memory.
func TestHostileFilesAreRefusedWithinTheirBudget(t *testing.T) {
	for _, file := range datasettest.Hostile(t) {
		t.Run(file.Name, func(t *testing.T) {
			var err error
			start := time.Now()
			grown := peak(func() { _, err = dataset.Read(t.Context(), file.Name, file.Content, dataset.Layout{}) }) >> 20
			var refused *dataset.Error
			require.ErrorAs(t, err, &refused, "%v", err)
			t.Logf("%7d bytes: %v, heap %+d MiB: %v", len(file.Content), time.Since(start).Round(time.Millisecond),
				grown, refused)
			require.Equal(t, file.Code, refused.Code, "%v", refused)
			require.Less(t, grown, int64(64), "MiB")
		})
	}
}

// peak returns the maximum growth of the heap, in bytes, while work runs.
func peak(work func()) (grown int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // keeps the amount of garbage low
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

// Reading stops if it takes too long, with an error that names the limit. The test is not parallel, because it changes
// the limit.
func TestReadingEndsAfterItsTime(t *testing.T) {
	defer dataset.LimitTime(dataset.LimitTime(time.Millisecond))
	_, err := dataset.Read(t.Context(), "junk.xlsx", datasettest.Sheet(t, strings.Repeat("<x/>", 1<<20)), dataset.Layout{})
	var refused *dataset.Error
	require.ErrorAs(t, err, &refused, "%v", err)
	require.Equal(t, "complex_seconds", refused.Problem)
}

// Files just below a limit are accepted, and no text is lost.
func TestFilesJustBelowTheLimitsAreRead(t *testing.T) {
	t.Parallel()
	header := "question,standard_answer"
	for n := 2; n < 256; n++ {
		header += fmt.Sprintf(",v%d", n)
	}
	sheets, parts := []string{}, map[string]string{}
	for n := range 256 {
		name := fmt.Sprintf("s%d.xml", n)
		sheets, parts["xl/worksheets/"+name] = append(sheets, name), datasettest.SheetHead+datasettest.SheetTail
	}
	parts["xl/worksheets/s255.xml"] = datasettest.SheetHead + datasettest.HeaderRow + datasettest.OneRow +
		datasettest.SheetTail
	long := strings.Repeat("长", 255)
	for _, test := range []struct {
		name    string
		content []byte
		rows    int
		check   func(*dataset.Dataset)
	}{
		{"columns_256.csv", []byte(header + "\n" + strings.Repeat("q,a"+strings.Repeat(",v", 254)+"\n", 1000)), 1000,
			func(set *dataset.Dataset) {
				require.Len(t, set.Rows[999].Variables, 254)
			}},
		{"name_255.csv", []byte("question,standard_answer," + long + "\nq,a,v\n"), 1, func(set *dataset.Dataset) {
			require.Equal(t, []string{long}, set.VariableNames)
			require.Equal(t, []string{"v"}, set.Rows[0].Variables)
		}},
		{"sheets_256.xlsx", datasettest.Workbook(t, sheets, parts), 1, func(set *dataset.Dataset) {
			require.Equal(t, "q1", set.Rows[0].Question)
		}},
		{"text_in_every_cell.xlsx", datasettest.Amplified(t, 256, 1000, 120), 1000, func(set *dataset.Dataset) {
			require.Equal(t, strings.Repeat("x", 120), set.Rows[999].Variables[253])
		}},
		{"blank_rows.xlsx", datasettest.Sheet(t,
			datasettest.HeaderRow+strings.Repeat("<row/>", 99_990)+
				`<row r="100000"><c t="inlineStr"><is><t>q</t></is></c></row>`), 1, func(set *dataset.Dataset) {
			require.Equal(t, 100_000, set.Rows[0].Number)
		}},
		{"dates_in_every_column.xlsx", datasettest.Dates(t, 254), 1000, func(set *dataset.Dataset) {
			require.Equal(t, "2024-10-26", set.Rows[300].Variables[0])
			require.Len(t, set.Rows[999].Variables, 254)
		}},
		{"cell_1MB.xlsx", datasettest.Sheet(t,
			datasettest.HeaderRow+`<row r="2"><c r="A2" t="inlineStr"><is><t>`+strings.Repeat("x", 1_000_000)+
				`</t></is></c></row>`), 1, func(set *dataset.Dataset) {
			require.Len(t, set.Rows[0].Question, 1_000_000)
		}},
	} {
		set, err := dataset.Read(t.Context(), test.name, test.content, dataset.Layout{})
		require.NoError(t, err, test.name)
		require.Len(t, set.Rows, test.rows, test.name)
		test.check(set)
	}
}

// Reading ends when the request does.
func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dataset.Read(ctx, "junk.xlsx", datasettest.Sheet(t, strings.Repeat("<x/>", 1<<20)), dataset.Layout{})
	require.ErrorIs(t, err, context.Canceled)
}

// The reader returns the same rows as the library for all valid workbooks.
func TestWorkbooksReadAsTheLibraryReadsThem(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.xlsx"))
	require.NoError(t, err)
	compared := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		set, err := dataset.Read(t.Context(), "q.xlsx", content, dataset.Layout{})
		if err != nil {
			continue // another test checks whether the file is refused
		}
		book, err := excelize.OpenReader(bytes.NewReader(content), excelize.Options{ShortDatePattern: "yyyy-mm-dd"})
		require.NoError(t, err, file)
		var rows [][]string
		for _, sheet := range book.GetSheetList() {
			if rows, err = book.GetRows(sheet); err == nil && slices.ContainsFunc(rows, func(cells []string) bool {
				return strings.TrimSpace(strings.Join(cells, "")) != ""
			}) {
				break
			}
		}
		header := slices.IndexFunc(rows, func(cells []string) bool {
			return strings.TrimSpace(strings.Join(cells, "")) != ""
		})
		question := slices.IndexFunc(rows[header], func(cell string) bool {
			return strings.EqualFold(strings.TrimSpace(cell), "question")
		})
		answer := slices.IndexFunc(rows[header], func(cell string) bool {
			return strings.EqualFold(strings.TrimSpace(cell), "standard_answer")
		})
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

// Numbers are formatted as the library formats them, in each of a workbook's formats.
func TestNumbersAreShownInTheirFormats(t *testing.T) {
	t.Parallel()
	book := excelize.NewFile()
	require.NoError(t, book.SetSheetRow("Sheet1", "A1", &[]string{
		"question", "standard_answer", "general", "percent", "two", "date", "custom", "bool", "chinese",
	}))
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
	set, err := dataset.Read(t.Context(), "q.xlsx", file.Bytes(), dataset.Layout{})
	require.NoError(t, err)
	require.Equal(t, []string{"0.3", "12.50%", "3.14", "2023-03-15 12:00", "1,234.50 元", "TRUE", "45000"},
		set.Rows[0].Variables)
}

// A changed byte in a sheet or in the shared texts is detected, or makes no difference.
func TestAFlippedByteIsFoundOut(t *testing.T) {
	t.Parallel()
	flips := 150
	if os.Getenv("WENDING_FLIPS") == "all" {
		flips = 5000
	}
	for _, name := range []string{"formats/chinese_simpleqa_20.gnumeric.xlsx", "bad/two_sheets_both_with_data.xlsx"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		whole, err := dataset.Read(t.Context(), "q.xlsx", content, dataset.Layout{})
		require.NoError(t, err)
		places := placesOf(t, content)
		refused := 0
		random := rand.New(rand.NewPCG(1, crc32Of(name)))
		for range flips {
			place := places[random.IntN(len(places))]
			damaged := slices.Clone(content)
			damaged[place] ^= byte(1 + random.IntN(255))
			set, err := dataset.Read(t.Context(), "q.xlsx", damaged, dataset.Layout{})
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

// placesOf returns the offsets of the bytes of a workbook's sheets and shared texts.
func placesOf(t *testing.T, content []byte) (places []int) {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	require.NoError(t, err)
	for _, file := range archive.File {
		if strings.HasPrefix(file.Name, "xl/worksheets/sheet") ||
			strings.HasSuffix(strings.ToLower(file.Name), "sharedstrings.xml") {
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

// FuzzSheet reads sheets and shared texts with arbitrary XML. Anything that the reader accepts must equal the
// library's result.
func FuzzSheet(f *testing.F) {
	f.Add(datasettest.HeaderRow+datasettest.OneRow, `<si><t>a</t></si>`)
	f.Add(
		`<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row><row r="4"><c r="A4"><v>1.50</v></c><c r="B4" t="b"><v>1</v></c></row>`, `<si><t>question</t></si><si><r><t>standard</t></r><r><t>_answer</t></r><rPh sb="0" eb="1"><t>x</t></rPh></si>`)
	f.Add(datasettest.HeaderRow+
		`<row r="3"><c r="B3" t="str"><f>1</f><v>_x0041_</v></c><c r="A3" t="inlineStr"><is><t xml:space="preserve"> a&#10;_x0041_ </t></is></c></row>`, ``)
	f.Fuzz(func(t *testing.T, sheet, shared string) {
		content := datasettest.Workbook(t, []string{"sheet1.xml"}, map[string]string{
			"xl/worksheets/sheet1.xml": datasettest.SheetHead + sheet + datasettest.SheetTail,
			"xl/sharedStrings.xml": datasettest.XMLHead +
				`<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">` + shared + `</sst>`,
		})
		set, err := dataset.Read(t.Context(), "q.xlsx", content, dataset.Layout{})
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
			return // the library is lenient, and skips what it cannot read
		}
		for _, row := range set.Rows {
			if row.Number > len(rows) || !slices.Contains(rows[row.Number-1], row.Question) {
				t.Fatalf("row %d: %q is not among %q", row.Number, row.Question, rows)
			}
		}
	})
}

// Elements of extensions may have the names of standard elements, and sloppy output of common programs is accepted.
func TestOddButHonestWorkbooksAreRead(t *testing.T) {
	t.Parallel()
	const ns = ` xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"`
	rels := func(more string) string {
		return datasettest.XMLHead +
			`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="x/worksheet" Target="worksheets/sheet1.xml"/>` + more + `</Relationships>`
	}
	dated := datasettest.HeaderRow +
		`<row r="2"><c r="A2" s="1"><v>42000</v></c><c r="B2" t="inlineStr"><v>plain</v></c></row>`
	for name, test := range map[string]struct {
		parts            map[string]string
		question, answer string
	}{
		"1904 with an extension, formats of conditions": {map[string]string{
			"xl/workbook.xml": datasettest.XMLHead + `<workbook` + ns +
				`><workbookPr date1904="1"/><sheets><sheet name="a" sheetId="1" r:id="rId1"/><sheet name="m" sheetId="2" state="veryHidden" r:id=""/></sheets><extLst><ext><x15:workbookPr xmlns:x15="x" chartTrackingRefBase="1"/></ext></extLst></workbook>`,
			"xl/_rels/workbook.xml.rels": rels(`<Relationship Id="st" Type="x/styles" Target="styles.xml"/>`),
			"xl/styles.xml": datasettest.XMLHead + `<styleSheet` + ns +
				`><numFmts><numFmt numFmtId="164" formatCode="yyyy\-mm\-dd"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs><dxfs><dxf><numFmt numFmtId="164" formatCode="0.00"/></dxf></dxfs></styleSheet>`,
			"xl/worksheets/sheet1.xml": datasettest.SheetHead + dated + datasettest.SheetTail,
		}, "2018-12-28", "plain"},
		"styles that are missing": {map[string]string{
			"xl/_rels/workbook.xml.rels": rels(`<Relationship Id="st" Type="x/styles" Target="styles.xml"/>`),
			"xl/worksheets/sheet1.xml":   datasettest.SheetHead + dated + datasettest.SheetTail,
		}, "42000", "plain"},
		"rows out of order": {map[string]string{
			"xl/_rels/workbook.xml.rels": rels(""),
			"xl/worksheets/sheet1.xml": datasettest.SheetHead + datasettest.OneRow + datasettest.HeaderRow +
				datasettest.SheetTail,
		}, "q1", "a1"},
	} {
		set, err := dataset.Read(t.Context(), "q.xlsx", datasettest.Workbook(t, []string{"sheet1.xml"}, test.parts),
			dataset.Layout{})
		require.NoError(t, err, name)
		require.Len(t, set.Rows, 1, name)
		require.Equal(t, test.question, set.Rows[0].Question, name)
		require.Equal(t, test.answer, set.Rows[0].StandardAnswer, name)
	}
}
