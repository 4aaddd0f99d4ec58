package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// Snapshot lends one connection of the pool as a separate pool, whose statements all see the database as it was when
// the first of them ran, and cannot change it. They run one after another: none may be sent while the rows of another
// are being read. release returns the connection to the pool; it is also called when ctx ends.
func (p *Pool) Snapshot(ctx context.Context) (snapshot *Pool, release func(), err error) {
	const doing = "begin a snapshot"
	conn, err := p.Conn(ctx)
	if err != nil {
		return nil, nil, Classify(doing, err)
	}
	lent, returned, isBack := make(chan driverConn), make(chan error), make(chan struct{})
	go func() {
		defer close(isBack)
		_ = conn.Raw(func(raw any) error {
			lent <- raw.(driverConn)
			return <-returned
		})
		_ = conn.Close()
	}()
	own := sql.OpenDB(&loan{conn: <-lent})
	own.SetMaxOpenConns(1)
	release = sync.OnceFunc(func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_, err := own.ExecContext(ending, `ROLLBACK`) // called once all rows are read
		_ = own.Close()
		if err != nil {
			err = driver.ErrBadConn // the connection is not reused
		}
		returned <- err
		<-isBack
	})
	const begin = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = '60s'`
	if _, err := own.ExecContext(ctx, begin); err != nil {
		release()
		return nil, nil, Classify(doing, err)
	}
	context.AfterFunc(ctx, release)
	return &Pool{sqlx.NewDb(own, "postgres")}, release, nil
}

// loan is a connector that returns the lent connection, once.
type loan struct {
	mu   sync.Mutex
	conn driverConn
}

// Connect implements driver.Connector.
func (l *loan) Connect(context.Context) (driver.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil, errors.New("the snapshot's connection was lost")
	}
	conn := l.conn
	l.conn = nil
	return lentConn{conn}, nil
}

// Driver implements driver.Connector.
func (l *loan) Driver() driver.Driver { return nil }

// lentConn is a connection in a transaction: a transaction begun on it is a savepoint, and closing the connection has
// no effect.
type lentConn struct{ driverConn }

// Close implements driver.Conn.
func (lentConn) Close() error { return nil }

// Begin implements driver.Conn.
func (c lentConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements driver.ConnBeginTx.
func (c lentConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	_, err := c.ExecContext(ctx, `SAVEPOINT within`, nil)
	return savepoint{c}, err
}

// savepoint is a transaction within a snapshot. Commit rolls back, too: a snapshot changes nothing but settings,
// which end with the savepoint.
type savepoint struct{ conn lentConn }

// Commit implements driver.Tx.
func (s savepoint) Commit() error { return s.Rollback() }

// Rollback implements driver.Tx.
func (s savepoint) Rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := s.conn.ExecContext(ctx, `ROLLBACK TO SAVEPOINT within; RELEASE SAVEPOINT within`, nil)
	return err
}
