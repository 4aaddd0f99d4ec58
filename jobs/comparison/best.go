package comparison

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// By is a number of questions by which variants are ranked.
type By struct {
	// Of is a question's number; nil while it is unknown.
	Of           func(Question) *float64
	IsLessBetter bool
	// IsOfAnswers reports that runs without an answer do not count: a variant could lead by answering little.
	IsOfAnswers bool
}

// Ranking says which of a task's variants leads by a number of their questions.
type Ranking struct {
	// Leader is the variant with the best mean, from 0.
	Leader int
	// Worse are those that it is better than: the paired difference has an interval without 0. Alike are those whose
	// difference to it may be chance; Tied are those of them that have the same mean. Each are those that it is better than by the
	// same on each question, which has no interval. Unknown are those that have no question in common with it on which the number
	// is known.
	Worse, Each, Alike, Tied, Unknown []int
	// Seldom are those that answer less often than another: by a number of answers they neither lead nor equal the leader, so
	// that those which are not worse than it are Unknown.
	Seldom []int
}

// IsBest reports that the leader is better than every other variant.
func (r Ranking) IsBest() bool {
	return len(r.Alike)+len(r.Each)+len(r.Unknown) == 0 && len(r.Worse) > 0
}

// ShowsNone reports that some variants can be compared, and none is shown to be better than another.
func (r Ranking) ShowsNone() bool { return len(r.Worse)+len(r.Each) == 0 && len(r.Alike) > 0 }

// Rank ranks variants, which all have the same questions in the same order. It returns false if none can lead, because the
// number is known of none.
func Rank(variants [][]Question, by By) (ranking Ranking, isKnown bool) {
	number, sign := by.Of, 1.0
	if by.IsLessBetter {
		sign = -1
	}
	if by.IsOfAnswers {
		ranking.Seldom = seldom(variants)
	}
	var highest float64
	means := make([]float64, len(variants))
	for n, questions := range variants {
		var known []float64
		for _, question := range questions {
			if value := number(question); value != nil {
				known = append(known, sign**value)
			}
		}
		means[n] = stat.Mean(known, nil) // not a number if none is known
		if len(known) > 0 && !slices.Contains(ranking.Seldom, n) && (!isKnown || means[n] > highest) {
			ranking.Leader, highest, isKnown = n, means[n], true
		}
	}
	if !isKnown {
		return ranking, false
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
		if math.Abs(means[n]-highest) < noDeviation {
			ranking.Tied = append(ranking.Tied, n)
		}
	}
	return ranking, true
}

// seldom are the variants whose runs succeed less often than those of another: beyond chance, or by the same share on each of
// several questions.
func seldom(variants [][]Question) (places []int) {
	for n, questions := range variants {
		isLess := func(other []Question) bool {
			change := changeOf(pairsOf(questions, other), func(q Question) *float64 { return q.SuccessRate })
			return change.Mean != nil && *change.Mean > 0 && (change.IsShown() || change.IsConstant())
		}
		if slices.ContainsFunc(variants, isLess) {
			places = append(places, n)
		}
	}
	return places
}

// pairsOf pairs the questions of two variants of one task.
func pairsOf(a, b []Question) []Pair {
	pairs := make([]Pair, len(a))
	for n := range a {
		pairs[n] = Pair{A: a[n], B: b[n]}
	}
	return pairs
}
