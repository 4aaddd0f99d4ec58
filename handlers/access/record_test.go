package access

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/people"
	"wending/jobs/secret"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// Intents of a process that died get an entry from another process, once the database has been available long enough:
// during an outage, no process could hold its intents.
func TestOthersRecordWhatWasLost(t *testing.T) {
	t.Parallel()
	store, tables := dbtest.Open(t)
	sealer, err := secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	log := people.NewAuditLog(store, sealer)
	guard := NewGuard(Config{Audit: log, Log: slog.New(slog.DiscardHandler)})
	own, err := log.Begin(t.Context(), people.AuditEntry{Actor: "李雷", Action: "task.run"})
	require.NoError(t, err)
	guard.hold(own)
	_, err = log.Begin(t.Context(), people.AuditEntry{Actor: "李雷", Action: "task.delete"})
	require.NoError(t, err)
	tables.MustExec(`UPDATE audit_intents SET alive_at = alive_at - interval '1 hour'`)
	told := func() (actions []string) {
		require.NoError(t, tables.Select(&actions, `SELECT action || ' ' || status FROM audit_entries`))
		return actions
	}
	steadySince := time.Now()
	guard.keepAudit(t.Context(), &steadySince)
	require.Empty(t, told(), "the database may have been away")

	tables.MustExec(`ALTER TABLE audit_intents RENAME TO away`)
	steadySince = time.Now().Add(-time.Hour)
	guard.keepAudit(t.Context(), &steadySince)
	require.Less(t, time.Since(steadySince), time.Minute, "it was away")
	tables.MustExec(`ALTER TABLE away RENAME TO audit_intents`)

	steadySince = time.Now().Add(-time.Hour)
	guard.keepAudit(t.Context(), &steadySince)
	require.Equal(t, []string{"task.delete 0"}, told())

	// An entry that could not be added when its request ended is kept until it can be added.
	guard.settleLater(t.Context(), own, people.AuditEntry{Actor: "李雷", Action: "task.run", Status: 202})
	guard.keepAudit(t.Context(), &steadySince)
	require.Len(t, told(), 2)
	require.Empty(t, guard.begun)
}
