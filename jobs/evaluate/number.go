package evaluate

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// aNumber is a decimal number with separators between its thousands, or none, and an exponent, or none.
var aNumber = regexp.MustCompile(`[-+−]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?|[-+−]?\.[0-9]+`)

// maxDigits is how many digits a number may have.
const maxDigits = 400

// lastNumber returns the last number of a text, and as it is written there.
func lastNumber(text string) (value *big.Rat, written string, isThere bool) {
	end := strings.LastIndexFunc(text, unicode.IsDigit)
	if end < 0 {
		return nil, "", false
	}
	text = text[max(0, end-4*maxDigits):min(len(text), end+utf8.UTFMax)] // a digit has up to four bytes
	text = norm.NFKC.String(strings.ToValidUTF8(text, " "))              // full-width digits are digits
	found := aNumber.FindAllStringIndex(text, -1)
	if len(found) == 0 {
		return nil, "", false
	}
	from, to := found[len(found)-1][0], found[len(found)-1][1]
	if from > 0 && strings.ContainsRune("+-−", firstRune(text[from:])) && isWordByte(text[from-1]) {
		from += len(string(firstRune(text[from:]))) // a hyphen, or a minus between two numbers: 3-5, GPT-4
	}
	written = text[from:to]
	plain := strings.NewReplacer(",", "", "−", "-").Replace(written)
	if len(plain) > maxDigits {
		return nil, "", false
	}
	value, isThere = new(big.Rat).SetString(plain)
	return value, written, isThere
}

func firstRune(text string) rune {
	for _, r := range text {
		return r
	}
	return 0
}

func isWordByte(b byte) bool {
	return b == ')' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func newNumber(config json.RawMessage) (*Rule, error) {
	var c struct {
		Expected  string      `json:"expected"`
		Tolerance json.Number `json:"tolerance"`
		Relative  bool        `json:"relative"`
	}
	if err := read(config, &c); err != nil {
		return nil, err
	}
	tolerance := new(big.Rat)
	if c.Tolerance != "" {
		written, isThere := (*big.Rat)(nil), false
		if len(c.Tolerance) <= maxDigits && !strings.ContainsAny(string(c.Tolerance), "eE") {
			written, isThere = new(big.Rat).SetString(string(c.Tolerance))
		}
		if !isThere || written.Sign() < 0 {
			return nil, limitedTo("tolerance", Amount, "a number from 0 on")
		}
		tolerance = written
	}
	return &Rule{expected: c.Expected, needsExpected: true, judge: func(s Subject, expected string) Verdict {
		should, shouldText, isThere := lastNumber(expected)
		if !isThere {
			return failed(CodeExpectation, "no number: "+quoted(expected))
		}
		is, isText, isThere := lastNumber(s.Answer)
		if !isThere {
			return decided(false, "– ≠ "+shouldText)
		}
		most := new(big.Rat).Set(tolerance)
		if c.Relative {
			most.Mul(most, new(big.Rat).Abs(should))
		}
		distance := new(big.Rat).Sub(is, should)
		return decided(distance.Abs(distance).Cmp(most) <= 0, cut(isText, maxShown)+" ≠ "+cut(shouldText, maxShown))
	}}, nil
}
