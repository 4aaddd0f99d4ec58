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
// item that has it; onlyAssessed leaves out those whose runs have not all ended.
func (r Report) Items(ctx context.Context, taskID uuid.UUID, questionID string, onlyAssessed bool, page db.Page) (items []db.Item, total int, err error) {
	const wanted = `
		WHERE i.task_id = $1
		  AND ($2 = '' OR i.question_id = $2)
		  AND (NOT $3 OR EXISTS (SELECT FROM question_statistics q WHERE q.item_id = i.id AND q.variant = 1))`
	const count = `SELECT count(*) FROM evaluation_items i` + wanted
	const list = `
		SELECT ` + db.ItemColumns + `
		FROM evaluation_items i` + wanted + `
		ORDER BY i.question_id
		LIMIT $4 OFFSET $5`
	if err := r.db.GetContext(ctx, &total, count, taskID, questionID, onlyAssessed); err != nil {
		return nil, 0, pg.Classify("count the questions", err)
	}
	err = r.db.SelectContext(ctx, &items, list, taskID, questionID, onlyAssessed, page.Size, page.Offset())
	return items, total, pg.Classify("read the questions", err)
}
