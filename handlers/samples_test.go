package handlers_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

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

// Every cell of the table that compares a judge with people links to exactly the answers that it counts, side by side.
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
