package upkeep

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Storage measures the disk usage of one database.
type Storage struct{ db *pg.Pool }

// NewStorage returns the storage of a store.
func NewStorage(store *db.Store) Storage { return Storage{store.Pool()} }

// TableSize is the size of a table with its indexes.
type TableSize struct {
	Name  string `db:"name"`
	Bytes int64  `db:"bytes"`
	// Rows is the approximate number of rows.
	Rows int64 `db:"rows"`
}

// TaskSize is the size of a task's answers as stored, without indexes.
type TaskSize struct {
	ID        uuid.UUID     `db:"id"`
	Name      string        `db:"task_name"`
	Status    db.TaskStatus `db:"status"`
	CreatedAt time.Time     `db:"created_at"`
	Runs      int64         `db:"runs"`
	Bytes     int64         `db:"bytes"`
}

// SpaceUsage is the disk usage of the database.
type SpaceUsage struct {
	// Database is the total size in bytes, and Tables are the largest tables.
	Database int64
	Tables   []TableSize
	// Tasks are the tasks with the largest answers, and TaskCount is the number of all tasks.
	Tasks     []TaskSize
	TaskCount int
	Backups
}

// rowBytes is the approximate size of a run without its texts.
const rowBytes = 250

// Measure returns the disk usage, with at most the given numbers of the largest tables and tasks. It reads the row of
// every run, but not the texts of answers.
func (s Storage) Measure(ctx context.Context, tables, tasks int) (usage SpaceUsage, err error) {
	const listTables = `
		SELECT c.relname AS name, pg_total_relation_size(c.oid) AS bytes,
			coalesce(nullif(pg_stat_get_live_tuples(c.oid), 0), greatest(0, c.reltuples)::bigint) AS rows
		FROM pg_class c
		WHERE c.relkind = 'r' AND c.relnamespace = CAST(current_schema() AS regnamespace)
		ORDER BY bytes DESC
		LIMIT $1`
	const listTasks = `
		SELECT t.id, t.task_name, t.status, t.created_at, r.runs, r.bytes
		FROM (
			SELECT task_id, count(*) AS runs,
				sum($2 + coalesce(pg_column_size(response_body), 0) + coalesce(pg_column_size(reasoning),
				0) + coalesce(pg_column_size(response_bytes), 0))::bigint AS bytes
			FROM evaluation_runs
			GROUP BY task_id) r
		JOIN evaluation_tasks t ON t.id = r.task_id
		ORDER BY r.bytes DESC
		LIMIT $1`
	if err := s.db.GetContext(ctx, &usage.Database, `SELECT pg_database_size(current_database())`); err != nil {
		return usage, pg.Classify("measure the database", err)
	}
	const lastBackup = `SELECT last_backup_at, last_backup_bytes, backup_failed_at FROM installation`
	if err := s.db.GetContext(ctx, &usage.Backups, lastBackup); err != nil {
		return usage, pg.Classify("find the last backup", err)
	}
	if err := s.db.SelectContext(ctx, &usage.Tables, listTables, tables); err != nil {
		return usage, pg.Classify("measure the tables", err)
	}
	if err := s.db.GetContext(ctx, &usage.TaskCount, `SELECT count(*) FROM evaluation_tasks`); err != nil {
		return usage, pg.Classify("count the tasks", err)
	}
	err = s.db.SelectContext(ctx, &usage.Tasks, listTasks, tasks, rowBytes)
	return usage, pg.Classify("measure the tasks", err)
}
