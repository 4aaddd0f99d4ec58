package engine

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Evaluations reads the evaluations of runs.
type Evaluations struct{ db *pg.Pool }

// NewEvaluations returns the Evaluations of a store.
func NewEvaluations(store *db.Store) Evaluations { return Evaluations{store.Pool()} }

// Subject returns a run to be judged, with at most limit+1 characters of its response: an extra character means that
// the response is longer than limit.
func (e Evaluations) Subject(ctx context.Context, runID int64, limit int) (run db.Run, err error) {
	const read = `
		SELECT r.id, r.unit_id, r.launch_id, r.item_id, r.variant, r.run_index, r.status,
		left(r.response_body, $2 + 1) AS response_body
		FROM evaluation_runs r
		WHERE r.id = $1`
	err = e.db.GetContext(ctx, &run, read, runID, limit)
	return run, db.NotFound(db.KindRun, pg.Classify("read the judged run", err))
}

// Asked is the task whose runs an EVALUATE launch evaluates, and the evaluators it uses.
type Asked struct {
	TaskID uuid.UUID `db:"task_id"`
	// Evaluators are the numbers of the evaluators; empty for launches of other kinds.
	Evaluators pq.Int64Array `db:"evaluators"`
}

// Asked returns the task and the evaluators of a launch, or db.ErrNotFound.
func (e Evaluations) Asked(ctx context.Context, launchID uuid.UUID) (asked Asked, err error) {
	const read = `SELECT task_id, coalesce(evaluators, '{}') AS evaluators FROM launches WHERE id = $1`
	err = e.db.GetContext(ctx, &asked, read, launchID)
	return asked, db.NotFound(db.KindLaunch, pg.Classify("read the launch", err))
}

// NextToRule returns up to limit items of a PENDING launch whose answers the rules have not judged yet in that launch,
// in the order of their ids.
func (e Evaluations) NextToRule(ctx context.Context, launchID uuid.UUID, limit int) (itemIDs []int64, err error) {
	const read = `
		SELECT i.id
		FROM launches l
		JOIN evaluation_items i ON i.task_id = l.task_id AND i.id > l.ruled_through
		WHERE l.id = $1 AND l.status = 'PENDING'
		ORDER BY i.id
		LIMIT $2`
	err = e.db.SelectContext(ctx, &itemIDs, read, launchID, limit)
	return itemIDs, pg.Classify("look for answers to judge", err)
}

// Past is one evaluation of a run: the current one, or one that a later evaluation replaced.
type Past struct {
	Evaluator  int        `db:"evaluator"`
	Status     string     `db:"status"`
	Score      *float64   `db:"score"`
	Passed     *bool      `db:"passed"`
	Reason     *string    `db:"reason"`
	Raw        *string    `db:"raw"`
	CreatedAt  time.Time  `db:"created_at"`
	ReplacedAt *time.Time `db:"replaced_at"`
}

// Of returns all evaluations of a run, including those that were replaced, with the judges' verbatim output. They are
// ordered by evaluator and, for each evaluator, newest first.
func (e Evaluations) Of(ctx context.Context, runID int64) (said []Past, err error) {
	const read = `
		SELECT evaluator, status, score, passed, reason, raw, created_at, NULL AS replaced_at FROM evaluations
		WHERE run_id = $1
		UNION ALL
		SELECT evaluator, status, score, passed, reason, raw, created_at, replaced_at FROM past_evaluations WHERE run_id = $1
		ORDER BY evaluator, created_at DESC`
	err = e.db.SelectContext(ctx, &said, read, runID)
	return said, pg.Classify("read the evaluations", err)
}
