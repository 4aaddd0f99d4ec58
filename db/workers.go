package db

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db/pg"
)

const (
	// BeatEvery is the time between two heartbeats of a worker.
	BeatEvery = time.Second
	// leaseDuration is the silence after which a worker must begin nothing more under its lease: well before
	// others take over what it holds.
	leaseDuration = 15 * time.Second
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

// Lease is a worker's right to claim and begin units. It expires when the worker has not sent a heartbeat for
// leaseDuration, and the worker gets a new one with its next heartbeat: by then, others may be doing what
// it was doing under the old one.
type Lease struct {
	WorkerID uuid.UUID
	Number   int64
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
// database's clock. A worker that was silent for leaseDuration gets a new lease; its lanes stay until it leaves
// them, because their calls may still be in flight.
func (s *Store) Beat(ctx context.Context, w Worker) (lease Lease, since time.Duration, err error) {
	var row struct {
		Lease int64 `db:"lease"`
		Since int64 `db:"since"`
	}
	err = s.db.GetContext(ctx, &row, beat, w.ID, w.Host, w.ProcessID, w.Lanes, leaseDuration.Seconds())
	return Lease{w.ID, row.Lease}, time.Duration(row.Since) * time.Microsecond, pg.Classify("record the heartbeat", err)
}

// RemoveWorker removes a worker that has left, with its lanes; units it still held count as lost.
func (s *Store) RemoveWorker(ctx context.Context, id uuid.UUID) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM workers WHERE id = $1`, id)
	return pg.Classify("remove the worker", err)
}

// RemoveAllWorkers removes every worker. Only the single owner of an embedded database may call it, at its start:
// workers of earlier processes are dead, and their units need not wait for the leases.
func (s *Store) RemoveAllWorkers(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM workers`)
	return pg.Classify("remove the workers", err)
}

// RemoveDeadWorkers removes workers that have been silent for ten minutes.
func (s *Store) RemoveDeadWorkers(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM workers WHERE beat_at < now() - interval '10 minutes'`)
	return pg.Classify("remove dead workers", err)
}
