package report

import (
	"context"

	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Score is an evaluator's score for a current run.
type Score struct {
	Variant int
	ItemID  int64  `db:"item_id"`
	Cluster string // as in Summary
	Score   float64
	// Votes are the scores of a judge's votes, and Raw its output, vote by vote. Both are empty unless they were
	// requested. Raw is read only where Votes are not stored.
	Votes pq.Float64Array
	Raw   string
}

// EachScore calls yield with an evaluator's scores of a task's planned runs, without default ratings.
func (r Report) EachScore(ctx context.Context, task db.Task, evaluator int, withVotes bool,
	yield func(Score) error) error {
	const read = `
		SELECT r.variant, r.item_id, ` + db.ClusterOf + ` AS cluster, e.score, CASE WHEN $3 THEN e.votes END AS votes,
			CASE WHEN $3 AND e.votes IS NULL THEN coalesce(e.raw, '') ELSE '' END AS raw
		FROM evaluation_tasks t JOIN evaluation_items i ON i.task_id = t.id
		JOIN evaluation_runs r ON r.item_id = i.id AND r.is_current AND r.run_index <= t.runs_per_item
		JOIN evaluations e ON e.run_id = r.id AND e.evaluator = $2 AND e.score IS NOT NULL AND NOT e.is_default
		WHERE t.id = $1 ORDER BY r.item_id, r.variant, r.run_index`
	return pg.EachRow(ctx, r.db, "read the scores", read, []any{task.ID, evaluator, withVotes}, yield)
}
