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

// CopyName returns the name of a copy, within the maximum length of names.
func CopyName(ctx context.Context, name string) string {
	copied := request.From(ctx).Locale.Text("create.copy", "Name", name)
	if len([]rune(copied)) > tasks.MaxNameLength {
		return name
	}
	return copied
}

// Append adds the questions of an uploaded file to a task.
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

// Evaluate has the evaluators named in a form judge the answers of a task that has ended.
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

// Group has the model named in a form group, by meaning, the answers of a task that has ended.
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

// Delete removes a task. If the task is running, the fault asks the user to stop it first.
func Delete(ctx context.Context, service *tasks.Service, task db.Task) error {
	err := service.Delete(ctx, task)
	if f := request.FaultOf(err); err != nil && f.Code() == request.CodeTaskStateConflict {
		return f.WithMessage("error.STOP_BEFORE_DELETE")
	}
	return err
}
