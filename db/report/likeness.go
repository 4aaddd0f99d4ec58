package report

import (
	"cmp"
	"encoding/json"
	"fmt"

	"wending/db/meaning"
	"wending/db/measure"
	"wending/db/measure/facts"
)

// Likeness describes how alike the answers to an item are, for cards, exports, the API and comparisons. Its fields
// are nil while the item is not assessed.
type Likeness struct {
	Level      *measure.Level `db:"level"`
	Agreement  *float64       `db:"agreement"`
	Similarity *float64       `db:"similarity"`
	Answers    *int           `db:"answers"`
	Letters    *string        `db:"letters"`
	// FactsDiffer is also nil if there are fewer than two answers; Facts are the facts on which the answers differ,
	// conflicts first.
	FactsDiffer *facts.Differ `db:"facts_differ"`
	Facts       Facts         `db:"facts"`
	// Expected are the facts of the standard answer that answers contradict.
	Expected ExpectedFacts `db:"expected_facts"`
	meaning.Known
}

// Novelty returns the estimated chance that one more run says something new: by meaning if the groups are known. It
// is nil while the item is not assessed.
func (l Likeness) Novelty() *float64 {
	if letters := cmp.Or(l.MeaningLetters, l.Letters); letters != nil {
		return measure.Novelty(*letters)
	}
	return nil
}

// ConsensusInterval returns the 95 % interval of the share of runs that gave the most common answer (metrics.md,
// consensus_interval). It is nil if the agreement is unknown.
func (l Likeness) ConsensusInterval() measure.Interval {
	if l.Agreement == nil || l.Letters == nil {
		return nil
	}
	runs := len(*l.Letters)
	most, _ := measure.Votes(*l.Letters)
	return measure.Wilson(float64(most)/float64(runs), runs)
}

// likenessColumns are the columns of a Likeness in question_statistics q.
const likenessColumns = `q.level, q.agreement, q.similarity, q.answers, q.letters, q.facts_differ, q.facts,
	q.expected_facts,
	q.meaning_by, q.meaning_letters, q.meaning_agreement, q.meaning_groups, q.meaning_unsure, q.meaning_notes,
	coalesce(q.meaning_version, 0) AS meaning_version, q.meaning_reviewer, coalesce(q.meaning_default, false) AS meaning_default`

// Facts are the facts on which the answers to a question differ.
type Facts []measure.Fact

// Scan implements sql.Scanner for a JSON column.
func (f *Facts) Scan(column any) error { return scanList(column, f) }

// ExpectedFacts are the facts of a standard answer that answers contradict.
type ExpectedFacts []measure.ExpectedFact

// Scan implements sql.Scanner for a JSON column.
func (f *ExpectedFacts) Scan(column any) error { return scanList(column, f) }

// scanList reads a list of facts from a JSON column, which may be null.
func scanList(column, list any) error {
	if column == nil {
		return nil // list stays unchanged, so each row must be scanned into a new one
	}
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("facts are stored as %T", column)
	}
	return json.Unmarshal(text, list)
}

// addTo adds the likeness of an item's answers to a question of a comparison.
func (l Likeness) addTo(question *measure.ComparedQuestion) {
	question.Level, question.Agreement, question.Similarity = measure.Unknown, l.Agreement, l.Similarity
	question.Meaning = l.MeaningAgreement
	if l.Answers != nil && *l.Answers > 0 {
		distinct := float64(*l.Answers)
		question.Distinct = &distinct
	}
	if l.Level != nil {
		question.Level, question.Letters, question.FactsDiffer = *l.Level, *l.Letters, l.FactsDiffer
		question.Facts, question.Expected, question.Novelty = l.Facts, l.Expected, l.Novelty()
	}
}
