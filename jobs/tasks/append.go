package tasks

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/people"
	"wending/jobs/dataset"
)

// ErrTooManyCalls means that a task would make more calls than MaxCalls.
var ErrTooManyCalls = errors.New("too many calls")

// Append adds the questions of a file to a task that was started; the file must have the task's variables. The active
// launch runs them; if there is none, a new launch runs them and everything else that has no run yet. A fault in the
// file is a *dataset.Error.
func (s *Service) Append(ctx context.Context, by db.Actor, task db.Task, set *dataset.Dataset) (db.Task, error) {
	if err := task.CheckAsking(); err != nil {
		return task, err
	}
	if err := set.Arrange(task.VariableNames); err != nil {
		return task, err
	}
	if calls := (task.TotalItems + len(set.Rows)) * task.RunsOfItem() * (1 + len(task.Judges)); calls > MaxCalls {
		return task, ErrTooManyCalls
	}
	if err := s.checkRows(ctx, task, set); err != nil {
		return task, err
	}
	limits := engine.AdditionLimits{Items: dataset.MaxRows, Bytes: dataset.MaxBytes}
	appended, err := s.begin(ctx, by, task, func(launch db.NewLaunch) (uuid.UUID, error) {
		err := people.NewQuotas(s.Store).Admits(ctx, task.ProjectID, func() (int, error) {
			return len(set.Rows) * task.RunsOfItem(), nil
		})
		if err != nil {
			return uuid.Nil, err
		}
		return engine.NewAdditions(s.Store).Append(ctx, task.Scope(), task.ID, itemsOf(set), limits, launch)
	}, "questions appended", "items", len(set.Rows))
	var known *engine.KnownItemsError
	var full *engine.AdditionLimitError
	switch {
	case errors.As(err, &known):
		return task, set.RefuseKnown(known.QuestionIDs, known.Series)
	case errors.As(err, &full):
		return task, dataset.TooMuch(full.Items, full.IsTooLong)
	}
	return appended, err
}
