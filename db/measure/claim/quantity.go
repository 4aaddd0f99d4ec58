package claim

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"wending/db/measure/passage"
)

// number is a number as the text states it.
type number struct {
	passage.Span
	value   float64
	isHan   bool // written in Chinese characters
	isWord  bool // written in English words
	isPart  bool // 1/3, without a unit
	isAbout bool // 两三: two or three
	isLight bool // a single Chinese character, which is a number only before a unit
}

// longestNumber is the maximum length, in characters, of a number that is written in Chinese.
const longestNumber = 32

// han reads a number in Chinese characters at i, and reports whether there is one.
func (d *Document) han(i, to int) (number, bool) {
	n := number{Span: passage.Span{From: i, To: i}, isHan: true}
	total, section, digit := 0.0, 0.0, -1
	digits := 0
	for limit := min(to, i+longestNumber); n.To < limit; n.To++ {
		r := d.Runes[n.To]
		if value := passage.ChineseDigit(r); value >= 0 {
			if digit > 0 && digits > 0 && section == 0 {
				digit = digit*10 + value
			} else {
				digit = value
			}
			digits++
			continue
		}
		scale := passage.ChineseScale(r)
		if scale == 0 || n.To == i && scale != 10 {
			break
		}
		if r == '千' && (d.At(n.To+1) == '克' || d.At(n.To+1) == '米' || d.At(n.To+1) == '卡') && digit >= 0 {
			break
		}
		if scale < 1e4 {
			section += math.Max(float64(digit), boolean(digit < 0)) * scale
		} else {
			if digit > 0 {
				section += float64(digit)
			}
			total = (total + section) * scale
			section = 0
		}
		digit, digits = -1, 0
	}
	if n.To == i {
		return n, false
	}
	if digit > 0 {
		section += float64(digit) * d.lastScale(n.To)
	}
	n.value = total + section
	n.isLight = n.To == i+1
	if d.At(n.To) == '点' && passage.ChineseDigit(d.At(n.To+1)) >= 0 && n.To+1 < to {
		end, fraction, scale := n.To+1, 0.0, 0.1
		for ; end < to && passage.ChineseDigit(d.At(end)) >= 0; end++ {
			fraction += float64(passage.ChineseDigit(d.At(end))) * scale
			scale /= 10
		}
		if d.At(end) != '分' && d.At(end) != '十' {
			n.value, n.To, n.isLight = n.value+fraction, end, false
		}
	}
	return n, true
}

// lastScale returns the scale of the last digit of a number that ends at end: 100 for the 五 of 一千五 (1,500).
func (d *Document) lastScale(end int) float64 {
	scale := passage.ChineseScale(d.At(end - 2))
	if scale < 100 || end-2 < 1 || passage.ChineseDigit(d.At(end-3)) < 1 {
		return 1
	}
	return scale / 10
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// integer reads a whole number in digits or Chinese characters at i. It returns the number in digits, without leading
// zeros, and the position after it; "" and i if there is none.
func (d *Document) integer(i int) (string, int) {
	end := i
	for end < i+9 && passage.IsDigit(d.At(end)) {
		end++
	}
	if end > i {
		return strings.TrimLeft(string(d.Runes[i:end-1]), "0") + string(d.Runes[end-1]), end
	}
	if n, isNumber := d.han(i, min(i+12, len(d.Runes))); isNumber {
		return decimal(n.value), n.To
	}
	return "", i
}

func decimal(v float64) string {
	if v >= 0 && v < 1e9 && v == math.Trunc(v) {
		return strconv.Itoa(int(v))
	}
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}

// digits reads a number in digits, such as 1,200.50, at i, and reports whether there is one.
func (d *Document) digits(i, to int) (number, bool) {
	var small [32]byte
	n := number{Span: passage.Span{From: i, To: i}}
	length := 0
	hasPoint := false
	for n.To < to && length < len(small) {
		r := d.Runes[n.To]
		switch {
		case passage.IsDigit(r):
			small[length] = byte(r)
			length++
		case r == ',' && length > 0 && length <= 30 && !hasPoint && passage.IsDigit(d.At(n.To+1)) &&
			passage.IsDigit(d.At(n.To+2)) && passage.IsDigit(d.At(n.To+3)) && !passage.IsDigit(d.At(n.To+4)):
		case r == '.' && !hasPoint && length > 0 && passage.IsDigit(d.At(n.To+1)):
			small[length] = '.'
			length++
			hasPoint = true
		default:
			goto done
		}
		n.To++
	}
done:
	if length == 0 {
		return n, false
	}
	value, err := strconv.ParseFloat(string(small[:length]), 64)
	n.value = value
	return n, err == nil
}

// english reads a number in words, such as thirty, twenty-one or two hundred, at i, and reports whether there is one.
func (d *Document) english(i, to int) (number, bool) {
	n := number{Span: passage.Span{From: i, To: i}, isWord: true}
	total := 0.0
	for found := 0; found < 6; found++ {
		from := n.To
		if found > 0 {
			if d.At(from) == '-' {
				from++
			} else {
				from = d.Blanks(from)
			}
		}
		word, end := d.word(from, to)
		value, isNumber := passage.EnglishNumbers[word]
		if !isNumber || word == "" || passage.IsLatin(d.At(end)) {
			break
		}
		switch {
		case value < 100 && total > 0 && (int(total)%10 != 0 || total < 20 || value >= 10) && total < 100:
			n.value = total
			return n, true
		case value >= 100:
			total = math.Max(total, 1) * value
		default:
			total += value
		}
		n.To = end
	}
	n.value = total
	return n, n.To > i
}

// anyNumber reads a number in digits, Chinese characters or English words at i, and reports whether there is one.
func (d *Document) anyNumber(i, to int) (number, bool) {
	if i >= to {
		return number{}, false
	}
	r := d.Runes[i]
	switch {
	case passage.IsDigit(r):
		n, isNumber := d.digits(i, to)
		if isNumber {
			d.scale(&n, to)
		}
		return n, isNumber
	case passage.ChineseDigit(r) >= 0 || r == '十':
		if next := passage.ChineseDigit(d.At(i + 1)); next > 1 && next == passage.ChineseDigit(r)+1 &&
			passage.ChineseDigit(d.At(i+2)) < 0 && passage.ChineseScale(d.At(i+2)) == 0 {
			// 两三米: two or three metres
			n := number{Span: passage.Span{From: i, To: i + 1}, value: float64(next - 1), isHan: true, isAbout: true}
			return n, true
		}
		return d.han(i, to)
	case passage.IsLatin(r) && !passage.IsLatin(d.At(i-1)):
		return d.english(i, to)
	}
	return number{}, false
}

// fraction extends n by the /4 of 1/4 or the 1/2 of 1 1/2 if a unit follows, or if the text shows that it is a share:
// 1/4 alone may be a date or a page.
func (d *Document) fraction(n *number, to int) {
	whole, top, i := 0.0, *n, n.To
	if d.At(i) == ' ' && passage.IsDigit(d.At(i+1)) {
		next, isNumber := d.digits(i+1, to)
		if !isNumber || d.At(next.To) != '/' {
			return
		}
		whole, top, i = n.value, next, next.To
	}
	bottom, isNumber := d.digits(i+1, to)
	if d.At(i) != '/' || !isNumber || top.value >= bottom.value || bottom.value > 16 ||
		top.value != math.Trunc(top.value) || bottom.value != math.Trunc(bottom.value) {
		return
	}
	if u, _ := d.unit(bottom.To, to); u.base == "" && whole == 0 || u.isIgnored {
		n.isPart = whole == 0 && bottom.value <= 5 && d.isPartOf(top.From, bottom.To)
		if n.isPart {
			n.value, n.To = top.value/bottom.value, bottom.To
		}
		return
	}
	n.value, n.To = whole+top.value/bottom.value, bottom.To
}

// isPartOf reports whether a fraction such as 1/3 is a share of something, not a date or a page: the whole is named
// before or after it.
func (d *Document) isPartOf(from, to int) bool {
	before, behind := d.At(from-1), d.At(d.Blanks(to))
	if before == ' ' {
		before = d.At(from - 2)
	}
	isOther := before == '第' || before == '/' || behind == '/' || strings.ContainsRune("页月号日场章版", behind)
	return !isOther && (strings.ContainsRune("的为取约到至满剩", before) || passage.IsHan(behind) || d.Has(d.Blanks(to), "of "))
}

// scale extends n, a number in digits, by the rest of a fraction, and by a word such as 万 (ten thousand) or million.
func (d *Document) scale(n *number, to int) {
	d.fraction(n, to)
	i := d.Blanks(n.To)
	if i >= to {
		return
	}
	switch r := d.Runes[i]; r {
	case '万', '亿':
		n.value *= passage.ChineseScale(r)
		n.To = i + 1
		if d.At(n.To) == '亿' {
			n.value *= 1e8
			n.To++
		}
	case '千', '百':
		if next := d.At(i + 1); next != '克' && next != '米' && next != '卡' && next != '分' && next != '瓦' {
			n.value *= passage.ChineseScale(r)
			n.To = i + 1
		}
	default:
		if word, end := d.word(i, to); word == "million" || word == "billion" || word == "thousand" || word == "hundred" {
			n.value *= passage.EnglishNumbers[word]
			n.To = end
		}
	}
}

// beginsQuantity reports whether a quantity or a part of the day can begin with the character r.
func beginsQuantity(r rune) bool {
	if passage.IsHan(r) {
		return quantityBits[(r-0x3400)>>6]&(1<<(r&63)) != 0
	}
	return passage.IsDigit(r) || passage.IsLatin(r) || r == '¥' || r == '$' || r == '€' || r == '£'
}

// quantityBits has a bit for each Chinese character with which a quantity can begin.
var quantityBits = func() (all [(0xA000 - 0x3400) >> 6]uint64) {
	for r := rune(0x3400); r < 0xA000; r++ {
		if passage.ChineseDigit(r) >= 0 || strings.ContainsRune("百千万半双十上凌早清中下晚傍夜当正", r) {
			all[(r-0x3400)>>6] |= 1 << (r & 63)
		}
	}
	return all
}()

// quantity reads a quantity, date or time that begins at i, and returns the position after it; i if there is none.
func (d *Document) quantity(i, to, clause int) int {
	if !beginsQuantity(d.Runes[i]) {
		return i
	}
	switch r := d.Runes[i]; {
	case r == '¥' || r == '$' || r == '€' || r == '£':
		return d.money(i, d.Blanks(i+1), to, clause, symbols[r])
	case d.Has(i, "百分之"):
		return d.partOf(i, i+3, to, clause, 1)
	case d.Has(i, "千分之"):
		return d.partOf(i, i+3, to, clause, 0.1)
	case d.Has(i, "万分之"):
		return d.partOf(i, i+3, to, clause, 0.01)
	case r == 'a' && (d.Has(i, "a quarter of what") || d.Has(i, "a quarter of the")) && !passage.IsLatin(d.At(i-1)):
		return d.addPercent(i, i+len("a quarter"), 25, clause)
	case r == 'h' && (d.Has(i, "half of what") || d.Has(i, "half of the")) && !passage.IsLatin(d.At(i-1)):
		return d.addPercent(i, i+len("half"), 50, clause)
	case r == '半' || r == 'h' && d.Has(i, "half ") && !passage.IsLatin(d.At(i-1)):
		return d.half(i, to, clause)
	case r == 'a' && d.Has(i, "a quarter ") && !passage.IsLatin(d.At(i-1)):
		return d.part(i, d.article(i+len("a quarter")), to, clause, 0.25)
	case r == '双' && d.Has(i, "双倍"), r == 't' && d.Has(i, "twice") && !passage.IsLatin(d.At(i-1)):
		end := i + 2
		if r == 't' {
			end = i + 5
		}
		if r == 't' && !d.isMultiple(end) {
			d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassCount, Key: "2|", Value: "2 次", Unit: "次", Raw: "2"})
			return end
		}
		d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassPercent, Key: "200%", Value: "200%", Unit: "%"})
		return end
	}
	if r := passage.Lower(d.Runes[i]); r == 'n' || r == 'm' || r == '正' {
		return d.noon(i)
	}
	if part, next := d.partOfDay(i, to); part != 0 {
		if n, isNumber := d.anyNumber(next, to); isNumber {
			if end := d.clock(i, n, to, part); end > i {
				return end
			}
		}
		return i
	}
	n, isNumber := d.anyNumber(i, to)
	if isNumber && n.isLight && n.value <= 6 && (d.At(i-1) == '周' || d.Has(i-2, "星期") || d.Has(i-2, "礼拜")) &&
		d.At(n.To) != '个' {
		return i
	}
	if !isNumber {
		end := d.oneOf(i, to)
		if end == i {
			return i
		}
		n = number{Span: passage.Span{From: i, To: end}, value: 1, isWord: true}
	}
	if d.Has(d.Blanks(n.To), "分之") && n.value > 0 {
		if part, isPart := d.anyNumber(d.Blanks(d.Blanks(n.To)+2), to); isPart {
			f := Claim{Span: passage.Span{From: i, To: part.To}, Class: ClassPercent, Unit: "%"}
			d.finish(&f, 100*part.value/n.value, clause)
			return part.To
		}
	}
	if n.isPart {
		return d.addPercent(i, n.To, 100*n.value, clause)
	}
	start := i
	if d.At(i-1) == '-' && !passage.IsDigit(d.At(i-2)) && !passage.IsLetter(d.At(i-2)) && d.At(i-2) != ')' &&
		d.At(i-2) != '%' && !n.isWord {
		start, n.value = i-1, -n.value
	}
	if !n.isHan && !n.isWord {
		if end := d.calendar(i, n, to); end > i {
			return end
		}
		if end := d.digitsCode(i, n, to); end > i {
			return end
		}
	} else if n.isHan {
		if end := d.calendar(i, n, to); end > i {
			return end
		}
	}
	if end := d.clock(i, n, to, 0); end > i {
		return end
	}
	return d.measured(start, n, to, clause)
}

// oneOf reads an article at i as the number 1 (for a week, a gram of, within an hour), unless it belongs to a rate, and
// returns the position after it; i if there is none. 下个工作日 (the next working day) is read as 下一个工作日.
func (d *Document) oneOf(i, to int) int {
	if d.Has(i, "下个") && (d.Has(i+2, "工作日") || d.Has(i+2, "自然日") || d.Has(i+2, "交易日")) {
		return i + 2
	}
	if passage.Lower(d.Runes[i]) != 'a' || passage.IsLatin(d.At(i-1)) {
		return i
	}
	end := i + 1
	if d.At(end) == 'n' {
		end++
	}
	if d.At(end) != ' ' {
		return i
	}
	u, after := d.unit(end, to)
	switch {
	case u.class == ClassDuration:
		for _, word := range []string{"for ", "have ", "has ", "within ", "in ", "after ", "every ", "until ", "than ",
			"least ", "under ", "over ", "about "} {
			if d.Has(i-len(word), word) {
				return end
			}
		}
		for _, word := range []string{"earlier", "later", "before", "after", "ahead", "without", "or less", "or more",
			"at most"} {
			if d.Has(d.Blanks(after), word) {
				return end
			}
		}
	case (u.class == classMass || u.class == classVolume) && after-end > 4 && d.Has(d.Blanks(after), "of "):
		return end
	}
	return i
}

// maxCode is the maximum number of characters in a code of digits. Without this limit, a text that consists of digits
// would be scanned to its end again for each number in it.
const maxCode = 100

// digitsCode reads a telephone number, address, version or code that begins with the digits n at i, such as
// 400-600-1873, 192.168.31.1, 3.8.2, 2.x or 21H2. It returns the position after it; i if there is none.
func (d *Document) digitsCode(i int, n number, to int) int {
	end, groups, dots := i, 1, 0
	longest, current := 0, 0
loop:
	for ; end < to; end++ {
		if end-i > maxCode {
			return i
		}
		r := d.Runes[end]
		switch {
		case passage.IsDigit(r):
			current++
			longest = max(longest, current)
		case r == '-' && passage.IsDigit(d.At(end+1)) && end > i:
			groups++
			current = 0
		case r == '.' && end > i && (passage.IsDigit(d.At(end+1)) || d.At(end+1) == 'x' && !passage.IsLatin(d.At(end+2))):
			dots++
		case r == 'x' && d.At(end-1) == '.':
		default:
			break loop
		}
	}
	isPhone := groups >= 3 || groups == 2 && dots == 0 && (longest >= 5 || d.At(end) != '年' && longest >= 4 && d.isCue(i))
	switch {
	case groups == 1 && dots == 0 && current >= 5 && n.To == end && d.isUnmeasured(end, to) && d.isCue(i):
		key := string(d.Runes[i:end])
		d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassCode, Key: key, Value: key})
		return end
	case isPhone && dots == 0:
		key := string(d.Runes[i:end])
		d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassCode, Key: key, Value: key})
		return end
	case groups == 1 && (dots >= 2 || dots == 1 && d.At(end-1) == 'x'):
		key := string(d.Runes[i:end])
		d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassVersion, Key: trimVersion(key), Value: key})
		return end
	}
	if passage.IsLatin(d.At(n.To)) && n.To == d.Blanks(n.To) {
		word := n.To
		hasDigit := false
		for word < to && (passage.IsLatin(d.Runes[word]) || passage.IsDigit(d.Runes[word])) {
			hasDigit = hasDigit || passage.IsDigit(d.Runes[word])
			word++
		}
		if hasDigit {
			key := string(d.Runes[i:word])
			d.add(Claim{Span: passage.Span{From: i, To: word}, Class: ClassCode, Key: strings.ToLower(key), Value: key})
			return word
		}
	}
	return i
}

// isUnmeasured reports whether there is no unit at i.
func (d *Document) isUnmeasured(i, to int) bool {
	_, end := d.unit(i, to)
	return end == i
}

// isCue reports whether the text before i announces a telephone number.
func (d *Document) isCue(i int) bool {
	for from := max(0, i-8); from < i; from++ {
		for _, cue := range []string{"电话", "热线", "拨打", "致电", "专线", "客服", "call", "phone", "hotline", "dial"} {
			if d.Has(from, cue) {
				return true
			}
		}
	}
	for i > 0 && d.At(i-1) == ' ' {
		i--
	}
	return d.At(i-1) == '打' || d.At(i-1) == '拨'
}

func (d *Document) money(i, from, to, clause int, currency string) int {
	n, isNumber := d.anyNumber(from, to)
	if !isNumber || n.isWord {
		return i
	}
	end := n.To
	if word, after := d.word(d.Blanks(end), to); units[word].class == ClassMoney {
		end = after
	} else if d.At(end) == '元' {
		end++
	}
	f := Claim{Span: passage.Span{From: i, To: end}, Class: ClassMoney, Unit: currency, Raw: decimal(n.value)}
	d.finish(&f, n.value, clause)
	return end
}

func (d *Document) addPercent(from, to int, value float64, clause int) int {
	f := Claim{Span: passage.Span{From: from, To: to}, Class: ClassPercent, Unit: "%"}
	d.finish(&f, value, clause)
	return to
}

// partOf reads the number after 百分之 (per cent), 千分之 (per thousand) or 万分之 (per ten thousand), and multiplies it by
// factor to get a percentage. It returns the position after the number; i if there is none.
func (d *Document) partOf(i, from, to, clause int, factor float64) int {
	n, isNumber := d.anyNumber(from, to)
	if !isNumber {
		return i
	}
	f := Claim{Span: passage.Span{From: i, To: n.To}, Class: ClassPercent, Unit: "%"}
	d.finish(&f, n.value*factor, clause)
	return n.To
}

// half reads half a unit, such as 半小时 (half an hour) or half a cup, at i, and returns the position after it; i if there
// is none.
func (d *Document) half(i, to, clause int) int {
	from := i + 1
	if d.Runes[i] == 'h' {
		from = d.article(i + len("half"))
	}
	return d.part(i, from, to, clause, 0.5)
}

// article skips of, a and an at i, and returns the position after them.
func (d *Document) article(i int) int {
	i = d.Blanks(i)
	for _, word := range []string{"of ", "a ", "an "} {
		if d.Has(i, word) {
			i = d.Blanks(i + len(word))
		}
	}
	return i
}

// part reads the unit at from after a half or a quarter (size) at i, and returns the position after it; i if the two
// are not a quantity.
func (d *Document) part(i, from, to, clause int, size float64) int {
	if d.At(from) == '个' {
		from++
	}
	u, end := d.unit(from, to)
	if size == 0.5 && (d.At(i+1) == '价' || d.Has(i-1, "一半") && d.At(i+1) != '时') {
		end := i + 1
		f := Claim{Span: passage.Span{From: i, To: end}, Class: ClassPercent, Unit: "%", Key: "50%", Value: "50%"}
		d.add(f)
		return end
	}
	if u.base == "" || u.isIgnored || u.class == ClassCount && u.base != "tablet" && u.base != "片" && u.base != "粒" ||
		u.class == ClassPercent || u.class == classTemperature {
		return i
	}
	f := Claim{Span: passage.Span{From: i, To: end}, Class: u.class, Unit: u.base}
	d.finish(&f, u.factor*size, clause)
	return end
}

// articles are the measure words before which 一 is an article and not a number.
var articles = set("个 台 家 位 名 户 所 座 部 篇 道")

// measured reads the unit of the number n, which begins at start, and the rest of a range whose numbers share a unit
// (5–10 mg/kg). It returns the position after the quantity; start if there is none.
func (d *Document) measured(start int, n number, to, clause int) int {
	if d.Has(n.To, "个半") { // 四个半小时: four and a half hours
		if u, _ := d.unit(n.To+2, to); u.class == ClassDuration {
			n.value, n.To, n.isLight = n.value+0.5, n.To+2, false
		}
	}
	u, end := d.unit(n.To, to)
	if u.class == ClassCount && u.base == "" && !d.isInRange { // 1-2-3 is not a range of ranges
		if second, from, isRange := d.rangeTo(n.To, to); isRange && second.value >= n.value {
			return d.ranged(start, n, second, from, to, clause)
		}
	}
	if u.base == "" && u.class == ClassCount && !u.isIgnored && !n.isHan {
		u = d.unitBehindProduct(n.To, to, u)
	}
	if u.base == "" && u.class == ClassCount && !u.isIgnored && !n.isLight {
		if about := d.unitOfCell(); about.base != "" {
			u = about
		}
	}
	if n.isHan && n.value == 1 && !d.isInRange && articles[u.name] { // 一个 is an article
		return end
	}
	if u.name == "次" && passage.IsLatin(d.At(end-1)) && d.isMultiple(end) {
		u = units["倍"]
	}
	isKnown := u.base != "" || u.class != ClassCount
	if n.isLight && !isKnown || n.isWord && n.value == 1 && !isKnown || u.isIgnored && (n.isHan || n.value < 13) {
		return start
	}
	if u.isIgnored {
		u, end = unit{factor: 1}, n.To
	}
	if u.class == ClassDuration && n.value == 1 && n.isHan && d.isRate(start, end, to) {
		return end
	}
	f := Claim{Span: passage.Span{From: start, To: end}, Class: u.class, Unit: u.base, Raw: decimal(n.value)}
	// 一次能借五册 (five books at a time) does not state the number 1.
	f.IsLoose = n.isAbout || u.name == "次" && n.isHan && n.value == 1 && passage.IsHan(d.At(end))
	if u.class != ClassMoney && u.class != ClassPercent {
		f.per, f.To = d.denominator(end, to, start, clause)
	}
	f.isShort = u.base == "MB" && (d.At(end-1) == 'M' || d.At(end-1) == 'G')
	value := n.value * u.factor
	if u.base == "MB" && math.Mod(n.value, 1024) == 0 { // 1024 GB is 1 TB
		value = n.value / 1024 * 1000 * u.factor
	}
	if u.name == "m" && u.factor == 1 {
		var rest float64
		rest, f.To = d.restOfMetres(n, f.To, to)
		value += rest
	}
	if u.class == classMass && d.At(f.To) == '半' { // 一斤半: one and a half jin
		value += u.factor / 2
		f.To++
	}
	if u.base == "折" {
		f.Unit = "折"
		for value < 10 && value > 0 {
			value *= 10
		}
	}
	if u.class == ClassMoney && d.At(f.To) == '/' {
		_, after := d.unit(f.To+1, to)
		f.To = max(f.To, after)
	}
	if u.class == ClassDuration {
		var rest float64
		rest, f.To = d.restOfDuration(u, f.To, to)
		value += rest
	}
	if u.class == ClassMoney {
		var rest float64
		rest, f.To = d.restOfMoney(u, f.To, to)
		value += rest
	}
	if d.At(f.To) == '+' {
		f.Bound = AtLeast
		f.To++
	}
	d.finish(&f, value, clause)
	return f.To
}

// isMultiple reports whether the text at i, after "times" or "twice", compares: three times the price, twice as much.
func (d *Document) isMultiple(i int) bool {
	i = d.Blanks(i)
	for _, word := range []string{"the ", "as ", "more", "higher", "your ", "their ", "its ", "that ", "larger",
		"faster"} {
		if d.Has(i, word) {
			return true
		}
	}
	return false
}

// restOfMetres reads the tenths of a metre after metres, such as the 八 of 一米八 (1.8 m) or the last 2 of 2 米 2, at i.
// It returns them in metres and the position after them; 0 and i if there are none.
func (d *Document) restOfMetres(n number, i, to int) (float64, int) {
	at := i
	digit := passage.ChineseDigit(d.At(at))
	if !n.isHan {
		at = d.Blanks(i)
		digit = int(d.At(at) - '0')
		if !passage.IsDigit(d.At(at)) || d.At(i-1) != '米' || n.value != math.Trunc(n.value) || passage.IsDigit(d.At(at+1)) ||
			d.At(at+1) == '.' {
			return 0, i
		}
	}
	if digit <= 0 || at >= to || !d.isUnmeasured(at+1, to) {
		return 0, i
	}
	return float64(digit) / 10, at + 1
}

// unitBehindProduct returns the unit after a product of lengths whose first number ends at i (55 × 40 × 23 cm), or the
// given unit none if there is no such product.
func (d *Document) unitBehindProduct(i, to int, none unit) unit {
	for range 2 {
		i = d.Blanks(i)
		if r := d.At(i); r != '×' && r != 'x' && r != '*' {
			return none
		}
		next, isNumber := d.digits(d.Blanks(i+1), to)
		if !isNumber {
			return none
		}
		if u, _ := d.unit(next.To, to); u.class == classLength {
			return u
		}
		i = next.To
	}
	return none
}

// isRate reports whether one day, one month … between start and i is the time unit of a rate: 一天只吃 1 次 (only once a
// day) means 每天 1 次, and 每逾期一日 (for each day overdue) means 每日.
func (d *Document) isRate(start, i, to int) bool {
	for at := start - 1; at >= start-4 && (passage.IsHan(d.At(at)) || d.At(at) == ' '); at-- {
		if d.Runes[at] == '每' {
			return true
		}
	}
	if strings.ContainsRune("半内之以后", d.At(i)) {
		return false
	}
	for at := i; at < min(to, i+5); at++ {
		if r := d.At(at); r == '¥' || r == '$' || d.Has(at, "分之") {
			return true
		}
		if n, isNumber := d.anyNumber(at, to); isNumber {
			u, end := d.unit(n.To, to)
			return end > n.To && u.base != "" && u.class != ClassDuration
		}
		if r := d.At(at); r != ' ' && !passage.IsHan(r) {
			return false
		}
	}
	return false
}

// restOfDuration reads the rest of a duration after the unit u, such as the 20 分钟 of 1 小时 20 分钟 (1 h 20 min), at i. It
// returns the rest in u's base unit and the position after it; 0 and i if there is none.
func (d *Document) restOfDuration(u unit, i, to int) (float64, int) {
	if u.factor < 60 && u.base == "s" {
		return 0, i
	}
	from := d.Blanks(i)
	if d.Has(from, "and ") && u.factor != 7*86400 { // "two weeks, one week and one day before" is a list
		from += 4
	}
	// 两年半: two and a half years
	if d.At(from) == '半' && u.factor != 1 && !strings.ContainsRune("个小天月年数价", d.At(from+1)) {
		if d.At(from+1) == '钟' {
			from++
		}
		return u.factor / 2, from + 1
	}
	n, isNumber := d.anyNumber(from, to)
	if !isNumber {
		return 0, i
	}
	smaller, end := d.unit(n.To, to)
	if u.factor == 3600 && smaller.base == "分" { // 6 小时 15 分: 6 h 15 min
		smaller = units["分钟"]
	}
	if smaller.class != ClassDuration || smaller.base != u.base || smaller.factor >= u.factor {
		return 0, i
	}
	return n.value * smaller.factor, end
}

// LongestContext is the maximum length, in characters, of the context that is read for a claim.
const LongestContext = 200

// unitOfCell returns the unit in brackets in the header of the sentence's column or row, or in its key: 电价（元/千瓦时）
// (price in yuan per kWh). It returns the zero value if there is none.
func (d *Document) unitOfCell() unit {
	x := d.Sentences[d.reading]
	for _, head := range [2]passage.Span{x.Column, x.Row} {
		to := min(head.To, head.From+LongestContext)
		for i := head.From; i < to; i++ {
			if d.Runes[i] != '(' {
				continue
			}
			at := i + 1
			if d.Has(at, "单位:") {
				at += 3
			}
			u, end := d.unit(at, to)
			if end > at && (d.At(end) == ')' || d.At(end) == '/') && !u.isIgnored {
				return u
			}
		}
	}
	return unit{}
}

// restOfMoney reads the rest of an amount in yuan after the unit u, such as the 6 分 of 5 角 6 分 (0.56 yuan), at i. It
// returns the rest in yuan and the position after it; 0 and i if there is none.
func (d *Document) restOfMoney(u unit, i, to int) (float64, int) {
	if u.base != "CNY" {
		return 0, i
	}
	rest := 0.0
	for _, smaller := range []struct {
		names  string
		factor float64
	}{{"角毛", 0.1}, {"分", 0.01}} {
		n, isNumber := d.anyNumber(d.Blanks(i), to)
		next := d.Blanks(n.To)
		if !isNumber || smaller.factor >= u.factor || d.At(next+1) == '钟' {
			continue
		}
		if !strings.ContainsRune(smaller.names, d.At(next)) {
			// 一毛五: 0.15 yuan
			isShort := n.isLight && i == n.From && !passage.IsDigit(d.At(n.To)) && d.isUnmeasured(n.To, to)
			if isShort && u.factor == 10*smaller.factor && (u.name == "角" || strings.ContainsRune("块毛", d.At(i-1))) {
				return rest + n.value*smaller.factor, n.To
			}
			continue
		}
		if smaller.names == "分" && rest == 0 && u.factor == 1 && next > i+1 && d.At(i) == ' ' { // 1 元 1 分: 1 yuan, 1 point
			continue
		}
		rest += n.value * smaller.factor
		i = next + 1
	}
	return rest, i
}

// ranged reads a range such as 5–10片 (5 to 10 tablets) as two claims that share a unit. The second number begins at
// from. It returns the position after the range.
func (d *Document) ranged(start int, first, second number, from, to, clause int) int {
	before := len(d.Claims)
	d.isInRange = true
	end := d.measured(from, second, to, clause)
	d.isInRange = false
	if end == from || len(d.Claims) == before {
		f := Claim{Span: passage.Span{From: start, To: first.To}, Class: ClassCount}
		d.finish(&f, first.value, clause)
		return first.To
	}
	f := d.Claims[len(d.Claims)-1]
	u, _ := d.unit(second.To, to)
	if f.per == "" && (f.Class == classMass || f.Class == classVolume) {
		f.per, _ = d.denominator(end, to, start, clause)
		d.Claims[len(d.Claims)-1].setPer(f.per)
	}
	f.Span, f.Raw = passage.Span{From: start, To: first.To}, decimal(first.value)
	f.Bound = Exact
	factor := u.factor
	if factor == 0 {
		factor = 1
	}
	d.finish(&f, first.value*factor, clause)
	last := len(d.Claims) - 1
	f = d.Claims[last]
	f.IsLoose = first.isAbout
	d.Claims[before].IsLoose = first.isAbout
	d.Claims = slices.Insert(d.Claims[:last], before, f)
	return end
}

// rangeTo reads the second number of a range after a dash, 至, 到 or to at i, or of 两三 (two or three). It returns the
// number, the position where it begins, and whether there is one.
func (d *Document) rangeTo(i, to int) (number, int, bool) {
	from := d.Blanks(i)
	switch r := d.At(from); {
	case from == i && passage.ChineseDigit(r) == passage.ChineseDigit(d.At(i-1))+1 && passage.ChineseDigit(r) > 1:
	case r == '-' || r == '–' || r == '~' || r == '至' || r == '到':
		from++
	case r == 't' && d.Has(from, "to "):
		from += 3
	default:
		return number{}, 0, false
	}
	from = d.Blanks(from)
	n, isNumber := d.anyNumber(from, to)
	if isNumber && n.isLight { // 三到五天: three to five days
		u, _ := d.unit(n.To, to)
		isNumber = u.base != ""
	}
	return n, from, isNumber
}

// denominator reads the unit that a quantity is relative to: /kg after the unit that ends at end, or 每公斤 (per kilogram)
// before the number. It returns the unit's name, "" if there is none or it is a time, and the position after it.
func (d *Document) denominator(end, to, start, clause int) (string, int) {
	if d.At(end) == '/' || d.Has(end, "每") {
		if u, after := d.unit(end+1, to); u.class == classMass || u.class == classVolume || u.class == ClassDuration {
			if u.class == ClassDuration {
				return "", after
			}
			return u.name, after
		}
	}
	if d.Has(end, " per kg") {
		return "kg", end + 7
	}
	if d.Has(end, " per ml") {
		return "ml", end + 7
	}
	for i := start - 1; i >= clause && i >= start-10; i-- {
		if d.Runes[i] == '每' {
			if u, _ := d.unit(i+1, to); u.name == "kg" || u.name == "ml" {
				return u.name, end
			}
		}
		if passage.IsDigit(d.Runes[i]) {
			break
		}
	}
	return "", end
}

// setPer sets the denominator of a quantity; it does nothing if per is empty.
func (f *Claim) setPer(per string) {
	if per == "" {
		return
	}
	f.per = per
	f.Key += per
	f.Value += "/" + per
}

// finish computes the key, value and limit of the quantity f, and adds it to the claims of the document.
func (d *Document) finish(f *Claim, value float64, clause int) {
	text := decimal(value)
	switch f.Class {
	case ClassDuration:
		f.Key = text + f.Unit
		f.Value = durationValue(value, f.Unit)
	case ClassMoney:
		f.Key = text + f.Unit
		f.Value = text + " " + f.Unit
	case ClassPercent:
		f.Key = text + f.Unit
		f.Value = text + f.Unit
	default:
		f.Key, f.Value = text+"|"+f.per, text
		if f.Unit != "" {
			f.Value += " " + f.Unit
		}
		if f.per != "" {
			f.Value += "/" + f.per
		}
	}
	if f.Bound == Exact {
		f.Bound = d.boundOf(f, clause)
	}
	d.add(*f)
}

// durationValue formats a duration in the largest unit that divides it.
func durationValue(value float64, base string) string {
	if base != "s" {
		return decimal(value) + " " + base
	}
	for _, u := range []struct {
		size float64
		name string
	}{{86400, " day"}, {3600, " h"}, {60, " min"}, {1, " s"}} {
		if value >= u.size && math.Mod(value, u.size) == 0 {
			return decimal(value/u.size) + u.name
		}
	}
	return decimal(value*1000) + " ms"
}
