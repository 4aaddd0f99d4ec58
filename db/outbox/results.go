package outbox

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// The maximum number of runs, and bytes of answers, in a batch of results.
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

// PushBatch turns the next runs of a launch – those that have ended and that judges have rated – into a delivery for
// each channel that subscribes to results, and returns how many runs these are. If the launch has ended and no runs
// are left, PushBatch announces its end and marks it as pushed. Each run is in exactly one batch, even if two
// processes push the launch at the same time.
func (o Outbox) PushBatch(ctx context.Context, launchID uuid.UUID) (runs int, err error) {
	const isEnded = `SELECT finished_at IS NOT NULL FROM launches WHERE id = $1`
	// Runs do not become visible in the order of their ids, so no position in that order separates old from new. A
	// judge's unit is created in the transaction that stores its run.
	const find = `
		SELECT r.id, coalesce(octet_length(r.response_body), 0) AS size
		FROM evaluation_runs r
		LEFT JOIN pushed_runs p ON p.run_id = r.id
		WHERE r.launch_id = $1 AND p.run_id IS NULL
		  AND NOT EXISTS (
			SELECT
			FROM task_evaluators e
			JOIN units u ON u.launch_id = $1 AND u.item_id = r.item_id AND u.variant = r.variant AND u.run_index = r.run_index
				AND u.evaluator = e.number AND u.state IN ('QUEUED', 'RUNNING')
			WHERE e.task_id = r.task_id AND e.target IS NOT NULL)
		ORDER BY r.id
		LIMIT $2`
	const push = `
		INSERT INTO pushed_runs (run_id, launch_id, batch)
		SELECT run_id, $2, (SELECT coalesce(max(batch), 0) + 1 FROM pushed_runs WHERE launch_id = $2)
		FROM unnest(CAST($1 AS bigint[])) AS given (run_id)
		RETURNING batch`
	const end = `UPDATE launches SET pushes_results = false WHERE id = $1`
	err = o.db.InTx(ctx, "push results", func(tx *sqlx.Tx) error {
		var hasEnded bool
		if err := tx.GetContext(ctx, &hasEnded, isEnded, launchID); err != nil {
			return pg.Classify("read the launch", err)
		}
		var found []struct {
			ID   int64 `db:"id"`
			Size int   `db:"size"`
		}
		if err := tx.SelectContext(ctx, &found, find, launchID, batchRuns); err != nil {
			return pg.Classify("look for runs to push", err)
		}
		ids, size := pq.Int64Array{}, 0
		for _, run := range found {
			if size += run.Size; len(ids) > 0 && size > batchBytes {
				break
			}
			ids = append(ids, run.ID)
		}
		if runs = len(ids); runs == 0 {
			if !hasEnded {
				return nil
			}
			if _, err := tx.ExecContext(ctx, end, launchID); err != nil {
				return pg.Classify("record that all results are pushed", err)
			}
			return Ended(ctx, tx, launchID)
		}
		var batches []int
		if err := tx.SelectContext(ctx, &batches, push, ids, launchID); err != nil {
			return pg.Classify("push runs", err)
		}
		return Announce(ctx, tx, launchID, Result, batches[0], nil)
	})
	return runs, err
}

// Batch returns the ids of the runs in a batch of results.
func (o Outbox) Batch(ctx context.Context, launchID uuid.UUID, batch int) (runs []int64, err error) {
	const list = `SELECT run_id FROM pushed_runs WHERE launch_id = $1 AND batch = $2 ORDER BY run_id`
	err = o.db.SelectContext(ctx, &runs, list, launchID, batch)
	return runs, pg.Classify("read a batch of results", err)
}
