package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure/facts"
)

const thirty = "收到申请后，应当在 30 日内书面答复申请人，并说明理由。"

// betweenThirty compares an answer with the constant thirty.
func betweenThirty(t *testing.T, b string) *Between {
	t.Helper()
	between, err := CompareAnswers(t.Context(), Answer{Key: Key([]byte(thirty)), Text: []byte(thirty)},
		Answer{Key: Key([]byte(b)), Text: []byte(b)})
	require.NoError(t, err)
	return &between
}

// A question is in the first group that fits: losses come before facts, facts before words, and form last.
func TestAQuestionIsInTheGroupThatMattersMost(t *testing.T) {
	t.Parallel()
	none, conflict := facts.None, facts.Conflict
	stable := ComparedQuestion{Level: Identical, SuccessRate: known(1), FactsDiffer: &none}
	for name, test := range map[string]struct {
		a, b    ComparedQuestion
		between *Between
		group   ChangeGroup
		losses  []Loss
	}{
		"equal":          {stable, stable, betweenThirty(t, thirty), Unchanged, nil},
		"another form":   {stable, stable, betweenThirty(t, "**"+thirty+"**"), FormatChanged, nil},
		"another number": {stable, stable, betweenThirty(t, "收到申请后，应当在 35 日内书面答复申请人，并说明理由。"), FactsChanged, nil},
		"other words":    {stable, stable, betweenThirty(t, "收到申请之后，应当在 30 日内书面答复申请人，并且说明理由。"), WordingChanged, nil},
		"another answer": {stable, stable, betweenThirty(t, "请联系人工客服。"), ContentChanged, nil},
		"a fact less":    {stable, stable, betweenThirty(t, "收到申请后，应当书面答复申请人，并说明理由。"), ContentChanged, nil},
		"no answer ever": {ComparedQuestion{SuccessRate: known(0)}, ComparedQuestion{SuccessRate: known(0)}, nil,
			NotComparable, nil},
		"no answer now": {stable, ComparedQuestion{SuccessRate: known(0.4)}, nil, Worse, []Loss{LostAnswer}},
		"one run fails": {stable, ComparedQuestion{Level: Identical, SuccessRate: known(0.8), FactsDiffer: &none},
			betweenThirty(t, thirty), Unchanged, nil},
		"an answer at last": {ComparedQuestion{SuccessRate: known(0)}, stable, nil, Better, nil},
		"fails by people": {
			with(stable, func(q *ComparedQuestion) {
				q.Opinion = "PASS"
			}), with(stable, func(q *ComparedQuestion) { q.Opinion = OpinionDivided }),
			betweenThirty(t, thirty), Worse, []Loss{LostVerdict},
		},
		"not judged yet": {with(stable, func(q *ComparedQuestion) {
			q.Opinion = "PASS"
		}), stable, betweenThirty(t, thirty), Unchanged, nil},
		"fails by evaluators": {
			with(stable, func(q *ComparedQuestion) {
				q.PassShare = known(0.6)
			}), with(stable, func(q *ComparedQuestion) { q.PassShare = known(0.4) }),
			betweenThirty(t, thirty), Worse, []Loss{LostVerdict},
		},
		"against the standard answer": {
			stable, with(stable, func(q *ComparedQuestion) {
				q.Expected = []ExpectedFact{{Text: "30 日"}}
			}), betweenThirty(t, thirty), Worse, []Loss{LostAccord},
		},
		"unstable": {
			with(stable, func(q *ComparedQuestion) { q.Score = known(0.9) }),
			with(stable, func(q *ComparedQuestion) { q.Level, q.FactsDiffer, q.Score = Facts, &conflict, known(0.8) }),
			betweenThirty(t, thirty), Worse, []Loss{LostStability, LostRating},
		},
		"contradicted the standard answer before": {
			with(stable, func(q *ComparedQuestion) {
				q.Expected = []ExpectedFact{{Text: "30 日"}}
			}), stable, betweenThirty(t, thirty), Better, nil,
		},
		"unstable before": {
			with(stable, func(q *ComparedQuestion) { q.Level, q.FactsDiffer = Facts, &conflict }), stable,
			betweenThirty(t, thirty), Better, nil,
		},
		"as often equal, of fewer answers before": {
			with(stable, func(q *ComparedQuestion) { q.SuccessRate, q.Agreement = known(0.6), known(0.3) }),
			with(stable, func(q *ComparedQuestion) { q.Level, q.Agreement = Wording, known(0.3) }),
			betweenThirty(t, thirty), Unchanged, nil,
		},
		"less often equal": {
			with(stable, func(q *ComparedQuestion) { q.Agreement = known(1) }),
			with(stable, func(q *ComparedQuestion) { q.Level, q.Agreement = Wording, known(0.3) }),
			betweenThirty(t, thirty), Worse, []Loss{LostStability},
		},
		"a score that wavers": {
			with(stable, func(q *ComparedQuestion) {
				q.Score = known(0.9)
			}), with(stable, func(q *ComparedQuestion) { q.Score = known(0.85) }),
			betweenThirty(t, thirty), Unchanged, nil,
		},
	} {
		pair := Pair{A: test.a, B: test.b, Transition: transition(test.a.Level, test.b.Level), Between: test.between}
		require.Equal(t, test.losses, pair.Losses(), name)
		require.Equal(t, test.group, pair.Group(), name)
	}
}

func with(q ComparedQuestion, change func(*ComparedQuestion)) ComparedQuestion {
	change(&q)
	return q
}

// The most important questions come first: the most serious losses, then facts, then questions that people had
// passed; differences in form come last.
func TestPairsComeByRisk(t *testing.T) {
	t.Parallel()
	none := facts.None
	question := func(number int, opinion string) ComparedQuestion {
		return ComparedQuestion{Number: number, Level: Identical, SuccessRate: known(1), FactsDiffer: &none, Opinion: opinion}
	}
	lost := question(0, "")
	lost.SuccessRate = known(0)
	unstable := question(0, "")
	unstable.Level = Different
	words := &Between{Level: Wording, Differ: facts.None}
	c := Comparison{Pairs: []Pair{
		{A: question(1, ""), B: question(1, ""), Between: &Between{Level: Identical, Differ: facts.None}},
		{A: question(2, ""), B: question(2, ""), Between: &Between{Level: FormatOnly, Differ: facts.None}},
		{A: question(3, ""), B: question(3, ""), Between: words},
		{A: question(4, "PASS"), B: question(4, ""), Between: words},
		{A: question(5, ""), B: question(5, ""), Between: &Between{Level: Different, Differ: facts.Conflict}},
		{A: question(6, ""), B: unstable, Transition: StableUnstable, Between: words},
		{A: question(7, ""), B: lost},
	}}
	var order []int
	for _, pair := range c.ByRisk() {
		order = append(order, pair.A.Number)
	}
	require.Equal(t, []int{7, 6, 5, 4, 3, 2, 1}, order)
	require.Equal(t, 2, c.InGroup(Worse))
	require.Equal(t, 1, c.Pairs[0].A.Number, "the pairs themselves stay as they are")
}

// Answers that are cut off just before they differ do not count as the same.
func TestAnswersThatPartBehindTheirCutDiffer(t *testing.T) {
	t.Parallel()
	between, err := CompareAnswers(t.Context(), Answer{Key: Key([]byte("长甲")), Text: []byte("长")},
		Answer{Key: Key([]byte("长乙")), Text: []byte("长")})
	require.NoError(t, err)
	require.Equal(t, Wording, between.Level)
}
