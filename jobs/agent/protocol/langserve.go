package protocol

import "wending/jobs/agent/wire"

// langServe is the protocol of LangServe's runnables. Source: github.com/langchain-ai/langserve, README.
var langServe = Protocol{
	Name: "langserve", Label: "LangServe", paths: []string{"/invoke", "/stream"},
	body: func(q Request) map[string]any {
		return map[string]any{"input": q.turns(), "config": map[string]any{}, "kwargs": map[string]any{}}
	},
	reader: func(t *transcript) reader { return &langServeReader{strict{transcript: t, end: "its end event"}} },
}

type langServeReader struct{ strict }

func (r *langServeReader) take(e wire.Event) {
	v := e.Value
	switch e.Name {
	case "metadata":
		r.isOwn = true
	case "data":
		r.text(messageText(v))
		r.usage.setLangChain(v)
		r.finishLangChain(v)
	case "error":
		r.isOwn = true
		r.fail(v)
	case "":
		if output, ok := v.Get("output"); ok && r.body(e) { // the response of /invoke
			r.usage.setLangChain(output)
			r.finishLangChain(output)
			text := messageText(output)
			if text == nil {
				text = outputText(output)
			}
			if text == nil {
				r.isOwn = true
				return
			}
			r.replace(text)
			r.close()
		}
	}
}

// open handles the beginning of an event: the end event has no data, so only its name shows that the stream is over.
func (r *langServeReader) open(name string) {
	if name == "end" {
		r.close()
	}
}

// messageText returns the text of a string or of a message; nil if v is neither.
func messageText(v wire.Value) []byte {
	if v.Kind == wire.String {
		return v.Text
	}
	if content, ok := v.Get("content"); ok {
		return append([]byte{}, contentText(content)...)
	}
	return nil
}
