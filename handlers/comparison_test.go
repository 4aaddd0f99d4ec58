package handlers_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/jobs/agent/agenttest"
)

type toldComparison struct {
	Items []struct {
		QuestionID string `json:"question_id"`
		Transition string
		A, B       struct {
			Number     int
			QuestionID string `json:"question_id"`
			Level      string
			Agreement  *float64
			Letters    string
		}
	}
	Transitions map[string]int
	Unknown     int
	OnlyA       []string `json:"only_a"`
	OnlyB       []string `json:"only_b"`
	Differences map[string]struct {
		N          int
		LeftOut    int `json:"left_out"`
		Difference *float64
		SE         *float64
		Interval   []float64
		P          *float64
	}
}

// answering returns a handler that cycles through the answers to each question; for an empty answer, the call fails.
func answering(answers map[string][]string) func(http.ResponseWriter, agenttest.Call) {
	var mu sync.Mutex
	given := map[string]int{}
	return func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		defer mu.Unlock()
		list := answers[call.Question]
		text := list[given[call.Question]%len(list)]
		if given[call.Question]++; text == "" {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		agenttest.Stream(w, text)
	}
}

// Two versions of an agent: which questions became stable and which did not, with the most common answers side by
// side.
func TestTwoTasksAreCompared(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	first := agenttest.New(t, answering(map[string][]string{"一": {"北京"}, "二": {"甲", "乙"}, "三": {"约定的违约金为三十"}, "四": {""},
		"旧": {"x"}}))
	second := agenttest.New(t, answering(map[string][]string{"一": {"北京", "上海"}, "二": {"甲"}, "三": {"约定的违约金为五十<b>"},
		"四": {"有了"}, "新": {"y"}}))
	one := map[string]string{"concurrency": "1", "task_name": "V1"}
	a := s.create(t, first.URL, with(one, "file@q.csv",
		"question_id,question,standard_answer\nq1,一,a\nq2,二,a\nq3,三,a\nq4,四,a\nold,旧,a\n"))
	s.awaitDone(t, a)
	b := s.create(t, second.URL, with(with(one, "task_name", "V2"), "file@q.csv",
		"question_id,question,standard_answer\nq1,一,a\nq2,二,a\nother,三,a\nq4,四,a\nnew,新,a\n"))
	s.awaitDone(t, b)

	var told toldComparison
	require.NoError(t, json.Unmarshal(s.get(t, "/api/v1/comparison?a="+a+"&b="+b+":1").body, &told))
	require.Equal(t, map[string]int{"stable_stable": 1, "stable_unstable": 1, "unstable_stable": 1,
		"unstable_unstable": 0}, told.Transitions)
	require.Equal(t, 1, told.Unknown, "the first task has no answer to q4")
	require.Equal(t, []string{"old"}, told.OnlyA)
	require.Equal(t, []string{"new"}, told.OnlyB)
	require.Len(t, told.Items, 4)
	require.Equal(t, []string{"stable_unstable", "unstable_stable", "stable_stable", "unknown"},
		[]string{told.Items[0].Transition, told.Items[1].Transition, told.Items[2].Transition, told.Items[3].Transition})
	require.Equal(t, "other", told.Items[2].B.QuestionID, "found by its text")
	require.Equal(t, "ABABA", told.Items[0].B.Letters)
	require.Equal(t, "different", told.Items[0].B.Level)
	agreement := told.Differences["agreement"]
	require.Equal(t, 4, agreement.N)
	require.InDelta(t, (-0.6+0.6+0+1)/4, *agreement.Difference, 1e-9, "0.4 for three and two of five; all failed is 0")
	require.Len(t, agreement.Interval, 2)
	require.Equal(t, 3, told.Differences["latency_ms"].N)
	require.Equal(t, 1, told.Differences["latency_ms"].LeftOut)
	require.Equal(t, 4, told.Differences["score"].LeftOut)
	require.Nil(t, told.Differences["pass_share"].Difference)

	path := "/comparison?a=" + a + "&b=" + b
	page := s.get(t, path).page(t)
	require.Equal(t, 4, page.Find("article").Length())
	require.Contains(t, page.Find(".changes").Text(), "一致率的差距可能只是偶然波动")
	changed := page.Find("article").Eq(1)
	require.Equal(t, "三十", changed.Find("del.fact").Text())
	require.Equal(t, "五十", changed.Find("ins.fact").First().Text())
	require.Contains(t, changed.Find(".answers").Text(), "五十<b>", "an answer's markup stays text")
	require.Contains(t, page.Find("article").Eq(2).Text(), "比以前稳定")
	require.Contains(t, page.Find("article").Eq(3).Text(), "多数运行现在有回答")
	require.Contains(t, page.Find("article").Eq(3).Text(), "甲没有回答")

	page = s.get(t, path+"&show=unstable_stable").page(t)
	require.Equal(t, 1, page.Find("article").Length())
	require.Contains(t, page.Find("article").Text(), "二")
	page = s.get(t, path+"&show=only_b").page(t)
	require.Equal(t, 1, page.Find("article").Length())
	require.Contains(t, page.Find("article").Text(), "新")
	require.Equal(t, http.StatusSeeOther, s.get(t, path+"&show=nothing").StatusCode)

	// If two tasks are ticked in the list, the older one comes first.
	answer := s.get(t, "/comparison?task="+b+"&task="+a)
	require.Equal(t, path, answer.Header.Get("Location"))
	require.Equal(t, http.StatusSeeOther, s.get(t, "/comparison?task="+b+"&task="+a+"&task="+a).StatusCode)
	require.Equal(t, 1, s.get(t, "/comparison").page(t).Find(`tbody a[href="/comparison?a=`+a+`"]`).Length(),
		"without any task the first one is chosen")
	require.Equal(t, "/comparison?a="+a, s.get(t, "/comparison?task="+a).Header.Get("Location"))

	// A task offers the other tasks for comparison.
	page = s.get(t, "/comparison?a="+a).page(t)
	require.Equal(t, 1, page.Find(".choices a").Length())
	chosen := s.get(t, page.Find(".choices a").AttrOr("href", ""))
	require.Equal(t, path, chosen.Header.Get("Location"))
	require.Contains(t, s.get(t, "/comparison?a="+a+"&query=nobody").page(t).Text(), "没有可对比的任务")

	for _, test := range []struct {
		path, code string
		status     int
	}{
		{"?a=" + a, "PARAMETER_INVALID", http.StatusUnprocessableEntity},
		{"?a=" + a + "&b=" + strings.Repeat("0", 8), "TASK_NOT_FOUND", http.StatusNotFound},
		{"?a=" + a + "&b=" + b + ":2", "NOT_FOUND", http.StatusNotFound},
		{"?a=" + a + "&b=" + s.create(t, first.URL, map[string]string{"start": "false"}), "TASK_NOT_FINISHED",
			http.StatusConflict},
	} {
		answer := s.get(t, "/api/v1/comparison"+test.path)
		require.Equal(t, test.status, answer.StatusCode, test.path)
		var failure struct{ Code string }
		require.NoError(t, json.Unmarshal(answer.body, &failure))
		require.Equal(t, test.code, failure.Code, test.path)
	}
}

func with(fields map[string]string, name, value string) map[string]string {
	added := map[string]string{name: value}
	for name, value := range fields {
		if _, isSet := added[name]; !isSet {
			added[name] = value
		}
	}
	return added
}

// Answers are compared in full, even if the page shows only their beginnings.
func TestLongAnswersAreComparedAsAWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	long := strings.Repeat("长", 20_001)
	var ids []string
	for _, end := range []string{"甲", "乙"} {
		fake := agenttest.New(t, answering(map[string][]string{"一": {long + end}}))
		id := s.create(t, fake.URL, map[string]string{"runs_per_item": "2",
			"file@q.csv": "question_id,question,standard_answer\nq1,一,a\n"})
		s.awaitDone(t, id)
		ids = append(ids, id)
	}
	page := s.get(t, "/comparison?a="+ids[0]+"&b="+ids[1]).page(t)
	require.NotContains(t, page.Find(".segments").Text(), "主要回答相同")
	require.Contains(t, page.Find("article").Text(), "差异在后面")
	require.Equal(t, 2, page.Find("article .answers a[href*=runs]").Length(), "the whole of both can be read")
	page = s.get(t, "/comparison?a="+ids[0]+"&b="+ids[0]+"&question=1").page(t)
	require.Contains(t, page.Find("article").Text(), "两边最常见的回答相同")
}

// toldPairs are a comparison's questions as the API returns them, with their groups.
type toldPairs struct {
	Items []struct {
		QuestionID  string `json:"question_id"`
		Group       string
		Worse       []string
		Better      []string
		Level       *string
		FactsDiffer *string `json:"facts_differ"`
		Facts       []struct {
			Label  string
			Values []struct {
				Side, Text string
				Runs       []int
			}
			Missing []int
		}
	}
	Groups map[string]int
}

func (told toldPairs) ids() (ids []string) {
	for _, item := range told.Items {
		ids = append(ids, item.QuestionID+" "+item.Group)
	}
	return ids
}

// twoVersions creates two tasks with the same questions, whose answers changed in every way.
func twoVersions(t *testing.T, s *site) (a, b string) {
	t.Helper()
	long := "## 答复\n\n申请人可以查询进度。\n\n应当在 30 日内书面答复申请人。\n\n以上供参考。"
	first := agenttest.New(t, answering(map[string][]string{
		"同": {"可以，期限为 30 日。"}, "式": {"可以，期限为 30 日。"}, "数": {long}, "话": {"收到申请后，应当在 30 日内书面答复申请人，并说明理由。"},
		"全": {"可以，期限为 30 日。"}, "败": {"可以"}, "稳": {"可以"}, "皆": {"可以", "不可以"}, "空": {""},
	}))
	second := agenttest.New(t, answering(map[string][]string{
		"同": {"可以，期限为 30 日。"}, "式": {"**可以**，期限为 30 日。"}, "数": {strings.ReplaceAll(long, "30 日", "35 日")},
		"话": {"收到申请之后，应当在 30 日内书面答复申请人，并且说明理由。"}, "全": {"请联系人工客服。"}, "败": {""}, "稳": {"可以", "请联系人工客服。"},
		"皆": {"可以", "不可以"}, "空": {""},
	}))
	file := "question_id,question,standard_answer\nq1,同,\nq2,式,\nq3,数,=SUM(A1)\nq4,话,\nq5,全,\nq6,败,\nq7,稳,\nq8,皆,\nq9,空,\n"
	for n, fake := range []*agenttest.Agent{first, second} {
		id := s.create(t, fake.URL, map[string]string{"concurrency": "1", "task_name": "V" + string(rune('1'+n)),
			"file@q.csv": file})
		s.awaitDone(t, id)
		a, b = b, id
	}
	return a, b
}

// Questions that became worse or whose facts changed come first, and those that kept their content last, each group
// with its count; the API agrees.
func TestWhatBecameWorseComesFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	a, b := twoVersions(t, s)
	path := "/comparison?a=" + a + "&b=" + b
	want := []string{"q6 worse", "q7 worse", "q3 facts", "q5 content", "q4 wording", "q9 unanswered", "q2 format_only",
		"q1 identical", "q8 identical"}

	var told toldPairs
	s.get(t, "/api/v1"+path+"&sort=risk").into(t, &told)
	require.Equal(t, want, told.ids())
	require.Equal(t, map[string]int{"worse": 2, "facts": 1, "content": 1, "better": 0, "wording": 1, "unanswered": 1,
		"format_only": 1, "identical": 2}, told.Groups)
	var back toldPairs
	s.get(t, "/api/v1/comparison?a="+b+"&b="+a+"&group=better").into(t, &back)
	require.Equal(t, []string{"q6 better", "q7 better"}, back.ids(), "the other way round")
	require.Equal(t, [][]string{{"failed"}, {"stability"}}, [][]string{back.Items[0].Better, back.Items[1].Better})
	require.Equal(t, []string{"failed"}, told.Items[0].Worse)
	require.Nil(t, told.Items[0].FactsDiffer)
	require.Equal(t, []string{"stability"}, told.Items[1].Worse)
	fact := told.Items[2].Facts[0]
	require.Equal(t, "conflict", *told.Items[2].FactsDiffer)
	require.Equal(t, []string{"a 30 日", "b 35 日"},
		[]string{fact.Values[0].Side + " " + fact.Values[0].Text, fact.Values[1].Side + " " + fact.Values[1].Text})
	require.Equal(t, []int{1, 2, 3, 4, 5}, fact.Values[1].Runs, "those that gave the answer")
	s.get(t, "/api/v1"+path+"&group=facts&group=wording").into(t, &told)
	require.Equal(t, []string{"q3 facts", "q4 wording"}, told.ids(), "in the order of the first task")
	s.get(t, "/api/v1"+path+"&facts=conflict").into(t, &told)
	require.Equal(t, []string{"q3 facts"}, told.ids())
	require.Equal(t, http.StatusUnprocessableEntity, s.get(t, "/api/v1"+path+"&group=nothing").StatusCode)

	page := s.get(t, path).page(t)
	var shown []string
	page.Find("article").Each(func(_ int, card *goquery.Selection) {
		shown = append(shown, card.AttrOr("data-question-id", ""))
	})
	require.Equal(t, "q6 q7 q3 q5 q4 q9 q2 q1 q8", strings.Join(shown, " "))
	require.Equal(t, 7, page.Find(".group-head").Length())
	require.Contains(t, page.Find(".segments").Text(), "关键信息改变（1）")
	changed := page.Find("[data-question-id=q3]")
	require.Regexp(t, `30 日\s*→ 35 日`, strings.Join(strings.Fields(changed.Find(".stated").Text()), " "))
	require.Equal(t, "30 日", changed.Find(".pair-side del.fact").Text())
	require.Contains(t, changed.Find(".unit-fold > summary").First().Text(), "2 段相同")
	require.NotContains(t, changed.Find(".reading").Text(), "查询进度", "what is folded comes when it is opened")
	require.Contains(t, page.Find("[data-question-id=q6]").Text(), "乙没有回答")
	require.Contains(t, page.Find("[data-question-id=q6]").Text(), "HTTP_502")
	require.Zero(t, page.Find("[data-question-id=q2] .answers").Length(), "a line is enough")
	require.Equal(t, 1, s.get(t, path+"&show=facts").page(t).Find("article").Length())

	// Folded questions are loaded on demand or, without scripts, shown on their own page.
	fold := changed.Find("summary[hx-get]").First().AttrOr("hx-get", "")
	require.Contains(t, string(s.fragment(t, fold).body), "查询进度")
	require.Contains(t, s.get(t, fold).page(t).Find("article").Text(), "35 日")
	line := page.Find("[data-question-id=q2] summary[hx-get]").AttrOr("hx-get", "")
	require.Contains(t, string(s.fragment(t, line).body), "期限为 30 日")
	require.Contains(t, s.get(t, path+"&question=3").page(t).Find("article").Text(), "查询进度")
	for _, number := range []string{"10", "x", "-1"} {
		require.Equal(t, http.StatusNotFound, s.get(t, path+"&question="+number).StatusCode, number)
	}

	// Compared with itself, a task has not changed; in the opposite direction, losses become gains.
	s.get(t, "/api/v1/comparison?a="+a+"&b="+a).into(t, &told)
	require.Equal(t, 8, told.Groups["identical"])
	s.get(t, "/api/v1/comparison?a="+b+"&b="+a+"&sort=risk").into(t, &told)
	require.Zero(t, told.Groups["worse"])
	require.Equal(t, "35 日", told.Items[0].Facts[0].Values[0].Text)
}

// The results of a comparison are stored as long as the compared answers stay the same.
func TestAComparisonFollowsItsAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	answer := "应当在 30 日内书面答复申请人。"
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "败" {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		agenttest.Stream(w, answer)
	})
	file := map[string]string{"runs_per_item": "1", "file@q.csv": "question_id,question,standard_answer\nq1,一,\nq2,败,\n"}
	a := s.create(t, fake.URL, file)
	s.awaitDone(t, a)
	answer = "应当在 35 日内书面答复申请人。"
	b := s.create(t, fake.URL, file)
	s.awaitDone(t, b)
	var told toldPairs
	for range 2 { // the first request computes the comparison, the second reads the stored one
		s.get(t, "/api/v1/comparison?a="+a+"&b="+b).into(t, &told)
		require.Equal(t, []string{"q1 facts", "q2 unanswered"}, told.ids())
		require.Equal(t, "35 日", told.Items[0].Facts[0].Values[1].Text)
	}
	require.Equal(t, http.StatusNoContent, s.delete(t, a).StatusCode, "what was compared does not hold a task")
	require.Equal(t, http.StatusNotFound, s.get(t, "/comparison?a="+a+"&b="+b).StatusCode)
}

// Verdicts can be carried over where answers kept their content: they keep their reviewers, are marked, and can be
// withdrawn as one batch; existing verdicts of the later task stay.
func TestVerdictsAreCarriedOver(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	a, b := twoVersions(t, s)
	judge := func(task, question, reviewer, verdict, note string) {
		told := s.send(t, http.MethodPut, api+"/"+task+"/items/"+question+"/review",
			object{"reviewer": reviewer, "verdict": verdict, "note": note, "reasons": []string{"format"}})
		require.Equal(t, http.StatusOK, told.StatusCode, "%s", told.body)
	}
	judge(a, "q1", "李雷", "PASS", "<i>照旧</i>")
	judge(a, "q2", "韩梅", "FAIL", "")
	judge(a, "q3", "李雷", "PASS", "")
	judge(a, "q8", "李雷", "FAIL", "")
	judge(a, "q8", "韩梅", "PASS", "")
	judge(b, "q8", "韩梅", "UNSURE", "再看")
	verdicts := func() (all []string) {
		var told struct {
			Items []struct {
				QuestionID string `json:"question_id"`
				Reviewer   string
				Verdict    string
				Note       string
				Version    int
				CarriedBy  *string `json:"carried_by"`
				From       *string `json:"carried_from"`
			}
		}
		s.get(t, api+"/"+b+"/reviews").into(t, &told)
		for _, one := range told.Items {
			line := one.QuestionID + " " + one.Reviewer + " " + one.Verdict + " " + one.Note
			if one.CarriedBy != nil {
				require.Equal(t, a, *one.From)
				line += " by " + *one.CarriedBy
			}
			all = append(all, line)
		}
		return all
	}

	page := s.get(t, "/comparison?a="+a+"&b="+b).page(t)
	require.Contains(t, page.Find("[data-question-id=q3]").Text(), "需要重新评审")
	require.Contains(t, page.Find("[data-question-id=q1] .said-row").Text(), "李雷")
	require.Equal(t, 3, page.Find("[data-question-id=q3] [data-judge] [data-verdict]").Length(), "it can be judged here")
	list := page.Find("a:contains('沿用 2 题的结论')").AttrOr("href", "")
	require.NotEmpty(t, list)
	form := s.get(t, list).page(t)
	require.Equal(t, 2, form.Find("[name=numbers][checked]").Length())
	require.Contains(t, form.Find(".same-list").Text(), "<i>照旧</i>", "who judged it, and why")
	require.Contains(t, form.Find(".lead").Text(), "不含回答已变的 1 题")
	require.Contains(t, form.Find(".lead").Text(), "不含乙已评的 1 题")

	carry := "/tasks/" + b + "/review/carry"
	sent := map[string]string{"from": a, "variant": "1", "numbers": "1,2,3,8", "reviewer": " "}
	refused := s.post(t, carry, sent)
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Equal(t, 2, refused.page(t).Find("[name=numbers][checked]").Length())
	sent["reviewer"] = "王五"
	require.Equal(t, http.StatusSeeOther, s.post(t, carry, sent).StatusCode)
	require.Equal(t, []string{"q1 李雷 PASS <i>照旧</i> by 王五", "q2 韩梅 FAIL  by 王五", "q8 韩梅 UNSURE 再看"}, verdicts(),
		"what changed, and what is judged, is left alone though it is sent")
	require.Contains(t, s.get(t, "/tasks/"+b+"/results?view=merged").page(t).Find(".said-list").Text(), "沿用")
	require.Contains(t, string(s.get(t, api+"/"+b+"/export?format=jsonl").body), `"carried_by":"王五"`)
	require.Zero(t, s.get(t, "/tasks/"+b+"/review/same").page(t).Find(".batch").Length(),
		"it is not what was passed together")

	// Once a reviewer judges the question, the verdict becomes that reviewer's own.
	told := s.send(t, http.MethodPut, api+"/"+b+"/items/q2/review",
		object{"reviewer": "韩梅", "verdict": "PASS", "version": 1})
	require.Equal(t, http.StatusOK, told.StatusCode, "%s", told.body)
	batch := s.get(t, list).page(t).Find(".batch")
	require.Contains(t, batch.Text(), "王五 沿用了 1 题的结论")
	undo := map[string]string{"from": a, "variant": "1", "batch": batch.Find("[name=batch]").AttrOr("value", ""),
		"reviewer": "李雷"}
	require.Equal(t, http.StatusNotFound, s.post(t, carry+"/undo", undo).StatusCode, "another's")
	undo["reviewer"] = "王五"
	require.Equal(t, http.StatusSeeOther, s.post(t, carry+"/undo", undo).StatusCode)
	require.Equal(t, []string{"q2 韩梅 PASS ", "q8 韩梅 UNSURE 再看"}, verdicts())
	require.Equal(t, http.StatusSeeOther, s.post(t, carry, sent).StatusCode, "and taken over again")
	require.Contains(t, verdicts(), "q1 李雷 PASS <i>照旧</i> by 王五")

	for _, test := range []struct {
		path   string
		status int
	}{
		{"?from=" + a + "&variant=2", http.StatusNotFound}, {"?from=" + a + "&variant=x", http.StatusSeeOther},
		{"?from=" + a + ":3", http.StatusNotFound}, {"", http.StatusNotFound},
	} {
		require.Equal(t, test.status, s.get(t, carry+test.path).StatusCode, test.path)
	}
}

// Programs carry verdicts over as people do: they list those that can be carried, carry them over as one batch, and
// withdraw that batch; exports name the origin of each verdict.
func TestProgramsCarryVerdictsOver(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	a, b := twoVersions(t, s)
	for _, question := range []string{"q1", "q2", "q3"} {
		told := s.send(t, http.MethodPut, api+"/"+a+"/items/"+question+"/review", object{"reviewer": "李雷", "verdict": "PASS"})
		require.Equal(t, http.StatusOK, told.StatusCode, "%s", told.body)
	}
	var can struct {
		Items []struct {
			QuestionID string `json:"question_id"`
			Reviews    []struct{ Reviewer, Verdict string }
		}
		LeftOut map[string]int `json:"left_out"`
	}
	s.get(t, api+"/"+b+"/carriable-reviews?from="+a).into(t, &can)
	require.Len(t, can.Items, 2)
	require.Equal(t, "q1", can.Items[0].QuestionID)
	require.Equal(t, "李雷", can.Items[0].Reviews[0].Reviewer)
	require.Equal(t, map[string]int{"judged": 0, "changed": 1, "failed": 0, "standard_answer": 0, "files": 0,
		"replaced": 0}, can.LeftOut)

	carried := api + "/" + b + "/carried-reviews"
	send := func(body object) (told struct {
		BatchID    string `json:"batch_id"`
		Questions  int
		NotCarried []string `json:"not_carried"`
	},
	) {
		answer := s.send(t, http.MethodPost, carried, body)
		require.Equal(t, http.StatusCreated, answer.StatusCode, "%s", answer.body)
		answer.into(t, &told)
		return told
	}
	one := send(object{"from": a, "reviewer": "王五", "question_ids": []string{"q1", "q3", "none"}})
	require.Equal(t, 1, one.Questions)
	require.Equal(t, []string{"q3", "none"}, one.NotCarried)
	require.Equal(t, 1, send(object{"from": a, "reviewer": "王五"}).Questions, "what is left")

	lines := string(s.get(t, api+"/"+b+"/export?format=jsonl").body)
	require.Contains(t, lines, `"carried_by":"王五","carried_from":"`+a+`","carried_from_name":`)
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+b+"/export?format=xlsx").body))
	require.NoError(t, err)
	sheet, err := book.GetRows("评审")
	require.NoError(t, err)
	require.Equal(t, []string{"carried_by", "carried_from", "carried_from_id"}, sheet[0][len(sheet[0])-3:])
	require.Equal(t, "王五", sheet[1][len(sheet[1])-3])
	require.Equal(t, a, sheet[1][len(sheet[1])-1])

	require.Equal(t, http.StatusNotFound, s.delete(t, b+"/carried-reviews/"+one.BatchID+"?reviewer=李雷").StatusCode,
		"another's")
	require.Equal(t, http.StatusNoContent, s.delete(t, b+"/carried-reviews/"+one.BatchID+"?reviewer=王五").StatusCode)
	var left struct {
		Items []struct{ Questions int }
	}
	s.get(t, carried).into(t, &left)
	require.Len(t, left.Items, 1)
	for body, status := range map[string]int{`{"from":"` + a + `:3","reviewer":"x"}`: 404,
		`{"from":"","reviewer":"x"}`: 422, `{"from":"` + a + `","reviewer":" "}`: 422,
		`{"from":"` + a + `","variant":2,"reviewer":"x"}`: 404} {
		require.Equal(t, status, s.send(t, http.MethodPost, carried, json.RawMessage(body)).StatusCode, body)
	}
}

// A comparison can be exported as CSV, as a workbook and for printing, in the order of risk; no cell can run as a
// formula.
func TestAComparisonIsExported(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	a, b := twoVersions(t, s)
	require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, api+"/"+a+"/items/q3/review",
		object{"reviewer": "李雷", "verdict": "PASS", "note": "对"}).StatusCode)
	query := "?a=" + a + "&b=" + b
	answer := s.get(t, "/api/v1/comparison/export"+query)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", answer.body)
	require.Contains(t, answer.Header.Get("Content-Disposition"), url.PathEscape("V1 → V2.csv"))
	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(answer.body, []byte("\uFEFF")))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 10)
	cell := func(rows [][]string, row int, title string) string {
		place := slices.Index(rows[0], title)
		require.GreaterOrEqual(t, place, 0, "%s in %v", title, rows[0])
		return append(rows[row], make([]string, len(rows[0]))...)[place]
	}
	require.Equal(t, []string{"q6", "worse", "failed", "", "0"},
		[]string{cell(rows, 1, "question_id"), cell(rows, 1, "group"), cell(rows, 1, "worse"), cell(rows, 1, "b_answer"),
			cell(rows, 1, "b_success_rate")})
	require.Equal(t, []string{"q3", "facts", "'=SUM(A1)", "PASS", "李雷", "对"},
		[]string{cell(rows, 3, "question_id"), cell(rows, 3, "group"), cell(rows, 3, "standard_answer"),
			cell(rows, 3, "a_verdict"), cell(rows, 3, "a_verdict_by"), cell(rows, 3, "a_verdict_note")})
	require.Regexp(t, "30 日 → 35 日$", cell(rows, 3, "facts"))

	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, "/api/v1/comparison/export"+query+"&format=xlsx").body))
	require.NoError(t, err)
	defer book.Close()
	require.Equal(t, []string{"汇总", "问题", "仅一边有"}, book.GetSheetList())
	sheet, err := book.GetRows("问题", excelize.Options{RawCellValue: true})
	require.NoError(t, err)
	require.Equal(t, []string{"变差", "多数运行不再有回答", "0"},
		[]string{cell(sheet, 1, "变化"), cell(sheet, 1, "变差之处"), cell(sheet, 1, "乙 成功率")})
	require.Equal(t, "通过", cell(sheet, 3, "甲 结论"))
	kind, err := book.GetCellType("问题", "A2")
	require.NoError(t, err)
	require.Equal(t, excelize.CellTypeUnset, kind, "a number is a number")
	summary, err := book.GetRows("汇总")
	require.NoError(t, err)
	require.Equal(t, []string{"任务名称", "V1", "V2"}, summary[1][:3])

	document := s.get(t, "/comparison/print"+query)
	require.Contains(t, document.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, 9, document.page(t).Find("article").Length())
	require.Contains(t, document.page(t).Find("[data-question-id=q3]").Text(), "查询进度", "nothing is left on the server")
	require.Zero(t, document.page(t).Find("[hx-get], button").Length())
	document = s.get(t, "/comparison/print"+query+"&only=differing")
	require.Equal(t, 6, document.page(t).Find("article").Length())
	require.Contains(t, document.page(t).Text(), "共 9 题，只打印变差或有差异的题；另外 3 题内容相同，未打印")
	require.Equal(t, http.StatusSeeOther, s.get(t, "/comparison/print"+query+"&only=x").StatusCode)
	for _, path := range []string{"/comparison/print?a=" + a, "/api/v1/comparison/export" + query + "&format=pdf"} {
		require.Equal(t, http.StatusUnprocessableEntity, s.get(t, path).StatusCode, path)
	}
}

// Each question is tested; the page, the API and the files agree, and the gate's verdicts match the API's.
func TestChangedQuestionsAndVerdictsOfAComparison(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	first := agenttest.New(t, answering(map[string][]string{"一": {"甲"}, "二": {"甲", "乙"}, "三": {"丙"}}))
	second := agenttest.New(t, answering(map[string][]string{"一": {"乙"}, "二": {"乙", "甲"}, "三": {"丙"}}))
	fields := map[string]string{"concurrency": "1", "task_name": "V1",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,甲\nq2,二,甲\nq3,三,丙\n"}
	a := s.create(t, first.URL, fields)
	s.awaitDone(t, a)
	b := s.create(t, second.URL, with(fields, "task_name", "V2"))
	s.awaitDone(t, b)

	type told struct {
		Items []struct {
			QuestionID string `json:"question_id"`
			P, Q       *float64
			Test       *string
			IsChanged  bool `json:"is_changed"`
		}
		Changed            int
		FalseDiscoveryRate float64 `json:"false_discovery_rate"`
		Differences        map[string]struct {
			Verdict string
			Margin  float64
		}
	}
	of := func(query string) (of told) {
		answer := s.get(t, "/api/v1/comparison?a="+a+"&b="+b+query)
		require.Equal(t, http.StatusOK, answer.StatusCode, string(answer.body))
		answer.into(t, &of)
		return of
	}
	all := of("")
	require.InDelta(t, 2.0/252, *all.Items[0].P, 1e-9)
	require.InDelta(t, 6.0/252, *all.Items[0].Q, 1e-9, "of three tests the least p")
	require.Equal(t, "answers", *all.Items[0].Test)
	require.True(t, all.Items[0].IsChanged)
	require.False(t, all.Items[1].IsChanged)
	require.Equal(t, 1, all.Changed)
	require.InDelta(t, 0.1, all.FalseDiscoveryRate, 0)
	require.Len(t, of("&changed=true").Items, 1)
	require.Equal(t, "not_worse", all.Differences["agreement"].Verdict, "the same on each question")
	require.Equal(t, "not_worse", all.Differences["success_rate"].Verdict)

	path := "/comparison?a=" + a + "&b=" + b
	page := s.get(t, path).page(t)
	require.Contains(t, page.Find("#changed").Text(), "1 题的变化很可能不是偶然")
	require.Contains(t, page.Find("#changed").Text(), "十分之一")
	require.Equal(t, 1, page.Find(".tested.is-changed").Length())
	require.Contains(t, page.Find(".tested.is-changed").AttrOr("title", ""), "置换检验")
	verdicts := func(page *goquery.Document) (verdicts []string) {
		page.Find(".gate-verdict:not(.is-)").Each(func(_ int, cell *goquery.Selection) {
			verdicts = append(verdicts, cell.Text())
		})
		return verdicts
	}
	words := map[string]string{"worse": "变差", "not_worse": "不比甲差", "undecided": "未能判定"}
	for query, margins := range map[string]string{"": "",
		"&margin.agreement=50%25&margin.latency_ms=60000": "&margin=agreement:0.5,latency_ms:60000"} {
		var want []string
		told := of(margins).Differences
		for _, name := range []string{"agreement", "success_rate", "latency_ms"} {
			want = append(want, words[told[name].Verdict])
		}
		require.Equal(t, want, verdicts(s.get(t, path+query).page(t)), query)
	}
	changed := s.get(t, path+"&show=changed").page(t)
	require.Equal(t, 1, changed.Find("article").Length())
	require.Contains(t, changed.Find("article").Text(), "一")

	for _, wrong := range []string{"margin.agreement=-1", "margin.agreement=2", "margin.latency_ms=x"} {
		answer := s.get(t, path+"&"+wrong)
		require.Equal(t, http.StatusSeeOther, answer.StatusCode, wrong)
	}
	for _, wrong := range []string{"agreement:-0.1", "agreement:2", "nothing:0.1", "agreement:NaN"} {
		require.Equal(t, http.StatusUnprocessableEntity,
			s.get(t, "/api/v1/comparison?a="+a+"&b="+b+"&margin="+wrong).StatusCode, wrong)
	}

	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(s.get(t, "/api/v1/comparison/export?a="+a+"&b="+b).body,
		[]byte("\ufeff")))).ReadAll()
	require.NoError(t, err)
	at := slices.Index(rows[0], "q")
	require.Equal(t, []string{"p", "q", "changed"}, rows[0][at-1:at+2])
	var yes []string
	for _, row := range rows[1:] {
		if row[at+1] == "yes" {
			yes = append(yes, row[1])
		}
	}
	require.Equal(t, []string{"q1"}, yes)
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, "/api/v1/comparison/export?format=xlsx&a="+a+"&b="+b).body))
	require.NoError(t, err)
	summary, err := book.GetRows(book.GetSheetList()[0])
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(summary, func(row []string) bool {
		return len(row) > 6 && row[0] == "变化可信的题（错误发现率 10%）" && row[6] == "1"
	}), "%v", summary)
	require.True(t, slices.ContainsFunc(summary, func(row []string) bool {
		return len(row) > 7 && row[0] == "一致率" && row[7] == "不比甲差"
	}), "%v", summary)
}

// requireConfirmedInFiles requires that the files of a comparison show that the first change held and the second did
// not.
func (s *site) requireConfirmedInFiles(t *testing.T, a, b string) {
	t.Helper()
	query := "?a=" + a + "&b=" + b
	exported := bytes.TrimPrefix(s.get(t, "/api/v1/comparison/export"+query).body, []byte("\ufeff"))
	rows, err := csv.NewReader(bytes.NewReader(exported)).ReadAll()
	require.NoError(t, err)
	at := slices.Index(rows[0], "confirmed")
	require.Equal(t, []string{"confirmed_p", "confirmed_q", "confirmed"}, rows[0][at-2:at+1])
	require.Equal(t, []string{"held", "not_held", ""}, []string{rows[1][at], rows[2][at], rows[3][at]})
	p, err := strconv.ParseFloat(rows[1][at-2], 64)
	require.NoError(t, err)
	require.InDelta(t, 2.0/252, p, 1e-9)
	require.Equal(t, []string{"", ""}, rows[3][at-2:at], "it was not asked again")

	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, "/api/v1/comparison/export"+query+"&format=xlsx").body))
	require.NoError(t, err)
	defer book.Close()
	for sheet, want := range map[string][][]string{"汇总": {{"确认：再问后成立", "1"}, {"确认：再问后没有再现", "1"}},
		"问题": {{"q1", "再问后成立"}, {"q2", "再问后没有再现"}}} {
		rows, err := book.GetRows(sheet)
		require.NoError(t, err)
		for _, cells := range want {
			require.True(t, slices.ContainsFunc(rows, func(row []string) bool {
				return slices.Contains(row, cells[0]) && slices.Contains(row, cells[1])
			}), "%s: %v", sheet, cells)
		}
	}
	printed := s.get(t, "/comparison/print"+query).page(t).Find(".cover").Text()
	require.Contains(t, printed, "2 题的变化很可能不是偶然")
	require.Contains(t, printed, "1 题的变化成立，1 题没有再现")
}

// Changed questions are repeated, on both sides or only on the later one, and the fresh runs alone decide which
// changes hold.
func TestChangesAreConfirmed(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	// the second agent answers 二 differently only at first, 一 permanently
	first := agenttest.New(t, answering(map[string][]string{"一": {"甲"}, "二": {"甲"}, "三": {"丙"}}))
	second := agenttest.New(t,
		answering(map[string][]string{"一": {"乙"}, "二": {"乙", "乙", "乙", "乙", "乙", "甲", "甲", "甲", "甲", "甲"}, "三": {"丙"}}))
	fields := map[string]string{"concurrency": "1", "task_name": "V1",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,甲\nq2,二,甲\nq3,三,丙\n"}
	a := s.create(t, first.URL, fields)
	s.awaitDone(t, a)
	b := s.create(t, second.URL, with(fields, "task_name", "V2"))
	s.awaitDone(t, b)
	same := s.create(t, first.URL, with(fields, "task_name", "V1 again"))
	s.awaitDone(t, same)

	path := "evaluation-tasks/" + b + "/confirm"
	s.entry(t, "POST", path, object{"against": a, "runs": 21}, 422)
	s.entry(t, "POST", path, object{"against": a, "runs": 16}, 422)
	s.entry(t, "POST", path, object{"against": a, "sides": "a"}, 422)
	s.entry(t, "POST", path, object{"against": a, "question_ids": []string{"nothing"}}, 404)
	s.entry(t, "POST", path, object{"against": "x"}, 404)
	s.entry(t, "POST", "evaluation-tasks/"+same+"/confirm", object{"against": a}, 409)

	form := s.get(t, "/comparison?a="+a+"&b="+b).page(t).Find("form.confirm-changes")
	require.Equal(t, 1, form.Length())
	require.Contains(t, form.Text(), "甲、乙各把这 2 题再问")
	require.Zero(t, s.get(t, "/comparison?a="+a+"&b="+same).page(t).Find("form.confirm-changes").Length(),
		"nothing changed")
	action, _ := form.Attr("action")
	require.Equal(t, "/tasks/"+b+"/confirm", action)
	answer := s.post(t, action, map[string]string{"against": a, "variant": "1", "runs": "5"})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	s.awaitDone(t, a)
	s.awaitDone(t, b)

	var told struct {
		Items []struct {
			QuestionID   string `json:"question_id"`
			IsChanged    bool   `json:"is_changed"`
			Confirmation *struct {
				Outcome string
				RunsA   []int `json:"runs_a"`
				RunsB   []int `json:"runs_b"`
			}
		}
		Confirmations map[string]int
	}
	s.get(t, "/api/v1/comparison?a="+a+"&b="+b).into(t, &told)
	require.Equal(t, map[string]int{"held": 1, "not_held": 1, "pending": 0, "untested": 0}, told.Confirmations)
	require.Equal(t, "held", told.Items[0].Confirmation.Outcome)
	require.Equal(t, []int{6, 10}, told.Items[0].Confirmation.RunsA)
	require.Equal(t, []int{6, 10}, told.Items[0].Confirmation.RunsB)
	require.Equal(t, "not_held", told.Items[1].Confirmation.Outcome)
	require.True(t, told.Items[1].IsChanged, "the first runs are as they were")
	require.Nil(t, told.Items[2].Confirmation, "it had not changed")
	outcomes := s.get(t, "/comparison?a="+a+"&b="+b).page(t).Find("#changed .confirmed")
	require.Contains(t, outcomes.Text(), "再问了 2 题：1 题的变化成立，1 题没有再现")
	require.Equal(t, 2, outcomes.Find("a").Length())
	outcomes.Find("a").Each(func(_ int, outcome *goquery.Selection) {
		require.Equal(t, 1, s.get(t, outcome.AttrOr("href", "")).page(t).Find("article").Length(), outcome.Text())
	})
	s.requireConfirmedInFiles(t, a, b)
	require.Len(t, s.entry(t, "GET", "evaluation-tasks/"+a+"/launches", nil, 200)["items"], 2)

	// Two tasks that call the same agent in the same way differ only in time: only the later one is repeated.
	confirmed := s.entry(t, "POST", "evaluation-tasks/"+same+"/confirm",
		object{"against": a, "question_ids": []string{"q1"}, "runs": 2}, 202)
	require.Equal(t, "b", confirmed["sides"])
	require.EqualValues(t, 1, confirmed["questions"])
	s.awaitDone(t, same)
	require.Len(t, s.entry(t, "GET", "evaluation-tasks/"+a+"/launches", nil, 200)["items"], 2)
	s.get(t, "/api/v1/comparison?a="+a+"&b="+same).into(t, &told)
	require.Equal(t, []int{1, 5}, told.Items[0].Confirmation.RunsA)
	require.Equal(t, []int{6, 7}, told.Items[0].Confirmation.RunsB)
	require.Equal(t, "not_held", told.Items[0].Confirmation.Outcome)
}
