package db

import (
	"context"
	"fmt"
	"slices"
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
	// Wait is how long, from the claim's return, the rate limit of the agent asks to wait before the call.
	Wait time.Duration `db:"-"`
}

// Claim is what a worker got.
type Claim struct {
	// Units are the units to run, in the order of their calls; none when there were none to give.
	Units []Unit
	// RetryAfter is set when only the rate limit stands in the way: ask again after it.
	RetryAfter time.Duration
}

// rateHorizon is how far ahead of now a claim may reserve a call: a unit is claimed shortly before
// it is asked, so that a stop or a crash finds few of them waiting.
const rateHorizon = 500 * time.Millisecond

// ClaimUnits gives the worker at most want units of a launch that is RUNNING and whose agent's rate allows
// the calls within rateHorizon. How many calls a launch makes at once is the number of its lanes (EnterLane).
//
// It is one transaction that begins by locking the launch's row: a stop waits for it or is seen by it. Under
// a rate limit it locks the agent's row too, so that no moment is taken twice. A worker whose lease has
// passed gets nothing.
func (s *Store) ClaimUnits(ctx context.Context, call Call, lease Lease, want int) (Claim, error) {
	// The rest of the transaction reads along its indexes: what the planner knows of a launch just begun is
	// out of date, and it would sort all its units for every claim.
	const ahead = `SELECT greatest(0, extract(epoch FROM a.next_free - clock_timestamp()) * 1000000)::bigint AS ahead,
			set_config('enable_bitmapscan', 'off', true) AS bitmapscan, set_config('enable_sort', 'off', true) AS sort,
			set_config('enable_hashjoin', 'off', true) AS hashjoin, set_config('enable_mergejoin', 'off', true) AS mergejoin, set_config('jit', 'off', true) AS jit,
			set_config('idle_in_transaction_session_timeout', '15s', true) AS idle
		FROM launches l JOIN agents a ON a.origin = l.agent_origin
		WHERE l.id = $1 AND l.status = 'RUNNING' AND EXISTS (SELECT 1 FROM workers WHERE id = $2 AND lease = $3 AND beat_at > now() - $4 * interval '1 second')`
	const claim = `UPDATE units u SET state = 'RUNNING', epoch = epoch + 1, worker_id = $2
		FROM evaluation_items i WHERE i.id = u.item_id AND u.id = ANY (ARRAY(
			SELECT id FROM units WHERE launch_id = $1 AND state = 'QUEUED' ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED))
		RETURNING u.id AS unit_id, u.epoch, u.run_index, ` + itemColumns
	lock := ahead + ` FOR SHARE OF l`
	if call.IntervalMicros > 0 {
		lock = ahead + ` FOR SHARE OF l FOR UPDATE OF a`
	}
	var got Claim
	err := s.inBareTx(ctx, "claim units", func(tx *sqlx.Tx) error {
		var aheadMicros int64
		var ignored string
		err := tx.QueryRowxContext(ctx, lock, call.LaunchID, lease.WorkerID, lease.Number, leaseFor.Seconds()).Scan(&aheadMicros, &ignored, &ignored, &ignored, &ignored, &ignored, &ignored)
		if isNoRows(err) {
			return nil
		}
		if err != nil {
			return classify("lock the launch", err)
		}
		room := rateHorizon.Microseconds() - aheadMicros
		if room < 0 {
			got.RetryAfter = time.Duration(max(1000, -room)) * time.Microsecond
			return nil
		}
		if call.IntervalMicros > 0 {
			want = min(want, int(room/call.IntervalMicros)+1)
		}
		if err := tx.SelectContext(ctx, &got.Units, claim, call.LaunchID, lease.WorkerID, want); err != nil {
			return classify("claim units", err)
		}
		slices.SortFunc(got.Units, func(a, b Unit) int { return int(a.ID - b.ID) })
		for n := range got.Units {
			got.Units[n].Wait = time.Duration(aheadMicros+int64(n)*call.IntervalMicros) * time.Microsecond
		}
		if call.IntervalMicros == 0 || len(got.Units) == 0 {
			return nil
		}
		return takeMoments(ctx, tx, call, len(got.Units))
	})
	if err != nil {
		return Claim{}, err
	}
	return got, nil
}

// takeMoments moves the agent's next free moment by so many calls. Its row is locked.
func takeMoments(ctx context.Context, tx *sqlx.Tx, call Call, calls int) error {
	_, err := tx.ExecContext(ctx, `UPDATE agents SET next_free = greatest(next_free, clock_timestamp()) + $2 * interval '1 microsecond'
		WHERE origin = $1`, call.AgentOrigin, int64(calls)*call.IntervalMicros)
	return classify("reserve calls", err)
}

// ReserveCall takes a moment at the agent for one more attempt of a unit and returns how long to wait for it.
// reserved is false when there is none soon: wait, then ask again. ErrConflict: the unit is no longer this
// worker's, or its launch was stopped; there must be no further attempt.
func (s *Store) ReserveCall(ctx context.Context, call Call, unit Unit) (wait time.Duration, reserved bool, err error) {
	const ahead = `SELECT greatest(0, extract(epoch FROM a.next_free - clock_timestamp()) * 1000000)::bigint
		FROM units u JOIN launches l ON l.id = u.launch_id JOIN agents a ON a.origin = l.agent_origin
		WHERE u.id = $1 AND u.epoch = $2 AND u.state = 'RUNNING' AND l.status = 'RUNNING' FOR UPDATE OF a`
	err = s.inTx(ctx, "reserve a call", func(tx *sqlx.Tx) error {
		var aheadMicros int64
		err := tx.GetContext(ctx, &aheadMicros, ahead, unit.ID, unit.Epoch)
		if isNoRows(err) {
			return ErrConflict
		}
		if err != nil {
			return classify("reserve a call", err)
		}
		if room := rateHorizon.Microseconds() - aheadMicros; room < 0 {
			wait = time.Duration(max(1000, -room)) * time.Microsecond
			return nil
		}
		wait, reserved = time.Duration(aheadMicros)*time.Microsecond, true
		if call.IntervalMicros == 0 {
			return nil
		}
		return takeMoments(ctx, tx, call, 1)
	})
	return wait, reserved && err == nil, err
}

// giveBack returns claimed units to the queue or, when their launch was told to stop, stops them. Their epoch
// grows, so that a late result is refused. The condition on units u follows.
const giveBack = `UPDATE units u SET state = CASE WHEN l.status = 'RUNNING' THEN 'QUEUED' ELSE 'STOPPED' END, epoch = u.epoch + 1, worker_id = NULL
	FROM launches l WHERE l.id = u.launch_id AND u.state = 'RUNNING' AND `

// ReturnUnits gives back units that were claimed and not begun; those that have gone elsewhere are left alone.
func (s *Store) ReturnUnits(ctx context.Context, units []Unit) error {
	ids, epochs := make(pq.Int64Array, len(units)), make(pq.Int64Array, len(units))
	for n, unit := range units {
		ids[n], epochs[n] = unit.ID, int64(unit.Epoch)
	}
	_, err := s.db.ExecContext(ctx, giveBack+`(u.id, u.epoch) IN (SELECT * FROM unnest($1::bigint[], $2::int[]))`, ids, epochs)
	return classify("return units", err)
}

// ReleaseStrays gives the units and lanes of a living worker back that it does not know it holds: it got
// them in a transaction whose reply was lost. The caller lets nothing be claimed meanwhile.
func (s *Store) ReleaseStrays(ctx context.Context, workerID uuid.UUID, units []int64, lanes []uuid.UUID) (released int, err error) {
	// A nil slice is NULL to the driver, and NOT ANY (NULL) is never true.
	const releaseUnits = giveBack + `u.worker_id = $1 AND NOT u.id = ANY (coalesce($2, '{}'::bigint[]))`
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

// ReleaseUnits gives back all units that a worker still holds: it is leaving.
func (s *Store) ReleaseUnits(ctx context.Context, workerID uuid.UUID) (released int, err error) {
	result, err := s.db.ExecContext(ctx, giveBack+`u.worker_id = $1`, workerID)
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
// were lost three times with a FAILED run; those of a launch that was told to stop are stopped. It returns
// how many units were lost.
func (s *Store) RequeueLostUnits(ctx context.Context) (lost int, err error) {
	const requeue = `UPDATE units u SET epoch = u.epoch + 1, losses = u.losses + 1, worker_id = NULL,
		state = CASE WHEN l.status <> 'RUNNING' THEN 'STOPPED' WHEN u.losses + 1 < $1 THEN 'QUEUED' ELSE 'DONE' END,
		outcome = CASE WHEN l.status = 'RUNNING' AND u.losses + 1 >= $1 THEN 'FAILED' END
		FROM launches l WHERE l.id = u.launch_id AND u.state = 'RUNNING' AND NOT EXISTS (
			SELECT 1 FROM workers w WHERE w.id = u.worker_id AND w.beat_at > now() - $2 * interval '1 second')
		RETURNING u.id, u.state`
	const giveUp = `WITH done AS (SELECT * FROM units WHERE id = ANY ($1)), ` + supersede + `
		INSERT INTO evaluation_runs (unit_id, epoch, task_id, launch_id, item_id, run_index, status, attempts, error_code, error_message)
		SELECT d.id, d.epoch, l.task_id, d.launch_id, d.item_id, d.run_index, 'FAILED', d.losses, $2, $3
		FROM done d JOIN launches l ON l.id = d.launch_id CROSS JOIN superseded`
	err = s.inTx(ctx, "requeue lost units", func(tx *sqlx.Tx) error {
		var units []struct {
			ID    int64  `db:"id"`
			State string `db:"state"`
		}
		if err := tx.SelectContext(ctx, &units, requeue, maxLosses, WorkerDeadAfter.Seconds()); err != nil {
			return classify("requeue lost units", err)
		}
		lost = len(units)
		var given pq.Int64Array
		for _, unit := range units {
			if unit.State == "DONE" {
				given = append(given, unit.ID)
			}
		}
		if len(given) == 0 {
			return nil
		}
		_, err := tx.ExecContext(ctx, giveUp, given, WorkerLostCode, fmt.Sprintf("The worker running this call was lost %d times", maxLosses))
		return classify("end units that were lost too often", err)
	})
	return lost, err
}

// LaunchState is what those who run a launch's units must know at every moment.
type LaunchState struct {
	Status LaunchStatus `db:"status"`
	// StoppingMicros is the time since a stop was asked for, in microseconds.
	StoppingMicros int64 `db:"stopping_micros"`
	// HoldsLease says that the worker's lease has not passed.
	HoldsLease bool `db:"holds_lease"`
}

// LaunchState returns the state of a launch as a worker with this lease sees it, or ErrNotFound.
func (s *Store) LaunchState(ctx context.Context, launchID uuid.UUID, lease Lease) (LaunchState, error) {
	const query = `SELECT status, coalesce(extract(epoch FROM now() - stop_requested_at) * 1000000, 0)::bigint AS stopping_micros,
		EXISTS (SELECT 1 FROM workers WHERE id = $2 AND lease = $3 AND beat_at > now() - $4 * interval '1 second') AS holds_lease
		FROM launches WHERE id = $1`
	var state LaunchState
	err := s.db.GetContext(ctx, &state, query, launchID, lease.WorkerID, lease.Number, leaseFor.Seconds())
	return state, classify("read the launch's state", err)
}
