package handlers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/db"
	"wending/jobs/agent/agenttest"
)

// The administrators of a project say what its reviewers rate besides giving a verdict. Ratings are stored with the
// verdicts, kept by whoever does not mention them, summarised, and exported.
func TestAProjectHasARubric(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	project := "/projects/" + db.DefaultProject.String()
	settings := "/api/v1" + project + "/settings"
	refused := s.post(t, project+"/settings", map[string]string{"review_dimensions": "语气：得体 | 生硬\n准确性"})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Contains(t, refused.page(t).Find("[name=review_dimensions]").Text(), "语气：得体 | 生硬\n准确性",
		"nothing typed is lost")
	require.Contains(t, string(refused.body), "每行写成“名称：选项 | 选项”")
	require.Equal(t, http.StatusSeeOther, s.post(t, project+"/settings", map[string]string{
		"review_dimensions": "语气：得体 | <b>生硬</b>\n\n准确性: 0-5", "review_instructions": " 先看<i>数字</i>。\n再看语气。 "}).StatusCode)
	var told struct {
		Instructions string           `json:"review_instructions"`
		Dimensions   []map[string]any `json:"review_dimensions"`
	}
	s.get(t, settings).into(t, &told)
	require.Equal(t, "先看<i>数字</i>。\n再看语气。", told.Instructions)
	require.Equal(t, []map[string]any{{"name": "语气", "choices": []any{"得体", "<b>生硬</b>"}},
		{"name": "准确性", "min": 0.0, "max": 5.0}}, told.Dimensions)
	require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, settings,
		map[string]any{"review_reasons": []string{}}).StatusCode)
	s.get(t, settings).into(t, &told)
	require.Len(t, told.Dimensions, 2, "what is not mentioned stays")
	for _, bad := range []any{[]any{map[string]any{"name": "a"}},
		[]any{map[string]any{"name": "a", "choices": []string{"x", "x"}}},
		[]any{map[string]any{"name": "a", "min": 5, "max": 1}}, "a: 1-5"} {
		answer := s.send(t, http.MethodPut, settings, map[string]any{"review_reasons": []string{}, "review_dimensions": bad})
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%v: %s", bad, answer.body)
	}
	require.Equal(t, http.StatusUnprocessableEntity, s.send(t, http.MethodPut, settings,
		map[string]any{"review_reasons": []string{}, "review_instructions": strings.Repeat("长", 4001)}).StatusCode)

	id := s.create(t, agenttest.New(t, unsteady()).URL, nil)
	s.awaitDone(t, id)
	page := s.get(t, "/tasks/"+id+"/review/1").page(t)
	require.Equal(t, "先看<i>数字</i>。\n再看语气。", page.Find(".judging-instructions p").Text())
	require.Equal(t, 2, page.Find(".rubric [data-dimension]").Length())
	require.Equal(t, "得体<b>生硬</b>012345", page.Find(".rubric [data-rating]").Text())

	put := func(body map[string]any) (ratings map[string]any, answer response) {
		answer = s.send(t, http.MethodPut, api+"/"+id+"/items/q1/review", body)
		var told struct{ Ratings map[string]any }
		require.NoError(t, json.Unmarshal(answer.body, &told))
		return told.Ratings, answer
	}
	rated := map[string]any{"语气": "得体", "准确性": 4.0}
	ratings, _ := put(map[string]any{"reviewer": "李雷", "verdict": "PASS", "ratings": rated})
	require.Equal(t, rated, ratings)
	ratings, _ = put(map[string]any{"reviewer": "李雷", "verdict": "FAIL", "version": 1})
	require.Equal(t, rated, ratings, "a verdict without ratings leaves them as they are")
	ratings, _ = put(map[string]any{"reviewer": "韩梅梅", "verdict": "FAIL", "ratings": map[string]any{"准确性": 2}})
	require.Equal(t, map[string]any{"准确性": 2.0}, ratings)
	for _, bad := range []map[string]any{{"语气": "好"}, {"准确性": 6}, {"准确性": 2.5}, {"准确性": "4"}, {"语气": 1}, {"礼貌": "得体"}} {
		_, answer := put(map[string]any{"reviewer": "李雷", "verdict": "PASS", "version": 2, "ratings": bad})
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%v: %s", bad, answer.body)
	}

	var numbers struct {
		Ratings []struct {
			Dimension string
			N, Units  int
			Mean      *float64
			Alpha     *float64
		}
	}
	s.get(t, api+"/"+id+"/statistics").into(t, &numbers)
	require.Len(t, numbers.Ratings, 2)
	require.Equal(t, "语气", numbers.Ratings[0].Dimension)
	require.Equal(t, 1, numbers.Ratings[0].N)
	require.Nil(t, numbers.Ratings[0].Mean)
	require.InDelta(t, 3, *numbers.Ratings[1].Mean, 1e-9)
	require.Equal(t, 1, numbers.Ratings[1].Units)
	summary := s.get(t, "/tasks/"+id+"/review").page(t).Find(".rated tbody").Text()
	require.Contains(t, summary, "2 ×1 · 4 ×1")
	require.Contains(t, s.get(t, "/tasks/"+id+"/results").page(t).Find(".said-reasons").Text(), "准确性 4 · 语气 得体")

	// Ratings stay when their dimension is removed; they are exported as numbers and as text.
	require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, settings,
		map[string]any{"review_reasons": []string{}, "review_dimensions": []any{}}).StatusCode)
	_, answer := put(map[string]any{"reviewer": "李雷", "verdict": "PASS", "version": 2, "ratings": rated})
	require.Contains(t, string(answer.body), "空间没有打分项")
	require.Contains(t, string(s.get(t, api+"/"+id+"/export?format=jsonl").body), `"ratings":{"准确性":4,"语气":"得体"}`)
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx").body))
	require.NoError(t, err)
	defer book.Close()
	rows, err := book.GetRows("评审")
	require.NoError(t, err)
	require.Equal(t, []string{"rating_准确性", "rating_语气"}, rows[0][len(rows[0])-2:])
	var cells []string
	for _, row := range rows[1:] {
		cells = append(cells, strings.Join(row[min(len(row), len(rows[0])-2):], " "))
	}
	require.ElementsMatch(t, []string{"4 得体", "2"}, cells)
	kind, err := book.GetCellType("评审", "M2")
	require.NoError(t, err)
	require.Equal(t, excelize.CellTypeUnset, kind, "a number")
}
