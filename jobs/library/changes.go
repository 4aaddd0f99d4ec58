package library

import (
	"cmp"
	"context"
	"slices"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
)

// QuestionChange is a question to which a variant's answers changed beyond chance.
type QuestionChange struct {
	// Variant is the number and Name the name of the variant; the name is empty for a plain task.
	Variant     int
	Name        string
	Before, Now measure.ComparedQuestion
	// IsVerdict reports that the verdicts changed. If it is false, there are no verdicts, and the answers changed.
	IsVerdict bool
	// Adjusted is the p-value, adjusted for all compared questions.
	Adjusted float64
}

// Shares returns the shares of passes before and now or, without verdicts, the agreement of the answers.
func (c QuestionChange) Shares() (before, now *float64) {
	if c.IsVerdict {
		return c.Before.PassShare, c.Now.PassShare
	}
	return c.Before.Agreement, c.Now.Agreement
}

// IsWorse reports whether fewer runs pass than before or, without verdicts, whether fewer answers agree.
func (c QuestionChange) IsWorse() bool {
	before, now := c.Shares()
	return before != nil && now != nil && *now < *before
}

// QuestionChanges returns the questions that changed from one task of a schedule to another, for all variants, the
// least likely to be chance first. Whether a question changed is decided by Fisher's exact test of its verdicts or, if
// there are none, by the permutation test of its answers. About measure.ListedShare of the listed questions may be
// there by chance (metrics.md, family e).
func QuestionChanges(ctx context.Context, store *db.Store, before, now db.Task) (changes []QuestionChange, err error) {
	results := report.New(store)
	earlier, err := results.Matrix(ctx, before)
	if err != nil {
		return nil, err
	}
	later, err := results.Matrix(ctx, now)
	if err != nil {
		return nil, err
	}
	var pairs []measure.Pair
	var variants []db.Variant // the variant of each pair
	for n := range min(len(earlier), len(later)) {
		for _, pair := range measure.CompareTasks(earlier[n], later[n]).Pairs {
			pairs, variants = append(pairs, pair), append(variants, now.Variants[n])
		}
	}
	if err := test(ctx, results, before, now, pairs, variants); err != nil {
		return nil, err
	}
	for n, pair := range pairs {
		if pair.IsChanged() {
			changes = append(changes, QuestionChange{
				Variant: variants[n].Number, Name: variants[n].Name, Before: pair.A, Now: pair.B,
				IsVerdict: pair.Tested.IsOfVerdicts, Adjusted: pair.Tested.Q,
			})
		}
	}
	slices.SortStableFunc(changes, func(a, b QuestionChange) int { return cmp.Compare(a.Adjusted, b.Adjusted) })
	return changes, nil
}

// test tests whether each question changed within its variant. The p-values are adjusted for all variants together.
func test(ctx context.Context, results report.Report, before, now db.Task, pairs []measure.Pair,
	variants []db.Variant) error {
	var keys [2]map[report.Asked][]string
	if !measure.AreVerdicts(pairs) {
		for n, task := range []db.Task{before, now} {
			var err error
			if keys[n], err = results.AnswerKeys(ctx, task.ID, task.VariantNumbers()...); err != nil {
				return err
			}
		}
	}
	return measure.TestQuestions(ctx, pairs, func(n int) (ofBefore, ofNow []string) {
		variant := variants[n].Number
		return keys[0][report.Asked{ItemID: pairs[n].A.ID, Variant: variant}],
			keys[1][report.Asked{ItemID: pairs[n].B.ID, Variant: variant}]
	})
}
