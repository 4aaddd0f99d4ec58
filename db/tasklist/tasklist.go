// Package tasklist finds tasks for lists.
package tasklist

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Filter narrows a list of tasks; its zero value matches all.
type Filter struct {
	Statuses []db.TaskStatus
	// Drafts adds drafts; WithoutDrafts keeps them out of PENDING.
	Drafts, WithoutDrafts bool
	// NameContains is matched anywhere in the name, without regard to case.
	NameContains string
	// WithoutCopies leaves out what schedules made; CopiesOf takes what one made, uuid.Nil all.
	WithoutCopies bool
	CopiesOf      uuid.UUID
	// Except is a task that does not match; uuid.Nil excludes none.
	Except uuid.UUID
}

// IsZero reports whether the filter takes all tasks.
func (f Filter) IsZero() bool {
	return len(f.Statuses) == 0 && !f.Drafts && f.NameContains == "" && f.CopiesOf == uuid.Nil
}

// where returns the condition for tasks that match, of the table t; its parameters are :statuses, :name, :schedule and :except.
func (f Filter) where() string {
	const isLaunched = `EXISTS (SELECT FROM launches WHERE task_id = t.id)`
	var kinds []string
	if len(f.Statuses) > 0 {
		kind := `t.status = ANY (:statuses)`
		if f.WithoutDrafts {
			kind += ` AND (t.status <> 'PENDING' OR ` + isLaunched + `)`
		}
		kinds = append(kinds, kind)
	}
	if f.Drafts {
		kinds = append(kinds, `t.status = 'PENDING' AND NOT `+isLaunched)
	}
	condition := "true"
	if len(kinds) > 0 {
		condition = "(" + strings.Join(kinds, " OR ") + ")"
	}
	if f.NameContains != "" {
		condition += ` AND t.task_name ILIKE :name`
	}
	if f.WithoutCopies {
		condition += ` AND t.schedule_id IS NULL`
	}
	if f.CopiesOf != uuid.Nil {
		condition += ` AND t.schedule_id = :schedule`
	}
	if f.Except != uuid.Nil {
		condition += ` AND t.id <> :except`
	}
	return condition
}

// Tasks returns one page of the tasks that match, newest first, and how many match in all.
func Tasks(ctx context.Context, store *db.Store, filter Filter, page db.Page) (tasks []db.Task, total int, err error) {
	// Searching names reads every task, so it is done once; without a search indexes serve count and page apart.
	once := "NOT MATERIALIZED"
	if filter.NameContains != "" {
		once = "MATERIALIZED"
	}
	// The ids first: the state of a task costs several look-ups, which only the page's own rows need.
	list := `
		WITH found AS ` + once + ` (
			SELECT t.id, t.created_at FROM evaluation_tasks t WHERE ` + filter.where() + `)
		SELECT (SELECT count(*) FROM found) AS total,
			ARRAY(SELECT id FROM found ORDER BY created_at DESC, id DESC LIMIT :size OFFSET :offset) AS ids`
	var found struct {
		Total int
		IDs   pq.StringArray
	}
	err = pg.GetNamed(ctx, store.Pool(), &found, list, map[string]any{
		"statuses": pq.Array(filter.Statuses), "name": pg.Containing(filter.NameContains), "except": filter.Except, "schedule": filter.CopiesOf, "size": page.Size, "offset": page.Offset(),
	})
	if err != nil {
		return nil, 0, pg.Classify("list the tasks", err)
	}
	ids := make([]uuid.UUID, len(found.IDs))
	for n, id := range found.IDs {
		ids[n] = uuid.MustParse(id) // of a column of uuids
	}
	tasks, err = store.TasksByID(ctx, ids)
	return tasks, found.Total, err
}

// HasTasks reports whether any task exists.
func HasTasks(ctx context.Context, store *db.Store) (bool, error) {
	var has bool
	err := store.Pool().GetContext(ctx, &has, `SELECT EXISTS (SELECT FROM evaluation_tasks)`)
	return has, pg.Classify("look for tasks", err)
}
