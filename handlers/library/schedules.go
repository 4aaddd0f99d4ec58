package library

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/tasklist"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/cron"
	"wending/jobs/library"
	"wending/views/paths"
	"wending/views/saved"
	"wending/views/ui"
)

func (h *handler) schedules() kind[entries.Schedule] {
	rows := h.Library.Entries.Schedules
	return kind[entries.Schedule]{
		kind: saved.Schedules, rows: rows, entry: func(s entries.Schedule) entries.Entry { return s.Entry },
		cells: h.scheduleCells, fill: h.fillSchedule, save: h.saver.Schedule, remove: removing(rows),
	}
}

func (h *handler) scheduleCells(c echo.Context, row entries.Schedule) []saved.Cell {
	l := pages.Locale(c)
	when := row.Cron
	if plan, err := cron.Parse(row.Cron, row.Timezone); err == nil {
		when = saved.PlanWords(l, plan, row.Cron)
	}
	next := saved.Cell{Text: l.Text("trend.rests"), Class: "quiet"}
	if row.IsEnabled && row.NextAt != nil && row.ArchivedAt == nil {
		next = saved.Cell{Text: cron.BeijingMinute(*row.NextAt), Class: "mono"}
	}
	task := saved.Cell{Text: l.Text("trend.reason.TASK_GONE"), Class: "quiet"}
	if row.TaskID != nil {
		if found, err := h.Library.Tasks.Store.Task(c.Request().Context(), request.ScopeOf(c.Request().Context()),
			*row.TaskID); err == nil {
			task = saved.Cell{Text: found.Name, Class: "cut"}
		}
	}
	return []saved.Cell{{Text: when}, next, task}
}

// tasksOffered is the maximum number of tasks that a schedule's form offers.
const tasksOffered = 50

// marginText formats the margin of a schedule's alert as it is typed: a percentage for shares, a plain number
// otherwise.
func marginText(row *entries.Schedule) string {
	if row.AlertMetric != nil && measure.Metric(*row.AlertMetric).IsShare() {
		return strconv.FormatFloat(row.AlertMargin*100, 'f', -1, 64) + "%"
	}
	return strconv.FormatFloat(row.AlertMargin, 'f', -1, 64)
}

// fillSchedule fills the form with a schedule, and adds its trend. For a new schedule, it fills the form with the
// defaults and the task in the query.
func (h *handler) fillSchedule(c echo.Context, view *saved.Form, row *entries.Schedule) error {
	ctx := c.Request().Context()
	values := map[string]string{
		"task_id": c.QueryParam("task"), "cron": "0 2 * * *", "timezone": form.DefaultTimezone, "is_enabled": "true",
		"own_channels": "false", "follow": string(entries.FollowLatest),
	}
	if row != nil {
		values = map[string]string{
			"name": row.Name, "cron": row.Cron, "timezone": row.Timezone, "is_enabled": strconv.FormatBool(row.IsEnabled),
			"own_channels": "false", "follow": string(row.Follow),
			"alert_worse": strconv.FormatBool(row.AlertsWorse),
		}
		if row.TaskID != nil {
			values["task_id"] = row.TaskID.String()
		}
		if row.Channels != nil {
			values["own_channels"], values["channels"] = "true", strings.Join(*row.Channels, ",")
		}
		if row.AlertMetric != nil {
			values["alert_metric"] = *row.AlertMetric
		}
		if row.AlertBelow != nil {
			values["alert_below"] = strconv.FormatFloat(*row.AlertBelow*100, 'f', -1, 64) + "%"
		}
		if row.AlertMargin > 0 {
			values["alert_margin"] = marginText(row)
		}
		if c.QueryParam("follow") == string(entries.FollowLatest) { // the page of a frozen schedule proposes this
			values["follow"], view.IsOpen = string(entries.FollowLatest), true
		}
		var err error
		if view.Trend, err = h.trend(c, *row); err != nil {
			return err
		}
	}
	put(view, values)
	channels, _, err := h.Library.Entries.Channels.List(ctx, request.ScopeOf(ctx), entries.Filter{},
		db.Page{Number: 1, Size: 100})
	if err != nil {
		return err
	}
	for _, channel := range channels {
		view.Channels = append(view.Channels, ui.Choice{Value: channel.ID.String(), Label: channel.Name})
	}
	view.Times = h.timesOf(c, view.Values["cron"], view.Values["timezone"])
	view.Tasks, _, err = h.choicesOfTasks(ctx, tasklist.Filter{WithoutCopies: true}, tasksOffered,
		view.Values["task_id"])
	return err
}

// choicesOfTasks returns the newest tasks that match a filter, at most the given number, together with the chosen task.
// total is the number of all tasks that match.
func (h *handler) choicesOfTasks(ctx context.Context, filter tasklist.Filter, most int,
	chosen string) (choices []ui.Choice, total int, err error) {
	store := h.Library.Tasks.Store
	found, total, err := tasklist.New(store).Tasks(ctx, request.ScopeOf(ctx), filter, db.Page{Number: 1, Size: most})
	if err != nil {
		return nil, 0, err
	}
	if id, err := uuid.Parse(chosen); err == nil && !slices.ContainsFunc(found, func(task db.Task) bool {
		return task.ID == id
	}) {
		task, err := store.Task(ctx, request.ScopeOf(ctx), id)
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return nil, 0, err
		}
		if err == nil {
			found = append([]db.Task{task}, found...)
		}
	}
	for _, task := range found {
		label := task.Name
		if task.DatasetVersion != nil { // the version that the task uses
			label += " · " + task.DatasetName + " v" + strconv.Itoa(*task.DatasetVersion)
		}
		choices = append(choices, ui.Choice{Value: task.ID.String(), Label: label})
	}
	return choices, total, nil
}

// timesShown is how many of a schedule's next times are shown.
const timesShown = 3

// timesOf returns the next times of a cron expression, or a message that says what is wrong with it; nil if the
// expression is empty.
func (h *handler) timesOf(c echo.Context, expression, timezone string) *saved.Times {
	l := pages.Locale(c)
	if strings.TrimSpace(expression) == "" {
		return nil
	}
	if timezone == "" {
		timezone = form.DefaultTimezone
	}
	plan, err := cron.Parse(expression, timezone)
	var wrong *cron.FieldError
	switch {
	case errors.Is(err, cron.ErrTimezone):
		return &saved.Times{Message: l.Text("schedule.timezone.wrong")}
	case errors.As(err, &wrong):
		return &saved.Times{Message: l.Text("cron.wrong."+wrong.Field, "Value", wrong.Value)}
	case err != nil:
		return &saved.Times{Message: l.Text("schedule.cron.wrong")}
	case plan.Shortest() < h.Library.ScheduleMinutes:
		return &saved.Times{Message: l.Text("schedule.cron.often", "Min", h.Library.ScheduleMinutes)}
	}
	times := &saved.Times{Words: saved.PlanWords(l, plan, expression)}
	for next := plan.Next(time.Now()); len(times.Next) < timesShown && !next.IsZero(); next = plan.Next(next) {
		times.Next = append(times.Next, next)
	}
	return times
}

// showTimes shows the next times of the cron expression in a form.
func (h *handler) showTimes(c echo.Context) error {
	return pages.Render(c, http.StatusOK, saved.TimesPart(h.timesOf(c, c.FormValue("cron"), c.FormValue("timezone"))))
}

// The maximum number of firings that a trend draws, and of changed questions that it lists.
const (
	firingsDrawn = 60
	shiftsShown  = 20
)

// factsWithin is the maximum time for comparing the facts of two firings.
const factsWithin = 2 * time.Second

// excerpt is the maximum number of characters of an answer that are compared.
const excerpt = 2000

// differencesWithin is the maximum time for computing the differences between the answers on a page.
const differencesWithin = 50 * time.Millisecond

// trend returns the page that shows how the statistics of a schedule's copies have changed over time.
func (h *handler) trend(c echo.Context, row entries.Schedule) (*saved.TrendPage, error) {
	ctx, l, store := c.Request().Context(), pages.Locale(c), h.Library.Tasks.Store
	place := paths.LibraryEntry(string(saved.Schedules), row.ID)
	page := &saved.TrendPage{Place: place, Words: row.Cron, Timezone: row.Timezone, Limit: row.AlertBelow,
		Follow: row.Follow}
	if row.AlertMetric != nil {
		page.Watched = measure.Metric(*row.AlertMetric)
	}
	if plan, err := cron.Parse(row.Cron, row.Timezone); err == nil {
		page.Words = saved.PlanWords(l, plan, row.Cron)
	}
	if row.IsEnabled && row.ArchivedAt == nil {
		page.NextAt = row.NextAt
	}
	if row.TaskID != nil {
		task, err := store.Task(ctx, request.ScopeOf(ctx), *row.TaskID)
		if err != nil {
			return nil, err
		}
		page.Task = &task
		if err := h.follow(ctx, page, row, task); err != nil {
			return nil, err
		}
	}
	window, err := pages.Window(c)
	if err != nil {
		return nil, err
	}
	listed, total, err := entries.NewSchedules(store).List(ctx, request.ScopeOf(ctx), row.ID, false, window)
	if err != nil {
		return nil, err
	}
	page.Pager = pages.NewPager(place, url.Values{}, window, total)
	if window.Number > page.Pager.Pages() {
		return nil, request.ParameterFault("page", request.Between(1, page.Pager.Pages()))
	}
	page.ChangesAt = func(task uuid.UUID) string {
		return place + "?" + url.Values{"at": {task.String()}, "page": {strconv.Itoa(window.Number)}}.Encode() + "#changes"
	}
	drawn, err := entries.NewSchedules(store).Watched(ctx, request.ScopeOf(ctx), row.ID, nil)
	if err != nil {
		return nil, err
	}
	if page.Table, err = h.firings(ctx, listed); err != nil {
		return nil, err
	}
	if page.Firings, err = h.firings(ctx, drawn); err != nil {
		return nil, err
	}
	if more := len(page.Firings) - firingsDrawn; more > 0 {
		page.Earlier, page.Firings = page.Firings[:more], page.Firings[more:]
	}
	if len(page.Firings) == 0 {
		return page, nil
	}
	return page, h.changes(c, page, row.ID)
}

// follow adds to the page what the next firing of a schedule will take from the library. A frozen schedule takes
// nothing from it. If calls of its newest copy were answered with 401, follow adds their number and the names of the
// agents and models that have been saved again since the task was created, because their newer keys might help.
func (h *handler) follow(ctx context.Context, page *saved.TrendPage, row entries.Schedule, task db.Task) error {
	if row.Follow == entries.FollowLatest {
		n, err := form.Opened(h.Library.Tasks.CopySettings(ctx, task))
		if err != nil {
			return err
		}
		newest, err := form.Opened(h.Library.Newest(ctx, task, n))
		if err != nil {
			return err
		}
		for _, part := range newest.Parts {
			one := saved.Followed{Kind: part.Kind, Held: string(part.Held), Name: part.Name, Version: part.Version}
			if part.Held != library.HeldGone {
				one.Href = paths.LibraryEntry(string(shelves[part.Kind]), part.ID)
			}
			page.Parts = append(page.Parts, one)
		}
		return nil
	}
	firing, err := entries.NewSchedules(h.Library.Tasks.Store).WithResults(ctx, request.ScopeOf(ctx), row.ID, uuid.Nil)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	newest, err := h.Library.Tasks.Store.Task(ctx, request.ScopeOf(ctx), *firing.TaskID)
	if err != nil || newest.Final == nil || newest.Final.ErrorCodes[unauthorized] == 0 {
		return err
	}
	if page.Renewed, err = h.Library.ChangedSince(ctx, task); len(page.Renewed) > 0 {
		page.Unauthorized = newest.Final.ErrorCodes[unauthorized]
	}
	return err
}

// shelves maps the parts of a task to the kinds of entries that they come from.
var shelves = map[string]saved.Kind{
	library.PartAgent: saved.Agents, library.PartModel: saved.Models, library.PartGrouper: saved.Models,
	library.PartPrompt: saved.Prompts, library.PartEvaluator: saved.Evaluators, library.PartDataset: saved.Datasets,
}

// unauthorized is the error code of calls that an agent rejected because of their credentials.
const unauthorized = "HTTP_401"

// firings returns firings as the page shows them, with the states of their tasks.
func (h *handler) firings(ctx context.Context, found []entries.Firing) (shown []saved.Firing, err error) {
	var ids []uuid.UUID
	for _, firing := range found {
		if firing.TaskID != nil {
			ids = append(ids, *firing.TaskID)
		}
	}
	states, err := entries.NewSchedules(h.Library.Tasks.Store).States(ctx, request.ScopeOf(ctx), ids)
	if err != nil {
		return nil, err
	}
	for _, firing := range found {
		one := saved.Firing{PlannedAt: firing.PlannedAt, FiredAt: firing.FiredAt, Missed: firing.Missed,
			Outcome: string(firing.Outcome), TaskID: firing.TaskID}
		if firing.Reason != nil {
			one.Reason = *firing.Reason
		}
		if firing.TaskID != nil {
			one.Status = states[*firing.TaskID]
		}
		if firing.Summary != nil {
			if err := json.Unmarshal(*firing.Summary, &one.FiringSummary); err != nil {
				return nil, err
			}
		}
		shown = append(shown, one)
	}
	return shown, nil
}

// changes adds to the page the questions that changed between the two firings in the query. By default, these
// are the newest firing and the one before it.
func (h *handler) changes(c echo.Context, page *saved.TrendPage, scheduleID uuid.UUID) error {
	pair, err := form.ReadPair(c.QueryParam(form.PairSince), c.QueryParam(form.PairAt))
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	leave, err := pages.Gates(c).Files.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	between, err := library.CompareFirings(ctx, h.Library.Tasks.Store, request.ScopeOf(ctx), scheduleID, pair, factsWithin)
	if err != nil || between == nil {
		return form.PairFault(err)
	}
	page.Before, page.Last, page.FactsChanged = &between.BeforeTask, &between.NowTask, between.Facts
	page.Comparable = comparable(page, between)
	page.ChangedTotal = len(between.Questions)
	return h.showChanges(ctx, page, between.Questions[:min(len(between.Questions), shiftsShown)])
}

// comparable returns the firings that are offered for a comparison, newest first: those in the plots and in the table,
// and those being compared.
func comparable(page *saved.TrendPage, between *library.ComparedFirings) (choices []ui.Choice) {
	times := map[uuid.UUID]time.Time{between.BeforeTask.ID: between.Before.PlannedAt,
		between.NowTask.ID: between.Now.PlannedAt}
	for _, firing := range slices.Concat(page.Firings, page.Table) {
		if firing.TaskID != nil && len(firing.Variants) > 0 {
			times[*firing.TaskID] = firing.PlannedAt
		}
	}
	ids := slices.SortedFunc(maps.Keys(times), func(a, b uuid.UUID) int { return times[b].Compare(times[a]) })
	for _, id := range ids {
		choices = append(choices, ui.Choice{Value: id.String(), Label: cron.BeijingMinute(times[id])})
	}
	return choices
}

// showChanges adds to the page the questions that changed, with the differences between their most common answers.
func (h *handler) showChanges(ctx context.Context, page *saved.TrendPage, changes []library.QuestionChange) error {
	results := report.New(h.Library.Tasks.Store)
	ids := make([]int64, len(changes))
	answers := map[int][2]map[int64]report.CommonAnswer{} // by variant: the answers before and now, by question
	for n, change := range changes {
		ids[n] = change.Now.ID
		answers[change.Variant] = [2]map[int64]report.CommonAnswer{}
	}
	for variant := range answers {
		var of [2][]int64
		for _, change := range changes {
			if change.Variant == variant {
				of[0], of[1] = append(of[0], change.Before.ID), append(of[1], change.Now.ID)
			}
		}
		var said [2]map[int64]report.CommonAnswer
		for side, items := range of {
			var err error
			if said[side], err = results.CommonAnswers(ctx, items, variant, excerpt); err != nil {
				return err
			}
		}
		answers[variant] = said
	}
	items, err := results.ItemsByID(ctx, ids)
	if err != nil {
		return err
	}
	questions := map[int64]string{}
	for _, item := range items {
		questions[item.ID] = item.Question
	}
	deadline := time.Now().Add(differencesWithin)
	for _, change := range changes {
		one := saved.ChangedQuestion{Number: change.Now.Number, Question: questions[change.Now.ID],
			IsVerdict: change.IsVerdict, IsWorse: change.IsWorse()}
		if len(page.Last.Variants) > 1 {
			one.Variant = change.Name
		}
		one.From, one.To = change.Shares()
		before, hadOne := answers[change.Variant][0][change.Before.ID]
		now, hasOne := answers[change.Variant][1][change.Now.ID]
		if hadOne != hasOne || !bytes.Equal(before.Key, now.Key) {
			one.Pieces = measure.CompareTexts(before.Text, now.Text, time.Until(deadline)).Pieces(before.Text, now.Text)
		}
		page.Changed = append(page.Changed, one)
	}
	return nil
}
