package results

import (
	"slices"
	"strconv"
	"strings"

	"wending/db"
	"wending/db/review"
	"wending/views/text"
	"wending/views/ui"
)

// besidePeople returns the filters for the four combinations of an evaluator's verdict and people's (pass or fail), in
// the order of the cells of the agreement table.
func besidePeople(evaluator db.Evaluator) (filters []string) {
	for _, judge := range []bool{true, false} {
		for _, person := range []bool{true, false} {
			filters = append(filters, ui.FilterBesidePeople(evaluator.Number, judge, person))
		}
	}
	return filters
}

// IsBesidePeople reports whether the query keeps answers by the verdicts of an evaluator and of people.
func (q Query) IsBesidePeople() bool { return strings.HasPrefix(q.Filter, ui.FilterPeople) }

// Compare groups the answers that both an evaluator and people have judged. Its keys are the filter that selects an
// answer, then the item's id.
func Compare(judged []review.JudgedRun) map[string]map[int64][]review.JudgedRun {
	compared := map[string]map[int64][]review.JudgedRun{}
	for _, one := range judged {
		filter := ui.FilterBesidePeople(one.Evaluator, one.Judge, one.Person)
		if compared[filter] == nil {
			compared[filter] = map[int64][]review.JudgedRun{}
		}
		compared[filter][one.ItemID] = append(compared[filter][one.ItemID], one)
	}
	return compared
}

// keeps reports whether a report shows a run of a question. A filter by people's verdicts on answers keeps single
// answers; all other filters keep whole questions.
func (r Report) keeps(item int64, run db.Run) bool {
	return !r.IsBesidePeople() || slices.ContainsFunc(r.Compared[r.Filter][item], func(one review.JudgedRun) bool {
		return one.Variant == run.Variant && one.RunIndex == run.RunIndex
	})
}

// kept returns the runs of a question that the report shows, with their letters.
func (r Report) kept(item int64, runs []db.Run, letters []string) (shown []db.Run, own []string) {
	for n, run := range runs {
		if r.keeps(item, run) {
			shown, own = append(shown, run), append(own, letters[n])
		}
	}
	return shown, own
}

// answersKept counts the answers that the query selects, if it selects individual answers.
func (r Report) answersKept() (count int) {
	for _, item := range r.Shown(r.Query) {
		count += len(r.Compared[r.Filter][item.ID])
	}
	return count
}

// peopleName returns the name of a filter by an evaluator's and people's verdicts.
func (r Report) peopleName(locale text.Locale, filter string) string {
	for _, evaluator := range r.Task.Evaluators {
		if key, isOf := strings.CutPrefix(filter, ui.FilterPeople+strconv.Itoa(evaluator.Number)+"-"); isOf {
			return locale.Text("results.filter.people."+key, "Name", evaluator.Name)
		}
	}
	return filter
}
