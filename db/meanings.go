package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/meaning"
	"wending/db/pg"
)

// Grouping is the evaluator number of units in which a model groups the answers to a question by meaning.
const Grouping = -1

// Grouper returns the model that groups the task's answers by meaning; nil if there is none.
func (t Task) Grouper() *Target {
	if t.MeaningTarget == nil {
		return nil
	}
	grouper := t.Target(*t.MeaningTarget)
	return &grouper
}

// groupingDue is the condition under which the launch l has to group the answers to an item i of task t; q are the
// statistics of the item in its first variant.
const groupingDue = `q.contents > 1
		  AND (q.newest_run_id, q.runs) = (SELECT max(id), count(*) FROM evaluation_runs WHERE item_id = i.id AND is_current)
		  AND l.kind <> 'EVALUATE'
		  AND NOT EXISTS (
			SELECT
			FROM evaluation_items earlier
			JOIN units u ON u.launch_id = l.id AND u.item_id = earlier.id AND u.evaluator = 0
			AND u.state IN ('QUEUED', 'RUNNING')
			WHERE earlier.id = i.id OR earlier.task_id = i.task_id AND earlier.series = i.series AND earlier.turn < i.turn)
		  AND (l.kind = 'MEANING' OR NOT EXISTS (
			SELECT FROM meanings m WHERE m.item_id = i.id AND m.is_current AND (l.kind <> 'RETRY_FAILED' OR NOT m.is_default) AND ` + meaning.Covers + `))`

// insertGroupingUnits creates units for the items whose answers the launch $1 has to group: those after $2 up to $3,
// and only those in the array $4 unless it is NULL. An item has at most one such unit in a launch.
const insertGroupingUnits = `
	INSERT INTO units (launch_id, item_id, target, run_index, evaluator)
	SELECT l.id, i.id, t.meaning_target, 1, -1
	FROM launches l
	JOIN evaluation_tasks t ON t.id = l.task_id AND t.meaning_target IS NOT NULL
	JOIN evaluation_items i ON i.task_id = t.id AND i.id > $2 AND i.id <= $3 AND (CAST($4 AS bigint[]) IS NULL OR i.id = ANY ($4)) AND ` + inScope + `
	JOIN question_statistics q ON q.item_id = i.id AND q.variant = 1
	WHERE l.id = $1
	  AND ` + groupingDue + `
	ORDER BY i.id
	ON CONFLICT DO NOTHING`

// noItemAfter is greater than the id of every item.
const noItemAfter = 1<<63 - 1

// PlanGroupings creates a unit that groups the answers by meaning for each of the given questions that has all its
// runs, and reports whether it created any. In an adaptive task, answers are grouped once all rounds are over.
// Questions that were missed because a process died are found when the launch is about to end.
func (s *Store) PlanGroupings(ctx context.Context, launchID uuid.UUID, itemIDs []int64) (planned bool, err error) {
	const lock = `
		SELECT l.task_id
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id AND t.adaptive IS NULL
		WHERE l.id = $1 AND l.status = 'RUNNING'
		FOR NO KEY UPDATE OF l`
	err = s.db.InTx(ctx, "plan groupings", func(tx *sqlx.Tx) error {
		var taskID uuid.UUID
		if err := tx.GetContext(ctx, &taskID, lock, launchID); pg.IsNoRows(err) {
			return nil
		} else if err != nil {
			return pg.Classify("lock the launch", err)
		}
		planned, err = planGroupingsOf(ctx, tx, launchID, itemIDs)
		return err
	})
	return planned, err
}

// planGroupingsOf creates the units for the groupings that are due among the items, where nil means all, in a launch
// that the caller has locked.
func planGroupingsOf(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID, itemIDs []int64) (planned bool, err error) {
	const note = `UPDATE launches SET total_units = total_units + $2 WHERE id = $1`
	if err := pg.PreferIndexes(ctx, tx); err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, insertGroupingUnits, launchID, 0, int64(noItemAfter), pq.Int64Array(itemIDs))
	made, err := pg.Affected("create the units of groupings", result, err)
	if err != nil || made == 0 {
		return false, err
	}
	_, err = tx.ExecContext(ctx, note, launchID, made)
	return true, pg.Classify("record the created units", err)
}

// planLastGroupings plans the groupings that are due in a launch without open units, which the caller has locked. It
// returns an UnassessedError if questions are left to assess, because their answers may need grouping, too.
func planLastGroupings(ctx context.Context, tx *sqlx.Tx, launchID, taskID uuid.UUID) (planned bool, err error) {
	const isOver = `
		SELECT t.meaning_target IS NOT NULL AND l.kind <> 'EVALUATE'
			AND NOT EXISTS (SELECT FROM units u WHERE u.launch_id = l.id AND u.state IN ('QUEUED', 'RUNNING'))
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		WHERE l.id = $1`
	var mayPlan bool
	if err := tx.GetContext(ctx, &mayPlan, isOver, launchID); err != nil || !mayPlan {
		return false, pg.Classify("check whether the launch is over", err)
	}
	unassessed, err := findUnassessedItems(ctx, tx, taskID, 1)
	if err != nil {
		return false, err
	}
	if len(unassessed) > 0 {
		return false, &UnassessedError{taskID}
	}
	if planned, err = planGroupingsOf(ctx, tx, launchID, nil); err != nil || !planned {
		return false, err
	}
	return true, Notify(ctx, tx, taskID)
}

// GroupTask has a model group the answers of a task by meaning, without calling the task's agents; the model replaces
// any previous one. It returns ErrConflict if the task is active or was never started.
func (s *Store) GroupTask(ctx context.Context, scope Scope, taskID uuid.UUID, grouper Target,
	n NewLaunch) (launchID uuid.UUID, err error) {
	const choose = `UPDATE evaluation_tasks SET meaning_target = $2 WHERE id = $1`
	err = s.db.InTx(ctx, "group the task's answers", func(tx *sqlx.Tx) error {
		task, err := LockTask(ctx, tx, scope, taskID)
		if err != nil {
			return err
		}
		if task.Status.IsActive() {
			return fmt.Errorf("group the answers of a task that is %s: %w", task.Status, ErrConflict)
		}
		if err := insertTargets(ctx, tx, taskID, []Target{grouper}); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, choose, taskID, grouper.Number); err != nil {
			return pg.Classify("choose the model", err)
		}
		launchID, err = reopen(ctx, tx, newLaunchRow{TaskID: taskID, Kind: LaunchMeaning, NewLaunch: n})
		return err
	})
	return launchID, err
}

// TaskToGroup returns the task of a PENDING launch that only groups answers; uuid.Nil for all other launches.
func (s *Store) TaskToGroup(ctx context.Context, launchID uuid.UUID) (taskID uuid.UUID, err error) {
	const find = `SELECT task_id FROM launches WHERE id = $1 AND kind = 'MEANING' AND status = 'PENDING'`
	err = s.db.GetContext(ctx, &taskID, find, launchID)
	if pg.IsNoRows(err) {
		return uuid.Nil, nil
	}
	return taskID, pg.Classify("read the launch", err)
}
