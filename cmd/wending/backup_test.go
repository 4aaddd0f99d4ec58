package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/db/pg/embedded"
	"wending/db/upkeep"
	"wending/jobs/agent/agenttest"
)

// command runs a subcommand until it exits.
func command(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	var out bytes.Buffer
	code = run(context.Background(), args, func(string) string { return "" }, &out, &out)
	return code, out.String()
}

func taskOf(t *testing.T, base, id string) (task struct {
	Status     string `json:"status"`
	Statistics struct {
		Succeeded int `json:"succeeded"`
	} `json:"statistics"`
},
) {
	t.Helper()
	answer, err := http.Get(base + "/api/v1/evaluation-tasks/" + id)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&task))
	return task
}

// rowsOf counts the rows of every table at url.
func rowsOf(t *testing.T, url string) map[string]int {
	t.Helper()
	_, tables := dbtest.OpenAt(t, url)
	var names []string
	require.NoError(t, tables.Select(&names, `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`))
	rows := map[string]int{}
	for _, name := range names {
		var count int
		require.NoError(t, tables.Get(&count, `SELECT count(*) FROM `+pq.QuoteIdentifier(name)))
		rows[name] = count
	}
	return rows
}

// compareRows requires that a restored database has the rows of the original, except those about its processes and
// sessions, and the audit's entry about the restore.
func compareRows(t *testing.T, original, restored map[string]int) {
	t.Helper()
	require.Greater(t, len(original), 50)
	require.Len(t, restored, len(original))
	for _, name := range slices.Sorted(maps.Keys(original)) {
		t.Logf("%-28s %6d rows, restored %6d", name, original[name], restored[name])
		switch name {
		case "sessions":
			require.Zero(t, restored[name])
		case "audit_entries":
			require.Equal(t, original[name]+1, restored[name])
		case "workers", "lanes", "origins", "refused_processes":
		default:
			require.Equal(t, original[name], restored[name], name)
		}
	}
}

// A backup is made while the program runs. The restored installation has all tasks, their files and their secrets, and
// continues what was running.
func TestABackupIsRestored(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "slow" {
			<-slow
		}
		agenttest.Stream(w, call.Header.Get("X-Key"))
	})
	folder := dbtest.Folder(t)
	program := start(t, "up", "--data-dir", folder, "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "4")
	fields := map[string]string{
		"task_name": "ended", "agent_api_url": fake.URL, "runs_per_item": "2", "rate_limit": "unlimited",
		"agent_api_headers": `{"X-Key": "the secret header"}`,
	}
	questions := "question_id,question,standard_answer\nq1,fast,a\n"
	ended := createTask(t, program.url, fields, questions)
	dbtest.Await(t, time.Minute, "the first task has ended", func() bool {
		return taskOf(t, program.url, ended).Status == "SUCCEEDED"
	})
	fields["task_name"] = "running"
	running := createTask(t, program.url, fields, "question_id,question,standard_answer\nq1,slow,a\n")
	dbtest.Await(t, time.Minute, "the second is running", func() bool {
		return taskOf(t, program.url, running).Status == "RUNNING"
	})
	url, err := embedded.RunningURL(filepath.Join(folder, "postgres"))
	require.NoError(t, err)
	_, tables := dbtest.OpenAt(t, url)
	dbtest.Await(t, time.Minute, "what is known of the running calls is stored", func() bool {
		var called int
		require.NoError(t, tables.Get(&called, `SELECT count(*) FROM run_events`))
		return called == 4
	})

	accounts := func(folder string) people.People {
		t.Helper()
		url, err := embedded.RunningURL(filepath.Join(folder, "postgres"))
		require.NoError(t, err)
		store, err := db.Open(t.Context(), url, 1)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return people.New(store)
	}
	code, said := commandWith(t, goodPassword, "user", "add", "李雷", "--data-dir", folder)
	require.Zero(t, code, said)
	before := accounts(folder)
	lilei, err := before.UserNamed(t.Context(), "李雷")
	require.NoError(t, err)
	_, err = before.SignIn(t.Context(), people.Session{UserID: lilei.ID, Method: "password"}, "")
	require.NoError(t, err)

	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	code, said = command(t, "backup", file, "--data-dir", folder)
	require.Zero(t, code, said)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it has the key")
	code, said = command(t, "backup", file, "--data-dir", folder)
	require.Equal(t, 1, code, said)
	original := rowsOf(t, url)
	close(slow)

	other := dbtest.Folder(t)
	code, said = command(t, "restore", file, "--data-dir", other)
	require.Zero(t, code, said)
	code, said = command(t, "restore", file, "--data-dir", other)
	require.Equal(t, 1, code, said)
	require.NoError(t, (&Settings{DataDir: other}).database(t.Context(), func(url string) error {
		compareRows(t, original, rowsOf(t, url))
		return nil
	}))
	second := start(t, "up", "--data-dir", other, "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "4")
	dbtest.Await(t, 60*time.Second, "the running one ends there", func() bool {
		return taskOf(t, second.url, running).Status == "SUCCEEDED"
	})
	require.Equal(t, 2, taskOf(t, second.url, running).Statistics.Succeeded)
	require.Equal(t, 2, taskOf(t, second.url, ended).Statistics.Succeeded)
	after := accounts(other)
	_, err = after.UserNamed(t.Context(), "李雷")
	require.NoError(t, err)
	sessions, err := after.Sessions(t.Context(), lilei.ID)
	require.NoError(t, err)
	require.Empty(t, sessions, "some may have been ended since")
	code, said = command(t, "audit", "verify", "--data-dir", other)
	require.Zero(t, code, said)
	for _, call := range fake.Calls() {
		require.Equal(t, "the secret header", call.Header.Get("X-Key"))
	}
	answer, err := http.Get(second.url + "/tasks/" + ended + "/dataset")
	require.NoError(t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, questions, string(content))

	// Restoring a file that is not a backup, or a damaged backup, leaves nothing behind.
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	code, said = command(t, "backup", "--check", file)
	require.Zero(t, code, said)
	require.Contains(t, said, "complete, with the database")
	flipped := bytes.Clone(whole)
	flipped[len(whole)/2] ^= 1
	for name, content := range map[string][]byte{"text": []byte("no backup"), "half": whole[:len(whole)/2],
		"flipped": flipped} {
		broken, third := filepath.Join(t.TempDir(), name), dbtest.Folder(t)
		require.NoError(t, os.WriteFile(broken, content, 0o600))
		code, said = command(t, "restore", broken, "--data-dir", third)
		require.Equal(t, 1, code, name+said)
		code, said = command(t, "backup", "--check", broken)
		require.Equal(t, 1, code, name+said)
		for _, left := range []string{"secret.key", "uploads"} {
			_, err := os.Stat(filepath.Join(third, left))
			require.ErrorIs(t, err, os.ErrNotExist, name)
		}
		code, said = command(t, "restore", file, "--data-dir", third)
		require.Zero(t, code, said)
	}
}

// A restore never overwrites existing data, not even a single account, task, library entry or audit entry.
func TestNothingIsRestoredOverWhatIsThere(t *testing.T) {
	t.Parallel()
	source, file := dbtest.Folder(t), filepath.Join(t.TempDir(), "backup.tar.gz")
	program := start(t, "up", "--data-dir", source, "--listen-addr", "127.0.0.1:0")
	code, said := command(t, "backup", file, "--data-dir", source)
	require.Zero(t, code, said)
	program.stopped(t)
	fresh := dbtest.Start(t)
	_, admin := dbtest.OpenAt(t, fresh)
	for table, use := range map[string]string{
		"users":   `INSERT INTO users (id, name, password_hash) VALUES ('6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21', '李雷', 'x')`,
		"prompts": `INSERT INTO prompts (id, name) VALUES ('6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21', 'p')`,
		"evaluation_tasks": `INSERT INTO evaluation_tasks (id, task_name, runs_per_item, timeout_seconds, max_retries, use_stream,
			concurrency, dataset_name, dataset_extension, total_items)
			VALUES ('6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21', 't', 1, 1, 0, true, 1, 'd', 'csv', 0)`,
		"audit_entries": `INSERT INTO audit_entries
			VALUES (1, now(), '李雷', '', '', '', 'page', 'task.delete', '', '', '', '', '', 200, '', '', '', '\x00')`,
		"projects":      `INSERT INTO projects (id, name) VALUES ('6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21', 'p')`,
		"task_deletion": `CREATE TABLE task_deletion AS SELECT 1 AS n`,
	} {
		admin.MustExec(`CREATE SCHEMA ` + pq.QuoteIdentifier(table))
		url := fresh + " search_path=" + table
		_, tables := dbtest.OpenAt(t, url)
		tables.MustExec(use)
		err := upkeep.Restore(t.Context(), url, strings.NewReader(""))
		require.ErrorIs(t, err, upkeep.ErrNotEmpty, table)
		require.ErrorContains(t, err, table)
		var rows int
		require.NoError(t, tables.Get(&rows, `SELECT count(*) FROM `+table), table)
		require.Positive(t, rows, table)
	}
	admin.MustExec(
		`INSERT INTO workers (id, host, process_id, lanes) VALUES ('6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21', 'h', 1, 1)`)
	// A database in which only a process has registered still counts as empty.
	code, said = command(t, "restore", file, "--data-dir", dbtest.Folder(t), "--database-url", fresh)
	require.Zero(t, code, said)
}
