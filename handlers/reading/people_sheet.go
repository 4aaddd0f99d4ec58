package reading

import (
	"strconv"

	"wending/db/review"
	"wending/jobs/export"
	"wending/views/summary"
	"wending/views/text"
)

// peopleSheet returns a sheet with a row for each judge of a task whose verdicts can be compared with people's; nil if
// there is none.
func peopleSheet(locale text.Locale, judges []summary.Judge) *export.Sheet {
	sheet := &export.Sheet{Name: locale.Text("export.sheet.people")}
	column := func(holds export.Cells, title string) {
		sheet.Columns = append(sheet.Columns, export.Column{Title: title, Holds: holds})
	}
	interval := func(holds export.Cells, name string) {
		column(holds, name)
		column(holds, locale.Text("export.variants.low", "Measure", name))
		column(holds, locale.Text("export.variants.high", "Measure", name))
	}
	column(export.HoldsText, locale.Text("export.people.judge"))
	column(export.HoldsNumber, locale.Text("export.people.both"))
	for _, judge := range []string{"passed", "failed"} {
		for _, person := range []string{"passed", "failed"} {
			column(export.HoldsNumber, locale.Text("export.people.cell", "Judge", locale.Text("summary.judge."+judge),
				"People", locale.Text("summary.people."+person)))
		}
	}
	column(export.HoldsShare, locale.Text("export.people.agreement"))
	interval(export.HoldsNumber, "Cohen's κ")
	column(export.HoldsShare, locale.Text("export.people.sensitivity"))
	column(export.HoldsShare, locale.Text("export.people.specificity"))
	column(export.HoldsNumber, locale.Text("export.people.sampled"))
	interval(export.HoldsShare, locale.Text("export.people.corrected"))
	column(export.HoldsText, locale.Text("export.people.fitness"))
	for _, points := range []int{10, 5, 3} {
		column(export.HoldsNumber, locale.Text("export.people.needed", "Points", points))
	}
	for _, judge := range judges {
		if judge.Fit.N > 0 {
			sheet.Rows = append(sheet.Rows, fitRow(locale, judge.Name, judge.Fit))
		}
	}
	if len(sheet.Rows) == 0 {
		return nil
	}
	return sheet
}

func fitRow(locale text.Locale, name string, fit review.Fit) []string {
	of := fit.Confusion
	cells := []string{name, strconv.Itoa(fit.N), strconv.Itoa(of.PassPass), strconv.Itoa(of.PassFail),
		strconv.Itoa(of.FailPass), strconv.Itoa(of.FailFail), number(fit.Agreement), number(fit.Kappa)}
	cells = append(append(cells, ends(fit.KappaInterval)...), number(fit.Sensitivity), number(fit.Specificity),
		strconv.Itoa(fit.Sampled), number(fit.Corrected))
	cells = append(cells, ends(fit.CorrectedInterval)...)
	if fit.Fitness == nil {
		cells = append(cells, "")
	} else {
		cells = append(cells, locale.Text("fitness."+string(*fit.Fitness)))
	}
	for _, needed := range fit.Needed {
		more := ""
		if needed.More != nil {
			more = strconv.Itoa(*needed.More)
		}
		cells = append(cells, more)
	}
	return cells
}
