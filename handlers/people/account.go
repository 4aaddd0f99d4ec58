package people

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/access"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/identity"
	"wending/views/paths"
	"wending/views/system"
)

// self returns the account that makes the request.
func (h *handler) self(c echo.Context) (people.User, error) {
	id := request.From(c.Request().Context()).Who.UserID
	if id == uuid.Nil { // without accounts, and for tokens without an owner
		return people.User{}, &db.NotFoundError{Kind: people.KindUser}
	}
	return h.people.User(c.Request().Context(), id)
}

func (h *handler) showAccount(c echo.Context) error {
	user, err := h.self(c)
	if err != nil {
		return err
	}
	return h.renderAccount(c, http.StatusOK, user, nil, nil)
}

// renderAccount shows the user's own account. errors maps fields to messages; kept are the tokens that the user ticked.
func (h *handler) renderAccount(c echo.Context, status int, user people.User, errors map[string]string,
	kept []uuid.UUID) error {
	ctx := c.Request().Context()
	who := request.From(ctx).Who
	account := system.Account{User: user, Projects: who.Projects, Session: who.SessionID,
		CanAddPasskeys: h.HasPasswords && h.Passkeys.IsHere(c.Request()), HasPassword: user.PasswordHash != nil,
		NeedsSecond: h.Guard.NeedsSecond, Kept: kept, Errors: errors}
	var err error
	if account.Tokens, err = h.people.TokensOf(ctx, user.ID); err != nil {
		return err
	}
	if account.Sessions, err = h.people.Sessions(ctx, user.ID); err != nil {
		return err
	}
	if account.Passkeys, err = h.people.Passkeys(ctx, user.ID); err != nil {
		return err
	}
	frame := h.frame(c, pages.Locale(c).Text("account.title"))
	frame.Here, frame.Scripts = paths.Account, []string{"passkey.js"}
	return pages.Render(c, status, system.AccountPage(frame, account))
}

// duty shows the page for a step that the user must complete first. Users who need not complete it are redirected to
// the page that they came from.
func (h *handler) duty(c echo.Context, which request.Duty, render func(next string) error) error {
	next := request.LocalPath(c.QueryParam("next"), paths.Tasks)
	if request.From(c.Request().Context()).Who.Duty != which {
		return c.Redirect(http.StatusSeeOther, next)
	}
	return render(next)
}

// showPassword asks for a new password to replace the initial one.
func (h *handler) showPassword(c echo.Context) error {
	return h.duty(c, request.DutyPassword, func(next string) error {
		return h.renderPassword(c, http.StatusOK, next, nil)
	})
}

func (h *handler) renderPassword(c echo.Context, status int, next string, problems map[string]string) error {
	frame := h.frame(c, pages.Locale(c).Text("duty.password"))
	frame.Here = paths.DutyFor(string(request.DutyPassword), next)
	return pages.Render(c, status, system.FirstPasswordPage(frame, request.From(c.Request().Context()).Who.Name,
		next, problems))
}

// showPasskeys asks for a passkey, which is mandatory on this site, or says at which address of the site to add one.
func (h *handler) showPasskeys(c echo.Context) error {
	return h.duty(c, request.DutyPasskey, func(next string) error {
		frame := h.frame(c, pages.Locale(c).Text("duty.passkey"))
		frame.Here, frame.Scripts = paths.DutyFor(string(request.DutyPasskey), next), []string{"passkey.js"}
		elsewhere := ""
		if !h.Passkeys.IsHere(c.Request()) {
			elsewhere = h.PublicURL
		}
		return pages.Render(c, http.StatusOK, system.FirstPasskeyPage(frame, next, elsewhere))
	})
}

// changePassword sets a new password for a user who knows the old one, and signs out the user's other browsers.
func (h *handler) changePassword(c echo.Context) error {
	ctx := c.Request().Context()
	user, err := h.self(c)
	if err != nil {
		return err
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	guesses := "password of " + user.ID.String()
	wait, err := h.people.Attempt(ctx, guesses, maxGuesses)
	if err != nil {
		return err
	}
	isFirst := request.From(ctx).Who.Duty == request.DutyPassword
	refuse := func(faults ...form.FieldFault) error {
		if isFirst {
			return h.renderPassword(c, http.StatusUnprocessableEntity, request.LocalPath(submitted.Value("next"), paths.Tasks),
				form.Messages(pages.Locale(c), faults))
		}
		return h.renderAccount(c, http.StatusUnprocessableEntity, user, form.Messages(pages.Locale(c), faults),
			keptTokens(submitted))
	}
	matches := false
	if wait == 0 {
		if matches, err = isPassword(c, submitted.Values["current"], user); err != nil {
			return err
		}
	}
	if !matches {
		request.Note(ctx, func(e *request.AuditEntry) {
			e.Action, e.ObjectID, e.ObjectName = "user.password_refused", user.ID.String(), user.Name
		})
		return refuse(form.FieldFault{Field: "current",
			Fault: request.FieldFault("current", request.ValidPassword("wrong", 0))})
	}
	if err := h.people.ForgetFailures(ctx, guesses); err != nil {
		return err
	}
	if submitted.Values["password"] == submitted.Values["current"] {
		return refuse(form.FieldFault{Field: "password",
			Fault: request.FieldFault("password", request.ValidPassword("same", 0))})
	}
	err = h.identity.ReplacePassword(ctx, user, submitted.Values["password"], request.From(ctx).Who.SessionID,
		keptTokens(submitted))
	if err != nil {
		faults, err := form.PersonFaults(err, nil)
		if err != nil {
			return err
		}
		return refuse(faults...)
	}
	request.Made(ctx, user.ID.String(), user.Name)
	if isFirst {
		return c.Redirect(http.StatusSeeOther, request.LocalPath(submitted.Value("next"), paths.Tasks))
	}
	return pages.Done(c, paths.Account, "saved")
}

// isPassword reports whether typed is the account's password. The gate limits how many comparisons run at once.
func isPassword(c echo.Context, typed string, user people.User) (bool, error) {
	leave, err := pages.Gates(c).SignIns.Enter(c.Request().Context())
	if err != nil {
		return false, err
	}
	defer leave()
	return identity.MatchesPassword(c.Request().Context(), typed, user.PasswordHash)
}

// keptTokens returns the ids of the tokens that the user ticked, which are kept when the others are revoked.
func keptTokens(submitted *form.Upload) (kept []uuid.UUID) {
	for field := range submitted.Values {
		if text, isOne := strings.CutPrefix(field, system.KeepField); isOne {
			if id, err := uuid.Parse(text); err == nil {
				kept = append(kept, id)
			}
		}
	}
	return kept
}

// maxGuesses is how many times an account's password may be guessed wrong here within a quarter of an hour.
const maxGuesses = 5

// setSecond sets whether the password alone is enough to sign in, or a passkey is needed too.
func (h *handler) setSecond(c echo.Context) error {
	user, err := h.self(c)
	if err != nil {
		return err
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	ctx, needs := c.Request().Context(), submitted.Value("needs") == "true"
	if err := request.RequireFresh(ctx); err != nil {
		return err
	}
	if !needs && h.Guard.NeedsSecond {
		return request.NewFault(request.CodeForbidden).WithMessage("passkeys.required")
	}
	if err := h.people.SetNeedsPasskey(ctx, user.ID, needs); err != nil {
		return err
	}
	request.Made(ctx, user.ID.String(), user.Name)
	request.Changed(ctx, map[string]any{"needs_passkey": user.NeedsPasskey}, map[string]any{"needs_passkey": needs})
	return pages.Done(c, paths.Account, "saved")
}

func (h *handler) removePasskey(c echo.Context) error {
	user, err := h.self(c)
	if err != nil {
		return err
	}
	if err := request.RequireFresh(c.Request().Context()); err != nil {
		return err
	}
	if h.Guard.NeedsSecond && user.Passkeys < 2 {
		return request.NewFault(request.CodeForbidden).WithMessage("passkeys.last")
	}
	id, err := base64.RawURLEncoding.DecodeString(c.Param("key"))
	if err != nil {
		return &db.NotFoundError{Kind: people.KindPasskey}
	}
	if err := h.people.RemovePasskey(c.Request().Context(), user.ID, id); err != nil {
		return err
	}
	request.Made(c.Request().Context(), c.Param("key"), user.Name)
	return pages.Done(c, paths.Account, "removed")
}

func (h *handler) endSession(c echo.Context) error {
	user, err := h.self(c)
	if err != nil {
		return err
	}
	id, err := pathID(c, "session", people.KindSession)
	if err != nil {
		return err
	}
	if err := h.people.EndSession(c.Request().Context(), user.ID, id); err != nil {
		return err
	}
	request.Made(c.Request().Context(), user.ID.String(), user.Name)
	return pages.Done(c, paths.Account, "ended")
}

// endSessions signs the user out in every browser, including this one.
func (h *handler) endSessions(c echo.Context) error {
	user, err := h.self(c)
	if err != nil {
		return err
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	if err := h.people.EndSessions(c.Request().Context(), user.ID, keptTokens(submitted)); err != nil {
		return err
	}
	request.Made(c.Request().Context(), user.ID.String(), user.Name)
	pages.SetCookie(c, access.SessionCookie, "", 0)
	return c.Redirect(http.StatusSeeOther, paths.Login)
}
