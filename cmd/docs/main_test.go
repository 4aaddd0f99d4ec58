package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CONTRIBUTING.md lists the packages with their doc comments; `make generate` writes the list.
func TestTheListOfPackagesIsUpToDate(t *testing.T) {
	t.Parallel()
	list, err := packages(filepath.Join("..", ".."))
	require.NoError(t, err)
	document, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	require.Contains(t, string(document), "<!-- packages -->\n\n"+list+"\n\n<!-- /packages -->", "run make generate")
}

func write(t *testing.T, folder, name, content string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestPackagesAreListedWithTheirFirstSentence(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, "a/a.go", "package a\n")
	write(t, folder, "a/doc.templ", "// Package a keeps\n// things. And more.\npackage a\n")
	write(t, folder, "b/testdata/c.go", "package c\n")
	write(t, folder, "b/b.go", "// Package b has x | y.\npackage b\n")
	list, err := packages(folder)
	require.NoError(t, err)
	require.Equal(t, "| a | |\n| --- | --- |\n| `a` | keeps things |\n\n| b | |\n| --- | --- |\n| `b` | has x \\| y |",
		list)

	write(t, folder, "b/d/d.go", "package d\n")
	_, err = packages(folder)
	require.EqualError(t, err, "b/d has no package comment")
}

func TestResultsAreKeptInTheirPart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, "x_test.go", "package x\n\n// How long one takes. More.\nfunc BenchmarkOne(b *testing.B) {\n")
	document := write(t, folder, "RESULTS.md",
		"# Results\n<!-- chaos -->\nold\n<!-- /chaos -->\n<!-- bench -->\n<!-- /bench -->\nend\n")
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	result := func() string {
		content, err := os.ReadFile(document)
		require.NoError(t, err)
		return string(content)
	}

	require.NoError(t, run([]string{"output", document, "chaos", "v1"}, folder, strings.NewReader("lost 0\n"), now))
	require.Contains(t, result(), "Version `v1`, 2026-11-23, ")
	require.Contains(t, result(), "```\nlost 0\n```\n\n<!-- /chaos -->\n<!-- bench -->")
	require.NotContains(t, result(), "old")

	printed :=
		"goos: linux\nBenchmarkOne/a_part-2 \t       1\t 12.5 ms\t  99 %ofideal\nBenchmarkOne/other-2 \t 1\t 3 ms\nPASS\n"
	require.NoError(t, run([]string{"benchmarks", document, "bench", "v1"}, folder, strings.NewReader(printed), now))
	require.Contains(t, result(),
		"| `BenchmarkOne` | How long one takes | a part | 12.5 ms · 99 %ofideal |\n|  |  | other | 3 ms |\n\n<!-- /bench -->\nend\n")

	before := result()
	require.ErrorContains(t, run([]string{"benchmarks", document, "bench", "v1"}, folder, strings.NewReader("FAIL\n"),
		now), "nothing was printed")
	require.ErrorContains(t, run([]string{"output", document, "hostile", "v1"}, folder, strings.NewReader("x"), now),
		`no part "hostile"`)
	require.Equal(t, before, result())
}
