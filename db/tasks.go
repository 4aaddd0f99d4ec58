package db

import (
	"context"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/outbox"
	"wending/db/pg"
)

// TaskStatus is the state of a task: PENDING → RUNNING → SUCCEEDED, FAILED or STOPPED. A later launch begins at
// RUNNING.
type TaskStatus string

// The states of a task. FAILED means an internal fault: a task whose calls have all failed still ends as SUCCEEDED.
const (
	TaskPending   TaskStatus = "PENDING"
	TaskRunning   TaskStatus = "RUNNING"
	TaskSucceeded TaskStatus = "SUCCEEDED"
	TaskFailed    TaskStatus = "FAILED"
	TaskStopped   TaskStatus = "STOPPED"
)

// TaskStatuses lists all states in the order in which a task passes through them.
var TaskStatuses = []TaskStatus{TaskPending, TaskRunning, TaskSucceeded, TaskFailed, TaskStopped}

// OnTurnFailure is what happens after a turn of a conversation fails.
type OnTurnFailure string

// The conversation either stops, so that its further turns are not reached, or continues with the next turn.
const (
	TurnFailureStops     OnTurnFailure = "stop"
	TurnFailureContinues OnTurnFailure = "continue"
)

// OnTurnFailures lists both values.
var OnTurnFailures = []OnTurnFailure{TurnFailureStops, TurnFailureContinues}

// IsActive reports whether the task is waiting or running.
func (s TaskStatus) IsActive() bool { return s == TaskPending || s == TaskRunning }

// Task is a row of evaluation_tasks.
type Task struct {
	ID               uuid.UUID  `db:"id"`
	Name             string     `db:"task_name"`
	Status           TaskStatus `db:"status"`
	FailureCode      *string    `db:"failure_code"`
	RunsPerItem      int        `db:"runs_per_item"`
	TimeoutSeconds   int        `db:"timeout_seconds"`
	MaxRetries       int        `db:"max_retries"`
	UseStream        bool       `db:"use_stream"`
	Concurrency      int        `db:"concurrency"`
	DatasetName      string     `db:"dataset_name"`
	DatasetExtension string     `db:"dataset_extension"`
	// IDColumn, QuestionColumn and AnswerColumn are the columns of the file used as question_id, question and
	// standard_answer; empty means the columns with those names. DatasetEncoding is the encoding of a CSV file;
	// empty means UTF-8.
	IDColumn        string `db:"id_column"`
	QuestionColumn  string `db:"question_column"`
	AnswerColumn    string `db:"answer_column"`
	DatasetEncoding string `db:"dataset_encoding"`
	// DatasetID and DatasetVersion identify the saved dataset that the questions were copied from; nil means an upload.
	DatasetID      *uuid.UUID `db:"dataset_id"`
	DatasetVersion *int       `db:"dataset_version"`
	// VariableNames are the dataset's other columns, in the file's order.
	VariableNames pq.StringArray `db:"variable_names"`
	TotalItems    int            `db:"total_items"`
	TotalVariants int            `db:"total_variants"`
	// AppendedItems is the number of items that were added later and are therefore not in the task's file.
	AppendedItems int `db:"appended_items"`
	OpenComments  int `db:"open_comments"` // readers' comments that nobody has marked as done
	// TotalConversations is the number of conversations, and OnTurnFailure says what happens after a turn fails.
	TotalConversations int           `db:"total_conversations"`
	OnTurnFailure      OnTurnFailure `db:"on_turn_failure"`
	// ClusterBy is the column whose values group questions that are not independent; nil means that only the turns of
	// a conversation are grouped.
	ClusterBy *string `db:"cluster_by"`
	// Adaptive holds the settings for repeating questions until they are settled; nil means that all questions get
	// the same number of runs. ExtraRuns is the total number of runs planned beyond RunsPerItem.
	Adaptive  *Adaptive `db:"adaptive"`
	ExtraRuns int       `db:"extra_runs"`
	// MeaningTarget is the number of the judge that groups answers by meaning; nil means that answers are not grouped.
	MeaningTarget *int `db:"meaning_target"`
	// AnswersFrom is the format of the file that the answers came from; nil means that the task asks agents.
	AnswersFrom *string `db:"answers_from"`
	ReviewSettings
	// Targets are the agents and models that the task calls, and Variants the variants that it compares, each in the order
	// of their numbers, which begin at 1.
	Targets  []Target  `db:"-"`
	Variants []Variant `db:"-"`
	// Judges are the models that judge and group answers. Their numbers follow the targets' numbers.
	Judges []Target `db:"-"`
	// Evaluators judge the task's answers, in the order of their numbers; without evaluators, answers are not judged.
	Evaluators []Evaluator `db:"-"`
	// Processed is how many questions have all their runs: live while a launch runs, final after that.
	Processed int `db:"processed"`
	// Final are the statistics of the current runs; nil while the task is active.
	Final *TaskStatistics `db:"statistics"`
	// Unsuccessful is how many current runs did not succeed.
	Unsuccessful int       `db:"-"`
	ProjectID    uuid.UUID `db:"project_id"`
	// ScheduleID is the schedule that created the task as a copy of another; nil for tasks that people created.
	ScheduleID *uuid.UUID `db:"schedule_id"`
	// MaxCost is the maximum cost in each currency, a decimal number; nil means no limit. StopReason is why the
	// newest launch was stopped; nil if it was not, or if a person stopped it.
	MaxCost    *string `db:"max_cost"`
	StopReason *string `db:"stop_reason"`
	// CreatedBy is the name or, without accounts, the address of the task's creator; empty for tasks created by older
	// versions.
	CreatedBy string    `db:"created_by"`
	CreatedAt time.Time `db:"created_at"`
	// UpdatedAt changes whenever the task changes, and with each run that a launch records.
	UpdatedAt   time.Time  `db:"updated_at"`
	StartedAt   *time.Time `db:"started_at"`
	CompletedAt *time.Time `db:"completed_at"`
	// IsLaunched reports whether the task was ever started; a PENDING task that was never started is a draft.
	IsLaunched bool `db:"is_launched"`
	// IsStopping reports that a stop was requested while the last calls are still in flight.
	IsStopping bool `db:"is_stopping"`
	// HasResults reports whether the task's results may be viewed and exported, which is the case once one of its launches
	// has ended. They are final unless the task is active again.
	HasResults bool `db:"has_results"`
}

// IsDraft reports whether the task waits for a user to start it.
func (t Task) IsDraft() bool { return t.Status == TaskPending && !t.IsLaunched }

// AsksAgents reports whether the task asks agents, so that runs can be repeated and added; otherwise its answers came
// from a file.
func (t Task) AsksAgents() bool { return t.AnswersFrom == nil }

// CheckAsking returns ErrAsksNobody if the task asks no agents.
func (t Task) CheckAsking() error {
	if t.AsksAgents() {
		return nil
	}
	return ErrAsksNobody
}

// IsPlain reports whether the task sends its questions unchanged to one typed address.
func (t Task) IsPlain() bool {
	return len(t.Targets) == 1 && t.Targets[0].Kind == TargetURL && len(t.Variants) == 1 && t.Variants[0].PromptID == nil
}

// TypedTarget returns the target whose address was typed; the zero value if there is none.
func (t Task) TypedTarget() Target {
	for _, target := range t.Targets {
		if target.Kind == TargetURL {
			return target
		}
	}
	return Target{}
}

// HasTypedAgent reports whether the task calls an address that was typed.
func (t Task) HasTypedAgent() bool {
	return slices.ContainsFunc(t.Targets, func(target Target) bool { return target.Kind == TargetURL })
}

// Target returns the target or judge with the given number, which must exist.
func (t Task) Target(number int) Target {
	if number <= len(t.Targets) {
		return t.Targets[number-1]
	}
	return t.Judges[slices.IndexFunc(t.Judges, func(judge Target) bool { return judge.Number == number })]
}

// VariantNumbers returns the numbers of the task's variants.
func (t Task) VariantNumbers() []int {
	numbers := make([]int, len(t.Variants))
	for n, variant := range t.Variants {
		numbers[n] = variant.Number
	}
	return numbers
}

// RunsOfItem returns the number of runs planned for a question without additional runs, over all variants.
func (t Task) RunsOfItem() int { return t.RunsPerItem * t.TotalVariants }

// TotalRuns returns how many runs of the task are planned.
func (t Task) TotalRuns() int { return t.TotalItems*t.RunsOfItem() + t.ExtraRuns }

// taskColumns are the stored columns of a Task, from the table t.
const taskColumns = `
		t.id, t.task_name, t.status, t.failure_code, t.runs_per_item, t.timeout_seconds, t.max_retries, t.use_stream,
		t.concurrency, t.dataset_name, t.dataset_extension, t.id_column, t.question_column, t.answer_column,
		t.dataset_encoding, t.dataset_id, t.dataset_version, t.variable_names, t.total_items, t.total_variants,
		t.total_conversations, t.appended_items, t.on_turn_failure, t.cluster_by, t.adaptive, t.extra_runs, t.meaning_target,
		t.answers_from, t.is_blind_review, t.hides_reviews, t.reviewers_per_item, t.project_id, t.schedule_id,
		trim_scale(t.max_cost) AS max_cost, t.created_by, t.created_at, t.started_at, t.completed_at, t.statistics,
		t.open_comments`

// listedTasks selects the stored columns of the tasks of $1 (an array of ids) in the scope $2, newest first, with the
// newest launch. A task has results if that launch is not its first, because only a task that has ended is launched
// again.
func listedTasks() string {
	return `
	SELECT ` + taskColumns + `,
		t.processed_items AS processed,
		CASE
			-- The newest run is at the end of an index, so that recording a run need not update the task's row.
			WHEN newest.status IN ('RUNNING', 'STOPPING') THEN greatest(t.updated_at,
				(SELECT created_at FROM evaluation_runs WHERE launch_id = newest.id ORDER BY id DESC LIMIT 1))
			ELSE t.updated_at
		END AS updated_at,
		newest.id IS NOT NULL AS is_launched, newest.stop_reason,
		coalesce(newest.status = 'STOPPING', false) AS is_stopping,
		coalesce(newest.number > 1 OR newest.finished_at IS NOT NULL, false) AS has_results,
		CASE WHEN newest.status IN ('RUNNING', 'STOPPING') AND newest.started_at IS NOT NULL THEN newest.id END AS at_work
	FROM evaluation_tasks t
	LEFT JOIN LATERAL (
		SELECT id, number, status, stop_reason, started_at, finished_at
		FROM launches
		WHERE task_id = t.id
		ORDER BY number DESC
		LIMIT 1) newest ON true
	WHERE t.id = ANY ($1) AND ` + Within("t.project_id", "$2") + `
	ORDER BY t.created_at DESC, t.id DESC`
}

// countWork counts the work of the launches $1 (an array of ids): a question is processed if the launch does not
// repeat it, or if all its units are done.
const countWork = `
	SELECT l.task_id, l.kept_items + work.done_items AS processed, l.kept_failed + work.failed AS unsuccessful
	FROM launches l
	CROSS JOIN LATERAL (
		SELECT count(*) FILTER (WHERE is_done) AS done_items, coalesce(sum(failed), 0)::int AS failed
		FROM (
			SELECT bool_and(state = 'DONE') AS is_done, count(*) FILTER (WHERE outcome <> 'SUCCEEDED') AS failed
			FROM units
			WHERE launch_id = l.id AND evaluator = 0
			GROUP BY item_id) items) work
	WHERE l.id = ANY ($1)`

// countTurns is like countWork, but for launches that ask conversations; it counts each turn as a question.
const countTurns = `
	SELECT l.task_id, l.kept_items + work.done_items AS processed, l.kept_failed + work.failed AS unsuccessful
	FROM launches l
	CROSS JOIN LATERAL (
		SELECT count(*) FILTER (WHERE is_done) AS done_items, coalesce(sum(failed), 0)::int AS failed
		FROM (
			SELECT bool_and(u.state = 'DONE' OR r.id IS NOT NULL) AS is_done,
			count(*) FILTER (WHERE r.status <> 'SUCCEEDED') AS failed
			FROM units u` + TurnsOfUnit + `
			LEFT JOIN evaluation_runs r ON r.unit_id = u.id AND r.item_id = turn.id
			WHERE u.launch_id = l.id AND u.evaluator = 0
			GROUP BY turn.id) items) work
	WHERE l.id = ANY ($1)`

// NewTask is the input of CreateTask: the task, its questions and the settings of its first launch.
type NewTask struct {
	Task  Task // the id, settings and dataset; the database sets state, progress and times
	Items []NewItem
	// Channels receive messages about the task; nil means the default channels.
	Channels *[]uuid.UUID
	// Launch is the first launch; nil makes the task a draft.
	Launch *NewLaunch
	By     Actor
	// Confirmed are the sensitive patterns that somebody confirmed for the task, so that it may be started.
	Confirmed []string
}

// row returns the task with its derived columns filled in.
func (n NewTask) row() Task {
	task := n.Task
	task.TotalItems, task.TotalVariants, task.TotalConversations = len(n.Items), len(task.Variants), 0
	for _, item := range n.Items {
		if item.Turn == 1 {
			task.TotalConversations++
		}
	}
	if task.OnTurnFailure == "" {
		task.OnTurnFailure = TurnFailureStops
	}
	if task.VariableNames == nil {
		task.VariableNames = pq.StringArray{}
	}
	return task
}

// ReviewSettings are the settings for reviewing a task.
type ReviewSettings struct {
	IsBlindReview    bool `db:"is_blind_review"`    // hides evaluators' verdicts from a reviewer who has given none
	HidesReviews     bool `db:"hides_reviews"`      // hides other people's verdicts from such a reviewer
	ReviewersPerItem *int `db:"reviewers_per_item"` // how many people review each question; nil means all reviewers
}

// MaxReviewersPerItem is the upper limit of ReviewersPerItem.
const MaxReviewersPerItem = 10

const insertTask = `
	INSERT INTO evaluation_tasks (
		id, task_name, runs_per_item, timeout_seconds, max_retries, use_stream, concurrency, dataset_name,
		dataset_extension, id_column, question_column, answer_column, dataset_encoding, dataset_id, dataset_version,
		variable_names, total_items, total_variants, total_conversations, on_turn_failure, cluster_by, adaptive,
		meaning_target, project_id, schedule_id, max_cost, created_by, answers_from, is_blind_review, hides_reviews,
		reviewers_per_item, confirmed_patterns)
	VALUES (
		:id, :task_name, :runs_per_item, :timeout_seconds, :max_retries, :use_stream, :concurrency, :dataset_name,
		:dataset_extension, :id_column, :question_column, :answer_column, :dataset_encoding, :dataset_id,
		:dataset_version, :variable_names, :total_items, :total_variants, :total_conversations, :on_turn_failure,
		:cluster_by, CAST(:adaptive AS jsonb), :meaning_target, :project_id, :schedule_id, CAST(:max_cost AS numeric),
		:created_by, :answers_from, :is_blind_review, :hides_reviews, :reviewers_per_item, :confirmed_patterns)`

// CreateTask stores a task, its items and, unless it is a draft, its first launch in one transaction. It returns
// the launch's id, which is uuid.Nil for a draft.
func (s *Store) CreateTask(ctx context.Context, n NewTask) (launchID uuid.UUID, err error) {
	err = s.db.InTx(ctx, "create the task", func(tx *sqlx.Tx) error {
		launchID, err = CreateTaskIn(ctx, tx, n)
		return err
	})
	return launchID, err
}

// CreateTaskIn does the work of CreateTask within the caller's transaction. n.Task must name its project.
func CreateTaskIn(ctx context.Context, tx *sqlx.Tx, n NewTask) (launchID uuid.UUID, err error) {
	row := struct {
		Task
		Confirmed pq.StringArray `db:"confirmed_patterns"`
	}{n.row(), append(pq.StringArray{}, n.Confirmed...)}
	row.CreatedBy = n.By.Who()
	task := row.Task
	if _, err := tx.NamedExecContext(ctx, insertTask, row); err != nil {
		return uuid.Nil, pg.Classify("store the task", err)
	}
	if err := replaceTargets(ctx, tx, task); err != nil {
		return uuid.Nil, err
	}
	if err := outbox.SetChannels(ctx, tx, task.ID, n.Channels); err != nil {
		return uuid.Nil, err
	}
	if err := InsertItems(ctx, tx, task.ID, n.Items); err != nil || n.Launch == nil {
		return uuid.Nil, err
	}
	return insertLaunch(ctx, tx, newLaunchRow{TaskID: task.ID, Kind: LaunchSubmit, NewLaunch: *n.Launch})
}

const updateDraft = `
	UPDATE evaluation_tasks t
	SET task_name = :task_name, runs_per_item = :runs_per_item, timeout_seconds = :timeout_seconds,
	max_retries = :max_retries,
		use_stream = :use_stream, concurrency = :concurrency, dataset_name = :dataset_name,
		dataset_extension = :dataset_extension,
		id_column = :id_column, question_column = :question_column, answer_column = :answer_column,
		dataset_encoding = :dataset_encoding, dataset_id = :dataset_id, dataset_version = :dataset_version,
		variable_names = :variable_names, total_items = :total_items,
		total_variants = :total_variants, total_conversations = :total_conversations, on_turn_failure = :on_turn_failure,
		cluster_by = :cluster_by, adaptive = CAST(:adaptive AS jsonb), meaning_target = :meaning_target,
		max_cost = CAST(:max_cost AS numeric), updated_at = now()
	WHERE t.id = :id AND t.project_id = :project_id
	  AND t.status = 'PENDING'
	  AND NOT EXISTS (SELECT FROM launches WHERE task_id = t.id)`

// ReplaceDraft replaces the settings and questions of a draft and, unless it stays one, starts it. keepFile is
// called just before the commit, while the draft is locked. ReplaceDraft returns the launch's id, which is uuid.Nil
// for a draft, and ErrConflict if the task is no longer a draft.
func (s *Store) ReplaceDraft(ctx context.Context, n NewTask, keepFile func() error) (launchID uuid.UUID, err error) {
	task := n.row()
	err = s.db.InTx(ctx, "replace the draft", func(tx *sqlx.Tx) error {
		result, err := tx.NamedExecContext(ctx, updateDraft, task)
		if err := pg.RequireRow("replace the draft", result, err); err != nil {
			return err
		}
		if err := replaceTargets(ctx, tx, task); err != nil {
			return err
		}
		if err := outbox.SetChannels(ctx, tx, task.ID, n.Channels); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM evaluation_items WHERE task_id = $1`, task.ID); err != nil {
			return pg.Classify("remove the draft's questions", err)
		}
		if err := InsertItems(ctx, tx, task.ID, n.Items); err != nil {
			return err
		}
		if n.Launch != nil {
			if launchID, err = insertLaunch(ctx, tx,
				newLaunchRow{TaskID: task.ID, Kind: LaunchSubmit, NewLaunch: *n.Launch}); err != nil {
				return err
			}
		}
		if err := keepFile(); err != nil {
			return err
		}
		return Notify(ctx, tx, task.ID)
	})
	return launchID, err
}

// Scope returns the scope of the task's project, for code that continues to work with the task.
func (t Task) Scope() Scope { return InProject(t.ProjectID) }

// Task returns one task, or ErrNotFound.
func (s *Store) Task(ctx context.Context, scope Scope, id uuid.UUID) (Task, error) {
	return readTask(ctx, s.db, scope, id)
}

// TasksByID returns the existing tasks among ids, newest first.
func (s *Store) TasksByID(ctx context.Context, scope Scope, ids []uuid.UUID) ([]Task, error) {
	return readTasks(ctx, s.db, scope, pq.Array(ids))
}

func readTask(ctx context.Context, db sqlx.QueryerContext, scope Scope, id uuid.UUID) (Task, error) {
	tasks, err := readTasks(ctx, db, scope, pq.Array([]uuid.UUID{id}))
	if err == nil && len(tasks) == 0 {
		err = &NotFoundError{Kind: KindTask}
	}
	if err != nil {
		return Task{}, err
	}
	return tasks[0], nil
}

// readTasks reads the tasks whose ids are in the given SQL array, newest first.
func readTasks(ctx context.Context, db sqlx.QueryerContext, scope Scope, ids driver.Valuer) ([]Task, error) {
	var rows []struct {
		Task
		// AtWork identifies the launch whose units determine the task's progress; nil means that the progress is stored.
		AtWork *uuid.UUID `db:"at_work"`
	}
	if err := sqlx.SelectContext(ctx, db, &rows, listedTasks(), ids, scope); err != nil {
		return nil, pg.Classify("read the tasks", err)
	}
	tasks, place := make([]Task, len(rows)), map[uuid.UUID]*Task{}
	atWork, inTurns := []uuid.UUID{}, []uuid.UUID{}
	for n, row := range rows {
		tasks[n] = row.Task
		if final := row.Final; final != nil {
			tasks[n].Unsuccessful = final.Failed + final.TimedOut
		}
		place[row.ID] = &tasks[n]
		switch {
		case row.AtWork == nil:
		case row.TotalConversations > 0:
			inTurns = append(inTurns, *row.AtWork)
		default:
			atWork = append(atWork, *row.AtWork)
		}
	}
	if err := readTargets(ctx, db, place); err != nil {
		return nil, err
	}
	for statement, launches := range map[string][]uuid.UUID{countWork: atWork, countTurns: inTurns} {
		if err := addWork(ctx, db, place, statement, launches); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}

// addWork fills in the counts of active launches. This is a separate statement, because planning it takes longer
// than reading a task that has ended.
func addWork(ctx context.Context, db sqlx.QueryerContext, tasks map[uuid.UUID]*Task, statement string,
	launches []uuid.UUID) error {
	if len(launches) == 0 {
		return nil
	}
	var counts []struct {
		TaskID       uuid.UUID `db:"task_id"`
		Processed    int       `db:"processed"`
		Unsuccessful int       `db:"unsuccessful"`
	}
	if err := sqlx.SelectContext(ctx, db, &counts, statement, pq.Array(launches)); err != nil {
		return pg.Classify("count the tasks' work", err)
	}
	for _, count := range counts {
		task := tasks[count.TaskID]
		task.Processed, task.Unsuccessful = count.Processed, count.Unsuccessful
	}
	return nil
}
