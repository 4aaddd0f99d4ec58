package handlers_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// append posts a file of questions to a task and returns the response.
func (s *site) append(t *testing.T, id, file string) response {
	t.Helper()
	return s.post(t, api+"/"+id+"/items", map[string]string{"file@more.csv": file})
}

// asked counts the calls for each question.
func asked(fake *agenttest.Agent) map[string]int {
	counts := map[string]int{}
	for _, call := range fake.Calls() {
		counts[call.Question]++
	}
	return counts
}

func TestQuestionsAreAddedWhileATaskRunsAndAfterIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	goOn := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		<-goOn
		agenttest.Stream(w, "answer to "+call.Question)
	})
	created := s.post(t, api, map[string]string{
		"task_name": "追加", "agent_api_url": fake.URL, "runs_per_item": "2", "rate_limit": "unlimited", "concurrency": "2",
		"file@q.csv": "question_id,question,standard_answer,city\nq1,一,a,北京\nq2,二,b,上海\n",
	})
	require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
	var task struct {
		TaskID string `json:"task_id"`
	}
	created.into(t, &task)
	path := "evaluation-tasks/" + task.TaskID

	// Errors are reported, and nothing is added.
	for file, code := range map[string]string{
		"question_id,question,standard_answer\nq3,三,c\n":                           "DATASET_SCHEMA_INVALID",
		"question_id,question,standard_answer,city,mood\nq3,三,c,广州,好\n":            "DATASET_SCHEMA_INVALID",
		"question_id,question,standard_answer,city\nq3,三,c,广州\nq2,二,b,上海\n":        "DATASET_DUPLICATE_QUESTION_ID",
		"question_id,question,standard_answer,city\n" + rowsOfCity(999):            "DATASET_TOO_MANY_ROWS",
		"question_id,question,standard_answer,city\nq3,\"" + "三" + "\",c,广州,too\n": "DATASET_ROW_INVALID",
	} {
		refused := s.append(t, task.TaskID, file)
		require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, string(refused.body))
		require.Contains(t, string(refused.body), code)
	}
	require.Contains(t,
		string(s.append(t, task.TaskID, "question_id,question,standard_answer,city\nq3,三,c,广州\nq2,二,b,上海\n").body), `"row":3`)
	require.EqualValues(t, 4, s.entry(t, "GET", path, nil, 200)["total_runs"])

	// The columns may be in another order.
	require.Equal(t, http.StatusAccepted, s.append(t, task.TaskID,
		"city,question_id,question,standard_answer\n广州,q3,三,c\n").StatusCode)
	require.EqualValues(t, 6, s.entry(t, "GET", path, nil, 200)["total_runs"])
	close(goOn)
	s.awaitDone(t, task.TaskID)
	require.Equal(t, map[string]int{"一": 2, "二": 2, "三": 2}, asked(fake))
	launches := s.entry(t, "GET", path+"/launches", nil, 200)["items"].([]any)
	require.Len(t, launches, 1, "the launch that ran took them")

	// A task that has ended runs only the new questions.
	require.Equal(t, "RUNNING", func() string {
		answer := s.append(t, task.TaskID, "question_id,question,standard_answer,city\nq4,四,d,深圳\n")
		require.Equal(t, http.StatusAccepted, answer.StatusCode, string(answer.body))
		var body struct {
			Status string `json:"status"`
		}
		answer.into(t, &body)
		return body.Status
	}())
	s.awaitDone(t, task.TaskID)
	require.Equal(t, map[string]int{"一": 2, "二": 2, "三": 2, "四": 2}, asked(fake))
	launches = s.entry(t, "GET", path+"/launches", nil, 200)["items"].([]any)
	require.Equal(t, "EXTEND", launches[0].(object)["kind"])
	done := s.entry(t, "GET", path, nil, 200)
	require.Equal(t, "SUCCEEDED", done["status"])
	require.EqualValues(t, 8, done["statistics"].(object)["runs"])
	require.EqualValues(t, 4, done["progress"].(object)["processed"])

	// The task's file contains all questions, and so does a copy's.
	file := string(s.get(t, "/tasks/"+task.TaskID+"/dataset").body)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(file, "\uFEFF"))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"question_id", "question", "standard_answer", "system_prompt", "user_context", "city"},
		rows[0])
	require.Equal(t, []string{"q4", "四", "d", "", "", "深圳"}, rows[4])
	require.Equal(t, "广州", rows[3][5])
	form := s.get(t, "/?from="+task.TaskID).page(t).Find("#create")
	fields := map[string]string{"from": task.TaskID, "task_name": "copy", "start": "false"}
	for _, name := range []string{"agent_api_url", "dataset_token", "runs_per_item"} {
		fields[name] = form.Find("[name="+name+"]").AttrOr("value", "")
	}
	copied := s.post(t, "/tasks", fields)
	require.Less(t, copied.StatusCode, 400)
	newest := s.entry(t, "GET", "evaluation-tasks", nil, 200)["items"].([]any)[0].(object)
	require.NotEqual(t, task.TaskID, newest["task_id"])
	require.EqualValues(t, 8, s.entry(t, "GET", "evaluation-tasks/"+newest["task_id"].(string), nil, 200)["total_runs"])

	// A draft refuses additional questions: it is edited instead.
	require.Equal(t, http.StatusConflict, s.append(t, newest["task_id"].(string),
		"question_id,question,standard_answer,city\nq9,九,d,深圳\n").StatusCode)

	page := s.get(t, "/tasks/"+task.TaskID+"/settings").page(t)
	require.Equal(t, 1, page.Find(`form[action="/tasks/`+task.TaskID+`/items#append"] input[type=file]`).Length())
	wrong := s.post(t, "/tasks/"+task.TaskID+"/items",
		map[string]string{"file@more.csv": "question_id,question,standard_answer,city\nq1,一,a,北京\n"})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	require.Contains(t, wrong.page(t).Find("#append[open]").Text(), "任务中已有 question_id“q1”")
	answer := s.post(t, "/tasks/"+task.TaskID+"/items",
		map[string]string{"file@more.csv": "question_id,question,standard_answer,city\nq5,五,e,武汉\n"})
	require.Less(t, answer.StatusCode, 400, string(answer.body))
	s.awaitDone(t, task.TaskID)
	require.Equal(t, 2, asked(fake)["五"])
}

func rowsOfCity(count int) string {
	var rows strings.Builder
	for n := range count {
		fmt.Fprintf(&rows, "x%d,question %d,a,city\n", n, n)
	}
	return rows.String()
}

// Rows that arrive just as a launch ends are each run exactly once, by that launch or by the next one.
func TestQuestionsAddedAtTheEndOfALaunchAreAskedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "answer to "+call.Question)
	})
	created := s.post(t, api, map[string]string{
		"task_name": "race", "agent_api_url": fake.URL, "runs_per_item": "1", "rate_limit": "unlimited", "concurrency": "4",
		"file@q.csv": "question_id,question,standard_answer\nq,first,a\n",
	})
	var task struct {
		TaskID string `json:"task_id"`
	}
	created.into(t, &task)
	const writers, rows = 4, 15
	var all sync.WaitGroup
	for writer := range writers {
		var requests []*http.Request
		for n := range rows {
			file := fmt.Sprintf("question_id,question,standard_answer\nw%d-%d,question %d of %d,a\n", writer, n, n, writer)
			requests = append(requests, s.form(t, api+"/"+task.TaskID+"/items", map[string]string{"file@more.csv": file}))
		}
		all.Go(func() {
			for _, request := range requests {
				answer, err := s.exchange(request)
				for err == nil && answer.StatusCode == http.StatusConflict { // another request's launch had just begun
					request.Body, _ = request.GetBody()
					answer, err = s.exchange(request)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if answer.StatusCode != http.StatusAccepted {
					t.Errorf("%d %s", answer.StatusCode, answer.body)
				}
			}
		})
	}
	all.Wait()
	s.awaitDone(t, task.TaskID)
	counts := asked(fake)
	require.Len(t, counts, 1+writers*rows)
	for question, count := range counts {
		require.Equal(t, 1, count, question)
	}
	done := s.entry(t, "GET", "evaluation-tasks/"+task.TaskID, nil, 200)
	require.Equal(t, "SUCCEEDED", done["status"])
	require.EqualValues(t, 1+writers*rows, done["statistics"].(object)["succeeded"])
	require.EqualValues(t, 0, done["statistics"].(object)["missing"])
}
