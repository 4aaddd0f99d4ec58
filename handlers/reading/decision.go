package reading

import (
	"cmp"
	"context"
	"slices"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/review"
	"wending/views/marks"
	"wending/views/results"
	"wending/views/summary"
)

// differingMost is the maximum number of questions that a report lists for each kind of contradiction.
const differingMost = 200

// decision collects the facts with which a report begins, for a reader who has to decide about the task.
func (r Reader) decision(ctx context.Context, task db.Task) (d summary.Decision, err error) {
	all, err := r.report.Summaries(ctx, task, 0, "", false)
	if err != nil {
		return d, err
	}
	reviews, err := r.Reviews(ctx, task.ID)
	if err != nil {
		return d, err
	}
	d.Levels, d.Opinions = map[measure.Level]int{}, map[string]int{}
	d.Reasons = review.CountReasons(reviews.OfQuestions)
	ofKind := map[report.Contradiction][]report.Summary{}
	for _, item := range byRisk(all) {
		level := measure.Unknown
		if item.Level != nil {
			level = *item.Level
		}
		d.Levels[level]++
		d.Opinions[results.Opinion(reviews.OfQuestions[item.QuestionID])]++
		if d.Unanswered += item.Failures; item.Failures > 0 {
			d.FailedQuestions++
		}
		if kind := item.Contradicts(); kind != "" {
			ofKind[kind] = append(ofKind[kind], item)
		}
	}
	for _, kind := range report.Contradictions {
		differing := ofKind[kind]
		if len(differing) == 0 {
			continue
		}
		slices.SortStableFunc(differing, func(a, b report.Summary) int {
			return cmp.Compare(urgency(reviews.OfQuestions[a.QuestionID]), urgency(reviews.OfQuestions[b.QuestionID]))
		})
		listed := summary.Contradicting{Kind: kind, Total: len(differing)}
		listed.Questions, err = r.differing(ctx, task, differing[:min(len(differing), differingMost)], reviews)
		if err != nil {
			return d, err
		}
		d.Contradicting = append(d.Contradicting, listed)
	}
	return d, nil
}

// byRisk returns the questions in the default order of the page of answers.
func byRisk(all []report.Summary) []report.Summary {
	return results.Report{All: all}.Shown(results.Query{Sort: results.DefaultSort})
}

// urgency returns the rank of a question by people's verdicts: failed comes first, then those on which people disagree
// or are unsure, then not judged, then passed.
func urgency(reviews []review.Review) int {
	return slices.Index([]string{string(review.Fail), results.ReviewDisagree, string(review.Unsure), results.ReviewOpen,
		string(review.Pass)}, results.Opinion(reviews))
}

// differing returns the facts on which the answers to the given questions differ, for each question.
func (r Reader) differing(ctx context.Context, task db.Task, shown []report.Summary,
	reviews Reviews) (list []summary.Differing, err error) {
	ids := make([]int64, len(shown))
	for n, item := range shown {
		ids[n] = item.ID
	}
	items, err := r.ItemsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	questions, err := r.report.Questions(ctx, task.ID, ids)
	if err != nil {
		return nil, err
	}
	for _, item := range shown {
		one := summary.Differing{Number: item.Number, Question: items[item.ID].Question, Level: item.Level,
			Reviews: reviews.OfQuestions[item.QuestionID]}
		for _, variant := range questions[item.ID].Variants {
			of := marks.VariantFacts{Conflicts: marks.Conflicts(variant.Facts), Expected: variant.Expected}
			if task.TotalVariants > 1 {
				of.Variant = variant.Variant
			}
			one.Facts = append(one.Facts, of)
		}
		list = append(list, one)
	}
	return list, nil
}

// differingOnly returns the questions of a report that need attention, in the order of risk.
func differingOnly(all []report.Summary) []report.Summary {
	return slices.DeleteFunc(byRisk(all), func(item report.Summary) bool {
		return item.Level != nil && item.Level.IsStable() && item.Runs == item.Planned && item.Failures == 0 &&
			!item.IsContradicted
	})
}
