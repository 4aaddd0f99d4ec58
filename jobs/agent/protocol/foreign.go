package protocol

import (
	"strings"

	"wending/jobs/agent/wire"
)

// foreignProtocol returns the label of the well-known protocol, other than the default one, that a value belongs to; ""
// if it cannot be identified. The label only serves to explain why an answer could not be read. The distinguishing
// marks are taken from the vendors' documents, listed in agenttest/testdata/wire/README.md.
func foreignProtocol(eventName string, v wire.Value) string {
	for _, protocol := range foreignProtocols {
		if protocol.fits(eventName, v) {
			return protocol.name
		}
	}
	return ""
}

// foreignProtocols are tried in order: those with unique marks come first.
var foreignProtocols = []struct {
	name string
	fits func(eventName string, v wire.Value) bool
}{
	{"A2A", func(_ string, v wire.Value) bool { return holdsAny(v, "jsonrpc") }},
	{"AG-UI", func(_ string, v wire.Value) bool {
		return hasPrefixAny(v.TextOf("type"), "RUN_", "TEXT_MESSAGE_", "THINKING_", "REASONING_", "TOOL_CALL_", "STATE_",
			"STEP_", "ACTIVITY_", "MESSAGES_")
	}},
	{"OpenAI Responses", func(_ string, v wire.Value) bool {
		return hasPrefixAny(v.TextOf("type"), "response.") || v.TextOf("object") == "response"
	}},
	{"OpenAI chat completions", func(_ string, v wire.Value) bool {
		return hasPrefixAny(v.TextOf("object"), "chat.completion")
	}},
	{"Anthropic Messages", func(_ string, v wire.Value) bool {
		kind := v.TextOf("type")
		return hasPrefixAny(kind, "message_", "content_block_") || (kind == "message" && v.TextOf("role") == "assistant")
	}},
	{"Coze", func(eventName string, _ wire.Value) bool { return hasPrefixAny(eventName, "conversation.") }},
	{"Coze Workflow", func(eventName string, v wire.Value) bool {
		return eventName == "PING" || holdsAny(v, "node_is_finish")
	}},
	{"FastGPT", func(eventName string, _ wire.Value) bool {
		return eventName == "interactive" || eventName == "fastAnswer" || hasPrefixAny(eventName, "flow")
	}},
	{"LangGraph", func(eventName string, v wire.Value) bool {
		return (eventName == "metadata" && holdsAny(v, "attempt")) || eventName == "values" || eventName == "updates" ||
			eventName == "custom" || hasPrefixAny(eventName, "messages")
	}},
	{"LangServe", func(eventName string, v wire.Value) bool {
		return eventName == "data" || (eventName == "metadata" && holdsAny(v, "run_id")) || holdsAny(v, "output") &&
			holdsAny(v.At("metadata"), "run_id")
	}},
	{"RAGFlow Chat", func(_ string, v wire.Value) bool {
		data, _ := v.Get("data")
		return holdsAny(data, "session_id") && holdsAny(data, "answer") && holdsAny(data, "reference")
	}},
	{"RAGFlow Agent", func(_ string, v wire.Value) bool {
		return holdsAny(v, "session_id") && holdsAny(v.At("data"), "content") && v.TextOf("event") == "message"
	}},
	{"Dify Chat", func(_ string, v wire.Value) bool { return holdsAny(v, "event") && holdsAny(v, "conversation_id") }},
	{"Dify Workflow", func(_ string, v wire.Value) bool {
		return holdsAny(v, "workflow_run_id") || holdsAny(v, "event") && holdsAny(v, "task_id")
	}},
	{"Wending", func(eventName string, v wire.Value) bool {
		name := v.TextOf("event") + eventName
		data, _ := v.Get("data")
		return name == "llm_chunk" || name == "node_finished" && holdsAny(data, "output") && !holdsAny(data, "outputs")
	}},
	{"Ollama", func(_ string, v wire.Value) bool {
		return (holdsAny(v, "model") && holdsAny(v, "done")) || hasPrefixAny(v.TextOf("status"), "pulling ")
	}},
}

func hasPrefixAny(text string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}
