package wire

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Models surround or change the JSON that they are asked for: with thoughts, prose and fences, Python's quotes,
// comments, curly quotes and superfluous commas, or they cut it off in the middle. This reader still finds the
// JSON.

// Passage is a JSON object or list that was found in a text.
type Passage struct {
	Value Value
	// From and To are the byte offsets of the passage's beginning and end in the text.
	From, To int
	// IsCut reports that the text ended inside the value; Value then holds the complete part.
	IsCut bool
}

// maxTried is the maximum number of brackets at which parsing is tried: a text full of brackets would take too long.
const maxTried = 400

// The marks that reasoning models put around their thoughts.
const (
	thoughtBegins = "<think>"
	thoughtEnds   = "</think>"
)

// AfterThoughts returns a reply without the thoughts at its beginning, or an empty text if the thoughts do not end.
func AfterThoughts(reply string) string {
	rest, isThinking := strings.CutPrefix(strings.TrimSpace(reply), thoughtBegins)
	if !isThinking {
		return reply
	}
	_, said, _ := strings.Cut(rest, thoughtEnds)
	return said
}

// Unfenced returns a reply without the Markdown fence that encloses all of it, if there is one.
func Unfenced(reply string) string {
	text := strings.TrimSpace(reply)
	if _, body, hasLines := strings.Cut(text, "\n"); hasLines && strings.HasPrefix(text, "```") {
		return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(body), "```"))
	}
	return text
}

// Passages returns the objects and lists in a text, in order, without those inside others. Passages before an
// end-of-thoughts mark are left out, because some models omit the mark at the beginning.
func Passages(text string) (found []Passage) {
	at := 0
	for tried := 0; tried < maxTried; tried++ {
		next := strings.IndexAny(text[at:], "{[")
		if next < 0 {
			break
		}
		if strings.Contains(text[at:at+next], thoughtEnds) {
			found = nil
		}
		at += next
		r := looseReader{text: text, at: at}
		value, ok := r.value(0)
		if !ok || r.isCut && !r.isSomething {
			at++
			continue
		}
		found = append(found, Passage{value, at, r.at, r.isCut})
		at = r.at
	}
	if strings.Contains(text[at:], thoughtEnds) {
		return nil
	}
	return found
}

// Loosely parses a text that is one JSON value in any notation that Passages accepts.
func Loosely(text string) (v Value, ok bool) {
	r := looseReader{text: text}
	r.skip()
	v, ok = r.value(0)
	r.skip()
	return v, ok && !r.isCut && r.at == len(text)
}

// looseReader parses one value from text[at:].
type looseReader struct {
	text string
	at   int
	// isCut reports that the text ended within the value; isSomething reports that a part of the value was complete
	// before that.
	isCut, isSomething bool
}

// peek returns the next character; 0 at the end.
func (r *looseReader) peek() rune {
	if r.at >= len(r.text) {
		return 0
	}
	c, _ := utf8.DecodeRuneInString(r.text[r.at:])
	return c
}

func (r *looseReader) next() rune {
	c, size := utf8.DecodeRuneInString(r.text[r.at:])
	r.at += size
	return c
}

// skip skips white space and comments.
func (r *looseReader) skip() {
	for r.at < len(r.text) {
		rest := r.text[r.at:]
		switch {
		case unicode.IsSpace(r.peek()):
			r.next()
		case strings.HasPrefix(rest, "//") || rest[0] == '#':
			r.at += endOr(rest, strings.IndexByte(rest, '\n'))
		case strings.HasPrefix(rest, "/*"):
			r.at += endOr(rest, strings.Index(rest, "*/")+len("*/"), len("*/"))
		default:
			return
		}
	}
}

// endOr returns place. If place is negative or below least, which means that nothing was found, it returns the end of
// the text.
func endOr(text string, place int, least ...int) int {
	if place < 0 || len(least) > 0 && place < least[0] {
		return len(text)
	}
	return place
}

// value parses a value. ok is false if there is none; a value that the end of the text cuts off is parsed as far as
// possible.
func (r *looseReader) value(depth int) (v Value, ok bool) {
	if depth > maxTreeDepth {
		return v, false
	}
	switch c := r.peek(); {
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.list(depth)
	case closersOf(c) != "":
		text, ok := r.quoted(false)
		return Value{Kind: String, Text: []byte(text)}, ok
	default:
		return r.bare()
	}
}

func (r *looseReader) object(depth int) (v Value, ok bool) {
	v.Kind = Object
	from := r.at
	r.next()
	for {
		r.skip()
		c := r.peek()
		switch {
		case c == 0:
			r.isCut = true
			return v, true
		case c == '}':
			r.next()
			v.Text = []byte(r.text[from:r.at])
			return v, true
		case isComma(c) && len(v.Fields) > 0:
			r.next()
			continue
		}
		name, ok := r.name()
		if r.isCut || !ok {
			return v, ok
		}
		if r.skip(); r.peek() == 0 {
			r.isCut = true
			return v, true
		}
		if c := r.next(); c != ':' && c != '：' {
			return v, false
		}
		r.skip()
		member, ok := r.value(depth + 1)
		if !ok {
			return v, false
		}
		if r.isCut && len(member.Fields) == 0 && len(member.Items) == 0 {
			return v, true
		}
		v.Fields, r.isSomething = append(v.Fields, Field{name, member}), true
		if r.isCut || !r.isBetween('}') {
			return v, r.isCut
		}
	}
}

func (r *looseReader) list(depth int) (v Value, ok bool) {
	v.Kind = Array
	from := r.at
	r.next()
	for {
		r.skip()
		c := r.peek()
		switch {
		case c == 0:
			r.isCut = true
			return v, true
		case c == ']':
			r.next()
			v.Text = []byte(r.text[from:r.at])
			return v, true
		case isComma(c) && len(v.Items) > 0:
			r.next()
			continue
		}
		item, ok := r.value(depth + 1)
		if !ok {
			return v, false
		}
		if r.isCut && len(item.Fields) == 0 && len(item.Items) == 0 {
			return v, true
		}
		v.Items = append(v.Items, item)
		if r.isCut || !r.isBetween(']') {
			return v, r.isCut
		}
	}
}

// isBetween reports whether a comma or the closing bracket end comes next. At the end of the text it marks the value as
// cut.
func (r *looseReader) isBetween(end rune) bool {
	r.skip()
	c := r.peek()
	if c == 0 {
		r.isCut = true
	}
	return isComma(c) || c == end
}

func isComma(c rune) bool { return c == ',' || c == '，' }

// name parses the name of a member: a quoted text, or a word.
func (r *looseReader) name() (name string, ok bool) {
	if closersOf(r.peek()) != "" {
		return r.quoted(true)
	}
	from := r.at
	for c := r.peek(); c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c); c = r.peek() {
		r.next()
	}
	return r.text[from:r.at], r.at > from
}

// closersOf returns the quotes that close a text opened by c; empty if c is not a quote.
func closersOf(c rune) string {
	switch c {
	case '"':
		return `"`
	case '\'', '‘', '’':
		return "'‘’"
	case '“', '”', '＂':
		return "“”＂"
	}
	return ""
}

// quoted parses a quoted text. A plain double quote always ends the text; other quotes may occur within it, as in
// 'it's', and end it only if the following text does not continue it.
func (r *looseReader) quoted(isName bool) (text string, ok bool) {
	var read strings.Builder
	closers := closersOf(r.next())
	for r.at < len(r.text) {
		c := r.next()
		switch {
		case c == '\\':
			r.escape(&read)
		case strings.ContainsRune(closers, c) && (closers == `"` || r.isEndOfText(isName)):
			return read.String(), true
		default:
			read.WriteRune(c)
		}
	}
	r.isCut = true
	return "", true
}

// maxAhead is how many bytes after a quote are examined.
const maxAhead = 200

// isEndOfText reports whether the text after a quote can follow a complete string.
func (r *looseReader) isEndOfText(isName bool) bool {
	ahead := looseReader{text: r.text[:min(len(r.text), r.at+maxAhead)], at: r.at}
	ahead.skip()
	c := ahead.peek()
	if c == 0 && len(ahead.text) < len(r.text) {
		return false
	}
	if isName {
		return c == ':' || c == '：'
	}
	return c == 0 || c == '}' || c == ']' || isComma(c)
}

// escape parses the characters after a backslash.
func (r *looseReader) escape(into *strings.Builder) {
	if r.at >= len(r.text) {
		return
	}
	switch c := r.next(); c {
	case 'n':
		into.WriteByte('\n')
	case 't':
		into.WriteByte('\t')
	case 'r':
		into.WriteByte('\r')
	case 'b', 'f':
	case 'u':
		unit, ok := r.hex()
		if !ok {
			into.WriteRune(c)
			return
		}
		if utf16.IsSurrogate(unit) && strings.HasPrefix(r.text[r.at:], `\u`) {
			r.at += len(`\u`)
			second, _ := r.hex()
			unit = utf16.DecodeRune(unit, second)
		}
		into.WriteRune(unit)
	default:
		into.WriteRune(c)
	}
}

// hex parses four hexadecimal digits.
func (r *looseReader) hex() (value rune, ok bool) {
	const digits = 4
	if len(r.text)-r.at < digits {
		return 0, false
	}
	for _, c := range r.text[r.at : r.at+digits] {
		place := strings.IndexRune("0123456789abcdef", unicode.ToLower(c))
		if place < 0 {
			return 0, false
		}
		value = value<<4 | rune(place)
	}
	r.at += digits
	return value, true
}

// bare parses a value without quotes: a number in any digits, true, false, null or a word, which becomes a string. A
// bare value at the very end of the text is marked as cut, because more of it may have followed.
func (r *looseReader) bare() (v Value, ok bool) {
	from := r.at
	for r.at < len(r.text) {
		rest := r.text[r.at:]
		if strings.IndexByte("{}[]\"\n,#", rest[0]) >= 0 || strings.HasPrefix(rest, "，") ||
			strings.HasPrefix(rest, "//") || strings.HasPrefix(rest, "/*") {
			break
		}
		r.next()
	}
	word := strings.TrimSpace(r.text[from:r.at])
	if r.at == len(r.text) {
		r.isCut = true
		return v, true
	}
	switch strings.ToLower(word) {
	case "":
		return v, false
	case "null", "none", "nil":
		return Value{Kind: Null, Text: []byte("null")}, true
	case "true", "false":
		return Value{Kind: Literal, Text: []byte(strings.ToLower(word))}, true
	}
	if number, ok := Parse([]byte(word)); ok && number.Kind == Number {
		return number, true
	}
	return Value{Kind: String, Text: []byte(word)}, true
}
