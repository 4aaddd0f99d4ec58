package protocol

import (
	"strings"

	"wending/jobs/agent/wire"
)

// langGraph is the protocol of LangGraph's servers. A stream has no terminator: the state at its end is the answer.
// Source: langchain-ai.github.io/langgraph/cloud/reference/api.
var langGraph = Protocol{
	Name: "langgraph", Label: "LangGraph", paths: []string{"/runs/stream", "/runs/wait"},
	body: func(q Request) map[string]any {
		return map[string]any{
			"assistant_id": "agent", "input": map[string]any{"messages": q.messages("human", "ai")},
			"stream_mode": []string{"messages-tuple", "updates", "custom"},
		}
	},
	reader: func(t *transcript) reader {
		return &langGraphReader{strict: strict{transcript: t, end: "the graph's state"}}
	},
}

type langGraphReader struct {
	strict
	// hasState reports that the last value was the graph's state.
	hasState bool
}

func (r *langGraphReader) take(e wire.Event) {
	v := e.Value
	switch name, _, _ := strings.Cut(e.Name, "|"); name { // names of subgraphs follow a bar
	case "messages":
		r.hasState = false
		if len(v.Items) > 0 && isOfAssistant(v.Items[0]) {
			r.text(contentText(v.Items[0].At("content")))
			r.usage.setLangChain(v.Items[0])
			r.finishLangChain(v.Items[0])
		}
		r.isOwn = true
	case "messages/partial", "messages/complete":
		r.hasState = name == "messages/complete"
		r.last(v)
	case "updates":
		r.isOwn, r.hasState = true, true
		for _, node := range v.Fields {
			r.last(node.Value.At("messages"))
		}
	case "values":
		r.isOwn, r.hasState = true, true
		r.last(v.At("messages"))
	case "error":
		r.isOwn = true
		r.fail(v)
	case "":
		if messages, ok := v.Get("messages"); ok && r.body(e) { // the response of /runs/wait
			r.last(messages)
			r.hasState = true
		}
	default:
		r.isOwn = r.isOwn || name == "metadata" || name == "custom"
	}
}

// last records the assistant's last message as the answer so far.
func (r *langGraphReader) last(messages wire.Value) {
	r.isOwn = true
	if messages.Kind == wire.Object { // a node may return a single message instead of a list
		messages.Items = []wire.Value{messages}
	}
	for n := len(messages.Items) - 1; n >= 0; n-- {
		if message := messages.Items[n]; isOfAssistant(message) {
			r.replace(contentText(message.At("content")))
			r.usage.setLangChain(message)
			r.finishLangChain(message)
			return
		}
	}
}

func isOfAssistant(message wire.Value) bool {
	kind := message.TextOf("type")
	return kind == "ai" || kind == "AIMessageChunk" || kind == "assistant" || message.TextOf("role") == "assistant"
}

func (r *langGraphReader) answer(broken error) Answer {
	if broken == nil && r.hasState && (r.final != nil || len(r.chunks) > 0) {
		r.hasEnded = true
	}
	return r.strict.answer(broken)
}
