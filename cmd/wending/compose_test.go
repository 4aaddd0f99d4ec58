package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"wending/db/dbtest"
)

// notInCompose are settings that compose.yaml decides itself or has no use for: the image sets address and folder, nothing is
// pooled, and a proxy has the certificate.
var notInCompose = []string{"LISTEN_ADDR", "DATA_DIR", "DATABASE_DIRECT_URL", "TLS_CERT_FILE", "TLS_KEY_FILE"}

// Every setting is in the README's table, and reaches the services of compose.yaml.
func TestComposePassesEverySetting(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(readme), "\n## Configuration\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	var documented []string
	for _, name := range regexp.MustCompile("`([A-Z][A-Z0-9_]{3,})`").FindAllStringSubmatch(table, -1) {
		documented = append(documented, name[1])
	}
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
		require.Contains(t, documented, name, "the README's table")
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

// Where only the web process has the folder of the files, as in compose.yaml, it removes what nothing points to.
func TestTheWebProcessTidiesUpItsFiles(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	serve := []string{"serve", "--listen-addr", "127.0.0.1:0", "--data-dir", dir, "--database-url", dbtest.Start(t), "--redis-url", dbtest.Redis(t)}
	web := start(t, serve...)
	dbtest.Await(t, 20*time.Second, "the mark of the store", func() bool {
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
	dbtest.Await(t, 20*time.Second, "the orphan is gone", func() bool {
		_, err := os.Stat(orphan)
		return errors.Is(err, os.ErrNotExist)
	})
}
