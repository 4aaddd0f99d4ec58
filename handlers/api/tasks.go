package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/report"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
)

// Created is the response to creating a task or requesting an action on one.
type Created struct {
	TaskID string        `json:"task_id" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	Status db.TaskStatus `json:"status" example:"PENDING"`
}

type createdOutput struct{ Body Created }

type processed struct {
	Processed int `json:"processed" doc:"Questions that have all their runs" example:"12"`
	Total     int `json:"total" doc:"Questions of the task" example:"100"`
}

// Summary is a task in a list.
type Summary struct {
	Created
	TaskName    string      `json:"task_name" example:"A模型V1.2稳定性测试"`
	FailureCode *string     `json:"failure_code" doc:"Internal fault; null unless the task FAILED" example:"SECRET_KEY_CHANGED"`
	Progress    processed   `json:"progress"`
	CreatedAt   rest.Moment `json:"created_at"`
	UpdatedAt   rest.Moment `json:"updated_at"`
}

func newSummary(task db.Task) Summary {
	done := task.Processed
	if task.Status == db.TaskPending {
		done = 0
	}
	return Summary{
		Created: newCreated(task), TaskName: task.Name, FailureCode: task.FailureCode,
		Progress:  processed{Processed: done, Total: task.TotalItems},
		CreatedAt: rest.Moment(task.CreatedAt), UpdatedAt: rest.Moment(task.UpdatedAt),
	}
}

func newCreated(task db.Task) Created { return Created{TaskID: task.ID.String(), Status: task.Status} }

// detail is a task with its settings and statistics. Headers and the extra payload may contain secrets, so it only
// shows whether they exist.
type detail struct {
	Summary
	Variants        []Variant         `json:"variants"`
	Evaluators      []TaskEvaluator   `json:"evaluators" doc:"What judges the answers"`
	Channels        []uuid.UUID       `json:"channels" doc:"Who is told what becomes of it"`
	ScheduleID      *uuid.UUID        `json:"schedule_id" doc:"The schedule that made it; null: a person did"`
	TotalRuns       int               `json:"total_runs" doc:"Questions × variants × runs_per_item, and the runs of single questions that were planned beyond it" example:"500"`
	AgentURL        string            `json:"agent_api_url" doc:"Without its query, which may hold a secret" example:"https://agent.example/run"`
	AgentModel      *string           `json:"agent_model" example:"v1.2"`
	HasHeaders      bool              `json:"has_agent_api_headers"`
	HasExtraPayload bool              `json:"has_extra_payload"`
	RunsPerItem     int               `json:"runs_per_item" example:"5"`
	TimeoutSeconds  int               `json:"timeout_seconds" example:"30"`
	MaxRetries      int               `json:"max_retries" example:"1"`
	UseStream       bool              `json:"use_stream"`
	Concurrency     int               `json:"concurrency" example:"4"`
	RateLimit       string            `json:"rate_limit" example:"10/s"`
	MaxCost         *string           `json:"max_cost" doc:"What it may cost in each currency, a decimal number; null: any amount" example:"5"`
	StopReason      *string           `json:"stop_reason" values:"stop reasons" doc:"Why the newest launch was stopped, if not by a person" example:"BUDGET_TASK"`
	DatasetName     string            `json:"dataset_name" example:"questions.csv"`
	OnTurnFailure   db.OnTurnFailure  `json:"on_turn_failure" doc:"What follows a turn of a conversation that did not succeed" example:"stop"`
	ClusterBy       *string           `json:"cluster_by" doc:"Column whose values group questions that are not independent; null: only the turns of a conversation are" example:"document"`
	Adaptive        *db.Adaptive      `json:"adaptive" doc:"Questions are asked again until they are settled; null: all equally often"`
	CreatedBy       string            `json:"created_by" doc:"Address that created the task; empty for tasks of older versions" example:"10.0.0.7"`
	StartedAt       *rest.Moment      `json:"started_at"`
	CompletedAt     *rest.Moment      `json:"completed_at"`
	IsFinal         bool              `json:"is_final" doc:"False while a launch is active, so that results may still change"`
	Statistics      db.TaskStatistics `json:"statistics"`
}

func newDetail(task db.Task, statistics db.TaskStatistics) detail {
	target := task.TypedTarget()
	return detail{
		Summary: newSummary(task), Variants: newVariants(task.Variants, task.Targets), Evaluators: newEvaluators(task.Evaluators), ScheduleID: task.ScheduleID, TotalRuns: task.TotalRuns(),
		AgentURL: task.ShownURL(), AgentModel: target.Model, HasHeaders: target.SealedHeaders != nil,
		HasExtraPayload: target.SealedPayload != nil, RunsPerItem: task.RunsPerItem, TimeoutSeconds: task.TimeoutSeconds,
		MaxRetries: task.MaxRetries, UseStream: task.UseStream, Concurrency: task.Concurrency, RateLimit: target.RateLimit, MaxCost: task.MaxCost, StopReason: task.StopReason,
		DatasetName: task.DatasetName, OnTurnFailure: task.OnTurnFailure, ClusterBy: task.ClusterBy, Adaptive: task.Adaptive, CreatedBy: task.CreatedBy,
		StartedAt: rest.MomentOf(task.StartedAt), CompletedAt: rest.MomentOf(task.CompletedAt), IsFinal: !task.Status.IsActive(), Statistics: statistics,
	}
}

// TaskFields are the fields of a form for a task.
type taskFields struct {
	TaskName     string `json:"task_name" doc:"1–64 characters" minLength:"1" maxLength:"64" example:"A模型V1.2稳定性测试"`
	AgentURL     string `json:"agent_api_url,omitempty" doc:"Address that takes POST requests, http or https; required unless models or agents are given" format:"uri" maxLength:"2048" example:"https://agent.example/run"`
	DatasetFile  string `json:"dataset_file,omitempty" doc:"CSV (UTF-8), XLSX or XLS, at most 5 MB and 1,000 rows, with the columns question and standard_answer" format:"binary"`
	Encoding     string `json:"dataset_encoding,omitempty" enum:"gb18030" doc:"Encoding of a CSV file that is not UTF-8"`
	ID           string `json:"column_question_id,omitempty" doc:"Column of the file that holds the ids, if it is not question_id" example:"编号"`
	Question     string `json:"column_question,omitempty" doc:"Column of the file that holds the questions, if it is not question" example:"prompt"`
	Answer       string `json:"column_standard_answer,omitempty" doc:"Column of the file that holds the standard answers, if it is not standard_answer" example:"参考答案"`
	AgentHeaders string `json:"agent_api_headers,omitempty" doc:"JSON object mapping header names to values; stored encrypted, never returned" example:"{\"Authorization\": \"Bearer …\"}"`
	AgentModel   string `json:"agent_model,omitempty" maxLength:"200" example:"v1.2"`
	RunsPerItem  int    `json:"runs_per_item,omitempty" minimum:"1" maximum:"20" doc:"How often each question is asked" example:"5"`
	Timeout      int    `json:"timeout_seconds,omitempty" minimum:"1" maximum:"3600" doc:"For a whole call" example:"30"`
	MaxRetries   int    `json:"max_retries,omitempty" minimum:"0" maximum:"5" doc:"After what retry_on of a saved agent or model names; otherwise after a timeout or network error" example:"1"`
	UseStream    bool   `json:"use_stream,omitempty" doc:"Ask the agent to stream"`
	Concurrency  int    `json:"concurrency,omitempty" minimum:"1" maximum:"64" doc:"Calls at once, over all workers" example:"4"`
	RateLimit    string `json:"rate_limit,omitempty" doc:"N/s, N/m or unlimited; the strictest limit of an agent's running tasks holds for all of them" example:"10/s"`
	MaxCost      string `json:"max_cost,omitempty" doc:"What the task may cost in each currency, a decimal number: when it is reached the launch is stopped" example:"5"`
	TurnFailure  string `json:"on_turn_failure,omitempty" values:"turn failures" doc:"After a turn of a conversation that did not succeed: stop it, or ask the next turn" default:"stop"`
	ClusterBy    string `json:"cluster_by,omitempty" doc:"Column of the questions whose values group those that are not independent, for intervals" example:"document"`
	Adaptive     string `json:"adaptive,omitempty" doc:"JSON object: questions whose most common answer is not settled after runs_per_item runs with this confidence (0.5–0.999) are asked again, one run each round, up to max_runs (3–20)" example:"{\"max_runs\": 10, \"confidence\": 0.95}"`
	ExtraPayload string `json:"extra_payload,omitempty" doc:"JSON object merged into the body of every request, over its own members; at most 64 KiB" example:"{\"session_id\": \"\"}"`
	Start        bool   `json:"start,omitempty" doc:"false stores a draft, which run starts" default:"true"`
	librarySelection
}

// librarySelection lists the library entries that a task uses.
type librarySelection struct {
	Dataset string   `json:"dataset,omitempty" doc:"Saved dataset instead of dataset_file: <id> or <id>@<version>"`
	Prompts []string `json:"prompts,omitempty" doc:"Saved prompts: <id> or <id>@<version>; repeat the field in a form"`
	Models  []string `json:"models,omitempty" doc:"Saved models, by their ids"`
	Agents  []string `json:"agents,omitempty" doc:"Saved agents, by their ids"`
	// Evaluators are at most ten in number.
	Evaluators []string `json:"evaluators,omitempty" doc:"Saved evaluators, at most ten: <id> or <id>@<version>"`
	Channels   []string `json:"channels,omitempty" doc:"Saved channels, by their ids; without the field those that are told by default"`
}

// changeFields are the fields that replace those of the copied task; none is required.
type changeFields struct {
	TaskName     string `json:"task_name,omitempty" minLength:"1" maxLength:"64" example:"A模型V1.3稳定性测试"`
	AgentURL     string `json:"agent_api_url,omitempty" format:"uri" maxLength:"2048"`
	DatasetFile  string `json:"dataset_file,omitempty" format:"binary"`
	Encoding     string `json:"dataset_encoding,omitempty" enum:"gb18030" doc:"Encoding of a CSV file that is not UTF-8"`
	ID           string `json:"column_question_id,omitempty" doc:"Column of the file that holds the ids, if it is not question_id" example:"编号"`
	Question     string `json:"column_question,omitempty" doc:"Column of the file that holds the questions, if it is not question" example:"prompt"`
	Answer       string `json:"column_standard_answer,omitempty" doc:"Column of the file that holds the standard answers, if it is not standard_answer" example:"参考答案"`
	AgentHeaders string `json:"agent_api_headers,omitempty"`
	AgentModel   string `json:"agent_model,omitempty" maxLength:"200"`
	RunsPerItem  int    `json:"runs_per_item,omitempty" minimum:"1" maximum:"20"`
	Timeout      int    `json:"timeout_seconds,omitempty" minimum:"1" maximum:"3600"`
	MaxRetries   int    `json:"max_retries,omitempty" minimum:"0" maximum:"5"`
	UseStream    bool   `json:"use_stream,omitempty"`
	Concurrency  int    `json:"concurrency,omitempty" minimum:"1" maximum:"64"`
	RateLimit    string `json:"rate_limit,omitempty"`
	MaxCost      string `json:"max_cost,omitempty"`
	TurnFailure  string `json:"on_turn_failure,omitempty" values:"turn failures"`
	ClusterBy    string `json:"cluster_by,omitempty"`
	Adaptive     string `json:"adaptive,omitempty"`
	ExtraPayload string `json:"extra_payload,omitempty"`
	Start        bool   `json:"start,omitempty"`
	librarySelection
}

type listInput struct {
	rest.PageQuery
	Status []string `query:"status,explode" doc:"Only tasks in these states; repeatable or comma-separated" example:"RUNNING"`
	Query  string   `query:"query" doc:"Only tasks whose name contains this text, without regard to case" example:"V1.2"`
}

type listOutput struct {
	Body struct {
		Items      []Summary       `json:"items"`
		Pagination rest.Pagination `json:"pagination"`
	}
}

type taskInput struct{ TaskPath }

type taskOutput struct{ Body detail }

type cloneInput struct {
	TaskPath
	rest.FormInput
}

// createFaults are the error codes of creating a task.
var createFaults = []string{
	request.CodeTaskNameRequired, request.CodeTaskNameTooLong, request.CodeAgentURLRequired, request.CodeAgentURLInvalid, request.CodeAgentURLNotAllowed, request.CodeAgentHeadersInvalid,
	request.CodeDatasetRequired, request.CodeDatasetTooLarge, dataset.CodeFormatUnsupported, dataset.CodeUnreadable, dataset.CodeTooComplex, dataset.CodeSchemaInvalid, dataset.CodeEmpty,
	dataset.CodeTooManyRows, dataset.CodeEncodingInvalid, dataset.CodeDuplicateID, dataset.CodeRowInvalid, request.CodeTaskTooLarge, request.CodeParameterInvalid,
	request.CodeRequestInvalid, request.CodeRequestTooLarge,
}

func (h *handler) registerTasks(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	body := rest.Multipart[taskFields](schemas, true)
	body.Content["application/json"] = body.Content["multipart/form-data"]
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath, ID: "create-task", Tag: "tasks", Status: http.StatusCreated,
		Summary:     "Create a task from a file of questions",
		Description: "The task starts at once unless `start` is false. A file that is refused comes with everything that is wrong with its rows.",
		Faults:      createFaults, Body: body,
	}, h.createTask)
	h.registerEstimate(api)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath, ID: "list-tasks", Tag: "tasks", Summary: "List tasks, newest first", Faults: []string{request.CodeParameterInvalid},
	}, h.listTasks)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}", ID: "get-task", Tag: "tasks", Summary: "Get a task with its settings and statistics",
		Faults: []string{request.CodeTaskNotFound},
	}, h.getTask)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/statistics", ID: "get-statistics", Tag: "tasks", Summary: "Get how alike and how quick a task's answers are",
		Faults: []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.getStatistics)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: tasksPath + "/{task_id}", ID: "delete-task", Tag: "tasks", Status: http.StatusNoContent,
		Summary: "Delete a task and all its data", Faults: []string{request.CodeTaskNotFound, request.CodeTaskStateConflict},
	}, h.deleteTask)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/clone", ID: "clone-task", Tag: "tasks", Status: http.StatusCreated,
		Summary:     "Create a task with the settings and questions of another",
		Description: "Fields that are sent replace the other task's. Headers, payload and the URL's query go to an agent at the same origin only.",
		Faults:      append([]string{request.CodeTaskNotFound}, createFaults...), Body: rest.Multipart[changeFields](schemas, false),
	}, h.cloneTask)
}

func (h *handler) createTask(ctx context.Context, input *rest.FormInput) (*createdTaskOutput, error) {
	return h.create(ctx, input.Form, tasks.New{Settings: h.Defaults})
}

// cloneTask copies a task; the copy's name gets a suffix unless the request sends a name.
func (h *handler) cloneTask(ctx context.Context, input *cloneInput) (*createdTaskOutput, error) {
	source, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	if err := rest.Admit(ctx, input.Form); err != nil {
		return nil, err
	}
	base, err := h.Tasks.Copy(ctx, source)
	if err != nil {
		return nil, err
	}
	base.Name = form.CopyName(ctx, source.Name)
	return h.create(ctx, input.Form, base)
}

func (h *handler) create(ctx context.Context, submitted *form.Upload, base tasks.New) (*createdTaskOutput, error) {
	n, err := h.read(ctx, submitted, base)
	if err != nil {
		return nil, err
	}
	id, err := h.Tasks.Create(ctx, request.ScopeOf(ctx), request.From(ctx).Actor, n)
	if err != nil {
		return nil, err
	}
	request.Made(ctx, id.String(), n.Name)
	return &createdTaskOutput{createdTask{
		Created: Created{TaskID: id.String(), Status: db.TaskPending}, Calls: n.Calls(), JudgeCalls: n.JudgeCalls(), Variants: newVariants(n.AllVariants(), bare(n.AllTargets())),
		Evaluators: newEvaluators(n.BareEvaluators()), Warnings: newWarnings(ctx, n.Warnings()),
	}}, nil
}

func (h *handler) listTasks(ctx context.Context, input *listInput) (*listOutput, error) {
	filter := report.TaskFilter{NameContains: request.SearchText(input.Query)}
	for _, list := range input.Status {
		for name := range strings.SplitSeq(list, ",") {
			status := db.TaskStatus(strings.TrimSpace(name))
			if status == "" {
				continue
			}
			if !slices.Contains(db.TaskStatuses, status) {
				return nil, request.ParameterFault("status", request.OneOf(statusNames()...))
			}
			filter.Statuses = append(filter.Statuses, status)
		}
	}
	found, total, err := report.NewTaskList(h.Store).Tasks(ctx, request.ScopeOf(ctx), filter, input.Window())
	if err != nil {
		return nil, err
	}
	output := &listOutput{}
	output.Body.Items, output.Body.Pagination = []Summary{}, rest.NewPagination(input.Window(), total)
	for _, task := range found {
		output.Body.Items = append(output.Body.Items, newSummary(task))
	}
	return output, nil
}

func statusNames() (names []string) {
	for _, status := range db.TaskStatuses {
		names = append(names, string(status))
	}
	return names
}

func (h *handler) getTask(ctx context.Context, input *taskInput) (*taskOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	statistics, err := h.Store.TaskStatistics(ctx, task)
	if err != nil {
		return nil, err
	}
	body := newDetail(task, statistics)
	body.Channels, err = h.Tasks.Channels(ctx, task.ID)
	return &taskOutput{Body: body}, err
}

func (h *handler) deleteTask(ctx context.Context, input *taskInput) (*struct{}, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	return nil, form.Delete(ctx, h.Tasks, task)
}
