package db

import (
	"errors"

	"github.com/google/uuid"

	"wending/db/pg"
)

// Errors that a caller can act on. Everything else is an internal error.
var (
	// ErrNotFound means that no such row exists; errors that know what is missing are a *NotFoundError.
	ErrNotFound = pg.ErrNotFound
	// ErrConflict means that the row's state does not allow the change, or that another process made it first.
	ErrConflict = pg.ErrConflict
	// ErrUnstorable means that a text has a NUL or is not valid UTF-8.
	ErrUnstorable = pg.ErrUnstorable
	// ErrGone means that a row refers to one that is not there, or no longer.
	ErrGone = pg.ErrGone
	// ErrUnavailable means that the database cannot be reached or refuses connections; try again later.
	ErrUnavailable = pg.ErrUnavailable
	// ErrNothingToRun means that no run of the task, or of what was named, is left for this kind of launch.
	ErrNothingToRun = errors.New("nothing to run")
)

// Kind names what a NotFoundError is about.
type Kind string

// The kinds of objects that a caller can name.
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

// NotFound adds the kind to an ErrNotFound and returns any other error as it is.
func NotFound(kind Kind, err error) error {
	if errors.Is(err, ErrNotFound) {
		return &NotFoundError{Kind: kind, cause: err}
	}
	return err
}

// UnassessedError reports that questions of a task have runs by which they were not assessed yet.
type UnassessedError struct{ TaskID uuid.UUID }

func (e *UnassessedError) Error() string {
	return "questions of task " + e.TaskID.String() + " are not assessed yet"
}
