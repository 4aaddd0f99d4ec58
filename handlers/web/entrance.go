package web

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/tasklist"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/taskpages"
	"wending/views/ui"
)

// chooseFirst lists the tasks that can be compared, for the reader to choose the first of two.
func (p *Pages) chooseFirst(c echo.Context) error {
	ctx := c.Request().Context()
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	entrance := taskpages.Entrance{Search: request.SearchText(c.QueryParam("query"))}
	filter := tasklist.Filter{Statuses: []db.TaskStatus{db.TaskSucceeded, db.TaskStopped, db.TaskFailed},
		NameContains: entrance.Search}
	tasks, total, err := tasklist.New(p.Store).Tasks(ctx, request.ScopeOf(ctx), filter, page)
	if err != nil {
		return err
	}
	query := url.Values{}
	if entrance.Search != "" {
		query.Set("query", entrance.Search)
	}
	entrance.Tasks, entrance.Pager = tasks, pages.NewPager(paths.Comparison, query, page, total)
	if redirected, err := pages.RedirectPastEnd(c, entrance.Pager); redirected {
		return err
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("compare.title"), ui.SectionTasks)
	frame.Styles = []string{"list.css"}
	return pages.Render(c, http.StatusOK, taskpages.EntrancePage(frame, entrance))
}
