package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/request"
	"wending/jobs/identity"
)

// source is the origin of accounts that are not created here: an OpenID Connect provider or an LDAP directory.
type source interface {
	// issuer distinguishes the source's subjects from those of others.
	issuer() string
	grants() []Grant
	// renewsWithin returns how long after its last use a session is still renewed.
	renewsWithin() time.Duration
	// askAgain returns the claims about a user who has already signed in, and what to keep for the next time. It returns
	// errEnded if the session must end.
	askAgain(ctx context.Context, kept tokens) (said claims, next tokens, err error)
}

// source returns the origin of accounts; nil means that they are created here.
func (c SignInConfig) source() source {
	switch {
	case c.OpenID != nil:
		return c.OpenID
	case c.Directory != nil:
		return c.Directory
	}
	return nil
}

// claims are the statements of a provider or the directory about a user.
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
	Groups    groupNames `json:"groups"`
	Roles     groupNames `json:"roles"`
}

// subjectAt returns the text that identifies a source's user in the database.
func subjectAt(from source, said claims) string { return from.issuer() + " " + said.Subject }

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

// Grant is the role that members of a group get.
type Grant struct {
	// Group is the name of the group, without a slash before it; * means every user.
	Group string
	Role  people.Role
	// Project is the name of the project in which they get the role; empty means the first project or, for
	// administrators, the whole installation.
	Project string
}

// ParseGrants parses the value of a setting: group=role or group=role@project, separated by commas.
func ParseGrants(setting, text string) (grants []Grant, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		group, rest, hasRole := strings.Cut(part, "=")
		role, project, _ := strings.Cut(rest, "@")
		grant := Grant{groupName(strings.TrimSpace(group)), people.Role(strings.TrimSpace(role)), strings.TrimSpace(project)}
		if !hasRole || grant.Group == "" || !grant.Role.IsKnown() {
			return nil, fmt.Errorf("%s: %q is not group=role or group=role@project, with viewer, reviewer, editor or admin",
				setting, strings.TrimSpace(part))
		}
		grants = append(grants, grant)
	}
	if len(grants) == 0 {
		return nil, fmt.Errorf("%s must be set, for example to testers=editor,managers=viewer,operators=admin: otherwise "+
			"nobody could sign in", setting)
	}
	return grants, nil
}

// groupName returns the name of a group without the leading slash that some providers add.
func groupName(text string) string { return strings.TrimPrefix(text, "/") }

// take updates an account from the claims about its user. Issuer and subject alone identify an account: a local account
// with the same name belongs to another person.
func (h *handler) take(ctx context.Context, said claims) (user people.User, err error) {
	source := h.source()
	isAdmin, memberships, err := h.granted(ctx, source.grants(), slices.Concat(said.Groups, said.Roles))
	if err != nil {
		return user, err
	}
	return h.Cases.TakeProvided(ctx, identity.Provided{
		Subject: subjectAt(source, said), Names: said.names(), IsAdmin: isAdmin, Memberships: memberships,
	})
}

// granted returns the rights that a user's groups grant.
func (h *handler) granted(ctx context.Context, grants []Grant,
	groups []string) (isAdmin bool, memberships []people.Membership, err error) {
	byProject := map[uuid.UUID]people.Role{}
	for _, grant := range grants {
		if grant.Group != "*" && !slices.Contains(groups, grant.Group) {
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

// enterProvided begins a session for a user whom the provider or the directory has authenticated; kept is stored with
// it.
func (h *handler) enterProvided(c echo.Context, said claims, kept tokens, session people.Session, next string) error {
	ctx := c.Request().Context()
	err := request.Intend(ctx, func(e *request.AuditEntry) {
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
	if session.Provided.Tokens, err = h.Sealer.Seal(kept, tokensOwner(user.ID)); err != nil {
		return err
	}
	return h.enter(c, user, session, next)
}
