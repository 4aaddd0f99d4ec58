package review

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Batch is a set of verdicts that were given together, or taken over together from an earlier task.
type Batch struct {
	ID uuid.UUID `db:"batch"`
	// Reviewer is the name of the person who gave the verdicts or took them over.
	Reviewer string `db:"reviewer"`
	// Questions is the number of questions on which a verdict of the batch is still current.
	Questions int       `db:"questions"`
	CreatedAt time.Time `db:"created_at"`
}

// Batches returns the batches of a task that still have a current verdict, newest first: if areCarried is true, those
// taken over from earlier tasks, otherwise those given in the task itself.
func (r Reviews) Batches(ctx context.Context, taskID uuid.UUID, areCarried bool) (batches []Batch, err error) {
	const list = `
		SELECT v.batch, coalesce(v.carried_by, v.reviewer) AS reviewer, count(DISTINCT v.item_id) AS questions,
		max(v.created_at) AS created_at
		FROM reviews v
		JOIN evaluation_items i ON i.id = v.item_id
		WHERE i.task_id = $1 AND v.batch IS NOT NULL AND (v.carried_by IS NOT NULL) = $2 AND v.is_current
		AND NOT v.is_withdrawn
		GROUP BY v.batch, coalesce(v.carried_by, v.reviewer)
		ORDER BY max(v.created_at) DESC, v.batch`
	err = r.db.SelectContext(ctx, &batches, list, taskID, areCarried)
	return batches, pg.Classify("list the batches of reviews", err)
}

// lockTask ensures that only one batch of a task is given or withdrawn at a time, and returns how many variants it
// has.
func lockTask(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID) (variants int, err error) {
	err = tx.GetContext(ctx, &variants, `SELECT total_variants FROM evaluation_tasks
		WHERE id = $1 FOR NO KEY UPDATE`, taskID)
	if pg.IsNoRows(err) {
		return 0, &db.NotFoundError{Kind: db.KindTask}
	}
	return variants, pg.Classify("lock the task", err)
}

// PassAll passes questions of a task for all its variants, as one batch. Verdicts given by the reviewer in the
// meantime stay. It returns how many questions were passed.
func (r Reviews) PassAll(ctx context.Context, taskID uuid.UUID, reviewer string,
	items []int64) (passed int, err error) {
	const (
		lock = `SELECT id FROM evaluation_items WHERE task_id = $1 AND id = ANY ($2) ORDER BY id FOR NO KEY UPDATE`
		// The next verdict continues the version numbers of a withdrawn review.
		retire = `
			UPDATE reviews
			SET is_current = false
			WHERE item_id = ANY ($1) AND reviewer = $2 AND run_index IS NULL AND is_current AND is_withdrawn`
		insert = `
			INSERT INTO reviews (item_id, variant, reviewer, verdict, note, version, is_withdrawn, judged_run_id, batch)
			SELECT i.id, v.variant, $2, 'PASS', '', 1 + coalesce((
					SELECT max(before.version)
					FROM reviews before
					WHERE before.item_id = i.id AND before.variant = v.variant AND before.run_index IS NULL AND before.reviewer = $2),
					0),
				false, ` + judged + `, $3
			FROM evaluation_items i
			CROSS JOIN (SELECT variant, CAST(NULL AS int) AS run_index FROM generate_series(1, $4::int) AS own (variant)) v
			WHERE i.id = ANY ($1) AND NOT EXISTS (
				SELECT FROM reviews now
				WHERE now.item_id = i.id AND now.variant = v.variant AND now.run_index IS NULL AND now.reviewer = $2
				AND now.is_current)
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
			return pg.Classify("store the reviews' history", err)
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

// WithdrawBatch withdraws the verdicts of a reviewer's batch that are still current, and returns the number of
// questions concerned. It returns db.ErrNotFound if there are none.
func (r Reviews) WithdrawBatch(ctx context.Context, taskID, batch uuid.UUID,
	reviewer string) (withdrawn int, err error) {
	const (
		retire = `
			UPDATE reviews v
			SET is_current = false
			FROM evaluation_items i
			WHERE i.id = v.item_id AND i.task_id = $1 AND v.batch = $2 AND coalesce(v.carried_by, v.reviewer) = $3
			AND v.is_current AND NOT v.is_withdrawn
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
			return pg.Classify("store the reviews' history", err)
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

// CarriedPair is a question of an earlier task, and the same question of a later one.
type CarriedPair struct{ From, To int64 }

// Carried selects verdicts to take over from a variant of an earlier task.
type Carried struct {
	// TaskID is the later task, and Variant is its variant.
	TaskID  uuid.UUID
	Variant int
	// From is the earlier task, and FromVariant is its variant.
	From        uuid.UUID
	FromVariant int
	// Pairs are the questions' items in both tasks.
	Pairs []CarriedPair
	// By is the name of the person who takes them over.
	By string
}

const (
	// Verdicts to take over: current ones, on answers that have not been replaced since, of questions without a
	// verdict in the later task.
	findCarried = `
		WITH found AS (
			SELECT w.to_item AS item_id, v.reviewer, v.verdict, v.reasons, v.note, v.ratings
			FROM unnest($1::bigint[], $2::bigint[]) w (from_item, to_item)
			JOIN evaluation_items i ON i.id = w.from_item AND i.task_id = $3
			JOIN reviews v ON v.item_id = i.id AND v.variant = $4 AND v.run_index IS NULL AND v.is_current AND NOT v.is_withdrawn
			WHERE v.judged_run_id IS NOT DISTINCT FROM ` + judged + `
			  AND NOT EXISTS (
				SELECT FROM reviews now
				WHERE now.item_id = w.to_item AND now.variant = $5 AND now.run_index IS NULL AND now.is_current
				AND NOT now.is_withdrawn)),
		-- The next verdict continues the version numbers of a withdrawn one.
		retired AS (
			UPDATE reviews v
			SET is_current = false
			FROM found f
			WHERE v.item_id = f.item_id AND v.reviewer = f.reviewer AND v.variant = $5 AND v.run_index IS NULL AND v.is_current
			RETURNING v.item_id, v.reviewer, v.version)
		SELECT f.item_id, f.reviewer, f.verdict, f.reasons, f.note, f.ratings, coalesce(r.version, 0) AS version
		FROM found f
		LEFT JOIN retired r ON r.item_id = f.item_id AND r.reviewer = f.reviewer`
	insertCarried = `
		INSERT INTO reviews (item_id, variant, reviewer, verdict, reasons, note, version, is_withdrawn, judged_run_id, batch,
		carried_by, carried_from, ratings)
		SELECT i.id, v.variant, $3, $4, $5, $6, $7, false, ` + judged + `, $8, $9, $10, CAST($11 AS jsonb)
		FROM evaluation_items i, (SELECT $2::int AS variant, CAST(NULL AS int) AS run_index) v
		WHERE i.id = $1`
)

// Carry copies people's verdicts on questions as a whole to a later task, as one batch; each keeps its reviewer.
// Questions that already have a verdict there are skipped. It returns the batch, with the number of questions whose
// verdicts were taken over.
func (r Reviews) Carry(ctx context.Context, c Carried) (batch Batch, err error) {
	const lock = `SELECT id FROM evaluation_items WHERE task_id = $1 AND id = ANY ($2) ORDER BY id FOR NO KEY UPDATE`
	var from, to pq.Int64Array
	for _, pair := range c.Pairs {
		from, to = append(from, pair.From), append(to, pair.To)
	}
	err = r.db.InTx(ctx, "adopt verdicts", func(tx *sqlx.Tx) error {
		if _, err := lockTask(ctx, tx, c.TaskID); err != nil {
			return err
		}
		var locked pq.Int64Array
		if err := tx.SelectContext(ctx, &locked, lock, c.TaskID, to); err != nil {
			return pg.Classify("lock the questions", err)
		}
		var taken []struct {
			ItemID int64 `db:"item_id"`
			Opinion
			Reviewer string `db:"reviewer"`
			Version  int    `db:"version"`
		}
		if err := tx.SelectContext(ctx, &taken, findCarried, from, to, c.From, c.FromVariant, c.Variant); err != nil {
			return pg.Classify("find the verdicts to adopt", err)
		}
		batch = Batch{ID: uuid.New(), Reviewer: c.By, CreatedAt: time.Now()}
		var changed []int64
		for _, one := range taken {
			if !slices.Contains(locked, one.ItemID) { // not in this task
				continue
			}
			_, err := tx.ExecContext(ctx, insertCarried, one.ItemID, c.Variant, one.Reviewer, one.Verdict, one.reasons(),
				one.Note, one.Version+1, batch.ID, c.By, c.From, one.Ratings)
			if err != nil {
				return pg.Classify("store the adopted verdicts", err)
			}
			changed = append(changed, one.ItemID)
		}
		batch.Questions = countDistinct(changed)
		return nil
	})
	return batch, err
}

func countDistinct(ids []int64) int {
	seen := make(map[int64]bool, len(ids))
	for _, id := range ids {
		seen[id] = true
	}
	return len(seen)
}
