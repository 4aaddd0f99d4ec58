package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// The form keeps its position and its contents: an error message does not move the buttons, the theme changes
// without a reload, Enter moves to the first missing field, and a file is sent once, with its progress.
func TestTheFormKeepsWhatWasTypedAndItsPlace(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--rate-limit-per-agent",
		"unlimited")
	var rows strings.Builder
	rows.WriteString("question,standard_answer\n")
	for n := range 1000 {
		fmt.Fprintf(&rows, "%d %s,a\n", n, strings.Repeat("长", 1000))
	}
	file := filepath.Join(t.TempDir(), "大文件.csv")
	require.NoError(t, os.WriteFile(file, []byte(rows.String()), 0o600))
	b := openBrowser(t, program.url)
	b.open("/")
	b.do(chromedp.WaitVisible("#submit:disabled"))
	b.evaluate(`window.unbroken = true; window.bytes = 0; const send = XMLHttpRequest.prototype.send;
		XMLHttpRequest.prototype.send = function (body) { if (body instanceof FormData) for (const part of body.values()) window.bytes += part.size || 0; return send.call(this, body); }; 0`, nil)
	place := func() (top float64) {
		b.evaluate(`document.getElementById("submit").getBoundingClientRect().top`, &top)
		return top
	}
	before := place()
	b.do(chromedp.SendKeys("#agent_api_url", "not a url"), chromedp.Click("#task_name"))
	b.sees("#agent_api_url-error", "请输入有效的HTTP或HTTPS地址")
	require.InDelta(t, before, place(), 1, "the button stays under the pointer")
	b.do(chromedp.KeyEvent("\r"))
	var focused string
	b.evaluate(`document.activeElement.id`, &focused)
	require.Equal(t, "task_name", focused, "the first missing field")
	require.Empty(t, fake.Calls(), "Enter calls no agent")

	b.do(chromedp.SendKeys("#task_name", "一次上传"), chromedp.Click("#theme"), chromedp.WaitReady("html.dark"))
	var name string
	b.do(chromedp.Value("#task_name", &name))
	b.requireUnbroken() // the theme changes without a reload
	require.Equal(t, "一次上传", name)

	slow := []*network.Conditions{{URLPattern: "", Latency: 1, DownloadThroughput: -1, UploadThroughput: 1 << 20}}
	b.do(network.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := network.EmulateNetworkConditionsByRule(false, slow).Do(ctx)
		return err
	}), chromedp.SetUploadFiles("#dataset_file", []string{file}))
	b.sees("#upload-name", "大文件.csv")
	b.awaits("the part that was sent", `/^[1-9][0-9]?%$/.test(document.getElementById("upload-percent").textContent)`)
	b.sees("#preview .file-name", "大文件.csv")
	b.do(chromedp.WaitReady("#drop.has-file"))
	var bytes, left int
	b.evaluate(`window.bytes`, &bytes)
	b.evaluate(`document.getElementById("dataset_file").files.length`, &left)
	require.Equal(t, rows.Len(), bytes, "the file travels once")
	require.Zero(t, left, "the form carries its token instead")

	b.follows(`button[name="lang"]`)
	b.do(chromedp.Value("#task_name", &name))
	require.Equal(t, "一次上传", name)
	b.sees("#preview .file-name", "大文件.csv")
	b.do(chromedp.Evaluate(`document.getElementById("agent_api_url").value = ""`, nil),
		chromedp.SendKeys("#agent_api_url", fake.URL), chromedp.WaitVisible("#submit:enabled"))
	b.do(chromedp.Focus("#task_name"))
	_, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent("\r"))
	require.NoError(t, err)
	b.sees(".tasks .name", "一次上传")

	b.open("/")
	b.do(chromedp.SendKeys("#task_name", "只存一次"), chromedp.SendKeys("#agent_api_url", fake.URL),
		chromedp.SetUploadFiles("#dataset_file", []string{file}))
	b.do(chromedp.WaitReady("input[name=dataset_token]"), chromedp.WaitVisible("#save:enabled"))
	_, err = chromedp.RunResponse(b.ctx,
		chromedp.Evaluate(`document.getElementById("save").click(); document.getElementById("save").click(); 0`, nil))
	require.NoError(t, err)
	b.sees("#live .tag", "Draft")
	answer, err := http.Get(program.url + "/api/v1/evaluation-tasks")
	require.NoError(t, err)
	defer answer.Body.Close()
	var list struct{ Pagination struct{ Total int } }
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&list))
	require.Equal(t, 2, list.Pagination.Total, "a second click saves nothing")
}

// The report keeps the reader's position: keys continue from what is on the screen, folds do not move the card, the
// control that opens a fold stays next to its text, columns stay next to each other, and switching the language returns
// to the same position.
func TestTheReportKeepsTheReadersPlace(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		agenttest.Stream(w, strings.Repeat("根据《民法典》第五百七十七条之规定，应当承担违约责任。\n", 80))
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--rate-limit-per-agent",
		"unlimited", "--evaluation-concurrency", "8")
	id := createTask(t, program.url, map[string]string{"task_name": "阅读", "agent_api_url": fake.URL, "runs_per_item": "6"},
		twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, program.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, program.url)
	b.do(chromedp.EmulateViewport(1240, 900))
	b.open("/tasks/" + id + "/results")
	b.do(chromedp.WaitVisible(".result"))

	var columns, overflow int
	b.evaluate(
		`new Set([...document.querySelector(".runs").children].map(run => Math.round(run.getBoundingClientRect().top))).size`,
		&columns)
	require.Equal(t, 1, columns, "six columns in one row")
	b.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &overflow)
	require.LessOrEqual(t, overflow, 0)
	var side float64
	b.evaluate(
		`Math.min(...[...document.querySelectorAll(".squares a, .strip .cell")].flatMap(e => { const r = e.getBoundingClientRect(); return r.width ? [r.width, r.height] : []; }))`, &side)
	require.GreaterOrEqual(t, side, 24.0, "targets are large enough")
	var isBehind bool
	b.evaluate(
		`(() => { const fold = document.querySelector(".run .fold"); const more = fold.querySelector(".more").getBoundingClientRect(); const text = fold.querySelector(".text").getBoundingClientRect(); return more.bottom >= text.bottom - 30 && text.width > fold.getBoundingClientRect().width * .9; })()`, &isBehind)
	require.True(t, isBehind, "what opens a fold follows the text, which has the whole width")

	number := func() (n int) { // of the focused card
		b.evaluate(`[...document.querySelectorAll(".result")].indexOf(document.activeElement) + 1`, &n)
		return n
	}
	settled := func(n int) {
		t.Helper()
		var away float64
		dbtest.Await(t, time.Minute, fmt.Sprintf("question %d below the head", n), func() bool {
			b.evaluate(
				fmt.Sprintf(
					`document.querySelectorAll(".result")[%d].getBoundingClientRect().top - document.querySelector(".report-bar").getBoundingClientRect().bottom`, n-1), &away)
			return away > 11 && away < 13
		})
	}
	for n := 1; n <= 2; n++ { // the first key leads to the first question, which the head of the page pushes down
		b.do(chromedp.KeyEvent("j"))
		settled(n)
		require.Equal(t, n, number())
	}
	// While the page scrolls; by a script, because on a busy machine the second key may come after the scrolling.
	b.evaluate(`for (const key of ["j", "r"]) document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }))`,
		nil)
	b.awaits("the third question's note",
		`Boolean(document.querySelectorAll(".result")[2].querySelector(".note-field:not([hidden])"))`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.evaluate(`document.querySelectorAll(".result")[9].scrollIntoView({behavior: "instant"})`, nil)
	// after a pause, keys move on from what is on the screen
	b.do(chromedp.Sleep(700*time.Millisecond), chromedp.KeyEvent("j"))
	settled(11)
	require.Equal(t, 11, number(), "from where one scrolled to, not from where one was")
	top := func() (y float64) {
		b.evaluate(`document.querySelectorAll(".result")[10].getBoundingClientRect().top`, &y)
		return y
	}
	before := top()
	b.do(chromedp.KeyEvent("E"))
	require.InDelta(t, before, top(), 2, "the card stays where it is")
	var open int
	b.evaluate(`document.querySelectorAll(".fold[open]").length`, &open)
	require.GreaterOrEqual(t, open, 100)
	// The button is clicked by a script, because a pointer would scroll to it first.
	_, err := chromedp.RunResponse(b.ctx,
		chromedp.Evaluate(`setTimeout(() => document.querySelector('button[name="lang"]').click()); 0`, nil))
	require.NoError(t, err)
	b.sees("h1", "Report: 阅读")
	b.awaits("the reader's place",
		fmt.Sprintf(`Math.abs(document.querySelectorAll(".result")[10].getBoundingClientRect().top - %f) < 60`, before))
	b.evaluate(`document.querySelectorAll(".fold[open]").length`, &open)
	require.GreaterOrEqual(t, open, 100, "and what was open is open")
}

// A long question in which one fact differs takes up a sixth of a screen, and a question with equal answers takes up
// one line. The heading above the fact appears next to the fold that precedes the fact. After the last fact on a page,
// the key for the next fact opens the first question of the next page.
func TestAQuestionTakesTheRoomOfItsDifference(t *testing.T) {
	t.Parallel()
	long := "## 概述\n\n" + strings.Repeat("本段说明办理的一般流程与注意事项，请当事人仔细阅读。\n\n", 25) +
		"## 期限\n\n公司应当在收到申请之日起 14 日内书面答复。\n\n## 其他\n\n附则见末页。"
	var mu sync.Mutex
	calls := map[string]int{}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		calls[call.Question]++
		isOdd := calls[call.Question] == 3 && call.Question != "q21" && call.Question != "q20"
		mu.Unlock()
		if isOdd {
			agenttest.Stream(w, strings.Replace(long, "14 日", "19 日", 1))
		} else {
			agenttest.Stream(w, long)
		}
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--rate-limit-per-agent",
		"unlimited", "--evaluation-concurrency", "8")
	id := createTask(t, program.url, map[string]string{"task_name": "密度", "agent_api_url": fake.URL}, twenty+"q21,14 日\n")
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, program.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, program.url)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.open("/tasks/" + id + "/results?view=merged&text=formatted")
	b.do(chromedp.WaitVisible(".result"))
	var heights []float64
	b.evaluate(`[...document.querySelectorAll(".result.is-factual")].map(card => card.getBoundingClientRect().height)`,
		&heights)
	require.Len(t, heights, 19)
	for _, height := range heights {
		require.InDelta(t, 124, height, 12)
	}
	b.evaluate(`[...document.querySelectorAll(".result.is-line")].map(card => card.getBoundingClientRect().height)`,
		&heights)
	require.Len(t, heights, 1)
	require.Less(t, heights[0], 40.0)
	var together []bool
	b.evaluate(
		`[...document.querySelectorAll(".above")].map(above => above.textContent === "期限" && Math.abs(above.getBoundingClientRect().top - above.parentElement.firstElementChild.getBoundingClientRect().top) < 3)`, &together)
	require.Len(t, together, 19)
	require.NotContains(t, together, false)

	var last string
	b.evaluate(`[...document.querySelectorAll(".unit.is-fact")].at(-1).id`, &last)
	b.evaluate(fmt.Sprintf("location.replace('#%s')", last), nil)
	b.awaits("the last fact of the page", fmt.Sprintf(`document.querySelector(":target")?.id === %q`, last))
	_, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent("x"))
	require.NoError(t, err)
	b.awaits("the first question of the next page",
		`location.hash === "#first" && location.search.includes("page=2") && document.activeElement === document.querySelector(".result")`)
}

// While the server is unavailable, a single persistent message shows how old the figures are.
func TestAPageSaysThatTheServerIsAway(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { <-release; agenttest.Stream(w, "x") })
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo) // the agent's server cannot end before its calls do, even after a failure
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--rate-limit-per-agent",
		"unlimited")
	id := createTask(t, program.url, map[string]string{"task_name": "断线", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "a call", func() bool { return len(fake.Calls()) > 0 })
	b := openBrowser(t, program.url)
	b.open("/tasks/" + id)
	b.sees("#live .tag", "运行中")
	b.awaits("the calls that are followed", `document.querySelector("[hx-trigger*=flights]") !== null`)
	b.do(chromedp.Evaluate(`window.lost = 0; document.body.addEventListener("htmx:sendError", () => window.lost++)`, nil))
	require.NoError(t, program.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, program.Process.Kill())
	<-program.exited
	letGo()
	b.sees("#offline", "连接已断开，数据停在")
	b.do(chromedp.WaitReady("html.is-offline"))
	b.awaits("polls without an answer", `window.lost >= 2`)
	var notes int
	b.evaluate(`document.querySelectorAll(".toast-note").length`, &notes)
	require.Zero(t, notes, "polling complains once, in the line")
}
