// Package protocol implements the protocols of agents and models: it writes request bodies, from templates with
// {{name}} as placeholders, and extracts the answer from responses.
package protocol

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"wending/jobs/agent/wire"
)

// MaxText is the maximum length of an answer's text in bytes; a longer answer fails with RESPONSE_TOO_LARGE.
const MaxText = wire.MaxText

// BrokenBefore is the beginning of the error message of an answer that a broken connection cut off.
const BrokenBefore = "The connection broke before the answer's end: "

// reader builds an answer from a response in one protocol.
type reader interface {
	// take processes the next value.
	take(wire.Event)
	// answer returns the answer once the whole response is read. broken is the transport's error, if there is one.
	answer(broken error) Answer
}

// Tap receives the parts of an answer as they arrive. Its arguments are valid only during the call.
type Tap interface {
	// Text and Reasoning receive the next pieces; Rewrite receives a text that replaces the whole answer so far.
	Text(piece []byte)
	Reasoning(piece []byte)
	Rewrite(text []byte)
	// Value receives each value of the body.
	Value(e wire.Event)
}

// told identifies the part of the answer that a Tap has received by its length and hash.
type told struct {
	length int
	hash   maphash.Hash
}

// transcript is the state that all protocols share: the framing and the answer so far.
type transcript struct {
	wire.Stream
	protocol Protocol
	reader   reader

	chunks    []byte    // pieces of the answer
	reasoning []byte    // pieces of the reasoning
	firstAt   time.Time // when the first piece of the answer arrived
	usage     Usage
	// conversationID is the agent's own id for the conversation, and traceID is its own id for the call.
	conversationID, traceID string

	tap  Tap // nil means that there is none
	told told
	// toldReasoning reports that the tap has received pieces of the reasoning.
	toldReasoning bool

	isOver bool // the rest of the response is not read

	// endedAt is when the protocol's end marker arrived; onEnd, if not nil, is called at that moment.
	endedAt time.Time
	onEnd   func()

	// isEnvelope reports that the last value is a JSON object with an answer, as agents without a protocol send it.
	isEnvelope bool
	looksLike  string // the protocol to which the values belong; "" means no known one

	// finish is the reason why the answer ended; calledTools reports that the agent called tools before that.
	finish      Finish
	calledTools bool

	failure   string // the agent's own error message
	hasFailed bool
	// failureCode is the failure's error code.
	failureCode string
}

// newTranscript returns an empty transcript of an answer in a protocol.
func newTranscript(protocol Protocol) *transcript {
	t := &transcript{protocol: protocol, onEnd: func() {}}
	t.reader = protocol.reader(t)
	return t
}

// ended records that the protocol's end marker has arrived.
func (t *transcript) ended() {
	if t.endedAt.IsZero() {
		t.endedAt = time.Now()
		t.onEnd()
	}
}

// inConversation records the conversation id that a value holds under a name.
func (t *transcript) inConversation(v wire.Value, name string) {
	if id := v.TextOf(name); id != "" {
		t.conversationID = id
	}
}

// Open implements wire.Handler.
func (t *transcript) Open(name string) {
	if opener, ok := t.reader.(interface{ open(name string) }); ok {
		opener.open(name)
	}
}

// Take implements wire.Handler.
func (t *transcript) Take(e wire.Event) (more bool) {
	if t.looksLike == "" && !e.IsDone {
		t.looksLike = foreignProtocol(e.Name, e.Value)
		_, t.isEnvelope = envelopeText(e.Value, 0)
	}
	if t.traceID == "" {
		t.traceID = TraceInValue(e.Value)
	}
	t.reader.take(e)
	if t.tap != nil {
		t.tap.Value(e)
	}
	return !t.isOver
}

// TakeText implements wire.Handler: the message of an error event may be plain text.
func (t *transcript) TakeText(event string, text []byte) {
	if isErrorEvent(strings.ToLower(event)) {
		t.fail(wire.Value{Kind: wire.String, Text: text})
	}
}

func (t *transcript) fail(v wire.Value) { t.failWith(failureMessage(v)) }

// failWith and failAs record a failure, unless there was an earlier one.
func (t *transcript) failWith(message string) { t.failAs(CodeAgent, message) }

func (t *transcript) failAs(code, message string) {
	if !t.hasFailed {
		t.failureCode, t.failure = code, message
	}
	t.hasFailed = true
}

// add appends text to chunks or reasoning, up to MaxText for both together, without splitting a character.
func (t *transcript) add(to *[]byte, text []byte) {
	if len(text) > 0 && t.firstAt.IsZero() && to != &t.reasoning {
		t.firstAt = time.Now()
	}
	switch {
	case t.tap == nil || len(text) == 0 || t.TooLarge:
	case to == &t.reasoning:
		t.toldReasoning = true
		t.tap.Reasoning(text)
	default:
		t.tellPiece(text)
	}
	*to = t.fit(*to, text, MaxText-len(t.chunks)-len(t.reasoning))
}

// tellPiece passes the next piece of the answer to the tap.
func (t *transcript) tellPiece(text []byte) {
	t.told.length += len(text)
	_, _ = t.told.hash.Write(text)
	t.tap.Text(text)
}

// tellWhole passes the whole answer so far to the tap; if it continues the text that the tap has already received,
// it passes only the rest.
func (t *transcript) tellWhole(text []byte) {
	if t.tap == nil {
		return
	}
	if length := t.told.length; length <= len(text) {
		var same maphash.Hash
		same.SetSeed(t.told.hash.Seed())
		_, _ = same.Write(text[:length])
		if same.Sum64() == t.told.hash.Sum64() {
			if length < len(text) {
				t.tellPiece(text[length:])
			}
			return
		}
	}
	t.told.length = len(text)
	t.told.hash.Reset()
	_, _ = t.told.hash.Write(text)
	t.tap.Rewrite(text)
}

// whole copies a complete text, up to MaxText bytes.
func (t *transcript) whole(text []byte) []byte { return t.fit(nil, text, MaxText) }

func (t *transcript) fit(to, text []byte, room int) []byte {
	kept := wire.Cut(text, room)
	t.TooLarge = t.TooLarge || len(kept) < len(text)
	if size := len(to) + len(kept); to != nil && size > cap(to) && size > longText {
		to = slices.Grow(to, room+len(cutMark))
	}
	return append(to, kept...)
}

// longText is the length in bytes from which a text gets its maximum capacity at once: most texts that get this long
// never end, and growing them step by step would leave a copy behind each time.
const longText = 1 << 20

// cutMark ends a text that was cut because it is too large.
const cutMark = "…[cut at 8 MiB]"

// cutShort returns the answer if the text is incomplete for a reason outside the protocol; ok is false if there
// is no such reason.
func (t *transcript) cutShort(text []byte, broken error) (answer Answer, ok bool) {
	switch {
	case t.TooLarge:
		text = append(wire.Cut(text, MaxText), cutMark...) // cut in place, because the rest is not needed
		return Answer{Status: Failed, Text: text, ErrorCode: CodeTooLarge,
			ErrorMessage: "The answer is larger than 8 MiB and was cut"}, true
	case broken != nil:
		return Answer{Status: Failed, Text: text, ErrorCode: CodeIncomplete,
			ErrorMessage: BrokenBefore + broken.Error()}, true
	case t.hasFailed:
		return Answer{Status: Failed, Text: text, ErrorCode: t.failureCode, ErrorMessage: t.failure}, true
	case t.Incomplete:
		return Answer{Status: Failed, Text: text, ErrorCode: CodeIncomplete,
			ErrorMessage: "The answer ends inside a JSON value"}, true
	}
	return Answer{}, false
}

// withoutEnd returns the answer for a stream that stopped before the protocol's end marker.
func (t *transcript) withoutEnd(text []byte, end string) Answer {
	message := "The stream ended without " + end
	if len(t.Excerpt) > 0 {
		message += "; it contains: " + Excerpt(t.Excerpt)
	}
	if foreign := t.foreign(); foreign != "" {
		message += ". The response looks like " + foreign + "; choose " + foreign + " as the agent's protocol"
	}
	return Answer{Status: Failed, Text: text, ErrorCode: CodeIncomplete, ErrorMessage: message}
}

// unread returns the failure if no value of the protocol arrived.
func (t *transcript) unread() Answer {
	switch {
	case t.Length() == 0:
		return Failure(CodeParse, "The agent answered with an empty body")
	case t.foreign() != "":
		return Failure(CodeParse, "The response looks like "+t.foreign()+"; choose "+t.foreign()+" as the agent's protocol: "+
			Excerpt(t.Begin()))
	}
	return Failure(CodeParse, "No answer can be read from: "+Excerpt(t.Begin()))
}

// foreign returns the label of the other protocol that the agent seems to speak; "" if there is none or it cannot be
// identified.
func (t *transcript) foreign() string {
	label := t.looksLike
	if label == "" && t.isEnvelope && t.Values == 1 {
		label = All[0].Label
	}
	if label == t.protocol.Label {
		return ""
	}
	return label
}

// Excerpt returns the beginning of a text as valid UTF-8, for messages; it ends with … if the text is longer.
func Excerpt(text []byte) string {
	beginning := wire.Cut(text, wire.ExcerptBytes)
	shown := strings.ToValidUTF8(string(bytes.TrimSpace(beginning)), "\uFFFD")
	if len(beginning) < len(text) {
		shown += "…"
	}
	return shown
}
