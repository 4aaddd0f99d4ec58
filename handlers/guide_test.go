package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/views/help"
)

// Every page links to the chapter and section that explain it, and they exist.
func TestEveryPageLeadsToItsChapter(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	without := []string{"/api/", "/static/", "/healthz", "/livez", "/readyz", "/metrics", "/help", "/files/"}
	checked := 0
	for _, route := range s.routes {
		isOther := false
		for _, beginning := range without {
			isOther = isOther || strings.HasPrefix(route.Path, beginning)
		}
		if route.Method != http.MethodGet || isOther {
			continue
		}
		place := help.Page(route.Path)
		require.NotEqual(t, "/help", place, "no chapter explains %s", route.Path)
		name, id, _ := strings.Cut(strings.TrimPrefix(place, "/help/"), "#")
		chapter, found := help.Find("en", name)
		require.True(t, found, place)
		var sections []string
		for _, section := range chapter.Sections {
			sections = append(sections, section.ID)
		}
		require.Contains(t, sections, id, "%s, of %s", place, route.Path)
		checked++
	}
	require.Greater(t, checked, 30)
	require.Equal(t, "/help/tasks#list", s.get(t, "/tasks").page(t).Find("header a.help").AttrOr("href", ""))
	require.Equal(t, "/help/tasks#create", s.get(t, "/").page(t).Find("header a.help").AttrOr("href", ""))
	refused := s.post(t, "/tasks", map[string]string{"task_name": ""})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Equal(t, "/help/tasks#create", refused.page(t).Find("header a.help").AttrOr("href", ""),
		"a refused form is the form")
}

// The guide can be read and searched without scripts, in the language of the request.
func TestTheGuideIsReadAndSearched(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	contents := s.get(t, "/help").page(t)
	require.Equal(t, len(help.Chapters("zh-CN")), contents.Find(".guide-chapters > li").Length())
	require.Equal(t, "/help", contents.Find("form.guide-search").AttrOr("action", ""))

	hits := s.get(t, "/help?q=%E9%99%90%E9%80%9F").page(t) // 限速
	require.NotZero(t, hits.Find(".guide-hits > li").Length())
	require.Equal(t, "限速", hits.Find(".guide-hits mark").First().Text())
	first := hits.Find(".guide-hits a").First().AttrOr("href", "")
	path, section, _ := strings.Cut(first, "#")
	require.Equal(t, 1, s.get(t, path).page(t).Find("section#"+section).Length(), first)

	hostile := s.get(t, "/help?q=%3Cscript%3Ealert(1)%3C/script%3E")
	require.Contains(t, hostile.page(t).Find("main [role=status]").Text(), "<script>alert(1)</script>", "as text")
	require.NotContains(t, string(hostile.body), "<script>alert")

	require.Equal(t, http.StatusNotFound, s.get(t, "/help/unknown").StatusCode)
	require.Equal(t, http.StatusNotFound, s.get(t, "/help/..%2Fen").StatusCode)
}
