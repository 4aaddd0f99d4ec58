package measure

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Night is the value of a metric at one firing of a schedule.
type Night struct {
	Value float64
	// SE is the standard error of Value; 0 if it is unknown.
	SE float64
	// IsRestart reports that the configuration (agent, prompt, evaluators or questions) differs from the night before.
	IsRestart bool
}

// Control is one night's point on the control chart: an exponentially weighted moving average (Roberts 1959), with
// limits that include the error of the mean of the first nights (metrics.md, Nights).
type Control struct {
	// Average, Low and High are the average and its limits; meaningless unless HasLimits.
	Average, Low, High float64
	// HasLimits is false for the first nights of a configuration, from which the limits are computed.
	HasLimits bool
	// IsOut reports that the average is beyond its limits, and IsAlarm that this is the first such night: the night
	// before, it was within them.
	IsOut, IsAlarm bool
}

// Drift is a metric of a variant whose moving average leaves its limits: its level has changed.
type Drift struct {
	Variant string  `json:"variant,omitempty" doc:"Name of the variant; absent for a plain task"`
	Metric  Metric  `json:"metric" enum:"agreement,pass_rate,success_rate,latency_ms,cost"`
	Value   float64 `json:"value" doc:"Value of the metric at the firing" example:"0.62"`
	Average float64 `json:"average" doc:"Exponentially weighted moving average up to the firing" example:"0.71"`
	Low     float64 `json:"low" doc:"Lower limit of the average, learned from the first ten firings of the configuration" example:"0.78"`
	High    float64 `json:"high" doc:"Upper limit of the average" example:"0.9"`
	IsWorse bool    `json:"is_worse" doc:"True if a share fell, or if latency or cost rose"`
}

// Limit returns the limit that the average has crossed.
func (d Drift) Limit() float64 {
	if d.Average < d.Low {
		return d.Low
	}
	return d.High
}

// IsSame reports whether two drifts are about the same metric of the same variant.
func (d Drift) IsSame(other Drift) bool {
	return d.Variant == other.Variant && d.Metric == other.Metric
}

// Drifts returns the metrics whose moving averages leave their limits at the newest of the given firings, which are
// listed oldest first. A metric that left its limits earlier and has stayed beyond them is not returned again.
func Drifts(firings []FiringSummary) (drifts []Drift) {
	if len(firings) == 0 {
		return nil
	}
	last := len(firings) - 1
	for n, variant := range firings[last].Variants {
		for _, metric := range Metrics {
			control := ControlsOf(firings, n, metric)[last]
			if control == nil || !control.IsAlarm {
				continue
			}
			drifts = append(drifts, Drift{
				Variant: variant.Name, Metric: metric, Value: variant.Points[metric].Value, Average: control.Average,
				Low: control.Low, High: control.High,
				IsWorse: (control.Average < control.Low) == metric.IsShare(),
			})
		}
	}
	return drifts
}

// ControlsOf returns the control chart of a metric of a variant, given by its index, over firings, oldest first; it
// contains nil for firings in which the metric is unknown.
func ControlsOf(firings []FiringSummary, variant int, metric Metric) []*Control {
	var nights []Night
	var places []int
	isRestart := false // stays true until the metric is known again
	for n, firing := range firings {
		isRestart = isRestart || n > 0 && firing.IsRestart(firings[n-1])
		if variant >= len(firing.Variants) {
			continue
		}
		if point, isKnown := firing.Variants[variant].Points[metric]; isKnown {
			nights, places, isRestart = append(nights, Night{point.Value, point.error(), isRestart}), append(places, n), false
		}
	}
	controls := make([]*Control, len(firings))
	for n, control := range WatchNights(nights) {
		controls[places[n]] = &control
	}
	return controls
}

// error returns the standard error of a point. If all questions have equal values, it is taken from the Wilson
// interval: ten nights without a failed call do not mean that no call ever fails.
func (p Point) error() float64 {
	switch {
	case p.SE != nil && *p.SE > noDeviation:
		return *p.SE
	case p.Low != nil && p.High != nil:
		return (*p.High - *p.Low) / 2 / distuv.UnitNormal.Quantile(oneSided)
	}
	return 0
}

// The parameters of the control chart.
const (
	// LearningNights is the number of a configuration's first nights, from which mean and deviation are computed.
	LearningNights = 10
	newest         = 0.2 // the weight of the newest night
	reach          = 4.0 // how far the limits are from the mean, in standard deviations of the average
)

// WatchNights returns the control chart of the given nights, oldest first.
func WatchNights(nights []Night) []Control {
	controls := make([]Control, len(nights))
	begin := 0
	for n := range nights {
		if nights[n].IsRestart {
			follow(nights[begin:n], controls[begin:n])
			begin = n
		}
	}
	follow(nights[begin:], controls[begin:])
	return controls
}

// follow computes the control chart for the nights of one configuration.
func follow(nights []Night, controls []Control) {
	if len(nights) <= LearningNights {
		return
	}
	values, errors := make([]float64, LearningNights), make([]float64, LearningNights)
	for n, night := range nights[:LearningNights] {
		values[n], errors[n] = night.Value, night.SE
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	deviation = max(deviation, stat.Mean(errors, nil))
	average, isOut := mean, false
	for n, night := range nights[LearningNights:] {
		average = newest*night.Value + (1-newest)*average
		left := math.Pow(1-newest, float64(n+1)) // the weight of mean in average
		limit := reach * deviation * math.Sqrt(newest/(2-newest)*(1-left*left)+(1-left)*(1-left)/LearningNights)
		control := Control{Average: average, Low: mean - limit, High: mean + limit, HasLimits: true}
		control.IsOut = math.Abs(average-mean) > limit+noDeviation
		control.IsAlarm = control.IsOut && !isOut
		isOut = control.IsOut
		controls[LearningNights+n] = control
	}
}
