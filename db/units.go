package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Unit is one claimed call: the question, and the epoch under which its result will be accepted.
type Unit struct {
	ID       int64 `db:"unit_id"`
	Epoch    int   `db:"epoch"`
	RunIndex int   `db:"run_index"`
	Item
	// Wait is how long the rate limit of the agent asks to wait before the call.
	Wait time.Duration `db:"-"`
}

// Claim is what a lane got.
type Claim struct {
	// Unit is the unit to run; nil when there was none to give.
	Unit *Unit
	// RetryAfter is set when only the rate limit stands in the way: ask again after it.
	RetryAfter time.Duration
}

// rateHorizon is how far ahead of now a claim may reserve a call: a unit is claimed shortly before
// it is asked, so that a stop or a crash finds few of them waiting.
const rateHorizon = time.Second

// ClaimUnit gives the worker the next unit of a launch that is RUNNING, has fewer units running than its
// concurrency and whose agent's rate allows a call within a second.
//
// It is one transaction of separate statements. The first locks the launch's row; only a later one may
// count what is running, because a statement sees what was committed before it began, not what was
// committed while it waited for the lock.
func (s *Store) ClaimUnit(ctx context.Context, launchID, workerID uuid.UUID) (Claim, error) {
	const lockLaunch = `SELECT agent_origin, call_interval FROM launches WHERE id = $1 AND status = 'RUNNING' FOR UPDATE`
	const claim = `UPDATE units u SET state = 'RUNNING', epoch = epoch + 1, worker_id = $2
		FROM evaluation_items i, launches l
		WHERE i.id = u.item_id AND l.id = $1 AND u.id = (
			SELECT id FROM units WHERE launch_id = $1 AND state = 'QUEUED' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
		AND (SELECT count(*) FROM units WHERE launch_id = $1 AND state = 'RUNNING') < l.concurrency
		RETURNING u.id AS unit_id, u.epoch, u.run_index, ` + itemColumns
	var got Claim
	err := s.inTx(ctx, "claim a unit", func(tx *sqlx.Tx) error {
		var launch struct {
			Origin   string `db:"agent_origin"`
			Interval int64  `db:"call_interval"`
		}
		err := tx.GetContext(ctx, &launch, lockLaunch, launchID)
		if isNoRows(err) {
			return nil
		}
		if err != nil {
			return classify("lock the launch", err)
		}
		var unit Unit
		err = tx.GetContext(ctx, &unit, claim, launchID, workerID)
		if isNoRows(err) {
			return nil
		}
		if err != nil {
			return classify("claim a unit", err)
		}
		wait, reserved, err := reserveCall(ctx, tx, launch.Origin, launch.Interval)
		if err != nil {
			return err
		}
		if !reserved {
			got.RetryAfter = wait
			return errNoFreeMoment // rolls the claim back
		}
		unit.Wait = wait
		got.Unit = &unit
		return nil
	})
	if errors.Is(err, errNoFreeMoment) {
		return got, nil
	}
	if err != nil {
		return Claim{}, err
	}
	return got, nil
}

var errNoFreeMoment = errors.New("the agent has no free moment soon")

// reserveCall takes the agent's next free moment when it lies within rateHorizon, and returns how long
// to wait for it; otherwise how long to wait before asking again. Without a limit (interval 0) nothing is
// taken, but a moment that the agent itself asked for is kept.
func reserveCall(ctx context.Context, tx sqlx.QueryerContext, origin string, intervalMicros int64) (wait time.Duration, reserved bool, err error) {
	const reserve = `UPDATE agents SET next_free = greatest(next_free, clock_timestamp()) + $2 * interval '1 microsecond'
		WHERE origin = $1 AND next_free <= clock_timestamp() + $3 * interval '1 microsecond'
		RETURNING greatest(0, extract(epoch FROM next_free - clock_timestamp()) * 1000000 - $2)::bigint`
	const ahead = `SELECT greatest(1000, extract(epoch FROM next_free - clock_timestamp()) * 1000000 - $2)::bigint
		FROM agents WHERE origin = $1`
	const look = `SELECT greatest(0, extract(epoch FROM next_free - clock_timestamp()) * 1000000)::bigint
		FROM agents WHERE origin = $1 AND next_free <= clock_timestamp() + $2 * interval '1 microsecond'`
	var micros int64
	if intervalMicros == 0 {
		err = sqlx.GetContext(ctx, tx, &micros, look, origin, rateHorizon.Microseconds())
	} else {
		err = sqlx.GetContext(ctx, tx, &micros, reserve, origin, intervalMicros, rateHorizon.Microseconds())
	}
	if err == nil {
		return time.Duration(micros) * time.Microsecond, true, nil
	}
	if !isNoRows(err) {
		return 0, false, classify("reserve a call", err)
	}
	if err := sqlx.GetContext(ctx, tx, &micros, ahead, origin, rateHorizon.Microseconds()); err != nil {
		return 0, false, classify("read the agent's next free moment", err)
	}
	return time.Duration(micros) * time.Microsecond, false, nil
}

// ReserveCall takes a moment at the agent for one more attempt. reserved is false when there is none
// soon: wait, then ask again.
func (s *Store) ReserveCall(ctx context.Context, call Call) (wait time.Duration, reserved bool, err error) {
	return reserveCall(ctx, s.db, call.AgentOrigin, call.IntervalMicros)
}

// ReleaseStrays gives the units and lanes of a living worker back that it does not know it holds: it got
// them in a transaction whose reply was lost. The caller lets nothing be claimed meanwhile.
func (s *Store) ReleaseStrays(ctx context.Context, workerID uuid.UUID, units []int64, lanes []uuid.UUID) (released int, err error) {
	// A nil slice is NULL to the driver, and NOT ANY (NULL) is never true.
	const releaseUnits = `UPDATE units SET state = 'QUEUED', epoch = epoch + 1, worker_id = NULL
		WHERE worker_id = $1 AND state = 'RUNNING' AND NOT id = ANY (coalesce($2, '{}'::bigint[]))`
	const removeLanes = `DELETE FROM lanes WHERE worker_id = $1 AND NOT id = ANY (coalesce($2, '{}'::uuid[]))`
	result, err := s.db.ExecContext(ctx, releaseUnits, workerID, pq.Int64Array(units))
	if err != nil {
		return 0, classify("release strays", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, classify("release strays", err)
	}
	_, err = s.db.ExecContext(ctx, removeLanes, workerID, pq.Array(lanes))
	return int(n), classify("remove stray lanes", err)
}

// ReleaseUnits gives the units that a worker still runs back to the queue: it is leaving. Their epoch
// grows, so that a late result of it is refused.
func (s *Store) ReleaseUnits(ctx context.Context, workerID uuid.UUID) (released int, err error) {
	result, err := s.db.ExecContext(ctx, `UPDATE units SET state = 'QUEUED', epoch = epoch + 1, worker_id = NULL
		WHERE worker_id = $1 AND state = 'RUNNING'`, workerID)
	if err != nil {
		return 0, classify("release the units", err)
	}
	n, err := result.RowsAffected()
	return int(n), classify("release the units", err)
}

// maxLosses is how often a unit may lose its worker before it ends FAILED.
const maxLosses = 3

// WorkerLostCode is the error code of a run whose workers died three times over it.
const WorkerLostCode = "WORKER_LOST"

// RequeueLostUnits returns the units of dead workers to the queue, under a new epoch, and ends those that
// were lost three times with a FAILED run. It returns how many units were lost.
func (s *Store) RequeueLostUnits(ctx context.Context) (lost int, err error) {
	const requeue = `UPDATE units u SET state = CASE WHEN losses + 1 < $1 THEN 'QUEUED' ELSE 'DONE' END,
		epoch = epoch + 1, losses = losses + 1, worker_id = NULL
		WHERE u.state = 'RUNNING' AND NOT EXISTS (
			SELECT 1 FROM workers w WHERE w.id = u.worker_id AND w.beat_at > now() - $2 * interval '1 second')
		RETURNING u.id, u.launch_id, u.item_id, u.run_index, u.epoch, u.state`
	const giveUp = `INSERT INTO evaluation_runs
		(unit_id, epoch, task_id, launch_id, item_id, run_index, status, attempts, error_code, error_message)
		SELECT u.id, u.epoch, i.task_id, u.launch_id, u.item_id, u.run_index, 'FAILED', u.losses, $2, $3
		FROM units u JOIN evaluation_items i ON i.id = u.item_id WHERE u.id = ANY ($1)`
	err = s.inTx(ctx, "requeue lost units", func(tx *sqlx.Tx) error {
		var units []struct {
			ID       int64     `db:"id"`
			LaunchID uuid.UUID `db:"launch_id"`
			ItemID   int64     `db:"item_id"`
			RunIndex int       `db:"run_index"`
			Epoch    int       `db:"epoch"`
			State    string    `db:"state"`
		}
		if err := tx.SelectContext(ctx, &units, requeue, maxLosses, WorkerDeadAfter.Seconds()); err != nil {
			return classify("requeue lost units", err)
		}
		lost = len(units)
		var given []int64
		for _, unit := range units {
			if unit.State == "DONE" {
				given = append(given, unit.ID)
			}
		}
		if len(given) == 0 {
			return nil
		}
		_, err := tx.ExecContext(ctx, giveUp, pq.Int64Array(given), WorkerLostCode,
			fmt.Sprintf("The worker running this call was lost %d times", maxLosses))
		return classify("end units that were lost too often", err)
	})
	return lost, err
}
