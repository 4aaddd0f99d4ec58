package schedules

import (
	"cmp"
	"context"
	"slices"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
)

// Change is a question to which a variant's answers changed, beyond chance.
type Change struct {
	// Variant is the number and Name the name of the variant; the name is empty for a plain task.
	Variant     int
	Name        string
	Before, Now measure.ComparedQuestion
	// IsVerdict reports that the verdicts changed. Otherwise there are no verdicts, and the answers changed.
	IsVerdict bool
	// Adjusted is the p-value, adjusted for all questions that were compared.
	Adjusted float64
}

// Shares are the shares of passes before and now or, without verdicts, the agreement of the answers.
func (c Change) Shares() (before, now *float64) {
	if c.IsVerdict {
		return c.Before.PassShare, c.Now.PassShare
	}
	return c.Before.Agreement, c.Now.Agreement
}

// IsWorse reports that fewer runs pass than before or, without verdicts, that fewer answers agree.
func (c Change) IsWorse() bool {
	before, now := c.Shares()
	return before != nil && now != nil && *now < *before
}

// Changed returns the questions that changed from one task of a schedule to another, of all variants, the least likely to be chance
// first. Fisher's exact test of its verdicts decides whether a question changed or, if there are none, the
// permutation test of its answers. About measure.ListedShare of the listed questions may be there by chance
// (metrics.md, family e).
func Changed(ctx context.Context, store *db.Store, before, now db.Task) (changes []Change, err error) {
	results := report.New(store)
	earlier, err := results.Matrix(ctx, before)
	if err != nil {
		return nil, err
	}
	later, err := results.Matrix(ctx, now)
	if err != nil {
		return nil, err
	}
	var compared []Change
	for n := range min(len(earlier), len(later)) {
		variant := now.Variants[n]
		for _, pair := range measure.CompareTasks(earlier[n], later[n]).Pairs {
			compared = append(compared, Change{
				Variant: variant.Number, Name: variant.Name, Before: pair.A, Now: pair.B, IsVerdict: pair.A.Judged > 0 && pair.B.Judged > 0,
			})
		}
	}
	p, err := probabilities(ctx, results, before, now, compared)
	if err != nil {
		return nil, err
	}
	for n, adjusted := range measure.Adjust(p) {
		if adjusted != nil && *adjusted <= measure.ListedShare {
			compared[n].Adjusted = *adjusted
			changes = append(changes, compared[n])
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Adjusted, b.Adjusted) })
	return changes, nil
}

// probabilities returns the p-values of questions; nil if there is nothing to test.
func probabilities(ctx context.Context, results report.Report, before, now db.Task, compared []Change) ([]*float64, error) {
	var keys [2]map[report.Asked][]string
	if slices.ContainsFunc(compared, func(c Change) bool { return !c.IsVerdict }) {
		for n, task := range []db.Task{before, now} {
			var err error
			if keys[n], err = results.AnswerKeys(ctx, task.ID); err != nil {
				return nil, err
			}
		}
	}
	p := make([]*float64, len(compared))
	for n, one := range compared {
		if one.IsVerdict {
			exact := measure.Fisher(one.Before.Passes, one.Before.Judged, one.Now.Passes, one.Now.Judged)
			p[n] = &exact
			continue
		}
		p[n] = measure.Shift(keys[0][report.Asked{ItemID: one.Before.ID, Variant: one.Variant}], keys[1][report.Asked{ItemID: one.Now.ID, Variant: one.Variant}])
	}
	return p, nil
}
