// Package courier delivers what is due: messages about tasks to channels, and files that agents produce to the store.
// It polls for both, and retries failures.
package courier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"wending/db"
	"wending/db/entries"
	"wending/db/outbox"
	"wending/jobs/courier/notify"
	"wending/jobs/library"
	"wending/jobs/secret"
)

// Courier delivers messages for one process: it renders the messages of deliveries in the outbox, sends them, and
// retries until they are accepted or a day has passed. Several couriers may work at once.
type Courier struct {
	Store  *db.Store
	Sealer *secret.Sealer
	Sender *notify.Sender
	// Write renders the message of a delivery, in the channel's language.
	Write func(context.Context, outbox.Delivery, entries.Channel) (notify.Message, error)
	Log   *slog.Logger
}

// atOnce is how many deliveries are sent at once, and perChannel is how many of them go to one channel, so that a
// channel that hangs leaves room for others.
const (
	atOnce     = 16
	perChannel = 2
)

// tidyEvery is the interval at which old deliveries are removed.
const tidyEvery = time.Hour

// Run sends the deliveries that are due until ctx ends.
func (c *Courier) Run(ctx context.Context) {
	Pump[outbox.Delivery]{
		Places: atOnce, Every: time.Second,
		Claim: func(ctx context.Context, free int, _ []outbox.Delivery) ([]outbox.Delivery, error) {
			return c.Store.Outbox().Claim(ctx, free, perChannel)
		},
		Failed: func(ctx context.Context, err error) {
			c.Log.WarnContext(ctx, "messages to send not claimed, will retry", "error", err)
		},
		Work: c.deliver,
	}.Run(ctx)
}

// deliver makes one attempt to send a message, and records its outcome.
func (c *Courier) deliver(ctx context.Context, delivery outbox.Delivery) {
	sent, err := c.attempt(ctx, delivery)
	if ctx.Err() != nil { // the claim expires without further action
		return
	}
	outcome := outbox.Outcome{Status: sent.Status, Error: sent.Error}
	if err != nil { // the fault is on our side: nothing was sent
		c.Log.WarnContext(ctx, "message not written, will retry", "delivery_id", delivery.ID, "error", err)
		outcome.Error = "the message could not be written"
		if errors.Is(err, secret.ErrKey) {
			outcome.Error = "the channel's secrets cannot be opened: SECRET_KEY has changed"
		}
	}
	if outcome.Error != "" && !sent.IsFinal {
		outcome.RetryAfter = max(notify.Delay(delivery.Attempts), sent.RetryAfter)
	}
	if err := c.Store.Outbox().Settle(ctx, delivery, outcome); err != nil {
		c.Log.WarnContext(ctx, "delivery outcome not stored, the message may be sent twice", "delivery_id", delivery.ID,
			"error", err)
	}
}

func (c *Courier) attempt(ctx context.Context, delivery outbox.Delivery) (sent notify.Outcome, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	channel, err := entries.New(c.Store).Channels.Get(ctx, db.AllProjects(), delivery.ChannelID)
	if err != nil {
		return sent, err
	}
	to, err := library.OpenTarget(c.Sealer, channel)
	if err != nil {
		return sent, err
	}
	if delivery.Body == nil {
		message, err := c.Write(ctx, delivery, channel)
		if err != nil {
			return sent, err
		}
		body, err := notify.Body(to.Kind, message)
		if err != nil {
			return sent, err
		}
		if delivery.Body, err = c.Store.Outbox().KeepBody(ctx, delivery.ID, body); err != nil {
			return sent, err
		}
	}
	return c.Sender.Send(ctx, to, delivery.MessageID, delivery.Body), nil
}

// pushFor is the maximum time that one round spends on one launch's results.
const pushFor = 500 * time.Millisecond

// Announcer does the work that one process does for all processes, once a second: it announces the progress of
// launches, collects ended runs in batches for channels that subscribe to results, and tidies up.
type Announcer struct {
	*Courier
	tidiedAt, progressAt time.Time
}

// progressEvery is the interval at which progress is announced.
const progressEvery = 5 * time.Second

// Round announces what has happened since the last round, and tidies up if it is time to.
func (a *Announcer) Round(ctx context.Context) error {
	box := a.Store.Outbox()
	launches, err := box.Pushing(ctx)
	if err != nil {
		return err
	}
	for _, launch := range launches {
		for end := time.Now().Add(pushFor); time.Now().Before(end); {
			runs, err := box.PushBatch(ctx, launch)
			if errors.Is(err, db.ErrConflict) { // another process is pushing them
				break
			}
			if err != nil {
				return err
			}
			if runs == 0 {
				break
			}
		}
	}
	if time.Since(a.progressAt) >= progressEvery {
		a.progressAt = time.Now()
		if err := box.AnnounceProgress(ctx); err != nil {
			return err
		}
	}
	if time.Since(a.tidiedAt) >= tidyEvery {
		a.tidiedAt = time.Now()
		return box.Tidy(ctx)
	}
	return nil
}
