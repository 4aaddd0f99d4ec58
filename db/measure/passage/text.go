// Package passage reads an answer as people do: as text without markup, divided into the smallest units that state
// something (sentences, table cells and values in a JSON text), each with its subject. It also compares passages by
// their words, weighted by rarity.
package passage

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Text is an answer in NFKC, without HTML tags and Markdown marks; each character maps to its bytes in the
// answer.
type Text struct {
	Source     string
	Runes      []rune
	Start, End []int32    // for each character: its first byte in Source, and the byte after its last
	Sentences  []Sentence // in the order of their positions, without overlap

	bold []int // for each **, the position of the character that follows it
}

// Read reads an answer, in time proportional to its length. Bytes that are not UTF-8 are read as spaces.
func Read(answer string) *Text {
	t := normalise(answer)
	t.Sentences = sentencesOf(t)
	return t
}

// Span is a range of characters of a text.
type Span struct{ From, To int }

// IsEmpty reports whether a span has no characters.
func (s Span) IsEmpty() bool { return s.To <= s.From }

// normalise replaces variants of a character with a single one, and drops HTML tags and Markdown marks. Bytes that are
// not UTF-8 become spaces.
func normalise(answer string) *Text {
	length := utf8.RuneCountInString(answer) + 8
	t := &Text{Source: answer, Runes: make([]rune, 0, length), Start: make([]int32, 0, length),
		End: make([]int32, 0, length)}
	for i := 0; i < len(answer); {
		r, size := rune(answer[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(answer[i:])
		}
		if IsHan(r) || IsLatin(r) && r < utf8.RuneSelf || IsDigit(r) || r == ' ' {
			t.add(r, i, i+size)
			i += size
			continue
		}
		switch r {
		case '<':
			if folded, n := tag(answer[i:]); n > 0 {
				t.add(folded, i, i+n)
				i += n
				continue
			}
		case '&':
			if folded, n := characterReference(answer[i:]); n > 0 {
				t.add(folded, i, i+n)
				i += n
				continue
			}
		case '*':
			if strings.HasPrefix(answer[i:], "**") {
				t.bold = append(t.bold, len(t.Runes))
				i += 2
				continue
			}
		}
		t.fold(r, i, i+size)
		i += size
	}
	return t
}

func (t *Text) add(r rune, from, to int) {
	if r == 0 {
		return
	}
	t.Runes = append(t.Runes, r)
	t.Start = append(t.Start, int32(from))
	t.End = append(t.End, int32(to))
}

func (t *Text) fold(r rune, from, to int) {
	switch {
	case r < 0x80:
		if r == '`' || r == '\r' {
			return
		}
		if r == '\t' || r == 0 {
			r = ' '
		}
	case r >= 0x3400 && r <= 0x9FFF, r >= 0x2460 && r <= 0x2473, r == '…':
	case r == '，' || r == '。' || r == '！' || r == '？' || r == '、':
	case r == '：':
		r = ':'
	case r == '；':
		r = ';'
	case r >= 0xFF01 && r <= 0xFF5E:
		r -= 0xFEE0
	case r == '￥' || r == '¥':
		r = '¥'
	case r == '−' || r == '‐' || r == '‑' || r == '﹣':
		r = '-'
	case r >= 0x2012 && r <= 0x2015:
		r = '–'
	case r == '〜' || r == '∼' || r == '～':
		r = '~'
	case r == '’' || r == '‘' || r == 'ʼ':
		r = '\''
	case r == '“' || r == '”' || r == '「' || r == '」' || r == '『' || r == '』':
		r = '”'
	case r == '⁄':
		r = '/'
	case r >= '¼' && r <= '¾', r >= '⅐' && r <= '⅞': // 1½ is 1 1/2
		t.add(' ', from, to)
		for _, folded := range norm.NFKC.String(string(r)) {
			if folded == '⁄' {
				folded = '/'
			}
			t.add(folded, from, to)
		}
		return
	case r == '℃':
		t.add('°', from, to)
		r = 'C'
	case r == utf8.RuneError, unicode.IsSpace(r):
		r = ' '
	case r >= 0x200B && r <= 0x200F, r == 0xFEFF, r == 0x2060, unicode.Is(unicode.Mn, r):
		return
	default:
		for _, folded := range norm.NFKC.String(string(r)) {
			t.add(folded, from, to)
		}
		return
	}
	t.add(r, from, to)
}

// Slice returns the bytes of the answer that a span covers.
func (t *Text) Slice(s Span) string {
	if s.IsEmpty() {
		return ""
	}
	return t.Source[t.Start[s.From]:t.End[s.To-1]]
}

// longestTag is the number of bytes after which a < without a closing > is taken as text.
const longestTag = 300

// tag reads an HTML tag at the beginning of s. It returns the character that replaces the tag (0 for none) and the
// tag's length, which is 0 if there is no tag.
func tag(s string) (rune, int) {
	limit := min(len(s), longestTag)
	if limit < 3 {
		return 0, 0
	}
	from := 1
	if s[1] == '/' {
		from = 2
	}
	to := from
	for to < limit && (s[to]|0x20 >= 'a' && s[to]|0x20 <= 'z' || to > from && s[to] >= '0' && s[to] <= '9') {
		to++
	}
	name := strings.ToLower(s[from:to])
	folded, isTag := tags[name]
	if !isTag {
		return 0, 0
	}
	closing := strings.IndexByte(s[to:limit], '>')
	if closing < 0 {
		return 0, 0
	}
	return folded, to + closing + 1
}

var tags = func() map[string]rune {
	all := map[string]rune{}
	for _, name := range strings.Fields(
		"p div br tr li ul ol table thead tbody section article h1 h2 h3 h4 h5 h6 blockquote pre hr") {
		all[name] = '\n'
	}
	for _, name := range strings.Fields("td th") {
		all[name] = '|'
	}
	for _, name := range strings.Fields("b i u s em strong span a code sup sub font img small mark del ins") {
		all[name] = 0
	}
	return all
}()

func characterReference(s string) (rune, int) {
	for name, r := range map[string]rune{"&nbsp;": ' ', "&amp;": '&', "&lt;": '<', "&gt;": '>', "&quot;": '”',
		"&#39;": '\'', "&yen;": '¥'} {
		if strings.HasPrefix(s, name) {
			return r, len(name)
		}
	}
	return 0, 0
}

// IsHan reports whether r is a Chinese character.
func IsHan(r rune) bool { return r >= 0x3400 && r <= 0x9FFF }

// IsDigit reports whether r is 0 to 9.
func IsDigit(r rune) bool { return r >= '0' && r <= '9' }

// IsLatin reports whether r is a Latin letter.
func IsLatin(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0xC0 && r < 0x250 && r != '×' && r != '÷'
}

// IsLetter reports whether r is a letter or a character of any script.
func IsLetter(r rune) bool { return IsHan(r) || IsLatin(r) || r >= 0x80 && unicode.IsLetter(r) }

// Lower returns the lower-case letter for an ASCII capital, and any other character unchanged.
func Lower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 32
	}
	return r
}

// ChineseDigit returns the value of a Chinese digit; -1 for any other character.
func ChineseDigit(r rune) int {
	switch r {
	case '一', '壹':
		return 1
	case '二', '两', '贰':
		return 2
	case '三', '叁':
		return 3
	case '四', '肆':
		return 4
	case '五', '伍':
		return 5
	case '六', '陆':
		return 6
	case '七', '柒':
		return 7
	case '八', '捌':
		return 8
	case '九', '玖':
		return 9
	case '零', '〇':
		return 0
	}
	return -1
}

// At returns the character at i, or 0 outside of the text.
func (t *Text) At(i int) rune {
	if i < 0 || i >= len(t.Runes) {
		return 0
	}
	return t.Runes[i]
}

// Has reports whether the word occurs at i in the text, ignoring case.
func (t *Text) Has(i int, word string) bool {
	if i < 0 {
		return false
	}
	for _, r := range word {
		if i >= len(t.Runes) || Lower(t.Runes[i]) != r {
			return false
		}
		i++
	}
	return true
}

// Blanks returns the first position at or after i that is not a space.
func (t *Text) Blanks(i int) int {
	for i < len(t.Runes) && t.Runes[i] == ' ' {
		i++
	}
	return i
}
