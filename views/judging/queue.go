// Package judging has the pages on which people judge questions: one at a time by what is at stake, those alike at once, and the
// summary that is signed off.
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

// stages are the parts of the queue of a review in their order, by the levels of the questions in them.
var stages = [][]measure.Level{
	{measure.Facts}, {measure.Different}, {measure.Wording}, {measure.Unknown, measure.Empty}, {measure.Identical, measure.FormatOnly},
}

// stageSigns stand for the stages beside their names.
var stageSigns = []string{"≠", "↔", "≈", "?", "="}

// sameStage is the stage of questions whose answers have the same content.
const sameStage = 4

func stageOf(item report.Summary) int {
	if item.Level == nil {
		return slices.IndexFunc(stages, func(levels []measure.Level) bool { return levels[0] == measure.Unknown })
	}
	return slices.IndexFunc(stages, func(levels []measure.Level) bool { return slices.Contains(levels, *item.Level) })
}

// stageName names a stage as its first level is named; the last has two levels.
func stageName(locale text.Locale, stage int) string {
	if stage == sameStage {
		return locale.Text("review.stage.same")
	}
	return locale.Text("level." + string(stages[stage][0]))
}

// Queue are all questions in the order of review: by level, the one with most at stake first, and within it by risk.
func Queue(r results.Report) []report.Summary {
	queue := r.Shown(results.Query{Sort: results.DefaultSort})
	slices.SortStableFunc(queue, func(a, b report.Summary) int { return cmp.Compare(stageOf(a), stageOf(b)) })
	return queue
}

// stage is how far the review of one level is.
type stage struct {
	number, all, done int
	// first is the number of the first question that waits, or of the first one.
	first  int
	isHere bool
}

// stagesOf are those that have questions; here is the question that is shown.
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

// position says where in the queue a question is: of all, and of its level.
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
	return locale.Text("review.position", "Place", at+1, "Total", len(queue), "Level", stageName(locale, level), "At", place, "All", all)
}

// precedingNumber is the number of the question before another in the queue; 0 means that there is none.
func precedingNumber(queue []report.Summary, number int) int {
	at := slices.IndexFunc(queue, func(item report.Summary) bool { return item.Number == number })
	if at < 1 {
		return 0
	}
	return queue[at-1].Number
}

// Same are the questions whose answers have the same content, for a verdict on all of them at once.
type Same struct {
	// Passable wait for a verdict, and nothing speaks against passing them.
	Passable []report.Summary
	// Judged, Failed, Against and WithFiles are how many are left out, and why: each for the first reason that it has.
	Judged, Failed, Against, WithFiles int
}

// SameOf sorts the questions whose answers have the same content. Files of answers differ though their texts do not: hasFiles are
// the items of which an answer has some.
func SameOf(r results.Report, hasFiles map[int64]bool) (same Same) {
	for _, item := range Queue(r) {
		switch {
		case !item.IsSame:
		case !r.Waits(item):
			same.Judged++
		case item.Failures > 0 || item.Runs < r.Task.RunsOfItem():
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

// open are the questions without a verdict, in the order of review.
func open(r results.Report) []report.Summary {
	return slices.DeleteFunc(Queue(r), func(item report.Summary) bool { return len(r.Reviews[item.QuestionID]) > 0 })
}

// openByStage says which questions have no verdict, level by level: how many, and the numbers of the first.
func openByStage(locale text.Locale, r results.Report) (lines []string) {
	const named = 12
	numbers := map[int][]string{}
	for _, item := range open(r) {
		number := stageOf(item)
		numbers[number] = append(numbers[number], strconv.Itoa(item.Number))
	}
	for number := range stages {
		if all := numbers[number]; len(all) > 0 {
			list := strings.Join(all[:min(named, len(all))], locale.Text("create.missing.separator"))
			if len(all) > named {
				list += "…"
			}
			lines = append(lines, locale.Text("signoff.unfinished.level", "Level", stageName(locale, number), "Count", len(all), "Numbers", list))
		}
	}
	return lines
}
