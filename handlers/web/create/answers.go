package create

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/answers"
	"wending/views/paths"
	"wending/views/taskpages"
	"wending/views/text"
	"wending/views/ui"
)

// answersForm shows the form for creating a task from a file of answers.
func (h *Forms) answersForm(c echo.Context) error {
	return h.renderAnswers(c, http.StatusOK, taskpages.Answers{})
}

func (h *Forms) renderAnswers(c echo.Context, status int, view taskpages.Answers) error {
	locale := pages.Locale(c)
	title := locale.Text("answers.title")
	frame := pages.Frame(c, h.Version, title, ui.SectionTasks, ui.Crumb{Text: locale.Text("nav.tasks"), Href: paths.Tasks},
		ui.Crumb{Text: title})
	frame.Styles, frame.Scripts = []string{"form.css"}, []string{"answers_form.js"}
	return pages.Render(c, status, taskpages.AnswersPage(frame, view))
}

// readAnswers parses the form for a file of answers. sent is the form as it was sent. submitted is the same form or, if
// it contains no file, a copy of it with the file that is staged for it.
func (h *Forms) readAnswers(c echo.Context) (sent, submitted *form.Upload, err error) {
	ctx := c.Request().Context()
	sent, err = form.ReadAnswers(c.Response(), c.Request(), pages.Gates(c).Imports)
	if err != nil || sent.File != nil || sent.Value("dataset_token") == "" {
		return sent, sent, err
	}
	if err := sent.Admit(ctx, pages.Gates(c).Imports); err != nil || sent.Refused != nil {
		return sent, sent, err
	}
	file, err := h.Staging.GetAnswers(ctx, pages.Browser(c), sent.Value("dataset_token"))
	return sent, sent.WithFile(file), err
}

// importAnswers creates a task from a file of answers, or shows the form again with its faults.
func (h *Forms) importAnswers(c echo.Context) error {
	sent, submitted, err := h.readAnswers(c)
	if err != nil {
		return err
	}
	defer submitted.Release()
	ctx := c.Request().Context()
	n, faults := form.Answers(ctx, submitted, h.Defaults)
	if len(faults) == 0 {
		task, err := h.Tasks.ImportAnswers(ctx, request.ScopeOf(ctx), request.From(ctx).Actor, n)
		if err == nil {
			h.Staging.Drop(ctx, pages.Browser(c), submitted.Value("dataset_token"))
			request.Made(ctx, task.ID.String(), task.Name)
			return pages.Done(c, paths.Results(task.ID), "imported")
		}
		if request.FaultOf(err).Status() >= http.StatusInternalServerError {
			return err
		}
		faults = []form.FieldFault{{Field: "file", Fault: request.FaultOf(err)}}
	}
	found, err := form.FindAnswers(ctx, submitted)
	if err != nil {
		return err
	}
	view := taskpages.Answers{Name: submitted.Value("task_name")}
	for _, fault := range faults {
		if fault.Field == "task_name" {
			view.NameError = fault.Message(pages.Locale(c))
		} else {
			found.Fault = fault.Fault
		}
	}
	view.Found = h.foundAnswers(c, sent, submitted, found)
	return h.renderAnswers(c, http.StatusUnprocessableEntity, view)
}

// previewAnswers shows what the chosen file of answers contains, and stages the file for the form.
func (h *Forms) previewAnswers(c echo.Context) error {
	sent, submitted, err := h.readAnswers(c)
	if err != nil {
		return err
	}
	defer submitted.Release()
	if submitted.Refused != nil {
		return submitted.Refused
	}
	read, err := form.FindAnswers(c.Request().Context(), submitted)
	if err != nil {
		return err
	}
	found := h.foundAnswers(c, sent, submitted, read)
	submitted.Release() // a slow client may take long to read the response
	if request.IsFragment(c.Request()) {
		return pages.Render(c, http.StatusOK, taskpages.AnswersFound(found))
	}
	return h.renderAnswers(c, http.StatusOK, taskpages.Answers{Name: submitted.Value("task_name"), Found: found})
}

// foundAnswers returns a preview of submitted's file, of which read is what could be read. If the file is usable, or
// can be once its columns are chosen, foundAnswers also stages the file uploaded with sent, if any.
func (h *Forms) foundAnswers(c echo.Context, sent, submitted *form.Upload,
	read form.FoundAnswers) taskpages.AnswersPreview {
	found := taskpages.AnswersPreview{Format: submitted.Value("format"), Columns: map[string]string{}, File: read.File,
		Names: read.Columns, Encoding: read.Encoding}
	for _, column := range answers.Mappable {
		found.Columns[column] = submitted.Value("column_" + column)
	}
	if read.Fault != nil {
		found.Refused, found.File = pages.Refusal(c, read.Fault), nil
	}
	switch file := submitted.File; {
	case file != nil:
		found.FileName, found.FileSize = text.Cut(file.Name, 200), len(file.Content)
		if found.Refused == nil || len(found.Names) > 0 { // otherwise only another file helps
			found.Token = h.Questions.Stage(c, sent)
		}
	case submitted.Refused != nil: // the server is busy; a staged file is still there
		found.Token = sent.Value("dataset_token")
	}
	return found
}
