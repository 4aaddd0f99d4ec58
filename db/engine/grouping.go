package engine

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/meaning"
	"wending/db/pg"
)

// Grouping holds a model's decision on which answers to a question say the same thing.
type Grouping struct {
	meaning.Grouping
	// Raw is the model's output, call by call.
	Raw string
	// Calls excludes retries; LatencyMS, Attempts and the tokens cover all calls; nil tokens are unknown.
	Calls, LatencyMS, Attempts             int
	InputTokens, OutputTokens, TotalTokens *int
	ErrorCode, ErrorMessage                string
}

// DistinctAnswer is one of the different answers to a question; Text is from the first run that gave it.
type DistinctAnswer struct {
	Key  []byte `db:"answer_key"`
	Text string `db:"text"`
}

// Answers returns the distinct current answers to a question, with at most limit+1 characters of each: an extra
// character means that the answer is longer than limit.
func (e Evaluations) Answers(ctx context.Context, itemID int64, limit int) (answers []DistinctAnswer, err error) {
	const read = `
		SELECT answer_key, coalesce(left(response_body, $2 + 1), '') AS text
		FROM (
			SELECT answer_key, response_body, variant, run_index,
			row_number() OVER (PARTITION BY answer_key ORDER BY variant, run_index) AS place
			FROM evaluation_runs
			WHERE item_id = $1 AND is_current AND answer_key IS NOT NULL) own
		WHERE place = 1
		ORDER BY variant, run_index`
	err = e.db.SelectContext(ctx, &answers, read, itemID, limit)
	return answers, pg.Classify("read the answers to group", err)
}

const endGroupingUnits = `
	UPDATE units u
	SET state = 'DONE', outcome = CASE WHEN g.is_default THEN 'FAILED' ELSE 'SUCCEEDED' END, worker_id = NULL
	FROM unnest($1::bigint[], $2::int[], $3::bool[]) AS g (unit_id, epoch, is_default)
	WHERE u.id = g.unit_id AND u.state = 'RUNNING' AND u.epoch = g.epoch
	RETURNING u.id`

const insertMeaning = `
	INSERT INTO meanings (item_id, unit_id, target, keys, groups, unsure, notes, is_default, raw, calls, attempts,
	latency_ms, input_tokens, output_tokens, total_tokens,
		cost, error_code, error_message)
	SELECT u.item_id, u.id, u.target, CAST(:keys AS bytea[]), CAST(:groups AS smallint[]), CAST(:unsure AS bool[]),
	CAST(:notes AS text[]), :default, nullif(:raw, ''), :calls,
		:attempts, :latency, CAST(:input AS int), CAST(:output AS int), CAST(:total AS int),
		(CAST(:input AS int) * t.input_price + CAST(:output AS int) * t.output_price) / 1000000, nullif(:code, ''),
		nullif(:message, '')
	FROM units u
	JOIN task_targets t ON t.task_id = :task AND t.number = u.target
	WHERE u.id = :unit`

// groupings stores models' groupings of the answers to questions, each exactly once, and returns the units whose
// claims still held.
func (r Recorder) groupings(ctx context.Context, taskID uuid.UUID, results []Result) (stored []int64, err error) {
	n := len(results)
	ids, epochs, items, defaults := make(pq.Int64Array, n), make(pq.Int64Array, n), make([]int64, n), make(pq.BoolArray, n)
	for n, result := range results {
		ids[n], epochs[n], items[n], defaults[n] = result.Unit.ID, int64(result.Unit.Epoch), result.Unit.Item.ID,
			result.Grouping.IsDefault
	}
	err = r.db.InTx(ctx, "record groupings", func(tx *sqlx.Tx) error {
		// Units that are already DONE were stored by an earlier attempt whose reply was lost.
		if err := tx.SelectContext(ctx, &stored, knownUnits, ids, epochs); err != nil {
			return pg.Classify("look for recorded groupings", err)
		}
		var fresh []int64
		if err := tx.SelectContext(ctx, &fresh, endGroupingUnits, ids, epochs, defaults); err != nil {
			return pg.Classify("complete the units of groupings", err)
		}
		if stored = slices.Concat(stored, fresh); len(fresh) == 0 {
			return nil
		}
		if err := meaning.LockItems(ctx, tx, items); err != nil {
			return err
		}
		for _, result := range results {
			if !slices.Contains(fresh, result.Unit.ID) {
				continue
			}
			if err := meaning.Supersede(ctx, tx, []int64{result.Unit.Item.ID}); err != nil {
				return err
			}
			if _, err := pg.ExecNamed(ctx, tx, insertMeaning, result.Grouping.arguments(taskID, result.Unit.ID)); err != nil {
				return pg.Classify("record a grouping", err)
			}
		}
		return meaning.Apply(ctx, tx, items)
	})
	return stored, err
}

func (g Grouping) arguments(taskID uuid.UUID, unitID int64) map[string]any {
	notes := make(pq.StringArray, len(g.Notes))
	for n, note := range g.Notes {
		notes[n] = pg.StorableText(note)
	}
	return map[string]any{
		"task": taskID, "unit": unitID, "keys": g.Keys, "groups": g.Groups, "unsure": g.Unsure, "notes": notes,
		"default": g.IsDefault, "raw": pg.StorableText(g.Raw),
		"calls": g.Calls, "attempts": g.Attempts, "latency": g.LatencyMS, "input": g.InputTokens, "output": g.OutputTokens,
		"total": g.TotalTokens,
		"code":  g.ErrorCode, "message": pg.StorableText(g.ErrorMessage),
	}
}
