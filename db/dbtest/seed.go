package dbtest

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
)

// Targets returns the single target of a plain task.
func Targets(url string) []db.Target {
	return []db.Target{{Number: 1, Kind: db.TargetURL, Protocol: "default", URL: url, RateLimit: "unlimited",
		RetryOn: pq.StringArray{"timeout", "network"}}}
}

// Variants returns the single variant of a plain task.
func Variants() []db.Variant { return []db.Variant{{Number: 1, Target: 1}} }

// Limits returns the limits of a plain task's launch, without a rate limit.
func Limits(origin string) []db.LaunchTarget { return []db.LaunchTarget{{Number: 1, Origin: origin}} }

// Seed stores tasks that have ended, each with questions and all their runs, and returns the id of the last task. One
// run in ten has failed; the others gave one of three answers.
func Seed(t testing.TB, tables *sqlx.DB, tasks, questions, runsPerItem int) uuid.UUID {
	t.Helper()
	return SeedVariants(t, tables, tasks, questions, 1, runsPerItem)
}

// SeedVariants is like Seed, but for tasks that compare several variants, each with its own target.
func SeedVariants(t testing.TB, tables *sqlx.DB, tasks, questions, variants, runsPerItem int) uuid.UUID {
	t.Helper()
	const seed = `WITH task AS (
			INSERT INTO evaluation_tasks (id, task_name, status, runs_per_item, timeout_seconds, max_retries, use_stream,
			concurrency,
				dataset_name, dataset_extension, total_items, total_variants, processed_items, created_at, started_at, completed_at,
				statistics)
			SELECT gen_random_uuid(), 'task ' || n, 'SUCCEEDED', $3, 30, 1, true, 1, 'q.csv', 'csv', $2, $4, $2,
				now() - n * interval '1 minute', now() - n * interval '1 minute', now() - n * interval '1 minute',
				'{"runs":0,"succeeded":0,"failed":0,"timed_out":0,"stopped":0,"attempts":0,"error_codes":{}}'
			FROM generate_series(1, $1::int) n RETURNING id),
		target AS (
			INSERT INTO task_targets (task_id, number, kind, name, url, rate_limit)
			SELECT id, v, CASE WHEN $4 = 1 THEN 'url' ELSE 'agent' END, CASE WHEN $4 = 1 THEN '' ELSE 'agent ' || v END,
			'http://127.0.0.1:9/', 'unlimited'
			FROM task, generate_series(1, $4::int) v),
		variant AS (
			INSERT INTO task_variants (task_id, number, target, name) SELECT id, v, v, CASE WHEN $4 = 1 THEN ''
			ELSE 'agent ' || v END FROM task, generate_series(1, $4::int) v),
		launch AS (
			INSERT INTO launches (id, task_id, kind, status, number, concurrency, total_units, started_at, finished_at,
			statistics)
			SELECT gen_random_uuid(), id, 'SUBMIT', 'SUCCEEDED', 1, 1, $2 * $3 * $4, now() - interval '1 minute', now(),
				'{"runs":0,"succeeded":0,"failed":0,"timed_out":0,"stopped":0,"attempts":0,"error_codes":{}}'
			FROM task RETURNING id, task_id),
		item AS (
			INSERT INTO evaluation_items (task_id, question_id, question, standard_answer)
			SELECT id, 'q' || lpad(n::text, 4, '0'), 'question ' || n, 'answer' FROM task, generate_series(1, $2::int) n
			RETURNING id, task_id),
		unit AS (
			INSERT INTO units (launch_id, item_id, variant, target, run_index, state, epoch, outcome)
			SELECT l.id, i.id, v, v, n, 'DONE', 1, CASE WHEN (i.id + n) % 10 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END
			FROM launch l JOIN item i ON i.task_id = l.task_id, generate_series(1, $4::int) v, generate_series(1, $3::int) n
			RETURNING id, launch_id, item_id, variant, run_index, outcome)
		INSERT INTO evaluation_runs (unit_id, epoch, task_id, launch_id, item_id, variant, run_index, status, response_body,
		answer_key, latency_ms, attempts, error_code)
		SELECT u.id, 1, l.task_id, u.launch_id, u.item_id, u.variant, u.run_index, u.outcome,
		repeat('an answer of the usual kind ', 20),
			CASE WHEN u.outcome = 'SUCCEEDED' THEN decode(md5((u.run_index % 3)::text), 'hex') END, 100 + (random() * 900)::int,
			1,
			CASE WHEN u.outcome = 'FAILED' THEN 'HTTP_500' END
		FROM unit u JOIN launch l ON l.id = u.launch_id`
	if _, err := tables.Exec(seed, tasks, questions, runsPerItem, variants); err != nil {
		t.Fatal(err)
	}
	if _, err := tables.Exec(`ANALYZE`); err != nil {
		t.Fatal(err)
	}
	var id uuid.UUID
	if err := tables.Get(&id, `SELECT id FROM evaluation_tasks WHERE total_items = $1 ORDER BY created_at DESC
		LIMIT 1`, questions); err != nil {
		t.Fatal(err)
	}
	return id
}
