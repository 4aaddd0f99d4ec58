package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// of returns the bodies of all messages of a type that a webhook received.
func (r *receiver) of(t *testing.T, kind string) (bodies []object) {
	t.Helper()
	for _, call := range r.all() {
		require.NoError(t, call.err)
		if call.body["type"] == kind {
			bodies = append(bodies, call.body["data"].(object))
		}
	}
	return bodies
}

// nights simulates a model whose answers to each question fail at the rate that the test sets for the night.
type nights struct {
	mu     sync.Mutex
	faults map[string]int
}

func (n *nights) begin(faults map[string]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = faults
}

func (n *nights) answer(question string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if left := n.faults[question]; left > 0 {
		n.faults[question]--
		return fmt.Sprint("wrong ", left)
	}
	return "right"
}

// fire makes a schedule due, waits until the copy's numbers are stored, and returns the webhook's message about the
// copy's end.
func (s *site) fire(t *testing.T, schedule string, hook *receiver) object {
	t.Helper()
	before := len(hook.of(t, "task.finished"))
	s.due(t, schedule, 60-10*before) // later than the previous time
	dbtest.Await(t, 60*time.Second, "the night is told", func() bool {
		return len(hook.of(t, "task.finished")) == before+1
	})
	dbtest.Await(t, 60*time.Second, "the night is summed up", func() bool {
		var open int
		require.NoError(t, s.tables.Get(&open, `SELECT count(*) FROM firings WHERE summary IS NULL`))
		return open == 0
	})
	return hook.of(t, "task.finished")[before]
}

// A night counts as worse only if the tests of metrics.md show a decline of any variant, as the schedule's page
// explains; one run of five is not enough. All findings form one alert.
func TestANightIsWorseOnlyBeyondChance(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	channel := s.channel(t, "hook", hook.URL, object{"events": []string{"finished", "alert"}})
	chat := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"code":0}`))
	}))
	card := s.entry(t, "POST", "channels", object{"name": "card", "kind": "feishu", "url": chat,
		"events": []string{"finished"}}, 201)["id"].(string)
	isRed := func() bool {
		var body string
		dbtest.Await(t, 20*time.Second, "the card is sent", func() bool {
			return s.tables.Get(&body,
				`SELECT convert_from(body, 'UTF8') FROM deliveries WHERE channel_id = $1 AND state = 'SENT' ORDER BY id DESC LIMIT 1`, card) == nil
		})
		return strings.Contains(body, `"template":"red"`)
	}
	second := &nights{}
	steady, unsteady := agenttest.New(t, chatting(func(string) string {
		return "right"
	})), agenttest.New(t, chatting(second.answer))
	first, _ := s.chatTarget(t, "steady", steady.URL)
	other, _ := s.chatTarget(t, "unsteady", unsteady.URL)
	rule := s.evaluator(t, "规则", "contains", object{"values": []string{"right"}})
	saved := object{}
	rows := "question_id,question,standard_answer\nid1,q1,a\nid2,q2,a\nid3,q3,a\nid4,q4,a\n"
	s.post(t, libraryAPI+"datasets", map[string]string{"name": "题库", "file@q.csv": rows}).into(t, &saved)
	task := s.entry(t, "POST", "evaluation-tasks", object{
		"task_name": "对比", "dataset": saved["id"], "models": []string{first, other}, "evaluators": []string{rule},
		"runs_per_item": 5, "concurrency": 4, "start": false,
	}, 201)["task_id"].(string)
	schedule := s.schedule(t, "夜", task, object{"channels": []string{channel, card},
		"alert": object{"metric": "pass_rate", "below": 0.9, "if_worse": true}})
	page := "/library/schedules/" + schedule

	second.begin(nil)
	require.Empty(t, s.fire(t, schedule, hook)["worse"])
	second.begin(map[string]int{"q1": 1})
	require.Empty(t, s.fire(t, schedule, hook)["worse"], "one run of five")
	require.Empty(t, hook.of(t, "task.alert"))
	require.False(t, isRed())
	require.Zero(t, s.get(t, page).page(t).Find(".shifts li").Length(), "the page agrees")
	require.Contains(t, s.get(t, page).page(t).Find("#changes").Text(), "看不出哪道题有变化")

	second.begin(map[string]int{"q1": 5, "q2": 5, "q3": 5, "q4": 4})
	night := s.fire(t, schedule, hook)
	require.Len(t, night["worse"], 4)
	require.Contains(t, night["worse"].([]any)[0], "unsteady", "of all variants")
	require.Contains(t, night["worse"].([]any)[0], "→ 0.0%")
	require.Len(t, s.deliveries(t, card), 3)
	dbtest.Await(t, 20*time.Second, "the card is red", isRed)
	shifts := s.get(t, page).page(t).Find(".shifts li")
	require.Equal(t, 4, shifts.Length(), "the page agrees")
	require.Contains(t, shifts.First().Text(), "unsteady")
	dbtest.Await(t, 20*time.Second, "the alert is told", func() bool { return len(hook.of(t, "task.alert")) > 0 })
	dbtest.Hold(t, 3*time.Second, "once", func() bool { return len(hook.of(t, "task.alert")) == 1 })
	alert := hook.of(t, "task.alert")[0]["alert"].(object)
	require.Len(t, alert["findings"], 1, "the steady variant is not part of it")
	require.Contains(t, alert["variant"], "unsteady")
	require.EqualValues(t, 0.9, alert["below"])
	require.InDelta(t, 0.975, alert["baseline"], 1e-9)
	require.EqualValues(t, 2, alert["firings"])
	require.Less(t, alert["p_adjusted"], 0.05)
	require.InDelta(t, 0.05, alert["value"], 1e-9)

	// The page marks the firing with the alert, and shows the changes at any other selected firing.
	shown := s.get(t, page).page(t)
	require.Equal(t, 1, shown.Find("svg .alarm").Length())
	require.Equal(t, 1, shown.Find("svg .limit").Length())
	require.Contains(t, shown.Find("tbody tr").First().Text(), "已告警")
	require.Regexp(t, `\d\d-\d\d \d\d:\d\d`, shown.Find(".trend .axis").Text(), "minutes apart")
	require.Equal(t, 3, shown.Find("tbody a[href*='at=']").Length())
	require.Equal(t, "定时设置", strings.TrimSpace(shown.Find("details.edit summary").Text()))
	earlier, _ := shown.Find("tbody tr").Eq(1).Find("a[href*='at=']").Attr("href")
	require.Zero(t, s.get(t, earlier).page(t).Find(".shifts li").Length())
}

// Without evaluators, the answers themselves are tested.
func TestAnswersThatChangedAreWorseBeyondChance(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	channel := s.channel(t, "hook", hook.URL, object{"events": []string{"finished"}})
	model := &nights{}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, model.answer(call.Question))
	})
	task := s.create(t, fake.URL, map[string]string{"start": "false", "runs_per_item": "5",
		"file@q.csv": "question_id,question,standard_answer\nid1,q1,a\nid2,q2,b\nid3,q3,b\n"})
	schedule := s.schedule(t, "夜", task, object{"channels": []string{channel}})
	model.begin(nil)
	s.fire(t, schedule, hook)
	model.begin(map[string]int{"q1": 1})
	require.Empty(t, s.fire(t, schedule, hook)["worse"])
	model.begin(map[string]int{"q2": 5})
	worse := s.fire(t, schedule, hook)["worse"].([]any)
	require.Len(t, worse, 1)
	require.Contains(t, worse[0], "id2：一致率 100.0% → 0.0%")
}

// A receiver of results gets all of them, with the verdicts of judges, before the message about the end; a batch that
// the receiver rejects does not delay that message.
func TestResultsComeBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	judged := make(chan struct{})
	judging := agenttest.New(t, chatting(func(string) string { <-judged; return `{"overall": 90, "reason": "right"}` }))
	var open sync.Once
	release := func() { open.Do(func() { close(judged) }) }
	t.Cleanup(release)
	model, _ := s.chatTarget(t, "judge", judging.URL)
	judge := s.evaluator(t, "打分", "judge", object{"model_id": model, "dimensions": []string{"overall"}})
	hook := newReceiver(t, always(200))
	faulty := newReceiver(t, func(n int) int {
		if n == 1 { // the first batch, which is retried a second later
			return 500
		}
		return 200
	})
	events := object{"events": []string{"result", "finished"}}
	channels := s.channel(t, "good", hook.URL, events) + "," + s.channel(t, "faulty", faulty.URL, events)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, "答 "+call.Question) })
	var rows strings.Builder
	for n := 1; n <= 30; n++ {
		fmt.Fprintf(&rows, "q%d,a\n", n)
	}
	created := s.post(t, api, map[string]string{
		"task_name": "打分", "agent_api_url": fake.URL, "evaluators": judge, "runs_per_item": "4", "rate_limit": "unlimited",
		"concurrency": "4",
		"channels":    channels, "file@q.csv": "question,standard_answer\n" + rows.String(),
	})
	require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
	var task struct {
		TaskID string `json:"task_id"`
	}
	created.into(t, &task)
	dbtest.Await(t, 30*time.Second, "answers wait for the judge", func() bool { return len(judging.Calls()) > 0 })
	dbtest.Hold(t, 3*time.Second, "nothing is pushed without its verdict", func() bool { return len(hook.all()) == 0 })
	release()
	s.awaitDone(t, task.TaskID)
	for _, receiver := range []*receiver{hook, faulty} {
		dbtest.Await(t, 40*time.Second, "the end is told", func() bool { return len(receiver.of(t, "task.finished")) == 1 })
	}
	runs := map[any]bool{}
	for _, call := range hook.all() {
		require.Empty(t, hook.of(t, "task.finished")[0]["runs"])
		if call.body["type"] == "task.finished" {
			require.Len(t, runs, 120, "all results came before")
			continue
		}
		for _, one := range call.body["data"].(object)["runs"].([]any) {
			run := one.(object)
			runs[run["run_id"]] = true
			require.Equal(t, true, run["passed"])
			require.Len(t, run["evaluations"], 1)
		}
	}
	require.Len(t, runs, 120)
	stats := hook.of(t, "task.finished")[0]["stats"].(object)
	require.EqualValues(t, 1, stats["pass_rate"])
	require.EqualValues(t, 120, stats["passes"])
	require.EqualValues(t, 0, stats["failures"])
	require.InDelta(t, 0.9, stats["score_mean"], 1e-9)
	of := s.entry(t, "GET", "evaluation-tasks/"+task.TaskID, nil, 200)["statistics"].(object)
	for _, name := range []string{"pass_rate", "passes", "failures", "score_mean"} {
		require.EqualValues(t, stats[name], of[name], name)
	}
}

// The message about a comparison states the total cost and, if the data show a winner, the winning variant and its
// lead.
func TestAComparisonsMessageNamesTheWinner(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	channel := s.channel(t, "hook", hook.URL, nil)
	var models []string
	for name, script := range map[string]func(string) string{
		"good": func(string) string { return "right" },
		"bad": func(question string) string {
			if question == "q1" || question == "q2" {
				return "right"
			}
			return "wrong"
		},
	} {
		model, _ := s.chatTarget(t, name, agenttest.New(t, chatting(script)).URL)
		s.entry(t, "PATCH", "models/"+model, object{"input_price": "100", "output_price": "100", "currency": "CNY"}, 200)
		models = append(models, model)
	}
	rule := s.evaluator(t, "规则", "contains", object{"values": []string{"right"}})
	finish := func(models ...string) object {
		before := len(hook.of(t, "task.finished"))
		created := s.post(t, api, map[string]string{
			"task_name": "比", "models": strings.Join(models, ","), "evaluators": rule, "runs_per_item": "2", "channels": channel,
			"file@q.csv": "question,standard_answer\nq1,a\nq2,a\nq3,a\nq4,a\nq5,a\nq6,a\nq7,a\nq8,a\n",
		})
		require.Equal(t, http.StatusCreated, created.StatusCode, string(created.body))
		dbtest.Await(t, 60*time.Second, "it is told", func() bool { return len(hook.of(t, "task.finished")) == before+1 })
		return hook.of(t, "task.finished")[before]
	}
	won := finish(models...)["winner"].(object)
	require.Contains(t, won["name"], "good")
	require.InDelta(t, 0.75, won["difference"], 1e-9)
	require.Less(t, won["p_adjusted"], 0.05)
	require.Len(t, won["interval"], 2)
	same := finish(models[0], models[0])
	require.Nil(t, same["winner"], "the same twice")
	stats := same["stats"].(object)
	require.Equal(t, "0.176", stats["cost"]) // 2 · 8 · 2 calls of 55 tokens at 100 per million
	require.NotNil(t, stats["variants"].([]any)[0].(object)["score_mean"])
}

// Facts that changed between two nights are reported by message, webhook, API and page; changes of wording alone are
// not.
func TestChangedFactsOfANightAreTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	chat := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	channel := s.channel(t, "hook", hook.URL, object{"events": []string{"finished"}})
	card := s.entry(t, "POST", "channels", object{"name": "card", "kind": "slack", "url": chat,
		"events": []string{"finished"}, "lang": "en"}, 201)["id"].(string)
	var night atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		answers := map[string][]string{
			"q1": {"收到申请后 30 日内书面答复。费用 20 元。", "收到申请后 30 日内书面答复。费用 20 元。", "收到申请后 35 日内书面答复。费用 20 元。"},
			"q2": {"请携带身份证原件到窗口办理。", "到窗口办理时，请带上身份证原件。", "请携带身份证原件到窗口办理。"},
		}
		agenttest.Stream(w, answers[call.Question][night.Load()])
	})
	task := s.create(t, fake.URL, map[string]string{"start": "false", "runs_per_item": "2",
		"file@q.csv": "question_id,question,standard_answer\nid1,q1,a\nid2,q2,b\n"})
	schedule := s.schedule(t, "夜", task, object{"channels": []string{channel, card}})
	require.Nil(t, s.fire(t, schedule, hook)["facts_changed"], "there is nothing to compare with")
	night.Store(1)
	require.EqualValues(t, 0, s.fire(t, schedule, hook)["facts_changed"].(object)["questions"], "other words")
	night.Store(2)
	changed := s.fire(t, schedule, hook)["facts_changed"].(object)
	require.EqualValues(t, 1, changed["questions"])
	require.EqualValues(t, 2, changed["compared"])
	one := changed["items"].([]any)[0].(object)
	require.Equal(t, []any{"id1", "30 日", "35 日", "duration"},
		[]any{one["question_id"], one["before"], one["now"], one["kind"]})
	dbtest.Await(t, 20*time.Second, "people are told", func() bool {
		var told int
		require.NoError(t, s.tables.Get(&told, `
			SELECT count(*) FROM deliveries WHERE channel_id = $1 AND state = 'SENT'
			AND convert_from(body, 'UTF8') LIKE '%#changes|in 1 question_u003e; id1: 30 日 → 35 日%'`, card))
		return told == 1
	})
	stored := s.listed(t, "schedules/"+schedule+"/tasks")
	require.Equal(t, changed, stored[0]["facts_changed"])
	require.Nil(t, stored[2]["facts_changed"])
	page := s.get(t, "/library/schedules/"+schedule).page(t)
	require.Contains(t, page.Find("tbody tr").First().Text(), "1 题的关键信息变了")
	facts := page.Find("tbody tr").First().Find(".error-text a")
	require.Contains(t, s.get(t, facts.AttrOr("href", "")).page(t).Find("#changes").Text(), facts.Text(),
		"the number leads to the questions")
	values := page.Find("tbody td.number a.value")
	require.GreaterOrEqual(t, values.Length(), 6, "three nights, each with agreement and success at least")
	values.Each(func(_ int, value *goquery.Selection) {
		require.Equal(t, http.StatusOK, s.get(t, value.AttrOr("href", "")).StatusCode, value.Text())
	})
	require.Contains(t, page.Find("#changes .fact-line").Text(), "30 日 → 35 日")
	for _, at := range []string{"none", uuid.NewString(), task} { // task is the original of the copies
		_, left := s.nearest(t, "/library/schedules/"+schedule+"?at="+at)
		require.Contains(t, left, "at="+at, "no firing of this schedule")
	}
}

// A metric whose level has changed is announced once per excursion, even by a schedule without its own alerts: in
// chats, webhooks, the API and on the page. It is not announced again if a firing's failed runs are retried.
func TestANumberThatLeavesItsLimitsIsTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	chat := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	channel := s.channel(t, "hook", hook.URL, object{"events": []string{"finished", "alert"}})
	card := s.entry(t, "POST", "channels", object{"name": "card", "kind": "slack", "url": chat,
		"events": []string{"alert"}, "lang": "en"}, 201)["id"].(string)
	model := &nights{}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, model.answer(call.Question))
	})
	task := s.create(t, fake.URL, map[string]string{"start": "false", "runs_per_item": "5",
		"file@q.csv": "question,standard_answer\nq1,a\nq2,b\nq3,c\nq4,d\n"})
	schedule := s.schedule(t, "夜", task, object{"channels": []string{channel, card}})
	s.fire(t, schedule, hook)
	s.tables.MustExec(`
		INSERT INTO firings (schedule_id, planned_at, outcome, missed, launch_id, summary)
		SELECT schedule_id, planned_at - n * interval '1 day', 'STARTED', 0, launch_id,
		jsonb_set(summary::jsonb, '{variants,0,points}', jsonb_build_object(
			'agreement', jsonb_build_object('value', 0.99 + 0.01 * (n % 2), 'low', null, 'high', null, 'se', 0.01)))
		FROM firings, generate_series(1, 12) n`)
	require.Empty(t, s.fire(t, schedule, hook)["worse"])
	require.Empty(t, hook.of(t, "task.alert"), "within the limits")

	all := map[string]int{"q1": 5, "q2": 5, "q3": 5, "q4": 5}
	model.begin(all)
	s.fire(t, schedule, hook)
	dbtest.Await(t, 20*time.Second, "it is told", func() bool { return len(hook.of(t, "task.alert")) == 1 })
	told := hook.of(t, "task.alert")[0]
	alert := told["alert"].(object)
	require.Equal(t, []any{schedule, "夜", "agreement"},
		[]any{alert["schedule_id"], alert["schedule_name"], alert["metric"]})
	require.EqualValues(t, 0, alert["value"])
	require.Empty(t, alert["findings"])
	require.Len(t, alert["drifts"], 1)
	drift := alert["drifts"].([]any)[0].(object)
	require.Equal(t, []any{"agreement", true}, []any{drift["metric"], drift["is_worse"]})
	require.Less(t, drift["average"], drift["low"])
	stored := s.listed(t, "schedules/"+schedule+"/tasks")
	require.Equal(t, stored[0]["task_id"], told["task_id"])
	require.Equal(t, []any{drift}, stored[0]["drifts"])
	require.Empty(t, stored[1]["drifts"])
	var body string
	dbtest.Await(t, 20*time.Second, "people are told", func() bool {
		return s.tables.Get(&body,
			`SELECT convert_from(body, 'UTF8') FROM deliveries WHERE channel_id = $1 AND state = 'SENT'`, card) == nil
	})
	require.Contains(t, body, "/results?sort=agreement|0.0% this time; its moving average of ")
	require.Contains(t, body, "/library/schedules/"+schedule)
	require.Contains(t, body, "/tasks/"+told["task_id"].(string))
	page := s.get(t, "/library/schedules/"+schedule).page(t)
	require.Equal(t, 1, page.Find("svg .alarm.drift").Length())
	said := page.Find("tbody tr").First().Find(".error-text a")
	require.Regexp(t, `一致率 · 移动平均 [\d.]+% 越过下限 [\d.]+%`, said.Text())
	require.Equal(t, "/tasks/"+told["task_id"].(string)+"/results?sort=agreement", said.AttrOr("href", ""))

	model.begin(all)
	s.fire(t, schedule, hook)
	s.tables.MustExec(`UPDATE firings SET launch_id = NULL WHERE task_id = $1`, told["task_id"]) // as a later launch does
	dbtest.Await(t, 60*time.Second, "it is summed up again", func() bool {
		var open int
		require.NoError(t, s.tables.Get(&open, `SELECT count(*) FROM firings WHERE launch_id IS NULL`))
		return open == 0
	})
	dbtest.Hold(t, 3*time.Second, "once", func() bool { return len(hook.of(t, "task.alert")) == 1 })
	require.Equal(t, []any{drift}, s.listed(t, "schedules/"+schedule+"/tasks")[1]["drifts"])
}
