package agent

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
)

// Each status other than success has its own error code, with the agent's message if there is one.
func TestEveryOtherStatusIsAFailure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status        int
		body, message string
		retryAfter    time.Duration
	}{
		{http.StatusMultipleChoices, "", "The agent answered HTTP 300 Multiple Choices", 0},
		{599, "", "The agent answered HTTP 599", 0},
		{http.StatusBadGateway, `{"code":5,"msg":"down"}`, "The agent answered HTTP 502 Bad Gateway: down", 0},
		{http.StatusBadGateway, `{"output":"no failure"}`, `The agent answered HTTP 502 Bad Gateway: {"output":"no failure"}`,
			0},
		{http.StatusServiceUnavailable, "later", "The agent answered HTTP 503 Service Unavailable: later", 7 * time.Second},
		{http.StatusBadGateway, "later", "The agent answered HTTP 502 Bad Gateway: later", 0},
	} {
		fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}))
		allowed, err := guard.New(guard.Config{AllowLoopback: true})
		require.NoError(t, err)
		answer := NewClient(allowed, "").Ask(t.Context(),
			protocol.Request{Protocol: protocol.Default, URL: fake.URL, Timeout: 10 * time.Second})
		require.Equal(t, fmt.Sprintf("HTTP_%d", test.status), answer.ErrorCode)
		require.Equal(t, test.message, answer.ErrorMessage)
		require.Equal(t, test.retryAfter, answer.RetryAfter, "%d", test.status)
		fake.Close()
	}
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(299)
		_, _ = io.WriteString(w, `{"output":"yes"}`)
	}))
	defer fake.Close()
	allowed, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	answer := NewClient(allowed, "").Ask(t.Context(),
		protocol.Request{Protocol: protocol.Default, URL: fake.URL, Timeout: 10 * time.Second, RawLimit: 5})
	require.Equal(t, "yes", string(answer.Text))
	require.Equal(t, `{"out`, string(answer.Raw), "as far as the limit goes")
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for header, wait := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "-3": 0, "99999": time.Hour, "soon": 0, "": 0,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		require.Equal(t, wait, retryAfter(header, now), header)
	}
	require.Equal(t, "30s", formatSeconds(30*time.Second))
	require.Equal(t, "0.5s", formatSeconds(500*time.Millisecond))
}

// A task may have headers up to the maximum number and size, and no more.
func TestHeadersHaveLimits(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"X-%d":"v"`, i))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	headers, err := ParseHeaders(many(maxHeaders))
	require.NoError(t, err)
	require.Len(t, headers, maxHeaders)
	_, err = ParseHeaders(many(maxHeaders + 1))
	require.ErrorIs(t, err, ErrHeadersInvalid)
	long := func(size int) string { return `{"X":"` + strings.Repeat("v", size-len(`{"X":""}`)) + `"}` }
	_, err = ParseHeaders(long(maxHeaderBytes))
	require.NoError(t, err)
	_, err = ParseHeaders(long(maxHeaderBytes + 1))
	require.ErrorIs(t, err, ErrHeadersInvalid)
}

// If a server echoes a request, the error does not reveal the request's secrets.
func TestAFailureTellsNoSecretOfItsRequest(t *testing.T) {
	t.Parallel()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "denied: "+r.Header.Get("Authorization")+" for "+r.URL.RawQuery, http.StatusForbidden)
	}))
	t.Cleanup(echo.Close)
	allowed, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	answer := NewClient(allowed, "").Ask(t.Context(), protocol.Request{
		Protocol: protocol.Default, URL: echo.URL + "?token=canary-of-the-query",
		Headers:  map[string]string{"Authorization": "Bearer canary-of-the-header"},
		Question: "q", Timeout: 5 * time.Second, RawLimit: 1 << 10,
	})
	require.Equal(t, "HTTP_403", answer.ErrorCode)
	require.Contains(t, answer.ErrorMessage, "denied: ***")
	require.NotContains(t, answer.ErrorMessage+string(answer.Raw), "canary")
}

// A reused connection that breaks makes the call fail: net/http must not send the question a second time, for which
// there is no rate-limit slot.
func TestADeadConnectionRepeatsNoCall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 1 {
			_, _ = io.WriteString(w, `{"output":"first"}`)
			return
		}
		connection, _, err := w.(http.Hijacker).Hijack() // the server has read the question and sends nothing
		if err == nil {
			_ = connection.Close()
		}
	}))
	t.Cleanup(server.Close)
	allowed, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	client := NewClient(allowed, "")
	request := protocol.Request{Protocol: protocol.Default, URL: server.URL, Question: "q", IdempotencyKey: "k",
		Timeout: 10 * time.Second}
	require.Equal(t, "first", string(client.Ask(t.Context(), request).Text))
	answer := client.Ask(t.Context(), request)
	require.Equal(t, protocol.CodeNetwork, answer.ErrorCode, answer.ErrorMessage)
	require.True(t, MayRetry(answer, RetryTyped), "a retry takes a slot of its own")
	require.EqualValues(t, 2, calls.Load())
}
