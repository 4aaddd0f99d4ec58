// Package trend says how the numbers of a task that is run again and again move: a point with its interval for each firing, and when
// one is reason for an alert.
package trend

import (
	"strconv"

	"gonum.org/v1/gonum/stat"

	"wending/jobs/comparison"
	"wending/jobs/evaluate"
)

// Metric is a number that is followed.
type Metric string

// The metrics. Latency is the mean of the questions' means in milliseconds, Cost that of the whole firing.
const (
	Agreement   Metric = "agreement"
	PassRate    Metric = "pass_rate"
	SuccessRate Metric = "success_rate"
	Latency     Metric = "latency_ms"
	Cost        Metric = "cost"
)

// Metrics are all metrics, in the order of pages.
var Metrics = []Metric{Agreement, PassRate, SuccessRate, Latency, Cost}

// IsShare reports whether a metric lies between 0 and 1; more of it is better, of the others less.
func (m Metric) IsShare() bool { return m != Latency && m != Cost }

// of is what a question says of the metric; nil while it is unknown.
func (m Metric) of(q comparison.Question) *float64 {
	switch m {
	case Agreement:
		return q.Agreement
	case PassRate:
		return q.PassShare
	case SuccessRate:
		return q.SuccessRate
	case Latency:
		return q.LatencyMS
	}
	return q.Cost
}

// Point is a metric at one firing, with its 95 % interval over the questions; Low and High are nil where there is none.
type Point struct {
	Value float64  `json:"value" example:"0.82"`
	Low   *float64 `json:"low" doc:"Ends of the 95 % interval over the questions; null with fewer than two, or where all are equal"`
	High  *float64 `json:"high"`
}

// VariantPoints are what one variant did at a firing.
type VariantPoints struct {
	Number   int              `json:"number" example:"1"`
	Name     string           `json:"name"`
	Currency *string          `json:"currency" example:"USD"`
	Points   map[Metric]Point `json:"points" doc:"agreement, pass_rate, success_rate, latency_ms, cost; what is unknown is left out"`
}

// Summary is what a firing did.
type Summary struct {
	Variants []VariantPoints `json:"variants"`
}

// PointsOf are the metrics of the questions of one variant; cost is the sum of what is known, a decimal number, or nil.
func PointsOf(questions []comparison.Question, cost *string) map[Metric]Point {
	points := map[Metric]Point{}
	for _, metric := range Metrics {
		var values []float64
		for _, question := range questions {
			if value := metric.of(question); value != nil {
				values = append(values, *value)
			}
		}
		if len(values) == 0 {
			continue
		}
		point, interval := Point{Value: stat.Mean(values, nil)}, evaluate.AnyInterval(values)
		if metric.IsShare() {
			interval = evaluate.MeanInterval(values)
		}
		scale := 1.0
		if metric == Cost {
			total, err := strconv.ParseFloat(textOf(cost), 64)
			if err != nil || point.Value == 0 {
				continue
			}
			scale = total / point.Value
		}
		point.Value *= scale
		if interval != nil {
			low, high := max(0, interval[0]*scale), interval[1]*scale
			point.Low, point.High = &low, &high
		}
		points[metric] = point
	}
	return points
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Watch is what an alert follows.
type Watch struct {
	Metric Metric
	// Below is the limit; nil for none. IfWorse asks for an alert if the metric is significantly worse than before.
	Below   *float64
	IfWorse bool
}

// Found is an alert: the metric is below the limit, or worse than Baseline, its mean over the Firings before.
type Found struct {
	Value    float64
	Below    *float64
	Baseline *float64
	Firings  int
}

// Look compares what a variant did with the limit and with what it did at the firings before.
func (w Watch) Look(points map[Metric]Point, now []comparison.Question, before [][]comparison.Question) (found []Found) {
	point, isKnown := points[w.Metric]
	if !isKnown {
		return nil
	}
	if w.Below != nil && point.Value < *w.Below {
		found = append(found, Found{Value: point.Value, Below: w.Below})
	}
	if !w.IfWorse || len(before) == 0 {
		return found
	}
	change := comparison.Compare(w.mean(before), now).Change(w.Metric.of)
	isWorse := change.IsShown() && (w.Metric.IsShare() == (*change.Mean < 0))
	if isWorse {
		found = append(found, Found{Value: *change.MeanB, Baseline: change.MeanA, Firings: len(before)})
	}
	return found
}

// mean joins firings: of each question the mean of the metric over those that know it.
func (w Watch) mean(firings [][]comparison.Question) (joined []comparison.Question) {
	places, values := map[string]int{}, [][]float64{}
	for _, questions := range firings {
		for _, question := range questions {
			place, isThere := places[question.QuestionID]
			if !isThere {
				place = len(joined)
				places[question.QuestionID] = place
				joined, values = append(joined, comparison.Question{ID: int64(place), QuestionID: question.QuestionID, Text: question.Text}), append(values, nil)
			}
			if value := w.Metric.of(question); value != nil {
				values[place] = append(values[place], *value)
			}
		}
	}
	for place := range joined {
		if len(values[place]) == 0 {
			continue
		}
		mean := stat.Mean(values[place], nil)
		switch question := &joined[place]; w.Metric {
		case Agreement:
			question.Agreement = &mean
		case PassRate:
			question.PassShare = &mean
		case SuccessRate:
			question.SuccessRate = &mean
		case Latency:
			question.LatencyMS = &mean
		case Cost:
			question.Cost = &mean
		}
	}
	return joined
}
