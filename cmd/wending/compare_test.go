package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
)

// Two prompts on two models over twenty questions, from an empty library to the exported report, the way a team would
// do it.
func TestAComparisonsStory(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	program := start(t, "up", "--data-dir", dir, "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "16")
	demo, err := os.ReadFile(filepath.Join(dir, "demo.address"))
	require.NoError(t, err)
	models := "http://" + strings.TrimSpace(string(demo)) + "/v1"
	b := openBrowser(t, program.url)

	b.open("/library/models")
	b.sees("h2", "还没有模型")
	b.requireAccessible("empty library")
	b.follows(`.blank a[href="/library/providers/new"]`)
	b.requireAccessible("form for a provider")
	b.do(chromedp.SendKeys("#name", "演示"), chromedp.SendKeys("#base_url", "not an address"),
		chromedp.SendKeys("#api_key", "canary"))
	b.follows("#entry button[type=submit]:last-of-type")
	b.sees("#base_url-error", "http")
	b.sees("#entry .hint", "已加密保留")
	b.requireAccessible("form for a provider with a mistake")
	b.evaluate(`document.getElementById("base_url").value = ""`, nil)
	b.do(chromedp.SendKeys("#base_url", models))
	b.do(chromedp.Click(".advanced > summary"), chromedp.WaitVisible("#rate_limit"),
		chromedp.SendKeys("#rate_limit", "unlimited"))
	b.follows("#entry .actions button")
	b.sees(".toast-note", "已保存")
	for _, model := range [][4]string{{"demo-large", "大模型", "8", "24"}, {"demo-small", "小模型", "0.5", "1.5"}} {
		b.open("/library/models/new")
		b.do(chromedp.SendKeys("#model_id", model[0]), chromedp.SendKeys("#name", model[1]),
			chromedp.SendKeys("#input_price", model[2]), chromedp.SendKeys("#output_price", model[3]))
		b.do(chromedp.SendKeys("#question", "商阳穴位于人体哪个部位？"), chromedp.Click(`[hx-post="/library/models/test"]`))
		b.sees("#probe .tag", "成功")
		b.sees("#probe .facts", "Token 用量")
		b.requireAccessible("tested model")
		b.follows("#entry .actions button")
		b.sees("h1", model[1])
	}
	b.requireAccessible("a model")
	b.open("/library/prompts")
	b.sees("h2", "还没有提示词")
	for _, prompt := range [][2]string{{"只答", "只回答结果：{{question}}"}, {"分析", "请先分析再回答：{{question}}{{tone}}"}} {
		b.open("/library/prompts/new")
		b.do(chromedp.SendKeys("#name", prompt[0]))
		b.evaluate(`document.getElementById("user").value = ""`, nil)
		b.do(chromedp.SendKeys("#user", prompt[1]))
		b.sees("mark.variable", "{{question}}")
		b.sees("#rendered pre", "请介绍一下你自己")
		if strings.Contains(prompt[1], "tone") {
			b.sees("#rendered .error", "tone")
			b.sees("mark.is-unknown", "{{tone}}")
		}
		b.requireAccessible("prompt editor")
		b.follows("#entry .actions button")
		b.sees(".toast-note", "已保存")
	}
	b.evaluate(
		`document.getElementById("user").value = "请先分析再回答：{{question}}"; document.getElementById("user").dispatchEvent(new Event("input", {bubbles: true}))`, nil)
	b.follows("#entry .actions button")
	b.sees("ol.uses", "v2")
	b.follows(`ol.uses a[href$="/versions/2"]`)
	b.sees("del", "tone")
	b.requireAccessible("version of a prompt")

	sample, err := filepath.Abs(filepath.Join("..", "..", "static", "assets", "sample.csv"))
	require.NoError(t, err)
	b.open("/library/datasets/new")
	b.do(chromedp.SendKeys("#name", "中文常识 20 题"), chromedp.SetUploadFiles("#dataset_file", []string{sample}))
	b.sees("#preview .summary", "20 题")
	b.follows("#entry .actions button")
	b.sees("h2", "20 行")
	b.requireAccessible("dataset")
	b.open("/library/evaluators")
	b.sees("h2", "还没有评估器")
	b.follows(`.blank a[href="/library/evaluators/new"]`)
	b.requireAccessible("kinds of evaluators")
	b.follows(`.kinds-list a[href*="kind=contains"]`)
	b.do(chromedp.SendKeys("#name", "含标准答案"), chromedp.SendKeys("[name=standard_answer]", "虎口"),
		chromedp.SendKeys("[name=answer]", "答案是<b>虎口</b>"), chromedp.Click(".try button"))
	b.sees("#tried", "通过")
	b.requireAccessible("evaluator that was tried")
	b.follows("#entry .actions button")
	b.sees("h1", "含标准答案")

	b.open("/compare")
	b.sees("#estimate", "请选择至少一个模型或智能体")
	b.requireAccessible("empty comparison")
	b.do(chromedp.WaitVisible("#submit:disabled"), chromedp.SendKeys("#task_name", "哪个组合更稳定"))
	b.evaluate(`document.querySelectorAll(".choice-list > .choice input[type=checkbox]").forEach(box => box.click())`, nil)
	b.sees("#estimate h2", "4 个方案")
	b.evaluate(
		`{ const list = document.querySelector("select[name=dataset]"); list.selectedIndex = 1; list.dispatchEvent(new Event("change", {bubbles: true})) }`, nil)
	b.sees("#preview .summary", "20 题")
	b.sees("#estimate .facts", "400 = 4 个方案 × 20 题 × 5 次")
	b.evaluate(`document.getElementById("concurrency").value = "16"`, nil)
	b.requireAccessible("comparison")
	b.follows("#submit")
	b.sees(".toast-note", "任务创建成功")
	b.sees(".tasks .tag", "已完成")

	b.follows(".col-actions a")
	b.sees("h1", "评测报告: 哪个组合更稳定")
	b.sees("table", "只答 v1 × 大模型")
	b.sees("table", "★")
	b.sees("table", "通过率")
	b.sees(".verdicts", "含标准答案")
	b.requireAccessible("report of a comparison")
	b.follows(`.task-tabs a[href$="/report"]`)
	var report string
	b.evaluate("location.pathname", &report)
	b.sees(".synopsis", "4 个方案，20 题")
	b.sees(".synopsis", "通过率：")
	b.requireAccessible("summary of a comparison")
	b.follows(`.task-tabs a[href$="/results"]`)
	downloads := t.TempDir()
	b.do(browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(downloads),
		chromedp.Click(`[data-export][href*="format=csv"]`))
	b.sees(".toast-note", "导出成功")
	path := filepath.Join(downloads, "哪个组合更稳定_评测报告.csv")
	dbtest.Await(t, time.Minute, "the download", func() bool { _, err := os.Stat(path); return err == nil })
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(content), "\uFEFF"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+20*4, "a row for each question and variant")
	require.NotContains(t, string(content), "canary")

	b.open("/library/prompts")
	b.follows("tbody tr:last-child a")
	b.sees(".uses", "哪个组合更稳定")
	b.sees(".confirm summary", "归档")

	// The same pages in English, dark, and on a phone.
	b.follows(`button[name="lang"]`)
	b.do(chromedp.Click("#theme"), chromedp.WaitVisible("html.dark"), chromedp.EmulateViewport(390, 844))
	var entries []string
	for _, kind := range []string{"prompts", "models", "providers", "agents", "datasets", "evaluators"} {
		b.open("/library/" + kind)
		var first string
		b.evaluate(`document.querySelector("tbody a")?.getAttribute("href") || ""`, &first)
		entries = append(entries, "/library/"+kind, "/library/"+kind+"/new")
		if first != "" {
			entries = append(entries, first)
		}
	}
	for _, path := range append(entries, "/compare", "/", report) {
		b.open(path)
		var overflow int
		b.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &overflow)
		require.LessOrEqual(t, overflow, 0, path)
		isOneOfAKind := !strings.HasPrefix(path, "/library/") || strings.HasPrefix(path, "/library/prompts") ||
			strings.HasSuffix(path, "/new")
		if isOneOfAKind {
			b.requireAccessible("phone, dark, in English: " + path)
		}
	}
}

// A user with an empty library tries the comparison with one click.
func TestTheComparisonIsTriedWithoutAKey(t *testing.T) {
	t.Parallel()
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0",
		"--evaluation-concurrency", "16")
	b := openBrowser(t, program.url)
	for range 2 { // the second time everything is saved already
		b.open("/compare")
		b.open("/library/agents")
		b.follows(`form[action="/demo/comparison"] button`)
		b.sees("#live .tag", "已完成")
	}
	b.follows(".task-tabs a[href$='/results']")
	b.sees("table", "演示：只回答结果 v1 × 演示模型（大）")
	b.sees(".verdicts", "演示：包含标准答案 通过")
	b.open("/library/models")
	b.sees("tbody", "演示模型（小）")
}
