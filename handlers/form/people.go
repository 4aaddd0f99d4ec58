package form

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/naming"
	"wending/db/people"
	"wending/handlers/fault"
	"wending/jobs/password"
	"wending/views/text"
)

// PersonName reads the name of an account, a project or a token.
func PersonName(form *Upload, field string) (name string, faults []FieldFault) {
	c := &fields{form: form}
	if !c.isText(field) {
		return "", c.faults
	}
	name, err := naming.Check(form.Values[field])
	switch {
	case errors.Is(err, naming.ErrEmpty):
		c.fail(field, fault.Field(field, fault.Required()))
	case errors.Is(err, naming.ErrReserved):
		c.fail(field, fault.Field(field, fault.UnreservedName()))
	case err != nil:
		c.fail(field, fault.Field(field, fault.VisibleName(naming.MaxLength)))
	}
	return name, c.faults
}

// NewPassword reads a password for an account, and hashes it.
func NewPassword(ctx context.Context, form *Upload, field, userName string) (hash string, faults []FieldFault, err error) {
	hash, reason, err := password.New(ctx, form.Values[field], userName)
	if reason != nil {
		return "", []FieldFault{{field, passwordFault(field, reason)}}, nil
	}
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

// FreeName says what is wrong with the name of a new account that another has, or that looks like another's.
func FreeName(ctx context.Context, accounts people.People, name string) ([]FieldFault, error) {
	other, err := accounts.Resembling(ctx, name)
	switch {
	case errors.Is(err, db.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case strings.EqualFold(other.Name, name):
		return []FieldFault{{"name", fault.Field("name", fault.Unique())}}, nil
	}
	return []FieldFault{{"name", fault.Field("name", fault.Unlike(other.Name))}}, nil
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
