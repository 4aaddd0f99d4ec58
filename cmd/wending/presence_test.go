package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// signsIn signs in to an account.
func (b *tab) signsIn(name string) {
	b.t.Helper()
	b.open("/login")
	b.do(chromedp.WaitVisible("#password"), chromedp.SetValue("#name", name), chromedp.SendKeys("#password", goodPassword))
	b.follows(".gate form button.btn")
}

// createsTask creates a task with twenty questions as the account that is signed in.
func (b *tab) createsTask(agent string) (id string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf(`(async () => {
		const form = new FormData();
		form.append("task_name", "同看");
		form.append("agent_api_url", %q);
		form.append("dataset_file", new File([%q], "q.csv"));
		const answer = await fetch("/api/v1/evaluation-tasks", { method: "POST", body: form });
		const told = await answer.json();
		return told.task_id || JSON.stringify(told);
	})()`, agent, twenty), &id, awaitPromise))
	require.Len(b.t, id, 36)
	return id
}

// Two accounts review one task: each sees the other's verdicts in place, without reloading. Text that is being read
// does not move, and text that is being typed is not lost.
func TestTwoAccountsSeeEachOthersVerdicts(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "回答 "+call.Question+strings.Repeat(" 长", 150)+call.IdempotencyKey[len(call.IdempotencyKey)-1:])
	})
	folder := dbtest.Folder(t)
	p := start(t, "up", "--data-dir", folder, "--auth", "local", "--agent-api-allowlist", "127.0.0.0/8", "--listen-addr",
		"127.0.0.1:0", "--evaluation-concurrency", "8", "--rate-limit-per-agent", "unlimited")
	names := []string{"李雷", "韩梅梅"}
	for _, name := range names {
		code, said := commandWith(t, goodPassword, "user", "add", name, "--admin", "--role", "admin",
			"--no-must-change-password", "--data-dir", folder)
		require.Zero(t, code, said)
	}
	tabs := map[string]*tab{}
	for _, name := range names {
		b := openBrowser(t, strings.Replace(p.url, "127.0.0.1", "localhost", 1))
		b.signsIn(name)
		b.watches()
		tabs[name] = b
	}
	li, han := tabs["李雷"], tabs["韩梅梅"]
	id := li.createsTask(fake.URL)
	li.awaits("the task's end",
		fmt.Sprintf(
			`fetch("/api/v1/evaluation-tasks/%s").then(r => r.json()).then(t => window.isDone = t.status === "SUCCEEDED"), window.isDone === true`, id))
	for _, b := range tabs {
		b.open("/tasks/" + id + "/results")
		b.do(chromedp.WaitVisible(".result:first-of-type .verdict [data-note]"))
	}

	// While the card is in sight, the other's verdict is only announced at its edge; a click adds it to the list.
	const first, third, last = ".result:nth-of-type(1) ", ".result:nth-of-type(3) ", ".result:nth-of-type(20) "
	li.do(chromedp.Click(first+"[data-note]"), chromedp.SendKeys(first+".said-of textarea", "还没写完"))
	han.do(chromedp.Click(first + ".verdict [data-verdict=FAIL]"))
	li.sees(first+".said-news", "韩梅梅：不通过")
	li.sees("#reviewed", "1/20")
	li.sees("[data-reviewed]", "已评 1/20")
	li.requireSteady("a verdict on a card in sight")
	li.requireAccessible("a verdict on the edge of its card")
	li.do(chromedp.Click(first + ".said-news"))
	li.sees(first+".said-list li", "韩梅梅")

	topOf := func(b *tab, card string) (top float64) {
		b.evaluate(fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().top`, card), &top)
		return top
	}
	// While the card is out of sight, the verdict is added to its list immediately.
	place := topOf(li, first)
	han.do(chromedp.ScrollIntoView(last+".verdict [data-verdict=PASS]"),
		chromedp.Click(last+".verdict [data-verdict=PASS]"))
	li.awaits("a verdict below the window",
		fmt.Sprintf(`document.querySelector(%q)?.textContent.includes("韩梅梅")`, last+".said-list li"))
	var after struct {
		Note       string
		IsNewsOpen bool
	}
	li.evaluate(`({
		note: document.querySelector(".result:nth-of-type(1) .said-of textarea").value,
		isNewsOpen: !document.querySelector(".task-news").hidden,
	})`, &after)
	require.InDelta(t, place, topOf(li, first), 0.01, "the reader's place")
	require.Equal(t, "还没写完", after.Note)
	require.False(t, after.IsNewsOpen, "the page shows all that is new")

	// The same in the other direction, with a change and a withdrawal.
	place = topOf(han, last)
	li.do(chromedp.Click(third + ".verdict [data-verdict=UNSURE]"))
	han.awaits("a verdict above the window",
		fmt.Sprintf(`document.querySelector(%q)?.textContent.includes("存疑")`, third+".said-list li"))
	li.do(chromedp.Click(third + ".verdict [data-verdict=PASS]"))
	han.awaits("its change",
		fmt.Sprintf(`(one => one.length === 1 && one[0].textContent.includes("通过"))(document.querySelectorAll(%q))`,
			third+".said-list li"))
	li.do(chromedp.Click(third + ".verdict [data-withdraw]"))
	han.awaits("its withdrawal", fmt.Sprintf(`document.querySelector(%q).hidden`, third+".said-list li"))
	han.requireSteady("verdicts above the window")
	require.InDelta(t, place, topOf(han, last), 0.01, "the reader's place")

	// A report announces that it has changed, and stays as it is until its reader asks for the change.
	han.open("/tasks/" + id + "/report")
	han.awaits("the first news", `document.querySelector("#reviewed").textContent === "2/20"`)
	li.do(chromedp.Click(third + ".verdict [data-verdict=FAIL]"))
	han.sees(".task-news a", "李雷 有新的结论")
	han.requireSteady("a report that has changed")
	han.requireAccessible("a report that has changed")
	han.follows(".task-news a")
	han.awaits("the report anew", `document.querySelector(".task-news").hidden`)
	require.NotContains(t, p.stopped(t), "level=ERROR")
}

// asked returns how many requests for news a page has made since it was loaded, and how many seconds ago it was loaded.
func (b *tab) asked() (count int, seconds float64) {
	b.t.Helper()
	var seen struct {
		Count   int
		Seconds float64
	}
	b.evaluate(`({
		count: performance.getEntriesByType("resource").filter((one) => ["fetch",
		"xmlhttprequest"].includes(one.initiatorType)).length,
		seconds: performance.now() / 1000,
	})`, &seen)
	return seen.Count, seen.Seconds
}

// An open page asks for news at most once a second, less often once nothing changes, and not at all while it is hidden.
func TestAnOpenPageAsksAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	isSeen := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		pause := 20 * time.Millisecond // simulates a slow agent, so that there is always something new
		if calls.Add(1) > 300 {        // so that the task does not end before its pages have been seen while it runs
			pause = time.Second
		}
		select {
		case <-isSeen:
		case <-time.After(pause):
		}
		agenttest.Stream(w, "回答 "+call.Question)
	})
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8",
		"--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "慢", "agent_api_url": fake.URL, "concurrency": "1",
		"runs_per_item": "20"}, twenty)
	b := openBrowser(t, p.url)
	later := func(seconds float64) { // on a busy machine, the first request can be later still
		b.awaits("time and a request", fmt.Sprintf(`performance.now() > %f && performance.getEntriesByType("resource")
			.some((one) => ["fetch", "xmlhttprequest"].includes(one.initiatorType))`, 1000*seconds))
	}
	for _, path := range []string{"/tasks/" + id, "/tasks/" + id + "/results?partial=1", "/tasks"} {
		b.open(path)
		later(6)
		count, seconds := b.asked()
		require.LessOrEqual(t, float64(count), seconds+1, path)
	}
	close(isSeen)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	for _, path := range []string{"/tasks/" + id, "/tasks/" + id + "/results", "/tasks/" + id + "/report",
		"/tasks/" + id + "/review/next"} {
		b.open(path)
		later(6)
		count, seconds := b.asked()
		require.LessOrEqual(t, float64(count), seconds/2+1, path)
	}
	b.evaluate(
		`Object.defineProperty(document, "visibilityState", { value: "hidden" }); document.dispatchEvent(new Event("visibilitychange"))`, nil)
	before, seconds := b.asked()
	later(seconds + 6)
	after, _ := b.asked()
	require.LessOrEqual(t, after, before+1, "a hidden page asks nothing, apart from the answer that was under way")
}
