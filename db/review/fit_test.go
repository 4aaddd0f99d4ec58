package review_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/review"
)

// runs repeats verdicts of a judge and of people; all belong to a random sample.
func runs(passPass, passFail, failPass, failFail int) (list []review.Labelled) {
	for n, count := range []int{passPass, passFail, failPass, failFail} {
		for range count {
			list = append(list, review.Labelled{Judge: n < 2, Person: n%2 == 0, IsSampled: true})
		}
	}
	return list
}

func TestAJudgeIsComparedWithPeople(t *testing.T) {
	t.Parallel()
	fit := review.FitOf(runs(20, 5, 10, 15), review.Judgements{Runs: 50, Passes: 25, Questions: 50})
	require.Equal(t, review.Confusion{PassPass: 20, PassFail: 5, FailPass: 10, FailFail: 15}, fit.Confusion)
	require.InDelta(t, 0.7, *fit.Agreement, 1e-12)
	require.InDelta(t, 0.4, *fit.Kappa, 1e-12)
	require.InDelta(t, 2.0/3, *fit.Sensitivity, 1e-12)
	require.InDelta(t, 0.75, *fit.Specificity, 1e-12)
	require.Equal(t, review.FitForTrends, *fit.Fitness, "0.4 itself is enough")
	// Computed separately from the formula of Fleiss, Cohen and Everitt: the standard error is 0.126996.
	require.InDeltaSlice(t, []float64{0.151092, 0.648908}, []float64(fit.KappaInterval), 1e-6)
	require.Len(t, fit.KappaNeeded, 3)
	for n, more := range []int{28, 260, 1190} {
		require.Equal(t, more, *fit.KappaNeeded[n].More, "half of the interval is 0.248908 wide with 50 verdicts")
	}
	require.InDelta(t, 0.6, *fit.Corrected, 1e-12, "people judged every run: their own rate")
}

func TestTheEdgesOfAFit(t *testing.T) {
	t.Parallel()
	none := review.FitOf(nil, review.Judgements{Runs: 0, Passes: 0, Questions: 0})
	require.Nil(t, none.Agreement)
	require.Nil(t, none.Kappa)
	require.Nil(t, none.Fitness)
	require.False(t, none.IsRandom)
	require.NotNil(t, none.Needed)
	require.NotNil(t, none.KappaNeeded)

	same := review.FitOf(runs(30, 0, 0, 0), review.Judgements{Runs: 300, Passes: 300, Questions: 300})
	require.Nil(t, same.Kappa, "without variety nothing is known about chance")
	require.Nil(t, same.Fitness)
	require.Nil(t, same.Specificity)
	require.InDelta(t, 1, *same.Corrected, 1e-12)
	require.Less(t, same.CorrectedInterval[0], 0.9, "30 of 30 do not prove that all pass")

	perfect := review.FitOf(runs(15, 0, 0, 15), review.Judgements{Runs: 300, Passes: 150, Questions: 300})
	require.InDelta(t, 1, *perfect.Kappa, 1e-12)
	require.Nil(t, perfect.KappaInterval)
	require.Equal(t, review.FitForGates, *perfect.Fitness)

	few := review.FitOf(runs(10, 1, 1, 7), review.Judgements{Runs: 300, Passes: 150, Questions: 300})
	require.Nil(t, few.Fitness, "19 verdicts are too few")
	require.Nil(t, few.Corrected)

	unsampled := runs(20, 5, 10, 15)
	for n := range unsampled {
		unsampled[n].IsSampled = false
	}
	chosen := review.FitOf(unsampled, review.Judgements{Runs: 300, Passes: 150, Questions: 300})
	require.Equal(t, 50, chosen.N)
	require.False(t, chosen.IsRandom)
	require.Nil(t, chosen.Corrected, "verdicts on chosen runs do not correct the rate")
}

func TestMoreVerdictsNarrowTheCorrectedRate(t *testing.T) {
	t.Parallel()
	fit := review.FitOf(runs(40, 6, 6, 8), review.Judgements{Runs: 6000, Passes: 4500, Questions: 6000})
	require.Len(t, fit.Needed, 3)
	require.Less(t, *fit.Needed[0].More, 20, "the interval is about ± 10 points wide already")
	require.Greater(t, *fit.Needed[1].More, 50)
	require.Greater(t, *fit.Needed[2].More, *fit.Needed[1].More)
	scarce := review.FitOf(runs(20, 5, 5, 6), review.Judgements{Runs: 36, Passes: 25, Questions: 36})
	require.Nil(t, scarce.Needed[2].More, "there are no more runs to judge")
}

// covered simulates a task whose runs people would pass at a rate of 0.75, and a judge with a true κ of 0.5 that passes
// too many. It returns how often the interval of the corrected rate, found with a number of labels, covers people's
// rate.
func covered(labels, judged int, seed uint64) float64 {
	const (
		rate, sensitivity, specificity = 0.75, 0.92, 0.55
	)
	repetitions := 1000
	if os.Getenv("WENDING_SIMULATE") != "" {
		repetitions = 20000
	}
	hits := 0
	for n := range repetitions {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		var list []review.Labelled
		passes := 0
		for run := range judged {
			one := review.Labelled{Person: random.Float64() < rate, IsSampled: true}
			chance := 1 - specificity
			if one.Person {
				chance = sensitivity
			}
			if one.Judge = random.Float64() < chance; one.Judge {
				passes++
			}
			if run < labels {
				list = append(list, one)
			}
		}
		all := review.Judgements{Runs: judged, Passes: passes, Questions: judged}
		if of := review.FitOf(list, all).CorrectedInterval; of[0] <= rate && rate <= of[1] {
			hits++
		}
	}
	return float64(hits) / float64(repetitions)
}

// The interval of a corrected pass rate covers people's rate in 95 % of samples, as promised. `make simulate` runs more
// repetitions.
func TestSimulationsOfCorrectedRates(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ labels, judged int }{{60, 600}, {60, 120}, {150, 600}} {
		share := covered(one.labels, one.judged, 30)
		t.Logf("%d labels of %d runs, κ 0.5: covered %.1f %%", one.labels, one.judged, 100*share)
		require.InDelta(t, 0.95, share, 0.02)
	}
}
