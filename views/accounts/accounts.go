// Package accounts shows who may use the installation: sign-in, accounts, projects, tokens, links and the audit.
package accounts

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"wending/db/audit"
	"wending/db/people"
	"wending/views/text"
	"wending/views/ui"
)

// Login is the page on which people sign in.
type Login struct {
	// Name is what was typed, Next where to go afterwards, Error what was wrong.
	Name, Next, Error string
	// Provider is the host of the OpenID Connect provider; empty means passwords.
	Provider                  string
	HasPasswords, HasPasskeys bool
	// Second proves that the password was right and only a passkey is missing; empty otherwise.
	Second string
	// IsAgain reports that somebody is signed in, and proves it again.
	IsAgain bool
}

// toProvider is the query with which the provider is asked.
func (l Login) toProvider() url.Values {
	query := url.Values{"next": {l.Next}}
	if l.IsAgain {
		query.Set("again", "1")
	}
	return query
}

// Setup makes the first administrator.
type Setup struct {
	Key, Name string
	// Errors are by field.
	Errors map[string]string
}

// Account is the page of one's own account.
type Account struct {
	User     people.User
	Projects []people.Membership
	Sessions []people.Session
	// Session is the one that asks.
	Session  uuid.UUID
	Passkeys []people.Passkey
	// CanAddPasskeys reports that this address can have some.
	CanAddPasskeys bool
	// HasPassword reports that a password opens the account.
	HasPassword bool
	// NeedsSecond reports that every account needs a passkey.
	NeedsSecond bool
	// Tokens are those that can be used, Kept those that were ticked to be kept.
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
	// Values are what was typed for a new account, Errors what is wrong with it.
	Values, Errors map[string]string
	// HasPasswords reports that accounts are made here, and not by a provider.
	HasPasswords bool
	// SignInAgain is where one signs in again to make the account that was typed; empty means that one need not.
	SignInAgain string
}

// User is the page of an account, for administrators.
type User struct {
	User     people.User
	Projects []people.Membership
	Sessions []people.Session
	Errors   map[string]string
	// SignInAgain is where one signs in again to change the account; empty means that one need not.
	SignInAgain string
}

// Projects is the list of projects.
type Projects struct {
	List []people.Membership
	// MayAdd reports that new ones can be made.
	MayAdd         bool
	Values, Errors map[string]string
}

// Project is the page of a project.
type Project struct {
	Project people.Project
	// MayManage reports that members and tokens can be changed, MaySet name and quotas.
	MayManage, MaySet bool
	Members           []people.Member
	Tokens            []people.Token
	Used              people.QuotaUsed
	// Role is the most that a token may have that is made here.
	Role people.Role
	// SignInAgain is where one signs in again to make the token that was typed; empty means that one need not.
	SignInAgain string
	// NewToken is the value of the token that was just made, shown once.
	NewToken       string
	Values, Errors map[string]string
}

// Audit is a page of the audit.
type Audit struct {
	Entries []audit.Entry
	// Actor, Action, Object, From and To are the filters as they were typed.
	Actor, Action, Object, From, To string
	Actions                         []string
	Pager                           ui.Pager
	// IsChecked reports that the chain was read, Count how many entries it has, BrokenAt where it is broken; 0 means nowhere. IsUnsealed
	// reports that it does not begin or end where it was sealed.
	IsChecked, IsUnsealed bool
	Count                 int
	BrokenAt              int64
	// Days is how long entries are kept; 0 means for good.
	Days int
}

// Shares are the links to a task's report.
type Shares struct {
	TaskID uuid.UUID
	List   []people.Share
	// Address is the address of the link that was just made, shown once.
	Address string
	Errors  map[string]string
	// IsFinished reports that there is a report.
	IsFinished bool
}

// KeepField begins the names of the fields that keep tokens; a token's id follows.
const KeepField = "keep_"

// tokenRole is the choice for the role of a new token.
func (p Project) tokenRole() string {
	return cmp.Or(p.Values["token_role"], string(people.Least(p.Role, people.Editor)))
}

// tokenDays is the choice for how long a new token lasts.
func (p Project) tokenDays() string { return cmp.Or(p.Values["token_days"], "90") }

// lifetimes are the days that tokens and links may last, to choose from; 0 is for good.
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

// roleChoices are the roles up to one.
func roleChoices(locale text.Locale, most people.Role) (choices []ui.Choice) {
	for _, role := range people.Roles {
		if most.Allows(role) {
			choices = append(choices, ui.Choice{Value: string(role), Label: locale.Text("role."+string(role)) + " · " + locale.Text("role.about."+string(role))})
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

// errorOf is the fault that belongs to no field.
func errorOf(errors map[string]string) string { return errors[""] }

func isEnabled(at *time.Time) bool { return at == nil }

// number is a quota as its field has it.
func number[T int | int64](n *T) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

// megabytes is a quota in bytes as its field has it.
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

// share is how much of a quota is used, from 0 to 100; of none it is 0.
func share(used, most float64) int {
	if most <= 0 {
		return 0
	}
	return int(min(100, used/most*100))
}

// statusName is the status of an answer that is no success in words.
func statusName(locale text.Locale, status int) string {
	if status == audit.StatusUnknown {
		return locale.Text("audit.unknown")
	}
	if status < 500 {
		return locale.Text("audit.refused")
	}
	return locale.Text("audit.failed")
}

// ActionName is an action of the audit in words.
func ActionName(locale text.Locale, action string) string {
	if slices.Contains(OwnActions, action) {
		return locale.Text("action." + action)
	}
	object, verb, _ := strings.Cut(action, ".")
	return locale.Text("action.of", "Verb", locale.Text("verb."+verb), "Thing", locale.Text("thing."+object))
}

// OwnActions are the actions that have a text of their own.
var OwnActions = []string{
	"sign-in", "sign-in.refused", "sign-out", "user.password", "user.password_refused", "task.append", "task.archive", "task.extend", "task.run",
	"task.export", "task.print", "task.sign-off", "member.set", "project.settings", "review.pass", "session.end",
}
