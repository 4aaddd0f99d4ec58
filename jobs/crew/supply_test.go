package crew

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/db"
)

// contain is crew.contain without logging.
func contain(_ string, work func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	work()
	return false
}

// plainSupply returns a supply of one target that claims by calling claim; its feeder runs until the test ends.
func plainSupply(t *testing.T, lanes int64, claim func(want int) (db.Claim, error)) (s *supply, leave func()) {
	t.Helper()
	leaving, done := make(chan struct{}), make(chan struct{})
	s = newSupply([]int{1})
	s.claim = func(wants []db.Want) (db.Claim, error) { return claim(wants[0].Units) }
	s.gate, s.lanes, s.leaving, s.contain = newGate(), new(atomic.Int64), leaving, contain
	s.lanes.Store(lanes)
	var feeding sync.WaitGroup
	feeding.Go(func() { s.feed(done) })
	t.Cleanup(func() { close(done); feeding.Wait() })
	return s, sync.OnceFunc(func() { close(leaving) })
}

func units(n int) (list []db.Unit) {
	for i := range n {
		list = append(list, db.Unit{ID: int64(i + 1), Target: 1})
	}
	return list
}

func TestLanesThatWaitShareAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var claims atomic.Int64
		blocked := make(chan struct{})
		s, _ := plainSupply(t, 8, func(want int) (db.Claim, error) {
			if claims.Add(1) == 1 {
				<-blocked // lets the other lanes begin to wait
			}
			return db.Claim{Units: units(want)}, nil
		})
		var lanes sync.WaitGroup
		for range 8 {
			lanes.Go(func() { assert.NotNil(t, s.next().unit) })
		}
		synctest.Wait()
		close(blocked)
		lanes.Wait()
		require.LessOrEqual(t, claims.Load(), int64(2), "one for the lane that came first, one for all others")
	})
}

func TestNothingIsClaimedOnceTheLaunchHasEndedOrTheWorkerLeaves(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*supply, func()){
		"the launch has ended": func(s *supply, _ func()) { s.gate.close(); s.signal() },
		"the worker leaves":    func(_ *supply, leave func()) { leave() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var claims atomic.Int64
				s, leave := plainSupply(t, 1, func(int) (db.Claim, error) {
					claims.Add(1)
					return db.Claim{}, nil
				})
				end(s, leave)
				synctest.Wait()
				require.Equal(t, supplied{}, s.next(), "the lane is dismissed")
				require.Zero(t, claims.Load())
			})
		})
	}
}

func TestUnitsClaimedAheadAreTakenBackWhenUnused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := plainSupply(t, 1, func(want int) (db.Claim, error) { return db.Claim{Units: units(want + 2)}, nil })
		require.NotNil(t, s.next().unit)
		require.Empty(t, s.takeUnused(unusedFor), "they are fresh")
		time.Sleep(unusedFor) // on the fake clock
		require.Len(t, s.takeUnused(unusedFor), 2)
	})
}

func TestUnderARateLimitNothingIsClaimedAhead(t *testing.T) {
	t.Parallel()
	s := newSupply([]int{1})
	s.lanes, s.gate, s.callTime, s.claimTime = new(atomic.Int64), newGate(), time.Millisecond, time.Millisecond
	s.lanes.Store(4)
	wants := s.wanted(false)
	require.Len(t, wants, 1)
	require.Equal(t, 16, wants[0].Units)
	s.distribute(wants, db.Claim{Limits: []db.Limit{{IsLimited: true, Allowed: 1}}, Units: units(1)}, nil, time.Now())
	require.Empty(t, s.wanted(false))
}

// The waiting lanes are dismissed, and the next claim works.
func TestAPanicWhileClaimingDismissesTheLanesAndNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var claims atomic.Int64
		s, _ := plainSupply(t, 1, func(want int) (db.Claim, error) {
			if claims.Add(1) == 1 {
				panic("the driver has a bug")
			}
			return db.Claim{Units: units(want)}, nil
		})
		require.ErrorIs(t, s.next().err, errInternal)
		require.NotNil(t, s.next().unit)
	})
}

func TestAFailedClaimIsPassedOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	s, _ := plainSupply(t, 1, func(int) (db.Claim, error) { return db.Claim{}, broken })
	require.ErrorIs(t, s.next().err, broken)
}

// A claim that returns fewer units than the limit allows means that none is left.
func TestOnlyAnEmptyQueueDrainsTheSupply(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits  []db.Limit
		units   int
		drained bool
	}{
		"nothing left":               {[]db.Limit{{Allowed: 2}}, 1, true},
		"nothing may be claimed":     {nil, 0, true},
		"a rate limit":               {[]db.Limit{{IsLimited: true, Allowed: 1}}, 1, false},
		"nothing left under a limit": {[]db.Limit{{IsLimited: true, Allowed: 1}}, 0, true},
		"an agent postponed":         {[]db.Limit{{RetryAfter: time.Second}}, 0, false},
		"as wanted":                  {[]db.Limit{{Allowed: 2}}, 2, false},
	} {
		s := newSupply([]int{1})
		s.lanes, s.gate = new(atomic.Int64), newGate()
		s.distribute([]db.Want{{Target: 1, Units: 2}}, db.Claim{Limits: test.limits, Units: units(test.units)}, nil,
			time.Now())
		require.Equal(t, test.drained, s.isDrainedLocked(), name)
	}
}
