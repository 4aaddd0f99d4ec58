package review

import (
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
