package protocol

import "wending/jobs/wire"

// fastGPT is the protocol of FastGPT's applications: chat completions with events of its own.
// Source: doc.fastgpt.io, "Chat interface".
var fastGPT = Protocol{
	Name: "fastgpt", Label: "FastGPT", takesSession: true, paths: []string{"/api/v1/chat/completions", "/api/v2/chat/completions"},
	body: func(q Request) map[string]any {
		q.History = nil // the server keeps it
		return map[string]any{
			"chatId": q.conversation(caller(q)), "stream": q.Stream, "detail": true, "variables": map[string]any{}, "messages": q.chat(),
		}
	},
	reader: func(t *transcript) reader {
		return &fastGPTReader{openAIReader: openAIReader{strict{transcript: t, end: "[DONE]"}}}
	},
}

type fastGPTReader struct{ openAIReader }

func (r *fastGPTReader) take(e wire.Event) {
	switch e.Name {
	case "error":
		r.isOwn = true
		r.fail(e.Value)
	case "flowResponses":
		r.takeFlow(e.Value)
	case "interactive": // the run pauses for a person: there is no text
		r.isOwn = true
	case "", "answer", "fastAnswer":
		if e.IsDone {
			r.openAIReader.take(e)
			return
		}
		if flow, ok := e.Value.Get("responseData"); ok {
			r.takeFlow(flow)
		}
		r.takeChat(e)
	default:
		r.isOwn = true
	}
}

// takeFlow sums the tokens of the nodes that tell theirs.
func (r *fastGPTReader) takeFlow(nodes wire.Value) {
	for _, node := range nodes.Items {
		for name, into := range map[string]**int{"inputTokens": &r.usage.Input, "outputTokens": &r.usage.Output} {
			number := numberOf(node, name)
			if number == nil {
				continue
			}
			if *into != nil {
				*number += **into
			}
			*into = number
		}
	}
}
