package event_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/event"
)

// Spans become a tree in the order in which they began; spans with unknown parents are roots, circles are cut, and each
// span appears once.
func TestSpansBecomeATree(t *testing.T) {
	t.Parallel()
	type spans = []event.Span
	span := func(id, parent string, at int64) event.Span { return event.Span{ID: id, Parent: parent, StartNS: at} }
	for name, test := range map[string]struct {
		spans spans
		want  string
	}{
		"none":               {nil, ""},
		"children follow":    {spans{span("c", "b", 12), span("b", "a", 11), span("a", "our call", 10)}, "0a+0 1b+1 2c+2"},
		"in order":           {spans{span("a", "", 10), span("c", "a", 30), span("b", "a", 20)}, "0a+0 1b+10 1c+20"},
		"two roots":          {spans{span("b", "", 20), span("a", "gone", 10), span("x", "b", 15)}, "0a+0 0b+10 1x+5"},
		"no time comes last": {spans{span("b", "", 0), span("a", "", 10), span("c", "", 0)}, "0a+0 0b 0c"},
		"no time at all":     {spans{span("b", "a", 0), span("a", "", 0)}, "0a 1b"},
		"its own parent":     {spans{span("a", "a", 10)}, "0a+0"},
		"a circle":           {spans{span("a", "c", 12), span("b", "a", 10), span("c", "b", 11)}, "0b+0 1c+1 2a+2"},
		"a circle beside a branch": {spans{span("r", "", 1), span("a", "b", 2), span("b", "a", 3), span("x", "a", 4)},
			"0r+0 0a+1 1b+2 1x+3"},
	} {
		var got []string
		for _, step := range event.Tree(test.spans) {
			one := fmt.Sprint(step.Depth, step.ID)
			if step.AtNS != nil {
				one += fmt.Sprint("+", *step.AtNS)
			}
			got = append(got, one)
		}
		require.Equal(t, test.want, strings.Join(got, " "), name)
	}
}
