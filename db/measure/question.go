package measure

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"wending/db/measure/facts"
)

// Answer is the result of one run of a question. The zero value is a run without an answer, such as a failed one.
type Answer struct {
	// Key is the return value of the function Key; nil means that there is no answer.
	Key []byte
	// Text is used only if answers differ.
	Text []byte
	// IsMissing reports that the run never took place.
	IsMissing bool
	// IsExtra reports that the question got this run because its earlier answers differed: such a run counts only for
	// letters and facts, because it would bias everything else.
	IsExtra bool
}

// Question sums up the answers to one question. Its fields have the names of the metrics in metrics.md.
type Question struct {
	Level Level
	// Agreement and Consensus are nil if there is only one run for each question, or if a run is missing.
	Agreement, Consensus *float64
	// Similarity is nil if fewer than two runs have an answer.
	Similarity *float64
	// Distinct is how many different answers there are.
	Distinct int
	// Letters has a letter for each run; - means that the run has no answer.
	Letters string
	// Differ says whether the answers state the same facts; empty if fewer than two runs have an answer.
	Differ facts.Differ
	// Facts are the facts on which answers differ, conflicts first.
	Facts []Fact
	// Expected are the facts of the standard answer that answers contradict.
	Expected []ExpectedFact
}

// ExpectedFact is a fact of a standard answer that answers contradict.
type ExpectedFact struct {
	Kind facts.Kind `json:"kind" example:"duration"`
	// Label is the text around the fact in the standard answer, at most 20 characters.
	Label string `json:"label" doc:"The words around the fact in the standard answer, at most 20 characters" example:"答复期限为"`
	Value string `json:"value" doc:"The standard answer's value, in canonical form" example:"30 day"`
	Text  string `json:"text" doc:"The value as written in the standard answer" example:"30 日"`
	// Values are the values that answers state instead.
	Values []Value `json:"values" nullable:"false" doc:"The values that answers state instead, most frequent first"`
}

// Fact is a fact on which the answers to a question differ: a conflict has several values, an omission has one.
type Fact struct {
	Kind facts.Kind `json:"kind" example:"duration"`
	// Label is the text around it, at most 20 characters.
	Label  string  `json:"label" doc:"The words around the fact, at most 20 characters" example:"答复期限为"`
	Values []Value `json:"values" nullable:"false" doc:"The values stated, most frequent first; if there is only one value, other answers omit it"`
	// Missing are the runs whose answers do not state the fact.
	Missing []int `json:"missing" nullable:"false" doc:"run_index of each run whose answer does not state the fact"`
}

// Value is one version of a fact, which some of the answers state.
type Value struct {
	Value string `json:"value" doc:"Canonical form: equal for values that mean the same" example:"30 day"`
	Text  string `json:"text" doc:"The value as written in the first of these runs" example:"30 日"`
	Runs  []int  `json:"runs" nullable:"false" doc:"run_index of each run whose answer states this value"`
}

// Revision is the revision of the rules that Assess applies. Questions assessed under an earlier revision are
// assessed again.
const Revision = 15

// Assess sums up the answers to a question for each variant; each variant has one answer for each of its runs. Equal
// answers have the same letter in all variants. differences describe how to turn answer A into each of the others, in
// the order of their letters from B. standard is the standard answer, or empty if there is none. The only possible
// error is the context's.
func Assess(ctx context.Context, standard string,
	variants [][]Answer) (questions []Question, differences []Difference, err error) {
	var keys [][]byte
	texts := map[string]string{} // keyed by letter
	for _, answers := range variants {
		for _, answer := range answers {
			keys = append(keys, answer.Key)
		}
	}
	letters, all := Letters(keys)
	place, reader := 0, &facts.Reader{}
	for _, answers := range variants {
		for n, answer := range answers {
			if letter := letters[place+n]; letter != "" {
				if _, isKnown := texts[letter]; !isKnown {
					texts[letter] = string(answer.Text)
				}
			}
		}
		one, err := assess(ctx, reader, answers, letters[place:place+len(answers)], texts)
		if err != nil {
			return nil, nil, err
		}
		if one.Expected, err = expect(ctx, reader, standard, letters[place:place+len(answers)], texts); err != nil {
			return nil, nil, err
		}
		questions = append(questions, one)
		place += len(answers)
	}
	if len(all) > 1 {
		first := cutText(texts[all[0].Letter])
		for _, other := range all[1:] {
			differences = append(differences, first.compare(cutText(texts[other.Letter]), DifferenceTime))
		}
	}
	return questions, differences, nil
}

// assess sums up the answers of one variant, given the texts of all letters.
func assess(ctx context.Context, reader *facts.Reader, answers []Answer, letters []string,
	texts map[string]string) (Question, error) {
	var keys [][]byte
	missing, answered, all := false, 0, 0
	for _, answer := range answers {
		if answer.Key != nil {
			all++
		}
		if answer.IsExtra {
			continue
		}
		keys = append(keys, answer.Key)
		missing = missing || answer.IsMissing
		if answer.Key != nil {
			answered++
		}
	}
	own, groups := Letters(keys)
	q := Question{Distinct: len(groups), Letters: joined(letters)}
	if runs := len(keys); runs > 1 && !missing {
		q.Agreement, q.Consensus = new(float64), new(float64)
		for n, group := range groups {
			*q.Agreement += float64(group.Count*(group.Count-1)) / float64(runs*(runs-1))
			if n == 0 {
				*q.Consensus = float64(group.Count) / float64(runs)
			}
		}
	}
	distinct := make([]string, 0, len(groups)) // in the order of the variant's own letters
	for _, group := range groups {
		distinct = append(distinct, texts[letters[slices.Index(own, group.Letter)]])
	}
	if answered > 1 {
		mean := meanSimilarity(distinct, groups, answered)
		q.Similarity = &mean
	}
	if all > 1 {
		var err error
		if q.Differ, q.Facts, err = readFacts(ctx, reader, letters, texts); err != nil {
			return Question{}, err
		}
	}
	areEmpty := len(groups) == 1 && bytes.Equal(keyOf(keys), Key(nil))
	q.Level = levelOf(answered, areEmpty, distinct, q.Similarity, q.Differ == facts.Conflict &&
		(len(keys) == len(answers) || q.conflictsWithin(len(keys))))
	return q, nil
}

// conflictsWithin reports whether the runs numbered up to runs contradict each other.
func (q Question) conflictsWithin(runs int) bool {
	return slices.ContainsFunc(q.Facts, func(fact Fact) bool {
		stated := 0
		for _, value := range fact.Values {
			if slices.ContainsFunc(value.Runs, func(run int) bool { return run <= runs }) {
				stated++
			}
		}
		return stated > 1
	})
}

// mostFacts is the maximum number of facts kept for a question.
const mostFacts = 100

// readFacts finds the facts on which the answers of one variant differ. letters are the letters of its runs, and texts
// maps them to the answers.
func readFacts(ctx context.Context, reader *facts.Reader, letters []string,
	texts map[string]string) (facts.Differ, []Fact, error) {
	var answered []string
	var runs []int // the run index of each answer
	for n, letter := range letters {
		if letter != "" {
			answered, runs = append(answered, texts[letter]), append(runs, n+1)
		}
	}
	reading, err := reader.Question(ctx, answered)
	if err != nil {
		return "", nil, err
	}
	statements := reading.Statements[:min(len(reading.Statements), mostFacts)]
	return reading.Differ, Differing(statements, runs), nil
}

// expect finds the facts of the standard answer that the answers of one variant contradict; letters and texts are
// as in readFacts.
func expect(ctx context.Context, reader *facts.Reader, standard string, letters []string,
	texts map[string]string) ([]ExpectedFact, error) {
	var answers []string
	var runs [][]int // the run indexes of each answer
	known := map[string]int{}
	for n, letter := range letters {
		if letter == "" {
			continue
		}
		at, isKnown := known[letter]
		if !isKnown {
			at, known[letter] = len(answers), len(answers)
			answers, runs = append(answers, texts[letter]), append(runs, nil)
		}
		runs[at] = append(runs[at], n+1)
	}
	contradicted, err := reader.Expected(ctx, standard, answers)
	if err != nil {
		return nil, err
	}
	type place struct {
		start, end int
		kind       facts.Kind
	}
	var list []ExpectedFact
	places := map[place]int{}
	for answer, differences := range contradicted {
		for _, d := range differences {
			at := place{d.A.Start, d.A.End, d.Kind}
			n, isKnown := places[at]
			if !isKnown {
				if len(list) == mostFacts {
					continue
				}
				n, places[at] = len(list), len(list)
				list = append(list, ExpectedFact{Kind: d.Kind, Label: d.Label, Value: d.A.Value, Text: d.A.Text})
			}
			list[n].contradict(d.B, runs[answer])
		}
	}
	for n := range list {
		slices.SortStableFunc(list[n].Values, func(x, y Value) int { return len(y.Runs) - len(x.Runs) })
	}
	return list, nil
}

// String returns the fact and the values that answers state instead: 30 日 → 35 日.
func (f ExpectedFact) String() string {
	texts := []string{f.Text}
	for _, value := range f.Values {
		texts = append(texts, value.Text)
	}
	return strings.Join(texts, " → ")
}

// contradict adds a value that some runs state instead of the fact.
func (f *ExpectedFact) contradict(stated *facts.Fact, runs []int) {
	n := slices.IndexFunc(f.Values, func(value Value) bool { return value.Value == stated.Value })
	if n < 0 {
		n = len(f.Values)
		f.Values = append(f.Values, Value{Value: stated.Value, Text: stated.Text})
	}
	all := append(slices.Clone(f.Values[n].Runs), runs...)
	slices.Sort(all)
	f.Values[n].Runs = slices.Compact(all)
}

// Differing turns statements on which answers differ into facts; runs holds the run index of each answer.
func Differing(statements []facts.Statement, runs []int) []Fact {
	runsOf := func(answers []int) []int {
		list := make([]int, len(answers))
		for n, answer := range answers {
			list[n] = runs[answer]
		}
		return list
	}
	list := make([]Fact, len(statements))
	for n, one := range statements {
		list[n] = Fact{Kind: one.Kind, Label: one.Label, Missing: runsOf(one.Missing)}
		values := &list[n].Values
		for _, value := range one.Values {
			if len(*values) > 0 && !one.IsConflict { // further values are merely more or less exact
				(*values)[0].Runs = append((*values)[0].Runs, runsOf(value.Runs)...)
				slices.Sort((*values)[0].Runs)
				continue
			}
			*values = append(*values, Value{Value: value.Value, Text: value.Text, Runs: runsOf(value.Runs)})
		}
	}
	return list
}

// meanSimilarity returns the mean similarity over all pairs of answers. It measures distinct pairs only once.
func meanSimilarity(distinct []string, groups []Group, answered int) float64 {
	var by alphabet
	texts := make([][]int32, len(distinct))
	for n, text := range distinct {
		texts[n] = by.encode(measured([]byte(text)))
	}
	sum := 0.0
	for n, group := range groups {
		sum += float64(group.Count*(group.Count-1)) / 2
		for m := range n {
			sum += float64(group.Count*groups[m].Count) * by.similarity(texts[n], texts[m])
		}
	}
	return sum / (float64(answered*(answered-1)) / 2)
}

// keyOf returns the first key that is not nil.
func keyOf(keys [][]byte) []byte {
	for _, key := range keys {
		if key != nil {
			return key
		}
	}
	return nil
}

// joined returns the letters of all runs as one text, with - for a run without an answer.
func joined(letters []string) string {
	var all strings.Builder
	for _, letter := range letters {
		if letter == "" {
			letter = "-"
		}
		all.WriteString(letter)
	}
	return all.String()
}
