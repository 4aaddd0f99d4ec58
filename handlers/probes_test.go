package handlers_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/pg"
)

// probe returns the status and the answer of a probe.
func (s *site) probe(t *testing.T, path string) (status int, answer map[string]any) {
	t.Helper()
	got := s.get(t, path)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"), path)
	require.NoError(t, json.Unmarshal(got.body, &answer), path)
	return got.StatusCode, answer
}

// With a schema from a newer version, a process refuses to start; a running one is live but not ready. The same applies
// if the database is unavailable.
func TestProbesTellLivingFromReady(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	for _, path := range []string{"/readyz", "/healthz"} {
		status, answer := s.probe(t, path)
		require.Equal(t, http.StatusOK, status, path)
		require.Equal(t, map[string]any{"database": "ok", "schema": "ok"}, answer["checks"])
		require.Contains(t, answer, "version")
	}

	_, err := s.tables.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	require.NoError(t, err)
	newer := (*pg.NewerSchemaError)(nil)
	require.ErrorAs(t, db.Migrate(t.Context(), s.database), &newer)
	require.EqualValues(t, 99999, newer.Found)
	status, answer := s.probe(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, map[string]any{"database": "ok", "schema": "newer"}, answer["checks"])
	require.Contains(t, answer["message"], "99999")
	status, answer = s.probe(t, "/livez")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "ok", answer["status"])

	require.NoError(t, s.store.Close())
	status, answer = s.probe(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, map[string]any{"database": "unavailable", "schema": "unknown"}, answer["checks"])
	status, _ = s.probe(t, "/livez")
	require.Equal(t, http.StatusOK, status)
}

// A database that was never migrated has no version, and is migrated.
func TestAnEmptyDatabaseIsMigrated(t *testing.T) {
	t.Parallel()
	database := dbtest.Empty(t)
	require.NoError(t, db.Migrate(t.Context(), database))
	require.NoError(t, db.Migrate(t.Context(), database), "once more")
}
