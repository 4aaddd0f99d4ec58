package handlers

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/views"
)

// actions are what can be done to a task by name, on its page and by the API alike.
var actions = map[string]func(*Server, echo.Context) (db.Task, error){
	"run":    func(s *Server, c echo.Context) (db.Task, error) { return s.launch(c, db.LaunchSubmit, "") },
	"resume": func(s *Server, c echo.Context) (db.Task, error) { return s.launch(c, db.LaunchResume, "") },
	"retry":  (*Server).retry,
	"stop":   (*Server).stop,
}

// actOnPage does it and leads back to the task.
func (s *Server) actOnPage(action string) echo.HandlerFunc {
	return func(c echo.Context) error {
		task, err := actions[action](s, c)
		if err != nil {
			return err
		}
		return done(c, views.TaskPath(task, ""), action)
	}
}

// actByAPI does it and tells the task's state.
func (s *Server) actByAPI(action string) echo.HandlerFunc {
	return func(c echo.Context) error {
		task, err := actions[action](s, c)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusAccepted, apiCreated{TaskID: task.ID.String(), Status: task.Status})
	}
}

// launch starts, resumes or retries the task that the path names.
func (s *Server) launch(c echo.Context, kind db.LaunchKind, questionID string) (db.Task, error) {
	ctx := c.Request().Context()
	task, err := s.task(c)
	if err != nil {
		return task, err
	}
	launch := db.NewLaunch{By: requester(c)}
	agentURL, err := url.Parse(task.AgentURL)
	if err != nil {
		return task, err
	}
	launch.AgentOrigin = originOf(agentURL)
	if launch.CallInterval, err = ParseRate(task.RateLimit); err != nil {
		return task, err
	}
	launchID, err := s.Store.RequestLaunch(ctx, task.ID, kind, questionID, launch)
	switch {
	case errors.Is(err, db.ErrNothingToRun):
		return task, &Fault{Status: http.StatusConflict, Code: "TASK_STATE_CONFLICT", Key: "error.NOTHING_TO_RETRY", Cause: err}
	case errors.Is(err, db.ErrNotFound) && questionID != "":
		return task, &Fault{Status: http.StatusNotFound, Code: "QUESTION_NOT_FOUND", Cause: err}
	case err != nil:
		return task, err
	}
	s.Log.InfoContext(ctx, "launch requested", "task_id", task.ID, "launch_id", launchID, "kind", kind)
	s.wakeLaunch(c, task.ID, launchID)
	return s.Store.Task(ctx, task.ID)
}

// retry asks again what did not succeed: everything, or the one question that question_id names.
func (s *Server) retry(c echo.Context) (db.Task, error) {
	c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, maxFieldBytes)
	var asked []string // a request that is damaged must not retry everything
	invalid := func(err error) (db.Task, error) {
		return db.Task{}, &Fault{Status: http.StatusUnprocessableEntity, Code: "REQUEST_INVALID", Cause: err}
	}
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return invalid(err)
	}
	asked = append(asked, query["question_id"]...)
	kind, _, _ := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	switch {
	case c.Request().ContentLength == 0:
	case kind == echo.MIMEApplicationJSON:
		var body struct {
			QuestionID *string `json:"question_id"`
		}
		decoder := json.NewDecoder(c.Request().Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&body); err != nil {
			return invalid(err)
		}
		if body.QuestionID != nil {
			asked = append(asked, *body.QuestionID)
		}
	default:
		form, err := readUpload(c)
		if err != nil {
			return db.Task{}, err
		}
		if text, isThere := form.values["question_id"]; isThere {
			asked = append(asked, text)
		}
	}
	if len(asked) == 0 {
		return s.launch(c, db.LaunchRetry, "")
	}
	questionID := strings.ToValidUTF8(strings.ReplaceAll(asked[0], "\x00", "\uFFFD"), "\uFFFD")
	if len(asked) > 1 || questionID == "" {
		return db.Task{}, parameterInvalid("question_id", "error.range.one")
	}
	return s.launch(c, db.LaunchRetry, questionID)
}

// stop ends the task's launch. A task that no worker has begun is STOPPED at once.
func (s *Server) stop(c echo.Context) (db.Task, error) {
	ctx := c.Request().Context()
	task, err := s.task(c)
	if err != nil {
		return task, err
	}
	launchID, err := s.Store.StopTask(ctx, task.ID, requester(c))
	if err != nil {
		return task, err
	}
	s.Log.InfoContext(ctx, "task told to stop", "task_id", task.ID, "launch_id", launchID)
	if _, err := s.Store.FinishLaunch(ctx, launchID); err != nil { // a worker closes it
		s.Log.WarnContext(ctx, "stopped launch not closed yet", "launch_id", launchID, "error", err)
	}
	return s.Store.Task(ctx, task.ID)
}

// deleteTask removes the task that the path names, and its file.
func (s *Server) deleteTask(c echo.Context) error {
	task, err := s.task(c)
	if err != nil {
		return err
	}
	if err := s.Store.DeleteTask(c.Request().Context(), task.ID); err != nil {
		if errors.Is(err, db.ErrConflict) {
			return &Fault{Status: http.StatusConflict, Code: "TASK_STATE_CONFLICT", Key: "error.STOP_BEFORE_DELETE", Cause: err}
		}
		return err
	}
	s.forgetDataset(task.ID)
	s.Log.InfoContext(c.Request().Context(), "task deleted", "task_id", task.ID)
	return nil
}

func (s *Server) deleteOnPage(c echo.Context) error {
	if err := s.deleteTask(c); err != nil {
		return err
	}
	return done(c, "/tasks", "deleted")
}

func (s *Server) apiDelete(c echo.Context) error {
	if err := s.deleteTask(c); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// uploadOf is the form that a task was made from, with its file where that is still there. Headers and payload
// stay behind in the source.
func (s *Server) uploadOf(task db.Task) (*upload, error) {
	form := &upload{source: &task, values: map[string]string{
		"task_name": task.Name, "agent_api_url": task.AgentURL, "runs_per_item": strconv.Itoa(task.RunsPerItem),
		"timeout_seconds": strconv.Itoa(task.TimeoutSeconds), "max_retries": strconv.Itoa(task.MaxRetries),
		"concurrency": strconv.Itoa(task.Concurrency), "rate_limit": task.RateLimit, "use_stream": strconv.FormatBool(task.UseStream),
	}}
	if task.AgentModel != nil {
		form.values["agent_model"] = *task.AgentModel
	}
	content, err := os.ReadFile(s.datasetPath(task.ID, task.DatasetExtension))
	if err == nil {
		form.file = &uploadedFile{name: task.DatasetName, content: content}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return form, nil
}

// copyName is the name of a copy, within the limit of names.
func (s *Server) copyName(c echo.Context, name string) string {
	copied := []rune(s.locale(c).Text("create.copy", "Name", name))
	if len(copied) > maxNameLength {
		return name
	}
	return string(copied)
}

// apiClone makes a new task with the settings and the questions of another; fields that are sent replace the
// other's.
func (s *Server) apiClone(c echo.Context) error {
	source, err := s.task(c)
	if err != nil {
		return err
	}
	form, err := s.uploadOf(source)
	if err != nil {
		return err
	}
	form.values["task_name"] = s.copyName(c, source.Name)
	if c.Request().ContentLength != 0 {
		changes, err := readUpload(c)
		if err != nil {
			return err
		}
		for name, text := range changes.values {
			form.values[name] = text
		}
		if changes.file != nil {
			form.file = changes.file
		}
	}
	return s.createByAPI(c, form)
}
