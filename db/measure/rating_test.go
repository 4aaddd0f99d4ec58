package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

// Krippendorff's own example of nominal data with missing values (Computing Krippendorff's Alpha-Reliability, 2011,
// section C): four observers, twelve units, α = 0.743.
func TestAlphaOfTheLiterature(t *testing.T) {
	t.Parallel()
	observers := [][]int{
		{1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0},
		{1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3},
		{0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0},
		{1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0},
	}
	units := make([][]int, 12)
	for _, values := range observers {
		for unit, value := range values {
			if value > 0 {
				units[unit] = append(units[unit], value)
			}
		}
	}
	alpha, counted := measure.Alpha(units)
	require.InDelta(t, 0.743, *alpha, 0.0005)
	require.Equal(t, 11, counted, "a unit with one value does not count")
}

func TestTheEdgesOfAlpha(t *testing.T) {
	t.Parallel()
	alpha, units := measure.Alpha([][]string{{"PASS"}, nil})
	require.Nil(t, alpha)
	require.Zero(t, units)
	alpha, units = measure.Alpha([][]string{{"PASS", "PASS"}, {"PASS", "PASS"}})
	require.Nil(t, alpha, "without variety nothing can be said")
	require.Equal(t, 2, units)
	alpha, _ = measure.Alpha([][]string{{"PASS", "PASS"}, {"FAIL", "FAIL"}})
	require.InDelta(t, 1, *alpha, 0)
	alpha, _ = measure.Alpha([][]string{{"PASS", "FAIL"}, {"FAIL", "PASS"}})
	require.Less(t, *alpha, 0.0)
}
