package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
)

// InTx runs work in its own transaction and rolls back if work fails. doing describes the transaction in errors. The
// server aborts transactions that stay idle: otherwise, if this machine disappeared in the middle of a transaction, its
// locks would be held for hours.
func (p *Pool) InTx(ctx context.Context, doing string, work func(*sqlx.Tx) error) error {
	return p.inTx(ctx, doing, `SET LOCAL idle_in_transaction_session_timeout = '15s'`, work)
}

// InLongTx is like InTx, but for work that computes for many seconds between two statements and locks only rows that it
// inserts: nobody waits for them.
func (p *Pool) InLongTx(ctx context.Context, doing string, work func(*sqlx.Tx) error) error {
	return p.inTx(ctx, doing, `SET LOCAL idle_in_transaction_session_timeout = '5min'`, work)
}

func (p *Pool) inTx(ctx context.Context, doing, limit string, work func(*sqlx.Tx) error) error {
	return p.InBareTx(ctx, doing, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, limit); err != nil {
			return Classify(doing, err)
		}
		return work(tx)
	})
}

// InBareTx is like InTx, but leaves it to the work's first statement to set the idle timeout, which saves a round trip.
func (p *Pool) InBareTx(ctx context.Context, doing string, work func(*sqlx.Tx) error) error {
	tx, err := p.BeginTxx(ctx, nil)
	if err != nil {
		return Classify(doing, err)
	}
	if err := work(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	err = tx.Commit()
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // it was rolled back when ctx ended
		err = ctx.Err()
	}
	return Classify(doing, err)
}

// PreferIndexes keeps the planner from scanning or sorting whole tables for the rest of the transaction. The
// planner's statistics do not cover rows inserted moments ago, so it would misjudge the cost of both. JIT is
// disabled too: these plans look expensive but are cheap, and compiling them is not.
func PreferIndexes(ctx context.Context, tx *sqlx.Tx) error {
	const settings = `
		SET LOCAL enable_seqscan = off;
		SET LOCAL enable_bitmapscan = off;
		SET LOCAL enable_sort = off;
		SET LOCAL enable_hashjoin = off;
		SET LOCAL enable_mergejoin = off;
		SET LOCAL jit = off`
	_, err := tx.ExecContext(ctx, settings)
	return Classify("set planner options", err)
}

// SelectNamed is like SelectContext, but for a statement with named parameters (:name; write casts as CAST, because
// sqlx reads "::" as an escaped colon).
func SelectNamed(ctx context.Context, db sqlx.QueryerContext, rows any, statement string,
	arguments map[string]any) error {
	positional, list, err := named(statement, arguments)
	if err != nil {
		return err
	}
	return sqlx.SelectContext(ctx, db, rows, positional, list...)
}

// GetNamed is like GetContext, but for a statement with named parameters.
func GetNamed(ctx context.Context, db sqlx.QueryerContext, row any, statement string, arguments map[string]any) error {
	positional, list, err := named(statement, arguments)
	if err != nil {
		return err
	}
	return sqlx.GetContext(ctx, db, row, positional, list...)
}

// ExecNamed is like ExecContext, but for a statement with named parameters.
func ExecNamed(ctx context.Context, db sqlx.ExecerContext, statement string,
	arguments map[string]any) (sql.Result, error) {
	positional, list, err := named(statement, arguments)
	if err != nil {
		return nil, err
	}
	return db.ExecContext(ctx, positional, list...)
}

func named(statement string, arguments map[string]any) (positional string, list []any, err error) {
	positional, list, err = sqlx.Named(statement, arguments)
	return sqlx.Rebind(sqlx.DOLLAR, positional), list, err
}

// EachRow runs a query and calls yield with each scanned row in turn, holding only one in memory.
func EachRow[T any](ctx context.Context, db sqlx.QueryerContext, doing, query string, arguments []any,
	yield func(T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	rows, err := db.QueryxContext(ctx, query, arguments...)
	if err != nil {
		cancel()
		return Classify(doing, err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports errors
	defer cancel()     // before Close, which would read all remaining rows
	var row, empty T
	var fields []any
	for rows.Next() {
		if fields == nil {
			if fields, err = fieldsOf(rows, &row); err != nil {
				return Classify(doing, err)
			}
		}
		row = empty
		if err := rows.Scan(fields...); err != nil {
			return Classify(doing, err)
		}
		if err := yield(row); err != nil {
			return err
		}
	}
	return Classify(doing, rows.Err())
}

// fieldsOf returns pointers to the fields of a struct for the columns of rows. Finding them once instead of for each
// row, as StructScan does, saves a fifth of the time of large reports. The struct must not embed pointers.
func fieldsOf(rows *sqlx.Rows, row any) ([]any, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	of := reflect.ValueOf(row).Elem()
	fields := make([]any, len(columns))
	for n, path := range rows.Mapper.TraversalsByName(of.Type(), columns) {
		if len(path) == 0 {
			return nil, fmt.Errorf("%s has no field for the column %s", of.Type(), columns[n])
		}
		fields[n] = of.FieldByIndex(path).Addr().Interface()
	}
	return fields, nil
}

// WithLock runs work unless another process holds the advisory lock. A transaction holds the lock, so that it also
// works behind a pooler; the server aborts the transaction after holdFor, even if work is still running. WithLock
// returns whether work ran, and the error of work.
func (p *Pool) WithLock(ctx context.Context, key int64, holdFor time.Duration,
	work func() error) (ran bool, err error) {
	const tryLock = `
		SELECT pg_try_advisory_xact_lock($1)
		FROM set_config('idle_in_transaction_session_timeout', $2, true)`
	var failed error
	err = p.InBareTx(ctx, "run under a lock", func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &ran, tryLock, key, strconv.FormatInt(holdFor.Milliseconds(), 10)); err != nil {
			return Classify("take the lock", err)
		}
		if ran {
			failed = work()
		}
		return nil
	})
	if ran {
		return true, failed
	}
	return false, err
}
