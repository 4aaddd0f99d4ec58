package people

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"wending/db"
)

// TraceTemplate is a template for the addresses at which the traces of a project's agents are shown, such as
// https://trace.example/{trace_id}; empty means that there are no links.
type TraceTemplate string

// MaxTraceTemplate is the maximum length of a template, in characters.
const MaxTraceTemplate = 2000

// The placeholders of a TraceTemplate: the trace id of a run's calls, and the agent's own id for the last call.
const (
	traceID      = "{trace_id}"
	agentTraceID = "{agent_trace_id}"
)

// filled returns the template with own in place of the trace id and agents in place of the agent's own id.
func (t TraceTemplate) filled(own, agents string) string {
	return strings.NewReplacer(traceID, own, agentTraceID, agents).Replace(string(t))
}

// IsValid reports whether the template is an http or https address with a placeholder, but none in the host: agents
// choose their ids, and must not choose the host that a link points to.
func (t TraceTemplate) IsValid() bool {
	const mark = "0-id-0"
	filled := t.filled(mark, mark)
	address, err := url.Parse(filled)
	return err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Host != "" &&
		address.User == nil && !strings.Contains(address.Host, mark) && filled != string(t) &&
		!strings.ContainsAny(filled, `{}\`) && utf8.RuneCountInString(string(t)) <= MaxTraceTemplate &&
		!strings.ContainsFunc(filled, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

// IsOfAgents reports whether the template contains only the agents' own ids.
func (t TraceTemplate) IsOfAgents() bool { return !strings.Contains(string(t), traceID) }

// Address returns the address for a run; empty if the run lacks an id that the template contains.
func (t TraceTemplate) Address(run db.Run) string {
	if t == "" || run.TraceID == nil && !t.IsOfAgents() {
		return ""
	}
	agents := escaped(run.AgentTraceID)
	if agents == "" && strings.Contains(string(t), agentTraceID) {
		return ""
	}
	return t.filled(escaped(run.TraceID), agents)
}

// escaped returns an id as part of a path or a query; empty if it is absent, or if browsers would interpret it as . or
// .. in a path even in its escaped form.
func escaped(id *string) string {
	if id == nil || *id == "." || *id == ".." {
		return ""
	}
	return strings.ReplaceAll(url.QueryEscape(*id), "+", "%20")
}
