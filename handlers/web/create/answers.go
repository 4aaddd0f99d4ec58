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
	"wending/views/ui"
)

// answersForm shows the form for a file of answers.
func (h *Forms) answersForm(c echo.Context) error {
	return h.renderAnswers(c, http.StatusOK, taskpages.Answers{})
}

func (h *Forms) renderAnswers(c echo.Context, status int, view taskpages.Answers) error {
	locale := pages.Locale(c)
	title := locale.Text("answers.title")
	frame := pages.Frame(c, h.Version, title, ui.SectionTasks, ui.Crumb{Text: locale.Text("nav.tasks"), Href: paths.Tasks},
		ui.Crumb{Text: title})
	frame.Styles = []string{"form.css"}
	return pages.Render(c, status, taskpages.AnswersPage(frame, view))
}

// importAnswers creates a task from a file of answers, or shows the form again with its faults.
func (h *Forms) importAnswers(c echo.Context) error {
	submitted, err := form.ReadAnswers(c.Response(), c.Request(), pages.Gates(c).Imports)
	if err != nil {
		return err
	}
	defer submitted.Release()
	ctx := c.Request().Context()
	n, faults := form.Answers(ctx, submitted, h.Defaults)
	if len(faults) == 0 {
		task, err := h.Tasks.ImportAnswers(ctx, request.ScopeOf(ctx), request.From(ctx).Actor, n)
		if err == nil {
			request.Made(ctx, task.ID.String(), task.Name)
			return pages.Done(c, paths.Results(task.ID), "imported")
		}
		if request.FaultOf(err).Status() >= http.StatusInternalServerError {
			return err
		}
		faults = []form.FieldFault{{Field: "file", Fault: request.FaultOf(err)}}
	}
	view := taskpages.Answers{Name: submitted.Value("task_name"), Format: submitted.Value("format"),
		Columns: map[string]string{}}
	for _, column := range answers.Mappable {
		view.Columns[column] = submitted.Value("column_" + column)
	}
	for _, fault := range faults {
		if fault.Field == "task_name" {
			view.NameError = fault.Message(pages.Locale(c))
			continue
		}
		view.Refused = pages.Refusal(c, fault.Fault)
	}
	return h.renderAnswers(c, http.StatusUnprocessableEntity, view)
}
