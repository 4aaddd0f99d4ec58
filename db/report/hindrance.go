package report

import (
	"context"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Monitor reads the progress of tasks, the workers, and what slows tasks down.
type Monitor struct{ db *pg.Pool }

// NewMonitor returns a monitor of the store's database.
func NewMonitor(store *db.Store) Monitor { return Monitor{store.Pool()} }

// Hindrance is the reason why a running task calls its agent more slowly than its own settings allow.
type Hindrance struct {
	// LimitingTaskID and the name and rate that follow belong to another task at the same origin whose stricter
	// rate limit applies to this one too; nil means that the task's own limit applies.
	LimitingTaskID   *uuid.UUID `db:"limiting_task_id"`
	LimitingTaskName *string    `db:"limiting_task_name"`
	LimitingRate     *string    `db:"limiting_rate"`
	// TasksAhead is the number of tasks that hold lanes or have waited longer; 0 unless this task waits for a lane, that
	// is, it has none and no worker has a free one.
	TasksAhead int `db:"tasks_ahead"`
}

const findHindrance = `
	SELECT strictest.task_id AS limiting_task_id, strictest.task_name AS limiting_task_name,
	strictest.rate_limit AS limiting_rate,
		CASE WHEN mine.lanes = 0 AND room.free <= 0 THEN (
			SELECT count(*)
			FROM launches o
			WHERE o.status IN ('PENDING', 'RUNNING', 'STOPPING')
			  AND o.id <> l.id
			  AND (o.waits_since < l.waits_since OR EXISTS (SELECT FROM lanes WHERE launch_id = o.id)))
		ELSE 0 END AS tasks_ahead
	FROM launches l
	LEFT JOIN LATERAL (
		SELECT o.task_id, t.task_name, his.rate_limit
		FROM launches o
		JOIN evaluation_tasks t ON t.id = o.task_id
		JOIN launch_targets g ON g.launch_id = o.id
		JOIN task_targets his ON his.task_id = o.task_id AND his.number = g.number
		JOIN launch_targets own ON own.launch_id = l.id AND own.origin = g.origin AND own.call_interval < g.call_interval
		WHERE o.status = 'RUNNING' AND o.id <> l.id
		ORDER BY g.call_interval DESC, o.created_at
		LIMIT 1) strictest ON true
	CROSS JOIN LATERAL (SELECT count(*) AS lanes FROM lanes WHERE launch_id = l.id) mine
	CROSS JOIN LATERAL (
		-- lanes do not matter without workers
		SELECT coalesce(sum(w.lanes - (SELECT count(*) FROM lanes WHERE worker_id = w.id)), 1) AS free
		FROM workers w
		WHERE w.beat_at > now() - $2 * interval '1 second') room
	WHERE l.task_id = $1 AND l.status IN ('PENDING', 'RUNNING')`

// TaskHindrance returns what slows a task down; the zero value if nothing slows it down or the task is not
// active.
func (m Monitor) TaskHindrance(ctx context.Context, taskID uuid.UUID) (Hindrance, error) {
	var found Hindrance
	err := m.db.GetContext(ctx, &found, findHindrance, taskID, db.WorkerDeadAfter.Seconds())
	if pg.IsNoRows(err) {
		return Hindrance{}, nil
	}
	return found, pg.Classify("find what slows the task down", err)
}
