// Package upkeep keeps the database in order: it removes data that is no longer needed, measures disk usage, seals
// secrets with a new key, and exports and imports tasks and whole databases.
package upkeep

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// Upkeep removes old data of tasks.
type Upkeep struct{ db *pg.Pool }

// New returns the upkeep of a store.
func New(store *db.Store) Upkeep { return Upkeep{store.Pool()} }

// Prune removes the history of one task that ended longer ago than keep: runs replaced by later launches, earlier
// evaluations, and the units that drove them. The results, which are the current runs, and the launches with their
// statistics stay. removed is the number of deleted rows; found is false if there is no such task.
func (u Upkeep) Prune(ctx context.Context, keep time.Duration) (removed int, found bool, err error) {
	const find = `
		UPDATE evaluation_tasks
		SET is_pruned = true
		WHERE id = (
			SELECT id FROM evaluation_tasks
			WHERE NOT is_pruned AND completed_at < now() - $1 * interval '1 second'
			ORDER BY completed_at
			LIMIT 1
			FOR UPDATE SKIP LOCKED)
		RETURNING id`
	err = u.db.InTx(ctx, "prune the history", func(tx *sqlx.Tx) error {
		var taskID uuid.UUID
		err := tx.GetContext(ctx, &taskID, find, keep.Seconds())
		if pg.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return pg.Classify("find a history to prune", err)
		}
		found = true
		if removed, err = deleteRuns(ctx, tx, taskID, false); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, removePastEvaluations, taskID)
		past, err := pg.Affected("delete past evaluations", result, err)
		if err != nil {
			return err
		}
		removed += past
		units, err := deleteUnits(ctx, tx, taskID)
		removed += units
		return err
	})
	return removed, found && err == nil, err
}

const removePastEvaluations = `
	DELETE FROM past_evaluations
	WHERE run_id IN (SELECT r.id FROM launches l JOIN evaluation_runs r ON r.launch_id = l.id WHERE l.task_id = $1)`

// deleteUnits removes the units of all launches of a task.
func deleteUnits(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID) (removed int, err error) {
	const remove = `DELETE FROM units u USING launches l WHERE l.task_id = $1 AND u.launch_id = l.id`
	result, err := tx.ExecContext(ctx, remove, taskID)
	return pg.Affected("delete units", result, err)
}

// deleteRuns removes a task's runs, or only those that later launches replaced. It deletes in steps: answers can
// be large, and the server must not be silent for long.
func deleteRuns(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, includeCurrent bool) (removed int, err error) {
	const step = `
		WITH gone AS (
			DELETE FROM evaluation_runs
			WHERE id = ANY (ARRAY(
				SELECT r.id
				FROM launches l
				JOIN evaluation_runs r ON r.launch_id = l.id
				WHERE l.task_id = $1 AND ($2 OR NOT r.is_current)
				LIMIT 1000))
			RETURNING id),
		verdicts AS (
			DELETE FROM evaluations WHERE run_id IN (SELECT id FROM gone)),
		past AS (
			DELETE FROM past_evaluations WHERE run_id IN (SELECT id FROM gone))
		SELECT count(*) FROM gone`
	for {
		var n int
		err := tx.GetContext(ctx, &n, step, taskID, includeCurrent)
		removed += n
		if err != nil || n == 0 {
			return removed, pg.Classify("delete runs", err)
		}
	}
}

// deleteEvents removes the events and spans that agents reported, in steps as deleteRuns does; the tool calls are few
// and are deleted with the task.
func deleteEvents(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID) error {
	const (
		events = `
		DELETE FROM run_events
		WHERE (unit_id, epoch, first_seq) IN (SELECT unit_id, epoch, first_seq FROM run_events WHERE task_id = $1 LIMIT 5000)`
		spans = `
		DELETE FROM run_spans
		WHERE (unit_id, item_id, span_id) IN (SELECT unit_id, item_id, span_id FROM run_spans WHERE task_id = $1 LIMIT 5000)`
	)
	for _, step := range []string{events, spans} {
		for isDone := false; !isDone; {
			result, err := tx.ExecContext(ctx, step, taskID)
			n, err := pg.Affected("delete events", result, err)
			if err != nil {
				return err
			}
			isDone = n == 0
		}
	}
	return nil
}

// DeleteTask removes a task and all its data. It returns db.ErrNotFound if there is no such task, and db.ErrConflict if
// a launch is active and must be stopped first.
func (u Upkeep) DeleteTask(ctx context.Context, scope db.Scope, id uuid.UUID) error {
	lock := `SELECT id FROM evaluation_tasks WHERE id = $1 AND ` + db.Within("project_id", "$2") + ` FOR UPDATE`
	const isActive = `SELECT EXISTS (SELECT FROM launches WHERE task_id = $1
		AND status IN ('PENDING', 'RUNNING', 'STOPPING'))`
	return u.db.InTx(ctx, "delete the task", func(tx *sqlx.Tx) error {
		var locked uuid.UUID
		if err := tx.GetContext(ctx, &locked, lock, id, scope); err != nil {
			return db.NotFound(db.KindTask, pg.Classify("lock the task", err))
		}
		var active bool
		if err := tx.GetContext(ctx, &active, isActive, id); err != nil {
			return pg.Classify("look for an active launch", err)
		}
		if active {
			return db.ErrConflict
		}
		if _, err := deleteRuns(ctx, tx, id, true); err != nil {
			return err
		}
		if _, err := deleteUnits(ctx, tx, id); err != nil {
			return err
		}
		if err := deleteEvents(ctx, tx, id); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM evaluation_tasks WHERE id = $1`, id); err != nil {
			return pg.Classify("delete the task", err)
		}
		return db.Notify(ctx, tx, id)
	})
}
