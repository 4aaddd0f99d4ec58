package export_test

import (
	"bytes"
	"encoding/csv"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/db/dbtest"
	"wending/db/measure"
	"wending/jobs/export"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func text(s string) *string { return &s }
func number(n int) *int     { return &n }

var completed = time.Date(2025, 10, 27, 0, 50, 0, 0, time.UTC)

func report() export.Report {
	return export.Report{TaskName: "A模型V1.2稳定性测试", AgentURL: "http://a/run", RunsPerItem: 2,
		CreatedAt: completed.Add(-time.Hour), CompletedAt: &completed,
		VariableNames: []string{"level"}, IncludeErrors: true, Items: 2, Succeeded: 2, Failed: 2}
}

// awkward has cells that a spreadsheet, an XML parser or a CSV reader might change.
var awkward = []string{"=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "'x", "''x", "a,b", `a"b`, "a\r\nb", "a\rb",
	" a ", "_x0041_", "_x005F_", "_x0041_x0042_", "_x0041\rz", "<b>&amp;</b>", "e\u0301 é",
	"👩‍👩‍👧 𠮷", "\u202eevil", "bell\aesc\x1b", "\uFFFD", "nul\u2400", strings.Repeat("长", 100)}

func items() []export.Item {
	var all []export.Item
	for n, cell := range awkward {
		all = append(all, export.Item{QuestionID: string(rune('a'+n/10)) + string(rune('0'+n%10)), Question: cell,
			StandardAnswer: cell, SystemPrompt: text(cell),
			Variables: []string{cell}, Runs: []export.Run{
				{Index: 1, Status: "SUCCEEDED", Response: text(cell), LatencyMS: number(812)},
				{Index: 2, Status: "TIMEOUT", LatencyMS: number(30000), ErrorCode: text("TIMEOUT")}}})
	}
	return all
}

func write(t *testing.T, writer interface {
	Write(export.Item) error
	Close() error
}, all []export.Item) {
	t.Helper()
	for _, item := range all {
		require.NoError(t, writer.Write(item))
	}
	require.NoError(t, writer.Close())
}

func TestCSVIsAsItsGoldenFile(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writer, err := export.NewCSV(&out, report())
	require.NoError(t, err)
	write(t, writer, items())
	golden := filepath.Join("testdata", "report.csv")
	if *update {
		require.NoError(t, os.WriteFile(golden, out.Bytes(), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

// Stripping exactly one leading ' restores every cell, byte for byte.
func TestTheFormulaGuardIsReversible(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writer, err := export.NewCSV(&out, report())
	require.NoError(t, err)
	write(t, writer, items())
	// encoding/csv turns CRLF inside cells into LF, so cells are compared in that form.
	fold := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(out.Bytes(), []byte("\uFEFF")))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"question_id", "question", "standard_answer", "_system_prompt", "_user_context",
		"run_1_output", "run_1_status", "run_1_latency_ms", "run_1_error_code", "run_2_output", "run_2_status",
		"run_2_latency_ms", "run_2_error_code",
		"_created_at", "_completed_at", "var_level"}, rows[0])
	for n, cell := range awkward {
		got := rows[n+1][5]
		require.NotContains(t, "=+-@\t\r\n", got[:1])
		require.Equal(t, fold(cell), strings.TrimPrefix(got, "'"), "%q", got)
	}
	require.Equal(t, "2025-10-27T08:50:00+08:00", rows[1][14])
}

func xlsx(t *testing.T, all []export.Item) []byte {
	t.Helper()
	var out bytes.Buffer
	writer, err := export.NewXLSX(&out, report(), export.Texts{
		Info: [][2]string{{"任务名称", "A模型"}, {"完成时间", "2025"}}, InfoSheet: "任务信息", ResultsSheet: "评测结果", StabilitySheet: "稳定性",
		FactsColumn: "关键信息差异", ExpectedColumn: "与标准答案不符", CutMark: "…【已截断，见 JSONL】",
	})
	require.NoError(t, err)
	write(t, writer, all)
	return out.Bytes()
}

func TestAWorkbookHoldsEveryTextAsItIs(t *testing.T) {
	t.Parallel()
	book, err := excelize.OpenReader(bytes.NewReader(xlsx(t, items())))
	require.NoError(t, err)
	defer book.Close()
	require.Equal(t, []string{"任务信息", "评测结果", "稳定性"}, book.GetSheetList())
	name, err := book.GetCellValue("任务信息", "B1")
	require.NoError(t, err)
	require.Equal(t, "A模型", name)
	rows, err := book.GetRows("评测结果")
	require.NoError(t, err)
	for n, cell := range awkward {
		require.Equal(t, cell, rows[n+1][5], "%q", cell)
	}
}

// The last sheet has the likeness of answers; unknown values are empty.
func TestAWorkbookSaysHowAlikeAnswersAre(t *testing.T) {
	t.Parallel()
	third, whole, two := 1.0/3, 1.0, 2
	book, err := excelize.OpenReader(bytes.NewReader(xlsx(t, []export.Item{
		{Number: 1, QuestionID: "q1", Question: "=1+1",
			Likeness: export.Likeness{Level: "wording", Agreement: &third, Similarity: &whole, Distinct: &two, Letters: "AB-A",
				Novelty: &third, Facts: []measure.Fact{
					{Values: []measure.Value{{Text: "14 日"}, {Text: "19 日"}}}, {Values: []measure.Value{{Text: "可以"}, {Text: "不可以"}}},
					{Values: []measure.Value{{Text: "3 月"}}},
				}, Expected: []measure.ExpectedFact{{Text: "14 日", Values: []measure.Value{{Text: "19 日"}}}}}},
		{Number: 2, QuestionID: "q2", Question: "b"},
	})))
	require.NoError(t, err)
	defer book.Close()
	rows, err := book.GetRows("稳定性")
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"question_id", "number", "question", "level", "agreement", "similarity", "distinct", "letters", "关键信息差异", "与标准答案不符",
			"novelty"},
		{"q1", "1", "=1+1", "wording", "33.33%", "100.00%", "2", "AB-A", "14 日 → 19 日; 可以 → 不可以", "14 日 → 19 日", "33.33%"},
		{"q2", "2", "b"},
	}, rows)
	for cell, want := range map[string]string{"B2": "1", "E2": "0.3333", "F2": "1.0000", "G2": "2"} {
		kind, err := book.GetCellType("稳定性", cell)
		require.NoError(t, err)
		require.Equal(t, excelize.CellTypeUnset, kind, "%s is a number", cell)
		raw, err := book.GetCellValue("稳定性", cell, excelize.Options{RawCellValue: true})
		require.NoError(t, err)
		require.Equal(t, want, raw, cell)
	}
}

func TestATextOverTheCellLimitIsCutVisibly(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("𠮷", 20_000) // 40,000 UTF-16 units
	book, err := excelize.OpenReader(bytes.NewReader(xlsx(t, []export.Item{{QuestionID: "q", Question: long}})))
	require.NoError(t, err)
	defer book.Close()
	cell, err := book.GetCellValue("评测结果", "B2")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(cell, "…【已截断，见 JSONL】"))
	units := 0
	for _, r := range cell {
		units++
		if r > 0xFFFF {
			units++
		}
	}
	require.LessOrEqual(t, units, 32767)
	require.Greater(t, units, 32700)
}

// LibreOffice can also read the workbook; if it is not installed, the test is skipped.
func TestLibreOfficeOpensTheWorkbook(t *testing.T) {
	t.Parallel()
	office := dbtest.Need(t, "soffice")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "report.xlsx"), xlsx(t, items()), 0o600))
	cmd := exec.Command(office, "-env:UserInstallation=file://"+dir+"/profile", "--headless", "--convert-to",
		"csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,2", "--outdir", dir,
		filepath.Join(dir, "report.xlsx"))
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	converted, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	require.NoError(t, err)
	require.Len(t, converted, 1, "%s", output)
	content, err := os.ReadFile(converted[0])
	require.NoError(t, err)
	require.Contains(t, string(content), "👩‍👩‍👧 𠮷")
	require.Contains(t, string(content), "=1+1")
}

func TestJSONLKeepsExactBytes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	write(t, export.NewJSONL(&out, report()), []export.Item{{QuestionID: "q", Question: "<b>", Runs: []export.Run{
		{Index: 1, Status: "SUCCEEDED", Response: text("a\u2400"), Exact: []byte("a\x00")},
		{Index: 2, Status: "SUCCEEDED", Response: text("\uFFFD"), Exact: []byte("\xff\xfe")}}}})
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), `"question":"<b>"`)
	require.Contains(t, out.String(), `"output":"a\u0000"`)
	require.Contains(t, out.String(), `"output":"�","output_base64":"//4="`)
}
