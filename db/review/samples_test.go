package review_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/review"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// Samples have one answered run of each question, and no question is in two of them. People's verdicts on them are
// compared with the evaluators'.
func TestSamplesAreDrawnAndCompared(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, tables := dbtest.Open(t)
	id := dbtest.SeedVariants(t, tables, 1, 60, 3, 5)
	tables.MustExec(`
		INSERT INTO task_evaluators (task_id, number, evaluator_id, version, name, kind, config)
		VALUES ($1, 1, gen_random_uuid(), 1, 'e', 'exact', '{}')`, id)
	tables.MustExec(`
		INSERT INTO evaluations (run_id, evaluator, task_id, status, passed)
		SELECT id, 1, task_id, 'SUCCEEDED', item_id % 3 > 0 FROM evaluation_runs WHERE status = 'SUCCEEDED'`)
	reviews := review.New(store)
	task, err := store.Task(ctx, db.AllProjects(), id)
	require.NoError(t, err)

	first, err := reviews.Draw(ctx, id, 30, 7, true)
	require.NoError(t, err)
	second, err := reviews.Draw(ctx, id, review.MaxSample, 8, false)
	require.NoError(t, err)
	require.Len(t, first.Runs, 30)
	require.Len(t, second.Runs, 30)
	_, err = reviews.Draw(ctx, id, 1, 9, false)
	require.ErrorIs(t, err, review.ErrAllSampled)
	ofVariant, questions := map[int]int{}, map[string]bool{}
	for _, run := range first.Runs {
		ofVariant[run.Variant]++
	}
	for _, run := range append(first.Runs, second.Runs...) {
		require.False(t, questions[run.QuestionID], "one run a question")
		questions[run.QuestionID] = true
	}
	for variant := 1; variant <= 3; variant++ {
		require.InDelta(t, 10, ofVariant[variant], 2)
	}

	judge := func(run review.SampledRun, reviewer string, verdict review.Verdict) {
		_, err := reviews.Put(ctx, id, review.Place{QuestionID: run.QuestionID, Variant: run.Variant,
			RunIndex: &run.RunIndex, Reviewer: reviewer}, review.Opinion{Verdict: verdict}, 0)
		require.NoError(t, err)
	}
	for n, run := range first.Runs {
		judge(run, "李雷", []review.Verdict{review.Pass, review.Fail}[n%2])
	}
	judge(first.Runs[0], "韩梅", review.Fail) // a tie, which does not count
	judge(first.Runs[1], "韩梅", review.Unsure)
	_, err = reviews.Put(ctx, id, review.Place{QuestionID: first.Runs[2].QuestionID, Variant: 1, Reviewer: "韩梅"},
		review.Opinion{Verdict: review.Fail}, 0) // on the whole question, which does not count for any of its five runs
	require.NoError(t, err)
	fits, err := reviews.Fits(ctx, task)
	require.NoError(t, err)
	require.Equal(t, 29, fits[1].N)
	require.Equal(t, 29, fits[1].Sampled)
	require.NotNil(t, fits[1].Corrected)

	record, err := reviews.Record(ctx, task.ProjectID, task.Evaluators[0].EvaluatorID, 1)
	require.NoError(t, err)
	require.Equal(t, fits[1].Confusion, record.Confusion, "over all tasks, of which there is one")
	require.Nil(t, record.Corrected)
	for _, other := range []struct {
		project, evaluator uuid.UUID
		version            int
	}{{uuid.New(), task.Evaluators[0].EvaluatorID, 1}, {task.ProjectID, uuid.New(), 1},
		{task.ProjectID, task.Evaluators[0].EvaluatorID, 2}} {
		record, err := reviews.Record(ctx, other.project, other.evaluator, other.version)
		require.NoError(t, err)
		require.Zero(t, record.N, "of another project, evaluator or version")
	}

	tables.MustExec(`UPDATE reviews SET judged_run_id = judged_run_id - 1 WHERE reviewer = '李雷' AND verdict = 'PASS'`)
	fits, err = reviews.Fits(ctx, task)
	require.NoError(t, err)
	require.Equal(t, 16, fits[1].N, "verdicts on answers that were replaced do not count; 韩梅's remain")
}
