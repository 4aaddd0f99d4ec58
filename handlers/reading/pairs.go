package reading

import (
	"context"
	"slices"
	"strconv"

	"wending/db"
	"wending/db/review"
	"wending/jobs/export"
	"wending/views/text"
)

// comparedPair is a pair of two variants' answers that people have compared.
type comparedPair struct {
	export.Pair
	itemID     int64
	number     int
	questionID string
}

// pairsOfTask are the pairs of a task's answers that people have compared.
type pairsOfTask []comparedPair

// pairsOf returns the pairs of a task's answers that people have compared. only holds the ids of the questions to
// include; nil means all.
func (r Reports) pairsOf(ctx context.Context, task db.Task, only map[int64]bool) (all pairsOfTask, err error) {
	if task.TotalVariants < 2 {
		return nil, nil
	}
	drawn, err := review.New(r.store).Drawn(ctx, task.ID)
	for _, matchup := range drawn {
		for _, one := range matchup.Pairs {
			verdicts := slices.Concat(one.Verdicts, one.Outdated)
			if len(verdicts) == 0 || only != nil && !only[one.ItemID] {
				continue
			}
			pair := comparedPair{export.Pair{
				VariantA: matchup.Of.A, VariantB: matchup.Of.B, RunA: one.IndexA, RunB: one.IndexB, IsSwapped: one.IsSwapped,
			}, one.ItemID, one.Number, one.QuestionID}
			for _, said := range verdicts {
				pair.Verdicts = append(pair.Verdicts, export.PairVerdict{Reviewer: said.Reviewer, Verdict: string(said.Verdict),
					Version: said.Version, IsOutdated: said.IsOutdated, CreatedAt: export.BeijingTime(said.CreatedAt)})
			}
			all = append(all, pair)
		}
	}
	return all, err
}

// itemOfVariant identifies a variant's answers to a question.
type itemOfVariant struct {
	itemID  int64
	variant int
}

// byFirst returns the pairs, keyed by their question and their first variant.
func (p pairsOfTask) byFirst() map[itemOfVariant][]export.Pair {
	pairs := map[itemOfVariant][]export.Pair{}
	for _, one := range p {
		first := itemOfVariant{one.itemID, one.VariantA}
		pairs[first] = append(pairs[first], one.Pair)
	}
	return pairs
}

// sheet returns a sheet with a row for each verdict on a pair; nil if there are no pairs.
func (p pairsOfTask) sheet(locale text.Locale, task db.Task) *export.Sheet {
	if len(p) == 0 {
		return nil
	}
	numbers := []string{"number", "variant_a", "run_a", "variant_b", "run_b"}
	sheet := &export.Sheet{Name: locale.Text("export.sheet.pairs")}
	for _, title := range []string{"number", "question_id", "variant_a", "variant_a_name", "run_a", "variant_b",
		"variant_b_name", "run_b", "is_swapped", "reviewer", "verdict", "is_outdated", "created_at"} {
		column := export.Column{Title: title, Holds: export.HoldsText}
		if slices.Contains(numbers, title) {
			column.Holds = export.HoldsNumber
		}
		sheet.Columns = append(sheet.Columns, column)
	}
	for _, one := range p {
		for _, said := range one.Verdicts {
			sheet.Rows = append(sheet.Rows, []string{
				strconv.Itoa(one.number), one.questionID,
				strconv.Itoa(one.VariantA), task.Variants[one.VariantA-1].Name, strconv.Itoa(one.RunA),
				strconv.Itoa(one.VariantB), task.Variants[one.VariantB-1].Name, strconv.Itoa(one.RunB),
				strconv.FormatBool(one.IsSwapped), said.Reviewer, said.Verdict, strconv.FormatBool(said.IsOutdated), said.CreatedAt,
			})
		}
	}
	return sheet
}
