package crew

import (
	"slices"
	"time"

	"wending/db"
)

const (
	// drainedFor is how long after a claim found nothing left of a target it is not claimed from again. Units requeued
	// later, from a worker that died, get new lanes.
	drainedFor = time.Second
	// besideOthers is how far ahead a rate-limit slot may be while other targets could use the lane.
	besideOthers = 50 * time.Millisecond
	// leastPace is the minimum duration that a call counts as when lanes are allocated.
	leastPace = time.Millisecond
)

// line is a supply's state for one target. The supply's lock guards it.
type line struct {
	number int
	// isLimited reports that the last claim was under a rate limit: nothing is claimed ahead of it.
	isLimited bool
	// drainedAt is when a claim found fewer units than the limit allowed, so that nothing was left.
	drainedAt time.Time
	// claimedAt is when a claim last got units of it.
	claimedAt time.Time
	// blockedUntil is when the next rate-limit slot is near.
	blockedUntil time.Time
	// ready and parked count units that are in no lane.
	ready, parked int
	// begun are the units in lanes, with the times at which they entered them.
	begun map[int64]time.Time
	// hasEnded reports that a unit has left its lane: so long it took, as a running mean.
	hasEnded bool
	callTime time.Duration
}

func newLine(number int) *line { return &line{number: number, begun: map[int64]time.Time{}} }

func (l *line) isDrained() bool { return time.Since(l.drainedAt) < drainedFor }

func (l *line) begin(unit int64) { l.begun[unit] = time.Now() }

// end reports whether another unit had ended before.
func (l *line) end(unit int64, took time.Duration) (hadEnded bool) {
	delete(l.begun, unit)
	hadEnded = l.hasEnded
	l.hasEnded, l.callTime = true, mean(l.callTime, took)
	return hadEnded
}

// learn records a claim's results for the target, from which it got some units.
func (l *line) learn(limit db.Limit, got int, now time.Time) {
	l.isLimited = limit.IsLimited
	if got < limit.Allowed {
		l.drainedAt = now
	}
	if got > 0 {
		l.claimedAt = now
	}
	if limit.Allowed == 0 {
		l.blockedUntil = now.Add(limit.RetryAfter)
	}
}

// pace is how long a call takes: the mean, or the age of the oldest in a lane if that is longer.
func (l *line) pace() time.Duration {
	pace := max(l.callTime, leastPace)
	for _, start := range l.begun {
		pace = max(pace, time.Since(start))
	}
	return pace
}

// plan returns how many of count units to claim from each target for the given number of lanes, some of which
// wait. The shorter a target's calls, the more lanes it gets: a target that is slow or hangs must not hold up
// the others. Until a call has ended, a target gets no more than a sixteenth of the lanes, and all such targets
// together no more than a quarter. The target claimed longest ago comes first, so that targets that share a
// rate limit take turns.
func plan(lines []*line, count, waiting, lanes int) []db.Want {
	var open []*line
	left := 0 // targets that may have more units
	for _, line := range lines {
		if line.isDrained() {
			continue
		}
		left++
		if time.Now().Before(line.blockedUntil) || line.parked >= lanes {
			continue
		}
		open = append(open, line)
	}
	if len(open) == 0 {
		return nil
	}
	slices.SortStableFunc(open, func(a, b *line) int { return a.claimedAt.Compare(b.claimedAt) })
	horizon := db.RateHorizon
	if left > 1 && len(open) > 1 {
		horizon = besideOthers
	}
	wants, paces := make([]db.Want, len(open)), make([]time.Duration, len(open))
	for n, line := range open {
		wants[n] = db.Want{Target: line.number, Horizon: horizon}
		if len(open) > 1 {
			paces[n] = line.pace()
		}
	}
	for range count {
		best := cheapest(open, wants, paces, func(line *line, units, used int) bool {
			return line.isLimited && units >= waiting || left > 1 && !line.hasEnded && used >= max(1, min(lanes/16, lanes/(4*left)))
		}, lanes)
		if best < 0 {
			break
		}
		wants[best].Units++
	}
	chosen := wants[:0]
	for _, want := range wants {
		if want.Units > 0 {
			chosen = append(chosen, want)
		}
	}
	return chosen
}

// cheapest returns which of the open lines the next unit costs least, by the time of its calls in the lanes that it uses; -1 if isFull
// holds for all of them, of a line, the units wanted of it already, and the lanes that it uses with them.
func cheapest(open []*line, wants []db.Want, paces []time.Duration, isFull func(line *line, units, used int) bool, lanes int) int {
	best, least := -1, time.Duration(0)
	for n, line := range open {
		used := len(line.begun) + line.ready + wants[n].Units
		if isFull(line, wants[n].Units, used) {
			continue
		}
		cost := time.Duration(used+1) * paces[n]
		if used == 0 && len(open) <= lanes/2 { // every target makes progress
			cost = 0
		}
		if best < 0 || cost < least {
			best, least = n, cost
		}
	}
	return best
}
