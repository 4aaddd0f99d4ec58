package form

import (
	"cmp"
	"errors"
	"wending/db/review"

	"wending/db/people"
	"wending/handlers/request"
	"wending/jobs/identity"
	"wending/views/text"
)

// PersonFaults converts field errors of package identity into faults of a form, and returns any other err unchanged.
// renamed maps fields of the use case to form fields with different names.
func PersonFaults(err error, renamed map[string]string) ([]FieldFault, error) {
	all := []error{err}
	if joined, isJoined := err.(interface{ Unwrap() []error }); isJoined {
		all = joined.Unwrap()
	}
	var faults []FieldFault
	for _, one := range all {
		//nolint:errorlint // an error that wraps a FieldError means more than a faulty field
		wrong, isField := one.(*identity.FieldError)
		if !isField {
			return nil, err
		}
		field := cmp.Or(renamed[wrong.Field], wrong.Field)
		faults = append(faults, FieldFault{field, request.FieldFault(field, personLimit(wrong))})
	}
	return faults, nil
}

// personLimit describes the valid values of the field that an error is about.
func personLimit(wrong *identity.FieldError) request.Limit {
	if choices := choicesOf(wrong); choices != nil {
		return request.OneOf(choices...)
	}
	var taken *identity.TakenError
	switch {
	case errors.As(wrong, &taken) && !taken.IsSame:
		return request.Unlike(taken.Other)
	case errors.As(wrong, &taken), errors.Is(wrong, people.ErrNameTaken):
		return request.Unique()
	case errors.Is(wrong, people.ErrNameEmpty):
		return request.Required()
	case errors.Is(wrong, people.ErrNameReserved):
		return request.UnreservedName()
	case errors.Is(wrong, people.ErrPattern):
		return request.SensitivePattern(people.MaxPatternLength)
	case errors.Is(wrong, review.ErrDimension):
		return request.RatedDimensions(review.MaxDimensions)
	case wrong.Field == "name":
		return request.VisibleName(people.MaxNameLength)
	case errors.Is(wrong, identity.ErrDays):
		return request.Between(wrong.Least, identity.MaxDays)
	case errors.Is(wrong, identity.ErrNoReplay):
		return request.RunsToReplay()
	case errors.Is(wrong, identity.ErrQuota):
		return request.Between(1, wrong.Most)
	case errors.Is(wrong, identity.ErrReason):
		return request.TextUpTo(wrong.Most)
	case errors.Is(wrong, identity.ErrPercent):
		return request.Between(0, 100)
	case errors.Is(wrong, identity.ErrTraceURL):
		return request.ValidTraceURL(people.MaxTraceTemplate)
	case errors.Is(wrong, identity.ErrReasons):
		return request.ValuesBetween(0, wrong.Most)
	case errors.Is(wrong, identity.ErrViewEmpty):
		return request.Required()
	case errors.Is(wrong, identity.ErrViewLong):
		return request.TextUpTo(identity.MaxViewQuery)
	case errors.Is(wrong, identity.ErrCost):
		return request.ValidCost()
	}
	return passwordLimit(wrong)
}

func passwordLimit(wrong *identity.FieldError) request.Limit {
	problem := "common"
	switch {
	case errors.Is(wrong, identity.ErrPasswordShort):
		problem = "short"
	case errors.Is(wrong, identity.ErrPasswordLong):
		problem = "long"
	}
	return request.ValidPassword(problem, identity.MinPassword)
}

// choicesOf returns the valid values of the field that an error is about, if they are a fixed list; nil otherwise.
func choicesOf(wrong *identity.FieldError) []string {
	switch {
	case errors.Is(wrong, identity.ErrUnknownRole):
		return texts(people.Roles)
	case errors.Is(wrong, identity.ErrUnknownAction):
		return texts(people.SensitiveActions)
	case errors.Is(wrong, identity.ErrCommentMode):
		return texts(people.CommentModes)
	case errors.Is(wrong, identity.ErrFiltered):
		return []string{string(people.ShareResults)}
	case errors.Is(wrong, identity.ErrUnknownKind):
		return texts(people.ShareKinds)
	case errors.Is(wrong, identity.ErrViewKind):
		return texts(people.ViewKinds)
	case errors.Is(wrong, identity.ErrViewParameter):
		return identity.ViewParameters(wrong.Of)
	}
	return nil
}

// Flag parses a boolean field; if it is absent, the result is false.
func Flag(form *Upload, field string) (value bool, faults []FieldFault) {
	text := form.Value(field)
	if form.Has(field) && text != "true" && text != "false" {
		faults = []FieldFault{{field, request.FieldFault(field, request.Boolean())}}
	}
	return text == "true", faults
}

// OnlyTexts returns a fault for each of the named fields of a JSON form whose value is neither a string nor null.
func OnlyTexts(form *Upload, names ...string) []FieldFault {
	c := &fields{form: form}
	for _, field := range names {
		c.isText(field)
	}
	return c.faults
}

// Messages maps the names of fields to the messages of their first faults, in the locale's language.
func Messages(locale text.Locale, faults []FieldFault) map[string]string {
	messages := map[string]string{}
	for _, f := range faults {
		if _, isThere := messages[f.Field]; !isThere {
			messages[f.Field] = f.Beside(locale)
		}
	}
	return messages
}
