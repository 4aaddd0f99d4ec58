package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db/pg"
)

// Statistics are counts and latencies of runs: the current ones of a task, or those of one launch. Latencies are
// in milliseconds and cover the runs that succeeded; they are nil if none did.
type Statistics struct {
	Runs      int `json:"runs" doc:"Runs that have ended" example:"500"`
	Succeeded int `json:"succeeded" example:"493"`
	Failed    int `json:"failed" example:"5"`
	TimedOut  int `json:"timed_out" example:"2"`
	// Stopped is how many runs never took place because the task was stopped or failed.
	Stopped    int            `json:"stopped" doc:"Runs that never took place because the task was stopped or failed" example:"0"`
	Attempts   int            `json:"attempts" doc:"Calls made, retries included" example:"509"`
	ErrorCodes map[string]int `json:"error_codes" doc:"Number of runs by error code"`
	LatencyAvg *float64       `json:"latency_avg_ms" doc:"Over runs that succeeded; null if none did" example:"812.4"`
	LatencyP50 *float64       `json:"latency_p50_ms" example:"640"`
	LatencyP90 *float64       `json:"latency_p90_ms" example:"1730.5"`
	LatencyP99 *float64       `json:"latency_p99_ms" example:"4210"`
	// Duration is from a launch's start to its end or, while it runs, to now, in seconds; that of a task is the sum
	// over its launches.
	Duration *float64 `json:"duration_seconds" doc:"From start to end, or to now; that of a task is the sum over its launches" example:"104.31"`
}

// Scan implements sql.Scanner for a column of JSON.
func (s *Statistics) Scan(column any) error {
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("statistics are stored as %T", column)
	}
	return json.Unmarshal(text, s)
}

// What the statistics of a task and of a launch share: pairs of a JSON object, over the runs r.
const (
	countRuns = `
		'runs', count(*),
		'succeeded', count(*) FILTER (WHERE r.status = 'SUCCEEDED'),
		'failed', count(*) FILTER (WHERE r.status = 'FAILED'),
		'timed_out', count(*) FILTER (WHERE r.status = 'TIMEOUT'),
		'attempts', coalesce(sum(r.attempts), 0)`
	measureRuns = `
		'latency_avg_ms', round(avg(r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'), 1),
		'latency_p50_ms', percentile_cont(0.5) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
		'latency_p90_ms', percentile_cont(0.9) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
		'latency_p99_ms', percentile_cont(0.99) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED')`
)

// Only tasks at their end have runs that never took place: those of an active task may still come.
const computeTaskStatistics = `
	SELECT json_build_object(` + countRuns + `,
		'stopped', greatest(0, coalesce((
			SELECT total_items * runs_per_item
			FROM evaluation_tasks
			WHERE id = $1 AND status IN ('STOPPED', 'FAILED')), 0) - count(*)),
		'error_codes', coalesce((
			SELECT json_object_agg(e.error_code, e.n)
			FROM (
				SELECT error_code, count(*) AS n
				FROM evaluation_runs
				WHERE task_id = $1 AND is_current AND error_code IS NOT NULL
				GROUP BY error_code
				ORDER BY error_code) e), '{}'),` + measureRuns + `,
		'duration_seconds', (
			SELECT round(extract(epoch FROM sum(coalesce(finished_at, now()) - started_at)), 3)
			FROM launches
			WHERE task_id = $1))
	FROM evaluation_runs r
	WHERE r.task_id = $1 AND r.is_current`

const computeLaunchStatistics = `
	SELECT json_build_object(` + countRuns + `,
		'stopped', (SELECT count(*) FROM units WHERE launch_id = $1 AND state = 'STOPPED'),
		'error_codes', coalesce((
			SELECT json_object_agg(e.error_code, e.n)
			FROM (
				SELECT error_code, count(*) AS n
				FROM evaluation_runs
				WHERE launch_id = $1 AND error_code IS NOT NULL
				GROUP BY error_code
				ORDER BY error_code) e), '{}'),` + measureRuns + `,
		'duration_seconds', (
			SELECT round(extract(epoch FROM coalesce(finished_at, now()) - started_at), 3) FROM launches WHERE id = $1))
	FROM evaluation_runs r
	WHERE r.launch_id = $1`

// storeStatistics stores the final statistics of a launch and of its task, which have just ended, and how many
// questions have all their runs.
func storeStatistics(ctx context.Context, tx *sqlx.Tx, launchID, taskID uuid.UUID) error {
	const storeOfLaunch = `UPDATE launches SET statistics = (` + computeLaunchStatistics + `) WHERE id = $1`
	const storeOfTask = `UPDATE evaluation_tasks SET statistics = (` + computeTaskStatistics + `) WHERE id = $1`
	const storeProcessed = `
		UPDATE evaluation_tasks t
		SET processed_items = (
			SELECT count(*)
			FROM (
				SELECT FROM evaluation_runs
				WHERE task_id = $1 AND is_current
				GROUP BY item_id
				HAVING count(*) = t.runs_per_item) whole)
		WHERE t.id = $1`
	if _, err := tx.ExecContext(ctx, storeOfLaunch, launchID); err != nil {
		return pg.Classify("compute the launch's statistics", err)
	}
	if _, err := tx.ExecContext(ctx, storeOfTask, taskID); err != nil {
		return pg.Classify("compute the task's statistics", err)
	}
	_, err := tx.ExecContext(ctx, storeProcessed, taskID)
	return pg.Classify("store the processed questions", err)
}

// TaskStatistics returns the statistics of the task's current runs: final ones, or live ones while it is active.
func (s *Store) TaskStatistics(ctx context.Context, task Task) (Statistics, error) {
	return taskStatistics(ctx, s.db, task)
}

func taskStatistics(ctx context.Context, db sqlx.QueryerContext, task Task) (statistics Statistics, err error) {
	if task.Final != nil {
		return *task.Final, nil
	}
	err = sqlx.GetContext(ctx, db, &statistics, computeTaskStatistics, task.ID)
	return statistics, pg.Classify("compute the task's statistics", err)
}

func (s *Store) launchStatistics(ctx context.Context, launchID uuid.UUID) (statistics Statistics, err error) {
	err = s.db.GetContext(ctx, &statistics, computeLaunchStatistics, launchID)
	return statistics, pg.Classify("compute the launch's statistics", err)
}
