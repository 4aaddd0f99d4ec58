package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/event"
	"wending/db/pg"
)

// Journal reads and writes the events of all calls.
type Journal struct{ db *pg.Pool }

// NewJournal returns the journal in a store's database.
func NewJournal(store *db.Store) Journal { return Journal{store.Pool()} }

// JournalEntry holds the events of a call since the previous entry.
type JournalEntry struct {
	UnitID int64
	Epoch  int
	ItemID int64
	TaskID uuid.UUID
	// Events are in order and may be empty.
	Events []event.Event
	// Progress is the progress in per cent of a call that has been running for more than a second, or NotReported
	// if the agent reports none; nil leaves the stored value unchanged.
	Progress *int
	// Tools are the tool calls that have changed.
	Tools []Tool
	// Assets are the files that the agent announced.
	Assets []FoundAsset
}

// NotReported is the progress of a call whose agent does not report progress.
const NotReported = -1

// Tool is an agent's call of a tool.
type Tool struct {
	UnitID int64 `db:"unit_id"`
	Epoch  int   `db:"epoch"`
	ItemID int64 `db:"item_id"`
	// Number is the tool call's number within the unit's epoch, from 1.
	Number int    `db:"number"`
	Tool   string `db:"tool"`
	// ToolID is the agent's own id for the call. It may be empty, as may Provider and AssetType.
	ToolID    string `db:"tool_id"`
	Provider  string `db:"provider"`
	AssetType string `db:"asset_type"`
	// Status is one of package event's states.
	Status string `db:"status"`
	// Progress is in per cent; nil means that none was reported.
	Progress *float64         `db:"progress"`
	Input    *json.RawMessage `db:"input"`
	Output   *json.RawMessage `db:"output"`
	Error    *string          `db:"error"`
	// StartedMS and EndedMS count from the start of the agent's call; EndedMS is nil until the tool has ended.
	StartedMS int  `db:"started_ms"`
	EndedMS   *int `db:"ended_ms"`
}

// Rows are written only while their unit's claim holds: late entries from a worker that lost its unit are dropped.
const (
	appendEvents = `
	INSERT INTO run_events (unit_id, epoch, first_seq, item_id, task_id, events)
	SELECT g.unit_id, g.epoch, g.first_seq, g.item_id, g.task_id, g.events
	FROM unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[], $5::uuid[], $6::bytea[]) AS g (unit_id, epoch, first_seq,
	item_id, task_id, events)
	JOIN units u ON u.id = g.unit_id AND u.epoch = g.epoch
	ON CONFLICT DO NOTHING` // the reply to the first attempt may have been lost
	noteProgress = `
	UPDATE units u
	SET progress = g.progress
	FROM unnest($1::bigint[], $2::int[], $3::smallint[]) AS g (unit_id, epoch, progress)
	WHERE u.id = g.unit_id AND u.epoch = g.epoch AND u.state = 'RUNNING' AND u.progress IS DISTINCT FROM g.progress`
	noteTools = `
	INSERT INTO tool_executions AS t (unit_id, epoch, item_id, number, task_id, tool, tool_id, provider, asset_type,
	status,
		progress, input, output, error, started_ms, ended_ms, started_at, ended_at)
	SELECT g.unit_id, g.epoch, g.item_id, g.number, g.task_id, g.tool, g.tool_id, g.provider, g.asset_type, g.status,
	g.progress,
		nullif(g.input, '')::json, nullif(g.output, '')::json, nullif(g.error, ''), g.started_ms, g.ended_ms,
		now() - make_interval(secs => greatest(coalesce(g.ended_ms, g.started_ms) - g.started_ms, 0) / 1000.0),
		CASE WHEN g.ended_ms IS NOT NULL THEN now() END
	FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::uuid[], $6::text[], $7::text[], $8::text[],
		$9::text[], $10::text[], $11::float8[], $12::text[], $13::text[], $14::text[], $15::int[], $16::int[])
		AS g (unit_id, epoch, item_id, number, task_id, tool, tool_id, provider, asset_type, status, progress, input, output,
			error, started_ms, ended_ms)
	JOIN units u ON u.id = g.unit_id AND u.epoch = g.epoch
	ON CONFLICT (unit_id, epoch, number) DO UPDATE
	SET status = excluded.status, progress = excluded.progress, input = excluded.input, output = excluded.output,
	error = excluded.error,
		ended_ms = excluded.ended_ms, ended_at = coalesce(t.ended_at, excluded.ended_at)`
)

// Append stores the entries of units whose claims still hold. It is safe to call again after an error. It returns
// db.ErrGone, and stores nothing, if a task has been deleted in the meantime.
func (j Journal) Append(ctx context.Context, entries []JournalEntry) error {
	var units, epochs, seqs, items pq.Int64Array
	var tasks pq.StringArray
	var parts pq.ByteaArray
	var progressing, progressEpochs, progress pq.Int64Array
	var tools toolRows
	var assets []FoundAsset
	for _, entry := range entries {
		if len(entry.Events) > 0 {
			part, err := event.Pack(entry.Events)
			if err != nil {
				return err
			}
			units, epochs, seqs = append(units, entry.UnitID), append(epochs, int64(entry.Epoch)),
				append(seqs, int64(entry.Events[0].Seq))
			items, tasks, parts = append(items, entry.ItemID), append(tasks, entry.TaskID.String()), append(parts, part)
		}
		if entry.Progress != nil {
			progressing, progressEpochs = append(progressing, entry.UnitID), append(progressEpochs, int64(entry.Epoch))
			progress = append(progress, int64(*entry.Progress))
		}
		tools.add(entry)
		assets = append(assets, entry.Assets...)
	}
	return j.db.InTx(ctx, "store events", func(tx *sqlx.Tx) error {
		if len(units) > 0 {
			if _, err := tx.ExecContext(ctx, appendEvents, units, epochs, seqs, items, tasks, parts); err != nil {
				return pg.Classify("store events", err)
			}
		}
		if len(progressing) > 0 {
			if _, err := tx.ExecContext(ctx, noteProgress, progressing, progressEpochs, progress); err != nil {
				return pg.Classify("store the progress of calls", err)
			}
		}
		if err := InsertAssets(ctx, tx, assets); err != nil || len(tools.units) == 0 {
			return err
		}
		_, err := tx.ExecContext(ctx, noteTools, tools.units, tools.epochs, tools.items, tools.numbers, tools.tasks,
			tools.tools, tools.ids, tools.providers, tools.assetTypes, tools.statuses, pq.Array(tools.progress),
			tools.inputs, tools.outputs, tools.errors, tools.started, pq.Array(tools.ended))
		return pg.Classify("store tool calls", err)
	})
}

// toolRows holds tool calls column by column, for unnest.
type toolRows struct {
	units, epochs, items, numbers, started             pq.Int64Array
	tasks, tools, ids, providers, assetTypes, statuses pq.StringArray
	inputs, outputs, errors                            pq.StringArray
	progress                                           []*float64
	ended                                              []*int
}

func (r *toolRows) add(entry JournalEntry) {
	for _, one := range entry.Tools {
		r.units, r.epochs, r.items = append(r.units, entry.UnitID), append(r.epochs, int64(entry.Epoch)),
			append(r.items, entry.ItemID)
		r.numbers, r.started, r.ended = append(r.numbers, int64(one.Number)), append(r.started, int64(one.StartedMS)),
			append(r.ended, one.EndedMS)
		r.tasks, r.tools = append(r.tasks, entry.TaskID.String()), append(r.tools, pg.StorableText(one.Tool))
		r.ids = append(r.ids, pg.StorableText(one.ToolID))
		r.providers, r.assetTypes = append(r.providers, pg.StorableText(one.Provider)),
			append(r.assetTypes, pg.StorableText(one.AssetType))
		r.statuses, r.progress = append(r.statuses, one.Status), append(r.progress, one.Progress)
		r.inputs, r.outputs = append(r.inputs, jsonText(one.Input)), append(r.outputs, jsonText(one.Output))
		failure := ""
		if one.Error != nil {
			failure = pg.StorableText(*one.Error)
		}
		r.errors = append(r.errors, failure)
	}
}

func jsonText(value *json.RawMessage) string {
	if value == nil {
		return ""
	}
	return pg.StorableText(string(*value))
}

// EventPart holds consecutive events of one unit, all about one question.
type EventPart struct {
	Epoch  int           `db:"epoch"`
	ItemID int64         `db:"item_id"`
	Events []event.Event `db:"-"`
	Packed []byte        `db:"events"`
}

// EventPosition is a place in a unit's events: after event Seq of claim Epoch. The zero value is the beginning.
type EventPosition struct {
	Epoch int `db:"epoch"`
	Seq   int `db:"seq"`
}

// partsAtOnce is the maximum number of parts that one read returns.
const partsAtOnce = 200

// OfUnit returns the next parts of a unit's events after a position, oldest first and at most partsAtOnce of them; the
// result is empty if there are no more. A part that spans the position is returned whole.
func (j Journal) OfUnit(ctx context.Context, taskID uuid.UUID, unitID int64, after EventPosition) ([]EventPart, error) {
	const read = `
		SELECT epoch, item_id, events
		FROM run_events
		WHERE unit_id = $1 AND task_id = $2 AND (epoch, first_seq) >= ($3, coalesce((
			SELECT max(first_seq) FROM run_events WHERE unit_id = $1 AND epoch = $3 AND first_seq <= $4), 0))
		ORDER BY epoch, first_seq
		LIMIT $5`
	var parts []EventPart
	if err := j.db.SelectContext(ctx, &parts, read, unitID, taskID, after.Epoch, after.Seq, partsAtOnce); err != nil {
		return nil, pg.Classify("read the events", err)
	}
	fresh := parts[:0]
	for _, part := range parts {
		events, err := event.Unpack(part.Packed)
		if err != nil {
			return nil, err
		}
		part.Events, part.Packed = events, nil
		if last := events[len(events)-1]; part.Epoch > after.Epoch || last.Seq > after.Seq {
			fresh = append(fresh, part)
		}
	}
	return fresh, nil
}

// OfRun returns the events of the call that led to a run, oldest first; epoch is the run's claim. A run that was given
// up may have no events under its own claim; in that case, the events of the last earlier claim that has any are
// returned. The result is empty if the events are no longer kept.
func (j Journal) OfRun(ctx context.Context, taskID uuid.UUID, unitID, itemID int64,
	epoch int) (events []event.Event, err error) {
	const read = `
		SELECT epoch, item_id, events
		FROM run_events
		WHERE unit_id = $1 AND item_id = $2 AND task_id = $3 AND epoch = (
			SELECT max(epoch) FROM run_events WHERE unit_id = $1 AND item_id = $2 AND epoch <= $4)
		ORDER BY first_seq`
	var parts []EventPart
	if err := j.db.SelectContext(ctx, &parts, read, unitID, itemID, taskID, epoch); err != nil {
		return nil, pg.Classify("read the events", err)
	}
	for _, part := range parts {
		some, err := event.Unpack(part.Packed)
		if err != nil {
			return nil, err
		}
		events = append(events, some...)
	}
	return events, nil
}

// Tools returns the tool calls of a unit in the order in which they began. Tool calls of a claim are left out if a
// later claim has events for the same question.
func (j Journal) Tools(ctx context.Context, taskID uuid.UUID, unitID int64) ([]Tool, error) {
	const read = `
		SELECT unit_id, epoch, item_id, number, tool, tool_id, provider, asset_type, status, progress, input, output, error,
		started_ms, ended_ms
		FROM tool_executions t
		WHERE unit_id = $1 AND task_id = $2
		  AND NOT EXISTS (SELECT FROM run_events e WHERE e.unit_id = t.unit_id AND e.item_id = t.item_id
		  AND e.epoch > t.epoch)
		ORDER BY epoch, number`
	var tools []Tool
	err := j.db.SelectContext(ctx, &tools, read, unitID, taskID)
	return tools, pg.Classify("read tool calls", err)
}

// InFlight is a call in progress.
type InFlight struct {
	UnitID   int64 `db:"unit_id"`
	Variant  int   `db:"variant"`
	RunIndex int   `db:"run_index"`
	// Number is the question's number, from 1, in the order of the report.
	Number   int    `db:"number"`
	Question string `db:"question"`
	// Progress is in per cent, or NotReported.
	Progress int `db:"progress"`
	// Seconds is how long the unit has been claimed.
	Seconds float64 `db:"seconds"`
}

// InFlight returns up to limit calls of a task that are in progress, oldest first, and how many there are in all.
func (j Journal) InFlight(ctx context.Context, taskID uuid.UUID, limit int) (calls []InFlight, total int, err error) {
	const list = `
		SELECT u.id AS unit_id, u.variant, u.run_index, coalesce(u.progress, $3) AS progress,
			extract(epoch FROM clock_timestamp() - u.claimed_at) AS seconds, left(i.question, 200) AS question,
			(SELECT count(*) FROM evaluation_items WHERE task_id = i.task_id AND sort_key <= i.sort_key) AS number
		FROM (
			SELECT u.* FROM launches l
			JOIN units u ON u.launch_id = l.id AND u.state = 'RUNNING' AND u.evaluator = 0
			WHERE l.task_id = $1 AND l.status IN ('RUNNING', 'STOPPING')
			ORDER BY u.claimed_at, u.id
			LIMIT $2) u
		JOIN evaluation_items i ON i.id = u.item_id
		ORDER BY u.claimed_at, u.id`
	const count = `
		SELECT count(*)
		FROM launches l
		JOIN units u ON u.launch_id = l.id AND u.state = 'RUNNING' AND u.evaluator = 0
		WHERE l.task_id = $1 AND l.status IN ('RUNNING', 'STOPPING')`
	if err := j.db.SelectContext(ctx, &calls, list, taskID, limit, NotReported); err != nil {
		return nil, 0, pg.Classify("list the calls in flight", err)
	}
	if len(calls) < limit {
		return calls, len(calls), nil
	}
	err = j.db.GetContext(ctx, &total, count, taskID)
	return calls, total, pg.Classify("count the calls in flight", err)
}

// KeepJob stores the job that an agent has accepted for a unit, as JSON, so that the next worker that claims the unit
// waits for that job instead of starting another; nil removes it. Nothing changes if the claim no longer holds.
func (j Journal) KeepJob(ctx context.Context, unitID int64, epoch int, job []byte) error {
	const keep = `UPDATE units SET resume = CAST($3 AS json) WHERE id = $1 AND epoch = $2 AND state = 'RUNNING'`
	var text *string
	if job != nil {
		one := string(job)
		text = &one
	}
	_, err := j.db.ExecContext(ctx, keep, unitID, epoch, text)
	return pg.Classify("store an accepted job", err)
}

// CloseLost marks as failed the tool calls that were left open by workers that lost their units.
func (j Journal) CloseLost(ctx context.Context) error {
	const closeLost = `
		UPDATE tool_executions t
		SET status = 'failed', ended_at = now(), error = coalesce(t.error, 'The worker was lost')
		WHERE t.ended_at IS NULL AND t.started_at < now() - interval '1 minute'
		  AND NOT EXISTS (SELECT FROM units u WHERE u.id = t.unit_id AND u.epoch = t.epoch AND u.state = 'RUNNING')`
	_, err := j.db.ExecContext(ctx, closeLost)
	return pg.Classify("end lost tool calls", err)
}

// Prune removes the events, tool calls and spans of one task that ended longer ago than keep; a keep of 0 keeps
// everything. found is false if there is no such task.
func (j Journal) Prune(ctx context.Context, keep time.Duration) (found bool, err error) {
	if keep == 0 {
		return false, nil
	}
	const find = `
		SELECT t.id FROM evaluation_tasks t
		WHERE t.completed_at < now() - $1 * interval '1 second'
		  AND (EXISTS (SELECT FROM run_events WHERE task_id = t.id)
		  OR EXISTS (SELECT FROM tool_executions WHERE task_id = t.id)
		  OR EXISTS (SELECT FROM run_spans WHERE task_id = t.id))
		LIMIT 1`
	var taskID uuid.UUID
	if err := j.db.GetContext(ctx, &taskID, find, keep.Seconds()); err != nil {
		if pg.IsNoRows(err) {
			return false, nil
		}
		return false, pg.Classify("find events to remove", err)
	}
	for _, table := range []string{"run_events", "tool_executions", "run_spans"} {
		if _, err := j.db.ExecContext(ctx, `DELETE FROM `+table+` WHERE task_id = $1`, taskID); err != nil {
			return true, pg.Classify("remove events", err)
		}
	}
	return true, nil
}
