// Package markdown shows agents' texts in the format that their authors intended: Markdown or JSON.
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

	"wending/db/measure"
)

const (
	// maxFormatted is the maximum length, in characters, of a text that is formatted; longer ones are shown
	// unformatted.
	maxFormatted = 10_000
	// formattingTime limits the time for formatting the texts of one page; after that, texts are shown unformatted.
	formattingTime = time.Second
	// maxNesting is the maximum nesting of formatted parts: more deeply nested Markdown is left as text, and such
	// JSON is shown unformatted.
	maxNesting = 20
	// maxCells is the maximum number of cells in tables: in Markdown, each row of a table has as many cells as the
	// widest one.
	maxCells = 5_000
	// maxGrowth is the maximum length of a text's HTML as a multiple of the text, and maxFormattedPage is the maximum
	// total length of one page's HTML, in bytes.
	maxGrowth        = 8
	maxFormattedPage = 8 << 20
)

// Formatter turns texts in Markdown or JSON into HTML. Agents' texts are hostile: only the kinds of nodes handled here
// become elements, there are no links or images, and HTML stays text.
type Formatter struct {
	deadline time.Time
	left     int // how many bytes of HTML the page may still have
}

// New returns a formatter for one page.
func New() *Formatter { return &Formatter{time.Now().Add(formattingTime), maxFormattedPage} }

// markdownParser returns a parser with extensions. It does not parse definitions of links, because their text would
// vanish.
func markdownParser(extensions ...goldmark.Extender) parser.Parser {
	own := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...))
	return goldmark.New(goldmark.WithParser(own), goldmark.WithExtensions(extensions...)).Parser()
}

var (
	markdown              = markdownParser(extension.Table, extension.Strikethrough)
	markdownWithoutTables = markdownParser(extension.Strikethrough)
)

// HTML returns a text as HTML; "" if it must be shown unformatted.
func (f *Formatter) HTML(content string) string {
	html, _ := f.Head(content, 0)
	return html
}

// Head returns the beginning of a text as HTML: about limit characters, or all of them if limit is 0. It ends after a
// row of a table, a list item, a line of code, a paragraph or, if the first paragraph is longer than the limit, a
// sentence: never inside a cell, because half a number would be a different number. isCut reports that there is more.
func (f *Formatter) Head(content string, limit int) (html string, isCut bool) {
	if utf8.RuneCountInString(content) > maxFormatted || time.Now().After(f.deadline) {
		return "", false
	}
	html, isCut = formatJSON(content, limit)
	if html == "" {
		html, isCut = formatMarkdown(content, limit)
	}
	if len(html) > f.left {
		return "", false
	}
	f.left -= len(html)
	return html, isCut
}

// Trusted returns the product's own Markdown as HTML, with links and pictures; the function address turns their
// destinations into addresses.
func Trusted(content string, address func(destination string) string) string {
	source := []byte(content)
	w := formatting{source: source, address: address}
	w.children(markdown.Parse(text.NewReader(source)), 0)
	return w.html.String()
}

// formatJSON writes the first lines of JSON with its members in order, indented; "" for anything else.
func formatJSON(content string, limit int) (html string, isCut bool) {
	canonical := measure.CanonicalJSON(content)
	depth, deepest := 0, 0
	// Brackets in strings are also counted, so a text may be refused unnecessarily, which does no harm.
	for _, r := range canonical {
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
		return "", false
	}
	w := formatting{limit: limit}
	for line := range strings.Lines(strings.TrimSpace(pretty.String())) {
		w.line([]byte(line))
	}
	return `<pre class="mono">` + w.html.String() + `</pre>`, w.isCut
}

func formatMarkdown(content string, limit int) (html string, isCut bool) {
	lines, widest := 0, 0
	for line := range strings.Lines(content) {
		if pipes := strings.Count(line, "|"); pipes > 0 {
			lines, widest = lines+1, max(widest, pipes+1)
		}
		if opensMany(line) {
			return "", false
		}
	}
	reader := markdown
	if lines*widest > maxCells {
		reader = markdownWithoutTables
	}
	source := []byte(content)
	w := formatting{source: source, limit: limit}
	w.children(reader.Parse(text.NewReader(source)), 0)
	if w.html.Len() > maxGrowth*len(content)+1024 {
		return "", false
	}
	return w.html.String(), w.isCut
}

// opensMany reports whether a line opens more than maxNesting quotes and lists within one another. At every following
// line the parser walks through all that are open, so that 5,000 characters could take seconds and gigabytes.
func opensMany(line string) bool {
	for range maxNesting {
		rest := strings.TrimLeft(line, " \t")
		marks := strings.TrimLeft(rest, "0123456789")
		switch {
		case strings.HasPrefix(rest, ">"):
			line = rest[1:]
		case len(marks) > 1 && strings.ContainsAny(marks[:1], "-+*.)") && strings.ContainsAny(marks[1:2], " \t\r\n"):
			line = marks[1:]
		default:
			return false
		}
	}
	return true
}

// formatting writes the nodes of one text.
type formatting struct {
	source []byte
	html   bytes.Buffer
	// limit is the number of characters after which no further block begins; 0 means no limit. shown counts the
	// written characters, and isCut reports that blocks were left out.
	limit, shown int
	isCut        bool
	// isCell reports that a cell of a table is being written.
	isCell bool
	// address turns the destinations of links and pictures into addresses; nil means that the text is hostile and
	// may have neither.
	address func(destination string) string
}

// link writes a link of a trusted text.
func (w *formatting) link(node *ast.Link, depth int) {
	w.html.WriteString(`<a href="` + templ.EscapeString(w.address(string(node.Destination))) + `">`)
	w.children(node, depth)
	w.html.WriteString("</a>")
}

// picture writes a picture in a trusted text, linked to the file itself.
func (w *formatting) picture(node *ast.Image, depth int) {
	address := templ.EscapeString(w.address(string(node.Destination)))
	w.html.WriteString(`<a class="picture-of" href="` + address + `"><img loading="lazy" src="` + address + `" alt="`)
	w.children(node, depth)
	w.html.WriteString(`"></a>`)
}

func (w *formatting) text(content []byte) {
	if w.isCut {
		return
	}
	w.shown += utf8.RuneCount(content)
	w.html.WriteString(templ.EscapeString(string(content)))
}

// isFull reports whether the limit is reached.
func (w *formatting) isFull() bool { return w.limit > 0 && w.shown > w.limit }

// children writes the children of a node. A block that does not fit is left out, with all following ones.
func (w *formatting) children(node ast.Node, depth int) {
	for child := node.FirstChild(); child != nil && !w.isCut; child = child.NextSibling() {
		length, shown := w.html.Len(), w.shown
		w.node(child, depth+1)
		_, isCell := child.(*extended.TableCell)
		isBlock := child.Type() == ast.TypeBlock && !isCell
		if isBlock && shown > 0 && (w.isFull() || w.isCut && w.shown == shown) {
			w.html.Truncate(length)
			w.shown, w.isCut = shown, true
		}
	}
}

// prose writes a part of a text; the sentence that crosses the limit is the last one.
func (w *formatting) prose(node *ast.Text, content []byte) {
	_, isHeading := node.Parent().(*ast.Heading)
	if w.limit == 0 || isHeading || w.isCell {
		w.text(content)
		return
	}
	room := w.limit - w.shown
	for place, r := range string(content) {
		if room--; room < 0 && strings.ContainsRune("。！？；", r) {
			end := place + utf8.RuneLen(r)
			w.text(content[:end])
			w.isCut = w.isCut || end < len(content) || node.NextSibling() != nil
			return
		}
	}
	w.text(content)
}

// line writes a line of code; lines beyond the limit are left out.
func (w *formatting) line(content []byte) {
	if w.limit > 0 && w.shown > 0 && w.shown+utf8.RuneCount(content) > w.limit {
		w.isCut = true
	}
	w.text(content)
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
		w.line(line.Value(w.source))
	}
}

// node writes a node: a block with its element, or an inline node.
func (w *formatting) node(node ast.Node, depth int) {
	switch {
	case depth > maxNesting && node.HasChildren():
		w.children(node, depth)
	case node.Type() == ast.TypeInline:
		w.inline(node, depth)
	default:
		w.block(node, depth)
	}
}

func (w *formatting) block(node ast.Node, depth int) {
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
	case *extended.Table:
		w.element("table", node, depth)
	case *extended.TableHeader:
		w.html.WriteString("<thead>")
		w.element("tr", node, depth)
		w.html.WriteString("</thead>")
	case *extended.TableRow:
		w.element("tr", node, depth)
	case *extended.TableCell:
		w.isCell = true
		w.element("td", node, depth)
		w.isCell = false
	case *ast.HTMLBlock:
		w.html.WriteString("<p>")
		w.lines(node)
		if node.HasClosure() {
			w.text(node.ClosureLine.Value(w.source))
		}
		w.html.WriteString("</p>")
	default: // a text block in a tight list, or any node that the parser may support in the future
		w.children(node, depth)
	}
}

func (w *formatting) inline(node ast.Node, depth int) {
	switch node := node.(type) {
	case *ast.Emphasis:
		w.element([]string{"em", "strong"}[min(1, node.Level-1)], node, depth)
	case *extended.Strikethrough:
		w.element("s", node, depth)
	case *ast.CodeSpan: // in code, characters have no special meaning
		w.html.WriteString("<code>")
		for child := node.FirstChild(); child != nil; child = child.NextSibling() {
			if part, isText := child.(*ast.Text); isText {
				w.text(part.Segment.Value(w.source))
			}
		}
		w.html.WriteString("</code>")
	case *ast.Text:
		plain := util.UnescapePunctuations(node.Segment.Value(w.source))
		w.prose(node, util.ResolveEntityNames(util.ResolveNumericReferences(plain)))
		if !w.isCut && (node.SoftLineBreak() || node.HardLineBreak()) {
			w.html.WriteString("<br>")
		}
	case *ast.String:
		w.text(node.Value)
	case *ast.Link:
		if w.address != nil {
			w.link(node, depth)
			return
		}
		w.children(node, depth)
		w.text([]byte(" (" + string(node.Destination) + ")"))
	case *ast.Image:
		if w.address != nil {
			w.picture(node, depth)
			return
		}
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
	default: // any node that the parser may support in the future
		w.children(node, depth)
	}
}
