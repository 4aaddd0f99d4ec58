package claim

import (
	"sort"
	"strings"

	"wending/db/measure/passage"
)

// unit is the unit of a number. Comparable quantities are converted to the unit base by multiplying them by factor.
type unit struct {
	name      string
	class     Class
	base      string
	factor    float64
	isIgnored bool // such as 点 (point) or 项 (item): with a small number, it only counts parts of the answer itself
}

var symbols = map[rune]string{'¥': "CNY", '$': "USD", '€': "EUR", '£': "GBP"}

var currencies = map[string]string{"usd": "USD", "cny": "CNY", "rmb": "CNY", "eur": "EUR", "gbp": "GBP", "hkd": "HKD",
	"jpy": "JPY"}

// cents is the unit of amounts in cents, whose currency is stated elsewhere.
const cents = "¢"

// dollars maps the letters before a dollar sign to currencies.
var dollars = map[string]string{"hk": "HKD", "us": "USD", "a": "AUD", "c": "CAD", "nt": "TWD", "s": "SGD"}

// units maps spellings to units. The arguments of define are a class, a base unit, a factor and spellings.
var units = func() map[string]unit {
	all := map[string]unit{}
	define := func(c Class, base string, factor float64, names string) {
		spellings := strings.Fields(names)
		for _, spelling := range spellings {
			all[spelling] = unit{name: spellings[0], class: c, base: base, factor: factor}
		}
	}
	define(classMass, "g", 1e-6, "µg μg mcg 微克")
	define(classMass, "g", 1e-3, "mg 毫克 milligram milligrams")
	define(classMass, "g", 1, "g 克 gram grams")
	define(classMass, "g", 1000, "kg 公斤 千克 kilogram kilograms kilo kilos")
	define(classMass, "g", 500, "斤 市斤")
	define(classMass, "g", 50, "两")
	define(classMass, "g", 1e6, "t 吨 ton tons tonne tonnes")
	define(classMass, "lb", 1, "lb lbs pound pounds 磅")
	define(classMass, "oz", 1, "oz ounce ounces")
	define(classVolume, "ml", 1, "ml 毫升 milliliter milliliters millilitre millilitres cc")
	define(classVolume, "ml", 1000, "l 升 liter liters litre litres 公升")
	define(classVolume, "tbsp", 1, "tablespoon tablespoons tbsp 汤匙 大勺")
	define(classVolume, "tsp", 1, "teaspoon teaspoons tsp 茶匙 小勺")
	define(classVolume, "cup", 1, "cup cups")
	define(classLength, "m", 1e-3, "mm 毫米")
	define(classLength, "m", 1e-2, "cm 厘米 公分")
	define(classLength, "m", 1, "m 米 meter meters metre metres")
	define(classLength, "m", 1000, "km 公里 千米 kilometer kilometers kilometre kilometres")
	define(classLength, "mile", 1, "mile miles 英里")
	define(classLength, "inch", 1, "inch inches 英寸")
	define(classLength, "ft", 1, "ft feet foot 英尺")
	define(classArea, "m2", 1, "m2 ㎡ 平方米 平米 sqm")
	define(classArea, "mu", 1, "亩")
	define(classBytes, "MiB", 1.0/1024, "ki kib")
	define(classBytes, "MiB", 1, "mi mib")
	define(classBytes, "MiB", 1024, "gi gib")
	define(classVolume, "m3", 1, "m3 立方米")
	define(classBytes, "MB", 1, "mb 兆")
	define(classBytes, "MB", 1e-3, "kb")
	define(classBytes, "MB", 1000, "gb")
	define(classBytes, "MB", 1e6, "tb")
	define(classFrequency, "Hz", 1, "hz 赫兹")
	define(classFrequency, "Hz", 1e3, "khz")
	define(classFrequency, "Hz", 1e6, "mhz")
	define(classFrequency, "Hz", 1e9, "ghz")
	define(classSpeed, "Mbps", 1, "mbps")
	define(classSpeed, "Mbps", 1000, "gbps")
	define(classTemperature, "°C", 1, "°c 摄氏度 ° 度")
	define(classTemperature, "°F", 1, "°f 华氏度")
	define(classElectric, "V", 1, "v 伏 伏特 volt volts")
	define(classElectric, "V", 1000, "kv 千伏")
	define(classElectric, "A", 1, "安培 amp amps")
	define(classElectric, "mAh", 1, "mah 毫安时")
	define(classElectric, "W", 1, "w 瓦 watt watts")
	define(classElectric, "W", 1000, "kw 千瓦")
	define(classElectric, "dBm", 1, "dbm")
	define(classEnergy, "kcal", 1, "kcal 千卡 大卡 calorie calories")
	define(classEnergy, "kJ", 1, "kj 千焦")
	define(classEnergy, "kWh", 1, "kwh 千瓦时 度电")
	define(classEnergy, "kWh", 1e-3, "wh 瓦时")
	define(ClassDuration, "s", 1e-3, "ms 毫秒 millisecond milliseconds")
	define(ClassDuration, "s", 1, "s 秒 秒钟 sec secs second seconds")
	define(ClassDuration, "s", 60, "min 分钟 mins minute minutes")
	define(ClassDuration, "s", 3600, "h 小时 个小时 钟头 个钟头 hr hrs hour hours")
	define(ClassDuration, "s", 86400, "day 天 日 days 昼夜")
	define(ClassDuration, "s", 14*86400, "fortnight fortnights")
	define(ClassDuration, "s", 7*86400, "week 周 星期 个星期 weeks 个周")
	define(ClassDuration, "month", 1, "month 月 个月 月龄 months")
	define(ClassDuration, "month", 3, "季度 个季度 quarter quarters")
	define(ClassDuration, "month", 12, "year 年 years 周年 学年 个学年")
	define(ClassDuration, "workday", 1, "工作日 个工作日")
	define(ClassDuration, "natural day", 1, "自然日 个自然日")
	define(ClassDuration, "trading day", 1, "交易日 个交易日")
	define(ClassMoney, "CNY", 1, "元 块 块钱 元人民币 人民币 yuan rmb cny")
	define(ClassMoney, "CNY", 0.1, "角 毛 毛钱 角钱")
	define(ClassMoney, cents, 0.01, "cent cents")
	define(ClassMoney, "USD", 1, "美元 dollar dollars usd 美金")
	define(ClassMoney, "EUR", 1, "欧元 euro euros eur")
	define(ClassMoney, "GBP", 1, "英镑 gbp")
	define(ClassMoney, "HKD", 1, "港元 港币 hkd")
	define(ClassMoney, "JPY", 1, "日元 jpy")
	define(ClassPercent, "%", 1, "% percent 个百分点")
	define(ClassPercent, "%", 0.1, "‰")
	define(ClassPercent, "%", 100, "倍")
	define(ClassPercent, "%", 10, "成")
	define(ClassPercent, "折", 1, "折")
	for _, name := range strings.Fields(`次 人 名 位 片 粒 台 条 张 本 套 辆 箱 包 瓶 盒 支 枚 颗 滴 分 个 只 家 户 级 件 份 间 层 口 股 字 页 字节 口 课时 学分 学时 千克
		公顷 岁 周岁 期 笔 台 行 列 人次 部 篇 道 座 所 根`) {
		if _, isKnown := all[name]; !isKnown {
			define(ClassCount, name, 1, name)
		}
	}
	define(ClassCount, "岁", 1, "岁 周岁")
	define(ClassCount, "人", 1, "人 名 位 口 口人 people persons guests 个人")
	for _, names := range []string{"word words", "page pages", "credit credits", "bag bags", "letter letters",
		"point points", "tablet tablets", "capsule capsules", "item items", "user users", "serving servings", "次 time times",
		"device devices", "字符 character characters 个字符", "字 个字"} {
		define(ClassCount, strings.Fields(names)[0], 1, names)
	}
	for _, name := range strings.Fields("点 步 项 类 种 方面 个方面 档 个步骤 要点 步骤 部分 个部分 大类 者 方 般 些 样 旦 律 定 并 起 个要点") {
		all[name] = unit{name: name, factor: 1, isIgnored: true}
	}
	delete(all, "t")
	return all
}()

// hanUnits maps a character to the Chinese units that begin with it, longest first.
var hanUnits = func() map[rune][]string {
	by := map[rune][]string{}
	for name := range units {
		if r := []rune(name)[0]; passage.IsHan(r) {
			by[r] = append(by[r], name)
		}
	}
	for _, names := range by {
		sort.Slice(names, func(i, j int) bool { return len(names[i]) > len(names[j]) })
	}
	return by
}()

// unit reads the unit at i, after spaces, and returns where it ends; if there is none, it returns i.
func (d *Document) unit(i, to int) (unit, int) {
	from := d.Blanks(i)
	if u, end := d.shortUnit(from, to); end > from {
		return u, end
	}
	if from >= to {
		return unit{factor: 1}, i
	}
	r := d.Runes[from]
	switch {
	case r == '%' || r == '‰':
		return units[string(r)], from + 1
	case r == '°':
		if c := passage.Lower(d.At(from + 1)); c == 'c' || c == 'f' {
			return units["°"+string(c)], from + 2
		}
		return units["°"], from + 1
	case r == '分' && d.Has(from, "分半钟"): // 6 分半钟 (6½ minutes): restOfDuration reads the half
		return units["分钟"], from + 1
	case passage.IsHan(r):
		for _, name := range hanUnits[r] {
			end := from + len([]rune(name))
			if end <= to && d.Has(from, name) && !d.isOther(name, end) {
				return units[name], end
			}
		}
		if r == '个' {
			return units["个"], from + 1
		}
	case passage.IsLatin(r) || r == '-' && from == i && passage.IsLatin(d.At(from+1)):
		if r == '-' {
			from++
		}
		word, end := d.word(from, to)
		if passage.IsLatin(d.At(end)) || passage.IsDigit(d.At(end)) && word != "m" {
			return unit{factor: 1}, i
		}
		switch word {
		case "business", "working", "work", "calendar":
			if day, after := d.word(d.Blanks(end), to); day == "day" || day == "days" {
				if word == "calendar" {
					return units["自然日"], after
				}
				return units["工作日"], after
			}
		case "m":
			if r := d.At(end); r == '2' || r == '3' {
				return units["m"+string(r)], end + 1
			}
		}
		if u, isUnit := units[word]; isUnit {
			if end-from == 1 && (r == 'C' || r == 'S' || r == 'A') {
				return unit{factor: 1}, i
			}
			return u, end
		}
	}
	return unit{factor: 1}, i
}

// shortUnit reads a unit that is a single capital letter (60 个 G, 500M), and returns the position after it; from if
// there is none.
func (d *Document) shortUnit(from, to int) (unit, int) {
	at := from
	if d.At(at) == '个' {
		at = d.Blanks(at + 1)
	}
	if at >= to || passage.IsLatin(d.At(at+1)) || passage.IsDigit(d.At(at+1)) {
		return unit{}, from
	}
	switch d.Runes[at] {
	case 'G':
		return units["gb"], at + 1
	case 'M':
		return units["mb"], at + 1
	}
	return unit{}, from
}

// isOther reports whether the name of a Chinese unit, which ends at end, is in fact the beginning of a longer word,
// such as 分别 (separately), 条件 (condition) or 日期 (date).
func (d *Document) isOther(name string, end int) bool {
	next := d.At(end)
	switch name {
	case "分":
		return next == '别' || next == '为' || next == '之' || next == '析' || next == '类'
	case "条":
		return next == '件' || next == '款'
	case "成":
		return strings.ContainsRune("为立功本员年人交分果绩长熟语套型品都就效份千百", next)
	case "日":
		return next == '期' || next == '常' || next == '元'
	case "两":
		return passage.IsHan(next) && next != '左' && next != '以' && next != '的'
	case "角", "毛":
		return next == '形' || next == '度' || next == '落' || next == '色' || next == '钢' || next == '病' || next == '发' ||
			next == '利'
	case "度":
		return next == '假' || next == '过'
	case "本", "名", "位", "部", "家", "所", "只", "个", "道", "期", "行":
		return next == '身' || next == '义' || next == '于' || next == '分' || next == '有' || next == '能' || next == '间'
	case "方", "者", "样", "起", "定", "并", "类", "种":
		return false
	}
	return false
}
