package blocks

import (
	"unicode/utf8"

	"wending/db/measure"
	"wending/db/measure/passage"
)

// words cuts a text into words for comparison: Chinese by the word list, everything else by the rules of UAX #29.
func words(text string) (tokens []string) {
	from := 0 // where the current run of Chinese characters begins
	at := 0
	for _, token := range measure.Words(text) {
		if r, size := utf8.DecodeRuneInString(token); !isHan(r) || size != len(token) {
			tokens = append(passage.AppendWords(tokens, text[from:at]), token)
			from = at + len(token)
		}
		at += len(token)
	}
	return passage.AppendWords(tokens, text[from:])
}

func isHan(r rune) bool { return r >= 0x4E00 && r <= 0x9FFF }

// ByWord widens the differences between two texts, base and text, to whole Chinese words, and joins those that a
// reader sees as one. Other words are already whole.
func ByWord(pieces []measure.Piece, base, text string) []measure.Piece {
	from, to := &edges{text: base}, &edges{text: text}
	var wide []measure.Piece
	var deleted, inserted string
	flush := func() {
		if deleted != "" {
			wide = append(wide, measure.Piece{Op: measure.Delete, Text: deleted})
		}
		if inserted != "" {
			wide = append(wide, measure.Piece{Op: measure.Insert, Text: inserted})
		}
		deleted, inserted = "", ""
	}
	at, other := 0, 0 // positions in base and in text
	for n, piece := range pieces {
		length := len(piece.Text)
		switch piece.Op {
		case measure.Delete:
			deleted += piece.Text
			at += length
		case measure.Insert:
			inserted += piece.Text
			other += length
		default:
			isEdge := func(k int) bool { return from.has(at+k) && to.has(other+k) }
			first, last := 0, length
			for n > 0 && first < length && !isEdge(first) {
				_, size := utf8.DecodeRuneInString(piece.Text[first:])
				first += size
			}
			for n < len(pieces)-1 && last > first && !isEdge(last) {
				_, size := utf8.DecodeLastRuneInString(piece.Text[:last])
				last -= size
			}
			deleted, inserted = deleted+piece.Text[:first], inserted+piece.Text[:first]
			if first < last {
				flush()
				wide = append(wide, measure.Piece{Op: measure.Equal, Text: piece.Text[first:last]})
				deleted, inserted = piece.Text[last:], piece.Text[last:]
			}
			at, other = at+length, other+length
		}
	}
	flush()
	all := make([]measure.Piece, 0, len(wide))
	for _, piece := range joined(wide) {
		all = append(all, measure.Piece{Op: piece.Op, Text: piece.Text})
	}
	return all
}

// edges finds where the words of a text begin and end. It splits the text only around the positions passed to has.
type edges struct {
	text     string
	from, to int    // the stretch that was cut last
	at       []bool // for each byte offset in the stretch: whether a word ends there
}

// longestRun is the maximum number of Chinese characters on each side of a position that are split into words.
const longestRun = 100

// has reports whether a position in the text is not inside a Chinese word.
func (e *edges) has(place int) bool {
	before, _ := utf8.DecodeLastRuneInString(e.text[:place])
	behind, _ := utf8.DecodeRuneInString(e.text[place:])
	if !isHan(before) || !isHan(behind) {
		return true
	}
	if e.at == nil || place <= e.from || place >= e.to {
		e.cut(place)
	}
	return e.at[place-e.from]
}

// cut cuts the run of Chinese characters around a position into words.
func (e *edges) cut(place int) {
	e.from, e.to = place, place
	for n := 0; n < longestRun && e.from > 0; n++ {
		r, size := utf8.DecodeLastRuneInString(e.text[:e.from])
		if !isHan(r) {
			break
		}
		e.from -= size
	}
	for n := 0; n < longestRun && e.to < len(e.text); n++ {
		r, size := utf8.DecodeRuneInString(e.text[e.to:])
		if !isHan(r) {
			break
		}
		e.to += size
	}
	e.at = make([]bool, e.to-e.from+1)
	end := 0
	for _, word := range passage.AppendWords(nil, e.text[e.from:e.to]) {
		end += len(word)
		e.at[end] = true
	}
}
