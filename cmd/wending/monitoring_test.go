package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

var metricNames = regexp.MustCompile(`\b(?:wending|process|go)_[a-z_]+\b`)

// Every metric in the alerting rules and on the dashboard is one that a running instance has, and the figures of the
// installation are right.
func TestAlertsAndDashboardUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"output": "x", "usage": {"input_tokens": 1, "output_tokens": 1}}`)
	})
	folder := dbtest.Folder(t)
	p := start(t, "up", "--data-dir", folder, "--listen-addr", "127.0.0.1:0", "--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "t", "agent_api_url": fake.URL, "runs_per_item": "1"},
		twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	var values map[string]string
	scrape := func() map[string]string {
		answer, err := http.Get(p.url + "/metrics")
		require.NoError(t, err)
		defer answer.Body.Close()
		values = map[string]string{}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if name, value, isSample := strings.Cut(lines.Text(), " "); isSample && name != "#" {
				values[name] = value
			}
		}
		return values
	}
	require.Equal(t, "0", scrape()["wending_last_backup_timestamp_seconds"])
	code, said := command(t, "backup", filepath.Join(t.TempDir(), "b.tar.gz"), "--data-dir", folder)
	require.Zero(t, code, said)
	get := func(path string) string {
		answer, err := http.Get(p.url + path)
		require.NoError(t, err, path)
		defer answer.Body.Close()
		content, err := io.ReadAll(answer.Body)
		require.NoError(t, err, path)
		return string(content)
	}
	require.Contains(t, get("/storage"), "最近一次备份")
	get("/api/v1/evaluation-tasks/" + id + "/progress")
	dbtest.Await(t, time.Minute, "figures after the backup", func() bool {
		return scrape()["wending_last_backup_timestamp_seconds"] != "0"
	})
	for name, value := range map[string]string{"wending_postgres_up": "1", "wending_redis_up": "1",
		`wending_tasks{status="SUCCEEDED"}`: "1", `wending_tasks{status="RUNNING"}`: "0",
		`wending_units{state="QUEUED"}`: "0", "wending_workers": "1", "wending_streams": "0"} {
		require.Equal(t, value, values[name], name)
	}
	names := map[string]bool{}
	for name := range values {
		require.NotContains(t, name, "/progress", "streams are not among the requests")
		name, _, _ = strings.Cut(name, "{")
		names[name] = true
	}
	rules, err := os.ReadFile("monitoring/alerts.yaml")
	require.NoError(t, err)
	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(rules, &alerts))
	board, err := os.ReadFile("monitoring/dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(board, &dashboard))
	var expressions []string
	for _, rule := range alerts.Groups[0].Rules {
		expressions = append(expressions, rule.Expr)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	require.Greater(t, len(expressions), 30)
	for _, expression := range expressions {
		used := metricNames.FindAllString(expression, -1)
		require.NotEmpty(t, used, expression)
		for _, name := range used {
			require.True(t, names[name], "%s in %q is not exposed", name, expression)
		}
	}
}
