package form

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"wending/db/people"
	"wending/handlers/fault"
	"wending/handlers/request"
	"wending/jobs/password"
	"wending/views/text"
)

// maxPersonName is how many characters names of accounts, projects and tokens have at most.
const maxPersonName = 64

// CutName makes a text from elsewhere a name.
func CutName(name string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, request.StorableText(name)))
	if utf8.RuneCountInString(name) > maxPersonName {
		name = strings.TrimSpace(string([]rune(name)[:maxPersonName]))
	}
	return name
}

// TokenMark begins the name of a token that has no owner, wherever it acts: no account's name begins so.
const TokenMark = "token:"

// PersonName reads the name of an account, a project or a token. What looks the same is the same, and what cannot be seen is refused.
func PersonName(form *Upload, field string) (name string, faults []FieldFault) {
	c := &fields{form: form}
	c.text(field, maxPersonName, true, &name)
	name = norm.NFKC.String(name)
	_, notAnAddress := netip.ParseAddr(name)
	if len(c.faults) == 0 && (strings.ContainsFunc(name, isInvisible) || strings.HasPrefix(strings.ToLower(name), TokenMark) || notAnAddress == nil) {
		c.fail(field, fault.Field(field, fault.TextUpTo(maxPersonName)))
	}
	return name, c.faults
}

// isInvisible reports whether a character cannot be seen, or only as a blank that is none.
func isInvisible(r rune) bool {
	if r == ' ' {
		return false
	}
	return !unicode.IsGraphic(r) || unicode.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		r == '\u2800'
}

// NewPassword reads a password for an account, and hashes it.
func NewPassword(ctx context.Context, form *Upload, field, userName string) (hash string, faults []FieldFault, err error) {
	typed := form.Values[field]
	if reason := password.Check(typed, userName); reason != nil {
		return "", []FieldFault{{field, passwordFault(field, reason)}}, nil
	}
	hash, err = password.Hash(ctx, typed)
	return hash, nil, err
}

// passwordFault says what is wrong with a password.
func passwordFault(field string, reason error) *fault.Fault {
	problem := "common"
	switch {
	case errors.Is(reason, password.ErrShort):
		problem = "short"
	case errors.Is(reason, password.ErrLong):
		problem = "long"
	}
	return fault.Field(field, fault.Password(problem, password.MinLength))
}

// NewUser reads the name and password of a new account.
func NewUser(ctx context.Context, form *Upload) (user people.User, faults []FieldFault, err error) {
	user.ID = uuid.New()
	if user.Name, faults = PersonName(form, "name"); len(faults) > 0 {
		return user, faults, nil
	}
	hash, faults, err := NewPassword(ctx, form, "password", user.Name)
	user.PasswordHash = &hash
	return user, faults, err
}

// Role reads a role.
func Role(form *Upload, field string) (role people.Role, faults []FieldFault) {
	role = people.Role(form.Value(field))
	if !role.IsKnown() {
		return role, []FieldFault{{field, fault.Field(field, fault.OneOf(texts(people.Roles)...))}}
	}
	return role, nil
}

// Messages are faults in the words of a locale, by their fields.
func Messages(locale text.Locale, faults []FieldFault) map[string]string {
	messages := map[string]string{}
	for _, f := range faults {
		if _, isThere := messages[f.Field]; !isThere {
			messages[f.Field] = f.Beside(locale)
		}
	}
	return messages
}
