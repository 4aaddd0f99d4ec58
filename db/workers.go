package db

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// How workers show that they live.
const (
	// BeatEvery is the time between two signs of life of a worker.
	BeatEvery = time.Second
	// leaseFor is the silence after which a worker must begin nothing more under its lease: a good while
	// before others take what it holds.
	leaseFor = 15 * time.Second
	// WorkerDeadAfter is the silence after which a worker's units go to others.
	WorkerDeadAfter = 20 * time.Second
)

// Worker describes a worker process.
type Worker struct {
	ID        uuid.UUID
	Host      string
	ProcessID int
	Lanes     int
}

// Lease is a worker's right to claim and begin units. It passes when the worker was silent for too long, and
// the worker gets a new one with its next beat: what it was doing under the old one, others may be doing now.
type Lease struct {
	WorkerID uuid.UUID
	Number   int64
}

// Beat notes that the worker lives. It returns its lease and the time since its last beat, by the database's
// clock. A worker that was silent for too long gets a new lease; its lanes stay until it leaves them, for
// their calls may still be on their way.
func (s *Store) Beat(ctx context.Context, w Worker) (lease Lease, since time.Duration, err error) {
	const beat = `WITH last AS (SELECT now() - beat_at AS silence FROM workers WHERE id = $1)
		INSERT INTO workers (id, host, process_id, lanes) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET beat_at = now(), lease = CASE WHEN (SELECT silence FROM last) >= $5 * interval '1 second'
			THEN nextval('worker_leases') ELSE workers.lease END
		RETURNING lease, coalesce((SELECT extract(epoch FROM silence) * 1000000 FROM last), 0)::bigint AS since`
	var row struct {
		Lease int64 `db:"lease"`
		Since int64 `db:"since"`
	}
	err = s.db.GetContext(ctx, &row, beat, w.ID, w.Host, w.ProcessID, w.Lanes, leaseFor.Seconds())
	return Lease{w.ID, row.Lease}, time.Duration(row.Since) * time.Microsecond, classify("note the worker's beat", err)
}

// WorkerState is a worker as the page shows it.
type WorkerState struct {
	ID        uuid.UUID `db:"id"`
	Host      string    `db:"host"`
	ProcessID int       `db:"process_id"`
	Lanes     int       `db:"lanes"`
	BusyLanes int       `db:"busy_lanes"`
	// Units is how many units the worker holds: calls in flight, about to begin or being stored.
	Units     int       `db:"units"`
	StartedAt time.Time `db:"started_at"`
	// SilentSeconds is the time since the last beat, by the database's clock.
	SilentSeconds float64 `db:"silent_seconds"`
	IsAlive       bool    `db:"is_alive"`
}

// Workers returns every worker that has not left, the living ones first.
func (s *Store) Workers(ctx context.Context) ([]WorkerState, error) {
	const query = `SELECT w.id, w.host, w.process_id, w.lanes, w.started_at,
		extract(epoch FROM now() - w.beat_at) AS silent_seconds, w.beat_at > now() - $1 * interval '1 second' AS is_alive,
		(SELECT count(*) FROM lanes WHERE worker_id = w.id) AS busy_lanes,
		(SELECT count(*) FROM units WHERE worker_id = w.id AND state = 'RUNNING') AS units
		FROM workers w ORDER BY is_alive DESC, w.host, w.started_at, w.id`
	var workers []WorkerState
	err := s.db.SelectContext(ctx, &workers, query, WorkerDeadAfter.Seconds())
	return workers, classify("list the workers", err)
}

// liveLanes counts the lanes of living workers at work on the launch l; $1 is WorkerDeadAfter in seconds.
const liveLanes = `SELECT count(*) AS n FROM lanes JOIN workers w ON w.id = lanes.worker_id
	WHERE lanes.launch_id = l.id AND w.beat_at > now() - $1 * interval '1 second'`

// EnterLane admits a lane to a launch that is RUNNING and has fewer lanes than its concurrency. A lane makes
// one call at a time, so this is what keeps a launch within its concurrency over all workers.
func (s *Store) EnterLane(ctx context.Context, laneID, launchID uuid.UUID, lease Lease) (admitted bool, err error) {
	// Locked in a statement of its own: only a later one sees the lanes that were let in meanwhile.
	const lock = `SELECT id FROM launches WHERE id = $1 AND status = 'RUNNING' FOR UPDATE`
	const enter = `INSERT INTO lanes (id, launch_id, worker_id)
		SELECT $2, l.id, $3 FROM launches l WHERE l.id = $4 AND (` + liveLanes + `) < l.concurrency
		AND EXISTS (SELECT 1 FROM workers WHERE id = $3 AND lease = $5 AND beat_at > now() - $6 * interval '1 second')`
	err = s.inTx(ctx, "enter a lane", func(tx *sqlx.Tx) error {
		var id uuid.UUID
		err := tx.GetContext(ctx, &id, lock, launchID)
		if isNoRows(err) {
			return nil
		}
		if err != nil {
			return classify("lock the launch", err)
		}
		result, err := tx.ExecContext(ctx, enter, WorkerDeadAfter.Seconds(), laneID, lease.WorkerID, launchID, lease.Number, leaseFor.Seconds())
		if err != nil {
			return classify("enter a lane", err)
		}
		entered, err := result.RowsAffected()
		admitted = entered == 1
		return classify("enter a lane", err)
	})
	return admitted && err == nil, err
}

// YieldLane ends a lane when its launch has another one: while the agent has no free moment, one is enough
// to wait for it. Of several that yield at once, one stays.
func (s *Store) YieldLane(ctx context.Context, laneID, launchID uuid.UUID) (left bool, err error) {
	const lock = `SELECT id FROM launches WHERE id = $1 FOR UPDATE`
	const yield = `DELETE FROM lanes WHERE id = $2 AND (SELECT count(*) FROM lanes o JOIN workers w ON w.id = o.worker_id
		WHERE o.launch_id = $3 AND o.id <> $2 AND w.beat_at > now() - $1 * interval '1 second') > 0`
	err = s.inTx(ctx, "yield a lane", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, lock, launchID); err != nil {
			return classify("lock the launch", err)
		}
		result, err := tx.ExecContext(ctx, yield, WorkerDeadAfter.Seconds(), laneID, launchID)
		if err != nil {
			return classify("yield a lane", err)
		}
		deleted, err := result.RowsAffected()
		left = deleted == 1
		return classify("yield a lane", err)
	})
	return left && err == nil, err
}

// LeaveLane ends a lane.
func (s *Store) LeaveLane(ctx context.Context, laneID uuid.UUID) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM lanes WHERE id = $1`, laneID)
	return classify("leave a lane", err)
}

// RemoveWorker forgets a worker that has left, with its lanes; units it still held count as lost.
func (s *Store) RemoveWorker(ctx context.Context, id uuid.UUID) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM workers WHERE id = $1`, id)
	return classify("remove the worker", err)
}

// RemoveAllWorkers forgets every worker. Only the one owner of an embedded database may call it, at its
// start: whoever worked there before is dead, and its units need not wait for the lease.
func (s *Store) RemoveAllWorkers(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM workers`)
	return classify("remove the workers", err)
}

// RemoveDeadWorkers forgets workers that have been silent for ten minutes.
func (s *Store) RemoveDeadWorkers(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM workers WHERE beat_at < now() - interval '10 minutes'`)
	return classify("remove dead workers", err)
}

// reconcileLock is the key of the advisory lock that elects the process that reconciles.
const reconcileLock = 0x77656e64696e67 // "wending"

// leadFor is how long a leader that has vanished keeps others from leading; so its round should take no longer.
// One that does goes on without the lock: two at once do no harm.
const leadFor = 2 * time.Second

// AsLeader runs work when no other process runs it now, under a lock that ends with the transaction
// (so it holds behind a pooler too). It returns whether work ran, and its error.
func (s *Store) AsLeader(ctx context.Context, work func() error) (led bool, err error) {
	var failed error
	err = s.inBareTx(ctx, "lead", func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &led, `SELECT pg_try_advisory_xact_lock($1) FROM set_config('idle_in_transaction_session_timeout', $2, true)`,
			int64(reconcileLock), strconv.FormatInt(leadFor.Milliseconds(), 10)); err != nil {
			return classify("ask for the lead", err)
		}
		if led {
			failed = work()
		}
		return nil
	})
	if led {
		return true, failed
	}
	return false, err
}
