package results

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"wending/db"
	"wending/db/measure"
	"wending/db/measure/blocks"
	"wending/db/measure/facts"
	"wending/db/report"
	"wending/views/marks"
	"wending/views/text"
)

const (
	// markFor is how long looking for what differs inside of the blocks of one question may take before differences become coarse, and
	// alignFor how long laying out the questions of a page may take before the rest of them waits until a reader opens it.
	markFor  = 100 * time.Millisecond
	alignFor = 300 * time.Millisecond
	// lightAnswers is up to how many bytes of different answers a question is among the usual ones.
	lightAnswers = 40_000
	// foldedHere is up to how many bytes of answers in other words a page holds folded for one question; more come when they are opened.
	foldedHere = 40_000
)

// laidOut are a question's distinct answers beside each other, block by block. Once made it does not change.
type laidOut struct {
	*blocks.Reading
	// haveFacts reports that the answers contradict each other in a fact that was found in them.
	haveFacts bool
	places    []place
	// stating are the numbers of the places that state a value of a fact, by the value as it is written.
	stating map[string]int
	// length is how many bytes the answers have, folded how many of them are in other words than the most common answer's.
	length, folded int
}

// aligned are the answers on a card.
type aligned struct {
	*laidOut
	marks.Answers
	card    Card
	answers []distinct
	task    db.Task
	// comesLater reports that what is folded comes when it is opened.
	comesLater bool
	// laterAt is where that comes from; empty means the page of the question.
	laterAt string
	// isPostponed reports that there was no time to lay the answers out.
	isPostponed bool
	spent       time.Duration
}

// place is a block of the answers, or several consecutive blocks that the same answers have.
type place struct {
	number int
	units  []blocks.Unit
	degree blocks.Degree
}

// aligned aligns a card's answers; nil if there are fewer than two, or they are shown in another way.
func (r Report) aligned(c Card) *aligned {
	a := aligned{card: c, answers: c.distincts(), task: r.Task}
	if len(a.answers) < 2 || r.View != Merged && !r.IsAligned {
		return nil
	}
	a.Answers = marks.Answers{IsWritten: r.Format == nil, Timed: a.timed}
	var key layoutKey
	if c.Layouts != nil {
		key = c.layoutKey(a.answers)
		a.laidOut = c.Layouts.of(key)
	}
	switch {
	case a.laidOut != nil:
	case !c.Allowance.allows(c.length(a.answers)) && !r.IsDocument:
		a.laidOut, a.isPostponed = &laidOut{}, true
		return &a
	default:
		start := time.Now()
		a.laidOut = c.layOut(a.answers)
		c.Allowance.spend(time.Since(start))
		c.Layouts.keep(key, a.laidOut)
	}
	a.Answers.Reading = a.laidOut.Reading
	a.comesLater = a.folded > foldedHere && !r.IsDocument
	return &a
}

// timed finds the differences of two blocks within the time that the question has left.
func (a *aligned) timed(find func(within time.Duration)) {
	start := time.Now()
	find(markFor - a.spent)
	took := time.Since(start)
	a.spent += took
	a.card.Allowance.spend(took)
}

// layOut lays distinct answers out.
func (c Card) layOut(all []distinct) *laidOut {
	answers := make([]blocks.Answer, len(all))
	l := laidOut{stating: map[string]int{}}
	for n, one := range all {
		answers[n] = blocks.Answer{Text: c.textOf(one.letter)}
		answers[n].Terms = c.terms(answers[n].Text, one.runs)
	}
	l.length = c.length(all)
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

// length is how many bytes different answers have.
func (c Card) length(answers []distinct) (length int) {
	for _, one := range answers {
		length += len(c.textOf(one.letter))
	}
	return length
}

// note remembers where the values of a fact are stated.
func (l *laidOut) note(p place, other blocks.Other) {
	for _, term := range slices.Concat(other.Against, other.Terms) {
		if _, isKnown := l.stating[term]; !isKnown {
			l.stating[term] = p.number
		}
	}
}

// arrange puts the units into places.
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

// sameVoices reports whether the same answers have two units.
func sameVoices(one, other blocks.Unit) bool {
	return onlyThere(one) && (one.Text == "") == (other.Text == "") && slices.Equal(one.Sharing, other.Sharing) &&
		slices.Equal(one.Others[0].Answers, other.Others[0].Answers)
}

// terms returns an answer's wordings of the facts on which the answers contradict each other: the wording of the
// first run, or this answer's own.
func (c Card) terms(answer string, runs []db.Run) (terms []blocks.Term) {
	var read []facts.Fact
	for _, run := range runs {
		conflicts, _ := split(c.Question.Likeness(run.Variant).Facts)
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
				if !strings.Contains(answer, term) {
					if len(answer) > lightAnswers { // where it is, is not worth reading all of it
						continue
					}
					if read == nil {
						read = facts.Read(answer)
					}
					at := slices.IndexFunc(read, func(one facts.Fact) bool { return one.Kind == fact.Kind && one.Value == value.Value })
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

func (a *aligned) placeID(number int) string {
	return CardID(a.card.Item.ID) + "-" + strconv.Itoa(number+1)
}

// placeOf returns the id of the place that states a value; empty if none is known.
func (a *aligned) placeOf(value string) string {
	if a == nil {
		return ""
	}
	if number, isKnown := a.stating[value]; isKnown {
		return a.placeID(number)
	}
	return ""
}

// toName are the facts that a card names: answers that have nothing in common leave out nearly all that is in the others.
func (a *aligned) toName(differing report.Facts) report.Facts {
	if a != nil && !a.isPostponed && a.areUnlike() {
		return Conflicts(differing)
	}
	return differing
}

// stretch is a run of places that are folded together, or a single visible place.
type stretch struct {
	isShown bool
	places  []place
	// heading is the heading of a visible place if that heading is folded.
	heading *blocks.Unit
}

// stretches returns all places in order: those in which facts differ are visible, the others are folded. A long
// question shows only the first few.
func (a *aligned) stretches() (all []stretch) { return a.stretchesFrom(blocks.Fact) }

// stretchesFrom are all places in order: those that differ by a degree at least are shown.
func (a *aligned) stretchesFrom(least blocks.Degree) (all []stretch) {
	var heading *blocks.Unit
	shown := 0
	for _, p := range a.places {
		if p.degree >= least && (shown < mostShown || !a.comesLater) {
			shown++
			all, heading = append(all, stretch{isShown: true, places: []place{p}, heading: heading}), nil
			continue
		}
		for _, unit := range p.units {
			if unit.Kind == blocks.Heading {
				heading = &unit
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

// count counts the units of a stretch that are the same, those that differ in words, and those that differ in facts.
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

// names returns the headings in a stretch, at most three.
func (s stretch) names() string {
	var names []string
	for _, p := range s.places {
		for _, unit := range p.units {
			if unit.Kind == blocks.Heading && len(names) < 3 {
				names = append(names, title(unit.Text))
			}
		}
	}
	return strings.Join(names, " · ")
}

// title returns a heading without its marks.
func title(heading string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.TrimLeft(heading, "# "), "**", ""))
}

// firstOf returns the first place where an answer differs in more than form, and the number of such places.
func (a *aligned) firstOf(answer int) (unit blocks.Unit, other blocks.Other, count int) {
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

// voice names answers by their letters and counts the runs.
type voice struct {
	letters []string
	runs    []db.Run
}

func (a *aligned) voice(answers []int) (v voice) {
	for _, n := range answers {
		v.letters, v.runs = append(v.letters, a.answers[n].letter), append(v.runs, a.answers[n].runs...)
	}
	return v
}

const (
	// maxLetters is how many letters a row names, fewRuns how many runs, maxListed how many runs an answer's own line does.
	maxLetters = 6
	fewRuns    = 3
	maxListed  = 10
	// mostShown is how many places a question shows whose answers are long, mostOthers how many ways to say a thing at each of them.
	mostShown  = 5
	mostOthers = 5
	// besideBlocks is how many blocks of an answer are shown that is not compared.
	besideBlocks = 3
	// apartChars is how much of an answer is shown in one line.
	apartChars = 60
)

// blockOf returns an answer's block at a unit, and whether it is the most common one.
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
func (a *aligned) answerOf(letter string) int {
	return slices.IndexFunc(a.answers, func(one distinct) bool { return one.letter == letter })
}

// relation is how the runs with a letter differ from the most common answer: in facts, entirely, or in words.
func (c Card) relation(letter string) string {
	if letter == c.Groups[0].Letter {
		return "same"
	}
	for n, run := range c.Runs {
		if c.Letters[n] != letter {
			continue
		}
		conflicts, _ := split(c.Question.Likeness(run.Variant).Facts)
		for _, fact := range conflicts {
			for at, value := range fact.Values {
				if at > 0 && slices.Contains(value.Runs, run.RunIndex) {
					return "facts"
				}
			}
		}
	}
	if difference := c.difference(letter); difference != nil && isApart(*difference) {
		return "different"
	}
	return "wording"
}

// isApart reports that two texts have less in common than not: marks would cover them.
func isApart(difference measure.Difference) bool {
	equal, all := 0, 0
	for _, step := range difference.Steps {
		all += step.Length
		if step.Op == measure.Equal {
			equal, all = equal+2*step.Length, all+step.Length
		}
	}
	return 2*equal < all
}

// letterClass is how a letter of this question is coloured.
func (c Card) letterClass(letter string) string { return "letter is-" + c.relation(letter) }

// likenessText is how alike an answer is to the most common one.
func (a *aligned) likenessText(locale text.Locale, n int) string {
	return locale.Text("results.apart", "Percent", text.Percent(&a.Likeness[n]))
}
