package crew

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/engine"
)

// scriptedStore is a store whose responses are scripted.
type scriptedStore struct {
	record func(call int, results []engine.Result) (refused []db.Unit, err error)
	mu     sync.Mutex
	calls  [][]engine.Result
}

func (s *scriptedStore) Record(_ context.Context, _ uuid.UUID, results []engine.Result) ([]db.Unit, error) {
	s.mu.Lock()
	s.calls = append(s.calls, append([]engine.Result(nil), results...))
	call := len(s.calls)
	s.mu.Unlock()
	return s.record(call, results)
}

// recorded holds what a recorder reported about its units.
type recorded struct {
	stored, refused, abandoned []int64
}

// recordAll records one result per unit and returns once all are recorded, refused or abandoned.
func recordAll(t *testing.T, ctx context.Context, store *scriptedStore, n int) recorded {
	t.Helper()
	var got recorded
	add := func(to *[]int64, units []db.Unit) {
		for _, unit := range units {
			*to = append(*to, unit.ID)
		}
	}
	r := &recorder{
		store: store, log: slog.New(slog.NewTextHandler(io.Discard, nil)), ctx: ctx, contain: contain,
		outcomes: make(chan outcome, maxBatch),
		onStored: func(results []engine.Result, refused []db.Unit) {
			add(&got.stored, unitsOf(results))
			add(&got.refused, refused)
		},
		onAbandoned: func(units []db.Unit) { add(&got.abandoned, units) },
	}
	var waits []<-chan struct{}
	for _, unit := range units(n) {
		waits = append(waits, r.record(engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte("x")}))
	}
	close(r.outcomes)
	r.run()
	for _, wait := range waits {
		<-wait
	}
	return got
}

func TestResultsThatAreReadyAreRecordedTogether(t *testing.T) {
	t.Parallel()
	store := &scriptedStore{record: func(int, []engine.Result) ([]db.Unit, error) { return nil, nil }}
	got := recordAll(t, t.Context(), store, 40)
	require.Len(t, got.stored, 40)
	require.Len(t, store.calls, 1)
}

func TestAnOutageIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &scriptedStore{record: func(call int, _ []engine.Result) ([]db.Unit, error) {
			if call < 20 {
				return nil, db.ErrUnavailable
			}
			return nil, nil
		}}
		require.Equal(t, []int64{1}, recordAll(t, t.Context(), store, 1).stored)
	})
}

// A result that the database refuses is recorded as a failure; the others of its batch are recorded unchanged.
func TestAResultThatTheDatabaseRefusesDoesNotBlockTheOthers(t *testing.T) {
	t.Parallel()
	invalid := errors.New("invalid")
	var failure engine.Result
	store := &scriptedStore{record: func(_ int, results []engine.Result) ([]db.Unit, error) {
		for _, result := range results {
			if result.Unit.ID == 2 && result.ErrorCode != codeInternal {
				return nil, invalid
			}
			if result.Unit.ID == 2 {
				failure = result
			}
		}
		return nil, nil
	}}
	require.ElementsMatch(t, []int64{1, 2, 3}, recordAll(t, t.Context(), store, 3).stored)
	require.Equal(t, db.RunFailed, failure.Status)
	require.Nil(t, failure.Response)
}

func TestResultsAreGivenUpWhenTheTimeToLeaveIsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store := &scriptedStore{record: func(int, []engine.Result) ([]db.Unit, error) { return nil, context.Canceled }}
	require.Equal(t, recorded{abandoned: []int64{1, 2}}, recordAll(t, ctx, store, 2))
}

// The units of a batch that is abandoned are requeued, their lanes continue, and the next batch is recorded.
func TestAPanicWhileRecordingRequeuesTheUnits(t *testing.T) {
	t.Parallel()
	store := &scriptedStore{record: func(call int, _ []engine.Result) ([]db.Unit, error) {
		if call == 1 {
			panic("the driver has a bug")
		}
		return nil, nil
	}}
	got := recordAll(t, t.Context(), store, maxBatch)
	require.Len(t, got.abandoned, maxBatch)
	require.Len(t, recordAll(t, t.Context(), store, 1).stored, 1)
}

func TestRetriesOfAttemptsGrowFromOneSecond(t *testing.T) {
	t.Parallel()
	retry := newRetry()
	for attempt := range 5 {
		base := float64(int(1) << attempt)
		wait := retry.NextBackOff().Seconds()
		require.GreaterOrEqual(t, wait, base)
		require.LessOrEqual(t, wait, 1.25*base+0.001)
	}
}
