package agent_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent"
	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
)

func TestWhatTheServerAnswersBecomesItsCode(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	for name, test := range map[string]struct {
		script        func(http.ResponseWriter, agenttest.Call)
		code, message string
		retry         bool
	}{
		"server error": {func(w http.ResponseWriter, _ agenttest.Call) {
			http.Error(w, `{"code":500,"msg":"boom"}`, http.StatusInternalServerError)
		}, "HTTP_500", "boom", false},
		"not found": {func(w http.ResponseWriter, _ agenttest.Call) {
			http.NotFound(w, nil)
		}, "HTTP_404", "404 page not found", false},
		"redirect": {func(w http.ResponseWriter, _ agenttest.Call) {
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
			w.WriteHeader(http.StatusFound)
		}, "HTTP_302", "", false},
		"dropped at once": {func(http.ResponseWriter, agenttest.Call) {
			panic(http.ErrAbortHandler)
		}, protocol.CodeNetwork, "", true},
		"dropped on the way": {func(w http.ResponseWriter, _ agenttest.Call) {
			_, _ = io.WriteString(w, "data: {\"event\":\"llm_chunk\",\"text\":\"half\"}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, protocol.CodeIncomplete, "", false},
		"html": {func(w http.ResponseWriter, _ agenttest.Call) {
			_, _ = io.WriteString(w, "<!DOCTYPE html><p>login")
		}, protocol.CodeParse, "<!DOCTYPE html>", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := agenttest.New(t, test.script)
			answer := client.Ask(t.Context(), protocol.Request{Protocol: protocol.Default, URL: fake.URL,
				Timeout: 10 * time.Second})
			require.Equal(t, protocol.Failed, answer.Status)
			require.Equal(t, test.code, answer.ErrorCode)
			require.Contains(t, answer.ErrorMessage, test.message)
			require.Equal(t, test.retry, agent.MayRetry(answer, agent.RetryTyped))
			require.Len(t, fake.Calls(), 1, "redirects are not followed")
		})
	}
}

func TestADripDoesNotExtendTheDeadline(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		for n := range 200 {
			if _, err := fmt.Fprintf(w, "data: {\"event\":\"llm_chunk\",\"text\":\"%d \"}\n\n", n); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond) // the slow answer that this test is about
		}
	})
	answer := newClient(t).Ask(t.Context(),
		protocol.Request{Protocol: protocol.Default, URL: fake.URL, Timeout: 500 * time.Millisecond})
	require.Equal(t, protocol.TimedOut, answer.Status)
	require.Equal(t, protocol.CodeTimeout, answer.ErrorCode)
	require.Equal(t, "Agent request timed out after 0.5s", answer.ErrorMessage)
	require.True(t, strings.HasPrefix(string(answer.Text), "0 1 2 "), "what came is kept")
	require.Less(t, answer.Latency, 3*time.Second)
}

func TestRetryAfterIsRead(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "busy", http.StatusTooManyRequests)
	})
	answer := newClient(t).Ask(t.Context(),
		protocol.Request{Protocol: protocol.Default, URL: fake.URL, Timeout: 5 * time.Second})
	require.Equal(t, "HTTP_429", answer.ErrorCode)
	require.Equal(t, 7*time.Second, answer.RetryAfter)
}

func TestNoSecretOfTheURLReachesAMessage(t *testing.T) {
	t.Parallel()
	answer := newClient(t).Ask(t.Context(),
		protocol.Request{Protocol: protocol.Default, URL: "http://127.0.0.1:1/run?key=tops3cret", Timeout: 5 * time.Second})
	require.Equal(t, protocol.CodeNetwork, answer.ErrorCode)
	require.NotContains(t, answer.ErrorMessage, "tops3cret")
}

// Error messages repeat only the part of the network that the user typed: no resolved address, no banner of another
// server.
func TestMessagesNameNoInnerAddress(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	go func() {
		for {
			connection, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Read(make([]byte, 1)) // a banner before the request would count as a network error
			_, _ = io.WriteString(connection, "SSH-2.0-OpenSSH_9.2p1 inner-host\r\n")
			_ = connection.Close()
		}
	}()
	_, otherPort, err := net.SplitHostPort(other.Addr().String())
	require.NoError(t, err)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, closedPort, err := net.SplitHostPort(closed.Addr().String())
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(certified.Close)
	_, certifiedPort, err := net.SplitHostPort(certified.Listener.Addr().String())
	require.NoError(t, err)
	client := newClient(t)
	for _, test := range []struct{ url, message string }{
		{"http://localhost:" + closedPort, "The connection failed: connection refused"},
		{"http://localhost:" + otherPort, "The response is not HTTP"},
		{"https://localhost:" + certifiedPort, "The agent's certificate is for another name"},
		{"https://127.0.0.1:" + certifiedPort,
			"The agent's certificate is not valid: x509: certificate signed by unknown authority"},
		{"https://localhost:" + otherPort, "The agent does not speak TLS"},
	} {
		answer := client.Ask(t.Context(), protocol.Request{Protocol: protocol.Default, URL: test.url,
			Timeout: 10 * time.Second})
		require.Equal(t, protocol.CodeNetwork, answer.ErrorCode)
		require.Equal(t, test.message, answer.ErrorMessage, test.url)
	}
}

// A name that resolves to a forbidden address is refused when the connection is made.
func TestTheGuardChecksTheResolvedAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	allowed, err := guard.New(guard.Config{Variable: "AGENT_API_ALLOWLIST"})
	require.NoError(t, err)
	client := agent.NewClient(allowed, "")
	answer := client.Ask(t.Context(), protocol.Request{Protocol: protocol.Default, URL: "http://localhost:" + port + "/",
		Timeout: 5 * time.Second})
	require.Equal(t, protocol.CodeAddressNotAllowed, answer.ErrorCode)
	require.Equal(t, "The address localhost:"+port+" is not allowed; see AGENT_API_ALLOWLIST", answer.ErrorMessage,
		"not the address that it resolves to")
	require.False(t, agent.MayRetry(answer, agent.RetryTyped))

}

func TestTheAPIKeyGoesOnlyWhereTheAllowlistSays(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	named, err := guard.New(guard.Config{Allowlist: "127.0.0.1"})
	require.NoError(t, err)
	unnamed, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	agent.NewClient(named, "k").Ask(t.Context(),
		protocol.Request{Protocol: protocol.Default, URL: fake.URL, Timeout: 5 * time.Second})
	agent.NewClient(unnamed, "k").Ask(t.Context(),
		protocol.Request{Protocol: protocol.Default, URL: fake.URL, Timeout: 5 * time.Second})
	agent.NewClient(named, "k").Ask(t.Context(),
		protocol.Request{Protocol: protocol.Default, URL: fake.URL, Timeout: 5 * time.Second,
			Headers: map[string]string{"Authorization": "Basic own"}})
	var sent []string
	for _, call := range fake.Calls() {
		sent = append(sent, call.Header.Get("Authorization"))
	}
	require.Equal(t, []string{"Bearer k", "", "Basic own"}, sent)
}

func TestHeadersThatBelongToTheConnectionAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "[]", "null", `{"a":1}`, `{"Content-Length":"1"}`, `{"host":"internal.example"}`,
		`{"idempotency-key":"x"}`, `{"A b":"x"}`, `{"A":"x\ny"}`} {
		_, err := agent.ParseHeaders(bad)
		require.ErrorIs(t, err, agent.ErrHeadersInvalid, bad)
	}
}
