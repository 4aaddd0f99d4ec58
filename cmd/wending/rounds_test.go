package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
)

// stepsOfARound returns the points at which a process can die while it adds a round: before each statement, before the
// commit, and after the commit but before the process learns of it. Each trap springs only while a round is due; those
// with isAtEnd spring only when no unit of the launch is left. The step before such a one loses a round, so that one is
// missing at the end, even if the launch had already come to its end once.
func stepsOfARound(kill func()) []struct {
	name    string
	trap    dbtest.Trap
	isAtEnd bool
} {
	const looksForDue, locks, isOver = "AS given (id)", "AS quota", "SELECT t.adaptive IS NOT NULL AND NOT EXISTS"
	die := dbtest.Trap{Words: "COMMIT", Act: kill}
	dieAfter := dbtest.Trap{Words: "COMMIT", Act: kill, Pass: true}
	last := dbtest.Trap{Words: roundWords, Next: &die}
	return []struct {
		name    string
		trap    dbtest.Trap
		isAtEnd bool
	}{
		{"before the worker looks for questions that are due", dbtest.Trap{Words: looksForDue, Act: kill}, false},
		{"before the launch is locked", dbtest.Trap{Words: locks, Act: kill}, false},
		{"before the units are created", dbtest.Trap{Words: roundWords, Act: kill}, false},
		{"after the commit", dbtest.Trap{Words: roundWords, Next: &dieAfter}, false},
		{"between the units and the commit", dbtest.Trap{Words: roundWords, Next: &die}, false},
		{"while the missed rounds are added at the end", dbtest.Trap{Words: isOver, Next: &last}, true},
	}
}

// A process that dies at any step of adding a round neither loses nor duplicates a unit, whether of single questions or
// of conversations.
func TestAKillWhileARoundIsAddedLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each death takes as long as others need to notice it")
	}
	const questions, conversations, turns, most = 12, 4, 2, 12
	a := newArena(t, 1, 4, 20*time.Millisecond)
	a.agent.isWell.Store(true)
	var dataset strings.Builder
	dataset.WriteString("question,standard_answer,series,turn\n")
	for n := range questions {
		fmt.Fprintf(&dataset, "question %d,answer,,\n", n)
	}
	for n := range conversations {
		for turn := range turns {
			fmt.Fprintf(&dataset, "s%d turn %d,answer,s%d,%d\n", n, turn+1, n, turn+1)
		}
	}
	id := createTask(t, a.web.url(), map[string]string{
		"task_name": "rounds", "agent_api_url": a.agent.URL, "max_retries": "0", "concurrency": "4", "runs_per_item": "2",
		"adaptive": fmt.Sprintf(`{"max_runs": %d, "confidence": 0.95}`, most),
	}, dataset.String())
	worker := a.workers[0]
	for _, step := range stepsOfARound(func() { worker.signal(syscall.SIGKILL) }) {
		if !step.isAtEnd { // the end may come with the last of these units, and it comes with missed rounds only once
			// A unit that loses three workers fails, and what a death has put back is claimed first.
			dbtest.Await(t, time.Minute, "the units of the last death are done", func() bool {
				var lost int
				require.NoError(t, a.tables.Get(&lost,
					`SELECT count(*) FROM units WHERE losses > 0 AND state IN ('QUEUED', 'RUNNING')`))
				return lost == 0
			})
		}
		require.True(t, worker.proxy.Spring(step.trap, 5*time.Minute), "a death "+step.name)
		a.note(step.name, 1)
		require.Equal(t, db.TaskRunning, a.status(id), step.name)
	}
	a.awaitEnds(2*time.Minute, id)
	require.Equal(t, db.TaskSucceeded, a.status(id))
	require.EqualValues(t, len(a.faults)+1, worker.starts.Load(), "every death was one")

	const asked = (questions + conversations*turns) * most
	var units struct{ Units, Places, Done, Planned, Extra, Total int }
	require.NoError(t, a.tables.Get(&units, `
		SELECT (SELECT count(*) FROM units) AS units,
			(SELECT count(*) FROM (SELECT DISTINCT item_id, variant, run_index FROM units) places) AS places,
			(SELECT count(*) FROM units WHERE state = 'DONE') AS done,
			(SELECT count(*) FROM planned_runs WHERE runs = $1) AS planned,
			(SELECT extra_runs FROM evaluation_tasks) AS extra, (SELECT sum(total_units) FROM launches) AS total`, most))
	const whole = (questions + conversations) * most
	require.Equal(t, whole, units.Units)
	require.Equal(t, whole, units.Places)
	require.Equal(t, whole, units.Done)
	require.Equal(t, questions+conversations*turns, units.Planned)
	require.Equal(t, asked-(questions+conversations*turns)*2, units.Extra)
	require.Equal(t, asked, units.Total)
	a.requireExact([]string{id})
	var failed []string
	require.NoError(t, a.tables.Select(&failed, `SELECT coalesce(error_code, status) FROM evaluation_runs
		WHERE is_current AND status <> 'SUCCEEDED'`))
	require.Empty(t, failed)
	require.Equal(t, asked, task(t, a.web.url(), id).Statistics.Succeeded)
	require.Equal(t, http.StatusConflict, a.act(id, "resume"), "nothing is left to run")
	t.Logf("%d deaths: %v", a.faultCount(), a.faults)
}
