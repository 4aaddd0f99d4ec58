package library

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db/entries"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/courier/notify"
	"wending/views/notice"
	"wending/views/paths"
	"wending/views/saved"
)

func (h *handler) channels() kind[entries.Channel] {
	rows := h.Library.Entries.Channels
	return kind[entries.Channel]{
		kind: saved.Channels, rows: rows, entry: func(c entries.Channel) entries.Entry { return c.Entry },
		cells: func(c echo.Context, row entries.Channel) []saved.Cell {
			l := pages.Locale(c)
			where := row.URL
			if where == "" {
				where = strings.ReplaceAll(row.Recipients, ",", ", ")
			}
			scope := saved.Cell{Text: l.Text("channel.chosen"), Class: "quiet"}
			if row.IsDefault {
				scope = saved.Cell{Text: l.Text("channel.default")}
			}
			return []saved.Cell{{Text: l.Text("channel.kind." + row.Kind)}, {Text: where, Class: "cut"}, scope,
				testCell(c, row.Test)}
		},
		fill: h.fillChannel, save: h.saver.Channel, remove: removing(rows), address: "kind",
		secrets: []string{"url", "secret"},
	}
}

// fillChannel fills the form with a channel or, for a new one, with the defaults for the kind in the query.
func (h *handler) fillChannel(c echo.Context, view *saved.Form, row *entries.Channel) error {
	ctx := c.Request().Context()
	view.HasMail = h.Library.Sender.HasMail()
	values := map[string]string{
		"kind": c.QueryParam("kind"), "events": "finished,failed,stopped,alert", "lang_of_messages": pages.Locale(c).Lang,
		"is_default": "true",
	}
	if row != nil {
		values = map[string]string{
			"kind": row.Kind, "name": row.Name, "to": strings.ReplaceAll(row.Recipients, ",", "\n"),
			"events":           strings.Join(row.Events, ","),
			"lang_of_messages": row.Lang, "is_default": strconv.FormatBool(row.IsDefault),
		}
		if row.SealedURL != nil {
			view.Saved["url"] = row.URL
		}
		if row.SealedSecret != nil {
			view.Saved["secret"] = pages.Locale(c).Text("channel.secret")
		}
		window, err := pages.Window(c)
		if err != nil {
			return err
		}
		found, total, err := h.Library.Outbox.List(ctx, row.ID, window.Offset(), window.Size)
		if err != nil {
			return err
		}
		view.Deliveries = found
		view.Pager = pages.NewPager(paths.LibraryEntry(string(saved.Channels), row.ID), url.Values{}, window, total)
	}
	put(view, values)
	if !slices.Contains(notify.Kinds, notify.Kind(view.Values["kind"])) {
		view.Values["kind"] = ""
	}
	return nil
}

// testChannel sends a test message to a saved channel.
func (h *handler) testChannel(c echo.Context) error {
	ctx, l := c.Request().Context(), pages.Locale(c)
	row, err := h.channels().named(c, c.Param("id"))
	if err != nil {
		return err
	}
	leave, err := pages.Gates(c).Probes.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	outcome, err := h.Library.TestChannel(ctx, request.ScopeOf(ctx), *row, notice.Test(l.In(row.Lang), *row))
	if err != nil {
		return err
	}
	path := paths.LibraryEntry(string(saved.Channels), row.ID)
	if outcome.Error != "" {
		return pages.Done(c, path, "untested")
	}
	return pages.Done(c, path, "tested")
}

// sendAgain makes a delivery due now, and redirects to the page of the task named in the form or, without one, of the
// channel.
func (h *handler) sendAgain(c echo.Context) error {
	row, err := h.channels().named(c, c.Param("id"))
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(c.Param("delivery"), 10, 64)
	if err != nil {
		return request.NewFault(request.CodeNotFound)
	}
	if err := h.Library.Outbox.SendAgain(c.Request().Context(), row.ID, number); err != nil {
		return err
	}
	if task, err := uuid.Parse(c.FormValue("task")); err == nil {
		return pages.Done(c, paths.Task(task), "again")
	}
	return pages.Done(c, paths.LibraryEntry(string(saved.Channels), row.ID), "again")
}
