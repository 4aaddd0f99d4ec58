package form

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"wending/handlers/request"
	"wending/jobs/tasks"
)

// fields parses the fields of a form and collects their faults.
type fields struct {
	form   *Upload
	faults []FieldFault
}

func (c *fields) fail(field string, f *request.Fault) {
	c.faults = append(c.faults, FieldFault{field, f})
}

// hasFault reports whether at least one of the fields has a fault.
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

// isText reports whether a field can be read as text: in a JSON form, whether it is absent, a string or null. If it is
// not, isText adds a fault.
func (c *fields) isText(field string) bool {
	if c.form.IsJSON && c.form.notTexts[field] {
		c.fail(field, request.FieldFault(field, request.ValidText()))
		return false
	}
	return true
}

// text stores a field's text, trimmed, in *to; an absent field keeps *to. It adds a fault if the text contains control
// characters, has more than the given number of characters, or is empty although isRequired is set.
func (c *fields) text(field string, most int, isRequired bool, to *string) {
	if !c.isText(field) {
		return
	}
	if c.form.Has(field) {
		*to = strings.TrimSpace(c.form.Values[field])
	}
	c.line(field, most, isRequired, *to)
}

// line adds a fault if text is not a valid single line, by the same rules as the method text.
func (c *fields) line(field string, most int, isRequired bool, text string) {
	if isRequired && text == "" {
		c.fail(field, request.FieldFault(field, request.Required()))
		return
	}
	if utf8.RuneCountInString(text) > most || tasks.HasControl(text) {
		c.fail(field, request.FieldFault(field, request.TextUpTo(most)))
	}
}

// long is like the method text, for texts that may have several lines or be empty.
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
