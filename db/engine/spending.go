package engine

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/shopspring/decimal"

	"wending/db"
	"wending/db/pg"
)

// The codes of the ceilings that can stop a launch; the catalogues explain them.
const (
	ReasonTask    = "BUDGET_TASK"
	ReasonProject = "BUDGET_PROJECT"
	ReasonMonth   = "BUDGET_MONTH"
)

// Reasons lists all codes for why a launch was stopped.
var Reasons = []string{ReasonTask, ReasonProject, ReasonMonth, db.ReasonQuota}

// Spending computes what launches have spent, and stops those that exceed a ceiling.
type Spending struct{ db *pg.Pool }

// NewSpending returns the Spending of a store.
func NewSpending(store *db.Store) Spending { return Spending{store.Pool()} }

// ofLaunch is the launch l's spending in each currency, on runs, judges and groupings.
const ofLaunch = `
	SELECT of.currency, sum(of.cost) AS cost
	FROM (
		SELECT coalesce(g.currency, '') AS currency, r.cost
		FROM evaluation_runs r
		JOIN task_variants v ON v.task_id = l.task_id AND v.number = r.variant
		JOIN task_targets g ON g.task_id = l.task_id AND g.number = v.target
		WHERE r.launch_id = l.id AND r.cost IS NOT NULL
		UNION ALL
		SELECT coalesce(g.currency, ''), e.cost
		FROM units u
		JOIN evaluations e ON e.run_id = u.subject_run_id AND e.evaluator = u.evaluator
		JOIN task_targets g ON g.task_id = l.task_id AND g.number = u.target
		WHERE u.launch_id = l.id AND u.evaluator > 0 AND u.state = 'DONE' AND e.cost IS NOT NULL
		UNION ALL
		SELECT coalesce(g.currency, ''), m.cost
		FROM units u
		JOIN meanings m ON m.unit_id = u.id
		JOIN task_targets g ON g.task_id = l.task_id AND g.number = u.target
		WHERE u.launch_id = l.id AND u.evaluator = -1 AND u.state = 'DONE' AND m.cost IS NOT NULL) of
	GROUP BY of.currency`

// month is the start of the current month in Beijing time.
const month = `date_trunc('month', now(), 'Asia/Shanghai')`

// Settle stores the spending of launches that have ended, a batch at a time, and returns how many launches it
// settled.
func (s Spending) Settle(ctx context.Context) (launches int, err error) {
	const settle = `
		WITH ended AS (
			SELECT id, task_id, finished_at FROM launches WHERE finished_at IS NOT NULL AND NOT is_settled
			ORDER BY finished_at DESC LIMIT 20),
		spent AS (
			INSERT INTO spending (launch_id, project_id, currency, cost, ended_at)
			SELECT l.id, t.project_id, of.currency, of.cost, l.finished_at
			FROM ended l
			JOIN evaluation_tasks t ON t.id = l.task_id
			CROSS JOIN LATERAL (` + ofLaunch + `) of
			ON CONFLICT DO NOTHING)
		UPDATE launches
		SET is_settled = true
		WHERE id IN (SELECT id FROM ended)`
	result, err := s.db.ExecContext(ctx, settle)
	return pg.Affected("add up what launches spent", result, err)
}

// Standing is the amount that a launch has left under one of its ceilings, in one currency.
type Standing struct {
	// LaunchID is nil if the task has no active launch.
	LaunchID *uuid.UUID `db:"launch_id"`
	TaskID   uuid.UUID  `db:"task_id"`
	// Reason names the kind of ceiling, and Owner is the task or project that it belongs to; Owner is uuid.Nil for the
	// installation's month.
	Reason   string    `db:"reason"`
	Owner    uuid.UUID `db:"owner"`
	Currency string    `db:"currency"`
	// Ceiling is the amount that may be spent, and Left the amount that remains; Left is negative if the ceiling was
	// exceeded.
	Ceiling decimal.Decimal `db:"ceiling"`
	Left    decimal.Decimal `db:"remaining"`
	// PerUnit is the mean cost of the units that have ended, for the task's most expensive target; 0 if no target costs
	// anything. IsUnknown is true while no unit of some target has ended with a known cost.
	PerUnit   decimal.Decimal `db:"per_unit"`
	IsUnknown bool            `db:"is_unknown"`
	// InFlight is how many units of the launch are claimed now, and Claimed how many were ever claimed while the launch
	// had an allowance.
	InFlight int   `db:"in_flight"`
	Claimed  int64 `db:"claimed"`
	// IsWaiting reports that the launch has units that have yet to be claimed, created or planned.
	IsWaiting bool `db:"is_waiting"`
}

// IsSpent reports whether too little is left for another call.
func (s Standing) IsSpent() bool { return !s.Left.IsPositive() || s.Left.LessThan(s.PerUnit) }

// triedUnits is how many units of a target may end without reporting a cost before the target is treated as free,
// because a budget cannot include unknown costs.
const triedUnits = `3`

// nobody is the Owner of the installation's monthly ceiling.
const nobody = `'00000000-0000-0000-0000-000000000000'`

// standings lists every ceiling that applies to the active launches or to the task $2, with the amount already spent;
// $1 is the installation's monthly ceiling, empty for none.
const standings = `
	WITH active AS (
		SELECT l.id, l.created_at, l.task_id, t.max_cost, t.project_id, l.status = 'PENDING' AS is_pending
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		WHERE l.status IN ('PENDING', 'RUNNING')
		UNION ALL
		SELECT NULL, now(), id, max_cost, project_id, true FROM evaluation_tasks WHERE id = $2),
	ceilings AS (
		SELECT '` + ReasonTask + `' AS reason, task_id AS owner, max_cost AS ceiling FROM active WHERE max_cost IS NOT NULL
		UNION
		SELECT '` + ReasonProject + `', id, cost_per_month FROM projects WHERE cost_per_month IS NOT NULL AND id IN (SELECT project_id FROM active)
		UNION
		SELECT '` + ReasonMonth + `', ` + nobody + `, CAST(nullif($1, '') AS numeric) WHERE $1 <> '' AND EXISTS (SELECT FROM active)),
	live AS ( -- spending that is not settled yet
		SELECT l.task_id, t.project_id, of.currency, of.cost
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		CROSS JOIN LATERAL (` + ofLaunch + `) of
		WHERE (l.status IN ('PENDING', 'RUNNING', 'STOPPING') OR l.finished_at IS NOT NULL AND NOT l.is_settled)
		  AND EXISTS (SELECT FROM ceilings c WHERE c.owner IN (l.task_id, t.project_id, ` + nobody + `))),
	spent AS (
		SELECT c.reason, c.owner, of.currency, sum(of.cost) AS cost
		FROM ceilings c
		CROSS JOIN LATERAL (
			SELECT currency, cost FROM live
			WHERE CASE c.reason WHEN '` + ReasonTask + `' THEN task_id = c.owner WHEN '` + ReasonProject + `' THEN project_id = c.owner ELSE true END
			UNION ALL
			SELECT s.currency, s.cost FROM spending s JOIN launches l ON l.id = s.launch_id WHERE c.reason = '` + ReasonTask + `' AND l.task_id = c.owner
			UNION ALL
			SELECT currency, cost FROM spending
			WHERE ended_at >= ` + month + ` AND (c.reason = '` + ReasonMonth + `' OR c.reason = '` + ReasonProject + `' AND project_id = c.owner)) of
		GROUP BY c.reason, c.owner, of.currency),
	capped AS (
		SELECT a.id, a.created_at, a.task_id, a.is_pending, c.reason, c.owner, c.ceiling
		FROM active a
		JOIN ceilings c ON c.owner IN (a.task_id, a.project_id, ` + nobody + `)),
	targets AS ( -- the costs of units that have ended: a conversation's first turns would make its unit look cheap
		SELECT g.task_id, coalesce(g.currency, '') AS currency, coalesce(u.per_unit, 0) AS per_unit, u.priced = 0 AND u.ended < ` + triedUnits + ` AS is_unknown
		FROM task_targets g
		CROSS JOIN LATERAL (
			SELECT sum(of.cost) / nullif(count(of.cost), 0) AS per_unit, count(of.cost) AS priced, count(*) AS ended
			FROM (
				SELECT sum(r.cost) AS cost
				FROM task_variants v
				JOIN evaluation_runs r ON r.task_id = v.task_id AND r.variant = v.number AND r.is_current
				WHERE g.kind <> 'judge' AND v.task_id = g.task_id AND v.target = g.number AND NOT EXISTS (
					SELECT FROM units u WHERE u.id = r.unit_id AND u.state IN ('QUEUED', 'RUNNING'))
				GROUP BY r.unit_id
				UNION ALL
				SELECT e.cost
				FROM task_evaluators own
				JOIN evaluation_runs r ON r.task_id = own.task_id AND r.is_current
				JOIN evaluations e ON e.run_id = r.id AND e.evaluator = own.number
				WHERE g.kind = 'judge' AND own.task_id = g.task_id AND own.target = g.number
				UNION ALL
				SELECT m.cost
				FROM evaluation_items i
				JOIN meanings m ON m.item_id = i.id AND m.is_current
				WHERE g.kind = 'judge' AND i.task_id = g.task_id AND m.target = g.number) of) u
		WHERE g.task_id IN (SELECT task_id FROM capped) AND g.input_price IS NOT NULL AND g.output_price IS NOT NULL)
	SELECT c.id AS launch_id, c.task_id, c.reason, c.owner, g.currency, c.ceiling,
	c.ceiling - coalesce(s.cost, 0) AS remaining,
		max(trunc(g.per_unit, 12)) AS per_unit, bool_or(g.is_unknown) AS is_unknown,
		(SELECT count(*) FROM units u WHERE u.launch_id = c.id AND u.state = 'RUNNING') AS in_flight,
		coalesce((SELECT claimed FROM allowances a WHERE a.launch_id = c.id), 0) AS claimed,
		c.is_pending OR EXISTS (SELECT FROM units u WHERE u.launch_id = c.id AND u.state = 'QUEUED')
			OR EXISTS (SELECT FROM launches l WHERE l.id = c.id AND l.awaits_budget) AS is_waiting
	FROM capped c
	JOIN targets g ON g.task_id = c.task_id
	LEFT JOIN spent s ON s.reason = c.reason AND s.owner = c.owner AND s.currency = g.currency
	GROUP BY c.id, c.created_at, c.task_id, c.is_pending, c.reason, c.owner, g.currency, c.ceiling, s.cost
	ORDER BY c.created_at, c.id, c.reason, g.currency`

// hasCeilings selects whether any ceiling may apply or an allowance must be lifted. It is checked first, because the
// statement that reads the standings takes longer to plan than everything else that a worker does in a second.
const hasCeilings = `
	SELECT $1 <> '' OR EXISTS (SELECT FROM allowances) OR EXISTS (SELECT FROM projects WHERE cost_per_month IS NOT NULL)
		OR EXISTS (
			SELECT
			FROM launches l
			JOIN evaluation_tasks t ON t.id = l.task_id
			WHERE l.status IN ('PENDING', 'RUNNING') AND t.max_cost IS NOT NULL)`

// keepersLock is the key of the advisory lock that budget keepers take. The installation's monthly ceiling covers
// all projects, and one statement reads all standings, so one lock serves all budgets.
const keepersLock = 0x627564676574 // "budget" in ASCII

// Verdict is a budget keeper's decision about the standings.
type Verdict struct {
	// Allowed holds how many units each launch may claim, including those already claimed. Launches missing from it have
	// no limit.
	Allowed map[uuid.UUID]int64
	// Reached maps the launches that have to stop to the ceilings that they have reached.
	Reached map[uuid.UUID]Standing
}

// Keep passes the standings to judge and applies its verdict. It holds the lock throughout, so a keeper never acts on
// standings that another has changed, and only one keeper stops a launch whose ceiling is reached. The standings list
// each active launch, oldest first, under the ceilings of its task, of its project's month and of the installation's
// month. monthCeiling is a decimal number that applies to each currency, empty for none. Targets without prices spend
// nothing. Keep returns the launches that it stopped, which tasks.FinishLaunch ends.
func (s Spending) Keep(ctx context.Context, monthCeiling string,
	judge func([]Standing) Verdict) (stopped []uuid.UUID, verdict Verdict, err error) {
	var has bool
	if err := s.db.GetContext(ctx, &has, hasCeilings, monthCeiling); err != nil || !has {
		return nil, Verdict{}, pg.Classify("look for ceilings", err)
	}
	err = s.db.InTx(ctx, "check the budgets", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(keepersLock)); err != nil {
			return pg.Classify("wait for other workers checking budgets", err)
		}
		var found []Standing
		if err := tx.SelectContext(ctx, &found, standings, monthCeiling, nil); err != nil {
			return pg.Classify("look for budgets", err)
		}
		verdict = judge(found)
		reasons := map[uuid.UUID]string{}
		for id, one := range verdict.Reached {
			reasons[id] = one.Reason
		}
		if stopped, err = db.StopLaunches(ctx, tx, reasons); err != nil { // before the allowances: claims lock in this order
			return err
		}
		return allow(ctx, tx, verdict.Allowed)
	})
	return stopped, verdict, err
}

// SpentBy returns a ceiling that leaves no room for another launch of a task, which has no active launch; nil means
// that the task may run. The check prevents launches that would be stopped immediately. It reserves nothing: Keep
// decides once the launch runs.
func (s Spending) SpentBy(ctx context.Context, taskID uuid.UUID, monthCeiling string) (*Standing, error) {
	var found []Standing
	if err := s.db.SelectContext(ctx, &found, standings, monthCeiling, taskID); err != nil {
		return nil, pg.Classify("look for a spent budget", err)
	}
	for _, one := range found {
		if one.LaunchID == nil && one.IsSpent() {
			return &one, nil
		}
	}
	return nil, nil
}

// allow sets how many units launches may claim, and lifts the limits of all other launches.
func allow(ctx context.Context, tx *sqlx.Tx, allowed map[uuid.UUID]int64) error {
	const lift = `DELETE FROM allowances WHERE NOT launch_id = ANY (CAST($1 AS uuid[]))`
	const set = `
		INSERT INTO allowances AS a (launch_id, allowed)
		SELECT g.launch_id, g.allowed
		FROM unnest(CAST($1 AS uuid[]), CAST($2 AS bigint[])) AS g (launch_id, allowed)
		JOIN launches l ON l.id = g.launch_id
		ORDER BY g.launch_id
		ON CONFLICT (launch_id) DO UPDATE
		SET allowed = excluded.allowed`
	ids, counts := make(pq.StringArray, 0, len(allowed)), make(pq.Int64Array, 0, len(allowed))
	for id, count := range allowed {
		ids, counts = append(ids, id.String()), append(counts, count)
	}
	if _, err := tx.ExecContext(ctx, lift, ids); err != nil {
		return pg.Classify("lift allowances", err)
	}
	_, err := tx.ExecContext(ctx, set, ids, counts)
	return pg.Classify("set allowances", err)
}

// SetCeiling sets the maximum cost of a task; empty means no limit. It returns db.ErrNotFound if there is no such task.
func (s Spending) SetCeiling(ctx context.Context, taskID uuid.UUID, ceiling string) error {
	const set = `UPDATE evaluation_tasks SET max_cost = CAST(nullif($2, '') AS numeric), updated_at = now() WHERE id = $1`
	result, err := s.db.ExecContext(ctx, set, taskID, ceiling)
	changed, err := pg.Affected("set a task's ceiling", result, err)
	if err == nil && changed == 0 {
		return &db.NotFoundError{Kind: db.KindTask}
	}
	return err
}

// Sum is the amount spent in one currency.
type Sum struct {
	// Currency is empty if it is not known.
	Currency string `db:"currency"`
	Cost     string `db:"cost"`
}

// ThisMonthOf returns this month's spending, by currency, of a project's launches that have ended.
func (s Spending) ThisMonthOf(ctx context.Context, projectID uuid.UUID) (sums []Sum, err error) {
	const list = `
		SELECT s.currency, CAST(trim_scale(sum(s.cost)) AS text) AS cost
		FROM spending s
		WHERE s.ended_at >= ` + month + ` AND s.project_id = $1
		GROUP BY s.currency
		ORDER BY s.currency`
	err = s.db.SelectContext(ctx, &sums, list, projectID)
	return sums, pg.Classify("sum a project's monthly cost", err)
}
