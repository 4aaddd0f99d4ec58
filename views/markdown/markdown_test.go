package markdown

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A text from an agent may cost far more to format than its length suggests; in that case it is shown unformatted.
func TestHostileTextsAreNotFormatted(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"deep JSON": strings.Repeat("[", 4990) + strings.Repeat("]", 4990),
		"a table of nothing": "|" + strings.Repeat("a|", 1200) + "\n|" + strings.Repeat("-|", 1200) + "\n" +
			strings.Repeat("|\n", 2500),
		"quotes in quotes": strings.Repeat(">", 9000) + "a",
		"lists in lists":   strings.Repeat("- ", 4900) + "a",
		"brackets":         strings.Repeat("[", 10_000),
		"emphasis":         strings.Repeat("*a_", 3300),
		"too long":         strings.Repeat("长", maxFormatted+1),
	} {
		html := New().HTML(content)
		require.LessOrEqual(t, len(html), maxGrowth*len(content)+1024, name)
		require.Less(t, strings.Count(html, "<"), 6*maxCells, name)
	}
	require.Empty(t, New().HTML(strings.Repeat("长", maxFormatted+1)))
	require.Empty(t, New().HTML(strings.Repeat("1. ", maxNesting)+strings.Repeat("\n", 5000)), "each line walks all lists")
	rules := strings.Repeat("-", 80) + "\n" + strings.Repeat("*", 80) + "\n"
	require.NotEmpty(t, New().HTML("> - 1. a\n\n"+rules), "rules are no lists")
	formatter := New()
	formatter.left = 10
	require.Empty(t, formatter.HTML("# a long heading"), "a page has its budget")
}

// No text vanishes, and none becomes an active element.
func TestEveryTextStays(t *testing.T) {
	t.Parallel()
	for content, html := range map[string]string{
		"[结论]: 不合格\n\n其余正常":        "<p>[结论]: 不合格</p><p>其余正常</p>",
		`1\*2 &lt;b&gt; &amp;amp;`: "<p>1*2 &lt;b&gt; &amp;amp;</p>",
		"`1\\*2 &lt;`":             "<p><code>1\\*2 &amp;lt;</code></p>",
		"[a](javascript:x)":        "<p>a (javascript:x)</p>",
		"![a](http://x)":           "<p>[a] (http://x)</p>",
		"a <b onclick=x>":          "<p>a &lt;b onclick=x&gt;</p>",
		"1. a\n2. b":               `<ol start="1"><li>a</li><li>b</li></ol>`,
		"~~a~~ **b** *c*":          "<p><s>a</s> <strong>b</strong> <em>c</em></p>",
		"```html\n<i>\n```":        `<pre class="mono">&lt;i&gt;` + "\n</pre>",
	} {
		require.Equal(t, html, New().HTML(content), content)
	}
}

// The beginning of a text ends after a whole block: half a cell, item or line may show a different number.
func TestABeginningEndsBehindABlock(t *testing.T) {
	t.Parallel()
	table := "| 项目 | 金额 |\n| --- | --- |\n"
	for n := range 40 {
		table += "| 第 " + strings.Repeat("x", n%7) + " 项 | 1,200 元 |\n"
	}
	list := strings.Repeat("- 逾期超过 14 日，按 1,200 元计\n", 20)
	code := "```\n" + strings.Repeat("total = 1200\n", 40) + "```"
	prose := strings.Repeat("违约金为 1,200 元，期限 14 日。", 20)
	object := `{"a": 1200, "b": [` + strings.Repeat("1200, ", 40) + `1200]}`
	for limit := range 200 {
		for name, content := range map[string]string{
			"table": table, "table after text": "结论如下：\n\n" + table, "list": list, "code": code, "prose": prose,
			"object": object,
			"nested": "- 一\n   " + strings.ReplaceAll(list, "\n", "\n   "),
			"quoted": "> " + strings.ReplaceAll(list, "\n", "\n> "),
		} {
			html, isCut := New().Head(content, limit+1)
			require.True(t, isCut, "%s %d", name, limit)
			require.NotEmpty(t, html)
			rest := strings.NewReplacer("1,200", "", "1200", "", "14", "").Replace(html)
			require.NotContains(t, rest, "1", "%s %d: a part of a number: %s", name, limit, html)
			require.Equal(t, strings.Count(html, "1,200"), strings.Count(html, "1,200 元"), "%s %d: %s", name, limit, html)
			require.NotContains(t, html, "<td></td>", "%s %d", name, limit)
			require.NotContains(t, html, "<li></li>", "%s %d", name, limit)
			require.Equal(t, strings.Count(html, "<tr>")*2, strings.Count(html, "<td>"), "%s %d: whole rows", name, limit)
		}
	}
	html, isCut := New().Head("短", 400)
	require.False(t, isCut)
	require.Equal(t, New().HTML("短"), html)
	whole, isCut := New().Head(strings.Repeat("一个没有句号的段落", 100), 400)
	require.False(t, isCut, "nothing to cut behind")
	require.Contains(t, whole, "段落</p>")
}
