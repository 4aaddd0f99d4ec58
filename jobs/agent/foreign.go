package agent

import "strings"

// foreignProtocol names the well-known protocol that a value belongs to where it is not the default one;
// "" if it cannot be identified. It is only used to say why an answer could not be read, never to read one.
// Sources of the marks: the vendors' descriptions, listed in agenttest/testdata/wire/README.md.
func foreignProtocol(eventName string, v value) string {
	for _, protocol := range foreignProtocols {
		if protocol.fits(eventName, v) {
			return protocol.name
		}
	}
	return ""
}

// foreignProtocols are tried in order: marks that no other protocol has come first.
var foreignProtocols = []struct {
	name string
	fits func(eventName string, v value) bool
}{
	{"A2A", func(_ string, v value) bool { return holdsAny(v, "jsonrpc") }},
	{"AG-UI", func(_ string, v value) bool {
		return hasPrefixAny(textOf(v, "type"), "RUN_", "TEXT_MESSAGE_", "THINKING_", "REASONING_", "TOOL_CALL_", "STATE_", "STEP_", "ACTIVITY_", "MESSAGES_")
	}},
	{"OpenAI Responses", func(_ string, v value) bool {
		return hasPrefixAny(textOf(v, "type"), "response.") || textOf(v, "object") == "response"
	}},
	{"OpenAI chat completions", func(_ string, v value) bool { return hasPrefixAny(textOf(v, "object"), "chat.completion") }},
	{"Anthropic Messages", func(_ string, v value) bool {
		kind := textOf(v, "type")
		return hasPrefixAny(kind, "message_", "content_block_") || (kind == "message" && textOf(v, "role") == "assistant")
	}},
	{"Coze", func(eventName string, v value) bool {
		return hasPrefixAny(eventName, "conversation.") || eventName == "PING" || holdsAny(v, "node_is_finish")
	}},
	{"FastGPT", func(eventName string, _ value) bool {
		return eventName == "interactive" || eventName == "fastAnswer" || hasPrefixAny(eventName, "flow")
	}},
	{"LangGraph", func(eventName string, v value) bool {
		return (eventName == "metadata" && holdsAny(v, "attempt")) || eventName == "values" || eventName == "updates" || eventName == "custom" || hasPrefixAny(eventName, "messages")
	}},
	{"LangServe", func(eventName string, v value) bool {
		return eventName == "data" || (eventName == "metadata" && holdsAny(v, "run_id"))
	}},
	{"RAGFlow", func(_ string, v value) bool {
		data, _ := v.get("data")
		if holdsAny(data, "session_id") && holdsAny(data, "answer") {
			return true
		}
		return holdsAny(v, "session_id") && holdsAny(data, "content") && textOf(v, "event") == "message"
	}},
	{"Dify", func(_ string, v value) bool {
		return holdsAny(v, "workflow_run_id") ||
			(holdsAny(v, "event") && holdsAny(v, "conversation_id", "task_id"))
	}},
	{"Ollama", func(_ string, v value) bool {
		return (holdsAny(v, "model") && holdsAny(v, "done")) || hasPrefixAny(textOf(v, "status"), "pulling ")
	}},
}

// textOf returns the string that v holds under name, or "".
func textOf(v value, name string) string {
	member, _ := v.get(name)
	if member.kind != kindString {
		return ""
	}
	return string(member.text)
}

func hasPrefixAny(text string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}
