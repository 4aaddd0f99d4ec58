package replay

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/engine"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/replay"
	"wending/views/taskpages"
	"wending/views/ui"
)

const (
	// filesShown is how many files the page of a task's calls and files lists at a time.
	filesShown = 60
	// newestShown is the maximum number of the newest answers on that page, and newestCut is the maximum number of
	// characters of each.
	newestShown, newestCut = 8, 160
	// launchRunCut is the maximum number of characters of each answer on the page of a launch.
	launchRunCut = 300
)

// showProcess shows how a task's results were produced: its launches, its newest calls, and the files that they
// produced.
func (h *handler) showProcess(c echo.Context) error {
	ctx, history := c.Request().Context(), engine.NewHistory(h.Store)
	task, err := request.Task(ctx, h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	process := taskpages.Process{Task: task}
	if process.Files, err = h.files(c, task); err != nil {
		return err
	}
	launches, err := pages.WindowOf(c, "launches")
	if err != nil {
		return err
	}
	total := 0
	if process.Launches, total, err = history.Launches(ctx, task.ID, launches); err != nil {
		return err
	}
	process.Pager = ui.Pager{Path: paths.Gallery(task.ID), Name: "launches", Query: process.Files.Pager.Query,
		Page: launches.Number, Size: launches.Size, Total: total}
	for _, pager := range []ui.Pager{process.Files.Pager, process.Pager} {
		if redirected, err := pages.RedirectPastEnd(c, pager); redirected {
			return err
		}
	}
	if process.Tools, err = h.Tools.Of(ctx, task); err != nil {
		return err
	}
	differing, err := pages.WindowOf(c, "differing")
	if err != nil {
		return err
	}
	process.Differing = db.OnPage(process.Tools.Differing, differing)
	process.DifferingPager = ui.Pager{Path: paths.Gallery(task.ID), Name: "differing", Query: process.Files.Pager.Query,
		Page: differing.Number, Size: differing.Size, Total: len(process.Tools.Differing)}
	if redirected, err := pages.RedirectPastEnd(c, process.DifferingPager); redirected {
		return err
	}
	if err = h.toolCalls(c, &process); err != nil {
		return err
	}
	if process.Newest, err = history.Newest(ctx, task.ID, newestCut, newestShown); err != nil {
		return err
	}
	l := pages.Locale(c)
	frame := pages.Frame(c, h.Version, l.Text("task.tab.of", "Tab", l.Text("task.tab.process"), "Name", task.Name),
		ui.SectionTasks)
	frame.Styles, frame.Scripts = []string{"list.css", "task.css", "report.css", "gallery.css"}, []string{"gallery.js"}
	return pages.Render(c, http.StatusOK, taskpages.ProcessPage(frame, process))
}

// toolCalls adds a page of the calls of the tool in the query to the view; nothing if the query has none.
func (h *handler) toolCalls(c echo.Context, process *taskpages.Process) error {
	process.Tool = request.SearchText(c.QueryParam("tool"))
	if process.Tool == "" {
		return nil
	}
	if !slices.ContainsFunc(process.Tools.Tools, func(one engine.ToolUse) bool { return one.Tool == process.Tool }) {
		return request.ParameterFault("tool", request.Existing())
	}
	page, err := pages.WindowOf(c, "calls")
	if err != nil {
		return err
	}
	query := url.Values{"tool": {process.Tool}}
	filter := engine.ToolCallFilter{Tool: process.Tool}
	switch outcome := c.QueryParam("outcome"); outcome {
	case "":
	case taskpages.OutcomeFailed, taskpages.OutcomeFirst:
		query.Set("outcome", outcome)
		filter.OnlyFailed, filter.OnlyFirst = outcome == taskpages.OutcomeFailed, outcome == taskpages.OutcomeFirst
	default:
		return request.ParameterFault("outcome", request.OneOf(taskpages.OutcomeFailed, taskpages.OutcomeFirst))
	}
	total := 0
	process.Calls, total, err = engine.NewJournal(h.Store).ToolCalls(c.Request().Context(), process.Task.ID, filter, page)
	process.CallsPager = ui.Pager{Path: paths.Gallery(process.Task.ID), Name: "calls", Query: query, Page: page.Number,
		Size: page.Size, Total: total}
	return err
}

// files returns a page of the files that a task's agents produced.
func (h *handler) files(c echo.Context, task db.Task) (view replay.FilesView, err error) {
	ctx, assets := c.Request().Context(), engine.NewAssets(h.Store)
	page, err := pages.Window(c)
	if err != nil {
		return view, err
	}
	if c.QueryParam("page_size") == "" {
		page.Size = filesShown
	}
	view = replay.FilesView{Task: task, Kind: c.QueryParam("type")}
	query := url.Values{}
	if view.Kind != "" {
		if !slices.Contains(replay.FileKinds, view.Kind) {
			return view, request.ParameterFault("type", request.OneOf(replay.FileKinds...))
		}
		query.Set("type", view.Kind)
	}
	if view.Variant, err = pages.Variant(c, task); err != nil {
		return view, err
	}
	if view.Variant != 0 {
		query.Set("variant", strconv.Itoa(view.Variant))
	}
	if view.Counts, err = assets.Counts(ctx, task.ID); err != nil {
		return view, err
	}
	total := 0
	view.Assets, total, err = assets.List(ctx, task.ID, engine.AssetFilter{Kind: view.Kind, Variant: view.Variant}, page)
	view.Pager = ui.Pager{Path: paths.Gallery(task.ID), Query: query, Page: page.Number, Size: page.Size, Total: total}
	return view, err
}

// showLaunch shows a launch with its runs, including those that a later launch has repeated.
func (h *handler) showLaunch(c echo.Context) error {
	ctx, history := c.Request().Context(), engine.NewHistory(h.Store)
	task, err := request.Task(ctx, h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	id, err := request.ID(c.Param("launchId"), db.KindLaunch)
	if err != nil {
		return err
	}
	launch, err := history.Launch(ctx, task.ID, id)
	if err != nil {
		return err
	}
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	filter, query, err := runFilter(c)
	if err != nil {
		return err
	}
	runs, total, err := history.Runs(ctx, launch.ID, filter, launchRunCut, page)
	if err != nil {
		return err
	}
	pager := pages.NewPager(paths.Launch(task.ID, launch.ID), query, page, total)
	if redirected, err := pages.RedirectPastEnd(c, pager); redirected {
		return err
	}
	l := pages.Locale(c)
	title := l.Text("launch.title", "Number", launch.Number)
	frame := pages.Frame(c, h.Version, title, ui.SectionTasks)
	frame.Styles = []string{"list.css"}
	return pages.Render(c, http.StatusOK, taskpages.LaunchPage(frame,
		taskpages.Launch{Task: task, Launch: launch, Filter: filter, Runs: runs, Pager: pager}))
}

// runFilter parses the parameters "outcome", "since" and "until", which select runs of a launch. It also returns them
// for links.
func runFilter(c echo.Context) (filter engine.RunFilter, query url.Values, err error) {
	query = url.Values{}
	if outcome := c.QueryParam("outcome"); outcome != "" {
		if outcome != taskpages.OutcomeSucceeded && outcome != taskpages.OutcomeFailed {
			return filter, query, request.ParameterFault("outcome",
				request.OneOf(taskpages.OutcomeSucceeded, taskpages.OutcomeFailed))
		}
		hasSucceeded := outcome == taskpages.OutcomeSucceeded
		filter.Succeeded = &hasSucceeded
		query.Set("outcome", outcome)
	}
	for name, to := range map[string]**time.Time{"since": &filter.Since, "until": &filter.Until} {
		text := c.QueryParam(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.Year() > 9999 || at.Year() < 1 {
			return filter, query, request.ParameterFault(name, request.ValidMoment())
		}
		*to = &at
		query.Set(name, text)
	}
	return filter, query, nil
}
