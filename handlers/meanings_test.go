package handlers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/jobs/agent/agenttest"
)

// grouping simulates a model that groups answers by their last character.
func grouping(prompt string) string {
	byEnd, ends := map[string][]int{}, []string{}
	for _, match := range regexp.MustCompile(`(?s)Answer (\d+):\n<data-\w+>\n(.*?)\n</data-\w+>`).FindAllStringSubmatch(
		prompt, -1) {
		number, _ := strconv.Atoi(match[1])
		end := match[2][len(match[2])-1:]
		if byEnd[end] == nil {
			ends = append(ends, end)
		}
		byEnd[end] = append(byEnd[end], number)
	}
	groups := [][]int{}
	for _, end := range ends {
		groups = append(groups, byEnd[end])
	}
	reply, _ := json.Marshal(object{"groups": groups, "notes": ends})
	return string(reply)
}

func TestAnswersAreGroupedByMeaningThroughTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	grouper := agenttest.New(t, chatting(grouping))
	model, _ := s.chatTarget(t, "grouper", grouper.URL)
	var asked atomic.Int32
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "二" {
			agenttest.Stream(w, "always")
			return
		}
		agenttest.Stream(w, strings.Repeat("word ", int(asked.Add(1)))+[]string{"x", "x", "y"}[asked.Load()%3])
	})
	fields := map[string]string{
		"task_name": "意思", "agent_api_url": fake.URL, "meaning_model": model, "runs_per_item": "3", "rate_limit": "unlimited",
		"concurrency": "1",
		"file@q.csv":  "question_id,question,standard_answer\nq1,一,a\nq2,二,b\n",
	}
	created := s.post(t, api, fields)
	require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
	var task struct {
		TaskID       string `json:"task_id"`
		MeaningCalls int    `json:"meaning_calls"`
	}
	created.into(t, &task)
	require.Equal(t, 2, task.MeaningCalls)
	s.awaitDone(t, task.TaskID)
	path := "evaluation-tasks/" + task.TaskID
	require.Len(t, grouper.Calls(), 1)

	results := s.entry(t, "GET", path+"/results", nil, 200)
	first, second := results["items"].([]any)[0].(object), results["items"].([]any)[1].(object)
	said := first["meaning"].(object)
	require.Equal(t, "model", said["by"])
	require.Equal(t, false, said["is_unsure"])
	require.Equal(t, []any{"x", "y"}, said["notes"])
	require.Len(t, said["groups"].([]any)[0], 2)
	of := first["variants"].([]any)[0].(object)["meaning"].(object)
	require.InDelta(t, 1.0/3, of["agreement"], 1e-12)
	require.Len(t, of["groups"].([]any)[0], 2)
	require.Equal(t, "equal", second["meaning"].(object)["by"])
	require.Equal(t, []any{[]any{1.0, 2.0, 3.0}}, second["variants"].([]any)[0].(object)["meaning"].(object)["groups"])

	detail := s.entry(t, "GET", path, nil, 200)
	require.Equal(t, model, detail["meaning_model"])
	require.InDelta(t, 2.0/3, detail["statistics"].(object)["meaning_agreement"], 1e-12)
	require.EqualValues(t, 1, detail["statistics"].(object)["meaning_calls"])
	variant := s.entry(t, "GET", path+"/statistics", nil, 200)["variants"].([]any)[0].(object)
	require.EqualValues(t, 2, variant["meaning_items"])
	require.InDelta(t, 2.0/3, variant["meaning_agreement"], 1e-12)

	s.meaningIsOnPages(t, task.TaskID, model)
	s.peopleCorrectMeanings(t, path)

	copied := s.post(t, api+"/"+task.TaskID+"/clone", map[string]string{"start": "false"})
	require.Equal(t, http.StatusCreated, copied.StatusCode, string(copied.body))
	var draft struct {
		TaskID string `json:"task_id"`
	}
	copied.into(t, &draft)
	require.Equal(t, model, s.entry(t, "GET", "evaluation-tasks/"+draft.TaskID, nil, 200)["meaning_model"])

	wrong := s.entry(t, "POST", path+"/meanings", object{}, 422)
	require.Equal(t, "model_id", wrong["details"].([]any)[0].(object)["column"])
	s.entry(t, "POST", path+"/meanings", object{"model_id": task.TaskID}, 422)
	s.entry(t, "POST", path+"/meanings", object{"model_id": model}, 202)
	s.awaitDone(t, task.TaskID)
	require.Len(t, grouper.Calls(), 3)
	launches := s.entry(t, "GET", path+"/launches", nil, 200)["items"].([]any)
	require.Equal(t, "MEANING", launches[0].(object)["kind"])
	kept := s.entry(t, "GET", path+"/results", nil, 200)["items"].([]any)[0].(object)["variants"].([]any)[0].(object)
	require.Equal(t, "person", kept["meaning"].(object)["by"], "kept through later launches")
}

// peopleCorrectMeanings has people group the answers to the first question of a task, which a model has put into two
// groups.
func (s *site) peopleCorrectMeanings(t *testing.T, path string) {
	t.Helper()
	groups := path + "/items/q1/meaning"
	one := object{"groups": [][]int{{1, 2}, {3}}, "reviewer": "李雷"}
	first := s.entry(t, "PUT", groups, one, 200)
	require.Equal(t, "person", first["by"])
	require.EqualValues(t, 1, first["version"])
	require.Equal(t, "李雷", first["reviewer"])
	require.Equal(t, false, first["is_unsure"])
	require.Len(t, first["groups"], 2)
	conflict := s.entry(t, "PUT", groups, one, 409)
	require.Equal(t, "REVIEW_CONFLICT", conflict["code"])
	require.EqualValues(t, 1, conflict["current"].(object)["version"])

	second := s.entry(t, "PUT", groups, object{"groups": [][]int{{3, 1, 2}}, "reviewer": "韩梅", "version": 1}, 200)
	require.EqualValues(t, 2, second["version"])
	require.Equal(t, []any{[]any{1.0, 2.0, 3.0}}, second["groups"])
	require.EqualValues(t, 1, second["agreement"])
	conflict = s.entry(t, "DELETE", groups+"?reviewer=x&version=1", nil, 409)
	require.EqualValues(t, 2, conflict["current"].(object)["version"])
	for problem, wrong := range map[string][][]int{
		"没有回答": {{1, 2, 3, 4}}, "第 3 次运行的分组": {{1, 2}}, "只出现一次": {{1, 2}, {2, 3}},
	} {
		refused := s.entry(t, "PUT", groups, object{"groups": wrong, "reviewer": "x", "version": 2}, 422)
		require.Contains(t, refused["message"], problem)
	}
	equal := object{"groups": [][]int{{1, 2}, {3}}, "reviewer": "x"}
	require.Contains(t, s.entry(t, "PUT", path+"/items/q2/meaning", equal, 422)["message"], "最多只有格式不同")
	s.entry(t, "PUT", groups, object{"groups": [][]int{{1}}, "reviewer": "x", "variant": 2}, 404)
	s.entry(t, "PUT", groups, object{"groups": [][]int{{1}}}, 422)

	s.peopleCorrectOnPages(t, strings.Replace(path, "evaluation-", "/", 1))
	item := s.entry(t, "GET", path+"/results", nil, 200)["items"].([]any)[0].(object)
	require.Equal(t, "person", item["meaning"].(object)["by"])
	statistics := s.entry(t, "GET", path, nil, 200)["statistics"].(object)
	require.EqualValues(t, 1, statistics["meaning_agreement"], "stored statistics follow")
	require.EqualValues(t, 1, statistics["meaning_people"])
	against := s.entry(t, "GET", path+"/statistics", nil, 200)["meaning_reliability"].(object)
	require.EqualValues(t, 1, against["questions"])
	require.EqualValues(t, 3, against["pairs"])
	require.InDelta(t, 1.0/3, against["agreement"], 1e-12)
	require.InDelta(t, 0.5, against["f1"], 1e-12)
}

// meaningIsOnPages checks the pages of a task whose first question has two meanings and whose second has one.
func (s *site) meaningIsOnPages(t *testing.T, id, model string) {
	t.Helper()
	answers := "/tasks/" + id + "/results"
	letters := func(query string) (all []string) {
		s.get(t, answers+query).page(t).Find("article.result").Each(func(_ int, card *goquery.Selection) {
			all = append(all, strings.Join(strings.Fields(card.Find(".verdict .strip").Text()), ""))
		})
		return all
	}
	require.Equal(t, []string{"ABC", "AAA"}, letters("?sort=number&by=words"))
	byMeaning := letters("?sort=number&by=meaning")
	require.Len(t, byMeaning, 2)
	require.Equal(t, 2, strings.Count(byMeaning[0], "A"))
	require.Equal(t, 1, strings.Count(byMeaning[0], "B"))
	require.Equal(t, "AAA", byMeaning[1])

	page := s.get(t, answers+"?sort=number&by=meaning&view=merged").page(t)
	card := page.Find("article.result").First()
	require.Contains(t, card.Find(".meaning").Text(), "意思不同 · 2 种")
	require.Contains(t, card.Find(".meaning").Text(), "×2 x")
	require.Contains(t, card.Find(".verdict").Text(), "2 种意思")
	require.Contains(t, card.Find(".verdict").Text(), "按意思一致率 33.3%")
	require.Empty(t, page.Find("article.result").Eq(1).Find(".meaning").Text(), "equal answers need no grouping")
	require.Equal(t, "true", page.Find("[data-by=meaning]").AttrOr("aria-current", ""))
	require.Contains(t, page.Find(".fingerprint figcaption").Text(), "按意思")
	require.Contains(t, s.get(t, "/tasks/"+id+"/report").page(t).Text(), "按意思一致率 66.7%")
	numbers := s.entry(t, "GET", "comparison?a="+id+"&b="+id, nil, 200)["differences"].(object)
	require.EqualValues(t, 2, numbers["meaning_agreement"].(object)["n"])
	require.Contains(t, s.get(t, "/comparison?a="+id+"&b="+id).page(t).Find("table.changes").Text(), "按意思一致率")

	for filter, questions := range map[string]int{"meaning-same": 1, "meaning-different": 1, "meaning-unsure": 0} {
		require.Equal(t, questions, s.get(t, answers+"?filter="+filter).page(t).Find("article.result").Length(), filter)
	}
	require.Equal(t, http.StatusSeeOther, s.get(t, answers+"?by=x").StatusCode, "leads to the nearest page there is")
	lines := strings.Split(strings.TrimSpace(string(s.get(t, api+"/"+id+"/export?format=jsonl").body)), "\n")
	var exported struct {
		Variants []struct {
			Meaning struct {
				By, Letters string
				Notes       []string
				Agreement   float64
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &exported))
	said := exported.Variants[0].Meaning
	require.Equal(t, "model", said.By)
	require.Equal(t, []string{"x", "y"}, said.Notes)
	require.InDelta(t, 1.0/3, said.Agreement, 1e-12)
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx&lang=en").body))
	require.NoError(t, err)
	rows, err := book.GetRows("Stability")
	require.NoError(t, err)
	s.entry(t, "GET", "evaluation-tasks?lang=de", nil, 422)
	from := slices.Index(rows[0], "meaning_letters")
	require.Equal(t, []string{"meaning_letters", "meaning_agreement", "meaning_by", "meaning_unsure", "meaning_reviewer"},
		rows[0][from:])
	require.Equal(t, said.Letters, rows[1][from])
	require.Equal(t, "model", rows[1][from+2])
	require.Equal(t, "equal", rows[2][from+2])

	form := s.get(t, "/?from="+id).page(t)
	require.Equal(t, model, form.Find("[name=meaning_model] option[selected]").AttrOr("value", ""))
	settings := s.get(t, "/tasks/"+id+"/settings").page(t)
	require.Equal(t, model, settings.Find("#meanings [name=model_id] option[selected]").AttrOr("value", ""))
	require.Equal(t, http.StatusUnprocessableEntity,
		s.post(t, "/tasks/"+id+"/meanings", map[string]string{"model_id": ""}).StatusCode)
	require.Equal(t, http.StatusSeeOther, s.post(t, "/tasks/"+id+"/meanings",
		map[string]string{"model_id": model}).StatusCode)
	s.awaitDone(t, id)
}

// peopleCorrectOnPages has a person separate the answers to the first question on its page, and merge them again.
func (s *site) peopleCorrectOnPages(t *testing.T, task string) {
	t.Helper()
	at := task + "/results/1/meaning"
	require.Equal(t, at, s.get(t, task+"/results?sort=number&by=meaning&view=merged").page(t).Find("[data-regroup]").
		First().AttrOr("href", ""))
	page := s.get(t, at).page(t)
	require.Equal(t, 3, page.Find("[data-group='0'] [data-answer]").Length(), "韩梅 put all into one group")
	require.Equal(t, "2", page.Find("[name=version]").AttrOr("value", ""))
	values := map[string]string{"version": "1", "reviewer": "李雷"}
	page.Find("select").Each(func(n int, choice *goquery.Selection) {
		values[choice.AttrOr("name", "")] = strconv.Itoa(n)
	})
	conflict := s.post(t, at, values)
	require.Equal(t, http.StatusConflict, conflict.StatusCode)
	require.Contains(t, conflict.page(t).Find("[role=alert]").Text(), "重新分组")
	values["version"] = "2"
	require.Equal(t, http.StatusSeeOther, s.post(t, at, values).StatusCode)
	require.Equal(t, 3, s.get(t, at).page(t).Find("[data-group]:has([data-answer])").Length())
	undo := map[string]string{"version": "3", "reviewer": "韩梅", "withdraw": "true"}
	require.Equal(t, "撤回 李雷 的分组", s.get(t, at).page(t).Find("[name=withdraw]").Text())
	require.Equal(t, http.StatusSeeOther, s.post(t, at, undo).StatusCode)
	page = s.get(t, at).page(t)
	require.Equal(t, 2, page.Find("[data-group]:has([data-answer])").Length(), "the model's groups count again")
	require.Equal(t, "3", page.Find("[name=version]").AttrOr("value", ""))
	require.Zero(t, page.Find("[name=withdraw]").Length())
	require.Equal(t, http.StatusConflict, s.post(t, at, undo).StatusCode, "it was withdrawn already")
	values["version"], values["reviewer"] = "3", " "
	require.Equal(t, http.StatusUnprocessableEntity, s.post(t, at, values).StatusCode)
	delete(values, "group-1")
	values["reviewer"] = "李雷"
	require.Contains(t, s.post(t, at, values).page(t).Find("[role=alert]").Text(), "第 1 次运行")
	values["group-1"], values["group-2"], values["group-3"] = "0", "0", "0"
	require.Equal(t, http.StatusSeeOther, s.post(t, at, values).StatusCode)
	require.Contains(t, s.get(t, task+"/report").page(t).Text(), "人工看过 1 题的模型分组")
	card := s.get(t, task+"/results?sort=number&by=meaning&view=merged").page(t).Find("article.result").First()
	require.Contains(t, card.Find(".meaning").Text(), "李雷 人工分组")
	require.Empty(t, s.get(t, task+"/results/2/meaning").page(t).Find("form.regroup").Length(), "equal answers")
}
