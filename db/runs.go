package db

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// RunStatus is the outcome of a run.
type RunStatus string

// The outcomes that are stored.
const (
	RunSucceeded RunStatus = "SUCCEEDED"
	RunFailed    RunStatus = "FAILED"
	RunTimeout   RunStatus = "TIMEOUT"
)

// Run is a row of evaluation_runs: the outcome of one call.
type Run struct {
	ID       int64     `db:"id"`
	ItemID   int64     `db:"item_id"`
	RunIndex int       `db:"run_index"`
	Status   RunStatus `db:"status"`
	// Response is the answer as text. Where PostgreSQL cannot hold it (NUL, invalid UTF-8) such bytes are
	// replaced visibly; IsReplaced says so and ExactResponse has the bytes.
	Response   *string `db:"response_body"`
	IsReplaced bool    `db:"is_replaced"`
	// ResponseLength is the whole response's length in characters, also where Response was cut.
	ResponseLength int     `db:"response_length"`
	Reasoning      *string `db:"reasoning"`
	// ReasoningIsCut says that Reasoning is only the beginning.
	ReasoningIsCut bool      `db:"reasoning_is_cut"`
	AnswerKey      []byte    `db:"answer_key"`
	LatencyMS      *int      `db:"latency_ms"`
	Attempts       int       `db:"attempts"`
	ErrorCode      *string   `db:"error_code"`
	ErrorMessage   *string   `db:"error_message"`
	CreatedAt      time.Time `db:"created_at"`
}

// Result is the outcome of a unit that a worker hands in.
type Result struct {
	Unit   Unit
	Status RunStatus
	// Response is what the agent answered, byte for byte; nil when nothing came.
	Response  []byte
	Reasoning []byte
	// AnswerKey is equal for answers that count as equal; nil unless the run succeeded.
	AnswerKey    []byte
	LatencyMS    int
	Attempts     int
	ErrorCode    string
	ErrorMessage string
}

// RecordResult stores the outcome of a unit, exactly once. accepted is false when the worker had been
// replaced meanwhile: its result is then thrown away. Calling it again after an error is safe; a first
// call whose commit succeeded although its reply was lost counts as accepted.
func (s *Store) RecordResult(ctx context.Context, taskID uuid.UUID, r Result) (accepted bool, err error) {
	const record = `WITH done AS (
			UPDATE units SET state = 'DONE', worker_id = NULL
			WHERE id = $1 AND state = 'RUNNING' AND epoch = $2 RETURNING id, launch_id, item_id, run_index)
		INSERT INTO evaluation_runs (unit_id, epoch, task_id, launch_id, item_id, run_index, status, response_body,
			response_bytes, reasoning, answer_key, latency_ms, attempts, error_code, error_message)
		SELECT id, $2, $3, launch_id, item_id, run_index, $4, $5, $6, $7, $8, $9, $10, $11, $12 FROM done`
	const known = `SELECT EXISTS (SELECT 1 FROM evaluation_runs WHERE unit_id = $1 AND epoch = $2)`
	var body, exact any
	if r.Response != nil {
		text := storableText(string(r.Response))
		body = text
		if text != string(r.Response) {
			exact = r.Response
		}
	}
	result, err := s.db.ExecContext(ctx, record, r.Unit.ID, r.Unit.Epoch, taskID, r.Status, body, exact,
		nullIfEmpty(storableText(string(r.Reasoning))), r.AnswerKey, r.LatencyMS, r.Attempts,
		nullIfEmpty(r.ErrorCode), nullIfEmpty(storableText(r.ErrorMessage)))
	if err != nil {
		return false, classify("record a result", err)
	}
	stored, err := result.RowsAffected()
	if err != nil {
		return false, classify("record a result", err)
	}
	if stored == 0 {
		err := s.db.GetContext(ctx, &accepted, known, r.Unit.ID, r.Unit.Epoch)
		return accepted, classify("look for a recorded result", err)
	}
	return true, nil
}

// CountProcessed marks the item as processed when none of its units in the launch is left to run, and
// counts it in the task's progress. Call it after the commit of a result: inside that transaction two
// lanes that finish an item together would not see each other.
func (s *Store) CountProcessed(ctx context.Context, launchID, taskID uuid.UUID, itemID int64) error {
	const count = `WITH finished AS (
			UPDATE evaluation_items i SET processed = true WHERE i.id = $3 AND NOT i.processed AND NOT EXISTS (
				SELECT 1 FROM units u WHERE u.launch_id = $1 AND u.item_id = i.id AND u.state IN ('QUEUED', 'RUNNING'))
			RETURNING 1)
		UPDATE evaluation_tasks SET progress_processed = progress_processed + 1, updated_at = now()
		WHERE id = $2 AND EXISTS (SELECT 1 FROM finished)`
	_, err := s.db.ExecContext(ctx, count, launchID, taskID, itemID)
	return classify("count a processed question", err)
}

// RecountProcessed sets the progress of every running task from its units: a process that died between
// a result and its count leaves the count behind.
func (s *Store) RecountProcessed(ctx context.Context) error {
	const recount = `WITH finished AS (
			UPDATE evaluation_items i SET processed = true FROM launches l
			WHERE l.status = 'RUNNING' AND i.task_id = l.task_id AND NOT i.processed AND NOT EXISTS (
				SELECT 1 FROM units u WHERE u.launch_id = l.id AND u.item_id = i.id AND u.state IN ('QUEUED', 'RUNNING'))
			RETURNING i.task_id)
		UPDATE evaluation_tasks t SET progress_processed = progress_processed + f.n, updated_at = now()
		FROM (SELECT task_id, count(*) AS n FROM finished GROUP BY task_id) f WHERE t.id = f.task_id`
	_, err := s.db.ExecContext(ctx, recount)
	return classify("recount the progress", err)
}

const runColumns = `id, item_id, run_index, status, response_bytes IS NOT NULL AS is_replaced,
	coalesce(char_length(response_body), 0) AS response_length, answer_key, latency_ms, attempts,
	error_code, error_message, created_at`

// CurrentRuns returns the current runs of these items with at most limit characters of each response,
// ordered by item and run_index.
func (s *Store) CurrentRuns(ctx context.Context, itemIDs []int64, limit int) ([]Run, error) {
	const query = `SELECT ` + runColumns + `, left(response_body, $2) AS response_body, left(reasoning, $2) AS reasoning,
		coalesce(char_length(reasoning) > $2, false) AS reasoning_is_cut
		FROM evaluation_runs WHERE item_id = ANY ($1) AND is_current ORDER BY item_id, run_index`
	var runs []Run
	err := s.db.SelectContext(ctx, &runs, query, pq.Int64Array(itemIDs), limit)
	return runs, classify("read the runs", err)
}

// EachCurrentRun calls yield with the whole current runs of one item, in order of run_index, one at a time.
func (s *Store) EachCurrentRun(ctx context.Context, itemID int64, yield func(Run) error) error {
	const query = `SELECT ` + runColumns + `, response_body, reasoning
		FROM evaluation_runs WHERE item_id = $1 AND is_current ORDER BY run_index`
	ctx, cancel := context.WithCancel(ctx)
	rows, err := s.db.QueryxContext(ctx, query, itemID)
	if err != nil {
		cancel()
		return classify("read the runs", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err says all
	defer cancel()     // before Close, which would read all that is left
	for rows.Next() {
		var run Run
		if err := rows.StructScan(&run); err != nil {
			return classify("read a run", err)
		}
		if err := yield(run); err != nil {
			return err
		}
	}
	return classify("read the runs", rows.Err())
}

// RunResponse returns the exact bytes of one run's response, or ErrNotFound when the task has no such run.
func (s *Store) RunResponse(ctx context.Context, taskID uuid.UUID, runID int64) ([]byte, error) {
	var response []byte
	err := s.db.GetContext(ctx, &response, `SELECT coalesce(response_bytes, convert_to(response_body, 'UTF8'), '')
		FROM evaluation_runs WHERE task_id = $1 AND id = $2`, taskID, runID)
	return response, classify("read the response", err)
}

// ExportRow is one item with all its current runs, for reports.
type ExportRow struct {
	Item
	Runs []ExportRun
}

// ExportRun is one run in a report.
type ExportRun struct {
	RunIndex int       `db:"run_index"`
	Status   RunStatus `db:"status"`
	Response *string   `db:"response_body"`
	// Exact is the response byte for byte where it is not valid text; else nil.
	Exact        []byte  `db:"response_bytes"`
	LatencyMS    *int    `db:"latency_ms"`
	ErrorCode    *string `db:"error_code"`
	ErrorMessage *string `db:"error_message"`
}

// EachExportRow calls yield with every item of the task and its current runs, in the order of pages. Rows
// come from the server as they are read, so memory holds one item at a time, all of one snapshot.
func (s *Store) EachExportRow(ctx context.Context, taskID uuid.UUID, yield func(ExportRow) error) error {
	// The server must not sort the answers before it sends the first: read along the indexes.
	const alongIndexes = `SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off`
	const query = `SELECT ` + itemColumns + `, r.run_index, r.status, r.response_body, r.response_bytes, r.latency_ms, r.error_code, r.error_message
		FROM evaluation_items i LEFT JOIN evaluation_runs r ON r.item_id = i.id AND r.is_current
		WHERE i.task_id = $1 ORDER BY i.question_id, r.run_index`
	type joined struct {
		Item
		RunIndex     *int       `db:"run_index"`
		Status       *RunStatus `db:"status"`
		Response     *string    `db:"response_body"`
		Exact        []byte     `db:"response_bytes"`
		LatencyMS    *int       `db:"latency_ms"`
		ErrorCode    *string    `db:"error_code"`
		ErrorMessage *string    `db:"error_message"`
	}
	return s.inTx(ctx, "read the report", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, alongIndexes); err != nil {
			return classify("open the report", err)
		}
		ctx, cancel := context.WithCancel(ctx)
		rows, err := tx.QueryxContext(ctx, query, taskID)
		if err != nil {
			cancel()
			return classify("open the report", err)
		}
		defer rows.Close() //nolint:errcheck // rows.Err says all
		defer cancel()     // before Close, which would read all that is left
		var current *ExportRow
		for rows.Next() {
			var row joined
			if err := rows.StructScan(&row); err != nil {
				return classify("read the report", err)
			}
			if current == nil || current.ID != row.ID {
				if current != nil {
					if err := yield(*current); err != nil {
						return err
					}
				}
				current = &ExportRow{Item: row.Item}
			}
			if row.RunIndex != nil {
				current.Runs = append(current.Runs, ExportRun{RunIndex: *row.RunIndex, Status: *row.Status, Response: row.Response,
					Exact: row.Exact, LatencyMS: row.LatencyMS, ErrorCode: row.ErrorCode, ErrorMessage: row.ErrorMessage})
			}
		}
		if err := rows.Err(); err != nil {
			return classify("read the report", err)
		}
		if current != nil {
			return yield(*current)
		}
		return nil
	})
}

// storableText replaces what PostgreSQL's text cannot hold: NUL becomes ␀, a byte that is no UTF-8 becomes �.
func storableText(text string) string {
	if !strings.ContainsRune(text, 0) && utf8.ValidString(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\u2400")
}

func nullIfEmpty(text string) any {
	if text == "" {
		return nil
	}
	return text
}
