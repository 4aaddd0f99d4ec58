package crew

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/jobs/tasks"
)

const (
	// laneSlice is how long a lane works before it queues again, so that tasks share the workers fairly; a lane
	// under a rate limit waits more than it works, and makes room sooner.
	laneSlice        = 10 * time.Second
	limitedLaneSlice = 2 * time.Second
)

// Lane is one of a launch's lanes that this worker was admitted to. The caller must call Work.
type Lane struct {
	id    uuid.UUID
	crews *Crews
	crew  *crew
}

// Enter takes up to n of a launch's lanes, in one transaction, and returns those that it was admitted to. All of
// them join the crew before the first one claims, so that it claims for all.
func (s *Crews) Enter(ctx context.Context, call db.Call, target tasks.Target, lease db.Lease, n int) ([]*Lane, error) {
	admitted, err := s.config.Holdings.enterLanes(n, func(lanes []uuid.UUID) ([]uuid.UUID, error) {
		return s.config.Store.EnterLanes(ctx, lanes, call.LaunchID, lease)
	})
	if err != nil || len(admitted) == 0 {
		return nil, err
	}
	lanes := make([]*Lane, len(admitted))
	for n, id := range admitted {
		lanes[n] = &Lane{id: id, crews: s, crew: s.join(call, target, lease)}
	}
	return lanes, nil
}

// Work works in the lane until nothing is left for it, and leaves it. continues reports that the launch's work
// should continue in another job; isLast that the crew's last lane has left, so that the launch may be at its end.
func (l *Lane) Work(ctx context.Context) (continues, isLast bool, err error) {
	c := l.crew
	if c.contain("work in a lane", func() { continues, err = c.work(l.id) }) {
		err = errInternal
	}
	c.Holdings.leaveLane(l.id, func() error { return c.Store.LeaveLane(ctx, l.id) })
	return continues, l.crews.leave(c), err
}

// work runs units until nothing is left for the lane, other lanes suffice for the rate limit, the lane's slice is
// over and other launches wait (continues: it should queue again), or the worker leaves.
func (c *crew) work(lane uuid.UUID) (continues bool, err error) {
	var unrecorded []<-chan struct{} // each is closed when one of the lane's results is recorded
	start := time.Now()
	for !c.isLeaving() {
		slice := laneSlice
		if c.supply.isRateLimited() {
			slice = limitedLaneSlice
		}
		left := slice - time.Since(start)
		if left <= 0 && c.OthersWait() {
			return true, nil
		}
		got := c.supply.next()
		switch {
		case got.err != nil:
			return false, got.err // reconcile sends another lane
		case got.retryAfter > 0:
			yielded, err := c.Store.YieldLane(c.calls, lane, c.call.LaunchID)
			if err != nil || yielded || got.retryAfter > slice {
				return false, err // reconcile sends a lane when a slot is near
			}
			c.pause(min(got.retryAfter, max(watchEvery, left)))
		case got.unit == nil:
			return c.isLeaving(), nil
		default:
			begun := time.Now()
			if recorded := c.run(*got.unit); recorded != nil {
				unrecorded = append(unrecorded, recorded)
			}
			for len(unrecorded) > c.supply.maxUnrecorded() {
				<-unrecorded[0]
				unrecorded = unrecorded[1:]
			}
			c.supply.observe(time.Since(begun))
		}
	}
	return true, nil // for the workers that stay
}

// run calls the agent for one unit and hands the outcome to the recorder; the channel is closed when it is
// recorded. A unit without an outcome is returned, and the channel is nil: the worker is leaving, the launch
// was stopped, or the unit may already belong to another worker.
func (c *crew) run(unit claimed) (recorded <-chan struct{}) {
	isHandedOver := false
	defer func() {
		if !isHandedOver { // also after a panic
			c.returnUnits([]db.Unit{unit.Unit})
		}
	}()
	if !c.pause(time.Until(unit.at.Add(unit.Wait))) || !c.gate.await(unit.mustBeginBy(), c.Leaving) {
		return nil
	}
	result, hasOutcome := c.askWithRetries(unit.Unit)
	if !hasOutcome {
		return nil
	}
	recorded = c.recorder.record(result)
	isHandedOver = true
	return recorded
}
