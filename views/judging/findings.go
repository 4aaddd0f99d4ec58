package judging

import (
	"slices"
	"strings"

	"wending/db"
	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/report"
	"wending/db/review"
	"wending/views/marks"
	"wending/views/results"
	"wending/views/text"
)

// kindReasons maps each kind of fact to the reason for a verdict that a contradiction of this kind suggests.
var kindReasons = map[facts.Kind]string{
	facts.Number: review.WrongNumber, facts.Percent: review.WrongNumber, facts.Money: review.WrongNumber,
	facts.Duration: review.WrongNumber,
	facts.Date:     review.WrongNumber, facts.Time: review.WrongNumber, facts.Range: review.WrongNumber,
	facts.Bound:    review.WrongNumber,
	facts.Polarity: review.WrongConclusion, facts.Choice: review.WrongConclusion,
	facts.Citation: review.WrongCitation,
}

// foundReasons returns the reasons suggested by the facts on which a variant's answers differ from each other or from
// the standard answer. Omissions count only if there are no contradictions.
func foundReasons(likeness report.Likeness) (found []string) {
	add := func(reason string) {
		if reason != "" && !slices.Contains(found, reason) {
			found = append(found, reason)
		}
	}
	conflicts, omissions := marks.Split(likeness.Facts)
	for _, fact := range conflicts {
		add(kindReasons[fact.Kind])
	}
	for _, fact := range likeness.Expected {
		add(kindReasons[fact.Kind])
	}
	if len(conflicts)+len(likeness.Expected) == 0 && len(omissions) > 0 {
		add(review.Omission)
	}
	return found
}

// finding is a remark on the answers with the given letters, which are some of a question's distinct answers.
type finding struct {
	Letters []string
	Said    string
}

// findings lists where answers contradict the standard answer or, without one, where they differ from the most common
// answer. Answers without findings come after the others, and answers that share no fact with the standard answer come
// last.
func findings(c results.Card, likeness report.Likeness, locale text.Locale) (all []finding) {
	conflicts, _ := marks.Split(likeness.Facts)
	key, hasStandard := "review.finding.most", strings.TrimSpace(c.Item.StandardAnswer) != ""
	if hasStandard {
		key = "review.finding.standard"
	}
	none, unlike := finding{Said: locale.Text(key + ".none")}, finding{Said: locale.Text("review.finding.standard.unlike")}
	standard := facts.Read(c.Item.StandardAnswer)
	for _, one := range c.Distincts() {
		counts := map[string]int{}
		if hasStandard {
			for _, fact := range likeness.Expected {
				count(counts, locale, fact.Kind, hasValue(one, fact.Values))
			}
		} else {
			for _, fact := range conflicts {
				count(counts, locale, fact.Kind, hasValue(one, fact.Values[1:]))
			}
		}
		if len(counts) == 0 {
			group := &none
			if hasStandard && !sharesFact(one.Text, standard) {
				group = &unlike
			}
			group.Letters = append(group.Letters, one.Letter)
			continue
		}
		said := locale.Text(key, "What", counted(locale, counts))
		if at := slices.IndexFunc(all, func(other finding) bool { return other.Said == said }); at >= 0 {
			all[at].Letters = append(all[at].Letters, one.Letter)
		} else {
			all = append(all, finding{[]string{one.Letter}, said})
		}
	}
	for _, one := range []finding{none, unlike} {
		if len(one.Letters) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// sharesFact reports whether an answer states a fact of the standard answer: otherwise nothing was compared.
func sharesFact(answer string, standard []facts.Fact) bool {
	return slices.ContainsFunc(facts.Read(answer), func(stated facts.Fact) bool {
		return slices.ContainsFunc(standard, func(one facts.Fact) bool {
			return one.Kind == stated.Kind && one.Value == stated.Value
		})
	})
}

func count(counts map[string]int, locale text.Locale, kind facts.Kind, isStated bool) {
	if isStated {
		counts[kindName(locale, kind)]++
	}
}

// hasValue reports whether a run with the answer states one of the values.
func hasValue(one marks.Distinct, values []measure.Value) bool {
	return slices.ContainsFunc(values, func(value measure.Value) bool {
		return slices.ContainsFunc(one.Runs, func(run db.Run) bool { return slices.Contains(value.Runs, run.RunIndex) })
	})
}

// kindName returns a finding's name for facts of a kind. It is more neutral than the reason for a verdict that such
// facts suggest.
func kindName(locale text.Locale, kind facts.Kind) string {
	if reason, isKnown := kindReasons[kind]; isKnown {
		return locale.Text("review.kind." + reason)
	}
	return locale.Text("review.kind.other")
}

func counted(locale text.Locale, counts map[string]int) string {
	var parts []string
	for name, count := range counts {
		parts = append(parts, locale.Text("review.finding.count", "Name", name, "Count", count))
	}
	slices.Sort(parts)
	return strings.Join(parts, locale.Text("word.list"))
}
