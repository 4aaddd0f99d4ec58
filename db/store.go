// Package db is the product's memory: every table's types and statements, one file an aggregate.
// Exported methods own their transaction. All comparisons of times use the database's clock.
package db

import (
	"context"
	"errors"
	neturl "net/url"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // registers the driver "postgres"
)

// Store runs the statements of one database.
type Store struct {
	db *sqlx.DB
}

// Open connects to the PostgreSQL at url (a URL or a key=value string) with at most
// maxConnections connections, and fails when it does not answer.
func Open(ctx context.Context, url string, maxConnections int) (*Store, error) {
	// The driver's own error would print the address with its password.
	if _, err := neturl.Parse(url); err != nil && strings.Contains(url, "://") {
		return nil, errors.New("DATABASE_URL is no valid URL; special characters in its password must be percent-encoded")
	}
	pool, err := sqlx.Open("postgres", url)
	if err != nil {
		return nil, errors.New("DATABASE_URL cannot be read")
	}
	pool.SetMaxOpenConns(maxConnections)
	pool.SetMaxIdleConns(maxConnections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	store := &Store{db: pool}
	if err := store.Ping(ctx); err != nil {
		_ = pool.Close()
		return nil, err
	}
	return store, nil
}

// Close closes every connection.
func (s *Store) Close() error { return s.db.Close() }

// Ping fails with ErrUnavailable when the database does not answer.
func (s *Store) Ping(ctx context.Context) error {
	return classify("ping the database", s.db.PingContext(ctx))
}

// inTx runs work in a transaction of its own, and rolls back when it fails.
func (s *Store) inTx(ctx context.Context, doing string, work func(*sqlx.Tx) error) error {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return classify(doing, err)
	}
	if err := work(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return classify(doing, tx.Commit())
}

// Page is a window of a list: numbers start at 1.
type Page struct {
	Number, Size int
}

func (p Page) offset() int { return (p.Number - 1) * p.Size }
