package tasks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
)

// assessedAtOnce is the number of questions that are assessed before their results are stored.
const assessedAtOnce = 100

// Assess stores how similar the answers to each of these questions of a task are, based on their current runs.
func Assess(ctx context.Context, results report.Assessor, task db.Task, itemIDs []int64) error {
	for len(itemIDs) > 0 {
		some := itemIDs[:min(len(itemIDs), assessedAtOnce)]
		itemIDs = itemIDs[len(some):]
		var assessed []report.Assessed
		var runs []report.AnsweredRun
		end := func() error {
			if len(runs) == 0 {
				return nil
			}
			one, err := assess(ctx, runs[0].ItemID, runs, task)
			assessed, runs = append(assessed, one), runs[:0]
			return err
		}
		err := results.EachAnsweredRun(ctx, some, measure.MaxCompared+1, func(run report.AnsweredRun) error {
			if len(runs) > 0 && runs[0].ItemID != run.ItemID {
				if err := end(); err != nil {
					return err
				}
			}
			runs = append(runs, run)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		if err := end(); err != nil {
			return err
		}
		for _, id := range some {
			if slices.ContainsFunc(assessed, func(one report.Assessed) bool { return one.ItemID == id }) {
				continue
			}
			one, err := assess(ctx, id, nil, task) // it was never asked
			if err != nil {
				return err
			}
			assessed = append(assessed, one)
		}
		store := results.Store
		if task.MeaningTarget != nil {
			store = results.StoreGrouped
		}
		if err := store(ctx, assessed); err != nil {
			return err
		}
	}
	return nil
}

// assess sums up the runs of one question, of which there may be none. If all answers are equal and there is no
// standard answer, the runs have no text, because nothing needs to be compared.
func assess(ctx context.Context, itemID int64, runs []report.AnsweredRun, task db.Task) (report.Assessed, error) {
	variants := make([][]measure.Answer, task.TotalVariants)
	for v := range variants {
		most := task.RunsPerItem
		if !task.AsksAgents() {
			most = 0 // a file may have fewer answers to this question than to others
		}
		for _, run := range runs {
			if run.Variant == v+1 {
				most = max(most, run.RunIndex)
			}
		}
		variants[v] = make([]measure.Answer, most)
		for n := range variants[v] {
			variants[v][n] = measure.Answer{IsMissing: true, IsExtra: n >= task.RunsPerItem}
		}
	}
	texts, newest, standard := map[string][]byte{}, int64(0), ""
	for _, run := range runs {
		newest, standard = max(newest, run.ID), standard+run.StandardAnswer // only the first run has it
		if run.Text != nil {
			texts[string(run.AnswerKey)] = []byte(*run.Text)
		}
	}
	for _, run := range runs {
		if run.Variant <= task.TotalVariants {
			answer := &variants[run.Variant-1][run.RunIndex-1]
			answer.Key, answer.Text, answer.IsMissing = run.AnswerKey, texts[string(run.AnswerKey)], false
		}
	}
	assessed := report.Assessed{ItemID: itemID, NewestRunID: newest, Runs: len(runs)}
	var err error
	assessed.Variants, assessed.Differences, err = measure.Assess(ctx, standard, variants)
	if task.MeaningTarget != nil {
		count := countContents(variants)
		assessed.Contents = &count
	}
	return assessed, err
}

// countContents returns the number of distinct answers; those that differ only in format count as one.
func countContents(variants [][]measure.Answer) (count int) {
	var distinct []string
	known := map[string]bool{}
	for _, answers := range variants {
		for _, answer := range answers {
			if answer.Key != nil && !known[string(answer.Key)] {
				known[string(answer.Key)], distinct = true, append(distinct, string(answer.Text))
			}
		}
	}
	if len(distinct) < 2 { // no comparison is needed, and the text was not read
		return len(distinct)
	}
	_, count = measure.Contents(distinct)
	return count
}

// AssessWhole assesses those of the given questions that have all their planned runs.
func AssessWhole(ctx context.Context, store *db.Store, task db.Task, itemIDs []int64) error {
	whole, err := report.New(store).Whole(ctx, itemIDs)
	if err != nil {
		return err
	}
	return Assess(ctx, report.New(store).Assessor(), task, whole)
}

// AssessTask assesses those questions of a task whose last assessment does not cover their current runs.
func AssessTask(ctx context.Context, store *db.Store, taskID uuid.UUID) error {
	task, err := store.Task(ctx, db.AllProjects(), taskID)
	if err != nil {
		return err
	}
	for {
		items, err := store.Unassessed(ctx, taskID, assessedAtOnce)
		if err != nil || len(items) == 0 {
			return err
		}
		if err := Assess(ctx, report.New(store).Assessor(), task, items); err != nil {
			return err
		}
	}
}

// AssessEnded assesses one task that ended before its questions were assessed, and reports whether there was one.
func AssessEnded(ctx context.Context, store *db.Store) (found bool, err error) {
	id, err := report.New(store).UnassessedTask(ctx)
	if err != nil || id == uuid.Nil {
		return false, err
	}
	if err := AssessTask(ctx, store, id); err != nil {
		return true, err
	}
	return true, store.MarkAssessed(ctx, id)
}

const (
	// comparedAtOnce is the number of questions of two tasks that are compared in one batch; comparedWithin is the time
	// after which the remaining ones are left to be compared on request.
	comparedAtOnce = 50
	comparedWithin = 5 * time.Second
)

// CompareWithEarlier compares the answers of a launch's task with the answers of the newest earlier task on the same
// dataset, and stores the result, so that pages comparing the two need not do so. It ends early once isLeaving
// returns true.
func CompareWithEarlier(ctx context.Context, store *db.Store, launchID uuid.UUID, isLeaving func() bool) error {
	results := report.New(store)
	sides, err := results.Earlier(ctx, launchID)
	if err != nil {
		return err
	}
	for _, pair := range sides {
		compared, err := results.Compare(ctx, pair[0], pair[1])
		if err != nil {
			return err
		}
		for some := range slices.Chunk(compared.Pairs, comparedAtOnce) {
			if isLeaving() {
				return nil
			}
			if err := results.Between(ctx, pair[0], pair[1], some, false, comparedWithin); err != nil {
				return err
			}
		}
	}
	return nil
}

// FinishLaunch ends a launch that has nothing left to run (db.Store.FinishLaunch), after assessing its questions.
func FinishLaunch(ctx context.Context, store *db.Store, launchID uuid.UUID) (finished bool, err error) {
	for {
		finished, err = store.FinishLaunch(ctx, launchID)
		missing := (*db.UnassessedError)(nil)
		if !errors.As(err, &missing) {
			return finished, err
		}
		if err := AssessTask(ctx, store, missing.TaskID); err != nil {
			return false, err
		}
	}
}
