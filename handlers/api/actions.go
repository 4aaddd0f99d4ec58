package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/db"
	"wending/db/engine"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/dataset"
)

// retryFields describes the body of a retry.
type retryFields struct {
	QuestionID string `json:"question_id,omitempty" doc:"Id of the question to retry; absent means all questions" example:"q1"`
	Variant    int    `json:"variant,omitempty" minimum:"1" maximum:"20" doc:"Number of the variant to retry; absent means all variants" example:"2"`
}

// retryInput is a request to retry everything, or the question or variant named in the query, a form or JSON. A body
// that cannot be parsed is refused, because otherwise everything would be retried.
type retryInput struct {
	TaskPath
	// QuestionID and Variant are only for the API's description; form.RetryScope reads them from the query and the body.
	QuestionID string `query:"question_id" doc:"Id of the question to retry; absent means all questions" example:"q1"`
	Variant    string `query:"variant" pattern:"^[0-9]+$" doc:"Number of the variant to retry; absent means all variants" example:"2"`
	scope      db.Selection
}

// Resolve implements huma.Resolver.
func (i *retryInput) Resolve(ctx huma.Context) []error {
	submitted, err := rest.ReadForm(ctx)
	if err == nil {
		i.scope, err = form.RetryScope(humaecho.Unwrap(ctx).Request(), submitted)
	}
	if err != nil {
		return []error{rest.NewFailure(ctx.Context(), err)}
	}
	return nil
}

func (h *handler) registerActions(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, tasksPath+"/{task_id}"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/run", ID: "run-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary: "Start a task that was created with start=false",
		Faults: []string{request.CodeSensitiveContent,
			request.CodeTaskNotFound, request.CodeTaskStateConflict, request.CodeQuotaExceeded},
	}, h.startTask)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/stop", ID: "stop-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary: "Stop a task; calls in flight may finish for up to 30 s",
		Faults:  []string{request.CodeTaskNotFound, request.CodeTaskStateConflict},
	}, h.stopTask)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/resume", ID: "resume-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary: "Run everything that has no run yet",
		Faults: []string{request.CodeSensitiveContent,
			request.CodeTaskNotFound, request.CodeTaskStateConflict, request.CodeQuotaExceeded},
	}, h.resumeTask)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/retry", ID: "retry-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary:     "Repeat every run that did not succeed",
		Description: "Successful results are kept. 409 if nothing is left to retry.",
		Faults: []string{request.CodeSensitiveContent,
			request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeNotFound,
			request.CodeTaskStateConflict, request.CodeParameterInvalid, request.CodeRequestInvalid},
		Body: formOrJSON(rest.Multipart[retryFields](schemas, false)),
	}, h.retryTask)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPatch, Path: path, ID: "change-task", Tag: "tasks", Summary: "Change the cost ceiling of a task",
		Faults: []string{request.CodeTaskNotFound, request.CodeParameterInvalid, request.CodeRequestInvalid},
		Body:   rest.JSONBody[ceilingFields](schemas),
	}, h.changeTask)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/evaluate", ID: "evaluate-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary: "Have evaluators judge the answers of a task that has ended",
		Description: "No agent is called. An evaluator that the task already has judges again, in its newest or " +
			"the given version; its earlier evaluations stay in the history of each run. If no evaluators are " +
			"given, all of the task's own judge again. 409 while a launch is active.",
		Faults: []string{request.CodeSensitiveContent,
			request.CodeTaskNotFound, request.CodeTaskStateConflict, request.CodeTaskTooLarge,
			request.CodeParameterInvalid, request.CodeRequestInvalid},
		Body: formOrJSON(rest.JSONBody[evaluateFields](schemas)),
	}, h.evaluateTask)
	h.registerGrouping(api)
	h.registerAdditions(api)
}

// registerAdditions registers the endpoints that add questions and runs to a task.
func (h *handler) registerAdditions(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, tasksPath+"/{task_id}"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/items", ID: "append-items", Tag: "tasks", Status: http.StatusAccepted,
		Summary: "Add questions to a task that was started",
		Description: "An active launch also runs the added questions. If the task has ended, a launch of kind " +
			"EXTEND starts and makes every missing run. The file must have the task's variables as columns. 409 " +
			"for a draft, while a task is stopping, and while a launch for only some of the questions is active.",
		Faults: []string{request.CodeSensitiveContent,
			request.CodeTaskNotFound, request.CodeTaskStateConflict, request.CodeTaskTooLarge,
			request.CodeDatasetRequired, request.CodeDatasetTooLarge, dataset.CodeFormatUnsupported,
			dataset.CodeUnreadable, dataset.CodeTooComplex, dataset.CodeSchemaInvalid, dataset.CodeEmpty,
			dataset.CodeTooManyRows, dataset.CodeEncodingInvalid, dataset.CodeDuplicateID, dataset.CodeRowInvalid,
			request.CodeRequestInvalid},
		Body: rest.Multipart[appendFields](schemas, true),
	}, h.appendItems)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/extend", ID: "extend-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary:     "Raise the number of runs per question of a finished task, for all questions or for chosen ones",
		Description: "Only the missing runs are made. 409 while a launch is active, or if there are that many runs already.",
		Faults: []string{request.CodeSensitiveContent,
			request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeTaskStateConflict,
			request.CodeTaskTooLarge, request.CodeParameterInvalid, request.CodeRequestInvalid},
		Body: formOrJSON(rest.JSONBody[extendFields](schemas)),
	}, h.extendTask)
}

// registerGrouping registers the endpoint that groups answers by meaning.
func (h *handler) registerGrouping(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/meanings", ID: "group-answers", Tag: "tasks",
		Status:  http.StatusAccepted,
		Summary: "Have a model group the answers of a task that has ended by meaning",
		Description: "No agent is called. A launch of kind MEANING starts, with one unit for each question whose " +
			"answers differ in more than format. If the model's reply is not certain or contradicts the facts, the " +
			"model is called a second time, with the answers in reverse order. The model replaces the task's " +
			"meaning_model. 409 while a launch is active.",
		Faults: []string{request.CodeSensitiveContent,
			request.CodeTaskNotFound, request.CodeTaskStateConflict, request.CodeParameterInvalid,
			request.CodeRequestInvalid, request.CodeQuotaExceeded},
		Body: formOrJSON(rest.JSONBody[groupFields](api.OpenAPI().Components.Schemas)),
	}, h.groupAnswers)
}

// formOrJSON adds JSON to a body that huma describes only as a form, because both are accepted.
func formOrJSON(body *huma.RequestBody) *huma.RequestBody {
	for _, content := range body.Content {
		body.Content = map[string]*huma.MediaType{"multipart/form-data": content, "application/json": content}
	}
	return body
}

// onTask calls do with the task whose id is in the path, and returns the task's new state.
func (h *handler) onTask(ctx context.Context, id string,
	do func(task db.Task) (db.Task, error)) (*createdOutput, error) {
	task, err := request.Task(ctx, h.Store, id)
	if err == nil {
		task, err = do(task)
	}
	if err != nil {
		return nil, err
	}
	return &createdOutput{Body: newCreated(task)}, nil
}

func (h *handler) startTask(ctx context.Context, input *taskInput) (*createdOutput, error) {
	return h.onTask(ctx, input.TaskID, func(task db.Task) (db.Task, error) {
		return h.Tasks.Start(ctx, request.From(ctx).Actor, task)
	})
}

func (h *handler) stopTask(ctx context.Context, input *taskInput) (*createdOutput, error) {
	return h.onTask(ctx, input.TaskID, func(task db.Task) (db.Task, error) {
		return h.Tasks.Stop(ctx, request.From(ctx).Actor, task)
	})
}

func (h *handler) resumeTask(ctx context.Context, input *taskInput) (*createdOutput, error) {
	return h.onTask(ctx, input.TaskID, func(task db.Task) (db.Task, error) {
		return h.Tasks.Resume(ctx, request.From(ctx).Actor, task)
	})
}

func (h *handler) retryTask(ctx context.Context, input *retryInput) (*createdOutput, error) {
	return h.onTask(ctx, input.TaskID, func(task db.Task) (db.Task, error) {
		return h.Tasks.Retry(ctx, request.From(ctx).Actor, task, input.scope)
	})
}

func (h *handler) changeTask(ctx context.Context, input *extendInput) (*taskOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	ceiling, faults := form.Ceiling(input.Form)
	if len(faults) > 0 {
		return nil, faults[0].Fault
	}
	if err := engine.NewSpending(h.Store).SetCeiling(ctx, task.ID, ceiling); err != nil {
		return nil, err
	}
	return h.getTask(ctx, &taskInput{TaskPath: input.TaskPath})
}

func (h *handler) evaluateTask(ctx context.Context, input *evaluateInput) (*createdOutput, error) {
	return h.onTask(ctx, input.TaskID, func(task db.Task) (db.Task, error) {
		return form.Evaluate(ctx, h.Tasks, h.Library, task, input.Form)
	})
}

func (h *handler) groupAnswers(ctx context.Context, input *evaluateInput) (*createdOutput, error) {
	return h.onTask(ctx, input.TaskID, func(task db.Task) (db.Task, error) {
		return form.Group(ctx, h.Tasks, h.Library, task, input.Form)
	})
}

func (h *handler) appendItems(ctx context.Context, input *appendInput) (*createdOutput, error) {
	return h.onTask(ctx, input.TaskID, func(task db.Task) (db.Task, error) {
		return form.Append(ctx, h.Tasks, task, input.Form)
	})
}

func (h *handler) extendTask(ctx context.Context, input *extendInput) (*createdOutput, error) {
	return h.onTask(ctx, input.TaskID, func(task db.Task) (db.Task, error) {
		questionIDs, runs, err := form.Extended(input.Form, task)
		if err != nil {
			return db.Task{}, err
		}
		return h.Tasks.Extend(ctx, request.From(ctx).Actor, task, questionIDs, runs)
	})
}

type appendFields struct {
	DatasetFile string `json:"dataset_file" doc:"CSV (UTF-8), XLSX or XLS file with the columns of the task's original file" format:"binary"`
	Encoding    string `json:"dataset_encoding,omitempty" enum:"gb18030" doc:"Encoding of a CSV file; absent means UTF-8"`
}

type appendInput struct {
	TaskPath
	rest.FormInput
}

type evaluateFields struct {
	Evaluators []string `json:"evaluators,omitempty" doc:"Saved evaluators: <id> or <id>@<version>; a task has at most ten. Absent means all of the task's own"`
}

type groupFields struct {
	ModelID string `json:"model_id" doc:"A saved model" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

type evaluateInput struct {
	TaskPath
	rest.FormInput
}

type extendFields struct {
	QuestionIDs []string `json:"question_ids,omitempty" doc:"Only these questions and the conversations they belong to; absent means all. With question_ids, the task's runs_per_item stays as it is, and rates still use only that number of runs per question" example:"[\"q1\"]"`
	RunsPerItem int      `json:"runs_per_item" minimum:"2" maximum:"20" doc:"New number of runs per question, higher than the current one" example:"20"`
}

type ceilingFields struct {
	MaxCost string `json:"max_cost" null:"true" doc:"Cost ceiling in each currency, a decimal number; null or empty means no ceiling" example:"10"`
}

type extendInput struct {
	TaskPath
	rest.FormInput
}
