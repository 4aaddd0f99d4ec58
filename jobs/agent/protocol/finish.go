package protocol

import (
	"bytes"
	"strings"

	"wending/jobs/agent/wire"
)

// Finish is the reason why an answer ended, as reported by the agent; empty means that the agent reports none or
// uses an unknown word.
type Finish string

// The known reasons.
const (
	FinishStop    Finish = "stop"
	FinishLength  Finish = "length"
	FinishFilter  Finish = "content_filter"
	FinishRefusal Finish = "refusal"
	FinishTools   Finish = "tool_calls"
)

// Finishes lists all reasons.
var Finishes = []string{string(FinishStop), string(FinishLength), string(FinishFilter), string(FinishRefusal),
	string(FinishTools)}

// finishes maps the agents' words for the reasons, in lower case. Sources: the documents that the protocols cite, and
// the documentation of the models behind them (DeepSeek, Gemini, Mistral, Qwen, vLLM, Zhipu).
var finishes = map[string]Finish{
	"stop": FinishStop, "end_turn": FinishStop, "stop_sequence": FinishStop, "eos": FinishStop, "completed": FinishStop,
	"length": FinishLength, "max_tokens": FinishLength, "max_output_tokens": FinishLength, "model_length": FinishLength,
	"model_context_window_exceeded": FinishLength,
	"pause_turn":                    FinishLength, // the server paused a long turn, so only the beginning arrived
	"content_filter":                FinishFilter, "content_filtered": FinishFilter, "safety": FinishFilter,
	"sensitive":  FinishFilter,
	"recitation": FinishFilter, "blocklist": FinishFilter, "prohibited_content": FinishFilter, "spii": FinishFilter,
	"guardrail_intervened": FinishFilter,
	"refusal":              FinishRefusal,
	"tool_calls":           FinishTools, "tool_use": FinishTools, "function_call": FinishTools,
}

// interruptions are the words for an answer that the agent could not finish, so that it is incomplete.
var interruptions = map[string]bool{
	"error": true, "insufficient_system_resource": true, "network_error": true, "abort": true, "aborted": true,
}

// finishIn records the finish reason that v holds under a name.
func (t *transcript) finishIn(v wire.Value, name string) { t.finishAs(v.TextOf(name)) }

// finishAs records an agent's word for why its answer ended. A later word replaces an earlier one, but never a refusal.
func (t *transcript) finishAs(word string) {
	word = strings.ToLower(word)
	if interruptions[word] {
		t.failWith("The agent could not end its answer: " + word)
	}
	if reason, isKnown := finishes[word]; isKnown && t.finish != FinishRefusal {
		t.finish = reason
	}
}

// finishLangChain records the finish reason that a LangChain message passes on from its model.
func (t *transcript) finishLangChain(message wire.Value) {
	for _, name := range []string{"finish_reason", "stop_reason", "done_reason"} {
		t.finishIn(message.At("response_metadata"), name)
	}
	t.calledTools = t.calledTools || len(message.At("tool_calls").Items) > 0
	if message.At("additional_kwargs").TextOf("refusal") != "" {
		t.finish = FinishRefusal
	}
}

// concluded returns a complete answer, or the failure that its finish reason implies.
func (t *transcript) concluded(answer Answer) Answer {
	hasText := len(bytes.TrimSpace(answer.Text)) > 0
	if answer.Status == Succeeded && !hasText && t.calledTools && t.finish != FinishLength {
		t.finishAs("tool_calls")
	}
	answer.Finish = t.finish
	if answer.Status != Succeeded {
		return answer
	}
	code, message := "", ""
	switch {
	case t.finish == FinishRefusal:
		code, message = CodeRefused, "The agent refused to answer"
	case t.finish == FinishFilter:
		code, message = CodeFiltered, "A content filter stopped the answer"
	case t.finish == FinishTools && !hasText:
		code, message = CodeNoAnswer, "The agent called tools and gave no answer"
	case t.finish == FinishLength && !hasText:
		code, message = CodeNoAnswer, "The answer's length was used up before any of its text came"
	}
	if code != "" {
		answer.Status, answer.ErrorCode, answer.ErrorMessage = Failed, code, message
		if len(answer.Text) == 0 {
			answer.Text = nil
		}
	}
	return answer
}
