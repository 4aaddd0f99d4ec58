package review

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"wending/db/pg"
)

// ReasonsOf returns the reasons that verdicts on a task may have: the common ones, its project's own, and those used
// in the task that the project has since removed.
func (r Reviews) ReasonsOf(ctx context.Context, taskID uuid.UUID) ([]string, error) {
	const read = `
		SELECT own.reason
		FROM (
			SELECT reason, 0 AS source, place
			FROM evaluation_tasks t
			JOIN projects p ON p.id = t.project_id
			CROSS JOIN unnest(p.review_reasons) WITH ORDINALITY AS stored (reason, place)
			WHERE t.id = $1
			UNION ALL
			SELECT unnest(v.reasons), 1, 0
			FROM reviews v
			JOIN evaluation_items i ON i.id = v.item_id
			WHERE i.task_id = $1 AND v.is_current) own
		GROUP BY own.reason
		ORDER BY min(own.source), min(own.place), own.reason`
	var own []string
	if err := r.db.SelectContext(ctx, &own, read, taskID); err != nil {
		return nil, pg.Classify("read the reasons of verdicts", err)
	}
	all := slices.Clone(Reasons)
	for _, reason := range own {
		if !slices.Contains(all, reason) {
			all = append(all, reason)
		}
	}
	return all, nil
}

// ReasonCount is the number of questions that have a verdict with this reason.
type ReasonCount struct {
	Reason string `json:"reason" doc:"number, conclusion, omission, citation, format, or one of the project's own" example:"citation"`
	Count  int    `json:"questions" doc:"Questions with a verdict for this reason" example:"12"`
}

// ReasonCounts counts the questions for each reason of the verdicts on a task's questions, most frequent first.
func (r Reviews) ReasonCounts(ctx context.Context, taskID uuid.UUID) ([]ReasonCount, error) {
	all, err := r.List(ctx, taskID, "", "")
	ofQuestions := map[string][]Review{}
	for _, one := range all {
		if one.RunIndex == nil {
			ofQuestions[one.QuestionID] = append(ofQuestions[one.QuestionID], one)
		}
	}
	return append([]ReasonCount{}, CountReasons(ofQuestions)...), err
}

// CountReasons counts the questions for each reason, most frequent first. reviews holds the verdicts on each question.
func CountReasons(reviews map[string][]Review) (counts []ReasonCount) {
	questions := map[string]int{}
	for _, verdicts := range reviews {
		seen := map[string]bool{}
		for _, one := range verdicts {
			for _, reason := range one.Reasons {
				if !seen[reason] {
					seen[reason] = true
					questions[reason]++
				}
			}
		}
	}
	for reason, count := range questions {
		counts = append(counts, ReasonCount{reason, count})
	}
	slices.SortFunc(counts, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(reasonPlace(a.Reason), reasonPlace(b.Reason)),
			cmp.Compare(a.Reason, b.Reason))
	})
	return counts
}

// reasonPlace returns the rank of a reason: the common reasons come before a project's own.
func reasonPlace(reason string) int {
	if at := slices.Index(Reasons, reason); at >= 0 {
		return at
	}
	return len(Reasons)
}
