package report

import (
	"context"

	"github.com/google/uuid"

	"wending/db/pg"
)

// Past holds the mean latency and tokens of calls of a saved target or judge (see Report.Past and Report.PastOfJudge);
// a field is nil if no call reports it.
type Past struct {
	LatencyMS    *float64 `db:"latency_ms"`
	InputTokens  *float64 `db:"input_tokens"`
	OutputTokens *float64 `db:"output_tokens"`
}

// Past returns the means over successful runs of a saved model or agent: up to 50 runs of each variant in the three
// newest tasks that have such runs.
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
					JOIN evaluation_runs r ON r.task_id = v.task_id AND r.variant = v.number AND r.is_current
					AND r.status = 'SUCCEEDED'
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
	return past, pg.Classify("read the usage of runs", err)
}

// PastOfJudge returns the mean latency and tokens per vote of judges that use a saved model, over up to 50 evaluations
// by each judge in the newest tasks that use it.
func (r Report) PastOfJudge(ctx context.Context, modelID uuid.UUID) (Past, error) {
	const read = `
		SELECT avg(latency_ms / votes) AS latency_ms, avg(input_tokens / votes) AS input_tokens,
		avg(output_tokens / votes) AS output_tokens
		FROM (
			SELECT v.latency_ms::float8, v.input_tokens::float8, v.output_tokens::float8,
				coalesce(nullif(CAST(CAST(used.config AS jsonb) ->> 'votes' AS int), 0), 1) AS votes
			FROM (
				SELECT e.task_id, e.number, e.config
				FROM task_targets g
				JOIN task_evaluators e ON e.task_id = g.task_id AND e.target = g.number
				JOIN evaluation_tasks t ON t.id = g.task_id
				WHERE g.library_id = $1 AND g.kind = 'judge'
				ORDER BY t.created_at DESC
				LIMIT 3) used
			JOIN LATERAL (
				SELECT v.latency_ms, v.input_tokens, v.output_tokens
				FROM evaluation_runs r
				JOIN evaluations v ON v.run_id = r.id AND v.evaluator = used.number AND v.status = 'SUCCEEDED' AND NOT v.is_default
				WHERE r.task_id = used.task_id AND r.is_current
				LIMIT 50) v ON true) last`
	var past Past
	err := r.db.GetContext(ctx, &past, read, modelID)
	return past, pg.Classify("read the usage of judges' calls", err)
}

// Measured returns the latency and tokens measured by the last successful test of a saved model or agent; the zero
// value if there is none, or the model's id or the agent's address has changed since.
func (r Report) Measured(ctx context.Context, libraryID uuid.UUID) (Past, error) {
	const read = `
		SELECT measured_ms AS latency_ms, measured_input_tokens AS input_tokens, measured_output_tokens AS output_tokens
		FROM models
		WHERE id = $1 AND measured_of = model_id
		UNION ALL
		SELECT measured_ms, measured_input_tokens, measured_output_tokens
		FROM agents
		WHERE id = $1 AND measured_of = url`
	var past Past
	err := r.db.GetContext(ctx, &past, read, libraryID)
	if pg.IsNoRows(err) {
		return Past{}, nil
	}
	return past, pg.Classify("read a test's usage", err)
}
