// Package db stores tasks with their questions, launches, units and runs, one file per aggregate. It also holds the
// scope that every statement is bound to, the caps of projects and the rules for look-alike names. Exported methods own
// their transaction. Times are always compared with the database's clock.
package db

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db/outbox"
	"wending/db/pg"
)

// Store runs the statements of one database.
type Store struct{ db *pg.Pool }

// Open connects to the PostgreSQL server at url (a URL or a key=value string) with at most maxConnections connections.
// It returns ErrUnavailable if the server does not answer.
func Open(ctx context.Context, url string, maxConnections int) (*Store, error) {
	pool, err := pg.Open(ctx, url, maxConnections)
	if err != nil {
		return nil, err
	}
	return &Store{pool}, nil
}

// Close closes every connection.
func (s *Store) Close() error { return s.db.Close() }

// Outbox returns the outbox, which holds the messages for channels.
func (s *Store) Outbox() outbox.Outbox { return outbox.New(s.db) }

// Pool returns the store's pool. Only packages beneath db may use it.
func (s *Store) Pool() *pg.Pool { return s.db }

// Snapshot returns a store whose statements all see the database at the same point in time (pg.Pool.Snapshot); they
// run one after another. release ends it, as does the end of ctx.
func (s *Store) Snapshot(ctx context.Context) (snapshot *Store, release func(), err error) {
	pool, release, err := s.db.Snapshot(ctx)
	return &Store{pool}, release, err
}

// The ways in which a request can arrive.
const (
	ViaPage     = "page"
	ViaAPI      = "api"
	ViaSchedule = "schedule"
	ViaUnknown  = ""
)

// Vias lists all values of Actor.Via.
var Vias = []string{ViaPage, ViaAPI, ViaSchedule, ViaUnknown}

// Actor is the account, token or address that makes a request.
type Actor struct {
	// Name is the name of the account or token; empty without accounts.
	Name, Address string
	// Via is one of Vias.
	Via string
}

// Who returns the actor's name or, without one, the address, as rows store it.
func (a Actor) Who() string { return cmp.Or(a.Name, a.Address) }

// Page is a window of a list; page numbers start at 1.
type Page struct {
	Number, Size int
}

// Offset returns how many rows come before the page.
func (p Page) Offset() int { return (p.Number - 1) * p.Size }

// OnPage returns the entries of a list that belong to a page.
func OnPage[T any](all []T, page Page) []T {
	first := min(page.Offset(), len(all))
	return all[first:min(first+page.Size, len(all))]
}

// ChangesChannel carries the id of every task whose launch was requested, started, stopped or ended.
const ChangesChannel = "wending_changes"

// Notify announces, when the transaction commits, that a task's state has changed.
func Notify(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_notify($1, $2)`, ChangesChannel, taskID.String())
	return pg.Classify("announce the change", err)
}
