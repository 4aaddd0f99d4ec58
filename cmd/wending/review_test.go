package main

import (
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

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// Two reviewers in two browsers judge with mouse and keyboard; a typed note is never lost.
func TestReviewersNoteTheirVerdicts(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "回答 "+call.Question+strings.Repeat(" 长", 150)+call.IdempotencyKey[len(call.IdempotencyKey)-1:])
	})
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8",
		"--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "评审", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	results := "/tasks/" + id + "/results"
	const first, note = ".result:first-of-type .verdict ", ".result:first-of-type .said-of textarea"
	const said = ".result:first-of-type .said-of li"

	one := openBrowser(t, p.url)
	one.open(results)
	one.requireAccessible("report with verdicts")
	one.do(chromedp.Click(first+"[data-note]"), chromedp.SendKeys(note, "第二次回答不同"))
	one.do(chromedp.Reload())
	one.do(chromedp.WaitVisible(note))
	var kept string
	one.do(chromedp.Value(note, &kept))
	require.Equal(t, "第二次回答不同", kept, "before a verdict, and after a reload")
	one.do(chromedp.Click(first+"[data-verdict=FAIL]"), chromedp.WaitVisible("#who-name"))
	one.requireAccessible("who reviews")
	one.do(chromedp.SendKeys("#who-name", "李雷"), chromedp.Click(`#who button[value=ok]`))
	one.sees(said, "李雷")
	one.sees(said, "不通过")
	one.sees(said+" .remark", "第二次回答不同")

	other := openBrowser(t, p.url)
	other.open(results)
	other.sees(said, "第二次回答不同")
	other.evaluate(`document.cookie = "reviewer=" + encodeURIComponent("李雷")`, nil) // the same person in another browser
	other.do(chromedp.Reload())
	other.do(chromedp.WaitVisible(first + `[data-verdict=FAIL][aria-pressed=true]`))
	other.do(chromedp.KeyEvent("1"))
	other.sees(said, "通过")
	other.do(chromedp.WaitVisible(first + `[data-verdict=PASS][aria-pressed=true]`))

	one.evaluate(`document.querySelector("`+note+`").value = ""`, nil)
	one.do(chromedp.SendKeys(note, "还是不对"), chromedp.Click(first+"[data-verdict=UNSURE]"))
	one.sees(".toast-note", "已在别处修改")
	one.do(chromedp.Value(note, &kept))
	require.Equal(t, "还是不对", kept, "what was typed stays where a verdict was refused")
	one.do(chromedp.WaitVisible(first+`[data-verdict=PASS][aria-pressed=true]`),
		chromedp.Click(first+"[data-verdict=UNSURE]"))
	one.do(chromedp.WaitVisible(first + `[data-verdict=UNSURE][aria-pressed=true]`))

	answer, err := http.Get(p.url + "/api/v1/evaluation-tasks/" + id + "/reviews")
	require.NoError(t, err)
	defer answer.Body.Close()
	var told struct {
		Items []struct {
			Reviewer, Verdict, Note string
			Version                 int
		}
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&told))
	require.Len(t, told.Items, 1)
	require.Equal(t, "UNSURE", told.Items[0].Verdict)
	require.Equal(t, "还是不对", told.Items[0].Note)
	require.Equal(t, 3, told.Items[0].Version)
	one.open(results)
	one.sees(".report-bar", "已评 1/20")
}

// A user can leave, save and judge with a note using only the keyboard; the note's state is shown below it.
func TestANoteIsWrittenByKeyboard(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "回答") })
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8",
		"--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "键盘", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, p.url)
	b.open("/tasks/" + id + "/results")
	b.evaluate(`document.cookie = "reviewer=" + encodeURIComponent("李雷") + "; path=/"`, nil)
	b.do(chromedp.Reload())
	const card = ".result:first-of-type "
	const note, state = card + ".said-of textarea", card + ".note-field [role=status]"
	// Keys are pressed by a script, because a key event of the DevTools protocol inserts its character even if the page
	// handles the key.
	pressed := func(key, code, modifier string) chromedp.Action {
		return chromedp.Evaluate(
			fmt.Sprintf(
				`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: %q, code: %q, %s: true, bubbles: true }))`, key, code, modifier), nil)
	}
	focused := func() (isNote bool) {
		b.evaluate(`document.activeElement.matches("textarea")`, &isNote)
		return isNote
	}
	b.do(chromedp.Click(card+"[data-note]"), chromedp.WaitVisible(note))
	b.requireAccessible("a note")
	b.do(chromedp.SendKeys(note, "12 与 19 不符"))
	b.sees(state, "存在本机")
	b.do(pressed("Enter", "Enter", "ctrlKey"))
	b.sees(".toast-note", "草稿已存")
	require.True(t, focused())
	b.do(chromedp.KeyEvent(kb.Escape))
	require.False(t, focused(), "Esc leaves the note")
	require.Empty(t, reviewsOf(t, p.url, id), "digits in a note judge nothing")

	b.do(chromedp.Focus(note))
	require.True(t, focused())
	b.do(pressed("2", "Digit2", "altKey"))
	b.sees(state, "已保存")
	b.sees(card+".said-list .remark", "12 与 19 不符")
	b.do(chromedp.Focus(note), chromedp.KeyEvent(kb.End), chromedp.KeyEvent("，第 3 次"), chromedp.KeyEvent(kb.Escape))
	b.sees(state, "草稿")
	require.Equal(t, "12 与 19 不符", reviewsOf(t, p.url, id)[0].Note, "Esc keeps a draft and sends nothing")
	b.do(chromedp.Focus(note), pressed("Enter", "Enter", "ctrlKey"))
	b.sees(card+".said-list .remark", "12 与 19 不符，第 3 次")
	require.Equal(t, struct{ Reviewer, Verdict, Note string }{"李雷", "FAIL", "12 与 19 不符，第 3 次"},
		reviewsOf(t, p.url, id)[0])
}

// Judging needs only the keyboard: the question with the most at stake comes first, with the reasons that its facts
// suggest preselected. A verdict is stored with the selected reasons, and opens the next question.
func TestQuestionsAreJudgedByKeysAlone(t *testing.T) {
	t.Parallel()
	answers := map[string][]string{
		"期限": {"收到申请之日起 30 日内答复。", "收到申请之日起 35 日内答复。"},
		"能否": {"公司可以解除劳动合同，并支付经济补偿。", "公司不可以解除劳动合同，并支付经济补偿。"},
		"相同": {"好的。"},
	}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		of := answers[call.Question]
		agenttest.Stream(w, of[min(len(of)-1, int(call.IdempotencyKey[len(call.IdempotencyKey)-1])%2)])
	})
	p := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8",
		"--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "按键", "agent_api_url": fake.URL, "runs_per_item": "20"},
		"question_id,question,standard_answer\nq1,相同,\nq2,能否,可以解除劳动合同\nq3,期限,30 日内答复\n")
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	putJSON(t, p.url+"/api/v1/projects/"+db.DefaultProject.String()+"/settings",
		`{"review_reasons": [], "review_dimensions": [{"name": "语气", "choices": ["得体", "生硬"]},
		{"name": "准确性", "min": 0, "max": 100}]}`)
	b := openBrowser(t, p.url)
	b.open("/tasks")
	b.evaluate(`document.cookie = "reviewer=" + encodeURIComponent("李雷") + "; path=/"`, nil)
	b.do(network.SetCookie("view", "merged").WithURL(p.url))
	b.open("/tasks/" + id + "/review/next")
	at := func(what string) {
		t.Helper()
		b.awaits(what,
			fmt.Sprintf(`document.readyState === "complete" && document.querySelector(".judging[data-question-id=%s]") !== null`,
				what))
	}
	pressed := func() (reasons string) {
		b.evaluate(
			`[...document.querySelectorAll("[data-reason][aria-pressed=true]")].map((one) => one.dataset.reason).join(" ")`,
			&reasons)
		return reasons
	}
	places := func() (places string) {
		b.evaluate(
			`[...document.querySelectorAll("[data-reason]")].map((one) => { const box = one.getBoundingClientRect(); return [box.left, box.width].join(); }).join(" ")`, &places)
		return places
	}
	first, second := "q2", "q3"
	var shown string
	b.evaluate(`document.querySelector(".judging").dataset.questionId`, &shown)
	if shown == second { // both contradict the standard answer, and chance decides which of them agrees less
		first, second = second, first
	}
	found := map[string]string{"q2": "conclusion", "q3": "number"}
	b.requireAccessible("review mode with reasons")
	b.sees(".position", "第 1 / 3 题 · 关键信息不同 1/2")
	require.Equal(t, found[first], pressed())
	before := places()
	b.do(chromedp.KeyEvent("8"), chromedp.KeyEvent("x"), chromedp.WaitVisible(".judging-text .is-here"))
	require.Equal(t, found[first]+" format", pressed())
	require.Equal(t, before, places(), "reasons do not move")
	b.do(chromedp.KeyEvent("s"), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("[data-rating][aria-pressed=true]"),
		chromedp.KeyEvent("s"), chromedp.KeyEvent("85"), chromedp.KeyEvent(kb.Tab))
	b.do(chromedp.Reload(), chromedp.WaitVisible("[data-reason=format][aria-pressed=true]"))
	b.do(chromedp.KeyEvent("2"))
	at(second)
	b.do(chromedp.KeyEvent("1")) // this passes the question, so the suggested reason does not apply
	at("q1")
	require.Equal(t, map[string][]string{first: {found[first], "format"}, second: {}}, reasonsOf(t, p.url, id))
	require.Equal(t, map[string]map[string]any{first: {"语气": "得体", "准确性": 85.0}, second: {}}, ratingsOf(t, p.url, id))
	b.do(chromedp.KeyEvent("k"))
	at(second)
	require.Empty(t, pressed(), "a verdict shows its own reasons")
	b.do(chromedp.KeyEvent("4"), chromedp.KeyEvent("1"))
	at("q1")
	require.Equal(t, []string{"number"}, reasonsOf(t, p.url, id)[second])
	b.do(chromedp.KeyEvent("u"))
	at(second)
	require.Empty(t, reasonsOf(t, p.url, id)[second], "undone with its reasons")

	b.do(chromedp.EmulateViewport(390, 844), chromedp.Reload(), chromedp.WaitVisible(".verdict-button"))
	var height, bottom float64
	b.evaluate(`document.querySelector(".verdict-button").getBoundingClientRect().height`, &height)
	b.evaluate(`innerHeight - document.querySelector(".judging-bar").getBoundingClientRect().bottom`, &bottom)
	require.InDelta(t, 48, height, 0.1)
	require.InDelta(t, 0, bottom, 0.1, "verdicts stay at the bottom")
	b.do(chromedp.Click("[data-note]"), chromedp.WaitVisible(".judging textarea"), chromedp.WaitVisible("[data-reason]"))
	b.requireAccessible("the sheet of a note")
	b.do(chromedp.SendKeys(".judging textarea", "手机上写的"))
	b.sees(".note-field [role=status]", "存在本机")
}

// reasonsOf returns the reasons of a task's verdicts, by question.
func reasonsOf(t *testing.T, url, id string) map[string][]string {
	t.Helper()
	reasons := map[string][]string{}
	for _, one := range groundsOf(t, url, id) {
		reasons[one.QuestionID] = one.Reasons
	}
	return reasons
}

// ratingsOf returns the ratings of a task's verdicts, by question.
func ratingsOf(t *testing.T, url, id string) map[string]map[string]any {
	t.Helper()
	ratings := map[string]map[string]any{}
	for _, one := range groundsOf(t, url, id) {
		ratings[one.QuestionID] = one.Ratings
	}
	return ratings
}

// grounds are what a reviewer gives with the verdict on a question.
type grounds struct {
	QuestionID string `json:"question_id"`
	Reasons    []string
	Ratings    map[string]any
}

func groundsOf(t *testing.T, url, id string) []grounds {
	t.Helper()
	answer, err := http.Get(url + "/api/v1/evaluation-tasks/" + id + "/reviews")
	require.NoError(t, err)
	defer answer.Body.Close()
	var told struct{ Items []grounds }
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&told))
	return told.Items
}
