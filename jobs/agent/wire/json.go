package wire

import (
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// Agents write JSON that standard parsers reject: raw line feeds and tabs inside strings, bytes that are not UTF-8,
// numbers that no float can hold, values split over several "data:" lines. This reader accepts all of that, works on
// a stream in one pass, and keeps only the current value in memory.

// Reasons why a value could not be read.
var (
	errSyntax   = errors.New("not JSON")
	errCut      = errors.New("truncated inside a JSON value")
	errTooLarge = errors.New("too large")
)

const (
	// MaxText is the maximum length of an answer's text, in bytes.
	MaxText = 8 << 20
	// maxValueBytes is the maximum size of one JSON value, in bytes: MaxText bytes of Chinese, written as \u escapes,
	// become twice as long.
	maxValueBytes = 2*MaxText + 64<<10
	// maxNodes is how many parts of a value are kept: further lists and objects are skipped, and a value with more
	// than twice as many parts is too large. The first MaxItems of a list are kept; a list with more texts than that
	// is too large, because one of the skipped texts could be the answer.
	maxNodes = 100_000
	// MaxItems is how many items of a list are kept.
	MaxItems = 10_000
	// MaxRead is the maximum number of bytes that an agent may send for one answer, including pings, white space and
	// unknown events.
	MaxRead = 16 * MaxText
	// maxTreeDepth is the depth up to which a value is kept as a tree; deeper parts are checked and kept as text.
	maxTreeDepth = 64
)

// Kind is the type of a value.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Literal
	Number
	String
	Array
	Object
)

// Value is one JSON value, valid until the next one is read. If an object repeats a key, the first one wins.
type Value struct {
	Kind   Kind
	Text   []byte // for strings, the characters; for other kinds, the source text
	Fields []Field
	Items  []Value
}

// Field is a member of an object.
type Field struct {
	Name  string
	Value Value
}

// Get returns a member of an object.
func (v Value) Get(name string) (Value, bool) {
	for _, f := range v.Fields {
		if f.Name == name {
			return f.Value, true
		}
	}
	return Value{}, false
}

// At follows names into nested objects. If one is missing, it returns the zero Value, which is null.
func (v Value) At(names ...string) Value {
	for _, name := range names {
		v, _ = v.Get(name)
	}
	return v
}

// TextOf returns the string that an object holds under a name; empty if it holds none.
func (v Value) TextOf(name string) string {
	member, _ := v.Get(name)
	if member.Kind != String {
		return ""
	}
	return string(member.Text)
}

// IsTrue reports whether v is the literal true.
func (v Value) IsTrue() bool { return v.Kind == Literal && string(v.Text) == "true" }

// window reads src through a buffer that keeps every byte from mark on. If these bytes turn out not to be JSON, they
// can be read again as a line of text.
type window struct {
	src  io.Reader
	buf  []byte
	pos  int // the next byte to read
	mark int // the first byte to keep; -1 means none
	err  error
	// read counts the bytes read from src. reread counts those read again, because hostile text could make rereading
	// quadratic (see rewind).
	read, reread int
	// begin is the beginning of the source for error messages, a little longer than they show.
	begin []byte
	// nodes counts the parts of the current value; isPassedOver reports that some were not kept.
	nodes        int
	isPassedOver bool
}

func newWindow(src io.Reader) *window {
	return &window{src: src, buf: make([]byte, 0, 4096), mark: -1}
}

// more makes the byte at pos+ahead available; it returns false if the source has ended or failed before that byte.
func (w *window) more(ahead int) bool {
	for w.pos+ahead >= len(w.buf) {
		if w.err != nil {
			return false
		}
		keep := w.pos // if there is no mark
		if w.mark >= 0 {
			keep = w.mark
			if len(w.buf)-w.mark > maxValueBytes {
				w.err = errTooLarge
				return false
			}
		}
		if w.mark < 0 && keep > 0 && (keep == len(w.buf) || len(w.buf) == cap(w.buf)) {
			w.buf = w.buf[:copy(w.buf, w.buf[keep:])]
			w.pos -= keep
		}
		if len(w.buf) == cap(w.buf) {
			// Parts of the current value point into the old buffer, so it is left unchanged.
			w.buf = append(make([]byte, 0, max(4096, 2*(len(w.buf)-keep))), w.buf[keep:]...)
			w.pos -= keep
			if w.mark >= 0 {
				w.mark = 0
			}
		}
		n, err := w.src.Read(w.buf[len(w.buf):cap(w.buf)])
		if room := ExcerptBytes + utf8.UTFMax - len(w.begin); room > 0 {
			w.begin = append(w.begin, w.buf[len(w.buf):len(w.buf)+min(n, room)]...)
		}
		w.buf = w.buf[:len(w.buf)+n]
		w.read += n
		if err != nil {
			w.err = err
		}
		if w.read > MaxRead {
			w.err = errTooLarge
		}
	}
	return true
}

// peek returns the next byte without consuming it.
func (w *window) peek() (byte, bool) {
	if w.pos >= len(w.buf) && !w.more(0) {
		return 0, false
	}
	return w.buf[w.pos], true
}

// hasPrefix reports whether the next bytes equal prefix (which is in lower case), ignoring case. It reads no more
// bytes than necessary.
func (w *window) hasPrefix(prefix string) bool {
	for n := range len(prefix) {
		if !w.more(n) {
			return false
		}
		c := w.buf[w.pos+n]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != prefix[n] {
			return false
		}
	}
	return true
}

// rewind goes back to the mark. It returns false once the text has been reread eight times over: otherwise an answer
// whose lines each begin a value without ending it would take hours.
func (w *window) rewind() bool {
	w.reread += w.pos - w.mark
	if w.reread > 8*w.read+1<<20 {
		return false
	}
	w.pos = w.mark
	return true
}

func (w *window) skipBlanks() {
	for {
		c, ok := w.peek()
		if !ok || (c != ' ' && c != '\t') {
			return
		}
		w.pos++
	}
}

// skipSpace skips white space inside a value. After a line end it also skips "data:", because a value may span
// several lines of one server-sent event.
func (w *window) skipSpace() {
	for {
		c, ok := w.peek()
		if !ok {
			return
		}
		switch c {
		case ' ', '\t':
			w.pos++
		case '\r', '\n':
			w.pos++
			w.skipBlanks()
			if w.hasPrefix("data:") {
				w.pos += len("data:")
			}
		default:
			return
		}
	}
}

// value parses the value at pos. The caller has set the mark.
func (w *window) value(depth int) (Value, error) {
	c, ok := w.peek()
	if !ok {
		return Value{}, w.cut()
	}
	start := w.pos - w.mark
	switch {
	case c == '"':
		text, err := w.string()
		return Value{Kind: String, Text: text}, err
	case c == '{' || c == '[':
		if depth >= maxTreeDepth || w.nodes > maxNodes {
			w.isPassedOver = w.isPassedOver || depth < maxTreeDepth
			return w.skipDeep(c)
		}
		if c == '{' {
			return w.object(start, depth)
		}
		return w.array(start, depth)
	case c == '-' || ('0' <= c && c <= '9'):
		return w.number(start)
	default:
		return w.literal(start)
	}
}

func (w *window) cut() error {
	if errors.Is(w.err, errTooLarge) {
		return errTooLarge
	}
	return errCut
}

// source returns the text read since start, an offset from the mark. It is valid until the mark is cleared.
func (w *window) source(start int) []byte {
	return w.buf[w.mark+start : w.pos : w.pos]
}

// member moves to the next member of an object or array; isEnd reports that the closing bracket was there instead.
func (w *window) member(closing byte, isFirst bool) (isEnd bool, err error) {
	w.skipSpace()
	c, ok := w.peek()
	switch {
	case !ok:
		return false, w.cut()
	case c == closing:
		w.pos++
		return true, nil
	case isFirst:
		return false, nil
	case c != ',':
		return false, errSyntax
	}
	w.pos++
	w.skipSpace()
	return false, nil
}

func (w *window) object(start, depth int) (Value, error) {
	v := Value{Kind: Object}
	w.pos++
	for isFirst := true; ; isFirst = false {
		isEnd, err := w.member('}', isFirst)
		if err != nil {
			return v, err
		}
		if isEnd {
			v.Text = w.source(start)
			return v, nil
		}
		if err := w.expect('"'); err != nil {
			return v, err
		}
		name, err := w.string()
		if err != nil {
			return v, err
		}
		w.skipSpace()
		if err := w.expect(':'); err != nil {
			return v, err
		}
		w.pos++
		w.skipSpace()
		member, err := w.value(depth + 1)
		if err != nil {
			return v, err
		}
		if w.nodes++; w.nodes > 2*maxNodes {
			return v, errTooLarge
		}
		v.Fields = append(v.Fields, Field{string(name), member})
	}
}

// expect fails unless the next byte is c.
func (w *window) expect(c byte) error {
	next, ok := w.peek()
	if !ok {
		return w.cut()
	}
	if next != c {
		return errSyntax
	}
	return nil
}

func (w *window) array(start, depth int) (Value, error) {
	v := Value{Kind: Array}
	w.pos++
	for isFirst := true; ; isFirst = false {
		isEnd, err := w.member(']', isFirst)
		if err != nil {
			return v, err
		}
		if isEnd {
			v.Text = w.source(start)
			return v, nil
		}
		item, err := w.value(depth + 1)
		if err != nil {
			return v, err
		}
		if len(v.Items) == MaxItems && item.Kind != String {
			continue
		}
		if w.nodes++; w.nodes > 2*maxNodes || len(v.Items) == MaxItems {
			return v, errTooLarge
		}
		v.Items = append(v.Items, item)
	}
}

// skipDeep skips an object or array of any depth in constant stack space, checking only that brackets and strings
// close.
func (w *window) skipDeep(open byte) (Value, error) {
	start := w.pos - w.mark
	kindOf := map[byte]Kind{'{': Object, '[': Array}[open]
	var closers []byte
	for {
		c, ok := w.peek()
		if !ok {
			return Value{}, w.cut()
		}
		switch c {
		case '"':
			if _, err := w.string(); err != nil {
				return Value{}, err
			}
			continue
		case '{', '[':
			closers = append(closers, c+2) // '{'+2 is '}', '['+2 is ']'
		case '}', ']':
			if closers[len(closers)-1] != c {
				return Value{}, errSyntax
			}
			closers = closers[:len(closers)-1]
			if len(closers) == 0 {
				w.pos++
				return Value{Kind: kindOf, Text: w.source(start)}, nil
			}
		}
		w.pos++
	}
}

func (w *window) number(start int) (Value, error) {
	for {
		c, ok := w.peek()
		if !ok || (c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' && (c < '0' || c > '9')) {
			return Value{Kind: Number, Text: w.source(start)}, nil
		}
		w.pos++
	}
}

func (w *window) literal(start int) (Value, error) {
	for _, word := range []string{"true", "false", "null"} {
		matched := 0
		for matched < len(word) && w.more(matched) && w.buf[w.pos+matched] == word[matched] {
			matched++
		}
		if matched == len(word) {
			w.pos += matched
			if word == "null" {
				return Value{Kind: Null}, nil
			}
			return Value{Kind: Literal, Text: w.source(start)}, nil
		}
		if matched > 0 {
			if !w.more(matched) {
				return Value{}, w.cut()
			}
			return Value{}, errSyntax
		}
	}
	return Value{}, errSyntax
}

// string parses a string and resolves its escapes. Raw control characters are kept (as Python does with
// strict=False), and so are bytes that are not UTF-8; a lone surrogate becomes U+FFFD.
func (w *window) string() ([]byte, error) {
	w.pos++
	text := []byte{}
	for {
		if w.pos >= len(w.buf) && !w.more(0) {
			return text, w.cut()
		}
		// Take the plain text up to the next quote or backslash in one step.
		run := w.pos
		for run < len(w.buf) && w.buf[run] != '"' && w.buf[run] != '\\' {
			run++
		}
		text = append(text, w.buf[w.pos:run]...)
		w.pos = run
		if run == len(w.buf) {
			continue
		}
		if w.buf[run] == '"' {
			w.pos++
			return text, nil
		}
		if !w.more(1) {
			return text, w.cut()
		}
		escaped := w.buf[w.pos+1]
		w.pos += 2
		switch escaped {
		case '"', '\\', '/':
			text = append(text, escaped)
		case 'b':
			text = append(text, '\b')
		case 'f':
			text = append(text, '\f')
		case 'n':
			text = append(text, '\n')
		case 'r':
			text = append(text, '\r')
		case 't':
			text = append(text, '\t')
		case 'u':
			unit, err := w.hex4(0)
			if err != nil {
				return text, err
			}
			w.pos += 4
			if utf16.IsSurrogate(unit) {
				unit, err = w.pairWith(unit)
				if err != nil {
					return text, err
				}
			}
			text = utf8.AppendRune(text, unit)
		default:
			return text, errSyntax
		}
	}
}

// pairWith consumes the surrogate that follows, if there is one, and combines the two; otherwise it returns U+FFFD.
func (w *window) pairWith(high rune) (rune, error) {
	if !w.more(1) {
		return 0, w.cut()
	}
	if w.buf[w.pos] != '\\' || w.buf[w.pos+1] != 'u' {
		return utf8.RuneError, nil
	}
	low, err := w.hex4(2)
	if err != nil {
		return 0, err
	}
	joined := utf16.DecodeRune(high, low)
	if joined != utf8.RuneError {
		w.pos += 6
	}
	return joined, nil
}

// hex4 returns the value of the four hexadecimal digits at pos+ahead, without consuming them.
func (w *window) hex4(ahead int) (rune, error) {
	var unit rune
	for n := range 4 {
		if !w.more(ahead + n) {
			return 0, w.cut()
		}
		c := w.buf[w.pos+ahead+n]
		switch {
		case '0' <= c && c <= '9':
			unit = unit<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			unit = unit<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			unit = unit<<4 | rune(c-'A'+10)
		default:
			return 0, errSyntax
		}
	}
	return unit, nil
}
