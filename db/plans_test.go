package db_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/pg/embedded"
	"wending/db/report"
	"wending/db/tasklist"
	"wending/db/upkeep"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// wholeTable matches plans that read a large table from end to end.
var wholeTable = regexp.MustCompile(`(?:Parallel )?Seq Scan on (evaluation_runs|evaluation_items|units)\b`)

// With 100,000 stored runs, every statement behind a page and every statement of a launch uses indexes. The server
// itself logs the plans that it used.
func TestNoStatementReadsALargeTableFromEndToEnd(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), dbtest.Folder(t)
	server, err := embedded.StartPostgres(ctx, filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	require.NoError(t, db.Migrate(ctx, server.URL()))
	tables, err := sqlx.Connect("postgres", server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tables.Close() })
	dbtest.Seed(t, tables, 200, 20, 20)
	large := dbtest.Seed(t, tables, 1, 1000, 20)
	var launch uuid.UUID
	require.NoError(t, tables.Get(&launch, `SELECT id FROM launches WHERE task_id = $1`, large))
	var items []int64
	require.NoError(t, tables.Select(&items, `SELECT id FROM evaluation_items WHERE task_id = $1 ORDER BY id LIMIT 20`,
		large))
	store, err := db.Open(ctx,
		server.URL()+` options='-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0'`, 2)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })

	log := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "postgres.log"))
		require.NoError(t, err)
		return string(text)
	}
	newLaunch := db.NewLaunch{Targets: dbtest.Limits("http://127.0.0.1:9")}
	page := db.Page{Number: 2, Size: 20}
	worker := engine.Worker{ID: uuid.New(), Lanes: 1}
	lease, _, err := engine.NewPresence(store).Beat(ctx, worker)
	require.NoError(t, err)
	list := tasklist.New(store)
	var call db.Call
	var claim db.Claim
	var retry uuid.UUID
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"Task", func() error { _, err := store.Task(ctx, db.AllProjects(), large); return err }},
		{"Tasks", func() error {
			_, _, err := tasklist.New(store).Tasks(ctx, db.AllProjects(),
				tasklist.Filter{Statuses: []db.TaskStatus{db.TaskSucceeded}}, page)
			return err
		}},
		{"Arranged", func() error {
			_, err := list.Arranged(ctx, db.AllProjects(), tasklist.Filter{}, tasklist.Arrangement{
				By: tasklist.ByAgent, NewestOfDataset: true}, page)
			return err
		}},
		{"ReviewProgress", func() error {
			_, err := list.ReviewProgress(ctx, db.AllProjects(), []db.Task{{ID: large}})
			return err
		}},
		{"SeriesOf", func() error {
			_, err := list.SeriesOf(ctx, db.AllProjects(), []db.Task{{ID: large, ScheduleID: &launch}})
			return err
		}},
		{"Unrated", func() error { _, err := report.New(store).Unrated(ctx, large, 0); return err }},
		{"Unpassed", func() error { _, err := report.New(store).Unpassed(ctx, large, 0); return err }},
		{"Runs of a launch that failed", func() error {
			hasSucceeded, now := false, time.Now()
			_, _, err := engine.NewHistory(store).Runs(ctx, launch,
				engine.RunFilter{Succeeded: &hasSucceeded, Since: &now}, 100, page)
			return err
		}},
		{"Summaries", func() error {
			_, err := report.New(store).Summaries(ctx, db.Task{ID: large}, 0, "", false)
			return err
		}},
		{"ItemsByID", func() error { _, err := report.New(store).ItemsByID(ctx, items); return err }},
		{"Items", func() error {
			_, _, err := report.New(store).Items(ctx, large, report.Filter{OnlyAssessed: true}, page)
			return err
		}},
		{"NumbersBy", func() error { _, err := report.New(store).NumbersBy(ctx, db.Task{ID: large}, 1, false); return err }},
		{"CurrentRuns", func() error { _, err := report.New(store).CurrentRuns(ctx, items, 100); return err }},
		{"EachCurrentRun", func() error {
			return report.New(store).EachCurrentRun(ctx, items[0], func(db.Run) error { return nil })
		}},
		{"EachRow", func() error {
			return report.New(store).EachRow(ctx, large, nil, func(report.Row) error { return nil })
		}},
		{"Launches", func() error {
			_, _, err := engine.NewHistory(store).Launches(ctx, large, db.Page{Number: 1, Size: 20})
			return err
		}},
		{"LaunchRuns", func() error {
			_, _, err := engine.NewHistory(store).Runs(ctx, launch, engine.RunFilter{}, 100, page)
			return err
		}},
		{"NewestRuns", func() error { _, err := engine.NewHistory(store).Newest(ctx, large, 100, 8); return err }},
		{"LatencyBars", func() error { _, err := report.NewMonitor(store).LatencyBars(ctx, large); return err }},
		{"OutcomeBars", func() error { _, err := report.NewMonitor(store).OutcomeBars(ctx, large); return err }},
		{"TaskProgress", func() error { _, err := report.NewMonitor(store).TaskProgress(ctx, large); return err }},
		{"Workers", func() error { _, err := report.NewMonitor(store).Workers(ctx); return err }},
		{"RequestLaunch", func() (err error) {
			retry, err = store.RequestLaunch(ctx, db.AllProjects(), large, db.LaunchRetry, db.Selection{}, newLaunch)
			return err
		}},
		{"StartLaunch", func() error { _, err := store.StartLaunch(ctx, retry); return err }},
		{"TaskStatistics of a running task", func() error {
			_, err := store.TaskStatistics(ctx, db.Task{ID: large})
			return err
		}},
		{"TaskProgress of a running task", func() error {
			_, err := report.NewMonitor(store).TaskProgress(ctx, large)
			return err
		}},
		// The lease may have ended on a busy machine.
		{"Beat", func() (err error) { lease, _, err = engine.NewPresence(store).Beat(ctx, worker); return err }},
		{"LaunchCall", func() (err error) { call, err = store.LaunchCall(ctx, retry); return err }},
		{"EnterLanes", func() error {
			_, err := engine.NewLanes(store).Enter(ctx, []uuid.UUID{uuid.New()}, retry, lease)
			return err
		}},
		{"LaunchState", func() error { _, err := engine.NewLanes(store).State(ctx, retry, lease); return err }},
		{"ClaimUnits", func() (err error) {
			claim, err = store.ClaimUnits(ctx, call, lease, []db.Want{{Target: 1, Units: 64, Horizon: db.RateHorizon}})
			return err
		}},
		{"ReserveCall", func() error { _, _, err := store.ReserveCall(ctx, call, claim.Units[0]); return err }},
		{"RecordResults", func() error {
			var results []engine.Result
			for _, unit := range claim.Units[:32] {
				results = append(results, engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte("x"), Attempts: 1})
			}
			_, err := engine.NewRecorder(store).Record(ctx, large, results)
			return err
		}},
		{"PlanRounds", func() error {
			tables.MustExec(`UPDATE evaluation_tasks SET adaptive = '{"max_runs": 20, "confidence": 0.95}' WHERE id = $1`, large)
			defer tables.MustExec(`UPDATE evaluation_tasks SET adaptive = NULL WHERE id = $1`, large)
			_, err := store.PlanRounds(ctx, retry, items)
			return err
		}},
		{"Running Task", func() error { _, err := store.Task(ctx, db.AllProjects(), large); return err }},
		{"TaskHindrance", func() error { _, err := report.NewMonitor(store).TaskHindrance(ctx, large); return err }},
		{"Questions", func() error { _, err := report.New(store).Questions(ctx, large, items); return err }},
		{"Unassessed", func() error { _, err := store.Unassessed(ctx, large, 100); return err }},
		{"UnassessedTask", func() error { _, err := report.New(store).UnassessedTask(ctx); return err }},
		{"Whole", func() error { _, err := report.New(store).Whole(ctx, items); return err }},
		{"EachAnsweredRun", func() error {
			return report.New(store).Assessor().EachAnsweredRun(ctx, items, 100, func(report.AnsweredRun) error { return nil })
		}},
		{"ReturnUnits", func() error { return store.ReturnUnits(ctx, claim.Units[32:48]) }},
		{"ReleaseStrays", func() error {
			_, err := store.ReleaseStrays(ctx, worker.ID, []int64{claim.Units[50].ID})
			return err
		}},
		{"RequeueLostUnits", func() error { _, err := store.RequeueLostUnits(ctx, evaluate.JudgeUnrated); return err }},
		{"ActiveLaunches", func() error { _, err := engine.NewLanes(store).ActiveLaunches(ctx); return err }},
		{"StopTask", func() error { _, err := store.StopTask(ctx, db.AllProjects(), large, db.Actor{}); return err }},
		{"CutStopped", func() error { return store.CutStopped(ctx) }},
		{"ReleaseUnits", func() error { _, err := store.ReleaseUnits(ctx, worker.ID); return err }},
		{"FinishLaunch", func() error {
			finished, err := tasks.FinishLaunch(ctx, store, retry)
			if err == nil && !finished {
				err = fmt.Errorf("not finished")
			}
			return err
		}},
		{"PruneHistory", func() error { _, _, err := upkeep.New(store).Prune(ctx, time.Nanosecond); return err }},
		{"DeleteTask", func() error { return upkeep.New(store).DeleteTask(ctx, db.AllProjects(), large) }},
	} {
		before := len(log())
		require.NoError(t, step.run(), step.name)
		plans := log()[before:]
		require.Contains(t, plans, "Query Text", "%s: the server told no plan", step.name)
		for _, plan := range strings.Split(plans, "Query Text") {
			require.Empty(t, wholeTable.FindString(plan), "%s: %.3000s", step.name, plan)
		}
	}
}

func TestMain(m *testing.M) { dbtest.Main(m) }

// A listener is notified of every change of a task's state, regardless of which process makes it.
func TestChangesAreHeard(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	require.NoError(t, db.Migrate(t.Context(), url))
	store, err := db.Open(t.Context(), url, 2)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	heard := make(chan uuid.UUID, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- report.ListenForChanges(ctx, url, func(id uuid.UUID) { heard <- id }) }()
	task := db.NewTask{Task: db.Task{ID: uuid.New(), ProjectID: db.DefaultProject, Name: "t",
		Targets: dbtest.Targets("http://127.0.0.1:9"), Variants: dbtest.Variants(), RunsPerItem: 1, TimeoutSeconds: 1,
		Concurrency: 1},
		Items:  []db.NewItem{{QuestionID: "q", Question: "q"}},
		Launch: &db.NewLaunch{Targets: dbtest.Limits("http://127.0.0.1:9")}}
	launch, err := store.CreateTask(t.Context(), task)
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, <-heard, "listening has begun")
	_, err = store.StartLaunch(t.Context(), launch)
	require.NoError(t, err)
	require.Equal(t, task.Task.ID, <-heard, "a start")
	_, err = store.StopTask(t.Context(), db.AllProjects(), task.Task.ID, db.Actor{})
	require.NoError(t, err)
	require.Equal(t, task.Task.ID, <-heard, "a stop")
	_, err = tasks.FinishLaunch(t.Context(), store, launch)
	require.NoError(t, err)
	require.Equal(t, task.Task.ID, <-heard, "an end")
	cancel()
	require.NoError(t, <-ended)
}
