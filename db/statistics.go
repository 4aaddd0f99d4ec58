package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// Statistics are counts and latencies of runs: the current ones of a task, or those of one launch.
// Latencies are in milliseconds and cover the runs that succeeded; they are nil when none did.
type Statistics struct {
	Runs      int `json:"runs"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	TimedOut  int `json:"timed_out"`
	// Stopped is how many runs never took place because the task was stopped or failed.
	Stopped    int            `json:"stopped"`
	Attempts   int            `json:"attempts"`
	ErrorCodes map[string]int `json:"error_codes"`
	LatencyAvg *float64       `json:"latency_avg_ms"`
	LatencyP50 *float64       `json:"latency_p50_ms"`
	LatencyP90 *float64       `json:"latency_p90_ms"`
	LatencyP99 *float64       `json:"latency_p99_ms"`
	// Duration is from a launch's start to its end or, while it runs, to now, in seconds; of a task: that of
	// all its launches together.
	Duration *float64 `json:"duration_seconds"`
}

// Scan implements sql.Scanner for a column of JSON.
func (s *Statistics) Scan(column any) error {
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("statistics are stored as %T", column)
	}
	return json.Unmarshal(text, s)
}

// statisticsOf gives Statistics as JSON over the runs that the condition names; stopped and duration are
// expressions of their own.
func statisticsOf(runs, stopped, duration string) string {
	return `SELECT json_build_object(
	'runs', count(*),
	'succeeded', count(*) FILTER (WHERE r.status = 'SUCCEEDED'),
	'failed', count(*) FILTER (WHERE r.status = 'FAILED'),
	'timed_out', count(*) FILTER (WHERE r.status = 'TIMEOUT'),
	'stopped', ` + stopped + `,
	'attempts', coalesce(sum(r.attempts), 0),
	'error_codes', coalesce((SELECT json_object_agg(e.error_code, e.n) FROM (SELECT r.error_code, count(*) AS n
		FROM evaluation_runs r WHERE ` + runs + ` AND r.error_code IS NOT NULL
		GROUP BY r.error_code ORDER BY r.error_code) e), '{}'),
	'latency_avg_ms', round(avg(r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'), 1),
	'latency_p50_ms', percentile_cont(0.5) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
	'latency_p90_ms', percentile_cont(0.9) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
	'latency_p99_ms', percentile_cont(0.99) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
	'duration_seconds', ` + duration + `)
	FROM evaluation_runs r WHERE ` + runs
}

var (
	// ofTask takes the task's id.
	ofTask = statisticsOf(`r.task_id = $1 AND r.is_current`,
		`greatest(0, coalesce((SELECT total_items * runs_per_item FROM evaluation_tasks WHERE id = $1 AND status IN ('STOPPED', 'FAILED')), 0) - count(*))`,
		`(SELECT round(extract(epoch FROM sum(coalesce(finished_at, now()) - started_at)), 3) FROM launches WHERE task_id = $1)`)
	// ofLaunch takes the launch's id.
	ofLaunch = statisticsOf(`r.launch_id = $1`,
		`(SELECT count(*) FROM units WHERE launch_id = $1 AND state = 'STOPPED')`,
		`(SELECT round(extract(epoch FROM coalesce(finished_at, now()) - started_at), 3) FROM launches WHERE id = $1)`)
)

// storeStatistics keeps the final statistics of a launch and of its task, which have just ended.
func storeStatistics(ctx context.Context, tx *sqlx.Tx, launchID, taskID uuid.UUID) error {
	if _, err := tx.ExecContext(ctx, `UPDATE launches SET statistics = (`+ofLaunch+`) WHERE id = $1`, launchID); err != nil {
		return classify("compute the launch's statistics", err)
	}
	_, err := tx.ExecContext(ctx, `UPDATE evaluation_tasks SET statistics = (`+ofTask+`) WHERE id = $1`, taskID)
	return classify("compute the task's statistics", err)
}

// TaskStatistics returns the statistics of the task's current runs: the final ones, or those of this moment
// while it runs.
func (s *Store) TaskStatistics(ctx context.Context, taskID uuid.UUID) (statistics Statistics, err error) {
	var stored *Statistics
	if err := s.db.GetContext(ctx, &stored, `SELECT statistics FROM evaluation_tasks WHERE id = $1`, taskID); err != nil {
		return statistics, classify("read the statistics", err)
	}
	if stored != nil {
		return *stored, nil
	}
	err = s.db.GetContext(ctx, &statistics, ofTask, taskID)
	return statistics, classify("compute the task's statistics", err)
}

func (s *Store) launchStatistics(ctx context.Context, launchID uuid.UUID) (statistics Statistics, err error) {
	err = s.db.GetContext(ctx, &statistics, ofLaunch, launchID)
	return statistics, classify("compute the launch's statistics", err)
}

// Progress is how far a task is, at one moment.
type Progress struct {
	TaskID     uuid.UUID  `db:"task_id"`
	TaskStatus TaskStatus `db:"task_status"`
	// FailureCode is why the system gave up; nil unless the task FAILED.
	FailureCode *string `db:"failure_code"`
	// LaunchNumber is that of the newest launch; 0: the task was never started.
	LaunchNumber int  `db:"launch_number"`
	IsStopping   bool `db:"is_stopping"`
	// Total is how many runs the task is to have. Completed have ended, Failed of them without success;
	// Running are claimed by a worker, Queued wait. What was stopped is in none of these but Total.
	Total     int `db:"total"`
	Completed int `db:"completed"`
	Failed    int `db:"failed"`
	Running   int `db:"running"`
	Queued    int `db:"queued"`
	// CallsPerSecond is the rate of the last ten seconds.
	CallsPerSecond float64 `db:"calls_per_second"`
}

// Open is how many runs are still to end.
func (p Progress) Open() int { return p.Running + p.Queued }

// recentRuns is how many of the newest runs the rate of calls is computed from, at most.
const recentRuns = 1000

// TaskProgress returns how far a task is. While its launch is at work the counts are the launch's own, and
// those of earlier runs that it does not ask again; before it began and after it ended, those of the current
// runs. Counting reads the thin table alone.
func (s *Store) TaskProgress(ctx context.Context, taskID uuid.UUID) (Progress, error) {
	const query = `SELECT t.id AS task_id, t.status AS task_status, t.failure_code, coalesce(l.number, 0) AS launch_number,
			coalesce(l.status = 'STOPPING', false) AS is_stopping, t.total_items * t.runs_per_item AS total,
			CASE WHEN at_work THEN l.kept_succeeded + l.kept_failed + u.done ELSE r.runs END AS completed,
			CASE WHEN at_work THEN l.kept_failed + u.failed ELSE r.failed END AS failed,
			u.running, CASE WHEN l.status <> 'PENDING' THEN u.queued WHEN l.item_id IS NULL THEN t.total_items * t.runs_per_item - r.runs ELSE t.runs_per_item - r.of_item END AS queued,
			coalesce(recent.runs / recent.seconds, 0) AS calls_per_second
		FROM evaluation_tasks t
		LEFT JOIN LATERAL (SELECT *, status IN ('RUNNING', 'STOPPING') AND started_at IS NOT NULL AS at_work
			FROM launches WHERE task_id = t.id ORDER BY number DESC LIMIT 1) l ON true
		LEFT JOIN LATERAL (SELECT count(*) FILTER (WHERE state = 'DONE') AS done, count(*) FILTER (WHERE outcome <> 'SUCCEEDED') AS failed,
			count(*) FILTER (WHERE state = 'RUNNING') AS running, count(*) FILTER (WHERE state = 'QUEUED') AS queued
			FROM units WHERE launch_id = l.id) u ON true
		LEFT JOIN LATERAL (SELECT count(*) AS runs, count(*) FILTER (WHERE status <> 'SUCCEEDED') AS failed, count(*) FILTER (WHERE item_id = l.item_id) AS of_item
			FROM evaluation_runs WHERE task_id = t.id AND is_current AND NOT coalesce(at_work, false)
			AND (coalesce(l.status, '') <> 'PENDING' OR l.kind <> 'RETRY_FAILED' OR status = 'SUCCEEDED' OR item_id <> l.item_id)) r ON true
		LEFT JOIN LATERAL (SELECT count(*) AS runs, greatest(0.5, extract(epoch FROM now() - greatest(now() - interval '10 seconds',
				l.started_at, CASE WHEN count(*) = $2 THEN min(created_at) END))) AS seconds
			FROM (SELECT created_at FROM evaluation_runs WHERE launch_id = l.id AND at_work ORDER BY id DESC LIMIT $2) newest
			WHERE created_at > now() - interval '10 seconds') recent ON true
		WHERE t.id = $1`
	var progress Progress
	err := s.db.GetContext(ctx, &progress, query, taskID, recentRuns)
	return progress, classify("read the progress", err)
}

// Bar is one bar of a plot: how many runs fall between From and To.
type Bar struct {
	From      float64 `db:"from_value"`
	To        float64 `db:"to_value"`
	Succeeded int     `db:"succeeded"`
	Failed    int     `db:"failed"`
}

const (
	latencyBars = 30
	timeBars    = 60
)

// LatencyBars returns how the latencies of a task's successful current runs are spread, in bars of equal
// width on a logarithmic scale, in milliseconds; none when there are no such runs.
func (s *Store) LatencyBars(ctx context.Context, taskID uuid.UUID) ([]Bar, error) {
	const query = `WITH runs AS (SELECT ln(greatest(latency_ms, 1)::float8) AS x FROM evaluation_runs
			WHERE task_id = $1 AND is_current AND status = 'SUCCEEDED' AND latency_ms IS NOT NULL),
		span AS (SELECT min(x) AS low, greatest(max(x), min(x) + 0.7) + 1e-9 AS high FROM runs),
		counts AS (SELECT width_bucket(x, low, high, $2) AS n, count(*) AS runs FROM runs, span GROUP BY 1)
		SELECT exp(low + (high - low) * (bar - 1) / $2) AS from_value, exp(low + (high - low) * bar / $2) AS to_value,
			coalesce(c.runs, 0) AS succeeded, 0 AS failed
		FROM span, generate_series(1, $2::int) bar LEFT JOIN counts c ON c.n = bar WHERE low IS NOT NULL ORDER BY bar`
	var bars []Bar
	err := s.db.SelectContext(ctx, &bars, query, taskID, latencyBars)
	return bars, classify("count the latencies", err)
}

// OutcomeBars returns how many runs of the task's newest launch ended when, in bars of equal time from its
// start, in seconds; none when it has no runs.
func (s *Store) OutcomeBars(ctx context.Context, taskID uuid.UUID) ([]Bar, error) {
	const query = `WITH launch AS (SELECT id, started_at, extract(epoch FROM greatest(coalesce(finished_at, now()) - started_at, interval '1 second'))::float8 * 1.0001 AS seconds
			FROM launches WHERE task_id = $1 AND started_at IS NOT NULL ORDER BY number DESC LIMIT 1),
		counts AS (SELECT width_bucket(extract(epoch FROM r.created_at - l.started_at)::float8, 0, l.seconds, $2) AS n,
			count(*) FILTER (WHERE r.status = 'SUCCEEDED') AS succeeded, count(*) FILTER (WHERE r.status <> 'SUCCEEDED') AS failed
			FROM launch l JOIN evaluation_runs r ON r.launch_id = l.id GROUP BY 1)
		SELECT seconds * (bar - 1) / $2 AS from_value, seconds * bar / $2 AS to_value, coalesce(c.succeeded, 0) AS succeeded, coalesce(c.failed, 0) AS failed
		FROM launch, generate_series(1, $2::int) bar LEFT JOIN counts c ON c.n = bar
		WHERE EXISTS (SELECT 1 FROM counts) ORDER BY bar`
	var bars []Bar
	err := s.db.SelectContext(ctx, &bars, query, taskID, timeBars)
	return bars, classify("count the outcomes over time", err)
}
