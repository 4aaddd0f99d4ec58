package results

import (
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"

	"wending/jobs/stability"
	"wending/views/text"
)

// Texts of answers are written by hand here: between the elements of a template there is white space, and an answer must
// not get any.

// differenceText shows how the most common answer becomes another: what is equal is folded where it is long.
func differenceText(pieces []stability.Piece) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		var html strings.Builder
		for n, piece := range pieces {
			switch piece.Op {
			case stability.Insert:
				html.WriteString("<ins>" + templ.EscapeString(piece.Text) + "</ins>")
			case stability.Delete:
				html.WriteString("<del>" + templ.EscapeString(piece.Text) + "</del>")
			default:
				before, hidden, behind := foldedEqual(piece.Text, n == 0, n == len(pieces)-1)
				html.WriteString(templ.EscapeString(before))
				if hidden != "" {
					html.WriteString(`<details class="same"><summary>` + templ.EscapeString(text.T(ctx, "results.same", "Count", utf8.RuneCountInString(hidden))) +
						"</summary>" + templ.EscapeString(hidden) + "</details>")
				}
				html.WriteString(templ.EscapeString(behind))
			}
		}
		_, err := io.WriteString(w, html.String())
		return err
	})
}

// markedText shows an answer whose differences from the most common one are marked, and what follows it.
func markedText(own []stability.Piece, behind string) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var html strings.Builder
		for _, piece := range own {
			if piece.Op == stability.Insert {
				html.WriteString("<mark>" + templ.EscapeString(piece.Text) + "</mark>")
			} else {
				html.WriteString(templ.EscapeString(piece.Text))
			}
		}
		html.WriteString(behind)
		_, err := io.WriteString(w, html.String())
		return err
	})
}
