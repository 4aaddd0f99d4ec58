package agent

import (
	"context"
	"net/http"
	"regexp"
	"slices"

	"wending/jobs/agent/protocol"
)

// refusals are the statuses with which agents reject the form of a request.
var refusals = []int{
	http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType,
	http.StatusUnprocessableEntity, http.StatusNotImplemented,
}

// These match the text of a refusal to stream: a sentence that mentions streaming and denies it. Names that merely
// contain the word, such as upstream and stream_options, do not count.
var (
	namesStreaming  = regexp.MustCompile(`(?i)\b(stream|streams|streaming|streamed|event-stream|sse)\b|流式`)
	refusesToStream = regexp.MustCompile(`(?i)` +
		`(\b(stream|streams|streaming|streamed|event-stream|sse)\b|流式)[^.;。；\n]{0,80}` + refusal +
		`|` + refusal + `[^.;。；\n]{0,40}(\b(stream|streams|streaming|event-stream|sse)\b|流式)`)
)

const refusal = `(not (currently |yet |be )?(supported|available|implemented|enabled|allowed)|n't (support|available|enabled)|not support|` +
	`unsupported|disabled|(must|should) be false|unable to|cannot|can't|不支持|暂不|未开启|未启用|已关闭)`

// refusesStream reports whether a status and text mean that the agent does not stream. 406 and 501 are refusals in
// themselves, so their text only has to mention streaming.
func refusesStream(status int, text []byte) bool {
	if status == http.StatusNotAcceptable || status == http.StatusNotImplemented {
		return namesStreaming.Match(text)
	}
	return slices.Contains(refusals, status) && refusesToStream.Match(text)
}

// isStreamRefused reports whether a streaming call failed before any part of an answer arrived, because the agent
// does not stream.
func isStreamRefused(answer protocol.Answer) bool {
	return answer.ErrorCode == protocol.CodeAgent && len(answer.Text) == 0 &&
		refusesToStream.MatchString(answer.ErrorMessage)
}

// AskEither makes a call, and repeats it without streaming if the agent reports that it does not stream. Before the
// second call, it calls mayGoOn, which may block, and makes no second call if that returns false.
func (c *Client) AskEither(ctx context.Context, q protocol.Request, mayGoOn func() bool) protocol.Answer {
	answer := c.Ask(ctx, q)
	if answer.RefusesStream && mayGoOn() {
		q.Stream = false
		answer = c.Ask(ctx, q)
	}
	return answer
}
