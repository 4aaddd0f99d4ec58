package facts

import (
	"sort"
	"strings"

	"wending/db/measure/claim"
	"wending/db/measure/passage"
)

// scope returns the predicate that a polarity affirms or denies: the text after it in its clause or, if there is none,
// the text before it.
func (c *comparison) scope(s *side, i int) *passage.Vector {
	if s.scopes[i] != nil {
		return s.scopes[i]
	}
	f := &s.Claims[i]
	length := claim.LongestScope
	if passage.IsLatin(s.At(f.From)) {
		length = 3 * claim.LongestScope
	}
	c.Begin()
	c.collect(s, passage.Span{From: f.To, To: min(f.Clause.To, f.To+length)}, 1, nil)
	if c.Size() < 2 {
		from := max(f.Clause.From, f.From-length)
		if from == f.From {
			from = max(s.Sentences[f.Sentence].From, f.From-length)
		}
		c.collect(s, passage.Span{From: from, To: f.From}, 1, nil)
	}
	s.scopes[i] = c.Finished()
	return s.scopes[i]
}

func (c *comparison) openPolarities(k int, s *side) []int {
	var list []int
	for i := range s.Claims {
		f := &s.Claims[i]
		if f.Class == claim.ClassPolarity && !f.IsLoose && c.states[k][i] == open && !s.isConsequence(f) &&
			!s.Sentences[f.Sentence].IsQuestion {
			list = append(list, i)
		}
	}
	return list
}

// polarities pairs statements with their counterparts and finds the reversed ones.
func (c *comparison) polarities() {
	as, bs := c.openPolarities(0, c.a), c.openPolarities(1, c.b)
	if len(as) == 0 && len(bs) == 0 {
		return
	}
	known := c.NewIndex(len(c.b.Claims))
	for _, j := range bs {
		for _, e := range c.surroundings(c.b, j).Entries {
			known.Add(e.Token, j)
		}
	}
	var pairs []pair
	var near []int
	for _, i := range as {
		near = known.Near(c.surroundings(c.a, i), c.b.firstFact(proportion(c.a.Claims[i].From, c.a, c.b)))
		from := len(pairs)
		for _, j := range near {
			pairs = append(pairs, pair{i, j, c.similarity(i, j)})
		}
		kept := pairs[:from]
		for _, p := range pairs[from:] {
			p.score = 0.55*c.Shared(c.scope(c.a, i), c.scope(c.b, p.j)) + 0.45*p.score
			x, y := c.a.Claims[i].Polarity, c.b.Claims[p.j].Polarity
			if x == y {
				p.score += 0.1
			} else if x.IsNegative() == y.IsNegative() {
				p.score += 0.05
			}
			if p.score >= sameSubject || c.isShort() {
				kept = append(kept, p)
			}
		}
		pairs = kept
	}
	sortPairs(pairs)
	weak := sort.Search(len(pairs), func(n int) bool { return pairs[n].score < likelySubject })
	isOnly := c.isShort() && len(as) == 1 && len(bs) == 1
	c.pairUp(pairs[:weak], isOnly)
	c.plain(0, c.a, c.b) // statements without an affirming word come before statements that are less alike
	c.plain(1, c.b, c.a)
	c.pairUp(pairs[weak:], isOnly)
	c.reversed(0, c.a, c.b)
	c.reversed(1, c.b, c.a)
}

// pairUp goes through pairs of statements, the most similar first, and records that they match or contradict each
// other. isOnly reports that each of two short answers has only one statement.
func (c *comparison) pairUp(pairs []pair, isOnly bool) {
	for _, p := range pairs {
		if c.states[0][p.i] != open || c.states[1][p.j] != open {
			continue
		}
		x, y := c.a.Claims[p.i].Polarity, c.b.Claims[p.j].Polarity
		switch {
		case x.IsNegative() != y.IsNegative() && isOnly && !c.complete(p),
			x.IsNegative() != y.IsNegative() && p.score >= leastFor(x, y) && c.a.hasAmount(p.i) == c.b.hasAmount(p.j) &&
				c.areOfOneSubject(p),
			areOpposite(x, y) && p.score >= sameAllowed && c.a.hasAmount(p.i) == c.b.hasAmount(p.j) && c.areOfOneSubject(p),
			x == claim.Must && y == claim.May && p.score >= 0.85, x == claim.May && y == claim.Must && p.score >= 0.85,
			x == claim.Banned && y == claim.Exempt && p.score >= 0.85, x == claim.Exempt && y == claim.Banned && p.score >= 0.85:
			c.conflict(p.i, p.j, Polarity)
		case x.IsNegative() == y.IsNegative() && p.score >= sameSubject:
			c.match(p.i, p.j)
		}
	}
}

// leastFor returns the score above which two polarities count as opposite. It is higher for a duty and a ban: "must
// be at least two apart" and "cannot be closer than two" agree.
func leastFor(x, y claim.Polarity) float32 {
	if x == claim.Must && y == claim.Banned || x == claim.Banned && y == claim.Must {
		return sameDuty
	}
	return samePredicate
}

// areOpposite reports whether one of two polarities allows what the other bans, or requires what the other waives;
// one answer rarely does both about the same thing.
func areOpposite(x, y claim.Polarity) bool {
	return x == claim.May && y == claim.Banned || x == claim.Banned && y == claim.May || x == claim.Must &&
		y == claim.Exempt || x == claim.Exempt && y == claim.Must
}

// isElliptic reports whether a negation leaves out what it negates: the fee is not.
func (d *answer) isElliptic(f *claim.Claim) bool {
	at := d.Blanks(f.To)
	return passage.IsLatin(d.Runes[f.From]) && (at >= f.Clause.To || strings.ContainsRune(".;!", d.Runes[at]))
}

// isConsequence reports whether the clause of f states the consequence of not doing something: 否则改不了 (otherwise it
// cannot be changed).
func (d *answer) isConsequence(f *claim.Claim) bool {
	at := d.Blanks(f.Clause.From)
	for _, word := range []string{"否则", "不然", "要不然", "otherwise", "or else"} {
		if d.Has(at, word) {
			return true
		}
	}
	return false
}

// clearly is the score above which two predicates count as the same, regardless of the words around them.
const clearly = 0.9

// areOfOneSubject reports whether two opposite polarities can belong to one statement: neither states a condition
// or an exception, and each mentions the subject of the other.
func (c *comparison) areOfOneSubject(p pair) bool {
	x, y := &c.a.Claims[p.i], &c.b.Claims[p.j]
	if c.a.isCondition(x) != c.b.isCondition(y) || c.complete(p) {
		return false
	}
	if p.score >= clearly {
		return true
	}
	if c.hasUnknownPredicate(c.a, p.i) || c.hasUnknownPredicate(c.b, p.j) {
		return false
	}
	if c.a.hasException(c.a.Sentences[x.Sentence].Span) != c.b.hasException(c.b.Sentences[y.Sentence].Span) {
		return false
	}
	return c.names(c.b, p.j, c.a, p.i) && c.names(c.a, p.i, c.b, p.j)
}

// leastNamed is the share of a subject that another statement must mention to have the same subject.
const leastNamed = 0.7

// names reports whether the context of a fact mentions the subject of another fact, considering only words that both
// answers use.
func (c *comparison) names(s *side, i int, other *side, j int) bool {
	subject := c.subject(other, j)
	return subject.Total == 0 || c.Overlap(subject, c.surroundings(s, i)) >= leastNamed*subject.Total
}

// hasUnknownPredicate reports whether the other answer uses none of the words that a polarity affirms or denies.
func (c *comparison) hasUnknownPredicate(s *side, i int) bool {
	f := &s.Claims[i]
	to := min(f.Clause.To, f.To+claim.LongestScope)
	if passage.IsLatin(s.At(f.From)) {
		to = min(f.Clause.To, f.To+3*claim.LongestScope)
	}
	hasWords := false
	for at := f.To; at < to; at++ {
		for _, token := range [2]int32{s.tokens.pairs[at], s.tokens.singles[at]} {
			if token != 0 && c.isShared[token] {
				return false
			}
			hasWords = hasWords || token != 0
		}
	}
	return hasWords
}

// complete reports whether the sentences of two polarities bound the same number from both sides.
func (c *comparison) complete(p pair) bool {
	return areComplementary(c.a, c.a.Claims[p.i].Sentence, c.b, c.b.Claims[p.j].Sentence)
}

// areComplementary reports whether two sentences bound the same number from both sides.
func areComplementary(a *side, inA int, b *side, inB int) bool {
	n, m := a.factsOf(inA), b.factsOf(inB)
	for i := n.From; i < min(n.To, n.From+claim.LongestScope); i++ {
		for j := m.From; j < min(m.To, m.From+claim.LongestScope); j++ {
			x, y := &a.Claims[i], &b.Claims[j]
			if x.Class < claim.ClassDate && x.Class == y.Class && x.Key == y.Key &&
				(x.Bound.Completes(y.Bound) || x.Bound.Contradicts(y.Bound)) {
				return true
			}
		}
	}
	return false
}

// subject returns the words before a fact in its clause that both answers use.
func (c *comparison) subject(s *side, i int) *passage.Vector {
	f := &s.Claims[i]
	c.Begin()
	for at := max(f.Clause.From, f.From-claim.LongestContext); at < f.From; at++ {
		if token := s.tokens.pairs[at]; token != 0 && c.isShared[token] {
			c.Add(token, 1)
		}
	}
	return c.Finished()
}

// exceptionWords mark an exception, or a statement that applies to nothing else.
var exceptionWords = []string{"only", "才", "仅", "只", "除外", "例外", "除非", "except", "unless", "other than"}

// hasException reports whether a span contains an exception.
func (d *answer) hasException(x passage.Span) bool {
	for i := x.From; i < min(x.To, x.From+2*claim.LongestContext); i++ {
		for _, word := range exceptionWords {
			if d.Has(i, word) {
				return true
			}
		}
	}
	return false
}

// isCondition reports whether a negation is part of a condition: 没有户口簿的可以… (those who have no household register
// may …), 未登记的，… (those who are not registered …).
func (d *answer) isCondition(f *claim.Claim) bool {
	start := d.Blanks(f.Clause.From)
	for _, word := range []string{"如果", "若", "要是", "假如", "if ", "when ", "unless ", "until "} {
		if d.Has(start, word) {
			return true
		}
	}
	if d.Has(f.Clause.To-2, "的话") {
		return true
	}
	if f.Polarity != claim.Denied {
		return false
	}
	for at := f.To; at < min(f.Clause.To, f.To+2*claim.LongestScope) &&
		(passage.IsHan(d.Runes[at]) || d.Runes[at] == '、'); at++ {
		if d.Runes[at] == '的' {
			return true
		}
	}
	return false
}

// proportion returns the approximate position in the other answer that corresponds to a character of this one.
func proportion(at int, s, other *side) int {
	return at * len(other.Runes) / max(1, len(s.Runes))
}

// plain looks in the other answer for sentences that state what a negation without a counterpart denies: 会被调低 (will be
// lowered) against 不会被调低 (will not be lowered). It records them as contradictions.
func (c *comparison) plain(k int, s, other *side) {
	var index *passage.Index
	least := float32(mostlyStated)
	if c.isAlike() {
		least = surely
	}
	for _, i := range c.openPolarities(k, s) {
		f := &s.Claims[i]
		if !f.Polarity.IsNegative() || s.Sentences[f.Sentence].IsName || s.isCondition(f) {
			continue
		}
		scope := c.scope(s, i)
		if scope.Total < 2 || len(scope.Entries) < 2 {
			continue
		}
		if index == nil {
			index = c.sentencePlaces(other, func(n int) bool {
				return !other.Sentences[n].IsName && !other.Sentences[n].IsQuestion && !other.isSettled[n]
			})
		}
		best, place := float32(0), -1
		for _, n := range index.Near(scope, other.sentenceAt(proportion(f.From, s, other))) {
			v := c.tokensOf(other, n)
			predicate := c.Overlap(scope, v) / scope.Total
			if predicate < 0.6 {
				continue
			}
			around := c.surroundings(s, i)
			context := c.Overlap(around, v) / max(around.Total, 0.01)
			if score := 0.5*predicate + 0.5*context; score > best {
				best, place = score, n
			}
		}
		if place < 0 || best < least || f.Polarity == claim.Exempt && best < 0.8 || s.isElliptic(f) ||
			areComplementary(s, f.Sentence, other, place) || !c.isStated(s, i, other, place) ||
			c.isDenied(1-k, other, place, scope, best) {
			continue
		}
		c.states[k][i] = conflicting
		s.isTurned[f.Sentence], other.isTurned[place] = true, true
		x := s.export(f)
		y := other.statement(other.Sentences[place].Span)
		d := Difference{Kind: Polarity, IsConflict: true, Label: x.About, A: &x, B: &y}
		if k == 1 {
			d.A, d.B = &y, &x
		}
		c.found = append(c.found, d)
	}
}

// isStated reports whether one clause of a sentence in the other answer affirms, about the same thing, what a
// negation negates.
func (c *comparison) isStated(s *side, i int, other *side, n int) bool {
	x := other.Sentences[n]
	scope := c.scope(s, i)
	if other.hasException(x.Span) != s.hasException(s.Sentences[s.Claims[i].Sentence].Span) {
		return false
	}
	clause := c.clauseOf(other, x.Span, scope)
	c.Begin()
	for _, part := range [4]passage.Span{clause, x.Row, x.Column, x.Label} {
		c.collect(other, part, 1, nil)
	}
	if c.Overlap(scope, c.Finished()) < leastStated*scope.Total {
		return false
	}
	subject := c.subject(s, i)
	return subject.Total == 0 || c.Overlap(subject, c.tokensOf(other, n)) >= leastNamed*subject.Total
}

// leastStated is the share of a predicate that a clause must contain to state the same predicate.
const leastStated = 0.9

// sentencePlaces indexes the wanted sentences of an answer by their tokens.
func (c *comparison) sentencePlaces(s *side, isWanted func(n int) bool) *passage.Index {
	index := c.NewIndex(len(s.Sentences))
	for n, x := range s.Sentences {
		if !isWanted(n) {
			continue
		}
		for i := x.From; i < x.To; i++ {
			if token := s.tokens.pairs[i]; token != 0 {
				index.Add(token, n)
			}
		}
	}
	return index
}

// sentenceAt returns the index of the sentence at or after a position.
func (d *answer) sentenceAt(at int) int {
	return sort.Search(len(d.Sentences), func(n int) bool { return d.Sentences[n].To > at })
}

// hasAmount reports whether the clause of a fact states money or a percentage.
func (s *side) hasAmount(i int) bool {
	f := &s.Claims[i]
	to := min(f.Clause.To, f.To+claim.LongestContext)
	for k := s.firstFact(max(f.Clause.From, f.From-claim.LongestContext)); k < len(s.Claims) &&
		s.Claims[k].From < to; k++ {
		if s.Claims[k].Class == claim.ClassMoney || s.Claims[k].Class == claim.ClassPercent {
			return true
		}
	}
	return false
}

// areOfOneThing reports whether two mutually exclusive words can belong to one statement: either both or neither are
// negated, unlike 本人 (in person) and 别人不能 (nobody else can), and each is about the other's subject.
func (c *comparison) areOfOneThing(p pair) bool {
	return c.a.isDenied(p.i) == c.b.isDenied(p.j) && c.names(c.b, p.j, c.a, p.i) && c.names(c.a, p.i, c.b, p.j)
}

// isDenied reports whether the clause of a fact denies it: whether the number of negations in it is odd.
func (s *side) isDenied(i int) bool {
	f := &s.Claims[i]
	to := min(f.Clause.To, f.To+claim.LongestContext)
	isDenied := false
	for k := s.firstFact(max(f.Clause.From, f.From-claim.LongestContext)); k < len(s.Claims) &&
		s.Claims[k].From < to; k++ {
		isDenied = isDenied != s.Claims[k].Polarity.IsNegative()
	}
	return isDenied
}

// endings state, without a negation, that something no longer applies.
var endings = []string{
	"消灭", "失效", "终止", "取消", "过期", "清零", "免收", "免费", "免", "除外", "逾期",
	"ended", "gone", "removed", "expire", "except", "exempt", "unless", "only", "rather than",
	"nothing", "nobody", "without", "waive", "free", "closed", "refuse", "exclude", "avoid", "摘", "避免", "decline",
	"block", "banned", "instead of", "stay out", "skip", "irreversible", "ineligible", "失去", "不管", "off limits",
	"lack", "omit",
	"中止", "作废", "无", "停", "谢绝", "拒", "逾",
}

// denial caches whether a sentence contains a negation.
type denial uint8

const (
	unread denial = iota
	affirms
	denies
)

// mostlyStated is the score above which a sentence of a paraphrase states what the other answer denies.
const mostlyStated = 0.8

// surely is the score above which a statement is recognised although another clause of its sentence contains a
// negation.
const surely = 0.7

// isDenied reports whether sentence n negates a scope: in its row, column, label or heading, in the clause that states
// the scope, or by a negation without a counterpart in any other clause. If the score is below surely, every negation
// in the sentence counts.
func (c *comparison) isDenied(k int, s *side, n int, scope *passage.Vector, score float32) bool {
	x := s.Sentences[n]
	for _, part := range [4]passage.Span{x.Row, x.Column, x.Label, x.Heading} {
		part.To = min(part.To, part.From+claim.LongestContext)
		if s.hasDenial(part) {
			return true
		}
	}
	if s.denials[n] == unread {
		s.denials[n] = affirms
		if s.hasDenial(x.Span) {
			s.denials[n] = denies
		}
	}
	if s.denials[n] == affirms {
		return false
	}
	if score < surely || x.To-x.From > claim.LongestContext || s.hasEnding(x.Span) {
		return true
	}
	clause := c.clauseOf(s, x.Span, scope)
	if s.hasDenial(clause) || s.isContinued(clause) {
		return true
	}
	facts := s.factsOf(n)
	for i := facts.From; i < facts.To; i++ {
		if s.Claims[i].Polarity.IsNegative() && c.states[k][i] != matched {
			return true
		}
	}
	return false
}

// clauseOf returns the clause of the sentence x that contains more of a scope than any other.
func (c *comparison) clauseOf(s *side, x passage.Span, scope *passage.Vector) passage.Span {
	best, place := float32(-1), x
	from := x.From
	for i := x.From; i <= x.To; i++ {
		if i < x.To && !s.IsClauseEnd(i) {
			continue
		}
		clause := passage.Span{From: from, To: i}
		from = i + 1
		c.Begin()
		c.collect(s, clause, 1, nil)
		if score := c.Overlap(scope, c.Finished()); score > best {
			best, place = score, clause
		}
	}
	return place
}

// isContinued reports whether a clause begins with a word that joins it to the previous one.
func (s *side) isContinued(clause passage.Span) bool {
	at := s.Blanks(clause.From)
	for _, word := range []string{"或", "和", "及", "以及", "也", "并", "包括", "包含", "or ", "nor ", "and "} {
		if s.Has(at, word) {
			return true
		}
	}
	return false
}

// hasDenial reports whether a span contains a negation, a bare yes or no, or a word for an end or an exception.
func (s *side) hasDenial(x passage.Span) bool {
	for k := s.firstFact(x.From); k < len(s.Claims) && s.Claims[k].From < x.To; k++ {
		if s.Claims[k].Polarity.IsNegative() || s.Claims[k].Class == claim.ClassVerdict {
			return true
		}
	}
	return s.hasEnding(x)
}

// hasEnding reports whether a span contains a word for an end or an exception that is not negated.
func (s *side) hasEnding(x passage.Span) bool {
	for i := x.From; i < x.To; i++ {
		if passage.IsLatin(s.Runes[i]) && passage.IsLatin(s.At(i-1)) {
			continue
		}
		if s.Has(i, "un") && passage.IsLatin(s.At(i+6)) && !s.Has(i, "until") && !s.Has(i, "under") { // uncovered
			return true
		}
		for _, ending := range endings {
			if s.Has(i, ending) {
				return true
			}
		}
	}
	return false
}

// statement returns a sentence or clause that affirms what the other answer negates, as a fact.
func (s *side) statement(x passage.Span) Fact {
	for x.From < x.To-1 && s.Runes[x.From] == ' ' {
		x.From++
	}
	x.To = min(x.To, x.From+longestText)
	text := s.Slice(x)
	return Fact{
		Kind: Polarity, Value: claim.Affirmed.String(), Text: text, About: clip(text),
		Start: int(s.Start[x.From]), End: int(s.End[x.To-1]),
	}
}
