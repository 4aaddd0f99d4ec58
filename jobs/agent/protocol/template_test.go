package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/protocol"
)

func TestValuesTakeThePlacesOfTheirNames(t *testing.T) {
	t.Parallel()
	values := map[string]string{"question": "{{answer}}", "answer": "42", "级别": "高", "a_1": ""}
	for template, want := range map[string]string{
		"Q: {{question}}":             "Q: {{answer}}",
		"{{ answer }}/{{级别}}/{{a_1}}": "42/高/",
		"{{unknown}} {{not a name}}":  "{{unknown}} {{not a name}}",
		"{{answer}":                   "{{answer}",
		"{{{answer}}}":                "{42}",
		"{{}} {{a-1}} $1 \\":          "{{}} {{a-1}} $1 \\",
		"":                            "",
	} {
		require.Equal(t, want, protocol.Render(template, values), template)
		var all strings.Builder
		for _, piece := range protocol.PiecesOf(template) {
			all.WriteString(piece.Text)
		}
		require.Equal(t, template, all.String(), "the pieces are the whole")
	}
	require.Equal(t, []string{"b", "级别"}, protocol.NamesIn("{{b}} {{级别}} {{b}}"))
	require.Equal(t, []string{"b", "c"}, protocol.MissingNames(values, "{{b}} {{answer}}", "{{c}}{{b}}"))
}

// The length of a rendered template is limited, and so is the number of names that are found in a template.
func TestATemplateIsBounded(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("x", 40_000)
	rendered := protocol.Render(strings.Repeat("{{c}}", 20_000), map[string]string{"c": value})
	require.Greater(t, len(rendered), protocol.MaxRendered)
	require.LessOrEqual(t, len(rendered), protocol.MaxRendered+len(value))
	var many strings.Builder
	for n := range 50_000 {
		fmt.Fprintf(&many, "{{v%d}}", n)
	}
	require.Len(t, protocol.MissingNames(nil, many.String()), 1000)
}
