package report

import (
	"context"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Asking identifies the questions of a task that does not exist yet.
type Asking struct {
	// DatasetID is the saved dataset; nil means an upload.
	DatasetID *uuid.UUID
	// Questions is the number of questions, and First and Last are the texts of the first and the last one.
	Questions   int
	First, Last string
}

// sameQuestions reads the newest two finished tasks with the same questions: with the same saved dataset, or with the
// same number of questions and the same first and last question.
const sameQuestions = `
	SELECT t.id
	FROM (
		SELECT id, dataset_id, total_items, created_at
		FROM evaluation_tasks
		WHERE status IN ('SUCCEEDED', 'STOPPED') AND ($1::uuid IS NULL OR project_id = $1)
		ORDER BY created_at DESC
		LIMIT 1000) t
	WHERE t.dataset_id = $2
	   OR t.total_items = $3
	  AND $4 = (SELECT question FROM evaluation_items WHERE task_id = t.id ORDER BY sort_key LIMIT 1)
	  AND $5 = (SELECT question FROM evaluation_items WHERE task_id = t.id ORDER BY sort_key DESC LIMIT 1)
	ORDER BY t.created_at DESC
	LIMIT 2`

// SameQuestions returns the ids of the newest two finished tasks with these questions, newest first.
func (r Report) SameQuestions(ctx context.Context, scope db.Scope, asking Asking) (ids []uuid.UUID, err error) {
	err = r.db.SelectContext(ctx, &ids, sameQuestions, scope, asking.DatasetID, asking.Questions, asking.First,
		asking.Last)
	return ids, pg.Classify("find the tasks with the same questions", err)
}
