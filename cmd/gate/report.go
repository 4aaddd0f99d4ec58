package gate

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"wending/db/measure"
)

// variant holds the statistics of one variant.
type variant struct {
	Number        int      `json:"number"`
	Name          string   `json:"name"`
	RunsExpected  int      `json:"runs_expected"`
	Succeeded     int      `json:"succeeded"`
	SuccessRate   *float64 `json:"success_rate"`
	IdenticalRate *float64 `json:"identical_rate"`
	Agreement     *float64 `json:"agreement"`
	Meaning       *float64 `json:"meaning_agreement"`
	Consensus     *float64 `json:"consensus"`
	Similarity    *float64 `json:"similarity"`
	PassRate      *float64 `json:"pass_rate"`
	PassRateAll   *float64 `json:"pass_rate_all"`
	MajorityRate  *float64 `json:"majority_rate"`
	ScoreMean     *float64 `json:"score_mean"`
	LatencyP50    *float64 `json:"latency_p50_ms"`
	LatencyP90    *float64 `json:"latency_p90_ms"`
	Cost          *string  `json:"cost"`
	Currency      *string  `json:"currency"`
}

func (v variant) metric(name string) *float64 {
	var cost *float64
	if v.Cost != nil {
		if amount, err := strconv.ParseFloat(*v.Cost, 64); err == nil {
			cost = &amount
		}
	}
	return map[string]*float64{
		"latency_p90_ms": v.LatencyP90, "cost": cost,
		"success_rate": v.SuccessRate, "identical_rate": v.IdenticalRate, "agreement": v.Agreement, "consensus": v.Consensus,
		"similarity": v.Similarity, meaningAgreement: v.Meaning,
		"pass_rate": v.PassRate, "pass_rate_all": v.PassRateAll, "majority_rate": v.MajorityRate, "score_mean": v.ScoreMean,
	}[name]
}

// question is a question of the task, with its runs.
type question struct {
	ID       string `json:"question_id"`
	Text     string `json:"question"`
	Variants []struct {
		Number    int      `json:"number"`
		Agreement *float64 `json:"agreement"`
		Letters   *string  `json:"letters"`
		PassShare *float64 `json:"pass_share"`
	} `json:"variants"`
	Runs []run `json:"runs"`
}

type run struct {
	Variant      int          `json:"variant"`
	Index        int          `json:"run_index"`
	Status       string       `json:"status"`
	LatencyMS    *int         `json:"latency_ms"`
	ErrorCode    *string      `json:"error_code"`
	ErrorMessage *string      `json:"error_message"`
	Evaluations  []evaluation `json:"evaluations"`
}

type evaluation struct {
	Name   string `json:"name"`
	Passed *bool  `json:"passed"`
	Reason string `json:"reason"`
}

// evaluator is an evaluator of the task, with its fitness according to people's verdicts.
type evaluator struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Record struct {
		N       int      `json:"n"`
		Kappa   *float64 `json:"kappa"`
		Fitness *string  `json:"fitness"`
	} `json:"record"`
}

// judgedMetrics are the metrics of limits and margins that rely on the evaluators' verdicts.
var judgedMetrics = []string{"pass_rate", "pass_rate_all", "majority_rate", "score_mean", itemPass,
	"pass_share", "score"}

// unfit returns a warning for each judge that is not known to be fit to gate releases, if a limit or a margin relies on
// it.
func (r report) unfit(limits, margins map[string]float64) (warnings []string) {
	rests := slices.ContainsFunc(judgedMetrics, func(metric string) bool {
		_, hasLimit := limits[metric]
		_, hasMargin := margins[metric]
		return hasLimit || hasMargin
	})
	for _, one := range r.Evaluators {
		switch {
		case !rests || one.Kind != "judge" || one.Record.Fitness != nil && *one.Record.Fitness == "gate":
		case one.Record.Fitness == nil || one.Record.Kappa == nil:
			warnings = append(warnings, fmt.Sprintf("the judge %s is not shown to be fit to gate releases: it has been "+
				"compared with people on %d answers; at least 20 with different verdicts are needed", one.Name, one.Record.N))
		default:
			warnings = append(warnings, fmt.Sprintf("the judge %s is not fit to gate releases: its κ with people is %.2f on "+
				"%d answers, and 0.7 is needed", one.Name, *one.Record.Kappa, one.Record.N))
		}
	}
	return warnings
}

// difference describes how far a metric differs from the baseline.
type difference struct {
	Difference *float64   `json:"difference"`
	SE         *float64   `json:"se"`
	Interval   *[]float64 `json:"interval"`
	N          int        `json:"n"`
	Clusters   int        `json:"clusters"`
}

// change returns the difference in the form in which measure tests it.
func (d difference) change() measure.Change {
	return measure.Change{N: d.N, Clusters: d.Clusters, Mean: d.Difference, SE: d.SE}
}

// equals reports whether two differences are the same.
func (d difference) equals(other difference) bool {
	return d.N == other.N && d.Difference != nil && other.Difference != nil &&
		math.Abs(*d.Difference-*other.Difference) < 1e-9 &&
		reflect.DeepEqual(d.Interval, other.Interval)
}

// report is the result of a task.
type report struct {
	// Name is the task's name, and ID is its id. URL is the address of its page; it is empty if the server ends with the
	// command. Baseline is the task it is compared with; empty means none.
	Name, ID, URL, Baseline string
	RunsPerItem             int
	Variants                []variant
	Evaluators              []evaluator
	Questions               []question
	// Differences are the differences from the baseline, keyed by variant number and then by metric; nil without a
	// baseline.
	Differences map[int]map[string]difference
}

// read reads the statistics, the questions and, with a baseline, the differences from it.
func (c Client) read(ctx context.Context, id, baseline string) (r report, err error) {
	path := "evaluation-tasks/" + id
	var statistics struct {
		Variants   []variant   `json:"variants"`
		Evaluators []evaluator `json:"evaluators"`
	}
	if err := c.call(ctx, "GET", path+"/statistics", "", nil, &statistics); err != nil {
		return r, err
	}
	r.ID, r.Baseline, r.Variants, r.Evaluators = id, baseline, statistics.Variants, statistics.Evaluators
	for page := 1; ; page++ {
		var results struct {
			Items      []question `json:"items"`
			Pagination pagination `json:"pagination"`
		}
		query := url.Values{"page": {strconv.Itoa(page)}, "page_size": {"100"}}
		if err := c.call(ctx, "GET", path+"/results?"+query.Encode(), "", nil, &results); err != nil {
			return r, err
		}
		r.Questions = append(r.Questions, results.Items...)
		if results.Pagination.isLast() {
			break
		}
	}
	if baseline == "" {
		return r, nil
	}
	r.Differences = map[int]map[string]difference{}
	for _, one := range r.Variants {
		a := baseline
		if !strings.Contains(a, ":") && len(r.Variants) > 1 {
			a += ":" + strconv.Itoa(one.Number)
		}
		query := url.Values{"a": {a}, "b": {id + ":" + strconv.Itoa(one.Number)}}
		var compared struct {
			Differences map[string]difference `json:"differences"`
		}
		if err := c.call(ctx, "GET", "comparison?"+query.Encode(), "", nil, &compared); err != nil {
			return r, fmt.Errorf("compare with the baseline: %w", err)
		}
		r.Differences[one.Number] = compared.Differences
	}
	return r, nil
}
