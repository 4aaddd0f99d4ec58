package request

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	"wending/db/measure"
	"wending/views/paths"
)

// Amount parses a finite number of 0 or more, or a percentage, which it divides by 100.
func Amount(text string) (number float64, isValid bool) {
	digits, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	number, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if isPercent {
		number /= 100
	}
	return number, err == nil && number >= 0 && !math.IsInf(number, 0)
}

// Margin parses a margin, by which the named number of a comparison may get worse. It must not exceed 1, except for
// numbers of which lower values are better (measure.IsLessBetter).
func Margin(name, text string) (margin float64, isValid bool) {
	margin, isValid = Amount(text)
	return margin, isValid && (measure.IsLessBetter(name) || margin <= 1)
}

// Margins returns the margins in a page's query, keyed by the names in measure.GatedNumbers; empty fields are left out.
func Margins(query url.Values) (map[string]float64, error) {
	margins := map[string]float64{}
	for _, name := range measure.GatedNumbers {
		text := strings.TrimSpace(query.Get(paths.MarginPrefix + name))
		if text == "" {
			continue
		}
		margin, isValid := Margin(name, text)
		if !isValid {
			return nil, ParameterFault(paths.MarginPrefix+name, ValidMargin())
		}
		margins[name] = margin
	}
	return margins, nil
}
