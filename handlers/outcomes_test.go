package handlers_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// chunks returns a handler that answers in OpenAI's protocol with the given deltas; the last one has a finish reason.
func chunks(reason string, deltas ...string) func(http.ResponseWriter, agenttest.Call) {
	return func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, delta := range deltas {
			_, _ = w.Write([]byte(`data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + "}]}\n\n"))
		}
		_, _ = w.Write([]byte(`data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"` +
			reason + "\"}]}\n\ndata: [DONE]\n\n"))
	}
}

// Finish reasons are stored, shown, filtered, counted and exported; a refusal is not a success, and is never
// presented as good.
func TestHowCallsEndIsSeenEverywhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var models []string
	for _, one := range []struct {
		name   string
		script func(http.ResponseWriter, agenttest.Call)
	}{
		{"honest", chunks("stop", `{"content":"Paris"}`)},
		{"refuser", chunks("stop", `{"refusal":"I can't "}`, `{"refusal":"help."}`)},
		{"filtered", chunks("content_filter", `{"content":"Well"}`)},
		{"short", chunks("length", `{"content":"Par"}`)},
		{"tools", chunks("tool_calls", `{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}`)},
	} {
		model, _ := s.chatTarget(t, one.name, agenttest.New(t, one.script).URL)
		models = append(models, model)
	}
	rule := s.evaluator(t, "提到首都", "contains", object{"values": []string{"Par"}})
	id := s.create(t, "", map[string]string{
		"models": strings.Join(models, ","), "evaluators": rule, "runs_per_item": "2", "max_retries": "2",
	})
	s.awaitDone(t, id)
	path := "evaluation-tasks/" + id

	item := s.entry(t, "GET", path+"/results", nil, 200)["items"].([]any)[0].(object)
	runs := item["runs"].([]any)
	require.Len(t, runs, 10)
	for n, want := range []struct {
		status, reason string
		code, text     any
		isJudged       bool
	}{
		{"SUCCEEDED", "stop", nil, "Paris", true}, {"FAILED", "refusal", "REFUSED", "I can't help.", false},
		{"FAILED", "content_filter", "CONTENT_FILTERED", "Well", false},
		{"SUCCEEDED", "length", nil, "Par", true}, {"FAILED", "tool_calls", "NO_ANSWER", nil, false},
	} {
		run := runs[2*n].(object)
		require.Equal(t, []any{want.status, want.reason, want.code, want.text}, []any{
			run["status"], run["finish_reason"], run["error_code"], run["response_body"],
		})
		require.Equal(t, want.isJudged, len(run["evaluations"].([]any)) > 0, "what failed is not judged")
		require.EqualValues(t, 1, run["attempts"], "an answer that came is not asked for again")
	}
	launch := s.entry(t, "GET", path+"/launches", nil, 200)["items"].([]any)[0].(object)["launch_id"].(string)
	for _, one := range s.entry(t, "GET", path+"/launches/"+launch+"/runs", nil, 200)["items"].([]any) {
		require.NotNil(t, one.(object)["finish_reason"])
	}

	count := func(query string) int {
		return len(s.entry(t, "GET", path+"/results?"+query, nil, 200)["items"].([]any))
	}
	require.Equal(t, 2, count("finish_reason=refusal"))
	require.Equal(t, 2, count("finish_reason=tool_calls,length&variant=4"))
	require.Zero(t, count("finish_reason=refusal&variant=1"))
	require.Equal(t, 2, count("error_code=CONTENT_FILTERED&finish_reason=content_filter"))
	require.Zero(t, count("error_code=REFUSED&finish_reason=length"), "of the same run")
	require.Zero(t, count("error_code=HTTP_500"))
	require.Equal(t, "PARAMETER_INVALID", s.entry(t, "GET", path+"/results?finish_reason=whim", nil, 422)["code"])

	variants := s.entry(t, "GET", path+"/statistics", nil, 200)["variants"].([]any)
	for n, want := range [][3]float64{{0, 0, 0}, {4, 0, 0}, {0, 4, 0}, {0, 0, 4}, {0, 0, 0}} {
		of := variants[n].(object)
		require.Equal(t, want, [3]float64{of["refused"].(float64), of["filtered"].(float64), of["truncated"].(float64)}, n)
	}

	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(s.get(t, api+"/"+id+"/export?format=csv").body,
		[]byte("\uFEFF")))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"run_1_finish_reason", "run_2_finish_reason"}, rows[0][len(rows[0])-2:])
	require.Equal(t, []string{"refusal", "refusal"}, rows[2][len(rows[2])-2:])
	var line struct{ Runs []object }
	first, _, _ := strings.Cut(string(s.get(t, api+"/"+id+"/export?format=jsonl").body), "\n")
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	require.Equal(t, "length", line.Runs[6]["finish_reason"])

	for view, want := range map[string][]string{"columns": {"截断", "拒答", "被过滤", "I can't help."},
		"merged": {"截断", "拒答", "被过滤", "I can't help."}} {
		shown := ""
		for variant := range variants { // a variant's answers are loaded when it is opened
			shown += s.get(t, "/tasks/"+id+"/results?view="+view+"&variant="+strconv.Itoa(variant+1)).page(t).
				Find("#main, main").Text()
		}
		for _, text := range want {
			require.Contains(t, shown, text, view)
		}
	}
	filtered := s.get(t, "/tasks/"+id+"/results?error_code=REFUSED&variant=2").page(t)
	require.Equal(t, 2, filtered.Find("article.result").Length())
	require.Equal(t, "REFUSED", filtered.Find("select[name=error_code] option[selected]").AttrOr("value", ""))
	require.Zero(t, s.get(t, "/tasks/"+id+"/results?finish_reason=length&variant=1").page(t).Find(
		"article.result").Length())
	require.Equal(t, 303, s.get(t, "/tasks/"+id+"/results?finish_reason=whim").StatusCode)

	report := s.get(t, "/tasks/"+id+"/report").page(t)
	said := report.Find(".sentences").First().Text()
	require.NotContains(t, said, "2 refuser 优于")
	require.Contains(t, report.Find(".sentences").Text(), "方案 2、3、5 有回答的比例明显低于其他方案")
	for _, code := range []string{"REFUSED", "CONTENT_FILTERED", "NO_ANSWER", "截断"} {
		require.Contains(t, report.Find("main").Text(), code)
	}
}

// The CSV of a plain task has no finish reasons, but its JSONL does.
func TestAPlainReportKeepsItsColumns(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		_, _ = w.Write([]byte(`{"output":"北","finish_reason":"length","usage":{"prompt_tokens":3,"completion_tokens":4}}`))
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1"})
	s.awaitDone(t, id)
	require.NotContains(t, string(s.get(t, api+"/"+id+"/export?format=csv").body), "finish_reason")
	require.Contains(t, string(s.get(t, api+"/"+id+"/export?format=jsonl").body), `"finish_reason":"length"`)
	require.Contains(t, s.get(t, "/tasks/"+id+"/results").page(t).Find("article.result .tag-truncated").Text(), "截断")
	run := s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil,
		200)["items"].([]any)[0].(object)["runs"].([]any)[0].(object)
	require.EqualValues(t, 7, run["total_tokens"], "the default protocol's usage is read")
}

// A saved agent has prices like a model: its tokens cost something, and a budget on its task takes effect.
func TestAnAgentsTokensCostWhatItsPricesSay(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var calls atomic.Int64
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		if calls.Add(1) > 8 { // until the budget is found to be exhausted
			<-released
		}
		_, _ = w.Write(
			[]byte(
				`data: {"event":"node_finished","data":{"output":"北京","usage":{"prompt_tokens":200,"completion_tokens":50}}}` +
					"\n\n"))
	})
	t.Cleanup(release)
	saved := s.entry(t, "POST", "agents", object{
		"name": "priced", "protocol": "default", "url": fake.URL, "rate_limit": "unlimited", "input_price": "2.50",
		"output_price": 10, "currency": "cny",
	}, 201)
	require.Equal(t, []any{"2.5", "10", "CNY"}, []any{saved["input_price"], saved["output_price"], saved["currency"]})
	agent := saved["id"].(string)
	id := s.create(t, "", map[string]string{"agents": agent, "runs_per_item": "2"})
	s.awaitDone(t, id)
	s.entry(t, "PATCH", "agents/"+agent, object{"input_price": "1000000", "output_price": "1000000"}, 200)
	run := s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil,
		200)["items"].([]any)[0].(object)["runs"].([]any)[0].(object)
	require.Equal(t, []any{"0.001", "CNY"}, []any{run["cost"], run["currency"]},
		"200 × 2.5 + 50 × 10, a millionth of it, by the prices of then")
	variant := s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["variants"].([]any)[0].(object)
	require.Equal(t, "0.004", variant["cost"])

	capped := s.create(t, "", map[string]string{"agents": agent, "runs_per_item": "20", "concurrency": "1",
		"max_cost": "250"})
	dbtest.Await(t, 30*time.Second, "the budget bites", func() bool {
		return s.entry(t, "GET", "evaluation-tasks/"+capped, nil, 200)["stop_reason"] == "BUDGET_TASK"
	})
	release()
	s.awaitDone(t, capped)

	page := s.get(t, "/library/agents/"+agent).page(t)
	require.Equal(t, "1000000", page.Find("#input_price").AttrOr("value", ""))
	require.Equal(t, "CNY", page.Find("#currency").AttrOr("value", ""))
	for field, value := range map[string]any{"input_price": "-1", "output_price": "1e3", "currency": "euro"} {
		require.Equal(t, "PARAMETER_INVALID", s.entry(t, "PATCH", "agents/"+agent, object{field: value}, 422)["code"], field)
	}
}

// The form of a provider shows an example address from the chosen protocol's documents; without scripts it lists
// all examples.
func TestAProvidersAddressHasAnExampleOfItsProtocol(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	page := s.get(t, "/library/providers/new").page(t)
	field := page.Find("#base_url")
	require.Equal(t, "https://api.openai.com/v1", field.AttrOr("placeholder", ""))
	var examples map[string]string
	require.NoError(t, json.Unmarshal([]byte(field.AttrOr("data-placeholders", "")), &examples))
	require.Equal(t, map[string]string{
		"openai": "https://api.openai.com/v1", "openai-responses": "https://api.openai.com/v1",
		"anthropic": "https://api.anthropic.com", "ollama": "http://127.0.0.1:11434",
	}, examples)
	require.Contains(t, page.Find("noscript").Text(), "Anthropic Messages: https://api.anthropic.com")

	saved := s.entry(t, "POST", "providers",
		object{"name": "claude", "protocol": "anthropic", "base_url": "https://api.anthropic.com"}, 201)
	require.Equal(t, "https://api.anthropic.com",
		s.get(t, "/library/providers/"+saved["id"].(string)).page(t).Find("#base_url").AttrOr("placeholder", ""))
}

// An agent that does not stream is called once more without streaming. The second call takes its own rate-limit slot,
// and does not count as a retry. The task records and shows that its agent does not stream.
func TestAnAgentThatDoesNotStreamIsAskedWithout(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var last atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		last.Store(time.Now().UnixNano())
		if call.Body["stream"] == true {
			http.Error(w, `{"error":"streaming is not supported"}`, http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte(`{"output":"北京"}`))
	})
	begun := time.Now()
	id := s.create(t, fake.URL, map[string]string{
		"runs_per_item": "1", "max_retries": "0", "use_stream": "true", "concurrency": "1", "rate_limit": "4/s",
	})
	s.awaitDone(t, id)
	streamed := func() (count int) {
		for _, call := range fake.Calls() {
			if call.Body["stream"] == true {
				count++
			}
		}
		return count
	}
	refused, calls := streamed(), len(fake.Calls())
	require.Positive(t, refused)
	require.GreaterOrEqual(t, time.Unix(0, last.Load()).Sub(begun), time.Duration(calls-1)*250*time.Millisecond,
		"each call has a slot")
	fellBack := 0
	for _, item := range s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil, 200)["items"].([]any) {
		run := item.(object)["runs"].([]any)[0].(object)
		require.Equal(t, []any{"SUCCEEDED", "北京", nil}, []any{run["status"], run["response_body"], run["error_code"]})
		path := "evaluation-tasks/" + id + "/runs/" + strconv.Itoa(int(run["run_id"].(float64)))
		if run["attempts"].(float64) == 2 {
			fellBack++
		}
		dbtest.Await(t, time.Minute, "the events say so", func() bool {
			return strings.Contains(string(s.get(t, libraryAPI+path+"/events").body), `"name":"not_streamed"`)
		})
		require.Equal(t, false, s.entry(t, "GET", path+"/input", nil, 200)["body"].(object)["stream"],
			"what was sent in the end")
	}
	require.Equal(t, refused, fellBack)
	require.Equal(t, 2+refused, calls)
	require.Contains(t, s.get(t, "/tasks/"+id).page(t).Find("#live .note").Text(), "智能体不支持流式，已改为非流式")

	s.entry(t, "POST", "evaluation-tasks/"+id+"/extend", object{"runs_per_item": 2}, 202)
	s.awaitDone(t, id)
	require.Equal(t, refused, streamed(), "a later launch knows")
	require.Len(t, fake.Calls(), calls+2)

	var clone struct {
		TaskID string `json:"task_id"`
	}
	s.send(t, "POST", api+"/"+id+"/clone", object{"runs_per_item": 1}).into(t, &clone)
	s.awaitDone(t, clone.TaskID)
	require.Greater(t, streamed(), refused, "another task tries again: agents learn")
}

// A refusal unrelated to streaming stays a failure, after a single call.
func TestAFailureIsNotRepeatedWithoutStreaming(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "中国的首都是哪里？" {
			http.Error(w, `{"error":"boom while streaming: not supported"}`, http.StatusInternalServerError)
			return
		}
		http.Error(w, `{"error":"streaming is not supported"}`, http.StatusBadRequest) // refused even without streaming
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1", "max_retries": "0", "use_stream": "true"})
	s.awaitDone(t, id)
	require.Len(t, fake.Calls(), 3, "one of the first question, two of the second")
	items := s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil, 200)["items"].([]any)
	for n, code := range []string{"HTTP_500", "HTTP_400"} {
		require.Equal(t, code, items[n].(object)["runs"].([]any)[0].(object)["error_code"])
	}
	require.NotContains(t, s.get(t, "/tasks/"+id).page(t).Find("#live").Text(), "不支持流式", "nothing was gained by it")
}
