package review

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/meaning"
	"wending/db/pg"
)

// GroupingConflictError means that the answers, or people's grouping of them, have changed since the author of another
// grouping read them.
type GroupingConflictError struct {
	// Version is the current version of people's grouping; 0 means that there is none.
	Version int
}

func (e *GroupingConflictError) Error() string { return "the grouping has another version" }

// Group stores a person's decision on which of a variant's answers to a question say the same thing. The decision gets
// the version after said.Version, and the statistics of the question and the task are updated. Group returns a
// GroupingConflictError if said.Version is not the current version, or if the variant has answers that said does not
// cover.
func (r Reviews) Group(ctx context.Context, taskID uuid.UUID, itemID int64, said meaning.Correction) (version int,
	err error) {
	const find = `
		SELECT coalesce((SELECT version FROM corrections WHERE item_id = $1 AND variant = $2 AND is_current), 0) AS version,
			NOT EXISTS (
				SELECT
				FROM evaluation_runs
				WHERE item_id = $1 AND variant = $2 AND is_current AND answer_key IS NOT NULL AND answer_key <> ALL ($3)) AS is_whole`
	err = r.db.InTx(ctx, "group answers", func(tx *sqlx.Tx) error {
		if err := meaning.LockItems(ctx, tx, []int64{itemID}); err != nil {
			return err
		}
		var present struct {
			Version int
			IsWhole bool `db:"is_whole"`
		}
		if err := tx.GetContext(ctx, &present, find, itemID, said.Variant, said.Keys); err != nil {
			return pg.Classify("read the current grouping", err)
		}
		if present.Version != said.Version || !present.IsWhole {
			return &GroupingConflictError{present.Version}
		}
		said.Version++
		if err := said.Store(ctx, tx, itemID); err != nil {
			return err
		}
		return regrouped(ctx, tx, taskID, itemID)
	})
	return said.Version, err
}

// regrouped updates the statistics that depend on how an item's answers are grouped.
func regrouped(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, itemID int64) error {
	if err := meaning.Apply(ctx, tx, []int64{itemID}); err != nil {
		return err
	}
	return db.RestateStability(ctx, tx, taskID)
}

// Ungroup withdraws a version of people's grouping of a variant's answers, so that the model's grouping applies again.
// It returns a GroupingConflictError if that version is not the latest one, or was withdrawn before. The next grouping
// gets the version after it.
func (r Reviews) Ungroup(ctx context.Context, taskID uuid.UUID, itemID int64, variant, version int,
	reviewer string) error {
	const withdraw = `
		UPDATE corrections
		SET withdrawn_by = $4
		WHERE item_id = $1 AND variant = $2 AND version = $3 AND is_current AND withdrawn_by IS NULL`
	const find = `
		SELECT coalesce(max(version), 0)
		FROM corrections
		WHERE item_id = $1 AND variant = $2 AND is_current AND withdrawn_by IS NULL`
	return r.db.InTx(ctx, "withdraw a grouping", func(tx *sqlx.Tx) error {
		if err := meaning.LockItems(ctx, tx, []int64{itemID}); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, withdraw, itemID, variant, version, reviewer)
		changed, err := pg.Affected("withdraw a grouping", result, err)
		if err != nil {
			return err
		}
		if changed == 0 {
			conflict := &GroupingConflictError{}
			err := tx.GetContext(ctx, &conflict.Version, find, itemID, variant)
			return cmp.Or(pg.Classify("read the current grouping", err), error(conflict))
		}
		return regrouped(ctx, tx, taskID, itemID)
	})
}

// Reliability returns how far the groupings of a task's model agree with people's.
func (r Reviews) Reliability(ctx context.Context, taskID uuid.UUID) (meaning.Reliability, error) {
	return meaning.Against(ctx, r.db, taskID)
}
