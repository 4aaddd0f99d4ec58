package engine

import (
	"context"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// ActiveLaunch is a launch that Reconcile may need to help along.
type ActiveLaunch struct {
	ID      uuid.UUID `db:"id"`
	TaskID  uuid.UUID `db:"task_id"`
	Started bool      `db:"started"`
	// WantedLanes is how many more lanes the launch could use now: 0 while no origin of its targets has a free
	// slot.
	WantedLanes int `db:"wanted_lanes"`
	// IsDone reports that no unit of the launch is running or may still begin, although the launch has not been finished.
	IsDone bool `db:"is_done"`
}

const listActiveLaunches = `
	SELECT l.id, l.task_id, l.status <> 'PENDING' AS started,
		CASE
			WHEN l.status <> 'RUNNING' THEN 0
			ELSE greatest(0, least(l.concurrency - live.lanes, queued.units,
				CASE WHEN live.lanes = 0 THEN greatest(1, room.lanes) ELSE room.lanes END))
		END AS wanted_lanes,
		l.status <> 'PENDING'
			AND NOT EXISTS (SELECT FROM units u WHERE u.launch_id = l.id AND u.state = 'RUNNING')
			AND (l.status = 'STOPPING' OR NOT EXISTS (SELECT FROM units u WHERE u.launch_id = l.id AND u.state = 'QUEUED')) AS
			is_done
	FROM launches l
	CROSS JOIN ( -- free lanes for launches that have one already; each worker keeps its last lane for those without one
		SELECT coalesce(sum(greatest(0, w.lanes - (SELECT count(*) FROM lanes WHERE worker_id = w.id) - least(w.lanes - 1,
		1))), 0) AS lanes
		FROM workers w
		WHERE w.beat_at > now() - $1 * interval '1 second') room
	CROSS JOIN LATERAL (
		SELECT count(*) AS lanes
		FROM lanes
		JOIN workers w ON w.id = lanes.worker_id
		WHERE lanes.launch_id = l.id AND w.beat_at > now() - $1 * interval '1 second') live
	CROSS JOIN LATERAL (
		SELECT count(*) AS units -- targets that may be called now
		FROM (
			SELECT
			FROM launch_targets g
			JOIN origins o ON o.origin = g.origin AND o.next_free <= now() + $2 * interval '1 microsecond'
			JOIN units u ON u.launch_id = l.id AND u.target = g.number AND u.state = 'QUEUED'
			WHERE g.launch_id = l.id
			LIMIT l.concurrency) few) queued
	WHERE l.status IN ('PENDING', 'RUNNING', 'STOPPING')
	  AND l.created_at < now() - interval '1 second'
	ORDER BY l.created_at`

// ActiveLaunches returns every launch that has not ended, oldest first. A launch younger than a second is left
// to the process that created it.
func (l Lanes) ActiveLaunches(ctx context.Context) ([]ActiveLaunch, error) {
	var launches []ActiveLaunch
	err := l.db.SelectContext(ctx, &launches, listActiveLaunches, db.WorkerDeadAfter.Seconds(),
		db.RateHorizon.Microseconds())
	return launches, pg.Classify("list the active launches", err)
}

// Before returns how many launches come before the given launch, which waits to start: the running ones, and those that
// have waited longer. Every process computes the same order, so several processes together start no more launches than
// one would.
func (l Lanes) Before(ctx context.Context, launchID uuid.UUID) (int, error) {
	return l.before(ctx, countBefore+`l.id = $1`, launchID)
}

// BeforeTask returns the result of Before for a task's launch, or 0 if none waits to start.
func (l Lanes) BeforeTask(ctx context.Context, taskID uuid.UUID) (int, error) {
	return l.before(ctx, countBefore+`l.task_id = $1`, taskID)
}

// countBefore counts the launches that start before a pending launch l; the condition that selects l must be appended.
const countBefore = `
	SELECT count(*)
	FROM launches l
	JOIN launches o ON o.status IN ('RUNNING', 'STOPPING') OR o.status = 'PENDING'
	AND (o.created_at, o.id) < (l.created_at, l.id)
	WHERE l.status = 'PENDING' AND `

func (l Lanes) before(ctx context.Context, query string, id uuid.UUID) (count int, err error) {
	err = l.db.GetContext(ctx, &count, query, id)
	return count, pg.Classify("count the launches before", err)
}
