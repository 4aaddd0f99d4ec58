package views

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	usedKey     = regexp.MustCompile(`(?:\bt\(ctx|\.Text|\.TextWith)\(?,? ?"([a-z][\w.]*\w)"[,)]`)
	placeholder = regexp.MustCompile(`\{\{\.(\w+)\}\}`)
)

func texts(t *testing.T, lang string) map[string]string {
	t.Helper()
	content, err := os.ReadFile("locales/" + lang + ".json")
	require.NoError(t, err)
	var all map[string]string
	require.NoError(t, json.Unmarshal(content, &all))
	return all
}

// Every language has every text, none empty, with the same placeholders.
func TestCataloguesHaveTheSameTexts(t *testing.T) {
	t.Parallel()
	chinese := texts(t, "zh-CN")
	for _, lang := range Languages {
		other := texts(t, lang)
		require.Len(t, other, len(chinese))
		for key, text := range chinese {
			require.NotEmpty(t, other[key], "%s in %s", key, lang)
			require.ElementsMatch(t, placeholder.FindAllString(text, -1), placeholder.FindAllString(other[key], -1), "%s in %s", key, lang)
		}
	}
}

// Every key that stands in a template or a handler is in the catalogue.
func TestEveryKeyThatIsUsedIsInTheCatalogue(t *testing.T) {
	t.Parallel()
	chinese := texts(t, "zh-CN")
	templates, err := filepath.Glob("*.templ")
	require.NoError(t, err)
	sources, err := filepath.Glob("../handlers/*.go")
	require.NoError(t, err)
	used := 0
	for _, path := range append(templates, sources...) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range usedKey.FindAllStringSubmatch(string(content), -1) {
			used++
			require.Contains(t, chinese, match[1], path)
		}
	}
	require.Greater(t, used, 100)
}

// Whatever the reader of datasets finds wrong has a text: its problems are collected from its source.
func TestEveryProblemOfADatasetHasAText(t *testing.T) {
	t.Parallel()
	chinese := texts(t, "zh-CN")
	problems := regexp.MustCompile(`problem\(Code\w+, "(\w+)"`)
	rows := regexp.MustCompile(`fail\([^,]+, "(\w+)"|Problem: "(\w+)"`)
	sources, err := filepath.Glob("../jobs/dataset/*.go")
	require.NoError(t, err)
	found := 0
	for _, path := range sources {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range problems.FindAllStringSubmatch(string(content), -1) {
			found++
			require.Contains(t, chinese, "dataset."+match[1])
		}
		for _, match := range rows.FindAllStringSubmatch(string(content), -1) {
			found++
			require.Contains(t, chinese, "dataset.row."+match[1]+match[2])
		}
	}
	require.Greater(t, found, 20)
}

func TestATextIsFilledIn(t *testing.T) {
	t.Parallel()
	catalogue, err := NewCatalogue()
	require.NoError(t, err)
	require.Equal(t, "评测报告: <b>", catalogue.Locale("zh-CN", "").Text("results.title", "Name", "<b>"))
	require.Equal(t, "no.such.key", catalogue.Locale("en", "").Text("no.such.key"))
}

func TestHeadOfCutsAtCharacters(t *testing.T) {
	t.Parallel()
	head, isCut := headOf("长长长长", 3)
	require.Equal(t, "长长长", head)
	require.True(t, isCut)
	head, isCut = headOf("长长长", 3)
	require.Equal(t, "长长长", head)
	require.False(t, isCut)
}
