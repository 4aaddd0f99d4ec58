package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/db"
	"wending/db/engine"
	"wending/handlers/fault"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/dataset"
)

// retryFields is the body of a retry.
type retryFields struct {
	QuestionID string `json:"question_id,omitempty" doc:"The one question to retry; absent means all" example:"q1"`
	Variant    int    `json:"variant,omitempty" minimum:"1" maximum:"20" doc:"The one variant to retry; absent means all" example:"2"`
}

// retryInput is a retry, of everything or of what is named in the query, a form or JSON. A damaged request must not
// retry everything.
type retryInput struct {
	TaskPath
	// QuestionID and Variant only describe the parameters; form.RetryScope reads them with the body.
	QuestionID string `query:"question_id" doc:"The one question to retry; absent means all" example:"q1"`
	Variant    string `query:"variant" pattern:"^[0-9]+$" doc:"The one variant to retry; absent means all" example:"2"`
	scope      db.Scope
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
	for name, action := range map[string]struct {
		summary string
		faults  []string
		do      func(ctx context.Context, by db.Actor, task db.Task) (db.Task, error)
	}{
		"run":    {"Start a task that was created with start=false", []string{fault.CodeQuotaExceeded}, h.Tasks.Start},
		"stop":   {"Stop a task; calls in flight may finish for up to 30 s", nil, h.Tasks.Stop},
		"resume": {"Continue with the runs that never took place", []string{fault.CodeQuotaExceeded}, h.Tasks.Resume},
	} {
		rest.Register(api, h.Failed, rest.Endpoint{
			Method: http.MethodPost, Path: tasksPath + "/{task_id}/" + name, ID: name + "-task", Tag: "tasks", Status: http.StatusAccepted,
			Summary: action.summary, Faults: append([]string{fault.CodeTaskNotFound, fault.CodeTaskStateConflict}, action.faults...),
		}, func(ctx context.Context, input *taskInput) (*createdOutput, error) {
			task, err := request.Task(ctx, h.Store, input.TaskID)
			if err != nil {
				return nil, err
			}
			if task, err = action.do(ctx, request.From(ctx).Actor, task); err != nil {
				return nil, err
			}
			return &createdOutput{Body: newCreated(task)}, nil
		})
	}
	schema := api.OpenAPI().Components.Schemas
	body := rest.Multipart[retryFields](schema, false)
	body.Content["application/json"] = body.Content["multipart/form-data"]
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/retry", ID: "retry-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary:     "Repeat every run that did not succeed",
		Description: "Successful results are kept. 409 if nothing is left to retry.", Body: body,
		Faults: []string{fault.CodeTaskNotFound, fault.CodeQuestionNotFound, fault.CodeNotFound, fault.CodeTaskStateConflict, fault.CodeParameterInvalid, fault.CodeRequestInvalid},
	}, func(ctx context.Context, input *retryInput) (*createdOutput, error) {
		task, err := request.Task(ctx, h.Store, input.TaskID)
		if err != nil {
			return nil, err
		}
		if task, err = h.Tasks.Retry(ctx, request.From(ctx).Actor, task, input.scope); err != nil {
			return nil, err
		}
		return &createdOutput{Body: newCreated(task)}, nil
	})
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPatch, Path: tasksPath + "/{task_id}", ID: "change-task", Tag: "tasks", Summary: "Change what a task may cost", Body: rest.JSONBody[ceilingFields](schema),
		Faults: []string{fault.CodeTaskNotFound, fault.CodeParameterInvalid, fault.CodeRequestInvalid},
	}, func(ctx context.Context, input *extendInput) (*taskOutput, error) {
		task, err := request.Task(ctx, h.Store, input.TaskID)
		if err != nil {
			return nil, err
		}
		ceiling, faults := form.Ceiling(input.Form)
		if len(faults) > 0 {
			return nil, faults[0].Fault
		}
		if err := engine.New(h.Store).SetCeiling(ctx, task.ID, ceiling); err != nil {
			return nil, err
		}
		return h.getTask(ctx, &taskInput{TaskPath: input.TaskPath})
	})
	evaluation := rest.JSONBody[evaluateFields](schema)
	evaluation.Content["multipart/form-data"] = evaluation.Content["application/json"]
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/evaluate", ID: "evaluate-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary: "Have evaluators judge the answers of a task that has ended",
		Description: "No agent is asked. An evaluator that the task has already judges again, in its newest or the given version; what it said before stays in " +
			"the history of each run. Without evaluators all of the task's own judge again. 409 while a launch is active.",
		Body: evaluation, Faults: []string{fault.CodeTaskNotFound, fault.CodeTaskStateConflict, fault.CodeTaskTooLarge, fault.CodeParameterInvalid, fault.CodeRequestInvalid},
	}, func(ctx context.Context, input *evaluateInput) (*createdOutput, error) {
		task, err := request.Task(ctx, h.Store, input.TaskID)
		if err != nil {
			return nil, err
		}
		if task, err = form.Evaluate(ctx, h.Tasks, h.Library, task, input.Form); err != nil {
			return nil, err
		}
		return &createdOutput{Body: newCreated(task)}, nil
	})
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/items", ID: "append-items", Tag: "tasks", Status: http.StatusAccepted,
		Summary: "Add questions to a task that was started",
		Description: "The active launch asks them, too. If the task has ended, a launch EXTEND starts, which asks everything that has no run yet. The file must have " +
			"the task's variables as columns. 409 for a draft, while a task stops, and while a launch is active that asks a part of the questions.",
		Body: rest.Multipart[appendFields](schema, true),
		Faults: []string{fault.CodeTaskNotFound, fault.CodeTaskStateConflict, fault.CodeTaskTooLarge, fault.CodeDatasetRequired, fault.CodeDatasetTooLarge, dataset.CodeFormatUnsupported,
			dataset.CodeUnreadable, dataset.CodeTooComplex, dataset.CodeSchemaInvalid, dataset.CodeEmpty, dataset.CodeTooManyRows, dataset.CodeEncodingInvalid,
			dataset.CodeDuplicateID, dataset.CodeRowInvalid, fault.CodeRequestInvalid},
	}, func(ctx context.Context, input *appendInput) (*createdOutput, error) {
		task, err := request.Task(ctx, h.Store, input.TaskID)
		if err != nil {
			return nil, err
		}
		if task, err = form.Append(ctx, h.Tasks, task, input.Form); err != nil {
			return nil, err
		}
		return &createdOutput{Body: newCreated(task)}, nil
	})
	extension := rest.JSONBody[extendFields](schema)
	extension.Content["multipart/form-data"] = extension.Content["application/json"]
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/extend", ID: "extend-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary:     "Raise the runs of each question of a task that has ended",
		Description: "Only the missing runs are asked. 409 while a launch is active, or if there are as many runs already.", Body: extension,
		Faults: []string{fault.CodeTaskNotFound, fault.CodeTaskStateConflict, fault.CodeTaskTooLarge, fault.CodeParameterInvalid, fault.CodeRequestInvalid},
	}, func(ctx context.Context, input *extendInput) (*createdOutput, error) {
		task, err := request.Task(ctx, h.Store, input.TaskID)
		if err != nil {
			return nil, err
		}
		runs, err := form.ExtendedRuns(input.Form, task)
		if err != nil {
			return nil, err
		}
		if task, err = h.Tasks.Extend(ctx, request.From(ctx).Actor, task, runs); err != nil {
			return nil, err
		}
		return &createdOutput{Body: newCreated(task)}, nil
	})
}

type appendFields struct {
	DatasetFile string `json:"dataset_file" doc:"CSV (UTF-8), XLSX or XLS with the columns of the task's own file" format:"binary"`
	Encoding    string `json:"dataset_encoding,omitempty" enum:"gb18030" doc:"Encoding of a CSV file that is not UTF-8"`
}

type appendInput struct {
	TaskPath
	rest.FormInput
}

type evaluateFields struct {
	Evaluators []string `json:"evaluators,omitempty" doc:"Saved evaluators: <id> or <id>@<version>; the task has at most ten"`
}

type evaluateInput struct {
	TaskPath
	rest.FormInput
}

type extendFields struct {
	RunsPerItem int `json:"runs_per_item" minimum:"2" maximum:"20" doc:"More than the task has" example:"20"`
}

type ceilingFields struct {
	MaxCost string `json:"max_cost" null:"true" doc:"Decimal number, in each currency; null or empty: any amount" example:"10"`
}

type extendInput struct {
	TaskPath
	rest.FormInput
}
