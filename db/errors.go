package db

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"wending/db/pg"
)

// Errors that a caller can act on. Everything else is an internal error.
var (
	// ErrNotFound means that no such row exists; an error that names the missing object is a *NotFoundError.
	ErrNotFound = pg.ErrNotFound
	// ErrConflict means that the row's state does not allow the change, or that another process made a change first.
	ErrConflict = pg.ErrConflict
	// ErrUnstorable means that a text contains a NUL or is not valid UTF-8.
	ErrUnstorable = pg.ErrUnstorable
	// ErrGone means that a row refers to another row that does not exist or has been deleted.
	ErrGone = pg.ErrGone
	// ErrUnavailable means that the database cannot be reached or refuses connections; the caller may try again later.
	ErrUnavailable = pg.ErrUnavailable
	// ErrAsksNobody means that runs cannot be made, because the task's answers came from a file.
	ErrAsksNobody = errors.New("the task's answers were imported, so it cannot run")
	// ErrNothingToRun means that the requested launch would have nothing to run.
	ErrNothingToRun = errors.New("nothing to run")
)

// Kind is the kind of object that a NotFoundError is about.
type Kind string

// The kinds of objects that can be missing.
const (
	KindTask     Kind = "task"
	KindLaunch   Kind = "launch"
	KindRun      Kind = "run"
	KindQuestion Kind = "question"
	KindVariant  Kind = "variant"
)

// NotFoundError reports which kind of object does not exist. It matches ErrNotFound.
type NotFoundError struct {
	Kind  Kind
	cause error
}

func (e *NotFoundError) Error() string {
	if e.cause != nil {
		return e.cause.Error()
	}
	return "no such " + string(e.Kind)
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// NotFound wraps ErrNotFound in a NotFoundError of the given kind and returns any other error unchanged.
func NotFound(kind Kind, err error) error {
	if errors.Is(err, ErrNotFound) {
		return &NotFoundError{Kind: kind, cause: err}
	}
	return err
}

// UnassessedError reports that some questions of a task have runs that no assessment covers yet.
type UnassessedError struct{ TaskID uuid.UUID }

func (e *UnassessedError) Error() string {
	return "questions of task " + e.TaskID.String() + " are not assessed yet"
}

// RunsLeftError means that more runs were requested than a question may still get.
type RunsLeftError struct {
	// Left is the number of runs that each of the questions may still get.
	Left int
}

func (e *RunsLeftError) Error() string {
	return fmt.Sprintf("the questions have room for %d more runs", e.Left)
}
