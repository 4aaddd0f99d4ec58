package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// versions answers like an agent whose second version is more stable; the query of its address names the version.
func versions(w http.ResponseWriter, call agenttest.Call) {
	last := call.IdempotencyKey[len(call.IdempotencyKey)-1]
	clause := "五百七十七"
	if last%2 == 0 && call.Query != "v2" {
		clause = "五百八十五"
	}
	agenttest.Stream(w, "## 意见\n\n"+strings.Repeat("当事人一方不履行合同义务的，应当承担违约责任。", 20)+"依据第"+clause+"条。"+
		strings.Repeat("守约方负有防止损失扩大的义务。", 20))
}

// reviewsOf reads the reviews of a task through the API.
func reviewsOf(t *testing.T, url, id string) (all []struct{ Reviewer, Verdict, Note string }) {
	t.Helper()
	answer, err := http.Get(url + "/api/v1/evaluation-tasks/" + id + "/reviews")
	require.NoError(t, err)
	defer answer.Body.Close()
	var told struct {
		Items []struct{ Reviewer, Verdict, Note string }
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&told))
	return told.Items
}

// goOffline disconnects the browser from the network, or reconnects it.
func (b *tab) goOffline(is bool) {
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := network.EmulateNetworkConditionsByRule(is,
			[]*network.Conditions{{Latency: 0, DownloadThroughput: -1, UploadThroughput: -1}}).Do(ctx)
		return err
	}))
}

// An afternoon's review with the keyboard alone: from the list to the signature and the printed report.
func TestAnAfternoonByKeyboard(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, versions)
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8",
		"--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "下午", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })

	b := openBrowser(t, p.url)
	b.open("/tasks")
	b.evaluate(`document.querySelector(".tasks .name").focus()`, nil) // as if Tab had been pressed often enough
	b.do(chromedp.KeyEvent(kb.Enter))
	b.awaits("the report", `document.readyState === "complete" && document.querySelector("h1").textContent === "评测报告: 下午"`)
	b.requireAccessible("report")
	b.do(chromedp.KeyEvent("v"))
	b.awaits("the merged view", `document.readyState === "complete" && document.querySelector(".merged") !== null`)
	b.requireAccessible("merged report")
	shownAs := func(text string) string {
		return fmt.Sprintf(
			`document.readyState === "complete" && document.querySelector("[data-shown-as=%s][aria-current]") !== null`, text)
	}
	b.awaits("formatted blocks", shownAs("formatted"))
	b.do(chromedp.KeyEvent("t"))
	b.awaits("raw answers", shownAs("raw"))
	b.do(chromedp.KeyEvent("t"))
	b.awaits("formatted answers", shownAs("formatted"))
	b.do(chromedp.KeyEvent("x"))
	b.awaits("the first fact that differs", `document.querySelector(".unit.is-fact:target") !== null`)
	b.do(chromedp.KeyEvent("R"))
	b.awaits("review mode", `document.readyState === "complete" && document.querySelector(".review-mode") !== null`)
	b.requireAccessible("review mode")
	keys := 3
	number := func() (shown string) {
		b.evaluate(`document.querySelector(".review-mode .result").dataset.number`, &shown)
		return shown
	}
	first := number()
	b.do(chromedp.KeyEvent("1"), chromedp.WaitVisible("#who-name"), chromedp.SetValue("#who-name", "李雷"),
		chromedp.Focus("#who-name"), chromedp.KeyEvent(kb.Enter))
	changed := func(from string) {
		t.Helper()
		b.awaits("the next question",
			fmt.Sprintf(
				`document.readyState === "complete" && document.querySelector(".review-mode .result[data-number=\"%s\"]") === null && document.querySelector("h1, .review-mode") !== null`, from))
	}
	changed(first)
	second := number()
	b.do(chromedp.KeyEvent("2"))
	changed(second)
	b.do(chromedp.KeyEvent("u")) // withdraw the second verdict, which was a slip
	b.awaits("the question that was judged",
		fmt.Sprintf(
			`document.readyState === "complete" && document.querySelector(".review-mode .result[data-number=\"%s\"]") !== null`,
			second))
	require.Len(t, reviewsOf(t, p.url, id), 1, "taken back")
	for judged := 1; judged < 20; judged++ {
		at := number()
		b.do(chromedp.KeyEvent([]string{"1", "2", "3"}[judged%3]))
		keys++
		changed(at)
	}
	b.awaits("the summary",
		`document.readyState === "complete" && location.pathname.endsWith("/review") && document.querySelector(".sign") !== null`)
	b.requireAccessible("summary")
	t.Logf("%d keys for 20 questions", keys)
	require.Len(t, reviewsOf(t, p.url, id), 20)
	var name string
	b.do(chromedp.Value("[name=reviewer]", &name))
	require.Equal(t, "李雷", name)
	b.do(chromedp.Focus("[name=note]"), chromedp.SendKeys("[name=note]", "可以上线"), chromedp.KeyEvent(kb.Tab),
		chromedp.KeyEvent(kb.Enter))
	b.awaits("the signature",
		`document.readyState === "complete" && document.querySelector(".sign ~ .said-list") !== null`)
	b.sees(".said-list", "可以上线")
	b.sees(".toast-note", "已签发")

	b.open("/tasks/" + id + "/results/print")
	b.sees(".cover", "可以上线")
	b.sees("[data-count]", "20 / 20")
	b.requireAccessible("document")
	b.evaluate(
		`(() => { const form = document.querySelector(".query"); form.elements.opinion.value = "FAIL"; form.dispatchEvent(new Event("input")); })()`, nil)
	b.sees("[data-count]", "7 / 20") // the page's filters work without a server
}

// Two reviewers work at the same time, with reloads and a network that fails: no note is lost, and neither overwrites
// the other's verdicts.
func TestNoTypedNoteIsLost(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, versions)
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8",
		"--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "断网", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	results := "/tasks/" + id + "/results"
	const buttons, note = ".result:first-of-type .verdict ", ".result:first-of-type .said-of textarea"
	join := func(name string) *tab {
		b := openBrowser(t, p.url)
		b.open(results)
		b.evaluate(`document.cookie = "reviewer=" + encodeURIComponent("`+name+`") + "; path=/"`, nil)
		b.do(chromedp.Reload(), chromedp.WaitReady("html.scripted"))
		return b
	}
	one, other := join("李雷"), join("韩梅梅")
	one.do(chromedp.Click(buttons+"[data-note]"), chromedp.SendKeys(note, "第二次的依据不同"))
	one.goOffline(true)
	one.do(chromedp.Click(buttons + "[data-verdict=FAIL]"))
	one.sees(".toast-note", "网络")
	require.Empty(t, reviewsOf(t, p.url, id))
	other.do(chromedp.Click(buttons + "[data-verdict=PASS]"))
	other.do(chromedp.WaitVisible(buttons + "[data-verdict=PASS][aria-pressed=true]"))
	one.goOffline(false)
	one.do(chromedp.Reload(), chromedp.WaitVisible(note))
	var kept string
	one.do(chromedp.Value(note, &kept))
	require.Equal(t, "第二次的依据不同", kept, "what was typed outlasts the network and the page")
	one.do(chromedp.Click(buttons+"[data-verdict=FAIL]"),
		chromedp.WaitVisible(buttons+"[data-verdict=FAIL][aria-pressed=true]"))
	require.ElementsMatch(t, []struct{ Reviewer, Verdict, Note string }{{"李雷", "FAIL", "第二次的依据不同"}, {"韩梅梅", "PASS", ""}},
		reviewsOf(t, p.url, id))
	one.open(results + "?review=disagree")
	one.sees(".result .said-list", "韩梅梅")
	one.do(chromedp.Click(buttons+"[data-verdict=FAIL]"), chromedp.Click(buttons+"[data-verdict=FAIL]"))
	require.Len(t, reviewsOf(t, p.url, id), 2, "said twice is said once")
	one.do(chromedp.Click(buttons+"[data-note]"), chromedp.SendKeys(note, "，已复核"),
		chromedp.Click(buttons+"[data-verdict=UNSURE]"))
	one.do(chromedp.WaitVisible(buttons + "[data-verdict=UNSURE][aria-pressed=true]"))
	one.sees(".result:first-of-type .said-of li .remark", "，已复核")
	require.Contains(t, reviewsOf(t, p.url, id), struct{ Reviewer, Verdict, Note string }{"李雷", "UNSURE", "第二次的依据不同，已复核"})
	one.do(chromedp.Click(buttons+"[data-withdraw]"), chromedp.WaitNotPresent(buttons+"[data-verdict][aria-pressed=true]"))
	require.Len(t, reviewsOf(t, p.url, id), 1, "and can be taken back")
	one.do(chromedp.Click(".run [data-run] [data-verdict=UNSURE]"),
		chromedp.WaitVisible(".run [data-run] [data-verdict=UNSURE][aria-pressed=true]"))
	require.Len(t, reviewsOf(t, p.url, id), 2, "a single answer can be judged too")
}

// Comparing two versions: ticking two tasks in the list leads to their comparison.
func TestTwoVersionsAreCompared(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, versions)
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8",
		"--rate-limit-per-agent", "unlimited")
	for _, version := range []string{"v1", "v2"} {
		id := createTask(t, p.url, map[string]string{"task_name": "咨询 " + version,
			"agent_api_url": fake.URL + "/?" + version}, twenty)
		dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	}
	b := openBrowser(t, p.url)
	b.open("/tasks")
	b.requireAccessible("list")
	var isHidden bool
	b.evaluate(`getComputedStyle(document.getElementById("compare")).display === "none"`, &isHidden)
	require.True(t, isHidden)
	b.do(chromedp.Click(".tasks tbody tr:first-child [name=task]"),
		chromedp.Click(".tasks tbody tr:last-child [name=task]"))
	b.sees("#compare button", "对比所选的两个任务")
	b.follows("#compare button")
	b.sees(".compared-name", "咨询 v1")
	var says string
	b.do(chromedp.Text(".changes", &says))
	require.Contains(t, says, "每一题，乙的一致率都高 60.0 个百分点")
	b.requireAccessible("comparison")
	b.follows(".fields .is-unstable_stable a")
	b.sees(".segments [aria-current]", "不稳定 → 稳定")
	b.requireAccessible("one field of a comparison")

	// The report's keys: go to the second question, open it, judge the later version, show the help.
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"))
	var isSecond bool
	b.evaluate(`document.activeElement === document.querySelectorAll(".result")[1]`, &isSecond)
	require.True(t, isSecond, "the second question has the focus")
	b.do(chromedp.KeyEvent("1"), chromedp.WaitVisible("#who-name"), chromedp.SetValue("#who-name", "李雷"),
		chromedp.Focus("#who-name"), chromedp.KeyEvent(kb.Enter))
	b.sees(".judge-variant .said-list li:not([hidden])", "李雷")
	b.do(chromedp.Click(".compared-pair.is-line .unit-fold > summary"))
	b.sees(".compared-pair.is-line .unit-fold .answers", "两边最常见的回答相同")
	b.requireAccessible("a question of a comparison that is open")
	b.do(chromedp.KeyEvent("?"))
	b.sees("#help", "评审乙：通过、不通过、存疑")
	b.requireAccessible("the keys of a comparison")
}
