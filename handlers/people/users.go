package people

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/db/project"
	"wending/handlers/fault"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	views "wending/views/people"
	"wending/views/ui"
)

func (h *handler) listUsers(c echo.Context) error {
	var typed map[string]string // before signing in again
	if c.QueryParams().Has(fieldsOfUser[0]) {
		typed = map[string]string{}
		for _, name := range fieldsOfUser {
			typed[name] = c.QueryParam(name)
		}
	}
	return h.renderUsers(c, http.StatusOK, views.Users{Values: typed})
}

// fieldsOfUser are what is typed for a new account, without its password.
var fieldsOfUser = []string{"name", "role", "project_id", "is_admin", "must_change_password"}

// renderUsers shows a page of accounts; users has what was typed for a new one, and what is wrong with it.
func (h *handler) renderUsers(c echo.Context, status int, users views.Users) error {
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
	return pages.Render(c, status, views.UsersPage(frame, users))
}

// addUser makes an account with its first project.
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
		return h.renderUsers(c, http.StatusForbidden, views.Users{Values: typed, SignInAgain: paths.LoginAgain(paths.WithQuery(paths.Users, back))})
	case err != nil:
		return err
	case len(faults) > 0:
		return h.renderUsers(c, http.StatusUnprocessableEntity, views.Users{Values: typed, Errors: form.Messages(pages.Locale(c), faults)})
	}
	return pages.Done(c, paths.User(user.ID), "created")
}

// makeUser makes the account that a form or an endpoint's body describes.
func (h *handler) makeUser(ctx context.Context, submitted *form.Upload) (user people.User, faults []form.FieldFault, err error) {
	if err := request.RequireFresh(ctx); err != nil { // an account outlives the browser that somebody finds open
		return user, nil, err
	}
	user, faults, err = form.NewUser(ctx, submitted)
	if err != nil {
		return user, nil, err
	}
	user.IsAdmin = submitted.Value("is_admin") == "true"
	if user.MustChangePassword = submitted.Value("must_change_password") == "true"; !user.MustChangePassword && submitted.Has("must_change_password") && submitted.Value("must_change_password") != "false" {
		faults = append(faults, form.FieldFault{Field: "must_change_password", Fault: fault.Field("must_change_password", fault.Boolean())})
	}
	role := people.Viewer
	if submitted.Value("role") != "" {
		var wrong []form.FieldFault
		role, wrong = form.Role(submitted, "role")
		faults = append(faults, wrong...)
	}
	project, wrong, err := h.namedProject(ctx, submitted)
	if err != nil {
		return user, nil, err
	}
	if faults = append(faults, wrong...); len(faults) > 0 {
		return user, faults, nil
	}
	if faults, err = form.FreeName(ctx, h.people, user.Name); err != nil || len(faults) > 0 {
		return user, faults, err
	}
	if err := h.people.AddUser(ctx, user, people.Membership{ProjectID: project, Role: role}); err != nil {
		return user, nil, err
	}
	request.Made(ctx, user.ID.String(), user.Name)
	request.Changed(ctx, nil, map[string]any{"is_admin": user.IsAdmin, "must_change_password": user.MustChangePassword, "project_id": project, "role": role})
	user, err = h.people.User(ctx, user.ID)
	return user, nil, err
}

// namedProject is the project of a form's project_id, the first one if it has none.
func (h *handler) namedProject(ctx context.Context, submitted *form.Upload) (id uuid.UUID, faults []form.FieldFault, err error) {
	text := submitted.Value("project_id")
	if text == "" {
		return project.Default, nil, nil
	}
	project, err := h.projectByID(ctx, text)
	if errors.Is(err, db.ErrNotFound) {
		return id, []form.FieldFault{{Field: "project_id", Fault: fault.Field("project_id", fault.Saved())}}, nil
	}
	return project.ID, nil, err
}

// user is the account that a path names.
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
	return h.renderUser(c, http.StatusOK, views.User{User: user})
}

// renderUser shows an account; view has it, and what is wrong with what was typed.
func (h *handler) renderUser(c echo.Context, status int, view views.User) error {
	ctx, user := c.Request().Context(), view.User
	var err error
	if view.Projects, err = h.people.MembershipsOf(ctx, user.ID); err != nil {
		return err
	}
	if view.Sessions, err = h.people.Sessions(ctx, user.ID); err != nil {
		return err
	}
	frame := h.frame(c, user.Name, ui.Crumb{Text: pages.Locale(c).Text("users.title"), Href: paths.Users}, ui.Crumb{Text: user.Name})
	frame.Here = paths.User(user.ID)
	return pages.Render(c, status, views.UserPage(frame, view))
}

// changeUser takes what a form or a body changes of an account: all of it or nothing.
func (h *handler) changeUser(ctx context.Context, user people.User, submitted *form.Upload) (faults []form.FieldFault, err error) {
	if err := request.RequireFresh(ctx); err != nil {
		return nil, err
	}
	var change people.Change
	before, after := map[string]any{}, map[string]any{}
	flag := func(field string, is bool, to **bool) {
		if !submitted.Has(field) {
			return
		}
		value := submitted.Value(field) == "true"
		if !value && submitted.Value(field) != "false" {
			faults = append(faults, form.FieldFault{Field: field, Fault: fault.Field(field, fault.Boolean())})
		}
		*to, before[field], after[field] = &value, is, value
	}
	flag("is_admin", user.IsAdmin, &change.IsAdmin)
	flag("is_disabled", user.DisabledAt != nil, &change.IsDisabled)
	if submitted.Has("password") {
		if user.Subject != nil {
			return nil, fault.New(fault.CodeForbidden).WithMessage("users.of_provider.only")
		}
		hash, wrong, err := form.NewPassword(ctx, submitted, "password", user.Name)
		if err != nil {
			return nil, err
		}
		faults = append(faults, wrong...)
		change.PasswordHash, after["replaced_secrets"] = &hash, []string{"password"}
	}
	if len(faults) > 0 {
		return faults, nil
	}
	request.Made(ctx, user.ID.String(), user.Name)
	request.Changed(ctx, before, after)
	return nil, h.people.ChangeUser(ctx, user.ID, change)
}

// applyUser changes an account by a form, and says what keeps that from being done.
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
		return h.renderUser(c, http.StatusForbidden, views.User{User: user, SignInAgain: paths.LoginAgain(paths.User(user.ID))})
	case errors.Is(err, people.ErrLastAdmin):
		return h.renderUser(c, http.StatusUnprocessableEntity, views.User{User: user, Errors: map[string]string{"": pages.Locale(c).Text("users.last_admin")}})
	case err != nil:
		return err
	case len(faults) > 0:
		return h.renderUser(c, http.StatusUnprocessableEntity, views.User{User: user, Errors: form.Messages(pages.Locale(c), faults)})
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
