package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Options are the options of an evaluation.
type Options struct {
	Spec Spec
	// Wait waits until the task has ended; the options below imply it.
	Wait bool
	// Baseline is the task, <id> or <id>:<variant>, to compare with: the result must not be significantly worse.
	// Empty means none.
	Baseline string
	// FailUnder are limits, by metric.
	FailUnder map[string]float64
	// JUnit and Out are the paths of output files; empty means none.
	JUnit, Out string
	// Result receives the summary, Progress the progress lines. With IsTerminal one progress line is rewritten in place.
	Result, Progress io.Writer
	IsTerminal       bool
	// IsLocal means that the server ends with the command, so that the task cannot be opened afterwards.
	IsLocal bool
}

// ErrBelow means that a limit was not met, or that the task is significantly worse than the baseline.
var ErrBelow = errors.New("below the limit")

// Run runs an evaluation. It returns ErrBelow if it ended and did not pass; any other error means that it could not run.
func Run(ctx context.Context, client Client, o Options) error {
	if err := o.check(ctx, client); err != nil {
		return err
	}
	id, err := client.Create(ctx, o.Spec)
	if err != nil {
		return err
	}
	if !o.IsLocal {
		_, _ = fmt.Fprintf(o.Result, "task %s\n%s/tasks/%s\n", id, client.Server, id)
	}
	if !o.Wait && o.Baseline == "" && len(o.FailUnder) == 0 && o.JUnit == "" && o.Out == "" {
		return nil
	}
	last, err := o.await(ctx, client, id)
	if err != nil {
		return err
	}
	report, err := client.read(ctx, id, o.Baseline)
	if err != nil {
		return err
	}
	checks := append(report.limits(o.FailUnder), report.losses()...)
	if o.Out != "" {
		if err := client.Download(ctx, id, o.Out); err != nil {
			return err
		}
	}
	if o.JUnit != "" {
		name, _ := o.Spec.Task["task_name"].(string)
		if err := writeFile(o.JUnit, func(w io.Writer) error { return writeJUnit(w, name, report, checks) }); err != nil {
			return err
		}
	}
	report.write(o.Result, checks)
	switch {
	case last.Status != "SUCCEEDED":
		return fmt.Errorf("the task ended as %s%s", last.Status, because(last))
	case last.Statistics.Succeeded == 0:
		return fmt.Errorf("no call succeeded: %s", codes(last.Statistics.ErrorCodes))
	}
	for _, check := range checks {
		if !check.passed {
			return ErrBelow
		}
	}
	return nil
}

func because(p Progress) string {
	switch {
	case p.Failure != nil:
		return ": " + *p.Failure
	case p.StopReason != nil && *p.StopReason != "":
		return ": " + *p.StopReason
	}
	return ""
}

func codes(counts map[string]int) string {
	var list []string
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s × %d", code, counts[code]))
	}
	return strings.Join(list, ", ")
}

// quiet is the time between progress lines if they cannot be rewritten in place.
const quiet = 10 * time.Second

// await waits for the task's end and prints its progress.
func (o Options) await(ctx context.Context, client Client, id string) (Progress, error) {
	var said time.Time
	last, err := client.Await(ctx, id, func(p Progress) {
		line := fmt.Sprintf("%s %d/%d runs, %d failed", p.Status, p.Statistics.Runs, p.TotalRuns, p.Statistics.Failed+p.Statistics.TimedOut)
		if p.Statistics.Runs == p.TotalRuns && p.Statistics.JudgeMissing > 0 {
			line += fmt.Sprintf(", %d to judge", p.Statistics.JudgeMissing)
		}
		switch {
		case o.IsTerminal:
			_, _ = fmt.Fprintf(o.Progress, "\r\x1b[K%s", line)
		case !p.IsActive() || time.Since(said) >= quiet:
			said = time.Now()
			_, _ = fmt.Fprintln(o.Progress, line)
		}
	})
	if o.IsTerminal {
		_, _ = fmt.Fprintln(o.Progress)
	}
	return last, err
}

// variant holds the statistics of one variant.
type variant struct {
	Number        int      `json:"number"`
	Name          string   `json:"name"`
	RunsExpected  int      `json:"runs_expected"`
	Succeeded     int      `json:"succeeded"`
	SuccessRate   *float64 `json:"success_rate"`
	IdenticalRate *float64 `json:"identical_rate"`
	Agreement     *float64 `json:"agreement"`
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
		"success_rate": v.SuccessRate, "identical_rate": v.IdenticalRate, "agreement": v.Agreement, "consensus": v.Consensus, "similarity": v.Similarity,
		"pass_rate": v.PassRate, "pass_rate_all": v.PassRateAll, "majority_rate": v.MajorityRate, "score_mean": v.ScoreMean,
	}[name]
}

// question is a question with its runs.
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
	Variant      int     `json:"variant"`
	Index        int     `json:"run_index"`
	Status       string  `json:"status"`
	LatencyMS    *int    `json:"latency_ms"`
	ErrorCode    *string `json:"error_code"`
	ErrorMessage *string `json:"error_message"`
	Evaluations  []struct {
		Name   string `json:"name"`
		Passed *bool  `json:"passed"`
		Reason string `json:"reason"`
	} `json:"evaluations"`
}

// difference is the difference between a number and the baseline's number.
type difference struct {
	Difference *float64   `json:"difference"`
	Interval   *[]float64 `json:"interval"`
	N          int        `json:"n"`
}

// equals reports whether two differences are the same.
func (d difference) equals(other difference) bool {
	return d.N == other.N && d.Difference != nil && other.Difference != nil && math.Abs(*d.Difference-*other.Difference) < 1e-9 &&
		reflect.DeepEqual(d.Interval, other.Interval)
}

// report is the result of a task.
type report struct {
	Variants  []variant
	Questions []question
	// Differences are the differences from the baseline, by variant number, then by metric; nil without a baseline.
	Differences map[int]map[string]difference
}

// read reads the statistics, the questions and, with a baseline, the differences from it.
func (c Client) read(ctx context.Context, id, baseline string) (r report, err error) {
	path := "evaluation-tasks/" + id
	var statistics struct {
		Variants []variant `json:"variants"`
	}
	if err := c.call(ctx, "GET", path+"/statistics", "", nil, &statistics); err != nil {
		return r, err
	}
	r.Variants = statistics.Variants
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

// check is a limit or a comparison, with its outcome.
type check struct {
	variant int
	name    string
	text    string
	passed  bool
}

// limits checks limits for each variant. An unknown value does not meet its limit.
func (r report) limits(limits map[string]float64) (checks []check) {
	for _, one := range r.Variants {
		for _, metric := range slices.Sorted(maps.Keys(limits)) {
			value, limit := one.metric(metric), limits[metric]
			c := check{variant: one.Number, name: fmt.Sprintf("%s ≥ %s", metric, amount(metric, &limit))}
			c.passed = value != nil && *value >= limit
			if isMost(metric) {
				c.name = fmt.Sprintf("%s ≤ %s", metric, amount(metric, &limit))
				c.passed = value != nil && *value <= limit
			}
			c.text = fmt.Sprintf("%s is %s, the limit is %s", metric, amount(metric, value), amount(metric, &limit))
			checks = append(checks, c)
		}
	}
	return checks
}

// amount formats a metric's value.
func amount(metric string, value *float64) string {
	switch {
	case value == nil || !isMost(metric):
		return percent(value)
	case metric == "latency_p90_ms":
		return strconv.FormatFloat(*value, 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(*value, 'g', 6, 64)
}

// watched are the numbers that must not be significantly worse than those of the baseline.
var watched = []string{"success_rate", "agreement", "pass_share", "score"}

// losses checks that no variant is significantly worse than the baseline.
func (r report) losses() (checks []check) {
	for _, one := range r.Variants {
		differences := r.Differences[one.Number]
		for _, metric := range watched {
			d := differences[metric]
			// with a single rule, score and pass share are the same
			if d.Difference == nil || metric == "score" && d.equals(differences["pass_share"]) {
				continue
			}
			c := check{variant: one.Number, name: metric + " against the baseline", passed: true}
			c.text = fmt.Sprintf("%s changed by %+.1f points", metric, 100**d.Difference)
			if d.Interval != nil && len(*d.Interval) == 2 {
				low, high := (*d.Interval)[0], (*d.Interval)[1]
				c.passed = high >= 0
				c.text += fmt.Sprintf(", 95 %% interval %+.1f … %+.1f, %d questions", 100*low, 100*high, d.N)
			} else { // a single question, or all changed by the same amount
				c.passed = d.N < 2 || *d.Difference >= 0
				c.text += fmt.Sprintf(", the same on each of %d questions", d.N)
			}
			checks = append(checks, c)
		}
	}
	return checks
}

func percent(share *float64) string {
	if share == nil {
		return "unknown"
	}
	return strconv.FormatFloat(100**share, 'f', 1, 64) + "%"
}

// write writes the summary as a table.
func (r report) write(w io.Writer, checks []check) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "variant\tsucceeded\tagreement\tidentical\tpass rate\tP50\tcost")
	for _, one := range r.Variants {
		name := one.Name
		if name == "" {
			name = "1"
		}
		latency, cost := "–", "–"
		if one.LatencyP50 != nil {
			latency = strconv.FormatFloat(*one.LatencyP50, 'f', 0, 64) + " ms"
		}
		if one.Cost != nil {
			cost = *one.Cost
			if one.Currency != nil {
				cost += " " + *one.Currency
			}
		}
		_, _ = fmt.Fprintf(table, "%s\t%d/%d\t%s\t%s\t%s\t%s\t%s\n", name, one.Succeeded, one.RunsExpected, percent(one.Agreement), percent(one.IdenticalRate),
			percent(one.PassRate), latency, cost)
	}
	_ = table.Flush()
	for _, check := range checks {
		mark := "ok  "
		if !check.passed {
			mark = "FAIL"
		}
		prefix := ""
		if len(r.Variants) > 1 {
			prefix = fmt.Sprintf("variant %d: ", check.variant)
		}
		_, _ = fmt.Fprintf(w, "%s %s%s\n", mark, prefix, check.text)
	}
}
