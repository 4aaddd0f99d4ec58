package agent

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// MaxText is how much text of one answer is kept, in bytes; more makes the answer RESPONSE_TOO_LARGE.
const MaxText = 8 << 20

// excerptBytes is how much of an unreadable answer is shown in an error message.
const excerptBytes = 300

// decoder collects what an agent sends in the default protocol (spec/004 2, contract "Talking to an
// agent"), in any framing: server-sent events, NDJSON, one JSON value, or a mixture.
type decoder struct {
	w *window

	chunks    []byte // text of llm_chunk events
	reasoning []byte // text of reasoning_chunk events
	sawChunk  bool

	sawFinal     bool   // a node_finished came
	final        []byte // the text of the last one that carried any
	isFinalBlank bool   // the very last one carried none: the chunks are the answer, where there are any

	values      int    // how many JSON values came, of any kind
	sawEnvelope bool   // a bare JSON value that is not an event but holds an answer
	envelope    []byte // its text

	looksLike string // the foreign protocol that the events belong to; "" means none that we know of

	failure    string // the agent's own error message
	hasFailed  bool
	incomplete bool // the text ended inside a value
	tooLarge   bool

	excerpt []byte // the first bytes of what could not be read
	partial []byte // the value that the end cut off
}

// decode reads src to its end. The error is the transport's; nil at a clean end.
func (d *decoder) decode(src io.Reader) error {
	d.w = newWindow(src)
	w := d.w
	if w.hasPrefix("\uFEFF") {
		w.pos += len("\uFEFF")
	}
	eventName := ""
	for !d.tooLarge {
		w.skipBlanks()
		c, ok := w.peek()
		if !ok {
			break
		}
		switch {
		case c == '\r' || c == '\n': // an empty line ends an event
			eventName = ""
		case c == '{' || c == '[' || c == '"':
			if d.payload(eventName, false) {
				return nil
			}
		case w.hasPrefix("data:"):
			w.pos += len("data:")
			w.skipBlanks()
			if d.payload(eventName, true) {
				return nil
			}
		case w.hasPrefix("event:"):
			w.pos += len("event:")
			eventName = strings.TrimSpace(string(d.line(256)))
		case c == ':' || w.hasPrefix("id:") || w.hasPrefix("retry:"):
			d.line(0)
		default:
			d.unreadable()
		}
		d.endLine()
	}
	if errors.Is(w.err, errTooLarge) {
		d.tooLarge = true
	}
	if w.err == nil || d.tooLarge || errors.Is(w.err, io.EOF) {
		return nil
	}
	return w.err
}

// endLine takes the end of the line that was read: LF, CR or CRLF, whose halves may arrive apart.
func (d *decoder) endLine() {
	c, ok := d.w.peek()
	if ok && c == '\r' {
		d.w.pos++
		c, ok = d.w.peek()
	}
	if ok && c == '\n' {
		d.w.pos++
	}
}

// payload reads the values on the rest of a line, after "data:" when isPrefixed. It returns true at [DONE].
func (d *decoder) payload(eventName string, isPrefixed bool) (isDone bool) {
	w := d.w
	for {
		c, ok := w.peek()
		if !ok || c == '\r' || c == '\n' {
			return false
		}
		if c == '[' && w.hasPrefix("[done]") {
			return true
		}
		w.mark, w.nodes, w.isPassedOver = w.pos, 0, false
		v, err := w.value(0)
		switch {
		case err == nil:
			d.values++
			d.take(eventName, isPrefixed, v)
			w.mark = -1
		case errors.Is(err, errSyntax):
			if !w.rewind() {
				d.tooLarge = true
				return false
			}
			w.mark = -1
			d.unreadableData(eventName)
			return false
		default: // cut off or too large
			d.partial = append([]byte(nil), w.buf[w.mark:]...)
			w.mark = -1
			d.tooLarge = errors.Is(err, errTooLarge)
			d.incomplete = true
			return false
		}
		if d.tooLarge {
			return false
		}
		w.skipBlanks()
		isPrefixed = true // a second value on the line is not a bare body
	}
}

// line takes the rest of the line and returns its first bytes.
func (d *decoder) line(keep int) []byte {
	var kept []byte
	for {
		c, ok := d.w.peek()
		if !ok || c == '\r' || c == '\n' {
			return kept
		}
		if len(kept) < keep {
			kept = append(kept, c)
		}
		d.w.pos++
	}
}

// unreadableData takes data that is not JSON: the message of an error event may be plain text.
func (d *decoder) unreadableData(eventName string) {
	if line := d.unreadable(); isErrorEvent(strings.ToLower(eventName)) {
		d.fail(value{kind: kindString, text: line})
	}
}

// unreadable takes a line that is neither a field nor JSON, and remembers how the first ones begin.
func (d *decoder) unreadable() (begin []byte) {
	room := excerptBytes - len(d.excerpt)
	line := d.line(excerptBytes)
	begin = line
	line = line[:min(len(line), max(room, 0))]
	if len(line) > 0 {
		if len(d.excerpt) > 0 {
			d.excerpt = append(d.excerpt, '\n')
		}
		d.excerpt = append(d.excerpt, line...)
	}
	return begin
}

// take processes one JSON value.
func (d *decoder) take(eventName string, isPrefixed bool, v value) {
	if d.looksLike == "" {
		d.looksLike = foreignProtocol(eventName, v)
	}
	if event, ok := v.get("event"); ok && event.kind == kindString {
		eventName = string(event.text)
	}
	eventName = strings.ToLower(eventName)
	switch {
	case isErrorEvent(eventName):
		d.fail(v)
	case v.kind != kindObject:
		d.takeEnvelope(v, isPrefixed)
	case eventName == "llm_chunk":
		d.sawChunk = true
		d.add(&d.chunks, chunkText(v))
	case eventName == "reasoning_chunk":
		d.sawChunk = true
		d.add(&d.reasoning, chunkText(v))
	case eventName == "node_finished":
		text := finalText(v)
		if len(text) == 0 && d.w.isPassedOver { // it may be in what was not kept
			d.tooLarge = true
			return
		}
		if len(text) == 0 && holdsOutputs(v) {
			return // another protocol's event of the same name: where its text is would be a guess
		}
		d.sawFinal = true
		d.isFinalBlank = len(text) == 0
		if !d.isFinalBlank {
			d.final = d.whole(text)
		}
	case eventName == "" || eventName == "message":
		d.takeEnvelope(v, isPrefixed)
	}
}

// holdsOutputs recognises the node_finished of workflow engines, which holds named "outputs".
func holdsOutputs(v value) bool {
	data, _ := v.get("data")
	return holdsAny(v, "outputs") || holdsAny(data, "outputs")
}

// isErrorEvent recognises error, llm_error, node_error, workflow_failed and their like.
func isErrorEvent(name string) bool {
	return name == "error" || strings.HasSuffix(name, "_error") || strings.HasSuffix(name, "_failed")
}

// takeEnvelope looks at a value that is not one of our events: an answer as one JSON, or {code, msg} of a
// failure. A value after "data:" belongs to a stream, so it may be a fragment and is never an answer.
func (d *decoder) takeEnvelope(v value, isPrefixed bool) {
	if text, ok := envelopeText(v, 0); ok && (!isFailureCode(v) || !isOnlyData(v)) {
		if !isPrefixed {
			d.sawEnvelope = true
			d.envelope = d.whole(text)
		}
		return
	}
	if isFailureCode(v) {
		d.fail(v)
		return
	}
	d.tooLarge = d.tooLarge || d.w.isPassedOver
}

func (d *decoder) fail(v value) {
	if !d.hasFailed {
		d.failure = failureMessage(v)
	}
	d.hasFailed = true
}

// add appends text to chunks or reasoning as far as MaxText goes for both, never cutting a character.
func (d *decoder) add(to *[]byte, text []byte) {
	*to = d.fit(*to, text, MaxText-len(d.chunks)-len(d.reasoning))
}

// whole copies a complete text, up to MaxText bytes.
func (d *decoder) whole(text []byte) []byte { return d.fit(nil, text, MaxText) }

func (d *decoder) fit(to, text []byte, room int) []byte {
	cut := cutAtCharacter(text, room)
	d.tooLarge = d.tooLarge || cut < len(text)
	return append(to, text[:cut]...)
}

// cutAtCharacter returns the greatest length up to limit at which no character is cut.
func cutAtCharacter(text []byte, limit int) int {
	if limit >= len(text) {
		return len(text)
	}
	for back := 0; back < utf8.UTFMax && limit-back > 0; back++ {
		if utf8.RuneStart(text[limit-back]) {
			return limit - back
		}
	}
	return limit // not UTF-8: any place will do
}

// chunkText returns the text of an llm_chunk or reasoning_chunk: in content, text, delta, output or
// choices[0].delta.content, at the top or under data.
func chunkText(v value) []byte {
	if text := flatChunkText(v); text != nil {
		return text
	}
	data, _ := v.get("data")
	if data.kind == kindString {
		return data.text
	}
	return flatChunkText(data)
}

func flatChunkText(v value) []byte {
	for _, name := range []string{"content", "text", "delta", "output"} {
		if member, ok := v.get(name); ok && member.kind == kindString {
			return member.text
		}
	}
	delta, _ := v.get("delta")
	if content, ok := delta.get("content"); ok && content.kind == kindString {
		return content.text
	}
	choice, ok := firstChoice(v)
	if !ok {
		return nil
	}
	delta, _ = choice.get("delta")
	if content, ok := delta.get("content"); ok && content.kind == kindString {
		return content.text
	}
	return nil
}

func firstChoice(v value) (value, bool) {
	choices, ok := v.get("choices")
	if !ok || choices.kind != kindArray || len(choices.items) == 0 {
		return value{}, false
	}
	return choices.items[0], true
}

// finalText returns what a node_finished carries in output or content, at the top or under data; nil
// when it carries nothing.
func finalText(v value) []byte {
	if text, ok := namedText(v, 0, "output", "content"); ok {
		return text
	}
	data, _ := v.get("data")
	if data.kind == kindString && len(data.text) > 0 {
		return data.text
	}
	text, _ := namedText(data, 0, "output", "content")
	return text
}

// namedText returns the text of the first member of v with one of the names that has any: a string, a
// list of strings (joined by LF), an object that holds such a member itself, or other JSON as it stands.
func namedText(v value, depth int, names ...string) ([]byte, bool) {
	for _, name := range names {
		member, ok := v.get(name)
		if !ok {
			continue
		}
		switch member.kind {
		case kindNull:
		case kindString:
			if len(member.text) > 0 {
				return member.text, true
			}
		case kindObject:
			if depth < 4 {
				if text, ok := namedText(member, depth+1, names...); ok {
					return text, true
				}
			}
			if len(member.fields) > 0 && !holdsAny(member, names...) {
				return member.text, true
			}
		case kindArray:
			if text, ok := joined(member); ok {
				return text, true
			}
			if len(member.items) > 0 {
				return member.text, true
			}
		default:
			return member.text, true
		}
	}
	return nil, false
}

// joined joins a list of strings by LF; false when it holds anything else.
func joined(list value) ([]byte, bool) {
	lines := make([][]byte, len(list.items))
	for n, item := range list.items {
		if item.kind != kindString {
			return nil, false
		}
		lines[n] = item.text
	}
	text := bytes.Join(lines, []byte("\n"))
	return text, len(text) > 0
}

// holdsAny reports whether v has a member of that name: {"output": ""} means "no text", not "this object".
func holdsAny(v value, names ...string) bool {
	for _, name := range names {
		if _, ok := v.get(name); ok {
			return true
		}
	}
	return false
}

// envelopeNames are the members in which an envelope may hold its answer.
var envelopeNames = []string{"output", "content", "text", "answer"}

// envelopeText finds the answer in one JSON value: a bare string, the only one of a list, a named member,
// the same under data, or the message of a chat completion. A member that lists objects is another
// protocol's parts, not an answer.
func envelopeText(v value, depth int) ([]byte, bool) {
	if depth > 4 {
		return nil, false
	}
	switch v.kind {
	case kindString:
		return v.text, len(v.text) > 0
	case kindArray:
		if len(v.items) == 1 {
			return envelopeText(v.items[0], depth+1)
		}
	case kindObject:
		if text, ok := namedText(v, 0, envelopeNames...); ok {
			return text, !listsObjects(v, envelopeNames)
		}
		if choice, ok := firstChoice(v); ok {
			message, _ := choice.get("message")
			if text, ok := namedText(message, 0, "content"); ok {
				return text, true
			}
		}
		if data, ok := v.get("data"); ok {
			return envelopeText(data, depth+1)
		}
	}
	return nil, false
}

// isOnlyData reports whether the only text of an envelope is its data, which of a failure is no answer but the reason.
func isOnlyData(v value) bool {
	data, _ := v.get("data")
	_, isNamed := namedText(v, 0, envelopeNames...)
	return data.kind == kindString && !isNamed
}

// listsObjects reports whether one of the named members is a list of anything but strings.
func listsObjects(v value, names []string) bool {
	for _, name := range names {
		member, _ := v.get(name)
		if member.kind == kindArray && len(member.items) > 0 {
			if _, ok := joined(member); !ok {
				return true
			}
		}
	}
	return false
}

// isFailureCode reports whether v is an envelope that reports a failure: a code that does not mean success,
// or an error member.
func isFailureCode(v value) bool {
	if code, ok := v.get("code"); ok && code.kind != kindNull {
		switch strings.ToLower(string(code.text)) {
		case "", "0", "200", "success", "ok", "true":
		default:
			return true
		}
	}
	failure, ok := v.get("error")
	return ok && failure.kind != kindNull && len(failure.text) > 0 && string(failure.text) != "false"
}

// failureMessage returns the agent's own error message or, if there is none, the source text.
func failureMessage(v value) string {
	places := []value{v}
	if data, ok := v.get("data"); ok {
		if data.kind == kindString && len(data.text) > 0 {
			return excerptOf(data.text)
		}
		places = append(places, data)
	}
	for _, place := range places {
		for _, name := range []string{"error_message", "message", "msg", "error", "detail"} {
			member, ok := place.get(name)
			if !ok {
				continue
			}
			if member.kind == kindString && len(member.text) > 0 {
				return excerptOf(member.text)
			}
			if member.kind == kindObject {
				return failureMessage(member)
			}
		}
	}
	return excerptOf(v.text)
}

// excerptOf returns the beginning of text in one line that can be shown.
func excerptOf(text []byte) string {
	cut := cutAtCharacter(text, excerptBytes)
	shown := strings.ToValidUTF8(string(bytes.TrimSpace(text[:cut])), "\uFFFD")
	if cut < len(text) {
		shown += "…"
	}
	return shown
}
