package report

import (
	"context"
	"time"

	"wending/db"
	"wending/db/pg"
)

// ItemState is the progress of a question's runs.
type ItemState string

// The states of a question. All runs of a done or failed question are recorded; if it is failed, at least one has no
// answer. A running question has a call in progress. All others are waiting.
const (
	ItemWaiting ItemState = "waiting"
	ItemRunning ItemState = "running"
	ItemDone    ItemState = "done"
	ItemFailed  ItemState = "failed"
)

// ItemStates lists all states, in the order in which questions pass through them.
var ItemStates = []ItemState{ItemWaiting, ItemRunning, ItemDone, ItemFailed}

// itemStates begins a statement by defining "item": every question of the task $1 with its state, from the first
// second of its first launch on. It reads mainly narrow tables; it reads runs only for questions that may have failed
// and, until they are assessed, for questions that no launch is asking. A unit names only the first turn that it
// asks; the later turns of its conversation are open until the unit reaches them.
const itemStates = `
	WITH asked AS ( -- the units of the active launch, by the question they begin with and how far they have got
		SELECT u.item_id, u.turns_done, count(*) FILTER (WHERE u.state <> 'DONE') AS open,
			count(*) FILTER (WHERE u.outcome <> 'SUCCEEDED' OR u.turns_failed > 0) AS failed,
			min(u.claimed_at) FILTER (WHERE u.state = 'RUNNING') AS since
		FROM launches l
		JOIN units u ON u.launch_id = l.id AND u.evaluator = 0
		WHERE l.task_id = $1 AND l.status IN ('PENDING', 'RUNNING', 'STOPPING')
		GROUP BY u.item_id, u.turns_done),
	work AS (
		SELECT item_id, sum(open) AS open, sum(failed) AS failed, min(since) AS since
		FROM (
			SELECT a.item_id, a.open, a.failed, a.since
			FROM asked a
			JOIN evaluation_items head ON head.id = a.item_id AND head.series IS NULL
			UNION ALL
			SELECT own.id, CASE WHEN own.turn >= head.turn + a.turns_done THEN a.open ELSE 0 END, a.failed,
				CASE WHEN own.turn = head.turn + a.turns_done THEN a.since END
			FROM asked a
			JOIN evaluation_items head ON head.id = a.item_id
			JOIN evaluation_items own ON own.task_id = head.task_id AND own.series = head.series AND own.turn >= head.turn) turns
		GROUP BY item_id),
	assessed AS (
		SELECT q.item_id, max(q.runs) AS runs, bool_or(q.letters LIKE '%-%') AS lacks
		FROM evaluation_items i
		JOIN question_statistics q ON q.item_id = i.id
		WHERE i.task_id = $1
		GROUP BY q.item_id),
	item AS (
		SELECT i.id, i.sort_key, i.question_id, i.question, known.runs_done, planned.runs AS runs_expected,
		w.since AS running_since,
			row_number() OVER (ORDER BY i.sort_key) AS number,
			CASE
				WHEN w.since IS NOT NULL THEN 'running'
				WHEN known.runs_done < planned.runs THEN 'waiting'
				WHEN w.failed > 0 AND i.series IS NULL THEN 'failed'
				WHEN NOT coalesce(w.failed > 0 OR a.lacks, true) THEN 'done'
				WHEN EXISTS (SELECT FROM evaluation_runs r WHERE r.item_id = i.id AND r.is_current AND r.status <> 'SUCCEEDED')
				THEN 'failed'
				ELSE 'done'
			END AS state
		FROM evaluation_items i
		LEFT JOIN work w ON w.item_id = i.id
		LEFT JOIN assessed a ON a.item_id = i.id
		LEFT JOIN LATERAL (
			SELECT count(*) AS runs FROM evaluation_runs r WHERE r.item_id = i.id AND r.is_current) counted
			ON w.item_id IS NULL AND a.item_id IS NULL AND $2
		JOIN evaluation_tasks t ON t.id = i.task_id
		CROSS JOIN LATERAL (SELECT CAST(` + db.RunsOfItem + ` AS int) AS runs) planned
		CROSS JOIN LATERAL (SELECT CAST(coalesce(planned.runs - w.open, a.runs, counted.runs, 0) AS int) AS runs_done) known
		WHERE i.task_id = $1)`

// Board is a compact form of the states of all questions of a task: 100,000 questions take 100 kB.
type Board struct{ letters string }

// boardLetters are the letters of the states in a Board, in the order of ItemStates.
const boardLetters = "wrdf"

// Len returns the number of questions.
func (b Board) Len() int { return len(b.letters) }

// State returns the state of the question with the given number, from 1 to Len.
func (b Board) State(number int) ItemState {
	for n := range boardLetters {
		if boardLetters[n] == b.letters[number-1] {
			return ItemStates[n]
		}
	}
	return ItemWaiting
}

// Counts returns how many questions have each state.
func (b Board) Counts() map[ItemState]int {
	counts := map[ItemState]int{}
	for number := range b.Len() {
		counts[b.State(number+1)]++
	}
	return counts
}

// Board returns the states of all questions of a task.
func (m Monitor) Board(ctx context.Context, task db.Task) (board Board, err error) {
	const read = itemStates + `
		SELECT coalesce(string_agg(left(state, 1), '' ORDER BY number), '') FROM item`
	err = m.db.GetContext(ctx, &board.letters, read, task.ID, task.HasResults)
	return board, pg.Classify("read the states of the questions", err)
}

// ItemProgress is the progress of one question.
type ItemProgress struct {
	// Number is the question's number, from 1, in the order in which pages list the questions.
	Number     int       `db:"number"`
	QuestionID string    `db:"question_id"`
	Question   string    `db:"question"`
	State      ItemState `db:"state"`
	RunsDone   int       `db:"runs_done"`
	// RunsExpected is the number of runs planned for the question so far.
	RunsExpected int `db:"runs_expected"`
	// RunningSince is when the oldest of its calls in progress was claimed; nil if there is none.
	RunningSince *time.Time `db:"running_since"`
}

// ItemFilter selects questions; its zero value selects all.
type ItemFilter struct {
	State ItemState
	// Query is searched for in the questions' ids and texts, ignoring case; the id of a run in traces also finds its
	// question.
	Query string
}

// Items returns one page of a task's questions, in the order of their numbers, and how many match the filter.
func (m Monitor) Items(ctx context.Context, task db.Task, filter ItemFilter,
	page db.Page) (items []ItemProgress, total int, err error) {
	const where = `
		FROM item
		WHERE ($3 = '' OR state = $3) AND ($4 = '' OR question_id ILIKE $4 OR question ILIKE $4 OR EXISTS (
			SELECT FROM evaluation_runs r WHERE r.item_id = item.id AND r.is_current AND (r.trace_id = lower($5)
			OR r.agent_trace_id = $5)))`
	const count = itemStates + `
		SELECT count(*)` + where
	const list = itemStates + `
		SELECT number, question_id, question, state, runs_done, runs_expected, running_since` + where + `
		ORDER BY number
		LIMIT $6 OFFSET $7`
	arguments := []any{task.ID, task.HasResults, filter.State, pg.Containing(filter.Query), filter.Query}
	if err := m.db.GetContext(ctx, &total, count, arguments...); err != nil {
		return nil, 0, pg.Classify("count the questions", err)
	}
	err = m.db.SelectContext(ctx, &items, list, append(arguments, page.Size, page.Offset())...)
	return items, total, pg.Classify("read the questions' progress", err)
}
