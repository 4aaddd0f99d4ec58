package facts

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"wending/db/measure/passage"
)

// The least similarities of the surroundings of two facts. They were chosen on two thirds of the labelled pairs.
const (
	sameStatement = 0.20 // two values of one statement
	sameRepeated  = 0.4  // one of the two values is also elsewhere in the other answer
	sameStray     = 0.8  // both answers have one of the two values
	sameSet       = 0.60 // words that exclude each other
	sameLimit     = 0.50 // one value, limited in two directions
	sameBare      = 0.10 // one value, without its unit in one answer
	muchMore      = 0.30 // by which the right counterpart of a matched fact is more alike
	onlyOne       = 0.17 // is added where each answer has the value once
	samePredicate = 0.60 // a statement and its negation
	sameDuty      = 0.75 // a duty and a ban
	sameAllowed   = 0.48 // what one answer allows and the other one bans
	sameSubject   = 0.25 // two statements that both affirm, or both deny
)

// comparison is what is known of two answers.
type comparison struct {
	passage.Vocabulary
	a, b    *side
	found   []Difference
	states  [2][]state
	links   []link
	settled int // how many links are of settled sentences

	isShared []bool    // by token: both answers have it
	words    [2][]word // of the two sentences that are compared word by word
}

// link joins two facts that state the same.
type link struct {
	i, j  int
	isCut bool // the facts have turned out to be about different things
}

// state is what has become of a fact.
type state uint8

const (
	open state = iota
	matched
	conflicting
	repeated // the other answer has the value, but fewer times
)

// compare reads two answers side by side. It takes time in proportion to their length: what one fact or sentence is
// compared with is bounded by passage.MostCandidates.
func compare(a, b *document) *comparison {
	c := &comparison{a: newSide(a), b: newSide(b)}
	c.states = [2][]state{make([]state, len(a.facts)), make([]state, len(b.facts))}
	c.settle()
	c.settled = len(c.links)
	c.weigh()
	c.equals()
	c.reconsider()
	c.conflicts()
	c.stray()
	c.polarities()
	if c.isAlike() {
		c.wordings()
	}
	c.omissions()
	slices.SortStableFunc(c.found, func(x, y Difference) int {
		switch {
		case x.IsConflict == y.IsConflict:
			return 0
		case x.IsConflict:
			return -1
		}
		return 1
	})
	return c
}

func newSide(d *document) *side {
	return &side{
		document: d, isSettled: make([]bool, len(d.Sentences)), isTurned: make([]bool, len(d.Sentences)),
		vectors: make([]*passage.Vector, len(d.facts)), scopes: make([]*passage.Vector, len(d.facts)),
		sentenceTokens: make([]*passage.Vector, len(d.Sentences)), denials: make([]denial, len(d.Sentences)),
	}
}

// settle pairs the sentences that both answers have, word for word and about the same: their facts agree.
func (c *comparison) settle() {
	waiting := make(map[uint64][]int, len(c.b.Sentences))
	for n, signature := range c.b.signatures {
		waiting[signature] = append(waiting[signature], n)
	}
	for n, signature := range c.a.signatures {
		list := waiting[signature]
		if len(list) == 0 {
			continue
		}
		m := list[0]
		waiting[signature] = list[1:]
		c.a.isSettled[n], c.b.isSettled[m] = true, true
		i, j := c.a.factsOf(n), c.b.factsOf(m)
		for k := i.From; k < i.To; k++ {
			c.states[0][k] = matched
		}
		for k := j.From; k < j.To; k++ {
			c.states[1][k] = matched
		}
		for k := 0; k < min(i.To-i.From, j.To-j.From); k++ {
			c.links = append(c.links, link{i: i.From + k, j: j.From + k})
		}
	}
}

// match notes that two facts state the same.
func (c *comparison) match(i, j int) {
	c.states[0][i], c.states[1][j] = matched, matched
	c.links = append(c.links, link{i: i, j: j})
}

// factsOf returns which facts a sentence has.
func (d *document) factsOf(n int) passage.Span {
	return passage.Span{From: d.firstFact(d.Sentences[n].From), To: d.firstFact(d.Sentences[n].To)}
}

// firstFact returns the first fact at or after a character.
func (d *document) firstFact(from int) int {
	low, high := 0, len(d.facts)
	for low < high {
		middle := (low + high) / 2
		if d.facts[middle].From < from {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// agree reports whether two facts of a class state the same.
func agree(x, y *fact) bool {
	if x.class != y.class { // a number whose unit is not written again
		return (x.isBare() || y.isBare()) && x.raw == y.raw
	}
	switch x.class {
	case classDate:
		return x.date.agrees(y.date)
	case classTime:
		return x.key == y.key || (x.isEitherHalf || y.isEitherHalf) && isHalfDayLater(x.key, y.key)
	case classCount:
		return (x.key == y.key || x.isNextTo(y) || y.isNextTo(x)) && (x.unit == y.unit || x.isUncounted() || y.isUncounted())
	case classMass, classVolume:
		return x.key == y.key && x.unit == y.unit
	case classCitation:
		return x.key == y.key || strings.HasPrefix(x.key, y.key+"-") || strings.HasPrefix(y.key, x.key+"-")
	case classDuration:
		return x.key == y.key || x.isHalfMonth() && y.isHalfMonth()
	case classMoney:
		return x.key == y.key || (x.unit == cents || y.unit == cents) && strings.TrimSuffix(x.key, x.unit) == strings.TrimSuffix(y.key, y.unit)
	case classPercent:
		return x.key == y.key
	}
	return x.key == y.key && x.unit == y.unit
}

// isNextTo reports whether x is the open limit of whole things that y closes: more than 7 is 8 or more.
func (f *fact) isNextTo(y *fact) bool {
	step := 0.0
	switch {
	case f.bound == moreThan && y.bound == atLeast:
		step = 1
	case f.bound == lessThan && (y.bound == atMost || y.bound == exact):
		step = -1
	default:
		return false
	}
	return f.per == "" && y.per == "" && f.raw != "" && y.raw != "" && !strings.Contains(f.raw, ".") && f.amount()+step == y.amount()
}

// isHalfDayLater reports whether two times are twelve hours apart.
func isHalfDayLater(x, y string) bool {
	if x > y {
		x, y = y, x
	}
	if len(x) != 5 || x[2:] != y[2:] {
		return false
	}
	hour := func(s string) int { return int(s[0]-'0')*10 + int(s[1]-'0') }
	return hour(y)-hour(x) == 12
}

// isHalfMonth reports whether a duration is 半个月, which is 15 days.
func (f *fact) isHalfMonth() bool { return f.key == "0.5month" || f.key == "1296000s" }

// isUncounted reports whether a number counts things without naming them: 32, 32 个.
func (f *fact) isUncounted() bool { return f.unit == "" || f.unit == "个" }

type pair struct {
	i, j  int
	score float32
}

// isBare reports whether a fact is a number without a unit.
func (f *fact) isBare() bool { return f.class == classCount && f.unit == "" && f.raw != "" }

// nearby narrows a long list of the second answer's facts to those at about the same position as f.
func (c *comparison) nearby(list []int, f *fact) []int {
	if len(list) <= passage.MostCandidates {
		return list
	}
	at := sort.Search(len(list), func(k int) bool {
		return c.b.facts[list[k]].From*len(c.a.Runes) >= f.From*len(c.b.Runes)
	})
	from := max(0, min(at-passage.MostCandidates/2, len(list)-passage.MostCandidates))
	return list[from : from+passage.MostCandidates]
}

// pairs pairs the facts of a class that may belong together, for each at most passage.MostCandidates.
func (c *comparison) pairs(isPair func(i, j int) bool, isOpen func(k, i int) bool) []pair {
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
		for _, j := range c.nearby(byClass[f.class], f) {
			if isPair(i, j) {
				pairs = append(pairs, pair{i: i, j: j})
			}
		}
		switch {
		case f.isBare():
			for class := classCount + 1; class <= classPercent; class++ {
				for _, j := range c.nearby(byClass[class], f) {
					if isPair(i, j) {
						pairs = append(pairs, pair{i: i, j: j})
					}
				}
			}
		case f.class > classCount && f.class <= classPercent:
			for _, j := range c.nearby(byClass[classCount], f) {
				if c.b.facts[j].isBare() && isPair(i, j) {
					pairs = append(pairs, pair{i: i, j: j})
				}
			}
		}
	}
	return pairs
}

// score gives pairs the similarity of what surrounds their facts, and sorts them by it.
func (c *comparison) score(pairs []pair) {
	for n := range pairs {
		pairs[n].score = c.similarity(pairs[n].i, pairs[n].j)
	}
	sortPairs(pairs)
}

// sortPairs puts the highest score first.
func sortPairs(pairs []pair) {
	slices.SortFunc(pairs, func(x, y pair) int {
		switch {
		case x.score != y.score:
			return cmp.Compare(y.score, x.score)
		case x.i != y.i:
			return x.i - y.i
		}
		return x.j - y.j
	})
}

// equals matches the facts that agree, one to one, the most alike surroundings first.
func (c *comparison) equals() {
	pairs := c.pairs(
		func(i, j int) bool { return agree(&c.a.facts[i], &c.b.facts[j]) },
		func(k, i int) bool { return c.states[k][i] == open })
	inA, inB := make([]int, len(c.a.facts)), make([]int, len(c.b.facts))
	for _, p := range pairs {
		inA[p.i]++
		inB[p.j]++
	}
	for n := range pairs {
		p := &pairs[n]
		x, y := &c.a.facts[p.i], &c.b.facts[p.j]
		if x.class == y.class && x.bound == y.bound && x.event == y.event && inA[p.i] == 1 && inB[p.j] == 1 {
			continue // nothing else to match either with
		}
		p.score = c.similarity(p.i, p.j)
		if x.class != y.class {
			p.score -= 0.1
		}
		switch {
		case x.bound == y.bound && x.event == y.event:
			p.score += 0.1
		case x.event != exact && y.event != exact && x.event != y.event: // 48 小时 before one thing, and after another
			p.score -= 0.2
		case x.bound.contradicts(y.bound):
			p.score -= 0.2
		}
	}
	sortPairs(pairs)
	for _, p := range pairs {
		if c.states[0][p.i] != open || c.states[1][p.j] != open {
			continue
		}
		if c.a.facts[p.i].class != c.b.facts[p.j].class && p.score < sameBare {
			continue
		}
		isOnlyOne := inA[p.i] == 1 && inB[p.j] == 1
		if isOnlyOne {
			p.score += onlyOne
		}
		if c.isOtherLimit(p, isOnlyOne) {
			c.conflict(p.i, p.j, Bound)
			continue
		}
		c.match(p.i, p.j)
	}
	c.markRepeated(0, c.a, c.b)
	c.markRepeated(1, c.b, c.a)
}

// reconsider separates equal facts that are about different things, where one of them has a counterpart of its own with
// another value: 24 小时 beside 48 小时 of the same test, and 一天 elsewhere.
func (c *comparison) reconsider() {
	byClass := map[class][]int{} // links by the class of their facts
	for n, l := range c.links[c.settled:] {
		f := &c.a.facts[l.i]
		byClass[f.class] = append(byClass[f.class], c.settled+n)
	}
	for k, s := range [2]*side{c.a, c.b} {
		for o := range s.facts {
			f := &s.facts[o]
			list := byClass[f.class]
			if c.states[k][o] != open || f.class > classPercent || f.isWorking || len(list) == 0 {
				continue
			}
			if len(list) > passage.MostCandidates {
				list = list[:passage.MostCandidates]
			}
			c.reconsiderFor(k, o, list)
		}
	}
}

// reconsiderFor looks for the counterpart of an open fact among those that were matched.
func (c *comparison) reconsiderFor(k, o int, list []int) {
	best, place := sameRepeated, -1
	for _, n := range list {
		l := &c.links[n]
		if l.isCut {
			continue
		}
		i, j := o, l.j
		if k == 1 {
			i, j = l.i, o
		}
		x, y := &c.a.facts[i], &c.b.facts[j]
		if x.unit != y.unit || x.isRange() != y.isRange() || agree(x, y) || areFarApart(x, y) || x.isLoose || y.isLoose {
			continue
		}
		if score := float64(c.similarity(i, j)); score > best && score > float64(c.similarity(l.i, l.j))+muchMore {
			best, place = score, n
		}
	}
	if place < 0 {
		return
	}
	l := &c.links[place]
	l.isCut = true
	if k == 0 {
		c.states[0][l.i] = repeated
		c.conflict(o, l.j, c.a.facts[o].kind)
		return
	}
	c.states[1][l.j] = repeated
	c.conflict(l.i, o, c.a.facts[l.i].kind)
}

// isOtherLimit reports whether equal numbers limit in two directions. isOnlyOne says that each answer has the number once.
func (c *comparison) isOtherLimit(p pair, isOnlyOne bool) bool {
	x, y := &c.a.facts[p.i], &c.b.facts[p.j]
	if c.isShort() && len(c.a.facts) == 1 && len(c.b.facts) == 1 && (x.bound == exact) != (y.bound == exact) {
		return x.bound.isLower() || y.bound.isLower()
	}
	if x.bound.completes(y.bound) { // up to 5,000 nothing is due; above 5,000 something is
		return x.bound.contradicts(y.bound) && p.score+0.2 >= clearly && c.a.isDenied(p.i) == c.b.isDenied(p.j)
	}
	isOtherSide := x.event != exact && y.event != exact && x.event != y.event
	return isOtherSide && isOnlyOne && p.score >= sameLimit || x.bound.contradicts(y.bound) && p.score+0.2 >= sameLimit
}

// markRepeated marks what is open although the other answer has the value.
func (c *comparison) markRepeated(k int, s, other *side) {
	type value struct {
		class class
		key   string
	}
	has, bare := map[value]bool{}, map[string]bool{}
	for j := range other.facts {
		if f := &other.facts[j]; f.class == classCount && f.unit == "" && !f.isWorking {
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
	pairs := c.pairs(func(i, j int) bool {
		x, y := &c.a.facts[i], &c.b.facts[j]
		isOtherWay := x.class == classPercent && x.unit != y.unit // 六折, 优惠 40%
		return !agree(x, y) && !x.isLoose && !y.isLoose && (x.class == y.class || areSums(x, y)) && x.isWorking == y.isWorking && (!isOtherWay || c.isShort())
	}, isOpen)
	c.score(pairs)
	alone := [2]map[measure]string{c.alone(0, c.a), c.alone(1, c.b)}
	for _, p := range pairs {
		if !isOpen(0, p.i) || !isOpen(1, p.j) {
			continue
		}
		least := c.least(p)
		x, y := &c.a.facts[p.i], &c.b.facts[p.j]
		if !isOtherUnit(x, y) && x.isRange() == y.isRange() && alone[0][x.measure()] != "" && alone[1][y.measure()] != "" {
			least *= 0.2
			if x.class == classDate || x.class == classTime || x.class == classURL {
				least *= 0.4
			}
			isBare := len(c.surroundings(c.a, p.i).Entries) == 0 || len(c.surroundings(c.b, p.j).Entries) == 0
			if c.isShort() || isBare || x.isName() && areLookalikes(x.key, y.key) {
				least = 0
			}
		}
		if x.class < classDate && areFarApart(x, y) && x.raw != y.raw && !c.isShort() {
			least = max(least, surely)
		}
		if p.score < least || x.class >= classSet && !c.areOfOneThing(p) {
			continue
		}
		c.conflict(p.i, p.j, c.a.facts[p.i].kind)
	}
}

// areSums reports whether one of two facts is money, and the other a number that may be.
func areSums(x, y *fact) bool {
	return (x.class == classMoney || y.class == classMoney) && min(x.amount(), y.amount()) >= 100 && !areFarApart(x, y)
}

// areFarApart reports whether one of two amounts is many times the other one: they hardly state the same thing.
func areFarApart(x, y *fact) bool {
	less, more := x.amount(), y.amount()
	if x.class == y.class && x.unit == y.unit {
		less, more = x.inUnit(), y.inUnit()
	}
	if less > more {
		less, more = more, less
	}
	return (x.unit == y.unit || x.class != y.class) && more > 50*less
}

// measure is what a fact measures, without regard to its value.
type measure struct {
	class class
	unit  string // of counts
}

func (f *fact) measure() measure {
	if f.class == classCount {
		return measure{f.class, f.unit}
	}
	return measure{f.class, ""}
}

// alone returns the measures of which an answer has one open value only, with that value.
func (c *comparison) alone(k int, s *side) map[measure]string {
	values := map[measure]string{}
	for i := range s.facts {
		f := &s.facts[i]
		if c.states[k][i] != open || f.isWorking {
			continue
		}
		if value, isKnown := values[f.measure()]; isKnown && value != f.key {
			values[f.measure()] = ""
		} else if !isKnown {
			values[f.measure()] = f.key
		}
	}
	return values
}

// isAlike reports whether most sentences of both answers are equal: they differ here and there, and are no paraphrases.
func (c *comparison) isAlike() bool {
	count := 0
	for _, isSettled := range c.a.isSettled {
		count += int(boolean(isSettled))
	}
	return 2*count >= len(c.a.Sentences)-1 && 2*count >= len(c.b.Sentences)-1 || c.isShort()
}

// isShort reports whether both answers are a sentence or two.
func (c *comparison) isShort() bool { return len(c.a.Sentences) <= 2 && len(c.b.Sentences) <= 2 }

// stray compares values that only one answer has with those that both have: a statement that is written twice in one
// answer and once in the other.
func (c *comparison) stray() {
	isStray := func(k, i int) bool {
		return c.states[k][i] == open && !c.sideOf(k).isSettled[c.sideOf(k).facts[i].sentence]
	}
	pairs := c.pairs(
		func(i, j int) bool {
			x, y := &c.a.facts[i], &c.b.facts[j]
			return isStray(0, i) != isStray(1, j) && x.class < classSet && x.class != classVerdict && x.class != classWeekday &&
				x.isWorking == y.isWorking && (x.unit == y.unit || x.class > classTime || x.raw == y.raw && x.raw != "") && !agree(x, y)
		},
		func(k, i int) bool { return isStray(k, i) || c.states[k][i] == matched })
	c.score(pairs)
	for _, p := range pairs {
		x, y := &c.a.facts[p.i], &c.b.facts[p.j]
		least := float32(sameStray)
		switch {
		case x.class == classVersion && areLookalikes(x.key, y.key):
			least = 0.25
		case x.class == classCitation:
			least = sameSet
		}
		if p.score < least || isStray(0, p.i) == isStray(1, p.j) {
			continue
		}
		c.contradiction(p.i, p.j, x.kind)
		if isStray(0, p.i) {
			c.states[0][p.i] = conflicting
		} else {
			c.states[1][p.j] = conflicting
		}
	}
}

func (c *comparison) sideOf(k int) *side {
	if k == 0 {
		return c.a
	}
	return c.b
}

// least is the similarity from which on two facts are about the same.
func (c *comparison) least(p pair) float32 {
	x, y := &c.a.facts[p.i], &c.b.facts[p.j]
	isRepeated := c.states[0][p.i] == repeated || c.states[1][p.j] == repeated
	switch {
	case x.class >= classSet && isRepeated:
		return clearly
	case x.class >= classSet:
		return sameSet
	case x.class == classVerdict:
		if x.sentence == 0 && y.sentence == 0 {
			return 0
		}
		return clearly
	case x.class == classChoice:
		return 0
	case x.class == classWork:
		return sameRepeated
	case x.class == classWeekday && x.isRange() != y.isRange():
		return surely
	case x.class == classWeekday:
		return sameSet
	case isRepeated:
		return sameRepeated
	case isOtherUnit(x, y):
		return sameSet
	case x.isRange() != y.isRange():
		return sameRepeated
	case x.class == classCount && x.unit != y.unit, x.class != y.class:
		return sameRepeated
	case x.class == classCount && x.unit == "" && y.unit == "" && len(x.raw) >= 5 && areLookalikes(x.raw, y.raw):
		return sameStatement / 3
	case x.isName():
		if areLookalikes(x.key, y.key) && len(x.key) >= 8 {
			return 0
		}
		if areLookalikes(x.key, y.key) {
			return sameStatement / 3
		}
	}
	return sameStatement
}

// isOtherUnit reports whether two quantities have neither the number nor the unit in common.
func isOtherUnit(x, y *fact) bool {
	return x.class < classMoney && x.unit != y.unit && x.raw != y.raw && x.unit != "" && y.unit != ""
}

// isName reports whether a fact names one thing: a code, an address, a version.
func (f *fact) isName() bool {
	return f.class == classCode || f.class == classURL || f.class == classVersion
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

// conflict notes that two facts, which have no other counterpart, contradict each other.
func (c *comparison) conflict(i, j int, kind Kind) {
	c.states[0][i], c.states[1][j] = conflicting, conflicting
	c.contradiction(i, j, kind)
}

func (c *comparison) contradiction(i, j int, kind Kind) {
	x, y := c.a.export(&c.a.facts[i]), c.b.export(&c.b.facts[j])
	c.found = append(c.found, Difference{Kind: kind, IsConflict: true, Label: x.About, A: &x, B: &y})
	c.a.isTurned[c.a.facts[i].sentence] = c.a.isTurned[c.a.facts[i].sentence] || kind == Polarity
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
