package db

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// RunStatus is the outcome of a run.
type RunStatus string

// The outcomes of runs. STOPPED is that of a run that never took place: nothing is stored of it.
const (
	RunSucceeded RunStatus = "SUCCEEDED"
	RunFailed    RunStatus = "FAILED"
	RunTimeout   RunStatus = "TIMEOUT"
	RunStopped   RunStatus = "STOPPED"
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

// supersede takes the place of runs that are no longer the newest, before those of the units named "done"
// are inserted: whoever inserts must join "superseded", a single row, so that this comes first.
const supersede = `older AS (UPDATE evaluation_runs r SET is_current = false FROM done d
		WHERE r.item_id = d.item_id AND r.run_index = d.run_index AND r.is_current RETURNING r.id),
	superseded AS (SELECT count(*) AS runs FROM older)`

// RecordResults stores the outcomes of units of one launch, each exactly once, all in one transaction.
// refused are the units whose worker had been replaced meanwhile: their results are thrown away. Calling it
// again after an error is safe; a first call whose commit succeeded although its reply was lost refuses nothing.
func (s *Store) RecordResults(ctx context.Context, taskID uuid.UUID, results []Result) (refused []Unit, err error) {
	const record = `WITH given AS (SELECT * FROM unnest($2::bigint[], $3::int[], $4::text[], $5::text[], $6::bool[], $7::bytea[], $8::text[],
			$9::bytea[], $10::int[], $11::int[], $12::text[], $13::text[])
			AS g(unit_id, epoch, status, body, has_body, exact, reasoning, answer_key, latency_ms, attempts, error_code, error_message)),
		done AS (UPDATE units u SET state = 'DONE', outcome = g.status, worker_id = NULL FROM given g
			WHERE u.id = g.unit_id AND u.state = 'RUNNING' AND u.epoch = g.epoch RETURNING u.id, u.launch_id, u.item_id, u.run_index), ` + supersede + `
		INSERT INTO evaluation_runs (unit_id, epoch, task_id, launch_id, item_id, run_index, status, response_body,
			response_bytes, reasoning, answer_key, latency_ms, attempts, error_code, error_message)
		SELECT d.id, g.epoch, $1, d.launch_id, d.item_id, d.run_index, g.status, CASE WHEN g.has_body THEN g.body END,
			nullif(g.exact, ''), nullif(g.reasoning, ''), nullif(g.answer_key, ''), g.latency_ms, g.attempts, nullif(g.error_code, ''), nullif(g.error_message, '')
		FROM given g JOIN done d ON d.id = g.unit_id CROSS JOIN superseded RETURNING unit_id`
	const known = `SELECT r.unit_id FROM evaluation_runs r JOIN unnest($1::bigint[], $2::int[]) AS g(unit_id, epoch)
		ON r.unit_id = g.unit_id AND r.epoch = g.epoch`
	n := len(results)
	ids, epochs, latencies, attempts := make(pq.Int64Array, n), make(pq.Int64Array, n), make(pq.Int64Array, n), make(pq.Int64Array, n)
	statuses, bodies, reasonings := make(pq.StringArray, n), make(pq.StringArray, n), make(pq.StringArray, n)
	codes, messages := make(pq.StringArray, n), make(pq.StringArray, n)
	hasBody, exact, keys := make(pq.BoolArray, n), make(pq.ByteaArray, n), make(pq.ByteaArray, n)
	for n, r := range results {
		ids[n], epochs[n], statuses[n] = r.Unit.ID, int64(r.Unit.Epoch), string(r.Status)
		response := string(r.Response)
		bodies[n], hasBody[n] = storableText(response), r.Response != nil
		if bodies[n] != response {
			exact[n] = r.Response
		}
		reasonings[n], keys[n] = storableText(string(r.Reasoning)), r.AnswerKey
		latencies[n], attempts[n] = int64(r.LatencyMS), int64(r.Attempts)
		codes[n], messages[n] = r.ErrorCode, storableText(r.ErrorMessage)
	}
	var stored []int64
	if err := s.db.SelectContext(ctx, &stored, record, taskID, ids, epochs, statuses, bodies, hasBody, exact, reasonings, keys,
		latencies, attempts, codes, messages); err != nil {
		return nil, classify("record results", err)
	}
	if len(stored) < n {
		var before []int64
		if err := s.db.SelectContext(ctx, &before, known, ids, epochs); err != nil {
			return nil, classify("look for recorded results", err)
		}
		stored = append(stored, before...)
	}
	for _, r := range results {
		if !slices.Contains(stored, r.Unit.ID) {
			refused = append(refused, r.Unit)
		}
	}
	return refused, nil
}

// askedAndDone, with a condition on the launch and perItem, are the items that a launch asked and has done
// with.
const (
	askedAndDone = `SELECT item_id FROM units`
	perItem      = ` GROUP BY item_id HAVING bool_and(state = 'DONE')`
)

// CountProcessed marks those of the items as processed none of whose units in the launch is left to run, and
// counts them in the task's progress. Call it after the commit of their results: inside that transaction two
// workers that finish an item together would not see each other.
func (s *Store) CountProcessed(ctx context.Context, launchID, taskID uuid.UUID, itemIDs []int64) error {
	const count = `WITH finished AS (UPDATE evaluation_items SET processed = true WHERE NOT processed AND id = ANY (ARRAY(` +
		askedAndDone + ` WHERE launch_id = $1 AND item_id = ANY ($3)` + perItem + `))
			AND EXISTS (SELECT 1 FROM launches WHERE id = $1 AND status IN ('RUNNING', 'STOPPING')) RETURNING 1)
		UPDATE evaluation_tasks SET progress_processed = progress_processed + (SELECT count(*) FROM finished), updated_at = now()
		WHERE id = $2 AND EXISTS (SELECT 1 FROM finished)`
	_, err := s.db.ExecContext(ctx, count, launchID, taskID, pq.Int64Array(itemIDs))
	return classify("count processed questions", err)
}

// RecountProcessed sets the progress of every running task from its units: a process that died between
// a result and its count leaves the count behind.
func (s *Store) RecountProcessed(ctx context.Context) error {
	const recount = `WITH finished AS (UPDATE evaluation_items SET processed = true WHERE NOT processed AND id = ANY (ARRAY(
			SELECT d.item_id FROM launches l, LATERAL (` + askedAndDone + ` WHERE launch_id = l.id` + perItem + `) d
			WHERE l.status IN ('RUNNING', 'STOPPING'))) RETURNING task_id)
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
		// The server must not sort the answers before it sends the first.
		if err := readAlongIndexes(ctx, tx); err != nil {
			return err
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
