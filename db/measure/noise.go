package measure

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"
)

// Source is a source of differences between the scores of answers.
type Source string

// The sources, from the widest to the narrowest.
const (
	FromQuestion Source = "question"
	FromVariant  Source = "variant"
	// FromMix is the interaction of variant and question: variants rank differently on different questions.
	FromMix  Source = "variant_by_question"
	FromRun  Source = "run"
	FromVote Source = "vote"
)

// UnknownReason explains why a statistic, or its interval, is unknown.
type UnknownReason string

// The reasons why a statistic or its interval is unknown.
const (
	NoScores    UnknownReason = "no_scores"
	OneRun      UnknownReason = "one_run"
	OneCluster  UnknownReason = "one_cluster"
	OneVariant  UnknownReason = "one_variant"
	OneVote     UnknownReason = "one_vote"
	NoJudge     UnknownReason = "no_judge"
	NoVariation UnknownReason = "no_variation"
	NoQuestion  UnknownReason = "no_question"
	OneQuestion UnknownReason = "one_question"
)

// Sources lists all sources, and Advices those that Noise.Advice can name.
var (
	Sources = []Source{FromQuestion, FromVariant, FromMix, FromRun, FromVote}
	Advices = []Source{FromQuestion, FromRun, FromVote}
)

// Scored is the score of one run: a judge's votes, or a rule's score as the only vote.
type Scored struct {
	Item    int64
	Variant int
	// Cluster identifies the questions that are not independent of this one; empty means that it is independent.
	Cluster string
	Votes   []float64
}

// Part is one source's part of the noise. Its pointers are nil if unknown; Reason explains why.
type Part struct {
	Source     Source         `json:"source" enum:"question,variant,variant_by_question,run,vote" doc:"question: questions differ; variant: variants differ; variant_by_question: variants rank differently on different questions; run: repeats of a question differ (with one vote, including the judge's own noise); vote: a judge's votes on one answer differ" example:"vote"`
	Variance   *float64       `json:"variance" doc:"Estimated variance of a single score from this source (method of moments); estimates below 0 are 0" example:"0.012"`
	Share      *float64       `json:"share" doc:"Share of the variance of a single score" example:"0.3"`
	ErrorShare *float64       `json:"error_share" doc:"Share of the squared error of a variant's mean score, with the runs and votes there are; differences between variants are not an error" example:"0.67"`
	Reason     *UnknownReason `json:"reason" enum:"no_scores,one_run,one_cluster,one_variant,one_vote,no_judge,no_variation" doc:"Why a number is null" example:"one_vote"`
}

// Noise attributes the differences between scores to their sources, by the method of moments for nested samples:
// votes within runs, runs within questions, questions crossed with variants (Searle, Casella, McCulloch 1992, chapter
// 3).
type Noise struct {
	Parts []Part `json:"parts" nullable:"false" doc:"One part for each source"`
	// ICC is the correlation of two scores of the same question and variant.
	ICC *float64 `json:"icc" doc:"Intraclass correlation: the share of the variance of a variant's single scores that comes from questions. 1: repeats never differ; null if the parts are unknown or nothing varies" example:"0.62"`
	// Advice is the source that contributes most to the error of a mean.
	Advice *Source `json:"advice" enum:"question,run,vote" doc:"Source of most of the error of a mean score: question (add questions), run (add runs), vote (add votes); null if the parts are unknown or nothing varies" example:"vote"`
}

// Part returns the part of the noise that comes from a source.
func (n Noise) Part(source Source) Part {
	return n.Parts[slices.Index(Sources, source)]
}

// NoiseOf attributes the noise in the scores of a task's runs to its sources; hasVotes means that a judge gave them.
func NoiseOf(all []Scored, hasVotes bool) Noise {
	s := gather(all)
	found := s.estimate(hasVotes)
	noise := Noise{Parts: make([]Part, len(Sources))}
	for n, source := range Sources {
		noise.Parts[n] = Part{Source: source}
		if estimated := found[source]; estimated.reason == "" {
			variance := max(0, estimated.variance)
			noise.Parts[n].Variance = &variance
		} else {
			reason := estimated.reason
			noise.Parts[n].Reason = &reason
		}
	}
	s.share(&noise)
	return noise
}

// share computes the parts' shares, and the other results that need the variances of all sources.
func (s scores) share(noise *Noise) {
	variance := func(source Source) float64 {
		if of := noise.Part(source).Variance; of != nil {
			return *of
		}
		return 0 // an unknown variance is included in the runs' part, or nothing can differ
	}
	if without := noise.Part(FromQuestion).Reason; without != nil { // shares need the variances of all sources
		for n := range noise.Parts {
			if noise.Parts[n].Reason == nil {
				noise.Parts[n].Reason = without
			}
		}
		return
	}
	single := 0.0
	for _, source := range Sources {
		single += variance(source)
	}
	runs, votes := s.perMean()
	errors := map[Source]float64{
		FromQuestion: variance(FromQuestion), FromMix: variance(FromMix), FromRun: variance(FromRun) * runs,
		FromVote: variance(FromVote) * votes,
	}
	all := errors[FromQuestion] + errors[FromMix] + errors[FromRun] + errors[FromVote]
	for n := range noise.Parts {
		part := &noise.Parts[n]
		if part.Variance == nil {
			continue
		}
		if single < noDeviation*noDeviation || all < noDeviation*noDeviation && part.Source != FromVariant {
			reason := NoVariation
			part.Reason = &reason
		}
		if single >= noDeviation*noDeviation {
			share := *part.Variance / single
			part.Share = &share
		}
		if of, counts := errors[part.Source]; counts && all >= noDeviation*noDeviation {
			share := of / all
			part.ErrorShare = &share
		}
	}
	if within := single - variance(FromVariant); within >= noDeviation*noDeviation {
		icc := (variance(FromQuestion) + variance(FromMix)) / within
		noise.ICC = &icc
	}
	if all >= noDeviation*noDeviation {
		errors[FromQuestion] += errors[FromMix] // more questions reduce both errors
		most := slices.MaxFunc(Advices, func(a, b Source) int { return cmp.Compare(errors[a], errors[b]) })
		noise.Advice = &most
	}
}

// estimated is the estimated variance from a source, or the reason why there is none.
type estimated struct {
	variance float64
	reason   UnknownReason
}

// cell holds the scores of one question and variant.
type cell struct {
	means []float64 // the mean of the votes on each of its runs
	// perVote is the mean over the runs of 1 / votes.
	perVote float64
}

// scores holds the scores of a task.
type scores struct {
	// cells is keyed by variant and question; items lists the questions in a fixed order.
	cells    map[int]map[int64]*cell
	items    []int64
	clusters int
	// between is the sum of the squared deviations of votes from their run's mean, and freedoms its degrees of freedom.
	between  float64
	freedoms int
}

func gather(all []Scored) scores {
	s := scores{cells: map[int]map[int64]*cell{}}
	clusters, items := map[string]bool{}, map[int64]bool{}
	for _, one := range all {
		if len(one.Votes) == 0 {
			continue
		}
		if s.cells[one.Variant] == nil {
			s.cells[one.Variant] = map[int64]*cell{}
		}
		of := s.cells[one.Variant][one.Item]
		if of == nil {
			of = &cell{}
			s.cells[one.Variant][one.Item], items[one.Item] = of, true
			cluster := "=" + one.Cluster
			if one.Cluster == "" {
				cluster = "#" + strconv.FormatInt(one.Item, 10)
			}
			clusters[cluster] = true
		}
		mean, runs := stat.Mean(one.Votes, nil), float64(len(of.means))
		of.perVote = (of.perVote*runs + 1/float64(len(one.Votes))) / (runs + 1)
		of.means = append(of.means, mean)
		for _, vote := range one.Votes {
			s.between += (vote - mean) * (vote - mean)
		}
		s.freedoms += len(one.Votes) - 1
	}
	s.items, s.clusters = slices.Sorted(maps.Keys(items)), len(clusters)
	return s
}

// each calls yield with all cells, in a fixed order.
func (s scores) each(yield func(*cell)) {
	for _, variant := range slices.Sorted(maps.Keys(s.cells)) {
		for _, item := range s.items {
			if of := s.cells[variant][item]; of != nil {
				yield(of)
			}
		}
	}
}

// perMean returns the fractions of the variances from runs and from votes that remain in a question's mean score: the
// means, over the cells, of 1 / runs and of 1 / (votes on all runs).
func (s scores) perMean() (runs, votes float64) {
	cells := 0.0
	s.each(func(of *cell) {
		share := 1 / float64(len(of.means))
		runs, votes, cells = runs+share, votes+share*of.perVote, cells+1
	})
	return runs / cells, votes / cells
}

// estimate returns the variance from each source: it equates the mean squares with their expected values and solves
// for the variances. A variance may be below 0.
func (s scores) estimate(hasVotes bool) map[Source]estimated {
	found := map[Source]estimated{}
	unknown := func(reason UnknownReason, sources ...Source) map[Source]estimated {
		for _, source := range sources {
			found[source] = estimated{reason: reason}
		}
		return found
	}
	vote := 0.0
	switch {
	case len(s.items) == 0:
		return unknown(NoScores, Sources...)
	case !hasVotes:
		unknown(NoJudge, FromVote)
	case s.freedoms == 0:
		unknown(OneVote, FromVote)
	default:
		vote = s.between / float64(s.freedoms)
		found[FromVote] = estimated{variance: vote}
	}
	squares, freedoms, votes := 0.0, 0.0, 0.0
	s.each(func(of *cell) {
		if own := float64(len(of.means) - 1); own > 0 {
			squares, freedoms, votes = squares+own*stat.Variance(of.means, nil), freedoms+own, votes+own*of.perVote
		}
	})
	if freedoms == 0 {
		return unknown(OneRun, FromQuestion, FromVariant, FromMix, FromRun)
	}
	run := (squares - votes*vote) / freedoms
	found[FromRun] = estimated{variance: run}
	if s.clusters < 2 {
		return unknown(OneCluster, FromQuestion, FromVariant, FromMix)
	}
	s.crossed(found, run, vote)
	return found
}

// crossed estimates the variances between the means of questions and variants, from questions that all variants have.
func (s scores) crossed(found map[Source]estimated, run, vote float64) {
	variants := slices.Sorted(maps.Keys(s.cells))
	var rows [][]float64 // for each question: its mean score in each variant
	noise := 0.0         // the mean variance of a mean score
	for _, item := range s.items {
		row, own := make([]float64, 0, len(variants)), 0.0
		for _, variant := range variants {
			if of := s.cells[variant][item]; of != nil {
				row, own = append(row, stat.Mean(of.means, nil)), own+(run+vote*of.perVote)/float64(len(of.means))
			}
		}
		if len(row) == len(variants) {
			rows, noise = append(rows, row), noise+own
		}
	}
	if len(rows) < 2 {
		for _, source := range []Source{FromQuestion, FromVariant, FromMix} {
			found[source] = estimated{reason: OneCluster}
		}
		return
	}
	n, a := float64(len(rows)), float64(len(variants))
	noise /= n * a
	columns, means := make([]float64, len(variants)), make([]float64, len(rows))
	for place, row := range rows {
		means[place] = stat.Mean(row, nil)
		for variant, mean := range row {
			columns[variant] += mean / n
		}
	}
	ofQuestions := a * stat.Variance(means, nil)
	if len(variants) == 1 {
		found[FromQuestion] = estimated{variance: ofQuestions - noise}
		found[FromVariant], found[FromMix] = estimated{reason: OneVariant}, estimated{reason: OneVariant}
		return
	}
	ofVariants, left, all := n*stat.Variance(columns, nil), 0.0, stat.Mean(means, nil)
	for place, row := range rows {
		for variant, mean := range row {
			rest := mean - means[place] - columns[variant] + all
			left += rest * rest
		}
	}
	ofMix := left / ((n - 1) * (a - 1))
	found[FromQuestion] = estimated{variance: (ofQuestions - ofMix) / a}
	found[FromVariant] = estimated{variance: (ofVariants - ofMix) / n}
	found[FromMix] = estimated{variance: ofMix - noise}
}

// Novelty estimates the chance that one more run gives a new answer: the number of answers given only once, divided by
// the number of answered runs (Good–Turing; Good 1953). letters has a letter for each run, as in Question.Letters; the
// result is nil if no run has an answer.
func Novelty(letters string) *float64 {
	counts, answered, once := map[rune]int{}, 0, 0
	for _, letter := range letters {
		if letter != '-' {
			counts[letter]++
			answered++
		}
	}
	if answered == 0 {
		return nil
	}
	for _, count := range counts {
		if count == 1 {
			once++
		}
	}
	return share(once, answered)
}
