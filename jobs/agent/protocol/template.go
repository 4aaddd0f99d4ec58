package protocol

import (
	"iter"
	"regexp"
	"strings"
)

// place matches a placeholder, whose name consists of letters of any script, digits and _.
var place = regexp.MustCompile(`\{\{\s*([\p{L}\p{M}\p{N}_]+)\s*\}\}`)

// MaxRendered is the approximate maximum length of a rendered text in bytes: a template that repeats a long value
// could otherwise become arbitrarily long.
const MaxRendered = 1 << 20

// Render replaces placeholders with their values. A placeholder without a value is left unchanged; values are not
// rendered again. Render stops soon after MaxRendered bytes, so a longer text is incomplete.
func Render(template string, values map[string]string) string {
	if !strings.Contains(template, "{{") {
		return template
	}
	var rendered strings.Builder
	last := 0
	for at := range places(template) {
		rendered.WriteString(template[last:at[0]])
		if value, isKnown := values[template[at[2]:at[3]]]; isKnown {
			rendered.WriteString(value)
		} else {
			rendered.WriteString(template[at[0]:at[1]])
		}
		if last = at[1]; rendered.Len() > MaxRendered {
			return rendered.String()
		}
	}
	rendered.WriteString(template[last:])
	return rendered.String()
}

// places yields the indexes of each placeholder in a template: those of the whole placeholder, then those of its name.
func places(template string) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for from := 0; ; {
			at := place.FindStringSubmatchIndex(template[from:])
			if at == nil {
				return
			}
			for n := range at {
				at[n] += from
			}
			if from = at[1]; !yield(at) {
				return
			}
		}
	}
}

// maxNames is the maximum number of names read from a template.
const maxNames = 1000

// NamesIn returns the names in a template, each once, in order of first occurrence, and at most maxNames of them.
func NamesIn(template string) (names []string) {
	seen := map[string]bool{}
	for at := range places(template) {
		if name := template[at[2]:at[3]]; !seen[name] {
			seen[name] = true
			if names = append(names, name); len(names) == maxNames {
				break
			}
		}
	}
	return names
}

// MissingNames returns the names in templates that have no value, each once.
func MissingNames(values map[string]string, templates ...string) (missing []string) {
	seen := map[string]bool{}
	for _, template := range templates {
		for _, name := range NamesIn(template) {
			if _, isKnown := values[name]; !isKnown && !seen[name] {
				seen[name] = true
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// TemplatePiece is a placeholder in a template or the text between two of them.
type TemplatePiece struct {
	Text string
	// Name is set if Text is a placeholder.
	Name string
}

// PiecesOf cuts a template into its literal texts and its placeholders.
func PiecesOf(template string) (pieces []TemplatePiece) {
	last := 0
	for _, at := range place.FindAllStringSubmatchIndex(template, -1) {
		if at[0] > last {
			pieces = append(pieces, TemplatePiece{Text: template[last:at[0]]})
		}
		pieces = append(pieces, TemplatePiece{Text: template[at[0]:at[1]], Name: template[at[2]:at[3]]})
		last = at[1]
	}
	if last < len(template) {
		pieces = append(pieces, TemplatePiece{Text: template[last:]})
	}
	return pieces
}
