package pg

import (
	"strings"
	"unicode/utf8"
)

// StorableText replaces what PostgreSQL's text cannot hold: NUL becomes ␀, an invalid byte of UTF-8 becomes �.
func StorableText(text string) string {
	if !strings.ContainsRune(text, 0) && utf8.ValidString(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\u2400")
}
