package jobs_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"wending/db/engine"
	"wending/jobs"
)

// standing returns a launch's standing under its task's ceiling.
func standing(id uuid.UUID, left, perUnit string, inFlight int) engine.Standing {
	return engine.Standing{
		LaunchID: &id, TaskID: id, Reason: engine.ReasonTask, Owner: id, Currency: "CNY",
		Left:    decimal.RequireFromString(left),
		PerUnit: decimal.RequireFromString(perUnit), InFlight: inFlight, IsWaiting: true,
	}
}

func allow(standings ...engine.Standing) (allowed map[uuid.UUID]int64, reached map[uuid.UUID]engine.Standing) {
	verdict := jobs.Allow(standings)
	return verdict.Allowed, verdict.Reached
}

func TestWhatABudgetAllows(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	for name, test := range map[string]struct {
		left, perUnit string
		inFlight      int
		isUnknown     bool
		want          int64
		isReached     bool
	}{
		"half of what is left":                  {"0.5", "0.025", 0, false, 10, false},
		"what is in flight is reserved":         {"0.5", "0.025", 16, false, 2, false},
		"the last one":                          {"0.025", "0.025", 0, false, 1, false},
		"less than a call is left":              {"0.024", "0.025", 0, false, 0, true},
		"less than a call, but one is on":       {"0.024", "0.025", 1, false, 0, false},
		"all is reserved":                       {"0.1", "0.025", 4, false, 0, false},
		"more is in flight than fits":           {"0.1", "0.025", 9, false, 0, false},
		"spent, with calls in flight":           {"-0.1", "0.025", 3, false, 0, true},
		"the first call":                        {"0.5", "0", 0, true, 1, false},
		"more units than an int64 counts":       {"1000000000", "0.00000000000001", 0, false, 1 << 39, false},
		"far more is in flight than fits":       {"0.01", "10000000000000000000000", 1000, false, 0, false},
		"one at a time until a cost is known":   {"0.5", "0", 1, true, 0, false},
		"one of two targets has told its costs": {"0.5", "0.025", 0, true, 1, false},
		"nothing costs anything":                {"0.5", "0", 4, false, 1 << 40, false},
	} {
		one := standing(id, test.left, test.perUnit, test.inFlight)
		one.IsUnknown, one.Claimed = test.isUnknown, 100
		allowed, reached := allow(one)
		require.Equal(t, 100+test.want, allowed[id], name)
		require.Equal(t, test.isReached, len(reached) == 1, name)
		one.IsWaiting = false
		_, reached = allow(one)
		require.Empty(t, reached, "%s: a launch whose calls have all begun is not stopped", name)
	}
}

func TestLaunchesShareACeiling(t *testing.T) {
	t.Parallel()
	a, b, owner := uuid.New(), uuid.New(), uuid.New()
	shared := func(id uuid.UUID, left, perUnit string, inFlight int) engine.Standing {
		one := standing(id, left, perUnit, inFlight)
		one.Reason, one.Owner = engine.ReasonProject, owner
		return one
	}
	allowed, reached := allow(shared(a, "1", "0.1", 1), shared(b, "1", "0.1", 1))
	require.Empty(t, reached)
	require.Equal(t, map[uuid.UUID]int64{a: 2, b: 3}, allowed, "eight are left for both")
	// Only one call fits: one launch may make it, and the other is not stopped as long as that call may be made.
	allowed, reached = allow(shared(a, "0.1", "0.1", 0), shared(b, "0.1", "0.1", 0))
	require.Empty(t, reached)
	require.Equal(t, map[uuid.UUID]int64{a: 1, b: 0}, allowed)
	// Of several ceilings, the lowest applies.
	allowed, _ = allow(standing(a, "0.2", "0.1", 0), shared(a, "5", "0.1", 0), shared(b, "5", "0.1", 0))
	require.EqualValues(t, 1, allowed[a])
	require.EqualValues(t, 25, allowed[b])
	// The cost of another launch's calls does not affect a launch whose calls are cheap.
	_, reached = allow(shared(a, "0.05", "0.1", 0), shared(b, "0.05", "0.01", 0))
	require.Contains(t, reached, a)
	require.NotContains(t, reached, b)
}
