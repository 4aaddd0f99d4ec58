package claim

import (
	"fmt"
	"strings"

	"wending/db/measure/passage"
)

// date is a day of the calendar; parts that the text does not state are 0.
type date struct {
	year, month, day int
	isEither         bool // day and month may be swapped: 03/11/2024
}

func (x date) String() string {
	switch {
	case x.year > 0 && x.month > 0 && x.day > 0:
		return fmt.Sprintf("%04d-%02d-%02d", x.year, x.month, x.day)
	case x.year > 0 && x.month > 0:
		return fmt.Sprintf("%04d-%02d", x.year, x.month)
	case x.year > 0:
		return fmt.Sprintf("%04d", x.year)
	case x.day > 0:
		return fmt.Sprintf("%02d-%02d", x.month, x.day)
	}
	return fmt.Sprintf("%02d-", x.month)
}

// agrees reports whether two dates may be the same day.
func (x date) agrees(y date) bool {
	if x.isEither && x.day == y.month && x.month == y.day {
		return x.year == y.year
	}
	if y.isEither && x.day == y.month && x.month == y.day {
		return x.year == y.year
	}
	agree := func(a, b int) bool { return a == 0 || b == 0 || a == b }
	return agree(x.year, y.year) && agree(x.month, y.month) && agree(x.day, y.day) &&
		(x.year > 0 && y.year > 0 || x.month > 0 && y.month > 0 || x.day > 0 && y.day > 0)
}

func (d *Document) addDate(from, to int, x date) int {
	d.add(Claim{Span: passage.Span{From: from, To: to}, Class: ClassDate, Key: x.String(), Value: x.String(), date: x})
	return to
}

// calendar reads a date that begins with the number n at i, and returns the position after it; i if there is none.
func (d *Document) calendar(i int, n number, to int) int {
	value := int(n.value)
	if n.value != float64(value) || value < 0 || value > 9999 {
		return i
	}
	next := d.Blanks(n.To)
	switch r := d.At(next); {
	case value >= 1 && value <= 31 && d.isBehindMonth(i) && d.isDayAtEnd(n.To, to):
		return d.addDate(i, n.To, date{day: value})
	case r == '年' && (value >= 1000 || n.isHan && n.To-i == 4):
		return d.yearFirst(i, value, next+1, to)
	case r == '月' && value >= 1 && value <= 12 && d.At(next+1) != '龄':
		day, after, ok := d.dayOfMonth(next+1, to)
		if ok {
			return d.addDate(i, after, date{month: value, day: day})
		}
		if !n.isHan || strings.ContainsRune("份底初末中上下", d.At(next+1)) || d.At(i-1) == '年' {
			return d.addDate(i, next+1, date{month: value})
		}
	case (r == '日' || r == '号') && value >= 1 && value <= 31 && d.isDayOfMonth(i, value, r):
		x := date{day: value}
		if k := len(d.Claims) - 1; k >= 0 && d.Claims[k].Class == ClassDate && i-d.Claims[k].To <= 3 {
			x.month, x.year = d.Claims[k].date.month, d.Claims[k].date.year
		}
		return d.addDate(i, next+1, x)
	case n.isHan:
		return i
	case (r == '-' || r == '/' || r == '.') && next == n.To && value >= 1900 && value <= 2200:
		month, after := d.smallNumber(next + 1)
		if month >= 1 && month <= 12 && d.At(after) == r {
			if day, end := d.smallNumber(after + 1); day >= 1 && day <= 31 && !passage.IsDigit(d.At(end)) {
				return d.addDate(i, end, date{year: value, month: month, day: day})
			}
		}
	case r == '/' && next == n.To && value >= 1 && value <= 31:
		second, after := d.smallNumber(next + 1)
		if second < 1 || second > 31 {
			break
		}
		if d.At(after) != '/' {
			if d.isInSlashedRange(i, value, second, after) {
				return d.addDate(i, after, date{month: value, day: second})
			}
			break
		}
		year, end := d.year(after + 1)
		if year == 0 {
			break
		}
		x := date{year: year, day: value, month: second, isEither: value <= 12 && second <= 12}
		if second > 12 {
			x.day, x.month = second, value
		}
		return d.addDate(i, end, x)
	case passage.IsLatin(r) && value >= 1 && value <= 31:
		word, end := d.word(next, to)
		if word == "st" || word == "nd" || word == "rd" || word == "th" {
			next = d.Blanks(end)
			if d.Has(next, "of ") {
				next += 3
			}
			word, end = d.word(next, to)
		}
		if month := passage.EnglishMonths[word]; month > 0 {
			x := date{month: month, day: value}
			if d.At(end) == '.' {
				end++
			}
			if year, after := d.year(d.Blanks(d.comma(end))); year > 0 {
				x.year, end = year, after
			}
			return d.addDate(i, end, x)
		}
	}
	return i
}

// isInSlashedRange reports whether the month/day between i and end is one end of a range such as 10/1–4/30 or
// 10/1—次年4/1 (to 1 April of the next year). Without a day after the 12th or a word for the next year, as in 1/2–3/4,
// these may be fractions.
func (d *Document) isInSlashedRange(i, month, day, end int) bool {
	if month > 12 || passage.IsDigit(d.At(end)) || d.At(i-1) == '/' {
		return false
	}
	for k := len(d.Claims) - 1; k >= max(0, len(d.Claims)-2); k-- { // 次年 (the next year) may be a claim in between
		if x := &d.Claims[k]; x.Class == ClassDate && x.date.day > 0 {
			if from, _ := d.acrossDash(x.To); from == i {
				return true
			}
		}
	}
	next, isNextYear := d.acrossDash(end)
	last, after := d.smallNumber(next)
	if next == end || last < 1 || last > 12 || d.At(after) != '/' {
		return false
	}
	lastDay, after := d.smallNumber(after + 1)
	return lastDay >= 1 && lastDay <= 31 && d.At(after) != '/' && !passage.IsDigit(d.At(after)) &&
		(isNextYear || day > 12 || lastDay > 12)
}

// acrossDash returns the position after the dash at i and after a word for the next year that follows it, and whether
// there is such a word; i if there is no dash.
func (d *Document) acrossDash(i int) (end int, isNextYear bool) {
	end = d.Blanks(i)
	from := end
	for end < from+2 && strings.ContainsRune("-–—~～至到", d.At(end)) {
		end++
	}
	if end == from {
		return i, false
	}
	end = d.Blanks(end)
	if d.Has(end, "次年") || d.Has(end, "翌年") {
		return d.Blanks(end + 2), true
	}
	return end, false
}

func (d *Document) comma(i int) int {
	if d.At(i) == ',' {
		return i + 1
	}
	return i
}

// behind returns the position of the last character before i that is not a blank.
func (d *Document) behind(i int) int {
	before := i - 1
	for before > 0 && d.Runes[before] == ' ' {
		before--
	}
	return before
}

// isBehindMonth reports whether 每月 (every month), 次月 (the next month) or a similar word comes before i.
func (d *Document) isBehindMonth(i int) bool {
	before := d.behind(i)
	return d.At(before) == '月' && strings.ContainsRune("每当次本该上下", d.At(before-1))
}

// isDayAtEnd reports whether the number before i begins a range of days that has its unit only at the end: 每月 1–10 日
// (from the 1st to the 10th of every month).
func (d *Document) isDayAtEnd(i, to int) bool {
	last, _, isRange := d.rangeTo(i, to)
	return isRange && last.value <= 31 && strings.ContainsRune("日号", d.At(d.Blanks(last.To)))
}

// isDayOfMonth reports whether a number before 日 or 号 is a day of the month and not a duration in days.
func (d *Document) isDayOfMonth(i, value int, unit rune) bool {
	if d.isBehindMonth(i) {
		return true
	}
	before := d.behind(i)
	// 每月 25 日之前…, 25 日之后…: before the 25th of every month …, after the 25th …
	for k := len(d.Claims) - 1; k >= max(0, len(d.Claims)-4); k-- {
		if x := &d.Claims[k]; x.Class == ClassDate && x.date == (date{day: value}) {
			return true
		}
	}
	if k := len(d.Claims) - 1; k >= 0 && d.Claims[k].Class == ClassDate && d.Claims[k].date.day > 0 &&
		i-d.Claims[k].To <= 3 {
		return strings.ContainsRune("至到-–~、和及", d.At(before))
	}
	return unit == '号' && d.At(before) != '第'
}

func (d *Document) smallNumber(i int) (int, int) {
	value, end := 0, i
	for end < i+2 && passage.IsDigit(d.At(end)) {
		value = value*10 + int(d.At(end)-'0')
		end++
	}
	return value, end
}

func (d *Document) year(i int) (int, int) {
	value, end := 0, i
	for end < i+4 && passage.IsDigit(d.At(end)) {
		value = value*10 + int(d.At(end)-'0')
		end++
	}
	if value < 1900 || value > 2200 || passage.IsDigit(d.At(end)) {
		return 0, i
	}
	return value, end
}

// dayOfMonth reads the 3日 of 11月3日 (3 November). It returns the day, the position after it, and whether there is one.
func (d *Document) dayOfMonth(i, to int) (int, int, bool) {
	n, isNumber := d.anyNumber(d.Blanks(i), to)
	if !isNumber || n.value < 1 || n.value > 31 {
		return 0, i, false
	}
	next := d.Blanks(n.To)
	if d.At(next) != '日' && d.At(next) != '号' {
		return 0, i, false
	}
	return int(n.value), next + 1, true
}

// yearFirst reads a date that begins at i with a year such as 2024年; its rest begins at next. It returns the position
// after the date.
func (d *Document) yearFirst(i, year, next, to int) int {
	x := date{year: year}
	end := next
	if year < 1000 {
		x.year = 0
		for _, r := range d.Runes[i : i+4] {
			x.year = x.year*10 + max(passage.ChineseDigit(r), 0)
		}
	}
	if n, isNumber := d.anyNumber(d.Blanks(next), to); isNumber && n.value >= 1 && n.value <= 12 &&
		d.At(d.Blanks(n.To)) == '月' {
		x.month = int(n.value)
		end = d.Blanks(n.To) + 1
		if day, after, ok := d.dayOfMonth(end, to); ok {
			x.day, end = day, after
		}
	}
	return d.addDate(i, end, x)
}

// monthFirst reads the rest of a date such as June 30, 2026, after the name of the month, which begins at i and ends at
// next. It returns the position after the date; i if there is none.
func (d *Document) monthFirst(i, next, to, month int) int {
	if d.At(next) == '.' {
		next++
	}
	from := d.Blanks(next)
	day, end := d.smallNumber(from)
	if day < 1 || day > 31 || passage.IsDigit(d.At(end)) || from == next {
		if year, after := d.year(from); year > 0 && from > next {
			return d.addDate(i, after, date{year: year, month: month})
		}
		return i
	}
	if word, after := d.word(end, to); word == "st" || word == "nd" || word == "rd" || word == "th" {
		end = after
	}
	x := date{month: month, day: day}
	if year, after := d.year(d.Blanks(d.comma(end))); year > 0 {
		x.year, end = year, after
	}
	return d.addDate(i, end, x)
}

// noon reads a word for noon or midnight at i, and returns the position after it; i if there is none.
func (d *Document) noon(i int) int {
	for _, l := range []struct{ word, value string }{{"noon", "12:00"}, {"midday", "12:00"}, {"midnight", "00:00"},
		{"正午", "12:00"}, {"零点", "00:00"}} {
		if end := i + len([]rune(l.word)); d.Has(i, l.word) && !passage.IsLatin(d.At(i-1)) && !passage.IsLatin(d.At(end)) {
			d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassTime, Key: l.value, Value: l.value})
			return end
		}
	}
	return i
}

// partOfDay reads 上午 (in the morning) or a similar word before a number. It returns 'a' for before noon, 'n' for noon,
// 'p' for after noon or 0 for no such word, and the position where the number should begin.
func (d *Document) partOfDay(i, to int) (byte, int) {
	var part byte
	switch d.Runes[i] {
	case '上', '凌', '早', '清':
		if d.Has(i, "上午") || d.Has(i, "凌晨") || d.Has(i, "早上") || d.Has(i, "早晨") || d.Has(i, "清晨") {
			part = 'a'
		}
	case '中':
		if d.Has(i, "中午") {
			part = 'n'
		}
	case '下', '晚', '傍', '夜', '当':
		if d.Has(i, "下午") || d.Has(i, "晚上") || d.Has(i, "傍晚") || d.Has(i, "夜里") || d.Has(i, "夜间") || d.Has(i, "晚间") {
			part = 'p'
		}
	}
	if next := d.Blanks(i + 1); part == 0 && next < to && passage.IsDigit(d.Runes[next]) && !passage.IsHan(d.At(i-1)) ||
		part == 0 && d.Has(i-1, "到晚") {
		switch d.Runes[i] { // 早 9 点到晚 9 点: from 9 a.m. to 9 p.m.
		case '早':
			return 'a', next
		case '晚':
			return 'p', next
		}
	}
	if part == 0 || i+2 >= to {
		return 0, i
	}
	return part, d.Blanks(i + 2)
}

// clock reads a time of day whose hour is n, after the part of the day that partOfDay returned. It returns the position
// after the time; i if there is none.
func (d *Document) clock(i int, n number, to int, part byte) int {
	hour := int(n.value)
	if n.value != float64(hour) || hour < 0 || hour > 24 || n.To-i > 8 {
		return i
	}
	minute, end, isTime := 0, n.To, false
	next := d.Blanks(n.To)
	switch r := d.At(next); {
	case r == ':' && next == n.To && passage.IsDigit(d.At(next+1)) && passage.IsDigit(d.At(next+2)) &&
		!passage.IsDigit(d.At(next+3)):
		minute, end = d.smallNumber(next + 1)
		isTime = minute < 60
		if isTime && d.At(end) == ':' && passage.IsDigit(d.At(end+1)) && passage.IsDigit(d.At(end+2)) {
			end += 3
		}
	case r == '点' || r == '时' && d.At(next+1) != '间' && d.At(next+1) != '候':
		minute, end, isTime = d.minutes(next+1, to)
		before := len(d.Claims) - 1
		follows := before >= 0 && d.Claims[before].Class == ClassTime && i-d.Claims[before].To <= 4
		isTime = isTime || part != 0 || follows && r == '点' || r == '点' && n.isHan && d.isHourBefore(next+1) ||
			d.followsDate(i) || !n.isHan && !n.isWord && r == '点'
	}
	if suffix, after := d.meridiem(d.Blanks(end)); suffix != 0 && !n.isHan {
		part, end, isTime = suffix, after, true
	}
	if !isTime {
		return i
	}
	isEither := part == 0 && hour >= 1 && hour <= 12 && d.At(next) == '点'
	if part == 0 {
		if k := len(d.Claims) - 1; k >= 0 && d.Claims[k].Class == ClassTime && d.Claims[k].per == "p" &&
			i-d.Claims[k].To <= 2 && hour < 12 {
			part = 'p'
		}
	}
	switch {
	case part == 'p' && hour < 12, part == 'n' && hour < 6:
		hour += 12
	case part == 'p' && hour == 12 && passage.IsHan(d.At(i-1)) && !d.Has(i-2, "下午"):
		hour = 24
	case part == 'a' && hour == 12:
		hour = 0
	}
	value := fmt.Sprintf("%02d:%02d", hour, minute)
	f := Claim{Span: passage.Span{From: i, To: end}, Class: ClassTime, Key: strings.Replace(value, "24:", "00:", 1),
		Value: value}
	if part == 'p' {
		f.per = "p"
	}
	f.isEitherHalf = isEither && part == 0
	f.Bound = d.boundOf(&f, i)
	d.add(f)
	return end
}

// isHourBefore reports whether the text at i, after 八点, shows that this means 8 o'clock rather than eight points.
func (d *Document) isHourBefore(i int) bool {
	for _, word := range []string{"以后", "之后", "以前", "之前", "前", "后", "到", "至", "开", "关"} {
		if d.Has(i, word) {
			return true
		}
	}
	return false
}

// followsDate reports whether the claim before i is a day, as in 5月6日9时 (6 May, 9:00).
func (d *Document) followsDate(i int) bool {
	k := len(d.Claims) - 1
	return k >= 0 && d.Claims[k].Class == ClassDate && d.Claims[k].date.day > 0 && i-d.Claims[k].To <= 1
}

// minutes reads the rest of a time at i after its hour, such as 九点: 半 (half past), 三十分 (30 minutes), 整 (sharp). isTime
// reports that there is such a rest, and end is the position after it.
func (d *Document) minutes(i, to int) (minute, end int, isTime bool) {
	switch {
	case d.At(i) == '半':
		return 30, i + 1, true
	case d.At(i) == '整' || d.At(i) == '钟':
		return 0, i + 1, true
	case d.Has(i, "一刻"):
		return 15, i + 2, true
	}
	if n, isNumber := d.anyNumber(d.Blanks(i), to); isNumber && n.value < 60 && d.At(d.Blanks(n.To)) == '分' {
		return int(n.value), d.Blanks(n.To) + 1, true
	}
	return 0, i, false
}

// meridiem reads a.m., pm or the like at i. It returns 'a' or 'p' and the position after it; 0 and i if there is none.
func (d *Document) meridiem(i int) (byte, int) {
	r := passage.Lower(d.At(i))
	if r != 'a' && r != 'p' {
		return 0, i
	}
	end := i + 1
	if d.At(end) == '.' {
		end++
	}
	if passage.Lower(d.At(end)) != 'm' || passage.IsLatin(d.At(end+1)) {
		return 0, i
	}
	end++
	if d.At(end) == '.' {
		end++
	}
	return byte(r), end
}

// weekday reads a day of the week, such as 周三 (Wednesday) or 星期天 (Sunday), at i. It returns the position after it; i if
// there is none.
func (d *Document) weekday(i int) int {
	end := i + 1
	if d.Runes[i] != '周' {
		if !d.Has(i, "星期") && !d.Has(i, "礼拜") {
			return i
		}
		end++
	}
	day := passage.ChineseDigit(d.At(end))
	if r := d.At(end); r == '日' || r == '天' {
		day = 7
	}
	if day < 1 || day > 7 || day == 7 && passage.ChineseDigit(d.At(end)) > 0 || d.At(end+1) == '次' || d.At(end+1) == '个' {
		return i
	}
	return d.addWeekday(i, end+1, day)
}

func (d *Document) addWeekday(from, to, day int) int {
	value := passage.Weekdays[day]
	d.add(Claim{Span: passage.Span{From: from, To: to}, Class: ClassWeekday, Key: value, Value: value})
	return to
}
