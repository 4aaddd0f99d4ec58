package results

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
	"wending/views/marks"
	"wending/views/text"
)

const (
	// alignFor limits the time for aligning the answers to one question; after that, differences become coarse.
	alignFor = 150 * time.Millisecond
	// foldedHere is how many bytes of folded answers in other words a page holds for one question; more are loaded
	// when they are opened.
	foldedHere = 40_000
)

// aligned holds a question's distinct answers, block by block.
type aligned struct {
	blocks.Reading
	marks.Answers
	card    Card
	answers []distinct
	task    db.Task
	// haveFacts reports that the answers contradict each other on a fact that was located in them.
	haveFacts bool
	// comesLater reports that folded content is loaded when it is opened.
	comesLater bool
	// laterAt is where that comes from; empty means the page of the question.
	laterAt string
	places  []place
	// stating maps a value of a fact, as written, to the ids of the places that state it.
	stating map[string]string
}

// place is a block of the answers, or several consecutive blocks that the same answers have.
type place struct {
	number int
	units  []blocks.Unit
	degree blocks.Degree
}

// aligned aligns a card's answers; nil if there are fewer than two, or they are shown in another way.
func (r Report) aligned(c Card) *aligned {
	a := aligned{card: c, answers: c.distincts(), task: r.Task, stating: map[string]string{}}
	if len(a.answers) < 2 || r.View != Merged && !r.IsAligned {
		return nil
	}
	answers := make([]blocks.Answer, len(a.answers))
	for n, one := range a.answers {
		answers[n] = blocks.Answer{Text: c.textOf(one.letter)}
		answers[n].Terms = c.terms(answers[n].Text, one.runs)
	}
	a.Reading = blocks.Align(answers, alignFor)
	a.Answers = marks.Answers{Reading: &a.Reading, IsWritten: r.Format == nil}
	a.arrange()
	folded := 0
	for _, p := range a.places {
		a.haveFacts = a.haveFacts || p.degree == blocks.Fact
		for _, unit := range p.units {
			for _, other := range unit.Others {
				if folded += len(other.Text); other.Degree == blocks.Fact {
					a.note(p, other)
				}
			}
		}
	}
	a.comesLater = folded > foldedHere && !r.IsDocument
	return &a
}

// note records where the values of a fact are stated.
func (a *aligned) note(p place, other blocks.Other) {
	for _, term := range slices.Concat(other.Against, other.Terms) {
		if _, isKnown := a.stating[term]; !isKnown {
			a.stating[term] = a.placeID(p)
		}
	}
}

// arrange groups the units into places.
func (a *aligned) arrange() {
	for n, unit := range a.Units {
		if last := len(a.places) - 1; last >= 0 && onlyThere(unit) && sameVoices(a.places[last].units[0], unit) {
			a.places[last].units = append(a.places[last].units, unit)
			continue
		}
		a.places = append(a.places, place{number: n, units: []blocks.Unit{unit}, degree: unit.Degree})
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

func (a *aligned) placeID(p place) string {
	return CardID(a.card.Item.ID) + "-" + strconv.Itoa(p.number+1)
}

// placeOf returns the id of the place that states a value; empty if none is known.
func (a *aligned) placeOf(value string) string {
	if a == nil {
		return ""
	}
	return a.stating[value]
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
	// maxLetters is how many letters a row shows, fewRuns how many runs.
	maxLetters = 6
	fewRuns    = 3
	// mostShown is how many places of a question with long answers are visible, mostOthers how many variants at
	// each of them.
	mostShown  = 5
	mostOthers = 5
	// besideBlocks is how many blocks of an answer that is not compared are shown.
	besideBlocks = 4
	// apartChars is how many characters of an answer are shown on one line.
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
	if difference := c.difference(letter); difference != nil {
		equal, all := 0, 0
		for _, step := range difference.Steps {
			all += step.Length
			if step.Op == measure.Equal {
				equal, all = equal+2*step.Length, all+step.Length
			}
		}
		if 2*equal < all {
			return "different"
		}
	}
	return "wording"
}

// letterClass returns the class that colours a letter of this question.
func (c Card) letterClass(letter string) string { return "letter is-" + c.relation(letter) }

// agrees reports whether a value of a fact equals the standard answer's.
func (c Card) agrees(fact measure.Fact, value measure.Value) bool {
	return slices.ContainsFunc(facts.Read(c.Item.StandardAnswer), func(one facts.Fact) bool {
		return one.Kind == fact.Kind && one.Value == value.Value
	})
}

// likenessText returns a text about how alike an answer is to the most common one.
func (a *aligned) likenessText(locale text.Locale, n int) string {
	return locale.Text("results.apart", "Percent", text.Percent(&a.Likeness[n]))
}

// standard returns the standard answer, formatted if the answers are.
func (r Report) standard(content string) templ.Component {
	return marks.Answers{IsWritten: r.Format == nil}.List(blocks.Cut(content))
}
