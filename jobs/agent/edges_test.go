package agent

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What agents say of their failures is found wherever they put it, and nothing else is taken for it.
func TestFailuresAreReadWhereverTheyStand(t *testing.T) {
	t.Parallel()
	for body, message := range map[string]string{
		`{"code":1,"data":"a reason, no answer","msg":"beside"}`:                       "a reason, no answer",
		"data: {\"event\":\"error\",\"data\":\"said as data\",\"msg\":\"beside\"}\n\n": "said as data",
		`{"code":1,"data":"","msg":"beside"}`:                                          "beside",
		`{"code":1,"data":7,"message":"beside"}`:                                       "beside",
		`{"code":1,"message":"","msg":"the second"}`:                                   "the second",
		`{"code":1,"error":{"type":"x","message":"nested"}}`:                           "nested",
		`{"code":1,"error":["a"],"detail":"after a list"}`:                             "after a list",
		`{"code":1,"data":{"error_message":"in data"}}`:                                "in data",
		`{"code":1,"unknown":true}`:                                                    `{"code":1,"unknown":true}`,
		`{"error":"said"}`:                                                             "said",
		`data: {"event":"error","data":{"message":"by an event"}}` + "\n\n":            "by an event",
	} {
		answer := decodeBytes([]byte(body))
		require.Equal(t, CodeAgent, answer.ErrorCode, body)
		require.Equal(t, message, answer.ErrorMessage, body)
	}
	for _, body := range []string{
		`{"error":false,"output":"yes"}`, `{"error":null,"output":"yes"}`, `{"error":"","output":"yes"}`,
		`{"code":200,"output":"yes"}`, `{"code":"SUCCESS","output":"yes"}`, `{"code":null,"output":"yes"}`,
	} {
		answer := decodeBytes([]byte(body))
		require.Equal(t, Succeeded, answer.Status, "%s: %s", body, answer.ErrorMessage)
		require.Equal(t, "yes", string(answer.Text), body)
	}
}

// Each status that is no success becomes its own code, with the agent's words where there are any.
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
		{http.StatusBadGateway, `{"output":"no failure"}`, `The agent answered HTTP 502 Bad Gateway: {"output":"no failure"}`, 0},
		{http.StatusServiceUnavailable, "later", "The agent answered HTTP 503 Service Unavailable: later", 7 * time.Second},
		{http.StatusBadGateway, "later", "The agent answered HTTP 502 Bad Gateway: later", 0},
	} {
		fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}))
		guard, err := NewGuard(GuardConfig{AllowLoopback: true})
		require.NoError(t, err)
		answer := NewClient(guard, "").Ask(t.Context(), Request{URL: fake.URL, Timeout: 10 * time.Second})
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
	guard, err := NewGuard(GuardConfig{AllowLoopback: true})
	require.NoError(t, err)
	answer := NewClient(guard, "").Ask(t.Context(), Request{URL: fake.URL, Timeout: 10 * time.Second, RawLimit: 5})
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

// As many headers, of as many bytes, as a task may have are taken, and no more.
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

// Own servers are known by all their addresses, and a URL without a port has its scheme's.
func TestTheGuardKnowsPortsAndOwnAddresses(t *testing.T) {
	t.Parallel()
	guard, err := NewGuard(GuardConfig{Allowlist: "agent.example:443,127.0.0.0/8", Own: []string{":7001", "localhost:7002", "0.0.0.0:7003"}})
	require.NoError(t, err)
	for address, isAllowed := range map[string]bool{
		"https://agent.example/": true, "http://agent.example/": true, // decided by its address
		"http://127.0.0.1:7001/": false, "http://127.0.0.9:7001/": false, "http://127.0.0.1:7002/": false, "http://127.0.0.2:7003/": false,
		"http://127.0.0.1:7004/": true,
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, isAllowed, guard.CheckURL(u) == nil, address)
		require.Equal(t, strings.HasPrefix(address, "https") || strings.Contains(address, "127.0.0"), guard.Names(u), address)
	}
	require.Contains(t, guard.local, netip.MustParseAddr("127.0.0.1"), "this machine's own addresses are known")
	for _, bad := range []string{"nowhere", "host:port", "host:70000"} {
		_, err := NewGuard(GuardConfig{Own: []string{bad}})
		require.Error(t, err, bad)
	}
}

// What an agent thinks and what it says share one limit, and no character is cut at it.
func TestReasoningAndAnswerShareTheirLimit(t *testing.T) {
	t.Parallel()
	stream := func(reasoning, chunks int, last string) []byte {
		var body strings.Builder
		piece := strings.Repeat("a", 1<<20)
		for range reasoning {
			body.WriteString(`data: {"event":"reasoning_chunk","content":"` + piece + "\"}\n\n")
		}
		for range chunks {
			body.WriteString(`data: {"event":"llm_chunk","content":"` + piece + "\"}\n\n")
		}
		body.WriteString(`data: {"event":"llm_chunk","content":"` + last + "\"}\n\n")
		return []byte(body.String())
	}
	require.NotEqual(t, CodeTooLarge, decodeBytes(stream(5, 3, "")).ErrorCode)
	require.Equal(t, CodeTooLarge, decodeBytes(stream(5, 3, "b")).ErrorCode, "one byte more")
	answer := decodeBytes(stream(4, 3, strings.Repeat("a", 1<<20-1)+"长"))
	require.Equal(t, CodeTooLarge, answer.ErrorCode)
	said, isMarked := strings.CutSuffix(string(answer.Text), "…[cut at 8 MiB]")
	require.True(t, isMarked)
	require.Len(t, said, 4<<20-1, "the character that does not fit is left out as a whole")
}
