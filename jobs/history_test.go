package jobs_test

import (
	"math"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/upkeep"
	"wending/jobs/agent/agenttest"
	"wending/jobs/tasks"
)

// Plots have at most thirty bars of whole seconds, starting at the first call, regardless of the launch's duration.
func TestOutcomesOverTimeFitThirtyBars(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	b.startWorker(t, 8)
	task, launch := b.task(t, fake.URL, 10, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launch))
	b.awaitEnd(t, task, 30*time.Second)
	for _, seconds := range []int{1, 29, 31, 3600, 100_000} {
		b.tables.MustExec(
			`UPDATE launches SET started_at = now() - interval '2 days', finished_at = now() - interval '2 days' + $1 * interval '1 second' WHERE id = $2`, seconds, launch)
		b.tables.MustExec(
			`UPDATE evaluation_runs SET latency_ms = 0, created_at = now() - interval '2 days' + $1 * interval '1 second' * (id - (SELECT min(id) FROM evaluation_runs WHERE launch_id = $2)) / 49
			WHERE launch_id = $2`, seconds, launch)
		bars, err := report.NewMonitor(b.store).OutcomeBars(t.Context(), task)
		require.NoError(t, err)
		require.LessOrEqual(t, len(bars), 30, "%d s", seconds)
		require.Zero(t, bars[0].From)
		counted := 0
		for _, bar := range bars {
			width := bar.To - bar.From
			require.GreaterOrEqual(t, width, 1.0)
			require.Equal(t, math.Trunc(width), width)
			counted += bar.Succeeded
		}
		require.Equal(t, 50, counted)
		require.GreaterOrEqual(t, bars[len(bars)-1].To, float64(seconds))
	}
}

// A database that an earlier version left in the middle of a task, after kill -9, can be migrated, and the task
// completes: only questions without a result are sent.
func TestADatabaseOfAnEarlierVersionMigratesAndItsTaskCompletes(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, answer)
	database := dbtest.Start(t)
	earlier, err := os.ReadFile("testdata/half_done_at_version_2.sql")
	require.NoError(t, err)
	connection := sqlx.MustConnect("postgres", database)
	connection.MustExec(string(earlier))
	connection.MustExec(`UPDATE public.evaluation_tasks SET agent_api_url = $1, extra_payload = '{"token": "canary2"}'`,
		fake.URL+"?key=canary1")
	connection.MustExec(`UPDATE public.evaluation_tasks SET variable_names = '{level,topic}' WHERE task_name = 'half'`)
	connection.MustExec(
		`UPDATE public.evaluation_items SET variables = '{"topic": "geography", "level": "1"}' WHERE id = 1`)
	connection.MustExec(`UPDATE public.evaluation_items SET variables = '{"topic": "capitals"}' WHERE id = 2`)
	var done int
	require.NoError(t, connection.Get(&done, `SELECT count(*) FROM public.evaluation_runs`))
	require.NoError(t, connection.Close())

	b := newBenchAt(t, database, dbtest.Redis(t))
	var half, draft uuid.UUID
	require.NoError(t, b.tables.Get(&half, `SELECT id FROM evaluation_tasks WHERE task_name = 'half'`))
	require.NoError(t, b.tables.Get(&draft, `SELECT id FROM evaluation_tasks WHERE task_name = 'draft'`))
	sealed, err := tasks.SealPlain(t.Context(), b.store, b.sealer)
	require.NoError(t, err)
	require.Equal(t, 2, sealed)
	b.requireNowhere(t, "canary1", "canary2")
	sealed, err = tasks.SealPlain(t.Context(), b.store, b.sealer)
	require.NoError(t, err)
	require.Zero(t, sealed, "once")
	before, err := b.store.Task(t.Context(), db.AllProjects(), half)
	require.NoError(t, err)
	require.Equal(t, 2, before.Processed, "what was processed is counted from its units")
	items, _, err := report.New(b.store).Items(t.Context(), half, report.Filter{}, db.Page{Number: 1, Size: 10})
	require.NoError(t, err)
	require.Equal(t, pq.StringArray{"1", "geography"}, items[0].Variables, "by position, in the order of the columns")
	require.Equal(t, pq.StringArray{"", "capitals"}, items[1].Variables)
	require.Equal(t, pq.StringArray{"", ""}, items[2].Variables)
	b.startWorker(t, 2)
	after := b.awaitEnd(t, half, 30*time.Second)
	require.Equal(t, db.TaskSucceeded, after.Status)
	b.requireComplete(t, after)
	require.Len(t, fake.Calls(), after.TotalRuns()-done)
	require.Equal(t, "key=canary1", fake.Calls()[0].Query)
	require.Equal(t, "canary2", fake.Calls()[0].Body["token"])
	untouched, err := b.store.Task(t.Context(), db.AllProjects(), draft)
	require.NoError(t, err)
	require.True(t, untouched.IsDraft())
}

// Once a task has ended, every question is assessed and included in the statistics, also after a retry.
func TestQuestionsAreAssessedWhenTheTaskEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		switch {
		case call.Question == "question 1":
			agenttest.Stream(w, "same")
		case call.Question == "question 2" && !isWell.Load():
			http.Error(w, "down", http.StatusInternalServerError)
		case call.Question == "question 2":
			agenttest.Stream(w, "")
		default:
			agenttest.Stream(w, "answer to "+call.IdempotencyKey)
		}
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 3, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 20*time.Second)
	read := func() map[int]report.Question {
		var ids []int64
		require.NoError(t, b.tables.Select(&ids, `SELECT id FROM evaluation_items WHERE task_id = $1`, taskID))
		questions, err := report.New(b.store).Questions(t.Context(), taskID, ids)
		require.NoError(t, err)
		byNumber := map[int]report.Question{}
		for _, question := range questions {
			byNumber[question.Number] = question
		}
		return byNumber
	}
	questions := read()
	require.Equal(t, measure.Identical, *questions[1].Likeness(1).Level)
	require.Equal(t, "AAAAA", *questions[1].Likeness(1).Letters)
	require.Empty(t, *questions[1].Differences)
	require.Equal(t, measure.Unknown, *questions[2].Likeness(1).Level)
	require.Equal(t, "-----", *questions[2].Likeness(1).Letters)
	require.Zero(t, *questions[2].Likeness(1).Agreement)
	require.Nil(t, questions[2].Likeness(1).Similarity)
	require.Equal(t, "ABCDE", *questions[3].Likeness(1).Letters)
	require.Len(t, strings.Fields(*questions[3].Differences), 4)
	statistics, err := b.store.TaskStatistics(t.Context(), task)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"identical": 1, "format_only": 0, "facts": 1, "wording": 0, "different": 0, "empty": 0,
		"unknown": 1}, statistics.Levels)
	require.InDelta(t, 1.0/3, *statistics.Agreement, 1e-9)
	require.InDelta(t, 1.0/3, *statistics.IdenticalRate, 1e-9)
	require.InDelta(t, (1+0+0.2)/3, *statistics.Consensus, 1e-9)
	require.InDelta(t, 3, *statistics.DistinctMean, 1e-9)
	require.InDelta(t, 10.0/15, *statistics.SuccessRate, 1e-9)
	require.Equal(t, []int{3, 15, 0}, []int{statistics.Items, statistics.RunsExpected, statistics.Missing})

	isWell.Store(true)
	retry, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchRetry, db.Selection{},
		db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), retry))
	dbtest.Await(t, 20*time.Second, "the retry's end", func() bool {
		task, err = b.store.Task(t.Context(), db.AllProjects(), taskID)
		return err == nil && !task.Status.IsActive()
	})
	questions = read()
	require.Equal(t, measure.Empty, *questions[2].Likeness(1).Level)
	require.Equal(t, "AAAAA", *questions[2].Likeness(1).Letters)
	statistics, err = b.store.TaskStatistics(t.Context(), task)
	require.NoError(t, err)
	require.Equal(t, 1, statistics.Levels["empty"])
	require.InDelta(t, 2.0/3, *statistics.Agreement, 1e-9)

	// A task that ended under an earlier version is assessed by a worker, and gets its statistics.
	b.tables.MustExec(`DELETE FROM question_statistics`)
	b.tables.MustExec(
		`UPDATE evaluation_tasks SET is_assessed = false, statistics = CAST(CAST(statistics AS jsonb) - 'agreement' AS json)`)
	dbtest.Await(t, 20*time.Second, "its questions", func() bool {
		task, err = b.store.Task(t.Context(), db.AllProjects(), taskID)
		return err == nil && task.Final.Agreement != nil
	})
	require.Equal(t, questions, read())
}

// The history of finished tasks is removed; their results stay.
func TestOldHistoryIsPrunedAndResultsStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if !isWell.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		answer(w, call)
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 2, nil)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.awaitEnd(t, taskID, 20*time.Second)
	isWell.Store(true)
	_, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchRetry, db.Selection{},
		db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	b.awaitEnd(t, taskID, 20*time.Second)
	_, found, err := upkeep.New(b.store).Prune(t.Context(), time.Hour)
	require.NoError(t, err)
	require.False(t, found, "it has just ended")
	_, err = b.tables.Exec(`UPDATE evaluation_tasks SET completed_at = now() - interval '2 hours'`)
	require.NoError(t, err)
	removed, found, err := upkeep.New(b.store).Prune(t.Context(), time.Hour)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, 10+20, removed, "ten replaced runs and the units of both launches")
	statistics := b.statistics(t, taskID)
	require.Equal(t, 10, statistics.Succeeded)
	var current int
	require.NoError(t, b.tables.Get(&current, `SELECT count(*) FROM evaluation_runs WHERE is_current`))
	require.Equal(t, 10, current)
	_, err = b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchRetry, db.Selection{},
		db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.ErrorIs(t, err, db.ErrNothingToRun)
}

// Once a task has ended, its answers are compared with those of the previous task on the same dataset, variant by
// variant.
func TestATaskIsComparedWithTheOneBeforeItOnTheSameDataset(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "在 30 日内答复 "+call.Question)
	})
	after := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "在 35 日内答复 "+call.Question)
	})
	b.startWorker(t, 8)
	other := b.run(t, 3, func(n *db.NewTask) { variants(n, before.URL); n.Task.DatasetName = "other.csv" })
	first := b.run(t, 3, func(n *db.NewTask) { variants(n, before.URL, before.URL) })
	second := b.run(t, 3, func(n *db.NewTask) { variants(n, after.URL, before.URL) })

	compared := func(task uuid.UUID) (count int) {
		require.NoError(t, b.tables.Get(&count, `
			SELECT count(*)
			FROM compared_answers c
			JOIN evaluation_items a ON a.id = c.a_item_id
			JOIN evaluation_items b ON b.id = c.b_item_id
			WHERE a.task_id = $1 AND b.task_id = $2 AND c.a_variant = 1 AND c.b_variant = 1
			AND c.facts_differ = 'conflict'`, task, second.ID))
		return count
	}
	dbtest.Await(t, time.Minute, "the comparison", func() bool { return compared(first.ID) == 3 })
	require.Zero(t, compared(other.ID), "a task on another dataset")
}
