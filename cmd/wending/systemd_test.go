package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// The systemd units start commands that exist, and give a process more time to end than it takes.
func TestSystemdUnitsFitTheProgram(t *testing.T) {
	t.Parallel()
	units, err := filepath.Glob("systemd/*.service")
	require.NoError(t, err)
	require.Len(t, units, 3)
	var cli commands
	parser, err := kong.New(&cli)
	require.NoError(t, err)
	for _, unit := range units {
		content, err := os.ReadFile(unit)
		require.NoError(t, err)
		started := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/wending (\w+)$`).FindSubmatch(content)
		require.NotNil(t, started, unit)
		_, err = parser.Parse([]string{string(started[1])})
		require.NoError(t, err, unit)
		patience := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)s$`).FindSubmatch(content)
		require.NotNil(t, patience, unit)
		seconds, err := strconv.Atoi(string(patience[1]))
		require.NoError(t, err)
		require.Greater(t, seconds, cli.ShutdownSecs, unit)
		if analyse, err := exec.LookPath("systemd-analyze"); err == nil {
			said, err := exec.Command(analyse, "verify", "--man=no", unit).CombinedOutput()
			require.NotRegexp(t, `Unknown|Invalid|Failed to parse|ignoring`, string(said), "%s: %v", unit, err)
		}
	}
}
