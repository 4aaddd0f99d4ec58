package measure_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/combin"

	"wending/db/measure"
)

// The fifteen p-values of Benjamini and Hochberg's own example (1995, section 3.1), and edge cases computed by
// hand.
func TestPValuesAreAdjustedTogether(t *testing.T) {
	t.Parallel()
	given := []float64{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
		0.6528, 0.7590, 1}
	var p []*float64
	for n := range given {
		p = append(p, &given[len(given)-1-n]) // the same values in reverse order
	}
	p = append(p, nil)
	adjusted := measure.Adjust(p)
	require.Nil(t, adjusted[15], "what is unknown does not count")
	want := []float64{0.0015, 0.003, 0.0095, 0.035625, 0.0603, 0.06385714, 0.06385714, 0.0645, 0.0765, 0.486, 0.58118182,
		0.714875, 0.75323077, 0.81321429, 1}
	for n, value := range want {
		require.InDelta(t, value, *adjusted[14-n], 1e-8)
	}
	require.Empty(t, measure.Adjust(nil))
	one := 0.04
	require.InDelta(t, 0.04, *measure.Adjust([]*float64{&one})[0], 1e-12, "alone it stays what it is")
}

// Tables computed by hand: the lady tasting tea (8 cups, 70 orders), and five runs against five (252 orders).
func TestFishersExactTest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, runsA, b, runsB int
		p                  float64
	}{
		{3, 4, 1, 4, 34.0 / 70},
		{4, 4, 0, 4, 2.0 / 70},
		{5, 5, 0, 5, 2.0 / 252},
		{5, 5, 1, 5, 12.0 / 252},
		{5, 5, 4, 5, 1},
		{0, 5, 0, 5, 1},
		{5, 5, 5, 5, 1},
	} {
		require.InDelta(t, test.p, measure.Fisher(test.a, test.runsA, test.b, test.runsB), 1e-9, test)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		runsA, runsB := 1+random.IntN(10), 1+random.IntN(10)
		a, b := random.IntN(runsA+1), random.IntN(runsB+1)
		require.InDelta(t, fisher(a, runsA, b, runsB), measure.Fisher(a, runsA, b, runsB), 1e-9)
		require.InDelta(t, measure.Fisher(b, runsB, a, runsA), measure.Fisher(a, runsA, b, runsB), 1e-12,
			"no side comes first")
	}
}

// fisher computes the test by counting tables, with whole numbers.
func fisher(a, runsA, b, runsB int) float64 {
	ways := func(x int) int { return combin.Binomial(runsA, x) * combin.Binomial(runsB, a+b-x) }
	own, sum := ways(a), 0
	for x := max(0, a+b-runsB); x <= min(runsA, a+b); x++ {
		if one := ways(x); one <= own {
			sum += one
		}
	}
	return float64(sum) / float64(combin.Binomial(runsA+runsB, a+b))
}

// runKeys makes the keys of runs from letters; - is a run without an answer.
func runKeys(letters string) (keys []string) {
	for _, letter := range letters {
		keys = append(keys, strings.Trim(string(letter), "-"))
	}
	return keys
}

func TestThePermutationTestOfAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		p    float64
	}{
		{"AAAAA", "BBBBB", 2.0 / 252}, // the actual division and its mirror image
		{"AAAAA", "BCDEF", 2.0 / 252},
		{"AAAAA", "AAAAA", 1},
		{"ABCDE", "FGHIJ", 1}, // no two answers are equal
		{"-----", "-----", 1},
		{"AAAAA", "-----", 2.0 / 252},
		{"AAAAA", "AAAAB", 1}, // the odd one can be any of ten runs
		{"AB", "AB", 1},
	} {
		p := measure.Shift(runKeys(test.a), runKeys(test.b))
		require.InDelta(t, test.p, *p, 1e-9, test)
	}
	require.Nil(t, measure.Shift(runKeys("A"), runKeys("BBBB")), "one run has nothing to agree with")

	random := rand.New(rand.NewPCG(2, 2))
	draw := func(size int) string {
		var letters strings.Builder
		for range size {
			letters.WriteByte("AABCD-"[random.IntN(6)])
		}
		return letters.String()
	}
	for range 200 {
		a, b := runKeys(draw(2+random.IntN(4))), runKeys(draw(2+random.IntN(4)))
		require.InDelta(t, relabelled(a, b), *measure.Shift(a, b), 1e-9, "%v %v", a, b)
	}

	// If there are too many relabelings to count, the same ones are drawn each time.
	long := measure.Shift(runKeys(strings.Repeat("A", 10)), runKeys(strings.Repeat("A", 3)+strings.Repeat("B", 7)))
	require.InDelta(t, 0.0031, *long, 0.0015, "1 : 2 · C(13, 10) C(7, 0) / C(20, 10) and its mirror image")
	require.Equal(t, long, measure.Shift(runKeys(strings.Repeat("A", 10)),
		runKeys(strings.Repeat("A", 3)+strings.Repeat("B", 7))))
	require.InDelta(t, 1.0/20001, *measure.Shift(runKeys(strings.Repeat("A", 20)), runKeys(strings.Repeat("B", 20))), 1e-9)
}

// relabelled goes through every way to choose the runs of the first group, pair by pair.
func relabelled(a, b []string) float64 {
	all := append(append([]string{}, a...), b...)
	statistic := func(isA []bool) float64 {
		var equal, pairs [3]float64 // within the first group, within the second, between the groups
		for i := range all {
			for j := range i {
				kind := 2
				if isA[i] == isA[j] {
					kind = map[bool]int{true: 0, false: 1}[isA[i]]
				}
				pairs[kind]++
				if all[i] == all[j] && all[i] != "" {
					equal[kind]++
				}
			}
		}
		return equal[2]/pairs[2] - (equal[0]/pairs[0]+equal[1]/pairs[1])/2
	}
	chosen := func(places []int) []bool {
		isA := make([]bool, len(all))
		for _, place := range places {
			isA[place] = true
		}
		return isA
	}
	first := make([]int, len(a))
	for n := range first {
		first[n] = n
	}
	observed := statistic(chosen(first))
	ways := combin.Combinations(len(all), len(a))
	hits := 0
	for _, places := range ways {
		if statistic(chosen(places)) <= observed+1e-9 {
			hits++
		}
	}
	return float64(hits) / float64(len(ways))
}

// The winner is better than every other variant, with p-values adjusted for all pairs, and its lead is measured over
// the runner-up.
func TestTheWinnerIsMeasuredAgainstTheRunnerUp(t *testing.T) {
	t.Parallel()
	variant := func(shares ...float64) (questions []measure.ComparedQuestion) {
		for n := range shares {
			questions = append(questions, measure.ComparedQuestion{ID: int64(n), PassShare: &shares[n]})
		}
		return questions
	}
	share := func(q measure.ComparedQuestion) *float64 { return q.PassShare }
	low, middle, high := variant(.1, .2, .1, .2, .1, .3), variant(.5, .4, .5, .6, .5, .4), variant(.8, .9, .9, .9, .8, .9)
	won := measure.Win([][]measure.ComparedQuestion{middle, high, low}, measure.By{Of: share}, measure.Matters{})
	require.Equal(t, 1, won.Leader)
	require.Equal(t, 0, won.RunnerUp)
	require.InDelta(t, 2.3/6, *won.Change.Mean, 1e-9)
	require.InDelta(t, 0.87-0.4833, *won.Change.MeanB-*won.Change.MeanA, 0.01)
	require.Less(t, won.Adjusted, 0.01)
	require.GreaterOrEqual(t, won.Adjusted, *won.Change.P)
	swapped := measure.Win([][]measure.ComparedQuestion{low, middle, high}, measure.By{Of: share}, measure.Matters{})
	require.Equal(t, won.Change, swapped.Change)
	require.Equal(t, 2, swapped.Leader)
	require.Equal(t, 1, swapped.RunnerUp)
	near := variant(.8, .9, .8, .9, .9, .9)
	require.Nil(t, measure.Win([][]measure.ComparedQuestion{low, high, near}, measure.By{Of: share}, measure.Matters{}),
		"the next best may be as good")
	require.Nil(t, measure.Win([][]measure.ComparedQuestion{high}, measure.By{Of: share}, measure.Matters{}), "alone")
	require.Nil(t, measure.Win([][]measure.ComparedQuestion{{{ID: 1}}, {{ID: 1}}}, measure.By{Of: share},
		measure.Matters{}), "nothing is known")
}
