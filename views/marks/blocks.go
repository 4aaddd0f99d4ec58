package marks

import (
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/a-h/templ"

	"wending/db/measure"
	"wending/db/measure/blocks"
)

// Blocks are rendered without templates, like all texts of answers, because a template would add white space between
// elements.

// style is the style that Markdown marks give to a part of a text.
type style byte

const (
	plain style = iota
	bold
	code
	// hidden is the style of the marks themselves, visible only if all differences are marked.
	hidden
	// bullet is the mark of a list item.
	bullet
)

// styles returns the style of each byte of a block.
func styles(kind blocks.Kind, text string) []style {
	all := make([]style, len(text))
	set := func(from, to int, s style) {
		for n := from; n < to; n++ {
			all[n] = s
		}
	}
	for _, mark := range []struct {
		sign    string
		pattern *regexp.Regexp
		style   style
	}{{"**", strong, bold}, {"`", inCode, code}} {
		if !strings.Contains(text, mark.sign) {
			continue
		}
		for _, at := range mark.pattern.FindAllStringSubmatchIndex(text, -1) {
			if slices.Contains(all[at[0]:at[1]], code) || slices.Contains(all[at[0]:at[1]], hidden) {
				continue
			}
			set(at[0], at[1], hidden)
			set(at[2], at[3], mark.style)
		}
	}
	switch kind {
	case blocks.Heading:
		set(0, len(headingMark.FindString(text)), hidden)
	case blocks.Item:
		if at := bulletMark.FindStringSubmatchIndex(text); at != nil {
			set(at[2], at[3], bullet)
		}
	}
	return all
}

var (
	strong      = regexp.MustCompile(`\*\*([^*\n]+)\*\*`)
	inCode      = regexp.MustCompile("`([^`\n]+)`")
	headingMark = regexp.MustCompile(`^\s*#{1,6}\s+`)
	bulletMark  = regexp.MustCompile(`^\s*([-*+])\s`)
)

// writer writes one block with its marks.
type writer struct {
	html strings.Builder
	kind blocks.Kind
	// isWritten shows the block in its source form, with the marks of Markdown.
	isWritten bool
}

// degreeClasses are the CSS classes that show how much a difference matters.
var degreeClasses = map[blocks.Degree]string{blocks.Form: ` class="form"`, blocks.Fact: ` class="fact"`}

// put writes a part of a text; all holds the styles of its bytes, or is nil for the source form. If tag is not empty,
// the text is inside an element with this tag and the attributes in class.
func (w *writer) put(content string, all []style, tag, class string) {
	for from := 0; from < len(content); {
		to := from + 1
		for to < len(content) && (all == nil || all[to] == all[from]) {
			to++
		}
		part, s := templ.EscapeString(content[from:to]), plain
		if all != nil {
			s = all[from]
		}
		from = to
		switch s {
		case bold:
			part = "<strong>" + part + "</strong>"
		case code:
			part = "<code>" + part + "</code>"
		case bullet:
			part = "•"
		case hidden: // visible only if all differences are marked
			if tag == "" {
				continue
			}
			w.html.WriteString("<" + tag + ` class="form md">` + part + "</" + tag + ">")
			continue
		}
		if tag != "" {
			part = "<" + tag + class + ">" + part + "</" + tag + ">"
		}
		w.html.WriteString(part)
	}
}

func (w *writer) styles(content string) []style {
	if w.isWritten || w.kind == blocks.Code || w.kind == blocks.Member {
		return nil
	}
	return styles(w.kind, content)
}

// part returns the styles of the next n bytes and removes them from the list.
func part(all *[]style, n int) (taken []style) {
	if *all == nil {
		return nil
	}
	n = min(n, len(*all))
	taken, *all = (*all)[:n], (*all)[n:]
	return taken
}

// pieces writes a block with its differences from base, the most common answer's block, marked.
func (w *writer) pieces(base string, other blocks.Other, pieces []blocks.Piece) {
	var mine []style
	if !other.IsReworded {
		mine = w.styles(base)
	}
	theirs := w.styles(other.Text)
	for _, piece := range pieces {
		length := len(piece.Text)
		switch piece.Op {
		case measure.Delete:
			w.put(piece.Text, part(&mine, length), "del", degreeClasses[piece.Degree])
		case measure.Insert:
			w.put(piece.Text, part(&theirs, length), "ins", degreeClasses[piece.Degree])
		default:
			part(&mine, length)
			w.put(piece.Text, part(&theirs, length), "", "")
		}
	}
}

// stated writes a block and marks the terms that other answers state differently.
func (w *writer) stated(content string, terms []string) {
	all := w.styles(content)
	rest := content
	for rest != "" {
		at, term := -1, ""
		for _, one := range terms {
			if n := blocks.IndexOf(rest, one); n >= 0 && (at < 0 || n < at) {
				at, term = n, one
			}
		}
		if at < 0 {
			break
		}
		w.put(rest[:at], part(&all, at), "", "")
		w.put(term, part(&all, len(term)), "b", ` class="stated-here"`)
		rest = rest[at+len(term):]
		terms = slices.DeleteFunc(slices.Clone(terms), func(one string) bool { return one == term })
	}
	w.put(rest, part(&all, len(rest)), "", "")
}

// row returns the HTML of a table row. cells come from blocks.Cells, each including the mark that follows it; write(n)
// returns the HTML of the content of cell n, without marks.
func row(cells []string, write func(n int) string) string {
	var html strings.Builder
	html.WriteString("<tr>")
	for n, cell := range cells {
		if n == 0 && strings.Trim(cell, " |") == "" && len(cells) > 1 {
			continue // a mark before the first cell
		}
		html.WriteString("<td>" + write(n) + "</td>")
	}
	html.WriteString("</tr>")
	return html.String()
}

// bare returns a cell without the marks around it.
func bare(cell string) string { return strings.Trim(strings.TrimSpace(cell), "|") }

// cell returns the HTML of a cell's content, in which the terms that other answers state differently are marked.
func cell(content string, terms []string) string {
	w := writer{kind: blocks.Row}
	w.stated(strings.TrimSpace(bare(content)), terms)
	return w.html.String()
}

// longHead is the maximum length, in bytes, of a table header that is repeated above single rows.
const longHead = 2000

// single returns the HTML of a single row of a table, below the table's header unless the header is long.
func single(head, row string) string {
	if len(head) > longHead {
		head = ""
	}
	return table(head, row)
}

// table returns the HTML of a table with these rows below its header, so that the columns have names.
func table(head, rows string) string {
	html := `<table class="cells">`
	if head != "" {
		cells := blocks.Cells(head)
		html += "<thead>" + row(cells, func(n int) string { return cell(cells[n], nil) }) + "</thead>"
	}
	return html + "<tbody>" + rows + "</tbody></table>"
}

// cellsOfRow divides the pieces of a row among its cells; nil if the pieces were not computed cell by cell.
func cellsOfRow(text string, pieces []blocks.Piece) (all [][]blocks.Piece) {
	cells := blocks.Cells(text)
	var now []blocks.Piece
	length := 0
	for _, piece := range pieces {
		if now = append(now, piece); piece.Op != measure.Delete {
			length += len(piece.Text)
		}
		if len(all) < len(cells) && length >= len(cells[len(all)]) && piece.Op != measure.Delete {
			if length > len(cells[len(all)]) {
				return nil
			}
			all, now, length = append(all, now), nil, 0
		}
	}
	if len(all) != len(cells) || len(now) > 0 {
		return nil
	}
	return all
}

// component returns HTML that this package made from escaped texts.
func component(html string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, html)
		return err
	})
}

// Answers shows blocks of aligned answers.
type Answers struct {
	Reading *blocks.Reading
	// IsWritten shows texts in their source form, with the marks of Markdown.
	IsWritten bool
	// Timed calls find, which searches for the differences of two blocks, with the time that it may take.
	Timed func(find func(within time.Duration))
}

// Block shows a block as it is, and marks the terms that other answers state differently.
func (a Answers) Block(unit blocks.Unit, content string) templ.Component {
	terms := termsStated(unit)
	if unit.Kind == blocks.Row && !a.IsWritten {
		cells := blocks.Cells(content)
		return component(single(unit.Head, row(cells, func(n int) string { return cell(cells[n], terms) })))
	}
	w := writer{kind: unit.Kind, isWritten: a.IsWritten}
	w.stated(content, terms)
	return component(w.html.String())
}

// Other shows a block that differs from the most common answer's, with the differences marked.
func (a Answers) Other(unit blocks.Unit, other blocks.Other) templ.Component {
	var pieces []blocks.Piece
	a.Timed(func(within time.Duration) { pieces = a.Reading.Pieces(unit, other, within) })
	if len(pieces) == 0 { // one of the two answers has nothing here
		return a.Block(blocks.Unit{Kind: unit.Kind, Head: unit.Head}, other.Text)
	}
	if cells := cellsOfRow(other.Text, pieces); unit.Kind == blocks.Row && !a.IsWritten && cells != nil {
		texts := blocks.Cells(other.Text)
		return component(single(unit.Head, row(texts, func(n int) string { return cellPieces(cells[n]) })))
	}
	w := writer{kind: unit.Kind, isWritten: a.IsWritten}
	w.pieces(unit.Text, other, pieces)
	return component(w.html.String())
}

// cellPieces returns the HTML of a cell's content with its differences marked, without the marks of the table around
// it.
func cellPieces(pieces []blocks.Piece) string {
	w := writer{kind: blocks.Row}
	for n, piece := range pieces {
		tag := map[measure.Op]string{measure.Insert: "ins", measure.Delete: "del"}[piece.Op]
		content := piece.Text
		if n == 0 {
			content = strings.TrimLeft(content, " |")
		}
		if n == len(pieces)-1 {
			content = strings.TrimRight(content, " |")
		}
		w.put(content, w.styles(content), tag, degreeClasses[piece.Degree])
	}
	return w.html.String()
}

// List writes blocks one after another, and consecutive rows as one table.
func (a Answers) List(list []blocks.Block) templ.Component {
	var html strings.Builder
	for n := 0; n < len(list); n++ {
		kind := string(list[n].Kind)
		html.WriteString(`<div class="block text is-` + kind + `">`)
		if list[n].Kind != blocks.Row || a.IsWritten {
			w := writer{kind: list[n].Kind, isWritten: a.IsWritten}
			w.stated(list[n].Text, nil)
			html.WriteString(w.html.String() + "</div>")
			continue
		}
		rows, from := "", n
		for ; n < len(list) && list[n].Kind == blocks.Row && (n == from || list[n].Head != ""); n++ {
			cells := blocks.Cells(list[n].Text)
			rows += row(cells, func(n int) string { return cell(cells[n], nil) })
		}
		n--
		html.WriteString(table(list[from].Head, rows) + "</div>")
	}
	return component(html.String())
}

// termsStated returns the terms in the most common answer's version of a unit that other answers state differently.
func termsStated(unit blocks.Unit) (terms []string) {
	for _, other := range unit.Others {
		for _, term := range other.Against {
			if !slices.Contains(terms, term) {
				terms = append(terms, term)
			}
		}
	}
	return terms
}

// Preview returns the beginning of an answer on one line, without its Markdown marks.
func Preview(answer string, most int) string {
	return FirstLine(unmarked(markOfLine.ReplaceAllString(answer, "")), most)
}

// markOfLine matches the mark of a heading, a list item or a quotation at the beginning of a line.
var markOfLine = regexp.MustCompile(`(?m)^\s*(?:#{1,6}|[-*+>])\s+`)

// FirstLine returns a block on one line, cut after the given number of characters.
func FirstLine(content string, most int) string {
	content = strings.Join(strings.Fields(content), " ")
	if utf8.RuneCountInString(content) <= most {
		return content
	}
	return string([]rune(content)[:most]) + "…"
}
