package measure

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func known(number float64) *float64 { return &number }

// The worked example of metrics.md: variants A and B on three questions.
func TestTheWorkedExample(t *testing.T) {
	t.Parallel()
	question := func(id string, agreement, success, latency float64) ComparedQuestion {
		return ComparedQuestion{ID: int64(len(id)), QuestionID: id, Text: id, Level: Different, Agreement: known(agreement),
			SuccessRate: known(success), LatencyMS: known(latency)}
	}
	a := []ComparedQuestion{question("1", 0.3, 1, 120), question("22", 1, 1, 50), question("333", 0.1, 0.6, 200)}
	b := []ComparedQuestion{question("1", 1, 1, 90), question("22", 0.6, 1, 60), question("333", 0.6, 0.8, 100)}
	c := CompareTasks(a, b)
	requireChange := func(change Change, mean, se, low, high, p float64) {
		t.Helper()
		require.Equal(t, 3, change.N)
		require.Zero(t, change.LeftOut)
		require.InDelta(t, mean, *change.Mean, 1e-4)
		require.InDelta(t, se, *change.SE, 1e-4)
		require.InDelta(t, low, *change.Low, 1e-4)
		require.InDelta(t, high, *change.High, 1e-4)
		require.InDelta(t, p, *change.P, 1e-4)
		require.False(t, change.IsShown())
	}
	requireChange(c.Agreement, 0.2667, 0.3383, -1.1889, 1.7222, 0.5131)
	requireChange(c.LatencyMS, -40, 32.1455, -178.3109, 98.3109, 0.3394)
}

func TestTheEdgesOfAChange(t *testing.T) {
	t.Parallel()
	require.Equal(t, Change{LeftOut: 4}, paired(nil, nil, nil, 4), "nothing is known")
	require.Equal(t, Change{N: 1, LeftOut: 1, Clusters: 1, MeanA: known(0), MeanB: known(0.5), Mean: known(0.5)},
		paired([]float64{0}, []float64{0.5}, make([]string, 1), 1), "one difference has no spread")
	require.Equal(t, Change{N: 2, Clusters: 2, MeanA: known(0.25), MeanB: known(0.75), Mean: known(0.5), SE: known(0)},
		paired([]float64{0, 0.5}, []float64{0.5, 1}, make([]string, 2), 0), "no spread gives no interval")
	same := paired([]float64{0.25, 1}, []float64{0.25, 1}, make([]string, 2), 0)
	require.Equal(t, Change{N: 2, Clusters: 2, MeanA: known(0.625), MeanB: known(0.625), Mean: known(0), SE: known(0),
		Low: known(0), High: known(0), P: known(1)}, same)
	require.False(t, same.IsShown())
	require.True(t, paired([]float64{0, 0, 0}, []float64{0.5, 0.51, 0.49}, make([]string, 3), 0).IsShown())
	require.True(t, paired([]float64{0.5, 0.51, 0.49}, []float64{0, 0, 0}, make([]string, 3), 0).IsShown())
}

func TestQuestionsFindTheirPartners(t *testing.T) {
	t.Parallel()
	a := []ComparedQuestion{
		{ID: 1, QuestionID: "q1", Text: "x", Level: Identical},
		{ID: 2, QuestionID: "q2", Text: "y", Level: FormatOnly},
		{ID: 3, QuestionID: "old", Text: "z", Level: Wording},
		{ID: 4, QuestionID: "gone", Text: "only a", Level: Different},
		{ID: 5, QuestionID: "twin", Text: "z", Level: Different},
		{ID: 6, QuestionID: "q6", Text: "v", Level: Empty},
	}
	b := []ComparedQuestion{
		{ID: 11, QuestionID: "q1", Text: "another text", Level: Different},
		{ID: 12, QuestionID: "q2", Text: "y", Level: Identical},
		{ID: 13, QuestionID: "new", Text: "z", Level: Identical},
		{ID: 14, QuestionID: "came", Text: "only b"},
		{ID: 16, QuestionID: "q6", Text: "v", Level: Identical},
	}
	c := CompareTasks(a, b)
	require.Equal(t, []Pair{
		{A: a[0], B: b[0], Transition: StableUnstable},
		{A: a[1], B: b[1], Transition: StableStable},
		{A: a[2], B: b[2], Transition: UnstableStable, ByText: true},
		{A: a[5], B: b[4], Transition: UnknownTransition},
	}, c.Pairs)
	require.Equal(t, []ComparedQuestion{a[3], a[4]}, c.OnlyA, "a text asked twice has one partner")
	require.Equal(t, []ComparedQuestion{b[3]}, c.OnlyB)
	require.Equal(t, 1, c.Count(StableUnstable))
	require.Equal(t, 0, c.Count(UnstableUnstable))
	require.Equal(t, 4, c.Agreement.LeftOut)
}

// Every question is in exactly one place, and comparing in the opposite direction mirrors the counts.
func TestAComparisonIsCompleteAndMirrored(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	mirrored := map[Transition]Transition{StableStable: StableStable, StableUnstable: UnstableStable,
		UnstableStable: StableUnstable, UnstableUnstable: UnstableUnstable, UnknownTransition: UnknownTransition}
	for range 500 {
		questions := func(from int64) (all []ComparedQuestion) {
			taken := map[string]bool{}
			for n := range random.Int64N(12) {
				id := "q" + strconv.Itoa(random.IntN(15))
				if taken[id] {
					continue
				}
				taken[id] = true
				q := ComparedQuestion{ID: from + n, QuestionID: id, Text: strconv.Itoa(random.IntN(6)),
					Level: Levels[random.IntN(len(Levels))]}
				if random.IntN(3) > 0 {
					q.Agreement = known(random.Float64())
				}
				all = append(all, q)
			}
			return all
		}
		a, b := questions(0), questions(100)
		there, back := CompareTasks(a, b), CompareTasks(b, a)
		require.Len(t, a, len(there.Pairs)+len(there.OnlyA))
		require.Len(t, b, len(there.Pairs)+len(there.OnlyB))
		require.Len(t, back.Pairs, len(there.Pairs))
		require.Len(t, there.Pairs, there.Agreement.N+there.Agreement.LeftOut)
		for transition, opposite := range mirrored {
			if len(there.Pairs) == countByID(there) { // questions that share a text may be paired differently
				require.Equal(t, there.Count(transition), back.Count(opposite))
			}
		}
	}
}

func countByID(c Comparison) (count int) {
	for _, pair := range c.Pairs {
		if !pair.ByText {
			count++
		}
	}
	return count
}

// rankBy ranks by a single number.
func rankBy(variants [][]ComparedQuestion, by By) (ranking Ranking, isKnown bool) {
	if found := Rank(variants, []By{by}, Matters{})[0]; found != nil {
		return *found, true
	}
	return Ranking{}, false
}

// A variant is best only if it beats every other, question by question, beyond chance.
func TestTheBestVariantBeatsEveryOther(t *testing.T) {
	t.Parallel()
	variant := func(agreements ...float64) (questions []ComparedQuestion) {
		for n := range agreements {
			questions = append(questions, ComparedQuestion{ID: int64(n), Agreement: &agreements[n]})
		}
		return questions
	}
	agreement := func(q ComparedQuestion) *float64 { return q.Agreement }
	low, high := variant(.1, .2, .1, .2), variant(.8, .9, .9, .9)
	for name, test := range map[string]struct {
		variants     [][]ComparedQuestion
		isLessBetter bool
		want         Ranking
		isBest       bool
	}{
		"one alone":  {[][]ComparedQuestion{high}, false, Ranking{}, false},
		"the higher": {[][]ComparedQuestion{low, high}, false, Ranking{Leader: 1, Worse: []int{0}}, true},
		"the lower":  {[][]ComparedQuestion{low, high}, true, Ranking{Leader: 0, Worse: []int{1}}, true},
		"chance": {[][]ComparedQuestion{variant(.1, .9, .2, .8), variant(.9, .1, .8, .3)}, false,
			Ranking{Leader: 1, Alike: []int{0}}, false},
		"one of the others is equal": {[][]ComparedQuestion{low, high, variant(.9, .8, .9, .9)}, false,
			Ranking{Leader: 1, Worse: []int{0}, Alike: []int{2}, Tied: []int{2}}, false},
		"better by the same on each": {[][]ComparedQuestion{variant(.1, .1), variant(.9, .9)}, false,
			Ranking{Leader: 1, Each: []int{0}}, false},
		"the other is not known": {[][]ComparedQuestion{high, {{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}}}, false,
			Ranking{Unknown: []int{1}}, false},
	} {
		ranking, isKnown := rankBy(test.variants, By{Of: agreement, IsLessBetter: test.isLessBetter})
		require.True(t, isKnown, name)
		require.Equal(t, test.want, ranking, name)
		require.Equal(t, test.isBest, ranking.IsBest(), name)
	}
	_, isKnown := rankBy([][]ComparedQuestion{{{ID: 1}}, {{ID: 1}}}, By{Of: agreement})
	require.False(t, isKnown, "nothing is known")
}

// A variant that answers little is not praised for being fast when it answers: neither one that refuses, nor one
// that often fails.
func TestWhoAnswersLittleDoesNotLeadByItsAnswers(t *testing.T) {
	t.Parallel()
	variant := func(success []float64, latency ...float64) (questions []ComparedQuestion) {
		for n := range success {
			one := ComparedQuestion{ID: int64(n), SuccessRate: &success[n]}
			if success[n] > 0 {
				one.LatencyMS = &latency[n]
			}
			questions = append(questions, one)
		}
		return questions
	}
	all := []float64{1, 1, 1, 1}
	slow, slower := variant(all, 500, 510, 490, 505), variant(all, 900, 920, 880, 910)
	latency := By{Of: func(q ComparedQuestion) *float64 { return q.LatencyMS }, IsLessBetter: true, IsOfAnswers: true}
	for name, test := range map[string]struct {
		variants [][]ComparedQuestion
		want     Ranking
	}{
		"who never answers": {[][]ComparedQuestion{variant([]float64{0, 0, 0, 0}), slow, slower},
			Ranking{Leader: 1, Worse: []int{2}, Unknown: []int{0}, Seldom: []int{0}}},
		"who answers one in five": {[][]ComparedQuestion{variant([]float64{.2, .2, .2, .2}, 5, 6, 5, 6), slow,
			slower}, Ranking{Leader: 1, Worse: []int{2}, Unknown: []int{0}, Seldom: []int{0}}},
		"who answers clearly less": {[][]ComparedQuestion{slow, variant([]float64{.4, .6, .4, .2}, 5, 6, 5, 6),
			slower}, Ranking{Leader: 0, Worse: []int{2}, Unknown: []int{1}, Seldom: []int{1}}},
		"who answers less and is slower": {[][]ComparedQuestion{slow,
			variant([]float64{.4, .6, .4, .2}, 905, 910, 900, 890)}, Ranking{Leader: 0, Worse: []int{1}, Seldom: []int{1}}},
		"one failure may be chance": {[][]ComparedQuestion{variant([]float64{1, .8, 1, 1}, 5, 6, 5, 6), slow},
			Ranking{Leader: 0, Worse: []int{1}}},
		"only who answers can be compared": {[][]ComparedQuestion{variant([]float64{0, 0, 0, 0}), slow},
			Ranking{Leader: 1, Unknown: []int{0}, Seldom: []int{0}}},
	} {
		ranking, isKnown := rankBy(test.variants, latency)
		require.True(t, isKnown, name)
		require.Equal(t, test.want, ranking, name)
	}
	success := By{Of: func(q ComparedQuestion) *float64 { return q.SuccessRate }}
	ranking, _ := rankBy([][]ComparedQuestion{slow, variant([]float64{.4, .6, .4, .2}, 5, 6, 5, 6)}, success)
	require.Equal(t, Ranking{Leader: 0, Worse: []int{1}}, ranking, "how often a variant answers is no number of answers")
}

func TestHowFarALeaderIsAhead(t *testing.T) {
	t.Parallel()
	variant := func(shares ...float64) (questions []ComparedQuestion) {
		for n := range shares {
			questions = append(questions, ComparedQuestion{ID: int64(n), Agreement: &shares[n]})
		}
		return questions
	}
	by := By{Of: func(q ComparedQuestion) *float64 { return q.Agreement }}
	variants := [][]ComparedQuestion{variant(.1, .2, .1), variant(.9, .8, .9), variant(.5, .6, .7)}
	ranking, isKnown := rankBy(variants, by)
	require.True(t, isKnown)
	lead := LeadOf(variants, by, ranking)
	require.Equal(t, 2, lead.Over, "the next best, not the first")
	require.InDelta(t, .8/3, *lead.Change.Mean, 1e-9)
	by.IsLessBetter = true
	ranking, _ = rankBy(variants, by)
	lead = LeadOf(variants, by, ranking)
	require.Equal(t, 2, lead.Over)
	require.InDelta(t, -1.4/3, *lead.Change.Mean, 1e-9)
	require.Nil(t, LeadOf(variants[:1], by, Ranking{}), "alone")
	require.Nil(t, LeadOf([][]ComparedQuestion{variants[0], {{ID: 0}, {ID: 1}, {ID: 2}}}, by, Ranking{}),
		"nothing in common")
	require.Nil(t, LeadOf(variants, by, Ranking{Leader: 0, Seldom: []int{1, 2}}), "the others answer seldom")
}

// A difference that is too small to matter does not make a variant better, however certain the difference is.
func TestADifferenceThatDoesNotMatterMakesNothingBetter(t *testing.T) {
	t.Parallel()
	latency := By{Of: func(q ComparedQuestion) *float64 { return q.LatencyMS }, IsLessBetter: true, Limit: OfAmounts}
	variant := func(ms ...float64) (questions []ComparedQuestion) {
		for n := range ms {
			questions = append(questions, ComparedQuestion{ID: int64(n), LatencyMS: &ms[n]})
		}
		return questions
	}
	fast, near, slow, even := variant(39, 39.2, 38.9, 39.1), variant(40, 40.3, 39.9, 40.2), variant(60, 61, 59, 60),
		variant(40, 40.2, 39.9, 40.1)
	matters := Matters{Share: 0.01, Part: 0.05}
	for name, test := range map[string]struct {
		variants [][]ComparedQuestion
		want     Ranking
		isBest   bool
	}{
		"39 ms against 40": {[][]ComparedQuestion{fast, near}, Ranking{Slight: []int{1}}, false},
		"39 ms against 60": {[][]ComparedQuestion{fast, slow}, Ranking{Worse: []int{1}}, true},
		"both": {[][]ComparedQuestion{near, fast, slow},
			Ranking{Leader: 1, Worse: []int{2}, Slight: []int{0}}, false},
		"by the same, too small": {[][]ComparedQuestion{fast, even}, Ranking{Slight: []int{1}}, false},
	} {
		ranking := Rank(test.variants, []By{latency}, matters)[0]
		require.Equal(t, test.want, *ranking, name)
		require.Equal(t, test.isBest, ranking.IsBest(), name)
		require.False(t, ranking.ShowsNone(), name)
	}
	share := By{Of: func(q ComparedQuestion) *float64 { return q.Agreement }, Limit: OfShares}
	shares := func(a ...float64) (questions []ComparedQuestion) {
		for n := range a {
			questions = append(questions, ComparedQuestion{ID: int64(n), Agreement: &a[n]})
		}
		return questions
	}
	low, high := shares(.800, .801, .800, .799, .800), shares(.805, .807, .804, .806, .805)
	require.NotNil(t, Win([][]ComparedQuestion{low, high}, share, Matters{}))
	require.Nil(t, Win([][]ComparedQuestion{low, high}, share, matters), "half a percentage point")
}
