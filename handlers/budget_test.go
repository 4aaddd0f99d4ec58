package handlers_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// A task stops before a call that does not fit under its ceiling, keeps its results, and continues when the ceiling
// is raised.
func TestATaskStopsAtItsCeiling(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	answer := openAIChat("Paris")
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		time.Sleep(20 * time.Millisecond) // the agent's latency
		answer(w, call)
	})
	model, _ := s.chatTarget(t, "priced", fake.URL)
	s.entry(t, "PATCH", "models/"+model, object{"input_price": "1000", "output_price": "1000", "currency": "CNY"}, 200)
	var rows strings.Builder
	for n := 1; n <= 200; n++ {
		fmt.Fprintf(&rows, "q%d,question %d,Paris\n", n, n)
	}
	fields := map[string]string{
		"task_name": "capped", "models": model, "runs_per_item": "5", "concurrency": "8", "max_cost": "0.5",
		"file@q.csv": "question_id,question,standard_answer\n" + rows.String(),
	}
	created := s.post(t, api, fields)
	require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
	var task struct {
		TaskID string `json:"task_id"`
	}
	created.into(t, &task)
	path := "evaluation-tasks/" + task.TaskID
	ended := func(status string) object {
		var now object
		dbtest.Await(t, 60*time.Second, "the task is "+status, func() bool {
			now = s.entry(t, "GET", path, nil, 200)
			return now["status"] == status
		})
		return now
	}
	stopped := ended("STOPPED")
	require.Equal(t, "BUDGET_TASK", stopped["stop_reason"])
	require.Equal(t, "0.5", stopped["max_cost"])
	statistics := stopped["statistics"].(object)
	runs := statistics["runs"].(float64)
	require.Greater(t, runs, 10.0)
	require.Less(t, runs, 900.0)
	require.EqualValues(t, runs, statistics["succeeded"], "what was paid for is kept")
	page := s.get(t, "/tasks/"+task.TaskID).page(t)
	require.Contains(t, page.Text(), "已达到任务的费用上限")

	// The cost of each call in flight was reserved, and not one more call would have fitted.
	spent, err := strconv.ParseFloat(statistics["cost"].(string), 64)
	require.NoError(t, err)
	require.LessOrEqual(t, spent, 0.5+1e-9)
	require.Greater(t, spent+spent/runs, 0.5)

	// Under the same ceiling the task is not resumed, and the refusal explains what to do.
	asked := len(fake.Calls())
	refusal := s.entry(t, "POST", path+"/resume", nil, 409)
	require.Equal(t, "TASK_STATE_CONFLICT", refusal["code"])
	require.Contains(t, refusal["message"], "0.5 CNY")
	require.Contains(t, refusal["message"], "提高“费用上限”")
	s.entry(t, "POST", path+"/retry", nil, 409)
	require.Len(t, s.entry(t, "GET", path+"/launches", nil, 200)["items"], 1)
	require.Len(t, fake.Calls(), asked)

	s.entry(t, "PATCH", path, object{"max_cost": "no"}, 422)
	require.Equal(t, http.StatusSeeOther, s.post(t, "/tasks/"+task.TaskID+"/ceiling",
		map[string]string{"max_cost": "1000"}).StatusCode)
	s.entry(t, "POST", path+"/resume", nil, 202)
	require.Nil(t, ended("SUCCEEDED")["stop_reason"])
	require.Len(t, fake.Calls(), 1000)
	refused := s.post(t, api, map[string]string{
		"task_name": "x", "models": model, "max_cost": "-1", "file@q.csv": "question,standard_answer\na,b\n",
	})
	require.Contains(t, string(refused.body), "max_cost")
}

// The monthly ceiling covers all tasks, including the spending of deleted ones.
func TestAMonthHasACeiling(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, openAIChat("Paris"))
	model, _ := s.chatTarget(t, "priced", fake.URL)
	s.entry(t, "PATCH", "models/"+model, object{"input_price": "1000", "output_price": "1000", "currency": "CNY"}, 200)
	fields := map[string]string{"task_name": "first", "models": model, "file@q.csv": "question,standard_answer\na,b\n"}
	var task struct {
		TaskID string `json:"task_id"`
	}
	s.post(t, api, fields).into(t, &task)
	s.awaitDone(t, task.TaskID)
	dbtest.Await(t, 20*time.Second, "it is added up", func() bool {
		var spent float64
		require.NoError(t, s.tables.Get(&spent, `SELECT coalesce(sum(cost), 0) FROM spending WHERE currency = 'CNY'`))
		return spent > 0
	})
	require.Equal(t, http.StatusNoContent, s.delete(t, task.TaskID).StatusCode)
	s.budget.Month = "0.001"
	asked := len(fake.Calls())
	s.post(t, api, fields).into(t, &task)
	dbtest.Await(t, 20*time.Second, "the next is stopped", func() bool {
		return s.entry(t, "GET", "evaluation-tasks/"+task.TaskID, nil, 200)["status"] == "STOPPED"
	})
	require.Equal(t, "BUDGET_MONTH", s.entry(t, "GET", "evaluation-tasks/"+task.TaskID, nil, 200)["stop_reason"])
	require.Len(t, fake.Calls(), asked)
	_, err := s.tables.Exec(`UPDATE spending SET ended_at = ended_at - interval '40 days'`)
	require.NoError(t, err)
	s.entry(t, "POST", "evaluation-tasks/"+task.TaskID+"/resume", nil, 202)
	s.awaitDone(t, task.TaskID)
	require.Greater(t, len(fake.Calls()), asked, "another month")
}

// A project's monthly ceiling covers its own tasks, including the spending of deleted ones, and no other project's.
func TestAProjectHasACeiling(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, openAIChat("Paris"))
	model, _ := s.chatTarget(t, "priced", fake.URL)
	s.entry(t, "PATCH", "models/"+model, object{"input_price": "1000", "output_price": "1000", "currency": "CNY"}, 200)
	fields := map[string]string{"task_name": "first", "models": model, "file@q.csv": "question,standard_answer\na,b\n"}
	run := func() (id, status string, reason any) {
		var task struct {
			TaskID string `json:"task_id"`
		}
		s.post(t, api, fields).into(t, &task)
		s.awaitDone(t, task.TaskID)
		found := s.entry(t, "GET", "evaluation-tasks/"+task.TaskID, nil, 200)
		return task.TaskID, found["status"].(string), found["stop_reason"]
	}
	first, status, _ := run()
	require.Equal(t, "SUCCEEDED", status)
	place := "projects/" + db.DefaultProject.String()
	dbtest.Await(t, 20*time.Second, "it is added up", func() bool {
		return len(s.entry(t, "GET", place, nil, 200)["used"].(object)["cost_this_month"].([]any)) == 1
	})
	require.Equal(t, http.StatusNoContent, s.delete(t, first).StatusCode)
	other := s.entry(t, "POST", "projects", object{"name": "别处"}, 201)["id"].(string)
	s.entry(t, "PATCH", "projects/"+other, object{"cost_per_month": "0.001"}, 200)
	_, status, _ = run()
	require.Equal(t, "SUCCEEDED", status, "another project's ceiling")
	s.entry(t, "PATCH", place, object{"cost_per_month": "0.001"}, 200)
	asked := len(fake.Calls())
	id, status, reason := run()
	require.Equal(t, "STOPPED", status)
	require.Equal(t, "BUDGET_PROJECT", reason)
	require.Len(t, fake.Calls(), asked, "nobody is asked any more")
	require.Contains(t, s.get(t, "/tasks/"+id).page(t).Text(), "本空间本月的费用上限")
	s.entry(t, "PATCH", place, object{"cost_per_month": nil}, 200)
	s.entry(t, "POST", "evaluation-tasks/"+id+"/resume", nil, 202)
	s.awaitDone(t, id)
	require.Greater(t, len(fake.Calls()), asked)
}

// An adaptive task plans its rounds only as far as its ceiling and the project's daily quota allow, and continues
// when they are raised.
func TestRoundsStayWithinTheCeilingAndTheQuota(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var mu sync.Mutex
	said := 0
	fake := agenttest.New(t, chatting(func(string) string {
		mu.Lock()
		defer mu.Unlock()
		said++
		return fmt.Sprint("answer ", said)
	}))
	model, _ := s.chatTarget(t, "priced", fake.URL)
	s.entry(t, "PATCH", "models/"+model, object{"input_price": "100", "output_price": "100", "currency": "CNY"}, 200)
	var rows strings.Builder
	for n := 1; n <= 30; n++ {
		fmt.Fprintf(&rows, "q%d,question %d,Paris\n", n, n)
	}
	created := s.post(t, api, map[string]string{
		"task_name": "capped", "models": model, "runs_per_item": "2", "concurrency": "8", "max_cost": "0.5",
		"adaptive":   `{"max_runs": 10, "confidence": 0.95}`,
		"file@q.csv": "question_id,question,standard_answer\n" + rows.String(),
	})
	require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
	var task struct {
		TaskID string `json:"task_id"`
	}
	created.into(t, &task)
	path := "evaluation-tasks/" + task.TaskID
	ended := func(status string) (now object) {
		dbtest.Await(t, 60*time.Second, "the task is "+status, func() bool {
			now = s.entry(t, "GET", path, nil, 200)
			return now["status"] == status
		})
		return now
	}
	stopped := ended("STOPPED")
	require.Equal(t, "BUDGET_TASK", stopped["stop_reason"])
	spent, err := strconv.ParseFloat(stopped["statistics"].(object)["cost"].(string), 64)
	require.NoError(t, err)
	require.LessOrEqual(t, spent, 0.5+1e-9)
	require.Len(t, fake.Calls(), 90, "0.0055 each")

	s.entry(t, "PATCH", path, object{"max_cost": "100"}, 200)
	s.tables.MustExec(`UPDATE projects SET calls_per_day = 200`)
	s.entry(t, "POST", path+"/resume", nil, 202)
	stopped = ended("STOPPED")
	require.Equal(t, "QUOTA_CALLS", stopped["stop_reason"])
	require.Contains(t, s.get(t, "/tasks/"+task.TaskID).page(t).Text(), "今天的调用配额已用完")
	var counted int
	require.NoError(t, s.tables.Get(&counted, `SELECT sum(total_units) FROM launches`))
	require.LessOrEqual(t, counted, 200)
	require.Greater(t, len(fake.Calls()), 90)
	require.LessOrEqual(t, len(fake.Calls()), 200)

	s.tables.MustExec(`UPDATE launches SET created_at = created_at - interval '1 day'`) // the next day
	s.entry(t, "POST", path+"/resume", nil, 202)
	dbtest.Await(t, 60*time.Second, "it stops or ends", func() bool {
		status := s.entry(t, "GET", path, nil, 200)["status"]
		return status == "STOPPED" || status == "SUCCEEDED"
	})
	require.Nil(t, ended("SUCCEEDED")["stop_reason"])
	require.Len(t, fake.Calls(), 300)
	require.EqualValues(t, 300, ended("SUCCEEDED")["total_runs"])
}

// A conversation is one unit but needs a call for each turn. All of these calls count towards the quota and the ceiling
// when rounds are planned, and the estimate's upper bound includes them.
func TestRoundsOfConversationsStayWithinTheCeilingAndTheQuota(t *testing.T) {
	t.Parallel()
	const conversations, turns, most = 6, 3, 6
	s := newSite(t, true)
	var said atomic.Int64
	fake := agenttest.New(t, chatting(func(string) string { return fmt.Sprint("answer ", said.Add(1)) }))
	model, _ := s.chatTarget(t, "priced", fake.URL)
	s.entry(t, "PATCH", "models/"+model, object{"input_price": "100", "output_price": "100", "currency": "CNY"}, 200)
	var rows strings.Builder
	for n := range conversations {
		for turn := range turns {
			fmt.Fprintf(&rows, "q%d-%d,question %d %d,Paris,s%d,%d\n", n, turn, n, turn, n, turn+1)
		}
	}
	fields := map[string]string{
		"task_name": "capped", "models": model, "runs_per_item": "2", "concurrency": "4", "max_cost": "0.3",
		"adaptive":   fmt.Sprintf(`{"max_runs": %d, "confidence": 0.95}`, most),
		"file@q.csv": "question_id,question,standard_answer,series,turn\n" + rows.String(),
	}
	var estimate, created object
	s.post(t, api+"/estimate", fields).into(t, &estimate)
	require.EqualValues(t, conversations*turns*2, estimate["calls"])
	require.EqualValues(t, conversations*turns*most, estimate["calls_at_most"])
	s.post(t, api, fields).into(t, &created)
	path := fmt.Sprint("evaluation-tasks/", created["task_id"])
	ended := func(status string) (now object) {
		dbtest.Await(t, 60*time.Second, "the task is "+status, func() bool {
			now = s.entry(t, "GET", path, nil, 200)
			return now["status"] == status
		})
		return now
	}
	require.Equal(t, "BUDGET_TASK", ended("STOPPED")["stop_reason"])
	asked := len(fake.Calls())
	require.LessOrEqual(t, asked, 54, "0.0055 each")
	require.Greater(t, asked, conversations*turns*2, "rounds were planned")
	require.Zero(t, asked%turns, "conversations are repeated whole")

	s.entry(t, "PATCH", path, object{"max_cost": "100"}, 200)
	quota := asked + 8 // enough for two conversations of three turns each, although eight units would fit
	s.tables.MustExec(`UPDATE projects SET calls_per_day = $1`, quota)
	s.entry(t, "POST", path+"/resume", nil, 202)
	require.Equal(t, "QUOTA_CALLS", ended("STOPPED")["stop_reason"])
	require.Len(t, fake.Calls(), asked+6)
	var counted int
	require.NoError(t, s.tables.Get(&counted, `SELECT sum(total_units) FROM launches`))
	require.LessOrEqual(t, counted, quota)

	s.tables.MustExec(`UPDATE launches SET created_at = created_at - interval '1 day'`) // the next day
	s.tables.MustExec(`UPDATE projects SET calls_per_day = 1000`)
	s.entry(t, "POST", path+"/resume", nil, 202)
	task := ended("SUCCEEDED")
	require.EqualValues(t, conversations*turns*most, task["total_runs"])
	require.Len(t, fake.Calls(), conversations*turns*most, "no call was made twice")
	for _, item := range s.entry(t, "GET", path+"/results?page_size=100", nil, 200)["items"].([]any) {
		require.Len(t, item.(object)["runs"], most)
	}
}
