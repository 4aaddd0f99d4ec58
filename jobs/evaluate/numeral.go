package evaluate

import (
	"cmp"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Numeral is a number that a text states.
type Numeral struct {
	// Value is the numeric value, with signs, 万 (10⁴) and 亿 (10⁸), powers of ten, percent and fractions applied. It is
	// nil if the number is too long.
	Value *big.Rat
	// Written is the number in its original notation; it begins at byte From and ends before byte To.
	Written  string
	From, To int
	// Unit is 年 (year), 月 (month) or 日 (day) for a part of a date, and Date holds all parts of that date; for other
	// numbers both are empty.
	Unit string
	Date []Numeral
	// IsOrdinal reports that the number gives a position in a sequence, as in 第3题 (question 3).
	IsOrdinal bool
}

// Limits on numbers: the maximum number of digits, and the maximum power of ten.
const (
	maxDigits   = 400
	maxExponent = 400
)

// NumeralsIn returns the numbers that a text states, in order, in digits of any width or in Chinese. Citation
// marks, addresses, list numbers, exponents of variables and parts of versions do not count. A single Chinese
// numeral counts only if the text has no other number and the numeral cannot mean anything else.
func NumeralsIn(text string) []Numeral {
	plain := withoutReferences(plainWidth(text))
	found := readDates(plain)
	plain = overwritten(plain, found, ' ')
	digits := readDigits(plain)
	found = append(found, digits...)
	found = append(found, readChinese(overwritten(plain, digits, '0'))...)
	if len(found) == 0 {
		found = readSingleChinese(plain)
	}
	slices.SortFunc(found, func(a, b Numeral) int { return cmp.Compare(a.From, b.From) })
	return found
}

// plainWidth replaces full-width digits and signs, and other forms of the minus, with ASCII.
func plainWidth(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '０' && r <= '９':
			return '0' + r - '０'
		case r == '．':
			return '.'
		case strings.ContainsRune("－−–﹣", r):
			return '-'
		case r == '＋':
			return '+'
		case r == '％' || r == '﹪':
			return '%'
		case r == '／' || r == '⁄':
			return '/'
		case r == '\u00a0' || r == '\u3000':
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
}

// These match references, whose numbers are not part of what the text states: addresses, citation marks, references to
// other places, and list numbers. The reference is the first matching group, or the whole match.
var (
	anAddress = regexp.MustCompile(`(?i)\b(?:https?://|www\.)[^\s<>"'，。；）)】\]]+`)
	aCitation = regexp.MustCompile(`(?i)\[\^?\d{1,3}(?:\s*[,，、;；-]\s*\^?\d{1,3})*\]|【\^?\d[^】\n]{0,40}】` +
		`|[\[【〔(（]\s*(?:来源|参考|资料|文献|引用|出处|注|source|ref|citation|doc|note)[^\]】〕)）\n]{0,40}[\]】〕)）]`)
	aReference = regexp.MustCompile(
		`(?:^|[^意可看常罕预偏再相听遇碰会接成])(见\s*(?:第\s*[\d一二三四五六七八九十百.]+|\d[\d.]*\s*[题章节页]|[图表]\s*\d+))` +
			`|((?:参考|参照)\s*第\s*[\d一二三四五六七八九十百.]+)` +
			`|((?i:\bsee\s+(?:also\s+)?(?:question|section|chapter|page|figure|table|no\.?|item|step)\s*\d[\d.]*))`)
	aListMark = regexp.MustCompile(`(?m)^[ \t]*(?:[-*][ \t]+)?[(（]?(\d{1,2})(?:[.)）][ \t]+|、)\S`)
)

// withoutReferences replaces references with spaces. A citation that is the whole text stays, because it is the answer.
func withoutReferences(text string) string {
	plain := []byte(text)
	blank := func(at []int) {
		from, to := at[0], at[1]
		for group := 2; group+1 < len(at); group += 2 {
			if at[group] >= 0 {
				from, to = at[group], at[group+1]
			}
		}
		for n := from; n < to; n++ {
			plain[n] = ' '
		}
	}
	if trimmed := strings.TrimSpace(text); aCitation.FindString(trimmed) != trimmed {
		for _, expression := range []*regexp.Regexp{anAddress, aCitation, aReference} {
			for _, at := range expression.FindAllSubmatchIndex([]byte(text), -1) {
				blank(at)
			}
		}
	}
	marks := aListMark.FindAllStringSubmatchIndex(text, -1)
	if len(marks) > 1 && text[marks[0][2]:marks[0][3]] == "1" {
		for _, at := range marks {
			blank(at)
		}
	}
	return string(plain)
}

// The forms of dates: 2024年5月1日 (1 May 2024), 5月1日, 5月, 二〇二四年五月一日, 2024-05-01.
var (
	aDate = regexp.MustCompile(
		`(\d{1,4})\s*年(?:\s*(\d{1,2})\s*月(?:份?\s*(\d{1,2})\s*[日号])?)?|(\d{1,2})\s*月(?:份?\s*(\d{1,2})\s*[日号])?`)
	aHanDate = regexp.MustCompile(`([〇零一二三四五六七八九]{4})年(?:([一二三四五六七八九十]{1,3})月(?:([一二三四五六七八九十]{1,3})[日号])?)?`)
	isoDate  = regexp.MustCompile(`\b(\d{4})([-/.])(\d{1,2})([-/.])(\d{1,2})\b`)
)

// readDates returns the parts of dates, each as a number with its unit.
func readDates(text string) (found []Numeral) {
	add := func(at []int, units ...string) {
		var date []Numeral
		for n, unit := range units {
			from, to := at[2*n+2], at[2*n+3]
			if from < 0 || unit == "" {
				continue
			}
			part := Numeral{Value: rational(text[from:to]), Written: text[from:to], From: from, To: to, Unit: unit}
			if part.Value == nil {
				value, _, _ := placesOf(part.Written, true)
				part.Value = new(big.Rat).SetInt64(value)
			}
			date = append(date, part)
		}
		for n := range date {
			date[n].Date = slices.Clone(date)
		}
		found = append(found, date...)
	}
	for _, at := range aDate.FindAllStringSubmatchIndex(text, -1) {
		if before := text[:at[0]]; !endsWithDigit(before) && !strings.HasSuffix(before, ".") { // 1.5年 is 1.5 years
			add(at, "年", "月", "日", "月", "日")
		}
	}
	for _, at := range aHanDate.FindAllStringSubmatchIndex(text, -1) {
		add(at, "年", "月", "日")
	}
	for _, at := range isoDate.FindAllStringSubmatchIndex(text, -1) {
		if text[at[4]:at[5]] == text[at[8]:at[9]] {
			add(at, "年", "", "月", "", "日")
		}
	}
	return found
}

// aNumber matches a decimal number with optional thousands separators and an optional exponent.
var aNumber = regexp.MustCompile(
	`[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+`)

// The parts of a number after its digits: the fraction in 1 1/2, a power of ten, an exponent of the number itself, a
// denominator, 万 (10⁴) and similar characters, a percent sign.
var (
	raised     = `[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+`
	aMixedPart = regexp.MustCompile(`^ (\d+)/(\d+)`)
	aTenPower  = regexp.MustCompile(`^\s*(?:×|[xX*·]|\\times|\\cdot)\s*10\s*(?:(?:\^|\*\*)\s*\{?\s*([-+]?\d+)\s*\}?|(` +
		raised + `))`)
	aPower       = regexp.MustCompile(`^(?:\^\s*\{?\s*(-?\d+)\s*\}?|\*\*(-?\d+)|(` + raised + `))`)
	aDenominator = regexp.MustCompile(`^\s?/\s?(\d+(?:\.\d+)?)`)
	aMultiplier  = regexp.MustCompile(`^\s?(万亿|[十百千]?[万亿]|[百千])`)
	noMultiplier = regexp.MustCompile(`^\s?(?:[千百](?:克|瓦|米|卡|帕|伏|赫|焦|安|升|欧|字节|比特|分点|兆)|百分)`)
	someDigits   = regexp.MustCompile(`^\d+`)
	aPercent     = regexp.MustCompile(`^(?:\s?\\?(?:%|‰)|\s+(?i:percent|per cent)\b)`)
	latexFrac    = regexp.MustCompile(`\\[dt]?frac\{(\d+)\}\{(\d+)\}`)
)

// The parts of a number before its digits.
var (
	isExponent = regexp.MustCompile(`\^[\s{-]*$|[A-Za-z)]\*\*$|_\{?$`)
	aPartHead  = regexp.MustCompile(`([百千万])分之\s?$`)
	isOrdinal  = regexp.MustCompile(`第\s?$`)
	aMinus     = regexp.MustCompile(`(?:^|[^正])负\s?$|零下\s?$|(?i:\b(?:minus|negative)\s+$)`)
	currencies = "¥￥$€£"
)

// overwritten returns a text in which the numbers found so far are overwritten, so that no part of them is read again.
func overwritten(text string, known []Numeral, with byte) string {
	plain := []byte(text)
	for _, number := range known {
		for n := number.From; n < number.To; n++ {
			plain[n] = with
		}
	}
	return string(plain)
}

// readDigits returns the numbers that are written in digits.
func readDigits(text string) (found []Numeral) {
	text = latexFrac.ReplaceAllStringFunc(text, func(fraction string) string {
		parts := latexFrac.FindStringSubmatch(fraction)
		shown := parts[1] + "/" + parts[2]
		return shown + strings.Repeat(" ", len(fraction)-len(shown))
	})
	through := 0
	for _, at := range aNumber.FindAllStringIndex(text, -1) {
		from, to := at[0], at[1]
		if from < through || isExponent.MatchString(lastOf(text[:from])) {
			continue
		}
		if before := text[:from]; text[from] == '.' {
			if endsWithDigit(before) {
				continue // a part of a version: 1.2.3
			}
			if strings.HasSuffix(before, ".") || endsWithWord(before) {
				from++ // this is not a decimal point: No.42, …42
			}
		}
		one := Numeral{Value: rational(text[from:to]), From: from, To: to}
		one.readBehind(text)
		one.readBefore(text)
		one.Written = strings.TrimSpace(text[one.From:one.To])
		through = one.To
		found = append(found, one)
	}
	return found
}

// lastOf returns the part of a text that is examined before a number, and firstOfRest the part that is examined after
// it.
func lastOf(text string) string      { return text[max(0, len(text)-30):] }
func firstOfRest(text string) string { return text[:min(len(text), maxDigits)] }

// times multiplies a number by the factor in the next bytes of the text; a nil factor means that the number is too
// large.
func (n *Numeral) times(factor *big.Rat, bytes int) {
	if n.To += bytes; n.Value != nil && factor != nil {
		n.Value = new(big.Rat).Mul(n.Value, factor)
	} else {
		n.Value = nil
	}
}

// readBehind changes the number according to the text after its digits.
func (n *Numeral) readBehind(text string) {
	rest := firstOfRest(text[n.To:])
	if match := aMixedPart.FindStringSubmatch(rest); match != nil && n.Value != nil && n.Value.IsInt() {
		if part := quotient(match[1], match[2]); part != nil && part.Cmp(big.NewRat(1, 1)) < 0 {
			n.Value, n.To = new(big.Rat).Add(n.Value, part), n.To+len(match[0])
			return
		}
	}
	isInRow := strings.HasSuffix(text[:n.From], "/")
	if match := aTenPower.FindStringSubmatch(rest); match != nil {
		n.times(rational("1e"+exponentOf(match[1:])), len(match[0]))
	} else if match := aPower.FindStringSubmatch(rest); match != nil {
		n.Value, n.To = powerOf(n.Value, exponentOf(match[1:])), n.To+len(match[0])
	} else if match := aDenominator.FindStringSubmatch(rest); match != nil && !isInRow && !strings.HasPrefix(
		rest[len(match[0]):], "/") {
		if part := quotient("1", match[1]); part != nil {
			n.times(part, len(match[0]))
		}
	}
	n.readMultipliers(text)
	if sign := aPercent.FindString(firstOfRest(text[n.To:])); strings.Contains(sign, "‰") {
		n.times(big.NewRat(1, 1000), len(sign))
	} else if sign != "" {
		n.times(big.NewRat(1, 100), len(sign))
	}
}

// multiplierAt returns the factor of 万 (10⁴) and similar characters at the beginning of a text, and their length in
// bytes; both are 0 if there are none.
func multiplierAt(text string) (factor int64, bytes int) {
	match := aMultiplier.FindStringSubmatch(text)
	if match == nil || noMultiplier.MatchString(text) {
		return 0, 0
	}
	factor = 1
	for _, r := range match[1] {
		factor *= placeValues[r]
	}
	return factor, len(match[0])
}

// readMultipliers applies 万 (10⁴), 亿 (10⁸) and similar characters, and adds smaller numbers that follow directly:
// 1亿2000万, 3万5千, 3万5, 3万5000.
func (n *Numeral) readMultipliers(text string) {
	unit, length := multiplierAt(firstOfRest(text[n.To:]))
	if unit == 0 {
		return
	}
	n.times(new(big.Rat).SetInt64(unit), length)
	for length > 0 && n.Value != nil {
		digits := someDigits.FindString(firstOfRest(text[n.To:]))
		rest := firstOfRest(text[n.To+len(digits):])
		if digits == "" || len(digits) > 8 || strings.HasPrefix(rest, ".") {
			return
		}
		factor, bytes := multiplierAt(rest)
		switch {
		case factor == 0 && len(digits) == 1 && unit >= 1000:
			factor = unit / 10
		case factor == 0 && len(digits) == len(strconv.FormatInt(unit, 10))-1:
			factor = 1
		case factor == 0 || factor >= unit:
			return
		}
		part := rational(digits)
		n.Value, n.To = new(big.Rat).Add(n.Value, part.Mul(part, new(big.Rat).SetInt64(factor))), n.To+len(digits)+bytes
		unit, length = factor, bytes
	}
}

// readBefore changes the number according to the text before its digits.
func (n *Numeral) readBefore(text string) {
	if head := aPartHead.FindStringSubmatch(lastOf(text[:n.From])); head != nil {
		n.times(big.NewRat(1, placeValues[[]rune(head[1])[0]]), 0)
		n.From -= len(head[0])
	}
	before := text[:n.From]
	n.IsOrdinal = isOrdinal.MatchString(lastOf(before))
	before = strings.TrimRight(before, currencies)
	if strings.HasSuffix(before, "-") && !endsWithWord(strings.TrimSuffix(before, "-")) {
		n.negate(len(before) - 1) // a minus, as opposed to a hyphen or the sign between two numbers: 3-5, GPT-4
		return
	}
	word := aMinus.FindString(lastOf(before))
	if first := strings.TrimRight(before[:len(before)-len(word)], " "); word != "" && !endsWithDigit(first) &&
		!strings.HasSuffix(first, ")") {
		n.negate(len(before) - len(word))
	}
}

// negate changes the sign of the number that begins at a position.
func (n *Numeral) negate(from int) {
	if n.From = from; n.Value != nil {
		n.Value = new(big.Rat).Neg(n.Value)
	}
}

var lowered = strings.NewReplacer("⁰", "0", "¹", "1", "²", "2", "³", "3", "⁴", "4", "⁵", "5", "⁶", "6", "⁷", "7", "⁸",
	"8", "⁹", "9", "⁻", "-", "⁺", "+")

// exponentOf returns an exponent in ordinary digits, given the groups of a match in any of the notations.
func exponentOf(groups []string) string {
	return strings.TrimPrefix(lowered.Replace(strings.Join(groups, "")), "+")
}

// powerOf returns a number raised to a small power; nil if the result is too large.
func powerOf(base *big.Rat, exponent string) *big.Rat {
	power, err := strconv.Atoi(exponent)
	size := max(power, -power)
	if err != nil || base == nil || power < 0 && base.Sign() == 0 || len(base.RatString())*size > maxDigits {
		return nil
	}
	value := big.NewRat(1, 1)
	for range size {
		value.Mul(value, base)
	}
	if power < 0 {
		value.Inv(value)
	}
	return value
}

// quotient returns a fraction; nil if it divides by 0 or a number is too long.
func quotient(numerator, denominator string) *big.Rat {
	above, below := rational(numerator), rational(denominator)
	if above == nil || below == nil || below.Sign() == 0 {
		return nil
	}
	return above.Quo(above, below)
}

// rational parses a number in digits; nil if it is too long.
func rational(digits string) *big.Rat {
	value, isExact := exactly(json.Number(strings.ReplaceAll(digits, ",", "")))
	if !isExact {
		return nil
	}
	return value
}

// exactly returns the exact value of a number, unless it has too many digits or too large an exponent.
func exactly(number json.Number) (*big.Rat, bool) {
	_, exponent, hasExponent := strings.Cut(strings.ToLower(string(number)), "e")
	size, err := strconv.Atoi(exponent)
	if len(number) > maxDigits || hasExponent && (err != nil || size > maxExponent || size < -maxExponent) {
		return nil, false
	}
	return new(big.Rat).SetString(string(number))
}

func endsWithDigit(text string) bool {
	return text != "" && text[len(text)-1] >= '0' && text[len(text)-1] <= '9'
}

// endsWithWord reports whether a text ends with an ASCII letter or digit, or with a closing parenthesis.
func endsWithWord(text string) bool {
	if text == "" {
		return false
	}
	last := text[len(text)-1]
	return last == ')' || last >= '0' && last <= '9' || last >= 'a' && last <= 'z' || last >= 'A' && last <= 'Z'
}
