package gate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"wending/db/measure"
)

// outcome tells whether a check passed.
type outcome string

// The outcomes. A warning does not fail the evaluation.
const (
	isPassed outcome = "ok"
	isWarned outcome = "WARN"
	isFailed outcome = "FAIL"
)

// check is a limit or a comparison, with its outcome.
type check struct {
	variant int
	name    string
	text    string
	outcome outcome
	// properties are the figures behind the text, for machines.
	properties []property
}

func passed(checks []check) bool { return failures(checks) == 0 }

// failures returns how many checks failed.
func failures(checks []check) (count int) {
	for _, c := range checks {
		if c.outcome == isFailed {
			count++
		}
	}
	return count
}

func outcomeOf(isMet bool) outcome {
	if isMet {
		return isPassed
	}
	return isFailed
}

// limits checks the given limits, keyed by metric, for each variant. A metric whose value is unknown fails its limit.
func (r report) limits(limits map[string]float64) (checks []check) {
	for _, one := range r.Variants {
		for _, metric := range slices.Sorted(maps.Keys(limits)) {
			if metric == itemPass {
				checks = append(checks, r.itemsPass(one.Number, limits[metric]))
				continue
			}
			value, limit := one.metric(metric), limits[metric]
			c := check{variant: one.Number, name: fmt.Sprintf("%s ≥ %s", metric, amount(metric, &limit))}
			c.outcome = outcomeOf(value != nil && *value >= limit)
			if isMost(metric) {
				c.name = fmt.Sprintf("%s ≤ %s", metric, amount(metric, &limit))
				c.outcome = outcomeOf(value != nil && *value <= limit)
			}
			c.text = fmt.Sprintf("%s is %s, the limit is %s", metric, amount(metric, value), amount(metric, &limit))
			c.properties = []property{{"metric", metric}, {"value", figure(value)}, {"limit", figure(&limit)}}
			checks = append(checks, c)
		}
	}
	return checks
}

// mostNamed is the maximum number of questions that a check's text names.
const mostNamed = 5

// itemsPass checks that, for each question, the share of the variant's planned runs that passed is at least limit. Runs
// that failed, are missing or have no verdict are treated as not passed.
func (r report) itemsPass(number int, limit float64) check {
	var short []string
	for _, q := range r.Questions {
		if passes := q.passes(number, r.RunsPerItem); float64(passes) < limit*float64(r.RunsPerItem)-1e-9 {
			short = append(short, fmt.Sprintf("%s (%d/%d)", q.ID, passes, r.RunsPerItem))
		}
	}
	c := check{
		variant: number, name: fmt.Sprintf("%s ≥ %s", itemPass, percent(&limit)),
		outcome: outcomeOf(len(short) == 0 && len(r.Questions) > 0),
		text: fmt.Sprintf("%s: %d of %d questions pass in at least %s of their runs", itemPass, len(r.Questions)-len(short),
			len(r.Questions), percent(&limit)),
	}
	if len(short) > 0 {
		c.text += "; not " + strings.Join(short[:min(mostNamed, len(short))], ", ")
	}
	if len(short) > mostNamed {
		c.text += fmt.Sprintf(" and %d more", len(short)-mostNamed)
	}
	c.properties = []property{{"metric", itemPass}, {"value", strconv.Itoa(len(r.Questions) - len(short))},
		{"limit", figure(&limit)}}
	return c
}

// passes returns how many of the question's runs for variant number passed every evaluator. It counts only runs whose
// index is at most runs.
func (q question) passes(number, runs int) (count int) {
	for _, run := range q.Runs {
		if run.Variant != number || run.Index > runs || len(run.Evaluations) == 0 {
			continue
		}
		if !slices.ContainsFunc(run.Evaluations, func(e evaluation) bool { return e.Passed == nil || !*e.Passed }) {
			count++
		}
	}
	return count
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

// watch is a metric that must not be worse than in the baseline.
type watch struct {
	// api is the metric's name in a comparison; name is the one used in limits and margins.
	api, name string
	isLatency bool
}

// watches are all metrics that can have a margin. Latency is compared only if it has a margin.
var watches = []watch{
	{"success_rate", "success_rate", false}, {"agreement", "agreement", false},
	{meaningAgreement, meaningAgreement, false}, {"pass_share", "pass_rate", false},
	{"score", "score_mean", false},
	{"latency_ms", "latency_ms", true},
}

// digits formats a difference without its unit.
func (w watch) digits(difference float64) string {
	if w.isLatency {
		return strconv.FormatFloat(difference, 'f', 0, 64)
	}
	return strconv.FormatFloat(100*difference, 'f', 1, 64)
}

func (w watch) unit() string {
	if w.isLatency {
		return " ms"
	}
	return " points"
}

func (w watch) signed(difference float64) string {
	if difference < 0 {
		return w.digits(difference)
	}
	return "+" + w.digits(difference)
}

// loss compares one metric of a variant with the baseline.
type loss struct {
	variant int
	watch
	difference
	margin float64
}

// losses checks that no variant is worse than the baseline. With needsProof, each metric with a margin above 0 must be
// shown not to be worse by more than its margin.
func (r report) losses(margins map[string]float64, needsProof bool) (checks []check) {
	var losses []loss
	var tests []measure.GateTest
	for _, one := range r.Variants {
		for _, l := range r.compared(one.Number, margins) {
			losses = append(losses, l)
			tests = append(tests, measure.GateTest{Change: l.change(), IsLessBetter: l.isLatency, Margin: l.margin})
		}
	}
	for n, result := range measure.Gate(tests) {
		checks = append(checks, losses[n].check(result, needsProof && losses[n].margin > 0))
	}
	return checks
}

// compared returns the metrics to compare for a variant: those known in both tasks, except latency, and those with a
// margin. With a single rule, score and pass share are the same, so score is left out unless it has a margin.
func (r report) compared(number int, margins map[string]float64) (losses []loss) {
	differences, isCompared := r.Differences[number]
	if !isCompared {
		return nil
	}
	for _, w := range watches {
		d := differences[w.api]
		margin, hasMargin := margins[w.name]
		isRepeated := w.api == "score" && d.equals(differences["pass_share"])
		// The metric success_rate is reported even without a difference, which is missing only if the tasks share no
		// question.
		isNews := d.Difference != nil && !isRepeated && !w.isLatency || w.api == "success_rate"
		if hasMargin || isNews {
			losses = append(losses, loss{number, w, d, margin})
		}
	}
	return losses
}

// check returns the check for the result of the test, described in words.
func (l loss) check(result measure.GateResult, needsProof bool) check {
	c := check{variant: l.variant, name: l.name + " against the baseline", outcome: isPassed}
	c.properties = []property{
		{"metric", l.name}, {"verdict", string(result.Verdict)}, {"difference", figure(l.Difference)},
		{"margin", figure(&l.margin)},
		{"p_adjusted", figure(result.Adjusted)}, {"detectable", figure(l.change().Detectable())},
		{"questions", strconv.Itoa(l.N)},
		{"clusters", strconv.Itoa(l.Clusters)},
	}
	c.text = l.seen()
	if l.margin > 0 {
		c.text += ", margin " + l.digits(l.margin) + l.unit()
	}
	switch result.Verdict {
	case measure.IsWorse:
		c.outcome = isFailed
		c.text += ": worse"
		if result.Adjusted != nil {
			c.text += fmt.Sprintf(" (adjusted p %s)", strconv.FormatFloat(*result.Adjusted, 'g', 2, 64))
		}
	case measure.NotWorse:
		c.text += ": not worse"
	case measure.Undecided:
		c.outcome = isWarned
		if needsProof {
			c.outcome = isFailed
		}
		c.text += ": undecided"
		if detectable := l.change().Detectable(); detectable != nil {
			c.text += fmt.Sprintf(", a comparison of this size shows a difference of %s in four of five cases",
				l.digits(*detectable)+l.unit())
		}
	}
	return c
}

// seen describes the observed difference in words.
func (l loss) seen() string {
	if l.Difference == nil {
		return l.name + " cannot be compared: it is not known for any question in both tasks"
	}
	text := fmt.Sprintf("%s changed by %s", l.name, l.signed(*l.Difference)) + l.unit()
	counted := fmt.Sprintf("%d questions", l.N)
	if l.Clusters != l.N {
		counted += fmt.Sprintf(" in %d clusters", l.Clusters)
	}
	switch {
	case l.Interval != nil && len(*l.Interval) == 2:
		return text + fmt.Sprintf(", 95%% interval %s … %s, %s", l.signed((*l.Interval)[0]),
			l.signed((*l.Interval)[1]), counted)
	case l.Clusters > 1:
		return text + ", the same on each of " + counted
	}
	if l.N > 1 {
		return text + fmt.Sprintf(", %d questions in one cluster, so no interval is known", l.N)
	}
	return text + ", one question, so no interval is known"
}

func percent(share *float64) string {
	if share == nil {
		return "unknown"
	}
	return strconv.FormatFloat(100**share, 'f', 1, 64) + "%"
}

// figure formats a number for machines; empty if it is unknown.
func figure(number *float64) string {
	if number == nil {
		return ""
	}
	return strconv.FormatFloat(*number, 'g', -1, 64)
}

// heads are the column headings of the summary's table.
var heads = []string{"variant", "succeeded", "agreement", "identical", "pass rate", "P50", "cost"}

// cells returns the row of a variant.
func (v variant) cells() []string {
	name, latency, cost := v.Name, "–", "–"
	if name == "" {
		name = "1"
	}
	if v.LatencyP50 != nil {
		latency = strconv.FormatFloat(*v.LatencyP50, 'f', 0, 64) + " ms"
	}
	if v.Cost != nil {
		cost = *v.Cost
		if v.Currency != nil {
			cost += " " + *v.Currency
		}
	}
	return []string{
		name, fmt.Sprintf("%d/%d", v.Succeeded, v.RunsExpected), percent(v.Agreement), percent(v.IdenticalRate),
		percent(v.PassRate), latency, cost,
	}
}

// write writes the summary as a table.
func (r report) write(w io.Writer, checks []check) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, strings.Join(heads, "\t"))
	for _, one := range r.Variants {
		_, _ = fmt.Fprintln(table, strings.Join(one.cells(), "\t"))
	}
	_ = table.Flush()
	for _, check := range checks {
		_, _ = fmt.Fprintf(w, "%-4s %s\n", check.outcome, r.told(check))
	}
	if r.Differences != nil {
		_, _ = fmt.Fprintln(w, legend)
	}
}

// legend explains the comparison with a baseline to people who do not know its terms.
const legend = "The 95% interval very likely contains the true difference. Worse: the loss is beyond the margin, " +
	"which is very unlikely to be chance with everything compared taken into account (adjusted p of at most 0.05). " +
	"Undecided: the data show neither that it is nor that it is not."

// told returns a check's text, preceded by the variant if there are several.
func (r report) told(c check) string {
	if len(r.Variants) > 1 {
		return fmt.Sprintf("variant %d: %s", c.variant, c.text)
	}
	return c.text
}
