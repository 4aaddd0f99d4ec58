package handlers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver records the messages sent to a webhook, and responds as the test specifies.
type receiver struct {
	URL    string
	mu     sync.Mutex
	calls  []received
	answer func(n int) int // the status for call n, from 1
}

type received struct {
	id   string
	at   time.Time
	body object
	err  error
}

func newReceiver(t *testing.T, answer func(n int) int) *receiver {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(hookSecret)
	require.NoError(t, err)
	r := &receiver{answer: answer}
	r.URL = serve(t, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		call := received{id: request.Header.Get("webhook-id"), at: time.Now(), err: err}
		if call.err == nil {
			call.err = verifier.Verify(body, request.Header)
		}
		if call.err == nil {
			call.err = json.Unmarshal(body, &call.body)
		}
		r.mu.Lock()
		r.calls = append(r.calls, call)
		n := len(r.calls)
		r.mu.Unlock()
		w.WriteHeader(r.answer(n))
	}))
	return r
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received{}, r.calls...)
}

func always(status int) func(int) int { return func(int) int { return status } }

// channel saves a webhook and returns its id.
func (s *site) channel(t *testing.T, name, url string, more object) string {
	t.Helper()
	body := object{"name": name, "kind": "webhook", "url": url, "secret": hookSecret}
	for key, value := range more {
		body[key] = value
	}
	return s.entry(t, "POST", "channels", body, 201)["id"].(string)
}

func (s *site) deliveries(t *testing.T, channel string) (found []object) {
	t.Helper()
	for _, one := range s.entry(t, "GET", "channels/"+channel+"/deliveries", nil, 200)["items"].([]any) {
		found = append(found, one.(object))
	}
	return found
}

func TestAChannelIsSavedWithoutShowingItsSecrets(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	saved := s.entry(t, "POST", "channels", object{
		"name": "群", "kind": "dingtalk", "url": "http://127.0.0.1:9/robot/send?access_token=verysecrettoken",
		"secret": "SECverysecret", "is_default": true,
	}, 201)
	require.Equal(t, "http://127.0.0.1:9/…", saved["url"])
	require.Equal(t, true, saved["has_secret"])
	require.Equal(t, []any{"finished", "failed", "stopped", "alert"}, saved["events"])
	require.Equal(t, "zh-CN", saved["lang"])
	id := saved["id"].(string)
	page := s.get(t, "/library/channels/"+id)
	for _, place := range []string{string(page.body), string(s.get(t, "/api/v1/channels").body), s.told.String()} {
		require.NotContains(t, place, "verysecret")
	}
	var plain int
	require.NoError(t, s.tables.Get(&plain,
		`SELECT count(*) FROM channels WHERE strpos(CAST(channels AS text), 'verysecret') > 0`))
	require.Zero(t, plain)

	// A secret that the page does not show is kept, but it is not sent to another host.
	kept := s.post(t, "/library/channels/"+id, map[string]string{
		"kind": "dingtalk", "name": "群二", "url": "", "secret": "", "events": "alert", "is_default": "false",
	})
	require.Equal(t, http.StatusSeeOther, kept.StatusCode, string(kept.body))
	after := s.entry(t, "GET", "channels/"+id, nil, 200)
	require.Equal(t, "群二", after["name"])
	require.Equal(t, true, after["has_secret"])
	require.Equal(t, false, after["is_default"])
	moved := s.entry(t, "PATCH", "channels/"+id, object{"url": "http://127.0.0.1:10/robot"}, 200)
	require.Equal(t, false, moved["has_secret"])

	for field, body := range map[string]object{
		"kind":   {"name": "x", "kind": "pigeon"},
		"url":    {"name": "x", "kind": "slack"},
		"secret": {"name": "x", "kind": "webhook", "url": "http://127.0.0.1:9/", "secret": "short"},
		"events": {"name": "x", "kind": "slack", "url": "http://127.0.0.1:9/", "events": []string{"birthday"}},
		"to":     {"name": "x", "kind": "email", "to": "nobody"},
		"lang":   {"name": "x", "kind": "slack", "url": "http://127.0.0.1:9/", "lang": "fr"},
	} {
		refused := s.entry(t, "POST", "channels", body, 422)
		require.Equal(t, field, refused["details"].([]any)[0].(object)["column"], refused)
	}
	require.Equal(t, []any{"a@b.cn", "c@d.cn"},
		s.entry(t, "POST", "channels", object{"name": "信", "kind": "email", "to": []string{"a@b.cn", "c@d.cn"}}, 201)["to"])
}

func TestAChannelIsToldOnceHowATaskEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, func(n int) int {
		if n <= 2 {
			return 500
		}
		return 204
	})
	told := s.channel(t, "told", hook.URL, object{"is_default": true})
	silent := s.channel(t, "silent", hook.URL, object{"events": []string{"failed"}, "is_default": true})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, "答") })
	id := s.create(t, fake.URL, map[string]string{"task_name": "夜间"})
	require.ElementsMatch(t, []any{told, silent}, s.entry(t, "GET", "evaluation-tasks/"+id, nil, 200)["channels"])
	s.awaitDone(t, id)
	dbtest.Await(t, 30*time.Second, "the third attempt is taken", func() bool {
		found := s.deliveries(t, told)
		return len(found) == 1 && found[0]["status"] == "SENT"
	})
	calls := hook.all()
	require.Len(t, calls, 3)
	for _, call := range calls {
		require.NoError(t, call.err)
		require.Equal(t, calls[0].id, call.id, "the id never changes")
		require.Equal(t, calls[0].body, call.body)
	}
	require.GreaterOrEqual(t, calls[1].at.Sub(calls[0].at), time.Second)
	require.GreaterOrEqual(t, calls[2].at.Sub(calls[1].at), 5*time.Second)
	require.Equal(t, "task.finished", calls[0].body["type"])
	data := calls[0].body["data"].(object)
	require.Equal(t, id, data["task_id"])
	require.Equal(t, "夜间", data["task_name"])
	require.Equal(t, "SUCCEEDED", data["status"])
	require.Equal(t, "https://wending.example/tasks/"+id, data["url"])
	require.EqualValues(t, data["stats"].(object)["runs_expected"], data["stats"].(object)["succeeded"])
	require.Empty(t, s.deliveries(t, silent))
	delivery := s.deliveries(t, told)[0]
	require.EqualValues(t, 3, delivery["attempts"])
	require.Equal(t, calls[0].id, delivery["webhook_id"])

	// A message that is sent again keeps its id.
	s.entry(t, "POST", fmt.Sprintf("channels/%s/deliveries/%v/send", told, delivery["id"]), nil, 202)
	dbtest.Await(t, 20*time.Second, "it is sent again", func() bool { return len(hook.all()) == 4 })
	require.Equal(t, calls[0].id, hook.all()[3].id)
	require.Contains(t, string(s.get(t, "/library/channels/"+told).body), "夜间")
}

// A receiver that no longer exists gets no further attempts. A message to one that is down is tried again after an
// hour, and given up after a day, by the database's clock.
func TestReceiversThatAreDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var status sync.Map
	status.Store("now", 503)
	down := newReceiver(t, func(int) int { code, _ := status.Load("now"); return code.(int) })
	gone := newReceiver(t, always(410))
	downID, goneID := s.channel(t, "down", down.URL, object{"is_default": true}),
		s.channel(t, "gone", gone.URL, object{"is_default": true})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "a") })
	id := s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	dbtest.Await(t, 20*time.Second, "gone is given up", func() bool {
		found := s.deliveries(t, goneID)
		return len(found) == 1 && found[0]["status"] == "FAILED"
	})
	require.Len(t, gone.all(), 1)
	require.Contains(t, s.deliveries(t, goneID)[0]["error"], "HTTP 410")
	dbtest.Await(t, 20*time.Second, "down was tried", func() bool { return len(down.all()) >= 2 })

	// The page of the task's settings shows the state of each message, and can send it again.
	told := s.get(t, "/tasks/"+id+"/settings").page(t).Find("#deliveries tbody tr")
	require.Equal(t, 2, told.Length())
	failed := told.FilterFunction(func(_ int, row *goquery.Selection) bool {
		return row.Find("td").Eq(1).Text() == "gone"
	})
	require.Contains(t, failed.Text(), "未送达")
	require.Contains(t, failed.Text(), "HTTP 410")
	require.Contains(t, failed.Text(), "完成")
	again := s.post(t, failed.Find("form").AttrOr("action", ""),
		map[string]string{"task": failed.Find("[name=task]").AttrOr("value", "")})
	require.Equal(t, http.StatusSeeOther, again.StatusCode)
	require.True(t, strings.HasPrefix(again.Header.Get("Location"), "/tasks/"+id), again.Header.Get("Location"))
	dbtest.Await(t, 20*time.Second, "gone was asked once more", func() bool { return len(gone.all()) == 2 })

	shift := func(hours int) {
		_, err := s.tables.Exec(`
			UPDATE deliveries
			SET next_at = next_at - $1 * interval '1 hour', give_up_at = give_up_at - $1 * interval '1 hour',
			created_at = created_at - $1 * interval '1 hour'
			WHERE state = 'PENDING'`, hours)
		require.NoError(t, err)
	}
	tried := len(down.all())
	shift(1)
	dbtest.Await(t, 20*time.Second, "an hour later it is tried", func() bool { return len(down.all()) > tried })
	status.Store("now", 200)
	shift(1)
	dbtest.Await(t, 20*time.Second, "it is back", func() bool { return s.deliveries(t, downID)[0]["status"] == "SENT" })

	status.Store("now", 500)
	s.awaitDone(t, s.create(t, fake.URL, nil))
	dbtest.Await(t, 20*time.Second, "the next is tried", func() bool { return s.deliveries(t, downID)[0]["error"] != nil })
	shift(24)
	dbtest.Await(t, 20*time.Second, "a day later it is given up", func() bool {
		return s.deliveries(t, downID)[0]["status"] == "FAILED"
	})
}

func TestResultsAreSentInBatchesAsTheyEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	channel := s.channel(t, "results", hook.URL, object{"events": []string{"result", "finished"}})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "q7" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		agenttest.Stream(w, "答 "+call.Question)
	})
	var rows strings.Builder
	for n := 1; n <= 120; n++ {
		fmt.Fprintf(&rows, "id%d,q%d,a\n", n, n)
	}
	id := s.create(t, fake.URL, map[string]string{
		"file@q.csv": "question_id,question,standard_answer\n" + rows.String(), "runs_per_item": "2",
		"channels": channel,
	})
	s.awaitDone(t, id)
	seen, batches, failed := map[string]int{}, map[float64]bool{}, 0
	dbtest.Await(t, 40*time.Second, "every run is pushed", func() bool {
		clear(seen)
		clear(batches)
		failed = 0
		for _, call := range hook.all() {
			require.NoError(t, call.err)
			if call.body["type"] != "task.result" {
				continue
			}
			data := call.body["data"].(object)
			batches[data["batch"].(float64)] = true
			require.LessOrEqual(t, len(data["runs"].([]any)), 100)
			for _, one := range data["runs"].([]any) {
				run := one.(object)
				seen[fmt.Sprint(run["question_id"], "#", run["run_index"])]++
				if run["status"] == "FAILED" {
					failed++
					require.Equal(t, "HTTP_500", run["error_code"])
				} else {
					require.Equal(t, "答 "+run["question"].(string), run["output"])
				}
			}
		}
		return len(seen) >= 240
	})
	require.Len(t, seen, 240)
	for run, times := range seen {
		require.Equal(t, 1, times, run)
	}
	require.Equal(t, 2, failed)
	for n := 1; n <= len(batches); n++ {
		require.True(t, batches[float64(n)], "batches are numbered without gaps")
	}
	dbtest.Await(t, 20*time.Second, "the launch is not looked at any more", func() bool {
		var pushing int
		require.NoError(t, s.tables.Get(&pushing, `SELECT count(*) FROM launches WHERE pushes_results`))
		return pushing == 0
	})
}

func TestATestMessageIsSentAndListed(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	hook := newReceiver(t, func(n int) int { return map[int]int{1: 200}[n] + map[int]int{2: 500}[n] })
	id := s.channel(t, "hook", hook.URL, nil)
	sent := s.entry(t, "POST", "channels/"+id+"/test", nil, 200)
	require.Equal(t, "SENT", sent["status"])
	require.Equal(t, "channel.test", hook.all()[0].body["type"])
	failed := s.entry(t, "POST", "channels/"+id+"/test", nil, 200)
	require.Equal(t, "FAILED", failed["status"])
	require.EqualValues(t, 500, failed["response_status"])
	found := s.deliveries(t, id)
	require.Len(t, found, 2)
	require.Equal(t, "FAILED", found[0]["status"])
	require.Equal(t, "test", found[0]["event"])
	require.Equal(t, "DELIVERY_FAILED", s.entry(t, "GET", "channels/"+id, nil, 200)["test_error_code"])
	s.entry(t, "POST", fmt.Sprintf("channels/%s/deliveries/%v/send", id, found[0]["id"]), nil, 409)
	s.entry(t, "GET", "channels/"+id+"/deliveries?page_size=1", nil, 200)
	s.entry(t, "POST", "channels/"+id+"/deliveries/12345/send", nil, 404)
}
