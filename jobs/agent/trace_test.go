package agent_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent"
	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/protocol"
)

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// Every call is a sampled span of its own in the trace of its request; a request without a trace gets one.
func TestEveryCallIsASpanOfItsTrace(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	for _, trace := range []string{traceID, traceID, ""} {
		client.Ask(t.Context(), protocol.Request{Protocol: protocol.Default, URL: fake.URL, TraceID: trace,
			Timeout: 10 * time.Second})
	}
	form := regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-01$`)
	spans, traces := map[string]bool{}, []string{}
	for _, call := range fake.Calls() {
		parts := form.FindStringSubmatch(call.Header.Get("traceparent"))
		require.NotNil(t, parts, call.Header)
		traces, spans[parts[2]] = append(traces, parts[1]), true
	}
	require.Equal(t, []string{traceID, traceID}, traces[:2])
	require.NotEqual(t, traceID, traces[2])
	require.Len(t, spans, 3)
}

// A task's own traceparent is sent unchanged and names the trace; one that is not valid is replaced, because agents
// would have to ignore it.
func TestATasksOwnTraceIsKept(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	const own, span = "0af7651916cd43dd8448eb211c80319c", "-b7ad6b7169203331-"
	for header, want := range map[string]string{
		"00-" + own + span + "00":                           own,
		"cc-" + own + span + "01-what-the-future-will-be":   own,
		"00-" + own + span + "01-more":                      traceID,
		"ff-" + own + span + "01":                           traceID,
		"00-" + strings.Repeat("0", 32) + span + "01":       traceID,
		"00-" + own + "-" + strings.Repeat("0", 16) + "-01": traceID,
		"00-" + strings.ToUpper(own) + span + "01":          traceID,
		"":         traceID,
		"my trace": traceID,
	} {
		headers := map[string]string{"TraceParent": header}
		require.Equal(t, want, agent.TraceID(headers, traceID), header)
		client.Ask(t.Context(), protocol.Request{Protocol: protocol.Default, URL: fake.URL, Headers: headers,
			TraceID: traceID, Timeout: 10 * time.Second})
		calls := fake.Calls()
		sent := calls[len(calls)-1].Header.Values("traceparent")
		require.Len(t, sent, 1, header)
		if want == own {
			require.Equal(t, header, sent[0])
			continue
		}
		require.Regexp(t, "^00-"+traceID+"-[0-9a-f]{16}-01$", sent[0], header)
	}
}

// An agent's own id, if it is short and printable, is read from the headers or the body of its response, even if the
// call fails.
func TestTheAgentsOwnIDIsRead(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	headers := func(pairs ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for n := 0; n < len(pairs); n += 2 {
				w.Header().Set(pairs[n], pairs[n+1])
			}
		}
	}
	final := `data: {"event":"node_finished","data":{"output":"x"}}` + "\n\n"
	long := strings.Repeat("长", 200)
	for name, test := range map[string]struct {
		prepare func(http.ResponseWriter)
		status  int
		body    string
		want    string
	}{
		"none":                   {body: `{"output":"x"}`},
		"a header":               {prepare: headers("X-Request-Id", "r-1", "X-Trace-Id", "t-1"), body: `{"output":"x","trace_id":"b"}`, want: "r-1"},
		"the other header":       {prepare: headers("X-Trace-Id", "t-1"), body: `{"output":"x","trace_id":"b"}`, want: "t-1"},
		"of a failure":           {prepare: headers("X-Request-Id", "r-1"), status: 502, body: "down", want: "r-1"},
		"in a failure":           {status: 400, body: `{"error":{"message":"no"},"request_id":"r-2"}`, want: "r-2"},
		"at the top":             {body: `{"output":"x","request_id":"r","trace_id":"t","log_id":"l"}`, want: "l"},
		"under data":             {body: `{"code":0,"data":{"output":"x","request_id":"r"}}`, want: "r"},
		"an integer":             {body: `{"output":"x","log_id":2026112609270001234567890}`, want: "2026112609270001234567890"},
		"in an event":            {body: `data: {"event":"llm_chunk","data":{"content":"x","trace_id":"t"}}` + "\n\n" + final, want: "t"},
		"another kind":           {body: `{"output":"x","log_id":1.5,"trace_id":["a"],"request_id":null}`},
		"after one of no use":    {body: `{"output":"x","log_id":"","trace_id":"a\u0000b","request_id":"r"}`, want: "r"},
		"text that turns around": {body: `{"output":"x","log_id":"a\u202eb"}`},
		"as long as may be":      {body: `{"output":"x","log_id":"` + long + `"}`, want: long},
		"too long":               {body: `{"output":"x","log_id":"` + long + `x"}`},
		"a number without end":   {body: `{"output":"x","log_id":` + strings.Repeat("7", 1000) + `}`},
		"not text":               {prepare: headers("X-Request-Id", "\xff\xfe"), body: `{"output":"x"}`},
		"a secret of the call":   {prepare: headers("X-Request-Id", "echo of s3cret-token"), body: `{"output":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
				if test.prepare != nil {
					test.prepare(w)
				}
				if test.status != 0 {
					w.WriteHeader(test.status)
				}
				_, _ = w.Write([]byte(test.body))
			})
			answer := client.Ask(t.Context(), protocol.Request{Protocol: protocol.Default, URL: fake.URL, Stream: true,
				Headers: map[string]string{"Authorization": "Bearer s3cret-token"}, Timeout: 10 * time.Second})
			require.Equal(t, test.want, answer.AgentTraceID)
		})
	}
}

// The id of an accepted job is the one that the agent returned when it accepted the job; all requests for the job
// belong to the trace of its call.
func TestAJobBelongsToTheTraceOfItsCall(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Query == "status" {
			_, _ = w.Write([]byte(`{"state":"done","result":"x","trace_id":"of the status"}`))
			return
		}
		_, _ = w.Write([]byte(`{"url":"?status","trace_id":"of the call"}`))
	})
	answer := client.Ask(t.Context(), protocol.Request{Protocol: protocol.Default, URL: fake.URL, TraceID: traceID,
		Timeout: 10 * time.Second, Poll: &protocol.Poll{URLPath: "url", IntervalSeconds: 1, DonePath: "state",
			DoneValues: []string{"done"}, ResultPath: "result"}})
	require.Equal(t, "x", string(answer.Text))
	require.Equal(t, "of the call", answer.AgentTraceID)
	calls := fake.Calls()
	require.Len(t, calls, 2)
	for _, call := range calls {
		require.Contains(t, call.Header.Get("traceparent"), "00-"+traceID+"-")
	}
}
