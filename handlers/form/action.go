package form

import (
	"context"
	"errors"

	"wending/db"
	"wending/handlers/request"
	"wending/jobs/dataset"
	"wending/jobs/library"
	"wending/jobs/tasks"
)

// CopyName returns the name for a copy: the original name with a suffix or, if that would be too long, the original
// name.
func CopyName(ctx context.Context, name string) string {
	copied := request.From(ctx).Locale.Text("create.copy", "Name", name)
	if len([]rune(copied)) > tasks.MaxNameLength {
		return name
	}
	return copied
}

// Append adds the questions of an uploaded file to a task, and returns the changed task. The error is a fault if the
// file is invalid or makes the task too large.
func Append(ctx context.Context, service *tasks.Service, task db.Task, submitted *Upload) (db.Task, error) {
	set, refused := AppendedRows(ctx, submitted, task)
	if refused != nil {
		return task, refused
	}
	appended, err := service.Append(ctx, request.From(ctx).Actor, task, set)
	switch e := (*dataset.Error)(nil); {
	case errors.As(err, &e):
		return task, request.DatasetFault(err)
	case errors.Is(err, tasks.ErrTooManyCalls):
		return task, request.NewFault(request.CodeTaskTooLarge).WithCause(err)
	}
	return appended, err
}

// Evaluate has the evaluators that a form lists judge the answers of a task that has ended, and returns the changed
// task.
func Evaluate(ctx context.Context, service *tasks.Service, saved *library.Service, task db.Task,
	submitted *Upload) (db.Task, error) {
	evaluators, faults := Evaluators(ctx, submitted, saved)
	if len(faults) > 0 {
		return task, faults[0].Fault
	}
	evaluated, err := service.Evaluate(ctx, request.From(ctx).Actor, task, evaluators)
	if errors.Is(err, tasks.ErrTooManyEvaluators) {
		return task, request.NewFault(request.CodeTaskTooLarge).WithCause(err)
	}
	return evaluated, err
}

// Group has the model that a form names group the answers of a task that has ended by meaning, and returns the changed
// task.
func Group(ctx context.Context, service *tasks.Service, saved *library.Service, task db.Task,
	submitted *Upload) (db.Task, error) {
	c := fields{form: submitted}
	model := c.meaningModel(ctx, saved, "model_id")
	if model == nil && len(c.faults) == 0 {
		c.fail("model_id", request.FieldFault("model_id", request.Required()))
	}
	if len(c.faults) > 0 {
		return task, c.faults[0].Fault
	}
	return service.Group(ctx, request.From(ctx).Actor, task, *model)
}

// Delete deletes a task. If the task is running, the error is a fault that asks the user to stop it first.
func Delete(ctx context.Context, service *tasks.Service, task db.Task) error {
	err := service.Delete(ctx, task)
	if f := request.FaultOf(err); err != nil && f.Code() == request.CodeTaskStateConflict {
		return f.WithMessage("error.STOP_BEFORE_DELETE")
	}
	return err
}
