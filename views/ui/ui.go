package ui

import (
	"fmt"
	"strconv"

	"github.com/a-h/templ"

	"wending/views/text"
)

// percent returns part as a percentage of total, for lengths in SVG; a part above 0 is at least 1, so that it is
// visible.
func percent(part, total int) string {
	if part <= 0 || total <= 0 {
		return "0"
	}
	return strconv.FormatFloat(max(1, min(100, 100*float64(part)/float64(total))), 'f', 2, 64)
}

// Bad returns the CSS class of a number that is bad, such as a count of failures above 0; empty for any other number.
func Bad(is bool) string {
	if is {
		return "is-bad"
	}
	return ""
}

// Region returns the attributes of a part that scrolls: the keyboard can reach it, and screen readers read its name.
func Region(label string) templ.Attributes {
	return templ.Attributes{"tabindex": "0", "role": "region", "aria-label": label}
}

// Rows returns the CSS class of a list that always reserves space for count rows, from one to eight.
func Rows(count int) string { return "rows-" + strconv.Itoa(max(1, min(8, count))) }

// Shared returns the classes of a grid whose width its children share, up to four of them in a row.
func Shared(children int) string { return fmt.Sprintf("shared of-%d", min(max(children, 1), 4)) }

// Room returns the attributes of a text that changes in place: it is always as wide as the longest text.
func Room(longest string) templ.Attributes { return templ.Attributes{"data-room": longest} }

// Rate returns a rate limit in words.
func Rate(locale text.Locale, rate string) string {
	if rate == "unlimited" {
		return locale.Text("task.rate.unlimited")
	}
	return rate
}

// YesNo returns the key of the word for a boolean.
func YesNo(is bool) string {
	if is {
		return "word.yes"
	}
	return "word.no"
}
