package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	dbreport "wending/db/report"
	"wending/db/review"
	"wending/handlers/fault"
	"wending/handlers/request"
	"wending/jobs/stability"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/ui"
)

// showReport is the report of a task: a page of questions with their answers side by side.
func (p *Pages) showReport(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.task(c)
	if err != nil {
		return err
	}
	isPartial := !task.HasResults && c.QueryParam("partial") == "1"
	if !task.HasResults && !isPartial {
		return fault.New("TASK_NOT_FINISHED")
	}
	page, err := pageOf(c)
	if err != nil {
		return err
	}
	leave, err := gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	report := results.Report{Task: task, IsPartial: isPartial, Places: map[int64]int{}, Filter: c.QueryParam("filter"), Search: request.SearchText(c.QueryParam("search"))}
	if !slices.Contains(results.Filters, report.Filter) {
		return fault.Parameter("filter", fault.OneOf("unstable", "failed"))
	}
	if report.View, err = viewOf(c, task.RunsPerItem); err != nil {
		return err
	}
	if report.All, err = p.report.Summaries(ctx, task.ID, report.Search); err != nil {
		return err
	}
	if report.Statistics, err = p.Store.TaskStatistics(ctx, task); err != nil {
		return err
	}
	if report.Reviews, err = p.reviews(ctx, task.ID); err != nil {
		return err
	}
	shown := report.Shown(report.Filter)
	report.Pager = newPager(paths.Results(task.ID), report.Query(report.Filter, report.Search), page, len(shown))
	if redirected, err := redirectPastEnd(c, report.Pager); redirected {
		return err
	}
	for place, item := range shown {
		report.Places[item.ID] = place
	}
	if report.Cards, err = p.cards(ctx, part(shown, page), report); err != nil {
		return err
	}
	frame := p.frame(c, locale(c).Text("results.title", "Name", task.Name), ui.SectionTasks, taskCrumbs(c, task)...)
	frame.Width, frame.Styles, frame.Scripts = "wide", []string{"report.css"}, []string{"review.js", "report.js"}
	return gates(c).Responses.Through(&c.Response().Writer, func() error {
		return render(c, http.StatusOK, results.ReportPage(frame, report))
	}, leave)
}

// reviews are people's verdicts on a task's questions as a whole, by the questions' ids.
func (p *Pages) reviews(ctx context.Context, taskID uuid.UUID) (map[string][]review.Review, error) {
	all, err := review.New(p.Store).List(ctx, taskID, "", "")
	byQuestion := map[string][]review.Review{}
	for _, one := range all {
		if one.RunIndex == nil {
			byQuestion[one.QuestionID] = append(byQuestion[one.QuestionID], one)
		}
	}
	return byQuestion, err
}

// viewOf is the view that the request asks for, which the browser keeps, or that it has kept.
func viewOf(c echo.Context, runsPerItem int) (string, error) {
	if asked := c.QueryParam("view"); asked != "" {
		if !slices.Contains(results.Views, asked) {
			return "", fault.Parameter("view", fault.OneOf(results.Views...))
		}
		setCookie(c, viewCookie, asked)
		return asked, nil
	}
	if kept, err := c.Cookie(viewCookie); err == nil && slices.Contains(results.Views, kept.Value) {
		return kept.Value, nil
	}
	return results.DefaultView(runsPerItem), nil
}

// viewCookie keeps how a browser's reader likes to read reports.
const viewCookie = "view"

// cards are the questions of one page with their runs. Numbers count all questions of the task.
func (p *Pages) cards(ctx context.Context, here []dbreport.Summary, report results.Report) ([]results.Card, error) {
	ids := make([]int64, len(here))
	for n, item := range here {
		ids[n] = item.ID
	}
	items, err := p.report.ItemsByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	runs, err := p.Store.CurrentRuns(ctx, ids, results.Shown(len(ids)*report.Task.RunsPerItem))
	if err != nil {
		return nil, err
	}
	runsOf := map[int64][]db.Run{}
	for _, run := range runs {
		runsOf[run.ItemID] = append(runsOf[run.ItemID], run)
	}
	questions, err := p.report.Questions(ctx, report.Task.ID, ids)
	if err != nil {
		return nil, err
	}
	cards := make([]results.Card, len(items))
	for n, item := range items {
		card := newCard(item, db.WithMissing(runsOf[item.ID], report.Task.RunsPerItem), questions[item.ID].Number)
		if question := questions[item.ID]; question.Of(runsOf[item.ID]) {
			card.Question = question
			if card.Differences, err = question.ParseDifferences(); err != nil {
				return nil, err
			}
		}
		card.Reviews = report.Reviews[item.QuestionID]
		cards[n] = card
	}
	return cards, nil
}

// newCard sums the runs of a question up.
func newCard(item db.Item, runs []db.Run, number int) results.Card {
	card := results.Card{Item: item, Runs: runs, Number: number}
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
	card.Letters, card.Groups = stability.Letters(keys)
	return card
}

// findQuestion leads to a question by its number, on the page of the whole report that has it. Numbers do not change with
// filters, paging or retries.
func (p *Pages) findQuestion(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(c.Param("number"))
	if err != nil || number < 1 || number > task.TotalItems {
		return fault.New("QUESTION_NOT_FOUND")
	}
	items, _, err := p.report.Items(c.Request().Context(), task.ID, "", false, db.Page{Number: number, Size: 1})
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return fault.New("QUESTION_NOT_FOUND")
	}
	query := url.Values{}
	if page := (number-1)/defaultPageSize + 1; page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	return c.Redirect(http.StatusSeeOther, paths.WithQuery(paths.Results(task.ID), query)+"#"+results.CardID(items[0].ID))
}

// showRun shows the whole text of one run, of any launch.
func (p *Pages) showRun(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	id, err := request.RunID(c.Param("runId"))
	if err != nil {
		return err
	}
	run, err := p.Store.Run(c.Request().Context(), task.ID, id, results.MaxRunShown)
	if err != nil {
		return err
	}
	title := locale(c).Text("run.title", "Number", run.Number, "Run", run.RunIndex)
	frame := p.frame(c, title, ui.SectionTasks, taskCrumbs(c, task, ui.Crumb{Text: title})...)
	frame.Styles = []string{"report.css"}
	return render(c, http.StatusOK, results.RunPage(frame, results.Run{Task: task, WholeRun: run}))
}
