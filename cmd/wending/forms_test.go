package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// fillLibrary saves one entry of each kind that the forms for tasks offer, except for a dataset.
func fillLibrary(t *testing.T, base, agent string) {
	t.Helper()
	provider := save(t, base, "providers", map[string]any{"name": "甲", "protocol": "openai", "base_url": agent + "/v1"})
	save(t, base, "models", map[string]any{"provider_id": provider, "name": "大模型", "model_id": "large"})
	save(t, base, "agents", map[string]any{"name": "客服", "protocol": "default", "url": agent})
	save(t, base, "prompts", map[string]any{"name": "只答", "user": "{{question}}"})
	save(t, base, "evaluators", map[string]any{"name": "含标准答案", "kind": "contains"})
}

// Every message of the forms is visible, even if the library offers something for each of their fields.
func TestTheFormsSpeakWithAFullLibrary(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--rate-limit-per-agent",
		"unlimited")
	fillLibrary(t, program.url, fake.URL)
	folder := t.TempDir()
	small, large := filepath.Join(folder, "小.csv"), filepath.Join(folder, "大.csv")
	require.NoError(t, os.WriteFile(small, []byte("question,standard_answer\n问,答\n"), 0o600))
	require.NoError(t, os.WriteFile(large, []byte(strings.Repeat("x", 6<<20)), 0o600))

	b := openBrowser(t, program.url)
	b.open("/library/datasets/new")
	b.do(chromedp.SendKeys("#name", "常识"), chromedp.SetUploadFiles("#dataset_file", []string{small}))
	b.sees("#preview .summary", "1 题")
	b.follows("#entry .actions button")
	for _, page := range []string{"/", "/compare"} {
		b.open(page)
		b.do(chromedp.WaitVisible("#submit:disabled"))
		var kind string
		b.evaluate(`document.getElementById("create").dataset.constructor.name`, &kind)
		require.Equal(t, "HTMLSelectElement", kind, "a control that hides the form's property")
		b.evaluate(`document.querySelectorAll("#create details").forEach(part => { part.open = true; })`, nil)
		b.do(chromedp.Focus("#task_name"), chromedp.KeyEvent("\r"))
		b.sees("#task_name-error", "请输入任务名称")
		b.sees("#dataset_file-error", "请上传测试数据集文件")
		b.sees("#agent_api_url-error", "请输入智能体API URL")
		b.do(chromedp.SendKeys("#agent_api_url", "not a url"), chromedp.SendKeys("#task_name", strings.Repeat("长", 65)))
		b.sees("#agent_api_url-error", "请输入有效的HTTP或HTTPS地址")
		b.sees("#task_name-error", "64")
		b.do(chromedp.SetUploadFiles("#dataset_file", []string{large}))
		b.sees("#dataset_file-error", "5MB")
		b.sees("#dataset_file-error", "大.csv · 6.0 MB")
		b.evaluate(`for (const id of ["task_name", "agent_api_url"]) document.getElementById(id).value = ""`, nil)
		b.do(chromedp.SendKeys("#task_name", "满库 "+page), chromedp.SendKeys("#agent_api_url", fake.URL),
			chromedp.SetUploadFiles("#dataset_file", []string{small}))
		b.do(chromedp.WaitReady("input[name=dataset_token]"), chromedp.WaitVisible("#submit:enabled"))

		// The request is held back, so that the button can be inspected while the page waits.
		held := make(chan fetch.RequestID, 1)
		ctx, stop := context.WithCancel(b.ctx)
		chromedp.ListenTarget(ctx, func(event any) {
			if paused, isPaused := event.(*fetch.EventRequestPaused); isPaused {
				held <- paused.RequestID
			}
		})
		b.do(
			fetch.Enable().WithPatterns([]*fetch.RequestPattern{{URLPattern: program.url + "/tasks",
				ResourceType: network.ResourceTypeDocument}}))
		// One script clicks and looks, because a page that is being left may not answer another one.
		var sending struct {
			IsLoading, IsDisabled bool
			Text                  string
		}
		b.do(chromedp.Evaluate(`new Promise(resolve => {
			const submit = document.getElementById("submit");
			submit.click();
			const IsLoading = document.querySelector("html.is-loading main[aria-busy=true]") !== null;
			setTimeout(() => resolve({ IsLoading, IsDisabled: submit.disabled, Text: submit.textContent }));
		})`, &sending, awaitPromise))
		require.True(t, sending.IsLoading, "a page that is asked for shows that it is coming")
		require.True(t, sending.IsDisabled, "a second click does nothing")
		require.Contains(t, sending.Text, "创建中...")
		select {
		case id := <-held:
			b.do(fetch.ContinueRequest(id), fetch.Disable())
		case <-b.ctx.Done():
			t.Fatal("the form was not submitted")
		}
		stop()
		b.do(chromedp.WaitVisible(".tasks"))
		b.sees(".tasks .name", "满库 "+page)
	}
}

// A file of answers is checked when it is chosen, the column of answers is selected from those in the file, and the
// file is sent only once.
func TestAFileOfAnswersIsCheckedBeforeItIsImported(t *testing.T) {
	t.Parallel()
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0")
	folder := t.TempDir()
	first, second := filepath.Join(folder, "日志.csv"), filepath.Join(folder, "其他.csv")
	require.NoError(t, os.WriteFile(first, []byte("question,reply,城市\n多久,14 日,北京\n多久,30 日,北京\n"), 0o600))
	require.NoError(t, os.WriteFile(second, []byte("question,answer\n多久,14 日\n"), 0o600))
	b := openBrowser(t, program.url)
	b.open("/answers")
	b.do(chromedp.SetUploadFiles("#answers-file", []string{second}))
	b.sees("#answers-found .summary", "1 题")
	b.do(chromedp.SetUploadFiles("#answers-file", []string{first}))
	b.sees("#answers-found .error", "answer")
	b.do(chromedp.SetValue("#column_answer", "reply"))
	b.evaluate(`document.getElementById("column_answer").dispatchEvent(new Event("change", { bubbles: true }))`, nil)
	b.sees("#answers-found .summary", "2 次运行")
	b.sees("#answers-found", "城市")
	b.requireAccessible("the form with a preview")
	var isNarrow bool
	b.do(chromedp.EmulateViewport(390, 800))
	b.evaluate(`document.documentElement.scrollWidth <= 390`, &isNarrow)
	require.True(t, isNarrow, "nothing scrolls sideways on a phone")
	b.do(chromedp.SendKeys("#task_name", "线上日志"))
	b.follows("#answers-form .group button")
	b.sees("h1", "线上日志")
	var asked string
	b.evaluate(`performance.getEntriesByType("navigation")[0].name`, &asked)
	require.Contains(t, asked, "/results")
}
