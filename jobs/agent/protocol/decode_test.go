package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/wire"
)

// decodeBytes reads a body as if it had arrived in one piece.
func decodeBytes(body []byte) Answer {
	return All[0].Read(bytes.NewReader(body), time.Now(), func() {}, error.Error, nil)
}

func TestTheRulesOfTheDefaultProtocol(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body, answer, code, message string
	}{
		"a final text replaces the chunks": {"data: {\"event\":\"llm_chunk\",\"text\":\"a\"}\n\ndata: " +
			"{\"event\":\"node_finished\",\"output\":\"b\"}\n\n", "b", "", ""},
		"a later final without text: the chunks": {"data: {\"event\":\"node_finished\",\"output\":\"kb\"}\n\ndata: " +
			"{\"event\":\"llm_chunk\",\"delta\":\"c\"}\n\ndata: {\"event\":\"node_finished\",\"data\":{}}\n\n", "c", "", ""},
		"other JSON as a final: its text": {`{"event":"node_finished","data":{"output":{"answer":{"x":[1, 2.50]}}}}`,
			`{"answer":{"x":[1, 2.50]}}`, "", ""},
		"a number as a final: its text": {`{"event":"node_finished","output":12345678901234567890.10}`,
			"12345678901234567890.10", "", ""},
		"an object that says no text": {`{"event":"node_finished","data":{"output":{"output":""}}}`,
			"", "", ""},
		"an error event fails, regardless of what follows": {"data: {\"event\":\"error\",\"message\":\"no " +
			"quota\"}\n\ndata: {\"event\":\"node_finished\",\"output\":\"partial\"}\n\n", "partial", CodeAgent, "no quota"},
		"an SSE chunk without an end": {"event: llm_chunk\ndata: {\"content\":\"a\"}\n\n", "a",
			CodeIncomplete, "final event"},
		"an SSE chunk and an error": {"event: llm_chunk\r\ndata: {\"content\":\"a\"}\r\n\r\nevent: " +
			"error\r\ndata: {\"data\":{\"message\":\"x\"}}\r\n\r\n", "a", CodeAgent, "x"},
		"an SSE error in CRs": {"event: llm_error\rdata: {\"message\":\"x\"}\r\r", "",
			CodeAgent, "x"},
		"an SSE error of plain text": {"event: error\ndata: plain text\n\n", "", CodeAgent,
			"plain text"},
		"an SSE error of a JSON string": {"event: node_error\ndata: \"plain\"\n\n", "",
			CodeAgent, "plain"},
		"an event name ends with its event": {"event: error\n\ndata: {\"event\":\"node_finished\",\"output\":\"x\"}\n\n",
			"x", "", ""},
		"a last final without text, no chunks": {"data: {\"event\":\"node_finished\",\"output\":\"one\"}\n\ndata: " +
			"{\"event\":\"node_finished\"}\n\n", "one", "", ""},
		"an SSE error event with an object": {"event: error\ndata: {\"error\":{\"message\":\"deep\"}}\n\n", "",
			CodeAgent, "deep"},
		"a non-zero code with an answer succeeds": {`{"code":1,"data":{"output":"x"}}`, "x", "", ""},
		"a code without an answer fails": {`{"code":"E_LIMIT","message":"slow down"}`, "", CodeAgent,
			"slow down"},
		"an error member fails":  {`{"error":"bad key"}`, "", CodeAgent, "bad key"},
		"HTML is no answer":      {"<html><body>login</body></html>", "", CodeParse, "<html>"},
		"JSON without an answer": {`{"status":"ok"}`, "", CodeParse, ""},
		"cut inside a string":    {`{"output":"abc`, `{"output":"abc`, CodeIncomplete, ""},
		"cut inside a character": {"{\"event\":\"llm_chunk\",\"text\":\"a\"}\n{\"event\":\"llm_chunk\",\"text\":\"\xe5\xb7",
			"a", CodeIncomplete, ""},
		"a broken event between good ones": {"data: {\"event\":\"llm_chunk\",}\n\ndata: " +
			"{\"event\":\"node_finished\",\"output\":\"ok\"}\n\n", "ok", "", ""},
		"raw line feeds in a string": {"data: {\"event\":\"node_finished\",\"output\":\"a\n\ndata: " +
			"b\r\nc\td\"}\n\n", "a\n\ndata: b\r\nc\td", "", ""},
		"deep nesting harms nothing": {`{"event":"node_finished","output":"x","deep":` +
			strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", "x", "", ""},
		"the first of repeated keys": {`{"event":"node_finished","event":"x","output":"1","output":"2"}`, "1", "", ""},
		"invalid UTF-8 stays as it is": {"{\"event\":\"node_finished\",\"output\":\"a\xff\xfeb\"}",
			"a\xff\xfeb", "", ""},
		"[DONE] before the final event is passed over": {"data: [DONE]\n\ndata: " +
			"{\"event\":\"node_finished\",\"output\":\"x\"}\n\n", "x", "", ""},
		"what follows [DONE] is not read": {"{\"event\":\"node_finished\",\"output\":\"x\"}\ndata: " +
			"[DONE]\n<broken", "x", "", ""},
		"a chat completion": {`{"id":"1","choices":[{"message":{"role":"assistant","content":"hi"}}]}`, "hi", "", ""},
		"an upper-case prefix and blanks": {"  DATA:  {\"event\":\"NODE_FINISHED\",\"output\":\"x\"}  \n",
			"x", "", ""},
		"surrogate pairs and lone ones": {`{"output":"\ud83d\ude00\ude00\ud83dx"}`,
			"😀\uFFFD\uFFFDx", "", ""},
		"the first bytes of JSON without a member": {`{"result":"Paris"}`, "", CodeParse, `{"result":"Paris"}`},
		"an envelope after data: may be a part": {"data: {\"output\":\"Par\"}\n\n", "", CodeParse,
			`{"output":"Par"}`},
		"several envelopes": {"{\"answer\":\"Par\"}\n{\"answer\":\"is\"}\n", "", CodeParse,
			"several values"},
		"an envelope beside another value": {"{\"answer\":\"Par\"}\n{\"done\":true}\n", "", CodeParse,
			"several values"},
		"a list of several answers": {`[{"output":"a"},{"output":"b"}]`, "", CodeParse,
			`[{"output":"a"}`},
		"parts of a message": {`{"content":[{"type":"text","text":"Paris"}]}`, "", CodeParse,
			"No answer can be read"},
		"a blank final event beside outputs": {"data: {\"event\":\"node_finished\",\"task_id\":\"1\",\"data\":{\"outputs\":{\"text\":\"x\"}}}\n\n", "", CodeParse, "Dify"},
		"a list of strings as a final":       {`{"event":"node_finished","output":["甲","乙"]}`, "甲\n乙", "", ""},
		"a list of strings as an envelope":   {`{"output":["甲","乙"]}`, "甲\n乙", "", ""},
		"literals cut short":                 {`{"output": tru`, `{"output": tru`, CodeIncomplete, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := decodeBytes([]byte(test.body))
			require.Equal(t, test.code, answer.ErrorCode, "%s", answer.ErrorMessage)
			require.Equal(t, test.answer, string(answer.Text))
			require.Contains(t, answer.ErrorMessage, test.message)
			require.Equal(t, test.code == "", answer.Status == Succeeded)
		})
	}
}

func TestTextOverTheLimitIsCutAtACharacterAndMarked(t *testing.T) {
	t.Parallel()
	chunk := `{"event":"llm_chunk","content":"` + strings.Repeat("长", 1000) + "\"}\n"
	answer := decodeBytes([]byte(strings.Repeat(chunk, MaxText/3000+10) + `{"event":"node_finished"}`))
	require.Equal(t, CodeTooLarge, answer.ErrorCode)
	require.True(t, utf8.Valid(answer.Text))
	require.Contains(t, string(answer.Text[len(answer.Text)-40:]), "cut at 8 MiB")
	require.LessOrEqual(t, len(answer.Text), MaxText+40)
}

// Pings that add up to just below wire.MaxRead do no harm.
func TestPingsBelowTheLimitArePassedOver(t *testing.T) {
	t.Parallel()
	last := `{"event":"node_finished","output":"x"}`
	d := newTranscript(All[0])
	err := d.Read(io.MultiReader(io.LimitReader(endless(": ping\n\n"), wire.MaxRead-1024), strings.NewReader("\n"+last)),
		d)
	require.NoError(t, err)
	answer := d.reader.answer(nil)
	require.Equal(t, "x", string(answer.Text))
	require.Equal(t, Succeeded, answer.Status)
}

// Parts that the reader does not keep may contain the answer, so having more parts than it keeps is a failure,
// unless they are members of a list without text.
func TestAnAnswerBehindTooManyPartsIsNotLost(t *testing.T) {
	t.Parallel()
	numbers := "[" + strings.Repeat("0.5,", 101_000) + "1]"
	answer := decodeBytes([]byte(`{"event":"node_finished","embedding":` + numbers + `,"output":"THE ANSWER"}`))
	require.Equal(t, "THE ANSWER", string(answer.Text))
	var members strings.Builder
	for n := range 201_000 {
		fmt.Fprintf(&members, `"k%d":0,`, n)
	}
	answer = decodeBytes([]byte(`{"event":"node_finished",` + members.String() + `"output":"THE ANSWER"}`))
	require.Equal(t, CodeTooLarge, answer.ErrorCode)
	answer = decodeBytes([]byte(`{"output":"hello","trace":[` +
		strings.Repeat(`{"token":"a","top":[{"t":"a","p":-0.5},{"t":"b","p":-1}]},`, 60_000) + `{}]}`))
	require.Equal(t, "hello", string(answer.Text))
	require.Equal(t, Succeeded, answer.Status)
	answer = decodeBytes([]byte(`{"event":"node_finished","trace":[` + strings.Repeat(`[0,0,0,0,0,0,0,0,0,0,0,0],`,
		9_000) + `0],"output":["THE","ANSWER"]}`))
	require.Equal(t, CodeTooLarge, answer.ErrorCode, "never an empty success")
	answer = decodeBytes([]byte(`{"event":"node_finished","output":[` + strings.Repeat(`"a",`, wire.MaxItems) + `"b"]}`))
	require.Equal(t, CodeTooLarge, answer.ErrorCode)
	answer = decodeBytes([]byte(`{"event":"node_finished","output":[` + strings.Repeat(`"a",`, wire.MaxItems-1) + `"b"]}`))
	require.Equal(t, strings.Repeat("a\n", wire.MaxItems-1)+"b", string(answer.Text))
}

// The time for reading lines that each begin a value without ending it must not grow quadratically with their number.
func TestHostileBracketsAreReadInLinearTime(t *testing.T) {
	t.Parallel()
	done := make(chan Answer, 1)
	go func() { done <- decodeBytes([]byte(strings.Repeat("[1,\n", 2<<20) + "x")) }()
	select {
	case answer := <-done:
		require.NotEmpty(t, answer.ErrorCode)
	case <-time.After(30 * time.Second):
		t.Fatal("still reading")
	}
}

// A value with very many parts needs little more memory than its text. The test is not parallel because it measures
// memory.
func TestManyPartsAreOnlyPassedOver(t *testing.T) {
	body := []byte(`{"event":"node_finished","output":"x","embedding":[` + strings.Repeat("0,", 7<<20) + "0]}")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	answer := decodeBytes(body)
	runtime.ReadMemStats(&after)
	require.Equal(t, "x", string(answer.Text))
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(200), "MiB allocated in all")
}

type endless string

func (e endless) Read(p []byte) (int, error) {
	for n := range p {
		p[n] = e[n%len(e)]
	}
	return len(p) / len(e) * len(e), nil
}

func TestABrokenConnectionIsIncompleteOnceSomethingCame(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	d := newTranscript(All[0])
	err := d.Read(io.MultiReader(strings.NewReader("{\"event\":\"node_finished\",\"output\":\"x\"}\n"),
		iotest.ErrReader(broken)), d)
	require.ErrorIs(t, err, broken)
	answer := d.reader.answer(err)
	require.Equal(t, CodeIncomplete, answer.ErrorCode)
	require.Equal(t, "x", string(answer.Text))
	require.True(t, All[0].Read(iotest.ErrReader(broken), time.Now(), func() {}, error.Error, nil).IsSilent)
}

// FuzzDecode checks that no input crashes the decoder, and that the result does not depend on the chunking.
func FuzzDecode(f *testing.F) {
	for _, recording := range agenttest.Recordings(f) {
		if body := recording.Body(f); len(body) < 16<<10 {
			f.Add(body)
		}
	}
	f.Add([]byte("data: {\"event\":\"llm_chunk\",\"content\":\"\\ud83d\\ude00\"}\r\r{\"output\":[{}]}\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := decodeBytes(body)
		d := newTranscript(All[0])
		err := d.Read(iotest.OneByteReader(bytes.NewReader(body)), d)
		single := d.reader.answer(err)
		if whole.ErrorCode != single.ErrorCode || !bytes.Equal(whole.Text, single.Text) {
			t.Fatalf("chunking matters: %q %q, %q %q", whole.ErrorCode, whole.Text, single.ErrorCode, single.Text)
		}
		if !utf8.ValidString(whole.ErrorMessage) {
			t.Fatalf("message %q", whole.ErrorMessage)
		}
	})
}
