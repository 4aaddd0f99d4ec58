package people_test

import (
	"bytes"
	"encoding/base64"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/jobs/secret"
)

// sealer returns a sealer whose current key is key n and that also knows the keys with the previous numbers.
func sealer(t testing.TB, n byte, previous ...byte) *secret.Sealer {
	t.Helper()
	text := func(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }
	keys := secret.Keys{Current: text(n)}
	for _, one := range previous {
		keys.Previous = append(keys.Previous, text(one))
	}
	made, err := secret.NewSealer(keys)
	require.NoError(t, err)
	return made
}

// sealed returns an audit of ten entries.
func sealed(t *testing.T) (store *db.Store, tables *sqlx.DB, log people.AuditLog, entries []people.AuditEntry) {
	t.Helper()
	store, tables = dbtest.Open(t)
	log = people.NewAuditLog(store, sealer(t, 1))
	for range 10 {
		entry, err := log.Add(t.Context(), people.AuditEntry{Actor: "李雷", Action: "task.delete", Status: 204})
		require.NoError(t, err)
		require.False(t, entry.IsUnsealed)
		entries = append(entries, entry)
	}
	return store, tables, log, entries
}

// change runs statements that only the owner of the tables may run.
func change(t *testing.T, tables *sqlx.DB, statements string) {
	t.Helper()
	tx, err := tables.Beginx()
	require.NoError(t, err)
	tx.MustExec(`SET LOCAL session_replication_role = replica; SET LOCAL wending.removes_old_audit = 'on';` + statements)
	require.NoError(t, tx.Commit())
}

// cutTail removes the last entries and corrects the chain's end as far as that is possible without the key.
const cutTail = `
	DELETE FROM audit_entries WHERE seq > 7;
	UPDATE audit_chain SET last_seq = 7, last_hash = (SELECT hash FROM audit_entries WHERE seq = 7);`

// The owner of the tables can make the chain consistent again after removing entries at its end or its beginning, but
// cannot seal it; removing the seal does not help. Entries added afterwards do not seal it either.
func TestTheSealShowsWhatWasRemoved(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string]string{
		"the end":                   cutTail,
		"the end and seal":          cutTail + `UPDATE audit_chain SET seal = NULL;`,
		"a false seal":              cutTail + `UPDATE audit_chain SET seal = decode('00112233445566778899', 'hex');`,
		"everything":                `DELETE FROM audit_entries; UPDATE audit_chain SET last_seq = 0, last_hash = '';`,
		"everything, with the seal": `DELETE FROM audit_entries; UPDATE audit_chain SET last_seq = 0, last_hash = '', seal = NULL;`,
		"the beginning": `DELETE FROM audit_entries WHERE seq <= 3;
			UPDATE audit_chain SET first_seq = 3, first_hash = (SELECT hash FROM spare WHERE seq = 3);`,
	} {
		_, tables, log, _ := sealed(t)
		tables.MustExec(`CREATE TABLE spare AS SELECT * FROM audit_entries`)
		_, err := log.Verify(t.Context())
		require.NoError(t, err)
		change(t, tables, statements)
		unsealed := (*people.AuditSealError)(nil)
		_, err = log.Verify(t.Context())
		require.ErrorAs(t, err, &unsealed, name)
		if name == "everything, with the seal" { // this looks like a new installation: only --seen reveals the difference
			continue
		}
		entry, err := log.Add(t.Context(), people.AuditEntry{Actor: "韩梅梅", Action: "task.create", Status: 201})
		require.NoError(t, err, name)
		require.True(t, entry.IsUnsealed, name)
		_, err = log.Verify(t.Context())
		require.ErrorAs(t, err, &unsealed, name)
	}
}

// The seal of an older state of the log is valid, so only an entry known from elsewhere reveals that newer entries
// are missing.
func TestKnownEntriesShowAnOlderState(t *testing.T) {
	t.Parallel()
	_, tables, log, entries := sealed(t)
	known := func(n int) people.KnownEnd { return people.KnownEnd{Seq: entries[n-1].Seq, Hash: entries[n-1].Hash} }
	tables.MustExec(`CREATE TABLE spare AS SELECT * FROM audit_chain`)
	later, err := log.Add(t.Context(), people.AuditEntry{Actor: "李雷", Action: "user.create", Status: 303})
	require.NoError(t, err)
	newest := people.KnownEnd{Seq: later.Seq, Hash: later.Hash}
	found, err := log.Verify(t.Context(), known(1), known(10), newest)
	require.NoError(t, err)
	require.Equal(t, newest, found.Last)

	change(t, tables,
		`DELETE FROM audit_entries WHERE seq = 11; DELETE FROM audit_chain; INSERT INTO audit_chain SELECT * FROM spare;`)
	_, err = log.Verify(t.Context(), known(1), known(10))
	require.NoError(t, err, "the older state was whole")
	missing := (*people.MissingEntryError)(nil)
	_, err = log.Verify(t.Context(), known(1), newest)
	require.ErrorAs(t, err, &missing)
	require.EqualValues(t, 11, missing.Seq)
	again, err := log.Add(t.Context(), people.AuditEntry{Actor: "李雷", Action: "user.create", Status: 303})
	require.NoError(t, err)
	require.Equal(t, newest.Seq, again.Seq)
	_, err = log.Verify(t.Context(), newest)
	require.ErrorAs(t, err, &missing, "another entry with its number")
	_, err = log.Verify(t.Context(), people.KnownEnd{Seq: 12, Hash: newest.Hash})
	require.ErrorAs(t, err, &missing)
}

// Pruned entries are not reported as removed by somebody: the chain of the remaining entries is whole, and entries that
// were noted before they were pruned are not compared.
func TestLawfulRemovalIsToldApart(t *testing.T) {
	t.Parallel()
	_, _, log, entries := sealed(t)
	removed, err := log.Prune(t.Context(), time.Since(entries[4].At))
	require.NoError(t, err)
	require.Positive(t, removed)
	first := people.KnownEnd{Seq: entries[0].Seq, Hash: entries[0].Hash}
	found, err := log.Verify(t.Context(), first, people.KnownEnd{Seq: entries[9].Seq, Hash: entries[9].Hash})
	require.NoError(t, err)
	require.EqualValues(t, removed, found.RemovedTo)
	require.Equal(t, 10-removed, found.Entries)
}

// An installation upgraded from an older version is sealed once, at its first start. A new key replaces the previous
// key's seal. After a key is lost, the audit is sealed again on purpose, which adds an entry.
func TestTheSealFollowsUpgradesAndKeys(t *testing.T) {
	t.Parallel()
	store, tables, log, entries := sealed(t)
	change(t, tables, `UPDATE audit_chain SET seal = NULL`)
	require.NoError(t, log.Seal(t.Context()))
	found, err := log.Verify(t.Context(), people.KnownEnd{Seq: 10, Hash: entries[9].Hash})
	require.NoError(t, err)
	require.Equal(t, 11, found.Entries, "that it was sealed is an entry")
	require.Len(t, found.Seals, 1)
	require.EqualValues(t, 11, found.Seals[0].Seq)
	require.NoError(t, log.Seal(t.Context()), "the next start")
	found, err = log.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 11, found.Entries)
	change(t, tables, `UPDATE audit_chain SET seal = NULL`)
	unsealed := (*people.AuditSealError)(nil)
	require.ErrorAs(t, log.Seal(t.Context()), &unsealed, "a seal does not get lost by itself")
	require.NoError(t, log.SealAgain(t.Context(), people.AuditEntry{Actor: "root", Via: "command"}))

	both := people.NewAuditLog(store, sealer(t, 2, 1))
	require.NoError(t, both.Seal(t.Context()), "the key is rotated")
	alone := people.NewAuditLog(store, sealer(t, 2))
	_, err = alone.Verify(t.Context())
	require.NoError(t, err)
	_, err = log.Verify(t.Context())
	require.ErrorIs(t, err, secret.ErrSigner)

	lost := people.NewAuditLog(store, sealer(t, 3))
	require.ErrorIs(t, lost.Seal(t.Context()), secret.ErrSigner)
	require.NoError(t, lost.SealAgain(t.Context(), people.AuditEntry{Actor: "root", Via: "command"}))
	found, err = lost.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 13, found.Entries)
}

// Verify still sees entries that are removed while it is running, because it reads the entries and the ends of the
// chain in a single snapshot.
func TestRemovalWhileReadingIsNoBreak(t *testing.T) {
	t.Parallel()
	_, tables, log, _ := sealed(t)
	removing, err := tables.Beginx()
	require.NoError(t, err)
	defer removing.Rollback()
	removing.MustExec(`LOCK TABLE audit_entries IN ACCESS EXCLUSIVE MODE`)
	type outcome struct {
		found people.VerifiedAudit
		err   error
	}
	verified := make(chan outcome, 1)
	go func() {
		found, err := log.Verify(t.Context())
		verified <- outcome{found, err}
	}()
	dbtest.Await(t, time.Minute, "the entries are about to be read", func() bool {
		var waits bool
		const wait = `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'audit_entries'::regclass AND NOT granted)`
		require.NoError(t, tables.Get(&waits, wait))
		return waits
	})
	removing.MustExec(`
		SET LOCAL wending.removes_old_audit = 'on';
		UPDATE audit_chain SET first_seq = 4, first_hash = (SELECT hash FROM audit_entries WHERE seq = 4);
		DELETE FROM audit_entries WHERE seq <= 4;`)
	require.NoError(t, removing.Commit())
	read := <-verified
	require.NoError(t, read.err)
	require.Equal(t, 10, read.found.Entries)
}
