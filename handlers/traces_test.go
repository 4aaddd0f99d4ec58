package handlers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/jobs/agent/agenttest"
)

// tracedTask runs a task whose agent returns its own id for each question, and returns the task's id and the agent.
func (s *site) tracedTask(t *testing.T, fields map[string]string) (id string, agent *agenttest.Agent) {
	t.Helper()
	agent = agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if strings.Contains(call.Question, "坏") {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("X-Request-Id", "请求/"+call.Question+" 7f&3a")
		agenttest.Stream(w, "answer")
	})
	form := map[string]string{"runs_per_item": "1", "rate_limit": "unlimited",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,a\nq2,二,b\nq3,坏,c\n"}
	for name, value := range fields {
		form[name] = value
	}
	id = s.create(t, agent.URL, form)
	s.awaitDone(t, id)
	return id, agent
}

// Wherever a run is described, its trace ids are shown: the one that we sent and the agent's own.
func TestARunNamesItsTraces(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, fake := s.tracedTask(t, nil)
	sent := map[string]string{}
	for _, call := range fake.Calls() {
		sent[call.Question] = strings.Split(call.Header.Get("traceparent"), "-")[1]
	}
	path := "evaluation-tasks/" + id
	items := s.entry(t, "GET", path+"/results", nil, 200)["items"].([]any)
	require.Len(t, items, 3)
	ids := map[string]string{}
	for _, one := range items {
		question, run := one.(object)["question"].(string), one.(object)["runs"].([]any)[0].(object)
		require.Equal(t, sent[question], run["trace_id"])
		require.Regexp(t, `^[0-9a-f]{32}$`, run["trace_id"])
		if question == "坏" {
			require.Nil(t, run["agent_trace_id"])
			continue
		}
		require.Equal(t, "请求/"+question+" 7f&3a", run["agent_trace_id"])
		ids[question] = fmt.Sprint("/tasks/", id, "/runs/", run["run_id"])
	}
	launch := s.entry(t, "GET", path+"/launches", nil, 200)["items"].([]any)[0].(object)["launch_id"].(string)
	for _, one := range s.entry(t, "GET", path+"/launches/"+launch+"/runs", nil, 200)["items"].([]any) {
		require.Contains(t, slices.Collect(maps.Values(sent)), one.(object)["trace_id"])
	}
	for line := range strings.Lines(string(s.get(t, api+"/"+id+"/export?format=jsonl").body)) {
		var item struct {
			Question string
			Runs     []object
		}
		require.NoError(t, json.Unmarshal([]byte(line), &item))
		require.Equal(t, sent[item.Question], item.Runs[0]["trace_id"])
	}
	require.NotContains(t, string(s.get(t, api+"/"+id+"/export?format=csv").body), "trace")

	page := s.get(t, ids["一"]).page(t)
	require.Contains(t, page.Find("dl.facts").Text(), sent["一"])
	require.Contains(t, page.Find("dl.facts").Text(), "请求/一 7f&3a")
	require.Contains(t, page.Find("main").Text(), "traceparent: 00-"+sent["一"]+"-…-01")
	run := s.entry(t, "GET", strings.Replace(ids["一"], "/tasks/", "evaluation-tasks/", 1)+"/input", nil, 200)
	require.Equal(t, sent["一"], run["trace_id"])
	require.Equal(t, "请求/一 7f&3a", run["agent_trace_id"])
	request, err := http.NewRequest(http.MethodGet, s.URL+"/tasks/"+id+"/results/1?sent=1", nil)
	require.NoError(t, err)
	request.Header.Set("HX-Request", "true")
	beside := s.do(t, request).page(t).Find(".traces").Text()
	require.Contains(t, beside, sent["一"])
	require.Contains(t, beside, "请求/一 7f&3a")
}

// Searching for a run's whole trace id finds its question; a part of the id does not, because short searches would
// otherwise find ids by chance.
func TestAQuestionIsFoundByTheTraceOfARun(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, fake := s.tracedTask(t, nil)
	trace := ""
	for _, call := range fake.Calls() {
		if call.Question == "二" {
			trace = strings.Split(call.Header.Get("traceparent"), "-")[1]
		}
	}
	for query, want := range map[string][]string{
		trace: {"q2"}, strings.ToUpper(trace): {"q2"}, trace[:31]: nil, "请求/一 7f&3a": {"q1"}, "7f&3a": nil,
		strings.Repeat("0", 32): nil,
	} {
		var found, listed, shown []string
		for _, one := range s.entry(t, "GET", "evaluation-tasks/"+id+"/results?trace_id="+url.QueryEscape(query), nil,
			200)["items"].([]any) {
			found = append(found, one.(object)["question_id"].(string))
		}
		for _, one := range s.states(t, id, "?query="+url.QueryEscape(query)) {
			listed = append(listed, one.QuestionID)
		}
		numbers := shownNumbers(s.get(t, "/tasks/"+id+"/results?sort=number&search="+url.QueryEscape(query)).page(t))
		for number := range strings.FieldsSeq(numbers) {
			shown = append(shown, "q"+number)
		}
		require.Equal(t, want, found, query)
		require.Equal(t, want, listed, query)
		require.Equal(t, want, shown, query)
	}
}

// The ids link to the agents' tracing system once the project's administrators have set its address.
func TestTheIDsOfARunLeadToTheAgentsTracing(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, _ := s.tracedTask(t, nil)
	settings := "projects/" + db.DefaultProject.String() + "/settings"
	run := s.entry(t, "GET", "evaluation-tasks/"+id+"/results?question_id=q1", nil,
		200)["items"].([]any)[0].(object)["runs"].([]any)[0].(object)
	links := func() (hrefs []string) {
		t.Helper()
		s.get(t, fmt.Sprint("/tasks/", id, "/runs/", run["run_id"])).page(t).Find("dl.facts a").Each(
			func(_ int, link *goquery.Selection) {
				require.Equal(t, "noopener noreferrer", link.AttrOr("rel", ""))
				hrefs = append(hrefs, link.AttrOr("href", ""))
			})
		return hrefs
	}
	require.Empty(t, s.entry(t, "GET", settings, nil, 200)["trace_url"])
	require.Empty(t, links())
	for _, one := range []struct{ template, want string }{
		{"https://trace.example/{trace_id}", fmt.Sprint("https://trace.example/", run["trace_id"])},
		{"https://trace.example/?q={agent_trace_id}", "https://trace.example/?q=%E8%AF%B7%E6%B1%82%2F%E4%B8%80%207f%263a"},
	} {
		set := s.entry(t, "PUT", settings, object{"review_reasons": []string{}, "trace_url": one.template}, 200)
		require.Equal(t, one.template, set["trace_url"])
		require.Equal(t, []string{one.want}, links())
	}
	kept := s.entry(t, "PUT", settings, object{"review_reasons": []string{}}, 200)
	require.Equal(t, "https://trace.example/?q={agent_trace_id}", kept["trace_url"], "unchanged if absent")
	for _, wrong := range []string{"javascript:alert({trace_id})", "https://{agent_trace_id}/", "https://trace.example/"} {
		refused := s.entry(t, "PUT", settings, object{"review_reasons": []string{}, "trace_url": wrong}, 422)
		require.Equal(t, "trace_url", refused["details"].([]any)[0].(object)["column"])
	}
	page := "/projects/" + db.DefaultProject.String()
	refused := s.post(t, page+"/settings",
		map[string]string{"review_reasons": "", "trace_url": "trace.example/{trace_id}"})
	require.Equal(t, 422, refused.StatusCode)
	field := refused.page(t).Find("input[name=trace_url]")
	require.Equal(t, "trace.example/{trace_id}", field.AttrOr("value", ""))
	require.Equal(t, "true", field.AttrOr("aria-invalid", ""))
	require.Equal(t, 303, s.post(t, page+"/settings", map[string]string{"review_reasons": "", "trace_url": ""}).StatusCode)
	require.Empty(t, links())
}

// A task whose own headers have a traceparent joins that trace; without one, each turn of a conversation has its own
// trace.
func TestATasksOwnTraceAndThoseOfTurnsAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	traces := func(fields map[string]string) (found []any) {
		id, _ := s.tracedTask(t, fields)
		for _, item := range s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil, 200)["items"].([]any) {
			found = append(found, item.(object)["runs"].([]any)[0].(object)["trace_id"])
		}
		return found
	}
	const own = "0af7651916cd43dd8448eb211c80319c"
	require.Equal(t, []any{own, own, own}, traces(map[string]string{
		"agent_api_headers": `{"traceparent": "00-` + own + `-b7ad6b7169203331-01"}`}))
	turns := traces(map[string]string{
		"file@q.csv": "question_id,question,standard_answer,series,turn\nq1,一,a,s,1\nq2,坏,b,s,2\nq3,三,c,s,3\n"})
	require.NotEqual(t, turns[0], turns[1])
	require.NotNil(t, turns[1])
	require.Nil(t, turns[2], "a turn that was not reached has no call")
}
