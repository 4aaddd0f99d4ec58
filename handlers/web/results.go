package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/engine"
	"wending/db/people"
	"wending/db/report"
	"wending/handlers/pages"
	"wending/handlers/reading"
	"wending/handlers/replay"
	"wending/handlers/request"
	"wending/jobs/agent/protocol"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/taskpages"
	"wending/views/ui"
)

// showReport shows a page of a task's report: questions with their answers side by side.
func (p *Pages) showReport(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.task(c)
	if err != nil {
		return err
	}
	if isAsked, err := pages.OpenView(c, p.people, people.QuestionViews); isAsked {
		return err
	}
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	report, page, reviews, err := p.selectedReport(c, task)
	if err != nil {
		return err
	}
	if report.Views, err = p.viewsOf(c, paths.Results(task.ID), report.Query); err != nil {
		return err
	}
	if redirected, err := pages.RedirectPastEnd(c, report.Pager); redirected {
		return err
	}
	here := db.OnPage(report.Shown(report.Query), page)
	ids := make([]int64, len(here))
	for n, item := range here {
		ids[n] = item.ID
	}
	if report.Cards, err = p.reader.Cards(ctx, task, ids, reviews, results.Shown(len(ids)*task.RunsOfItem())); err != nil {
		return err
	}
	report.Seal(report.Cards)
	report.Settle(report.Cards)
	return p.renderReport(c, pages.Locale(c).Text("results.title", "Name", task.Name), leave,
		func(frame ui.Frame) templ.Component {
			return results.ReportPage(frame, report)
		})
}

// selectedReport returns the report that a request's query describes, without the answers, with the requested page and
// people's verdicts.
func (p *Pages) selectedReport(c echo.Context,
	task db.Task) (report results.Report, page db.Page, reviews reading.Reviews, err error) {
	isPartial := !task.HasResults && c.QueryParam("partial") == "1"
	if !task.HasResults && !isPartial {
		return report, page, reviews, request.NewFault(request.CodeTaskNotFinished)
	}
	if page, err = pages.SizedWindow(c, results.OnPage(task)); err != nil {
		return report, page, reviews, err
	}
	report.Task = task
	if report.Query, err = queryOf(c, task); err != nil {
		return report, page, reviews, err
	}
	report.IsPartial = isPartial
	if reviews, err = p.readReport(c, &report); err != nil {
		return report, page, reviews, err
	}
	shown := report.Shown(report.Query)
	report.Pager = pages.NewSizedPager(paths.Results(task.ID), report.Values(), page, len(shown), results.OnPage(task))
	report.Places = make(map[int64]int, len(shown))
	for place, item := range shown {
		report.Places[item.ID] = place
	}
	return report, page, reviews, nil
}

// showMap shows a square for each question, which links to the question on whatever page of the report it is.
func (p *Pages) showMap(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	if !request.IsFragment(c.Request()) {
		return c.Redirect(http.StatusSeeOther, paths.WithQuery(paths.Results(task.ID), c.QueryParams()))
	}
	report, _, _, err := p.selectedReport(c, task)
	if err != nil {
		return err
	}
	return pages.Render(c, http.StatusOK, results.MapPart(report))
}

// renderReport renders a page with answers. leave gives back the request's slot at the gate; it is called once the page
// is complete, even if the client is still reading it.
func (p *Pages) renderReport(c echo.Context, title string, leave func(), page func(ui.Frame) templ.Component) error {
	frame := pages.Frame(c, p.Version, title, ui.SectionTasks)
	frame.Width, frame.Styles, frame.Scripts = "wide", []string{"report.css", "gallery.css"},
		[]string{"review.js", "report.js"}
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		return pages.Render(c, http.StatusOK, page(frame))
	}, leave)
}

// onlyDiffering is the value of the parameter "only" that reduces a document to the questions that differ or failed.
const onlyDiffering = "differing"

// printReport shows a task's report as one document, for printing.
func (p *Pages) printReport(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	only := c.QueryParam("only")
	if only != "" && only != onlyDiffering {
		return request.ParameterFault("only", request.OneOf(onlyDiffering))
	}
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	chosen, err := p.Chosen(c, task)
	if err != nil {
		return err
	}
	write, err := p.reader.Document(ctx, task, reading.Contents{OnlyDiffering: only == onlyDiffering, Only: chosen})
	if err != nil {
		return err
	}
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		header := c.Response().Header()
		header.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
		header.Set(echo.HeaderContentSecurityPolicy, ui.DocumentPolicy())
		c.Response().WriteHeader(http.StatusOK)
		return write(ctx, c.Response())
	}, leave)
}

// Chosen returns the ids of the questions that the query of a report selects; nil means all.
func (p *Pages) Chosen(c echo.Context, task db.Task) (map[int64]bool, error) {
	r := results.Report{Task: task}
	var err error
	if r.Query, err = queryOf(c, task); err != nil || !r.Narrows() {
		return nil, err
	}
	if _, err := p.readReport(c, &r); err != nil {
		return nil, err
	}
	items := map[int64]bool{}
	for _, item := range r.Shown(r.Query) {
		items[item.ID] = true
	}
	return items, nil
}

// exportShown sends the questions that the query of a report selects, as a file.
func (p *Pages) exportShown(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	format := c.QueryParam("format")
	if _, isKnown := reading.ReportTypes[format]; !isKnown {
		return request.ParameterFault("format", request.OneOf("csv", "xlsx", "jsonl", "html"))
	}
	order := reading.Order{Format: format, IncludeErrors: true}
	if order.Only, err = p.Chosen(c, task); err != nil {
		return err
	}
	write, err := reading.NewReports(p.Store, p.Tasks.Assets).Prepare(ctx, task, order)
	if err != nil {
		return err
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, reading.ReportTypes[format])
	header.Set(echo.HeaderContentDisposition, request.ReportDisposition(task.Name, format))
	c.Response().WriteHeader(http.StatusOK)
	return write(ctx, c.Response())
}

// queryOf parses the query of a report: its filters, and the order of its questions.
func queryOf(c echo.Context, task db.Task) (query results.Query, err error) {
	query.Search, query.Series = request.SearchText(c.QueryParam("search")), request.SearchText(c.QueryParam("series"))
	if query.Variant, err = pages.Variant(c, task); err != nil {
		return query, err
	}
	for _, parameter := range []struct {
		name    string
		choices []string
		to      *string
	}{{"filter", results.Filters(task), &query.Filter}, {"review", results.ReviewFilters(task), &query.Review},
		{"sort", results.Sorts, &query.Sort}} {
		*parameter.to = c.QueryParam(parameter.name)
		if parameter.name == "sort" && *parameter.to == "" {
			*parameter.to = results.DefaultSort
		}
		if !slices.Contains(parameter.choices, *parameter.to) {
			return query, request.ParameterFault(parameter.name,
				request.OneOf(slices.DeleteFunc(slices.Clone(parameter.choices), func(choice string) bool {
					return choice == ""
				})...))
		}
	}
	if typed := c.QueryParam("sample"); typed != "" {
		id, err := uuid.Parse(typed)
		if err != nil {
			return query, request.ParameterFault("sample", request.Existing())
		}
		query.Sample = &id
	}
	query.Slice = request.SliceValues(c.QueryParams())
	query.Reason = request.SearchText(c.QueryParam("reason"))
	query.By, query.AssignedTo = request.SearchText(c.QueryParam("reviewer")), request.SearchText(c.QueryParam("assigned"))
	query.ErrorCode, query.FinishReason = request.SearchText(c.QueryParam("error_code")), c.QueryParam("finish_reason")
	if query.FinishReason != "" && !slices.Contains(protocol.Finishes, query.FinishReason) {
		return query, request.ParameterFault("finish_reason", request.OneOf(protocol.Finishes...))
	}
	return query, nil
}

// readReport reads the summaries of all questions of a report and the reader's preferences into report, and returns
// people's verdicts.
func (p *Pages) readReport(c echo.Context, report *results.Report) (reviews reading.Reviews, err error) {
	ctx := c.Request().Context()
	if report.View, err = choiceOf(c, "view", results.Views, viewOfPage(c)); err != nil {
		return reviews, err
	}
	if report.ShownAs, err = choiceOf(c, "text", results.Texts, ""); err != nil {
		return reviews, err
	}
	aligned, err := choiceOf(c, "align", results.Alignments, results.AlignOff)
	if err != nil {
		return reviews, err
	}
	report.IsAligned = aligned == results.AlignOn
	if report.Task.Grouper() != nil {
		by, err := choiceOf(c, "by", results.LettersBy, results.ByWords)
		if err != nil {
			return reviews, err
		}
		report.IsByMeaning = by == results.ByMeaning
	}
	report.Reviewer = reviewer(c)
	report.Task = asSeen(ctx, report.Task)
	if report.Query.Sample != nil {
		if report.Drawn, err = p.reviews.Sample(ctx, report.Task.ID, *report.Query.Sample); err != nil {
			return reviews, err
		}
	}
	if report.All, err = p.report.Summaries(ctx, report.Task, report.Variant, report.Search,
		report.NeedsMeasures()); err != nil {
		return reviews, err
	}
	if err = p.readEvaluations(ctx, report); err != nil {
		return reviews, err
	}
	if report.Columns, err = p.report.Columns(ctx, report.Task); err != nil {
		return reviews, err
	}
	if report.Sliced, err = p.sliced(ctx, report.Task, report.Query); err != nil {
		return reviews, err
	}
	if report.Outcomes, err = p.report.Outcomes(ctx, report.Task.ID, report.Variant); err != nil {
		return reviews, err
	}
	if report.Statistics, err = p.Store.TaskStatistics(ctx, report.Task); err != nil {
		return reviews, err
	}
	if report.Turns, err = p.reviews.Assignments(ctx, report.Task.ID); err != nil {
		return reviews, err
	}
	reviews, err = p.reader.Reviews(ctx, report.Task.ID)
	report.Reviews = reviews.OfQuestions
	if err == nil && len(report.Slice) > 0 && len(report.Sliced) == 0 {
		err = p.reader.RequireValues(ctx, report.Task, report.Slice)
	}
	if absent := report.Absent(); err == nil && absent != "" {
		err = request.ParameterFault(absent, request.Existing())
	}
	return reviews, err
}

// asSeen returns the task with HidesReviews unset if the reader may not judge, because then there is no judgement that
// other people's verdicts could influence.
func asSeen(ctx context.Context, task db.Task) db.Task {
	task.HidesReviews = task.HidesReviews && request.From(ctx).Role.Allows(people.Reviewer)
	return task
}

// readEvaluations adds to a report which questions have runs that did not pass an evaluator, or that a judge could not
// rate.
func (p *Pages) readEvaluations(ctx context.Context, report *results.Report) (err error) {
	if len(report.Task.Evaluators) == 0 {
		return nil
	}
	if len(report.Task.Evaluators) > 1 {
		if report.Unpassed, err = p.report.Unpassed(ctx, report.Task.ID, report.Variant); err != nil {
			return err
		}
	}
	if report.IsBesidePeople() {
		judged, err := p.reviews.Judged(ctx, report.Task.ID)
		if err != nil {
			return err
		}
		report.Compared = results.Compare(judged)
		report.View, report.IsAligned = results.Columns, false // single answers are shown in columns
	}
	report.Unrated, err = p.report.Unrated(ctx, report.Task.ID, report.Variant)
	return err
}

// viewsOf returns the project's saved views of questions, for the page at path that shows what query selects.
func (p *Pages) viewsOf(c echo.Context, path string, query results.Query) (ui.Views, error) {
	query.IsPartial = false
	return pages.Views(c, p.people, people.QuestionViews, path, query.Values())
}

// sliced returns the ids of the questions that the query selects by columns or by the latency, tokens or cost of their
// runs; nil if it has no such condition.
func (p *Pages) sliced(ctx context.Context, task db.Task, query results.Query) (map[int64]bool, error) {
	slicing, err := request.Slicing(query.Slice, task)
	if err != nil || len(query.Slice) == 0 {
		return nil, err
	}
	filter := report.Filter{Variant: query.Variant, Slicing: slicing}
	if query.ErrorCode != "" { // the same run must meet all conditions
		filter.ErrorCodes = []string{query.ErrorCode}
	}
	if query.FinishReason != "" {
		filter.FinishReasons = []string{query.FinishReason}
	}
	return p.report.Matching(ctx, task.ID, filter)
}

// viewOfPage returns the view of the page from which a card is requested; empty if the request does not say.
func viewOfPage(c echo.Context) string {
	if view := c.Request().Header.Get(results.ViewHeader); slices.Contains(results.Views, view) {
		return view
	}
	return ""
}

// choiceOf returns the choice in the request, which the browser then remembers; without one, it returns the remembered
// choice or otherwise.
func choiceOf(c echo.Context, name string, choices []string, otherwise string) (string, error) {
	if asked := c.QueryParam(name); asked != "" {
		if !slices.Contains(choices, asked) {
			return "", request.ParameterFault(name, request.OneOf(choices...))
		}
		pages.SetCookie(c, name, asked, pages.Year)
		return asked, nil
	}
	if kept := request.Kept(c.Request(), name); slices.Contains(choices, kept) {
		return kept, nil
	}
	return otherwise, nil
}

// reviewer returns the name under which the reader reviews: the account's name or, without accounts, the name that the
// reader has entered, which is empty at first.
func reviewer(c echo.Context) string {
	if info := request.From(c.Request().Context()); info.HasAccounts {
		return info.Who.Name
	}
	name, err := url.PathUnescape(request.Kept(c.Request(), "reviewer"))
	if err != nil {
		return ""
	}
	return request.SearchText(name)
}

// news tells a page that shows only the finished questions how many are finished now.
func (p *Pages) news(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	known, err := strconv.Atoi(c.QueryParam("known"))
	if err != nil {
		return request.ParameterFault("known", request.Between(0, task.TotalItems))
	}
	return pages.Render(c, http.StatusOK, results.News(task, known, task.Processed > known))
}

// findQuestion redirects to the question with the number in the path, on the page of the report that contains it.
// Numbers do not change with filters, paging or retries. The query can name a variant whose answers are to be shown. If
// htmx makes the request, findQuestion sends a part of the question's card instead.
func (p *Pages) findQuestion(c echo.Context) error {
	task, item, number, err := p.question(c)
	if err != nil {
		return err
	}
	if request.IsFragment(c.Request()) {
		if c.QueryParam("sent") != "" {
			return p.openSent(c, task, item.ID)
		}
		if from := c.QueryParam("units"); from != "" {
			return p.openUnits(c, task, item.ID, from)
		}
		if variant, err := pages.Variant(c, task); err != nil || variant != 0 {
			return p.openVariant(c, task, item.ID, variant, err)
		}
		return p.followRetry(c, task, item.ID)
	}
	query := url.Values{}
	if !task.HasResults { // finished questions can already be read
		return p.findPartial(c, task, item, number)
	}
	if c.QueryParam("sort") != "" { // the link is on a page with its own filters and order
		r := results.Report{Task: task}
		if r.Query, err = queryOf(c, task); err != nil {
			return err
		}
		address, err := p.addressIn(c, r, item.ID)
		if err != nil {
			return err
		}
		if address != "" {
			return c.Redirect(http.StatusSeeOther, address)
		}
	}
	if task.TotalItems > results.OnPage(task) { // only in this order can the page be computed from the number
		query.Set("sort", results.SortNumber)
	}
	if page := (number-1)/results.OnPage(task) + 1; page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	if variant, err := pages.Variant(c, task); err == nil && variant != 0 {
		query.Set("variant", strconv.Itoa(variant))
	}
	return c.Redirect(http.StatusSeeOther, paths.WithQuery(paths.Results(task.ID), query)+"#"+paths.ItemID(item.ID))
}

// addressIn returns the address of a question on the page of a report that contains it; empty if the report's filters
// leave it out.
func (p *Pages) addressIn(c echo.Context, r results.Report, item int64) (address string, err error) {
	if _, err := p.readReport(c, &r); err != nil {
		return "", err
	}
	place := slices.IndexFunc(r.Shown(r.Query), func(one report.Summary) bool { return one.ID == item })
	if place < 0 {
		return "", nil
	}
	query := r.Values()
	if page := place/results.OnPage(r.Task) + 1; page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	return paths.WithQuery(paths.Results(r.Task.ID), query) + "#" + paths.ItemID(item), nil
}

// findPartial redirects to a question that is finished, while the task's first launch is still active. If the question
// is not finished, it shows the question on a page of its own.
func (p *Pages) findPartial(c echo.Context, task db.Task, item db.Item, number int) error {
	r := results.Report{Task: task, Query: results.Query{IsPartial: true, Sort: results.DefaultSort}}
	address, err := p.addressIn(c, r, item.ID)
	if err != nil {
		return err
	}
	if address == "" {
		return p.showUnfinished(c, task, item, number)
	}
	return c.Redirect(http.StatusSeeOther, address)
}

// unfinishedShown is the maximum number of characters of each answer on the page of an unfinished question.
const unfinishedShown = 2000

// showUnfinished shows the page of a question whose runs have not all ended.
func (p *Pages) showUnfinished(c echo.Context, task db.Task, item db.Item, number int) error {
	ctx := c.Request().Context()
	u := taskpages.Unfinished{Task: task, Item: item, Number: number}
	board, err := p.monitor.Board(ctx, task)
	if err != nil {
		return err
	}
	if number <= board.Len() {
		u.State = board.State(number)
	}
	runs, err := p.report.CurrentRuns(ctx, []int64{item.ID}, unfinishedShown)
	if err != nil {
		return err
	}
	u.Runs = runs
	flights, err := replay.Flights(ctx, p.Store, task)
	if err != nil {
		return err
	}
	for _, call := range flights.Calls {
		if call.Number == number {
			u.Calls = append(u.Calls, call)
		}
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("board.question", "Number", number), ui.SectionTasks)
	frame.Styles = []string{"report.css"}
	return pages.Render(c, http.StatusOK, taskpages.UnfinishedPage(frame, u))
}

// question returns the task in the path, and its question with the number in the path.
func (p *Pages) question(c echo.Context) (task db.Task, item db.Item, number int, err error) {
	if task, err = p.task(c); err != nil {
		return task, item, 0, err
	}
	number, err = strconv.Atoi(c.Param("number"))
	if err != nil || number < 1 || number > task.TotalItems {
		return task, item, 0, request.NewFault(request.CodeQuestionNotFound)
	}
	items, _, err := p.report.Items(c.Request().Context(), task.ID, report.Filter{}, db.Page{Number: number, Size: 1})
	if err == nil && len(items) == 0 {
		err = request.NewFault(request.CodeQuestionNotFound)
	}
	if err != nil {
		return task, item, 0, err
	}
	return task, items[0], number, nil
}

// openVariant sends a question's card with the answers of one variant open. If the variant's number is wrong, the error
// wrong says so, and openVariant returns it.
func (p *Pages) openVariant(c echo.Context, task db.Task, item int64, variant int, wrong error) error {
	if wrong != nil {
		return wrong
	}
	r, card, err := p.readCard(c, task, item)
	if err != nil {
		return err
	}
	r.Variant = variant
	return pages.Render(c, http.StatusOK, results.CardPart(r, card))
}

// openSent shows, for each variant, the request that was sent for the variant's first run of a question.
func (p *Pages) openSent(c echo.Context, task db.Task, item int64) error {
	ctx := c.Request().Context()
	runs, err := p.report.CurrentRuns(ctx, []int64{item}, 0)
	if err != nil {
		return err
	}
	var all []taskpages.Sent
	last := 0
	for _, one := range runs {
		if one.Variant == last {
			all[len(all)-1].Runs = append(all[len(all)-1].Runs, one)
			continue
		}
		last = one.Variant
		run, err := p.report.Run(ctx, task.ID, one.ID, 0)
		if err != nil {
			return err
		}
		sent, err := p.Tasks.Input(ctx, task, run)
		if err != nil {
			return err
		}
		var body bytes.Buffer
		if err := json.Indent(&body, sent.Body, "", "  "); err != nil {
			return err
		}
		part := taskpages.Sent{RunID: one.ID, Protocol: sent.Protocol, URL: sent.URL, Body: body.String(),
			OmitsPayload: sent.OmitsPayload, Runs: []db.Run{one}}
		if !task.IsPlain() {
			part.Variant = task.Variants[one.Variant-1].Name
		}
		all = append(all, part)
	}
	project, err := p.people.Project(ctx, task.ProjectID)
	if err != nil {
		return err
	}
	return pages.Render(c, http.StatusOK, taskpages.SentPart(task, all, project.TraceURL))
}

// openUnits sends the fold of a question's card that begins with the given unit of the aligned answers.
func (p *Pages) openUnits(c echo.Context, task db.Task, item int64, from string) error {
	unit, err := strconv.Atoi(from)
	if err != nil {
		return request.ParameterFault("units", request.Between(0, math.MaxInt32))
	}
	r, card, err := p.readCard(c, task, item)
	if err != nil {
		return err
	}
	r.View = results.Merged
	return pages.Render(c, http.StatusOK, r.Aligned(card).Fold(unit))
}

// followRetry sends the progress of a question's retry. Once the retry has ended, it sends the whole card, which
// replaces the old one.
func (p *Pages) followRetry(c echo.Context, task db.Task, item int64) error {
	r, card, err := p.readCard(c, task, item)
	if err != nil {
		return err
	}
	if card.Retry != nil {
		return pages.Render(c, http.StatusOK, results.Retrying(task, card.Number, *card.Retry))
	}
	c.Response().Header().Set("HX-Retarget", "#"+paths.ItemID(item))
	return pages.Render(c, http.StatusOK, results.CardPart(r, card))
}

// showCard sends the card of one question of the report.
func (p *Pages) showCard(c echo.Context, task db.Task, item int64) error {
	r, card, err := p.readCard(c, task, item)
	if err != nil {
		return err
	}
	return pages.Render(c, http.StatusOK, results.CardPart(r, card))
}

func (p *Pages) readCard(c echo.Context, task db.Task, item int64) (r results.Report, card results.Card, err error) {
	r.Task = task
	reviews, err := p.readReport(c, &r)
	if err != nil {
		return r, card, err
	}
	cards, err := p.reader.Cards(c.Request().Context(), task, []int64{item}, reviews, results.Shown(task.RunsOfItem()))
	if err != nil {
		return r, card, err
	}
	if len(cards) == 0 {
		return r, card, request.NewFault(request.CodeQuestionNotFound)
	}
	r.Seal(cards)
	r.Settle(cards)
	return r, cards[0], nil
}

// placeRun adds to a run where it belongs among the answers to its question, and which parts of it the reader may see.
func (p *Pages) placeRun(c echo.Context, view *results.Run) (err error) {
	ctx, task := c.Request().Context(), view.Task
	var reviews reading.Reviews
	if task.IsBlindReview {
		if reviews, err = p.reader.Reviews(ctx, task.ID); err != nil {
			return err
		}
	}
	// Differences are marked only in texts that are not longer than those in the report.
	cards, err := p.reader.Cards(ctx, task, []int64{view.ItemID}, reviews, results.Shown(task.RunsOfItem()))
	if err != nil {
		return err
	}
	if len(cards) > 0 {
		view.Among(cards[0])
		view.IsSealed = view.Card.Hides(task, view.WholeRun.Run, reviewer(c))
	}
	if view.ShownAs == results.Marked && len(view.Pieces) == 0 {
		view.ShownAs = results.Raw
	}
	return nil
}

// readSurroundings adds to a run the earlier turns of its conversation, and the template of links to its trace.
func (p *Pages) readSurroundings(ctx context.Context, view *results.Run) error {
	if view.Turn != nil {
		turn, _, err := engine.NewConversations(p.Store).HistoryOf(ctx, view.WholeRun.Run, view.Task.ID,
			protocol.MaxRendered)
		if err != nil {
			return err
		}
		view.History = turn.History
	}
	project, err := p.people.Project(ctx, view.Task.ProjectID)
	view.TraceURL = project.TraceURL
	return err
}

// showRun shows the whole text of one run, which may belong to any launch.
func (p *Pages) showRun(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	id, err := request.RunID(c.Param("runId"))
	if err != nil {
		return err
	}
	run, err := p.report.Run(c.Request().Context(), task.ID, id, results.MaxShown)
	if err != nil {
		return err
	}
	title := pages.Locale(c).Text("run.title", "Number", run.Number, "Run", run.RunIndex)
	frame := pages.Frame(c, p.Version, title, ui.SectionTasks, pages.TaskCrumbs(c, task, ui.Crumb{Text: title})...)
	frame.Styles = []string{"report.css"}
	view := results.NewRun(task, run, c.QueryParam("text"))
	if view.ShownAs == "" {
		view.ShownAs = results.Raw
	} else if !slices.Contains(results.RunTexts, view.ShownAs) {
		return request.ParameterFault("text", request.OneOf(results.RunTexts...))
	}
	if err := p.placeRun(c, &view); err != nil {
		return err
	}
	sent, err := p.Tasks.Input(c.Request().Context(), task, run)
	if errors.Is(err, db.ErrAsksNobody) {
		sent.Body, err = json.RawMessage("null"), nil // nothing was sent
	}
	if err != nil {
		return err
	}
	if view.IsSealed {
		view.Evaluations = nil
	} else if view.Said, err = engine.NewEvaluations(p.Store).Of(c.Request().Context(), run.ID); err != nil {
		return err
	}
	if view.Repeats, err = p.history.Repeats(c.Request().Context(), run.ItemID, run.Variant); err != nil {
		return err
	}
	if err := p.readSurroundings(c.Request().Context(), &view); err != nil {
		return err
	}
	view.Protocol, view.URL, view.OmitsPayload = sent.Protocol, sent.URL, sent.OmitsPayload
	var body bytes.Buffer
	if err := json.Indent(&body, sent.Body, "", "  "); err != nil {
		return err
	}
	view.Body = body.String()
	return pages.Render(c, http.StatusOK, results.Page(frame, view))
}
