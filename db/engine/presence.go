package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Presence registers and removes workers.
type Presence struct{ db *pg.Pool }

// NewPresence returns the Presence of a store.
func NewPresence(store *db.Store) Presence { return Presence{store.Pool()} }

// Worker describes a worker process.
type Worker struct {
	ID        uuid.UUID
	Host      string
	ProcessID int
	Lanes     int
}

const beat = `
	WITH last AS (
		SELECT now() - beat_at AS silence FROM workers WHERE id = $1)
	INSERT INTO workers (id, host, process_id, lanes)
	VALUES ($1, $2, $3, $4)
	ON CONFLICT (id) DO UPDATE
	SET beat_at = now(),
		lease = CASE
			WHEN (SELECT silence FROM last) >= $5 * interval '1 second' THEN nextval('worker_leases')
			ELSE workers.lease
		END
	RETURNING lease, coalesce((SELECT extract(epoch FROM silence) * 1000000 FROM last), 0)::bigint AS since`

// Beat records a heartbeat. It returns the worker's lease and the time since its last heartbeat, by the
// database's clock. A worker that was silent for db.LeaseDuration gets a new lease; its lanes stay until it leaves
// them, because their calls may still be in flight.
func (p Presence) Beat(ctx context.Context, w Worker) (lease db.Lease, since time.Duration, err error) {
	var row struct {
		Lease int64 `db:"lease"`
		Since int64 `db:"since"`
	}
	err = p.db.GetContext(ctx, &row, beat, w.ID, w.Host, w.ProcessID, w.Lanes, db.LeaseDuration.Seconds())
	return db.Lease{WorkerID: w.ID, Number: row.Lease}, time.Duration(row.Since) * time.Microsecond,
		pg.Classify("record the heartbeat", err)
}

// Remove removes a worker that has left, with its lanes; units that it still held are treated as lost.
func (p Presence) Remove(ctx context.Context, id uuid.UUID) error {
	_, err := p.db.ExecContext(ctx, `DELETE FROM workers WHERE id = $1`, id)
	return pg.Classify("remove the worker", err)
}

// RemoveAll removes every worker. Only the sole owner of an embedded database may call it, at startup: workers of
// earlier processes are dead, so their units need not wait for their leases to expire.
func (p Presence) RemoveAll(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, `DELETE FROM workers`)
	return pg.Classify("remove the workers", err)
}

// Refused records that a process on a host refused to start because its secret key is not the database's; command is
// "serve", "worker" or "up". It also removes the records of processes that have not tried for a day, so that hosts that
// are gone do not accumulate.
func (p Presence) Refused(ctx context.Context, host, command string) error {
	const record = `
		WITH gone AS (
			DELETE FROM refused_processes
			WHERE refused_at < now() - interval '1 day' AND (host, command) <> ($1, $2))
		INSERT INTO refused_processes (host, command)
		VALUES ($1, $2)
		ON CONFLICT (host, command) DO UPDATE SET refused_at = now()`
	_, err := p.db.ExecContext(ctx, record, host, command)
	return pg.Classify("record a refused process", err)
}

// Accepted removes what Refused recorded.
func (p Presence) Accepted(ctx context.Context, host, command string) error {
	_, err := p.db.ExecContext(ctx, `DELETE FROM refused_processes WHERE host = $1 AND command = $2`, host, command)
	return pg.Classify("remove the record of a refused process", err)
}

// RemoveDead removes workers that have been silent for ten minutes.
func (p Presence) RemoveDead(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, `DELETE FROM workers WHERE beat_at < now() - interval '10 minutes'`)
	return pg.Classify("remove dead workers", err)
}

// reconcileLock is the key of the advisory lock that elects the process that reconciles.
const reconcileLock = 0x77656e64696e67 // "wending" in ASCII

// leadFor is how long a leader that has died keeps others from leading, so a round should take less time than that. A
// leader that takes longer continues without the lock: two leaders at once do no harm.
const leadFor = 2 * time.Second

// AsLeader runs work unless another process is running it. It returns whether work ran, and the error of work.
func (p Presence) AsLeader(ctx context.Context, work func() error) (led bool, err error) {
	return p.db.WithLock(ctx, reconcileLock, leadFor, work)
}
