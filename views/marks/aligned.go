package marks

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"wending/db"
	"wending/db/measure"
	"wending/db/measure/blocks"
	"wending/db/measure/facts"
	"wending/db/report"
	"wending/views/text"
)

const (
	// markFor limits the time for finding differences inside the blocks of one question; after that, differences
	// become coarse.
	markFor = 100 * time.Millisecond
	// usualAnswers is the maximum total size, in bytes, of a usual question's distinct answers: 20 answers of 1,000
	// Chinese characters. mostLaid is the maximum number of bytes of answers that are laid out with a page, enough for
	// 20 such questions; the remaining questions are laid out when a reader opens them.
	usualAnswers = 20 * 3500
	mostLaid     = 20 * usualAnswers
	// lightAnswer is the size, in bytes, up to which an answer is searched in full for the wording of its facts.
	lightAnswer = 40_000
	// foldedHere is the maximum total size, in bytes, of a question's answers that differ in wording from the most common
	// one; if they are longer, the question's folds are loaded when they are opened.
	foldedHere = 40_000
	// heldFolds is the maximum total size, in bytes, of the answers whose folded content is sent with a page. The folds
	// of the remaining questions are loaded when they are opened, so that most of a page is visible content.
	heldFolds = 40_000
)

// laidOut is the layout of a question's distinct answers, block by block. Once made, it does not change.
type laidOut struct {
	*blocks.Reading
	// haveFacts reports that the answers contradict each other on a fact that was found in their text.
	haveFacts bool
	places    []place
	// stating maps the values of facts, as written, to the numbers of the places that state them.
	stating map[string]int
	// length is the answers' total size in bytes, and folded is the size of those that differ in wording from the most
	// common answer.
	length, folded int
}

// Distinct is one of a question's distinct answers.
type Distinct struct {
	Letter string
	// Text is the answer, verbatim from the first run that gave it.
	Text string
	Runs []db.Run
}

// Relation says how an answer differs from the most common one.
type Relation string

// How an answer can differ from the most common one.
const (
	Same      Relation = "same"      // no difference
	InFacts   Relation = "facts"     // different facts
	Different Relation = "different" // entirely different
	InWords   Relation = "wording"   // different wording
)

// Question is a question whose answers are shown side by side.
type Question struct {
	Task db.Task
	// ID is the id of the question's element, and Href is the address of the question's page.
	ID, Href string
	// Answers are in the order of their letters: most common first.
	Answers []Distinct
	// Alike holds the facts on which the answers of each variant differ.
	Alike report.Question
	// Relation returns how the answer with a letter differs from the most common one.
	Relation func(letter string) Relation
	// About renders remarks on an answer; nil shows none.
	About func(Distinct) templ.Component
	// IsWritten shows answers in their source form. IsDocument is set for a page that contains everything at once.
	IsWritten, IsDocument bool
	// Layouts caches the layouts of answers; nil means no cache.
	Layouts *Layouts
	// Allowance counts what the question's page has laid out; nil means no limit. IsSearched reports that the reader
	// is searching for a text, which may be inside a fold.
	Allowance  *Allowance
	IsSearched bool
}

// Aligned holds the answers to a question, for display side by side.
type Aligned struct {
	Question
	// IsPostponed reports that these answers are not laid out, because the page already has too many.
	IsPostponed bool
	*laidOut
	written Answers
	// comesLater reports whether folded content is loaded from the address laterAt when it is opened.
	comesLater bool
	laterAt    string
	spent      time.Duration
}

// place is a block of the answers, or several consecutive blocks that belong to the same answers.
type place struct {
	number int
	units  []blocks.Unit
	degree blocks.Degree
}

// Align aligns the answers to a question; nil if there are fewer than two.
func Align(q Question) *Aligned {
	if len(q.Answers) < 2 {
		return nil
	}
	q.Answers = q.typicalFirst()
	a := Aligned{Question: q, laterAt: q.Href + "?"}
	var key layoutKey
	if q.Layouts != nil {
		key = q.layoutKey()
		a.laidOut = q.Layouts.of(key)
	}
	switch {
	case a.laidOut != nil:
	case !q.Allowance.allows(q.length()) && !q.IsDocument:
		a.laidOut, a.IsPostponed = &laidOut{}, true
		return &a
	default:
		q.Allowance.Take(q.length())
		a.laidOut = q.layOut()
		q.Layouts.keep(key, a.laidOut)
	}
	a.written = Answers{Reading: a.Reading, IsWritten: q.IsWritten, Timed: a.timed}
	isHeld := q.Allowance.holds(a.laidOut.length) || q.IsSearched
	a.comesLater = (a.folded > foldedHere || !isHeld) && !q.IsDocument
	return &a
}

// HaveFacts reports whether the answers contradict each other on a fact that was found in their text.
func (a *Aligned) HaveFacts() bool { return a.haveFacts }

// timed calls find with the time that is left for the question's differences, and deducts the time that find takes.
func (a *Aligned) timed(find func(within time.Duration)) {
	start := time.Now()
	find(markFor - a.spent)
	a.spent += time.Since(start)
}

// layOut aligns the answers and arranges their blocks in places.
func (q Question) layOut() *laidOut {
	answers := make([]blocks.Answer, len(q.Answers))
	l := laidOut{stating: map[string]int{}, length: q.length()}
	for n, one := range q.Answers {
		answers[n] = blocks.Answer{Text: one.Text, Terms: q.terms(one)}
	}
	l.Reading = blocks.Align(answers)
	l.arrange()
	for _, p := range l.places {
		l.haveFacts = l.haveFacts || p.degree == blocks.Fact
		for _, unit := range p.units {
			for _, other := range unit.Others {
				if l.folded += len(other.Text); other.Degree == blocks.Fact {
					l.note(p, other)
				}
			}
		}
	}
	for _, n := range l.Apart {
		l.folded += len(answers[n].Text)
	}
	return &l
}

// typicalFirst returns the answers, beginning with the reference against which the others are marked: the most common
// answer or, if several are equally common, the one that differs from the majority of runs on the fewest facts.
func (q Question) typicalFirst() []Distinct {
	best, least := 0, q.rareFacts(q.Answers[0])
	for n, one := range q.Answers[1:] {
		if len(one.Runs) < len(q.Answers[0].Runs) || least == 0 {
			break
		}
		if rare := q.rareFacts(one); rare < least {
			best, least = n+1, rare
		}
	}
	if best == 0 {
		return q.Answers
	}
	return slices.Concat(q.Answers[best:best+1], q.Answers[:best], q.Answers[best+1:])
}

// rareFacts counts the facts on which an answer differs from the majority of runs.
func (q Question) rareFacts(one Distinct) (count int) {
	for _, run := range one.Runs {
		for _, fact := range Conflicts(q.Alike.Likeness(run.Variant).Facts) {
			if IsRare(fact, run.RunIndex, run.RunIndex) {
				count++
			}
		}
	}
	return count
}

// IsRare reports whether a run's value for a fact differs from the most common one. most is the index of the run whose
// value counts as the most common if several values are equally common.
func IsRare(fact measure.Fact, run, most int) bool {
	usual := 0
	for n, value := range fact.Values {
		if len(value.Runs) == len(fact.Values[0].Runs) && slices.Contains(value.Runs, most) {
			usual = n
		}
	}
	return slices.ContainsFunc(fact.Values, func(value measure.Value) bool { return slices.Contains(value.Runs, run) }) &&
		!slices.Contains(fact.Values[usual].Runs, run)
}

// length returns the total size in bytes of the distinct answers.
func (q Question) length() (length int) {
	for _, one := range q.Answers {
		length += len(one.Text)
	}
	return length
}

// note records the place that states values of a fact; the first place wins.
func (l *laidOut) note(p place, other blocks.Other) {
	for _, term := range slices.Concat(other.Against, other.Terms) {
		if _, isKnown := l.stating[term]; !isKnown {
			l.stating[term] = p.number
		}
	}
}

// arrange groups the units into places: consecutive units that only the same answers have share a place.
func (l *laidOut) arrange() {
	for n, unit := range l.Units {
		if last := len(l.places) - 1; last >= 0 && onlyThere(unit) && sameVoices(l.places[last].units[0], unit) {
			l.places[last].units = append(l.places[last].units, unit)
			continue
		}
		l.places = append(l.places, place{number: n, units: []blocks.Unit{unit}, degree: unit.Degree})
	}
}

// onlyThere reports whether some answers have a unit and all others have nothing in its place.
func onlyThere(unit blocks.Unit) bool {
	if unit.Text == "" {
		return len(unit.Others) == 1
	}
	return len(unit.Others) == 1 && unit.Others[0].Text == ""
}

// sameVoices reports whether two units belong to the same answers.
func sameVoices(one, other blocks.Unit) bool {
	return onlyThere(one) && (one.Text == "") == (other.Text == "") && slices.Equal(one.Sharing, other.Sharing) &&
		slices.Equal(one.Others[0].Answers, other.Others[0].Answers)
}

// terms returns the wordings in which an answer states the facts on which the answers contradict each other: the stored
// wording of the value if the answer contains it, otherwise the wording that is found in the answer.
func (q Question) terms(one Distinct) (terms []blocks.Term) {
	var read []facts.Fact
	for _, run := range one.Runs {
		conflicts, _ := Split(q.Alike.Likeness(run.Variant).Facts)
		for n, fact := range conflicts {
			number := run.Variant*maxFacts + n
			if slices.ContainsFunc(terms, func(term blocks.Term) bool { return term.Fact == number }) {
				continue
			}
			for _, value := range fact.Values {
				if !slices.Contains(value.Runs, run.RunIndex) {
					continue
				}
				term := value.Text
				if !strings.Contains(one.Text, term) {
					if len(one.Text) > lightAnswer { // too long to be searched for the wording
						continue
					}
					if read == nil {
						read = facts.Read(one.Text)
					}
					at := slices.IndexFunc(read, states(fact, value))
					if at < 0 {
						continue
					}
					term = read[at].Text
				}
				terms = append(terms, blocks.Term{Fact: number, Text: term})
			}
		}
	}
	return terms
}

// maxFacts exceeds the number of facts that a question may have.
const maxFacts = 10_000

func (a *Aligned) placeID(number int) string {
	return a.ID + "-" + strconv.Itoa(number+1)
}

// placeOf returns the id of the place that states a value; empty if it is unknown.
func (a *Aligned) placeOf(value string) string {
	if a == nil {
		return ""
	}
	if number, isKnown := a.stating[value]; isKnown {
		return a.placeID(number)
	}
	return ""
}

// ToName returns the facts to list above the answers. Omissions are left out if the answers have nothing in common,
// because each leaves out nearly everything in the others.
func (a *Aligned) ToName(differing report.Facts) report.Facts {
	if a != nil && !a.IsPostponed && a.areUnlike() {
		return Conflicts(differing)
	}
	return differing
}

// stretch is a sequence of places that are folded together, or a single visible place.
type stretch struct {
	isShown bool
	places  []place
	// above is the heading of the visible place after a fold, if that heading is inside the fold.
	above string
}

// stretches returns all places in order: those in which facts differ are visible, the others are folded. A long
// question shows only the first few.
func (a *Aligned) stretches() (all []stretch) { return a.stretchesFrom(blocks.Fact) }

// stretchesFrom returns all places in order; those that differ by at least the given degree are shown.
func (a *Aligned) stretchesFrom(least blocks.Degree) (all []stretch) {
	heading, shown := "", 0
	for _, p := range a.places {
		if p.degree >= least && (shown < mostShown || !a.comesLater) {
			if heading != "" {
				all[len(all)-1].above = heading
			}
			all, heading = append(all, stretch{isShown: true, places: []place{p}}), ""
			shown++
			continue
		}
		for _, unit := range p.units {
			if unit.Kind == blocks.Heading && unit.Text != "" {
				heading = title(unit.Text)
			}
		}
		if last := len(all) - 1; last >= 0 && !all[last].isShown {
			all[last].places = append(all[last].places, p)
		} else {
			all = append(all, stretch{places: []place{p}})
		}
	}
	return all
}

// count returns how many units of a stretch are the same, differ in wording, and differ in facts.
func (s stretch) count() (same, other, facts int) {
	for _, p := range s.places {
		switch {
		case p.degree <= blocks.Form:
			same += len(p.units)
		case p.degree == blocks.Fact:
			facts += len(p.units)
		default:
			other += len(p.units)
		}
	}
	return same, other, facts
}

// names returns the headings in a stretch, at most three, without the one above the place that follows.
func (s stretch) names() string {
	var names []string
	for _, p := range s.places {
		for _, unit := range p.units {
			if unit.Kind == blocks.Heading && unit.Text != "" {
				names = append(names, title(unit.Text))
			}
		}
	}
	if s.above != "" {
		names = names[:len(names)-1]
	}
	return strings.Join(names[:min(len(names), 3)], " · ")
}

// title returns a heading without its Markdown marks.
func title(heading string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.TrimLeft(heading, "# "), "**", ""))
}

// firstOf returns the first place where an answer differs in more than form, preferably one where the answer has text,
// and the number of such places.
func (a *Aligned) firstOf(answer int) (unit blocks.Unit, other blocks.Other, count int) {
	for _, p := range a.places {
		for _, one := range p.units {
			for _, with := range one.Others {
				if with.Degree <= blocks.Form || !slices.Contains(with.Answers, answer) {
					continue
				}
				if count++; count == 1 || other.Text == "" && with.Text != "" {
					unit, other = one, with
				}
			}
		}
	}
	return unit, other, count
}

// voice is a group of answers: their letters and their runs.
type voice struct {
	letters []string
	runs    []db.Run
}

func (a *Aligned) voice(answers []int) (v voice) {
	for _, n := range answers {
		v.letters, v.runs = append(v.letters, a.Answers[n].Letter), append(v.runs, a.Answers[n].Runs...)
	}
	return v
}

const (
	// maxLetters is the maximum number of letters that a row shows.
	maxLetters = 6
	// fewRuns is the maximum number of runs that a row names individually; if there are more, it only shows their number.
	fewRuns = 3
	// maxListed is the same for the list of answers.
	maxListed = 10
	// mostShown is the maximum number of places shown for a question with long answers.
	mostShown = 5
	// mostOthers is the maximum number of other wordings shown at each of these places.
	mostOthers = 5
	// besideBlocks is the maximum number of blocks shown of an answer that is not compared.
	besideBlocks = 3
	// besideChars is the maximum number of characters that these blocks have together, unless the first one alone is
	// longer.
	besideChars = 80
	// ApartChars is the number of characters of an answer that are shown on one line.
	ApartChars = 60
	// postponedChars is the number of characters that are shown of an answer that has not been laid out.
	postponedChars = 200
)

// blockOf returns an answer's block at a unit, and whether it equals the most common one.
func blockOf(unit blocks.Unit, answer int) (other blocks.Other, isShared bool) {
	if slices.Contains(unit.Sharing, answer) {
		return blocks.Other{Text: unit.Text}, true
	}
	for _, one := range unit.Others {
		if slices.Contains(one.Answers, answer) {
			return one, false
		}
	}
	return other, unit.Text == ""
}

// answerOf returns the index of a letter's answer among the aligned answers.
func (a *Aligned) answerOf(letter string) int {
	return slices.IndexFunc(a.Answers, func(one Distinct) bool { return one.Letter == letter })
}

// letterID returns the id of the element for the answer with a letter.
func (q Question) letterID(letter string) string { return q.ID + "-" + letter }

// likenessText returns how similar an answer is to the most common one, in words.
func (a *Aligned) likenessText(locale text.Locale, n int) string {
	return locale.Text("results.apart", "Percent", text.Percent(&a.Likeness[n]), "Letter", a.Answers[0].Letter)
}

// Indexes returns the numbers of runs, separated by spaces.
func Indexes(task db.Task, runs []db.Run) string {
	list := make([]string, len(runs))
	for n, run := range runs {
		list[n] = text.Run(task.TotalVariants, run.Variant, run.RunIndex)
	}
	return strings.Join(list, " ")
}

// PerRow returns how many answers are shown side by side: all of them if there are at most six, otherwise a number that
// fills every row.
func PerRow(runs int) int {
	if runs <= 6 {
		return runs
	}
	for _, n := range []int{5, 6, 4} {
		if runs%n == 0 {
			return n
		}
	}
	return 5
}
