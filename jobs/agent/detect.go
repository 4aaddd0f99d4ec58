package agent

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"wending/jobs/agent/protocol"
)

// maxDetect is the maximum number of protocols that Detect tries.
const maxDetect = 5

// Detect asks a question in one protocol after another, as the address and the answers suggest, until an answer can be
// read, and returns that protocol's name with the answer. If no answer can be read, Detect returns a failure with the
// name of the protocol that the address or an answer suggests; the name is empty if nothing suggests one. Detect calls
// mayGoOn before each call but the first, including calls repeated without streaming; mayGoOn may block, and ends the
// search by returning false.
func (c *Client) Detect(ctx context.Context, q protocol.Request,
	mayGoOn func() bool) (name string, answer protocol.Answer) {
	queue := suggestedBy(q.URL)
	suggested := len(queue)
	if !slices.Contains(queue, protocol.Default) {
		queue = append(queue, protocol.Default)
	}
	for n := 0; n < len(queue) && n < maxDetect; n++ {
		if n > 0 && !mayGoOn() {
			break
		}
		q.Protocol = queue[n]
		got := c.AskEither(ctx, q, mayGoOn)
		if got.IsRead() {
			return queue[n], got
		}
		if n == 0 || got.LooksLike != "" && answer.LooksLike == "" {
			answer = got
		}
		if n == 0 && suggested > 0 && got.HTTPStatus != http.StatusNotFound && got.HTTPStatus != 0 {
			name = queue[0]
		}
		if likely := labelled(got.LooksLike); len(likely) > 0 {
			name = likely[0]
			rest := slices.DeleteFunc(likely, func(name string) bool { return slices.Contains(queue[:n+1], name) })
			queue = append(append(slices.Clone(queue[:n+1]), rest...),
				slices.DeleteFunc(slices.Clone(queue[n+1:]), func(name string) bool {
					return slices.Contains(rest, name)
				})...)
		}
		if got.ErrorCode == protocol.CodeAddressNotAllowed || got.ErrorCode == protocol.CodeNetwork || ctx.Err() != nil {
			break // the next protocol would fail in the same way
		}
	}
	return name, answer
}

// suggestedBy returns the protocols whose usual addresses resemble this one, most likely first.
func suggestedBy(address string) (names []string) {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	type match struct {
		name   string
		length int
	}
	var found []match
	for _, one := range protocol.All {
		if length := one.Suggests(u.Path); length > 0 {
			found = append(found, match{one.Name, length})
		}
	}
	slices.SortStableFunc(found, func(a, b match) int { return b.length - a.length })
	for _, one := range found {
		names = append(names, one.name)
	}
	return names
}

// labelled returns the names of the protocols with a label; for OpenAI's chat completions also fastgpt, whose answers
// look the same.
func labelled(label string) (names []string) {
	if label == "" {
		return nil
	}
	for _, one := range protocol.All {
		if one.Label == label || label == "OpenAI chat completions" && one.Name == "fastgpt" {
			names = append(names, one.Name)
		}
	}
	return names
}
