// Package request holds what all requests have in common: the data in their context (the principal, the language, the
// request id and the audit record), the limits on concurrent costly work, and the errors that users and API clients
// see, with one table of codes and their HTTP status.
package request

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/people"
	"wending/views/paths"
	"wending/views/text"
	"wending/views/ui"
)

// Info is the data of one request.
type Info struct {
	Locale text.Locale
	Actor  db.Actor
	// Who is the principal of the request.
	Who Principal
	// Project is the project of the request; it is zero if the request belongs to no project, or concerns all of them (see
	// Scope).
	Project people.Project
	// Scope is the set of objects that the request may read and change: the project's objects or, without accounts,
	// the objects of all projects, unless the request names one. The zero value matches nothing.
	Scope db.Scope
	// Role is the role of the request's account in the project.
	Role people.Role
	// HasAccounts reports that people must sign in.
	HasAccounts bool
	// IsSecure reports that the request came over HTTPS.
	IsSecure bool
	// Confirmation is the value of ConfirmParameter.
	Confirmation string
	// ID is the request's id, as in the log.
	ID string
	// TakeUpload counts an upload against the project's quota; if the quota is used up, it returns an error that says so.
	TakeUpload func(context.Context) error
	// Gates limits costly work.
	Gates *Gates
}

// Duty is a step that a user must complete in a browser before doing anything else.
type Duty string

// The duties: replacing a password that another person chose, and registering a passkey if passkeys are mandatory.
const (
	DutyPassword Duty = "password"
	DutyPasskey  Duty = "passkey"
)

// Principal is the account or token that makes a request.
type Principal struct {
	// UserID is the account; uuid.Nil means none.
	UserID uuid.UUID
	// SessionID identifies the browser's session, and TokenID identifies the program's token.
	SessionID, TokenID uuid.UUID
	// Name is the name of the account, or of a token without an account.
	Name string
	// IsAdmin reports that the principal may do everything in all projects.
	IsAdmin bool
	// IsFresh reports that the session is proven and began at most people.FreshFor ago (see people.Signed).
	IsFresh bool
	// Duty is the step that must be completed first; empty means none.
	Duty Duty
	// Projects are the projects that the principal is a member of; for an administrator, all projects.
	Projects []people.Membership
}

// IsKnown reports whether a user has signed in, or signing in is not required.
func (p Principal) IsKnown() bool { return p.IsAdmin || p.UserID != uuid.Nil || p.TokenID != uuid.Nil }

type key struct{}

// With returns a context with the request's info; templates take the language and the role from it.
func With(ctx context.Context, info Info) context.Context {
	return context.WithValue(ui.WithRole(text.WithLocale(ctx, info.Locale), info.Role), key{}, info)
}

// From returns the info that With put in a context; it is zero if there is none.
func From(ctx context.Context) Info {
	info, _ := ctx.Value(key{}).(Info)
	return info
}

// ScopeOf returns the scope of the request in a context; without a request it matches nothing.
func ScopeOf(ctx context.Context) db.Scope { return From(ctx).Scope }

// The cookies that keep a browser's choices.
const (
	LanguageCookie = "lang"
	ThemeCookie    = "theme"
	// ProjectCookie keeps the browser's last project.
	ProjectCookie = "project"
)

// hostPrefix begins the names of cookies over HTTPS: browsers do not let other sites, including subdomains and the
// parent domain, set such a cookie.
const hostPrefix = "__Host-"

// CookieName returns the name under which browsers keep a cookie.
func CookieName(isSecure bool, name string) string {
	if isSecure {
		return hostPrefix + name
	}
	return name
}

// Kept returns the choice in a browser's cookie; empty means none. An old cookie without the prefix is accepted until
// the choice is made again, because it does not authenticate anyone.
func Kept(r *http.Request, name string) string {
	for _, one := range []string{hostPrefix + name, name} {
		if cookie, err := r.Cookie(one); err == nil {
			return cookie.Value
		}
	}
	return ""
}

// Settings maps the cookies that keep a reader's settings to their valid values.
var Settings = map[string][]string{LanguageCookie: text.Languages, ThemeCookie: Themes}

// Themes are the themes that can be chosen.
var Themes = []string{"dark", "light"}

// LanguageParameter is the parameter of the API that names the language of messages and reports.
const LanguageParameter = "lang"

// Choices returns the language and the theme of a request; an empty theme means the browser's own. It ignores
// Accept-Language, because the product's users read Chinese, regardless of their browser's settings.
func Choices(r *http.Request, defaultLanguage string) (lang, theme string) {
	lang = defaultLanguage
	if kept := Kept(r, LanguageCookie); slices.Contains(text.Languages, kept) {
		lang = kept
	}
	if asked := r.URL.Query().Get(LanguageParameter); IsAPI(r) && slices.Contains(text.Languages, asked) {
		lang = asked
	}
	if kept := Kept(r, ThemeCookie); slices.Contains(Themes, kept) {
		theme = kept
	}
	return lang, theme
}

// IsAPI reports whether a request comes from a program: to the API, for an assistant's tools, or with agents' spans.
// Other requests are for pages.
func IsAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path+"/", "/api/") || r.URL.Path == paths.MCP || r.URL.Path == paths.Traces
}

// IsFragment reports whether htmx requests a part of a page.
func IsFragment(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// StorableText returns text with what PostgreSQL rejects, NUL and invalid UTF-8, replaced by U+FFFD.
func StorableText(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// SearchText returns a parameter in the form in which it is compared with stored text: trimmed, and without what
// PostgreSQL rejects.
func SearchText(parameter string) string {
	return strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(parameter, "\x00", ""), ""))
}

// ID parses the id of an object of the kind. Only the canonical form of a UUID is accepted; for any other text, the
// error says that the object does not exist.
func ID(text string, kind db.Kind) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return uuid.Nil, &db.NotFoundError{Kind: kind}
	}
	return id, nil
}

// Task returns the task whose id is in the path or a parameter, within the request's scope, or a db.NotFoundError.
func Task(ctx context.Context, store *db.Store, id string) (db.Task, error) {
	parsed, err := ID(id, db.KindTask)
	if err != nil {
		return db.Task{}, err
	}
	return store.Task(ctx, ScopeOf(ctx), parsed)
}

// RunID parses the id of a run in a path; if it is not a number, the error says that the run does not exist.
func RunID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, &db.NotFoundError{Kind: db.KindRun}
	}
	return id, nil
}

// Compared parses one side of a comparison: a task's id, optionally followed by a colon and the number of a variant;
// the default is 1.
func Compared(text string) (taskID uuid.UUID, variant int, err error) {
	text, number, hasVariant := strings.Cut(text, ":")
	if variant = 1; hasVariant {
		if variant, err = strconv.Atoi(number); err != nil || variant < 1 {
			return uuid.Nil, 0, &db.NotFoundError{Kind: db.KindVariant}
		}
	}
	taskID, err = ID(text, db.KindTask)
	return taskID, variant, err
}

// HasVariant returns a db.NotFoundError unless the task has a variant with this number.
func HasVariant(task db.Task, variant int) error {
	if variant > task.TotalVariants {
		return &db.NotFoundError{Kind: db.KindVariant}
	}
	return nil
}

// RequireFresh returns ErrStale if the user signed in too long ago: someone who finds the browser open must not
// change how an account signs in. A token has no session, and authenticates each request.
func RequireFresh(ctx context.Context) error {
	if who := From(ctx).Who; who.IsFresh || who.SessionID == uuid.Nil {
		return nil
	}
	return ErrStale
}

// ErrStale means that the user must sign in again first.
var ErrStale = errors.New("signed in too long ago")

// LocalPath returns text if it is a path on this site, and otherwise if it might point to another site.
func LocalPath(text, otherwise string) string {
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.ContainsAny(text, "\\\r\n\t") {
		return otherwise
	}
	return text
}
