package measure

import "gonum.org/v1/gonum/stat/combin"

// DefaultConfidence is the confidence with which questions are settled unless another one is chosen.
const DefaultConfidence = 0.95

// mostVotes is the maximum number of runs of a question.
const mostVotes = 20

// IsSettled reports whether more runs of a question are unlikely to change its most common answer: first and second
// are how many runs gave each of its two most common answers. The question is settled if I₀.₅(first + 1, second +
// 1), the chance that the leader is not the most common answer, is at most 1 − confidence (Adaptive-Consistency,
// arXiv:2305.11860).
func IsSettled(first, second int, confidence float64) bool {
	const noise = 1e-12 // absorbs the rounding error of 1 − confidence, which has no exact binary representation
	return chanceToTrail(max(first, second), min(first, second)) <= 1-confidence+noise
}

// chanceToTrail returns I₀.₅(first + 1, second + 1): the probability of more than first heads in first + second + 1
// throws of a coin.
func chanceToTrail(first, second int) float64 {
	throws, ways := first+second+1, 0.0
	for heads := first + 1; heads <= throws; heads++ {
		ways += float64(combin.Binomial(throws, heads))
	}
	return ways / float64(uint64(1)<<throws)
}

// SettledFrom returns the number of votes for the most common answer that settles a question, indexed by the votes
// for the second most common one. If a number exceeds the runs that a question can have, the question cannot be
// settled.
func SettledFrom(confidence float64) []int {
	least := make([]int, mostVotes/2+1)
	for second := range least {
		least[second] = second
		for least[second] <= mostVotes && !IsSettled(least[second], second, confidence) {
			least[second]++
		}
	}
	return least
}

// Votes returns how many runs gave each of the two most common answers; letters has a letter for each run, as in
// Question.Letters.
func Votes(letters string) (first, second int) {
	counts := map[rune]int{}
	for _, letter := range letters {
		if letter != '-' {
			counts[letter]++
		}
	}
	for _, count := range counts {
		switch {
		case count > first:
			first, second = count, first
		case count > second:
			second = count
		}
	}
	return first, second
}
