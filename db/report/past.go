package report

import (
	"context"

	"github.com/google/uuid"

	"wending/db/pg"
)

// Past is what the last runs of a saved target took on average; nil where none tells.
type Past struct {
	LatencyMS    *float64 `db:"latency_ms"`
	InputTokens  *float64 `db:"input_tokens"`
	OutputTokens *float64 `db:"output_tokens"`
}

// Past returns the means over the last runs that succeeded of a saved model or agent, in the newest tasks that use it.
func (r Report) Past(ctx context.Context, libraryID uuid.UUID) (Past, error) {
	const read = `
		SELECT avg(latency_ms) AS latency_ms, avg(input_tokens) AS input_tokens, avg(output_tokens) AS output_tokens
		FROM (
			SELECT r.latency_ms, r.input_tokens, r.output_tokens
			FROM (
				SELECT g.task_id, g.number
				FROM task_targets g
				JOIN evaluation_tasks t ON t.id = g.task_id
				WHERE g.library_id = $1
				  AND EXISTS (
					SELECT
					FROM task_variants v
					JOIN evaluation_runs r ON r.task_id = v.task_id AND r.variant = v.number AND r.is_current AND r.status = 'SUCCEEDED'
					WHERE v.task_id = g.task_id AND v.target = g.number)
				ORDER BY t.created_at DESC
				LIMIT 3) used
			JOIN task_variants v ON v.task_id = used.task_id AND v.target = used.number
			JOIN LATERAL (
				SELECT latency_ms, input_tokens, output_tokens
				FROM evaluation_runs
				WHERE task_id = used.task_id AND variant = v.number AND is_current AND status = 'SUCCEEDED'
				LIMIT 50) r ON true) last`
	var past Past
	err := r.db.GetContext(ctx, &past, read, libraryID)
	return past, pg.Classify("read what runs took", err)
}
