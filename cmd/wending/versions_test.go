package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/pg/embedded"
	"wending/jobs/agent/agenttest"
)

// Everything that stores or reads data works on the PostgreSQL that comes first on PATH: a task from start to end, its
// pages and exports, more runs, a backup and its restore, and a deletion. 'make versions' runs it on every supported
// version.
func TestEverythingWorksOnThisPostgres(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, "答 "+call.Question) })
	folder := dbtest.Folder(t)
	up := func(folder string) *process {
		return start(t, "up", "--data-dir", folder, "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "4",
			"--rate-limit-per-agent", "unlimited")
	}
	p := up(folder)
	made, err := os.ReadFile(filepath.Join(folder, "postgres", "PG_VERSION"))
	require.NoError(t, err)
	major, err := strconv.Atoi(strings.TrimSpace(string(made)))
	require.NoError(t, err)
	ended := func(base, id string, runs int) {
		t.Helper()
		dbtest.Await(t, time.Minute, "the task's end", func() bool {
			state := task(t, base, id)
			return state.Status == "SUCCEEDED" && state.Statistics.Succeeded == runs
		})
	}
	id := createTask(t, p.url, map[string]string{"task_name": "first", "agent_api_url": fake.URL, "runs_per_item": "2"},
		twenty)
	other := createTask(t, p.url, map[string]string{"task_name": "second", "agent_api_url": fake.URL}, twenty)
	ended(p.url, id, 40)
	ended(p.url, other, 100)
	read := func(base string) {
		t.Helper()
		for _, path := range []string{"/tasks", "/tasks/:id", "/tasks/:id/results", "/tasks/:id/report", "/tasks/:id/review",
			"/tasks/:id/variants", "/comparison?a=:id&b=:other", "/storage", "/workers", "/api/v1/evaluation-tasks",
			"/api/v1/evaluation-tasks/:id/results", "/api/v1/evaluation-tasks/:id/export?format=csv",
			"/api/v1/evaluation-tasks/:id/export?format=xlsx", "/api/v1/evaluation-tasks/:id/export?format=jsonl",
			"/api/v1/evaluation-tasks/:id/export?format=html", "/api/v1/evaluation-tasks/:id/archive"} {
			answer, err := http.Get(base + strings.NewReplacer(":id", id, ":other", other).Replace(path))
			require.NoError(t, err, path)
			content, err := io.ReadAll(answer.Body)
			require.NoError(t, err, path)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %.300s", path, content)
			require.NotEmpty(t, content, path)
		}
	}
	read(p.url)
	extended, err := http.PostForm(p.url+"/api/v1/evaluation-tasks/"+id+"/extend",
		map[string][]string{"runs_per_item": {"3"}})
	require.NoError(t, err)
	require.NoError(t, extended.Body.Close())
	require.Equal(t, http.StatusAccepted, extended.StatusCode)
	ended(p.url, id, 60)

	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	code, said := command(t, "backup", file, "--data-dir", folder)
	if _, err := embedded.FindTool(t.Context(), "pg_dump", major); err != nil {
		require.Equal(t, 1, code, said)
		require.Contains(t, said, err.Error())
		t.Logf("PostgreSQL %d: the backup was not tried: %v", major, err)
	} else {
		require.Zero(t, code, said)
		restored := dbtest.Folder(t)
		code, said = command(t, "restore", file, "--data-dir", restored)
		require.Zero(t, code, said)
		second := up(restored)
		ended(second.url, id, 60)
		read(second.url)
	}

	request, err := http.NewRequest(http.MethodDelete, p.url+"/api/v1/evaluation-tasks/"+id, nil)
	require.NoError(t, err)
	deleted, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, deleted.Body.Close())
	require.Equal(t, http.StatusNoContent, deleted.StatusCode)
	gone, err := http.Get(p.url + "/api/v1/evaluation-tasks/" + id)
	require.NoError(t, err)
	require.NoError(t, gone.Body.Close())
	require.Equal(t, http.StatusNotFound, gone.StatusCode)
	p.stopped(t)
}
