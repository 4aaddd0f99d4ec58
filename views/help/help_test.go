package help_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/views/help"
	"wending/views/paths"
	"wending/views/text"
)

// anchors returns the addresses in the guide that links may have.
func anchors(lang string) map[string]bool {
	known := map[string]bool{}
	for _, chapter := range help.Chapters(lang) {
		known[paths.HelpChapter(chapter.Name, "")] = true
		for _, section := range chapter.Sections {
			known[paths.HelpChapter(chapter.Name, section.ID)] = true
		}
	}
	return known
}

// Both languages have the same chapters and sections, with content, whose links lead to existing places. (A picture
// that does not exist panics.)
func TestTheGuideIsWholeInEveryLanguage(t *testing.T) {
	t.Parallel()
	require.Equal(t, anchors("en"), anchors("zh-CN"))
	for _, lang := range text.Languages {
		known := anchors(lang)
		require.GreaterOrEqual(t, len(help.Chapters(lang)), 14)
		for _, chapter := range help.Chapters(lang) {
			require.NotEmpty(t, chapter.Title)
			require.NotEmpty(t, chapter.Lead, chapter.Name)
			require.NotContains(t, chapter.Lead, "\n", chapter.Name)
			for _, section := range chapter.Sections {
				name := lang + " " + chapter.Name + "#" + section.ID
				require.Regexp(t, `^[a-z][a-z-]*$`, section.ID, name)
				content, err := goquery.NewDocumentFromReader(strings.NewReader(section.HTML))
				require.NoError(t, err)
				require.NotEmpty(t, strings.TrimSpace(content.Text()), name)
				content.Find("a").Each(func(_ int, link *goquery.Selection) {
					href := link.AttrOr("href", "")
					if strings.HasPrefix(href, paths.Help) {
						require.True(t, known[href], "%s: %s", name, href)
					}
				})
				content.Find("img").Each(func(_ int, picture *goquery.Selection) {
					require.NotEmpty(t, picture.AttrOr("alt", ""), name)
				})
			}
		}
	}
}

// The longest beginning of a route decides which chapter explains its page.
func TestPagesHaveChapters(t *testing.T) {
	t.Parallel()
	for route, chapter := range map[string]string{
		"/":                            "/help/tasks#create",
		"/tasks":                       "/help/tasks#list",
		"/tasks/:taskId":               "/help/tasks#page",
		"/tasks/:taskId/results":       "/help/answers#read",
		"/tasks/:taskId/units/:unitId": "/help/replay#live",
		"/library/prompts/new":         "/help/library#prompts",
		"/library/prompts/:id":         "/help/library#prompts",
		"":                             "/help",
		"/unknown":                     "/help",
	} {
		require.Equal(t, chapter, help.Page(route), route)
	}
}

// label matches a code span that consists of Chinese: the name of a part of a page.
var label = regexp.MustCompile("`(\\p{Han}+)`")

// The names that the guide uses for parts of pages are the names on the pages.
func TestLabelsInTheGuideAreThoseOfPages(t *testing.T) {
	t.Parallel()
	catalogues, err := filepath.Glob("../text/locales/*.zh-CN.json")
	require.NoError(t, err)
	var texts strings.Builder
	for _, name := range catalogues {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		texts.Write(content)
	}
	chapters, err := filepath.Glob("zh-CN/*.md")
	require.NoError(t, err)
	found := 0
	for _, name := range chapters {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, named := range label.FindAllStringSubmatch(string(content), -1) {
			require.Contains(t, texts.String(), `: "`+named[1]+`"`, name)
			found++
		}
	}
	require.Greater(t, found, 20)
}

func TestTheGuideIsSearched(t *testing.T) {
	t.Parallel()
	found := func(lang, query string) (places []string) {
		for _, hit := range help.Search(lang, query) {
			places = append(places, hit.Chapter.Name+"#"+hit.Section.ID)
		}
		return places
	}
	require.Empty(t, found("en", "   "))
	require.Empty(t, found("en", "nothing-of-this-name"))
	require.Equal(t, "conversations#failed", found("en", "TURN_NOT_reached")[0], "whatever its case")
	require.Equal(t, "tasks#stop", found("en", "stop resume")[0], "titles come first, and every word counts")
	require.Equal(t, "answers#levels", found("zh-CN", "一致程度")[0])
	require.Contains(t, found("zh-CN", "ＧＢＫ"), "datasets#encoding", "full width is half width")
	require.Equal(t, found("zh-CN", strings.Repeat("长", 100)), found("zh-CN", strings.Repeat("长", 1_000_000)), "a long query is cut")

	hit := help.Search("zh-CN", "漏掉 Webhook 签名 ")
	require.Empty(t, hit)
	var marked []string
	for _, part := range help.Search("en", "cron fields")[0].Excerpt {
		if part.IsHit {
			marked = append(marked, strings.ToLower(part.Text))
		}
	}
	require.Equal(t, []string{"cron", "fields"}, marked)
}

// Excerpts are plain text, not Markdown.
func TestExcerptsHaveNoMarks(t *testing.T) {
	t.Parallel()
	marks := regexp.MustCompile("\\*\\*|`|\\{#|^\\||\\]\\(")
	for _, lang := range text.Languages {
		for _, hit := range help.Search(lang, "e") {
			var excerpt strings.Builder
			for _, part := range hit.Excerpt {
				excerpt.WriteString(part.Text)
			}
			require.NotRegexp(t, marks, excerpt.String(), hit.Chapter.Name)
		}
	}
}
