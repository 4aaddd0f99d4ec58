package protocol

import (
	"bytes"
	"strings"

	"wending/jobs/agent/wire"
)

// RAGFlow's chat assistants and agents. Source: ragflow.io/docs, "HTTP API".
var (
	ragflowChat = Protocol{
		Name: "ragflow-chat", Label: "RAGFlow Chat", paths: []string{"/api/v1/chats/", "/chat/completion"},
		body: func(q Request) map[string]any {
			// Servers before version 0.23 read the field question.
			q.History = nil // the server keeps the history
			return map[string]any{"messages": q.chat(), "question": q.whole(), "session_id": q.ConversationID,
				"stream": q.Stream}
		},
		reader: func(t *transcript) reader {
			return &ragflowChatReader{strict: strict{transcript: t, end: `"data": true`}}
		},
	}
	ragflowAgent = Protocol{
		Name: "ragflow-agent", Label: "RAGFlow Agent", paths: []string{"/api/v1/agents/"},
		body: func(q Request) map[string]any {
			return map[string]any{"query": q.whole(), "question": q.whole(), "session_id": q.ConversationID, "stream": q.Stream}
		},
		reader: func(t *transcript) reader { return &ragflowAgentReader{strict{transcript: t, end: "[DONE]"}} },
	}
)

type ragflowChatReader struct {
	strict
	isThinking bool
}

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

func (r *ragflowChatReader) take(e wire.Event) {
	v := e.Value
	if isFailureCode(v) {
		r.isOwn = true
		r.fail(v)
		return
	}
	data, hasData := v.Get("data")
	r.inConversation(data, "session_id")
	switch {
	case !hasData:
	case data.IsTrue():
		r.close()
	case data.Kind == wire.Object && holdsAny(data, "answer"):
		answer := bytesOf(data, "answer")
		if r.body(e) {
			r.takeWhole(answer)
			r.close()
			return
		}
		if data.At("start_to_think").IsTrue() {
			r.isThinking = true
		}
		switch {
		case data.At("final").IsTrue() && len(answer) > 0:
			r.takeWhole(answer)
		case r.repeats(answer):
			r.takeWhole(answer)
		case r.isThinking:
			r.think(answer)
		default:
			r.text(answer)
		}
		if data.At("end_to_think").IsTrue() {
			r.isThinking = false
		}
	}
}

// repeats reports whether a piece begins with all of the earlier text: older servers send the whole text each time.
func (r *ragflowChatReader) repeats(answer []byte) bool {
	before := string(r.chunks)
	if r.final != nil {
		before = string(r.final)
	}
	if len(r.transcript.reasoning) > 0 && r.final != nil {
		before = thinkOpen + string(r.transcript.reasoning) + thinkClose + before
	}
	if bytes.HasPrefix(answer, []byte(thinkOpen)) && before == "" {
		return true
	}
	return r.final != nil && before != "" && bytes.HasPrefix(answer, []byte(before))
}

// takeWhole handles a text that replaces the earlier pieces, and separates the reasoning enclosed in tags from it.
func (r *ragflowChatReader) takeWhole(answer []byte) {
	text := string(answer)
	if thought, rest, isClosed := strings.Cut(strings.TrimPrefix(text, thinkOpen), thinkClose); isClosed &&
		strings.HasPrefix(text, thinkOpen) {
		r.replaceReasoning([]byte(thought))
		text = rest
	}
	r.replace([]byte(text))
}

type ragflowAgentReader struct{ strict }

func (r *ragflowAgentReader) take(e wire.Event) {
	if e.IsDone {
		r.done()
		return
	}
	v := e.Value
	if isFailureCode(v) {
		r.isOwn = true
		r.fail(v)
		return
	}
	data := v.At("data")
	r.inConversation(data, "session_id")
	r.inConversation(v, "session_id")
	switch v.TextOf("event") {
	case "message":
		r.text(bytesOf(data, "content"))
	case "node_finished":
		r.isOwn = true
		if failure := data.TextOf("error"); failure != "" {
			r.failWith(Excerpt([]byte(failure)))
		}
	case "message_end", "workflow_finished":
		r.isOwn = true
		r.usage.set(data.At("usage"), "prompt_tokens", "completion_tokens", "total_tokens")
	case "":
		if content := data.At("data", "content"); content.Kind == wire.String && r.body(e) { // not streamed
			r.replace(content.Text)
			r.close()
		}
	default:
		r.isOwn = r.isOwn || holdsAny(v, "session_id")
	}
}
