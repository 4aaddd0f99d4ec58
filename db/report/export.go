package report

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// Row is one item with all its current runs of one variant.
type Row struct {
	db.Item
	// Variant is the variant's number.
	Variant int
	Likeness
	// Planned is the number of planned runs of the item in this variant.
	Planned int
	Runs    []Run
}

// Run is one run of a row.
type Run struct {
	RunIndex int
	ID       int64
	// UnitID and LaunchID identify the unit and the launch that made the run.
	UnitID   int64
	LaunchID uuid.UUID
	Status   db.RunStatus
	Response *string
	// Exact is the response byte for byte if it is not valid text; otherwise nil.
	Exact        []byte
	LatencyMS    *int
	ErrorCode    *string
	ErrorMessage *string
	FinishReason *string
	TraceID      *string
	AgentTraceID *string
	db.Usage
	Evaluations    db.Evaluations
	FailedAttempts db.FailedAttempts
}

const readExport = `
	SELECT ` + db.ItemColumns + `, v.number AS variant, ` + db.PlannedRuns + ` AS planned, r.id AS run_id, r.run_index, r.unit_id, r.launch_id, r.status,
		CASE WHEN $2::int IS NULL THEN r.response_body ELSE left(r.response_body, $2) END AS response_body,
		CASE WHEN $2::int IS NULL THEN r.response_bytes END AS response_bytes, r.latency_ms, r.error_code, r.error_message,
		r.finish_reason, r.trace_id, r.agent_trace_id, r.failed_attempts,
		r.input_tokens, r.output_tokens, r.reasoning_tokens, r.total_tokens, trim_scale(r.cost) AS cost, r.first_token_ms,
		` + db.EvaluationsOfRun + ` AS evaluations,
		` + likenessColumns + `
	FROM evaluation_items i
	JOIN evaluation_tasks t ON t.id = i.task_id
	JOIN task_variants v ON v.task_id = i.task_id
	LEFT JOIN question_statistics q ON q.item_id = i.id AND q.variant = v.number
	LEFT JOIN evaluation_runs r ON r.item_id = i.id AND r.variant = v.number AND r.is_current
	WHERE i.task_id = $1
	ORDER BY i.sort_key, v.number, r.run_index`

// exportLine is a row of readExport; the run's fields are nil for an item without runs.
type exportLine struct {
	db.Item
	Variant int `db:"variant"`
	Planned int `db:"planned"`
	Likeness
	RunID        *int64        `db:"run_id"`
	RunIndex     *int          `db:"run_index"`
	UnitID       *int64        `db:"unit_id"`
	LaunchID     *uuid.UUID    `db:"launch_id"`
	Status       *db.RunStatus `db:"status"`
	Response     *string       `db:"response_body"`
	Exact        []byte        `db:"response_bytes"`
	LatencyMS    *int          `db:"latency_ms"`
	ErrorCode    *string       `db:"error_code"`
	ErrorMessage *string       `db:"error_message"`
	FinishReason *string       `db:"finish_reason"`
	TraceID      *string       `db:"trace_id"`
	AgentTraceID *string       `db:"agent_trace_id"`
	db.Usage
	Evaluations    db.Evaluations    `db:"evaluations"`
	FailedAttempts db.FailedAttempts `db:"failed_attempts"`
}

func (l exportLine) run() Run {
	return Run{
		ID: *l.RunID, RunIndex: *l.RunIndex, UnitID: *l.UnitID, LaunchID: *l.LaunchID, Status: *l.Status,
		Response: l.Response, Exact: l.Exact,
		LatencyMS: l.LatencyMS, ErrorCode: l.ErrorCode, ErrorMessage: l.ErrorMessage, FinishReason: l.FinishReason,
		TraceID: l.TraceID, AgentTraceID: l.AgentTraceID,
		Usage: l.Usage, Evaluations: l.Evaluations, FailedAttempts: l.FailedAttempts,
	}
}

// EachRow calls yield once for each item and variant of the task, with its current runs: items in the order in which
// pages list them, and each item's variants by number. limit is the maximum number of characters to read from each
// response; nil means no limit. With a limit, Exact is always nil. Rows are streamed from the server, so only one is in
// memory at a time, and all come from one snapshot.
func (r Report) EachRow(ctx context.Context, taskID uuid.UUID, limit *int, yield func(Row) error) error {
	isRead := false
	err := r.db.InTx(ctx, "read the report", func(tx *sqlx.Tx) error {
		// The server must send the first row before it has sorted all answers.
		if err := pg.PreferIndexes(ctx, tx); err != nil {
			return err
		}
		var current *Row
		err := pg.EachRow(ctx, tx, "read the report", readExport, []any{taskID, limit}, func(line exportLine) error {
			if current != nil && (current.ID != line.ID || current.Variant != line.Variant) {
				if err := yield(*current); err != nil {
					return err
				}
				current = nil
			}
			if current == nil {
				current = &Row{Item: line.Item, Variant: line.Variant, Planned: line.Planned, Likeness: line.Likeness}
			}
			if line.RunIndex != nil {
				current.Runs = append(current.Runs, line.run())
			}
			return nil
		})
		if err == nil && current != nil {
			err = yield(*current)
		}
		isRead = err == nil
		return err
	})
	if isRead { // a slow client may outlast the limit for idle transactions; there is nothing to commit
		return nil
	}
	return err
}
