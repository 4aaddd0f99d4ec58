package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"wending/jobs/agent/observe"
	"wending/jobs/agent/protocol"
	"wending/jobs/agent/wire"
)

const (
	// maxStatus is the maximum length of an accepted job's status in bytes: the status may contain the result.
	maxStatus = 2*protocol.MaxText + 64<<10
	// leastInterval is the minimum time between two polls of a job's status, and statusTimeout is the maximum duration of
	// one poll.
	leastInterval = time.Second
	statusTimeout = time.Minute
	cancelTimeout = 5 * time.Second
)

// valueAt returns the value at a path such as data.items[0].url, which may begin with "$."; the zero Value if there is
// none.
func valueAt(v wire.Value, path string) wire.Value {
	for name := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(path, "$"), "."), ".") {
		name, places, _ := strings.Cut(name, "[")
		if name != "" {
			v, _ = v.Get(name)
		}
		for place := range strings.SplitSeq(places, "[") {
			if place == "" {
				continue
			}
			n, err := strconv.Atoi(strings.TrimSuffix(place, "]"))
			if err != nil || n < 0 || n >= len(v.Items) {
				return wire.Value{}
			}
			v = v.Items[n]
		}
	}
	return v
}

// accepted returns the job that a response describes, if the agent accepts jobs. Otherwise isAccepted is false, and
// the response is read as usual.
func accepted(q protocol.Request, response *http.Response, start time.Time) (job protocol.Job, isAccepted bool) {
	if q.Poll == nil || response.StatusCode < 200 || response.StatusCode > 299 ||
		strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return job, false
	}
	begin, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	body := io.Reader(bytes.NewReader(begin))
	if err != nil {
		body = io.MultiReader(body, failingReader{err})
	} else {
		body = io.MultiReader(body, response.Body)
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{body, response.Body}
	v, _ := wire.Parse(begin)
	find := func(path string) string {
		if name, isHeader := strings.CutPrefix(path, "header:"); isHeader {
			return response.Header.Get(name)
		}
		if found := valueAt(v, path); path != "" && found.Kind == wire.String {
			return string(found.Text)
		}
		return ""
	}
	job = protocol.Job{StatusURL: absolute(q.URL, find(q.Poll.URLPath)),
		CancelURL: absolute(q.URL, find(q.Poll.CancelURLPath)), StartedAt: start,
		AgentTraceID: cmp.Or(protocol.TraceInHeader(response.Header), protocol.TraceInValue(v))}
	return job, job.StatusURL != ""
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// absolute resolves an address relative to another; it returns "" if the result is not a valid address.
func absolute(base, address string) string {
	from, err := url.Parse(base)
	if err != nil || address == "" {
		return ""
	}
	to, err := from.Parse(address)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" {
		return ""
	}
	return to.String()
}

// await polls an accepted job until it is done, has failed, or the time is up. A failed poll does not mean that the
// job has failed.
func (c *Client) await(ctx context.Context, q protocol.Request, job protocol.Job,
	watcher *observe.Watcher) protocol.Answer {
	interval := max(time.Duration(q.Poll.IntervalSeconds)*time.Second, leastInterval)
	var last error
	for {
		status, wait, answer := c.status(ctx, q, job)
		switch {
		case answer != nil && answer.ErrorCode == protocol.CodeNetwork:
			last = errors.New(answer.ErrorMessage)
		case answer != nil:
			return *answer
		default:
			last = nil
			state := string(valueAt(status, q.Poll.DonePath).Text)
			if watcher != nil {
				watcher.Polled(state, status)
			}
			switch {
			case slices.Contains(q.Poll.DoneValues, state):
				result := resultOf(q, status, watcher)
				result.AgentTraceID = protocol.TraceInValue(status)
				return result
			case slices.Contains(q.Poll.FailedValues, state):
				failure := protocol.Failure(protocol.CodeAgent, jobFailure(state, status))
				failure.AgentTraceID = protocol.TraceInValue(status)
				return failure
			}
		}
		select {
		case <-ctx.Done():
			message := "The job was not done in time"
			if last != nil {
				message = "The job's status cannot be read: " + last.Error()
			}
			return protocol.Failure(protocol.CodeNetwork, message)
		case <-q.Leaving:
			return protocol.Failure(protocol.CodeInterrupted, "Another worker is waiting for the job")
		case <-time.After(max(interval, wait)):
		}
	}
}

// status polls once. answer is the failure, if there is one: NETWORK_ERROR means that polling again may help.
func (c *Client) status(ctx context.Context, q protocol.Request,
	job protocol.Job) (status wire.Value, wait time.Duration, answer *protocol.Answer) {
	failed := func(code, message string) (wire.Value, time.Duration, *protocol.Answer) {
		failure := protocol.Failure(code, message)
		return wire.Value{}, wait, &failure
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	response, err := c.toJob(ctx, http.MethodGet, job.StatusURL, q)
	if err != nil {
		failure := connectionFailure(err)
		return wire.Value{}, 0, &failure
	}
	defer response.Body.Close() //nolint:errcheck // read to its end or abandoned
	body, err := io.ReadAll(io.LimitReader(response.Body, maxStatus+1))
	wait = retryAfter(response.Header.Get("Retry-After"), time.Now())
	switch code := response.StatusCode; {
	case err != nil:
		return failed(protocol.CodeNetwork, networkReason(err))
	case len(body) > maxStatus:
		return failed(protocol.CodeTooLarge, "The job's status is larger than 16 MiB")
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return failed(protocol.CodeNetwork, httpMessage(code, body))
	case code < 200 || code > 299:
		return failed(fmt.Sprintf("HTTP_%d", code), "The job is not known any more: "+httpMessage(code, body))
	}
	status, isJSON := wire.Parse(body)
	if !isJSON {
		return failed(protocol.CodeParse, "The job's status is not JSON: "+protocol.Excerpt(body))
	}
	return status, wait, nil
}

// toJob sends a request to an address of a job. Secrets are only sent to the agent's own origin.
func (c *Client) toJob(ctx context.Context, method, address string, q protocol.Request) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "wending")
	request.Header.Set("Accept", "application/json")
	own, err := url.Parse(q.URL)
	if err == nil && own.Scheme == request.URL.Scheme && own.Host == request.URL.Host {
		c.authorize(request, q)
	}
	joinTrace(request, q)
	return c.http.Do(request)
}

// resultOf returns the answer of a job that is done.
func resultOf(q protocol.Request, status wire.Value, watcher *observe.Watcher) protocol.Answer {
	result := valueAt(status, q.Poll.ResultPath)
	text := result.Text
	if result.Kind == wire.Array {
		var lines [][]byte
		for _, one := range result.Items {
			if one.Kind == wire.String {
				lines = append(lines, one.Text)
			}
		}
		if len(lines) == len(result.Items) {
			text = bytes.Join(lines, []byte("\n"))
		}
	}
	switch {
	case result.Kind == wire.Null:
		return protocol.Failure(protocol.CodeParse,
			"The job is done, but there is no result at "+q.Poll.ResultPath+": "+protocol.Excerpt(status.Text))
	case len(text) > protocol.MaxText:
		return protocol.Failure(protocol.CodeTooLarge, "The job's result is larger than 8 MiB")
	}
	if watcher != nil {
		watcher.Text(text)
	}
	return protocol.Answer{Status: protocol.Succeeded, Text: append([]byte{}, text...)}
}

// jobFailure returns the error message in a failed job's status or, if it has none, a message that quotes the status.
func jobFailure(state string, status wire.Value) string {
	for _, path := range []string{"error.message", "error", "error_message", "message", "data.error.message", "data.error",
		"data.error_message", "data.message"} {
		if found := valueAt(status, path); found.Kind == wire.String && len(found.Text) > 0 {
			return protocol.Excerpt(found.Text)
		}
	}
	return "The job ended as " + protocol.Excerpt([]byte(state)) + ": " + protocol.Excerpt(status.Text)
}

// Cancel asks the agent to cancel an accepted job, if the agent supports it.
func (c *Client) Cancel(ctx context.Context, q protocol.Request, job protocol.Job) error {
	if job.CancelURL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	response, err := c.toJob(ctx, http.MethodPost, job.CancelURL, q)
	if err != nil {
		return errors.New(connectionFailure(err).ErrorMessage) // the error's own text contains the URL
	}
	return response.Body.Close()
}
