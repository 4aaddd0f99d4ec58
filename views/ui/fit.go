package ui

import (
	"strconv"

	"wending/db/review"
	"wending/views/text"
)

// FilterPeople is the prefix of the filters for answers on which an evaluator and people agree or differ.
const FilterPeople = "people-"

// FilterBesidePeople returns the filter that keeps the answers with these verdicts of the evaluator and of people.
func FilterBesidePeople(evaluator int, judge, person bool) string {
	words := map[bool]string{true: "pass", false: "fail"}
	return FilterPeople + strconv.Itoa(evaluator) + "-" + words[judge] + "-" + words[person]
}

// Record describes how the versions of a saved evaluator compare with people.
type Record []review.VersionRecord

// Tuned compares a changed evaluator with its saved version, on answers that people have judged.
type Tuned struct {
	// Version is the number of the saved version.
	Version int
	// Before and After compare the saved version and the changed evaluator with people, on the same answers.
	Before, After review.Fit
	// Unrated is the number of further answers on which the changed evaluator reached no verdict.
	Unrated int
}

// FitLine sums up how far a judge agrees with people: the agreement, κ and the fitness.
func FitLine(l text.Locale, fit review.Fit) (line [3]string) {
	line = [3]string{l.Text("evaluator.tune.agreed", "Agreed", fit.Confusion.PassPass+fit.Confusion.FailFail, "Both",
		fit.N, "Percent", text.Percent(fit.Agreement)), "–", "–"}
	if fit.Kappa != nil {
		line[1] = decimals(*fit.Kappa)
	}
	if fit.KappaInterval != nil {
		line[1] += " [" + decimals(fit.KappaInterval[0]) + ", " + decimals(fit.KappaInterval[1]) + "]"
	}
	if fit.Fitness != nil {
		line[2] = l.Text("fitness." + string(*fit.Fitness))
	}
	return line
}

// FitSentences returns sentences that state how far a judge agrees with people in a task, and what it is fit for.
func FitSentences(l text.Locale, fit review.Fit) []string {
	said := agreementSentences(l, fit)
	switch {
	case fit.Corrected != nil:
		of := fit.CorrectedInterval
		said = append(said, l.Text("summary.people.corrected", "Percent", text.Percent(fit.Corrected), "Low",
			text.Percent(&of[0]), "High", text.Percent(&of[1]), "Sampled", fit.Sampled))
	case !fit.IsRandom:
		said = append(said, l.Text("summary.people.chosen"))
	}
	said = append(said, fitness(l, fit))
	for _, needed := range fit.Needed {
		if needed.More != nil && *needed.More > 0 {
			return append(said, l.Text("summary.people.needed", "More", *needed.More, "Points",
				strconv.FormatFloat(100*needed.HalfWidth, 'f', 0, 64)))
		}
	}
	return append(said, kappaNeeded(l, fit)...)
}

// RecordSentences returns sentences that state how far an evaluator agrees with people over all tasks.
func RecordSentences(l text.Locale, fit review.Fit) []string {
	return append(append(agreementSentences(l, fit), fitness(l, fit)), kappaNeeded(l, fit)...)
}

// agreementSentences returns sentences that state how far a judge agrees with people.
func agreementSentences(l text.Locale, fit review.Fit) []string {
	agreed := fit.Confusion.PassPass + fit.Confusion.FailFail
	said := []string{l.Text("summary.people.agreement", "Agreed", agreed, "Both", fit.N, "Percent",
		text.Percent(fit.Agreement))}
	switch {
	case fit.Kappa != nil && fit.KappaInterval != nil:
		said = append(said, l.Text("summary.people.kappa.interval", "Kappa", decimals(*fit.Kappa), "Low",
			decimals(fit.KappaInterval[0]), "High", decimals(fit.KappaInterval[1])))
	case fit.Kappa != nil:
		said = append(said, l.Text("summary.people.kappa", "Kappa", decimals(*fit.Kappa)))
	}
	if fit.Sensitivity != nil {
		said = append(said, l.Text("summary.people.sensitivity", "Percent", text.Percent(fit.Sensitivity)))
	}
	if fit.Specificity != nil {
		said = append(said, l.Text("summary.people.specificity", "Percent", text.Percent(fit.Specificity)))
	}
	return said
}

// fitness states what a judge is fit for.
func fitness(l text.Locale, fit review.Fit) string {
	if fit.Fitness == nil {
		return l.Text("summary.people.fitness.unknown")
	}
	return l.Text("summary.people.fitness." + string(*fit.Fitness))
}

// kappaNeeded states how many more verdicts would narrow κ to the next width; it returns nothing if κ's interval is
// unknown.
func kappaNeeded(l text.Locale, fit review.Fit) []string {
	for _, needed := range fit.KappaNeeded {
		if needed.More != nil && *needed.More > 0 {
			return []string{l.Text("summary.people.kappa.needed", "More", *needed.More, "Width",
				strconv.FormatFloat(needed.HalfWidth, 'f', -1, 64))}
		}
	}
	return nil
}

func decimals(number float64) string { return strconv.FormatFloat(number, 'f', 2, 64) }
