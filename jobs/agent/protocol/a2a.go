package protocol

import (
	"encoding/json"
	"strings"

	"wending/jobs/agent/wire"
)

// a2a is the Agent2Agent protocol over JSON-RPC, in version 0.3, or in version 1.0 if the extra payload names one
// of its methods (SendMessage, SendStreamingMessage). Source: a2a-protocol.org, specification.
var a2a = Protocol{
	Name: "a2a", Label: "A2A", paths: []string{"/a2a"},
	body: func(q Request) map[string]any {
		var given struct{ Method string }
		_ = json.Unmarshal(q.ExtraPayload, &given) // an error is reported when the payload is merged
		part := map[string]any{"text": q.whole()}
		message := map[string]any{"messageId": q.IdempotencyKey, "role": "ROLE_USER", "parts": []any{part}}
		if q.ConversationID != "" {
			message["contextId"] = q.ConversationID
		}
		method := given.Method
		if !strings.HasPrefix(method, "Send") {
			part["kind"], message["kind"], message["role"] = "text", "message", "user"
			if method = "message/send"; q.Stream {
				method = "message/stream"
			}
		}
		return map[string]any{"jsonrpc": "2.0", "id": q.IdempotencyKey, "method": method,
			"params": map[string]any{"message": message}}
	},
	reader: func(t *transcript) reader {
		return &a2aReader{strict: strict{transcript: t, end: "its terminal state"}}
	},
}

type a2aReader struct {
	strict
	// artifacts are the texts of the artifacts, in order of arrival; said is the text of the last status.
	artifacts []artifact
	said      []byte
}

type artifact struct {
	id   string
	text []byte
}

func (r *a2aReader) take(e wire.Event) {
	v := e.Value
	if failure, ok := v.Get("error"); ok && failure.Kind == wire.Object {
		r.isOwn = true
		r.fail(v)
		return
	}
	result, ok := v.Get("result")
	if !ok {
		return
	}
	r.isOwn = true
	for _, of := range []wire.Value{result, result.At("task"), result.At("message"), result.At("statusUpdate")} {
		r.inConversation(of, "contextId")
	}
	kind := result.TextOf("kind")
	if message, ok := result.Get("message"); ok && kind == "" { // version 1.0
		r.replace(partsText(message))
		r.close()
		return
	}
	if kind == "message" {
		r.replace(partsText(result))
		r.close()
		return
	}
	task := result
	for _, name := range []string{"task", "statusUpdate"} {
		if member, ok := result.Get(name); ok {
			task = member
		}
	}
	for _, one := range task.At("artifacts").Items {
		r.artifact(one, false)
	}
	if update, ok := result.Get("artifactUpdate"); ok {
		r.artifact(update.At("artifact"), update.At("append").IsTrue())
	}
	if one, ok := result.Get("artifact"); ok {
		r.artifact(one, result.At("append").IsTrue() || one.At("append").IsTrue())
	}
	r.state(task.At("status"), result.At("final").IsTrue() || task.At("final").IsTrue())
}

// artifact records the text of an artifact; if isAppended is set, the text continues what arrived before it.
func (r *a2aReader) artifact(v wire.Value, isAppended bool) {
	id, text := v.TextOf("artifactId")+v.TextOf("name"), partsText(v)
	for n := range r.artifacts {
		if r.artifacts[n].id == id {
			if !isAppended {
				r.artifacts[n].text = nil
			}
			r.add(&r.artifacts[n].text, text)
			return
		}
	}
	r.artifacts = append(r.artifacts, artifact{id: id})
	r.add(&r.artifacts[len(r.artifacts)-1].text, text)
}

// state reads a task's state. In a terminal state the answer is the artifacts or, if there are none, the status text.
func (r *a2aReader) state(status wire.Value, isFinal bool) {
	if text := partsText(status.At("message")); len(text) > 0 {
		r.said = append([]byte{}, r.whole(text)...)
	}
	state := strings.ToLower(strings.TrimPrefix(status.TextOf("state"), "TASK_STATE_"))
	switch strings.ReplaceAll(state, "_", "-") {
	case "completed":
		text := r.said
		if len(r.artifacts) > 0 {
			text = nil
			for _, one := range r.artifacts {
				text = append(text, one.text...)
			}
		}
		r.replace(text)
		r.finishAs(state)
		r.close()
	case "rejected": // the agent refused; its message is the reason
		r.replace(r.said)
		r.finishAs("refusal")
		r.close()
	case "failed", "canceled", "cancelled", "auth-required":
		if len(r.said) > 0 {
			r.failWith(Excerpt(r.said))
		} else {
			r.failWith("The task ended as " + state)
		}
	case "input-required":
		if isFinal || len(r.said) > 0 { // the agent asks a question in return, which is its answer
			r.replace(r.said)
			r.close()
		}
	}
}

// partsText joins the texts of the parts of a message or an artifact.
func partsText(v wire.Value) (text []byte) {
	for _, part := range v.At("parts").Items {
		text = append(text, bytesOf(part, "text")...)
	}
	return text
}
