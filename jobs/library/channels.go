package library

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/outbox"
	"wending/jobs/courier/notify"
	"wending/jobs/cron"
)

// Channel is an address at which people and programs are notified about tasks, with its secrets.
type Channel struct {
	Name string
	notify.Target
	// Events are the events that it receives (outbox.Events), Lang is the language of its messages.
	Events    []string
	Lang      string
	IsDefault bool
}

// SaveChannel stores a channel, a new one if id is uuid.Nil, and returns its id. A change discards the result of
// the last test.
func (s *Service) SaveChannel(ctx context.Context, scope db.Scope, id uuid.UUID, c Channel) (uuid.UUID, error) {
	isNew := id == uuid.Nil
	if isNew {
		id = uuid.New()
	}
	row := entries.Channel{
		Entry: entries.Entry{ID: id, Name: c.Name}, Kind: string(c.Kind), URL: shownAddress(c.Target),
		Recipients: strings.Join(c.Recipients, ","),
		Events:     c.Events, Lang: c.Lang, IsDefault: c.IsDefault,
	}
	err := errors.Join(s.seal(c.URL != "", c.URL, id, urlPlace, &row.SealedURL),
		s.seal(c.Secret != "", c.Secret, id, secretPlace, &row.SealedSecret))
	if err != nil {
		return uuid.Nil, err
	}
	return id, save(ctx, scope, s.Entries.Channels, row, isNew)
}

// shownAddress returns the public part of an address: for a webhook everything but the query, for a chat program only
// the host, because the path is its key.
func shownAddress(to notify.Target) string {
	u, err := url.Parse(to.URL)
	if err != nil || to.URL == "" {
		return ""
	}
	shown := u.Scheme + "://" + u.Host
	if to.Kind == notify.Webhook {
		return shown + u.EscapedPath()
	}
	return shown + "/…"
}

// OpenChannel opens a channel's secrets.
func (s *Service) OpenChannel(row entries.Channel) (c Channel, err error) {
	c = Channel{Name: row.Name, Events: row.Events, Lang: row.Lang, IsDefault: row.IsDefault}
	c.Target, err = OpenTarget(s.Sealer, row)
	return c, err
}

// Opener opens sealed values.
type Opener interface {
	Open(sealed []byte, owner string, value any) error
}

// OpenTarget opens the address of a channel's messages.
func OpenTarget(sealer Opener, row entries.Channel) (to notify.Target, err error) {
	owner := row.ID.String()
	to.Kind, to.Recipients = notify.Kind(row.Kind), entries.Recipients(row)
	return to, errors.Join(sealer.Open(row.SealedURL, owner+urlPlace, &to.URL),
		sealer.Open(row.SealedSecret, owner+secretPlace, &to.Secret))
}

// Channel returns a channel, archived or not, or db.ErrNotFound.
func (s *Service) Channel(ctx context.Context, scope db.Scope, id uuid.UUID) (entries.Channel, error) {
	return s.Entries.Channels.Get(ctx, scope, id)
}

// ChannelNames returns the names of the channels that receive messages about a task.
func (s *Service) ChannelNames(ctx context.Context, task db.Task) (names []string, err error) {
	ids, err := s.Outbox.ChannelsOf(ctx, task.ID)
	for _, id := range ids {
		var one entries.Channel
		if err == nil {
			one, err = s.Channel(ctx, task.Scope(), id)
		}
		names = append(names, one.Name)
	}
	return names, err
}

// NextTime returns the next time of a plan, by the database's clock.
func (s *Service) NextTime(ctx context.Context, plan cron.Plan) (time.Time, error) {
	now, err := entries.NewSchedules(s.Tasks.Store).Now(ctx)
	return plan.Next(now), err
}

// CodeDelivery is the code that the list shows for a channel whose last test failed.
const CodeDelivery = "DELIVERY_FAILED"

// TestChannel sends a test message to a channel, and stores the outcome.
func (s *Service) TestChannel(ctx context.Context, scope db.Scope, row entries.Channel,
	message notify.Message) (notify.Outcome, error) {
	c, err := s.OpenChannel(row)
	if err != nil {
		return notify.Outcome{}, err
	}
	id := uuid.New()
	body, err := notify.Body(c.Kind, message)
	if err != nil {
		return notify.Outcome{}, err
	}
	outcome := s.Sender.Send(ctx, c.Target, id, body)
	code := ""
	if outcome.Error != "" {
		code = CodeDelivery
	}
	err = s.Outbox.NoteTest(ctx, row.ID, id, outbox.Outcome{Status: outcome.Status, Error: outcome.Error})
	return outcome, errors.Join(err, s.Entries.Channels.NoteTest(ctx, scope, row.ID, code))
}
