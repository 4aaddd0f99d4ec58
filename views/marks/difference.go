// Package marks shows where answers differ: it marks differences in their texts, in full or in aligned blocks, and
// draws the answers to all questions of a task in one picture.
package marks

import (
	"context"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"

	"wending/db/measure"
	"wending/views/text"
)

// Texts of answers are rendered without templates, because a template would add white space between elements, and
// thereby to the answer.

// keptEqual is the number of equal characters that stay visible next to a difference, and foldEqual is the minimum
// number of equal characters between two differences that are folded.
const (
	keptEqual = 15
	foldEqual = 40
)

// Difference shows how an answer differs from the most common one; long equal parts are folded.
func Difference(pieces []measure.Piece) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		var html strings.Builder
		for n, piece := range pieces {
			switch piece.Op {
			case measure.Insert:
				html.WriteString("<ins>" + inLine(piece.Text) + "</ins>")
			case measure.Delete:
				html.WriteString("<del>" + inLine(piece.Text) + "</del>")
			default:
				before, hidden, behind := foldedEqual(piece.Text, n == 0, n == len(pieces)-1)
				html.WriteString(inLine(before))
				if hidden != "" {
					html.WriteString(foldedSame(ctx, hidden))
				}
				html.WriteString(inLine(behind))
			}
		}
		_, err := io.WriteString(w, html.String())
		return err
	})
}

// Marked shows an answer and marks the text that the most common one lacks. Text that only the most common answer has
// is struck out, and the text that replaces it follows.
func Marked(pieces []measure.Piece, behind string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var html strings.Builder
		for _, piece := range pieces {
			switch piece.Op {
			case measure.Insert:
				html.WriteString("<mark>" + templ.EscapeString(piece.Text) + "</mark>")
			case measure.Delete:
				html.WriteString("<del>" + inLine(piece.Text) + "</del>")
			default:
				html.WriteString(templ.EscapeString(piece.Text))
			}
		}
		html.WriteString(behind)
		_, err := io.WriteString(w, html.String())
		return err
	})
}

// Head shows the beginning of a folded text.
func Head(head string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, inLine(head)+"...")
		return err
	})
}

var lineBreaks = regexp.MustCompile(`[\r\n][\s]*`)

// inLine returns a text on one line: its line breaks stay in the text, and the style sheet shows a sign in their
// place.
func inLine(content string) string {
	return lineBreaks.ReplaceAllString(templ.EscapeString(content), `<span class="nl">$0</span>`)
}

// foldedSame returns the HTML of a folded text that answers share.
func foldedSame(ctx context.Context, same string) string {
	return `<details class="same"><summary>` +
		templ.EscapeString(text.T(ctx, "results.same", "Count", utf8.RuneCountInString(same))) +
		"</summary>" + templ.EscapeString(same) + "</details>"
}

// foldedEqual divides a stretch of equal text into the parts that stay visible before and after the fold, and the
// folded part, which is empty if the stretch is short. Where the whole text begins or ends, nothing stays visible
// outside the fold.
func foldedEqual(equal string, isFirst, isLast bool) (before, hidden, behind string) {
	runes := []rune(equal)
	from, to := keptEqual, len(runes)-keptEqual
	if isFirst {
		from = 0
	}
	if isLast {
		to = len(runes)
	}
	if to-from <= foldEqual {
		return equal, "", ""
	}
	return string(runes[:from]), string(runes[from:to]), string(runes[to:])
}
