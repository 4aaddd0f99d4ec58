package agent_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/protocol"
)

func atOnce() bool { return true }

// A server is recognised by its answers, not by its address: each server here plays a recording.
func TestAProtocolIsRecognisedByWhatAnswers(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	tested := 0
	for _, recording := range agenttest.Recordings(t) {
		want, isStream := protocolOf(recording)
		if want == "" || !recording.Expect.Complete || !isStream || recording.Status != 200 || want == "fastgpt" ||
			recording.Protocol == "ollama-progress" {
			continue
		}
		tested++
		t.Run(recording.File, func(t *testing.T) {
			t.Parallel()
			name, answer := client.Detect(t.Context(),
				protocol.Request{URL: recording.Serve(t), Question: "q", Stream: true, Timeout: 20 * time.Second}, atOnce)
			require.Equal(t, want, name)
			require.Equal(t, protocol.Succeeded, answer.Status, "%+v", answer)
		})
	}
	require.Greater(t, tested, 25)
}

func TestAProtocolIsRecognisedByItsAddress(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	refusing := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		http.Error(w, `{"error":{"message":"you must provide a model parameter"}}`, http.StatusBadRequest)
	})
	for path, want := range map[string]string{
		"/v1/chat/completions": "openai", "/api/v1/chat/completions": "fastgpt", "/v1/chat-messages": "dify-chat",
		"/v1/workflows/run": "dify-workflow",
		"/v3/chat":          "coze", "/v1/workflow/stream_run": "coze-workflow", "/v1/messages": "anthropic",
		"/v1/responses": "openai-responses",
		"/api/chat":     "ollama", "/chain/stream": "langserve", "/runs/stream": "langgraph",
		"/api/v1/agents/x/completions": "ragflow-agent", "/ask": "",
	} {
		name, answer := client.Detect(t.Context(),
			protocol.Request{URL: refusing.URL + path, Question: "q", Stream: true, Timeout: 20 * time.Second}, atOnce)
		require.Equal(t, want, name, path)
		require.Equal(t, "HTTP_400", answer.ErrorCode)
		require.Contains(t, answer.ErrorMessage, "you must provide a model parameter")
	}
	name, answer := client.Detect(t.Context(),
		protocol.Request{URL: "http://127.0.0.1:9/v1/messages", Question: "q", Timeout: time.Second}, atOnce)
	require.Empty(t, name, "nobody is there")
	require.Equal(t, protocol.CodeNetwork, answer.ErrorCode)
	own := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, strings.ToUpper(call.Question))
	})
	name, answer = client.Detect(t.Context(),
		protocol.Request{URL: own.URL + "/v1/messages", Question: "q", Stream: true, Timeout: 20 * time.Second}, atOnce)
	require.Equal(t, protocol.Default, name, "what answers counts")
	require.Equal(t, "Q", string(answer.Text))
}

// Every call of a search waits for the server's rate limit.
func TestRecognisingAProtocolKeepsTheRateLimit(t *testing.T) {
	t.Parallel()
	server := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		_, _ = w.Write([]byte("nothing that is known"))
	})
	request := protocol.Request{URL: server.URL + "/v1/messages", Question: "q", Stream: true, Timeout: 20 * time.Second}
	_, answer := newClient(t).Detect(t.Context(), request, func() bool { return false })
	require.Equal(t, protocol.CodeParse, answer.ErrorCode)
	require.Len(t, server.Calls(), 1)
	_, answer = newClient(t).Detect(t.Context(), request, atOnce)
	require.Equal(t, protocol.CodeParse, answer.ErrorCode)
	require.Len(t, server.Calls(), 3, "the default protocol is tried too")
}

// An agent that refuses the test question still speaks its protocol.
func TestAProtocolIsRecognisedByARefusal(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		_, _ = w.Write([]byte(`{"type":"message","role":"assistant","stop_reason":"refusal","content":[]}`))
	})
	name, answer := newClient(t).Detect(t.Context(),
		protocol.Request{URL: fake.URL + "/v1/messages", Question: "q", Timeout: 20 * time.Second}, atOnce)
	require.Equal(t, "anthropic", name)
	require.Equal(t, protocol.CodeRefused, answer.ErrorCode)
	require.Len(t, fake.Calls(), 1)
}
