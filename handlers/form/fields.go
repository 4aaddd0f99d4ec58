package form

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"wending/handlers/request"
	"wending/jobs/tasks"
)

// fields checks the fields of a form and collects their faults.
type fields struct {
	form   *Upload
	faults []FieldFault
}

func (c *fields) fail(field string, f *request.Fault) {
	c.faults = append(c.faults, FieldFault{field, f})
}

// hasFault reports whether one of the fields has a fault.
func (c *fields) hasFault(names ...string) bool {
	for _, f := range c.faults {
		for _, name := range names {
			if f.Field == name {
				return true
			}
		}
	}
	return false
}

// isText reports whether a field is a text: in a form written as JSON, a string or null. If it is not, isText adds a
// fault.
func (c *fields) isText(field string) bool {
	if c.form.IsJSON && c.form.notTexts[field] {
		c.fail(field, request.FieldFault(field, request.ValidText()))
		return false
	}
	return true
}

// text reads a text with at most the given number of characters; if isRequired is set, it must not be empty.
func (c *fields) text(field string, most int, isRequired bool, to *string) {
	if !c.isText(field) {
		return
	}
	if c.form.Has(field) {
		*to = strings.TrimSpace(c.form.Values[field])
	}
	c.line(field, most, isRequired, *to)
}

// line checks a text of one line.
func (c *fields) line(field string, most int, isRequired bool, text string) {
	if isRequired && text == "" {
		c.fail(field, request.FieldFault(field, request.Required()))
		return
	}
	if utf8.RuneCountInString(text) > most || tasks.HasControl(text) {
		c.fail(field, request.FieldFault(field, request.TextUpTo(most)))
	}
}

// long is like text, for texts of several lines.
func (c *fields) long(field string, most int, to *string) {
	if !c.isText(field) {
		return
	}
	if c.form.Has(field) {
		*to = strings.ReplaceAll(c.form.Values[field], "\r\n", "\n")
	}
	if utf8.RuneCountInString(*to) > most || strings.ContainsRune(*to, 0) || !utf8.ValidString(*to) {
		c.fail(field, request.FieldFault(field, request.LongTextUpTo(most)))
	}
}

func (c *fields) number(field string, least, most int, to *int) {
	typed := c.form.Value(field)
	if typed == "" {
		return
	}
	number, err := strconv.Atoi(typed)
	if err != nil || number < least || number > most {
		c.fail(field, request.FieldFault(field, request.Between(least, most)))
		return
	}
	*to = number
}

func (c *fields) boolean(field string, set func(bool)) {
	typed := c.form.Value(field)
	if typed == "" {
		return
	}
	is, err := strconv.ParseBool(typed)
	if err != nil {
		c.fail(field, request.FieldFault(field, request.Boolean()))
		return
	}
	set(is)
}
