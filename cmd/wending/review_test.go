package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
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
	dbtest.Await(t, 30*time.Second, "the task's end", func() bool { return task(t, p.url, id).Status == "SUCCEEDED" })
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
