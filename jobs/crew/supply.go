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
	// unusedFor is how long a unit that was claimed ahead may wait before it is returned for other workers.
	unusedFor = 2 * time.Second
	// If a call and its commit take less than shortCall, a lane begins its next call before its last result is
	// committed; if they take less than quickCall, before its last two results are committed.
	shortCall = 60 * time.Millisecond
	quickCall = 25 * time.Millisecond
)

// supply claims units for the lanes of a crew: one transaction for all lanes that are waiting when it begins.
type supply struct {
	claim   func(wants []db.Want) (db.Claim, error)
	gate    *gate
	lanes   *atomic.Int64
	leaving <-chan struct{}
	contain func(doing string, work func()) (panicked bool)
	wake    chan struct{} // tells feed that it may have something to do

	mu sync.Mutex
	// lines are the launch's targets, in the order of their numbers.
	lines []*line
	ready []claimed
	// parked are units that wait for another attempt, without a lane.
	parked  []claimed
	waiting []chan supplied
	// claimTime and callTime are running means of the time that a claim takes and of the time that a unit spends in a
	// lane.
	claimTime, callTime time.Duration
}

// newSupply returns a supply for the targets with these numbers.
func newSupply(targets []int) *supply {
	s := &supply{wake: make(chan struct{}, 1)}
	for _, number := range targets {
		s.lines = append(s.lines, newLine(number))
	}
	return s
}

// claimed is a unit and the time at which its claim returned.
type claimed struct {
	db.Unit
	at        time.Time
	isLimited bool
	// attempt is the number of the next call, from 1.
	attempt int
	// isParked reports that the unit was parked. In that case, the field at holds the time at which its next call is
	// due, and the call needs its own rate-limit slot.
	isParked bool
	// errand is the purpose of the unit's calls.
	errand errand
	// retry determines the waits between attempts.
	retry retryClock
}

// mustBeginBy returns the latest time at which the unit's call may begin.
func (c claimed) mustBeginBy() time.Time {
	if c.isLimited {
		return c.at.Add(c.Wait + limitedClaimFreshFor)
	}
	return c.at.Add(c.Wait + claimFreshFor)
}

// supplied is the reply to a lane that asked for a unit; its zero value means that none is left.
type supplied struct {
	unit *claimed
	// retryAfter is how long to wait before asking again, if rate limits or a budget hold all units back; otherwise 0.
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
	if unit := s.takeLocked(); unit != nil {
		isLow := 2*len(s.ready) < s.aheadLocked()
		s.mu.Unlock()
		if isLow {
			s.signal()
		}
		return supplied{unit: unit}
	}
	if len(s.parked) == 0 && s.isDrainedLocked() {
		s.mu.Unlock()
		return supplied{}
	}
	reply := make(chan supplied, 1)
	s.waiting = append(s.waiting, reply)
	s.mu.Unlock()
	s.signal()
	return <-reply
}

// takeLocked removes and returns a unit whose next attempt is due, or else the first ready one; nil if there is
// none.
func (s *supply) takeLocked() *claimed {
	for n, unit := range s.parked {
		if !time.Now().Before(unit.at) {
			s.parked = append(s.parked[:n:n], s.parked[n+1:]...)
			s.lineLocked(unit).parked--
			s.lineLocked(unit).begin(unit.ID)
			return &unit
		}
	}
	if len(s.ready) == 0 {
		return nil
	}
	unit := s.ready[0]
	s.ready = s.ready[1:]
	s.lineLocked(unit).ready--
	s.lineLocked(unit).begin(unit.ID)
	return &unit
}

// end records that a unit returned by next has left its lane. took is the time that it spent there.
func (s *supply) end(unit claimed, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callTime = mean(s.callTime, took)
	if hadEnded := s.lineLocked(unit).end(unit.ID, took); !hadEnded && len(s.waiting) > 0 {
		s.signal() // lanes may have waited to learn how fast the target is
	}
}

// park keeps a unit, which a lane has taken with next, until its next attempt is due. Until then it occupies no lane.
func (s *supply) park(unit claimed, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unit.at, unit.isParked = time.Now().Add(wait), true
	s.parked = append(s.parked, unit)
	s.lineLocked(unit).parked++
	time.AfterFunc(wait, s.signal)
}

// refill records that these targets have units to claim again.
func (s *supply) refill(targets []db.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, target := range targets {
		for _, line := range s.lines {
			if line.number == target.Number {
				line.drainedAt = time.Time{}
			}
		}
	}
	s.signal()
}

func (s *supply) hasParked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.parked) > 0
}

func (s *supply) lineLocked(unit claimed) *line {
	for _, line := range s.lines {
		if line.number == unit.Target {
			return line
		}
	}
	panic("a unit of a target that the launch does not have")
}

// isDrainedLocked reports whether recent claims found that none of the targets has units left.
func (s *supply) isDrainedLocked() bool {
	for _, line := range s.lines {
		if !line.isDrained() {
			return false
		}
	}
	return true
}

// signal wakes the feeder.
func (s *supply) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // a signal is already pending
	}
}

// aheadLocked returns how many units to keep ready: about as many as lanes use during eight claims, so that there are
// few claims, and lanes whose calls end together need not wait for a claim. It is zero if calls take long, because the
// time for a claim is then negligible.
func (s *supply) aheadLocked() int {
	if s.callTime == 0 {
		return 0
	}
	lanes := int(s.lanes.Load())
	return min(4*lanes, int(math.Round(8*float64(lanes)*float64(s.claimTime)/float64(s.callTime))))
}

// errInternal dismisses lanes after a panic; reconcile adds new ones.
var errInternal = errors.New("internal error while claiming units")

// feed claims units for waiting lanes until done is closed. By then no lane waits, because the last one has left.
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
	wants := s.wanted(isLeaving)
	if len(wants) == 0 {
		return
	}
	start := time.Now()
	claim, err := s.claim(wants)
	s.distribute(wants, claim, err, start)
}

// wanted returns how many units of each target to claim now. If no call may begin, it dismisses every waiting lane and
// returns nothing.
func (s *supply) wanted(isLeaving bool) []db.Want {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isLeaving || s.gate.isClosed() {
		s.dismissLocked(0, supplied{})
		return nil
	}
	s.handOutLocked()
	count := len(s.waiting) + s.aheadLocked() - len(s.ready)
	if s.claimTime == 0 { // the first claim serves all lanes, because they all ask at the same time
		count = max(len(s.waiting), int(s.lanes.Load()))
	}
	if count <= 0 {
		return nil
	}
	wants := plan(s.lines, count, len(s.waiting), int(s.lanes.Load()))
	if len(wants) == 0 {
		s.settleLocked()
	}
	return wants
}

// distribute gives claimed units to waiting lanes and keeps the rest ready.
func (s *supply) distribute(wants []db.Want, claim db.Claim, err error, start time.Time) {
	now := time.Now()
	if len(claim.Units) > 0 {
		s.gate.confirm(start)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimTime = mean(s.claimTime, now.Sub(start))
	if err != nil {
		s.dismissLocked(0, supplied{err: err})
		return
	}
	got := map[int]int{}
	for _, unit := range claim.Units {
		got[unit.Target]++
	}
	for n, want := range wants {
		limit := db.Limit{Allowed: want.Units} // if the claim has no limits, the target counts as drained
		if n < len(claim.Limits) {
			limit = claim.Limits[n]
		}
		for _, line := range s.lines {
			if line.number == want.Target {
				line.learn(limit, got[want.Target], now)
			}
		}
	}
	var limited, free []claimed
	for _, unit := range claim.Units {
		one := claimed{Unit: unit, at: now, attempt: 1, errand: newErrand(unit)}
		line := s.lineLocked(one)
		line.ready++
		if one.isLimited = line.isLimited; one.isLimited {
			limited = append(limited, one)
		} else {
			free = append(free, one)
		}
	}
	s.ready = append(append(limited, s.ready...), free...) // a reserved slot expires, while the other units can wait
	s.handOutLocked()
	if len(s.waiting) > 0 {
		s.signal() // to claim from other targets, or to dismiss the lanes
	}
}

// handOutLocked gives the available units to waiting lanes.
func (s *supply) handOutLocked() {
	for len(s.waiting) > 0 {
		unit := s.takeLocked()
		if unit == nil {
			return
		}
		s.waiting[0] <- supplied{unit: unit}
		s.waiting = s.waiting[1:]
	}
}

// settleLocked decides which lanes keep waiting while nothing can be claimed: one for each unit that waits for
// another attempt, or all of them if a target is held back only until its speed is known.
func (s *supply) settleLocked() {
	var answer supplied
	for _, line := range s.lines {
		switch blocked := time.Until(line.blockedUntil); {
		case line.isDrained():
		case blocked <= 0:
			return
		case answer.retryAfter == 0 || blocked < answer.retryAfter:
			answer.retryAfter = blocked
		}
	}
	s.dismissLocked(len(s.parked), answer)
	if len(s.waiting) > 0 && answer.retryAfter > 0 {
		time.AfterFunc(answer.retryAfter, s.signal)
	}
}

func (s *supply) dismiss(answer supplied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dismissLocked(0, answer)
}

// dismissLocked sends answer to waiting lanes, longest wait first, until no more lanes are waiting than the parameter
// but allows.
func (s *supply) dismissLocked(but int, answer supplied) {
	for len(s.waiting) > but {
		s.waiting[0] <- answer
		s.waiting = s.waiting[1:]
	}
}

// takeUnused removes and returns units that no lane will need soon: ready units claimed longer ago than age and, if
// no call may begin any more or age is 0, all units without a lane.
func (s *supply) takeUnused(age time.Duration) []db.Unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	isOver := s.gate.isClosed() || age == 0
	var unused []db.Unit
	for len(s.ready) > 0 && (isOver || time.Since(s.ready[0].at) >= age) {
		unused = append(unused, s.ready[0].Unit)
		s.lineLocked(s.ready[0]).ready--
		s.ready = s.ready[1:]
	}
	if isOver {
		for _, unit := range s.parked {
			unit.errand.close()
			unused = append(unused, unit.Unit)
			s.lineLocked(unit).parked--
		}
		s.parked = nil
	}
	return unused
}

// maxUnrecorded returns how many results of a lane may still be unrecorded when it begins its next call: none, or a few
// if calls are hardly longer than commits.
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

// mean returns the running mean after a new value, which has a weight of one eighth. A mean of 0 means that there was
// no value before.
func mean(old, value time.Duration) time.Duration {
	if old == 0 {
		return value
	}
	return (7*old + value) / 8
}
