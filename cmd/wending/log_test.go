package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A repeated failure is logged once, and again after some minutes with the number of its occurrences. Other lines are
// logged each time. If JSON is requested, every line is JSON, even the error with which the program ends.
func TestAFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	log := newLogger(&written, Settings{LogFormat: "json", LogLevel: "info"})
	lines := func() (all []map[string]any) {
		for line := range strings.Lines(written.String()) {
			var one map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &one), line)
			all = append(all, one)
		}
		return all
	}
	away := errors.New("read tcp 127.0.0.1:4711: connection refused")
	for range 3 {
		log.With("worker_id", "w").Warn("heartbeat failed, will retry", "error", away)
	}
	log.Warn("heartbeat failed, will retry", "error", "read tcp 127.0.0.1:4712: connection refused")
	require.Len(t, lines(), 1)
	log.Warn("heartbeat failed, will retry", "error", "password authentication failed")
	log.Error("launch failed", "code", "X")
	log.Error("launch failed", "code", "X")
	log.Info("request")
	log.Info("request")
	require.Len(t, lines(), 6)
	later := slog.NewRecord(time.Now().Add(repeatAfter+time.Second), slog.LevelWarn, "heartbeat failed, will retry", 0)
	later.AddAttrs(slog.Any("error", away))
	require.NoError(t, log.Handler().Handle(t.Context(), later))
	require.EqualValues(t, 4, lines()[6]["times_since_last_line"])
	require.Equal(t, 1, exitCode(t.Context(), errors.New("no database"), log, "json", &written))
	require.Equal(t, "no database", lines()[7]["error"])
}
