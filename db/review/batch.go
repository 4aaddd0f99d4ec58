package review

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Batch is a set of verdicts that were given together.
type Batch struct {
	ID       uuid.UUID `db:"batch"`
	Reviewer string    `db:"reviewer"`
	// Questions is the number of questions on which a verdict of the batch is still current.
	Questions int       `db:"questions"`
	CreatedAt time.Time `db:"created_at"`
}

// Batches returns the batches of a task that still have a current verdict, newest first.
func (r Reviews) Batches(ctx context.Context, taskID uuid.UUID) (batches []Batch, err error) {
	const list = `
		SELECT v.batch, v.reviewer, count(DISTINCT v.item_id) AS questions, max(v.created_at) AS created_at
		FROM reviews v
		JOIN evaluation_items i ON i.id = v.item_id
		WHERE i.task_id = $1 AND v.batch IS NOT NULL AND v.is_current AND NOT v.is_withdrawn
		GROUP BY v.batch, v.reviewer
		ORDER BY max(v.created_at) DESC, v.batch`
	err = r.db.SelectContext(ctx, &batches, list, taskID)
	return batches, pg.Classify("list the batches of reviews", err)
}

// lockTask ensures that only one batch of a task is given or withdrawn at a time.
func lockTask(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID) (variants int, err error) {
	err = tx.GetContext(ctx, &variants, `SELECT total_variants FROM evaluation_tasks WHERE id = $1 FOR NO KEY UPDATE`, taskID)
	if pg.IsNoRows(err) {
		return 0, &db.NotFoundError{Kind: db.KindTask}
	}
	return variants, pg.Classify("lock the task", err)
}

// PassAll passes questions of a task for all its variants, as one batch. Verdicts that the reviewer has given in
// the meantime stay. It returns how many questions were passed.
func (r Reviews) PassAll(ctx context.Context, taskID uuid.UUID, reviewer string, items []int64) (passed int, err error) {
	const (
		lock = `SELECT id FROM evaluation_items WHERE task_id = $1 AND id = ANY ($2) ORDER BY id FOR NO KEY UPDATE`
		// A withdrawn review passes its version on to the next verdict.
		retire = `
			UPDATE reviews
			SET is_current = false
			WHERE item_id = ANY ($1) AND reviewer = $2 AND run_index IS NULL AND is_current AND is_withdrawn`
		insert = `
			INSERT INTO reviews (item_id, variant, reviewer, verdict, note, version, is_withdrawn, judged_run_id, batch)
			SELECT i.id, v.variant, $2, 'PASS', '', 1 + coalesce((
					SELECT max(before.version)
					FROM reviews before
					WHERE before.item_id = i.id AND before.variant = v.variant AND before.run_index IS NULL AND before.reviewer = $2), 0),
				false, ` + judged + `, $3
			FROM evaluation_items i
			CROSS JOIN (SELECT variant, CAST(NULL AS int) AS run_index FROM generate_series(1, $4::int) AS own (variant)) v
			WHERE i.id = ANY ($1) AND NOT EXISTS (
				SELECT FROM reviews now
				WHERE now.item_id = i.id AND now.variant = v.variant AND now.run_index IS NULL AND now.reviewer = $2 AND now.is_current)
			RETURNING item_id`
	)
	err = r.db.InTx(ctx, "pass questions", func(tx *sqlx.Tx) error {
		variants, err := lockTask(ctx, tx, taskID)
		if err != nil {
			return err
		}
		var locked pq.Int64Array
		if err := tx.SelectContext(ctx, &locked, lock, taskID, pq.Int64Array(items)); err != nil {
			return pg.Classify("lock the questions", err)
		}
		if _, err := tx.ExecContext(ctx, retire, locked, reviewer); err != nil {
			return pg.Classify("keep the reviews' history", err)
		}
		var changed []int64
		if err := tx.SelectContext(ctx, &changed, insert, locked, reviewer, uuid.New(), variants); err != nil {
			return pg.Classify("store the reviews", err)
		}
		passed = countDistinct(changed)
		return nil
	})
	return passed, err
}

// WithdrawBatch withdraws the verdicts of a reviewer's batch that are still current, and returns on how many
// questions. It returns db.ErrNotFound if there are none.
func (r Reviews) WithdrawBatch(ctx context.Context, taskID, batch uuid.UUID, reviewer string) (withdrawn int, err error) {
	const (
		retire = `
			UPDATE reviews v
			SET is_current = false
			FROM evaluation_items i
			WHERE i.id = v.item_id AND i.task_id = $1 AND v.batch = $2 AND v.reviewer = $3 AND v.is_current AND NOT v.is_withdrawn
			RETURNING v.id`
		insert = `
			INSERT INTO reviews (item_id, variant, reviewer, verdict, note, version, is_withdrawn)
			SELECT item_id, variant, reviewer, verdict, note, version, true
			FROM reviews
			WHERE id = ANY ($1)
			RETURNING item_id`
	)
	err = r.db.InTx(ctx, "withdraw a batch of reviews", func(tx *sqlx.Tx) error {
		if _, err := lockTask(ctx, tx, taskID); err != nil {
			return err
		}
		var retired pq.Int64Array
		if err := tx.SelectContext(ctx, &retired, retire, taskID, batch, reviewer); err != nil {
			return pg.Classify("keep the reviews' history", err)
		}
		if len(retired) == 0 {
			return db.ErrNotFound
		}
		var changed []int64
		if err := tx.SelectContext(ctx, &changed, insert, retired); err != nil {
			return pg.Classify("withdraw the reviews", err)
		}
		withdrawn = countDistinct(changed)
		return nil
	})
	return withdrawn, err
}

func countDistinct(ids []int64) int {
	seen := make(map[int64]bool, len(ids))
	for _, id := range ids {
		seen[id] = true
	}
	return len(seen)
}
