package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// LaunchKind is why a launch was made.
type LaunchKind string

// The kinds of launches. SUBMIT and RESUME run what has no run yet; RETRY_FAILED runs whatever did not
// succeed.
const (
	LaunchSubmit LaunchKind = "SUBMIT"
	LaunchRetry  LaunchKind = "RETRY_FAILED"
	LaunchResume LaunchKind = "RESUME"
)

// LaunchStatus is where a launch stands: PENDING → RUNNING (→ STOPPING) → SUCCEEDED, STOPPED or FAILED.
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

// NewLaunch is how a launch runs and who asked for it.
type NewLaunch struct {
	// AgentOrigin is scheme://host:port of the agent, the key of the rate limit.
	AgentOrigin string
	// CallInterval is the least time between two calls to the origin; zero: unlimited.
	CallInterval time.Duration
	By           Requester
}

// Requester is who asked for something: there are no accounts, so an address and the way.
type Requester struct {
	Address string
	// Via is "page" or "api"; empty: not known.
	Via string
}

func insertLaunch(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, kind LaunchKind, itemID *int64, n NewLaunch) (uuid.UUID, error) {
	const insert = `INSERT INTO launches
		(id, task_id, number, kind, item_id, concurrency, agent_origin, call_interval, requested_by, requested_via)
		SELECT $1, t.id, (SELECT count(*) + 1 FROM launches WHERE task_id = t.id), $3, $4, t.concurrency, $5, $6, $7, $8
		FROM evaluation_tasks t WHERE t.id = $2`
	id := uuid.New()
	_, err := tx.ExecContext(ctx, insert, id, taskID, kind, itemID, n.AgentOrigin, n.CallInterval.Microseconds(), n.By.Address, n.By.Via)
	return id, classify("store the launch", err)
}

// RequestLaunch starts a draft (SUBMIT), goes on with what was never asked (RESUME) or asks again whatever
// did not succeed (RETRY_FAILED; questionID narrows it to one question). The task is RUNNING from now on.
// ErrConflict: the task's state does not allow it, or somebody else was first; ErrNothingToRun: there is
// nothing to ask again; ErrNotFound: no such task or question.
func (s *Store) RequestLaunch(ctx context.Context, taskID uuid.UUID, kind LaunchKind, questionID string, n NewLaunch) (launchID uuid.UUID, err error) {
	const lock = `SELECT status, EXISTS (SELECT 1 FROM launches WHERE task_id = $1) AS is_launched
		FROM evaluation_tasks WHERE id = $1 FOR UPDATE`
	const findItem = `SELECT id FROM evaluation_items WHERE task_id = $1 AND question_id = $2`
	const countToRetry = `SELECT coalesce(sum(t.runs_per_item - (SELECT count(*) FROM evaluation_runs r
			WHERE r.item_id = i.id AND r.is_current AND r.status = 'SUCCEEDED')), 0)
		FROM evaluation_items i JOIN evaluation_tasks t ON t.id = i.task_id WHERE t.id = $1 AND ($2::bigint IS NULL OR i.id = $2)`
	const reopen = `UPDATE evaluation_tasks SET status = 'RUNNING', started_at = coalesce(started_at, now()), completed_at = NULL,
		failure_code = NULL, statistics = NULL, is_pruned = false, updated_at = now() WHERE id = $1`
	err = s.inTx(ctx, "request the launch", func(tx *sqlx.Tx) error {
		var task struct {
			Status     TaskStatus `db:"status"`
			IsLaunched bool       `db:"is_launched"`
		}
		if err := tx.GetContext(ctx, &task, lock, taskID); err != nil {
			return classify("lock the task", err)
		}
		if !mayLaunch(kind, task.Status, task.IsLaunched) {
			return fmt.Errorf("a launch %s of a task that is %s: %w", kind, task.Status, ErrConflict)
		}
		var item *int64
		if questionID != "" {
			if err := tx.GetContext(ctx, &item, findItem, taskID, questionID); err != nil {
				return classify("find the question", err)
			}
		}
		if kind == LaunchRetry {
			var open int
			if err := tx.GetContext(ctx, &open, countToRetry, taskID, item); err != nil {
				return classify("count what did not succeed", err)
			}
			if open == 0 {
				return ErrNothingToRun
			}
		}
		if launchID, err = insertLaunch(ctx, tx, taskID, kind, item, n); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, reopen, taskID); err != nil {
			return classify("open the task again", err)
		}
		return notify(ctx, tx, taskID)
	})
	return launchID, err
}

func mayLaunch(kind LaunchKind, status TaskStatus, isLaunched bool) bool {
	switch kind {
	case LaunchSubmit:
		return status == TaskPending && !isLaunched
	case LaunchResume:
		return status == TaskStopped || status == TaskFailed
	}
	return status == TaskSucceeded || status == TaskStopped || status == TaskFailed
}

// StartLaunch makes the units of a PENDING launch and sets it and its task RUNNING, in one transaction.
// It returns how many units the launch has, or ErrConflict when somebody else started it before.
func (s *Store) StartLaunch(ctx context.Context, id uuid.UUID) (units int, err error) {
	const start = `UPDATE launches SET status = 'RUNNING', started_at = now()
		WHERE id = $1 AND status = 'PENDING' RETURNING task_id, agent_origin`
	const makeUnits = `INSERT INTO units (launch_id, item_id, run_index)
		SELECT l.id, i.id, n FROM launches l JOIN evaluation_tasks t ON t.id = l.task_id
		JOIN evaluation_items i ON i.task_id = t.id AND (l.item_id IS NULL OR i.id = l.item_id), generate_series(1, t.runs_per_item) n
		WHERE l.id = $1 AND NOT EXISTS (SELECT 1 FROM evaluation_runs r WHERE r.item_id = i.id AND r.run_index = n AND r.is_current
			AND (l.kind <> 'RETRY_FAILED' OR r.status = 'SUCCEEDED'))
		ORDER BY i.id, n`
	// A run that succeeded is never asked again.
	const countKept = `UPDATE launches l SET total_units = $2, kept_succeeded = now.succeeded, kept_failed = now.failed - again.runs
		FROM (SELECT count(*) FILTER (WHERE r.status = 'SUCCEEDED') AS succeeded, count(*) FILTER (WHERE r.status <> 'SUCCEEDED') AS failed
				FROM evaluation_runs r WHERE r.task_id = $3 AND r.is_current) now,
			(SELECT count(*) AS runs FROM units u JOIN evaluation_runs r ON r.item_id = u.item_id AND r.run_index = u.run_index AND r.is_current
				WHERE u.launch_id = $1) again
		WHERE l.id = $1`
	const reopenItems = `UPDATE evaluation_items SET processed = false
		WHERE id = ANY (ARRAY(SELECT DISTINCT item_id FROM units WHERE launch_id = $1)) AND processed`
	const startTask = `UPDATE evaluation_tasks SET status = 'RUNNING', started_at = coalesce(started_at, now()), updated_at = now(),
		progress_processed = (SELECT count(*) FROM evaluation_items WHERE task_id = $1 AND processed)
		WHERE id = $1 AND status IN ('PENDING', 'RUNNING')`
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
		if err := readAlongIndexes(ctx, tx); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, makeUnits, id)
		if err != nil {
			return classify("make the units", err)
		}
		made, err := result.RowsAffected()
		if err != nil {
			return classify("make the units", err)
		}
		units = int(made)
		if _, err := tx.ExecContext(ctx, countKept, id, units, launch.TaskID); err != nil {
			return classify("count what is kept", err)
		}
		if _, err := tx.ExecContext(ctx, reopenItems, id); err != nil {
			return classify("open the questions again", err)
		}
		if _, err := tx.ExecContext(ctx, knowAgent, launch.Origin); err != nil {
			return classify("note the agent", err)
		}
		result, err = tx.ExecContext(ctx, startTask, launch.TaskID)
		if err := requireRow("start the task", result, err); err != nil {
			return err
		}
		return notify(ctx, tx, launch.TaskID)
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
		FROM launches l, LATERAL (SELECT ` + taskColumns + ` FROM evaluation_tasks WHERE id = l.task_id) t WHERE l.id = $1`
	var call Call
	err := s.db.GetContext(ctx, &call, query, id)
	return call, classify("read the launch", err)
}

// StopFor is how long calls in flight may go on after a stop before they are cut.
const StopFor = 30 * time.Second

// StopTask ends a task's launch: no unit is handed out after it. Calls in flight may finish for up to
// StopFor. It returns the launch, which FinishLaunch closes when nothing of it runs any more. ErrConflict:
// the task is not at work.
func (s *Store) StopTask(ctx context.Context, taskID uuid.UUID, by Requester) (launchID uuid.UUID, err error) {
	const stop = `UPDATE launches SET status = 'STOPPING', stop_requested_at = now(), stopped_by = $2
		WHERE task_id = $1 AND status IN ('PENDING', 'RUNNING') RETURNING id`
	const stopping = `SELECT id FROM launches WHERE task_id = $1 AND status = 'STOPPING'`
	err = s.inTx(ctx, "stop the task", func(tx *sqlx.Tx) error {
		err := tx.GetContext(ctx, &launchID, stop, taskID, by.Address)
		if isNoRows(err) { // stopped twice is stopped
			if err = tx.GetContext(ctx, &launchID, stopping, taskID); isNoRows(err) {
				return ErrConflict
			}
			return classify("find the launch", err)
		}
		if err != nil {
			return classify("stop the launch", err)
		}
		if err := stopQueued(ctx, tx, launchID); err != nil {
			return err
		}
		return notify(ctx, tx, taskID)
	})
	return launchID, err
}

// stopQueued takes back what nobody has claimed.
func stopQueued(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `UPDATE units SET state = 'STOPPED', epoch = epoch + 1 WHERE launch_id = $1 AND state = 'QUEUED'`, launchID)
	return classify("stop the queued units", err)
}

// CutStopped stops the units that still run well after their launch was told to stop: their worker should
// have cut the calls itself, and a result that comes later is refused.
func (s *Store) CutStopped(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `UPDATE units u SET state = 'STOPPED', epoch = epoch + 1, worker_id = NULL FROM launches l
		WHERE l.status = 'STOPPING' AND l.stop_requested_at < now() - $1 * interval '1 second' AND u.launch_id = l.id AND u.state = 'RUNNING'`,
		(StopFor + 5*time.Second).Seconds())
	return classify("cut what was stopped", err)
}

// FinishLaunch closes a launch that has nothing left to run: exactly one caller gets true, with the
// statistics stored and the task SUCCEEDED – or STOPPED, when the launch was stopped or runs are missing
// still from one before. Call it only after the last result's commit.
func (s *Store) FinishLaunch(ctx context.Context, id uuid.UUID) (finished bool, err error) {
	const lock = `SELECT status, task_id FROM launches WHERE id = $1 AND status IN ('RUNNING', 'STOPPING') FOR UPDATE`
	const elect = `UPDATE launches l SET finished_at = now(), status = CASE WHEN l.status = 'STOPPING' THEN 'STOPPED' ELSE 'SUCCEEDED' END
		WHERE l.id = $1 AND l.status IN ('RUNNING', 'STOPPING')
		AND NOT EXISTS (SELECT 1 FROM units u WHERE u.launch_id = l.id AND u.state IN ('QUEUED', 'RUNNING'))
		RETURNING 1`
	const closeTask = `UPDATE evaluation_tasks t SET completed_at = now(), updated_at = now(),
		progress_processed = (SELECT count(*) FROM evaluation_items WHERE task_id = $1 AND processed),
		status = CASE WHEN $2 OR t.total_items * t.runs_per_item > (SELECT count(*) FROM evaluation_runs WHERE task_id = $1 AND is_current)
			THEN 'STOPPED' ELSE 'SUCCEEDED' END
		WHERE t.id = $1 AND t.status IN ('PENDING', 'RUNNING')`
	err = s.inTx(ctx, "finish the launch", func(tx *sqlx.Tx) error {
		var launch struct {
			Status LaunchStatus `db:"status"`
			TaskID uuid.UUID    `db:"task_id"`
		}
		err := tx.GetContext(ctx, &launch, lock, id)
		if isNoRows(err) {
			return nil
		}
		if err != nil {
			return classify("lock the launch", err)
		}
		if launch.Status == LaunchStopping { // a dead worker's units may have come back to the queue meanwhile
			if err := stopQueued(ctx, tx, id); err != nil {
				return err
			}
		}
		var elected int
		err = tx.GetContext(ctx, &elected, elect, id)
		if isNoRows(err) {
			return nil
		}
		if err != nil {
			return classify("finish the launch", err)
		}
		if err := readAlongIndexes(ctx, tx); err != nil {
			return err
		}
		if err := closeQuestions(ctx, tx, launch.TaskID); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, closeTask, launch.TaskID, launch.Status == LaunchStopping)
		if err := requireRow("close the task", result, err); err != nil {
			return err
		}
		if err := storeStatistics(ctx, tx, id, launch.TaskID); err != nil {
			return err
		}
		finished = true
		return notify(ctx, tx, launch.TaskID)
	})
	return finished && err == nil, err
}

// closeQuestions marks every question of a task as processed that has all its runs, from whatever launch.
func closeQuestions(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `UPDATE evaluation_items SET processed = true WHERE NOT processed AND id = ANY (ARRAY(
		SELECT item_id FROM evaluation_runs WHERE task_id = $1 AND is_current GROUP BY item_id
		HAVING count(*) = (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)))`, taskID)
	return classify("close the questions", err)
}

// FailLaunch ends a launch and its task because of a fault of the system that code names. Units not
// begun are stopped; results already stored stay. ErrConflict: the launch had ended before.
func (s *Store) FailLaunch(ctx context.Context, id uuid.UUID, code string) error {
	const fail = `UPDATE launches SET status = 'FAILED', finished_at = now()
		WHERE id = $1 AND status IN ('PENDING', 'RUNNING', 'STOPPING') RETURNING task_id`
	const stop = `UPDATE units SET state = 'STOPPED', epoch = epoch + 1, worker_id = NULL
		WHERE launch_id = $1 AND state IN ('QUEUED', 'RUNNING')`
	const failTask = `UPDATE evaluation_tasks SET status = 'FAILED', failure_code = $2, completed_at = now(), updated_at = now(),
		progress_processed = (SELECT count(*) FROM evaluation_items WHERE task_id = $1 AND processed)
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
		if err := closeQuestions(ctx, tx, taskID); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, failTask, taskID, code)
		if err := requireRow("fail the task", result, err); err != nil {
			return err
		}
		if err := storeStatistics(ctx, tx, id, taskID); err != nil {
			return err
		}
		return notify(ctx, tx, taskID)
	})
}

// ActiveLaunch is a launch that reconcile may have to help.
type ActiveLaunch struct {
	ID      uuid.UUID `db:"id"`
	Started bool      `db:"started"`
	// WantedLanes is how many more lanes the launch could use now: none while its agent has no free moment.
	WantedLanes int `db:"wanted_lanes"`
	// IsDone says that nothing of the launch runs or may be begun, and nobody closed it.
	IsDone bool `db:"is_done"`
}

// ActiveLaunches returns every launch that has not ended, oldest first. A launch younger than a second
// is left to the process that made it.
func (s *Store) ActiveLaunches(ctx context.Context) ([]ActiveLaunch, error) {
	const query = `SELECT l.id, l.status <> 'PENDING' AS started,
		CASE WHEN l.status <> 'RUNNING' OR a.next_free > now() + $2 * interval '1 microsecond' THEN 0
			ELSE greatest(0, least(l.concurrency - lanes.n, queued.n)) END AS wanted_lanes,
		l.status <> 'PENDING' AND NOT EXISTS (SELECT 1 FROM units u WHERE u.launch_id = l.id AND u.state = 'RUNNING')
			AND (queued.n = 0 OR l.status = 'STOPPING') AS is_done
		FROM launches l LEFT JOIN agents a ON a.origin = l.agent_origin,
		LATERAL (` + liveLanes + `) lanes,
		LATERAL (SELECT count(*) AS n FROM (SELECT 1 FROM units u WHERE u.launch_id = l.id AND u.state = 'QUEUED'
			LIMIT l.concurrency) few) queued
		WHERE l.status IN ('PENDING', 'RUNNING', 'STOPPING') AND l.created_at < now() - interval '1 second'
		ORDER BY l.created_at`
	var launches []ActiveLaunch
	err := s.db.SelectContext(ctx, &launches, query, WorkerDeadAfter.Seconds(), rateHorizon.Microseconds())
	return launches, classify("list the active launches", err)
}

// Launch is one start of a task, as its history shows it.
type Launch struct {
	ID     uuid.UUID    `db:"id"`
	Number int          `db:"number"`
	Kind   LaunchKind   `db:"kind"`
	Status LaunchStatus `db:"status"`
	// QuestionID is the one question that was retried; nil: all.
	QuestionID   *string    `db:"question_id"`
	RequestedBy  string     `db:"requested_by"`
	RequestedVia string     `db:"requested_via"`
	StoppedBy    string     `db:"stopped_by"`
	TotalUnits   int        `db:"total_units"`
	CreatedAt    time.Time  `db:"created_at"`
	StartedAt    *time.Time `db:"started_at"`
	FinishedAt   *time.Time `db:"finished_at"`
	// Statistics are those of the launch's own runs, final or of this moment.
	Statistics Statistics `db:"-"`
}

const launchColumns = `l.id, l.number, l.kind, l.status, i.question_id, l.requested_by, l.requested_via, l.stopped_by, l.total_units,
	l.created_at, l.started_at, l.finished_at, l.statistics
	FROM launches l LEFT JOIN evaluation_items i ON i.id = l.item_id`

type launchRow struct {
	Launch
	Stored *Statistics `db:"statistics"`
}

// Launches returns one page of a task's launches, newest first, and how many there are.
func (s *Store) Launches(ctx context.Context, taskID uuid.UUID, page Page) (launches []Launch, total int, err error) {
	if err := s.db.GetContext(ctx, &total, `SELECT count(*) FROM launches WHERE task_id = $1`, taskID); err != nil {
		return nil, 0, classify("count the launches", err)
	}
	var rows []launchRow
	if err := s.db.SelectContext(ctx, &rows, `SELECT `+launchColumns+` WHERE l.task_id = $1 ORDER BY l.number DESC LIMIT $2 OFFSET $3`,
		taskID, page.Size, page.offset()); err != nil {
		return nil, 0, classify("list the launches", err)
	}
	for _, row := range rows {
		launch, err := s.withStatistics(ctx, row)
		if err != nil {
			return nil, 0, err
		}
		launches = append(launches, launch)
	}
	return launches, total, nil
}

// Launch returns one launch of a task, or ErrNotFound.
func (s *Store) Launch(ctx context.Context, taskID, id uuid.UUID) (Launch, error) {
	var row launchRow
	if err := s.db.GetContext(ctx, &row, `SELECT `+launchColumns+` WHERE l.task_id = $1 AND l.id = $2`, taskID, id); err != nil {
		return Launch{}, classify("read the launch", err)
	}
	return s.withStatistics(ctx, row)
}

func (s *Store) withStatistics(ctx context.Context, row launchRow) (launch Launch, err error) {
	launch = row.Launch
	if row.Stored != nil {
		launch.Statistics = *row.Stored
		return launch, nil
	}
	launch.Statistics, err = s.launchStatistics(ctx, row.ID)
	return launch, err
}

// PostponeAgent moves the next free moment of an agent at least wait into the future: it answered 429.
func (s *Store) PostponeAgent(ctx context.Context, origin string, wait time.Duration) error {
	_, err := s.db.ExecContext(ctx, `UPDATE agents SET next_free = greatest(next_free, now() + $2 * interval '1 microsecond')
		WHERE origin = $1`, origin, wait.Microseconds())
	return classify("postpone the agent", err)
}
