package facts

import (
	"slices"
	"unicode/utf8"

	"wending/db/measure/passage"
)

// limit is a phrase beside a number that makes it a limit.
type limit struct {
	phrase string
	bound  bound
}

// limitsBefore are those before a number; a negated comparison is the opposite limit: 不得超过, 别少于.
var limitsBefore = append(negatedLimits(), []limit{
	{"至少", atLeast}, {"最少", atLeast}, {"最低", atLeast}, {"最短", atLeast}, {"起码", atLeast}, {"达到或超过", atLeast}, {"≥", atLeast}, {">=", atLeast},
	{"at least", atLeast}, {"a minimum of", atLeast}, {"minimum of", atLeast}, {"no less than", atLeast}, {"not less than", atLeast},
	{"no fewer than", atLeast},
	{"至多", atMost}, {"最多", atMost}, {"最高", atMost}, {"最大", atMost}, {"最长", atMost}, {"上限", atMost}, {"≤", atMost}, {"<=", atMost},
	{"at most", atMost}, {"up to", atMost}, {"no more than", atMost}, {"not more than", atMost}, {"a maximum of", atMost},
	{"maximum of", atMost}, {"must not exceed", atMost}, {"not exceed", atMost}, {"as much as", atMost}, {"within", atMost},
	{"capped at", atMost}, {"limited to", atMost},
	{"may exceed", atMost}, {"can exceed", atMost}, {"cannot exceed", atMost}, {"can't exceed", atMost}, {"don't exceed", atMost}, {"never exceed", atMost},
	{"超过", moreThan}, {"超出", moreThan}, {"大于", moreThan}, {"高于", moreThan}, {"多于", moreThan}, {">", moreThan},
	{"more than", moreThan}, {"over", moreThan}, {"above", moreThan}, {"exceeds", moreThan},
	{"不足", lessThan}, {"不满", lessThan}, {"未满", lessThan}, {"不到", lessThan}, {"低于", lessThan}, {"小于", lessThan}, {"少于", lessThan}, {"<", lessThan},
	{"less than", lessThan}, {"under", lessThan}, {"below", lessThan}, {"fewer than", lessThan},
	{"after", after},
}...)

// negations make of a comparison its opposite.
var negations = []string{"不得", "不可", "不可以", "不能", "不能够", "不要", "不应", "不应当", "不应该", "不会", "不宜", "不许", "不准", "切勿", "请勿", "勿", "别", "未", "没有", "没", "不"}

func negatedLimits() []limit {
	var all []limit
	for _, negation := range negations {
		for _, comparison := range []string{"超过", "高于", "多于", "大于", "超出", "长于"} {
			all = append(all, limit{negation + comparison, atMost})
		}
		for _, comparison := range []string{"少于", "低于", "小于", "短于"} {
			all = append(all, limit{negation + comparison, atLeast})
		}
	}
	return all
}

// adverbs limit a number behind the verb that follows them: 最多放 2 天.
var adverbs = []limit{
	{"至少", atLeast}, {"最少", atLeast}, {"起码", atLeast}, {"最短", atLeast}, {"最低", atLeast},
	{"最多", atMost}, {"至多", atMost}, {"最长", atMost}, {"最高", atMost}, {"顶多", atMost},
}

// longestVerb is how many characters stand between such an adverb and the number.
const longestVerb = 4

// adverbBefore reads an adverb before the verb that ends at end.
func (d *document) adverbBefore(end, clause int) bound {
	for from := end; from > clause && end-from <= longestVerb && passage.IsHan(d.At(from-1)) && !d.taken[from-1]; from-- {
		for _, l := range adverbs {
			if from-2 >= clause && d.Has(from-2, l.phrase) {
				d.taken[from-2], d.taken[from-1] = true, true
				return l.bound
			}
		}
	}
	return exact
}

var limitsAfter = []limit{
	{"及以上", atLeast}, {"或以上", atLeast}, {"以上", atLeast}, {"或更高", atLeast}, {"或更多", atLeast}, {"起", exact},
	{"or more", atLeast}, {"or later", atLeast}, {"or higher", atLeast}, {"or newer", atLeast}, {"or above", atLeast},
	{"及以下", atMost}, {"或以下", atMost}, {"以下", atMost}, {"以内", atMost}, {"之内", atMost}, {"内", atMost}, {"or less", atMost},
	{"or fewer", atMost}, {"at most", atMost},
	{"以后", after}, {"之后", after}, {"过后", after}, {"后", after}, {"later", after},
	{"以前", before}, {"之前", before}, {"前", before}, {"ago", before}, {"before", before},
}

// limitBegins are those after a number by their first character.
var limitBegins = func() map[rune][]limit {
	begins := map[rune][]limit{}
	for _, l := range limitsAfter {
		first, _ := utf8.DecodeRuneInString(l.phrase)
		begins[first] = append(begins[first], l)
	}
	return begins
}()

// boundOf reads what limits the number of f, and takes the words that do.
func (d *document) boundOf(f *fact, clause int) bound {
	i := f.From
	f.event = d.eventOf(f, clause)
	for range 3 {
		for i > clause && (d.Runes[i-1] == ' ' || d.Runes[i-1] == '¥') {
			i--
		}
		i = max(d.beforeFiller(i), clause)
	}
	found := exact
	for _, at := range []int{f.From, i} {
		for at > clause && d.At(at-1) == ' ' {
			at--
		}
		if found == exact {
			found = d.limitEndingAt(at, clause)
		}
	}
	if found == exact {
		at := f.From
		for at > clause && d.At(at-1) == ' ' {
			at--
		}
		found = d.adverbBefore(at, clause)
	}
	next := d.Blanks(f.To)
	if d.At(next) == '(' { // 7天（含）以上
		for k := next; k < next+6 && k < len(d.Runes); k++ {
			if d.Runes[k] == ')' {
				next = d.Blanks(k + 1)
				break
			}
		}
	}
	if found == exact && next < len(d.Runes) {
		for _, l := range limitBegins[passage.Lower(d.Runes[next])] {
			if d.Has(next, l.phrase) {
				return l.bound
			}
		}
	}
	if k := len(d.facts) - 1; k >= 0 && d.facts[k].polarity.isNegative() && d.facts[k].From >= clause && f.From-d.facts[k].To <= longestVerbPhrase && !d.hasOr(d.facts[k].To, f.From) {
		switch found { // must never go above 30 °C
		case moreThan:
			return atMost
		case lessThan:
			return atLeast
		}
	}
	return found
}

// hasOr reports whether an alternative begins between two characters.
func (d *document) hasOr(from, to int) bool {
	for i := from; i < to; i++ {
		if d.Runes[i] == '或' || d.Has(i, " or ") || d.Has(i, " and ") {
			return true
		}
	}
	return false
}

// beforeFiller returns where a word begins that may stand between a limit and its number, if one ends at i.
func (d *document) beforeFiller(i int) int {
	switch d.At(i - 1) {
	case '为', '是', '约', '满', '于', '了', '的':
		return i - 1
	case '次':
		if d.At(i-2) == '每' {
			return i - 2
		}
	case 'f':
		if d.Has(i-2, "of") {
			return i - 2
		}
	}
	return i
}

// longestVerbPhrase is how many characters stand between a negation and the number whose comparison it denies.
const longestVerbPhrase = 16

// events are the words behind a time that say on which side of something it is.
var events = []limit{
	{"before", before}, {"prior", before}, {"ahead", before}, {"after", after}, {"from", after}, {"of", after},
	{"以前", before}, {"之前", before}, {"前", before}, {"以后", after}, {"之后", after}, {"后", after},
}

// eventOf reports whether a time is before or after something: 期满前 30 日内, 30 days after delivery.
func (d *document) eventOf(f *fact, clause int) bound {
	if f.class != classDuration {
		return exact
	}
	at := f.From
	for at > clause && (d.At(at-1) == ' ' || d.At(at-1) == '的') {
		at--
	}
	if at > clause {
		isOrder := d.At(at-2) == '最' || d.At(at-2) == '临' // 最后 2 周
		switch r := d.At(at - 1); {
		case isOrder:
		case r == '前':
			return before
		case r == '后':
			return after
		}
	}
	next := d.Blanks(f.To)
	for _, l := range events {
		if d.Has(next, l.phrase) && (!passage.IsLatin(d.At(next)) || !passage.IsLatin(d.At(next+len(l.phrase)))) {
			return l.bound
		}
	}
	return exact
}

// limitEndingAt returns the limit whose phrase ends at a character, and takes its words.
func (d *document) limitEndingAt(end, clause int) bound {
	if end <= clause {
		return exact
	}
	for _, l := range limitEnds[passage.Lower(d.Runes[end-1])] {
		if from := end - l.length; from >= clause && d.Has(from, l.phrase) {
			if passage.IsLatin(d.At(from-1)) && passage.IsLatin(d.At(from)) {
				continue
			}
			for x := from; x < end; x++ {
				d.taken[x] = true
			}
			return l.bound
		}
	}
	return exact
}

// limitEnd is a limit with the number of its characters.
type limitEnd struct {
	limit
	length int
}

// limitEnds are the limits before a number by their last character, the longest first.
var limitEnds = func() map[rune][]limitEnd {
	ends := map[rune][]limitEnd{}
	for _, l := range limitsBefore {
		runes := []rune(l.phrase)
		last := runes[len(runes)-1]
		ends[last] = append(ends[last], limitEnd{l, len(runes)})
	}
	for _, list := range ends {
		slices.SortStableFunc(list, func(x, y limitEnd) int { return y.length - x.length })
	}
	return ends
}()
