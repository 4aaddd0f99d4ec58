package jobs_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"wending/db"
	"wending/jobs"
	"wending/jobs/agent/agenttest"
)

// collector is a collector that keeps what it receives.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*tracepb.Span
	content bytes.Buffer
	headers http.Header
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var told collectorpb.ExportTraceServiceRequest
		from, err := gzip.NewReader(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body, err := io.ReadAll(from)
		if err != nil || proto.Unmarshal(body, &told) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers = r.Header
		c.content.Write(body)
		for _, resource := range told.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// valuesOf returns a span's attributes as text.
func valuesOf(span *tracepb.Span) map[string]string {
	values := map[string]string{}
	for _, one := range span.Attributes {
		values[one.Key] = one.Value.GetStringValue()
		if values[one.Key] == "" {
			values[one.Key] = fmt.Sprint(one.Value.GetIntValue())
		}
	}
	return values
}

// Each attempt of a call is exported as the span that its traceparent named, with the ids of its task, and without any
// content or secret.
func TestCallsAreExportedAsTheSpansThatTheyNamed(t *testing.T) {
	t.Parallel()
	b, collects := newBench(t), newCollector(t)
	tracer, flush, err := jobs.NewTracer(t.Context(), jobs.TracingConfig{Endpoint: collects.URL + "/",
		Headers: "x-key=a%20b, x-other=1", Version: "v", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	b.tracer = tracer
	var attempts sync.Map
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if _, isAgain := attempts.LoadOrStore(call.IdempotencyKey, true); !isAgain {
			panic(http.ErrAbortHandler)
		}
		agenttest.Stream(w, "the answer's words")
	})
	judging := playJudge(t, func(http.ResponseWriter, string) string { return `{"overall": 90, "reason": "the reason's words"}` })
	change := judged(judging.URL, `{"model_id":"x","dimensions":["overall"]}`)
	taskID, launchID := b.task(t, fake.URL+"?key=the-query's-secret", 1, func(n *db.NewTask) {
		change(n)
		n.Task.MaxRetries, n.Items[0].Question = 1, "the question's words"
	})
	stop := b.startWorker(t, 2)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.awaitEnd(t, taskID, 30*time.Second)
	stop()
	flush()

	sent := map[string]bool{}
	for _, call := range append(fake.Calls(), judging.Calls()...) {
		trace, span := parsed(t, call)
		sent[trace+" "+span] = true
	}
	require.Len(t, sent, 6, "two runs with two attempts each, and their judge")
	require.Len(t, collects.spans, 6)
	names := map[string]int{}
	for _, span := range collects.spans {
		require.True(t, sent[hex.EncodeToString(span.TraceId)+" "+hex.EncodeToString(span.SpanId)])
		require.Empty(t, span.ParentSpanId)
		values := valuesOf(span)
		require.Equal(t, taskID.String(), values["wending.task_id"])
		require.NotEqual(t, "0", values["wending.unit_id"])
		require.Equal(t, "127.0.0.1", values["server.address"])
		names[strings.Join([]string{span.Name, values["wending.attempt"], values["wending.status"], values["error.type"],
			values["http.response.status_code"], values["gen_ai.usage.input_tokens"]}, " ")]++
		require.Greater(t, span.EndTimeUnixNano, span.StartTimeUnixNano)
	}
	require.Equal(t, map[string]int{"call agent 1 FAILED NETWORK_ERROR  ": 2, "call agent 2 SUCCEEDED  200 ": 2,
		"call judge 1 SUCCEEDED  200 100": 2}, names)
	require.Equal(t, []string{"a b", "1"}, []string{collects.headers.Get("X-Key"), collects.headers.Get("X-Other")})
	require.Contains(t, collects.content.String(), "service.name")
	for _, kept := range []string{"words", "secret"} {
		require.NotContains(t, collects.content.String(), kept)
	}
}

// A collector that is unavailable or never answers neither slows the calls nor delays the end of the process.
func TestNothingWaitsForACollector(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(hangs) })
	for name, endpoint := range map[string]string{"silent": silent.URL, "away": "http://127.0.0.1:9"} {
		b := newBench(t)
		tracer, flush, err := jobs.NewTracer(t.Context(), jobs.TracingConfig{Endpoint: endpoint,
			Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		b.tracer = tracer
		for range 20_000 { // more than the exporter keeps
			_, span := tracer.Start(t.Context(), "earlier")
			span.End()
		}
		fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "answer") })
		taskID, launchID := b.task(t, fake.URL, 20, nil)
		stop := b.startWorker(t, 4)
		require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
		b.awaitEnd(t, taskID, 30*time.Second)
		stop()
		begin := time.Now()
		flush()
		require.Less(t, time.Since(begin), 5*time.Second, name)
	}
}

// Wrong settings are errors without their values, which may be secret; without a collector, there is no tracer.
func TestTheSettingsOfTheCollectorAreChecked(t *testing.T) {
	t.Parallel()
	for _, config := range []jobs.TracingConfig{
		{Endpoint: "127.0.0.1:4318"}, {Endpoint: "http://"}, {Endpoint: "ftp://x"}, {Endpoint: "http://user:sesame@x"},
		{Endpoint: "http://x", Headers: "sesame"}, {Endpoint: "http://x", Headers: "a=%zzsesame"},
		{Endpoint: "http://x", Headers: "=sesame"},
	} {
		_, flush, err := jobs.NewTracer(t.Context(), config)
		require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_")
		require.NotContains(t, err.Error(), "sesame")
		flush()
	}
	tracer, flush, err := jobs.NewTracer(t.Context(), jobs.TracingConfig{Headers: "x"})
	require.NoError(t, err)
	require.Nil(t, tracer)
	flush()
}
