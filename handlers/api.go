package handlers

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/jobs/export"
)

//go:embed openapi.json
var openAPIDocument []byte

// openAPI describes the API.
func (s *Server) openAPI(c echo.Context) error {
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, openAPIDocument)
}

// apiTime is a time in RFC 3339 at +08:00.
type apiTime time.Time

// MarshalJSON implements json.Marshaler.
func (t apiTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(export.FormatTime(time.Time(t)))
}

func apiTimeOf(t *time.Time) *apiTime {
	if t == nil {
		return nil
	}
	converted := apiTime(*t)
	return &converted
}

type apiProgress struct {
	Processed int `json:"processed"`
	Total     int `json:"total"`
}

type apiPagination struct {
	Page     int `json:"page"`
	PageSize int `json:"page_size"`
	Total    int `json:"total"`
}

// apiSummary is a task in a list.
type apiSummary struct {
	TaskID      string        `json:"task_id"`
	TaskName    string        `json:"task_name"`
	Status      db.TaskStatus `json:"status"`
	FailureCode *string       `json:"failure_code"`
	Progress    apiProgress   `json:"progress"`
	CreatedAt   apiTime       `json:"created_at"`
	UpdatedAt   apiTime       `json:"updated_at"`
}

func summaryOf(task db.Task) apiSummary {
	processed := task.Processed
	if task.Status == db.TaskPending {
		processed = 0
	}
	return apiSummary{TaskID: task.ID.String(), TaskName: task.Name, Status: task.Status, FailureCode: task.FailureCode,
		Progress:  apiProgress{Processed: processed, Total: task.TotalItems},
		CreatedAt: apiTime(task.CreatedAt), UpdatedAt: apiTime(task.UpdatedAt)}
}

// apiDetail is a task with its settings. Headers and the extra payload may hold secrets: only whether
// there are any is told.
type apiDetail struct {
	apiSummary
	AgentURL        string        `json:"agent_api_url"`
	AgentModel      *string       `json:"agent_model"`
	HasHeaders      bool          `json:"has_agent_api_headers"`
	HasExtraPayload bool          `json:"has_extra_payload"`
	RunsPerItem     int           `json:"runs_per_item"`
	TimeoutSeconds  int           `json:"timeout_seconds"`
	MaxRetries      int           `json:"max_retries"`
	UseStream       bool          `json:"use_stream"`
	Concurrency     int           `json:"concurrency"`
	RateLimit       string        `json:"rate_limit"`
	DatasetName     string        `json:"dataset_name"`
	StartedAt       *apiTime      `json:"started_at"`
	CompletedAt     *apiTime      `json:"completed_at"`
	Statistics      db.Statistics `json:"statistics"`
}

type apiCreated struct {
	TaskID string        `json:"task_id"`
	Status db.TaskStatus `json:"status"`
}

func (s *Server) apiCreateTask(c echo.Context) error {
	submitted, err := s.readForm(c)
	if err != nil {
		return err
	}
	return s.createByAPI(c, submitted)
}

// createByAPI creates the task that a form describes.
func (s *Server) createByAPI(c echo.Context, submitted *upload) error {
	n, faults := s.validate(submitted)
	if len(faults) > 0 {
		f := faults[0].fault
		f.Details, _ = rowProblems(f, s.locale(c))
		return f
	}
	task, err := s.storeTask(c, n)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, apiCreated{TaskID: task.ID.String(), Status: db.TaskPending})
}

func (s *Server) apiListTasks(c echo.Context) error {
	found, err := s.listTasks(c)
	if err != nil {
		return err
	}
	list := struct {
		Items      []apiSummary  `json:"items"`
		Pagination apiPagination `json:"pagination"`
	}{Items: []apiSummary{}, Pagination: apiPagination{found.page.Number, found.page.Size, found.total}}
	for _, task := range found.tasks {
		list.Items = append(list.Items, summaryOf(task))
	}
	return c.JSON(http.StatusOK, list)
}

func (s *Server) apiTask(c echo.Context) error {
	task, err := s.task(c)
	if err != nil {
		return err
	}
	statistics, err := s.Store.TaskStatistics(c.Request().Context(), task.ID)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, apiDetail{
		apiSummary: summaryOf(task), AgentURL: shownURL(task.AgentURL), AgentModel: task.AgentModel, HasHeaders: task.SealedHeaders != nil,
		HasExtraPayload: task.ExtraPayload != nil, RunsPerItem: task.RunsPerItem, TimeoutSeconds: task.TimeoutSeconds, MaxRetries: task.MaxRetries,
		UseStream: task.UseStream, Concurrency: task.Concurrency, RateLimit: task.RateLimit, DatasetName: task.DatasetName,
		StartedAt: apiTimeOf(task.StartedAt), CompletedAt: apiTimeOf(task.CompletedAt), Statistics: statistics,
	})
}

type apiRun struct {
	RunIndex     int          `json:"run_index"`
	Status       db.RunStatus `json:"status"`
	ResponseBody *string      `json:"response_body"`
	Reasoning    *string      `json:"reasoning"`
	LatencyMS    *int         `json:"latency_ms"`
	Attempts     int          `json:"attempts"`
	ErrorCode    *string      `json:"error_code"`
	ErrorMessage *string      `json:"error_message"`
	CreatedAt    apiTime      `json:"created_at"`
}

type apiItem struct {
	QuestionID     string           `json:"question_id"`
	Question       string           `json:"question"`
	StandardAnswer string           `json:"standard_answer"`
	SystemPrompt   *string          `json:"system_prompt"`
	UserContext    *string          `json:"user_context"`
	Variables      *json.RawMessage `json:"variables,omitempty"`
}

type apiReportTask struct {
	TaskID         string        `json:"task_id"`
	TaskName       string        `json:"task_name"`
	Status         db.TaskStatus `json:"status"`
	RunsPerItem    int           `json:"runs_per_item"`
	TimeoutSeconds int           `json:"timeout_seconds"`
}

// apiResults streams a page of results, one answer at a time: a hundred questions with twenty answers of
// megabytes would not fit into memory.
func (s *Server) apiResults(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := s.finishedTask(c)
	if err != nil {
		return err
	}
	page, f := pageOf(c)
	if f != nil {
		return f
	}
	items, total, err := s.Store.Items(ctx, task.ID, queryText(c, "question_id"), page)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	c.Response().WriteHeader(http.StatusOK)
	w := responseStream{to: c.Response(), connection: http.NewResponseController(c.Response().Writer)}
	w.text(`{"task":`)
	w.value(apiReportTask{task.ID.String(), task.Name, task.Status, task.RunsPerItem, task.TimeoutSeconds})
	w.text(`,"items":[`)
	for n, item := range items {
		if n > 0 {
			w.text(",")
		}
		w.open(apiItem{item.QuestionID, item.Question, item.StandardAnswer, item.SystemPrompt, item.UserContext, item.Variables})
		w.text(`,"runs":[`)
		first := true
		err := s.Store.EachCurrentRun(ctx, item.ID, func(run db.Run) error {
			if !first {
				w.text(",")
			}
			first = false
			w.value(apiRun{run.RunIndex, run.Status, run.Response, run.Reasoning, run.LatencyMS, run.Attempts, run.ErrorCode, run.ErrorMessage, apiTime(run.CreatedAt)})
			return w.err
		})
		if err != nil {
			return err
		}
		w.text("]}")
	}
	w.text(`],"pagination":`)
	w.value(apiPagination{page.Number, page.Size, total})
	w.text("}\n")
	_ = w.connection.SetWriteDeadline(time.Time{})
	return w.err
}

// responseStream writes a response in parts and remembers the first failure.
type responseStream struct {
	to         http.ResponseWriter
	connection *http.ResponseController
	err        error
}

func (w *responseStream) text(text string) {
	if w.err == nil {
		_ = w.connection.SetWriteDeadline(time.Now().Add(stuckAfter)) // not every writer has deadlines
		_, w.err = w.to.Write([]byte(text))
	}
}

func (w *responseStream) value(v any) {
	text, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.text(string(text))
}

// open writes an object without its closing brace, so that members can follow.
func (w *responseStream) open(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		w.err = err
		return
	}
	w.text(string(text[:len(text)-1]))
}
