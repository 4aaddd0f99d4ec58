// Package blocks lays out the answers to a question side by side for reading: each is cut into blocks (headings,
// paragraphs, list items, table rows, code, JSON values), which are aligned with the blocks of the most common answer,
// and differences inside them are marked by how much they matter.
package blocks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"wending/db/measure"
)

// Kind says which part of a document, such as a heading or a table row, a block is.
type Kind string

// The kinds of blocks.
const (
	Heading   Kind = "heading"
	Paragraph Kind = "paragraph"
	Item      Kind = "item"
	Row       Kind = "row"
	Code      Kind = "code"
	Member    Kind = "member" // a value of a JSON text, with its path
)

// Block is a part of an answer that is read as a whole.
type Block struct {
	Kind Kind
	// Text is the block as it was written, without the line break at its end; for a Member it is the path and
	// value.
	Text string
	// Head is the header row of the table that a Row belongs to; empty if the row is itself the header.
	Head string
	// plain is the text without its format and without the number of its list item: blocks with equal plain texts
	// state the same thing.
	plain string
	// shape caches the pairs of neighbouring characters of plain, by which unequal blocks are compared.
	shape *shape
}

// shape is a cache that all copies of a block share; it is filled on demand.
type shape struct {
	// pairs are the pairs of neighbouring characters of a block, sorted.
	pairs []uint32
}

const (
	// longLine is the length in bytes after which a line is cut at the next end of a sentence.
	longLine = 1500
	// mostBlocks is the maximum number of blocks in an answer. The last block of a text holds the rest; further values
	// of a JSON text are left out.
	mostBlocks = 6000
	// mostPairs is the maximum number of pairs of neighbouring characters by which a block is compared.
	mostPairs = 600
)

var (
	heading = regexp.MustCompile(`^\s*#{1,6}\s`)
	entry   = regexp.MustCompile(`^\s*(?:[-*+•·]\s|(?:\d{1,3}[.)、]|[（(]\d{1,3}[)）]|[一二三四五六七八九十]{1,3}、)\s?)`)
)

const (
	// blanks are the white space characters with which a line may be indented.
	blanks = " \t\f\r\v"
	// entryBegins are the characters with which the number or mark of a list item may begin.
	entryBegins = "-*+•·0123456789（(一二三四五六七八九十"
)

// isRow reports whether a line is a row of a table.
func isRow(line string) bool {
	line = strings.Trim(line, blanks)
	return len(line) > 1 && line[0] == '|' && line[len(line)-1] == '|'
}

// isRule reports whether a line is blank or the rule below a table's header row.
func isRule(line string) bool { return strings.Trim(line, blanks+"|:-") == "" }

// entryMark returns the number or mark of the list item that begins on a line; empty if none does.
func entryMark(line string) string {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(line, blanks))
	if !strings.ContainsRune(entryBegins, first) {
		return ""
	}
	return entry.FindString(line)
}

// Cut cuts an answer into blocks. Blank lines and the rule below a table's header row belong to no block; the values of
// a JSON text are ordered by key.
func Cut(answer string) []Block { return cutter{}.answer(answer) }

// cutter cuts answers that have many blocks in common: it holds the blocks seen so far, keyed by text.
type cutter map[string]Block

func (c cutter) answer(answer string) []Block {
	if members := c.json(answer); members != nil {
		return members
	}
	var cut []Block
	var code, rest []string
	isCode := false
	head := "" // the header row of the table that the current line may belong to
	for line := range strings.Lines(answer) {
		line = strings.TrimRight(line, "\r\n")
		isFence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case len(cut) == mostBlocks:
			rest = append(rest, line)
		case isCode:
			if code = append(code, line); isFence {
				cut, code, isCode = append(cut, c.block(Code, strings.Join(code, "\n"))), nil, false
			}
		case isFence:
			code, isCode = []string{line}, true
		case isRow(line) && !isRule(line):
			row := c.block(Row, line)
			row.Head = head
			cut, head = append(cut, row), cmp.Or(head, line)
			continue
		default:
			cut = append(cut, c.line(line)...)
		}
		if !isRule(line) || strings.TrimSpace(line) == "" {
			head = ""
		}
	}
	if isCode { // an unclosed fence
		cut = append(cut, c.block(Code, strings.Join(code, "\n")))
	}
	if len(rest) > 0 {
		last := &cut[mostBlocks-1]
		*last = newBlock(last.Kind, last.Text+"\n"+strings.Join(rest, "\n"))
	}
	return cut
}

func (c cutter) line(line string) []Block {
	switch {
	case isRule(line), strings.TrimSpace(line) == "":
		return nil
	case strings.HasPrefix(strings.TrimLeft(line, blanks), "#") && heading.MatchString(line):
		return []Block{c.block(Heading, line)}
	}
	kind := Paragraph
	if entryMark(line) != "" {
		kind = Item
	}
	var cut []Block
	for _, part := range sentences(line) {
		cut = append(cut, c.block(kind, part))
	}
	return cut
}

// Cells cuts a row of a table into its cells, each including the | that follows it: joined together, the cells are the
// row.
func Cells(row string) (cells []string) {
	from := 0
	first := len(row) - len(strings.TrimLeftFunc(row, unicode.IsSpace)) // a | here opens the first cell
	for at := range len(row) {
		if row[at] == '|' && (at == 0 || row[at-1] != '\\') && at > first {
			cells = append(cells, row[from:at+1])
			from = at + 1
		}
	}
	if from < len(row) {
		cells = append(cells, row[from:])
	}
	return cells
}

// sentences cuts a long line at the ends of sentences, into parts of at least longLine bytes; the last may be shorter.
func sentences(line string) (parts []string) {
	from := 0
	for at, r := range line {
		next := at + utf8.RuneLen(r)
		if r == utf8.RuneError { // an invalid byte is shorter than the character that replaces it
			continue
		}
		if next-from >= longLine && strings.ContainsRune("。！？!?；;", r) && next < len(line) {
			parts = append(parts, line[from:next])
			from = next
		}
	}
	return append(parts, line[from:])
}

// block returns a block with the given text; it is computed only once for equal texts.
func (c cutter) block(kind Kind, text string) Block {
	known, isKnown := c[text]
	if !isKnown || known.Kind != kind {
		known = newBlock(kind, text)
		c[text] = known
	}
	return known
}

func newBlock(kind Kind, text string) Block {
	b := Block{Kind: kind, Text: text, shape: &shape{}}
	said := text
	if kind == Item || kind == Paragraph {
		said = text[len(entryMark(text)):]
	}
	b.plain = measure.Plain(said)
	return b
}

// pairs returns the pairs of neighbouring characters of a block, sorted.
func (b Block) pairs() []uint32 {
	if b.shape.pairs == nil {
		b.shape.pairs = make([]uint32, 0, min(mostPairs, len(b.plain)))
		last := uint32(0)
		for _, r := range b.plain {
			if b.shape.pairs = append(b.shape.pairs, last*31+uint32(r)); len(b.shape.pairs) == mostPairs {
				break
			}
			last = uint32(r)
		}
		slices.Sort(b.shape.pairs)
	}
	return b.shape.pairs
}

// likeness returns how alike two blocks are, from 0 to 1.
func (b Block) likeness(other Block) float64 {
	if b.plain == other.plain {
		return 1
	}
	mine, theirs := b.pairs(), other.pairs()
	common := 0
	for i, j := 0, 0; i < len(mine) && j < len(theirs); {
		switch {
		case mine[i] < theirs[j]:
			i++
		case mine[i] > theirs[j]:
			j++
		default:
			common, i, j = common+1, i+1, j+1
		}
	}
	return 2 * float64(common) / float64(len(mine)+len(theirs))
}

// json cuts an answer that is a single JSON object or list, possibly in a fence, into its values. It returns nil for
// any other answer.
func (c cutter) json(answer string) []Block {
	canonical := measure.CanonicalJSON(answer)
	if canonical == "" {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(canonical))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	var cut []Block
	c.addMembers(&cut, "", value)
	return cut
}

// longPath is the maximum length of a path in bytes. Only the end of a longer path is kept, because every value below
// it repeats the path.
const longPath = 1000

// addMembers adds the texts, numbers and other simple values inside a JSON value, each with its path, until there are
// mostBlocks blocks.
func (c cutter) addMembers(cut *[]Block, path string, value any) {
	if len(path) > longPath {
		path = "…" + strings.ToValidUTF8(path[len(path)-longPath:], "")
	}
	if len(*cut) == mostBlocks {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(value))
		for key := range value {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			within := key
			if path != "" {
				within = path + "." + key
			}
			c.addMembers(cut, within, value[key])
		}
	case []any:
		for n, one := range value {
			c.addMembers(cut, path+"["+strconv.Itoa(n+1)+"]", one)
		}
	default:
		*cut = append(*cut, c.block(Member, path+": "+scalar(value)))
	}
}

// scalar returns a string as it is, and any other value as JSON.
func scalar(value any) string {
	if text, isText := value.(string); isText {
		return text
	}
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // cannot fail, because the value was decoded from JSON
	return strings.TrimSpace(written.String())
}
