package engine

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Additions adds questions to tasks that were started.
type Additions struct{ db *pg.Pool }

// NewAdditions returns the Additions of a store.
func NewAdditions(store *db.Store) Additions { return Additions{store.Pool()} }

// AdditionLimits bound a task's size after an addition: the number of its items, and the bytes of their texts.
type AdditionLimits struct{ Items, Bytes int }

// AdditionLimitError means that a task, which has Items items so far, would get more items than allowed or, if
// IsTooLong is set, more text than allowed.
type AdditionLimitError struct {
	Items     int
	IsTooLong bool
}

func (e *AdditionLimitError) Error() string {
	return fmt.Sprintf("a task of %d questions has no room for these", e.Items)
}

// KnownItemsError lists the ids and conversations that the task already has.
type KnownItemsError struct{ QuestionIDs, Series []string }

func (e *KnownItemsError) Error() string {
	return fmt.Sprintf("%d questions and %d conversations are there already", len(e.QuestionIDs), len(e.Series))
}

// Append adds items to a task that was started. The active launch runs them; if there is none, Append starts n, which
// covers every planned run that does not exist yet. Append returns the launch that runs the items. db.ErrConflict means
// that the task is a draft, that a launch has just begun or is being stopped, or that the launch runs only some of the
// questions, or none.
func (a Additions) Append(ctx context.Context, scope db.Scope, taskID uuid.UUID, items []db.NewItem,
	limits AdditionLimits, n db.NewLaunch) (launchID uuid.UUID, err error) {
	// The launch is locked before its task, in the same order as when a launch ends.
	const findActive = `
		SELECT id, status, item_id IS NULL AND variant IS NULL AND kind NOT IN ('EVALUATE', 'MEANING')
		AND status <> 'STOPPING' AS takes_more
		FROM launches
		WHERE task_id = $1 AND status IN ('PENDING', 'RUNNING', 'STOPPING')
		FOR UPDATE`
	err = a.db.InTx(ctx, "append questions", func(tx *sqlx.Tx) error {
		var active []struct {
			ID        uuid.UUID       `db:"id"`
			Status    db.LaunchStatus `db:"status"`
			TakesMore bool            `db:"takes_more"`
		}
		if err := tx.SelectContext(ctx, &active, findActive, taskID); err != nil {
			return pg.Classify("lock the launch", err)
		}
		task, err := db.LockTask(ctx, tx, scope, taskID)
		switch {
		case err != nil:
			return err
		case len(active) == 0 && task.Status.IsActive():
			return fmt.Errorf("the task is a draft, or a launch has just begun: %w", db.ErrConflict)
		case len(active) > 0 && !active[0].TakesMore:
			return fmt.Errorf("the active launch accepts no further questions: %w", db.ErrConflict)
		}
		if err := store(ctx, tx, task, items, limits); err != nil {
			return err
		}
		if len(active) == 0 {
			launchID, err = db.Extend(ctx, tx, taskID, n)
			return err
		}
		launchID = active[0].ID
		if active[0].Status == db.LaunchRunning { // a PENDING launch creates its units itself
			if err := pg.PreferIndexes(ctx, tx); err != nil {
				return err
			}
			if _, _, err := db.MakeUnits(ctx, tx, launchID, len(items)); err != nil {
				return err
			}
		}
		return db.Notify(ctx, tx, taskID)
	})
	return launchID, err
}

// store adds items to a task, which the caller has locked. It returns an AdditionLimitError if the task would become
// too large, and a KnownItemsError if it already has some of the items.
func store(ctx context.Context, tx *sqlx.Tx, task db.Task, items []db.NewItem, limits AdditionLimits) error {
	const knownIDs = `SELECT question_id FROM evaluation_items WHERE task_id = $1 AND question_id = ANY ($2)`
	const knownSeries = `SELECT DISTINCT series FROM evaluation_items WHERE task_id = $1 AND series = ANY ($2)`
	const size = `
		SELECT coalesce(sum(octet_length(question_id) + octet_length(question) + octet_length(standard_answer)
			+ coalesce(octet_length(system_prompt), 0) + coalesce(octet_length(user_context), 0)
			+ coalesce(octet_length(CAST(variable_values AS text)), 0)), 0)
		FROM evaluation_items
		WHERE task_id = $1`
	const count = `
		UPDATE evaluation_tasks
		SET total_items = total_items + $2, total_conversations = total_conversations + $3,
		appended_items = appended_items + $2,
			updated_at = now()
		WHERE id = $1`
	if task.TotalItems+len(items) > limits.Items {
		return &AdditionLimitError{Items: task.TotalItems}
	}
	ids, series, conversations := make(pq.StringArray, len(items)), pq.StringArray{}, 0
	for n, item := range items {
		if ids[n] = item.QuestionID; item.Series != "" {
			series = append(series, item.Series)
		}
		if item.Turn == 1 {
			conversations++
		}
	}
	var known KnownItemsError
	if err := tx.SelectContext(ctx, &known.QuestionIDs, knownIDs, task.ID, ids); err != nil {
		return pg.Classify("look for the questions", err)
	}
	if err := tx.SelectContext(ctx, &known.Series, knownSeries, task.ID, series); err != nil {
		return pg.Classify("look for the conversations", err)
	}
	if len(known.QuestionIDs)+len(known.Series) > 0 {
		return &known
	}
	if err := db.InsertItems(ctx, tx, task.ID, items); err != nil {
		return err
	}
	var bytes int
	if err := tx.GetContext(ctx, &bytes, size, task.ID); err != nil {
		return pg.Classify("measure the questions", err)
	}
	if bytes > limits.Bytes {
		return &AdditionLimitError{Items: task.TotalItems, IsTooLong: true}
	}
	result, err := tx.ExecContext(ctx, count, task.ID, len(items), conversations)
	return pg.RequireRow("count the questions", result, err)
}

// Items returns all items of a task, in the order in which they were added.
func (a Additions) Items(ctx context.Context, taskID uuid.UUID) (items []db.Item, err error) {
	const read = `SELECT ` + db.ItemColumns + ` FROM evaluation_items i WHERE i.task_id = $1 ORDER BY i.id`
	err = a.db.SelectContext(ctx, &items, read, taskID)
	return items, pg.Classify("read the questions", err)
}
