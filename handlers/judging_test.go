package handlers_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"
)

// workbook downloads a task's review workbook.
func (s *site) workbook(t *testing.T, id, query string) *excelize.File {
	t.Helper()
	answer := s.get(t, api+"/"+id+"/export?format=xlsx&review=1"+query)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", answer.body)
	book, err := excelize.OpenReader(bytes.NewReader(answer.body))
	require.NoError(t, err)
	return book
}

// judge writes verdicts, reasons and notes into rows of a workbook, and returns its content.
func judge(t *testing.T, book *excelize.File, rows map[int][3]string) string {
	t.Helper()
	sheet := book.GetSheetName(0)
	head, err := book.GetRows(sheet)
	require.NoError(t, err)
	for n, name := range head[0] {
		place := map[string]int{"结论": 0, "原因": 1, "备注": 2, "Verdict": 0, "Reasons": 1, "Note": 2}
		at, isOpen := place[name]
		if !isOpen {
			continue
		}
		for row, cells := range rows {
			cell, err := excelize.CoordinatesToCellName(n+1, row)
			require.NoError(t, err)
			require.NoError(t, book.SetCellStr(sheet, cell, cells[at]))
		}
	}
	content, err := book.WriteToBuffer()
	require.NoError(t, err)
	return content.String()
}

// takeBack imports a workbook with verdicts.
func (s *site) takeBack(t *testing.T, id, reviewer, content string, status int) object {
	t.Helper()
	return s.post(t, api+"/"+id+"/reviews/import", map[string]string{"reviewer": reviewer, "answers@评审.xlsx": content}).
		mustBe(t, status)
}

// verdictsOf returns the verdicts of a task by question and reviewer.
func (s *site) verdictsOf(t *testing.T, id string) map[string]string {
	t.Helper()
	found := map[string]string{}
	var list struct{ Items []toldReview }
	s.get(t, api+"/"+id+"/reviews").into(t, &list)
	for _, one := range list.Items {
		found[one.QuestionID+" "+one.Reviewer] = one.Verdict + " " + one.Note
	}
	return found
}

// Reviewers fill in a workbook, and its import does not overwrite what others wrote in the meantime.
func TestVerdictsGoToExcelAndBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	_, id := s.importAnswers(t, "logs.csv", longAnswers)
	book := s.workbook(t, id, "")
	sheet := book.GetSheetName(0)
	rows, err := book.GetRows(sheet)
	require.NoError(t, err)
	require.Len(t, rows, 4)
	require.Contains(t, rows[0], "结论")
	validations, err := book.GetDataValidations(sheet)
	require.NoError(t, err)
	require.Equal(t, `"通过,不通过,存疑"`, validations[0].Formula1)
	hidden := 0
	for n := range rows[0] {
		column, err := excelize.ColumnNumberToName(n + 1)
		require.NoError(t, err)
		if isVisible, err := book.GetColVisible(sheet, column); err == nil && !isVisible {
			hidden++
		}
	}
	require.Equal(t, 5, hidden)

	content := judge(t, book, map[int][3]string{2: {"不通过", "数字错", "30 日不对"}, 3: {"通过", "", ""}})
	done := s.takeBack(t, id, "李雷", content, 200)
	require.Equal(t, object{"changed": 2.0, "unchanged": 1.0, "conflicts": []any{}}, done)
	require.Equal(t, map[string]string{"q1 李雷": "FAIL 30 日不对", "q2 李雷": "PASS "}, s.verdictsOf(t, id))
	done = s.takeBack(t, id, "李雷", content, 200)
	require.Equal(t, 0.0, done["changed"], "the same workbook changes nothing")
	require.Equal(t, 3.0, done["unchanged"])

	// A verdict is changed on the site while the workbook is edited.
	english := s.workbook(t, id, "&reviewer=李雷")
	s.send(t, http.MethodPut, api+"/"+id+"/items/q1/review",
		object{"reviewer": "李雷", "verdict": "UNSURE", "note": "再看", "version": 1}).mustBe(t, 200)
	done = s.takeBack(t, id, "李雷", judge(t, english, map[int][3]string{
		2: {"Pass", "", ""}, 3: {"存疑", "漏答、格式", "x"}}), 200)
	require.Equal(t, 1.0, done["changed"])
	conflicts := done["conflicts"].([]any)
	require.Len(t, conflicts, 1)
	conflict := conflicts[0].(object)
	require.Equal(t, 2.0, conflict["row"])
	require.Equal(t, "q1", conflict["question_id"])
	require.Equal(t, "PASS", conflict["mine"].(object)["verdict"])
	require.Equal(t, "UNSURE", conflict["theirs"].(object)["verdict"])
	require.Equal(t, map[string]string{"q1 李雷": "UNSURE 再看", "q2 李雷": "UNSURE x"}, s.verdictsOf(t, id))

	// Verdicts imported for another reviewer do not change the first reviewer's.
	other := s.workbook(t, id, "&reviewer=韩梅梅")
	done = s.takeBack(t, id, "韩梅梅", judge(t, other, map[int][3]string{2: {"PASS", "", ""}}), 200)
	require.Equal(t, 1.0, done["changed"])
	require.Equal(t, "UNSURE 再看", s.verdictsOf(t, id)["q1 李雷"])

	wrong := s.takeBack(t, id, "李雷", judge(t, s.workbook(t, id, ""), map[int][3]string{
		2: {"好", "", ""}, 3: {"", "", "只有备注"}, 4: {"通过", "别的", ""}}), 422)
	require.Equal(t, "DATASET_ROW_INVALID", wrong["code"])
	require.Len(t, wrong["details"], 3)
	require.Equal(t, "DATASET_FORMAT_UNSUPPORTED", s.takeBack(t, id, "李雷", "question,verdict\n", 422)["code"])
	require.Equal(t, "PARAMETER_INVALID", s.takeBack(t, id, "", content, 422)["code"])
	page := s.post(t, "/tasks/"+id+"/review/workbook", map[string]string{"reviewer": "李雷", "answers@a.xlsx": content})
	require.Equal(t, http.StatusConflict, page.StatusCode)
	require.Contains(t, page.page(t).Find("#workbook").Text(), "再看")
	require.Equal(t, 422, s.post(t, "/tasks/"+id+"/review/workbook",
		map[string]string{"reviewer": "李雷", "answers@a.xlsx": "x"}).StatusCode)
	plain := s.get(t, api+"/"+id+"/export?format=xlsx")
	require.Equal(t, "DATASET_SCHEMA_INVALID", s.takeBack(t, id, "李雷", string(plain.body), 422)["code"])
	require.Equal(t, 422, s.get(t, api+"/"+id+"/export?format=csv&review=1").StatusCode)
}

// A review workbook that LibreOffice has opened and saved again can still be imported.
func TestAWorkbookSavedByLibreOfficeIsTakenBack(t *testing.T) {
	t.Parallel()
	office, err := exec.LookPath("soffice")
	if err != nil {
		t.Skip("LibreOffice is not installed")
	}
	s := newSite(t, false)
	_, id := s.importAnswers(t, "logs.csv", longAnswers)
	folder := t.TempDir()
	written := judge(t, s.workbook(t, id, ""), map[int][3]string{2: {"不通过", "数字错", "第一行\n第二行"}})
	before := filepath.Join(folder, "before.xlsx")
	require.NoError(t, os.WriteFile(before, []byte(written), 0o600))
	out := filepath.Join(folder, "out")
	command := exec.CommandContext(t.Context(), office, "-env:UserInstallation=file://"+filepath.Join(folder, "profile"),
		"--headless", "--convert-to", "xlsx:Calc MS Excel 2007 XML", "--outdir", out, before)
	said, err := command.CombinedOutput()
	require.NoError(t, err, "%s", said)
	saved, err := os.ReadFile(filepath.Join(out, "before.xlsx"))
	require.NoError(t, err)
	book, err := excelize.OpenReader(bytes.NewReader(saved))
	require.NoError(t, err)
	validations, err := book.GetDataValidations(book.GetSheetName(0))
	require.NoError(t, err)
	require.NotEmpty(t, validations)
	done := s.takeBack(t, id, "李雷", string(saved), 200)
	require.Equal(t, object{"changed": 1.0, "unchanged": 2.0, "conflicts": []any{}}, done)
	require.Equal(t, "FAIL 第一行\n第二行", s.verdictsOf(t, id)["q1 李雷"])
}
