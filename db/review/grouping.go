package review

import (
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

// Group stores a person's decision on which answers of a variant to a question say the same thing, as the version
// after said.Version, and updates the statistics of the question and the task accordingly. It returns a
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
		if err := meaning.Apply(ctx, tx, []int64{itemID}); err != nil {
			return err
		}
		return db.RestateStability(ctx, tx, taskID)
	})
	return said.Version, err
}

// Reliability returns how far the groupings of a task's model agree with those of people.
func (r Reviews) Reliability(ctx context.Context, taskID uuid.UUID) (meaning.Reliability, error) {
	return meaning.Against(ctx, r.db, taskID)
}
