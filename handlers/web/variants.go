package web

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/measure"
	"wending/handlers/pages"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/summary"
	"wending/views/ui"
)

// showSummary shows the statistics of a task's report.
func (p *Pages) showSummary(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	by := c.QueryParam("by")
	if by != "" && !slices.Contains(task.VariableNames, by) {
		return request.ParameterFault("by", request.OneOf(task.VariableNames...))
	}
	withDefaults, err := pages.Flag(c, "include_defaults")
	if err != nil {
		return err
	}
	columns, err := p.report.Columns(ctx, task)
	if err != nil {
		return err
	}
	if by == "" && len(columns) > 0 {
		by = columns[0].Name
	}
	s, err := p.reader.Summary(ctx, task, reading.Grouping{Columns: columns, By: by}, withDefaults)
	if err != nil {
		return err
	}
	l := pages.Locale(c)
	frame := pages.Frame(c, p.Version, l.Text("task.tab.of", "Tab", l.Text("task.tab.report"), "Name", task.Name),
		ui.SectionTasks)
	frame.Styles = []string{"report.css", "summary.css"}
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		return pages.Render(c, http.StatusOK, summary.Page(frame, s))
	}, leave)
}

// showVariants shows a comparison of a task's variants. The report's page requests only its statistics.
func (p *Pages) showVariants(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	sort := c.QueryParam("sort")
	if sort != "" && sort != summary.SortSpread {
		return request.ParameterFault("sort", request.OneOf(summary.SortSpread))
	}
	by, measures := c.QueryParam("by"), summary.MeasureNames(len(task.Evaluators) > 0, task.Grouper() != nil)
	if by != "" && !slices.Contains(measures, by) {
		return request.ParameterFault("by", request.OneOf(measures...))
	}
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	table := summary.VariantTable{Task: task, IsBySpread: sort != "", By: by}
	var matrix [][]measure.ComparedQuestion
	group, reads := errgroup.WithContext(ctx)
	group.Go(func() (err error) { table.Numbers, err = p.report.VariantStatistics(reads, task.ID); return err })
	group.Go(func() (err error) { table.Levels, _, err = p.report.Levels(reads, task.ID); return err })
	if len(task.Evaluators) > 0 {
		group.Go(func() (err error) { table.Verdicts, err = p.report.PassStatistics(reads, task, false); return err })
	}
	group.Go(func() (err error) { matrix, err = p.report.Matrix(reads, task); return err })
	group.Go(func() (err error) { table.Matters, err = p.report.Matters(reads, task.ID); return err })
	if err := group.Wait(); err != nil {
		return err
	}
	table.Rankings, table.Agreements = reading.Rank(task, matrix, table.Matters), map[int]measure.Interval{}
	for number, agreements := range reading.Agreements(task, matrix) {
		table.Agreements[number] = agreements.Share()
	}
	if request.IsFragment(c.Request()) {
		return pages.Render(c, http.StatusOK, summary.VariantsPart(table))
	}
	table.Pager = pages.NewPager(paths.Variants(task.ID), table.Values(), page, task.TotalItems)
	if redirected, err := pages.RedirectPastEnd(c, table.Pager); redirected {
		return err
	}
	if table.Questions, err = p.variantQuestions(c, matrix, page, table.IsBySpread); err != nil {
		return err
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("variants.title"), ui.SectionTasks)
	frame.Width, frame.Styles = "wide", []string{"report.css"}
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		return pages.Render(c, http.StatusOK, summary.VariantsPage(frame, table))
	}, leave)
}

// variantQuestions returns one page of the questions, with each variant's results. The questions with the largest
// spread come first if isBySpread is set.
func (p *Pages) variantQuestions(c echo.Context, matrix [][]measure.ComparedQuestion, page db.Page,
	isBySpread bool) ([]summary.VariantQuestion, error) {
	order := make([]int, len(matrix[0])) // positions of questions in the matrix
	for place := range order {
		order[place] = place
	}
	if isBySpread {
		spreads := make([]float64, len(order))
		for place := range order {
			spreads[place] = spread(matrix, place)
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(spreads[b], spreads[a]) })
	}
	order = db.OnPage(order, page)
	asked := make([]measure.ComparedQuestion, len(order))
	for n, place := range order {
		asked[n] = matrix[0][place]
	}
	byID, err := p.reader.ItemsOf(c.Request().Context(), idsOf(asked))
	if err != nil {
		return nil, err
	}
	questions := make([]summary.VariantQuestion, len(order))
	for n, place := range order {
		questions[n] = summary.VariantQuestion{Item: byID[asked[n].ID],
			Variants: make([]measure.ComparedQuestion, len(matrix))}
		for variant := range matrix {
			questions[n].Variants[variant] = matrix[variant][place]
		}
	}
	return questions, nil
}

// spread returns the difference between the highest and the lowest agreement of the variants' answers to a question; −1
// if fewer than two agreements are known.
func spread(matrix [][]measure.ComparedQuestion, place int) float64 {
	var known []float64
	for _, questions := range matrix {
		if agreement := questions[place].Agreement; agreement != nil {
			known = append(known, *agreement)
		}
	}
	if len(known) < 2 {
		return -1
	}
	return slices.Max(known) - slices.Min(known)
}
