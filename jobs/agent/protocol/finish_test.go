package protocol

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/wire"
)

// lines returns a stream of data lines.
func lines(values ...string) string { return "data: " + strings.Join(values, "\n\ndata: ") + "\n\n" }

// events returns a stream of named events: name, data, name, data …
func events(pairs ...string) string {
	var stream strings.Builder
	for n := 0; n < len(pairs); n += 2 {
		stream.WriteString("event: " + pairs[n] + "\ndata: " + pairs[n+1] + "\n\n")
	}
	return stream.String()
}

// The finish reason is read in every protocol that reports one, and decides whether there is an answer.
func TestWhyAnAnswerEndedDecidesWhatItIs(t *testing.T) {
	t.Parallel()
	const done = "[DONE]"
	chunk := func(delta, reason string) string {
		if reason != "null" {
			reason = `"` + reason + `"`
		}
		return `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` +
			reason + `}]}`
	}
	completion := func(message, reason string) string {
		return `{"object":"chat.completion","choices":[{"index":0,"message":` + message + `,"finish_reason":"` +
			reason + `"}]}`
	}
	anthropicStream := func(text, reason string) string {
		return events("message_start", `{"type":"message_start","message":{"role":"assistant"}}`,
			"content_block_delta", `{"type":"content_block_delta","delta":{"type":"text_delta","text":"`+text+`"}}`,
			"message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+reason+`"}}`, "message_stop",
			`{"type":"message_stop"}`)
	}
	graph := func(message string) string {
		return events("updates", `{"agent":{"messages":[`+message+`]}}`)
	}
	const call = `{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}`
	for _, test := range []struct {
		protocol, name, body string
		finish               Finish
		code, text           string
	}{
		{"openai", "stop", lines(chunk(`{"content":"a"}`, "null"), chunk(`{}`, "stop"), done), FinishStop, "", "a"},
		{"openai", "empty with stop", lines(chunk(`{"content":""}`, "stop"), done), FinishStop, "", ""},
		{"openai", "cut by its length", lines(chunk(`{"content":"a"}`, "length"), done), FinishLength, "", "a"},
		{"default", "empty with stop", `{"output":"","finish_reason":"stop"}`, FinishStop, "", ""},
		{"default", "empty with stop under data", `{"data":{"content":"","finish_reason":"stop"}}`, FinishStop, "", ""},
		{"default", "stop beside an unknown member", `{"result":"a","finish_reason":"stop"}`, FinishStop, CodeParse, ""},
		{"default", "empty without a reason", `{"output":""}`, "", CodeParse, ""},
		{"openai", "length without text", lines(chunk(`{"reasoning_content":"hm"}`, "length"), done), FinishLength,
			CodeNoAnswer, ""},
		{"openai", "refused in pieces", lines(chunk(`{"refusal":"I "}`, "null"), chunk(`{"refusal":"can't"}`, "null"),
			chunk(`{}`, "stop"), done), FinishRefusal, CodeRefused, "I can't"},
		{"openai", "filtered without text", lines(chunk(`{}`, "content_filter"), done), FinishFilter, CodeFiltered, ""},
		{"openai", "filtered on the way", lines(chunk(`{"content":"a"}`, "content_filter"), done), FinishFilter,
			CodeFiltered, "a"},
		{"openai", "tools only", lines(chunk(call, "null"), chunk(`{}`, "tool_calls"), done), FinishTools, CodeNoAnswer, ""},
		{"openai", "tools only, called a stop", lines(chunk(call, "null"), chunk(`{}`, "stop"), done), FinishTools,
			CodeNoAnswer, ""},
		{"openai", "blanks beside tools", lines(chunk(`{"content":"\n\n"}`, "null"), chunk(call, "tool_calls"), done),
			FinishTools, CodeNoAnswer, "\n\n"},
		{"openai", "text beside tools", lines(chunk(`{"content":"I'll look"}`, "null"), chunk(call, "tool_calls"), done),
			FinishTools, "", "I'll look"},
		{"openai", "an unknown word", lines(chunk(`{"content":"a"}`, "whim"), done), "", "", "a"},
		{"openai", "nothing said", lines(chunk(`{"content":"a"}`, "null"), done), "", "", "a"},
		{"openai", "could not end", lines(chunk(`{"content":"a"}`, "insufficient_system_resource"), done), "",
			CodeAgent, "a"},
		{"openai", "cut after its reason", lines(chunk(`{"content":"a"}`, "length")), FinishLength, CodeIncomplete, "a"},
		{"openai", "cut in a refusal", lines(chunk(`{"refusal":"I "}`, "null")), FinishRefusal, CodeIncomplete, "I "},
		{"openai", "whole", completion(`{"content":"a"}`, "stop"), FinishStop, "", "a"},
		{"openai", "whole refusal", completion(`{"content":null,"refusal":"No."}`, "stop"), FinishRefusal,
			CodeRefused, "No."},
		{"openai", "whole filter", completion(`{"content":null}`, "content_filter"), FinishFilter, CodeFiltered, ""},
		{"openai", "whole tools", completion(`{"content":null,"tool_calls":[{"id":"c"}]}`, "tool_calls"), FinishTools,
			CodeNoAnswer, ""},
		{"openai", "whole length", completion(`{"content":"a"}`, "length"), FinishLength, "", "a"},

		{"openai-responses", "completed", events("response.output_text.delta",
			`{"type":"response.output_text.delta","delta":"a"}`,
			"response.completed", `{"type":"response.completed","response":{"status":"completed"}}`), FinishStop, "", "a"},
		{"openai-responses", "too long", events("response.output_text.delta",
			`{"type":"response.output_text.delta","delta":"a"}`,
			"response.incomplete",
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), FinishLength, "", "a"},
		{"openai-responses", "filtered", events("response.incomplete",
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`), FinishFilter, CodeFiltered, ""},
		{"openai-responses", "refused in pieces",
			events("response.refusal.delta", `{"type":"response.refusal.delta","delta":"No."}`,
				"response.completed",
				`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]}}`),
			FinishRefusal, CodeRefused, "No."},
		{"openai-responses", "whole refusal",
			`{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]}`,
			FinishRefusal, CodeRefused, "No."},
		{"openai-responses", "whole tools",
			`{"object":"response","status":"completed","output":[{"type":"function_call","name":"f"}]}`, FinishTools,
			CodeNoAnswer, ""},
		{"openai-responses", "cut", events("response.refusal.delta", `{"type":"response.refusal.delta","delta":"No"}`),
			FinishRefusal, CodeIncomplete, "No"},

		{"anthropic", "its turn's end", anthropicStream("a", "end_turn"), FinishStop, "", "a"},
		{"anthropic", "a stop sequence", anthropicStream("a", "stop_sequence"), FinishStop, "", "a"},
		{"anthropic", "too long", anthropicStream("a", "max_tokens"), FinishLength, "", "a"},
		{"anthropic", "paused", anthropicStream("a", "pause_turn"), FinishLength, "", "a"},
		{"anthropic", "refused without text", anthropicStream("", "refusal"), FinishRefusal, CodeRefused, ""},
		{"anthropic", "refused on the way", anthropicStream("I", "refusal"), FinishRefusal, CodeRefused, "I"},
		{"anthropic", "tools only", anthropicStream("", "tool_use"), FinishTools, CodeNoAnswer, ""},
		{"anthropic", "whole",
			`{"type":"message","role":"assistant","stop_reason":"max_tokens","content":[{"type":"text","text":"a"}]}`,
			FinishLength, "", "a"},
		{"anthropic", "whole refusal", `{"type":"message","role":"assistant","stop_reason":"refusal","content":[]}`,
			FinishRefusal, CodeRefused, ""},
		{"anthropic", "whole tools",
			`{"type":"message","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","name":"f"}]}`,
			FinishTools, CodeNoAnswer, ""},
		{"anthropic", "cut after its reason", strings.TrimSuffix(anthropicStream("a", "max_tokens"),
			events("message_stop", `{"type":"message_stop"}`)), FinishLength, CodeIncomplete, "a"},

		{"ollama", "stop", `{"model":"m","message":{"content":"a"},"done":false}` + "\n" +
			`{"model":"m","message":{"content":""},"done":true,"done_reason":"stop"}`, FinishStop, "", "a"},
		{"ollama", "too long", `{"model":"m","message":{"content":"a"},"done":true,"done_reason":"length"}`,
			FinishLength, "", "a"},
		{"ollama", "tools only",
			`{"model":"m","message":{"content":"","tool_calls":[{"function":{"name":"f"}}]},"done":true,"done_reason":"stop"}`,
			FinishTools, CodeNoAnswer, ""},
		{"ollama", "only loaded", `{"model":"m","message":{"content":""},"done":true,"done_reason":"load"}`, "", "", ""},

		{"dify-chat", "the model's own reason", lines(`{"event":"message","conversation_id":"c","answer":"a"}`,
			`{"event":"node_finished","conversation_id":"c","data":{"node_type":"llm","outputs":{"text":"a","finish_reason":"length"}}}`,
			`{"event":"message_end","conversation_id":"c","metadata":{}}`), FinishLength, "", "a"},
		{"dify-chat", "replaced by its moderation", lines(`{"event":"message","conversation_id":"c","answer":"bad"}`,
			`{"event":"message_replace","conversation_id":"c","answer":"Let's talk of something else."}`,
			`{"event":"message_end","conversation_id":"c"}`),
			FinishFilter, CodeFiltered, "Let's talk of something else."},
		{"dify-workflow", "the model's own reason", lines(
			`{"event":"node_finished","workflow_run_id":"w","data":{"node_type":"llm","outputs":{"text":"","finish_reason":"content_filter"}}}`,
			`{"event":"workflow_finished","workflow_run_id":"w","data":{"status":"succeeded","outputs":{"answer":""}}}`), FinishFilter, CodeFiltered, ""},
		{"dify-workflow", "nothing said", `{"workflow_run_id":"w","data":{"status":"succeeded","outputs":{"answer":"a"}}}`,
			"", "", "a"},

		{"coze", "its own end", events("conversation.message.delta", `{"type":"answer","content":"a"}`,
			"conversation.message.completed",
			`{"type":"verbose","content":"{\"msg_type\":\"generate_answer_finish\",\"data\":\"{\\\"finish_reason\\\":0}\"}"}`,
			"conversation.chat.completed", `{"status":"completed"}`), FinishStop, "", "a"},
		{"coze", "it waits for a tool of the caller",
			events("conversation.chat.requires_action", `{"status":"requires_action"}`), FinishTools, CodeNoAnswer, ""},
		{"coze-workflow", "nothing said", events("Message", `{"node_title":"End","content":"a"}`, "Done", `{}`), "", "", "a"},

		{"fastgpt", "the nodes know more than the stream", events("answer", chunk(`{"content":"a"}`, "stop"), "answer", done,
			"flowResponses", `[{"moduleName":"AI","finishReason":"length"}]`), FinishLength, "", "a"},
		{"fastgpt", "whole", `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`,
			FinishStop, "", "a"},

		{"ragflow-chat", "nothing said",
			"data:{\"code\":0,\"data\":{\"answer\":\"a\",\"session_id\":\"s\"}}\n\ndata:{\"code\":0,\"data\":true}\n\n",
			"", "", "a"},
		{"ragflow-agent", "nothing said",
			"data:{\"event\":\"message\",\"session_id\":\"s\",\"data\":{\"content\":\"a\"}}\n\ndata:[DONE]\n\n", "", "", "a"},

		{"langserve", "streamed", events("data", `{"type":"AIMessageChunk","content":"a"}`,
			"data", `{"type":"AIMessageChunk","content":"","response_metadata":{"finish_reason":"length"}}`, "end",
			""), FinishLength, "", "a"},
		{"langserve", "whole", `{"output":{"type":"ai","content":"","response_metadata":{"stop_reason":"refusal"}}}`,
			FinishRefusal, CodeRefused, ""},
		{"langserve", "whole refusal of OpenAI's",
			`{"output":{"type":"ai","content":"No.","additional_kwargs":{"refusal":"No."},"response_metadata":{"finish_reason":"stop"}}}`,
			FinishRefusal, CodeRefused, "No."},

		{"langgraph", "the last message counts",
			graph(`{"type":"ai","content":"","tool_calls":[{"name":"f"}],"response_metadata":{"finish_reason":"tool_calls"}}`) +
				graph(`{"type":"ai","content":"a","response_metadata":{"finish_reason":"stop"}}`), FinishStop, "", "a"},
		{"langgraph", "tools only", graph(`{"type":"ai","content":"","tool_calls":[{"name":"f"}]}`), FinishTools,
			CodeNoAnswer, ""},
		{"langgraph", "whole",
			`{"messages":[{"type":"human","content":"q"},{"type":"ai","content":"a","response_metadata":{"done_reason":"length"}}]}`, FinishLength, "", "a"},

		{"a2a", "completed",
			`{"jsonrpc":"2.0","result":{"kind":"task","status":{"state":"completed"},"artifacts":[{"artifactId":"1","parts":[{"kind":"text","text":"a"}]}]}}`, FinishStop, "", "a"},
		{"a2a", "rejected",
			lines(
				`{"jsonrpc":"2.0","result":{"statusUpdate":{"status":{"state":"TASK_STATE_REJECTED","message":{"parts":[{"text":"Not my task."}]}}}}}`),
			FinishRefusal, CodeRefused, "Not my task."},

		{"ag-ui", "tools only", lines(`{"type":"RUN_STARTED"}`,
			`{"type":"TOOL_CALL_START","toolCallId":"1","toolCallName":"f"}`,
			`{"type":"RUN_FINISHED"}`), FinishTools, CodeNoAnswer, ""},
		{"ag-ui", "a tool on the way", lines(`{"type":"TOOL_CALL_START","toolCallId":"1"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","delta":"a"}`, `{"type":"RUN_FINISHED"}`), "", "", "a"},

		{Default, "in a chunk",
			lines(`{"event":"llm_chunk","data":{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}}`,
				`{"event":"node_finished","data":{"output":""}}`),
			FinishLength, "", "a"},
		{Default, "in the final event",
			lines(`{"event":"node_finished","data":{"output":"","finish_reason":"content_filter"}}`), FinishFilter,
			CodeFiltered, ""},
		{Default, "a refusal in pieces", lines(`{"event":"llm_chunk","data":{"choices":[{"delta":{"refusal":"No."}}]}}`,
			`{"event":"node_finished"}`), FinishRefusal, CodeRefused, "No."},
		{Default, "empty with stop", lines(`{"event":"node_finished","data":{"output":"","finish_reason":"stop"}}`),
			FinishStop, "", ""},
		{Default, "cut after its reason", lines(`{"event":"llm_chunk","text":"a","finish_reason":"length"}`), FinishLength,
			CodeIncomplete, "a"},
		{Default, "whole", `{"code":0,"data":{"output":"a","finish_reason":"stop"}}`, FinishStop, "", "a"},
		{Default, "whole, filtered without text", `{"code":0,"data":{"output":"","finish_reason":"content_filter"}}`,
			FinishFilter, CodeFiltered, ""},
		{Default, "whole refusal of a model behind it",
			`{"choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]}`, FinishRefusal,
			CodeRefused, "No."},
	} {
		spoken, isKnown := Of(test.protocol)
		require.True(t, isKnown, test.protocol)
		name := test.protocol + ": " + test.name
		answer := spoken.Read(iotest.OneByteReader(strings.NewReader(test.body)), time.Now(), func() {}, error.Error, nil)
		require.Equal(t, test.finish, answer.Finish, "%s: %+v", name, answer)
		require.Equal(t, test.code, answer.ErrorCode, "%s: %s", name, answer.ErrorMessage)
		require.Equal(t, test.text, string(answer.Text), name)
		require.Equal(t, test.code == "", answer.Status == Succeeded, name)
		require.Equal(t, test.code == "", answer.ErrorMessage == "", name)
	}
}

// If a connection breaks after the finish reason arrived, the reason is kept, but a refusal does not count as a
// complete answer.
func TestABrokenConnectionKeepsTheReason(t *testing.T) {
	t.Parallel()
	body := io.MultiReader(strings.NewReader(
		lines(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"content_filter"}]}`)), iotest.ErrReader(
		errors.New("reset")))
	answer := openAI.Read(body, time.Now(), func() {}, error.Error, nil)
	require.Equal(t, CodeIncomplete, answer.ErrorCode)
	require.Equal(t, FinishFilter, answer.Finish)
	require.Equal(t, "a", string(answer.Text))
}

// The first token is the first one of the answer. Reasoning that comes before it is reported while it arrives, and
// timed separately.
func TestTheFirstTokenIsTheAnswersOwn(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	begun := make(chan Answer)
	start := time.Now()
	tap := &heldTap{thought: make(chan struct{})}
	go func() { begun <- openAI.Read(reader, start, func() {}, error.Error, tap) }()
	_, err := io.WriteString(writer, lines(`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`))
	require.NoError(t, err)
	<-tap.thought
	thoughtFor := time.Since(start)
	_, err = io.WriteString(writer, lines(`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, "[DONE]"))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	answer := <-begun
	require.Equal(t, "hm", string(answer.Reasoning))
	require.Greater(t, answer.FirstToken, thoughtFor)

	only := openAI.Read(strings.NewReader(lines(`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]")),
		start, func() {}, error.Error, nil)
	require.Zero(t, only.FirstToken, "there is no answer whose first token it could be")
}

// heldTap closes the channel thought when the first piece of reasoning arrives.
type heldTap struct {
	Tap
	thought chan struct{}
}

func (h *heldTap) Reasoning([]byte) { close(h.thought) }
func (h *heldTap) Text([]byte)      {}
func (h *heldTap) Rewrite([]byte)   {}

func (h *heldTap) Value(wire.Event) {}

// Usage is found in the events and bodies of every protocol that reports it.
func TestTokensAreCountedAsTheProtocolMeansThem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		protocol, name, body string
		input, output, total int
	}{
		{Default, "final event", lines(`{"event":"llm_chunk","text":"a"}`,
			`{"event":"node_finished","data":{"output":"a","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":8}}}`), 3, 4, 8},
		{Default, "top of the final event",
			lines(`{"event":"node_finished","output":"a","usage":{"input_tokens":3,"output_tokens":4}}`), 3, 4, 7},
		{Default, "body", `{"output":"a","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`, 3, 4, 7},
		{Default, "data of a body", `{"code":0,"data":{"text":"a","usage":{"input_tokens":3,"output_tokens":4}}}`, 3, 4, 7},
		{"anthropic", "with what a cache held",
			`{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}],` +
				`"usage":{"input_tokens":25,"cache_read_input_tokens":6,"cache_creation_input_tokens":4,"output_tokens":10}}`,
			35, 10, 45},
		{"anthropic", "streamed, with what a cache held", events(
			"message_start",
			`{"type":"message_start","message":{"usage":{"input_tokens":25,"cache_read_input_tokens":10,"output_tokens":1}}}`,
			"content_block_delta", `{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`,
			"message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":10}}`,
			"message_stop", `{"type":"message_stop"}`), 35, 10, 45},
		{"fastgpt", "the nodes' sum, not the usage beside them",
			`{"responseData":[{"inputTokens":100,"outputTokens":10},{"inputTokens":50,"outputTokens":5}],` +
				`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":1},"choices":[{"index":0,"message":{"content":"a"}}]}`, 150, 15, 165},
		{"fastgpt", "nodes within nodes", events("answer",
			`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`, "answer", "[DONE]", "flowResponses",
			`[{"toolCallInputTokens":10,"toolCallOutputTokens":1,"toolDetail":[{"inputTokens":20,"outputTokens":2}]},{"pluginDetail":[{"inputTokens":30,"outputTokens":3}]}]`), 60, 6, 66},
	} {
		spoken, isKnown := Of(test.protocol)
		require.True(t, isKnown)
		answer := spoken.Read(strings.NewReader(test.body), time.Now(), func() {}, error.Error, nil)
		require.Equal(t, Succeeded, answer.Status, "%s: %+v", test.name, answer)
		require.Equal(t, Usage{Input: &test.input, Output: &test.output, Total: &test.total}, answer.Usage,
			test.protocol+": "+test.name)
	}
}

// A provider's base address works as given in its documentation, with or without the version.
func TestABaseAddressWorksWithItsVersionOrWithout(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://api.anthropic.com":         "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/":        "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/v1":      "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/v1/":     "https://api.anthropic.com/v1/messages",
		"https://gateway.example/anthropic": "https://gateway.example/anthropic/v1/messages",
	} {
		require.Equal(t, want, anthropic.ModelURL(base))
	}
	require.Equal(t, "https://api.openai.com/v1/chat/completions", openAI.ModelURL("https://api.openai.com/v1"))
	require.Equal(t, "http://127.0.0.1:11434/api/chat", ollama.ModelURL("http://127.0.0.1:11434"))
}
