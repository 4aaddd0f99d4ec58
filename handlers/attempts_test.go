package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// attempt is a failed attempt of a run as the API, JSONL and archives show it.
type attempt struct {
	Attempt      int
	StartedAt    string `json:"started_at"`
	LatencyMS    int    `json:"latency_ms"`
	ErrorCode    string `json:"error_code"`
	ErrorMessage string `json:"error_message"`
	HTTPStatus   *int   `json:"http_status"`
	Body         string
}

// Attempts that failed before a run succeeded are kept: on its page, in the API, in JSONL, and in an archive.
func TestFailedAttemptsAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var mu sync.Mutex
	calls := map[string]int{}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		calls[call.Question]++
		n := calls[call.Question]
		mu.Unlock()
		switch {
		case call.Question == "不稳" && n == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(w, "忙碌\x00 key=very-secret-key <script>alert(1)</script> %s", strings.Repeat("长", 5000))
		case call.Question == "不稳" && n == 2, call.Question == "坏":
			panic(http.ErrAbortHandler)
		default:
			agenttest.Stream(w, "好了")
		}
	})
	agent := s.entry(t, "POST", "agents", object{
		"name": "flaky", "protocol": "default", "url": fake.URL, "headers": object{"X-Key": "very-secret-key"},
		"rate_limit": "unlimited"}, 201)["id"].(string)
	id := s.create(t, "", map[string]string{
		"agents": agent, "runs_per_item": "1", "max_retries": "2",
		"file@q.csv": "question_id,question,standard_answer\nq1,不稳,a\nq2,好,a\nq3,坏,a\n",
	})
	s.awaitDone(t, id)

	type run struct {
		RunID          *int64 `json:"run_id"`
		Status         string
		Attempts       int
		FailedAttempts []attempt `json:"failed_attempts"`
	}
	var results struct {
		Items []struct {
			Question string
			Runs     []run
		}
	}
	s.get(t, api+"/"+id+"/results").into(t, &results)
	kept := map[string]run{}
	for _, item := range results.Items {
		kept[item.Question] = item.Runs[0]
	}
	requireAttempts := func(failed []attempt) {
		t.Helper()
		require.Len(t, failed, 2)
		first, second := failed[0], failed[1]
		require.Equal(t, 1, first.Attempt)
		require.Equal(t, "HTTP_503", first.ErrorCode)
		require.Equal(t, http.StatusServiceUnavailable, *first.HTTPStatus)
		require.True(t, strings.HasPrefix(first.Body, "忙碌␀ key=*** <script>"), "%.80q", first.Body)
		require.LessOrEqual(t, len(first.Body)+len(first.ErrorMessage), 1800)
		require.Greater(t, len(first.Body), 1000)
		require.NotEmpty(t, first.StartedAt)
		require.Equal(t, 2, second.Attempt)
		require.Equal(t, "NETWORK_ERROR", second.ErrorCode)
		require.Nil(t, second.HTTPStatus)
		require.Empty(t, second.Body)
	}
	require.Equal(t, "SUCCEEDED", kept["不稳"].Status)
	require.Equal(t, 3, kept["不稳"].Attempts)
	requireAttempts(kept["不稳"].FailedAttempts)
	require.Contains(t, kept["不稳"].FailedAttempts[0].StartedAt, "+08:00")
	require.NotNil(t, kept["好"].FailedAttempts)
	require.Empty(t, kept["好"].FailedAttempts)
	require.Equal(t, "FAILED", kept["坏"].Status)
	require.Len(t, kept["坏"].FailedAttempts, 2, "the last attempt is the run itself")

	page := s.get(t, fmt.Sprintf("/tasks/%s/runs/%d", id, *kept["不稳"].RunID)).page(t)
	require.Equal(t, 2, page.Find("#attempts li").Length())
	require.Contains(t, page.Find("#attempts li").First().Text(), "HTTP_503")
	require.Contains(t, page.Find("#attempts pre").Text(), "<script>alert(1)</script>", "it is text")
	require.Zero(t, s.get(t, fmt.Sprintf("/tasks/%s/runs/%d", id, *kept["好"].RunID)).page(t).Find("#attempts").Length())

	inReport := func(id string) []attempt {
		t.Helper()
		var line struct{ Runs []run }
		first, _, _ := strings.Cut(string(s.get(t, api+"/"+id+"/export?format=jsonl").body), "\n")
		require.NoError(t, json.Unmarshal([]byte(first), &line))
		return line.Runs[0].FailedAttempts
	}
	requireAttempts(inReport(id))
	require.NotContains(t, string(s.get(t, api+"/"+id+"/export?format=jsonl&include_errors=false").body),
		"failed_attempts")

	archive := s.get(t, api+"/"+id+"/archive").body
	require.NotContains(t, string(archive), "very-secret-key")
	answer := s.importForm(t, api+"/import", archive)
	var imported struct {
		TaskID string `json:"task_id"`
	}
	answer.into(t, &imported)
	require.Equal(t, http.StatusCreated, answer.StatusCode)
	requireAttempts(inReport(imported.TaskID))
}
