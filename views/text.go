package views

import (
	"strings"
	"unicode/utf8"
)

// shownText makes bytes of an agent fit for a page: what is no text is replaced, what is long is cut.
func shownText(text []byte, limit int) string {
	shown := strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\x00", "\u2400")
	return cutText(shown, limit)
}

// cutText returns the first limit characters of a text, with a mark where there are more.
func cutText(text string, limit int) string {
	if head, isCut := headOf(text, limit); isCut {
		return head + "…"
	}
	return text
}

// headOf returns the first limit characters of a text, and whether there are more.
func headOf(text string, limit int) (head string, isCut bool) {
	if len(text) <= limit {
		return text, false
	}
	end := 0
	for range limit {
		if end >= len(text) {
			return text, false
		}
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return text[:end], end < len(text)
}
