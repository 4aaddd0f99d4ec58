package facts

import (
	"sort"
	"strings"
)

// longestScope is how many characters behind a negation say what it denies.
const longestScope = 14

// scope is the predicate that a polarity affirms or denies: what follows it in its clause, or what precedes it where
// nothing does.
func (c *comparison) scope(s *side, i int) []weighted {
	if s.scopes[i] != nil {
		return s.scopes[i]
	}
	f := &s.facts[i]
	length := longestScope
	if isLatin(s.at(f.from)) {
		length = 3 * longestScope
	}
	v := c.collect(s, make([]weighted, 0, 16), span{f.to, min(f.clause.to, f.to+length)}, 1, nil)
	if len(v) < 2 {
		from := max(f.clause.from, f.from-length)
		if from == f.from {
			from = max(s.sentences[f.sentence].from, f.from-length)
		}
		v = c.collect(s, v, span{from, f.from}, 1, nil)
	}
	s.scopes[i] = tidy(v)
	return s.scopes[i]
}

func total(v []weighted) float32 {
	var sum float32
	for _, w := range v {
		sum += w.weight
	}
	return sum
}

// shared is which part of the lighter of two vectors the other one has.
func shared(x, y []weighted) float32 {
	least := min(total(x), total(y))
	if least <= 0 {
		return 0
	}
	return overlap(x, y) / least
}

func (c *comparison) openPolarities(k int, s *side) []int {
	var list []int
	for i := range s.facts {
		if s.facts[i].class == classPolarity && c.states[k][i] == open {
			list = append(list, i)
		}
	}
	return list
}

// polarities pairs statements with their counterparts and finds those that were turned round.
func (c *comparison) polarities() {
	as, bs := c.openPolarities(0, c.a), c.openPolarities(1, c.b)
	index := c.index(c.b, bs)
	var pairs []pair
	for _, i := range as {
		for _, j := range c.near(c.a, i, index) {
			predicate := shared(c.scope(c.a, i), c.scope(c.b, j))
			score := 0.55*predicate + 0.45*c.similarity(i, j)
			x, y := c.a.facts[i].polarity, c.b.facts[j].polarity
			if x == y {
				score += 0.1
			} else if x.isNegative() == y.isNegative() {
				score += 0.05
			}
			pairs = append(pairs, pair{i, j, score})
		}
	}
	sortPairs(pairs)
	for _, p := range pairs {
		if c.states[0][p.i] != open || c.states[1][p.j] != open {
			continue
		}
		x, y := c.a.facts[p.i].polarity, c.b.facts[p.j].polarity
		isOnly := c.isShort() && len(as) == 1 && len(bs) == 1
		switch {
		case x.isNegative() != y.isNegative() && isOnly,
			x.isNegative() != y.isNegative() && p.score >= samePredicate && c.a.hasAmount(p.i) == c.b.hasAmount(p.j),
			x == must && y == may && p.score >= 0.85, x == may && y == must && p.score >= 0.85,
			x == banned && y == exempt && p.score >= 0.7, x == exempt && y == banned && p.score >= 0.7:
			c.states[0][p.i], c.states[1][p.j] = conflicting, conflicting
			c.conflict(p.i, p.j, Polarity)
		case x.isNegative() == y.isNegative() && p.score >= 0.25:
			c.states[0][p.i], c.states[1][p.j] = matched, matched
		}
	}
	c.plain(0, c.a, c.b)
	c.plain(1, c.b, c.a)
}

// index lists facts by the tokens of their scopes and surroundings.
func (c *comparison) index(s *side, list []int) map[uint32][]int {
	index := map[uint32][]int{}
	for _, j := range list {
		v := c.vector(s, j)
		for _, w := range v {
			if len(index[w.token]) < mostCandidates {
				index[w.token] = append(index[w.token], j)
			}
		}
	}
	return index
}

// near returns the facts of an index that share a token with the surroundings of fact i.
func (c *comparison) near(s *side, i int, index map[uint32][]int) []int {
	seen := map[int]bool{}
	var list []int
	for _, w := range c.vector(s, i) {
		for _, j := range index[w.token] {
			if !seen[j] {
				seen[j] = true
				list = append(list, j)
			}
		}
		if len(list) > 4*mostCandidates {
			break
		}
	}
	return list
}

// plain looks for the statements that a negation without counterpart denies: 会被调低 against 不会被调低.
func (c *comparison) plain(k int, s, other *side) {
	index := map[uint32][]int{}
	isBuilt := false
	for _, i := range c.openPolarities(k, s) {
		f := &s.facts[i]
		if x := s.sentences[f.sentence]; !f.polarity.isNegative() || x.row.isEmpty() && !x.column.isEmpty() {
			continue
		}
		if !isBuilt {
			index, isBuilt = c.sentenceIndex(other), true
		}
		scope := c.scope(s, i)
		if total(scope) < 2 {
			continue
		}
		best, place := float32(0), -1
		for _, n := range sentencesNear(scope, index) {
			v := c.sentenceTokens(other, n)
			predicate := overlap(scope, v) / total(scope)
			if predicate < 0.6 {
				continue
			}
			context := overlap(c.vector(s, i), v) / max(s.norms[i], 0.01)
			if score := 0.5*predicate + 0.5*context; score > best {
				best, place = score, n
			}
		}
		if place < 0 || best < 0.55 || other.isDenied(place) {
			continue
		}
		c.states[k][i] = conflicting
		x := s.export(f)
		y := other.statement(place)
		d := Difference{Kind: Polarity, IsConflict: true, Label: x.About, A: &x, B: &y}
		if k == 1 {
			d.A, d.B = &y, &x
		}
		c.found = append(c.found, d)
	}
}

func (c *comparison) sentenceIndex(s *side) map[uint32][]int {
	index := map[uint32][]int{}
	for n, x := range s.sentences {
		for i := x.from; i < x.to; i++ {
			token := s.bigram[i]
			if token == 0 {
				continue
			}
			list := index[token]
			if len(list) < mostCandidates && (len(list) == 0 || list[len(list)-1] != n) {
				index[token] = append(list, n)
			}
		}
	}
	return index
}

func sentencesNear(scope []weighted, index map[uint32][]int) []int {
	seen := map[int]bool{}
	var list []int
	for _, w := range scope {
		for _, n := range index[w.token] {
			if !seen[n] {
				seen[n] = true
				list = append(list, n)
			}
		}
	}
	return list
}

// sentenceTokens is the vector of a sentence with what it is about.
func (c *comparison) sentenceTokens(s *side, n int) []weighted {
	x := s.sentences[n]
	v := c.collect(s, make([]weighted, 0, 64), x.span, 1, nil)
	v = c.collect(s, v, x.row, 1, nil)
	v = c.collect(s, v, x.column, 0.8, nil)
	return tidy(v)
}

// hasAmount reports whether the clause of a fact states money or a percentage.
func (s *side) hasAmount(i int) bool {
	clause := s.facts[i].clause
	for k := s.firstFact(clause.from); k < len(s.facts) && s.facts[k].from < clause.to; k++ {
		if s.facts[k].class == classMoney || s.facts[k].class == classPercent {
			return true
		}
	}
	return false
}

// firstFact returns the first fact at or after a character.
func (s *side) firstFact(from int) int {
	return sort.Search(len(s.facts), func(k int) bool { return s.facts[k].from >= from })
}

// endings say that something is no more, without a negation.
var endings = [][]rune{
	[]rune("消灭"), []rune("失效"), []rune("终止"), []rune("取消"), []rune("过期"), []rune("清零"), []rune("免收"), []rune("免费"), []rune("免"), []rune("除外"), []rune("逾期"),
	[]rune("ended"), []rune("gone"), []rune("removed"), []rune("expire"), []rune("except"), []rune("exempt"), []rune("unless"), []rune("only"), []rune("rather than"),
}

// isDenied reports whether a sentence, or what it is about, denies anything.
func (s *side) isDenied(n int) bool {
	x := s.sentences[n]
	for _, part := range [5]span{x.span, x.row, x.column, x.label, x.heading} {
		for k := s.firstFact(part.from); k < len(s.facts) && s.facts[k].from < part.to; k++ {
			if s.facts[k].polarity.isNegative() || s.facts[k].class == classVerdict {
				return true
			}
		}
	}
	for i := x.from; i < x.to; i++ {
		for _, ending := range endings {
			if s.hasRunes(i, ending) {
				return true
			}
		}
	}
	return false
}

// statement is a sentence that affirms what the other answer denies.
func (s *side) statement(n int) Fact {
	x := s.sentences[n]
	return Fact{
		Kind: Polarity, Value: affirmed.String(), Text: strings.TrimSpace(s.slice(x.span)), About: clip(s.slice(x.span)),
		Start: int(s.start[x.from]), End: int(s.end[x.to-1]),
	}
}
