package facts

import (
	"slices"

	"wending/db/measure/claim"
	"wending/db/measure/passage"
)

// nearbyClaims is how many claims before and after a claim are examined for companions.
const nearbyClaims = 6

// companions counts the claims near i whose counterparts are near j: 1 for one in the same sentence, 0.5 for one on the
// same line.
func (c *comparison) companions(i, j int) float32 {
	count := float32(0)
	x, y := &c.a.Claims[i], &c.b.Claims[j]
	for k := max(0, i-nearbyClaims); k < min(len(c.a.Claims), i+nearbyClaims+1); k++ {
		m := int(c.counterparts[k]) - 1
		if k == i || m < 0 || m < j-2*nearbyClaims || m > j+2*nearbyClaims || c.a.Claims[k].Class == claim.ClassPolarity {
			continue
		}
		f, g := &c.a.Claims[k], &c.b.Claims[m]
		isSentence := f.Sentence == x.Sentence && g.Sentence == y.Sentence
		isLine := c.a.lineOf(f) == c.a.lineOf(x) && c.b.lineOf(g) == c.b.lineOf(y)
		switch {
		case isSentence:
			count++
		case isLine:
			count += 0.5
		}
	}
	return count
}

// lineOf returns the line that contains a claim. All cells of a row are on one line, represented by the row's label.
func (s *side) lineOf(f *claim.Claim) passage.Span {
	x := s.Sentences[f.Sentence]
	if x.Row.From < x.Row.To {
		return x.Row
	}
	return x.Line
}

// beside returns the words right before and after a claim.
func (c *comparison) beside(s *side, i int) *passage.Vector {
	if s.besides[i] != nil {
		return s.besides[i]
	}
	f := &s.Claims[i]
	before, behind := 7, 5
	if passage.IsLatin(s.At(f.From-1)) || passage.IsLatin(s.At(f.From-2)) {
		before = 24
	}
	if passage.IsLatin(s.At(f.To)) || passage.IsLatin(s.At(f.To+1)) {
		behind = 20
	}
	x := s.Sentences[f.Sentence]
	c.Begin()
	c.collect(s, passage.Span{From: max(x.From, f.From-before), To: min(x.To, f.To+behind)}, 1, f)
	s.besides[i] = c.Finished()
	return s.besides[i]
}

// touching compares the words right next to two claims. It returns the share that both claims have, from 0 to 1.
func (c *comparison) touching(i, j int) float32 {
	return c.Shared(c.beside(c.a, i), c.beside(c.b, j))
}

// noteCounterparts records which claims state the same thing.
func (c *comparison) noteCounterparts() {
	c.counterparts = make([]int32, len(c.a.Claims))
	for _, l := range c.links {
		if !l.isCut {
			c.counterparts[l.i] = int32(l.j) + 1
		}
	}
}

// Evidence for or against two claims with different values being about the same thing.
const (
	always      = iota
	similar     // the words around them
	touch       // the words right next to them
	companions  // the claims near them
	rivals      // how well each fits other claims without a counterpart
	elsewhere   // how well each fits claims that have a counterpart
	repetition  // how many of the two values the other answer also has
	otherUnit   // they are counts of different things
	otherClass  // only one of them has a unit
	uniqueness  // no other value of the same measure, or in the same unit, is left in either answer
	remaining   // no value in the same unit is left in either answer, except values that the other has elsewhere
	distance    // one of them is many times the other
	oneRange    // only one of them is a range
	bareDigits  // neither has a unit
	resemblance // they are spelled alike
	calculation // only one of them is part of a calculation
	evidences
)

// evidence holds the amount of each kind of evidence.
type evidence [evidences]float32

// weights were fitted by logistic regression on two thirds of the labelled pairs; remaining was added later, without
// changing the others.
var weights = evidence{
	always: 0.25, similar: 8, touch: 2.4, companions: 0.4, rivals: -3, elsewhere: -2.1, repetition: -0.8, otherUnit: -4.7,
	otherClass: -4.1, uniqueness: 1.3, remaining: 1.5, distance: -6, oneRange: -0.1, bareDigits: -1, resemblance: 0.6,
	calculation: -1.3,
}

func (e *evidence) total() float32 {
	sum := float32(0)
	for n, v := range e {
		sum += weights[n] * v
	}
	return sum
}

// leastEvidence is the evidence above which two claims count as being about the same thing.
const leastEvidence = 0.6

// isWeighed reports whether evidence decides about a claim's counterpart.
func isWeighed(f *claim.Claim) bool {
	return f.Class <= claim.ClassCitation && f.Class != claim.ClassWork || f.IsName()
}

// isInRatio reports whether a number is part of a ratio, such as 9:1.
func (s *side) isInRatio(f *claim.Claim) bool {
	return f.Class == claim.ClassCount && (s.At(f.To) == ':' && passage.IsDigit(s.At(f.To+1)) ||
		s.At(f.From-1) == ':' && passage.IsDigit(s.At(f.From-2)))
}

// weighed records contradictions between the remaining values: pairs for which there is enough evidence that they
// belong to one statement.
func (c *comparison) weighed() {
	isOpen := func(k, i int) bool { return c.states[k][i] == open || c.states[k][i] == repeated }
	pairs := c.pairs(func(i, j int) bool {
		x, y := &c.a.Claims[i], &c.b.Claims[j]
		isOtherWay := x.Class == claim.ClassPercent && x.Unit != y.Unit // 六折 (at 60%) means 优惠 40% (40% off)
		isOtherWay = isOtherWay || x.Class == claim.ClassPercent && c.b.isInRatio(y) ||
			y.Class == claim.ClassPercent && c.a.isInRatio(x) // 9:1 means 10 %
		return isWeighed(x) && isWeighed(y) && !x.Agrees(y) && !x.IsLoose && !y.IsLoose && !isOtherWay
	}, isOpen, nil)
	if len(pairs) == 0 {
		return
	}
	c.score(pairs)
	c.weighEvidence(pairs)
	pairs = slices.DeleteFunc(pairs, func(p pair) bool { return p.score < leastEvidence })
	sortPairs(pairs)
	for _, p := range pairs {
		if isOpen(0, p.i) && isOpen(1, p.j) {
			c.conflict(p.i, p.j, kindOf(&c.a.Claims[p.i]))
		}
	}
}

// weighEvidence replaces the score of each pair, which was the similarity of its two facts, with the evidence that both
// are about the same thing.
func (c *comparison) weighEvidence(pairs []pair) {
	best := [2][][2]float32{make([][2]float32, len(c.a.Claims)), make([][2]float32, len(c.b.Claims))}
	for _, p := range pairs { // the two highest similarities of each claim
		for k, i := range [2]int{p.i, p.j} {
			known := best[k][i]
			switch {
			case p.score > known[0]:
				best[k][i] = [2]float32{p.score, known[0]}
			case p.score > known[1]:
				best[k][i] = [2]float32{known[0], p.score}
			}
		}
	}
	settled := c.elsewhere()
	alone := [2]map[measure]string{c.alone(0, measureOf, open), c.alone(1, measureOf, open)}
	aloneInUnit := [2]map[measure]string{c.alone(0, finelyOf, open), c.alone(1, finelyOf, open)}
	leftInUnit := [2]map[measure]string{c.alone(0, finelyOf, open, repeated), c.alone(1, finelyOf, open, repeated)}
	for n, p := range pairs {
		x, y := &c.a.Claims[p.i], &c.b.Claims[p.j]
		var e evidence
		e[always], e[similar], e[touch] = 1, p.score, c.touching(p.i, p.j)
		e[companions] = min(2, c.companions(p.i, p.j))
		for k, i := range [2]int{p.i, p.j} {
			rival := best[k][i][0]
			if rival == p.score {
				rival = best[k][i][1]
			}
			e[rivals] += rival
			e[elsewhere] += settled[k][i]
			e[repetition] += one(c.states[k][i] == repeated)
		}
		e[otherUnit] = otherUnits(x, y)
		e[otherClass] = one(x.Class != y.Class)
		if !isOtherUnit(x, y) && x.IsRange() == y.IsRange() {
			isAlone := alone[0][measureOf(x)] != "" && alone[1][measureOf(y)] != ""
			unit, isSameUnit := finelyOf(x), finelyOf(x) == finelyOf(y)
			isAloneInUnit := isSameUnit && aloneInUnit[0][unit] != "" && aloneInUnit[1][unit] != ""
			e[uniqueness] = one(isAlone || isAloneInUnit)
			isLeft := isSameUnit && leftInUnit[0][unit] != "" && leftInUnit[1][unit] != ""
			e[remaining] = one(isLeft && !isAlone && !isAloneInUnit)
		}
		e[distance] = one(x.Class < claim.ClassDate && claim.AreFarApart(x, y))
		e[oneRange] = one(x.IsRange() != y.IsRange())
		e[bareDigits] = one(x.IsBare() && y.IsBare())
		e[calculation] = one(x.IsWorking != y.IsWorking)
		e[resemblance] = one(x.IsName() && areLookalikes(x.Key, y.Key))
		pairs[n].score = e.total()
	}
}

// elsewhere returns how well each claim without a counterpart, in either answer, fits those claims of the other answer
// that have a counterpart.
func (c *comparison) elsewhere() [2][]float32 {
	best := [2][]float32{make([]float32, len(c.a.Claims)), make([]float32, len(c.b.Claims))}
	isLeft := func(k, i int) bool { return c.states[k][i] == open || c.states[k][i] == repeated }
	for _, p := range c.pairs(func(i, j int) bool {
		x, y := &c.a.Claims[i], &c.b.Claims[j]
		return isWeighed(x) && x.Class == y.Class && x.Unit == y.Unit
	}, func(int, int) bool { return true }, isLeft) {
		score := c.similarity(p.i, p.j)
		if isLeft(0, p.i) {
			best[0][p.i] = max(best[0][p.i], score)
		} else {
			best[1][p.j] = max(best[1][p.j], score)
		}
	}
	return best
}

// otherUnits returns how much the units of two claims of a class differ, from 0 to 1. The unit 个, and no unit at all,
// differ less from other units, because they can count anything.
func otherUnits(x, y *claim.Claim) float32 {
	switch {
	case x.Class != y.Class || x.Unit == y.Unit:
		return 0
	case x.Class == claim.ClassCount && (x.Unit == "个" || y.Unit == "个" || x.Unit == "" || y.Unit == ""):
		return 0.4
	}
	return 1
}

func one(b bool) float32 {
	if b {
		return 1
	}
	return 0
}
