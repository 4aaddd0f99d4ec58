package report

import (
	"context"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// FirstItems returns the first items of a task, in the order of pages and exports.
func (r Report) FirstItems(ctx context.Context, taskID uuid.UUID, count int) ([]db.Item, error) {
	var items []db.Item
	err := r.db.SelectContext(ctx, &items,
		`SELECT `+db.ItemColumns+` FROM evaluation_items i WHERE i.task_id = $1 ORDER BY i.question_id LIMIT $2`, taskID, count)
	return items, pg.Classify("read the first questions", err)
}

// ItemsByID returns the items with these ids, in the order of pages and exports.
func (r Report) ItemsByID(ctx context.Context, ids []int64) ([]db.Item, error) {
	var items []db.Item
	err := r.db.SelectContext(ctx, &items,
		`SELECT `+db.ItemColumns+` FROM evaluation_items i WHERE i.id = ANY ($1) ORDER BY i.question_id`, pq.Int64Array(ids))
	return items, pg.Classify("read the questions", err)
}

// Items returns one page of a task's items and how many there are. A questionID that is not empty keeps only the
// item that has it.
func (r Report) Items(ctx context.Context, taskID uuid.UUID, questionID string, page db.Page) (items []db.Item, total int, err error) {
	const count = `SELECT count(*) FROM evaluation_items WHERE task_id = $1 AND ($2 = '' OR question_id = $2)`
	const list = `
		SELECT ` + db.ItemColumns + `
		FROM evaluation_items i
		WHERE i.task_id = $1 AND ($2 = '' OR i.question_id = $2)
		ORDER BY i.question_id
		LIMIT $3 OFFSET $4`
	if err := r.db.GetContext(ctx, &total, count, taskID, questionID); err != nil {
		return nil, 0, pg.Classify("count the questions", err)
	}
	err = r.db.SelectContext(ctx, &items, list, taskID, questionID, page.Size, page.Offset())
	return items, total, pg.Classify("read the questions", err)
}
