package protocol

import "wending/jobs/agent/wire"

// anthropic is the protocol of Anthropic's Messages API. Source: docs.anthropic.com/en/api/messages.
var anthropic = Protocol{
	Name: "anthropic", Label: "Anthropic Messages", path: "/v1/messages", exampleBase: "https://api.anthropic.com",
	paths:   []string{"/v1/messages"},
	headers: map[string]string{"anthropic-version": "2023-06-01"}, keyHeader: "x-api-key",
	body: func(q Request) map[string]any {
		body := map[string]any{
			"max_tokens": 4096, // the protocol requires a number; parameters may override it
			"stream":     q.Stream,
		}
		if system := q.system(); system != "" {
			body["system"] = system
			q.SystemPrompt = nil // the system prompt is not a message
		}
		body["messages"] = q.chat()
		return q.withModel(body)
	},
	reader: func(t *transcript) reader { return &anthropicReader{strict{transcript: t, end: "message_stop"}} },
}

type anthropicReader struct{ strict }

func (r *anthropicReader) take(e wire.Event) {
	v := e.Value
	switch v.TextOf("type") {
	case "message_start":
		r.isOwn = true
		r.usage.setAnthropic(v.At("message", "usage"))
	case "content_block_start":
		r.text(bytesOf(v.At("content_block"), "text"))
		r.calledTools = r.calledTools || v.At("content_block").TextOf("type") == "tool_use"
	case "content_block_delta":
		delta := v.At("delta")
		r.text(bytesOf(delta, "text"))
		r.think(bytesOf(delta, "thinking"))
	case "message_delta":
		r.isOwn = true
		r.finishIn(v.At("delta"), "stop_reason")
		r.usage.setAnthropic(v.At("usage")) // these counts are cumulative
	case "message_stop":
		r.close()
	case "error":
		r.isOwn = true
		r.fail(v)
	case "message":
		if !r.body(e) || v.TextOf("role") != "assistant" {
			return
		}
		var text, thinking []byte
		for _, block := range v.At("content").Items {
			switch block.TextOf("type") {
			case "text":
				text = append(text, bytesOf(block, "text")...)
			case "tool_use":
				r.calledTools = true
			case "thinking":
				thinking = append(thinking, bytesOf(block, "thinking")...)
			}
		}
		r.finishIn(v, "stop_reason")
		r.usage.setAnthropic(v.At("usage"))
		r.replace(text)
		r.replaceReasoning(thinking)
		r.close()
	}
}

// setAnthropic records a usage. Its input tokens exclude those read from or written to a cache, which are added.
func (u *Usage) setAnthropic(usage wire.Value) {
	u.set(usage, "input_tokens", "output_tokens", "")
	if numberOf(usage, "input_tokens") == nil {
		return
	}
	input := *u.Input
	for _, name := range []string{"cache_read_input_tokens", "cache_creation_input_tokens"} {
		if cached := numberOf(usage, name); cached != nil {
			input += *cached
		}
	}
	u.Input = &input
}
