package handlers

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/jobs/stability"
	"wending/views"
)

// resultsPage is the report of a task: a page of questions with their answers side by side.
func (s *Server) resultsPage(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := s.finishedTask(c)
	if err != nil {
		return err
	}
	page, f := pageOf(c)
	if f != nil {
		return f
	}
	filter := c.QueryParam("filter")
	if !slices.Contains(views.ResultFilters, filter) {
		return parameterInvalid("filter", "error.range.choice", "Choices", "unstable, failed")
	}
	search := queryText(c, "search")
	all, err := s.Store.ItemSummaries(ctx, task.ID, search)
	if err != nil {
		return err
	}
	statistics, err := s.Store.TaskStatistics(ctx, task.ID)
	if err != nil {
		return err
	}
	shown := fitting(all, filter)
	view := views.ResultsPage{Task: task, Statistics: statistics, All: all, Places: map[int64]int{}, Filter: filter, Search: search}
	for place, item := range shown {
		view.Places[item.ID] = place
	}
	first := min((page.Number-1)*page.Size, len(shown))
	here := shown[first:min(first+page.Size, len(shown))]
	if view.Cards, err = s.cards(c, here, all, task.RunsPerItem); err != nil {
		return err
	}
	query := url.Values{}
	for name, text := range map[string]string{"filter": filter, "search": search} {
		if text != "" {
			query.Set(name, text)
		}
	}
	view.Pager = newPager(views.TaskPath(task, "/results"), query, page, len(shown))
	locale := s.locale(c)
	frame := s.frame(c, locale.Text("results.title", "Name", task.Name), views.Crumb{Text: locale.Text("nav.tasks"), Href: "/tasks"}, views.Crumb{Text: task.Name})
	frame.Width = "wide"
	return s.render(c, http.StatusOK, views.ResultsView(frame, view))
}

// fitting are the summaries that match the search and the filter.
func fitting(all []db.ItemSummary, filter string) []db.ItemSummary {
	var shown []db.ItemSummary
	for _, item := range all {
		if item.Matches && (filter == "" || (filter == "unstable" && item.IsUnstable()) || (filter == "failed" && item.Failures > 0)) {
			shown = append(shown, item)
		}
	}
	return shown
}

// cards are the questions of one page with their runs. Numbers count all questions of the task.
func (s *Server) cards(c echo.Context, here, all []db.ItemSummary, runsPerItem int) ([]views.Card, error) {
	ids := make([]int64, len(here))
	for n, item := range here {
		ids[n] = item.ID
	}
	items, err := s.Store.ItemsByID(c.Request().Context(), ids)
	if err != nil {
		return nil, err
	}
	runs, err := s.Store.CurrentRuns(c.Request().Context(), ids, views.MaxShown)
	if err != nil {
		return nil, err
	}
	runsOf := map[int64][]db.Run{}
	for _, run := range runs {
		runsOf[run.ItemID] = append(runsOf[run.ItemID], run)
	}
	cards := make([]views.Card, len(items))
	for n, item := range items {
		number := slices.IndexFunc(all, func(summary db.ItemSummary) bool { return summary.ID == item.ID }) + 1
		cards[n] = newCard(item, runsOf[item.ID], runsPerItem, number)
	}
	return cards, nil
}

// newCard puts the runs of a question side by side; where the task was stopped before one, it stands there as
// STOPPED.
func newCard(item db.Item, taken []db.Run, runsPerItem, number int) views.Card {
	runs := make([]db.Run, runsPerItem)
	for n := range runs {
		runs[n] = db.Run{ItemID: item.ID, RunIndex: n + 1, Status: db.RunStopped}
	}
	for _, run := range taken {
		runs[run.RunIndex-1] = run
	}
	card := views.Card{Item: item, Runs: runs, Number: number}
	keys := make([][]byte, len(runs))
	for n, run := range runs {
		keys[n] = run.AnswerKey
		switch run.Status {
		case db.RunSucceeded:
		case db.RunStopped:
			card.Stopped++
		default:
			card.Failures++
		}
	}
	letters, groups := stability.Letters(keys)
	card.Letters = letters
	for _, group := range groups {
		card.Groups = append(card.Groups, views.AnswerGroup{Letter: group.Letter, Count: group.Count})
	}
	return card
}

// runText is the whole text of one run, of whatever launch, for answers too long for the page. Browsers show it
// as text.
func (s *Server) runText(c echo.Context) error {
	task, err := s.task(c)
	if err != nil {
		return err
	}
	runID, err := strconv.ParseInt(c.Param("runId"), 10, 64)
	if err != nil {
		return fault(http.StatusNotFound, "NOT_FOUND")
	}
	response, err := s.Store.RunResponse(c.Request().Context(), task.ID, runID)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	return c.Blob(http.StatusOK, "text/plain; charset=utf-8", response)
}
