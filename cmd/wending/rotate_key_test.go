package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/people"
	"wending/jobs/agent/agenttest"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

// secretive returns the fields of a task that is not started and has every kind of secret.
func secretive(agentURL string) map[string]string {
	return map[string]string{
		"task_name": "kept", "agent_api_url": agentURL + "?token=q1", "agent_api_headers": `{"X-Key":"h1"}`,
		"extra_payload": `{"p":"p1"}`, "start": "false",
	}
}

// requireSecretsArrive starts a task that secretive describes and checks that the agent receives the secrets.
func requireSecretsArrive(t *testing.T, base, id string, fake *agenttest.Agent) {
	t.Helper()
	response, err := http.Post(base+"/api/v1/evaluation-tasks/"+id+"/run", "", nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusAccepted, response.StatusCode)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, base, id).Status == "SUCCEEDED" })
	calls := fake.Calls()
	require.NotEmpty(t, calls)
	last := calls[len(calls)-1]
	require.Equal(t, "h1", last.Header.Get("X-Key"))
	require.Equal(t, "p1", last.Body["p"])
	require.Equal(t, "token=q1", last.Query)
}

// save stores an entry of the library and returns its id.
func save(t *testing.T, base, kind string, entry map[string]any) string {
	t.Helper()
	body, err := json.Marshal(entry)
	require.NoError(t, err)
	response, err := http.Post(base+"/api/v1/"+kind, "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	var stored struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&stored))
	require.Equal(t, http.StatusCreated, response.StatusCode)
	return stored.ID
}

// The key in the data folder is replaced while the program is stopped; no secret has to be entered again.
func TestTheKeyInTheDataFolderIsRotated(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	dir := dbtest.Folder(t)
	up := []string{
		"up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0", "--rate-limit-per-agent", "unlimited",
		"--evaluation-concurrency", "8",
	}
	p := start(t, up...)
	id := createTask(t, p.url, secretive(fake.URL), twenty)
	var output, log bytes.Buffer
	rotate := func() int {
		return run(t.Context(), []string{"rotate-key", "--data-dir", dir}, func(string) string { return "" }, &output, &log)
	}
	require.Equal(t, 1, rotate(), "the program runs")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-p.exited)

	keys := func() []string {
		content, err := os.ReadFile(filepath.Join(dir, "secret.key"))
		require.NoError(t, err)
		return strings.Fields(string(content))
	}
	before := keys()
	require.Len(t, before, 1)
	require.Equal(t, 0, rotate(), "%s", &log)
	require.Equal(t, "wending: tasks whose secrets are sealed with the new key: 1\n", output.String())
	after := keys()
	require.Len(t, after, 2, "the one before stays")
	require.Equal(t, before[0], after[1])
	require.NotEqual(t, before[0], after[0])
	info, err := os.Stat(filepath.Join(dir, "secret.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, 0, rotate(), "%s", &log)
	require.Equal(t, after[0], keys()[1], "only the last one before stays")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret.key"), []byte(keys()[0]+"\n"), 0o600), "nothing needs it")

	p = start(t, up...)
	requireSecretsArrive(t, p.url, id, fake)
}

// A process whose key is not the database's exits with an error that names SECRET_KEY, and changes nothing, even before
// the database has any secret. The page of workers shows the process until it starts with the right key.
func TestAProcessWithAnotherSecretKeyDoesNotStart(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	shared := []string{
		"--database-url", dbtest.Start(t), "--redis-url", dbtest.Redis(t), "--rate-limit-per-agent", "unlimited",
		"--agent-api-allowlist", "127.0.0.1",
	}
	web := start(t, slices.Concat([]string{"serve", "--listen-addr", "127.0.0.1:0", "--data-dir", dbtest.Folder(t),
		"--secret-key", dbtest.SecretKey}, shared)...)
	refused := func() (shown int) {
		page, err := http.Get(web.url + "/workers")
		require.NoError(t, err)
		defer page.Body.Close()
		content, err := io.ReadAll(page.Body)
		require.NoError(t, err)
		return strings.Count(string(content), "拒绝启动")
	}
	require.Zero(t, refused())
	others := [][]string{
		{"worker", "--data-dir", t.TempDir()}, // it generates a key of its own
		{"worker", "--data-dir", t.TempDir(), "--secret-key", "another one"},
		{"serve", "--listen-addr", "127.0.0.1:0", "--data-dir", t.TempDir(), "--secret-key", "another one"},
		{"up", "--listen-addr", "127.0.0.1:0", "--data-dir", t.TempDir(), "--secret-key", "another one"},
	}
	requireRefused := func(args []string) {
		t.Helper()
		code, said := command(t, slices.Concat(args, shared)...)
		require.Equal(t, 1, code, args)
		require.Contains(t, said, "SECRET_KEY is not the key of this database", args)
	}
	requireRefused(others[0]) // while there are no secrets
	id := createTask(t, web.url, secretive(fake.URL), twenty)
	for _, args := range others {
		requireRefused(args)
	}
	require.Equal(t, 3, refused(), "one for each command")
	worker := exec.Command(os.Args[0],
		slices.Concat([]string{"worker", "--data-dir", t.TempDir(), "--secret-key", dbtest.SecretKey}, shared)...)
	worker.Env = append(os.Environ(), "WENDING_TEST_PROGRAM=1")
	require.NoError(t, worker.Start())
	t.Cleanup(func() {
		require.NoError(t, worker.Process.Signal(syscall.SIGTERM))
		require.NoError(t, worker.Wait())
	})
	requireSecretsArrive(t, web.url, id, fake)
	require.Equal(t, 2, refused(), "the worker has started")
}

// If the key comes from SECRET_KEY, it is rotated while processes run: they are restarted with both the new and the
// previous key.
func TestSecretKeyIsRotated(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	shared := []string{
		"--database-url", dbtest.Start(t), "--redis-url", dbtest.Redis(t), "--rate-limit-per-agent", "unlimited",
		"--data-dir", dbtest.Folder(t),
	}
	serve := func(keys ...string) *process {
		reach := []string{"--agent-api-allowlist", "127.0.0.1", "--model-api-allowlist", "127.0.0.1"}
		return start(t, slices.Concat([]string{"serve", "--listen-addr", "127.0.0.1:0"}, reach, shared, keys)...)
	}
	const phrase = "a phrase that somebody made up"
	web := serve("--secret-key", phrase)
	id := createTask(t, web.url, secretive(fake.URL), twenty)
	provider := save(t, web.url, "providers", map[string]any{
		"name": "p", "protocol": "openai", "base_url": fake.URL, "api_key": "k1",
		"headers": map[string]string{"X-Provider": "h2"}, "rate_limit": "unlimited"})
	model := save(t, web.url, "models", map[string]any{
		"name": "m", "provider_id": provider, "model_id": "m1", "parameters": map[string]any{"seed": 7},
	})
	saved := save(t, web.url, "agents", map[string]any{
		"name": "a", "protocol": "default", "url": fake.URL + "?token=q2", "headers": map[string]string{"X-Agent": "h3"},
		"extra_payload": map[string]any{"p": "p2"}, "rate_limit": "unlimited"})
	web.kill(t)
	web = serve("--secret-key", dbtest.SecretKey, "--secret-key-previous", phrase)
	clone, err := http.Post(web.url+"/api/v1/evaluation-tasks/"+id+"/clone?", "", nil)
	require.NoError(t, err)
	require.NoError(t, clone.Body.Close())
	require.Equal(t, http.StatusCreated, clone.StatusCode, "secrets of the previous key are read")

	var output, log bytes.Buffer
	rotate := func(keys ...string) int {
		args := append([]string{"rotate-key", "--database-url", shared[1], "--data-dir", t.TempDir()}, keys...)
		return run(t.Context(), args, func(string) string { return "" }, &output, &log)
	}
	require.Equal(t, 1, rotate("--secret-key", dbtest.SecretKey))
	require.Contains(t, log.String(),
		"sealed with the new key: 0 tasks and 0 library values; left unchanged, because they were sealed with "+
			"neither SECRET_KEY nor SECRET_KEY_PREVIOUS: 1 tasks and 6 library values",
		"one is left; its copy was made with the new key")
	require.Equal(t, 0, rotate("--secret-key", dbtest.SecretKey, "--secret-key-previous", phrase), "%s", &log)
	require.Equal(t,
		"wending: tasks whose secrets are sealed with the new key: 1\nwending: secrets of the library sealed with the new "+
			"key: 6\n", output.String())
	web.kill(t)
	web = serve("--secret-key", dbtest.SecretKey)
	for _, target := range []string{"models/" + model, "agents/" + saved} {
		response, err := http.Post(web.url+"/api/v1/"+target+"/test", "application/json",
			strings.NewReader(`{"question":"q"}`))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, target)
	}
	calls := fake.Calls()
	require.Len(t, calls, 2)
	require.Equal(t, "Bearer k1", calls[0].Header.Get("Authorization"))
	require.Equal(t, "h2", calls[0].Header.Get("X-Provider"))
	require.EqualValues(t, 7, calls[0].Body["seed"])
	require.Equal(t, "h3", calls[1].Header.Get("X-Agent"))
	require.Equal(t, "p2", calls[1].Body["p"])
	require.Equal(t, "token=q2", calls[1].Query)
	stop, _ := startWorker(t, append(shared, "--secret-key", dbtest.SecretKey, "--evaluation-concurrency", "8",
		"--agent-api-allowlist", "127.0.0.1")...)
	requireSecretsArrive(t, web.url, id, fake)
	require.Equal(t, 1, rotate(), "a worker runs, which would not know a key in the data folder")
	require.Contains(t, log.String(), "stop all processes first")
	stop()
}

// When a key is lost, only the secrets sealed with it are lost: they are listed first, given up after confirmation,
// and can be entered again.
func TestALostKeyIsGivenUp(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	database := dbtest.Start(t)
	store, tables := dbtest.OpenAt(t, database)
	shared := []string{
		"--database-url", database, "--redis-url", dbtest.Redis(t), "--rate-limit-per-agent", "unlimited",
		"--data-dir", dbtest.Folder(t),
	}
	reach := []string{
		"--agent-api-allowlist", "127.0.0.1", "--model-api-allowlist", "127.0.0.1", "--notify-allowlist", "127.0.0.1",
	}
	serve := func(key string) *process {
		return start(t, slices.Concat([]string{"serve", "--listen-addr", "127.0.0.1:0", "--secret-key", key}, reach,
			shared)...)
	}
	const lost, fresh, later = "a phrase that nobody remembers", "another phrase", "a third phrase"
	web := serve(lost)
	id := createTask(t, web.url, secretive(fake.URL), twenty)
	plain := createTask(t, web.url, map[string]string{"task_name": "without secrets", "agent_api_url": fake.URL,
		"start": "false"}, twenty)
	provider := save(t, web.url, "providers", map[string]any{
		"name": "p", "protocol": "openai", "base_url": fake.URL, "api_key": "k1", "rate_limit": "unlimited",
	})
	save(t, web.url, "models", map[string]any{
		"name": "m", "provider_id": provider, "model_id": "m1", "parameters": map[string]any{"seed": 7},
	})
	saved := save(t, web.url, "agents", map[string]any{
		"name": "a", "protocol": "default", "url": fake.URL + "?token=q2", "headers": map[string]string{"X-Agent": "h3"},
		"rate_limit": "unlimited"})
	save(t, web.url, "agents", map[string]any{"name": "open", "protocol": "default", "url": fake.URL,
		"rate_limit": "unlimited"})
	save(t, web.url, "channels", map[string]any{
		"name": "c", "kind": "webhook", "url": fake.URL, "secret": "whsec_" + strings.Repeat("QUJD", 8),
		"events": []string{"finished"},
	})
	web.kill(t)
	sealer, err := tasks.NewSealer(t.Context(), store, secret.Keys{Current: lost})
	require.NoError(t, err)
	accounts := people.New(store)
	user := people.User{ID: uuid.New(), Name: "由提供方登录"}
	require.NoError(t, accounts.AddUser(t.Context(), user))
	sealed, err := sealer.Seal("token", "provider's tokens of "+user.ID.String())
	require.NoError(t, err)
	for _, session := range []people.Session{{UserID: user.ID, Method: "oidc", Provided: &people.Provided{Tokens: sealed}},
		{UserID: user.ID, Method: "password"}} {
		_, err := accounts.SignIn(t.Context(), session, "")
		require.NoError(t, err)
	}
	snapshot := func() (text string) {
		require.NoError(t, tables.Get(&text, `
			SELECT concat((SELECT string_agg(t::text, '') FROM task_targets t),
			(SELECT string_agg(p::text, '') FROM providers p), (SELECT string_agg(c::text, '') FROM channels c),
				(SELECT string_agg(s::text, '') FROM sessions s), (SELECT string_agg(i::text, '') FROM installation i),
				(SELECT last_seq::text FROM audit_chain))`))
		return text
	}

	rotate := func(args ...string) (int, string) {
		return command(t, append([]string{"rotate-key", "--database-url", database, "--data-dir", t.TempDir()}, args...)...)
	}
	before := snapshot()
	code, said := rotate("--secret-key", fresh)
	require.Equal(t, 1, code)
	require.Contains(t, said, "wending rotate-key --lost-key", "what there is to do is said")
	code, said = rotate("--secret-key", fresh, "--lost-key")
	require.Equal(t, 1, code, said)
	for _, line := range []string{
		`provider "p": key (of the models m)`, `model "m": parameters`, `agent "a": query, headers`,
		`channel "c": url, secret`, `task "kept": headers, payload, query`, `session of "由提供方登录"`,
	} {
		require.Contains(t, said, line)
	}
	require.NotContains(t, said, `"open"`)
	require.NotContains(t, said, `"without secrets"`)
	require.Contains(t, said, "run the command again with --confirm")
	require.Equal(t, before, snapshot(), "nothing was changed")
	code, said = rotate("--secret-key", lost, "--lost-key", "--confirm")
	require.Equal(t, 0, code, said)
	require.Contains(t, said, "nothing is lost")
	require.Equal(t, before, snapshot(), "there is nothing to give up while the key is known")

	code, said = rotate("--secret-key", fresh, "--lost-key", "--confirm")
	require.Equal(t, 0, code, said)
	var methods []string
	require.NoError(t, tables.Select(&methods, `SELECT method FROM sessions`))
	require.Equal(t, []string{"password"}, methods)
	code, said = command(t, "audit", "verify", "--database-url", database, "--secret-key", fresh)
	require.Equal(t, 0, code, said)
	var entry string
	require.NoError(t, tables.Get(&entry, `SELECT after FROM audit_entries WHERE action = 'key.lost' AND status = 200`))
	require.Contains(t, entry, `agent \"a\": query, headers`)

	web = serve(fresh)
	get := func(path string) (found map[string]any) {
		response, err := http.Get(web.url + "/api/v1/" + path)
		require.NoError(t, err)
		defer response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.NoError(t, json.NewDecoder(response.Body).Decode(&found))
		return found
	}
	require.Equal(t, false, get("providers/" + provider)["has_api_key"])
	require.Equal(t, fake.URL, get("agents/" + saved)["url"])
	request, err := http.NewRequest(http.MethodPatch, web.url+"/api/v1/agents/"+saved,
		strings.NewReader(`{"headers": {"X-Agent": "again"}}`))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	status := func(response *http.Response, err error) int {
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusOK, status(http.DefaultClient.Do(request)))
	require.Equal(t, http.StatusOK,
		status(http.Post(web.url+"/api/v1/agents/"+saved+"/test", "application/json", strings.NewReader(`{"question":"q"}`))))
	require.Equal(t, "again", fake.Calls()[0].Header.Get("X-Agent"), "what is entered again is used")
	require.Equal(t, http.StatusConflict, status(http.Post(web.url+"/api/v1/evaluation-tasks/"+id+"/clone", "", nil)),
		"a copy would call the agent without its headers")

	stop, _ := startWorker(t, append(shared, "--secret-key", fresh, "--evaluation-concurrency", "8",
		"--agent-api-allowlist", "127.0.0.1")...)
	for _, one := range []string{id, plain} {
		require.Equal(t, http.StatusAccepted, status(http.Post(web.url+"/api/v1/evaluation-tasks/"+one+"/run", "", nil)))
	}
	dbtest.Await(t, time.Minute, "the tasks' ends", func() bool {
		return task(t, web.url, id).Status == "FAILED" && task(t, web.url, plain).Status == "SUCCEEDED"
	})
	require.Equal(t, "SECRET_KEY_CHANGED", get("evaluation-tasks/" + id)["failure_code"])
	require.Len(t, fake.Calls(), 1+100, "nobody is called without headers that were given up")
	stop()
	web.kill(t)
	code, said = rotate("--secret-key", later, "--secret-key-previous", fresh)
	require.Equal(t, 0, code, "what was given up is in nobody's way: %s", said)
}
