package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// Two reviewers in two browsers note verdicts by mouse and by keyboard; a note that was typed is never lost.
func TestReviewersNoteTheirVerdicts(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "回答 "+call.Question+strings.Repeat(" 长", 150)+call.IdempotencyKey[len(call.IdempotencyKey)-1:])
	})
	p := start(t, "up", "--data-dir", dbtest.Folder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8", "--rate-limit-per-agent", "unlimited")
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
	other.evaluate(`document.cookie = "reviewer=" + encodeURIComponent("李雷")`, nil) // the same person elsewhere
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
	one.do(chromedp.WaitVisible(first+`[data-verdict=PASS][aria-pressed=true]`), chromedp.Click(first+"[data-verdict=UNSURE]"))
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

// A note is left, saved and judged from the keyboard; below it stands what has become of it.
func TestANoteIsWrittenByKeyboard(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "回答") })
	p := start(t, "up", "--data-dir", dbtest.Folder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "8", "--rate-limit-per-agent", "unlimited")
	id := createTask(t, p.url, map[string]string{"task_name": "键盘", "agent_api_url": fake.URL}, twenty)
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, p.url)
	b.open("/tasks/" + id + "/results")
	b.evaluate(`document.cookie = "reviewer=" + encodeURIComponent("李雷") + "; path=/"`, nil)
	b.do(chromedp.Reload())
	const card = ".result:first-of-type "
	const note, state = card + ".said-of textarea", card + ".note-field [role=status]"
	// By a script: a key of the protocol writes its character even where the page takes the key.
	pressed := func(key, code, modifier string) chromedp.Action {
		return chromedp.Evaluate(fmt.Sprintf(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: %q, code: %q, %s: true, bubbles: true }))`, key, code, modifier), nil)
	}
	focused := func() (isNote bool) {
		b.evaluate(`document.activeElement.matches("textarea")`, &isNote)
		return isNote
	}
	b.do(chromedp.Click(card+"[data-note]"), chromedp.WaitVisible(note))
	b.requireAccessible("a note")
	b.do(chromedp.SendKeys(note, "12 与 19 不符"))
	b.sees(state, "草稿，给出结论时保存")
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
	require.Equal(t, struct{ Reviewer, Verdict, Note string }{"李雷", "FAIL", "12 与 19 不符，第 3 次"}, reviewsOf(t, p.url, id)[0])
}
