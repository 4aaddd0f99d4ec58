package facts

import (
	"strings"
	"unicode/utf8"
)

// longestLabel is how many characters name a difference.
const longestLabel = 20

// longestText is how many characters of a statement are quoted.
const longestText = 200

// export makes a Fact of what was read. Both ends of a range are exported as the whole range.
func (d *document) export(f *fact) Fact {
	value, place, kind := f.value, f.span, f.kind
	if f.isRange() {
		first, last := &d.facts[f.first], &d.facts[f.last]
		value, place, kind = rangeValue(first.value, last.value), span{first.from, last.to}, Range
	}
	return Fact{
		Kind: kind, Value: f.bound.sign() + value, Unit: f.unit, Text: d.slice(place), About: d.about(f),
		Start: int(d.start[place.from]), End: int(d.end[place.to-1]),
	}
}

// rangeValue writes 5–10 day: a unit that both ends have is written once.
func rangeValue(first, last string) string {
	if number, unit, hasUnit := strings.Cut(first, " "); hasUnit && strings.HasSuffix(last, " "+unit) {
		first = number
	}
	return first + "–" + last
}

// sign is what a limit's value begins with.
func (b bound) sign() string {
	switch b {
	case atLeast:
		return "≥ "
	case moreThan:
		return "> "
	case atMost:
		return "≤ "
	case lessThan:
		return "< "
	}
	return ""
}

// about returns the words around a fact.
func (d *document) about(f *fact) string {
	x := d.sentences[f.sentence]
	if !x.row.isEmpty() || !x.column.isEmpty() {
		return clip(strings.TrimSpace(d.head(x.row, longestLabel) + " " + d.head(x.column, longestLabel)))
	}
	from := max(f.clause.from, f.from-longestLabel)
	label := strings.TrimSpace(strings.Trim(d.slice(span{from, f.from}), " *`"))
	if utf8.RuneCountInString(label) < 2 {
		label = strings.TrimSpace(d.head(f.clause, 2*longestLabel))
	}
	return clip(label)
}

// head returns the bytes of the answer that the first characters of a span cover.
func (d *document) head(s span, characters int) string {
	return d.slice(span{s.from, min(s.to, s.from+characters)})
}

// clip cuts a label after longestLabel characters.
func clip(s string) string {
	count := 0
	for i := range s {
		if count == longestLabel {
			return s[:i]
		}
		count++
	}
	return s
}
