package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/handlers/fault"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/ui"
)

// reviewedTask returns the task that the path names, whose results can be read.
func (p *Pages) reviewedTask(c echo.Context) (db.Task, error) {
	task, err := p.task(c)
	if err == nil && !task.HasResults {
		err = fault.New(fault.CodeTaskNotFinished)
	}
	return task, err
}

// nextReview leads to the next question that waits for the reader's verdict: those that agree least come first, and after
// one that was judged or skipped those behind it. It leads to the summary if none waits.
func (p *Pages) nextReview(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	r := results.Report{Task: task}
	if _, err := p.readReport(c, &r); err != nil {
		return err
	}
	waiting := map[int64]bool{}
	for _, item := range r.Shown(results.ToReview(r.Reviewer)) {
		waiting[item.ID] = true
	}
	all := r.InReviewOrder()
	behind := 0
	if after, err := strconv.Atoi(c.QueryParam("after")); err == nil {
		behind = 1 + slices.IndexFunc(all, func(item report.Summary) bool { return item.Number == after })
	}
	for n := range all {
		if item := all[(behind+n)%len(all)]; waiting[item.ID] {
			return c.Redirect(http.StatusSeeOther, paths.ReviewOf(task.ID, item.Number))
		}
	}
	return c.Redirect(http.StatusSeeOther, paths.SignOff(task.ID))
}

// reviewQuestion shows one question on a page of its own.
func (p *Pages) reviewQuestion(c echo.Context) error {
	ctx := c.Request().Context()
	task, item, number, err := p.question(c)
	if err != nil {
		return err
	}
	if !task.HasResults {
		return fault.New(fault.CodeTaskNotFinished)
	}
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	r := results.Report{Task: task}
	reviews, err := p.readReport(c, &r)
	if err != nil {
		return err
	}
	if r.Cards, err = p.reader.Cards(ctx, task, []int64{item.ID}, reviews, results.Shown(task.RunsOfItem())); err != nil {
		return err
	}
	if len(r.Cards) == 0 {
		return fault.New(fault.CodeQuestionNotFound)
	}
	r.Settle(r.Cards)
	title := pages.Locale(c).Text("review.mode.title", "Number", number)
	return p.renderReport(c, title, task, leave, func(frame ui.Frame) templ.Component {
		return results.ReviewPage(frame, r, r.Cards[0])
	}, ui.Crumb{Text: title})
}

// listVersions lists all verdicts that were ever given on a question.
func (p *Pages) listVersions(c echo.Context) error {
	_, item, _, err := p.question(c)
	if err != nil {
		return err
	}
	versions, err := p.reviews.History(c.Request().Context(), item.ID)
	if err != nil {
		return err
	}
	return pages.Render(c, http.StatusOK, results.History(versions))
}

// showSignOff is the summary of a review.
func (p *Pages) showSignOff(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	return p.renderSignOff(c, task, results.SignOffForm{Reviewer: reviewer(c)}, http.StatusOK)
}

func (p *Pages) renderSignOff(c echo.Context, task db.Task, typed results.SignOffForm, status int) error {
	r := results.Report{Task: task}
	if _, err := p.readReport(c, &r); err != nil {
		return err
	}
	signed, err := p.reviews.SignOffs(c.Request().Context(), task.ID)
	if err != nil {
		return err
	}
	title := pages.Locale(c).Text("signoff.title")
	frame := pages.Frame(c, p.Version, title, ui.SectionTasks, pages.TaskCrumbs(c, task, ui.Crumb{Text: pages.Locale(c).Text("results.crumb"), Href: paths.Results(task.ID)}, ui.Crumb{Text: title})...)
	frame.Styles, frame.Scripts = []string{"report.css", "gallery.css"}, []string{"review.js"}
	return pages.Render(c, status, results.SignOffPage(frame, r, signed, typed))
}

// signOff signs a report off. What was typed stays if it cannot be.
func (p *Pages) signOff(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	typed := results.SignOffForm{Reviewer: submitted.Values["reviewer"], Note: submitted.Values["note"]}
	name, err := form.ReviewerName(c.Request().Context(), typed.Reviewer)
	note := ""
	if err == nil {
		note, err = form.Note(typed.Note)
	}
	if err != nil {
		typed.Problem = fault.Of(err).Message(pages.Locale(c))
		return p.renderSignOff(c, task, typed, http.StatusUnprocessableEntity)
	}
	open, err := p.reviews.Open(c.Request().Context(), task.ID)
	if err != nil {
		return err
	}
	if open > 0 && submitted.Values["unfinished"] != "true" {
		typed.Problem = pages.Locale(c).Text("signoff.unfinished.problem", "Count", open)
		return p.renderSignOff(c, task, typed, http.StatusUnprocessableEntity)
	}
	if _, err := p.reviews.SignOff(c.Request().Context(), task.ID, name, note); err != nil {
		return err
	}
	return pages.Done(c, paths.SignOff(task.ID), "signed")
}

// assign gives a task's questions to reviewers, one name a line. What was typed stays if that cannot be.
func (p *Pages) assign(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	var typed []string
	for line := range strings.Lines(submitted.Values["reviewers"]) {
		if line = strings.TrimSpace(line); line != "" {
			typed = append(typed, line)
		}
	}
	names, err := form.ReviewerNames(typed)
	overlap, notNumber := strconv.Atoi(submitted.Values["overlap"])
	if err == nil && (notNumber != nil || overlap < 0 || overlap > 100) {
		err = fault.Parameter("overlap", fault.Between(0, 100))
	}
	if err != nil {
		names := submitted.Values["reviewers"]
		kept := results.SignOffForm{Reviewer: reviewer(c), Names: &names, NamesProblem: fault.Of(err).Message(pages.Locale(c))}
		return p.renderSignOff(c, task, kept, http.StatusUnprocessableEntity)
	}
	err = p.reviews.Assign(c.Request().Context(), task.ID, func(questions int) [][]string {
		return measure.SplitQuestions(questions, names, submitted.Values["order"] == "random", float64(overlap)/100)
	})
	if err != nil {
		return err
	}
	return pages.Done(c, paths.SignOff(task.ID), "assigned")
}
