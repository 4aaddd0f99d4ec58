package jobs_test

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/measure"
	"wending/jobs/agent/agenttest"
)

// adaptive makes a task adaptive; runs and most are the minimum and maximum number of runs of a question.
func adaptive(runs, most int, change func(*db.NewTask)) func(*db.NewTask) {
	return func(n *db.NewTask) {
		n.Task.RunsPerItem, n.Task.Adaptive = runs, &db.Adaptive{MaxRuns: most, Confidence: 0.95}
		if change != nil {
			change(n)
		}
	}
}

// runsOf returns how many runs of each question are recorded, by question_id.
func (b *bench) runsOf(t testing.TB, taskID uuid.UUID, variant int) map[string]int {
	t.Helper()
	var rows []struct {
		ID   string `db:"question_id"`
		Runs int    `db:"runs"`
	}
	require.NoError(t, b.tables.Select(&rows,
		`SELECT i.question_id, count(*) AS runs FROM evaluation_runs r JOIN evaluation_items i ON i.id = r.item_id
		WHERE r.task_id = $1 AND r.is_current AND r.variant = $2 GROUP BY i.question_id`, taskID, variant))
	runs := map[string]int{}
	for _, row := range rows {
		runs[row.ID] = row.Runs
	}
	return runs
}

// counting returns a handler that calls answer with the question and the number of earlier calls for that question.
func counting(answer func(question string, call int) string) func(http.ResponseWriter, agenttest.Call) {
	var mu sync.Mutex
	calls := map[string]int{}
	return func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		n := calls[call.Question]
		calls[call.Question]++
		mu.Unlock()
		agenttest.Stream(w, answer(call.Question, n))
	}
}

func TestAQuestionIsAskedUntilItIsSettled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, counting(func(question string, call int) string {
		switch question {
		case "question 1": // 3 of 3 runs agree, which does not suffice; 4 of 4 do
			return "always"
		case "question 2": // settled once 6 of 7 runs agree
			return map[bool]string{true: "other", false: "most"}[call == 1]
		}
		return fmt.Sprint("never the same ", call)
	}))
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 3, adaptive(3, 10, nil))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	require.Equal(t, db.TaskSucceeded, task.Status)
	require.Equal(t, map[string]int{"q0001": 4, "q0002": 7, "q0003": 10}, b.runsOf(t, taskID, 1))
	require.Equal(t, 21, task.TotalRuns(), "what was planned")
	require.Len(t, fake.Calls(), 21)
	b.requireComplete(t, task)
	statistics := b.statistics(t, taskID)
	require.Equal(t, 21, statistics.RunsExpected)
	require.Zero(t, statistics.Missing)
}

func TestVariantsAreSettledEachForItself(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	calm := agenttest.New(t, counting(func(string, int) string { return "always" }))
	wild := agenttest.New(t, counting(func(_ string, call int) string { return fmt.Sprint(call) }))
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, calm.URL, 2, adaptive(2, 6, func(n *db.NewTask) {
		second := n.Task.Targets[0]
		second.Number, second.URL = 2, wild.URL
		n.Task.Targets = append(n.Task.Targets, second)
		n.Task.Variants = []db.Variant{{Number: 1, Target: 1, Name: "calm"}, {Number: 2, Target: 2, Name: "wild"}}
		limit := dbtest.Limits(wild.URL)[0]
		limit.Number = 2
		n.Launch.Targets = append(n.Launch.Targets, limit)
	}))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	require.Equal(t, map[string]int{"q0001": 4, "q0002": 4}, b.runsOf(t, taskID, 1))
	require.Equal(t, map[string]int{"q0001": 6, "q0002": 6}, b.runsOf(t, taskID, 2))
	b.requireComplete(t, task)
}

// A whole conversation is repeated as long as one of its turns is not settled.
func TestAConversationIsAskedAgainWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, counting(func(question string, call int) string {
		if question == "s1 turn 2" && call < 2 {
			return fmt.Sprint("other ", call)
		}
		return "always"
	}))
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 0, conversations(2, 3, adaptive(2, 8, nil)))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	require.Equal(t, map[string]int{"q1-1": 8, "q1-2": 8, "q1-3": 8, "q2-1": 4, "q2-2": 4, "q2-3": 4, "single": 4},
		b.runsOf(t, taskID, 1))
	b.requireWhole(t, task)
}

// The process dies after recording the last result of a round, but before planning the next round.
func TestARoundThatNobodyPlannedIsPlannedOnceAtTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskID, launchID := b.task(t, "http://agent.test/", 2, adaptive(3, 5, nil))
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	worker := uuid.New()
	lease := b.beat(t, worker)
	record := func(units []db.Unit) (items []int64) {
		for _, unit := range units {
			result := engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte("x"), Attempts: 1,
				AnswerKey: measure.Key([]byte("x"))}
			require.True(t, b.record(t, taskID, result))
			items = append(items, unit.Item.ID)
		}
		return items
	}
	items := record(b.claim(t, launchID, lease, 6))
	for range 3 { // repeated calls plan nothing more
		finished, err := b.store.FinishLaunch(t.Context(), launchID)
		require.NoError(t, err)
		require.False(t, finished)
		planned, err := b.store.PlanRounds(t.Context(), launchID, items)
		require.NoError(t, err)
		require.False(t, planned, "planned before")
	}
	units := b.claim(t, launchID, lease, 6)
	require.Len(t, units, 2, "one run more of each question")
	require.Equal(t, []int{4, 4}, []int{units[0].RunIndex, units[1].RunIndex})
	record(units)
	planned, err := b.store.PlanRounds(t.Context(), launchID, items)
	require.NoError(t, err)
	require.False(t, planned, "4 : 0 is settled")
}

func TestRoundsPlannedAtOnceAreNotDoubled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskID, launchID := b.task(t, "http://agent.test/", 20, adaptive(1, 5, nil))
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	lease := b.beat(t, uuid.New())
	var items []int64
	for _, unit := range b.claim(t, launchID, lease, 64) {
		require.True(t, b.record(t, taskID, engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte("x"),
			Attempts: 1, AnswerKey: measure.Key([]byte("x"))}))
		items = append(items, unit.Item.ID)
	}
	var planners sync.WaitGroup
	for n := range 8 {
		planners.Go(func() {
			_, err := b.store.PlanRounds(t.Context(), launchID, items[n:])
			if err != nil {
				t.Error(err)
			}
		})
	}
	planners.Wait()
	require.Len(t, b.claim(t, launchID, lease, 64), 20)
}

// Rounds that a stop prevented are planned by the next launch.
func TestAStoppedTaskResumesItsRounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, counting(func(string, int) string { return "always" }))
	taskID, launchID := b.task(t, fake.URL, 3, adaptive(3, 10, nil))
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	lease := b.beat(t, uuid.New())
	for _, unit := range b.claim(t, launchID, lease, 9) {
		require.True(t, b.record(t, taskID, engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte("always"),
			Attempts: 1, AnswerKey: measure.Key([]byte("always"))}))
	}
	_, err = b.store.StopTask(t.Context(), db.AllProjects(), taskID, db.Actor{})
	require.NoError(t, err)
	b.startWorker(t, 4)
	task := b.awaitEnd(t, taskID, 20*time.Second)
	require.Equal(t, db.TaskStopped, task.Status)
	require.Equal(t, 9, task.TotalRuns(), "no round is planned after the stop")
	launchID, err = b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchResume, db.Selection{},
		db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task = b.awaitEnd(t, taskID, 20*time.Second)
	require.Equal(t, db.TaskSucceeded, task.Status)
	require.Equal(t, map[string]int{"q0001": 4, "q0002": 4, "q0003": 4}, b.runsOf(t, taskID, 1))
	require.Equal(t, 3, task.Processed)
}

// A failed run does not count towards any answer; a retry that succeeds may settle its question or leave it open.
func TestARetryPlansFurtherRounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	calls := 0
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		calls++
		isWell := calls > 4
		mu.Unlock()
		if !isWell {
			http.Error(w, "boom", http.StatusInternalServerError)
			return
		}
		agenttest.Stream(w, fmt.Sprint(call.Question, time.Now()))
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 1, adaptive(1, 4, nil))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	require.Equal(t, map[string]int{"q0001": 4}, b.runsOf(t, b.awaitEnd(t, taskID, 20*time.Second).ID, 1),
		"failures settle nothing")
	launchID, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchRetry, db.Selection{},
		db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 20*time.Second)
	require.Equal(t, map[string]int{"q0001": 4}, b.runsOf(t, taskID, 1))
	b.requireComplete(t, task)
}

func TestChosenQuestionsAreExtended(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, counting(func(_ string, call int) string { return fmt.Sprint(call % 2) }))
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 3, func(n *db.NewTask) { n.Task.RunsPerItem = 2 })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.awaitEnd(t, taskID, 20*time.Second)
	extend := func(runs int, ids ...string) error {
		launchID, err := b.store.ExtendTask(t.Context(), db.AllProjects(), taskID, ids, runs,
			db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
		if err == nil {
			require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
			b.requireComplete(t, b.awaitEnd(t, taskID, 20*time.Second))
		}
		return err
	}
	require.NoError(t, extend(5, "q0002", "q0002"))
	require.Equal(t, map[string]int{"q0001": 2, "q0002": 5, "q0003": 2}, b.runsOf(t, taskID, 1))
	require.ErrorIs(t, extend(4, "q0002"), db.ErrNothingToRun)
	require.ErrorIs(t, extend(6, "q0002", "no such question"), db.ErrNotFound)
	require.NoError(t, extend(3)) // without ids, all questions
	require.Equal(t, map[string]int{"q0001": 3, "q0002": 5, "q0003": 3}, b.runsOf(t, taskID, 1))
	statistics := b.statistics(t, taskID)
	require.Equal(t, 11, statistics.RunsExpected)
	require.InDelta(t, 1.0, *statistics.SuccessRate, 0)
}

// The most common of 20 prepared answers is found with half the calls: seven of ten questions always get the same
// answer, three are split 70 : 30.
func TestTheLeaderIsFoundWithHalfTheCalls(t *testing.T) {
	t.Parallel()
	const questions, most = 200, 20
	b := newBench(t)
	prepared := func(question string, call int) string {
		var number int
		_, _ = fmt.Sscanf(question, "question %d", &number)
		hash := fnv.New64a()
		_, _ = fmt.Fprint(hash, question, "/", call%most)
		if number%10 < 7 || hash.Sum64()%1000 < 700 {
			return "leader"
		}
		return "other"
	}
	fake := agenttest.New(t, counting(prepared))
	b.startWorker(t, 16)
	taskID, launchID := b.task(t, fake.URL, questions, adaptive(3, most, func(n *db.NewTask) { n.Task.Concurrency = 16 }))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 2*time.Minute)
	b.requireComplete(t, task)
	var leaders []struct {
		Question, Answer string
	}
	require.NoError(t, b.tables.Select(&leaders, `SELECT DISTINCT ON (question) question, answer FROM (
		SELECT i.question, r.response_body AS answer, count(*) AS votes FROM evaluation_runs r
		JOIN evaluation_items i ON i.id = r.item_id
		WHERE r.task_id = $1 AND r.is_current GROUP BY i.question, r.response_body) v ORDER BY question, votes DESC,
		answer`, taskID))
	found := 0
	for _, one := range leaders {
		votes := map[string]int{}
		for call := range most {
			votes[prepared(one.Question, call)]++
		}
		if votes[one.Answer] >= most/2 {
			found++
		}
	}
	share, calls := float64(found)/questions, float64(task.TotalRuns())/(questions*most)
	t.Logf("leader found on %.1f %% of %d questions with %.1f %% of the calls", 100*share, questions, 100*calls)
	require.GreaterOrEqual(t, share, 0.98)
	require.LessOrEqual(t, calls, 0.5)
	require.Len(t, leaders, questions)
	require.True(t, strings.HasPrefix(leaders[0].Question, "question"))
}
