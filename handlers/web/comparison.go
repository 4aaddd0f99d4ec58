package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/tasklist"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/jobs/tasks"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/summary"
	"wending/views/ui"
)

// compare shows the comparison of the two tasks in the parameters a and b. Without a and b, it offers all tasks; with
// only a, it offers tasks to compare a with. Two tasks that were ticked in the list of tasks arrive in the parameter
// "task"; the older one becomes a.
func (p *Pages) compare(c echo.Context) error {
	if ticked := c.QueryParams()["task"]; len(ticked) > 0 {
		return p.compareTicked(c, ticked)
	}
	if c.QueryParam("a") == "" {
		return p.chooseFirst(c)
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

// comparedTask returns the task and variant that text identifies, or a fault if the task has no results yet.
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

// chooseCompared lists the tasks with which a task can be compared.
func (p *Pages) chooseCompared(c echo.Context, a summary.ComparedSide) error {
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	choice := summary.ComparisonChoice{A: a, Search: request.SearchText(c.QueryParam("query"))}
	filter := tasklist.Filter{Statuses: []db.TaskStatus{db.TaskSucceeded, db.TaskStopped, db.TaskFailed},
		NameContains: choice.Search, Except: a.ID}
	tasks, total, err := tasklist.New(p.Store).Tasks(c.Request().Context(), request.ScopeOf(c.Request().Context()),
		filter, page)
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

const (
	// comparingTime is the maximum time for comparing the answers of two tasks for one page; what remains is compared for
	// the next page.
	comparingTime = 1500 * time.Millisecond
	// documentTime is the same limit for a printed document, and carryTime is the same limit for carrying verdicts over.
	documentTime = time.Minute
	carryTime    = 20 * time.Second
	// pairsAtOnce is how many questions of a document are in memory at once.
	pairsAtOnce = 10
)

// showComparison shows one part of a comparison with one page of its questions or, if the query names one, a single
// question.
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
	if shown.Matters, err = p.report.Matters(ctx, a.Task.ID); err != nil {
		return err
	}
	compared, err := p.reader.Compare(ctx, a.Side(), b.Side(), false, comparingTime)
	if err != nil {
		return err
	}
	shown.Slice, shown.By = request.ColumnValues(c.QueryParams()), c.QueryParam("by")
	if shown.Comparison, err = p.reader.Narrow(ctx, a, b, shown.Slice, compared.Comparison); err != nil {
		return err
	}
	if shown.Margins, err = request.Margins(c.QueryParams()); err != nil {
		return err
	}
	if len(shown.Slice) > 0 && len(shown.Comparison.Pairs) == 0 {
		if err := p.reader.RequireValues(ctx, b.Task, shown.Slice); err != nil {
			return err
		}
	}
	if number := c.QueryParam("question"); number != "" {
		return p.showPair(c, shown, compared, number, leave)
	}
	if err := p.offer(ctx, &shown, compared); err != nil {
		return err
	}
	alone := map[string][]measure.ComparedQuestion{summary.OnlyInA: shown.OnlyA, summary.OnlyInB: shown.OnlyB}[shown.Show]
	pairs := shown.Of(shown.Show)
	shown.Pager = pages.NewPager(paths.Comparison, shown.Query(shown.Show), page, len(pairs)+len(alone))
	if redirected, err := pages.RedirectPastEnd(c, shown.Pager); redirected {
		return err
	}
	if shown.Pairs, err = p.comparedPairs(ctx, shown, compared, db.OnPage(pairs, page)); err != nil {
		return err
	}
	if shown.Alone, err = p.report.ItemsByID(ctx, idsOf(db.OnPage(alone, page))); err != nil {
		return err
	}
	return p.renderCompared(c, shown, leave)
}

// confirmChanges starts new runs of the changed questions of a comparison, to find out which changes hold.
func (p *Pages) confirmChanges(c echo.Context) error {
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	f, err := p.carryBetween(c, submitted.Value("against"), submitted.Value("variant"))
	if err != nil {
		return err
	}
	runs, err := strconv.Atoi(submitted.Value("runs"))
	if err != nil {
		return request.ParameterFault("runs", request.Between(1, tasks.MaxRuns))
	}
	asked := request.ColumnValues(c.QueryParams())
	confirmation, err := p.reader.Confirmation(c.Request().Context(), f.A, f.B, asked, nil)
	if err != nil {
		return err
	}
	confirmation.Runs = runs
	if _, err := p.Tasks.Confirm(c.Request().Context(), pages.Actor(c), confirmation); err != nil {
		return err
	}
	query := summary.Comparison{A: f.A, B: f.B, Slice: asked}.Query(summary.ChangedPart)
	query.Set("done", "confirm")
	return c.Redirect(http.StatusSeeOther, paths.WithQuery(paths.Comparison, query)+"#changed")
}

// offer adds to a comparison what a reader can do with it: carry verdicts over, confirm changes, and compare by a
// column.
func (p *Pages) offer(ctx context.Context, shown *summary.Comparison, compared reading.Compared) error {
	carriable, err := p.reader.Carriable(ctx, shown.A.Side(), shown.B.Side(), compared)
	if err != nil {
		return err
	}
	shown.Carriable = len(carriable.Pairs)
	shown.Asks, err = p.Tasks.SidesToAsk(shown.A.Task, shown.A.Variant, shown.B.Task, shown.B.Variant)
	if err != nil {
		return err
	}
	return p.compareBy(ctx, shown)
}

// compareBy adds the columns by which the second task's questions can be grouped and, if the query names one of them,
// the comparison for each of its values.
func (p *Pages) compareBy(ctx context.Context, shown *summary.Comparison) (err error) {
	if shown.Columns, err = p.report.Columns(ctx, shown.B.Task); err != nil {
		return err
	}
	place, err := request.ColumnPlace(shown.B.Task, shown.By)
	if err == nil && place > 0 {
		shown.Slices, err = p.report.CompareBy(ctx, shown.B.Task, place, shown.Comparison)
	}
	return err
}

func (p *Pages) renderCompared(c echo.Context, shown summary.Comparison, leave func()) error {
	title := pages.Locale(c).Text("compare.title")
	frame := pages.Frame(c, p.Version, title, ui.SectionTasks, pages.TaskCrumbs(c, shown.A.Task, ui.Crumb{Text: title})...)
	frame.Width, frame.Styles, frame.Scripts = "wide", []string{"report.css"}, []string{"review.js", "report.js"}
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		return pages.Render(c, http.StatusOK, summary.ComparisonPage(frame, shown))
	}, leave)
}

// showPair shows one question of a comparison: as a page or, if htmx requests it, only its answers or their folded
// part.
func (p *Pages) showPair(c echo.Context, shown summary.Comparison, compared reading.Compared, text string,
	leave func()) error {
	number, err := strconv.Atoi(text)
	at := slices.IndexFunc(compared.Pairs, func(pair measure.Pair) bool { return pair.A.Number == number })
	if err != nil || at < 0 {
		return request.NewFault(request.CodeQuestionNotFound)
	}
	shown.Question, shown.HoldsAll = number, c.QueryParam("units") == ""
	if shown.Pairs, err = p.comparedPairs(c.Request().Context(), shown, compared, compared.Pairs[at:at+1]); err != nil {
		return err
	}
	if !request.IsFragment(c.Request()) || len(shown.Pairs) == 0 {
		return p.renderCompared(c, shown, leave)
	}
	pair := shown.Pairs[0]
	from, err := strconv.Atoi(c.QueryParam("units"))
	if err != nil || pair.Laid == nil {
		return pages.Render(c, http.StatusOK, summary.PairBody(shown, pair))
	}
	return pages.Render(c, http.StatusOK, pair.Laid.Fold(from))
}

// printComparison shows a comparison as one document, for printing.
func (p *Pages) printComparison(c echo.Context) error {
	ctx := c.Request().Context()
	shown, err := p.bothSides(c)
	if err != nil {
		return err
	}
	only := c.QueryParam("only")
	if only != "" && only != summary.OnlyDiffering {
		return request.ParameterFault("only", request.OneOf(summary.OnlyDiffering))
	}
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	compared, err := p.reader.Compare(ctx, shown.A.Side(), shown.B.Side(), false, documentTime)
	if err != nil {
		return err
	}
	shown.Slice, shown.IsDocument, shown.HoldsAll = request.ColumnValues(c.QueryParams()), true, true
	if shown.Comparison, err = p.reader.Narrow(ctx, shown.A, shown.B, shown.Slice, compared.Comparison); err != nil {
		return err
	}
	pairs := shown.Of("")
	if only != "" {
		pairs = slices.DeleteFunc(pairs, func(pair measure.Pair) bool { return pair.Group().IsSame() })
	}
	leftOut := len(shown.Comparison.Pairs) - len(pairs)
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		header := c.Response().Header()
		header.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
		header.Set(echo.HeaderContentSecurityPolicy, ui.DocumentPolicy())
		c.Response().WriteHeader(http.StatusOK)
		if err := summary.ComparisonDocumentHead(shown, time.Now(), leftOut).Render(ctx, c.Response()); err != nil {
			return err
		}
		for some := range slices.Chunk(pairs, pairsAtOnce) {
			written, err := p.comparedPairs(ctx, shown, compared, some)
			if err != nil {
				return err
			}
			for _, pair := range written {
				if err := summary.ComparisonDocumentPair(shown, pair).Render(ctx, c.Response()); err != nil {
					return err
				}
			}
		}
		return summary.ComparisonDocumentFoot().Render(ctx, c.Response())
	}, leave)
}

// bothSides returns the two sides in a request's parameters a and b.
func (p *Pages) bothSides(c echo.Context) (shown summary.Comparison, err error) {
	for _, side := range []struct {
		name string
		to   *summary.ComparedSide
	}{{"a", &shown.A}, {"b", &shown.B}} {
		if c.QueryParam(side.name) == "" {
			return shown, request.ParameterFault(side.name, request.NonEmpty())
		}
		if *side.to, err = p.comparedTask(c, c.QueryParam(side.name)); err != nil {
			return shown, err
		}
	}
	return shown, nil
}

func idsOf(questions []measure.ComparedQuestion) []int64 {
	ids := make([]int64, len(questions))
	for n, question := range questions {
		ids[n] = question.ID
	}
	return ids
}

// comparedPairs returns the pairs with the most common answers of both sides, laid out next to each other.
func (p *Pages) comparedPairs(ctx context.Context, c summary.Comparison, compared reading.Compared,
	pairs []measure.Pair) ([]summary.ComparedPair, error) {
	pairs = slices.Clone(pairs)
	if err := p.report.Between(ctx, c.A.Side(), c.B.Side(), pairs, true, 0); err != nil {
		return nil, err
	}
	var ofA, ofB []measure.ComparedQuestion
	for _, pair := range pairs {
		ofA, ofB = append(ofA, pair.A), append(ofB, pair.B)
	}
	items, err := p.reader.ItemsOf(ctx, slices.Concat(idsOf(ofA), idsOf(ofB)))
	if err != nil {
		return nil, err
	}
	limit := results.Shown(2 * len(pairs))
	answersA, err := p.report.CommonAnswers(ctx, idsOf(ofA), c.A.Variant, limit)
	if err != nil {
		return nil, err
	}
	answersB, err := p.report.CommonAnswers(ctx, idsOf(ofB), c.B.Variant, limit)
	if err != nil {
		return nil, err
	}
	var outcomes map[int64][]report.Outcome
	if len(answersB) < len(pairs) {
		if outcomes, err = p.report.Outcomes(ctx, c.B.ID, c.B.Variant); err != nil {
			return nil, err
		}
	}
	shown := make([]summary.ComparedPair, 0, len(pairs))
	for _, pair := range pairs {
		item, isThere := items[pair.B.ID]
		if !isThere { // deleted in the meantime
			continue
		}
		one := summary.ComparedPair{Pair: pair, IsWhole: c.Question != 0,
			Earlier: reading.ReviewsOf(compared.OfA.OfQuestions[pair.A.QuestionID], c.A.Variant)}
		one.Card = results.Card{
			Item: item, Number: pair.B.Number, Reviews: reading.ReviewsOf(compared.OfB.OfQuestions[pair.B.QuestionID],
				c.B.Variant),
			Withdrawn: compared.OfB.Withdrawn[pair.B.QuestionID],
		}
		if before, has := items[pair.A.ID]; has && pair.A.Text != pair.B.Text {
			one.Before = &before
		}
		if answer, has := answersA[pair.A.ID]; has {
			one.AnswerA = &answer
		}
		if answer, has := answersB[pair.B.ID]; has {
			one.AnswerB = &answer
		}
		for _, outcome := range outcomes[pair.B.ID] {
			if outcome.ErrorCode != "" {
				one.Codes = append(one.Codes, outcome.ErrorCode)
			}
		}
		c.Lay(&one)
		shown = append(shown, one)
	}
	return shown, nil
}
