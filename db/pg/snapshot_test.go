package pg_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/pg"
)

// All statements of a snapshot, including nested transactions, see the same state, and its connection returns to
// the pool unchanged.
func TestASnapshotIsAsOfOneMoment(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), dbtest.URL(t), 2)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	_, err = pool.Exec(`CREATE TABLE seen (n int); INSERT INTO seen VALUES (1)`)
	require.NoError(t, err)
	count := func(of *pg.Pool) (count int) {
		require.NoError(t, of.GetContext(t.Context(), &count, `SELECT count(*) FROM seen`))
		return count
	}
	snapshot, release, err := pool.Snapshot(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, count(snapshot))
	_, err = pool.Exec(`INSERT INTO seen VALUES (2)`)
	require.NoError(t, err)
	require.Equal(t, 2, count(pool))
	require.Equal(t, 1, count(snapshot))
	require.NoError(t, snapshot.InTx(t.Context(), "read", func(tx *sqlx.Tx) error {
		var within int
		err := tx.GetContext(t.Context(), &within, `SELECT count(*) FROM seen`)
		require.Equal(t, 1, within)
		return err
	}))
	_, err = snapshot.Exec(`INSERT INTO seen VALUES (3)`)
	require.ErrorContains(t, err, "read-only")
	release()
	release()
	require.Error(t, snapshot.PingContext(t.Context()), "it is over")
	_, err = pool.Exec(`INSERT INTO seen VALUES (3)`)
	require.NoError(t, err)
	require.Equal(t, 3, count(pool))
	require.Zero(t, pool.Stats().InUse)

	// If a snapshot is not released, the end of its context releases it.
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = pool.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, pool.Stats().InUse)
	cancel()
	dbtest.Await(t, time.Minute, "the connection is back", func() bool { return pool.Stats().InUse == 0 })
}
