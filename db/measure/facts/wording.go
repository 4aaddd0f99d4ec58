package facts

import (
	"slices"
	"strings"

	"wending/db/measure/claim"
	"wending/db/measure/passage"
)

// Limits on comparing sentences that are equal except in one place. The words that differ there contradict each other,
// unless they mean the same.
const (
	nearlyEqual  = 0.75 // minimum share of a sentence's words that the other one must contain
	shortReplace = 6    // maximum length of a difference, in words or Chinese characters; longer ones are ignored

	longestWording = 300 // maximum number of words in sentences that are compared word by word
)

// word is a word, a Chinese character or a fact of a sentence.
type word struct {
	passage.Span
	key        string
	isFact     bool
	isFunction bool
	isNegative bool
}

// wordings pairs the sentences that only one answer has and compares them word by word.
func (c *comparison) wordings() {
	index := c.sentencePlaces(c.b, func(n int) bool { return !c.b.isSettled[n] })
	isUsed := make([]bool, len(c.b.Sentences))
	for n, x := range c.a.Sentences {
		if c.a.isSettled[n] {
			continue
		}
		v := c.tokensOf(c.a, n)
		best, place := float32(0), -1
		for _, m := range index.Near(v, c.b.sentenceAt(proportion(x.From, c.a, c.b))) {
			if isUsed[m] {
				continue
			}
			w := c.tokensOf(c.b, m)
			if score := c.Overlap(v, w) / max(v.Total, w.Total, 0.01); score > best {
				best, place = score, m
			}
		}
		if place >= 0 && best >= 0.3 && c.wording(n, place) {
			isUsed[place] = true
		}
	}
}

// wording compares two sentences and reports whether they are nearly equal.
func (c *comparison) wording(n, m int) bool {
	c.words[0], c.words[1] = c.a.wordsOf(n, c.words[0][:0]), c.b.wordsOf(m, c.words[1][:0])
	x, y := c.words[0], c.words[1]
	if len(x) > longestWording || len(y) > longestWording {
		return false
	}
	head := 0
	for head < len(x) && head < len(y) && x[head].key == y[head].key {
		head++
	}
	tail := 0
	for tail < len(x)-head && tail < len(y)-head && x[len(x)-1-tail].key == y[len(y)-1-tail].key {
		tail++
	}
	length := max(len(x), len(y))
	left, right := content(x[head:len(x)-tail]), content(y[head:len(y)-tail])
	if isNegative(left) != isNegative(right) && 2*(head+tail) >= length && max(len(left), len(right)) <= 2 {
		c.turnedRound(n, m, left, right)
		return true
	}
	if isMoved(left, right) {
		c.turnedRound(n, m, left, right)
		return true
	}
	isName := len(left) == len(right) && len(left) >= 2 && head > 0 && tail > 0 && passage.IsHan(c.a.At(left[0].From)) &&
		3*(head+tail) >= 2*length
	if !isName && float64(head+tail) < nearlyEqual*float64(length) || head+tail < 4 {
		return head+tail >= 8
	}
	isLead := head == 0 && tail > 0 && tail < len(x) && c.a.At(x[len(x)-tail-1].To) == ':'
	wholeX, wholeY := x, y
	x, y = x[head:len(x)-tail], y[head:len(y)-tail]
	// Only whole words count: a single character such as 一 in 一般 is not a word.
	if len(x) > 0 && len(y) > 0 && areSynonyms(x, y) && !isPermutation(x, y) {
		return true
	}
	x, y = content(x), content(y)
	if len(x) > shortReplace || len(y) > shortReplace || isLead {
		return true
	}
	isNew := c.hasOpenFact(0, x) != c.hasOpenFact(1, y) && len(x) > 0 && len(y) > 0
	if !isNew && (hasFact(x) || hasFact(y)) || areSynonyms(x, y) && (len(x) < 2 || c.a.isList(x) || !isPermutation(x, y)) {
		return true
	}
	if c.isWordingOnly(wholeX, wholeY, head, tail) {
		return true
	}
	c.replaced(n, m, x, y)
	return true
}

// content returns the words that are not function words.
func content(words []word) []word {
	var kept []word
	for _, w := range words {
		if !w.isFunction {
			kept = append(kept, w)
		}
	}
	return kept
}

func hasFact(words []word) bool {
	return slices.ContainsFunc(words, func(w word) bool { return w.isFact })
}

// hasOpenFact reports whether one of the words belongs to a set of mutually exclusive words and has no counterpart in
// the other answer.
func (c *comparison) hasOpenFact(k int, words []word) bool {
	s := c.sideOf(k)
	for _, w := range words {
		if !w.isFact {
			continue
		}
		if i := s.firstFact(w.From); i < len(s.Claims) && s.Claims[i].Class >= claim.ClassSet && c.states[k][i] == open {
			return true
		}
	}
	return false
}

// isMoved reports whether a negation has moved among the same words: A is not, B is; A is, B is not.
func isMoved(x, y []word) bool {
	if slices.EqualFunc(x, y, func(a, b word) bool { return a.key == b.key }) {
		return false // only words without a meaning of their own differ
	}
	plain := func(words []word) []string {
		var keys []string
		for _, w := range words {
			if !w.isNegative {
				keys = append(keys, w.key)
			}
		}
		return keys
	}
	left, right := plain(x), plain(y)
	return len(left) > 0 && len(left) < len(x) && len(right) < len(y) && slices.Equal(left, right)
}

// isList reports whether a list separator occurs among the words, so that their order means nothing.
func (s *side) isList(words []word) bool {
	for i := words[0].From; i < words[len(words)-1].To; i++ {
		if strings.ContainsRune("、，,/;和或及与", s.Runes[i]) || s.Has(i, " and ") || s.Has(i, " or ") {
			return true
		}
	}
	return false
}

func isNegative(words []word) bool {
	negative := false
	for _, w := range words {
		if w.isNegative {
			negative = !negative
		}
	}
	return negative
}

// turnedRound records a negation that only one of two nearly equal sentences has.
func (c *comparison) turnedRound(n, m int, x, y []word) {
	if c.a.isTurned[n] {
		return
	}
	a, b := c.a.statement(c.a.Sentences[n].Span), c.b.statement(c.b.Sentences[m].Span)
	if len(x) > 0 {
		a = c.a.wordFact(n, x)
	}
	if len(y) > 0 {
		b = c.b.wordFact(m, y)
	}
	a.Kind, b.Kind = Polarity, Polarity
	c.found = append(c.found, Difference{Kind: Polarity, IsConflict: true, Label: a.About, A: &a, B: &b})
}

// replaced records a contradiction between words that replace each other.
func (c *comparison) replaced(n, m int, x, y []word) {
	if len(x) == 0 || len(y) == 0 {
		return
	}
	a, b := c.a.wordFact(n, x), c.b.wordFact(m, y)
	a.Kind, b.Kind = Entity, Entity
	c.found = append(c.found, Difference{Kind: Entity, IsConflict: true, Label: a.About, A: &a, B: &b})
}

func (s *side) wordFact(n int, words []word) Fact {
	f := claim.Claim{Span: passage.Span{From: words[0].From, To: words[len(words)-1].To}, Sentence: n,
		Clause: s.Sentences[n].Span}
	if i := s.firstFact(f.From); i < len(s.Claims) && s.Claims[i].Span == f.Span {
		return s.export(&s.Claims[i])
	}
	f.Value = strings.TrimSpace(string(s.Runes[f.From:f.To]))
	return s.export(&f)
}

// wordsOf appends the words, characters and facts of a sentence, skipping punctuation and words that belong to a fact.
func (s *side) wordsOf(n int, words []word) []word {
	x := s.Sentences[n]
	k := s.firstFact(x.From)
	for i := x.From; i < x.To && len(words) <= longestWording; {
		for k < len(s.Claims) && s.Claims[k].Sentence == n && s.Claims[k].To <= i {
			k++
		}
		if k < len(s.Claims) && s.Claims[k].Sentence == n && s.Claims[k].From <= i {
			f := &s.Claims[k]
			words = append(words, word{f.Span, "\x00" + f.Key + f.Unit, true, false, f.Polarity.IsNegative()})
			i = f.To
			continue
		}
		r := s.Runes[i]
		switch {
		case s.Taken[i]: // a taken word, for example one that makes a number a limit
			i++
		case passage.IsHan(r):
			words = append(words, word{passage.Span{From: i, To: i + 1}, s.Slice(passage.Span{From: i, To: i + 1}), false,
				passage.IsFunctionCharacter(r), false})
			i++
		case passage.IsLatin(r) || passage.IsDigit(r):
			end := s.Step(i, x.To)
			end = max(end, i+1)
			key := strings.ToLower(string(s.Runes[i:end]))
			words = append(words, word{passage.Span{From: i, To: end}, key, false, passage.IsFunctionWord(key), false})
			i = end
		default:
			i++
		}
	}
	return words
}

// isPermutation reports whether two lists have the same words, in any order.
func isPermutation(x, y []word) bool {
	if len(x) != len(y) {
		return false
	}
	count := map[string]int{}
	for i := range x {
		count[x[i].key]++
		count[y[i].key]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// areSynonyms reports whether words can replace each other without changing a fact.
func areSynonyms(x, y []word) bool {
	join := func(words []word) string {
		var b strings.Builder
		for _, w := range words {
			b.WriteString(w.key)
		}
		return b.String()
	}
	return passage.AreSynonyms(join(x), join(y))
}
