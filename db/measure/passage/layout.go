package passage

import (
	"encoding/json"
	"strings"
)

// A Sentence is the smallest unit that states something: a sentence, a cell of a table, or a value in a JSON text.
// Heading, Label, Row and Column name its subject; in a JSON text, Column is its key, Heading the key of the enclosing
// object, and Row the first string in the same object.
type Sentence struct {
	Span
	Heading, Label, Row, Column Span
	Line                        Span // the paragraph, list item or cell that contains it
	// IsName reports that it only names the text after it, as a heading or the first cell of a row does.
	IsName bool
	// IsQuestion reports that it ends with a question mark or a Chinese question word.
	IsQuestion bool
}

// layout cuts a text into sentences.
type layout struct {
	*Text
	sentences    []Sentence
	title, topic Span
	columns      []Span
	isTable      bool
	nextBold     int
	blocks       int
}

// mostBlocks is the maximum number of possible beginnings of a JSON text inside an answer that are tried.
const mostBlocks = 16

// block reads a JSON text that spans several lines and returns where it ends, or from if there is none.
func (l *layout) block(from int) int {
	if l.Runes[from] != '{' && l.Runes[from] != '[' || l.blocks == mostBlocks {
		return from
	}
	l.blocks++
	for i := from + 1; i+1 < len(l.Runes); i++ {
		if l.Runes[i] == '\n' && (l.Runes[i+1] == '}' || l.Runes[i+1] == ']') {
			if l.readJSON(from, i+2) {
				return i + 2
			}
			break
		}
	}
	return from
}

func sentencesOf(t *Text) []Sentence {
	l := &layout{Text: t}
	if l.readJSON(0, len(t.Runes)) {
		return l.sentences
	}
	for from := 0; from < len(t.Runes); {
		to := from
		for to < len(t.Runes) && t.Runes[to] != '\n' {
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

func (l *layout) trim(s Span) Span {
	for s.From < s.To && l.Runes[s.From] == ' ' {
		s.From++
	}
	for s.To > s.From && l.Runes[s.To-1] == ' ' {
		s.To--
	}
	return s
}

func (l *layout) line(from, to int) {
	line := l.trim(Span{From: from, To: to})
	for !line.IsEmpty() && l.Runes[line.From] == '>' {
		line = l.trim(Span{From: line.From + 1, To: line.To})
	}
	if line.IsEmpty() || l.isRule(line) {
		return
	}
	if l.isRow(line) {
		l.row(line)
		return
	}
	l.columns, l.isTable = nil, false
	if l.Runes[line.From] == '#' {
		for line.From < line.To && l.Runes[line.From] == '#' {
			line.From++
		}
		line.From = l.mark(l.trim(line))
		l.title, l.topic = line, Span{}
		l.cut(line, Sentence{IsName: true})
		return
	}
	if l.readJSON(line.From, line.To) {
		return
	}
	item := Span{From: l.mark(line), To: line.To}
	if l.isTitle(item) {
		l.topic = item
		l.cut(item, Sentence{Heading: l.title, IsName: l.Runes[item.To-1] == ':'})
		return
	}
	label := l.lead(item)
	if label.IsEmpty() {
		label = l.topic
	}
	l.cut(item, Sentence{Heading: l.title, Label: label})
}

// isRule reports whether a line consists only of dashes and similar marks. Below the first row of a table, such a line
// makes the cells of that row the names of the columns.
func (l *layout) isRule(line Span) bool {
	dashes := 0
	for _, r := range l.Runes[line.From:line.To] {
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
func (l *layout) isRow(line Span) bool {
	if l.Runes[line.From] == '|' {
		return true
	}
	bars := 0
	for _, r := range l.Runes[line.From:line.To] {
		if r == '|' {
			bars++
		}
	}
	return bars >= 2 || bars == 1 && l.isTable
}

// lastRow returns the cells of the row that was read last, which is the table's header.
func (l *layout) lastRow() []Span {
	if len(l.sentences) == 0 {
		return nil
	}
	last := l.sentences[len(l.sentences)-1]
	from, to := last.From, last.To
	for from > 0 && l.Runes[from-1] != '\n' {
		from--
	}
	for to < len(l.Runes) && l.Runes[to] != '\n' {
		to++
	}
	return l.cells(Span{From: from, To: to})
}

func (l *layout) cells(line Span) []Span {
	line = l.trim(line)
	if !line.IsEmpty() && l.Runes[line.From] == '|' {
		line.From++
	}
	if !line.IsEmpty() && l.Runes[line.To-1] == '|' {
		line.To--
	}
	var cells []Span
	from := line.From
	for i := line.From; i <= line.To; i++ {
		if i == line.To || l.Runes[i] == '|' {
			cells = append(cells, l.trim(Span{From: from, To: i}))
			from = i + 1
		}
	}
	return cells
}

func (l *layout) row(line Span) {
	l.isTable = true
	cells := l.cells(line)
	var row Span
	for i, cell := range cells {
		if cell.IsEmpty() {
			continue
		}
		about := Sentence{Heading: l.title, Label: l.topic, Row: row, IsName: i == 0 && len(cells) > 1}
		if i < len(l.columns) {
			about.Column = l.columns[i]
		}
		l.cut(cell, about)
		if i == 0 {
			row = cell
		}
	}
}

// isTitle reports whether a line is a heading of the text after it: it is entirely bold, or it is short and ends with
// a colon.
func (l *layout) isTitle(line Span) bool {
	if line.IsEmpty() {
		return false
	}
	if l.Runes[line.To-1] == ':' && line.To-line.From <= 40 {
		return true
	}
	return l.boldEnd(line) == line.To
}

// boldEnd returns the end of a line's bold beginning, or line.From if there is none.
func (l *layout) boldEnd(line Span) int {
	for l.nextBold < len(l.bold) && l.bold[l.nextBold] < line.From {
		l.nextBold++
	}
	if l.nextBold+1 < len(l.bold) && l.bold[l.nextBold] == line.From && l.bold[l.nextBold+1] <= line.To {
		return l.bold[l.nextBold+1]
	}
	return line.From
}

// lead returns the label at the beginning of a line: bold text, or text up to a colon.
func (l *layout) lead(line Span) Span {
	if to := l.boldEnd(line); to > line.From && to-line.From <= 40 {
		return Span{From: line.From, To: to}
	}
	for i := line.From; i < line.To && i < line.From+24; i++ {
		switch l.Runes[i] {
		case ':':
			return Span{From: line.From, To: i}
		case '，', '。', ',', ';', '.':
			return Span{}
		}
	}
	return Span{}
}

// mark returns where the text of a line begins, after the mark or number of its list item.
func (l *layout) mark(line Span) int {
	i := line.From
	r := l.At(i)
	switch {
	case r == '-' || r == '*' || r == '+' || r == '•' || r == '·':
		if end := l.bullets(i, line.To); end > i {
			return l.mark(l.trim(Span{From: end, To: line.To}))
		}
	case r >= 0x2460 && r <= 0x2473:
		return l.Blanks(i + 1)
	case r == '(':
		if end := l.listNumber(i + 1); end > i+1 && l.At(end) == ')' {
			return l.Blanks(end + 1)
		}
	case r == '第':
		if end := l.listNumber(i + 1); end > i+1 &&
			(l.At(end) == '，' || l.At(end) == '、' || l.At(end) == ',' || l.At(end) == ':') {
			return l.Blanks(end + 1)
		}
	default:
		end := l.listNumber(i)
		if end == i || end-i > 3 {
			break
		}
		switch l.At(end) {
		case '.':
			if !IsDigit(l.At(end + 1)) {
				return l.Blanks(end + 1)
			}
		case '、', ')', '\u20e3': // 1⃣
			return l.Blanks(end + 1)
		}
	}
	return min(i, line.To)
}

// bullets returns where the text after one or more bullets begins.
func (l *layout) bullets(i, to int) int {
	for i+1 < to && strings.ContainsRune("-*+•·", l.Runes[i]) && l.Runes[i+1] == ' ' {
		i = l.Blanks(i + 1)
	}
	return i
}

func (l *layout) listNumber(i int) int {
	for IsDigit(l.At(i)) || ChineseDigit(l.At(i)) > 0 || l.At(i) == '十' {
		i++
	}
	return i
}

// cut adds the sentences of a span, with what about says of all of them.
func (l *layout) cut(s Span, about Sentence) {
	s = l.trim(s)
	about.Line = s
	from := s.From
	for i := s.From; i < s.To; i++ {
		if r := l.Runes[i]; !IsHan(r) && !IsLatin(r) && l.isEnd(i, s.To) {
			l.add(Span{From: from, To: i + 1}, about)
			from = i + 1
		}
	}
	l.add(Span{From: from, To: s.To}, about)
}

func (l *layout) add(s Span, about Sentence) {
	s = l.trim(s)
	if s.IsEmpty() {
		return
	}
	about.Span = s
	switch l.Runes[s.To-1] {
	case '?', '？', '吗', '呢':
		about.IsQuestion = true
	}
	l.sentences = append(l.sentences, about)
}

// isEnd reports whether a sentence ends with the character at i.
func (l *layout) isEnd(i, to int) bool {
	switch l.Runes[i] {
	case '。', '！', '？', ';', '!', '?':
		return true
	case '.':
		next := l.Blanks(i + 1)
		if next == i+1 && next < to {
			return IsHan(l.At(next)) && !IsDigit(l.At(i-1))
		}
		if next >= to {
			return true
		}
		isAbbreviation := IsLatin(l.At(i-1)) && !IsLatin(l.At(i-2)) || l.Has(i-2, "no") || l.Has(i-2, "vs")
		if IsDigit(l.At(next)) && l.isAbbreviated(i) {
			return false
		}
		return !isAbbreviation && (l.At(next) < 'a' || l.At(next) > 'z')
	}
	return false
}

// abbreviations are words that end with a full stop before a number without ending a sentence: Jan. 3, max. 5 kg.
var abbreviations = strings.Fields(
	"jan feb mar apr jun jul aug sep sept oct nov dec approx max min art sec fig incl ca est tel ext no vol")

// isAbbreviated reports whether an abbreviation ends before i.
func (l *layout) isAbbreviated(i int) bool {
	for _, word := range abbreviations {
		if from := i - len(word); l.Has(from, word) && !IsLatin(l.At(from-1)) {
			return true
		}
	}
	return false
}

// readJSON adds the values of a JSON text, each with its key and the first string in its object. It reports whether
// the span is a JSON object or list.
func (l *layout) readJSON(from, to int) bool {
	s := l.trim(Span{From: from, To: to})
	for !s.IsEmpty() && (l.Runes[s.From] == '\n' || l.Runes[s.To-1] == '\n') {
		if l.Runes[s.From] == '\n' {
			s.From++
		} else {
			s.To--
		}
		s = l.trim(s)
	}
	if s.To-s.From < 2 || l.Runes[s.From] != '{' && l.Runes[s.From] != '[' || !json.Valid([]byte(l.Slice(s))) {
		return false
	}
	r := jsonReader{layout: l, place: s.From}
	r.value(Span{}, Span{}, Span{})
	return true
}

type jsonReader struct {
	*layout
	place int
}

func (r *jsonReader) skip() {
	for r.place < len(r.Runes) && (r.Runes[r.place] == ' ' || r.Runes[r.place] == '\n' || r.Runes[r.place] == ',' ||
		r.Runes[r.place] == ':') {
		r.place++
	}
}

// value reads one value and returns its span if it is a string.
func (r *jsonReader) value(parent, key, row Span) Span {
	r.skip()
	switch r.peek() {
	case '{':
		r.place++
		var first Span
		for r.skip(); r.place < len(r.Runes) && r.peek() != '}'; r.skip() {
			name := r.scalar()
			text := r.value(key, name, first)
			if first.IsEmpty() {
				first = text
			}
		}
		r.place++
	case '[':
		r.place++
		for r.skip(); r.place < len(r.Runes) && r.peek() != ']'; r.skip() {
			r.value(parent, key, row)
		}
		r.place++
	default:
		before := r.place
		isText := r.peek() == '"'
		s := r.scalar()
		if r.place == before {
			r.place++
		}
		r.cut(s, Sentence{Heading: parent, Column: key, Row: row})
		if isText {
			return s
		}
	}
	return Span{}
}

func (r *jsonReader) peek() rune { return r.At(r.place) }

func (r *jsonReader) scalar() Span {
	if r.peek() != '"' {
		from := r.place
		for r.place < len(r.Runes) {
			switch r.Runes[r.place] {
			case ',', '}', ']', ' ', '\n', ':':
				return Span{From: from, To: r.place}
			}
			r.place++
		}
		return Span{From: from, To: r.place}
	}
	from := r.place + 1
	for r.place = from; r.place < len(r.Runes) && r.Runes[r.place] != '"'; r.place++ {
		if r.Runes[r.place] == '\\' {
			r.place++
		}
	}
	to := min(r.place, len(r.Runes))
	r.place++
	return Span{From: from, To: max(from, to)}
}
