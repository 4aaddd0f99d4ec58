package facts

import (
	"slices"
	"strconv"
	"strings"

	"wending/db/measure/claim"
	"wending/db/measure/passage"
)

// The minimum similarities of the contexts of two facts that are about the same thing. They were chosen on two thirds
// of the labelled pairs.
const (
	sameStatement = 0.20 // two values of one statement
	sameRepeated  = 0.4  // one of the two values also occurs elsewhere in the other answer
	sameStray     = 0.8  // both answers contain one of the two values
	sameSet       = 0.60 // mutually exclusive words
	sameLimit     = 0.50 // one value, a minimum in one answer and a maximum in the other
	sameOnlyLimit = 0.30 // the same, if each answer has the value once
	sameOnlyEvent = 0.25 // one value, which each answer has once, before an event and after it
	sameBare      = 0.10 // one value, without its unit in one answer
	muchMore      = 0.30 // how much more similar than a fact's match another counterpart must be to replace it
	onlyOne       = 0.17 // added to the similarity if each answer has the value once
	samePredicate = 0.60 // a statement and its negation
	sameDuty      = 0.75 // a duty and a ban
	sameAllowed   = 0.48 // what one answer allows and the other bans
	sameSubject   = 0.25 // two statements that both affirm, or both deny
	likelySubject = 0.40 // the same, before statements without an affirming word are looked for
)

// workspace is shared by the comparisons of a question's answers: the token numbers, and memory that is reused from
// one comparison to the next.
type workspace struct {
	passage.Vocabulary
	numbers passage.Numbers

	sentences []int32 // for each token: the number of sentences of the answer being read that contain it
	last      []int32 // for each token: the last sentence that contains it
	places    []int32 // the tokens of the answer that is being read
	sentence  int32   // the number of the sentence that is being read

	sides    [2]side
	isShared []bool    // for each token: whether both compared answers contain it
	weights  []float64 // the weights of tokens, indexed by the number of sentences that contain the token
	byClass  []openFacts
	words    [2][]word      // for the two sentences that are compared word by word
	values   map[value]bool // the values of an answer's open claims, and whether the other answer also has each
	waiting  map[uint64]int32
	behind   []int32
}

// comparison is the state of comparing two answers.
type comparison struct {
	*workspace
	a, b         *side
	found        []Difference
	states       [2][]state
	links        []link
	counterparts []int32 // for each claim of a: 1 + the index of the claim of b that states the same thing; 0 if none
	settled      int     // the number of links that belong to settled sentences; they come first
}

// link joins two facts that state the same thing.
type link struct {
	i, j  int
	isCut bool // the facts turned out to be about different things
}

// state is the state of a fact during the comparison.
type state uint8

const (
	open state = iota
	matched
	conflicting
	repeated // the other answer has the value, but fewer times
)

// compare compares two answers, in time proportional to their length, because each fact or sentence is compared with
// at most passage.MostCandidates others. The next comparison overwrites the sides.
func (w *workspace) compare(a, b *answer) *comparison {
	c := &comparison{workspace: w, a: &w.sides[0], b: &w.sides[1]}
	c.a.reset(a)
	c.b.reset(b)
	c.states = [2][]state{make([]state, len(a.Claims)), make([]state, len(b.Claims))}
	c.settle()
	if !slices.Contains(c.a.isSettled, false) && !slices.Contains(c.b.isSettled, false) {
		return c // they are equal except for form
	}
	c.noteKnown()
	c.settled = len(c.links)
	c.weigh()
	c.equals()
	c.reconsider()
	c.noteCounterparts()
	if !c.isShort() {
		c.weighed()
	}
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

// settle pairs the sentences that are equal in both answers except for form, and about the same subject: their facts
// agree.
func (c *comparison) settle() {
	if c.waiting == nil {
		c.waiting = map[uint64]int32{}
	}
	clear(c.waiting)
	c.behind = cleared(c.behind, len(c.b.signatures))
	for n := len(c.b.signatures) - 1; n >= 0; n-- { // lists the sentences that have each signature
		c.behind[n] = c.waiting[c.b.signatures[n]]
		c.waiting[c.b.signatures[n]] = int32(n) + 1
	}
	for n, signature := range c.a.signatures {
		m := int(c.waiting[signature]) - 1
		if m < 0 {
			continue
		}
		c.waiting[signature] = c.behind[m]
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

// noteKnown marks claims of parts as matched if their counterparts are known from an earlier comparison.
func (c *comparison) noteKnown() {
	for k, s := range [2]*side{c.a, c.b} {
		if s.part == nil {
			continue
		}
		for i, isKnown := range s.part.isKnown {
			if isKnown {
				c.states[k][i] = matched
			}
		}
	}
}

// match records that two facts state the same thing.
func (c *comparison) match(i, j int) {
	c.states[0][i], c.states[1][j] = matched, matched
	c.links = append(c.links, link{i: i, j: j})
}

// factsOf returns the facts of a sentence.
func (d *answer) factsOf(n int) passage.Span {
	return passage.Span{From: d.firstFact(d.Sentences[n].From), To: d.firstFact(d.Sentences[n].To)}
}

// firstFact returns the index of the first fact that begins at or after a position.
func (d *answer) firstFact(from int) int {
	low, high := 0, len(d.Claims)
	for low < high {
		middle := (low + high) / 2
		if d.Claims[middle].From < from {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

type pair struct {
	i, j  int
	score float32
}

// openFacts holds the facts of a class in the second answer that are still open.
type openFacts struct {
	list []int
	at   int // the index in list where placeOf stopped; its next search begins there

	chosen []int32 // for each index in list: the number of chosen facts before it
}

// nearby narrows a long list of the second answer's facts to those at about the same position as f. If needsChosen is
// set, it returns none unless at least one of these facts is chosen.
func (c *comparison) nearby(class claim.Class, f *claim.Claim, needsChosen bool) []int {
	of := &c.byClass[class]
	from, most := 0, passage.Candidates(len(c.b.Claims))
	if len(of.list) > most {
		from = max(0, min(c.placeOf(of, f)-most/2, len(of.list)-most))
	}
	to := min(len(of.list), from+most)
	if needsChosen && of.chosen[from] == of.chosen[to] {
		return nil
	}
	return of.list[from:to]
}

// placeOf returns the index in a list of the second answer's facts that corresponds to the position of f.
func (c *comparison) placeOf(of *openFacts, f *claim.Claim) int {
	isBehind := func(k int) bool {
		return c.b.Claims[of.list[k]].From*len(c.a.Runes) >= f.From*len(c.b.Runes)
	}
	// Facts are mostly looked up in order of position, so the search continues from the last place.
	for of.at < len(of.list) && !isBehind(of.at) {
		of.at++
	}
	for of.at > 0 && isBehind(of.at-1) {
		of.at--
	}
	return of.at
}

// pairs returns pairs of open facts, one from each answer, that may belong together: facts of one class, or a number
// without a unit and a quantity. It pairs each fact with at most passage.MostCandidates facts of each class. Unless
// isChosen is nil, exactly one fact of each pair must be chosen.
func (c *comparison) pairs(isPair func(i, j int) bool, isOpen, isChosen func(k, i int) bool) []pair {
	c.listByClass(isOpen, isChosen)
	var pairs []pair
	for i := range c.a.Claims {
		f := &c.a.Claims[i]
		if f.Class == claim.ClassPolarity || !isOpen(0, i) {
			continue
		}
		isOne := isChosen != nil && isChosen(0, i)
		note := func(class claim.Class) {
			for _, j := range c.nearby(class, f, isChosen != nil && !isOne) {
				y := &c.b.Claims[j]
				if (f.Class == y.Class || f.IsBare() || y.IsBare()) && (isChosen == nil || isChosen(1, j) != isOne) &&
					isPair(i, j) {
					pairs = append(pairs, pair{i: i, j: j})
				}
			}
		}
		note(f.Class)
		switch {
		case f.IsBare():
			for class := claim.ClassCount + 1; class <= claim.ClassPercent; class++ {
				note(class)
			}
		case f.Class > claim.ClassCount && f.Class <= claim.ClassPercent:
			note(claim.ClassCount)
		}
	}
	return pairs
}

// listByClass lists the open facts of the second answer by their class.
func (c *comparison) listByClass(isOpen, isChosen func(k, i int) bool) {
	if c.byClass == nil {
		c.byClass = make([]openFacts, claim.Classes)
	}
	for n, of := range c.byClass {
		c.byClass[n] = openFacts{list: of.list[:0], chosen: append(of.chosen[:0], 0)}
	}
	for j := range c.b.Claims {
		f := &c.b.Claims[j]
		if f.Class == claim.ClassPolarity || !isOpen(1, j) {
			continue
		}
		of := &c.byClass[f.Class]
		of.list = append(of.list, j)
		if isChosen != nil {
			count := of.chosen[len(of.chosen)-1]
			if isChosen(1, j) {
				count++
			}
			of.chosen = append(of.chosen, count)
		}
	}
}

// score computes how alike the contexts of each pair's facts are.
func (c *comparison) score(pairs []pair) {
	for n := range pairs {
		pairs[n].score = c.similarity(pairs[n].i, pairs[n].j)
	}
}

// sortPairs sorts pairs by score, highest first.
func sortPairs(pairs []pair) {
	slices.SortFunc(pairs, func(x, y pair) int {
		switch {
		case x.score > y.score:
			return -1
		case x.score < y.score:
			return 1
		case x.i != y.i:
			return x.i - y.i
		}
		return x.j - y.j
	})
}

// equals matches facts that agree, each with at most one other; the pairs with the most similar contexts come first.
// Equal numbers that are limits in opposite directions contradict each other instead.
func (c *comparison) equals() {
	pairs := c.pairs(
		func(i, j int) bool { return c.a.Claims[i].Agrees(&c.b.Claims[j]) },
		func(k, i int) bool { return c.states[k][i] == open }, nil)
	inA, inB := make([]int, len(c.a.Claims)), make([]int, len(c.b.Claims))
	for _, p := range pairs {
		inA[p.i]++
		inB[p.j]++
	}
	for n := range pairs {
		p := &pairs[n]
		x, y := &c.a.Claims[p.i], &c.b.Claims[p.j]
		if x.Class == y.Class && x.Bound == y.Bound && x.Event == y.Event && inA[p.i] == 1 && inB[p.j] == 1 {
			continue // neither has any other possible counterpart
		}
		p.score = c.similarity(p.i, p.j)
		if x.Class != y.Class {
			p.score -= 0.1
		}
		switch {
		case x.Bound == y.Bound && x.Event == y.Event:
			p.score += 0.1
		// For example, 48 hours before one event, and 48 hours after another.
		case x.Event != claim.Exact && y.Event != claim.Exact && x.Event != y.Event:
			p.score -= 0.2
		case x.Bound.Contradicts(y.Bound):
			p.score -= 0.2
		}
	}
	sortPairs(pairs)
	for _, p := range pairs {
		if c.states[0][p.i] != open || c.states[1][p.j] != open {
			continue
		}
		if c.a.Claims[p.i].Class != c.b.Claims[p.j].Class && p.score < sameBare {
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

// reconsider separates equal facts that are about different things, if one of them has a counterpart with another
// value: 24 小时 (24 hours) was matched with 一天 (one day) elsewhere, but the other answer has 48 小时 for the same thing.
func (c *comparison) reconsider() {
	byClass := map[claim.Class][]int{} // the indexes of links, keyed by the class of their facts
	for n, l := range c.links[c.settled:] {
		f := &c.a.Claims[l.i]
		byClass[f.Class] = append(byClass[f.Class], c.settled+n)
	}
	for k, s := range [2]*side{c.a, c.b} {
		for o := range s.Claims {
			f := &s.Claims[o]
			list := byClass[f.Class]
			if c.states[k][o] != open || f.Class > claim.ClassPercent || f.IsWorking || len(list) == 0 {
				continue
			}
			if len(list) > passage.MostCandidates {
				list = list[:passage.MostCandidates]
			}
			c.reconsiderFor(k, o, list)
		}
	}
}

// reconsiderFor looks for the counterpart of the open fact o of side k among the matched facts of the links in list. If
// it finds one, it cuts that link and records that the two facts contradict each other.
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
		x, y := &c.a.Claims[i], &c.b.Claims[j]
		if x.Unit != y.Unit || x.IsRange() != y.IsRange() || x.Agrees(y) || claim.AreFarApart(x, y) || x.IsLoose ||
			y.IsLoose {
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
		c.conflict(o, l.j, kindOf(&c.a.Claims[o]))
		return
	}
	c.states[1][l.j] = repeated
	c.conflict(l.i, o, kindOf(&c.a.Claims[l.i]))
}

// isOtherLimit reports whether equal numbers are limits in opposite directions. isOnlyOne means that each answer
// has the number once.
func (c *comparison) isOtherLimit(p pair, isOnlyOne bool) bool {
	x, y := &c.a.Claims[p.i], &c.b.Claims[p.j]
	if c.isShort() && len(c.a.Claims) == 1 && len(c.b.Claims) == 1 &&
		(x.Bound == claim.Exact) != (y.Bound == claim.Exact) {
		return x.Bound.IsLower() || y.Bound.IsLower()
	}
	if x.Bound.Completes(y.Bound) { // up to 5,000 nothing is due; above 5,000 something is
		return x.Bound.Contradicts(y.Bound) && p.score+0.2 >= clearly && c.a.isDenied(p.i) == c.b.isDenied(p.j)
	}
	isOtherSide := x.Event != claim.Exact && y.Event != claim.Exact && x.Event != y.Event
	least := float32(sameLimit)
	if isOnlyOne {
		least = sameOnlyLimit
	}
	return isOtherSide && isOnlyOne && p.score >= sameOnlyEvent || x.Bound.Contradicts(y.Bound) && p.score+0.2 >= least
}

// markRepeated marks open facts whose value the other answer also has.
func (c *comparison) markRepeated(k int, s, other *side) {
	if c.values == nil {
		c.values = map[value]bool{}
	}
	clear(c.values)
	isOpen := func(i int) bool { return c.states[k][i] == open && s.Claims[i].Class != claim.ClassPolarity }
	for i := range s.Claims {
		if f := &s.Claims[i]; isOpen(i) {
			c.values[value{f.Class, f.Key}] = false
			if f.Raw != "" {
				c.values[value{bareValue, f.Raw}] = false
			}
		}
	}
	if len(c.values) == 0 {
		return
	}
	note := func(v value) {
		if _, isWanted := c.values[v]; isWanted {
			c.values[v] = true
		}
	}
	for j := range other.Claims {
		f := &other.Claims[j]
		if f.Class == claim.ClassPolarity {
			continue
		}
		note(value{f.Class, f.Key})
		if f.Class == claim.ClassCount && f.Unit == "" && !f.IsWorking {
			note(value{bareValue, strings.TrimSuffix(f.Key, "|")})
		}
	}
	for i := range s.Claims {
		if f := &s.Claims[i]; isOpen(i) && (c.values[value{f.Class, f.Key}] || f.Raw != "" &&
			c.values[value{bareValue, f.Raw}]) {
			c.states[k][i] = repeated
		}
	}
}

// value is the value of a claim, which is comparable only within its class.
type value struct {
	class claim.Class
	key   string
}

// bareValue is the class of values that are numbers without their units; no other value has this class.
const bareValue = claim.ClassPolarity

// conflicts records contradictions between the remaining facts: pairs that give different values in one statement.
func (c *comparison) conflicts() {
	isOpen := func(k, i int) bool { return c.states[k][i] == open || c.states[k][i] == repeated }
	pairs := c.pairs(func(i, j int) bool {
		x, y := &c.a.Claims[i], &c.b.Claims[j]
		isOtherWay := x.Class == claim.ClassPercent && x.Unit != y.Unit // 六折 (at 60%) means 优惠 40% (40% off)
		return !x.Agrees(y) && !x.IsLoose && !y.IsLoose && (x.Class == y.Class || areSums(x, y)) &&
			x.IsWorking == y.IsWorking && (!isOtherWay || c.isShort())
	}, isOpen, nil)
	c.score(pairs)
	alone := [2]map[measure]string{c.alone(0, measureOf, open), c.alone(1, measureOf, open)}
	pairs = slices.DeleteFunc(pairs, func(p pair) bool { return p.score < c.leastOf(p, alone) })
	sortPairs(pairs)
	for _, p := range pairs {
		x := &c.a.Claims[p.i]
		if isOpen(0, p.i) && isOpen(1, p.j) && (x.Class < claim.ClassSet || c.areOfOneThing(p)) {
			c.conflict(p.i, p.j, kindOf(x))
		}
	}
}

// leastOf returns the minimum similarity at which two facts count as being about the same thing, given the measures for
// which each answer has only one open value.
func (c *comparison) leastOf(p pair, alone [2]map[measure]string) float32 {
	least := c.least(p)
	x, y := &c.a.Claims[p.i], &c.b.Claims[p.j]
	if !isOtherUnit(x, y) && x.IsRange() == y.IsRange() && alone[0][measureOf(x)] != "" && alone[1][measureOf(y)] != "" {
		least *= 0.2
		if x.Class == claim.ClassDate || x.Class == claim.ClassTime || x.Class == claim.ClassURL {
			least *= 0.4
		}
		isBare := len(c.surroundings(c.a, p.i).Entries) == 0 || len(c.surroundings(c.b, p.j).Entries) == 0
		if c.isShort() || isBare || x.IsName() && areLookalikes(x.Key, y.Key) {
			least = 0
		}
	}
	if x.Class < claim.ClassDate && claim.AreFarApart(x, y) && x.Raw != y.Raw && !c.isShort() {
		least = max(least, surely)
	}
	return least
}

// areSums reports whether two facts may be sums of money: one of them is, and both are at least 100 and of a similar
// size.
func areSums(x, y *claim.Claim) bool {
	return (x.Class == claim.ClassMoney || y.Class == claim.ClassMoney) && min(x.Amount(), y.Amount()) >= 100 &&
		!claim.AreFarApart(x, y)
}

// measure is the quantity that a fact measures, without its value.
type measure struct {
	class claim.Class
	unit  string // set for counts; finelyOf sets it for all values
}

func measureOf(f *claim.Claim) measure {
	if f.Class == claim.ClassCount {
		return measure{f.Class, f.Unit}
	}
	return measure{f.Class, ""}
}

// alone maps the measures of an answer's facts in the given states to their values; a measure whose facts have
// different values has an empty one. of returns the measure of a fact.
func (c *comparison) alone(k int, of func(*claim.Claim) measure, states ...state) map[measure]string {
	values := map[measure]string{}
	s := c.sideOf(k)
	for i := range s.Claims {
		f := &s.Claims[i]
		if !slices.Contains(states, c.states[k][i]) || f.IsWorking {
			continue
		}
		if value, isKnown := values[of(f)]; isKnown && value != f.Key {
			values[of(f)] = ""
		} else if !isKnown {
			values[of(f)] = f.Key
		}
	}
	return values
}

// finelyOf returns a fact's measure with the unit in which its value is written, so that 90 days and 15 minutes have
// different measures.
func finelyOf(f *claim.Claim) measure {
	_, unit, _ := strings.Cut(f.Value, " ")
	return measure{f.Class, unit}
}

// isAlike reports whether both answers are short, or about half of their sentences or more are equal, so that they
// differ in some places but are not paraphrases.
func (c *comparison) isAlike() bool {
	if c.a.part != nil {
		return false
	}
	count := 0
	for _, isSettled := range c.a.isSettled {
		if isSettled {
			count++
		}
	}
	return 2*count >= len(c.a.Sentences)-1 && 2*count >= len(c.b.Sentences)-1 || c.isShort()
}

// isShort reports whether both answers consist of only a sentence or two.
func (c *comparison) isShort() bool { return c.a.length() <= 2 && c.b.length() <= 2 }

// stray compares values that only one answer has with values that both have, because a statement may occur twice in
// one answer and once in the other.
func (c *comparison) stray() {
	isStray := func(k, i int) bool {
		return c.states[k][i] == open && !c.sideOf(k).isSettled[c.sideOf(k).Claims[i].Sentence]
	}
	pairs := c.pairs(
		func(i, j int) bool {
			x, y := &c.a.Claims[i], &c.b.Claims[j]
			return x.Class < claim.ClassSet && x.Class != claim.ClassVerdict && x.Class != claim.ClassWeekday &&
				x.IsWorking == y.IsWorking && (x.Unit == y.Unit || x.Class > claim.ClassTime || x.Raw == y.Raw && x.Raw != "") &&
				!x.Agrees(y)
		},
		func(k, i int) bool {
			return !c.sideOf(k).isSettled[c.sideOf(k).Claims[i].Sentence] && (isStray(k, i) || c.states[k][i] == matched)
		}, isStray)
	c.score(pairs)
	pairs = slices.DeleteFunc(pairs, func(p pair) bool {
		x, y := &c.a.Claims[p.i], &c.b.Claims[p.j]
		switch {
		case x.Class == claim.ClassVersion && areLookalikes(x.Key, y.Key):
			return p.score < 0.25
		case x.Class == claim.ClassCitation && areOfOneSection(x.Key, y.Key):
			return p.score < sameRepeated
		case x.Class == claim.ClassCitation:
			return p.score < sameSet
		}
		return p.score < sameStray
	})
	sortPairs(pairs)
	for _, p := range pairs {
		if isStray(0, p.i) == isStray(1, p.j) {
			continue
		}
		c.contradiction(p.i, p.j, kindOf(&c.a.Claims[p.i]))
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

// least returns the minimum similarity from which leastOf starts, without regard to the measures.
func (c *comparison) least(p pair) float32 {
	x, y := &c.a.Claims[p.i], &c.b.Claims[p.j]
	isRepeated := c.states[0][p.i] == repeated || c.states[1][p.j] == repeated
	switch {
	case x.Class >= claim.ClassSet && c.companions(p.i, p.j) > 0: // the same section, amount or date is next to both
		return sameStatement
	case x.Class >= claim.ClassSet && isRepeated:
		return clearly
	case x.Class >= claim.ClassSet:
		return sameSet
	case x.Class == claim.ClassVerdict:
		if x.Sentence == 0 && y.Sentence == 0 {
			return 0
		}
		return clearly
	case x.Class == claim.ClassChoice:
		return 0
	case x.Class == claim.ClassWork:
		return sameRepeated
	case x.Class == claim.ClassWeekday && x.IsRange() != y.IsRange():
		return surely
	case x.Class == claim.ClassWeekday:
		return sameSet
	case isRepeated:
		return sameRepeated
	case isOtherUnit(x, y):
		return sameSet
	case x.IsRange() != y.IsRange():
		return sameRepeated
	case x.Class == claim.ClassCount && x.Unit != y.Unit, x.Class != y.Class:
		return sameRepeated
	case x.Class == claim.ClassCount && x.Unit == "" && y.Unit == "" && len(x.Raw) >= 5 && areLookalikes(x.Raw, y.Raw):
		return sameStatement / 3
	case x.IsName():
		if areLookalikes(x.Key, y.Key) && len(x.Key) >= 8 {
			return 0
		}
		if areLookalikes(x.Key, y.Key) {
			return sameStatement / 3
		}
	}
	return sameStatement
}

// areOfOneSection reports whether two citations name different parts of one section: 12(b) and 12(d).
func areOfOneSection(x, y string) bool {
	last := strings.LastIndexByte(x, '-')
	return last > 0 && last == strings.LastIndexByte(y, '-') && x[:last] == y[:last]
}

// isOtherUnit reports whether two quantities differ in number and in unit.
func isOtherUnit(x, y *claim.Claim) bool {
	return x.Class < claim.ClassMoney && x.Unit != y.Unit && x.Raw != y.Raw && x.Unit != "" && y.Unit != ""
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

// conflict records that two facts without another counterpart contradict each other.
func (c *comparison) conflict(i, j int, kind Kind) {
	c.states[0][i], c.states[1][j] = conflicting, conflicting
	c.contradiction(i, j, kind)
}

func (c *comparison) contradiction(i, j int, kind Kind) {
	x, y := c.a.export(&c.a.Claims[i]), c.b.export(&c.b.Claims[j])
	c.found = append(c.found, Difference{Kind: kind, IsConflict: true, Label: x.About, A: &x, B: &y})
	c.a.isTurned[c.a.Claims[i].Sentence] = c.a.isTurned[c.a.Claims[i].Sentence] || kind == Polarity
}

// idioms are words with a number that state no quantity: for the first time, the next day, the next year, a piece.
var idioms = []string{"第一次", "第二天", "第二年", "一块"}

// isIdiom reports whether a fact is 一 with a measure word, as in 再加一张 (add another one) and 扣一次 (deduct once), or one
// of the idioms. An answer may leave it out, although it contradicts a different number in the same place.
func (s *side) isIdiom(f *claim.Claim) bool {
	return f.Class == claim.ClassCount && f.Raw == "1" && s.At(f.From) == '一' || slices.Contains(idioms, s.Slice(f.Span))
}

// The names for Monday to Friday as a whole, and for the weekend.
var workdays, weekend = []string{"工作日", "weekdays"}, []string{"周末", "weekend", "双休日"}

// otherNames returns words that state a fact without being read as facts: 十节 for 10 节 (10 lessons), 周末 (weekend) for
// Saturday. An answer that contains one of them does not leave the fact out. An answer without them may still state it.
func (s *side) otherNames(f *claim.Claim) []string {
	switch {
	case f.Class == claim.ClassWeekday:
		first, last := f, f
		if f.IsRange() {
			first, last = &s.Claims[f.First], &s.Claims[f.Last]
		}
		switch {
		case first.Key == passage.Weekdays[1] && last.Key == passage.Weekdays[5]:
			return workdays
		case first.Key == passage.Weekdays[6] || first.Key == passage.Weekdays[7]:
			return weekend
		}
	case f.IsBare():
		noun := s.At(s.Blanks(f.To))
		if n, err := strconv.Atoi(f.Raw); err == nil && n > 1 && n < 100 && passage.IsHan(noun) {
			return hanNumerals(n, string(noun))
		}
	}
	return nil
}

// hanNumerals returns the ways to write a number from 1 to 99 in Chinese characters before a noun: 十节 for 10, 二节 and
// 两节 for 2.
func hanNumerals(n int, noun string) (names []string) {
	digits := []rune("〇一二三四五六七八九")
	name := ""
	if n >= 20 {
		name = string(digits[n/10])
	}
	if n >= 10 {
		name += "十"
	}
	if n%10 > 0 {
		name += string(digits[n%10])
	}
	if names = append(names, name+noun); n == 2 {
		names = append(names, "两"+noun)
	}
	return names
}

// isNamed reports whether the answer contains a name that does not continue a number: 十节 (10 lessons), but not 二十节
// (20 lessons), and 工作日 (weekdays), but not 15 个工作日 (15 weekdays).
func (s *side) isNamed(name string) bool {
	for i := range s.Runes {
		if s.Has(i, name) && passage.ChineseDigit(s.At(i-1)) <= 0 && !passage.IsDigit(s.At(i-1)) &&
			!strings.ContainsRune("十百千万个第", s.At(i-1)) {
			return true
		}
	}
	return false
}

// mostSought is the maximum number of facts of an answer that are looked for in the text of the other one.
const mostSought = 20

// omissions records the facts that only one answer has.
func (c *comparison) omissions() {
	for k, s := range []*side{c.a, c.b} {
		sought := 0
		for i := range s.Claims {
			f := &s.Claims[i]
			if c.states[k][i] != open || f.Class == claim.ClassPolarity || f.Class >= claim.ClassSet || s.isIdiom(f) {
				continue
			}
			if names := s.otherNames(f); len(names) > 0 && sought < mostSought {
				if sought++; slices.ContainsFunc(names, c.sideOf(1-k).isNamed) {
					continue
				}
			}
			x := s.export(f)
			d := Difference{Kind: kindOf(f), Label: x.About, A: &x}
			if k == 1 {
				d.A, d.B = nil, &x
			}
			c.found = append(c.found, d)
		}
	}
}
