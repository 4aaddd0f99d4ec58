package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pressly/goose/v3/lock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// TestMain runs the program itself if the test binary was started for that.
func TestMain(m *testing.M) {
	if os.Getenv("WENDING_TEST_PROGRAM") != "" {
		main()
	}
	dbtest.KeepConnections()
	code := m.Run()
	if startedOnce != "" {
		_ = os.RemoveAll(startedOnce)
	}
	os.Exit(code)
}

// startedOnce is a data folder of a program that was started and stopped. It is made by the first test that needs it.
var (
	startedOnce string
	makeStarted sync.Once
)

// startedFolder returns a copy of the data folder of a program that has run once and stored no data. Starting in it
// takes a quarter of the processor time of a first start in an empty folder.
func startedFolder(t *testing.T) string {
	t.Helper()
	makeStarted.Do(func() {
		dir, err := dbtest.MakeFolder()
		require.NoError(t, err)
		start(t, "up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0").stopped(t)
		// so that each copy gets its own demo agent, at its own address
		require.NoError(t, errors.Join(os.Remove(dir+"/demo.address"), os.Remove(dir+"/demo.ticket")))
		startedOnce = dir
	})
	require.NotEmpty(t, startedOnce, "the program did not start")
	dir := dbtest.Folder(t)
	// -a keeps the files' owners
	require.NoError(t, exec.CommandContext(t.Context(), "cp", "-a", startedOnce+"/.", dir).Run())
	return dir
}

// process is a running process of the real program.
type process struct {
	*exec.Cmd
	url    string
	log    *bytes.Buffer
	exited chan error
}

// start starts the real program and waits until it logs its address.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startCommand(t, exec.Command(os.Args[0], args...))
}

func startCommand(t *testing.T, command *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: command, log: &bytes.Buffer{}, exited: make(chan error, 1)}
	p.Env = append(os.Environ(), "WENDING_TEST_PROGRAM=1")
	p.Dir = t.TempDir() // so that there is no .env
	p.Stderr = p.log
	output, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Signal(syscall.SIGTERM)
			<-p.exited
		}
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	go func() { p.exited <- p.Wait() }()
	require.NoError(t, err, "%s", p.log)
	_, address, found := strings.Cut(strings.TrimSpace(line), ": ")
	require.True(t, found, "no address in %q", line)
	p.url = address
	return p
}

// stopped ends the program and returns its whole log.
func (p *process) stopped(t *testing.T) string {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-p.exited, "%s", p.log)
	return p.log.String()
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Kill())
	<-p.exited
}

// startWorker runs a worker in this process until stop is called. stop requires that the worker ends without an error;
// once it returns, the log is complete.
func startWorker(t *testing.T, args ...string) (stop func(), log *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan int, 1)
	log = &bytes.Buffer{}
	args = append([]string{"worker", "--data-dir", t.TempDir()}, args...)
	go func() { left <- run(ctx, args, func(string) string { return "" }, io.Discard, log) }()
	return func() {
		t.Helper()
		cancel()
		require.Equal(t, 0, <-left, "%s", log)
	}, log
}

// putJSON sends a JSON body, which the program must accept.
func putJSON(t *testing.T, url, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	told, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", told)
}

func createTask(t *testing.T, base string, fields map[string]string, dataset string) string {
	t.Helper()
	status, body := postTask(t, base, fields, dataset)
	require.Equal(t, http.StatusCreated, status, "%s", body)
	var created struct {
		TaskID string `json:"task_id"`
	}
	require.NoError(t, json.Unmarshal(body, &created))
	return created.TaskID
}

func postTask(t *testing.T, base string, fields map[string]string, dataset string) (status int, answer []byte) {
	t.Helper()
	return postFile(t, base, fields, "q.csv", dataset)
}

func postFile(t *testing.T, base string, fields map[string]string, name, dataset string) (status int, answer []byte) {
	t.Helper()
	status, answer, err := sendFile(base, fields, name, dataset)
	require.NoError(t, err)
	return status, answer
}

// sendFile is like postFile, for goroutines other than the test's own.
func sendFile(base string, fields map[string]string, name, dataset string) (status int, answer []byte, err error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, text := range fields {
		if err := form.WriteField(name, text); err != nil {
			return 0, nil, err
		}
	}
	part, err := form.CreateFormFile("dataset_file", name)
	if err != nil {
		return 0, nil, err
	}
	_, _ = io.WriteString(part, dataset)
	if err := form.Close(); err != nil {
		return 0, nil, err
	}
	response, err := http.Post(base+"/api/v1/evaluation-tasks", form.FormDataContentType(), &body)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

type taskState struct {
	Status     string
	Progress   struct{ Processed, Total int }
	Statistics struct {
		Runs, Succeeded int
		Expected        int `json:"runs_expected"`
		JudgeErrors     int `json:"judge_errors"`
	}
}

func task(t *testing.T, base, id string) taskState {
	t.Helper()
	answer, err := http.Get(base + "/api/v1/evaluation-tasks/" + id)
	require.NoError(t, err)
	defer answer.Body.Close()
	var state taskState
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&state))
	return state
}

// outcomesOf returns the error codes of a task's runs or, for successful runs, their answers.
func outcomesOf(t *testing.T, base, id string) (outcomes []string) {
	t.Helper()
	answer, err := http.Get(base + "/api/v1/evaluation-tasks/" + id + "/results")
	require.NoError(t, err)
	defer answer.Body.Close()
	var page struct {
		Items []struct {
			Runs []struct {
				Status    string
				Output    *string `json:"response_body"`
				ErrorCode *string `json:"error_code"`
			}
		}
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&page))
	for _, item := range page.Items {
		for _, run := range item.Runs {
			if run.Status == "SUCCEEDED" {
				outcomes = append(outcomes, *run.Output)
			} else {
				outcomes = append(outcomes, *run.ErrorCode)
			}
		}
	}
	return outcomes
}

const twenty = "question,standard_answer\n" +
	"q1,a\nq2,a\nq3,a\nq4,a\nq5,a\nq6,a\nq7,a\nq8,a\nq9,a\nq10,a\nq11,a\nq12,a\nq13,a\nq14,a\nq15,a\nq16,a\nq17,a\nq18,a\nq19,a\nq20,a\n"

// kill -9 of the whole program in the middle of a task: the next start immediately resumes and completes the task,
// repeating only the calls that were in flight.
func TestAKilledProgramGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		time.Sleep(100 * time.Millisecond) // long enough that no lane begins a call before its last result is committed
		agenttest.Stream(w, "answer to "+call.Question)
	})
	dir := dbtest.Folder(t)
	args := []string{
		"up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "4",
		"--rate-limit-per-agent", "unlimited",
	}
	p := start(t, args...)
	id := createTask(t, p.url, map[string]string{"task_name": "kill", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "30 calls", func() bool { return len(fake.Calls()) >= 30 })
	p.kill(t)
	asked := len(fake.Calls())
	require.Less(t, asked, 100)
	p = start(t, args...)
	restarted := time.Now()
	dbtest.Await(t, 10*time.Second, "the next call", func() bool { return len(fake.Calls()) > asked })
	t.Logf("went on %v after the restart", time.Since(restarted).Round(time.Millisecond))
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	state := task(t, p.url, id)
	require.Equal(t, 100, state.Statistics.Runs)
	require.Equal(t, 100, state.Statistics.Succeeded)
	require.Equal(t, 20, state.Progress.Processed)
	calls := map[string]int{}
	for _, call := range fake.Calls() {
		calls[call.IdempotencyKey]++
	}
	require.Len(t, calls, 100)
	require.LessOrEqual(t, len(fake.Calls()), 100+4, "only the calls in flight were made again")
}

// Calls in flight may finish after SIGTERM, but for no longer than the timeout allows.
func TestSIGTERMDrainsAndExitsWithZero(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		<-release
		agenttest.Stream(w, "x")
	})
	dir := dbtest.Folder(t)
	p := start(t, "up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0", "--rate-limit-per-agent", "unlimited")
	createTask(t, p.url, map[string]string{"task_name": "drain", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "a call", func() bool { return len(fake.Calls()) == 1 })
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	time.AfterFunc(200*time.Millisecond, func() { close(release) })
	require.NoError(t, <-p.exited, "%s", p.log)
	require.Contains(t, p.log.String(), "units_returned=0")
	require.NoFileExists(t, filepath.Join(dir, "postgres", "postmaster.pid"), "the database ended in order")
}

// A process that waits for another process's migration ends immediately and without an error when it is stopped, and so
// does one that waits for calls.
func TestSIGTERMEndsAProcessThatWaitsForAMigration(t *testing.T) {
	t.Parallel()
	database := dbtest.Start(t)
	_, tables := dbtest.OpenAt(t, database)
	tables.MustExec(`DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)`)
	held, err := tables.Connx(t.Context())
	require.NoError(t, err)
	defer held.Close()
	_, err = held.ExecContext(t.Context(), `SELECT pg_advisory_lock($1)`, lock.DefaultLockID)
	require.NoError(t, err)
	worker := exec.Command(os.Args[0], "worker", "--data-dir", t.TempDir(), "--database-url", database, "--redis-url",
		dbtest.Redis(t), "--secret-key", dbtest.SecretKey)
	worker.Env, worker.Dir = append(os.Environ(), "WENDING_TEST_PROGRAM=1"), t.TempDir()
	log := &bytes.Buffer{}
	worker.Stderr = log
	require.NoError(t, worker.Start())
	dbtest.Await(t, time.Minute, "the process asks for the lock", func() bool {
		var asks int
		return tables.Get(&asks, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_try_advisory_lock%' AND
			pid <> pg_backend_pid()`) == nil && asks > 0
	})
	require.NoError(t, worker.Process.Signal(syscall.SIGTERM))
	require.NoError(t, worker.Wait(), "%s", log)
	require.Contains(t, log.String(), "stopped before it had started")
}

// If the embedded database dies, the program exits immediately and does not wait for calls, whose results it could not
// store. It names the cause.
func TestTheProgramEndsWithAnErrorWhenItsDatabaseDies(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	hanging := make(chan struct{})
	fake := agenttest.New(t, func(http.ResponseWriter, agenttest.Call) { <-hanging })
	t.Cleanup(func() { close(hanging) })
	p := start(t, "up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0", "--shutdown-timeout-seconds", "3600")
	createTask(t, p.url, map[string]string{"task_name": "hangs", "agent_api_url": fake.URL, "timeout_seconds": "600"},
		twenty)
	dbtest.Await(t, time.Minute, "a call", func() bool { return len(fake.Calls()) == 1 })
	head, err := os.ReadFile(filepath.Join(dir, "postgres", "postmaster.pid"))
	require.NoError(t, err)
	pid, _, _ := strings.Cut(string(head), "\n")
	number, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(number, syscall.SIGKILL))
	require.Error(t, <-p.exited)
	require.Contains(t, p.log.String(), "the embedded PostgreSQL exited: it was killed (SIGKILL)")
	start(t, "up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0")
}

// A demo task can be retried after a restart, because its agent has the same address.
func TestTheDemoAgentComesBackAtItsAddress(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	var agents []string
	for range 2 {
		p := start(t, "up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0")
		answer, err := http.Post(p.url+"/demo", "", nil)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		id := strings.TrimPrefix(answer.Request.URL.Path, "/tasks/")
		detail, err := http.Get(p.url + "/api/v1/evaluation-tasks/" + id)
		require.NoError(t, err)
		var task struct {
			AgentURL string `json:"agent_api_url"`
		}
		require.NoError(t, json.NewDecoder(detail.Body).Decode(&task))
		require.NoError(t, detail.Body.Close())
		agents = append(agents, task.AgentURL)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.NoError(t, <-p.exited)
	}
	require.NotEmpty(t, agents[0])
	require.Equal(t, agents[0], agents[1])
}

func TestASecondInstanceOnTheSameFolderIsToldSo(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	start(t, "up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0")
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0"}, func(string) string {
		return ""
	}, io.Discard, &stderr)
	require.Equal(t, 1, code)
	require.Contains(t, stderr.String(), "in use by another instance")
}

func TestSettingsAreReadFromTheEnvironmentAndChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		env  map[string]string
		code int
		says string
	}{
		{[]string{"serve"}, nil, 1, "DATABASE_URL and REDIS_URL must be set"},
		{[]string{"migrate"}, nil, 1, "DATABASE_URL is not set"},
		{[]string{"serve", "--listen-addr", "127.0.0.1:0"},
			map[string]string{"DATABASE_URL": "x", "REDIS_URL": "x", "RATE_LIMIT_PER_AGENT": "fast"}, 1, "RATE_LIMIT_PER_AGENT"},
		{[]string{"serve", "--listen-addr", "127.0.0.1:0"},
			map[string]string{"DATABASE_URL": "x", "REDIS_URL": "x", "RUNS_PER_ITEM": "99"}, 1, "RUNS_PER_ITEM is 99"},
		{[]string{"serve", "--listen-addr", "127.0.0.1:0"},
			map[string]string{"DATABASE_URL": "x", "REDIS_URL": "x", "AGENT_API_ALLOWLIST": "http://x"}, 1,
			"AGENT_API_ALLOWLIST"},
		{[]string{"migrate"}, map[string]string{"DATABASE_URL": "postgres://wending:se/cr+et=@host/x"}, 1,
			"DATABASE_URL is not a valid URL"},
		{[]string{"serve"}, map[string]string{"DEFAULT_LANG": "fr"}, 2, "zh-CN"},
		{[]string{"nothing"}, nil, 2, "nothing"},
		{[]string{"--help"}, nil, 0, ""},
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), test.args, func(name string) string { return test.env[name] }, io.Discard, &stderr)
		require.Equal(t, test.code, code, "%v: %s", test.args, &stderr)
		require.Contains(t, stderr.String(), test.says)
		require.NotContains(t, stderr.String(), "cr+et", "no secret in an error")
	}
}

// serve and worker share a PostgreSQL and a Redis, and the key comes from the environment.
func TestWebAndWorkerRunApart(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, call.Header.Get("X-Key"))
	})
	database := dbtest.Start(t)
	redis := dbtest.Redis(t)
	shared := []string{
		"--database-url", database, "--redis-url", redis, "--secret-key", dbtest.SecretKey,
		"--rate-limit-per-agent", "unlimited",
	}
	web := start(t, append([]string{"serve", "--data-dir", dbtest.Folder(t), "--listen-addr", "127.0.0.1:0"},
		shared...)...)
	stop, _ := startWorker(t, append(shared, "--evaluation-concurrency", "4", "--agent-api-allowlist", "127.0.0.1")...)
	id := createTask(t, web.url, map[string]string{"task_name": "apart", "agent_api_url": fake.URL,
		"agent_api_headers": `{"X-Key":"k1"}`}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, web.url, id).Status == "SUCCEEDED" })
	require.Equal(t, 100, task(t, web.url, id).Statistics.Succeeded)
	require.Equal(t, 0, run(t.Context(), []string{"healthcheck", "--url", web.url + "/healthz"}, func(string) string {
		return ""
	}, io.Discard, io.Discard))
	stop()
}

// A worker serves no pages, so the loopback of its machine is not the one that the web process checked: the worker
// calls a loopback address only if it is on the allowlist.
func TestASeparateWorkerDoesNotCallItsLoopback(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	shared := []string{
		"--database-url", dbtest.Start(t), "--redis-url", dbtest.Redis(t), "--secret-key", dbtest.SecretKey,
		"--rate-limit-per-agent", "unlimited",
	}
	web := start(t, append([]string{"serve", "--data-dir", dbtest.Folder(t), "--listen-addr", "127.0.0.1:0"},
		shared...)...)
	stop, _ := startWorker(t, shared...)
	id := createTask(t, web.url, map[string]string{"task_name": "loopback", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, web.url, id).Status == "SUCCEEDED" })
	require.Zero(t, task(t, web.url, id).Statistics.Succeeded)
	require.Empty(t, fake.Calls())
	stop()
}

// Web and workers run behind a pooler that may use another connection for every transaction; only migrations and the
// listening connection bypass it.
func TestEverythingWorksBehindATransactionModePooler(t *testing.T) {
	t.Parallel()
	binary := dbtest.Need(t, "pgbouncer")
	direct := dbtest.Start(t)
	pooled := startPooler(t, binary, direct)
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if strings.HasSuffix(call.IdempotencyKey, "1") && !isWell.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		agenttest.Stream(w, "answer")
	})
	shared := []string{
		"--database-url", pooled, "--database-direct-url", direct, "--redis-url", dbtest.Redis(t),
		"--secret-key", dbtest.SecretKey, "--rate-limit-per-agent", "unlimited",
	}
	web := start(t, append([]string{"serve", "--data-dir", dbtest.Folder(t), "--listen-addr", "127.0.0.1:0"},
		shared...)...)
	stop, log := startWorker(t, append(shared, "--evaluation-concurrency", "8", "--agent-api-allowlist", "127.0.0.1")...)
	id := createTask(t, web.url, map[string]string{"task_name": "pooled", "agent_api_url": fake.URL,
		"agent_api_headers": `{"X-Key":"k1"}`}, twenty)
	follow, err := http.Get(web.url + "/api/v1/evaluation-tasks/" + id + "/progress")
	require.NoError(t, err)
	events, err := io.ReadAll(follow.Body) // to the end of the task
	require.NoError(t, err)
	require.NoError(t, follow.Body.Close())
	require.Contains(t, string(events), "event: completed")
	require.Less(t, task(t, web.url, id).Statistics.Succeeded, 100)
	isWell.Store(true)
	retried, err := http.Post(web.url+"/api/v1/evaluation-tasks/"+id+"/retry", "", nil)
	require.NoError(t, err)
	require.NoError(t, retried.Body.Close())
	require.Equal(t, http.StatusAccepted, retried.StatusCode)
	dbtest.Await(t, time.Minute, "the retry's end", func() bool { return task(t, web.url, id).Status == "SUCCEEDED" })
	require.Equal(t, 100, task(t, web.url, id).Statistics.Succeeded)
	for _, path := range []string{"/tasks", "/tasks/" + id, "/tasks/" + id + "/results", "/tasks/" + id + "/launches",
		"/workers", "/api/v1/evaluation-tasks/" + id + "/export?format=xlsx"} {
		answer, err := http.Get(web.url + path)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err, path)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
	}
	stop()
	require.NotContains(t, log.String(), "level=WARN")
}

// startPooler starts PgBouncer, in transaction mode with three connections, in front of a PostgreSQL, and returns
// its address.
func startPooler(t *testing.T, binary, database string) string {
	t.Helper()
	port, dir := dbtest.FreePort(t), dbtest.Folder(t)
	users, settings := filepath.Join(dir, "users.txt"), filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(users, []byte(`"wending" ""`+"\n"), 0o644))
	require.NoError(t, os.WriteFile(settings,
		[]byte("[databases]\npostgres = "+strings.ReplaceAll(database, "sslmode=disable", "")+
			"\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = "+port+
			"\nunix_socket_dir =\nauth_type = trust\nauth_file = "+users+
			"\npool_mode = transaction\ndefault_pool_size = 3\n"), 0o644))
	arguments := []string{settings}
	if os.Getuid() == 0 {
		arguments = append([]string{"-u", "postgres"}, arguments...)
	}
	command := exec.Command(binary, arguments...)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	dbtest.Await(t, time.Minute, "the pooler", func() bool {
		connection, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	})
	return "postgres://wending@127.0.0.1:" + port + "/postgres?sslmode=disable"
}

// Without accounts, listening beyond loopback requires an explicit setting and the site's names.
func TestListeningBeyondLoopbackTakesAnExplicitYes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		address, hosts string
		withoutLogin   bool
		isFine         bool
	}{
		{"127.0.0.1:0", "", false, true},
		{"localhost:0", "", false, true},
		{"0.0.0.0:0", "", false, false},
		{":0", "", false, false},
		{"0.0.0.0:0", "", true, false},
		{"0.0.0.0:0", "wending.example", false, false},
		{"0.0.0.0:0", "wending.example", true, true},
	} {
		s := Settings{ListenAddr: test.address, AllowedHosts: test.hosts, WithoutLogin: test.withoutLogin, Auth: "off"}
		listener, err := s.listen()
		require.Equal(t, test.isFine, err == nil, "%+v: %v", test, err)
		if err == nil {
			require.NoError(t, listener.Close())
			continue
		}
		require.ErrorContains(t, err, "ALLOW_WITHOUT_LOGIN=1")
		require.ErrorContains(t, err, "ALLOWED_HOSTS")
	}
}

// When a newer version migrates the database, a worker stops with an error that names the reason, and refuses to start
// again.
func TestAWorkerLeavesANewerSchemaAlone(t *testing.T) {
	t.Parallel()
	database := dbtest.Start(t)
	shared := []string{"worker", "--data-dir", t.TempDir(), "--database-url", database, "--redis-url", dbtest.Redis(t),
		"--secret-key", dbtest.SecretKey}
	none := func(string) string { return "" }
	left, log := make(chan int, 1), &bytes.Buffer{}
	go func() { left <- run(t.Context(), shared, none, io.Discard, log) }()
	_, tables := dbtest.OpenAt(t, database)
	dbtest.Await(t, time.Minute, "the worker's heartbeat", func() bool {
		var isAlive bool
		err := tables.Get(&isAlive, `SELECT EXISTS (SELECT FROM workers)`)
		return err == nil && isAlive
	})
	_, err := tables.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	require.NoError(t, err)
	select {
	case code := <-left:
		require.Equal(t, 1, code)
	case <-time.After(time.Minute):
		require.Fail(t, "the worker goes on")
	}
	require.Contains(t, log.String(), "a newer version of Wending has migrated this database (schema 99999")
	log.Reset()
	require.Equal(t, 1, run(t.Context(), shared, none, io.Discard, log))
	require.Contains(t, log.String(), "restore a backup made before the upgrade")
}

// When a newer version migrates the database, a web process remains live, but no longer answers requests, and logs the
// reason once.
func TestAWebProcessRetiresWithANewerSchema(t *testing.T) {
	t.Parallel()
	database := dbtest.Start(t)
	p := start(t, "serve", "--listen-addr", "127.0.0.1:0", "--data-dir", dbtest.Folder(t), "--database-url", database,
		"--redis-url", dbtest.Redis(t), "--secret-key", dbtest.SecretKey)
	get := func(path string) (status int, body string) {
		answer, err := http.Get(p.url + path)
		require.NoError(t, err)
		defer answer.Body.Close()
		content, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(content)
	}
	status, _ := get("/tasks")
	require.Equal(t, http.StatusOK, status)
	_, tables := dbtest.OpenAt(t, database)
	tables.MustExec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	dbtest.Await(t, time.Minute, "the pages' end", func() bool {
		status, _ := get("/tasks")
		return status == http.StatusServiceUnavailable
	})
	_, page := get("/tasks")
	require.Contains(t, page, "系统已升级")
	status, answer := get("/api/v1/evaluation-tasks")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, answer, "SERVICE_UNAVAILABLE")
	status, answer = get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, answer, "schema 99999")
	for _, path := range []string{"/livez", "/metrics"} {
		status, _ = get(path)
		require.Equal(t, http.StatusOK, status, path)
	}
	log := p.stopped(t)
	require.Equal(t, 1, strings.Count(log, "schema 99999"), log)
	require.NotContains(t, log, "request failed")
}

// The health check uses HTTPS if the site does, and accepts only the site's own certificate.
func TestTheHealthCheckSpeaksTLS(t *testing.T) {
	t.Parallel()
	write := func(name string) (cert, key string) {
		certificate, private := dbtest.SelfSigned(t, name)
		dir := t.TempDir()
		cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		require.NoError(t, os.WriteFile(cert, certificate, 0o600))
		require.NoError(t, os.WriteFile(key, private, 0o600))
		return cert, key
	}
	cert, key := write("wending.example")
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--tls-cert-file", cert,
		"--tls-key-file", key, "--public-url", "https://wending.example")
	require.True(t, strings.HasPrefix(p.url, "https://"), p.url)
	check := func(cert, key string) (int, string) {
		var log bytes.Buffer
		code := run(t.Context(), []string{"healthcheck", "--listen-addr", strings.TrimPrefix(p.url, "https://"),
			"--tls-cert-file", cert, "--tls-key-file", key}, func(string) string { return "" }, io.Discard, &log)
		return code, log.String()
	}
	code, log := check(cert, key)
	require.Equal(t, 0, code, log)
	code, log = check(write("wending.example"))
	require.Equal(t, 1, code)
	require.Contains(t, log, "another certificate")
}

// Six processes share a database that allows 17 connections, as one with max_connections=20 does: pages answer while
// tasks run, and everything ends.
func TestSixProcessesShareFewConnections(t *testing.T) {
	t.Parallel()
	database := dbtest.Start(t)
	_, tables := dbtest.OpenAt(t, database)
	for _, statement := range []string{`CREATE ROLE few LOGIN CONNECTION LIMIT 17`, `CREATE DATABASE few OWNER few`} {
		_, err := tables.Exec(statement)
		require.NoError(t, err)
	}
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "好") })
	shared := []string{"--database-url", database + " user=few dbname=few", "--redis-url", dbtest.Redis(t), "--secret-key",
		dbtest.SecretKey, "--rate-limit-per-agent", "unlimited", "--database-max-connections", "2"}
	var webs []*process
	files := dbtest.Folder(t)
	for range 2 {
		webs = append(webs, start(t, append([]string{"serve", "--data-dir", files, "--listen-addr", "127.0.0.1:0"},
			shared...)...))
	}
	for range 4 {
		stop, _ := startWorker(t, append(shared, "--evaluation-concurrency", "8", "--agent-api-allowlist", "127.0.0.1")...)
		defer stop()
	}
	var ids []string
	for n := range 4 {
		ids = append(ids, createTask(t, webs[n%2].url, map[string]string{"task_name": "few", "agent_api_url": fake.URL,
			"concurrency": "8"}, twenty))
	}
	read := func(paths ...string) {
		var readers errgroup.Group
		for n := range 8 {
			readers.Go(func() error {
				for round := range 4 {
					for _, path := range append(paths, "/readyz", "/tasks") {
						answer, err := http.Get(webs[n%2].url + strings.Replace(path, ":id", ids[round%4], 1))
						if err != nil {
							return err
						}
						if err := answer.Body.Close(); err != nil {
							return err
						}
						if answer.StatusCode != http.StatusOK {
							return fmt.Errorf("%s: %s", path, answer.Status)
						}
					}
				}
				return nil
			})
		}
		require.NoError(t, readers.Wait())
	}
	read("/tasks/:id", "/api/v1/evaluation-tasks/:id/items")
	for _, id := range ids {
		dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, webs[0].url, id).Status == "SUCCEEDED" })
	}
	read("/tasks/:id/results", "/tasks/:id/report", "/api/v1/evaluation-tasks/:id/export?format=xlsx")
}
