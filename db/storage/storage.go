// Package storage measures what takes space in the database.
package storage

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Table is a table with its indexes.
type Table struct {
	Name  string `db:"name"`
	Bytes int64  `db:"bytes"`
	// Rows is about how many there are.
	Rows int64 `db:"rows"`
}

// Task is what a task takes: its answers as they are stored, without the indexes.
type Task struct {
	ID        uuid.UUID     `db:"id"`
	Name      string        `db:"task_name"`
	Status    db.TaskStatus `db:"status"`
	CreatedAt time.Time     `db:"created_at"`
	Runs      int64         `db:"runs"`
	Bytes     int64         `db:"bytes"`
}

// Usage is what takes space.
type Usage struct {
	// Database is all of it, Tables are the largest tables.
	Database int64
	Tables   []Table
	// Tasks are those with the most answers, TaskCount is how many tasks there are.
	Tasks     []Task
	TaskCount int
}

// rowBytes is about what a run takes beside its texts.
const rowBytes = 250

// Measure measures everything, with up to so many tables and tasks. It reads every run's row, though not its texts.
func Measure(ctx context.Context, store *db.Store, tables, tasks int) (usage Usage, err error) {
	const listTables = `
		SELECT c.relname AS name, pg_total_relation_size(c.oid) AS bytes, greatest(0, c.reltuples)::bigint AS rows
		FROM pg_class c
		WHERE c.relkind = 'r' AND c.relnamespace = CAST(current_schema() AS regnamespace)
		ORDER BY bytes DESC
		LIMIT $1`
	const listTasks = `
		SELECT t.id, t.task_name, t.status, t.created_at, r.runs, r.bytes
		FROM (
			SELECT task_id, count(*) AS runs,
				sum($2 + coalesce(pg_column_size(response_body), 0) + coalesce(pg_column_size(reasoning), 0) + coalesce(pg_column_size(response_bytes), 0))::bigint AS bytes
			FROM evaluation_runs
			GROUP BY task_id) r
		JOIN evaluation_tasks t ON t.id = r.task_id
		ORDER BY r.bytes DESC
		LIMIT $1`
	pool := store.Pool()
	if err := pool.GetContext(ctx, &usage.Database, `SELECT pg_database_size(current_database())`); err != nil {
		return usage, pg.Classify("measure the database", err)
	}
	if err := pool.SelectContext(ctx, &usage.Tables, listTables, tables); err != nil {
		return usage, pg.Classify("measure the tables", err)
	}
	if err := pool.GetContext(ctx, &usage.TaskCount, `SELECT count(*) FROM evaluation_tasks`); err != nil {
		return usage, pg.Classify("count the tasks", err)
	}
	err = pool.SelectContext(ctx, &usage.Tasks, listTasks, tasks, rowBytes)
	return usage, pg.Classify("measure the tasks", err)
}
