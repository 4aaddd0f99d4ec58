package create

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/agent"
	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
	"wending/jobs/tasks"
	"wending/static"
	"wending/views/paths"
	"wending/views/taskpages"
	"wending/views/text"
	"wending/views/ui"
)

// submission is a submitted form for a task, together with what it refers to.
type submission struct {
	*form.Upload
	// source is the task that the form copies, or the draft that it edits; nil means neither.
	source  *db.Task
	isDraft bool
	// headers are the headers that the form carried in sealed form, opened; nil if there are none, or if they must be
	// typed again.
	headers map[string]string
	// task is the task that the form describes, and faults are the form's faults.
	task   tasks.New
	faults []form.FieldFault
	// gone are the names of entries that the source uses and the library no longer offers.
	gone []string
	// system is the reason why the source could not be read; nil if it was read, or there is none.
	system error
}

// isComparison reports whether this is the form that compares prompts, models and agents.
func (s *submission) isComparison() bool { return s.Value("form") == taskpages.CompareForm }

// agentProblem returns the first fault that prevents a call of the agent in the form, which is any except those of the
// name and the file; empty if there is none.
func (s *submission) agentProblem(locale text.Locale) string {
	for _, f := range s.faults {
		if f.Field != "task_name" && f.Field != "dataset_file" {
			return f.Message(locale)
		}
	}
	return ""
}

// problemOf returns the message about a field's fault; empty if it has none.
func (s *submission) problemOf(field string, locale text.Locale) string {
	for _, f := range s.faults {
		if f.Field == field {
			return f.Message(locale)
		}
	}
	return ""
}

// newTask shows the form for a task: empty, or with the settings and questions of the task in the parameter "from", or
// of the draft in the parameter "draft".
func (h *Forms) newTask(c echo.Context) error {
	from, draft := c.QueryParam("from"), c.QueryParam("draft")
	if from == "" && draft == "" {
		values := map[string]string{}
		if c.Path() == paths.NewComparison {
			values["form"] = taskpages.CompareForm
			for _, name := range []string{"prompts", "models", "agents", "dataset", "evaluators"} {
				values[name] = c.QueryParam(name)
			}
		}
		return h.showForm(c, form.New(values), nil)
	}
	source, err := request.Task(c.Request().Context(), h.Store, from+draft)
	if err != nil {
		return err
	}
	if draft != "" && !source.IsDraft() {
		return request.NewFault(request.CodeTaskStateConflict).WithMessage("error.DRAFT_GONE")
	}
	isComparison := c.Path() == paths.NewComparison
	if !isComparison && !source.IsPlain() {
		return c.Redirect(http.StatusSeeOther, paths.NewComparison+"?"+c.QueryString())
	}
	submitted := form.New(nil)
	if err := submitted.Admit(c.Request().Context(), pages.Gates(c).Files); err != nil {
		return err
	}
	if submitted.Refused != nil {
		return submitted.Refused
	}
	n, err := h.Tasks.CopySettings(c.Request().Context(), source)
	if err != nil {
		return err
	}
	submitted.Values = formValues(n)
	submitted.Values["dataset_token"] = form.SourceToken
	gone, err := h.addEvaluators(c.Request().Context(), source, submitted.Values)
	if err != nil {
		return err
	}
	more, err := h.addGrouper(c.Request().Context(), source, submitted.Values)
	if err != nil {
		return err
	}
	gone = append(gone, more...)
	if isComparison {
		more, err := h.addReferences(c.Request().Context(), source, submitted.Values)
		if err != nil {
			return err
		}
		gone = append(gone, more...)
	}
	if draft != "" {
		submitted.Values["draft"] = draft
	} else {
		submitted.Values["from"] = from
		submitted.Values["task_name"] = form.CopyName(c.Request().Context(), source.Name)
	}
	return h.showForm(c, submitted, gone)
}

// formValues returns a task's settings as the fields of a form. Values that may be secret (headers, payload, the URL's
// query) stay on the server.
func formValues(n tasks.New) map[string]string {
	var channels []string
	if n.Channels != nil {
		for _, id := range *n.Channels {
			channels = append(channels, id.String())
		}
	}
	address, _, hasQuery := strings.Cut(n.AgentURL, "?")
	return map[string]string{
		"task_name": n.Name, "agent_api_url": address, "keep_query": strconv.FormatBool(hasQuery),
		"agent_model":   n.AgentModel,
		"runs_per_item": strconv.Itoa(n.RunsPerItem), "timeout_seconds": strconv.Itoa(n.TimeoutSeconds),
		"max_retries": strconv.Itoa(n.MaxRetries),
		"concurrency": strconv.Itoa(n.Concurrency), "rate_limit": n.RateLimit, "use_stream": strconv.FormatBool(n.UseStream),
		"on_turn_failure": string(n.OnTurnFailure), "cluster_by": n.ClusterBy, "adaptive": adaptiveText(n.Adaptive),
		"max_cost": n.MaxCost, "channels": strings.Join(channels, ","),
	}
}

// adaptiveText returns the settings of adaptive runs as they are typed in a form.
func adaptiveText(adaptive *db.Adaptive) string {
	if adaptive == nil {
		return ""
	}
	value, _ := json.Marshal(adaptive) // numbers can always be encoded
	return string(value)
}

// readSubmission parses a submitted form and checks it.
func (h *Forms) readSubmission(c echo.Context) (*submission, error) {
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return nil, err
	}
	return h.check(c, submitted)
}

// check loads what a form refers to (its source, the staged file, the sealed headers), and checks the form's fields.
func (h *Forms) check(c echo.Context, submitted *form.Upload) (*submission, error) {
	ctx := c.Request().Context()
	s := &submission{Upload: submitted, headers: h.openHeaders(c, submitted)}
	rules := form.Rules{CheckURL: h.Check.Task, Library: h.Library, SealedHeaders: s.headers}
	if submitted.File != nil || submitted.Value("dataset_token") != "" || submitted.Value("dataset") != "" {
		if err := submitted.Admit(ctx, pages.Gates(c).Files); err != nil {
			return nil, err
		}
	}
	read := submitted
	if submitted.Has("agent_api_url") && !s.isComparison() && submitted.Value("agents") != "" {
		read = read.With("agent_api_url", "") // a chosen agent of the library replaces the typed one, which stays in the form
		rules.SealedHeaders = nil
	}
	var base tasks.New
	if s.system = submitted.Refused; s.system != nil {
		base, rules.SealedHeaders = tasks.New{Settings: h.Defaults}, nil
	} else {
		base = h.base(ctx, s)
	}
	if token := submitted.Value("dataset_token"); submitted.Refused == nil && submitted.File == nil && token != "" &&
		submitted.Value("dataset") == "" {
		file, err := h.Staging.Get(ctx, pages.Browser(c), token)
		if err != nil {
			s.system = errors.Join(s.system, err)
		}
		read = read.WithFile(file)
	}
	s.task, s.faults = form.Task(ctx, read, base, rules)
	return s, nil
}

// base returns the settings that a form changes: those of the draft that it edits or the task that it copies, or the
// defaults. It stores the source in s, or the reason why it cannot be read.
func (h *Forms) base(ctx context.Context, s *submission) (base tasks.New) {
	base = tasks.New{Settings: h.Defaults}
	id := s.Value("draft") + s.Value("from")
	if id == "" {
		return base
	}
	source, err := request.Task(ctx, h.Store, id)
	switch {
	case errors.Is(err, db.ErrNotFound) && s.Value("draft") != "":
		s.system = request.NewFault(request.CodeTaskStateConflict).WithMessage("error.DRAFT_GONE").WithCause(err)
	case errors.Is(err, db.ErrNotFound): // deleted in the meantime: the form has all copied values that are not secret
	case err != nil:
		s.system = err
	default:
		s.source, s.isDraft = &source, s.Value("draft") != ""
		if s.File == nil && s.Value("dataset_token") == form.SourceToken {
			base, s.system = h.Tasks.Copy(ctx, source)
		} else {
			base, s.system = h.Tasks.CopySettings(ctx, source)
		}
	}
	return base
}

// openHeaders returns the headers that a form carries in sealed form; nil if there are none, or if they must be typed
// again.
func (h *Forms) openHeaders(c echo.Context, submitted *form.Upload) (headers map[string]string) {
	if !h.Keeper.Open(pages.Browser(c), submitted.Value("agent_api_url"), submitted.Values["agent_api_headers_sealed"],
		&headers) {
		return nil
	}
	return headers
}

// createTask stores the task of a submitted form. It redirects to the list of tasks or, for a draft, to the draft's
// page; or it shows the form again with an error next to each invalid field. If the server is at fault, the form keeps
// all typed values and the file.
func (h *Forms) createTask(c echo.Context) error {
	ctx := c.Request().Context()
	s, err := h.readSubmission(c)
	if err != nil {
		return err
	}
	if len(s.faults) > 0 && s.system == nil {
		return h.showSubmission(c, s, statusOf(s.faults), nil)
	}
	id, err := h.store(c, s)
	if err != nil {
		f := request.FaultOf(err)
		if request.IsInternal(err) {
			h.Failed(ctx, err)
		}
		return h.showSubmission(c, s, f.Status(), f)
	}
	h.Staging.Drop(ctx, pages.Browser(c), s.Value("dataset_token"))
	if s.task.IsDraft {
		return pages.Done(c, paths.Task(id), "saved")
	}
	return pages.Done(c, paths.Tasks, "created")
}

// store creates the task, or replaces the draft that the form edits, and returns its id.
func (h *Forms) store(c echo.Context, s *submission) (uuid.UUID, error) {
	ctx := c.Request().Context()
	if s.system != nil {
		return uuid.Nil, s.system
	}
	if !s.isDraft {
		id, err := h.Tasks.Create(ctx, request.ScopeOf(ctx), pages.Actor(c), s.task)
		request.Made(ctx, id.String(), s.task.Name)
		return id, err
	}
	request.Note(ctx, func(e *request.AuditEntry) {
		e.Action, e.ObjectID, e.ObjectName = "task.change", s.source.ID.String(), s.task.Name
	})
	err := h.Tasks.ReplaceDraft(ctx, pages.Actor(c), *s.source, s.task)
	if errors.Is(err, db.ErrConflict) {
		err = request.NewFault(request.CodeTaskStateConflict).WithMessage("error.DRAFT_GONE").WithCause(err)
	}
	return s.source.ID, err
}

// statusOf returns the status of a response with faults: 413 if a file is too large, otherwise 422.
func statusOf(faults []form.FieldFault) int {
	status := http.StatusUnprocessableEntity
	for _, f := range faults {
		if f.Status() == http.StatusRequestEntityTooLarge {
			status = f.Status()
		}
	}
	return status
}

// showForm shows a form as it was submitted, without errors for fields that have not been filled in yet. gone are the
// names of entries that its source uses and the library no longer offers.
func (h *Forms) showForm(c echo.Context, submitted *form.Upload, gone []string) error {
	s, err := h.check(c, submitted)
	if err != nil {
		return err
	}
	s.gone = gone
	view, err := h.formView(c, s)
	if err != nil {
		return err
	}
	s, view.Preview = h.preview(c, s)
	return h.renderForm(c, http.StatusOK, s, view)
}

func (h *Forms) renderForm(c echo.Context, status int, s *submission, view taskpages.Form) error {
	if s.isComparison() {
		return h.renderComparison(c, status, s, view)
	}
	s.Release() // a slow client may take long to read the response
	title := "create.title"
	if s.isDraft {
		title = "create.draft.title"
	}
	return pages.Render(c, status, taskpages.FormPage(h.formFrame(c, title, ui.SectionTasks), view))
}

// showSubmission shows a form with its faults. system is the fault of the server, or nil.
func (h *Forms) showSubmission(c echo.Context, s *submission, status int, system *request.Fault) error {
	view, err := h.formView(c, s)
	if err != nil {
		return err
	}
	for _, f := range s.faults {
		view.Errors[f.Field] = f.Message(pages.Locale(c))
	}
	s, view.Preview = h.preview(c, s)
	if view.Preview != nil && view.Preview.Message != "" {
		view.Errors["dataset_file"] = "" // the preview shows the fault and the rows concerned
	}
	if system != nil {
		view.Disclosure = pages.Disclosure(c, system, paths.Tasks, nil)
		key := "create.system"
		if view.Preview != nil && view.Preview.Message == "" && view.Preview.Token == "" || s.Refused != nil &&
			s.File != nil {
			key = "create.system.nofile"
		}
		view.Errors[""] = pages.Locale(c).Text(key, "Reason", system.Message(pages.Locale(c)))
	}
	return h.renderForm(c, status, s, view)
}

func (h *Forms) formFrame(c echo.Context, title string, section ui.Section) ui.Frame {
	l := pages.Locale(c)
	frame := pages.Frame(c, h.Version, l.Text(title), section, ui.Crumb{Text: l.Text("nav.tasks"), Href: paths.Tasks},
		ui.Crumb{Text: l.Text(title)})
	frame.Styles, frame.Scripts, frame.FormID = []string{"form.css"}, []string{"file_field.js", "task_form.js"},
		taskpages.FormID
	return frame
}

// emptyForm returns the form with the default settings.
func (h *Forms) emptyForm() taskpages.Form {
	d := h.Defaults
	return taskpages.Form{
		Runs: strconv.Itoa(d.RunsPerItem), Timeout: strconv.Itoa(d.TimeoutSeconds), Retries: strconv.Itoa(d.MaxRetries),
		Concurrency: strconv.Itoa(d.Concurrency), RateLimit: d.RateLimit, UseStream: d.UseStream,
		TurnFailure: string(db.TurnFailureStops),
		Errors:      map[string]string{}, HasDemo: h.DemoURL != "",
	}
}

// formView returns the view of a submitted form, with all values that were typed. Valid headers are returned sealed,
// because a secret is never rendered, not even for the user who typed it.
func (h *Forms) formView(c echo.Context, s *submission) (taskpages.Form, error) {
	view := h.emptyForm()
	var err error
	if view.Near, err = people.NewQuotas(h.Store).Near(c.Request().Context(),
		request.From(c.Request().Context()).Scope.Home()); err != nil {
		return view, err
	}
	if err := h.addSaved(c.Request().Context(), pages.Locale(c), s, &view); err != nil {
		return view, err
	}
	if view.Lanes, err = h.monitor.Lanes(c.Request().Context()); err != nil {
		return view, err
	}
	values := s.Values
	view.Name, view.URL, view.Model = values["task_name"], values["agent_api_url"], values["agent_model"]
	view.Headers, view.Payload, view.ProbeQuestion = values["agent_api_headers"], values["extra_payload"],
		values["probe_question"]
	if s.source != nil {
		view.From = s.source.ID.String()
		if s.isDraft {
			view.From, view.Draft = "", view.From
		}
		view.HasHeaders, view.HasPayload = s.source.Targets[0].SealedHeaders != nil, s.source.Targets[0].SealedPayload != nil
		view.HasQuery = s.source.Targets[0].SealedQuery != nil
		view.KeepsQuery = values["keep_query"] == "true"
	} else if s.system != nil {
		view.From, view.Draft, view.KeepsQuery = values["from"], values["draft"], values["keep_query"] == "true"
		view.HasQuery = view.KeepsQuery
	}
	typed, isTypo := s.headers, false
	if written := s.Value("agent_api_headers"); written != "" {
		parsed, err := agent.ParseHeaders(written)
		if isTypo = err != nil; !isTypo {
			typed = parsed
		}
	}
	if len(typed) > 0 {
		if view.SealedHeaders = h.Keeper.Keep(pages.Browser(c), s.Value("agent_api_url"), typed); view.SealedHeaders != "" &&
			!isTypo {
			view.Headers = "" // invalid headers stay visible, to be corrected
		}
	}
	if streams, isThere := values["use_stream"]; isThere {
		view.UseStream = streams != "false"
	}
	for name, to := range map[string]*string{
		"runs_per_item": &view.Runs, "timeout_seconds": &view.Timeout, "max_retries": &view.Retries,
		"concurrency": &view.Concurrency, "rate_limit": &view.RateLimit, "on_turn_failure": &view.TurnFailure,
		"cluster_by": &view.ClusterBy, "adaptive": &view.Adaptive, "max_cost": &view.MaxCost,
	} {
		if value, isThere := values[name]; isThere {
			*to = value
		}
	}
	return view, nil
}

// previewDataset shows what the chosen file of questions contains, and stages the file for the form.
func (h *Forms) previewDataset(c echo.Context) error {
	s, err := h.readSubmission(c)
	if err != nil {
		return err
	}
	if s.Refused != nil {
		if request.IsFragment(c.Request()) {
			return s.Refused
		}
		return h.showSubmission(c, s, http.StatusServiceUnavailable, request.FaultOf(s.Refused))
	}
	s, preview := h.preview(c, s)
	if request.IsFragment(c.Request()) {
		s.Release()
		return pages.Render(c, http.StatusOK, ui.PreviewPart(taskpages.FormID, preview))
	}
	view, err := h.formView(c, s)
	if err != nil {
		return err
	}
	view.Preview = preview
	if preview == nil {
		view.Errors["dataset_file"] = pages.Locale(c).Text("error.DATASET_REQUIRED")
	}
	return h.renderForm(c, http.StatusOK, s, view)
}

// preview returns a preview of a form's file and stages the file if it is valid, or will be once its columns are
// chosen; the preview is nil if there is no file. read is the submission with the file as it could be read: the names
// of its columns may differ from those in the form.
func (h *Forms) preview(c echo.Context, s *submission) (read *submission, preview *ui.Preview) {
	chosen := pages.Chosen{
		File: s.task.File, Set: s.task.Dataset, Layout: s.task.Layout,
		IsKept: s.task.DatasetID != nil || s.Value("dataset_token") == form.SourceToken && s.File == nil,
	}
	if s.File != nil {
		chosen.File = s.File.File
	}
	isOfFile := func(f form.FieldFault) bool { return f.Field == "dataset_file" }
	if at := slices.IndexFunc(s.faults, isOfFile); at >= 0 {
		chosen.Fault = s.faults[at].Fault
	}
	preview = h.Questions.Preview(c, s.Upload, &chosen)
	understood := *s
	if chosen.Fault == nil {
		understood.faults = slices.DeleteFunc(slices.Clone(s.faults), isOfFile)
	}
	understood.task.Dataset, understood.task.Layout = chosen.Set, chosen.Layout
	if preview != nil && chosen.Set != nil && chosen.Fault == nil && !s.isComparison() {
		interval, _, err := h.Tasks.CallInterval(s.task.RateLimit)
		if err != nil {
			interval = 0
		}
		calls := len(chosen.Set.Rows) * s.task.RunsPerItem
		preview.Estimate = ui.Estimate(pages.Locale(c), calls, time.Duration(calls)*interval)
		ctx := c.Request().Context()
		// If the estimate fails, the form shows what is wrong.
		if estimate, err := h.Tasks.Estimate(ctx, request.ScopeOf(ctx), understood.task); err == nil {
			preview.Design = designOf(understood.task, estimate)
			preview.AtMost = atMost(pages.Locale(c), estimate)
		}
	}
	return &understood, preview
}

// probeAgent asks the agent in the form one question with the form's settings, and shows the outcome.
func (h *Forms) probeAgent(c echo.Context) error {
	s, err := h.readSubmission(c)
	if err != nil {
		return err
	}
	status, probe := http.StatusOK, &ui.Probe{Message: s.agentProblem(pages.Locale(c))}
	ofAddress := s.problemOf("agent_api_url", pages.Locale(c))
	if probe.Message == "" {
		*probe, err = h.probe(c, s)
	}
	if err != nil {
		if request.IsFragment(c.Request()) || request.IsInternal(err) {
			return err
		}
		f := request.FaultOf(err)
		status, probe.Message = f.Status(), f.Message(pages.Locale(c))
	}
	if request.IsFragment(c.Request()) {
		return pages.Render(c, http.StatusOK, templ.Join(ui.ProbePart(probe), ui.FieldProblem("agent_api_url", ofAddress)))
	}
	view, err := h.formView(c, s)
	if err != nil {
		return err
	}
	view.Probe = probe
	s, view.Preview = h.preview(c, s)
	return h.renderForm(c, status, s, view)
}

func (h *Forms) probe(c echo.Context, s *submission) (ui.Probe, error) {
	ctx, n := c.Request().Context(), s.task
	question := protocol.Request{
		Protocol: protocol.Default,
		URL:      n.AgentURL, Headers: n.Headers, Question: s.Value("probe_question"), Stream: n.UseStream,
		IdempotencyKey: "wending-probe-" + uuid.NewString(), Timeout: time.Duration(n.TimeoutSeconds) * time.Second,
		RawLimit: 64 << 10,
	}
	switch {
	case question.Question != "":
	case n.Dataset != nil:
		first := n.Dataset.Rows[0]
		question.Question, question.StandardAnswer = first.Question, first.StandardAnswer
		question.SystemPrompt, question.UserContext = first.SystemPrompt, first.UserContext
	default:
		question.Question = pages.Locale(c).Text("create.probe.default")
	}
	if n.Payload != nil {
		question.ExtraPayload = *n.Payload
	}
	if err := h.Tasks.CheckSample(ctx, request.ScopeOf(ctx).Home(), question.Question, question.StandardAnswer,
		question.SystemPrompt, question.UserContext); err != nil {
		return ui.Probe{}, err
	}
	s.Release() // the call may take long
	leave, err := pages.Gates(c).Probes.Enter(ctx)
	if err != nil {
		return ui.Probe{}, err
	}
	defer leave()
	awaitSlot := func() error { return h.Tasks.AwaitSlot(ctx, n.AgentURL, n.RateLimit, request.Patience) }
	if err := awaitSlot(); err != nil {
		return ui.Probe{}, err
	}
	return pages.Probe(h.Library.Agents.AskEither(ctx, question, func() bool { return awaitSlot() == nil })), nil
}

// startDemo creates a task with 20 questions for the demo agent, whose answers vary. The agent also paints a picture
// for the first question.
func (h *Forms) startDemo(c echo.Context) error {
	if h.DemoURL == "" {
		return request.NewFault(request.CodeNotFound)
	}
	const name = "demo.csv"
	questions := tasks.File{Name: name, Content: static.Content(name)}
	id, err := h.Tasks.CreateDemo(c.Request().Context(), request.ScopeOf(c.Request().Context()), pages.Actor(c),
		tasks.Demo{
			Name: pages.Locale(c).Text("tasks.demo.name"), AgentURL: h.DemoURL, Headers: guard.Ticket(h.DemoTicket),
			Questions: questions,
		})
	if err != nil {
		return err
	}
	request.Made(c.Request().Context(), id.String(), pages.Locale(c).Text("tasks.demo.name"))
	return pages.Done(c, paths.Task(id), "created")
}
