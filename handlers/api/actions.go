package api

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/db"
	"wending/handlers/fault"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/tasks"
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
	// QuestionID and Variant only describe the parameters; RetryScope reads them with the body.
	QuestionID string `query:"question_id" doc:"The one question to retry; absent means all" example:"q1"`
	Variant    string `query:"variant" pattern:"^[0-9]+$" doc:"The one variant to retry; absent means all" example:"2"`
	scope      db.Scope
}

// Resolve implements huma.Resolver.
func (i *retryInput) Resolve(ctx huma.Context) []error {
	c := humaecho.Unwrap(ctx)
	var err error
	if i.scope, err = RetryScope(c.Response(), c.Request()); err != nil {
		return []error{rest.NewFailure(ctx.Context(), err)}
	}
	return nil
}

// RetryScope reads what a request wants to retry.
func RetryScope(w http.ResponseWriter, r *http.Request) (db.Scope, error) {
	named, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return db.Scope{}, fault.New("REQUEST_INVALID").WithCause(err)
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.ContentLength == 0:
	case kind == "application/json":
		var body struct {
			QuestionID *string `json:"question_id"`
			Variant    *int    `json:"variant"`
		}
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&body); err != nil {
			return db.Scope{}, fault.New("REQUEST_INVALID").WithCause(err)
		}
		if body.QuestionID != nil {
			named.Add("question_id", *body.QuestionID)
		}
		if body.Variant != nil {
			named.Add("variant", strconv.Itoa(*body.Variant))
		}
	default:
		submitted, err := form.Read(w, r, request.From(r.Context()).Gates.Files)
		if err != nil {
			return db.Scope{}, err
		}
		for _, name := range []string{"question_id", "variant"} {
			if text, isThere := submitted.Values[name]; isThere {
				named.Add(name, text)
			}
		}
	}
	var scope db.Scope
	if ids, isThere := named["question_id"]; isThere {
		scope.QuestionID = request.StorableText(ids[0])
		if len(ids) > 1 || scope.QuestionID == "" {
			return db.Scope{}, fault.Parameter("question_id", fault.NonEmpty())
		}
	}
	if numbers, isThere := named["variant"]; isThere {
		scope.Variant, err = strconv.Atoi(numbers[0])
		if len(numbers) > 1 || err != nil || scope.Variant < 1 {
			return db.Scope{}, fault.Parameter("variant", fault.NonEmpty())
		}
	}
	return scope, nil
}

func (h *handler) registerActions(api huma.API) {
	for name, action := range map[string]struct {
		summary string
		do      func(ctx context.Context, by db.Actor, task db.Task) (db.Task, error)
	}{
		"run":    {"Start a task that was created with start=false", h.Tasks.Start},
		"stop":   {"Stop a task; calls in flight may finish for up to 30 s", h.Tasks.Stop},
		"resume": {"Continue with the runs that never took place", h.Tasks.Resume},
	} {
		rest.Register(api, h.Failed, rest.Endpoint{
			Method: http.MethodPost, Path: tasksPath + "/{task_id}/" + name, ID: name + "-task", Tag: "tasks", Status: http.StatusAccepted,
			Summary: action.summary, Faults: []string{"TASK_NOT_FOUND", "TASK_STATE_CONFLICT"},
		}, func(ctx context.Context, input *taskInput) (*createdOutput, error) {
			task, err := h.task(ctx, input.TaskID)
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
		Faults: []string{"TASK_NOT_FOUND", "QUESTION_NOT_FOUND", "NOT_FOUND", "TASK_STATE_CONFLICT", "PARAMETER_INVALID", "REQUEST_INVALID"},
	}, func(ctx context.Context, input *retryInput) (*createdOutput, error) {
		task, err := h.task(ctx, input.TaskID)
		if err != nil {
			return nil, err
		}
		if task, err = h.Tasks.Retry(ctx, request.From(ctx).Actor, task, input.scope); err != nil {
			return nil, err
		}
		return &createdOutput{Body: newCreated(task)}, nil
	})
	evaluation := rest.JSONBody[evaluateFields](schema)
	evaluation.Content["multipart/form-data"] = evaluation.Content["application/json"]
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/evaluate", ID: "evaluate-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary: "Have evaluators judge the answers of a task that has ended",
		Description: "No agent is asked. An evaluator that the task has already judges again, in its newest or the given version; what it said before stays in " +
			"the history of each run. Without evaluators all of the task's own judge again. 409 while a launch is active.",
		Body: evaluation, Faults: []string{"TASK_NOT_FOUND", "TASK_STATE_CONFLICT", "TASK_TOO_LARGE", "PARAMETER_INVALID", "REQUEST_INVALID"},
	}, func(ctx context.Context, input *evaluateInput) (*createdOutput, error) {
		task, err := h.task(ctx, input.TaskID)
		if err != nil {
			return nil, err
		}
		if task, err = Evaluate(ctx, h.Tasks, h.Library, task, input.Form); err != nil {
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
		Faults: []string{"TASK_NOT_FOUND", "TASK_STATE_CONFLICT", "TASK_TOO_LARGE", "PARAMETER_INVALID", "REQUEST_INVALID"},
	}, func(ctx context.Context, input *extendInput) (*createdOutput, error) {
		task, err := h.task(ctx, input.TaskID)
		if err != nil {
			return nil, err
		}
		runs, err := ExtendedRuns(input.Form, task)
		if err != nil {
			return nil, err
		}
		if task, err = h.Tasks.Extend(ctx, request.From(ctx).Actor, task, runs); err != nil {
			return nil, err
		}
		return &createdOutput{Body: newCreated(task)}, nil
	})
}

type evaluateFields struct {
	Evaluators []string `json:"evaluators,omitempty" doc:"Saved evaluators: <id> or <id>@<version>; the task has at most ten"`
}

type evaluateInput struct {
	TaskPath
	rest.FormInput
}

// Evaluate has the evaluators that a form names judge the answers of a task that has ended.
func Evaluate(ctx context.Context, service *tasks.Service, saved form.Library, task db.Task, submitted *form.Upload) (db.Task, error) {
	evaluators, faults := form.Evaluators(ctx, submitted, saved)
	if len(faults) > 0 {
		return task, faults[0].Fault
	}
	evaluated, err := service.Evaluate(ctx, request.From(ctx).Actor, task, evaluators)
	if errors.Is(err, tasks.ErrTooManyEvaluators) {
		return task, fault.New("TASK_TOO_LARGE").WithCause(err)
	}
	return evaluated, err
}

type extendFields struct {
	RunsPerItem int `json:"runs_per_item" minimum:"2" maximum:"20" doc:"More than the task has" example:"20"`
}

type extendInput struct {
	TaskPath
	rest.FormInput
}

// ExtendedRuns reads to how many runs of each question a task is to be extended.
func ExtendedRuns(submitted *form.Upload, task db.Task) (int, error) {
	runs, err := strconv.Atoi(submitted.Value("runs_per_item"))
	if err != nil || runs <= task.RunsPerItem || runs > tasks.MaxRuns {
		return 0, fault.Field("runs_per_item", fault.Between(min(task.RunsPerItem+1, tasks.MaxRuns), tasks.MaxRuns))
	}
	if (runs-task.RunsPerItem)*task.TotalItems*task.TotalVariants > tasks.MaxCalls {
		return 0, fault.New("TASK_TOO_LARGE")
	}
	return runs, nil
}
