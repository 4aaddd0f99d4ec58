package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func scoreOf(score float64) *float64 { return &score }

// The worked example of metrics.md, to its four digits.
func TestTheWorkedExampleOfVerdicts(t *testing.T) {
	t.Parallel()
	a := Summarise([]Judged{{5, 5, 3, scoreOf(0.7), ""}, {5, 5, 5, scoreOf(1), ""}, {5, 3, 2, scoreOf(2.0 / 3), ""}}, 5, 0)
	require.Equal(t, []int{13, 10, 3}, []int{a.Judged, a.PassCount, a.FailCount})
	near := func(want float64, got *float64) {
		t.Helper()
		require.NotNil(t, got)
		require.InDelta(t, want, *got, 5e-5)
	}
	list := func(want, got []float64) {
		t.Helper()
		require.InDeltaSlice(t, want, got, 5e-5)
	}
	near(0.7692, a.PassRate)
	near(0.6667, a.PassRateAll)
	list([]float64{0.2232, 1}, a.PassInterval)
	near(0.6667, a.MajorityRate)
	list([]float64{0.6667, 0.8667, 0.9667, 1, 1}, a.PassAt)
	list([]float64{0.6667, 0.4667, 0.3667, 0.3333, 0.3333}, a.PassHat)
	near(0.7889, a.ScoreMean)
	near(0.1060, a.ScoreSE)
	b := Summarise([]Judged{{5, 5, 5, scoreOf(1), ""}, {5, 5, 4, scoreOf(0.8), ""}, {5, 4, 4, scoreOf(1), ""}}, 5, 0)
	near(0.9286, b.PassRate)
	near(0.8667, b.PassRateAll)
	list([]float64{0.6465, 1}, b.PassInterval)
	near(1, b.MajorityRate)
	list([]float64{0.8667, 1, 1, 1, 1}, b.PassAt)
	list([]float64{0.8667, 0.7333, 0.6, 0.4667, 0.3333}, b.PassHat)
	near(0.9333, b.ScoreMean)
	near(0.0667, b.ScoreSE)
}

func TestTheEdgesOfVerdicts(t *testing.T) {
	t.Parallel()
	none := Summarise([]Judged{{Runs: 5}, {Runs: 5}}, 5, 2)
	require.Nil(t, none.PassRate)
	require.Nil(t, none.PassInterval)
	require.Nil(t, none.MajorityRate)
	require.Zero(t, *none.PassRateAll)
	require.Equal(t, 2, none.Errors)
	one := Summarise([]Judged{{5, 5, 5, scoreOf(1), ""}}, 5, 0)
	require.InDeltaSlice(t, []float64{0.5655, 1}, []float64(one.PassInterval), 5e-5)
	require.Nil(t, one.ScoreSE)
	alike := Summarise([]Judged{{5, 5, 5, nil, ""}, {5, 5, 5, nil, ""}}, 5, 0)
	require.InDeltaSlice(t, Wilson(1, 2), alike.PassInterval, 1e-12)
	require.Nil(t, alike.ScoreMean)
	missing := Summarise([]Judged{{4, 4, 4, nil, ""}, {5, 5, 5, nil, ""}}, 5, 0)
	require.Equal(t, 1, missing.Incomplete)
	require.InDelta(t, 1, *missing.MajorityRate, 1e-12)
	require.InDelta(t, 0.9, *missing.PassRateAll, 1e-12)
	require.Nil(t, Summarise(nil, 5, 0).PassRateAll)
	require.InDeltaSlice(t, []float64{0.2307, 0.8824}, []float64(Wilson(0.6, 5)), 5e-5)
}
