package facts

import (
	"math"
	"sort"

	"wending/db/measure/claim"
	"wending/db/measure/passage"
)

// The minimum similarities of a clause that denies something and one that affirms it in other words. They were chosen
// on two thirds of the labelled pairs.
const (
	sameClause    = 0.5 // the words of both clauses
	samePart      = 0.5 // the share of what is denied that the other clause contains
	sameAllowance = 0.8 // the same, where the other clause only allows it
	closest       = 0.1 // how much more alike they must be than each is to any other clause
)

// clause is a part of a sentence that states one thing.
type clause struct {
	passage.Span
	sentence  int
	negations int
	vector    *passage.Vector
}

// reversal is a clause that denies what a clause of the other answer affirms.
type reversal struct {
	negation, denying, affirming int // the indexes of the claim and of the two clauses
	score                        float32
}

// reversed looks for negations without a counterpart whose clauses the other answer affirms. Of all clauses, each of
// the two must be the most similar to the other.
func (c *comparison) reversed(k int, s, other *side) {
	var found []reversal
	var denying, affirming []clause
	for _, i := range c.openPolarities(k, s) {
		f := &s.Claims[i]
		x := s.Sentences[f.Sentence]
		if f.Polarity != claim.Denied && f.Polarity != claim.Banned || x.IsName || s.isCondition(f) || s.isElliptic(f) ||
			c.hasUnknownPredicate(s, i) {
			continue
		}
		if denying == nil {
			denying, affirming = c.clauses(s), c.clauses(other)
		}
		n := clauseAt(denying, f.From)
		if n == len(denying) || denying[n].From > f.From || denying[n].negations != 1 {
			continue
		}
		found = append(found, reversal{negation: i, denying: n})
	}
	found = c.mostAlike(found, s, other, denying, affirming)
	for _, r := range found {
		f := &s.Claims[r.negation]
		place := affirming[r.affirming]
		c.states[k][r.negation] = conflicting
		s.isTurned[f.Sentence], other.isTurned[place.sentence] = true, true
		x, y := s.export(f), other.statement(place.Span)
		d := Difference{Kind: Polarity, IsConflict: true, Label: x.About, A: &x, B: &y}
		if k == 1 {
			d.A, d.B = &y, &x
		}
		c.found = append(c.found, d)
	}
}

// mostAlike finds the affirming clause that is most similar to each denying one. It keeps a pair only if no other
// denying clause is about as similar to the affirming one.
func (c *comparison) mostAlike(all []reversal, s, other *side, denying, affirming []clause) []reversal {
	if len(all) == 0 {
		return nil
	}
	index := c.clausePlaces(other, affirming)
	var found []reversal
	for _, r := range all {
		x := &denying[r.denying]
		at := clauseAt(affirming, proportion(x.From, s, other))
		r.score, r.affirming = c.best(index, s, x, other, affirming, at, -1)
		if r.affirming >= 0 && r.score >= sameClause && c.affirms(s, r.negation, other, affirming[r.affirming]) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return nil
	}
	index = c.clausePlaces(s, denying)
	kept := found[:0]
	for _, r := range found {
		y := &affirming[r.affirming]
		if rival, _ := c.best(index, other, y, s, denying, r.denying, r.denying); rival+closest < r.score {
			kept = append(kept, r)
		}
	}
	return kept
}

// best finds the clause in a list that is most like the clause x, apart from the excluded one, and returns its
// similarity and its index. The index is -1 if a second clause is nearly as similar.
func (c *comparison) best(index *passage.Index, s *side, x *clause, other *side, list []clause, at, excluded int) (
	float32, int,
) {
	v := c.clauseTokens(s, x)
	first, second, place := float32(0), float32(0), -1
	for _, m := range index.Near(v, at) {
		if m == excluded {
			continue
		}
		w := c.clauseTokens(other, &list[m])
		score := c.Overlap(v, w) / float32(math.Sqrt(float64(v.Total*w.Total)))
		switch {
		case score > first:
			first, second, place = score, first, m
		case score > second:
			second = score
		}
	}
	if first < second+closest {
		return first, -1
	}
	return first, place
}

// affirms reports whether a clause affirms what a negation of the other answer denies. It must contain an affirming
// word: a clause without one, such as an item of a list, may itself belong to a negation above it.
func (c *comparison) affirms(s *side, i int, other *side, y clause) bool {
	x := s.Sentences[s.Claims[i].Sentence]
	sentence := other.Sentences[y.sentence]
	if sentence.IsName || sentence.IsQuestion || y.negations != 0 || other.hasEnding(y.Span) ||
		s.hasException(x.Span) != other.hasException(sentence.Span) ||
		areComplementary(s, s.Claims[i].Sentence, other, y.sentence) {
		return false
	}
	scope := c.scope(s, i)
	part := c.Overlap(scope, c.clauseTokens(other, &y)) / max(scope.Total, 0.01)
	for j := other.firstFact(y.From); j < len(other.Claims) && other.Claims[j].From < y.To; j++ {
		switch other.Claims[j].Polarity {
		case claim.May:
			return part >= sameAllowance && !c.hasUnknownPredicate(other, j) && c.names(other, j, s, i) &&
				c.names(s, i, other, j)
		case claim.Must:
			return false
		}
	}
	return part >= samePart && other.hasOne(y.Span, affirmations) && !other.hasOne(y.Span, denials)
}

// affirmations are words with which a clause affirms something.
var affirmations = []string{
	"会", "也", "照", "仍", "均", "是", "接受", "支持", "予以", "计入", "同样", "享有", "享受",
	"is ", "are ", "will ", "was ", "does ", "do ", "also ", "we ",
}

// denials are words and parts of words with which a clause may deny something, even if they are not read as negations.
var denials = []string{
	"不", "没", "无", "别", "勿", "禁", "拒", "非", "not ", "no ", "nor ", "never ", "none ", "neither ", "cannot", "forbid",
	"prohibit",
}

// hasOne reports whether a span has one of the words.
func (d *answer) hasOne(x passage.Span, words []string) bool {
	for i := x.From; i < min(x.To, x.From+claim.LongestContext); i++ {
		if passage.IsLatin(d.Runes[i]) && passage.IsLatin(d.At(i-1)) {
			continue
		}
		for _, word := range words {
			if d.Has(i, word) {
				return true
			}
		}
	}
	return false
}

// countNegations counts the negations in each clause of a list. It makes a single pass, because a long text may
// consist only of negations.
func (d *answer) countNegations(list []clause) {
	n := 0
	for k := range d.Claims {
		f := &d.Claims[k]
		for n < len(list) && list[n].To <= f.From {
			n++
		}
		if n == len(list) {
			return
		}
		if list[n].From <= f.From && (f.Polarity.IsNegative() || f.Class == claim.ClassVerdict && f.Key == "no") {
			list[n].negations++
		}
	}
}

// clauses cuts the sentences that the other answer does not have into clauses.
func (c *comparison) clauses(s *side) []clause {
	var list []clause
	for n, x := range s.Sentences {
		if x.IsName || x.IsQuestion || s.isSettled[n] {
			continue
		}
		from := x.From
		for i := x.From; i <= x.To; i++ {
			if i < x.To && !s.IsClauseEnd(i) {
				continue
			}
			if from < i {
				list = append(list, clause{Span: passage.Span{From: from, To: i}, sentence: n})
			}
			from = i + 1
		}
	}
	s.countNegations(list)
	return list
}

// clauseAt returns the index of the clause at or after a position.
func clauseAt(list []clause, at int) int {
	return sort.Search(len(list), func(n int) bool { return list[n].To > at })
}

// clausePlaces indexes clauses by their tokens.
func (c *comparison) clausePlaces(s *side, list []clause) *passage.Index {
	index := c.NewIndex(len(list))
	for n, x := range list {
		for i := x.From; i < x.To; i++ {
			if token := s.tokens.pairs[i]; token != 0 {
				index.Add(token, n)
			}
		}
	}
	return index
}

// clauseTokens returns the vector of a clause, including the row, column and label that it belongs to.
func (c *comparison) clauseTokens(s *side, x *clause) *passage.Vector {
	if x.vector == nil {
		of := s.Sentences[x.sentence]
		c.Begin()
		c.collect(s, x.Span, 1, nil)
		c.collect(s, of.Row, 1, nil)
		c.collect(s, of.Column, 0.8, nil)
		c.collect(s, of.Label, 0.8, nil)
		x.vector = c.Finished()
	}
	return x.vector
}
