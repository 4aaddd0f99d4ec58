package measure_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

func questions(agreements ...float64) (list []measure.ComparedQuestion) {
	for n, agreement := range agreements {
		latency, cost := agreement*1000, agreement/100
		list = append(list, measure.ComparedQuestion{ID: int64(n), QuestionID: fmt.Sprint("q", n), Agreement: &agreement,
			LatencyMS: &latency, Cost: &cost})
	}
	return list
}

func TestPointsHaveTheirIntervals(t *testing.T) {
	t.Parallel()
	cost := "0.12"
	points := measure.PointsOf(questions(0.6, 0.8, 1), &cost)
	require.InDelta(t, 0.8, points[measure.MetricAgreement].Value, 1e-9)
	// Student's t with 2 degrees of freedom
	require.InDelta(t, 0.8-4.302653*0.2/1.7320508, *points[measure.MetricAgreement].Low, 1e-6)
	require.InDelta(t, 1, *points[measure.MetricAgreement].High, 1e-9)
	require.InDelta(t, 800, points[measure.MetricLatency].Value, 1e-9)
	require.Greater(t, *points[measure.MetricLatency].High, 1000.0)
	require.InDelta(t, 0.12, points[measure.MetricCost].Value, 1e-9)
	require.InDelta(t, 0.12*(1+4.302653*0.25/1.7320508), *points[measure.MetricCost].High, 1e-6)
	require.NotContains(t, points, measure.MetricPassRate)
	equal := measure.PointsOf(questions(0.5, 0.5), nil)
	require.InDelta(t, measure.Wilson(0.5, 2)[0], *equal[measure.MetricAgreement].Low, 1e-9, "all are equal")
	require.Nil(t, equal[measure.MetricLatency].Low)
	require.Nil(t, measure.PointsOf(questions(0.5), nil)[measure.MetricAgreement].Low)
	require.NotContains(t, measure.PointsOf(questions(0.5), nil), measure.MetricCost)
}

// variant returns a watched variant.
func variant(now []measure.ComparedQuestion, before ...[]measure.ComparedQuestion) measure.Watched {
	return measure.Watched{VariantPoints: measure.VariantPoints{Points: measure.PointsOf(now, nil)}, Now: now,
		Before: before}
}

func TestWhatIsReasonForAnAlert(t *testing.T) {
	t.Parallel()
	limit := 0.7
	now := questions(0.5, 0.55, 0.6, 0.5, 0.62, 0.58)
	steady := [][]measure.ComparedQuestion{questions(0.9, 0.95, 1, 0.92, 0.97, 0.99),
		questions(0.95, 0.9, 0.98, 0.9, 1, 0.96)}
	fallen := variant(now, steady...)
	look := func(watch measure.Watch, variants ...measure.Watched) []measure.Finding { return watch.Look(variants) }
	ifWorse := measure.Watch{Metric: measure.MetricAgreement, IfWorse: true}
	found := look(measure.Watch{Metric: measure.MetricAgreement, Below: &limit, IfWorse: true}, fallen)
	require.Len(t, found, 1, "below and worse are one finding")
	require.Equal(t, &limit, found[0].Below)
	require.Equal(t, 2, found[0].Firings)
	require.InDelta(t, 0.95, *found[0].Baseline, 0.02)
	require.Less(t, *found[0].Adjusted, 0.001)
	require.Empty(t, look(ifWorse, variant(now)), "nothing to compare with")
	require.Empty(t, look(ifWorse, variant(steady[0], steady[1])), "no difference is shown")
	require.Empty(t, look(measure.Watch{Metric: measure.MetricPassRate, Below: &limit}, variant(now)), "unknown")
	require.Empty(t, look(measure.Watch{Metric: measure.MetricAgreement, IfWorse: true, Margin: 0.5}, fallen),
		"within the margin")
	broken := look(ifWorse, variant(questions(0, 0, 0), questions(1, 1, 1)))
	require.Len(t, broken, 1, "each question lost the same, which has no interval")
	require.Nil(t, broken[0].Adjusted)
	// A higher latency is worse, a lower one is not.
	slower := measure.Watch{Metric: measure.MetricLatency, IfWorse: true}
	require.Empty(t, look(slower, fallen))
	require.Len(t, look(slower, variant(steady[0], now)), 1)
}

// Of twenty variants one is likely to look worse by chance: each is reported only if its p-value is still significant
// after adjustment for all of them.
func TestManyVariantsAreTestedTogether(t *testing.T) {
	t.Parallel()
	before := questions(0.9, 0.8, 0.9, 0.8, 0.9, 0.8)
	slightly := variant(questions(0.7, 0.75, 0.9, 0.6, 0.85, 0.75), before) // p = 0.03
	watch := measure.Watch{Metric: measure.MetricAgreement, IfWorse: true}
	require.Len(t, watch.Look([]measure.Watched{slightly}), 1)
	variants := []measure.Watched{slightly}
	for range 19 {
		variants = append(variants, variant(questions(0.8, 0.9, 0.8, 0.9, 0.9, 0.8), before))
	}
	require.Empty(t, watch.Look(variants))
	far := variant(questions(0.1, 0.2, 0.1, 0, 0.1, 0.2), before)
	far.Name = "far"
	found := watch.Look(append(variants, far))
	require.Len(t, found, 1, "any variant can be the one")
	require.Equal(t, "far", found[0].Variant)
}
