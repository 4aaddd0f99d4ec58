package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// A standard answer that a reviewer finds wrong is corrected in the dataset, as its next version; nothing else changes.
func TestAStandardAnswerIsCorrected(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	task, _ := s.judgedTask(t)
	dataset := s.entry(t, "GET", "datasets", nil, 200)["items"].([]any)[0].(object)["id"].(string)
	answers := "datasets/" + dataset + "/answers"
	require.EqualValues(t, 2, s.entry(t, "POST", answers, object{"question_id": "q2", "standard_answer": "两行\n\"答\"",
		"note": "旧法"}, 201)["version"])
	rowsOf := func(version string) []any {
		return s.entry(t, "GET", "datasets/"+dataset+"/versions/"+version+"/rows", nil, 200)["items"].([]any)
	}
	before, after := rowsOf("1"), rowsOf("2")
	require.Len(t, after, 6)
	for n := range after {
		was, is := before[n].(object), after[n].(object)
		want := was["standard_answer"]
		if was["question_id"] == "q2" {
			want = "两行\n\"答\""
		}
		require.Equal(t, []any{was["question_id"], was["question"], want},
			[]any{is["question_id"], is["question"], is["standard_answer"]})
	}
	require.Equal(t, "QUESTION_NOT_FOUND", s.entry(t, "POST", answers, object{"question_id": "q7",
		"standard_answer": "x"}, 404)["code"])
	s.entry(t, "POST", answers, object{"question_id": "q2", "standard_answer": " "}, 422)

	at := "/tasks/" + task + "/results/3/standard"
	review := s.as(t, "李雷", "/tasks/"+task+"/review/3").page(t)
	require.Equal(t, 1, review.Find("a[href='"+at+"']").Length())
	form := s.get(t, at).page(t).Find("form[action='" + at + "']")
	require.Equal(t, "a", form.Find("textarea").Text())
	refused := s.post(t, at, map[string]string{"standard_answer": ""})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.NotEmpty(t, strings.TrimSpace(refused.page(t).Find(".error").FilterFunction(
		func(_ int, one *goquery.Selection) bool { return one.Text() != "" }).First().Text()))
	saved := s.post(t, at, map[string]string{"standard_answer": "b"})
	require.Equal(t, http.StatusSeeOther, saved.StatusCode)
	require.Contains(t, saved.Header.Get("Location"), dataset)
	third := rowsOf("3")
	require.Equal(t, "b", third[2].(object)["standard_answer"])
	require.Equal(t, "两行\n\"答\"", third[1].(object)["standard_answer"], "of the newest version")

	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	upload := s.create(t, fake.URL, nil)
	require.Equal(t, http.StatusConflict, s.get(t, "/tasks/"+upload+"/results/1/standard").StatusCode)
}
