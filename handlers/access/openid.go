package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"wending/db"
	"wending/db/people"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/identity"
	"wending/views/paths"
)

// Grant is the role that members of a provider's group get.
type Grant struct {
	// Group is the name of the group; * means every user.
	Group string
	Role  people.Role
	// Project is the name of the project in which they get the role; empty means the first project or, for
	// administrators, the whole installation.
	Project string
}

// ParseGrants parses group=role or group=role@project, separated by commas.
func ParseGrants(text string) (grants []Grant, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		group, rest, hasRole := strings.Cut(part, "=")
		role, project, _ := strings.Cut(rest, "@")
		grant := Grant{strings.TrimSpace(group), people.Role(strings.TrimSpace(role)), strings.TrimSpace(project)}
		if !hasRole || grant.Group == "" || !grant.Role.IsKnown() {
			return nil, fmt.Errorf("%q is not group=role or group=role@project, with viewer, reviewer, editor or admin",
				strings.TrimSpace(part))
		}
		grants = append(grants, grant)
	}
	return grants, nil
}

// OpenID signs people in with an OpenID Connect provider.
type OpenID struct {
	Issuer, ClientID, ClientSecret string
	// Site is the public address of this site, to which the provider redirects.
	Site   string
	Grants []Grant

	mu    sync.Mutex
	found *discovered // guarded by mu; nil until the provider has answered
	// asking lets one request query the provider while others wait for the same response.
	asking singleflight.Group
}

// discovered holds the provider's metadata.
type discovered struct {
	provider *oidc.Provider
	config   *oauth2.Config
}

// connect fetches the provider's metadata once; if that fails, the next sign-in tries again. A request stops waiting
// when its context ends.
func (o *OpenID) connect(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	o.mu.Lock()
	found := o.found
	o.mu.Unlock()
	if found != nil {
		return found.provider, found.config, nil
	}
	asked := o.asking.DoChan("", func() (any, error) {
		found, err := o.discover(context.WithoutCancel(ctx)) // others also wait for the metadata
		if err == nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.found = found
		}
		return found, err
	})
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case answer := <-asked:
		if answer.Err != nil {
			return nil, nil, request.NewFault(request.CodeServiceUnavailable).WithMessage("login.provider.silent").
				WithCause(answer.Err)
		}
		found := answer.Val.(*discovered)
		return found.provider, found.config, nil
	}
}

func (o *OpenID) discover(ctx context.Context) (*discovered, error) {
	provider, err := oidc.NewProvider(within(ctx), o.Issuer) // the provider keeps the context for fetching keys
	if err != nil {
		return nil, err
	}
	// the configuration remembers how the provider wants clients to authenticate
	return &discovered{provider, &oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: o.Site + paths.OpenIDDone,
		Scopes:      []string{oidc.ScopeOpenID, "profile", "email", "groups"},
	}}, nil
}

// within returns a context that limits the wait for a provider that does not respond.
func within(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, &http.Client{Timeout: 15 * time.Second})
}

func (h *handler) providerName() string {
	if h.OpenID == nil {
		return ""
	}
	u, err := url.Parse(h.OpenID.Issuer)
	if err != nil {
		return h.OpenID.Issuer
	}
	return u.Host
}

// pending is a sign-in in progress at the provider.
type pending struct {
	State    string `json:"state"`
	Verifier string `json:"verifier"`
	Nonce    string `json:"nonce"`
	Next     string `json:"next"`
	// IsAgain reports that the provider was asked to authenticate the user again.
	IsAgain bool `json:"again"`
}

// The kind under which the state of a sign-in at the provider is sealed, the cookie that keeps the state, and the time
// within which the sign-in must be completed.
const (
	openIDKind   = "oidc"
	openIDCookie = "oidc"
	openIDLasts  = 10 * time.Minute
)

// toProvider redirects to the provider.
func (h *handler) toProvider(c echo.Context) error {
	ctx := c.Request().Context()
	if h.OpenID == nil {
		return request.NewFault(request.CodeNotFound)
	}
	_, config, err := h.OpenID.connect(ctx)
	if err != nil {
		return err
	}
	began := pending{people.NewSecret(), oauth2.GenerateVerifier(), people.NewSecret(), nextOf(c.QueryParam("next")),
		c.QueryParam("again") != ""}
	kept, err := h.seal(ctx, openIDKind, began, openIDLasts)
	if err != nil {
		return err
	}
	pages.SetCookie(c, openIDCookie, kept, openIDLasts)
	options := []oauth2.AuthCodeOption{oidc.Nonce(began.Nonce), oauth2.S256ChallengeOption(began.Verifier)}
	if began.IsAgain {
		// The user could change the parameters in the browser. With max_age the ID token contains the time of
		// authentication, which is checked.
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	return c.Redirect(http.StatusSeeOther, config.AuthCodeURL(began.State, options...))
}

// claims are the provider's claims about a user.
type claims struct {
	Subject string `json:"sub"`
	// Party is the client that the ID token was issued to; empty if the provider does not report it.
	Party    string `json:"azp"`
	Username string `json:"preferred_username"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	// SessionID is the provider's id of the session, and AuthTime is the time of authentication in seconds since 1970;
	// both are zero values if the provider does not report them.
	SessionID string     `json:"sid"`
	AuthTime  float64    `json:"auth_time"`
	Groups    stringList `json:"groups"`
	Roles     stringList `json:"roles"`
}

// stringList is a list of texts. A single text is one element, because the name of a group may contain spaces.
type stringList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *stringList) UnmarshalJSON(content []byte) error {
	one := ""
	if json.Unmarshal(content, &one) == nil {
		if *l = nil; one != "" {
			*l = stringList{one}
		}
		return nil
	}
	return json.Unmarshal(content, (*[]string)(l))
}

// fromProvider handles the redirect back from the provider.
func (h *handler) fromProvider(c echo.Context) error {
	ctx := c.Request().Context()
	if h.OpenID == nil {
		return request.NewFault(request.CodeNotFound)
	}
	var began pending
	cookie, err := c.Cookie(request.CookieName(request.From(ctx).IsSecure, openIDCookie))
	if err != nil {
		return request.NewFault(request.CodeForbidden).WithMessage("login.provider.again").
			WithCause(errors.New("the sign-in began in another browser, or too long ago"))
	}
	if err := h.open(ctx, openIDKind, cookie.Value, &began); err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(began.State), []byte(c.QueryParam("state"))) != 1 {
		return request.NewFault(request.CodeForbidden).WithMessage("login.provider.again").
			WithCause(errors.New("the provider's answer is for another sign-in"))
	}
	pages.SetCookie(c, openIDCookie, "", 0)
	if reason := c.QueryParam("error"); reason != "" {
		h.Log.WarnContext(ctx, "the provider refused to sign a user in", "error", reason,
			"description", c.QueryParam("error_description"))
		return request.NewFault(request.CodeForbidden).WithMessage("login.provider.refused").
			WithCause(errors.New("the provider answered: " + reason))
	}
	said, token, err := h.OpenID.exchange(ctx, began, c.QueryParam("code"))
	if err != nil {
		h.Log.WarnContext(ctx, "sign-in through the provider refused", "error", err)
		if err := h.noteRefusal(ctx, ""); err != nil {
			return err
		}
		if known := (*request.Fault)(nil); errors.As(err, &known) {
			return known
		}
		return request.NewFault(request.CodeForbidden).WithMessage("login.provider.refused").WithCause(err)
	}
	err = request.Intend(ctx, func(e *request.AuditEntry) {
		e.Action, e.Actor = "sign-in", people.CleanName(cmp.Or(said.Username, said.Subject))
	})
	if err != nil {
		return err
	}
	user, err := h.take(ctx, said)
	if err != nil {
		request.Note(ctx, func(e *request.AuditEntry) { e.Action = refusedAction })
		return err
	}
	sealed, err := h.Sealer.Seal(tokens{token.RefreshToken, token.AccessToken}, tokensOwner(user.ID))
	if err != nil {
		return err
	}
	session := people.Session{Method: "oidc", IsProven: said.isFresh(), Provided: &people.Provided{Tokens: sealed}}
	if said.SessionID != "" {
		session.Provided.SID = &said.SessionID
	}
	return h.enter(c, user, session, began.Next)
}

// exchange exchanges a code for claims, and checks that they come from the provider and belong to this sign-in.
func (o *OpenID) exchange(ctx context.Context, began pending,
	code string) (said claims, token *oauth2.Token, err error) {
	provider, config, err := o.connect(ctx)
	if err != nil {
		return said, nil, err
	}
	ctx = within(ctx)
	if token, err = config.Exchange(ctx, code, oauth2.VerifierOption(began.Verifier)); err != nil {
		return said, nil, err
	}
	raw, _ := token.Extra("id_token").(string)
	if said, err = o.read(ctx, provider, raw, began.Nonce); err != nil {
		return said, nil, err
	}
	if began.IsAgain && !said.isFresh() {
		return said, nil, fmt.Errorf("a fresh sign-in was requested, but auth_time is %.0f", said.AuthTime)
	}
	return said, token, o.complete(ctx, provider, token, &said)
}

// isFresh reports whether the provider authenticated the user less than people.FreshFor ago.
func (c claims) isFresh() bool {
	seconds := float64(time.Now().Unix()) - c.AuthTime
	return seconds < people.FreshFor.Seconds() && seconds > -clockSkew.Seconds()
}

// read checks an ID token and returns its claims. The token must have the nonce of the sign-in, unless nonce is
// empty: refreshed tokens need not have one.
func (o *OpenID) read(ctx context.Context, provider *oidc.Provider, raw, nonce string) (said claims, err error) {
	proof, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: o.ClientID}).Verify(ctx, raw)
	if err != nil {
		return said, err
	}
	if nonce != "" && subtle.ConstantTimeCompare([]byte(proof.Nonce), []byte(nonce)) != 1 {
		return said, errors.New("the provider's answer is not for this sign-in")
	}
	if err := proof.Claims(&said); err != nil {
		return said, err
	}
	return said, o.check(proof, said)
}

// complete asks the provider for the claims that its ID token leaves out: the groups or, if there is no ID token, all
// claims.
func (o *OpenID) complete(ctx context.Context, provider *oidc.Provider, token *oauth2.Token, said *claims) error {
	if said.Subject != "" && (len(said.Groups)+len(said.Roles) > 0 || provider.UserInfoEndpoint() == "") {
		return nil
	}
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return err
	}
	if info.Subject == "" || said.Subject != "" && info.Subject != said.Subject {
		return errors.New("the provider's answer is about another account")
	}
	err = info.Claims(said)
	said.Subject = info.Subject
	return err
}

// clockSkew is how far the provider's clock may be ahead.
const clockSkew = time.Minute

// check refuses an ID token that has no subject, was issued to another client, or was issued in the future: the library
// checks none of these (OpenID Connect Core 1.0, section 3.1.3.7).
func (o *OpenID) check(proof *oidc.IDToken, said claims) error {
	refused := request.NewFault(request.CodeForbidden)
	switch {
	case proof.Subject == "":
		return refused.WithMessage("login.provider.nobody").WithCause(errors.New("the ID token has no sub"))
	case said.Party != "" && said.Party != o.ClientID, said.Party == "" && len(proof.Audience) > 1:
		return refused.WithMessage("login.provider.other").WithCause(fmt.Errorf("the ID token was issued for %q, with azp %q",
			proof.Audience, said.Party))
	case proof.IssuedAt.After(time.Now().Add(clockSkew)):
		return refused.WithMessage("login.provider.clock").WithCause(fmt.Errorf("the ID token was issued in the future: %v",
			proof.IssuedAt))
	}
	return nil
}

// names returns possible names for an account, best first; all of them follow the rules for typed names.
func (c claims) names() (names []string) {
	subject := people.CleanName(c.Subject)
	base := ""
	for _, text := range []string{c.Username, c.Name, c.Email, c.Subject, "user " + c.Subject} {
		if name, err := people.CheckName(people.CleanName(text)); err == nil {
			base = name
			break
		}
	}
	sum := sha256.Sum256([]byte(c.Subject))
	for _, text := range []string{base, base + " · " + cmp.Or(c.Email, c.Subject), subject + " · " + base,
		"user " + hex.EncodeToString(sum[:8])} {
		if name, err := people.CheckName(people.CleanName(text)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// take updates an account from the provider's claims. Issuer and subject alone identify an account: a local account
// with the same name belongs to another person.
func (h *handler) take(ctx context.Context, said claims) (user people.User, err error) {
	isAdmin, memberships, err := h.granted(ctx, slices.Concat(said.Groups, said.Roles))
	if err != nil {
		return user, err
	}
	return h.Cases.TakeProvided(ctx, identity.Provided{
		Subject: h.OpenID.Issuer + " " + said.Subject, Names: said.names(), IsAdmin: isAdmin, Memberships: memberships,
	})
}

// granted returns the rights that a user's groups grant.
func (h *handler) granted(ctx context.Context,
	groups []string) (isAdmin bool, memberships []people.Membership, err error) {
	byProject := map[uuid.UUID]people.Role{}
	for _, grant := range h.OpenID.Grants {
		isMember := grant.Group == "*" || slices.ContainsFunc(groups, func(group string) bool {
			return strings.TrimPrefix(group, "/") == strings.TrimPrefix(grant.Group, "/")
		})
		if !isMember {
			continue
		}
		if grant.Role == people.Admin && grant.Project == "" {
			isAdmin = true
		}
		id := db.DefaultProject
		if grant.Project != "" {
			project, err := h.People.ProjectNamed(ctx, grant.Project)
			if errors.Is(err, db.ErrNotFound) { // the project does not exist yet, or was renamed
				continue
			}
			if err != nil {
				return false, nil, err
			}
			id = project.ID
		}
		if !byProject[id].Allows(grant.Role) {
			byProject[id] = grant.Role
		}
	}
	for id, role := range byProject {
		memberships = append(memberships, people.Membership{ProjectID: id, Role: role, IsGranted: true})
	}
	return isAdmin, memberships, nil
}
