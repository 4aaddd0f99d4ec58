package db

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// How workers show that they live.
const (
	// BeatEvery is the time between two signs of life of a worker.
	BeatEvery = 5 * time.Second
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

// Beat notes that the worker lives.
func (s *Store) Beat(ctx context.Context, w Worker) error {
	const beat = `INSERT INTO workers (id, host, process_id, lanes) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET beat_at = now()`
	_, err := s.db.ExecContext(ctx, beat, w.ID, w.Host, w.ProcessID, w.Lanes)
	return classify("note the worker's beat", err)
}

// RemoveWorker forgets a worker that has left; units it still held count as lost.
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

// RemoveDeadWorkers forgets workers that have been silent for a day.
func (s *Store) RemoveDeadWorkers(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM workers WHERE beat_at < now() - interval '1 day'`)
	return classify("remove dead workers", err)
}

// reconcileLock is the key of the advisory lock that elects the process that reconciles.
const reconcileLock = 0x77656e64696e67 // "wending"

// AsLeader runs work when no other process runs it now, under a lock that ends with the transaction
// (so it holds behind a pooler too). It returns whether work ran.
func (s *Store) AsLeader(ctx context.Context, work func() error) (led bool, err error) {
	err = s.inTx(ctx, "lead", func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &led, `SELECT pg_try_advisory_xact_lock($1)`, int64(reconcileLock)); err != nil {
			return classify("ask for the lead", err)
		}
		if !led {
			return nil
		}
		return work()
	})
	return led, err
}
