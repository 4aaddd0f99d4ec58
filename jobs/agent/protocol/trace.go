package protocol

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"wending/jobs/agent/wire"
)

// MaxAgentTraceID is the maximum length of an agent's own id for a call, in characters.
const MaxAgentTraceID = 200

// traceHeaders and traceNames are the headers and members in which agents return their own ids, in order of preference.
var (
	traceHeaders = []string{"X-Request-Id", "X-Trace-Id"}
	traceNames   = []string{"log_id", "trace_id", "request_id"}
)

// IsAgentTraceID reports whether a text is short and printable, as an agent's own id for a call has to be: a longer
// text is not cut, because its beginning would not identify anything.
func IsAgentTraceID(text string) bool {
	return text != "" && utf8.ValidString(text) && utf8.RuneCountInString(text) <= MaxAgentTraceID &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// TraceInHeader returns the agent's own id for a call in the headers of its response; empty if there is none.
func TraceInHeader(header http.Header) string {
	for _, name := range traceHeaders {
		if id := strings.TrimSpace(header.Get(name)); IsAgentTraceID(id) {
			return id
		}
	}
	return ""
}

var wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)

// TraceInValue returns the agent's own id for a call from v, a value of its response, or from v's member data; empty if
// there is none.
func TraceInValue(v wire.Value) string {
	for _, of := range []wire.Value{v, v.At("data")} {
		for _, name := range traceNames {
			member, _ := of.Get(name)
			if member.Kind != wire.String && (member.Kind != wire.Number || !wholeNumber.Match(member.Text)) {
				continue
			}
			if id := string(bytes.TrimSpace(member.Text)); IsAgentTraceID(id) {
				return id
			}
		}
	}
	return ""
}

// TraceInBody is like TraceInValue, but looks at every value of a whole body.
func TraceInBody(body io.Reader) string {
	t := newTranscript(All[0])
	_ = t.Read(body, t) // an incomplete body may contain the id
	return t.traceID
}
