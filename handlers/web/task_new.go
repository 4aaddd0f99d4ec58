package web

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/handlers/admission"
	"wending/handlers/api"
	"wending/handlers/fault"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/jobs/agent"
	"wending/jobs/dataset"
	"wending/jobs/protocol"
	"wending/jobs/tasks"
	"wending/static"
	"wending/views/paths"
	taskviews "wending/views/tasks"
	"wending/views/text"
	"wending/views/ui"
)

// keptFor is how long headers that were typed stay in their form.
const keptFor = time.Hour

// keptHeaders are headers that a form carries, sealed, while it is being filled in.
type keptHeaders struct {
	Headers map[string]string `json:"headers"`
	Until   time.Time         `json:"until"`
}

// headersOwner is whom kept headers are sealed for: this browser and the agent's origin, empty while the address is not
// one yet. Otherwise anyone with a copy of the page could send them to their own agent.
func headersOwner(c echo.Context, origin string) string { return "form " + browser(c) + " " + origin }

// submission is a form for a task with what it is based on.
type submission struct {
	*form.Upload
	// source is the task that the form is a copy of, or the draft that it edits; nil means neither.
	source  *db.Task
	isDraft bool
	// task is what the form says, faults what is wrong with it.
	task   tasks.New
	faults []form.FieldFault
	// system is why the source could not be read; nil means it was, or there is none.
	system error
}

// newTask is the form for a task: empty, with the settings and questions of the task that "from" names, or with
// those of the draft that "draft" names.
func (p *Pages) newTask(c echo.Context) error {
	from, draft := c.QueryParam("from"), c.QueryParam("draft")
	if from == "" && draft == "" {
		return render(c, http.StatusOK, taskviews.FormPage(p.formFrame(c, "create.title"), p.emptyForm()))
	}
	source, err := p.taskByID(c, from+draft)
	if err != nil {
		return err
	}
	if draft != "" && !source.IsDraft() {
		return fault.New("TASK_STATE_CONFLICT").WithMessage("error.DRAFT_GONE")
	}
	submitted := &form.Upload{}
	if err := submitted.Admit(c.Request().Context(), gates(c).Files); err != nil {
		return err
	}
	if submitted.Refused != nil {
		return submitted.Refused
	}
	n, err := p.Tasks.CopySettings(source)
	if err != nil {
		return err
	}
	submitted.Values = formValues(n)
	submitted.Values["dataset_token"] = form.SourceToken
	if draft != "" {
		submitted.Values["draft"] = draft
	} else {
		submitted.Values["from"] = from
		submitted.Values["task_name"] = api.CopyName(c.Request().Context(), source.Name)
	}
	return p.showForm(c, submitted, http.StatusOK)
}

// formValues are the fields of a form that shows a task. What may be secret – headers, payload, the URL's query –
// stays on the server.
func formValues(n tasks.New) map[string]string {
	address, _, hasQuery := strings.Cut(n.AgentURL, "?")
	return map[string]string{
		"task_name": n.Name, "agent_api_url": address, "keep_query": strconv.FormatBool(hasQuery), "agent_model": n.AgentModel,
		"runs_per_item": strconv.Itoa(n.RunsPerItem), "timeout_seconds": strconv.Itoa(n.TimeoutSeconds), "max_retries": strconv.Itoa(n.MaxRetries),
		"concurrency": strconv.Itoa(n.Concurrency), "rate_limit": n.RateLimit, "use_stream": strconv.FormatBool(n.UseStream),
	}
}

// readSubmission reads a form and checks it.
func (p *Pages) readSubmission(c echo.Context) (*submission, error) {
	submitted, err := form.Read(c.Response(), c.Request(), gates(c).Files)
	if err != nil {
		return nil, err
	}
	return p.check(c, submitted)
}

// check finds what a form is based on – its source, the file that was staged, the headers that were sealed – and
// checks it.
func (p *Pages) check(c echo.Context, submitted *form.Upload) (*submission, error) {
	ctx := c.Request().Context()
	s := &submission{Upload: submitted}
	base := tasks.New{Settings: p.Defaults}
	if err := submitted.Admit(ctx, gates(c).Files); err != nil {
		return nil, err
	}
	if submitted.Refused != nil {
		s.system = submitted.Refused
		s.task, s.faults = form.Task(ctx, submitted, base, form.Rules{CheckURL: p.CheckURL, Library: p.Library})
		return s, nil
	}
	if id := submitted.Value("draft") + submitted.Value("from"); id != "" {
		source, err := p.taskByID(c, id)
		switch {
		case errors.Is(err, db.ErrNotFound) && submitted.Value("draft") != "":
			s.system = fault.New("TASK_STATE_CONFLICT").WithMessage("error.DRAFT_GONE").WithCause(err)
		case errors.Is(err, db.ErrNotFound): // deleted in the meantime: what was copied openly is in the form
		case err != nil:
			s.system = err
		default:
			s.source, s.isDraft = &source, submitted.Value("draft") != ""
			if submitted.File == nil && submitted.Value("dataset_token") == form.SourceToken {
				base, s.system = p.Tasks.Copy(ctx, source)
			} else {
				base, s.system = p.Tasks.CopySettings(source)
			}
		}
	}
	if token := submitted.Value("dataset_token"); submitted.File == nil && token != "" {
		file, err := p.Staging.Get(ctx, browser(c), token)
		if err != nil {
			s.system = errors.Join(s.system, err)
		}
		submitted.File = file
		if file != nil {
			defer func() { submitted.File = nil }() // it is staged already
		}
	}
	rules := form.Rules{CheckURL: p.CheckURL, Library: p.Library, SealedHeaders: p.openHeaders(c, submitted)}
	s.task, s.faults = form.Task(ctx, submitted, base, rules)
	return s, nil
}

// openHeaders opens headers that came back with a form; nil if there are none, or they must be typed again.
func (p *Pages) openHeaders(c echo.Context, submitted *form.Upload) map[string]string {
	sealed, err := base64.StdEncoding.DecodeString(submitted.Values["agent_api_headers_sealed"])
	if err != nil || len(sealed) == 0 {
		return nil
	}
	for _, origin := range []string{form.Origin(submitted.Value("agent_api_url")), ""} {
		var kept keptHeaders
		if p.Sealer.Open(sealed, headersOwner(c, origin), &kept) == nil && time.Now().Before(kept.Until) {
			return kept.Headers
		}
	}
	return nil
}

// createTask handles the submitted form: 303 to the list, or the form again with an error beside each field. If the
// fault is the server's, everything typed and the file come back too.
func (p *Pages) createTask(c echo.Context) error {
	ctx := c.Request().Context()
	s, err := p.readSubmission(c)
	if err != nil {
		return err
	}
	if len(s.faults) > 0 && s.system == nil {
		return p.showSubmission(c, s, statusOf(s.faults), nil)
	}
	id, err := p.store(c, s)
	if err != nil {
		f := fault.Of(err)
		if fault.IsOurs(err) {
			p.Failed(ctx, err)
		}
		return p.showSubmission(c, s, f.Status(), f)
	}
	p.Staging.Drop(ctx, browser(c), s.Value("dataset_token"))
	if s.task.IsDraft {
		return done(c, paths.Task(id), "saved")
	}
	return done(c, paths.Tasks, "created")
}

// store creates the task, or replaces the draft that the form edits.
func (p *Pages) store(c echo.Context, s *submission) (uuid.UUID, error) {
	ctx := c.Request().Context()
	if s.system != nil {
		return uuid.Nil, s.system
	}
	if !s.isDraft {
		return p.Tasks.Create(ctx, actor(c), s.task)
	}
	err := p.Tasks.ReplaceDraft(ctx, actor(c), s.source.ID, s.task)
	if errors.Is(err, db.ErrConflict) {
		err = fault.New("TASK_STATE_CONFLICT").WithMessage("error.DRAFT_GONE").WithCause(err)
	}
	return s.source.ID, err
}

// statusOf is the status of a form with faults.
func statusOf(faults []form.FieldFault) int {
	status := http.StatusUnprocessableEntity
	for _, f := range faults {
		if f.Status() == http.StatusRequestEntityTooLarge {
			status = f.Status()
		}
	}
	return status
}

// showForm shows a form as it was submitted, without complaining about what is not filled in yet.
func (p *Pages) showForm(c echo.Context, submitted *form.Upload, status int) error {
	s, err := p.check(c, submitted)
	if err != nil {
		return err
	}
	view := p.formView(c, s)
	view.Preview = p.preview(c, s)
	return p.renderForm(c, status, s, view)
}

func (p *Pages) renderForm(c echo.Context, status int, s *submission, view taskviews.Form) error {
	s.Release() // reading the response may take the client long
	title := "create.title"
	if s.isDraft {
		title = "create.draft.title"
	}
	return render(c, status, taskviews.FormPage(p.formFrame(c, title), view))
}

// showSubmission shows a form with its faults; system is the server's own, nil if it has none.
func (p *Pages) showSubmission(c echo.Context, s *submission, status int, system *fault.Fault) error {
	view := p.formView(c, s)
	for _, f := range s.faults {
		view.Errors[f.Field] = f.Message(locale(c))
	}
	view.Preview = p.preview(c, s)
	if view.Preview != nil && view.Preview.Message != "" {
		view.Errors["dataset_file"] = "" // the preview shows it, with the rows
	}
	if system != nil {
		key := "create.system"
		if view.Preview != nil && view.Preview.Message == "" && view.Preview.Token == "" || s.Refused != nil && s.File != nil {
			key = "create.system.nofile"
		}
		view.Errors[""] = locale(c).Text(key, "Reason", system.Message(locale(c)))
	}
	return p.renderForm(c, status, s, view)
}

func (p *Pages) formFrame(c echo.Context, title string) ui.Frame {
	l := locale(c)
	frame := p.frame(c, l.Text(title), ui.SectionCreate, ui.Crumb{Text: l.Text("nav.tasks"), Href: paths.Tasks}, ui.Crumb{Text: l.Text(title)})
	frame.Styles, frame.Scripts, frame.FormID = []string{"form.css"}, []string{"task_form.js"}, taskviews.FormID
	return frame
}

// emptyForm is the form as it opens.
func (p *Pages) emptyForm() taskviews.Form {
	d := p.Defaults
	return taskviews.Form{
		Runs: strconv.Itoa(d.RunsPerItem), Timeout: strconv.Itoa(d.TimeoutSeconds), Retries: strconv.Itoa(d.MaxRetries),
		Concurrency: strconv.Itoa(d.Concurrency), RateLimit: d.RateLimit, UseStream: d.UseStream, MaxBytes: dataset.MaxBytes,
		Errors: map[string]string{}, HasDemo: p.DemoURL != "",
	}
}

// formView is a form as it was submitted, so that nothing typed is lost. Headers that were understood come back
// sealed: a secret is never rendered, not even to the user who entered it.
func (p *Pages) formView(c echo.Context, s *submission) taskviews.Form {
	view := p.emptyForm()
	values := s.Values
	view.Name, view.URL, view.Model = values["task_name"], values["agent_api_url"], values["agent_model"]
	view.Headers, view.Payload, view.ProbeQuestion = values["agent_api_headers"], values["extra_payload"], values["probe_question"]
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
	typed, isTypo := p.openHeaders(c, s.Upload), false
	if written := s.Value("agent_api_headers"); written != "" {
		parsed, err := agent.ParseHeaders(written)
		if isTypo = err != nil; !isTypo {
			typed = parsed
		}
	}
	if len(typed) > 0 {
		owner := headersOwner(c, form.Origin(s.Value("agent_api_url")))
		if sealed, err := p.Sealer.Seal(keptHeaders{typed, time.Now().Add(keptFor)}, owner); err == nil {
			view.SealedHeaders = base64.StdEncoding.EncodeToString(sealed)
			if !isTypo { // what is wrong stays, to be corrected
				view.Headers = ""
			}
		}
	}
	if streams, isThere := values["use_stream"]; isThere {
		view.UseStream = streams != "false"
	}
	for name, to := range map[string]*string{
		"runs_per_item": &view.Runs, "timeout_seconds": &view.Timeout, "max_retries": &view.Retries,
		"concurrency": &view.Concurrency, "rate_limit": &view.RateLimit,
	} {
		if value, isThere := values[name]; isThere {
			*to = value
		}
	}
	return view
}

// previewDataset shows what the chosen file contains, and keeps the file for the form.
func (p *Pages) previewDataset(c echo.Context) error {
	s, err := p.readSubmission(c)
	if err != nil {
		return err
	}
	if s.Refused != nil {
		if request.IsFragment(c.Request()) {
			return s.Refused
		}
		return p.showSubmission(c, s, http.StatusServiceUnavailable, fault.Of(s.Refused))
	}
	preview := p.preview(c, s)
	if request.IsFragment(c.Request()) {
		s.Release()
		return render(c, http.StatusOK, taskviews.PreviewPart(preview))
	}
	view := p.formView(c, s)
	view.Preview = preview
	if preview == nil {
		view.Errors["dataset_file"] = locale(c).Text("error.DATASET_REQUIRED")
	}
	return p.renderForm(c, http.StatusOK, s, view)
}

// preview describes a form's file and stages it if it is sound; nil if there is none. A file that came with the
// form replaces the one staged before.
func (p *Pages) preview(c echo.Context, s *submission) *taskviews.Preview {
	file := s.task.File
	if s.File != nil {
		file = s.File.File
	}
	if file.Name == "" || s.Refused != nil {
		return nil
	}
	preview := &taskviews.Preview{FileName: text.Cut(file.Name, 200), FileSize: len(file.Content)}
	p.chooseColumns(c, s, file, preview)
	for _, f := range s.faults {
		if f.Field == "dataset_file" {
			preview.Message = f.Message(locale(c))
			if len(preview.Choices) > 0 { // once they are chosen the file need not be sent again
				preview.Token = p.stage(c, s)
			}
			details, total := f.Details(locale(c))
			preview.Total = total
			for _, detail := range details {
				preview.Rows = append(preview.Rows, taskviews.RowProblem{Row: detail.Row, Column: detail.Column, Message: detail.Message})
			}
			return preview
		}
	}
	preview.Token = p.stage(c, s)
	set := s.task.Dataset
	preview.Questions, preview.Columns = len(set.Rows), set.Columns
	preview.VariableNames, preview.IgnoredSheets = set.VariableNames, set.IgnoredSheets
	for _, row := range set.Rows[:min(5, len(set.Rows))] {
		preview.First = append(preview.First, taskviews.PreviewRow{
			Number: row.Number, QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer,
		})
	}
	preview.Calls = len(set.Rows) * s.task.RunsPerItem
	if interval, _, err := p.Tasks.CallInterval(s.task.RateLimit); err == nil {
		preview.Duration = time.Duration(preview.Calls) * interval
	}
	return preview
}

// chooseColumns offers the columns of a file in which question or standard_answer is missing: those that were chosen, and
// otherwise those that probably are meant, with which the file is read again.
func (p *Pages) chooseColumns(c echo.Context, s *submission, file tasks.File, preview *taskviews.Preview) {
	chosen := s.task.Columns
	at := slices.IndexFunc(s.faults, func(f form.FieldFault) bool { return f.Field == "dataset_file" })
	if at < 0 {
		if s.task.Dataset != nil && chosen != (dataset.Columns{}) {
			preview.Choices, preview.Chosen = s.task.Dataset.Columns, chosen
		}
		return
	}
	refused := (*dataset.Error)(nil)
	if !errors.As(s.faults[at].Fault, &refused) || len(refused.Columns) == 0 {
		return
	}
	preview.Choices, preview.Chosen = refused.Columns, dataset.Guess(refused.Columns)
	if slices.Contains(refused.Columns, chosen.Question) {
		preview.Chosen.Question = chosen.Question
	}
	if slices.Contains(refused.Columns, chosen.Answer) {
		preview.Chosen.Answer = chosen.Answer
	}
	if set, err := dataset.Read(c.Request().Context(), file.Name, file.Content, preview.Chosen); err == nil {
		s.task.Dataset, s.task.Columns = set, preview.Chosen
		s.faults = slices.Delete(s.faults, at, at+1)
	}
}

// stage keeps the file that came with a form and returns its token, or that of the file staged before. Without a
// token the file must be chosen again.
func (p *Pages) stage(c echo.Context, s *submission) string {
	ctx, token := c.Request().Context(), s.Value("dataset_token")
	if s.File == nil {
		return token
	}
	p.Staging.Drop(ctx, browser(c), token)
	token, err := p.Staging.Put(ctx, browser(c), s.File.File)
	if err != nil {
		p.Log.WarnContext(ctx, "could not stage the file, the user must choose it again", "error", err)
		return ""
	}
	s.Values["dataset_token"] = token
	return token
}

// probeAgent sends one real request with the form's settings and shows its outcome.
func (p *Pages) probeAgent(c echo.Context) error {
	s, err := p.readSubmission(c)
	if err != nil {
		return err
	}
	status, probe := http.StatusOK, &taskviews.Probe{}
	for _, f := range s.faults {
		if f.Field != "task_name" && f.Field != "dataset_file" && probe.Message == "" {
			probe.Message = f.Message(locale(c))
		}
	}
	if probe.Message == "" {
		*probe, err = p.probe(c, s)
	}
	if err != nil {
		if request.IsFragment(c.Request()) || fault.IsOurs(err) {
			return err
		}
		f := fault.Of(err)
		status, probe.Message = f.Status(), f.Message(locale(c))
	}
	if request.IsFragment(c.Request()) {
		return render(c, http.StatusOK, taskviews.ProbePart(probe))
	}
	view := p.formView(c, s)
	view.Probe, view.Preview = probe, p.preview(c, s)
	return p.renderForm(c, status, s, view)
}

func (p *Pages) probe(c echo.Context, s *submission) (taskviews.Probe, error) {
	ctx, n := c.Request().Context(), s.task
	question := protocol.Request{
		Protocol: protocol.Default,
		URL:      n.AgentURL, Headers: n.Headers, Question: s.Value("probe_question"), Stream: n.UseStream,
		IdempotencyKey: "wending-probe-" + uuid.NewString(), Timeout: time.Duration(n.TimeoutSeconds) * time.Second, RawLimit: 64 << 10,
	}
	switch {
	case question.Question != "":
	case n.Dataset != nil:
		first := n.Dataset.Rows[0]
		question.Question, question.StandardAnswer = first.Question, first.StandardAnswer
		question.SystemPrompt, question.UserContext = first.SystemPrompt, first.UserContext
	default:
		question.Question = locale(c).Text("create.probe.default")
	}
	if n.Payload != nil {
		question.ExtraPayload = *n.Payload
	}
	s.Release() // the call may take long
	leave, err := gates(c).Probes.Enter(ctx)
	if err != nil {
		return taskviews.Probe{}, err
	}
	defer leave()
	if err := p.Tasks.AwaitSlot(ctx, n.AgentURL, n.RateLimit, admission.Patience); err != nil {
		return taskviews.Probe{}, err
	}
	answer := p.Agents.Ask(ctx, question)
	probe := taskviews.Probe{
		Status: string(answer.Status), Latency: answer.Latency, HTTPStatus: answer.HTTPStatus, ContentType: answer.ContentType,
		Text: answer.Text, Reasoning: answer.Reasoning, Raw: answer.Raw,
	}
	if answer.ErrorCode != "" {
		probe.Failure = &ui.Failure{Code: answer.ErrorCode, Message: answer.ErrorMessage}
	}
	return probe, nil
}

// startDemo creates a task of 20 questions for the demo agent, whose answers vary.
func (p *Pages) startDemo(c echo.Context) error {
	if p.DemoURL == "" {
		return fault.New("NOT_FOUND")
	}
	const name = "sample.csv"
	questions := tasks.File{Name: name, Content: static.Content(name)}
	id, err := p.Tasks.CreateDemo(c.Request().Context(), actor(c), locale(c).Text("tasks.demo.name"), p.DemoURL, questions)
	if err != nil {
		return err
	}
	return done(c, paths.Task(id), "created")
}
