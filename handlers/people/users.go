package people

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/identity"
	"wending/views/paths"
	"wending/views/system"
	"wending/views/ui"
)

func (h *handler) listUsers(c echo.Context) error {
	var typed map[string]string // restored in the form after signing in again
	if c.QueryParams().Has(fieldsOfUser[0]) {
		typed = map[string]string{}
		for _, name := range fieldsOfUser {
			typed[name] = c.QueryParam(name)
		}
	}
	return h.renderUsers(c, http.StatusOK, system.Users{Values: typed})
}

// fieldsOfUser are the fields of the form for a new account, except the password.
var fieldsOfUser = []string{"name", "role", "project_id", "is_admin", "must_change_password"}

// renderUsers shows a page of the list of accounts; users holds what was typed for a new account, and the errors in it.
func (h *handler) renderUsers(c echo.Context, status int, users system.Users) error {
	ctx := c.Request().Context()
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	users.Query, users.HasPasswords = request.SearchText(c.QueryParam("query")), h.HasPasswords
	total := 0
	if users.List, total, err = h.people.Users(ctx, users.Query, page); err != nil {
		return err
	}
	query := url.Values{}
	if users.Query != "" {
		query.Set("query", users.Query)
	}
	users.Pager = pages.NewPager(paths.Users, query, page, total)
	if redirected, err := pages.RedirectPastEnd(c, users.Pager); redirected {
		return err
	}
	if users.Projects, err = h.people.Projects(ctx); err != nil {
		return err
	}
	frame := h.frame(c, pages.Locale(c).Text("users.title"))
	return pages.Render(c, status, system.UsersPage(frame, users))
}

// addUser creates an account with its first project.
func (h *handler) addUser(c echo.Context) error {
	submitted, err := read(c)
	if err != nil {
		return err
	}
	typed, back := map[string]string{}, url.Values{}
	for _, name := range fieldsOfUser {
		typed[name] = submitted.Values[name]
		back.Set(name, typed[name])
	}
	user, faults, err := h.makeUser(c.Request().Context(), submitted)
	switch {
	case errors.Is(err, request.ErrStale):
		return h.renderUsers(c, http.StatusForbidden,
			system.Users{Values: typed, SignInAgain: paths.LoginAgain(paths.WithQuery(paths.Users, back))})
	case err != nil:
		return err
	case len(faults) > 0:
		return h.renderUsers(c, http.StatusUnprocessableEntity,
			system.Users{Values: typed, Errors: form.Messages(pages.Locale(c), faults)})
	}
	return pages.Done(c, paths.User(user.ID), "created")
}

// makeUser creates the account that a form or an endpoint's body describes.
func (h *handler) makeUser(ctx context.Context,
	submitted *form.Upload) (user people.User, faults []form.FieldFault, err error) {
	if !h.HasPasswords {
		return user, nil, identity.ErrOfProvider
	}
	// Somebody who finds the browser open must not create an account, because it outlives the session.
	if err := request.RequireFresh(ctx); err != nil {
		return user, nil, err
	}
	isAdmin, wrongAdmin := form.Flag(submitted, "is_admin")
	mustChange, wrongChange := form.Flag(submitted, "must_change_password")
	project, wrongProject, err := h.namedProject(ctx, submitted)
	if err != nil {
		return user, nil, err
	}
	if faults = slices.Concat(form.OnlyTexts(submitted, "name"), wrongAdmin, wrongChange, wrongProject); len(faults) > 0 {
		return user, faults, nil
	}
	draft, err := h.identity.DraftUser(ctx, identity.NewUser{
		Name: submitted.Values["name"], Password: submitted.Values["password"], IsAdmin: isAdmin, MustChange: mustChange,
		ProjectID: project, Role: people.Role(cmp.Or(submitted.Value("role"), string(people.Viewer))),
	})
	if err != nil {
		faults, err = form.PersonFaults(err, nil)
		return user, faults, err
	}
	if user, err = h.identity.AddUser(ctx, draft); err != nil {
		return user, nil, err
	}
	request.Made(ctx, user.ID.String(), user.Name)
	request.Changed(ctx, nil, map[string]any{"is_admin": isAdmin, "must_change_password": mustChange,
		"project_id": project, "role": draft.Role()})
	return user, nil, nil
}

// namedProject returns the id of the project in a form's field project_id; by default, the first project.
func (h *handler) namedProject(ctx context.Context,
	submitted *form.Upload) (id uuid.UUID, faults []form.FieldFault, err error) {
	text := submitted.Value("project_id")
	if text == "" {
		return db.DefaultProject, nil, nil
	}
	project, err := h.projectByID(ctx, text)
	if errors.Is(err, db.ErrNotFound) {
		return id, []form.FieldFault{{Field: "project_id", Fault: request.FieldFault("project_id", request.ValidEntries())}},
			nil
	}
	return project.ID, nil, err
}

// user returns the account whose id is in the path.
func (h *handler) user(c echo.Context) (people.User, error) {
	id, err := pathID(c, "user", people.KindUser)
	if err != nil {
		return people.User{}, err
	}
	return h.people.User(c.Request().Context(), id)
}

func (h *handler) showUser(c echo.Context) error {
	user, err := h.user(c)
	if err != nil {
		return err
	}
	return h.renderUser(c, http.StatusOK, system.User{User: user})
}

// renderUser shows the account in view, with the errors in what was typed.
func (h *handler) renderUser(c echo.Context, status int, view system.User) error {
	ctx, user := c.Request().Context(), view.User
	var err error
	if view.Projects, err = h.people.MembershipsOf(ctx, user.ID); err != nil {
		return err
	}
	if view.Sessions, err = h.people.Sessions(ctx, user.ID); err != nil {
		return err
	}
	frame := h.frame(c, user.Name, ui.Crumb{Text: pages.Locale(c).Text("users.title"), Href: paths.Users},
		ui.Crumb{Text: user.Name})
	frame.Here = paths.User(user.ID)
	return pages.Render(c, status, system.UserPage(frame, view))
}

// changeUser applies the changes to an account that a form or a body describes: all of them or, if one is invalid,
// none.
func (h *handler) changeUser(ctx context.Context, user people.User,
	submitted *form.Upload) (faults []form.FieldFault, err error) {
	if err := request.RequireFresh(ctx); err != nil {
		return nil, err
	}
	var change identity.Change
	before, after := map[string]any{}, map[string]any{}
	flag := func(field string, is bool, to **bool) {
		if !submitted.Has(field) {
			return
		}
		value, wrong := form.Flag(submitted, field)
		faults = append(faults, wrong...)
		*to, before[field], after[field] = &value, is, value
	}
	flag("is_admin", user.IsAdmin, &change.IsAdmin)
	flag("is_disabled", user.DisabledAt != nil, &change.IsDisabled)
	if submitted.Has("password") {
		text := submitted.Values["password"]
		change.Password, after["replaced_secrets"] = &text, []string{"password"}
	}
	if len(faults) > 0 {
		return faults, nil
	}
	request.Made(ctx, user.ID.String(), user.Name)
	request.Changed(ctx, before, after)
	if err := h.identity.ChangeUser(ctx, user, change); err != nil {
		return form.PersonFaults(err, nil)
	}
	return nil, nil
}

// applyUser changes an account as a form describes; if the change is refused, it shows the page with the reason.
func (h *handler) applyUser(c echo.Context) error {
	user, err := h.user(c)
	if err != nil {
		return err
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	faults, err := h.changeUser(c.Request().Context(), user, submitted)
	switch {
	case errors.Is(err, request.ErrStale):
		return h.renderUser(c, http.StatusForbidden,
			system.User{User: user, SignInAgain: paths.LoginAgain(paths.User(user.ID))})
	case errors.Is(err, people.ErrLastAdmin):
		return h.renderUser(c, http.StatusUnprocessableEntity,
			system.User{User: user, Errors: map[string]string{"": pages.Locale(c).Text("users.last_admin")}})
	case err != nil:
		return err
	case len(faults) > 0:
		return h.renderUser(c, http.StatusUnprocessableEntity,
			system.User{User: user, Errors: form.Messages(pages.Locale(c), faults)})
	}
	return pages.Done(c, paths.User(user.ID), "saved")
}

func (h *handler) endSessionsOf(c echo.Context) error {
	user, err := h.user(c)
	if err != nil {
		return err
	}
	request.Made(c.Request().Context(), user.ID.String(), user.Name)
	if err := h.people.EndSessions(c.Request().Context(), user.ID, nil); err != nil {
		return err
	}
	return pages.Done(c, paths.User(user.ID), "ended")
}
