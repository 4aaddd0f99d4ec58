package form

import (
	"context"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"wending/db/entries"
	"wending/db/outbox"
	"wending/handlers/request"
	"wending/jobs/courier/notify"
	"wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/text"
)

// defaultEvents are the events of a new channel whose form lists none.
var defaultEvents = []string{string(outbox.Finished), string(outbox.Failed), string(outbox.Stopped),
	string(outbox.Alert)}

// maxRecipients is the maximum number of recipients of an e-mail.
const maxRecipients = 20

// Channel parses a form for a channel; absent fields keep base's values. If the address has a different origin, base's
// secret is dropped. check refuses addresses that may not be called.
func Channel(form *Upload, base library.Channel, check func(*url.URL) error) (ch library.Channel, faults []FieldFault) {
	c, ch := fields{form: form}, base
	if ch.Events == nil {
		ch.Events = defaultEvents
	}
	if ch.Lang == "" {
		ch.Lang = text.Languages[0]
	}
	c.entryName(&ch.Name)
	kind := string(ch.Kind)
	if c.choice("kind", texts(notify.Kinds), &kind); c.hasFault("kind") {
		return ch, c.faults // the remaining fields depend on the kind
	}
	if ch.Kind = notify.Kind(kind); ch.Kind != base.Kind {
		ch.URL, ch.Secret, ch.Recipients = "", "", nil
	}
	if ch.Kind == notify.Email {
		ch.URL, ch.Secret = "", ""
		c.recipients(&ch.Recipients)
	} else {
		ch.Recipients = nil
		// Pages do not show the saved address.
		if typed := form.Value("url"); form.Has("url") && (typed != "" || form.IsJSON) {
			ch.URL = typed
		}
		if tasks.OriginOf(ch.URL) != tasks.OriginOf(base.URL) {
			ch.Secret = ""
		}
		c.address("url", check, &ch.URL)
		c.secret(&ch)
	}
	c.events(&ch.Events)
	if form.Has("lang_of_messages") { // on pages, a field named lang switches the page's language
		ch.Lang = form.Value("lang_of_messages")
	} else if form.IsJSON && form.Has("lang") {
		ch.Lang = form.Value("lang")
	}
	if !slices.Contains(text.Languages, ch.Lang) {
		c.fail("lang", request.FieldFault("lang", request.OneOf(text.Languages...)))
	}
	c.boolean("is_default", func(is bool) { ch.IsDefault = is })
	return ch, c.faults
}

// secret stores in ch the secret that signs messages, or adds a fault. An empty text in JSON removes the stored secret;
// on a page, it keeps it.
func (c *fields) secret(ch *library.Channel) {
	if typed := c.form.Value("secret"); c.form.Has("secret") && (typed != "" || c.form.IsJSON) {
		ch.Secret = typed
	}
	if ch.Secret == "" {
		return
	}
	if !ch.Kind.TakesSecret() {
		ch.Secret = ""
		return
	}
	if _, err := notify.WebhookKey(ch.Secret); ch.Kind == notify.Webhook && err != nil {
		c.fail("secret", request.FieldFault("secret", request.ValidWebhookSecret()))
		return
	}
	if len(ch.Secret) > 200 || tasks.HasControl(ch.Secret) {
		c.fail("secret", request.FieldFault("secret", request.TextUpTo(200)))
	}
}

// recipients stores the e-mail addresses of the form's field "to" in *to, or adds a fault. They may be separated by
// commas, semicolons, spaces or line breaks.
func (c *fields) recipients(to *[]string) {
	if c.form.Has("to") {
		*to = strings.FieldsFunc(c.form.Value("to"), func(r rune) bool { return strings.ContainsRune(",;，；\r\n ", r) })
	}
	switch {
	case len(*to) == 0:
		c.fail("to", request.FieldFault("to", request.Required()))
		return
	case len(*to) > maxRecipients:
		c.fail("to", request.FieldFault("to", request.ValidAddresses(maxRecipients)))
		return
	}
	for _, one := range *to {
		if parsed, err := mail.ParseAddress(one); err != nil || parsed.Address != one || len(one) > 254 {
			c.fail("to", request.FieldFault("to", request.ValidAddresses(maxRecipients)))
			return
		}
	}
}

// events stores the events that the form lists, or adds a fault.
func (c *fields) events(to *[]string) {
	if !c.form.Has("events") {
		return
	}
	*to = []string{}
	for _, event := range c.form.List("events") {
		if event == "none" { // sent by a form in which no event is chosen
			continue
		}
		if !slices.Contains(outbox.Events, outbox.Event(event)) {
			c.fail("events", request.FieldFault("events", request.OneOf(texts(outbox.Events)...)))
			return
		}
		if !slices.Contains(*to, event) {
			*to = append(*to, event)
		}
	}
	if len(*to) == 0 {
		c.fail("events", request.FieldFault("events", request.NonEmpty()))
	}
}

func (s Saver) saveChannel(ctx context.Context, row *entries.Channel, f *Upload) (uuid.UUID, []FieldFault, error) {
	base, err := Base(row, s.Library.OpenChannel)
	if err != nil {
		return uuid.Nil, nil, err
	}
	c, faults := Channel(f, base, s.Check.Channel)
	if len(faults) > 0 {
		return uuid.Nil, faults, nil
	}
	id := uuid.Nil
	if row != nil {
		id = row.ID
	}
	return saved(s.Library.SaveChannel(ctx, request.ScopeOf(ctx), id, c))
}
