// Package claim reads the claims of an answer in one pass over its text: numbers with their units and limits, money,
// dates, times, citations, codes, choices, mutually exclusive words, and statements that affirm, allow, demand or deny
// something. It reads mixed Chinese and English, and recognises that claims in different notations mean the same.
package claim

import (
	"strings"

	"wending/db/measure/passage"
)

// A Class groups claims that can contradict each other.
type Class uint8

// The classes of claims; those before ClassDate are quantities.
const (
	ClassCount Class = iota
	classMass
	classVolume
	classLength
	classArea
	classSpeed
	classBytes
	classFrequency
	classTemperature
	classElectric
	classEnergy
	ClassDuration
	ClassMoney
	ClassPercent
	ClassDate
	ClassTime
	ClassCitation
	ClassWork
	classOrdinal
	ClassVersion
	ClassCode
	ClassURL
	ClassWeekday
	ClassChoice
	ClassVerdict
	ClassPolarity
	ClassSet // ClassSet and the classes after it are sets of mutually exclusive words
)

// A Bound is the kind of limit that a number states.
type Bound uint8

// The kinds of limits; Exact means that there is none. after and before are used for events only.
const (
	Exact Bound = iota
	AtLeast
	MoreThan
	AtMost
	LessThan
	after
	before
)

// IsLower reports whether the bound is a minimum.
func (b Bound) IsLower() bool { return b == AtLeast || b == MoreThan }

func (b Bound) isUpper() bool { return b == AtMost || b == LessThan }

// Completes reports whether two limits on one number meet: each begins where the other ends.
func (b Bound) Completes(o Bound) bool {
	return b == AtMost && o == MoreThan || b == MoreThan && o == AtMost || b == AtLeast && o == LessThan ||
		b == LessThan && o == AtLeast
}

// Contradicts reports whether no number is within both limits.
func (b Bound) Contradicts(o Bound) bool {
	switch {
	case b == Exact || o == Exact:
		return false
	case b.IsLower() && o.isUpper(), b.isUpper() && o.IsLower():
		return true
	case b == after && (o == before || o.isUpper()), o == after && (b == before || b.isUpper()):
		return true
	}
	return false
}

// A Claim is one thing that an answer states.
type Claim struct {
	passage.Span
	Class    Class
	Key      string // equal claims of a class have equal keys
	Value    string // canonical, with its unit
	Unit     string // canonical
	per      string
	Raw      string // the number as written, without its unit
	Bound    Bound
	Event    Bound // whether a time is before or after an event
	Polarity Polarity
	Sentence int          // the number of its sentence in the document
	Clause   passage.Span // its clause within the sentence
	date     date

	amount, inUnit float64 // for a quantity: the number as written, and in its canonical unit

	IsLoose      bool // may not be a number at all; for a negation: it only reverses a comparison
	isShort      bool // its unit is a single capital letter: 500M
	isEitherHalf bool // a time that may be before or after noon: 八点

	First, Last int  // for a range: the claims at its ends
	IsWorking   bool // is part of a calculation, but not its result
}

// IsRange reports whether a claim is an end of a range.
func (f *Claim) IsRange() bool { return f.Last > f.First }

// Document is an answer that has been read.
type Document struct {
	*passage.Text
	Claims    []Claim // in the order of the text
	isInRange bool    // the second number of a range is being read
	Taken     []bool  // for each character, whether it is part of a claim
	turnedAt  int     // where the last 并不等于 (does not mean) or similar phrase ended
	reading   int     // the index of the sentence that is being read
	plainTo   int     // the position up to which a token is known to be neither an address nor a code

	// For each character outside claims: the hash of the Latin word or pair of Chinese characters that begins with it,
	// and that of the Chinese character alone; 0 if there is none.
	PairHashes, SingleHashes []uint32
}

// Read reads the claims of an answer.
func Read(answer string) *Document {
	d := newDocument(answer)
	for i := range d.Sentences {
		d.scan(i)
	}
	d.finishReading()
	return d
}

func newDocument(answer string) *Document {
	t := passage.Read(answer)
	return &Document{Text: t, Taken: make([]bool, len(t.Runes)), Claims: make([]Claim, 0, len(t.Runes)/16+4)}
}

// finishReading completes the claims: it parses amounts, joins ranges, and marks calculations. It also hashes the words
// outside claims.
func (d *Document) finishReading() {
	d.letterAlone()
	for k := range d.Claims {
		d.Claims[k].parseAmounts()
	}
	d.joinRanges()
	d.markWorking()
	d.tokenize()
}

// markWorking marks the numbers of calculations: those next to ×, ÷, + or −, and those before =.
func (d *Document) markWorking() {
	for k := range d.Claims {
		f := &d.Claims[k]
		if f.Class >= ClassDate {
			continue
		}
		before := f.From - 1
		for before >= 0 && d.Runes[before] == ' ' {
			before--
		}
		f.IsWorking = f.IsWorking || isOperator(d.At(before)) && d.hasOperand(before) || isOperator(d.At(d.Blanks(f.To))) ||
			d.At(d.Blanks(f.To)) == '='
	}
}

// hasOperand reports whether there is an operand right before an operator: ×1.5 and +$45 are not calculations.
func (d *Document) hasOperand(operator int) bool {
	i := operator - 1
	for i >= 0 && d.Runes[i] == ' ' {
		i--
	}
	return i >= 0 && (passage.IsLetter(d.Runes[i]) || passage.IsDigit(d.Runes[i]) ||
		strings.ContainsRune(")%°", d.Runes[i])) &&
		(operator-i == 1 || passage.IsDigit(d.Runes[i]) || d.Taken[i])
}

func isOperator(r rune) bool { return r == '×' || r == '÷' || r == '*' || r == '+' || r == '−' }

// joinRanges marks two claims as the ends of a range if there is only a dash, 至 or to between them, or "between" before
// them and "and" between them.
func (d *Document) joinRanges() {
	for k := 0; k+1 < len(d.Claims); k++ {
		x, y := &d.Claims[k], &d.Claims[k+1]
		if x.Class != y.Class || x.Class > ClassTime && x.Class != ClassWeekday || x.Unit != y.Unit ||
			x.Sentence != y.Sentence || y.From-x.To > 6 || y.From < x.To {
			continue
		}
		switch strings.TrimSpace(string(d.Runes[x.To:y.From])) {
		case "and", "和", "与":
			if !d.Has(x.From-len("between "), "between ") && !d.Has(x.From-2, "介于") {
				continue
			}
			x.First, x.Last = k, k+1
			y.First, y.Last = k, k+1
			k++
		case "-", "–", "~", "至", "到", "to":
			if x.Class < ClassDate && x.amount > y.amount { // a difference: 90 − 20
				x.IsWorking, y.IsWorking = true, true
				continue
			}
			x.First, x.Last = k, k+1
			y.First, y.Last = k, k+1
			k++
		}
	}
}

// scan reads the claims of a sentence.
func (d *Document) scan(n int) {
	s := d.Sentences[n]
	d.reading = n
	first := len(d.Claims)
	clause := s.From
	for i := s.From; i < s.To; {
		if r := d.Runes[i]; passage.IsHan(r) && !beginsClaim(r) {
			i++
			continue
		}
		if d.IsClauseEnd(i) {
			d.close(first, passage.Span{From: clause, To: i})
			first, clause = len(d.Claims), i+1
			i++
			continue
		}
		before := len(d.Claims)
		next := d.one(i, s.To, clause)
		if next <= i {
			i = d.Step(i, s.To)
			continue
		}
		for k := before; k < len(d.Claims); k++ {
			d.Claims[k].Sentence = n
		}
		for k := i; k < next && k < s.To; k++ {
			d.Taken[k] = true
		}
		i = next
	}
	d.close(first, passage.Span{From: clause, To: s.To})
	d.verdict(n)
}

// beginsClaim reports whether a claim can begin with the Chinese character r.
func beginsClaim(r rune) bool {
	place, bit := (r-0x3400)>>6, uint64(1)<<(r&63)
	return (quantityBits[place]|beginnings[place]|otherBits[place])&bit != 0
}

// otherBits has a bit for each Chinese character that begins an ordinal, a weekday, a choice or an exception.
var otherBits = func() (all [(0xA000 - 0x3400) >> 6]uint64) {
	for _, r := range "第周星礼选答正除" {
		all[(r-0x3400)>>6] |= 1 << (r & 63)
	}
	return all
}()

// Step returns the position after the character, or the Latin word, at i.
func (d *Document) Step(i, to int) int {
	if !passage.IsLatin(d.Runes[i]) {
		return i + 1
	}
	for i < to && (passage.IsLatin(d.Runes[i]) || passage.IsDigit(d.Runes[i])) {
		i++
	}
	return i
}

// IsClauseEnd reports whether a clause ends with the character at i.
func (d *Document) IsClauseEnd(i int) bool {
	switch d.Runes[i] {
	case '，', ':', '(', ')', '|', '–':
		return true
	case ',':
		return !passage.IsDigit(d.At(i+1)) || !passage.IsDigit(d.At(i-1))
	}
	return false
}

// close sets the clause of all claims from index first.
func (d *Document) close(first int, clause passage.Span) {
	for k := first; k < len(d.Claims); k++ {
		d.Claims[k].Clause = clause
	}
}

// one reads a claim that begins at i, and returns the position after it; i if there is none.
func (d *Document) one(i, to, clause int) int {
	r := d.Runes[i]
	isWordStart := !passage.IsLatin(d.At(i-1)) && !passage.IsDigit(d.At(i-1))
	switch {
	case r == '《':
		return d.work(i, to)
	case r == '第':
		return d.ordinal(i, to)
	case r == '周' || r == '星' || r == '礼':
		if end := d.weekday(i); end > i {
			return end
		}
	case r == '§':
		return d.section(i+1, i, to)
	case r == '/' && passage.IsLatin(d.At(i+1)) && !passage.IsLatin(d.At(i-1)) && !passage.IsDigit(d.At(i-1)) &&
		!passage.IsHan(d.At(i-1)):
		return d.path(i, to)
	}
	if isWordStart && passage.IsLatin(r) {
		if next := d.latin(i, to, clause); next > i {
			return next
		}
	}
	if next := d.quantity(i, to, clause); next > i {
		return next
	}
	if next := d.words(i, to, isWordStart); next > i {
		return next
	}
	return i
}

// add appends a claim.
func (d *Document) add(f Claim) { d.Claims = append(d.Claims, f) }

// work reads the title of a law or another work in 《…》, and returns the position after it; i if there is none.
func (d *Document) work(i, to int) int {
	for end := i + 1; end < to && end < i+60; end++ {
		if d.Runes[end] == '》' {
			name := strings.ReplaceAll(string(d.Runes[i+1:end]), " ", "")
			name = strings.TrimPrefix(name, "中华人民共和国")
			d.add(Claim{Span: passage.Span{From: i, To: end + 1}, Class: ClassWork, Key: name, Value: "《" + name + "》"})
			return end + 1
		}
	}
	return i
}

// ordinal reads a citation, such as 第五百八十五条第二款 (article 585, paragraph 2), or another ordinal, such as 第3步 (step
// 3). It returns the position after it; i if there is none.
func (d *Document) ordinal(i, to int) int {
	var key strings.Builder
	end := i
	for _, level := range []rune{'条', '款', '项'} {
		if d.At(end) != '第' {
			break
		}
		from := d.Blanks(end + 1)
		if d.At(from) == '(' || d.At(from) == '（' {
			from++
		}
		value, next := d.integer(from)
		if next == from {
			break
		}
		if d.At(next) == ')' {
			next++
		}
		next = d.Blanks(next)
		if level == '条' && d.At(next) != '条' {
			return d.otherOrdinal(i, next, to, value)
		}
		if d.At(next) != level && (level != '款' || d.At(next) != '项') {
			break
		}
		if key.Len() > 0 {
			key.WriteByte('-')
		}
		key.WriteString(value)
		end = next + 1
		if level == '条' && d.At(end) == '之' && passage.ChineseDigit(d.At(end+1)) > 0 {
			key.WriteByte('.')
			key.WriteRune('0' + rune(passage.ChineseDigit(d.At(end+1))))
			end += 2
		}
	}
	if end == i {
		return i
	}
	d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassCitation, Key: key.String(), Value: "§ " + key.String()})
	return end
}

// otherOrdinal reads the noun at next of an ordinal that does not number an article of a law: 第3步 (step 3), 第二章
// (chapter 2). It returns the position after it; i, where the ordinal begins, if there is none.
func (d *Document) otherOrdinal(i, next, to int, value string) int {
	if next >= to || !passage.IsHan(d.At(next)) {
		return i
	}
	measure := string(d.At(next))
	if after := d.At(next + 1); (measure == "步" || measure == "类") &&
		(after == '，' || after == ',' || after == ':' || after == '、') {
		return next + 1
	}
	if !isOrdinalNoun(d.At(next)) {
		return i
	}
	d.add(Claim{
		Span: passage.Span{From: i, To: next + 1}, Class: classOrdinal,
		Key: value + measure, Value: "第" + value + measure, Unit: measure,
	})
	return next + 1
}

// section reads the number at i after Section, Article, Clause or §, such as 12(b) or 21.4. It returns the position
// after it; from, where the citation begins, if there is none.
func (d *Document) section(i, from, to int) int {
	i = d.Blanks(i)
	end := i
	for end < to && (passage.IsDigit(d.At(end)) || d.At(end) == '.' && passage.IsDigit(d.At(end+1))) {
		end++
	}
	if end == i {
		return from
	}
	for d.At(end) == '(' && end+2 < to {
		closing := end + 1
		for closing < to && closing < end+5 && (passage.IsLatin(d.At(closing)) || passage.IsDigit(d.At(closing))) {
			closing++
		}
		if d.At(closing) != ')' || closing == end+1 {
			break
		}
		end = closing + 1
	}
	key := strings.ToLower(strings.NewReplacer("(", "-", ")", "").Replace(string(d.Runes[i:end])))
	d.add(Claim{Span: passage.Span{From: from, To: end}, Class: ClassCitation, Key: key, Value: "§ " + key})
	return end
}

// path reads a path such as /api/v2, and returns the position after it; i if there is none.
func (d *Document) path(i, to int) int {
	end := i
	for end < to && (passage.IsLatin(d.At(end)) || passage.IsDigit(d.At(end)) || strings.ContainsRune("/-_.", d.At(end))) {
		end++
	}
	for end > i && d.At(end-1) == '.' {
		end--
	}
	if end-i < 3 {
		return i
	}
	key := string(d.Runes[i:end])
	d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassCode, Key: key, Value: key})
	return end
}

// longestToken is the maximum number of characters of an address or code that are read.
const longestToken = 512

func (d *Document) isTokenPart(i int) bool {
	r := d.Runes[i]
	return passage.IsLatin(r) || passage.IsDigit(r) || r < 0x80 && strings.IndexByte("-_./:@?=&%+#~", byte(r)) >= 0
}

// latin reads a claim that begins with a Latin word: an address, code, citation, choice, weekday, date or amount of
// money. It returns the position after it; i if there is none.
func (d *Document) latin(i, to, clause int) int {
	end := i
	isPlain := true
	for limit := min(to, i+longestToken); i >= d.plainTo && end < limit && d.isTokenPart(end); end++ {
		if r := d.Runes[end]; isPlain && !passage.IsLatin(r) {
			isPlain = strings.IndexByte("-:?=&%+#~", byte(r)) >= 0
		}
	}
	for end > i && strings.ContainsRune(".:-?/~", d.At(end-1)) {
		end--
	}
	token := "" // set if it can be an address or a code
	switch {
	case i < d.plainTo:
	case isPlain:
		d.plainTo = end
	default:
		token = string(d.Runes[i:end])
		if !strings.ContainsAny(token, "0123456789@._/") {
			d.plainTo = end
		}
	}
	switch {
	case strings.Contains(token, "://") || strings.HasPrefix(token, "www."):
		key := strings.ToLower(strings.TrimSuffix(token, "/"))
		d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassURL, Key: key, Value: token})
		return end
	case strings.Contains(token, "@") && strings.Contains(token, "."):
		d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassURL, Key: strings.ToLower(token), Value: token})
		return end
	}
	word, next := d.word(i, to)
	switch word {
	case "section", "sections", "article", "clause", "art", "sec":
		if d.At(next) == '.' {
			next++
		}
		return d.section(next, i, to)
	case "option", "answer", "choice":
		return d.choice(i, next, to)
	}
	if day := passage.EnglishWeekdays[word]; day > 0 && !passage.IsLatin(d.At(next)) && (next-i > 3 || d.Runes[i] < 'a') {
		return d.addWeekday(i, next, day)
	}
	if month := passage.EnglishMonths[word]; month > 0 {
		if end := d.monthFirst(i, next, to, month); end > i {
			return end
		}
	}
	if d.At(next) == '$' && dollars[word] != "" && passage.IsDigit(d.At(next+1)) {
		if end := d.money(i, next+1, to, clause, dollars[word]); end > i {
			return end
		}
	}
	if currency := currencies[word]; currency != "" {
		from := d.Blanks(next)
		if d.At(from) == '$' || d.At(from) == '¥' {
			from++
		}
		if passage.IsDigit(d.At(from)) {
			if end := d.money(i, from, to, clause, currency); end > i {
				return end
			}
		}
	}
	return d.identifier(i, end, to, token)
}

// identifier reads a name with digits, such as CA8T6K, TW-2031, v1.2 or the S24 Ultra of Galaxy S24 Ultra, that begins
// with the token from i to end. It returns the position after the name; i if there is none.
func (d *Document) identifier(i, end, to int, token string) int {
	if cut := strings.IndexAny(token, ":=?@&%+#~"); cut >= 0 {
		token = token[:cut]
		end = i + len([]rune(token))
	}
	hasDigit := strings.ContainsAny(token, "0123456789")
	isDotted := strings.ContainsAny(token, "_") || strings.Contains(token, ".") && len(token) > 5 &&
		!strings.Contains(token, "..")
	if !hasDigit && !isDotted || len(token) < 2 {
		return i
	}
	if version := strings.TrimLeft(strings.ToLower(token), "v"); len(version) == len(token)-1 && isVersion(version) {
		d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassVersion, Key: trimVersion(version), Value: version})
		return end
	}
	key := strings.ToLower(token)
	next := d.Blanks(end)
	if word, after := d.word(next, to); models[word] {
		key += " " + word
		end = after
	}
	d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassCode, Key: key, Value: string(d.Runes[i:end])})
	return end
}

var models = set("ultra pro max plus mini air lite se fe")

// isVersion reports whether s consists of digits, x and dots, and neither begins nor ends with a dot.
func isVersion(s string) bool {
	if s == "" || s[0] == '.' || s[len(s)-1] == '.' {
		return false
	}
	for _, r := range s {
		if r != '.' && !passage.IsDigit(r) && r != 'x' {
			return false
		}
	}
	return true
}

func trimVersion(s string) string {
	for strings.HasSuffix(s, ".0") && strings.Count(s, ".") > 1 {
		s = strings.TrimSuffix(s, ".0")
	}
	return s
}

// word returns the Latin word at i in lower case, or otherWord if it is not in words, and the position after it; "" and
// i if there is no word.
func (d *Document) word(i, to int) (string, int) {
	var small [24]byte
	n := 0
	for i < to && n < len(small) && passage.IsLatin(d.Runes[i]) && d.Runes[i] < 0x80 {
		small[n] = byte(passage.Lower(d.Runes[i]))
		n++
		i++
	}
	if n == 0 {
		return "", i
	}
	if word, isKnown := words[string(small[:n])]; isKnown {
		return word, i
	}
	return otherWord, i
}

// otherWord represents all words that are not in words.
const otherWord = "?"

// words maps the known words to themselves, so that looking one up needs no allocation.
var words = func() map[string]string {
	all := map[string]string{}
	for _, list := range []map[string]string{currencies, dollars} {
		for word := range list {
			all[word] = word
		}
	}
	for _, list := range []map[string]int{passage.EnglishMonths, passage.EnglishWeekdays} {
		for word := range list {
			all[word] = word
		}
	}
	for word := range passage.EnglishNumbers {
		all[word] = word
	}
	for word := range units {
		all[word] = word
	}
	for word := range models {
		all[word] = word
	}
	for _, word := range strings.Fields(
		"st nd rd th section sections article clause art sec option answer choice business working work calendar m") {
		all[word] = word
	}
	return all
}()

// choice reads the letters of the chosen options at i, such as A in 选 A, 答案是 (A) or option A. It returns the position
// after them; from, where the whole phrase begins, if there are none.
func (d *Document) choice(from, i, to int) int {
	for range 3 {
		i = d.Blanks(i)
		switch {
		case d.Has(i, "应为"), d.Has(i, "应选"), d.Has(i, "选项"), d.Has(i, "is"):
			i += 2
		case d.At(i) == ':' || d.At(i) == '是' || d.At(i) == '为' || d.At(i) == '选' || d.At(i) == '(':
			i++
		}
	}
	i = d.Blanks(i)
	letters, end := d.letters(i, to)
	if letters == "" {
		return from
	}
	d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassChoice, Key: letters, Value: letters})
	return end
}

// letters reads the letters of the chosen options, which must be in order, at i: C, ABD, A、C, B 和 D. It returns "" if
// there are none.
func (d *Document) letters(i, to int) (letters string, end int) {
	last := rune('A' - 1)
	isNext := func(i int) bool { return i < to && d.Runes[i] > last && d.Runes[i] <= 'H' }
	for end = i; isNext(i); {
		last = d.Runes[i]
		letters += string(last)
		i++
		end = i
		if at := d.Blanks(i); strings.ContainsRune("、,，和与及", d.At(at)) && isNext(d.Blanks(at+1)) {
			i = d.Blanks(at + 1)
		}
	}
	if passage.IsLatin(d.At(end)) || passage.IsDigit(d.At(end)) {
		return "", end
	}
	return letters, end
}

// letterAlone turns an answer that consists only of the letters of the chosen options into a claim: C.
func (d *Document) letterAlone() {
	if len(d.Sentences) != 1 || len(d.Claims) > 0 {
		return
	}
	s := d.Sentences[0].Span
	for s.From < s.To && d.Runes[s.From] == '(' {
		s.From++
	}
	letters, end := d.letters(s.From, s.To)
	if letters == "" {
		return
	}
	for i := end; i < s.To; i++ {
		if !strings.ContainsRune(" .。)", d.Runes[i]) {
			return
		}
	}
	d.add(Claim{Span: passage.Span{From: s.From, To: end}, Class: ClassChoice, Key: letters, Value: letters, Clause: s})
	for i := s.From; i < end; i++ {
		d.Taken[i] = true
	}
}

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(words) {
		all[word] = true
	}
	return all
}

// isOrdinalNoun reports whether r can follow 第 and a number: 第三章 (chapter 3), 第二周 (week 2).
func isOrdinalNoun(r rune) bool {
	return strings.ContainsRune("步章节页次届名位期级类版学年季周天阶", r)
}

// tokenize hashes the words, characters and pairs of characters that are not part of a claim.
func (d *Document) tokenize() {
	d.PairHashes, d.SingleHashes = make([]uint32, len(d.Runes)), make([]uint32, len(d.Runes))
	var buffer [24]byte
	for i := 0; i < len(d.Runes); i++ {
		r := d.Runes[i]
		switch {
		case d.Taken[i]:
		case passage.IsHan(r):
			isFunction := passage.IsFunctionCharacter(r)
			if next := d.At(i + 1); passage.IsHan(next) && !d.Taken[i+1] && (!isFunction || !passage.IsFunctionCharacter(next)) {
				d.PairHashes[i] = passage.HashPair(r, next)
			}
			if !isFunction {
				d.SingleHashes[i] = passage.HashPair(r, 0)
			}
		case passage.IsLatin(r) || passage.IsDigit(r):
			word := buffer[:0]
			end := i
			for end < len(d.Runes) && (passage.IsLatin(d.Runes[end]) || passage.IsDigit(d.Runes[end])) && !d.Taken[end] {
				if r := passage.Lower(d.Runes[end]); r < 0x80 && len(word) < len(buffer) {
					word = append(word, byte(r))
				}
				end++
			}
			d.PairHashes[i] = passage.HashWord(word)
			i = end - 1
		}
	}
}
