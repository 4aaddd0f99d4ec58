package handlers

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/jobs/agent"
	"wending/jobs/dataset"
	"wending/jobs/export"
	"wending/static"
	"wending/views"
)

// emptyForm is the form as it opens.
func (s *Server) emptyForm() views.CreateForm {
	d := s.Defaults
	return views.CreateForm{Runs: strconv.Itoa(d.RunsPerItem), Timeout: strconv.Itoa(d.TimeoutSeconds), Retries: strconv.Itoa(d.MaxRetries),
		Concurrency: strconv.Itoa(d.Concurrency), RateLimit: d.RateLimit, UseStream: d.UseStream, MaxBytes: dataset.MaxBytes, Errors: map[string]string{}}
}

// formOf is the form as it was submitted, so that nothing typed is lost. Headers that were understood come
// back sealed: no page shows a secret, not even to who typed it.
func (s *Server) formOf(submitted *upload, n newTask) views.CreateForm {
	values, form := submitted.values, s.emptyForm()
	form.Name, form.URL, form.Model = values["task_name"], values["agent_api_url"], values["agent_model"]
	form.Headers, form.Payload, form.ProbeQuestion = values["agent_api_headers"], values["extra_payload"], values["probe_question"]
	if submitted.source != nil {
		form.From = submitted.source.ID.String()
		form.HasHeaders, form.HasPayload = submitted.source.SealedHeaders != nil, submitted.source.ExtraPayload != nil
	}
	if sealed, err := s.Sealer.Seal(n.headers, formOwner); err == nil && sealed != nil && !n.hasSourceHeaders {
		form.Headers, form.SealedHeaders = "", base64.StdEncoding.EncodeToString(sealed)
	}
	form.UseStream = values["use_stream"] != "false"
	for name, to := range map[string]*string{"runs_per_item": &form.Runs, "timeout_seconds": &form.Timeout, "max_retries": &form.Retries,
		"concurrency": &form.Concurrency, "rate_limit": &form.RateLimit} {
		if text, ok := values[name]; ok {
			*to = text
		}
	}
	return form
}

func (s *Server) createFrame(c echo.Context) views.Frame {
	locale := s.locale(c)
	frame := s.frame(c, locale.Text("create.title"),
		views.Crumb{Text: locale.Text("nav.tasks"), Href: "/tasks"}, views.Crumb{Text: locale.Text("nav.create")})
	frame.Width = "narrow"
	return frame
}

// createPage is the form for a new task: empty, or with the settings and the questions of the task that
// "from" names.
func (s *Server) createPage(c echo.Context) error {
	form := s.emptyForm()
	if from := c.QueryParam("from"); from != "" {
		source, err := s.taskByID(c, from)
		if err != nil {
			return err
		}
		copied, err := s.uploadOf(source)
		if err != nil {
			return err
		}
		copied.values["task_name"] = s.copyName(c, source.Name)
		copied.values["agent_api_url"] = shownURL(source.AgentURL)
		n, faults := s.validate(copied)
		form = s.formOf(copied, n)
		if copied.file != nil {
			form.Preview = s.preview(n, faults, copied, s.locale(c))
		}
	}
	return s.render(c, http.StatusOK, views.CreatePage(s.createFrame(c), form))
}

// createTask takes the page's form: 303 to the list, or 422 with the form and an error beside each field.
func (s *Server) createTask(c echo.Context) error {
	submitted, err := s.readForm(c)
	if err != nil {
		return err
	}
	n, faults := s.validate(submitted)
	if len(faults) > 0 {
		return s.rejectForm(c, submitted, n, faults)
	}
	task, err := s.storeTask(c, n)
	if err != nil {
		return err
	}
	s.dropStaged(submitted.values["dataset_token"])
	if n.isDraft {
		return done(c, views.TaskPath(task, ""), "saved")
	}
	return done(c, "/tasks", "created")
}

func (s *Server) rejectForm(c echo.Context, submitted *upload, n newTask, faults []fieldFault) error {
	locale := s.locale(c)
	form := s.formOf(submitted, n)
	status := http.StatusUnprocessableEntity
	for _, f := range faults {
		form.Errors[f.field] = f.fault.message(locale)
		if f.fault.Status == http.StatusRequestEntityTooLarge {
			status = f.fault.Status
		}
	}
	if n.file != nil {
		preview := s.preview(n, faults, submitted, locale)
		if preview.Message != "" {
			form.Errors["dataset_file"] = "" // said in the preview, with its rows
		}
		form.Preview = preview
	}
	return s.render(c, status, views.CreatePage(s.createFrame(c), form))
}

// storeTask keeps the file, then the task; neither without the other. A wake-up that fails is made up
// for by reconcile.
func (s *Server) storeTask(c echo.Context, n newTask) (db.Task, error) {
	ctx := c.Request().Context()
	stored, err := s.record(n, requester(c))
	if err != nil {
		return db.Task{}, err
	}
	if err := s.keepDataset(stored.Task.ID, stored.Task.DatasetExtension, n.file.content); err != nil {
		return db.Task{}, err
	}
	launchID, err := s.Store.CreateTask(ctx, stored)
	if err != nil {
		// The commit's reply may have been lost. Then the task is there and a worker finds it; the file goes
		// only when the task is surely not there.
		_, lookup := s.Store.Task(context.WithoutCancel(ctx), stored.Task.ID)
		if errors.Is(lookup, db.ErrNotFound) {
			s.forgetDataset(stored.Task.ID)
		}
		if lookup != nil {
			return db.Task{}, err
		}
		return stored.Task, nil
	}
	s.Log.InfoContext(ctx, "task created", "task_id", stored.Task.ID, "items", len(stored.Items), "is_draft", n.isDraft)
	if !n.isDraft {
		s.wakeLaunch(c, stored.Task.ID, launchID)
	}
	return stored.Task, nil
}

// wakeLaunch tells a worker that a launch waits. Where that fails, one finds it by itself a moment later.
func (s *Server) wakeLaunch(c echo.Context, taskID, launchID uuid.UUID) {
	ctx := context.WithoutCancel(c.Request().Context())
	if err := s.Queue.EnqueueLaunch(ctx, launchID); err != nil {
		s.Log.WarnContext(ctx, "wake-up not sent; a worker finds the launch by itself", "task_id", taskID, "launch_id", launchID, "error", err)
	}
}

// previewDataset shows what stands in the chosen file, and keeps it for the form.
func (s *Server) previewDataset(c echo.Context) error {
	submitted, err := s.readForm(c)
	if err != nil {
		return err
	}
	n, faults := s.validate(submitted)
	locale := s.locale(c)
	var preview *views.Preview
	if n.file != nil {
		preview = s.preview(n, faults, submitted, locale)
	}
	if isFragment(c) {
		return s.render(c, http.StatusOK, views.PreviewPart(preview))
	}
	form := s.formOf(submitted, n)
	form.Preview = preview
	if preview == nil {
		form.Errors["dataset_file"] = locale.Text("error.DATASET_REQUIRED")
	}
	return s.render(c, http.StatusOK, views.CreatePage(s.createFrame(c), form))
}

// preview describes the form's file and stages it when it is sound. A file that came with the form takes
// the place of the one staged before.
func (s *Server) preview(n newTask, faults []fieldFault, submitted *upload, locale views.Locale) *views.Preview {
	preview := &views.Preview{FileName: shownName(n.file.name), FileSize: len(n.file.content)}
	for _, f := range faults {
		if f.field == "dataset_file" {
			preview.Message = f.fault.message(locale)
			preview.Rows, preview.Total = rowProblems(f.fault, locale)
			return preview
		}
	}
	token := submitted.values["dataset_token"]
	if submitted.file != nil {
		s.dropStaged(token)
		var err error
		if token, err = s.stageFile(n.file); err != nil {
			s.Log.Warn("file not staged", "error", err) // it can be chosen again
			token = ""
		}
	}
	preview.Token = token
	preview.Questions, preview.Columns = len(n.set.Rows), n.set.Columns
	preview.VariableNames, preview.IgnoredSheets = n.set.VariableNames, n.set.IgnoredSheets
	for _, row := range n.set.Rows[:min(5, len(n.set.Rows))] {
		preview.First = append(preview.First, views.PreviewRow{Number: row.Number, QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer})
	}
	preview.Calls = len(n.set.Rows) * n.settings.RunsPerItem
	preview.Duration = time.Duration(preview.Calls) * n.interval
	return preview
}

// probeAgent asks one question once, with the form's settings, and shows what comes of it.
func (s *Server) probeAgent(c echo.Context) error {
	submitted, err := s.readForm(c)
	if err != nil {
		return err
	}
	n, faults := s.validate(submitted)
	locale := s.locale(c)
	probe := &views.Probe{}
	for _, f := range faults {
		if f.field != "task_name" && f.field != "dataset_file" && probe.Message == "" {
			probe.Message = f.fault.message(locale)
		}
	}
	if probe.Message == "" {
		*probe = s.probe(c.Request().Context(), n, strings.TrimSpace(submitted.values["probe_question"]), locale)
	}
	if isFragment(c) {
		return s.render(c, http.StatusOK, views.ProbePart(probe))
	}
	form := s.formOf(submitted, n)
	form.Probe = probe
	if n.file != nil {
		form.Preview = s.preview(n, faults, submitted, locale)
	}
	return s.render(c, http.StatusOK, views.CreatePage(s.createFrame(c), form))
}

func (s *Server) probe(ctx context.Context, n newTask, question string, locale views.Locale) views.Probe {
	request := agent.Request{URL: n.url, Headers: n.headers, Question: question, Stream: n.settings.UseStream,
		IdempotencyKey: "wending-probe-" + uuid.NewString(), Timeout: time.Duration(n.settings.TimeoutSeconds) * time.Second, RawLimit: 64 << 10}
	switch {
	case question != "":
	case n.set != nil:
		first := n.set.Rows[0]
		request.Question, request.StandardAnswer, request.SystemPrompt, request.UserContext = first.Question, first.StandardAnswer, first.SystemPrompt, first.UserContext
	default:
		request.Question = locale.Text("create.probe.default")
	}
	if n.payload != nil {
		request.ExtraPayload = *n.payload
	}
	answer := s.Agents.Ask(ctx, request)
	return views.Probe{Status: string(answer.Status), ErrorCode: answer.ErrorCode, ErrorMessage: answer.ErrorMessage, Latency: answer.Latency,
		HTTPStatus: answer.HTTPStatus, ContentType: answer.ContentType, Text: answer.Text, Reasoning: answer.Reasoning, Raw: answer.Raw}
}

// startDemo creates a task of 20 questions for the demo agent, whose answers vary.
func (s *Server) startDemo(c echo.Context) error {
	if s.DemoURL == "" {
		return fault(http.StatusNotFound, "NOT_FOUND")
	}
	const file = "sample.csv"
	form := &upload{values: map[string]string{"task_name": s.locale(c).Text("tasks.demo.name"), "agent_api_url": s.DemoURL, "runs_per_item": "5",
		"timeout_seconds": "5", "max_retries": "0", "concurrency": "5", "rate_limit": "unlimited", "agent_model": "demo-agent"},
		file: &uploadedFile{name: file, content: static.Content(file)}}
	n, faults := s.validate(form)
	if len(faults) > 0 {
		return faults[0].fault
	}
	task, err := s.storeTask(c, n)
	if err != nil {
		return err
	}
	return done(c, views.TaskPath(task, ""), "created")
}

// downloadDataset gives a task's file back as it was uploaded.
func (s *Server) downloadDataset(c echo.Context) error {
	task, err := s.task(c)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(s.datasetPath(task.ID, task.DatasetExtension))
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", export.Attachment(task.DatasetName))
	c.Response().Header().Set("Content-Security-Policy", "sandbox")
	http.ServeFile(c.Response(), c.Request(), path)
	return nil
}
