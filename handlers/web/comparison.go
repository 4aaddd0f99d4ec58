package web

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/summary"
	"wending/views/ui"
)

// compare compares two tasks, a and b. With a alone it offers the other tasks; two tasks ticked in the list
// arrive as the parameter task, and the older one becomes a.
func (p *Pages) compare(c echo.Context) error {
	if ticked := c.QueryParams()["task"]; len(ticked) > 0 {
		return p.compareTicked(c, ticked)
	}
	if c.QueryParam("a") == "" {
		return c.Redirect(http.StatusSeeOther, paths.Tasks)
	}
	a, err := p.comparedTask(c, c.QueryParam("a"))
	if err != nil {
		return err
	}
	if c.QueryParam("b") == "" {
		return p.chooseCompared(c, a)
	}
	b, err := p.comparedTask(c, c.QueryParam("b"))
	if err != nil {
		return err
	}
	return p.showComparison(c, a, b)
}

// comparedTask returns a task whose results can be compared.
func (p *Pages) comparedTask(c echo.Context, text string) (summary.ComparedSide, error) {
	id, variant, err := request.Compared(text)
	if err != nil {
		return summary.ComparedSide{}, err
	}
	task, err := p.Store.Task(c.Request().Context(), request.ScopeOf(c.Request().Context()), id)
	if err == nil && !task.HasResults {
		err = request.NewFault(request.CodeTaskNotFinished)
	}
	if err == nil {
		err = request.HasVariant(task, variant)
	}
	return summary.ComparedSide{Task: task, Variant: variant}, err
}

func (p *Pages) compareTicked(c echo.Context, ticked []string) error {
	if len(ticked) > 2 {
		return request.ParameterFault("task", request.Between(1, 2))
	}
	tasks := make([]summary.ComparedSide, len(ticked))
	for n, text := range ticked {
		task, err := p.comparedTask(c, text)
		if err != nil {
			return err
		}
		tasks[n] = task
	}
	slices.SortStableFunc(tasks, func(a, b summary.ComparedSide) int { return a.CreatedAt.Compare(b.CreatedAt) })
	query := url.Values{"a": {tasks[0].Ref()}}
	if len(tasks) == 2 {
		query.Set("b", tasks[1].Ref())
	}
	return c.Redirect(http.StatusSeeOther, paths.WithQuery(paths.Comparison, query))
}

// chooseCompared lists the tasks that a task can be compared with.
func (p *Pages) chooseCompared(c echo.Context, a summary.ComparedSide) error {
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	choice := summary.ComparisonChoice{A: a, Search: request.SearchText(c.QueryParam("query"))}
	filter := report.TaskFilter{Statuses: []db.TaskStatus{db.TaskSucceeded, db.TaskStopped, db.TaskFailed}, NameContains: choice.Search, Except: a.ID}
	tasks, total, err := report.NewTaskList(p.Store).Tasks(c.Request().Context(), request.ScopeOf(c.Request().Context()), filter, page)
	if err != nil {
		return err
	}
	query := url.Values{"a": {a.Ref()}}
	if choice.Search != "" {
		query.Set("query", choice.Search)
	}
	choice.Others, choice.Pager = tasks, pages.NewPager(paths.Comparison, query, page, total)
	if redirected, err := pages.RedirectPastEnd(c, choice.Pager); redirected {
		return err
	}
	title := pages.Locale(c).Text("compare.choose")
	frame := pages.Frame(c, p.Version, title, ui.SectionTasks, pages.TaskCrumbs(c, a.Task, ui.Crumb{Text: title})...)
	frame.Styles = []string{"report.css"}
	return pages.Render(c, http.StatusOK, summary.ComparisonChoicePage(frame, choice))
}

// showComparison shows a page of the questions of one part of a comparison.
func (p *Pages) showComparison(c echo.Context, a, b summary.ComparedSide) error {
	ctx := c.Request().Context()
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	shown := summary.Comparison{A: a, B: b, Show: c.QueryParam("show")}
	if parts := summary.ComparisonParts(); !slices.Contains(parts, shown.Show) {
		return request.ParameterFault("show", request.OneOf(parts[1:]...))
	}
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if shown.Comparison, err = p.report.Compare(ctx, a.Side(), b.Side()); err != nil {
		return err
	}
	alone := map[string][]measure.ComparedQuestion{summary.OnlyInA: shown.OnlyA, summary.OnlyInB: shown.OnlyB}[shown.Show]
	pairs := shown.Of(shown.Show)
	shown.Pager = pages.NewPager(paths.Comparison, shown.Query(shown.Show), page, len(pairs)+len(alone))
	if redirected, err := pages.RedirectPastEnd(c, shown.Pager); redirected {
		return err
	}
	if shown.Pairs, err = p.comparedPairs(ctx, a, b, part(pairs, page)); err != nil {
		return err
	}
	if shown.Alone, err = p.report.ItemsByID(ctx, idsOf(part(alone, page))); err != nil {
		return err
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("compare.title"), ui.SectionTasks, pages.TaskCrumbs(c, a.Task, ui.Crumb{Text: pages.Locale(c).Text("compare.title")})...)
	frame.Width, frame.Styles = "wide", []string{"report.css"}
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		return pages.Render(c, http.StatusOK, summary.ComparisonPage(frame, shown))
	}, leave)
}

// part returns the entries of one page.
func part[T any](all []T, page db.Page) []T {
	first := min(page.Offset(), len(all))
	return all[first:min(first+page.Size, len(all))]
}

func idsOf(questions []measure.ComparedQuestion) []int64 {
	ids := make([]int64, len(questions))
	for n, question := range questions {
		ids[n] = question.ID
	}
	return ids
}

// comparingTime limits the total time for computing the differences of one page's answers; later differences
// are coarse.
const comparingTime = time.Second

// comparedPairs reads the most common answers of both sides and compares them.
func (p *Pages) comparedPairs(ctx context.Context, a, b summary.ComparedSide, pairs []measure.Pair) ([]summary.ComparedPair, error) {
	var ofA, ofB []measure.ComparedQuestion
	for _, pair := range pairs {
		ofA, ofB = append(ofA, pair.A), append(ofB, pair.B)
	}
	byID, err := p.reader.ItemsOf(ctx, idsOf(ofA))
	if err != nil {
		return nil, err
	}
	answersA, err := p.report.CommonAnswers(ctx, idsOf(ofA), a.Variant, results.Shown(2*len(pairs)))
	if err != nil {
		return nil, err
	}
	answersB, err := p.report.CommonAnswers(ctx, idsOf(ofB), b.Variant, results.Shown(2*len(pairs)))
	if err != nil {
		return nil, err
	}
	shown := make([]summary.ComparedPair, len(pairs))
	deadline := time.Now().Add(comparingTime)
	for n, pair := range pairs {
		shown[n] = summary.ComparedPair{Pair: pair, Question: byID[pair.A.ID], IsOther: pair.A.Text != pair.B.Text}
		if answer, has := answersA[pair.A.ID]; has {
			shown[n].AnswerA = &answer
		}
		if answer, has := answersB[pair.B.ID]; has {
			shown[n].AnswerB = &answer
		}
		if a, b := shown[n].AnswerA, shown[n].AnswerB; a != nil && b != nil && !bytes.Equal(a.Key, b.Key) {
			difference := measure.CompareTexts(a.Text, b.Text, time.Until(deadline))
			shown[n].Difference = &difference
		}
	}
	return shown, nil
}
