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
	"wending/db/tasklist"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/taskpages"
	"wending/views/ui"
)

// draftStatus is the filter's value for drafts, which are PENDING tasks that have never been started.
const draftStatus = "DRAFT"

// filterOf parses the parameters "status", which may be repeated or comma-separated, and "query". It returns the
// filter, and the same parameters for links.
func filterOf(c echo.Context) (tasklist.Filter, url.Values, error) {
	filter, query := tasklist.Filter{WithoutDrafts: true, NameContains: request.SearchText(c.QueryParam("query"))},
		url.Values{}
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

// readList returns the page of the list of tasks that a request asks for.
func (p *Pages) readList(c echo.Context) (list taskpages.List, err error) {
	page, err := pages.Window(c)
	if err != nil {
		return list, err
	}
	var query url.Values
	if list.Filter, query, err = filterOf(c); err != nil {
		return list, err
	}
	if err := arrange(c, &list, query); err != nil {
		return list, err
	}
	list.Filter.Newest = list.Filter.IsZero() && !list.Arrangement.NewestOfDataset
	ctx, tasks := c.Request().Context(), tasklist.New(p.Store)
	found, err := tasks.Arranged(ctx, request.ScopeOf(ctx), list.Filter, list.Arrangement, page)
	if err != nil {
		return list, err
	}
	list.Tasks, list.Shelves, list.Earlier = found.Tasks, found.Shelves, found.Earlier
	if list.Series, err = tasks.SeriesOf(ctx, request.ScopeOf(ctx), list.Tasks); err != nil {
		return list, err
	}
	if list.Names, err = tasks.NamesOf(ctx, request.ScopeOf(ctx), list.Tasks); err != nil {
		return list, err
	}
	if slices.Contains(list.Columns, taskpages.ColumnVerdicts) {
		if list.Reviews, err = tasks.ReviewProgress(ctx, request.ScopeOf(ctx), list.Tasks); err != nil {
			return list, err
		}
	}
	list.Query = maps.Clone(query)
	list.Pager, list.HasDemo = pages.NewPager(paths.Tasks, query, page, found.Total), p.DemoURL != ""
	list.Version, err = rowsVersion(ctx, list)
	return list, err
}

// columnsCookie remembers which columns were chosen for the list.
const columnsCookie = "task_columns"

// foldOlder is the value of the parameter "older" that lists only the newest task on each set of questions.
const foldOlder = "fold"

// arrange parses the parameters "group", "older" and "columns". Without "columns", it uses the columns that were last
// chosen.
func arrange(c echo.Context, list *taskpages.List, query url.Values) error {
	switch by := tasklist.Shelving(c.QueryParam("group")); {
	case by == "":
	case slices.Contains(tasklist.Shelvings, by):
		list.Arrangement.By = by
		query.Set("group", string(by))
	default:
		return request.ParameterFault("group", request.OneOf(string(tasklist.ByAgent), string(tasklist.ByDataset)))
	}
	switch older := c.QueryParam("older"); older {
	case "":
	case foldOlder:
		list.Arrangement.NewestOfDataset = true
		query.Set("older", foldOlder)
	default:
		return request.ParameterFault("older", request.OneOf(foldOlder))
	}
	var isValid bool
	if chosen := strings.Join(c.QueryParams()["columns"], ","); chosen != "" {
		if list.Columns, isValid = taskpages.ReadColumns(chosen); !isValid {
			return request.ParameterFault("columns", request.OneOf(columnNames()...))
		}
		query.Set("columns", taskpages.ColumnNames(list.Columns))
		return nil
	}
	// Columns that no longer exist are left out.
	list.Columns, _ = taskpages.ReadColumns(request.Kept(c.Request(), columnsCookie))
	return nil
}

func columnNames() (names []string) {
	for _, column := range taskpages.Columns {
		names = append(names, string(column))
	}
	return names
}

// saveColumns remembers the chosen columns and redirects to the list, with the columns in its address.
func (p *Pages) saveColumns(c echo.Context) error {
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	var columns []taskpages.Column
	if names := submitted.Value("columns"); names != "" {
		var isValid bool
		if columns, isValid = taskpages.ReadColumns(names); !isValid {
			return request.ParameterFault("columns", request.OneOf(columnNames()...))
		}
	}
	chosen := taskpages.ColumnNames(columns)
	pages.SetCookie(c, columnsCookie, chosen, pages.Year)
	back, err := url.Parse(request.LocalPath(submitted.Values["back"], paths.Tasks))
	if err != nil {
		return err
	}
	query := back.Query()
	query.Set("columns", chosen)
	return c.Redirect(http.StatusSeeOther, paths.WithQuery(paths.Tasks, query))
}

// rowsVersion returns a text that differs whenever the content of the rows differs.
func rowsVersion(ctx context.Context, list taskpages.List) (string, error) {
	var rows bytes.Buffer
	if err := taskpages.Rows(list).Render(ctx, &rows); err != nil {
		return "", err
	}
	sum := sha256.Sum256(rows.Bytes())
	return hex.EncodeToString(sum[:8]), nil
}

// columnsFit is how many chosen columns fit into a page of the usual width.
const columnsFit = 4

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
		has, err := tasklist.New(p.Store).HasTasks(c.Request().Context(), request.ScopeOf(c.Request().Context()))
		if err != nil {
			return err
		}
		list.IsEmpty = !has
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("tasks.title"), ui.SectionTasks)
	frame.Styles, frame.Scripts, frame.Morphs = []string{"list.css"}, []string{"task_list.js"}, true
	if len(list.Columns) > columnsFit {
		frame.Width = "wide"
	}
	return pages.Render(c, http.StatusOK, taskpages.ListPage(frame, list))
}

// taskRows sends the rows of the list to a page that already shows them; if they have not changed, the response is 204.
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
