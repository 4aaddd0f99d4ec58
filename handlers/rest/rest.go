// Package rest holds what the API's endpoints have in common: their registration and description, errors, pages of
// lists, times, forms, and streams of changes, for which each state is read once for all watchers.
package rest

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/jobs/export"
)

// Conflict is an error that somebody else's change has caused; its response contains the current state.
type Conflict struct {
	error
	Current any
}

// NewConflict returns err with the current state, which the response will contain.
func NewConflict(err error, current any) *Conflict { return &Conflict{err, current} }

// Unwrap returns the error without the state.
func (c *Conflict) Unwrap() error { return c.error }

// failure is the body of every error response. Details are about the invalid rows of a dataset, or the invalid fields
// and parameters.
type failure struct {
	status  int
	Code    string              `json:"code" doc:"Stable code of the error" example:"TASK_NOT_FOUND"`
	Message string              `json:"message" doc:"Explanation in the request's language" example:"任务不存在"`
	Details []request.RowDetail `json:"details,omitempty" doc:"Invalid rows of the dataset, at most 20, or invalid fields and query parameters, for which row is 0 and column is the name"`
	// Confirmation is only set for SENSITIVE_UNCONFIRMED.
	Confirmation string `json:"confirmation,omitempty" doc:"For SENSITIVE_UNCONFIRMED: the value of confirm_sensitive with which the request is accepted, as long as the content is the same" example:"5f0c2d9a1b7e4c36"`
	Current      any    `json:"current,omitempty" doc:"For REVIEW_CONFLICT: the current review; absent if it was withdrawn or there is none"`
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
	return http.Header{"Retry-After": {request.RetryAfter}}
}

// Failure returns the status and the body of the response to an error under /api.
func Failure(ctx context.Context, err error) (status int, body any) {
	f := newFailure(ctx, err)
	return f.status, f
}

// NewFailure returns the error with which an endpoint makes huma respond to err.
func NewFailure(ctx context.Context, err error) huma.StatusError { return newFailure(ctx, err) }

func newFailure(ctx context.Context, err error) *failure {
	f, locale := request.FaultOf(err), request.From(ctx).Locale
	details, _ := f.Details(locale)
	if name := f.Parameter(); name != "" && len(details) == 0 { // so that clients need not parse the message for the name
		details = []request.RowDetail{{Column: name, Message: f.Message(locale)}}
	}
	body := &failure{status: f.Status(), Code: f.Code(), Message: f.Message(locale), Details: details}
	if unconfirmed := request.UnconfirmedContent(ctx, err); unconfirmed != nil {
		body.Confirmation = unconfirmed.Confirmation
	}
	if conflict := (*Conflict)(nil); errors.As(err, &conflict) {
		body.Current = conflict.Current
	}
	return body
}

// InstallErrors makes the responses to huma's own errors, such as a parameter outside its limits, look like all others.
var InstallErrors = sync.OnceFunc(func() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		for _, err := range unexpectedFirst(errs) {
			if known := (*failure)(nil); errors.As(err, &known) {
				return known
			}
			if detail := (*huma.ErrorDetail)(nil); errors.As(err, &detail) {
				return NewFailure(ctx.Context(), parameterFault(ctx.Operation(), detail))
			}
		}
		if status < http.StatusInternalServerError && status != http.StatusRequestEntityTooLarge {
			return NewFailure(ctx.Context(), request.NewFault(request.CodeRequestInvalid).WithCause(errors.New(message)))
		}
		return NewFailure(ctx.Context(), echo.NewHTTPError(status, message))
	}
})

// Endpoint describes an endpoint, for its registration and for the OpenAPI document.
type Endpoint struct {
	Method, Path, ID, Summary, Description, Tag string
	// Status is the status of a successful response; 0 means 200.
	Status int
	// Faults are the endpoint's error codes, in addition to the common ones and those that its body implies.
	Faults []string
	// MaxBytes is the maximum size of a JSON body in bytes; 0 means one megabyte.
	MaxBytes int64
	// HasColumns adds the parameters that filter questions by the columns of their dataset.
	HasColumns bool
	// Body describes the request's body; nil means that there is none, or that it is the field Body of the input.
	Body *huma.RequestBody
	// Responses are further responses, or replacements for the usual ones, keyed by status.
	Responses map[string]*huma.Response
}

// Register adds an endpoint to the API and its description. If handle returns an error, the response is that of its
// fault.
func Register[I, O any](api huma.API, failed Failed, e Endpoint, handle func(context.Context, *I) (*O, error)) {
	operation := huma.Operation{
		OperationID: e.ID, Method: e.Method, Path: e.Path, Summary: e.Summary, Description: e.Description,
		Tags:          []string{e.Tag},
		DefaultStatus: e.Status, MaxBodyBytes: e.MaxBytes, Responses: map[string]*huma.Response{},
		Metadata: map[string]any{schemasKey: api.OpenAPI().Components.Schemas},
	}
	if slices.Contains(e.Faults, request.CodeSensitiveContent) {
		e.Faults = append(slices.Clone(e.Faults), request.CodeUnconfirmed)
		operation.Parameters = append(operation.Parameters, confirmation())
	}
	if e.HasColumns {
		operation.Parameters = append(operation.Parameters, Columns())
	}
	for status, response := range e.Responses {
		operation.Responses[status] = response
	}
	_, readsBody := reflect.TypeFor[I]().FieldByName("Body")
	takesBody := e.Body != nil || readsBody
	operation.Middlewares = huma.Middlewares{refuseUnknown(api, takesBody)}
	describeFaults(&operation, api.OpenAPI().Components.Schemas, e, takesBody)
	huma.Register(api, operation, func(ctx context.Context, input *I) (*O, error) {
		output, err := handle(ctx, input)
		if err != nil {
			return nil, failed.Refuse(ctx, err)
		}
		return output, nil
	})
	// Bodies are described only after registration. Otherwise huma would read them itself, but they must be read as
	// streams.
	if e.Body != nil {
		item := api.OpenAPI().Paths[operation.Path]
		switch e.Method {
		case http.MethodPatch:
			item.Patch.RequestBody = e.Body
		case http.MethodPut:
			item.Put.RequestBody = e.Body
		default:
			item.Post.RequestBody = e.Body
		}
	}
}

// Failed logs and reports an internal error.
type Failed func(ctx context.Context, err error)

// Refuse returns the response to an error, and logs the error if it is internal.
func (failed Failed) Refuse(ctx context.Context, err error) error {
	if request.IsInternal(err) {
		failed(ctx, err)
	}
	return NewFailure(ctx, err)
}

// PageQuery holds the query parameters that select a page of a list.
type PageQuery struct {
	Page     int `query:"page" doc:"Page number, from 1" minimum:"1" maximum:"1000000" default:"1" example:"1"`
	PageSize int `query:"page_size" doc:"Items per page" minimum:"1" maximum:"100" default:"20" example:"20"`
}

// Window returns the page in the form that the database packages use.
func (q PageQuery) Window() db.Page { return db.Page{Number: q.Page, Size: q.PageSize} }

// Pagination says which page of a list a response contains.
type Pagination struct {
	Page     int `json:"page" example:"1"`
	PageSize int `json:"page_size" example:"20"`
	Total    int `json:"total" doc:"Number of items on all pages" example:"57"`
}

// NewPagination returns the Pagination of a page of a list with total items.
func NewPagination(page db.Page, total int) Pagination {
	return Pagination{Page: page.Number, PageSize: page.Size, Total: total}
}

// Moment is a time in RFC 3339 format at +08:00.
type Moment time.Time

// MarshalText implements encoding.TextMarshaler.
func (m Moment) MarshalText() ([]byte, error) { return []byte(export.BeijingTime(time.Time(m))), nil }

// Schema implements huma.SchemaProvider.
func (Moment) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Description: "RFC 3339, +08:00",
		Examples: []any{"2026-11-21T22:55:08+08:00"}}
}

// MomentOf returns t as a Moment or, if t is nil, nil, which becomes null in JSON.
func MomentOf(t *time.Time) *Moment {
	if t == nil {
		return nil
	}
	m := Moment(*t)
	return &m
}

// FormInput is the input of an endpoint with a form.
type FormInput struct{ Form *form.Upload }

// Resolve implements huma.Resolver: it parses the form while it arrives.
func (i *FormInput) Resolve(ctx huma.Context) []error {
	var err error
	if i.Form, err = ReadForm(ctx); err != nil {
		return []error{NewFailure(ctx.Context(), err)}
	}
	return nil
}

// AnswersInput is the input of an endpoint with a form that contains a file of answers.
type AnswersInput struct{ Form *form.Upload }

// Resolve implements huma.Resolver: it parses the form while it arrives.
func (i *AnswersInput) Resolve(ctx huma.Context) []error {
	var err error
	if i.Form, err = readForm(ctx, form.ReadAnswers, request.From(ctx.Context()).Gates.Imports); err != nil {
		return []error{NewFailure(ctx.Context(), err)}
	}
	return nil
}

// Admit takes a slot at the gate for files, or returns the reason why there is none. A form must be admitted before a
// file on the server to which it refers is read.
func Admit(ctx context.Context, submitted *form.Upload) error {
	if err := submitted.Admit(ctx, request.From(ctx).Gates.Files); err != nil {
		return err
	}
	return submitted.Refused
}

// JSONBody describes a request body with the members of T in JSON.
func JSONBody[T any](schemas huma.Registry) *huma.RequestBody {
	body := Multipart[T](schemas, true)
	body.Content = map[string]*huma.MediaType{"application/json": body.Content["multipart/form-data"]}
	return body
}

// OptionalBody is like JSONBody, but the body may be absent.
func OptionalBody[T any](schemas huma.Registry) *huma.RequestBody {
	body := JSONBody[T](schemas)
	body.Required = false
	return body
}

// Stream calls write once it has a slot at the gate for exports. It gives back the slot when write returns, even if the
// client is still reading, so anything that needs a database connection or much memory belongs in write. An error
// before the response begins is answered like any other. An error midway breaks the connection, so that no client
// mistakes a partial response for a complete one.
func Stream(failed Failed, write func(ctx huma.Context) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		c, gates := humaecho.Unwrap(ctx), request.From(ctx.Context()).Gates
		leave, err := gates.Exports.Enter(ctx.Context())
		if err != nil {
			c.Error(err)
			return
		}
		defer leave()
		if err := gates.Responses.Through(&c.Response().Writer, func() error { return write(ctx) }, leave); err != nil {
			if !c.Response().Committed {
				c.Error(err)
				return
			}
			if ctx.Context().Err() == nil { // a client that disconnects is not a server error
				failed(ctx.Context(), err)
			}
			panic(http.ErrAbortHandler)
		}
	}}
}
