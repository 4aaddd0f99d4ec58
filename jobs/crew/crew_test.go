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

// Crews share a configuration, but each logs only its own launch.
func TestACrewLogsUnderItsOwnLaunch(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	crews := New(Config{Store: &db.Store{}, Calls: context.Background(), Log: slog.New(slog.NewTextHandler(&lines, nil))})
	first, second := uuid.New(), uuid.New()
	launch := func(id uuid.UUID) Launch {
		return Launch{Call: db.Call{LaunchID: id}, Targets: map[int]tasks.Target{1: {}}}
	}
	one, two := crews.join(launch(first), db.Lease{}), crews.join(launch(second), db.Lease{})
	one.contain("fail", func() { panic("first") })
	require.Contains(t, lines.String(), first.String())
	require.NotContains(t, lines.String(), second.String())
	lines.Reset()
	two.contain("fail", func() { panic("second") })
	require.Contains(t, lines.String(), second.String())
	require.NotContains(t, lines.String(), first.String())
	require.True(t, crews.leave(one))
	require.True(t, crews.leave(two))
}
