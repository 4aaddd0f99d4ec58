package reading

import (
	"context"
	"maps"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/request"
	"wending/views/summary"
)

// Compared is a comparison of two tasks, with people's verdicts on both.
type Compared struct {
	measure.Comparison
	// OfA and OfB are people's verdicts on the first and the second task.
	OfA, OfB Reviews
}

// Compare compares two variants by their answers and by people's verdicts. Pairs of most common answers that have not
// been compared before are compared for at most the duration within; questions left over stay pending. withFacts says
// whether to read the facts as well.
func (r Reader) Compare(ctx context.Context, a, b report.Side, withFacts bool,
	within time.Duration) (c Compared, err error) {
	group, reads := errgroup.WithContext(ctx)
	group.Go(func() (err error) { c.Comparison, err = r.report.Compare(reads, a, b); return err })
	group.Go(func() (err error) { c.OfA, err = r.Reviews(reads, a.TaskID); return err })
	group.Go(func() (err error) { c.OfB, err = r.Reviews(reads, b.TaskID); return err })
	if err := group.Wait(); err != nil {
		return c, err
	}
	for n := range c.Pairs {
		pair := &c.Pairs[n]
		pair.A.Opinion = opinionOf(ReviewsOf(c.OfA.OfQuestions[pair.A.QuestionID], a.Variant))
		pair.B.Opinion = opinionOf(ReviewsOf(c.OfB.OfQuestions[pair.B.QuestionID], b.Variant))
	}
	return c, r.report.Between(ctx, a, b, c.Pairs, withFacts, within)
}

// Narrow keeps the questions whose rows in the second task's dataset have the column values in asked
// (request.ColumnValues), and tests which of these questions changed. Questions that only the first task has are
// matched by their rows in its own dataset.
func (r Reader) Narrow(ctx context.Context, a, b summary.ComparedSide, asked url.Values,
	c measure.Comparison) (measure.Comparison, error) {
	c, err := r.narrowed(ctx, a.Task, b.Task, asked, c)
	if err != nil {
		return c, err
	}
	return c, r.report.Test(ctx, a.Side(), b.Side(), c.Pairs)
}

func (r Reader) narrowed(ctx context.Context, a, b db.Task, asked url.Values,
	c measure.Comparison) (measure.Comparison, error) {
	if len(asked) == 0 {
		return c, nil
	}
	slicing, err := request.Slicing(asked, b)
	if err != nil {
		return c, err
	}
	ofB, err := r.report.Matching(ctx, b.ID, report.Filter{Slicing: slicing})
	if err != nil {
		return c, err
	}
	ofA := map[int64]bool{}
	if slicing, err := request.Slicing(asked, a); err == nil { // otherwise the first task does not have the columns
		if ofA, err = r.report.Matching(ctx, a.ID, report.Filter{Slicing: slicing}); err != nil {
			return c, err
		}
	}
	return c.Only(
		func(q measure.ComparedQuestion) bool { return ofA[q.ID] },
		func(q measure.ComparedQuestion) bool { return ofB[q.ID] },
	), nil
}

// RequireValues returns a fault if, for a column in asked, no question of the task has any of the values that asked
// lists.
func (r Reader) RequireValues(ctx context.Context, task db.Task, asked url.Values) error {
	for name, values := range request.ColumnValues(asked) {
		slicing, err := request.Slicing(url.Values{name: values}, task)
		if err != nil {
			return err
		}
		having, err := r.report.Matching(ctx, task.ID, report.Filter{Slicing: slicing})
		if err != nil {
			return err
		}
		if len(having) == 0 {
			return request.ParameterFault(name, request.Existing())
		}
	}
	return nil
}

// ReviewsOf returns those of the reviews that are about a variant.
func ReviewsOf(reviews []review.Review, variant int) (of []review.Review) {
	for _, one := range reviews {
		if one.Variant == variant {
			of = append(of, one)
		}
	}
	return of
}

// opinionOf returns the verdict on a question that all reviewers share, or measure.OpinionDivided; empty if there is
// none. It ignores verdicts on answers that have been replaced.
func opinionOf(verdicts []review.Review) (opinion string) {
	for _, one := range verdicts {
		switch {
		case one.IsOutdated:
		case opinion == "":
			opinion = string(one.Verdict)
		case opinion != string(one.Verdict):
			return measure.OpinionDivided
		}
	}
	return opinion
}

// Carriable holds the verdicts in the first task that can be carried over to the second.
type Carriable struct {
	Pairs []measure.Pair
	// Judged, Changed, Failed, Standard, Files and Replaced are the numbers of questions judged in the first task that are
	// left out, each counted under the first reason that applies.
	Judged, Changed, Failed, Standard, Files, Replaced int
}

// Carriable finds the questions judged in the first task whose verdicts can be carried over. Such a question is not
// judged in the second task, its answers have the same content and no files, its standard answer is the same, and no
// run has failed.
func (r Reader) Carriable(ctx context.Context, a, b report.Side, c Compared) (found Carriable, err error) {
	var same []measure.Pair
	for _, pair := range c.Pairs {
		if len(ReviewsOf(c.OfA.OfQuestions[pair.A.QuestionID], a.Variant)) == 0 {
			continue
		}
		isJudged := len(ReviewsOf(c.OfB.OfQuestions[pair.B.QuestionID], b.Variant)) > 0
		if count := found.against(pair, isJudged); count != nil {
			*count++
		} else {
			same = append(same, pair)
		}
	}
	if len(same) == 0 {
		return found, nil
	}
	areEqual, err := r.report.SameAnswers(ctx, a, b, same)
	if err != nil {
		return found, err
	}
	haveFiles := map[int64]bool{}
	for _, task := range []report.Side{a, b} {
		items, err := r.assets.Items(ctx, task.TaskID)
		if err != nil {
			return found, err
		}
		maps.Copy(haveFiles, items)
	}
	for _, pair := range same {
		switch {
		case !areEqual[pair.A.ID] && (!pair.A.Level.IsStable() || !pair.B.Level.IsStable()):
			found.Changed++
		case haveFiles[pair.A.ID] || haveFiles[pair.B.ID]:
			found.Files++
		default:
			found.Pairs = append(found.Pairs, pair)
		}
	}
	return found, nil
}

// against returns the counter for the first reason not to carry over the verdicts on a question; nil if there is none.
// It checks only reasons that are known without reading the answers.
func (c *Carriable) against(pair measure.Pair, isJudged bool) *int {
	switch {
	case isJudged:
		return &c.Judged
	case pair.A.Opinion == "":
		return &c.Replaced
	case pair.A.Text != pair.B.Text, pair.Between == nil, !pair.Between.Level.IsStable() &&
		pair.Between.Level != measure.Empty:
		return &c.Changed
	case *pair.A.SuccessRate < 1, *pair.B.SuccessRate < 1:
		return &c.Failed
	case pair.A.Standard != pair.B.Standard:
		return &c.Standard
	}
	return nil
}
