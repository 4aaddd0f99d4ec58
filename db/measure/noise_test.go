package measure_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

func requirePart(t *testing.T, noise measure.Noise, source measure.Source, variance, share, ofError float64) {
	t.Helper()
	part := noise.Part(source)
	require.Nil(t, part.Reason, source)
	require.InDelta(t, variance, *part.Variance, 1e-9, source)
	require.InDelta(t, share, *part.Share, 1e-9, source)
	require.InDelta(t, ofError, *part.ErrorShare, 1e-9, source)
}

func TestNoiseFollowsTheExampleComputedByHand(t *testing.T) {
	t.Parallel()
	// The votes on a run differ by 0.2, 0, 0.2, 0: 0.04 with 4 degrees of freedom. The means of the runs, (0.7, 0.4)
	// and (0.3, 0.1), have the variances 0.045 and 0.02, on average 0.0325, of which 0.01/2 come from the votes. The
	// means of the questions are 0.55 and 0.2, with the variance 0.06125, of which 0.0325/2 come from the runs and
	// their votes.
	noise := measure.NoiseOf([]measure.Scored{
		{Item: 1, Variant: 1, Votes: []float64{0.8, 0.6}}, {Item: 1, Variant: 1, Votes: []float64{0.4, 0.4}},
		{Item: 2, Variant: 1, Votes: []float64{0.2, 0.4}}, {Item: 2, Variant: 1, Votes: []float64{0.1, 0.1}},
	}, true)
	requirePart(t, noise, measure.FromQuestion, 0.045, 0.045/0.0825, 0.045/0.06125)
	requirePart(t, noise, measure.FromRun, 0.0275, 0.0275/0.0825, 0.01375/0.06125)
	requirePart(t, noise, measure.FromVote, 0.01, 0.01/0.0825, 0.0025/0.06125)
	require.Equal(t, measure.OneVariant, *noise.Part(measure.FromVariant).Reason)
	require.InDelta(t, 0.045/0.0825, *noise.ICC, 1e-9)
	require.Equal(t, measure.FromQuestion, *noise.Advice)
}

func TestNoiseFindsThePartsOfASimulation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		question, variant, mix, run, vote float64 // standard deviations
		advice                            measure.Source
	}{
		"the judge":    {0.05, 0.1, 0.02, 0.05, 0.3, measure.FromVote},
		"the runs":     {0.05, 0.1, 0.02, 0.3, 0.05, measure.FromRun},
		"the question": {0.3, 0, 0.1, 0.1, 0.1, measure.FromQuestion},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(29, 6))
			const questions, variants, runs, votes = 400, 40, 3, 3
			offsets := make([]float64, variants)
			for n := range offsets {
				offsets[n] = test.variant * random.NormFloat64()
			}
			var all []measure.Scored
			for item := range int64(questions) {
				own := test.question * random.NormFloat64()
				for variant, offset := range offsets {
					both := test.mix * random.NormFloat64()
					for range runs {
						run := own + offset + both + test.run*random.NormFloat64()
						one := measure.Scored{Item: item, Variant: variant + 1}
						for range votes {
							one.Votes = append(one.Votes, run+test.vote*random.NormFloat64())
						}
						all = append(all, one)
					}
				}
			}
			noise := measure.NoiseOf(all, true)
			for source, deviation := range map[measure.Source]float64{
				measure.FromQuestion: test.question, measure.FromMix: test.mix, measure.FromRun: test.run,
				measure.FromVote: test.vote,
			} {
				require.InDelta(t, deviation*deviation, *noise.Part(source).Variance, 0.15*deviation*deviation+0.0003, source)
			}
			// This tolerance is wider, because the variance is estimated from only 40 variants.
			require.InDelta(t, test.variant*test.variant, *noise.Part(measure.FromVariant).Variance, 0.006)
			sum := 0.0
			for _, part := range noise.Parts {
				sum += *part.Share
			}
			require.InDelta(t, 1, sum, 1e-9)
			require.Equal(t, test.advice, *noise.Advice)
		})
	}
}

func TestNoiseThatIsUnknownHasItsReason(t *testing.T) {
	t.Parallel()
	two := func(item int64, cluster string, scores ...float64) (all []measure.Scored) {
		for _, score := range scores {
			all = append(all, measure.Scored{Item: item, Variant: 1, Cluster: cluster, Votes: []float64{score}})
		}
		return all
	}
	for name, test := range map[string]struct {
		scored              []measure.Scored
		isJudge             bool
		question, run, vote measure.UnknownReason
	}{
		"all failed": {nil, true, measure.NoScores, measure.NoScores, measure.NoScores},
		"without votes": {[]measure.Scored{{Item: 1, Variant: 1}}, true, measure.NoScores, measure.NoScores,
			measure.NoScores},
		"one run": {append(two(1, "", 1), two(2, "", 0)...), false, measure.OneRun, measure.OneRun, measure.NoJudge},
		"one cluster": {append(two(1, "a", 1, 0), two(2, "a", 0, 1)...), true, measure.OneCluster, measure.OneCluster,
			measure.OneVote},
		"one question": {two(1, "", 1, 0), false, measure.OneCluster, measure.OneCluster, measure.NoJudge},
		"all the same": {append(two(1, "", 1, 1), two(2, "", 1, 1)...), false, measure.NoVariation, measure.NoVariation,
			measure.NoJudge},
		"a single vote":  {append(two(1, "", 1, 0), two(2, "", 0, 0)...), true, "", "", measure.OneVote},
		"without judges": {append(two(1, "", 1, 0), two(2, "", 0, 0)...), false, "", "", measure.NoJudge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noise := measure.NoiseOf(test.scored, test.isJudge)
			for source, reason := range map[measure.Source]measure.UnknownReason{
				measure.FromQuestion: test.question, measure.FromRun: test.run, measure.FromVote: test.vote,
			} {
				part := noise.Part(source)
				if reason == "" {
					require.Nil(t, part.Reason, source)
					require.NotNil(t, part.ErrorShare, source)
					continue
				}
				require.Equal(t, reason, *part.Reason, source)
				require.Nil(t, part.Share, source)
				require.Nil(t, part.ErrorShare, source)
			}
			require.Equal(t, test.question == "", noise.Advice != nil)
			require.Equal(t, test.question == "", noise.ICC != nil)
		})
	}
}

func TestNoveltyIsTheShareOfAnswersGivenOnce(t *testing.T) {
	t.Parallel()
	for letters, want := range map[string]float64{"AAAAA": 0, "AABBC": 0.2, "ABCDE": 1, "AA-B": 1.0 / 3, "A": 1} {
		require.InDelta(t, want, *measure.Novelty(letters), 1e-12, letters)
	}
	require.Nil(t, measure.Novelty("---"))
	require.Nil(t, measure.Novelty(""))
}
