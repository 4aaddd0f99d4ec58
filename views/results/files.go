package results

import (
	"slices"
	"strings"

	"wending/db"
	"wending/db/engine"
	"wending/db/measure"
	"wending/views/text"
)

// filesText returns a text about the number of different sets of files, by content, that the answered runs produced;
// empty if all are the same or some files are not copied yet.
func (c Card) filesText(locale text.Locale, runs []db.Run, letters []string) string {
	kinds := map[string]bool{}
	key := "results.files.images"
	hasFiles := false
	for n, run := range runs {
		if letters[n] == "" {
			continue
		}
		var hashes []string
		for _, one := range c.Assets[run.ID] {
			if one.State == engine.AssetQueued {
				return ""
			}
			if !one.IsImage() {
				key = "results.files"
			}
			hashes = append(hashes, one.HashOf())
		}
		hasFiles = hasFiles || len(hashes) > 0
		slices.Sort(hashes)
		kinds[strings.Join(hashes, " ")] = true
	}
	if !hasFiles || len(kinds) < 2 {
		return ""
	}
	return locale.Text(key, "Count", len(kinds))
}

// sameText reports whether a level means that the texts of answers are the same.
func sameText(level *measure.Level) bool {
	return level != nil && (*level == measure.Identical || *level == measure.FormatOnly)
}
