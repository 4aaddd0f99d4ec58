package measure

import (
	"math"

	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// Judged sums up the evaluators' verdicts on the runs of one question.
type Judged struct {
	// Runs is how many of the expected runs exist, Judged how many of these have a verdict, and Passes how many passed.
	Runs, Judged, Passes int
	// Score is the mean score of its runs; nil if none has a score.
	Score *float64
	// Cluster identifies the questions that this one is not independent of; empty means that it is independent.
	Cluster string
}

// Share returns the share of judged runs that passed; nil if none is judged.
func (j Judged) Share() *float64 {
	if j.Judged == 0 {
		return nil
	}
	share := float64(j.Passes) / float64(j.Judged)
	return &share
}

// Interval is a 95 % interval: its lower and its upper end.
type Interval []float64

// Statistics sum up the evaluators' verdicts, over questions (metrics.md). A statistic is nil if unknown.
type Statistics struct {
	Judged    int `json:"judged" doc:"Runs on which every evaluator reached a verdict" example:"490"`
	PassCount int `json:"pass_count" doc:"Judged runs that passed every evaluator" example:"441"`
	FailCount int `json:"fail_count" doc:"Judged runs that did not pass every evaluator" example:"49"`
	// Errors is how many evaluations ended with an error; Defaults is how many of these were replaced by a judge's
	// default ratings.
	Errors       int      `json:"evaluation_errors" doc:"Evaluations that ended with an error instead of a verdict, including those with default ratings" example:"0"`
	Defaults     int      `json:"defaults" doc:"Answers that a judge failed to rate, so that each dimension defaults to 50; left out of means unless include_defaults=true" example:"0"`
	PassRate     *float64 `json:"pass_rate" doc:"pass_count / judged" example:"0.9"`
	PassRateAll  *float64 `json:"pass_rate_all" doc:"pass_count / runs_expected; failed and missing runs count as not passed" example:"0.882"`
	PassInterval Interval `json:"pass_rate_interval" doc:"95 % interval of pass_rate, with questions or their clusters as the sampling units: [low, high]" example:"[0.85,0.95]"`
	MajorityRate *float64 `json:"majority_rate" doc:"Share of questions with more than half of their runs passed" example:"0.93"`
	// PassAt and PassHat have one value for each k from 1 to runs_per_item.
	PassAt    []float64 `json:"pass_at" doc:"Probability that at least one of k runs passes, for k = 1, 2, 3 …" example:"[0.9,0.97]"`
	PassHat   []float64 `json:"pass_hat" doc:"Probability that all k runs pass, for k = 1, 2, 3 …" example:"[0.9,0.84]"`
	ScoreMean *float64  `json:"score_mean" doc:"Mean over questions of the mean score of their runs, 0–1" example:"0.87"`
	ScoreSE   *float64  `json:"score_se" doc:"Standard error of the mean; null with fewer than two questions" example:"0.02"`
	// Ratings are a judge's ratings, keyed by dimension; nil for rules.
	Ratings  map[string]Rating `json:"ratings,omitempty" doc:"A judge's ratings by dimension; absent for rules"`
	Clusters int               `json:"clusters" doc:"Number of independent groups of questions: conversations, or values of cluster_by" example:"100"`
	// Incomplete is how many questions are left out of majority_rate, pass_at and pass_hat because a run is missing.
	Incomplete int `json:"incomplete_items" doc:"Questions left out of majority_rate, pass_at and pass_hat because a run is missing" example:"0"`
}

// Rating sums up the ratings of one dimension, over questions.
type Rating struct {
	Mean *float64 `json:"mean" doc:"Mean over questions of the mean rating of their runs, 0–100" example:"82.5"`
	SE   *float64 `json:"se" doc:"Standard error of the mean; null with fewer than two questions" example:"1.7"`
	N    int      `json:"n" doc:"Number of questions" example:"100"`
	// Clusters is how many independent groups of questions there are.
	Clusters int `json:"clusters" doc:"Number of independent groups of questions: conversations, or values of cluster_by" example:"100"`
}

// Interval returns the 95 % interval of the mean, within 0 to 100; nil if the mean or its standard error is unknown, or
// if the standard error is 0.
func (r Rating) Interval() Interval {
	if r.Mean == nil || r.SE == nil || *r.SE == 0 {
		return nil
	}
	half := studentsT(r.Clusters).Quantile(oneSided) * *r.SE
	return Interval{max(0, *r.Mean-half), min(100, *r.Mean+half)}
}

// NewRating sums up questions' mean ratings.
func NewRating(means Sample) Rating {
	return Rating{means.Mean(), means.SE(), len(means.Numbers()), means.Clusters()}
}

const (
	oneSided = 0.975 // the probability below the upper end of a 95 % interval
)

// Summarise computes the statistics of questions that should have runsPerItem runs each; errors is the number of
// evaluations that ended with an error. Call it only for tasks that have evaluators.
func Summarise(questions []Judged, runsPerItem, errors int) Statistics {
	s := Statistics{Errors: errors}
	var shares, scores, all Sample
	var last Judged
	whole, majority := 0, 0
	passAt, passHat := make([]float64, runsPerItem), make([]float64, runsPerItem)
	for _, question := range questions {
		all.Add(0, question.Cluster)
		s.Judged, s.PassCount = s.Judged+question.Judged, s.PassCount+question.Passes
		if share := question.Share(); share != nil {
			shares.Add(*share, question.Cluster)
			last = question
		}
		if question.Score != nil {
			scores.Add(*question.Score, question.Cluster)
		}
		if question.Runs < runsPerItem {
			s.Incomplete++
			continue
		}
		whole++
		if 2*question.Passes > runsPerItem {
			majority++
		}
		for k := 1; k <= runsPerItem; k++ {
			ways := float64(combin.Binomial(runsPerItem, k))
			passAt[k-1] += 1 - binomial(runsPerItem-question.Passes, k)/ways
			passHat[k-1] += binomial(question.Passes, k) / ways
		}
	}
	s.FailCount = s.Judged - s.PassCount
	if s.Judged > 0 {
		s.PassRate = share(s.PassCount, s.Judged)
		s.PassInterval = passInterval(shares, last)
	}
	if len(questions) > 0 {
		s.PassRateAll = share(s.PassCount, len(questions)*runsPerItem)
	}
	if whole > 0 && s.Judged > 0 {
		s.MajorityRate = share(majority, whole)
		for k := range runsPerItem {
			s.PassAt, s.PassHat = append(s.PassAt, passAt[k]/float64(whole)), append(s.PassHat, passHat[k]/float64(whole))
		}
	}
	s.ScoreMean, s.ScoreSE, s.Clusters = scores.Mean(), scores.SE(), all.Clusters()
	return s
}

func share(part, whole int) *float64 {
	share := float64(part) / float64(whole)
	return &share
}

// binomial returns the number of ways to choose k of n; 0 if k is greater than n.
func binomial(n, k int) float64 {
	if k > n {
		return 0
	}
	return float64(combin.Binomial(n, k))
}

// passInterval returns the 95 % interval of a pass rate, from the questions' shares; nil if there are several questions
// but only one cluster. The runs of one question are not independent: questions, or the clusters they belong to, are
// the observations (Miller 2024, arXiv:2411.00640).
func passInterval(shares Sample, last Judged) Interval {
	if len(shares.Numbers()) == 1 {
		return Wilson(float64(last.Passes)/float64(last.Judged), last.Judged)
	}
	if of := shares.Share(); of != nil {
		return of
	}
	if shares.Clusters() < 2 {
		return nil
	}
	return Wilson(*shares.Mean(), shares.Clusters())
}

// Wilson returns the score interval of a share of n.
func Wilson(share float64, n int) Interval {
	return score(share, float64(n), distuv.UnitNormal.Quantile(oneSided))
}

// score returns Wilson's score interval (1927): every true share that differs from the observed share of n by at most
// quantile standard errors, computed from the true share.
func score(share, n, quantile float64) Interval {
	square := quantile * quantile
	middle := (share + square/(2*n)) / (1 + square/n)
	half := quantile / (1 + square/n) * math.Sqrt(share*(1-share)/n+square/(4*n*n))
	return Interval{max(0, middle-half), min(1, middle+half)}
}
