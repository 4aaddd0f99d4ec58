package web

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db/measure"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/summary"
	"wending/views/ui"
)

// carryBetween returns the two sides of a carry-over. A is the earlier task and its variant, as the parameter "from"
// identifies them; B is the task in the path and the variant with the given number, by default the first.
func (p *Pages) carryBetween(c echo.Context, from, variant string) (f summary.CarryOver, err error) {
	if f.A, err = p.comparedTask(c, from); err != nil {
		return f, err
	}
	task, err := p.reviewedTask(c)
	if err != nil {
		return f, err
	}
	number := 1
	if variant != "" {
		if number, err = strconv.Atoi(variant); err != nil || number < 1 {
			return f, request.ParameterFault("variant", request.Between(1, task.TotalVariants))
		}
	}
	if err := request.HasVariant(task, number); err != nil {
		return f, err
	}
	f.B = summary.ComparedSide{Task: task, Variant: number}
	return f, nil
}

// listCarriable shows the verdicts that can be carried over to a task from an earlier one.
func (p *Pages) listCarriable(c echo.Context) error {
	f, err := p.carryBetween(c, c.QueryParam("from"), c.QueryParam("variant"))
	if err != nil {
		return err
	}
	f.Reviewer = reviewer(c)
	return p.renderCarry(c, f, http.StatusOK)
}

// carriable stores in f the questions whose verdicts can be carried over, and how many are left out for which reason.
// It returns the comparison on which this is based.
func (p *Pages) carriable(c echo.Context, f *summary.CarryOver) (compared reading.Compared, err error) {
	ctx := c.Request().Context()
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return compared, err
	}
	defer leave()
	if compared, err = p.reader.Compare(ctx, f.A.Side(), f.B.Side(), false, carryTime); err != nil {
		return compared, err
	}
	found, err := p.reader.Carriable(ctx, f.A.Side(), f.B.Side(), compared)
	if err != nil {
		return compared, err
	}
	f.Pairs = found.Pairs
	f.IsPending = slices.ContainsFunc(compared.Pairs, func(pair measure.Pair) bool { return pair.IsPending })
	for _, one := range []summary.LeftOut{
		{Reason: "judged", Count: found.Judged}, {Reason: "changed", Count: found.Changed},
		{Reason: "failed", Count: found.Failed},
		{Reason: "standard", Count: found.Standard}, {Reason: "files", Count: found.Files},
		{Reason: "replaced", Count: found.Replaced},
	} {
		if one.Count > 0 {
			f.LeftOut = append(f.LeftOut, one)
		}
	}
	return compared, nil
}

func (p *Pages) renderCarry(c echo.Context, f summary.CarryOver, status int) error {
	ctx := c.Request().Context()
	compared, err := p.carriable(c, &f)
	if err != nil {
		return err
	}
	if f.Batches, err = p.reviews.Batches(ctx, f.B.ID, true); err != nil {
		return err
	}
	ids := make([]int64, len(f.Pairs))
	f.Verdicts = make(map[int64][]review.Review, len(f.Pairs))
	for n, pair := range f.Pairs {
		ids[n] = pair.A.ID
		verdicts := reading.ReviewsOf(compared.OfA.OfQuestions[pair.A.QuestionID], f.A.Variant)
		f.Verdicts[pair.A.ID] = slices.DeleteFunc(verdicts, func(one review.Review) bool { return one.IsOutdated })
	}
	items, err := p.reader.ItemsOf(ctx, ids)
	if err != nil {
		return err
	}
	f.Questions = make(map[int64]string, len(items))
	for id, item := range items {
		f.Questions[id] = item.Question
	}
	title := pages.Locale(c).Text("compare.carry.title")
	frame := pages.Frame(c, p.Version, title, ui.SectionTasks, pages.TaskCrumbs(c, f.B.Task, ui.Crumb{Text: title})...)
	frame.Styles, frame.Scripts = []string{"report.css", "judging.css"}, []string{"review.js"}
	return pages.Render(c, status, summary.CarryPage(frame, f))
}

// carryReviews carries over the verdicts on the ticked questions, except those that can no longer be carried over.
func (p *Pages) carryReviews(c echo.Context) error {
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	f, err := p.carryBetween(c, submitted.Values["from"], submitted.Values["variant"])
	if err != nil {
		return err
	}
	f.Reviewer, f.Kept = submitted.Values["reviewer"], map[int]bool{}
	for _, one := range submitted.List("numbers") {
		if number, err := strconv.Atoi(one); err == nil {
			f.Kept[number] = true
		}
	}
	name, err := form.ReviewerName(c.Request().Context(), f.Reviewer)
	if err != nil {
		f.Problem = request.FaultOf(err).Message(pages.Locale(c))
		return p.renderCarry(c, f, http.StatusUnprocessableEntity)
	}
	if _, err := p.carriable(c, &f); err != nil {
		return err
	}
	carried := review.Carried{TaskID: f.B.ID, Variant: f.B.Variant, From: f.A.ID, FromVariant: f.A.Variant, By: name}
	for _, pair := range f.Pairs {
		if f.Kept[pair.A.Number] {
			carried.Pairs = append(carried.Pairs, review.CarriedPair{From: pair.A.ID, To: pair.B.ID})
		}
	}
	if _, err := p.reviews.Carry(c.Request().Context(), carried); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, paths.CarryReviews(f.B.ID, f.A.Ref(), f.B.Variant)+"&done=carried")
}

// undoCarry withdraws a batch of verdicts that were carried over, as far as they are still current.
func (p *Pages) undoCarry(c echo.Context) error {
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	f, err := p.carryBetween(c, submitted.Value("from"), submitted.Value("variant"))
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
	if _, err := p.reviews.WithdrawBatch(c.Request().Context(), f.B.ID, batch, name); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, paths.CarryReviews(f.B.ID, f.A.Ref(), f.B.Variant)+"&done=withdrawn")
}
