package notify_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"wending/jobs/agent/guard"
	"wending/jobs/courier/notify"
)

const whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func newSender(t *testing.T, smtp string) *notify.Sender {
	t.Helper()
	allowed, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	sender, err := notify.NewSender(allowed, smtp, "Wending <wending@example.com>")
	require.NoError(t, err)
	t.Cleanup(sender.Close)
	return sender
}

var message = notify.Message{
	Type: "task.finished", At: time.Date(2026, 11, 22, 2, 0, 0, 123_456_789, time.UTC),
	Title: "已完成：<script>[x](http://evil) *夜间* `回归`", Tone: notify.Good,
	Facts: []notify.Fact{{Name: "一致率", Value: "82.0%"}}, Worse: []notify.Fact{{Value: "q1：100% → 40%"}},
	WorseTitle: "变差的问题", Colon: "：",
	Link: "https://wending.example/tasks/1", LinkText: "查看结果", Data: map[string]any{"task_id": "1"},
}

// Messages have the members that each chat program's documentation requires, and nothing in a name is read as markup.
func TestMessagesHaveTheFormatsOfTheirVendors(t *testing.T) {
	t.Parallel()
	written := func(kind notify.Kind) (read map[string]any) {
		body, err := notify.Body(kind, message)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(body, &read))
		return read
	}
	member := func(of any, path ...string) any {
		for _, name := range path {
			of = of.(map[string]any)[name]
		}
		return of
	}
	ding := written(notify.DingTalk)
	require.Equal(t, "markdown", ding["msgtype"])
	require.Equal(t, "已完成：＜script＞［x］(http://evil) ＊夜间＊ ｀回归｀", member(ding, "markdown", "title"))
	require.Contains(t, member(ding, "markdown", "text"), "- 一致率：82.0%\n")
	require.Contains(t, member(ding, "markdown", "text"), "[查看结果](https://wending.example/tasks/1)")
	wecom := written(notify.WeCom)
	require.Equal(t, "markdown", wecom["msgtype"])
	require.Contains(t, member(wecom, "markdown", "content"), "> 一致率：82.0%\n")
	feishu := written(notify.Feishu)
	require.Equal(t, "interactive", feishu["msg_type"])
	require.Equal(t, "green", member(feishu, "card", "header", "template"))
	elements := member(feishu, "card", "elements").([]any)
	require.Equal(t, "markdown", member(elements[0], "tag"))
	require.NotContains(t, member(elements[0], "content"), "<")
	require.Equal(t, "https://wending.example/tasks/1", member(member(elements[1], "actions").([]any)[0], "url"))
	slack := written(notify.Slack)
	require.Contains(t, slack["text"], "&lt;script&gt;")
	require.Contains(t, slack["text"], "<https://wending.example/tasks/1|查看结果>")
	hook := written(notify.Webhook)
	require.Equal(t, "task.finished", hook["type"])
	require.Equal(t, "2026-11-22T10:00:00+08:00", hook["timestamp"], "as the API writes times")
	require.Equal(t, "1", member(hook, "data", "task_id"))

	long := message
	long.Facts = []notify.Fact{{Name: "长", Value: strings.Repeat("长", 5000)}}
	body, err := notify.Body(notify.WeCom, long)
	require.NoError(t, err)
	var read struct{ Markdown struct{ Content string } }
	require.NoError(t, json.Unmarshal(body, &read))
	require.LessOrEqual(t, len(read.Markdown.Content), 4096)
	require.True(t, strings.HasSuffix(read.Markdown.Content, "…"))
	require.NotContains(t, read.Markdown.Content, "\uFFFD")
}

// Numbers in a message are links if the program supports links within a line; in an e-mail, the links follow the
// line.
func TestNumbersOfMessagesAreLinks(t *testing.T) {
	t.Parallel()
	counted := message
	counted.Facts = []notify.Fact{{Name: "共 3 题", Value: "*不同 1 题 · 相同 2 题", Links: []notify.Link{
		{Text: "*不同 1 题", Address: "https://w.example/a?filter=facts"},
		{Text: "相同 2 题", Address: "https://w.example/a?filter=same"}, {Text: "没有的词", Address: "https://w.example"},
	}}}
	for kind, want := range map[notify.Kind]string{
		notify.DingTalk: "- 共 3 题：[＊不同 1 题](https://w.example/a?filter=facts) · [相同 2 题](https://w.example/a?filter=same)\\n",
		notify.WeCom: "\\u003e 共 3 题：[＊不同 1 题](https://w.example/a?filter=facts) · [相同 2 " +
			"题](https://w.example/a?filter=same)\\n",
		notify.Feishu: "- 共 3 题：[＊不同 1 题](https://w.example/a?filter=facts) · [相同 2 题](https://w.example/a?filter=same)\\n",
		notify.Slack: "• 共 3 题：\\u003chttps://w.example/a?filter=facts|＊不同 1 题\\u003e · " +
			"\\u003chttps://w.example/a?filter=same|相同 2 题\\u003e\\n",
		notify.Email: "共 3 题：*不同 1 题 · 相同 2 题\\n    *不同 1 题：https://w.example/a?filter=facts\\n    相同 2 " +
			"题：https://w.example/a?filter=same\\n",
	} {
		body, err := notify.Body(kind, counted)
		require.NoError(t, err)
		require.Contains(t, string(body), want, kind)
	}
}

// The expected values were computed with the Python programs in the vendors' documents.
func TestSignaturesAreThoseOfTheVendors(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1700000000000)
	timestamp, sign := notify.SignDingTalk("SECc0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00", at)
	require.Equal(t, "1700000000000", timestamp)
	require.Equal(t, "pxlzJZiDNecpA4WBwCdylApYz6mT5CWKKJSQWtxYEn4=", sign)
	timestamp, sign = notify.SignFeishu("feishu-secret-1234", at)
	require.Equal(t, "1700000000", timestamp)
	require.Equal(t, "BiPdY7brHs3dr3CmQDxHjuH13LIJrgsznqc6akYrcjs=", sign)
	// The example of the reference libraries.
	key, err := notify.WebhookKey(whsec)
	require.NoError(t, err)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		notify.SignWebhook(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)))
	for _, wrong := range []string{"whsec_", "short", "whsec_AAAA", "whsec_***", "whsec_" + strings.Repeat("A", 100)} {
		_, err := notify.WebhookKey(wrong)
		require.ErrorIs(t, err, notify.ErrSecret, wrong)
	}
}

func TestTheReferenceLibraryTakesOurSignature(t *testing.T) {
	t.Parallel()
	verifier, err := standardwebhooks.NewWebhook(whsec)
	require.NoError(t, err)
	id := uuid.New()
	var failed []error
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		failed = append(failed, err)
		if r.Header.Get("webhook-id") != notify.WebhookID(id) {
			failed = append(failed, fmt.Errorf("id %s", r.Header.Get("webhook-id")))
		}
	}))
	defer server.Close()
	body, err := notify.Body(notify.Webhook, message)
	require.NoError(t, err)
	outcome := newSender(t, "").Send(context.Background(),
		notify.Target{Kind: notify.Webhook, URL: server.URL, Secret: whsec}, id, body)
	require.Equal(t, notify.Outcome{Status: 200}, outcome)
	require.Equal(t, []error{nil}, failed)
}

// Signatures are sent where each program expects them, and a refusal with HTTP 200 counts as a failure.
func TestHowChatProgramsAnswer(t *testing.T) {
	t.Parallel()
	var asked *http.Request
	var sent map[string]any
	answer, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, sent = r, nil
		_ = json.NewDecoder(r.Body).Decode(&sent)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	sender := newSender(t, "")
	send := func(kind notify.Kind, secret string) notify.Outcome {
		body, err := notify.Body(kind, message)
		require.NoError(t, err)
		return sender.Send(context.Background(),
			notify.Target{Kind: kind, URL: server.URL + "/robot/send?access_token=tokentoken", Secret: secret}, uuid.New(), body)
	}
	answer = `{"errcode":0,"errmsg":"ok"}`
	require.Empty(t, send(notify.DingTalk, "SECsecret").Error)
	query := asked.URL.Query()
	require.Equal(t, "tokentoken", query.Get("access_token"))
	require.Len(t, query.Get("timestamp"), 13)
	require.Len(t, query.Get("sign"), 44)
	require.Empty(t, send(notify.WeCom, "").Error)
	answer = `{"errcode":310000,"errmsg":"sign not match for tokentoken"}`
	require.Equal(t, "310000: sign not match for ***", send(notify.DingTalk, "SECsecret").Error)
	answer = `{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}`
	require.Empty(t, send(notify.Feishu, "secret-secret").Error)
	require.Len(t, sent["timestamp"], 10)
	require.Len(t, sent["sign"], 44)
	require.NotNil(t, sent["card"])
	answer = `{"code":19021,"msg":"sign match fail or timestamp is not within one hour from current time"}`
	require.Contains(t, send(notify.Feishu, "secret-secret").Error, "19021: sign match fail")
	answer = "<html>login</html>"
	require.Contains(t, send(notify.WeCom, "").Error, "not that of the chat program")
	answer = "ok"
	require.Empty(t, send(notify.Slack, "").Error)

	answer, status = "no_service", http.StatusNotFound
	require.Equal(t, "HTTP 404: no_service", send(notify.Slack, "").Error)
	require.False(t, send(notify.Webhook, "").IsFinal)
	require.Equal(t, 7*time.Second, send(notify.Webhook, "").RetryAfter)
	status = http.StatusGone
	require.True(t, send(notify.Webhook, "").IsFinal)
	status = http.StatusFound
	require.Contains(t, send(notify.Webhook, "").Error, "redirects are not followed")
}

func TestTheGuardHoldsForMessages(t *testing.T) {
	t.Parallel()
	strict, err := guard.New(guard.Config{Variable: "NOTIFY_ALLOWLIST"})
	require.NoError(t, err)
	sender, err := notify.NewSender(strict, "", "")
	require.NoError(t, err)
	outcome := sender.Send(context.Background(),
		notify.Target{Kind: notify.Webhook, URL: "http://127.0.0.1:9/hook-of-secret"}, uuid.New(), []byte("{}"))
	require.Equal(t, "the address is not allowed; see NOTIFY_ALLOWLIST", outcome.Error)
}

func TestTheTimesOfRetries(t *testing.T) {
	t.Parallel()
	var total time.Duration
	for attempt, want := range []time.Duration{1, 5, 15, 60, 120, 240, 480, 960, 1920, 3600, 3600} {
		require.Equal(t, want*time.Second, notify.Delay(attempt+1))
	}
	attempts := 1
	for ; total < 24*time.Hour; attempts++ {
		total += notify.Delay(attempts)
	}
	require.Equal(t, time.Hour, notify.Delay(1000))
	require.InDelta(t, 33, attempts, 2)
}

// mailbox is a small SMTP server that keeps the mail that it receives.
func mailbox(t *testing.T) (address string, letters func() []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	var mu sync.Mutex
	var kept []string
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				reader := bufio.NewReader(connection)
				say := func(line string) { _, _ = fmt.Fprintf(connection, "%s\r\n", line) }
				say("220 test")
				for {
					line, err := reader.ReadString('\n')
					if err != nil {
						return
					}
					switch verb := strings.ToUpper(strings.Fields(line + " ")[0]); verb {
					case "EHLO", "HELO":
						say("250-test\r\n250 8BITMIME")
					case "DATA":
						say("354 go")
						var text strings.Builder
						for {
							line, err := reader.ReadString('\n')
							if err != nil || line == ".\r\n" {
								break
							}
							text.WriteString(line)
						}
						mu.Lock()
						kept = append(kept, text.String())
						mu.Unlock()
						say("250 taken")
					case "QUIT":
						say("221 bye")
						return
					default:
						say("250 ok")
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, kept...)
	}
}

func TestALetterIsSent(t *testing.T) {
	t.Parallel()
	address, letters := mailbox(t)
	id := uuid.New()
	body, err := notify.Body(notify.Email, message)
	require.NoError(t, err)
	to := notify.Target{Kind: notify.Email, Recipients: []string{"a@example.com", "b@example.com"}}
	require.Empty(t, newSender(t, "smtp://"+address).Send(context.Background(), to, id, body).Error)
	require.Len(t, letters(), 1)
	require.Contains(t, letters()[0], "Message-ID: <"+notify.WebhookID(id)+"@wending>")
	require.Contains(t, letters()[0], "a@example.com")
	require.Contains(t, letters()[0], "b@example.com")
	require.Equal(t, "SMTP_URL is not set", newSender(t, "").Send(context.Background(), to, id, body).Error)
	require.NotEmpty(t, newSender(t, "smtp://user:passpass@127.0.0.1:1").Send(context.Background(), to, id, body).Error)
}
