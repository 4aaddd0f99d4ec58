package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
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
