package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func sampleOf(numbers []float64, clusters ...string) (s Sample) {
	for n, number := range numbers {
		s.Add(number, clusters[n])
	}
	return s
}

func TestAClusterIsOneObservation(t *testing.T) {
	t.Parallel()
	numbers := []float64{0.2, 0.4, 0.9, 1}
	alone := sampleOf(numbers, "", "", "", "")
	require.Equal(t, 4, alone.Clusters())
	require.InDelta(t, 0.625, *alone.Mean(), 1e-12)
	require.InDelta(t, math.Sqrt((0.425*0.425+0.225*0.225+0.275*0.275+0.375*0.375)/3/4), *alone.SE(), 1e-12)
	paired := sampleOf(numbers, "a", "a", "b", "b")
	require.Equal(t, 2, paired.Clusters())
	require.InDelta(t, math.Sqrt(2*(0.65*0.65+0.65*0.65))/4, *paired.SE(), 1e-12, "C/(C−1) · Σ(Σe)² / n²")
	require.InDelta(t, 0.625-12.7062*0.65/2, paired.Interval()[0], 1e-4, "one degree of freedom")
	require.Equal(t, Interval{0, 1}, paired.Share())
	mixed := sampleOf(numbers, "a", "a", "", "")
	require.Equal(t, 3, mixed.Clusters())
	require.InDelta(t, math.Sqrt(3.0/2*(0.65*0.65+0.275*0.275+0.375*0.375))/4, *mixed.SE(), 1e-12)
}

func TestTheEdgesOfASample(t *testing.T) {
	t.Parallel()
	var none Sample
	require.Nil(t, none.Mean())
	require.Nil(t, none.Interval())
	require.Nil(t, sampleOf([]float64{0.1, 0.9}, "a", "a").SE(), "one cluster has no spread")
	require.Nil(t, sampleOf([]float64{0.5, 0.5}, "", "").Interval())
	require.Nil(t, sampleOf([]float64{0, 1, 0, 1}, "a", "a", "b", "b").Interval(),
		"the means of both clusters are the same")
	change := paired([]float64{0, 0, 0}, []float64{1, 0, 0.5}, []string{"a", "a", "a"}, 0)
	require.Equal(t, []int{3, 1}, []int{change.N, change.Clusters})
	require.Nil(t, change.P)
	one := Summarise([]Judged{{5, 5, 5, nil, "a"}, {5, 5, 3, nil, "a"}}, 5, 0)
	require.Nil(t, one.PassInterval, "one conversation proves nothing about others")
	require.Equal(t, 1, one.Clusters)
	alike := Summarise([]Judged{{5, 5, 5, nil, "a"}, {5, 5, 5, nil, "a"}, {5, 5, 5, nil, "b"}}, 5, 0)
	require.InDeltaSlice(t, Wilson(1, 2), alike.PassInterval, 1e-12, "two clusters, three questions")
}

// The turns of a conversation share a common cause: over 2,000 samples of 20 conversations with 5 turns, the interval
// over conversations contains the true value in about 95 % of them, the interval over turns far less often.
func TestIntervalsOverConversationsHoldTheTruth(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 22))
	const samples, conversations, turns, truth = 2_000, 20, 5, 0.5
	holds := func(of Interval) int {
		if of != nil && of[0] <= truth && truth <= of[1] {
			return 1
		}
		return 0
	}
	overConversations, overTurns := 0, 0
	for range samples {
		var clustered, own Sample
		for conversation := range conversations {
			shared := r.Float64() < truth
			for range turns {
				isPass := shared
				if r.Float64() < 0.3 { // in 30 % of cases, the turn has its own outcome
					isPass = r.Float64() < truth
				}
				number := 0.0
				if isPass {
					number = 1
				}
				clustered.Add(number, fmt.Sprint(conversation))
				own.Add(number, "")
			}
		}
		overConversations += holds(clustered.Share())
		overTurns += holds(own.Share())
	}
	require.InDelta(t, 0.95, float64(overConversations)/samples, 0.02)
	require.Less(t, float64(overTurns)/samples, 0.85)
}

// Where Student's interval would reach beyond 1, Wilson's interval takes its place, unless there are few questions.
func TestAnIntervalNearOneIsNotCut(t *testing.T) {
	t.Parallel()
	of := func(questions, failures int) Interval {
		var shares Sample
		for n := range questions {
			share := 1.0
			if n < failures {
				share = 0
			}
			shares.Add(share, "")
		}
		return shares.Share()
	}
	// 48 of 50: p̂ = 0.96, se² = p̂(1 − p̂)/49, t = 2.0096, so it is Wilson's interval for n = 49 with t instead of z
	require.InDeltaSlice(t, []float64{0.8606, 0.9894}, []float64(of(50, 2)), 5e-4)
	require.InDeltaSlice(t, []float64{0.7148, 0.8852}, []float64(of(100, 20)), 0.01, "Student's interval is within [0, 1]")
	few := of(20, 1)
	require.InDelta(t, 1, few[1], 0, "cut")
	low := of(50, 48)
	require.InDelta(t, 1-0.9894, low[0], 5e-4, "the same near 0")
}
