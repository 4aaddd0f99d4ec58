package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/judging"
)

// takeWorkbook imports a review workbook, and shows what was imported.
func (p *Pages) takeWorkbook(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	submitted, err := form.ReadAnswers(c.Response(), c.Request(), pages.Gates(c).Imports)
	if err != nil {
		return err
	}
	defer submitted.Release()
	typed := judging.SignOffForm{Reviewer: submitted.Value("reviewer")}
	done, err := form.ImportReviews(c.Request().Context(), p.Store, task, submitted)
	if err != nil {
		refused := request.FaultOf(err)
		if refused.Status() >= http.StatusInternalServerError {
			return err
		}
		typed.Workbook.Refused = pages.Refusal(c, refused)
		return p.renderSignOff(c, task, typed, refused.Status())
	}
	typed.Workbook.IsTaken, typed.Workbook.Changed, typed.Workbook.Unchanged = true, done.Changed, done.Unchanged
	status := http.StatusOK
	for _, one := range done.Conflicts {
		status = http.StatusConflict
		typed.Workbook.Conflicts = append(typed.Workbook.Conflicts,
			judging.WorkbookConflict{Row: one.Row, QuestionID: one.Place.QuestionID, Mine: one.Mine, Theirs: one.Theirs})
	}
	return p.renderSignOff(c, task, typed, status)
}
