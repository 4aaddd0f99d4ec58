package facts

import (
	"math"
	"slices"
	"sort"
	"strings"
)

// The least similarities of the surroundings of two facts. They were chosen on two thirds of the labelled pairs.
const (
	sameStatement  = 0.34 // two values of one statement
	sameRepeated   = 0.45 // one of the two values is also elsewhere in the other answer
	sameStray      = 0.60 // both answers have one of the two values
	sameSet        = 0.55 // words that exclude each other
	sameLimit      = 0.32 // one value, limited in two directions
	samePredicate  = 0.50 // a statement and its negation
	mostCandidates = 48   // facts with which one fact is compared
)

// weighted is a token of a fact's surroundings.
type weighted struct {
	token  uint32
	weight float32
}

// side is one of two answers that are compared.
type side struct {
	*document
	bigram, single []uint32
	isSettled      []bool // sentences that the other answer has, too
	vectors        [][]weighted
	norms          []float32
	scopes         [][]weighted
}

// comparison is what is known of two answers.
type comparison struct {
	a, b   *side
	idf    map[uint32]float32
	found  []Difference
	states [2][]state
}

// state is what has become of a fact.
type state uint8

const (
	open state = iota
	matched
	conflicting
	repeated // the other answer has the value, but fewer times
)

func hash(a, b rune) uint32 {
	h := uint32(2166136261)
	for _, r := range [2]rune{a, b} {
		h = (h ^ uint32(r)) * 16777619 //nolint:gosec // any bits do
		h ^= h >> 15
	}
	return h | 1
}

func compare(a, b *document) []Difference {
	c := &comparison{a: &side{document: a}, b: &side{document: b}}
	c.states = [2][]state{make([]state, len(a.facts)), make([]state, len(b.facts))}
	c.a.tokenize()
	c.b.tokenize()
	c.settle()
	c.weigh()
	c.equals()
	c.conflicts()
	c.stray()
	c.polarities()
	c.wordings()
	c.omissions()
	sort.SliceStable(c.found, func(i, j int) bool { return c.found[i].IsConflict && !c.found[j].IsConflict })
	return c.found
}

const functionCharacters = "的了是在和与及或也都就还而且并等之其以于为由从到对把被将会可能要应须需得不没无未一个这那您你我他们请按照该此所有者给让向如果若则即但因"

var functionWords = set(`the a an of to in on at for and or is are was were be been being it its you your we our they their this that these those
	with by as from will would if then than so such do does did have has had there which who what when how i my also more can may must not no
	any all per about into under out up only until`)

// tokenize finds the words and pairs of characters that are not part of a fact.
func (s *side) tokenize() {
	s.bigram, s.single = make([]uint32, len(s.runes)), make([]uint32, len(s.runes))
	for i := 0; i < len(s.runes); i++ {
		r := s.runes[i]
		switch {
		case s.taken[i]:
		case isHan(r):
			isFunction := isFunctionCharacter(r)
			if next := s.at(i + 1); isHan(next) && !s.taken[i+1] && (!isFunction || !isFunctionCharacter(next)) {
				s.bigram[i] = hash(r, next)
			}
			if !isFunction {
				s.single[i] = hash(r, 0)
			}
		case isLatin(r) || isDigit(r):
			word := make([]byte, 0, 24)
			end := i
			for end < len(s.runes) && (isLatin(s.runes[end]) || isDigit(s.runes[end])) && !s.taken[end] {
				if r := lower(s.runes[end]); r < 0x80 && len(word) < 24 {
					word = append(word, byte(r))
				}
				end++
			}
			if !functionWords[string(word)] {
				s.bigram[i] = hashWord(stem(word))
			}
			i = end - 1
		}
	}
}

func isFunctionCharacter(r rune) bool { return functionSet[r] }

var functionSet = func() map[rune]bool {
	all := map[rune]bool{}
	for _, r := range functionCharacters {
		all[r] = true
	}
	return all
}()

func hashWord(word []byte) uint32 {
	h := uint32(2166136261)
	for _, b := range word {
		h = (h ^ uint32(b)) * 16777619
	}
	return h | 1
}

// stem drops the commonest endings of an English word.
func stem(word []byte) []byte {
	for _, ending := range []string{"ing", "ed", "es", "s", "able", "e"} {
		if n := len(word) - len(ending); n >= 3 && string(word[n:]) == ending {
			word = word[:n]
			break
		}
	}
	if n := len(word); n > 3 && word[n-1] == word[n-2] {
		word = word[:n-1]
	}
	return word
}

// settle pairs the sentences that both answers have, word for word and about the same: their facts agree.
func (c *comparison) settle() {
	c.a.isSettled, c.b.isSettled = make([]bool, len(c.a.sentences)), make([]bool, len(c.b.sentences))
	waiting := map[uint64][]int{}
	for i := range c.b.sentences {
		h := c.b.signature(i)
		waiting[h] = append(waiting[h], i)
	}
	for i := range c.a.sentences {
		h := c.a.signature(i)
		if list := waiting[h]; len(list) > 0 {
			c.a.isSettled[i], c.b.isSettled[list[0]] = true, true
			waiting[h] = list[1:]
		}
	}
	for k, s := range []*side{c.a, c.b} {
		for i := range s.facts {
			if s.isSettled[s.facts[i].sentence] {
				c.states[k][i] = matched
			}
		}
	}
}

func (s *side) signature(n int) uint64 {
	x := s.sentences[n]
	h := uint64(14695981039346656037)
	for _, part := range [5]span{x.span, x.heading, x.label, x.row, x.column} {
		for _, r := range s.runes[part.from:part.to] {
			if isLetter(r) || isDigit(r) || strings.ContainsRune("%-°.<>≥≤/$¥€", r) {
				h = (h ^ uint64(lower(r))) * 1099511628211 //nolint:gosec // any bits do
			}
		}
		h = (h ^ 7) * 1099511628211
	}
	return h
}

// weigh counts in how many sentences each token is: rare ones say more. What only one answer uses says little.
func (c *comparison) weigh() {
	type count struct {
		sentences, last int32
		sides           uint8
	}
	counts := make(map[uint32]count, len(c.a.runes)+len(c.b.runes))
	number := int32(0)
	for k, s := range []*side{c.a, c.b} {
		next := 0
		for _, x := range s.sentences {
			number++
			note := func(token uint32) {
				if token == 0 {
					return
				}
				n := counts[token]
				n.sides |= 1 << k
				if n.last != number {
					n.sentences, n.last = n.sentences+1, number
				}
				counts[token] = n
			}
			for i := x.from; i < x.to; i++ {
				note(s.bigram[i])
				note(s.single[i])
			}
			for ; next < len(s.facts) && s.facts[next].from < x.to; next++ {
				note(s.facts[next].token())
			}
		}
	}
	c.idf = make(map[uint32]float32, len(counts))
	for token, n := range counts {
		weight := math.Log(1 + float64(number)/float64(n.sentences))
		if n.sides != 3 {
			weight *= 0.3
		}
		c.idf[token] = float32(weight)
	}
	for _, s := range []*side{c.a, c.b} {
		s.vectors, s.norms, s.scopes = make([][]weighted, len(s.facts)), make([]float32, len(s.facts)), make([][]weighted, len(s.facts))
	}
}

// collect adds the tokens of a span to a vector.
func (c *comparison) collect(s *side, v []weighted, part span, weight float32, self *fact) []weighted {
	if part.to-part.from > 200 {
		part.to = part.from + 200
	}
	for k := s.firstFact(part.from); k < len(s.facts) && s.facts[k].from < part.to; k++ {
		if f := &s.facts[k]; f != self && f.class != classPolarity {
			token := f.token()
			v = append(v, weighted{token, 0.6 * weight * c.idf[token]})
		}
	}
	for i := part.from; i < part.to; i++ {
		if token := s.bigram[i]; token != 0 {
			v = append(v, weighted{token, weight * c.idf[token]})
		}
		if token := s.single[i]; token != 0 {
			v = append(v, weighted{token, 0.35 * weight * c.idf[token]})
		}
	}
	return v
}

// token stands for a fact among the words around another one.
func (f *fact) token() uint32 {
	h := uint32(f.class)*31 + 7
	for i := range len(f.key) {
		h = (h ^ uint32(f.key[i])) * 16777619
	}
	return h | 1
}

// tidy sorts a vector and keeps the greatest weight of each token.
func tidy(v []weighted) []weighted {
	slices.SortFunc(v, func(x, y weighted) int {
		if x.token != y.token {
			if x.token < y.token {
				return -1
			}
			return 1
		}
		if x.weight > y.weight {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(v, func(x, y weighted) bool { return x.token == y.token })
}

// vector is what surrounds a fact, and how much each token says.
func (c *comparison) vector(s *side, i int) []weighted {
	if s.vectors[i] != nil {
		return s.vectors[i]
	}
	f := &s.facts[i]
	x := s.sentences[f.sentence]
	v := make([]weighted, 0, 64)
	v = c.collect(s, v, span{max(f.clause.from, f.from-60), min(f.clause.to, f.to+60)}, 1, f)
	v = c.collect(s, v, span{max(x.from, f.from-100), min(x.to, f.to+100)}, 0.5, f)
	v = c.collect(s, v, x.row, 1, f)
	v = c.collect(s, v, x.column, 0.8, f)
	v = c.collect(s, v, x.label, 0.5, f)
	v = c.collect(s, v, x.heading, 0.25, f)
	v = tidy(v)
	s.vectors[i] = v
	if len(v) == 0 {
		s.vectors[i] = []weighted{}
	}
	for _, w := range v {
		s.norms[i] += w.weight
	}
	return s.vectors[i]
}

// overlap is the weight that two vectors share.
func overlap(x, y []weighted) float32 {
	var sum float32
	for i, j := 0, 0; i < len(x) && j < len(y); {
		switch {
		case x[i].token < y[j].token:
			i++
		case x[i].token > y[j].token:
			j++
		default:
			sum += min(x[i].weight, y[j].weight)
			i++
			j++
		}
	}
	return sum
}

// similarity is how alike the surroundings of two facts are, 0 to 1.
func (c *comparison) similarity(i, j int) float32 {
	x, y := c.vector(c.a, i), c.vector(c.b, j)
	switch {
	case len(x) == 0 && len(y) == 0:
		return 1
	case len(x) == 0 || len(y) == 0:
		if len(c.a.sentences) <= 2 && len(c.b.sentences) <= 2 {
			return 0.65
		}
		return 0
	}
	return overlap(x, y) / float32(math.Sqrt(float64(c.a.norms[i]*c.b.norms[j])))
}

// agree reports whether two facts of a class state the same.
func agree(x, y *fact) bool {
	switch x.class {
	case classDate:
		return x.date.agrees(y.date)
	case classCount:
		return x.key == y.key && (x.unit == y.unit || x.unit == "" || y.unit == "")
	case classMass, classVolume:
		return x.key == y.key && x.unit == y.unit
	case classCitation:
		return x.key == y.key || strings.HasPrefix(x.key, y.key+"-") || strings.HasPrefix(y.key, x.key+"-")
	case classDuration, classMoney, classPercent:
		return x.key == y.key
	}
	return x.key == y.key && x.unit == y.unit
}

type pair struct {
	i, j  int
	score float32
}

// candidates pairs the open facts of a class, for each at most mostCandidates.
func (c *comparison) pairs(isPair func(x, y *fact) bool, isOpen func(k, i int) bool) []pair {
	byClass := map[class][]int{}
	for j := range c.b.facts {
		if f := &c.b.facts[j]; f.class != classPolarity && isOpen(1, j) {
			byClass[f.class] = append(byClass[f.class], j)
		}
	}
	var pairs []pair
	for i := range c.a.facts {
		f := &c.a.facts[i]
		if f.class == classPolarity || !isOpen(0, i) {
			continue
		}
		list := byClass[f.class]
		if len(list) > mostCandidates { // far apart in long answers: compare what stands at about the same place
			at := sort.Search(len(list), func(k int) bool {
				return c.b.facts[list[k]].from*len(c.a.runes) >= f.from*len(c.b.runes)
			})
			from := max(0, min(at-mostCandidates/2, len(list)-mostCandidates))
			list = list[from : from+mostCandidates]
		}
		for _, j := range list {
			if isPair(f, &c.b.facts[j]) {
				pairs = append(pairs, pair{i, j, c.similarity(i, j)})
			}
		}
	}
	return pairs
}

func sortPairs(pairs []pair) {
	sort.SliceStable(pairs, func(x, y int) bool { return pairs[x].score > pairs[y].score })
}

// equals matches the facts that agree, one to one, the most alike surroundings first.
func (c *comparison) equals() {
	pairs := c.pairs(agree, func(k, i int) bool { return c.states[k][i] == open })
	for n := range pairs {
		x, y := &c.a.facts[pairs[n].i], &c.b.facts[pairs[n].j]
		switch {
		case x.bound == y.bound:
			pairs[n].score += 0.1
		case x.bound.contradicts(y.bound):
			pairs[n].score -= 0.2
		}
	}
	sortPairs(pairs)
	for _, p := range pairs {
		if c.states[0][p.i] != open || c.states[1][p.j] != open {
			continue
		}
		c.states[0][p.i], c.states[1][p.j] = matched, matched
		x, y := &c.a.facts[p.i], &c.b.facts[p.j]
		isLimit := x.bound.contradicts(y.bound) && p.score+0.2 >= sameLimit
		if c.isShort() && len(c.a.facts) == 1 && len(c.b.facts) == 1 && (x.bound == exact) != (y.bound == exact) {
			isLimit = isLimit || x.bound.isLower() || y.bound.isLower()
		}
		if isLimit {
			c.states[0][p.i], c.states[1][p.j] = conflicting, conflicting
			c.conflict(p.i, p.j, Bound)
		}
	}
	c.markRepeated(0, c.a, c.b)
	c.markRepeated(1, c.b, c.a)
}

// markRepeated marks what is open although the other answer has the value.
func (c *comparison) markRepeated(k int, s, other *side) {
	type value struct {
		class class
		key   string
	}
	has, bare := map[value]bool{}, map[string]bool{}
	for j := range other.facts {
		if other.facts[j].class == classCount && other.facts[j].unit == "" {
			bare[other.facts[j].key] = true
		}
		has[value{other.facts[j].class, other.facts[j].key}] = true
	}
	for i := range s.facts {
		f := &s.facts[i]
		if c.states[k][i] != open || f.class == classPolarity {
			continue
		}
		if has[value{f.class, f.key}] || f.raw != "" && bare[f.raw+"|"] {
			c.states[k][i] = repeated
		}
	}
}

// conflicts pairs what is left: two values of one statement.
func (c *comparison) conflicts() {
	isOpen := func(k, i int) bool { return c.states[k][i] == open || c.states[k][i] == repeated }
	pairs := c.pairs(func(x, y *fact) bool { return !agree(x, y) }, isOpen)
	sortPairs(pairs)
	alone := [2]map[sortOfFact]string{c.alone(0, c.a), c.alone(1, c.b)}
	for _, p := range pairs {
		if !isOpen(0, p.i) || !isOpen(1, p.j) {
			continue
		}
		least := c.least(p)
		x, y := &c.a.facts[p.i], &c.b.facts[p.j]
		if alone[0][x.sortOf()] != "" && alone[1][y.sortOf()] != "" && x.class < classSet {
			least *= 0.45
			if x.class == classDate || x.class == classTime || x.class == classURL {
				least *= 0.4
			}
			if c.isShort() {
				least = 0
			}
		}
		if p.score < least {
			continue
		}
		c.states[0][p.i], c.states[1][p.j] = conflicting, conflicting
		c.conflict(p.i, p.j, c.a.facts[p.i].kind)
	}
}

// sortOfFact is a class of facts with a unit.
type sortOfFact struct {
	class class
	unit  string
}

func (f *fact) sortOf() sortOfFact {
	if f.class == classCount {
		return sortOfFact{f.class, f.unit}
	}
	return sortOfFact{f.class, ""}
}

// alone returns the sorts of which an answer has one open value only, with that value.
func (c *comparison) alone(k int, s *side) map[sortOfFact]string {
	values := map[sortOfFact]string{}
	for i := range s.facts {
		f := &s.facts[i]
		if c.states[k][i] != open {
			continue
		}
		if value, isKnown := values[f.sortOf()]; isKnown && value != f.key {
			values[f.sortOf()] = ""
		} else if !isKnown {
			values[f.sortOf()] = f.key
		}
	}
	return values
}

// isShort reports whether both answers are a sentence or two.
func (c *comparison) isShort() bool { return len(c.a.sentences) <= 2 && len(c.b.sentences) <= 2 }

// stray compares values that only one answer has with those that both have: a statement that is written twice in one
// answer and once in the other.
func (c *comparison) stray() {
	isStray := func(k, i int) bool { return c.states[k][i] == open }
	pairs := c.pairs(func(x, y *fact) bool { return !agree(x, y) && x.class < classSet && x.class != classVerdict },
		func(k, i int) bool { return isStray(k, i) || c.states[k][i] == matched })
	sortPairs(pairs)
	for _, p := range pairs {
		x, y := &c.a.facts[p.i], &c.b.facts[p.j]
		least := float32(sameStray)
		switch {
		case x.class == classVersion && areLookalikes(x.key, y.key):
			least = 0.25
		case x.class == classCitation:
			least = 0.35
		}
		if p.score < least || isStray(0, p.i) == isStray(1, p.j) || x.unit != y.unit && x.class == classCount {
			continue
		}
		s, i, k := c.a, p.i, 0
		if isStray(1, p.j) {
			s, i, k = c.b, p.j, 1
		}
		if s.isSettled[s.facts[i].sentence] {
			continue
		}
		c.states[k][i] = conflicting
		c.conflict(p.i, p.j, s.facts[i].kind)
	}
}

// least is the similarity from which on two facts are about the same.
func (c *comparison) least(p pair) float32 {
	x, y := &c.a.facts[p.i], &c.b.facts[p.j]
	isRepeated := c.states[0][p.i] == repeated || c.states[1][p.j] == repeated
	switch {
	case x.class >= classSet:
		return sameSet
	case x.class == classVerdict:
		if x.sentence == 0 && y.sentence == 0 {
			return 0
		}
		return sameSet
	case x.class == classChoice:
		return 0
	case x.class == classWork:
		return sameRepeated
	case isRepeated:
		return sameRepeated
	case x.class == classCode || x.class == classURL || x.class == classVersion:
		if areLookalikes(x.key, y.key) && len(x.key) >= 8 {
			return 0
		}
		if areLookalikes(x.key, y.key) {
			return sameStatement / 3
		}
	}
	return sameStatement
}

// areLookalikes reports whether two codes have the same length and mostly the same characters.
func areLookalikes(x, y string) bool {
	if len(x) != len(y) || len(x) < 4 {
		return false
	}
	different := 0
	for i := range len(x) {
		if x[i] != y[i] {
			different++
		}
	}
	return different <= max(1, len(x)/4)+1
}

func (c *comparison) conflict(i, j int, kind Kind) {
	x, y := c.a.export(&c.a.facts[i]), c.b.export(&c.b.facts[j])
	c.found = append(c.found, Difference{Kind: kind, IsConflict: true, Label: x.About, A: &x, B: &y})
}

// omissions notes what only one answer has.
func (c *comparison) omissions() {
	for k, s := range []*side{c.a, c.b} {
		for i := range s.facts {
			f := &s.facts[i]
			if c.states[k][i] != open || f.class == classPolarity || f.class >= classSet {
				continue
			}
			x := s.export(f)
			d := Difference{Kind: f.kind, Label: x.About, A: &x}
			if k == 1 {
				d.A, d.B = nil, &x
			}
			c.found = append(c.found, d)
		}
	}
}

// longestLabel is how many characters name a difference.
const longestLabel = 20

// export makes a fact of what was read.
func (d *document) export(f *fact) Fact {
	value := f.value
	switch f.bound {
	case atLeast:
		value = "≥ " + value
	case moreThan:
		value = "> " + value
	case atMost:
		value = "≤ " + value
	case lessThan:
		value = "< " + value
	}
	return Fact{
		Kind: f.kind, Value: value, Unit: f.unit, Text: d.slice(f.span), About: d.about(f),
		Start: int(d.start[f.from]), End: int(d.end[f.to-1]),
	}
}

// about returns the words around a fact.
func (d *document) about(f *fact) string {
	x := d.sentences[f.sentence]
	if !x.row.isEmpty() || !x.column.isEmpty() {
		return clip(strings.TrimSpace(d.slice(x.row) + " " + d.slice(x.column)))
	}
	from := max(f.clause.from, f.from-longestLabel)
	label := strings.TrimSpace(strings.Trim(d.slice(span{from, f.from}), " *`"))
	if len([]rune(label)) < 2 {
		label = strings.TrimSpace(d.slice(span{f.clause.from, f.clause.to}))
	}
	return clip(label)
}

func clip(s string) string {
	if runes := []rune(s); len(runes) > longestLabel {
		return string(runes[:longestLabel])
	}
	return s
}
