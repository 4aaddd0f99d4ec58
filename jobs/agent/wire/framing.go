// Package wire reads the responses of agents as a sequence of JSON values, in any framing: server-sent events, NDJSON,
// a single JSON value, or a mixture of them.
package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// ExcerptBytes is the maximum size of the excerpt of an unreadable answer that is kept for display.
const ExcerptBytes = 300

// Event is the next event: a JSON value or [DONE].
type Event struct {
	// Name is the name in the preceding "event:" line, if there was one.
	Name string
	// IsPrefixed reports that the value follows "data:" or another value, and so belongs to a stream.
	IsPrefixed bool
	// Value is valid until the next one is read.
	Value  Value
	IsDone bool
}

// Handler receives what a Stream reads.
type Handler interface {
	// Open receives the name of an event when it begins; the event may have no data.
	Open(name string)
	// Take receives a value and reports whether to continue reading.
	Take(Event) (more bool)
	// TakeText receives the beginning of data that is not JSON.
	TakeText(event string, text []byte)
}

// Stream reads a response; its fields describe what has been read.
type Stream struct {
	w       *window
	handler Handler
	isOver  bool
	// Values is how many JSON values were read, of any kind.
	Values int
	// Incomplete reports that the source ended inside a value, whose beginning is Partial.
	Incomplete bool
	Partial    []byte
	TooLarge   bool
	// Excerpt is the beginning of the unreadable text.
	Excerpt []byte
}

// Length returns the number of bytes read so far.
func (t *Stream) Length() int { return t.w.read }

// Begin returns the beginning of the source, a little more than ExcerptBytes.
func (t *Stream) Begin() []byte { return t.w.begin }

// IsPassedOver reports whether some parts of the last value were not kept.
func (t *Stream) IsPassedOver() bool { return t.w.isPassedOver }

// Parse parses a text that is one JSON value; ok is false if it is not.
func Parse(text []byte) (v Value, ok bool) {
	w := newWindow(bytes.NewReader(text))
	w.skipSpace()
	w.mark = w.pos
	v, err := w.value(0)
	if err != nil {
		return Value{}, false
	}
	w.skipSpace()
	_, hasMore := w.peek()
	return v, !hasMore
}

// Read reads src to its end, or until the handler or a limit stops it. An error comes from the transport.
func (t *Stream) Read(src io.Reader, handler Handler) error {
	t.w, t.handler = newWindow(src), handler
	w := t.w
	if w.hasPrefix("\uFEFF") {
		w.pos += len("\uFEFF")
	}
	eventName := ""
	for !t.TooLarge && !t.isOver {
		w.skipBlanks()
		c, ok := w.peek()
		if !ok {
			break
		}
		switch {
		case c == '\r' || c == '\n': // an empty line ends an event
			eventName = ""
		case c == '{' || c == '[' || c == '"':
			t.payload(eventName, false)
		case w.hasPrefix("data:"):
			w.pos += len("data:")
			w.skipBlanks()
			t.payload(eventName, true)
		case w.hasPrefix("event:"):
			w.pos += len("event:")
			eventName = strings.TrimSpace(string(t.line(256)))
			t.handler.Open(eventName)
		case c == ':' || w.hasPrefix("id:") || w.hasPrefix("retry:"):
			t.line(0)
		default:
			t.unreadable()
		}
		t.endLine()
	}
	if errors.Is(w.err, errTooLarge) {
		t.TooLarge = true
	}
	if w.err == nil || t.TooLarge || errors.Is(w.err, io.EOF) {
		return nil
	}
	return w.err
}

// endLine consumes a line end: LF, CR or CRLF, whose two bytes may arrive separately.
func (t *Stream) endLine() {
	c, ok := t.w.peek()
	if ok && c == '\r' {
		t.w.pos++
		c, ok = t.w.peek()
	}
	if ok && c == '\n' {
		t.w.pos++
	}
}

// payload reads the values on the rest of a line, which follows "data:" if isPrefixed.
func (t *Stream) payload(eventName string, isPrefixed bool) {
	w := t.w
	for {
		c, ok := w.peek()
		if !ok || c == '\r' || c == '\n' {
			return
		}
		if c == '[' && w.hasPrefix("[done]") {
			t.line(0)
			t.isOver = !t.handler.Take(Event{Name: eventName, IsDone: true})
			return
		}
		w.mark, w.nodes, w.isPassedOver = w.pos, 0, false
		v, err := w.value(0)
		switch {
		case err == nil:
			t.Values++
			t.isOver = !t.handler.Take(Event{Name: eventName, IsPrefixed: isPrefixed, Value: v})
			w.mark = -1
		case errors.Is(err, errSyntax):
			if !w.rewind() {
				t.TooLarge = true
				return
			}
			w.mark = -1
			t.handler.TakeText(eventName, t.unreadable())
			return
		default: // cut off or too large
			t.Partial = append([]byte(nil), w.buf[w.mark:]...)
			w.mark = -1
			t.TooLarge = errors.Is(err, errTooLarge)
			t.Incomplete = true
			return
		}
		if t.TooLarge || t.isOver {
			return
		}
		w.skipBlanks()
		isPrefixed = true // a second value on the line means that the line is not a bare body
	}
}

// line consumes the rest of the line and returns its first keep bytes.
func (t *Stream) line(keep int) []byte {
	var kept []byte
	for {
		c, ok := t.w.peek()
		if !ok || c == '\r' || c == '\n' {
			return kept
		}
		if len(kept) < keep {
			kept = append(kept, c)
		}
		t.w.pos++
	}
}

// unreadable handles a line that is neither a field nor JSON, and returns its beginning. It keeps the beginning of the
// first such lines in Excerpt.
func (t *Stream) unreadable() (begin []byte) {
	room := ExcerptBytes - len(t.Excerpt)
	line := t.line(ExcerptBytes)
	begin = line
	line = line[:min(len(line), max(room, 0))]
	if len(line) > 0 {
		if len(t.Excerpt) > 0 {
			t.Excerpt = append(t.Excerpt, '\n')
		}
		t.Excerpt = append(t.Excerpt, line...)
	}
	return begin
}
