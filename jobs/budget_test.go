package jobs_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/jobs"
	"wending/jobs/tasks"
)

// priced gives a task a ceiling, and a price of 0.001 for each input token.
func priced(ceiling string, change func(*db.NewTask)) func(*db.NewTask) {
	return func(n *db.NewTask) {
		in, out, currency := "1000", "0", "CNY"
		n.Task.Targets[0].InputPrice, n.Task.Targets[0].OutputPrice, n.Task.Targets[0].Currency = &in, &out, &currency
		if ceiling != "" {
			n.Task.MaxCost = &ceiling
		}
		if change != nil {
			change(n)
		}
	}
}

// told is a log that can be read while it is being written.
type told struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *told) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// Two processes enforce budgets while two others claim. However their rounds interleave, the ceiling is exceeded by at
// most the amount by which one call costs more than average, the launch is stopped once, and its channel is
// notified once.
func TestTwoKeepersPassACeilingByNoMoreThanOneCallsSurprise(t *testing.T) {
	t.Parallel()
	database, redis := dbtest.URL(t), dbtest.Redis(t)
	b, other := newBenchAt(t, database, redis), newBenchAt(t, database, redis)
	_, err := b.tables.Exec(
		`INSERT INTO channels (id, name, kind, events, lang, is_default) VALUES (gen_random_uuid(), 'c', 'webhook', '{stopped,failed,finished}', 'zh-CN', true)`)
	require.NoError(t, err)
	const usual, surprise = 10, 90 // tokens
	taskID, launchID := b.task(t, "http://127.0.0.1:9", 100, priced("0.5", nil))
	log := &told{}
	keepers := []*jobs.Budget{}
	for _, store := range []*db.Store{b.store, other.store} {
		keepers = append(keepers, &jobs.Budget{Store: store, Log: slog.New(slog.NewTextHandler(log, nil))})
	}
	isAdmitted, err := keepers[0].Admits(t.Context(), launchID)
	require.NoError(t, err)
	require.True(t, isAdmitted)
	_, err = b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)

	isActive := func() bool {
		task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
		return err == nil && task.Status.IsActive()
	}
	var all sync.WaitGroup
	failures := make(chan error, 1)
	note := func(err error) {
		if err != nil {
			select {
			case failures <- err:
			default:
			}
		}
	}
	for _, keeper := range keepers {
		all.Go(func() {
			for isActive() && len(failures) == 0 {
				note(keeper.Watch(t.Context()))
			}
		})
	}
	var mu sync.Mutex
	calls := 0
	for _, claimer := range []*bench{b, other} {
		worker := uuid.New()
		call, err := claimer.store.LaunchCall(t.Context(), launchID)
		require.NoError(t, err)
		lease := claimer.beat(t, worker)
		all.Go(func() {
			recorder := engine.NewRecorder(claimer.store)
			for isActive() && len(failures) == 0 {
				claim, err := claimer.store.ClaimUnits(t.Context(), call, lease, wants(8))
				note(err)
				for _, unit := range claim.Units {
					mu.Lock()
					calls++
					input, output := usual, 0
					if calls == 25 {
						input = surprise
					}
					mu.Unlock()
					_, err := recorder.Record(t.Context(), taskID,
						[]engine.Result{{Unit: unit, Status: db.RunSucceeded, Response: []byte("a"), AnswerKey: []byte("a"), Attempts: 1,
							InputTokens: &input, OutputTokens: &output, TotalTokens: &input}})
					note(err)
				}
				_, err = tasks.FinishLaunch(t.Context(), claimer.store, launchID)
				note(err)
			}
		})
	}
	all.Wait()
	close(failures)
	require.NoError(t, <-failures)
	task := b.awaitEnd(t, taskID, 10*time.Second)
	require.Equal(t, db.TaskStopped, task.Status)
	require.Equal(t, engine.ReasonTask, *task.StopReason)
	var spent struct {
		Cost    decimal.Decimal `db:"cost"`
		Dearest decimal.Decimal `db:"dearest"`
		Mean    decimal.Decimal `db:"mean"`
		Told    int             `db:"told"`
	}
	require.NoError(t, b.tables.Get(&spent, `SELECT sum(cost) AS cost, max(cost) AS dearest, avg(cost) AS mean,
		(SELECT count(*) FROM deliveries WHERE launch_id = $2) AS told FROM evaluation_runs
		WHERE task_id = $1`, taskID, launchID))
	ceiling := decimal.RequireFromString("0.5")
	require.True(t, spent.Cost.LessThanOrEqual(ceiling.Add(spent.Dearest).Sub(decimal.RequireFromString("0.01"))),
		"spent %s", spent.Cost)
	require.True(t, spent.Cost.Add(spent.Mean).GreaterThan(ceiling), "%s are spent, and one more call fits", spent.Cost)
	require.Equal(t, 1, spent.Told, "messages")
	require.Equal(t, 1, log.count("launch stopped at its budget"), "stops")
}

// A keeper that read the standings before another launch began must not undo the decision of the other launch's
// keeper.
func TestAKeeperWaitsForAnothersDecision(t *testing.T) {
	t.Parallel()
	database, redis := dbtest.URL(t), dbtest.Redis(t)
	b, other := newBenchAt(t, database, redis), newBenchAt(t, database, redis)
	_, first := b.task(t, "http://127.0.0.1:9", 10, priced("0.5", nil))
	decides, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		_, _, err := engine.NewSpending(b.store).Keep(t.Context(), "", func(standings []engine.Standing) engine.Verdict {
			close(decides)
			select {
			case <-goOn:
			case <-t.Context().Done():
			}
			return jobs.Allow(standings)
		})
		done <- err
	}()
	<-decides
	_, second := b.task(t, "http://127.0.0.1:9", 10, priced("0.5", nil))
	keeper := &jobs.Budget{Store: other.store, Log: slog.New(slog.DiscardHandler)}
	go func() {
		_, err := keeper.Admits(t.Context(), second)
		done <- err
	}()
	dbtest.Await(t, 10*time.Second, "the second keeper waits for the first", func() bool {
		var waiting int
		require.NoError(t, b.tables.Get(&waiting,
			`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`))
		return waiting == 1
	})
	close(goOn)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	var limited []uuid.UUID
	require.NoError(t, b.tables.Select(&limited, `SELECT launch_id FROM allowances`))
	require.ElementsMatch(t, []uuid.UUID{first, second}, limited, "launches that have an allowance")
}

// The first turn of a conversation does not show what the conversation costs: a budget that took it for a whole unit
// would let too many conversations begin.
func TestAConversationHasACostOnlyOnceItHasEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const turns = 3
	taskID, launchID := b.task(t, "http://127.0.0.1:9", 0, priced("1", conversations(2, turns, func(n *db.NewTask) {
		n.Items, n.Task.RunsPerItem = n.Items[1:], 1
	})))
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	unit := b.claim(t, launchID, b.beat(t, uuid.New()), 1)[0]
	keep := func() (of engine.Standing) {
		_, _, err := engine.NewSpending(b.store).Keep(t.Context(), "", func(found []engine.Standing) engine.Verdict {
			of = found[0]
			return jobs.Allow(found)
		})
		require.NoError(t, err)
		return of
	}
	tokens := 10
	for n := range turns {
		of := keep()
		require.True(t, of.IsUnknown, "after %d turns", n)
		require.True(t, of.PerUnit.IsZero(), "after %d turns", n)
		turn, _, err := engine.NewConversations(b.store).Next(t.Context(), unit, 1000)
		require.NoError(t, err)
		unit.Item = turn.Item
		require.True(t, b.record(t, taskID, engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte("a"),
			AnswerKey: []byte("a"), Attempts: 1, InputTokens: &tokens, OutputTokens: new(int), TotalTokens: &tokens,
			Turn: &engine.Turn{Later: turn.Later}}))
	}
	of := keep()
	require.False(t, of.IsUnknown)
	require.Equal(t, "0.03", of.PerUnit.String())
	require.Equal(t, "0.97", of.Left.String())
}
