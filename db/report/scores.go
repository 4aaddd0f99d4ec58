package report

import (
	"context"

	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Scores are an evaluator's scores for the current runs of a question and variant or, with votes, for one run.
type Scores struct {
	Variant int
	ItemID  int64  `db:"item_id"`
	Cluster string // as in Summary
	Scores  pq.Float64Array
	// Votes are the scores of a judge's votes, and Raw its output, vote by vote. Both are empty unless they were
	// requested. Raw is read only where Votes are not stored.
	Votes pq.Float64Array
	Raw   string
}

// EachScore calls yield with an evaluator's scores of a task's planned runs, without default ratings: run by run if
// withVotes is true, otherwise question by question.
func (r Report) EachScore(ctx context.Context, task db.Task, evaluator int, withVotes bool,
	yield func(Scores) error) error {
	const read = `
		SELECT r.variant, r.item_id, ` + db.ClusterOf + ` AS cluster, array_agg(e.score) AS scores,
			min(CAST(e.votes AS text)) FILTER (WHERE $3) AS votes,
			coalesce(min(e.raw) FILTER (WHERE $3 AND e.votes IS NULL), '') AS raw
		FROM evaluation_tasks t JOIN evaluation_items i ON i.task_id = t.id
		JOIN evaluation_runs r ON r.item_id = i.id AND r.is_current AND r.run_index <= t.runs_per_item
		JOIN evaluations e ON e.run_id = r.id AND e.evaluator = $2 AND e.score IS NOT NULL AND NOT e.is_default
		WHERE t.id = $1
		GROUP BY r.item_id, r.variant, cluster, CASE WHEN $3 THEN r.id END`
	return pg.EachRow(ctx, r.db, "read the scores", read, []any{task.ID, evaluator, withVotes}, yield)
}
