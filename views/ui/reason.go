package ui

import (
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
