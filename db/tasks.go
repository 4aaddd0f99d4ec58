package db

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// TaskStatus is where a task stands (design: PENDING → RUNNING → SUCCEEDED, FAILED or STOPPED).
type TaskStatus string

// The states of a task. FAILED is for faults of the system: a task whose every call failed SUCCEEDED.
const (
	TaskPending   TaskStatus = "PENDING"
	TaskRunning   TaskStatus = "RUNNING"
	TaskSucceeded TaskStatus = "SUCCEEDED"
	TaskFailed    TaskStatus = "FAILED"
	TaskStopped   TaskStatus = "STOPPED"
)

// TaskStatuses are all states in the order of a task's life.
var TaskStatuses = []TaskStatus{TaskPending, TaskRunning, TaskSucceeded, TaskFailed, TaskStopped}

// IsActive says whether the task may still change by itself.
func (s TaskStatus) IsActive() bool { return s == TaskPending || s == TaskRunning }

// HasResults says whether the task's results may be viewed and exported.
func (s TaskStatus) HasResults() bool { return s == TaskSucceeded || s == TaskStopped }

// Task is a row of evaluation_tasks.
type Task struct {
	ID       uuid.UUID `db:"id"`
	Name     string    `db:"task_name"`
	AgentURL string    `db:"agent_api_url"`
	// SealedHeaders are the agent's headers, encrypted; nil when the task has none.
	SealedHeaders []byte  `db:"agent_api_headers"`
	AgentModel    *string `db:"agent_model"`
	// ExtraPayload is a JSON object merged into every request body; nil when there is none.
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
	Processed     int            `db:"progress_processed"`
	CreatedAt     time.Time      `db:"created_at"`
	UpdatedAt     time.Time      `db:"updated_at"`
	StartedAt     *time.Time     `db:"started_at"`
	CompletedAt   *time.Time     `db:"completed_at"`
	// IsLaunched says whether the task was ever started; a PENDING task that was not is a draft.
	IsLaunched bool `db:"is_launched"`
	// IsStopping says that a stop was asked for and the last calls are still on their way.
	IsStopping bool `db:"is_stopping"`
}

// IsDraft says whether the task waits to be started by somebody.
func (t Task) IsDraft() bool { return t.Status == TaskPending && !t.IsLaunched }

const taskColumns = `id, task_name, agent_api_url, agent_api_headers, agent_model, extra_payload, status,
	failure_code, runs_per_item, timeout_seconds, max_retries, use_stream, concurrency, rate_limit,
	dataset_name, dataset_extension, variable_names, total_items, progress_processed,
	created_at, updated_at, started_at, completed_at,
	EXISTS (SELECT 1 FROM launches WHERE task_id = evaluation_tasks.id) AS is_launched,
	EXISTS (SELECT 1 FROM launches WHERE task_id = evaluation_tasks.id AND status = 'STOPPING') AS is_stopping`

// NewTask is what CreateTask stores: the task, its questions and how its first launch runs.
type NewTask struct {
	Task  Task // ID, settings and dataset; status, progress and times are the database's
	Items []NewItem
	// Launch is the first launch; nil: the task is a draft.
	Launch *NewLaunch
}

// CreateTask stores a task, its items and, unless it is a draft, its first launch in one transaction. It
// returns the launch's id; uuid.Nil for a draft.
func (s *Store) CreateTask(ctx context.Context, n NewTask) (launchID uuid.UUID, err error) {
	const insertTask = `INSERT INTO evaluation_tasks
		(id, task_name, agent_api_url, agent_api_headers, agent_model, extra_payload, runs_per_item, timeout_seconds,
		 max_retries, use_stream, concurrency, rate_limit, dataset_name, dataset_extension, variable_names, total_items)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`
	t := n.Task
	err = s.inTx(ctx, "create the task", func(tx *sqlx.Tx) error {
		names := t.VariableNames
		if names == nil {
			names = pq.StringArray{}
		}
		if _, err := tx.ExecContext(ctx, insertTask, t.ID, t.Name, t.AgentURL, t.SealedHeaders, t.AgentModel,
			t.ExtraPayload, t.RunsPerItem, t.TimeoutSeconds, t.MaxRetries, t.UseStream, t.Concurrency, t.RateLimit,
			t.DatasetName, t.DatasetExtension, names, len(n.Items)); err != nil {
			return classify("store the task", err)
		}
		if err := insertItems(ctx, tx, t.ID, n.Items); err != nil {
			return err
		}
		if n.Launch == nil {
			return nil
		}
		launchID, err = insertLaunch(ctx, tx, t.ID, LaunchSubmit, nil, *n.Launch)
		return err
	})
	return launchID, err
}

// Task returns one task, or ErrNotFound.
func (s *Store) Task(ctx context.Context, id uuid.UUID) (Task, error) {
	var t Task
	err := s.db.GetContext(ctx, &t, `SELECT `+taskColumns+` FROM evaluation_tasks WHERE id = $1`, id)
	return t, classify("read the task", err)
}

// TaskFilter narrows a list of tasks; its zero value takes all.
type TaskFilter struct {
	Statuses []TaskStatus
	// NameContains is matched anywhere in the name, without regard to case.
	NameContains string
}

// Tasks returns one page of the tasks that fit, newest first, and how many fit in all.
func (s *Store) Tasks(ctx context.Context, filter TaskFilter, page Page) (tasks []Task, total int, err error) {
	const where = ` FROM evaluation_tasks
		WHERE ($1 = '{}'::text[] OR status = ANY ($1)) AND ($2 = '' OR task_name ILIKE $2)`
	statuses := make(pq.StringArray, 0, len(filter.Statuses))
	for _, status := range filter.Statuses {
		statuses = append(statuses, string(status))
	}
	name := ""
	if filter.NameContains != "" {
		name = "%" + likeEscaper.Replace(filter.NameContains) + "%"
	}
	if err := s.db.GetContext(ctx, &total, `SELECT count(*)`+where, statuses, name); err != nil {
		return nil, 0, classify("count the tasks", err)
	}
	err = s.db.SelectContext(ctx, &tasks, `SELECT `+taskColumns+where+
		` ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4`, statuses, name, page.Size, page.offset())
	return tasks, total, classify("list the tasks", err)
}

// HasTasks says whether any task exists.
func (s *Store) HasTasks(ctx context.Context) (bool, error) {
	var has bool
	err := s.db.GetContext(ctx, &has, `SELECT EXISTS (SELECT 1 FROM evaluation_tasks)`)
	return has, classify("look for tasks", err)
}

// DeleteTask removes a task with everything of it. A task that is at work is ErrConflict: it must be stopped
// before.
func (s *Store) DeleteTask(ctx context.Context, id uuid.UUID) error {
	const lock = `SELECT id FROM evaluation_tasks WHERE id = $1 FOR UPDATE`
	const isActive = `SELECT EXISTS (SELECT 1 FROM launches WHERE task_id = $1 AND status IN ('PENDING', 'RUNNING', 'STOPPING'))`
	return s.inTx(ctx, "delete the task", func(tx *sqlx.Tx) error {
		var locked uuid.UUID
		if err := tx.GetContext(ctx, &locked, lock, id); err != nil {
			return classify("lock the task", err)
		}
		var active bool
		if err := tx.GetContext(ctx, &active, isActive, id); err != nil {
			return classify("look for a launch at work", err)
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
			return classify("delete the task", err)
		}
		return notify(ctx, tx, id)
	})
}

// likeEscaper takes the special meaning from a text that goes into LIKE.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
