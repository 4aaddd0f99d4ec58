package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent"
	"wending/jobs/agent/agenttest"
)

func newClient(t *testing.T) *agent.Client {
	t.Helper()
	guard, err := agent.NewGuard(agent.GuardConfig{AllowLoopback: true})
	require.NoError(t, err)
	client := agent.NewClient(guard, "")
	t.Cleanup(client.Close)
	return client
}

// Every recording of the default protocol, and every nasty one, is read as its index says, with the
// recorded chunk boundaries over real HTTP.
func TestRecordingsOfTheDefaultProtocolAreReadAsTheIndexSays(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	tested := 0
	for _, recording := range agenttest.Recordings(t) {
		if !strings.HasPrefix(recording.Protocol, "default-agent") {
			continue
		}
		tested++
		t.Run(recording.File, func(t *testing.T) {
			t.Parallel()
			answer := client.Ask(t.Context(), agent.Request{URL: recording.Serve(t), Question: "法国的首都是哪里？",
				Stream: recording.Protocol == "default-agent", Timeout: 20 * time.Second})
			expect := recording.Expect
			require.Equal(t, expect.Complete, answer.Status == agent.Succeeded, "%+v", answer)
			if expect.Complete {
				require.Empty(t, answer.ErrorCode)
				require.NotNil(t, answer.Text)
			} else {
				require.NotEmpty(t, answer.ErrorCode)
				require.NotEmpty(t, answer.ErrorMessage)
			}
			if expect.Answer != nil {
				require.Equal(t, *expect.Answer, string(answer.Text))
			}
			if expect.Reasoning != nil {
				require.Equal(t, *expect.Reasoning, string(answer.Reasoning))
			}
			if expect.Error != nil {
				requireError(t, *expect.Error, recording, answer)
			}
		})
	}
	require.GreaterOrEqual(t, tested, 60)
}

// requireError holds an answer against the index's words for the failure: a code of ours for its
// descriptions, the agent's own message otherwise.
func requireError(t *testing.T, want string, recording agenttest.Recording, answer agent.Answer) {
	t.Helper()
	switch want {
	case "too large":
		require.Equal(t, agent.CodeTooLarge, answer.ErrorCode)
	case "empty answer":
		require.Equal(t, agent.CodeParse, answer.ErrorCode)
	case "HTTP 500":
		require.Equal(t, "HTTP_500", answer.ErrorCode)
	default:
		require.Contains(t, answer.ErrorMessage, want)
		if recording.Status == 200 && !strings.Contains(want, "502") {
			require.Equal(t, agent.CodeAgent, answer.ErrorCode)
		}
	}
}

// A recording of a protocol that the default reader does not know is read rightly or fails; it is never
// taken for another text, and the failure says which protocol it looks like.
func TestRecordingsOfOtherProtocolsAreNeverTakenForAnotherText(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	protocols := map[string]string{"a2a": "A2A", "ag-ui": "AG-UI", "openai-responses": "OpenAI Responses", "openai-chat": "OpenAI chat completions",
		"anthropic": "Anthropic Messages", "coze": "Coze", "fastgpt": "FastGPT", "langgraph": "LangGraph", "langserve": "LangServe",
		"ragflow": "RAGFlow", "dify": "Dify", "ollama": "Ollama"}
	tested := 0
	for _, recording := range agenttest.Recordings(t) {
		if strings.HasPrefix(recording.Protocol, "default-agent") {
			continue
		}
		tested++
		t.Run(recording.File, func(t *testing.T) {
			t.Parallel()
			answer := client.Ask(t.Context(), agent.Request{URL: recording.Serve(t), Question: "法国的首都是哪里？", Stream: true, Timeout: 20 * time.Second})
			if answer.Status == agent.Succeeded {
				require.True(t, recording.Expect.Complete)
				if recording.Expect.Answer != nil {
					require.Equal(t, *recording.Expect.Answer, string(answer.Text))
				} else {
					require.Equal(t, "captured/mockopenaiapi_chat.json", recording.File, "the text that was recorded there is read")
				}
				return
			}
			require.NotEmpty(t, answer.ErrorMessage)
			if answer.ErrorCode != agent.CodeParse || recording.Expect.Error != nil {
				return
			}
			for prefix, name := range protocols {
				if strings.HasPrefix(recording.Protocol, prefix) {
					require.Contains(t, answer.ErrorMessage, "the protocol of "+name)
					require.Contains(t, answer.ErrorMessage, string(recording.Body(t)[:20]))
					return
				}
			}
			t.Fatal("no name is known for " + recording.Protocol)
		})
	}
	require.GreaterOrEqual(t, tested, 50)
}
