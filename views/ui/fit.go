package ui

import (
	"strconv"

	"wending/db/review"
	"wending/views/text"
)

// FitSentences returns sentences that state how far a judge agrees with people, and what it is fit for.
func FitSentences(l text.Locale, fit review.Fit) []string {
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
	switch {
	case fit.Corrected != nil:
		of := fit.CorrectedInterval
		said = append(said, l.Text("summary.people.corrected", "Percent", text.Percent(fit.Corrected), "Low",
			text.Percent(&of[0]), "High", text.Percent(&of[1]), "Sampled", fit.Sampled))
	case !fit.IsRandom:
		said = append(said, l.Text("summary.people.chosen"))
	}
	if fit.Fitness == nil {
		return append(said, l.Text("summary.people.fitness.unknown"))
	}
	said = append(said, l.Text("summary.people.fitness."+string(*fit.Fitness)))
	for _, needed := range fit.Needed {
		if needed.More != nil && *needed.More > 0 {
			return append(said, l.Text("summary.people.needed", "More", *needed.More, "Points",
				strconv.FormatFloat(100*needed.HalfWidth, 'f', 0, 64)))
		}
	}
	return said
}

func decimals(number float64) string { return strconv.FormatFloat(number, 'f', 2, 64) }
