package jobs_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/report"
	"wending/jobs/agent/agenttest"
	"wending/jobs/evaluate"
)

// conversations gives a task count conversations, each with the given number of turns, and one single question.
func conversations(count, turns int, change func(*db.NewTask)) func(*db.NewTask) {
	return func(n *db.NewTask) {
		n.Task.RunsPerItem, n.Task.Concurrency = 2, 4
		n.Items = []db.NewItem{{QuestionID: "single", Question: "single question", StandardAnswer: "a"}}
		for s := range count {
			for turn := turns; turn > 0; turn-- { // the order in the file does not matter
				n.Items = append(n.Items, db.NewItem{
					QuestionID: fmt.Sprintf("q%d-%d", s+1, turn), Question: fmt.Sprintf("s%d turn %d", s+1, turn),
					Series: fmt.Sprintf("s%d", s+1), Turn: turn,
				})
			}
		}
		if change != nil {
			change(n)
		}
	}
}

// outcomes returns the current runs of a task as "question_id/run_index status code", in the order of the pages.
func (b *bench) outcomes(t testing.TB, taskID uuid.UUID) []string {
	t.Helper()
	var rows []string
	require.NoError(t, b.tables.Select(&rows,
		`SELECT i.question_id || '/' || r.run_index || ' ' || r.status || coalesce(' ' || r.error_code || ' ' || r.attempts, '')
		FROM evaluation_runs r JOIN evaluation_items i ON i.id = r.item_id WHERE r.task_id = $1 AND r.is_current
		ORDER BY i.sort_key, r.run_index`, taskID))
	return rows
}

// requireWhole checks that every question has each of its runs exactly once, and that the counts agree.
func (b *bench) requireWhole(t testing.TB, task db.Task) {
	t.Helper()
	var runs, open int
	require.NoError(t,
		b.tables.Get(&runs,
			`SELECT count(DISTINCT (item_id, variant, run_index)) FROM evaluation_runs WHERE task_id = $1 AND is_current`,
			task.ID))
	require.Equal(t, task.TotalRuns(), runs)
	require.NoError(t,
		b.tables.Get(&open,
			`SELECT count(*) FROM units u JOIN launches l ON l.id = u.launch_id WHERE l.task_id = $1 AND u.state IN ('QUEUED', 'RUNNING')`, task.ID))
	require.Zero(t, open)
	require.Equal(t, task.TotalItems, task.Processed)
	progress, err := report.NewMonitor(b.store).TaskProgress(t.Context(), task.ID)
	require.NoError(t, err)
	require.Equal(t, task.TotalRuns(), progress.Completed)
}

func TestTheTurnsOfAConversationFollowOneAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var played agenttest.Conversations
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "single question" {
			answer(w, call)
			return
		}
		agenttest.Stream(w, played.Answer(call))
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 0, conversations(5, 4, nil))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	require.Equal(t, db.TaskSucceeded, task.Status)
	require.Equal(t, 5, task.TotalConversations)
	b.requireWhole(t, task)
	require.Empty(t, played.Wrong())
	calls := fake.Calls()
	require.Len(t, calls, 2*(1+5*4))
	keys, sessions := map[string]bool{}, map[string][]string{}
	for _, call := range calls {
		keys[call.IdempotencyKey] = true
		if call.Question == "single question" {
			require.NotContains(t, call.Body, "history", "absent, not null")
			require.NotContains(t, call.Body, "session_id", "absent, not null")
			continue
		}
		session, _ := call.Body["session_id"].(string)
		sessions[session] = append(sessions[session], call.Question)
	}
	require.Len(t, keys, len(calls), "every turn has a key of its own")
	require.Len(t, sessions, 10, "a session for each conversation and run")
	for _, questions := range sessions {
		series, _, _ := strings.Cut(questions[0], " ")
		require.Equal(t, []string{series + " turn 1", series + " turn 2", series + " turn 3", series + " turn 4"}, questions)
	}
	require.Equal(t, "q1-1/1 SUCCEEDED", b.outcomes(t, taskID)[0], "turns follow one another in the order of pages")
	require.Equal(t, "q1-2/1 SUCCEEDED", b.outcomes(t, taskID)[2])
}

// A retry continues each conversation from its first turn that did not succeed, in a new session with the old
// history.
func TestAFailedTurnStopsItsConversationAndARetryContinuesIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var played agenttest.Conversations
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "s1 turn 2" && !isWell.Load() {
			http.Error(w, "boom", http.StatusInternalServerError)
			return
		}
		agenttest.Stream(w, played.Answer(call))
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 0, conversations(2, 4, func(n *db.NewTask) {
		n.Items, n.Task.RunsPerItem = n.Items[1:], 1
	}))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	b.requireWhole(t, task)
	require.Equal(t, []string{
		"q1-1/1 SUCCEEDED", "q1-2/1 FAILED HTTP_500 1", "q1-3/1 FAILED TURN_NOT_REACHED 0",
		"q1-4/1 FAILED TURN_NOT_REACHED 0",
		"q2-1/1 SUCCEEDED", "q2-2/1 SUCCEEDED", "q2-3/1 SUCCEEDED", "q2-4/1 SUCCEEDED",
	}, b.outcomes(t, taskID))
	require.Equal(t, 3, b.statistics(t, taskID).Failed)
	require.Equal(t, 3, task.RunsLeft(db.LaunchRetry, b.statistics(t, taskID)))

	asked := len(fake.Calls())
	isWell.Store(true)
	retry, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchRetry,
		db.Selection{QuestionID: "q1-3"}, db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), retry))
	task = b.awaitEnd(t, taskID, 30*time.Second)
	b.requireWhole(t, task)
	require.Zero(t, b.statistics(t, taskID).Failed)
	require.Empty(t, played.Wrong())
	var questions []string
	for _, call := range fake.Calls()[asked:] {
		questions = append(questions, call.Question)
	}
	require.Equal(t, []string{"s1 turn 2", "s1 turn 3", "s1 turn 4"}, questions, "what succeeded is kept")
	require.NotEqual(t, fake.Calls()[0].Body["session_id"], fake.Calls()[asked].Body["session_id"])
	var made int
	require.NoError(t, b.tables.Get(&made, `SELECT total_units FROM launches WHERE id = $1`, retry))
	require.Equal(t, 3, made)
}

func TestAConversationMayContinueAfterAFailedTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "s1 turn 2" && !isWell.Load() {
			http.Error(w, "boom", http.StatusInternalServerError)
			return
		}
		answer(w, call)
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 0, conversations(1, 3, func(n *db.NewTask) {
		n.Items, n.Task.RunsPerItem, n.Task.OnTurnFailure = n.Items[1:], 1, db.TurnFailureContinues
	}))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.requireWhole(t, b.awaitEnd(t, taskID, 30*time.Second))
	require.Equal(t, []string{"q1-1/1 SUCCEEDED", "q1-2/1 FAILED HTTP_500 1", "q1-3/1 SUCCEEDED"}, b.outcomes(t, taskID))
	require.Equal(t, []string{"s1 turn 1", "answer to s1 turn 1"}, agenttest.HistoryOf(fake.Calls()[2]),
		"only what was answered")

	isWell.Store(true)
	retry, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchRetry, db.Selection{},
		db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), retry))
	b.requireWhole(t, b.awaitEnd(t, taskID, 30*time.Second))
	calls := fake.Calls()
	require.Len(t, calls, 5, "the turn after the failed one is asked again, too")
	require.Equal(t, []string{"s1 turn 1", "answer to s1 turn 1", "s1 turn 2", "answer to s1 turn 2"},
		agenttest.HistoryOf(calls[4]))
}

// If a worker dies in the middle of a conversation, the finished turns stay; another worker repeats the turn in
// flight and continues.
func TestAnotherWorkerContinuesAConversation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var played agenttest.Conversations
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, played.Answer(call)) })
	taskID, launchID := b.task(t, fake.URL, 0, conversations(1, 3, func(n *db.NewTask) {
		n.Items, n.Task.RunsPerItem = n.Items[1:], 1
	}))
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)

	worker := uuid.New()
	unit := b.claim(t, launchID, b.beat(t, worker), 1)[0]
	turn, _, err := engine.NewConversations(b.store).Next(t.Context(), unit, 1000)
	require.NoError(t, err)
	require.Empty(t, turn.History)
	require.Len(t, turn.Later, 2)
	first := played.Answer(agenttest.Call{Question: "s1 turn 1", Body: map[string]any{"history": []any{}}})
	unit.Item = turn.Item
	result := engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte(first), AnswerKey: []byte("k"),
		Attempts: 1,
		Turn:     &engine.Turn{Later: turn.Later, ConversationID: "c-1"}}
	require.True(t, b.record(t, taskID, result))
	require.True(t, b.record(t, taskID, result), "a turn whose reply was lost is recorded again")
	turn, _, err = engine.NewConversations(b.store).Next(t.Context(), unit, 1000)
	require.NoError(t, err)
	require.Equal(t, first, turn.History[0].Answer)
	require.Equal(t, "c-1", turn.ConversationID)
	_, isTooLong, err := engine.NewConversations(b.store).Next(t.Context(), unit, 5)
	require.NoError(t, err)
	require.True(t, isTooLong)
	late := result
	late.Unit.Item = turn.Item

	_, err = b.tables.Exec(`UPDATE workers SET beat_at = now() - interval '1 hour' WHERE id = $1`, worker)
	require.NoError(t, err)
	lost, err := b.store.RequeueLostUnits(t.Context(), evaluate.JudgeUnrated)
	require.NoError(t, err)
	require.Equal(t, 1, lost)
	require.False(t, b.record(t, taskID, late), "the unit is another worker's")
	_, _, err = engine.NewConversations(b.store).Next(t.Context(), unit, 1000)
	require.ErrorIs(t, err, db.ErrConflict)

	b.startWorker(t, 2)
	require.NoError(t, b.queue.EnqueueLanes(t.Context(), launchID, 1))
	b.requireWhole(t, b.awaitEnd(t, taskID, 30*time.Second))
	require.Equal(t, []string{"q1-1/1 SUCCEEDED", "q1-2/1 SUCCEEDED", "q1-3/1 SUCCEEDED"}, b.outcomes(t, taskID))
	require.Empty(t, played.Wrong())
	require.Len(t, fake.Calls(), 2)
}

func TestAConversationThatLostThreeWorkersEndsWithWhatItHas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskID, launchID := b.task(t, "http://127.0.0.1:9", 0, conversations(1, 3, func(n *db.NewTask) {
		n.Items, n.Task.RunsPerItem = n.Items[1:], 1
	}))
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	for n := range 3 {
		worker := uuid.New()
		unit := b.claim(t, launchID, b.beat(t, worker), 1)[0]
		if n == 0 {
			turn, _, err := engine.NewConversations(b.store).Next(t.Context(), unit, 1000)
			require.NoError(t, err)
			unit.Item = turn.Item
			require.True(t, b.record(t, taskID, engine.Result{Unit: unit, Status: db.RunSucceeded, Attempts: 1,
				Turn: &engine.Turn{Later: turn.Later}}))
		}
		_, err = b.tables.Exec(`UPDATE workers SET beat_at = now() - interval '1 hour' WHERE id = $1`, worker)
		require.NoError(t, err)
		_, err = b.store.RequeueLostUnits(t.Context(), evaluate.JudgeUnrated)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"q1-1/1 SUCCEEDED", "q1-2/1 FAILED WORKER_LOST 3", "q1-3/1 FAILED TURN_NOT_REACHED 0"},
		b.outcomes(t, taskID))
}

// A stop takes effect between two turns; turns that were not reached run when the task is resumed.
func TestAConversationIsStoppedBetweenTurnsAndResumed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var played agenttest.Conversations
	begun, release := make(chan struct{}, 10), make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "s1 turn 2" {
			begun <- struct{}{}
			<-release
		}
		agenttest.Stream(w, played.Answer(call))
	})
	b.startWorker(t, 2)
	taskID, launchID := b.task(t, fake.URL, 0, conversations(1, 4, func(n *db.NewTask) {
		n.Items, n.Task.RunsPerItem = n.Items[1:], 1
	}))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	<-begun
	progress, err := report.NewMonitor(b.store).TaskProgress(t.Context(), taskID)
	require.NoError(t, err)
	require.Equal(t, []int{4, 1, 1, 2}, []int{progress.Total, progress.Completed, progress.Running, progress.Queued})
	task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
	require.NoError(t, err)
	require.Equal(t, 1, task.Processed, "the first turn has all its runs")
	_, err = b.store.StopTask(t.Context(), db.AllProjects(), taskID, db.Actor{})
	require.NoError(t, err)
	close(release)
	task = b.awaitEnd(t, taskID, 30*time.Second)
	require.Equal(t, db.TaskStopped, task.Status)
	require.Equal(t, []string{"q1-1/1 SUCCEEDED", "q1-2/1 SUCCEEDED"}, b.outcomes(t, taskID))
	require.Equal(t, 2, b.statistics(t, taskID).Stopped)

	resume, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchResume, db.Selection{},
		db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), resume))
	b.requireWhole(t, b.awaitEnd(t, taskID, 30*time.Second))
	require.Empty(t, played.Wrong())
	require.Len(t, fake.Calls(), 4, "no turn is asked twice")
}

// The rate limit applies to every turn, and a repeated attempt has the same key and history.
func TestEveryTurnWaitsForTheRateLimitAndIsRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var moments []time.Time
	var failed atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		moments = append(moments, time.Now()) // a conversation makes one call at a time
		if call.Question == "s1 turn 2" && !failed.Swap(true) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Connection", "close") // on a reused connection, the client itself would repeat the call
		answer(w, call)
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 0, conversations(1, 5, func(n *db.NewTask) {
		n.Items, n.Task.RunsPerItem, n.Task.MaxRetries = n.Items[1:], 1, 1
		n.Launch.Targets[0].CallInterval = 150 * time.Millisecond
	}))
	started := time.Now()
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.requireWhole(t, b.awaitEnd(t, taskID, 30*time.Second))
	requireNoneEarly(t, started, moments, 150*time.Millisecond)
	calls := fake.Calls()
	require.Len(t, calls, 6)
	require.Equal(t, calls[1].IdempotencyKey, calls[2].IdempotencyKey)
	require.Equal(t, calls[1].Body, calls[2].Body)
	require.Len(t, slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, call := range calls {
			if !yield(call.IdempotencyKey) {
				return
			}
		}
	})), 5)
}

// Agents that keep conversations themselves receive their own id for the conversation from the second turn on.
func TestTheConversationOfAnAgentIsContinued(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var isWell atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Body["query"] == "s1 turn 3" && !isWell.Load() {
			http.Error(w, "boom", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"event":"message","conversation_id":"dify-7","answer":"answer to %s"}`, call.Body["query"])
	})
	b.startWorker(t, 2)
	taskID, launchID := b.task(t, fake.URL, 0, conversations(1, 3, func(n *db.NewTask) {
		n.Items, n.Task.RunsPerItem, n.Task.UseStream, n.Task.Targets[0].Protocol = n.Items[1:], 1, false, "dify-chat"
	}))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.awaitEnd(t, taskID, 30*time.Second)
	isWell.Store(true)
	retry, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchRetry, db.Selection{},
		db.NewLaunch{Targets: dbtest.Limits(fake.URL)})
	require.NoError(t, err)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), retry))
	b.requireWhole(t, b.awaitEnd(t, taskID, 30*time.Second))
	var ids, users []any
	for _, call := range fake.Calls() {
		ids, users = append(ids, call.Body["conversation_id"]), append(users, call.Body["user"])
	}
	require.Equal(t, []any{"", "dify-7", "dify-7", "dify-7"}, ids)
	require.Len(t, slices.Compact(users), 1, "a conversation belongs to the user that began it, also in a retry")
}
