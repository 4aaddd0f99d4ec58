package text_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// prose returns all texts in a language that users read, by place: the texts of pages, the lines of the guide, and
// the lines of the README.
func prose(t *testing.T, lang string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for key, forms := range texts(t, lang) {
		all[key] = strings.Join(forms, "\n")
	}
	chapters, err := filepath.Glob("../help/" + lang + "/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, chapters)
	for _, name := range chapters {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		all[name] = withoutExamples(string(content))
	}
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	chinese, english, hasBoth := strings.Cut(string(readme), "## English")
	require.True(t, hasBoth)
	all["README.md"] = withoutExamples(map[string]string{"zh-CN": chinese, "en": english}[lang])
	return all
}

// withoutExamples returns Markdown without its code blocks.
func withoutExamples(markdown string) string {
	return regexp.MustCompile("(?s)```.*?```").ReplaceAllString(markdown, "")
}

// Each thing has one name: the words on the left are retired in favour of those on the right.
func TestChineseTextsUseOneTermPerThing(t *testing.T) {
	t.Parallel()
	retired := map[string]string{
		`对比组`: "方案", `评判|评分`: "打分, or 裁判模型", `题目`: "问题 or 题", `延迟`: "耗时", `时长`: "用时", `速率`: "限速",
		`缺省`: "默认", `产物`: "文件", `推理`: "思考过程", `任务归档|下载归档`: "任务包", `账户`: "账号", `词元`: "Token",
		`货币`: "币种", `价格`: "单价", `同时调用|通道`: "并发", `\d %|\}\} %`: "% without a blank", `\p{Han}…{2}$|\p{Han}…$`: "...",
		`\p{Han} tokens?(?:[^:\pL]|$)|每百万 tokens`: "Token", `你`: "您", `！`: "no exclamation mark", `[「」]`: "“ and ”",
	}
	allowed := map[string]string{
		"create.probe.default":      "你",  // it addresses the agent, not the user
		"../help/zh-CN/datasets.md": "题目", // a name that users give a column
	}
	everything := prose(t, "zh-CN")
	for pattern, instead := range retired {
		word := regexp.MustCompile(pattern)
		for place, said := range everything {
			if exception := allowed[place]; exception != "" {
				said = strings.ReplaceAll(said, exception, "")
			}
			assert.NotRegexp(t, word, said, "%s: write %s", place, instead)
		}
	}
}

// Punctuation in Chinese text is full width, and a space separates Chinese from Latin letters and digits.
func TestChineseIsSetAsItShould(t *testing.T) {
	t.Parallel()
	// Texts that the specification prescribes to the letter, and related texts.
	prescribed := regexp.MustCompile(
		`^(error\.(AGENT_URL|DATASET_TOO_LARGE|TASK_NAME_TOO_LONG)|dataset\.(extension|empty|missing|separator)|` +
			`create\.(file\.hint|name\.placeholder)|results\.(title|export)|audit\.export|tasks\.stopped)`)
	inserted := regexp.MustCompile("\\{\\{[^{}]*\\}\\}|`[^`]*`")
	markup := regexp.MustCompile(`\]\([^)]*\)|!?\[|\{#[\w-]+\}|\*\*|header:`)
	for place, said := range prose(t, "zh-CN") {
		if prescribed.MatchString(place) {
			continue
		}
		said = markup.ReplaceAllString(inserted.ReplaceAllString(said, "◦"), "")
		assert.NotRegexp(t, `\p{Han}[,;:?!()]|[,;:?!()]\p{Han}`, said, "%s: punctuation of half width", place)
		assert.NotRegexp(t, `[，。；：、？）】] [^|→]`, said, "%s: a blank behind punctuation of full width", place)
		assert.NotRegexp(t, `\p{Han}[A-Za-z0-9]|[A-Za-z0-9]\p{Han}`, said, "%s: no blank between Chinese and Latin", place)
	}
}

// English texts avoid the words on the left; the right side names what to write instead.
func TestEnglishTextsArePlain(t *testing.T) {
	t.Parallel()
	habits := map[string]string{
		`(?i)\bwhoever\b|\bwhatever\b`: "the noun", `(?i)\bso many\b`: "the number's name",
		`\b(is|are) told\b`:     "is notified, receives",
		`(?i)\bextra payload\b`: "extra request body", `\bfor good\b|\banew\b`: "permanently, again",
		`\bbelongs? into\b`: "belongs in",
		`\d %|\}\} %`:       "% without a blank", `(?i)\bwending (says|tells)\b`: "Wending reports, shows",
	}
	everything := prose(t, "en")
	for pattern, instead := range habits {
		word := regexp.MustCompile(pattern)
		for place, said := range everything {
			assert.NotRegexp(t, word, said, "%s: write %s", place, instead)
		}
	}
}
