// Package engine stores the data that workers read and write: the workers themselves, the lanes of launches, the next
// turn of a conversation, the outcomes of calls and evaluators, the events that agents report during calls and the
// files that they produce, questions added to a running launch, and the cost of all of it.
package engine

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Lanes reads and writes the lanes of all launches.
type Lanes struct{ db *pg.Pool }

// NewLanes returns the Lanes of a store.
func NewLanes(store *db.Store) Lanes { return Lanes{store.Pool()} }

// sharing contains the common table expressions that list the launches with lanes and the waiting launches. A running
// launch waits if it has units for a target whose rate limit has a free slot, but no lane on a living worker. A
// launch's share is the number of lanes it would get if all lanes were dealt out evenly.
const sharing = `
		live AS (
			SELECT id, lanes FROM workers WHERE beat_at > now() - :dead * interval '1 second'),
		held AS (
			SELECT lanes.launch_id, lanes.worker_id
			FROM lanes
			JOIN live ON live.id = lanes.worker_id),
		waiting AS (
			SELECT o.id, o.waits_since
			FROM launches o
			WHERE o.status = 'RUNNING'
			  AND NOT EXISTS (SELECT FROM held WHERE launch_id = o.id)
			  AND EXISTS (
				SELECT
				FROM launch_targets g
				JOIN origins ON origins.origin = g.origin
				WHERE g.launch_id = o.id
				  AND origins.next_free <= now() + :horizon * interval '1 microsecond'
				  AND EXISTS (SELECT FROM units u WHERE u.launch_id = o.id AND u.target = g.number AND u.state = 'QUEUED'))),
		others AS (
			SELECT (SELECT count(*) FROM waiting WHERE id <> :launch) AS waiting,
				(SELECT count(DISTINCT launch_id) FROM held WHERE launch_id <> :launch) AS holding),
		mine AS (
			SELECT count(*) AS lanes FROM held WHERE launch_id = :launch),
		share AS ( -- NULL, and so no limit, while no launch waits
			SELECT CASE WHEN waiting > 0 THEN greatest(1, (SELECT CAST(sum(lanes) AS int) FROM live) / (1 + waiting + holding))
			END AS lanes
			FROM others)`

// enterLanes gives a worker's last lane only to a launch that has none, so that a hanging agent cannot hold up all
// other tasks. While launches wait without a lane, none gets more than its share of all lanes.
const enterLanes = `
	INSERT INTO lanes (id, launch_id, worker_id)
	SELECT lane, CAST(:launch AS uuid), CAST(:worker AS uuid)
	FROM unnest(CAST(:lanes AS uuid[])) lane
	WHERE EXISTS (
		SELECT FROM workers
		WHERE id = :worker AND lease = :lease AND beat_at > now() - :expired * interval '1 second')
	LIMIT (
		WITH ` + sharing + `,
		here AS (
			SELECT w.lanes - (SELECT count(*) FROM held WHERE worker_id = w.id) AS free, least(w.lanes - 1, 1) AS kept
			FROM live w
			WHERE w.id = :worker),
		room AS ( -- from the project's quota; NULL, and so no limit, if there is none
			SELECT CAST(:quota AS int) - (
				SELECT count(*)
				FROM held
				JOIN launches o ON o.id = held.launch_id
				JOIN evaluation_tasks t ON t.id = o.task_id
				WHERE t.project_id = :project) AS lanes)
		SELECT greatest(0, least(
			l.concurrency - mine.lanes,
			room.lanes,
			CASE WHEN mine.lanes = 0 THEN greatest(least(here.free, 1), here.free - here.kept) ELSE here.free - here.kept END,
			share.lanes - mine.lanes))
		FROM launches l, mine, here, share, room
		WHERE l.id = :launch)
	RETURNING id`

// noteServed records that the origins of the launch $1 have been given a lane. It locks them in a fixed order, as does
// every statement that locks several origins.
const noteServed = `
	UPDATE origins
	SET served_at = clock_timestamp()
	WHERE origin IN (
		SELECT o.origin
		FROM origins o
		JOIN launch_targets g ON g.origin = o.origin
		WHERE g.launch_id = $1
		ORDER BY o.origin
		FOR UPDATE OF o)`

// Enter gives a RUNNING launch as many lanes as its concurrency, the worker's capacity and other waiting launches
// allow, and returns their ids. A lane makes one call at a time, so this keeps a launch within its concurrency over
// all workers.
func (l Lanes) Enter(ctx context.Context, lanes []uuid.UUID, launchID uuid.UUID,
	lease db.Lease) (admitted []uuid.UUID, err error) {
	// A separate statement takes the lock, so that the next one sees the lanes admitted in the meantime.
	const lock = `SELECT id FROM launches WHERE id = $1 AND status = 'RUNNING' FOR UPDATE`
	err = l.db.InTx(ctx, "enter lanes", func(tx *sqlx.Tx) error {
		admitted = nil
		var id uuid.UUID
		err := tx.GetContext(ctx, &id, lock, launchID)
		if pg.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return pg.Classify("lock the launch", err)
		}
		quota, err := lockQuota(ctx, tx, launchID)
		if err != nil {
			return err
		}
		arguments := sharingOf(launchID)
		arguments["quota"], arguments["project"] = quota.Lanes, quota.Project
		arguments["lanes"], arguments["worker"], arguments["lease"] = pq.Array(lanes), lease.WorkerID, lease.Number
		arguments["expired"] = db.LeaseDuration.Seconds()
		if err = pg.SelectNamed(ctx, tx, &admitted, enterLanes, arguments); err != nil || len(admitted) == 0 {
			return pg.Classify("enter lanes", err)
		}
		_, err = tx.ExecContext(ctx, noteServed, launchID)
		return pg.Classify("record the served launch", err)
	})
	if err != nil {
		return nil, err
	}
	return admitted, nil
}

// projectQuota is how many lanes the tasks of a project may have; nil means any number.
type projectQuota struct {
	Project uuid.UUID `db:"project_id"`
	Lanes   *int      `db:"lanes"`
}

// lockQuota reads the quota of a launch's project. If there is one, it locks the project, so that other transactions
// that would draw on the quota wait.
func lockQuota(ctx context.Context, tx *sqlx.Tx, launchID uuid.UUID) (quota projectQuota, err error) {
	const read = `
		SELECT t.project_id, p.lanes
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		JOIN projects p ON p.id = t.project_id
		WHERE l.id = $1`
	if err := tx.GetContext(ctx, &quota, read, launchID); err != nil || quota.Lanes == nil {
		return quota, pg.Classify("read the project's quota of lanes", err)
	}
	_, err = tx.ExecContext(ctx, `SELECT FROM projects WHERE id = $1 FOR NO KEY UPDATE`, quota.Project)
	return quota, pg.Classify("lock the project's quota of lanes", err)
}

// Yield ends a lane if its launch has another lane, and reports whether it did: while no origin has a free slot, a
// single lane is enough to wait for a slot. If all lanes yield at the same time, one stays.
func (l Lanes) Yield(ctx context.Context, laneID, launchID uuid.UUID) (left bool, err error) {
	const lock = `SELECT id FROM launches WHERE id = $1 FOR UPDATE`
	const yield = `
		DELETE FROM lanes
		WHERE id = $2
		  AND EXISTS (
			SELECT FROM lanes other
			JOIN workers w ON w.id = other.worker_id
			WHERE other.launch_id = $3 AND other.id <> $2 AND w.beat_at > now() - $1 * interval '1 second')`
	err = l.db.InTx(ctx, "yield a lane", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, lock, launchID); err != nil {
			return pg.Classify("lock the launch", err)
		}
		result, err := tx.ExecContext(ctx, yield, db.WorkerDeadAfter.Seconds(), laneID, launchID)
		deleted, err := pg.Affected("yield a lane", result, err)
		left = deleted == 1
		return err
	})
	return left && err == nil, err
}

// leaveLane locks the launch before the lane, as does every statement that locks both.
const leaveLane = `
	WITH launch AS (
		SELECT id FROM launches WHERE id = (SELECT launch_id FROM lanes WHERE id = $1) FOR UPDATE),
	gone AS (
		DELETE FROM lanes USING launch WHERE lanes.id = $1 RETURNING launch.id)
	UPDATE launches
	SET waits_since = clock_timestamp()
	FROM gone
	WHERE launches.id = gone.id AND NOT EXISTS (SELECT FROM lanes WHERE launch_id = gone.id AND id <> $1)`

// Leave ends a lane. A launch whose last lane ends starts to wait for another.
func (l Lanes) Leave(ctx context.Context, laneID uuid.UUID) error {
	_, err := l.db.ExecContext(ctx, leaveLane, laneID)
	return pg.Classify("leave a lane", err)
}

// nextWaiting orders the waiting launches so that a hanging agent gets few lanes: launches whose agents have the fewest
// lanes come first, and among those the ones whose agents were given a lane longest ago. If several lanes of a hanging
// agent time out together, one of them goes to a waiting agent.
const nextWaiting = `
	WITH ` + sharing + `
	SELECT id
	FROM waiting
	ORDER BY (
		SELECT count(*)
		FROM held
		WHERE EXISTS (
			SELECT
			FROM launch_targets his
			JOIN launch_targets own ON own.origin = his.origin
			WHERE his.launch_id = held.launch_id AND own.launch_id = waiting.id)), (
		SELECT max(origins.served_at)
		FROM launch_targets own
		JOIN origins ON origins.origin = own.origin
		WHERE own.launch_id = waiting.id) NULLS FIRST, waits_since, id
	LIMIT 1`

// NextWaiting returns the launch that should get the next free lane, or uuid.Nil if none is waiting.
func (l Lanes) NextWaiting(ctx context.Context) (launchID uuid.UUID, err error) {
	err = pg.GetNamed(ctx, l.db, &launchID, nextWaiting, sharingOf(uuid.Nil))
	if pg.IsNoRows(err) {
		return uuid.Nil, nil
	}
	return launchID, pg.Classify("find the next waiting launch", err)
}

// sharingOf returns the parameters of sharing for a launch.
func sharingOf(launchID uuid.UUID) map[string]any {
	return map[string]any{"launch": launchID, "dead": db.WorkerDeadAfter.Seconds(),
		"horizon": db.RateHorizon.Microseconds()}
}

// RemoveStrays removes the lanes of a worker that are not among those it reports.
func (l Lanes) RemoveStrays(ctx context.Context, workerID uuid.UUID, known []uuid.UUID) error {
	const remove = `DELETE FROM lanes WHERE worker_id = $1 AND NOT id = ANY (coalesce($2, '{}'::uuid[]))`
	_, err := l.db.ExecContext(ctx, remove, workerID, pq.Array(known))
	return pg.Classify("remove stray lanes", err)
}

// State holds the facts that a worker keeps checking while it runs a launch's units.
type State struct {
	Status db.LaunchStatus `db:"status"`
	// StoppingMicros is the time since a stop was requested, in microseconds.
	StoppingMicros int64 `db:"stopping_micros"`
	// HoldsLease reports that the worker's lease has not expired.
	HoldsLease bool `db:"holds_lease"`
	// Surplus is the number of lanes that the launch has above its share while other launches wait for one.
	Surplus int `db:"surplus"`
	// TakesShifts reports that other launches wait and that there are fewer lanes than launches.
	TakesShifts bool `db:"takes_shifts"`
}

const readState = `
	WITH ` + sharing + `
	SELECT status,
		CAST(coalesce(extract(epoch FROM now() - stop_requested_at) * 1000000, 0) AS bigint) AS stopping_micros,
		EXISTS (
			SELECT FROM workers WHERE id = :worker AND lease = :lease
			AND beat_at > now() - :expired * interval '1 second') AS holds_lease,
		coalesce(greatest(0, mine.lanes - share.lanes), 0) AS surplus,
		others.waiting > 0 AND 1 + others.waiting + others.holding > (SELECT sum(lanes) FROM live) AS takes_shifts
	FROM launches, mine, share, others
	WHERE id = :launch`

// State returns the state of a launch for a worker with this lease, or db.ErrNotFound.
func (l Lanes) State(ctx context.Context, launchID uuid.UUID, lease db.Lease) (State, error) {
	arguments := sharingOf(launchID)
	arguments["worker"], arguments["lease"], arguments["expired"] = lease.WorkerID, lease.Number,
		db.LeaseDuration.Seconds()
	var state State
	err := pg.GetNamed(ctx, l.db, &state, readState, arguments)
	return state, db.NotFound(db.KindLaunch, pg.Classify("read the launch's state", err))
}

// PostponeOrigin moves the next free slot of an origin at least wait into the future, because it answered 429.
func (l Lanes) PostponeOrigin(ctx context.Context, origin string, wait time.Duration) error {
	const postpone = `
		UPDATE origins
		SET next_free = greatest(next_free, now() + $2 * interval '1 microsecond')
		WHERE origin = $1`
	_, err := l.db.ExecContext(ctx, postpone, origin, wait.Microseconds())
	return pg.Classify("postpone the origin", err)
}
