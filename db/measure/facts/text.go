package facts

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A text is an answer in NFKC, without HTML tags and Markdown marks; each character knows its bytes in the answer.
type text struct {
	source     string
	runes      []rune
	start, end []int32
	bold       []int // before which character a ** stood
}

// span is a range of characters of a text.
type span struct{ from, to int }

func (s span) isEmpty() bool { return s.to <= s.from }

// normalise folds characters and drops marks. Bytes that are not UTF-8 become blanks.
func normalise(answer string) *text {
	t := &text{
		source: answer, runes: make([]rune, 0, len(answer)/2+8),
		start: make([]int32, 0, len(answer)/2+8), end: make([]int32, 0, len(answer)/2+8),
	}
	for i := 0; i < len(answer); {
		r, size := rune(answer[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(answer[i:])
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
				t.bold = append(t.bold, len(t.runes))
				i += 2
				continue
			}
		}
		t.fold(r, i, i+size)
		i += size
	}
	return t
}

func (t *text) add(r rune, from, to int) {
	if r == 0 {
		return
	}
	t.runes = append(t.runes, r)
	t.start = append(t.start, int32(from)) //nolint:gosec // answers are far smaller than 2 GB
	t.end = append(t.end, int32(to))       //nolint:gosec // answers are far smaller than 2 GB
}

func (t *text) fold(r rune, from, to int) {
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

// slice returns the bytes of the answer that a span covers.
func (t *text) slice(s span) string {
	if s.isEmpty() {
		return ""
	}
	return t.source[t.start[s.from]:t.end[s.to-1]]
}

// longestTag is after how many bytes a < without its > is taken as text.
const longestTag = 300

// tag reads an HTML tag at the beginning of s: what it stands for (0 for nothing) and its length; length 0 means that it is
// not one.
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
	for _, name := range strings.Fields("p div br tr li ul ol table thead tbody section article h1 h2 h3 h4 h5 h6 blockquote pre hr") {
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
	for name, r := range map[string]rune{"&nbsp;": ' ', "&amp;": '&', "&lt;": '<', "&gt;": '>', "&quot;": '”', "&#39;": '\'', "&yen;": '¥'} {
		if strings.HasPrefix(s, name) {
			return r, len(name)
		}
	}
	return 0, 0
}

func isHan(r rune) bool   { return r >= 0x3400 && r <= 0x9FFF }
func isDigit(r rune) bool { return r >= '0' && r <= '9' }
func isLatin(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0xC0 && r < 0x250
}
func isLetter(r rune) bool { return isHan(r) || isLatin(r) || r >= 0x80 && unicode.IsLetter(r) }

func lower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 32
	}
	return r
}

// at returns the character at i, or 0 outside of the text.
func (t *text) at(i int) rune {
	if i < 0 || i >= len(t.runes) {
		return 0
	}
	return t.runes[i]
}

// has reports whether the text has word at i, without regard to case.
func (t *text) has(i int, word string) bool {
	if i < 0 {
		return false
	}
	for _, r := range word {
		if i >= len(t.runes) || lower(t.runes[i]) != r {
			return false
		}
		i++
	}
	return true
}

// blanks returns the first position from i on that is not a blank.
func (t *text) blanks(i int) int {
	for i < len(t.runes) && t.runes[i] == ' ' {
		i++
	}
	return i
}
