package evaluate

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"unicode"

	"wending/jobs/agent/wire"
	"wending/jobs/reason"
)

// Which number of an answer is compared with the expected one; anyOf is the third choice.
const (
	firstOf = "first"
	lastOne = "last"
)

// numberWithin is the number of bytes around the first or last number of a text that are read for it. numbersWithin is
// the maximum length, in bytes, of a text in which any number may match.
const (
	numberWithin  = 20_000
	numbersWithin = 200_000
)

// numbersOf returns the numbers of a text, with the one that which selects (the first or the last) at the end. It
// returns errLimit if any number may match and the text is too long.
func numbersOf(text, which string) ([]Numeral, error) {
	isNumeral := func(r rune) bool { return unicode.IsDigit(r) || chineseDigits[r] > 0 || placeValues[r] > 0 }
	switch first, last := strings.IndexFunc(text, isNumeral), strings.LastIndexFunc(text, isNumeral); {
	case first < 0:
		return nil, nil
	case which == anyOf && len(text) > numbersWithin:
		return nil, errLimit
	case which == firstOf:
		text = text[max(0, first-numberWithin):min(len(text), first+numberWithin)]
	case which == lastOne:
		text = text[max(0, last-numberWithin):min(len(text), last+numberWithin)]
	}
	numbers := NumeralsIn(text)
	if which == firstOf {
		slices.Reverse(numbers)
	}
	return numbers, nil
}

// expectedNumber returns the number in an expected value: the last one that is not an ordinal or, if there is none, the
// last ordinal.
func expectedNumber(text string) (number Numeral, isThere bool) {
	numbers, _ := numbersOf(text, lastOne)
	plain := slices.DeleteFunc(slices.Clone(numbers), func(n Numeral) bool { return n.IsOrdinal })
	if len(plain) > 0 {
		numbers = plain
	}
	if len(numbers) == 0 || numbers[len(numbers)-1].Value == nil {
		return number, false
	}
	return numbers[len(numbers)-1], true
}

// candidates returns the numbers in an answer that may match the expected number: a year is compared with years, an
// ordinal with ordinals, and any other number by value.
func candidates(numbers []Numeral, should Numeral) []Numeral {
	alike := func(isAlike func(Numeral) bool) []Numeral {
		var some []Numeral
		for _, number := range numbers {
			if isAlike(number) {
				some = append(some, number)
			}
		}
		return some
	}
	if some := alike(func(n Numeral) bool { return n.IsOrdinal == should.IsOrdinal }); len(some) > 0 {
		numbers = some
	}
	if should.Unit == "" {
		return numbers
	}
	if some := alike(func(n Numeral) bool { return n.Unit == should.Unit }); len(some) > 0 {
		return some
	}
	return alike(func(n Numeral) bool { return n.Unit == "" && len(should.Date) == 1 })
}

// closeness is the accepted distance from the expected number.
type closeness struct {
	tolerance  *big.Rat
	isRelative bool
}

// holds reports whether a number matches the expected one; for a date, all expected parts must match.
func (c closeness) holds(is, should Numeral) bool {
	if is.Unit == "" || should.Unit == "" {
		return c.isNear(is.Value, should.Value)
	}
	return !slices.ContainsFunc(should.Date, func(expected Numeral) bool {
		return !slices.ContainsFunc(is.Date, func(part Numeral) bool {
			return part.Unit == expected.Unit && c.isNear(part.Value, expected.Value)
		})
	})
}

func (c closeness) isNear(is, should *big.Rat) bool {
	if is == nil {
		return false
	}
	most := new(big.Rat).Set(c.tolerance)
	if c.isRelative {
		most.Mul(most, new(big.Rat).Abs(should))
	}
	distance := new(big.Rat).Sub(is, should)
	return distance.Abs(distance).Cmp(most) <= 0
}

// dated returns a number in its original notation; for a date, together with the date's other parts.
func dated(number Numeral) (written string) {
	for _, part := range number.Date {
		written += part.Written + part.Unit
	}
	if written == "" {
		return number.Written
	}
	return written
}

func newNumber(config json.RawMessage) (*Rule, error) {
	c := struct {
		Expected  string      `json:"expected"`
		Tolerance json.Number `json:"tolerance"`
		Relative  bool        `json:"relative"`
		Which     string      `json:"which"`
	}{Which: lastOne}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{firstOf, lastOne, anyOf}, c.Which) {
		return nil, &ConfigError{Field: "which", Detail: "first, last or any", Known: []string{firstOf, lastOne, anyOf}}
	}
	near := closeness{new(big.Rat), c.Relative}
	if c.Tolerance != "" {
		written, isThere := (*big.Rat)(nil), false
		if size, err := c.Tolerance.Float64(); len(c.Tolerance) <= maxDigits && err == nil && (size == 0 || size > 1e-300) {
			written, isThere = new(big.Rat).SetString(string(c.Tolerance))
		}
		if !isThere || written.Sign() < 0 {
			return nil, limitedTo("tolerance", Amount, "a number from 0 on")
		}
		near.tolerance = written
	}
	return &Rule{expected: c.Expected, needsExpected: true, judge: func(s Subject, expected string) Verdict {
		should, isThere := expectedNumber(expected)
		if !isThere {
			return failed(CodeExpectation, reason.Because("expected.number", expected))
		}
		numbers, err := numbersOf(wire.AfterThoughts(s.Answer), c.Which)
		if err != nil {
			return limited()
		}
		return near.judge(candidates(numbers, should), should, c.Which)
	}}, nil
}

// judge compares the decisive numbers with the expected one.
func (c closeness) judge(numbers []Numeral, should Numeral, which string) Verdict {
	if len(numbers) == 0 {
		return decided(false, reason.Because("number.none", should.Written))
	}
	if which == anyOf {
		return decided(slices.ContainsFunc(numbers, func(is Numeral) bool {
			return c.holds(is, should)
		}), reason.Because("number.absent", should.Written))
	}
	is := numbers[len(numbers)-1]
	if is.Value == nil {
		return limited()
	}
	return decided(c.holds(is, should), reason.Because("number.differs", dated(is), dated(should)))
}
