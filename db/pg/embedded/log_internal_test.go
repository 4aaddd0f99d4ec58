package embedded

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cause of a server's end is named from its last messages; messages for clients do not explain it.
func TestTheCauseOfAnEndIsNamed(t *testing.T) {
	t.Parallel()
	ended := func(script string) *os.ProcessState {
		command := exec.Command("/bin/sh", "-c", script)
		_ = command.Run()
		return command.ProcessState
	}
	for log, cause := range map[string]string{
		`2026-11-23 UTC [7] PANIC:  could not write to file "pg_wal/xlogtemp.7": No space left on device
		2026-11-23 UTC [1] LOG:  server process (PID 7) was terminated by signal 6: Aborted
		2026-11-23 UTC [9] FATAL:  the database system is in recovery mode
		2026-11-23 UTC [1] LOG:  database system is shut down`: "the disk is full",
		`2026-11-23 UTC [1] FATAL:  could not map anonymous shared memory: Cannot allocate memory`: "no memory left",
		`2026-11-23 UTC [1] LOG:  starting PostgreSQL 15.18
		2026-11-23 UTC [7] PANIC:  could not read file "global/pg_control": read 0 of 296
		2026-11-23 UTC [9] FATAL:  the database system is starting up`: `could not read file "global/pg_control"`,
		`2026-11-23 UTC [9] FATAL:  role "x" does not exist`: "exit status 3",
		``: "exit status 3",
	} {
		require.Contains(t, causeOf(strings.Split(log, "\n"), ended("exit 3")), cause)
	}
	require.Contains(t, causeOf(nil, ended("kill -9 $$")), "killed")
}
