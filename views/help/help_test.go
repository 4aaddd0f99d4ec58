package help_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/views/help"
	"wending/views/paths"
	"wending/views/text"
)

// anchors returns the addresses in the guide that links may lead to.
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

// Both languages have the same chapters and sections, none of them empty, and their links lead to existing places. (A
// missing picture makes the parser panic.)
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

// The longest prefix of a route decides which chapter explains its page.
func TestPagesHaveChapters(t *testing.T) {
	t.Parallel()
	for route, chapter := range map[string]string{
		"/":                            "/help/tasks#create",
		"/tasks":                       "/help/tasks#list",
		"/tasks/:taskId":               "/help/tasks#overview",
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

// quoted matches a label in quotes. In Chinese a label is a code span or quoted; in English it is bold.
var quoted = regexp.MustCompile(`“([^“”]+)”`)

// notLabels are texts that the help formats like labels although they are not labels: emphasis, options of other
// programs, and examples of texts on pages, in answers, and entered by users.
var notLabels = map[string]map[string]bool{
	"en": {"stable": true, "Stable": true, "Agreement": true, "95% confidence interval": true, "P50 / P90": true},
	"zh-CN": {
		"稳定": true, "可以": true, "不可以": true, "题目": true, "参考答案": true, "CSV UTF-8（逗号分隔）": true, "{{任意一列}}": true,
		"15 段相同 · 3 段少量不同": true, "答复期限 30 日 ×4 · 35 日 ×1 #4": true, "3~5 天": true, "35 天": true,
	},
}

var han = regexp.MustCompile(`\p{Han}`)

// labelsIn returns the labels that a section names.
func labelsIn(t *testing.T, lang string, section help.Section) (labels []string) {
	t.Helper()
	content, err := goquery.NewDocumentFromReader(strings.NewReader(section.HTML))
	require.NoError(t, err)
	content.Find("pre").Remove()
	add := func(name string) {
		if !notLabels[lang][name] {
			labels = append(labels, name)
		}
	}
	if lang == "en" {
		content.Find("strong").Each(func(_ int, bold *goquery.Selection) { add(bold.Text()) })
		return labels
	}
	content.Find("code").Each(func(_ int, code *goquery.Selection) {
		if name := code.Text(); han.MatchString(name) && !strings.HasPrefix(name, "wending ") {
			add(name)
		}
	})
	for _, name := range quoted.FindAllStringSubmatch(content.Find("body").Text(), -1) {
		add(name[1])
	}
	return labels
}

// keysOfTexts maps each text in the catalogues of a language to its keys. The texts have … in place of inserted
// values, and no counts in parentheses.
func keysOfTexts(t *testing.T, lang string) map[string]map[string]bool {
	t.Helper()
	keys := map[string]map[string]bool{}
	inserted := regexp.MustCompile(`\{\{\.\w+\}\}`)
	catalogues, err := filepath.Glob("../text/locales/*." + lang + ".json")
	require.NoError(t, err)
	for _, name := range catalogues {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		var entries map[string]any
		require.NoError(t, json.Unmarshal(content, &entries))
		for key, entry := range entries {
			if forms, hasForms := entry.(map[string]any); hasForms {
				entry = forms["other"]
			}
			label := strings.NewReplacer(" (…)", "", "（…）", "").Replace(inserted.ReplaceAllString(entry.(string), "…"))
			if keys[label] == nil {
				keys[label] = map[string]bool{}
			}
			keys[label][key] = true
		}
	}
	return keys
}

// Names that the guide uses are names on pages, and a section uses the same names in both languages.
func TestLabelsInTheGuideAreThoseOfPages(t *testing.T) {
	t.Parallel()
	named := map[string]map[string][]map[string]bool{} // by language and section: the keys of each label
	for _, lang := range text.Languages {
		named[lang] = map[string][]map[string]bool{}
		keys := keysOfTexts(t, lang)
		found := 0
		for _, chapter := range help.Chapters(lang) {
			for _, section := range chapter.Sections {
				place := chapter.Name + "#" + section.ID
				for _, label := range labelsIn(t, lang, section) {
					assert.NotEmpty(t, keys[label], "%s %s: no page has “%s”", lang, place, label)
					named[lang][place] = append(named[lang][place], keys[label])
					found++
				}
			}
		}
		require.Greater(t, found, 50)
	}
	for _, pair := range [][2]string{{"zh-CN", "en"}, {"en", "zh-CN"}} {
		for place, labels := range named[pair[0]] {
			for _, label := range labels {
				isNamed := slices.ContainsFunc(named[pair[1]][place], func(other map[string]bool) bool {
					return slices.ContainsFunc(slices.Collect(maps.Keys(label)), func(key string) bool { return other[key] })
				})
				assert.True(t, isNamed, "%s names %v in %s only", place, label, pair[0])
			}
		}
	}
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
	require.Equal(t, found("zh-CN", strings.Repeat("长", 100)), found("zh-CN", strings.Repeat("长", 1_000_000)),
		"a long query is cut")

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
