package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

// The three outcomes of a gate, at their boundaries.
func TestAGateSaysWhatItSees(t *testing.T) {
	t.Parallel()
	change := func(mean, se float64, clusters int) measure.Change {
		return measure.Change{N: clusters, Clusters: clusters, Mean: &mean, SE: &se}
	}
	one := 0.3
	for name, test := range map[string]struct {
		measure.GateTest
		want measure.Verdict
	}{
		"clearly worse": {measure.GateTest{Change: change(-0.2, 0.02, 50)}, measure.IsWorse},
		"worse, but within the margin": {measure.GateTest{Change: change(-0.2, 0.02, 50), Margin: 0.3},
			measure.NotWorse},
		"worse, the margin is in between": {measure.GateTest{Change: change(-0.2, 0.02, 50), Margin: 0.2},
			measure.Undecided},
		"a comparison that sees nothing":    {measure.GateTest{Change: change(0, 0.2, 5)}, measure.Undecided},
		"equal versions prove nothing at 0": {measure.GateTest{Change: change(0, 0.01, 500)}, measure.Undecided},
		"equal versions, with a margin":     {measure.GateTest{Change: change(0, 0.01, 500), Margin: 0.05}, measure.NotWorse},
		"better":                            {measure.GateTest{Change: change(0.2, 0.02, 50)}, measure.NotWorse},
		"more is worse": {measure.GateTest{Change: change(200, 20, 50), IsLessBetter: true},
			measure.IsWorse},
		"less is better": {measure.GateTest{Change: change(-200, 20, 50), IsLessBetter: true},
			measure.NotWorse},
		"all the same":                   {measure.GateTest{Change: change(0, 0, 2)}, measure.NotWorse},
		"each lost the margin":           {measure.GateTest{Change: change(-0.5, 0, 2), Margin: 0.5}, measure.IsWorse},
		"each lost less than the margin": {measure.GateTest{Change: change(-0.4, 0, 2), Margin: 0.5}, measure.NotWorse},
		"each lost something":            {measure.GateTest{Change: change(-0.4, 0, 2)}, measure.IsWorse},
		"one question": {measure.GateTest{Change: measure.Change{N: 1, Clusters: 1, Mean: &one}},
			measure.Undecided},
		"one conversation": {measure.GateTest{Change: measure.Change{N: 9, Clusters: 1, Mean: &one}},
			measure.Undecided},
		"no question in common": {measure.GateTest{}, measure.Undecided},
	} {
		require.Equal(t, test.want, measure.Gate([]measure.GateTest{test.GateTest})[0].Verdict, name)
	}
}

// A number that is barely significant by itself may be chance among many tests.
func TestAGateIsOneFamily(t *testing.T) {
	t.Parallel()
	mean, se, none := -0.021, 0.01, 0.0
	tests := []measure.GateTest{{Change: measure.Change{N: 100, Clusters: 100, Mean: &mean, SE: &se}}}
	result := measure.Gate(tests)[0]
	require.Equal(t, measure.IsWorse, result.Verdict)
	require.InDelta(t, 0.0383, *result.Adjusted, 1e-4)
	for range 3 {
		tests = append(tests, measure.GateTest{Change: measure.Change{N: 100, Clusters: 100, Mean: &none, SE: &se}})
	}
	result = measure.Gate(tests)[0]
	require.Equal(t, measure.Undecided, result.Verdict)
	require.InDelta(t, 4*0.0383, *result.Adjusted, 4e-4)
}
