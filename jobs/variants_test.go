package jobs_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/measure"
	"wending/db/report"
	"wending/jobs/agent/agenttest"
	"wending/jobs/tasks"
)

// variants gives a plain task several targets, one for each URL, and a variant for each target.
func variants(n *db.NewTask, urls ...string) {
	n.Task.Targets, n.Task.Variants = nil, nil
	if n.Launch != nil {
		n.Launch.Targets = nil
	}
	for place, url := range urls {
		target := dbtest.Targets(url)[0]
		target.TaskID, target.Number = n.Task.ID, place+1
		n.Task.Targets = append(n.Task.Targets, target)
		n.Task.Variants = append(n.Task.Variants,
			db.Variant{Number: place + 1, Target: place + 1, Name: fmt.Sprint("variant ", place+1)})
		if n.Launch != nil {
			n.Launch.Targets = append(n.Launch.Targets, db.LaunchTarget{Number: place + 1, Origin: url})
		}
	}
}

// run runs a task to its end and returns it.
func (b *bench) run(t testing.TB, questions int, change func(*db.NewTask)) db.Task {
	t.Helper()
	taskID, launchID := b.task(t, "http://127.0.0.1:9", questions, change)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, time.Minute)
	require.Equal(t, db.TaskSucceeded, task.Status)
	b.requireComplete(t, task)
	return task
}

func TestEveryVariantAsksEveryQuestionItsRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := agenttest.New(t, answer), agenttest.New(t, answer)
	b.startWorker(t, 4)
	b.startWorker(t, 4)
	// Two variants share the second target.
	task := b.run(t, 20, func(n *db.NewTask) {
		variants(n, first.URL, second.URL)
		n.Task.RunsPerItem = 3
		n.Task.Variants = append(n.Task.Variants, db.Variant{Number: 3, Target: 2, Name: "third"})
	})
	require.Equal(t, 3, task.TotalVariants)
	require.Equal(t, 180, task.TotalRuns())
	require.Len(t, first.Calls(), 60)
	require.Len(t, second.Calls(), 120)
	var counts []int
	require.NoError(t, b.tables.Select(&counts,
		`SELECT count(*) FROM evaluation_runs WHERE task_id = $1 GROUP BY variant, item_id`, task.ID))
	require.Len(t, counts, 60)
	for _, count := range counts {
		require.Equal(t, 3, count)
	}
}

// A variant finishes while another one, whose agent is also called, is held up. BenchmarkVariantBesideASlowOne measures
// how much longer it takes alongside the slow one.
func TestASlowTargetHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	hang := func(http.ResponseWriter, agenttest.Call) { <-over }
	for name, test := range map[string]struct {
		concurrency int
		other       func(http.ResponseWriter, agenttest.Call)
		change      func(*db.NewTask)
	}{
		"one call a second": {4, answer, func(n *db.NewTask) {
			n.Launch.Targets[1].CallInterval = time.Second
		}},
		"one call a second, one lane": {1, answer, func(n *db.NewTask) {
			n.Launch.Targets[1].CallInterval = time.Second
		}},
		"429 with Retry-After, and one lane": {1, busy, func(n *db.NewTask) {
			n.Task.Targets[1].RetryOn, n.Task.MaxRetries = []string{"429"}, 5
		}},
		"refuses, and one lane": {1, failing, func(n *db.NewTask) {
			n.Task.Targets[1].RetryOn, n.Task.MaxRetries = []string{"5xx"}, 5
		}},
		"hangs": {16, hang, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			fast, slow := agenttest.New(t, answer), agenttest.New(t, test.other)
			if name == "hangs" {
				t.Cleanup(func() { close(over) }) // so that the agent can wait for its calls
			}
			b.startWorker(t, test.concurrency)
			taskID, launchID := b.task(t, "", 20, func(n *db.NewTask) {
				variants(n, fast.URL, slow.URL)
				n.Task.Concurrency = test.concurrency
				if test.change != nil {
					test.change(n)
				}
			})
			require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
			dbtest.Await(t, 30*time.Second, "the end of the fast variant", func() bool {
				var runs int
				require.NoError(t, b.tables.Get(&runs, `
					SELECT count(*) FROM evaluation_runs WHERE task_id = $1 AND variant = 1 AND status = 'SUCCEEDED'`, taskID))
				return runs == 100
			})
			require.NotEmpty(t, slow.Calls())
			var left int
			require.NoError(t, b.tables.Get(&left,
				`SELECT count(*) FROM units WHERE launch_id = $1 AND target = 2 AND state <> 'DONE'`, launchID))
			require.Greater(t, left, 50)
			_, err := b.store.StopTask(context.WithoutCancel(t.Context()), db.AllProjects(), taskID, db.Actor{})
			require.NoError(t, err)
		})
	}
}

func busy(w http.ResponseWriter, _ agenttest.Call) {
	w.Header().Set("Retry-After", "30")
	w.WriteHeader(http.StatusTooManyRequests)
}

func failing(w http.ResponseWriter, _ agenttest.Call) {
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "down")
}

// Concurrency applies across all targets and workers.
func TestConcurrencyHoldsOverAllVariants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var now, most atomic.Int64
	script := func(w http.ResponseWriter, call agenttest.Call) {
		running := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); running > seen && !most.CompareAndSwap(seen, running); seen = most.Load() {
		}
		time.Sleep(20 * time.Millisecond) // the agent's latency
		answer(w, call)
	}
	var urls []string
	for range 4 {
		urls = append(urls, agenttest.New(t, script).URL)
	}
	b.startWorker(t, 4)
	b.startWorker(t, 4)
	b.run(t, 10, func(n *db.NewTask) {
		variants(n, urls...)
		n.Task.Concurrency = 5
	})
	require.LessOrEqual(t, most.Load(), int64(5))
	require.Greater(t, most.Load(), int64(2))
}

// A retry may be limited to one variant, and a finished variant is not run again.
func TestOneVariantIsRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var isDown atomic.Bool
	isDown.Store(true)
	script := func(w http.ResponseWriter, call agenttest.Call) {
		if isDown.Load() {
			failing(w, call)
			return
		}
		answer(w, call)
	}
	fakes := []*agenttest.Agent{agenttest.New(t, answer), agenttest.New(t, script), agenttest.New(t, script)}
	b.startWorker(t, 8)
	task := b.run(t, 4, func(n *db.NewTask) { variants(n, fakes[0].URL, fakes[1].URL, fakes[2].URL) })
	require.Equal(t, 40, task.Unsuccessful)
	isDown.Store(false)
	limits := []db.LaunchTarget{{Number: 1, Origin: fakes[0].URL}, {Number: 2, Origin: fakes[1].URL},
		{Number: 3, Origin: fakes[2].URL}}
	_, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), task.ID, db.LaunchRetry, db.Selection{Variant: 1},
		db.NewLaunch{Targets: limits})
	require.ErrorIs(t, err, db.ErrNothingToRun)
	_, err = b.store.RequestLaunch(t.Context(), db.AllProjects(), task.ID, db.LaunchRetry, db.Selection{Variant: 4},
		db.NewLaunch{Targets: limits})
	require.ErrorIs(t, err, db.ErrNotFound)
	retry := func(scope db.Selection) db.Task {
		launch, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), task.ID, db.LaunchRetry, scope,
			db.NewLaunch{Targets: limits})
		require.NoError(t, err)
		require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launch))
		return b.awaitEnd(t, task.ID, 30*time.Second)
	}
	require.Equal(t, 20, retry(db.Selection{Variant: 3}).Unsuccessful)
	require.Equal(t, 15, retry(db.Selection{QuestionID: "q0002"}).Unsuccessful)
	require.Equal(t, 10, retry(db.Selection{QuestionID: "q0001", Variant: 2}).Unsuccessful)
	require.Zero(t, retry(db.Selection{}).Unsuccessful)
	require.Len(t, fakes[0].Calls(), 20, "what succeeded is not asked again")
}

// The units of a large launch are created in steps, by any process; a stop in between stops the launch.
func TestALargeLaunchIsMadeInSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	large := func() (taskID, launchID uuid.UUID) {
		return b.task(t, "", 600, func(n *db.NewTask) {
			variants(n, "http://127.0.0.1:9", "http://127.0.0.1:10")
			n.Task.RunsPerItem = 20
		})
	}
	taskID, launchID := large()
	b.tables.MustExec(`UPDATE launches SET total_units = 10000 WHERE id = $1`, launchID) // as after its first step
	progress, err := report.NewMonitor(b.store).TaskProgress(t.Context(), taskID)
	require.NoError(t, err)
	require.Equal(t, []int{10_000, 24_000}, []int{progress.Prepared, progress.Queued})
	b.tables.MustExec(`UPDATE launches SET total_units = 0 WHERE id = $1`, launchID)
	var starters sync.WaitGroup
	var started atomic.Int64
	for range 4 {
		starters.Go(func() {
			units, err := b.store.StartLaunch(context.Background(), launchID)
			if err == nil {
				started.Add(int64(units))
				return
			}
			assert.ErrorIs(t, err, db.ErrConflict)
		})
	}
	starters.Wait()
	require.Equal(t, int64(24_000), started.Load(), "one of them starts it")
	var units int
	require.NoError(t, b.tables.Get(&units,
		`SELECT count(DISTINCT (item_id, variant, run_index)) FROM units WHERE launch_id = $1 AND target = variant`,
		launchID))
	require.Equal(t, 24_000, units)
	_, err = b.store.StopTask(t.Context(), db.AllProjects(), taskID, db.Actor{})
	require.NoError(t, err)

	taskID, launchID = large()
	b.tables.MustExec(`UPDATE evaluation_items SET question = question WHERE task_id = $1`, taskID)
	stopped := make(chan error, 1)
	go func() {
		_, err := b.store.StartLaunch(context.Background(), launchID)
		stopped <- err
	}()
	dbtest.Await(t, time.Minute, "the first step", func() bool {
		require.NoError(t, b.tables.Get(&units, `SELECT total_units FROM launches WHERE id = $1`, launchID))
		return units > 0
	})
	_, err = b.store.StopTask(t.Context(), db.AllProjects(), taskID, db.Actor{})
	require.NoError(t, err)
	if err := <-stopped; err != nil { // nil if the launch was started just before the stop
		require.ErrorIs(t, err, db.ErrConflict)
	}
	dbtest.Await(t, time.Minute, "the end", func() bool {
		finished, err := tasks.FinishLaunch(t.Context(), b.store, launchID)
		require.NoError(t, err)
		return finished
	})
	var open int
	require.NoError(t, b.tables.Get(&open, `SELECT count(*) FROM units WHERE launch_id = $1 AND state <> 'STOPPED'`,
		launchID))
	require.Zero(t, open)
}

// The worked example of metrics.md, from stored runs: text, latency in ms; ✗ is a failed run.
func TestTheWorkedExampleOfVariants(t *testing.T) {
	t.Parallel()
	type run struct {
		text    string
		latency int
	}
	same := func(text string, latency int) []run {
		return []run{{text, latency}, {text, latency}, {text, latency}, {text, latency}, {text, latency}}
	}
	failed := run{"✗", 0}
	examples := [][][]run{
		{
			{{"Paris", 100}, {"Paris ", 110}, {"Paris", 120}, {"Lyon", 130}, {"paris", 140}}, same("42", 50),
			{{"yes", 200}, {"no", 210}, failed, {"yes", 190}, failed},
		},
		{
			same("Paris", 90), {{"42", 60}, {"42", 60}, {"42", 60}, {"42", 60}, {"41", 60}},
			{{"yes", 100}, {"yes", 100}, {"yes", 100}, {"yes", 100}, failed},
		},
	}
	b := newBench(t)
	taskID, launchID := b.task(t, "", 3, func(n *db.NewTask) { variants(n, "http://127.0.0.1:9", "http://127.0.0.1:10") })
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	call, err := b.store.LaunchCall(t.Context(), launchID)
	require.NoError(t, err)
	claim, err := b.store.ClaimUnits(t.Context(), call, b.beat(t, uuid.New()),
		[]db.Want{{Target: 1, Units: 15}, {Target: 2, Units: 15}})
	require.NoError(t, err)
	require.Len(t, claim.Units, 30)
	var results []engine.Result
	for _, unit := range claim.Units {
		one := examples[unit.Variant-1][unit.QuestionID[len(unit.QuestionID)-1]-'1'][unit.RunIndex-1]
		result := engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte(one.text),
			AnswerKey: measure.Key([]byte(one.text)), LatencyMS: one.latency, Attempts: 1}
		if one == failed {
			result = engine.Result{Unit: unit, Status: db.RunFailed, ErrorCode: "AGENT_ERROR", Attempts: 1}
		}
		results = append(results, result)
	}
	refused, err := engine.NewRecorder(b.store).Record(t.Context(), taskID, results)
	require.NoError(t, err)
	require.Empty(t, refused)
	finished, err := tasks.FinishLaunch(t.Context(), b.store, launchID)
	require.NoError(t, err)
	require.True(t, finished)

	numbers, err := report.New(b.store).VariantStatistics(t.Context(), taskID)
	require.NoError(t, err)
	for n, want := range []struct {
		succeeded                                                                 int
		success, identical, agreement, se, consensus, distinct, similar, avg, p90 float64
	}{
		{13, 0.8667, 0.3333, 0.4667, 0.2728, 0.6667, 2.0, 0.6244, 111.5385, 198},
		{14, 0.9333, 0.3333, 0.7333, 0.1333, 0.8667, 1.3333, 0.9333, 82.1429, 100},
	} {
		got := numbers[n]
		require.Equal(t, want.succeeded, got.Succeeded)
		for name, pair := range map[string][2]float64{
			"success": {want.success, *got.SuccessRate}, "identical": {want.identical, *got.IdenticalRate},
			"agreement": {want.agreement, *got.Agreement},
			"se":        {want.se, *got.AgreementSE}, "consensus": {want.consensus, *got.Consensus},
			"distinct":   {want.distinct, *got.DistinctMean},
			"similarity": {want.similar, *got.Similarity}, "average": {want.avg, *got.LatencyAvg},
			"P90": {want.p90, *got.LatencyP90},
		} {
			require.InDelta(t, pair[0], pair[1], 0.00005, "%s of variant %d", name, n+1)
		}
		require.Nil(t, got.Cost)
		require.Nil(t, got.TotalTokens)
		require.Nil(t, got.FirstTokenP50)
	}
	compared, err := report.New(b.store).Compare(t.Context(), report.Side{TaskID: taskID, Variant: 1},
		report.Side{TaskID: taskID, Variant: 2})
	require.NoError(t, err)
	for name, pair := range map[string][2]float64{
		"agreement": {0.2667, *compared.Agreement.Mean}, "its se": {0.3383, *compared.Agreement.SE},
		"low":  {-1.1889, *compared.Agreement.Low},
		"high": {1.7222, *compared.Agreement.High}, "p": {0.5131, *compared.Agreement.P},
		"latency": {-40, *compared.LatencyMS.Mean}, "se of latency": {32.1455, *compared.LatencyMS.SE},
		"low latency": {-178.3109, *compared.LatencyMS.Low}, "high latency": {98.3109, *compared.LatencyMS.High},
		"p of latency": {0.3394, *compared.LatencyMS.P},
	} {
		require.InDelta(t, pair[0], pair[1], 0.00005, name)
	}
}
