package measure

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Night is a metric at one firing of a schedule.
type Night struct {
	Value float64
	// SE is the standard error of Value; 0 if it is unknown.
	SE float64
	// IsRestart reports that the configuration (agent, prompt, evaluators or questions) differs from the night before.
	IsRestart bool
}

// Control is what the control chart shows at one night: an exponentially weighted moving average (Roberts 1959), with
// limits that include the error of the mean that the first nights have (metrics.md, Nights).
type Control struct {
	// Average, Low and High are the average and its limits; meaningless unless HasLimits.
	Average, Low, High float64
	// HasLimits is false for the first nights of a configuration, from which the limits are computed.
	HasLimits bool
	// IsOut reports that the average is beyond its limits, IsAlarm that it is so for the first night: the night before,
	// it was within them.
	IsOut, IsAlarm bool
}

// The numbers of the control chart.
const (
	// LearningNights are the nights from which mean and deviation are computed.
	LearningNights = 10
	newest         = 0.2 // the weight of the newest night
	reach          = 4.0 // limits, in standard deviations of the average
)

// WatchNights follows nights, the oldest first.
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

// follow watches the nights of one configuration.
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
