// Package outbox stores the messages for channels, and their delivery. A delivery is written in the transaction
// that makes the announced change, so none is lost; it is unique for its launch, channel, event and sequence, so
// none is created twice.
package outbox

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// Event is the kind of a message that a channel can subscribe to.
type Event string

// The events. A channel receives the ones it subscribes to; Test is sent only on request.
const (
	Finished Event = "finished"
	Failed   Event = "failed"
	Stopped  Event = "stopped"
	// Progress is sent at 25, 50 and 75 % of a launch that takes longer than LongLaunch.
	Progress Event = "progress"
	// Alert is sent when a schedule's limit is crossed.
	Alert Event = "alert"
	// Result carries runs as they end, in batches.
	Result Event = "result"
	Test   Event = "test"
)

// Events are the events that a channel can subscribe to.
var Events = []Event{Finished, Failed, Stopped, Progress, Alert, Result}

// State tells whether a delivery has reached its receiver.
type State string

// A delivery is PENDING until the receiver has accepted it or the time for attempts is over.
const (
	Pending State = "PENDING"
	Sent    State = "SENT"
	GivenUp State = "FAILED"
)

// States lists all states.
var States = []State{Pending, Sent, GivenUp}

// keptDays is the number of days for which finished deliveries are listed.
const keptDays = 30

// LongLaunch is the minimum duration of a launch that sends Progress.
const LongLaunch = 10 * time.Minute

// claimFor is how long a delivery is left to the process that claimed it; sending takes less time.
const claimFor = time.Minute

// Delivery is a row of deliveries: a message to one channel.
type Delivery struct {
	ID        int64     `db:"id"`
	ChannelID uuid.UUID `db:"channel_id"`
	// ChannelName is the channel's name as it is now.
	ChannelName string `db:"channel_name"`
	// LaunchID, TaskID and TaskName are nil for a test.
	LaunchID *uuid.UUID `db:"launch_id"`
	TaskID   *uuid.UUID `db:"task_id"`
	TaskName *string    `db:"task_name"`
	Event    Event      `db:"event"`
	// Sequence distinguishes deliveries of one event: 25, 50 and 75 for progress, the batch number from 1 for
	// results.
	Sequence int `db:"sequence"`
	// MessageID is the same at every attempt: receivers use it to recognise duplicates.
	MessageID uuid.UUID `db:"message_id"`
	// Detail holds data that the launch itself does not record; nil means none.
	Detail *json.RawMessage `db:"detail"`
	State  State            `db:"state"`
	// Attempts is how many times the delivery was sent, including an attempt under way.
	Attempts int `db:"attempts"`
	// NextAt is when a PENDING delivery is sent next; GiveUpAt is when attempts end.
	NextAt   time.Time `db:"next_at"`
	GiveUpAt time.Time `db:"give_up_at"`
	// Body is the body to send; nil until it has been rendered.
	Body []byte `db:"body"`
	// ResponseStatus is the HTTP status of the last attempt, nil without a response; Error is the reason it failed,
	// nil without a failure.
	ResponseStatus *int       `db:"response_status"`
	Error          *string    `db:"error"`
	CreatedAt      time.Time  `db:"created_at"`
	EndedAt        *time.Time `db:"ended_at"`
}

const columns = `
		d.id, d.channel_id, c.name AS channel_name, d.launch_id, l.task_id, t.task_name, d.event, d.sequence,
		d.message_id, d.detail, d.state, d.attempts, d.next_at,
		d.give_up_at, d.response_status, d.error, d.created_at, d.ended_at`

const ofTasks = `
	JOIN channels c ON c.id = d.channel_id
	LEFT JOIN launches l ON l.id = d.launch_id
	LEFT JOIN evaluation_tasks t ON t.id = l.task_id`

// Outbox holds an installation's messages until they are delivered.
type Outbox struct{ db *pg.Pool }

// New returns the outbox in a database.
func New(db *pg.Pool) Outbox { return Outbox{db} }

// Announce writes, within the transaction that makes the change, a delivery for each channel of the launch's task
// that subscribes to the event. An existing delivery is left unchanged.
func Announce(ctx context.Context, tx sqlx.ExecerContext, launchID uuid.UUID, event Event, sequence int,
	detail json.RawMessage) error {
	const announce = `
		INSERT INTO deliveries (channel_id, launch_id, event, sequence, detail)
		SELECT c.id, l.id, $2, $3, CAST($4 AS json)
		FROM launches l
		JOIN task_channels own ON own.task_id = l.task_id
		JOIN channels c ON c.id = own.channel_id AND c.archived_at IS NULL AND $2 = ANY (c.events)
		WHERE l.id = $1
		ON CONFLICT DO NOTHING`
	var text *string
	if detail != nil {
		one := string(detail)
		text = &one
	}
	_, err := tx.ExecContext(ctx, announce, launchID, event, sequence, text)
	return pg.Classify("announce "+string(event), err)
}

// Ended announces how a launch has ended, according to its state. While the launch has results to push, PushBatch
// announces its end after the last of them.
func Ended(ctx context.Context, tx sqlx.ExtContext, launchID uuid.UUID) error {
	const read = `
		SELECT CASE status WHEN 'SUCCEEDED' THEN 'finished' WHEN 'STOPPED' THEN 'stopped' ELSE 'failed' END AS event,
		pushes_results
		FROM launches
		WHERE id = $1`
	var launch struct {
		Event         Event `db:"event"`
		PushesResults bool  `db:"pushes_results"`
	}
	if err := sqlx.GetContext(ctx, tx, &launch, read, launchID); err != nil {
		return pg.Classify("read the launch's outcome", err)
	}
	if launch.PushesResults {
		return nil
	}
	return Announce(ctx, tx, launchID, launch.Event, 0, nil)
}

// Claim takes up to limit due deliveries, at most perChannel per channel, and counts an attempt for each. The caller
// owns them for a minute. The announcement of a launch's end waits until each of its results has been attempted once:
// a receiver that closes its file at the end then has all results, and a failing receiver does not delay the
// announcement for long.
func (o Outbox) Claim(ctx context.Context, limit, perChannel int) (claimed []Delivery, err error) {
	const claim = `
		WITH free AS (
			SELECT c.id, greatest(0, $2 - (
				SELECT count(*) FROM deliveries o WHERE o.channel_id = c.id AND o.state = 'PENDING' AND o.claimed_until > now())) AS
				slots
			FROM channels c
			WHERE c.archived_at IS NULL
			  AND c.id IN (SELECT channel_id FROM deliveries WHERE state = 'PENDING' AND next_at <= now())),
		picked AS (
			SELECT due.id
			FROM free
			CROSS JOIN LATERAL (
				SELECT d.id
				FROM deliveries d
				WHERE d.channel_id = free.id AND d.state = 'PENDING' AND d.next_at <= now()
				AND (d.claimed_until IS NULL OR d.claimed_until <= now())
				  AND (d.event NOT IN ('finished', 'stopped', 'failed') OR NOT EXISTS (
					SELECT
					FROM deliveries r
					WHERE r.launch_id = d.launch_id AND r.channel_id = d.channel_id AND r.event = 'result' AND r.state = 'PENDING'
					  AND (r.attempts = 0 OR r.attempts = 1 AND r.claimed_until > now())))
				ORDER BY d.next_at, d.id
				LIMIT free.slots
				FOR UPDATE SKIP LOCKED) due
			LIMIT $1),
		taken AS (
			UPDATE deliveries d
			SET attempts = attempts + 1, claimed_until = now() + $3 * interval '1 second'
			FROM picked
			WHERE d.id = picked.id
			RETURNING d.*)
		SELECT ` + columns + `, d.body
		FROM taken d` + ofTasks + `
		ORDER BY d.id`
	err = o.db.SelectContext(ctx, &claimed, claim, limit, perChannel, claimFor.Seconds())
	return claimed, pg.Classify("claim deliveries", err)
}

// KeepBody stores the body to send, unless one is already stored, and returns the stored one.
func (o Outbox) KeepBody(ctx context.Context, id int64, body []byte) (kept []byte, err error) {
	const keep = `UPDATE deliveries SET body = coalesce(body, $2) WHERE id = $1 RETURNING body`
	err = o.db.GetContext(ctx, &kept, keep, id, body)
	return kept, pg.Classify("store a message's body", err)
}

// Outcome is how an attempt ended.
type Outcome struct {
	// Status is the HTTP status, 0 if there was no response; Error is empty if the receiver accepted the message.
	Status int
	Error  string
	// RetryAfter is how long to wait before the next attempt; 0 means that there is none.
	RetryAfter time.Duration
}

// Settle records how an attempt at a claimed delivery ended. A delivery without an error becomes SENT. With an
// error it will be retried, unless the next attempt would come too late or RetryAfter is 0.
func (o Outbox) Settle(ctx context.Context, d Delivery, outcome Outcome) error {
	const settle = `
		UPDATE deliveries
		SET state = CASE
				WHEN $3 = '' THEN 'SENT'
				WHEN $4 <= 0 OR now() + $4 * interval '1 second' > give_up_at THEN 'FAILED'
				ELSE 'PENDING'
			END,
			next_at = now() + $4 * interval '1 second',
			ended_at = CASE WHEN $3 = '' OR $4 <= 0 OR now() + $4 * interval '1 second' > give_up_at THEN now() END,
			claimed_until = NULL,
			response_status = nullif($2, 0),
			error = nullif($3, ''),
			body = CASE WHEN $3 = '' AND event = 'result' THEN NULL ELSE body END
		WHERE id = $1 AND state = 'PENDING' AND (attempts = $5 OR $3 = '')`
	_, err := o.db.ExecContext(ctx, settle, d.ID, outcome.Status, outcome.Error, outcome.RetryAfter.Seconds(), d.Attempts)
	return pg.Classify("record a delivery's outcome", err)
}

// NoteTest records that a test was sent, and how that attempt ended.
func (o Outbox) NoteTest(ctx context.Context, channelID, messageID uuid.UUID, outcome Outcome) error {
	const note = `
		INSERT INTO deliveries (channel_id, event, message_id, state, attempts, ended_at, response_status, error)
		VALUES ($1, 'test', $2, CASE WHEN $4 = '' THEN 'SENT' ELSE 'FAILED' END, 1, now(), nullif($3, 0), nullif($4, ''))`
	_, err := o.db.ExecContext(ctx, note, channelID, messageID, outcome.Status, outcome.Error)
	return pg.Classify("record a test", err)
}

// Get returns a delivery of a channel, or pg.ErrNotFound.
func (o Outbox) Get(ctx context.Context, channelID uuid.UUID, id int64) (d Delivery, err error) {
	const get = `SELECT ` + columns + ` FROM deliveries d` + ofTasks + ` WHERE d.channel_id = $1 AND d.id = $2`
	err = o.db.GetContext(ctx, &d, get, channelID, id)
	return d, pg.Classify("read a delivery", err)
}

// List returns up to limit deliveries of a channel after the first offset, newest first, and how many there are in all.
func (o Outbox) List(ctx context.Context, channelID uuid.UUID, offset,
	limit int) (found []Delivery, total int, err error) {
	const list = `SELECT ` + columns + ` FROM deliveries d` + ofTasks + ` WHERE d.channel_id = $1
		ORDER BY d.id DESC OFFSET $2 LIMIT $3`
	if err := o.db.GetContext(ctx, &total, `SELECT count(*) FROM deliveries WHERE channel_id = $1`, channelID); err !=
		nil {
		return nil, 0, pg.Classify("count deliveries", err)
	}
	err = o.db.SelectContext(ctx, &found, list, channelID, offset, limit)
	return found, total, pg.Classify("list deliveries", err)
}

// OfTask returns the newest deliveries about a task, at most limit and newest first, and how many there are in all.
func (o Outbox) OfTask(ctx context.Context, taskID uuid.UUID, limit int) (found []Delivery, total int, err error) {
	const count = `SELECT count(*) FROM deliveries d JOIN launches l ON l.id = d.launch_id WHERE l.task_id = $1`
	const list = `SELECT ` + columns + ` FROM deliveries d` + ofTasks + ` WHERE l.task_id = $1 ORDER BY d.id DESC LIMIT $2`
	if err := o.db.GetContext(ctx, &total, count, taskID); err != nil {
		return nil, 0, pg.Classify("count deliveries", err)
	}
	err = o.db.SelectContext(ctx, &found, list, taskID, limit)
	return found, total, pg.Classify("list deliveries", err)
}

// SendAgain makes a delivery due now, under its existing id, and allows another day of attempts. A test is sent
// only once. It returns pg.ErrConflict if the delivery is being sent or cannot be sent again.
func (o Outbox) SendAgain(ctx context.Context, channelID uuid.UUID, id int64) error {
	const again = `
		UPDATE deliveries
		SET state = 'PENDING', attempts = 0, next_at = now(), give_up_at = now() + interval '1 day', claimed_until = NULL,
		ended_at = NULL
		WHERE channel_id = $1 AND id = $2 AND event <> 'test' AND (claimed_until IS NULL OR claimed_until <= now())`
	result, err := o.db.ExecContext(ctx, again, channelID, id)
	return pg.RequireRow("send a delivery again", result, err)
}

// SetChannels replaces the channels of a task, within a transaction; nil means the default channels.
func SetChannels(ctx context.Context, tx sqlx.ExecerContext, taskID uuid.UUID, channels *[]uuid.UUID) error {
	const clear = `DELETE FROM task_channels WHERE task_id = $1`
	const set = `
		INSERT INTO task_channels (task_id, channel_id)
		SELECT $1, id
		FROM channels
		WHERE archived_at IS NULL AND project_id = (SELECT project_id FROM evaluation_tasks WHERE id = $1)
		  AND CASE WHEN $2 THEN is_default ELSE id = ANY (CAST($3 AS uuid[])) END`
	if _, err := tx.ExecContext(ctx, clear, taskID); err != nil {
		return pg.Classify("clear the task's channels", err)
	}
	var ids pq.StringArray
	if channels != nil {
		for _, id := range *channels {
			ids = append(ids, id.String())
		}
	}
	_, err := tx.ExecContext(ctx, set, taskID, channels == nil, ids)
	return pg.Classify("store the task's channels", err)
}

// ChannelsOf returns the ids of the channels that receive messages about a task, in the order of their names.
func (o Outbox) ChannelsOf(ctx context.Context, taskID uuid.UUID) (channels []uuid.UUID, err error) {
	const list = `
		SELECT c.id
		FROM task_channels own
		JOIN channels c ON c.id = own.channel_id AND c.archived_at IS NULL
		WHERE own.task_id = $1
		ORDER BY c.name, c.id`
	channels = []uuid.UUID{}
	err = o.db.SelectContext(ctx, &channels, list, taskID)
	return channels, pg.Classify("read the task's channels", err)
}

// Tidy gives up the deliveries of archived channels, and removes deliveries that ended a month ago or longer.
func (o Outbox) Tidy(ctx context.Context) error {
	const giveUp = `
		UPDATE deliveries d
		SET state = 'FAILED', ended_at = now(), error = 'the channel was archived'
		FROM channels c
		WHERE c.id = d.channel_id AND c.archived_at IS NOT NULL AND d.state = 'PENDING'`
	const remove = `DELETE FROM deliveries WHERE ended_at < now() - $1 * interval '1 day'`
	if _, err := o.db.ExecContext(ctx, giveUp); err != nil {
		return pg.Classify("give up deliveries to archived channels", err)
	}
	const forget = `
		DELETE FROM pushed_runs
		WHERE launch_id IN (SELECT id FROM launches WHERE finished_at < now() - $1 * interval '1 day' AND NOT pushes_results)`
	if _, err := o.db.ExecContext(ctx, remove, keptDays); err != nil {
		return pg.Classify("remove old deliveries", err)
	}
	_, err := o.db.ExecContext(ctx, forget, keptDays)
	return pg.Classify("remove old pushed runs", err)
}

// AnnounceProgress announces when long launches have done a quarter, half and three quarters of their work.
func (o Outbox) AnnounceProgress(ctx context.Context) error {
	const find = `
		SELECT l.id, 100 * work.done / work.total AS percent, extract(epoch FROM now() - l.started_at)::float8 AS seconds
		FROM launches l
		CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE state = 'DONE') AS done, nullif(count(*), 0) AS total FROM units
			WHERE launch_id = l.id) work
		WHERE l.status = 'RUNNING'
		  AND l.started_at < now() - $1 * interval '1 second'
		  AND EXISTS (
			SELECT FROM task_channels own
			JOIN channels c ON c.id = own.channel_id AND c.archived_at IS NULL AND 'progress' = ANY (c.events)
			WHERE own.task_id = l.task_id)`
	var found []struct {
		ID      uuid.UUID `db:"id"`
		Percent *int      `db:"percent"`
		Seconds float64   `db:"seconds"`
	}
	if err := o.db.SelectContext(ctx, &found, find, LongLaunch.Seconds()/4); err != nil {
		return pg.Classify("read the progress of launches", err)
	}
	for _, launch := range found {
		if launch.Percent == nil || *launch.Percent < 25 || *launch.Percent > 99 {
			continue
		}
		if launch.Seconds*100/float64(*launch.Percent) < LongLaunch.Seconds() {
			continue
		}
		if err := Announce(ctx, o.db, launch.ID, Progress, *launch.Percent/25*25, nil); err != nil {
			return err
		}
	}
	return nil
}
