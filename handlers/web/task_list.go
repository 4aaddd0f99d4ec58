package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/db/report"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/taskpages"
	"wending/views/ui"
)

// draftStatus is the value of the filter for drafts, which are a kind of PENDING task.
const draftStatus = "DRAFT"

// filterOf reads status, which may be repeated or comma-separated, and query.
func filterOf(c echo.Context) (report.TaskFilter, url.Values, error) {
	filter, query := report.TaskFilter{WithoutDrafts: true, NameContains: request.SearchText(c.QueryParam("query"))}, url.Values{}
	for _, list := range c.QueryParams()["status"] {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.TrimSpace(name)
			switch status := db.TaskStatus(name); {
			case name == "":
				continue
			case name == draftStatus:
				filter.Drafts = true
			case slices.Contains(db.TaskStatuses, status):
				filter.Statuses = append(filter.Statuses, status)
			default:
				return filter, query, request.ParameterFault("status", request.OneOf(statusChoices()...))
			}
			query.Add("status", name)
		}
	}
	if filter.NameContains != "" {
		query.Set("query", filter.NameContains)
	}
	return filter, query, nil
}

func statusChoices() []string {
	choices := []string{draftStatus}
	for _, status := range db.TaskStatuses {
		choices = append(choices, string(status))
	}
	return choices
}

// readList reads the requested page of the list.
func (p *Pages) readList(c echo.Context) (list taskpages.List, err error) {
	page, err := pages.Window(c)
	if err != nil {
		return list, err
	}
	var query url.Values
	if list.Filter, query, err = filterOf(c); err != nil {
		return list, err
	}
	list.Filter.Newest = list.Filter.IsZero()
	var total int
	if list.Tasks, total, err = report.NewTaskList(p.Store).Tasks(c.Request().Context(), request.ScopeOf(c.Request().Context()), list.Filter, page); err != nil {
		return list, err
	}
	if list.Series, err = report.NewTaskList(p.Store).SeriesOf(c.Request().Context(), request.ScopeOf(c.Request().Context()), list.Tasks); err != nil {
		return list, err
	}
	list.Query = maps.Clone(query)
	list.Pager, list.HasDemo = pages.NewPager(paths.Tasks, query, page, total), p.DemoURL != ""
	list.Version, err = rowsVersion(c.Request().Context(), list)
	return list, err
}

// rowsVersion returns a version that changes whenever the content of the rows does.
func rowsVersion(ctx context.Context, list taskpages.List) (string, error) {
	var rows bytes.Buffer
	if err := taskpages.Rows(list).Render(ctx, &rows); err != nil {
		return "", err
	}
	sum := sha256.Sum256(rows.Bytes())
	return hex.EncodeToString(sum[:8]), nil
}

// listTasks shows the list of tasks.
func (p *Pages) listTasks(c echo.Context) error {
	if isAsked, err := pages.OpenView(c, p.people, people.TaskViews); isAsked {
		return err
	}
	list, err := p.readList(c)
	if err != nil {
		return err
	}
	if list.Views, err = pages.Views(c, p.people, people.TaskViews, paths.Tasks, list.Query); err != nil {
		return err
	}
	if redirected, err := pages.RedirectPastEnd(c, list.Pager); redirected {
		return err
	}
	if list.Pager.Total == 0 {
		has, err := report.NewTaskList(p.Store).HasTasks(c.Request().Context(), request.ScopeOf(c.Request().Context()))
		if err != nil {
			return err
		}
		list.IsEmpty = !has
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("tasks.title"), ui.SectionTasks)
	frame.Styles, frame.Scripts = []string{"list.css"}, []string{"task_list.js"}
	return pages.Render(c, http.StatusOK, taskpages.ListPage(frame, list))
}

// taskRows renders the rows of the list, for a page that shows an older version of them; 204 if they are unchanged.
func (p *Pages) taskRows(c echo.Context) error {
	list, err := p.readList(c)
	if err != nil {
		return err
	}
	if !request.IsFragment(c.Request()) {
		return c.Redirect(http.StatusSeeOther, list.Pager.Href(list.Pager.Page))
	}
	if c.QueryParam("version") == list.Version {
		return c.NoContent(http.StatusNoContent)
	}
	return pages.Render(c, http.StatusOK, taskpages.Rows(list))
}
