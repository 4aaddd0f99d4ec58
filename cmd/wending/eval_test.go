package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/jobs/agent/agenttest"
)

// eval runs the subcommand and returns its exit code and output.
func eval(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, said bytes.Buffer
	code = run(context.Background(), append([]string{"eval"}, args...), os.Getenv, &out, &said)
	return code, out.String(), said.String()
}

// A release is checked against limits, against an earlier task, and with temporary servers.
func TestAReleaseIsGated(t *testing.T) {
	t.Parallel()
	var isWorse atomic.Bool
	var asked atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if isWorse.Load() {
			agenttest.Stream(w, strings.Repeat("x", int(asked.Add(1))))
			return
		}
		agenttest.Stream(w, "答 "+call.Question)
	})
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "q.csv"),
		[]byte("question,standard_answer\n一,答 一\n二,答 二\n三,答 三\n四,答 四\n五,答 五\n"), 0o600))
	file := filepath.Join(folder, "task.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`task_name: 发布前检查
agent_api_url: `+fake.URL+`
dataset_file: q.csv
runs_per_item: 3
concurrency: 4
rate_limit: unlimited
evaluators:
  - {name: 一致, kind: exact}
fail_under: {success_rate: 1}
`), 0o600))
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0",
		"--evaluation-concurrency", "4")
	server := []string{"-f", file, "--server", program.url}
	junit, out := filepath.Join(folder, "junit.xml"), filepath.Join(folder, "report.csv")

	code, stdout, stderr := eval(t, append(server, "--fail-under", "pass_rate=100%", "--junit", junit, "--out", out)...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "ok   pass_rate is 100.0%")
	require.Contains(t, stderr, "SUCCEEDED 15/15 runs, 0 failed")
	task := strings.Fields(stdout)[1]
	report, err := os.ReadFile(junit)
	require.NoError(t, err)
	require.Contains(t, string(report), `<testsuites name="发布前检查" tests="7" failures="0" errors="0"`)
	report, err = os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, 6, strings.Count(strings.TrimSpace(string(report)), "\n")+1)

	isWorse.Store(true)
	code, stdout, _ = eval(t, append(server, "--baseline", task)...)
	require.Equal(t, 1, code, stdout)
	require.Contains(t, stdout, "FAIL agreement changed by -100.0 points, the same on each of 5 questions: worse")
	table := filepath.Join(folder, "table.md")
	code, stdout, _ = eval(t, append(server, "--baseline", task, "--margin", "success_rate=0.1", "--require-proof",
		"--fail-under", "item_pass=2/3", "--markdown", table)...)
	require.Equal(t, 1, code, stdout)
	require.Contains(t, stdout,
		"ok   success_rate changed by +0.0 points, 95% interval +0.0 … +0.0, 5 questions, margin 10.0 points: not worse")
	require.Contains(t, stdout, "FAIL item_pass: 0 of 5 questions pass in at least 66.7% of their runs; not")
	written, err := os.ReadFile(table)
	require.NoError(t, err)
	require.Contains(t, string(written), "): failed\n")
	code, _, stderr = eval(t, append(server, "--fail-under", "agreement=0.5")...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "did not pass: 1 of ")

	code, _, stderr = eval(t, "-f", file, "--server", "http://127.0.0.1:1", "--wait")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "refused")
	// Evaluations that cannot be judged are detected before the first call.
	calls := len(fake.Calls())
	for flag, want := range map[string]string{
		"--baseline=no-task": "no-task", "--baseline=" + task + ":7": "has no variant 7",
		"--baseline=6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21":       "TASK_NOT_FOUND",
		"--junit=" + filepath.Join(folder, "none", "junit.xml"): "does not exist",
		"--fail-under=latency_p90_ms=fast":                      "must be a number",
		"--margin=agreement=-1":                                 "must be between 0 and 1",
		"--margin=agreement=0.1":                                "a margin needs a baseline",
		"--require-proof":                                       "needs a baseline",
		"--fail-under=cost=1":                                   "which an agent_api_url does not have",
	} {
		code, _, stderr = eval(t, append(server, flag)...)
		require.Equal(t, 2, code, stderr)
		require.Contains(t, stderr, want)
	}
	require.Len(t, fake.Calls(), calls)
	code, stdout, _ = eval(t, append(server, "--fail-under", "latency_p90_ms=60000", "--fail-under", "agreement=0.5")...)
	require.Equal(t, 1, code, stdout)
	require.Regexp(t, `ok   latency_p90_ms is \d+ ms, the limit is 60000 ms`, stdout)
	code, _, stderr = eval(t, "-f", filepath.Join(folder, "none.yaml"))
	require.Equal(t, 2, code, stderr)

	// Content that the project calls sensitive is sent only with the confirmation that the refusal names.
	calls = len(fake.Calls())
	putJSON(t, program.url+"/api/v1/projects/"+db.DefaultProject.String()+"/settings",
		`{"review_reasons": [], "sensitive_patterns": ["五"], "sensitive_action": "confirm"}`)
	code, _, stderr = eval(t, server...)
	require.Equal(t, 2, code, stderr)
	require.Contains(t, stderr, "row 5, question")
	_, confirmation, isNamed := strings.Cut(stderr, "add --confirm-sensitive ")
	require.True(t, isNamed, stderr)
	require.Len(t, fake.Calls(), calls)
	code, stdout, stderr = eval(t, append(server, "--confirm-sensitive", strings.TrimSpace(confirmation))...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "task ")

	isWorse.Store(false)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(content), "rate_limit: unlimited\n", "", 1)),
		0o600))
	code, stdout, stderr = eval(t, "-f", file, "--local", "--rate-limit-per-agent", "30/s")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "15/15")
	require.Contains(t, stderr, "calls are limited to 30/s for each agent: set rate_limit in "+file)
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "wending-eval-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A gate that demands a fit judge passes only once people's verdicts have shown that the judge is fit.
func TestAGateDemandsAFitJudge(t *testing.T) {
	t.Parallel()
	judging := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		prompt := fmt.Sprint(call.Body["messages"])
		rating := 20
		if strings.Contains(prompt, "stated right") {
			rating = 90
		}
		_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"{\"overall\": %d}"}}]}`, rating)
	})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		answer := "stated wrong"
		if strings.HasSuffix(call.Question, "1") {
			answer = "stated right"
		}
		agenttest.Stream(w, answer)
	})
	folder := t.TempDir()
	questions := "question_id,question,standard_answer\n"
	for n := range 24 {
		questions += fmt.Sprintf("q%d,question %d,x\n", n, n%2)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "q.csv"), []byte(questions), 0o600))
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0")
	provider := save(t, program.url, "providers", map[string]any{"name": "p", "protocol": "openai",
		"base_url": judging.URL, "api_key": "k", "rate_limit": "unlimited"})
	model := save(t, program.url, "models", map[string]any{"provider_id": provider, "model_id": "m"})
	judge := save(t, program.url, "evaluators", map[string]any{"name": "j", "kind": "judge",
		"config": map[string]any{"model_id": model, "dimensions": []string{"overall"}}})
	file := filepath.Join(folder, "task.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`task_name: gate
agent_api_url: `+fake.URL+`
dataset_file: q.csv
runs_per_item: 1
rate_limit: unlimited
evaluators: [`+judge+`]
fail_under: {pass_rate: 0.4}
`), 0o600))
	args := []string{"-f", file, "--server", program.url}

	code, stdout, stderr := eval(t, args...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "warning: the judge j is not shown to be fit to gate releases: it has been compared with "+
		"people on 0 answers")
	code, stdout, stderr = eval(t, append(args, "--require-fit")...)
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stdout, "ok   pass_rate")
	require.Contains(t, stderr, "the judge j is not shown to be fit")

	id := strings.Fields(stdout)[1]
	for n := range 24 {
		verdict := map[int]string{0: "FAIL", 1: "PASS"}[n%2]
		putJSON(t, fmt.Sprintf("%s/api/v1/evaluation-tasks/%s/items/q%d/review", program.url, id, n),
			fmt.Sprintf(`{"reviewer": "r", "verdict": %q}`, verdict))
	}
	code, stdout, stderr = eval(t, append(args, "--require-fit")...)
	require.Zero(t, code, stderr)
	require.NotContains(t, stdout, "warning")
}
