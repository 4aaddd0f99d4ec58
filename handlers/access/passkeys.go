package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/system"
)

// Passkeys handles the WebAuthn credentials of one site.
type Passkeys struct{ site *webauthn.WebAuthn }

// NewPasskeys returns the passkeys of the site at the given address. It returns nil if browsers would not allow any
// there: they require HTTPS and a domain name (not an IP address), or localhost.
func NewPasskeys(address string) (*Passkeys, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	host := u.Hostname()
	if host != "localhost" && (u.Scheme != "https" || !strings.Contains(host, ".") || strings.ContainsAny(host, ":") ||
		isNumeric(host)) {
		return nil, nil
	}
	site, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "Wending 稳定", RPOrigins: []string{u.Scheme + "://" + u.Host},
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return nil, err
	}
	return &Passkeys{site}, nil
}

func isNumeric(host string) bool { return strings.Trim(host, "0123456789.") == "" }

// IsHere reports whether a request was sent to the host to which the passkeys belong.
func (p *Passkeys) IsHere(r *http.Request) bool {
	if p == nil {
		return false
	}
	host := r.Host
	if at := strings.LastIndex(host, ":"); at > strings.LastIndex(host, "]") {
		host = host[:at]
	}
	return strings.EqualFold(host, p.site.Config.RPID)
}

// hasPasskeys reports whether people may sign in with passkeys. On a site with a provider they may not: removing a
// user at the provider must lock the user out.
func (h *handler) hasPasskeys(r *http.Request) bool { return h.source() == nil && h.Passkeys.IsHere(r) }

// holder is an account in the form that the WebAuthn library requires.
type holder struct {
	user people.User
	keys []webauthn.Credential
}

func (h holder) WebAuthnID() []byte                         { return h.user.ID[:] }
func (h holder) WebAuthnName() string                       { return h.user.Name }
func (h holder) WebAuthnDisplayName() string                { return h.user.Name }
func (h holder) WebAuthnCredentials() []webauthn.Credential { return h.keys }

func (h *handler) holderOf(ctx context.Context, id uuid.UUID) (found holder, err error) {
	if found.user, err = h.People.User(ctx, id); err != nil {
		return found, err
	}
	stored, err := h.People.Passkeys(ctx, id)
	if err != nil {
		return found, err
	}
	for _, one := range stored {
		var key webauthn.Credential
		if err := json.Unmarshal(one.Credential, &key); err != nil {
			return found, err
		}
		found.keys = append(found.keys, key)
	}
	return found, nil
}

// ceremony is the state of a request for a passkey, which the browser keeps, sealed, until it responds.
type ceremony struct {
	Session webauthn.SessionData `json:"session"`
	// User is the account whose password was just checked, or for which a passkey is being registered; uuid.Nil means that
	// the passkey identifies its owner.
	User uuid.UUID `json:"user"`
	Next string    `json:"next"`
}

// The purposes for which the state of ceremonies is sealed, and the maximum duration of a ceremony.
const (
	signInKind    = "passkey"
	secondKind    = "second"
	newKeyKind    = "new passkey"
	ceremonyLasts = 5 * time.Minute
)

// keyBytes is the maximum size, in bytes, of a browser's response with a passkey.
const keyBytes = 64 << 10

// secondStep shows the sign-in page again, to ask for a passkey, after the password was correct.
func (h *handler) secondStep(c echo.Context, login system.Login, user people.User) error {
	if !h.hasPasskeys(c.Request()) {
		return request.NewFault(request.CodeForbidden).WithMessage("login.passkey.elsewhere")
	}
	detail, err := json.Marshal(ceremony{User: user.ID, Next: login.Next})
	if err != nil {
		return err
	}
	login.Second, err = h.People.PutChallenge(c.Request().Context(), secondKind, detail, ceremonyLasts)
	if err != nil {
		return err
	}
	return h.render(c, http.StatusOK, login)
}

// asked is the response with which a browser can ask for a passkey: the options, and the sealed state that the browser
// sends back in the header X-Passkey.
type asked struct {
	Options any    `json:"options"`
	Key     string `json:"key"`
}

// askForPasskey begins a sign-in with a passkey: alone, or after a password.
func (h *handler) askForPasskey(c echo.Context) error {
	ctx := c.Request().Context()
	if !h.hasPasskeys(c.Request()) || !request.From(ctx).HasAccounts {
		return request.NewFault(request.CodeForbidden).WithMessage("login.passkey.elsewhere")
	}
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	var options *protocol.CredentialAssertion
	var session *webauthn.SessionData
	began := ceremony{Next: nextOf(submitted.Value("next"))}
	if second := submitted.Value("second"); second != "" {
		detail, err := h.People.Challenge(ctx, secondKind, second)
		if errors.Is(err, db.ErrNotFound) {
			return request.NewFault(request.CodeForbidden).WithMessage("login.provider.again")
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(detail, &began); err != nil {
			return err
		}
		holder, err := h.holderOf(ctx, began.User)
		if err != nil {
			return err
		}
		if options, session, err = h.Passkeys.site.BeginLogin(holder); err != nil {
			return err
		}
	} else if options, session, err = h.Passkeys.site.BeginDiscoverableLogin(
		webauthn.WithUserVerification(protocol.VerificationRequired)); err != nil {
		return err
	}
	began.Session = *session
	return h.sendCeremony(c, signInKind, began, options)
}

func (h *handler) sendCeremony(c echo.Context, kind string, began ceremony, options any) error {
	key, err := h.seal(c.Request().Context(), kind, began, ceremonyLasts)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, asked{options, key})
}

// takeCeremony opens the sealed state of a ceremony in a request, and limits the size of the request's body.
func (h *handler) takeCeremony(c echo.Context, kind string) (began ceremony, err error) {
	c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, keyBytes)
	return began, h.open(c.Request().Context(), kind, c.Request().Header.Get("X-Passkey"), &began)
}

// endCeremony prevents a challenge that was answered correctly from being answered again.
func (h *handler) endCeremony(ctx context.Context, began ceremony) error {
	err := h.People.Spend(ctx, "passkey", began.Session.Challenge, ceremonyLasts)
	if errors.Is(err, db.ErrConflict) {
		return request.NewFault(request.CodeForbidden).WithMessage("login.provider.again").WithCause(err)
	}
	return err
}

// takePasskey completes a sign-in with a passkey.
func (h *handler) takePasskey(c echo.Context) error {
	ctx := c.Request().Context()
	if !h.hasPasskeys(c.Request()) {
		return request.NewFault(request.CodeForbidden).WithMessage("login.passkey.elsewhere")
	}
	began, err := h.takeCeremony(c, signInKind)
	if err != nil {
		return err
	}
	answer, err := protocol.ParseCredentialRequestResponseBody(c.Request().Body)
	if err != nil {
		return request.NewFault(request.CodeForbidden).WithMessage("login.passkey.wrong").WithCause(err)
	}
	var whose holder
	var key *webauthn.Credential
	method := "password+passkey"
	if began.User != uuid.Nil {
		if whose, err = h.holderOf(ctx, began.User); err != nil {
			return err
		}
		key, err = h.Passkeys.site.ValidateLogin(whose, began.Session, answer)
	} else {
		method = "passkey"
		key, err = h.Passkeys.site.ValidateDiscoverableLogin(func(_, handle []byte) (webauthn.User, error) {
			id, err := uuid.FromBytes(handle)
			if err != nil {
				return nil, err
			}
			whose, err = h.holderOf(ctx, id)
			return whose, err
		}, began.Session, answer)
	}
	if err == nil && key.Authenticator.CloneWarning {
		err = errors.New("the passkey's counter went backwards: it may have been cloned")
	}
	if err == nil && whose.user.DisabledAt != nil {
		err = errors.New("the account is disabled")
	}
	if err != nil {
		if err := h.noteRefusal(ctx, whose.user.Name); err != nil {
			return err
		}
		return request.NewFault(request.CodeForbidden).WithMessage("login.passkey.wrong").WithCause(err)
	}
	if err := h.endCeremony(ctx, began); err != nil {
		return err
	}
	credential, err := json.Marshal(key)
	if err != nil {
		return err
	}
	if err := h.People.UsePasskey(ctx, people.Passkey{ID: key.ID, UserID: whose.user.ID, Credential: credential}); err !=
		nil {
		return err
	}
	if err := h.begin(c, whose.user, proven(method)); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]string{"next": began.Next})
}

// newPasskey begins adding a passkey to the signed-in account.
func (h *handler) newPasskey(c echo.Context) error {
	ctx := c.Request().Context()
	if !h.hasPasskeys(c.Request()) {
		return request.NewFault(request.CodeForbidden).WithMessage("login.passkey.elsewhere")
	}
	if err := request.RequireFresh(ctx); err != nil {
		return err
	}
	whose, err := h.holderOf(ctx, request.From(ctx).Who.UserID)
	if err != nil {
		return err
	}
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	next := paths.Account + "?done=stored"
	if asked := submitted.Value("next"); asked != "" {
		next = nextOf(asked)
	}
	options, session, err := h.Passkeys.site.BeginRegistration(whose,
		webauthn.WithExclusions(webauthn.Credentials(whose.keys).CredentialDescriptors()))
	if err != nil {
		return err
	}
	return h.sendCeremony(c, newKeyKind, ceremony{Session: *session, User: whose.user.ID, Next: next}, options)
}

// addPasskey adds a passkey to the signed-in account.
func (h *handler) addPasskey(c echo.Context) error {
	ctx := c.Request().Context()
	began, err := h.takeCeremony(c, newKeyKind)
	if err != nil {
		return err
	}
	whose, err := h.holderOf(ctx, request.From(ctx).Who.UserID)
	if err != nil {
		return err
	}
	if began.User != whose.user.ID {
		return request.NewFault(request.CodeForbidden)
	}
	answer, err := protocol.ParseCredentialCreationResponseBody(c.Request().Body)
	if err != nil {
		return request.NewFault(request.CodeForbidden).WithMessage("login.passkey.wrong").WithCause(err)
	}
	key, err := h.Passkeys.site.CreateCredential(whose, began.Session, answer)
	if err != nil {
		return request.NewFault(request.CodeForbidden).WithMessage("login.passkey.wrong").WithCause(err)
	}
	if err := h.endCeremony(ctx, began); err != nil {
		return err
	}
	credential, err := json.Marshal(key)
	if err != nil {
		return err
	}
	name := people.CleanName(c.Request().UserAgent())
	if err := h.People.AddPasskey(ctx, people.Passkey{ID: key.ID, UserID: whose.user.ID, Name: name,
		Credential: credential}); err != nil {
		return err
	}
	request.Made(ctx, base64.RawURLEncoding.EncodeToString(key.ID), whose.user.Name)
	return c.JSON(http.StatusOK, map[string]string{"next": began.Next})
}
