package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/views/help"
	"wending/views/paths"
	"wending/views/text"
)

// Figures lead to the sections of the guide that explain them, and every section of the guide that a page links to
// exists, in each language.
func TestFiguresAreExplained(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, several := s.sliced(t), s.twoVariants(t)
	hook := newReceiver(t, always(200))
	schedule := s.schedule(t, "夜", id,
		object{"channels": []string{s.channel(t, "hook", hook.URL, object{"events": []string{"finished"}})}})
	s.fire(t, schedule, hook)
	for _, lang := range text.Languages {
		known := map[string]bool{paths.Help: true}
		for _, chapter := range help.Chapters(lang) {
			known[paths.HelpChapter(chapter.Name, "")] = true
			for _, section := range chapter.Sections {
				known[paths.HelpChapter(chapter.Name, section.ID)] = true
			}
		}
		for path, figures := range map[string]int{
			"/tasks/" + id: 12, "/tasks/" + several + "?variant=2": 8, "/tasks/" + id + "/report?by=category": 10,
			"/tasks/" + several + "/report":   8,
			"/tasks/" + several + "/variants": 10, "/comparison?a=" + id + "&b=" + id: 5, "/library/schedules/" + schedule: 2,
			"/tasks": 0, "/tasks/" + id + "/results": 0, "/tasks/" + id + "/review": 0, "/tasks/" + id + "/gallery": 0,
			"/tasks/" + id + "/settings": 0, "/": 0, "/compare": 0, "/library/datasets": 0,
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
			require.NoError(t, err)
			request.AddCookie(&http.Cookie{Name: "lang", Value: lang})
			answer := s.do(t, request)
			require.Equal(t, http.StatusOK, answer.StatusCode, path)
			page := answer.page(t)
			require.GreaterOrEqual(t, page.Find("main a.why").Length(), figures, path)
			page.Find("a[href^='" + paths.Help + "']").Each(func(_ int, link *goquery.Selection) {
				require.True(t, known[link.AttrOr("href", "")], "%s: %s", path, link.AttrOr("href", ""))
			})
			page.Find("main a.why").Each(func(_ int, link *goquery.Selection) {
				require.Contains(t, link.AttrOr("href", ""), "#", path)
				require.NotEmpty(t, strings.TrimSpace(link.AttrOr("aria-label", "")), path)
				require.Equal(t, "_blank", link.AttrOr("target", ""), "the reader keeps the place: %s", path)
			})
		}
	}
	document := s.get(t, "/tasks/"+id+"/results/print").page(t)
	require.Zero(t, document.Find("a.why").Length(), "a document is read away from the guide")
}

// The page of a run shows how its answer compares: its letter among those of the other runs, which link to their pages;
// the standard answer; the facts on which the answers differ; and the differences from the most common answer.
func TestARunShowsWhereItsAnswerStands(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.twoVariants(t)
	answers := s.get(t, "/tasks/"+id+"/results/1?variant=2").Header.Get("Location")
	merged, _, _ := strings.Cut(answers, "#")
	letters := s.get(t, merged+"&view=merged").page(t).Find("article.result[data-number='1'] .variant.is-row").Eq(1).
		Find(".strip a")
	require.Equal(t, 4, letters.Length(), "the letters of a variant lead to its runs")
	rare := letters.FilterFunction(func(_ int, letter *goquery.Selection) bool { return letter.Text() == "B" }).First()
	page := s.get(t, rare.AttrOr("href", "")).page(t)
	require.Equal(t, "B", page.Find(".named a.letter").Text())
	require.Contains(t, page.Find(".named a.letter").AttrOr("href", ""), "/results/1?variant=2")
	require.Equal(t, 4, page.Find(".beside-run .strip a").Length())
	require.Equal(t, "B", page.Find(".beside-run .strip [aria-current]").Text())
	require.Contains(t, page.Find(".standard").Text(), "a")
	stated := page.Find("ul.stated").Text()
	require.Contains(t, stated, "14 日")
	require.Contains(t, stated, "19 日")
	marked := page.Find(".answer .segments a[href*='text=marked']").AttrOr("href", "")
	require.Positive(t, s.get(t, marked).page(t).Find(".answer ins, .answer del").Length())
	page.Find(".beside-run .strip a").Each(func(_ int, letter *goquery.Selection) {
		other := s.get(t, letter.AttrOr("href", "")).page(t)
		require.Equal(t, letter.Text(), other.Find(".named a.letter").Text())
	})
}
