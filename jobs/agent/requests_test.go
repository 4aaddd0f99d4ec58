package agent_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/protocol"
)

// The request in each protocol, as a server receives it, equals the recorded one. The extra payload names the bot,
// the model or the graph; ids are new for each call.
func TestTheRequestOfEveryProtocol(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	brief, id := "简短回答", "wending-1-1"
	for file, test := range map[string]struct {
		protocol, extra, model string
		system                 *string
		ids                    map[string]string // members whose value is an id, and the id in the recording
		more                   []string          // members that the recording lacks
	}{
		"default_agent.json":      {protocol: protocol.Default},
		"dify_chat_messages.json": {protocol: "dify-chat", ids: map[string]string{"user": "eval-1"}},
		"dify_workflows_run.json": {protocol: "dify-workflow", ids: map[string]string{"user": "eval-1"}},
		"coze_v3_chat.json": {protocol: "coze", extra: `{"bot_id":"7379462189365198898"}`,
			ids: map[string]string{"user_id": "eval-1"}},
		"coze_workflow_stream_run.json": {protocol: "coze-workflow", extra: `{"workflow_id":"73664689170551xxxxx"}`},
		"fastgpt_chat_completions.json": {protocol: "fastgpt", ids: map[string]string{"chatId": "eval-1"}},
		"ragflow_chat_completions.json": {protocol: "ragflow-chat", extra: `{"chat_id":"c1"}`,
			more: []string{"question"}},
		"ragflow_agents_chat_completions.json": {protocol: "ragflow-agent", extra: `{"agent_id":"A"}`,
			more: []string{"question"}},
		"langserve_stream.json":        {protocol: "langserve"},
		"langgraph_runs_stream.json":   {protocol: "langgraph"},
		"agui_run.json":                {protocol: "ag-ui", ids: map[string]string{"threadId": "t1", "runId": "r1"}},
		"openai_chat_completions.json": {protocol: "openai", model: "gpt-4.1", system: &brief},
		"openai_responses.json":        {protocol: "openai-responses", model: "gpt-4.1", system: &brief},
		"anthropic_messages.json": {protocol: "anthropic", model: "claude-sonnet-4-5", system: &brief,
			extra: `{"max_tokens":1024}`},
		"ollama_api_chat.json": {protocol: "ollama", model: "stories260k"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { w.WriteHeader(http.StatusNoContent) })
			request := protocol.Request{
				Protocol: test.protocol, URL: fake.URL, Question: "法国的首都是哪里？", SystemPrompt: test.system, Model: test.model,
				ExtraPayload: json.RawMessage(test.extra), Stream: true, IdempotencyKey: id, Timeout: 10 * time.Second,
			}
			if test.protocol == protocol.Default {
				request.StandardAnswer = "巴黎"
			}
			client.Ask(t.Context(), request)
			call := fake.Calls()[0]
			for member, recorded := range test.ids {
				require.Contains(t, call.Body[member], id)
				call.Body[member] = recorded
			}
			for _, member := range test.more {
				require.Contains(t, call.Body, member)
				delete(call.Body, member)
			}
			require.Equal(t, recordedRequest(t, file), call.Body)
			require.Equal(t, "application/json", call.Header.Get("Content-Type"))
			require.Equal(t, id, call.Header.Get("Idempotency-Key"))
			require.Equal(t, "wending", call.Header.Get("User-Agent"))
			require.Contains(t, call.Header.Get("Accept"), "text/event-stream")
			if test.protocol == "anthropic" {
				require.Equal(t, "2023-06-01", call.Header.Get("anthropic-version"))
			}
		})
	}
}

func recordedRequest(t *testing.T, file string) (body map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("agenttest", "testdata", "wire", "requests", file))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &body))
	return body
}

// A2A has two versions: the method in the extra payload decides, and 0.3 is the default.
func TestTheRequestOfA2A(t *testing.T) {
	t.Parallel()
	for file, extra := range map[string]string{"a2a_v03_message_stream.json": "",
		"a2a_v1_SendStreamingMessage.json": `{"method":"SendStreamingMessage"}`} {
		body, err := protocol.Request{Protocol: "a2a", Question: "法国的首都是哪里？", ExtraPayload: json.RawMessage(extra),
			Stream: true, IdempotencyKey: "m-1"}.Body()
		require.NoError(t, err)
		var sent map[string]any
		require.NoError(t, json.Unmarshal(body, &sent))
		require.Equal(t, "m-1", sent["id"])
		sent["id"] = 1.0
		require.Equal(t, recordedRequest(t, file), sent)
	}
}

// Every protocol transmits all texts of a prompt: none is lost.
func TestThePromptReachesTheAgentInEveryProtocol(t *testing.T) {
	t.Parallel()
	system, background := "SYSTEM TEXT", "BACKGROUND TEXT"
	for _, one := range protocol.All {
		for _, isStream := range []bool{true, false} {
			body, err := protocol.Request{Protocol: one.Name, Question: "QUESTION", SystemPrompt: &system,
				UserContext: &background, Model: "m", Stream: isStream, IdempotencyKey: "k"}.Body()
			require.NoError(t, err)
			for _, text := range []string{system, background, "QUESTION"} {
				require.Contains(t, string(body), text, one.Name)
			}
			empty := ""
			without, err := protocol.Request{Protocol: one.Name, Question: "QUESTION", SystemPrompt: &empty, Stream: isStream,
				IdempotencyKey: "k"}.Body()
			require.NoError(t, err)
			require.NotContains(t, string(without), `"content":""`, one.Name)
		}
	}
}

// A template replaces the protocol's body. Values are inserted into its strings, and are never treated as templates
// themselves.
func TestATemplateIsTheBody(t *testing.T) {
	t.Parallel()
	body, err := protocol.Request{
		Protocol: "dify-chat", Question: `他说"{{level}}"`,
		Variables: map[string]string{"level": "高", "question": "not this one"}, SessionID: "s-1", Model: "m",
		Template: json.RawMessage(
			`{"query":"[{{level}}] {{question}}","doc_list":[],"session_id":"{{session_id}}","n":12345678901234567890.5,"deep":{"a":["{{model}}","{{unknown}}"]}}`),
		ExtraPayload: json.RawMessage(`{"stream":true}`),
	}.Body()
	require.NoError(t, err)
	require.JSONEq(t,
		`{"query":"[高] 他说\"{{level}}\"","doc_list":[],"session_id":"s-1","n":12345678901234567890.5,"deep":{"a":["m","{{unknown}}"]},"stream":true}`, string(body))
	for _, broken := range []string{`[]`, `"{{question}}"`, `{`} {
		_, err := protocol.Request{Protocol: protocol.Default, Template: json.RawMessage(broken)}.Body()
		require.Error(t, err, broken)
	}
}

func TestAKeyGoesWhereTheProtocolHasIt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]string{
		"openai":    {"Authorization": "Bearer k"},
		"anthropic": {"x-api-key": "k"},
	} {
		one, isKnown := protocol.Of(name)
		require.True(t, isKnown)
		headers := map[string]string{}
		one.SetKey(headers, "k")
		require.Equal(t, want, headers)
	}
	own := map[string]string{"authorization": "Basic x"}
	openai, _ := protocol.Of("openai")
	openai.SetKey(own, "k")
	require.Equal(t, map[string]string{"authorization": "Basic x"}, own, "a header that was typed counts")
	require.Equal(t, "https://a.example/v1/chat/completions", openai.ModelURL("https://a.example/v1/"))
}

// The second turn of a conversation in each protocol: with the history or the agent's id for the conversation, and
// always as the same user.
func TestTheSecondTurnOfAConversationInEveryProtocol(t *testing.T) {
	t.Parallel()
	system := "SYSTEM"
	chat := []any{
		map[string]any{"role": "system", "content": "SYSTEM"}, map[string]any{"role": "user", "content": "Q1"},
		map[string]any{"role": "assistant", "content": "A1"}, map[string]any{"role": "user", "content": "Q2"},
	}
	for name, want := range map[string]struct {
		// members are required members of the body; query is the required query of the URL.
		members map[string]any
		query   string
		// keeps reports that the agent keeps the conversation, so that the history is not sent.
		keeps bool
	}{
		protocol.Default:   {members: map[string]any{"session_id": "s-1", "history": []any{chat[1], chat[2]}}},
		"openai":           {members: map[string]any{"messages": chat}},
		"ollama":           {members: map[string]any{"messages": chat}},
		"anthropic":        {members: map[string]any{"system": "SYSTEM", "messages": chat[1:]}},
		"openai-responses": {members: map[string]any{"instructions": "SYSTEM", "input": chat[1:]}},
		"dify-chat":        {members: map[string]any{"conversation_id": "c-7", "user": "wending-s-0"}, keeps: true},
		"coze":             {members: map[string]any{"user_id": "wending-s-0"}, query: "conversation_id=c-7", keeps: true},
		"fastgpt":          {members: map[string]any{"chatId": "c-7"}, keeps: true},
		"ragflow-chat":     {members: map[string]any{"session_id": "c-7"}, keeps: true},
		"ragflow-agent":    {members: map[string]any{"session_id": "c-7"}, keeps: true},
		"ag-ui":            {members: map[string]any{"threadId": "c-7"}},
		"langgraph":        {},
		"langserve":        {},
		"a2a":              {keeps: true},
		"dify-workflow":    {},
		"coze-workflow":    {},
	} {
		fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { w.WriteHeader(http.StatusNoContent) })
		newClient(t).Ask(t.Context(), protocol.Request{
			Protocol: name, URL: fake.URL + "/v3/chat?a=b", Question: "Q2", SystemPrompt: &system, Model: "m",
			IdempotencyKey: "k", Timeout: 10 * time.Second,
			IsTurn: true, SessionID: "s-1", BegunIn: "s-0", ConversationID: "c-7",
			History: []protocol.Message{{Role: protocol.RoleUser, Content: "Q1"}, {Role: protocol.RoleAssistant, Content: "A1"}},
		})
		call := fake.Calls()[0]
		for member, value := range want.members {
			require.Equal(t, value, call.Body[member], "%s: %s", name, member)
		}
		require.Contains(t, call.Query, "a=b", name)
		require.Contains(t, call.Query, want.query, name)
		text, err := json.Marshal(call.Body)
		require.NoError(t, err)
		if want.keeps {
			require.NotContains(t, string(text), "A1", name)
			require.Contains(t, string(text)+call.Query, "c-7", name)
		} else {
			require.Contains(t, string(text), "A1", name)
		}
	}
}

// If an agent keeps the conversation, its answer contains the conversation's id; there is a recorded answer for each
// such protocol.
func TestAnswersTellTheirConversation(t *testing.T) {
	t.Parallel()
	for file, name := range map[string]string{
		"composed/dify_chat_agent.sse": "dify-chat", "composed/dify_chat_blocking.json": "dify-chat",
		"composed/coze_v3_chat_done_empty_data.sse": "coze",
		"composed/ragflow_agent.sse":                "ragflow-agent",
		"composed/ragflow_chat_native_delta.sse":    "ragflow-chat",
		"captured/aimock_a2a_stream.sse":            "a2a", "captured/mockllm_a2a_v03_countdown.sse": "a2a",
	} {
		for _, recording := range agenttest.Recordings(t) {
			if recording.File != file {
				continue
			}
			answer := newClient(t).Ask(t.Context(),
				protocol.Request{Protocol: name, URL: recording.Serve(t), Question: "q", Timeout: 10 * time.Second})
			require.NotEmpty(t, answer.ConversationID, file)
		}
	}
}

// A template may contain the history: alone in a string it becomes the list, within a longer text its JSON.
func TestATemplateHoldsTheHistory(t *testing.T) {
	t.Parallel()
	body, err := protocol.Request{
		Protocol: protocol.Default, Question: "Q2", IsTurn: true, SessionID: "s", ConversationID: "c",
		History: []protocol.Message{{Role: protocol.RoleUser, Content: "Q1"}, {Role: protocol.RoleAssistant, Content: "A1"}},
		Template: json.RawMessage(
			`{"query":"{{question}}","messages":"{{history}}","all":"before: {{history}}","id":"{{conversation_id}}"}`),
	}.Body()
	require.NoError(t, err)
	require.JSONEq(t, `{"query":"Q2","messages":[{"role":"user","content":"Q1"},{"role":"assistant","content":"A1"}],
		"all":"before: [{\"role\":\"user\",\"content\":\"Q1\"},{\"role\":\"assistant\",\"content\":\"A1\"}]","id":"c"}`, string(body))
}
