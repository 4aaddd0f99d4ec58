package people

import (
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"wending/db/people"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/cron"
	"wending/jobs/export"
	"wending/views/paths"
	"wending/views/system"
)

// moment parses a time in RFC 3339 format, or a day in Beijing time; for the last day of a range it returns the
// day's end.
func moment(name, text string, isLast bool) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if at, err = time.ParseInLocation(time.DateOnly, text, cron.Beijing); err == nil && isLast {
			at = at.AddDate(0, 0, 1)
		}
	}
	if err != nil {
		return nil, request.ParameterFault(name, request.ValidMoment()).WithCause(err)
	}
	return &at, nil
}

// auditFilter returns the filter that the parameters of the audit describe, or the faults of its times.
func auditFilter(actor, action, object, from, to string) (filter people.AuditFilter, err error) {
	filter = people.AuditFilter{Actor: request.SearchText(actor), Action: request.SearchText(action),
		Object: request.SearchText(object)}
	var first, last error
	filter.From, first = moment("from", strings.TrimSpace(from), false)
	filter.To, last = moment("to", strings.TrimSpace(to), true)
	return filter, errors.Join(first, last)
}

func (h *handler) showAudit(c echo.Context) error {
	ctx := c.Request().Context()
	view := system.Audit{Actor: c.QueryParam("actor"), Action: c.QueryParam("action"), Object: c.QueryParam("object"),
		From: c.QueryParam("from"), To: c.QueryParam("to"), Days: h.AuditDays}
	filter, err := auditFilter(view.Actor, view.Action, view.Object, view.From, view.To)
	if err != nil {
		return err
	}
	if c.QueryParam("format") == "csv" {
		return h.exportAudit(c, filter)
	}
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	total := 0
	if view.Entries, total, err = h.Audit.List(ctx, filter, page); err != nil {
		return err
	}
	query := url.Values{}
	for name, typed := range map[string]string{"actor": view.Actor, "action": view.Action, "object": view.Object,
		"from": view.From, "to": view.To} {
		if typed != "" {
			query.Set(name, typed)
		}
	}
	view.Pager = pages.NewPager(paths.Audit, query, page, total)
	if redirected, err := pages.RedirectPastEnd(c, view.Pager); redirected {
		return err
	}
	if view.Actions, err = h.Audit.Actions(ctx); err != nil {
		return err
	}
	if view.IsChecked = c.QueryParam("check") == "1"; view.IsChecked {
		broken, unsealed := (*people.BrokenChainError)(nil), (*people.AuditSealError)(nil)
		found, err := h.Audit.Verify(ctx)
		switch view.Count = found.Entries; {
		case errors.As(err, &broken):
			view.BrokenAt = broken.Seq
		case errors.As(err, &unsealed):
			view.IsUnsealed = true
		case err != nil:
			return err
		}
	}
	return pages.Render(c, http.StatusOK, system.AuditPage(h.frame(c, pages.Locale(c).Text("audit.title")), view))
}

// auditColumns are the columns of the exported CSV file.
var auditColumns = []string{
	"seq", "at", "actor", "actor_id", "token_id", "address", "via", "action", "object", "object_id", "object_name",
	"project_id", "project_name", "status",
	"before", "after", "request_id", "hash",
}

// exportAudit sends the entries that match as CSV, oldest first.
func (h *handler) exportAudit(c echo.Context, filter people.AuditFilter) error {
	ctx := c.Request().Context()
	name := func(e *people.AuditEntry) { e.Action, e.Object = "audit.export", "audit" }
	if err := request.Intend(ctx, name); err != nil {
		return err
	}
	leave, err := pages.Gates(c).Exports.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		header := c.Response().Header()
		header.Set(echo.HeaderContentType, "text/csv; charset=utf-8")
		header.Set("Content-Disposition", request.Attachment("audit.csv"))
		c.Response().WriteHeader(http.StatusOK)
		table, err := export.NewTable(c.Response(), auditColumns)
		if err != nil {
			return err
		}
		err = h.Audit.Each(ctx, filter, func(e people.AuditEntry) error {
			return table.Row([]string{
				strconv.FormatInt(e.Seq, 10), export.BeijingTime(e.At), e.Actor, e.ActorID, e.TokenID, e.Address, e.Via, e.Action,
				e.Object, e.ObjectID,
				e.ObjectName, e.ProjectID, e.ProjectName, strconv.Itoa(e.Status), e.Before, e.After, e.RequestID,
				hex.EncodeToString(e.Hash),
			})
		})
		return errors.Join(err, table.Close())
	}, leave)
}
