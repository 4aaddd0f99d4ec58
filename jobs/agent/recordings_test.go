package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent"
	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
)

func newClient(t *testing.T) *agent.Client {
	t.Helper()
	guard, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	client := agent.NewClient(guard, "")
	t.Cleanup(client.Close)
	return client
}

// Recordings of the default protocol, and malformed ones, are read as their index describes, over real HTTP with
// the recorded chunk boundaries.
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
			answer := client.Ask(t.Context(), protocol.Request{Protocol: protocol.Default, URL: recording.Serve(t),
				Question: "法国的首都是哪里？",
				Stream:   recording.Protocol == "default-agent", Timeout: 20 * time.Second})
			expect := recording.Expect
			require.Equal(t, expect.Complete, answer.Status == protocol.Succeeded, "%+v", answer)
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

// requireError compares an answer with want, the failure that the index describes: by error code if want is a
// description such as "too large", otherwise by the agent's own message.
func requireError(t *testing.T, want string, recording agenttest.Recording, answer protocol.Answer) {
	t.Helper()
	switch want {
	case "too large":
		require.Equal(t, protocol.CodeTooLarge, answer.ErrorCode)
	case "empty answer":
		require.Equal(t, protocol.CodeParse, answer.ErrorCode)
	case "HTTP 500":
		require.Equal(t, "HTTP_500", answer.ErrorCode)
	default:
		require.Contains(t, answer.ErrorMessage, want)
		if recording.Status == 200 && !strings.Contains(want, "502") {
			require.Equal(t, protocol.CodeAgent, answer.ErrorCode)
		}
	}
}

// protocolOf returns the protocol of a recording, and whether the answer was streamed. The label in the index may be
// more specific than the protocol's name; it ends with -nonstream if the answer was not streamed.
func protocolOf(recording agenttest.Recording) (name string, isStream bool) {
	label, isWhole := strings.CutSuffix(recording.Protocol, "-nonstream")
	for prefix, protocol := range map[string]string{
		"openai-chat": "openai", "openai-error": "openai", "openai-responses": "openai-responses",
		"anthropic-messages": "anthropic", "ollama": "ollama",
		"dify-chat": "dify-chat", "dify-workflow": "dify-workflow", "coze-v3": "coze", "coze-workflow": "coze-workflow",
		"fastgpt":      "fastgpt",
		"ragflow-chat": "ragflow-chat", "ragflow-agent": "ragflow-agent", "langserve": "langserve", "langgraph": "langgraph",
		"a2a": "a2a", "ag-ui": "ag-ui",
	} {
		if label == prefix || strings.HasPrefix(label, prefix+"-") && prefix != "openai-chat" && prefix != "dify-chat" {
			return protocol, !isWhole
		}
	}
	return "", false
}

// Recordings of every protocol are read as the index describes, over real HTTP with the recorded chunk boundaries.
func TestRecordingsOfEveryProtocolAreReadAsTheIndexSays(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	tested := map[string]int{}
	for _, recording := range agenttest.Recordings(t) {
		if strings.HasPrefix(recording.Protocol, "default-agent") || recording.Protocol == "ollama-progress" { // not a chat
			continue
		}
		name, isStream := protocolOf(recording)
		require.NotEmpty(t, name, recording.Protocol)
		tested[name]++
		t.Run(recording.File, func(t *testing.T) {
			t.Parallel()
			answer := client.Ask(t.Context(), protocol.Request{Protocol: name, URL: recording.Serve(t), Question: "法国的首都是哪里？",
				Stream: isStream, Timeout: 20 * time.Second})
			expect := recording.Expect
			require.Equal(t, expect.Complete, answer.Status == protocol.Succeeded, "%+v", answer)
			if expect.Answer != nil {
				require.Equal(t, *expect.Answer, string(answer.Text))
			}
			if expect.Reasoning != nil {
				require.Equal(t, *expect.Reasoning, string(answer.Reasoning))
			}
			if expect.Usage != nil {
				require.Equal(t, expect.Usage.Input, answer.Usage.Input, "input tokens")
				require.Equal(t, expect.Usage.Output, answer.Usage.Output, "output tokens")
				require.Equal(t, expect.Usage.Total, answer.Usage.Total, "all tokens")
			}
			if expect.Complete {
				require.NotNil(t, answer.Text)
				if recording.Protocol == "openai-chat" && len(answer.Text) > 0 {
					require.NotZero(t, answer.FirstToken)
				}
				return
			}
			require.NotEmpty(t, answer.ErrorCode)
			switch *expect.Error {
			case "connection closed before [DONE]":
				require.Equal(t, protocol.CodeIncomplete, answer.ErrorCode)
			case "not JSON":
				require.Equal(t, protocol.CodeParse, answer.ErrorCode)
			default:
				require.Contains(t, answer.ErrorMessage, *expect.Error)
			}
		})
	}
	require.Len(t, tested, len(protocol.All)-1, "%v", tested)
}

// An answer in a protocol other than the target's is a failure whose message names the protocol that it resembles.
func TestAnAnswerInAnotherProtocolIsAFailureThatNamesIt(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	labels := map[string]string{"a2a": "A2A", "ag-ui": "AG-UI", "openai-responses": "OpenAI Responses",
		"openai":    "OpenAI chat completions",
		"anthropic": "Anthropic Messages", "coze": "Coze", "coze-workflow": "Coze Workflow", "langgraph": "LangGraph",
		"langserve":    "LangServe",
		"ragflow-chat": "RAGFlow Chat", "ragflow-agent": "RAGFlow Agent", "dify-chat": "Dify Chat",
		"dify-workflow": "Dify Workflow", "ollama": "Ollama", protocol.Default: "Wending"}
	// Similar protocols: the reader of one reads the other, either correctly or as a failure of that protocol.
	near := map[string][]string{"openai": {"fastgpt"}, "fastgpt": {"openai"}}
	tested := 0
	for _, recording := range agenttest.Recordings(t) {
		name, isStream := protocolOf(recording)
		if recording.Protocol == "default-agent" && strings.HasPrefix(recording.File, "composed/default_agent.") {
			name, isStream = protocol.Default, true
		}
		if name == "" || !recording.Expect.Complete || labels[name] == "" {
			continue
		}
		url := recording.Serve(t)
		for _, other := range protocol.All {
			if other.Name == name || slices.Contains(near[name], other.Name) {
				continue
			}
			tested++
			t.Run(recording.File+" as "+other.Name, func(t *testing.T) {
				t.Parallel()
				answer := client.Ask(t.Context(), protocol.Request{Protocol: other.Name, URL: url, Question: "法国的首都是哪里？",
					Stream: isStream, Timeout: 20 * time.Second})
				require.Equal(t, protocol.Failed, answer.Status, "%q", answer.Text)
				require.Contains(t, answer.ErrorMessage, "looks like "+labels[name]+"; choose "+labels[name], answer.ErrorCode)
			})
		}
	}
	require.Greater(t, tested, 400)
}
