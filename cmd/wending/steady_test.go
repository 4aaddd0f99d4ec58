package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// watching is a script that records, on every page from the beginning, what moves without a user's action and what the
// content security policy forbids.
const watching = `
	window.shift = 0; window.moved = []; window.forbidden = [];
	new PerformanceObserver((list) => list.getEntries().filter((e) => !e.hadRecentInput).forEach((e) => {
		window.shift += e.value;
		window.moved.push(e.value.toFixed(4) + " " + e.sources.map((s) => s.node && (s.node.id || s.node.className || s.node.nodeName) +
			" " + JSON.stringify([s.previousRect, s.currentRect])).join(" | "));
	})).observe({ type: "layout-shift", buffered: true });
	document.addEventListener("securitypolicyviolation", (e) => window.forbidden.push(e.violatedDirective + " " + e.sourceFile + ":" + e.lineNumber));`

// watches makes the tab watch all pages that it opens from now on.
func (b *tab) watches() {
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(watching).Do(ctx)
		return err
	}))
}

// unseen is the layout shift score below which three decimals show zero. Such shifts are tolerated: a page may arrive
// in pieces, and a button whose icon arrives before its label inevitably moves by a few pixels.
const unseen = 0.0005

// requireSteady waits until a page is at rest, and requires that nothing has moved and that the content security policy
// has forbidden nothing.
func (b *tab) requireSteady(what string) {
	b.t.Helper()
	var seen struct {
		Shift            float64
		Moved, Forbidden []string
	}
	b.do(chromedp.Evaluate(`(async () => {
		const idle = () => new Promise((resolve) => requestIdleCallback(() => requestAnimationFrame(() => requestAnimationFrame(resolve)), { timeout: 1000 }));
		if (document.readyState !== "complete") await new Promise((resolve) => addEventListener("load", resolve));
		await document.fonts.ready;
		for (let n = 0; n < 5; n++) await idle();
		return { shift: window.shift, moved: window.moved, forbidden: window.forbidden };
	})()`, &seen, awaitPromise))
	require.Less(b.t, seen.Shift, unseen, "%s: %.2000s", what, strings.Join(seen.Moved, "\n")) // the layout shift score
	require.Empty(b.t, seen.Forbidden, what)
}

// slowly makes the tab's network slow and disables its cache, so that pages are drawn before their scripts have
// loaded.
func (b *tab) slowly() {
	b.do(network.Enable(), network.SetCacheDisabled(true), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := network.EmulateNetworkConditionsByRule(false,
			[]*network.Conditions{{Latency: 50, DownloadThroughput: 1 << 20, UploadThroughput: -1}}).Do(ctx)
		return err
	}))
}

// Nothing on a page moves while it loads: scripts fill space that is reserved from the start.
func TestPagesOpenWithoutMoving(t *testing.T) {
	t.Parallel()
	painter := newPainter(t, 5, 10*time.Millisecond)
	painter.release()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		last := call.IdempotencyKey[len(call.IdempotencyKey)-1:]
		agenttest.Stream(w, "## 意见\n\n"+strings.Repeat("当事人一方不履行合同义务的，应当承担违约责任。", 20)+last+
			strings.Repeat("守约方负有防止损失扩大的义务。", 30))
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency",
		"8", "--rate-limit-per-agent", "unlimited")
	id := createTask(t, program.url, map[string]string{"task_name": "长回答", "agent_api_url": fake.URL}, twenty)
	other := createTask(t, program.url, map[string]string{"task_name": "另一版", "agent_api_url": fake.URL}, twenty)
	painted := createTask(t, program.url, map[string]string{"task_name": "画室", "agent_api_url": painter.URL + "/run",
		"runs_per_item": "2"}, "question,standard_answer\n画山,\n")
	draft := createTask(t, program.url, map[string]string{"task_name": "草稿", "agent_api_url": fake.URL, "start": "false"},
		twenty)
	for _, one := range []string{id, other, painted} {
		dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, program.url, one).Status == "SUCCEEDED" })
	}
	b := openBrowser(t, program.url)
	b.watches()
	b.slowly()
	results := "/tasks/" + id + "/results"
	pages := []string{
		"/", "/?from=" + id, "/tasks", "/compare", "/tasks/" + id, "/tasks/" + draft, results, results + "?view=merged",
		results + "?text=formatted", results + "?text=raw&view=columns",
		"/tasks/" + id + "/review/next", "/tasks/" + id + "/review", "/tasks/" + id + "/report", "/tasks/" + id + "/gallery",
		"/tasks/" + id + "/settings", "/tasks/" + painted + "/replay/1",
		"/tasks/" + painted + "/gallery", "/comparison?a=" + id + "&b=" + other, "/library/prompts", "/library/prompts/new",
		"/workers",
	}
	for _, size := range [][2]int64{{1440, 900}, {390, 844}} {
		b.do(chromedp.EmulateViewport(size[0], size[1]))
		for _, path := range pages {
			b.open(path)
			b.requireSteady(path)
		}
	}
}

// Pages that update themselves change in place: the pages of a running task and of a running call.
func TestPagesUnderWayDoNotMove(t *testing.T) {
	t.Parallel()
	painter := newPainter(t, 5, 10*time.Millisecond)
	step := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		select {
		case <-step:
		case <-t.Context().Done():
		}
		if strings.HasSuffix(call.IdempotencyKey, "3") {
			http.Error(w, "busy", http.StatusInternalServerError)
			return
		}
		agenttest.Stream(w, "当事人应当承担违约责任。")
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency",
		"8", "--rate-limit-per-agent", "unlimited")
	painted := createTask(t, program.url, map[string]string{"task_name": "画室", "agent_api_url": painter.URL + "/run",
		"runs_per_item": "1", "concurrency": "1"}, "question,standard_answer\n画山,\n")
	b := openBrowser(t, program.url)
	b.watches()
	b.open("/tasks/" + painted)
	b.sees(".flights", "第 1 题")
	b.follows(".flights a")
	b.sees(".track .said", "1 2 3 ")
	b.sees(".log .lines", "第 3 步")
	b.requireSteady("a call under way")
	painter.release()
	dbtest.Await(t, time.Minute, "the task's end", func() bool {
		return task(t, program.url, painted).Status == "SUCCEEDED"
	})

	id := createTask(t, program.url, map[string]string{"task_name": "慢", "agent_api_url": fake.URL, "concurrency": "6",
		"runs_per_item": "8"}, twenty)
	b.open("/tasks/" + id)
	for done := range 140 { // counts grow from one digit to three
		select {
		case step <- struct{}{}:
		case <-time.After(time.Minute):
			t.Fatal("no call came")
		}
		if done%20 == 5 {
			b.awaits("progress", fmt.Sprintf(`parseInt(document.querySelector(".gauge .count").textContent) > %d`, done-5))
		}
	}
	b.sees(".causes", "HTTP_500")
	b.sees(".level-counts", "逐字相同")
	b.requireSteady("a task under way")
}

// The numbers of many variants are loaded into the space that the report reserves for them.
func TestTheNumbersOfVariantsHaveTheirRoom(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		agenttest.Stream(w, strings.Repeat("应当承担违约责任。", 40))
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency",
		"8", "--rate-limit-per-agent", "unlimited")
	var agents []string
	for n := range 9 {
		agents = append(agents, save(t, program.url, "agents", map[string]any{
			"name": fmt.Sprintf("华东区售后知识库智能客服%s %d", strings.Repeat("长", 10*(n%3)), n), "protocol": "default", "url": fake.URL,
			"rate_limit": "unlimited"}))
	}
	id := createTask(t, program.url, map[string]string{"task_name": "九个方案", "agents": strings.Join(agents, ","),
		"runs_per_item": "2"}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, program.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, program.url)
	b.watches()
	for _, size := range [][2]int64{{1440, 900}, {390, 844}} {
		b.do(chromedp.EmulateViewport(size[0], size[1]))
		b.open("/tasks/" + id + "/results")
		b.sees(".variants-room tbody tr:last-child", " 8")
		b.requireSteady(fmt.Sprint(size))
		b.requireAccessible(fmt.Sprint(size))
	}

	// The answers of a variant are loaded when it is opened; without scripts a link leads to them.
	b.open("/tasks/" + id + "/results?view=columns")
	var answers int
	b.evaluate(`document.querySelectorAll(".result .runs").length`, &answers)
	require.Zero(t, answers)
	b.do(chromedp.Click(".result .variant[data-variant='3'] > summary"))
	b.sees(".result:first-child .variant[data-variant='3'] .run", "应当承担违约责任")
	b.evaluate(`document.querySelectorAll(".result .runs").length`, &answers)
	require.Equal(t, 1, answers)
	var href string
	b.evaluate(`document.querySelector(".result:nth-child(2) .variant[data-variant='4'] > .later a").getAttribute("href")`,
		&href)
	b.open(href)
	b.sees(".result:nth-child(2) .variant[data-variant='4'] .run", "应当承担违约责任")
}

// The lists in the bar of a report show their selected options in full, even on a small screen and with a thousand
// questions.
func TestTheListsOfAReportAreWhole(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "一致") })
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency",
		"16", "--rate-limit-per-agent", "unlimited")
	var questions strings.Builder
	questions.WriteString("question,standard_answer\n")
	for n := range 1000 {
		fmt.Fprintf(&questions, "第 %d 题,\n", n)
	}
	id := createTask(t, program.url, map[string]string{"task_name": "千题", "agent_api_url": fake.URL, "runs_per_item": "1"},
		questions.String())
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, program.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, program.url)
	for _, width := range []int64{1440, 1280, 390} {
		b.do(chromedp.EmulateViewport(width, 900))
		b.open("/tasks/" + id + "/results")
		var cut []string
		b.evaluate(`[...document.querySelectorAll(".report-bar .select")].filter((e) => {
			const style = getComputedStyle(e), pen = document.createElement("canvas").getContext("2d");
			pen.font = style.font;
			const room = e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) + 1;
			return pen.measureText(e.selectedOptions[0].textContent.trim()).width > room ||
				e.getBoundingClientRect().right > innerWidth;
		}).map((e) => e.selectedOptions[0].textContent)`, &cut)
		require.Empty(t, cut, width)
	}
}

// On a phone every entry of the navigation can be touched, in both languages.
func TestTheNavigationFitsAPhone(t *testing.T) {
	t.Parallel()
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0")
	b := openBrowser(t, program.url)
	b.do(chromedp.EmulateViewport(390, 844))
	for _, lang := range []string{"zh-CN", "en"} {
		b.do(network.SetCookie("lang", lang).WithURL(program.url))
		b.open("/tasks")
		var cut []string
		b.evaluate(
			`[...document.querySelectorAll(".bar a, .bar button")].filter((e) => e.checkVisibility() && !e.closest(".sr-only")).filter((e) => {
			const { left, right } = e.getBoundingClientRect(), box = e.parentElement.getBoundingClientRect();
			return left < Math.max(0, box.left) - 1 || right > Math.min(innerWidth, box.right) + 1;
		}).map((e) => e.textContent)`, &cut)
		require.Empty(t, cut, lang)
	}
}

// Jumps are instant: only the step to a nearby question is smooth.
func TestJumpsAreInstant(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		agenttest.Stream(w, strings.Repeat("当事人一方不履行合同义务的，应当承担违约责任。", 20))
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency",
		"8", "--rate-limit-per-agent", "unlimited")
	id := createTask(t, program.url, map[string]string{"task_name": "跳转", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, program.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, program.url)
	b.do(chromedp.EmulateViewport(1240, 900))
	b.open("/tasks/" + id + "/results")
	var behaviour string
	b.evaluate(
		`window.steps = []; const scroll = window.scrollBy; window.scrollBy = (to) => { window.steps.push(to.behavior); scroll.call(window, { ...to, behavior: "instant" }); };
		getComputedStyle(document.documentElement).scrollBehavior`, &behaviour)
	require.Equal(t, "auto", behaviour)
	var steps []string
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("G"), chromedp.KeyEvent("g"), chromedp.KeyEvent("g"))
	b.awaits("the jumps", `window.steps.length >= 3`)
	b.evaluate(`window.steps`, &steps)
	require.Equal(t, []string{"smooth", "instant", "instant"}, steps)
}

// On a phone a comparison's pages scroll in one direction, and a long name leaves space for the numbers.
func TestAComparisonFitsAPhone(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		answer := "始终如一"
		if call.Query == "unsteady" {
			answer += call.IdempotencyKey
		}
		agenttest.Stream(w, answer)
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency",
		"8", "--rate-limit-per-agent", "unlimited")
	var agents []string
	for _, one := range []string{"steady", "unsteady"} {
		agents = append(agents, save(t, program.url, "agents", map[string]any{
			"name": "华东区售后知识库智能客服" + strings.Repeat("长", 40) + one, "protocol": "default", "url": fake.URL + "/?" + one,
			"rate_limit": "unlimited"}))
	}
	id := createTask(t, program.url, map[string]string{"task_name": "手机", "agents": strings.Join(agents, ",")}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, program.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, program.url)
	b.do(chromedp.EmulateViewport(390, 844))
	for _, path := range []string{"/results", "/variants", "/report", ""} {
		b.open("/tasks/" + id + path)
		var overflow, stars int
		b.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &overflow)
		require.LessOrEqual(t, overflow, 0, path)
		if path == "/variants" {
			b.evaluate(`document.querySelectorAll(".best").length`, &stars)
			require.Positive(t, stars, path)
		}
		b.requireAccessible("phone " + path)
	}
	b.open("/tasks/" + id + "/report")
	var name float64
	b.evaluate(`document.querySelector(".numbers tbody th").getBoundingClientRect().width`, &name)
	require.Less(t, name, 195.0, "half the screen is left")
}

// When a judged question is unfolded, only the text that fits is shown, and nothing moves.
func TestAQuestionIsUnfoldedBeforeItIsShown(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		last := call.IdempotencyKey[len(call.IdempotencyKey)-1] % 2
		opening := []string{"您好，下面把您咨询的事情说明如下，请您仔细阅读。", "您好，现将您咨询的事情作如下说明，请您仔细阅读。"}[last]
		agenttest.Stream(w, opening+"\n\n"+[]string{"收到申请之日起 30 日内答复。", "收到申请之日起 35 日内答复。"}[last]+"\n\n请您妥善保管有关材料。")
	})
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8",
		"--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "展开", "agent_api_url": fake.URL},
		"question,standard_answer\n期限,30 日内答复\n")
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, p.url)
	b.do(network.SetCookie("view", "merged").WithURL(p.url))
	b.watches()
	b.slowly()
	for _, size := range [][2]int64{{1440, 900}, {390, 844}} {
		b.do(chromedp.EmulateViewport(size[0], size[1]))
		b.open("/tasks/" + id + "/review/next")
		b.awaits("the unfolded text", `getComputedStyle(document.querySelector(".judging-text")).visibility === "visible"`)
		b.requireSteady("a question to be judged")
	}
	var isUnfolded bool
	b.do(chromedp.EmulateViewport(1440, 900))
	b.open("/tasks/" + id + "/review/next")
	b.evaluate(`[...document.querySelectorAll(".judging-text details.unit-fold")].some((one) => one.open)`, &isUnfolded)
	require.True(t, isUnfolded, "there was something to unfold")
}

// On a phone, differently worded answers are as wide as their card, each below its letter; in print, next to it.
func TestAnswersInOtherWordsFitAPhone(t *testing.T) {
	t.Parallel()
	openings := []string{"您好，下面把您咨询的事情说明如下，请您仔细阅读。", "您好，现将您咨询的事情作如下说明，请您仔细阅读。", "您好，您咨询的事情逐项说明如下，请您仔细阅读。"}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, openings[call.IdempotencyKey[len(call.IdempotencyKey)-1]%3]+strings.Repeat("请您妥善保管有关的书面材料。", 20))
	})
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8",
		"--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "措辞", "agent_api_url": fake.URL},
		"question,standard_answer\n材料,\n")
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, p.url)
	b.do(network.SetCookie("view", "merged").WithURL(p.url), chromedp.EmulateViewport(390, 844))
	b.open("/tasks/" + id + "/results")
	var widths []float64
	b.evaluate(
		`[...document.querySelectorAll(".groups div.text, .groups .voice")].filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect().left)`, &widths)
	require.Greater(t, len(widths), 3)
	for _, left := range widths {
		require.Less(t, left, 60.0, "nothing stands to the right of the letters")
	}

	b.do(chromedp.EmulateViewport(794, 1123)) // a sheet of A4
	b.open("/tasks/" + id + "/results/print")
	b.evaluate(
		`[...document.querySelectorAll(".groups > li > *")].map((one) => one.querySelector(".block") ?? one).filter((one) => one.matches(".block")).map((one) => one.offsetWidth)`, &widths)
	require.Len(t, widths, 3)
	for _, width := range widths {
		require.Greater(t, width, 300.0, "a line of an answer holds a sentence in print, too")
	}
}

// The page of a schedule lists what its next run takes from the library, and its form offers to follow the library or
// to stay frozen; nothing moves, and long names break on a phone.
func TestAScheduleSaysWhatItFollows(t *testing.T) {
	t.Parallel()
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0")
	long := strings.Repeat("unbreakable", 5)
	save := func(kind string, body map[string]any) string {
		var saved struct {
			ID string `json:"id"`
		}
		text, err := json.Marshal(body)
		require.NoError(t, err)
		response, err := http.Post(program.url+"/api/v1/"+kind, "application/json", bytes.NewReader(text))
		require.NoError(t, err)
		defer response.Body.Close()
		require.Equal(t, http.StatusCreated, response.StatusCode, kind)
		require.NoError(t, json.NewDecoder(response.Body).Decode(&saved))
		return saved.ID
	}
	agentID := save("agents", map[string]any{"name": long, "protocol": "default", "url": "http://127.0.0.1:9/"})
	promptID := save("prompts", map[string]any{"name": "简短", "user": "{{question}}"})
	task := createTask(t, program.url, map[string]string{"task_name": "回归", "agents": agentID, "prompts": promptID,
		"start": "false"}, "question,standard_answer\n问题一,答案\n")
	latest := save("schedules", map[string]any{"name": long, "task_id": task, "cron": "0 2 * * *"})
	frozen := save("schedules", map[string]any{"name": "不变", "task_id": task, "cron": "0 2 * * *",
		"follow": "frozen"})
	b := openBrowser(t, program.url)
	b.watches()
	for _, size := range [][2]int64{{1440, 900}, {390, 844}} {
		b.do(chromedp.EmulateViewport(size[0], size[1]))
		for _, path := range []string{"/library/schedules/" + latest, "/library/schedules/" + frozen + "?follow=latest",
			"/library/schedules/new?task=" + task} {
			b.open(path)
			b.requireSteady(path)
			var overflow int
			b.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &overflow)
			require.Zero(t, overflow, "%s at %d", path, size[0])
			b.requireAccessible(path)
		}
	}
}
