package report

import (
	"context"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// CurrentRuns returns the current runs of items with at most limit characters of each response, ordered by item,
// variant and run_index.
func (r Report) CurrentRuns(ctx context.Context, itemIDs []int64, limit int) ([]db.Run, error) {
	const query = `
		SELECT ` + db.RunColumns + `, left(r.response_body, $2) AS response_body, left(r.reasoning, $2) AS reasoning,
			coalesce(char_length(r.reasoning) > $2, false) AS reasoning_is_cut
		FROM evaluation_runs r
		WHERE r.item_id = ANY ($1) AND r.is_current
		ORDER BY r.item_id, r.variant, r.run_index`
	var runs []db.Run
	err := r.db.SelectContext(ctx, &runs, query, pq.Int64Array(itemIDs), limit)
	return runs, pg.Classify("read the runs", err)
}

// EachAnswer calls yield with the successful current runs of items, one at a time, with at most limit characters of
// each response.
func (r Report) EachAnswer(ctx context.Context, itemIDs []int64, limit int, yield func(db.Run) error) error {
	const query = `
		SELECT r.id, r.item_id, r.latency_ms, r.total_tokens, left(r.response_body, $2) AS response_body
		FROM evaluation_runs r
		WHERE r.item_id = ANY ($1) AND r.is_current AND r.status = 'SUCCEEDED'
		ORDER BY r.item_id, r.variant, r.run_index`
	return pg.EachRow(ctx, r.db, "read the answers", query, []any{pq.Int64Array(itemIDs), limit}, yield)
}

// EachCurrentRun calls yield with each current run of one item, in full, in order of variant and run_index.
func (r Report) EachCurrentRun(ctx context.Context, itemID int64, yield func(db.Run) error) error {
	const query = `
		SELECT ` + db.RunColumns + `, r.response_body, r.reasoning
		FROM evaluation_runs r
		WHERE r.item_id = $1 AND r.is_current
		ORDER BY r.variant, r.run_index`
	return pg.EachRow(ctx, r.db, "read the runs", query, []any{itemID}, yield)
}

// Run returns one run of a task with at most limit characters of its response, or db.ErrNotFound.
func (r Report) Run(ctx context.Context, taskID uuid.UUID, runID int64, limit int) (db.WholeRun, error) {
	const query = `
		SELECT ` + db.RunColumns + `, left(r.response_body, $3) AS response_body,
			left(r.reasoning, $3) AS reasoning, coalesce(char_length(r.reasoning) > $3, false) AS reasoning_is_cut,
			i.question_id, i.question, i.series, i.turn,
			(SELECT count(*) FROM evaluation_items WHERE task_id = i.task_id AND sort_key <= i.sort_key) AS number
		FROM evaluation_runs r
		JOIN evaluation_items i ON i.id = r.item_id
		WHERE r.task_id = $1 AND r.id = $2`
	var run db.WholeRun
	err := r.db.GetContext(ctx, &run, query, taskID, runID, limit)
	return run, db.NotFound(db.KindRun, pg.Classify("read the run", err))
}

// EachWholeRun calls yield with the runs with these ids and their whole responses, in the order of the ids.
func (r Report) EachWholeRun(ctx context.Context, runIDs []int64, yield func(db.WholeRun) error) error {
	const query = `
		SELECT ` + db.RunColumns + `, r.response_body, i.question_id, i.question, i.series, i.turn
		FROM evaluation_runs r
		JOIN evaluation_items i ON i.id = r.item_id
		WHERE r.id = ANY ($1)
		ORDER BY r.id`
	return pg.EachRow(ctx, r.db, "read runs", query, []any{pq.Int64Array(runIDs)}, yield)
}

// MeaningLetters maps the ids of runs to letters: answers to a question that say the same thing have the same letter.
// Runs whose letter is unknown, and runs that were replaced, are left out.
func (r Report) MeaningLetters(ctx context.Context, runIDs []int64) (letters map[int64]*string, err error) {
	const query = `
		SELECT r.id, substr(q.meaning_letters, r.run_index, 1) AS letter
		FROM evaluation_runs r
		JOIN question_statistics q ON q.item_id = r.item_id AND q.variant = r.variant
		WHERE r.id = ANY ($1) AND r.is_current AND substr(q.meaning_letters, r.run_index, 1) NOT IN ('', '-')`
	var rows []struct {
		ID     int64  `db:"id"`
		Letter string `db:"letter"`
	}
	if err := r.db.SelectContext(ctx, &rows, query, pq.Int64Array(runIDs)); err != nil {
		return nil, pg.Classify("read the groups of answers", err)
	}
	letters = map[int64]*string{}
	for _, row := range rows {
		letters[row.ID] = &row.Letter
	}
	return letters, nil
}

// RunResponse returns the exact bytes of one run's response, or db.ErrNotFound if the task has no such run.
func (r Report) RunResponse(ctx context.Context, taskID uuid.UUID, runID int64) ([]byte, error) {
	const query = `
		SELECT coalesce(response_bytes, convert_to(response_body, 'UTF8'), '')
		FROM evaluation_runs
		WHERE task_id = $1 AND id = $2`
	var response []byte
	err := r.db.GetContext(ctx, &response, query, taskID, runID)
	return response, db.NotFound(db.KindRun, pg.Classify("read the response", err))
}
