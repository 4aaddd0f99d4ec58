package measure

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Change describes the change of a metric between two tasks on the questions they share: the statistics of paired
// differences in metrics.md.
type Change struct {
	// N is how many questions have a value in both tasks, and LeftOut how many lack one in either task. Clusters is how
	// many independent groups the N questions form.
	N, LeftOut, Clusters int
	// MeanA and MeanB are the tasks' own means on these questions. Mean is the mean of the differences: the second task's
	// value minus the first's; nil if N is 0.
	MeanA, MeanB, Mean *float64
	// SE is the standard error of Mean; nil if Clusters is below 2.
	SE *float64
	// Low and High are the ends of Mean's 95 % interval; nil if Clusters is below 2, or all differences are the same and
	// not 0.
	Low, High *float64
	// P is the two-sided probability that chance alone gives a difference at least as large (Student's t); nil
	// whenever Low is.
	P *float64
}

// IsShown reports whether the data show a difference, that is, whether the interval excludes 0.
func (c Change) IsShown() bool { return c.Low != nil && (*c.Low > 0 || *c.High < 0) }

// power is the size, in standard errors, that a difference must have to be shown in four of five cases: the sum of the
// quantiles of 0.975 and 0.8 of the normal distribution.
const power = 2.802

// Detectable returns the difference that a comparison of this size shows in four of five cases; nil if SE is nil or 0.
func (c Change) Detectable() *float64 {
	if c.SE == nil || *c.SE == 0 {
		return nil
	}
	detectable := power * *c.SE
	return &detectable
}

// IsConstant reports whether the metric differs by the same amount on each of several questions; such a difference has
// no interval.
func (c Change) IsConstant() bool { return c.SE != nil && c.Low == nil }

// Unknown returns why Mean, or its interval, is unknown; nil if both are known or the difference is constant.
func (c Change) Unknown() *UnknownReason {
	var reason UnknownReason
	switch {
	case c.N == 0:
		reason = NoQuestion
	case c.Low != nil || c.IsConstant():
		return nil
	case c.N == 1:
		reason = OneQuestion
	default:
		reason = OneCluster
	}
	return &reason
}

// noDeviation is the standard deviation below which values count as equal.
const noDeviation = 1e-12

// paired compares the values of two tasks: a[n] and b[n] belong to a question in clusters[n]. leftOut is the number of
// other pairs, in which a value is unknown.
func paired(a, b []float64, clusters []string, leftOut int) Change {
	change := Change{N: len(a), LeftOut: leftOut}
	if change.N == 0 {
		return change
	}
	var differences Sample
	for n := range a {
		differences.Add(b[n]-a[n], clusters[n])
	}
	meanA, meanB, mean := stat.Mean(a, nil), stat.Mean(b, nil), *differences.Mean()
	change.MeanA, change.MeanB, change.Mean = &meanA, &meanB, &mean
	change.SE, change.Clusters = differences.spread()
	switch {
	case change.SE == nil:
		return change
	case *change.SE < noDeviation:
		change.SE = new(float64)
		if math.Abs(mean) < noDeviation {
			one := 1.0
			change.Low, change.High, change.P = new(float64), new(float64), &one
		}
		return change
	}
	t := studentsT(change.Clusters)
	reach := t.Quantile(oneSided) * *change.SE
	low, high, p := mean-reach, mean+reach, 2*t.Survival(math.Abs(mean) / *change.SE)
	change.Low, change.High, change.P = &low, &high, &p
	return change
}
