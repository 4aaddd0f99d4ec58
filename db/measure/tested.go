package measure

import (
	"context"
	"runtime"
	"sync"
)

// Tested is the outcome of testing whether one question changed from the first task to the second.
type Tested struct {
	// IsOfVerdicts reports that the verdicts were tested (Fisher); otherwise the answers were (Shift).
	IsOfVerdicts bool
	// P is the p-value of the test, and Q is P adjusted for all questions that were compared (metrics.md, family e).
	P, Q float64
}

// IsChanged reports whether the question belongs to the list of changed questions. About ListedShare of that list may
// be there by chance.
func (p Pair) IsChanged() bool { return p.Tested != nil && p.Tested.Q <= ListedShare }

// Changed returns the pairs that changed, in the order of risk.
func (c Comparison) Changed() (changed []Pair) {
	for _, pair := range c.ByRisk() {
		if pair.IsChanged() {
			changed = append(changed, pair)
		}
	}
	return changed
}

// TestQuestions tests whether each question changed, and stores the outcomes in the pairs, which form one family. If
// both sides have verdicts, they decide; otherwise the answers do. keys returns the answers' keys (Shift) on both
// sides of the pair at an index. The tests use all processors. The only error is the context's.
func TestQuestions(ctx context.Context, pairs []Pair, keys func(n int) (a, b []string)) error {
	p := make([]*float64, len(pairs))
	workers := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for n := worker; n < len(pairs) && ctx.Err() == nil; n += workers {
				if pair := pairs[n]; pair.hasVerdicts() {
					exact := Fisher(pair.A.Passes, pair.A.Judged, pair.B.Passes, pair.B.Judged)
					p[n] = &exact
				} else {
					p[n] = Shift(keys(n))
				}
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for n, adjusted := range Adjust(p) {
		pairs[n].Tested = nil
		if adjusted != nil {
			pairs[n].Tested = &Tested{pairs[n].hasVerdicts(), *p[n], *adjusted}
		}
	}
	return nil
}

func (p Pair) hasVerdicts() bool { return p.A.Judged > 0 && p.B.Judged > 0 }

// AreVerdicts reports whether every pair is tested by its verdicts alone.
func AreVerdicts(pairs []Pair) bool {
	for _, pair := range pairs {
		if !pair.hasVerdicts() {
			return false
		}
	}
	return true
}

// Fresh holds the runs that were made on one side to confirm a question's change.
type Fresh struct {
	// First and Last are the numbers of the first and the last of these runs.
	First, Last int
	// Keys has a key (see Shift) for each of these runs that exists.
	Keys []string
	// Judged is the number of these runs that have a verdict, and Passes the number of those that passed.
	Judged, Passes int
}

func (f Fresh) missing() int { return f.Last - f.First + 1 - len(f.Keys) }

// Confirmed is the result of the runs made to confirm a question's change.
type Confirmed struct {
	A, B Fresh
	// Tested is the test of these runs alone, with Q adjusted for all confirmed questions; nil while runs are missing, or
	// if there are too few.
	Tested  *Tested
	Outcome Outcome
}

// Outcome says whether fresh runs confirmed a change.
type Outcome string

// The outcomes of a confirmation.
const (
	// Held means that the fresh runs alone show the change again, in the same direction.
	Held Outcome = "held"
	// NotHeld means that the fresh runs alone do not show the change: it may have been chance, or be smaller than it
	// looked.
	NotHeld Outcome = "not_held"
	// IsAsking means that runs are missing.
	IsAsking Outcome = "pending"
	// Untested means that there are too few runs for a test.
	Untested Outcome = "untested"
)

// Outcomes lists all outcomes.
var Outcomes = []Outcome{Held, NotHeld, IsAsking, Untested}

// ConfirmQuestions decides whether the changes of repeated pairs held, by their fresh runs alone. These pairs form
// one family, with the same limit as the list of changed questions.
func ConfirmQuestions(pairs []Pair) {
	var p []*float64
	var places []int
	for n, pair := range pairs {
		c := pair.Confirmed
		if c == nil {
			continue
		}
		places = append(places, n)
		switch {
		case c.A.missing() > 0 || c.B.missing() > 0:
			p = append(p, nil)
		case c.isOfVerdicts():
			exact := Fisher(c.A.Passes, c.A.Judged, c.B.Passes, c.B.Judged)
			p = append(p, &exact)
		default:
			p = append(p, Shift(c.A.Keys, c.B.Keys))
		}
	}
	for n, q := range Adjust(p) {
		pair := pairs[places[n]]
		c := pair.Confirmed
		switch {
		case c.A.missing() > 0 || c.B.missing() > 0:
			c.Outcome = IsAsking
		case q == nil:
			c.Outcome = Untested
		default:
			c.Tested = &Tested{c.isOfVerdicts(), *p[n], *q}
			c.Outcome = NotHeld
			if *q <= ListedShare && pair.isSameDirection() {
				c.Outcome = Held
			}
		}
	}
}

func (c Confirmed) isOfVerdicts() bool { return c.A.Judged > 0 && c.B.Judged > 0 }

// isSameDirection reports whether the fresh runs' passes changed in the same direction as the first runs'.
func (p Pair) isSameDirection() bool {
	if !p.hasVerdicts() || !p.Confirmed.isOfVerdicts() {
		return true
	}
	of := func(passesA, judgedA, passesB, judgedB int) int { return passesB*judgedA - passesA*judgedB }
	c := p.Confirmed
	return of(p.A.Passes, p.A.Judged, p.B.Passes, p.B.Judged)*of(c.A.Passes, c.A.Judged, c.B.Passes, c.B.Judged) >= 0
}

// InOutcome returns how many questions' confirmations have the given outcome.
func (c Comparison) InOutcome(outcome Outcome) (count int) {
	for _, pair := range c.Pairs {
		if pair.Confirmed != nil && pair.Confirmed.Outcome == outcome {
			count++
		}
	}
	return count
}
