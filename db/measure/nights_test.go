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
	nights = append(nights, measure.Night{Value: 0.81}, measure.Night{Value: 0.5}, measure.Night{Value: 0.5},
		measure.Night{Value: 0.81})
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
	require.InDelta(t, 0.9-4*0.02*math.Sqrt(0.2/1.8*(1-0.64)+0.04/10), measure.WatchNights(steady)[10].Low, 1e-9,
		"not tighter than the nights' own errors")
	require.Empty(t, measure.WatchNights(nil))
}

// A lasting change is reported as a drift once, at the firing at which the average leaves its limits; a new
// configuration starts over.
func TestADriftIsFoundOnce(t *testing.T) {
	t.Parallel()
	firing := func(configuration string, agreement, latency float64) measure.FiringSummary {
		return measure.FiringSummary{Configuration: configuration,
			Variants: []measure.VariantPoints{{Number: 1, Name: "v", Points: map[measure.Metric]measure.Point{
				measure.MetricAgreement: {Value: agreement}, measure.MetricLatency: {Value: latency},
			}}}}
	}
	var firings []measure.FiringSummary
	for n := range 10 {
		firings = append(firings, firing("a", 0.8+0.02*float64(n%2), 1000+10*float64(n%2)))
		require.Empty(t, measure.Drifts(firings), "limits are being learned")
	}
	firings = append(firings, firing("a", 0.81, 1005))
	require.Empty(t, measure.Drifts(firings))
	firings = append(firings, firing("a", 0.4, 500))
	drifts := measure.Drifts(firings)
	require.Len(t, drifts, 2)
	require.Equal(t, []any{"v", measure.MetricAgreement, 0.4, true},
		[]any{drifts[0].Variant, drifts[0].Metric, drifts[0].Value, drifts[0].IsWorse})
	require.Less(t, drifts[0].Average, drifts[0].Low)
	require.InDelta(t, drifts[0].Low, drifts[0].Limit(), 1e-9)
	require.Equal(t, []any{measure.MetricLatency, false}, []any{drifts[1].Metric, drifts[1].IsWorse}, "faster")
	again := append(slices.Clone(firings), firing("a", 0.4, 500))
	require.Empty(t, measure.Drifts(again), "the same excursion")
	for range 20 {
		again = append(again, firing("a", 0.81, 1005))
		require.Empty(t, measure.Drifts(again), "on its way back")
	}
	require.Len(t, measure.Drifts(append(again, firing("a", 0.4, 1005))), 1, "another excursion")
	require.Empty(t, measure.Drifts(append(slices.Clone(firings[:11]), firing("b", 0.4, 500))), "another agent")

	// One failure after ten nights without any is within chance.
	var failing []measure.FiringSummary
	for n := range 12 {
		questions := make([]measure.ComparedQuestion, 120)
		for q := range questions {
			share := 1.0
			if n >= 10 && q == 0 {
				share = 0.8
			}
			questions[q].SuccessRate = &share
		}
		failing = append(failing,
			measure.FiringSummary{Variants: []measure.VariantPoints{{Points: measure.PointsOf(questions, nil)}}})
		require.Empty(t, measure.Drifts(failing))
	}
	require.Empty(t, measure.Drifts(nil))
}
