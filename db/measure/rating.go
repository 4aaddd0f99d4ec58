package measure

import (
	"math"
	"math/rand/v2"
)

// Alpha returns Krippendorff's α of nominal verdicts: 1 is perfect agreement, 0 is the agreement expected by chance.
// Each unit holds the verdicts of the people who judged it; units with fewer than two do not count. It is nil if no
// unit counts, or if all verdicts are the same, so that agreement by chance cannot be estimated. units is the number
// of units that count. (Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.)
func Alpha[V comparable](verdicts [][]V) (alpha *float64, units int) {
	totals := map[V]float64{}
	values, observed := 0.0, 0.0 // pairs that disagree, weighted
	for _, unit := range verdicts {
		if len(unit) < 2 {
			continue
		}
		units++
		counts := map[V]float64{}
		for _, verdict := range unit {
			counts[verdict]++
			totals[verdict]++
		}
		size := float64(len(unit))
		values += size
		for _, count := range counts {
			observed += count * (size - count) / (size - 1)
		}
	}
	expected := 0.0
	for _, total := range totals {
		expected += total * (values - total)
	}
	if expected == 0 {
		return nil, units
	}
	result := 1 - (values-1)*observed/expected
	return &result, units
}

// SplitQuestions assigns questions to reviewers, about the same number to each: in consecutive blocks, or at
// random. overlap, from 0 to 1, is the share of questions that go to two reviewers, so that their agreement can be
// measured.
func SplitQuestions(questions int, reviewers []string, isRandom bool, overlap float64) [][]string {
	given := make([][]string, questions)
	if len(reviewers) == 0 {
		return given
	}
	order := make([]int, questions)
	for n := range order {
		order[n] = n
	}
	if isRandom {
		rand.Shuffle(questions, func(a, b int) { order[a], order[b] = order[b], order[a] })
	}
	for place, question := range order {
		first := place * len(reviewers) / questions
		given[question] = []string{reviewers[first]}
		// Shared questions are spread evenly: a question is shared when the running total of overlap reaches the
		// next whole number.
		isShared := math.Floor(float64(place+1)*overlap) > math.Floor(float64(place)*overlap)
		if second := (first + 1) % len(reviewers); isShared && second != first {
			given[question] = append(given[question], reviewers[second])
		}
	}
	return given
}
