package protocol

import (
	"net/url"

	"wending/jobs/agent/wire"
)

// Coze's bots and workflows. Source: www.coze.com/docs/developer_guides, "Chat v3" and "Run workflow (streaming)".
var (
	coze = Protocol{
		Name: "coze", Label: "Coze", paths: []string{"/v3/chat"},
		query: func(q Request) url.Values {
			if q.ConversationID == "" {
				return nil
			}
			return url.Values{"conversation_id": {q.ConversationID}}
		},
		body: func(q Request) map[string]any {
			return map[string]any{
				"user_id": caller(q), "stream": q.Stream, "auto_save_history": true,
				"additional_messages": []map[string]string{{"role": "user", "content": q.whole(), "content_type": "text",
					"type": "question"}},
			}
		},
		reader: func(t *transcript) reader {
			return &cozeReader{strict: strict{transcript: t, end: "conversation.chat.completed"}}
		},
	}
	cozeWorkflow = Protocol{
		Name: "coze-workflow", Label: "Coze Workflow", namesContext: true,
		paths: []string{"/workflow/stream_run", "/workflow/run"},
		body: func(q Request) map[string]any {
			parameters := q.statelessInputs()
			parameters["input"] = q.Question
			return map[string]any{"parameters": parameters}
		},
		reader: func(t *transcript) reader { return &cozeWorkflowReader{strict{transcript: t, end: "Done"}} },
	}
)

type cozeReader struct {
	strict
}

func (r *cozeReader) take(e wire.Event) {
	v := e.Value
	r.inConversation(v, "conversation_id")
	switch e.Name {
	case "conversation.message.delta":
		r.isOwn = true
		if v.TextOf("type") == "answer" {
			r.text(bytesOf(v, "content"))
			r.think(bytesOf(v, "reasoning_content"))
		}
	case "conversation.message.completed":
		r.isOwn = true
		if v.TextOf("type") == "answer" {
			r.replace(bytesOf(v, "content"))
		}
		if v.TextOf("type") == "verbose" {
			r.takeVerbose(bytesOf(v, "content"))
		}
	case "conversation.chat.completed":
		r.usage.set(v.At("usage"), "input_count", "output_count", "token_count")
		r.close()
	case "conversation.chat.failed":
		r.isOwn = true
		r.fail(v.At("last_error"))
	case "conversation.chat.requires_action":
		r.isOwn = true
		r.finishAs("tool_calls")
		r.failAs(CodeNoAnswer, "The bot waits for the result of a plugin that only the caller can give")
	case "error":
		r.isOwn = true
		r.fail(v)
	case "":
		r.failEnvelope(e)
	default:
		r.isOwn = r.isOwn || hasPrefixAny(e.Name, "conversation.")
	}
}

// takeVerbose reads the reason why a bot's answer ended: 0 means a normal end; no other value is documented.
func (r *cozeReader) takeVerbose(content []byte) {
	said, _ := wire.Parse(content)
	if said.TextOf("msg_type") != "generate_answer_finish" {
		return
	}
	data, _ := wire.Parse(bytesOf(said, "data"))
	if reason := numberOf(data, "finish_reason"); reason != nil && *reason == 0 {
		r.finishAs("stop")
	}
	r.finishIn(data, "finish_reason")
}

type cozeWorkflowReader struct{ strict }

func (r *cozeWorkflowReader) take(e wire.Event) {
	v := e.Value
	switch e.Name {
	case "Message":
		r.isOwn = true
		if total := numberOf(v, "token"); total != nil {
			r.usage.Total = total
		}
		if v.TextOf("node_type") != "End" && v.TextOf("node_title") != "End" {
			r.text(bytesOf(v, "content"))
			return
		}
		r.lastNode(bytesOf(v, "content"))
	case "Error":
		r.isOwn = true
		r.fail(v)
	case "Interrupt":
		r.isOwn = true
		r.failWith("The workflow waits for a person")
	case "Done":
		r.close()
	case "PING":
		r.isOwn = true
	case "":
		if code := numberOf(v, "code"); code != nil && *code == 0 && r.body(e) {
			if data := bytesOf(v, "data"); len(data) > 0 {
				r.lastNode(data)
				r.close()
			}
			return
		}
		r.failEnvelope(e)
	}
}

// lastNode takes the output of the last node as the answer; if the output is a JSON object, only the text in it.
func (r *cozeWorkflowReader) lastNode(content []byte) {
	if v, isJSON := wire.Parse(content); isJSON && v.Kind == wire.Object {
		if text := outputText(v); text != nil {
			r.replace(text)
			return
		}
	}
	if len(content) > 0 {
		r.replace(content)
	}
}
