package measure

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Change is how much a number differs between two tasks on the questions they share: the statistics of paired
// differences in metrics.md.
type Change struct {
	// N is the number of questions on which the number is known in both tasks, LeftOut the number of the others.
	N, LeftOut int
	// MeanA and MeanB are the tasks' own means on these questions. Mean is the mean of the differences, the second
	// task's number minus the first's; nil if N is 0.
	MeanA, MeanB, Mean *float64
	// SE is the standard error of Mean; nil if N is below 2.
	SE *float64
	// Low and High are the ends of Mean's 95 % interval; nil if N is below 2, or if all differences are equal and
	// not 0.
	Low, High *float64
	// P is the two-sided probability that chance alone gives a difference at least as large (Student's t); nil
	// whenever Low is.
	P *float64
}

// IsShown reports whether the data show a difference: the interval does not contain 0.
func (c Change) IsShown() bool { return c.Low != nil && (*c.Low > 0 || *c.High < 0) }

// IsConstant reports whether the number differs by the same amount on each of several questions, so that there is
// no interval.
func (c Change) IsConstant() bool { return c.SE != nil && c.Low == nil }

const (
	// confidence is the level of the intervals.
	confidence = 0.95
	// noDeviation is the limit below which a standard deviation counts as 0.
	noDeviation = 1e-12
)

// paired compares the numbers of two tasks, a[n] with b[n]; leftOut is the number of pairs in which one is unknown.
func paired(a, b []float64, leftOut int) Change {
	change := Change{N: len(a), LeftOut: leftOut}
	if change.N == 0 {
		return change
	}
	differences := make([]float64, len(a))
	floats.SubTo(differences, b, a)
	meanA, meanB, mean := stat.Mean(a, nil), stat.Mean(b, nil), stat.Mean(differences, nil)
	change.MeanA, change.MeanB, change.Mean = &meanA, &meanB, &mean
	if change.N < 2 {
		return change
	}
	deviation := stat.StdDev(differences, nil)
	if deviation < noDeviation {
		change.SE = new(float64)
		if math.Abs(mean) < noDeviation {
			one := 1.0
			change.Low, change.High, change.P = new(float64), new(float64), &one
		}
		return change
	}
	se := deviation / math.Sqrt(float64(change.N))
	t := distuv.StudentsT{Sigma: 1, Nu: float64(change.N - 1)}
	reach := t.Quantile(1-(1-confidence)/2) * se
	low, high, p := mean-reach, mean+reach, 2*t.Survival(math.Abs(mean)/se)
	change.SE, change.Low, change.High, change.P = &se, &low, &high, &p
	return change
}
