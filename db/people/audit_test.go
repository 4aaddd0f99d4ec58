package people_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// Entries added at the same time form one chain. Any entry that is changed or removed is detected, wherever it is;
// only Prune removes old entries unnoticed.
func TestTheChainShowsWhatIsMissing(t *testing.T) {
	t.Parallel()
	store, tables := dbtest.Open(t)
	log := people.NewAuditLog(store, sealer(t, 1))
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			_, err := log.Add(t.Context(), people.AuditEntry{Actor: fmt.Sprint("李雷", n%4), Action: "task.delete", Object: "task",
				ObjectName: "法规", After: `{"a": 1}`, Status: 204})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	found, err := log.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 40, found.Entries)
	for _, forbidden := range []string{`UPDATE audit_entries SET actor = 'x'`, `DELETE FROM audit_entries WHERE seq = 7`,
		`TRUNCATE audit_entries`} {
		_, err := tables.Exec(forbidden)
		require.ErrorContains(t, err, "only ever added")
	}
	_, err = tables.Exec(`UPDATE audit_entries SET at = at`)
	require.Error(t, err)

	// The owner of the database can disable the trigger that protects entries, but the change is detected.
	tamper := func(statement string, at int64) {
		t.Helper()
		tx, err := tables.Beginx()
		require.NoError(t, err)
		_, err = tx.Exec(`SET LOCAL session_replication_role = replica`)
		require.NoError(t, err)
		tx.MustExec(`CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT * FROM audit_entries`)
		tx.MustExec(statement)
		require.NoError(t, tx.Commit())
		_, err = log.Verify(t.Context())
		broken := (*people.BrokenChainError)(nil)
		require.ErrorAs(t, err, &broken)
		require.Equal(t, at, broken.Seq)
	}
	tables.MustExec(`CREATE TABLE spare AS SELECT * FROM audit_entries`)
	restore := func() {
		tx, err := tables.Beginx()
		require.NoError(t, err)
		tx.MustExec(`SET LOCAL session_replication_role = replica`)
		tx.MustExec(`DELETE FROM audit_entries`)
		tx.MustExec(`INSERT INTO audit_entries SELECT * FROM spare`)
		require.NoError(t, tx.Commit())
		_, err = log.Verify(t.Context())
		require.NoError(t, err)
	}
	for statement, at := range map[string]int64{
		`DELETE FROM audit_entries WHERE seq = 7`:                         7,
		`DELETE FROM audit_entries WHERE seq = 1`:                         1,
		`DELETE FROM audit_entries WHERE seq = 40`:                        40,
		`DELETE FROM audit_entries`:                                       1,
		`UPDATE audit_entries SET actor = 'nobody' WHERE seq = 12`:        12,
		`UPDATE audit_entries SET at = at - interval '1 h' WHERE seq = 3`: 3,
	} {
		tamper(statement, at)
		restore()
	}

	listed, total, err := log.List(t.Context(), people.AuditFilter{Actor: "李雷1", Action: "task", Object: "法"},
		db.Page{Number: 1, Size: 3})
	require.NoError(t, err)
	require.Equal(t, 10, total)
	require.Len(t, listed, 3)
	require.Greater(t, listed[0].Seq, listed[1].Seq, "the newest first")
	_, total, err = log.List(t.Context(), people.AuditFilter{Action: "tas"}, db.Page{Number: 1, Size: 3})
	require.NoError(t, err)
	require.Zero(t, total)

	var middle time.Time // entries added concurrently may be numbered in a different order than their times
	require.NoError(t, tables.Get(&middle, `SELECT max(at) FROM audit_entries WHERE seq <= 20`))
	removed, err := log.Prune(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Zero(t, removed, "nothing is old")
	removed, err = log.Prune(t.Context(), time.Since(middle))
	require.NoError(t, err)
	require.GreaterOrEqual(t, removed, 20)
	found, err = log.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 40-removed, found.Entries)
	require.EqualValues(t, removed, found.RemovedTo)

	_, err = log.Prune(t.Context(), 0)
	require.NoError(t, err)
	found, err = log.Verify(t.Context())
	require.NoError(t, err)
	require.Zero(t, found.Entries, "all of them may be old")
	_, err = log.Add(t.Context(), people.AuditEntry{Actor: "李雷", Action: "task.delete", Object: "task", Status: 204})
	require.NoError(t, err)
	found, err = log.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, found.Entries)
}
