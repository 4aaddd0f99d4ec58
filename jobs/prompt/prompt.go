// Package prompt renders templates: texts with {{name}} in the places of values.
package prompt

import (
	"regexp"
	"slices"
	"strings"
)

// place is a name in a template: letters of any script, digits and _.
var place = regexp.MustCompile(`\{\{\s*([\p{L}\p{M}\p{N}_]+)\s*\}\}`)

// Render puts values in the places of their names. A name without a value stays as it is; values are not rendered
// again.
func Render(template string, values map[string]string) string {
	if !strings.Contains(template, "{{") {
		return template
	}
	return place.ReplaceAllStringFunc(template, func(found string) string {
		if value, isKnown := values[place.FindStringSubmatch(found)[1]]; isKnown {
			return value
		}
		return found
	})
}

// Names returns the names in a template, each once, in the order of their first places.
func Names(template string) (names []string) {
	for _, found := range place.FindAllStringSubmatch(template, -1) {
		if !slices.Contains(names, found[1]) {
			names = append(names, found[1])
		}
	}
	return names
}

// Missing returns the names in templates that have no value, each once.
func Missing(values map[string]string, templates ...string) (missing []string) {
	for _, template := range templates {
		for _, name := range Names(template) {
			if _, isKnown := values[name]; !isKnown && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// Piece is a stretch of a template.
type Piece struct {
	Text string
	// Name is set where Text is the place of a value.
	Name string
}

// Pieces cuts a template into its texts and the places of values.
func Pieces(template string) (pieces []Piece) {
	last := 0
	for _, at := range place.FindAllStringSubmatchIndex(template, -1) {
		if at[0] > last {
			pieces = append(pieces, Piece{Text: template[last:at[0]]})
		}
		pieces = append(pieces, Piece{Text: template[at[0]:at[1]], Name: template[at[2]:at[3]]})
		last = at[1]
	}
	if last < len(template) {
		pieces = append(pieces, Piece{Text: template[last:]})
	}
	return pieces
}
