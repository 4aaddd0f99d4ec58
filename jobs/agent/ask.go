// Package agent sends a question to the HTTP API of an agent or a model, in its protocol, and reads the answer.
package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"wending/jobs/agent/guard"
	"wending/jobs/agent/observe"
	"wending/jobs/agent/protocol"
)

// idleTime is how long an unused connection is kept. It is shorter than the five seconds after which common servers
// close theirs, because a call fails if the server is closing the connection.
const idleTime = 4 * time.Second

// Client calls agents through a Guard. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	guard *guard.Guard
	// apiKey is sent to agents that the allowlist names.
	apiKey string
}

// NewClient returns a client that only connects to addresses permitted by allowed. apiKey, if it is not empty, is
// sent as a bearer token to agents that the guard's allowlist names.
func NewClient(allowed *guard.Guard, apiKey string) *Client {
	return &Client{guard: allowed, apiKey: apiKey, http: allowed.Client(64, func(transport *http.Transport) {
		transport.IdleConnTimeout = idleTime
	})}
}

// Close drops idle connections; a nil client has none.
func (c *Client) Close() {
	if c != nil {
		c.http.CloseIdleConnections()
	}
}

// Ask makes one call. It returns no error: the protocol.Answer describes any outcome.
func (c *Client) Ask(ctx context.Context, q protocol.Request) protocol.Answer {
	start := time.Now()
	if q.TraceID == "" {
		q.TraceID = TraceID(q.Headers, randomHex(16))
	}
	if q.Job != nil {
		start = q.Job.StartedAt
	}
	ctx, cancel := context.WithDeadline(ctx, start.Add(q.Timeout))
	defer cancel()
	answer := c.ask(ctx, q, start)
	if answer.Latency == 0 { // otherwise it is the time of the protocol's end marker, which comes before the body's end
		answer.Latency = time.Since(start)
	}
	if answer.Status != protocol.Succeeded && answer.ErrorCode != protocol.CodeInterrupted &&
		errors.Is(ctx.Err(), context.DeadlineExceeded) {
		answer.Status, answer.ErrorCode = protocol.TimedOut, protocol.CodeTimeout
		answer.ErrorMessage = fmt.Sprintf("Agent request timed out after %s", formatSeconds(q.Timeout))
	}
	c.redact(q, &answer)
	return answer
}

// leastSecret is the minimum length of a header's value, or of a value in the URL's query, that is redacted from a
// server's output.
const leastSecret = 8

// secrets returns the parts of a request that must not be shown, because some servers echo the headers they received.
// Longer parts come first, so that a whole value is replaced before its words.
func (c *Client) secrets(q protocol.Request) (secrets []string) {
	all := []string{c.apiKey}
	for _, value := range q.Headers {
		all = append(all, value)
		all = append(all, strings.Fields(value)...)
	}
	if address, err := url.Parse(q.URL); err == nil {
		all = append(all, address.RawQuery)
		for _, values := range address.Query() {
			all = append(all, values...)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.DeleteFunc(all, func(secret string) bool { return len(secret) < leastSecret })
}

// redact removes the request's secrets from the message and the raw body of a failure. It also drops the agent's own id
// for the call if the id contains a secret.
func (c *Client) redact(q protocol.Request, answer *protocol.Answer) {
	if id := answer.AgentTraceID; id != "" && slices.ContainsFunc(c.secrets(q), func(secret string) bool {
		return strings.Contains(id, secret)
	}) {
		answer.AgentTraceID = ""
	}
	if answer.ErrorMessage == "" && answer.Status == protocol.Succeeded {
		return
	}
	for _, secret := range c.secrets(q) {
		answer.ErrorMessage = strings.ReplaceAll(answer.ErrorMessage, secret, "***")
		answer.Raw = bytes.ReplaceAll(answer.Raw, []byte(secret), []byte("***"))
	}
}

// watch returns a watcher that passes an answer to the request's sink as it arrives; nil if there is no sink.
func (c *Client) watch(q protocol.Request) *observe.Watcher {
	if q.Events == nil {
		return nil
	}
	return observe.New(q.Protocol, q.Events, c.Mask(q))
}

// Mask returns a function that redacts a request's secrets in a text from its agent.
func (c *Client) Mask(q protocol.Request) func(string) string {
	secrets := c.secrets(q)
	return func(text string) string {
		for _, secret := range secrets {
			text = strings.ReplaceAll(text, secret, "***")
		}
		return text
	}
}

func formatSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

func (c *Client) ask(ctx context.Context, q protocol.Request, start time.Time) protocol.Answer {
	if q.Job != nil && q.Poll != nil {
		return c.continueJob(ctx, q, *q.Job)
	}
	spoken, isKnown := protocol.Of(q.Protocol)
	if !isKnown {
		return protocol.Failure(protocol.CodeParse, "Unknown protocol: "+q.Protocol)
	}
	body, err := q.Body()
	if err != nil {
		return protocol.Failure(protocol.CodeParse, "The request body cannot be built: "+err.Error())
	}
	address, err := spoken.Address(q)
	if err != nil {
		return protocol.Failure(protocol.CodeNetwork, "The agent's URL cannot be used")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return protocol.Failure(protocol.CodeNetwork, "The agent's URL cannot be used")
	}
	request.GetBody = nil // otherwise net/http might resend the body, without a rate-limit slot
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "wending")
	request.Header.Set("Accept", "application/json")
	if q.Stream {
		request.Header.Set("Accept", "text/event-stream, application/json")
	}
	for name, text := range spoken.Headers() {
		request.Header.Set(name, text)
	}
	c.authorize(request, q)
	joinTrace(request, q)
	request.Header.Set("Idempotency-Key", q.IdempotencyKey)
	response, err := c.http.Do(request)
	if err != nil {
		return connectionFailure(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end or abandoned
	if job, isAccepted := accepted(q, response, start); isAccepted {
		_ = response.Body.Close()
		if q.Accepted != nil {
			q.Accepted(job)
		}
		return c.continueJob(ctx, q, job)
	}
	watcher := c.watch(q)
	answer := read(response, spoken, q.RawLimit, start, watcher)
	answer.RefusesStream = q.Stream && (answer.RefusesStream || isStreamRefused(answer))
	tellFiles(watcher, answer)
	return answer
}

// continueJob waits for an accepted job and returns its answer.
func (c *Client) continueJob(ctx context.Context, q protocol.Request, job protocol.Job) protocol.Answer {
	watcher := c.watch(q)
	answer := c.await(ctx, q, job, watcher)
	answer.AgentTraceID = cmp.Or(job.AgentTraceID, answer.AgentTraceID)
	tellFiles(watcher, answer)
	return answer
}

// tellFiles reports to watcher the files that a successful answer's text links to.
func tellFiles(watcher *observe.Watcher, answer protocol.Answer) {
	if watcher != nil && answer.Status == protocol.Succeeded {
		watcher.Answer(answer.Text)
	}
}

// authorize adds the task's headers to a request, and the API key if the allowlist names the agent.
func (c *Client) authorize(request *http.Request, q protocol.Request) {
	if c.apiKey != "" && c.guard.Names(request.URL) {
		request.Header.Set("Authorization", "Bearer "+c.apiKey)
	}
	for name, text := range q.Headers {
		request.Header.Set(name, text)
	}
}

// connectionFailure names the cause without the URL, whose query may contain a secret.
func connectionFailure(err error) protocol.Answer {
	if refused := (*guard.NotAllowedError)(nil); errors.As(err, &refused) {
		return protocol.Failure(protocol.CodeAddressNotAllowed, refused.Error())
	}
	return protocol.Failure(protocol.CodeNetwork, networkReason(err))
}

// networkReason describes a connection failure. It leaves out resolved addresses, name servers and anything that a
// server other than the agent may have sent, because they may belong to an internal network.
func networkReason(err error) string {
	var (
		lookup   *net.DNSError
		broken   *net.OpError
		system   syscall.Errno
		misnamed x509.HostnameError
		untrue   *tls.CertificateVerificationError
		noTLS    tls.RecordHeaderError
		alert    tls.AlertError
		wrongURL *url.Error
	)
	switch {
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return fmt.Sprintf("The name %s cannot be resolved: no such host", lookup.Name)
	case errors.As(err, &lookup):
		return fmt.Sprintf("The name %s cannot be resolved now: the name server does not answer", lookup.Name)
	case errors.As(err, &misnamed):
		return "The agent's certificate is for another name"
	case errors.As(err, &untrue):
		return "The agent's certificate is not valid: " + protocol.Excerpt([]byte(untrue.Err.Error()))
	case errors.As(err, &noTLS):
		return "The agent does not speak TLS"
	case errors.As(err, &alert):
		return "The TLS handshake failed: " + alert.Error()
	case errors.As(err, &system):
		return "The connection failed: " + system.Error()
	case errors.As(err, &broken) && broken.Timeout():
		return "The connection failed: timeout"
	case strings.Contains(err.Error(), "malformed"):
		return "The response is not HTTP"
	// net/http reports readLoopPeekFail if the agent sends bytes before it has received a request.
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "readLoopPeekFail"):
		return "The agent closed the connection"
	case errors.As(err, &broken):
		return "The connection failed"
	}
	if errors.As(err, &wrongURL) {
		err = wrongURL.Err
	}
	return protocol.Excerpt([]byte(err.Error()))
}

// lingerTime is how long reading continues after an answer's end: the connection can then be reused, and some servers
// send usage only at that point.
const lingerTime = 250 * time.Millisecond

// read turns a response into an Answer.
func read(response *http.Response, spoken protocol.Protocol, rawLimit int, start time.Time,
	watcher *observe.Watcher) protocol.Answer {
	raw := &prefix{limit: rawLimit}
	answer := readBody(response, spoken, io.TeeReader(response.Body, raw), start, watcher)
	answer.AgentTraceID = cmp.Or(protocol.TraceInHeader(response.Header), answer.AgentTraceID)
	answer.HTTPStatus = response.StatusCode
	answer.ContentType = response.Header.Get("Content-Type")
	answer.Raw = raw.kept
	return answer
}

func readBody(response *http.Response, spoken protocol.Protocol, body io.Reader, start time.Time,
	watcher *observe.Watcher) protocol.Answer {
	if response.StatusCode < 200 || response.StatusCode > 299 {
		begin, _ := io.ReadAll(io.LimitReader(decodedBody(response, body), 16<<10))
		answer := protocol.Failure(fmt.Sprintf("HTTP_%d", response.StatusCode), httpMessage(response.StatusCode, begin))
		answer.AgentTraceID = protocol.TraceInBody(bytes.NewReader(begin))
		answer.RefusesStream = refusesStream(response.StatusCode, begin)
		if response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable {
			answer.RetryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
		}
		return answer
	}
	linger := func() { time.AfterFunc(lingerTime, func() { _ = response.Body.Close() }) }
	var tap protocol.Tap
	if watcher != nil {
		tap = watcher
	}
	answer := spoken.Read(decodedBody(response, body), start, linger, networkReason, tap)
	if answer.IsSilent && answer.Status != protocol.Succeeded {
		return protocol.Failure(protocol.CodeNetwork, strings.TrimPrefix(answer.ErrorMessage, protocol.BrokenBefore))
	}
	return answer
}

// decodedBody returns the body as UTF-8 if its Content-Type names another charset.
func decodedBody(response *http.Response, body io.Reader) io.Reader {
	_, parameters, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || parameters["charset"] == "" {
		return body
	}
	encoding, err := htmlindex.Get(parameters["charset"])
	if err != nil {
		return body
	}
	if name, err := htmlindex.Name(encoding); err != nil || name == "utf-8" {
		return body // the decoder for UTF-8 would replace invalid bytes
	}
	return transform.NewReader(body, unicode.BOMOverride(encoding.NewDecoder()))
}

func httpMessage(status int, begin []byte) string {
	message := fmt.Sprintf("The agent answered HTTP %d", status)
	if name := http.StatusText(status); name != "" {
		message += " " + name
	}
	if failure := protocol.FailureIn(bytes.NewReader(begin)); failure != "" {
		return message + ": " + failure
	}
	if text := protocol.Excerpt(begin); text != "" {
		return message + ": " + text
	}
	return message
}

// retryAfter returns how long a Retry-After header, in seconds or as an HTTP date, asks to wait; 0 if it asks for
// nothing.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 3600)) * time.Second
	}
	if moment, err := http.ParseTime(header); err == nil && moment.After(now) {
		return moment.Sub(now)
	}
	return 0
}

// prefix keeps the first bytes that are written to it.
type prefix struct {
	kept  []byte
	limit int
}

func (p *prefix) Write(b []byte) (int, error) {
	if room := p.limit - len(p.kept); room > 0 {
		p.kept = append(p.kept, b[:min(room, len(b))]...)
	}
	return len(b), nil
}
