package facts

import (
	"cmp"
	"context"
	"slices"

	"wending/db/measure/claim"
	"wending/db/measure/passage"
)

// Differ is the most serious way in which the facts of a question's answers differ.
type Differ string

// How the facts of answers differ, the most serious first.
const (
	Conflict Differ = "conflict" // two answers contradict each other
	Omission Differ = "omission" // a fact is in some answers, but not in all
	None     Differ = "none"
)

// Differs lists all values of Differ.
var Differs = []Differ{Conflict, Omission, None}

// A Reading describes how the answers to one question differ in what they state.
type Reading struct {
	Differ     Differ
	Statements []Statement // the statements on which the answers differ, conflicts first
}

// A Statement is something that the answers state differently, or that some of them leave out.
type Statement struct {
	Kind       Kind
	Label      string // the words around it, at most 20 characters
	IsConflict bool
	Values     []Value // the most frequent first
	Missing    []int   // the answers that do not have it
}

// A Value is a version of a statement in some answers.
type Value struct {
	Value  string // canonical
	Text   string // as written in the first answer with this value
	Runs   []int  // the answers that have this value
	Places []Place
}

// A Place is where an answer states something: from byte Start up to, but not including, byte End.
type Place struct{ Answer, Start, End int }

// mostWork is the maximum number of bytes that are compared for a question. If comparing all answers with each other
// would exceed it, each answer is compared only with the most frequent one.
const mostWork = 4 << 20

// A Reader compares the answers to one question. It reads each answer only once, unless the answers exceed mostKept.
type Reader struct {
	workspace
	answers map[string]*answer
	memory  claim.Memory
	kept    int // bytes of the answers kept in prepared form
}

// mostKept is the maximum number of bytes of answers that are kept in prepared form, not counting the first one; the
// prepared form is about 20 times as large as the answer.
const mostKept = 1 << 20

// read returns an answer in its prepared form.
func (r *Reader) read(text string) *answer {
	if d := r.answers[text]; d != nil {
		return d
	}
	if r.kept > 0 && r.kept+len(text) > mostKept {
		d := &answer{Document: r.memory.Read(text)}
		d.signatures = d.Signatures()
		return d
	}
	r.kept += len(text)
	if r.answers == nil {
		r.answers = map[string]*answer{}
	}
	d := &answer{Document: r.memory.Learn(text)}
	d.signatures = d.Signatures()
	r.answers[text] = d
	return d
}

// Question compares the answers to one question. The only error is the context's.
func (r *Reader) Question(ctx context.Context, answers []string) (Reading, error) {
	q := r.question(answers)
	if err := q.compare(ctx); err != nil {
		return Reading{}, err
	}
	reading := Reading{Statements: q.statements()}
	switch {
	case len(reading.Statements) == 0:
		reading.Differ = None
	case reading.Statements[0].IsConflict:
		reading.Differ = Conflict
	default:
		reading.Differ = Omission
	}
	return reading, nil
}

// Contradict reports whether two answers contradict each other.
func (r *Reader) Contradict(a, b string) bool {
	return a != b && slices.ContainsFunc(r.compare(r.read(a), r.read(b)).found,
		func(d Difference) bool { return d.IsConflict })
}

// mostCounted is the maximum number of claims that Expected examines in total to count how many times answers state a
// value (see count). Once it is used up, no further difference is explained away. Without a maximum, each of thousands
// of differences would be checked against thousands of claims in every answer.
const mostCounted = 10_000_000

// Expected returns, for each answer to a question, the facts of the standard answer that it contradicts. A is the
// standard answer's version. The only error is the context's.
func (r *Reader) Expected(ctx context.Context, standard string, answers []string) ([][]Difference, error) {
	found := make([][]Difference, len(answers))
	if standard == "" {
		return found, ctx.Err()
	}
	all := make([]compared, len(answers))
	left := mostCounted
	for n, text := range answers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if text == standard {
			continue
		}
		c := r.compare(r.read(standard), r.read(text))
		all[n] = compared{standard: c.a.answer, answer: c.b.answer, links: c.links, left: &left}
		found[n] = slices.DeleteFunc(c.found, func(d Difference) bool { return !d.IsConflict })
		// Both ends of a range may differ.
		found[n] = slices.CompactFunc(found[n], func(x, y Difference) bool { return *x.A == *y.A && *x.B == *y.B })
	}
	for n := range found {
		found[n] = slices.DeleteFunc(found[n], func(d Difference) bool {
			for m := range all {
				if all[m].explains(d, &all[n]) {
					return true
				}
			}
			return false
		})
	}
	return found, nil
}

// compared is an answer that was compared with the standard answer.
type compared struct {
	standard, answer *answer // nil if the answer equals the standard answer
	links            []link
	left             *int // how many more claims may be examined, for all answers

	// index fills these maps. kept marks the facts of the standard answer that the answer also states (a range only if
	// it states both ends), and claims holds the indexes of the answer's claims; both are keyed by the position of the
	// first byte. counts is filled by count.
	kept   map[int]bool
	claims map[int]int
	counts map[*claim.Claim]int
}

// index fills kept and claims, and creates counts, when they are first needed.
func (o *compared) index() {
	if o.kept != nil || o.answer == nil {
		return
	}
	o.kept, o.claims, o.counts = map[int]bool{}, map[int]int{}, map[*claim.Claim]int{}
	isLinked := map[int]bool{}
	for _, l := range o.links {
		isLinked[l.i] = isLinked[l.i] || !l.isCut
	}
	for i, is := range isLinked {
		f := &o.standard.Claims[i]
		if is && (!f.IsRange() || isLinked[f.First] && isLinked[f.Last]) {
			o.kept[placeOf(0, o.standard, i).start] = true
		}
	}
	for i := range o.answer.Claims {
		start := int(o.answer.Start[o.answer.Claims[i].From])
		if _, isKnown := o.claims[start]; !isKnown {
			o.claims[start] = i
		}
	}
}

// explains reports whether this answer shows that another answer only omits the standard answer's value instead of
// contradicting it. This is the case if this answer has the standard answer's value and, at least as often as the other
// answer, the value that seemed to contradict it.
func (o *compared) explains(d Difference, other *compared) bool {
	o.index()
	other.index()
	i, isClaim := other.claims[d.B.Start]
	if !o.kept[d.A.Start] || !isClaim || !isWeighed(&other.answer.Claims[i]) {
		return false
	}
	value := &other.answer.Claims[i]
	times, isKnown := o.count(value)
	least, isOtherKnown := other.count(value)
	return isKnown && isOtherKnown && times >= least
}

// count returns how many times the answer states a value; isKnown is false if too many claims have been examined.
func (o *compared) count(value *claim.Claim) (times int, isKnown bool) {
	if times, isKnown = o.counts[value]; isKnown {
		return times, true
	}
	if *o.left < len(o.answer.Claims) {
		return 0, false
	}
	*o.left -= len(o.answer.Claims)
	for i := range o.answer.Claims {
		if o.answer.Claims[i].Agrees(value) {
			times++
		}
	}
	o.counts[value] = times
	return times, true
}

// question is the state of comparing the distinct answers of a question, the most frequent first.
type question struct {
	*Reader
	texts []string // the documents: the distinct answers
	runs  [][]int  // for each document: the runs whose answers equal it
	nodes []node
	known map[place]int // maps places to the indexes of their nodes
	same  []equality
}

// place identifies a fact of a document.
type place struct{ document, start, end int }

// equality is a pair of places at which two documents state the same thing.
type equality [2]place

// node is a place where a document states something that another document states differently or leaves out, or where
// it makes the same statement as another node.
type node struct {
	Fact // only if the statement differs
	place
	equals, opposites []int // nodes of other documents that state the same thing, or the opposite
	omitters          []int // documents that leave the statement out
	isGrouped         bool
}

func (r *Reader) question(answers []string) *question {
	q := &question{Reader: r, known: map[place]int{}}
	numbers := map[string]int{}
	for run, answer := range answers {
		number, isKnown := numbers[answer]
		if !isKnown {
			number = len(q.runs)
			numbers[answer] = number
			q.runs = append(q.runs, nil)
		}
		q.runs[number] = append(q.runs[number], run)
	}
	slices.SortStableFunc(q.runs, func(x, y []int) int { return len(y) - len(x) })
	for _, runs := range q.runs {
		q.texts = append(q.texts, answers[runs[0]])
	}
	return q
}

// compare relates the statements of the documents: each document is compared with the most frequent one, and then
// with the documents that, like it, state something that the most frequent one does not.
func (q *question) compare(ctx context.Context) error {
	if len(q.texts) < 2 {
		return ctx.Err()
	}
	first, work := q.read(q.texts[0]), 0
	for _, text := range q.texts {
		work += len(text) * (len(q.texts) - 1)
	}
	rests := make([]*answer, len(q.texts))
	for y := 1; y < len(q.texts); y++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := q.workspace.compare(first, q.read(q.texts[y]))
		q.relate(0, y, c)
		if work <= mostWork && len(q.texts) > 2 {
			rests[y] = c.restOfB()
		}
	}
	for x := 1; x < len(rests) && work <= mostWork; x++ {
		for y := x + 1; y < len(rests); y++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if rests[x].part.concerns(rests[y].part) {
				q.relate(x, y, q.workspace.compare(rests[x], rests[y]))
			}
		}
	}
	q.relateEqual()
	return ctx.Err()
}

// restOfB returns the part of the second answer that states what the first one does not.
func (c *comparison) restOfB() *answer {
	document, text := *c.b.Document, *c.b.Text // copies, because the whole answer keeps its sentences
	text.Sentences = nil
	document.Text, document.Claims = &text, nil
	rest := &answer{Document: &document, part: &part{length: len(c.b.Sentences), left: map[measure]bool{}}}
	for n, x := range c.b.Sentences {
		claims := c.b.factsOf(n)
		if !x.IsName && c.isKnown(n, claims) {
			continue
		}
		for j := claims.From; j < claims.To; j++ {
			f := c.b.Claims[j]
			shift := len(document.Claims) - j
			f.Sentence, f.First, f.Last = len(document.Sentences), f.First+shift, f.Last+shift
			document.Claims = append(document.Claims, f)
			rest.part.note(&f, !c.isLeft(j))
		}
		document.Sentences = append(document.Sentences, x)
		rest.signatures = append(rest.signatures, c.b.signatures[n])
	}
	return rest
}

// isLeft reports whether a claim of the second answer has no counterpart.
func (c *comparison) isLeft(j int) bool {
	return c.states[1][j] == open || c.states[1][j] == repeated
}

// isKnown reports whether a sentence of the second answer states only things that the first one states.
func (c *comparison) isKnown(n int, claims passage.Span) bool {
	for j := claims.From; j < claims.To; j++ {
		if c.isLeft(j) {
			return false
		}
	}
	return c.b.isSettled[n] || claims.To > claims.From
}

// concerns reports whether two parts can contradict each other or state the same thing.
func (p *part) concerns(o *part) bool {
	if p.denies || o.denies {
		return true
	}
	for m := range p.left {
		if o.left[m] {
			return true
		}
	}
	return false
}

// note records a claim of the part; isKnown reports that the other answer has its counterpart.
func (p *part) note(f *claim.Claim, isKnown bool) {
	p.isKnown = append(p.isKnown, isKnown)
	switch {
	case isKnown || f.IsLoose:
	case f.Class == claim.ClassPolarity:
		p.denies = p.denies || f.Polarity.IsNegative()
	default:
		p.left[measureOf(f)] = true
	}
}

// relate records how the statements of two documents are related.
func (q *question) relate(x, y int, c *comparison) {
	for _, l := range c.links {
		if !l.isCut {
			q.same = append(q.same, equality{placeOf(x, c.a.answer, l.i), placeOf(y, c.b.answer, l.j)})
		}
	}
	for _, d := range c.found {
		switch {
		case d.IsConflict:
			i, j := q.node(x, *d.A), q.node(y, *d.B)
			q.nodes[i].Kind = d.Kind
			q.nodes[i].opposites, q.nodes[j].opposites = append(q.nodes[i].opposites, j), append(q.nodes[j].opposites, i)
		case d.A != nil:
			i := q.node(x, *d.A)
			q.nodes[i].omitters = append(q.nodes[i].omitters, y)
		default:
			j := q.node(y, *d.B)
			q.nodes[j].omitters = append(q.nodes[j].omitters, x)
		}
	}
}

// relateEqual adds to each node the places at which other documents make the same statement. A statement that all
// documents share has no node.
func (q *question) relateEqual() {
	for _, e := range q.same {
		i, isKnown := q.known[e[0]]
		j, isOtherKnown := q.known[e[1]]
		switch {
		case !isKnown && !isOtherKnown:
			continue
		case !isKnown:
			i = q.add(node{place: e[0]})
		case !isOtherKnown:
			j = q.add(node{place: e[1]})
		}
		q.nodes[i].equals, q.nodes[j].equals = append(q.nodes[i].equals, j), append(q.nodes[j].equals, i)
	}
}

// placeOf returns the place of a claim; both ends of a range have the place of the whole range.
func placeOf(document int, d *answer, i int) place {
	first, last := &d.Claims[i], &d.Claims[i]
	if first.IsRange() {
		first, last = &d.Claims[first.First], &d.Claims[last.Last]
	}
	return place{document, int(d.Start[first.From]), int(d.End[last.To-1])}
}

// node returns the index of the node at the place of a fact, which it adds if there is none.
func (q *question) node(document int, f Fact) int {
	at := place{document, f.Start, f.End}
	if n, isKnown := q.known[at]; isKnown {
		return n
	}
	return q.add(node{Fact: f, place: at})
}

func (q *question) add(n node) int {
	q.known[n.place] = len(q.nodes)
	q.nodes = append(q.nodes, n)
	return len(q.nodes) - 1
}

// statements groups the nodes into statements: all conflicts first, then the omissions. Each pass starts with the most
// frequent answer, and groups each of its nodes with the counterparts in other answers.
func (q *question) statements() []Statement {
	order := make([]int, len(q.nodes))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(x, y int) int {
		a, b := q.nodes[x].place, q.nodes[y].place
		return cmp.Or(a.document-b.document, a.start-b.start, a.end-b.end)
	})
	var list []Statement
	for _, n := range order {
		if !q.nodes[n].isGrouped && len(q.nodes[n].opposites) > 0 {
			list = q.appendConflict(list, n)
		}
	}
	for _, n := range order {
		if !q.nodes[n].isGrouped && len(q.nodes[n].omitters) > 0 {
			list = append(list, q.omission(n))
		}
	}
	return list
}

// appendConflict adds the statement formed by a node and its opposites. Each document contributes only one value to
// it.
func (q *question) appendConflict(list []Statement, n int) []Statement {
	anchor := &q.nodes[n]
	s := q.begin(anchor)
	s.IsConflict = true
	isListed := map[int]bool{anchor.document: true}
	first := Value{Value: anchor.Value, Text: anchor.Text}
	q.say(&first, anchor)
	var others []Value
	for _, m := range anchor.opposites {
		other := &q.nodes[m]
		if isListed[other.document] {
			continue
		}
		isListed[other.document], other.isGrouped = true, true
		k := slices.IndexFunc(others, func(v Value) bool { return v.Value == other.Value })
		if k < 0 {
			k = len(others)
			others = append(others, Value{Value: other.Value, Text: other.Text})
		}
		q.say(&others[k], other)
	}
	if len(others) == 0 {
		return list
	}
	for _, m := range anchor.equals {
		if equal := &q.nodes[m]; !isListed[equal.document] {
			isListed[equal.document], equal.isGrouped = true, true
			q.say(&first, equal)
		}
	}
	anchor.isGrouped = true
	s.Values = append([]Value{first}, others...)
	slices.SortStableFunc(s.Values, func(x, y Value) int { return len(y.Runs) - len(x.Runs) })
	s.Missing = q.missing(anchor, isListed)
	return append(list, s)
}

// omission returns the statement formed by a node and its equals, which other documents leave out.
func (q *question) omission(n int) Statement {
	anchor := &q.nodes[n]
	s := q.begin(anchor)
	isListed := map[int]bool{anchor.document: true}
	value := Value{Value: anchor.Value, Text: anchor.Text}
	anchor.isGrouped = true
	q.say(&value, anchor)
	for _, m := range anchor.equals {
		if equal := &q.nodes[m]; !isListed[equal.document] && !equal.isGrouped {
			isListed[equal.document], equal.isGrouped = true, true
			q.say(&value, equal)
		}
	}
	s.Values = []Value{value}
	s.Missing = q.missing(anchor, isListed)
	return s
}

func (q *question) begin(anchor *node) Statement {
	return Statement{Kind: anchor.Kind, Label: anchor.About}
}

// say adds the runs of a node's document to a value.
func (q *question) say(v *Value, n *node) {
	for _, run := range q.runs[n.document] {
		v.Runs = append(v.Runs, run)
		v.Places = append(v.Places, Place{Answer: run, Start: n.start, End: n.end})
	}
	slices.Sort(v.Runs)
	slices.SortFunc(v.Places, func(x, y Place) int { return x.Answer - y.Answer })
}

// missing returns the runs whose answers leave out what a node states, except documents that are already listed.
func (q *question) missing(anchor *node, isListed map[int]bool) []int {
	var runs []int
	for _, document := range anchor.omitters {
		if !isListed[document] {
			isListed[document] = true
			runs = append(runs, q.runs[document]...)
		}
	}
	slices.Sort(runs)
	return runs
}
