package db

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/outbox"
	"wending/db/pg"
)

// LaunchKind is the reason for a launch.
type LaunchKind string

// The kinds of launches. SUBMIT, RESUME and EXTEND run everything that has no run yet; RETRY_FAILED runs everything
// that did not succeed, and repeats judgements without a rating and questions without a grouping; EVALUATE runs only
// evaluators, MEANING only groups answers by meaning.
const (
	LaunchSubmit   LaunchKind = "SUBMIT"
	LaunchRetry    LaunchKind = "RETRY_FAILED"
	LaunchResume   LaunchKind = "RESUME"
	LaunchExtend   LaunchKind = "EXTEND"
	LaunchEvaluate LaunchKind = "EVALUATE"
	LaunchMeaning  LaunchKind = "MEANING"
)

// LaunchKinds lists all kinds.
var LaunchKinds = []LaunchKind{LaunchSubmit, LaunchRetry, LaunchResume, LaunchExtend, LaunchEvaluate, LaunchMeaning}

// LaunchStatus is the state of a launch: PENDING → RUNNING (→ STOPPING) → SUCCEEDED, STOPPED or FAILED.
type LaunchStatus string

// The states of a launch.
const (
	LaunchPending   LaunchStatus = "PENDING"
	LaunchRunning   LaunchStatus = "RUNNING"
	LaunchStopping  LaunchStatus = "STOPPING"
	LaunchSucceeded LaunchStatus = "SUCCEEDED"
	LaunchStopped   LaunchStatus = "STOPPED"
	LaunchFailed    LaunchStatus = "FAILED"
)

// LaunchStatuses lists all states in the order in which a launch passes through them.
var LaunchStatuses = []LaunchStatus{LaunchPending, LaunchRunning, LaunchStopping, LaunchSucceeded, LaunchStopped,
	LaunchFailed}

// NewLaunch holds the settings of a launch and the actor who requested it.
type NewLaunch struct {
	// Targets are the rate limits of the task's targets.
	Targets []LaunchTarget
	By      Actor
}

// Selection narrows a retry; its zero value selects everything.
type Selection struct {
	// QuestionID is the one question to retry; empty means all.
	QuestionID string
	// Variant is the number of the one variant to retry; 0 means all.
	Variant int
}

// newLaunchRow is a launch to insert.
type newLaunchRow struct {
	TaskID uuid.UUID
	Kind   LaunchKind
	// ItemID is the one question to retry, and Variant the one variant; nil means all.
	ItemID  *int64
	Variant *int
	// Evaluators are the numbers of the evaluators that an EVALUATE launch runs.
	Evaluators []int
	NewLaunch
}

func insertLaunch(ctx context.Context, tx *sqlx.Tx, n newLaunchRow) (uuid.UUID, error) {
	const insert = `
		INSERT INTO launches (id, task_id, number, kind, item_id, variant, evaluators, concurrency, requested_by,
		requested_via)
		SELECT CAST(:id AS uuid), t.id, (SELECT count(*) + 1 FROM launches WHERE task_id = t.id), :kind,
		CAST(:item AS bigint),
			CAST(:variant AS smallint), CAST(:evaluators AS smallint[]), t.concurrency, :by, :via
		FROM evaluation_tasks t
		WHERE t.id = :task`
	const insertTargets = `
		INSERT INTO launch_targets (launch_id, number, origin, call_interval)
		SELECT $1, number, origin, call_interval
		FROM unnest($2::int[], $3::text[], $4::bigint[]) AS given (number, origin, call_interval)`
	id := uuid.New()
	_, err := pg.ExecNamed(ctx, tx, insert, map[string]any{
		"id": id, "task": n.TaskID, "kind": n.Kind, "item": n.ItemID, "variant": n.Variant,
		"evaluators": pq.Array(n.Evaluators), "by": n.By.Who(), "via": n.By.Via,
	})
	if err != nil {
		return id, pg.Classify("store the launch", err)
	}
	numbers, origins, intervals := make(pq.Int64Array, len(n.Targets)), make(pq.StringArray, len(n.Targets)),
		make(pq.Int64Array, len(n.Targets))
	for place, target := range n.Targets {
		numbers[place], origins[place], intervals[place] = int64(target.Number), target.Origin,
			target.CallInterval.Microseconds()
	}
	if _, err = tx.ExecContext(ctx, insertTargets, id, numbers, origins, intervals); err != nil {
		return id, pg.Classify("store the launch's targets", err)
	}
	return id, outbox.MarkPushing(ctx, tx, id)
}

// RunsLeft returns how many calls, including those to judges and for groupings, a launch of the given kind would make
// now, or 0 if the task's state does not allow it or nothing is left. Pages, API and store share this rule. statistics
// must belong to the task.
func (t Task) RunsLeft(kind LaunchKind, statistics TaskStatistics) int {
	if !t.allows(kind) {
		return 0
	}
	left := t.TotalRuns() - statistics.Runs + statistics.JudgeMissing + statistics.MeaningMissing
	switch {
	case kind == LaunchRetry:
		left += statistics.Failed + statistics.TimedOut + statistics.JudgeErrors + statistics.MeaningErrors
	case kind == LaunchResume && t.Adaptive != nil && left == 0:
		left = 1 // further rounds may be due, but only the launch plans them
	}
	return left
}

// allows reports whether the task's state alone allows a launch of the given kind.
func (t Task) allows(kind LaunchKind) bool {
	if !t.AsksAgents() {
		return false
	}
	switch kind {
	case LaunchSubmit:
		return t.IsDraft()
	case LaunchResume:
		return t.Status == TaskStopped || t.Status == TaskFailed
	}
	return !t.Status.IsActive()
}

// countLeft counts the runs that did not succeed, the answers that judges did not rate and the questions whose answers
// were not grouped. It is limited to question $2 and variant $3, where NULL means all.
const countLeft = `
	SELECT t.runs_per_item
			* CASE WHEN $2::bigint IS NULL THEN t.total_items ELSE 1 END
			* CASE WHEN $3::int IS NULL THEN t.total_variants ELSE 1 END
		+ (SELECT coalesce(sum(p.runs - t.runs_per_item), 0)
			FROM planned_runs p
			JOIN evaluation_items i ON i.id = p.item_id AND i.task_id = t.id
			WHERE p.runs > t.runs_per_item AND ($2::bigint IS NULL OR p.item_id = $2) AND ($3::int IS NULL OR p.variant = $3))
		- (SELECT count(*)
			FROM evaluation_runs r
			WHERE r.task_id = t.id AND r.is_current AND r.status = 'SUCCEEDED'
			  AND ($2::bigint IS NULL OR r.item_id = $2) AND ($3::int IS NULL OR r.variant = $3))
		+ (SELECT count(*)
			FROM task_evaluators e
			JOIN evaluation_runs r ON r.task_id = e.task_id AND r.is_current AND r.status = 'SUCCEEDED'
				AND ($2::bigint IS NULL OR r.item_id = $2) AND ($3::int IS NULL OR r.variant = $3)
			LEFT JOIN evaluations v ON v.run_id = r.id AND v.evaluator = e.number
			WHERE e.task_id = t.id AND e.target IS NOT NULL AND (v.run_id IS NULL OR v.status = 'FAILED' OR v.is_default))
		+ (SELECT count(*)
			FROM evaluation_items i
			JOIN question_statistics q ON q.item_id = i.id AND q.variant = 1 AND q.contents > 1 AND q.meaning_by IS NULL
			WHERE i.task_id = t.id AND t.meaning_target IS NOT NULL AND ($2::bigint IS NULL OR i.id = $2))
	FROM evaluation_tasks t
	WHERE t.id = $1`

const reopenTask = `
	UPDATE evaluation_tasks
	SET status = 'RUNNING', started_at = coalesce(started_at, now()), completed_at = NULL, failure_code = NULL,
		statistics = NULL, is_pruned = false, updated_at = now()
	WHERE id = $1`

// Extend starts an EXTEND launch of a task that has ended, within the caller's transaction. The launch runs everything
// that has no run yet.
func Extend(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, n NewLaunch) (uuid.UUID, error) {
	return reopen(ctx, tx, newLaunchRow{TaskID: taskID, Kind: LaunchExtend, NewLaunch: n})
}

// reopen stores a launch of a task that is not active, and sets the task to RUNNING.
func reopen(ctx context.Context, tx *sqlx.Tx, row newLaunchRow) (uuid.UUID, error) {
	id, err := insertLaunch(ctx, tx, row)
	if err != nil {
		return id, err
	}
	if _, err := tx.ExecContext(ctx, reopenTask, row.TaskID); err != nil {
		return id, pg.Classify("reopen the task", err)
	}
	return id, Notify(ctx, tx, row.TaskID)
}

// RequestLaunch starts a draft (SUBMIT), runs everything that has no run yet (RESUME) or retries everything that did
// not succeed (RETRY_FAILED; narrow selects a question or variant). The task is RUNNING from then on. RequestLaunch
// returns ErrConflict if the task's state does not allow it or another request came first, ErrNothingToRun if nothing
// is left for this kind, and ErrNotFound if there is no such task, question or variant.
func (s *Store) RequestLaunch(ctx context.Context, scope Scope, taskID uuid.UUID, kind LaunchKind, narrow Selection,
	n NewLaunch) (launchID uuid.UUID, err error) {
	err = s.db.InTx(ctx, "request the launch", func(tx *sqlx.Tx) error {
		task, err := LockTask(ctx, tx, scope, taskID)
		if err != nil {
			return err
		}
		if !task.allows(kind) {
			return fmt.Errorf("start a %s launch of a task that is %s: %w", kind, task.Status, ErrConflict)
		}
		row := newLaunchRow{TaskID: taskID, Kind: kind, NewLaunch: n}
		if row.ItemID, row.Variant, err = runsToMake(ctx, tx, task, kind, narrow); err != nil {
			return err
		}
		launchID, err = reopen(ctx, tx, row)
		return err
	})
	return launchID, err
}

// raiseAll sets the number of runs of each question of a task; questions that have more keep theirs.
const raiseAll = `
	WITH obsolete AS (
		DELETE FROM planned_runs p
		USING evaluation_items i
		WHERE i.task_id = $1 AND p.item_id = i.id AND p.runs <= $2)
	UPDATE evaluation_tasks
	SET runs_per_item = $2,
		adaptive = jsonb_set(adaptive, '{max_runs}', to_jsonb(greatest(CAST(adaptive ->> 'max_runs' AS int), $2))),
		extra_runs = (
			SELECT coalesce(sum(p.runs - $2), 0)
			FROM planned_runs p
			JOIN evaluation_items i ON i.id = p.item_id
			WHERE i.task_id = $1 AND p.runs > $2)
	WHERE id = $1`

// raiseSome raises the number of runs of the questions $2 of a task, and of the conversations they belong to, in all
// variants, and returns how many runs were added.
const raiseSome = `
	WITH chosen AS (
		SELECT DISTINCT turn.id
		FROM evaluation_items i
		JOIN evaluation_items turn ON turn.task_id = i.task_id AND (turn.id = i.id OR turn.series = i.series)
		WHERE i.task_id = $1 AND i.question_id = ANY ($2)),
	raised AS (
		SELECT chosen.id, v.number, greatest(t.runs_per_item, p.runs) AS before
		FROM chosen
		JOIN evaluation_tasks t ON t.id = $1
		JOIN task_variants v ON v.task_id = t.id
		LEFT JOIN planned_runs p ON p.item_id = chosen.id AND p.variant = v.number
		WHERE greatest(t.runs_per_item, p.runs) < $3),
	planned AS (
		INSERT INTO planned_runs (item_id, variant, runs)
		SELECT id, number, $3
		FROM raised
		ON CONFLICT (item_id, variant) DO UPDATE SET runs = excluded.runs),
	counted AS (
		UPDATE evaluation_tasks
		SET extra_runs = extra_runs + (SELECT coalesce(sum($3 - before), 0) FROM raised)
		WHERE id = $1)
	SELECT coalesce(sum($3 - before), 0) FROM raised`

// ExtendTask raises the number of runs of each question of a task that has ended, or of only the named questions, and
// starts the missing runs. It returns ErrConflict if the task is active or was never started, ErrNothingToRun if the
// questions already have that many runs, and ErrNotFound if the task or one of the questions does not exist.
func (s *Store) ExtendTask(ctx context.Context, scope Scope, taskID uuid.UUID, questionIDs []string, runs int,
	n NewLaunch) (launchID uuid.UUID, err error) {
	err = s.db.InTx(ctx, "extend the task", func(tx *sqlx.Tx) error {
		task, err := LockTask(ctx, tx, scope, taskID)
		if err != nil {
			return err
		}
		if task.Status.IsActive() {
			return fmt.Errorf("extend a task that is %s: %w", task.Status, ErrConflict)
		}
		if runs <= task.RunsPerItem {
			return ErrNothingToRun
		}
		if len(questionIDs) > 0 {
			err = raiseQuestions(ctx, tx, taskID, questionIDs, runs)
		} else {
			_, err = tx.ExecContext(ctx, raiseAll, taskID, runs)
		}
		if err != nil {
			return pg.Classify("raise the number of runs", err)
		}
		launchID, err = Extend(ctx, tx, taskID, n)
		return err
	})
	return launchID, err
}

func raiseQuestions(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, questionIDs []string, runs int) error {
	const count = `SELECT count(*) FROM evaluation_items WHERE task_id = $1 AND question_id = ANY ($2)`
	var known, added int
	questionIDs = slices.Compact(slices.Sorted(slices.Values(questionIDs)))
	if err := tx.GetContext(ctx, &known, count, taskID, pq.StringArray(questionIDs)); err != nil {
		return err
	}
	if known < len(questionIDs) {
		return &NotFoundError{Kind: KindQuestion}
	}
	err := tx.GetContext(ctx, &added, raiseSome, taskID, pq.StringArray(questionIDs), runs)
	if err == nil && added == 0 {
		err = ErrNothingToRun
	}
	return err
}

// EvaluateTask has evaluators judge the answers of a task that has ended, without calling its agents. judges are the
// targets to add to the task: the models that the new judges call. It returns ErrConflict if the task is active or was
// never started.
func (s *Store) EvaluateTask(ctx context.Context, scope Scope, taskID uuid.UUID, evaluators []Evaluator,
	judges []Target, n NewLaunch) (launchID uuid.UUID, err error) {
	err = s.db.InTx(ctx, "evaluate the task", func(tx *sqlx.Tx) error {
		task, err := LockTask(ctx, tx, scope, taskID)
		if err != nil {
			return err
		}
		if task.Status.IsActive() {
			return fmt.Errorf("evaluate a task that is %s: %w", task.Status, ErrConflict)
		}
		if err := insertTargets(ctx, tx, taskID, judges); err != nil {
			return err
		}
		if err := noteVersions(ctx, tx, task, evaluators); err != nil {
			return err
		}
		if err := insertEvaluators(ctx, tx, taskID, evaluators); err != nil {
			return err
		}
		row := newLaunchRow{TaskID: taskID, Kind: LaunchEvaluate, NewLaunch: n}
		for _, evaluator := range evaluators {
			row.Evaluators = append(row.Evaluators, evaluator.Number)
		}
		launchID, err = reopen(ctx, tx, row)
		return err
	})
	return launchID, err
}

// LockTask reads a task and locks it until the caller's transaction ends. It returns ErrNotFound if there is none.
func LockTask(ctx context.Context, tx *sqlx.Tx, scope Scope, id uuid.UUID) (Task, error) {
	var locked uuid.UUID
	lock := `SELECT id FROM evaluation_tasks WHERE id = $1 AND ` + Within("project_id", "$2") + ` FOR UPDATE`
	if err := tx.GetContext(ctx, &locked, lock, id, scope); err != nil {
		return Task{}, NotFound(KindTask, pg.Classify("lock the task", err))
	}
	return readTask(ctx, tx, scope, id)
}

// runsToMake returns the item and the variant that scope selects, where nil means all, or ErrNothingToRun.
func runsToMake(ctx context.Context, tx *sqlx.Tx, task Task, kind LaunchKind,
	scope Selection) (item *int64, variant *int, err error) {
	left := 0
	if scope == (Selection{}) {
		statistics, err := taskStatistics(ctx, tx, task)
		if err != nil {
			return nil, nil, err
		}
		left = task.RunsLeft(kind, statistics)
	} else {
		const find = `SELECT id FROM evaluation_items WHERE task_id = $1 AND question_id = $2`
		if scope.QuestionID != "" {
			if err := tx.GetContext(ctx, &item, find, task.ID, scope.QuestionID); err != nil {
				return nil, nil, NotFound(KindQuestion, pg.Classify("find the question", err))
			}
		}
		if scope.Variant != 0 {
			if scope.Variant < 0 || scope.Variant > task.TotalVariants {
				return nil, nil, &NotFoundError{Kind: KindVariant}
			}
			variant = &scope.Variant
		}
		if err := tx.GetContext(ctx, &left, countLeft, task.ID, item, variant); err != nil {
			return nil, nil, pg.Classify("count the runs that did not succeed", err)
		}
	}
	// A failed task may be resumed even if all its runs exist, because finishing the launch may be all that is left.
	if left == 0 && (kind != LaunchResume || task.Status != TaskFailed) {
		return nil, nil, ErrNothingToRun
	}
	return item, variant, nil
}

// unitsAtOnce is the approximate number of units that one transaction creates.
const unitsAtOnce = 10_000

// findItemsToMake returns the range and the number of a launch's next items, which follow the last item whose units
// have been created.
const findItemsToMake = `
	SELECT (SELECT made_through FROM launches WHERE id = $1) AS before, coalesce(max(id), 0) AS last, count(*) AS count
	FROM (
		SELECT i.id
		FROM launches l
		JOIN evaluation_items i ON i.task_id = l.task_id AND i.id > l.made_through AND ` + inScope + `
		WHERE l.id = $1
		ORDER BY i.id
		LIMIT $2) next`

// insertUnits creates the units that ask agents, for the items that findItemsToMake found. It never repeats a
// successful run of a question outside a conversation; a conversation is asked again from the first turn that has no
// run to keep.
const insertUnits = `
	WITH made AS (
		INSERT INTO units (launch_id, item_id, variant, target, run_index, turns)
		SELECT l.id, i.id, v.number, v.target, n,
			CASE WHEN i.series IS NULL THEN 1 ELSE (
				SELECT count(*) FROM evaluation_items own WHERE own.task_id = i.task_id AND own.series = i.series
				AND own.turn >= i.turn) END
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		JOIN evaluation_items i ON i.task_id = t.id AND i.id > l.made_through AND i.id <= $2 AND ` + inScope + `
		JOIN task_variants v ON v.task_id = t.id AND (l.variant IS NULL OR v.number = l.variant)
		CROSS JOIN LATERAL generate_series(1, ` + PlannedRuns + `) n
		WHERE l.id = $1
		  AND l.kind NOT IN ('EVALUATE', 'MEANING')
		  AND NOT EXISTS (SELECT FROM evaluation_runs r WHERE r.item_id = i.id AND ` + isKept + `)
		  AND (i.series IS NULL OR NOT EXISTS (
			SELECT FROM evaluation_items earlier
			WHERE earlier.task_id = i.task_id AND earlier.series = i.series AND earlier.turn < i.turn
			  AND NOT EXISTS (SELECT FROM evaluation_runs r WHERE r.item_id = earlier.id AND ` + isKept + `)))
		ORDER BY i.id, n, v.number
		RETURNING turns)
	SELECT coalesce(sum(turns), 0) FROM made`

// insertJudgeUnits creates units for the answers that the launch keeps and that judges have to rate: answers without a
// rating or, in an EVALUATE launch, all answers.
const insertJudgeUnits = `
	INSERT INTO units (launch_id, item_id, variant, target, run_index, evaluator, subject_run_id)
	SELECT l.id, r.item_id, r.variant, e.target, r.run_index, e.number, r.id
	FROM launches l
	JOIN evaluation_items i ON i.task_id = l.task_id AND i.id > l.made_through AND i.id <= $2 AND ` + inScope + `
	JOIN evaluation_runs r ON r.item_id = i.id AND r.is_current AND r.status = 'SUCCEEDED'
	AND (l.variant IS NULL OR r.variant = l.variant)
	JOIN task_evaluators e ON e.task_id = l.task_id AND e.target IS NOT NULL
	LEFT JOIN evaluations v ON v.run_id = r.id AND v.evaluator = e.number
	WHERE l.id = $1
	  AND CASE l.kind
			WHEN 'EVALUATE' THEN e.number = ANY (l.evaluators)
			WHEN 'MEANING' THEN false
			WHEN 'RETRY_FAILED' THEN v.run_id IS NULL OR v.status = 'FAILED' OR v.is_default
			ELSE v.run_id IS NULL
		END
	  AND (i.series IS NULL OR NOT EXISTS ( -- no judging of turns that are asked again
			SELECT
			FROM evaluation_items earlier
			JOIN units u ON u.launch_id = l.id AND u.item_id = earlier.id AND u.variant = r.variant AND u.run_index = r.run_index
			AND u.evaluator = 0
			WHERE earlier.task_id = i.task_id AND earlier.series = i.series AND earlier.turn < i.turn))
	ORDER BY r.item_id, r.run_index, r.variant, e.number`

// runLaunch sets a launch to RUNNING and stores how many runs and questions it keeps.
const runLaunch = `
	UPDATE launches l
	SET status = 'RUNNING',
		started_at = now(),
		kept_succeeded = present.succeeded - repeated.succeeded,
		kept_failed = present.failed - repeated.failed,
		kept_items = complete.items
	FROM
		(SELECT count(*) FILTER (WHERE r.status = 'SUCCEEDED') AS succeeded,
		count(*) FILTER (WHERE r.status <> 'SUCCEEDED') AS failed
		FROM evaluation_runs r
		WHERE r.task_id = $2 AND r.is_current) present,
		(SELECT count(*) FILTER (WHERE r.status = 'SUCCEEDED') AS succeeded,
		count(*) FILTER (WHERE r.status <> 'SUCCEEDED') AS failed
		FROM (
			SELECT u.item_id, u.variant, u.run_index FROM units u WHERE u.launch_id = $1 AND u.evaluator = 0
			UNION ALL
			SELECT turn.id, u.variant, u.run_index FROM units u` + TurnsOfUnit + `
			WHERE u.launch_id = $1 AND u.turns > 1 AND turn.id <> u.item_id) u
		JOIN evaluation_runs r ON r.item_id = u.item_id AND r.variant = u.variant AND r.run_index = u.run_index
		AND r.is_current) repeated,
		(SELECT count(*) AS items
		FROM (
			SELECT i.id AS item_id
			FROM evaluation_runs r
			JOIN evaluation_items i ON i.id = r.item_id
			JOIN evaluation_tasks t ON t.id = i.task_id
			WHERE r.task_id = $2 AND r.is_current
			GROUP BY i.id, t.id
			HAVING count(*) = ` + RunsOfItem + `) whole
		WHERE NOT EXISTS (SELECT FROM units u WHERE u.launch_id = $1 AND u.item_id = whole.item_id AND u.evaluator = 0)
		  AND NOT EXISTS ( -- for a conversation, units that begin at an earlier turn also count
			SELECT
			FROM evaluation_items i
			JOIN evaluation_items earlier ON earlier.task_id = i.task_id AND earlier.series = i.series AND earlier.turn < i.turn
			JOIN units u ON u.launch_id = $1 AND u.item_id = earlier.id AND u.evaluator = 0
			WHERE i.id = whole.item_id)) complete
	WHERE l.id = $1`

const startTask = `
	UPDATE evaluation_tasks
	SET status = 'RUNNING', started_at = coalesce(started_at, now()), updated_at = now()
	WHERE id = $1 AND status IN ('PENDING', 'RUNNING')`

// StartLaunch creates the units of a PENDING launch in steps, and with the last step sets the launch and its task to
// RUNNING. It returns how many calls the units will make. ErrConflict means that the launch is no longer PENDING:
// another process has started it, or it was stopped. Several processes may start it at the same time, and each may
// continue where another stopped.
func (s *Store) StartLaunch(ctx context.Context, id uuid.UUID) (units int, err error) {
	for isStarted := false; !isStarted; {
		err := s.db.InTx(ctx, "start the launch", func(tx *sqlx.Tx) (err error) {
			units, isStarted, err = startLaunch(ctx, tx, id)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return units, nil
}

// startLaunch creates the next units of a launch. isStarted reports that no more were left and the launch now runs.
func startLaunch(ctx context.Context, tx *sqlx.Tx, id uuid.UUID) (units int, isStarted bool, err error) {
	const lock = `
		SELECT l.task_id, greatest(1, $2 / (t.runs_per_item * t.total_variants)) AS items
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		WHERE l.id = $1 AND l.status = 'PENDING'
		FOR UPDATE OF l`
	var launch struct {
		TaskID uuid.UUID `db:"task_id"`
		Items  int       `db:"items"`
	}
	err = tx.GetContext(ctx, &launch, lock, id, unitsAtOnce)
	if pg.IsNoRows(err) {
		return 0, false, ErrConflict
	}
	if err != nil {
		return 0, false, pg.Classify("lock the launch", err)
	}
	if err := pg.PreferIndexes(ctx, tx); err != nil {
		return 0, false, err
	}
	units, found, err := MakeUnits(ctx, tx, id, launch.Items)
	if err != nil {
		return 0, false, err
	}
	if found == launch.Items { // there may be more
		return units, false, Notify(ctx, tx, launch.TaskID)
	}
	if _, err := tx.ExecContext(ctx, runLaunch, id, launch.TaskID); err != nil {
		return 0, false, pg.Classify("set the launch running", err)
	}
	if err := refreshOrigins(ctx, tx, id); err != nil {
		return 0, false, err
	}
	result, err := tx.ExecContext(ctx, startTask, launch.TaskID)
	if err := pg.RequireRow("start the task", result, err); err != nil {
		return 0, false, err
	}
	return units, true, Notify(ctx, tx, launch.TaskID)
}

// MakeUnits creates units for up to limit further items of a launch, within a transaction that has locked the launch.
// It returns how many calls all units created so far will make, and the number of items that it found.
func MakeUnits(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID, limit int) (units, items int, err error) {
	const note = `
		UPDATE launches SET made_through = $2, total_units = total_units + $3 WHERE id = $1 RETURNING total_units`
	var next struct {
		Before, Last int64
		Count        int
	}
	if err := tx.GetContext(ctx, &next, findItemsToMake, launchID, limit); err != nil {
		return 0, 0, pg.Classify("find the next questions", err)
	}
	var made int
	if err := tx.GetContext(ctx, &made, insertUnits, launchID, next.Last); err != nil {
		return 0, 0, pg.Classify("create the units", err)
	}
	result, err := tx.ExecContext(ctx, insertJudgeUnits, launchID, next.Last)
	judged, err := pg.Affected("create the judges' units", result, err)
	if err != nil {
		return 0, 0, err
	}
	result, err = tx.ExecContext(ctx, insertGroupingUnits, launchID, next.Before, next.Last, nil)
	grouped, err := pg.Affected("create the units of groupings", result, err)
	if err != nil {
		return 0, 0, err
	}
	if err := tx.GetContext(ctx, &units, note, launchID, next.Last, made+judged+grouped); err != nil {
		return 0, 0, pg.Classify("record the created units", err)
	}
	return units, next.Count, nil
}

// Call holds what a lane needs to call a launch's targets.
type Call struct {
	LaunchID uuid.UUID
	TaskID   uuid.UUID
	// Task holds the task's settings, targets and variants, which do not change during a launch, but not its counts.
	Task Task
	// Origins maps the numbers of the targets to their origins, the keys of the rate limits.
	Origins map[int]string
}

// LaunchCall returns what a lane needs to run the units of a launch, or ErrNotFound. It reads only stored columns of
// the task and counts nothing, because every lane calls it when it starts.
func (s *Store) LaunchCall(ctx context.Context, id uuid.UUID) (Call, error) {
	const query = `
		SELECT ` + taskColumns + `, t.updated_at
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		WHERE l.id = $1`
	const limits = `SELECT number, origin FROM launch_targets WHERE launch_id = $1`
	call := Call{LaunchID: id, Origins: map[int]string{}}
	if err := s.db.GetContext(ctx, &call.Task, query, id); err != nil {
		return Call{}, NotFound(KindLaunch, pg.Classify("read the launch", err))
	}
	call.TaskID = call.Task.ID
	var targets []LaunchTarget
	err := s.db.SelectContext(ctx, &targets, limits, id)
	if err != nil {
		return Call{}, pg.Classify("read the launch's targets", err)
	}
	for _, target := range targets {
		call.Origins[target.Number] = target.Origin
	}
	return call, readTargets(ctx, s.db, map[uuid.UUID]*Task{call.TaskID: &call.Task})
}

// StopFor is how long calls in flight may continue after a stop before they are cut off.
const StopFor = 30 * time.Second

// taskWithin returns an SQL condition: the task $1 is within the scope bound to parameter, such as $2.
func taskWithin(parameter string) string {
	return `EXISTS (SELECT FROM evaluation_tasks WHERE id = $1 AND ` + Within("project_id", parameter) + `)`
}

// StopTask stops a task's launch, so that no further unit is claimed. Calls in flight may finish for up to StopFor.
// It returns the launch, which FinishLaunch ends once none of its units is running, or ErrConflict if the task is not
// running.
func (s *Store) StopTask(ctx context.Context, scope Scope, taskID uuid.UUID, by Actor) (launchID uuid.UUID, err error) {
	stop := `
		UPDATE launches
		SET status = 'STOPPING', stop_requested_at = now(), stopped_by = $2
		WHERE task_id = $1 AND status IN ('PENDING', 'RUNNING') AND ` + taskWithin("$3") + `
		RETURNING id`
	stopping := `SELECT id FROM launches WHERE task_id = $1 AND status = 'STOPPING' AND ` + taskWithin("$2")
	err = s.db.InTx(ctx, "stop the task", func(tx *sqlx.Tx) error {
		err := tx.GetContext(ctx, &launchID, stop, taskID, by.Who(), scope)
		if pg.IsNoRows(err) { // stopping a task that is already stopping succeeds
			if err = tx.GetContext(ctx, &launchID, stopping, taskID, scope); pg.IsNoRows(err) {
				return ErrConflict
			}
			return pg.Classify("find the launch", err)
		}
		if err != nil {
			return pg.Classify("stop the launch", err)
		}
		return afterStop(ctx, tx, map[uuid.UUID]uuid.UUID{launchID: taskID})
	})
	return launchID, err
}

// StopLaunches stops launches that have reached a ceiling; reasons maps each launch to the code of its ceiling. It
// returns those that were not being stopped already. FinishLaunch ends them once none of their units is running.
func StopLaunches(ctx context.Context, tx *sqlx.Tx, reasons map[uuid.UUID]string) (stopped []uuid.UUID, err error) {
	const lock = `
		SELECT id, task_id
		FROM launches
		WHERE id = ANY (CAST($1 AS uuid[])) AND status IN ('PENDING', 'RUNNING')
		ORDER BY id
		FOR NO KEY UPDATE`
	const stop = `UPDATE launches SET status = 'STOPPING', stop_requested_at = now(), stopped_by = '', stop_reason = $2
		WHERE id = $1`
	var found []struct {
		ID     uuid.UUID `db:"id"`
		TaskID uuid.UUID `db:"task_id"`
	}
	if err := tx.SelectContext(ctx, &found, lock, pq.Array(slices.Collect(maps.Keys(reasons)))); err != nil {
		return nil, pg.Classify("lock the launches", err)
	}
	tasks := map[uuid.UUID]uuid.UUID{}
	for _, one := range found {
		if _, err := tx.ExecContext(ctx, stop, one.ID, reasons[one.ID]); err != nil {
			return nil, pg.Classify("stop the launch", err)
		}
		tasks[one.ID] = one.TaskID
		stopped = append(stopped, one.ID)
	}
	if len(stopped) == 0 {
		return nil, nil
	}
	return stopped, afterStop(ctx, tx, tasks)
}

// afterStop stops the unclaimed units of launches, and announces the stop; tasks maps each launch to its task. All
// origins are locked in one statement, in the order in which claims lock them.
func afterStop(ctx context.Context, tx *sqlx.Tx, tasks map[uuid.UUID]uuid.UUID) error {
	launches := slices.Collect(maps.Keys(tasks))
	if err := stopQueued(ctx, tx, launches...); err != nil {
		return err
	}
	if err := refreshOrigins(ctx, tx, launches...); err != nil {
		return err
	}
	for _, taskID := range tasks {
		if err := Notify(ctx, tx, taskID); err != nil {
			return err
		}
	}
	return nil
}

// stopQueued stops the unclaimed units of launches.
func stopQueued(ctx context.Context, tx *sqlx.Tx, launchIDs ...uuid.UUID) error {
	const stop = `UPDATE units SET state = 'STOPPED', epoch = epoch + 1 WHERE launch_id = ANY (CAST($1 AS uuid[]))
		AND state = 'QUEUED'`
	_, err := tx.ExecContext(ctx, stop, pq.Array(launchIDs))
	return pg.Classify("stop the queued units", err)
}

// CutStopped stops units that are still running well after their launch was stopped, although their worker should have
// cut the calls off itself. Results that arrive later are rejected.
func (s *Store) CutStopped(ctx context.Context) error {
	const cut = `
		UPDATE units u
		SET state = 'STOPPED', epoch = epoch + 1, worker_id = NULL
		FROM launches l
		WHERE l.status = 'STOPPING'
		  AND l.stop_requested_at < now() - $1 * interval '1 second'
		  AND u.launch_id = l.id
		  AND u.state = 'RUNNING'`
	_, err := s.db.ExecContext(ctx, cut, (StopFor + 5*time.Second).Seconds())
	return pg.Classify("cancel stopped units", err)
}

const lockWorkingLaunch = `
	SELECT status, task_id
	FROM launches
	WHERE id = $1 AND status IN ('RUNNING', 'STOPPING')
	FOR UPDATE`

const electFinisher = `
	UPDATE launches l
	SET finished_at = now(), status = CASE WHEN l.status = 'STOPPING' THEN 'STOPPED' ELSE 'SUCCEEDED' END
	WHERE l.id = $1
	  AND l.status IN ('RUNNING', 'STOPPING')
	  AND NOT EXISTS (SELECT FROM units u WHERE u.launch_id = l.id AND u.state IN ('QUEUED', 'RUNNING'))
	RETURNING 1`

const closeTask = `
	UPDATE evaluation_tasks t
	SET completed_at = now(), updated_at = now(), is_assessed = true,
		status = CASE
			WHEN $2 OR ` + RunsOfTask + ` > (SELECT count(*) FROM evaluation_runs WHERE task_id = $1 AND is_current)
			THEN 'STOPPED'
			ELSE 'SUCCEEDED'
		END
	WHERE t.id = $1 AND t.status IN ('PENDING', 'RUNNING')`

// FinishLaunch ends a launch that has nothing left to run. It stores the statistics and sets the task to SUCCEEDED, or
// to STOPPED if the launch was stopped or runs of an earlier launch are still missing. Exactly one caller gets true.
// Call FinishLaunch only after the last result is committed. It returns an UnassessedError while there are questions
// left to assess.
func (s *Store) FinishLaunch(ctx context.Context, id uuid.UUID) (finished bool, err error) {
	err = s.db.InTx(ctx, "finish the launch", func(tx *sqlx.Tx) error {
		var launch struct {
			Status LaunchStatus `db:"status"`
			TaskID uuid.UUID    `db:"task_id"`
		}
		err := tx.GetContext(ctx, &launch, lockWorkingLaunch, id)
		if pg.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return pg.Classify("lock the launch", err)
		}
		if launch.Status == LaunchStopping { // a dead worker's units may have returned to the queue in the meantime
			if err := stopQueued(ctx, tx, id); err != nil {
				return err
			}
		}
		if launch.Status == LaunchRunning {
			isPlanned, isOverQuota, err := planLast(ctx, tx, id, launch.TaskID)
			if err != nil || isPlanned {
				return err
			}
			if isOverQuota {
				launch.Status = LaunchStopping
			}
		}
		var elected int
		err = tx.GetContext(ctx, &elected, electFinisher, id)
		if pg.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return pg.Classify("finish the launch", err)
		}
		unassessed, err := findUnassessedItems(ctx, tx, launch.TaskID, 1)
		if err != nil {
			return err
		}
		if len(unassessed) > 0 {
			return &UnassessedError{launch.TaskID}
		}
		result, err := tx.ExecContext(ctx, closeTask, launch.TaskID, launch.Status == LaunchStopping)
		if err := pg.RequireRow("close the task", result, err); err != nil {
			return err
		}
		if err := StoreStatistics(ctx, tx, id, launch.TaskID); err != nil {
			return err
		}
		if err := outbox.Ended(ctx, tx, id); err != nil {
			return err
		}
		// This comes last because it locks the origins, which blocks claims of other tasks.
		if err := refreshOrigins(ctx, tx, id); err != nil {
			return err
		}
		finished = true
		return Notify(ctx, tx, launch.TaskID)
	})
	return finished && err == nil, err
}

// planLast plans the rounds or, if there are none, the groupings that are due once a launch has no open units. The
// caller has locked the launch. isPlanned reports that the launch does not end yet, and isOverQuota that it is being
// stopped because its rounds exceed the project's quota.
func planLast(ctx context.Context, tx *sqlx.Tx, launchID, taskID uuid.UUID) (isPlanned, isOverQuota bool, err error) {
	last, err := planLastRounds(ctx, tx, launchID)
	switch {
	case err != nil:
		return false, false, err
	case last.Made == 0 && last.IsOverQuota:
		return false, true, stopOverQuota(ctx, tx, launchID)
	case last.Made > 0 || last.Refused > 0:
		return true, false, nil
	}
	isPlanned, err = planLastGroupings(ctx, tx, launchID, taskID)
	return isPlanned, false, err
}

// stopOverQuota stops a launch without open units, which the caller has locked, because its project may make no further
// calls today. Once it is resumed, its rounds continue.
func stopOverQuota(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID) error {
	const stop = `UPDATE launches SET status = 'STOPPING', stop_requested_at = now(), stopped_by = '', stop_reason = $2
		WHERE id = $1`
	_, err := tx.ExecContext(ctx, stop, launchID, ReasonQuota)
	return pg.Classify("stop the launch", err)
}

// planLastRounds plans the rounds that are due in a launch of an adaptive task once it has no open units. The caller
// has locked the launch. The launch does not end yet if there are new units, or if the budget must first allow them.
func planLastRounds(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID) (planned rounds, err error) {
	const isOver = `
		SELECT t.adaptive IS NOT NULL AND NOT EXISTS (SELECT FROM units u WHERE u.launch_id = l.id
		AND u.state IN ('QUEUED', 'RUNNING'))
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		WHERE l.id = $1`
	var mayPlan bool
	if err := tx.GetContext(ctx, &mayPlan, isOver, launchID); err != nil || !mayPlan {
		return planned, pg.Classify("check whether the launch is over", err)
	}
	return planRoundsOf(ctx, tx, launchID, nil)
}

// FailLaunch ends a launch and its task because of an internal fault; code is the fault's code. Units that are queued
// or running are stopped; stored results stay. It returns the task, and ErrConflict if the launch had already ended.
func (s *Store) FailLaunch(ctx context.Context, id uuid.UUID, code string) (taskID uuid.UUID, err error) {
	const fail = `
		UPDATE launches
		SET status = 'FAILED', finished_at = now()
		WHERE id = $1 AND status IN ('PENDING', 'RUNNING', 'STOPPING')
		RETURNING task_id`
	const stop = `
		UPDATE units
		SET state = 'STOPPED', epoch = epoch + 1, worker_id = NULL
		WHERE launch_id = $1 AND state IN ('QUEUED', 'RUNNING')`
	const failTask = `
		UPDATE evaluation_tasks
		SET status = 'FAILED', failure_code = $2, completed_at = now(), updated_at = now(), is_assessed = false
		WHERE id = $1 AND status IN ('PENDING', 'RUNNING')`
	err = s.db.InTx(ctx, "fail the launch", func(tx *sqlx.Tx) error {
		err := tx.GetContext(ctx, &taskID, fail, id)
		if pg.IsNoRows(err) {
			return ErrConflict
		}
		if err != nil {
			return pg.Classify("fail the launch", err)
		}
		if _, err := tx.ExecContext(ctx, stop, id); err != nil {
			return pg.Classify("stop the units", err)
		}
		result, err := tx.ExecContext(ctx, failTask, taskID, code)
		if err := pg.RequireRow("fail the task", result, err); err != nil {
			return err
		}
		if err := StoreStatistics(ctx, tx, id, taskID); err != nil {
			return err
		}
		if err := outbox.Ended(ctx, tx, id); err != nil {
			return err
		}
		if err := refreshOrigins(ctx, tx, id); err != nil {
			return err
		}
		return Notify(ctx, tx, taskID)
	})
	return taskID, err
}
