package reading

import (
	"strconv"

	"wending/db/engine"
	"wending/db/measure"
	"wending/db/report"
	"wending/jobs/export"
	"wending/views/summary"
	"wending/views/text"
)

// variantsSheet returns a sheet with a row for each variant of a task and the same numbers as the page of variants.
func variantsSheet(locale text.Locale, variants []export.Variant, numbers summary.Summary) *export.Sheet {
	sheet := &export.Sheet{Name: locale.Text("export.sheet.variants")}
	column := func(holds export.Cells, title string) {
		sheet.Columns = append(sheet.Columns, export.Column{Title: title, Holds: holds})
	}
	interval := func(measure string) {
		name := locale.Text("variants.measure." + measure)
		column(export.HoldsShare, name)
		column(export.HoldsShare, locale.Text("export.variants.low", "Measure", name))
		column(export.HoldsShare, locale.Text("export.variants.high", "Measure", name))
	}
	column(export.HoldsNumber, "#")
	column(export.HoldsText, locale.Text("variants.variant"))
	column(export.HoldsText, locale.Text("export.variants.target"))
	column(export.HoldsNumber, locale.Text("export.variants.expected"))
	column(export.HoldsNumber, locale.Text("export.info.succeeded"))
	column(export.HoldsNumber, locale.Text("export.info.failed"))
	column(export.HoldsShare, locale.Text("variants.measure.success"))
	interval("pass")
	interval("agreement")
	column(export.HoldsShare, locale.Text("variants.measure.identical"))
	column(export.HoldsShare, locale.Text("variants.measure.similarity"))
	for _, name := range []string{"latency", "firsttoken"} {
		column(export.HoldsNumber, locale.Text("variants.measure."+name)+" (ms)")
		if name == "latency" {
			column(export.HoldsNumber, locale.Text("export.variants.p90")+" (ms)")
		}
	}
	column(export.HoldsNumber, locale.Text("variants.measure.tokens"))
	column(export.HoldsNumber, locale.Text("variants.measure.cost"))
	column(export.HoldsText, locale.Text("library.currency"))
	for n, row := range numbers.Numbers {
		sheet.Rows = append(sheet.Rows, variantRow(row, variants[n].Target, numbers.Verdicts[row.Number],
			numbers.Agreements[row.Number].Share()))
	}
	return sheet
}

func variantRow(row report.VariantStatistics, target string, verdicts measure.Statistics,
	agreement measure.Interval) []string {
	cells := []string{
		strconv.Itoa(row.Number), row.Name, target, strconv.Itoa(row.RunsExpected), strconv.Itoa(row.Succeeded),
		strconv.Itoa(row.Failed + row.TimedOut), number(row.SuccessRate),
	}
	cells = append(append(cells, number(verdicts.PassRate)), ends(verdicts.PassInterval)...)
	cells = append(append(cells, number(row.Agreement)), ends(agreement)...)
	cells = append(cells, number(row.IdenticalRate), number(row.Similarity), number(row.LatencyP50),
		number(row.LatencyP90), number(row.FirstTokenP50))
	return append(cells, orBlank(tokens(row.TotalTokens)), orBlank(row.Cost), orBlank(row.Currency))
}

// number formats a number for a cell; the cell is empty if value is nil.
func number(value *float64) string {
	if value == nil {
		return ""
	}
	return strconv.FormatFloat(*value, 'f', -1, 64)
}

// ends returns the cells with both ends of an interval, which are empty if there is none.
func ends(interval measure.Interval) []string {
	if len(interval) != 2 {
		return []string{"", ""}
	}
	return []string{number(&interval[0]), number(&interval[1])}
}

func tokens(count *int64) *string {
	if count == nil {
		return nil
	}
	written := strconv.FormatInt(*count, 10)
	return &written
}

// toolSheets returns a sheet about the tools that a task's runs called and a sheet about the runs that took a different
// path; nil if no tools were called.
func toolSheets(locale text.Locale, tools engine.ToolReport) (sheets []*export.Sheet) {
	if len(tools.Tools) == 0 {
		return nil
	}
	use := &export.Sheet{Name: locale.Text("tools.title"), Columns: []export.Column{
		{Title: locale.Text("tools.tool")}, {Title: locale.Text("tools.calls"), Holds: export.HoldsNumber},
		{Title: locale.Text("tools.failed"), Holds: export.HoldsNumber},
		{Title: locale.Text("tools.runs"), Holds: export.HoldsNumber},
		{Title: locale.Text("tools.p50") + " (ms)", Holds: export.HoldsNumber},
		{Title: locale.Text("tools.p90") + " (ms)", Holds: export.HoldsNumber},
		{Title: locale.Text("tools.total") + " (ms)", Holds: export.HoldsNumber},
	}}
	for _, one := range tools.Tools {
		total := ""
		if one.TotalMS != nil {
			total = strconv.FormatInt(*one.TotalMS, 10)
		}
		use.Rows = append(use.Rows, []string{
			one.Tool, strconv.Itoa(one.Calls), strconv.Itoa(one.Failed), strconv.Itoa(one.Runs), number(one.P50),
			number(one.P90), total,
		})
	}
	differing := &export.Sheet{Name: locale.Text("tools.differing"), Columns: []export.Column{
		{Title: locale.Text("tools.number"), Holds: export.HoldsNumber}, {Title: "question_id"},
		{Title: locale.Text("variants.variant"), Holds: export.HoldsNumber},
		{Title: "run_index", Holds: export.HoldsNumber}, {Title: locale.Text("tools.step"), Holds: export.HoldsNumber},
		{Title: locale.Text("tools.own")}, {Title: locale.Text("tools.usual")},
		{Title: locale.Text("tools.at") + " (ms)", Holds: export.HoldsNumber},
	}}
	for _, one := range tools.Differing {
		differing.Rows = append(differing.Rows, []string{
			strconv.Itoa(one.Number), one.QuestionID, strconv.Itoa(one.Variant), strconv.Itoa(one.RunIndex),
			strconv.Itoa(one.Step), one.Tool, one.Usual, strconv.Itoa(one.AtMS),
		})
	}
	if len(differing.Rows) > 0 {
		return []*export.Sheet{use, differing}
	}
	return []*export.Sheet{use}
}
