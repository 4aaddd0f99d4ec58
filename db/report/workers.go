package report

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Worker is a worker as the page shows it.
type Worker struct {
	ID        uuid.UUID `db:"id"`
	Host      string    `db:"host"`
	ProcessID int       `db:"process_id"`
	Lanes     int       `db:"lanes"`
	BusyLanes int       `db:"busy_lanes"`
	// Units is the number of units that the worker holds: calls in flight or about to begin, and results being
	// stored.
	Units     int       `db:"units"`
	StartedAt time.Time `db:"started_at"`
	// SilentSeconds is the time since the last heartbeat, by the database's clock.
	SilentSeconds float64 `db:"silent_seconds"`
	IsAlive       bool    `db:"is_alive"`
}

// Lanes returns how many calls all living workers together can make at once.
func (m Monitor) Lanes(ctx context.Context) (lanes int, err error) {
	const sum = `SELECT coalesce(sum(lanes), 0) FROM workers WHERE beat_at > now() - $1 * interval '1 second'`
	err = m.db.GetContext(ctx, &lanes, sum, db.WorkerDeadAfter.Seconds())
	return lanes, pg.Classify("count the lanes", err)
}

// Workers returns every worker that has not left, living ones first.
func (m Monitor) Workers(ctx context.Context) ([]Worker, error) {
	const query = `
		SELECT w.id, w.host, w.process_id, w.lanes, w.started_at,
			extract(epoch FROM now() - w.beat_at) AS silent_seconds,
			w.beat_at > now() - $1 * interval '1 second' AS is_alive,
			(SELECT count(*) FROM lanes WHERE worker_id = w.id) AS busy_lanes,
			(SELECT count(*) FROM units WHERE worker_id = w.id AND state = 'RUNNING') AS units
		FROM workers w
		ORDER BY is_alive DESC, w.host, w.started_at, w.id`
	var workers []Worker
	err := m.db.SelectContext(ctx, &workers, query, db.WorkerDeadAfter.Seconds())
	return workers, pg.Classify("list the workers", err)
}

// RefusedProcess is a process that refused to start because its secret key differs from the database's.
type RefusedProcess struct {
	Host string `db:"host"`
	// Command is "serve", "worker" or "up".
	Command   string    `db:"command"`
	RefusedAt time.Time `db:"refused_at"`
}

// RefusedProcesses returns up to 100 processes that refused to start within the last day and have not started since,
// the latest first.
func (m Monitor) RefusedProcesses(ctx context.Context) (refused []RefusedProcess, err error) {
	const query = `
		SELECT host, command, refused_at
		FROM refused_processes
		WHERE refused_at > now() - interval '1 day'
		ORDER BY refused_at DESC, host, command
		LIMIT 100`
	err = m.db.SelectContext(ctx, &refused, query)
	return refused, pg.Classify("list the refused processes", err)
}
