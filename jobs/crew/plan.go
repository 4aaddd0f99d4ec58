package crew

import (
	"slices"
	"time"

	"wending/db"
)

const (
	// drainedFor is how long claims skip a target after one of them found no units left. Units that are requeued
	// later, because a worker died, get new lanes.
	drainedFor = time.Second
	// besideOthers is the maximum time for which a lane waits for a rate-limit slot while other targets could use the
	// lane.
	besideOthers = 50 * time.Millisecond
	// leastPace is the shortest duration of a call that is assumed when lanes are allocated.
	leastPace = time.Millisecond
)

// line is a supply's state for one target. The supply's lock guards it.
type line struct {
	number int
	// isLimited reports that the last claim was under a rate limit, so that no units are claimed ahead.
	isLimited bool
	// drainedAt is when a claim returned fewer units than the limit allowed, which means that none was left.
	drainedAt time.Time
	// claimedAt is when a claim last returned units for the target.
	claimedAt time.Time
	// blockedUntil is when to claim for the target again, if a rate limit or a budget allowed none at the last claim.
	blockedUntil time.Time
	// ready counts the claimed units that wait for a lane, parked those that wait for another attempt.
	ready, parked int
	// begun maps each unit in a lane to the time at which it entered the lane.
	begun map[int64]time.Time
	// hasEnded reports that a unit has left its lane; callTime is the running mean of the time that units spent there.
	hasEnded bool
	callTime time.Duration
}

func newLine(number int) *line { return &line{number: number, begun: map[int64]time.Time{}} }

func (l *line) isDrained() bool { return time.Since(l.drainedAt) < drainedFor }

func (l *line) begin(unit int64) { l.begun[unit] = time.Now() }

// end records that a unit has left its lane, and reports whether another unit had done so before.
func (l *line) end(unit int64, took time.Duration) (hadEnded bool) {
	delete(l.begun, unit)
	hadEnded = l.hasEnded
	l.hasEnded, l.callTime = true, mean(l.callTime, took)
	return hadEnded
}

// learn records the result of a claim for the target: its limit, and how many units it returned.
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

// pace returns how long a call takes: the mean or, if longer, the age of the oldest call in a lane.
func (l *line) pace() time.Duration {
	pace := max(l.callTime, leastPace)
	for _, start := range l.begun {
		pace = max(pace, time.Since(start))
	}
	return pace
}

// plan divides a claim of at most count units among the targets. lanes is the number of lanes, and waiting how many of
// them wait for a unit. The shorter a target's calls, the more lanes it gets: a target that is slow or hangs must not
// hold up the others. Until one of its calls has ended, a target gets at most a sixteenth of the lanes, and all such
// targets together at most a quarter. The target from which units were claimed longest ago comes first, so that targets
// that share a rate limit take turns.
func plan(lines []*line, count, waiting, lanes int) []db.Want {
	var open []*line
	left := 0 // the number of targets that may have more units
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
			return line.isLimited && units >= waiting || left > 1 && !line.hasEnded &&
				used >= max(1, min(lanes/16, lanes/(4*left)))
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

// cheapest returns the index of the open line whose next unit costs least, measured by the time its calls occupy lanes;
// -1 if isFull returns true for all of them. The arguments of isFull are a line, the number of units planned for it,
// and the total number of lanes that its running, ready and planned units use.
func cheapest(open []*line, wants []db.Want, paces []time.Duration, isFull func(line *line, units, used int) bool,
	lanes int) int {
	best, least := -1, time.Duration(0)
	for n, line := range open {
		used := len(line.begun) + line.ready + wants[n].Units
		if isFull(line, wants[n].Units, used) {
			continue
		}
		cost := time.Duration(used+1) * paces[n]
		if used == 0 && len(open) <= lanes/2 { // lets every target make progress
			cost = 0
		}
		if best < 0 || cost < least {
			best, least = n, cost
		}
	}
	return best
}
