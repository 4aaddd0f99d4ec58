package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"golang.org/x/oauth2"

	"wending/db"
	"wending/db/people"
	"wending/handlers/request"
)

// tokens are kept with a session, sealed, so that the provider or the directory can be asked about its user again.
type tokens struct {
	// Refresh and Access are the provider's tokens.
	Refresh string `json:"refresh,omitempty"`
	Access  string `json:"access,omitempty"`
	// Login is the name that was typed to sign in with the directory.
	Login string `json:"login,omitempty"`
}

// tokensOwner returns the name that binds a user's sealed tokens to that user.
func tokensOwner(user uuid.UUID) string { return "provider's tokens of " + user.String() }

// renewEvery is the interval at which RenewSessions looks for sessions whose owners' rights must be read again.
const renewEvery = 5 * time.Second

// RenewSessions refreshes the rights of the provider's or the directory's users before they are an hour old, until ctx
// ends. If refreshing fails, the session expires and its owner must sign in again.
func RenewSessions(ctx context.Context, config SignInConfig) {
	h := &handler{config}
	if h.source() == nil {
		return
	}
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		h.renewDue(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *handler) renewDue(ctx context.Context) {
	for ctx.Err() == nil {
		due, err := h.People.TakeDue(ctx, h.source().renewsWithin())
		if err == nil {
			err = h.renew(ctx, due)
		}
		switch {
		case errors.Is(err, db.ErrNotFound) || ctx.Err() != nil:
			return
		case err != nil:
			h.Log.WarnContext(ctx, "account's rights not refreshed from the provider, will retry until its session ends",
				"user_id", due.UserID, "error", err)
			if due.SessionID == uuid.Nil { // the database does not respond
				return
			}
		}
	}
}

// errEnded means that the provider no longer knows a session, or attributes it to another user, or that the directory
// no longer has the user.
var errEnded = errors.New("the provider ended the session, or the directory no longer has the user")

// renew reads the rights of a session's owner from the provider or directory again. If the user is gone there, it ends
// the session.
func (h *handler) renew(ctx context.Context, due people.Due) error {
	var kept tokens
	if err := h.Sealer.Open(due.Tokens, tokensOwner(due.UserID), &kept); err != nil {
		return err
	}
	source := h.source()
	said, next, err := source.askAgain(ctx, kept)
	if err == nil && subjectAt(source, said) != due.Subject {
		err = errEnded
	}
	if errors.Is(err, errEnded) {
		h.Log.InfoContext(ctx, "session ended because its user is no longer signed in elsewhere", "user_id", due.UserID,
			"reason", err)
		if err = h.People.EndSession(ctx, due.UserID, due.SessionID); errors.Is(err, db.ErrNotFound) {
			return nil
		}
		return err
	}
	if err != nil {
		return err
	}
	if _, err := h.take(ctx, said); err != nil {
		return fmt.Errorf("apply the provider's groups: %w", err)
	}
	sealed, err := h.Sealer.Seal(next, tokensOwner(due.UserID))
	if err != nil {
		return err
	}
	return h.People.Renewed(ctx, due.SessionID, sealed)
}

// askAgain asks the provider for the claims of a user who has already signed in.
func (o *OpenID) askAgain(ctx context.Context, kept tokens) (said claims, next tokens, err error) {
	provider, config, err := o.connect(ctx)
	if err != nil {
		return said, next, err
	}
	ctx = within(ctx)
	token := &oauth2.Token{AccessToken: kept.Access}
	if kept.Refresh != "" {
		token, err = config.TokenSource(ctx, &oauth2.Token{RefreshToken: kept.Refresh}).Token()
		if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) && refused.ErrorCode == "invalid_grant" {
			err = fmt.Errorf("%w: %w", errEnded, err)
		}
		if err != nil {
			return said, next, err
		}
	}
	next = tokens{Refresh: token.RefreshToken, Access: token.AccessToken}
	if raw, has := token.Extra("id_token").(string); has {
		if said, err = o.read(ctx, provider, raw, ""); err != nil {
			return said, next, err
		}
	}
	err = o.complete(ctx, provider, token, &said)
	return said, next, err
}

// signOutFromProvider ends the sessions that the provider reports as ended (OpenID Connect Back-Channel Logout
// 1.0).
func (h *handler) signOutFromProvider(c echo.Context) error {
	ctx := c.Request().Context()
	if h.OpenID == nil {
		return request.NewFault(request.CodeNotFound)
	}
	raw, err := logoutTokenOf(c)
	if err != nil {
		return refuseLogout(c)
	}
	// The rate is limited, because even unsigned requests would make us fetch the provider's keys.
	key := "back-channel from " + network(request.From(ctx).Actor.Address)
	wait, err := h.People.Attempt(ctx, key, maxFailuresOfAddress)
	if err != nil {
		return err
	}
	if wait > 0 {
		return tooMany(c, wait)
	}
	told, err := h.OpenID.readLogout(ctx, raw)
	if request.IsInternal(err) && errors.As(err, new(*request.Fault)) { // the provider does not respond
		return err
	}
	if err == nil {
		err = h.People.Spend(ctx, "logout", told.TokenID, time.Until(told.Expiry)+clockSkew)
		if err != nil && !errors.Is(err, db.ErrConflict) {
			return err
		}
	}
	if err != nil {
		h.Log.WarnContext(ctx, "sign-out by the provider refused", "error", err)
		return refuseLogout(c)
	}
	if err := h.People.Refund(ctx, key); err != nil {
		return err
	}
	owners, err := h.People.EndProvided(ctx, h.OpenID.Issuer, told.Subject, told.SessionID)
	if err != nil {
		return err
	}
	if len(owners) > 0 {
		user, err := h.People.User(ctx, owners[0])
		if err != nil {
			return err
		}
		request.Note(ctx, func(e *request.AuditEntry) {
			e.Action, e.Actor, e.ActorID, e.Object, e.ObjectID, e.ObjectName = "session.end", user.Name, user.ID.String(),
				"session", user.ID.String(), user.Name
		})
		request.Changed(ctx, nil, map[string]any{"by": "provider", "sessions": len(owners)})
	}
	return c.NoContent(http.StatusOK)
}

// maxLogout is the maximum size of the provider's request in bytes.
const maxLogout = 64 << 10

// logoutTokenOf returns the token in a form. It refuses text that is not a signed token before anything costly is done.
func logoutTokenOf(c echo.Context) (raw string, err error) {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, maxLogout)
	if err := r.ParseForm(); err != nil {
		return "", err
	}
	raw = r.PostForm.Get("logout_token")
	if strings.Count(raw, ".") != 2 {
		return "", errors.New("the logout token is not signed")
	}
	return raw, nil
}

func refuseLogout(c echo.Context) error {
	return c.JSON(http.StatusBadRequest, map[string]string{"error": "invalid_request",
		"error_description": "the logout token is not valid, or was used before"})
}

// readLogout verifies the provider's logout token and returns its content.
func (o *OpenID) readLogout(ctx context.Context, raw string) (*oidc.LogoutToken, error) {
	provider, _, err := o.connect(ctx)
	if err != nil {
		return nil, err
	}
	told, err := provider.Verifier(&oidc.Config{ClientID: o.ClientID}).VerifyLogout(within(ctx), raw)
	if err != nil {
		return nil, err
	}
	if issued := told.IssuedAt; issued.Unix() <= 0 || issued.After(time.Now().Add(clockSkew)) {
		return nil, fmt.Errorf("the logout token was issued at %v", issued)
	}
	return told, nil
}
