package upkeep

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db/pg"
)

// PairPlace is a question with two variants whose answers people compare.
type PairPlace struct {
	QuestionID string `json:"question_id"`
	VariantA   int    `json:"variant_a"`
	VariantB   int    `json:"variant_b"`
}

// ArchivedPair is a pair of answers, with people's verdicts on which is better.
type ArchivedPair struct {
	PairPlace
	RunA      int                   `json:"run_a"`
	RunB      int                   `json:"run_b"`
	IsSwapped bool                  `json:"is_swapped"`
	Verdicts  []ArchivedPairVerdict `json:"verdicts"`
}

// ArchivedPairVerdict is a person's verdict on a pair.
type ArchivedPairVerdict struct {
	Reviewer  string     `json:"reviewer"`
	Verdict   string     `json:"verdict"`
	Version   int        `json:"version"`
	CreatedAt *time.Time `json:"created_at"`
}

// EachPair calls yield with a task's pairs of answers as JSON objects, in the order of the questions, each with the
// verdicts on its present answers.
func (a Archives) EachPair(ctx context.Context, taskID uuid.UUID, yield func(json.RawMessage) error) error {
	const read = `
		SELECT json_build_object('question_id', i.question_id, 'variant_a', p.variant_a, 'variant_b', p.variant_b,
			'run_a', p.run_a, 'run_b', p.run_b, 'is_swapped', p.is_swapped, 'verdicts', coalesce((
				SELECT json_agg(json_build_object('reviewer', v.reviewer, 'verdict', v.verdict, 'version', v.version,
					'created_at', v.created_at) ORDER BY v.reviewer)
				FROM pair_verdicts v
				WHERE v.item_id = p.item_id AND v.variant_a = p.variant_a AND v.variant_b = p.variant_b AND v.is_current
				AND NOT v.is_withdrawn AND (v.judged_a, v.judged_b) = (a.id, b.id)), '[]')) AS line
		FROM evaluation_items i
		JOIN blind_pairs p ON p.item_id = i.id
		JOIN evaluation_runs a ON a.item_id = i.id AND a.variant = p.variant_a AND a.run_index = p.run_a AND a.is_current
		JOIN evaluation_runs b ON b.item_id = i.id AND b.variant = p.variant_b AND b.run_index = p.run_b AND b.is_current
		WHERE i.task_id = $1
		ORDER BY i.sort_key, p.variant_a, p.variant_b`
	return a.eachLine(ctx, "read a task's pairs", read, taskID, yield)
}

// storeDrawn stores the samples and pairs that were drawn from the runs of an imported task for people to judge.
func storeDrawn(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, imported Imported) error {
	if err := storeSamples(ctx, tx, taskID, imported.Samples); err != nil {
		return err
	}
	return storePairs(ctx, tx, taskID, imported.Pairs)
}

// storePairs stores the pairs of an imported task, whose runs are stored already.
func storePairs(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, pairs []ArchivedPair) error {
	const store = `
		WITH given AS (
			SELECT i.id AS item_id, p.variant_a, p.variant_b, p.run_a, p.run_b, p.is_swapped, p.verdicts
			FROM json_to_recordset($2) AS p (question_id text, variant_a int, variant_b int, run_a int, run_b int,
				is_swapped boolean, verdicts json)
			JOIN evaluation_items i ON i.task_id = $1 AND i.question_id = p.question_id
		), drawn AS (
			INSERT INTO blind_pairs (item_id, variant_a, variant_b, run_a, run_b, is_swapped)
			SELECT item_id, variant_a, variant_b, run_a, run_b, is_swapped
			FROM given)
		INSERT INTO pair_verdicts (item_id, variant_a, variant_b, reviewer, verdict, version, judged_a, judged_b,
			created_at)
		SELECT g.item_id, g.variant_a, g.variant_b, v.reviewer, v.verdict, v.version, a.id, b.id, v.created_at
		FROM given g
		CROSS JOIN json_to_recordset(coalesce(g.verdicts, '[]')) AS v (reviewer text, verdict text, version int,
			created_at timestamptz)
		JOIN evaluation_runs a ON a.item_id = g.item_id AND a.variant = g.variant_a AND a.run_index = g.run_a
			AND a.is_current
		JOIN evaluation_runs b ON b.item_id = g.item_id AND b.variant = g.variant_b AND b.run_index = g.run_b
			AND b.is_current`
	for some := range slices.Chunk(pairs, archivedAtOnce) {
		lines, err := json.Marshal(some)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, store, taskID, lines); err != nil {
			return pg.Classify("store the pairs of a task", err)
		}
	}
	return nil
}
