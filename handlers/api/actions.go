package api

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/db"
	"wending/handlers/fault"
	"wending/handlers/form"
	"wending/handlers/request"
)

// retryFields is the body of a retry.
type retryFields struct {
	QuestionID string `json:"question_id,omitempty" doc:"The one question to retry; absent means all" example:"q1"`
}

// retryInput is a retry, of everything or of the one question that is named in the query, a form or JSON. A
// damaged request must not retry everything.
type retryInput struct {
	TaskPath
	// InQuery only describes the parameter; RetriedQuestion reads it with the body.
	InQuery    string `query:"question_id" doc:"The one question to retry; absent means all" example:"q1"`
	questionID string
}

// Resolve implements huma.Resolver.
func (i *retryInput) Resolve(ctx huma.Context) []error {
	c := humaecho.Unwrap(ctx)
	var err error
	if i.questionID, err = RetriedQuestion(c.Response(), c.Request()); err != nil {
		return []error{newFailure(ctx.Context(), err)}
	}
	return nil
}

// RetriedQuestion reads which question a request wants to retry; empty means all.
func RetriedQuestion(w http.ResponseWriter, r *http.Request) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", fault.New("REQUEST_INVALID").WithCause(err)
	}
	named := query["question_id"]
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.ContentLength == 0:
	case kind == "application/json":
		var body struct {
			QuestionID *string `json:"question_id"`
		}
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&body); err != nil {
			return "", fault.New("REQUEST_INVALID").WithCause(err)
		}
		if body.QuestionID != nil {
			named = append(named, *body.QuestionID)
		}
	default:
		submitted, err := form.Read(w, r, request.From(r.Context()).Gates.Files)
		if err != nil {
			return "", err
		}
		if id, isThere := submitted.Values["question_id"]; isThere {
			named = append(named, id)
		}
	}
	if len(named) == 0 {
		return "", nil
	}
	id := request.StorableText(named[0])
	if len(named) > 1 || id == "" {
		return "", fault.Parameter("question_id", fault.NonEmpty())
	}
	return id, nil
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
		register(api, h, endpoint{
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
	body := multipart[retryFields](schema, false)
	body.Content["application/json"] = body.Content["multipart/form-data"]
	register(api, h, endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/retry", ID: "retry-task", Tag: "tasks", Status: http.StatusAccepted,
		Summary:     "Repeat every run that did not succeed",
		Description: "Successful results are kept. 409 if nothing is left to retry.", Body: body,
		Faults: []string{"TASK_NOT_FOUND", "QUESTION_NOT_FOUND", "TASK_STATE_CONFLICT", "PARAMETER_INVALID", "REQUEST_INVALID"},
	}, func(ctx context.Context, input *retryInput) (*createdOutput, error) {
		task, err := h.task(ctx, input.TaskID)
		if err != nil {
			return nil, err
		}
		if task, err = h.Tasks.Retry(ctx, request.From(ctx).Actor, task, input.questionID); err != nil {
			return nil, err
		}
		return &createdOutput{Body: newCreated(task)}, nil
	})
}
