package people

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/engine"
	"wending/db/people"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/jobs/identity"
	"wending/views/paths"
	"wending/views/system"
	"wending/views/ui"
)

func (h *handler) listShares(c echo.Context) error {
	task, err := request.Task(c.Request().Context(), h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	view := system.Shares{Kind: c.QueryParam("kind"), Number: c.QueryParam("number")}
	if view.Chosen, view.Filters, err = h.filtered(c, task, identity.FiltersIn(c.QueryParams())); err != nil {
		return err
	}
	return h.renderShares(c, http.StatusOK, task, view)
}

// filtered returns the ids of the questions that the filters select, in ascending order, together with the filters;
// both are nil if the filters select all questions.
func (h *handler) filtered(c echo.Context, task db.Task, filters url.Values) ([]int64, url.Values, error) {
	asked := c.Request().Clone(c.Request().Context())
	asked.URL.RawQuery = filters.Encode()
	items, err := h.Choose(c.Echo().NewContext(asked, c.Response()), task)
	if err != nil || items == nil {
		return nil, nil, err
	}
	return append([]int64{}, slices.Sorted(maps.Keys(items))...), filters, nil
}

func (h *handler) renderShares(c echo.Context, status int, task db.Task, view system.Shares) error {
	view.TaskID, view.IsFinished = task.ID, task.HasResults
	var err error
	if view.List, err = h.people.Shares(c.Request().Context(), task.ID); err != nil {
		return err
	}
	if view.Open, err = review.New(h.Store).OpenByShare(c.Request().Context(), task.ID); err != nil {
		return err
	}
	title := pages.Locale(c).Text("share.title")
	frame := h.frame(c, title, pages.TaskCrumbs(c, task, ui.Crumb{Text: title})...)
	frame.Section, frame.Here = ui.SectionTasks, paths.Shares(task.ID)
	return pages.Render(c, status, system.SharesPage(frame, view))
}

// usualShareDays is the default lifetime of a link in days.
const usualShareDays = 7

// toShare returns what a new link is to show, as the form describes it. For a link to a replay, the form contains the
// id of a unit, or the id or the number of a question.
func (h *handler) toShare(ctx context.Context, task db.Task, submitted *form.Upload,
	field string) (n identity.ToShare, err error) {
	n = identity.ToShare{Kind: cmp.Or(people.ShareKind(submitted.Value("kind")), people.ShareReport),
		QuestionID: submitted.Value("question_id"), Days: days(submitted, field, usualShareDays),
		Comments: people.CommentMode(submitted.Value("comments"))}
	if unit := submitted.Value("unit_id"); unit != "" {
		if id, wrong := strconv.ParseInt(unit, 10, 64); wrong == nil && id > 0 {
			n.UnitID = id
		} else {
			n.UnitID = -1 // no unit has this id
		}
	}
	number, wrong := strconv.Atoi(submitted.Value("number"))
	if wrong == nil && number >= 1 && number <= task.TotalItems && n.Kind == people.ShareReplay {
		n.QuestionID, err = h.people.QuestionOf(ctx, task.ID, number)
	}
	return n, err
}

// makeShare creates a link to a task and returns its address. Unless only is nil, the link shows only the questions
// with these ids, which filters selected. field is the name of the form's field for the link's lifetime, and site
// begins the address.
func (h *handler) makeShare(ctx context.Context, task db.Task, submitted *form.Upload, only []int64, filters url.Values,
	field, site string) (share people.Share, address string, faults []form.FieldFault, err error) {
	n, err := h.toShare(ctx, task, submitted, field)
	if err != nil {
		return share, "", nil, err
	}
	if n.ItemIDs, n.Filters = only, filters.Encode(); only != nil && !submitted.Has("kind") {
		n.Kind = people.ShareResults
	}
	share, secret, err := h.identity.AddShare(ctx, task, request.From(ctx).Actor.Who(), n)
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
	view := system.Shares{Kind: submitted.Value("kind"), Number: submitted.Value("number")}
	if view.Chosen, view.Filters, err = h.filtered(c, task, identity.FiltersIn(c.QueryParams())); err != nil {
		return err
	}
	if view.Chosen != nil {
		submitted = submitted.With("kind", string(people.ShareResults))
	}
	_, address, faults, err := h.makeShare(c.Request().Context(), task, submitted, view.Chosen, view.Filters,
		"days", h.site(c.Request()))
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		view.Errors = form.Messages(pages.Locale(c), faults)
		return h.renderShares(c, http.StatusUnprocessableEntity, task, view)
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

// shared returns the link whose secret is in the path, with its task; if the link is not valid, the error is a fault.
func (h *handler) shared(c echo.Context) (share people.Share, task db.Task, err error) {
	header := c.Response().Header()
	header.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	header.Set("Referrer-Policy", "no-referrer")
	ctx, secret := c.Request().Context(), c.Param("secret")
	if len(secret) > 64 || strings.ContainsFunc(secret, func(r rune) bool { return r > 'z' }) {
		return share, task, &db.NotFoundError{Kind: people.KindShare}
	}
	share, err = h.people.ShareOf(ctx, secret)
	if errors.Is(err, db.ErrNotFound) {
		return share, task, request.NewFault(request.CodeNotFound).WithMessage("share.gone")
	}
	if err != nil {
		return share, task, err
	}
	// The link itself is the right to read, regardless of the task's project.
	task, err = h.Store.Task(ctx, db.AllProjects(), share.TaskID)
	return share, task, err
}

// sendShared returns a handler that sends a file, or its thumbnail, only if the page of the link shows it.
func (h *handler) sendShared(isThumbnail bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		share, task, err := h.shared(c)
		if err != nil {
			return err
		}
		id, err := pathID(c, "assetId", people.KindShare)
		if err != nil {
			return err
		}
		shown := engine.Shown{ItemID: share.ItemID, UnitID: share.UnitID, ItemIDs: share.ItemIDs}
		return h.SendFile(c, task.ID, id, shown, isThumbnail)
	}
}

// showShared shows what a link was made for, and nothing else, to anyone who has the link.
func (h *handler) showShared(c echo.Context) error {
	ctx, header := c.Request().Context(), c.Response().Header()
	share, task, err := h.shared(c)
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
	write, err := h.prepareShared(ctx, share, task, paths.Shared+"/"+c.Param("secret"))
	if err != nil {
		return err
	}
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		header.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
		header.Set(echo.HeaderContentSecurityPolicy, sharedPolicy())
		header.Set(echo.HeaderXContentTypeOptions, "nosniff")
		c.Response().WriteHeader(http.StatusOK)
		return write(ctx, c.Response())
	}, leave)
}

// sharedPolicy returns the content security policy of a link's page, whose pictures are below the link's own address.
func sharedPolicy() string {
	return strings.Replace(ui.DocumentPolicy(), "img-src data:", "img-src 'self'", 1)
}

// setOf returns the set of ids; nil for nil.
func setOf(ids []int64) map[int64]bool {
	if ids == nil {
		return nil
	}
	set := map[int64]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// prepareShared prepares the page of a link; write sends it.
func (h *handler) prepareShared(ctx context.Context, share people.Share, task db.Task,
	link string) (write func(context.Context, io.Writer) error, err error) {
	mayComment := share.Comments != people.CommentsOff
	switch {
	case share.Kind != people.ShareReplay:
		return reading.New(h.Store, h.Files).Document(ctx, task, reading.Contents{Link: link, MayComment: mayComment,
			OnlyAnswers: share.Kind == people.ShareResults, Only: setOf(share.ItemIDs)})
	case share.Number == nil: // the history of the unit's launch was removed, including the runs
		return nil, request.NewFault(request.CodeNotFound).WithMessage("share.gone")
	}
	return h.PrepareReplay(ctx, task, *share.Number, share.UnitID, link, mayComment)
}
