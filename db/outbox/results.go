package outbox

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// Limits on a batch of results: the number of its runs, and the bytes of their answers.
const (
	batchRuns  = 100
	batchBytes = 4 << 20
)

// MarkPushing records, in the transaction that creates a launch, whether any channel subscribes to its results.
func MarkPushing(ctx context.Context, tx sqlx.ExecerContext, launchID uuid.UUID) error {
	const mark = `
		UPDATE launches l
		SET pushes_results = true
		WHERE l.id = $1 AND EXISTS (
			SELECT FROM task_channels own
			JOIN channels c ON c.id = own.channel_id AND c.archived_at IS NULL AND 'result' = ANY (c.events)
			WHERE own.task_id = l.task_id)`
	_, err := tx.ExecContext(ctx, mark, launchID)
	return pg.Classify("record pushed results", err)
}

// Pushing returns the launches that have, or may have, results to push.
func (o Outbox) Pushing(ctx context.Context) (launches []uuid.UUID, err error) {
	err = o.db.SelectContext(ctx, &launches, `SELECT id FROM launches WHERE pushes_results ORDER BY created_at`)
	return launches, pg.Classify("look for results to push", err)
}

// findOwn finds the runs of the launch $1 that have not been pushed, at most $2. A run waits for the verdicts of judges
// and, if a model groups its question's answers, for the grouping unless the launch has ended ($3). Runs do not become
// visible in the order of their ids, so no position in that order separates old from new. A judge's unit is created in
// the transaction that stores its run, so no run is seen without the units that will judge it.
const findOwn = `
	SELECT r.id, coalesce(octet_length(r.response_body), 0) AS size
	FROM evaluation_runs r
	JOIN evaluation_tasks t ON t.id = r.task_id
	LEFT JOIN pushed_runs p ON p.launch_id = $1 AND p.run_id = r.id
	WHERE r.launch_id = $1 AND p.run_id IS NULL
	  AND NOT EXISTS (
		SELECT
		FROM task_evaluators e
		JOIN units u ON u.launch_id = $1 AND u.item_id = r.item_id AND u.variant = r.variant AND u.run_index = r.run_index
			AND u.evaluator = e.number AND u.state IN ('QUEUED', 'RUNNING')
		WHERE e.task_id = r.task_id AND e.target IS NOT NULL)
	  AND ($3 OR t.meaning_target IS NULL OR EXISTS (
		SELECT
		FROM question_statistics q
		WHERE q.item_id = r.item_id AND q.variant = r.variant AND q.newest_run_id >= r.id
		  AND (q.meaning_by IS NOT NULL OR q.meaning_default)))
	ORDER BY r.id
	LIMIT $2`

// findChanged finds the runs of earlier launches that the launch $1 has evaluated or grouped, and that have not been
// pushed again since. The launch $1 has ended.
const findChanged = `
	SELECT r.id, coalesce(octet_length(r.response_body), 0) AS size
	FROM launches l
	JOIN evaluation_runs r ON r.task_id = l.task_id AND r.launch_id <> l.id AND r.is_current
	LEFT JOIN pushed_runs p ON p.launch_id = l.id AND p.run_id = r.id
	WHERE l.id = $1 AND p.run_id IS NULL
	  AND (EXISTS (SELECT FROM evaluations e WHERE e.run_id = r.id AND e.launch_id = l.id)
		OR EXISTS (
			SELECT
			FROM meanings m
			JOIN units u ON u.id = m.unit_id
			WHERE m.item_id = r.item_id AND m.is_current AND u.launch_id = l.id))
	ORDER BY r.id`

// pushable is a run that can be pushed, with the size of its answer in bytes.
type pushable struct {
	ID   int64 `db:"id"`
	Size int   `db:"size"`
}

// batch returns the ids of the first runs, as many as fit into one delivery, and the other runs.
func batch(runs []pushable) (ids pq.Int64Array, others []pushable) {
	size := 0
	for n, run := range runs {
		if size += run.Size; n == batchRuns || n > 0 && size > batchBytes {
			return ids, runs[n:]
		}
		ids = append(ids, run.ID)
	}
	return ids, nil
}

// push stores one delivery of runs of a launch for each channel that subscribes to results.
func push(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID, ids pq.Int64Array) error {
	const push = `
		INSERT INTO pushed_runs (run_id, launch_id, batch)
		SELECT run_id, $2, (SELECT coalesce(max(batch), 0) + 1 FROM pushed_runs WHERE launch_id = $2)
		FROM unnest(CAST($1 AS bigint[])) AS given (run_id)
		RETURNING batch`
	var batches []int
	if err := tx.SelectContext(ctx, &batches, push, ids, launchID); err != nil {
		return pg.Classify("push runs", err)
	}
	return Announce(ctx, tx, launchID, Result, batches[0], nil)
}

// pushChanged pushes all runs of earlier launches that a launch changed, and returns their number. They are pushed
// together, because finding them takes longer the larger the task is.
func pushChanged(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID) (runs int, err error) {
	var found []pushable
	if err := tx.SelectContext(ctx, &found, findChanged, launchID); err != nil {
		return 0, pg.Classify("look for changed runs to push", err)
	}
	for ids, others := batch(found); len(ids) > 0; ids, others = batch(others) {
		if err := push(ctx, tx, launchID, ids); err != nil {
			return 0, err
		}
	}
	return len(found), nil
}

// PushBatch turns the next runs of a launch into a delivery for each channel that subscribes to results, and returns
// the number of these runs. It takes runs that have ended and that judges have rated and, once the launch has ended,
// runs of earlier launches that it evaluated or whose answers it grouped. If the launch has ended and no runs are
// left, PushBatch announces its end and marks it as pushed. Each run is in exactly one batch of a launch, even if two
// processes push the launch at the same time.
func (o Outbox) PushBatch(ctx context.Context, launchID uuid.UUID) (runs int, err error) {
	const isEnded = `SELECT finished_at IS NOT NULL FROM launches WHERE id = $1`
	const end = `UPDATE launches SET pushes_results = false WHERE id = $1`
	err = o.db.InTx(ctx, "push results", func(tx *sqlx.Tx) error {
		var hasEnded bool
		if err := tx.GetContext(ctx, &hasEnded, isEnded, launchID); err != nil {
			return pg.Classify("read the launch", err)
		}
		var found []pushable
		if err := tx.SelectContext(ctx, &found, findOwn, launchID, batchRuns, hasEnded); err != nil {
			return pg.Classify("look for runs to push", err)
		}
		if len(found) > 0 {
			ids, _ := batch(found)
			runs = len(ids)
			return push(ctx, tx, launchID, ids)
		}
		if !hasEnded {
			return nil
		}
		if runs, err = pushChanged(ctx, tx, launchID); err != nil || runs > 0 {
			return err
		}
		if _, err := tx.ExecContext(ctx, end, launchID); err != nil {
			return pg.Classify("record that all results are pushed", err)
		}
		return Ended(ctx, tx, launchID)
	})
	return runs, err
}

// Batch returns the ids of the runs in a batch of results.
func (o Outbox) Batch(ctx context.Context, launchID uuid.UUID, batch int) (runs []int64, err error) {
	const list = `SELECT run_id FROM pushed_runs WHERE launch_id = $1 AND batch = $2 ORDER BY run_id`
	err = o.db.SelectContext(ctx, &runs, list, launchID, batch)
	return runs, pg.Classify("read a batch of results", err)
}
