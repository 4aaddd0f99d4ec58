package protocol

import "wending/jobs/agent/wire"

// Dify's applications. Source: docs.dify.ai, "Chat" and "Workflow" API.
var (
	difyChat = Protocol{
		Name: "dify-chat", Label: "Dify Chat", namesContext: true, paths: []string{"/chat-messages"},
		body: func(q Request) map[string]any {
			return map[string]any{
				"query": q.Question, "inputs": q.inputs(), "response_mode": difyMode(q.Stream), "user": caller(q),
				"conversation_id": q.ConversationID,
			}
		},
		reader: func(t *transcript) reader { return &difyChatReader{strict: strict{transcript: t, end: "message_end"}} },
	}
	difyWorkflow = Protocol{
		Name: "dify-workflow", Label: "Dify Workflow", namesContext: true, paths: []string{"/workflows/run"},
		body: func(q Request) map[string]any {
			inputs := q.statelessInputs()
			inputs["query"] = q.Question
			return map[string]any{"inputs": inputs, "response_mode": difyMode(q.Stream), "user": caller(q)}
		},
		reader: func(t *transcript) reader {
			return &difyWorkflowReader{strict{transcript: t, end: "workflow_finished"}}
		},
	}
)

func difyMode(stream bool) string {
	if stream {
		return "streaming"
	}
	return "blocking"
}

// caller returns the user name for platforms that require one. It is new for each call or conversation, so that a
// platform that remembers its users does not let one answer influence the next.
func caller(q Request) string {
	if q.IsTurn {
		return "wending-" + q.BegunIn
	}
	return "wending-" + q.IdempotencyKey
}

type difyChatReader struct {
	strict
	hasMessage bool
}

func (r *difyChatReader) take(e wire.Event) {
	v := e.Value
	r.inConversation(v, "conversation_id")
	switch v.TextOf("event") {
	case "message", "agent_message":
		answer, hasAnswer := v.Get("answer")
		switch {
		case !hasAnswer || answer.Kind != wire.String:
		case e.IsPrefixed:
			r.hasMessage = true
			r.text(answer.Text)
		case r.body(e):
			r.difyUsage(v)
			r.replace(answer.Text)
			r.close()
		}
	case "message_replace": // moderation has replaced the answer
		r.isOwn, r.hasMessage = true, true
		r.finishAs("content_filter")
		r.chunks = r.whole(bytesOf(v, "answer"))
		r.tellWhole(r.chunks)
	case "reasoning_chunk":
		r.think(bytesOf(v.At("data"), "reasoning"))
	case "message_end":
		r.isOwn = r.isOwn || holdsAny(v, "conversation_id")
		r.difyUsage(v)
		if r.hasMessage { // without any message, the stream is incomplete
			r.close()
		}
	case "node_finished":
		r.isOwn = r.isOwn || holdsAny(v, "conversation_id")
		r.finishNode(v.At("data"))
	case "error":
		r.isOwn = true
		r.fail(v)
	case "workflow_finished":
		r.isOwn = true
		if v.At("data").TextOf("status") == "failed" {
			r.fail(v.At("data"))
		}
	case "":
		r.failEnvelope(e)
	default:
		r.isOwn = r.isOwn || holdsAny(v, "conversation_id")
	}
}

func (r *difyChatReader) difyUsage(v wire.Value) {
	r.finishIn(v.At("metadata"), "finish_reason")
	r.usage.set(v.At("metadata", "usage"), "prompt_tokens", "completion_tokens", "total_tokens")
}

// failEnvelope records a failure that the agent reports as a single JSON value with a code other than success.
func (s *strict) failEnvelope(e wire.Event) {
	if s.body(e) && e.Value.Kind == wire.Object && isFailureCode(e.Value) {
		s.isOwn = true
		s.fail(e.Value)
	}
}

type difyWorkflowReader struct{ strict }

func (r *difyWorkflowReader) take(e wire.Event) {
	v := e.Value
	if holdsAny(v, "conversation_id") {
		return // an event of a chat, whose nodes look like those of a workflow
	}
	data := v.At("data")
	switch v.TextOf("event") {
	case "text_chunk":
		r.text(bytesOf(data, "text"))
	case "node_finished":
		r.isOwn = r.isOwn || holdsAny(v, "workflow_run_id")
		r.finishNode(data)
	case "workflow_finished":
		r.takeEnd(data)
	case "error":
		r.isOwn = true
		r.fail(v)
	case "":
		if holdsAny(v, "workflow_run_id") && holdsAny(data, "outputs", "status") && r.body(e) {
			r.takeEnd(data)
			return
		}
		r.failEnvelope(e)
	default:
		r.isOwn = r.isOwn || holdsAny(v, "workflow_run_id")
	}
}

// finishNode records why a node's model stopped; the last node's reason wins, because that node gave the answer.
func (s *strict) finishNode(data wire.Value) { s.finishIn(data.At("outputs"), "finish_reason") }

// takeEnd handles the workflow's end: a single output is the answer; several outputs become one JSON text.
func (r *difyWorkflowReader) takeEnd(data wire.Value) {
	r.isOwn = true
	r.usage.set(data, "", "", "total_tokens")
	if status := data.TextOf("status"); status != "succeeded" && status != "partial-succeeded" {
		if text := data.TextOf("error"); text != "" {
			r.failWith(Excerpt([]byte(text)))
		} else {
			r.failWith("The workflow ended as " + Excerpt([]byte(status)))
		}
		return
	}
	outputs := data.At("outputs")
	r.finishNode(data)
	if text := outputText(outputs); text != nil {
		r.replace(text)
	} else if len(r.chunks) == 0 {
		r.failWith("The workflow has no output")
		return
	}
	r.close()
}

// outputText returns the answer among named outputs: the only text, or the text under one of the usual names for
// answers; otherwise all outputs as JSON. nil means that there are none.
func outputText(outputs wire.Value) []byte {
	if outputs.Kind == wire.String {
		return outputs.Text
	}
	if outputs.Kind != wire.Object || len(outputs.Fields) == 0 {
		return nil
	}
	chosen := wire.Value{}
	if len(outputs.Fields) == 1 {
		chosen = outputs.Fields[0].Value
	} else {
		for _, name := range []string{"answer", "output", "result", "text"} {
			if member, ok := outputs.Get(name); ok {
				chosen = member
				break
			}
		}
	}
	switch chosen.Kind {
	case wire.Null:
		return outputs.Text
	case wire.Array:
		if text, ok := joined(chosen); ok {
			return text
		}
	}
	return chosen.Text
}
