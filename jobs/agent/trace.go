package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/textproto"
	"regexp"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"wending/jobs/agent/protocol"
)

// traceHeader is the header with which a call joins a trace, as https://www.w3.org/TR/trace-context/ describes.
const traceHeader = "Traceparent"

// traceParent matches a valid traceHeader of any version, whose parts are the trace id and the id of the parent span.
var traceParent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// traceIn returns the trace id of a traceHeader; empty if the header is absent or not valid.
func traceIn(header string) string {
	parts := traceParent.FindStringSubmatch(header)
	if parts == nil || parts[1] == "ff" || parts[1] == "00" && parts[4] != "" ||
		strings.Trim(parts[2], "0") == "" || strings.Trim(parts[3], "0") == "" {
		return ""
	}
	return parts[2]
}

// TraceID returns the trace id of a call with these headers: the id in their traceparent, or the given id if they have
// no valid traceparent.
func TraceID(headers map[string]string, otherwise string) string {
	for name, text := range headers {
		if textproto.CanonicalMIMEHeaderKey(name) != traceHeader {
			continue
		}
		if own := traceIn(strings.TrimSpace(text)); own != "" {
			return own
		}
	}
	return otherwise
}

// joinTrace puts a request into the trace of its call, as a sampled span, unless the task's headers already name a
// trace. It names the span in the request's context if there is one, and otherwise a new one.
func joinTrace(request *http.Request, q protocol.Request) {
	if traceIn(request.Header.Get(traceHeader)) != "" {
		return
	}
	span := randomHex(8)
	if exported := trace.SpanContextFromContext(request.Context()); exported.TraceID().String() == q.TraceID {
		span = exported.SpanID().String()
	}
	request.Header.Set(traceHeader, "00-"+q.TraceID+"-"+span+"-01")
}

type traceKey struct{}

// InTrace returns a context in which SpanIDs puts a new root span into the trace of a request.
func InTrace(ctx context.Context, q protocol.Request) context.Context {
	return context.WithValue(ctx, traceKey{}, q.TraceID)
}

// SpanIDs generates the ids of exported spans. It implements IDGenerator of OpenTelemetry's SDK.
type SpanIDs struct{}

// NewIDs returns the ids of a new root span, in the trace that InTrace has put into ctx or else in a new one.
func (s SpanIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	named, _ := ctx.Value(traceKey{}).(string)
	id, err := trace.TraceIDFromHex(named)
	if err != nil {
		_, _ = rand.Read(id[:])
	}
	return id, s.NewSpanID(ctx, id)
}

// NewSpanID returns the id of a new span in a trace.
func (SpanIDs) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	_, _ = rand.Read(id[:])
	return id
}

// randomHex returns random bytes in hexadecimal. Ids of traces and spans must not be all zeros, which is as unlikely as
// any other collision.
func randomHex(size int) string {
	id := make([]byte, size)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}
