package db_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/report"
)

// Statistics by a column come from one pass over the runs. The totals are the same as without a column, and a value has
// the same numbers as a task with only its questions.
func TestNumbersByAColumnAreThoseOfTheWhole(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, tables := dbtest.Open(t)
	id := dbtest.SeedVariants(t, tables, 1, 60, 3, 5)
	tables.MustExec(`UPDATE evaluation_tasks SET variable_names = '{category,constant}' WHERE id = $1`, id)
	tables.MustExec(`UPDATE evaluation_items SET variable_values = ARRAY['c' || id % 7, 'same'] WHERE task_id = $1`, id)
	tables.MustExec(
		`INSERT INTO task_evaluators (task_id, number, evaluator_id, version, name, kind, config) VALUES ($1, 1, gen_random_uuid(), 1, 'e', 'exact', '{}')`, id)
	tables.MustExec(`
		INSERT INTO question_statistics (item_id, variant, newest_run_id, runs, level, agreement, consensus, answers,
		similarity, letters, differences)
		SELECT i.id, v, 1, 5, CASE WHEN i.id % 3 = 0 THEN 'identical' ELSE 'wording' END, (i.id % 5) / 5.0, (i.id % 4) / 3.0,
		i.id % 4, 0.9, 'ABBAB', ''
		FROM evaluation_items i, generate_series(1, 3) v
		WHERE i.task_id = $1 AND i.id % 11 > 0`, id)
	tables.MustExec(`
		UPDATE evaluation_runs
		SET first_token_ms = CASE WHEN id % 3 > 0 THEN latency_ms / 3 END, output_tokens = CASE WHEN id % 4 > 0
		THEN 100 + id % 50 END,
			total_tokens = CASE WHEN id % 4 > 0 THEN 200 END, cost = CASE WHEN id % 5 > 0 THEN 0.01 + id % 7 END,
			longest_silence_ms = CASE WHEN id % 2 > 0 THEN latency_ms / 4 END,
			passed = CASE WHEN status = 'SUCCEEDED' AND id % 6 > 0 THEN id % 6 > 2 END, score = CASE WHEN status = 'SUCCEEDED'
			AND id % 6 > 0 THEN 0.25 END
		WHERE task_id = $1`, id)
	r := report.New(store)
	for _, cluster := range []*string{nil, new("category")} {
		tables.MustExec(`UPDATE evaluation_tasks SET cluster_by = $2 WHERE id = $1`, id, cluster)
		task, err := store.Task(ctx, db.AllProjects(), id)
		require.NoError(t, err)
		variants, err := r.VariantStatistics(ctx, id)
		require.NoError(t, err)
		levels, differ, err := r.Levels(ctx, id)
		require.NoError(t, err)
		passes, err := r.PassStatistics(ctx, task, false)
		require.NoError(t, err)
		for place, slices := range map[int]int{1: 7, 2: 1} {
			numbers, err := r.NumbersBy(ctx, task, place, false)
			require.NoError(t, err)
			require.Len(t, numbers.Slices, slices)
			requireAlike(t, variants, numbers.Variants)
			require.Equal(t, levels, numbers.Levels)
			require.Equal(t, differ, numbers.FactsDiffer)
			requireAlike(t, passes, numbers.Passes)
		}
		numbers, err := r.NumbersBy(ctx, task, 2, false)
		require.NoError(t, err)
		for n, one := range numbers.Slices[0].Variants {
			requireAlike(t, variants[n], one.VariantStatistics)
			requireAlike(t, passes[one.Number], one.Passes)
			require.Equal(t, levels[one.Number], one.Levels)
		}
	}
	_, err := r.NumbersBy(ctx, db.Task{ID: uuid.New()}, 1, false)
	require.NoError(t, err, "a task without questions has none")
}

// requireAlike compares two values field by field; numbers may differ by the rounding that the order of addition
// causes.
func requireAlike(t *testing.T, want, got any) {
	t.Helper()
	var values [2]any
	for n, one := range []any{want, got} {
		text, err := json.Marshal(one)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &values[n]))
	}
	requireClose(t, "", values[0], values[1])
}

func requireClose(t *testing.T, path string, want, got any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		require.IsType(t, want, got, path)
		require.Len(t, got, len(want), path)
		for name, value := range want {
			requireClose(t, path+"."+name, value, got.(map[string]any)[name])
		}
	case []any:
		require.IsType(t, want, got, path)
		require.Len(t, got, len(want), path)
		for n, value := range want {
			requireClose(t, path, value, got.([]any)[n])
		}
	case float64:
		require.InDelta(t, want, got, 1e-9, path)
	default:
		require.Equal(t, want, got, path)
	}
}
