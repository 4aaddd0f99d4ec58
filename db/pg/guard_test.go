package pg_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/pg"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// refused holds ways to make the server refuse a statement with a message that quotes 40,000 bytes.
var refused = map[string]func(ctx context.Context, pool *pg.Pool) error{
	"a parameter of a query": func(ctx context.Context, pool *pg.Pool) error {
		var n int
		return pool.GetContext(ctx, &n, `SELECT CAST(CAST($1 AS text) AS int)`, long)
	},
	"a literal of a query": func(ctx context.Context, pool *pg.Pool) error {
		var n int
		return pool.GetContext(ctx, &n, `SELECT CAST(repeat('7', 40000) AS int)`)
	},
	"a statement": func(ctx context.Context, pool *pg.Pool) error {
		_, err := pool.ExecContext(ctx, `SELECT CAST(CAST($1 AS text) AS inet)`, long)
		return err
	},
	"a statement without arguments": func(ctx context.Context, pool *pg.Pool) error {
		_, err := pool.ExecContext(ctx, `DO $$ BEGIN RAISE EXCEPTION '%', repeat('x', 40000); END $$`)
		return err
	},
	"a later row": func(ctx context.Context, pool *pg.Pool) error {
		const read = `SELECT CASE WHEN n = 5000 THEN CAST(repeat('7', 40000) AS int) ELSE n END AS n FROM generate_series(1, $1) n`
		return pg.EachRow(ctx, pool, "read", read, []any{5000}, func(struct{ N int }) error { return nil })
	},
	"rows that are not read to their end": func(ctx context.Context, pool *pg.Pool) error {
		rows, err := pool.QueryContext(ctx,
			`SELECT CASE WHEN n = 50 THEN CAST(repeat('7', 40000) AS int) ELSE n END AS n FROM generate_series(1, $1) n`, 50)
		if err != nil {
			return err
		}
		rows.Next()
		return rows.Close()
	},
	"a transaction that is rolled back": func(ctx context.Context, pool *pg.Pool) error {
		return pool.InTx(ctx, "try", func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, `SELECT CAST(CAST($1 AS text) AS uuid)`, long)
			_, again := tx.ExecContext(ctx, `SELECT 1`)
			if again == nil {
				return errors.New("the connection was used again")
			}
			return err
		})
	},
	"a commit": func(ctx context.Context, pool *pg.Pool) error {
		return pool.InTx(ctx, "try", func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, `
				CREATE TABLE late (n int);
				CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%',
				repeat('x', 40000); END $$;
				CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION
				refuse();
				INSERT INTO late VALUES (1)`)
			return err
		})
	},
	"a prepared statement": func(ctx context.Context, pool *pg.Pool) error {
		statement, err := pool.PrepareContext(ctx, `SELECT CAST(CAST($1 AS text) AS int)`)
		if err != nil {
			return err
		}
		defer statement.Close()
		var n int
		return statement.QueryRowContext(ctx, long).Scan(&n)
	},
	"a COPY": func(ctx context.Context, pool *pg.Pool) error {
		return pool.InTx(ctx, "copy", func(tx *sqlx.Tx) error {
			_, err := copied(ctx, tx, long)
			return err
		})
	},
}

var long = strings.Repeat("7", 40_000)

// copied copies values into a new table, and returns how many rows it has.
func copied(ctx context.Context, tx *sqlx.Tx, values ...string) (int64, error) {
	if _, err := tx.ExecContext(ctx, `CREATE TEMPORARY TABLE copied (n int) ON COMMIT DROP`); err != nil {
		return 0, err
	}
	statement, err := tx.PrepareContext(ctx, `COPY copied (n) FROM STDIN`)
	if err != nil {
		return 0, err
	}
	defer statement.Close()
	for _, value := range values {
		if _, err := statement.ExecContext(ctx, value); err != nil {
			return 0, err
		}
	}
	result, err := statement.ExecContext(ctx)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// A message that the driver cannot read costs only one connection: other statements on the same pool return their
// results immediately, without allocating a gigabyte.
func TestALongRefusalLeavesNoConnectionOutOfStep(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), dbtest.URL(t), 3)
	require.NoError(t, err)
	defer pool.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	failures := make(chan error, 4)
	for reader := range cap(failures) {
		others.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				asked, got := fmt.Sprint(reader, " ", n), ""
				start := time.Now()
				err := pool.GetContext(context.WithoutCancel(ctx), &got, `SELECT CAST($1 AS text)`, asked)
				if err != nil || got != asked || time.Since(start) > 5*time.Second {
					failures <- fmt.Errorf("asked %q, got %q after %s: %w", asked, got, time.Since(start), err)
					return
				}
			}
		})
	}
	for name, refuse := range refused {
		for range 5 {
			err := refuse(t.Context(), pool)
			require.ErrorIs(t, err, pg.ErrLongRefusal, name)
			require.NotErrorIs(t, pg.Classify("try", err), pg.ErrUnavailable, name)
		}
	}
	stop()
	others.Wait()
	select {
	case failure := <-failures:
		require.NoError(t, failure)
	default:
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<20), "bytes allocated")
	require.LessOrEqual(t, pool.Stats().OpenConnections, 3)
}

// A statement is not run a second time if its error message cannot be read.
func TestALongRefusalIsNotRepeated(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), dbtest.URL(t), 2)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.ExecContext(t.Context(), `CREATE SEQUENCE tries`)
	require.NoError(t, err)
	var n int
	err = pool.GetContext(t.Context(), &n, `SELECT CAST(repeat('7', CAST(39999 + nextval('tries') AS int)) AS int)`)
	require.ErrorIs(t, err, pg.ErrLongRefusal)
	require.NoError(t, pool.GetContext(t.Context(), &n, `SELECT nextval('tries')`))
	require.Equal(t, 2, n)
}

// The guard implements every interface of the driver that database/sql uses.
func TestGuardedConnectionsDoWhatTheDriverDoes(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), dbtest.URL(t), 1)
	require.NoError(t, err)
	defer pool.Close()

	var kept sql.NullInt64
	pid := func() (n int64) {
		require.NoError(t, pool.GetContext(t.Context(), &n, `SELECT pg_backend_pid()`))
		return n
	}
	first := pid()
	err = pool.GetContext(t.Context(), &kept, `SELECT CAST(CAST($1 AS text) AS int)`, "short")
	refused := (*pq.Error)(nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, first, pid(), "a refusal that the driver reads costs no connection")

	err = pool.InTx(t.Context(), "copy", func(tx *sqlx.Tx) error {
		count, err := copied(t.Context(), tx, "1", "2", "3")
		require.Equal(t, int64(3), count)
		return err
	})
	require.NoError(t, err)

	rows, err := pool.QueryContext(t.Context(), `SELECT 1 AS one; SELECT CAST('a' AS varchar(7)) AS two`)
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next())
	require.False(t, rows.Next(), "the first statement has one row")
	require.True(t, rows.NextResultSet())
	types, err := rows.ColumnTypes()
	require.NoError(t, err)
	length, hasLength := types[0].Length()
	require.Equal(t, []any{"VARCHAR", int64(7), true, "string"},
		[]any{types[0].DatabaseTypeName(), length, hasLength, types[0].ScanType().String()})
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close(), "the one connection is needed below")

	var array pq.StringArray
	require.NoError(t, pool.GetContext(t.Context(), &array, `SELECT CAST($1 AS text[])`, []string{"a", "b"}),
		"slices are arrays")
	require.Equal(t, pq.StringArray{"a", "b"}, array)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = pool.ExecContext(ctx, `SELECT 1`)
	require.ErrorIs(t, err, context.Canceled)
}

// Only errors that a connection causes are classified as ErrUnavailable.
func TestClassify(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	pool, err := pg.Open(t.Context(), url, 1)
	require.NoError(t, err)
	defer pool.Close()
	var n int
	for _, statement := range []string{`SELECT 'no number'`, `SELECT CAST(NULL AS int)`,
		`SELECT CAST('infinity' AS timestamptz)`} {
		err := pg.Classify("read", pool.GetContext(t.Context(), &n, statement))
		require.Error(t, err)
		require.NotErrorIs(t, err, pg.ErrUnavailable, statement)
	}
	_, err = pool.ExecContext(t.Context(), `SELECT $1`, struct{}{})
	require.NotErrorIs(t, pg.Classify("write", err), pg.ErrUnavailable, "a value that cannot be sent")
	_, err = pool.ExecContext(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
	require.ErrorIs(t, pg.Classify("end", err), pg.ErrUnavailable)

	_, err = pg.Open(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable", 1)
	require.ErrorIs(t, err, pg.ErrUnavailable)
	_, err = pg.Open(t.Context(), url+" dbname=none", 1)
	require.ErrorIs(t, err, pg.ErrUnavailable)
}
