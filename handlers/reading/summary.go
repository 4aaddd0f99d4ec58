package reading

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/review"
	"wending/jobs/tasks"
	"wending/views/summary"
)

// Summary returns the statistics of a task's report, including those for the values of the columns in grouping. Default
// ratings of judges are used only if withDefaults is true.
func (r Reader) Summary(ctx context.Context, task db.Task, grouping Grouping,
	withDefaults bool) (summary.Summary, error) {
	s := summary.Summary{Task: task, Columns: grouping.Columns, By: grouping.By, WithDefaults: withDefaults}
	var matrix [][]measure.ComparedQuestion
	group, reading := errgroup.WithContext(ctx)
	group.Go(func() (err error) { s.Decision, err = r.decision(reading, task); return err })
	group.Go(func() (err error) { s.Statistics, err = r.store.TaskStatistics(reading, task); return err })
	group.Go(func() error { return r.numbers(reading, task, &s) })
	group.Go(func() (err error) { s.Errors, err = r.report.Errors(reading, task.ID); return err })
	group.Go(func() (err error) { matrix, err = r.report.Matrix(reading, task); return err })
	group.Go(func() (err error) { s.Matters, err = r.report.Matters(reading, task.ID); return err })
	if task.Grouper() != nil {
		group.Go(func() (err error) { s.Reliability, err = review.New(r.store).Reliability(reading, task.ID); return err })
	}
	group.Go(func() (err error) { s.Judges, err = r.judges(reading, task, withDefaults); return err })
	s.Noises = make([]summary.Noise, len(task.Evaluators))
	for n, evaluator := range task.Evaluators {
		s.Noises[n].Name = evaluator.Name
		group.Go(func() (err error) { s.Noises[n].Noise, err = r.Noise(reading, task, evaluator); return err })
	}
	if err := group.Wait(); err != nil {
		return s, err
	}
	s.Rankings = Rank(task, matrix, s.Matters)
	s.Leads = map[string]*measure.Lead{}
	for _, by := range summary.MeasuresOf(len(task.Evaluators) > 0, task.Grouper() != nil) {
		if ranking, isKnown := s.Rankings[by.Name]; isKnown {
			s.Leads[by.Name] = measure.LeadOf(matrix, by.By, ranking)
		}
	}
	s.Agreements = Agreements(task, matrix)
	var err error
	if s.Worst, s.WorstTotal, err = r.worst(ctx, matrix, s.Verdicts != nil); err != nil {
		return s, err
	}
	if s.Spreads, err = r.spreads(ctx, task, matrix, s.Columns); err != nil {
		return s, err
	}
	if len(matrix) > 1 {
		s.Matrix, s.MatrixTotal, err = r.matrix(ctx, matrix, s.Verdicts != nil)
	}
	return s, err
}

// Grouping selects the columns of a dataset by which a summary groups the questions: by the column By in full, and by
// each of Columns in one sentence.
type Grouping struct {
	Columns []report.Column
	By      string
}

// spreads returns, for each column, the values with the lowest and the highest mean share over all variants. It leaves
// out values that only one question has, and then columns with fewer than two values left.
func (r Reader) spreads(ctx context.Context, task db.Task, matrix [][]measure.ComparedQuestion,
	columns []report.Column) (spreads []summary.Spread, err error) {
	for _, column := range columns[:min(slicedMost, len(columns))] {
		values, err := r.report.Slices(ctx, task.ID, column.Place)
		if err != nil {
			return nil, err
		}
		shares := make([]measure.Sample, len(values.Values))
		for _, questions := range matrix {
			for _, question := range questions {
				share := shareOf(question, len(task.Evaluators) > 0)
				if place, isKnown := values.Of(question.ID); isKnown && share != nil {
					// The results of a question's variants are not independent.
					shares[place].Add(*share, cmp.Or(question.Cluster, strconv.FormatInt(question.ID, 10)))
				}
			}
		}
		var known []summary.ValueShare
		for n, value := range values.Values {
			if mean := shares[n].Mean(); value != nil && shares[n].Clusters() > 1 && mean != nil {
				known = append(known, summary.ValueShare{Value: *value, Share: *mean, Interval: shares[n].Share(),
					Items: values.Items[n]})
			}
		}
		if len(known) < 2 {
			continue
		}
		slices.SortStableFunc(known, func(a, b summary.ValueShare) int { return cmp.Compare(a.Share, b.Share) })
		spreads = append(spreads, summary.Spread{Column: column.Name, Lowest: known[0], Highest: known[len(known)-1]})
	}
	return spreads, nil
}

// numbers adds to s the statistics and verdicts of each variant and, if the summary is grouped by a column, of each
// value of the column.
func (r Reader) numbers(ctx context.Context, task db.Task, s *summary.Summary) (err error) {
	if place := slices.Index(task.VariableNames, s.By); place >= 0 {
		numbers, err := r.report.NumbersBy(ctx, task, place+1, s.WithDefaults)
		s.Numbers, s.Verdicts, s.Slices = numbers.Variants, numbers.Passes, worstFirst(numbers.Slices)
		return err
	}
	group, reading := errgroup.WithContext(ctx)
	group.Go(func() (err error) { s.Numbers, err = r.report.VariantStatistics(reading, task.ID); return err })
	if len(task.Evaluators) > 0 {
		group.Go(func() (err error) {
			s.Verdicts, err = r.report.PassStatistics(reading, task, s.WithDefaults)
			return err
		})
	}
	return group.Wait()
}

// worstFirst returns slices ordered by pass rate and then by agreement, lowest first, where unknown values come after
// known ones. With several variants, it compares the means over the variants. Values of a single question come after
// the others, because one question says little; the slice that combines several values comes last.
func worstFirst(all []report.Slice) []report.Slice {
	const unknown = 2 // more than any share
	mean := func(slice report.Slice, share func(report.SliceVariant) *float64) float64 {
		sum, known := 0.0, 0
		for _, one := range slice.Variants {
			if value := share(one); value != nil {
				sum, known = sum+*value, known+1
			}
		}
		if slice.Value == nil || known == 0 {
			return unknown
		}
		return sum / float64(known)
	}
	passed := func(one report.SliceVariant) *float64 { return one.Passes.PassRate }
	agreement := func(one report.SliceVariant) *float64 { return one.Agreement }
	rank := func(slice report.Slice) int {
		switch {
		case slice.Value == nil:
			return 2
		case slice.Items == 1:
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(all), func(a, b report.Slice) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(mean(a, passed), mean(b, passed)),
			cmp.Compare(mean(a, agreement), mean(b, agreement)))
	})
}

// judges returns the ratings by a task's judges, with their agreement with people.
func (r Reader) judges(ctx context.Context, task db.Task, withDefaults bool) (judges []summary.Judge, err error) {
	dimensions := tasks.JudgesOf(task)
	numbers, err := r.report.Judges(ctx, task)
	if err != nil {
		return nil, err
	}
	fits, err := review.New(r.store).Fits(ctx, task)
	if err != nil {
		return nil, err
	}
	for _, evaluator := range task.Evaluators {
		if !evaluator.IsJudge() {
			continue
		}
		judge := summary.Judge{Name: evaluator.Name, Number: evaluator.Number,
			Dimensions: dimensions[evaluator.Number].Dimensions,
			Numbers:    numbers[evaluator.Number], Fit: fits[evaluator.Number]}
		if judge.Variants, err = r.report.PassStatisticsOf(ctx, task, evaluator, withDefaults); err != nil {
			return nil, err
		}
		judges = append(judges, judge)
	}
	return judges, nil
}

// matrixMost is the maximum number of questions in the table of questions and variants.
const matrixMost = 200

// shareOf returns a variant's result for a question: the share of its runs that passed or, without evaluators, the
// agreement of its answers; nil if it is unknown.
func shareOf(question measure.ComparedQuestion, isJudged bool) *float64 {
	if isJudged {
		return question.PassShare
	}
	return question.Agreement
}

// matrix returns the table of questions and variants, with the lowest mean shares first, and the number of all
// questions.
func (r Reader) matrix(ctx context.Context, all [][]measure.ComparedQuestion,
	isJudged bool) (rows []summary.Row, total int, err error) {
	total = len(all[0])
	places, means := make([]int, total), make([]float64, total)
	for n := range all[0] {
		places[n], means[n] = n, 2 // unknown shares come last
		sum, known := 0.0, 0
		for _, questions := range all {
			if share := shareOf(questions[n], isJudged); share != nil {
				sum, known = sum+*share, known+1
			}
		}
		if known > 0 {
			means[n] = sum / float64(known)
		}
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(means[a], means[b]) })
	places = places[:min(total, matrixMost)]
	ids := make([]int64, len(places))
	for n, place := range places {
		ids[n] = all[0][place].ID
	}
	items, err := r.ItemsOf(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	for _, place := range places {
		question := all[0][place]
		row := summary.Row{Number: question.Number, Question: items[question.ID].Question}
		for _, questions := range all {
			row.Shares = append(row.Shares, shareOf(questions[place], isJudged))
		}
		rows = append(rows, row)
	}
	return rows, total, nil
}

// Agreements returns the agreements of the questions, for each variant number.
func Agreements(task db.Task, matrix [][]measure.ComparedQuestion) map[int]measure.Sample {
	known := map[int]measure.Sample{}
	for n, questions := range matrix {
		var sample measure.Sample
		for _, question := range questions {
			if question.Agreement != nil {
				sample.Add(*question.Agreement, question.Cluster)
			}
		}
		known[task.Variants[n].Number] = sample
	}
	return known
}

// Rank ranks the variants of a task by each measure, and returns the rankings keyed by measure. Measures without known
// values are left out, and differences that are too small to matter are ignored.
func Rank(task db.Task, matrix [][]measure.ComparedQuestion, matters measure.Matters) map[string]measure.Ranking {
	measures := slices.DeleteFunc(slices.Clone(summary.MeasuresOf(len(task.Evaluators) > 0, task.Grouper() != nil)),
		func(m summary.Measure) bool {
			return m.Name == "cost" && !sameCurrency(task.Targets)
		})
	by := make([]measure.By, len(measures))
	for n, one := range measures {
		by[n] = one.By
	}
	rankings := map[string]measure.Ranking{}
	for n, ranking := range measure.Rank(matrix, by, matters) {
		if ranking != nil {
			rankings[measures[n].Name] = *ranking
		}
	}
	return rankings
}

// sameCurrency reports whether all targets have the same known currency, so that their costs can be compared.
func sameCurrency(targets []db.Target) bool {
	for _, target := range targets {
		if target.Currency == nil || *target.Currency != *targets[0].Currency {
			return false
		}
	}
	return true
}

// hasFailed reports whether a run of the n-th question has no answer, in any variant.
func hasFailed(matrix [][]measure.ComparedQuestion, n int) bool {
	return slices.ContainsFunc(matrix, func(questions []measure.ComparedQuestion) bool {
		return strings.Contains(questions[n].Letters, "-")
	})
}

// worst returns the questions with the lowest mean shares (shareOf), and the number of all questions below 1. Without
// evaluators it leaves out questions with failed runs, which are reported elsewhere.
func (r Reader) worst(ctx context.Context, matrix [][]measure.ComparedQuestion,
	isJudged bool) (worst []summary.Worst, total int, err error) {
	type place struct {
		question measure.ComparedQuestion
		share    float64
		novelty  *float64
	}
	var places []place
	for n := range matrix[0] {
		var shares, novelties measure.Sample
		for _, questions := range matrix {
			if share := shareOf(questions[n], isJudged); share != nil {
				shares.Add(*share, "")
			}
			// A single answer says nothing about how likely a new one is.
			if questions[n].Novelty != nil && len(questions[n].Letters)-strings.Count(questions[n].Letters, "-") > 1 {
				novelties.Add(*questions[n].Novelty, "")
			}
		}
		if mean := shares.Mean(); mean != nil && *mean < 1 && (isJudged || !hasFailed(matrix, n)) {
			places = append(places, place{matrix[0][n], *mean, novelties.Mean()})
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
		worst[n] = summary.Worst{Number: one.question.Number, Question: items[one.question.ID].Question, Share: one.share,
			Novelty: one.novelty}
	}
	return worst, total, nil
}
