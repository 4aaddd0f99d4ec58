package measure

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// By describes a metric by which variants are ranked; it has a value for each question.
type By struct {
	// Of returns the metric's value for a question; nil if unknown.
	Of           func(ComparedQuestion) *float64
	IsLessBetter bool
	// IsOfAnswers reports that runs without an answer do not count, so that a variant with few answers could lead.
	IsOfAnswers bool
	// Limit is the kind of limit below which a difference does not matter.
	Limit Limit
}

// Limit is the kind of limit below which a difference of a metric does not matter.
type Limit string

// The kinds of limits: none, an absolute share, or a fraction of the other variant's mean.
const (
	NoLimit   Limit = ""
	OfShares  Limit = "share"
	OfAmounts Limit = "amount"
)

// Matters holds the smallest differences that matter: Share for shares, and Part for times, tokens and costs, as a
// fraction of the value they are compared with. Smaller differences decide nothing, however certain they are.
type Matters struct{ Share, Part float64 }

// IsSmall reports whether a change is known and too small to matter.
func (m Matters) IsSmall(change Change, limit Limit) bool {
	return change.Mean != nil && m.areSmall(*change.Mean, *change.MeanA, limit)
}

// areSmall reports whether a difference from a mean is too small to matter.
func (m Matters) areSmall(difference, mean float64, limit Limit) bool {
	switch limit {
	case OfShares:
		return math.Abs(difference) < m.Share-noDeviation
	case OfAmounts:
		return math.Abs(difference) < m.Part*math.Abs(mean)-noDeviation
	}
	return false
}

// Ranking compares a task's variants by one metric of their questions. All its fields contain indexes of variants.
type Ranking struct {
	// Leader is the variant with the best mean.
	Leader int
	// Worse lists the variants that the leader beats beyond chance: the p-value of their paired difference, adjusted for
	// all pairs of variants and all metrics of the report, is at most Significance (metrics.md, family a). Each lists the
	// variants that it beats by the same amount on every question, so that there is no interval. Alike lists the variants
	// whose difference from the leader may be due to chance. Tied lists the variants in Alike whose mean equals the
	// leader's. Unknown lists the variants that share no question with the leader for which the metric is known.
	Worse, Each, Alike, Tied, Unknown []int
	// Slight lists the variants that the leader beats by too little to matter (Matters): they are not called worse.
	Slight []int
	// Seldom lists the variants that answer less often than another variant. In a ranking that covers only answers
	// (By.IsOfAnswers), they can neither lead nor equal the leader: they are Unknown, unless they are worse.
	Seldom []int
}

// Lead is how far a leader is ahead.
type Lead struct {
	// Over is the index of the variant with the second-best mean.
	Over int
	// Change is the change from Over to the leader.
	Change Change
}

// LeadOf returns how far the leader of a ranking is ahead of the runner-up; nil if no variant can be compared with it.
func LeadOf(variants [][]ComparedQuestion, by By, ranking Ranking) *Lead {
	sign := 1.0
	if by.IsLessBetter {
		sign = -1
	}
	means := meansOf(variants, by.Of, sign)
	for _, n := range append([]int{ranking.Leader}, ranking.Seldom...) {
		means[n] = math.NaN()
	}
	next := highest(means)
	if next < 0 {
		return nil
	}
	lead := Lead{next, changeOf(pairsOf(variants[next], variants[ranking.Leader]), by.Of)}
	if lead.Change.Mean == nil {
		return nil
	}
	return &lead
}

// IsBest reports whether the leader is better than every other variant.
func (r Ranking) IsBest() bool {
	return len(r.Alike)+len(r.Each)+len(r.Unknown)+len(r.Slight) == 0 && len(r.Worse) > 0
}

// ShowsNone reports whether some variants can be compared, but none is shown to be better than another.
func (r Ranking) ShowsNone() bool {
	return len(r.Worse)+len(r.Each)+len(r.Slight) == 0 && len(r.Alike) > 0
}

// Rank ranks variants, all of which have the same questions in the same order, by each of several metrics. All pairs of
// variants and all metrics form one family of tests. A ranking is nil if its metric is unknown for all variants.
func Rank(variants [][]ComparedQuestion, by []By, matters Matters) []*Ranking {
	success := By{Of: func(q ComparedQuestion) *float64 { return q.SuccessRate }}
	rounds := make([]round, 0, len(by)+1)
	for _, one := range append(slices.Clone(by), success) {
		rounds = append(rounds, newRound(variants, one))
	}
	adjust(rounds[:len(by)])
	adjust(rounds[len(by):])
	var seldom []int
	for n := range variants {
		if rounds[len(by)].isBeaten(n) {
			seldom = append(seldom, n)
		}
	}
	rankings := make([]*Ranking, len(by))
	for n, one := range rounds[:len(by)] {
		if one.IsOfAnswers {
			rankings[n] = one.rank(seldom, matters)
		} else {
			rankings[n] = one.rank(nil, matters)
		}
	}
	return rankings
}

// round compares all pairs of variants by one metric.
type round struct {
	By
	// means are the variants' means, turned so that more is better; NaN if unknown.
	means []float64
	// changes are the changes between the variants of each pair, in the order of placeOfPair.
	changes  []Change
	adjusted []*float64
}

func newRound(variants [][]ComparedQuestion, by By) round {
	r := round{By: by}
	columns := make([]column, len(variants))
	for n, questions := range variants {
		columns[n] = newColumn(questions, by.Of)
		r.means = append(r.means, r.turned(columns[n].mean()))
		for other := range n {
			r.changes = append(r.changes, columns[n].to(columns[other]))
		}
	}
	return r
}

// adjust adjusts the p-values of several rounds as one family.
func adjust(rounds []round) {
	var p []*float64
	for _, one := range rounds {
		for _, change := range one.changes {
			p = append(p, change.P)
		}
	}
	adjusted := Adjust(p)
	for n := range rounds {
		count := len(rounds[n].changes)
		rounds[n].adjusted, adjusted = adjusted[:count], adjusted[count:]
	}
}

// turned returns a value with its sign changed if less is better, so that more is always better.
func (r round) turned(number float64) float64 {
	if r.IsLessBetter {
		return -number
	}
	return number
}

// beats compares two variants, given their indexes. by is how much better the first is, nil if unknown; isShown reports
// whether the difference is beyond chance, and isConstant whether it is the same on each of several questions.
func (r round) beats(one, other int) (by *float64, isShown, isConstant bool) {
	place := placeOfPair(one, other)
	change := r.changes[place]
	if change.Mean == nil {
		return nil, false, false
	}
	difference := r.turned(*change.Mean)
	if one > other { // changes are from the later variant to the earlier
		difference = -difference
	}
	adjusted := r.adjusted[place]
	return &difference, change.IsShown() && adjusted != nil && *adjusted <= Significance, change.IsConstant()
}

// meanBeside returns a variant's mean over the questions that it shares with another.
func (r round) meanBeside(n, other int) float64 {
	change := r.changes[placeOfPair(n, other)]
	if n > other {
		return *change.MeanA
	}
	return *change.MeanB
}

// isBeaten reports whether another variant is better, beyond chance or by the same amount on each of several questions.
func (r round) isBeaten(n int) bool {
	for other := range r.means {
		if other == n {
			continue
		}
		if by, isShown, isConstant := r.beats(other, n); by != nil && *by > 0 && (isShown || isConstant) {
			return true
		}
	}
	return false
}

// rank finds the leader, which is none of the variants in seldom, and compares all others with it; nil if there is
// none.
func (r round) rank(seldom []int, matters Matters) *Ranking {
	leading := slices.Clone(r.means)
	for _, n := range seldom {
		leading[n] = math.NaN()
	}
	ranking := Ranking{Leader: highest(leading), Seldom: seldom}
	if ranking.Leader < 0 {
		return nil
	}
	for n := range r.means {
		if n == ranking.Leader {
			continue
		}
		switch by, isShown, isConstant := r.beats(ranking.Leader, n); {
		case by == nil:
			ranking.Unknown = append(ranking.Unknown, n)
		case *by > 0 && (isShown || isConstant) && matters.areSmall(*by, r.meanBeside(n, ranking.Leader), r.Limit):
			ranking.Slight = append(ranking.Slight, n)
		case *by > 0 && isShown:
			ranking.Worse = append(ranking.Worse, n)
		case *by > 0 && isConstant:
			ranking.Each = append(ranking.Each, n)
		case slices.Contains(seldom, n):
			ranking.Unknown = append(ranking.Unknown, n)
		default:
			ranking.Alike = append(ranking.Alike, n)
		}
	}
	for _, n := range ranking.Alike {
		if math.Abs(r.means[n]-r.means[ranking.Leader]) < noDeviation {
			ranking.Tied = append(ranking.Tied, n)
		}
	}
	return &ranking
}

// column holds the metric's value for each question of a variant, NaN if unknown, and the question's cluster.
type column struct {
	numbers  []float64
	clusters []string
}

func newColumn(questions []ComparedQuestion, number func(ComparedQuestion) *float64) column {
	c := column{make([]float64, len(questions)), make([]string, len(questions))}
	for n, question := range questions {
		c.numbers[n], c.clusters[n] = math.NaN(), question.Cluster
		if value := number(question); value != nil {
			c.numbers[n] = *value
		}
	}
	return c
}

// mean returns the mean of the known values; NaN if there are none.
func (c column) mean() float64 {
	return stat.Mean(slices.DeleteFunc(slices.Clone(c.numbers), math.IsNaN), nil)
}

// to returns the change from the column to another variant's column, question by question.
func (c column) to(other column) Change {
	a, b, clusters := make([]float64, 0, len(c.numbers)), make([]float64, 0, len(c.numbers)),
		make([]string, 0, len(c.numbers))
	for n, number := range c.numbers {
		if !math.IsNaN(number) && !math.IsNaN(other.numbers[n]) {
			a, b, clusters = append(a, number), append(b, other.numbers[n]), append(clusters, c.clusters[n])
		}
	}
	return paired(a, b, clusters, len(c.numbers)-len(a))
}

// meansOf returns the variants' means of a metric, multiplied by sign so that more is better; NaN if unknown.
func meansOf(variants [][]ComparedQuestion, number func(ComparedQuestion) *float64, sign float64) []float64 {
	means := make([]float64, len(variants))
	for n, questions := range variants {
		var known []float64
		for _, question := range questions {
			if value := number(question); value != nil {
				known = append(known, sign**value)
			}
		}
		means[n] = stat.Mean(known, nil)
	}
	return means
}

// highest returns the index of the highest number, the first if several are equal; -1 if there is none.
func highest(numbers []float64) int {
	best := -1
	for n, number := range numbers {
		if !math.IsNaN(number) && (best < 0 || number > numbers[best]) {
			best = n
		}
	}
	return best
}

// pairsOf pairs the questions of two variants, which have the same questions in the same order.
func pairsOf(a, b []ComparedQuestion) []Pair {
	pairs := make([]Pair, len(a))
	for n := range a {
		pairs[n] = Pair{A: a[n], B: b[n]}
	}
	return pairs
}

// Winner is the variant that beats all others beyond chance, with its lead over the next best.
type Winner struct {
	// Leader and RunnerUp are indexes of variants.
	Leader, RunnerUp int
	// Change is the change from the runner-up to the leader, and Adjusted is its p-value, adjusted for all pairs of
	// variants (metrics.md, family a).
	Change   Change
	Adjusted float64
}

// Win returns the winner by a metric of which more is better, among variants that all have the same questions in the
// same order; nil if the data show no winner, or the lead is too small to matter.
func Win(variants [][]ComparedQuestion, by By, matters Matters) *Winner {
	number := by.Of
	means := meansOf(variants, number, 1)
	winner := Winner{Leader: highest(means)}
	if winner.Leader < 0 {
		return nil
	}
	others := slices.Clone(means)
	others[winner.Leader] = math.NaN()
	if winner.RunnerUp = highest(others); winner.RunnerUp < 0 {
		return nil
	}
	all := []round{newRound(variants, By{Of: number})}
	adjust(all)
	for n := range variants {
		if n == winner.Leader {
			continue
		}
		if by, isShown, _ := all[0].beats(winner.Leader, n); by == nil || *by <= 0 || !isShown {
			return nil
		}
	}
	winner.Change = changeOf(pairsOf(variants[winner.RunnerUp], variants[winner.Leader]), number)
	if matters.IsSmall(winner.Change, by.Limit) {
		return nil
	}
	winner.Adjusted = *all[0].adjusted[placeOfPair(winner.Leader, winner.RunnerUp)]
	return &winner
}

// placeOfPair returns the index of a pair in the order (1, 0), (2, 0), (2, 1), (3, 0) …
func placeOfPair(one, other int) int {
	one, other = max(one, other), min(one, other)
	return one*(one-1)/2 + other
}
