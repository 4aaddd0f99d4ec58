package protocol

import (
	"fmt"

	"wending/jobs/agent/wire"
)

// agUI is the AG-UI protocol. Source: docs.ag-ui.com, "Events".
var agUI = Protocol{
	Name: "ag-ui", Label: "AG-UI", takesSession: true, paths: []string{"/agui", "/ag-ui", "/awp"},
	body: func(q Request) map[string]any {
		messages := []map[string]string{}
		if system := q.system(); system != "" {
			messages = append(messages, map[string]string{"id": "s1", "role": "system", "content": system})
		}
		for n, said := range q.History {
			messages = append(messages, map[string]string{"id": fmt.Sprintf("h%d", n+1), "role": said.Role,
				"content": said.Content})
		}
		messages = append(messages, map[string]string{"id": "u1", "role": "user", "content": q.User()})
		return map[string]any{
			"threadId": q.conversation(q.IdempotencyKey), "runId": q.IdempotencyKey, "state": map[string]any{},
			"messages": messages,
			"tools":    []any{}, "context": []any{}, "forwardedProps": map[string]any{},
		}
	},
	reader: func(t *transcript) reader { return &agUIReader{strict{transcript: t, end: "RUN_FINISHED"}} },
}

type agUIReader struct{ strict }

func (r *agUIReader) take(e wire.Event) {
	v := e.Value
	switch kind := v.TextOf("type"); kind {
	case "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK":
		r.text(bytesOf(v, "delta"))
	case "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK", "THINKING_TEXT_MESSAGE_CONTENT":
		r.think(bytesOf(v, "delta"))
	case "RUN_FINISHED":
		if outcome := v.At("outcome").TextOf("type"); outcome == "interrupt" {
			r.isOwn = true
			r.failWith("The run waits for a person")
			return
		}
		r.close()
	case "RUN_ERROR":
		r.isOwn = true
		r.fail(v)
	case "TOOL_CALL_START", "TOOL_CALL_CHUNK":
		r.isOwn, r.calledTools = true, true
	default:
		r.isOwn = r.isOwn || hasPrefixAny(kind, "RUN_", "TEXT_MESSAGE_", "REASONING_", "THINKING_", "TOOL_CALL_", "STATE_",
			"STEP_", "ACTIVITY_", "MESSAGES_")
	}
}
