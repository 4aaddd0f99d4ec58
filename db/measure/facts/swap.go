package facts

import (
	"slices"
	"strings"

	"wending/db/measure/passage"
)

// mostWidened is the maximum number of characters on each side of a difference that are cut into words, to find the
// words that the difference is part of.
const mostWidened = 12

// swapped holds the words in the part of a sentence where it differs from another sentence.
type swapped struct {
	words []string
	names []string // the words that name something, in order
}

// isWordingOnly reports whether the difference between two sentences cannot affect a fact: a fact is a value, a name
// or one of two opposites, and none of these was replaced by another. The sentences are equal but for
// x[head:len(x)-tail] and y[head:len(y)-tail].
func (c *comparison) isWordingOnly(x, y []word, head, tail int) bool {
	before, behind := 0, 0
	for _, side := range [2]struct {
		*side
		words []word
	}{{c.a, x}, {c.b, y}} {
		from, to := side.wordEdges(side.words, head, len(side.words)-tail)
		before, behind = max(before, head-from), max(behind, to-(len(side.words)-tail))
	}
	left := c.a.swapped(x, head-before, len(x)-tail+behind)
	right := c.b.swapped(y, head-before, len(y)-tail+behind)
	left.words, right.words = withoutShared(left.words, right.words)
	if len(left.words) == 0 && len(right.words) == 0 || areOpposed(left.words, right.words) {
		return false // the words have changed places
	}
	names, others := withoutShared(left.names, right.names)
	if len(names) == 0 && len(others) == 0 {
		return slices.Equal(left.names, right.names)
	}
	return len(left.words) == 0 || len(right.words) == 0 || // one sentence says more
		areSpelledAlike(names, right.words, len(others) == 0) && areSpelledAlike(others, left.words, len(names) == 0) ||
		passage.AreSynonyms(strings.Join(names, ""), strings.Join(others, ""))
}

// wordEdges widens a part of a sentence to whole Chinese words.
func (s *side) wordEdges(words []word, from, to int) (int, int) {
	first, last := from, to
	for first > 0 && from-first < mostWidened && s.isJoined(words, first) {
		first--
	}
	for last < len(words) && last-to < mostWidened && s.isJoined(words, last) {
		last++
	}
	wide := [2]int{from, to}
	at := first
	for _, piece := range s.cut(words[first:last]) {
		end := at + piece.count
		if at < from && end > from {
			wide[0] = at
		}
		if at < to && end > to {
			wide[1] = end
		}
		at = end
	}
	return wide[0], wide[1]
}

// isJoined reports whether the characters before and at a position belong to one run of Chinese characters.
func (s *side) isJoined(words []word, at int) bool {
	if at <= 0 || at >= len(words) {
		return false
	}
	x, y := &words[at-1], &words[at]
	return !x.isFact && !y.isFact && x.To == y.From && passage.IsHan(s.At(x.From)) && passage.IsHan(s.At(y.From))
}

// piece is a whole word or a fact. The characters of a Chinese word are separate elements of a list of type []word;
// count is the number of these elements.
type piece struct {
	text   string
	count  int
	isHan  bool
	isFact bool
}

// cut cuts a part of a sentence into whole words and facts.
func (s *side) cut(words []word) []piece {
	var pieces []piece
	for at := 0; at < len(words); {
		end := at + 1
		isHan := !words[at].isFact && passage.IsHan(s.At(words[at].From))
		if !isHan {
			pieces = append(pieces, piece{words[at].key, 1, false, words[at].isFact})
			at = end
			continue
		}
		var run strings.Builder
		run.WriteString(words[at].key)
		for end < len(words) && s.isJoined(words, end) {
			run.WriteString(words[end].key)
			end++
		}
		for _, text := range passage.AppendWords(nil, run.String()) {
			pieces = append(pieces, piece{text, len([]rune(text)), true, false})
		}
		at = end
	}
	return pieces
}

// swapped returns all words in a part of a sentence and, separately, those that name something.
func (s *side) swapped(words []word, from, to int) (all swapped) {
	var unlisted []string // characters that form no listed word make up one unlisted word
	flush := func() {
		for len(unlisted) > 0 && passage.IsJoining(unlisted[0]) {
			unlisted = unlisted[1:]
		}
		for len(unlisted) > 0 && passage.IsJoining(unlisted[len(unlisted)-1]) {
			unlisted = unlisted[:len(unlisted)-1]
		}
		if len(unlisted) > 0 {
			all.names = append(all.names, strings.Join(unlisted, ""))
		}
		unlisted = nil
	}
	for _, p := range s.cut(words[from:to]) {
		all.words = append(all.words, p.text)
		isJoining := !p.isFact && passage.IsJoining(p.text)
		if p.isHan && p.count == 1 && !passage.IsFunction(p.text) {
			unlisted = append(unlisted, p.text)
			continue
		}
		flush()
		if !isJoining {
			all.names = append(all.names, p.text)
		}
	}
	flush()
	return all
}

// areSpelledAlike reports whether each name shares a Chinese character with the words that replace it and is a verb,
// because such verbs are often synonyms (损伤, 损坏: damage). If the words that replace it name nothing, a name may also be
// an unlisted word (疑义, 疑问: doubt). Nouns that share a character are not synonyms but things of one kind: 原件
// (original), 复印件 (copy).
func areSpelledAlike(names, words []string, nameNothing bool) bool {
	all := strings.Join(words, "")
	for _, name := range names {
		if !passage.IsVerb(name) && (!nameNothing || passage.IsListed(name)) ||
			!strings.ContainsFunc(name, func(r rune) bool { return passage.IsHan(r) && strings.ContainsRune(all, r) }) {
			return false
		}
	}
	return true
}

// withoutShared removes the elements that two lists share.
func withoutShared(x, y []string) (left, right []string) {
	rest := slices.Clone(y)
	for _, one := range x {
		if n := slices.Index(rest, one); n >= 0 {
			rest = slices.Delete(rest, n, n+1)
			continue
		}
		left = append(left, one)
	}
	return left, rest
}

// areOpposed reports whether any of the words is the opposite of any of the others.
func areOpposed(x, y []string) bool {
	if passage.AreOpposed(strings.Join(x, ""), strings.Join(y, "")) {
		return true
	}
	for _, one := range x {
		for _, other := range y {
			if passage.AreOpposed(one, other) {
				return true
			}
		}
	}
	return false
}
