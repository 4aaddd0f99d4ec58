package db

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db/pg"
)

// LaunchRun is a run as the history of its launch shows it.
type LaunchRun struct {
	WholeRun
	// IsCurrent reports that no later launch has repeated the run.
	IsCurrent bool `db:"is_current"`
}

const listLaunchRuns = `
	SELECT r.id, r.unit_id, r.item_id, r.run_index, r.status, r.response_bytes IS NOT NULL AS is_replaced,
		coalesce(char_length(r.response_body), 0) AS response_length, r.answer_key, r.latency_ms, r.attempts,
		r.error_code, r.error_message, r.created_at, r.is_current, left(r.response_body, $2) AS response_body,
		i.question_id, i.question
	FROM evaluation_runs r
	JOIN evaluation_items i ON i.id = r.item_id
	WHERE r.launch_id = $1
	ORDER BY r.id -- the order in which runs ended
	LIMIT $3 OFFSET $4`

// LaunchRuns returns one page of a launch's runs in the order they ended, with at most limit characters of each
// response, and how many there are. Runs that a later launch replaced are listed as long as their history is
// kept.
func (s *Store) LaunchRuns(ctx context.Context, launchID uuid.UUID, limit int, page Page) (runs []LaunchRun, total int, err error) {
	if err := s.db.GetContext(ctx, &total, `SELECT count(*) FROM evaluation_runs WHERE launch_id = $1`, launchID); err != nil {
		return nil, 0, pg.Classify("count the launch's runs", err)
	}
	err = s.db.SelectContext(ctx, &runs, listLaunchRuns, launchID, limit, page.Size, page.Offset())
	return runs, total, pg.Classify("list the launch's runs", err)
}

const listNewestRuns = `
	SELECT r.id, r.unit_id, r.item_id, r.run_index, r.status, r.response_bytes IS NOT NULL AS is_replaced,
		coalesce(char_length(r.response_body), 0) AS response_length, r.answer_key, r.latency_ms, r.attempts,
		r.error_code, r.error_message, r.created_at, r.is_current, left(r.response_body, $2) AS response_body,
		i.question_id, i.question,
		(SELECT count(*) FROM evaluation_items WHERE task_id = i.task_id AND question_id <= i.question_id) AS number
	FROM (
		SELECT * FROM evaluation_runs
		WHERE launch_id = (SELECT id FROM launches WHERE task_id = $1 ORDER BY number DESC LIMIT 1)
		ORDER BY id DESC
		LIMIT $3) r
	JOIN evaluation_items i ON i.id = r.item_id
	ORDER BY r.id DESC`

// NewestRuns returns the last runs that a task's newest launch stored, newest first, with at most limit
// characters of each response.
func (s *Store) NewestRuns(ctx context.Context, taskID uuid.UUID, limit, count int) ([]LaunchRun, error) {
	var runs []LaunchRun
	err := s.db.SelectContext(ctx, &runs, listNewestRuns, taskID, limit, count)
	return runs, pg.Classify("read the newest runs", err)
}

// PruneHistory removes what one task that ended longer ago than keep left behind: runs that later launches
// replaced, and the units that drove them. Current runs – the results – and the launches with their statistics
// stay. removed is how many rows went; found is false if no such task is left.
func (s *Store) PruneHistory(ctx context.Context, keep time.Duration) (removed int, found bool, err error) {
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
	err = s.db.InTx(ctx, "prune the history", func(tx *sqlx.Tx) error {
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
		units, err := deleteUnits(ctx, tx, taskID)
		removed += units
		return err
	})
	return removed, found && err == nil, err
}

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
		DELETE FROM evaluation_runs
		WHERE id = ANY (ARRAY(
			SELECT r.id
			FROM launches l
			JOIN evaluation_runs r ON r.launch_id = l.id
			WHERE l.task_id = $1 AND ($2 OR NOT r.is_current)
			LIMIT 1000))`
	for {
		result, err := tx.ExecContext(ctx, step, taskID, includeCurrent)
		n, err := pg.Affected("delete runs", result, err)
		removed += n
		if err != nil || n == 0 {
			return removed, err
		}
	}
}
