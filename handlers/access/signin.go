package access

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/identity"
	"wending/jobs/secret"
	"wending/views/paths"
	"wending/views/system"
)

// SignInConfig holds the dependencies of the sign-in pages.
type SignInConfig struct {
	People people.People
	// Cases implements changes to the data that People reads.
	Cases  identity.Service
	Guard  *Guard
	Sealer *secret.Sealer
	// OpenID is the provider that people sign in with; nil means that they sign in with passwords or passkeys.
	OpenID *OpenID
	// Directory checks passwords; nil means that accounts have passwords here, or sign in with OpenID.
	Directory *Directory
	// Passkeys handles passkeys, used in addition to or instead of passwords; nil means that this site does not
	// support them.
	Passkeys *Passkeys
	Version  string
	Log      *slog.Logger
}

type handler struct{ SignInConfig }

// RegisterSignIn adds the routes of the sign-in pages.
func RegisterSignIn(group *echo.Group, config SignInConfig) {
	h := &handler{config}
	group.GET(paths.Login, h.show)
	group.POST(paths.Login, h.signIn)
	group.GET(paths.Logout, h.askToLeave)
	group.POST(paths.Logout, h.signOut)
	group.GET(paths.Setup, h.showSetup)
	group.POST(paths.Setup, h.setUp)
	group.GET(paths.OpenID, h.toProvider)
	group.GET(paths.OpenIDDone, h.fromProvider)
	group.POST(paths.OpenIDEnded, h.signOutFromProvider)
	group.POST(paths.Passkey, h.askForPasskey)
	group.POST(paths.PasskeyDone, h.takePasskey)
	group.POST(paths.OwnPasskeys, h.newPasskey)
	group.POST(paths.OwnPasskeys+"/done", h.addPasskey)
}

// Limits on the number of failed sign-ins within a quarter of an hour.
const (
	maxFailures          = 5  // of one account from one address, or in one browser that the account has used
	maxFailuresOfAccount = 20 // of one account in all other browsers, from all addresses
	maxFailuresOfAddress = 50 // from one address
)

// page returns the sign-in page for a request.
func (h *handler) page(c echo.Context, next string) system.Login {
	return system.Login{Next: nextOf(next), HasPasswords: h.OpenID == nil, Provider: h.providerName(),
		HasPasskeys: h.hasPasskeys(c.Request())}
}

func (h *handler) render(c echo.Context, status int, login system.Login) error {
	frame := pages.Frame(c, h.Version, pages.Locale(c).Text("login.title"), "")
	frame.Here, frame.Styles, frame.Scripts = paths.LoginFor(login.Next), []string{"form.css", "people.css"},
		[]string{"passkey.js"}
	return pages.Render(c, status, system.LoginPage(frame, login))
}

func (h *handler) show(c echo.Context) error {
	login := h.page(c, c.QueryParam("next"))
	if who := request.From(c.Request().Context()).Who; who.IsKnown() {
		if c.QueryParam("again") == "" || !request.From(c.Request().Context()).HasAccounts {
			return c.Redirect(http.StatusSeeOther, login.Next)
		}
		login.IsAgain, login.Name = true, who.Name
	} else if h.OpenID != nil && SessionOf(c.Request()) != "" { // the provider may still know the ended session
		return c.Redirect(http.StatusSeeOther, paths.WithQuery(paths.OpenID, url.Values{"next": {login.Next}}))
	}
	return h.render(c, http.StatusOK, login)
}

// signIn signs in with a name and a password.
func (h *handler) signIn(c echo.Context) error {
	ctx := c.Request().Context()
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	login := h.page(c, submitted.Value("next"))
	login.Name = submitted.Value("name")
	if !login.HasPasswords || !request.From(ctx).HasAccounts {
		return request.NewFault(request.CodeForbidden)
	}
	if h.Directory != nil {
		err := h.signInWithDirectory(c, login, submitted.Values["password"])
		if refused := (*request.Fault)(nil); errors.As(err, &refused) {
			return h.refuse(c, login, refused)
		}
		return err
	}
	user, err := h.People.UserNamed(ctx, request.StorableText(login.Name))
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	guesses := h.guesses(c, login.Name, user)
	wait, err := h.count(ctx, guesses)
	if err != nil {
		return err
	}
	if wait > 0 {
		return h.refuse(c, login, tooMany(c, wait))
	}
	var hash *string
	if user.DisabledAt == nil {
		hash = user.PasswordHash
	}
	leave, err := pages.Gates(c).SignIns.Enter(ctx)
	if err != nil {
		return err
	}
	matches, err := identity.MatchesPassword(ctx, submitted.Values["password"], hash)
	leave()
	if err != nil {
		return err
	}
	if !matches {
		return h.refuseGuess(c, login)
	}
	if err := h.forgive(ctx, guesses[0], guesses[1:]...); err != nil {
		return err
	}
	if user.NeedsPasskey || h.Guard.NeedsSecond && user.Passkeys > 0 {
		return h.secondStep(c, login, user)
	}
	return h.enter(c, user, proven("password"), login.Next)
}

// refuse shows the sign-in page again with the reason for a refusal.
func (h *handler) refuse(c echo.Context, login system.Login, f *request.Fault) error {
	login.Error = f.Message(pages.Locale(c))
	return h.render(c, f.Status(), login)
}

// refuseGuess refuses a name and password that do not match.
func (h *handler) refuseGuess(c echo.Context, login system.Login) error {
	request.Note(c.Request().Context(), func(e *request.AuditEntry) {
		e.Action, e.Actor = refusedAction, people.CleanName(login.Name)
	})
	return h.refuse(c, login, request.NewFault(request.CodeUnauthenticated).WithMessage("login.wrong"))
}

// refusedAction is the audit's action for a refused sign-in.
const refusedAction = "sign-in.refused"

// noteRefusal records that a passkey or the provider did not authenticate a user; name is the account's, if there is
// one. Such refusals do not count as failed attempts, because an office could otherwise lock itself out. Above a limit
// per address they only increase a counter, because anyone could otherwise fill the audit log.
func (h *handler) noteRefusal(ctx context.Context, name string) error {
	info := request.From(ctx)
	address := network(info.Actor.Address)
	wait, err := h.People.Attempt(ctx, "refusals from "+address, maxFailuresOfAddress)
	if err != nil {
		return err
	}
	if wait == 0 {
		request.Note(ctx, func(e *request.AuditEntry) { e.Action, e.ObjectName = refusedAction, name })
		return nil
	}
	return h.Guard.Audit.Count(ctx, request.AuditEntry{
		Actor: address, Address: address, Via: info.Actor.Via, Action: refusedAction, ObjectID: address,
		Status: http.StatusForbidden,
	})
}

// guess is a key under which attempts to sign in are counted, and how many of them may fail.
type guess struct {
	key  string
	most int
}

// guesses returns the keys under which an attempt to sign in is counted: the account and this browser, if the account
// has signed in with it before; otherwise the account and this address, the account from all addresses, and the
// address. So nobody can lock an account's owner out of a browser that the account has used.
func (h *handler) guesses(c echo.Context, name string, user people.User) []guess {
	if device := h.device(c, user.ID); device != "" {
		return []guess{{"device " + device, maxFailures}}
	}
	account := "account " + strings.ToLower(name)
	if user.ID != uuid.Nil {
		account = "account " + user.ID.String() // the same key for every spelling of the name
	}
	address := network(request.From(c.Request().Context()).Actor.Address)
	return []guess{{account + " from " + address, maxFailures}, {account, maxFailuresOfAccount},
		{"address " + address, maxFailuresOfAddress}}
}

// count counts an attempt under the keys of guesses. If too many attempts have failed under one of them, it returns how
// long attempts will be refused.
func (h *handler) count(ctx context.Context, guesses []guess) (wait time.Duration, err error) {
	for _, one := range guesses {
		if wait, err = h.People.Attempt(ctx, one.key, one.most); err != nil || wait > 0 {
			return wait, err
		}
	}
	return 0, nil
}

// forgive clears the failures of an account whose owner has signed in, and takes back this attempt's count under the
// other keys.
func (h *handler) forgive(ctx context.Context, own guess, others ...guess) error {
	if err := h.People.ForgetFailures(ctx, own.key); err != nil {
		return err
	}
	return h.refund(ctx, others)
}

// refund takes back the count of an attempt that was not a wrong guess.
func (h *handler) refund(ctx context.Context, guesses []guess) error {
	for _, one := range guesses {
		if err := h.People.Refund(ctx, one.key); err != nil {
			return err
		}
	}
	return nil
}

// network returns the part of an address under which attempts are counted: the /64 prefix for IPv6, which one customer
// usually has alone, and the whole address for IPv4.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is6() || ip.Is4In6() {
		return address
	}
	prefix, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}

func tooMany(c echo.Context, wait time.Duration) *request.Fault {
	minutes := int((wait + time.Minute - 1) / time.Minute)
	c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(int(wait.Seconds())+1))
	return request.NewFault(request.CodeTooManyAttempts).With("Count", minutes)
}

// deviceCookie proves that an account has signed in with this browser.
const deviceCookie = "known"

func deviceOwner(user uuid.UUID) string { return "browser of " + user.String() }

// device returns the browser's id if the account has signed in with it before; otherwise it is empty.
func (h *handler) device(c echo.Context, user uuid.UUID) string {
	sealed, err := base64.RawURLEncoding.DecodeString(request.Kept(c.Request(), deviceCookie))
	if err != nil || len(sealed) == 0 || user == uuid.Nil {
		return ""
	}
	id := ""
	if h.Sealer.Open(sealed, deviceOwner(user), &id) != nil {
		return ""
	}
	return id
}

// enter begins a session and redirects to next, the page that its owner requested.
func (h *handler) enter(c echo.Context, user people.User, session people.Session, next string) error {
	if err := h.begin(c, user, session); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, next)
}

// proven returns a session whose owner has just authenticated with a local method.
func proven(method string) people.Session { return people.Session{Method: method, IsProven: true} }

// begin begins a session in the browser, replacing its previous one.
func (h *handler) begin(c echo.Context, user people.User, session people.Session) error {
	r := c.Request()
	err := request.Intend(r.Context(), func(e *request.AuditEntry) {
		e.Action, e.Actor, e.ActorID, e.Object, e.ObjectID, e.ObjectName = "sign-in", user.Name, user.ID.String(), "user",
			user.ID.String(), user.Name
	})
	if err != nil {
		return err
	}
	before := SessionOf(r)
	session.UserID, session.Address, session.Browser = user.ID, request.From(r.Context()).Actor.Address,
		request.StorableText(r.UserAgent())
	value, err := h.People.SignIn(r.Context(), session, before)
	if err != nil {
		return err
	}
	pages.SetCookie(c, SessionCookie, value, people.SessionLimit)
	if h.device(c, user.ID) == "" {
		known, err := h.Sealer.Seal(uuid.NewString(), deviceOwner(user.ID))
		if err != nil {
			return err
		}
		pages.SetCookie(c, deviceCookie, base64.RawURLEncoding.EncodeToString(known), pages.Year)
	}
	request.Changed(r.Context(), nil, map[string]string{"method": session.Method})
	return nil
}

// askToLeave shows a page to those who follow a link to the sign-out address, because signing out requires a click.
func (h *handler) askToLeave(c echo.Context) error {
	frame := pages.Frame(c, h.Version, pages.Locale(c).Text("logout.do"), "")
	frame.Styles = []string{"form.css", "people.css"}
	return pages.Render(c, http.StatusOK, system.LogoutPage(frame))
}

func (h *handler) signOut(c echo.Context) error {
	ctx := c.Request().Context()
	who := request.From(ctx).Who
	if who.SessionID != uuid.Nil {
		err := request.Intend(ctx, func(e *request.AuditEntry) {
			e.Action, e.Object, e.ObjectID, e.ObjectName = "sign-out", "user", who.UserID.String(), who.Name
		})
		if err != nil {
			return err
		}
		if err := h.People.EndSession(ctx, who.UserID, who.SessionID); err != nil && !errors.Is(err, db.ErrNotFound) {
			return err
		}
	}
	pages.SetCookie(c, SessionCookie, "", 0)
	c.Response().Header().Set("Clear-Site-Data", `"cache"`)
	return c.Redirect(http.StatusSeeOther, paths.Login)
}

// setupKind is the kind of the challenge for creating the first administrator.
const setupKind = "setup"

// setupLasts is how long the link for creating the first administrator is valid.
const setupLasts = 24 * time.Hour

// SetupLink returns a one-time link for creating the first administrator's account; empty if an administrator
// exists.
func SetupLink(ctx context.Context, store people.People, address string) (string, error) {
	has, err := store.HasAdmin(ctx)
	if err != nil || has {
		return "", err
	}
	key, err := store.PutChallenge(ctx, setupKind, []byte("{}"), setupLasts)
	return address + paths.Setup + "?key=" + key, err
}

// setup returns an error unless the key allows creating the first administrator.
func (h *handler) setup(c echo.Context, key string) error {
	ctx := c.Request().Context()
	has, err := h.People.HasAdmin(ctx)
	if err != nil {
		return err
	}
	if has {
		return request.NewFault(request.CodeNotFound).WithMessage("setup.again")
	}
	_, err = h.People.Challenge(ctx, setupKind, key)
	if errors.Is(err, db.ErrNotFound) {
		return request.NewFault(request.CodeNotFound).WithMessage("setup.gone")
	}
	return err
}

func (h *handler) showSetup(c echo.Context) error {
	key := c.QueryParam("key")
	if err := h.setup(c, key); err != nil {
		return err
	}
	return h.renderSetup(c, http.StatusOK, system.Setup{Key: key})
}

func (h *handler) renderSetup(c echo.Context, status int, setup system.Setup) error {
	frame := pages.Frame(c, h.Version, pages.Locale(c).Text("setup.title"), "")
	frame.Here, frame.Styles = paths.Setup+"?key="+setup.Key, []string{"form.css", "people.css"}
	c.Response().Header().Set("Referrer-Policy", "no-referrer") // the address contains the key
	return pages.Render(c, status, system.SetupPage(frame, setup))
}

// setUp creates the first administrator.
func (h *handler) setUp(c echo.Context) error {
	ctx := c.Request().Context()
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	setup := system.Setup{Key: submitted.Value("key"), Name: submitted.Value("name")}
	if err := h.setup(c, setup.Key); err != nil {
		return err
	}
	draft, err := h.Cases.DraftUser(ctx, identity.NewUser{
		Name: submitted.Values["name"], Password: submitted.Values["password"], IsAdmin: true, ProjectID: db.DefaultProject,
		Role: people.Admin,
	})
	var faults []form.FieldFault
	if err != nil {
		if faults, err = form.PersonFaults(err, nil); err != nil {
			return err
		}
	}
	if submitted.Values["password"] != submitted.Values["again"] {
		faults = append(faults, form.FieldFault{Field: "again",
			Fault: request.FieldFault("again", request.ValidPassword("different", 0))})
	}
	if len(faults) > 0 {
		setup.Errors = form.Messages(pages.Locale(c), faults)
		return h.renderSetup(c, http.StatusUnprocessableEntity, setup)
	}
	if _, err := h.People.TakeChallenge(ctx, setupKind, setup.Key); err != nil {
		return err
	}
	if err := request.Intend(ctx, func(e *request.AuditEntry) { e.Action, e.Actor = "sign-in", draft.Name }); err != nil {
		return err
	}
	user, err := h.Cases.AddUser(ctx, draft)
	if err != nil {
		return err
	}
	return h.enter(c, user, proven("setup"), paths.Tasks)
}
