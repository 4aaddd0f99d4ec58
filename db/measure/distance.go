package measure

import (
	"bytes"

	"golang.org/x/text/unicode/norm"
)

// maxMeasured is how many characters of each answer are used to measure its similarity to others.
const maxMeasured = 2000

// measured returns the part of an answer that is compared: the first maxMeasured characters of its trimmed NFC text.
func measured(answer []byte) []rune {
	runes := []rune(norm.NFC.String(string(bytes.TrimSpace(answer))))
	return runes[:min(len(runes), maxMeasured)]
}

// Similarity returns how alike two answers are, from 0 to 1: 1 − edit distance / length of the longer one, over the
// first maxMeasured characters of their trimmed texts.
func Similarity(a, b []byte) float64 { return similarityOf(measured(a), measured(b)) }

// similarityOf returns how alike two texts are, from 0 to 1.
func similarityOf(a, b []rune) float64 {
	var by alphabet
	return by.similarity(by.encode(a), by.encode(b))
}

// alphabet numbers the characters of texts that are compared with each other.
type alphabet struct {
	codes  map[rune]int32
	rows   []int32  // for each code: 1 + the row of the character in places; 0 if the placed text does not contain it
	places []uint64 // for each row: a bit set, set at the positions of its character in the text given to place
}

// encode replaces characters by their numbers.
func (s *alphabet) encode(text []rune) []int32 {
	if s.codes == nil {
		s.codes = make(map[rune]int32, len(text))
	}
	coded := make([]int32, len(text))
	for n, r := range text {
		code, isKnown := s.codes[r]
		if !isKnown {
			code = int32(len(s.codes))
			s.codes[r] = code
			s.rows = append(s.rows, 0)
		}
		coded[n] = code
	}
	return coded
}

// similarity returns 1 − distance / length of the longer text; 1 for two empty texts.
func (s *alphabet) similarity(a, b []int32) float64 {
	longer := max(len(a), len(b))
	if longer == 0 {
		return 1
	}
	return 1 - float64(s.distance(a, b))/float64(longer)
}

// place records where the characters of a text are; the first row, for characters that are not in it, has no bits.
func (s *alphabet) place(text []int32, words int) {
	s.places = append(s.places[:0], make([]uint64, words)...)
	for n, code := range text {
		if s.rows[code] == 0 {
			s.rows[code] = int32(len(s.places)/words) + 1
			s.places = append(s.places, make([]uint64, words)...)
		}
		s.places[int(s.rows[code]-1)*words+n/64] |= 1 << (n % 64)
	}
}

// distance returns the Levenshtein distance: the smallest number of characters that must be inserted, deleted or
// replaced. It handles 64 rows of the table at a time, as bits (Myers, "A fast bit-vector algorithm for approximate
// string matching based on dynamic programming", JACM 46(3), 1999; for whole strings and several words: Hyyrö, 2003).
func (s *alphabet) distance(a, b []int32) int {
	head, tail := sharedEdges(a, b)
	a, b = a[head:len(a)-tail], b[head:len(b)-tail]
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 0 {
		return len(b)
	}
	words := (len(a) + 63) / 64
	s.place(a, words)
	// For each row, whether the value is one more, or one less, than in the row above.
	grows, falls := make([]uint64, words), make([]uint64, words)
	for n := range grows {
		grows[n] = ^uint64(0)
	}
	result, last := len(a), uint64(1)<<((len(a)-1)%64)
	for _, code := range b {
		row := max(int(s.rows[code])-1, 0)
		equal := s.places[row*words : (row+1)*words]
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
	for _, code := range a {
		s.rows[code] = 0
	}
	return result
}
