package review

import (
	"slices"

	"wending/db"
)

// State is the progress of a question's review in a task that requires a number of reviewers for each question.
type State string

// A question has no verdict, needs verdicts from more people, or is complete.
const (
	Todo   State = "open"
	Others State = "others"
	Done   State = "done"
)

// StateOf returns the state of a question with the given verdicts; needed is how many people must judge the question.
func StateOf(verdicts []Review, needed int) State {
	var reviewers []string
	for _, one := range verdicts {
		if !slices.Contains(reviewers, one.Reviewer) {
			reviewers = append(reviewers, one.Reviewer)
		}
	}
	switch {
	case len(reviewers) >= needed:
		return Done
	case len(reviewers) > 0:
		return Others
	}
	return Todo
}

// covers reports whether the verdict covers the place of another one: the places are the same answer, or the verdict
// is on the question as a whole. In a task with one run of each question, the answer and the question are the same
// place.
func (r Review) covers(task db.Task, other Place) bool {
	return r.Variant == other.Variant && (r.RunIndex == nil || task.RunsPerItem == 1 ||
		other.RunIndex != nil && *r.RunIndex == *other.RunIndex)
}

// Sees reports whether a reviewer may see a verdict of a task. Other people's verdicts may be hidden until the
// reviewer has judged the same place; own holds the reviewer's current verdicts on the question.
func Sees(task db.Task, one Review, reviewer string, own []Review) bool {
	return !task.HidesReviews || one.Reviewer == reviewer && reviewer != "" ||
		slices.ContainsFunc(own, func(mine Review) bool { return mine.covers(task, one.Place) })
}

// Own returns the verdicts of a reviewer on the present answers; none if the name is empty.
func Own(reviewer string, lists ...[]Review) (own []Review) {
	for _, list := range lists {
		for _, one := range list {
			if reviewer != "" && one.Reviewer == reviewer && !one.IsOutdated {
				own = append(own, one)
			}
		}
	}
	return own
}

// Visible returns the versions of verdicts on a question that a reviewer may see, newest first.
func Visible(task db.Task, versions []Version, reviewer string) (seen []Version) {
	type judged struct{ variant, run int }
	var current []Review
	decided := map[judged]bool{}
	for _, one := range versions {
		if one.Reviewer != reviewer {
			continue
		}
		place := judged{variant: one.Variant}
		if one.RunIndex != nil {
			place.run = *one.RunIndex
		}
		if !decided[place] && !one.IsWithdrawn {
			current = append(current, one.Review)
		}
		decided[place] = true
	}
	own := Own(reviewer, current)
	for _, one := range versions {
		if Sees(task, one.Review, reviewer, own) {
			seen = append(seen, one)
		}
	}
	return seen
}
