// Package archive reads a task with its results as plain values, and stores one that another installation has read.
package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// EachRun calls yield with the current runs of a task as JSON objects, one at a time: with the question_id of their questions and
// what evaluators say of them, without ids.
func EachRun(ctx context.Context, store *db.Store, taskID uuid.UUID, yield func(json.RawMessage) error) error {
	const read = `
		SELECT row_to_json(line) AS line
		FROM (
			SELECT i.question_id, r.variant, r.run_index, r.status, r.response_body, encode(r.response_bytes, 'base64') AS response_bytes, r.reasoning,
				encode(r.answer_key, 'hex') AS answer_key, r.latency_ms, r.attempts, r.error_code, r.error_message, r.created_at,
				r.input_tokens, r.output_tokens, r.reasoning_tokens, r.total_tokens, CAST(r.cost AS text) AS cost, r.first_token_ms, r.passed, r.score,
				r.conversation_id,
				(SELECT json_agg(json_build_object('evaluator', e.evaluator, 'status', e.status, 'score', e.score, 'passed', e.passed, 'reason', e.reason,
						'error_code', e.error_code, 'error_message', e.error_message, 'ratings', e.ratings, 'is_default', e.is_default, 'raw', e.raw,
						'latency_ms', e.latency_ms, 'input_tokens', e.input_tokens, 'output_tokens', e.output_tokens, 'total_tokens', e.total_tokens,
						'cost', CAST(e.cost AS text), 'version', e.version) ORDER BY e.evaluator)
				FROM evaluations e
				WHERE e.run_id = r.id) AS evaluations
			FROM evaluation_runs r
			JOIN evaluation_items i ON i.id = r.item_id
			WHERE r.task_id = $1 AND r.is_current
			ORDER BY r.item_id, r.variant, r.run_index) line`
	return pg.EachRow(ctx, store.Pool(), "read a task's runs", read, []any{taskID}, func(row struct {
		Line json.RawMessage `db:"line"`
	},
	) error {
		return yield(row.Line)
	})
}

// Ended is how and when an imported task ended.
type Ended struct {
	Status                            db.TaskStatus
	CreatedAt, StartedAt, CompletedAt *time.Time
}

// batch is how many runs one statement stores.
const batch = 500

const insertRuns = `
	WITH line AS (
		SELECT *
		FROM json_to_recordset($1) AS line (
			question_id text, variant int, run_index int, status text, response_body text, response_bytes text, reasoning text, answer_key text, latency_ms int,
			attempts int, error_code text, error_message text, created_at timestamptz, input_tokens int, output_tokens int, reasoning_tokens int,
			total_tokens int, cost numeric, first_token_ms int, passed bool, score float8, conversation_id text, evaluations json)),
	stored AS (
		INSERT INTO evaluation_runs (
			unit_id, epoch, task_id, launch_id, item_id, variant, run_index, status, response_body, response_bytes, reasoning, answer_key, latency_ms, attempts,
			error_code, error_message, created_at, input_tokens, output_tokens, reasoning_tokens, total_tokens, cost, first_token_ms, passed, score, conversation_id)
		SELECT nextval(pg_get_serial_sequence('units', 'id')), 1, t.id, $3, i.id, line.variant, line.run_index, line.status, line.response_body,
			decode(line.response_bytes, 'base64'), line.reasoning, decode(line.answer_key, 'hex'), line.latency_ms, coalesce(line.attempts, 1),
			line.error_code, line.error_message, coalesce(line.created_at, now()), line.input_tokens, line.output_tokens, line.reasoning_tokens,
			line.total_tokens, line.cost, line.first_token_ms, line.passed, line.score, line.conversation_id
		FROM line
		JOIN evaluation_tasks t ON t.id = $2
		JOIN evaluation_items i ON i.task_id = t.id AND i.question_id = line.question_id
		WHERE line.variant BETWEEN 1 AND t.total_variants AND line.run_index BETWEEN 1 AND t.runs_per_item
		RETURNING id, item_id, variant, run_index),
	judged AS (
		INSERT INTO evaluations (
			run_id, evaluator, task_id, status, score, passed, reason, error_code, error_message, ratings, is_default, raw, latency_ms, input_tokens, output_tokens,
			total_tokens, cost, version)
		SELECT stored.id, e.evaluator, $2, e.status, e.score, e.passed, e.reason, e.error_code, e.error_message, e.ratings, coalesce(e.is_default, false), e.raw,
			e.latency_ms, e.input_tokens, e.output_tokens, e.total_tokens, e.cost, e.version
		FROM line
		JOIN evaluation_items i ON i.task_id = $2 AND i.question_id = line.question_id
		JOIN stored ON stored.item_id = i.id AND stored.variant = line.variant AND stored.run_index = line.run_index
		CROSS JOIN json_to_recordset(coalesce(line.evaluations, '[]')) AS e (
			evaluator int, status text, score float8, passed bool, reason text, error_code text, error_message text, ratings json, is_default bool, raw text,
			latency_ms int, input_tokens int, output_tokens int, total_tokens int, cost numeric, version int)
		JOIN task_evaluators known ON known.task_id = $2 AND known.number = e.evaluator)
	SELECT count(*) FROM stored`

// Import stores a task that has ended elsewhere, with its results, all or nothing. next returns its runs, as EachRun made them, and
// false after the last. It returns ErrInvalid if they do not fit the task.
func Import(ctx context.Context, store *db.Store, n db.NewTask, ended Ended, next func() (json.RawMessage, bool, error)) error {
	const insertLaunch = `
		INSERT INTO launches (id, task_id, number, kind, status, concurrency, total_units, requested_by, requested_via, created_at, started_at, finished_at, is_settled)
		SELECT $1, id, 1, 'SUBMIT', $3, concurrency, $4, $5, $6,
			created_at, started_at, completed_at, true
		FROM evaluation_tasks
		WHERE id = $2`
	const end = `
		UPDATE evaluation_tasks
		SET status = $2, created_at = coalesce($3, created_at), started_at = coalesce($4, $3, now()), completed_at = coalesce($5, now()), is_assessed = false
		WHERE id = $1`
	task, launchID := n.Task, uuid.New()
	return store.Pool().InTx(ctx, "import a task", func(tx *sqlx.Tx) error {
		if _, err := db.CreateTaskIn(ctx, tx, n); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, end, task.ID, ended.Status, ended.CreatedAt, ended.StartedAt, ended.CompletedAt); err != nil {
			return pg.Classify("end the task", err)
		}
		total := len(n.Items) * task.RunsPerItem * len(task.Variants)
		if _, err := tx.ExecContext(ctx, insertLaunch, launchID, task.ID, ended.Status, total, n.By.Who(), n.By.Via); err != nil {
			return pg.Classify("store the launch", err)
		}
		for isDone := false; !isDone; {
			lines := []json.RawMessage{}
			for size := 0; len(lines) < batch && size < batchBytes; {
				line, isThere, err := next()
				if err != nil {
					return err
				}
				if isDone = !isThere; isDone {
					break
				}
				lines, size = append(lines, line), size+len(line)
			}
			if err := storeRuns(ctx, tx, task.ID, launchID, lines); err != nil {
				return err
			}
		}
		if err := db.StoreStatistics(ctx, tx, launchID, task.ID); err != nil {
			return err
		}
		return db.Notify(ctx, tx, task.ID)
	})
}

// batchBytes is about how much one statement stores.
const batchBytes = 8 << 20

// ErrInvalid means that runs do not fit their task: a question, a variant or a repeat that it does not have, or one twice.
var ErrInvalid = errors.New("the runs do not fit the task")

func storeRuns(ctx context.Context, tx *sqlx.Tx, taskID, launchID uuid.UUID, lines []json.RawMessage) error {
	if len(lines) == 0 {
		return nil
	}
	text, err := json.Marshal(lines)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var stored int
	if err := tx.GetContext(ctx, &stored, insertRuns, string(text), taskID, launchID); err != nil {
		if pg.IsInput(err) {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return pg.Classify("store runs", err)
	}
	if stored != len(lines) {
		return ErrInvalid
	}
	return nil
}
