package crew

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
)

// shift is how long a lane works for its launch while there are fewer lanes than launches.
const shift = 2 * time.Second

// End is the reason why a lane stopped working.
type End int

// The reasons why lanes stop.
const (
	// NothingLeft means that the lane found no more units; reconcile adds lanes when there are units again.
	NothingLeft End = iota
	// Leaving means that the worker is shutting down, and others should continue the launch.
	Leaving
	// MadeRoom means that the lane makes room for another launch.
	MadeRoom
)

// Lane is a lane of a launch that was given to this worker. The caller of Enter must call Work, which leaves the lane.
type Lane struct {
	id    uuid.UUID
	crews *Crews
	crew  *crew
}

// Enter requests up to n of a launch's lanes in one transaction, and returns the ones it gets. All of them join the
// crew before the first one claims, so that one claim serves them all.
func (s *Crews) Enter(ctx context.Context, launch Launch, lease db.Lease, n int) ([]*Lane, error) {
	admitted, err := s.config.Holdings.enterLanes(n, func(ids []uuid.UUID) ([]uuid.UUID, error) {
		return engine.NewLanes(s.config.Store).Enter(ctx, ids, launch.LaunchID, lease)
	})
	if err != nil || len(admitted) == 0 {
		return nil, err
	}
	entered := make([]*Lane, len(admitted))
	for n, id := range admitted {
		entered[n] = &Lane{id: id, crews: s, crew: s.join(launch, lease)}
	}
	return entered, nil
}

// Work works in the lane until there is a reason to stop, and then leaves the lane. isLast reports that the crew's last
// lane has left, so the launch may have ended.
func (l *Lane) Work(ctx context.Context) (end End, isLast bool, err error) {
	c := l.crew
	//nolint:contextcheck // units are returned after the lane's own context has ended
	if c.contain("work in a lane", func() { end, err = c.work(l.id) }) {
		err = errInternal
	}
	c.Holdings.leaveLane(l.id, func() error { return engine.NewLanes(c.Store).Leave(ctx, l.id) })
	return end, l.crews.leave(c), err //nolint:contextcheck // as above
}

// work runs units until no unit is left for the lane, fewer lanes suffice for the rate limit, other launches need the
// lane, or the worker shuts down.
func (c *crew) work(lane uuid.UUID) (End, error) {
	var unrecorded []<-chan struct{} // each is closed once one of the lane's results is recorded
	start := time.Now()
	for !c.isLeaving() {
		if c.makesRoom(start) {
			return MadeRoom, nil
		}
		got := c.supply.next()
		switch {
		case got.err != nil:
			return NothingLeft, got.err // reconcile will add a lane
		case got.retryAfter > 0:
			yielded, err := engine.NewLanes(c.Store).Yield(c.calls, lane, c.LaunchID)
			if err != nil || yielded || got.retryAfter > shift {
				return NothingLeft, err // reconcile will add a lane when a slot is near
			}
			c.pause(got.retryAfter)
		case got.unit == nil:
			if c.isLeaving() {
				return Leaving, nil
			}
			return NothingLeft, nil
		default:
			begun := time.Now()
			if recorded := c.run(*got.unit); recorded != nil {
				unrecorded = append(unrecorded, recorded)
			}
			for len(unrecorded) > c.maxUnrecorded() {
				<-unrecorded[0]
				unrecorded = unrecorded[1:]
			}
			c.supply.end(*got.unit, time.Since(begun))
		}
	}
	return Leaving, nil
}

// maxUnrecorded returns how many results of a lane may still be unrecorded when it begins its next call. If the task is
// adaptive, the next call may depend on all of them.
func (c *crew) maxUnrecorded() int {
	if c.Task.Adaptive != nil {
		return 0
	}
	return c.supply.maxUnrecorded()
}

// makesRoom reports whether a lane that has worked since start must make room for waiting launches. The last lane
// stays while units wait for a retry, because otherwise their attempts would start over.
func (c *crew) makesRoom(start time.Time) bool {
	if c.lanes.Load() == 1 && c.supply.hasParked() {
		return false
	}
	if c.takesShifts.Load() && time.Since(start) >= shift {
		return true
	}
	for surplus := c.surplus.Load(); surplus > 0; surplus = c.surplus.Load() {
		if c.surplus.CompareAndSwap(surplus, surplus-1) {
			return true
		}
	}
	return false
}

// run makes one attempt of a unit and passes its outcome to the recorder; the channel is closed once the outcome is
// recorded. The channel is nil if there is no outcome, because the unit waits for its next attempt or was returned.
func (c *crew) run(unit claimed) (recorded <-chan struct{}) {
	isKept := false
	defer func() {
		if !isKept { // also after a panic
			unit.errand.close()
			c.returnUnits([]db.Unit{unit.Unit})
		}
	}()
	may, isParked := c.mayAttempt(&unit)
	if !may {
		isKept = isParked
		return nil
	}
	result, isParked := c.attempt(&unit)
	isKept = isParked || result != nil
	if result == nil {
		return nil
	}
	unit.errand.close()
	recorded = c.recorder.record(*result)
	if result.Turn.HasMore() {
		<-recorded // a crash must not lose more than the turn in flight
		unit.begin()
		c.supply.park(unit, 0)
	}
	return recorded
}
