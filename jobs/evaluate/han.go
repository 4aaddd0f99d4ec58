package evaluate

import (
	"math/big"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The digits and place values of Chinese numerals.
var (
	chineseDigits = map[rune]int64{
		'零': 0, '〇': 0, '一': 1, '二': 2, '两': 2, '三': 3, '四': 4, '五': 5, '六': 6, '七': 7, '八': 8, '九': 9,
		'壹': 1, '贰': 2, '叁': 3, '肆': 4, '伍': 5, '陆': 6, '柒': 7, '捌': 8, '玖': 9,
	}
	placeValues = map[rune]int64{
		'十': 10, '拾': 10, '百': 100, '佰': 100, '千': 1000, '仟': 1000, '万': 10_000, '亿': 100_000_000,
	}
)

const (
	chineseNumerals = `[零〇一二两三四五六七八九壹贰叁肆伍陆柒捌玖十拾百佰千仟万亿]+`
	// maxChinese is the largest number that is read from Chinese numerals.
	maxChinese = 1e17
)

var (
	aChineseNumber = regexp.MustCompile(`(?:([百千万])分之)?(` + chineseNumerals + `)(?:点([零〇一二三四五六七八九]{1,12}))?(?:分之(` +
		chineseNumerals + `))?`)
	// aSingle matches a single numeral that can only be a number: it stands alone or follows a word such as 是, and is
	// followed by at most a measure word and a short noun.
	aSingle = regexp.MustCompile(
		`(?:^|[\s，。：:；;、（(“"*=]|[是为有共约于达到需要即])(负|零下)?([一二两三四五六七八九十])(\p{Han}{0,4})(?:$|[\s，。；;！!？?、）)”"*])`)
)

// placesOf parses a number in Chinese such as 一百二十三万 or 二〇二四, and returns its length in bytes. If isClosed reports that
// nothing else can follow the number, a last digit without a place value gets the next lower one, as in 三万五 (35,000);
// otherwise, the digit belongs to the following text, as in 五万一年 (50,000 a year).
func placesOf(numeral string, isClosed bool) (value int64, bytes int, isNumber bool) {
	if !strings.ContainsFunc(numeral, func(r rune) bool { return placeValues[r] > 0 }) {
		return digitByDigit(numeral)
	}
	var total, section, last, lastLarge int64
	digit, isAfterZero := int64(-1), false
	for _, r := range numeral {
		place := placeValues[r]
		switch {
		case place == 0 && digit > 0: // two digits in a row, as in 二三百 (two or three hundred)
			return 0, 0, false
		case place == 0:
			isAfterZero = digit == 0
			digit = chineseDigits[r]
			continue
		case place < 10_000 && place > 10 && digit < 1: // only 十 needs no digit before it
			return 0, 0, false
		case place < 10_000:
			section += max(digit, 1) * place
		default:
			section += max(digit, 0)
			if lastLarge == 0 || place > lastLarge {
				total, section = (total+section)*place, 0
			} else {
				total, section = total+section*place, 0
			}
			lastLarge = place
		}
		if digit, last = -1, place; total > maxChinese || total == 0 && lastLarge > 0 {
			return 0, 0, false
		}
	}
	value, bytes = total+section, len(numeral)
	switch isLoose := digit > 0 && !isAfterZero && last >= 100; {
	case isLoose && isClosed:
		value += digit * last / 10
	case isLoose:
		_, size := utf8.DecodeLastRuneInString(numeral)
		bytes -= size
	default:
		value += max(digit, 0)
	}
	return value, bytes, true
}

// digitByDigit is like placesOf, but reads digits without place values, as in 二〇二四.
func digitByDigit(numeral string) (value int64, bytes int, isNumber bool) {
	for _, r := range numeral {
		if value = value*10 + chineseDigits[r]; value > maxChinese {
			return 0, 0, false
		}
	}
	return value, len(numeral), true
}

// readChinese returns fractions, decimals, and numbers of two or more Chinese numerals of which at least one is a place
// value: these hardly ever mean anything else.
func readChinese(text string) (found []Numeral) {
	for _, at := range aChineseNumber.FindAllStringSubmatchIndex(text, -1) {
		part := func(group int) string {
			if at[2*group] < 0 {
				return ""
			}
			return text[at[2*group]:at[2*group+1]]
		}
		whole, isFraction := part(2), part(1)+part(3)+part(4) != ""
		isPlain := !strings.ContainsFunc(whole, func(r rune) bool { return placeValues[r] > 0 }) // such as 三五 (a few)
		isShort := utf8.RuneCountInString(whole) < 2
		before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
		if (isShort || isPlain) && !isFraction || unicode.IsDigit(before) {
			continue
		}
		next, _ := utf8.DecodeRuneInString(text[at[1]:])
		value, bytes, isNumber := placesOf(whole, !unicode.Is(unicode.Han, next) || next == '元' || next == '块')
		if !isNumber {
			continue
		}
		one := Numeral{Value: new(big.Rat).SetInt64(value), From: at[0], To: at[1]}
		if !isFraction {
			one.To = at[4] + bytes
		}
		if one.addChineseParts(part(1), part(3), part(4)); one.Value == nil {
			continue
		}
		one.readBefore(text)
		if unit := string(next); one.To == at[1] && (unit == "年" || unit == "月") {
			one.Unit, one.Date = unit, []Numeral{{Value: one.Value, Unit: unit}}
		}
		one.Written = text[one.From:one.To]
		found = append(found, one)
	}
	return found
}

// addChineseParts applies the other parts of a number: 百分之 (percent), the digits after 点 (the decimal point), and 分之
// (which makes a fraction).
func (n *Numeral) addChineseParts(of, decimals, numerator string) {
	scale := big.NewRat(1, 10)
	for _, r := range decimals {
		digit := new(big.Rat).SetInt64(chineseDigits[r])
		n.Value = new(big.Rat).Add(n.Value, digit.Mul(digit, scale))
		scale = new(big.Rat).Mul(scale, big.NewRat(1, 10))
	}
	if of != "" {
		n.Value = new(big.Rat).Mul(n.Value, big.NewRat(1, placeValues[[]rune(of)[0]]))
	}
	if numerator != "" {
		above, _, isNumber := placesOf(numerator, true)
		if !isNumber || n.Value.Sign() == 0 {
			n.Value = nil
			return
		}
		n.Value = new(big.Rat).Quo(new(big.Rat).SetInt64(above), n.Value)
	}
}

// readSingleChinese returns single numerals where they can only be numbers; 一 before a noun is an article.
func readSingleChinese(text string) (found []Numeral) {
	for _, at := range aSingle.FindAllStringSubmatchIndex(text, -1) {
		numeral, name := text[at[4]:at[5]], text[at[6]:at[7]]
		if first, _ := utf8.DecodeRuneInString(name); chineseDigits[first] > 0 || placeValues[first] > 0 {
			continue // 三三两两 means in twos and threes
		}
		if numeral == "十" && strings.HasPrefix(name, "分") && name != "分" && name != "分钟" {
			continue // 十分 means very, as in 十分重要
		}
		if numeral == "一" && utf8.RuneCountInString(name) > 1 && name != "个月" {
			continue
		}
		value, _, _ := placesOf(numeral, true)
		one := Numeral{Value: new(big.Rat).SetInt64(value), From: at[4], To: at[5]}
		if at[2] >= 0 {
			one.negate(at[2])
		}
		one.Written = text[one.From:one.To]
		found = append(found, one)
	}
	return found
}
