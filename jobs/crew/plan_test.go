package crew

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
)

// counts returns how many units a plan takes from each line, by line number from 1.
func counts(wants []db.Want, lines int) []int {
	list := make([]int, lines)
	for _, want := range wants {
		list[want.Target-1] = want.Units
	}
	return list
}

// linesOf returns lines whose calls have the given durations.
func linesOf(paces ...time.Duration) (lines []*line) {
	for n, pace := range paces {
		line := newLine(n + 1)
		if pace > 0 {
			line.end(0, pace)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestLanesGoWhereCallsAreShort(t *testing.T) {
	t.Parallel()
	second := time.Second
	for name, test := range map[string]struct {
		lines []*line
		lanes int
		want  []int
	}{
		"one":                             {linesOf(second), 8, []int{8}},
		"one that has not answered yet":   {linesOf(0), 8, []int{8}},
		"equals":                          {linesOf(second, second), 8, []int{4, 4}},
		"one is five times as slow":       {linesOf(second, 5*second), 12, []int{10, 2}},
		"each has one":                    {linesOf(second/20, 30*second), 8, []int{7, 1}},
		"unless there are more than half": {linesOf(second/20, 30*second), 2, []int{2, 0}},
		"those that have not answered":    {linesOf(0, 0), 64, []int{4, 4}},
		"one has not answered":            {linesOf(second, 0), 64, []int{60, 4}},
	} {
		require.Equal(t, test.want, counts(plan(test.lines, test.lanes, test.lanes, test.lanes), len(test.lines)), name)
	}
}

// A call in flight counts with the time it has already taken.
func TestATargetThatHangsGetsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := linesOf(50*time.Millisecond, 50*time.Millisecond)
		lines[1].begin(7)
		require.Equal(t, []int{4, 3}, counts(plan(lines, 7, 7, 8), 2))
		time.Sleep(time.Minute) // on the fake clock
		require.Equal(t, []int{7, 0}, counts(plan(lines, 7, 7, 8), 2))
	})
}

func TestWhatATargetCannotGiveIsNotWanted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lines := linesOf(time.Second, time.Second, time.Second, time.Second)
	lines[0].learn(db.Limit{Allowed: 3}, 2, now)              // the target is drained
	lines[1].learn(db.Limit{RetryAfter: time.Minute}, 0, now) // the next slot is postponed
	// under a rate limit, only as many units are claimed as lanes are waiting
	lines[2].learn(db.Limit{IsLimited: true, Allowed: 1}, 1, now)
	// as many units wait for another attempt as there are lanes
	lines[3].parked = 8
	require.Equal(t, []int{0, 0, 2, 0}, counts(plan(lines, 8, 2, 8), 4))
	wants := plan(linesOf(time.Second, time.Second), 8, 8, 8)
	require.Equal(t, besideOthers, wants[0].Horizon, "a lane does not wait for a slot while others could be called")
	require.Equal(t, db.RateHorizon, plan(lines[2:3], 2, 2, 8)[0].Horizon)
}

// Targets that share a rate limit take turns, even if the calls of one are very short.
func TestEveryTargetHasItsTurnUnderASharedLimit(t *testing.T) {
	t.Parallel()
	lines := linesOf(50*time.Millisecond, 10*time.Second, 0)
	now := time.Now()
	var order []int
	for n := range 6 {
		wants := plan(lines, 1, 1, 8)
		require.Len(t, wants, 1)
		require.Equal(t, 1, wants[0].Units)
		order = append(order, wants[0].Target)
		lines[wants[0].Target-1].learn(db.Limit{IsLimited: true, Allowed: 1}, 1, now.Add(time.Duration(n)*time.Millisecond))
	}
	require.Equal(t, []int{1, 2, 3, 1, 2, 3}, order)
}

// A unit that waits for its next attempt occupies no lane, but one lane must remain to make that attempt.
func TestALaneStaysForAUnitThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := plainSupply(t, 2, func(int) (db.Claim, error) {
			return db.Claim{Units: units(1), Limits: []db.Limit{{Allowed: 2}}}, nil
		})
		got := s.next()
		require.NotNil(t, got.unit)
		s.park(*got.unit, time.Second)
		s.end(*got.unit, time.Millisecond)
		require.True(t, s.hasParked())
		answers := make(chan supplied, 2)
		for range 2 {
			go func() { answers <- s.next() }()
		}
		synctest.Wait()
		require.Len(t, answers, 1, "nothing is left for the other")
		require.Nil(t, (<-answers).unit)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, got.unit.ID, (<-answers).unit.ID)
		require.False(t, s.hasParked())
	})
}
