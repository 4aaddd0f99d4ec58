package handlers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/db"
	"wending/jobs/agent/agenttest"
)

// send sends JSON.
func (s *site) send(t *testing.T, method, path string, body any) response {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequest(method, s.URL+path, bytes.NewReader(text))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	return s.do(t, request)
}

type toldReview struct {
	Code       string
	QuestionID string `json:"question_id"`
	Reviewer   string
	Verdict    string
	Reasons    []string
	Note       string
	RunIndex   *int `json:"run_index"`
	Version    int
	IsOutdated bool `json:"is_outdated"`
	Current    *toldReview
}

// Two reviewers never overwrite each other's verdict, and an outdated page does not overwrite the same reviewer's
// newer verdict.
func TestReviewsKeepWhatEverybodySaid(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, unsteady())
	settings := "/api/v1/projects/" + db.DefaultProject.String() + "/settings"
	const awkward = "a/b %2F 一?#"
	id := s.create(t, fake.URL, map[string]string{"concurrency": "1",
		"file@q.csv": "question_id,question,standard_answer\n" + awkward + ",中国的首都是哪里？,a\nq2,坏问题,a\n"})
	s.awaitDone(t, id)
	path := func(question string) string { return api + "/" + id + "/items/" + url.PathEscape(question) + "/review" }
	put := func(question string, body map[string]any) (status int, told toldReview) {
		answer := s.send(t, http.MethodPut, path(question), body)
		require.NoError(t, json.Unmarshal(answer.body, &told), "%s", answer.body)
		return answer.StatusCode, told
	}
	status, told := put(awkward, map[string]any{"reviewer": " 李雷 ", "verdict": "FAIL", "note": "引用了旧法条\n第二行",
		"version": 0})
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, toldReview{QuestionID: awkward, Reviewer: "李雷", Verdict: "FAIL", Reasons: []string{},
		Note: "引用了旧法条\n第二行", Version: 1}, told)
	status, told = put(awkward, map[string]any{"reviewer": "韩梅梅", "verdict": "PASS", "version": 0})
	require.Equal(t, http.StatusOK, status, "each has a review of her own")
	require.Equal(t, 1, told.Version)

	status, told = put(awkward, map[string]any{"reviewer": "李雷", "verdict": "PASS", "version": 0})
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "REVIEW_CONFLICT", told.Code)
	require.Equal(t, "FAIL", told.Current.Verdict, "the review as it is comes with the refusal")
	status, told = put(awkward, map[string]any{"reviewer": "李雷", "verdict": "PASS", "version": 1})
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 2, told.Version)

	require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, settings,
		map[string]any{"review_reasons": []string{" 语气不当 ", "number"}}).StatusCode)
	var kept struct {
		Points  float64 `json:"smallest_points"`
		Percent float64 `json:"smallest_percent"`
	}
	require.NoError(t, json.Unmarshal(s.get(t, settings).body, &kept))
	require.Equal(t, []float64{1, 5}, []float64{kept.Points, kept.Percent},
		"the smallest differences that matter, unless the project says otherwise")
	require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, settings,
		map[string]any{"review_reasons": []string{"语气不当"}, "smallest_points": 2.5, "smallest_percent": 0}).StatusCode)
	require.NoError(t, json.Unmarshal(s.get(t, settings).body, &kept))
	require.Equal(t, []float64{2.5, 0}, []float64{kept.Points, kept.Percent})
	require.Equal(t, http.StatusUnprocessableEntity,
		s.send(t, http.MethodPut, settings, map[string]any{"review_reasons": []string{}, "smallest_points": 101}).StatusCode)
	status, told = put("q2", map[string]any{"reviewer": "李雷", "verdict": "UNSURE", "run_index": 3, "version": 0,
		"reasons": []string{"citation", "语气不当", "citation"}})
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 3, *told.RunIndex)
	require.Equal(t, []string{"citation", "语气不当"}, told.Reasons, "each once")
	list := func(query string) (items []toldReview) {
		var told struct{ Items []toldReview }
		s.get(t, api+"/"+id+"/reviews"+query).into(t, &told)
		return told.Items
	}
	require.Len(t, list(""), 3)
	require.Len(t, list("?reviewer="+url.QueryEscape("李雷")), 2)
	require.Len(t, list("?verdict=PASS"), 2)
	var history int
	require.NoError(t, s.tables.Get(&history, `SELECT count(*) FROM reviews`))
	require.Equal(t, 4, history, "what was said before stays")

	// The third answer failed. When a retry replaces it, its review is outdated.
	require.Equal(t, http.StatusAccepted, s.post(t, api+"/"+id+"/retry", nil).StatusCode)
	s.awaitDone(t, id)
	for _, one := range list("") {
		require.Equal(t, one.QuestionID == "q2", one.IsOutdated, "%+v", one)
	}

	withdraw := func(query string) int {
		request, err := http.NewRequest(http.MethodDelete, s.URL+path(awkward)+"?reviewer="+url.QueryEscape("李雷")+query, nil)
		require.NoError(t, err)
		return s.do(t, request).StatusCode
	}
	require.Equal(t, http.StatusConflict, withdraw("&version=1"))
	require.Equal(t, http.StatusNoContent, withdraw("&version=2"))
	require.Equal(t, http.StatusNotFound, withdraw("&version=2"))
	require.Len(t, list(""), 2)
	status, told = put(awkward, map[string]any{"reviewer": "李雷", "verdict": "PASS", "version": 0})
	require.Equal(t, http.StatusConflict, status)
	require.Nil(t, told.Current)
	status, told = put(awkward, map[string]any{"reviewer": "李雷", "verdict": "PASS", "version": 2})
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 3, told.Version)

	for _, bad := range []struct {
		question string
		body     map[string]any
		status   int
		code     string
	}{
		{"q2", map[string]any{"reviewer": " ", "verdict": "PASS", "version": 0}, 422, "PARAMETER_INVALID"},
		{"q2", map[string]any{"verdict": "PASS", "version": 0}, 422, "PARAMETER_INVALID"},
		{"q2", map[string]any{"reviewer": "x", "verdict": "GOOD", "version": 0}, 422, "PARAMETER_INVALID"},
		{"q2", map[string]any{"reviewer": "x", "verdict": "PASS", "reasons": []string{"unheard of"}}, 422,
			"PARAMETER_INVALID"},
		{"q2", map[string]any{"reviewer": "x", "verdict": "PASS", "reasons": slices.Repeat([]string{"number"}, 11)}, 422,
			"PARAMETER_INVALID"},
		{"q2", map[string]any{"reviewer": "x", "verdict": "PASS", "run_index": 6, "version": 0}, 404, "RUN_NOT_FOUND"},
		{"q3", map[string]any{"reviewer": "x", "verdict": "PASS", "version": 0}, 404, "QUESTION_NOT_FOUND"},
	} {
		status, told := put(bad.question, bad.body)
		require.Equal(t, bad.status, status, "%+v", bad)
		require.Equal(t, bad.code, told.Code, "%+v", bad)
	}

	// A reason that the project has removed stays on the verdicts that have it, and can be sent again with them.
	require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, settings,
		map[string]any{"review_reasons": []string{}}).StatusCode)
	status, _ = put("q2", map[string]any{"reviewer": "韩梅梅", "verdict": "FAIL", "run_index": 3,
		"reasons": []string{"语气不当"}})
	require.Equal(t, http.StatusOK, status)
	for _, bad := range []any{[]string{""}, []string{"a\nb"}, []string{strings.Repeat("长", 41)},
		slices.Repeat([]string{"x"}, 11), "x"} {
		answer := s.send(t, http.MethodPut, settings, map[string]any{"review_reasons": bad})
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%v: %s", bad, answer.body)
	}

	// Reports contain the verdicts: as columns, as a sheet, and completely in JSONL.
	csv := string(s.get(t, api+"/"+id+"/export?format=csv").body)
	require.Contains(t, strings.SplitN(csv, "\r\n", 2)[0], ",_verdict,_verdict_note,_verdict_by")
	require.Contains(t, csv, ",PASS; PASS,,李雷; 韩梅梅\r\n")
	require.NotContains(t, csv, "UNSURE", "columns hold verdicts on questions only")
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx").body))
	require.NoError(t, err)
	defer book.Close()
	rows, err := book.GetRows("评审")
	require.NoError(t, err)
	require.Len(t, rows, 5)
	require.Equal(t, []string{"1", awkward, "", "李雷", "PASS"}, rows[1][:5])
	require.Equal(t, []string{"2", "q2", "3", "李雷", "UNSURE", "引用错、语气不当", "", "true"}, rows[3][:8])
	require.Contains(t, string(s.get(t, api+"/"+id+"/export?format=jsonl").body),
		`"reviews":[{"variant":1,"run_index":3,"reviewer":"李雷","verdict":"UNSURE","reasons":["citation","语气不当"]`)

	// A sign-off counts the verdicts on questions, and shows whether any changed afterwards.
	signed := s.send(t, http.MethodPost, api+"/"+id+"/sign-off", map[string]any{"reviewer": "李雷", "note": "可以上线"})
	require.Equal(t, http.StatusCreated, signed.StatusCode, "%s", signed.body)
	type signOff struct {
		Reviewer, Note         string
		Passed, Failed, Unsure int
		IsChanged              bool      `json:"is_changed"`
		CreatedAt              time.Time `json:"created_at"`
	}
	signOffs := func() []signOff {
		var told struct{ Items []signOff }
		s.get(t, api+"/"+id+"/sign-offs").into(t, &told)
		return told.Items
	}
	before := signOffs()
	require.Len(t, before, 1)
	require.Equal(t, []int{2, 0, 0}, []int{before[0].Passed, before[0].Failed, before[0].Unsure})
	require.Equal(t, "可以上线", before[0].Note)
	require.False(t, before[0].IsChanged)
	put("q2", map[string]any{"reviewer": "韩梅梅", "verdict": "FAIL", "version": 0})
	require.True(t, signOffs()[0].IsChanged)

	require.Equal(t, http.StatusNoContent, s.delete(t, id).StatusCode)
	require.NoError(t, s.tables.Get(&history, `SELECT (SELECT count(*) FROM reviews) + (SELECT count(*) FROM sign_offs)`))
	require.Zero(t, history)
}

// A report with open questions is signed off only after confirmation, and the sign-off shows how many there were.
func TestASignOffTellsHowManyQuestionsWereOpen(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	id := s.create(t, fake.URL,
		map[string]string{"file@q.csv": "question_id,question,standard_answer\nq1,一,\nq2,二,\nq3,三,\n"})
	s.awaitDone(t, id)
	base := "/tasks/" + id + "/sign-off"
	judge := func(question string) {
		answer := s.send(t, http.MethodPut, api+"/"+id+"/items/"+question+"/review",
			map[string]any{"reviewer": "李雷", "verdict": "PASS"})
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s", answer.body)
	}
	judge("q1")
	require.Contains(t, s.get(t, "/tasks/"+id+"/review").page(t).Find(".unfinished").Text(), "还有 2 题没有结论")
	refused := s.post(t, base, map[string]string{"reviewer": "李雷", "note": "可以上线"})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Contains(t, refused.page(t).Find(".sign + .error").Text(), "还有 2 题没有结论")
	require.Equal(t, "可以上线", refused.page(t).Find("[name=note]").Text(), "what was typed stays")
	require.Equal(t, http.StatusSeeOther, s.post(t, base,
		map[string]string{"reviewer": "李雷", "unfinished": "true"}).StatusCode)
	require.Contains(t, s.get(t, "/tasks/"+id+"/review").page(t).Find(".said-list").Text(), "通过 1 · 不通过 0 · 存疑 0 · 待评 2")
	judge("q2")
	judge("q3")
	require.Zero(t, s.get(t, "/tasks/"+id+"/review").page(t).Find(".unfinished").Length())
	require.Equal(t, http.StatusCreated, s.send(t, http.MethodPost, api+"/"+id+"/sign-off",
		map[string]any{"reviewer": "李雷"}).StatusCode)
	var told struct {
		Items []struct {
			Open *int `json:"open_questions"`
		}
	}
	s.get(t, api+"/"+id+"/sign-offs").into(t, &told)
	require.Len(t, told.Items, 2)
	require.Equal(t, []int{0, 2}, []int{*told.Items[0].Open, *told.Items[1].Open}, "newest first")
	printed := s.get(t, "/tasks/"+id+"/results/print").page(t)
	require.Contains(t, printed.Find(".cover").Text(), "待评 2")
}

// Questions whose answers have the same content are passed together, except those with a reason against it. These
// verdicts can be withdrawn in one step, except those that have changed since.
func TestQuestionsWithTheSameContentArePassedAndUndoneAsOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, answering(map[string][]string{
		"同": {"可以，期限为 30 日。"}, "已评": {"可以"}, "败": {"可以", "", "可以"}, "反": {"期限为 35 日。"}, "异": {"可以", "不可以"}, "也同": {"好"},
		"再同": {"行"},
	}))
	id := s.create(t, fake.URL,
		map[string]string{"file@q.csv": "question_id,question,standard_answer\nq1,同,期限为 30 日。\nq2,已评,\nq3,败,\nq4,反,期限为 30 " +
			"日。\nq5,异,\nq6,也同,\nq7,再同,\n"})
	s.awaitDone(t, id)
	judge := func(question string, version int) {
		told := s.send(t, http.MethodPut, api+"/"+id+"/items/"+question+"/review",
			map[string]any{"reviewer": "李雷", "verdict": "FAIL", "version": version})
		require.Equal(t, http.StatusOK, told.StatusCode, "%s", told.body)
	}
	judge("q2", 0)
	same := "/tasks/" + id + "/review/same"
	page := s.as(t, "李雷", same).page(t)
	var offered []string
	page.Find("[name=numbers]").Each(func(_ int, box *goquery.Selection) {
		offered = append(offered, box.AttrOr("value", ""))
	})
	require.Equal(t, []string{"1", "6", "7"}, offered)
	require.Contains(t, page.Find(".lead").Text(), "其中 3 题可以一次通过 · 已评 1 题")
	require.Contains(t, page.Find(".lead").Text(), "与标准答案不符 1")
	require.Contains(t, s.as(t, "李雷", "/tasks/"+id+"/review/5").page(t).Find(".report-bar").Text(), "把 3 道内容相同的题全部通过")

	verdicts := func() string {
		var told struct{ Items []toldReview }
		s.get(t, api+"/"+id+"/reviews").into(t, &told)
		var all []string
		for _, one := range told.Items {
			all = append(all, one.QuestionID+" "+one.Verdict)
		}
		return strings.Join(all, ", ")
	}
	refused := s.post(t, same, map[string]string{"numbers": "1", "reviewer": " "})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Equal(t, 1, refused.page(t).Find("[name=numbers][checked]").Length(), "what was ticked stays")
	// 4 contradicts the standard answer, and 2 is judged: they are not passed although they are sent. 7 was unticked.
	require.Equal(t, http.StatusSeeOther, s.post(t, same,
		map[string]string{"numbers": "1,2,4,6", "reviewer": "李雷"}).StatusCode)
	require.Equal(t, "q1 PASS, q2 FAIL, q6 PASS", verdicts())
	judge("q6", 1)

	form := s.as(t, "李雷", same).page(t).Find(".batch")
	require.Contains(t, form.Text(), "李雷 一次通过了 1 题", "what still stands of it")
	batch := form.Find("[name=batch]").AttrOr("value", "")
	require.Equal(t, http.StatusNotFound, s.post(t, same+"/undo",
		map[string]string{"batch": batch, "reviewer": "韩梅梅"}).StatusCode, "another's")
	require.Equal(t, http.StatusSeeOther, s.post(t, same+"/undo",
		map[string]string{"batch": batch, "reviewer": "李雷"}).StatusCode)
	require.Equal(t, "q2 FAIL, q6 FAIL", verdicts())
	require.Equal(t, http.StatusNotFound, s.post(t, same+"/undo",
		map[string]string{"batch": batch, "reviewer": "李雷"}).StatusCode, "undone already")
	require.Equal(t, http.StatusSeeOther, s.post(t, same, map[string]string{"numbers": "1", "reviewer": "李雷"}).StatusCode,
		"and passed again")
	require.Equal(t, "q1 PASS, q2 FAIL, q6 FAIL", verdicts())
}

// The administrators of a project write its own reasons on its page, one per line; reviewers find them next to the
// common ones.
func TestAProjectHasReasonsOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	page := "/projects/" + db.DefaultProject.String()
	refused := s.post(t, page+"/settings", map[string]string{"review_reasons": "语气不当\n" + strings.Repeat("长", 41)})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Contains(t, refused.page(t).Find("[name=review_reasons]").Text(), "语气不当", "nothing typed is lost")
	require.Equal(t, http.StatusSeeOther, s.post(t, page+"/settings",
		map[string]string{"review_reasons": "语气不当\n\n  <b>过时</b> \n语气不当"}).StatusCode)
	require.Equal(t, "语气不当\n<b>过时</b>", s.get(t, page).page(t).Find("[name=review_reasons]").Text())
	var told struct {
		Own []string `json:"review_reasons"`
	}
	s.get(t, "/api/v1"+page+"/settings").into(t, &told)
	require.Equal(t, []string{"语气不当", "<b>过时</b>"}, told.Own)

	id := fourQuestions(t, s)
	chips := s.get(t, "/tasks/"+id+"/review/3").page(t).Find("[data-reason]")
	require.Equal(t, 7, chips.Length())
	require.Equal(t, "<b>过时</b>", chips.Last().AttrOr("data-reason", ""))
	require.Equal(t, "true", chips.First().AttrOr("aria-pressed", ""), "numbers contradict each other")
	require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, api+"/"+id+"/items/q3/review",
		map[string]any{"reviewer": "李雷", "verdict": "FAIL", "reasons": []string{"number", "<b>过时</b>"}}).StatusCode)
	require.Contains(t, s.get(t, "/tasks/"+id+"/review").page(t).Find(".summary").Text(), "数字错 1")
	require.Equal(t, "3", shownNumbers(s.get(t, "/tasks/"+id+"/results?reason="+url.QueryEscape("<b>过时</b>")).page(t)))
	next := s.as(t, "李雷", "/tasks/"+id+"/review/next").Header.Get("Location")
	require.Equal(t, "“关键信息不同”的 1 题已全部评完，接下来是“内容相同”的 3 题", s.as(t, "李雷", next).page(t).Find(".stage-done").Text())
	require.Zero(t, s.as(t, "李雷", "/tasks/"+id+"/review/3").page(t).Find(".stage-done").Length(), "the first stage")
	unfinished := s.get(t, "/tasks/"+id+"/review").page(t).Find(".unfinished").Text()
	require.Contains(t, unfinished, "还有 3 题没有结论")
	require.Contains(t, unfinished, "内容相同", "they are named, level by level")
}
