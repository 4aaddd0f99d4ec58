package taskpages

import (
	"math"
	"net/url"
	"strconv"

	"wending/db/report"
	"wending/views/results"
)

// plotWidth and plotHeight are the size of plots in their own units; the page stretches plots.
const plotWidth, plotHeight = 600.0, 100.0

// column is one bar of a plot as drawn: failures are on top of successes.
type column struct {
	report.Bar
	x, width          float64
	succeeded, failed float64 // heights
}

// within returns the query for the questions with a run in a bar of latencies, whose bounds are whole milliseconds.
func within(bar report.Bar) results.Query {
	return results.Query{Sort: "-latency", Slice: url.Values{
		"min_latency_ms": {strconv.Itoa(int(bar.From))}, "max_latency_ms": {strconv.Itoa(int(bar.To) - 1)},
	}}
}

// newColumns returns the bars as they are drawn, in a plot whose axis ends at top.
func newColumns(bars []report.Bar, top int) []column {
	columns := make([]column, len(bars))
	step, scale := plotWidth/float64(max(1, len(bars))), plotHeight/float64(max(1, top))
	for n, bar := range bars {
		columns[n] = column{
			Bar: bar, x: float64(n) * step, width: step * 0.82, succeeded: height(bar.Succeeded, scale),
			failed: height(bar.Failed, scale),
		}
	}
	return columns
}

// axisTop returns the number at the top of a plot's axis: even, and not below the tallest bar.
func axisTop(bars []report.Bar) int {
	tallest := 0
	for _, bar := range bars {
		tallest = max(tallest, bar.Succeeded+bar.Failed)
	}
	unit := 2
	for tallest > 10*unit {
		unit *= 10
	}
	return (tallest + unit - 1) / unit * unit
}

// height returns the height of a bar: 0 for no runs, otherwise at least one unit, so that even a single run is visible.
func height(count int, scale float64) float64 {
	if count == 0 {
		return 0
	}
	return math.Max(1, float64(count)*scale)
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// latencyPlace returns the position of a latency on the axis: within its bar, in proportion.
func latencyPlace(bars []report.Bar, ms *float64) (x float64, isThere bool) {
	if ms == nil || len(bars) == 0 {
		return 0, false
	}
	step := plotWidth / float64(len(bars))
	for n, bar := range bars {
		if *ms < bar.To {
			return (float64(n) + math.Max(0, (*ms-bar.From)/(bar.To-bar.From))) * step, true
		}
	}
	return plotWidth, true
}
