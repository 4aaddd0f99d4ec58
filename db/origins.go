package db

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"wending/db/pg"
)

// A row of origins holds the rate limit of one origin (scheme://host:port) over all workers: the interval
// between two calls, which is the longest of its running launches, and its next free slot.

const insertOrigin = `INSERT INTO origins (origin) VALUES ($1) ON CONFLICT DO NOTHING`

// refreshOrigin sets an origin's interval to that of its strictest running launch. The row is locked in a
// statement of its own: only a later one sees what concurrent transactions committed.
func refreshOrigin(ctx context.Context, tx *sqlx.Tx, origin string) error {
	const lock = `SELECT FROM origins WHERE origin = $1 FOR UPDATE`
	const refresh = `
		UPDATE origins
		SET call_interval = coalesce((
			SELECT max(call_interval) FROM launches WHERE status = 'RUNNING' AND agent_origin = $1), 0)
		WHERE origin = $1`
	if _, err := tx.ExecContext(ctx, lock, origin); err != nil {
		return pg.Classify("lock the origin", err)
	}
	_, err := tx.ExecContext(ctx, refresh, origin)
	return pg.Classify("set the origin's rate limit", err)
}

// PostponeOrigin moves the next free slot of an origin at least wait into the future, because it answered 429.
func (s *Store) PostponeOrigin(ctx context.Context, origin string, wait time.Duration) error {
	const postpone = `
		UPDATE origins
		SET next_free = greatest(next_free, now() + $2 * interval '1 microsecond')
		WHERE origin = $1`
	_, err := s.db.ExecContext(ctx, postpone, origin, wait.Microseconds())
	return pg.Classify("postpone the origin", err)
}

// TakeSlot takes the next free slot of an origin for a call outside of launches, whose own rate allows one call an
// interval, and returns how long to wait for it. If it is not free within patience, none is taken and ok is false.
func (s *Store) TakeSlot(ctx context.Context, origin string, interval, patience time.Duration) (wait time.Duration, ok bool, err error) {
	const take = `
		WITH asked AS (
			SELECT CAST($2 AS bigint) * interval '1 microsecond' AS own, CAST($3 AS bigint) * interval '1 microsecond' AS patience)
		UPDATE origins
		SET next_free = greatest(next_free, clock_timestamp()) + greatest(own, call_interval * interval '1 microsecond')
		FROM asked
		WHERE origin = $1 AND next_free <= clock_timestamp() + patience
		RETURNING extract(epoch FROM next_free - greatest(own, call_interval * interval '1 microsecond') - clock_timestamp()) * 1000000`
	if _, err := s.db.ExecContext(ctx, insertOrigin, origin); err != nil {
		return 0, false, pg.Classify("add the origin", err)
	}
	var micros float64
	err = s.db.GetContext(ctx, &micros, take, origin, interval.Microseconds(), patience.Microseconds())
	if pg.IsNoRows(err) {
		return 0, false, nil
	}
	return max(0, time.Duration(micros)*time.Microsecond), err == nil, pg.Classify("take a rate-limit slot", err)
}

// slots is a snapshot of an origin's rate limit.
type slots struct {
	// AheadMicros is the time until the next free slot, at least 0.
	AheadMicros    int64 `db:"ahead"`
	IntervalMicros int64 `db:"call_interval"`
}

// lockSlots locks an origin's row and returns its slots.
func lockSlots(ctx context.Context, tx *sqlx.Tx, origin string) (slots, error) {
	const lock = `
		SELECT greatest(0, extract(epoch FROM next_free - clock_timestamp()) * 1000000)::bigint AS ahead, call_interval
		FROM origins
		WHERE origin = $1
		FOR UPDATE`
	var found slots
	err := tx.GetContext(ctx, &found, lock, origin)
	return found, pg.Classify("lock the origin", err)
}

// wait returns how long to wait before trying again because no slot is near; 0 means there is one.
func (s slots) wait() time.Duration {
	if beyond := s.AheadMicros - rateHorizon.Microseconds(); beyond > 0 {
		return time.Duration(max(1000, beyond)) * time.Microsecond
	}
	return 0
}

// near is how many of want calls get a slot within rateHorizon.
func (s slots) near(want int) int {
	if s.IntervalMicros == 0 {
		return want
	}
	return min(want, int((rateHorizon.Microseconds()-s.AheadMicros)/s.IntervalMicros)+1)
}

// takeSlots advances an origin's next free slot by the given number of calls. The caller has locked its row.
func takeSlots(ctx context.Context, tx *sqlx.Tx, origin string, calls int, intervalMicros int64) error {
	const take = `
		UPDATE origins
		SET next_free = greatest(next_free, clock_timestamp()) + $2 * interval '1 microsecond'
		WHERE origin = $1`
	if intervalMicros == 0 || calls == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, take, origin, int64(calls)*intervalMicros)
	return pg.Classify("take rate-limit slots", err)
}
