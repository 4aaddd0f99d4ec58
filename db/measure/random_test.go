package measure

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests compute the formulas of metrics.md a second time, in other ways: they enumerate sets of runs,
// integrate Student's distribution, and find Wilson's interval by bisection. 1,000 random data sets must give the
// same numbers.
const dataSets = 1000

const sameTo = 1e-7

// below returns the cumulative probability of Student's distribution with nu degrees of freedom at t, by Simpson's
// rule after substituting t = √ν·tan θ.
func below(t, nu float64) float64 {
	numerator, _ := math.Lgamma((nu + 1) / 2)
	denominator, _ := math.Lgamma(nu / 2)
	factor := math.Exp(numerator-denominator) / math.Sqrt(math.Pi)
	density := func(angle float64) float64 { return math.Pow(math.Cos(angle), nu-1) }
	const steps = 2000
	end := math.Atan(t / math.Sqrt(nu))
	sum := density(0) + density(end)
	for n := 1; n < steps; n++ {
		sum += density(end*float64(n)/steps) * float64(2+2*(n%2))
	}
	return 0.5 + factor*sum*end/steps/3
}

// root finds where an increasing function crosses 0.
func root(low, high float64, f func(float64) float64) float64 {
	for range 200 {
		if middle := (low + high) / 2; f(middle) > 0 {
			high = middle
		} else {
			low = middle
		}
	}
	return (low + high) / 2
}

// quantiles caches results: the data sets have only a few different degrees of freedom.
var quantiles sync.Map

func quantile(nu float64) float64 {
	if known, isKnown := quantiles.Load(nu); isKnown {
		return known.(float64)
	}
	found := root(0, 1000, func(t float64) float64 { return below(t, nu) - 0.975 })
	quantiles.Store(nu, found)
	return found
}

// sums returns the mean and the standard deviation of numbers, from their sum and the sum of squared deviations.
func sums(numbers []float64) (mean, deviation float64) {
	for _, number := range numbers {
		mean += number / float64(len(numbers))
	}
	for _, number := range numbers {
		deviation += (number - mean) * (number - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(numbers)-1))
}

// wilson returns the ends p at which (share − p)² = z²·p(1 − p)/n.
func wilson(share, n float64) [2]float64 {
	z := root(0, 10, func(x float64) float64 { return math.Erf(x/math.Sqrt2) - 0.95 })
	f := func(p float64) float64 { return (share-p)*(share-p) - z*z*p*(1-p)/n }
	return [2]float64{root(0, share, func(p float64) float64 { return -f(p) }), root(share, 1, f)}
}

func TestRandomVerdictsGiveTheSameNumbersInAnotherWay(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	for range dataSets {
		runs := 1 + r.IntN(7)
		var questions []Judged
		var shares, scores, last []float64
		judged, passes, whole, majority := 0, 0, 0, 0
		at, hat := make([]float64, runs), make([]float64, runs)
		total := 1 + r.IntN(9)
		for range total {
			// Each run is missing, without a verdict, failed or passed.
			var of Judged
			passed, sum := uint(0), 0.0
			for run := range runs {
				switch r.IntN(8) {
				case 0:
					continue
				case 1:
					of.Runs++
					continue
				}
				of.Runs++
				of.Judged++
				if r.IntN(3) > 0 {
					of.Passes++
					passed |= 1 << run
				}
				sum += r.Float64()
			}
			if of.Judged > 0 {
				score := sum / float64(of.Judged)
				of.Score = &score
				scores, shares = append(scores, score), append(shares, float64(of.Passes)/float64(of.Judged))
				last = []float64{float64(of.Passes) / float64(of.Judged), float64(of.Judged)}
			}
			questions, judged, passes = append(questions, of), judged+of.Judged, passes+of.Passes
			if of.Runs < runs {
				continue
			}
			whole++
			if float64(of.Passes) > float64(runs)/2 {
				majority++
			}
			for k := 1; k <= runs; k++ { // every set of k runs
				any, all, sets := 0, 0, 0
				for set := range uint(1) << runs {
					if bits.OnesCount(set) != k {
						continue
					}
					sets++
					if set&passed != 0 {
						any++
					}
					if set&passed == set {
						all++
					}
				}
				at[k-1], hat[k-1] = at[k-1]+float64(any)/float64(sets), hat[k-1]+float64(all)/float64(sets)
			}
		}
		got := Summarise(questions, runs, 0)
		require.Equal(t, []int{judged, passes, judged - passes, total - whole},
			[]int{got.Judged, got.PassCount, got.FailCount, got.Incomplete})
		require.InDelta(t, float64(passes)/float64(total*runs), *got.PassRateAll, sameTo)
		if judged == 0 {
			require.Nil(t, got.PassRate)
			continue
		}
		require.InDelta(t, float64(passes)/float64(judged), *got.PassRate, sameTo)
		if whole > 0 {
			require.InDelta(t, float64(majority)/float64(whole), *got.MajorityRate, sameTo)
			for k := range runs {
				require.InDelta(t, at[k]/float64(whole), got.PassAt[k], sameTo)
				require.InDelta(t, hat[k]/float64(whole), got.PassHat[k], sameTo)
			}
		}
		mean, deviation := sums(scores)
		require.InDelta(t, mean, *got.ScoreMean, sameTo)
		if len(scores) > 1 {
			require.InDelta(t, deviation/math.Sqrt(float64(len(scores))), *got.ScoreSE, sameTo)
		}
		mean, deviation = sums(shares)
		var want [2]float64
		switch {
		case len(shares) == 1:
			want = wilson(last[0], last[1])
		case deviation < 1e-9:
			want = wilson(mean, float64(len(shares)))
		default:
			half := quantile(float64(len(shares)-1)) * deviation / math.Sqrt(float64(len(shares)))
			want = [2]float64{max(0, mean-half), min(1, mean+half)}
		}
		require.InDelta(t, want[0], got.PassInterval[0], sameTo, "%v", shares)
		require.InDelta(t, want[1], got.PassInterval[1], sameTo, "%v", shares)
	}
}

func TestRandomDifferencesGiveTheSameNumbersInAnotherWay(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 14))
	for range dataSets {
		n := r.IntN(12)
		a, b, differences := make([]float64, n), make([]float64, n), make([]float64, n)
		for place := range n {
			a[place], b[place] = r.NormFloat64(), r.NormFloat64()+0.5
			differences[place] = b[place] - a[place]
		}
		got := paired(a, b, make([]string, n), 3)
		require.Equal(t, []int{n, 3}, []int{got.N, got.LeftOut})
		if n == 0 {
			require.Nil(t, got.Mean)
			continue
		}
		mean, deviation := sums(differences)
		require.InDelta(t, mean, *got.Mean, sameTo)
		if n < 2 {
			require.Nil(t, got.SE)
			continue
		}
		se := deviation / math.Sqrt(float64(n))
		half := quantile(float64(n-1)) * se
		require.InDelta(t, se, *got.SE, sameTo)
		require.InDelta(t, mean-half, *got.Low, 1e-6)
		require.InDelta(t, mean+half, *got.High, 1e-6)
		require.InDelta(t, 2*(1-below(math.Abs(mean)/se, float64(n-1))), *got.P, sameTo)
	}
}
