package tasks

import (
	"context"
	"fmt"
	"slices"

	"wending/db"
	"wending/db/meaning"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/review"
)

// Answers are the answers of a variant to a question, for people to group.
type Answers struct {
	// Runs are the indexes (run_index) of the runs that have an answer. Contents has a number for each of them: runs
	// whose answers differ at most in format have the same number, and are always in one group.
	Runs, Contents []int
	keys           [][]byte
}

// ReadAnswers returns the answers of a variant to a question.
func (s *Service) ReadAnswers(ctx context.Context, itemID int64, variant int) (a Answers, err error) {
	texts, key := map[string]string{}, map[int][]byte{}
	err = report.New(s.Store).Assessor().EachAnsweredRun(ctx, []int64{itemID}, measure.MaxCompared+1,
		func(run report.AnsweredRun) error {
			if run.Text != nil {
				texts[string(run.AnswerKey)] = *run.Text
			}
			if run.Variant == variant && run.AnswerKey != nil {
				a.Runs, key[run.RunIndex] = append(a.Runs, run.RunIndex), run.AnswerKey
			}
			return ctx.Err()
		})
	if err != nil {
		return a, err
	}
	distinct, place := []string{}, map[string]int{}
	for _, run := range a.Runs {
		if _, has := place[string(key[run])]; !has {
			place[string(key[run])], distinct = len(distinct), append(distinct, texts[string(key[run])])
		}
		a.keys = append(a.keys, key[run])
	}
	contents, _ := measure.Contents(distinct)
	for _, key := range a.keys {
		a.Contents = append(a.Contents, contents[place[string(key)]])
	}
	return a, nil
}

// RegroupProblem is why a person's grouping of answers is refused.
type RegroupProblem string

// The reasons why a run does not fit.
const (
	RunUnknown  RegroupProblem = "unknown"  // it has no answer
	RunMissing  RegroupProblem = "missing"  // it is in no group
	RunRepeated RegroupProblem = "repeated" // it is in several groups
	RunApart    RegroupProblem = "apart"    // its answer has the same content as one in another group
)

// RegroupError means that a person's grouping does not fit the answers.
type RegroupError struct {
	Problem RegroupProblem
	// Run is the run_index of the run that does not fit; Other is the one with the same content in another group.
	Run, Other int
}

func (e *RegroupError) Error() string { return fmt.Sprintf("run %d is %s", e.Run, e.Problem) }

// Regrouping is a person's decision about which of a variant's answers to a question say the same.
type Regrouping struct {
	ItemID  int64
	Variant int
	// Groups are the groups, each a list of run indexes; every run that has an answer is in one of them.
	Groups   [][]int
	Reviewer string
	// Version is the version of the grouping that the person has seen; 0 if nobody had grouped the answers.
	Version int
}

// ErrNotGrouped means that a task has no model that groups its answers by meaning.
var ErrNotGrouped = fmt.Errorf("the task has no model that groups answers: %w", db.ErrConflict)

// Regroup stores a person's grouping, and returns its version. It returns a RegroupError if the grouping does not fit
// the answers, and a review.GroupingConflictError if it has changed since the person read it.
func (s *Service) Regroup(ctx context.Context, task db.Task, said Regrouping) (version int, err error) {
	if task.Grouper() == nil {
		return 0, ErrNotGrouped
	}
	if said.Variant < 1 || said.Variant > task.TotalVariants {
		return 0, &db.NotFoundError{Kind: db.KindVariant}
	}
	answers, err := s.ReadAnswers(ctx, said.ItemID, said.Variant)
	if err != nil {
		return 0, err
	}
	correction, err := answers.correction(said.Groups)
	if err != nil {
		return 0, err
	}
	correction.Variant, correction.Version, correction.Reviewer = said.Variant, said.Version, said.Reviewer
	return review.New(s.Store).Group(ctx, task.ID, said.ItemID, correction)
}

// correction returns groups in the form that the store expects.
func (a Answers) correction(groups [][]int) (of meaning.Correction, err error) {
	groupOf := map[int]int{}
	for n, runs := range groups {
		for _, run := range runs {
			if _, isRepeated := groupOf[run]; isRepeated {
				return of, &RegroupError{Problem: RunRepeated, Run: run}
			}
			groupOf[run] = n
		}
	}
	first, known := map[int]int{}, map[string]bool{} // the first run with each content
	for n, run := range a.Runs {
		group, has := groupOf[run]
		if !has {
			return of, &RegroupError{Problem: RunMissing, Run: run}
		}
		delete(groupOf, run)
		content := a.Contents[n]
		if _, has := first[content]; !has {
			first[content] = n
		}
		if other := a.Runs[first[content]]; !slices.Contains(groups[group], other) {
			return of, &RegroupError{RunApart, run, other}
		}
		if key := a.keys[n]; !known[string(key)] {
			known[string(key)] = true
			of.Keys, of.Groups = append(of.Keys, key), append(of.Groups, int64(group))
			of.Contents = append(of.Contents, int64(content))
		}
	}
	for run := range groupOf {
		return of, &RegroupError{Problem: RunUnknown, Run: run}
	}
	return of, nil
}
