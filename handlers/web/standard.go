package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	saved "wending/jobs/library"
	"wending/views/judging"
	"wending/views/paths"
	"wending/views/ui"
)

// datasetQuestion returns the question in the path, or a fault if the task's questions do not come from a saved
// dataset.
func (p *Pages) datasetQuestion(c echo.Context) (task db.Task, s judging.Standard, err error) {
	task, item, number, err := p.question(c)
	if err == nil && task.DatasetID == nil {
		err = request.NewFault(request.CodeTaskStateConflict).WithMessage("error.NO_DATASET")
	}
	return task, judging.Standard{Task: task, Item: item, Number: number, Answer: item.StandardAnswer}, err
}

// showStandard shows the form for correcting the standard answer to a question in its dataset.
func (p *Pages) showStandard(c echo.Context) error {
	_, s, err := p.datasetQuestion(c)
	if err != nil {
		return err
	}
	return p.renderStandard(c, s, http.StatusOK)
}

func (p *Pages) renderStandard(c echo.Context, s judging.Standard, status int) error {
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("standard.title", "Number", s.Number), ui.SectionTasks)
	frame.Styles, frame.Scripts = []string{"report.css", "form.css"}, []string{"review.js"}
	return pages.Render(c, status, judging.StandardPage(frame, s))
}

// correctStandard saves the next version of the dataset, with the typed standard answer. If that is refused, the form
// shows the reason.
func (p *Pages) correctStandard(c echo.Context) error {
	ctx := c.Request().Context()
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	task, s, err := p.datasetQuestion(c)
	if err != nil {
		return err
	}
	s.Answer, s.Note = submitted.Values["standard_answer"], submitted.Values["note"]
	answer, note, err := form.StandardAnswer(submitted.Values)
	leave, full := pages.Gates(c).Files.Enter(ctx)
	if full != nil {
		return full
	}
	defer leave()
	if err == nil {
		_, err = p.Library.CorrectAnswer(ctx, request.ScopeOf(ctx), *task.DatasetID, saved.Correction{
			QuestionID: s.Item.QuestionID, Question: s.Item.Question, Answer: answer, Note: note})
	}
	if err == nil {
		return pages.Done(c, paths.LibraryEntry("datasets", *task.DatasetID), "version")
	}
	fault := request.FaultOf(err)
	if fault.Status() >= http.StatusInternalServerError {
		return err
	}
	s.Problem = fault.Message(pages.Locale(c))
	return p.renderStandard(c, s, fault.Status())
}
