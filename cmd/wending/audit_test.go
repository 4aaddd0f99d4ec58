package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/people"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

// If a process is killed after making a change and before writing its audit entry, the stored intent remains, and the
// audit records that the outcome is unknown. The seal stays valid from one start to the next, and the command line
// proves that the entries in the log still exist.
func TestTheAuditOutlivesAKill(t *testing.T) {
	t.Parallel()
	database, key := dbtest.Start(t), dbtest.SecretKey
	store, tables := dbtest.OpenAt(t, database)
	folder := t.TempDir()
	serve := []string{
		"serve", "--database-url", database, "--redis-url", dbtest.Redis(t), "--data-dir", folder,
		"--secret-key", key, "--listen-addr", "127.0.0.1:0",
	}
	save := func(base, name string) error {
		answer, err := http.Post(base+"/api/v1/prompts", "application/json",
			strings.NewReader(`{"name": "`+name+`", "user": "x"}`))
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	program := start(t, serve...)
	require.NoError(t, save(program.url, "first"))
	tx, err := tables.Beginx()
	require.NoError(t, err)
	tx.MustExec(`SELECT FROM audit_chain FOR UPDATE`)
	asked := make(chan error, 1)
	go func() { asked <- save(program.url, "second") }()
	dbtest.Await(t, time.Minute, "the change", func() bool {
		var made int
		require.NoError(t, tables.Get(&made, `SELECT count(*) FROM prompts WHERE name = 'second'`))
		return made == 1
	})
	program.kill(t)
	require.Error(t, <-asked)
	// The database may not have noticed yet that the killed program is gone. The program's waiting statement would then
	// still write the entry once the chain is unlocked.
	dbtest.Await(t, time.Minute, "the end of what waited for the chain", func() bool {
		var waiting int
		require.NoError(t, tables.Get(&waiting, `
			SELECT count(pg_terminate_backend(pid))
			FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`))
		return waiting == 0
	})
	require.NoError(t, tx.Rollback())

	sealer, err := tasks.NewSealer(t.Context(), store, secret.Keys{Current: key})
	require.NoError(t, err)
	log := people.NewAuditLog(store, sealer)
	lost, err := log.CloseLost(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, lost, 1)
	require.Equal(t, "prompt.create", lost[0].Action)
	require.Equal(t, people.OutcomeUnknown, lost[0].Status)

	program = start(t, serve...)
	require.NoError(t, save(program.url, "third"))
	logged := program.stopped(t)
	_, line, _ := strings.Cut(logged, "msg=audit seq=")
	seq, _, _ := strings.Cut(line, " ")
	_, hash, _ := strings.Cut(line, "hash=")
	known := seq + ":" + strings.Fields(hash)[0]
	verify := func(key string, more ...string) (int, string) {
		t.Helper()
		return commandWith(t, "", append([]string{"audit", "verify", "--database-url", database, "--data-dir", folder,
			"--secret-key", key}, more...)...)
	}
	code, said := verify(key, "--seen", known)
	require.Zero(t, code, said)
	require.Contains(t, said, "entry "+seq+" exists and is unchanged")
	code, said = verify(key, "--seen", "1:"+strings.Split(known, ":")[1])
	require.Equal(t, 1, code, said)
	for _, odd := range []string{"x", "1", "1:zz", ":" + strings.Split(known, ":")[1],
		"0:" + strings.Split(known, ":")[1]} {
		code, said = verify(key, "--seen", odd)
		require.Equal(t, 1, code, said)
		require.Contains(t, said, "SEQ:HASH")
	}
	code, said = verify(strings.Repeat("b", 64))
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "SECRET_KEY")
	code, said = commandWith(t, "", "token", "create", "ci", "--database-url", database, "--data-dir", folder,
		"--secret-key", strings.Repeat("b", 64))
	require.Equal(t, 1, code, "it would break the seal: "+said)

	// Remove the last entry, and repair the chain as far as that is possible without the key.
	tables.MustExec(
		`SET session_replication_role = replica; DELETE FROM audit_entries WHERE seq = (SELECT max(seq) FROM audit_entries);
		UPDATE audit_chain SET (last_seq, last_hash) = (SELECT seq, hash FROM audit_entries ORDER BY seq DESC LIMIT 1);
		SET session_replication_role = origin`)
	code, said = verify(key)
	require.Equal(t, 1, code, said)
	require.Contains(t, start(t, serve...).stopped(t), "the audit's seal does not hold")
	code, said = verify(key)
	require.Equal(t, 1, code, said)

	code, said = commandWith(t, "", "audit", "seal", "--database-url", database, "--data-dir", folder, "--secret-key", key)
	require.Zero(t, code, said)
	code, said = verify(key)
	require.Zero(t, code, said)
	code, said = commandWith(t, "", "rotate-key", "--database-url", database, "--data-dir", folder, "--secret-key",
		strings.Repeat("c", 64), "--secret-key-previous", key)
	require.Zero(t, code, said)
	code, said = verify(strings.Repeat("c", 64))
	require.Zero(t, code, said)
	code, said = verify(strings.Repeat("c", 64), "--seen", known)
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "entry "+seq)
}
