package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/lib/pq"
)

// Errors that a caller can act on. Everything else is an internal error.
var (
	// ErrNotFound means that no such row exists.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the row's state does not allow the change, or that another process made a change
	// first.
	ErrConflict = errors.New("conflict")
	// ErrUnstorable means that a text contains a NUL or is not valid UTF-8: PostgreSQL can neither store nor
	// compare such texts.
	ErrUnstorable = errors.New("PostgreSQL cannot store this text")
	// ErrGone means that a row refers to another row that does not exist or has been deleted.
	ErrGone = errors.New("the referenced record does not exist")
	// ErrUnavailable means that the database cannot be reached or refuses connections; the caller may try again
	// later.
	ErrUnavailable = errors.New("database unavailable")
)

// Classify wraps a driver's error with the failed operation and, where one fits, the sentinel error. It returns nil
// for nil.
func Classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	var refused *pq.Error
	if errors.As(err, &refused) {
		switch {
		case refused.Code == "23503": // foreign_key_violation
			return fmt.Errorf("%s: %w: %w", doing, ErrGone, err)
		case refused.Code == "23505": // unique_violation
			return fmt.Errorf("%s: %w: %w", doing, ErrConflict, err)
		case refused.Code == "22021": // character_not_in_repertoire
			return fmt.Errorf("%s: %w: %w", doing, ErrUnstorable, err)
		case slices.Contains(transientClasses, string(refused.Code.Class())):
			return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
		}
		return fmt.Errorf("%s: %w", doing, err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if isConnection(err) {
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isConnection reports whether an error was caused by the connection, so that another attempt may succeed, rather
// than by a statement or by a value that cannot be scanned.
func isConnection(err error) bool {
	var network net.Error
	var unconnected connectError
	return errors.As(err, &network) || errors.As(err, &unconnected) || slices.ContainsFunc([]error{
		driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
	}, func(known error) bool { return errors.Is(err, known) })
}

// transientClasses are the SQLSTATE classes that do not indicate a fault in the statement itself: connection
// (08), read-only server (25), accounts and databases that do not exist at the moment (28, 3D), rollback after a
// deadlock (40), resources (53), object state (55), operator intervention (57), system (58) and server (XX)
// errors.
var transientClasses = []string{"08", "25", "28", "3D", "40", "53", "55", "57", "58", "XX"}

// IsNoRows reports whether a query found no row.
func IsNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// Affected returns how many rows a statement changed.
func Affected(doing string, result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, Classify(doing, err)
	}
	rows, err := result.RowsAffected()
	return int(rows), Classify(doing, err)
}

// RequireRow returns ErrConflict if a conditional change of state matched no row.
func RequireRow(doing string, result sql.Result, err error) error {
	rows, err := Affected(doing, result, err)
	if err == nil && rows == 0 {
		return fmt.Errorf("%s: %w", doing, ErrConflict)
	}
	return err
}
