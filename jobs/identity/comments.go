package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"wending/db/people"
	"wending/db/review"
)

// Comment is a comment as a reader of a link typed it.
type Comment struct{ Name, Text string }

// Checked returns the comment in its stored form: the name without misleading characters, and the text without control
// and formatting characters, which could hide or reorder it. Faults are returned as FieldErrors of "name" and
// "comment".
func (given Comment) Checked() (Comment, error) {
	var c checks
	checked := Comment{Name: people.CleanName(given.Name)}
	if checked.Name == "" {
		c.fail("name", people.ErrNameEmpty)
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(given.Text, "\uFFFD"), "\r\n", "\n")
	checked.Text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, text))
	if checked.Text == "" || utf8.RuneCountInString(checked.Text) > review.MaxComment {
		c.within("comment", 0, 1, review.MaxComment, ErrReason)
	}
	return checked, c.err()
}
