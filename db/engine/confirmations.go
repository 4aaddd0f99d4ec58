package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Confirmations repeats questions that a comparison shows as changed.
type Confirmations struct{ db *pg.Pool }

// NewConfirmations returns the Confirmations of a store.
func NewConfirmations(store *db.Store) Confirmations { return Confirmations{store.Pool()} }

// ConfirmedSide is one side of a comparison.
type ConfirmedSide struct {
	TaskID  uuid.UUID
	Variant int
	// Items are the questions, in the same order on both sides.
	Items []int64
	// IsAsked reports that the questions are repeated on this side; otherwise their first runs_per_item runs are compared.
	IsAsked bool
}

// Confirmation repeats some questions of a comparison, to find out whether their changes are real.
type Confirmation struct {
	A, B ConfirmedSide
	// Runs is the number of additional runs that each question gets on each repeated side.
	Runs int
	// Launches holds the launches to start, keyed by task.
	Launches map[uuid.UUID]db.NewLaunch
}

// firstRuns returns the questions $2 of a task, each with the number of its runs to compare.
const firstRuns = `
	SELECT i.id, t.runs_per_item AS runs
	FROM evaluation_items i
	JOIN evaluation_tasks t ON t.id = i.task_id
	WHERE i.task_id = $1 AND i.id = ANY ($2)`

// conversationsOf returns the questions $2 of a task and all other turns of their conversations, with the number of
// runs planned for each in variant $3.
const conversationsOf = `
	SELECT DISTINCT turn.id, greatest(t.runs_per_item, p.runs) AS runs
	FROM evaluation_items i
	JOIN evaluation_tasks t ON t.id = i.task_id
	JOIN evaluation_items turn ON turn.task_id = i.task_id AND (turn.id = i.id OR turn.series = i.series)
	LEFT JOIN planned_runs p ON p.item_id = turn.id AND p.variant = $3
	WHERE i.task_id = $1 AND i.id = ANY ($2)`

const planMore = `
	WITH planned AS (
		INSERT INTO planned_runs (item_id, variant, runs)
		SELECT id, $3, runs + $4
		FROM (` + conversationsOf + `) known
		ON CONFLICT (item_id, variant) DO UPDATE SET runs = excluded.runs
		RETURNING item_id)
	UPDATE evaluation_tasks
	SET extra_runs = extra_runs + $4 * (SELECT count(*) FROM planned), updated_at = now()
	WHERE id = $1`

const storeConfirmations = `
	INSERT INTO confirmations (a_item_id, a_variant, b_item_id, b_variant, a_first, a_last, b_first, b_last)
	SELECT a_item_id, $1, b_item_id, $2, a_first, a_last, b_first, b_last
	FROM unnest($3::bigint[], $4::bigint[], $5::int[], $6::int[], $7::int[], $8::int[]) AS given (a_item_id, b_item_id,
	a_first, a_last, b_first, b_last)
	ORDER BY a_item_id
	ON CONFLICT (a_item_id, a_variant, b_item_id, b_variant) DO UPDATE
	SET a_first = excluded.a_first, a_last = excluded.a_last, b_first = excluded.b_first, b_last = excluded.b_last,
	created_at = now()`

// Confirm plans the runs of a confirmation and starts them. It returns the ids of the launches, keyed by task.
// db.ErrConflict means that a task to be repeated has not succeeded, a *db.RunsLeftError that a question would have
// more runs than allowed, and db.ErrNotFound that there is no such task.
func (f Confirmations) Confirm(ctx context.Context, scope db.Scope,
	c Confirmation) (launches map[uuid.UUID]uuid.UUID, err error) {
	launches = map[uuid.UUID]uuid.UUID{}
	err = f.db.InTx(ctx, "confirm a comparison", func(tx *sqlx.Tx) error {
		asked := make([]uuid.UUID, 0, len(c.Launches))
		for id := range c.Launches {
			asked = append(asked, id)
		}
		// Locking in a fixed order prevents two requests from deadlocking.
		slices.SortFunc(asked, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
		for _, id := range asked {
			task, err := db.LockTask(ctx, tx, scope, id)
			if err != nil {
				return err
			}
			if task.Status != db.TaskSucceeded {
				return fmt.Errorf("confirm a change in a task that is %s: %w", task.Status, db.ErrConflict)
			}
		}
		var firsts, lasts [2]pq.Int64Array
		for n, side := range []ConfirmedSide{c.A, c.B} {
			if firsts[n], lasts[n], err = planConfirmed(ctx, tx, side, c.Runs); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, storeConfirmations, c.A.Variant, c.B.Variant, pq.Int64Array(c.A.Items),
			pq.Int64Array(c.B.Items),
			firsts[0], lasts[0], firsts[1], lasts[1])
		if err != nil {
			return pg.Classify("store the confirmations", err)
		}
		for _, id := range asked {
			if launches[id], err = db.Extend(ctx, tx, id, c.Launches[id]); err != nil {
				return err
			}
		}
		return nil
	})
	return launches, err
}

// planConfirmed plans the additional runs of one side. It returns, for each of its questions, the indexes of the first
// and the last run to compare.
func planConfirmed(ctx context.Context, tx *sqlx.Tx, side ConfirmedSide,
	runs int) (firsts, lasts pq.Int64Array, err error) {
	var known []struct {
		ID   int64 `db:"id"`
		Runs int   `db:"runs"`
	}
	items := pq.Int64Array(side.Items)
	if side.IsAsked {
		err = tx.SelectContext(ctx, &known, conversationsOf, side.TaskID, items, side.Variant)
	} else {
		err = tx.SelectContext(ctx, &known, firstRuns, side.TaskID, items)
	}
	if err != nil {
		return nil, nil, pg.Classify("read the runs of the questions", err)
	}
	byItem, left := map[int64]int{}, db.MaxRuns
	for _, one := range known {
		byItem[one.ID], left = one.Runs, min(left, db.MaxRuns-one.Runs)
	}
	if side.IsAsked && left < runs {
		return nil, nil, &db.RunsLeftError{Left: left}
	}
	for _, item := range side.Items {
		before, isKnown := byItem[item]
		if !isKnown { // the question was deleted since it was compared
			return nil, nil, errors.Join(db.ErrConflict, &db.NotFoundError{Kind: db.KindQuestion})
		}
		first, last := 1, before
		if side.IsAsked {
			first, last = before+1, before+runs
		}
		firsts, lasts = append(firsts, int64(first)), append(lasts, int64(last))
	}
	if side.IsAsked {
		_, err = tx.ExecContext(ctx, planMore, side.TaskID, items, side.Variant, runs)
	}
	return firsts, lasts, pg.Classify("plan the runs of the questions", err)
}
