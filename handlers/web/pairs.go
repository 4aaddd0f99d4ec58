package web

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/judging"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/ui"
)

// pairs returns the pairs of answers by the two variants in the query; by default, by the first two variants.
func (p *Pages) pairs(c echo.Context) (shown judging.Pairs, err error) {
	if shown.Task, err = p.reviewedTask(c); err != nil {
		return shown, err
	}
	a, b := cmp.Or(c.QueryParam("a"), "1"), cmp.Or(c.QueryParam("b"), "2")
	if shown.Of, err = form.Matchup(a, b, shown.Task); err != nil {
		return shown, err
	}
	shown.Reviewer = reviewer(c)
	shown.All, err = p.reviews.Pairs(c.Request().Context(), shown.Task.ID, shown.Of)
	return shown, err
}

// showPairs shows how many pairs of two variants' answers have been compared and, once all have, which variant people
// prefer.
func (p *Pages) showPairs(c echo.Context) error {
	shown, err := p.pairs(c)
	if err != nil {
		return err
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("pairs.title"), ui.SectionTasks)
	frame.Styles, frame.Scripts = []string{"report.css"}, []string{"review.js"}
	return pages.Render(c, http.StatusOK, judging.PairsPage(frame, shown))
}

// drawPairs draws the missing pairs of two variants' answers, and redirects to the first pair that waits for a verdict.
func (p *Pages) drawPairs(c echo.Context) error {
	task, err := p.reviewedTask(c)
	if err != nil {
		return err
	}
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	of, err := form.Matchup(submitted.Values["a"], submitted.Values["b"], task)
	if err != nil {
		return err
	}
	if err := p.reviews.DrawPairs(c.Request().Context(), task.ID, of); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, paths.NextPair(task.ID, of.A, of.B, 0))
}

// nextPair redirects to the next pair that waits for the reader's verdict, starting after the question in the query. If
// none is waiting, it redirects to the page with the progress.
func (p *Pages) nextPair(c echo.Context) error {
	shown, err := p.pairs(c)
	if err != nil {
		return err
	}
	all := shown.All.ToJudge()
	after, _ := strconv.Atoi(c.QueryParam("after"))
	behind := slices.IndexFunc(all, func(one review.Pair) bool { return one.Number > after })
	for n := range all {
		if one := all[(max(0, behind)+n)%len(all)]; one.By(shown.Reviewer) == nil {
			return c.Redirect(http.StatusSeeOther, paths.PairOf(shown.Task.ID, one.Number, shown.Of.A, shown.Of.B))
		}
	}
	return c.Redirect(http.StatusSeeOther, paths.PairsOf(shown.Task.ID, shown.Of.A, shown.Of.B))
}

// blindPair returns the pair of answers to the question in the path, with their texts.
func (p *Pages) blindPair(c echo.Context) (shown judging.BlindPair, err error) {
	_, item, number, err := p.question(c)
	if err != nil {
		return shown, err
	}
	if shown.Pairs, err = p.pairs(c); err != nil {
		return shown, err
	}
	at := slices.IndexFunc(shown.All, func(one review.Pair) bool { return one.Number == number })
	if at < 0 {
		return shown, request.NewFault(request.CodeQuestionNotFound)
	}
	shown.Pair, shown.Item = shown.All[at], item
	shown.Texts, err = p.reviews.PairTexts(c.Request().Context(), shown.Pair, results.Shown(1))
	return shown, err
}

// showBlindPair shows two variants' answers to a question without the variants' names.
func (p *Pages) showBlindPair(c echo.Context) error {
	shown, err := p.blindPair(c)
	if err != nil {
		return err
	}
	return p.renderBlindPair(c, shown, http.StatusOK)
}

func (p *Pages) renderBlindPair(c echo.Context, shown judging.BlindPair, status int) error {
	title := pages.Locale(c).Text("pairs.question.title", "Number", shown.Pair.Number)
	frame := pages.Frame(c, p.Version, title, ui.SectionTasks)
	frame.Width, frame.Styles = "wide judging-page", []string{"report.css", "judging.css"}
	frame.Scripts = []string{"review.js", "pairs.js"}
	return pages.Render(c, status, judging.BlindPairPage(frame, shown))
}

// judgePair stores or withdraws the reader's verdict on a pair. It redirects to the next pair or, after a withdrawal,
// to the same one. If that is refused, the page shows the reason and the current verdict.
func (p *Pages) judgePair(c echo.Context) error {
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	shown, err := p.blindPair(c)
	if err != nil {
		return err
	}
	next, err := p.storePair(c, shown, submitted)
	if err == nil {
		return c.Redirect(http.StatusSeeOther, next)
	}
	fault := request.FaultOf(err)
	if status := fault.Status(); status != http.StatusUnprocessableEntity && status != http.StatusConflict {
		return err
	}
	shown.Problem = fault.Message(pages.Locale(c))
	return p.renderBlindPair(c, shown, fault.Status())
}

// storePair stores or withdraws the submitted verdict, and returns the address of the page to show next.
func (p *Pages) storePair(c echo.Context, shown judging.BlindPair, submitted *form.Upload) (next string, err error) {
	ctx, of := c.Request().Context(), shown.Of
	version, err := strconv.Atoi(submitted.Values["version"])
	if err != nil {
		version = -1 // no page has this version, so storing is refused as a conflict
	}
	place := review.PairPlace{Of: of, QuestionID: shown.Pair.QuestionID}
	if place.Reviewer, err = form.ReviewerName(ctx, submitted.Values["reviewer"]); err != nil {
		return "", err
	}
	if submitted.Value("withdraw") == "true" {
		return paths.PairOf(shown.Task.ID, shown.Pair.Number, of.A, of.B),
			p.reviews.WithdrawPair(ctx, shown.Task.ID, place, version)
	}
	preference, err := form.Preference(review.Preference(submitted.Value("verdict")))
	if err != nil {
		return "", err
	}
	_, err = p.reviews.Compare(ctx, shown.Task.ID, place, preference.AsShown(shown.IsSwapped), version)
	return paths.NextPair(shown.Task.ID, of.A, of.B, shown.Pair.Number), err
}
