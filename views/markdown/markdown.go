// Package markdown shows texts of agents as their authors meant them: Markdown and JSON.
package markdown

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/a-h/templ"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extended "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"wending/jobs/stability"
)

const (
	// maxFormatted is up to how many characters a text is formatted; longer ones are shown as they are.
	maxFormatted = 10_000
	// formattingTime is how long formatting the texts of one page may take; those after it are shown as they are.
	formattingTime = time.Second
	// maxNesting is how deeply formatted parts may be nested: Markdown that is deeper is left as text, JSON is shown as it
	// is.
	maxNesting = 20
	// maxCells is how many cells tables may have: a table of Markdown has all cells of its widest row in every other.
	maxCells = 5_000
	// maxGrowth is how many times as long as a text its HTML may be, and maxFormattedPage how long that of one page is.
	maxGrowth        = 8
	maxFormattedPage = 8 << 20
)

// Formatter shows texts as their authors meant them: Markdown and JSON. An agent's text is hostile: only the nodes that
// are written here exist, no links, no images, and HTML is text.
type Formatter struct {
	deadline time.Time
	left     int // bytes of HTML
}

// New returns a formatter for one page.
func New() *Formatter { return &Formatter{time.Now().Add(formattingTime), maxFormattedPage} }

// Definitions of links are left out: their text would vanish.
func markdownParser(extensions ...goldmark.Extender) parser.Parser {
	own := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...), parser.WithInlineParsers(parser.DefaultInlineParsers()...))
	return goldmark.New(goldmark.WithParser(own), goldmark.WithExtensions(extensions...)).Parser()
}

var (
	markdown              = markdownParser(extension.Table, extension.Strikethrough)
	markdownWithoutTables = markdownParser(extension.Strikethrough)
)

// HTML returns a text as HTML; "" if it must be shown as it is.
func (f *Formatter) HTML(content string) string {
	if utf8.RuneCountInString(content) > maxFormatted || time.Now().After(f.deadline) {
		return ""
	}
	html := formatJSON(content)
	if html == "" {
		html = formatMarkdown(content)
	}
	if len(html) > f.left {
		return ""
	}
	f.left -= len(html)
	return html
}

// formatJSON writes JSON with its members in order, indented; "" for anything else.
func formatJSON(content string) string {
	canonical := stability.CanonicalJSON(content)
	depth, deepest := 0, 0
	for _, r := range canonical { // brackets within texts count too: better once too often
		switch r {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	var pretty bytes.Buffer
	if canonical == "" || deepest > maxNesting || json.Indent(&pretty, []byte(canonical), "", "  ") != nil {
		return ""
	}
	return `<pre class="mono">` + templ.EscapeString(strings.TrimSpace(pretty.String())) + `</pre>`
}

func formatMarkdown(content string) string {
	lines, widest := 0, 0
	for line := range strings.Lines(content) {
		if pipes := strings.Count(line, "|"); pipes > 0 {
			lines, widest = lines+1, max(widest, pipes+1)
		}
	}
	reader := markdown
	if lines*widest > maxCells {
		reader = markdownWithoutTables
	}
	source := []byte(content)
	w := formatting{source: source}
	w.children(reader.Parse(text.NewReader(source)), 0)
	if w.html.Len() > maxGrowth*len(content)+1024 {
		return ""
	}
	return w.html.String()
}

// formatting writes the nodes of one text.
type formatting struct {
	source []byte
	html   strings.Builder
}

func (w *formatting) text(content []byte) { w.html.WriteString(templ.EscapeString(string(content))) }

func (w *formatting) children(node ast.Node, depth int) {
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		w.node(child, depth+1)
	}
}

func (w *formatting) element(tag string, node ast.Node, depth int) {
	name, _, _ := strings.Cut(tag, " ")
	w.html.WriteString("<" + tag + ">")
	w.children(node, depth)
	w.html.WriteString("</" + name + ">")
}

func (w *formatting) lines(node ast.Node) {
	lines := node.Lines()
	for n := range lines.Len() {
		line := lines.At(n)
		w.text(line.Value(w.source))
	}
}

func (w *formatting) node(node ast.Node, depth int) {
	if depth > maxNesting && node.HasChildren() {
		w.children(node, depth)
		return
	}
	switch node := node.(type) {
	case *ast.Heading:
		w.element(`p class="heading level-`+strconv.Itoa(node.Level)+`"`, node, depth)
	case *ast.Paragraph:
		w.element("p", node, depth)
	case *ast.Blockquote:
		w.element("blockquote", node, depth)
	case *ast.List:
		if node.IsOrdered() {
			w.element(`ol start="`+strconv.Itoa(node.Start)+`"`, node, depth)
		} else {
			w.element("ul", node, depth)
		}
	case *ast.ListItem:
		w.element("li", node, depth)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		w.html.WriteString(`<pre class="mono">`)
		w.lines(node)
		w.html.WriteString("</pre>")
	case *ast.ThematicBreak:
		w.html.WriteString("<hr>")
	case *ast.Emphasis:
		w.element([]string{"em", "strong"}[min(1, node.Level-1)], node, depth)
	case *extended.Strikethrough:
		w.element("s", node, depth)
	case *ast.CodeSpan: // in code a sign is that sign
		w.html.WriteString("<code>")
		for child := node.FirstChild(); child != nil; child = child.NextSibling() {
			if part, isText := child.(*ast.Text); isText {
				w.text(part.Segment.Value(w.source))
			}
		}
		w.html.WriteString("</code>")
	case *extended.Table:
		w.element("table", node, depth)
	case *extended.TableHeader:
		w.html.WriteString("<thead>")
		w.element("tr", node, depth)
		w.html.WriteString("</thead>")
	case *extended.TableRow:
		w.element("tr", node, depth)
	case *extended.TableCell:
		w.element("td", node, depth)
	case *ast.Text:
		plain := util.UnescapePunctuations(node.Segment.Value(w.source))
		w.text(util.ResolveEntityNames(util.ResolveNumericReferences(plain)))
		if node.SoftLineBreak() || node.HardLineBreak() {
			w.html.WriteString("<br>")
		}
	case *ast.String:
		w.text(node.Value)
	case *ast.Link:
		w.children(node, depth)
		w.text([]byte(" (" + string(node.Destination) + ")"))
	case *ast.Image:
		w.text([]byte("["))
		w.children(node, depth)
		w.text([]byte("] (" + string(node.Destination) + ")"))
	case *ast.AutoLink:
		w.text(node.URL(w.source))
	case *ast.RawHTML:
		for n := range node.Segments.Len() {
			segment := node.Segments.At(n)
			w.text(segment.Value(w.source))
		}
	case *ast.HTMLBlock:
		w.html.WriteString("<p>")
		w.lines(node)
		if node.HasClosure() {
			w.text(node.ClosureLine.Value(w.source))
		}
		w.html.WriteString("</p>")
	default: // a text block in a tight list, and whatever the parser may know one day
		w.children(node, depth)
	}
}
