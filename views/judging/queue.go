// Package judging renders the pages on which people judge questions: single questions in the order of their risk,
// questions with equal answers all at once, and the review page where they sign off.
package judging

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"wending/db/measure"
	"wending/db/report"
	"wending/views/results"
	"wending/views/text"
)

// stages are the parts of the review queue in order, each with the levels of its questions.
var stages = [][]measure.Level{
	{measure.Facts}, {measure.Different}, {measure.Wording}, {measure.Unknown, measure.Empty},
	{measure.Identical, measure.FormatOnly},
}

// stageSigns are the signs next to the names of stages.
var stageSigns = []string{"≠", "↔", "≈", "?", "="}

// sameStage is the stage of questions whose answers have the same content.
const sameStage = 4

func stageOf(item report.Summary) int {
	if item.Level == nil {
		return slices.IndexFunc(stages, func(levels []measure.Level) bool { return levels[0] == measure.Unknown })
	}
	return slices.IndexFunc(stages, func(levels []measure.Level) bool { return slices.Contains(levels, *item.Level) })
}

// stageName returns the name of a stage: the name of its first level or, for sameStage, a name of its own.
func stageName(locale text.Locale, stage int) string {
	if stage == sameStage {
		return locale.Text("review.stage.same")
	}
	return locale.Text("level." + string(stages[stage][0]))
}

// Queue returns the questions that the report's query selects in the order of review: by level, the level with the
// most at stake first, and within a level by risk. A random sample keeps the order in which it was drawn, so that the
// part reviewed so far is random, too.
func Queue(r results.Report) []report.Summary {
	query := r.Query
	query.Sort = results.DefaultSort
	queue := r.Shown(query)
	if r.Drawn != nil {
		places := make(map[int64]int, len(r.Drawn.Runs))
		for place, run := range r.Drawn.Runs {
			places[run.ItemID] = place
		}
		slices.SortFunc(queue, func(a, b report.Summary) int { return cmp.Compare(places[a.ID], places[b.ID]) })
		return queue
	}
	slices.SortStableFunc(queue, func(a, b report.Summary) int { return cmp.Compare(stageOf(a), stageOf(b)) })
	return queue
}

// stage is the progress of the review at one level.
type stage struct {
	number, all, done int
	// first is the number of the first waiting question or, if none is waiting, of the first question.
	first  int
	isHere bool
}

// stagesOf returns the stages that have questions. here is the number of the question being shown.
func stagesOf(r results.Report, queue []report.Summary, here int) (shown []stage) {
	isOpen := false
	for _, item := range queue {
		number := stageOf(item)
		if len(shown) == 0 || shown[len(shown)-1].number != number {
			shown, isOpen = append(shown, stage{number: number, first: item.Number}), false
		}
		s := &shown[len(shown)-1]
		s.all++
		s.isHere = s.isHere || item.Number == here
		if !r.Waits(item) {
			s.done++
		} else if !isOpen {
			s.first, isOpen = item.Number, true
		}
	}
	return shown
}

// doneBefore returns the announcement of a new stage for its first question, so that the reviewer does not continue by
// habit. It is empty if a question of the stage was judged before, or if one of the stages above still has questions
// waiting.
func doneBefore(locale text.Locale, shown []stage) string {
	here := slices.IndexFunc(shown, func(s stage) bool { return s.isHere })
	isOpen := func(s stage) bool { return s.done < s.all }
	if here < 1 || shown[here].done > 0 || slices.ContainsFunc(shown[:here], isOpen) {
		return ""
	}
	return locale.Text("review.stage.next", "Done", stageName(locale, shown[here-1].number), "All", shown[here-1].all,
		"Next", stageName(locale, shown[here].number), "Waiting", shown[here].all)
}

// position returns a question's position in the queue: among all questions, and within its level.
func position(locale text.Locale, queue []report.Summary, number int) string {
	at := slices.IndexFunc(queue, func(item report.Summary) bool { return item.Number == number })
	if at < 0 {
		return ""
	}
	level, place, all := stageOf(queue[at]), 0, 0
	for n, item := range queue {
		if stageOf(item) == level {
			all++
			if n <= at {
				place++
			}
		}
	}
	return locale.Text("review.position", "Place", at+1, "Total", len(queue), "Level", stageName(locale, level),
		"At", place, "All", all)
}

// precedingNumber returns the number of the question before another in the queue; 0 means that there is none.
func precedingNumber(queue []report.Summary, number int) int {
	at := slices.IndexFunc(queue, func(item report.Summary) bool { return item.Number == number })
	if at < 1 {
		return 0
	}
	return queue[at-1].Number
}

// Same holds the questions whose answers have the same content, so that they can be judged together.
type Same struct {
	// Passable are the questions that wait for a verdict and have no reason against passing them.
	Passable []report.Summary
	// Judged, Failed, Against and WithFiles count the questions left out for each reason; a question counts only for
	// its first reason.
	Judged, Failed, Against, WithFiles int
}

// SameOf collects the questions whose answers have the same content. Files may differ even if the texts do not:
// hasFiles are the items with files in an answer.
func SameOf(r results.Report, hasFiles map[int64]bool) (same Same) {
	for _, item := range Queue(r) {
		switch {
		case !item.IsSame:
		case !r.Waits(item):
			same.Judged++
		case item.Failures > 0 || item.Runs < item.Planned:
			same.Failed++
		case item.IsContradicted:
			same.Against++
		case hasFiles[item.ID]:
			same.WithFiles++
		default:
			same.Passable = append(same.Passable, item)
		}
	}
	return same
}

// open returns the questions without a verdict, in the order of review.
func open(r results.Report) []report.Summary {
	return slices.DeleteFunc(Queue(r), func(item report.Summary) bool { return len(r.Reviews[item.QuestionID]) > 0 })
}

// openLine is a line about the questions of a stage that have no verdict: how many there are, and the numbers of the
// first ones. filter selects these questions; it is empty if they are on several levels that no single filter covers.
type openLine struct{ count, numbers, filter string }

// openByStage returns, for each stage, a line about its questions without a verdict.
func openByStage(locale text.Locale, r results.Report) (lines []openLine) {
	const named = 12
	numbers, filters := map[int][]string{}, map[int]string{}
	for _, item := range open(r) {
		number := stageOf(item)
		level := string(measure.Unknown)
		if item.Level != nil {
			level = string(*item.Level)
		}
		switch {
		case number == sameStage:
			filters[number] = results.FilterSame
		case len(numbers[number]) == 0:
			filters[number] = level
		case filters[number] != level:
			filters[number] = ""
		}
		numbers[number] = append(numbers[number], strconv.Itoa(item.Number))
	}
	for number := range stages {
		if all := numbers[number]; len(all) > 0 {
			list := strings.Join(all[:min(named, len(all))], locale.Text("word.list"))
			if len(all) > named {
				list += "…"
			}
			lines = append(lines, openLine{
				count:   locale.Text("signoff.unfinished.level", "Level", stageName(locale, number), "Count", len(all)),
				numbers: locale.Text("signoff.unfinished.numbers", "Numbers", list), filter: filters[number],
			})
		}
	}
	return lines
}
