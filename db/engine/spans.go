package engine

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/event"
	"wending/db/pg"
)

// TracedCall is the call for a unit's question, or for one turn of its conversation, whose trace id an agent has
// received.
type TracedCall struct {
	TraceID string    `db:"trace_id"`
	TaskID  uuid.UUID `db:"task_id"`
	UnitID  int64     `db:"unit_id"`
	ItemID  int64     `db:"item_id"`
	Variant int       `db:"variant"`
}

// TracedCalls returns the calls with the given trace ids, keyed by trace id. Ids of other installations and projects,
// of units that were removed, and of judges are not in the result.
func (j Journal) TracedCalls(ctx context.Context, scope db.Scope, traces []string) (map[string]TracedCall, error) {
	// The first half of an id is the unit's (tasks.TraceID). Ids of other systems may have any first half, but no unit has
	// an id of 16 digits that begins with 8 to f.
	find := `
		SELECT d.trace_id, d.task_id, d.id AS unit_id, d.item_id, d.variant
		FROM (
			SELECT d.*, ` + db.TraceOfTurn + ` AS trace_id
			FROM (
				SELECT DISTINCT u.id, u.launch_id, u.variant, l.task_id, turn.id AS item_id, turn.turn
				FROM unnest($1::text[]) AS given (trace_id)
				JOIN units u ON u.id = CAST(CAST('x' || left(given.trace_id, 16) AS bit(64)) AS bigint) AND u.evaluator = 0
				JOIN launches l ON l.id = u.launch_id
				JOIN evaluation_tasks t ON t.id = l.task_id AND ` + db.Within("t.project_id", "$2") + db.TurnsOfUnit + `) d) d
		WHERE d.trace_id = ANY ($1)`
	var calls []TracedCall
	if err := j.db.SelectContext(ctx, &calls, find, pq.StringArray(traces), scope); err != nil {
		return nil, pg.Classify("find the calls of traces", err)
	}
	found := map[string]TracedCall{}
	for _, one := range calls {
		found[one.TraceID] = one
	}
	return found, nil
}

// AddSpans stores spans of a call's run, unless they are stored already. A run keeps at most event.MaxSpans spans and
// event.MaxSpansBytes bytes; rejected is the number of spans for which there was no room. All are rejected if the task
// has been deleted.
func (j Journal) AddSpans(ctx context.Context, call TracedCall, spans []event.Span) (rejected int, err error) {
	const (
		// The lock makes counting and adding a single step.
		lock = `SELECT pg_advisory_xact_lock(hashtextextended('spans of ' || $1::bigint, 0))`
		add  = `
			WITH fresh AS (
				SELECT given.*, count(*) OVER earlier AS spans, sum(octet_length(given.span)) OVER earlier AS bytes
				FROM unnest($4::bytea[], $5::text[]) WITH ORDINALITY AS given (span_id, span, place)
				WHERE NOT EXISTS (
					SELECT FROM run_spans s WHERE s.unit_id = $1 AND s.item_id = $2 AND s.span_id = given.span_id)
				WINDOW earlier AS (ORDER BY place)),
			stored AS (
				SELECT count(*) AS spans, coalesce(sum(size), 0) AS bytes FROM run_spans WHERE unit_id = $1 AND item_id = $2),
			added AS (
				INSERT INTO run_spans (unit_id, item_id, span_id, task_id, size, span)
				SELECT $1, $2, fresh.span_id, $3, octet_length(fresh.span), CAST(fresh.span AS json)
				FROM fresh
				CROSS JOIN stored
				WHERE stored.spans + fresh.spans <= $6 AND stored.bytes + fresh.bytes <= $7
				RETURNING span_id)
			SELECT (SELECT count(*) FROM fresh) - (SELECT count(*) FROM added)`
	)
	var ids pq.ByteaArray
	var texts pq.StringArray
	isGiven := map[string]bool{}
	for _, span := range spans {
		id, err := hex.DecodeString(span.ID)
		if err != nil {
			return 0, err
		}
		if isGiven[span.ID] {
			continue
		}
		isGiven[span.ID] = true
		text, err := json.Marshal(span)
		if err != nil {
			return 0, err
		}
		ids, texts = append(ids, id), append(texts, string(text))
	}
	err = j.db.InTx(ctx, "store spans", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, lock, call.UnitID); err != nil {
			return pg.Classify("wait for other spans of a run", err)
		}
		return pg.Classify("store spans", tx.GetContext(ctx, &rejected, add, call.UnitID, call.ItemID, call.TaskID, ids,
			texts, event.MaxSpans, event.MaxSpansBytes))
	})
	if errors.Is(err, db.ErrGone) {
		return len(spans), nil
	}
	return rejected, err
}

// Spans returns the spans of units, keyed by unit and then by item.
func (j Journal) Spans(ctx context.Context, taskID uuid.UUID, units []int64) (map[int64]map[int64][]event.Span, error) {
	const read = `SELECT unit_id, item_id, span FROM run_spans WHERE unit_id = ANY ($1) AND task_id = $2`
	var rows []struct {
		UnitID int64           `db:"unit_id"`
		ItemID int64           `db:"item_id"`
		Span   json.RawMessage `db:"span"`
	}
	if err := j.db.SelectContext(ctx, &rows, read, pq.Int64Array(units), taskID); err != nil {
		return nil, pg.Classify("read spans", err)
	}
	found := map[int64]map[int64][]event.Span{}
	for _, row := range rows {
		var span event.Span
		if err := json.Unmarshal(row.Span, &span); err != nil {
			return nil, err
		}
		if found[row.UnitID] == nil {
			found[row.UnitID] = map[int64][]event.Span{}
		}
		found[row.UnitID][row.ItemID] = append(found[row.UnitID][row.ItemID], span)
	}
	return found, nil
}
