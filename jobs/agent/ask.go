// Package agent asks an agent's HTTP API one question and reads the answer in any of the shapes of the default protocol.
package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Status is how a call ended.
type Status string

// The possible outcomes of a call.
const (
	Succeeded Status = "SUCCEEDED"
	Failed    Status = "FAILED"
	TimedOut  Status = "TIMEOUT"
)

// Error codes of calls that did not succeed; beside them HTTP_<status>.
const (
	CodeTimeout           = "TIMEOUT"
	CodeNetwork           = "NETWORK_ERROR"
	CodeAddressNotAllowed = "ADDRESS_NOT_ALLOWED"
	CodeAgent             = "AGENT_ERROR"
	CodeParse             = "PARSE_ERROR"
	CodeIncomplete        = "INCOMPLETE_RESPONSE"
	CodeTooLarge          = "RESPONSE_TOO_LARGE"
)

// Request is one question to one agent.
type Request struct {
	URL     string
	Headers map[string]string
	// Question and the rest of the body of spec/004; nil pointers become null.
	Question       string
	StandardAnswer string
	SystemPrompt   *string
	UserContext    *string
	Stream         bool
	// ExtraPayload is a JSON object whose members are merged into the body, over those above; nil means there are none.
	ExtraPayload json.RawMessage
	// IdempotencyKey lets the agent recognise a retried call.
	IdempotencyKey string
	// Timeout is the time from the call's start to the answer's last byte.
	Timeout time.Duration
	// RawLimit is how many bytes of the raw body are kept in Answer.Raw.
	RawLimit int
}

// Answer is the outcome of a call.
type Answer struct {
	Status Status
	// Text is the answer byte for byte, or the part that had arrived when the call failed; nil means nothing had arrived.
	Text []byte
	// Reasoning is the agent's reasoning text, kept separate from the answer.
	Reasoning []byte
	// ErrorCode and ErrorMessage are empty when Status is Succeeded.
	ErrorCode, ErrorMessage string
	Latency                 time.Duration
	// RetryAfter is how long the agent asked clients to wait; zero means it did not ask.
	RetryAfter time.Duration
	// HTTPStatus is zero when no response came.
	HTTPStatus  int
	ContentType string
	// Raw is the beginning of the body, as far as the request's RawLimit goes.
	Raw []byte
}

// Default is the name of the protocol of spec/004.
const Default = "default"

// Client calls agents through a Guard. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	guard *Guard
	// apiKey goes to agents that the allowlist names.
	apiKey string
}

// NewClient returns a client that reaches only what guard allows. apiKey, when it is not empty, is sent
// as a bearer token to agents that the guard's allowlist names.
func NewClient(guard *Guard, apiKey string) *Client {
	transport := &http.Transport{
		Proxy:                  nil, // a proxy would resolve and connect behind the guard's back
		DialContext:            guard.dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        60 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &Client{guard: guard, apiKey: apiKey, http: &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a redirect would carry the headers elsewhere
		},
	}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Ask makes one call. It never fails: the Answer describes any outcome.
func (c *Client) Ask(ctx context.Context, q Request) Answer {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	answer := c.ask(ctx, q)
	answer.Latency = time.Since(start)
	if answer.Status != Succeeded && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		answer.Status, answer.ErrorCode = TimedOut, CodeTimeout
		answer.ErrorMessage = fmt.Sprintf("Agent request timed out after %s", formatSeconds(q.Timeout))
	}
	return answer
}

func formatSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

func (c *Client) ask(ctx context.Context, q Request) Answer {
	body, err := q.body()
	if err != nil {
		return failed(CodeParse, "The request body cannot be built: "+err.Error())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, q.URL, bytes.NewReader(body))
	if err != nil {
		return failed(CodeNetwork, "The agent's URL cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "wending")
	request.Header.Set("Accept", "application/json")
	if q.Stream {
		request.Header.Set("Accept", "text/event-stream, application/json")
	}
	if c.apiKey != "" && c.guard.Names(request.URL) {
		request.Header.Set("Authorization", "Bearer "+c.apiKey)
	}
	for name, text := range q.Headers {
		request.Header.Set(name, text)
	}
	request.Header.Set("Idempotency-Key", q.IdempotencyKey)
	response, err := c.http.Do(request)
	if err != nil {
		return connectionFailure(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end or abandoned
	return read(response, q.RawLimit)
}

func failed(code, message string) Answer {
	return Answer{Status: Failed, ErrorCode: code, ErrorMessage: message}
}

// connectionFailure names the cause without the URL, whose query may hold a secret.
func connectionFailure(err error) Answer {
	if refused := (*NotAllowedError)(nil); errors.As(err, &refused) {
		return failed(CodeAddressNotAllowed, refused.Error())
	}
	return failed(CodeNetwork, networkReason(err))
}

// networkReason says what is wrong with a connection. It names no resolved address, no name server and nothing that a
// server other than an agent may have sent: all that may be of an inner network.
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
		return "The agent's certificate is not valid: " + excerptOf([]byte(untrue.Err.Error()))
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
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "readLoopPeekFail"):
		return "The agent closed the connection" // the last is net/http's when bytes come before the request is sent
	case errors.As(err, &broken):
		return "The connection failed"
	}
	if errors.As(err, &wrongURL) {
		err = wrongURL.Err
	}
	return excerptOf([]byte(err.Error()))
}

// read turns a response into an Answer.
func read(response *http.Response, rawLimit int) Answer {
	raw := &prefix{limit: rawLimit}
	tee := io.TeeReader(response.Body, raw)
	answer := readBody(response, tee)
	answer.HTTPStatus = response.StatusCode
	answer.ContentType = response.Header.Get("Content-Type")
	answer.Raw = raw.kept
	return answer
}

func readBody(response *http.Response, body io.Reader) Answer {
	d := decoder{}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		begin, _ := io.ReadAll(io.LimitReader(decodedBody(response, body), 16<<10))
		answer := failed(fmt.Sprintf("HTTP_%d", response.StatusCode), httpMessage(response.StatusCode, begin))
		if response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable {
			answer.RetryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
		}
		return answer
	}
	err := d.decode(decodedBody(response, body))
	answer := d.answer(err)
	answer.Reasoning = d.reasoning
	return answer
}

// answer decides what the collected events amount to. broken is the transport's error, if any.
func (d *decoder) answer(broken error) Answer {
	text := d.chunks
	if len(text) == 0 {
		text = d.partial
	}
	if d.final != nil && (!d.isFinalBlank || len(d.chunks) == 0) {
		text = d.final
	} else if !d.sawFinal && !d.sawChunk && d.isOneEnvelope() {
		text = d.envelope
	}
	switch {
	case d.tooLarge:
		text = append(text[:cutAtCharacter(text, MaxText):cutAtCharacter(text, MaxText)], "…[cut at 8 MiB]"...)
		return Answer{Status: Failed, Text: text, ErrorCode: CodeTooLarge, ErrorMessage: "The answer is larger than 8 MiB and was cut"}
	case broken != nil && d.w.read == 0:
		return connectionFailure(broken)
	case broken != nil:
		return Answer{Status: Failed, Text: text, ErrorCode: CodeIncomplete,
			ErrorMessage: "The connection broke before the answer's end: " + networkReason(broken)}
	case d.hasFailed:
		return Answer{Status: Failed, Text: text, ErrorCode: CodeAgent, ErrorMessage: d.failure}
	case d.incomplete:
		return Answer{Status: Failed, Text: text, ErrorCode: CodeIncomplete, ErrorMessage: "The answer ends inside a JSON value"}
	case d.sawFinal:
		if text == nil {
			text = []byte{}
		}
		return Answer{Status: Succeeded, Text: text}
	case d.sawChunk:
		message := "The stream ended without its final event"
		if len(d.excerpt) > 0 {
			message += "; it contains: " + excerptOf(d.excerpt)
		}
		return Answer{Status: Failed, Text: text, ErrorCode: CodeIncomplete, ErrorMessage: message}
	case d.isOneEnvelope():
		return Answer{Status: Succeeded, Text: text}
	case d.w.read == 0:
		return failed(CodeParse, "The agent answered with an empty body")
	case d.looksLike != "":
		return failed(CodeParse, fmt.Sprintf("The response looks like the protocol of %s, which is not the one expected: %s",
			d.looksLike, excerptOf(d.w.begin)))
	case d.sawEnvelope:
		return failed(CodeParse, "The response holds several values, none of which is marked as the whole answer: "+excerptOf(d.w.begin))
	default:
		return failed(CodeParse, "No answer can be read from: "+excerptOf(d.w.begin))
	}
}

// isOneEnvelope reports whether the body is one JSON value that holds an answer. If the body has anything
// else, such a value may be a fragment.
func (d *decoder) isOneEnvelope() bool {
	return d.sawEnvelope && d.values == 1 && len(d.excerpt) == 0
}

// decodedBody reads the body as UTF-8 where its Content-Type names another charset.
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
		return body // its decoder would replace bytes that are not valid
	}
	return transform.NewReader(body, unicode.BOMOverride(encoding.NewDecoder()))
}

func httpMessage(status int, begin []byte) string {
	message := fmt.Sprintf("The agent answered HTTP %d", status)
	if name := http.StatusText(status); name != "" {
		message += " " + name
	}
	d := decoder{}
	if d.decode(bytes.NewReader(begin)) == nil && d.hasFailed {
		return message + ": " + d.failure
	}
	if text := excerptOf(begin); text != "" {
		return message + ": " + text
	}
	return message
}

// retryAfter reads the header: seconds or an HTTP date.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 3600)) * time.Second
	}
	if moment, err := http.ParseTime(header); err == nil && moment.After(now) {
		return moment.Sub(now)
	}
	return 0
}

// body is the request's JSON: the members of spec/004, overridden by the extra payload.
func (q Request) body() ([]byte, error) {
	members := map[string]any{
		"question": q.Question, "standard_answer": q.StandardAnswer,
		"system_prompt": q.SystemPrompt, "user_context": q.UserContext, "stream": q.Stream,
	}
	if len(q.ExtraPayload) > 0 {
		var extra map[string]json.RawMessage
		if err := json.Unmarshal(q.ExtraPayload, &extra); err != nil {
			return nil, err
		}
		for name, member := range extra {
			members[name] = member
		}
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(members)
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), err
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
