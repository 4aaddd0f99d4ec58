package upkeep

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// RunPlace identifies a run of a task by values that are the same on every installation.
type RunPlace struct {
	QuestionID string `db:"question_id" json:"question_id"`
	Variant    int    `db:"variant" json:"variant"`
	RunIndex   int    `db:"run_index" json:"run_index"`
}

// ArchivedPart holds consecutive events of a run's call, as they are stored.
type ArchivedPart struct {
	RunPlace
	FirstSeq int    `db:"first_seq"`
	Packed   []byte `db:"events"`
}

// EachPart calls yield with the parts of the events of a task's current runs, run by run, oldest first. For a run that
// was given up, these are the events of the last earlier claim that has any.
func (a Archives) EachPart(ctx context.Context, taskID uuid.UUID, yield func(ArchivedPart) error) error {
	const read = `
		SELECT i.question_id, r.variant, r.run_index, e.first_seq, e.events
		FROM evaluation_runs r
		JOIN evaluation_items i ON i.id = r.item_id
		JOIN run_events e ON e.unit_id = r.unit_id AND e.item_id = r.item_id AND e.task_id = r.task_id AND e.epoch = (
			SELECT max(epoch) FROM run_events WHERE unit_id = r.unit_id AND item_id = r.item_id AND epoch <= r.epoch)
		WHERE r.task_id = $1 AND r.is_current
		ORDER BY r.item_id, r.variant, r.run_index, e.first_seq`
	return pg.EachRow(ctx, a.db, "read a task's events", read, []any{taskID}, yield)
}

// ArchivedTool is a call of a tool by a run. Times are in milliseconds since the start of the run's call.
type ArchivedTool struct {
	RunPlace
	Number    int             `json:"number"`
	Tool      string          `json:"tool"`
	ToolID    string          `json:"tool_id"`
	Provider  string          `json:"provider"`
	AssetType string          `json:"asset_type"`
	Status    string          `json:"status"`
	Progress  *float64        `json:"progress"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output"`
	Error     *string         `json:"error"`
	StartedMS int             `json:"started_ms"`
	EndedMS   *int            `json:"ended_ms"`
}

// EachTool calls yield with the tool calls of a task's current runs as JSON objects in the format of ArchivedTool.
func (a Archives) EachTool(ctx context.Context, taskID uuid.UUID, yield func(json.RawMessage) error) error {
	const read = `
		SELECT json_build_object('question_id', i.question_id, 'variant', r.variant, 'run_index', r.run_index,
			'number', t.number, 'tool', t.tool, 'tool_id', t.tool_id, 'provider', t.provider, 'asset_type', t.asset_type,
			'status', t.status, 'progress', t.progress, 'input', t.input, 'output', t.output, 'error', t.error,
			'started_ms', t.started_ms, 'ended_ms', t.ended_ms) AS line
		FROM evaluation_runs r
		JOIN evaluation_items i ON i.id = r.item_id
		JOIN tool_executions t ON t.unit_id = r.unit_id AND t.epoch = r.epoch AND t.item_id = r.item_id
		WHERE r.task_id = $1 AND r.is_current
		ORDER BY r.item_id, r.variant, r.run_index, t.number`
	return a.eachLine(ctx, "read a task's tool calls", read, taskID, yield)
}

// ArchivedAsset is a file or a preview that a run's call produced.
type ArchivedAsset struct {
	RunPlace
	ID          uuid.UUID  `db:"id" json:"id"`
	Number      int        `db:"number" json:"number"`
	Attempt     int        `db:"attempt" json:"attempt"`
	Path        string     `db:"path" json:"path"`
	Type        string     `db:"kind" json:"type"`
	IsPreview   bool       `db:"is_preview" json:"is_preview"`
	OriginalURL *string    `db:"original_url" json:"original_url"`
	State       string     `db:"state" json:"state"`
	MediaType   *string    `db:"media_type" json:"media_type"`
	Size        *int64     `db:"size" json:"size"`
	SHA256      *string    `db:"sha256" json:"sha256"`
	Error       *string    `db:"error" json:"error"`
	CreatedAt   *time.Time `db:"created_at" json:"created_at"`
	StoredAt    *time.Time `db:"stored_at" json:"stored_at"`
	// StorageKey and ThumbnailKey are the keys of the copy in the installation's own store; nil if there is none.
	StorageKey   *string `db:"storage_key" json:"-"`
	ThumbnailKey *string `db:"thumbnail_key" json:"-"`
	// QuestionNumber counts from 1, in the order of the report.
	QuestionNumber int `db:"question_number" json:"-"`
}

// EachAsset calls yield with the files of a task's current runs, previews and files of earlier attempts included.
func (a Archives) EachAsset(ctx context.Context, taskID uuid.UUID, yield func(ArchivedAsset) error) error {
	const read = `
		SELECT i.question_id, i.question_number, r.variant, r.run_index, a.id, a.number, a.attempt, a.path, a.kind,
			a.is_preview, a.original_url, a.state, a.media_type, a.size, encode(a.sha256, 'hex') AS sha256, a.error,
			a.created_at, a.stored_at, a.storage_key, a.thumbnail_key
		FROM assets a
		JOIN evaluation_runs r ON r.unit_id = a.unit_id AND r.epoch = a.epoch AND r.item_id = a.item_id AND r.is_current
		JOIN (
			SELECT id, question_id, row_number() OVER (ORDER BY sort_key) AS question_number
			FROM evaluation_items
			WHERE task_id = $1) i ON i.id = a.item_id
		WHERE a.task_id = $1
		ORDER BY i.question_number, r.variant, r.run_index, a.attempt, a.number, a.path`
	return pg.EachRow(ctx, a.db, "read a task's files", read, []any{taskID}, yield)
}

// EachSample calls yield with a task's samples as JSON objects, oldest first, each with its runs in the order in which
// they were drawn.
func (a Archives) EachSample(ctx context.Context, taskID uuid.UUID, yield func(json.RawMessage) error) error {
	const read = `
		SELECT json_build_object('seed', s.seed, 'is_stratified', s.is_stratified, 'created_at', s.created_at, 'runs', (
			SELECT json_agg(json_build_object('question_id', i.question_id, 'variant', d.variant, 'run_index', d.run_index)
				ORDER BY d.place)
			FROM sampled_runs d
			JOIN evaluation_items i ON i.id = d.item_id
			WHERE d.sample_id = s.id)) AS line
		FROM samples s
		WHERE s.task_id = $1 AND EXISTS (SELECT FROM sampled_runs d WHERE d.sample_id = s.id)
		ORDER BY s.created_at, s.id`
	return a.eachLine(ctx, "read a task's samples", read, taskID, yield)
}

func (a Archives) eachLine(ctx context.Context, doing, query string, taskID uuid.UUID,
	yield func(json.RawMessage) error) error {
	return pg.EachRow(ctx, a.db, doing, query, []any{taskID}, func(row struct {
		Line json.RawMessage `db:"line"`
	},
	) error {
		return yield(row.Line)
	})
}

// ArchivedSample is a random sample of a task's runs.
type ArchivedSample struct {
	Seed         int64
	IsStratified bool
	CreatedAt    *time.Time
	Runs         []RunPlace
}

// storeCalls stores what the calls of imported runs reported: events, tool calls and files.
func storeCalls(ctx context.Context, tx *sqlx.Tx, imported Imported) error {
	const (
		storeParts = `
			INSERT INTO run_events (unit_id, epoch, first_seq, item_id, task_id, events)
			SELECT r.unit_id, r.epoch, given.first_seq, r.item_id, r.task_id, given.events
			FROM unnest($2::text[], $3::int[], $4::int[], $5::int[], $6::bytea[])
				AS given (question_id, variant, run_index, first_seq, events)
			JOIN evaluation_items i ON i.task_id = $1 AND i.question_id = given.question_id
			JOIN evaluation_runs r ON r.item_id = i.id AND r.variant = given.variant AND r.run_index = given.run_index
				AND r.is_current`
		storeTools = `
			INSERT INTO tool_executions (unit_id, epoch, item_id, number, task_id, tool, tool_id, provider, asset_type, status,
				progress, input, output, error, started_ms, ended_ms, ended_at)
			SELECT r.unit_id, r.epoch, r.item_id, given.number, r.task_id, given.tool, given.tool_id, given.provider,
				given.asset_type, given.status, given.progress, CAST(($3::text[])[given.place] AS json),
				CAST(($4::text[])[given.place] AS json), given.error, given.started_ms, given.ended_ms, now()
			FROM json_to_recordset($2) AS given (question_id text, variant int, run_index int, number int, tool text,
				tool_id text, provider text, asset_type text, status text, progress float8, error text, started_ms int,
				ended_ms int, place int)
			JOIN evaluation_items i ON i.task_id = $1 AND i.question_id = given.question_id
			JOIN evaluation_runs r ON r.item_id = i.id AND r.variant = given.variant AND r.run_index = given.run_index
				AND r.is_current`
	)
	taskID := imported.Task.Task.ID
	err := inBatches(imported.NextPart, func(parts []*ArchivedPart) error {
		var ids pq.StringArray
		var variants, indexes, seqs pq.Int64Array
		var packed pq.ByteaArray
		for _, one := range parts {
			ids, variants = append(ids, one.QuestionID), append(variants, int64(one.Variant))
			indexes, seqs = append(indexes, int64(one.RunIndex)), append(seqs, int64(one.FirstSeq))
			packed = append(packed, one.Packed)
		}
		_, err := tx.ExecContext(ctx, storeParts, taskID, ids, variants, indexes, seqs, packed)
		return pg.Classify("store events", err)
	})
	if err != nil {
		return err
	}
	err = inBatches(imported.NextTool, func(tools []*ArchivedTool) error {
		return storeToolCalls(ctx, tx, taskID, storeTools, tools)
	})
	if err != nil || imported.Assets == nil {
		return err
	}
	assets, err := imported.Assets()
	if err != nil {
		return err
	}
	return storeAssets(ctx, tx, taskID, assets)
}

// storeToolCalls stores tool calls with their inputs and outputs unchanged. Inputs and outputs are passed as separate
// texts, because PostgreSQL cannot extract fields from an object that contains escaped NULs or unpaired surrogates,
// which agents do send.
func storeToolCalls(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, store string, tools []*ArchivedTool) error {
	type stored struct {
		ArchivedTool
		Input  *string `json:"input,omitempty"`
		Output *string `json:"output,omitempty"`
		Place  int     `json:"place"`
	}
	some := make([]stored, len(tools))
	inputs, outputs := make([]*string, len(tools)), make([]*string, len(tools))
	for n, tool := range tools {
		some[n] = stored{ArchivedTool: *tool, Place: n + 1}
		inputs[n], outputs[n] = jsonText(tool.Input), jsonText(tool.Output)
	}
	text, err := json.Marshal(some)
	if err != nil {
		return fmt.Errorf("write the tool calls: %w", err)
	}
	_, err = tx.ExecContext(ctx, store, taskID, text, pq.Array(inputs), pq.Array(outputs))
	return pg.Classify("store tool calls", err)
}

// jsonText returns a JSON value as text; nil if there is none.
func jsonText(value json.RawMessage) *string {
	if len(value) == 0 || string(value) == "null" {
		return nil
	}
	text := string(value)
	return &text
}

// storeAssets adds rows for the files of imported runs; copies of the files have already been stored.
func storeAssets(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, assets []ArchivedAsset) error {
	const store = `
		INSERT INTO assets (id, task_id, unit_id, epoch, item_id, target, number, attempt, path, kind, is_preview,
			original_url, state, media_type, size, sha256, storage_key, thumbnail_key, error, created_at, stored_at)
		SELECT given.id, r.task_id, r.unit_id, r.epoch, r.item_id, v.target, given.number, given.attempt, given.path,
			given.type, given.is_preview, given.original_url, given.state, given.media_type, given.size,
			decode(given.sha256, 'hex'), given.storage_key, given.thumbnail_key, given.error,
			coalesce(given.created_at, now()), given.stored_at
		FROM json_to_recordset($2) AS given (question_id text, variant int, run_index int, id uuid, number int,
			attempt int, path text, type text, is_preview bool, original_url text, state text, media_type text, size bigint,
			sha256 text, storage_key text, thumbnail_key text, error text, created_at timestamptz, stored_at timestamptz)
		JOIN evaluation_items i ON i.task_id = $1 AND i.question_id = given.question_id
		JOIN evaluation_runs r ON r.item_id = i.id AND r.variant = given.variant AND r.run_index = given.run_index
			AND r.is_current
		JOIN task_variants v ON v.task_id = $1 AND v.number = given.variant`
	type stored struct {
		ArchivedAsset
		StorageKey   *string `json:"storage_key"`
		ThumbnailKey *string `json:"thumbnail_key"`
	}
	for len(assets) > 0 {
		some := make([]stored, min(len(assets), archivedAtOnce))
		for n := range some {
			some[n] = stored{assets[n], assets[n].StorageKey, assets[n].ThumbnailKey}
		}
		assets = assets[len(some):]
		text, err := json.Marshal(some)
		if err != nil {
			return fmt.Errorf("write the files: %w", err)
		}
		if _, err := tx.ExecContext(ctx, store, taskID, text); err != nil {
			return pg.Classify("store files", err)
		}
	}
	return nil
}

// storeSamples stores the samples of an imported task under new ids.
func storeSamples(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, samples []ArchivedSample) error {
	const (
		store = `INSERT INTO samples (id, task_id, seed, is_stratified, created_at)
			VALUES ($1, $2, $3, $4, coalesce($5, now()))`
		fill = `
			INSERT INTO sampled_runs (sample_id, item_id, place, variant, run_index)
			SELECT $1, i.id, given.place, given.variant, given.run_index
			FROM unnest($3::text[], $4::int[], $5::int[]) WITH ORDINALITY
				AS given (question_id, variant, run_index, place)
			JOIN evaluation_items i ON i.task_id = $2 AND i.question_id = given.question_id`
	)
	for _, sample := range samples {
		id := uuid.New()
		if _, err := tx.ExecContext(ctx, store, id, taskID, sample.Seed, sample.IsStratified, sample.CreatedAt); err != nil {
			return pg.Classify("store a sample", err)
		}
		var ids pq.StringArray
		var variants, indexes pq.Int64Array
		for _, run := range sample.Runs {
			ids, variants = append(ids, run.QuestionID), append(variants, int64(run.Variant))
			indexes = append(indexes, int64(run.RunIndex))
		}
		if _, err := tx.ExecContext(ctx, fill, id, taskID, ids, variants, indexes); err != nil {
			return pg.Classify("store a sample's runs", err)
		}
	}
	return nil
}

// inBatches passes the values that next returns to store, in batches, until next returns nil or an error. A nil next
// means that there are no values.
func inBatches[T any](next func() (*T, int, error), store func([]*T) error) error {
	for isDone := next == nil; !isDone; {
		some := []*T{}
		for size := 0; len(some) < archivedAtOnce && size < batchBytes; {
			one, bytes, err := next()
			if err != nil {
				return err
			}
			if isDone = one == nil; isDone {
				break
			}
			some, size = append(some, one), size+bytes
		}
		if len(some) == 0 {
			return nil
		}
		if err := store(some); err != nil {
			return err
		}
	}
	return nil
}
