package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
)

// Where people sign in, no guard allows loopback that its allowlist does not name, whatever it is called; the demo is the exception,
// which channels have no use for.
func TestAccountsDoNotReachLoopback(t *testing.T) {
	t.Parallel()
	demo, err := startDemoAgent("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = demo.Close() })
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inner") }))
	t.Cleanup(inner.Close)
	_, port, _ := net.SplitHostPort(inner.Listener.Addr().String())
	spellings := []string{inner.URL, "http://localhost:" + port, "http://LOCALHOST.:" + port, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://127.0.0.2:" + port,
		"http://①②⑦.0.0.1:" + port}
	if name, err := os.Hostname(); err == nil {
		spellings = append(spellings, "http://"+name+":"+port)
	}
	for name, test := range map[string]struct {
		auth, allowlist string
		isAllowed       bool
	}{
		"without accounts":    {"off", "", true},
		"accounts":            {"local", "", false},
		"a provider":          {"oidc", "", false},
		"another is named":    {"local", "10.0.0.0/8", false},
		"named with accounts": {"local", "127.0.0.0/8, ::1, localhost", true},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		p := &program{settings: Settings{
			Auth: test.auth, ListenAddr: "127.0.0.1:0", Allowlist: test.allowlist, ModelList: test.allowlist, AssetList: test.allowlist, NotifyList: test.allowlist,
		}}
		require.NoError(t, p.connectAgents(endpoints{listener: listener, demo: demo}))
		t.Cleanup(p.close)
		fetches := func(address string) bool {
			_, err := p.fetcher.Fetch(t.Context(), address, "", nil, 1<<20, io.Discard)
			return err == nil
		}
		for variable, guard := range map[string]interface {
			CheckURL(*url.URL) error
			Client(int, ...func(*http.Transport)) *http.Client
		}{"AGENT_API_ALLOWLIST": p.guard, "MODEL_API_ALLOWLIST": p.modelGuard, "NOTIFY_ALLOWLIST": p.notifyGuard} {
			client := guard.Client(0)
			reaches := func(address string) error {
				answer, err := client.Get(address)
				if err == nil {
					require.NoError(t, answer.Body.Close())
				}
				return err
			}
			if test.isAllowed {
				require.NoError(t, reaches(inner.URL), name)
				require.NoError(t, reaches("http://localhost:"+port), name)
				continue
			}
			for _, address := range spellings {
				require.Error(t, reaches(address), "%s %s", name, address)
			}
			require.ErrorContains(t, reaches(inner.URL), variable, name)
			own, _ := url.Parse(demo.url())
			require.Equal(t, variable != "NOTIFY_ALLOWLIST", guard.CheckURL(own) == nil, name)
		}
		require.Equal(t, test.isAllowed, fetches(inner.URL), name)
		for _, address := range spellings {
			require.False(t, !test.isAllowed && fetches(address), "%s %s", name, address)
		}
		require.True(t, fetches("http://"+demo.address()+"/pictures/1/50.png"), name)
	}
}

// With accounts the demos run from end to end, and everything else on the server's loopback is refused with the setting that allows it.
func TestTheDemosRunWithAccounts(t *testing.T) {
	t.Parallel()
	folder := dbtest.Folder(t)
	program := start(t, "up", "--data-dir", folder, "--auth", "local", "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8", "--rate-limit-per-agent", "unlimited")
	code, token := commandWith(t, "", "token", "create", "ci", "--role", "admin", "--data-dir", folder)
	require.Zero(t, code, token)
	ask := func(method, path, kind, body string) (int, []byte) {
		t.Helper()
		request, err := http.NewRequest(method, program.url+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
		request.Header.Set("Content-Type", kind)
		answer, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		var text bytes.Buffer
		_, err = text.ReadFrom(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, text.Bytes()
	}
	for _, path := range []string{"/demo", "/demo/comparison"} {
		status, said := ask(http.MethodPost, path, "application/x-www-form-urlencoded", "")
		require.Equal(t, http.StatusSeeOther, status, "%s", said)
	}
	for path, refused := range map[string]struct{ body, variable string }{
		"agents":    {`{"name": "a", "protocol": "default", "url": "http://127.0.0.1:9/"}`, "AGENT_API_ALLOWLIST"},
		"providers": {`{"name": "p", "protocol": "openai", "base_url": "http://[::ffff:127.0.0.1]:9/v1"}`, "MODEL_API_ALLOWLIST"},
		"channels":  {`{"name": "c", "kind": "webhook", "url": "http://localhost:9/", "events": ["finished"]}`, "NOTIFY_ALLOWLIST"},
	} {
		status, said := ask(http.MethodPost, "/api/v1/"+path, "application/json", refused.body)
		require.Equal(t, http.StatusUnprocessableEntity, status, path)
		require.Contains(t, string(said), refused.variable)
		require.Equal(t, strings.Count(string(said), refused.variable), strings.Count(string(said), "ALLOWLIST"), "%s", said)
	}
	type task struct {
		TaskID     string `json:"task_id"`
		Status     string
		Statistics struct{ Succeeded int }
	}
	var ids []string
	dbtest.Await(t, time.Minute, "both demos", func() bool {
		_, said := ask(http.MethodGet, "/api/v1/evaluation-tasks", "", "")
		var list struct{ Items []task }
		require.NoError(t, json.Unmarshal(said, &list))
		ids = ids[:0]
		for _, one := range list.Items {
			if one.Status == "SUCCEEDED" {
				ids = append(ids, one.TaskID)
			}
		}
		return len(ids) == 2
	})
	for _, id := range ids {
		_, said := ask(http.MethodGet, "/api/v1/evaluation-tasks/"+id, "", "")
		var one task
		require.NoError(t, json.Unmarshal(said, &one))
		require.Positive(t, one.Statistics.Succeeded)
		require.NotContains(t, string(said), "ADDRESS_NOT_ALLOWED")
	}
}
