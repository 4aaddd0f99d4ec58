package trend_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/comparison"
	"wending/jobs/trend"
)

func questions(agreements ...float64) (list []comparison.Question) {
	for n, agreement := range agreements {
		latency, cost := agreement*1000, agreement/100
		list = append(list, comparison.Question{ID: int64(n), QuestionID: fmt.Sprint("q", n), Agreement: &agreement, LatencyMS: &latency, Cost: &cost})
	}
	return list
}

func TestPointsHaveTheirIntervals(t *testing.T) {
	t.Parallel()
	cost := "0.12"
	points := trend.PointsOf(questions(0.6, 0.8, 1), &cost)
	require.InDelta(t, 0.8, points[trend.Agreement].Value, 1e-9)
	require.InDelta(t, 0.8-4.302653*0.2/1.7320508, *points[trend.Agreement].Low, 1e-6) // Student's t with 2 degrees of freedom
	require.InDelta(t, 1, *points[trend.Agreement].High, 1e-9)
	require.InDelta(t, 800, points[trend.Latency].Value, 1e-9)
	require.Greater(t, *points[trend.Latency].High, 1000.0)
	require.InDelta(t, 0.12, points[trend.Cost].Value, 1e-9)
	require.InDelta(t, 0.12*(1+4.302653*0.25/1.7320508), *points[trend.Cost].High, 1e-6)
	require.NotContains(t, points, trend.PassRate)
	require.Nil(t, trend.PointsOf(questions(0.5, 0.5), nil)[trend.Agreement].Low)
	require.NotContains(t, trend.PointsOf(questions(0.5), nil), trend.Cost)
}

func TestWhatIsReasonForAnAlert(t *testing.T) {
	t.Parallel()
	limit := 0.7
	now := questions(0.5, 0.55, 0.6, 0.5, 0.62, 0.58)
	steady := [][]comparison.Question{questions(0.9, 0.95, 1, 0.92, 0.97, 0.99), questions(0.95, 0.9, 0.98, 0.9, 1, 0.96)}
	points := trend.PointsOf(now, nil)
	found := trend.Watch{Metric: trend.Agreement, Below: &limit, IfWorse: true}.Look(points, now, steady)
	require.Len(t, found, 2)
	require.Equal(t, &limit, found[0].Below)
	require.Equal(t, 2, found[1].Firings)
	require.InDelta(t, 0.95, *found[1].Baseline, 0.02)
	require.Empty(t, trend.Watch{Metric: trend.Agreement, IfWorse: true}.Look(points, now, nil), "nothing to compare with")
	require.Empty(t, trend.Watch{Metric: trend.Agreement, IfWorse: true}.Look(trend.PointsOf(steady[0], nil), steady[0], steady[1:]), "no difference is shown")
	require.Empty(t, trend.Watch{Metric: trend.PassRate, Below: &limit}.Look(points, now, nil), "unknown")
	// More latency is worse, less of it is not.
	require.Empty(t, trend.Watch{Metric: trend.Latency, IfWorse: true}.Look(points, now, steady))
	require.Len(t, trend.Watch{Metric: trend.Latency, IfWorse: true}.Look(trend.PointsOf(steady[0], nil), steady[0], [][]comparison.Question{now}), 1)
}
