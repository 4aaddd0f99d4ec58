package protocol

import (
	"strings"

	"wending/jobs/agent/wire"
)

// isFailureCode reports whether v is an envelope that reports a failure: a code that does not mean success,
// or an error member.
func isFailureCode(v wire.Value) bool {
	if code, ok := v.Get("code"); ok && code.Kind != wire.Null {
		switch strings.ToLower(string(code.Text)) {
		case "", "0", "200", "success", "ok", "true":
		default:
			return true
		}
	}
	failure, ok := v.Get("error")
	return ok && failure.Kind != wire.Null && len(failure.Text) > 0 && string(failure.Text) != "false"
}

// failureMessage returns the agent's own error message or, if there is none, the source text.
func failureMessage(v wire.Value) string {
	places := []wire.Value{v}
	if data, ok := v.Get("data"); ok {
		if data.Kind == wire.String && len(data.Text) > 0 {
			return Excerpt(data.Text)
		}
		places = append(places, data)
	}
	for _, place := range places {
		for _, name := range []string{"error_message", "message", "msg", "error", "detail"} {
			member, ok := place.Get(name)
			if !ok {
				continue
			}
			if member.Kind == wire.String && len(member.Text) > 0 {
				return Excerpt(member.Text)
			}
			if member.Kind == wire.Object {
				return failureMessage(member)
			}
		}
	}
	return Excerpt(v.Text)
}
