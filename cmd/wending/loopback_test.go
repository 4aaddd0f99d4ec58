package main

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/guard"
)

// If people sign in, no guard allows a loopback address that is not on its allowlist, regardless of how the address is
// written. This includes the demo agent's address, unless a request carries the ticket of the demo's tasks. The guard
// for channels does not accept the ticket.
func TestAccountsDoNotReachLoopback(t *testing.T) {
	t.Parallel()
	demo, err := startDemoAgent("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = demo.Close() })
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "inner")
	}))
	t.Cleanup(inner.Close)
	_, port, _ := net.SplitHostPort(inner.Listener.Addr().String())
	spellings := []string{inner.URL, "http://localhost:" + port, "http://LOCALHOST.:" + port, "http://[::1]:" + port,
		"http://[::ffff:127.0.0.1]:" + port, "http://127.0.0.2:" + port,
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
			Auth: test.auth, ListenAddr: "127.0.0.1:0", Allowlist: test.allowlist, ModelList: test.allowlist,
			AssetList: test.allowlist, NotifyList: test.allowlist,
		}, flushSpans: func() {}}
		require.NoError(t, p.connectAgents(endpoints{listener: listener, demo: demo}))
		t.Cleanup(p.close)
		origin := "http://" + demo.address()
		fetches := func(address string, ticket string) bool {
			_, err := p.fetcher.Fetch(t.Context(), address, origin, guard.Ticket(ticket), 1<<20, io.Discard)
			return err == nil
		}
		for variable, allowed := range map[string]interface {
			CheckURL(*url.URL) error
			CheckRequest(*url.URL, map[string]string) error
			Client(int, ...func(*http.Transport)) *http.Client
		}{"AGENT_API_ALLOWLIST": p.guard, "MODEL_API_ALLOWLIST": p.modelGuard, "NOTIFY_ALLOWLIST": p.notifyGuard} {
			client := allowed.Client(4)
			asks := func(address, ticket string) error {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
				require.NoError(t, err)
				request.Header.Set(guard.TicketHeader, ticket)
				answer, err := client.Do(request)
				if err == nil {
					_, _ = io.Copy(io.Discard, answer.Body) // so that the connection is kept alive
					require.NoError(t, answer.Body.Close())
				}
				return err
			}
			reaches := func(address string) error { return asks(address, "") }
			if test.isAllowed {
				require.NoError(t, reaches(demo.url()), name)
				require.NoError(t, reaches(inner.URL), name)
				require.NoError(t, reaches("http://localhost:"+port), name)
				continue
			}
			for _, address := range spellings {
				require.Error(t, reaches(address), "%s %s", name, address)
			}
			require.ErrorContains(t, reaches(inner.URL), variable, name)
			own, _ := url.Parse(demo.url())
			isCalled := variable != "NOTIFY_ALLOWLIST"
			require.Error(t, allowed.CheckURL(own), name)
			require.Error(t, allowed.CheckRequest(own, guard.Ticket("another")), name)
			require.Equal(t, isCalled, allowed.CheckRequest(own, guard.Ticket(demo.ticket)) == nil, name)
			require.ErrorContains(t, asks(demo.url(), "another"), variable, name)
			require.Equal(t, isCalled, asks(demo.url(), demo.ticket) == nil, name)
			require.ErrorContains(t, reaches(demo.url()), variable, "the connection that was let through is not for others")
			_, demoPort, _ := net.SplitHostPort(demo.address())
			require.Error(t, asks("http://localhost:"+demoPort+"/agent/run", demo.ticket), "a name is not the demo's address")
			require.Error(t, asks(inner.URL, demo.ticket), "the ticket is for the demo alone")
		}
		require.Equal(t, test.isAllowed, fetches(inner.URL, ""), name)
		for _, address := range spellings {
			require.False(t, !test.isAllowed && fetches(address, demo.ticket), "%s %s", name, address)
		}
		require.True(t, fetches(origin+"/pictures/1/50.png", demo.ticket), name)
		require.Equal(t, test.isAllowed, fetches(origin+"/pictures/1/50.png", ""), name)
	}
}

// With accounts, the demos and copies of them run to completion. All other requests to the server's loopback are
// refused with an error that names the setting to change; so are requests to the demo agent's address that do not
// come from the demo.
func TestTheDemosRunWithAccounts(t *testing.T) {
	t.Parallel()
	folder := dbtest.Folder(t)
	program := start(t, "up", "--data-dir", folder, "--auth", "local", "--listen-addr", "127.0.0.1:0",
		"--evaluation-concurrency", "8", "--rate-limit-per-agent", "unlimited")
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
		"agents": {`{"name": "a", "protocol": "default", "url": "http://127.0.0.1:9/"}`, "AGENT_API_ALLOWLIST"},
		"providers": {`{"name": "p", "protocol": "openai", "base_url": "http://[::ffff:127.0.0.1]:9/v1"}`,
			"MODEL_API_ALLOWLIST"},
		"channels": {`{"name": "c", "kind": "webhook", "url": "http://localhost:9/", "events": ["finished"]}`,
			"NOTIFY_ALLOWLIST"},
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
	const tasks = "/api/v1/evaluation-tasks"
	ended := func(count int) (ids []string) {
		t.Helper()
		dbtest.Await(t, time.Minute, "the tasks", func() bool {
			_, said := ask(http.MethodGet, tasks, "", "")
			var list struct{ Items []task }
			require.NoError(t, json.Unmarshal(said, &list))
			ids = nil
			for _, one := range list.Items {
				if one.Status == "SUCCEEDED" {
					ids = append(ids, one.TaskID)
				}
			}
			return len(ids) == count
		})
		return ids
	}
	form := func(path string, fields ...string) (int, []byte) {
		t.Helper()
		var body bytes.Buffer
		writer := multipart.NewWriter(&body)
		for n := 0; n < len(fields); n += 2 {
			require.NoError(t, writer.WriteField(fields[n], fields[n+1]))
		}
		require.NoError(t, writer.Close())
		return ask(http.MethodPost, path, writer.FormDataContentType(), body.String())
	}
	demos := ended(2)
	for _, id := range demos {
		status, said := form(tasks + "/" + id + "/clone")
		require.Equal(t, http.StatusCreated, status, "%s", said)
	}
	for _, id := range ended(4) {
		_, said := ask(http.MethodGet, tasks+"/"+id, "", "")
		var one task
		require.NoError(t, json.Unmarshal(said, &one))
		require.Positive(t, one.Statistics.Succeeded)
		require.NotContains(t, string(said), "ADDRESS_NOT_ALLOWED")
	}
	address, err := os.ReadFile(filepath.Join(folder, "demo.address"))
	require.NoError(t, err)
	own := "http://" + strings.TrimSpace(string(address))
	for path, body := range map[string]string{
		"agents":    `{"name": "a", "protocol": "default", "url": "` + own + `/agent/run"}`,
		"providers": `{"name": "p", "protocol": "openai", "base_url": "` + own + `/v1"}`,
		"channels":  `{"name": "c", "kind": "webhook", "url": "` + own + `/agent/run", "events": ["finished"]}`,
	} {
		status, said := ask(http.MethodPost, "/api/v1/"+path, "application/json", body)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", path, said)
		require.Contains(t, string(said), "_ALLOWLIST", path)
	}
	status, said := form(tasks, "task_name", "typed", "agent_api_url", own+"/agent/run", "dataset_file", "question\nq\n")
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, string(said), "AGENT_URL_NOT_ALLOWED")
	// Other tasks may not call the demo: neither tasks with its saved models nor tasks with its saved agent.
	var models struct{ Items []struct{ ID, Name string } }
	_, said = ask(http.MethodGet, "/api/v1/models", "", "")
	require.NoError(t, json.Unmarshal(said, &models))
	require.NotEmpty(t, models.Items)
	_, said = ask(http.MethodPost, "/api/v1/models/"+models.Items[0].ID+"/test", "application/json", "{}")
	require.Contains(t, string(said), "ADDRESS_NOT_ALLOWED")
	for _, id := range demos {
		_, _ = ask(http.MethodPost, "/tasks/"+id+"/agent", "application/x-www-form-urlencoded", "")
	}
	var agents struct{ Items []struct{ ID string } }
	_, said = ask(http.MethodGet, "/api/v1/agents", "", "")
	require.NoError(t, json.Unmarshal(said, &agents))
	require.Len(t, agents.Items, 1)
	_, said = ask(http.MethodPost, "/api/v1/agents/"+agents.Items[0].ID+"/test", "application/json", "{}")
	require.Contains(t, string(said), "ADDRESS_NOT_ALLOWED")
}
