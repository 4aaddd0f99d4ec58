package review

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"wending/db/measure"
)

// Labelled is a run that both a judge and people have judged.
type Labelled struct {
	// Judge and Person report whether they passed it.
	Judge, Person bool
	// IsSampled reports that the run belongs to a random sample.
	IsSampled bool
}

// Fitness is what a judge's verdicts can be used for.
type Fitness string

// The fitness of judges, by Cohen's κ: below 0.4, from 0.4, and from 0.7.
const (
	FitToExplore Fitness = "explore"
	FitForTrends Fitness = "trend"
	FitForGates  Fitness = "gate"
)

// noVariance is the tolerance for rounding errors: a variance below it is treated as 0.
const noVariance = 1e-12

// normal975 is the 97.5 % quantile of the standard normal distribution: 95 % of its values are between −normal975 and
// normal975.
var normal975 = distuv.UnitNormal.Quantile(0.975)

// fewestLabels is the minimum number of labels for a corrected pass rate and for a judge's fitness.
const fewestLabels = 20

// Fit compares a judge's verdicts with people's on the same runs (metrics.md). A number is nil if it is unknown.
type Fit struct {
	N             int              `json:"n" doc:"Runs on which both the judge and people reached a verdict" example:"60"`
	Agreement     *float64         `json:"agreement" doc:"Share of these runs on which the judge and people agree" example:"0.87"`
	Kappa         *float64         `json:"kappa" doc:"Cohen's κ: agreement beyond chance. 0 is chance, 1 is perfect; null if all verdicts of both are the same" example:"0.68"`
	KappaInterval measure.Interval `json:"kappa_interval" doc:"95 % interval of κ (Fleiss, Cohen, Everitt 1969): [low, high]; null if there is no disagreement to estimate it from" example:"[0.48,0.88]"`
	Confusion     Confusion        `json:"confusion"`
	Sensitivity   *float64         `json:"sensitivity" doc:"Share of the runs passed by people that the judge passed" example:"0.93"`
	Specificity   *float64         `json:"specificity" doc:"Share of the runs failed by people that the judge failed" example:"0.75"`
	// IsRandom reports that labels of a random sample are among the runs.
	IsRandom          bool             `json:"is_random" doc:"True if people have judged runs of a random sample; only these correct the pass rate"`
	Sampled           int              `json:"sampled" doc:"How many of the n runs belong to a random sample" example:"60"`
	Corrected         *float64         `json:"pass_rate_corrected" doc:"Pass rate as people would judge: the judge's, corrected by people's verdicts on a random sample (PPI++, arXiv:2311.01453); null below 20 such verdicts" example:"0.78"`
	CorrectedInterval measure.Interval `json:"pass_rate_corrected_interval" doc:"95 % interval of pass_rate_corrected: [low, high]" example:"[0.69,0.87]"`
	Fitness           *Fitness         `json:"fitness" enum:"explore,trend,gate" doc:"What the judge is fit for, by κ: below 0.4 to explore, from 0.4 to watch trends, from 0.7 to gate releases; null below 20 verdicts or where κ is unknown"`
	Needed            []Needed         `json:"verdicts_needed" nullable:"false" doc:"How many more verdicts on a random sample would narrow pass_rate_corrected; empty while it is unknown"`
	KappaNeeded       []Needed         `json:"kappa_verdicts_needed" nullable:"false" doc:"How many more verdicts would narrow kappa, if they agree as often as the present ones; empty while kappa_interval is null"`
}

// Confusion counts runs by the judge's verdict and people's.
type Confusion struct {
	PassPass int `json:"pass_pass" db:"pass_pass" doc:"Passed by the judge and by people" example:"40"`
	PassFail int `json:"pass_fail" db:"pass_fail" doc:"Passed by the judge, failed by people" example:"5"`
	FailPass int `json:"fail_pass" db:"fail_pass" doc:"Failed by the judge, passed by people" example:"3"`
	FailFail int `json:"fail_fail" db:"fail_fail" doc:"Failed by both" example:"12"`
}

// Needed tells how many more verdicts would narrow an interval to a given width.
type Needed struct {
	HalfWidth float64 `json:"half_width" doc:"Half of the interval's width" example:"0.05"`
	More      *int    `json:"more" doc:"How many more verdicts that takes, about; null if the task has too few questions" example:"140"`
}

// halfWidths and kappaHalfWidths are the half-widths to which more verdicts could narrow the intervals of a corrected
// pass rate and of κ.
var (
	halfWidths      = []float64{0.1, 0.05, 0.03}
	kappaHalfWidths = []float64{0.2, 0.1, 0.05}
)

// Judgements counts all runs on which a judge reached a verdict.
type Judgements struct {
	Runs, Passes int
	// Questions is the number of questions with such runs: a random sample has at most one run of each.
	Questions int
}

// FitOf compares a judge with people on the runs that both judged.
func FitOf(runs []Labelled, all Judgements) Fit {
	var counts Confusion
	var sample drawn
	for _, run := range runs {
		counts.Add(run.Judge, run.Person)
		if run.IsSampled {
			sample.people = append(sample.people, indicator(run.Person))
			sample.judge = append(sample.judge, indicator(run.Judge))
		}
	}
	fit := counts.Fit()
	fit.Sampled = len(sample.people)
	fit.IsRandom = fit.Sampled > 0
	if fit.Sampled >= fewestLabels {
		sample.correct(&fit, all)
	}
	return fit
}

// Add counts a run by the verdicts of the judge and of people.
func (c *Confusion) Add(judge, person bool) {
	switch {
	case judge && person:
		c.PassPass++
	case judge:
		c.PassFail++
	case person:
		c.FailPass++
	default:
		c.FailFail++
	}
}

// Plus returns the sum of the counts.
func (c Confusion) Plus(other Confusion) Confusion {
	return Confusion{c.PassPass + other.PassPass, c.PassFail + other.PassFail, c.FailPass + other.FailPass,
		c.FailFail + other.FailFail}
}

// Fit compares a judge with people by these counts, without correcting its pass rate.
func (c Confusion) Fit() Fit {
	fit := Fit{N: c.PassPass + c.PassFail + c.FailPass + c.FailFail, Confusion: c, Needed: []Needed{}}
	fit.Agreement = ratio(c.PassPass+c.FailFail, fit.N)
	fit.Sensitivity, fit.Specificity = ratio(c.PassPass, c.PassPass+c.FailPass), ratio(c.FailFail, c.PassFail+c.FailFail)
	fit.Kappa, fit.KappaInterval = c.kappa()
	fit.KappaNeeded = fit.kappaNeeded()
	if fit.N >= fewestLabels && fit.Kappa != nil {
		fitness := FitToExplore
		switch {
		case *fit.Kappa >= 0.7-noVariance:
			fitness = FitForGates
		case *fit.Kappa >= 0.4-noVariance:
			fitness = FitForTrends
		}
		fit.Fitness = &fitness
	}
	return fit
}

// kappaNeeded returns how many more verdicts would narrow the interval of κ, whose variance is proportional to 1/n.
func (f Fit) kappaNeeded() []Needed {
	needed := []Needed{}
	if f.KappaInterval == nil {
		return needed
	}
	half := max(f.KappaInterval[1]-*f.Kappa, *f.Kappa-f.KappaInterval[0]) // one end may be clipped
	for _, wanted := range kappaHalfWidths {
		more := max(0, int(math.Ceil(float64(f.N)*half*half/(wanted*wanted)))-f.N)
		needed = append(needed, Needed{wanted, &more})
	}
	return needed
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func ratio(part, whole int) *float64 {
	if whole == 0 {
		return nil
	}
	share := float64(part) / float64(whole)
	return &share
}

// kappa returns Cohen's κ with its interval.
func (c Confusion) kappa() (*float64, measure.Interval) {
	n := float64(c.PassPass + c.PassFail + c.FailPass + c.FailFail)
	if n == 0 {
		return nil, nil
	}
	p := [2][2]float64{
		{float64(c.PassPass) / n, float64(c.PassFail) / n},
		{float64(c.FailPass) / n, float64(c.FailFail) / n},
	}
	judge, people := [2]float64{p[0][0] + p[0][1], p[1][0] + p[1][1]}, [2]float64{p[0][0] + p[1][0], p[0][1] + p[1][1]}
	chance := judge[0]*people[0] + judge[1]*people[1]
	if 1-chance < noVariance {
		return nil, nil
	}
	kappa := (p[0][0] + p[1][1] - chance) / (1 - chance)
	expected := kappa - chance*(1-kappa)
	variance := -expected * expected
	for i := range p {
		same, other := 1-(judge[i]+people[i])*(1-kappa), (people[i]+judge[1-i])*(1-kappa)
		variance += p[i][i]*same*same + p[i][1-i]*other*other
	}
	if variance < noVariance {
		return &kappa, nil
	}
	half := normal975 * math.Sqrt(variance/n) / (1 - chance)
	return &kappa, measure.Interval{max(-1, kappa-half), min(1, kappa+half)}
}

// drawn are the verdicts on the runs of a random sample: 1 means passed.
type drawn struct{ people, judge []float64 }

// correct computes the corrected pass rate. Where its variance is 0, the interval is Wilson's for the sample, as for an
// uncorrected pass rate.
func (d drawn) correct(fit *Fit, all Judgements) {
	of, rest := len(d.people), all.Runs-len(d.people)
	people, judge := stat.Mean(d.people, nil), stat.Mean(d.judge, nil)
	rate, left := people, 0.0 // left is the judge's pass rate of the runs outside the sample
	lambda, squared := d.lambda(of, rest, all), 0.0
	if rest > 0 {
		left = (float64(all.Passes) - judge*float64(of)) / float64(rest)
		rate += lambda * (left - judge)
	}
	rate, squared = min(1, max(0, rate)), d.variance(lambda, of, rest, left)
	fit.Corrected, fit.CorrectedInterval = &rate, measure.Wilson(rate, of)
	if half := normal975 * math.Sqrt(squared); half > noVariance {
		fit.CorrectedInterval = measure.Interval{max(0, rate-half), min(1, rate+half)}
	}
	most := max(0, min(rest, all.Questions-of))
	for _, half := range halfWidths {
		more := sort.Search(most+1, func(more int) bool {
			of, rest := of+more, rest-more
			squared := d.variance(d.lambda(of, rest, all), of, rest, float64(all.Passes)/float64(all.Runs))
			return normal975*math.Sqrt(squared) <= half
		})
		needed := Needed{HalfWidth: half}
		if more <= most {
			needed.More = &more
		}
		fit.Needed = append(fit.Needed, needed)
	}
}

// lambda returns the weight, from 0 to 1, of the judge's verdicts on the rest of the runs.
func (d drawn) lambda(of, rest int, all Judgements) float64 {
	variance := binary(float64(all.Passes)/float64(all.Runs), all.Runs)
	if rest == 0 || variance < noVariance {
		return 0
	}
	weighed := (1 + float64(of)/float64(rest)) * variance
	return min(1, max(0, stat.Covariance(d.people, d.judge, nil)/weighed))
}

// variance returns the variance that the corrected pass rate would have with a sample that resembles d. The parameter
// of is the size of that sample, rest the number of runs that only the judge judges, and share the share of those that
// it passes.
func (d drawn) variance(lambda float64, of, rest int, share float64) float64 {
	errors := make([]float64, len(d.people))
	for n := range errors {
		errors[n] = d.people[n] - lambda*d.judge[n]
	}
	variance := stat.Variance(errors, nil) / float64(of)
	if rest > 0 {
		variance += lambda * lambda * binary(share, rest) / float64(rest)
	}
	return variance
}

// binary returns the sample variance of n numbers that are 0 or 1, with the given share of ones.
func binary(share float64, n int) float64 {
	if n < 2 {
		return 0
	}
	return share * (1 - share) * float64(n) / float64(n-1)
}
