package saved

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"wending/db/measure"
	"wending/jobs/cron"
	"wending/views/text"
)

// plotWidth and plotHeight are the size of a plot in its own units, with space for the labels of its axes.
const (
	plotWidth, plotHeight      = 640.0, 190.0
	left, right, top, bottom   = 56.0, 12.0, 12.0, 26.0
	coordinateDecimals         = 1
	labelsOfTime, labelsOfAxis = 6, 3
)

// curve is one variant's line, in coordinates of the plot.
type curve struct {
	name   string
	number int
	// line has the pieces of the line between its gaps, and band has the intervals of these pieces as areas.
	line, band []string
	dots       []dot
	// average and limits are pieces of the moving average and of its upper and lower limits.
	average, limits []string
}

type dot struct {
	x, y       string
	title, url string
	// isAlert marks a firing that raised an alert about the variant's metric.
	isAlert bool
	// isDrift marks a firing at which the moving average left its limits.
	isDrift bool
}

// plot is one metric over the firings.
type plot struct {
	metric measure.Metric
	curves []curve
	axis   []mark // values, from bottom to top
	times  []mark
	limit  *mark // the limit below which there is an alert; nil for none
	// restarts are the firings whose configuration differs from the previous firing's.
	restarts []restart
}

// hasControl reports whether moving averages are drawn.
func (p plot) hasControl() bool {
	return slices.ContainsFunc(p.curves, func(c curve) bool { return len(c.average) > 0 })
}

// hasBand reports whether intervals are drawn.
func (p plot) hasBand() bool {
	return slices.ContainsFunc(p.curves, func(c curve) bool { return len(c.band) > 0 })
}

// mark is a label; anchor is the side of the label that is at its position.
type mark struct{ at, text, anchor string }

// restart marks a firing at which something changed, and lists the changes.
type restart struct {
	at      string
	changes []measure.ConfigurationChange
	// isLearned reports that the limits remain valid, because the changes do not influence the figures.
	isLearned bool
}

// newPlot draws a metric; ok is false if no firing has a value.
func newPlot(p TrendPage, metric measure.Metric) (drawn plot, ok bool) {
	drawn = plot{metric: metric}
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, firing := range p.Firings {
		for _, variant := range firing.Variants {
			if point, isKnown := variant.Points[metric]; isKnown {
				ok = true
				lowest, highest = min(lowest, point.Value, given(point.Low, point.Value)),
					max(highest, point.Value, given(point.High, point.Value))
			}
		}
	}
	if !ok {
		return drawn, false
	}
	limit := p.Limit
	if metric != p.Watched {
		limit = nil
	}
	if limit != nil {
		lowest, highest = min(lowest, *limit), max(highest, *limit)
	}
	lowest, highest = frame(metric, lowest, highest)
	y := func(value float64) float64 {
		return top + (highest-value)/(highest-lowest)*(plotHeight-top-bottom)
	}
	x := func(place int) float64 {
		if len(p.Firings) == 1 {
			return (left + plotWidth - right) / 2
		}
		return left + float64(place)/float64(len(p.Firings)-1)*(plotWidth-left-right)
	}
	for n := range labelsOfAxis {
		value := lowest + (highest-lowest)*float64(n)/float64(labelsOfAxis-1)
		drawn.axis = append(drawn.axis, mark{at: coordinate(y(value)), text: valueText(metric, value, nil)})
	}
	if limit != nil {
		drawn.limit = &mark{at: coordinate(y(*limit)), text: valueText(metric, *limit, nil)}
	}
	every := (len(p.Firings) + labelsOfTime - 1) / labelsOfTime
	timeOf := p.timeLabels()
	for place, firing := range p.Firings {
		if place%every == 0 {
			drawn.times = append(drawn.times, timeMark(x(place), timeOf(firing.PlannedAt)))
		}
	}
	for number := range p.variants() {
		one := p.curve(metric, number, x, y)
		p.control(&one, metric, x, func(value float64) float64 { return y(max(lowest, min(highest, value))) })
		drawn.curves = append(drawn.curves, one)
	}
	drawn.restarts = p.restarts(x)
	return drawn, true
}

// restarts returns the marks of the firings at which something changed.
func (p TrendPage) restarts(x func(int) float64) (marks []restart) {
	for place := 1; place < len(p.Firings); place++ {
		firing := p.Firings[place]
		isRestart := firing.IsRestart(p.Firings[place-1].FiringSummary)
		if isRestart || len(firing.ConfigurationChanges) > 0 {
			marks = append(marks, restart{coordinate(x(place)), firing.ConfigurationChanges, !isRestart})
		}
	}
	return marks
}

// control adds the moving average of a variant's metric with its limits, and marks where it leaves them (metrics.md,
// Nights).
func (p TrendPage) control(c *curve, metric measure.Metric, x func(int) float64, y func(float64) float64) {
	if p.hasGaps { // only the firings of a schedule are comparable
		return
	}
	var all []measure.FiringSummary
	for _, firing := range slices.Concat(p.Earlier, p.Firings) {
		all = append(all, firing.FiringSummary)
	}
	var average, low, high []string
	end := func() {
		if len(average) > 1 {
			c.average = append(c.average, strings.Join(average, " "))
			c.limits = append(c.limits, strings.Join(low, " "), strings.Join(high, " "))
		}
		average, low, high = nil, nil, nil
	}
	for n, control := range measure.ControlsOf(all, c.number, metric)[len(p.Earlier):] {
		if control == nil {
			continue
		}
		if !control.HasLimits {
			end()
			continue
		}
		at := coordinate(x(n))
		average = append(average, at+","+coordinate(y(control.Average)))
		low, high = append(low, at+","+coordinate(y(control.Low))), append(high, at+","+coordinate(y(control.High)))
		for place := range c.dots {
			if c.dots[place].x == at {
				c.dots[place].isDrift = control.IsAlarm
			}
		}
	}
	end()
}

// timeLabels returns a function that formats the time of a firing as a label: as month and day, and with the time of
// day if two firings are less than a day apart.
func (p TrendPage) timeLabels() func(time.Time) string {
	for n := 1; n < len(p.Firings); n++ {
		if p.Firings[n].PlannedAt.Sub(p.Firings[n-1].PlannedAt) < shortestDay {
			return func(at time.Time) string { return cron.BeijingMinute(at)[5:16] }
		}
	}
	return func(at time.Time) string { return cron.BeijingMinute(at)[5:10] }
}

// shortestDay is shorter than any day: on the day when clocks go forward there are only 23 hours.
const shortestDay = 22 * time.Hour

// timeMark returns a label below the plot; at the plot's edges, the label stays within the plot.
func timeMark(x float64, label string) mark {
	half := float64(len(label)) * widthOfDigit / 2
	switch {
	case x+half > plotWidth:
		return mark{coordinate(plotWidth), label, "end"}
	case x-half < 0:
		return mark{coordinate(0), label, "start"}
	}
	return mark{coordinate(x), label, "middle"}
}

// widthOfDigit is the approximate width of a digit in the axes' font.
const widthOfDigit = 7.0

// frame returns the range that the axis for a metric covers.
func frame(metric measure.Metric, lowest, highest float64) (low, high float64) {
	pad := max((highest-lowest)*0.08, math.Abs(highest)*0.02, 1e-6)
	low, high = max(0, lowest-pad), highest+pad
	if metric.IsShare() {
		high = min(1, high)
		if high-low < 0.1 {
			low, high = max(0, high-0.1), max(high, min(1, low+0.1))
		}
	}
	return low, high
}

// curve draws one variant.
func (p TrendPage) curve(metric measure.Metric, number int, x func(int) float64, y func(float64) float64) curve {
	c := curve{number: number}
	var line, upper, lower []string
	end := func() {
		if len(line) > 1 {
			c.line = append(c.line, strings.Join(line, " "))
		}
		if len(upper) > 1 {
			for n := len(lower) - 1; n >= 0; n-- {
				upper = append(upper, lower[n])
			}
			c.band = append(c.band, strings.Join(upper, " "))
		}
		line, upper, lower = nil, nil, nil
	}
	for place, firing := range p.Firings {
		var variant measure.VariantPoints
		if number < len(firing.Variants) {
			variant = firing.Variants[number]
		}
		if variant.Name != "" {
			c.name = variant.Name
		}
		point, isKnown := variant.Points[metric]
		if !isKnown {
			if !p.hasGaps {
				end()
			}
			continue
		}
		at := coordinate(x(place))
		line = append(line, at+","+coordinate(y(point.Value)))
		upper = append(upper, at+","+coordinate(y(given(point.High, point.Value))))
		lower = append(lower, at+","+coordinate(y(given(point.Low, point.Value))))
		c.dots = append(c.dots, dot{
			x: at, y: coordinate(y(point.Value)),
			title: cron.BeijingMinute(firing.PlannedAt) + " · " + pointText(metric, point, variant.Currency),
			url:   firing.href(), isAlert: metric == p.Watched && firing.alerted(variant.Name),
		})
	}
	end()
	return c
}

func given(value *float64, otherwise float64) float64 {
	if value == nil {
		return otherwise
	}
	return *value
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', coordinateDecimals, 64) }

// valueText formats a metric's value.
func valueText(metric measure.Metric, value float64, currency *string) string {
	switch {
	case metric == measure.MetricLatency:
		return text.Span(value)
	case !metric.IsShare():
		cost := text.Significant(value, 3)
		return text.Cost(&cost, currency)
	}
	return text.Percent(&value)
}

// pointText formats a point with its interval: 82.0 % [78.1, 85.9].
func pointText(metric measure.Metric, point measure.Point, currency *string) string {
	written := valueText(metric, point.Value, currency)
	if point.Low != nil && point.High != nil {
		written += " [" + valueText(metric, *point.Low, nil) + ", " + valueText(metric, *point.High, nil) + "]"
	}
	return written
}
