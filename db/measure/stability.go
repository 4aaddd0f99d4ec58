// Package measure computes the metrics of metrics.md from plain values: how alike answers are, how two tasks compare,
// how evaluators judge questions, how far reviewers agree, and when a trend raises an alert.
package measure

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"golang.org/x/text/unicode/norm"
)

// Key returns a key that is equal for answers that count as equal: the same text after trimming white space and
// Unicode normalisation (NFC). Bytes that are not valid UTF-8 are compared unchanged.
func Key(answer []byte) []byte {
	sum := sha256.Sum256(norm.NFC.Bytes(bytes.TrimSpace(answer)))
	return sum[:16]
}

// Group is a set of equal answers.
type Group struct {
	Letter string
	Count  int
}

// Letters gives equal answers the same letter: A is the most common answer, then B and so on, ties in order of
// first appearance. A nil key is a run without an answer; its letter is empty.
func Letters(keys [][]byte) (letters []string, groups []Group) {
	type set struct {
		key         string
		count, rank int
	}
	var sets []*set
	byKey := map[string]*set{}
	for _, key := range keys {
		if key == nil {
			continue
		}
		s := byKey[string(key)]
		if s == nil {
			s = &set{key: string(key)}
			byKey[s.key] = s
			sets = append(sets, s)
		}
		s.count++
	}
	slices.SortStableFunc(sets, func(a, b *set) int { return b.count - a.count })
	for rank, s := range sets {
		s.rank = rank
		groups = append(groups, Group{Letter: Letter(rank), Count: s.count})
	}
	letters = make([]string, len(keys))
	for n, key := range keys {
		if key != nil {
			letters[n] = groups[byKey[string(key)].rank].Letter
		}
	}
	return letters, groups
}

// Letter returns the nth single-character name, counted from 0: A to Z, a to z, then letters with marks (Ā, ā, Ă …). A
// question has at most 20 variants × 20 runs.
func Letter(n int) string {
	switch {
	case n < 26:
		return string(rune('A' + n))
	case n < 52:
		return string(rune('a' + n - 26))
	}
	return string(rune('\u0100' + n - 52))
}

// ProvedShare returns the lower end of the 95 % Wilson interval if all runs gave equal answers: the share of equal
// answers that the data support.
func ProvedShare(runs int) float64 {
	const z = 1.959963984540054
	return float64(runs) / (float64(runs) + z*z)
}
