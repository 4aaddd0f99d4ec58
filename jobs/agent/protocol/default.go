package protocol

import (
	"bytes"
	"strings"

	"wending/jobs/agent/wire"
)

// defaultReader reads the default protocol, whose answers have many shapes.
type defaultReader struct {
	*transcript

	sawChunk bool

	sawFinal     bool   // a node_finished has arrived
	final        []byte // the text of the last node_finished that had one
	isFinalBlank bool   // whether the very last node_finished had no text: then the chunks, if any, are the answer

	sawEnvelope bool   // whether a bare JSON value that is not an event holds an answer
	envelope    []byte // the answer in that value
	isEmptyText bool   // whether such a value has an empty text where answers stand
}

func (d *defaultReader) take(e wire.Event) {
	if e.IsDone {
		d.isOver = d.sawFinal // some agents send it before the final event
		return
	}
	v, eventName := e.Value, e.Name
	if named, ok := v.Get("event"); ok && named.Kind == wire.String {
		eventName = string(named.Text)
	}
	eventName = strings.ToLower(eventName)
	switch {
	case isErrorEvent(eventName):
		d.fail(v)
	case v.Kind != wire.Object:
		d.takeEnvelope(v, e.IsPrefixed)
	case eventName == "llm_chunk":
		d.sawChunk = true
		d.add(&d.chunks, chunkText(v))
		d.takeMeta(v)
	case eventName == "reasoning_chunk":
		d.sawChunk = true
		d.add(&d.reasoning, chunkText(v))
	case eventName == "node_finished":
		text := finalText(v)
		d.takeMeta(v)
		if len(text) == 0 && d.IsPassedOver() { // the answer may be in a part that was not kept
			d.TooLarge = true
			return
		}
		if len(text) == 0 && holdsOutputs(v) {
			return // another protocol has an event of the same name, whose text could only be guessed
		}
		d.sawFinal = true
		d.isFinalBlank = len(text) == 0
		if !d.isFinalBlank {
			d.final = d.whole(text)
		}
	case eventName == "" || eventName == "message":
		d.takeEnvelope(v, e.IsPrefixed)
	}
}

// holdsOutputs reports whether v is the node_finished of a workflow engine, which has named outputs.
func holdsOutputs(v wire.Value) bool {
	data, _ := v.Get("data")
	return holdsAny(v, "outputs") || holdsAny(data, "outputs")
}

// isErrorEvent reports whether an event is named error, llm_error, node_error, workflow_failed or similar.
func isErrorEvent(name string) bool {
	return name == "error" || strings.HasSuffix(name, "_error") || strings.HasSuffix(name, "_failed")
}

// takeEnvelope handles a value that is not an event of this protocol: an answer in a single JSON value, or the {code,
// msg} of a failure. A value after "data:" belongs to a stream: it may be a fragment, so it is never taken as an
// answer.
func (d *defaultReader) takeEnvelope(v wire.Value, isPrefixed bool) {
	d.takeMeta(v)
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
	d.isEmptyText = d.isEmptyText || holdsEmptyText(v) || holdsEmptyText(v.At("data"))
	d.TooLarge = d.TooLarge || d.IsPassedOver()
}

// takeMeta records the finish reason and the usage in an event or a body. Both may be at the top level, under data, or
// under the output.
func (d *defaultReader) takeMeta(v wire.Value) {
	for _, of := range []wire.Value{v, v.At("data"), v.At("output"), v.At("data", "output"), v.At("data", "data")} {
		d.finishIn(of, "finish_reason")
		if choice, ok := firstChoice(of); ok {
			d.finishIn(choice, "finish_reason")
			for _, said := range []wire.Value{choice.At("delta"), choice.At("message")} {
				d.called(said)
				if refusal := bytesOf(said, "refusal"); len(refusal) > 0 {
					d.add(&d.chunks, refusal)
					d.finish = FinishRefusal
				}
			}
		}
		usage := of.At("usage")
		d.usage.set(usage, "input_tokens", "output_tokens", "total_tokens")
		d.usage.set(usage, "prompt_tokens", "completion_tokens", "")
	}
}

// chunkText returns the text of an llm_chunk or reasoning_chunk: in content, text, delta, output or
// choices[0].delta.content, at the top level or under data.
func chunkText(v wire.Value) []byte {
	if text := flatChunkText(v); text != nil {
		return text
	}
	data, _ := v.Get("data")
	if data.Kind == wire.String {
		return data.Text
	}
	return flatChunkText(data)
}

func flatChunkText(v wire.Value) []byte {
	for _, name := range []string{"content", "text", "delta", "output"} {
		if member, ok := v.Get(name); ok && member.Kind == wire.String {
			return member.Text
		}
	}
	delta, _ := v.Get("delta")
	if content, ok := delta.Get("content"); ok && content.Kind == wire.String {
		return content.Text
	}
	choice, ok := firstChoice(v)
	if !ok {
		return nil
	}
	delta, _ = choice.Get("delta")
	if content, ok := delta.Get("content"); ok && content.Kind == wire.String {
		return content.Text
	}
	return nil
}

func firstChoice(v wire.Value) (wire.Value, bool) {
	choices, ok := v.Get("choices")
	if !ok || choices.Kind != wire.Array || len(choices.Items) == 0 {
		return wire.Value{}, false
	}
	return choices.Items[0], true
}

// finalText returns the text that a node_finished has in output or content, at the top level or under data; nil if
// there is none.
func finalText(v wire.Value) []byte {
	if text, ok := namedText(v, 0, "output", "content"); ok {
		return text
	}
	data, _ := v.Get("data")
	if data.Kind == wire.String && len(data.Text) > 0 {
		return data.Text
	}
	text, _ := namedText(data, 0, "output", "content")
	return text
}

// namedText returns the text of the first member of v that has one of the names and a text. A text is a string, a
// list of strings (joined by LF), an object with such a member, or any other JSON verbatim.
func namedText(v wire.Value, depth int, names ...string) ([]byte, bool) {
	for _, name := range names {
		member, ok := v.Get(name)
		if !ok {
			continue
		}
		switch member.Kind {
		case wire.Null:
		case wire.String:
			if len(member.Text) > 0 {
				return member.Text, true
			}
		case wire.Object:
			if depth < 4 {
				if text, ok := namedText(member, depth+1, names...); ok {
					return text, true
				}
			}
			if len(member.Fields) > 0 && !holdsAny(member, names...) {
				return member.Text, true
			}
		case wire.Array:
			if text, ok := joined(member); ok {
				return text, true
			}
			if len(member.Items) > 0 {
				return member.Text, true
			}
		default:
			return member.Text, true
		}
	}
	return nil, false
}

// joined joins the strings of a list with LF; it returns false if the list contains anything else.
func joined(list wire.Value) ([]byte, bool) {
	lines := make([][]byte, len(list.Items))
	for n, item := range list.Items {
		if item.Kind != wire.String {
			return nil, false
		}
		lines[n] = item.Text
	}
	text := bytes.Join(lines, []byte("\n"))
	return text, len(text) > 0
}

// holdsAny reports whether v has a member with one of the names, even an empty one: {"output": ""} means "no text",
// not "a different object".
func holdsAny(v wire.Value, names ...string) bool {
	for _, name := range names {
		if _, ok := v.Get(name); ok {
			return true
		}
	}
	return false
}

// envelopeNames are the members in which an envelope may hold its answer.
var envelopeNames = []string{"output", "content", "text", "answer"}

// envelopeText finds the answer in one JSON value: a bare string, the only string of a list, a member that
// envelopeNames lists, such a member under data, or the message of a chat completion. A member that lists objects
// contains the parts of another protocol, not an answer.
func envelopeText(v wire.Value, depth int) ([]byte, bool) {
	if depth > 4 {
		return nil, false
	}
	switch v.Kind {
	case wire.String:
		return v.Text, len(v.Text) > 0
	case wire.Array:
		if len(v.Items) == 1 {
			return envelopeText(v.Items[0], depth+1)
		}
	case wire.Object:
		if text, ok := namedText(v, 0, envelopeNames...); ok {
			return text, !listsObjects(v, envelopeNames)
		}
		if choice, ok := firstChoice(v); ok {
			message, _ := choice.Get("message")
			if text, ok := namedText(message, 0, "content", "refusal"); ok {
				return text, true
			}
		}
		if data, ok := v.Get("data"); ok {
			return envelopeText(data, depth+1)
		}
	}
	return nil, false
}

// isOnlyData reports whether an envelope's only text is in data. In a failure, that text is the reason, not an
// answer.
func isOnlyData(v wire.Value) bool {
	data, _ := v.Get("data")
	_, isNamed := namedText(v, 0, envelopeNames...)
	return data.Kind == wire.String && !isNamed
}

// listsObjects reports whether one of the named members is a list of anything but strings.
func listsObjects(v wire.Value, names []string) bool {
	for _, name := range names {
		member, _ := v.Get(name)
		if member.Kind == wire.Array && len(member.Items) > 0 {
			if _, ok := joined(member); !ok {
				return true
			}
		}
	}
	return false
}

func (d *defaultReader) answer(broken error) Answer {
	text := d.chunks
	if len(text) == 0 {
		text = d.Partial
	}
	if d.final != nil && (!d.isFinalBlank || len(d.chunks) == 0) {
		text = d.final
	} else if !d.sawFinal && !d.sawChunk && d.isOneEnvelope() {
		text = d.envelope
	}
	if answer, isCut := d.cutShort(text, broken); isCut {
		return answer
	}
	switch {
	case d.sawFinal:
		if text == nil {
			text = []byte{}
		}
		return Answer{Status: Succeeded, Text: text}
	case d.sawChunk:
		return d.withoutEnd(text, "its final event")
	case d.isOneEnvelope():
		return Answer{Status: Succeeded, Text: text}
	case d.endedWithoutText():
		return Answer{Status: Succeeded, Text: []byte{}} // its finish reason makes it a failure
	case d.sawEnvelope && d.looksLike == "":
		return Failure(CodeParse, "The response holds several values, none of which is marked as the whole answer: "+
			Excerpt(d.Begin()))
	}
	return d.unread()
}

// holdsEmptyText reports whether an envelope has an empty string where answers stand.
func holdsEmptyText(v wire.Value) bool {
	choice, _ := firstChoice(v)
	message := choice.At("message", "content")
	isEmpty := func(of wire.Value) bool { return of.Kind == wire.String && len(of.Text) == 0 }
	for _, name := range envelopeNames {
		if text, ok := v.Get(name); ok && isEmpty(text) {
			return true
		}
	}
	return isEmpty(message)
}

// endedWithoutText reports whether the body is one JSON value without text that gives a finish reason. A stop needs an
// empty text: otherwise the answer may stand in a member that is not known.
func (d *defaultReader) endedWithoutText() bool {
	hasReason := d.finish != "" && (d.finish != FinishStop || d.isEmptyText) || d.calledTools
	return hasReason && !d.sawEnvelope && d.Values == 1 && len(d.Excerpt) == 0 && d.foreign() == ""
}

// isOneEnvelope reports whether the body is one JSON value that holds an answer and does not belong to another
// protocol. If anything else is in the body, such a value may be a fragment.
func (d *defaultReader) isOneEnvelope() bool {
	return d.sawEnvelope && d.Values == 1 && len(d.Excerpt) == 0 && d.looksLike == ""
}
