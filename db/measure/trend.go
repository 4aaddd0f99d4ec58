package measure

import (
	"strconv"

	"github.com/google/uuid"
	"gonum.org/v1/gonum/stat"

	"wending/db/measure/facts"
)

// Metric is a metric whose trend is watched.
type Metric string

// The metrics. Latency is the mean of the questions' means in milliseconds; Cost is the cost of the whole firing.
const (
	MetricAgreement   Metric = "agreement"
	MetricMeaning     Metric = "meaning_agreement"
	MetricPassRate    Metric = "pass_rate"
	MetricSuccessRate Metric = "success_rate"
	MetricLatency     Metric = "latency_ms"
	MetricCost        Metric = "cost"
)

// Metrics lists all metrics in the order in which pages show them.
var Metrics = []Metric{
	MetricAgreement, MetricMeaning, MetricPassRate, MetricSuccessRate, MetricLatency, MetricCost,
}

// IsShare reports whether a metric is a share, from 0 to 1. For shares, more is better; for other metrics, less is.
func (m Metric) IsShare() bool { return m != MetricLatency && m != MetricCost }

// of returns a question's value of the metric; nil if it is unknown.
func (m Metric) of(q ComparedQuestion) *float64 {
	switch m {
	case MetricAgreement:
		return q.Agreement
	case MetricMeaning:
		return q.Meaning
	case MetricPassRate:
		return q.PassShare
	case MetricSuccessRate:
		return q.SuccessRate
	case MetricLatency:
		return q.LatencyMS
	}
	return q.Cost
}

// Point is a metric at one firing, with its 95 % interval over the questions; Low and High are nil without one.
type Point struct {
	Value float64  `json:"value" doc:"Value of the metric: a share from 0 to 1, milliseconds for latency_ms, or the total cost of the firing" example:"0.82"`
	Low   *float64 `json:"low" doc:"Lower end of the 95 % interval over the questions; null with fewer than two questions and, for latency and cost, if all are equal"`
	High  *float64 `json:"high" doc:"Upper end of the interval; null if low is"`
	SE    *float64 `json:"se" doc:"Standard error of the value; null with fewer than two questions"`
}

// VariantPoints are the metrics of one variant at a firing.
type VariantPoints struct {
	Number   int              `json:"number" example:"1"`
	Name     string           `json:"name"`
	Currency *string          `json:"currency" example:"USD"`
	Points   map[Metric]Point `json:"points" doc:"Values of agreement, meaning_agreement, pass_rate, success_rate, latency_ms and cost; unknown ones are left out"`
}

// FiringSummary sums up the results of a firing.
type FiringSummary struct {
	Variants []VariantPoints `json:"variants"`
	// Alerts are the reasons for an alert; empty if nothing was watched.
	Alerts []Finding `json:"alerts,omitempty"`
	// Drifts are the metrics whose moving averages left their limits at this firing; only the first firing of an
	// excursion lists them.
	Drifts []Drift `json:"drifts,omitempty"`
	// FactChanges are the questions whose facts changed since the previous firing; nil without a previous firing.
	FactChanges *FactChanges `json:"facts_changed,omitempty"`
	// ConfigurationChanges are the changes since the previous firing to what the task uses; nil if there are none.
	ConfigurationChanges []ConfigurationChange `json:"configuration_changes,omitempty"`
	// Configuration identifies what is asked, which agents are asked, and how answers are judged; empty for firings
	// recorded by older versions.
	Configuration string `json:"configuration,omitempty"`
}

// IsRestart reports whether a firing's configuration is known to differ from the previous firing's.
func (f FiringSummary) IsRestart(before FiringSummary) bool {
	return before.Configuration != "" && f.Configuration != "" && before.Configuration != f.Configuration
}

// ConfigurationKind says which of the things that a task uses has changed.
type ConfigurationKind string

// The kinds. ConfiguredSettings are the settings that affect metrics, ConfiguredTarget the agents and models, and
// ConfiguredJudge the models that judge and group answers. ConfiguredCredentials means that a target at the same
// address is called with a different key, or different headers or parameters.
const (
	ConfiguredDataset     ConfigurationKind = "dataset"
	ConfiguredSettings    ConfigurationKind = "settings"
	ConfiguredTarget      ConfigurationKind = "target"
	ConfiguredPrompt      ConfigurationKind = "prompt"
	ConfiguredEvaluator   ConfigurationKind = "evaluator"
	ConfiguredJudge       ConfigurationKind = "judge"
	ConfiguredCredentials ConfigurationKind = "credentials"
)

// ConfigurationKinds lists all kinds in the order in which changes are listed.
var ConfigurationKinds = []ConfigurationKind{
	ConfiguredDataset, ConfiguredTarget, ConfiguredPrompt, ConfiguredEvaluator, ConfiguredJudge, ConfiguredCredentials,
	ConfiguredSettings,
}

// ConfigurationChange is something that a task uses and that changed between two firings.
type ConfigurationChange struct {
	Kind   ConfigurationKind `json:"kind" doc:"What changed; credentials: the key, headers or parameters of an agent or model" example:"prompt"`
	Before string            `json:"before" doc:"Name and version at the previous firing; empty if it was not used" example:"简短 v2"`
	Now    string            `json:"now" doc:"Name and version now; empty if it is no longer used; equal to before if only its contents changed" example:"简短 v3"`
}

// FactChanges are the questions of a firing whose most common answer contradicts the most common answer of an earlier
// firing on a fact.
type FactChanges struct {
	Since     *uuid.UUID   `json:"since" doc:"Id of the earlier task of the comparison; null if stored by an older version"`
	Questions int          `json:"questions" doc:"Number of questions that changed" example:"3"`
	Compared  int          `json:"compared" doc:"Number of pairs of most common answers that were compared, over all variants; if answers are very long, not all pairs are compared" example:"120"`
	Pairs     int          `json:"pairs" doc:"Number of pairs in total; 0 if stored by an older version" example:"120"`
	Items     []FactChange `json:"items" nullable:"false" doc:"The first 20 changed questions, each with the first fact that changed"`
}

// FactChange is a question with a fact that changed.
type FactChange struct {
	Number     int        `json:"number" doc:"Position of the question in the task, from 1" example:"12"`
	QuestionID string     `json:"question_id" example:"q-12"`
	Variant    string     `json:"variant,omitempty" doc:"Name of the variant; absent if the task has only one"`
	Kind       facts.Kind `json:"kind" example:"duration"`
	Label      string     `json:"label" doc:"The words around the fact, at most 20 characters" example:"答复期限为"`
	Before     string     `json:"before" doc:"The value as written in the previous answer" example:"30 日"`
	Now        string     `json:"now" doc:"The value as written in the current answer" example:"35 日"`
}

// PointsOf returns the metrics of the questions of one variant, without those that are unknown; cost is the sum of the
// known costs, a decimal number, or nil.
func PointsOf(questions []ComparedQuestion, cost *string) map[Metric]Point {
	points := map[Metric]Point{}
	for _, metric := range Metrics {
		var values Sample
		for _, question := range questions {
			if value := metric.of(question); value != nil {
				values.Add(*value, question.Cluster)
			}
		}
		mean := values.Mean()
		if mean == nil {
			continue
		}
		point, interval := Point{Value: *mean}, values.Interval()
		if metric.IsShare() {
			interval = values.Share()
			if se := values.SE(); se != nil && *se < noDeviation {
				interval = Wilson(*mean, values.Clusters())
			}
		}
		scale := 1.0
		if metric == MetricCost {
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
		if se := values.SE(); se != nil {
			scaled := *se * scale
			point.SE = &scaled
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

// Watch defines when an alert is raised.
type Watch struct {
	Metric Metric
	// Below is the limit; nil means none. With IfWorse, an alert is also raised if the metric is worse than before by
	// more than Margin, beyond chance.
	Below   *float64
	IfWorse bool
	Margin  float64
}

// Finding is a reason for an alert: the metric of a variant is below the limit, significantly worse than before, or
// both.
type Finding struct {
	// Variant is the variant's name; empty for a plain task.
	Variant string  `json:"variant,omitempty"`
	Value   float64 `json:"value"`
	// Below is the limit if Value is below it; otherwise nil.
	Below *float64 `json:"below,omitempty"`
	// Baseline is the mean over the previous firings, and Firings how many these are. Baseline is nil unless Value is
	// worse than it, beyond chance. Adjusted is the p-value of the difference, adjusted for all variants of the firing
	// (metrics.md, family d); nil if each question became worse by the same amount.
	Baseline *float64 `json:"baseline,omitempty"`
	Firings  int      `json:"firings,omitempty"`
	Adjusted *float64 `json:"p_adjusted,omitempty"`
}

// Alert holds everything found at one firing: it is sent as one message.
type Alert struct {
	ScheduleID   uuid.UUID `json:"schedule_id"`
	ScheduleName string    `json:"schedule_name"`
	Metric       Metric    `json:"metric"`
	// Finding is the first of Findings, for receivers that read only one. Without findings, Metric is the metric of
	// the first drift, and Finding holds its variant and value.
	Finding
	Findings []Finding `json:"findings"`
	Drifts   []Drift   `json:"drifts,omitempty"`
}

// Watched holds a variant's results at a firing, and at earlier firings.
type Watched struct {
	VariantPoints
	Now    []ComparedQuestion
	Before [][]ComparedQuestion
}

// Look compares the variants' results at a firing with the limit and with earlier firings.
func (w Watch) Look(variants []Watched) (found []Finding) {
	tests := make([]GateTest, len(variants))
	for n, variant := range variants {
		tests[n] = GateTest{IsLessBetter: !w.Metric.IsShare(), Margin: w.Margin}
		if w.IfWorse && len(variant.Before) > 0 {
			tests[n].Change = CompareTasks(w.mean(variant.Before), variant.Now).Change(w.Metric.of)
		}
	}
	for n, result := range Gate(tests) {
		variant, change := variants[n], tests[n].Change
		point, isKnown := variant.Points[w.Metric]
		if !isKnown {
			continue
		}
		finding := Finding{Variant: variant.Name, Value: point.Value}
		if result.Verdict == IsWorse {
			finding.Value, finding.Baseline, finding.Firings, finding.Adjusted = *change.MeanB, change.MeanA,
				len(variant.Before), result.Adjusted
		}
		if w.Below != nil && point.Value < *w.Below {
			finding.Value, finding.Below = point.Value, w.Below
		}
		if finding.Below != nil || finding.Baseline != nil {
			found = append(found, finding)
		}
	}
	return found
}

// mean combines firings into one: each question has the mean of the metric over the firings in which it is known.
func (w Watch) mean(firings [][]ComparedQuestion) (joined []ComparedQuestion) {
	places, values := map[string]int{}, [][]float64{}
	for _, questions := range firings {
		for _, question := range questions {
			place, isThere := places[question.QuestionID]
			if !isThere {
				place = len(joined)
				places[question.QuestionID] = place
				joined = append(joined, ComparedQuestion{
					ID: int64(place), Cluster: question.Cluster, QuestionID: question.QuestionID, Text: question.Text,
				})
				values = append(values, nil)
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
		case MetricAgreement:
			question.Agreement = &mean
		case MetricMeaning:
			question.Meaning = &mean
		case MetricPassRate:
			question.PassShare = &mean
		case MetricSuccessRate:
			question.SuccessRate = &mean
		case MetricLatency:
			question.LatencyMS = &mean
		case MetricCost:
			question.Cost = &mean
		}
	}
	return joined
}
