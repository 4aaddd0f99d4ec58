package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/protocol"
)

// Only an agent that reports that it does not stream is called again without streaming: otherwise the number of
// calls would double.
func TestAnAgentThatDoesNotStreamIsRecognisedByWhatItSays(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	for _, test := range []struct {
		status  int
		body    string
		refuses bool
	}{
		{400, `{"error":{"message":"Streaming is not supported for this model"}}`, true},
		{400, `{"code":"invalid_param","message":"This app does not support streaming mode"}`, true},
		{400, `{"error":"stream=true is unsupported"}`, true},
		{400, `{"message":"该智能体不支持流式输出"}`, true},
		{422, `{"detail":[{"type":"literal_error","loc":["body","stream"],"msg":"Input should be False","input":true}]}`,
			true},
		{422, "SSE is disabled on this server", true},
		{406, `{"message":"no representation for text/event-stream"}`, true},
		{501, `{"message":"streaming"}`, true},
		{200, `{"jsonrpc":"2.0","error":{"code":-32004,"message":"Streaming is not supported by the agent"}}`, true},
		{200, `{"code":4001,"msg":"stream mode not supported"}`, true},

		{400, `{"error":{"message":"The model does not exist"}}`, false},
		{400, `{"error":{"message":"stream_options is not supported"}}`, false},
		{400, `{"error":{"message":"The upstream does not support tools"}}`, false},
		{400, `{"error":{"message":"Tools are not supported. Request: {\"stream\": true}"}}`, false},
		{422, `{"detail":[{"type":"bool_parsing","loc":["body","stream"],"msg":"Input should be a valid boolean"}]}`, false},
		{501, `{"message":"tools"}`, false},
		{500, `{"error":"Streaming is not supported"}`, false},
		{503, "streaming is not available", false},
		{401, "streaming is not allowed", false},
		{429, "streaming is not allowed now", false},
		{200, `{"output":"Streaming is not supported by most televisions."}`, false},
	} {
		fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		})
		request := protocol.Request{Protocol: protocol.Default, URL: fake.URL, Question: "q", Stream: true,
			Timeout: 10 * time.Second}
		name := fmt.Sprintf("%d %s", test.status, test.body)
		require.Equal(t, test.refuses, client.Ask(t.Context(), request).RefusesStream, name)
		request.Stream = false
		require.False(t, client.Ask(t.Context(), request).RefusesStream, "no stream was asked for: "+name)
	}
}

// The second call is made only if it is allowed, and only once.
func TestAnAgentIsAskedOnceMoreWithoutStreaming(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Body["stream"] == true {
			http.Error(w, `{"error":"streaming is not supported"}`, http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"output":"whole"}`)
	})
	client := newClient(t)
	request := protocol.Request{Protocol: protocol.Default, URL: fake.URL, Question: "q", Stream: true,
		Timeout: 10 * time.Second}
	require.Equal(t, "HTTP_400", client.AskEither(t.Context(), request, func() bool { return false }).ErrorCode)
	require.Len(t, fake.Calls(), 1)
	require.Equal(t, "whole", string(client.AskEither(t.Context(), request, func() bool { return true }).Text))
	require.Len(t, fake.Calls(), 3)

	stubborn := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		http.Error(w, `{"error":"streaming is not supported"}`, http.StatusBadRequest)
	})
	request.URL = stubborn.URL
	require.Equal(t, "HTTP_400", client.AskEither(t.Context(), request, func() bool { return true }).ErrorCode)
	require.Len(t, stubborn.Calls(), 2)
}
