package jobs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/engine"
	"wending/db/meaning"
	"wending/jobs/agent/agenttest"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// grouped gives a task a model, at this URL, that groups the task's answers.
func grouped(url string) func(*db.NewTask) {
	return func(n *db.NewTask) {
		judged(url, `{"model_id":"m"}`)(n)
		currency := "USD"
		n.Task.Judges[0].Currency = &currency
		n.Task.Evaluators, n.Task.RunsPerItem, n.Task.MeaningTarget = nil, 3, new(int)
		*n.Task.MeaningTarget = n.Task.Judges[0].Number
	}
}

// inTurn simulates an agent that gives its answers to each question one after another.
func inTurn(t testing.TB, answersTo func(question string) []string) *agenttest.Agent {
	t.Helper()
	var mu sync.Mutex
	asked := map[string]int{}
	return agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		mu.Lock()
		answers := answersTo(call.Question)
		next := answers[asked[call.Question]%len(answers)]
		asked[call.Question]++
		mu.Unlock()
		if next == "" {
			http.Error(w, "boom", http.StatusInternalServerError)
			return
		}
		agenttest.Stream(w, next)
	})
}

var shownAnswer = regexp.MustCompile(`(?s)Answer (\d+):\n<data-\w+>\n(.*?)\n</data-\w+>`)

// groupBy simulates a model that puts answers into one group if the function same returns the same text for them. It
// leaves out answers for which that text is empty.
func groupBy(same func(answer string) string) func(http.ResponseWriter, string) string {
	return func(_ http.ResponseWriter, prompt string) string {
		var groups [][]int
		var notes []string
		for _, match := range shownAnswer.FindAllStringSubmatch(prompt, -1) {
			key := same(match[2])
			if key == "" {
				continue
			}
			number := 0
			_, _ = fmt.Sscan(match[1], &number)
			at := slices.Index(notes, key)
			if at < 0 {
				at = len(notes)
				groups, notes = append(groups, nil), append(notes, key)
			}
			groups[at] = append(groups[at], number)
		}
		reply, _ := json.Marshal(map[string]any{"groups": groups, "notes": notes})
		return string(reply)
	}
}

// meaningRow holds the stored meanings of the answers to a question.
type meaningRow struct {
	Question  string         `db:"question_id"`
	Variant   int            `db:"variant"`
	Letters   string         `db:"letters"`
	By        *string        `db:"meaning_by"`
	Meaning   *string        `db:"meaning_letters"`
	Agreement *float64       `db:"meaning_agreement"`
	Unsure    pq.Int64Array  `db:"meaning_unsure"`
	Notes     pq.StringArray `db:"meaning_notes"`
	IsDefault *bool          `db:"is_default"`
	Code      *string        `db:"error_code"`
	Cost      *string        `db:"cost"`
}

func (b *bench) meanings(t testing.TB, taskID uuid.UUID) (found []meaningRow) {
	t.Helper()
	require.NoError(t, b.tables.Select(&found,
		`SELECT i.question_id, q.variant, q.letters, q.meaning_by, q.meaning_letters, q.meaning_agreement, q.meaning_unsure, q.meaning_notes,
			m.is_default, m.error_code, trim_scale(m.cost) AS cost
		FROM evaluation_items i JOIN question_statistics q ON q.item_id = i.id LEFT JOIN meanings m ON m.item_id = i.id
		AND m.is_current
		WHERE i.task_id = $1 ORDER BY i.question_id, q.variant`, taskID))
	return found
}

// sentences are answers with two meanings in three wordings.
func sentences(question string) []string {
	switch question {
	case "question 1":
		return []string{"可以退货。", "允许退货。", "请直接联系客服。"}
	case "question 2":
		return []string{"三十天", "**三十天**", "三十天。"}
	}
	return []string{"same"}
}

func byWord(answer string) string {
	if strings.Contains(answer, "退货") {
		return "能退"
	}
	return "找客服"
}

func TestAnswersAreGroupedInTheLaunchThatAskedForThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := inTurn(t, sentences)
	model := playJudge(t, groupBy(byWord))
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 3, grouped(model.URL))
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	require.Equal(t, db.TaskSucceeded, task.Status)
	require.Equal(t, 3, task.Processed)
	require.Len(t, model.Calls(), 1, "only a question whose answers differ by more than format")

	found := b.meanings(t, taskID)
	require.Equal(t, "model", *found[0].By)
	require.Equal(t, "ABC", sorted(found[0].Letters))
	require.Equal(t, "AAB", sorted(*found[0].Meaning))
	require.InDelta(t, 1.0/3, *found[0].Agreement, 1e-12)
	require.Equal(t, []string{"能退", "找客服"}, []string(found[0].Notes))
	require.Empty(t, found[0].Unsure)
	require.Equal(t, "0.00011", *found[0].Cost)
	for _, one := range found[1:] {
		require.Equal(t, "equal", *one.By)
		require.Equal(t, "AAA", *one.Meaning)
		require.Equal(t, 1.0, *one.Agreement)
	}
	statistics := b.statistics(t, taskID)
	require.Equal(t, 3, statistics.MeaningItems)
	require.InDelta(t, (1.0/3+2)/3, *statistics.MeaningAgreement, 1e-12)
	require.InDelta(t, 2.0/3, *statistics.MeaningIdenticalRate, 1e-12)
	require.Equal(t, []int{1, 0, 0, 0}, []int{statistics.MeaningCalls, statistics.MeaningErrors, statistics.MeaningMissing,
		statistics.MeaningUnsure})
	require.Equal(t, int64(110), *statistics.MeaningTokens)
	require.Zero(t, task.RunsLeft(db.LaunchRetry, statistics))
	launches, _, err := engine.NewHistory(b.store).Launches(t.Context(), taskID, db.Page{Number: 1, Size: 10})
	require.NoError(t, err)
	require.Equal(t, 1, launches[0].Statistics.MeaningQuestions)
	require.Equal(t, "0.00011", *launches[0].Statistics.MeaningCost)
	require.Zero(t, launches[0].Statistics.JudgeCalls)
	require.Equal(t, 10, launches[0].TotalUnits)
}

func sorted(letters string) string {
	all := []rune(letters)
	slices.Sort(all)
	return string(all)
}

// A task without a model can be grouped later, and again by another model; agents are not called.
func TestATaskThatEndedIsGrouped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := inTurn(t, sentences)
	sloppy := playJudge(t, groupBy(func(answer string) string { return answer }))
	good := playJudge(t, groupBy(byWord))
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 3, func(n *db.NewTask) { n.Task.RunsPerItem = 3 })
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.awaitEnd(t, taskID, 30*time.Second)
	for _, one := range b.meanings(t, taskID) {
		require.Nil(t, one.By, "nobody was asked to group")
	}
	require.Zero(t, b.statistics(t, taskID).MeaningItems)
	asked := len(fake.Calls())
	service := &tasks.Service{Store: b.store, Queue: b.queue, Sealer: b.sealer, RateCeiling: "unlimited",
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, one := range []struct {
		model *agenttest.Agent
		want  string
	}{{sloppy, "ABC"}, {good, "AAB"}} {
		task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
		require.NoError(t, err)
		name := "m"
		model := tasks.NewTarget{Target: db.Target{Kind: db.TargetModel, Protocol: "openai", Model: &name,
			RateLimit: "unlimited", RetryOn: []string{"network"}}, Secrets: tasks.Target{URL: one.model.URL}}
		running, err := service.Group(t.Context(), db.Actor{}, task, model)
		require.NoError(t, err)
		require.Equal(t, db.TaskRunning, running.Status)
		_, err = service.Group(t.Context(), db.Actor{}, running, model)
		require.ErrorIs(t, err, db.ErrConflict)
		task = b.awaitEnd(t, taskID, 30*time.Second)
		require.Equal(t, db.TaskSucceeded, task.Status)
		require.Len(t, one.model.Calls(), 1)
		found := b.meanings(t, taskID)
		require.Equal(t, one.want, sorted(*found[0].Meaning))
		require.Equal(t, "equal", *found[1].By)
		require.Equal(t, 3, b.statistics(t, taskID).MeaningItems)
	}
	require.Len(t, fake.Calls(), asked)
	var kept int
	require.NoError(t, b.tables.Get(&kept, `SELECT count(*) FROM meanings`))
	require.Equal(t, 2, kept, "what was replaced is kept")
}

// If a model gives no usable reply, the question has no grouping until a retry calls the model again. If a retried run
// repeats a known answer, its question is not grouped again.
func TestAGroupingThatFailedIsRepeatedByARetry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var isWell atomic.Bool
	fake := inTurn(t, func(question string) []string {
		if question == "question 3" {
			return []string{"可以退货。", "允许退货。", "", "允许退货。"} // the last answer comes from the retry
		}
		return []string{"可以退货 " + question, "允许退货 " + question, "请找客服 " + question}
	})
	model := playJudge(t, func(w http.ResponseWriter, prompt string) string {
		switch {
		case isWell.Load() || strings.Contains(prompt, "question 3"):
			return groupBy(byWord)(w, prompt)
		case strings.Contains(prompt, "question 1"):
			return "我不想回答"
		}
		http.Error(w, "boom", http.StatusBadGateway)
		return ""
	})
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 3, func(n *db.NewTask) {
		grouped(model.URL)(n)
		n.Task.Targets[0].RetryOn = []string{}
	})
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 30*time.Second)
	require.Equal(t, db.TaskSucceeded, task.Status)
	found := b.meanings(t, taskID)
	for n, code := range []string{"MEANING_UNREADABLE", "HTTP_502"} {
		require.Nil(t, found[n].By, "a default says nothing")
		require.True(t, *found[n].IsDefault)
		require.Equal(t, code, *found[n].Code)
	}
	require.Equal(t, "AA-", sorted2(*found[2].Meaning))
	require.Len(t, model.Calls(), 4, "the one that could not be read is asked twice")
	statistics := b.statistics(t, taskID)
	require.Equal(t, []int{2, 1, 0}, []int{statistics.MeaningErrors, statistics.MeaningItems, statistics.MeaningMissing})
	require.Equal(t, 3, task.RunsLeft(db.LaunchRetry, statistics), "a run and two groupings")

	isWell.Store(true)
	retry, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchRetry, db.Selection{},
		db.NewLaunch{Targets: []db.LaunchTarget{{Number: 1, Origin: fake.URL}, {Number: 2, Origin: model.URL}}})
	require.NoError(t, err)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), retry))
	b.awaitEnd(t, taskID, 30*time.Second)
	require.Len(t, model.Calls(), 6, "the third question's new answer is known")
	found = b.meanings(t, taskID)
	require.Equal(t, "AAA", *found[2].Meaning)
	require.Equal(t, "AAB", sorted(*found[0].Meaning))
	statistics = b.statistics(t, taskID)
	require.Equal(t, []int{0, 3, 0}, []int{statistics.MeaningErrors, statistics.MeaningItems, statistics.MeaningMissing})
}

// sorted2 sorts letters, with missing ones last.
func sorted2(letters string) string {
	return strings.ReplaceAll(sorted(strings.ReplaceAll(letters, "-", "~")), "~", "-")
}

// All variants of a question are grouped by one call, and share its letters.
func TestTheAnswersOfAllVariantsAreGroupedTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Query == "two" {
			agenttest.Stream(w, "请找客服")
			return
		}
		agenttest.Stream(w, "可以退货")
	})
	model := playJudge(t, groupBy(byWord))
	b.startWorker(t, 4)
	taskID, launchID := b.task(t, fake.URL, 1, func(n *db.NewTask) {
		grouped(model.URL)(n)
		second := n.Task.Targets[0]
		second.Number, second.URL = 2, fake.URL+"/?two"
		n.Task.Targets = append(n.Task.Targets, second)
		n.Task.Variants = append(n.Task.Variants, db.Variant{Number: 2, Target: 2, Name: "two"})
		n.Task.Judges[0].Number, *n.Task.MeaningTarget = 3, 3
		n.Launch.Targets = []db.LaunchTarget{{Number: 1, Origin: fake.URL}, {Number: 2, Origin: fake.URL},
			{Number: 3, Origin: model.URL}}
	})
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.awaitEnd(t, taskID, 30*time.Second)
	require.Len(t, model.Calls(), 1, "within a variant all answers are equal")
	found := b.meanings(t, taskID)
	require.Equal(t, []string{"AAA", "BBB"}, []string{*found[0].Meaning, *found[1].Meaning})
	require.Equal(t, 1.0, *found[1].Agreement)
}

// A unit that groups answers is like any other: if its worker dies, another worker runs it, and after a stop,
// resuming runs it. A unit that lost three workers ends.
func TestAGroupingSurvivesItsWorkerAndAStop(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	model := playJudge(t, groupBy(byWord))
	taskID, launchID := b.task(t, "http://127.0.0.1:9", 2, func(n *db.NewTask) {
		grouped(model.URL)(n)
		n.Task.RunsPerItem = 2
	})
	_, err := b.store.StartLaunch(t.Context(), launchID)
	require.NoError(t, err)
	worker := uuid.New()
	lease := b.beat(t, worker)
	for _, unit := range b.claim(t, launchID, lease, 4) {
		text := fmt.Sprintf("%d 可以退货", unit.RunIndex)
		require.True(t, b.record(t, taskID, engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte(text),
			AnswerKey: []byte(text), Attempts: 1}))
	}
	finished, err := tasks.FinishLaunch(t.Context(), b.store, launchID)
	require.NoError(t, err)
	require.False(t, finished, "the groupings are planned when the launch would end")
	call, err := b.store.LaunchCall(t.Context(), launchID)
	require.NoError(t, err)
	claim := func() []db.Unit {
		claim, err := b.store.ClaimUnits(t.Context(), call, b.beat(t, worker),
			[]db.Want{{Target: 2, Units: 1, Horizon: db.RateHorizon}})
		require.NoError(t, err)
		require.Len(t, claim.Units, 1)
		require.Equal(t, db.Grouping, claim.Units[0].Evaluator)
		return claim.Units
	}
	lose := func() {
		_, err = b.tables.Exec(`UPDATE workers SET beat_at = now() - interval '1 hour' WHERE id = $1`, worker)
		require.NoError(t, err)
		lost, err := b.store.RequeueLostUnits(t.Context(), evaluate.JudgeUnrated)
		require.NoError(t, err)
		require.Equal(t, 1, lost)
	}
	said := engine.Result{Unit: claim()[0], Grouping: &engine.Grouping{
		Grouping: meaning.Grouping{Keys: pq.ByteaArray{[]byte("1 可以退货"), []byte("2 可以退货")}, Groups: pq.Int64Array{0, 0},
			Unsure: pq.BoolArray{false, true}, Notes: pq.StringArray{"能退"}}, Calls: 1,
	}}
	lose()
	require.False(t, b.record(t, taskID, said), "another worker's by now")
	said.Unit = claim()[0]
	require.True(t, b.record(t, taskID, said))
	require.True(t, b.record(t, taskID, said), "a grouping whose reply was lost is recorded again")
	found := b.meanings(t, taskID)
	require.Equal(t, "AA", *found[0].Meaning)
	require.Equal(t, pq.Int64Array{2}, found[0].Unsure)

	_, err = b.store.StopTask(t.Context(), db.AllProjects(), taskID, db.Actor{})
	require.NoError(t, err)
	finished, err = tasks.FinishLaunch(t.Context(), b.store, launchID)
	require.NoError(t, err)
	require.True(t, finished)
	task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
	require.NoError(t, err)
	require.Equal(t, db.TaskStopped, task.Status)
	require.Equal(t, 1, b.statistics(t, taskID).MeaningMissing)
	require.Equal(t, 1, task.RunsLeft(db.LaunchResume, b.statistics(t, taskID)))

	resumed, err := b.store.RequestLaunch(t.Context(), db.AllProjects(), taskID, db.LaunchResume, db.Selection{},
		db.NewLaunch{Targets: []db.LaunchTarget{{Number: 2, Origin: model.URL}}})
	require.NoError(t, err)
	units, err := b.store.StartLaunch(t.Context(), resumed)
	require.NoError(t, err)
	require.Equal(t, 1, units)
	call, err = b.store.LaunchCall(t.Context(), resumed)
	require.NoError(t, err)
	for range 3 {
		claim()
		lose()
	}
	finished, err = tasks.FinishLaunch(t.Context(), b.store, resumed)
	require.NoError(t, err)
	require.True(t, finished)
	found = b.meanings(t, taskID)
	require.Nil(t, found[1].By)
	require.Equal(t, db.WorkerLostCode, *found[1].Code)
	require.Equal(t, 1, b.statistics(t, taskID).MeaningErrors)
}
