package measure

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/combin"
)

const (
	// Significance is the largest adjusted p-value at which a statement is made; metrics.md defines the families of
	// tests.
	Significance = 0.05
	// ListedShare is the share of the questions listed as changed that may be listed by chance (metrics.md, family e).
	ListedShare = 0.10
)

// Adjust returns the p-values of one family, adjusted by Benjamini and Hochberg (1995), in the same order. nil
// values stay nil and do not count.
func Adjust(p []*float64) []*float64 {
	adjusted := make([]*float64, len(p))
	var order []int
	for n, one := range p {
		if one != nil {
			order = append(order, n)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if *p[a] < *p[b] {
			return -1
		}
		if *p[a] > *p[b] {
			return 1
		}
		return 0
	})
	least := 1.0
	for rank := len(order); rank > 0; rank-- {
		place := order[rank-1]
		least = min(least, *p[place]*float64(len(order))/float64(rank))
		value := least
		adjusted[place] = &value
	}
	return adjusted
}

// within is the relative rounding error up to which two probabilities or statistics count as equal.
const within = 1e-9

// Fisher returns the two-sided p-value of Fisher's exact test: if both groups pass equally often, how likely is it
// that the passes of two groups of runs are divided at least as unevenly as observed? It is the sum over all tables
// that are no more likely than the observed one.
func Fisher(passesA, runsA, passesB, runsB int) (p float64) {
	passes := passesA + passesB
	logOf := func(a int) float64 {
		return combin.LogGeneralizedBinomial(float64(runsA), float64(a)) + combin.LogGeneralizedBinomial(float64(runsB),
			float64(passes-a)) -
			combin.LogGeneralizedBinomial(float64(runsA+runsB), float64(passes))
	}
	own := logOf(passesA)
	for a := max(0, passes-runsB); a <= min(runsA, passes); a++ {
		if one := logOf(a); one <= own+within {
			p += math.Exp(one)
		}
	}
	return min(1, p)
}

// Shift counts all relabelings if there are at most mostRelabelings, and otherwise estimates the p-value from
// mostRelabelings draws. If the answers can be divided between the groups in at most mostRelabelings ways, it computes
// the expected result of the draws instead; if not, it uses a fixed seed. So the same answers always have the same
// p-value, in bounded time.
const (
	mostRelabelings = 20_000
	seed            = 20_000
)

// Shift returns the p-value of a permutation test of whether two groups of runs answer alike. Equal answers have
// equal keys; a run without an answer has an empty one and agrees with none. The statistic is the agreement between
// the groups minus the mean agreement within them; the p-value is the share of all divisions of the runs into groups
// of these sizes whose statistic is at most the observed one. Shift returns nil if a group has fewer than two runs.
func Shift(a, b []string) *float64 {
	if len(a) < 2 || len(b) < 2 {
		return nil
	}
	d := newDivision(a, b)
	var p float64
	switch relabelings := combin.LogGeneralizedBinomial(float64(len(a)+len(b)), float64(len(a))); {
	case len(d.totals) == 0 || len(d.totals) == 1 && d.alone == 0: // all divisions are alike
		p = 1
	case relabelings <= math.Log(mostRelabelings)+within:
		d.enumerate(0, len(a), 0, 1)
		p = d.hits / d.all
	case d.isCountable():
		d.enumerate(0, len(a), 0, 1)
		p = (mostRelabelings*d.hits/d.all + 1) / (mostRelabelings + 1)
	default:
		d.draw()
		p = (d.hits + 1) / (d.all + 1)
	}
	return &p
}

// division describes the runs of two groups, and how their answers are divided between them.
type division struct {
	sizeA, sizeB int
	// totals holds, for each answer that several runs gave, the number of these runs; alone counts the runs that agree
	// with no other. It does not matter which group the latter are in.
	totals []int
	alone  int
	// terms[n][k] is what answer n of totals contributes to the statistic if k of its runs are in the first group.
	terms [][]float64
	// observed is the statistic of the actual groups. hits is the number of divisions, out of all, whose statistic is
	// at most observed.
	observed, hits, all float64
}

func newDivision(a, b []string) *division {
	d := &division{sizeA: len(a), sizeB: len(b)}
	inA, inAll := map[string]int{}, map[string]int{}
	for n, key := range slices.Concat(a, b) {
		switch {
		case key == "":
			d.alone++
		case n < len(a):
			inA[key]++
			inAll[key]++
		default:
			inAll[key]++
		}
	}
	for key, total := range inAll {
		if total == 1 {
			d.alone++
			continue
		}
		d.totals = append(d.totals, total)
		d.observed += d.term(total, inA[key])
	}
	slices.Sort(d.totals) // map iteration order is random, and floating-point sums depend on the order
	for _, total := range d.totals {
		terms := make([]float64, total+1)
		for inA := range terms {
			terms[inA] = d.term(total, inA)
		}
		d.terms = append(d.terms, terms)
	}
	return d
}

// isCountable reports whether there are at most mostRelabelings ways to choose each answer's runs in the first group.
func (d *division) isCountable() bool {
	ways := 1
	for _, total := range d.totals {
		if ways *= total + 1; ways > mostRelabelings {
			return false
		}
	}
	return true
}

// term returns what an answer contributes to the statistic if total runs gave it, inA of them in the first group.
func (d *division) term(total, inA int) float64 {
	of, other, sizeA, sizeB := float64(inA), float64(total-inA), float64(d.sizeA), float64(d.sizeB)
	return of*other/(sizeA*sizeB) - (of*(of-1)/(sizeA*(sizeA-1))+other*(other-1)/(sizeB*(sizeB-1)))/2
}

func (d *division) count(statistic, ways float64) {
	d.all += ways
	if statistic <= d.observed+within {
		d.hits += ways
	}
}

// enumerate counts all ways to fill the first group, which has room for left more runs, with runs of the answers from
// index place on.
func (d *division) enumerate(place, left int, statistic, ways float64) {
	if place == len(d.totals) {
		if left <= d.alone {
			d.count(statistic, ways*float64(combin.Binomial(d.alone, left)))
		}
		return
	}
	total := d.totals[place]
	for inA := 0; inA <= min(total, left); inA++ {
		d.enumerate(place+1, left-inA, statistic+d.terms[place][inA], ways*float64(combin.Binomial(total, inA)))
	}
}

// draw counts divisions drawn at random.
func (d *division) draw() {
	runs := make([]int, 0, d.sizeA+d.sizeB) // the answer of each run
	for answer, total := range d.totals {
		for range total {
			runs = append(runs, answer)
		}
	}
	for range d.alone {
		runs = append(runs, -1)
	}
	random := rand.New(rand.NewPCG(seed, seed))
	inA := make([]int, len(d.totals))
	for range mostRelabelings {
		clear(inA)
		for n := range d.sizeA {
			other := n + random.IntN(len(runs)-n)
			runs[n], runs[other] = runs[other], runs[n]
			if runs[n] >= 0 {
				inA[runs[n]]++
			}
		}
		statistic := 0.0
		for answer, count := range inA {
			statistic += d.terms[answer][count]
		}
		d.count(statistic, 1)
	}
}
