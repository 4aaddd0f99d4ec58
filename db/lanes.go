package db

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// Of a worker's lanes the last is only given to a launch that has none: an agent that hangs must not hold up the tasks
// of all others. While launches wait without a lane, none gets more than its share of all lanes.
const enterLanes = `
	INSERT INTO lanes (id, launch_id, worker_id)
	SELECT lane, CAST(:launch AS uuid), CAST(:worker AS uuid)
	FROM unnest(CAST(:lanes AS uuid[])) lane
	WHERE EXISTS (
		SELECT FROM workers
		WHERE id = :worker AND lease = :lease AND beat_at > now() - :expired * interval '1 second')
	LIMIT (
		WITH live AS (
			SELECT id, lanes FROM workers WHERE beat_at > now() - :dead * interval '1 second'),
		held AS (
			SELECT lanes.launch_id, lanes.worker_id FROM lanes JOIN live ON live.id = lanes.worker_id),
		mine AS (
			SELECT count(*) AS lanes FROM held WHERE launch_id = :launch),
		here AS (
			SELECT w.lanes - (SELECT count(*) FROM held WHERE worker_id = w.id) AS free, least(w.lanes - 1, 1) AS kept
			FROM live w
			WHERE w.id = :worker),
		waiting AS (
			SELECT count(*) AS launches
			FROM launches o
			LEFT JOIN origins ON origins.origin = o.agent_origin
			WHERE o.status = 'RUNNING'
			  AND o.id <> :launch
			  AND coalesce(origins.next_free <= now() + :horizon * interval '1 microsecond', true)
			  AND NOT EXISTS (SELECT FROM held WHERE launch_id = o.id)
			  AND EXISTS (SELECT FROM units u WHERE u.launch_id = o.id AND u.state = 'QUEUED')),
		share AS (
			SELECT greatest(1, sum(lanes) / (1 + waiting.launches + (
				SELECT count(DISTINCT launch_id) FROM held WHERE launch_id <> :launch))) AS lanes
			FROM live, waiting
			WHERE waiting.launches > 0
			GROUP BY waiting.launches)
		SELECT greatest(0, least(
			l.concurrency - mine.lanes,
			CASE WHEN mine.lanes = 0 THEN greatest(least(here.free, 1), here.free - here.kept) ELSE here.free - here.kept END,
			(SELECT lanes FROM share) - mine.lanes)) -- NULL, so no limit, while none waits
		FROM launches l, mine, here
		WHERE l.id = :launch)
	RETURNING id`

// EnterLanes admits lanes to a launch that is RUNNING, as many of them as its concurrency, the worker and others that
// wait leave room for, and returns their ids. A lane makes one call at a time, so this keeps a launch within its
// concurrency over all workers.
func (s *Store) EnterLanes(ctx context.Context, lanes []uuid.UUID, launchID uuid.UUID, lease Lease) (admitted []uuid.UUID, err error) {
	// Locked in a statement of its own: only a later one sees the lanes admitted in the meantime.
	const lock = `SELECT id FROM launches WHERE id = $1 AND status = 'RUNNING' FOR UPDATE`
	err = s.db.InTx(ctx, "enter lanes", func(tx *sqlx.Tx) error {
		admitted = nil
		var id uuid.UUID
		err := tx.GetContext(ctx, &id, lock, launchID)
		if pg.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return pg.Classify("lock the launch", err)
		}
		err = pg.SelectNamed(ctx, tx, &admitted, enterLanes, map[string]any{
			"lanes": pqUUIDs(lanes...), "worker": lease.WorkerID, "launch": launchID, "lease": lease.Number,
			"dead": WorkerDeadAfter.Seconds(), "expired": leaseDuration.Seconds(), "horizon": rateHorizon.Microseconds(),
		})
		return pg.Classify("enter lanes", err)
	})
	if err != nil {
		return nil, err
	}
	return admitted, nil
}

// YieldLane ends a lane if its launch has another one: while the origin has no free slot, one lane is enough to
// wait for it. Of several that yield at once, one stays.
func (s *Store) YieldLane(ctx context.Context, laneID, launchID uuid.UUID) (left bool, err error) {
	const lock = `SELECT id FROM launches WHERE id = $1 FOR UPDATE`
	const yield = `
		DELETE FROM lanes
		WHERE id = $2
		  AND EXISTS (
			SELECT FROM lanes other
			JOIN workers w ON w.id = other.worker_id
			WHERE other.launch_id = $3 AND other.id <> $2 AND w.beat_at > now() - $1 * interval '1 second')`
	err = s.db.InTx(ctx, "yield a lane", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, lock, launchID); err != nil {
			return pg.Classify("lock the launch", err)
		}
		result, err := tx.ExecContext(ctx, yield, WorkerDeadAfter.Seconds(), laneID, launchID)
		deleted, err := pg.Affected("yield a lane", result, err)
		left = deleted == 1
		return err
	})
	return left && err == nil, err
}

// LeaveLane ends a lane.
func (s *Store) LeaveLane(ctx context.Context, laneID uuid.UUID) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM lanes WHERE id = $1`, laneID)
	return pg.Classify("leave a lane", err)
}

// removeStrayLanes removes the lanes of a worker except those that it knows of.
func (s *Store) removeStrayLanes(ctx context.Context, workerID uuid.UUID, known []uuid.UUID) error {
	const remove = `DELETE FROM lanes WHERE worker_id = $1 AND NOT id = ANY (coalesce($2, '{}'::uuid[]))`
	_, err := s.db.ExecContext(ctx, remove, workerID, pq.Array(known))
	return pg.Classify("remove stray lanes", err)
}

// pqUUIDs is an array of ids as the driver takes it.
func pqUUIDs(ids ...uuid.UUID) any { return pq.Array(ids) }
