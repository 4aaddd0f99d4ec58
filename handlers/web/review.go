package web

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/judging"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/ui"
)

// reviewedTask returns the task in the path, or a fault if it has no results yet.
func (p *Pages) reviewedTask(c echo.Context) (db.Task, error) {
	task, err := p.task(c)
	if err == nil && !task.HasResults {
		err = request.NewFault(request.CodeTaskNotFinished)
	}
	return task, err
}

// nextReview redirects to the next question that waits for the reader's verdict: the first in the queue or, after a
// question that was judged or skipped, the next one. If none is left, it redirects to the summary of the review.
func (p *Pages) nextReview(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	if isAsked, err := pages.OpenView(c, p.people, people.QuestionViews); isAsked {
		return err
	}
	r := results.Report{Task: task}
	if r.Query, err = queryOf(c, task); err != nil {
		return err
	}
	if _, err := p.readReport(c, &r); err != nil {
		return err
	}
	queue := judging.Queue(r)
	behind := 0
	if after, err := strconv.Atoi(c.QueryParam("after")); err == nil {
		behind = 1 + slices.IndexFunc(queue, func(item report.Summary) bool { return item.Number == after })
	}
	claims, err := p.reviews.Claims(c.Request().Context(), task.ID, r.Reviewer)
	if err != nil {
		return err
	}
	var free, taken []report.Summary
	for n := range queue {
		item := queue[(behind+n)%len(queue)]
		switch {
		case !r.Waits(item):
		case r.Drawn == nil && review.IsTaken(r.Reviews[item.QuestionID], claims[item.ID], task.ReviewersPerItem):
			taken = append(taken, item)
		default:
			free = append(free, item)
		}
	}
	if waiting := slices.Concat(free, taken); len(waiting) > 0 {
		return c.Redirect(http.StatusSeeOther,
			pages.KeepNotice(c, paths.WithQuery(paths.ReviewOf(task.ID, waiting[0].Number), r.Values())))
	}
	end := pages.KeepNotice(c, paths.Review(task.ID))
	if r.Drawn != nil {
		end += "#samples"
	}
	return c.Redirect(http.StatusSeeOther, end)
}

// reviewQuestion shows one question on a page of its own, for the reader to judge.
func (p *Pages) reviewQuestion(c echo.Context) error {
	ctx := c.Request().Context()
	task, item, number, err := p.question(c)
	if err != nil {
		return err
	}
	if !task.HasResults {
		return request.NewFault(request.CodeTaskNotFinished)
	}
	if isAsked, err := pages.OpenView(c, p.people, people.QuestionViews); isAsked {
		return err
	}
	j := judging.Judging{Report: results.Report{Task: task, IsJudging: true}}
	if j.Query, err = queryOf(c, task); err != nil {
		return err
	}
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	reviews, err := p.readReport(c, &j.Report)
	if err != nil {
		return err
	}
	if _, isDrawn := j.DrawnRun(item.ID); j.Drawn != nil && !isDrawn {
		return request.NewFault(request.CodeQuestionNotFound)
	}
	cards, err := p.reader.Cards(ctx, task, []int64{item.ID}, reviews, results.Shown(task.RunsOfItem()))
	if err != nil {
		return err
	}
	if len(cards) == 0 {
		return request.NewFault(request.CodeQuestionNotFound)
	}
	j.Seal(cards)
	j.Card = cards[0]
	if j.Views, err = p.viewsOf(c, paths.NextReview(task.ID), j.Query); err != nil {
		return err
	}
	switch {
	case j.Drawn != nil: // a single answer
		j.View, j.IsAligned, j.ShownAs = results.Columns, false, cmp.Or(j.ShownAs, results.Formatted)
	case task.TotalVariants == 1:
		j.View = cmp.Or(j.View, results.Merged) // also for short answers, because differences come first
	}
	j.Settle(cards)
	if err := p.claim(ctx, &j); err != nil {
		return err
	}
	if !j.Narrows() {
		same, err := p.same(c, j.Report)
		if err != nil {
			return err
		}
		j.Passable = len(same.Passable)
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("review.mode.title", "Number", number), ui.SectionTasks)
	frame.Width, frame.Styles = "wide judging-page", []string{"report.css", "gallery.css", "judging.css"}
	frame.Scripts = []string{"review.js", "judging.js", "report.js"}
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		return pages.Render(c, http.StatusOK, judging.Page(frame, j))
	}, leave)
}

// claim records that the reader is judging the question of a page, unless the reader has judged it already. It also
// adds to the page who else is judging the question, the reasons that a verdict may have, and the rubric.
func (p *Pages) claim(ctx context.Context, j *judging.Judging) (err error) {
	if j.Reasons, err = p.reviews.ReasonsOf(ctx, j.Task.ID); err != nil {
		return err
	}
	if j.Rubric, err = p.reviews.RubricOf(ctx, j.Task.ID); err != nil {
		return err
	}
	claims, err := p.reviews.Claims(ctx, j.Task.ID, j.Reviewer)
	if err != nil {
		return err
	}
	j.ClaimedBy = claims[j.Card.Item.ID]
	isJudged := len(review.Own(j.Reviewer, j.Card.Reviews)) > 0
	if j.Reviewer == "" || isJudged || !request.From(ctx).Role.Allows(people.Reviewer) {
		return nil
	}
	return p.reviews.Claim(ctx, j.Card.Item.ID, j.Reviewer)
}

// same returns the questions whose answers all have the same content.
func (p *Pages) same(c echo.Context, r results.Report) (judging.Same, error) {
	hasFiles, err := p.assets.Items(c.Request().Context(), r.Task.ID)
	return judging.SameOf(r, hasFiles), err
}

// listSame lists the questions whose answers all have the same content, so that they can be passed together.
func (p *Pages) listSame(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	return p.renderSame(c, task, judging.SameForm{Reviewer: reviewer(c)}, http.StatusOK)
}

func (p *Pages) renderSame(c echo.Context, task db.Task, typed judging.SameForm, status int) error {
	ctx := c.Request().Context()
	r := results.Report{Task: task}
	if _, err := p.readReport(c, &r); err != nil {
		return err
	}
	var err error
	if typed.Same, err = p.same(c, r); err != nil {
		return err
	}
	if typed.Batches, err = p.reviews.Batches(ctx, task.ID, false); err != nil {
		return err
	}
	ids := make([]int64, len(typed.Passable))
	for n, item := range typed.Passable {
		ids[n] = item.ID
	}
	items, err := p.reader.ItemsOf(ctx, ids)
	if err != nil {
		return err
	}
	typed.Questions = make(map[int64]string, len(items))
	for id, item := range items {
		typed.Questions[id] = item.Question
	}
	title := pages.Locale(c).Text("review.same.title")
	frame := pages.Frame(c, p.Version, title, ui.SectionTasks)
	frame.Styles, frame.Scripts = []string{"report.css", "judging.css"}, []string{"review.js"}
	return pages.Render(c, status, judging.SamePage(frame, r, typed))
}

// passSame passes the ticked questions, except those that no longer qualify.
func (p *Pages) passSame(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	kept := map[int]bool{}
	for _, one := range submitted.List("numbers") {
		if number, err := strconv.Atoi(one); err == nil {
			kept[number] = true
		}
	}
	name, err := form.ReviewerName(ctx, submitted.Values["reviewer"])
	if err != nil {
		typed := judging.SameForm{Reviewer: submitted.Values["reviewer"], Kept: kept,
			Problem: request.FaultOf(err).Message(pages.Locale(c))}
		return p.renderSame(c, task, typed, http.StatusUnprocessableEntity)
	}
	r := results.Report{Task: task}
	if _, err := p.readReport(c, &r); err != nil {
		return err
	}
	r.Reviewer = name
	same, err := p.same(c, r)
	if err != nil {
		return err
	}
	var items []int64
	for _, item := range same.Passable {
		if kept[item.Number] {
			items = append(items, item.ID)
		}
	}
	if _, err := p.reviews.PassAll(ctx, task.ID, name, items); err != nil {
		return err
	}
	return pages.Done(c, paths.ReviewSame(task.ID), "reviewed")
}

// undoSame withdraws a batch of verdicts that passSame stored, as far as they are still current.
func (p *Pages) undoSame(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	name, err := form.ReviewerName(c.Request().Context(), submitted.Values["reviewer"])
	if err != nil {
		return err
	}
	batch, err := uuid.Parse(submitted.Value("batch"))
	if err != nil {
		return request.NewFault(request.CodeNotFound)
	}
	if _, err := p.reviews.WithdrawBatch(c.Request().Context(), task.ID, batch, name); err != nil {
		return err
	}
	return pages.Done(c, paths.ReviewSame(task.ID), "withdrawn")
}

// listVersions lists all versions of all verdicts on a question.
func (p *Pages) listVersions(c echo.Context) error {
	task, item, _, err := p.question(c)
	if err != nil {
		return err
	}
	versions, err := p.reviews.History(c.Request().Context(), item.ID)
	if err != nil {
		return err
	}
	versions = review.Visible(asSeen(c.Request().Context(), task), versions, reviewer(c))
	return pages.Render(c, http.StatusOK, judging.History(versions))
}

// showReview shows the progress of a task's review. An address from an older version of the product, with the parameter
// "after", is redirected to the next question.
func (p *Pages) showReview(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	if after := c.QueryParam("after"); after != "" {
		return c.Redirect(http.StatusMovedPermanently,
			paths.WithQuery(paths.NextReview(task.ID), url.Values{"after": {after}}))
	}
	return p.renderSignOff(c, task, judging.SignOffForm{Reviewer: reviewer(c)}, http.StatusOK)
}

func (p *Pages) renderSignOff(c echo.Context, task db.Task, typed judging.SignOffForm, status int) error {
	r := results.Report{Task: task}
	if _, err := p.readReport(c, &r); err != nil {
		return err
	}
	var err error
	if typed.Samples.Drawn, err = p.reviews.Samples(c.Request().Context(), task.ID); err != nil {
		return err
	}
	typed.Samples.Reviewer = r.Reviewer
	signed, err := p.reviews.SignOffs(c.Request().Context(), task.ID)
	if err != nil {
		return err
	}
	rubric, err := p.reviews.RubricOf(c.Request().Context(), task.ID)
	if err != nil {
		return err
	}
	typed.Dimensions = rubric.Dimensions
	l := pages.Locale(c)
	frame := pages.Frame(c, p.Version, l.Text("task.tab.of", "Tab", l.Text("task.tab.review"), "Name", task.Name),
		ui.SectionTasks)
	frame.Here = paths.Review(task.ID)
	frame.Styles, frame.Scripts = []string{"report.css", "gallery.css"}, []string{"review.js"}
	return pages.Render(c, status, judging.SignOffPage(frame, r, signed, typed))
}

// signOff signs off a report. If that is refused, the page shows the reason and the typed values.
func (p *Pages) signOff(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	typed := judging.SignOffForm{Reviewer: submitted.Values["reviewer"], Note: submitted.Values["note"]}
	name, err := form.ReviewerName(c.Request().Context(), typed.Reviewer)
	note := ""
	if err == nil {
		note, err = form.Note(typed.Note)
	}
	if err != nil {
		typed.Problem = request.FaultOf(err).Message(pages.Locale(c))
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
	return pages.Done(c, paths.Review(task.ID), "signed")
}

// assign assigns a task's questions to the reviewers in a form, which contains one name per line. If that is refused,
// the page shows the reason and the typed values.
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
		err = request.ParameterFault("overlap", request.Between(0, 100))
	}
	if err != nil {
		names := submitted.Values["reviewers"]
		kept := judging.SignOffForm{Reviewer: reviewer(c), Names: &names,
			NamesProblem: request.FaultOf(err).Message(pages.Locale(c))}
		return p.renderSignOff(c, task, kept, http.StatusUnprocessableEntity)
	}
	only, err := p.questionsToAssign(c, task, submitted.Values["scope"])
	if err != nil {
		return err
	}
	err = p.reviews.Assign(c.Request().Context(), task.ID, only, func(questions int) [][]string {
		return review.SplitQuestions(questions, names, submitted.Values["order"] == "random", float64(overlap)/100)
	})
	if err != nil {
		return err
	}
	return pages.Done(c, paths.Review(task.ID), "assigned")
}

// questionsToAssign returns the ids of the questions that have the given opinion. If opinion is empty, it returns nil,
// which means all questions of the task.
func (p *Pages) questionsToAssign(c echo.Context, task db.Task, opinion string) ([]string, error) {
	if opinion == "" {
		return nil, nil
	}
	if offered := judging.AssignableOpinions(task); !slices.Contains(offered, opinion) {
		return nil, request.ParameterFault("scope", request.OneOf(offered...))
	}
	r := results.Report{Task: task}
	if _, err := p.readReport(c, &r); err != nil {
		return nil, err
	}
	only := []string{}
	for _, item := range r.Shown(results.Query{Review: opinion}) {
		only = append(only, item.QuestionID)
	}
	return only, nil
}

// setReview stores how a task is to be reviewed, or shows the form again with its error and the typed values.
func (p *Pages) setReview(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	settings := db.ReviewSettings{IsBlindReview: submitted.Value("is_blind_review") == "true",
		HidesReviews: submitted.Value("hides_reviews") == "true"}
	if typed := submitted.Value("reviewers_per_item"); typed != "" {
		count, err := strconv.Atoi(typed)
		if err != nil || count < 1 || count > db.MaxReviewersPerItem {
			fault := request.ParameterFault("reviewers_per_item", request.Between(1, db.MaxReviewersPerItem))
			kept := judging.SignOffForm{Reviewer: reviewer(c), ReviewersPerItem: &typed,
				SettingsProblem: fault.Message(pages.Locale(c))}
			return p.renderSignOff(c, task, kept, http.StatusUnprocessableEntity)
		}
		settings.ReviewersPerItem = &count
	}
	if err := p.reviews.Set(c.Request().Context(), task.ID, settings); err != nil {
		return err
	}
	return pages.Done(c, paths.Review(task.ID), "stored")
}

// drawSample draws a random sample of a task's answers and redirects to the first of them, or shows the form again with
// its error and the typed values.
func (p *Pages) drawSample(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	typed := judging.Samples{Size: submitted.Value("size"), IsStratified: submitted.Value("is_stratified") == "true"}
	size, err := strconv.Atoi(typed.Size)
	if err != nil || size < 1 || size > review.MaxSample {
		err = request.ParameterFault("size", request.Between(1, review.MaxSample))
	}
	var drawn review.Sample
	if err == nil {
		drawn, err = p.reviews.Draw(c.Request().Context(), task.ID, size, rand.Int64(), typed.IsStratified)
	}
	if fault := request.FaultOf(err); err != nil && fault.Status() < http.StatusInternalServerError {
		typed.Problem = fault.Message(pages.Locale(c))
		return p.renderSignOff(c, task, judging.SignOffForm{Reviewer: reviewer(c), Samples: typed}, fault.Status())
	}
	if err != nil {
		return err
	}
	query := results.Query{Sample: &drawn.ID, Sort: results.DefaultSort}
	return c.Redirect(http.StatusSeeOther, paths.WithQuery(paths.NextReview(task.ID), query.Values()))
}

// showPresence tells a task's open pages how far its review is, and which verdicts other reviewers have given in the
// meantime.
func (p *Pages) showPresence(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.task(c)
	if err != nil {
		return err
	}
	if !request.IsFragment(c.Request()) {
		return c.Redirect(http.StatusSeeOther, paths.Review(task.ID))
	}
	present := judging.Present{Task: task}
	if present.Presence, err = p.reviews.Presence(ctx, task.ID, reviewer(c)); err != nil {
		return err
	}
	if typed := c.QueryParam("after"); typed != "" {
		after, err := strconv.ParseInt(typed, 10, 64)
		if err != nil || after < 0 {
			return request.ParameterFault("after", request.Between(0, math.MaxInt32))
		}
		if asSeen(ctx, task).HidesReviews {
			return pages.Render(c, http.StatusOK, judging.PresentPart(present)) // changes appear when the page is loaded again
		}
		if present.Changes, err = p.reviews.Since(ctx, task.ID, reviewer(c), after, judging.MostChanges+1); err != nil {
			return err
		}
	}
	return pages.Render(c, http.StatusOK, judging.PresentPart(present))
}
