package replay

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/replay"
	"wending/views/text"
	"wending/views/ui"
)

// RegisterPages registers the pages.
func RegisterPages(group *echo.Group, config Config) {
	h := &handler{config}
	group.GET("/tasks/:taskId/units/:unitId", h.showUnit)
	group.GET("/tasks/:taskId/units/:unitId/log", h.showLog)
	group.GET("/tasks/:taskId/units/:unitId/steps", h.showSteps)
	group.GET("/tasks/:taskId/units/:unitId/files", h.showFiles)
	group.GET("/tasks/:taskId/flights", h.showFlights)
	group.GET("/tasks/:taskId/replay/:number", h.showBeside)
	group.GET("/tasks/:taskId/gallery", h.showProcess)
	group.GET("/tasks/:taskId/launches/:launchId", h.showLaunch)
}

// showFlights sends the list of a task's calls in progress, a part of the task's page.
func (h *handler) showFlights(c echo.Context) error {
	task, err := request.Task(c.Request().Context(), h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	flights, err := Flights(c.Request().Context(), h.Store, task)
	if err != nil {
		return err
	}
	return pages.Render(c, http.StatusOK, replay.InFlight(task, flights))
}

// flightsShown is the maximum number of calls in progress that are listed.
const flightsShown = 20

// Flights returns a task's calls in progress, and their total number.
func Flights(ctx context.Context, store *db.Store, task db.Task) (flights replay.Flights, err error) {
	if !task.Status.IsActive() {
		return flights, nil
	}
	flights.Calls, flights.Total, err = engine.NewJournal(store).InFlight(ctx, task.ID, flightsShown)
	return flights, err
}

func (h *handler) showUnit(c echo.Context) error {
	view, err := h.unitView(c)
	if err != nil {
		return err
	}
	title := pages.Locale(c).Text("replay.title", "Number", view.Number, "Run", view.Unit.RunIndex)
	return pages.Render(c, http.StatusOK, replay.Page(h.frame(c, view.Task, title), view))
}

// showLog continues the log of a call in progress: it sends the events after the position in the query, at most as many
// as are read at a time.
func (h *handler) showLog(c echo.Context) error {
	ctx := c.Request().Context()
	task, unit, err := h.unit(c)
	if err != nil {
		return err
	}
	if !request.IsFragment(c.Request()) {
		return c.Redirect(http.StatusSeeOther, paths.Unit(task.ID, unit.ID))
	}
	var asked struct {
		ItemID int64  `query:"item"`
		After  string `query:"after"`
		replay.Tail
	}
	if err := (&echo.DefaultBinder{}).BindQueryParams(c, &asked); err != nil {
		return request.NewFault(request.CodeRunNotFound)
	}
	tail := asked.Tail
	tail.At = positionOf(asked.After)
	parts, err := h.journal().OfUnit(ctx, task.ID, unit.ID, tail.At)
	if err != nil {
		return err
	}
	view := replay.View{Task: task, Unit: &unit, Last: tail.At}
	track := replay.Track{UnitID: unit.ID, ItemID: asked.ItemID}
	for _, part := range parts {
		if part.ItemID == asked.ItemID && part.Epoch != view.Last.Epoch && tail.Events+len(track.Events) > 0 {
			// Its worker was lost and the question was asked again, so the log begins anew.
			c.Response().Header().Set("HX-Refresh", "true")
			return c.NoContent(http.StatusOK)
		}
		for _, one := range part.Events {
			if part.Epoch == view.Last.Epoch && one.Seq <= view.Last.Seq {
				continue
			}
			view.Last = engine.EventPosition{Epoch: part.Epoch, Seq: one.Seq}
			if part.ItemID == asked.ItemID {
				track.Events = append(track.Events, one)
			}
		}
	}
	tools, err := h.journal().Tools(ctx, task.ID, unit.ID)
	if err != nil {
		return err
	}
	track.Tools = toolsOf(tools, asked.ItemID)
	tail.Tools = min(max(tail.Tools, 0), len(track.Tools))
	view.Tracks = []replay.Track{track}
	isMore := len(parts) > 0 && (view.Last.Epoch < unit.Last.Epoch || view.Last.Epoch == unit.Last.Epoch &&
		view.Last.Seq < unit.Last.Seq)
	return pages.Render(c, http.StatusOK, replay.Piece(view, tail, isMore))
}

// unit returns the task and the unit whose ids are in the path.
func (h *handler) unit(c echo.Context) (task db.Task, unit engine.Unit, err error) {
	ctx := c.Request().Context()
	if task, err = request.Task(ctx, h.Store, c.Param("taskId")); err != nil {
		return task, unit, err
	}
	id, err := request.RunID(c.Param("unitId"))
	if err != nil {
		return task, unit, err
	}
	unit, err = h.journal().Unit(ctx, task.ID, id)
	return task, unit, err
}

// showFiles sends the list of files that a unit's calls have reported so far, a part of the unit's page.
func (h *handler) showFiles(c echo.Context) error {
	task, unit, err := h.unit(c)
	if err != nil {
		return err
	}
	if !request.IsFragment(c.Request()) {
		return c.Redirect(http.StatusSeeOther, paths.Unit(task.ID, unit.ID))
	}
	files, err := engine.NewAssets(h.Store).OfUnits(c.Request().Context(), task.ID, []int64{unit.ID})
	if err != nil {
		return err
	}
	return pages.Render(c, http.StatusOK, replay.HiddenFiles(paths.UnitFiles(task.ID, unit.ID), files[unit.ID]))
}

// readFiles adds the files that the calls of all tracks reported to the view.
func (h *handler) readFiles(ctx context.Context, view *replay.View) (err error) {
	var units []int64
	for _, track := range view.Tracks {
		units = append(units, track.UnitID)
	}
	view.Files, err = engine.NewAssets(h.Store).OfUnits(ctx, view.Task.ID, units)
	return err
}

func (h *handler) frame(c echo.Context, task db.Task, title string) ui.Frame {
	frame := pages.Frame(c, h.Version, title, ui.SectionTasks, pages.TaskCrumbs(c, task, ui.Crumb{Text: title})...)
	frame.Styles, frame.Scripts = []string{"report.css", "gallery.css", "replay.css"}, []string{"replay.js"}
	return frame
}

// unitView returns the view of the unit whose id is in the path.
func (h *handler) unitView(c echo.Context) (view replay.View, err error) {
	ctx := c.Request().Context()
	task, unit, err := h.unit(c)
	if err != nil {
		return view, err
	}
	return h.viewOf(ctx, task, unit)
}

// viewOf returns the view of a unit with its events so far, in one track per turn.
func (h *handler) viewOf(ctx context.Context, task db.Task, unit engine.Unit) (view replay.View, err error) {
	runs, err := h.journal().OutcomesOf(ctx, task.ID, unit.ID)
	if err != nil {
		return view, err
	}
	view = replay.View{
		Task: task, Number: unit.Number, Question: unit.Question, Unit: &unit, Variant: variantName(task, unit.Variant),
		Beside: task.RunsPerItem,
	}
	byTurn, last, err := h.eventsByTurn(ctx, task, unit)
	view.Last = last
	if err != nil {
		return view, err
	}
	for _, run := range runs {
		view.Tracks = append(view.Tracks, replay.Track{Run: &run, UnitID: unit.ID, ItemID: run.ItemID,
			Events: byTurn[run.ItemID]})
		delete(byTurn, run.ItemID)
	}
	for itemID, events := range byTurn {
		view.Tracks = append(view.Tracks, replay.Track{UnitID: unit.ID, ItemID: itemID, Events: events})
	}
	if len(view.Tracks) == 0 && !unit.IsOver {
		view.Tracks = append(view.Tracks, replay.Track{UnitID: unit.ID, ItemID: unit.ItemID})
	}
	tools, err := h.journal().Tools(ctx, task.ID, unit.ID)
	if err != nil {
		return view, err
	}
	locale := text.LocaleOf(ctx)
	for n := range view.Tracks {
		track := &view.Tracks[n]
		track.Title = locale.Text("replay.run.title", "Run", unit.RunIndex)
		if len(view.Tracks) > 1 || unit.Turns > 1 {
			track.Title = locale.Text("run.turn", "Turn", n+1)
		}
		track.Tools = toolsOf(tools, track.ItemID)
		if unit.IsOver && len(tools) > 0 {
			differing, err := h.journal().PathDifferences(ctx, task.ID, track.ItemID)
			if err != nil {
				return view, err
			}
			of := func(one engine.PathDifference) bool { return one.UnitID != unit.ID }
			view.Differing = append(view.Differing, slices.DeleteFunc(differing, of)...)
		}
	}
	if err := h.addSteps(ctx, &view); err != nil {
		return view, err
	}
	return view, h.readFiles(ctx, &view)
}

// eventsByTurn returns the events of a unit, keyed by the id of the turn's item. If a turn was repeated because its
// worker was lost, only the events of the last attempt are returned; these are also the events of the turn's run. last
// is the position of the last event that was read.
func (h *handler) eventsByTurn(ctx context.Context, task db.Task,
	unit engine.Unit) (byTurn map[int64][]event.Event, last engine.EventPosition, err error) {
	byTurn, epochs := map[int64][]event.Event{}, map[int64]int{}
	for {
		parts, err := h.journal().OfUnit(ctx, task.ID, unit.ID, last)
		if err != nil || len(parts) == 0 {
			return byTurn, last, err
		}
		for _, part := range parts {
			if epochs[part.ItemID] != part.Epoch {
				epochs[part.ItemID], byTurn[part.ItemID] = part.Epoch, nil
			}
			byTurn[part.ItemID] = append(byTurn[part.ItemID], part.Events...)
			last = engine.EventPosition{Epoch: part.Epoch, Seq: part.Events[len(part.Events)-1].Seq}
		}
	}
}

// showBeside shows the events of a question's current runs side by side.
func (h *handler) showBeside(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := request.Task(ctx, h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(c.Param("number"))
	if err != nil || number < 1 || number > task.TotalItems {
		return request.NewFault(request.CodeQuestionNotFound)
	}
	runs, err := h.journal().OutcomesBeside(ctx, task.ID, number)
	if err != nil {
		return err
	}
	locale := pages.Locale(c)
	view := replay.View{Task: task, Number: number}
	if task.TotalVariants > 1 { // if there are too many runs, only one variant's are shown
		if view.Shown, err = shownVariant(c, task, len(runs)); err != nil {
			return err
		}
		runs = slices.DeleteFunc(runs, func(run engine.Outcome) bool { return view.Shown != 0 && run.Variant != view.Shown })
	}
	if err := h.addBeside(ctx, locale, &view, runs); err != nil {
		return err
	}
	if !view.IsSettled() {
		c.Response().Header().Set("Refresh", "1") // the page is loaded again until all events are stored
	}
	frame := h.frame(c, task, locale.Text("replay.title.beside", "Number", number))
	frame.Width = "wide"
	return pages.Render(c, http.StatusOK, replay.Page(frame, view))
}

// addBeside adds runs of a question to a view, each as a track, with their tools, steps and files.
func (h *handler) addBeside(ctx context.Context, locale text.Locale, view *replay.View,
	runs []engine.Outcome) (err error) {
	task := view.Task
	for _, run := range runs {
		one := run
		view.Question = run.Question
		track := replay.Track{Title: locale.Text("replay.run.title", "Run", run.RunIndex), Run: &one, UnitID: run.UnitID,
			ItemID: run.ItemID}
		if name := variantName(task, run.Variant); name != "" {
			track.Title = name + " · " + track.Title
		}
		if track.Events, err = h.journal().OfRun(ctx, task.ID, run.UnitID, run.ItemID, run.Epoch); err != nil {
			return err
		}
		tools, err := h.journal().Tools(ctx, task.ID, run.UnitID)
		if err != nil {
			return err
		}
		track.Tools = toolsOf(tools, run.ItemID)
		view.Tracks = append(view.Tracks, track)
	}
	if err := h.addSteps(ctx, view); err != nil {
		return err
	}
	return h.readFiles(ctx, view)
}

// maxTracks is the maximum number of runs shown side by side.
const maxTracks = 20

// shownVariant returns the number of the variant in the query, whose runs are shown. If the query has none, it returns
// 0 for all variants, or 1 if there are too many runs to show all.
func shownVariant(c echo.Context, task db.Task, runs int) (number int, err error) {
	number, err = pages.Variant(c, task)
	if err == nil && number == 0 && runs > maxTracks {
		number = 1
	}
	return number, err
}

func toolsOf(tools []engine.Tool, itemID int64) []engine.Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(one engine.Tool) bool { return one.ItemID != itemID })
}

// variantName returns the name of a variant, or an empty text if the task has only one.
func variantName(task db.Task, number int) string {
	if task.TotalVariants < 2 || number < 1 || number > len(task.Variants) {
		return ""
	}
	return task.Variants[number-1].Name
}
