package handlers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/jobs/agent/agenttest"
)

// A sample that is drawn on the review tab is reviewed answer by answer, in the order in which it was drawn, each
// without the other answers to its question; the tab shows the progress.
func TestASampleIsReviewed(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.twoVariants(t)
	tab := "/tasks/" + id + "/review"
	require.Equal(t, 1, s.get(t, tab).page(t).Find("#samples [name=is_stratified]").Length())
	refused := s.post(t, "/tasks/"+id+"/samples", map[string]string{"size": "0"})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	page := refused.page(t)
	require.Equal(t, "0", page.Find("#samples [name=size]").AttrOr("value", ""))
	require.NotEmpty(t, strings.TrimSpace(page.Find("#samples .error").Text()))

	drawn := s.post(t, "/tasks/"+id+"/samples", map[string]string{"size": "2", "is_stratified": "true"})
	require.Equal(t, http.StatusSeeOther, drawn.StatusCode)
	next := drawn.Header.Get("Location")
	var list struct {
		Items []struct {
			ID           string
			IsStratified bool `json:"is_stratified"`
			Items        []struct {
				QuestionID string `json:"question_id"`
				Variant    int
				RunIndex   int `json:"run_index"`
			}
		}
	}
	s.get(t, api+"/"+id+"/samples").into(t, &list)
	require.Len(t, list.Items, 1)
	sample := list.Items[0]
	require.Contains(t, next, "sample="+sample.ID)
	require.True(t, sample.IsStratified)
	require.Len(t, sample.Items, 2)

	for n, run := range sample.Items {
		at := s.as(t, "李雷", next).Header.Get("Location")
		page := s.as(t, "李雷", at).page(t)
		require.Equal(t, run.QuestionID, page.Find("article.judging").AttrOr("data-question-id", ""), "in the drawn order")
		require.Equal(t, 1, page.Find(".judging-text .run").Length(), "the answer is alone")
		require.Zero(t, page.Find(".judging .strip, .judging .cell, .judging .letter").Length())
		require.Contains(t, page.Find(".position").Text(), strconv.Itoa(n+1)+" / 2")
		require.Equal(t, strconv.Itoa(n)+"/2", page.Find(".stage b").Text())
		place := page.Find("[data-judge]")
		require.Equal(t, strconv.Itoa(run.RunIndex), place.AttrOr("data-run", ""))
		require.Equal(t, strconv.Itoa(run.Variant), place.AttrOr("data-variant", ""))
		require.Equal(t, 1, page.Find("#"+place.AttrOr("data-said", "")).Length())
		page.Find(".judging-ways a").Each(func(_ int, way *goquery.Selection) {
			require.Contains(t, way.AttrOr("href", ""), "sample="+sample.ID, "another way of reading stays in the sample")
		})
		require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, place.AttrOr("data-judge", ""), object{
			"reviewer": "李雷", "verdict": "PASS", "run_index": run.RunIndex, "variant": run.Variant}).StatusCode)
	}
	require.Equal(t, tab+"#samples", s.as(t, "李雷", next).Header.Get("Location"), "nothing waits any more")
	require.Contains(t, s.as(t, "韩梅梅", next).Header.Get("Location"), tab+"/", "another reviewer has not judged any")
	row := s.as(t, "李雷", tab).page(t).Find("#samples tbody tr")
	require.Equal(t, []string{"2", "2", "2"}, row.Find("td.number").Map(func(_ int, cell *goquery.Selection) string {
		return strings.TrimSpace(cell.Text())
	}))
	shown := s.get(t, row.Find("td.number a").AttrOr("href", "")).page(t)
	require.Equal(t, 2, shown.Find("article.result").Length(), "the size leads to the sample's questions")
	require.Equal(t, sample.ID, shown.Find(".bar-query [name=sample]").AttrOr("value", ""))

	for _, wrong := range []string{"x", "6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"} {
		refused := s.get(t, tab+"/next?sample="+wrong)
		require.Equal(t, http.StatusSeeOther, refused.StatusCode)
		require.NotContains(t, refused.Header.Get("Location"), "?sample=", "an unknown sample is left out, with a notice")
	}
}

// judgedTask runs a task of six questions, two variants and two runs with a judge, draws one answer of each question,
// and has a person judge them: the judge passes odd questions, the person passes the first four. It returns the task
// and the sample's id.
func (s *site) judgedTask(t *testing.T) (task, sample string) {
	t.Helper()
	judging := agenttest.New(t, chatting(func(prompt string) string {
		for _, odd := range []string{"问1", "问3", "问5"} {
			if strings.Contains(prompt, odd) {
				return `{"overall": 90, "reason": "right"}`
			}
		}
		return `{"overall": 30, "reason": "wrong"}`
	}))
	model, _ := s.chatTarget(t, "judge", judging.URL)
	judge := s.evaluator(t, "裁判", "judge", object{"model_id": model, "dimensions": []string{"overall"}})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	var agents []string
	for _, name := range []string{"a", "b"} {
		agents = append(agents, s.entry(t, "POST", "agents",
			object{"name": name, "protocol": "default", "url": fake.URL + "/" + name}, 201)["id"].(string))
	}
	rows := "question_id,question,standard_answer\n"
	for n := range 6 {
		rows += "q" + strconv.Itoa(n+1) + ",问" + strconv.Itoa(n+1) + ",a\n"
	}
	dataset := s.post(t, libraryAPI+"datasets", map[string]string{"name": "d", "file@q.csv": rows}).mustBe(t,
		201)["id"].(string)
	created := s.send(t, http.MethodPost, api, object{"task_name": "t", "agents": agents, "dataset": dataset,
		"runs_per_item": 2, "evaluators": []string{judge}}).mustBe(t, 201)
	task = created["task_id"].(string)
	s.awaitDone(t, task)
	var drawn struct {
		ID    string
		Items []struct {
			QuestionID string `json:"question_id"`
			Variant    int
			RunIndex   int `json:"run_index"`
		}
	}
	s.send(t, http.MethodPost, api+"/"+task+"/samples", object{"size": 6, "is_stratified": true}).into(t, &drawn)
	for _, run := range drawn.Items {
		verdict := "FAIL"
		if run.QuestionID < "q5" {
			verdict = "PASS"
		}
		require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, api+"/"+task+"/items/"+run.QuestionID+"/review", object{
			"reviewer": "李雷", "verdict": verdict, "run_index": run.RunIndex, "variant": run.Variant}).StatusCode)
	}
	return task, drawn.ID
}

// Every cell of the table that compares a judge with people links to the answers that it counts, and to no others.
func TestAnswersOnWhichJudgeAndPeoplePart(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, _ := s.judgedTask(t)
	var statistics struct {
		Evaluators []struct{ People, Record struct{ N int } }
	}
	s.get(t, api+"/"+id+"/statistics").into(t, &statistics)
	require.Equal(t, 6, statistics.Evaluators[0].People.N)
	require.Equal(t, 6, statistics.Evaluators[0].Record.N, "over the tasks of the project")
	cells := s.get(t, "/tasks/"+id+"/report").page(t).Find("td.figure a[href*='filter=people-1-']")
	require.Equal(t, 4, cells.Length())
	answers := 0
	cells.Each(func(_ int, cell *goquery.Selection) {
		count, err := strconv.Atoi(cell.Text())
		require.NoError(t, err)
		href := cell.AttrOr("href", "")
		page := s.get(t, href+"&view=merged").page(t) // a filter for single answers overrides the requested view
		require.Equal(t, count, page.Find("article.result .run").Length(), href)
		require.Equal(t, count, page.Find("article.result .run .verdicts").Length(), "with the judge's reason")
		require.Equal(t, count, page.Find("article.result .run .said-list li[data-verdict]:not([hidden])").Length(),
			"and people's")
		require.Contains(t, page.Find(".shown-of").Text(), strconv.Itoa(count)+" 个回答")
		require.Equal(t, 1, page.Find("select[name=filter] option[selected]").Length())
		answers += count
	})
	require.Equal(t, 6, answers)
	require.Zero(t, s.get(t, "/tasks/"+id+"/results/print").page(t).Find("a[href*='people-1']").Length())

	judge := s.entry(t, "GET", "evaluators", nil, 200)["items"].([]any)[0].(object)["id"].(string)
	record := s.entry(t, "GET", "evaluators/"+judge+"/people", nil, 200)["items"].([]any)[0].(object)
	counts := object{"pass_pass": 2.0, "pass_fail": 1.0, "fail_pass": 2.0, "fail_fail": 1.0}
	require.EqualValues(t, 1, record["version"])
	require.Equal(t, counts, record["people"].(object)["confusion"])
	require.Equal(t, counts, record["tasks"].([]any)[0].(object)["confusion"])
	require.Equal(t, id, record["tasks"].([]any)[0].(object)["task_id"])
	panel := s.get(t, "/library/evaluators/"+judge).page(t).Find("#people")
	require.Contains(t, panel.Find(".sentences").Text(), "6 个，其中 3 个（50.0%）结论一致")
	require.NotContains(t, panel.Text(), "校正", "samples of several tasks are not one")
	require.Equal(t, 4, panel.Find("td.number a").Length())
	panel.Find("td.number a").Each(func(_ int, cell *goquery.Selection) {
		shown := s.get(t, cell.AttrOr("href", "")).page(t).Find("article.result .run").Length()
		require.Equal(t, cell.Text(), strconv.Itoa(shown))
	})

	require.Contains(t, s.get(t, api+"/"+id+"/export?format=html").page(t).Text(), "6 个，其中 3 个（50.0%）结论一致")
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx&lang=en").body))
	require.NoError(t, err)
	rows, err := book.GetRows("Judges and people")
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, []string{"裁判", "6", "2", "1", "2", "1", "50.00%"}, rows[1][:7])
}

// In a blind review, pages show a judge's verdict on an answer only to those who have judged it themselves.
func TestAReviewIsBlind(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, sample := s.judgedTask(t)
	answers, tab := "/tasks/"+id+"/results?view=columns", "/tasks/"+id+"/review"
	verdicts := func(name, path string) (shown, sealed int) {
		page := s.as(t, name, path).page(t)
		sealed = page.Find(`.hint`).FilterFunction(func(_ int, hint *goquery.Selection) bool {
			return strings.Contains(hint.Text(), "先评后看")
		}).Length()
		return page.Find(".verdicts li, .judged .verdicts").Length(), sealed
	}
	requireShown := func(name, path string, wantShown, wantSealed int) {
		t.Helper()
		shown, sealed := verdicts(name, path)
		require.Equal(t, wantShown, shown, name+" "+path)
		require.Equal(t, wantSealed, sealed, name+" "+path)
	}
	requireShown("韩梅梅", answers, 24, 0)
	form := s.get(t, tab).page(t).Find(`form[action$="/review/settings"]`)
	require.Equal(t, 1, form.Length())
	require.Equal(t, "true", form.Find("[name=is_blind_review]").AttrOr("value", ""))
	s.post(t, tab+"/settings", map[string]string{"is_blind_review": "true"}).mustBe(t, http.StatusSeeOther)
	require.Equal(t, true, s.get(t, api+"/"+id).mustBe(t, 200)["is_blind_review"])

	requireShown("韩梅梅", answers, 0, 6)
	requireShown("李雷", answers, 6, 6) // one answer of each question is judged
	requireShown("", answers, 0, 6)
	var results struct {
		Items []struct {
			Runs []struct {
				RunID       json.Number `json:"run_id"`
				Evaluations []object
			}
		}
	}
	s.get(t, api+"/"+id+"/results?question_id=q1").into(t, &results)
	require.Len(t, results.Items[0].Runs[0].Evaluations, 1, "the API hides nothing")
	run := "/tasks/" + id + "/runs/" + results.Items[0].Runs[0].RunID.String()
	requireShown("韩梅梅", run, 0, 1)
	alone := tab + "/1?sample=" + sample
	requireShown("韩梅梅", alone, 0, 1)

	for variant := 1; variant <= 2; variant++ {
		require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, api+"/"+id+"/items/q1/review", object{
			"reviewer": "韩梅梅", "verdict": "PASS", "variant": variant}).StatusCode)
	}
	requireShown("韩梅梅", answers, 4, 5)
	requireShown("韩梅梅", run, 1, 0)
	requireShown("韩梅梅", alone, 1, 0)

	copied := s.post(t, api+"/"+id+"/clone", map[string]string{"start": "false"}).mustBe(t, 201)["task_id"].(string)
	require.Equal(t, true, s.get(t, api+"/"+copied).mustBe(t, 200)["is_blind_review"], "a copy is reviewed alike")
	s.send(t, http.MethodPut, api+"/"+id+"/review-settings", object{"is_blind_review": false}).mustBe(t, 200)
	requireShown("韩梅梅", answers, 24, 0)
}

// A changed judge is compared with its saved version on the answers that people have judged, and saved if it is better.
func TestAJudgeIsTuned(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	s.judgedTask(t)
	saved := s.entry(t, "GET", "evaluators", nil, 200)["items"].([]any)[0].(object)
	judge, config := "evaluators/"+saved["id"].(string), saved["config"].(object)
	config["threshold"] = 20 // answers rated 30 now pass
	tuned := s.entry(t, "POST", judge+"/tune", object{"config": config}, 200)
	require.EqualValues(t, 1, tuned["version"])
	require.EqualValues(t, 0, tuned["unrated"])
	require.Equal(t, object{"pass_pass": 2.0, "pass_fail": 1.0, "fail_pass": 2.0, "fail_fail": 1.0},
		tuned["before"].(object)["confusion"])
	require.Equal(t, object{"pass_pass": 4.0, "pass_fail": 2.0, "fail_pass": 0.0, "fail_fail": 0.0},
		tuned["after"].(object)["confusion"])
	require.Len(t, tuned["items"], 6)
	for _, item := range tuned["items"].([]any) {
		require.Equal(t, true, item.(object)["after"])
	}
	require.Len(t, s.entry(t, "POST", judge+"/tune", object{"answers": 2}, 200)["items"], 2)
	config["votes"] = 2
	s.entry(t, "POST", judge+"/tune", object{"config": config}, 422)
	config["votes"], config["model_id"] = 1, saved["id"]
	s.entry(t, "POST", judge+"/tune", object{"config": config}, 422)

	path := "/library/evaluators/"
	page := s.get(t, path+saved["id"].(string)).page(t)
	require.Contains(t, page.Find("select[name=try_task] option[value=judged-20]").Text(), "人评过的 6 个回答")
	require.Zero(t, page.Find("select[name=try_task] option[value=judged-60]").Length())
	values := formOf(page)
	values["try_task"], values["config_threshold"] = "judged-20", "20"
	shown := s.post(t, path+"test", values).page(t).Find("#tried")
	require.Equal(t, []string{"3 / 6（50.0%）", "4 / 6（66.7%）"}, shown.Find("tbody tr:first-child td").Map(
		func(_ int, cell *goquery.Selection) string { return cell.Text() }))
	require.Equal(t, 2, shown.Find(".tried li").Length(), "people failed two answers that it passes")
	require.Contains(t, shown.Find(".tried li").First().Text(), "人：不通过")
	require.EqualValues(t, 1, s.entry(t, "GET", judge, nil, 200)["version"], "nothing was saved")
}

// If a task requires it, a reviewer sees other people's verdicts on a question only after judging it, and a question is
// complete once a certain number of reviewers have judged it.
func TestReviewersJudgeApart(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, _ := s.judgedTask(t)
	task, settings := api+"/"+id, "/tasks/"+id+"/review/settings"
	verdicts := func(name string) int {
		return s.as(t, name, "/tasks/"+id+"/results?view=columns").page(t).Find(
			".said-list li[data-verdict]:not([hidden])").Length()
	}
	put := func(name, question string) {
		t.Helper()
		for variant := 1; variant <= 2; variant++ {
			s.send(t, http.MethodPut, task+"/items/"+question+"/review", object{"reviewer": name, "verdict": "FAIL",
				"variant": variant}).mustBe(t, 200)
		}
	}
	require.Equal(t, 6, verdicts("韩梅梅"))
	for _, wrong := range []string{"0", "11", "x"} {
		refused := s.post(t, settings, map[string]string{"reviewers_per_item": wrong})
		require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
		form := refused.page(t).Find("#review-settings")
		require.Equal(t, wrong, form.Find("[name=reviewers_per_item]").AttrOr("value", ""))
		require.NotEmpty(t, form.Find("[role=alert]").Text())
	}
	s.post(t, settings, map[string]string{"hides_reviews": "true", "reviewers_per_item": "2"}).mustBe(t, 303)
	detail := s.get(t, task).mustBe(t, 200)
	require.Equal(t, []any{false, true, 2.0}, []any{detail["is_blind_review"], detail["hides_reviews"],
		detail["reviewers_per_item"]})
	form := s.get(t, "/tasks/"+id+"/review").page(t).Find("#review-settings")
	require.Equal(t, 1, form.Find("[name=hides_reviews][checked]").Length())
	require.Equal(t, "2", form.Find("[name=reviewers_per_item]").AttrOr("value", ""))

	require.Zero(t, verdicts("韩梅梅"))
	require.Zero(t, verdicts(""))
	require.Equal(t, 6, verdicts("李雷"), "one's own")
	history := "/tasks/" + id + "/results/1/reviews"
	require.NotContains(t, s.as(t, "韩梅梅", history).page(t).Text(), "李雷")
	require.Contains(t, s.as(t, "李雷", history).page(t).Text(), "李雷")
	put("韩梅梅", "q1")
	require.Equal(t, 3, verdicts("韩梅梅"), "two own, and what another person said on an answer to the question")
	require.Contains(t, s.as(t, "韩梅梅", history).page(t).Text(), "李雷")

	shown := func(name, filter string) int {
		return s.as(t, name, "/tasks/"+id+"/results?review="+filter).page(t).Find("article.result").Length()
	}
	require.Equal(t, []int{5, 1, 0}, []int{shown("", "open"), shown("", "others"), shown("", "done")})
	require.Equal(t, 6, shown("王五", "mine"))
	put("李雷", "q1")
	require.Equal(t, []int{5, 0, 1}, []int{shown("", "open"), shown("", "others"), shown("", "done")})
	require.Equal(t, 5, shown("王五", "mine"), "a complete question waits for nobody else")
	require.Equal(t, 1, s.get(t, "/tasks/"+id+"/review").page(t).Find("a[href*='review=done']").Length())

	// 王五 has opened a question that waits for one more person: 赵六 gets another one next, and sees here who is judging.
	put("韩梅梅", "q2")
	require.Contains(t, s.as(t, "王五", "/tasks/"+id+"/review/2").page(t).Find("h1").Text(), "问2")
	require.Contains(t, s.as(t, "赵六", "/tasks/"+id+"/review/2").page(t).Find(".position").Text(), "王五 正在评")
	for after := 1; after <= 6; after++ {
		next := s.as(t, "孙七", "/tasks/"+id+"/review/next?after="+strconv.Itoa(after)).Header.Get("Location")
		require.NotContains(t, next, "/review/2", "others are judging it")
	}
	put("王五", "q2")
	require.NotContains(t, s.as(t, "赵六", "/tasks/"+id+"/review/2").page(t).Find(".position").Text(), "王五",
		"a reviewer who has judged it is done")

	// Questions on which people disagree are given to one more person; the others stay as they are.
	s.send(t, http.MethodPut, task+"/items/q1/review", object{"reviewer": "钱八", "verdict": "PASS",
		"reasons": []string{"citation"}}).mustBe(t, 200)
	require.Equal(t, 4, shown("周九", "mine"), "q1 and q2 are complete")
	assignments := "/tasks/" + id + "/assignments"
	s.post(t, assignments, map[string]string{"reviewers": "周九", "overlap": "0", "scope": "disagree"}).mustBe(t, 303)
	require.Equal(t, 5, shown("周九", "mine"))
	given := s.get(t, "/tasks/"+id+"/results?assigned="+url.QueryEscape("周九")).page(t)
	require.Equal(t, 1, given.Find("article.result").Length())
	require.Equal(t, http.StatusUnprocessableEntity,
		s.post(t, assignments, map[string]string{"reviewers": "周九", "overlap": "0", "scope": "x"}).StatusCode)
	require.Equal(t, []any{object{"reason": "citation", "questions": 1.0}},
		s.get(t, task+"/statistics").mustBe(t, 200)["reasons"])

	copied := s.post(t, task+"/clone", map[string]string{"start": "false"}).mustBe(t, 201)["task_id"].(string)
	require.EqualValues(t, 2, s.get(t, api+"/"+copied).mustBe(t, 200)["reviewers_per_item"])
	s.send(t, http.MethodPut, task+"/review-settings", object{"is_blind_review": false}).mustBe(t, 200)
	require.Nil(t, s.get(t, task).mustBe(t, 200)["reviewers_per_item"])
	require.Equal(t, http.StatusSeeOther, s.get(t, "/tasks/"+id+"/results?review=done").StatusCode,
		"without a number no question is complete")
}
