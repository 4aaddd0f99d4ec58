package agent

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/textproto"
	"regexp"
	"strings"

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

// trace puts a request into the trace of its call, as a sampled span of its own, unless the task's headers already
// name a trace.
func trace(request *http.Request, q protocol.Request) {
	if traceIn(request.Header.Get(traceHeader)) == "" {
		request.Header.Set(traceHeader, "00-"+q.TraceID+"-"+randomHex(8)+"-01")
	}
}

// randomHex returns random bytes in hexadecimal. Ids of traces and spans must not be all zeros, which is as unlikely as
// any other collision.
func randomHex(size int) string {
	id := make([]byte, size)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}
