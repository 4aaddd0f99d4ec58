package protocol

import (
	"slices"

	"wending/jobs/agent/wire"
)

// openAI is the protocol of OpenAI's chat completions, which many servers speak.
// Source: platform.openai.com/docs/api-reference/chat.
var openAI = Protocol{
	Name: "openai", Label: "OpenAI chat completions", path: "/chat/completions", exampleBase: "https://api.openai.com/v1",
	paths: []string{"/chat/completions"},
	body: func(q Request) map[string]any {
		body := map[string]any{"messages": q.chat(), "stream": q.Stream}
		if q.Stream {
			body["stream_options"] = map[string]any{"include_usage": true}
		}
		return q.withModel(body)
	},
	reader: func(t *transcript) reader { return &openAIReader{strict{transcript: t, end: "[DONE]"}} },
}

type openAIReader struct{ strict }

func (r *openAIReader) take(e wire.Event) {
	if e.IsDone {
		r.done()
		return
	}
	r.takeChat(e)
}

// takeChat handles a chunk of a stream or a whole completion.
func (r *openAIReader) takeChat(e wire.Event) {
	v := e.Value
	choices, hasChoices := v.Get("choices")
	if failure, ok := v.Get("error"); ok && failure.Kind != wire.Null {
		r.isOwn = true
		r.fail(v)
		return
	}
	if usage := v.At("usage"); usage.Kind == wire.Object {
		r.usage.set(usage, "prompt_tokens", "completion_tokens", "total_tokens")
		if reasoning := numberOf(usage.At("completion_tokens_details"), "reasoning_tokens"); reasoning != nil {
			r.usage.Reasoning = reasoning
		}
	}
	if !hasChoices || choices.Kind != wire.Array {
		return
	}
	r.isOwn = true
	for place, choice := range choices.Items {
		index := numberOf(choice, "index")
		if index != nil && *index != 0 || index == nil && place != 0 {
			continue // only the first of several answers is used
		}
		delta := choice.At("delta")
		r.think(reasoningOf(delta))
		r.text(contentText(delta.At("content")))
		r.refuse(bytesOf(delta, "refusal"))
		r.called(delta)
		if message := choice.At("message"); message.Kind == wire.Object && r.body(e) {
			r.replaceReasoning(reasoningOf(message))
			text := contentText(message.At("content"))
			if refusal := bytesOf(message, "refusal"); len(refusal) > 0 {
				text, r.finish = slices.Concat(text, refusal), FinishRefusal
			}
			r.called(message)
			r.replace(text)
			r.close()
		}
		r.finishIn(choice, "finish_reason")
	}
}

// refuse adds a piece of a refusal to the text, because a refusal is stored as the answer's text.
func (s *strict) refuse(piece []byte) {
	if len(piece) > 0 {
		s.text(piece)
		s.finish = FinishRefusal
	}
}

// called records whether a message calls tools.
func (t *transcript) called(message wire.Value) {
	t.calledTools = t.calledTools || len(message.At("tool_calls").Items) > 0 ||
		message.At("function_call").Kind == wire.Object
}

// reasoningOf returns the reasoning, under any of the names that servers use.
func reasoningOf(message wire.Value) []byte {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if text := bytesOf(message, name); len(text) > 0 {
			return text
		}
	}
	return nil
}
