package measure

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Sample holds a metric's known values for a variant's questions. The questions of one cluster, such as the turns of a
// conversation or the questions about one document, are not independent: standard errors and intervals treat each
// cluster as one observation (metrics.md, Clusters; Liang and Zeger 1986).
type Sample struct {
	numbers []float64
	// clusters are the clusters of the questions; an empty one means that the question forms its own cluster.
	clusters []string
}

// Add adds a question's value. An empty cluster means that the question forms its own cluster.
func (s *Sample) Add(number float64, cluster string) {
	s.numbers, s.clusters = append(s.numbers, number), append(s.clusters, cluster)
}

// Numbers returns the questions' values, in the order in which they were added.
func (s Sample) Numbers() []float64 { return s.numbers }

// Clusters returns the number of clusters.
func (s Sample) Clusters() int {
	_, count := s.grouped()
	return count
}

// grouped returns the index of each question's cluster, in the order in which clusters first occur, and the number of
// clusters.
func (s Sample) grouped() (places []int, count int) {
	places, named := make([]int, len(s.clusters)), map[string]int{}
	for n, cluster := range s.clusters {
		if cluster != "" && n > 0 && cluster == s.clusters[n-1] { // most clusters are contiguous
			places[n] = places[n-1]
			continue
		}
		place, isKnown := 0, false
		if cluster != "" {
			place, isKnown = named[cluster]
		}
		if !isKnown {
			if place = count; cluster != "" {
				named[cluster] = place
			}
			count++
		}
		places[n] = place
	}
	return places, count
}

// Mean returns the mean; nil if there are no values.
func (s Sample) Mean() *float64 {
	if len(s.numbers) == 0 {
		return nil
	}
	mean := stat.Mean(s.numbers, nil)
	return &mean
}

// SE returns the standard error of the mean; nil with fewer than two clusters.
func (s Sample) SE() *float64 {
	se, _ := s.spread()
	return se
}

// spread returns SE and the number of clusters.
func (s Sample) spread() (*float64, int) {
	places, count := s.grouped()
	if count < 2 {
		return nil, count
	}
	mean := stat.Mean(s.numbers, nil)
	sums := make([]float64, count) // the sum of the deviations in each cluster
	for n, number := range s.numbers {
		sums[places[n]] += number - mean
	}
	se := math.Sqrt(float64(count)/float64(count-1)*floats.Dot(sums, sums)) / float64(len(s.numbers))
	return &se, count
}

// Interval returns the 95 % interval of the mean (Student's t); nil with fewer than two clusters, or if all values, or
// the means of all clusters, are the same.
func (s Sample) Interval() Interval {
	se := s.SE()
	if se == nil || *se < noDeviation {
		return nil
	}
	mean, reach := stat.Mean(s.numbers, nil), studentsT(s.Clusters()).Quantile(oneSided)**se
	return Interval{mean - reach, mean + reach}
}

// manyClusters is the minimum number of clusters for which Share corrects intervals that reach beyond 0 or 1.
const manyClusters = 30

// Share is like Interval, but for values from 0 to 1. If Student's interval reaches beyond 0 or 1, it is cut off there
// and too narrow on the other side: with a pass rate of 90 % and 50 questions, it covers the rate in only 88 % of
// cases. With many clusters, Wilson's interval takes its place, for the number of independent questions that would have
// the same standard error; it covers the rate in 95 % (Franco, Little, Louis, Slud 2019, doi:10.1093/jssam/smy019).
func (s Sample) Share() Interval {
	of := s.Interval()
	if of == nil || of[0] >= 0 && of[1] <= 1 {
		return of
	}
	se, clusters := s.spread()
	if clusters < manyClusters {
		return Interval{max(0, of[0]), min(1, of[1])}
	}
	mean := stat.Mean(s.numbers, nil)
	return score(mean, mean*(1-mean)/(*se**se), studentsT(clusters).Quantile(oneSided))
}

// studentsT returns Student's t distribution for a mean over a number of clusters.
func studentsT(clusters int) distuv.StudentsT {
	return distuv.StudentsT{Sigma: 1, Nu: float64(clusters - 1)}
}

// Percentile returns the number below which the given share of ordered numbers lies, interpolated linearly between
// neighbours like SQL's percentile_cont; nil if there are no numbers.
func Percentile(ordered []float64, share float64) *float64 {
	if len(ordered) == 0 {
		return nil
	}
	place := share * float64(len(ordered)-1)
	below := int(place)
	number := ordered[below]
	if below+1 < len(ordered) {
		number += (place - float64(below)) * (ordered[below+1] - number)
	}
	return &number
}
