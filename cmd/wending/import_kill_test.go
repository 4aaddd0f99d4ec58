package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
)

// An import that a crash interrupts leaves no part of the task behind, and can be repeated.
func TestAKilledImportLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	const questions, runs = 1000, 20
	content := (&siege{t: t}).archive(func(w io.Writer) {
		for n := range questions {
			_, _ = fmt.Fprintf(w, `{"question_id":"q%d","question":"q","standard_answer":"a","system_prompt":null,`+
				`"user_context":null,"series":null,"turn":null,"variables":[]}`+"\n", n)
		}
	}, func(w io.Writer) {
		for n := range questions * runs {
			_, _ = fmt.Fprintf(w, `{"question_id":"q%d","variant":1,"run_index":%d,"status":"SUCCEEDED","response_body":"answer %d",`+
				`"attempts":1,"latency_ms":5,"evaluations":[]}`+"\n", n/runs, n%runs+1, n)
		}
	})
	database, redis := dbtest.Start(t), dbtest.Redis(t)
	args := []string{"up", "--data-dir", t.TempDir(), "--database-url", database, "--redis-url", redis, "--secret-key",
		dbtest.SecretKey, "--listen-addr", "127.0.0.1:0"}
	_, tables := dbtest.OpenAt(t, database)
	stored := func() (tasks, items, all int) {
		require.NoError(t, tables.Get(&tasks, `SELECT count(*) FROM evaluation_tasks`))
		require.NoError(t, tables.Get(&items, `SELECT count(*) FROM evaluation_items`))
		require.NoError(t, tables.Get(&all, `SELECT count(*) FROM evaluation_runs`))
		return tasks, items, all
	}
	send := func(p *process) (int, error) {
		answer, err := http.Post(p.url+"/api/v1/evaluation-tasks/import", "application/zip", bytes.NewReader(content))
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	// The program is killed while it stores questions, and while it stores runs.
	for _, table := range []string{"evaluation_items", "evaluation_runs"} {
		p := start(t, args...)
		ended := make(chan error, 1)
		go func() {
			_, err := send(p)
			ended <- err
		}()
		dbtest.Await(t, time.Minute, "the import to write "+table, func() bool {
			var isWriting bool
			err := tables.Get(&isWriting, `
				SELECT EXISTS (
					SELECT FROM pg_locks l
					JOIN pg_class c ON c.oid = l.relation
					WHERE c.relname = $1 AND l.mode = 'RowExclusiveLock' AND l.pid <> pg_backend_pid()
					AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, table)
			return err == nil && isWriting
		})
		p.kill(t)
		require.Error(t, <-ended, "the import was interrupted")
		dbtest.Await(t, time.Minute, "the end of the transaction", func() bool {
			var isOpen bool
			err := tables.Get(&isOpen, `
				SELECT EXISTS (
					SELECT FROM pg_stat_activity
					WHERE datname = current_database() AND xact_start IS NOT NULL
					AND pid <> pg_backend_pid() AND backend_type = 'client backend')`)
			return err == nil && !isOpen
		})
		tasks, items, all := stored()
		require.Equal(t, []int{0, 0, 0}, []int{tasks, items, all}, table)
	}
	p := start(t, args...)
	status, err := send(p)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status)
	tasks, items, all := stored()
	require.Equal(t, []int{1, questions, questions * runs}, []int{tasks, items, all})
}
