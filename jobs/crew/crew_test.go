package crew

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/jobs/tasks"
)

// Crews share a configuration, but each logs under its own launch alone.
func TestACrewLogsUnderItsOwnLaunch(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	crews := New(Config{Calls: context.Background(), Log: slog.New(slog.NewTextHandler(&lines, nil))})
	first, second := db.Call{LaunchID: uuid.New()}, db.Call{LaunchID: uuid.New()}
	one, two := crews.join(first, map[int]tasks.Target{1: {}}, db.Lease{}), crews.join(second, map[int]tasks.Target{1: {}}, db.Lease{})
	one.contain("fail", func() { panic("first") })
	require.Contains(t, lines.String(), first.LaunchID.String())
	require.NotContains(t, lines.String(), second.LaunchID.String())
	lines.Reset()
	two.contain("fail", func() { panic("second") })
	require.Contains(t, lines.String(), second.LaunchID.String())
	require.NotContains(t, lines.String(), first.LaunchID.String())
	require.True(t, crews.leave(one))
	require.True(t, crews.leave(two))
}
