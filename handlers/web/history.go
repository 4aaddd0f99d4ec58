package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/entries"
	"wending/db/tasklist"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/saved"
	"wending/views/taskpages"
	"wending/views/ui"
)

// tasksDrawn is the maximum number of tasks that the plots of a history show.
const tasksDrawn = 60

// showHistory shows all tasks with a common subject: the dataset, file, agent, model or address in the query.
func (p *Pages) showHistory(c echo.Context) error {
	ctx := c.Request().Context()
	history, filter, err := p.subjectOf(ctx, c.QueryParams())
	if err != nil {
		return err
	}
	window, err := pages.Window(c)
	if err != nil {
		return err
	}
	tasks := tasklist.New(p.Store)
	var total int
	if history.Tasks, total, err = tasks.Tasks(ctx, request.ScopeOf(ctx), filter, window); err != nil {
		return err
	}
	query := url.Values{}
	for _, name := range []string{"dataset", "file", "agent", "url"} {
		if value := c.QueryParam(name); value != "" {
			query.Set(name, value)
		}
	}
	history.Pager = pages.NewPager(paths.TaskHistory, query, window, total)
	if redirected, err := pages.RedirectPastEnd(c, history.Pager); redirected {
		return err
	}
	if history.Drawn, _, err = tasks.Tasks(ctx, request.ScopeOf(ctx), filter, db.Page{Number: 1, Size: tasksDrawn}); err !=
		nil {
		return err
	}
	slices.Reverse(history.Drawn)
	if history.Names, err = tasks.NamesOf(ctx, request.ScopeOf(ctx), slices.Concat(history.Tasks, history.Drawn)); err !=
		nil {
		return err
	}
	frame := pages.Frame(c, p.Version, history.Name, ui.SectionTasks,
		ui.Crumb{Text: pages.Locale(c).Text("tasks.title"), Href: paths.Tasks}, ui.Crumb{Text: history.Name})
	frame.Styles = []string{"list.css", "library.css"}
	return pages.Render(c, http.StatusOK, taskpages.HistoryPage(frame, history))
}

// subjectOf returns a history with the name of its subject, and the filter that selects its tasks.
func (p *Pages) subjectOf(ctx context.Context,
	query url.Values) (history taskpages.History, filter tasklist.Filter, err error) {
	saves, scope := p.Library.Entries, request.ScopeOf(ctx)
	named := func(entry entries.Entry, kind saved.Kind) {
		history.Name, history.EntryHref = entry.Name, paths.LibraryEntry(string(kind), entry.ID)
	}
	switch {
	case query.Get("dataset") != "":
		var id uuid.UUID
		if id, err = request.ID(query.Get("dataset"), entries.KindEntry); err != nil {
			return history, filter, err
		}
		dataset, err := saves.Datasets.Get(ctx, scope, id)
		named(dataset.Entry, saved.Datasets)
		history.OfDataset, filter.Dataset.ID = true, id
		return history, filter, err
	case query.Get("file") != "":
		history.Name, history.OfDataset = request.StorableText(query.Get("file")), true
		filter.Dataset.File = history.Name
	case query.Get("agent") != "":
		var id uuid.UUID
		if id, err = request.ID(query.Get("agent"), entries.KindEntry); err != nil {
			return history, filter, err
		}
		filter.Agent.ID = id
		agent, err := saves.Agents.Get(ctx, scope, id)
		if !errors.Is(err, db.ErrNotFound) {
			named(agent.Entry, saved.Agents)
			return history, filter, err
		}
		model, err := saves.Models.Get(ctx, scope, id)
		named(model.Entry, saved.Models)
		return history, filter, err
	case query.Get("url") != "":
		history.Name = request.StorableText(query.Get("url"))
		filter.Agent.URL = history.Name
	default:
		return history, filter, &db.NotFoundError{Kind: entries.KindEntry}
	}
	return history, filter, nil
}
