package tasklist

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Shelving is how the tasks of a list are grouped.
type Shelving string

// Tasks are grouped by the agent or model that they call (those that call several form one group), or by their
// questions.
const (
	ByAgent   Shelving = "agent"
	ByDataset Shelving = "dataset"
)

// Shelvings lists both values.
var Shelvings = []Shelving{ByAgent, ByDataset}

// Arrangement is how a list shows its tasks; its zero value shows all tasks, newest first.
type Arrangement struct {
	// By is how the tasks are grouped, the group with the newest task first; empty means not at all.
	By Shelving
	// NewestOfDataset lists only the newest task on each set of questions, with a summary of the earlier ones.
	NewestOfDataset bool
}

// Shelf is the group that a task belongs to.
type Shelf struct {
	// Key identifies the group; neighbours in the same group have equal keys.
	Key string
	// Tasks is the number of listed tasks in the group.
	Tasks int
}

// EarlierTasks are the tasks on the same questions before a given one, among those that match the list's filter.
type EarlierTasks struct {
	Count  int
	Newest []EarlierTask // at most earlierShown, newest first
}

// EarlierTask is the summary of an earlier task. Agreement and PassRate are nil if they are unknown.
type EarlierTask struct {
	ID        uuid.UUID     `db:"id"`
	Name      string        `db:"task_name"`
	Status    db.TaskStatus `db:"status"`
	CreatedAt time.Time     `db:"created_at"`
	Agreement *float64      `db:"agreement"`
	PassRate  *float64      `db:"pass_rate"`
}

// earlierShown is the maximum number of earlier tasks that are listed for a task.
const earlierShown = 6

// Arranged is a page of an arranged list, and how many tasks it lists in all.
type Arranged struct {
	Tasks []db.Task
	Total int
	// Shelves and Earlier map each task's id to its entry; Earlier only if the arrangement requests it.
	Shelves map[uuid.UUID]Shelf
	Earlier map[uuid.UUID]EarlierTasks
}

// The keys of groups, for tasks t.
const (
	keyOfDataset = `coalesce(CAST(t.dataset_id AS text), 'file ' || t.dataset_name)`
	keyOfAgent   = `(
		SELECT CASE WHEN count(*) > 1 THEN 'several' ELSE min(coalesce(CAST(g.library_id AS text), 'url ' || g.url)) END
		FROM task_targets g
		WHERE g.task_id = t.id AND g.kind <> 'judge')`
)

// Arranged returns one page of the tasks that match, arranged as requested.
func (l List) Arranged(ctx context.Context, scope db.Scope, filter Filter, arrangement Arrangement,
	page db.Page) (Arranged, error) {
	if arrangement == (Arrangement{}) {
		tasks, total, err := l.Tasks(ctx, scope, filter, page)
		return Arranged{Tasks: tasks, Total: total}, err
	}
	shelf, kept := `''`, "true"
	switch arrangement.By {
	case ByAgent:
		shelf = keyOfAgent
	case ByDataset:
		shelf = keyOfDataset
	}
	if arrangement.NewestOfDataset {
		kept = "place = 1"
	}
	list := `
		WITH found AS MATERIALIZED (
			SELECT t.id, t.created_at, ` + shelf + ` AS shelf, ` + keyOfDataset + ` AS dataset
			FROM evaluation_tasks t WHERE ` + filter.where(scope) + `),
		placed AS MATERIALIZED (
			SELECT *, row_number() OVER (PARTITION BY dataset ORDER BY created_at DESC, id DESC) AS place,
			count(*) OVER (PARTITION BY dataset) AS of_dataset
			FROM found),
		listed AS MATERIALIZED (
			SELECT *, count(*) OVER (PARTITION BY shelf) AS of_shelf, max(created_at) OVER (PARTITION BY shelf) AS newest
			FROM placed
			WHERE ` + kept + `),
		shown AS (
			SELECT * FROM listed ORDER BY newest DESC, shelf, created_at DESC, id DESC LIMIT :size OFFSET :offset)
		SELECT (SELECT count(*) FROM listed) AS total,
			(SELECT coalesce(json_agg(json_build_object('ID', s.id, 'Shelf', s.shelf, 'OfShelf', s.of_shelf, 'OfDataset',
			s.of_dataset, 'Earlier', ARRAY(
					SELECT p.id FROM placed p WHERE p.dataset = s.dataset AND p.place > 1 ORDER BY p.place LIMIT :earlier))
				ORDER BY s.newest DESC, s.shelf, s.created_at DESC, s.id DESC), '[]')
			FROM shown s) AS rows`
	arguments := filter.arguments(scope, page)
	arguments["earlier"] = 0
	if arrangement.NewestOfDataset {
		arguments["earlier"] = earlierShown
	}
	var found struct {
		Total int
		Rows  json.RawMessage
	}
	if err := pg.GetNamed(ctx, l.store.Pool(), &found, list, arguments); err != nil {
		return Arranged{}, pg.Classify("arrange the tasks", err)
	}
	var rows []shelvedTask
	if err := json.Unmarshal(found.Rows, &rows); err != nil {
		return Arranged{}, err
	}
	arranged, err := l.shelve(ctx, scope, rows)
	arranged.Total = found.Total
	return arranged, err
}

// shelvedTask is a task of an arranged page. OfShelf counts the listed tasks in its group, OfDataset all matching
// tasks on its questions.
type shelvedTask struct {
	ID                 uuid.UUID
	Shelf              string
	OfShelf, OfDataset int
	Earlier            []uuid.UUID
}

// shelve reads the tasks of an arranged page.
func (l List) shelve(ctx context.Context, scope db.Scope, rows []shelvedTask) (arranged Arranged, err error) {
	arranged.Shelves, arranged.Earlier = map[uuid.UUID]Shelf{}, map[uuid.UUID]EarlierTasks{}
	var ids, earlier []uuid.UUID
	place := map[uuid.UUID]int{}
	for n, row := range rows {
		ids, earlier = append(ids, row.ID), append(earlier, row.Earlier...)
		place[row.ID] = n
		arranged.Shelves[row.ID] = Shelf{Key: row.Shelf, Tasks: row.OfShelf}
	}
	if arranged.Tasks, err = l.store.TasksByID(ctx, scope, ids); err != nil {
		return arranged, err
	}
	slices.SortFunc(arranged.Tasks, func(a, b db.Task) int { return place[a.ID] - place[b.ID] })
	inShort, err := l.inShort(ctx, scope, earlier)
	if err != nil {
		return arranged, err
	}
	for _, row := range rows {
		if len(row.Earlier) == 0 {
			continue
		}
		of := EarlierTasks{Count: row.OfDataset - 1}
		for _, id := range row.Earlier {
			if task, isThere := inShort[id]; isThere {
				of.Newest = append(of.Newest, task)
			}
		}
		arranged.Earlier[row.ID] = of
	}
	return arranged, nil
}

// inShort returns summaries of tasks, keyed by task id.
func (l List) inShort(ctx context.Context, scope db.Scope, ids []uuid.UUID) (map[uuid.UUID]EarlierTask, error) {
	read := `
		SELECT id, task_name, status, created_at, CAST(statistics ->> 'agreement' AS float8) AS agreement,
		CAST(statistics ->> 'pass_rate' AS float8) AS pass_rate
		FROM evaluation_tasks
		WHERE id = ANY ($1) AND ` + db.Within("project_id", "$2")
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []EarlierTask
	if err := l.store.Pool().SelectContext(ctx, &rows, read, pq.Array(ids), scope); err != nil {
		return nil, pg.Classify("read the earlier tasks", err)
	}
	tasks := make(map[uuid.UUID]EarlierTask, len(rows))
	for _, row := range rows {
		tasks[row.ID] = row
	}
	return tasks, nil
}

// ReviewProgress holds how many of a task's questions people have judged, and how many of them failed a reviewer's
// judgement.
type ReviewProgress struct {
	TaskID uuid.UUID `db:"task_id"`
	Judged int       `db:"judged"`
	Failed int       `db:"failed"`
}

// ReviewProgress returns the progress of the reviews of tasks, keyed by task id; tasks without any verdict are left
// out.
func (l List) ReviewProgress(ctx context.Context, scope db.Scope,
	tasks []db.Task) (map[uuid.UUID]ReviewProgress, error) {
	read := `
		SELECT i.task_id, count(DISTINCT v.item_id) AS judged,
		count(DISTINCT v.item_id) FILTER (WHERE v.verdict = 'FAIL') AS failed
		FROM evaluation_tasks t
		JOIN evaluation_items i ON i.task_id = t.id
		JOIN reviews v ON v.item_id = i.id AND v.is_current AND NOT v.is_withdrawn AND v.run_index IS NULL
		WHERE t.id = ANY ($1) AND ` + db.Within("t.project_id", "$2") + `
		GROUP BY i.task_id`
	ids := make([]uuid.UUID, len(tasks))
	for n, task := range tasks {
		ids[n] = task.ID
	}
	var rows []ReviewProgress
	if err := l.store.Pool().SelectContext(ctx, &rows, read, pq.Array(ids), scope); err != nil {
		return nil, pg.Classify("read the progress of reviews", err)
	}
	progress := make(map[uuid.UUID]ReviewProgress, len(rows))
	for _, row := range rows {
		progress[row.TaskID] = row
	}
	return progress, nil
}
