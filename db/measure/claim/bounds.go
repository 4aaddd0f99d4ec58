package claim

import (
	"slices"
	"strings"
	"unicode/utf8"

	"wending/db/measure/passage"
)

// limit is a phrase next to a number that makes the number a limit.
type limit struct {
	phrase string
	bound  Bound
}

// limitsBefore are the phrases before a number. A negated comparison is the opposite limit: 不得超过 (must not exceed),
// 别少于 (no fewer than).
var limitsBefore = append(negatedLimits(), []limit{
	{"至少", AtLeast}, {"最少", AtLeast}, {"最低", AtLeast}, {"最短", AtLeast}, {"起码", AtLeast}, {"达到或超过", AtLeast},
	{"≥", AtLeast}, {">=", AtLeast},
	{"at least", AtLeast}, {"a minimum of", AtLeast}, {"minimum of", AtLeast}, {"no less than", AtLeast},
	{"not less than", AtLeast},
	{"no fewer than", AtLeast},
	{"至多", AtMost}, {"最多", AtMost}, {"最高", AtMost}, {"最大", AtMost}, {"最长", AtMost}, {"上限", AtMost}, {"封顶", AtMost},
	{"顶格", AtMost}, {"顶多", AtMost}, {"≤", AtMost}, {"<=", AtMost},
	{"at most", AtMost}, {"up to", AtMost}, {"no more than", AtMost}, {"not more than", AtMost}, {"a maximum of", AtMost},
	{"maximum of", AtMost}, {"must not exceed", AtMost}, {"not exceed", AtMost}, {"as much as", AtMost},
	{"within", AtMost},
	{"capped at", AtMost}, {"limited to", AtMost},
	{"may exceed", AtMost}, {"can exceed", AtMost}, {"cannot exceed", AtMost}, {"can't exceed", AtMost},
	{"don't exceed", AtMost}, {"never exceed", AtMost},
	{"超过", MoreThan}, {"超出", MoreThan}, {"大于", MoreThan}, {"高于", MoreThan}, {"多于", MoreThan}, {">", MoreThan},
	{"more than", MoreThan}, {"over", MoreThan}, {"above", MoreThan}, {"exceeds", MoreThan},
	{"longer than", MoreThan}, {"greater than", MoreThan}, {"higher than", MoreThan},
	{"不足", LessThan}, {"不满", LessThan}, {"未满", LessThan}, {"不到", LessThan}, {"低于", LessThan}, {"小于", LessThan},
	{"少于", LessThan}, {"<", LessThan},
	{"less than", LessThan}, {"under", LessThan}, {"below", LessThan}, {"fewer than", LessThan},
	{"shorter than", LessThan}, {"lower than", LessThan},
	{"after", after},
}...)

// negations turn a comparison into its opposite.
var negations = []string{"不得", "不可", "不可以", "不能", "不能够", "不要", "不应", "不应当", "不应该", "不会", "不宜", "不许", "不准", "切勿", "请勿",
	"勿", "别", "未", "没有", "没", "不"}

func negatedLimits() []limit {
	var all []limit
	for _, negation := range negations {
		for _, comparison := range []string{"超过", "高于", "多于", "大于", "超出", "长于"} {
			all = append(all, limit{negation + comparison, AtMost})
		}
		for _, comparison := range []string{"少于", "低于", "小于", "短于"} {
			all = append(all, limit{negation + comparison, AtLeast})
		}
	}
	return all
}

// adverbs come before a verb, and limit the number after it: 最多放 2 天 (keep for at most 2 days).
var adverbs = []limit{
	{"至少", AtLeast}, {"最少", AtLeast}, {"起码", AtLeast}, {"最短", AtLeast}, {"最低", AtLeast},
	{"最多", AtMost}, {"至多", AtMost}, {"最长", AtMost}, {"最高", AtMost}, {"顶多", AtMost},
}

// longestVerb is the maximum number of characters between one of the adverbs and the number.
const longestVerb = 4

// adverbBefore returns the limit set by an adverb before the verb that ends at end, and marks the adverb as taken. It
// returns Exact if there is none between the beginning of the clause and end.
func (d *Document) adverbBefore(end, clause int) Bound {
	for from := end; from > clause && end-from <= longestVerb && passage.IsHan(d.At(from-1)) && !d.Taken[from-1]; from-- {
		if !strings.ContainsRune("少低短码多长高", d.At(from-1)) {
			continue
		}
		for _, l := range adverbs {
			if from-2 >= clause && d.Has(from-2, l.phrase) {
				d.Taken[from-2], d.Taken[from-1] = true, true
				return l.bound
			}
		}
	}
	return Exact
}

var limitsAfter = []limit{
	{"及以上", AtLeast}, {"或以上", AtLeast}, {"以上", AtLeast}, {"或更高", AtLeast}, {"或更多", AtLeast}, {"起", Exact},
	{"or more", AtLeast}, {"or later", AtLeast}, {"or higher", AtLeast}, {"or newer", AtLeast}, {"or above", AtLeast},
	{"及以下", AtMost}, {"或以下", AtMost}, {"以下", AtMost}, {"以内", AtMost}, {"之内", AtMost}, {"封顶", AtMost}, {"为上限", AtMost},
	{"为限", AtMost}, {"内", AtMost}, {"or less", AtMost},
	{"or fewer", AtMost}, {"at most", AtMost},
	{"以后", after}, {"之后", after}, {"过后", after}, {"后", after}, {"later", after},
	{"以前", before}, {"之前", before}, {"前", before}, {"ago", before}, {"before", before},
}

// limitBegins holds the limits of limitsAfter, keyed by the first character of their phrase.
var limitBegins = func() map[rune][]limit {
	begins := map[rune][]limit{}
	for _, l := range limitsAfter {
		first, _ := utf8.DecodeRuneInString(l.phrase)
		begins[first] = append(begins[first], l)
	}
	return begins
}()

// boundOf returns the limit set by a phrase before or after the number of f, or Exact if there is none, and marks the
// words of a phrase before it as taken. It also sets f.Event. clause is where the clause begins.
func (d *Document) boundOf(f *Claim, clause int) Bound {
	i := f.From
	f.Event = d.eventOf(f, clause)
	for range 3 {
		for i > clause && (d.Runes[i-1] == ' ' || d.Runes[i-1] == '¥') {
			i--
		}
		i = max(d.beforeFiller(i), clause)
	}
	found := Exact
	for _, at := range []int{f.From, i} {
		for at > clause && d.At(at-1) == ' ' {
			at--
		}
		if found == Exact {
			found = d.limitEndingAt(at, clause)
		}
	}
	if found == Exact {
		at := f.From
		for at > clause && d.At(at-1) == ' ' {
			at--
		}
		found = d.adverbBefore(at, clause)
	}
	next := d.Blanks(f.To)
	if d.At(next) == '(' { // 7天（含）以上: 7 days or more
		for k := next; k < next+6 && k < len(d.Runes); k++ {
			if d.Runes[k] == ')' {
				next = d.Blanks(k + 1)
				break
			}
		}
	}
	if found == Exact && next < len(d.Runes) {
		for _, l := range limitBegins[passage.Lower(d.Runes[next])] {
			if d.Has(next, l.phrase) {
				return l.bound
			}
		}
	}
	if k := len(d.Claims) - 1; k >= 0 && d.Claims[k].Polarity.IsNegative() && d.Claims[k].From >= clause &&
		f.From-d.Claims[k].To <= d.verbPhrase(f.From) && !d.hasOr(d.Claims[k].To, f.From) {
		d.Claims[k].IsLoose = d.Claims[k].IsLoose || found == MoreThan || found == LessThan
		switch found { // as in: must never go above 30 °C
		case MoreThan:
			return AtMost
		case LessThan:
			return AtLeast
		}
	}
	return found
}

// verbPhrase returns the maximum number of characters between the number at i and a negation that reverses its
// comparison.
func (d *Document) verbPhrase(i int) int {
	if passage.IsLatin(d.At(i - 2)) {
		return 2 * longestVerbPhrase
	}
	return longestVerbPhrase
}

// hasOr reports whether there is an "or" or an "and" between two positions.
func (d *Document) hasOr(from, to int) bool {
	for i := from; i < to; i++ {
		if d.Runes[i] == '或' || d.Has(i, " or ") || d.Has(i, " and ") {
			return true
		}
	}
	return false
}

// beforeFiller returns where a filler word between a limit and its number begins if one ends at i; otherwise i.
func (d *Document) beforeFiller(i int) int {
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

// longestVerbPhrase is the result of verbPhrase, in characters, in Chinese text; English phrases may be twice as long.
const longestVerbPhrase = 16

// events are words after a time that show whether the time is before or after an event.
var events = []limit{
	{"before", before}, {"prior", before}, {"ahead", before}, {"after", after}, {"from", after}, {"of", after},
	{"以前", before}, {"之前", before}, {"前", before}, {"以后", after}, {"之后", after}, {"后", after},
}

// eventOf reports whether a duration is before an event, as in 期满前 30 日内 (within the 30 days before expiry), or after
// one, as in 30 days after delivery. It returns Exact if it is neither.
func (d *Document) eventOf(f *Claim, clause int) Bound {
	if f.Class != ClassDuration {
		return Exact
	}
	at := f.From
	for at > clause && (d.At(at-1) == ' ' || d.At(at-1) == '的') {
		at--
	}
	if at > clause {
		isOrder := d.At(at-2) == '最' || d.At(at-2) == '临' // 最后 2 周: the last 2 weeks
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
	return Exact
}

// limitEndingAt returns the limit whose phrase ends at end, and marks its words as taken; Exact if there is none.
func (d *Document) limitEndingAt(end, clause int) Bound {
	if end <= clause {
		return Exact
	}
	for _, l := range limitEnds[passage.Lower(d.Runes[end-1])] {
		if from := end - l.length; from >= clause && d.Has(from, l.phrase) {
			if passage.IsLatin(d.At(from-1)) && passage.IsLatin(d.At(from)) {
				continue
			}
			for x := from; x < end; x++ {
				d.Taken[x] = true
			}
			return l.bound
		}
	}
	return Exact
}

// limitEnd is a limit with the length of its phrase in characters.
type limitEnd struct {
	limit
	length int
}

// limitEnds maps a character to the limits before a number whose phrases end with it, longest first.
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
