package handlers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/jobs/agent/agenttest"
	"wending/jobs/cron"
)

// schedule saves a schedule of a task and returns its id.
func (s *site) schedule(t *testing.T, name, task string, more object) string {
	t.Helper()
	body := object{"name": name, "task_id": task, "cron": "0 2 * * *"}
	for key, value := range more {
		body[key] = value
	}
	return s.entry(t, "POST", "schedules", body, 201)["id"].(string)
}

// due sets a schedule's planned time to the given number of minutes ago, and returns it.
func (s *site) due(t *testing.T, id string, minutes int) (planned time.Time) {
	t.Helper()
	require.NoError(t, s.tables.Get(&planned, `
		UPDATE schedules SET next_at = date_trunc('minute', created_at) - $2 * interval '1 minute' WHERE id = $1
		RETURNING next_at`, id, minutes))
	return planned
}

func (s *site) listed(t *testing.T, path string) (found []object) {
	t.Helper()
	for _, one := range s.entry(t, "GET", path, nil, 200)["items"].([]any) {
		found = append(found, one.(object))
	}
	return found
}

func TestAScheduleCopiesATaskAndRunsTheCopy(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	var answers atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if answers.Add(1) > 20 && call.Question == "q1" {
			agenttest.Stream(w, strings.Repeat("变", int(answers.Load()%7)+1))
			return
		}
		agenttest.Stream(w, "答 "+call.Question)
	})
	task := s.create(t, fake.URL, map[string]string{
		"file@q.csv": "question_id,question,standard_answer\nid1,q1,a\nid2,q2,b\n", "runs_per_item": "5",
		"agent_api_headers": `{"X-Key": "secret-header"}`,
	})
	s.awaitDone(t, task)
	channel := s.channel(t, "alerts", hook.URL, object{"events": []string{"alert"}})
	long := strings.Repeat("夜", 60)
	id := s.schedule(t, long, task, object{"channels": []string{channel},
		"alert": object{"metric": "agreement", "below": 0.9}})
	saved := s.entry(t, "GET", "schedules/"+id, nil, 200)
	require.Equal(t, "Asia/Shanghai", saved["timezone"])
	require.Equal(t, true, saved["is_enabled"])
	next, err := time.Parse(time.RFC3339, saved["next_at"].(string))
	require.NoError(t, err)
	require.Equal(t, 2, next.In(cron.Beijing).Hour())
	require.True(t, next.After(time.Now()) && next.Before(time.Now().Add(25*time.Hour)))

	// The schedule is due: it creates one copy, named by the planned time, with the task's secrets and questions.
	planned := s.due(t, id, 0)
	dbtest.Await(t, 20*time.Second, "it fires", func() bool { return len(s.listed(t, "schedules/"+id+"/tasks")) == 1 })
	first := s.listed(t, "schedules/"+id+"/tasks")[0]
	require.Equal(t, strings.Repeat("夜", 47)+" "+cron.BeijingMinute(planned), first["task_name"])
	s.awaitDone(t, first["task_id"].(string))
	copied := s.entry(t, "GET", "evaluation-tasks/"+first["task_id"].(string), nil, 200)
	require.Equal(t, id, copied["schedule_id"])
	require.Equal(t, []any{channel}, copied["channels"])
	require.EqualValues(t, 10, copied["statistics"].(object)["succeeded"])
	require.Equal(t, "secret-header", fake.Calls()[15].Header.Get("X-Key"))
	require.Contains(t, string(s.get(t, "/tasks/"+first["task_id"].(string)+"/dataset").body), "id2,q2,b")
	again := s.entry(t, "GET", "schedules/"+id, nil, 200)
	require.Equal(t, saved["next_at"], again["next_at"], "the next time is the one that the clock says")
	require.Empty(t, hook.all())

	// At the second firing the answers differ and the metric is below the limit, which is announced once, on the
	// schedule's channel.
	s.due(t, id, 1)
	dbtest.Await(t, 20*time.Second, "it fires again", func() bool {
		return len(s.listed(t, "schedules/"+id+"/tasks")) == 2
	})
	var second object
	dbtest.Await(t, 30*time.Second, "the numbers are there", func() bool {
		for _, one := range s.listed(t, "schedules/"+id+"/tasks") {
			if one["task_id"] != first["task_id"] {
				second = one
			}
		}
		return len(second["variants"].([]any)) == 1
	})
	point := second["variants"].([]any)[0].(object)["points"].(object)["agreement"].(object)
	require.Less(t, point["value"], 0.9)
	require.Greater(t, point["value"], 0.4)
	require.NotNil(t, point["low"])
	dbtest.Await(t, 20*time.Second, "the alert is told", func() bool { return len(hook.all()) == 1 })
	alert := hook.all()[0]
	require.NoError(t, alert.err)
	require.Equal(t, "task.alert", alert.body["type"])
	found := alert.body["data"].(object)["alert"].(object)
	require.Equal(t, "agreement", found["metric"])
	require.Equal(t, point["value"], found["value"])
	require.EqualValues(t, 0.9, found["below"])
	dbtest.Hold(t, 3*time.Second, "it is told once", func() bool { return len(hook.all()) == 1 })

	// The page shows the trend, and which question changed.
	page := s.get(t, "/library/schedules/"+id).page(t)
	require.Equal(t, 2, page.Find(".trend").First().Find("circle").Length())
	require.Contains(t, page.Find(".plan").Text(), "每天 02:00")
	require.Equal(t, 1, page.Find(".shifts li").Length())
	require.Contains(t, page.Find(".shifts li").Text(), "q1")
	require.Equal(t, 2, page.Find("tbody tr").FilterFunction(func(_ int, row *goquery.Selection) bool {
		return strings.Contains(row.Text(), "已完成")
	}).Length())
}

// While the previous copy is running, a firing is skipped, and the page shows it.
func TestAScheduleWaitsForItsCopy(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	goOn := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { <-goOn; agenttest.Stream(w, "a") })
	var open sync.Once
	release := func() { open.Do(func() { close(goOn) }) }
	t.Cleanup(release)
	task := s.create(t, fake.URL, map[string]string{"start": "false"})
	id := s.schedule(t, "夜", task, nil)
	s.due(t, id, 2)
	dbtest.Await(t, 20*time.Second, "it fires", func() bool { return len(s.listed(t, "schedules/"+id+"/tasks")) == 1 })
	s.due(t, id, 1)
	dbtest.Await(t, 20*time.Second, "it is skipped", func() bool {
		return len(s.listed(t, "schedules/"+id+"/firings")) == 2
	})
	skipped := s.listed(t, "schedules/"+id+"/firings")[0]
	require.Equal(t, "SKIPPED", skipped["outcome"])
	require.Equal(t, "PREVIOUS_RUNNING", skipped["reason"])
	require.Nil(t, skipped["task_id"])
	require.Contains(t, s.get(t, "/library/schedules/"+id).page(t).Text(), "上一次还在运行")
	release()
}

// After a day without any process, the schedule fires once, late, and counts the firings that it missed.
func TestADayOfDowntimeIsOneFiring(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "a") })
	task := s.create(t, fake.URL, map[string]string{"start": "false"})
	id := s.schedule(t, "每小时", task, object{"cron": "0 * * * *", "is_enabled": false})
	s.entry(t, "PATCH", "schedules/"+id, object{"is_enabled": true}, 200)
	_, err := s.tables.Exec(`UPDATE schedules SET next_at = date_trunc('hour', now()) - interval '24 hours' WHERE id = $1`,
		id)
	require.NoError(t, err)
	dbtest.Await(t, 20*time.Second, "it fires", func() bool { return len(s.listed(t, "schedules/"+id+"/firings")) > 0 })
	dbtest.Hold(t, 3*time.Second, "once", func() bool { return len(s.listed(t, "schedules/"+id+"/firings")) == 1 })
	require.EqualValues(t, 24, s.listed(t, "schedules/"+id+"/firings")[0]["missed"])
	require.Contains(t, s.get(t, "/library/schedules/"+id).page(t).Text(), "期间错过 24 次")
}

// If a schedule's task is gone, its page shows it; a schedule that is disabled or archived does not fire.
func TestSchedulesThatCannotFire(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "a") })
	task := s.create(t, fake.URL, map[string]string{"start": "false"})
	kept := s.create(t, fake.URL, map[string]string{"start": "false"})
	orphan, resting := s.schedule(t, "孤", task, nil), s.schedule(t, "停", kept, object{"is_enabled": false})
	require.Nil(t, s.entry(t, "GET", "schedules/"+resting, nil, 200)["next_at"])
	require.Equal(t, http.StatusNoContent, s.delete(t, task).StatusCode)
	s.due(t, orphan, 0)
	s.due(t, resting, 0)
	dbtest.Await(t, 20*time.Second, "it fails", func() bool {
		return len(s.listed(t, "schedules/"+orphan+"/firings")) == 1
	})
	firing := s.listed(t, "schedules/"+orphan+"/firings")[0]
	require.Equal(t, "FAILED", firing["outcome"])
	require.Equal(t, "TASK_GONE", firing["reason"])
	require.Empty(t, s.listed(t, "schedules/"+resting+"/firings"))

	for field, body := range map[string]object{
		"task_id":  {"name": "x", "task_id": task, "cron": "0 2 * * *"},
		"cron":     {"name": "x", "task_id": kept, "cron": "soon"},
		"timezone": {"name": "x", "task_id": kept, "cron": "0 2 * * *", "timezone": "Mars/Olympus"},
		"alert.below": {"name": "x", "task_id": kept, "cron": "0 2 * * *",
			"alert": object{"metric": "latency_ms", "below": 0.5}},
		"channels": {"name": "x", "task_id": kept, "cron": "0 2 * * *", "channels": []string{kept}},
	} {
		refused := s.entry(t, "POST", "schedules", body, 422)
		require.Equal(t, field, refused["details"].([]any)[0].(object)["column"], refused)
	}
	wrong := s.entry(t, "POST", "schedules", object{"name": "x", "task_id": kept, "cron": "61 2 * * *"}, 422)
	require.Contains(t, wrong["message"], "第一段“分”不能是 61")
	require.Contains(t,
		string(s.post(t, "/library/schedules/times",
			map[string]string{"cron": "0 24 * * *", "timezone": "Asia/Shanghai"}).body), "第二段“时”不能是 24")
	require.Contains(t, s.post(t, "/library/schedules/times",
		map[string]string{"cron": "0 9 * * 7", "timezone": "Asia/Shanghai"}).page(t).Text(), "每周日 09:00")
	require.Contains(t, s.post(t, "/library/schedules/times",
		map[string]string{"cron": "30 9 * * 1-5", "timezone": "Asia/Shanghai"}).page(t).Text(), "周一至周五 09:30")
}

// A schedule's times must be as far apart as the operator requires, by whichever route it is saved; a schedule that
// fires too often can still be disabled.
func TestSchedulesAreNotTooFrequent(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	task := s.create(t, s.URL, map[string]string{"start": "false"})
	for _, cron := range []string{"* * * * *", "*/4 * * * *", "0,3 2 * * *", "59,0 * * * *", "1,59 0,23 * * *"} {
		refused := s.entry(t, "POST", "schedules", object{"name": "x", "task_id": task, "cron": cron}, 422)
		require.Equal(t, "cron", refused["details"].([]any)[0].(object)["column"], cron)
		require.Contains(t, refused["message"], "5 分钟", cron)
		require.Contains(t, s.post(t, "/library/schedules/times",
			map[string]string{"cron": cron, "timezone": "Asia/Shanghai"}).page(t).Text(), "5 分钟", cron)
		page := s.post(t, "/library/schedules", map[string]string{
			"name": "x", "task_id": task, "cron": cron, "timezone": "Asia/Shanghai", "is_enabled": "true",
		})
		require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode, cron)
	}
	id := s.schedule(t, "每五分钟", task, object{"cron": "*/5 * * * *"})
	s.entry(t, "PATCH", "schedules/"+id, object{"cron": "* * * * *"}, 422)
	s.tables.MustExec(`UPDATE schedules SET cron = '* * * * *' WHERE id = $1`, id) // saved by an older version
	s.entry(t, "PATCH", "schedules/"+id, object{"name": "每分钟"}, 422)
	s.entry(t, "PATCH", "schedules/"+id, object{"is_enabled": false}, 200)
	s.entry(t, "PATCH", "schedules/"+id, object{"is_enabled": true}, 422)
}

// askUntilServed posts a body with a token and, while the server replies that it is busy, retries as asked. It
// returns the status and the text of the reply, and may be called on any goroutine.
func (s *site) askUntilServed(t *testing.T, token, path string, body object) (status int, said string) {
	text, _ := json.Marshal(body)
	for {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, bytes.NewReader(text))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		read, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable {
			return answer.StatusCode, string(read)
		}
	}
}

// Regardless of the number of concurrent requests, a project has no more schedules, links, views and tokens than its
// caps allow; those that have ended do not count.
func TestAProjectHasSoManyOfEach(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	admin := s.token(t, people.Admin, db.DefaultProject, nil)
	other := s.project(t, "另一个")
	elsewhere := s.token(t, people.Admin, other, nil)
	task := dbtest.Seed(t, s.tables, 1, 1, 1).String()
	s.tables.MustExec(`
		INSERT INTO schedules (id, name, task_id, cron, timezone, is_enabled, alerts_worse, project_id)
		SELECT gen_random_uuid(), 'old ' || n, $1, '0 2 * * *', 'UTC', false, false, $2
		FROM generate_series(1, 98) n`, task, db.DefaultProject)
	s.tables.MustExec(`
		INSERT INTO shares (id, task_id, hash, created_by, expires_at)
		SELECT gen_random_uuid(), $1, decode(md5('share' || n), 'hex'), 'x', now() + interval '1 day'
		FROM generate_series(1, 198) n`, task)
	s.tables.MustExec(`
		INSERT INTO tokens (id, name, hash, hint, project_id, role)
		SELECT gen_random_uuid(), 'old ' || n, decode(md5('token' || n), 'hex'), 'abcd', $1, 'viewer'
		FROM generate_series(1, 97) n`, db.DefaultProject)
	s.tables.MustExec(`
		INSERT INTO saved_views (id, project_id, kind, name, query, created_by)
		SELECT gen_random_uuid(), $1, 'questions', 'old ' || n, 'filter=failed', 'x'
		FROM generate_series(1, 98) n`, db.DefaultProject)
	for path, body := range map[string]func(int) object{
		"schedules": func(n int) object {
			return object{"name": fmt.Sprint("new ", n), "task_id": task, "cron": "0 2 * * *", "is_enabled": false}
		},
		"shares": func(int) object { return object{"task_id": task} },
		"tokens": func(n int) object { return object{"name": fmt.Sprint("new ", n), "role": "viewer"} },
		"views": func(n int) object {
			return object{"name": fmt.Sprint("new ", n), "kind": "tasks", "query": "status=FAILED"}
		},
	} {
		var made, refused atomic.Int64
		var all sync.WaitGroup
		for n := range 10 {
			all.Go(func() {
				status, said := s.askUntilServed(t, admin, "/api/v1/"+path, body(n))
				switch {
				case status == http.StatusCreated:
					made.Add(1)
				case status == http.StatusTooManyRequests && strings.Contains(said, "上限"):
					refused.Add(1)
				default:
					t.Errorf("%s: %d %s", path, status, said)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 2, made.Load(), path)
		require.EqualValues(t, 8, refused.Load(), path)
	}
	s.made(t, elsewhere, "/api/v1/tokens", object{"name": "another project's", "role": "viewer"})

	s.tables.MustExec(`UPDATE tokens SET revoked_at = now() WHERE name = 'old 1'`)
	s.made(t, admin, "/api/v1/tokens", object{"name": "there is room", "role": "viewer"})
	s.tables.MustExec(`UPDATE shares SET expires_at = now() WHERE hash = decode(md5('share1'), 'hex')`)
	s.ask(t, admin, http.MethodPost, "/api/v1/shares", object{"task_id": task}).mustBe(t, http.StatusCreated)
	s.tables.MustExec(`UPDATE schedules SET archived_at = now() WHERE name = 'old 1'`)
	made := s.made(t, admin, "/api/v1/schedules", object{
		"name": "there is room", "task_id": task, "cron": "0 2 * * *", "is_enabled": false,
	})
	var archived string
	require.NoError(t, s.tables.Get(&archived, `SELECT id FROM schedules WHERE archived_at IS NOT NULL`))
	restore := func() int {
		request := s.form(t, "/library/schedules/"+archived+"/restore", nil)
		request.Header.Set("Authorization", "Bearer "+admin)
		return s.do(t, request).StatusCode
	}
	require.Equal(t, http.StatusTooManyRequests, restore(), "it counts again")
	s.ask(t, admin, http.MethodDelete, "/api/v1/schedules/"+made, nil).mustBe(t, http.StatusNoContent)
	require.Equal(t, http.StatusSeeOther, restore())
}

// Any two firings of a schedule can be compared, on its page and through the API, in either order.
func TestAnyTwoFiringsCanBeCompared(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	dbtest.Seed(t, s.tables, 3, 2, 10)
	var tasks []string // oldest first
	require.NoError(t, s.tables.Select(&tasks, `SELECT id FROM evaluation_tasks ORDER BY created_at`))
	s.tables.MustExec(
		`UPDATE evaluation_runs SET status = 'SUCCEEDED', error_code = NULL, answer_key = decode(md5('same'), 'hex')`)
	id := s.schedule(t, "夜", tasks[0], object{"is_enabled": false})
	days := map[string]string{}
	for n, task := range tasks {
		said := "答复期限为 30 日。"
		if n == 1 {
			said = "答复期限为 35 日。"
		}
		s.tables.MustExec(`
			UPDATE evaluation_runs r SET response_body = $2, answer_key = decode(md5($2), 'hex') FROM evaluation_items i
			WHERE i.id = r.item_id AND i.question_id = 'q0001' AND r.task_id = $1`, task, said)
		s.tables.MustExec(`
			INSERT INTO firings (schedule_id, planned_at, outcome, missed, task_id, summary)
			VALUES ($1, '2026-11-20 02:00+08'::timestamptz + $2 * interval '1 day', 'STARTED', 0, $3,
			'{"variants":[{"number":1,"name":"","points":{"agreement":{"value":1}}}]}')`, id, n, task)
		days[task] = fmt.Sprintf("2026-11-%d 02:00", 20+n)
	}

	s.tables.MustExec(`
		INSERT INTO question_statistics (item_id, variant, newest_run_id, runs, level, agreement, consensus, similarity,
		answers, letters, differences)
		SELECT item_id, 1, max(id), 10, 'identical', 1, 1, 1, 1, 'AAAAAAAAAA', '' FROM evaluation_runs GROUP BY item_id`)

	type changes struct{ before, now, changed, fact string }
	read := func(query string) (found changes) {
		body := s.entry(t, "GET", "schedules/"+id+"/changes"+query, nil, 200)
		found.before, found.now = body["before"].(object)["task_id"].(string), body["now"].(object)["task_id"].(string)
		for _, item := range body["items"].([]any) {
			require.Equal(t, "answers", item.(object)["by"])
			found.changed += item.(object)["question_id"].(string)
		}
		facts := body["facts_changed"].(object)
		require.Equal(t, found.before, facts["since"])
		require.Equal(t, facts["pairs"], facts["compared"])
		for _, item := range facts["items"].([]any) {
			found.fact += item.(object)["before"].(string) + item.(object)["now"].(string)
		}
		page := s.get(t, "/library/schedules/"+id+query).page(t)
		require.Equal(t, days[found.before], page.Find("[name=since] option[selected]").Text(), query)
		require.Equal(t, days[found.now], page.Find("[name=at] option[selected]").Text(), query)
		require.Equal(t, 3, page.Find("[name=at] option").Length())
		isChanged := strings.Contains(page.Find("#changes").Text(), "question 1")
		require.Equal(t, found.changed != "", isChanged, query)
		require.Equal(t, found.fact != "", strings.Contains(page.Find("#changes .fact-line").Text(), "35 日"), query)
		return found
	}
	require.Equal(t, changes{tasks[1], tasks[2], "q0001", "35 日30 日"}, read(""), "the newest with the one before")
	require.Equal(t, changes{tasks[0], tasks[2], "", ""}, read("?since="+tasks[0]))
	require.Equal(t, changes{tasks[0], tasks[1], "q0001", "30 日35 日"}, read("?at="+tasks[1]))
	require.Equal(t, changes{tasks[0], tasks[1], "q0001", "30 日35 日"}, read("?since="+tasks[1]+"&at="+tasks[0]),
		"in the order of time")

	for query, parameter := range map[string]string{
		"?since=" + id: "since", "?at=x": "at", "?at=" + id + "&since=" + tasks[0]: "at",
		"?since=" + tasks[1] + "&at=" + tasks[1]: "since", "?since=" + tasks[2]: "since",
	} {
		refused := s.entry(t, "GET", "schedules/"+id+"/changes"+query, nil, 422)
		require.Contains(t, refused["message"], parameter, query)
		page := s.get(t, "/library/schedules/"+id+query)
		require.Equal(t, http.StatusSeeOther, page.StatusCode, query)
		require.Contains(t, page.Header.Get("Location"), "left_out="+parameter, query)
	}
	first := s.entry(t, "GET", "schedules/"+s.schedule(t, "空", tasks[0], object{"is_enabled": false})+"/changes", nil, 200)
	require.Nil(t, first["before"])
	require.Empty(t, first["items"])
}
