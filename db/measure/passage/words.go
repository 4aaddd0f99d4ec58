package passage

import (
	"slices"
	"strings"
)

// ChineseScale returns the factor by which a Chinese character multiplies a number: 十, 百, 千, 万, 亿; 0 for any other.
func ChineseScale(r rune) float64 {
	switch r {
	case '十', '拾':
		return 10
	case '百', '佰':
		return 100
	case '千', '仟':
		return 1000
	case '万', '萬':
		return 1e4
	case '亿':
		return 1e8
	}
	return 0
}

// EnglishNumbers maps numbers written as words, in lower case, to their values.
var EnglishNumbers = map[string]float64{
	"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
	"eleven": 11,
	"twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18,
	"nineteen": 19,
	"twenty":   20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
	"hundred": 100, "thousand": 1000, "million": 1e6, "billion": 1e9, "zero": 0,
}

// EnglishMonths maps the names of months, full and abbreviated, in lower case, to their numbers.
var EnglishMonths = map[string]int{
	"january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8, "september": 9,
	"october": 10, "november": 11, "december": 12, "jan": 1, "feb": 2, "mar": 3, "apr": 4, "jun": 6, "jul": 7, "aug": 8,
	"sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12,
}

// Weekdays are the names of the days of the week, indexed by their numbers, from 1.
var Weekdays = [8]string{1: "Monday", 2: "Tuesday", 3: "Wednesday", 4: "Thursday", 5: "Friday", 6: "Saturday",
	7: "Sunday"}

// EnglishWeekdays maps the names of weekdays, full and abbreviated, in lower case, to their numbers. "sun" is left
// out, because it is also a star.
var EnglishWeekdays = map[string]int{
	"monday": 1, "tuesday": 2, "wednesday": 3, "thursday": 4, "friday": 5, "saturday": 6, "sunday": 7,
	"mondays": 1, "tuesdays": 2, "wednesdays": 3, "thursdays": 4, "fridays": 5, "saturdays": 6, "sundays": 7,
	"mon": 1, "tue": 2, "tues": 2, "wed": 3, "thu": 4, "thurs": 4, "fri": 5, "sat": 6,
}

// synonyms maps characters and words to the number, from 1, of their line in synonymLines. Those on one line can
// replace each other without changing a fact.
var synonyms = func() map[string]int {
	all := map[string]int{}
	for i, line := range strings.Split(synonymLines, "\n") {
		for _, w := range strings.Fields(line) {
			all[w] = i + 1
		}
	}
	return all
}()

const synonymLines = `意味着 代表 表示 说明 表明 意味
拨打 致电 联系 打 拨
一般 通常 往往 一般情况下
建议 推荐
立即 立刻 马上 尽快 及时
出现 发生 遇到
提醒 提示 留意 注意 说明 下面
去 到 前往
规定 约定
如果 若 要是 假如
allowed permitted
begin start commence begins starts
end finish terminate ends
sufficient enough suffices
about roughly approximately around
约 大约 大概 左右 上下 前后
help assistance
further more additional
points notes
shall must
get receive obtain
天 日
cap limit ceiling maximum
空间 剩余 容量
存 留 放
合 共 合计 共计 总计 累计 一共 总共
封顶 最高 最多 至多 上限 最多赔
算 参与 参加 计
monday mon
tuesday tue tues
wednesday wed
thursday thu thurs
friday fri
saturday sat
sunday sun
周 星期 礼拜
以上 上述 前述 上面`

// AreSynonyms reports whether two lower-case phrases without spaces mean the same: they are equal, are synonyms,
// or consist of the same characters in another order.
func AreSynonyms(a, b string) bool {
	letters := func(s string) string {
		runes := []rune(s)
		slices.Sort(runes)
		return string(runes)
	}
	return letters(a) == letters(b) || synonyms[a] != 0 && synonyms[a] == synonyms[b]
}
