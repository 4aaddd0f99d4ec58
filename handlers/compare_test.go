package handlers_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/jobs/agent/agenttest"
)

// createForm returns the fields of a form for a task as a browser would send them.
func createForm(page *goquery.Document) map[string]string {
	fields := map[string]string{}
	page.Find("#create input, #create select, #create textarea").Each(func(_ int, field *goquery.Selection) {
		name, value := field.AttrOr("name", ""), field.AttrOr("value", "")
		switch {
		case name == "" || name == "dataset_file":
			return
		case goquery.NodeName(field) == "textarea":
			value = field.Text()
		case goquery.NodeName(field) == "select":
			value = field.Find("option[selected]").AttrOr("value", "")
		case field.AttrOr("type", "") == "checkbox":
			if _, isChecked := field.Attr("checked"); !isChecked {
				return
			}
		}
		if before := fields[name]; before != "" && (name == "prompts" || name == "models" || name == "agents") {
			value = before + "," + value
		}
		fields[name] = value
	})
	return fields
}

// A comparison is composed in its form: it is estimated while the user fills in the form, saved as a draft, changed,
// started and copied.
func TestAComparisonIsPutTogetherInItsForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	chat := agenttest.New(t, openAIChat("Paris"))
	provider := s.entry(t, "POST", "providers",
		object{"name": "p", "protocol": "openai", "base_url": chat.URL, "rate_limit": "unlimited"}, 201)["id"]
	model := func(name string) string {
		return s.entry(t, "POST", "models", object{"provider_id": provider, "model_id": name}, 201)["id"].(string)
	}
	first, second := model("m1"), model("m2")
	prompt := s.entry(t, "POST", "prompts", object{"name": "short", "user": "{{question}}"}, 201)["id"].(string)
	s.entry(t, "POST", "prompts/"+prompt+"/versions", object{"user": "{{question}} {{tone}}"}, 201)

	form := createForm(s.get(t, "/compare").page(t))
	require.Equal(t, "compare", form["form"])
	// newest first, as in the list
	form["task_name"], form["models"], form["prompts"] = "which", second+","+first, prompt+"@2,"+prompt+"@1"
	page := s.post(t, "/compare/estimate", form).page(t)
	require.Equal(t, 4, page.Find("#estimate ol li").Length())
	require.Equal(t, form, func() map[string]string {
		got := createForm(page)
		delete(got, "dataset_token")
		return got
	}(), "nothing that was chosen is lost")
	require.Empty(t, page.Find("#estimate .error").Text())

	form["models"] = first + "," + uuid.NewString()
	require.NotEmpty(t, s.post(t, "/compare/estimate", form).page(t).Find("#estimate .error").Text())
	form["models"], form["file@q.csv"], form["runs_per_item"] = second+","+first, questions, "3"
	page = s.post(t, "/compare/estimate", form).page(t)
	require.Contains(t, page.Find("#estimate .facts").Text(), "24")
	require.Contains(t, page.Find("#estimate .note").Text(), "tone", "a variable that no column has")
	require.Contains(t, page.Find("#estimate .note").Text(), "m1", "prices that are missing")

	// Invalid values are shown again with all others.
	form = createForm(page)
	require.NotEmpty(t, form["dataset_token"])
	form["task_name"] = ""
	page = s.post(t, "/tasks", form).page(t)
	require.NotEmpty(t, page.Find("#task_name-error").Text())
	form = createForm(page)
	require.Equal(t, second+","+first, form["models"], "in the order of the list")

	form["task_name"], form["start"] = "which", "false"
	path := saved(t, s.post(t, "/tasks", form))
	id := strings.TrimPrefix(path, "/tasks/")
	edit := s.get(t, path).page(t).Find("a[href*='draft=']").AttrOr("href", "")
	require.Equal(t, "/compare?draft="+id, edit)
	form = createForm(s.get(t, edit).page(t))
	require.Equal(t, second+","+first, form["models"])
	require.Equal(t, "3", form["runs_per_item"])
	form["prompts"], form["runs_per_item"] = prompt+"@2", "2"
	delete(form, "start")
	saved(t, s.post(t, "/tasks", form))
	s.awaitDone(t, id)
	require.Len(t, chat.Calls(), 2*2*2, "two models, two questions, two runs")

	// A copy keeps the entries that the library still offers, and names the others.
	s.entry(t, "DELETE", "models/"+second, nil, 204)
	page = s.get(t, "/compare?from="+id).page(t)
	require.Contains(t, page.Find("p.note").Text(), "m2")
	form = createForm(page)
	require.Equal(t, first, form["models"])
	require.Equal(t, prompt+"@2", form["prompts"])
	require.Equal(t, "/compare?from="+id, s.get(t, "/?from="+id).Header.Get("Location"),
		"the plain form has no place for it")

	many := []string{}
	for range 21 {
		many = append(many, prompt+"@1")
	}
	form["prompts"] = strings.Join(many, ",")
	require.NotEmpty(t, s.post(t, "/compare/estimate", form).page(t).Find("#estimate .error").Text(),
		"more variants than a task has")
	require.Equal(t, 422, s.post(t, "/tasks", form).StatusCode)
}

// The plain form accepts a saved agent and a saved dataset, and keeps the address that was typed before.
func TestThePlainFormOffersWhatIsSaved(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	require.Equal(t, 0, s.get(t, "/").page(t).Find("select[name=agents], select[name=dataset]").Length(),
		"nothing is saved")
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	agent := s.entry(t, "POST", "agents", object{"name": "a", "protocol": "default", "url": fake.URL,
		"rate_limit": "unlimited"}, 201)["id"].(string)
	path := saved(t, s.post(t, "/library/datasets", map[string]string{"name": "d", "file@q.csv": questions}))
	form := createForm(s.get(t, "/").page(t))
	form["agent_api_url"], form["agents"], form["dataset"] = "http://127.0.0.1:1/typed", agent,
		strings.TrimPrefix(path, "/library/datasets/")
	page := s.post(t, "/tasks", form).page(t)
	require.NotEmpty(t, page.Find("#task_name-error").Text())
	form = createForm(page)
	require.Equal(t, "http://127.0.0.1:1/typed", form["agent_api_url"])
	require.Equal(t, agent, form["agents"])
	require.Contains(t, page.Find("#preview").Text(), "q.csv")
	form["task_name"], form["runs_per_item"] = "saved", "2"
	require.Equal(t, "/tasks", saved(t, s.post(t, "/tasks", form)))
	id := s.get(t, "/tasks").page(t).Find("tr[id^=task-]").AttrOr("id", "")
	s.awaitDone(t, strings.TrimPrefix(id, "task-"))
	require.Len(t, fake.Calls(), 4)
	require.Contains(t, s.get(t, path).page(t).Find(".uses").Text(), "saved", "where the dataset is used")
}

// Entries that failed their last test come last in their list, the estimate lists every variant, and one page leads to
// both kinds of comparison.
func TestTheFormForVariantsOffersWhatWorksFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Query == "bad" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		agenttest.Stream(w, "x")
	})
	var agents []string
	for n := range 12 {
		query := "good"
		if n == 11 { // the newest one, which would otherwise come first
			query = "bad"
		}
		made := s.entry(t, "POST", "agents", object{"name": fmt.Sprintf("智能体 %d", n), "protocol": "default",
			"url": fake.URL + "/?" + query, "rate_limit": "unlimited"}, 201)
		agents = append(agents, made["id"].(string))
	}
	s.entry(t, "POST", "agents/"+agents[11]+"/test", object{"question": "q"}, 200)
	page := s.get(t, "/compare").page(t)
	offered := page.Find("input[type=checkbox][name=agents]")
	require.Equal(t, agents[11], offered.Last().AttrOr("value", ""), "what failed is at the end")
	require.Equal(t, 1, page.Find(".choice .tested .tag").Length())
	require.Equal(t, []string{"/compare", "/comparison"},
		page.Find(".subnav a").Map(func(_ int, link *goquery.Selection) string {
			return link.AttrOr("href", "")
		}))
	require.Equal(t, 2, s.get(t, "/comparison").page(t).Find(".subnav a").Length())

	var prompts []string
	for _, name := range []string{"one", "two"} {
		prompts = append(prompts, s.entry(t, "POST", "prompts", object{"name": name, "user": "{{question}}"},
			201)["id"].(string))
	}
	estimate := s.post(t, "/compare/estimate",
		map[string]string{"prompts": strings.Join(prompts, ","), "agents": strings.Join(agents, ","), "runs_per_item": "1",
			"file@q.csv": questions}).page(t).Find("#estimate")
	require.Equal(t, 24, estimate.Find(".variants li").Length(), "also more than a task may have")
	require.NotEmpty(t, estimate.Find(".error").Text())
}

// Earlier versions of a dataset can be chosen in both forms, and the chosen one stays chosen.
func TestAnEarlierVersionOfADatasetIsChosenInTheForms(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, openAIChat("x"))
	path := saved(t, s.post(t, "/library/datasets",
		map[string]string{"name": "题库", "file@q.csv": "question,standard_answer\nold 1,a\nold 2,a\n"}))
	saved(t, s.post(t, path+"/versions", map[string]string{"file@q.csv": "question,standard_answer\nnew,a\n"}))
	id := strings.TrimPrefix(path, "/library/datasets/")
	saved(t, s.post(t, "/library/datasets", map[string]string{"name": "只有一版", "file@q.csv": questions}))
	model, _ := s.chatTarget(t, "m", fake.URL)
	for place, more := range map[string]map[string]string{"/": {"agent_api_url": fake.URL},
		"/compare": {"models": model}} {
		page := s.get(t, place).page(t)
		require.Equal(t, 1, page.Find(".field-row:has(#dataset_file) select[name=dataset]").Length(),
			"%s: saved questions and a file are in one place", place)
		group := page.Find("select[name=dataset] optgroup")
		require.Equal(t, 1, group.Length(), "%s: one dataset has several versions", place)
		require.Equal(t, "题库", group.AttrOr("label", ""))
		require.Equal(t, []string{id, id + "@1"}, group.Find("option").Map(func(_ int, option *goquery.Selection) string {
			return option.AttrOr("value", "")
		}), place)
		require.Equal(t, "题库 v1 · 2 题", group.Find("option").Last().Text())

		form := createForm(page)
		form["dataset"], form["start"] = id+"@1", "false"
		maps.Copy(form, more)
		page = s.post(t, "/tasks", form).page(t) // without a name
		require.NotEmpty(t, page.Find("#task_name-error").Text(), place)
		require.Equal(t, id+"@1", page.Find("select[name=dataset] option[selected]").AttrOr("value", ""), place)
		require.Contains(t, page.Find("#preview").Text(), "old 1", place)
		form["task_name"] = "旧版"
		where := saved(t, s.post(t, "/tasks", form))
		require.NotEmpty(t, where)
		var made struct {
			Version int `db:"dataset_version"`
			Items   int `db:"total_items"`
		}
		require.NoError(t, s.tables.Get(&made,
			`SELECT dataset_version, total_items FROM evaluation_tasks ORDER BY created_at DESC LIMIT 1`))
		require.Equal(t, 1, made.Version, place)
		require.Equal(t, 2, made.Items, place)
	}
	tasks := s.get(t, "/library/schedules/new").page(t).Find("select[name=task_id] option")
	require.Contains(t, tasks.Text(), "旧版 · q.csv v1", "a schedule's form says which version its task has")
}

// The agent of a form, or of a task, can be saved in the library with its secrets.
func TestATypedAgentIsSaved(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	fields := map[string]string{
		"agent_api_url": fake.URL + "/run?key=canary", "agent_api_headers": `{"X-Key":"canary"}`,
		"extra_payload": `{"p":"canary"}`, "agent_model": "m",
		"rate_limit": "unlimited", "runs_per_item": "1",
	}
	require.NotEmpty(t, s.post(t, "/tasks/agent", map[string]string{"agent_api_url": "ftp://x"}).page(t).Find(
		".error").Text())
	answer := s.post(t, "/tasks/agent", fields).page(t)
	path := answer.Find("#agent-saved a").AttrOr("href", "")
	require.True(t, strings.HasPrefix(path, "/library/agents/"), path)

	id := s.create(t, fields["agent_api_url"], fields)
	s.awaitDone(t, id)
	again := saved(t, s.post(t, "/tasks/"+id+"/agent", nil))
	require.NotEqual(t, path, again)
	before := len(fake.Calls())
	for _, one := range []string{path, again} {
		page := s.get(t, one)
		require.Equal(t, 200, page.StatusCode)
		s.entry(t, "POST", "agents/"+strings.TrimPrefix(one, "/library/agents/")+"/test", object{"question": "q"}, 200)
	}
	require.NotContains(t, string(s.get(t, again).body), "canary",
		"the payload of a task is not copied to where it would be shown")
	calls := fake.Calls()[before:]
	require.Len(t, calls, 2)
	require.Equal(t, "canary", calls[0].Body["p"], "that of the form is")
	for _, call := range calls {
		require.Equal(t, "canary", call.Header.Get("X-Key"))
		require.Equal(t, "m", call.Body["model"])
		require.Equal(t, "key=canary", call.Query)
	}
}

// The request of a run can be read, without its secrets; tokens and cost are summed up by launch and task.
func TestWhatWasSentAndSpentIsShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	chat := agenttest.New(t, openAIChat("Paris"))
	provider := s.entry(t, "POST", "providers",
		object{"name": "p", "protocol": "openai", "base_url": chat.URL, "api_key": "canary", "rate_limit": "unlimited"},
		201)["id"]
	model := s.entry(t, "POST", "models", object{
		"provider_id": provider, "model_id": "m1", "parameters": object{"seed": 7}, "input_price": "1000000",
		"output_price": "1000000", "currency": "CNY"}, 201)["id"].(string)
	prompt := s.entry(t, "POST", "prompts", object{"name": "short", "system": "be short", "user": "Q: {{question}}"},
		201)["id"].(string)
	id := s.create(t, "", map[string]string{"models": model, "prompts": prompt, "runs_per_item": "1"})
	s.awaitDone(t, id)
	run := s.runs(t, id)["q1"][0]
	var sent object
	s.get(t, api+"/"+id+"/runs/"+run.id()+"/input").into(t, &sent)
	require.Equal(t, "openai", sent["protocol"])
	require.Equal(t, chat.URL+"/chat/completions", sent["url"])
	require.Equal(t, false, sent["omits_extra_payload"])
	body := sent["body"].(object)
	require.EqualValues(t, 7, body["seed"])
	require.Equal(t, object{"role": "system", "content": "be short"}, body["messages"].([]any)[0])
	found := false
	for _, call := range chat.Calls() {
		found = found || assert.ObjectsAreEqual(call.Body, body)
	}
	require.True(t, found, "what is shown is what was sent: %v", body)
	require.Equal(t, 404, s.get(t, api+"/"+id+"/runs/999999/input").StatusCode)
	page := s.get(t, "/tasks/"+id+"/runs/"+run.id())
	require.Contains(t, page.page(t).Find("details pre").Text(), "be short")
	require.NotContains(t, string(page.body), "canary")

	var task struct{ Statistics object }
	s.get(t, api+"/"+id).into(t, &task)
	require.EqualValues(t, 24, task.Statistics["total_tokens"])
	require.Equal(t, "24", task.Statistics["cost"])
	require.Equal(t, "CNY", task.Statistics["currency"])
	require.Contains(t, s.get(t, "/tasks/"+id+"/gallery").page(t).Find("#launches tbody").Text(), "24 CNY")

	plain := s.create(t, agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		agenttest.Stream(w, "x")
	}).URL, map[string]string{"extra_payload": `{"p":"canary"}`, "runs_per_item": "1", "rate_limit": "unlimited"})
	s.awaitDone(t, plain)
	answer := s.get(t, api+"/"+plain+"/runs/"+s.runs(t, plain)["q1"][0].id()+"/input")
	require.NotContains(t, string(answer.body), "canary")
	answer.into(t, &sent)
	require.Equal(t, true, sent["omits_extra_payload"])
	s.get(t, api+"/"+plain).into(t, &task)
	require.Nil(t, task.Statistics["total_tokens"], "unknown stays unknown")
}

// A long list of models can be filtered, and each model shows its provider.
func TestManyModelsAreNarrowedByWhatIsTyped(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	provider := s.entry(t, "POST", "providers",
		object{"name": "某厂", "protocol": "openai", "base_url": "https://models.example/v1"}, 201)["id"]
	models := func() *goquery.Selection {
		return s.get(t, "/compare").page(t).Find("fieldset:has([name=models])")
	}
	for n := range 8 {
		if n == 7 {
			require.Zero(t, models().Find("[data-filter-choices]").Length(), "all are in sight")
		}
		s.entry(t, "POST", "models", object{"name": fmt.Sprint("模型 ", n), "provider_id": provider,
			"model_id": fmt.Sprint("m", n)}, 201)
	}
	require.Equal(t, 1, models().Find("[data-filter-choices]").Length())
	require.Contains(t, models().Find(".choice").First().Text(), "某厂 · m7")
}

// The workbook of a comparison has a sheet with the variants' numbers in numeric cells; its first sheet has no
// empty lines.
func TestTheWorkbookOfAComparisonHasItsNumbers(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	model, _ := s.chatTarget(t, "会答", agenttest.New(t, chatting(func(string) string { return "Paris" })).URL)
	other, _ := s.chatTarget(t, "不会", agenttest.New(t, chatting(func(string) string { return "London" })).URL)
	s.entry(t, "PATCH", "models/"+model, object{"input_price": "100", "output_price": "100", "currency": "CNY"}, 200)
	evaluator := s.evaluator(t, "对", "contains", object{})
	id := s.create(t, "", map[string]string{
		"task_name": "比", "models": model + "," + other, "evaluators": evaluator, "runs_per_item": "2",
		"file@q.csv": "question,standard_answer\nq1,Paris\nq2,Paris\nq3,London\n",
	})
	s.awaitDone(t, id)
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx").body))
	require.NoError(t, err)
	defer book.Close()
	require.Equal(t, []string{"任务信息", "评测结果", "方案", "稳定性"}, book.GetSheetList())
	shown, err := book.GetRows("方案")
	require.NoError(t, err)
	raw, err := book.GetRows("方案", excelize.Options{RawCellValue: true})
	require.NoError(t, err)
	require.Len(t, shown, 3)
	cell := func(rows [][]string, title string, row int) string {
		place := slices.Index(rows[0], title)
		require.GreaterOrEqual(t, place, 0, "%s in %v", title, rows[0])
		return append(rows[row], make([]string, len(rows[0]))...)[place]
	}
	statistics := s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["variants"].([]any)
	for row := 1; row <= 2; row++ {
		want := statistics[row-1].(object)
		passed, err := strconv.ParseFloat(cell(raw, "评估通过率", row), 64)
		require.NoError(t, err)
		require.InDelta(t, want["pass_rate"], passed, 1e-9)
		latency, err := strconv.ParseFloat(cell(raw, "耗时 P50 (ms)", row), 64)
		require.NoError(t, err)
		require.InDelta(t, want["latency_p50_ms"], latency, 1e-9)
	}
	require.Equal(t, "66.67%", cell(shown, "评估通过率", 1))
	require.NotEmpty(t, cell(raw, "评估通过率：95% 置信区间下限", 1))
	require.Equal(t, []string{"330", "0.033", "CNY", ""}, []string{
		cell(raw, "Token 用量", 1), cell(raw, "费用", 1), cell(raw, "币种", 1), cell(raw, "费用", 2),
	})
	kind, err := book.GetCellType("方案", "E2")
	require.NoError(t, err)
	require.Equal(t, excelize.CellTypeUnset, kind, "a number is a number")
	info, err := book.GetRows("任务信息")
	require.NoError(t, err)
	for _, line := range info {
		require.True(t, len(line) == 2 && line[1] != "–", "%v", line)
	}
}

// The summary states by how much the best variant is ahead of the next best, with the interval, and compares their
// costs; tables have intervals, not standard errors.
func TestASummaryHasAmounts(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	right := chatting(func(string) string { return "Paris" })
	good, _ := s.chatTarget(t, "好", agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		time.Sleep(200 * time.Millisecond) // this target is also more expensive; a busy machine adds a smaller delay
		right(w, call)
	}).URL)
	var calls atomic.Int64
	wrong := chatting(func(string) string { return []string{"London", "Paris"}[calls.Add(1)%2] })
	bad, _ := s.chatTarget(t, "差", agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		time.Sleep(3 * time.Millisecond)
		wrong(w, call)
	}).URL)
	for model, price := range map[string]string{good: "1000", bad: "100"} {
		s.entry(t, "PATCH", "models/"+model, object{"input_price": price, "output_price": price, "currency": "CNY"}, 200)
	}
	var rows strings.Builder
	for n := range 6 {
		fmt.Fprintf(&rows, "q%d,Paris\n", n)
	}
	judge := s.evaluator(t, "对", "contains", object{})
	id := s.create(t, "", map[string]string{
		"task_name": "比", "models": good + "," + bad, "evaluators": judge, "runs_per_item": "3", "concurrency": "1",
		"file@q.csv": "question,standard_answer\n" + rows.String(),
	})
	s.awaitDone(t, id)
	text := s.get(t, "/tasks/"+id+"/report").page(t).Find(".synopsis").Text()
	statistics := s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["variants"].([]any)
	rate := func(n int) float64 { return statistics[n].(object)["pass_rate"].(float64) }
	require.Contains(t, text, fmt.Sprintf("；比方案 2 高 %.1f 个百分点（95%% 置信区间 ", 100*(rate(0)-rate(1))))
	require.Regexp(t, `平均耗时：方案 2 .*；比方案 1 低 \d+ ms（95% 置信区间 [\d.]+ 至 [\d.]+ ms）`, text)
	require.Contains(t, text, "方案 1 与方案 2 相比：每次运行费用 0.055 CNY 对 0.0055 CNY（10 倍）；平均耗时 ")
	for _, page := range []string{"/variants", "/report"} {
		require.NotContains(t, s.get(t, "/tasks/"+id+page).page(t).Find("table").Text(), "±", page)
	}
	// The variants' pass rates are in the list, the task's is on its page, and each answer links to the request.
	whole := s.entry(t, "GET", "evaluation-tasks/"+id, nil, 200)["statistics"].(object)["pass_rate"].(float64)
	require.Equal(t, fmt.Sprintf("%.1f%% – %.1f%%", 100*min(rate(0), rate(1)), 100*max(rate(0), rate(1))),
		strings.TrimSpace(s.get(t, "/tasks").page(t).Find("td.col-pass_rate").Text()))
	require.Regexp(t, fmt.Sprintf(`评估通过率\s*\?\s*%.1f%%`, 100*whole), s.get(t, "/tasks/"+id).page(t).Text())
	run := s.get(t, "/tasks/"+id+"/results").page(t).Find(".run header > a").First()
	require.Equal(t, "#1", run.Text())
	require.Equal(t, http.StatusOK, s.get(t, run.AttrOr("href", "")).StatusCode)
	small := s.get(t, "/tasks/"+id+"/variants").page(t).Find(".variants-table small[title='95% 置信区间']").Text()
	require.Contains(t, small, " – ", "the interval of the agreement")
}
