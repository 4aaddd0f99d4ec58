package reading

import (
	"context"
	"strconv"

	"wending/db"
	"wending/db/measure"
	"wending/handlers/request"
	"wending/jobs/export"
	"wending/views/text"
)

// slicedMost is the maximum number of a dataset's columns that the sheet of slices and the report's sentences cover.
const slicedMost = 10

// slicesSheet returns a sheet with one row per variant for each value of each column by which the task's questions can
// be grouped; nil if there is no such column.
func (r Reports) slicesSheet(ctx context.Context, task db.Task) (*export.Sheet, error) {
	columns, err := r.reader.report.Columns(ctx, task)
	if err != nil || len(columns) == 0 {
		return nil, err
	}
	locale := request.From(ctx).Locale
	sheet := newSlicesSheet(locale, task)
	for _, column := range columns[:min(slicedMost, len(columns))] {
		numbers, err := r.reader.report.NumbersBy(ctx, task, column.Place, false)
		if err != nil {
			return nil, err
		}
		for _, slice := range numbers.Slices {
			value := locale.Text("summary.slices.rest")
			switch {
			case slice.Value != nil && *slice.Value == "":
				value = locale.Text("summary.slices.blank")
			case slice.Value != nil:
				value = *slice.Value
			}
			for _, one := range slice.Variants {
				row := []string{column.Name, value}
				if task.TotalVariants > 1 {
					row = append(row, one.Name)
				}
				row = append(append(row, strconv.Itoa(slice.Items), number(one.SuccessRate)), ends(one.Answered)...)
				for _, level := range measure.Levels {
					row = append(row, strconv.Itoa(one.Levels[string(level)]))
				}
				row = append(row, number(one.Agreement))
				if len(task.Evaluators) > 0 {
					row = append(append(row, number(one.Passes.PassRate)), ends(one.Passes.PassInterval)...)
				}
				row = append(row, number(one.LatencyP50), number(one.LatencyP90), orBlank(one.Cost), orBlank(one.Currency))
				sheet.Rows = append(sheet.Rows, row)
			}
		}
	}
	return sheet, nil
}

// newSlicesSheet returns a sheet with the columns for slices, but without rows.
func newSlicesSheet(locale text.Locale, task db.Task) *export.Sheet {
	sheet := &export.Sheet{Name: locale.Text("export.sheet.slices")}
	column := func(holds export.Cells, title string) {
		sheet.Columns = append(sheet.Columns, export.Column{Title: title, Holds: holds})
	}
	share := func(key string) {
		name := locale.Text(key)
		column(export.HoldsShare, name)
		column(export.HoldsShare, locale.Text("export.variants.low", "Measure", name))
		column(export.HoldsShare, locale.Text("export.variants.high", "Measure", name))
	}
	column(export.HoldsText, locale.Text("export.slices.column"))
	column(export.HoldsText, locale.Text("export.slices.value"))
	if task.TotalVariants > 1 {
		column(export.HoldsText, locale.Text("variants.variant"))
	}
	column(export.HoldsNumber, locale.Text("summary.slices.items"))
	share("summary.slices.answered")
	for _, level := range measure.Levels {
		column(export.HoldsNumber, locale.Text("level."+string(level)))
	}
	column(export.HoldsShare, locale.Text("variants.measure.agreement"))
	if len(task.Evaluators) > 0 {
		share("summary.slices.passed")
	}
	column(export.HoldsNumber, locale.Text("variants.measure.latency")+" (ms)")
	column(export.HoldsNumber, locale.Text("export.variants.p90")+" (ms)")
	column(export.HoldsNumber, locale.Text("variants.measure.cost"))
	column(export.HoldsText, locale.Text("library.currency"))
	return sheet
}

// orBlank returns *value, or an empty text if value is nil.
func orBlank(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}
