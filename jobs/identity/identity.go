// Package identity implements the use cases of accounts with their passwords, projects, tokens and links to reports:
// one set of rules for pages, API, sign-in and command line. Callers that only read use db/people directly.
package identity

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/people"
	"wending/db/review"
)

// MaxDays is the maximum lifetime of tokens and links, in days.
const MaxDays = 3650

// The errors of use cases. An invalid value is reported as a FieldError that wraps one of these, or an error about a
// name or a password.
var (
	ErrUnknownRole = errors.New("unknown role")
	ErrDays        = errors.New("the number of days is out of range")
	ErrQuota       = errors.New("the quota is out of range")
	ErrCost        = errors.New("not an amount of money")
	// ErrReasons means that a list of reasons is too long; ErrReason means that one of them is not a short text on
	// one line.
	ErrReasons = errors.New("too many reasons")
	ErrReason  = errors.New("a reason must be a short text on one line")
	// ErrTraceURL means that a project's template for the addresses of traces is not valid.
	ErrTraceURL = errors.New("not an http or https address with {trace_id} or {agent_trace_id}")
	// ErrPercent means that a number is not between 0 and 100.
	ErrPercent = errors.New("not a number from 0 to 100")
	// ErrForbidden means that the creator has fewer rights than were requested.
	ErrForbidden = errors.New("the creator does not have this right")
	// ErrOfProvider means that an account has no password here, because the OpenID Connect provider or the LDAP directory
	// signs its owner in.
	ErrOfProvider = errors.New("the account signs in through the OpenID Connect provider or the LDAP directory")
	// ErrDisabled and ErrNoGroup are returned when a provider or directory has signed in a user who may not use the
	// product.
	ErrDisabled = errors.New("the account is disabled")
	ErrNoGroup  = errors.New("none of the provider's groups has a role here")
	// ErrNotFinished means that a task has no report yet.
	ErrNotFinished = errors.New("the task has no report yet")
)

// FieldError is the fault of one value. A use case returns all faults, joined.
type FieldError struct {
	Field string
	Err   error
	// Least and Most are the limits of a number that is out of range.
	Least, Most int
	// Of is the value of another field that determines which values are allowed.
	Of string
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the fault.
func (e *FieldError) Unwrap() error { return e.Err }

// TakenError means that another account already has the name, or one that looks like it.
type TakenError struct {
	// Other is the name of the other account.
	Other string
	// IsSame reports that the names differ at most in case.
	IsSame bool
}

// Error implements error.
func (e *TakenError) Error() string { return "the name looks like that of the account " + e.Other }

// Service changes accounts, projects, tokens and links.
type Service struct{ store people.People }

// New returns the use cases for the data in a store.
func New(store *db.Store) Service { return Service{people.New(store)} }

// checks collects the faults in the values of a use case.
type checks []error

func (c *checks) fail(field string, err error) { *c = append(*c, &FieldError{Field: field, Err: err}) }

func (c *checks) within(field string, n, least, most int, err error) {
	if n < least || n > most {
		*c = append(*c, &FieldError{Field: field, Err: err, Least: least, Most: most})
	}
}

func (c *checks) name(text string) (name string) {
	name, err := people.CheckName(text)
	if err != nil {
		c.fail("name", err)
	}
	return name
}

func (c *checks) role(role people.Role) {
	if !role.IsKnown() {
		c.fail("role", ErrUnknownRole)
	}
}

func (c *checks) days(days, least int) time.Duration {
	c.within("days", days, least, MaxDays, ErrDays)
	return time.Duration(days) * 24 * time.Hour
}

func (c *checks) err() error { return errors.Join(*c...) }

// NewUser describes a new account and its role in its first project.
type NewUser struct {
	Name, Password      string
	IsAdmin, MustChange bool
	ProjectID           uuid.UUID
	Role                people.Role
}

// UserDraft is a new account that has passed the checks.
type UserDraft struct {
	people.User
	membership people.Membership
}

// Role returns the account's role in its first project.
func (d UserDraft) Role() people.Role { return d.membership.Role }

// DraftUser checks a new account. Faults are returned as FieldErrors of "name", "password" and "role".
func (s Service) DraftUser(ctx context.Context, n NewUser) (UserDraft, error) {
	var c checks
	draft := UserDraft{
		people.User{ID: uuid.New(), Name: c.name(n.Name), IsAdmin: n.IsAdmin, MustChangePassword: n.MustChange},
		people.Membership{ProjectID: n.ProjectID, Role: n.Role},
	}
	if err := CheckPassword(n.Password, draft.Name); err != nil {
		c.fail("password", err)
	}
	c.role(n.Role)
	if draft.Name != "" {
		other, err := s.store.Resembling(ctx, draft.Name)
		if err == nil {
			c.fail("name", &TakenError{other.Name, strings.EqualFold(other.Name, draft.Name)})
		} else if !errors.Is(err, db.ErrNotFound) {
			return draft, err
		}
	}
	if err := c.err(); err != nil {
		return draft, err
	}
	hash, err := newHash(ctx, n.Password, draft.Name)
	draft.PasswordHash = &hash
	return draft, err
}

// newHash hashes a new password, or returns a FieldError of "password".
func newHash(ctx context.Context, text, userName string) (string, error) {
	hash, reason, err := NewPassword(ctx, text, userName)
	if reason != nil {
		return "", &FieldError{Field: "password", Err: reason}
	}
	return hash, err
}

// AddUser creates an account.
func (s Service) AddUser(ctx context.Context, draft UserDraft) (people.User, error) {
	if err := s.store.AddUser(ctx, draft.User, draft.membership); err != nil {
		return people.User{}, err
	}
	return s.store.User(ctx, draft.ID)
}

// Change describes a change to an account; nil leaves a field as it is.
type Change struct {
	// Password ends the account's sessions and tokens; IsDisabled ends only its sessions.
	Password            *string
	IsAdmin, IsDisabled *bool
}

// ChangeUser applies a change to an account, completely or not at all. It returns ErrOfProvider, a FieldError of
// "password", or people.ErrLastAdmin if no account that may manage accounts would be left.
func (s Service) ChangeUser(ctx context.Context, user people.User, change Change) error {
	stored := people.Change{IsAdmin: change.IsAdmin, IsDisabled: change.IsDisabled}
	if change.Password != nil {
		if user.Subject != nil {
			return ErrOfProvider
		}
		hash, err := newHash(ctx, *change.Password, user.Name)
		if err != nil {
			return err
		}
		stored.PasswordHash = &hash
	}
	return s.store.ChangeUser(ctx, user.ID, stored)
}

// ReplacePassword sets a password that a signed-in user chose. It ends the user's other sessions, and all tokens
// except the ones in kept.
func (s Service) ReplacePassword(ctx context.Context, user people.User, text string, session uuid.UUID,
	kept []uuid.UUID) error {
	hash, err := newHash(ctx, text, user.Name)
	if err != nil {
		return err
	}
	return s.store.SetPassword(ctx, user.ID, hash, session, kept)
}

// Provided holds what an OpenID Connect provider or an LDAP directory states about a user who signs in.
type Provided struct {
	// Subject is the issuer and subject, or the id of the directory's entry; it alone identifies an account.
	Subject string
	// Names are possible names for the account, best first.
	Names       []string
	IsAdmin     bool
	Memberships []people.Membership
}

// TakeProvided creates or updates an account from what its provider or directory states; it does not take a name that
// another account already has. It returns ErrDisabled if the account is disabled, ErrNoGroup for a new user without any
// rights, and people.ErrNameTaken if all of p.Names are taken.
func (s Service) TakeProvided(ctx context.Context, p Provided) (user people.User, err error) {
	user, err = s.store.UserOf(ctx, p.Subject)
	isNew := errors.Is(err, db.ErrNotFound)
	switch {
	case err != nil && !isNew:
		return user, err
	case user.DisabledAt != nil:
		return user, ErrDisabled
	case isNew && !p.IsAdmin && len(p.Memberships) == 0:
		return user, ErrNoGroup
	}
	for _, candidate := range p.Names {
		user.Name, user.IsAdmin, err = candidate, p.IsAdmin, nil
		if isNew {
			user.ID, user.Subject = uuid.New(), &p.Subject
			err = s.store.AddUser(ctx, user)
		}
		if err == nil {
			err = s.store.Grant(ctx, user, p.Memberships)
		}
		if !errors.Is(err, people.ErrNameTaken) {
			return user, err
		}
	}
	return user, err
}

// AddProject creates a project; manager becomes its manager, unless it is uuid.Nil. Faults are returned as a
// FieldError of "name".
func (s Service) AddProject(ctx context.Context, name string, manager uuid.UUID) (people.Project, error) {
	var c checks
	project := people.Project{ID: uuid.New(), Name: c.name(name)}
	if err := c.err(); err != nil {
		return project, err
	}
	if err := s.store.AddProject(ctx, project); err != nil {
		return project, takenName(err)
	}
	if manager != uuid.Nil {
		if err := s.store.SetMember(ctx, project.ID, manager, people.Admin); err != nil {
			return project, err
		}
	}
	return s.store.Project(ctx, project.ID)
}

func takenName(err error) error {
	if errors.Is(err, people.ErrNameTaken) {
		return &FieldError{Field: "name", Err: err}
	}
	return err
}

// The maximum values of quotas; the minimum is 1.
const (
	MaxCallsPerDay   = 1_000_000_000
	MaxUploadsPerDay = 1_000_000
	MaxLanes         = 100_000
	MaxDiskBytes     = 1 << 50
)

// ChangeProject stores a project's name and quotas. Faults are returned as FieldErrors, named like the columns.
func (s Service) ChangeProject(ctx context.Context, project people.Project) (people.Project, error) {
	var c checks
	project.Name = c.name(project.Name)
	quota(&c, "calls_per_day", project.CallsPerDay, MaxCallsPerDay)
	quota(&c, "uploads_per_day", project.UploadsPerDay, MaxUploadsPerDay)
	quota(&c, "lanes", project.Lanes, MaxLanes)
	quota(&c, "disk_bytes", project.DiskBytes, MaxDiskBytes)
	if project.CostPerMonth != nil && !db.IsCost(*project.CostPerMonth) {
		c.fail("cost_per_month", ErrCost)
	}
	if err := c.err(); err != nil {
		return project, err
	}
	if err := s.store.ChangeProject(ctx, project); err != nil {
		return project, takenName(err)
	}
	return s.store.Project(ctx, project.ID)
}

// SetProjectSettings replaces the settings that a project's own administrators can change: the project's reasons for
// verdicts (duplicates and common reasons are dropped), its rubric, the smallest differences that matter, the address
// of its traces, and the sensitive patterns with what happens when they match. Faults are returned as FieldErrors of
// "review_reasons", "review_instructions", "review_dimensions", "smallest_points", "smallest_percent", "trace_url",
// "sensitive_patterns" and "sensitive_action".
func (s Service) SetProjectSettings(ctx context.Context, projectID uuid.UUID,
	settings people.ProjectSettings) (people.Project, error) {
	var c checks
	settings.ReviewReasons = c.reasons(settings.ReviewReasons)
	if to := settings.ReviewInstructions; to != nil {
		c.within("review_instructions", utf8.RuneCountInString(*to), 0, review.MaxInstructions, ErrReason)
	}
	if err := settings.ReviewDimensions.Validate(); err != nil {
		c.fail("review_dimensions", err)
	}
	for field, value := range map[string]*float64{"smallest_points": settings.SmallestPoints,
		"smallest_percent": settings.SmallestPercent} {
		if value != nil && !(*value >= 0 && *value <= 100) { // also catches NaN
			c.fail(field, ErrPercent)
		}
	}
	if to := settings.TraceURL; to != nil && *to != "" && !to.IsValid() {
		c.fail("trace_url", ErrTraceURL)
	}
	if to := settings.SensitiveAction; to != nil && !slices.Contains(people.SensitiveActions, *to) {
		c.fail("sensitive_action", ErrUnknownAction)
	}
	c.within("sensitive_patterns", len(settings.SensitivePatterns), 0, people.MaxPatterns, ErrReasons)
	for _, one := range settings.SensitivePatterns {
		if _, err := people.ParsePattern(one); err != nil {
			c.fail("sensitive_patterns", err)
			break
		}
	}
	if err := c.err(); err != nil {
		return people.Project{}, err
	}
	if err := s.store.SetProjectSettings(ctx, projectID, settings); err != nil {
		return people.Project{}, err
	}
	return s.store.Project(ctx, projectID)
}

// reasons checks a project's own reasons for verdicts and returns them, trimmed and each once, without the common ones.
func (c *checks) reasons(typed []string) []string {
	own := []string{}
	for _, one := range typed {
		reason := strings.TrimSpace(one)
		if reason == "" || utf8.RuneCountInString(reason) > review.MaxReasonLength ||
			strings.ContainsFunc(reason, unicode.IsControl) {
			c.within("review_reasons", 0, 1, review.MaxReasonLength, ErrReason)
			break
		}
		if !slices.Contains(own, reason) && !slices.Contains(review.Reasons, reason) {
			own = append(own, reason)
		}
	}
	c.within("review_reasons", len(own), 0, review.MaxReasons, ErrReasons)
	return own
}

// quota checks an amount; nil means no limit.
func quota[N int | int64](c *checks, field string, amount *N, most int) {
	if amount != nil {
		c.within(field, int(*amount), 1, most, ErrQuota)
	}
}

// SetMember gives an account a role in a project, and returns its previous role, or an empty one. If the role does
// not exist, it returns a FieldError of "role".
func (s Service) SetMember(ctx context.Context, projectID, userID uuid.UUID,
	role people.Role) (before people.Role, err error) {
	var c checks
	if c.role(role); c.err() != nil {
		return "", c.err()
	}
	if before, err = s.store.RoleIn(ctx, userID, projectID); err != nil {
		return "", err
	}
	return before, s.store.SetMember(ctx, projectID, userID, role)
}

// Maker is the account, token or command line that creates a token.
type Maker struct {
	// IsOperator means the command line, which may create any token; the other fields are empty then.
	IsOperator bool
	// UserID is uuid.Nil if the maker is not an account, and TokenID is uuid.Nil if it does not use a token.
	UserID, TokenID uuid.UUID
	// Role is the maker's role in the token's project.
	Role people.Role
}

// NewToken describes a token.
type NewToken struct {
	Name      string
	ProjectID uuid.UUID
	Role      people.Role
	Reach     people.Reach
	// Days is the lifetime; 0 means that the token never expires.
	Days int
}

// TokenDraft is a new token that has passed the checks.
type TokenDraft struct {
	people.Token
	lasts time.Duration
}

// DraftToken checks a new token. The token may not have more rights than its maker, and a maker that uses a token
// must be allowed to manage the project; otherwise DraftToken returns ErrForbidden. Faults are returned as
// FieldErrors of "name", "role" and "days".
func (s Service) DraftToken(maker Maker, n NewToken) (TokenDraft, error) {
	if maker.TokenID != uuid.Nil && !maker.Role.Allows(people.Admin) {
		return TokenDraft{}, ErrForbidden
	}
	var c checks
	draft := TokenDraft{
		people.Token{ID: uuid.New(), Name: c.name(n.Name), ProjectID: n.ProjectID, Role: n.Role, Reach: n.Reach},
		c.days(n.Days, 0),
	}
	c.role(n.Role)
	if err := c.err(); err != nil {
		return draft, err
	}
	if !maker.IsOperator && !maker.Role.Allows(n.Role) {
		return draft, ErrForbidden
	}
	if maker.UserID != uuid.Nil {
		draft.UserID = &maker.UserID
	}
	if maker.TokenID != uuid.Nil {
		draft.ParentID = &maker.TokenID
	}
	return draft, nil
}

// AddToken creates a token and returns its value, which cannot be read again.
func (s Service) AddToken(ctx context.Context, draft TokenDraft) (token people.Token, value string, err error) {
	if value, err = s.store.AddToken(ctx, draft.Token, draft.lasts); err != nil {
		return token, "", err
	}
	token, err = s.store.Token(ctx, draft.ID)
	return token, value, err
}

// RevokeToken revokes a token of a project with immediate effect, and returns the token as it was. If owner is not
// nil, it returns db.ErrNotFound for tokens of other accounts.
func (s Service) RevokeToken(ctx context.Context, projectID uuid.UUID, owner *uuid.UUID,
	id uuid.UUID) (people.Token, error) {
	token, err := s.store.Token(ctx, id)
	if err != nil {
		return token, err
	}
	if token.ProjectID != projectID || owner != nil && (token.UserID == nil || *token.UserID != *owner) {
		return people.Token{}, &db.NotFoundError{Kind: people.KindToken}
	}
	return token, s.store.RevokeToken(ctx, id)
}

// ErrUnknownAction means that there is no such people.SensitiveAction.
var ErrUnknownAction = errors.New("unknown action")

// ErrCommentMode means that there is no such people.CommentMode.
var ErrCommentMode = errors.New("unknown mode of comments")

// ErrFiltered means that only a link to answers can have filters.
var ErrFiltered = errors.New("only answers can be filtered")

// ErrUnknownKind means that there is no such kind of link. ErrNoReplay means that a link to a replay does not name
// exactly one question or unit with runs, or that a link of another kind names one.
var (
	ErrUnknownKind = errors.New("unknown kind of link")
	ErrNoReplay    = errors.New("not a question or unit with runs")
)

// ToShare describes what a new link shows.
type ToShare struct {
	Kind people.ShareKind
	// QuestionID or UnitID names what a replay shows.
	QuestionID string
	UnitID     int64
	// ItemIDs are the questions that a link to answers is limited to; nil means all.
	ItemIDs []int64
	// Filters is the query that chose ItemIDs; empty if there is none.
	Filters string
	// Comments says who sees the comments of the link's readers; empty means that they may not comment.
	Comments people.CommentMode
	Days     int
}

// addReplay sets the question or the unit that a link shows.
func (s Service) addReplay(ctx context.Context, c *checks, share *people.Share, n ToShare) error {
	isReplay := n.Kind == people.ShareReplay
	switch {
	case n.UnitID != 0:
		has, err := s.store.HasUnit(ctx, share.TaskID, n.UnitID)
		if err != nil {
			return err
		}
		if share.UnitID = &n.UnitID; !has || !isReplay || n.QuestionID != "" {
			c.fail("unit_id", ErrNoReplay)
		}
	case n.QuestionID != "":
		itemID, err := s.store.RunsToShare(ctx, share.TaskID, n.QuestionID)
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return err
		}
		if share.ItemID = &itemID; err != nil || !isReplay {
			c.fail("question_id", ErrNoReplay)
		}
	case isReplay:
		c.fail("question_id", ErrNoReplay)
	}
	return nil
}

// AddShare creates a link to a task, and returns its secret, which cannot be read again. It returns ErrNotFinished, or
// FieldErrors of "kind", "question_id", "unit_id", "comments" and "days" (which must be at least one).
func (s Service) AddShare(ctx context.Context, task db.Task, by string,
	n ToShare) (share people.Share, secret string, err error) {
	if !task.HasResults {
		return share, "", ErrNotFinished
	}
	var c checks
	lasts := c.days(n.Days, 1)
	if !slices.Contains(people.ShareKinds, n.Kind) {
		c.fail("kind", ErrUnknownKind)
	}
	share = people.Share{ID: uuid.New(), TaskID: task.ID, Kind: n.Kind, ItemIDs: n.ItemIDs, CreatedBy: by}
	if share.Comments = cmp.Or(n.Comments, people.CommentsOff); !slices.Contains(people.CommentModes, share.Comments) {
		c.fail("comments", ErrCommentMode)
	}
	if n.Filters != "" {
		share.Filters = &n.Filters
	}
	if n.ItemIDs != nil && n.Kind != people.ShareResults {
		c.fail("kind", ErrFiltered)
	}
	if err := s.addReplay(ctx, &c, &share, n); err != nil {
		return share, "", err
	}
	if err := c.err(); err != nil {
		return share, "", err
	}
	if secret, err = s.store.AddShare(ctx, share, lasts); err != nil {
		return share, "", err
	}
	share, err = s.store.Share(ctx, share.ID)
	return share, secret, err
}
