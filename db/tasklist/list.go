// Package tasklist reads lists of tasks: filtered, page by page, and shelved by dataset or agent. It changes nothing.
package tasklist

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// List reads lists of tasks.
type List struct{ store *db.Store }

// New returns the List of a store.
func New(store *db.Store) List { return List{store} }

// Filter narrows a list of tasks; its zero value matches all.
type Filter struct {
	Statuses []db.TaskStatus
	// Drafts adds drafts to the selected states; WithoutDrafts excludes drafts from PENDING.
	Drafts, WithoutDrafts bool
	// NameContains matches anywhere in the name, without regard to case.
	NameContains string
	// WithoutCopies leaves out tasks that schedules created.
	WithoutCopies bool
	// Newest leaves out all copies of a schedule but its newest.
	Newest bool
	// CopiesOf selects the tasks that one schedule created; uuid.Nil selects all tasks.
	CopiesOf uuid.UUID
	// Dataset selects the tasks on one set of questions, and Agent those that call one agent or model; empty keys select
	// all.
	Dataset DatasetKey
	Agent   AgentKey
	// Except is a task to leave out; uuid.Nil leaves out none.
	Except uuid.UUID
}

// IsZero reports whether the filter selects no state, drafts, name, schedule, dataset or agent.
func (f Filter) IsZero() bool {
	return len(f.Statuses) == 0 && !f.Drafts && f.NameContains == "" && f.CopiesOf == uuid.Nil &&
		f.Dataset == (DatasetKey{}) && f.Agent == (AgentKey{})
}

// DatasetKey names a set of questions: a saved dataset or, for uploads, the name of the file.
type DatasetKey struct {
	ID   uuid.UUID
	File string
}

// DatasetOf returns the key of a task's questions.
func DatasetOf(task db.Task) DatasetKey {
	if task.DatasetID != nil {
		return DatasetKey{ID: *task.DatasetID}
	}
	return DatasetKey{File: task.DatasetName}
}

// AgentKey names an agent or a model: a saved one or, if its address was typed, the address without its query.
type AgentKey struct {
	ID  uuid.UUID
	URL string
}

// AgentOf returns the key of an agent or model that a task calls.
func AgentOf(target db.Target) AgentKey {
	if target.LibraryID != nil {
		return AgentKey{ID: *target.LibraryID}
	}
	return AgentKey{URL: target.URL}
}

// where returns the condition on the table t for tasks that match within the scope; its parameters are :project,
// :statuses, :name, :schedule, :except, :dataset, :file, :agent and :url.
func (f Filter) where(scope db.Scope) string {
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
	if !scope.IsAll() { // a single condition for both cases would not always use the index on projects
		condition += ` AND t.project_id = :project`
	}
	if f.NameContains != "" {
		condition += ` AND t.task_name ILIKE :name`
	}
	if f.WithoutCopies {
		condition += ` AND t.schedule_id IS NULL`
	}
	if f.Newest {
		condition += ` AND (t.schedule_id IS NULL OR NOT EXISTS (
			SELECT FROM evaluation_tasks later WHERE later.schedule_id = t.schedule_id
			AND (later.created_at, later.id) > (t.created_at, t.id)))`
	}
	if f.CopiesOf != uuid.Nil {
		condition += ` AND t.schedule_id = :schedule`
	}
	if f.Except != uuid.Nil {
		condition += ` AND t.id <> :except`
	}
	if f.Dataset.ID != uuid.Nil {
		condition += ` AND t.dataset_id = :dataset`
	}
	if f.Dataset.File != "" {
		condition += ` AND t.dataset_id IS NULL AND t.dataset_name = :file`
	}
	if f.Agent.ID != uuid.Nil {
		condition += ` AND t.id IN (SELECT task_id FROM task_targets WHERE library_id = :agent AND kind <> 'judge')`
	}
	if f.Agent.URL != "" {
		condition += ` AND EXISTS (SELECT FROM task_targets WHERE task_id = t.id AND library_id IS NULL AND kind = 'url'
			AND url = :url)`
	}
	return condition
}

// arguments returns the values of the parameters of where.
func (f Filter) arguments(scope db.Scope, page db.Page) map[string]any {
	return map[string]any{
		"project": scope, "statuses": pq.Array(f.Statuses), "name": pg.Containing(f.NameContains), "except": f.Except,
		"schedule": f.CopiesOf,
		"dataset":  f.Dataset.ID, "file": f.Dataset.File, "agent": f.Agent.ID, "url": f.Agent.URL, "size": page.Size,
		"offset": page.Offset(),
	}
}

// Tasks returns one page of the tasks that match, newest first, and how many match in all.
func (l List) Tasks(ctx context.Context, scope db.Scope, filter Filter,
	page db.Page) (tasks []db.Task, total int, err error) {
	// Searching names reads every task, so page and count share one statement. Without a search, separate
	// statements use indexes.
	once := "NOT MATERIALIZED"
	if filter.NameContains != "" {
		once = "MATERIALIZED"
	}
	// The ids come first, because a task's state takes several look-ups, which only the page's own rows need.
	list := `
		WITH found AS ` + once + ` (
			SELECT t.id, t.created_at FROM evaluation_tasks t WHERE ` + filter.where(scope) + `)
		SELECT (SELECT count(*) FROM found) AS total,
			ARRAY(SELECT id FROM found ORDER BY created_at DESC, id DESC LIMIT :size OFFSET :offset) AS ids`
	var found struct {
		Total int
		IDs   pq.StringArray
	}
	err = pg.GetNamed(ctx, l.store.Pool(), &found, list, filter.arguments(scope, page))
	if err != nil {
		return nil, 0, pg.Classify("list the tasks", err)
	}
	ids := make([]uuid.UUID, len(found.IDs))
	for n, id := range found.IDs {
		ids[n] = uuid.MustParse(id) // for a column of uuids
	}
	tasks, err = l.store.TasksByID(ctx, scope, ids)
	return tasks, found.Total, err
}

// HasTasks reports whether any task exists.
func (l List) HasTasks(ctx context.Context, scope db.Scope) (bool, error) {
	var has bool
	err := l.store.Pool().GetContext(ctx, &has,
		`SELECT EXISTS (SELECT FROM evaluation_tasks WHERE `+db.Within("project_id", "$1")+`)`, scope)
	return has, pg.Classify("look for tasks", err)
}

// Series is a schedule with the number of copies that it has made.
type Series struct {
	ID     uuid.UUID `db:"id"`
	Name   string    `db:"name"`
	Copies int       `db:"copies"`
}

// SeriesOf returns the schedules that created the given tasks, keyed by schedule id.
func (l List) SeriesOf(ctx context.Context, scope db.Scope, tasks []db.Task) (map[uuid.UUID]Series, error) {
	list := `
		SELECT s.id, s.name, (SELECT count(*) FROM evaluation_tasks WHERE schedule_id = s.id) AS copies
		FROM schedules s
		WHERE s.id = ANY ($1) AND ` + db.Within("s.project_id", "$2")
	var ids []uuid.UUID
	for _, task := range tasks {
		if task.ScheduleID != nil {
			ids = append(ids, *task.ScheduleID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var found []Series
	if err := l.store.Pool().SelectContext(ctx, &found, list, pq.Array(ids), scope); err != nil {
		return nil, pg.Classify("read the schedules of tasks", err)
	}
	series := make(map[uuid.UUID]Series, len(found))
	for _, one := range found {
		series[one.ID] = one
	}
	return series, nil
}
