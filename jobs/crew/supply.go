package crew

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"wending/db"
)

const (
	// unusedFor is how long a unit claimed ahead may wait before it is returned for other workers.
	unusedFor = 2 * time.Second
	// shortCall is the duration of a call with its commit below which a lane begins its next call while the last
	// result is being committed; below quickCall, while the last two are.
	shortCall = 60 * time.Millisecond
	quickCall = 25 * time.Millisecond
	// drainedFor is how long after a claim found nothing left lanes leave without claiming again. Units requeued
	// later, from a worker that died, get new lanes.
	drainedFor = time.Second
)

// supply claims units for the lanes of a crew: one transaction for as many lanes as wait when it begins.
type supply struct {
	claim   func(want int) (db.Claim, error)
	gate    *gate
	lanes   *atomic.Int64
	leaving <-chan struct{}
	contain func(doing string, work func()) (panicked bool)
	wake    chan struct{} // the feeder may have something to do

	mu      sync.Mutex
	ready   []claimed
	waiting []chan supplied
	// isLimited reports that the last claim was under a rate limit: nothing is claimed ahead of it.
	isLimited bool
	// drainedAt is when a claim found fewer units than it wanted, so that nothing was left.
	drainedAt time.Time
	// claimTime and callTime are running means.
	claimTime, callTime time.Duration
}

// claimed is a unit and the time at which its claim returned.
type claimed struct {
	db.Unit
	at        time.Time
	isLimited bool
}

// mustBeginBy is the latest time at which the unit's call may begin.
func (c claimed) mustBeginBy() time.Time {
	if c.isLimited {
		return c.at.Add(c.Wait + limitedClaimFreshFor)
	}
	return c.at.Add(c.Wait + claimFreshFor)
}

// supplied is the answer to a lane that asked for a unit; its zero value means that nothing is left.
type supplied struct {
	unit *claimed
	// retryAfter is set if no rate-limit slot is near.
	retryAfter time.Duration
	err        error
}

// next returns a unit. It blocks until one is available or none is left.
func (s *supply) next() supplied {
	s.mu.Lock()
	if s.gate.isClosed() {
		s.mu.Unlock()
		return supplied{}
	}
	if len(s.ready) > 0 {
		unit := s.ready[0]
		s.ready = s.ready[1:]
		isLow := 2*len(s.ready) < s.aheadLocked()
		s.mu.Unlock()
		if isLow {
			s.signal()
		}
		return supplied{unit: &unit}
	}
	if s.isDrainedLocked() {
		s.mu.Unlock()
		return supplied{}
	}
	reply := make(chan supplied, 1)
	s.waiting = append(s.waiting, reply)
	s.mu.Unlock()
	s.signal()
	return <-reply
}

// isDrainedLocked reports whether a recent claim found nothing left.
func (s *supply) isDrainedLocked() bool { return time.Since(s.drainedAt) < drainedFor }

// signal wakes the feeder.
func (s *supply) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // already pending
	}
}

// aheadLocked is how many units to have ready: about eight claims' worth, so that claims are few and lanes that end
// together do not wait for one. It is zero if calls take long, because the time for a claim is then negligible.
func (s *supply) aheadLocked() int {
	if s.isLimited || s.callTime == 0 {
		return 0
	}
	lanes := int(s.lanes.Load())
	return min(4*lanes, int(math.Round(8*float64(lanes)*float64(s.claimTime)/float64(s.callTime))))
}

// errInternal dismisses lanes after a panic; reconcile sends new ones.
var errInternal = errors.New("internal error while claiming units")

// feed claims units for the lanes that wait, until done is closed. By then no lane waits: the last has left.
func (s *supply) feed(done <-chan struct{}) {
	leaving := s.leaving
	for {
		select {
		case <-done:
			return
		case <-s.wake:
		case <-leaving:
			leaving = nil // handled once
		}
		if s.contain("claim units", func() { s.feedOnce(leaving == nil) }) {
			s.dismiss(supplied{err: errInternal})
		}
	}
}

func (s *supply) feedOnce(isLeaving bool) {
	want := s.wanted(isLeaving)
	if want <= 0 {
		return
	}
	start := time.Now()
	claim, err := s.claim(want)
	s.distribute(want, claim, err, start)
}

// wanted returns how many units to claim now. If nothing may begin, it dismisses every waiting lane and returns 0.
func (s *supply) wanted(isLeaving bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isLeaving || s.gate.isClosed() || s.isDrainedLocked() {
		s.dismissLocked(supplied{})
		return 0
	}
	if s.claimTime == 0 { // the first claim is for all lanes: they ask at the same time
		return max(len(s.waiting), int(s.lanes.Load()))
	}
	return len(s.waiting) + s.aheadLocked() - len(s.ready)
}

// distribute hands claimed units to the lanes that wait and keeps the rest ready.
func (s *supply) distribute(want int, claim db.Claim, err error, start time.Time) {
	now := time.Now()
	if len(claim.Units) > 0 {
		s.gate.confirm(start)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isLimited = claim.IsRateLimited
	if err == nil && !claim.IsRateLimited && claim.RetryAfter == 0 && len(claim.Units) < want {
		s.drainedAt = now
	}
	s.claimTime = mean(s.claimTime, now.Sub(start))
	for _, unit := range claim.Units {
		s.ready = append(s.ready, claimed{unit, now, claim.IsRateLimited})
	}
	for len(s.waiting) > 0 && len(s.ready) > 0 {
		unit := s.ready[0]
		s.waiting[0] <- supplied{unit: &unit}
		s.waiting, s.ready = s.waiting[1:], s.ready[1:]
	}
	switch {
	case err != nil, claim.RetryAfter > 0, len(claim.Units) == 0, s.drainedAt.Equal(now):
		s.dismissLocked(supplied{retryAfter: claim.RetryAfter, err: err})
	case len(s.waiting) > 0: // the rate limit allowed fewer than were wanted
		s.signal()
	}
}

func (s *supply) dismiss(answer supplied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dismissLocked(answer)
}

// dismissLocked answers every lane that waits.
func (s *supply) dismissLocked(answer supplied) {
	for _, reply := range s.waiting {
		reply <- answer
	}
	s.waiting = nil
}

// takeUnused removes and returns the ready units claimed longer ago than age, or all of them once nothing may begin.
func (s *supply) takeUnused(age time.Duration) []db.Unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var unused []db.Unit
	for len(s.ready) > 0 && (s.gate.isClosed() || time.Since(s.ready[0].at) >= age) {
		unused = append(unused, s.ready[0].Unit)
		s.ready = s.ready[1:]
	}
	return unused
}

// observe records how long a lane took for a call and its commit.
func (s *supply) observe(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callTime = mean(s.callTime, took)
}

// maxUnrecorded is how many results of a lane may still be unrecorded when it begins its next call: none, or a
// few where calls are hardly longer than commits.
func (s *supply) maxUnrecorded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.callTime == 0 || s.callTime >= shortCall:
		return 0
	case s.callTime >= quickCall:
		return 1
	}
	return 2
}

func (s *supply) isRateLimited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isLimited
}

// mean moves a running mean towards a new value.
func mean(old, value time.Duration) time.Duration {
	if old == 0 {
		return value
	}
	return (7*old + value) / 8
}
