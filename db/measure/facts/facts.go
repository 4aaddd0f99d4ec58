// Package facts compares the claims of answers: it finds the claims that two answers share, those on which they
// contradict each other, and those that only one of them makes. It is deterministic and offline. testdata/README.md
// defines which claims count as the same, and testdata/floors.json records how well the package finds them.
package facts

import (
	"context"

	"wending/db/measure/claim"
)

// Kind says what a fact states, such as a number, a date or a choice.
type Kind string

// The kinds of facts.
const (
	Number     Kind = "number"
	Percent    Kind = "percent"
	Money      Kind = "money"
	Duration   Kind = "duration"
	Date       Kind = "date"
	Time       Kind = "time"
	Range      Kind = "range"
	Bound      Kind = "bound"
	Citation   Kind = "citation"
	Code       Kind = "code"
	Choice     Kind = "choice"
	Entity     Kind = "entity"
	Quantifier Kind = "quantifier"
	Polarity   Kind = "polarity"
)

// Kinds lists all kinds of facts.
var Kinds = []Kind{
	Number, Percent, Money, Duration, Date, Time, Range, Bound, Citation, Code, Choice, Entity, Quantifier, Polarity,
}

// A Fact is a statement in an answer that a reader would check.
type Fact struct {
	Kind  Kind
	Value string // canonical, with its unit: facts that state the same thing have equal values
	Unit  string // canonical; empty if there is none
	Text  string // as written in the answer
	About string // the words around it
	Start int    // its first byte in the answer
	End   int    // the byte after its last one
}

// A Difference is a fact on which two answers contradict each other, or which only one of them states.
type Difference struct {
	Kind       Kind
	IsConflict bool
	Label      string // the words around it
	A, B       *Fact  // nil if the answer does not state it
}

// Read returns the facts of an answer in the order of their positions.
func Read(answer string) []Fact {
	return newAnswer(answer).exported()
}

// answer is an answer whose claims have been read.
type answer struct {
	*claim.Document
	signatures []uint64 // one for each sentence
	tokens     tokens   // empty until a comparison needs them
	part       *part    // nil for a whole answer
}

// part restricts an answer to some of its sentences. An earlier comparison with another answer found that the other
// answer also states everything in the omitted sentences.
type part struct {
	isKnown []bool // for each claim: whether the other answer has its counterpart
	length  int    // the number of sentences in the whole answer

	left   map[measure]bool // the measures of the claims without a counterpart
	denies bool             // whether a claim without a counterpart denies something
}

func newAnswer(text string) *answer { return &answer{Document: claim.Read(text)} }

// read reads an answer that will be compared.
func (w *workspace) read(text string) *answer {
	d := newAnswer(text)
	d.signatures = d.Signatures()
	return d
}

// length returns the number of sentences in the whole answer.
func (d *answer) length() int {
	if d.part != nil {
		return d.part.length
	}
	return len(d.Sentences)
}

func (d *answer) exported() []Fact {
	list := make([]Fact, 0, len(d.Claims))
	for i := range d.Claims {
		if f := &d.Claims[i]; !f.IsRange() || f.First == i {
			list = append(list, d.export(f))
		}
	}
	return list
}

// Compare returns the facts on which two answers differ, conflicts first.
func Compare(a, b string) []Difference {
	if a == b {
		return nil
	}
	w := &workspace{}
	return w.compare(w.read(a), w.read(b)).found
}

// Question compares the answers to one question. The only error is the context's.
func Question(ctx context.Context, answers []string) (Reading, error) {
	return new(Reader).Question(ctx, answers)
}
