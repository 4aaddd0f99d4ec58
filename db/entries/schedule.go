package entries

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/outbox"
	"wending/db/pg"
)

// FiringOutcome tells whether a firing started a task.
type FiringOutcome string

// A firing either started a copy of the task, was skipped because the previous copy was still running, or failed to
// copy the task.
const (
	FiringStarted FiringOutcome = "STARTED"
	FiringSkipped FiringOutcome = "SKIPPED"
	FiringFailed  FiringOutcome = "FAILED"
)

// FiringOutcomes are all outcomes.
var FiringOutcomes = []FiringOutcome{FiringStarted, FiringSkipped, FiringFailed}

// The reasons why a firing started nothing; the catalogues explain the codes.
const (
	ReasonRunning = "PREVIOUS_RUNNING"
	ReasonTask    = "TASK_GONE"
	ReasonSecret  = "SECRET_KEY_CHANGED"
	ReasonQuota   = "QUOTA_EXCEEDED"
	ReasonDisk    = "DISK_FULL"
	// The rest are about the current contents of the library.
	ReasonAddress  = "AGENT_URL_NOT_ALLOWED" // the address of the task's agent is no longer allowed
	ReasonDataset  = "DATASET_UNREADABLE"    // the newest dataset cannot be read
	ReasonColumn   = "COLUMN_MISSING"        // the newest dataset lacks a column that the task needs
	ReasonTooLarge = "TASK_TOO_LARGE"        // the task has become too large
	ReasonInvalid  = "TASK_INVALID"          // the task violates another rule
	// ReasonSensitive means that the task would send content that its project does not allow.
	ReasonSensitive = "SENSITIVE_CONTENT"
)

// FiringReasons lists all reasons.
var FiringReasons = []string{ReasonRunning, ReasonTask, ReasonSecret, ReasonQuota, ReasonDisk, ReasonAddress,
	ReasonDataset,
	ReasonColumn, ReasonTooLarge, ReasonInvalid, ReasonSensitive}

// Firing is a row of firings: what happened at one planned time of a schedule.
type Firing struct {
	ID         int64         `db:"id"`
	ScheduleID uuid.UUID     `db:"schedule_id"`
	PlannedAt  time.Time     `db:"planned_at"`
	FiredAt    time.Time     `db:"fired_at"`
	Outcome    FiringOutcome `db:"outcome"`
	// Reason is why no task was started; nil if one was.
	Reason *string `db:"reason"`
	// Missed is how many later planned times had already passed when the schedule fired; their firings are skipped.
	Missed int `db:"missed"`
	// TaskID is the copy; nil if none was made or it has been deleted.
	TaskID *uuid.UUID `db:"task_id"`
	// Summary holds the numbers for the trend; nil while the copy runs.
	Summary *json.RawMessage `db:"summary"`
}

const columns = `f.id, f.schedule_id, f.planned_at, f.fired_at, f.outcome, f.reason, f.missed, f.task_id, f.summary`

// Schedules reads and fires schedules.
type Schedules struct {
	store *db.Store
	db    *pg.Pool
}

// NewSchedules returns the Schedules of a store.
func NewSchedules(store *db.Store) Schedules { return Schedules{store, store.Pool()} }

// Now returns the current time by the database's clock.
func (s Schedules) Now(ctx context.Context) (now time.Time, err error) {
	err = s.db.GetContext(ctx, &now, `SELECT now()`)
	return now, pg.Classify("read the clock", err)
}

// Due returns the schedules whose firing is overdue by late or more, and enabled schedules for which no firing is
// planned. now is the database's time.
func (s Schedules) Due(ctx context.Context, late time.Duration) (due []Schedule, now time.Time, err error) {
	const rest = `UPDATE schedules SET next_at = NULL WHERE next_at IS NOT NULL
		AND (NOT is_enabled OR archived_at IS NOT NULL)`
	const list = `
		SELECT id, name, task_id, cron, timezone, is_enabled, follow, channels, alert_metric, alert_below, alerts_worse,
		alert_margin, next_at, created_at, updated_at, archived_at
		FROM schedules
		WHERE is_enabled AND archived_at IS NULL AND (next_at IS NULL OR next_at <= now() - $1 * interval '1 microsecond')
		ORDER BY next_at, id`
	if _, err := s.db.ExecContext(ctx, rest); err != nil {
		return nil, now, pg.Classify("pause schedules", err)
	}
	if err := s.db.SelectContext(ctx, &due, list, late.Microseconds()); err != nil || len(due) == 0 {
		return nil, now, pg.Classify("look for schedules", err)
	}
	now, err = s.Now(ctx)
	return due, now, err
}

// Plan stores the next firing of a schedule that has none planned.
func (s Schedules) Plan(ctx context.Context, id uuid.UUID, next time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE schedules SET next_at = $2 WHERE id = $1 AND next_at IS NULL`, id, next)
	return pg.Classify("plan a schedule", err)
}

// FiringCopy is the task that a firing starts; if there is none, Reason explains why.
type FiringCopy struct {
	Task   db.NewTask
	Reason string
}

// FiringTiming is when a schedule fires next, and how many planned times have passed since the one that fires now.
type FiringTiming struct {
	Next   time.Time
	Missed int
}

// Fire fires a schedule at the planned time in due, and plans the next firing in the same transaction, so that it fires
// exactly once even if several processes try or one dies. The firing is recorded as skipped while the previous copy
// runs, and as failed if n gives a reason; launchID is uuid.Nil then. Fire returns db.ErrConflict if the schedule has
// already fired or has changed.
func (s Schedules) Fire(ctx context.Context, due Schedule, timing FiringTiming,
	n FiringCopy) (f Firing, launchID uuid.UUID, err error) {
	const lock = `
		SELECT EXISTS (
			SELECT FROM evaluation_tasks t WHERE t.schedule_id = s.id AND t.status IN ('PENDING', 'RUNNING'))
		FROM schedules s
		WHERE s.id = $1 AND s.next_at = $2 AND s.updated_at = $3 AND s.is_enabled AND s.archived_at IS NULL
		FOR UPDATE`
	const fire = `
		INSERT INTO firings AS f (schedule_id, planned_at, outcome, reason, missed, task_id)
		VALUES ($1, $2, $3, nullif($4, ''), $5, $6)
		RETURNING ` + columns
	const plan = `UPDATE schedules SET next_at = $2 WHERE id = $1`
	err = s.db.InTx(ctx, "fire a schedule", func(tx *sqlx.Tx) error {
		var isRunning bool
		err := tx.GetContext(ctx, &isRunning, lock, due.ID, due.NextAt, due.UpdatedAt)
		if pg.IsNoRows(err) {
			return fmt.Errorf("the schedule was fired or changed: %w", db.ErrConflict)
		}
		if err != nil {
			return pg.Classify("lock the schedule", err)
		}
		outcome, reason, taskID := FiringStarted, n.Reason, &n.Task.Task.ID
		switch {
		case isRunning:
			outcome, reason, taskID = FiringSkipped, ReasonRunning, nil
		case reason != "":
			outcome, taskID = FiringFailed, nil
		default:
			n.Task.Task.ScheduleID = &due.ID
			if launchID, err = db.CreateTaskIn(ctx, tx, n.Task); err != nil {
				return err
			}
		}
		if err := tx.GetContext(ctx, &f, fire, due.ID, due.NextAt, outcome, reason, timing.Missed, taskID); err != nil {
			return pg.Classify("store the firing", err)
		}
		_, err = tx.ExecContext(ctx, plan, due.ID, timing.Next)
		return pg.Classify("plan the next firing", err)
	})
	return f, launchID, err
}

// List returns one page of the firings of a schedule, newest first, and how many there are in all; onlyTasks selects
// the firings whose task still exists.
func (s Schedules) List(ctx context.Context, scope db.Scope, scheduleID uuid.UUID, onlyTasks bool,
	page db.Page) (found []Firing, total int, err error) {
	where := ` FROM firings f
		JOIN schedules s ON s.id = f.schedule_id AND ` + db.Within("s.project_id", "$3") + `
		WHERE f.schedule_id = $1 AND (NOT $2 OR f.task_id IS NOT NULL)`
	if err := s.db.GetContext(ctx, &total, `SELECT count(*)`+where, scheduleID, onlyTasks, scope); err != nil {
		return nil, 0, pg.Classify("count firings", err)
	}
	err = s.db.SelectContext(ctx, &found, `SELECT `+columns+where+` ORDER BY f.planned_at DESC LIMIT $4 OFFSET $5`,
		scheduleID, onlyTasks, scope, page.Size, page.Offset())
	return found, total, pg.Classify("list firings", err)
}

// States returns the states of the given tasks, keyed by task id; tasks that no longer exist are left out.
func (s Schedules) States(ctx context.Context, scope db.Scope, tasks []uuid.UUID) (map[uuid.UUID]db.TaskStatus, error) {
	list := `SELECT id, status FROM evaluation_tasks WHERE id = ANY ($1) AND ` + db.Within("project_id", "$2")
	var rows []struct {
		ID     uuid.UUID     `db:"id"`
		Status db.TaskStatus `db:"status"`
	}
	if err := s.db.SelectContext(ctx, &rows, list, pq.Array(tasks), scope); err != nil {
		return nil, pg.Classify("read the states of tasks", err)
	}
	states := make(map[uuid.UUID]db.TaskStatus, len(rows))
	for _, row := range rows {
		states[row.ID] = row.Status
	}
	return states, nil
}

// Before returns the newest firings, at most the given number, before the one that created a task. It leaves out
// firings whose task no longer exists or that have no summary.
func (s Schedules) Before(ctx context.Context, taskID uuid.UUID, most int) (found []Firing, err error) {
	const list = `
		SELECT ` + columns + `
		FROM firings f
		JOIN firings own ON own.task_id = $1 AND own.schedule_id = f.schedule_id AND f.planned_at < own.planned_at
		WHERE f.task_id IS NOT NULL AND f.summary IS NOT NULL
		ORDER BY f.planned_at DESC
		LIMIT $2`
	err = s.db.SelectContext(ctx, &found, list, taskID, most)
	return found, pg.Classify("look for earlier firings", err)
}

// WithResults returns the firing of a schedule that created a task, if the firing has a summary; if taskID is
// uuid.Nil, it returns the newest firing that has a task and a summary. It returns db.ErrNotFound if there is none.
func (s Schedules) WithResults(ctx context.Context, scope db.Scope, scheduleID,
	taskID uuid.UUID) (f Firing, err error) {
	find := `
		SELECT ` + columns + `
		FROM firings f
		JOIN schedules s ON s.id = f.schedule_id AND ` + db.Within("s.project_id", "$3") + `
		WHERE f.schedule_id = $1 AND f.task_id IS NOT NULL AND f.summary IS NOT NULL AND ($2::uuid IS NULL OR f.task_id = $2)
		ORDER BY f.planned_at DESC
		LIMIT 1`
	err = s.db.GetContext(ctx, &f, find, scheduleID, uuid.NullUUID{UUID: taskID, Valid: taskID != uuid.Nil}, scope)
	return f, pg.Classify("look for a firing", err)
}

// Limits on the number of firings that Watched returns: watched for the newest ones, and learned for the first ones of
// the same configuration, from which the chart's limits are learned.
const watched, learned = 400, 20

// Watched returns the firings with results that a control chart covers, up to a planned time (nil means all), oldest
// first. If there are too many, those in between are left out: they no longer affect the moving average noticeably.
func (s Schedules) Watched(ctx context.Context, scope db.Scope, scheduleID uuid.UUID,
	until *time.Time) (found []Firing, err error) {
	list := `
		WITH newest AS (
			SELECT ` + columns + `
			FROM firings f
			JOIN schedules s ON s.id = f.schedule_id AND ` + db.Within("s.project_id", "$3") + `
			WHERE f.schedule_id = $1 AND ($2::timestamptz IS NULL OR f.planned_at <= $2) AND f.summary IS NOT NULL
			ORDER BY f.planned_at DESC
			LIMIT $4),
		oldest AS (
			SELECT planned_at, summary->>'configuration' AS configuration FROM newest ORDER BY planned_at LIMIT 1),
		other AS ( -- the last earlier firing whose configuration differs from that of the oldest
			SELECT max(f.planned_at) AS planned_at
			FROM firings f
			CROSS JOIN oldest
			WHERE f.schedule_id = $1 AND f.planned_at < oldest.planned_at
			AND f.summary->>'configuration' <> oldest.configuration),
		first AS (
			SELECT ` + columns + `
			FROM firings f
			CROSS JOIN oldest
			CROSS JOIN other
			WHERE f.schedule_id = $1 AND f.planned_at < oldest.planned_at AND f.summary IS NOT NULL
				AND (other.planned_at IS NULL OR f.planned_at > other.planned_at)
			ORDER BY f.planned_at
			LIMIT $5)
		SELECT * FROM first
		UNION ALL
		SELECT * FROM newest
		ORDER BY planned_at`
	err = s.db.SelectContext(ctx, &found, list, scheduleID, until, scope, watched, learned)
	return found, pg.Classify("read the firings of a control chart", err)
}

// Unsummed is a firing whose task has ended, but whose summary does not cover the task's newest launch.
type Unsummed struct {
	Firing
	NewestLaunch uuid.UUID `db:"newest_launch"`
}

// Unsummed returns firings that need a new summary.
func (s Schedules) Unsummed(ctx context.Context, limit int) (found []Unsummed, err error) {
	const list = `
		SELECT ` + columns + `, l.id AS newest_launch
		FROM firings f
		JOIN evaluation_tasks t ON t.id = f.task_id AND t.status NOT IN ('PENDING', 'RUNNING') AND t.is_assessed
		CROSS JOIN LATERAL (
			SELECT id FROM launches WHERE task_id = t.id ORDER BY number DESC LIMIT 1) l
		WHERE f.launch_id IS DISTINCT FROM l.id
		ORDER BY f.planned_at
		LIMIT $1`
	err = s.db.SelectContext(ctx, &found, list, limit)
	return found, pg.Classify("look for firings to summarise", err)
}

// Summarise stores the summary of a firing, and announces the alert if it is not nil. It returns db.ErrConflict if the
// firing is gone or already has the summary of its newest launch.
func (s Schedules) Summarise(ctx context.Context, f Unsummed, summary, alert json.RawMessage) error {
	const store = `UPDATE firings SET summary = $2, launch_id = $3 WHERE id = $1 AND launch_id IS DISTINCT FROM $3`
	return s.db.InTx(ctx, "summarise a firing", func(tx *sqlx.Tx) error {
		result, err := tx.ExecContext(ctx, store, f.ID, string(summary), f.NewestLaunch)
		if err := pg.RequireRow("store the summary", result, err); err != nil {
			return err
		}
		if alert == nil {
			return nil
		}
		return outbox.Announce(ctx, tx, f.NewestLaunch, outbox.Alert, 0, alert)
	})
}
