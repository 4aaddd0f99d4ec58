package handlers_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// compared is a small library: two prompts, two models and a dataset of three questions.
type compared struct {
	steady, unsteady *agenttest.Agent
	prompts, models  []string
	dataset          string
}

func newCompared(t *testing.T, s *site) compared {
	t.Helper()
	var asked sync.Map // counted per question, because the order of calls must not matter
	c := compared{
		steady: agenttest.New(t, openAIChat("42")),
		unsteady: agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
			count, _ := asked.LoadOrStore(fmt.Sprint(call.Body["messages"]), new(atomic.Int64))
			openAIChat([]string{"42", "41", "43"}[(count.(*atomic.Int64).Add(1)-1)%3])(w, call)
		}),
	}
	for name, user := range map[string]string{"简短": "简短回答：{{question}}", "详细": "{{level}} 详细回答：{{question}}"} {
		saved := s.entry(t, "POST", "prompts", object{"name": name, "system": "你是" + name + "的助手", "user": user}, 201)
		c.prompts = append(c.prompts, saved["id"].(string))
	}
	if s.entry(t, "GET", "prompts/"+c.prompts[0], nil, 200)["name"] != "简短" { // maps have no order
		c.prompts[0], c.prompts[1] = c.prompts[1], c.prompts[0]
	}
	for n, model := range []*agenttest.Agent{c.steady, c.unsteady} {
		name := []string{"steady", "unsteady"}[n]
		provider := s.entry(t, "POST", "providers",
			object{"name": name, "protocol": "openai", "base_url": model.URL, "api_key": "canary-key",
				"rate_limit": "unlimited"}, 201)
		saved := s.entry(t, "POST", "models", object{"provider_id": provider["id"], "model_id": name, "input_price": "2",
			"output_price": "10", "currency": "USD"}, 201)
		c.models = append(c.models, saved["id"].(string))
	}
	saved := object{}
	s.post(t, libraryAPI+"datasets", map[string]string{"name": "题库",
		"file@q.csv": "question_id,question,standard_answer,level\nq1,一,42,高\nq2,二,42,低\nq3,三,42,低\n"}).into(t, &saved)
	c.dataset = saved["id"].(string)
	return c
}

func (c compared) task() object {
	return object{"task_name": "对比", "dataset": c.dataset, "prompts": c.prompts, "models": c.models, "runs_per_item": 5,
		"concurrency": 4}
}

func TestATaskComparesPromptsAndModels(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	c := newCompared(t, s)
	estimate := s.entry(t, "POST", "evaluation-tasks/estimate", c.task(), 200)
	require.EqualValues(t, 60, estimate["calls"])
	require.Empty(t, estimate["warnings"])
	require.Nil(t, estimate["cost"], "no run tells yet")
	require.Equal(t, "USD", estimate["currency"])
	created := s.entry(t, "POST", "evaluation-tasks", c.task(), 201)
	require.EqualValues(t, 60, created["calls"])
	variants := created["variants"].([]any)
	require.Len(t, variants, 4)
	var names []string
	for n, one := range variants {
		variant := one.(object)
		require.EqualValues(t, n+1, variant["number"])
		require.Equal(t, "model", variant["kind"])
		require.Equal(t, "openai", variant["protocol"])
		require.EqualValues(t, 1, variant["prompt_version"])
		names = append(names, variant["name"].(string))
	}
	require.Equal(t, []string{"简短 v1 × steady", "简短 v1 × unsteady", "详细 v1 × steady", "详细 v1 × unsteady"}, names)
	id := created["task_id"].(string)
	path := "evaluation-tasks/" + id
	s.awaitDone(t, id)
	detail := s.entry(t, "GET", path, nil, 200)
	require.EqualValues(t, 60, detail["total_runs"])
	require.Empty(t, detail["agent_api_url"])
	require.Len(t, detail["variants"], 4)
	require.Empty(t, detail["evaluators"])

	// The model receives the prompt.
	for _, call := range c.steady.Calls() {
		messages := call.Body["messages"].([]any)
		require.Len(t, messages, 2)
		system, user := messages[0].(object)["content"].(string), messages[1].(object)["content"].(string)
		if strings.Contains(system, "简短") {
			require.Contains(t, []string{"简短回答：一", "简短回答：二", "简短回答：三"}, user)
		} else {
			require.Contains(t, []string{"高 详细回答：一", "低 详细回答：二", "低 详细回答：三"}, user)
		}
		require.Equal(t, "Bearer canary-key", call.Header.Get("Authorization"))
	}

	results := s.entry(t, "GET", path+"/results", nil, 200)
	items := results["items"].([]any)
	require.Len(t, items, 3, "one item a question")
	first := items[0].(object)
	require.Equal(t, "q1", first["question_id"])
	require.Nil(t, first["level"], "each variant has its own")
	runs := first["runs"].([]any)
	require.Len(t, runs, 20)
	for n, one := range runs {
		run := one.(object)
		require.EqualValues(t, n/5+1, run["variant"])
		require.EqualValues(t, n%5+1, run["run_index"])
		require.EqualValues(t, 7, run["input_tokens"])
		require.EqualValues(t, 12, run["total_tokens"])
		require.Equal(t, "0.000064", run["cost"], "7 × 2 + 5 × 10, a millionth of it")
		require.Equal(t, "USD", run["currency"])
		require.NotNil(t, run["first_token_ms"])
		require.Empty(t, run["evaluations"])
	}
	alike := first["variants"].([]any)
	require.Len(t, alike, 4)
	require.Equal(t, "identical", alike[0].(object)["level"])
	require.Equal(t, "AAAAA", alike[0].(object)["letters"])
	require.Equal(t, "AAAAA", alike[2].(object)["letters"], "A is the same answer everywhere")
	require.Contains(t, alike[1].(object)["letters"], "A")
	require.Greater(t, alike[1].(object)["distinct"], 1.0)

	report := s.get(t, api+"/"+id+"/export?format=csv")
	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(report.body, []byte("\uFEFF")))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 13, "a row for each question and variant")
	column := map[string]int{}
	for n, name := range rows[0] {
		column[name] = n
	}
	require.Less(t, column["var_level"], column["_variant"])
	require.Equal(t, "2", rows[2][column["_variant"]])
	require.Equal(t, "简短 v1", rows[2][column["_prompt"]])
	require.Equal(t, "unsteady", rows[2][column["_target"]])
	require.Equal(t, "12", rows[2][column["run_5_total_tokens"]])
	require.Equal(t, "0.000064", rows[2][column["run_1_cost"]])
	lines := strings.Split(strings.TrimSpace(string(s.get(t, api+"/"+id+"/export?format=jsonl").body)), "\n")
	require.Len(t, lines, 3, "a line for each question")
	line := object{}
	require.NoError(t, json.Unmarshal([]byte(lines[2]), &line))
	require.Len(t, line["runs"], 20)
	require.Len(t, line["variants"], 4)
	require.Equal(t, http.StatusOK, s.get(t, api+"/"+id+"/export?format=xlsx").StatusCode)

	for _, page := range []string{"/tasks", "/tasks/" + id, "/tasks/" + id + "/results",
		"/tasks/" + id + "/results?view=merged", "/tasks/" + id + "/results?format=formatted",
		"/tasks/" + id + "/results/print", "/tasks/" + id + "/review"} {
		answer := s.get(t, page)
		require.Less(t, answer.StatusCode, 400, page)
		require.NotContains(t, string(answer.body), "canary", page)
	}
	shown := s.get(t, "/tasks/"+id+"/results?view=columns").page(t)
	require.Equal(t, 12, shown.Find("details.variant").Length())
	require.Equal(t, 60, shown.Find("details.variant .run").Length())

	metrics := string(s.get(t, "/metrics").body)
	require.Contains(t, metrics, `wending_agent_calls_total{kind="model",outcome="SUCCEEDED",protocol="openai"} 60`)
	require.Contains(t, metrics, `wending_tokens_total{direction="output",kind="model",protocol="openai"} 300`)

	statistics := s.entry(t, "GET", path+"/statistics", nil, 200)
	require.Equal(t, true, statistics["is_final"])
	require.EqualValues(t, 3, statistics["items_shared"])
	numbers := statistics["variants"].([]any)
	require.Len(t, numbers, 4)
	steady, unsteady := numbers[0].(object), numbers[1].(object)
	require.EqualValues(t, 15, steady["succeeded"])
	require.EqualValues(t, 1, steady["identical_rate"])
	require.Less(t, unsteady["agreement"], 1.0)
	require.EqualValues(t, 15*12, steady["total_tokens"])
	require.EqualValues(t, 15, steady["runs_with_cost"])
	require.Equal(t, "0.00096", steady["cost"])
	require.Equal(t, "USD", steady["currency"])
	require.EqualValues(t, 3, steady["levels"].(object)["identical"])

	compared := s.entry(t, "GET", "comparison?a="+id+":1&b="+id+":2", nil, 200)
	require.Len(t, compared["items"], 3)
	difference := compared["differences"].(object)["agreement"].(object)
	require.EqualValues(t, 3, difference["n"])
	require.Less(t, difference["difference"], 0.0)
	s.entry(t, "GET", "comparison?a="+id+":1&b="+id+":5", nil, 404)
	page := s.get(t, "/comparison?a="+id+":1&b="+id+":2").page(t)
	require.Contains(t, page.Find("main").Text(), "简短 v1 × unsteady")
	choice := s.get(t, "/comparison?a="+id+":2").page(t)
	require.Equal(t, 3, choice.Find(".choices a").Length(), "its own variants")

	count := func(query string) int {
		return len(s.entry(t, "GET", path+"/results?"+query, nil, 200)["items"].([]any))
	}
	require.Equal(t, 3, count("status=SUCCEEDED"))
	require.Zero(t, count("status=FAILED,STOPPED"))
	require.Zero(t, count("unstable=true&variant=1"))
	require.Equal(t, 3, count("unstable=true"))
	require.Equal(t, 3, count("sort=-agreement&variant=2"))
	one := s.entry(t, "GET", path+"/results?variant=2&sort=latency", nil, 200)["items"].([]any)[0].(object)["runs"].([]any)
	require.Len(t, one, 5)
	require.EqualValues(t, 2, one[0].(object)["variant"])
	s.entry(t, "GET", path+"/results?sort=name", nil, 422)
	s.entry(t, "GET", path+"/results?variant=9", nil, 404)
	s.entry(t, "GET", path+"/results?variant=0", nil, 422)

	// Entries of the library may change: the task keeps its copies, and so does a clone.
	s.entry(t, "DELETE", "models/"+c.models[0], nil, 204)
	s.entry(t, "PATCH", "prompts/"+c.prompts[0], object{"user": "anders"}, 200)
	require.Len(t, s.entry(t, "GET", "models?archived=true", nil, 200)["items"], 1)
	clone := s.entry(t, "POST", path+"/clone", object{"start": false, "runs_per_item": 1}, 201)
	require.Equal(t, variants, clone["variants"])
	require.EqualValues(t, 12, clone["calls"])
	again := s.entry(t, "POST", "evaluation-tasks/estimate",
		object{"dataset": c.dataset, "models": c.models[1:], "prompts": c.prompts[1:]}, 200)
	require.Equal(t, "0.00096", again["cost"], "15 calls as before")
	require.NotNil(t, again["duration_seconds"])
}

func TestWhatATaskNamesMustBeInTheLibrary(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	c := newCompared(t, s)
	for name, test := range map[string]struct {
		change object
		code   string
	}{
		"an unknown model":     {object{"models": []string{"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"}}, "PARAMETER_INVALID"},
		"no id":                {object{"prompts": []string{"x"}}, "PARAMETER_INVALID"},
		"an unknown version":   {object{"prompts": []string{c.prompts[0] + "@2"}}, "PARAMETER_INVALID"},
		"a version of a model": {object{"models": []string{c.models[0] + "@1"}}, "PARAMETER_INVALID"},
		"an unknown dataset":   {object{"dataset": c.dataset + "@7"}, "PARAMETER_INVALID"},
		"nobody to ask":        {object{"models": []string{}}, "AGENT_URL_REQUIRED"},
		"no questions":         {object{"dataset": ""}, "DATASET_REQUIRED"},
		"too many variants": {object{"models": strings.Split(strings.Repeat(c.models[0]+" ", 11)[:11*37-1], " ")},
			"TASK_TOO_LARGE"},
		"an address beside them": {object{"agent_api_url": "ftp://x"}, "AGENT_URL_INVALID"},
	} {
		body := c.task()
		for field, value := range test.change {
			body[field] = value
		}
		require.Equal(t, test.code, s.entry(t, "POST", "evaluation-tasks", body, 422)["code"], name)
	}
	body := c.task()
	body["agent_api_url"], body["start"] = c.steady.URL+"/x", false
	created := s.entry(t, "POST", "evaluation-tasks", body, 201)
	require.Len(t, created["variants"], 6, "an address is the last target")
	last := created["variants"].([]any)[5].(object)
	require.Equal(t, "url", last["kind"])
	require.Equal(t, "default", last["protocol"])
	warned := s.entry(t, "POST", "evaluation-tasks/estimate", object{"agent_api_url": c.steady.URL, "dataset": c.dataset,
		"prompts": s.entry(t, "POST", "prompts", object{"name": "x", "user": "{{nowhere}} {{question}}"}, 201)["id"]}, 200)
	require.Equal(t, "UNKNOWN_VARIABLES", warned["warnings"].([]any)[0].(object)["code"])

	// A form can also create such a task; it lists the models in one field, separated by commas.
	answer := s.post(t, api, map[string]string{"task_name": "f", "dataset": c.dataset,
		"models": strings.Join(c.models, ","), "start": "false"})
	require.Equal(t, http.StatusCreated, answer.StatusCode, string(answer.body))
}

// A task that has ended gets more runs, and only the missing ones are made.
func TestATaskIsExtended(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, call.Question) })
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "2"})
	s.awaitDone(t, id)
	asked := len(fake.Calls())
	path := "evaluation-tasks/" + id + "/extend"
	require.Equal(t, "PARAMETER_INVALID", s.entry(t, "POST", path, object{"runs_per_item": 21}, 422)["code"])
	require.Equal(t, "PARAMETER_INVALID", s.entry(t, "POST", path, object{"runs_per_item": 2}, 422)["code"],
		"it is not raised")
	require.Equal(t, "RUNNING", s.entry(t, "POST", path, object{"runs_per_item": 5}, 202)["status"])
	s.awaitDone(t, id)
	require.Len(t, fake.Calls(), asked/2*5)
	task := s.entry(t, "GET", "evaluation-tasks/"+id, nil, 200)
	require.EqualValues(t, 5, task["runs_per_item"])
	item := s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil, 200)["items"].([]any)[0].(object)
	require.Equal(t, "AAAAA", item["letters"])
	launches := s.entry(t, "GET", "evaluation-tasks/"+id+"/launches", nil, 200)["items"].([]any)
	require.Equal(t, "EXTEND", launches[0].(object)["kind"])
}

// The page of variants shows their numbers and their results for each question, and marks what is better beyond
// chance.
func TestVariantsStandSideBySide(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	c := newCompared(t, s)
	task := c.task()
	delete(task, "prompts")
	id := s.entry(t, "POST", "evaluation-tasks", task, 201)["task_id"].(string)
	s.awaitDone(t, id)
	path := "/tasks/" + id

	page := s.get(t, path+"/variants").page(t)
	rows := page.Find(".variants-table tbody tr")
	require.Equal(t, 2, rows.Length())
	require.Contains(t, rows.Eq(0).Text(), "100.0%")
	require.Equal(t, 3, page.Find(".variants-questions tbody tr").Length())
	require.Equal(t, "AAAAA", page.Find(".variants-questions tbody tr").First().Find(".strip").First().Text())
	require.Zero(t, rows.Eq(1).Find(".is-best").FilterFunction(func(_ int, cell *goquery.Selection) bool {
		return strings.Contains(cell.Text(), "%")
	}).Length())
	require.Equal(t, []string{id + ":1", id + ":2"},
		page.Find("[name=task]").Map(func(_ int, box *goquery.Selection) string {
			return box.AttrOr("value", "")
		}))
	require.Equal(t, "/comparison?a="+id+"%3A1&b="+id+"%3A2",
		s.get(t, "/comparison?task="+id+":1&task="+id+":2").Header.Get("Location"))

	// The report also shows the numbers, without the questions; each number links to its runs.
	part := s.fragment(t, path+"/variants").page(t)
	require.Equal(t, 2, part.Find(".variants-table tbody tr").Length())
	require.Zero(t, part.Find(".variants-questions").Length())
	require.Equal(t, path+"/variants", s.get(t, path+"/results").page(t).Find(".variants-room").AttrOr("hx-get", ""))
	steady := s.get(t, path+"/results?variant=1&filter=unstable").page(t)
	require.Zero(t, steady.Find("article.result").Length(), "the first variant never differs")
	unsteady := s.get(t, path+"/results?variant=2&filter=unstable").page(t)
	require.Equal(t, 3, unsteady.Find("article.result").Length())
	require.Equal(t, []string{"2"}, unsteady.Find("article.result").First().Find("details.variant[open]").Map(
		func(_ int, row *goquery.Selection) string {
			return row.AttrOr("data-variant", "")
		}))

	// The variants can be ordered by any column, and the list shows the lowest and highest agreement.
	for by, first := range map[string]string{"agreement": "1", "distinct": "1", "cost": "1", "": "1"} {
		rows := s.get(t, path+"/variants?sort=spread&by="+by).page(t).Find(".variants-table tbody .index")
		require.Equal(t, first, rows.First().Text(), by)
	}
	sorted := s.get(t, path+"/variants?by=agreement").page(t).Find(".variants-table [aria-sort]")
	require.Equal(t, "descending", sorted.AttrOr("aria-sort", ""))
	require.Equal(t, path+"/variants", sorted.Find("a").AttrOr("href", ""), "the second click restores the order")
	dbtest.Await(t, 20*time.Second, "the list to have both agreements", func() bool {
		return strings.Join(strings.Fields(s.get(t, "/tasks").page(t).Find("td.col-agreement a").Text()), " ") ==
			"20.0% – 100.0%"
	})

	for _, wrong := range []string{"/variants?by=name", "/variants?sort=name", "/results?variant=3",
		"/results?variant=x"} {
		require.Equal(t, http.StatusSeeOther, s.get(t, path+wrong).StatusCode, wrong)
	}
	draft := s.create(t, c.steady.URL, map[string]string{"start": "false"})
	require.Equal(t, http.StatusConflict, s.get(t, "/tasks/"+draft+"/variants").StatusCode)
}

// A reader of the report can add runs to every question, or retry one variant's failed runs.
func TestTheReportAsksMore(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var isDown atomic.Bool
	isDown.Store(true)
	agent := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if isDown.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		openAIChat("42")(w, call)
	})
	c := newCompared(t, s)
	provider := s.entry(t, "POST", "providers",
		object{"name": "down", "protocol": "openai", "base_url": agent.URL, "rate_limit": "unlimited",
			"retry_on": []string{}}, 201)
	model := s.entry(t, "POST", "models", object{"provider_id": provider["id"], "model_id": "down"}, 201)
	id := s.entry(t, "POST", "evaluation-tasks",
		object{"task_name": "t", "dataset": c.dataset, "models": []any{c.models[0], model["id"]}, "runs_per_item": 2},
		201)["task_id"].(string)
	s.awaitDone(t, id)
	path := "/tasks/" + id

	button := s.get(t, path+"/variants").page(t).Find(".variants-table button")
	require.Equal(t, 1, button.Length(), "only what failed can be retried")
	require.Equal(t, "2", button.AttrOr("value", ""))
	isDown.Store(false)
	answered := s.post(t, button.AttrOr("formaction", ""), map[string]string{"variant": "2", "task": id + ":1"})
	require.Equal(t, path+"?done=retry", answered.Header.Get("Location"))
	s.awaitDone(t, id)
	require.Len(t, agent.Calls(), 12, "each of the six once more")
	require.Len(t, c.steady.Calls(), 6)

	form := s.get(t, path+"/results").page(t).Find("form.extend")
	require.Equal(t, "3", form.Find("input").AttrOr("min", ""))
	require.Contains(t, form.Text(), "34.2%", "2 of 2")
	answered = s.post(t, form.AttrOr("action", ""), map[string]string{"runs_per_item": "4"})
	require.Equal(t, path+"?done=extend", answered.Header.Get("Location"))
	s.awaitDone(t, id)
	require.Len(t, agent.Calls(), 18)
	require.Len(t, c.steady.Calls(), 12)
	require.Equal(t, http.StatusUnprocessableEntity,
		s.post(t, path+"/extend", map[string]string{"runs_per_item": "21"}).StatusCode)
}

// chatTarget saves a provider with a model at an address, and returns the ids of the model and the provider.
func (s *site) chatTarget(t *testing.T, name, address string) (model, provider string) {
	t.Helper()
	provider = s.entry(t, "POST", "providers",
		object{"name": name, "protocol": "openai", "base_url": address, "api_key": "key of " + name,
			"rate_limit": "unlimited"}, 201)["id"].(string)
	return s.entry(t, "POST", "models", object{"provider_id": provider, "model_id": name}, 201)["id"].(string), provider
}

// A target that is down for a while, one that asks clients to wait, and one with a wrong key do not stop other
// targets from answering, and runs that can still succeed are made later.
func TestFaultyTargetsDisturbNoOther(t *testing.T) {
	t.Parallel()
	s := newSiteWith(t, 16)
	answer := openAIChat("Paris")
	well := agenttest.New(t, answer)
	var isUp atomic.Bool
	down := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if !isUp.Load() {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		answer(w, call)
	})
	var refused atomic.Int64
	busy := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if refused.Add(1) <= 3 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answer(w, call)
	})
	keyless := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"Incorrect API key provided"}}`)
	})
	var models []string
	for _, one := range []struct{ name, address string }{{"well", well.URL}, {"down", down.URL}, {"busy", busy.URL},
		{"keyless", keyless.URL}} {
		model, _ := s.chatTarget(t, one.name, one.address)
		models = append(models, model)
	}
	id := s.create(t, "", map[string]string{"models": strings.Join(models, ","), "runs_per_item": "3", "concurrency": "8",
		"max_retries": "5"})
	type tally struct{ Succeeded, Failed int }
	tallies := func() (of [4]tally) {
		var runs []struct {
			Variant int
			Status  string
		}
		require.NoError(t, s.tables.Select(&runs,
			`SELECT variant, status FROM evaluation_runs WHERE task_id = $1 AND is_current`, id))
		for _, run := range runs {
			if run.Status == "SUCCEEDED" {
				of[run.Variant-1].Succeeded++
			} else {
				of[run.Variant-1].Failed++
			}
		}
		return of
	}
	dbtest.Await(t, 20*time.Second, "the well target and the one with a wrong key to end while another is down",
		func() bool {
			now := tallies()
			return now[0] == tally{Succeeded: 6} && now[3] == tally{Failed: 6}
		})
	require.Zero(t, tallies()[1], "it is down")
	isUp.Store(true)
	s.awaitDone(t, id)
	require.Equal(t, [4]tally{{Succeeded: 6}, {Succeeded: 6}, {Succeeded: 6}, {Failed: 6}}, tallies())
	page := string(s.get(t, "/tasks/"+id+"/results?variant=4").body)
	require.Contains(t, page, "HTTP_401")
	require.Contains(t, page, "Incorrect API key provided")
}

// Changes in the library affect no existing task: neither its future calls nor a later retry.
func TestAChangedProviderReachesNoRunningTask(t *testing.T) {
	t.Parallel()
	s := newSiteWith(t, 4)
	release := make(chan struct{})
	answer := openAIChat("Paris")
	own := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		<-release
		answer(w, call)
	})
	other := agenttest.New(t, answer)
	model, provider := s.chatTarget(t, "own", own.URL)
	id := s.create(t, "", map[string]string{"models": model, "runs_per_item": "5", "concurrency": "2"})
	dbtest.Await(t, 20*time.Second, "the first calls", func() bool {
		return s.state(t, id).Statistics.Runs == 0 && len(own.Calls()) >= 2
	})
	s.entry(t, "PATCH", "providers/"+provider,
		object{"base_url": other.URL, "api_key": "another", "protocol": "anthropic"}, 200)
	s.entry(t, "PATCH", "models/"+model, object{"model_id": "another", "input_price": "1", "output_price": "1",
		"currency": "USD"}, 200)
	s.entry(t, "DELETE", "models/"+model, nil, 204)
	s.entry(t, "DELETE", "providers/"+provider, nil, 204)
	close(release)
	s.awaitDone(t, id)
	require.Empty(t, other.Calls())
	require.Len(t, own.Calls(), 10)
	for _, call := range own.Calls() {
		require.Equal(t, "Bearer key of own", call.Header.Get("Authorization"))
		require.Equal(t, "own", call.Body["model"])
	}
	var task struct{ Statistics object }
	s.get(t, api+"/"+id).into(t, &task)
	require.EqualValues(t, 10, task.Statistics["succeeded"])
	require.Nil(t, task.Statistics["cost"], "prices are frozen with the task: there were none")
}

// Each variant's answers are judged separately, and a copy of a task keeps the targets that it does not replace.
func TestVariantsAreJudgedAndCopied(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	chat := agenttest.New(t, openAIChat("Paris"))
	first, _ := s.chatTarget(t, "first", chat.URL)
	second, _ := s.chatTarget(t, "second", chat.URL)
	other, _ := s.chatTarget(t, "other", chat.URL)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	agent := s.entry(t, "POST", "agents", object{"name": "agent", "protocol": "default", "url": fake.URL,
		"rate_limit": "unlimited"}, 201)["id"].(string)
	id := s.create(t, "", map[string]string{"models": first + "," + second, "agents": agent, "runs_per_item": "2"})
	s.awaitDone(t, id)
	path := "evaluation-tasks/" + id + "/items/q1/review"
	s.entry(t, "PUT", path, object{"reviewer": "Li Lei", "verdict": "FAIL", "variant": 2, "version": 0}, 200)
	s.entry(t, "PUT", path, object{"reviewer": "Li Lei", "verdict": "PASS", "variant": 3, "run_index": 2, "version": 0},
		200)
	s.entry(t, "PUT", path, object{"reviewer": "Li Lei", "verdict": "PASS", "variant": 4, "version": 0}, 404)
	page := s.get(t, "/tasks/"+id+"/results?view=columns").page(t)
	card := page.Find("[data-question-id=q1]")
	require.Equal(t, 3, card.Find("[data-judge][data-draft]").Length(), "a place for each variant's verdict")
	place := card.Find("[data-judge][data-draft][data-variant='2']")
	require.Equal(t, "FAIL", card.Find("#"+place.AttrOr("data-said", "")+" li").AttrOr("data-verdict", ""))
	require.Equal(t, 200, s.get(t, "/tasks/"+id+"/report").StatusCode)

	var clone struct {
		TaskID string `json:"task_id"`
	}
	s.send(t, "POST", api+"/"+id+"/clone", object{"models": []string{other}, "start": false}).into(t, &clone)
	var copied struct{ Variants []struct{ Name string } }
	s.get(t, api+"/"+clone.TaskID).into(t, &copied)
	require.Len(t, copied.Variants, 2)
	require.Equal(t, []string{"other", "agent"}, []string{copied.Variants[0].Name, copied.Variants[1].Name},
		"the agent, which was not replaced, stays")

	for field, value := range map[string]any{"name": []string{"a"}, "user": object{"a": 1}, "system": true} {
		entry := object{"name": "n", "user": "u"}
		entry[field] = value
		require.Equal(t, "PARAMETER_INVALID", s.entry(t, "POST", "prompts", entry, 422)["code"], field)
	}
}

// Variants are also compared by cost. A star next to a median points out that the comparison uses means. With one run
// per question, there are no empty plots.
func TestAPairIsComparedByCostAndTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var models []string
	var calls atomic.Int64
	for name, answer := range map[string]string{"short": "42", "long": strings.Repeat("forty-two ", 30)} {
		slow := name == "long"
		fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
			if slow {
				// Slower than any delay of a busy machine, and by a different time for each call: if all differences were equal,
				// they would have no p-value.
				time.Sleep(time.Second + time.Duration(calls.Add(1))*10*time.Millisecond)
			}
			openAIChat(answer)(w, call)
		})
		model, _ := s.chatTarget(t, name, fake.URL)
		s.entry(t, "PATCH", "models/"+model, object{"input_price": "100", "output_price": "100", "currency": "CNY"}, 200)
		models = append(models, model)
	}
	run := func(runs string) string {
		var task struct {
			TaskID string `json:"task_id"`
		}
		s.post(t, api, map[string]string{
			"task_name": "比", "models": strings.Join(models, ","), "runs_per_item": runs,
			"file@q.csv": "question,standard_answer\nq1,a\nq2,a\nq3,a\nq4,a\nq5,a\n",
		}).into(t, &task)
		s.awaitDone(t, task.TaskID)
		return task.TaskID
	}
	once, twice := run("1"), run("2")
	compared := s.get(t, "/comparison?a="+twice+":1&b="+twice+":2").page(t).Find(".changes").Text()
	for _, name := range []string{"每次运行的费用", "每次运行的 Token", "平均首字时间"} {
		require.Contains(t, compared, name)
	}
	require.Contains(t, compared, " CNY")
	star := s.get(t, "/tasks/"+twice+"/variants").page(t).Find(".is-best .best small")
	require.NotZero(t, star.Length())
	require.Equal(t, "平均", star.First().Text())
	require.NotZero(t, s.get(t, "/tasks/"+twice+"/report").page(t).Find("figure.plot").Length())
	report := s.get(t, "/tasks/"+once+"/report").page(t)
	require.Zero(t, report.Find("figure.plot").Length())
	require.Zero(t, report.Find("table.matrix").Length())
}
