package people_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/people"
)

func TestATemplateOfTraceAddressesIsChecked(t *testing.T) {
	t.Parallel()
	for template, isValid := range map[string]bool{
		"https://trace.example/{trace_id}":                     true,
		"http://10.0.0.7:3000/x?a=b&id={agent_trace_id}#view":  true,
		"https://trace.example/追踪/{trace_id}/{agent_trace_id}": true,
		"":                                                         false,
		"https://trace.example/":                                   false,
		"https://trace.example/{id}":                               false,
		"https://trace.example/{trace_id}/{id}":                    false,
		"https://{agent_trace_id}/":                                false,
		"https://trace.example{agent_trace_id}":                    false,
		"https://trace.example:{trace_id}/":                        false,
		"https://a@trace.example/{trace_id}":                       false,
		"{trace_id}":                                               false,
		"/{trace_id}":                                              false,
		"//trace.example/{trace_id}":                               false,
		"javascript:alert({trace_id})":                             false,
		"javascript://trace.example/%0aalert('{trace_id}')":        false,
		"data:text/html,{trace_id}":                                false,
		"ftp://trace.example/{trace_id}":                           false,
		"https://trace.example/ {trace_id}":                        false,
		"https://trace.example/\n{trace_id}":                       false,
		"https://trace.example\\@evil.example/{trace_id}":          false,
		"https://trace.example/{trace_id}\u202e":                   false,
		"https://t.example/{trace_id}" + strings.Repeat("x", 1973): false,
	} {
		require.Equal(t, isValid, people.TraceTemplate(template).IsValid(), template)
	}
}

// An agent's id stays within its place in the address, and a run without the ids of the template has no address.
func TestAnAddressOfATraceHasItsIDsEscaped(t *testing.T) {
	t.Parallel()
	const own = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, one := range []struct{ template, own, agents, want string }{
		{"https://t.example/{trace_id}", own, "", "https://t.example/" + own},
		{"https://t.example/{trace_id}", "", "a", ""},
		{"https://t.example/{agent_trace_id}", "", "a", "https://t.example/a"},
		{"https://t.example/{agent_trace_id}", own, "", ""},
		{"https://t.example/{trace_id}?r={agent_trace_id}", own, "a", "https://t.example/" + own + "?r=a"},
		{"https://t.example/{trace_id}?r={agent_trace_id}", own, "", ""},
		{"https://t.example/x/{agent_trace_id}", own, "../?a=1&b=%#é +{trace_id}",
			"https://t.example/x/..%2F%3Fa%3D1%26b%3D%25%23%C3%A9%20%2B%7Btrace_id%7D"},
		{"https://t.example/x/{agent_trace_id}", own, "..", ""},
		{"", own, "a", ""},
	} {
		run := db.Run{}
		if one.own != "" {
			run.TraceID = &one.own
		}
		if one.agents != "" {
			run.AgentTraceID = &one.agents
		}
		require.Equal(t, one.want, people.TraceTemplate(one.template).Address(run), one)
	}
}
