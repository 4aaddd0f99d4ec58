package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/lib/pq"
)

// What a caller can do something about. Everything else is a fault of the system.
var (
	// ErrNotFound says that no such row exists.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that the state of a row does not allow the change, or that somebody else made it first.
	ErrConflict = errors.New("conflict")
	// ErrNothingToRun says that every run of the task, or of the question that was asked for, succeeded.
	ErrNothingToRun = errors.New("nothing to run")
	// ErrUnavailable says that the database cannot be reached or refuses connections now; try again later.
	ErrUnavailable = errors.New("database unavailable")
)

// classify wraps a driver's error with what failed and, where there is one, its sentinel.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	var refused *pq.Error
	if errors.As(err, &refused) {
		switch {
		case refused.Code == "23505": // unique_violation
			return fmt.Errorf("%s: %w: %w", doing, ErrConflict, err)
		case slices.Contains(passing, string(refused.Code.Class())):
			return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
		}
		return fmt.Errorf("%s: %w", doing, err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	// Anything that is not an answer of the server is a connection that broke.
	return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
}

// passing are the classes of errors that say nothing of the statement: connection, a server that is read-only
// for now (25), accounts and databases that are not there for now (28, 3D), rolled back for a deadlock (40),
// resources, states of objects, operator, the system and the server itself.
var passing = []string{"08", "25", "28", "3D", "40", "53", "55", "57", "58", "XX"}

func isNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// requireRow turns a conditional change of status that met no row into ErrConflict.
func requireRow(doing string, result sql.Result, err error) error {
	if err != nil {
		return classify(doing, err)
	}
	changed, err := result.RowsAffected()
	if err != nil {
		return classify(doing, err)
	}
	if changed == 0 {
		return fmt.Errorf("%s: %w", doing, ErrConflict)
	}
	return nil
}
