// Package db is the product's memory: every table's types and statements, one file an aggregate.
// Exported methods own their transaction. All comparisons of times use the database's clock.
package db

import (
	"context"
	"database/sql"
	"errors"
	"net"
	neturl "net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Store runs the statements of one database. None of them needs a session of its own, so that the database
// may stand behind a pooler that gives every transaction another connection.
type Store struct {
	db *sqlx.DB
}

// Open connects to the PostgreSQL at url (a URL or a key=value string) with at most
// maxConnections connections, and fails when it does not answer.
func Open(ctx context.Context, url string, maxConnections int) (*Store, error) {
	config, err := readURL(url)
	if err != nil {
		return nil, err
	}
	// Statement and arguments travel together: half the round trips, and no prepared statement that a pooler
	// would look for on another connection.
	config.BinaryParameters = true
	connector, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, errors.New("DATABASE_URL cannot be used")
	}
	connector.Dialer(&patientDialer{Dialer: net.Dialer{Timeout: patience, KeepAlive: patience}})
	pool := sqlx.NewDb(sql.OpenDB(connector), "postgres")
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

// readURL reads an address without ever printing it: the driver's own error would, with its password.
func readURL(url string) (pq.Config, error) {
	if _, err := neturl.Parse(url); err != nil && strings.Contains(url, "://") {
		return pq.Config{}, errors.New("DATABASE_URL is no valid URL; special characters in its password must be percent-encoded")
	}
	config, err := pq.NewConfig(url)
	if err != nil {
		return pq.Config{}, errors.New("DATABASE_URL cannot be read")
	}
	return config, nil
}

// patience is how long the server may be silent within a statement. A connection whose other end vanished
// without a word (a pulled cable, a firewall that forgot it) would otherwise be waited on for good: the
// driver's contexts do not end a read.
const patience = 12 * time.Second

// patientDialer makes connections that give up after patience. When one has, those that are older are not
// trusted with another statement: what swallowed one swallowed them all, and each would cost its own patience.
type patientDialer struct {
	net.Dialer
	generation atomic.Int64
}

// Dial implements pq.Dialer.
func (d *patientDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout implements pq.Dialer.
func (d *patientDialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext implements pq.DialerContext.
func (d *patientDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	generation := d.generation.Load()
	connection, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &patientConnection{Conn: connection, dialer: d, generation: generation}, nil
}

type patientConnection struct {
	net.Conn
	dialer     *patientDialer
	generation int64
}

func (c *patientConnection) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.dialer.generation.CompareAndSwap(c.generation, c.generation+1)
	}
	return n, err
}

func (c *patientConnection) Write(b []byte) (int, error) {
	if c.dialer.generation.Load() != c.generation {
		return 0, net.ErrClosed
	}
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Close closes every connection.
func (s *Store) Close() error { return s.db.Close() }

// Ping fails with ErrUnavailable when the database does not answer.
func (s *Store) Ping(ctx context.Context) error {
	return classify("ping the database", s.db.PingContext(ctx))
}

// inTx runs work in a transaction of its own, and rolls back when it fails. A machine that vanishes without a
// word in the middle would leave its locks behind for hours: the server ends a transaction that idles.
func (s *Store) inTx(ctx context.Context, doing string, work func(*sqlx.Tx) error) error {
	return s.inBareTx(ctx, doing, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `SET LOCAL idle_in_transaction_session_timeout = '15s'`); err != nil {
			return classify(doing, err)
		}
		return work(tx)
	})
}

// inBareTx is inTx for work whose first statement sets that limit itself, which saves a round trip.
func (s *Store) inBareTx(ctx context.Context, doing string, work func(*sqlx.Tx) error) error {
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

// readAlongIndexes keeps the planner, for the rest of the transaction, from reading or sorting whole tables:
// what it knows of rows that were written a moment ago is out of date. What is switched off only seems dear
// to it; compiling the plan for that would be what costs.
func readAlongIndexes(ctx context.Context, tx *sqlx.Tx) error {
	_, err := tx.ExecContext(ctx, `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
		SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off`)
	return classify("choose how to read", err)
}

// Page is a window of a list: numbers start at 1.
type Page struct {
	Number, Size int
}

func (p Page) offset() int { return (p.Number - 1) * p.Size }
