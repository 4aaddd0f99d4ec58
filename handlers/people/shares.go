package people

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/system"
	"wending/views/ui"
)

func (h *handler) listShares(c echo.Context) error {
	task, err := request.Task(c.Request().Context(), h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	return h.renderShares(c, http.StatusOK, task, system.Shares{})
}

func (h *handler) renderShares(c echo.Context, status int, task db.Task, view system.Shares) error {
	view.TaskID, view.IsFinished = task.ID, task.HasResults
	var err error
	if view.List, err = h.people.Shares(c.Request().Context(), task.ID); err != nil {
		return err
	}
	title := pages.Locale(c).Text("share.title")
	frame := h.frame(c, title, pages.TaskCrumbs(c, task, ui.Crumb{Text: title})...)
	frame.Section, frame.Here = ui.SectionTasks, paths.Shares(task.ID)
	return pages.Render(c, status, system.SharesPage(frame, view))
}

// usualShareDays is the default lifetime of a link in days.
const usualShareDays = 7

// makeShare creates a link to a task's report and returns its address.
func (h *handler) makeShare(ctx context.Context, task db.Task, submitted *form.Upload, field,
	site string) (share people.Share, address string, faults []form.FieldFault, err error) {
	share, secret, err := h.identity.AddShare(ctx, task, request.From(ctx).Actor.Who(),
		days(submitted, field, usualShareDays))
	if err != nil {
		faults, err = form.PersonFaults(err, map[string]string{"days": field})
		return share, "", faults, err
	}
	request.Made(ctx, share.ID.String(), task.Name)
	return share, site + paths.Shared + "/" + secret, nil, nil
}

// site returns the public address of this site.
func (h *handler) site(r *http.Request) string {
	if h.PublicURL != "" {
		return h.PublicURL
	}
	scheme := "http://"
	if h.Guard.IsSecure(r) {
		scheme = "https://"
	}
	return scheme + r.Host
}

func (h *handler) addShare(c echo.Context) error {
	task, err := request.Task(c.Request().Context(), h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	_, address, faults, err := h.makeShare(c.Request().Context(), task, submitted, "days", h.site(c.Request()))
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return h.renderShares(c, http.StatusUnprocessableEntity, task,
			system.Shares{Errors: form.Messages(pages.Locale(c), faults)})
	}
	return h.renderShares(c, http.StatusCreated, task, system.Shares{Address: address})
}

func (h *handler) revokeShare(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := request.Task(ctx, h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	id, err := pathID(c, "share", people.KindShare)
	if err != nil {
		return err
	}
	share, err := h.people.Share(ctx, id)
	if err != nil {
		return err
	}
	if share.TaskID != task.ID {
		return &db.NotFoundError{Kind: people.KindShare}
	}
	request.Made(ctx, share.ID.String(), task.Name)
	if err := h.people.RevokeShare(ctx, share.ID); err != nil {
		return err
	}
	return pages.Done(c, paths.Shares(task.ID), "unshared")
}

// showShared shows a report, and nothing else, to anyone who has a link to it. The link is checked again while a long
// report is being sent.
func (h *handler) showShared(c echo.Context) error {
	header := c.Response().Header()
	header.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	header.Set("Referrer-Policy", "no-referrer")
	ctx, secret := c.Request().Context(), c.Param("secret")
	if len(secret) > 64 || strings.ContainsFunc(secret, func(r rune) bool { return r > 'z' }) {
		return &db.NotFoundError{Kind: people.KindShare}
	}
	share, err := h.people.ShareOf(ctx, secret)
	if errors.Is(err, db.ErrNotFound) {
		return request.NewFault(request.CodeNotFound).WithMessage("share.gone")
	}
	if err != nil {
		return err
	}
	// The link itself is the right to read, regardless of the task's project.
	task, err := h.Store.Task(ctx, db.AllProjects(), share.TaskID)
	if err != nil {
		return err
	}
	err = h.Audit.Count(ctx, request.AuditEntry{
		Actor: "–", Via: request.From(ctx).Actor.Via, Action: "share.open", Object: "share", ObjectID: share.ID.String(),
		ObjectName: task.Name,
		ProjectID:  task.ProjectID.String(), Status: http.StatusOK,
	})
	if err != nil {
		return err
	}
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	write, err := reading.New(h.Store, h.Files).Document(ctx, task, reading.Contents{IsShared: true})
	if err != nil {
		return err
	}
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		header.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
		header.Set(echo.HeaderContentSecurityPolicy, results.DocumentPolicy())
		c.Response().WriteHeader(http.StatusOK)
		return write(ctx, c.Response())
	}, leave)
}
