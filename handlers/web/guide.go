package web

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/help"
	"wending/views/paths"
	"wending/views/ui"
)

// guideStyle is the style sheet of the guide.
const guideStyle = "help.css"

// showGuide shows the list of the guide's chapters, or the results of searching it.
func (p *Pages) showGuide(c echo.Context) error {
	locale, query := pages.Locale(c), strings.TrimSpace(c.QueryParam("q"))
	frame := pages.Frame(c, p.Version, locale.Text("guide.title"), "")
	frame.Styles = []string{guideStyle}
	return pages.Render(c, http.StatusOK, help.Contents(frame, query, help.Search(locale.Lang, query)))
}

// showChapter shows a chapter of the guide.
func (p *Pages) showChapter(c echo.Context) error {
	locale := pages.Locale(c)
	chapter, found := help.Find(locale.Lang, c.Param("chapter"))
	if !found {
		return request.NewFault(request.CodeNotFound)
	}
	crumbs := []ui.Crumb{{Text: locale.Text("guide.title"), Href: paths.Help}, {Text: chapter.Title}}
	frame := pages.Frame(c, p.Version, chapter.Title, "", crumbs...)
	frame.Styles = []string{guideStyle}
	return pages.Render(c, http.StatusOK, help.ChapterPage(frame, chapter))
}
