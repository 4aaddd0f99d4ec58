package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db/pg"
)

// LaunchKind is why a launch was made.
type LaunchKind string

// The kinds of launches. SUBMIT and RESUME run what has no run yet; RETRY_FAILED runs everything that did not
// succeed.
const (
	LaunchSubmit LaunchKind = "SUBMIT"
	LaunchRetry  LaunchKind = "RETRY_FAILED"
	LaunchResume LaunchKind = "RESUME"
)

// LaunchKinds are all kinds.
var LaunchKinds = []LaunchKind{LaunchSubmit, LaunchRetry, LaunchResume}

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

// LaunchStatuses are all states in the order of a launch's life.
var LaunchStatuses = []LaunchStatus{LaunchPending, LaunchRunning, LaunchStopping, LaunchSucceeded, LaunchStopped, LaunchFailed}

// NewLaunch is how a launch runs and who requested it.
type NewLaunch struct {
	// AgentOrigin is scheme://host:port of the agent, the key of the rate limit.
	AgentOrigin string
	// CallInterval is the least time between two calls to the origin; zero means unlimited.
	CallInterval time.Duration
	By           Actor
}

// newLaunchRow is a launch to insert.
type newLaunchRow struct {
	TaskID uuid.UUID
	Kind   LaunchKind
	// ItemID is the one question to retry; nil means all.
	ItemID *int64
	NewLaunch
}

func insertLaunch(ctx context.Context, tx *sqlx.Tx, n newLaunchRow) (uuid.UUID, error) {
	const insert = `
		INSERT INTO launches (
			id, task_id, number, kind, item_id, concurrency, agent_origin, call_interval, requested_by, requested_via)
		SELECT CAST(:id AS uuid), t.id, (SELECT count(*) + 1 FROM launches WHERE task_id = t.id), :kind, CAST(:item AS bigint),
			t.concurrency, :origin, CAST(:interval AS bigint), :by, :via
		FROM evaluation_tasks t
		WHERE t.id = :task`
	id := uuid.New()
	_, err := pg.ExecNamed(ctx, tx, insert, map[string]any{
		"id": id, "task": n.TaskID, "kind": n.Kind, "item": n.ItemID, "origin": n.AgentOrigin,
		"interval": n.CallInterval.Microseconds(), "by": n.By.Address, "via": n.By.Via,
	})
	return id, pg.Classify("store the launch", err)
}

// RunsLeft returns how many runs a launch of the kind would make now, 0 where the task's state does not allow it
// or nothing is left for it. It is the one rule that pages, API and store share. statistics are the task's.
func (t Task) RunsLeft(kind LaunchKind, statistics TaskStatistics) int {
	if !t.allows(kind) {
		return 0
	}
	left := t.TotalRuns() - statistics.Runs
	if kind == LaunchRetry {
		left += statistics.Failed + statistics.TimedOut
	}
	return left
}

// allows reports whether the task's state alone allows a launch of the kind.
func (t Task) allows(kind LaunchKind) bool {
	switch kind {
	case LaunchSubmit:
		return t.IsDraft()
	case LaunchResume:
		return t.Status == TaskStopped || t.Status == TaskFailed
	}
	return !t.Status.IsActive()
}

const countLeftOfItem = `
	SELECT t.runs_per_item - (
		SELECT count(*) FROM evaluation_runs r WHERE r.item_id = $2 AND r.is_current AND r.status = 'SUCCEEDED')
	FROM evaluation_tasks t
	WHERE t.id = $1`

const reopenTask = `
	UPDATE evaluation_tasks
	SET status = 'RUNNING', started_at = coalesce(started_at, now()), completed_at = NULL, failure_code = NULL,
		statistics = NULL, is_pruned = false, updated_at = now()
	WHERE id = $1`

// RequestLaunch starts a draft (SUBMIT), continues with what has no run (RESUME) or retries everything that did
// not succeed (RETRY_FAILED; a questionID narrows it to one question). The task is RUNNING from then on.
// It returns ErrConflict if the task's state does not allow it or another request was first, ErrNothingToRun if
// nothing is left for this kind, and ErrNotFound if there is no such task or question.
func (s *Store) RequestLaunch(ctx context.Context, taskID uuid.UUID, kind LaunchKind, questionID string, n NewLaunch) (launchID uuid.UUID, err error) {
	err = s.db.InTx(ctx, "request the launch", func(tx *sqlx.Tx) error {
		task, err := lockTask(ctx, tx, taskID)
		if err != nil {
			return err
		}
		if !task.allows(kind) {
			return fmt.Errorf("a %s launch of a task that is %s: %w", kind, task.Status, ErrConflict)
		}
		item, err := runsToMake(ctx, tx, task, kind, questionID)
		if err != nil {
			return err
		}
		if launchID, err = insertLaunch(ctx, tx, newLaunchRow{TaskID: taskID, Kind: kind, ItemID: item, NewLaunch: n}); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, reopenTask, taskID); err != nil {
			return pg.Classify("reopen the task", err)
		}
		return notify(ctx, tx, taskID)
	})
	return launchID, err
}

func lockTask(ctx context.Context, tx *sqlx.Tx, id uuid.UUID) (Task, error) {
	var locked uuid.UUID
	if err := tx.GetContext(ctx, &locked, `SELECT id FROM evaluation_tasks WHERE id = $1 FOR UPDATE`, id); err != nil {
		return Task{}, notFound(KindTask, pg.Classify("lock the task", err))
	}
	return readTask(ctx, tx, id)
}

// runsToMake returns the item that questionID names, nil for all, or ErrNothingToRun.
func runsToMake(ctx context.Context, tx *sqlx.Tx, task Task, kind LaunchKind, questionID string) (item *int64, err error) {
	left := 0
	if questionID == "" {
		statistics, err := taskStatistics(ctx, tx, task)
		if err != nil {
			return nil, err
		}
		left = task.RunsLeft(kind, statistics)
	} else {
		const find = `SELECT id FROM evaluation_items WHERE task_id = $1 AND question_id = $2`
		if err := tx.GetContext(ctx, &item, find, task.ID, questionID); err != nil {
			return nil, notFound(KindQuestion, pg.Classify("find the question", err))
		}
		if err := tx.GetContext(ctx, &left, countLeftOfItem, task.ID, item); err != nil {
			return nil, pg.Classify("count the runs that did not succeed", err)
		}
	}
	// A task that failed may be resumed even if all its runs exist: only the launch was not finished.
	if left == 0 && (kind != LaunchResume || task.Status != TaskFailed) {
		return nil, ErrNothingToRun
	}
	return item, nil
}

const startLaunch = `
	UPDATE launches
	SET status = 'RUNNING', started_at = now()
	WHERE id = $1 AND status = 'PENDING'
	RETURNING task_id, agent_origin`

// A run that succeeded is never repeated.
const insertUnits = `
	INSERT INTO units (launch_id, item_id, run_index)
	SELECT l.id, i.id, n
	FROM launches l
	JOIN evaluation_tasks t ON t.id = l.task_id
	JOIN evaluation_items i ON i.task_id = t.id AND (l.item_id IS NULL OR i.id = l.item_id),
	generate_series(1, t.runs_per_item) n
	WHERE l.id = $1
	  AND NOT EXISTS (
		SELECT FROM evaluation_runs r
		WHERE r.item_id = i.id AND r.run_index = n AND r.is_current
		  AND (l.kind <> 'RETRY_FAILED' OR r.status = 'SUCCEEDED'))
	ORDER BY i.id, n`

const countKept = `
	UPDATE launches l
	SET total_units = $2,
		kept_succeeded = present.succeeded,
		kept_failed = present.failed - repeated.runs,
		kept_items = complete.items
	FROM
		(SELECT count(*) FILTER (WHERE r.status = 'SUCCEEDED') AS succeeded, count(*) FILTER (WHERE r.status <> 'SUCCEEDED') AS failed
		FROM evaluation_runs r
		WHERE r.task_id = $3 AND r.is_current) present,
		(SELECT count(*) AS runs
		FROM units u
		JOIN evaluation_runs r ON r.item_id = u.item_id AND r.run_index = u.run_index AND r.is_current
		WHERE u.launch_id = $1) repeated,
		(SELECT count(*) AS items
		FROM (
			SELECT r.item_id
			FROM evaluation_runs r
			WHERE r.task_id = $3 AND r.is_current
			GROUP BY r.item_id
			HAVING count(*) = (SELECT runs_per_item FROM evaluation_tasks WHERE id = $3)) whole
		WHERE NOT EXISTS (SELECT FROM units u WHERE u.launch_id = $1 AND u.item_id = whole.item_id)) complete
	WHERE l.id = $1`

const startTask = `
	UPDATE evaluation_tasks
	SET status = 'RUNNING', started_at = coalesce(started_at, now()), updated_at = now()
	WHERE id = $1 AND status IN ('PENDING', 'RUNNING')`

// StartLaunch makes the units of a PENDING launch and sets it and its task RUNNING, in one transaction. It
// returns how many units the launch has. ErrConflict means that another process has already started it.
func (s *Store) StartLaunch(ctx context.Context, id uuid.UUID) (units int, err error) {
	err = s.db.InTx(ctx, "start the launch", func(tx *sqlx.Tx) error {
		var launch struct {
			TaskID uuid.UUID `db:"task_id"`
			Origin string    `db:"agent_origin"`
		}
		err := tx.GetContext(ctx, &launch, startLaunch, id)
		if pg.IsNoRows(err) {
			return ErrConflict
		}
		if err != nil {
			return pg.Classify("start the launch", err)
		}
		if err := pg.PreferIndexes(ctx, tx); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, insertUnits, id)
		if units, err = pg.Affected("make the units", result, err); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, countKept, id, units, launch.TaskID); err != nil {
			return pg.Classify("count what is kept", err)
		}
		if _, err := tx.ExecContext(ctx, insertOrigin, launch.Origin); err != nil {
			return pg.Classify("store the origin", err)
		}
		if err := refreshOrigin(ctx, tx, launch.Origin); err != nil {
			return err
		}
		result, err = tx.ExecContext(ctx, startTask, launch.TaskID)
		if err := pg.RequireRow("start the task", result, err); err != nil {
			return err
		}
		return notify(ctx, tx, launch.TaskID)
	})
	return units, err
}

// Call is what a lane must know to call a launch's agent.
type Call struct {
	LaunchID uuid.UUID
	TaskID   uuid.UUID
	// Task has the task's settings, which do not change while a launch of it is active, without its counts.
	Task Task
	// AgentOrigin is the key of the rate limit.
	AgentOrigin string
}

// LaunchCall returns how the units of a launch are run, or ErrNotFound. Of the task it reads what is stored: nothing
// is counted, because every lane that starts asks.
func (s *Store) LaunchCall(ctx context.Context, id uuid.UUID) (Call, error) {
	const query = `
		SELECT l.agent_origin, ` + taskColumns + `
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		WHERE l.id = $1`
	var row struct {
		Task
		Origin string `db:"agent_origin"`
	}
	if err := s.db.GetContext(ctx, &row, query, id); err != nil {
		return Call{}, notFound(KindLaunch, pg.Classify("read the launch", err))
	}
	return Call{LaunchID: id, TaskID: row.ID, Task: row.Task, AgentOrigin: row.Origin}, nil
}

// StopFor is how long calls in flight may continue after a stop before they are cut.
const StopFor = 30 * time.Second

// StopTask stops a task's launch: no unit is claimed after it. Calls in flight may finish for up to StopFor. It
// returns the launch, which FinishLaunch ends once none of its units is running. It returns ErrConflict if the task
// is not running.
func (s *Store) StopTask(ctx context.Context, taskID uuid.UUID, by Actor) (launchID uuid.UUID, err error) {
	const stop = `
		UPDATE launches
		SET status = 'STOPPING', stop_requested_at = now(), stopped_by = $2
		WHERE task_id = $1 AND status IN ('PENDING', 'RUNNING')
		RETURNING id, agent_origin`
	const stopping = `SELECT id FROM launches WHERE task_id = $1 AND status = 'STOPPING'`
	err = s.db.InTx(ctx, "stop the task", func(tx *sqlx.Tx) error {
		var origin string
		err := tx.QueryRowxContext(ctx, stop, taskID, by.Address).Scan(&launchID, &origin)
		if pg.IsNoRows(err) { // stopping twice has the same effect as stopping once
			if err = tx.GetContext(ctx, &launchID, stopping, taskID); pg.IsNoRows(err) {
				return ErrConflict
			}
			return pg.Classify("find the launch", err)
		}
		if err != nil {
			return pg.Classify("stop the launch", err)
		}
		if err := stopQueued(ctx, tx, launchID); err != nil {
			return err
		}
		if err := refreshOrigin(ctx, tx, origin); err != nil {
			return err
		}
		return notify(ctx, tx, taskID)
	})
	return launchID, err
}

// stopQueued stops the units that no worker has claimed.
func stopQueued(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID) error {
	const stop = `UPDATE units SET state = 'STOPPED', epoch = epoch + 1 WHERE launch_id = $1 AND state = 'QUEUED'`
	_, err := tx.ExecContext(ctx, stop, launchID)
	return pg.Classify("stop the queued units", err)
}

// CutStopped stops units still running well after their launch was stopped: their worker should have cut the
// calls itself, and a result that arrives later is rejected.
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
	return pg.Classify("cut stopped units", err)
}

const lockWorkingLaunch = `
	SELECT status, task_id, agent_origin
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
			WHEN $2 OR t.total_items * t.runs_per_item > (SELECT count(*) FROM evaluation_runs WHERE task_id = $1 AND is_current)
			THEN 'STOPPED'
			ELSE 'SUCCEEDED'
		END
	WHERE t.id = $1 AND t.status IN ('PENDING', 'RUNNING')`

// FinishLaunch ends a launch that has nothing left to run. Exactly one caller gets true, with the statistics
// stored and the task SUCCEEDED – or STOPPED if the launch was stopped or runs are still missing from an earlier
// one. Call it only after the last result's commit. It returns an UnassessedError while there are questions to assess.
func (s *Store) FinishLaunch(ctx context.Context, id uuid.UUID) (finished bool, err error) {
	err = s.db.InTx(ctx, "finish the launch", func(tx *sqlx.Tx) error {
		var launch struct {
			Status LaunchStatus `db:"status"`
			TaskID uuid.UUID    `db:"task_id"`
			Origin string       `db:"agent_origin"`
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
		if err := storeStatistics(ctx, tx, id, launch.TaskID); err != nil {
			return err
		}
		// Last: it locks the origin, and claims of other tasks wait for that.
		if err := refreshOrigin(ctx, tx, launch.Origin); err != nil {
			return err
		}
		finished = true
		return notify(ctx, tx, launch.TaskID)
	})
	return finished && err == nil, err
}

// FailLaunch ends a launch and its task because of the internal fault that code names. Units that did not begin
// are stopped; results already stored stay. It returns ErrConflict if the launch had already ended.
func (s *Store) FailLaunch(ctx context.Context, id uuid.UUID, code string) error {
	const fail = `
		UPDATE launches
		SET status = 'FAILED', finished_at = now()
		WHERE id = $1 AND status IN ('PENDING', 'RUNNING', 'STOPPING')
		RETURNING task_id, agent_origin`
	const stop = `
		UPDATE units
		SET state = 'STOPPED', epoch = epoch + 1, worker_id = NULL
		WHERE launch_id = $1 AND state IN ('QUEUED', 'RUNNING')`
	const failTask = `
		UPDATE evaluation_tasks
		SET status = 'FAILED', failure_code = $2, completed_at = now(), updated_at = now(), is_assessed = false
		WHERE id = $1 AND status IN ('PENDING', 'RUNNING')`
	return s.db.InTx(ctx, "fail the launch", func(tx *sqlx.Tx) error {
		var taskID uuid.UUID
		var origin string
		err := tx.QueryRowxContext(ctx, fail, id).Scan(&taskID, &origin)
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
		if err := storeStatistics(ctx, tx, id, taskID); err != nil {
			return err
		}
		if err := refreshOrigin(ctx, tx, origin); err != nil {
			return err
		}
		return notify(ctx, tx, taskID)
	})
}

// ActiveLaunch is a launch that reconcile may have to help.
type ActiveLaunch struct {
	ID      uuid.UUID `db:"id"`
	Started bool      `db:"started"`
	// WantedLanes is how many more lanes the launch could use now: none while its origin has no free slot.
	WantedLanes int `db:"wanted_lanes"`
	// IsDone reports that nothing of the launch runs or may begin, and that it has not been finished.
	IsDone bool `db:"is_done"`
}

const listActiveLaunches = `
	SELECT l.id, l.status <> 'PENDING' AS started,
		CASE
			WHEN l.status <> 'RUNNING' OR o.next_free > now() + $2 * interval '1 microsecond' THEN 0
			ELSE greatest(0, least(l.concurrency - live.lanes, queued.units,
				CASE WHEN live.lanes = 0 THEN greatest(1, room.lanes) ELSE room.lanes END))
		END AS wanted_lanes,
		l.status <> 'PENDING'
			AND NOT EXISTS (SELECT FROM units u WHERE u.launch_id = l.id AND u.state = 'RUNNING')
			AND (queued.units = 0 OR l.status = 'STOPPING') AS is_done
	FROM launches l
	LEFT JOIN origins o ON o.origin = l.agent_origin
	CROSS JOIN ( -- what workers have for launches that have lanes already: each keeps its last one for the others
		SELECT coalesce(sum(greatest(0, w.lanes - (SELECT count(*) FROM lanes WHERE worker_id = w.id) - least(w.lanes - 1, 1))), 0) AS lanes
		FROM workers w
		WHERE w.beat_at > now() - $1 * interval '1 second') room
	CROSS JOIN LATERAL (
		SELECT count(*) AS lanes
		FROM lanes
		JOIN workers w ON w.id = lanes.worker_id
		WHERE lanes.launch_id = l.id AND w.beat_at > now() - $1 * interval '1 second') live
	CROSS JOIN LATERAL (
		SELECT count(*) AS units
		FROM (SELECT FROM units u WHERE u.launch_id = l.id AND u.state = 'QUEUED' LIMIT l.concurrency) few) queued
	WHERE l.status IN ('PENDING', 'RUNNING', 'STOPPING')
	  AND l.created_at < now() - interval '1 second'
	ORDER BY l.created_at`

// ActiveLaunches returns every launch that has not ended, oldest first. A launch younger than a second is left
// to the process that made it.
func (s *Store) ActiveLaunches(ctx context.Context) ([]ActiveLaunch, error) {
	var launches []ActiveLaunch
	err := s.db.SelectContext(ctx, &launches, listActiveLaunches, WorkerDeadAfter.Seconds(), rateHorizon.Microseconds())
	return launches, pg.Classify("list the active launches", err)
}

// Launch is one start of a task, as its history shows it.
type Launch struct {
	ID     uuid.UUID    `db:"id"`
	Number int          `db:"number"`
	Kind   LaunchKind   `db:"kind"`
	Status LaunchStatus `db:"status"`
	// QuestionID is the one question that was retried, with its number (1-based, in the order of pages) and text;
	// nil means all.
	QuestionID     *string    `db:"question_id"`
	QuestionNumber *int       `db:"question_number"`
	Question       *string    `db:"question"`
	RequestedBy    string     `db:"requested_by"`
	RequestedVia   string     `db:"requested_via"`
	StoppedBy      string     `db:"stopped_by"`
	TotalUnits     int        `db:"total_units"`
	CreatedAt      time.Time  `db:"created_at"`
	StartedAt      *time.Time `db:"started_at"`
	FinishedAt     *time.Time `db:"finished_at"`
	// Statistics are those of the launch's own runs, final or live.
	Statistics Statistics `db:"-"`
}

// $2 is the launch; NULL takes all launches of the task $1.
const listLaunches = `
	SELECT l.id, l.number, l.kind, l.status, i.question_id, i.question, l.requested_by, l.requested_via, l.stopped_by, l.total_units,
		l.created_at, l.started_at, l.finished_at, l.statistics,
		CASE WHEN i.id IS NOT NULL THEN (
			SELECT count(*) FROM evaluation_items WHERE task_id = l.task_id AND question_id <= i.question_id) END AS question_number
	FROM launches l
	LEFT JOIN evaluation_items i ON i.id = l.item_id
	WHERE l.task_id = $1 AND ($2::uuid IS NULL OR l.id = $2)
	ORDER BY l.number DESC
	LIMIT $3 OFFSET $4`

type launchRow struct {
	Launch
	Stored *Statistics `db:"statistics"`
}

// Launches returns one page of a task's launches, newest first, and how many there are.
func (s *Store) Launches(ctx context.Context, taskID uuid.UUID, page Page) (launches []Launch, total int, err error) {
	if launches, err = s.readLaunches(ctx, taskID, nil, page); err != nil {
		return nil, 0, err
	}
	if page.Number == 1 && len(launches) < page.Size { // as for nearly every task
		return launches, len(launches), nil
	}
	err = s.db.GetContext(ctx, &total, `SELECT count(*) FROM launches WHERE task_id = $1`, taskID)
	return launches, total, pg.Classify("count the launches", err)
}

// Launch returns one launch of a task, or ErrNotFound.
func (s *Store) Launch(ctx context.Context, taskID, id uuid.UUID) (Launch, error) {
	launches, err := s.readLaunches(ctx, taskID, &id, Page{Number: 1, Size: 1})
	if err == nil && len(launches) == 0 {
		err = &NotFoundError{Kind: KindLaunch}
	}
	if err != nil {
		return Launch{}, err
	}
	return launches[0], nil
}

func (s *Store) readLaunches(ctx context.Context, taskID uuid.UUID, id *uuid.UUID, page Page) ([]Launch, error) {
	var rows []launchRow
	if err := s.db.SelectContext(ctx, &rows, listLaunches, taskID, id, page.Size, page.Offset()); err != nil {
		return nil, pg.Classify("read the launches", err)
	}
	launches := make([]Launch, len(rows))
	for n, row := range rows {
		launches[n] = row.Launch
		if row.Stored != nil {
			launches[n].Statistics = *row.Stored
			continue
		}
		var err error
		if launches[n].Statistics, err = s.launchStatistics(ctx, row.ID); err != nil {
			return nil, err
		}
	}
	return launches, nil
}
