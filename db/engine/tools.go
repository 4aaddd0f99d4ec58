package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// ToolUse describes how the current runs of a task used a tool.
type ToolUse struct {
	Tool string `db:"tool"`
	// Calls counts all calls of the tool, Failed those that failed, and Runs the runs that made the calls.
	Calls  int `db:"calls"`
	Failed int `db:"failed"`
	Runs   int `db:"runs"`
	// P50 and P90 are percentiles of the calls' durations in milliseconds, and TotalMS is the sum of the durations; nil if
	// no call has ended.
	P50     *float64 `db:"p50"`
	P90     *float64 `db:"p90"`
	TotalMS *int64   `db:"total_ms"`
}

// PathDifference is a run whose path, which is the sequence of the tools that it called, differs from the most common
// path among the answered runs of the same question and variant. A failed run is left out if its path is the beginning
// of the most common one.
type PathDifference struct {
	RunID      int64  `db:"run_id"`
	UnitID     int64  `db:"unit_id"`
	Number     int    `db:"number"`
	QuestionID string `db:"question_id"`
	Variant    int    `db:"variant"`
	RunIndex   int    `db:"run_index"`
	// Calls counts the run's tool calls, and UsualCalls the calls on the most common path.
	Calls      int `db:"calls"`
	UsualCalls int `db:"usual_calls"`
	// Step is the number, from 1, of the first call that differs: the run called Tool, but the most common path has
	// Usual there. Tool or Usual is empty if no further call followed.
	Step        int
	Tool, Usual string
	// AtMS is when the difference occurs, in milliseconds since the call's start.
	AtMS int
}

// ToolReport describes how a task used tools.
type ToolReport struct {
	Tools []ToolUse
	// Differing are the first runs with a different path, in the order of questions and runs; DifferingTotal is the
	// number of all such runs.
	Differing      []PathDifference
	DifferingTotal int
}

const (
	// mostTools and mostDiffering are the maximum numbers of tools and runs that are listed, and pathLength is how many
	// calls of each run are compared.
	mostTools, mostDiffering, pathLength = 200, 1000, 200
)

// ToolReport reads how the current runs of a task used tools, aggregated in the database: one row for each tool, and
// one for each run whose path differs.
func (j Journal) ToolReport(ctx context.Context, taskID uuid.UUID) (found ToolReport, err error) {
	const use = `
		SELECT t.tool, count(*) AS calls, count(*) FILTER (WHERE t.status = 'failed') AS failed, count(DISTINCT r.id) AS runs,
			percentile_cont(0.5) WITHIN GROUP (ORDER BY t.ended_ms - t.started_ms) AS p50,
			percentile_cont(0.9) WITHIN GROUP (ORDER BY t.ended_ms - t.started_ms) AS p90,
			sum(t.ended_ms - t.started_ms) AS total_ms
		FROM evaluation_runs r
		JOIN tool_executions t ON t.unit_id = r.unit_id AND t.epoch = r.epoch AND t.item_id = r.item_id
		WHERE r.task_id = $1 AND r.is_current
		GROUP BY t.tool
		ORDER BY calls DESC, t.tool
		LIMIT $2`
	if err := j.db.SelectContext(ctx, &found.Tools, use, taskID, mostTools); err != nil {
		return found, pg.Classify("read the use of tools", err)
	}
	if len(found.Tools) == 0 {
		return found, nil
	}
	found.Differing, found.DifferingTotal, err = j.pathDifferences(ctx, taskID, 0)
	return found, err
}

// ToolCall is one call of a tool by a current run of a task.
type ToolCall struct {
	UnitID   int64 `db:"unit_id"`
	Number   int   `db:"number"`
	Variant  int   `db:"variant"`
	RunIndex int   `db:"run_index"`
	// StartedMS is when the call started, in milliseconds since the start of the run; TookMS is nil if it never ended.
	StartedMS int  `db:"started_ms"`
	TookMS    *int `db:"took_ms"`
	HasFailed bool `db:"has_failed"`
}

// ToolCallFilter selects the calls of a tool: all of them, those that failed, or the first in each run.
type ToolCallFilter struct {
	Tool                  string
	OnlyFailed, OnlyFirst bool
}

// ToolCalls returns one page of the selected calls of a tool by a task's current runs, in the order of questions and
// runs, and how many there are.
func (j Journal) ToolCalls(ctx context.Context, taskID uuid.UUID, filter ToolCallFilter,
	page db.Page) (calls []ToolCall, total int, err error) {
	const read = `
		WITH numbered AS (
			SELECT id, row_number() OVER (ORDER BY sort_key) AS number
			FROM evaluation_items
			WHERE task_id = $1),
		called AS (
			SELECT r.unit_id, r.item_id, r.variant, r.run_index, t.number, t.started_ms, t.ended_ms - t.started_ms AS took_ms,
				coalesce(t.status = 'failed', false) AS has_failed,
				row_number() OVER (PARTITION BY r.id ORDER BY t.number) = 1 AS is_first
			FROM evaluation_runs r
			JOIN tool_executions t ON t.unit_id = r.unit_id AND t.epoch = r.epoch AND t.item_id = r.item_id
			WHERE r.task_id = $1 AND r.is_current AND t.tool = $2)
		SELECT c.unit_id, i.number, c.variant, c.run_index, c.started_ms, c.took_ms, c.has_failed, count(*) OVER () AS total
		FROM called c
		JOIN numbered i ON i.id = c.item_id
		WHERE (NOT $3 OR c.has_failed) AND (NOT $4 OR c.is_first)
		ORDER BY i.number, c.variant, c.run_index, c.number
		LIMIT $5 OFFSET $6`
	var rows []struct {
		ToolCall
		Total int `db:"total"`
	}
	err = j.db.SelectContext(ctx, &rows, read, taskID, filter.Tool, filter.OnlyFailed, filter.OnlyFirst, page.Size,
		page.Offset())
	if err != nil {
		return nil, 0, pg.Classify("read the calls of a tool", err)
	}
	for _, row := range rows {
		calls, total = append(calls, row.ToolCall), row.Total
	}
	return calls, total, nil
}

// PathDifferences returns the runs of one question whose path differs from the most common one.
func (j Journal) PathDifferences(ctx context.Context, taskID uuid.UUID, itemID int64) ([]PathDifference, error) {
	differing, _, err := j.pathDifferences(ctx, taskID, itemID)
	return differing, err
}

// pathDifferences reads the differing runs of one question of a task, or of all its questions if itemID is 0.
func (j Journal) pathDifferences(ctx context.Context, taskID uuid.UUID,
	itemID int64) (differing []PathDifference, total int, err error) {
	const read = `
		WITH called AS ( -- the current runs with the tools that they called
			SELECT r.id, r.status, r.unit_id, r.item_id, r.variant, r.run_index, r.latency_ms, count(t.number) AS calls,
				coalesce((array_agg(t.tool ORDER BY t.number) FILTER (WHERE t.number IS NOT NULL))[1:$3], '{}') AS path,
				coalesce((array_agg(t.started_ms ORDER BY t.number) FILTER (WHERE t.number IS NOT NULL))[1:$3], '{}') AS times
			FROM evaluation_runs r
			LEFT JOIN tool_executions t ON t.unit_id = r.unit_id AND t.epoch = r.epoch AND t.item_id = r.item_id
			WHERE r.task_id = $1 AND r.is_current AND ($2 = 0 OR r.item_id = $2)
			GROUP BY r.id),
		usual AS (
			SELECT DISTINCT ON (item_id, variant) item_id, variant, path, max(calls) AS calls
			FROM called
			GROUP BY item_id, variant, path
			ORDER BY item_id, variant, count(*) FILTER (WHERE status = 'SUCCEEDED') DESC, count(*) DESC, min(run_index)),
		numbered AS (
			SELECT id, question_id, row_number() OVER (ORDER BY sort_key) AS number
			FROM evaluation_items
			WHERE task_id = $1)
		SELECT c.id AS run_id, c.unit_id, i.number, i.question_id, c.variant, c.run_index, c.calls, u.calls AS usual_calls,
			c.path, c.times, u.path AS usual_path, coalesce(c.latency_ms, 0) AS latency_ms, count(*) OVER () AS total
		FROM called c
		JOIN usual u ON u.item_id = c.item_id AND u.variant = c.variant AND u.path <> c.path
			-- a failed run does not differ if its path is the beginning of the usual one
			AND (c.status = 'SUCCEEDED' OR u.path[1 : cardinality(c.path)] <> c.path)
		JOIN numbered i ON i.id = c.item_id
		ORDER BY i.number, c.variant, c.run_index
		LIMIT $4`
	var rows []struct {
		PathDifference
		Path      pq.StringArray `db:"path"`
		UsualPath pq.StringArray `db:"usual_path"`
		Times     pq.Int64Array  `db:"times"`
		LatencyMS int            `db:"latency_ms"`
		Total     int            `db:"total"`
	}
	if err := j.db.SelectContext(ctx, &rows, read, taskID, itemID, pathLength, mostDiffering); err != nil {
		return nil, 0, pg.Classify("compare the paths of runs", err)
	}
	for _, row := range rows {
		one := row.PathDifference
		place := 0
		for place < min(len(row.Path), len(row.UsualPath)) && row.Path[place] == row.UsualPath[place] {
			place++
		}
		one.Step, one.AtMS = place+1, row.LatencyMS
		if place < len(row.Path) {
			one.Tool, one.AtMS = row.Path[place], int(row.Times[place])
		}
		if place < len(row.UsualPath) {
			one.Usual = row.UsualPath[place]
		}
		differing, total = append(differing, one), row.Total
	}
	return differing, total, nil
}

// ToolReports reads how tasks used tools, and caches the most recently requested reports of tasks that have ended.
type ToolReports struct {
	journal Journal
	mu      sync.Mutex
	kept    []keptReport // the newest last
}

type keptReport struct {
	taskID  uuid.UUID
	endedAt time.Time
	report  ToolReport
}

// keptReports is how many reports are cached, each of at most about 200 KB.
const keptReports = 32

// settled is how long after a task's end its last events may still be stored.
const settled = time.Minute

// NewToolReports returns the ToolReports of a store.
func NewToolReports(store *db.Store) *ToolReports { return &ToolReports{journal: NewJournal(store)} }

// Of returns the report of a task.
func (r *ToolReports) Of(ctx context.Context, task db.Task) (ToolReport, error) {
	hasEnded := !task.Status.IsActive() && task.CompletedAt != nil && time.Since(*task.CompletedAt) > settled
	if hasEnded {
		if kept, isKept := r.find(task); isKept {
			return kept, nil
		}
	}
	report, err := r.journal.ToolReport(ctx, task.ID)
	if err == nil && hasEnded {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kept = slices.DeleteFunc(r.kept, func(one keptReport) bool { return one.taskID == task.ID })
		r.kept = append(r.kept, keptReport{task.ID, *task.CompletedAt, report})
		r.kept = r.kept[max(0, len(r.kept)-keptReports):]
	}
	return report, err
}

func (r *ToolReports) find(task db.Task) (ToolReport, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.kept {
		if one.taskID == task.ID && one.endedAt.Equal(*task.CompletedAt) {
			return one.report, true
		}
	}
	return ToolReport{}, false
}
