package markdown

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an agent sends may be made to cost much more than it is long: then it is shown as it is.
func TestHostileTextsAreNotFormatted(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"deep JSON":          strings.Repeat("[", 4990) + strings.Repeat("]", 4990),
		"a table of nothing": "|" + strings.Repeat("a|", 1200) + "\n|" + strings.Repeat("-|", 1200) + "\n" + strings.Repeat("|\n", 2500),
		"quotes in quotes":   strings.Repeat(">", 9000) + "a",
		"lists in lists":     strings.Repeat("- ", 4900) + "a",
		"brackets":           strings.Repeat("[", 10_000),
		"emphasis":           strings.Repeat("*a_", 3300),
		"too long":           strings.Repeat("长", maxFormatted+1),
	} {
		html := New().HTML(content)
		require.LessOrEqual(t, len(html), maxGrowth*len(content)+1024, name)
		require.Less(t, strings.Count(html, "<"), 6*maxCells, name)
	}
	require.Empty(t, New().HTML(strings.Repeat("长", maxFormatted+1)))
	formatter := New()
	formatter.left = 10
	require.Empty(t, formatter.HTML("# a long heading"), "a page has its budget")
}

// No text vanishes, and none becomes an element that could act.
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
