package comparison

import "gonum.org/v1/gonum/stat"

// Best returns which of a task's variants is better than each of the others by a number of their questions: the paired
// difference to every other variant has an interval without 0. It returns false if none is. All variants have the same
// questions in the same order.
func Best(variants [][]Question, number func(Question) *float64, isLessBetter bool) (best int, isShown bool) {
	sign := 1.0
	if isLessBetter {
		sign = -1
	}
	best = -1
	var highest float64
	for n, questions := range variants {
		var known []float64
		for _, question := range questions {
			if value := number(question); value != nil {
				known = append(known, sign**value)
			}
		}
		if mean := stat.Mean(known, nil); len(known) > 0 && (best < 0 || mean > highest) {
			best, highest = n, mean
		}
	}
	if best < 0 || len(variants) < 2 {
		return 0, false
	}
	for n, questions := range variants {
		if n == best {
			continue
		}
		pairs := make([]Pair, len(questions))
		for at, question := range questions {
			pairs[at] = Pair{A: question, B: variants[best][at]}
		}
		if change := changeOf(pairs, number); !change.IsShown() || sign**change.Mean < 0 {
			return 0, false
		}
	}
	return best, true
}
