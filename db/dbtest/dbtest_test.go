package dbtest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// Each test has a database with the current schema and sees nothing of other tests: neither their rows nor their
// locks.
func TestTestsHaveDatabasesOfTheirOwn(t *testing.T) {
	t.Parallel()
	_, one := dbtest.Open(t)
	_, other := dbtest.Open(t)
	dbtest.Seed(t, one, 1, 1, 1)
	var tasks int
	require.NoError(t, other.Get(&tasks, `SELECT count(*) FROM evaluation_tasks`))
	require.Zero(t, tasks)
	one.SetMaxOpenConns(1) // one connection, because a lock belongs to its session
	for _, tables := range []interface {
		Get(dest any, query string, args ...any) error
	}{one, other} {
		var isLocked bool
		require.NoError(t, tables.Get(&isLocked, `SELECT pg_try_advisory_lock(7)`))
		require.True(t, isLocked)
	}
	for setting, want := range map[string]string{"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"} {
		var value string
		require.NoError(t, one.Get(&value, `SHOW `+setting))
		require.Equal(t, want, value, setting)
	}
}

func TestAServersEndClosesNobodysConnections(t *testing.T) {
	t.Parallel()
	_, closes := http.DefaultTransport.(interface{ CloseIdleConnections() })
	require.False(t, closes, "httptest would close the connections of other tests")
}
