package results

import (
	"slices"

	"wending/db"
	"wending/db/report"
	"wending/db/review"
	"wending/views/text"
)

// DrawnRun returns the run of a question that is in the report's random sample.
func (r Report) DrawnRun(itemID int64) (run review.SampledRun, isDrawn bool) {
	if r.Drawn == nil {
		return run, false
	}
	at := slices.IndexFunc(r.Drawn.Runs, func(one review.SampledRun) bool { return one.ItemID == itemID })
	if at < 0 {
		return run, false
	}
	return r.Drawn.Runs[at], true
}

// Waits reports whether a question or, in a sample, its drawn run waits for the reader's verdict; while the reader's
// name is unknown, any reviewer's verdict counts.
func (r Report) Waits(item report.Summary) bool {
	if run, isDrawn := r.DrawnRun(item.ID); isDrawn {
		return !run.IsJudgedBy(r.Reviewer)
	}
	if r.Reviewer == "" {
		return len(r.Reviews[item.QuestionID]) == 0
	}
	return r.IsTurnOf(item, r.Reviewer)
}

// Seal hides the verdicts of evaluators and of other people on what the reader has not judged, as far as the task's
// review settings require it.
func (r Report) Seal(cards []Card) {
	for n := range cards {
		card := &cards[n]
		for at := range card.Runs {
			if run := &card.Runs[at]; card.Hides(r.Task, *run, r.Reviewer) {
				run.Evaluations, run.Passed, card.IsSealed = nil, nil, true
			}
		}
		own := review.Own(r.Reviewer, card.Reviews, card.AnswerReviews)
		card.Reviews, card.AnswerReviews = card.seen(r, card.Reviews, own), card.seen(r, card.AnswerReviews, own)
	}
}

// seen returns the verdicts that the reader may see; own are the reader's own verdicts on the question.
func (c *Card) seen(r Report, verdicts, own []review.Review) (seen []review.Review) {
	for _, one := range verdicts {
		if review.Sees(r.Task, one, r.Reviewer, own) {
			seen = append(seen, one)
		}
	}
	c.HidesReviews = c.HidesReviews || len(seen) < len(verdicts)
	return seen
}

// SealedText explains what is hidden until the reader has judged a question; empty if nothing is.
func (c Card) SealedText(locale text.Locale) string {
	switch {
	case c.IsSealed && c.HidesReviews:
		return locale.Text("review.sealed.both")
	case c.IsSealed:
		return locale.Text("review.sealed")
	case c.HidesReviews:
		return locale.Text("review.sealed.people")
	}
	return ""
}

// Hides reports whether evaluators' verdicts on a run are to be hidden from a reviewer: the task is reviewed blindly,
// and the reviewer has judged neither the run nor, for its variant, the question as a whole.
func (c Card) Hides(task db.Task, run db.Run, reviewer string) bool {
	if !task.IsBlindReview || len(run.Evaluations) == 0 {
		return false
	}
	judges := func(one review.Review) bool {
		return reviewer != "" && one.Reviewer == reviewer && one.Variant == run.Variant && !one.IsOutdated &&
			(one.RunIndex == nil || *one.RunIndex == run.RunIndex)
	}
	return !slices.ContainsFunc(c.Reviews, judges) && !slices.ContainsFunc(c.AnswerReviews, judges)
}

// Tallies returns the tallies of all reviewers, sorted by name.
func (r Report) Tallies() []review.Tally { return review.Tallies(r.Reviews, r.Turns) }

// CountOpinion counts the questions with the given opinion, one of ReviewFilters.
func (r Report) CountOpinion(opinion string) int {
	return len(r.Shown(Query{Review: opinion}))
}

// SignedCounts returns a text with the verdicts with which a report was signed off, and how many questions were open.
func SignedCounts(locale text.Locale, signed review.SignOff) string {
	counts := locale.Text("signoff.counts", "Passed", signed.Passed, "Failed", signed.Failed, "Unsure", signed.Unsure)
	if signed.Open != nil && *signed.Open > 0 {
		counts += " · " + locale.Text("signoff.counts.open", "Count", *signed.Open)
	}
	return counts
}
