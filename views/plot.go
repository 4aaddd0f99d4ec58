package views

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"wending/db"
)

// plotWidth and plotHeight are the units that plots are drawn in; the page stretches them.
const plotWidth, plotHeight = 600.0, 100.0

// column is one bar of a plot as it is drawn: what succeeded stands below what did not.
type column struct {
	x, width            float64
	succeeded, failed   float64 // heights
	countGood, countBad int
	fromValue, toValue  float64
}

// columnsOf scales bars to the tallest.
func columnsOf(bars []db.Bar) []column {
	columns := make([]column, len(bars))
	step := plotWidth / float64(max(1, len(bars)))
	for n, bar := range bars {
		scale := plotHeight / float64(max(1, tallest(bars)))
		columns[n] = column{x: float64(n) * step, width: step * 0.82, succeeded: height(bar.Succeeded, scale), failed: height(bar.Failed, scale),
			countGood: bar.Succeeded, countBad: bar.Failed, fromValue: bar.From, toValue: bar.To}
	}
	return columns
}

// tallest is how many runs the highest bar has.
func tallest(bars []db.Bar) (runs int) {
	for _, bar := range bars {
		runs = max(runs, bar.Succeeded+bar.Failed)
	}
	return runs
}

// height is at least one unit for what is there at all.
func height(count int, scale float64) float64 {
	if count == 0 {
		return 0
	}
	return math.Max(1, float64(count)*scale)
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// latencyPlace is where a latency lies on the logarithmic axis of the bars.
func latencyPlace(bars []db.Bar, ms *float64) (x float64, isThere bool) {
	if ms == nil || len(bars) == 0 {
		return 0, false
	}
	low, high := math.Log(bars[0].From), math.Log(bars[len(bars)-1].To)
	place := (math.Log(math.Max(1, *ms)) - low) / (high - low)
	return math.Min(1, math.Max(0, place)) * plotWidth, high > low
}

// formatSpan writes a latency in the unit that fits it.
func formatSpan(ms float64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return fmt.Sprintf("%.0f s", ms/1000)
}

// formatClock writes seconds since a start as m:ss or h:mm:ss, or with a fraction where the bars span little.
func formatClock(seconds float64, bars []db.Bar) string {
	if bars[len(bars)-1].To < 20 {
		return fmt.Sprintf("%.1f s", seconds)
	}
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	if h > 0 {
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}

// TimeLeft is the time until the task's last run at the rate of the last seconds; not known while nothing
// comes back.
func TimeLeft(p db.Progress) (left time.Duration, isKnown bool) {
	if !p.TaskStatus.IsActive() || p.CallsPerSecond <= 0 {
		return 0, false
	}
	return time.Duration(float64(p.Open()) / p.CallsPerSecond * float64(time.Second)), true
}
