package measure_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mathext"

	"wending/db/measure"
)

func TestAQuestionIsSettledAsInThePaper(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		first, second int
		confidence    float64
		isSettled     bool
	}{
		{3, 0, 0.95, false}, // 0.0625 > 0.05
		{4, 0, 0.95, true},  // 0.03125 < 0.05
		{6, 1, 0.95, true},  // 0.0352 < 0.05
		{5, 1, 0.95, false},
		{0, 0, 0.95, false},
		{0, 0, 0.5, true},
		{3, 0, 0.9375, true}, // exactly on the border
		{1, 4, 0.9, false},
		{0, 4, 0.95, true}, // the order does not matter
		{20, 0, 0.999, true},
	} {
		require.Equal(t, one.isSettled, measure.IsSettled(one.first, one.second, one.confidence), "%+v", one)
	}
}

func TestThresholdsAgreeWithTheIncompleteBetaFunction(t *testing.T) {
	t.Parallel()
	for _, confidence := range []float64{0.5, 0.8, 0.9, 0.95, 0.99, 0.999} {
		least := measure.SettledFrom(confidence)
		for second := range least {
			for first := second; first+second <= 20; first++ {
				chance := mathext.RegIncBeta(float64(first+1), float64(second+1), 0.5)
				if math.Abs(chance-(1-confidence)) < 1e-9 {
					continue
				}
				require.Equal(t, chance <= 1-confidence, first >= least[second], "%d : %d at %g", first, second, confidence)
			}
		}
	}
}

func TestVotesAreThoseOfTheTwoMostCommonAnswers(t *testing.T) {
	t.Parallel()
	for letters, want := range map[string][2]int{"AABA-": {3, 1}, "": {}, "---": {}, "BBAAC": {2, 2}, "CC": {2, 0}} {
		first, second := measure.Votes(letters)
		require.Equal(t, want, [2]int{first, second}, letters)
	}
}
