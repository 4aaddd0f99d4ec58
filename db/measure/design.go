package measure

import (
	"cmp"
	"math"

	"gonum.org/v1/gonum/stat"
)

// Basis is the source of the variances behind a detectable difference.
type Basis string

// The bases, best first.
const (
	OfComparison Basis = "comparison"
	OfTask       Basis = "task"
	Assumed      Basis = "assumed"
)

// The variances that are assumed for questions whose answers are not known yet: of the verdicts on one question's runs,
// and, over questions, of the difference of two versions (metrics.md, How many questions and runs).
const (
	assumedWithin  = 1.0 / 6
	assumedBetween = 1.0 / 9
)

// Design holds the variances that determine which differences a comparison of two versions can detect.
type Design struct {
	// WithinA and WithinB are the variances of the verdicts on one question's runs, in each version; Between is the
	// variance, over questions, of the true difference of their pass shares.
	WithinA, WithinB, Between float64
	// OfAgreement is the variance, over questions, of the difference of their agreement.
	OfAgreement float64
	// PassBasis is the basis of the first three variances, and AgreementBasis the basis of OfAgreement.
	PassBasis, AgreementBasis Basis
}

// NewDesign estimates the variances from a finished comparison of a with b, the newer one, or from the finished task
// a if b is nil; if both are nil, it assumes them.
func NewDesign(a, b []ComparedQuestion) Design {
	d := Design{assumedWithin, assumedWithin, assumedBetween, assumedBetween, Assumed, Assumed}
	withinA, ofMeansA := varianceWithin(a)
	withinB, ofMeansB := varianceWithin(b)
	if newer := cmp.Or(withinB, withinA); newer != nil {
		d.WithinA, d.WithinB, d.PassBasis = *newer, *newer, OfTask
	}
	if len(b) == 0 {
		return d
	}
	compared := CompareTasks(a, b)
	if spread := spreadOf(compared, func(q ComparedQuestion) *float64 {
		return q.PassShare
	}); spread != nil && withinA != nil && withinB != nil {
		d.WithinA, d.WithinB, d.Between = *withinA, *withinB, max(0, *spread-*ofMeansA-*ofMeansB)
		d.PassBasis = OfComparison
	}
	if spread := spreadOf(compared, func(q ComparedQuestion) *float64 { return q.Agreement }); spread != nil {
		d.OfAgreement, d.AgreementBasis = *spread, OfComparison
	}
	return d
}

// varianceWithin returns two means over the questions: the variance of a single verdict, and the variance of the mean
// of a question's verdicts. Both are nil if no question has two verdicts.
func varianceWithin(questions []ComparedQuestion) (ofRun, ofMean *float64) {
	var runs, means []float64
	for _, question := range questions {
		if question.Judged < 2 {
			continue
		}
		share := float64(question.Passes) / float64(question.Judged)
		mean := share * (1 - share) / float64(question.Judged-1)
		runs, means = append(runs, float64(question.Judged)*mean), append(means, mean)
	}
	if len(runs) == 0 {
		return nil, nil
	}
	run, mean := stat.Mean(runs, nil), stat.Mean(means, nil)
	return &run, &mean
}

// spreadOf returns the variance, over pairs of questions, of the difference of a metric; nil with fewer than two pairs.
func spreadOf(c Comparison, number func(ComparedQuestion) *float64) *float64 {
	var differences []float64
	for _, pair := range c.Pairs {
		if a, b := number(pair.A), number(pair.B); a != nil && b != nil {
			differences = append(differences, *b-*a)
		}
	}
	if len(differences) < 2 {
		return nil
	}
	spread := stat.Variance(differences, nil)
	return &spread
}

// Basis returns the better of the two bases.
func (d Design) Basis() Basis {
	if d.PassBasis == OfComparison || d.AgreementBasis == OfComparison {
		return OfComparison
	}
	return d.PassBasis
}

// Detectable holds the smallest differences of two means that are detected in four of five cases, given the number of
// independent clusters of questions and the number of runs per question in each version (Miller 2024, arXiv:2411.00640,
// equation 9, solved for the difference).
type Detectable struct {
	// Agreement is nil with one run per question. Both are nil with fewer than two clusters.
	PassRate  *float64 `json:"pass_rate" doc:"Smallest detectable difference between two pass rates; null with fewer than two clusters of questions" example:"0.11"`
	Agreement *float64 `json:"agreement" doc:"Smallest detectable difference between two agreements; null with one run per question or fewer than two clusters of questions" example:"0.09"`
}

// Detectable returns the differences that a comparison of this size can detect.
func (d Design) Detectable(clusters, runs int) (shown Detectable) {
	if clusters < 2 || runs < 1 {
		return shown
	}
	pass := power * math.Sqrt((d.Between+(d.WithinA+d.WithinB)/float64(runs))/float64(clusters))
	shown.PassRate = &pass
	if runs > 1 {
		agreement := power * math.Sqrt(d.OfAgreement/float64(clusters))
		shown.Agreement = &agreement
	}
	return shown
}

// RunsToHalve returns the number of runs per question that halves the detectable difference of pass rates; 0 if no
// number of runs does, because the questions differ too much.
func (d Design) RunsToHalve(runs int) int {
	within := d.WithinA + d.WithinB
	left := (d.Between+within/float64(runs))/4 - d.Between
	if left <= 0 {
		return 0
	}
	return int(math.Ceil(within/left - noDeviation))
}
