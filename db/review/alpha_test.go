package review_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/review"
)

// Krippendorff's own example of data with missing values (Computing Krippendorff's Alpha-Reliability, 2011, sections C
// and D): four observers, twelve units; α = 0.743 if the values are categories, 0.849 if they are numbers.
func TestAlphaOfTheLiterature(t *testing.T) {
	t.Parallel()
	observers := [][]float64{
		{1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0},
		{1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3},
		{0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0},
		{1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0},
	}
	units := make([][]float64, 12)
	for _, values := range observers {
		for unit, value := range values {
			if value > 0 {
				units[unit] = append(units[unit], value)
			}
		}
	}
	alpha, counted := review.Alpha(units, review.Nominal[float64])
	require.InDelta(t, 0.743, *alpha, 0.0005)
	ofNumbers, _ := review.Alpha(units, review.Squared)
	require.InDelta(t, 0.849, *ofNumbers, 0.0005)
	require.Equal(t, 11, counted, "a unit with one value does not count")
}

func TestTheEdgesOfAlpha(t *testing.T) {
	t.Parallel()
	alpha, units := review.Alpha([][]string{{"PASS"}, nil}, review.Nominal[string])
	require.Nil(t, alpha)
	require.Zero(t, units)
	alpha, units = review.Alpha([][]string{{"PASS", "PASS"}, {"PASS", "PASS"}}, review.Nominal[string])
	require.Nil(t, alpha, "without variety nothing can be said")
	require.Equal(t, 2, units)
	alpha, _ = review.Alpha([][]string{{"PASS", "PASS"}, {"FAIL", "FAIL"}}, review.Nominal[string])
	require.InDelta(t, 1, *alpha, 0)
	alpha, _ = review.Alpha([][]string{{"PASS", "FAIL"}, {"FAIL", "PASS"}}, review.Nominal[string])
	require.Less(t, *alpha, 0.0)
}
