package pg

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"

	"github.com/lib/pq"
)

// open returns a connector to a server. Every part of the program connects through it, because the connector abandons
// connections after errors that may have left them out of sync. A nil dialer means the driver's own.
func open(config pq.Config, dialer pq.Dialer) (driver.Connector, error) {
	connector, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, errors.New("DATABASE_URL cannot be used")
	}
	if dialer != nil {
		connector.Dialer(dialer)
	}
	return guardedConnector{connector}, nil
}

type guardedConnector struct{ *pq.Connector }

// connectError wraps the reason why no connection could be made.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// Connect implements driver.Connector.
func (c guardedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, connectError{err}
	}
	return &guardedConn{driverConn: made.(driverConn)}, nil
}

// driverConn is the set of interfaces of the driver's connections that database/sql uses.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// guardedConn is a connection that is abandoned after an error that did not come from the server. The driver mistakes
// an error message of more than 30,000 bytes, such as one that quotes a long value, for plain text and leaves the rest
// of it unread: its next read would interpret four letters of the rest as a length, and allocate a gigabyte. The error
// is returned unchanged: after driver.ErrBadConn database/sql would run the statement again, although it may have taken
// effect.
type guardedConn struct {
	driverConn
	isAbandoned bool
}

// ErrLongRefusal means that the server refused a statement with a message that is too long for the driver. The message
// is lost.
var ErrLongRefusal = errors.New("PostgreSQL refused the statement with a message of more than 30,000 bytes")

// check returns an error of the driver, after abandoning the connection if necessary. It replaces only one error, by
// ErrLongRefusal: the driver's misreading of the refusal of a server that cannot start.
func (c *guardedConn) check(err error) error {
	if err == nil {
		return nil
	}
	if refused := (*pq.Error)(nil); errors.As(err, &refused) {
		return err
	}
	c.abandon()
	// A server that cannot start sends plain text in place of a message's four length bytes: then the first byte is a
	// letter. The length of a long message begins with a small byte.
	if text, isRefusal := strings.CutPrefix(err.Error(), "pq: server error: "); isRefusal && text != "" && text[0] < ' ' {
		return ErrLongRefusal
	}
	return err
}

// abandon closes the connection. The ping after that fails without reading, which keeps the driver from using its
// buffer.
func (c *guardedConn) abandon() {
	if c.isAbandoned {
		return
	}
	c.isAbandoned = true
	_ = c.driverConn.Close()
	_ = c.driverConn.Ping(context.Background())
}

// IsValid implements driver.Validator.
func (c *guardedConn) IsValid() bool { return !c.isAbandoned && c.driverConn.IsValid() }

// Close implements driver.Conn.
func (c *guardedConn) Close() error {
	if c.isAbandoned {
		return nil
	}
	return c.driverConn.Close()
}

// Ping implements driver.Pinger.
func (c *guardedConn) Ping(ctx context.Context) error { return c.check(c.driverConn.Ping(ctx)) }

// ExecContext implements driver.ExecerContext.
func (c *guardedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.driverConn.ExecContext(ctx, query, args)
	return result, c.check(err)
}

// QueryContext implements driver.QueryerContext.
func (c *guardedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.driverConn.QueryContext(ctx, query, args)
	return c.rows(rows, err)
}

// Begin implements driver.Conn.
func (c *guardedConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements driver.ConnBeginTx.
func (c *guardedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.driverConn.BeginTx(ctx, options)
	if err != nil {
		return nil, c.check(err)
	}
	return guardedTx{tx, c}, nil
}

// Prepare implements driver.Conn.
func (c *guardedConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *guardedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	statement, err := c.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.check(err)
	}
	return guardedStmt{statement, c}, nil
}

type guardedTx struct {
	tx   driver.Tx
	conn *guardedConn
}

// Commit implements driver.Tx.
func (t guardedTx) Commit() error { return t.conn.check(t.tx.Commit()) }

// Rollback implements driver.Tx.
func (t guardedTx) Rollback() error { return t.conn.check(t.tx.Rollback()) }

// guardedStmt is a prepared statement, or a COPY, which does not support contexts.
type guardedStmt struct {
	statement driver.Stmt
	conn      *guardedConn
}

// Close implements driver.Stmt.
func (s guardedStmt) Close() error { return s.conn.check(s.statement.Close()) }

// NumInput implements driver.Stmt.
func (s guardedStmt) NumInput() int { return s.statement.NumInput() }

// Exec implements driver.Stmt.
func (s guardedStmt) Exec(args []driver.Value) (driver.Result, error) {
	result, err := s.statement.Exec(args) //nolint:staticcheck // a COPY has no other method
	return result, s.conn.check(err)
}

// Query implements driver.Stmt.
func (s guardedStmt) Query(args []driver.Value) (driver.Rows, error) {
	rows, err := s.statement.Query(args) //nolint:staticcheck // a COPY has no other method
	return s.conn.rows(rows, err)
}

// ExecContext implements driver.StmtExecContext.
func (s guardedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if statement, hasContext := s.statement.(driver.StmtExecContext); hasContext {
		result, err := statement.ExecContext(ctx, args)
		return result, s.conn.check(err)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.Exec(valuesOf(args))
}

// QueryContext implements driver.StmtQueryContext.
func (s guardedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if statement, hasContext := s.statement.(driver.StmtQueryContext); hasContext {
		rows, err := statement.QueryContext(ctx, args)
		return s.conn.rows(rows, err)
	}
	return s.Query(valuesOf(args))
}

func valuesOf(args []driver.NamedValue) []driver.Value {
	values := make([]driver.Value, len(args))
	for place, arg := range args {
		values[place] = arg.Value
	}
	return values
}

// driverRows is the set of interfaces of the driver's rows that database/sql uses.
type driverRows interface {
	driver.RowsNextResultSet
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

type guardedRows struct {
	driverRows
	conn *guardedConn
}

func (c *guardedConn) rows(rows driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, c.check(err)
	}
	return guardedRows{rows.(driverRows), c}, nil
}

// Next implements driver.Rows.
func (r guardedRows) Next(dest []driver.Value) error {
	err := r.driverRows.Next(dest)
	if err == io.EOF { //nolint:errorlint // the end of the rows is this very value; an end of the connection is not
		return err
	}
	return r.conn.check(err)
}

// Close implements driver.Rows. It reads the remaining rows.
func (r guardedRows) Close() error { return r.conn.check(r.driverRows.Close()) }
