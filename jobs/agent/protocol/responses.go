package protocol

import "wending/jobs/agent/wire"

// responses is the protocol of OpenAI's Responses API. Source: platform.openai.com/docs/api-reference/responses.
var responses = Protocol{
	Name: "openai-responses", Label: "OpenAI Responses", path: "/responses", exampleBase: "https://api.openai.com/v1",
	paths: []string{"/v1/responses"},
	body: func(q Request) map[string]any {
		body := map[string]any{"input": q.User(), "stream": q.Stream}
		if system := q.system(); system != "" {
			body["instructions"] = system
			q.SystemPrompt = nil // the system prompt is not a message
		}
		if len(q.History) > 0 {
			body["input"] = q.chat()
		}
		return q.withModel(body)
	},
	reader: func(t *transcript) reader { return &responsesReader{strict{transcript: t, end: "response.completed"}} },
}

type responsesReader struct{ strict }

func (r *responsesReader) take(e wire.Event) {
	v := e.Value
	kind := v.TextOf("type")
	switch kind {
	case "response.output_text.delta":
		r.text(bytesOf(v, "delta"))
	case "response.refusal.delta":
		r.refuse(bytesOf(v, "delta"))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		r.think(bytesOf(v, "delta"))
	case "response.completed", "response.incomplete":
		r.takeResponse(v.At("response"))
	case "response.failed":
		r.isOwn = true
		r.failResponse(v.At("response"))
	case "error":
		r.isOwn = true
		r.fail(v)
	case "":
		switch {
		case v.TextOf("object") == "response" && r.body(e):
			if status := v.TextOf("status"); status == "failed" || status == "cancelled" {
				r.isOwn = true
				r.failResponse(v)
			} else if status == "completed" || status == "incomplete" || status == "" {
				r.takeResponse(v)
			} else { // queued or in progress
				r.isOwn = true
			}
		case v.At("error").Kind == wire.Object:
			r.isOwn = true
			r.fail(v)
		}
	default:
		r.isOwn = r.isOwn || hasPrefixAny(kind, "response.")
	}
}

func (r *responsesReader) failResponse(response wire.Value) {
	if response.At("error").Kind == wire.Object {
		r.fail(response)
		return
	}
	r.failWith("The response has failed")
}

// takeResponse reads a response that has ended: the answer is the text of its output list or, if that has none, the
// streamed pieces.
func (r *responsesReader) takeResponse(response wire.Value) {
	r.isOwn = true
	r.usage.set(response.At("usage"), "input_tokens", "output_tokens", "total_tokens")
	if reasoning := numberOf(response.At("usage", "output_tokens_details"), "reasoning_tokens"); reasoning != nil {
		r.usage.Reasoning = reasoning
	}
	if r.finishIn(response, "status"); response.TextOf("status") == "incomplete" {
		r.finishIn(response.At("incomplete_details"), "reason")
	}
	var text, reasoning []byte
	for _, item := range response.At("output").Items {
		switch item.TextOf("type") {
		case "message":
			text = append(text, contentText(item.At("content"))...)
			for _, part := range item.At("content").Items {
				if refusal := bytesOf(part, "refusal"); len(refusal) > 0 {
					text, r.finish = append(text, refusal...), FinishRefusal
				}
			}
		case "function_call", "custom_tool_call":
			r.calledTools = true
		case "reasoning":
			for _, part := range item.At("summary").Items {
				reasoning = append(reasoning, bytesOf(part, "text")...)
			}
		}
	}
	if len(text) > 0 {
		r.replace(text)
	}
	if len(reasoning) > 0 {
		r.replaceReasoning(reasoning)
	}
	r.close()
}
