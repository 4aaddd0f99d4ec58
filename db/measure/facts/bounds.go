package facts

import "wending/db/measure/passage"

// limit is a phrase beside a number that makes it a limit.
type limit struct {
	phrase string
	bound  bound
}

var limitsBefore = []limit{
	{"不得少于", atLeast}, {"不得低于", atLeast}, {"不少于", atLeast}, {"不低于", atLeast}, {"不小于", atLeast}, {"至少", atLeast},
	{"最少", atLeast}, {"最低", atLeast}, {"起码", atLeast}, {"不短于", atLeast}, {"达到或超过", atLeast}, {"≥", atLeast}, {">=", atLeast},
	{"at least", atLeast}, {"a minimum of", atLeast}, {"minimum of", atLeast}, {"no less than", atLeast}, {"not less than", atLeast},
	{"no fewer than", atLeast},
	{"不得超过", atMost}, {"不可超过", atMost}, {"不能超过", atMost}, {"不超过", atMost}, {"不高于", atMost}, {"不多于", atMost}, {"不大于", atMost},
	{"至多", atMost}, {"最多", atMost}, {"最高", atMost}, {"最大", atMost}, {"最长", atMost}, {"上限", atMost}, {"≤", atMost}, {"<=", atMost},
	{"at most", atMost}, {"up to", atMost}, {"no more than", atMost}, {"not more than", atMost}, {"a maximum of", atMost},
	{"maximum of", atMost}, {"must not exceed", atMost}, {"not exceed", atMost}, {"as much as", atMost}, {"within", atMost},
	{"capped at", atMost}, {"limited to", atMost},
	{"超过", moreThan}, {"超出", moreThan}, {"大于", moreThan}, {"高于", moreThan}, {"多于", moreThan}, {">", moreThan},
	{"more than", moreThan}, {"over", moreThan}, {"above", moreThan}, {"exceeds", moreThan},
	{"不足", lessThan}, {"不满", lessThan}, {"未满", lessThan}, {"不到", lessThan}, {"低于", lessThan}, {"小于", lessThan}, {"少于", lessThan}, {"<", lessThan},
	{"less than", lessThan}, {"under", lessThan}, {"below", lessThan}, {"fewer than", lessThan},
	{"after", after},
}

var limitsAfter = []limit{
	{"及以上", atLeast}, {"或以上", atLeast}, {"以上", atLeast}, {"或更高", atLeast}, {"或更多", atLeast}, {"起", exact},
	{"or more", atLeast}, {"or later", atLeast}, {"or higher", atLeast}, {"or newer", atLeast}, {"or above", atLeast},
	{"及以下", atMost}, {"或以下", atMost}, {"以下", atMost}, {"以内", atMost}, {"之内", atMost}, {"内", atMost}, {"or less", atMost},
	{"or fewer", atMost}, {"at most", atMost},
	{"以后", after}, {"之后", after}, {"过后", after}, {"后", after}, {"later", after},
	{"以前", before}, {"之前", before}, {"前", before}, {"ago", before}, {"before", before},
}

// boundOf reads what limits the number of f, and takes the words that do.
func (d *document) boundOf(f *fact, clause int) bound {
	i := f.From
	for range 3 {
		for i > clause && (d.Runes[i-1] == ' ' || d.Runes[i-1] == '¥') {
			i--
		}
		for _, filler := range []string{"为", "是", "约", "满", "于", "了", "的", "每次", "of"} {
			if n := len([]rune(filler)); i-n >= clause && d.Has(i-n, filler) {
				i -= n
				break
			}
		}
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
		r := passage.Lower(d.Runes[next])
		for _, l := range limitsAfter {
			if rune(l.phrase[0]) == r && r < 0x80 || r >= 0x80 {
				if d.Has(next, l.phrase) {
					return l.bound
				}
			}
		}
	}
	return found
}

func (d *document) limitEndingAt(end, clause int) bound {
	if end <= clause {
		return exact
	}
	last := passage.Lower(d.Runes[end-1])
	for k := range limitsBefore {
		l := &limitsBefore[k]
		if limitEnds[k].last != last {
			continue
		}
		if from := end - limitEnds[k].length; from >= clause && d.Has(from, l.phrase) {
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

var limitEnds = func() []struct {
	last   rune
	length int
} {
	ends := make([]struct {
		last   rune
		length int
	}, len(limitsBefore))
	for i, l := range limitsBefore {
		runes := []rune(l.phrase)
		ends[i].last, ends[i].length = runes[len(runes)-1], len(runes)
	}
	return ends
}()
