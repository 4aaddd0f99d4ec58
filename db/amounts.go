package db

import (
	"regexp"
	"strings"
)

var amount = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,8})?$`)

// IsPrice reports whether a text is a valid price: a decimal number that is not negative.
func IsPrice(text string) bool { return amount.MatchString(text) }

// IsCost reports whether a text is a valid cost: a decimal number above 0.
func IsCost(text string) bool { return amount.MatchString(text) && strings.Trim(text, "0.") != "" }
