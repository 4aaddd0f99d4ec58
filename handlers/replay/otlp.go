package replay

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"wending/db/event"
	"wending/handlers/request"
	"wending/views/text"
)

// Limits on a request with spans. Spans are decoded one at a time, because a decoded span can take a hundred times as
// much memory as its bytes.
const (
	maxSpansBody      = 16 << 20
	maxSpansInRequest = 5000
	maxSpanBytes      = 1 << 20
	// maxSpanDepth is the maximum depth to which values may be nested, where a list adds two levels.
	maxSpanDepth = 64
	// maxSkew is the largest credible difference between an agent's clock and ours, and the maximum duration of a span.
	maxSkew = 24 * time.Hour
)

// spanBatch holds the spans of a request, keyed by trace id.
type spanBatch struct {
	traces map[string][]event.Span
	now    time.Time
	count  int
	// unreadable is the number of spans that are damaged, too large or nested too deeply, and beyond is the number of
	// spans that exceed maxSpansInRequest.
	unreadable, beyond int
}

// readSpans parses an ExportTraceServiceRequest of OTLP, in protobuf or in JSON. It does not shorten texts yet. The
// error means that the request as a whole is invalid.
func readSpans(body []byte, isJSON bool, now time.Time) (*spanBatch, error) {
	batch := &spanBatch{traces: map[string][]event.Span{}, now: now}
	if !isJSON {
		// Spans are nested: resource_spans contain scope_spans, which contain spans.
		return batch, eachField(body, 1, func(resource []byte) error {
			return eachField(resource, 2, func(scope []byte) error {
				return eachField(scope, 2, func(span []byte) error {
					batch.add(span, proto.UnmarshalOptions{RecursionLimit: maxSpanDepth, DiscardUnknown: true}.Unmarshal)
					return nil
				})
			})
		})
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	err := eachMember(decoder, []string{"resourceSpans", "scopeSpans", "spans"}, func() error {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return err
		}
		batch.add(raw, unmarshalJSON)
		return nil
	})
	if err == nil && decoder.More() {
		err = errors.New("there is more than one JSON value")
	}
	return batch, err
}

// eachField calls yield with the content of each field of a protobuf message that has the given number.
func eachField(message []byte, number protowire.Number, yield func([]byte) error) error {
	for len(message) > 0 {
		found, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(found, kind, message); size < 0 {
			return protowire.ParseError(size)
		}
		if found == number && kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(message)
			if err := yield(content); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}

// eachMember parses an object and follows names into nested arrays of objects: names[0] is a member of the object, and
// names[1] is a member of its elements. It calls yield before each element of the innermost arrays.
func eachMember(decoder *json.Decoder, names []string, yield func() error) error {
	if len(names) == 0 {
		return yield()
	}
	if err := expect(decoder, '{'); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		if name != names[0] {
			var other json.RawMessage
			if err := decoder.Decode(&other); err != nil {
				return err
			}
			continue
		}
		if err := expect(decoder, '['); err != nil {
			return err
		}
		for decoder.More() {
			if err := eachMember(decoder, names[1:], yield); err != nil {
				return err
			}
		}
		if err := expect(decoder, ']'); err != nil {
			return err
		}
	}
	return expect(decoder, '}')
}

func expect(decoder *json.Decoder, delimiter json.Delim) error {
	token, err := decoder.Token()
	if err == nil && token != delimiter {
		err = fmt.Errorf("%v instead of %v", token, delimiter)
	}
	return err
}

// unmarshalJSON parses a span in OTLP's JSON, in which ids are hexadecimal. The JSON of protobuf has base64 instead, so
// protojson decodes the ids wrongly, and their digits are encoded again to be decoded as hexadecimal.
func unmarshalJSON(raw []byte, message proto.Message) error {
	if err := (protojson.UnmarshalOptions{RecursionLimit: maxSpanDepth, DiscardUnknown: true}).Unmarshal(raw,
		message); err != nil {
		return err
	}
	span := message.(*tracepb.Span)
	for _, id := range []*[]byte{&span.TraceId, &span.SpanId, &span.ParentSpanId} {
		decoded, err := hex.DecodeString(base64.StdEncoding.EncodeToString(*id))
		if err != nil {
			return err
		}
		*id = decoded
	}
	return nil
}

// add decodes a span and adds it to the batch, or counts it as unreadable or beyond the limit.
func (b *spanBatch) add(raw []byte, unmarshal func([]byte, proto.Message) error) {
	if b.count++; b.count > maxSpansInRequest {
		b.beyond++
		return
	}
	var span tracepb.Span
	if len(raw) > maxSpanBytes || unmarshal(raw, &span) != nil || !isID(span.TraceId, 16) || !isID(span.SpanId, 8) {
		b.unreadable++
		return
	}
	trace := hex.EncodeToString(span.TraceId)
	b.traces[trace] = append(b.traces[trace], newSpan(&span, b.now))
}

// isID reports whether an id has the given number of bytes, not all of them zero.
func isID(id []byte, size int) bool {
	return len(id) == size && slices.ContainsFunc(id, func(b byte) bool { return b != 0 })
}

// The attributes that may contain a span's values; the first attribute that a span has is used. They are those of the
// OpenTelemetry conventions for generative AI, present and former, of OpenInference, and of OpenLLMetry.
var (
	kindAttributes  = []string{"openinference.span.kind", "gen_ai.operation.name", "traceloop.span.kind"}
	modelAttributes = []string{"gen_ai.response.model", "gen_ai.request.model", "llm.model_name",
		"embedding.model_name"}
	inputAttributes = []string{"input.value", "gen_ai.input.messages", "gen_ai.tool.call.arguments", "gen_ai.prompt",
		"gen_ai.retrieval.query.text", "traceloop.entity.input"}
	outputAttributes = []string{"output.value", "gen_ai.output.messages", "gen_ai.tool.call.result", "gen_ai.completion",
		"gen_ai.retrieval.documents", "traceloop.entity.output"}
	inputTokenAttributes = []string{"gen_ai.usage.input_tokens", "llm.token_count.prompt",
		"gen_ai.usage.prompt_tokens"}
	outputTokenAttributes = []string{"gen_ai.usage.output_tokens", "llm.token_count.completion",
		"gen_ai.usage.completion_tokens"}
	totalTokenAttributes = []string{"gen_ai.usage.total_tokens", "llm.token_count.total", "llm.usage.total_tokens"}
	errorAttributes      = []string{"exception.message", "error.message", "exception.type", "error.type"}
)

// spanKinds maps the values of kindAttributes, in lower case, to kinds of spans.
var spanKinds = map[string]event.SpanKind{
	"agent": event.SpanAgent, "invoke_agent": event.SpanAgent, "create_agent": event.SpanAgent,
	"llm": event.SpanModel, "chat": event.SpanModel, "text_completion": event.SpanModel,
	"generate_content": event.SpanModel,
	"tool":             event.SpanTool, "execute_tool": event.SpanTool,
	"retriever": event.SpanRetrieval, "reranker": event.SpanRetrieval, "retrieval": event.SpanRetrieval,
	"embedding": event.SpanEmbedding, "embeddings": event.SpanEmbedding,
	"chain": event.SpanChain, "workflow": event.SpanChain, "task": event.SpanChain, "invoke_workflow": event.SpanChain,
}

// newSpan returns those values of a decoded span that are stored.
func newSpan(span *tracepb.Span, now time.Time) event.Span {
	values := attributesOf(span)
	kept := event.Span{ID: hex.EncodeToString(span.SpanId), Name: span.Name,
		Model: values.text(modelAttributes), Kind: event.SpanOther}
	if isID(span.ParentSpanId, 8) {
		kept.Parent = hex.EncodeToString(span.ParentSpanId)
	}
	for _, name := range kindAttributes {
		if kind, isKnown := spanKinds[strings.ToLower(values.text([]string{name}))]; isKnown {
			kept.Kind = kind
			break
		}
	}
	if kept.Kind == event.SpanOther && kept.Model != "" {
		kept.Kind = event.SpanModel
	}
	kept.Input, kept.Output = values.text(inputAttributes), values.text(outputAttributes)
	if kept.Input == "" {
		kept.Input = values.messages("gen_ai.prompt.")
	}
	if kept.Output == "" {
		kept.Output = values.messages("gen_ai.completion.")
	}
	kept.InputTokens, kept.OutputTokens = values.count(inputTokenAttributes), values.count(outputTokenAttributes)
	kept.TotalTokens = values.count(totalTokenAttributes)
	if kept.IsFailed = span.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR; kept.IsFailed {
		if kept.Error = span.Status.GetMessage(); kept.Error == "" {
			kept.Error = values.text(errorAttributes)
		}
	}
	begin, end := span.StartTimeUnixNano, span.EndTimeUnixNano
	if begin == 0 || begin > math.MaxInt64 {
		return kept
	}
	if end >= begin && end-begin <= uint64(maxSkew) {
		duration := int64(end - begin)
		kept.DurationNS = &duration
	}
	if at := time.Unix(0, int64(begin)); at.Sub(now).Abs() <= maxSkew {
		kept.StartNS = int64(begin)
	}
	return kept
}

// attributes maps the names of a span's attributes to their values.
type attributes map[string]*commonpb.AnyValue

// attributesOf returns the attributes of a span and of those of its events in which some programs report messages and
// errors.
func attributesOf(span *tracepb.Span) attributes {
	values := attributes{}
	for _, one := range span.Attributes {
		values[one.Key] = one.Value
	}
	for _, happened := range span.Events {
		if happened.Name != "exception" && !strings.HasPrefix(happened.Name, "gen_ai.") {
			continue
		}
		for _, one := range happened.Attributes {
			if _, isKnown := values[one.Key]; !isKnown {
				values[one.Key] = one.Value
			}
		}
	}
	return values
}

// text returns the first value under the given names that is not empty, as text or as JSON.
func (a attributes) text(names []string) string {
	for _, name := range names {
		if shown := textOf(a[name]); shown != "" {
			return shown
		}
	}
	return ""
}

// count returns the first value under the given names that is a valid number of tokens; nil if there is none.
func (a attributes) count(names []string) *int64 {
	for _, name := range names {
		value, err := strconv.ParseFloat(textOf(a[name]), 64)
		if err == nil && value >= 0 && value <= 1e12 {
			count := int64(value)
			return &count
		}
	}
	return nil
}

// messages returns the messages of a list that is stored in numbered attributes (PREFIX0.role, PREFIX0.content,
// PREFIX1.role …), one per line.
func (a attributes) messages(prefix string) string {
	var lines []string
	for n := range len(a) {
		item := prefix + strconv.Itoa(n)
		content := textOf(a[item+".content"])
		if content == "" {
			break
		}
		if role := textOf(a[item+".role"]); role != "" {
			content = role + ": " + content
		}
		lines = append(lines, content)
	}
	return strings.Join(lines, "\n")
}

// textOf returns a string value as it is, and any other value as JSON.
func textOf(value *commonpb.AnyValue) string {
	switch plain := plainOf(value).(type) {
	case nil:
		return ""
	case string:
		return plain
	default:
		var encoded strings.Builder
		encoder := json.NewEncoder(&encoded)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(plain); err != nil { // a number that JSON cannot represent, such as infinity
			return ""
		}
		return strings.TrimSuffix(encoded.String(), "\n")
	}
}

// plainOf converts a value to the type that encoding/json uses for it. maxSpanDepth limits its depth.
func plainOf(value *commonpb.AnyValue) any {
	switch of := value.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return of.StringValue
	case *commonpb.AnyValue_BoolValue:
		return of.BoolValue
	case *commonpb.AnyValue_IntValue:
		return of.IntValue
	case *commonpb.AnyValue_DoubleValue:
		return of.DoubleValue
	case *commonpb.AnyValue_BytesValue:
		return base64.StdEncoding.EncodeToString(of.BytesValue)
	case *commonpb.AnyValue_ArrayValue:
		list := []any{}
		for _, one := range of.ArrayValue.GetValues() {
			list = append(list, plainOf(one))
		}
		return list
	case *commonpb.AnyValue_KvlistValue:
		object := map[string]any{}
		for _, one := range of.KvlistValue.GetValues() {
			object[one.Key] = plainOf(one.Value)
		}
		return object
	}
	return nil
}

// finished returns a span with its texts redacted by mask and shortened for storage.
func finished(span event.Span, mask func(string) string) event.Span {
	for _, one := range []*string{&span.Name, &span.Model, &span.Error} {
		*one = text.Cut(mask(request.StorableText(*one)), event.MaxSpanName)
	}
	span.Input, span.IsInputCut = text.Head(mask(request.StorableText(span.Input)), event.MaxSpanText)
	span.Output, span.IsOutputCut = text.Head(mask(request.StorableText(span.Output)), event.MaxSpanText)
	return span
}
