// Package access authenticates people and programs: it has the sign-in pages, and one check that authorizes every
// request to the pages and the API.
package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
)

// Config holds the dependencies of a Guard.
type Config struct {
	People people.People
	// HasAccounts reports that people must sign in; otherwise every client may do everything.
	HasAccounts bool
	// NeedsSecond reports that every local account must have a passkey.
	NeedsSecond bool
	// Quotas counts uploaded files against the projects' quotas.
	Quotas people.Quotas
	// Audit records who did what. Failed is called with the error if an entry cannot be stored.
	Audit  people.AuditLog
	Failed func(ctx context.Context, err error)
	// Trusted are the networks of proxies that may report the client's address and protocol.
	Trusted []netip.Prefix
	// SecureHost is the site's name for HTTPS; empty means that the site has no HTTPS. It is set explicitly
	// because a proxy may fail to report HTTPS.
	SecureHost string
	Log        *slog.Logger
}

// Guard checks whether requests are allowed.
type Guard struct {
	Config
	routes map[string]bool
	// publicPaths are the paths that have at least one public method. A request to them with any other method is told
	// which methods exist, even if nobody has signed in.
	publicPaths map[string]bool

	mu   sync.Mutex
	open map[*admitted]struct{}
	// begun are the audit intents that this process holds, and late are the entries that could not be added in time.
	begun map[uuid.UUID]struct{}
	late  []unsettled
}

// admitted is a request that is being served.
type admitted struct {
	ask    ask
	info   request.Info
	cancel context.CancelCauseFunc
}

// NewGuard returns a guard without routes.
func NewGuard(config Config) *Guard {
	return &Guard{Config: config, routes: map[string]bool{}, publicPaths: map[string]bool{},
		open: map[*admitted]struct{}{}, begun: map[uuid.UUID]struct{}{}}
}

// Require registers the routes of a server. It fails if a route has no rule or a rule has no route.
func (g *Guard) Require(routes []*echo.Route) error {
	for _, route := range routes {
		if route.Method == echo.RouteNotFound {
			continue
		}
		name := ruleName(route.Method, route.Path)
		rule, hasRule := rules[name]
		if !hasRule {
			return fmt.Errorf("no access rule for the route %s %s", route.Method, route.Path)
		}
		g.routes[name] = true
		g.publicPaths[route.Path] = g.publicPaths[route.Path] || rule.right == public
	}
	for name := range rules {
		if !g.routes[name] && !slices.Contains(switched, name) {
			return fmt.Errorf("the access rule for %s matches no route", name)
		}
	}
	return nil
}

// switched are the rules whose routes may be missing, because settings can turn them off.
var switched = []string{ruleName(http.MethodGet, paths.Metrics), ruleName(http.MethodPost, paths.MCP),
	ruleName(http.MethodPost, paths.Traces)}

// ruleName returns the name that the rules use for a route.
func ruleName(method, path string) string { return method + " " + path }

// ask holds the credentials of a request and the object it is about, with which the request can be checked again while
// it is being answered.
type ask struct {
	rule Rule
	// token and session are the credentials; empty means none.
	token, session string
	// project is the id or name of the requested project, and kept is the project that the browser used last; both may be
	// empty.
	project, kept string
	// object is the id of the object in the path. If isOptional is set, it is the id of a task in the query instead, and
	// is ignored if that task does not exist or is not in the requested project.
	object     string
	isOptional bool
}

// errUnknown means that nobody has signed in.
var errUnknown = request.NewFault(request.CodeUnauthenticated)

// errDuty means that the account's owner must complete another step first.
var errDuty = errors.New("the account must complete another step first")

// Check lets a request through, with the principal and the project in its context, if its route's rule allows it.
func (g *Guard) Check(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		name := ruleName(r.Method, c.Path())
		rule, hasRule := rules[name]
		if !hasRule || !g.routes[name] {
			rule = Rule{right: account} // there is no such route: signed-in users get a 404
			if g.publicPaths[c.Path()] {
				rule.right = public
			}
		}
		asked, err := g.read(c, rule)
		if err != nil {
			return err
		}
		info := request.From(r.Context())
		info.HasAccounts = g.HasAccounts
		ctx, recorded := g.record(c, rule)
		ctx = request.With(ctx, info)
		c.SetRequest(r.WithContext(ctx)) // errors are shown within a page's frame, which needs the context
		info, err = g.admit(ctx, info, asked)
		g.describe(ctx, &recorded.AuditEntry, info, asked)
		if err != nil {
			return g.turnAway(c, ctx, info, err)
		}
		if err := recorded.begin(ctx); err != nil {
			return err
		}
		defer recorded.abandon()
		switch {
		case info.Project.ID != uuid.Nil:
			info.Scope = db.InProject(info.Project.ID)
		case !g.HasAccounts:
			info.Scope = db.AllProjects()
		}
		info.TakeUpload = func(ctx context.Context) error { return g.Quotas.TakeUpload(ctx, info.Scope.Home()) }
		ctx = request.With(ctx, info)
		if g.HasAccounts {
			ctx = request.WithVisitor(ctx, visitor(info))
		}
		c.SetRequest(r.WithContext(ctx))
		if keepsProject(c, asked, info) {
			pages.SetCookie(c, request.ProjectCookie, info.Project.ID.String(), pages.Year)
		}
		if !g.HasAccounts {
			return next(c)
		}
		revocable, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer g.watch(asked, info, cancel)()
		c.SetRequest(r.WithContext(revocable))
		err = next(c)
		c.SetRequest(r.WithContext(ctx)) // the error handler runs after this returns
		return err
	}
}

// turnAway answers a request that may not be served. Users who must first sign in or complete another step are
// redirected to the page for that.
func (g *Guard) turnAway(c echo.Context, ctx context.Context, info request.Info, err error) error {
	if errors.Is(err, errUnknown) {
		if request.IsAPI(c.Request()) {
			c.Response().Header().Set("WWW-Authenticate", `Bearer realm="wending"`)
		}
		return lead(c, err, paths.LoginFor)
	}
	c.SetRequest(c.Request().WithContext(request.With(ctx, info)))
	if errors.Is(err, errDuty) {
		return lead(c, err, func(back string) string { return paths.DutyFor(string(info.Who.Duty), back) })
	}
	return err
}

// visitor returns the name under which a request takes slots at the gates: the account or, without one, the token or
// the address.
func visitor(info request.Info) string {
	switch {
	case info.Who.UserID != uuid.Nil:
		return info.Who.UserID.String()
	case info.Who.TokenID != uuid.Nil:
		return info.Who.TokenID.String()
	}
	return info.Actor.Address
}

// read returns the credentials of a request and the object it is about, which it finds as the rule says. It refuses a
// session's request from another site's page.
func (g *Guard) read(c echo.Context, rule Rule) (asked ask, err error) {
	r := c.Request()
	asked = ask{rule: rule, project: cmp.Or(r.Header.Get("X-Wending-Project"), c.QueryParam("project"))}
	if decoded, err := url.PathUnescape(asked.project); err == nil { // names may be in any script, headers may not
		asked.project = decoded
	}
	switch rule.object {
	case "task":
		asked.object = c.Param("taskId") + c.Param("task_id")
	case "task?":
		asked.object, asked.isOptional = cmp.Or(c.QueryParam("from"), c.QueryParam("draft"), c.QueryParam("a"),
			c.QueryParam("task_id")), true
		asked.object, _, _ = strings.Cut(asked.object, ":")
	case "":
	default:
		asked.object = c.Param("id")
	}
	if !g.HasAccounts {
		return asked, nil
	}
	if scheme, value, has := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " "); has &&
		strings.EqualFold(scheme, "Bearer") {
		asked.token = strings.TrimSpace(value)
		return asked, nil
	}
	asked.kept = request.Kept(r, request.ProjectCookie)
	if session := SessionOf(r); session != "" {
		if !isFromThisSite(r) && rule.right != public {
			return asked, request.NewFault(request.CodeForbidden).
				WithCause(errors.New("the request does not prove that it comes from a page of this site"))
		}
		asked.session = session
	}
	return asked, nil
}

// isFromThisSite reports whether a request that carries a cookie comes from a page of this site: requests that change
// something must prove it, and requests that read must not be embedded in another site's page.
func isFromThisSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	switch r.Method {
	case http.MethodGet, http.MethodOptions:
		return site == "" || site == "same-origin" || site == "none" || r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
	if site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get(echo.HeaderOrigin))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// admit returns the principal and the project of a request, or the reason to refuse it.
func (g *Guard) admit(ctx context.Context, info request.Info, asked ask) (request.Info, error) {
	var err error
	if info.Who, err = g.identify(ctx, asked); err != nil {
		return info, err
	}
	if g.HasAccounts {
		info.Actor.Name = info.Who.Name
	}
	if asked.rule.right == public {
		return info, nil
	}
	if !info.Who.IsKnown() {
		return info, errUnknown
	}
	if info, err = g.choose(ctx, info, asked); err != nil {
		return info, err
	}
	if duty := info.Who.Duty; duty != "" && asked.rule.right != right(duty) && asked.rule.right != leaving {
		return info, request.NewFault(request.CodeForbidden).WithMessage("duty." + string(duty)).WithCause(errDuty)
	}
	switch asked.rule.right {
	case account:
		return info, nil
	case session, leaving, passwordDuty, passkeyDuty:
		if info.Who.SessionID == uuid.Nil && g.HasAccounts {
			return info, request.NewFault(request.CodeForbidden)
		}
		return info, nil
	case installation:
		if !info.Who.IsAdmin {
			return info, request.NewFault(request.CodeForbidden)
		}
		return info, nil
	}
	if !info.Role.Allows(people.Role(asked.rule.right)) {
		refused := request.NewFault(request.CodeForbidden)
		if info.Role == "" {
			refused = refused.WithMessage("error.no_project")
		}
		return info, refused
	}
	return info, nil
}

// identify returns the principal; the zero value means nobody.
func (g *Guard) identify(ctx context.Context, asked ask) (who request.Principal, err error) {
	switch {
	case !g.HasAccounts:
		return request.Principal{IsAdmin: true}, nil
	case asked.token != "":
		token, err := g.People.TokenOf(ctx, asked.token)
		if errors.Is(err, db.ErrNotFound) {
			return who, request.NewFault(request.CodeUnauthenticated).WithMessage("error.token").WithCause(errUnknown)
		}
		if err != nil {
			return who, err
		}
		who = request.Principal{TokenID: token.ID, Name: people.TokenMark + token.Name, IsAdmin: token.MayManage &&
			token.Role == people.Admin,
			Projects: []people.Membership{{ProjectID: token.ProjectID, ProjectName: token.ProjectName, Role: token.Role}}}
		if token.UserID != nil {
			who.UserID, who.Name = *token.UserID, *token.UserName
		}
		if token.Reach == people.ReachInstallation {
			who.Projects, err = g.withAll(ctx, who.Projects)
		}
		return who, err
	case asked.session != "":
		signed, err := g.People.SessionOf(ctx, asked.session)
		if errors.Is(err, db.ErrNotFound) {
			return who, nil
		}
		if err != nil {
			return who, err
		}
		who = request.Principal{UserID: signed.UserID, SessionID: signed.Session.ID, Name: signed.User.Name,
			IsAdmin: signed.User.IsAdmin, IsFresh: signed.IsFresh, Duty: g.dutyOf(signed.User)}
		who.Projects, err = g.projectsOf(ctx, signed.User)
		return who, err
	}
	return who, nil
}

// dutyOf returns the step that an account's owner must complete first; empty means none.
func (g *Guard) dutyOf(user people.User) request.Duty {
	switch {
	case user.Subject != nil: // the identity provider enforces such steps
		return ""
	case user.MustChangePassword:
		return request.DutyPassword
	case g.NeedsSecond && user.Passkeys == 0:
		return request.DutyPasskey
	}
	return ""
}

// projectsOf returns the projects that an account may choose from, with its own first.
func (g *Guard) projectsOf(ctx context.Context, user people.User) ([]people.Membership, error) {
	own, err := g.People.MembershipsOf(ctx, user.ID)
	if err != nil || !user.IsAdmin {
		return own, err
	}
	return g.withAll(ctx, own)
}

// withAll returns all projects, each with an administrator's rights; the account's own come first.
func (g *Guard) withAll(ctx context.Context, own []people.Membership) ([]people.Membership, error) {
	all, err := g.People.Projects(ctx)
	for n := range own {
		own[n].Role = people.Admin
	}
	for _, one := range all {
		if !slices.ContainsFunc(own, func(m people.Membership) bool { return m.ProjectID == one.ID }) {
			own = append(own, people.Membership{ProjectID: one.ID, ProjectName: one.Name, Role: people.Admin})
		}
	}
	return own, err
}

// choose finds the project that a request is about: the object's or, if there is none, the requested one, the browser's
// last one, or the account's first. Objects in projects that the caller is not a member of appear not to exist.
func (g *Guard) choose(ctx context.Context, info request.Info, asked ask) (request.Info, error) {
	if !g.HasAccounts {
		return g.chooseAny(ctx, info, asked)
	}
	roleIn := func(id uuid.UUID) *people.Membership {
		for n, one := range info.Who.Projects {
			if one.ProjectID == id {
				return &info.Who.Projects[n]
			}
		}
		return nil
	}
	take := func(one people.Membership) request.Info {
		info.Project, info.Role = people.Project{ID: one.ProjectID, Name: one.ProjectName}, one.Role
		return info
	}
	named := membershipIn(info.Who.Projects, asked.project)
	if named == nil && asked.project != "" {
		return info, &db.NotFoundError{Kind: people.KindProject}
	}
	if asked.object != "" {
		kind, of, _, err := g.projectOf(ctx, asked)
		home := roleIn(of)
		switch {
		case err != nil && !errors.Is(err, db.ErrNotFound):
			return info, err
		case err == nil && home != nil && (named == nil || named.ProjectID == of):
			return take(*home), nil
		case !asked.isOptional:
			return info, &db.NotFoundError{Kind: kind}
		}
	}
	if named != nil {
		return take(*named), nil
	}
	if kept, err := uuid.Parse(asked.kept); err == nil {
		if one := roleIn(kept); one != nil {
			return take(*one), nil
		}
	}
	if len(info.Who.Projects) > 0 {
		return take(info.Who.Projects[0]), nil
	}
	return info, nil
}

// membershipIn returns the membership in the project with the given id or name; nil if there is none.
func membershipIn(memberships []people.Membership, project string) (found *people.Membership) {
	for n, one := range memberships {
		if one.ProjectID.String() == project || strings.EqualFold(one.ProjectName, project) {
			found = &memberships[n]
		}
	}
	return found
}

// chooseAny is like choose, but for sites without accounts: everything is visible, unless one project is requested.
func (g *Guard) chooseAny(ctx context.Context, info request.Info, asked ask) (request.Info, error) {
	info.Role = people.Admin
	if asked.project == "" {
		return info, nil
	}
	var err error
	if id, malformed := uuid.Parse(asked.project); malformed == nil {
		info.Project, err = g.People.Project(ctx, id)
	} else {
		info.Project, err = g.People.ProjectNamed(ctx, asked.project)
	}
	return info, err
}

// projectOf returns the kind, the project and the name of the object whose id the request contains.
func (g *Guard) projectOf(ctx context.Context, asked ask) (kind db.Kind, of uuid.UUID, name string, err error) {
	kind = "entry"
	switch asked.rule.object {
	case "task", "task?":
		kind = db.KindTask
	case "project", "token", "share", "view":
		kind = db.Kind(asked.rule.object)
	}
	id, err := request.ID(asked.object, kind)
	if err != nil {
		return kind, uuid.Nil, "", err
	}
	if kind == "entry" {
		of, name, err = g.People.ProjectOfEntry(ctx, asked.rule.object, id)
	} else {
		of, name, err = g.People.ProjectOf(ctx, kind, id)
	}
	return kind, of, name, err
}

// keepsProject reports whether the browser should remember the project of a page that it opens.
func keepsProject(c echo.Context, asked ask, info request.Info) bool {
	return info.HasAccounts && info.Who.SessionID != uuid.Nil && info.Project.ID != uuid.Nil &&
		info.Project.ID.String() != asked.kept &&
		(asked.kept != "" || asked.object != "" || asked.project != "") &&
		c.Request().Method == http.MethodGet && !request.IsFragment(c.Request()) && !request.IsAPI(c.Request())
}

// lead answers a request whose sender must complete another step first. A request for a page is redirected to that
// step, from which the user then returns to the page. there returns the address of the step; back is the page.
func lead(c echo.Context, err error, there func(back string) string) error {
	r := c.Request()
	if request.IsAPI(r) {
		return err
	}
	back := r.URL.RequestURI()
	if r.Method != http.MethodGet || request.IsFragment(r) {
		back = pageOf(r)
	}
	if request.IsFragment(r) {
		if r.Method == http.MethodGet {
			c.Response().Header().Set("HX-Redirect", there(back))
		}
		return err // values typed into the page stay there
	}
	return c.Redirect(http.StatusSeeOther, there(back))
}

// pageOf returns the page of this site from which a request was made.
func pageOf(r *http.Request) string {
	page, err := url.Parse(cmp.Or(r.Header.Get("HX-Current-URL"), r.Referer()))
	if err != nil || !strings.EqualFold(page.Host, r.Host) {
		return paths.Tasks
	}
	return page.RequestURI()
}

// IsSecure reports whether a request came over TLS, to this process or to a trusted proxy.
func (g *Guard) IsSecure(r *http.Request) bool {
	if r.TLS != nil || g.SecureHost != "" && strings.EqualFold(r.Host, g.SecureHost) {
		return true
	}
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	isTrusted := slices.ContainsFunc(g.Trusted, func(p netip.Prefix) bool { return p.Contains(address.Addr().Unmap()) })
	return isTrusted && strings.EqualFold(r.Header.Get(echo.HeaderXForwardedProto), "https")
}

// SessionCookie is the cookie that authenticates the browser's session.
const SessionCookie = "wending"

// SessionOf returns the session secret in a request's cookie; empty means none. Over HTTPS, the cookie's name has a
// prefix that lets only this site set it.
func SessionOf(r *http.Request) string {
	cookie, err := r.Cookie(request.CookieName(request.From(r.Context()).IsSecure, SessionCookie))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// errRevoked ends a request whose sender lost the right to make it while it was being answered.
var errRevoked = errors.New("the right to make the request was revoked")

// watch registers a request that is being answered, until the returned function is called.
func (g *Guard) watch(asked ask, info request.Info, cancel context.CancelCauseFunc) (done func()) {
	one := &admitted{asked, info, cancel}
	g.mu.Lock()
	g.open[one] = struct{}{}
	g.mu.Unlock()
	return func() {
		g.mu.Lock()
		delete(g.open, one)
		g.mu.Unlock()
	}
}

// Recheck ends requests in progress that are no longer allowed: streams and exports do not outlive a revoked session
// or token.
func (g *Guard) Recheck(ctx context.Context) {
	g.mu.Lock()
	open := make([]*admitted, 0, len(g.open))
	for one := range g.open {
		open = append(open, one)
	}
	g.mu.Unlock()
	checked := map[ask]error{}
	for _, one := range open {
		if one.ask.rule.right == public {
			continue
		}
		err, isKnown := checked[one.ask]
		if !isKnown {
			_, err = g.admit(ctx, one.info, one.ask)
			checked[one.ask] = err
		}
		if err != nil && !request.IsInternal(err) && ctx.Err() == nil {
			one.cancel(errRevoked)
		}
	}
}

// recheckEvery is the interval at which rights are checked again, because rights can expire without a notification.
const recheckEvery = 5 * time.Second

// Run rechecks requests in progress whenever rights change, until ctx ends. databaseURL must connect to the database
// directly, not through a pooler; if it is empty, changes take effect within recheckEvery.
func (g *Guard) Run(ctx context.Context, databaseURL string) error {
	changed := make(chan struct{}, 1)
	var listening sync.WaitGroup
	defer listening.Wait()
	if databaseURL != "" && g.HasAccounts {
		listening.Go(func() {
			err := people.ListenForChanges(ctx, databaseURL, func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
			if err != nil && ctx.Err() == nil {
				g.Log.WarnContext(ctx, "permission-change listener stopped, rechecking rights on the timer only", "error", err)
			}
		})
	}
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	clean := time.NewTicker(time.Hour)
	defer clean.Stop()
	steadySince := time.Now()
	for {
		select {
		case <-tick.C:
			g.keepAudit(ctx, &steadySince)
			g.Recheck(ctx)
		case <-changed:
			g.Recheck(ctx)
		case <-clean.C:
			if err := g.People.RemoveEnded(ctx); err != nil && ctx.Err() == nil {
				g.Log.WarnContext(ctx, "ended sessions not removed", "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}
