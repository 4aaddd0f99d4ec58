// Package spending adds up what launches cost, and finds those that have reached a ceiling.
package spending

import (
	"context"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Why a launch was stopped; the catalogues explain the codes.
const (
	ReasonTask    = "BUDGET_TASK"
	ReasonProject = "BUDGET_PROJECT"
	ReasonMonth   = "BUDGET_MONTH"
)

// Reasons are all of them.
var Reasons = []string{ReasonTask, ReasonProject, ReasonMonth}

// Spending is that of an installation.
type Spending struct{ db *pg.Pool }

// New returns the spending of a store.
func New(store *db.Store) Spending { return Spending{store.Pool()} }

// ofLaunch is what the launch l has spent in each currency: for runs and for judges.
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
		WHERE u.launch_id = l.id AND u.evaluator > 0 AND u.state = 'DONE' AND e.cost IS NOT NULL) of
	GROUP BY of.currency`

// month is when this month began in Beijing.
const month = `date_trunc('month', now(), 'Asia/Shanghai')`

// Settle notes what launches that have ended spent, some at a time, and returns how many those were.
func (s Spending) Settle(ctx context.Context) (launches int, err error) {
	const settle = `
		WITH ended AS (
			SELECT id, task_id, finished_at FROM launches WHERE finished_at IS NOT NULL AND NOT is_settled ORDER BY finished_at DESC LIMIT 20),
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

// Reached is a launch that has reached a ceiling.
type Reached struct {
	LaunchID uuid.UUID `db:"launch_id"`
	TaskID   uuid.UUID `db:"task_id"`
	Reason   string    `db:"reason"`
}

// What launches at work and, of each task, all its launches spent: $1 is the month's ceiling, empty for none, $2 the one launch that
// is looked at, NULL for all.
const reached = `
	WITH active AS (
		SELECT l.id, l.task_id, t.max_cost, t.project_id
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		WHERE l.status IN ('PENDING', 'RUNNING')),
	limited AS ( -- projects at work that have a ceiling
		SELECT id, cost_per_month FROM projects WHERE cost_per_month IS NOT NULL AND id IN (SELECT project_id FROM active)),
	live AS ( -- what is not in spending yet
		SELECT l.task_id, t.project_id, of.currency, of.cost
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		CROSS JOIN LATERAL (` + ofLaunch + `) of
		WHERE (l.status IN ('PENDING', 'RUNNING', 'STOPPING') OR l.finished_at IS NOT NULL AND NOT l.is_settled)
		  AND EXISTS (SELECT FROM active)
		  AND ($1 <> '' OR t.project_id IN (SELECT id FROM limited) OR l.task_id IN (SELECT task_id FROM active WHERE max_cost IS NOT NULL))),
	of_tasks AS (
		SELECT a.id, a.task_id
		FROM active a
		JOIN (
			SELECT task_id, currency, cost FROM live
			UNION ALL
			SELECT l.task_id, s.currency, s.cost
			FROM spending s
			JOIN launches l ON l.id = s.launch_id
			WHERE l.task_id IN (SELECT task_id FROM active WHERE max_cost IS NOT NULL)) spent ON spent.task_id = a.task_id
		WHERE a.max_cost IS NOT NULL
		GROUP BY a.id, a.task_id, a.max_cost, spent.currency
		HAVING sum(spent.cost) >= a.max_cost),
	of_projects AS (
		SELECT p.id, spent.currency
		FROM limited p
		JOIN (
			SELECT project_id, currency, cost FROM live
			UNION ALL
			SELECT project_id, currency, cost FROM spending WHERE project_id IN (SELECT id FROM limited) AND ended_at >= ` + month + `) spent ON spent.project_id = p.id
		GROUP BY p.id, p.cost_per_month, spent.currency
		HAVING sum(spent.cost) >= p.cost_per_month),
	of_month AS (
		SELECT currency
		FROM (
			SELECT currency, cost FROM live
			UNION ALL
			SELECT currency, cost FROM spending WHERE $1 <> '' AND ended_at >= ` + month + `) spent
		WHERE $1 <> ''
		GROUP BY currency
		HAVING sum(cost) >= CAST(nullif($1, '') AS numeric))
	SELECT id AS launch_id, task_id, '` + ReasonTask + `' AS reason FROM of_tasks WHERE $2::uuid IS NULL OR id = $2
	UNION
	SELECT a.id, a.task_id, '` + ReasonProject + `'
	FROM active a
	WHERE ($2::uuid IS NULL OR a.id = $2)
	  AND EXISTS (
		SELECT FROM of_projects m JOIN task_targets g ON g.task_id = a.task_id AND coalesce(g.currency, '') = m.currency WHERE m.id = a.project_id)
	UNION
	SELECT a.id, a.task_id, '` + ReasonMonth + `'
	FROM active a
	WHERE ($2::uuid IS NULL OR a.id = $2)
	  AND EXISTS (
		SELECT FROM of_month m JOIN task_targets g ON g.task_id = a.task_id AND coalesce(g.currency, '') = m.currency)`

// Reached returns the launches that have reached the ceiling of their task, of their project's month, or the month's: a decimal number that holds in each
// currency, empty for none. A launch without targets of a currency is not stopped for it.
func (s Spending) Reached(ctx context.Context, monthCeiling string) (found []Reached, err error) {
	err = s.db.SelectContext(ctx, &found, reached, monthCeiling, nil)
	return found, pg.Classify("look for spent budgets", err)
}

// ReachedBy is Reached for one launch; nil means that it may go on.
func (s Spending) ReachedBy(ctx context.Context, launchID uuid.UUID, monthCeiling string) (*Reached, error) {
	var found []Reached
	if err := s.db.SelectContext(ctx, &found, reached, monthCeiling, launchID); err != nil || len(found) == 0 {
		return nil, pg.Classify("look for a spent budget", err)
	}
	return &found[0], nil
}

// NoteReason stores why a launch is stopped.
func (s Spending) NoteReason(ctx context.Context, launchID uuid.UUID, reason string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE launches SET stop_reason = $2 WHERE id = $1`, launchID, reason)
	return pg.Classify("note why a launch is stopped", err)
}

// SetCeiling sets what a task may cost; empty means any amount. It returns db.ErrNotFound if there is no such task.
func (s Spending) SetCeiling(ctx context.Context, taskID uuid.UUID, ceiling string) error {
	const set = `UPDATE evaluation_tasks SET max_cost = CAST(nullif($2, '') AS numeric), updated_at = now() WHERE id = $1`
	result, err := s.db.ExecContext(ctx, set, taskID, ceiling)
	changed, err := pg.Affected("set a task's ceiling", result, err)
	if err == nil && changed == 0 {
		return &db.NotFoundError{Kind: db.KindTask}
	}
	return err
}

// Sum is what was spent in a currency.
type Sum struct {
	// Currency is empty where it is not known.
	Currency string `db:"currency"`
	Cost     string `db:"cost"`
}

// ThisMonthOf returns what was spent this month by the launches of a project that have ended, by currency.
func (s Spending) ThisMonthOf(ctx context.Context, projectID uuid.UUID) (sums []Sum, err error) {
	const list = `
		SELECT s.currency, CAST(trim_scale(sum(s.cost)) AS text) AS cost
		FROM spending s
		WHERE s.ended_at >= ` + month + ` AND s.project_id = $1
		GROUP BY s.currency
		ORDER BY s.currency`
	err = s.db.SelectContext(ctx, &sums, list, projectID)
	return sums, pg.Classify("add up the month of a project", err)
}
