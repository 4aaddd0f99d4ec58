package facts

import (
	"encoding/json"
	"strings"
)

// A sentence is the smallest thing that states something: a sentence, a cell of a table, a value of a JSON. The spans
// name what it is about.
type sentence struct {
	span
	heading, label, row, column span
}

// layout cuts a text into sentences.
type layout struct {
	*text
	sentences      []sentence
	heading, label span
	columns        []span
	isTable        bool
	nextBold       int
	blocks         int
}

// mostBlocks is how many beginnings of a JSON inside of an answer are tried.
const mostBlocks = 16

// block reads a JSON over several lines and returns where it ends, or from.
func (l *layout) block(from int) int {
	if l.runes[from] != '{' && l.runes[from] != '[' || l.blocks == mostBlocks {
		return from
	}
	l.blocks++
	for i := from + 1; i+1 < len(l.runes); i++ {
		if l.runes[i] == '\n' && (l.runes[i+1] == '}' || l.runes[i+1] == ']') {
			if l.readJSON(from, i+2) {
				return i + 2
			}
			break
		}
	}
	return from
}

func sentencesOf(t *text) []sentence {
	l := &layout{text: t}
	if l.readJSON(0, len(t.runes)) {
		return l.sentences
	}
	for from := 0; from < len(t.runes); {
		to := from
		for to < len(t.runes) && t.runes[to] != '\n' {
			to++
		}
		if end := l.block(from); end > from {
			from = end
			continue
		}
		l.line(from, to)
		from = to + 1
	}
	return l.sentences
}

func (l *layout) trim(s span) span {
	for s.from < s.to && l.runes[s.from] == ' ' {
		s.from++
	}
	for s.to > s.from && l.runes[s.to-1] == ' ' {
		s.to--
	}
	return s
}

func (l *layout) line(from, to int) {
	line := l.trim(span{from, to})
	for !line.isEmpty() && l.runes[line.from] == '>' {
		line = l.trim(span{line.from + 1, line.to})
	}
	if line.isEmpty() || l.isRule(line) {
		return
	}
	if l.isRow(line) {
		l.row(line)
		return
	}
	l.columns, l.isTable = nil, false
	if l.runes[line.from] == '#' {
		for line.from < line.to && l.runes[line.from] == '#' {
			line.from++
		}
		line.from = l.mark(l.trim(line))
		l.heading, l.label = line, span{}
		l.cut(line, sentence{})
		return
	}
	if l.readJSON(line.from, line.to) {
		return
	}
	item := span{l.mark(line), line.to}
	if l.isTitle(item) {
		l.label = item
		l.cut(item, sentence{heading: l.heading})
		return
	}
	label := l.lead(item)
	if label.isEmpty() {
		label = l.label
	}
	l.cut(item, sentence{heading: l.heading, label: label})
}

// isRule reports whether a line is nothing but dashes, as below a table's head, or opens and closes code.
func (l *layout) isRule(line span) bool {
	dashes := 0
	for _, r := range l.runes[line.from:line.to] {
		switch r {
		case '-', '=', '_', '–':
			dashes++
		case '|', ':', ' ', '+':
		default:
			return false
		}
	}
	if dashes > 0 && l.isTable && l.columns == nil {
		l.columns = l.lastRow()
	}
	return true
}

// isRow reports whether a line is a row of a table.
func (l *layout) isRow(line span) bool {
	if l.runes[line.from] == '|' {
		return true
	}
	bars := 0
	for _, r := range l.runes[line.from:line.to] {
		if r == '|' {
			bars++
		}
	}
	return bars >= 2 || bars == 1 && l.isTable
}

// lastRow returns the cells of the row that was read last: the head of the table.
func (l *layout) lastRow() []span {
	if len(l.sentences) == 0 {
		return nil
	}
	last := l.sentences[len(l.sentences)-1]
	from, to := last.from, last.to
	for from > 0 && l.runes[from-1] != '\n' {
		from--
	}
	for to < len(l.runes) && l.runes[to] != '\n' {
		to++
	}
	return l.cells(span{from, to})
}

func (l *layout) cells(line span) []span {
	line = l.trim(line)
	if !line.isEmpty() && l.runes[line.from] == '|' {
		line.from++
	}
	if !line.isEmpty() && l.runes[line.to-1] == '|' {
		line.to--
	}
	var cells []span
	from := line.from
	for i := line.from; i <= line.to; i++ {
		if i == line.to || l.runes[i] == '|' {
			cells = append(cells, l.trim(span{from, i}))
			from = i + 1
		}
	}
	return cells
}

func (l *layout) row(line span) {
	l.isTable = true
	cells := l.cells(line)
	var row span
	for i, cell := range cells {
		if cell.isEmpty() {
			continue
		}
		about := sentence{heading: l.heading, label: l.label, row: row}
		if i < len(l.columns) {
			about.column = l.columns[i]
		}
		l.cut(cell, about)
		if i == 0 {
			row = cell
		}
	}
}

// isTitle reports whether a line heads what follows: all of it is bold, or it is short and ends with a colon.
func (l *layout) isTitle(line span) bool {
	if line.isEmpty() {
		return false
	}
	if l.runes[line.to-1] == ':' && line.to-line.from <= 40 {
		return true
	}
	return l.boldEnd(line) == line.to
}

// boldEnd returns where the bold beginning of a line ends, or line.from.
func (l *layout) boldEnd(line span) int {
	for l.nextBold < len(l.bold) && l.bold[l.nextBold] < line.from {
		l.nextBold++
	}
	if l.nextBold+1 < len(l.bold) && l.bold[l.nextBold] == line.from && l.bold[l.nextBold+1] <= line.to {
		return l.bold[l.nextBold+1]
	}
	return line.from
}

// lead returns what a line names before its first sentence: bold, or up to a colon.
func (l *layout) lead(line span) span {
	if to := l.boldEnd(line); to > line.from && to-line.from <= 40 {
		return span{line.from, to}
	}
	for i := line.from; i < line.to && i < line.from+24; i++ {
		switch l.runes[i] {
		case ':':
			return span{line.from, i}
		case '，', '。', ',', ';', '.':
			return span{}
		}
	}
	return span{}
}

// mark returns where a line begins after the mark or the number of its list item.
func (l *layout) mark(line span) int {
	i := line.from
	r := l.at(i)
	switch {
	case r == '-' || r == '*' || r == '+' || r == '•' || r == '·':
		if l.at(i+1) == ' ' {
			return l.mark(l.trim(span{l.bullets(i, line.to), line.to}))
		}
	case r >= 0x2460 && r <= 0x2473:
		return l.blanks(i + 1)
	case r == '(':
		if end := l.listNumber(i + 1); end > i+1 && l.at(end) == ')' {
			return l.blanks(end + 1)
		}
	case r == '第':
		if end := l.listNumber(i + 1); end > i+1 && (l.at(end) == '，' || l.at(end) == '、' || l.at(end) == ',' || l.at(end) == ':') {
			return l.blanks(end + 1)
		}
	default:
		end := l.listNumber(i)
		if end == i || end-i > 3 {
			break
		}
		switch l.at(end) {
		case '.':
			if !isDigit(l.at(end + 1)) {
				return l.blanks(end + 1)
			}
		case '、', ')':
			return l.blanks(end + 1)
		}
	}
	return min(i, line.to)
}

// bullets returns where a row of bullets ends.
func (l *layout) bullets(i, to int) int {
	for i+1 < to && strings.ContainsRune("-*+•·", l.runes[i]) && l.runes[i+1] == ' ' {
		i = l.blanks(i + 1)
	}
	return i
}

func (l *layout) listNumber(i int) int {
	for isDigit(l.at(i)) || chineseDigit(l.at(i)) > 0 || l.at(i) == '十' {
		i++
	}
	return i
}

// cut adds the sentences of a span.
func (l *layout) cut(s span, about sentence) {
	s = l.trim(s)
	from := s.from
	for i := s.from; i < s.to; i++ {
		if l.isEnd(i, s.to) {
			l.add(span{from, i + 1}, about)
			from = i + 1
		}
	}
	l.add(span{from, s.to}, about)
}

func (l *layout) add(s span, about sentence) {
	s = l.trim(s)
	if s.isEmpty() {
		return
	}
	about.span = s
	l.sentences = append(l.sentences, about)
}

// isEnd reports whether a sentence ends with the character at i.
func (l *layout) isEnd(i, to int) bool {
	switch l.runes[i] {
	case '。', '！', '？', ';', '!', '?':
		return true
	case '.':
		next := l.blanks(i + 1)
		if next == i+1 && next < to {
			return isHan(l.at(next)) && !isDigit(l.at(i-1))
		}
		if next >= to {
			return true
		}
		isAbbreviation := isLatin(l.at(i-1)) && !isLatin(l.at(i-2)) || l.has(i-2, "no") || l.has(i-2, "vs")
		return !isAbbreviation && (l.at(next) < 'a' || l.at(next) > 'z')
	}
	return false
}

// readJSON adds the values of a JSON text, each about its key and about the first words beside it.
func (l *layout) readJSON(from, to int) bool {
	s := l.trim(span{from, to})
	for !s.isEmpty() && (l.runes[s.from] == '\n' || l.runes[s.to-1] == '\n') {
		if l.runes[s.from] == '\n' {
			s.from++
		} else {
			s.to--
		}
		s = l.trim(s)
	}
	if s.to-s.from < 2 || l.runes[s.from] != '{' && l.runes[s.from] != '[' || !json.Valid([]byte(l.slice(s))) {
		return false
	}
	r := jsonReader{layout: l, at: s.from}
	r.value(span{}, span{}, span{})
	return true
}

type jsonReader struct {
	*layout
	at int
}

func (r *jsonReader) skip() {
	for r.at < len(r.runes) && (r.runes[r.at] == ' ' || r.runes[r.at] == '\n' || r.runes[r.at] == ',' || r.runes[r.at] == ':') {
		r.at++
	}
}

// value reads one value and returns its span if it is a string.
func (r *jsonReader) value(parent, key, row span) span {
	r.skip()
	switch r.peek() {
	case '{':
		r.at++
		var first span
		for r.skip(); r.at < len(r.runes) && r.peek() != '}'; r.skip() {
			name := r.scalar()
			text := r.value(key, name, first)
			if first.isEmpty() {
				first = text
			}
		}
		r.at++
	case '[':
		r.at++
		for r.skip(); r.at < len(r.runes) && r.peek() != ']'; r.skip() {
			r.value(parent, key, row)
		}
		r.at++
	default:
		before := r.at
		isText := r.peek() == '"'
		s := r.scalar()
		if r.at == before {
			r.at++
		}
		r.cut(s, sentence{heading: parent, column: key, row: row})
		if isText {
			return s
		}
	}
	return span{}
}

func (r *jsonReader) peek() rune { return r.layout.text.at(r.at) }

func (r *jsonReader) scalar() span {
	if r.peek() != '"' {
		from := r.at
		for r.at < len(r.runes) {
			switch r.runes[r.at] {
			case ',', '}', ']', ' ', '\n', ':':
				return span{from, r.at}
			}
			r.at++
		}
		return span{from, r.at}
	}
	from := r.at + 1
	for r.at = from; r.at < len(r.runes) && r.runes[r.at] != '"'; r.at++ {
		if r.runes[r.at] == '\\' {
			r.at++
		}
	}
	to := min(r.at, len(r.runes))
	r.at++
	return span{from, max(from, to)}
}
