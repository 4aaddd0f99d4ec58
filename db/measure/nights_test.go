package measure_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

func TestNightsAreWatched(t *testing.T) {
	t.Parallel()
	var nights []measure.Night
	for n := range 10 {
		nights = append(nights, measure.Night{Value: 0.8 + 0.02*float64(n%2), SE: 0.001})
	}
	nights = append(nights, measure.Night{Value: 0.81}, measure.Night{Value: 0.5}, measure.Night{Value: 0.5}, measure.Night{Value: 0.81})
	controls := measure.WatchNights(nights)
	for n := range 10 {
		require.Equal(t, measure.Control{}, controls[n], "from these the limits are learned")
	}
	deviation := 0.01 * math.Sqrt(10.0/9)
	first := controls[10]
	require.InDelta(t, 0.81, first.Average, 1e-9)
	require.InDelta(t, 0.81-4*deviation*math.Sqrt(0.2/1.8*(1-0.64)+0.04/10), first.Low, 1e-9)
	require.InDelta(t, 0.748, controls[11].Average, 1e-9)
	require.True(t, controls[11].IsAlarm)
	require.True(t, controls[12].IsOut)
	require.False(t, controls[12].IsAlarm, "it has been beyond the limits since the alarm")

	restarted := slices.Concat(nights[:11], []measure.Night{{Value: 0.5, IsRestart: true}})
	require.Equal(t, measure.Control{}, measure.WatchNights(restarted)[11], "a new configuration starts again")
	var steady []measure.Night
	for range 12 {
		steady = append(steady, measure.Night{Value: 0.9, SE: 0.02})
	}
	require.InDelta(t, 0.9-4*0.02*math.Sqrt(0.2/1.8*(1-0.64)+0.04/10), measure.WatchNights(steady)[10].Low, 1e-9, "not tighter than the nights' own errors")
	require.Empty(t, measure.WatchNights(nil))
}
