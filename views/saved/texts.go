package saved

import (
	"context"
	"io"
	"strings"

	"github.com/a-h/templ"

	"wending/db/measure"
	"wending/jobs/agent/protocol"
)

// Texts of templates and rows are rendered without templ, which would add white space between elements, and thereby to
// the text.

func written(write func(html *strings.Builder)) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var html strings.Builder
		write(&html)
		_, err := io.WriteString(w, html.String())
		return err
	})
}

// Changes shows how one text became another.
func Changes(pieces []measure.Piece) templ.Component {
	return written(func(html *strings.Builder) {
		html.WriteString(`<pre class="text difference">`)
		for _, piece := range pieces {
			switch piece.Op {
			case measure.Insert:
				html.WriteString("<ins>" + templ.EscapeString(piece.Text) + "</ins>")
			case measure.Delete:
				html.WriteString("<del>" + templ.EscapeString(piece.Text) + "</del>")
			default:
				html.WriteString(templ.EscapeString(piece.Text))
			}
		}
		html.WriteString("</pre>")
	})
}

// Pieces shows a template with its variables marked.
func Pieces(pieces []protocol.TemplatePiece) templ.Component {
	return written(func(html *strings.Builder) {
		html.WriteString(`<pre class="text">`)
		for _, piece := range pieces {
			if piece.Name == "" {
				html.WriteString(templ.EscapeString(piece.Text))
			} else {
				html.WriteString(`<span class="variable">` + templ.EscapeString(piece.Text) + "</span>")
			}
		}
		html.WriteString("</pre>")
	})
}
