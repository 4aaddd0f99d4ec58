package crew

import (
	"sync"
	"time"
)

const (
	// gateFreshFor is how long a confirmation is valid: no call begins later than this after a stop.
	gateFreshFor = 800 * time.Millisecond
	// claimFreshFor is how long a claimed unit may wait before its call begins. It is far below db.WorkerDeadAfter,
	// so a process that was frozen never begins a unit that another worker has claimed since.
	claimFreshFor = 5 * time.Second
	// limitedClaimFreshFor replaces claimFreshFor under a rate limit: after that time, the reserved slot has passed, and
	// several calls would begin at once.
	limitedClaimFreshFor = 250 * time.Millisecond
)

// gate decides whether a call may begin: only while the launch is known to be running and the worker's lease is
// known to be held. Every confirmation opens the gate for gateFreshFor; close shuts it permanently.
type gate struct {
	mu          sync.Mutex
	confirmedAt time.Time
	confirmed   chan struct{} // closed by the next confirmation, and by close
	closed      chan struct{}
}

func newGate() *gate {
	return &gate{confirmed: make(chan struct{}), closed: make(chan struct{})}
}

// confirm records that the launch was running and the lease was held at the given time.
func (g *gate) confirm(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosed() || !at.After(g.confirmedAt) {
		return
	}
	g.confirmedAt = at
	close(g.confirmed)
	g.confirmed = make(chan struct{})
}

// close shuts the gate permanently.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isClosed() {
		close(g.closed)
		close(g.confirmed)
	}
}

func (g *gate) isClosed() bool {
	select {
	case <-g.closed:
		return true
	default:
		return false
	}
}

// await blocks until a call may begin, and returns false if it must not: the gate closed, the deadline passed, or
// cancel was closed.
func (g *gate) await(deadline time.Time, cancel <-chan struct{}) bool {
	for {
		g.mu.Lock()
		isFresh, confirmed := time.Since(g.confirmedAt) < gateFreshFor, g.confirmed
		g.mu.Unlock()
		left := time.Until(deadline)
		select {
		case <-cancel:
			return false
		default:
		}
		switch {
		case g.isClosed() || left <= 0:
			return false
		case isFresh:
			return true
		}
		select {
		case <-confirmed:
		case <-cancel:
			return false
		case <-time.After(left):
		}
	}
}
