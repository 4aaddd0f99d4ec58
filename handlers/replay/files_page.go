package replay

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/journal"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/replay"
	"wending/views/ui"
)

// pageSize is how many files a page shows.
const pageSize = 60

// RegisterFilesPages adds the route.
func RegisterFilesPages(group *echo.Group, config FilesConfig) {
	h := &filesHandler{config}
	group.GET("/tasks/:taskId/gallery", h.show)
}

func (h *filesHandler) show(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := request.Task(ctx, h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	if c.QueryParam("page_size") == "" {
		page.Size = pageSize
	}
	view := replay.FilesView{Task: task, Kind: c.QueryParam("type")}
	query := url.Values{}
	if view.Kind != "" {
		if !slices.Contains(replay.FileKinds, view.Kind) {
			return request.ParameterFault("type", request.OneOf(replay.FileKinds...))
		}
		query.Set("type", view.Kind)
	}
	if view.Variant, err = pages.Variant(c, task); err != nil {
		return err
	}
	if view.Variant != 0 {
		query.Set("variant", strconv.Itoa(view.Variant))
	}
	if view.Counts, err = h.assets().Counts(ctx, task.ID); err != nil {
		return err
	}
	total := 0
	if view.Assets, total, err = h.assets().List(ctx, task.ID, journal.AssetFilter{Kind: view.Kind, Variant: view.Variant}, page); err != nil {
		return err
	}
	view.Pager = ui.Pager{Path: paths.Gallery(task.ID), Query: query, Page: page.Number, Size: page.Size, Total: total}
	if redirected, err := pages.RedirectPastEnd(c, view.Pager); redirected || err != nil {
		return err
	}
	return pages.Render(c, http.StatusOK, replay.FilesPage(h.frame(c, task), view))
}

func (h *filesHandler) frame(c echo.Context, task db.Task) ui.Frame {
	title := pages.Locale(c).Text("gallery.title")
	frame := pages.Frame(c, h.Version, title, ui.SectionTasks, pages.TaskCrumbs(c, task, ui.Crumb{Text: title})...)
	frame.Styles, frame.Scripts, frame.Width = []string{"report.css", "gallery.css"}, []string{"gallery.js"}, "wide"
	return frame
}
