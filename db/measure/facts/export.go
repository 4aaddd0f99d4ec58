package facts

import (
	"strings"
	"unicode/utf8"

	"wending/db/measure/passage"
)

// longestLabel is how many characters name a difference.
const longestLabel = 20

// longestText is how many characters of a statement are quoted.
const longestText = 200

// export makes a Fact of what was read. Both ends of a range are exported as the whole range.
func (d *document) export(f *fact) Fact {
	value, place, kind := f.value, f.Span, f.kind
	if f.isRange() {
		first, last := &d.facts[f.first], &d.facts[f.last]
		value, place, kind = rangeValue(first.value, last.value), passage.Span{From: first.From, To: last.To}, Range
	}
	return Fact{
		Kind: kind, Value: f.bound.sign() + value, Unit: f.unit, Text: d.Slice(place), About: d.about(f),
		Start: int(d.Start[place.From]), End: int(d.End[place.To-1]),
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
	x := d.Sentences[f.sentence]
	if !x.Row.IsEmpty() || !x.Column.IsEmpty() {
		return clip(strings.TrimSpace(d.head(x.Row, longestLabel) + " " + d.head(x.Column, longestLabel)))
	}
	from := max(f.clause.From, f.From-longestLabel)
	label := strings.TrimSpace(strings.Trim(d.Slice(passage.Span{From: from, To: f.From}), " *`"))
	if utf8.RuneCountInString(label) < 2 {
		label = strings.TrimSpace(d.head(f.clause, 2*longestLabel))
	}
	return clip(label)
}

// head returns the bytes of the answer that the first characters of a span cover.
func (d *document) head(s passage.Span, characters int) string {
	return d.Slice(passage.Span{From: s.From, To: min(s.To, s.From+characters)})
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
