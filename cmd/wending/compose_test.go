package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"wending/db/dbtest"
)

// notInCompose are the settings that compose.yaml sets itself or does not need: the image sets the address and
// folder, there is no pooler, and a proxy holds the certificate.
var notInCompose = []string{"LISTEN_ADDR", "DATA_DIR", "DATABASE_DIRECT_URL", "TLS_CERT_FILE", "TLS_KEY_FILE"}

// Every setting reaches the services of compose.yaml.
func TestComposePassesEverySetting(t *testing.T) {
	t.Parallel()
	var settings []string
	for field := range reflect.TypeFor[Settings]().Fields() {
		settings = append(settings, field.Tag.Get("from"))
	}

	composed, err := os.ReadFile("../../compose.yaml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
	}
	require.NoError(t, yaml.Unmarshal(composed, &file))
	web, worker := file.Services["web"].Environment, file.Services["worker"].Environment
	for _, name := range settings {
		if slices.Contains(notInCompose, name) {
			continue
		}
		_, ofWeb := web[name]
		_, ofWorker := worker[name]
		require.True(t, ofWeb || ofWorker, "compose.yaml does not pass %s", name)
	}
	for name := range web {
		require.Contains(t, settings, name, "compose.yaml passes what no process reads")
	}
}

// If only the web process has the folder of files, as in compose.yaml, that process removes unreferenced files.
func TestTheWebProcessTidiesUpItsFiles(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	serve := []string{
		"serve", "--listen-addr", "127.0.0.1:0", "--data-dir", dir, "--database-url", dbtest.Start(t),
		"--redis-url", dbtest.Redis(t),
	}
	web := start(t, serve...)
	dbtest.Await(t, time.Minute, "the mark of the store", func() bool {
		_, err := os.Stat(filepath.Join(dir, "assets", ".wending"))
		return err == nil
	})
	web.stopped(t)
	orphan := filepath.Join(dir, "assets", uuid.NewString(), "1-1", "p.png")
	require.NoError(t, os.MkdirAll(filepath.Dir(orphan), 0o700))
	require.NoError(t, os.WriteFile(orphan, []byte("p"), 0o600))
	old := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(orphan, old, old))
	start(t, serve...)
	dbtest.Await(t, time.Minute, "the orphan is gone", func() bool {
		_, err := os.Stat(orphan)
		return errors.Is(err, os.ErrNotExist)
	})
}
