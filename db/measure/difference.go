package measure

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"github.com/sergi/go-diff/diffmatchpatch"
)

// Op says whether a step keeps, deletes or inserts text.
type Op byte

// The operations.
const (
	Equal  Op = '='
	Delete Op = '-'
	Insert Op = '+'
)

// Step is a step in turning one text into another.
type Step struct {
	Op Op
	// Length is in characters: of the first text for Equal and Delete, of the second for Insert.
	Length int
}

// Difference describes how to turn one text into another.
type Difference struct {
	Steps []Step
	// IsCoarse reports that the texts were too long or too different for the time available: only their common
	// beginning and end were found.
	IsCoarse bool
}

// DifferenceTime is the maximum time for finding one difference.
const DifferenceTime = 300 * time.Millisecond

// CompareTexts finds the difference from a to b: word by word in scripts that separate words, character by character
// in others (the tokens of UAX #29). If it takes longer than the limit, which is the shorter of within and
// DifferenceTime, the difference is coarse.
func CompareTexts(a, b string, within time.Duration) Difference {
	return cutText(a).compare(cutText(b), within)
}

// wording is a text to compare with others.
type wording struct {
	text   string
	tokens []string // empty if the text is too long
	isLong bool
}

func cutText(text string) *wording {
	c := &wording{text: text, isLong: utf8.RuneCountInString(text) > MaxCompared}
	if !c.isLong {
		c.tokens = Words(text)
	}
	return c
}

func (c *wording) compare(other *wording, within time.Duration) Difference {
	if within <= 0 || c.isLong || other.isLong {
		return coarse([]rune(c.text), []rune(other.text), func(rune) int { return 1 })
	}
	return CompareTokens(c.tokens, other.tokens, within)
}

// Words cuts a text into the tokens of UAX #29.
func Words(text string) (tokens []string) {
	for token := words.FromString(text); token.Next(); {
		tokens = append(tokens, token.Value())
	}
	return tokens
}

// CompareTokens is like CompareTexts, but takes texts that are already cut into tokens, and does not split them
// further.
func CompareTokens(a, b []string, within time.Duration) (d Difference) {
	within = min(within, DifferenceTime)
	codes := map[string]rune{}
	coded, lengths := code(a, codes, nil)
	other, lengths := code(b, codes, lengths)
	if len(codes) > maxCodes || within <= 0 {
		return coarse(a, b, utf8.RuneCountInString)
	}
	head, tail := sharedEdges(coded, other)
	if found, isFound := matches(coded[head:len(coded)-tail], other[head:len(other)-tail]); isFound {
		return along(found, coded, other, head, tail, lengths)
	}
	matcher := diffmatchpatch.New()
	matcher.DiffTimeout = within
	start := time.Now()
	for _, found := range matcher.DiffMainRunes(coded, other, false) {
		length := 0
		for _, r := range found.Text {
			length += lengths[r]
		}
		d.add(operations[found.Type], length)
	}
	if time.Since(start) > within {
		d.IsCoarse = true
	}
	return d
}

// along returns the difference of two texts that match at their edges and at the given places in between.
func along(found []match, a, b []rune, head, tail int, lengths map[rune]int) (d Difference) {
	sum := func(part []rune) (sum int) {
		for _, r := range part {
			sum += lengths[r]
		}
		return sum
	}
	d.add(Equal, sum(a[:head]))
	i, j := head, head
	for _, m := range found {
		d.add(Delete, sum(a[i:head+m.inA]))
		d.add(Insert, sum(b[j:head+m.inB]))
		d.add(Equal, lengths[a[head+m.inA]])
		i, j = head+m.inA+1, head+m.inB+1
	}
	d.add(Delete, sum(a[i:len(a)-tail]))
	d.add(Insert, sum(b[j:len(b)-tail]))
	d.add(Equal, sum(a[len(a)-tail:]))
	return d
}

// sharedEdges returns the lengths of the longest common beginning and end of two texts.
func sharedEdges[T comparable](a, b []T) (head, tail int) {
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

var operations = map[diffmatchpatch.Operation]Op{diffmatchpatch.DiffEqual: Equal, diffmatchpatch.DiffDelete: Delete,
	diffmatchpatch.DiffInsert: Insert}

func (d *Difference) add(op Op, length int) {
	if last := len(d.Steps) - 1; last >= 0 && d.Steps[last].Op == op {
		d.Steps[last].Length += length
	} else if length > 0 {
		d.Steps = append(d.Steps, Step{op, length})
	}
}

// Each distinct token is coded as a character; surrogates are skipped, because they are not valid characters.
const (
	surrogates, afterSurrogates = 0xD800, 0xE000
	maxCodes                    = utf8.MaxRune - (afterSurrogates - surrogates)
)

// code returns a text with one character for each token. lengths maps those characters to the tokens' lengths.
func code(tokens []string, codes map[string]rune, lengths map[rune]int) ([]rune, map[rune]int) {
	if lengths == nil {
		lengths = map[rune]int{}
	}
	coded := make([]rune, len(tokens))
	for n, token := range tokens {
		r, isKnown := codes[token]
		if !isKnown {
			if r = rune(len(codes) + 1); r >= surrogates {
				r += afterSurrogates - surrogates
			}
			codes[token], lengths[r] = r, utf8.RuneCountInString(token)
		}
		coded[n] = r
	}
	return coded, lengths
}

// coarse finds the common beginning and end of two texts, in tokens or characters; length returns the number of
// characters in a part.
func coarse[T comparable](from, to []T, length func(T) int) Difference {
	begin, end := sharedEdges(from, to)
	sum := func(part []T) (sum int) {
		for _, one := range part {
			sum += length(one)
		}
		return sum
	}
	d := Difference{IsCoarse: true}
	d.add(Equal, sum(from[:begin]))
	d.add(Delete, sum(from[begin:len(from)-end]))
	d.add(Insert, sum(to[begin:len(to)-end]))
	d.add(Equal, sum(from[len(from)-end:]))
	return d
}

// String encodes a difference for storage: ~ if it is coarse, then the steps, such as =120-3+5=400.
func (d Difference) String() string {
	var text strings.Builder
	if d.IsCoarse {
		text.WriteByte('~')
	}
	for _, step := range d.Steps {
		text.WriteByte(byte(step.Op))
		text.WriteString(strconv.Itoa(step.Length))
	}
	return text.String()
}

// ParseDifference parses the output of String.
func ParseDifference(text string) (d Difference, err error) {
	text, d.IsCoarse = strings.CutPrefix(text, "~")
	for text != "" {
		end := strings.IndexAny(text[1:], "=-+") + 1
		if end == 0 {
			end = len(text)
		}
		length, err := strconv.Atoi(text[1:end])
		if err != nil || length < 1 || !strings.ContainsRune("=-+", rune(text[0])) {
			return Difference{}, fmt.Errorf("%q is not a difference", text)
		}
		d.Steps = append(d.Steps, Step{Op(text[0]), length})
		text = text[end:]
	}
	return d, nil
}

// Piece is a stretch of one of two compared texts, or of both where they are equal.
type Piece struct {
	Op   Op
	Text string
}

// Pieces cuts two texts at the steps of a difference, as far as the texts reach: deleted pieces come from the first
// text, and all others from the second.
func (d Difference) Pieces(a, b string) (pieces []Piece) {
	for _, step := range d.Steps {
		text, from := "", &b
		if step.Op == Delete {
			from = &a
		}
		text, *from = split(*from, step.Length)
		if step.Op == Equal {
			_, a = split(a, step.Length)
		}
		if text != "" {
			pieces = append(pieces, Piece{step.Op, text})
		}
	}
	return pieces
}

// split cuts a text after n characters, or at its end if it is shorter.
func split(text string, n int) (head, rest string) {
	end := 0
	for ; n > 0 && end < len(text); n-- {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return text[:end], text[end:]
}
