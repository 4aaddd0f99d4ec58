package handlers_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// Eighty conversations of two turns each: the results carry series, turn and session, the turns follow one another
// on the pages, and each request contains the earlier turns.
func TestConversationsFromAFileToTheReport(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if strings.HasPrefix(call.Question, "Rewrite your previous response") {
			http.Error(w, "boom", http.StatusBadGateway)
			return
		}
		agenttest.Stream(w, "I heard: "+call.Question)
	})
	file, err := os.ReadFile(filepath.Join("..", "jobs", "dataset", "testdata", "qa", "mtbench_80x2.csv"))
	require.NoError(t, err)
	created := s.post(t, api, map[string]string{
		"task_name": "多轮", "agent_api_url": fake.URL, "runs_per_item": "2", "concurrency": "8", "rate_limit": "unlimited",
		"file@mtbench.csv": string(file),
	})
	require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
	var task struct {
		TaskID string `json:"task_id"`
	}
	created.into(t, &task)
	s.awaitDone(t, task.TaskID)
	path := "evaluation-tasks/" + task.TaskID
	require.Equal(t, "stop", s.entry(t, "GET", path, nil, 200)["on_turn_failure"])
	results := s.entry(t, "GET", path+"/results?page_size=100", nil, 200)
	require.EqualValues(t, 160, results["pagination"].(object)["total"])
	item := func(id string) object {
		return s.entry(t, "GET", path+"/results?question_id="+id, nil, 200)["items"].([]any)[0].(object)
	}
	first, second := item("mt-81-1"), item("mt-81-2")
	require.Equal(t, "mt-81", first["series"])
	require.EqualValues(t, 1, first["turn"])
	require.EqualValues(t, 2, second["turn"])
	run, after := first["runs"].([]any)[0].(object), second["runs"].([]any)[0].(object)
	require.Equal(t, "mt-81", run["series"])
	require.EqualValues(t, 2, after["turn"])
	require.Equal(t, run["session_id"], after["session_id"])
	require.NotEqual(t, run["session_id"], first["runs"].([]any)[1].(object)["session_id"])
	require.Equal(t, "HTTP_502", after["error_code"], "the second turn of the first conversation fails here")

	sent := s.entry(t, "GET", path+"/runs/"+fmt.Sprintf("%.0f", after["run_id"])+"/input", nil, 200)["body"].(object)
	require.Equal(t, run["session_id"], sent["session_id"])
	history := sent["history"].([]any)
	require.Len(t, history, 2)
	require.Equal(t, object{"role": "user", "content": first["question"]}, history[0])
	require.Equal(t, object{"role": "assistant", "content": run["response_body"]}, history[1])

	lines := strings.Split(strings.TrimSpace(string(s.get(t, api+"/"+task.TaskID+"/export?format=jsonl").body)), "\n")
	require.Len(t, lines, 160)
	exported := strings.Join(lines, "\n")
	require.Contains(t, exported, `"series":"mt-81","turn":2,`)
	require.Equal(t, 2, strings.Count(exported, `"session_id":"`+run["session_id"].(string)+`"`))

	page := s.get(t, "/tasks/"+task.TaskID+"/results").page(t)
	require.Equal(t, 1, page.Find("article.result.is-turn.follows").First().Prev().Filter(".is-turn").Length(),
		"turns hang together")
	page = s.get(t, "/tasks/"+task.TaskID+"/results?series=mt-82").page(t)
	require.Equal(t, 2, page.Find("article.result").Length(), "one conversation alone")
	require.Contains(t, page.Find(".conversation").Text(), "mt-82")
	require.Contains(t, page.Find(".turn").Last().Text(), "第 2 轮，共 2 轮")
	require.Contains(t, s.get(t, "/tasks/"+task.TaskID+"/settings").page(t).Text(), "80 段，共 160 题")
}

func TestTurnsOutOfOrderAreRefusedWithTheirRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	send := func(file string, fields map[string]string) response {
		fields["task_name"], fields["agent_api_url"], fields["file@q.csv"] = "t", "http://127.0.0.1:9/", file
		return s.post(t, api, fields)
	}
	refused := send("question,standard_answer,series,turn\na,b,s,1\nc,d,s,3\ne,f,s,1\n", map[string]string{})
	require.Equal(t, 422, refused.StatusCode)
	var body struct {
		Code    string
		Details []struct{ Row int }
	}
	refused.into(t, &body)
	require.Equal(t, "DATASET_ROW_INVALID", body.Code)
	require.Equal(t, []struct{ Row int }{{3}, {4}}, body.Details)
	refused = send("question,standard_answer\na,b\n", map[string]string{"on_turn_failure": "perhaps"})
	require.Equal(t, 422, refused.StatusCode)
	require.Contains(t, string(refused.body), "on_turn_failure")
	require.Equal(t, 201, send("question,standard_answer\na,b\n",
		map[string]string{"on_turn_failure": "continue", "start": "false"}).StatusCode)
}
