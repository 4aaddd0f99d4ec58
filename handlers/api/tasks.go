package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/tasklist"
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
	Processed int `json:"processed" doc:"Number of questions whose runs have all ended" example:"12"`
	Total     int `json:"total" doc:"Number of questions in the task" example:"100"`
}

// Summary is a task as lists of tasks contain it.
type Summary struct {
	Created
	TaskName    string      `json:"task_name" example:"A模型V1.2稳定性测试"`
	FailureCode *string     `json:"failure_code" doc:"Why the task FAILED; null otherwise" example:"SECRET_KEY_CHANGED"`
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

// detail is a task with its settings and statistics. Headers and the extra payload may contain secrets, so it only says
// whether they are present.
type detail struct {
	Summary
	Variants        []Variant        `json:"variants"`
	Evaluators      []TaskEvaluator  `json:"evaluators" doc:"The evaluators that judge the answers"`
	Channels        []uuid.UUID      `json:"channels" doc:"Ids of the channels that are notified"`
	ScheduleID      *uuid.UUID       `json:"schedule_id" doc:"Id of the schedule that created the task; null if no schedule did"`
	TotalRuns       int              `json:"total_runs" doc:"Questions × variants × runs_per_item, plus additional runs planned for individual questions" example:"500"`
	AgentURL        string           `json:"agent_api_url" doc:"Address without its query, which may contain a secret" example:"https://agent.example/run"`
	AgentModel      *string          `json:"agent_model" doc:"Model name or version that is sent to the agent; null if there is none" example:"v1.2"`
	HasHeaders      bool             `json:"has_agent_api_headers"`
	HasExtraPayload bool             `json:"has_extra_payload"`
	RunsPerItem     int              `json:"runs_per_item" doc:"Number of times each question is asked" example:"5"`
	TimeoutSeconds  int              `json:"timeout_seconds" doc:"Total time limit of a call, in seconds" example:"30"`
	MaxRetries      int              `json:"max_retries" example:"1"`
	UseStream       bool             `json:"use_stream"`
	Concurrency     int              `json:"concurrency" doc:"Maximum number of simultaneous calls, over all workers" example:"4"`
	RateLimit       string           `json:"rate_limit" doc:"Rate limit of calls to a typed URL: N/s, N/m or unlimited" example:"10/s"`
	MaxCost         *string          `json:"max_cost" doc:"Cost ceiling in each currency, a decimal number; null means no ceiling" example:"5"`
	StopReason      *string          `json:"stop_reason" values:"stop reasons" doc:"Why the newest launch was stopped; null if it was not, or if a person stopped it" example:"BUDGET_TASK"`
	DatasetName     string           `json:"dataset_name" example:"questions.csv"`
	OnTurnFailure   db.OnTurnFailure `json:"on_turn_failure" doc:"What happens after a turn of a conversation fails: stop ends the conversation, continue asks the next turn" example:"stop"`
	ClusterBy       *string          `json:"cluster_by" doc:"Dataset column whose values group questions that are not independent; null if only the turns of a conversation are grouped" example:"document"`
	Adaptive        *db.Adaptive     `json:"adaptive" doc:"Settings for repeating questions until their most common answer is settled; null if all questions have the same number of runs"`
	MeaningModel    *uuid.UUID       `json:"meaning_model" doc:"The saved model that groups answers by meaning; null if they are not grouped"`
	ReviewSettings
	CreatedBy   string            `json:"created_by" doc:"Address that created the task; empty for tasks created by older versions" example:"10.0.0.7"`
	StartedAt   *rest.Moment      `json:"started_at"`
	CompletedAt *rest.Moment      `json:"completed_at"`
	IsFinal     bool              `json:"is_final" doc:"False while a launch is active, because results may still change"`
	Statistics  db.TaskStatistics `json:"statistics"`
}

func newDetail(task db.Task, statistics db.TaskStatistics) detail {
	target := task.TypedTarget()
	var meaningModel *uuid.UUID
	if grouper := task.Grouper(); grouper != nil {
		meaningModel = grouper.LibraryID
	}
	return detail{
		Summary: newSummary(task), Variants: newVariants(task.Variants, task.Targets),
		Evaluators: newEvaluators(task.Evaluators), ScheduleID: task.ScheduleID, TotalRuns: task.TotalRuns(),
		AgentURL: task.ShownURL(), AgentModel: target.Model, HasHeaders: target.SealedHeaders != nil,
		HasExtraPayload: target.SealedPayload != nil, RunsPerItem: task.RunsPerItem, TimeoutSeconds: task.TimeoutSeconds,
		MaxRetries: task.MaxRetries, UseStream: task.UseStream, Concurrency: task.Concurrency, RateLimit: target.RateLimit,
		MaxCost: task.MaxCost, StopReason: task.StopReason,
		DatasetName: task.DatasetName, OnTurnFailure: task.OnTurnFailure, ClusterBy: task.ClusterBy, Adaptive: task.Adaptive,
		MeaningModel: meaningModel, ReviewSettings: ReviewSettings(task.ReviewSettings), CreatedBy: task.CreatedBy,
		StartedAt: rest.MomentOf(task.StartedAt), CompletedAt: rest.MomentOf(task.CompletedAt),
		IsFinal: !task.Status.IsActive(), Statistics: statistics,
	}
}

// taskFields describes the fields of a form for a task.
type taskFields struct {
	TaskName     string `json:"task_name" doc:"1–64 characters" minLength:"1" maxLength:"64" example:"A模型V1.2稳定性测试"`
	AgentURL     string `json:"agent_api_url,omitempty" doc:"http or https address that accepts POST requests; required unless models or agents are given" format:"uri" maxLength:"2048" example:"https://agent.example/run"`
	DatasetFile  string `json:"dataset_file,omitempty" doc:"CSV (UTF-8), XLSX or XLS, at most 5 MB and 1,000 rows, with the columns question and standard_answer" format:"binary"`
	Encoding     string `json:"dataset_encoding,omitempty" enum:"gb18030" doc:"Encoding of a CSV file; absent means UTF-8"`
	ID           string `json:"column_question_id,omitempty" doc:"Name of the column with the ids; the default is question_id" example:"编号"`
	Question     string `json:"column_question,omitempty" doc:"Name of the column with the questions; the default is question" example:"prompt"`
	Answer       string `json:"column_standard_answer,omitempty" doc:"Name of the column with the standard answers; the default is standard_answer" example:"参考答案"`
	AgentHeaders string `json:"agent_api_headers,omitempty" doc:"JSON object mapping header names to values; stored encrypted, never returned" example:"{\"Authorization\": \"Bearer …\"}"`
	AgentModel   string `json:"agent_model,omitempty" doc:"Model name or version that is sent to the agent" maxLength:"200" example:"v1.2"`
	RunsPerItem  int    `json:"runs_per_item,omitempty" minimum:"1" maximum:"20" doc:"Number of times each question is asked; absent means the installation's default" example:"5"`
	Timeout      int    `json:"timeout_seconds,omitempty" minimum:"1" maximum:"3600" doc:"Total time limit of a call, in seconds; absent means the installation's default" example:"30"`
	MaxRetries   int    `json:"max_retries,omitempty" minimum:"0" maximum:"5" doc:"Maximum number of retries after a timeout or network error, or after the failures in retry_on of a saved agent or model; absent means the installation's default" example:"1"`
	UseStream    bool   `json:"use_stream,omitempty" doc:"Whether to ask the agent for a streamed answer; absent means the installation's default"`
	Concurrency  int    `json:"concurrency,omitempty" minimum:"1" maximum:"64" doc:"Maximum number of simultaneous calls, over all workers" example:"4"`
	RateLimit    string `json:"rate_limit,omitempty" doc:"Rate limit of calls to the agent: N/s, N/m or unlimited. The strictest limit of its running tasks applies to all of them. Absent means the installation's default" example:"10/s"`
	MaxCost      string `json:"max_cost,omitempty" doc:"Cost ceiling in each currency, a decimal number; the launch is stopped when it is reached. Absent means no ceiling" example:"5"`
	TurnFailure  string `json:"on_turn_failure,omitempty" values:"turn failures" doc:"What happens after a turn of a conversation fails: stop ends the conversation, continue asks the next turn" default:"stop"`
	ClusterBy    string `json:"cluster_by,omitempty" doc:"Dataset column whose values group questions that are not independent; used for intervals" example:"document"`
	Adaptive     string `json:"adaptive,omitempty" doc:"JSON object {max_runs, confidence}: questions whose most common answer is not settled with this confidence (0.5–0.999) after runs_per_item runs are repeated, one run per round, up to max_runs (3–20)" example:"{\"max_runs\": 10, \"confidence\": 0.95}"`
	ExtraPayload string `json:"extra_payload,omitempty" doc:"JSON object merged into the body of every request, where it overrides existing members; at most 64 KiB" example:"{\"session_id\": \"\"}"`
	Start        bool   `json:"start,omitempty" doc:"false creates a draft, which POST /{task_id}/run starts" default:"true"`
	librarySelection
}

// librarySelection describes the fields that refer to entries of the library.
type librarySelection struct {
	Dataset string   `json:"dataset,omitempty" doc:"Saved dataset to use instead of dataset_file: <id> or <id>@<version>"`
	Prompts []string `json:"prompts,omitempty" doc:"Saved prompts: <id> or <id>@<version>; repeat the field in a form"`
	Models  []string `json:"models,omitempty" doc:"Ids of saved models"`
	Agents  []string `json:"agents,omitempty" doc:"Ids of saved agents"`
	// Evaluators has at most ten elements.
	Evaluators []string `json:"evaluators,omitempty" doc:"Saved evaluators, at most ten: <id> or <id>@<version>"`
	Meaning    string   `json:"meaning_model,omitempty" doc:"Id of the saved model that groups the answers to each question by meaning; empty if they are not grouped"`
	Channels   []string `json:"channels,omitempty" doc:"Ids of saved channels; absent means the default channels"`
}

// changeFields describes the fields that replace settings of a copied task; none is required.
type changeFields struct {
	TaskName     string `json:"task_name,omitempty" minLength:"1" maxLength:"64" example:"A模型V1.3稳定性测试"`
	AgentURL     string `json:"agent_api_url,omitempty" format:"uri" maxLength:"2048"`
	DatasetFile  string `json:"dataset_file,omitempty" format:"binary"`
	Encoding     string `json:"dataset_encoding,omitempty" enum:"gb18030" doc:"Encoding of a CSV file; absent means UTF-8"`
	ID           string `json:"column_question_id,omitempty" doc:"Name of the column with the ids; the default is question_id" example:"编号"`
	Question     string `json:"column_question,omitempty" doc:"Name of the column with the questions; the default is question" example:"prompt"`
	Answer       string `json:"column_standard_answer,omitempty" doc:"Name of the column with the standard answers; the default is standard_answer" example:"参考答案"`
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
	Query  string   `query:"query" doc:"Only tasks whose name contains this text, ignoring case" example:"V1.2"`
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

// createFaults are the error codes that creating a task may return.
var createFaults = []string{
	request.CodeTaskNameRequired, request.CodeTaskNameTooLong, request.CodeAgentURLRequired, request.CodeAgentURLInvalid,
	request.CodeAgentURLNotAllowed, request.CodeAgentHeadersInvalid,
	request.CodeDatasetRequired, request.CodeDatasetTooLarge, dataset.CodeFormatUnsupported, dataset.CodeUnreadable,
	dataset.CodeTooComplex, dataset.CodeSchemaInvalid, dataset.CodeEmpty,
	dataset.CodeTooManyRows, dataset.CodeEncodingInvalid, dataset.CodeDuplicateID, dataset.CodeRowInvalid,
	request.CodeTaskTooLarge, request.CodeSensitiveContent, request.CodeParameterInvalid,
	request.CodeRequestInvalid, request.CodeRequestTooLarge,
}

func (h *handler) registerTasks(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	body := rest.Multipart[taskFields](schemas, true)
	body.Content["application/json"] = body.Content["multipart/form-data"]
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath, ID: "create-task", Tag: "tasks", Status: http.StatusCreated,
		Summary:     "Create a task from a file of questions",
		Description: "The task starts immediately unless `start` is false. If the file is refused, the error lists everything that is wrong with its rows.",
		Faults:      createFaults, Body: body,
	}, h.createTask)
	h.registerAnswers(api)
	h.registerEstimate(api)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath, ID: "list-tasks", Tag: "tasks", Summary: "List tasks, newest first",
		Faults: []string{request.CodeParameterInvalid},
	}, h.listTasks)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}", ID: "get-task", Tag: "tasks",
		Summary: "Get a task with its settings and statistics",
		Faults:  []string{request.CodeTaskNotFound},
	}, h.getTask)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/statistics", ID: "get-statistics", Tag: "tasks",
		Summary: "Get statistics on how alike, correct and fast a task's answers are",
		Faults:  []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.getStatistics)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: tasksPath + "/{task_id}", ID: "delete-task", Tag: "tasks",
		Status:  http.StatusNoContent,
		Summary: "Delete a task and all its data", Faults: []string{request.CodeTaskNotFound, request.CodeTaskStateConflict},
	}, h.deleteTask)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/clone", ID: "clone-task", Tag: "tasks",
		Status:  http.StatusCreated,
		Summary: "Create a task with the settings and questions of another",
		Description: "Fields that are sent replace those of the other task. Headers, payload and the URL's query are " +
			"copied only if the agent has the same origin.",
		Faults: append([]string{request.CodeTaskNotFound}, createFaults...),
		Body:   rest.Multipart[changeFields](schemas, false),
	}, h.cloneTask)
}

func (h *handler) createTask(ctx context.Context, input *rest.FormInput) (*createdTaskOutput, error) {
	return h.create(ctx, input.Form, tasks.New{Settings: h.Defaults})
}

// cloneTask creates a copy of a task. The copy's name gets a suffix, unless the request contains a name.
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
		Created: Created{TaskID: id.String(), Status: db.TaskPending}, Calls: n.Calls(), JudgeCalls: n.JudgeCalls(),
		MeaningCalls: n.MeaningCalls(), Variants: newVariants(n.AllVariants(), bare(n.AllTargets())),
		Evaluators: newEvaluators(n.BareEvaluators()), Warnings: newWarnings(ctx, n.Warnings()),
	}}, nil
}

func (h *handler) listTasks(ctx context.Context, input *listInput) (*listOutput, error) {
	filter := tasklist.Filter{NameContains: request.SearchText(input.Query)}
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
	found, total, err := tasklist.New(h.Store).Tasks(ctx, request.ScopeOf(ctx), filter, input.Window())
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
