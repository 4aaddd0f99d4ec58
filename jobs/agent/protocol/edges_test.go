package protocol

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The reason for an agent's failure is found wherever the agent puts it, and no other text is mistaken for it.
func TestFailuresAreReadWhereverTheyStand(t *testing.T) {
	t.Parallel()
	for body, message := range map[string]string{
		`{"code":1,"data":"a reason, no answer","msg":"beside"}`:                       "a reason, no answer",
		"data: {\"event\":\"error\",\"data\":\"said as data\",\"msg\":\"beside\"}\n\n": "said as data",
		`{"code":1,"data":"","msg":"beside"}`:                                          "beside",
		`{"code":1,"data":7,"message":"beside"}`:                                       "beside",
		`{"code":1,"message":"","msg":"the second"}`:                                   "the second",
		`{"code":1,"error":{"type":"x","message":"nested"}}`:                           "nested",
		`{"code":1,"error":["a"],"detail":"after a list"}`:                             "after a list",
		`{"code":1,"data":{"error_message":"in data"}}`:                                "in data",
		`{"code":1,"unknown":true}`:                                                    `{"code":1,"unknown":true}`,
		`{"error":"said"}`:                                                             "said",
		`data: {"event":"error","data":{"message":"by an event"}}` + "\n\n":            "by an event",
	} {
		answer := decodeBytes([]byte(body))
		require.Equal(t, CodeAgent, answer.ErrorCode, body)
		require.Equal(t, message, answer.ErrorMessage, body)
	}
	for _, body := range []string{
		`{"error":false,"output":"yes"}`, `{"error":null,"output":"yes"}`, `{"error":"","output":"yes"}`,
		`{"code":200,"output":"yes"}`, `{"code":"SUCCESS","output":"yes"}`, `{"code":null,"output":"yes"}`,
	} {
		answer := decodeBytes([]byte(body))
		require.Equal(t, Succeeded, answer.Status, "%s: %s", body, answer.ErrorMessage)
		require.Equal(t, "yes", string(answer.Text), body)
	}
}

// Reasoning and answer share one limit, and the cut does not split a character.
func TestReasoningAndAnswerShareTheirLimit(t *testing.T) {
	t.Parallel()
	stream := func(reasoning, chunks int, last string) []byte {
		var body strings.Builder
		piece := strings.Repeat("a", 1<<20)
		for range reasoning {
			body.WriteString(`data: {"event":"reasoning_chunk","content":"` + piece + "\"}\n\n")
		}
		for range chunks {
			body.WriteString(`data: {"event":"llm_chunk","content":"` + piece + "\"}\n\n")
		}
		body.WriteString(`data: {"event":"llm_chunk","content":"` + last + "\"}\n\n")
		return []byte(body.String())
	}
	require.NotEqual(t, CodeTooLarge, decodeBytes(stream(5, 3, "")).ErrorCode)
	require.Equal(t, CodeTooLarge, decodeBytes(stream(5, 3, "b")).ErrorCode, "one byte more")
	answer := decodeBytes(stream(4, 3, strings.Repeat("a", 1<<20-1)+"长"))
	require.Equal(t, CodeTooLarge, answer.ErrorCode)
	said, isMarked := strings.CutSuffix(string(answer.Text), "…[cut at 8 MiB]")
	require.True(t, isMarked)
	require.Len(t, said, 4<<20-1, "the character that does not fit is left out as a whole")
}

// A text that replaces the answer may be as large as the limit allows, even after some reasoning.
func TestAReplacedAnswerOfTheWholeLimitLeavesNoRoom(t *testing.T) {
	t.Parallel()
	body := `data: {"event":"reasoning_chunk","conversation_id":"c","data":{"reasoning":"some"}}` + "\n\n" +
		`data: {"event":"message_replace","conversation_id":"c","answer":"` + strings.Repeat("a", MaxText) + "\"}\n\n" +
		`data: {"event":"message","conversation_id":"c","answer":"b"}` + "\n\n"
	dify, isKnown := Of("dify-chat")
	require.True(t, isKnown)
	answer := dify.Read(strings.NewReader(body), time.Now(), func() {}, error.Error, nil)
	require.Equal(t, CodeTooLarge, answer.ErrorCode)
}
