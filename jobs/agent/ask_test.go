package agent_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent"
	"wending/jobs/agent/agenttest"
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
		"not found": {func(w http.ResponseWriter, _ agenttest.Call) { http.NotFound(w, nil) }, "HTTP_404", "404 page not found", false},
		"redirect": {func(w http.ResponseWriter, _ agenttest.Call) {
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
			w.WriteHeader(http.StatusFound)
		}, "HTTP_302", "", false},
		"dropped at once": {func(http.ResponseWriter, agenttest.Call) { panic(http.ErrAbortHandler) }, agent.CodeNetwork, "", true},
		"dropped on the way": {func(w http.ResponseWriter, _ agenttest.Call) {
			_, _ = io.WriteString(w, "data: {\"event\":\"llm_chunk\",\"text\":\"half\"}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, agent.CodeIncomplete, "", false},
		"html": {func(w http.ResponseWriter, _ agenttest.Call) { _, _ = io.WriteString(w, "<!DOCTYPE html><p>login") }, agent.CodeParse, "<!DOCTYPE html>", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := agenttest.New(t, test.script)
			answer := client.Ask(t.Context(), agent.Request{URL: fake.URL, Timeout: 10 * time.Second})
			require.Equal(t, agent.Failed, answer.Status)
			require.Equal(t, test.code, answer.ErrorCode)
			require.Contains(t, answer.ErrorMessage, test.message)
			require.Equal(t, test.retry, answer.MayRetry(agent.RetryTyped))
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
			time.Sleep(20 * time.Millisecond) // the drip itself
		}
	})
	answer := newClient(t).Ask(t.Context(), agent.Request{URL: fake.URL, Timeout: 500 * time.Millisecond})
	require.Equal(t, agent.TimedOut, answer.Status)
	require.Equal(t, agent.CodeTimeout, answer.ErrorCode)
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
	answer := newClient(t).Ask(t.Context(), agent.Request{URL: fake.URL, Timeout: 5 * time.Second})
	require.Equal(t, "HTTP_429", answer.ErrorCode)
	require.Equal(t, 7*time.Second, answer.RetryAfter)
}

func TestNoSecretOfTheURLReachesAMessage(t *testing.T) {
	t.Parallel()
	answer := newClient(t).Ask(t.Context(), agent.Request{URL: "http://127.0.0.1:1/run?key=tops3cret", Timeout: 5 * time.Second})
	require.Equal(t, agent.CodeNetwork, answer.ErrorCode)
	require.NotContains(t, answer.ErrorMessage, "tops3cret")
}

// What a message says of a network is what its reader typed: no resolved address, no banner of another server.
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
			_, _ = connection.Read(make([]byte, 1)) // what comes before the request is the connection's fault
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
		{"https://127.0.0.1:" + certifiedPort, "The agent's certificate is not valid: x509: certificate signed by unknown authority"},
		{"https://localhost:" + otherPort, "The agent does not speak TLS"},
	} {
		answer := client.Ask(t.Context(), agent.Request{URL: test.url, Timeout: 10 * time.Second})
		require.Equal(t, agent.CodeNetwork, answer.ErrorCode)
		require.Equal(t, test.message, answer.ErrorMessage, test.url)
	}
}

func TestTheGuardDecidesByAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		allowlist string
		loopback  bool
		url       string
		isAllowed bool
	}{
		{"", false, "https://8.8.8.8/", true},
		{"", false, "http://agent.example/", true}, // its address decides when it is called
		{"", false, "http://127.0.0.1:9000/", false},
		{"", true, "http://127.0.0.1:9000/", true},
		{"", true, "http://localhost:9000/", true},
		{"", false, "http://localhost:9000/", false},
		{"", true, "http://[::1]:9000/", true},
		{"", true, "http://10.0.0.1/", false},
		{"", true, "http://192.168.1.1/", false},
		{"", true, "http://169.254.169.254/", false},
		{"", true, "http://168.63.129.16/", false},
		{"", true, "http://100.100.100.200/", false},
		{"", true, "http://[fe80::1]/", false},
		{"", true, "http://[fd00:ec2::254]/", false},
		{"", true, "http://[::ffff:169.254.169.254]/", false},
		{"", true, "http://0.0.0.0:9000/", false},
		{"", true, "http://127.0.0.1:8080/", false}, // our own server
		{"127.0.0.0/8", false, "http://127.0.0.1:8080/", false},
		{"127.0.0.0/8", false, "http://127.0.0.2:8080/", false}, // leads to our own server too
		{"127.0.0.0/8, ::1", false, "http://[::1]:8080/", false},
		{"127.0.0.0/8", false, "http://127.0.0.2:9000/", true},
		{"", false, "http://[64:ff9b::a9fe:a9fe]/", false}, // 169.254.169.254 in IPv6
		{"64:ff9b::/32", false, "http://[64:ff9b::a9fe:a9fe]/", false},
		{"64:ff9b::/32", false, "http://[64:ff9b:1::a9fe:a9fe]/", false},
		{"64:ff9b::/32", false, "http://[64:ff9b:1:a9fe:a9:fe00::]/", false},
		{"64:ff9b::/32", false, "http://[64:ff9b::808:808]/", true},
		{"::/0", false, "http://[::a9fe:a9fe]/", false},
		{"::/0", false, "http://[2002:a9fe:a9fe::]/", false},
		{"::/0", false, "http://[2001:0:a9fe:a9fe::1]/", false},
		{"::/0", false, "http://[2001:0:808:808::5601:5601]/", false},
		{"::/0", false, "http://[2001:db8::0:5efe:a9fe:a9fe]/", false},
		{"::/0", false, "http://[2002:7f00:1::]:8080/", false},
		{"", false, "http://[64:ff9b::a00:1]/", false},
		{"169.254.0.0/16", false, "http://169.254.169.254/", false},
		{"10.0.0.0/8", false, "http://10.1.2.3/", true},
		{"10.0.0.0/8", false, "http://8.8.8.8/", false},
		{"10.1.2.3:8000", false, "http://10.1.2.3:8000/", true},
		{"10.1.2.3:8000", false, "http://10.1.2.3/", false},
		{"*.corp.example, api.example:8443", false, "https://llm.corp.example/", true},
		{"*.corp.example, api.example:8443", false, "https://corp.example/", false},
		{"*.corp.example, api.example:8443", false, "https://api.example:8443/", true},
		{"*.corp.example, api.example:8443", false, "https://api.example/", false},
		{"api.example", true, "http://127.0.0.1:9000/", false},
	} {
		guard, err := agent.NewGuard(agent.GuardConfig{Allowlist: test.allowlist, AllowLoopback: test.loopback, Own: []string{"0.0.0.0:8080"}})
		require.NoError(t, err)
		u, err := url.Parse(test.url)
		require.NoError(t, err)
		require.Equal(t, test.isAllowed, guard.CheckURL(u) == nil, "%+v", test)
	}
	for _, bad := range []string{"http://x", "a b", "*.", "10.0.0.0/99", "x:99999"} {
		_, err := agent.NewGuard(agent.GuardConfig{Allowlist: bad})
		require.Error(t, err, bad)
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
	guard, err := agent.NewGuard(agent.GuardConfig{})
	require.NoError(t, err)
	client := agent.NewClient(guard, "")
	answer := client.Ask(t.Context(), agent.Request{URL: "http://localhost:" + port + "/", Timeout: 5 * time.Second})
	require.Equal(t, agent.CodeAddressNotAllowed, answer.ErrorCode)
	require.Equal(t, "The address localhost:"+port+" is not allowed for agents", answer.ErrorMessage, "not the address that it resolves to")
	require.False(t, answer.MayRetry(agent.RetryTyped))

	guard, err = agent.NewGuard(agent.GuardConfig{Always: []string{"127.0.0.1:" + port}})
	require.NoError(t, err)
	u, err := url.Parse("http://127.0.0.1:" + port)
	require.NoError(t, err)
	require.NoError(t, guard.CheckURL(u), "the demo agent is always allowed")
}

func TestTheAPIKeyGoesOnlyWhereTheAllowlistSays(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	named, err := agent.NewGuard(agent.GuardConfig{Allowlist: "127.0.0.1"})
	require.NoError(t, err)
	unnamed, err := agent.NewGuard(agent.GuardConfig{AllowLoopback: true})
	require.NoError(t, err)
	agent.NewClient(named, "k").Ask(t.Context(), agent.Request{URL: fake.URL, Timeout: 5 * time.Second})
	agent.NewClient(unnamed, "k").Ask(t.Context(), agent.Request{URL: fake.URL, Timeout: 5 * time.Second})
	agent.NewClient(named, "k").Ask(t.Context(), agent.Request{URL: fake.URL, Timeout: 5 * time.Second, Headers: map[string]string{"Authorization": "Basic own"}})
	var sent []string
	for _, call := range fake.Calls() {
		sent = append(sent, call.Header.Get("Authorization"))
	}
	require.Equal(t, []string{"Bearer k", "", "Basic own"}, sent)
}

func TestHeadersThatBelongToTheConnectionAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "[]", "null", `{"a":1}`, `{"Content-Length":"1"}`, `{"host":"internal.example"}`, `{"idempotency-key":"x"}`, `{"A b":"x"}`, `{"A":"x\ny"}`} {
		_, err := agent.ParseHeaders(bad)
		require.True(t, errors.Is(err, agent.ErrHeadersInvalid), bad)
	}
}
