package pg

import "strings"

// Containing returns an ILIKE pattern that matches all texts that contain text; empty if text is empty.
func Containing(text string) string {
	if text == "" {
		return ""
	}
	return "%" + likeEscaper.Replace(text) + "%"
}

// likeEscaper escapes LIKE wildcards.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
