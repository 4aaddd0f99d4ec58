package facts

import (
	"cmp"
	"context"
	"slices"
)

// Differ is how much the facts of a question's answers differ.
type Differ string

// How the facts of answers differ, the gravest first.
const (
	Conflict Differ = "conflict" // two answers contradict each other
	Omission Differ = "omission" // a fact is in some answers, but not in all
	None     Differ = "none"
)

// Differs are all values of Differ.
var Differs = []Differ{Conflict, Omission, None}

// A Reading is what the answers of one question state, and where they differ.
type Reading struct {
	Differ     Differ
	Statements []Statement // those in which the answers differ, conflicts first
	Each       [][]Fact    // by answer, in the order of their places
}

// A Statement is one thing that answers say differently, or that some of them leave out.
type Statement struct {
	Kind       Kind
	Label      string // the words around it, at most 20 characters
	IsConflict bool
	Values     []Value // the most frequent first
	Missing    []int   // answers that do not have it
}

// A Value is what some answers say of a statement.
type Value struct {
	Value  string // canonical
	Text   string // as the first of the answers writes it
	Runs   []int  // the answers that say so
	Places []Place
}

// A Place is where an answer states something: from its byte Start up to before End.
type Place struct{ Answer, Start, End int }

// mostWork is how many bytes are compared for a question. Where comparing all answers with each other would take more, each is
// compared with the most frequent one.
const mostWork = 4 << 20

// Question reads the answers of one question. The only error is the context's.
func Question(ctx context.Context, answers []string) (Reading, error) {
	q := newQuestion(answers)
	if err := q.compare(ctx); err != nil {
		return Reading{}, err
	}
	reading := Reading{Statements: q.statements(), Each: make([][]Fact, len(answers))}
	for k, d := range q.documents {
		list := d.exported()
		for _, run := range q.runs[k] {
			reading.Each[run] = list
		}
	}
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

// Expected returns the facts of a standard answer which an answer contradicts. A is the standard's.
func Expected(standard, answer string) []Difference {
	return slices.DeleteFunc(Compare(standard, answer), func(d Difference) bool { return !d.IsConflict })
}

// question is what is known of the different answers of a question, the most frequent first.
type question struct {
	documents []*answer
	runs      [][]int // by document: the answers that are equal to it
	nodes     []node
	known     map[place]int // by place: the number of the node
	numbers   [][]int       // by document and fact: the number of its node, plus 1
}

// place is where a document states something.
type place struct{ document, start, end int }

// node is something that a document states.
type node struct {
	Fact
	place
	equals, opposites []int // nodes of other documents that state the same, or the contrary
	omitters          []int // documents that leave it out
	isGrouped         bool
}

func newQuestion(answers []string) *question {
	q := &question{known: map[place]int{}}
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
		d := read(answers[runs[0]])
		q.documents = append(q.documents, d)
		q.numbers = append(q.numbers, make([]int, len(d.Claims)))
	}
	return q
}

// compare finds how the statements of the documents are related.
func (q *question) compare(ctx context.Context) error {
	work := 0
	for _, d := range q.documents {
		work += len(d.Source) * (len(q.documents) - 1)
	}
	for x := range q.documents {
		if x > 0 && work > mostWork {
			break
		}
		for y := x + 1; y < len(q.documents); y++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			q.relate(x, y, compare(q.documents[x], q.documents[y]))
		}
	}
	return ctx.Err()
}

func (q *question) relate(x, y int, c *comparison) {
	for _, l := range c.links {
		if l.isCut {
			continue
		}
		i, j := q.nodeOf(x, l.i), q.nodeOf(y, l.j)
		q.nodes[i].equals, q.nodes[j].equals = append(q.nodes[i].equals, j), append(q.nodes[j].equals, i)
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

// nodeOf returns the number of a fact of a document.
func (q *question) nodeOf(document, i int) int {
	n := &q.numbers[document][i]
	if *n == 0 {
		d := q.documents[document]
		*n = q.node(document, d.export(&d.Claims[i])) + 1
	}
	return *n - 1
}

// node returns the number of what a document states.
func (q *question) node(document int, f Fact) int {
	at := place{document, f.Start, f.End}
	n, isKnown := q.known[at]
	if !isKnown {
		n = len(q.nodes)
		q.known[at] = n
		q.nodes = append(q.nodes, node{Fact: f, place: at})
	}
	return n
}

// statements groups the nodes: those of the most frequent answer with their counterparts, then what is left of the next one.
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

// appendConflict adds the statement that a node and its opposites make. A document is in it with one value only.
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

// omission is the statement that a node and its equals make, and other documents leave out.
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

// say adds the answers of a node's document to a value.
func (q *question) say(v *Value, n *node) {
	for _, run := range q.runs[n.document] {
		v.Runs = append(v.Runs, run)
		v.Places = append(v.Places, Place{Answer: run, Start: n.start, End: n.end})
	}
	slices.Sort(v.Runs)
	slices.SortFunc(v.Places, func(x, y Place) int { return x.Answer - y.Answer })
}

// missing returns the answers that leave a node out.
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
