package db

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/meaning"
	"wending/db/pg"
)

// Unit is one claimed call: the question, and the epoch under which its result will be accepted.
type Unit struct {
	ID    int64 `db:"unit_id"`
	Epoch int   `db:"epoch"`
	// Variant and Target are numbers within the task.
	Variant  int `db:"variant"`
	Target   int `db:"target"`
	RunIndex int `db:"run_index"`
	// Evaluator is the number of the judge that rates the run SubjectRunID; it is 0 (and SubjectRunID is nil) for a
	// unit that asks a question, and Grouping for a unit that groups the question's answers.
	Evaluator    int    `db:"evaluator"`
	SubjectRunID *int64 `db:"subject_run_id"`
	// Resume is the state of an accepted job that the unit's previous holder was waiting for; nil means none.
	Resume *json.RawMessage `db:"resume"`
	Item
	// Wait is how long to wait, once the claim returns, for the call's rate-limit slot.
	Wait time.Duration `db:"-"`
}

// Want is the number of units of one target to claim.
type Want struct {
	// Target is the target's number.
	Target int
	Units  int
	// Horizon is how far in the future a rate-limit slot may be, at most RateHorizon.
	Horizon time.Duration
}

// Claim holds the units that ClaimUnits has claimed, and the limits that applied.
type Claim struct {
	// Units are the units to run, in the order of their rate-limit slots; empty if there were none to claim.
	Units []Unit
	// Limits are the limits of the wanted targets' origins, in the order of the wants; nil if the worker may claim
	// nothing.
	Limits []Limit
}

// Limit is how many units the rate limit of a target's origin allows.
type Limit struct {
	// RetryAfter is set if only the rate limit or a budget prevented a claim: the caller should try again after that time.
	RetryAfter time.Duration
	// IsLimited reports whether a rate limit applies to the origin: this launch's own or a stricter one.
	IsLimited bool
	// Allowed is how many units may be claimed under the limit.
	Allowed int
}

// keepWithin lowers a limit to the remaining allowance, if there is less, and deducts the limit from the allowance.
func (l *Limit) keepWithin(allowance *int) {
	if *allowance == 0 && l.Allowed > 0 {
		l.RetryAfter = allowanceAfter
	}
	l.Allowed = min(l.Allowed, *allowance)
	*allowance -= l.Allowed
}

// RateHorizon is how far in the future the slot that a claim reserves may be: a unit is claimed shortly before its
// call, so that only few units are waiting if the launch is stopped or the worker crashes.
const RateHorizon = 500 * time.Millisecond

// lockLaunchToClaim makes the rest of the transaction prefer indexes: the planner's statistics do not cover a launch
// that has just started, so it would sort all units or read all questions for every claim. The settings are made in
// the same statement to save a round trip.
const lockLaunchToClaim = `
	SELECT g.number, o.origin, (SELECT allowed - claimed FROM allowances WHERE launch_id = $1) AS allowance,
	greatest(0, extract(epoch FROM o.next_free - clock_timestamp()) * 1000000)::bigint AS ahead, o.call_interval,
		(SELECT count(set_config(setting, value, true))
		FROM (VALUES
			('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_sort', 'off'), ('enable_hashjoin', 'off'),
			('enable_mergejoin', 'off'),
			('jit', 'off'), ('idle_in_transaction_session_timeout', '15s')) settings (setting, value)) AS settings
	FROM launches l
	JOIN launch_targets g ON g.launch_id = l.id AND g.number = ANY ($5)
	JOIN origins o ON o.origin = g.origin
	WHERE l.id = $1
	  AND l.status = 'RUNNING'
	  AND EXISTS (SELECT FROM workers WHERE id = $2 AND lease = $3 AND beat_at > now() - $4 * interval '1 second')
	FOR SHARE OF l`

const claimUnits = `
	UPDATE units u
	SET state = 'RUNNING', epoch = epoch + 1, worker_id = $2, claimed_at = clock_timestamp(), progress = NULL
	FROM evaluation_items i
	WHERE i.id = u.item_id
	  AND u.id = ANY (ARRAY(
		SELECT next.id
		FROM unnest($3::int[], $4::int[]) wanted (target, count)
		CROSS JOIN LATERAL (
			SELECT id FROM units
			WHERE launch_id = $1 AND target = wanted.target AND state = 'QUEUED'
			ORDER BY id
			LIMIT wanted.count
			FOR UPDATE SKIP LOCKED) next))
	RETURNING u.id AS unit_id, u.epoch, u.variant, u.target, u.run_index, u.evaluator, u.subject_run_id, u.resume,
	` + ItemColumns

const lockAllowance = `SELECT greatest(0, allowed - claimed) FROM allowances WHERE launch_id = $1 FOR UPDATE`

const useAllowance = `UPDATE allowances SET claimed = claimed + $2 WHERE launch_id = $1`

// allowanceAfter is how long to wait before claiming again if only the budget prevented a claim. Budgets are checked at
// most once a second; the wait is shorter, so that a new allowance is used soon.
const allowanceAfter = 250 * time.Millisecond

// ClaimUnits claims units of a RUNNING launch for a worker: for each target up to the wanted number, as long as there
// are rate-limit slots within the horizon. The launch's lanes limit how many calls it makes at once (Lanes.Enter).
//
// ClaimUnits is one transaction that begins by locking the launch's row, so a stop either waits for the claim or is
// seen by it. If there is a rate limit, it also locks the origins' rows, so that no slot is taken twice; if the launch
// has a ceiling, it also locks the launch's allowance. A worker whose lease has expired gets nothing.
func (s *Store) ClaimUnits(ctx context.Context, call Call, lease Lease, wants []Want) (Claim, error) {
	targets := make(pq.Int64Array, len(wants))
	for n, want := range wants {
		targets[n] = int64(want.Target)
	}
	var got Claim
	err := s.db.InBareTx(ctx, "claim units", func(tx *sqlx.Tx) error {
		got = Claim{}
		free, allowance, err := lockToClaim(ctx, tx, call, lease, targets)
		if err != nil || len(free) == 0 {
			return err
		}
		counts := make(pq.Int64Array, len(wants))
		got.Limits = limitsOf(call, wants, free, allowance)
		for n, limit := range got.Limits {
			counts[n] = int64(limit.Allowed)
		}
		if !slices.ContainsFunc(counts, func(count int64) bool { return count > 0 }) {
			return nil
		}
		if err := tx.SelectContext(ctx, &got.Units, claimUnits, call.LaunchID, lease.WorkerID, targets, counts); err != nil {
			return pg.Classify("claim units", err)
		}
		if allowance != nil {
			if _, err := tx.ExecContext(ctx, useAllowance, call.LaunchID, len(got.Units)); err != nil {
				return pg.Classify("use the allowance", err)
			}
		}
		slices.SortFunc(got.Units, func(a, b Unit) int { return int(a.ID - b.ID) })
		taken := map[string]int{}
		for n := range got.Units {
			origin := call.Origins[got.Units[n].Target]
			got.Units[n].Wait = free[origin].take()
			taken[origin]++
		}
		for _, origin := range slices.Sorted(maps.Keys(taken)) {
			if err := takeSlots(ctx, tx, origin, taken[origin], free[origin].IntervalMicros); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Claim{}, err
	}
	return got, nil
}

// lockToClaim locks what a claim reads: the launch, the origins that have a rate limit, and the allowance of a
// launch with a ceiling, which is nil without a ceiling. free holds each origin's next slots; it is empty if
// the worker may claim nothing.
func lockToClaim(ctx context.Context, tx *sqlx.Tx, call Call, lease Lease,
	targets pq.Int64Array) (free map[string]*slots, allowance *int, err error) {
	var found []struct {
		Number    int  `db:"number"`
		Allowance *int `db:"allowance"`
		slots
		Settings int `db:"settings"`
	}
	err = tx.SelectContext(ctx, &found, lockLaunchToClaim, call.LaunchID, lease.WorkerID, lease.Number,
		LeaseDuration.Seconds(), targets)
	if err != nil {
		return nil, nil, pg.Classify("lock the launch", err)
	}
	if len(found) == 0 {
		return nil, nil, nil
	}
	free = map[string]*slots{} // several targets may share an origin
	for _, one := range found {
		free[one.Origin] = &one.slots
	}
	for _, origin := range slices.Sorted(maps.Keys(free)) {
		if free[origin].IntervalMicros > 0 {
			if *free[origin], err = lockSlots(ctx, tx, origin); err != nil {
				return nil, nil, err
			}
		}
	}
	if allowance = found[0].Allowance; allowance == nil {
		return free, nil, nil
	}
	if err := tx.GetContext(ctx, allowance, lockAllowance, call.LaunchID); pg.IsNoRows(err) {
		allowance = nil // the ceiling was lifted, so there is no allowance any more
	} else if err != nil {
		return nil, nil, pg.Classify("lock the allowance", err)
	}
	return free, allowance, nil
}

// limitsOf returns the limit of each want under the origins' rates and the allowance.
func limitsOf(call Call, wants []Want, free map[string]*slots, allowance *int) (limits []Limit) {
	taken := map[string]int{}
	for _, want := range wants {
		origin := call.Origins[want.Target]
		left := *free[origin]
		left.AheadMicros += int64(taken[origin]) * left.IntervalMicros
		limit := Limit{IsLimited: left.IntervalMicros > 0, Allowed: left.near(want.Units, want.Horizon)}
		if limit.Allowed == 0 {
			limit.RetryAfter = left.wait(want.Horizon)
		}
		if allowance != nil {
			limit.keepWithin(allowance)
		}
		taken[origin] += limit.Allowed
		limits = append(limits, limit)
	}
	return limits
}

// ReserveCall takes a rate-limit slot for one more attempt of a unit and returns how long to wait for it. If no
// slot is near, reserved is false, and the caller should wait and try again. ErrConflict means that the unit no
// longer belongs to this worker or that its launch was stopped, so there must be no further attempt.
func (s *Store) ReserveCall(ctx context.Context, call Call, unit Unit) (wait time.Duration, reserved bool, err error) {
	const mayCall = `
		SELECT 1
		FROM units u
		JOIN launches l ON l.id = u.launch_id
		WHERE u.id = $1 AND u.epoch = $2 AND u.state = 'RUNNING' AND l.status = 'RUNNING'`
	err = s.db.InTx(ctx, "reserve a call", func(tx *sqlx.Tx) error {
		free, err := lockSlots(ctx, tx, call.Origins[unit.Target])
		if err != nil {
			return err
		}
		var one int
		if err := tx.GetContext(ctx, &one, mayCall, unit.ID, unit.Epoch); pg.IsNoRows(err) {
			return ErrConflict
		} else if err != nil {
			return pg.Classify("reserve a call", err)
		}
		if wait = free.wait(RateHorizon); wait > 0 {
			return nil
		}
		wait, reserved = free.take(), true
		return takeSlots(ctx, tx, free.Origin, 1, free.IntervalMicros)
	})
	return wait, reserved && err == nil, err
}

// Returned units go back to the queue or, if their launch was stopped, become STOPPED. Their epoch increases, so that a
// late result is rejected.

const returnUnits = `
	UPDATE units u
	SET state = CASE WHEN l.status = 'RUNNING' THEN 'QUEUED' ELSE 'STOPPED' END, epoch = u.epoch + 1, worker_id = NULL
	FROM launches l
	WHERE l.id = u.launch_id
	  AND u.state = 'RUNNING'
	  AND (u.id, u.epoch) IN (SELECT * FROM unnest($1::bigint[], $2::int[]))`

// returnUnitsOfWorker returns all units of the worker $1 except $2, which the worker keeps.
const returnUnitsOfWorker = `
	UPDATE units u
	SET state = CASE WHEN l.status = 'RUNNING' THEN 'QUEUED' ELSE 'STOPPED' END, epoch = u.epoch + 1, worker_id = NULL
	FROM launches l
	WHERE l.id = u.launch_id
	  AND u.state = 'RUNNING'
	  AND u.worker_id = $1
	  AND NOT u.id = ANY (coalesce($2, '{}'::bigint[])) -- a nil slice is NULL to the driver`

// ReturnUnits returns claimed units that were not begun. Units that now belong to another worker are left alone.
func (s *Store) ReturnUnits(ctx context.Context, units []Unit) error {
	ids, epochs := make(pq.Int64Array, len(units)), make(pq.Int64Array, len(units))
	for n, unit := range units {
		ids[n], epochs[n] = unit.ID, int64(unit.Epoch)
	}
	_, err := s.db.ExecContext(ctx, returnUnits, ids, epochs)
	return pg.Classify("return units", err)
}

// ReleaseStrays returns units that were claimed for a living worker which never learnt of them, because the reply to
// its claim was lost. units are the ones that the worker has received. The caller must not claim at the same time.
func (s *Store) ReleaseStrays(ctx context.Context, workerID uuid.UUID, units []int64) (released int, err error) {
	result, err := s.db.ExecContext(ctx, returnUnitsOfWorker, workerID, pq.Int64Array(units))
	return pg.Affected("release strays", result, err)
}

// ReleaseUnits returns all units that a worker still holds when it shuts down.
func (s *Store) ReleaseUnits(ctx context.Context, workerID uuid.UUID) (released int, err error) {
	result, err := s.db.ExecContext(ctx, returnUnitsOfWorker, workerID, pq.Int64Array(nil))
	return pg.Affected("release the units", result, err)
}

// maxLosses is how many times a unit can lose its worker; the last time, it ends as FAILED.
const maxLosses = 3

// WorkerLostCode is the error code of a run whose worker was lost maxLosses times.
const WorkerLostCode = "WORKER_LOST"

const requeueLost = `
	UPDATE units u
	SET epoch = u.epoch + 1, losses = u.losses + 1, worker_id = NULL,
		turns_failed = CASE WHEN l.status = 'RUNNING' AND u.losses + 1 >= $1 THEN u.turns_failed + u.turns - u.turns_done
		ELSE u.turns_failed END,
		state = CASE WHEN l.status <> 'RUNNING' THEN 'STOPPED' WHEN u.losses + 1 < $1 THEN 'QUEUED' ELSE 'DONE' END,
		outcome = CASE WHEN l.status = 'RUNNING' AND u.losses + 1 >= $1 THEN 'FAILED' END
	FROM launches l
	WHERE l.id = u.launch_id
	  AND u.state = 'RUNNING'
	  AND NOT EXISTS (
		SELECT FROM workers w WHERE w.id = u.worker_id AND w.beat_at > now() - $2 * interval '1 second')
	RETURNING u.id, u.state, u.evaluator`

// TurnNotReachedCode is the error code of a turn that was not asked because an earlier turn failed.
const TurnNotReachedCode = "TURN_NOT_REACHED"

// TraceOfTurn computes the trace id of the calls for a turn of a unit, a row d of done, as tasks.TraceID does.
const TraceOfTurn = `lpad(to_hex(d.id), 16, '0') || left(encode(sha256(convert_to('wending-' || d.launch_id || '-' || d.id
	|| coalesce('-' || d.turn, ''), 'UTF8')), 'hex'), 16)`

const endOpenTurns = `
	WITH done AS (
		SELECT u.id, u.epoch, u.launch_id, u.variant, u.run_index, u.losses, turn.id AS item_id, turn.turn,
			$2 <> '' AND row_number() OVER (PARTITION BY u.id ORDER BY turn.turn) = 1 AS was_asked
		FROM units u` + TurnsOfUnit + `
		WHERE u.id = ANY ($1)
		  AND NOT EXISTS (SELECT FROM evaluation_runs r WHERE r.unit_id = u.id AND r.item_id = turn.id)),` + Supersede + `
	INSERT INTO evaluation_runs (unit_id, epoch, task_id, launch_id, item_id, variant, run_index, status, attempts,
	error_code, error_message, trace_id)
	SELECT d.id, d.epoch, l.task_id, d.launch_id, d.item_id, d.variant, d.run_index, 'FAILED', CASE WHEN d.was_asked
	THEN d.losses ELSE 0 END,
		CASE WHEN d.was_asked THEN $2 ELSE '` + TurnNotReachedCode + `' END,
		CASE WHEN d.was_asked THEN $3 ELSE 'An earlier turn of the conversation did not succeed' END,
		CASE WHEN d.was_asked THEN ` + TraceOfTurn + ` END
	FROM done d
	JOIN launches l ON l.id = d.launch_id
	CROSS JOIN superseded`

// EndOpenTurns stores a FAILED run for each turn of the units that has no run. The first such turn of a unit was asked
// and gets the given code and message; the others get TurnNotReachedCode. If code is empty, all get TurnNotReachedCode.
func EndOpenTurns(ctx context.Context, tx *sqlx.Tx, units []int64, code, message string) error {
	_, err := tx.ExecContext(ctx, endOpenTurns, pq.Int64Array(units), code, message)
	return pg.Classify("end the open turns", err)
}

// RequeueLostUnits returns the units of dead workers to the queue, under a new epoch. Units that were lost maxLosses
// times end with a FAILED run or, for a judge, with default ratings or groups; units of a stopped launch are stopped.
// It returns how many units were lost.
func (s *Store) RequeueLostUnits(ctx context.Context, unrated Unrated) (lost int, err error) {
	err = s.db.InTx(ctx, "requeue lost units", func(tx *sqlx.Tx) error {
		var units []struct {
			ID        int64  `db:"id"`
			State     string `db:"state"`
			Evaluator int    `db:"evaluator"`
		}
		if err := tx.SelectContext(ctx, &units, requeueLost, maxLosses, WorkerDeadAfter.Seconds()); err != nil {
			return pg.Classify("requeue lost units", err)
		}
		lost = len(units)
		var given, judges, groupings []int64
		for _, unit := range units {
			switch {
			case unit.State != "DONE":
			case unit.Evaluator == Grouping:
				groupings = append(groupings, unit.ID)
			case unit.Evaluator != 0:
				judges = append(judges, unit.ID)
			default:
				given = append(given, unit.ID)
			}
		}
		message := fmt.Sprintf("The worker running this call was lost %d times", maxLosses)
		if len(judges) > 0 {
			if err := endLostJudgements(ctx, tx, judges, message, unrated); err != nil {
				return err
			}
		}
		if len(groupings) > 0 {
			if err := meaning.EndLost(ctx, tx, groupings, WorkerLostCode, message); err != nil {
				return err
			}
		}
		if len(given) == 0 {
			return nil
		}
		return EndOpenTurns(ctx, tx, given, WorkerLostCode, message)
	})
	return lost, err
}

const (
	// BeatEvery is the time between two heartbeats of a worker.
	BeatEvery = time.Second
	// LeaseDuration is the time without a heartbeat after which a worker must not begin anything under its lease. It
	// is shorter than WorkerDeadAfter, so the lease has ended by the time other workers take over its units.
	LeaseDuration = 15 * time.Second
	// WorkerDeadAfter is the time without a heartbeat after which a worker's units go to other workers.
	WorkerDeadAfter = 20 * time.Second
)

// Lease is a worker's right to claim and begin units. It expires when the worker has not sent a heartbeat for a
// while, and the worker gets a new one with its next heartbeat: by then, others may have taken over its work
// under the old lease.
type Lease struct {
	WorkerID uuid.UUID
	Number   int64
}
