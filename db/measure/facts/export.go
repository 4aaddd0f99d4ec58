package facts

import (
	"slices"
	"strings"
	"unicode/utf8"

	"wending/db/measure/claim"
	"wending/db/measure/passage"
)

// longestLabel is the maximum length of a label in characters.
const longestLabel = 20

// longestText is the maximum number of quoted characters of a statement.
const longestText = 200

// kinds maps the classes of claims that are more than numbers to their kinds.
var kinds = map[claim.Class]Kind{
	claim.ClassDuration: Duration, claim.ClassMoney: Money, claim.ClassPercent: Percent, claim.ClassDate: Date,
	claim.ClassTime: Time, claim.ClassWeekday: Date,
	claim.ClassCitation: Citation, claim.ClassWork: Citation, claim.ClassVersion: Code, claim.ClassCode: Code,
	claim.ClassURL: Code, claim.ClassChoice: Choice,
	claim.ClassVerdict: Polarity, claim.ClassPolarity: Polarity,
}

func kindOf(f *claim.Claim) Kind {
	kind, isNamed := kinds[f.Class]
	switch {
	case f.IsRange():
		return Range
	case isNamed:
		return kind
	case f.Class < claim.ClassSet:
		return Number
	case f.Class.IsQuantifier():
		return Quantifier
	}
	return Entity
}

// export makes a Fact from a claim. Both ends of a range are exported as the whole range.
func (d *answer) export(f *claim.Claim) Fact {
	bound := f.Bound
	value, place, kind := f.Value, f.Span, kindOf(f)
	if f.IsRange() {
		first, last := &d.Claims[f.First], &d.Claims[f.Last]
		value, place, kind = rangeValue(first.Value, last.Value), passage.Span{From: first.From, To: last.To}, Range
		f = first
	}
	return Fact{
		Kind: kind, Value: sign(bound) + value, Unit: f.Unit, Text: d.Slice(place), About: d.about(f),
		Start: int(d.Start[place.From]), End: int(d.End[place.To-1]),
	}
}

// rangeValue formats a range such as 5–10 day: a unit that both ends share is written once.
func rangeValue(first, last string) string {
	if number, unit, hasUnit := strings.Cut(first, " "); hasUnit && strings.HasSuffix(last, " "+unit) {
		first = number
	}
	return first + "–" + last
}

// sign returns the prefix of a limit's value.
func sign(b claim.Bound) string {
	switch b {
	case claim.AtLeast:
		return "≥ "
	case claim.MoreThan:
		return "> "
	case claim.AtMost:
		return "≤ "
	case claim.LessThan:
		return "< "
	}
	return ""
}

// fewWords is the minimum length, in characters, of text that describes the fact after it.
const fewWords = 5

// about returns the words around a fact: its row and column, the clause of a statement, or the text before a value.
func (d *answer) about(f *claim.Claim) string {
	x := d.Sentences[f.Sentence]
	if !x.Row.IsEmpty() || !x.Column.IsEmpty() {
		return clip(strings.TrimSpace(d.head(x.Row, longestLabel) + " " + d.head(x.Column, longestLabel)))
	}
	if f.Class == claim.ClassPolarity || f.Class == claim.ClassVerdict || f.Class >= claim.ClassSet {
		clause := d.withoutLink(f.Clause)
		from := max(clause.From, min(f.From-longestLabel/2, clause.To-longestLabel))
		return d.label(passage.Span{From: from, To: min(clause.To, from+longestLabel)}, clause.From, clause.To)
	}
	from := f.Clause.From
	if f.From-from < fewWords {
		from = x.From
	}
	label := d.label(passage.Span{From: max(from, f.From-longestLabel), To: f.From}, from, f.From)
	if utf8.RuneCountInString(label) >= fewWords {
		return label
	}
	if about := d.label(passage.Span{From: x.Label.From, To: min(x.Label.To, x.Label.From+longestLabel)}, x.Label.From,
		x.Label.To); !x.Label.IsEmpty() && x.Label.To <= f.From && !strings.HasPrefix(label, about) {
		return clip(strings.TrimSpace(about + " " + label))
	}
	if utf8.RuneCountInString(label) < 2 {
		return d.label(passage.Span{From: f.Clause.From, To: min(f.Clause.To, f.Clause.From+longestLabel)}, f.Clause.From,
			f.Clause.To)
	}
	return label
}

// withoutLink returns a clause without the English word that links it to the one before it.
func (d *answer) withoutLink(clause passage.Span) passage.Span {
	from := d.Blanks(clause.From)
	for _, word := range []string{"and ", "but ", "or "} {
		if d.Has(from, word) {
			clause.From = from + len(word)
		}
	}
	return clause
}

// markup removes the Markdown marks inside a label.
var markup = strings.NewReplacer("`", "", "*", "")

// isWithin reports whether a cut before a character would divide a word or a number: 800,|000.
func (d *answer) isWithin(i int) bool {
	isPart := func(i int) bool { return passage.IsLatin(d.At(i)) || passage.IsDigit(d.At(i)) }
	isSeparator := func(i int) bool {
		return (d.At(i) == ',' || d.At(i) == '.') && passage.IsDigit(d.At(i-1)) && passage.IsDigit(d.At(i+1))
	}
	return isPart(i-1) && isPart(i) || isSeparator(i-1) || isSeparator(i)
}

// label returns the words of a span without the marks around them. If the span is cut out of the text from – to, the
// label begins and ends at a word boundary and, where possible, at a clause boundary.
func (d *answer) label(s passage.Span, from, to int) string {
	if s.From > from {
		for i := s.From; i < s.To-fewWords; i++ {
			if d.IsClauseEnd(i) {
				s.From = i + 1
				break
			}
		}
		for s.From < s.To && d.isWithin(s.From) {
			s.From++
		}
		for s.From > from && strings.ContainsRune("未不没无非", d.At(s.From-1)) { // as in 未满 16 周岁 (under 16)
			s.From--
		}
	}
	for s.To < to && d.isWithin(s.To) && s.To > s.From+fewWords {
		s.To--
	}
	for s.From < s.To && isMark(d.Runes[s.From]) {
		s.From++
	}
	for s.To > s.From && isMark(d.Runes[s.To-1]) {
		s.To--
	}
	return clip(whole(markup.Replace(d.Slice(s)))) // the source still contains marks that the text leaves out
}

// opening and closing are the brackets that a label may contain.
const opening, closing = "(（[【「『《〔", ")）]】」』》〕"

// whole removes the brackets whose counterparts were cut off.
func whole(label string) string {
	runes := []rune(label)
	var open []int
	for i, r := range runes {
		switch {
		case strings.ContainsRune(opening, r):
			open = append(open, i)
		case !strings.ContainsRune(closing, r):
		case len(open) > 0:
			open = open[:len(open)-1]
		default:
			runes[i] = -1
		}
	}
	for _, i := range open {
		runes[i] = ' ' // 端口（6432 becomes 端口 6432
	}
	runes = slices.DeleteFunc(runes, func(r rune) bool { return r < 0 })
	return strings.TrimSpace(string(runes))
}

// isMark reports whether r is a mark that is removed from the beginning and the end of a label.
func isMark(r rune) bool {
	switch r {
	case ' ', '”', '"', '\'', '(', ')', '|', ':', ';', ',', '.', '，', '。', '、', '！', '!', '?', '？', '=', '×', '/', '-',
		'–', '〔', '〕', '>', '•':
		return true
	}
	return false
}

// head returns the first characters of a span, as they are written in the answer.
func (d *answer) head(s passage.Span, characters int) string {
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
