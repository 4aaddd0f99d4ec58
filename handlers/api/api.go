// Package api has the endpoints under /api/v1: typed requests and responses, from which the OpenAPI document is
// generated.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/monitor"
	"wending/db/review"
	"wending/handlers/fault"
	"wending/handlers/live"
	"wending/handlers/request"
	"wending/jobs/beijing"
	"wending/jobs/tasks"
	"wending/views/paths"
)

// Config is what the API needs.
type Config struct {
	Store    *db.Store
	Tasks    *tasks.Service
	Progress *live.Hub[uuid.UUID, monitor.Progress]
	// Defaults are the settings of a task whose creator does not set them.
	Defaults tasks.Settings
	// CheckURL refuses agents that may not be called.
	CheckURL CheckURL
	// Closing is closed when the server shuts down and streams must end; nil means never.
	Closing <-chan struct{}
	// Failed logs and reports an internal error.
	Failed func(ctx context.Context, err error)
	Log    *slog.Logger
}

// progressWatcher follows the progress of one task.
type progressWatcher = live.Watcher[uuid.UUID, monitor.Progress]

// handler answers the endpoints.
type handler struct {
	Config
}

// Register adds the endpoints: most to compressed, streams to plain. It returns their OpenAPI document.
func Register(e *echo.Echo, compressed, plain *echo.Group, config Config) *huma.OpenAPI {
	installErrors()
	h := &handler{Config: config}
	document := newDocument()
	whole := humaecho.NewWithGroup(e, compressed, apiConfig(document))
	stream := humaecho.NewWithGroup(e, plain, apiConfig(document))
	h.registerTasks(whole)
	h.registerActions(whole)
	h.registerLaunches(whole)
	h.registerReviews(whole)
	h.registerComparison(whole)
	h.registerStreams(stream)
	for _, unused := range []string{"ErrorModel", "ErrorDetail"} { // huma's own, which no response has
		delete(document.Components.Schemas.Map(), unused)
	}
	return document
}

func newDocument() *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Wending", Version: "1",
			Description: "Measures how stable an LLM agent's answers are. Times are RFC 3339 in +08:00. Every error is `{code, message}`, with " +
				"`details` for rows of a dataset; messages are in the language of the `lang` cookie.",
		},
		Servers:    []*huma.Server{{URL: "/", Description: "This server"}},
		Tags:       []*huma.Tag{{Name: "tasks", Description: "Tasks and their results"}, {Name: "launches", Description: "The history of a task's starts"}, {Name: "reviews", Description: "People's verdicts"}, {Name: "comparison", Description: "Two tasks side by side"}},
		Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
		// There are no accounts yet.
		Security: []map[string][]string{{}},
	}
}

func apiConfig(document *huma.OpenAPI) huma.Config {
	return huma.Config{
		OpenAPI: document, DefaultFormat: "application/json",
		Formats: map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
	}
}

// failure is the body of every error. Details are what is wrong with rows of a dataset.
type failure struct {
	status  int
	Code    string            `json:"code" doc:"Stable code of the error" example:"TASK_NOT_FOUND"`
	Message string            `json:"message" doc:"Explanation in the request's language" example:"任务不存在"`
	Details []fault.RowDetail `json:"details,omitempty" doc:"Rows of the dataset that are wrong, at most 20"`
	Current *Review           `json:"current,omitempty" doc:"Of REVIEW_CONFLICT: the review as it is; absent if it was withdrawn, or there is none"`
}

// Error implements error.
func (f *failure) Error() string { return f.Code + ": " + f.Message }

// GetStatus implements huma.StatusError.
func (f *failure) GetStatus() int { return f.status }

// GetHeaders implements huma.HeadersError.
func (f *failure) GetHeaders() http.Header {
	if f.status != http.StatusServiceUnavailable {
		return nil
	}
	return http.Header{"Retry-After": {fault.RetryAfter}}
}

// Failure is the status and body of an error under /api.
func Failure(ctx context.Context, err error) (status int, body any) {
	f := newFailure(ctx, err)
	return f.status, f
}

func newFailure(ctx context.Context, err error) *failure {
	f, locale := fault.Of(err), request.From(ctx).Locale
	details, _ := f.Details(locale)
	body := &failure{status: f.Status(), Code: f.Code(), Message: f.Message(locale), Details: details}
	if conflict := (*review.ConflictError)(nil); errors.As(err, &conflict) && conflict.Current != nil {
		current := newReview(*conflict.Current)
		body.Current = &current
	}
	return body
}

// installErrors makes huma's own errors – a parameter outside its limits – look like all others.
var installErrors = sync.OnceFunc(func() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		for _, err := range errs {
			if known := (*failure)(nil); errors.As(err, &known) {
				return known
			}
			if detail := (*huma.ErrorDetail)(nil); errors.As(err, &detail) {
				return newFailure(ctx.Context(), parameterFault(ctx.Operation(), detail))
			}
		}
		return newFailure(ctx.Context(), echo.NewHTTPError(status, message))
	}
})

// tasksPath is the collection of tasks.
const tasksPath = paths.APITasks

// endpoint describes one endpoint.
type endpoint struct {
	Method, Path, ID, Summary, Description, Tag string
	// Status is that of a success; 0 means 200.
	Status int
	// Faults are the codes of the errors that it may answer, besides PARAMETER_INVALID and what any may.
	Faults []string
	// Body is the request's body; nil means none.
	Body *huma.RequestBody
	// Responses are further or other responses by status.
	Responses map[string]*huma.Response
}

// register adds an endpoint. Errors of handle become faults.
func register[I, O any](api huma.API, h *handler, e endpoint, handle func(context.Context, *I) (*O, error)) {
	operation := huma.Operation{
		OperationID: e.ID, Method: e.Method, Path: e.Path, Summary: e.Summary, Description: e.Description, Tags: []string{e.Tag},
		DefaultStatus: e.Status, Responses: map[string]*huma.Response{},
	}
	for status, response := range e.Responses {
		operation.Responses[status] = response
	}
	describeFaults(&operation, api.OpenAPI().Components.Schemas, e.Faults)
	huma.Register(api, operation, func(ctx context.Context, input *I) (*O, error) {
		output, err := handle(ctx, input)
		if err != nil {
			return nil, h.refuse(ctx, err)
		}
		return output, nil
	})
	// Only now: huma reads the bodies that it knows of, and these are read as streams.
	if e.Body != nil {
		api.OpenAPI().Paths[operation.Path].Post.RequestBody = e.Body
	}
}

// refuse turns an error into its response, and logs it if it is the server's own.
func (h *handler) refuse(ctx context.Context, err error) error {
	if fault.IsOurs(err) {
		h.Failed(ctx, err)
	}
	return newFailure(ctx, err)
}

// task returns the task with an id as the path has it.
func (h *handler) task(ctx context.Context, id string) (db.Task, error) {
	parsed, err := request.ID(id, db.KindTask)
	if err != nil {
		return db.Task{}, err
	}
	return h.Store.Task(ctx, parsed)
}

// resultsTask is like task but returns TASK_NOT_FINISHED unless the task's results may be read.
func (h *handler) resultsTask(ctx context.Context, id string, isPartial bool) (db.Task, error) {
	task, err := h.task(ctx, id)
	if err == nil && !task.HasResults && !isPartial {
		err = fault.New("TASK_NOT_FINISHED")
	}
	return task, err
}

// TaskPath is the id of a task in a path.
type TaskPath struct {
	TaskID string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

// PageQuery is a page of a list.
type PageQuery struct {
	Page     int `query:"page" doc:"Page number" minimum:"1" maximum:"1000000" default:"1" example:"1"`
	PageSize int `query:"page_size" doc:"Items per page" minimum:"1" maximum:"100" default:"20" example:"20"`
}

func (q PageQuery) page() db.Page { return db.Page{Number: q.Page, Size: q.PageSize} }

// pagination is the page of a list in a response.
type pagination struct {
	Page     int `json:"page" example:"1"`
	PageSize int `json:"page_size" example:"20"`
	Total    int `json:"total" doc:"Number of items on all pages" example:"57"`
}

func newPagination(page db.Page, total int) pagination {
	return pagination{Page: page.Number, PageSize: page.Size, Total: total}
}

// moment is a time in RFC 3339 at +08:00.
type moment time.Time

// MarshalText implements encoding.TextMarshaler.
func (m moment) MarshalText() ([]byte, error) { return []byte(beijing.RFC3339(time.Time(m))), nil }

// Schema implements huma.SchemaProvider.
func (moment) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Description: "RFC 3339, +08:00", Examples: []any{"2026-11-21T22:55:08+08:00"}}
}

func momentOf(t *time.Time) *moment {
	if t == nil {
		return nil
	}
	m := moment(*t)
	return &m
}
