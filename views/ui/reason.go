package ui

import (
	"slices"
	"strings"

	"wending/db/review"
	"wending/views/text"
)

// Reason names a reason of a verdict: one that every project has, or a project's own, which is its own name.
func Reason(locale text.Locale, reason string) string {
	if slices.Contains(review.Reasons, reason) {
		return locale.Text("review.reason." + reason)
	}
	return reason
}

// Reasons names the reasons of a verdict.
func Reasons(locale text.Locale, reasons []string) string {
	names := make([]string, len(reasons))
	for n, one := range reasons {
		names[n] = Reason(locale, one)
	}
	return strings.Join(names, locale.Text("create.missing.separator"))
}
