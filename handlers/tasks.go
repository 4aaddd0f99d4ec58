package handlers

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/views"
)

const defaultPageSize = 20

// pageOf reads page and page_size.
func pageOf(c echo.Context) (db.Page, *Fault) {
	page := db.Page{Number: 1, Size: defaultPageSize}
	if f := validNumber(c.QueryParam("page"), "page", 1, 1_000_000, &page.Number); f != nil {
		return page, f
	}
	return page, validNumber(c.QueryParam("page_size"), "page_size", 1, 100, &page.Size)
}

// queryText reads a parameter that is compared with texts: trimmed, without what PostgreSQL refuses.
func queryText(c echo.Context, name string) string {
	return strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(c.QueryParam(name), "\x00", ""), ""))
}

// taskFilterOf reads status, which may be repeated or comma-separated, and query.
func taskFilterOf(c echo.Context) (filter db.TaskFilter, f *Fault) {
	for _, list := range c.QueryParams()["status"] {
		for name := range strings.SplitSeq(list, ",") {
			status := db.TaskStatus(strings.TrimSpace(name))
			if status == "" {
				continue
			}
			if !slices.Contains(db.TaskStatuses, status) {
				return filter, parameterInvalid("status", "error.range.choice", "Choices", "PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED")
			}
			filter.Statuses = append(filter.Statuses, status)
		}
	}
	filter.NameContains = queryText(c, "query")
	return filter, nil
}

// taskList is a page of the tasks that a request asks for.
type taskList struct {
	tasks  []db.Task
	total  int
	page   db.Page
	filter db.TaskFilter
}

// listTasks reads the page and the filter of a request and the tasks that fit.
func (s *Server) listTasks(c echo.Context) (list taskList, err error) {
	var f *Fault
	if list.page, f = pageOf(c); f != nil {
		return list, f
	}
	if list.filter, f = taskFilterOf(c); f != nil {
		return list, f
	}
	list.tasks, list.total, err = s.Store.Tasks(c.Request().Context(), list.filter, list.page)
	return list, err
}

// newPager leads through a list whose query, besides its page, is query.
func newPager(path string, query url.Values, page db.Page, total int) views.Pager {
	if page.Size != defaultPageSize {
		query.Set("page_size", strconv.Itoa(page.Size))
	}
	return views.Pager{Path: path, Query: query, Page: page.Number, Size: page.Size, Total: total}
}

// tasksPage is the list of tasks.
func (s *Server) tasksPage(c echo.Context) error {
	list, err := s.listTasks(c)
	if err != nil {
		return err
	}
	filter := list.filter
	view := views.TasksPage{Tasks: list.tasks, Statuses: filter.Statuses, Name: filter.NameContains, HasDemo: s.DemoURL != ""}
	if list.total == 0 {
		has, err := s.Store.HasTasks(c.Request().Context())
		if err != nil {
			return err
		}
		view.IsEmpty = !has
	}
	query := url.Values{}
	for _, status := range filter.Statuses {
		query.Add("status", string(status))
	}
	if filter.NameContains != "" {
		query.Set("query", filter.NameContains)
	}
	view.Pager = newPager("/tasks", query, list.page, list.total)
	locale := s.locale(c)
	return s.render(c, http.StatusOK, views.TasksView(s.frame(c, locale.Text("tasks.title")), view))
}

// taskRow is one row of the list, by which the row replaces itself while its task may change.
func (s *Server) taskRow(c echo.Context) error {
	task, err := s.task(c)
	if err != nil {
		return err
	}
	if !isFragment(c) {
		return c.Redirect(http.StatusSeeOther, "/tasks")
	}
	return s.render(c, http.StatusOK, views.TaskRow(task))
}
