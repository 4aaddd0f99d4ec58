package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A single command imports answers from a file into a server as a task.
func TestAnswersAreImportedByACommand(t *testing.T) {
	t.Parallel()
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0")
	file := filepath.Join(t.TempDir(), "logs.csv")
	require.NoError(t, os.WriteFile(file, []byte("提问,answer\n甲,1\n甲,2\n"), 0o600))
	command := func(args ...string) (code int, stdout, stderr string) {
		var out, said bytes.Buffer
		code = run(context.Background(), append([]string{"import", file, "--server", program.url}, args...), os.Getenv,
			&out, &said)
		return code, out.String(), said.String()
	}
	code, _, stderr := command()
	require.NotZero(t, code)
	require.Contains(t, stderr, "DATASET_SCHEMA_INVALID")
	code, stdout, stderr := command("--column", "question=提问", "--name", "线上")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^[0-9a-f-]{36}\nhttp://127\.0\.0\.1:\d+/tasks/[0-9a-f-]{36}/results\n$`, stdout)
}
