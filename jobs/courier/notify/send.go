package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/wneessen/go-mail"

	"wending/jobs/agent/guard"
)

// Target is the address to which a channel's messages are sent.
type Target struct {
	Kind Kind
	// URL is the whole address, including its secret parts; empty for e-mail.
	URL string
	// Recipients are the addresses of an e-mail.
	Recipients []string
	// Secret signs messages; empty means unsigned.
	Secret string
}

// Outcome describes how an attempt to send a message ended.
type Outcome struct {
	// Status is the HTTP status of the response, 0 if there was none.
	Status int
	// Error is the reason for the failure, without secrets; empty if the receiver accepted the message.
	Error string
	// IsFinal reports that the receiver wants no further attempt; RetryAfter is how long it asks senders to wait.
	IsFinal    bool
	RetryAfter time.Duration
}

// Timeout is the maximum duration of an attempt.
const Timeout = 20 * time.Second

// Sender sends messages. It is safe for concurrent use.
type Sender struct {
	http *http.Client
	mail *mailServer
	// now is replaced in tests of signatures.
	now func() time.Time
}

// mailServer is the server that accepts e-mails.
type mailServer struct {
	host, user, password, from string
	port                       int
	isSMTPS                    bool
}

// NewSender returns a sender that only connects to addresses permitted by allowed. smtpURL is smtp:// or
// smtps://user:password@host:port and is not checked against allowed, because the operator set it; empty means that
// no e-mail can be sent.
func NewSender(allowed *guard.Guard, smtpURL, smtpFrom string) (*Sender, error) {
	s := &Sender{now: time.Now, http: allowed.Client(4)}
	if smtpURL == "" {
		return s, nil
	}
	u, err := url.Parse(smtpURL)
	// The error's own text contains the URL with the password.
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || smtpFrom == "" {
		return nil,
			errors.New("SMTP_URL must be smtp:// or smtps://user:password@host:port, and SMTP_FROM must also be set")
	}
	server := &mailServer{host: u.Hostname(), from: smtpFrom, user: u.User.Username(), isSMTPS: u.Scheme == "smtps",
		port: mail.DefaultPortTLS}
	server.password, _ = u.User.Password()
	if server.isSMTPS {
		server.port = mail.DefaultPortSSL
	}
	if u.Port() != "" {
		if server.port, err = strconv.Atoi(u.Port()); err != nil {
			return nil, errors.New("SMTP_URL has no valid port")
		}
	}
	if err := mail.NewMsg().From(smtpFrom); err != nil {
		return nil, fmt.Errorf("SMTP_FROM: %w", err)
	}
	s.mail = server
	return s, nil
}

// HasMail reports whether e-mails can be sent.
func (s *Sender) HasMail() bool { return s.mail != nil }

// Close drops idle connections; a nil Sender has none.
func (s *Sender) Close() {
	if s != nil {
		s.http.CloseIdleConnections()
	}
}

// Send makes one attempt to deliver a body to a target. It returns no error: the Outcome describes what happened.
func (s *Sender) Send(ctx context.Context, to Target, id uuid.UUID, body []byte) Outcome {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var outcome Outcome
	if to.Kind == Email {
		outcome = s.sendMail(ctx, to, id, body)
	} else {
		outcome = s.post(ctx, to, id, body)
	}
	if outcome.Error != "" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		outcome.Error = fmt.Sprintf("no answer within %d s", int(Timeout.Seconds()))
	}
	outcome.Error = to.redact(outcome.Error)
	return outcome
}

// request builds the signed request.
func (s *Sender) request(ctx context.Context, to Target, id uuid.UUID, body []byte) (*http.Request, error) {
	address, now := to.URL, s.now()
	switch {
	case to.Kind == DingTalk && to.Secret != "":
		u, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		query := u.Query()
		timestamp, sign := SignDingTalk(to.Secret, now)
		query.Set("timestamp", timestamp)
		query.Set("sign", sign)
		u.RawQuery = query.Encode()
		address = u.String()
	case to.Kind == Feishu && to.Secret != "":
		members := map[string]json.RawMessage{}
		if err := json.Unmarshal(body, &members); err != nil {
			return nil, err
		}
		timestamp, sign := SignFeishu(to.Secret, now)
		for name, value := range map[string]string{"timestamp": timestamp, "sign": sign} {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			members[name] = text
		}
		var err error
		if body, err = json.Marshal(members); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("User-Agent", "wending")
	if to.Kind == Webhook {
		name := WebhookID(id)
		request.Header.Set("webhook-id", name)
		request.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		if to.Secret != "" {
			key, err := WebhookKey(to.Secret)
			if err != nil {
				return nil, err
			}
			request.Header.Set("webhook-signature", SignWebhook(key, name, now, body))
		}
	}
	return request, nil
}

// answerLimit is the maximum number of bytes of a response that are read.
const answerLimit = 64 << 10

func (s *Sender) post(ctx context.Context, to Target, id uuid.UUID, body []byte) Outcome {
	request, err := s.request(ctx, to, id, body)
	if errors.Is(err, ErrSecret) {
		return Outcome{Error: err.Error(), IsFinal: true}
	}
	if err != nil {
		return Outcome{Error: "the address cannot be used", IsFinal: true}
	}
	response, err := s.http.Do(request)
	if err != nil {
		return Outcome{Error: failure(err)}
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return Outcome{Status: response.StatusCode, Error: failure(err)}
	}
	outcome := Outcome{Status: response.StatusCode}
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		outcome.Error = fmt.Sprintf("HTTP %d: redirects are not followed", response.StatusCode)
	case response.StatusCode < 200 || response.StatusCode >= 300:
		outcome.Error = strings.TrimRight(fmt.Sprintf("HTTP %d: %s", response.StatusCode, excerpt(answer)), ": ")
		outcome.IsFinal = response.StatusCode == http.StatusGone
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
			outcome.RetryAfter = min(time.Duration(seconds)*time.Second, time.Hour)
		}
	default:
		outcome.Error = refusal(to.Kind, answer)
	}
	return outcome
}

// refusal returns the reason that a chat program gives, in a 200 response, for not accepting a message; empty if it
// accepted the message.
func refusal(kind Kind, answer []byte) string {
	var said struct {
		ErrCode    *int   `json:"errcode"` // DingTalk, WeCom
		ErrMsg     string `json:"errmsg"`
		Code       *int   `json:"code"` // Feishu
		StatusCode *int   `json:"StatusCode"`
		Msg        string `json:"msg"`
	}
	if kind == Webhook || kind == Slack {
		return ""
	}
	if json.Unmarshal(answer, &said) != nil {
		return "the answer is not that of the chat program: " + excerpt(answer)
	}
	code, message := said.ErrCode, said.ErrMsg
	if kind == Feishu {
		if code, message = said.Code, said.Msg; code == nil {
			code = said.StatusCode
		}
	}
	switch {
	case code == nil:
		return "the answer is not that of the chat program: " + excerpt(answer)
	case *code != 0:
		return fmt.Sprintf("%d: %s", *code, excerpt([]byte(message)))
	}
	return ""
}

// failure describes why there was no response, without the address.
func failure(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var refused *guard.NotAllowedError
	if errors.As(err, &refused) {
		return "the address is not allowed; see " + refused.Variable
	}
	var name *net.DNSError
	if errors.As(err, &name) {
		return "the name of the host cannot be resolved"
	}
	return err.Error()
}

// excerpt returns the beginning of a response, in one line.
func excerpt(answer []byte) string {
	text := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(string(answer), "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if runes := []rune(text); len(runes) > 300 {
		return string(runes[:300]) + "…"
	}
	return text
}

// leastSecret is the minimum length in bytes of a part of an address that redact removes.
const leastSecret = 8

// redact removes a target's secrets from a text.
func (t Target) redact(text string) string {
	secrets := []string{t.URL, t.Secret, strings.TrimPrefix(t.Secret, secretPrefix)}
	if u, err := url.Parse(t.URL); err == nil {
		secrets = append(secrets, u.RawQuery, u.Path)
		secrets = append(secrets, strings.Split(u.Path, "/")...)
		for _, values := range u.Query() {
			secrets = append(secrets, values...)
		}
	}
	for _, secret := range secrets {
		if len(secret) >= leastSecret {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

func (s *Sender) sendMail(ctx context.Context, to Target, id uuid.UUID, body []byte) Outcome {
	if s.mail == nil {
		return Outcome{Error: "SMTP_URL is not set"}
	}
	var text letter
	if err := json.Unmarshal(body, &text); err != nil {
		return Outcome{Error: "the message cannot be read", IsFinal: true}
	}
	message := mail.NewMsg()
	err := errors.Join(message.From(s.mail.from), message.To(to.Recipients...))
	if err != nil {
		return Outcome{Error: err.Error(), IsFinal: true}
	}
	message.Subject(text.Subject)
	message.SetMessageIDWithValue(WebhookID(id) + "@wending")
	message.SetDateWithValue(s.now())
	message.SetBodyString(mail.TypeTextPlain, text.Text)
	options := []mail.Option{mail.WithPort(s.mail.port), mail.WithTimeout(Timeout),
		mail.WithTLSPolicy(mail.TLSOpportunistic)}
	if s.mail.isSMTPS {
		options = append(options, mail.WithSSL())
	}
	if s.mail.user != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(s.mail.user),
			mail.WithPassword(s.mail.password))
	}
	client, err := mail.NewClient(s.mail.host, options...)
	if err == nil {
		err = client.DialAndSendWithContext(ctx, message)
	}
	if err != nil {
		text := err.Error()
		if len(s.mail.password) >= leastSecret {
			text = strings.ReplaceAll(text, s.mail.password, "***")
		}
		return Outcome{Error: excerpt([]byte(text))}
	}
	return Outcome{}
}
