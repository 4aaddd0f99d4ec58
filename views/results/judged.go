package results

import (
	"cmp"
	"slices"
	"strings"

	"wending/db"
	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/report"
	"wending/db/review"
	"wending/views/marks"
	"wending/views/text"
)

// Waits reports whether a question waits for the reader's verdict; while the reader's name is unknown, every
// reviewer's verdict counts.
func (r Report) Waits(item report.Summary) bool {
	if r.Reviewer == "" {
		return len(r.Reviews[item.QuestionID]) == 0
	}
	return r.IsTurnOf(item, r.Reviewer)
}

// kindReasons maps kinds of facts to the reasons for a verdict that contradictions of that kind suggest.
var kindReasons = map[facts.Kind]string{
	facts.Number: review.WrongNumber, facts.Percent: review.WrongNumber, facts.Money: review.WrongNumber,
	facts.Duration: review.WrongNumber,
	facts.Date:     review.WrongNumber, facts.Time: review.WrongNumber, facts.Range: review.WrongNumber,
	facts.Bound:    review.WrongNumber,
	facts.Polarity: review.WrongConclusion, facts.Choice: review.WrongConclusion,
	facts.Citation: review.WrongCitation,
}

// FoundReasons returns the reasons suggested by the facts on which a variant's answers differ from each other or from
// the standard answer. Omissions count only if there are no contradictions.
func FoundReasons(likeness report.Likeness) (found []string) {
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

// Finding is a finding about some of a question's distinct answers.
type Finding struct {
	Letters []string
	Said    string
}

// Findings lists where answers contradict the standard answer or, without one, where they differ from the most
// common answer; answers without findings come last.
func (c Card) Findings(locale text.Locale) (all []Finding) {
	likeness := c.likeness()
	conflicts, _ := marks.Split(likeness.Facts)
	key, hasStandard := "review.finding.most", strings.TrimSpace(c.Item.StandardAnswer) != ""
	if hasStandard {
		key = "review.finding.standard"
	}
	none := Finding{Said: locale.Text(key + ".none")}
	for _, one := range c.distincts() {
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
			none.Letters = append(none.Letters, one.Letter)
			continue
		}
		said := locale.Text(key, "What", counted(locale, counts))
		if at := slices.IndexFunc(all, func(other Finding) bool { return other.Said == said }); at >= 0 {
			all[at].Letters = append(all[at].Letters, one.Letter)
		} else {
			all = append(all, Finding{[]string{one.Letter}, said})
		}
	}
	if len(none.Letters) > 0 {
		all = append(all, none)
	}
	return all
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

// kindName returns the name that a finding uses for facts of a kind: the name of the reason that they suggest, without
// a judgement.
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
	return strings.Join(parts, locale.Text("create.missing.separator"))
}

// ReasonCount is the number of questions with a verdict for a reason.
type ReasonCount struct {
	Reason string
	Count  int
}

// ReasonCounts returns the reasons of the verdicts on questions, most frequent first.
func (r Report) ReasonCounts() (counts []ReasonCount) {
	questions := map[string]int{}
	for _, verdicts := range r.Reviews {
		seen := map[string]bool{}
		for _, one := range verdicts {
			for _, reason := range one.Reasons {
				if !seen[reason] {
					seen[reason] = true
					questions[reason]++
				}
			}
		}
	}
	for reason, count := range questions {
		counts = append(counts, ReasonCount{reason, count})
	}
	slices.SortFunc(counts, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(reasonPlace(a.Reason), reasonPlace(b.Reason)),
			cmp.Compare(a.Reason, b.Reason))
	})
	return counts
}

// reasonPlace orders the common reasons before a project's own.
func reasonPlace(reason string) int {
	if at := slices.Index(review.Reasons, reason); at >= 0 {
		return at
	}
	return len(review.Reasons)
}

// CountOpinion counts the questions with an opinion, which is one of ReviewFilters.
func (r Report) CountOpinion(opinion string) int {
	return len(r.Shown(Query{Review: opinion}))
}

// SignedCounts shows the verdicts with which a report was signed off, and how many questions were open.
func SignedCounts(locale text.Locale, signed review.SignOff) string {
	counts := locale.Text("signoff.counts", "Passed", signed.Passed, "Failed", signed.Failed, "Unsure", signed.Unsure)
	if signed.Open != nil && *signed.Open > 0 {
		counts += " · " + locale.Text("signoff.counts.open", "Count", *signed.Open)
	}
	return counts
}
