package access

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/labstack/echo/v4"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"wending/db/people"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
)

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

// Check returns an error if the settings are incomplete or insecure. It does not contact the provider.
func (o *OpenID) Check() error {
	issuer, err := url.Parse(o.Issuer)
	if err != nil || issuer.Scheme != "https" && issuer.Scheme != "http" || issuer.Host == "" || o.ClientID == "" {
		return errors.New(
			"AUTH=oidc needs OIDC_ISSUER, an address such as https://id.example/realms/staff, and OIDC_CLIENT_ID")
	}
	if issuer.Scheme == "http" && !IsLoopback(issuer.Hostname()) {
		return fmt.Errorf("OIDC_ISSUER is %s, but must be https: otherwise anyone on the network path could sign in as "+
			"anyone", o.Issuer)
	}
	return nil
}

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && address.IsLoopback()
}

func (o *OpenID) issuer() string { return o.Issuer }

func (o *OpenID) grants() []Grant { return o.Grants }

// renewsWithin is short because, after that, the provider signs people in again without asking for their credentials.
func (o *OpenID) renewsWithin() time.Duration { return people.RightsLast }

// connect fetches the provider's metadata once; if the fetch fails, the next sign-in tries again. A request stops
// waiting when its context ends.
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
	// The configuration remembers how the provider wants clients to authenticate.
	return &discovered{provider, &oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: o.Site + paths.OpenIDDone,
		Scopes:      []string{oidc.ScopeOpenID, "profile", "email", "groups"},
	}}, nil
}

// within returns a context with an HTTP client that gives up on a provider that does not respond in time.
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

// toProvider begins a sign-in and redirects the browser to the provider.
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

// groupNames is a list of groups. A single string is one group, because the name of a group may contain spaces.
type groupNames []string

// UnmarshalJSON implements json.Unmarshaler.
func (g *groupNames) UnmarshalJSON(content []byte) error {
	one, all := "", []string(nil)
	if json.Unmarshal(content, &one) != nil {
		if err := json.Unmarshal(content, &all); err != nil {
			return err
		}
	} else if one != "" {
		all = []string{one}
	}
	*g = nil
	for _, name := range all {
		*g = append(*g, groupName(name))
	}
	return nil
}

// fromProvider handles the redirect back from the provider and, if the sign-in succeeded, begins a session.
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
	session := people.Session{Method: "oidc", IsProven: said.isFresh(), Provided: &people.Provided{}}
	if said.SessionID != "" {
		session.Provided.SID = &said.SessionID
	}
	return h.enterProvided(c, said, tokens{Refresh: token.RefreshToken, Access: token.AccessToken}, session, began.Next)
}

// exchange redeems an authorization code, and checks that the claims come from the provider and belong to this sign-in.
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

// read verifies an ID token and returns its claims. The token must have the nonce of the sign-in, unless nonce is
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

// complete adds to said the claims that the provider's ID token leaves out: the groups or, if there is no ID token, all
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
