package ui

import (
	"maps"
	"slices"
	"strings"

	"wending/db/review"
	"wending/views/text"
)

// Reason returns the name of a reason for a verdict; a project's own reason is its own name.
func Reason(locale text.Locale, reason string) string {
	if slices.Contains(review.Reasons, reason) {
		return locale.Text("review.reason." + reason)
	}
	return reason
}

// Reasons returns the names of a verdict's reasons.
func Reasons(locale text.Locale, reasons []string) string {
	names := make([]string, len(reasons))
	for n, one := range reasons {
		names[n] = Reason(locale, one)
	}
	return strings.Join(names, locale.Text("word.list"))
}

// Grounds returns a verdict's reasons, and then its ratings by dimension.
func Grounds(locale text.Locale, said review.Opinion) string {
	grounds := Reasons(locale, said.Reasons)
	for _, dimension := range slices.Sorted(maps.Keys(said.Ratings)) {
		if grounds != "" {
			grounds += " · "
		}
		grounds += dimension + " " + review.RatingText(said.Ratings[dimension])
	}
	return grounds
}
