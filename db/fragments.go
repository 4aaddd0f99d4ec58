package db

// Columns, expressions, conditions and joins that several statements share. TestEveryStatementIsUnderstood has
// PostgreSQL parse every statement that contains them.

// ItemColumns are the columns of an Item, from evaluation_items i.
const ItemColumns = `i.id, i.question_id, i.question, i.standard_answer, i.system_prompt, i.user_context, i.series, i.turn, i.variable_values`

// RunColumns are the columns of a Run, from evaluation_runs r, without the answer's text.
const RunColumns = `r.id, r.unit_id, r.launch_id, r.item_id, r.variant, r.run_index, r.status,
	r.response_bytes IS NOT NULL AS is_replaced,
	coalesce(char_length(r.response_body), 0) AS response_length, r.answer_key, r.latency_ms, r.attempts,
	r.failed_attempts,
	r.error_code, r.error_message, r.finish_reason, r.trace_id, r.agent_trace_id, r.created_at,
	r.input_tokens, r.output_tokens, r.reasoning_tokens, r.total_tokens, trim_scale(r.cost) AS cost, r.first_token_ms,
	r.passed, r.score, ` + EvaluationsOfRun + ` AS evaluations`

// AnswerTokens are the output tokens of a run without its reasoning tokens; NULL if they are not counted separately.
const AnswerTokens = `(output_tokens - coalesce(reasoning_tokens, CASE WHEN reasoning IS NULL THEN 0 END))`

// Supersede clears is_current on the runs that are about to be replaced: the current runs that match a row of "done" in
// item, variant and run_index. The INSERT that follows must join superseded, so that the update comes first and the
// partial unique index is not violated.
const Supersede = `
	older AS (
		UPDATE evaluation_runs r
		SET is_current = false
		FROM done d
		WHERE r.item_id = d.item_id AND r.variant = d.variant AND r.run_index = d.run_index AND r.is_current
		RETURNING r.id),
	superseded AS (
		SELECT count(*) FROM older)`

// TurnsOfUnit joins the turns that a unit u asks: its item and, in a conversation, all later ones.
const TurnsOfUnit = `
	JOIN evaluation_items own ON own.id = u.item_id
	JOIN LATERAL (
		SELECT own.id, own.turn
		UNION ALL
		SELECT id, turn FROM evaluation_items WHERE task_id = own.task_id AND series = own.series
		AND turn > own.turn) turn ON true`

// EvaluationsOfRun is an expression for the evaluations of a run r.
const EvaluationsOfRun = `(
		SELECT json_agg(json_build_object('number', e.evaluator, 'status', e.status, 'score', e.score, 'passed', e.passed,
			'reason', coalesce(e.reason, ''), 'error_code', coalesce(e.error_code, ''), 'error_message',
			coalesce(e.error_message, ''),
			'version', e.version, 'ratings', e.ratings, 'is_default', e.is_default, 'latency_ms', e.latency_ms, 'input_tokens',
			e.input_tokens,
			'output_tokens', e.output_tokens, 'total_tokens', e.total_tokens, 'cost', CAST(trim_scale(e.cost) AS text))
			ORDER BY e.evaluator)
		FROM evaluations e
		WHERE e.run_id = r.id)`

// KeepPastEvaluations moves the evaluations that the rows of "fresh" are about to replace to past_evaluations;
// "fresh" has run_id and evaluator.
const KeepPastEvaluations = `
	past AS (
		INSERT INTO past_evaluations (run_id, evaluator, task_id, status, score, passed, reason, error_code, error_message,
			created_at, version, ratings, is_default, raw, latency_ms, attempts, input_tokens, output_tokens, total_tokens,
			cost, launch_id)
		SELECT e.run_id, e.evaluator, e.task_id, e.status, e.score, e.passed, e.reason, e.error_code, e.error_message,
			e.created_at, e.version, e.ratings, e.is_default, e.raw, e.latency_ms, e.attempts, e.input_tokens,
			e.output_tokens, e.total_tokens, e.cost, e.launch_id
		FROM evaluations e
		JOIN fresh ON fresh.run_id = e.run_id AND fresh.evaluator = e.evaluator)`

// ReplaceEvaluation overwrites the stored evaluation if the same evaluator has already evaluated the run.
const ReplaceEvaluation = `
	ON CONFLICT (run_id, evaluator) DO UPDATE
	SET status = excluded.status, score = excluded.score, passed = excluded.passed, reason = excluded.reason,
	error_code = excluded.error_code,
		error_message = excluded.error_message, created_at = now(), version = excluded.version, ratings = excluded.ratings,
		is_default = excluded.is_default, raw = excluded.raw, votes = excluded.votes,
		latency_ms = excluded.latency_ms, attempts = excluded.attempts,
		input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, total_tokens = excluded.total_tokens,
		cost = excluded.cost, launch_id = excluded.launch_id`

// inScope is the condition for the items i that a launch l runs. A launch of one turn runs its whole conversation.
const inScope = `(l.item_id IS NULL OR i.id = l.item_id
	OR i.series = (SELECT series FROM evaluation_items WHERE id = l.item_id))`

// isKept is the condition under which a launch l keeps the run r of an item, in variant v and with run_index n,
// instead of repeating it.
const isKept = `r.variant = v.number AND r.run_index = n AND r.is_current
	AND (l.kind <> 'RETRY_FAILED' OR r.status = 'SUCCEEDED')`

// PlannedRuns is the number of runs planned for item i of task t in variant v.
const PlannedRuns = `coalesce((SELECT p.runs FROM planned_runs p WHERE p.item_id = i.id
	AND p.variant = v.number), t.runs_per_item)`

// RunsOfItem is the number of runs planned for item i of task t, over all variants.
const RunsOfItem = `t.runs_per_item * t.total_variants
	+ (SELECT coalesce(sum(p.runs - t.runs_per_item), 0) FROM planned_runs p WHERE p.item_id = i.id)`

// RunsOfTask is the number of runs planned for task t.
const RunsOfTask = `t.total_items * t.runs_per_item * t.total_variants + t.extra_runs`

// sumSpent is a JSON object with the cost of the runs r in g.currency. Without a currency that all targets share, the
// cost is null.
const sumSpent = `jsonb_build_object(
			'currency', g.currency,
			'cost', CASE WHEN g.currency IS NOT NULL THEN CAST(trim_scale(sum(r.cost)) AS text) END,
			'runs_with_cost', count(r.cost))`

// sharedCurrency is the common currency of targets; NULL if they have different ones.
const sharedCurrency = `CASE WHEN count(DISTINCT currency) = 1 THEN min(currency) END AS currency`

// ClusterOf is the cluster of item i of task t: its value of the task's cluster_by column, or its conversation; empty
// for an item that is independent of all others.
const ClusterOf = `CASE WHEN t.cluster_by IS NULL THEN coalesce(i.series, '')
	ELSE coalesce(i.variable_values[array_position(t.variable_names, t.cluster_by)], '') END`
