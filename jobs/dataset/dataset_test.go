package dataset_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/dataset"
)

func readFile(t *testing.T, path string) (*dataset.Dataset, error) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return dataset.Read(t.Context(), filepath.Base(path), content, dataset.Layout{})
}

// The same rows in other formats are read exactly as from CSV, cell by cell.
func TestEveryFormatReadsToTheRowsOfItsCSV(t *testing.T) {
	t.Parallel()
	formats, qa := filepath.Join("testdata", "formats"), filepath.Join("testdata", "qa")
	for name, original := range map[string]string{
		"chinese_simpleqa_1000.xlsx":        "chinese_simpleqa_1000.csv",
		"chinese_simpleqa_1000.xls":         "chinese_simpleqa_1000.csv",
		"chinese_simpleqa_1000.utf8bom.csv": "chinese_simpleqa_1000.csv",
		"chinese_simpleqa_20.gnumeric.xlsx": "chinese_simpleqa_20.csv",
		"chinese_simpleqa_20.gnumeric.xls":  "chinese_simpleqa_20.csv",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := readFile(t, filepath.Join(qa, original))
			require.NoError(t, err)
			got, err := readFile(t, filepath.Join(formats, name))
			require.NoError(t, err)
			require.Equal(t, want.Columns, got.Columns)
			require.Len(t, got.Rows, len(want.Rows))
			for n := range want.Rows { // row by row, because a difference of whole datasets would fill the screen
				require.Equal(t, want.Rows[n], got.Rows[n])
			}
		})
	}
}

func TestEveryRealQuestionSetIsRead(t *testing.T) {
	t.Parallel()
	qa := filepath.Join("testdata", "qa")
	for name, rows := range map[string]int{"truthfulqa_817.csv": 817, "gsm8k_test_1000.csv": 1000,
		"gsm8k_worked_100.csv":      100,
		"chinese_simpleqa_1000.csv": 1000, "cmrc2018_dev_120.csv": 120, "mtbench_80x2.csv": 160, "simpleqa_1000.csv": 1000} {
		set, err := readFile(t, filepath.Join(qa, name))
		require.NoError(t, err, name)
		require.Len(t, set.Rows, rows, name)
	}
	set, err := readFile(t, filepath.Join(qa, "mtbench_80x2.csv"))
	require.NoError(t, err)
	require.Equal(t, []string{"series", "turn", "category"}, set.VariableNames)
	require.Equal(t, []string{"mt-81", "1", "writing"}, set.Rows[0].Variables)
	require.Equal(t, 80, set.Conversations())
	require.Equal(t, "mt-81", set.Rows[1].Series)
	require.Equal(t, 2, set.Rows[1].Turn)
}

func TestTurnsOfConversations(t *testing.T) {
	t.Parallel()
	read := func(content string) (*dataset.Dataset, error) {
		return dataset.Read(t.Context(), "q.csv", []byte(content), dataset.Layout{})
	}
	for name, columns := range map[string]string{"the contract's": "series,turn",
		"aico's": "session_group,order_in_series", "spec/002's": "Series_Index, TURN "} {
		set, err := read("question,standard_answer," + columns + "\nq2,a,x,2\nsingle,a,,\nq1,a,x,1.0\n")
		require.NoError(t, err, name)
		var turns []string
		for _, row := range set.Rows {
			turns = append(turns, fmt.Sprintf("%s%d", row.Series, row.Turn))
		}
		require.Equal(t, []string{"x2", "0", "x1"}, turns, name)
		require.Len(t, set.VariableNames, 2, "%s: they stay variables", name)
	}
	set, err := read("question,standard_answer,turn\nq,a,x\n")
	require.NoError(t, err, "one of the columns alone is a plain variable")
	require.Zero(t, set.Conversations())

	for rows, wrong := range map[string]string{
		"x,1 x,3":     "3 turn_gap",
		"x,2":         "2 turn_gap",
		"x,1 x,1":     "3 turn_repeated",
		"x,1 x,":      "3 series_without_turn",
		"x,1 ,2":      "3 turn_without_series",
		"x,one":       "2 turn_invalid",
		"x,0":         "2 turn_invalid",
		"x,1.5":       "2 turn_invalid",
		"x,1 y,2 x,4": "3 turn_gap 4 turn_gap",
	} {
		content := "question,standard_answer,series,turn\n"
		for n, row := range strings.Fields(rows) {
			content += fmt.Sprintf("q%d,a,%s\n", n, row)
		}
		_, err := read(content)
		refused := (*dataset.Error)(nil)
		require.ErrorAs(t, err, &refused, rows)
		require.Equal(t, dataset.CodeRowInvalid, refused.Code, rows)
		var found []string
		for _, detail := range refused.Details {
			found = append(found, fmt.Sprintf("%d %s", detail.Row, detail.Problem))
		}
		require.Equal(t, wrong, strings.Join(found, " "), rows)
	}
}

// For each bad file, the code of the error and the problem that it names, or how many rows are accepted.
func TestEveryBadFileIsRefusedClearlyOrAcceptedWithCare(t *testing.T) {
	bad := filepath.Join("testdata", "bad")
	const accepted = ""
	for _, test := range []struct {
		file, code, problem string
		rows                int
	}{
		{"missing_column_question.csv", dataset.CodeSchemaInvalid, "missing", 0},
		{"missing_column_standard_answer.csv", dataset.CodeSchemaInvalid, "missing", 0},
		{"missing_column.xlsx", dataset.CodeSchemaInvalid, "missing", 0},
		{"no_header.csv", dataset.CodeSchemaInvalid, "missing", 0},
		{"empty_0_bytes.csv", dataset.CodeEmpty, "empty", 0},
		{"only_newlines.csv", dataset.CodeEmpty, "empty", 0},
		{"header_and_blank_rows.csv", dataset.CodeEmpty, "no_rows", 0},
		{"empty_sheet.xlsx", dataset.CodeEmpty, "empty", 0},
		{"header_only.xlsx", dataset.CodeEmpty, "no_rows", 0},
		{"rows_1001.csv", dataset.CodeTooManyRows, "rows", 0},
		{"rows_1001.xlsx", dataset.CodeTooManyRows, "rows", 0},
		{"rows_1000_limit_ok.csv", accepted, "", 1000},
		{"duplicate_question_id.csv", dataset.CodeDuplicateID, "duplicate", 0},
		{"empty_question_cells.csv", dataset.CodeRowInvalid, "rows_invalid", 0},
		{"invalid_utf8.csv", dataset.CodeEncodingInvalid, "invalid_utf8", 0},
		{"mixed_utf8_and_gbk.csv", dataset.CodeEncodingInvalid, "invalid_utf8", 0},
		{"utf16_no_bom.csv", dataset.CodeEncodingInvalid, "encoding", 0},
		{"header_case_spaces_bom.csv", accepted, "", 2},
		{"header_chinese_names.csv", dataset.CodeSchemaInvalid, "missing", 0},
		{"header_duplicate_columns.csv", dataset.CodeSchemaInvalid, "duplicate_column", 0},
		{"cr_only_line_ends.csv", accepted, "", 20},
		{"control_and_unicode.csv", accepted, "", 5},
		{"nested_json_text.csv", accepted, "", 2},
		{"one_cell_200KB.csv", accepted, "", 2},
		{"columns_20000.csv", dataset.CodeSchemaInvalid, "columns", 0},
		{"formula_injection.csv", accepted, "", 11},
		{"html_script_injection.csv", accepted, "", 10},
		{"data_on_second_sheet.xlsx", accepted, "", 10},
		{"two_sheets_both_with_data.xlsx", accepted, "", 10},
		{"far_cell_XFD1048576.xlsx", dataset.CodeTooManyRows, "blank_rows", 0},
		{"blank_formatted_1048576_rows.xlsx", dataset.CodeTooManyRows, "blank_rows", 0},
		{"extra_part_bomb_100MB.xlsx", dataset.CodeTooComplex, "complex_unzipped_mib", 0},
		{"xxe_external_entity.xlsx", dataset.CodeUnreadable, "damaged_part", 0},
		{"xml_entity_expansion.xlsx", dataset.CodeUnreadable, "damaged_part", 0},
		{"zip_path_traversal_entry.xlsx", accepted, "", 10},
		{"truncated_half.xlsx", dataset.CodeUnreadable, "damaged", 0},
		{"truncated_last_22_bytes.xlsx", dataset.CodeUnreadable, "damaged", 0},
		{"corrupt_deflate.xlsx", dataset.CodeUnreadable, "damaged_part", 0},
		{"exe_named.xlsx", dataset.CodeFormatUnsupported, "mismatch", 0},
		{"exe_named.csv", dataset.CodeFormatUnsupported, "mismatch", 0},
		{"png_named.csv", dataset.CodeFormatUnsupported, "mismatch", 0},
		{"csv_named.xlsx", dataset.CodeFormatUnsupported, "mismatch", 0},
		{"html_named.xls", dataset.CodeFormatUnsupported, "mismatch", 0},
		{"plain_zip_named.xlsx", dataset.CodeFormatUnsupported, "mismatch", 0},
		{"../formats/chinese_simpleqa_1000.gb18030.csv", dataset.CodeEncodingInvalid, "encoding", 0},
		{"../formats/gb18030_4byte_chars_5.csv", dataset.CodeEncodingInvalid, "encoding", 0},
		{"../formats/chinese_simpleqa_1000.utf16le-bom.csv", dataset.CodeEncodingInvalid, "encoding", 0},
		{"../formats/chinese_simpleqa_20.tsv", dataset.CodeFormatUnsupported, "extension", 0},
		{"../formats/chinese_simpleqa_20.semicolon.csv", dataset.CodeSchemaInvalid, "separator", 0},
	} {
		t.Run(test.file, func(t *testing.T) {
			var before, after runtime.MemStats
			content, err := os.ReadFile(filepath.Join(bad, test.file))
			require.NoError(t, err)
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			set, err := dataset.Read(t.Context(), filepath.Base(test.file), content, dataset.Layout{})
			runtime.ReadMemStats(&after)
			t.Logf("%v, heap from the system %+d MiB", time.Since(start), (int64(after.HeapSys)-int64(before.HeapSys))>>20)
			if test.code == accepted {
				require.NoError(t, err)
				require.Equal(t, test.rows, len(set.Rows)) //nolint:testifylint // Len prints the rows, 200 KB of them
				return
			}
			var refused *dataset.Error
			require.ErrorAs(t, err, &refused, "%v", err)
			require.Equal(t, test.code, refused.Code)
			require.Equal(t, test.problem, refused.Problem)
			require.Nil(t, set)
		})
	}
}

func TestRowErrorsAreListedTogetherWithTheirRowNumbers(t *testing.T) {
	t.Parallel()
	_, err := dataset.Read(t.Context(), "q.csv",
		[]byte("question,standard_answer\nok,1\n ,2\n\nfine,3,extra\nshort\n\u3000,4\n"), dataset.Layout{})
	var refused *dataset.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, dataset.CodeRowInvalid, refused.Code)
	var rows []int
	var problems []string
	for _, detail := range refused.Details {
		rows, problems = append(rows, detail.Row), append(problems, detail.Problem)
	}
	require.Equal(t, []int{3, 5, 6, 7}, rows)
	require.Equal(t, []string{"blank_question", "long_row", "short_row", "blank_question"}, problems)

	_, err = dataset.Read(t.Context(), "both.csv", []byte("question_id,question,standard_answer\nq1,a,b\nq1,c,d\nq2,,x\n"),
		dataset.Layout{})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, dataset.CodeRowInvalid, refused.Code)
	require.Equal(t, []int{3, 4}, []int{refused.Details[0].Row, refused.Details[1].Row},
		"repeated ids are listed with the rest")

	_, err = dataset.Read(t.Context(), "many.csv", []byte("question,standard_answer\n"+strings.Repeat(",x\n", 30)),
		dataset.Layout{})
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Details, 20)
	require.Equal(t, 30, refused.Args["Count"])
}

func TestCellsComeAsTheyStand(t *testing.T) {
	t.Parallel()
	set, err := dataset.Read(t.Context(), "q.csv",
		[]byte("question,standard_answer,Level \r\n\" a\r\nb\nc \"\"x\"\"\", 5\" ,\r\nq2,,hard"), dataset.Layout{})
	require.NoError(t, err)
	require.Equal(t, " a\r\nb\nc \"x\"", set.Rows[0].Question)
	require.Equal(t, " 5\" ", set.Rows[0].StandardAnswer)
	require.Equal(t, []string{""}, set.Rows[0].Variables)
	require.Empty(t, set.Rows[1].StandardAnswer, "a blank standard answer is allowed")
}

func TestIDsAreStableUniqueAndInTheFilesOrder(t *testing.T) {
	t.Parallel()
	content := []byte("question,standard_answer\n" + strings.Repeat("same,same\n", 300))
	first, err := dataset.Read(t.Context(), "a.csv", content, dataset.Layout{})
	require.NoError(t, err)
	second, err := dataset.Read(t.Context(), "b.csv", content, dataset.Layout{})
	require.NoError(t, err)
	require.Equal(t, first.Rows, second.Rows)
	for n := 1; n < len(first.Rows); n++ {
		require.Less(t, first.Rows[n-1].QuestionID, first.Rows[n].QuestionID)
	}
	other, err := dataset.Read(t.Context(), "a.csv", append(content, "more,1\n"...), dataset.Layout{})
	require.NoError(t, err)
	require.NotEqual(t, first.Rows[0].QuestionID, other.Rows[0].QuestionID)
}

func TestAnUnclosedQuoteIsNamedWithItsLine(t *testing.T) {
	t.Parallel()
	_, err := dataset.Read(t.Context(), "q.csv", []byte("question,standard_answer\na,1\n\"b,2\nc,3\n"), dataset.Layout{})
	var refused *dataset.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "open_quote", refused.Problem)
	require.Equal(t, 3, refused.Args["Line"])
}

func FuzzCSV(f *testing.F)  { fuzz(f, "q.csv") }
func FuzzXLSX(f *testing.F) { fuzz(f, "q.xlsx") }
func FuzzXLS(f *testing.F)  { fuzz(f, "q.xls") }

// fuzz checks that a reader never panics, and that the datasets it accepts satisfy all rules.
func fuzz(f *testing.F, name string) {
	seeds, _ := filepath.Glob(filepath.Join("testdata", "seeds", "*"+filepath.Ext(name)))
	for _, seed := range seeds {
		content, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add([]byte("question_id,question,standard_answer\nq1,\"a\"\"b\",c\r\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		set, err := dataset.Read(t.Context(), name, content, dataset.Layout{})
		if err != nil {
			var refused *dataset.Error
			if !errors.As(err, &refused) || refused.Code == "" || refused.Problem == "" {
				t.Fatalf("not a coded error: %v", err)
			}
			return
		}
		if len(set.Rows) == 0 || len(set.Rows) > dataset.MaxRows {
			t.Fatalf("%d rows", len(set.Rows))
		}
		ids := map[string]bool{}
		for _, row := range set.Rows {
			if strings.TrimSpace(row.Question) == "" || row.QuestionID == "" || ids[row.QuestionID] {
				t.Fatalf("row %+v", row)
			}
			ids[row.QuestionID] = true
		}
	})
}

// Cells of every kind are read as a sheet shows them, in both Excel formats.
func TestCellsOfEveryKind(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kinds.xls", "kinds.xlsx"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := readFile(t, filepath.Join("testdata", "seeds", name))
			require.NoError(t, err)
			require.Equal(t, []string{"question_id", "question", "standard_answer", "when", "n", "ok"}, set.Columns)
			require.Len(t, set.Rows, 3)
			require.Equal(t, "12345678901", set.Rows[0].QuestionID)
			require.Equal(t, "0.1", set.Rows[0].Variables[1])
			require.Equal(t, "TRUE", set.Rows[0].Variables[2])
			require.Equal(t, "两\n行", set.Rows[1].Variables[0])
			require.Equal(t, 5, set.Rows[2].Number, "the row's number is the sheet's, blank rows counted")
			require.Equal(t, "空行之后 😀 𠮷", set.Rows[2].Question)
			require.Equal(t, "-2.5", set.Rows[2].StandardAnswer)
			t.Logf("%+v", set.Rows)
		})
	}
}

// Shared strings continue across CONTINUE records, where the width of their characters may change.
func TestLongSharedStringsOfAnXLS(t *testing.T) {
	t.Parallel()
	set, err := readFile(t, filepath.Join("testdata", "seeds", "long.xls"))
	require.NoError(t, err)
	require.Len(t, set.Rows, 40)
	for n, row := range set.Rows {
		want := strings.Repeat(fmt.Sprintf("ascii %d ", n), 900)
		if n%2 == 1 {
			want = strings.Repeat(fmt.Sprintf("长问题%d ", n), 400)
		}
		require.Equal(t, want, row.Question, "row %d", n)
		require.Equal(t, strings.Repeat("é", 300), row.StandardAnswer, "row %d", n)
	}
}

// Other columns can be used as question and standard_answer; columns with those names then become variables.
func TestOtherColumnsTakeThePlaces(t *testing.T) {
	t.Parallel()
	content := []byte("question,Prompt,答案,level\nold,new,a,easy\n")
	set, err := dataset.Read(t.Context(), "q.csv", content, dataset.Layout{Question: " prompt ", Answer: "答案"})
	require.NoError(t, err)
	require.Equal(t, "new", set.Rows[0].Question)
	require.Equal(t, "a", set.Rows[0].StandardAnswer)
	require.Equal(t, []string{"question", "level"}, set.VariableNames)
	require.Equal(t, []string{"old", "easy"}, set.Rows[0].Variables)

	_, err = dataset.Read(t.Context(), "q.csv", content, dataset.Layout{Answer: "nothing"})
	refused := (*dataset.Error)(nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, dataset.CodeSchemaInvalid, refused.Code)
	require.Equal(t, []string{"question", "Prompt", "答案", "level"}, refused.Columns)
	_, err = dataset.Read(t.Context(), "q.csv", content, dataset.Layout{Question: "答案", Answer: "答案"})
	require.Error(t, err, "one column cannot have both places")

	require.Equal(t, dataset.Layout{Question: "question", Answer: "答案"}, dataset.Guess(refused.Columns))
	require.Equal(t, dataset.Layout{ID: "id", Question: "Query", Answer: "Expected_Output"}, dataset.Guess([]string{
		"id", "Expected_Output", "Query",
	}))
	require.Equal(t, dataset.Layout{}, dataset.Guess([]string{"x", "y"}))
}

// A file that Excel saved in China is read if its encoding is requested; a file in another encoding is refused.
func TestGB18030IsReadWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/formats/chinese_simpleqa_1000.gb18030.csv")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/formats/chinese_simpleqa_1000.utf8bom.csv")
	require.NoError(t, err)
	layout := dataset.Layout{Encoding: dataset.GB18030}
	_, err = dataset.Read(t.Context(), "q.csv", content, dataset.Layout{})
	requireCode(t, err, dataset.CodeEncodingInvalid)
	got, err := dataset.Read(t.Context(), "q.csv", content, layout)
	require.NoError(t, err)
	plain, err := dataset.Read(t.Context(), "q.csv", want, layout) // UTF-8 is still read as UTF-8
	require.NoError(t, err)
	require.Len(t, got.Rows, len(plain.Rows))
	for n, row := range got.Rows {
		require.Equal(t, []string{plain.Rows[n].Question, plain.Rows[n].StandardAnswer},
			[]string{row.Question, row.StandardAnswer})
	}
	for _, name := range []string{"bad/mixed_utf8_and_gbk.csv", "bad/utf16_no_bom.csv", "bad/invalid_utf8.csv"} {
		other, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		_, err = dataset.Read(t.Context(), "q.csv", other, layout)
		requireCode(t, err, dataset.CodeEncodingInvalid)
	}
}

// A file's ids may be in a column with a different name; naming a column that does not exist is an error.
func TestAnotherColumnHasTheIDs(t *testing.T) {
	t.Parallel()
	content := []byte("编号,题目,参考答案,question_id\nQ001,a,b,x\nQ002,c,d,y\n")
	layout := dataset.Guess([]string{"编号", "题目", "参考答案"})
	require.Equal(t, dataset.Layout{ID: "编号", Question: "题目", Answer: "参考答案"}, layout)
	set, err := dataset.Read(t.Context(), "q.csv", content, layout)
	require.NoError(t, err)
	require.True(t, set.HasIDs)
	require.Equal(t, []string{"Q001", "Q002"}, []string{set.Rows[0].QuestionID, set.Rows[1].QuestionID})
	require.Equal(t, []string{"question_id"}, set.VariableNames, "it is only a variable now")
	layout.ID = "题号"
	_, err = dataset.Read(t.Context(), "q.csv", content, layout)
	requireCode(t, err, dataset.CodeSchemaInvalid)
	layout.ID = "编号"
	_, err = dataset.Read(t.Context(), "q.csv", []byte("编号,题目,参考答案\nQ1,a,b\nQ1,c,d\n"), layout)
	requireCode(t, err, dataset.CodeDuplicateID)
}

func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	refused := (*dataset.Error)(nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, code, refused.Code)
}
