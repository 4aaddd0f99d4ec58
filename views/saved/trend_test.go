package saved

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

// A lasting change is marked where the moving average leaves its limits; a change of the configuration starts over.
func TestAPlotShowsALastingChange(t *testing.T) {
	t.Parallel()
	firings := func(configuration string, values ...float64) (list []Firing) {
		for n, value := range values {
			list = append(list, Firing{
				PlannedAt: time.Date(2026, 11, 1+n, 2, 0, 0, 0, time.UTC),
				FiringSummary: measure.FiringSummary{
					Configuration: configuration,
					Variants: []measure.VariantPoints{{Number: 1,
						Points: map[measure.Metric]measure.Point{measure.MetricAgreement: {Value: value}}}},
				},
			})
		}
		return list
	}
	drifts := func(p TrendPage) (count int, drawn plot) {
		drawn, ok := newPlot(p, measure.MetricAgreement)
		require.True(t, ok)
		for _, one := range drawn.curves[0].dots {
			if one.isDrift {
				count++
			}
		}
		return count, drawn
	}
	learned := []float64{0.8, 0.82, 0.81, 0.79, 0.8, 0.82, 0.81, 0.79, 0.8, 0.81}
	fallen := append(append([]float64{}, learned...), 0.6, 0.6, 0.6)
	count, drawn := drifts(TrendPage{Firings: firings("a", fallen...)})
	require.Equal(t, 1, count)
	require.True(t, drawn.hasControl())
	require.Empty(t, drawn.restarts)
	count, _ = drifts(TrendPage{Earlier: firings("a", learned...), Firings: firings("a", 0.6, 0.6, 0.6)})
	require.Equal(t, 1, count, "limits are learned from runs that are not drawn")
	count, drawn = drifts(TrendPage{Firings: append(firings("a", learned...), firings("b", 0.6, 0.6, 0.6)...)})
	require.Zero(t, count, "another agent is no drift")
	require.Len(t, drawn.restarts, 1)
	require.False(t, drawn.hasControl())
}
