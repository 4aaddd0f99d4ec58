package library

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
)

// FiringPair names two firings by the tasks that they created. In At, uuid.Nil means the newest firing; in Since, it
// means the firing before At.
type FiringPair struct{ Since, At uuid.UUID }

// Faults of a FiringPair: no firing with results created the task in Since or in At, or both name the same firing.
var (
	ErrNoEarlierFiring = errors.New("no earlier firing with results made this task")
	ErrNoFiring        = errors.New("no firing with results made this task")
	ErrSamePair        = errors.New("a firing cannot be compared with itself")
)

// ComparedFirings holds what changed from one firing of a schedule to a later one.
type ComparedFirings struct {
	Before, Now         entries.Firing
	BeforeTask, NowTask db.Task
	// Questions are the questions that changed beyond chance, the least likely to be chance first.
	Questions []QuestionChange
	// Facts are the questions whose facts changed.
	Facts measure.FactChanges
}

// CompareFirings returns what changed between the two firings of a pair, which may be named in either order; nil if
// fewer than two firings have results. The time for comparing facts is limited to within.
func CompareFirings(ctx context.Context, store *db.Store, scope db.Scope, scheduleID uuid.UUID, pair FiringPair,
	within time.Duration) (*ComparedFirings, error) {
	between, err := chosen(ctx, store, scope, scheduleID, pair)
	if err != nil || between == nil {
		return nil, err
	}
	for _, side := range []struct {
		firing entries.Firing
		task   *db.Task
	}{{between.Before, &between.BeforeTask}, {between.Now, &between.NowTask}} {
		if *side.task, err = store.Task(ctx, scope, *side.firing.TaskID); err != nil {
			return nil, err
		}
	}
	if between.Questions, err = QuestionChanges(ctx, store, between.BeforeTask, between.NowTask); err != nil {
		return nil, err
	}
	var summary measure.FiringSummary
	if err := json.Unmarshal(*between.Now.Summary, &summary); err != nil {
		return nil, err
	}
	if known := summary.FactChanges; known != nil && known.Since != nil && *known.Since == between.BeforeTask.ID {
		between.Facts = *known
		return between, nil
	}
	between.Facts, err = ChangedFacts(ctx, store, between.BeforeTask, between.NowTask, time.Now().Add(within))
	return between, err
}

// chosen returns the firings of a pair, in chronological order.
func chosen(ctx context.Context, store *db.Store, scope db.Scope, scheduleID uuid.UUID,
	pair FiringPair) (*ComparedFirings, error) {
	if pair.At == pair.Since && pair.At != uuid.Nil {
		return nil, ErrSamePair
	}
	all := entries.NewSchedules(store)
	now, err := all.WithResults(ctx, scope, scheduleID, pair.At)
	if errors.Is(err, db.ErrNotFound) {
		if pair.At == uuid.Nil {
			return nil, nil
		}
		return nil, ErrNoFiring
	}
	if err != nil {
		return nil, err
	}
	if pair.Since == uuid.Nil {
		earlier, err := all.Before(ctx, *now.TaskID, 1)
		if err != nil || len(earlier) == 0 {
			return nil, err
		}
		return &ComparedFirings{Before: earlier[0], Now: now}, nil
	}
	before, err := all.WithResults(ctx, scope, scheduleID, pair.Since)
	if errors.Is(err, db.ErrNotFound) {
		return nil, ErrNoEarlierFiring
	}
	if err != nil {
		return nil, err
	}
	if *before.TaskID == *now.TaskID { // Since names the newest firing, and At names none
		return nil, ErrSamePair
	}
	both := []entries.Firing{before, now}
	slices.SortFunc(both, func(a, b entries.Firing) int { return a.PlannedAt.Compare(b.PlannedAt) })
	return &ComparedFirings{Before: both[0], Now: both[1]}, nil
}
