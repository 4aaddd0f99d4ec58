package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// tab is a browser's tab on the pages of a running program.
type tab struct {
	ctx  context.Context
	t    *testing.T
	base string
}

func openBrowser(t *testing.T, base string) *tab {
	t.Helper()
	// The headless shell takes a third less processor time. Debian's command of this name is a script, which would leave
	// the browser behind when it is killed.
	path := "/usr/lib/chromium/chromium-headless-shell"
	if _, err := os.Stat(path); err != nil {
		path = dbtest.Need(t, "chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WindowSize(1440, 900), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, stopBrowser := chromedp.NewExecAllocator(t.Context(), options...)
	// Errors are not logged, because chromedp reports every event that it does not know as one.
	ctx, closeTab := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	// generous, because the machine may be busy; each wait also has its own deadline
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	t.Cleanup(func() { cancel(); closeTab(); stopBrowser() })
	b := &tab{ctx, t, base}
	// The browser need not report its style sheets. Most tests expect this view; the others request another one.
	b.do(css.Disable(), network.SetCookie("view", "columns").WithURL(base))
	return b
}

// calm makes element queries cheaper: by default, chromedp polls every 5 ms and also searches the page's texts.
func calm(actions []chromedp.Action) []chromedp.Action {
	for _, action := range actions {
		if query, is := action.(*chromedp.Selector); is {
			chromedp.RetryInterval(50 * time.Millisecond)(query)
			chromedp.ByQueryAll(query)
		}
	}
	return actions
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, calm(actions)...); err != nil {
		var url, text string
		_ = chromedp.Run(b.ctx, chromedp.Location(&url), chromedp.Text("body", &text))
		b.t.Fatalf("%v\nat %s\n%.2000s", err, url, text)
	}
}

// follows clicks on a link or button to another page and waits until that page is loaded.
func (b *tab) follows(selector string) {
	b.t.Helper()
	_, err := chromedp.RunResponse(b.ctx, calm([]chromedp.Action{chromedp.Click(selector)})...)
	require.NoError(b.t, err, selector)
}

func (b *tab) open(path string) { b.t.Helper(); b.do(chromedp.Navigate(b.base + path)) }

// sees waits until the element shows text.
func (b *tab) sees(selector, text string) {
	b.t.Helper()
	b.awaits(selector+" with "+text,
		fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.checkVisibility() && e.textContent.includes(%q))`,
			selector, text))
}

// awaits waits until a script returns true. It polls, because a page that is being left does not answer, and sometimes
// does not even report an error.
func (b *tab) awaits(what, script string) {
	b.t.Helper()
	dbtest.Await(b.t, time.Minute, what, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
		defer cancel()
		var is bool
		return chromedp.Run(ctx, chromedp.Evaluate(script, &is)) == nil && is
	})
}

func (b *tab) evaluate(script string, into any) {
	b.t.Helper()
	b.do(chromedp.Evaluate(script, into))
}

func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams {
	return p.WithAwaitPromise(true).WithReturnByValue(true)
}

// requireUnbroken requires that the page was not loaded again since a script marked its window.
func (b *tab) requireUnbroken() {
	b.t.Helper()
	var is bool
	b.evaluate(`window.unbroken === true`, &is)
	require.True(b.t, is, "the page was loaded again")
}

// requireAccessible runs axe on the page as it is now, once no transition is running.
func (b *tab) requireAccessible(what string) {
	b.t.Helper()
	scripts, err := filepath.Glob("testdata/axe-core-*.min.js")
	require.NoError(b.t, err)
	require.Len(b.t, scripts, 1)
	axe, err := os.ReadFile(scripts[0])
	require.NoError(b.t, err)
	var violations []string
	b.evaluate(string(axe)+";0", nil)
	b.do(
		chromedp.Evaluate(
			`Promise.allSettled(document.getAnimations().filter(a => a.effect.getComputedTiming().iterations !== Infinity).map(a => a.finished))
		.then(() => axe.run({resultTypes: ["violations"], selectors: false})).then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join(" | ").slice(0, 1500)))`, &violations, awaitPromise))
	require.Empty(b.t, violations, what)
}

// A reviewer's whole workflow.
func TestAReviewersStory(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		<-release
		switch {
		case strings.Contains(call.Question, "坏"):
			http.Error(w, `{"msg":"模型繁忙"}`, http.StatusServiceUnavailable)
		default:
			agenttest.Stream(w, "回答"+call.IdempotencyKey[len(call.IdempotencyKey)-1:]+strings.Repeat("很长的回答，", 60)+"<b>完</b>")
		}
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0",
		"--evaluation-concurrency", "4")
	file := filepath.Join(t.TempDir(), "问题.csv")
	require.NoError(t, os.WriteFile(file, []byte("question_id,question,standard_answer\nq1,中国的首都是哪里？,北京\nq2,坏问题,无\n"),
		0o600))
	b := openBrowser(t, program.url)

	b.open("/tasks")
	b.sees("h2", "还没有评测任务")
	b.requireAccessible("empty list")
	b.do(chromedp.Click(`a[href="/"].btn`), chromedp.WaitVisible("#task_name"))
	b.requireAccessible("form")
	b.do(chromedp.WaitVisible("#submit:disabled"),
		chromedp.SendKeys("#task_name", "A模型V1.2稳定性测试"), chromedp.SendKeys("#agent_api_url", fake.URL),
		chromedp.SetUploadFiles("#dataset_file", []string{file}))
	b.sees("#preview .summary", "2 题")
	b.sees("#preview td", "中国的首都是哪里？")
	b.do(chromedp.Click(".advanced > summary"), chromedp.WaitVisible("#rate_limit"))
	b.do(chromedp.Click("#rate_limit"))
	b.evaluate(`document.activeElement.select()`, nil)
	b.do(chromedp.KeyEvent("unlimited\t"))
	b.sees("#preview .summary", "不限速")
	b.requireAccessible("filled form")
	b.do(chromedp.Click("#submit:enabled"), chromedp.WaitVisible(".tasks"))
	b.sees(".toast-note", "任务创建成功")

	// The row changes without a reload: the mark on the window shows that the page was never loaded again.
	b.evaluate(`window.unbroken = true`, nil)
	b.sees(".tasks .tag", "运行中")
	b.requireAccessible("list with a running task")
	close(release)
	b.sees(".tasks .tag", "已完成")
	b.sees(".tasks .count", "2/2")
	var unbroken bool
	b.evaluate(`window.unbroken === true && document.querySelector("[data-active]") === null`, &unbroken)
	require.True(t, unbroken)

	b.do(chromedp.Click(".col-actions a"), chromedp.WaitVisible(".result"))
	b.sees("h1", "评测报告: A模型V1.2稳定性测试")
	b.sees(".run .code", "HTTP_503")
	b.sees(".run .detail", "模型繁忙")
	b.do(chromedp.Click(".fold .more"), chromedp.WaitVisible(".fold[open] > .text"))
	b.sees(".fold[open] > .text", "<b>完</b>")
	b.requireAccessible("report")
	b.do(chromedp.KeyEvent("?"), chromedp.WaitVisible("#help[open]"))
	b.requireAccessible("help")
	b.do(chromedp.Click("#help button"), chromedp.WaitNotVisible("#help"), chromedp.KeyEvent("E"))
	var open int
	b.evaluate(`document.querySelectorAll(".fold[open]").length`, &open)
	require.Equal(t, 5, open)

	downloads := t.TempDir()
	b.do(browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(downloads))
	for _, format := range []string{"csv", "xlsx"} {
		if format != "csv" { // CSV is the button itself; other formats are in its menu
			b.do(chromedp.Click(".split summary"), chromedp.WaitVisible(".split .menu"))
			b.requireAccessible("the menu of formats")
		}
		b.do(chromedp.Click(fmt.Sprintf(`[data-export][href*="format=%s"]`, format)))
		b.sees(".toast-note", "导出成功")
		path := filepath.Join(downloads, "A模型V1.2稳定性测试_评测报告."+format)
		dbtest.Await(t, time.Minute, "the download of "+format, func() bool { _, err := os.Stat(path); return err == nil })
		rows := readReport(t, path)
		require.Len(t, rows, 3, format)
		require.Equal(t, "question_id", rows[0][0])
		require.Equal(t, []string{"中国的首都是哪里？", "坏问题"}, []string{rows[1][1], rows[2][1]})
		require.Contains(t, rows[1][5], "<b>完</b>")
		require.Equal(t, "HTTP_503", rows[2][8])
		b.evaluate(`document.querySelectorAll(".toast-note").forEach(n => n.remove())`, nil)
	}

	// A result that is too large for a page is a plain download, under the same name.
	large := filepath.Join(downloads, "A模型V1.2稳定性测试_评测报告.jsonl")
	b.evaluate(`document.querySelector('[data-export][href*="format=jsonl"]').dataset.most = 100`, nil)
	b.do(chromedp.Click(`[data-export][href*="format=jsonl"]`))
	b.sees(".toast-note", "已交给浏览器下载")
	dbtest.Await(t, time.Minute, "the large download", func() bool {
		content, err := os.ReadFile(large)
		return err == nil && bytes.Count(content, []byte("\n")) == 2
	})

	b.follows(`button[name="lang"]`)
	b.sees("h1", "Report: A模型V1.2稳定性测试")
	b.do(chromedp.Click("#theme"), chromedp.WaitVisible("html.dark[data-theme=dark] h1"))
	b.requireAccessible("report, dark, in English")
	b.open("/tasks")
	b.requireAccessible("list, dark, in English")
	b.open("/")
	b.requireAccessible("form, dark, in English")
}

// A task is watched, stopped, resumed and retried on its page, which never reloads itself.
func TestATaskIsWatchedStoppedResumedAndRetried(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if !strings.HasSuffix(call.IdempotencyKey, "1") {
			select {
			case <-release:
			case <-time.After(20 * time.Second):
			}
		}
		if strings.HasSuffix(call.IdempotencyKey, "3") && !isWell.Load() {
			http.Error(w, "模型繁忙", http.StatusServiceUnavailable)
			return
		}
		agenttest.Stream(w, "<img src=x onerror=alert(1)>")
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency",
		"4", "--rate-limit-per-agent", "unlimited")
	id := createTask(t, program.url, map[string]string{"task_name": "夜间回归", "agent_api_url": fake.URL, "start": "false",
		"max_retries": "0"}, twenty)
	b := openBrowser(t, program.url)
	b.watches()
	b.open("/tasks/" + id)
	b.sees(".tag", "草稿")
	b.requireAccessible("draft")
	b.follows("#do-run")
	b.sees(".toast-note", "任务已启动")
	b.evaluate(`window.unbroken = true`, nil)
	// a button may refuse the focus until the page has been drawn
	b.awaits("the focus on #do-stop", `(document.getElementById("do-stop").focus(), document.activeElement.id === "do-stop")`)
	b.sees(".gauge .count", "1 / 100")
	b.sees(".tiles", "进行中")
	b.do(chromedp.WaitVisible("#board .b-r"))
	b.do(chromedp.WaitVisible("svg.plot"))
	b.requireAccessible("running task")
	var kept string
	b.evaluate(`window.unbroken + " " + document.activeElement.outerHTML.slice(0, 100)`, &kept)
	require.Contains(t, kept, `id="do-stop"`, "the page changed in place and kept the focus")
	b.requireUnbroken()

	b.follows("#do-stop")
	b.sees(".tag", "正在停止")
	b.evaluate(`window.unbroken = true`, nil)
	close(release)
	b.sees("#live .tag", "已停止")
	b.sees(".tiles", "未完成")
	b.requireUnbroken()
	b.requireAccessible("stopped task")
	b.follows(".task-tabs a[href$='/results']")
	b.sees(".partial", "部分结果")
	b.sees(".run .hint", "任务停止时尚无结果")
	b.requireAccessible("partial report")
	b.open("/tasks/" + id)
	b.follows("#do-resume")
	b.sees("#live .tag", "已完成")
	b.sees(".causes", "HTTP_503")
	isWell.Store(true)
	b.open("/tasks/" + id + "/results?filter=failed")
	b.evaluate(`window.unbroken = true; window.retried = document.querySelector(".verdict form").closest(".result").id`,
		nil)
	b.do(chromedp.Click(`.verdict form button`))
	b.awaits("the retried question",
		`!document.querySelector(".retrying") && !document.getElementById(window.retried).querySelector(".verdict .failed") && !document.getElementById(window.retried).hasAttribute("hx-get")`)
	b.requireUnbroken()
	var forbidden []string
	b.evaluate(`window.forbidden`, &forbidden)
	require.Empty(t, forbidden, "the policy allows all that the page does")
	b.open("/tasks/" + id)
	b.follows("#do-retry")
	b.sees(".tiles dd", "100")
	dbtest.Await(t, time.Minute, "the last retry", func() bool {
		return task(t, program.url, id).Statistics.Succeeded == 100
	})
	b.open("/tasks/" + id + "/launches")
	b.sees("#launches td", "继续未完成的运行")
	b.sees(".newest .said", "<img src=x onerror=alert(1)>")
	b.requireAccessible("calls and files")
	b.follows("#launches tbody tr:last-child a")
	b.sees(".history", "已被后续批次替换")
	b.requireAccessible("launch")
	b.open("/workers")
	b.sees("#workers .tag", "在线")
	b.requireAccessible("workers")
	b.open("/?from=" + id)
	b.sees("#preview .summary", "20 题")
	b.open("/tasks/" + id + "/settings")
	b.do(chromedp.Click(".confirm summary"), chromedp.WaitVisible(".confirm button"))
	b.requireAccessible("asks before it deletes")
	b.follows(".confirm button")
	b.sees(".toast-note", "任务已删除")
	b.sees("h2", "还没有评测任务")
}

func readReport(t *testing.T, path string) [][]string {
	t.Helper()
	if filepath.Ext(path) == ".xlsx" {
		book, err := excelize.OpenFile(path)
		require.NoError(t, err)
		defer book.Close()
		rows, err := book.GetRows("评测结果")
		require.NoError(t, err)
		return rows
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(content), "\uFEFF"))).ReadAll()
	require.NoError(t, err)
	return rows
}

// Without scripts everything works through plain forms, and at phone width a page scrolls in one direction only.
func TestThePagesWorkWithoutScriptsAndOnAPhone(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		agenttest.Stream(w, strings.Repeat("unbreakable", 100))
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--rate-limit-per-agent",
		"unlimited")
	file := filepath.Join(t.TempDir(), "q.csv")
	require.NoError(t, os.WriteFile(file, []byte("question,standard_answer\n问题一,答案\n"), 0o600))
	b := openBrowser(t, program.url)
	b.do(emulation.SetScriptExecutionDisabled(true), chromedp.EmulateViewport(390, 844))
	b.open("/")
	b.do(chromedp.WaitNotVisible(".only-script"), chromedp.WaitVisible("#submit:enabled"),
		chromedp.SendKeys("#agent_api_url", fake.URL), chromedp.SetUploadFiles("#dataset_file", []string{file}),
		chromedp.Click("#submit"), chromedp.WaitVisible("#task_name[aria-invalid=true]"))
	// The name was missing: the file and the URL are kept.
	b.do(chromedp.SendKeys("#task_name", "无脚本"), chromedp.Click("#submit"), chromedp.WaitVisible(".tasks"))
	dbtest.Await(t, time.Minute, "the task's end", func() bool {
		b.open("/tasks")
		var tag string
		b.do(chromedp.Text(".tasks .tag", &tag))
		return strings.TrimSpace(tag) == "已完成"
	})
	b.do(chromedp.Click(".col-actions a"), chromedp.WaitVisible(".result"), chromedp.Click(".fold .more"),
		chromedp.WaitVisible(".fold[open] > .text"))
	var buttons []*cdp.Node
	b.do(chromedp.Nodes(".only-script", &buttons, chromedp.ByQueryAll))
	require.NotEmpty(t, buttons)
	for _, button := range buttons {
		b.do(chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := dom.GetBoxModel().WithNodeID(button.NodeID).Do(ctx)
			require.Error(t, err, "what needs a script has no place without one: %s", button.AttributeValue("class"))
			return nil
		}))
	}
	var report string
	b.do(chromedp.Location(&report), emulation.SetScriptExecutionDisabled(false))
	page := strings.TrimSuffix(strings.TrimPrefix(report, program.url), "/results")
	for _, path := range []string{"/", "/tasks", page + "/results", page, page + "/review", page + "/report",
		page + "/gallery", page + "/settings", "/workers"} {
		b.open(path)
		var overflow int
		b.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &overflow)
		require.LessOrEqual(t, overflow, 0, path)
		b.requireAccessible("phone " + path)
	}
}
