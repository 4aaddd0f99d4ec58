package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/handlers/request"
)

// tableOf returns the rows of the table below a heading of a document, without the table's header.
func tableOf(t *testing.T, document, heading string) (rows [][]string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", document))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(content), "\n## "+heading+"\n")
	require.True(t, found, "%s has no section %q", document, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") {
			rows = append(rows, cells)
		}
	}
	require.NotEmpty(t, rows)
	return rows
}

var inCode = regexp.MustCompile("`([^`]+)`")

func codesIn(cell string) (codes []string) {
	for _, found := range inCode.FindAllStringSubmatch(cell, -1) {
		codes = append(codes, found[1])
	}
	return codes
}

// The table of settings lists every setting once, with its default.
func TestTheDocumentOfSettingsIsTheProgramsOwn(t *testing.T) {
	t.Parallel()
	documented := map[string]string{}
	for _, row := range tableOf(t, "cmd/wending/README.md", "Settings") {
		names, defaults := codesIn(row[0]), codesIn(row[1])
		for n, name := range names {
			require.NotContains(t, documented, name)
			documented[name] = ""
			if len(defaults) > 0 {
				require.Len(t, defaults, len(names), "%v", names)
				documented[name] = defaults[n]
			}
		}
	}
	settings := map[string]string{}
	for field := range reflect.TypeFor[Settings]().Fields() {
		settings[field.Tag.Get("from")] = field.Tag.Get("default")
	}
	require.Equal(t, settings, documented)
}

// The API's table of error codes lists every code once, with its status.
func TestTheDocumentOfErrorCodesIsTheProgramsOwn(t *testing.T) {
	t.Parallel()
	documented := map[string]string{}
	for _, row := range tableOf(t, "handlers/README.md", "Error codes") {
		for _, code := range codesIn(row[0]) {
			require.NotContains(t, documented, code)
			documented[code] = row[1]
		}
	}
	codes := map[string]string{}
	for _, code := range request.FaultCodes() {
		codes[code] = strconv.Itoa(request.StatusOf(code))
	}
	require.Equal(t, codes, documented)
}

// The table of possible outcomes of a run lists every code that pages explain.
func TestTheDocumentOfFailuresIsTheCatalogues(t *testing.T) {
	t.Parallel()
	var documented, explained []string
	for _, row := range tableOf(t, "jobs/README.md", "Why a run failed") {
		code, _, _ := strings.Cut(codesIn(row[0])[0], "_<")
		documented = append(documented, code)
	}
	catalogues, err := filepath.Glob("../../views/text/locales/*.en.json")
	require.NoError(t, err)
	require.NotEmpty(t, catalogues)
	for _, path := range catalogues {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		var texts map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(content, &texts))
		for key := range texts {
			if code, isCode := strings.CutPrefix(key, "run.error."); isCode {
				explained = append(explained, code)
			}
		}
	}
	require.ElementsMatch(t, explained, documented)
}

// The document and the help of `wending eval` describe the same exit codes.
func TestTheDocumentHasTheExitCodes(t *testing.T) {
	t.Parallel()
	field, found := reflect.TypeFor[commands]().FieldByName("Eval")
	require.True(t, found)
	require.Contains(t, field.Tag.Get("help"),
		"exits with 0 if it passed, 1 if it is below a limit, 2 if it could not run")
	content, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Regexp(t, `exits with 0 if it passed, 1 if [^.]+, 2 if it could not run`,
		strings.ReplaceAll(string(content), "\n", " "))
}

// The README is short, and complete in both languages.
func TestTheReadmeIsShort(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(content), "\n"), 150)
	chinese, english, found := strings.Cut(string(content), "\n## English\n")
	require.True(t, found)
	_, chinese, found = strings.Cut(chinese, "\n## 中文\n")
	require.True(t, found)
	links := func(part string) (aims []string) {
		for _, found := range link.FindAllStringSubmatch(part, -1) {
			aims = append(aims, strings.ReplaceAll(found[1], "/zh-CN/", "/en/")+found[2])
		}
		slices.Sort(aims)
		return slices.Compact(aims)
	}
	require.Equal(t, links(english), links(chinese))
	for _, part := range []string{chinese, english} {
		require.Equal(t, 3, strings.Count(part, "\n### "))
		require.Len(t, regexp.MustCompile(`(?m)^\d\. \*\*`).FindAllString(part, -1), 5, "promises")
		require.Equal(t, 5, strings.Count(part, "Proof: ")+strings.Count(part, "证明："), "each with its proof")
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)

// documents are the paths of the repository's documents.
var documents = []string{
	"README.md", "CONTRIBUTING.md", "cmd/wending/README.md", "handlers/README.md", "jobs/README.md", "jobs/RESULTS.md",
}

// Links between the documents lead to files and headings that exist.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, document := range documents {
		path := filepath.Join("..", "..", document)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(string(content), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			target := path
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(path), filepath.FromSlash(found[1]))
			}
			aim, err := os.ReadFile(target)
			require.NoError(t, err, "%s: %s", document, found[0])
			if anchor := strings.TrimPrefix(found[2], "#"); anchor != "" {
				require.Contains(t, anchorsOf(string(aim)), anchor, "%s: %s", document, found[0])
			}
		}
	}
}

// ownPath matches a package or file that a document names relative to the repository's root.
var ownPath = regexp.MustCompile("`((?:cmd|db|handlers|jobs|static|views)/[\\w./-]+)`")

// Packages and files that the documents mention exist.
func TestDocumentsNameWhatExists(t *testing.T) {
	t.Parallel()
	for _, document := range documents {
		content, err := os.ReadFile(filepath.Join("..", "..", document))
		require.NoError(t, err)
		for _, named := range ownPath.FindAllStringSubmatch(string(content), -1) {
			_, err := os.Stat(filepath.Join("..", "..", named[1]))
			require.NoError(t, err, "%s names %s", document, named[1])
		}
	}
}

// anchorsOf returns the anchors that a Markdown page has for its headings.
func anchorsOf(markdown string) (anchors []string) {
	for line := range strings.Lines(markdown) {
		if title, isHeading := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); isHeading &&
			strings.HasPrefix(line, "#") {
			title = regexp.MustCompile(`[^\p{L}\p{N}\- ]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			anchors = append(anchors, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return anchors
}
