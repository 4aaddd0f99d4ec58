package measure

import (
	"bytes"

	"golang.org/x/text/unicode/norm"
)

// maxMeasured is the number of characters of each answer on which its similarity to others is measured.
const maxMeasured = 2000

// measured returns the part of an answer that is compared: the first maxMeasured characters of its trimmed text in
// NFC.
func measured(answer []byte) []rune {
	runes := []rune(norm.NFC.String(string(bytes.TrimSpace(answer))))
	return runes[:min(len(runes), maxMeasured)]
}

// Similarity returns how alike two answers are, from 0 to 1: 1 − edit distance / length of the longer one, over the
// first maxMeasured characters of their trimmed texts.
func Similarity(a, b []byte) float64 { return similarityOf(measured(a), measured(b)) }

// similarityOf returns 1 − distance / length of the longer text; 1 for two empty texts.
func similarityOf(a, b []rune) float64 {
	longer := max(len(a), len(b))
	if longer == 0 {
		return 1
	}
	return 1 - float64(distance(a, b))/float64(longer)
}

// distance returns the Levenshtein distance: the smallest number of characters that must be inserted, deleted or
// replaced. It handles 64 rows of the table at a time, as bits (Myers, "A fast bit-vector algorithm for approximate
// string matching based on dynamic programming", JACM 46(3), 1999; for whole strings and several words: Hyyrö, 2003).
func distance(a, b []rune) int {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 0 {
		return len(b)
	}
	words := (len(a) + 63) / 64
	places := make(map[rune][]uint64, len(a))
	for n, r := range a {
		if places[r] == nil {
			places[r] = make([]uint64, words)
		}
		places[r][n/64] |= 1 << (n % 64)
	}
	none := make([]uint64, words)
	// For each row, whether the value is one more, or one less, than in the row above.
	grows, falls := make([]uint64, words), make([]uint64, words)
	for n := range grows {
		grows[n] = ^uint64(0)
	}
	result, last := len(a), uint64(1)<<((len(a)-1)%64)
	for _, r := range b {
		equal := places[r]
		if equal == nil {
			equal = none
		}
		growsIn, fallsIn := uint64(1), uint64(0) // the first row grows with every column
		for n := range words {
			eq, up, down := equal[n]|fallsIn, grows[n], falls[n]
			zero := ((eq&up + up) ^ up) | eq | down // the diagonal does not grow
			horizontalUp := down | ^(zero | up)
			horizontalDown := up & zero
			if n == words-1 {
				if horizontalUp&last != 0 {
					result++
				} else if horizontalDown&last != 0 {
					result--
				}
			}
			nextUp, nextDown := horizontalUp>>63, horizontalDown>>63
			horizontalUp = horizontalUp<<1 | growsIn
			horizontalDown = horizontalDown<<1 | fallsIn
			growsIn, fallsIn = nextUp, nextDown
			grows[n] = horizontalDown | ^(zero | horizontalUp)
			falls[n] = horizontalUp & zero
		}
	}
	return result
}
