package measure

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// By is a number that questions have, by which variants are ranked.
type By struct {
	// Of returns a question's number; nil if it is unknown.
	Of           func(ComparedQuestion) *float64
	IsLessBetter bool
	// IsOfAnswers reports that runs without an answer do not count, so that a variant could lead by answering
	// little.
	IsOfAnswers bool
}

// Ranking compares a task's variants by one number of their questions. All its fields hold indexes of variants.
type Ranking struct {
	// Leader is the variant with the best mean.
	Leader int
	// Worse are the variants that the leader beats: the interval of their paired difference excludes 0. Each are
	// those that it beats by the same amount on every question, which has no interval. Alike are those whose
	// difference may be due to chance; Tied are the ones among Alike with the same mean. Unknown are those that
	// share no question with the leader on which the number is known.
	Worse, Each, Alike, Tied, Unknown []int
	// Seldom are the variants that answer less often than another. By a number of answers they neither lead nor
	// equal the leader: unless they are worse, they are Unknown.
	Seldom []int
}

// Lead is how far a leader is ahead.
type Lead struct {
	// Over is the index of the variant with the second-best mean.
	Over int
	// Change is from that variant to the leader.
	Change Change
}

// LeadOf returns how far the leader of a ranking is ahead of the next best variant; nil if no variant can be
// compared with it.
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

// IsBest reports that the leader is better than every other variant.
func (r Ranking) IsBest() bool {
	return len(r.Alike)+len(r.Each)+len(r.Unknown) == 0 && len(r.Worse) > 0
}

// ShowsNone reports that some variants can be compared, but none is shown to be better than another.
func (r Ranking) ShowsNone() bool { return len(r.Worse)+len(r.Each) == 0 && len(r.Alike) > 0 }

// Rank ranks variants, all of which have the same questions in the same order. It returns false if none can lead
// because the number is unknown for all of them.
func Rank(variants [][]ComparedQuestion, by By) (ranking Ranking, isKnown bool) {
	number, sign := by.Of, 1.0
	if by.IsLessBetter {
		sign = -1
	}
	if by.IsOfAnswers {
		ranking.Seldom = seldom(variants)
	}
	means := meansOf(variants, number, sign)
	leading := slices.Clone(means)
	for _, n := range ranking.Seldom {
		leading[n] = math.NaN()
	}
	if ranking.Leader = highest(leading); ranking.Leader < 0 {
		return Ranking{Seldom: ranking.Seldom}, false
	}
	for n, questions := range variants {
		if n == ranking.Leader {
			continue
		}
		switch change := changeOf(pairsOf(questions, variants[ranking.Leader]), number); {
		case change.Mean == nil:
			ranking.Unknown = append(ranking.Unknown, n)
		case sign**change.Mean > 0 && change.IsShown():
			ranking.Worse = append(ranking.Worse, n)
		case sign**change.Mean > 0 && change.IsConstant():
			ranking.Each = append(ranking.Each, n)
		case slices.Contains(ranking.Seldom, n):
			ranking.Unknown = append(ranking.Unknown, n)
		default:
			ranking.Alike = append(ranking.Alike, n)
		}
	}
	for _, n := range ranking.Alike {
		if math.Abs(means[n]-means[ranking.Leader]) < noDeviation {
			ranking.Tied = append(ranking.Tied, n)
		}
	}
	return ranking, true
}

// seldom returns the variants whose runs succeed less often than those of another: beyond chance, or by the same
// share on each of several questions.
func seldom(variants [][]ComparedQuestion) (places []int) {
	for n, questions := range variants {
		isLess := func(other []ComparedQuestion) bool {
			change := changeOf(pairsOf(questions, other), func(q ComparedQuestion) *float64 { return q.SuccessRate })
			return change.Mean != nil && *change.Mean > 0 && (change.IsShown() || change.IsConstant())
		}
		if slices.ContainsFunc(variants, isLess) {
			places = append(places, n)
		}
	}
	return places
}

// meansOf returns the variants' means of a number, multiplied by sign so that more is better; NaN if unknown.
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

// Winner is the variant that beats every other beyond chance, and its lead over the next best.
type Winner struct {
	// Leader and RunnerUp are indexes of variants.
	Leader, RunnerUp int
	// Change is from the runner-up to the leader, Adjusted its p-value, adjusted for all pairs of variants (metrics.md, family a).
	Change   Change
	Adjusted float64
}

// Win finds the winner by a number of which more is better, among variants that all have the same questions in the
// same order; nil if the data show none.
func Win(variants [][]ComparedQuestion, number func(ComparedQuestion) *float64) *Winner {
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
	var p []*float64
	var beaten []int // indexes of the leader's pairs
	var isBetter []bool
	for a := range variants {
		for b := range a {
			change := changeOf(pairsOf(variants[a], variants[b]), number)
			if a == winner.Leader || b == winner.Leader {
				beaten = append(beaten, len(p))
				isBetter = append(isBetter, change.Mean != nil && (*change.Mean > 0) == (b == winner.Leader))
			}
			p = append(p, change.P)
		}
	}
	adjusted := Adjust(p)
	for n, place := range beaten {
		if !isBetter[n] || adjusted[place] == nil || *adjusted[place] > Significance {
			return nil
		}
	}
	winner.Change = changeOf(pairsOf(variants[winner.RunnerUp], variants[winner.Leader]), number)
	winner.Adjusted = *adjusted[placeOfPair(winner.Leader, winner.RunnerUp)]
	return &winner
}

// placeOfPair returns the index of a pair in the order (1, 0), (2, 0), (2, 1), (3, 0) …
func placeOfPair(one, other int) int {
	one, other = max(one, other), min(one, other)
	return one*(one-1)/2 + other
}
