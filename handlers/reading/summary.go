package reading

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/jobs/comparison"
	"wending/views/summary"
	"wending/views/variants"
)

// Summary reads what the report of a task says in numbers.
func (r Reader) Summary(ctx context.Context, task db.Task) (summary.Summary, error) {
	s := summary.Summary{Task: task, Agreements: map[int][]float64{}}
	var matrix [][]comparison.Question
	group, reading := errgroup.WithContext(ctx)
	group.Go(func() (err error) { s.Statistics, err = r.store.TaskStatistics(reading, task); return err })
	group.Go(func() (err error) { s.Numbers, err = r.report.VariantStatistics(reading, task.ID); return err })
	group.Go(func() (err error) { s.Errors, err = r.report.Errors(reading, task.ID); return err })
	group.Go(func() (err error) { matrix, err = r.report.Matrix(reading, task); return err })
	if len(task.Evaluators) > 0 {
		group.Go(func() (err error) { s.Verdicts, err = r.report.PassStatistics(reading, task, false); return err })
	}
	if err := group.Wait(); err != nil {
		return s, err
	}
	s.Rankings = Rank(task, matrix)
	for n, questions := range matrix {
		number := task.Variants[n].Number
		for _, question := range questions {
			if question.Agreement != nil {
				s.Agreements[number] = append(s.Agreements[number], *question.Agreement)
			}
		}
	}
	var err error
	s.Worst, s.WorstTotal, err = r.worst(ctx, matrix, s.Verdicts != nil)
	return s, err
}

// Rank ranks the variants of a task by each measure, by the measures' names; none by what is not known.
func Rank(task db.Task, matrix [][]comparison.Question) map[string]comparison.Ranking {
	rankings := map[string]comparison.Ranking{}
	for _, measure := range variants.MeasuresOf(len(task.Evaluators) > 0) {
		if measure.Name == "cost" && !sameCurrency(task.Targets) {
			continue
		}
		if ranking, isKnown := comparison.Rank(matrix, measure.Of, measure.IsLessBetter); isKnown {
			rankings[measure.Name] = ranking
		}
	}
	return rankings
}

// sameCurrency reports whether costs of targets can be compared.
func sameCurrency(targets []db.Target) bool {
	for _, target := range targets {
		if target.Currency == nil || *target.Currency != *targets[0].Currency {
			return false
		}
	}
	return true
}

// worst are the questions with the lowest share of passes, or of equal answers, and total is how many could be better.
func (r Reader) worst(ctx context.Context, matrix [][]comparison.Question, isJudged bool) (worst []summary.Worst, total int, err error) {
	type place struct {
		question comparison.Question
		share    float64
	}
	var places []place
	for n := range matrix[0] {
		sum, known := 0.0, 0
		for _, questions := range matrix {
			share := questions[n].Agreement
			if isJudged {
				share = questions[n].PassShare
			}
			if share != nil {
				sum, known = sum+*share, known+1
			}
		}
		if known > 0 && sum < float64(known) {
			places = append(places, place{matrix[0][n], sum / float64(known)})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.share, b.share) })
	total = len(places)
	places = places[:min(len(places), summary.WorstMost)]
	ids := make([]int64, len(places))
	for n, one := range places {
		ids[n] = one.question.ID
	}
	items, err := r.ItemsOf(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	worst = make([]summary.Worst, len(places))
	for n, one := range places {
		worst[n] = summary.Worst{Number: one.question.Number, Question: items[one.question.ID].Question, Share: one.share}
	}
	return worst, total, nil
}
