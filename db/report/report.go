// Package report reads what reports, pages and exports show of a task's results.
package report

import (
	"context"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
	"wending/jobs/stability"
)

// Report reads the results of tasks.
type Report struct{ db *pg.Pool }

// New returns a Report that reads through a store's connections.
func New(store *db.Store) Report { return Report{store.Pool()} }

// Summary is what the map of all questions and the filters need to know about one item.
type Summary struct {
	ID         int64  `db:"id"`
	QuestionID string `db:"question_id"`
	// Answers is how many different answers the successful current runs gave.
	Answers int `db:"answers"`
	// Runs is how many current runs there are: fewer than the task's where it was stopped.
	Runs int `db:"runs"`
	// Failures is how many current runs did not succeed.
	Failures int `db:"failures"`
	// Level is nil while the item is not assessed.
	Level *stability.Level `db:"level"`
	// Matches reports whether the item matches the text that was searched for.
	Matches bool `db:"matches"`
}

// IsUnstable reports whether the item was answered in more than one way.
func (s Summary) IsUnstable() bool { return s.Answers > 1 }

const summariseItems = `
	SELECT i.id, i.question_id,
		coalesce(r.answers, 0) AS answers,
		coalesce(r.runs, 0) AS runs,
		coalesce(r.failures, 0) AS failures,
		q.level,
		($2 = '' OR i.question_id ILIKE $2 OR i.question ILIKE $2) AS matches
	FROM evaluation_items i
	LEFT JOIN (
		SELECT item_id,
			count(DISTINCT answer_key) AS answers,
			count(*) AS runs,
			count(*) FILTER (WHERE status <> 'SUCCEEDED') AS failures
		FROM evaluation_runs
		WHERE task_id = $1 AND is_current
		GROUP BY item_id) r ON r.item_id = i.id
	LEFT JOIN question_statistics q ON q.item_id = i.id
	WHERE i.task_id = $1
	ORDER BY i.question_id`

// Summaries returns a summary of each of the task's items, in the order of pages and exports. An item
// matches if its question_id or question contains text, without regard to case.
func (r Report) Summaries(ctx context.Context, taskID uuid.UUID, text string) ([]Summary, error) {
	var summaries []Summary
	err := r.db.SelectContext(ctx, &summaries, summariseItems, taskID, db.Containing(text))
	return summaries, pg.Classify("summarise the questions", err)
}
