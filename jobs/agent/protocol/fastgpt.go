package protocol

import "wending/jobs/agent/wire"

// fastGPT is the protocol of FastGPT's applications: chat completions with its own events. Source:
// doc.fastgpt.io, "Chat interface".
var fastGPT = Protocol{
	Name: "fastgpt", Label: "FastGPT", takesSession: true,
	paths: []string{"/api/v1/chat/completions", "/api/v2/chat/completions"},
	body: func(q Request) map[string]any {
		q.History = nil // the server keeps the history
		return map[string]any{
			"chatId": q.conversation(caller(q)), "stream": q.Stream, "detail": true, "variables": map[string]any{},
			"messages": q.chat(),
		}
	},
	reader: func(t *transcript) reader {
		return &fastGPTReader{openAIReader: openAIReader{strict{transcript: t, end: "[DONE]"}}}
	},
}

type fastGPTReader struct {
	openAIReader
	// flow is the total usage of the run's nodes.
	flow Usage
}

func (r *fastGPTReader) take(e wire.Event) {
	switch e.Name {
	case "error":
		r.isOwn = true
		r.fail(e.Value)
	case "flowResponses":
		r.takeFlow(e.Value)
	case "interactive": // the run waits for a person, so there is no text
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

// takeFlow adds up the tokens of a run's nodes, which are the complete usage: FastGPT does not measure the counts in
// its separate usage field.
func (r *fastGPTReader) takeFlow(nodes wire.Value) {
	flow := flowUsage{finish: func(word string) { r.finishAs(word) }}
	flow.add(nodes, 0)
	if flow.input != nil || flow.output != nil {
		r.flow = Usage{Input: flow.input, Output: flow.output}
	}
}

func (r *fastGPTReader) answer(broken error) Answer {
	if r.flow != (Usage{}) {
		r.usage = r.flow
	}
	return r.openAIReader.answer(broken)
}

// flowUsage sums the tokens of the nodes that report them, nested nodes included.
type flowUsage struct {
	input, output *int
	finish        func(word string)
}

// maxFlowDepth is the maximum nesting of nodes.
const maxFlowDepth = 8

func (f *flowUsage) add(nodes wire.Value, depth int) {
	if depth > maxFlowDepth {
		return
	}
	for _, node := range nodes.Items {
		for _, within := range []string{"toolDetail", "pluginDetail", "loopDetail"} {
			f.add(node.At(within), depth+1)
		}
		// A node that calls tools reports its own tokens under other names.
		sum(&f.input, node, "inputTokens", "toolCallInputTokens")
		sum(&f.output, node, "outputTokens", "toolCallOutputTokens")
		if depth == 0 {
			f.finish(node.TextOf("finishReason"))
		}
	}
}

// sum adds the first count among the members of v with these names to a total.
func sum(to **int, v wire.Value, names ...string) {
	for _, name := range names {
		if number := numberOf(v, name); number != nil {
			if *to != nil {
				*number += **to
			}
			*to = number
			return
		}
	}
}
