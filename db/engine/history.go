package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// History reads past launches and their runs.
type History struct {
	store *db.Store
	db    *pg.Pool
}

// NewHistory returns the History of a store.
func NewHistory(store *db.Store) History { return History{store, store.Pool()} }

// PastLaunch is one launch of a task, as the task's history shows it.
type PastLaunch struct {
	ID     uuid.UUID       `db:"id"`
	Number int             `db:"number"`
	Kind   db.LaunchKind   `db:"kind"`
	Status db.LaunchStatus `db:"status"`
	// QuestionID identifies the one question that was retried, with its number (from 1, in the order in which pages list
	// the questions) and text; nil means that all questions were.
	QuestionID     *string `db:"question_id"`
	QuestionNumber *int    `db:"question_number"`
	Question       *string `db:"question"`
	RequestedBy    string  `db:"requested_by"`
	RequestedVia   string  `db:"requested_via"`
	StoppedBy      string  `db:"stopped_by"`
	TotalUnits     int     `db:"total_units"`
	// Variant is the number of the one variant that was retried; nil means that all variants were.
	Variant    *int       `db:"variant"`
	CreatedAt  time.Time  `db:"created_at"`
	StartedAt  *time.Time `db:"started_at"`
	FinishedAt *time.Time `db:"finished_at"`
	// Statistics cover the launch's own runs; while the launch is active they are live.
	Statistics db.LaunchStatistics `db:"-"`
}

// listLaunches lists the launch $2 of the task $1, or all launches of the task if $2 is NULL. Statistics of EVALUATE
// launches that earlier versions stored are read as NULL, because they lack the judges' work.
const listLaunches = `
	SELECT l.id, l.number, l.kind, l.status, i.question_id, i.question, l.variant, l.requested_by, l.requested_via,
	l.stopped_by, l.total_units,
		l.created_at, l.started_at, l.finished_at,
		CASE WHEN l.kind <> 'EVALUATE' OR l.statistics -> 'judge_calls' IS NOT NULL THEN l.statistics END AS statistics,
		CASE WHEN i.id IS NOT NULL THEN (
			SELECT count(*) FROM evaluation_items WHERE task_id = l.task_id AND sort_key <= i.sort_key) END AS question_number
	FROM launches l
	LEFT JOIN evaluation_items i ON i.id = l.item_id
	WHERE l.task_id = $1 AND ($2::uuid IS NULL OR l.id = $2)
	ORDER BY l.number DESC
	LIMIT $3 OFFSET $4`

type launchRow struct {
	PastLaunch
	Stored *db.LaunchStatistics `db:"statistics"`
}

// Launches returns one page of a task's launches, newest first, and how many there are.
func (h History) Launches(ctx context.Context, taskID uuid.UUID,
	page db.Page) (launches []PastLaunch, total int, err error) {
	if launches, err = h.readLaunches(ctx, taskID, nil, page); err != nil {
		return nil, 0, err
	}
	if page.Number == 1 && len(launches) < page.Size { // nearly every task has no more than one page
		return launches, len(launches), nil
	}
	err = h.db.GetContext(ctx, &total, `SELECT count(*) FROM launches WHERE task_id = $1`, taskID)
	return launches, total, pg.Classify("count the launches", err)
}

// Launch returns one launch of a task, or db.ErrNotFound.
func (h History) Launch(ctx context.Context, taskID, id uuid.UUID) (PastLaunch, error) {
	launches, err := h.readLaunches(ctx, taskID, &id, db.Page{Number: 1, Size: 1})
	if err == nil && len(launches) == 0 {
		err = &db.NotFoundError{Kind: db.KindLaunch}
	}
	if err != nil {
		return PastLaunch{}, err
	}
	return launches[0], nil
}

func (h History) readLaunches(ctx context.Context, taskID uuid.UUID, id *uuid.UUID,
	page db.Page) ([]PastLaunch, error) {
	var rows []launchRow
	if err := h.db.SelectContext(ctx, &rows, listLaunches, taskID, id, page.Size, page.Offset()); err != nil {
		return nil, pg.Classify("read the launches", err)
	}
	launches := make([]PastLaunch, len(rows))
	for n, row := range rows {
		launches[n] = row.PastLaunch
		if row.Stored != nil {
			launches[n].Statistics = *row.Stored
			continue
		}
		var err error
		if launches[n].Statistics, err = h.store.LaunchStatistics(ctx, row.ID); err != nil {
			return nil, err
		}
	}
	return launches, nil
}

// PastRun is a run as the history of its launch shows it.
type PastRun struct {
	db.WholeRun
	// IsCurrent reports that no later launch has repeated the run.
	IsCurrent bool `db:"is_current"`
}

// RunFilter selects runs of a launch; its zero value selects all.
type RunFilter struct {
	// Succeeded selects by the outcome; nil means any.
	Succeeded *bool
	// Since (inclusive) and Until (exclusive) limit the time at which the runs ended.
	Since, Until *time.Time
}

// IsZero reports whether the filter selects all runs.
func (f RunFilter) IsZero() bool { return f == RunFilter{} }

const selectedLaunchRuns = `
	WHERE r.launch_id = $1 AND ($2::boolean IS NULL OR (r.status = 'SUCCEEDED') = $2)
	AND ($3::timestamptz IS NULL OR r.created_at >= $3) AND ($4::timestamptz IS NULL OR r.created_at < $4)`

const countLaunchRuns = `SELECT count(*) FROM evaluation_runs r` + selectedLaunchRuns

const listLaunchRuns = `
	SELECT ` + db.RunColumns + `, r.is_current, left(r.response_body, $5) AS response_body,
		i.question_id, i.question, i.series, i.turn
	FROM evaluation_runs r
	JOIN evaluation_items i ON i.id = r.item_id` + selectedLaunchRuns + `
	ORDER BY r.id -- runs are listed in the order in which they ended
	LIMIT $6 OFFSET $7`

// Runs returns one page of the selected runs of a launch in the order in which they ended, with at most limit
// characters of each response, and how many there are. Runs that a later launch replaced are listed as long as their
// history is kept.
func (h History) Runs(ctx context.Context, launchID uuid.UUID, filter RunFilter, limit int,
	page db.Page) (runs []PastRun, total int, err error) {
	selected := []any{launchID, filter.Succeeded, filter.Since, filter.Until}
	if err := h.db.GetContext(ctx, &total, countLaunchRuns, selected...); err != nil {
		return nil, 0, pg.Classify("count the launch's runs", err)
	}
	err = h.db.SelectContext(ctx, &runs, listLaunchRuns, append(selected, limit, page.Size, page.Offset())...)
	return runs, total, pg.Classify("list the launch's runs", err)
}

// Repeat is a run of a question that some launch of its task made.
type Repeat struct {
	ID       int64 `db:"id"`
	RunIndex int   `db:"run_index"`
	// Launch is the number of the launch, from 1.
	Launch    int          `db:"launch"`
	Status    db.RunStatus `db:"status"`
	ErrorCode *string      `db:"error_code"`
	LatencyMS *int         `db:"latency_ms"`
	Attempts  int          `db:"attempts"`
	CreatedAt time.Time    `db:"created_at"`
	// IsCurrent reports that no later launch has repeated the run.
	IsCurrent bool `db:"is_current"`
}

const listRepeats = `
	SELECT r.id, r.run_index, l.number AS launch, r.status, r.error_code, r.latency_ms, r.attempts, r.created_at,
	r.is_current
	FROM (
		SELECT * FROM evaluation_runs WHERE item_id = $1 AND variant = $2 AND is_current
		UNION ALL
		SELECT * FROM evaluation_runs WHERE item_id = $1 AND variant = $2 AND NOT is_current) r
	JOIN launches l ON l.id = r.launch_id
	ORDER BY l.number DESC, r.run_index
	LIMIT $3`

// maxRepeats is the maximum number of runs that Repeats returns.
const maxRepeats = 200

// Repeats returns the runs of a question in one variant over all launches, the newest launch first, and at most
// maxRepeats of them.
func (h History) Repeats(ctx context.Context, itemID int64, variant int) (repeats []Repeat, err error) {
	err = h.db.SelectContext(ctx, &repeats, listRepeats, itemID, variant, maxRepeats)
	return repeats, pg.Classify("list the runs of a question", err)
}

const listNewestRuns = `
	SELECT ` + db.RunColumns + `, r.is_current, left(r.response_body, $2) AS response_body,
		i.question_id, i.question,
		(SELECT count(*) FROM evaluation_items WHERE task_id = i.task_id AND sort_key <= i.sort_key) AS number
	FROM (
		SELECT * FROM evaluation_runs
		WHERE launch_id = (SELECT id FROM launches WHERE task_id = $1 ORDER BY number DESC LIMIT 1)
		ORDER BY id DESC
		LIMIT $3) r
	JOIN evaluation_items i ON i.id = r.item_id
	ORDER BY r.id DESC`

// Newest returns the last count runs that a task's newest launch stored, newest first, with at most limit characters of
// each response.
func (h History) Newest(ctx context.Context, taskID uuid.UUID, limit, count int) ([]PastRun, error) {
	var runs []PastRun
	err := h.db.SelectContext(ctx, &runs, listNewestRuns, taskID, limit, count)
	return runs, pg.Classify("read the newest runs", err)
}
