package handlers_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/report"
	"wending/jobs/agent/agenttest"
)

type itemState struct {
	Number       int
	QuestionID   string `json:"question_id"`
	State        string
	RunsDone     int        `json:"runs_done"`
	RunsExpected int        `json:"runs_expected"`
	RunningSince *time.Time `json:"running_since"`
}

// states lists a task's questions as the API describes them, and requires the board to agree.
func (s *site) states(t *testing.T, id, query string) (items []itemState) {
	t.Helper()
	var list struct {
		Items      []itemState
		Pagination struct{ Total int }
	}
	s.get(t, api+"/"+id+"/items"+query).into(t, &list)
	require.Len(t, list.Items, list.Pagination.Total)
	return list.Items
}

// leashed returns an agent whose calls wait until the test lets them answer or fail.
func leashed(t *testing.T) (fake *agenttest.Agent, goOn chan<- bool) {
	t.Helper()
	leash := make(chan bool)
	return agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		select {
		case isWell := <-leash:
			if isWell {
				agenttest.Stream(w, "answer")
				return
			}
		case <-call.Abandoned: // released by a stop, or because the test failed
		}
		http.Error(w, "down", http.StatusBadGateway)
	}), leash
}

// brief formats each question's state as a line, such as "1 waiting 0/2".
func brief(items []itemState) (lines []string) {
	for _, one := range items {
		lines = append(lines, fmt.Sprintf("%d %s %d/%d", one.Number, one.State, one.RunsDone, one.RunsExpected))
	}
	return lines
}

// awaitStates waits until the questions of a task have the states in the lines.
func (s *site) awaitStates(t *testing.T, id, what string, lines []string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, lines, brief(s.states(t, id, "")), what)
	}, 2*time.Minute, 20*time.Millisecond)
}

func (s *site) board(t *testing.T, id string) (states []report.ItemState) {
	t.Helper()
	task, err := s.store.Task(t.Context(), db.AllProjects(), uuid.MustParse(id))
	require.NoError(t, err)
	board, err := report.NewMonitor(s.store).Board(t.Context(), task)
	require.NoError(t, err)
	for number := range board.Len() {
		states = append(states, board.State(number+1))
	}
	return states
}

// Every question has a state at any time: from the first second on, while it is asked, after a stop, and during a
// retry.
func TestEveryQuestionHasAStateFromTheFirstSecondOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake, goOn := leashed(t)
	id := s.create(t, fake.URL, map[string]string{
		"start": "false", "runs_per_item": "2", "concurrency": "1", "rate_limit": "unlimited", "timeout_seconds": "60",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,a\nq2,二,b\nq3,三,c\n",
	})
	await := func(what string, lines ...string) { t.Helper(); s.awaitStates(t, id, what, lines) }
	await("a draft", "1 waiting 0/2", "2 waiting 0/2", "3 waiting 0/2")
	s.act(t, id, "run")
	await("the first call", "1 running 0/2", "2 waiting 0/2", "3 waiting 0/2")
	require.WithinDuration(t, time.Now(), *s.states(t, id, "?state=running")[0].RunningSince, time.Minute)
	require.Equal(t, []string{"3 waiting 0/2"}, brief(s.states(t, id, "?query=三&state=waiting")))
	goOn <- true
	goOn <- false
	await("the second question", "1 failed 2/2", "2 running 0/2", "3 waiting 0/2")
	goOn <- true
	goOn <- true
	await("the third question", "1 failed 2/2", "2 done 2/2", "3 running 0/2")
	require.Equal(t, []report.ItemState{report.ItemFailed, report.ItemDone, report.ItemRunning}, s.board(t, id))
	s.act(t, id, "stop")
	for s.state(t, id).Status == "RUNNING" { // one or two calls had begun
		select {
		case goOn <- false:
		case <-time.After(20 * time.Millisecond):
		}
	}
	stopped := s.states(t, id, "")
	require.Equal(t, []string{"1 failed 2/2", "2 done 2/2"}, brief(stopped[:2]))
	require.Contains(t, []string{"3 waiting 1/2", "3 failed 2/2"}, brief(stopped)[2])
	require.Equal(t, stopped[2].State, string(s.board(t, id)[2]))

	// A retry repeats what failed and runs what was stopped; the rest keeps its state.
	s.act(t, id, "retry")
	await("the retry", "1 running 1/2", "2 done 2/2", "3 waiting 0/2")
	goOn <- true
	await("the stopped question", "1 done 2/2", "2 done 2/2", "3 running 0/2")
	goOn <- true
	goOn <- true
	s.awaitDone(t, id)
	await("the end", "1 done 2/2", "2 done 2/2", "3 done 2/2")
	require.Equal(t, http.StatusUnprocessableEntity, s.get(t, api+"/"+id+"/items?state=unknown").StatusCode)
}

// The turns of a conversation are asked one after another, and each has its own state.
func TestEachTurnHasItsOwnState(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake, goOn := leashed(t)
	id := s.create(t, fake.URL, map[string]string{
		"runs_per_item": "1", "concurrency": "1", "rate_limit": "unlimited", "timeout_seconds": "60",
		"file@q.csv": "question_id,question,standard_answer,series,turn\nq1,一,a,s,1\nq2,二,b,s,2\nq3,三,c,s,3\n",
	})
	await := func(what string, lines ...string) { t.Helper(); s.awaitStates(t, id, what, lines) }
	await("the first turn", "1 running 0/1", "2 waiting 0/1", "3 waiting 0/1")
	goOn <- true
	await("the second turn", "1 done 1/1", "2 running 0/1", "3 waiting 0/1")
	goOn <- false // the conversation ends
	s.awaitDone(t, id)
	await("the end", "1 done 1/1", "2 failed 1/1", "3 failed 1/1")
}
