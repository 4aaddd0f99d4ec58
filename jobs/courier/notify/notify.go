// Package notify writes messages in the formats of chat programs, webhooks and e-mail, signs them, and sends them.
package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"wending/jobs/export"
)

// Kind is the type of service behind a channel, which determines the format of messages.
type Kind string

// The kinds of channels. Slack covers everything that accepts Slack's incoming webhooks, such as Mattermost.
const (
	Webhook  Kind = "webhook"
	DingTalk Kind = "dingtalk"
	Feishu   Kind = "feishu"
	WeCom    Kind = "wecom"
	Slack    Kind = "slack"
	Email    Kind = "email"
)

// Kinds lists all kinds in the order in which forms offer them.
var Kinds = []Kind{Webhook, DingTalk, Feishu, WeCom, Slack, Email}

// TakesSecret reports whether messages of the kind can be signed.
func (k Kind) TakesSecret() bool { return k == Webhook || k == DingTalk || k == Feishu }

// Tone says whether a message is good or bad news.
type Tone string

// The tones of a message.
const (
	Good    Tone = "good"
	Bad     Tone = "bad"
	Neutral Tone = "neutral"
)

// Fact is a line of a message.
type Fact struct {
	Name, Value string
	// Links are the parts of Value that become links, in the order in which they occur there.
	Links []Link
}

// Link is a part of a text and the address that it links to.
type Link struct{ Text, Address string }

// Message is a message to a channel, in the channel's language.
type Message struct {
	// Type is the type of a webhook event, such as task.finished.
	Type string
	// At is when the event happened.
	At    time.Time
	Title string
	Tone  Tone
	Facts []Fact
	// Worse lists what got worse, one sentence per fact and without names, under the heading WorseTitle.
	WorseTitle string
	Worse      []Fact
	// Link is the address of the report; empty if PUBLIC_URL is not set. LinkText is the text of the link.
	Link, LinkText string
	// Colon separates a fact's name from its value.
	Colon string
	// Data is the payload of a webhook, encoded as JSON.
	Data any
}

// Body renders a message in the format of a kind of channel. Send adds the signature.
func Body(kind Kind, m Message) ([]byte, error) {
	switch kind {
	case Webhook:
		return json.Marshal(map[string]any{"type": m.Type, "timestamp": export.BeijingTime(m.At), "data": m.Data})
	case DingTalk: // https://open.dingtalk.com/document/robots/custom-robot-access
		return json.Marshal(map[string]any{
			"msgtype": "markdown", "markdown": map[string]any{"title": plain(m.Title),
				"text": "#### " + plain(m.Title) + "\n\n" + m.list(markdown("- "))},
		})
	case WeCom: // https://developer.work.weixin.qq.com/document/path/91770: at most 4,096 bytes
		return json.Marshal(map[string]any{
			"msgtype":  "markdown",
			"markdown": map[string]any{"content": cut("**"+plain(m.Title)+"**\n"+m.list(markdown("> ")), 4096)},
		})
	case Feishu: // https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
		format := markdown("- ")
		format.hasButton = true
		elements := []any{map[string]any{"tag": "markdown", "content": m.list(format)}}
		if m.Link != "" {
			elements = append(elements, map[string]any{"tag": "action", "actions": []any{map[string]any{
				"tag": "button", "type": "primary", "text": map[string]any{"tag": "plain_text", "content": m.LinkText},
				"url": m.Link,
			}}})
		}
		return json.Marshal(map[string]any{"msg_type": "interactive", "card": map[string]any{
			"header": map[string]any{"title": map[string]any{"tag": "plain_text", "content": m.Title},
				"template": feishuColours[m.Tone]},
			"elements": elements,
		}})
	case Slack: // https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
		return json.Marshal(map[string]any{"text": "*" + slackText(m.Title) + "*\n" +
			m.list(format{bullet: "• ", escape: slackText, link: func(text, address string) string {
				return "<" + slackText(address) + "|" + slackText(text) + ">"
			}})})
	case Email:
		return json.Marshal(letter{Subject: oneLine(m.Title),
			Text: m.list(format{escape: oneLine, link: func(text, address string) string {
				return text + m.Colon + address
			}, areLinksApart: true})})
	}
	return nil, fmt.Errorf("unknown channel kind: %q", kind)
}

var feishuColours = map[Tone]string{Good: "green", Bad: "red", Neutral: "blue"}

// letter is the body of an e-mail, as stored until it is sent.
type letter struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// format defines how a channel's messages write lists and links.
type format struct {
	bullet string
	escape func(string) string
	link   func(text, address string) string
	// areLinksApart reports that links cannot be part of a line; they follow it, each on its own line.
	areLinksApart bool
	// hasButton reports that the link to the report is a button next to the list.
	hasButton bool
}

func markdown(bullet string) format { return format{bullet: bullet, escape: plain, link: markdownLink} }

// list writes a message's facts, its list of what got worse, and its link, one per line.
func (m Message) list(f format) string {
	var text strings.Builder
	for _, fact := range m.Facts {
		text.WriteString(f.bullet + f.escape(fact.Name) + m.Colon + f.value(fact) + "\n" + f.linksApart(fact))
	}
	if len(m.Worse) > 0 {
		text.WriteString("\n" + f.escape(m.WorseTitle) + "\n\n")
		for _, line := range m.Worse {
			text.WriteString(f.bullet + f.value(line) + "\n" + f.linksApart(line))
		}
	}
	if m.Link != "" && !f.hasButton {
		text.WriteString("\n" + f.link(m.LinkText, m.Link) + "\n")
	}
	return text.String()
}

// linksApart renders the links of a fact that cannot be part of its line.
func (f format) linksApart(fact Fact) string {
	if !f.areLinksApart {
		return ""
	}
	var text strings.Builder
	for _, link := range fact.Links {
		text.WriteString("    " + f.link(f.escape(link.Text), link.Address) + "\n")
	}
	return text.String()
}

// value renders a fact's value, with its links unless they are written apart from it.
func (f format) value(fact Fact) string {
	if f.areLinksApart {
		return f.escape(fact.Value)
	}
	var text strings.Builder
	rest := fact.Value
	for _, link := range fact.Links {
		before, after, isThere := strings.Cut(rest, link.Text)
		if !isThere {
			continue
		}
		text.WriteString(f.words(before) + f.link(link.Text, link.Address))
		rest = after
	}
	return text.String() + f.words(rest)
}

// words escapes a part of a line; spaces at its beginning and end are preserved.
func (f format) words(part string) string {
	if strings.TrimSpace(part) == "" {
		return part
	}
	head := part[:len(part)-len(strings.TrimLeft(part, " "))]
	tail := part[len(strings.TrimRight(part, " ")):]
	return head + f.escape(part) + tail
}

func markdownLink(text, address string) string { return "[" + plain(text) + "](" + address + ")" }

// plain keeps names from being read as markup: chat programs support different parts of Markdown, and no escape works
// in all of them.
func plain(text string) string { return markup.Replace(oneLine(text)) }

var markup = strings.NewReplacer("<", "＜", ">", "＞", "[", "［", "]", "］", "*", "＊", "`", "｀")

func slackText(text string) string {
	return slackMarkup.Replace(oneLine(text))
}

var slackMarkup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "*", "＊", "`", "｀")

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// cut shortens a text to at most this number of bytes, and marks the cut.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:most-len(mark)], "") + mark
}

// Delay returns how long to wait after a failed attempt; attempt counts from 1.
func Delay(attempt int) time.Duration {
	first := []time.Duration{time.Second, 5 * time.Second, 15 * time.Second}
	if attempt <= len(first) {
		return first[max(attempt, 1)-1]
	}
	return min(time.Hour, time.Minute<<min(attempt-len(first)-1, 10))
}

// WebhookID returns the id of a message as receivers see it.
func WebhookID(id uuid.UUID) string { return "msg_" + strings.ReplaceAll(id.String(), "-", "") }
