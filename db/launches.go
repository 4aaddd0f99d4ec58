package db

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// StartLaunch makes the units of a PENDING launch and sets it and its task RUNNING, in one transaction.
// It returns how many units the launch has, or ErrConflict when somebody else started it before.
func (s *Store) StartLaunch(ctx context.Context, id uuid.UUID) (units int, err error) {
	const start = `UPDATE launches SET status = 'RUNNING', started_at = now()
		WHERE id = $1 AND status = 'PENDING' RETURNING task_id, agent_origin`
	const makeUnits = `INSERT INTO units (launch_id, item_id, run_index)
		SELECT $1, i.id, n FROM evaluation_items i, evaluation_tasks t, generate_series(1, t.runs_per_item) n
		WHERE t.id = $2 AND i.task_id = t.id ORDER BY i.id, n`
	const startTask = `UPDATE evaluation_tasks SET status = 'RUNNING', started_at = now(), updated_at = now()
		WHERE id = $1 AND status = 'PENDING'`
	const knowAgent = `INSERT INTO agents (origin) VALUES ($1) ON CONFLICT DO NOTHING`
	err = s.inTx(ctx, "start the launch", func(tx *sqlx.Tx) error {
		var launch struct {
			TaskID uuid.UUID `db:"task_id"`
			Origin string    `db:"agent_origin"`
		}
		err := tx.GetContext(ctx, &launch, start, id)
		if isNoRows(err) {
			return ErrConflict
		}
		if err != nil {
			return classify("start the launch", err)
		}
		result, err := tx.ExecContext(ctx, makeUnits, id, launch.TaskID)
		if err != nil {
			return classify("make the units", err)
		}
		made, err := result.RowsAffected()
		if err != nil {
			return classify("make the units", err)
		}
		units = int(made)
		if _, err := tx.ExecContext(ctx, knowAgent, launch.Origin); err != nil {
			return classify("note the agent", err)
		}
		result, err = tx.ExecContext(ctx, startTask, launch.TaskID)
		return requireRow("start the task", result, err)
	})
	return units, err
}

// Call is what a lane must know to call a launch's agent.
type Call struct {
	LaunchID uuid.UUID `db:"launch_id"`
	Task
	AgentOrigin string `db:"agent_origin"`
	// IntervalMicros is the least time between two calls to the origin, in microseconds; 0: unlimited.
	IntervalMicros int64 `db:"call_interval"`
}

// LaunchCall returns how the units of a launch are asked, or ErrNotFound.
func (s *Store) LaunchCall(ctx context.Context, id uuid.UUID) (Call, error) {
	const query = `SELECT l.id AS launch_id, l.agent_origin, l.call_interval, t.*
		FROM launches l, (SELECT ` + taskColumns + ` FROM evaluation_tasks) t WHERE t.id = l.task_id AND l.id = $1`
	var call Call
	err := s.db.GetContext(ctx, &call, query, id)
	return call, classify("read the launch", err)
}

// FinishLaunch closes a RUNNING launch that has no unit left to run: exactly one caller gets true, with
// the statistics stored and the task SUCCEEDED. Call it only after the last result's commit.
func (s *Store) FinishLaunch(ctx context.Context, id uuid.UUID) (finished bool, err error) {
	const elect = `UPDATE launches l SET status = 'SUCCEEDED', finished_at = now()
		WHERE l.id = $1 AND l.status = 'RUNNING'
		AND NOT EXISTS (SELECT 1 FROM units u WHERE u.launch_id = l.id AND u.state IN ('QUEUED', 'RUNNING'))
		RETURNING l.task_id`
	const process = `UPDATE evaluation_items SET processed = true WHERE task_id = $1 AND NOT processed`
	const close = `UPDATE evaluation_tasks SET status = 'SUCCEEDED', progress_processed = total_items,
		completed_at = now(), updated_at = now() WHERE id = $1 AND status = 'RUNNING'`
	err = s.inTx(ctx, "finish the launch", func(tx *sqlx.Tx) error {
		var taskID uuid.UUID
		err := tx.GetContext(ctx, &taskID, elect, id)
		if isNoRows(err) {
			return nil
		}
		if err != nil {
			return classify("finish the launch", err)
		}
		if err := storeStatistics(ctx, tx, id, taskID); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, process, taskID); err != nil {
			return classify("close the questions", err)
		}
		result, err := tx.ExecContext(ctx, close, taskID)
		finished = true
		return requireRow("close the task", result, err)
	})
	return finished && err == nil, err
}

// FailLaunch ends a launch and its task because of a fault of the system that code names. Units not
// begun are stopped; results already stored stay. ErrConflict: the launch had ended before.
func (s *Store) FailLaunch(ctx context.Context, id uuid.UUID, code string) error {
	const fail = `UPDATE launches SET status = 'FAILED', finished_at = now()
		WHERE id = $1 AND status IN ('PENDING', 'RUNNING') RETURNING task_id`
	const stop = `UPDATE units SET state = 'STOPPED', epoch = epoch + 1, worker_id = NULL
		WHERE launch_id = $1 AND state IN ('QUEUED', 'RUNNING')`
	const failTask = `UPDATE evaluation_tasks SET status = 'FAILED', failure_code = $2, completed_at = now(), updated_at = now()
		WHERE id = $1 AND status IN ('PENDING', 'RUNNING')`
	return s.inTx(ctx, "fail the launch", func(tx *sqlx.Tx) error {
		var taskID uuid.UUID
		err := tx.GetContext(ctx, &taskID, fail, id)
		if isNoRows(err) {
			return ErrConflict
		}
		if err != nil {
			return classify("fail the launch", err)
		}
		if _, err := tx.ExecContext(ctx, stop, id); err != nil {
			return classify("stop the units", err)
		}
		if err := storeStatistics(ctx, tx, id, taskID); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, failTask, taskID, code)
		return requireRow("fail the task", result, err)
	})
}

// ActiveLaunch is a launch that reconcile may have to help.
type ActiveLaunch struct {
	ID      uuid.UUID `db:"id"`
	Started bool      `db:"started"`
	// WantedLanes is how many more lanes the launch could use now: none while its agent has no free moment.
	WantedLanes int `db:"wanted_lanes"`
	// IsDone says that no unit is left to run and nobody closed the launch.
	IsDone bool `db:"is_done"`
}

// ActiveLaunches returns every launch that has not ended, oldest first. A launch younger than a second
// is left to the process that made it.
func (s *Store) ActiveLaunches(ctx context.Context) ([]ActiveLaunch, error) {
	const query = `SELECT l.id, l.status = 'RUNNING' AS started,
		CASE WHEN a.next_free > now() + $2 * interval '1 microsecond' THEN 0
			ELSE greatest(0, least(l.concurrency - lanes.n, queued.n)) END AS wanted_lanes,
		l.status = 'RUNNING' AND running.n = 0 AND queued.n = 0 AS is_done
		FROM launches l LEFT JOIN agents a ON a.origin = l.agent_origin,
		LATERAL (` + liveLanes + `) lanes,
		LATERAL (SELECT count(*) AS n FROM units u WHERE u.launch_id = l.id AND u.state = 'RUNNING') running,
		LATERAL (SELECT count(*) AS n FROM (SELECT 1 FROM units u WHERE u.launch_id = l.id AND u.state = 'QUEUED'
			LIMIT l.concurrency) few) queued
		WHERE l.status IN ('PENDING', 'RUNNING') AND l.created_at < now() - interval '1 second'
		ORDER BY l.created_at`
	var launches []ActiveLaunch
	err := s.db.SelectContext(ctx, &launches, query, WorkerDeadAfter.Seconds(), rateHorizon.Microseconds())
	return launches, classify("list the active launches", err)
}

// Statistics are the counts and latencies of a task's current runs. Latencies are in milliseconds and
// cover the runs that succeeded; they are nil when none did.
type Statistics struct {
	Runs       int            `json:"runs"`
	Succeeded  int            `json:"succeeded"`
	Failed     int            `json:"failed"`
	TimedOut   int            `json:"timed_out"`
	Attempts   int            `json:"attempts"`
	ErrorCodes map[string]int `json:"error_codes"`
	LatencyAvg *float64       `json:"latency_avg_ms"`
	LatencyP50 *float64       `json:"latency_p50_ms"`
	LatencyP90 *float64       `json:"latency_p90_ms"`
	LatencyP99 *float64       `json:"latency_p99_ms"`
	// Duration is from the launch's start to its end or, while it runs, to now, in seconds.
	Duration *float64 `json:"duration_seconds"`
}

// computeStatistics gives Statistics as JSON over the current runs of the task $2, timed by the launch $1.
const computeStatistics = `SELECT json_build_object(
	'runs', count(*),
	'succeeded', count(*) FILTER (WHERE r.status = 'SUCCEEDED'),
	'failed', count(*) FILTER (WHERE r.status = 'FAILED'),
	'timed_out', count(*) FILTER (WHERE r.status = 'TIMEOUT'),
	'attempts', coalesce(sum(r.attempts), 0),
	'error_codes', coalesce((SELECT json_object_agg(e.error_code, e.n) FROM (SELECT error_code, count(*) AS n
		FROM evaluation_runs WHERE task_id = $2 AND is_current AND error_code IS NOT NULL
		GROUP BY error_code ORDER BY error_code) e), '{}'),
	'latency_avg_ms', round(avg(r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'), 1),
	'latency_p50_ms', percentile_cont(0.5) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
	'latency_p90_ms', percentile_cont(0.9) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
	'latency_p99_ms', percentile_cont(0.99) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
	'duration_seconds', (SELECT round(extract(epoch FROM coalesce(finished_at, now()) - started_at), 3)
		FROM launches WHERE id = $1))
	FROM evaluation_runs r WHERE r.task_id = $2 AND r.is_current`

func storeStatistics(ctx context.Context, tx *sqlx.Tx, launchID, taskID uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `UPDATE launches SET statistics = (`+computeStatistics+`) WHERE id = $1`, launchID, taskID)
	return classify("compute the statistics", err)
}

// TaskStatistics returns the statistics of the task's newest launch: the final ones, or those of this
// moment while it runs.
func (s *Store) TaskStatistics(ctx context.Context, taskID uuid.UUID) (Statistics, error) {
	const newest = `SELECT id, statistics FROM launches WHERE task_id = $1 ORDER BY created_at DESC LIMIT 1`
	var launch struct {
		ID         uuid.UUID        `db:"id"`
		Statistics *json.RawMessage `db:"statistics"`
	}
	if err := s.db.GetContext(ctx, &launch, newest, taskID); err != nil {
		return Statistics{}, classify("find the newest launch", err)
	}
	if launch.Statistics == nil {
		if err := s.db.GetContext(ctx, &launch.Statistics, computeStatistics, launch.ID, taskID); err != nil {
			return Statistics{}, classify("compute the statistics", err)
		}
	}
	var statistics Statistics
	return statistics, json.Unmarshal(*launch.Statistics, &statistics)
}

// PostponeAgent moves the next free moment of an agent at least wait into the future: it answered 429.
func (s *Store) PostponeAgent(ctx context.Context, origin string, wait time.Duration) error {
	_, err := s.db.ExecContext(ctx, `UPDATE agents SET next_free = greatest(next_free, now() + $2 * interval '1 microsecond')
		WHERE origin = $1`, origin, wait.Microseconds())
	return classify("postpone the agent", err)
}
