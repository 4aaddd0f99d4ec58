package wire

import "unicode/utf8"

// Cut returns the beginning of a text, at most limit bytes, without splitting a character. Text that is not UTF-8 may
// be cut anywhere.
func Cut[T string | []byte](text T, limit int) T {
	if len(text) <= limit {
		return text
	}
	for end := limit; end >= 0 && end > limit-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:max(limit, 0)]
}
