package handlers

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/views"
)

// Fault is an error that a user or an API client is told: a code of the contract, its status, and a
// message of the catalogue. The cause stays in the log.
type Fault struct {
	Status int
	Code   string
	// Key, with Args, names the message; empty: "error." and the code.
	Key  string
	Args map[string]any
	// Details are what is wrong with single rows of a dataset.
	Details []views.RowProblem
	Cause   error
}

func (f *Fault) Error() string {
	if f.Cause != nil {
		return f.Code + ": " + f.Cause.Error()
	}
	return f.Code
}

func (f *Fault) Unwrap() error { return f.Cause }

// message is the fault in the words of a locale.
func (f *Fault) message(locale views.Locale) string {
	key := f.Key
	if key == "" {
		key = "error." + f.Code
	}
	if rangeKey, ok := f.Args["RangeKey"].(string); ok { // what a parameter may be is a text of its own
		f.Args["Range"] = locale.TextWith(rangeKey, f.Args)
	}
	return locale.TextWith(key, f.Args)
}

func fault(status int, code string) *Fault { return &Fault{Status: status, Code: code} }

// taskNotFound answers for ids that are unknown and for those that are no UUIDs.
func taskNotFound() *Fault { return fault(http.StatusNotFound, "TASK_NOT_FOUND") }

// faultOf classifies any error that a handler returns.
func faultOf(err error) *Fault {
	var known *Fault
	if errors.As(err, &known) {
		return known
	}
	switch {
	case errors.Is(err, db.ErrNotFound):
		return &Fault{Status: http.StatusNotFound, Code: "TASK_NOT_FOUND", Cause: err}
	case errors.Is(err, db.ErrConflict):
		return &Fault{Status: http.StatusConflict, Code: "TASK_STATE_CONFLICT", Cause: err}
	case errors.Is(err, db.ErrUnavailable):
		return &Fault{Status: http.StatusServiceUnavailable, Code: "SERVICE_UNAVAILABLE", Cause: err}
	}
	if routing := (*echo.HTTPError)(nil); errors.As(err, &routing) {
		switch {
		case routing.Code == http.StatusMethodNotAllowed:
			return &Fault{Status: routing.Code, Code: "METHOD_NOT_ALLOWED", Cause: err}
		case routing.Code == http.StatusRequestEntityTooLarge:
			return &Fault{Status: routing.Code, Code: "REQUEST_TOO_LARGE", Cause: err}
		case routing.Code >= 400 && routing.Code < 500 && routing.Code != http.StatusNotFound:
			return &Fault{Status: routing.Code, Code: "REQUEST_INVALID", Cause: err}
		case routing.Code == http.StatusNotFound:
			return &Fault{Status: routing.Code, Code: "NOT_FOUND", Cause: err}
		}
	}
	return &Fault{Status: http.StatusInternalServerError, Code: "INTERNAL_ERROR", Cause: err}
}

// apiError is the body of every error under /api.
type apiError struct {
	Code    string             `json:"code"`
	Message string             `json:"message"`
	Details []views.RowProblem `json:"details,omitempty"`
}

// answerError is the one place that turns an error into a response.
func (s *Server) answerError(err error, c echo.Context) {
	f := faultOf(err)
	request := c.Request()
	if f.Status >= 500 && request.Context().Err() == nil { // who has gone away is no fault of ours
		s.Log.ErrorContext(request.Context(), "request failed", "method", request.Method, "path", request.URL.Path,
			"request_id", requestID(c), "error", err)
		s.report(c, err)
	}
	if c.Response().Committed { // a download broke off: its connection must not end as if it were whole
		panic(http.ErrAbortHandler)
	}
	locale := s.locale(c)
	message := f.message(locale)
	var failure error
	switch {
	case request.Method == http.MethodHead:
		failure = c.NoContent(f.Status)
	case isAPI(c):
		failure = c.JSON(f.Status, apiError{Code: f.Code, Message: message, Details: f.Details})
	default:
		if f.Status >= 500 {
			switch c.Path() {
			case "/tasks":
				message = locale.Text("error.page.tasks")
			case "/tasks/:taskId/results":
				message = locale.Text("error.page.results")
			}
		}
		task := ""
		if f.Status == http.StatusConflict && c.Param("taskId") != "" {
			task = "/tasks/" + c.Param("taskId")
		}
		failure = s.render(c, f.Status, views.ErrorPage(s.frame(c, locale.Text("error.title")), message, task))
	}
	if failure != nil {
		s.Log.WarnContext(request.Context(), "error not answered", "error", failure)
	}
}
