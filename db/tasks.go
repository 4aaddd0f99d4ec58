package db

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// TaskStatus is the state of a task: PENDING → RUNNING → SUCCEEDED, FAILED or STOPPED. A later launch sets an
// ended task RUNNING again.
type TaskStatus string

// The states of a task. FAILED is for internal faults: a task whose every call failed SUCCEEDED.
const (
	TaskPending   TaskStatus = "PENDING"
	TaskRunning   TaskStatus = "RUNNING"
	TaskSucceeded TaskStatus = "SUCCEEDED"
	TaskFailed    TaskStatus = "FAILED"
	TaskStopped   TaskStatus = "STOPPED"
)

// TaskStatuses are all states in the order of a task's life.
var TaskStatuses = []TaskStatus{TaskPending, TaskRunning, TaskSucceeded, TaskFailed, TaskStopped}

// IsActive reports whether the task is waiting or running.
func (s TaskStatus) IsActive() bool { return s == TaskPending || s == TaskRunning }

// Task is a row of evaluation_tasks.
type Task struct {
	ID       uuid.UUID `db:"id"`
	Name     string    `db:"task_name"`
	AgentURL string    `db:"agent_api_url"`
	// SealedHeaders are the agent's headers, encrypted; nil means the task has none.
	SealedHeaders []byte  `db:"agent_api_headers"`
	AgentModel    *string `db:"agent_model"`
	// ExtraPayload is a JSON object merged into every request body; nil means there is none.
	ExtraPayload     *json.RawMessage `db:"extra_payload"`
	Status           TaskStatus       `db:"status"`
	FailureCode      *string          `db:"failure_code"`
	RunsPerItem      int              `db:"runs_per_item"`
	TimeoutSeconds   int              `db:"timeout_seconds"`
	MaxRetries       int              `db:"max_retries"`
	UseStream        bool             `db:"use_stream"`
	Concurrency      int              `db:"concurrency"`
	RateLimit        string           `db:"rate_limit"`
	DatasetName      string           `db:"dataset_name"`
	DatasetExtension string           `db:"dataset_extension"`
	// VariableNames are the dataset's further columns, in the file's order.
	VariableNames pq.StringArray `db:"variable_names"`
	TotalItems    int            `db:"total_items"`
	// Processed is how many questions have all their runs: live while a launch runs, final after it.
	Processed int `db:"processed"`
	// Unsuccessful is how many current runs did not succeed.
	Unsuccessful int `db:"unsuccessful"`
	// CreatedBy is the address that created the task; empty for tasks of older versions.
	CreatedBy   string     `db:"created_by"`
	CreatedAt   time.Time  `db:"created_at"`
	UpdatedAt   time.Time  `db:"updated_at"`
	StartedAt   *time.Time `db:"started_at"`
	CompletedAt *time.Time `db:"completed_at"`
	// IsLaunched reports whether the task was ever started; a PENDING task that was not is a draft.
	IsLaunched bool `db:"is_launched"`
	// IsStopping reports that a stop was requested and the last calls are still in flight.
	IsStopping bool `db:"is_stopping"`
	// HasResults reports whether the task's results may be viewed and exported: a launch of it has ended. They
	// are final unless the task is active again.
	HasResults bool `db:"has_results"`
}

// IsDraft reports whether the task waits for a user to start it.
func (t Task) IsDraft() bool { return t.Status == TaskPending && !t.IsLaunched }

// TotalRuns is how many runs the task has when it is complete.
func (t Task) TotalRuns() int { return t.TotalItems * t.RunsPerItem }

// taskColumns are the columns of a Task that are stored, of the table t.
const taskColumns = `
		t.id, t.task_name, t.agent_api_url, t.agent_api_headers, t.agent_model, t.extra_payload, t.status, t.failure_code,
		t.runs_per_item, t.timeout_seconds, t.max_retries, t.use_stream, t.concurrency, t.rate_limit,
		t.dataset_name, t.dataset_extension, t.variable_names, t.total_items,
		t.created_by, t.created_at, t.updated_at, t.started_at, t.completed_at`

// readTasks reads the tasks of $1 (an array of ids), newest first. The newest launch drives what a running task
// shows: questions processed are those the launch does not repeat and those whose units are all done.
const readTasks = `
	SELECT ` + taskColumns + `,
		CASE
			WHEN newest.is_working THEN newest.kept_items + work.done_items
			ELSE t.processed_items
		END AS processed,
		CASE
			WHEN newest.is_working THEN newest.kept_failed + work.failed
			ELSE coalesce((t.statistics ->> 'failed')::int + (t.statistics ->> 'timed_out')::int, 0)
		END AS unsuccessful,
		newest.id IS NOT NULL AS is_launched,
		coalesce(newest.status = 'STOPPING', false) AS is_stopping,
		EXISTS (SELECT FROM launches WHERE task_id = t.id AND finished_at IS NOT NULL) AS has_results
	FROM evaluation_tasks t
	LEFT JOIN LATERAL (
		SELECT id, status, kept_items, kept_failed, status IN ('RUNNING', 'STOPPING') AND started_at IS NOT NULL AS is_working
		FROM launches
		WHERE task_id = t.id
		ORDER BY number DESC
		LIMIT 1) newest ON true
	CROSS JOIN LATERAL (
		SELECT count(*) FILTER (WHERE is_done) AS done_items, coalesce(sum(failed), 0)::int AS failed
		FROM (
			SELECT bool_and(state = 'DONE') AS is_done, count(*) FILTER (WHERE outcome <> 'SUCCEEDED') AS failed
			FROM units
			WHERE newest.is_working AND launch_id = newest.id
			GROUP BY item_id) items) work
	WHERE t.id = ANY ($1)
	ORDER BY t.created_at DESC, t.id DESC`

// NewTask is what CreateTask stores: the task, its questions and how its first launch runs.
type NewTask struct {
	Task  Task // ID, settings and dataset; state, progress and times are the database's
	Items []NewItem
	// Launch is the first launch; nil makes the task a draft.
	Launch *NewLaunch
	By     Actor
}

const insertTask = `
	INSERT INTO evaluation_tasks (
		id, task_name, agent_api_url, agent_api_headers, agent_model, extra_payload, runs_per_item, timeout_seconds, max_retries,
		use_stream, concurrency, rate_limit, dataset_name, dataset_extension, variable_names, total_items, created_by)
	VALUES (
		:id, :task_name, :agent_api_url, :agent_api_headers, :agent_model, :extra_payload, :runs_per_item, :timeout_seconds, :max_retries,
		:use_stream, :concurrency, :rate_limit, :dataset_name, :dataset_extension, :variable_names, :total_items, :created_by)`

// CreateTask stores a task, its items and, unless it is a draft, its first launch in one transaction. It
// returns the launch's id; uuid.Nil for a draft.
func (s *Store) CreateTask(ctx context.Context, n NewTask) (launchID uuid.UUID, err error) {
	task := n.Task
	task.TotalItems, task.CreatedBy = len(n.Items), n.By.Address
	if task.VariableNames == nil {
		task.VariableNames = pq.StringArray{}
	}
	err = s.db.InTx(ctx, "create the task", func(tx *sqlx.Tx) error {
		if _, err := tx.NamedExecContext(ctx, insertTask, task); err != nil {
			return pg.Classify("store the task", err)
		}
		if err := insertItems(ctx, tx, task.ID, n.Items); err != nil {
			return err
		}
		if n.Launch == nil {
			return nil
		}
		launchID, err = insertLaunch(ctx, tx, newLaunchRow{TaskID: task.ID, Kind: LaunchSubmit, NewLaunch: *n.Launch})
		return err
	})
	return launchID, err
}

const updateDraft = `
	UPDATE evaluation_tasks t
	SET task_name = :task_name, agent_api_url = :agent_api_url, agent_api_headers = :agent_api_headers, agent_model = :agent_model,
		extra_payload = :extra_payload, runs_per_item = :runs_per_item, timeout_seconds = :timeout_seconds, max_retries = :max_retries,
		use_stream = :use_stream, concurrency = :concurrency, rate_limit = :rate_limit, dataset_name = :dataset_name,
		dataset_extension = :dataset_extension, variable_names = :variable_names, total_items = :total_items, updated_at = now()
	WHERE t.id = :id
	  AND t.status = 'PENDING'
	  AND NOT EXISTS (SELECT FROM launches WHERE task_id = t.id)`

// ReplaceDraft replaces the settings and questions of a draft and, unless it stays one, starts it. keepFile is called
// just before the commit, while the draft is locked. ReplaceDraft returns the launch's id, uuid.Nil for a draft, and
// ErrConflict if the task is no longer a draft.
func (s *Store) ReplaceDraft(ctx context.Context, n NewTask, keepFile func() error) (launchID uuid.UUID, err error) {
	task := n.Task
	task.TotalItems = len(n.Items)
	if task.VariableNames == nil {
		task.VariableNames = pq.StringArray{}
	}
	err = s.db.InTx(ctx, "replace the draft", func(tx *sqlx.Tx) error {
		result, err := tx.NamedExecContext(ctx, updateDraft, task)
		if err := pg.RequireRow("replace the draft", result, err); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM evaluation_items WHERE task_id = $1`, task.ID); err != nil {
			return pg.Classify("remove the draft's questions", err)
		}
		if err := insertItems(ctx, tx, task.ID, n.Items); err != nil {
			return err
		}
		if n.Launch != nil {
			if launchID, err = insertLaunch(ctx, tx, newLaunchRow{TaskID: task.ID, Kind: LaunchSubmit, NewLaunch: *n.Launch}); err != nil {
				return err
			}
		}
		if err := keepFile(); err != nil {
			return err
		}
		return notify(ctx, tx, task.ID)
	})
	return launchID, err
}

// Task returns one task, or ErrNotFound.
func (s *Store) Task(ctx context.Context, id uuid.UUID) (Task, error) {
	var task Task
	err := s.db.GetContext(ctx, &task, readTasks, pq.Array([]uuid.UUID{id}))
	return task, notFound(KindTask, pg.Classify("read the task", err))
}

// TasksByID returns those of the tasks that exist, newest first.
func (s *Store) TasksByID(ctx context.Context, ids []uuid.UUID) ([]Task, error) {
	var tasks []Task
	err := s.db.SelectContext(ctx, &tasks, readTasks, pq.Array(ids))
	return tasks, pg.Classify("read the tasks", err)
}

// TaskFilter narrows a list of tasks; its zero value matches all.
type TaskFilter struct {
	Statuses []TaskStatus
	// Drafts adds drafts; WithoutDrafts keeps them out of PENDING.
	Drafts, WithoutDrafts bool
	// NameContains is matched anywhere in the name, without regard to case.
	NameContains string
}

// IsZero reports whether the filter takes all tasks.
func (f TaskFilter) IsZero() bool { return len(f.Statuses) == 0 && !f.Drafts && f.NameContains == "" }

const countTasks = `
	SELECT count(*)
	FROM evaluation_tasks t
	WHERE ($1 = '{}'::text[] AND NOT $2
		OR t.status = ANY ($1) AND (NOT $3 OR t.status <> 'PENDING' OR EXISTS (SELECT FROM launches WHERE task_id = t.id))
		OR $2 AND t.status = 'PENDING' AND NOT EXISTS (SELECT FROM launches WHERE task_id = t.id))
	  AND ($4 = '' OR t.task_name ILIKE $4)`

// The ids first: the state of a task costs several look-ups, which only the page's own rows need.
const pageOfTasks = `
	SELECT t.id
	FROM evaluation_tasks t
	WHERE ($1 = '{}'::text[] AND NOT $2
		OR t.status = ANY ($1) AND (NOT $3 OR t.status <> 'PENDING' OR EXISTS (SELECT FROM launches WHERE task_id = t.id))
		OR $2 AND t.status = 'PENDING' AND NOT EXISTS (SELECT FROM launches WHERE task_id = t.id))
	  AND ($4 = '' OR t.task_name ILIKE $4)
	ORDER BY t.created_at DESC, t.id DESC
	LIMIT $5 OFFSET $6`

// Tasks returns one page of the tasks that match, newest first, and how many match in all.
func (s *Store) Tasks(ctx context.Context, filter TaskFilter, page Page) (tasks []Task, total int, err error) {
	statuses := make(pq.StringArray, 0, len(filter.Statuses))
	for _, status := range filter.Statuses {
		statuses = append(statuses, string(status))
	}
	arguments := []any{statuses, filter.Drafts, filter.WithoutDrafts, containing(filter.NameContains)}
	if err := s.db.GetContext(ctx, &total, countTasks, arguments...); err != nil {
		return nil, 0, pg.Classify("count the tasks", err)
	}
	var ids []uuid.UUID
	if err := s.db.SelectContext(ctx, &ids, pageOfTasks, append(arguments, page.Size, page.offset())...); err != nil {
		return nil, 0, pg.Classify("list the tasks", err)
	}
	tasks, err = s.TasksByID(ctx, ids)
	return tasks, total, err
}

// HasTasks reports whether any task exists.
func (s *Store) HasTasks(ctx context.Context) (bool, error) {
	var has bool
	err := s.db.GetContext(ctx, &has, `SELECT EXISTS (SELECT FROM evaluation_tasks)`)
	return has, pg.Classify("look for tasks", err)
}

// DeleteTask removes a task and all its data. It returns ErrConflict if a launch is active and must be stopped first.
func (s *Store) DeleteTask(ctx context.Context, id uuid.UUID) error {
	const lock = `SELECT id FROM evaluation_tasks WHERE id = $1 FOR UPDATE`
	const isActive = `SELECT EXISTS (SELECT FROM launches WHERE task_id = $1 AND status IN ('PENDING', 'RUNNING', 'STOPPING'))`
	return s.db.InTx(ctx, "delete the task", func(tx *sqlx.Tx) error {
		var locked uuid.UUID
		if err := tx.GetContext(ctx, &locked, lock, id); err != nil {
			return notFound(KindTask, pg.Classify("lock the task", err))
		}
		var active bool
		if err := tx.GetContext(ctx, &active, isActive, id); err != nil {
			return pg.Classify("look for an active launch", err)
		}
		if active {
			return ErrConflict
		}
		if _, err := deleteRuns(ctx, tx, id, true); err != nil {
			return err
		}
		if _, err := deleteUnits(ctx, tx, id); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM evaluation_tasks WHERE id = $1`, id); err != nil {
			return pg.Classify("delete the task", err)
		}
		return notify(ctx, tx, id)
	})
}

// containing returns a pattern for ILIKE that matches text anywhere; empty for an empty text.
func containing(text string) string {
	if text == "" {
		return ""
	}
	return "%" + likeEscaper.Replace(text) + "%"
}

// likeEscaper escapes LIKE wildcards.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
