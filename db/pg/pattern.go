package pg

import "strings"

// Containing returns a pattern for ILIKE that matches text anywhere; empty for an empty text.
func Containing(text string) string {
	if text == "" {
		return ""
	}
	return "%" + likeEscaper.Replace(text) + "%"
}

// likeEscaper escapes LIKE wildcards.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
