package people

import (
	"errors"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxNameLength is the maximum length of a name in characters.
const MaxNameLength = 64

// TokenMark is the prefix of the name under which a token without an owner acts; no account's name begins with it.
const TokenMark = "token:"

// Reasons for refusing a name.
var (
	ErrNameEmpty     = errors.New("a name needs at least one character")
	ErrNameLong      = errors.New("a name has at most 64 characters")
	ErrNameInvisible = errors.New("a name must not contain invisible characters")
	ErrNameReserved  = errors.New("a name must not begin with token: and must not be an IP address")
)

// CheckName returns a name in its stored form, or an error that names the reason for refusing it. Names that look the
// same are stored the same (NFKC, one space between words), and invisible characters are refused.
func CheckName(text string) (name string, err error) {
	name = normalName(text)
	_, notAnAddress := netip.ParseAddr(name)
	switch {
	case name == "":
		return "", ErrNameEmpty
	case !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) || strings.ContainsFunc(name, isInvisible):
		return "", ErrNameInvisible
	case utf8.RuneCountInString(name) > MaxNameLength:
		return "", ErrNameLong
	case strings.HasPrefix(strings.ToLower(name), TokenMark) || notAnAddress == nil:
		return "", ErrNameReserved
	}
	return name, nil
}

// CleanName makes the best possible name out of a text from another system: shortened, and without invisible
// characters. CheckName may still refuse it.
func CleanName(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case isInvisible(r) && !unicode.IsSpace(r):
			return -1
		}
		return r
	}, norm.NFKC.String(strings.ToValidUTF8(text, "")))
	name := normalName(text)
	if utf8.RuneCountInString(name) > MaxNameLength {
		name = strings.TrimSpace(string([]rune(name)[:MaxNameLength]))
	}
	return name
}

// normalName returns a text in NFKC, with one space between words.
func normalName(text string) string {
	words := strings.FieldsFunc(norm.NFKC.String(text), func(r rune) bool {
		return unicode.IsSpace(r) && !unicode.IsControl(r)
	})
	return strings.Trim(strings.Join(words, " "), "\t\r\n ")
}

// isInvisible reports whether a character cannot be seen, or looks like a space without being one.
func isInvisible(r rune) bool {
	if r == ' ' {
		return false
	}
	return !unicode.IsGraphic(r) || unicode.IsSpace(r) ||
		unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		r == '\u2800'
}
