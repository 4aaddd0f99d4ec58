package library

import (
	"bytes"
	"context"
	"errors"
	"time"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/report"
)

const (
	// readAtOnce is the number of questions whose answers are in memory at once.
	readAtOnce = 50
	// longestRead is the maximum number of characters of an answer that are compared.
	longestRead = 20_000
	// mostRead is the maximum number of bytes of answers that are compared at one firing; the remaining questions are
	// left out.
	mostRead = 64 << 20
	// changesKept is the maximum number of changes that are listed individually; further changes are only counted, by
	// question.
	changesKept = 20
)

// PreviousCopy returns the task of the firing before the one that created the given task; nil if there is none.
func PreviousCopy(ctx context.Context, store *db.Store, task db.Task) (*db.Task, error) {
	earlier, err := entries.NewSchedules(store).Before(ctx, task.ID, 1)
	if err != nil || len(earlier) == 0 {
		return nil, err
	}
	previous, err := store.Task(ctx, db.AllProjects(), *earlier[0].TaskID)
	if errors.Is(err, db.ErrNotFound) {
		return nil, nil
	}
	return &previous, err
}

// ChangedFacts returns the questions whose facts changed from one task of a schedule to another, for all variants:
// those whose most common answers contradict each other. It reads at most mostRead bytes of answers, and stops at the
// deadline unless that is zero.
func ChangedFacts(ctx context.Context, store *db.Store, before, now db.Task,
	deadline time.Time) (measure.FactChanges, error) {
	changed := measure.FactChanges{Since: &before.ID, Items: []measure.FactChange{}}
	results := report.New(store)
	earlier, err := results.Matrix(ctx, before)
	if err != nil {
		return changed, err
	}
	later, err := results.Matrix(ctx, now)
	if err != nil {
		return changed, err
	}
	questions, left := map[int64]bool{}, mostRead
	for n := range min(len(earlier), len(later)) {
		variant := now.Variants[n]
		pairs := measure.CompareTasks(earlier[n], later[n]).Pairs
		changed.Pairs += len(pairs)
		for len(pairs) > 0 && left > 0 && (deadline.IsZero() || time.Now().Before(deadline)) {
			some := pairs[:min(len(pairs), readAtOnce)]
			pairs = pairs[len(some):]
			found, read, err := changedOf(ctx, results, variant.Number, some)
			if err != nil {
				return changed, err
			}
			left -= read
			changed.Compared += len(some)
			for _, one := range found {
				if len(now.Variants) > 1 {
					one.fact.Variant = variant.Name
				}
				if len(changed.Items) < changesKept {
					changed.Items = append(changed.Items, one.fact)
				}
				questions[one.item] = true
			}
		}
	}
	changed.Questions = len(questions)
	return changed, nil
}

// changedQuestion is a question of the later task, with the first of its facts that changed.
type changedQuestion struct {
	item int64
	fact measure.FactChange
}

// changedOf returns those questions among the pairs whose most common answers contradict each other, and the number of
// bytes of answers that it read.
func changedOf(ctx context.Context, results report.Report, variant int,
	pairs []measure.Pair) (changed []changedQuestion, read int, err error) {
	var ids [2][]int64
	for _, pair := range pairs {
		ids[0], ids[1] = append(ids[0], pair.A.ID), append(ids[1], pair.B.ID)
	}
	var said [2]map[int64]report.CommonAnswer
	for side := range ids {
		if said[side], err = results.CommonAnswers(ctx, ids[side], variant, longestRead); err != nil {
			return nil, 0, err
		}
	}
	for _, pair := range pairs {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		a, hadOne := said[0][pair.A.ID]
		b, hasOne := said[1][pair.B.ID]
		read += len(a.Text) + len(b.Text)
		if !hadOne || !hasOne || bytes.Equal(a.Key, b.Key) {
			continue
		}
		for _, d := range facts.Compare(a.Text, b.Text) {
			if d.IsConflict {
				changed = append(changed, changedQuestion{pair.B.ID, measure.FactChange{
					Number: pair.B.Number, QuestionID: pair.B.QuestionID, Kind: d.Kind, Label: d.Label, Before: d.A.Text,
					Now: d.B.Text,
				}})
				break
			}
		}
	}
	return changed, read, nil
}
