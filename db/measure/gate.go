package measure

import "math"

// Verdict is the outcome of comparing one metric with a baseline (metrics.md, Gate).
type Verdict string

// The verdicts of a gate.
const (
	// NotWorse means that, beyond chance, the metric is not worse than the baseline's by the margin or more.
	NotWorse Verdict = "not_worse"
	// IsWorse means that, beyond chance, the metric is worse by more than the margin.
	IsWorse Verdict = "worse"
	// Undecided means that a comparison of this size shows neither, as is always the case with fewer than two clusters.
	Undecided Verdict = "undecided"
)

// GateTest is one metric of one variant, compared with the baseline's.
type GateTest struct {
	// Change is the change from the baseline to the new result.
	Change       Change
	IsLessBetter bool
	// Margin is the amount by which the metric may be worse; 0 or more.
	Margin float64
}

// GateResult is the outcome of a test.
type GateResult struct {
	Verdict Verdict
	// Adjusted is the p-value of the difference against the margin, adjusted for all tests of the gate (metrics.md, family
	// c); nil if there is none.
	Adjusted *float64
}

// GatedNumbers are the names of the statistics of a comparison (Comparison.Numbers) that a gate decides on.
var GatedNumbers = []string{"agreement", "meaning_agreement", "success_rate", "pass_share", "score", "latency_ms"}

// Gated decides on the statistics of a comparison, which form one gate. Results and margins are keyed by name.
func (c Comparison) Gated(margins map[string]float64) map[string]GateResult {
	numbers, tests, results := c.Numbers(), make([]GateTest, len(GatedNumbers)), map[string]GateResult{}
	for n, name := range GatedNumbers {
		tests[n] = GateTest{numbers[name], IsLessBetter(name), margins[name]}
	}
	for n, result := range Gate(tests) {
		results[GatedNumbers[n]] = result
	}
	return results
}

// IsLessBetter reports whether less is better for the statistic with the given name.
func IsLessBetter(name string) bool { return name == "latency_ms" || name == "cost" }

// Gate decides on all tests of one gate: those of all its metrics, for all variants.
func Gate(tests []GateTest) []GateResult {
	p := make([]*float64, len(tests))
	for n, test := range tests {
		p[n] = test.p()
	}
	results := make([]GateResult, len(tests))
	for n, adjusted := range Adjust(p) {
		results[n] = GateResult{tests[n].verdict(adjusted), adjusted}
	}
	return results
}

// turned returns the mean difference, with its sign changed if less is better.
func (t GateTest) turned() float64 {
	if t.IsLessBetter {
		return -*t.Change.Mean
	}
	return *t.Change.Mean
}

// varies reports whether the difference has a nonzero standard error.
func (t GateTest) varies() bool {
	return t.Change.Mean != nil && t.Change.SE != nil && *t.Change.SE >= noDeviation
}

// p returns the two-sided p-value of the difference against the margin.
func (t GateTest) p() *float64 {
	if !t.varies() {
		return nil
	}
	p := 2 * studentsT(t.Change.Clusters).Survival(math.Abs(t.turned()+t.Margin) / *t.Change.SE)
	return &p
}

func (t GateTest) verdict(adjusted *float64) Verdict {
	switch {
	case t.Change.Mean == nil || t.Change.SE == nil:
		return Undecided
	case !t.varies():
		return t.constant()
	}
	reach := studentsT(t.Change.Clusters).Quantile(oneSided) * *t.Change.SE
	switch {
	case t.turned()-reach > -t.Margin:
		return NotWorse
	case t.turned()+reach < -t.Margin && *adjusted <= Significance:
		return IsWorse
	}
	return Undecided
}

// constant decides on a test whose difference is the same on each of several questions.
func (t GateTest) constant() Verdict {
	if difference := t.turned(); difference > -noDeviation || difference > -t.Margin+noDeviation {
		return NotWorse
	}
	return IsWorse
}
