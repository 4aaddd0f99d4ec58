package protocol

import "wending/jobs/agent/wire"

// ollama is the protocol of Ollama's /api/chat: one JSON value per line. Source:
// github.com/ollama/ollama/blob/main/docs/api.md.
var ollama = Protocol{
	Name: "ollama", Label: "Ollama", path: "/api/chat", exampleBase: "http://127.0.0.1:11434",
	paths: []string{"/api/chat"},
	body: func(q Request) map[string]any {
		return q.withModel(map[string]any{"messages": q.chat(), "stream": q.Stream})
	},
	reader: func(t *transcript) reader { return &ollamaReader{strict{transcript: t, end: `"done": true`}} },
}

type ollamaReader struct{ strict }

func (r *ollamaReader) take(e wire.Event) {
	v := e.Value
	if failure, ok := v.Get("error"); ok && failure.Kind != wire.Null {
		r.isOwn = true
		r.fail(v)
		return
	}
	done, hasDone := v.Get("done")
	message := v.At("message")
	if !hasDone || message.Kind != wire.Object {
		return
	}
	r.think(bytesOf(message, "thinking"))
	r.text(bytesOf(message, "content"))
	r.called(message)
	if done.IsTrue() {
		r.finishIn(v, "done_reason")
		r.usage.set(v, "prompt_eval_count", "eval_count", "")
		r.close()
	}
}
