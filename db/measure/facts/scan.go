package facts

import (
	"cmp"
	"strconv"
	"strings"

	"wending/db/measure/passage"
)

// class groups facts that can contradict each other.
type class uint8

const (
	classCount class = iota
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
	classDuration
	classMoney
	classPercent
	classDate
	classTime
	classCitation
	classWork
	classOrdinal
	classVersion
	classCode
	classURL
	classWeekday
	classChoice
	classVerdict
	classPolarity
	classSet // and those after it: one for each set of words that exclude each other
)

// bound is how a number limits.
type bound uint8

const (
	exact bound = iota
	atLeast
	moreThan
	atMost
	lessThan
	after
	before
)

func (b bound) isLower() bool { return b == atLeast || b == moreThan }
func (b bound) isUpper() bool { return b == atMost || b == lessThan }

// completes reports whether of two limits at one number each begins where the other one ends.
func (b bound) completes(o bound) bool {
	return b == atMost && o == moreThan || b == moreThan && o == atMost || b == atLeast && o == lessThan || b == lessThan && o == atLeast
}

// contradicts reports whether two limits cannot both be meant.
func (b bound) contradicts(o bound) bool {
	switch {
	case b == exact || o == exact:
		return false
	case b.isLower() && o.isUpper(), b.isUpper() && o.isLower():
		return true
	case b == after && (o == before || o.isUpper()), o == after && (b == before || b.isUpper()):
		return true
	}
	return false
}

// fact is a Fact with what comparing needs.
type fact struct {
	passage.Span
	kind     Kind
	class    class
	key      string // equal facts of a class have equal keys
	value    string
	unit     string
	per      string
	raw      string // the number as written, without its unit
	bound    bound
	event    bound // before or after something that happens
	polarity polarity
	sentence int
	clause   passage.Span
	date     date

	isLoose      bool // may state no number
	isEitherHalf bool // a time that may be before or after noon: 八点

	first, last int  // of a range: the facts at its ends
	isWorking   bool // is part of a calculation, and not its result
}

// isRange reports whether a fact is an end of a range.
func (f *fact) isRange() bool { return f.last > f.first }

// document is an answer that has been read.
type document struct {
	*passage.Text
	facts     []fact
	isInRange bool   // the second number of a range is being read
	taken     []bool // characters that belong to a fact
	turnedAt  int    // where the last 并不等于 ended
	reading   int    // the sentence that is being read
	plainTo   int    // up to where a token is known to be neither an address nor a code

	pairHashes, singleHashes []uint32 // by character, of what is not part of a fact
	signatures               []uint64 // by sentence
}

func read(answer string) *document {
	t := passage.Read(answer)
	d := &document{
		Text: t, taken: make([]bool, len(t.Runes)),
		facts: make([]fact, 0, len(t.Runes)/16+4),
	}
	for i := range d.Sentences {
		d.scan(i)
	}
	d.joinRanges()
	d.markWorking()
	d.tokenize()
	d.signatures = d.Signatures()
	return d
}

// markWorking marks the numbers of calculations: what is beside ×, ÷, + or −, and what is before =.
func (d *document) markWorking() {
	for k := range d.facts {
		f := &d.facts[k]
		if f.class >= classDate {
			continue
		}
		before := f.From - 1
		for before >= 0 && d.Runes[before] == ' ' {
			before--
		}
		f.isWorking = f.isWorking || isOperator(d.At(before)) && d.hasOperand(before) || isOperator(d.At(d.Blanks(f.To))) || d.At(d.Blanks(f.To)) == '='
	}
}

// hasOperand reports whether something stands right before an operator: ×1.5 and +$45 are no calculations.
func (d *document) hasOperand(operator int) bool {
	i := operator - 1
	for i >= 0 && d.Runes[i] == ' ' {
		i--
	}
	return i >= 0 && (passage.IsLetter(d.Runes[i]) || passage.IsDigit(d.Runes[i]) || strings.ContainsRune(")%°", d.Runes[i])) &&
		(operator-i == 1 || passage.IsDigit(d.Runes[i]) || d.taken[i])
}

func isOperator(r rune) bool { return r == '×' || r == '÷' || r == '*' || r == '+' || r == '−' }

// joinRanges makes one value of two facts with nothing but a dash, 至 or to between them.
func (d *document) joinRanges() {
	for k := 0; k+1 < len(d.facts); k++ {
		x, y := &d.facts[k], &d.facts[k+1]
		if x.class != y.class || x.class > classTime && x.class != classWeekday || x.unit != y.unit || x.sentence != y.sentence || y.From-x.To > 6 || y.From < x.To {
			continue
		}
		switch strings.TrimSpace(string(d.Runes[x.To:y.From])) {
		case "and", "和", "与":
			if !d.Has(x.From-len("between "), "between ") && !d.Has(x.From-2, "介于") {
				continue
			}
			x.first, x.last = k, k+1
			y.first, y.last = k, k+1
			k++
		case "-", "–", "~", "至", "到", "to":
			if x.class < classDate && x.amount() > y.amount() { // a difference: 90 − 20
				x.isWorking, y.isWorking = true, true
				continue
			}
			x.first, x.last = k, k+1
			y.first, y.last = k, k+1
			k++
		}
	}
}

// amount is the number as written, without its unit.
func (f *fact) amount() float64 {
	amount, err := strconv.ParseFloat(cmp.Or(f.raw, strings.TrimRight(f.key, "|ABCDEFGHIJKLMNOPQRSTUVWXYZ%折")), 64)
	if err != nil {
		return 0
	}
	return amount
}

// inUnit is the number in its canonical unit.
func (f *fact) inUnit() float64 {
	end := 0
	for end < len(f.key) && (passage.IsDigit(rune(f.key[end])) || f.key[end] == '.' || f.key[end] == '-' && end == 0) {
		end++
	}
	amount, err := strconv.ParseFloat(f.key[:end], 64)
	if err != nil {
		return 0
	}
	return amount
}

// scan reads the facts of a sentence.
func (d *document) scan(n int) {
	s := d.Sentences[n]
	d.reading = n
	first := len(d.facts)
	clause := s.From
	for i := s.From; i < s.To; {
		if d.isClauseEnd(i) {
			d.close(first, passage.Span{From: clause, To: i})
			first, clause = len(d.facts), i+1
			i++
			continue
		}
		before := len(d.facts)
		next := d.one(i, s.To, clause)
		if next <= i {
			i = d.step(i, s.To)
			continue
		}
		for k := before; k < len(d.facts); k++ {
			d.facts[k].sentence = n
		}
		for k := i; k < next && k < s.To; k++ {
			d.taken[k] = true
		}
		i = next
	}
	d.close(first, passage.Span{From: clause, To: s.To})
	d.verdict(n)
}

// step goes on by a character, or behind a Latin word.
func (d *document) step(i, to int) int {
	if !passage.IsLatin(d.Runes[i]) {
		return i + 1
	}
	for i < to && (passage.IsLatin(d.Runes[i]) || passage.IsDigit(d.Runes[i])) {
		i++
	}
	return i
}

func (d *document) isClauseEnd(i int) bool {
	switch d.Runes[i] {
	case '，', ':', '(', ')', '|', '–':
		return true
	case ',':
		return !passage.IsDigit(d.At(i+1)) || !passage.IsDigit(d.At(i-1))
	}
	return false
}

// close gives the facts since first their clause.
func (d *document) close(first int, clause passage.Span) {
	for k := first; k < len(d.facts); k++ {
		d.facts[k].clause = clause
	}
}

// one reads the fact that begins at i, if one does, and returns where it ends.
func (d *document) one(i, to, clause int) int {
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
	case r == '/' && passage.IsLatin(d.At(i+1)) && !passage.IsLatin(d.At(i-1)) && !passage.IsDigit(d.At(i-1)) && !passage.IsHan(d.At(i-1)):
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

// add notes a fact.
func (d *document) add(f fact) { d.facts = append(d.facts, f) }

// work reads 《…》.
func (d *document) work(i, to int) int {
	for end := i + 1; end < to && end < i+60; end++ {
		if d.Runes[end] == '》' {
			name := strings.ReplaceAll(string(d.Runes[i+1:end]), " ", "")
			name = strings.TrimPrefix(name, "中华人民共和国")
			d.add(fact{Span: passage.Span{From: i, To: end + 1}, kind: Citation, class: classWork, key: name, value: "《" + name + "》"})
			return end + 1
		}
	}
	return i
}

// ordinal reads 第五百八十五条第二款, 第3步.
func (d *document) ordinal(i, to int) int {
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
	d.add(fact{Span: passage.Span{From: i, To: end}, kind: Citation, class: classCitation, key: key.String(), value: "§ " + key.String()})
	return end
}

// otherOrdinal reads an ordinal that is not of a law: 第3步, 第二章.
func (d *document) otherOrdinal(i, next, to int, value string) int {
	if next >= to || !passage.IsHan(d.At(next)) {
		return i
	}
	measure := string(d.At(next))
	if after := d.At(next + 1); measure == "步" && (after == '，' || after == ',' || after == ':' || after == '、') {
		return next + 1
	}
	if !isOrdinalNoun(d.At(next)) {
		return i
	}
	d.add(fact{
		Span: passage.Span{From: i, To: next + 1}, kind: Number, class: classOrdinal,
		key: value + measure, value: "第" + value + measure, unit: measure,
	})
	return next + 1
}

// section reads what follows Section, Article, Clause or §: 12(b), 21.4.
func (d *document) section(i, from, to int) int {
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
	d.add(fact{Span: passage.Span{From: from, To: end}, kind: Citation, class: classCitation, key: key, value: "§ " + key})
	return end
}

// path reads /api/v2.
func (d *document) path(i, to int) int {
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
	d.add(fact{Span: passage.Span{From: i, To: end}, kind: Code, class: classCode, key: key, value: key})
	return end
}

// longestToken is how many characters of an address or a code are read.
const longestToken = 512

func (d *document) isTokenPart(i int) bool {
	r := d.Runes[i]
	return passage.IsLatin(r) || passage.IsDigit(r) || r < 0x80 && strings.IndexByte("-_./:@?=&%+#~", byte(r)) >= 0
}

// latin reads what begins with a Latin letter: addresses, codes, citations, months, numbers in words, currencies.
func (d *document) latin(i, to, clause int) int {
	end := i
	for limit := min(to, i+longestToken); i >= d.plainTo && end < limit && d.isTokenPart(end); {
		end++
	}
	for end > i && strings.ContainsRune(".:-?/~", d.At(end-1)) {
		end--
	}
	token := ""
	if i >= d.plainTo {
		token = string(d.Runes[i:end])
		if !strings.ContainsAny(token, "0123456789@._/") {
			d.plainTo = end
		}
	}
	switch {
	case strings.Contains(token, "://") || strings.HasPrefix(token, "www."):
		key := strings.ToLower(strings.TrimSuffix(token, "/"))
		d.add(fact{Span: passage.Span{From: i, To: end}, kind: Code, class: classURL, key: key, value: token})
		return end
	case strings.Contains(token, "@") && strings.Contains(token, "."):
		d.add(fact{Span: passage.Span{From: i, To: end}, kind: Code, class: classURL, key: strings.ToLower(token), value: token})
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

// identifier reads a name with digits: CA8T6K, TW-2031, v1.2, Galaxy S24 Ultra.
func (d *document) identifier(i, end, to int, token string) int {
	if cut := strings.IndexAny(token, ":=?@&%+#~"); cut >= 0 {
		token = token[:cut]
		end = i + len([]rune(token))
	}
	hasDigit := strings.ContainsAny(token, "0123456789")
	isDotted := strings.ContainsAny(token, "_") || strings.Contains(token, ".") && len(token) > 5 && !strings.Contains(token, "..")
	if !hasDigit && !isDotted || len(token) < 2 {
		return i
	}
	if version := strings.TrimLeft(strings.ToLower(token), "v"); len(version) == len(token)-1 && isVersion(version) {
		d.add(fact{Span: passage.Span{From: i, To: end}, kind: Code, class: classVersion, key: trimVersion(version), value: version})
		return end
	}
	key := strings.ToLower(token)
	next := d.Blanks(end)
	if word, after := d.word(next, to); models[word] {
		key += " " + word
		end = after
	}
	d.add(fact{Span: passage.Span{From: i, To: end}, kind: Code, class: classCode, key: key, value: string(d.Runes[i:end])})
	return end
}

var models = set("ultra pro max plus mini air lite se fe")

// isVersion reports whether s is digits with dots between them.
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

// word returns the Latin word at i in small letters and where it ends.
func (d *document) word(i, to int) (string, int) {
	var small [24]byte
	n := 0
	for i < to && n < len(small) && passage.IsLatin(d.Runes[i]) && d.Runes[i] < 0x80 {
		small[n] = byte(passage.Lower(d.Runes[i]))
		n++
		i++
	}
	return string(small[:n]), i
}

// choice reads A in 选 A, 答案是 (A), option A.
func (d *document) choice(from, i, to int) int {
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
	r := d.At(i)
	if i >= to || r < 'A' || r > 'H' || passage.IsLatin(d.At(i+1)) || passage.IsDigit(d.At(i+1)) {
		return from
	}
	end := i + 1
	d.add(fact{Span: passage.Span{From: i, To: end}, kind: Choice, class: classChoice, key: string(r), value: string(r)})
	return end
}

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(words) {
		all[word] = true
	}
	return all
}

// isOrdinalNoun reports whether r is what 第 and a number count: 第三章, 第二周.
func isOrdinalNoun(r rune) bool {
	return strings.ContainsRune("步章节页次届名位期级类版学年季周天阶", r)
}
