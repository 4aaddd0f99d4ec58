package db

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/measure"
	"wending/db/pg"
)

// MaxRuns is the maximum number of runs of a question.
const MaxRuns = 20

// Adaptive holds the settings of a task that repeats questions, one run per round, until they are settled
// (measure.IsSettled).
type Adaptive struct {
	// MaxRuns is the maximum number of runs of a question.
	MaxRuns    int     `json:"max_runs" minimum:"3" maximum:"20" doc:"Maximum number of runs per question; at least runs_per_item" example:"10"`
	Confidence float64 `json:"confidence" minimum:"0.5" maximum:"0.999" doc:"Probability, 0.5–0.999, with which the most common answer must be the true leader for a question to count as settled" example:"0.95"`
}

// Scan implements sql.Scanner for a JSON column.
func (a *Adaptive) Scan(column any) error {
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("adaptive is stored as %T", column)
	}
	return json.Unmarshal(text, a)
}

// Value implements driver.Valuer.
func (a Adaptive) Value() (driver.Value, error) {
	text, err := json.Marshal(a)
	return string(text), err
}

// Confidence returns the confidence that a question of the task must reach to be settled.
func (t Task) Confidence() float64 {
	if t.Adaptive == nil {
		return measure.DefaultConfidence
	}
	return t.Adaptive.Confidence
}

// Planned holds the number of runs of each question that does not have the task's runs_per_item: more runs or, if the
// answers came from a file, possibly fewer.
type Planned map[PlannedOf]int

// PlannedOf is a question as asked to one variant.
type PlannedOf struct {
	ItemID  int64 `db:"item_id"`
	Variant int   `db:"variant"`
}

// PlannedRuns returns the number of runs of each of the task's questions that does not have its runs_per_item.
func (s *Store) PlannedRuns(ctx context.Context, task Task) (Planned, error) {
	const read = `
		SELECT p.item_id, p.variant, p.runs
		FROM evaluation_items i
		JOIN planned_runs p ON p.item_id = i.id
		WHERE i.task_id = $1`
	if task.ExtraRuns == 0 {
		return nil, nil
	}
	var rows []struct {
		PlannedOf
		Runs int `db:"runs"`
	}
	if err := s.db.SelectContext(ctx, &rows, read, task.ID); err != nil {
		return nil, pg.Classify("read the planned runs", err)
	}
	planned := make(Planned, len(rows))
	for _, row := range rows {
		planned[row.PlannedOf] = row.Runs
	}
	return planned, nil
}

// RunsOf returns how many runs of a question are planned in a variant.
func (t Task) RunsOf(planned Planned, itemID int64, variant int) int {
	if runs, isOther := planned[PlannedOf{itemID, variant}]; isOther {
		return runs
	}
	return t.RunsPerItem
}

// MostRuns returns the highest number of runs that any question of the task has or, in an adaptive task, may get.
func (t Task) MostRuns(planned Planned) int {
	most := t.RunsPerItem
	if t.Adaptive != nil {
		most = max(most, t.Adaptive.MaxRuns)
	}
	for _, runs := range planned {
		most = max(most, runs)
	}
	return most
}

// planRounds plans one more run of each question that has all its runs, is not settled and may be repeated, among the
// questions $2 (NULL means all) in the scope of the launch $1. The decision is made for each variant separately, and
// for a conversation as a whole. $3 is measure.SettledFrom, $4 the maximum number of units to plan, which the budget
// allows, $5 the maximum number of calls, which the project's quota allows; NULL means no limit. A launch waits if its
// budget does not allow a round, but not if the quota forbids it. The launch must be locked: a second call then sees
// that the runs just planned have yet to be made, and plans nothing.
const planRounds = `
	WITH asked AS (
		SELECT DISTINCT coalesce(first.id, i.id) AS item_id
		FROM launches l
		JOIN evaluation_items i ON i.task_id = l.task_id AND (CAST($2 AS bigint[]) IS NULL OR i.id = ANY ($2)) AND ` + inScope + `
		LEFT JOIN evaluation_items first ON first.task_id = i.task_id AND first.series = i.series AND first.turn = 1
		WHERE l.id = $1),
	answered AS (
		SELECT u.item_id AS head, turn.id, v.number AS variant, v.target, planned.runs,
		CAST(t.adaptive ->> 'max_runs' AS int) AS most,
			coalesce(sum(votes.runs), 0) AS recorded,
			coalesce(max(votes.runs) FILTER (WHERE votes.place = 1 AND votes.answer_key IS NOT NULL), 0) AS first,
			coalesce(max(votes.runs) FILTER (WHERE votes.place = 2 AND votes.answer_key IS NOT NULL), 0) AS second,
			EXISTS (
				SELECT FROM units open
				WHERE open.launch_id = $1 AND open.item_id = turn.id AND open.variant = v.number AND open.evaluator = 0
				  AND open.state IN ('QUEUED', 'RUNNING')) AS is_open
		FROM asked u` + TurnsOfUnit + `
		JOIN launches l ON l.id = $1
		JOIN evaluation_tasks t ON t.id = l.task_id
		JOIN task_variants v ON v.task_id = t.id AND (l.variant IS NULL OR v.number = l.variant)
		LEFT JOIN planned_runs p ON p.item_id = turn.id AND p.variant = v.number
		CROSS JOIN LATERAL (SELECT greatest(t.runs_per_item, p.runs) AS runs) planned
		LEFT JOIN LATERAL (
			SELECT r.answer_key, count(*) AS runs, row_number() OVER (PARTITION BY r.answer_key IS NULL
			ORDER BY count(*) DESC) AS place
			FROM evaluation_runs r
			WHERE r.item_id = turn.id AND r.variant = v.number AND r.is_current AND r.run_index <= planned.runs
			GROUP BY r.answer_key) votes ON true
		GROUP BY u.item_id, turn.id, v.number, v.target, planned.runs, t.adaptive),
	due AS (
		SELECT a.head, a.variant, a.target, max(a.runs) AS runs, count(*) AS turns, array_agg(a.id) AS items
		FROM answered a
		GROUP BY a.head, a.variant, a.target
		HAVING bool_and(a.recorded = a.runs) AND max(a.runs) < max(a.most)
		   AND bool_or(a.first < (CAST($3 AS int[]))[a.second + 1]) AND NOT bool_or(a.is_open)),
	ranked AS ( -- a conversation is one unit, with a call for each turn
		SELECT d.*, row_number() OVER (ORDER BY runs, head, variant) AS units,
			sum(turns) OVER (ORDER BY runs, head, variant) AS calls
		FROM due d),
	granted AS (
		SELECT *
		FROM ranked
		WHERE (CAST($4 AS bigint) IS NULL OR units <= $4) AND (CAST($5 AS bigint) IS NULL OR calls <= $5)),
	over_quota AS (
		SELECT EXISTS (
			SELECT FROM ranked WHERE (CAST($4 AS bigint) IS NULL OR units <= $4) AND calls > CAST($5 AS bigint)) AS is_it),
	kept AS ( -- questions of which the launch has repeated no run so far
		SELECT count(DISTINCT i.id) AS items
		FROM granted g
		CROSS JOIN unnest(g.items) AS own (id)
		JOIN evaluation_items i ON i.id = own.id
		JOIN evaluation_tasks t ON t.id = i.task_id
		WHERE (SELECT count(*) FROM evaluation_runs r WHERE r.item_id = i.id AND r.is_current) = ` + RunsOfItem + `
		  AND NOT EXISTS (
			SELECT
			FROM evaluation_items earlier
			JOIN units u ON u.launch_id = $1 AND u.item_id = earlier.id AND u.evaluator = 0
			WHERE earlier.id = i.id OR earlier.task_id = i.task_id AND earlier.series = i.series AND earlier.turn < i.turn)),
	planned AS (
		INSERT INTO planned_runs AS p (item_id, variant, runs)
		SELECT own.id, g.variant, g.runs + 1
		FROM granted g
		CROSS JOIN unnest(g.items) AS own (id)
		ORDER BY own.id, g.variant
		ON CONFLICT (item_id, variant) DO UPDATE SET runs = excluded.runs),
	made AS (
		INSERT INTO units (launch_id, item_id, variant, target, run_index, turns)
		SELECT $1, head, variant, target, runs + 1, turns
		FROM granted
		ORDER BY runs, head, variant),
	counted AS (
		UPDATE evaluation_tasks
		SET extra_runs = extra_runs + (SELECT sum(turns) FROM granted), updated_at = now()
		WHERE id = (SELECT task_id FROM launches WHERE id = $1) AND EXISTS (SELECT FROM granted)),
	noted AS (
		UPDATE launches
		SET total_units = total_units + (SELECT coalesce(sum(turns), 0) FROM granted),
		kept_items = kept_items - (SELECT items FROM kept),
			awaits_budget = NOT (SELECT is_it FROM over_quota)
				AND (SELECT count(*) FROM due) > (SELECT count(*) FROM granted)
		WHERE id = $1 AND (awaits_budget OR EXISTS (SELECT FROM due)))
	SELECT (SELECT count(*) FROM granted) AS made, (SELECT count(*) FROM due) - (SELECT count(*) FROM granted) AS refused,
		(SELECT is_it FROM over_quota) AS is_over_quota`

// CallsToday is an SQL expression for the number of calls made or planned by the launches of the project p that were
// requested today, in Beijing time. It leaves out imported launches.
const CallsToday = `(
	SELECT coalesce(sum(CASE WHEN l.status = 'PENDING' THEN ` + RunsOfTask + ` ELSE l.total_units END), 0)
	FROM launches l
	JOIN evaluation_tasks t ON t.id = l.task_id
	WHERE l.created_at >= date_trunc('day', now(), 'Asia/Shanghai') AND NOT l.is_imported AND t.project_id = p.id)`

// ReasonQuota means that a launch was stopped because its project may make no further calls today.
const ReasonQuota = "QUOTA_CALLS"

// lockRounds locks a launch that may plan rounds; room is the number of units in its allowance that are neither
// claimed nor queued, NULL without a ceiling; quota is the number of calls that its project may still plan today,
// NULL without a quota.
const lockRounds = `
	SELECT l.task_id, t.adaptive, (
		SELECT greatest(0, a.allowed - a.claimed - (SELECT count(*) FROM units u WHERE u.launch_id = l.id
		AND u.state = 'QUEUED'))
		FROM allowances a
		WHERE a.launch_id = l.id) AS room, (
		SELECT greatest(0, p.calls_per_day - ` + CallsToday + `)
		FROM projects p
		WHERE p.id = t.project_id AND p.calls_per_day IS NOT NULL) AS quota
	FROM launches l
	JOIN evaluation_tasks t ON t.id = l.task_id
	WHERE l.id = $1 AND l.status = 'RUNNING' AND l.kind NOT IN ('EVALUATE', 'MEANING') AND t.adaptive IS NOT NULL
	FOR NO KEY UPDATE OF l`

// PlanRounds plans one more run for each of the given questions that has all its runs and is not settled, as far as
// budget and quota allow, and reports whether it planned any. It does nothing unless the launch is RUNNING and its task
// adaptive. Questions that were missed because a process died are found when the launch is about to end.
func (s *Store) PlanRounds(ctx context.Context, launchID uuid.UUID, itemIDs []int64) (planned bool, err error) {
	// Check first without locking: most results do not complete a round, and claims of units wait while planRoundsOf
	// holds its lock.
	const find = `
		SELECT EXISTS (
			SELECT
			FROM unnest(CAST($1 AS bigint[])) AS given (id)
			JOIN evaluation_items i ON i.id = given.id
			JOIN evaluation_tasks t ON t.id = i.task_id AND t.adaptive IS NOT NULL
			JOIN task_variants v ON v.task_id = t.id
			WHERE (SELECT count(*) FROM evaluation_runs r WHERE r.item_id = i.id AND r.variant = v.number
			AND r.is_current) >= greatest(t.runs_per_item,
				(SELECT p.runs FROM planned_runs p WHERE p.item_id = i.id AND p.variant = v.number)))`
	var isDue bool
	if err := s.db.GetContext(ctx, &isDue, find, pq.Int64Array(itemIDs)); err != nil || !isDue {
		return false, pg.Classify("look for questions that have all their runs", err)
	}
	err = s.db.InTx(ctx, "plan further rounds", func(tx *sqlx.Tx) error {
		rounds, err := planRoundsOf(ctx, tx, launchID, itemIDs)
		planned = rounds.Made > 0
		return err
	})
	return planned, err
}

// rounds is the outcome of planning: how many units were created, how many questions got none, and whether the
// project's quota was the reason; otherwise the budget did not allow them.
type rounds struct {
	Made, Refused int
	IsOverQuota   bool `db:"is_over_quota"`
}

// planRoundsOf plans rounds of the items, where nil means all.
func planRoundsOf(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID, itemIDs []int64) (planned rounds, err error) {
	var launch struct {
		TaskID      uuid.UUID `db:"task_id"`
		Adaptive    Adaptive  `db:"adaptive"`
		Room, Quota *int64
	}
	err = tx.GetContext(ctx, &launch, lockRounds, launchID)
	if pg.IsNoRows(err) {
		return planned, nil
	}
	if err != nil {
		return planned, pg.Classify("lock the launch", err)
	}
	if err := pg.PreferIndexes(ctx, tx); err != nil {
		return planned, err
	}
	settled := pq.Array(measure.SettledFrom(launch.Adaptive.Confidence))
	err = tx.GetContext(ctx, &planned, planRounds, launchID, pq.Int64Array(itemIDs), settled, launch.Room, launch.Quota)
	if err != nil {
		return planned, pg.Classify("plan further rounds", err)
	}
	if planned.Made == 0 {
		return planned, nil
	}
	return planned, Notify(ctx, tx, launch.TaskID)
}
