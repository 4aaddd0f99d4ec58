package measure

import (
	"cmp"
	"slices"

	"wending/db/measure/facts"
)

// ComparedQuestion is the result of one question in one task. A value is nil if unknown.
type ComparedQuestion struct {
	// ID is the item's id in the database.
	ID int64
	// Cluster identifies the questions that this one is not independent of; empty means that it is independent.
	Cluster string
	// Number is the question's number in its task, from 1.
	Number     int
	QuestionID string
	// Text identifies the question's text: equal texts have equal values.
	Text string
	// Standard identifies the question's standard answer: equal answers have equal values.
	Standard string
	Level    Level
	// FactsDiffer, Facts and Expected are as in Question, except that FactsDiffer is nil if it is unknown.
	FactsDiffer *facts.Differ
	Facts       []Fact
	Expected    []ExpectedFact
	// Agreement, Similarity and Distinct are as in Question.
	Agreement, Similarity, Distinct *float64
	// Meaning is the agreement by meaning; nil while it is not known which answers say the same thing.
	Meaning *float64
	// SuccessRate is the share of the question's runs that succeeded. The others are means over the runs that succeeded;
	// TotalTokens and Cost are means over those that report them.
	SuccessRate, LatencyMS, FirstTokenMS, TotalTokens, Cost *float64
	// Judged is the number of the question's runs that have a verdict, and Passes the number of those that passed.
	Judged, Passes int
	// PassShare is the share of the judged runs that passed, and Score the mean score of all the question's runs.
	PassShare, Score *float64
	// Letters has one letter for each run, as in Question. Novelty is the chance that one more run gives a new answer.
	Letters string
	Novelty *float64
	// Opinion is people's verdict on the question as a whole, or OpinionDivided if their verdicts differ; empty if
	// there is none.
	Opinion string
}

// Transition is how a question's answers changed from the first task to the second.
type Transition string

// The transitions. Answers are stable if they are equal, or differ only in format.
const (
	StableStable     Transition = "stable_stable"
	StableUnstable   Transition = "stable_unstable"
	UnstableStable   Transition = "unstable_stable"
	UnstableUnstable Transition = "unstable_unstable"
	// UnknownTransition means that in one of the tasks there are fewer than two answers, or only empty ones.
	UnknownTransition Transition = "unknown"
)

// Transitions are the transitions of questions whose levels are known.
var Transitions = []Transition{StableStable, StableUnstable, UnstableStable, UnstableUnstable}

// Pair is a question that both tasks have.
type Pair struct {
	A, B       ComparedQuestion
	Transition Transition
	// ByText reports that the question was matched by its text, because its ids in the two tasks differ.
	ByText bool
	// Between describes how the most common answers differ; nil if a task has none, or they are not compared yet.
	Between *Between
	// IsPending reports that the answers have not been compared yet.
	IsPending bool
	// Tested is the outcome of testing whether the question changed; nil if a side has too few runs, or the question has
	// not been tested yet.
	Tested *Tested
	// Confirmed is the result of the runs made to confirm the change; nil if there are none.
	Confirmed *Confirmed
}

// Comparison lists the questions that two tasks have in common, and those that only one of them has.
type Comparison struct {
	// Pairs are in the order of the first task.
	Pairs []Pair
	// OnlyA and OnlyB are the questions that only the first or only the second task has.
	OnlyA, OnlyB                      []ComparedQuestion
	Agreement, SuccessRate, LatencyMS Change
	Meaning, PassShare, Score         Change
}

// Count returns how many questions have the given transition.
func (c Comparison) Count(transition Transition) (count int) {
	for _, pair := range c.Pairs {
		if pair.Transition == transition {
			count++
		}
	}
	return count
}

// CompareTasks pairs the questions of two tasks: first those with the same question_id, then the remaining ones
// with the same text, in the order of the tasks. If a text occurs more times in one task than in the other, the surplus
// questions stay unpaired.
func CompareTasks(a, b []ComparedQuestion) (c Comparison) {
	partners := map[int64]ComparedQuestion{} // the second task's questions, keyed by the ids of the first task's
	taken := map[int64]bool{}
	pairBy := func(name func(ComparedQuestion) string) {
		free := map[string][]ComparedQuestion{}
		for _, question := range b {
			if !taken[question.ID] {
				free[name(question)] = append(free[name(question)], question)
			}
		}
		for _, question := range a {
			same := free[name(question)]
			if _, isPaired := partners[question.ID]; isPaired || len(same) == 0 {
				continue
			}
			partners[question.ID], taken[same[0].ID] = same[0], true
			free[name(question)] = same[1:]
		}
	}
	pairBy(func(q ComparedQuestion) string { return q.QuestionID })
	pairBy(func(q ComparedQuestion) string { return q.Text })
	for _, question := range a {
		if partner, isPaired := partners[question.ID]; isPaired {
			c.Pairs = append(c.Pairs, Pair{
				A: question, B: partner, Transition: transition(question.Level, partner.Level),
				ByText: question.QuestionID != partner.QuestionID,
			})
		} else {
			c.OnlyA = append(c.OnlyA, question)
		}
	}
	c.OnlyB = slices.DeleteFunc(slices.Clone(b), func(q ComparedQuestion) bool { return taken[q.ID] })
	c.sum()
	return c
}

// sum computes the differences between the tasks' metrics on the pairs.
func (c *Comparison) sum() {
	c.Agreement = c.Change(func(q ComparedQuestion) *float64 { return q.Agreement })
	c.Meaning = c.Change(func(q ComparedQuestion) *float64 { return q.Meaning })
	c.SuccessRate = c.Change(func(q ComparedQuestion) *float64 { return q.SuccessRate })
	c.LatencyMS = c.Change(func(q ComparedQuestion) *float64 { return q.LatencyMS })
	c.PassShare = c.Change(func(q ComparedQuestion) *float64 { return q.PassShare })
	c.Score = c.Change(func(q ComparedQuestion) *float64 { return q.Score })
}

// Only restricts a comparison to some questions: to the pairs whose question in the second task is selected by ofB,
// to the questions of OnlyA that are selected by ofA, and to those of OnlyB that are selected by ofB.
func (c Comparison) Only(ofA, ofB func(ComparedQuestion) bool) Comparison {
	kept := func(questions []ComparedQuestion, isKept func(ComparedQuestion) bool) []ComparedQuestion {
		return slices.DeleteFunc(slices.Clone(questions), func(q ComparedQuestion) bool { return !isKept(q) })
	}
	only := Comparison{OnlyA: kept(c.OnlyA, ofA), OnlyB: kept(c.OnlyB, ofB)}
	for _, pair := range c.Pairs {
		if ofB(pair.B) {
			only.Pairs = append(only.Pairs, pair)
		}
	}
	only.sum()
	return only
}

// Numbers returns the changes of the metrics that a gate compares, keyed by name. Agreement by meaning is included only
// if it is known in both tasks for at least one question.
func (c Comparison) Numbers() map[string]Change {
	numbers := map[string]Change{
		"agreement": c.Agreement, "success_rate": c.SuccessRate, "latency_ms": c.LatencyMS, "pass_share": c.PassShare,
		"score": c.Score,
	}
	if c.Meaning.N > 0 {
		numbers["meaning_agreement"] = c.Meaning
	}
	return numbers
}

func transition(a, b Level) Transition {
	isStableA, isStableB := a.IsStable(), b.IsStable()
	switch {
	case !a.IsKnown() || !b.IsKnown():
		return UnknownTransition
	case isStableA && isStableB:
		return StableStable
	case isStableA:
		return StableUnstable
	case isStableB:
		return UnstableStable
	}
	return UnstableUnstable
}

// Change returns the change of a metric between the paired questions.
func (c Comparison) Change(number func(ComparedQuestion) *float64) Change {
	return changeOf(c.Pairs, number)
}

func changeOf(pairs []Pair, number func(ComparedQuestion) *float64) Change {
	var ofA, ofB []float64
	var clusters []string
	for _, pair := range pairs {
		if a, b := number(pair.A), number(pair.B); a != nil && b != nil {
			ofA, ofB, clusters = append(ofA, *a), append(ofB, *b), append(clusters, cmp.Or(pair.B.Cluster, pair.A.Cluster))
		}
	}
	return paired(ofA, ofB, clusters, len(pairs)-len(ofA))
}
