package pg

import (
	"bytes"
	"database/sql/driver"
	"strings"
	"unicode/utf8"
)

// StorableText replaces the bytes that PostgreSQL's text type cannot hold: each NUL becomes ␀, and each run of invalid
// UTF-8 bytes becomes a single �.
func StorableText(text string) string {
	if !strings.ContainsRune(text, 0) && utf8.ValidString(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\u2400")
}

// StorableBytes is like StorableText, but does not copy a text that needs no replacement; isSame reports that.
func StorableBytes(text []byte) (storable []byte, isSame bool) {
	if bytes.IndexByte(text, 0) < 0 && utf8.Valid(text) {
		return text, true
	}
	return []byte(StorableText(string(text))), false
}

// Texts is an argument of type text[], in which nil is NULL. It copies long texts once; pq.StringArray copies them
// three times.
type Texts [][]byte

// Value implements driver.Valuer.
func (t Texts) Value() (driver.Value, error) {
	size := len("{}")
	for _, text := range t {
		size += max(len(`"",`)+len(text)+bytes.Count(text, []byte{'"'})+bytes.Count(text, []byte{'\\'}), len("NULL,"))
	}
	var literal strings.Builder
	literal.Grow(size)
	literal.WriteByte('{')
	for n, text := range t {
		if n > 0 {
			literal.WriteByte(',')
		}
		if text == nil {
			literal.WriteString("NULL")
			continue
		}
		literal.WriteByte('"')
		for {
			special := bytes.IndexAny(text, `"\`)
			if special < 0 {
				break
			}
			literal.Write(text[:special])
			literal.WriteByte('\\')
			literal.WriteByte(text[special])
			text = text[special+1:]
		}
		literal.Write(text)
		literal.WriteByte('"')
	}
	literal.WriteByte('}')
	return literal.String(), nil
}
