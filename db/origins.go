package db

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// A row of origins holds the rate limit that all workers share for one origin (scheme://host:port): the interval
// between two calls, which is the longest among its running launches, and its next free slot.

const insertOrigin = `INSERT INTO origins (origin) VALUES ($1) ON CONFLICT DO NOTHING`

// refreshOrigins sets the interval of each of the launches' origins to the interval of its strictest running launch. A
// separate statement locks the rows in a fixed order, so that the update sees what concurrent transactions have
// committed.
func refreshOrigins(ctx context.Context, tx *sqlx.Tx, launchIDs ...uuid.UUID) error {
	const insert = `
		INSERT INTO origins (origin)
		SELECT DISTINCT origin FROM launch_targets WHERE launch_id = ANY (CAST($1 AS uuid[])) ORDER BY origin
		ON CONFLICT DO NOTHING`
	const lock = `
		SELECT FROM origins
		WHERE origin IN (SELECT origin FROM launch_targets WHERE launch_id = ANY (CAST($1 AS uuid[])))
		ORDER BY origin
		FOR UPDATE`
	const refresh = `
		UPDATE origins o
		SET call_interval = coalesce((
			SELECT max(t.call_interval)
			FROM launches l
			JOIN launch_targets t ON t.launch_id = l.id
			WHERE l.status = 'RUNNING' AND t.origin = o.origin), 0)
		WHERE origin IN (SELECT origin FROM launch_targets WHERE launch_id = ANY (CAST($1 AS uuid[])))`
	for _, step := range []struct{ name, statement string }{
		{"store the origins", insert}, {"lock the origins", lock}, {"set the origins' rate limits", refresh},
	} {
		if _, err := tx.ExecContext(ctx, step.statement, pq.Array(launchIDs)); err != nil {
			return pg.Classify(step.name, err)
		}
	}
	return nil
}

// TakeSlot takes the next free slot of an origin for a call outside any launch, and returns how long to wait for it.
// The slot lasts for interval, or for the origin's own interval if longer. If no slot is free within patience, none is
// taken and ok is false.
func (s *Store) TakeSlot(ctx context.Context, origin string, interval,
	patience time.Duration) (wait time.Duration, ok bool, err error) {
	const take = `
		WITH asked AS (
			SELECT CAST($2 AS bigint) * interval '1 microsecond' AS own,
			CAST($3 AS bigint) * interval '1 microsecond' AS patience)
		UPDATE origins
		SET next_free = greatest(next_free, clock_timestamp()) + greatest(own, call_interval * interval '1 microsecond')
		FROM asked
		WHERE origin = $1 AND next_free <= clock_timestamp() + patience
		RETURNING extract(epoch FROM next_free - greatest(own, call_interval * interval '1 microsecond') - clock_timestamp())
		* 1000000`
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
	Origin string `db:"origin"`
	// AheadMicros is the time until the next free slot, at least 0.
	AheadMicros    int64 `db:"ahead"`
	IntervalMicros int64 `db:"call_interval"`
}

// lockSlots locks an origin's row and returns its slots.
func lockSlots(ctx context.Context, tx *sqlx.Tx, origin string) (slots, error) {
	const lock = `
		SELECT origin, greatest(0, extract(epoch FROM next_free - clock_timestamp()) * 1000000)::bigint AS ahead,
		call_interval
		FROM origins
		WHERE origin = $1
		FOR UPDATE`
	var found slots
	err := tx.GetContext(ctx, &found, lock, origin)
	return found, pg.Classify("lock the origin", err)
}

// wait returns how long to wait before trying again; 0 means that the next slot is within the horizon.
func (s slots) wait(horizon time.Duration) time.Duration {
	if beyond := s.AheadMicros - horizon.Microseconds(); beyond > 0 {
		return time.Duration(max(1000, beyond)) * time.Microsecond
	}
	return 0
}

// near returns how many of the wanted calls get a slot within the horizon.
func (s slots) near(want int, horizon time.Duration) int {
	switch {
	case s.wait(horizon) > 0:
		return 0
	case s.IntervalMicros == 0:
		return want
	}
	return min(want, int((horizon.Microseconds()-s.AheadMicros)/s.IntervalMicros)+1)
}

// take takes the next slot and returns how long to wait for it.
func (s *slots) take() (wait time.Duration) {
	wait = time.Duration(s.AheadMicros) * time.Microsecond
	s.AheadMicros += s.IntervalMicros
	return wait
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
