package measure_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

// The detectable difference is computed from assumptions, from one task or from a comparison, for a number of questions
// and runs.
func TestWhatADesignCanShow(t *testing.T) {
	t.Parallel()
	assumed := measure.NewDesign(nil, nil)
	require.Equal(t, measure.Assumed, assumed.Basis())
	shown := assumed.Detectable(100, 5)
	require.InDelta(t, 2.802*math.Sqrt((1.0/9+2.0/6/5)/100), *shown.PassRate, 1e-9)
	require.InDelta(t, 2.802*math.Sqrt(1.0/9/100), *shown.Agreement, 1e-9)
	require.Nil(t, assumed.Detectable(100, 1).Agreement, "one run has no agreement")
	require.Equal(t, measure.Detectable{}, assumed.Detectable(1, 5), "one cluster shows nothing")

	judged := func(agreements []float64, passes ...int) (list []measure.ComparedQuestion) {
		list = questions(agreements...)
		for n := range list {
			share := float64(passes[n]) / 5
			list[n].Judged, list[n].Passes, list[n].PassShare = 5, passes[n], &share
		}
		return list
	}
	a := judged([]float64{0.4, 0.4, 1, 1}, 3, 2, 5, 5)
	ofTask := measure.NewDesign(a, nil)
	require.Equal(t, measure.OfTask, ofTask.Basis())
	within := 2 * 5.0 / 4 * 0.24 / 4
	require.InDelta(t, within, ofTask.WithinA, 1e-9)
	require.InDelta(t, 1.0/9, ofTask.Between, 1e-9)
	require.Equal(t, measure.Assumed, measure.NewDesign(questions(0.5, 1), nil).Basis(),
		"a task without verdicts says nothing of passes")

	b := judged([]float64{1, 1, 1, 1}, 5, 5, 5, 0)
	compared := measure.NewDesign(a, b)
	require.Equal(t, measure.OfComparison, compared.Basis())
	// differences of the shares: 0.4, 0.6, 0, −1; of the agreements: 0.6, 0.6, 0, 0
	require.InDelta(t, 0.5067-within/5, compared.Between, 1e-4)
	require.Zero(t, compared.WithinB)
	require.InDelta(t, 0.12, compared.OfAgreement, 1e-9)
	require.InDelta(t, 2.802*math.Sqrt(0.12/50), *compared.Detectable(50, 3).Agreement, 1e-9)
	same := measure.NewDesign(a, a)
	require.Zero(t, same.Between, "never below 0")
	require.Equal(t, 20, same.RunsToHalve(5), "all noise is in the runs")
	require.Zero(t, assumed.RunsToHalve(5), "no number of runs makes up for questions")
}
