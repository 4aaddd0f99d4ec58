// Package system renders the pages of the installation: workers, storage, sign-in, accounts, projects, tokens, links
// and the audit log.
package system

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"wending/db/people"
	"wending/views/text"
	"wending/views/ui"
)

// Login is the page on which people sign in.
type Login struct {
	// Name is the typed name, Next is the page to go to afterwards, and Error is the message about a failed attempt.
	Name, Next, Error string
	// Provider is the host of the OpenID Connect provider; empty means passwords.
	Provider                  string
	HasPasswords, HasPasskeys bool
	// Second is the proof that the password was correct and only a passkey is missing; empty otherwise.
	Second string
	// IsAgain reports that the user is signed in and is authenticating again.
	IsAgain bool
}

// toProvider returns the query of the link to the provider.
func (l Login) toProvider() url.Values {
	query := url.Values{"next": {l.Next}}
	if l.IsAgain {
		query.Set("again", "1")
	}
	return query
}

// Setup is the page that creates the first administrator.
type Setup struct {
	Key, Name string
	// Errors maps fields to the messages about them.
	Errors map[string]string
}

// Account is the page of the reader's own account.
type Account struct {
	User     people.User
	Projects []people.Membership
	Sessions []people.Session
	// Session is the session of the request.
	Session  uuid.UUID
	Passkeys []people.Passkey
	// CanAddPasskeys reports that passkeys work at this address.
	CanAddPasskeys bool
	// HasPassword reports that the account has a password.
	HasPassword bool
	// NeedsSecond reports that every account needs a passkey.
	NeedsSecond bool
	// Tokens are the usable tokens, and Kept are those that were ticked to be kept.
	Tokens []people.Token
	Kept   []uuid.UUID
	Errors map[string]string
}

// Users is the list of accounts.
type Users struct {
	List     []people.User
	Query    string
	Pager    ui.Pager
	Projects []people.Project
	// Values are the typed values for a new account, and Errors are the messages about them.
	Values, Errors map[string]string
	// HasPasswords reports that accounts are created here, and not by a provider or directory.
	HasPasswords bool
	// SignInAgain is the address for signing in again before creating the account; empty means that this is not
	// necessary.
	SignInAgain string
}

// User is the page of an account, for administrators.
type User struct {
	User     people.User
	Projects []people.Membership
	Sessions []people.Session
	Errors   map[string]string
	// SignInAgain is the address for signing in again before changing the account; empty means that this is not
	// necessary.
	SignInAgain string
}

// Projects is the list of projects.
type Projects struct {
	List []people.Membership
	// MayAdd reports that the reader may create projects.
	MayAdd         bool
	Values, Errors map[string]string
}

// Project is the page of a project.
type Project struct {
	Project people.Project
	// MayManage reports that the reader may change members and tokens, and MaySet reports that the reader may change the
	// name and quotas.
	MayManage, MaySet bool
	Members           []people.Member
	Tokens            []people.Token
	Used              people.QuotaUsed
	// Role is the highest role that a new token may have.
	Role people.Role
	// SignInAgain is the address for signing in again before creating the token; empty means that this is not
	// necessary.
	SignInAgain string
	// NewToken is the value of the token that was just created, which is shown once.
	NewToken       string
	Values, Errors map[string]string
	// SensitivePatterns are the patterns that apply to the project.
	SensitivePatterns []string
}

// Audit is a page of the audit log.
type Audit struct {
	Entries []people.AuditEntry
	// Actor, Action, Object, From and To are the typed filters.
	Actor, Action, Object, From, To string
	Actions                         []string
	Pager                           ui.Pager
	// IsChecked reports that the chain was verified. Count is its number of entries, and BrokenAt is the number of the
	// entry where it is broken; 0 means that it is intact. IsUnsealed reports that the chain does not begin or end where
	// it was sealed.
	IsChecked, IsUnsealed bool
	Count                 int
	BrokenAt              int64
	// Days is the number of days for which entries are kept; 0 means forever.
	Days int
}

// Shares are the share links of a task.
type Shares struct {
	TaskID uuid.UUID
	List   []people.Share
	// Address is the address of the link that was just created, which is shown once.
	Address string
	Errors  map[string]string
	// Kind and Number are the values chosen in the form.
	Kind, Number string
	// Chosen are the questions that Filters, the filters of a report, select; nil without filters.
	Chosen  []int64
	Filters url.Values
	// Open has the number of open comments that came through each link, keyed by the link's id.
	Open map[uuid.UUID]int
	// IsFinished reports that there is a report.
	IsFinished bool
}

// KeepField is the prefix of the names of fields that keep tokens; a token's id follows.
const KeepField = "keep_"

// tokenRole returns the role that the form for a new token selects.
func (p Project) tokenRole() string {
	return cmp.Or(p.Values["token_role"], string(people.Least(p.Role, people.Editor)))
}

// tokenDays returns the lifetime, in days, that the form for a new token selects.
func (p Project) tokenDays() string { return cmp.Or(p.Values["token_days"], "90") }

// tokenDays and shareDays are the choices for the lifetime of tokens and of links, in days; 0 means no expiry.
var (
	tokenDays = []int{30, 90, 180, 365, 0}
	shareDays = []int{1, 7, 30, 90}
)

func daysChoices(locale text.Locale, days []int) (choices []ui.Choice) {
	for _, n := range days {
		label := locale.Text("people.days", "Count", n)
		if n == 0 {
			label = locale.Text("token.forever")
		}
		choices = append(choices, ui.Choice{Value: strconv.Itoa(n), Label: label})
	}
	return choices
}

// roleChoices returns the roles up to the given one.
func roleChoices(locale text.Locale, most people.Role) (choices []ui.Choice) {
	for _, role := range people.Roles {
		if most.Allows(role) {
			choices = append(choices, ui.Choice{Value: string(role),
				Label: locale.Text("role."+string(role)) + " · " + locale.Text("role.about."+string(role))})
		}
	}
	return choices
}

func projectChoices(projects []people.Project) (choices []ui.Choice) {
	for _, one := range projects {
		choices = append(choices, ui.Choice{Value: one.ID.String(), Label: one.Name})
	}
	return choices
}

func keyID(id []byte) string { return base64.RawURLEncoding.EncodeToString(id) }

// errorOf returns the message that does not belong to a field.
func errorOf(errors map[string]string) string { return errors[""] }

func isEnabled(at *time.Time) bool { return at == nil }

// number formats a quota for its field; empty if there is none.
func number[T int | int64](n *T) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

// megabytes formats a quota in bytes as megabytes for its field; empty if there is none.
func megabytes(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n>>20, 10)
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// share returns the used part of a quota in percent, at most 100; 0 if there is no quota.
func share(used, most float64) int {
	if most <= 0 {
		return 0
	}
	return int(min(100, used/most*100))
}

// statusName returns the text for the status of an unsuccessful response.
func statusName(locale text.Locale, status int) string {
	if status == people.OutcomeUnknown {
		return locale.Text("audit.unknown")
	}
	if status < 500 {
		return locale.Text("audit.refused")
	}
	return locale.Text("audit.failed")
}

// ActionName returns the text for an action of the audit log.
func ActionName(locale text.Locale, action string) string {
	if slices.Contains(OwnActions, action) {
		return locale.Text("action." + action)
	}
	object, verb, _ := strings.Cut(action, ".")
	return locale.Text("action.of", "Verb", locale.Text("verb."+verb), "Thing", locale.Text("thing."+object))
}

// OwnActions are the actions that have their own text.
var OwnActions = []string{
	"sign-in", "sign-in.refused", "sign-out", "user.password", "user.password_refused", "task.append", "task.archive",
	"task.confirm", "task.confirm_sensitive", "task.extend", "task.group", "task.run", "task.withhold",
	"task.export", "task.print", "task.sign-off", "member.set", "project.settings", "review.pass",
	"review.compare", "review.group", "review.sample", "review.set",
	"session.end",
}
