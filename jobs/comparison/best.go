package comparison

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Ranking says which of a task's variants leads by a number of their questions.
type Ranking struct {
	// Leader is the variant with the best mean, from 0.
	Leader int
	// Worse are those that it is better than: the paired difference has an interval without 0. Alike are those whose
	// difference to it may be chance; Tied are those of them that have the same mean. Each are those that it is better than by the
	// same on each question, which has no interval. Unknown are those that have no question in common with it on which the number
	// is known.
	Worse, Each, Alike, Tied, Unknown []int
}

// IsBest reports that the leader is better than every other variant.
func (r Ranking) IsBest() bool {
	return len(r.Alike)+len(r.Each)+len(r.Unknown) == 0 && len(r.Worse) > 0
}

// ShowsNone reports that some variants can be compared, and none is shown to be better than another.
func (r Ranking) ShowsNone() bool { return len(r.Worse)+len(r.Each) == 0 && len(r.Alike) > 0 }

// Rank ranks variants, which all have the same questions in the same order. It returns false if the number is known of
// none.
func Rank(variants [][]Question, number func(Question) *float64, isLessBetter bool) (ranking Ranking, isKnown bool) {
	sign := 1.0
	if isLessBetter {
		sign = -1
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
		if len(known) > 0 && (!isKnown || means[n] > highest) {
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
		pairs := make([]Pair, len(questions))
		for at, question := range questions {
			pairs[at] = Pair{A: question, B: variants[ranking.Leader][at]}
		}
		switch change := changeOf(pairs, number); {
		case change.Mean == nil:
			ranking.Unknown = append(ranking.Unknown, n)
		case sign**change.Mean <= 0:
			ranking.Alike = append(ranking.Alike, n)
		case change.IsShown():
			ranking.Worse = append(ranking.Worse, n)
		case change.SE != nil && change.Low == nil:
			ranking.Each = append(ranking.Each, n)
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
