package measure

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Level is how alike the answers to one question are.
type Level string

// The levels, from equal to different; Empty and Unknown are outside this order.
const (
	// Identical means that all answers are equal.
	Identical Level = "identical"
	// FormatOnly means that answers differ only in white space, case, punctuation, Markdown or the layout of JSON.
	FormatOnly Level = "format_only"
	// Facts means that two answers contradict each other on a fact, but otherwise have the same subject: their mean
	// similarity is at least sameSubject.
	Facts Level = "facts"
	// Wording means that the answers are alike: their mean similarity is at least sameWording.
	Wording Level = "wording"
	// Different means that the answers are not alike.
	Different Level = "different"
	// Empty means that all answers are empty.
	Empty Level = "empty"
	// Unknown means that fewer than two runs have an answer.
	Unknown Level = "unknown"
)

// Levels lists all levels in the order of the API and of exported files.
var Levels = []Level{Identical, FormatOnly, Facts, Wording, Different, Empty, Unknown}

// ByRisk lists all levels in the order in which pages show them: the level that a reader should see first comes first.
var ByRisk = []Level{Facts, Different, Wording, FormatOnly, Identical, Empty, Unknown}

// IsStable reports whether all answers have the same content.
func (l Level) IsStable() bool { return l == Identical || l == FormatOnly }

// IsKnown reports whether the level measures likeness: there are at least two answers, not all empty.
func (l Level) IsKnown() bool { return l != "" && l != Unknown && l != Empty }

// sameWording is the minimum mean similarity of answers that count as differing only in wording, and sameSubject the
// minimum for answers that count as differing only in facts.
const (
	sameWording = 0.8
	sameSubject = 0.5
)

// MaxCompared is the length, in characters, up to which answers are compared in full; only the beginning and end of
// longer ones are compared.
const MaxCompared = 400_000

// levelOf returns the first level that fits the answers. distinct holds each distinct answer once, similarity is
// the mean over all pairs, and haveConflict reports that two answers contradict each other on a fact.
func levelOf(answered int, areEmpty bool, distinct []string, similarity *float64, haveConflict bool) Level {
	switch {
	case answered < 2:
		return Unknown
	case areEmpty:
		return Empty
	case len(distinct) == 1:
		return Identical
	case !haveConflict && haveOneContent(distinct):
		return FormatOnly
	case haveConflict && similarity != nil && *similarity >= sameSubject:
		return Facts
	case similarity != nil && *similarity >= sameWording:
		return Wording
	}
	return Different
}

// haveOneContent reports whether texts are equal except for their format, and none is longer than MaxCompared.
func haveOneContent(texts []string) bool {
	for _, text := range texts {
		if utf8.RuneCountInString(text) > MaxCompared {
			return false
		}
	}
	return areEqual(texts, Plain) || areEqual(texts, CanonicalJSON)
}

// areEqual reports whether reduce returns the same for all texts; reduce returns "" for a text that it rejects.
func areEqual(texts []string, reduce func(string) string) bool {
	first := reduce(texts[0])
	if first == "" {
		return false
	}
	for _, text := range texts[1:] {
		if reduce(text) != first {
			return false
		}
	}
	return true
}

var fold = cases.Fold()

// Plain returns a text without its format: compatibility forms (NFKC), case, white space, punctuation and the marks
// of Markdown are removed. Characters that are part of a number stay, except for thousands separators: 1.5 is not 15,
// -5 is not 5, and 1 2 is not 12. It takes linear time.
func Plain(text string) string {
	runes := folded(text)
	kept := make([]byte, 0, len(text))
	last, isBegin := rune(0), true // the last rune kept; whether only white space and marks precede the rune in its line
	digitAt := func(n int) bool { return n >= 0 && n < len(runes) && unicode.IsDigit(runes[n]) }
	for n, r := range runes {
		isAtBegin := isBegin
		isBegin = r == '\n' || isBegin && (unicode.IsSpace(r) || strings.ContainsRune(">+-*", r))
		switch {
		case isPlainLetter(r):
		case unicode.IsSpace(r):
			if !digitAt(n+1) || !unicode.IsDigit(last) {
				continue
			}
			r = ' '
		case isThousands(runes, n):
			continue
		case strings.ContainsRune(".,:/", r) && digitAt(n-1) && digitAt(n+1), r == '%' && digitAt(n-1):
		case strings.ContainsRune("-−", r) && digitAt(n+1) && isSign(runes, n):
			r = '-'
		case unicode.IsPunct(r), strings.ContainsRune("`~|", r), strings.ContainsRune(">+", r) && isAtBegin:
			continue
		}
		kept, last = utf8.AppendRune(kept, r), r
	}
	return string(kept)
}

// isPlainLetter reports whether Plain always keeps a rune: a digit, a lower-case Latin letter or a Chinese character.
func isPlainLetter(r rune) bool {
	return r >= firstIdeograph && r <= lastIdeograph || r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
}

const (
	firstIdeograph, lastIdeograph = 0x4E00, 0x9FFF
	// The full-width forms of ASCII's visible characters; wide is the offset between the two ranges.
	firstWide, lastWide, wide = 0xFF01, 0xFF5E, 0xFEE0
)

// folded returns a text in its compatibility forms (NFKC), without case. Texts of only ASCII, Chinese and Chinese
// punctuation, which most are, skip the Unicode tables.
func folded(text string) []rune {
	runes := make([]rune, 0, len(text)/2)
	for _, r := range text {
		if r >= firstWide && r <= lastWide {
			r -= wide
		}
		switch {
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r < utf8.RuneSelf, r >= firstIdeograph && r <= lastIdeograph, strings.ContainsRune("、。〈〉《》「」『』【】—‘’“”•", r):
		case r == '…':
			runes = append(runes, '.', '.')
			r = '.'
		default:
			return []rune(fold.String(norm.NFKC.String(text)))
		}
		runes = append(runes, r)
	}
	return runes
}

// isThousands reports whether the rune is a comma between groups of three digits.
func isThousands(runes []rune, n int) bool {
	isDigit := func(at int) bool { return at >= 0 && at < len(runes) && unicode.IsDigit(runes[at]) }
	return runes[n] == ',' && isDigit(n-1) && isDigit(n+1) && isDigit(n+2) && isDigit(n+3) && !isDigit(n+4)
}

// isSign reports whether a minus directly before a digit belongs to the number. It does not if it joins two words or
// numbers. The minus of a list item is not directly before a digit: white space follows it.
func isSign(runes []rune, n int) bool {
	return n == 0 || !unicode.IsLetter(runes[n-1]) && !unicode.IsDigit(runes[n-1])
}

// CanonicalJSON returns a JSON object or list, which may be in a Markdown fence, with its members sorted and
// without white space; "" if the text is neither.
func CanonicalJSON(text string) string {
	text = strings.TrimSpace(text)
	if rest, isFenced := strings.CutPrefix(text, "```"); isFenced {
		rest, isFenced = strings.CutSuffix(rest, "```")
		_, body, hasLine := strings.Cut(rest, "\n")
		if !isFenced || !hasLine {
			return ""
		}
		text = strings.TrimSpace(body)
	}
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return ""
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return ""
	}
	if _, err := decoder.Token(); err != io.EOF {
		return ""
	}
	var canonical bytes.Buffer
	encoder := json.NewEncoder(&canonical) // members of a map are written in the order of their names
	encoder.SetEscapeHTML(false)
	if encoder.Encode(withPlainNumbers(value)) != nil {
		return ""
	}
	return canonical.String()
}

// withPlainNumbers gives equal numbers the same spelling. Numbers that float64 cannot represent exactly stay unchanged.
func withPlainNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			value[name] = withPlainNumbers(member)
		}
	case []any:
		for n, entry := range value {
			value[n] = withPlainNumbers(entry)
		}
	case json.Number:
		const exact = 15 // the decimal digits that a float64 preserves
		if number, err := strconv.ParseFloat(value.String(), 64); err == nil && len(value) <= exact {
			return json.Number(strconv.FormatFloat(number, 'g', -1, 64))
		}
	}
	return value
}
