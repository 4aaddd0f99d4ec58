package measure

import (
	"gonum.org/v1/gonum/stat/distuv"
)

// Wilson returns Wilson's interval of the mean of zeros and ones, for the number of independent values that would
// have the same standard error. The result is nil if there are several values but only one cluster.
func (s Sample) Wilson() Interval {
	n := len(s.numbers)
	se, clusters := s.spread()
	switch {
	case clusters == n:
		return Wilson(*s.Mean(), n)
	case clusters < 2:
		return nil
	case *se < noDeviation:
		return Wilson(*s.Mean(), clusters)
	}
	mean := *s.Mean()
	return score(mean, min(float64(n), mean*(1-mean)/(*se**se)), studentsT(clusters).Quantile(oneSided))
}

// SignTest returns the two-sided probability that the clusters are at least as unevenly divided as these if zeros and
// ones are equally likely. Each cluster counts once, as the value that most of its questions have; a cluster with as
// many zeros as ones does not count.
func (s Sample) SignTest() float64 {
	places, count := s.grouped()
	balances := make([]float64, count)
	for n, number := range s.numbers {
		balances[places[n]] += 2*number - 1
	}
	var above, below float64
	for _, balance := range balances {
		switch {
		case balance > 0:
			above++
		case balance < 0:
			below++
		}
	}
	if above+below == 0 {
		return 1
	}
	return min(1, 2*distuv.Binomial{N: above + below, P: 0.5}.CDF(min(above, below)))
}
