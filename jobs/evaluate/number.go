package evaluate

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"
)

// aNumber is a decimal number with separators between its thousands, or none, and an exponent, or none.
var aNumber = regexp.MustCompile(`[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+`)

// What of a text is looked at for its last number, and how many digits one may have.
const (
	numberWithin = 2000
	maxDigits    = 400
	maxExponent  = 400
)

// plainDigits writes the digits and signs of full width, and other forms of a minus, as those of ASCII.
var plainDigits = strings.NewReplacer("０", "0", "１", "1", "２", "2", "３", "3", "４", "4", "５", "5", "６", "6", "７", "7", "８", "8", "９", "9",
	"．", ".", "－", "-", "−", "-", "–", "-", "＋", "+")

// lastNumber returns the last number of a text, and as it is written there. It returns errLimit for one that is too long.
func lastNumber(text string) (value *big.Rat, written string, err error) {
	end := strings.LastIndexFunc(text, func(r rune) bool { return r >= '0' && r <= '9' || r >= '０' && r <= '９' })
	if end < 0 {
		return nil, "", nil
	}
	text = plainDigits.Replace(strings.ToValidUTF8(text[max(0, end-numberWithin):min(len(text), end+utf8.UTFMax)], " "))
	from, to := -1, -1
	for _, at := range aNumber.FindAllStringIndex(text, -1) {
		start, before := at[0], text[:at[0]]
		if text[start] == '.' {
			if endsWithDigit(before) {
				continue // part of a version: 1.2.3
			}
			if strings.HasSuffix(before, ".") || endsWithWord(before) {
				start++ // a full stop: No.42, …42
			}
		}
		from, to = start, at[1]
	}
	if from < 0 {
		return nil, "", nil
	}
	if before := text[:from]; strings.HasSuffix(before, "-") && !endsWithWord(strings.TrimSuffix(before, "-")) {
		from-- // a minus, and not a hyphen or the sign between two numbers: 3-5, GPT-4
	}
	written = text[from:to]
	plain := strings.ReplaceAll(written, ",", "")
	value, isExact := exactly(json.Number(plain))
	if !isExact {
		return nil, written, errLimit
	}
	return value, written, nil
}

func endsWithDigit(text string) bool {
	return text != "" && text[len(text)-1] >= '0' && text[len(text)-1] <= '9'
}

// endsWithWord reports whether a text ends with a letter or a digit of ASCII, or what closes an expression.
func endsWithWord(text string) bool {
	if text == "" {
		return false
	}
	last := text[len(text)-1]
	return last == ')' || last >= '0' && last <= '9' || last >= 'a' && last <= 'z' || last >= 'A' && last <= 'Z'
}

func newNumber(config json.RawMessage) (*Rule, error) {
	var c struct {
		Expected  string      `json:"expected"`
		Tolerance json.Number `json:"tolerance"`
		Relative  bool        `json:"relative"`
	}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	tolerance := new(big.Rat)
	if c.Tolerance != "" {
		written, isThere := (*big.Rat)(nil), false
		if size, err := c.Tolerance.Float64(); len(c.Tolerance) <= maxDigits && err == nil && (size == 0 || size > 1e-300) {
			written, isThere = new(big.Rat).SetString(string(c.Tolerance))
		}
		if !isThere || written.Sign() < 0 {
			return nil, limitedTo("tolerance", Amount, "a number from 0 on")
		}
		tolerance = written
	}
	return &Rule{expected: c.Expected, needsExpected: true, judge: func(s Subject, expected string) Verdict {
		should, shouldText, err := lastNumber(expected)
		if err != nil || should == nil {
			return failed(CodeExpectation, "no number: "+quoted(expected))
		}
		is, isText, err := lastNumber(s.Answer)
		if err != nil {
			return limited()
		}
		if is == nil {
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
