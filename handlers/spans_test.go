package handlers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"wending/db"
	vocabulary "wending/db/event"
	"wending/db/people"
	"wending/handlers"
	"wending/jobs/agent/agenttest"
)

// exporter returns a tracer whose spans the OpenTelemetry SDK sends to the site, and a function that sends the rest.
func (s *site) exporter(t testing.TB, token string) (tracer trace.Tracer, flush func() error) {
	t.Helper()
	client, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(s.URL+"/v1/traces"),
		otlptracehttp.WithHeaders(map[string]string{"Authorization": "Bearer " + token}),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(client))
	t.Cleanup(func() { _ = provider.Shutdown(context.WithoutCancel(t.Context())) })
	return provider.Tracer("agent"), func() error { return provider.ForceFlush(t.Context()) }
}

// within returns the context of a call that carried this traceparent.
func within(header http.Header) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(header))
}

// foul is text by which an agent tries to get markup and scripts into a page.
const foul = `<script>alert(1)</script><img src=x onerror=alert(2)>"'` + "\u202e"

// The spans that the OpenTelemetry SDK sends during a call appear in its replay and in the API as a tree of steps, with
// inputs, outputs and tokens. Secrets of the call are redacted in them.
func TestAnAgentsSpansJoinTheReplay(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	tracer, flush := s.exporter(t, "")
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		ctx, whole := tracer.Start(within(call.Header), "invoke_agent planner", trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "invoke_agent")))
		modelCtx, model := tracer.Start(ctx, "chat qwen", trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", "qwen-max"),
			attribute.Int("gen_ai.usage.input_tokens", 1200), attribute.Int("gen_ai.usage.output_tokens", 85),
			attribute.String("gen_ai.input.messages", `[{"role":"user","content":"`+foul+`"}]`),
			attribute.String("gen_ai.output.messages", call.Header.Get("X-Api-Key")+strings.Repeat("长", 9000))))
		_, tool := tracer.Start(modelCtx, "search", trace.WithAttributes(
			attribute.String("openinference.span.kind", "TOOL"), attribute.String("input.value", `{"q":"x"}`),
			attribute.StringSlice("output.value", []string{"<b>", "2"}), attribute.Int("llm.token_count.total", 7)))
		tool.RecordError(fmt.Errorf("no index"))
		tool.SetStatus(codes.Error, "")
		tool.End()
		model.End()
		whole.End()
		if err := flush(); err != nil {
			agenttest.Stream(w, "not sent: "+err.Error())
			return
		}
		agenttest.Stream(w, "answer")
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "2",
		"agent_api_headers": `{"X-Api-Key": "sk-secret-7f3a"}`,
		"file@q.csv":        "question_id,question,standard_answer\nq1,一,a\n"})
	s.awaitDone(t, id)
	item := s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil, 200)["items"].([]any)[0].(object)
	run := item["runs"].([]any)[0].(object)
	require.Equal(t, "answer", run["response_body"])

	events := fmt.Sprint("evaluation-tasks/", id, "/runs/", run["run_id"], "/events")
	spans := s.entry(t, "GET", events, nil, 200)["spans"].([]any)
	require.Len(t, spans, 3)
	whole, model, tool := spans[0].(object), spans[1].(object), spans[2].(object)
	require.Equal(t, []any{"invoke_agent planner", "agent", "chat qwen", "model", "search", "tool"},
		[]any{whole["name"], whole["kind"], model["name"], model["kind"], tool["name"], tool["kind"]})
	require.Equal(t, whole["span_id"], model["parent_span_id"])
	require.Equal(t, model["span_id"], tool["parent_span_id"])
	require.Zero(t, whole["at_ms"])
	require.GreaterOrEqual(t, whole["duration_ms"], model["duration_ms"])
	require.Equal(t, []any{"qwen-max", 1200.0, 85.0, nil},
		[]any{model["model"], model["input_tokens"], model["output_tokens"], model["total_tokens"]})
	require.Equal(t, []any{`[{"role":"user","content":"` + foul + `"}]`}, []any{model["input"]})
	require.Equal(t, "***"+strings.Repeat("长", vocabulary.MaxSpanText-3), model["output"])
	require.Equal(t, []any{false, true}, []any{model["is_input_cut"], model["is_output_cut"]})
	require.Equal(t, []any{`["<b>","2"]`, 7.0, true, "no index"},
		[]any{tool["output"], tool["total_tokens"], tool["is_failed"], tool["error"]})

	unit := s.unitOf(t, id)
	page := s.get(t, fmt.Sprint("/tasks/", id, "/units/", unit)).page(t)
	steps := page.Find(".steps li")
	require.Equal(t, 3, steps.Length())
	depths := steps.Map(func(_ int, one *goquery.Selection) string { return one.AttrOr("class", "") })
	require.Equal(t, []string{"depth-0 is-agent", "depth-1 is-model", "depth-2 is-tool is-failed"}, depths)
	require.Equal(t, 0, page.Find("main script, main img[src=x]").Length())
	require.Contains(t, steps.Eq(1).Find("pre").First().Text(), foul)
	require.Contains(t, steps.Eq(1).Text(), "1,200 → 85")
	require.Contains(t, steps.Eq(1).Text(), "以下省略")
	require.Contains(t, steps.Eq(2).Text(), "no index")
	require.Contains(t, page.Find(".steps > summary").Text(), "3 步 · 输入 1,200 Token，输出 85 Token")
	require.NotContains(t, string(s.get(t, fmt.Sprint("/tasks/", id, "/units/", unit)).body), "sk-secret-7f3a")

	beside := s.get(t, "/tasks/"+id+"/replay/1").page(t)
	require.Equal(t, 2, beside.Find(".steps").Length())
	require.Equal(t, 6, beside.Find(".steps li").Length())
	require.Less(t, len(beside.Find(".steps").Text()), 6000, "long texts are shortened side by side")

	tools := s.entry(t, "GET", "evaluation-tasks/"+id+"/tools", nil, 200)
	require.Empty(t, tools["tools"], "the figures of tools do not count spans")

	require.Equal(t, http.StatusNoContent, s.ask(t, "DELETE", api+"/"+id).StatusCode)
	var left int
	require.NoError(t, s.tables.Get(&left, `SELECT count(*) FROM run_spans`))
	require.Zero(t, left)
}

// ask makes a request without a body.
func (s *site) ask(t testing.TB, method, path string) response {
	t.Helper()
	request, err := http.NewRequest(method, s.URL+path, nil)
	require.NoError(t, err)
	return s.do(t, request)
}

// unitOf returns the id of the first unit of a task.
func (s *site) unitOf(t testing.TB, task string) (unit int64) {
	t.Helper()
	require.NoError(t, s.tables.Get(&unit, `SELECT min(u.id) FROM units u JOIN launches l ON l.id = u.launch_id
		WHERE l.task_id = $1`, task))
	return unit
}

// While a call runs, and shortly after, its page looks for steps; what the reader has opened is not replaced if there
// are no new ones.
func TestStepsAppearWhileACallRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	tracer, flush := s.exporter(t, "")
	called, end := make(chan http.Header, 1), make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		called <- call.Header
		<-end
		agenttest.Stream(w, "answer")
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,a\n"})
	ctx := within(<-called)
	unit := s.unitOf(t, id)
	page := fmt.Sprint("/tasks/", id, "/units/", unit)
	waiting := s.get(t, page).page(t).Find("#logs [hx-get*='/steps?']")
	require.Equal(t, "every 3s", waiting.AttrOr("hx-trigger", ""))
	require.Equal(t, 0, waiting.Children().Length())
	fragment := func(path string) response {
		request, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
		require.NoError(t, err)
		request.Header.Set("HX-Request", "true")
		return s.do(t, request)
	}
	require.Equal(t, http.StatusNoContent, fragment(waiting.AttrOr("hx-get", "")).StatusCode)
	_, span := tracer.Start(ctx, "retrieve")
	span.End()
	require.NoError(t, flush())
	shown := fragment(waiting.AttrOr("hx-get", ""))
	require.Equal(t, 200, shown.StatusCode)
	again := shown.page(t).Find("[hx-get]").AttrOr("hx-get", "")
	require.Contains(t, again, "count=1")
	require.Contains(t, shown.page(t).Text(), "retrieve")
	require.Equal(t, http.StatusNoContent, fragment(again).StatusCode)
	require.Equal(t, http.StatusSeeOther, s.get(t, again).StatusCode)
	close(end)
	s.awaitDone(t, id)
	_, late := tracer.Start(ctx, "late")
	late.End()
	require.NoError(t, flush())
	require.Equal(t, 2, s.get(t, page).page(t).Find(".steps li").Length())
	s.tables.MustExec(`UPDATE evaluation_runs SET created_at = now() - interval '2 minutes'`)
	settled := fragment(again).page(t)
	require.Equal(t, 0, settled.Find("[hx-get]").Length(), "nothing more is expected")
	require.Equal(t, 2, settled.Find("li").Length())
}

// tracedCall is a finished task with one call.
type tracedCall struct {
	task  string
	trace []byte
	// events is the API's path of the run's events.
	events string
}

func (s *site) tracedCall(t *testing.T, fields map[string]string) tracedCall {
	t.Helper()
	form := map[string]string{"file@q.csv": "question_id,question,standard_answer\nq1,一,a\n"}
	for name, value := range fields {
		form[name] = value
	}
	id, fake := s.tracedTask(t, form)
	trace, err := hex.DecodeString(strings.Split(fake.Calls()[0].Header.Get("traceparent"), "-")[1])
	require.NoError(t, err)
	item := s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil, 200)["items"].([]any)[0].(object)
	run := item["runs"].([]any)[0].(object)
	return tracedCall{id, trace, fmt.Sprint("evaluation-tasks/", id, "/runs/", run["run_id"], "/events")}
}

// span returns a valid span of a trace with the id n.
func span(trace []byte, n uint64) *tracepb.Span {
	id := make([]byte, 8)
	for at := range id {
		id[at] = byte(n >> (8 * at))
	}
	now := uint64(time.Now().UnixNano())
	return &tracepb.Span{TraceId: trace, SpanId: id, Name: fmt.Sprint("step ", n), StartTimeUnixNano: now + n,
		EndTimeUnixNano: now + n + 1e6}
}

func requestOf(t testing.TB, spans ...*tracepb.Span) []byte {
	t.Helper()
	body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}}}}})
	require.NoError(t, err)
	return body
}

// sends posts a body to the receiver with the given headers.
func (s *site) sends(t testing.TB, body []byte, headers ...string) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, s.URL+"/v1/traces", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-protobuf")
	for n := 0; n < len(headers); n += 2 {
		request.Header.Set(headers[n], headers[n+1])
	}
	return s.do(t, request)
}

// rejected returns how many spans a response rejects, and why.
func (r response) rejected(t testing.TB) (count int, why string) {
	t.Helper()
	require.Equal(t, 200, r.StatusCode, string(r.body))
	var answer collectorpb.ExportTraceServiceResponse
	require.NoError(t, proto.Unmarshal(r.body, &answer))
	return int(answer.GetPartialSuccess().GetRejectedSpans()), answer.GetPartialSuccess().GetErrorMessage()
}

func gzipped(t testing.TB, body []byte) []byte {
	t.Helper()
	var to bytes.Buffer
	writer, err := gzip.NewWriterLevel(&to, gzip.BestCompression)
	require.NoError(t, err)
	_, err = writer.Write(body)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return to.Bytes()
}

func (s *site) spanNames(t *testing.T, call tracedCall) (names []string) {
	t.Helper()
	for _, one := range s.entry(t, "GET", call.events, nil, 200)["spans"].([]any) {
		names = append(names, one.(object)["name"].(string))
	}
	return names
}

// OTLP's JSON is understood like its protobuf: hexadecimal ids, numbers as texts, unknown members.
func TestSpansArriveAsJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	call := s.tracedCall(t, nil)
	now := time.Now().UnixNano()
	body := fmt.Sprintf(`{"other":[1,{}],"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[
		{"scope":{"name":"x"},"spans":[
		{"traceId":"%x","spanId":"00f067aa0ba902b7","name":"一","kind":3,"startTimeUnixNano":"%d","endTimeUnixNano":%d,
		 "new":true,"attributes":[{"key":"gen_ai.usage.input_tokens","value":{"intValue":"12"}},
		 {"key":"input.value","value":{"kvlistValue":{"values":[{"key":"a","value":{"arrayValue":{"values":[
		  {"doubleValue":1.5},{"boolValue":true}]}}}]}}}]},
		{"traceId":"%X","spanId":"00F067AA0BA902B8","parentSpanId":"00f067aa0ba902b7","name":"二"},
		{"traceId":"00000000000000010000000000000001","spanId":"00f067aa0ba902b9","name":"unknown"},
		{"traceId":"%x","spanId":"00f0","name":"short"}, {"traceId":"no"}, 7]}]}]}`,
		call.trace, now, now+2_500_000, call.trace, call.trace)
	answer := s.sends(t, gzipped(t, []byte(body)), "Content-Type", "application/json; charset=utf-8",
		"Content-Encoding", "gzip")
	require.Equal(t, 200, answer.StatusCode, string(answer.body))
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	var told struct {
		PartialSuccess struct{ RejectedSpans, ErrorMessage string }
	}
	require.NoError(t, json.Unmarshal(answer.body, &told))
	require.Equal(t, "4", told.PartialSuccess.RejectedSpans)
	require.Contains(t, told.PartialSuccess.ErrorMessage, "1 belong to no call")
	require.Contains(t, told.PartialSuccess.ErrorMessage, "3 are damaged")
	spans := s.entry(t, "GET", call.events, nil, 200)["spans"].([]any)
	require.Len(t, spans, 2)
	first, second := spans[0].(object), spans[1].(object)
	require.Equal(t, []any{"一", 12.0, `{"a":[1.5,true]}`, 2.5},
		[]any{first["name"], first["input_tokens"], first["input"], first["duration_ms"]})
	require.Equal(t, []any{"二", "00f067aa0ba902b8", first["span_id"], nil, nil},
		[]any{second["name"], second["span_id"], second["parent_span_id"], second["at_ms"], second["duration_ms"]})
}

// Programs need an editor's token of the project whose task made the call; everything else reveals and changes nothing.
func TestSpansNeedAnEditorsTokenOfTheCallsProject(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	other := s.project(t, "other")
	editor := s.token(t, people.Editor, db.DefaultProject, nil)
	called := make(chan string, 1)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		called <- strings.Split(call.Header.Get("traceparent"), "-")[1]
		agenttest.Stream(w, "answer")
	})
	create := s.form(t, api, map[string]string{"task_name": "t", "agent_api_url": fake.URL, "runs_per_item": "1",
		"file@q.csv": "question,standard_answer\n一,a\n"})
	create.Header.Set("Authorization", "Bearer "+editor)
	require.Equal(t, http.StatusCreated, s.do(t, create).StatusCode)
	trace, err := hex.DecodeString(<-called)
	require.NoError(t, err)
	body := requestOf(t, span(trace, 1))

	refused := s.sends(t, body)
	require.Equal(t, http.StatusUnauthorized, refused.StatusCode)
	require.Equal(t, `Bearer realm="wending"`, refused.Header.Get("WWW-Authenticate"))
	require.Equal(t, http.StatusUnauthorized, s.sends(t, body, "Authorization", "Bearer wnd_wrong").StatusCode)
	for _, role := range []people.Role{people.Viewer, people.Reviewer} {
		token := s.token(t, role, db.DefaultProject, nil)
		require.Equal(t, http.StatusForbidden, s.sends(t, body, "Authorization", "Bearer "+token).StatusCode, role)
	}
	count, why := s.sends(t, body, "Authorization", "Bearer "+s.token(t, people.Editor, other, nil)).rejected(t)
	require.Equal(t, 1, count)
	require.Contains(t, why, "belong to no call")
	stored := func() (count int) {
		require.NoError(t, s.tables.Get(&count, `SELECT count(*) FROM run_spans`))
		return count
	}
	require.Zero(t, stored())
	tracer, flush := s.exporter(t, "wnd_wrong")
	header := http.Header{"Traceparent": {"00-" + hex.EncodeToString(trace) + "-00f067aa0ba902b7-01"}}
	_, one := tracer.Start(within(header), "x")
	one.End()
	require.ErrorContains(t, flush(), "401")
	count, _ = s.sends(t, body, "Authorization", "Bearer "+editor).rejected(t)
	require.Zero(t, count)
	require.Equal(t, 1, stored())
}

// Without the setting, there is no receiver.
func TestSpansAreOffUnlessSwitchedOn(t *testing.T) {
	t.Parallel()
	s := newSiteAt(t, newSite(t, false).database, 0, handlers.Access{}, func(c *handlers.Config) { c.HasSpans = false })
	require.Equal(t, http.StatusNotFound, s.sends(t, requestOf(t, span(make([]byte, 16), 1))).StatusCode)
}

// Requests that contain no spans, or are too large before or after decompression, are refused as a whole.
func TestHostileBodiesOfSpansAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	call := s.tracedCall(t, nil)
	valid := requestOf(t, span(call.trace, 1))
	bomb := gzipped(t, make([]byte, 200<<20))
	require.Less(t, len(bomb), 1<<20)
	const inJSON = "application/json"
	for name, test := range map[string]struct {
		body    []byte
		headers []string
		status  int
	}{
		"a zip bomb":              {bomb, []string{"Content-Encoding", "gzip"}, 413},
		"a large body":            {make([]byte, 17<<20), nil, 413},
		"not gzip":                {valid, []string{"Content-Encoding", "gzip"}, 400},
		"half of gzip":            {gzipped(t, valid)[:20], []string{"Content-Encoding", "gzip"}, 400},
		"another encoding":        {valid, []string{"Content-Encoding", "zstd"}, 415},
		"another type":            {valid, []string{"Content-Type", "text/plain"}, 415},
		"no type":                 {valid, []string{"Content-Type", ""}, 415},
		"not protobuf":            {[]byte("{}"), nil, 400},
		"half of protobuf":        {valid[:len(valid)-3], nil, 400},
		"a length beyond the end": {[]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f}, nil, 400},
		"not JSON":                {valid, []string{"Content-Type", inJSON}, 400},
		"half of JSON":            {[]byte(`{"resourceSpans":[{"scopeSpans":[{`), []string{"Content-Type", inJSON}, 400},
		"two JSON values":         {[]byte(`{} {}`), []string{"Content-Type", inJSON}, 400},
		"an array":                {[]byte(`[]`), []string{"Content-Type", inJSON}, 400},
		"deep JSON":               {[]byte(`{"x":` + strings.Repeat("[", 100_000)), []string{"Content-Type", inJSON}, 400},
	} {
		require.Equal(t, test.status, s.sends(t, test.body, test.headers...).StatusCode, name)
	}
	for _, empty := range [][]byte{nil, {0x0a, 0x00}} {
		count, _ := s.sends(t, empty).rejected(t)
		require.Zero(t, count)
	}
	require.Empty(t, s.spanNames(t, call))
}

// Single spans that are damaged or beyond a limit are counted, and the others are stored.
func TestHostileSpansAreCountedAndDropped(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	call := s.tracedCall(t, nil)
	body := requestOf(t, span(call.trace, 1))
	invalid := bytes.Replace(requestOf(t, span(call.trace, 2)), []byte("step 2"), []byte("step \xff"), 1)
	body = append(body, invalid...)
	deep := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "x"}}
	for range 5000 {
		deep = &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{
			ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{deep}}}}
	}
	nested, huge := span(call.trace, 3), span(call.trace, 4)
	nested.Attributes = []*commonpb.KeyValue{{Key: "input.value", Value: deep}}
	huge.Name = strings.Repeat("x", 2<<20)
	odd := span(call.trace, 5)
	odd.Name, odd.Attributes = "odd\x00", []*commonpb.KeyValue{
		nil, {Key: "gen_ai.usage.input_tokens", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: -1}}},
		{Key: "gen_ai.usage.output_tokens", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{
			DoubleValue: math.NaN()}}},
		{Key: "input.value"}, {Key: "output.value", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{
			BytesValue: []byte{0xff}}}},
	}
	zero := span(make([]byte, 16), 6)
	body = append(body, requestOf(t, nested, huge, odd, zero)...)
	count, why := s.sends(t, body).rejected(t)
	require.Equal(t, 4, count)
	require.Contains(t, why, "4 are damaged, too large or nested too deeply")
	spans := s.entry(t, "GET", call.events, nil, 200)["spans"].([]any)
	require.Len(t, spans, 2)
	require.Equal(t, []any{"odd\uFFFD", nil, nil, nil, "/w=="}, []any{spans[1].(object)["name"],
		spans[1].(object)["input_tokens"], spans[1].(object)["output_tokens"], spans[1].(object)["input"],
		spans[1].(object)["output"]})
	count, _ = s.sends(t, body).rejected(t)
	require.Equal(t, 4, count, "spans that are stored already are not rejected when they are sent again")
	require.Len(t, s.spanNames(t, call), 2)
}

// A million spans take little time and memory: those beyond the limits of a request and of a run are only counted.
func TestAMillionSpansAreCounted(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	call := s.tracedCall(t, nil)
	million := protowire.AppendTag(nil, 2, protowire.BytesType)
	million = protowire.AppendBytes(million, bytes.Repeat([]byte{0x12, 0x00}, 1_000_000))
	million = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), million)
	count, why := s.sends(t, gzipped(t, million), "Content-Encoding", "gzip").rejected(t)
	require.Equal(t, 1_000_000, count)
	require.Contains(t, why, "995000 exceed the 5000 spans of a request")
	var spans []*tracepb.Span
	for n := range vocabulary.MaxSpans + 7 {
		spans = append(spans, span(call.trace, uint64(n+1)))
	}
	count, why = s.sends(t, requestOf(t, append(spans, spans[0])...)).rejected(t)
	require.Equal(t, 7, count)
	require.Contains(t, why, "7 exceed the 1000 spans")
	require.Len(t, s.spanNames(t, call), vocabulary.MaxSpans)
	count, _ = s.sends(t, requestOf(t, spans...)).rejected(t)
	require.Equal(t, 7, count)

	long := s.tracedCall(t, nil)
	spans = nil
	for n := range 200 {
		one := span(long.trace, uint64(n+1))
		one.Attributes = []*commonpb.KeyValue{{Key: "input.value", Value: &commonpb.AnyValue{
			Value: &commonpb.AnyValue_StringValue{StringValue: strings.Repeat("长", vocabulary.MaxSpanText+1)}}}}
		spans = append(spans, one)
	}
	count, _ = s.sends(t, requestOf(t, spans...)).rejected(t)
	kept := len(s.spanNames(t, long))
	require.Equal(t, 200-kept, count)
	require.InDelta(t, vocabulary.MaxSpansBytes/(3*vocabulary.MaxSpanText), kept, 2)
}

// Spans that claim to be their own ancestors are shown once each, and times that cannot be are shown as unknown.
func TestCirclesAndImpossibleTimesOfSpansAreHarmless(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	call := s.tracedCall(t, nil)
	var spans []*tracepb.Span
	for n := range 300 { // a chain that is deeper than a browser nests elements
		one := span(call.trace, uint64(n+1))
		if n > 0 {
			one.ParentSpanId = spans[n-1].SpanId
		}
		spans = append(spans, one)
	}
	spans[0].ParentSpanId = spans[2].SpanId
	alone := span(call.trace, 1000)
	alone.ParentSpanId = alone.SpanId
	for n, times := range [][2]uint64{
		{uint64(time.Now().Add(100 * time.Hour).UnixNano()), 0}, {math.MaxUint64, math.MaxUint64}, {0, 5},
		{1, math.MaxUint64}, {uint64(time.Now().UnixNano()), 1},
	} {
		one := span(call.trace, uint64(2000+n))
		one.StartTimeUnixNano, one.EndTimeUnixNano = times[0], times[1]
		spans = append(spans, one)
	}
	count, why := s.sends(t, requestOf(t, append(spans, alone)...)).rejected(t)
	require.Zero(t, count, why)
	told := s.entry(t, "GET", call.events, nil, 200)["spans"].([]any)
	require.Len(t, told, 306)
	seen := map[any]bool{}
	for _, one := range told {
		one := one.(object)
		seen[one["span_id"]] = true
		if at, isKnown := one["at_ms"].(float64); isKnown {
			require.Less(t, at, 60_000.0)
		}
		if name := one["name"].(string); len(name) == len("step 2000") && name != "step 1000" {
			require.Nil(t, one["duration_ms"], one["name"])
			require.Equal(t, one["name"] != "step 2004", one["at_ms"] == nil, one["name"])
		}
	}
	require.Len(t, seen, 306)
	page := s.get(t, fmt.Sprint("/tasks/", call.task, "/units/", s.unitOf(t, call.task))).page(t)
	require.Equal(t, 306, page.Find(".steps li").Length())
	require.Positive(t, page.Find(".steps li.depth-8").Length())
}

// In a conversation, each turn has its own steps, and spans of a trace that the task's own headers name belong to no
// single call.
func TestSpansBelongToATurn(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, fake := s.tracedTask(t, map[string]string{
		"file@q.csv": "question_id,question,standard_answer,series,turn\nq1,一,a,s,1\nq2,二,b,s,2\n"})
	for n, call := range fake.Calls() {
		trace, err := hex.DecodeString(strings.Split(call.Header.Get("traceparent"), "-")[1])
		require.NoError(t, err)
		count, why := s.sends(t, requestOf(t, span(trace, uint64(n+1)))).rejected(t)
		require.Zero(t, count, why)
	}
	for n, item := range s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil, 200)["items"].([]any) {
		run := item.(object)["runs"].([]any)[0].(object)
		call := tracedCall{events: fmt.Sprint("evaluation-tasks/", id, "/runs/", run["run_id"], "/events")}
		require.Equal(t, []string{fmt.Sprint("step ", n+1)}, s.spanNames(t, call))
	}
	page := s.get(t, fmt.Sprint("/tasks/", id, "/units/", s.unitOf(t, id))).page(t)
	require.Equal(t, 2, page.Find(".steps").Length())
	shared := s.tracedCall(t, map[string]string{
		"agent_api_headers": `{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`})
	count, why := s.sends(t, requestOf(t, span(shared.trace, 1))).rejected(t)
	require.Equal(t, 1, count)
	require.Contains(t, why, "shares its trace")
}
